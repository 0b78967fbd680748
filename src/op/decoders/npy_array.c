/* SPDX-License-Identifier: Apache-2.0 */
#include "op/decoders/npy_array.h"

#include "kernel/convert/convert.h"
#include "kernel/copy/copy.h"

#include <string.h>

static void swap_bytes(uint8_t *data, size_t bytes, size_t element)
{
	for (size_t i = 0; i < bytes; i += element)
		for (size_t k = 0; k < element / 2; k++) {
			uint8_t t = data[i + k];
			data[i + k] = data[i + element - 1 - k];
			data[i + element - 1 - k] = t;
		}
}

/* Sets a->elements to the file's bytes at `data` if they have the byte order and alignment that tensors need, otherwise to a converted copy in the arena. */
static enum stk_status take_elements(const struct stk_call *call, const uint8_t *data, struct stk_npy_array *a, struct stk_error *err)
{
	const struct stk_npy *f = &a->file;
	size_t element = stk_dtype_size(f->dtype);
	a->elements = data;
	if (!f->swapped && (uintptr_t)data % element == 0)
		return STK_OK;
	uint8_t *copy = stk__arena_take(call->tools->arena, f->bytes ? f->bytes : 1);
	if (!copy)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %zu bytes of an array", f->bytes);
	memcpy(copy, data, f->bytes);
	if (f->swapped)
		swap_bytes(copy, f->bytes, element);
	a->elements = copy;
	return STK_OK;
}

enum stk_status stk__npy_array_take(
	const struct stk_call *call, const uint8_t *data, size_t size, struct stk_npy_array *out, struct stk_error *err)
{
	enum stk_status s = stk__npy_parse(data, size, &out->file, err);
	if (s)
		return s;
	out->whole = (struct stk_desc){.dtype = out->file.dtype, .ndim = out->file.ndim};
	memcpy(out->whole.shape, out->file.shape, sizeof out->file.shape);
	out->window = stk__window_full(&out->whole);
	return take_elements(call, data + out->file.begin, out, err);
}

void stk__npy_array_place(const struct stk_npy_array *a, enum stk_dtype dtype, struct stk_tensor *out)
{
	bool as_is = !a->file.fortran && dtype == a->file.dtype && dtype != STK_BOOL;
	out->desc = a->whole;
	out->desc.dtype = dtype;
	for (int32_t d = 0; d < a->whole.ndim; d++) {
		as_is &= a->window.start[d] == 0 && a->window.extent[d] == a->whole.shape[d];
		out->desc.shape[d] = a->window.extent[d];
	}
	if (as_is)
		out->data = (void *)(uintptr_t)a->elements;
}

enum stk_status stk__npy_array_copy(const struct stk_call *call, const struct stk_npy_array *a, float fill, struct stk_error *err)
{
	const struct stk_tensor in = {.desc = a->whole, .data = (void *)(uintptr_t)a->elements}, *out = &call->out[0];
	struct stk_copy_dim dims[STK_MAX_DIMS];
	int64_t stride = 1;
	uint64_t outside = 0; /* as wide as an element of any type */
	stk__convert(&outside, out->desc.dtype, &fill, STK_FLOAT, 1);
	stk__copy_dims(dims, a->whole.ndim, a->whole.shape, NULL, a->window.start, NULL, out->desc.shape);
	for (int32_t d = 0; a->file.fortran && d < a->whole.ndim; d++) {
		dims[d].src = stride;
		stride *= a->whole.shape[d];
	}
	bool convert = out->desc.dtype != a->whole.dtype || out->desc.dtype == STK_BOOL;
	return stk__job_copy(&call->tools->cpu_jobs, &in, out, dims, a->whole.ndim, &outside, convert, err);
}
