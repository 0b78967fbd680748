/* SPDX-License-Identifier: Apache-2.0
 * From the bytes of an .npy file to a tensor, for operators that read such files. Kept in the operator's state from infer to run. */
#ifndef STK_OP_NPY_ARRAY_H
#define STK_OP_NPY_ARRAY_H

#include "format/npy.h"
#include "op/nd.h"

struct stk_npy_array {
	struct stk_npy file;
	struct stk_desc whole;
	struct stk_window window; /* what is kept; everything to begin with */
	const void *elements;     /* in the machine's byte order, at an address that suits their type */
};

/* Parses the file. `data` outlives the sample's chain. */
STK_MUST_USE enum stk_status stk__npy_array_take(
	const struct stk_call *call, const uint8_t *data, size_t size, struct stk_npy_array *out, struct stk_error *err);

/* Sets the output's desc, of `dtype`, and its data where the file's own bytes can serve (a view). */
void stk__npy_array_place(const struct stk_npy_array *a, enum stk_dtype dtype, struct stk_tensor *out);

/* Where no view can serve: copies the window in C order, converted to the output's type, with `fill` where it reaches outside. Bools become 0 or 1,
 * whatever the file holds. */
STK_MUST_USE enum stk_status stk__npy_array_copy(
	const struct stk_call *call, const struct stk_npy_array *a, float fill, struct stk_error *err);

#endif
