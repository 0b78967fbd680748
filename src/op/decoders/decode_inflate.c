/* SPDX-License-Identifier: Apache-2.0
 * decoders.inflate: unpacks LZ4 blocks, in the format that nvCOMP uses (github.com/lz4/lz4, doc/lz4_Block_format.md). */
#include "op/nd.h"

#include <stdio.h>
#include <string.h>

struct inflate {
	struct stk_ints shape, chunk_offsets, chunk_sizes;
	int32_t dtype;
	const char *algorithm, *layout, *sequence_axis_name;
	bool check_output_size; /* accepted for compatibility with DALI, without effect */
};

#define CHUNKS(member, text) STK_ARG(struct inflate, member, STK_ARG_INTS, NULL, (0, 0x1p40), STK_PER_SAMPLE | STK_SCALAR_OK, text)

static const struct stk_arg_def inflate_args[] = {
	{.name = "shape",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK | STK_REQUIRED,
		.offset = offsetof(struct inflate, shape),
		.min = 0,
		.max = 0x1p40,
		.shapes = true,
		.doc = "Shape of an unpacked chunk."},
	STK_ARG(struct inflate, dtype, STK_ARG_DTYPE, "0", (0, STK_DTYPE_COUNT - 1), 0, "Type of its elements."),
	CHUNKS(chunk_offsets,
		"Starts of the sample's chunks. Default: the chunks follow each other, by chunk_sizes; without those the sample is one "
		"chunk."),
	CHUNKS(chunk_sizes, "Number of bytes of each chunk. Default: each chunk ends at the next one, by chunk_offsets."),
	STK_ARG(struct inflate, layout, STK_ARG_STRING, "\"\"", STK_FREE, 0, "Layout of a chunk."),
	STK_ARG(struct inflate, sequence_axis_name, STK_ARG_STRING, "\"F\"", STK_FREE, 0,
		"Letter of the dim of chunks, which precedes the layout of a chunk."),
	{.name = "algorithm",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct inflate, algorithm),
		.fallback = "\"LZ4\"",
		.choices = "LZ4",
		.doc = "How it was packed."},
	STK_ARG(struct inflate, check_output_size, STK_ARG_BOOL, "false", STK_FREE, STK_ACCEPTED,
		"Accepted and ignored: the size is always "
		"checked."),
	STK_ARG_END,
};

/* ---- chunks ---- */

static bool has_chunks(const struct stk_call *call)
{
	const struct inflate *a = call->args;
	return a->chunk_offsets.count >= 0 || a->chunk_sizes.count >= 0 || stk__varies(call, &a->chunk_offsets) ||
	       stk__varies(call, &a->chunk_sizes);
}

static int32_t chunk_count(const struct inflate *a)
{
	return a->chunk_sizes.count >= 0 ? a->chunk_sizes.count : a->chunk_offsets.count >= 0 ? a->chunk_offsets.count : 1;
}

/* Sets *at, which on entry is the end of chunk i - 1, to the offset of chunk i in a sample of `size` bytes, and *bytes to the chunk's size. If no offsets are
 * given, the chunk begins at the end of chunk i - 1. Without sizes, a chunk ends where the next chunk begins, and the last chunk where the sample ends.
 * STK_INVALID: the chunk reaches outside of the sample. */
static enum stk_status place_chunk(const struct inflate *a, int32_t i, size_t size, size_t *at, size_t *bytes, struct stk_error *err)
{
	if (a->chunk_offsets.count >= 0)
		*at = (size_t)a->chunk_offsets.v[i];
	size_t end = size;
	if (a->chunk_sizes.count >= 0)
		end = *at + (size_t)a->chunk_sizes.v[i];
	else if (i + 1 < a->chunk_offsets.count)
		end = (size_t)a->chunk_offsets.v[i + 1];
	if (*at > size || end > size || end < *at)
		return stk__fail(
			err, STK_INVALID, "chunk %d, from %zu to %zu, reaches outside of the sample's %zu bytes", i, *at, end, size);
	*bytes = end - *at;
	return STK_OK;
}

/* ---- LZ4 ---- */

/* If *length is 15, adds the bytes at *p, up to and including the first byte that is not 255, and moves *p past them. Returns false if the data ends before
 * such a byte. */
static bool take_length(const uint8_t **p, const uint8_t *end, size_t *length)
{
	uint8_t more = *length == 15 ? 255 : 0;
	while (more == 255) {
		if (*p == end)
			return false;
		more = *(*p)++;
		*length += more;
	}
	return true;
}

/* Unpacks an LZ4 block to exactly `need` bytes. Returns false if the block is damaged, or has more or fewer bytes. */
static bool unpack_lz4(const uint8_t *p, size_t size, uint8_t *to, size_t need)
{
	const uint8_t *end = p + size;
	size_t made = 0;
	while (p < end) {
		size_t literals = *p >> 4, match = *p & 15;
		p++;
		if (!take_length(&p, end, &literals) || literals > (size_t)(end - p) || literals > need - made)
			return false;
		memcpy(to + made, p, literals);
		made += literals;
		p += literals;
		if (p == end) /* the last sequence has only literals */
			return made == need;
		if (end - p < 2)
			return false;
		size_t back = p[0] | (size_t)p[1] << 8;
		p += 2;
		if (!take_length(&p, end, &match) || back == 0 || back > made || match + 4 > need - made)
			return false;
		for (size_t i = 0; i < match + 4; i++, made++) /* byte by byte, since the source may overlap the bytes that are written */
			to[made] = to[made - back];
	}
	return false;
}

/* ---- the operator ---- */

static enum stk_status inflate_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct inflate *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_desc *out = &call->out[0].desc;
	bool chunks = has_chunks(call);
	if ((in->ndim >= 0 && in->ndim != 1) || (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8))
		return stk__fail(err, STK_INVALID, "the input must be packed bytes, a uint8 tensor of 1 dim");
	if (a->chunk_offsets.count >= 0 && a->chunk_sizes.count >= 0 && a->chunk_offsets.count != a->chunk_sizes.count)
		return stk__fail(
			err, STK_INVALID, "there are %d chunk_offsets and %d chunk_sizes", a->chunk_offsets.count, a->chunk_sizes.count);
	if (strlen(a->sequence_axis_name) != 1)
		return stk__fail(err, STK_INVALID, "sequence_axis_name is one letter, not \"%s\"", a->sequence_axis_name);
	*out = (struct stk_desc){.dtype = (enum stk_dtype)a->dtype, .ndim = -1};
	if (stk__building(call) && stk__varies(call, &a->shape))
		return STK_OK;
	int32_t ndim = a->shape.count + chunks, letters = (int32_t)strlen(a->layout);
	if (ndim > STK_MAX_DIMS)
		return stk__fail(err, STK_INVALID, "the shape has %d dims; tensors have up to %d", ndim, STK_MAX_DIMS);
	if (letters && letters != a->shape.count)
		return stk__fail(
			err, STK_INVALID, "the layout \"%s\" has %d letters for a shape of %d dims", a->layout, letters, a->shape.count);
	out->ndim = ndim;
	if (chunks)
		out->shape[0] = stk__building(call) ? -1 : chunk_count(a);
	for (int32_t d = 0; d < a->shape.count; d++)
		out->shape[d + chunks] = a->shape.v[d];
	if (letters)
		snprintf(out->layout, sizeof out->layout, "%s%s", chunks ? a->sequence_axis_name : "", a->layout);
	return STK_OK;
}

static enum stk_status inflate_run(const struct stk_call *call, struct stk_error *err)
{
	const struct inflate *a = call->args;
	const struct stk_tensor *in = &call->in[0], *out = &call->out[0];
	size_t size = (size_t)in->desc.shape[0], each = stk_dtype_size(out->desc.dtype), at = 0, bytes = 0;
	for (int32_t d = 0; d < a->shape.count; d++)
		each *= (size_t)a->shape.v[d];
	for (int32_t i = 0; i < chunk_count(a); i++, at += bytes) {
		enum stk_status s = place_chunk(a, i, size, &at, &bytes, err);
		if (s)
			return s;
		if (!unpack_lz4((const uint8_t *)in->data + at, bytes, (uint8_t *)out->data + (size_t)i * each, each))
			return stk__fail(err, STK_CORRUPT,
				"chunk %d is not an LZ4 block of %zu bytes: it is damaged, or the shape is wrong", i, each);
	}
	return STK_OK;
}

const struct stk_op_def stk__op_decode_inflate = {
	.name = "decoders.inflate",
	.doc = "Unpacks LZ4 blocks.\n\n"
	       "A sample is one block, or several chunks of the same shape, which become the first dim of the output. The work is done "
	       "on the CPU, even if the\n"
	       "output is on the GPU.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = inflate_args,
	.args_size = sizeof(struct inflate),
	.infer = inflate_infer,
	.run_cpu = inflate_run,
};
