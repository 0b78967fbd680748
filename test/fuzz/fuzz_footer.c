/* SPDX-License-Identifier: Apache-2.0
 * Footers of Parquet files: a message is given exactly if the footer is refused, and an accepted footer stays accepted if bytes follow it. */
#include "../../python/src/footer.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *fault;
	enum footer_kind kind = footer_check(data, size, &fault);
	if (kind == FOOTER_GOOD ? fault != NULL : !fault || !*fault)
		abort();
	uint8_t *longer = malloc(size + 16);
	if (!longer)
		abort();
	memcpy(longer, data, size);
	memset(longer + size, 0xff, 16);
	if (kind == FOOTER_GOOD && footer_check(longer, size + 16, &fault) != FOOTER_GOOD)
		abort();
	free(longer);
	return 0;
}
