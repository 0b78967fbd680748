/* SPDX-License-Identifier: Apache-2.0 */
#include "op/video/clip.h"

#include "kernel/arithmetic/arithmetic.h"
#include "kernel/copy/copy.h"

#include <stdlib.h>
#include <string.h>

struct stk_video_tool {
	struct stk_video_decoder *decoder;
	struct stk_video_gpu *gpu;     /* NULL before the first clip on a GPU */
	struct stk_video_index *index; /* index of the video in memory that was opened last */
	const uint8_t *data;
	size_t size;
};

/* Ends the use of the index, whose video's bytes may change or move from now on. */
static void drop_index(struct stk_video_tool *t)
{
	stk__video_decoder_forget(t->decoder);
	if (t->gpu)
		stk__video_gpu_forget(t->gpu);
	stk__video_index_destroy(t->index);
	t->index = NULL;
}

void stk__video_tool_forget(struct stk_video_tool *t)
{
	if (t && t->index)
		drop_index(t);
}

void stk__video_tool_destroy(struct stk_video_tool *t)
{
	if (!t)
		return;
	stk__video_gpu_destroy(t->gpu);
	stk__video_decoder_destroy(t->decoder);
	stk__video_index_destroy(t->index);
	stk__free(t);
}

static enum stk_status find_tool(const struct stk_call *call, struct stk_video_tool **out, struct stk_error *err)
{
	struct stk_tools *tools = call->tools;
	if (!tools->video)
		tools->video = stk__calloc(1, sizeof *tools->video);
	*out = tools->video;
	if (!tools->video)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to decode a video");
	const struct stk_video_limits limits = {.max_pixels = tools->limits.max_pixels, .lenient = tools->lenient};
	return tools->video->decoder ? STK_OK : stk__video_decoder_create(&limits, &tools->video->decoder, err);
}

static bool is_cancelled(void *cancel)
{
	return stk__cancelled(cancel);
}

enum stk_status stk__clip_index(
	const struct stk_call *call, const uint8_t *data, size_t size, const struct stk_video_index **out, struct stk_error *err)
{
	struct stk_video_tool *t;
	enum stk_status s = find_tool(call, &t, err);
	if (s)
		return s;
	if (!t->index || t->data != data || t->size != size) {
		const size_t left = stk__arena_left(call->tools->arena);
		const struct stk_media_input in = {.size = (int64_t)size,
			.data = data,
			.interrupted = is_cancelled,
			.interrupted_user = (void *)call->tools->cancel,
			.memory = left < SIZE_MAX ? left + 1 : 0};
		drop_index(t);
		if ((s = stk__video_index_create(&in, -1, &t->index, err)))
			return s;
		if (!stk__arena_charge(call->tools->arena, stk__video_index_memory(t->index))) { /* released when the sample's chain ends */
			stk__video_index_destroy(t->index);
			t->index = NULL;
			return stk__fail(err, STK_NO_MEMORY, "out of memory for the list of a video's frames");
		}
		t->data = data;
		t->size = size;
	}
	*out = t->index;
	return STK_OK;
}

/* ---- frames ---- */

enum stk_clip_pad stk__clip_pad(const char *mode)
{
	static const struct {
		const char *name;
		enum stk_clip_pad pad;
	} modes[] = {{"constant", STK_CLIP_CONSTANT}, {"edge", STK_CLIP_EDGE}, {"repeat", STK_CLIP_EDGE},
		{"reflect_1001", STK_CLIP_REFLECT_1001}, {"symmetric", STK_CLIP_REFLECT_1001}, {"reflect_101", STK_CLIP_REFLECT_101},
		{"reflect", STK_CLIP_REFLECT_101}};
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (strcmp(mode, modes[i].name) == 0)
			return modes[i].pad;
	return STK_CLIP_NONE;
}

int64_t stk__clip_continue(int64_t i, int64_t frames, enum stk_clip_pad pad)
{
	const int64_t period = pad == STK_CLIP_REFLECT_101 ? 2 * frames - 2 : 2 * frames;
	if (i >= 0 && i < frames)
		return i;
	if (pad == STK_CLIP_CONSTANT || pad == STK_CLIP_NONE)
		return STK_CLIP_FILL;
	if (pad == STK_CLIP_EDGE || frames == 1)
		return i < 0 ? 0 : frames - 1;
	i = (i % period + period) % period;
	if (i < frames)
		return i;
	return pad == STK_CLIP_REFLECT_101 ? period - i : period - 1 - i;
}

struct stk_desc stk__clip_desc(const struct stk_video_index *x, int64_t frames, enum stk_dtype dtype)
{
	const struct stk_video_facts *f = x ? stk__video_facts(x) : NULL;
	return (struct stk_desc){dtype, 4, {frames, f ? f->height : -1, f ? f->width : -1, 3}, "FHWC"};
}

enum stk_status stk__clip_check(const struct stk_clip_style *style, struct stk_error *err)
{
	if (style->fill.count != 1 && style->fill.count != 3)
		return stk__fail(
			err, STK_INVALID, "fill_value has %d values; it needs one, or one for each of the 3 channels", style->fill.count);
	if (style->dtype != STK_UINT8 && style->dtype != STK_FLOAT)
		return stk__fail(err, STK_INVALID, "dtype is UINT8 or FLOAT; cast the frames to other types");
	return STK_OK;
}

struct entry {
	int32_t frame, index;
};

static int by_frame(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	return x->frame != y->frame ? (x->frame > y->frame) - (x->frame < y->frame) : (x->index > y->index) - (x->index < y->index);
}

struct stk_video_done stk__video_done(const struct stk_video_decoder *cores, const struct stk_video_gpu *gpu)
{
	return (struct stk_video_done){
		stk__video_decoder_counters(cores), gpu ? stk__video_gpu_counters(gpu) : (struct stk_video_gpu_counters){0}};
}

void stk__video_tally(struct stk_video_tally *t, const struct stk_video_done *before, const struct stk_video_done *after)
{
	const int64_t on_gpu = after->gpu.on_gpu - before->gpu.on_gpu;
	t->frames += after->cores.wanted - before->cores.wanted + on_gpu;
	t->packets += after->cores.decoded - before->cores.decoded + after->gpu.decoded - before->gpu.decoded;
	t->on_gpu += on_gpu;
}

/* The memory of a clip that is being decoded. */
struct clip {
	uint8_t *bytes; /* all frames, one after the other; in the GPU's memory if `gpu` is set */
	struct stk_video_gpu *gpu;
	const char *only_cores; /* why only the cores decode although `gpu` is set; NULL: the GPU decodes too */
	uint8_t *filled; /* with `gpu`: a frame of fill values in host memory, for copies to the GPU; NULL until the first such copy */
	int32_t *frames, *indices; /* numbers of frames, ascending, each once; and the index in the clip of each */
	int32_t height, width;
};

static size_t frame_bytes(const struct clip *c)
{
	return (size_t)c->height * (size_t)c->width * 3;
}

static struct stk_image place_frame(void *user, int32_t k, int32_t width, int32_t height, struct stk_error *err)
{
	const struct clip *c = user;
	if (width == c->width && height == c->height)
		return stk__image_hwc(c->bytes + (size_t)c->indices[k] * frame_bytes(c), STK_UINT8, width, height, 3);
	(void)!stk__fail(err, STK_SHAPE,
		"frame %d has %d x %d pixels, and the video %d x %d: frames of one tensor have one size. If all frames have the former, the file's header is "
		"wrong, and `ffmpeg -i IN -c copy OUT` corrects it",
		c->frames[k], width, height, c->width, c->height);
	return (struct stk_image){0};
}

static void fill_bytes(const struct clip *c, uint8_t *to, struct stk_ints fill)
{
	for (size_t i = 0; i < frame_bytes(c); i++)
		to[i] = (uint8_t)fill.v[fill.count == 3 ? i % 3 : 0];
}

static enum stk_status fill_frame(const struct stk_call *call, struct clip *c, int32_t index, struct stk_ints fill, struct stk_error *err)
{
	uint8_t *to = c->bytes + (size_t)index * frame_bytes(c);
	if (!c->gpu) {
		fill_bytes(c, to, fill);
		return STK_OK;
	}
	if (!c->filled) {
		c->filled = stk__arena_take(call->tools->arena, frame_bytes(c));
		if (!c->filled)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for a frame");
		fill_bytes(c, c->filled, fill);
	}
	return stk__video_gpu_put(c->gpu, to, c->filled, false, frame_bytes(c), err);
}

static enum stk_status copy_frame(const struct clip *c, int32_t to, int32_t from, struct stk_error *err)
{
	uint8_t *dst = c->bytes + (size_t)to * frame_bytes(c);
	const uint8_t *src = c->bytes + (size_t)from * frame_bytes(c);
	if (c->gpu)
		return stk__video_gpu_put(c->gpu, dst, src, true, frame_bytes(c), err);
	memcpy(dst, src, frame_bytes(c));
	return STK_OK;
}

static void convert(const struct stk_clip_style *style, const uint8_t *from, size_t n, float *to)
{
	const float scale = style->normalized ? 1 / 255.0f : 1;
	for (size_t i = 0; i < n; i++)
		to[i] = (float)from[i] * scale;
}

/* Decodes each frame once, in ascending order; copies frames that are in the clip several times, and fills frames that are STK_CLIP_FILL. Adds the frames to
 * the worker's counts. */
static enum stk_status decode_once(const struct stk_call *call, struct clip *c, struct entry *entries, const struct stk_video_index *x,
	const struct stk_media_input *in, const int32_t *frames, int32_t count, const struct stk_clip_style *style, struct stk_error *err)
{
	struct stk_video_tool *t;
	int32_t unique = 0;
	enum stk_status s = find_tool(call, &t, err);
	for (int32_t i = 0; i < count; i++)
		entries[i] = (struct entry){frames[i], i};
	qsort(entries, (size_t)count, sizeof *entries, by_frame);
	for (int32_t i = 0; i < count; i++)
		if (entries[i].frame >= 0 && (i == 0 || entries[i].frame != entries[i - 1].frame)) {
			c->frames[unique] = entries[i].frame;
			c->indices[unique++] = entries[i].index;
		}
	const struct stk_video_wanted wanted = {
		.frames = c->frames, .count = unique, .destination = place_frame, .user = c, .cancel = call->tools->cancel};
	if (s)
		return s;
	const struct stk_video_done before = stk__video_done(t->decoder, c->gpu);
	s = c->gpu ? stk__video_gpu_decode(c->gpu, t->decoder, x, in, &wanted, NULL, c->only_cores, err)
		   : stk__video_decode(t->decoder, x, in, &wanted, err);
	const struct stk_video_done after = stk__video_done(t->decoder, c->gpu);
	stk__video_tally(&call->tools->videos, &before, &after);
	for (int32_t i = 0; i < count && !s; i++)
		if (entries[i].frame < 0)
			s = fill_frame(call, c, entries[i].index, style->fill, err);
		else if (i > 0 && entries[i].frame == entries[i - 1].frame)
			s = copy_frame(c, entries[i].index, entries[i - 1].index, err);
	return s;
}

/* ---- clips on a GPU ---- */

/* Adds the job that converts the decoded bytes to `out`, unless they were decoded into `out`. */
static enum stk_status finish_on_gpu(const struct stk_call *call, const struct clip *c, const struct stk_clip_style *style,
	const struct stk_tensor *out, struct stk_error *err)
{
	const struct stk_tensor from = {.desc = {STK_UINT8, out->desc.ndim, {0}, ""}, .data = c->bytes};
	struct stk_tensor operands[] = {from, {.desc = {.dtype = STK_FLOAT}}};
	static const float scale = 1 / 255.0f;
	memcpy(operands[0].desc.shape, out->desc.shape, sizeof operands[0].desc.shape);
	if (c->bytes == out->data)
		return STK_OK;
	if (style->dtype == STK_UINT8)
		return stk__job_copy_bytes(call->gpu->jobs, c->bytes, out->data, stk_desc_bytes(&out->desc), err);
	if (!style->normalized)
		return stk__job_copy_all(call->gpu->jobs, &operands[0], out, true, err);
	/* Multiplies in double, which holds the product of a byte and a float exactly. So the product is rounded only once, to float, as on the cores. */
	const struct stk_job_arithmetic times = {.op = STK_ARITH_OP_mul, .domain = STK_ARITH_DOUBLE, .meet = STK_FLOAT, .operands = 2};
	operands[1].data = call->gpu->take(call->gpu->user, sizeof scale, err);
	if (!operands[1].data)
		return STK_NO_MEMORY;
	enum stk_status s = stk__video_gpu_put(c->gpu, operands[1].data, &scale, false, sizeof scale, err);
	return s ? s : stk__job_arithmetic(call->gpu->jobs, &times, operands, out, err);
}

/* Chooses the memory on the GPU, and whether the GPU or the cores decode. The cores decode if the surfaces of a session would exceed memory_limit, so that this
 * limit refuses the same samples with and without a GPU. If the GPU decodes, sets *library to the size of its surfaces in bytes. */
static enum stk_status begin_on_gpu(const struct stk_call *call, struct clip *c, const struct stk_video_index *x,
	const struct stk_clip_style *style, const struct stk_tensor *out, size_t total, size_t *library, struct stk_error *err)
{
	const bool in_place = style->dtype == STK_UINT8 && call->gpu->now;
	struct stk_video_tool *t;
	const size_t surfaces = stk__video_gpu_memory(x);
	enum stk_status s = find_tool(call, &t, err);
	if (!s && !t->gpu)
		s = stk__video_gpu_create(call->gpu->nvdec, &t->gpu, err);
	if (!s && style->dtype == STK_FLOAT &&
		!stk__arena_charge(call->tools->arena, total)) /* counts the clip's size, so that memory_limit refuses the
	                                                                                       * same clips as on the CPU */
		s = stk__fail(err, STK_NO_MEMORY, "out of memory for a clip of %zu bytes", total);
	if (s)
		return s;
	c->gpu = t->gpu;
	if (stk__arena_left(call->tools->arena) < surfaces + STK_ARENA_SLACK)
		c->only_cores = "memory_limit has no room for the surfaces of the GPU's decoder";
	else
		*library = surfaces;
	if (!in_place && !(c->bytes = call->gpu->take(call->gpu->user, total, err)))
		return STK_NO_MEMORY;
	c->bytes = in_place ? out->data : c->bytes;
	return STK_OK;
}

enum stk_status stk__clip_decode(const struct stk_call *call, const struct stk_video_index *x, const struct stk_media_input *in,
	const int32_t *frames, int32_t count, const struct stk_clip_style *style, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_arena *arena = call->tools->arena;
	const struct stk_video_facts *f = stk__video_facts(x);
	if (count == 0)
		return STK_OK;
	struct clip c = {.height = f->height, .width = f->width};
	const size_t total = frame_bytes(&c) * (size_t)count;
	struct entry *entries = stk__arena_take(arena, (size_t)count * sizeof *entries);
	c.frames = stk__arena_take(arena, (size_t)count * sizeof *c.frames);
	c.indices = stk__arena_take(arena, (size_t)count * sizeof *c.indices);
	size_t library = stk__video_decode_memory(x);
	if (!entries || !c.frames || !c.indices)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a clip of %d frames", count);
	if (call->gpu) {
		enum stk_status begin_status = begin_on_gpu(call, &c, x, style, out, total, &library, err);
		if (begin_status)
			return begin_status;
	} else if (!(c.bytes = style->dtype == STK_UINT8 ? out->data : stk__arena_take(arena, total)))
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a clip of %d frames", count);
	if (!stk__arena_charge(arena, library))
		return stk__fail(err, STK_NO_MEMORY, "out of memory: decoding the video takes about %zu bytes", library);
	enum stk_status s = decode_once(call, &c, entries, x, in, frames, count, style, err);
	stk__arena_discharge(arena, library);
	if (!s && call->gpu)
		return finish_on_gpu(call, &c, style, out, err);
	if (!s && style->dtype == STK_FLOAT)
		convert(style, c.bytes, total, out->data);
	return s;
}
