/* SPDX-License-Identifier: Apache-2.0
 * NumPy's .npy files, versions 1 to 3 (numpy.lib.format): a header that is a Python dict, followed by the elements. */
#ifndef STK_FORMAT_NPY_H
#define STK_FORMAT_NPY_H

#include "stoker/status.h"
#include "stoker/tensor.h"

#include <stdbool.h>
#include <stddef.h>

struct stk_npy {
	enum stk_dtype dtype;
	int32_t ndim;
	int64_t shape[STK_MAX_DIMS];
	bool fortran; /* true for Fortran order: elements along the first dim are adjacent */
	bool swapped; /* true if the elements are big-endian */
	size_t begin; /* offset of the elements in the file */
	size_t bytes; /* total size of the elements; begin + bytes is at most the file's size */
};

/* Parses the header. data: a whole file of `size` bytes. STK_UNSUPPORTED: the file is valid, but no tensor can hold its elements. */
STK_MUST_USE enum stk_status stk__npy_parse(const uint8_t *data, size_t size, struct stk_npy *out, struct stk_error *err);

#endif
