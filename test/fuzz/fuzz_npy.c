/* SPDX-License-Identifier: Apache-2.0
 * .npy files: an accepted file must have a supported type, and a number of elements that agrees with the file's size. */
#include "fuzz.h"

#include "base/error.h"
#include "format/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stk_npy f;
	struct stk_error err = {0};
	if (stk__npy_parse(data, size, &f, &err)) {
		if (!err.message[0])
			abort();
		return 0;
	}
	size_t bytes = stk_dtype_size(f.dtype);
	for (int32_t d = 0; d < f.ndim; d++)
		bytes *= (size_t)f.shape[d];
	if (f.dtype == STK_NO_DTYPE || f.ndim < 0 || f.ndim > STK_MAX_DIMS || f.begin > size || f.bytes != bytes ||
		f.bytes > size - f.begin)
		abort();
	return 0;
}
