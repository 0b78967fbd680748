/* SPDX-License-Identifier: Apache-2.0
 * Helpers to read descs and arguments: which dims are an image's height, width and channels, and arguments with one value for all channels or one for each. */
#ifndef STK_OP_DIMS_H
#define STK_OP_DIMS_H

#include "op/op.h"

/* The dims of an image in its desc; -1: no such dim. A desc without layout is taken as HW, HWC, FHWC or FDHWC, by its ndim. */
struct stk_dims {
	int32_t h, w, c;
	bool known; /* false: ndim is not known yet (while a graph is built) */
};

/* Returns a text for the end of an error message, which advises to decode the input first; "" unless `desc` looks like the bytes of a file. */
const char *stk__decode_first(const struct stk_desc *desc);

/* Sets *out to the dims of the image that `desc` describes. STK_SHAPE: `desc` does not describe an image. */
enum stk_status stk__dims_of(const struct stk_desc *desc, struct stk_dims *out, struct stk_error *err);

/* Does the same as stk__dims_of, but also returns STK_SHAPE unless the width follows the height directly. For loops over rows of pixels. */
enum stk_status stk__dims_of_rows(const struct stk_desc *desc, struct stk_dims *out, struct stk_error *err);

/* Does the same as stk__dims_of_rows, but also returns STK_SHAPE if the image has a dim of channels that does not follow the width, or whose extent is
 * neither 1 nor 3. Sets *channels to the number of channels: 1 without such a dim, -1 if it is not known. For loops over pixels. */
enum stk_status stk__dims_of_pixels(const struct stk_desc *desc, struct stk_dims *out, int64_t *channels, struct stk_error *err);

/* Returns the number of channels: 1 if the image has no such dim, -1 if it is not known. */
static inline int64_t stk__dims_channels(const struct stk_dims *d, const struct stk_desc *desc)
{
	return !d->known ? -1 : d->c < 0 ? 1 : desc->shape[d->c];
}

/* An image as rows of pixels: the dims before its height are counted as frames, the dims after its width as channels. */
struct stk_rows {
	int64_t frames, channels; /* -1: not known; larger numbers than INT32_MAX are stored as INT32_MAX */
	int32_t height, width;    /* only valid for images in memory */
};
struct stk_rows stk__rows_of(const struct stk_dims *d, const struct stk_desc *desc);

/* Returns the layout of `desc` or, if it has none, the layout that is assumed for its number of dims, such as "HWC" for 3; "" if none is. */
const char *stk__layout_of(const struct stk_desc *desc);

/* If def is an operator on images and the desc has no layout, sets the one that stk__layout_of assumes, or DHWC for 4 dims if def also takes volumes. */
void stk__layout_name(const struct stk_op_def *def, struct stk_desc *desc);

/* Returns the index of a dim's letter in the layout, or -1. */
int32_t stk__layout_find(const struct stk_desc *desc, char name);

/* Returns true while a graph is built: inputs then have no data, and readers no bytes. */
static inline bool stk__building(const struct stk_call *call)
{
	return !call->tools;
}

/* Returns the tensor with the type in which its elements are stored: int32 for enumerations. */
static inline struct stk_tensor stk__stored(const struct stk_tensor *t)
{
	struct stk_tensor stored = *t;
	stored.desc.dtype = stk__dtype_stored(t->desc.dtype);
	return stored;
}

static inline enum stk_dtype stk__dtype_or(int32_t given, enum stk_dtype fallback)
{
	return given < 0 ? fallback : (enum stk_dtype)given;
}

/* Returns STK_INVALID unless there is one value, or one for each of n channels. The message names the argument as `name`. */
enum stk_status stk__check_per_channel(const char *name, struct stk_floats values, int64_t n, struct stk_error *err);

/* Sets out[0 .. n - 1] to the value of each channel; a single value is used for all channels. Fails as stk__check_per_channel does, and with STK_UNSUPPORTED if
 * n is above STK_PASS_MAX_CHANNELS. */
enum stk_status stk__per_channel(const char *name, struct stk_floats values, int64_t n, float *out, struct stk_error *err);

/* Returns STK_SHAPE unless the matrix has these numbers of rows (-1: any) and columns. shape: the shape that follows the STK_SHAPED argument `name` in the
 * operator's struct. If the argument does not have two dims or more, nothing is checked: its values are the matrix row by row, and the caller must check their
 * number. */
enum stk_status stk__check_matrix(const char *name, struct stk_ints shape, int64_t rows, int64_t columns, struct stk_error *err);

/* Returns false for types of floats, and true for all others: integers, bool, enumerations and STK_NO_DTYPE. */
bool stk__dtype_whole(enum stk_dtype dtype);

/* For operators that have both lower and lower_jobs and compute on values: returns `classes`, or STK_CLASS_NEVER for types that a pass cannot compute on,
 * for unknown types, and if `in` is NULL. */
static inline unsigned stk__classes_for(const struct stk_desc *in, unsigned classes)
{
	return in && stk__dtype_in_float(in->dtype) ? classes : STK_CLASS_NEVER;
}

#endif
