/* SPDX-License-Identifier: Apache-2.0
 * CIFAR's records: the first byte gives the expected numbers of label bytes and of records, and the rest is the file. */
#include "fuzz.h"

#include "format/cifar.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	int label_bytes = 1 + (data[0] & 1);
	int64_t expected = data[0] >> 1 & 3;
	struct stk_error err = {0};
	if (stk__cifar_check(data + 1, size - 1, label_bytes, expected, "fuzz", &err)) {
		if (!err.message[0])
			abort();
	} else if (size - 1 != (size_t)expected * ((size_t)label_bytes + STK_CIFAR_PIXELS)) {
		abort();
	}
	return 0;
}
