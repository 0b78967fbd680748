/* SPDX-License-Identifier: Apache-2.0
 * Turns the bytes of an .npy file into a tensor, for operators that read such files. struct stk_npy_array is the state that infer passes to run. */
#ifndef STK_OP_NPY_ARRAY_H
#define STK_OP_NPY_ARRAY_H

#include "format/npy.h"
#include "op/nd.h"

struct stk_npy_array {
	struct stk_npy file;
	struct stk_desc whole;
	struct stk_window window; /* the window to keep; at first everything */
	const void *elements;     /* in the machine's byte order, at an address that is aligned for their type */
};

/* Parses the file. out->elements points into `data`, which must outlive the sample's chain, or to a copy in the arena if bytes must be swapped or aligned. */
STK_MUST_USE enum stk_status stk__npy_array_take(
	const struct stk_call *call, const uint8_t *data, size_t size, struct stk_npy_array *out, struct stk_error *err);

/* Sets the output's desc, with type `dtype`. If the file's own bytes can be used, the output becomes a view of them: its data is set too. */
void stk__npy_array_place(const struct stk_npy_array *a, enum stk_dtype dtype, struct stk_tensor *out);

/* Copies the window in C order if a view is not possible, converted to the output's type, with `fill` outside of the array. Bools become 0 or 1, even if the
 * file holds other bytes. */
STK_MUST_USE enum stk_status stk__npy_array_copy(
	const struct stk_call *call, const struct stk_npy_array *a, float fill, struct stk_error *err);

#endif
