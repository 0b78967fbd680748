/* SPDX-License-Identifier: Apache-2.0
 * io.video.frame: one frame of a video whose path, and the frame's number or time, are values of the pipeline. */
#include "base/cancel.h"
#include "op/nd.h"
#include "op/video/video_cache.h"

#include <string.h>

struct video_frame {
	struct stk_strings filenames;
	int64_t decoders;
};

static const struct stk_arg_def video_frame_args[] = {
	STK_ARG(struct video_frame, filenames, STK_ARG_STRINGS, NULL, STK_FREE, STK_SCALAR_OK,
		"Paths of the videos. The first input is then the number of one of them, instead of a path."),
	STK_ARG(struct video_frame, decoders, STK_ARG_INT, "16", (1, 0x1p16), 0,
		"How many decoders keep their place in a video between samples. Where samples follow each other in time, give the number of videos that a batch "
		"reads from: then the next frame of a video costs one packet, not all packets from the key frame on."),
	STK_ARG_END,
};

enum { MOST_NAME = 4096 };

static bool is_number(const struct stk_desc *d, bool floats)
{
	const bool shape = d->ndim < 0 || d->ndim == 0 || (d->ndim == 1 && (d->shape[0] == 1 || d->shape[0] < 0));
	const bool real = d->dtype == STK_FLOAT || d->dtype == STK_FLOAT64;
	const bool whole = d->dtype == STK_INT32 || d->dtype == STK_INT64 || d->dtype == STK_UINT8 || d->dtype == STK_UINT16 ||
			   d->dtype == STK_UINT32 || d->dtype == STK_INT16 || d->dtype == STK_INT8;
	return shape && (d->dtype == STK_NO_DTYPE || whole || (floats && real));
}

/* Returns the only element of a tensor of integers. */
static int64_t whole_of(const struct stk_tensor *in)
{
	switch (in->desc.dtype) {
	case STK_INT64:
		return *(const int64_t *)in->data;
	case STK_INT32:
		return *(const int32_t *)in->data;
	case STK_UINT32:
		return *(const uint32_t *)in->data;
	case STK_INT16:
		return *(const int16_t *)in->data;
	case STK_UINT16:
		return *(const uint16_t *)in->data;
	case STK_INT8:
		return *(const int8_t *)in->data;
	default:
		return *(const uint8_t *)in->data;
	}
}

static enum stk_status check(const struct stk_call *call, struct stk_error *err)
{
	const struct video_frame *a = call->args;
	const struct stk_desc *video = &call->in[0].desc, *frame = &call->in[1].desc;
	const bool path = (video->ndim < 0 || video->ndim == 1) && (video->dtype == STK_NO_DTYPE || video->dtype == STK_UINT8);
	if (a->filenames.count == 0)
		return stk__fail(err, STK_INVALID, "filenames is empty: name at least one video");
	if (a->filenames.count > 0 ? !is_number(video, false) : !path)
		return stk__fail(err, STK_INVALID,
			a->filenames.count > 0 ? "with filenames, the first input must be the number of a video, one whole number"
					       : "the first input must be the path of a video, a uint8 tensor of 1 dim");
	if (!is_number(frame, true))
		return stk__fail(err, STK_INVALID,
			"the second input must be one number: a whole number is the number of a frame, and a FLOAT or FLOAT64 is a time in seconds");
	return STK_OK;
}

static enum stk_status take_path(const struct stk_call *call, char name[MOST_NAME], const char **path, struct stk_error *err)
{
	const struct video_frame *a = call->args;
	const struct stk_tensor *in = &call->in[0];
	if (a->filenames.count > 0) {
		const int64_t k = whole_of(in);
		if (k < 0 || k >= a->filenames.count)
			return stk__fail(err, STK_INVALID, "video %lld does not exist: filenames has %d names, numbered from 0",
				(long long)k, a->filenames.count);
		*path = a->filenames.v[k];
		return STK_OK;
	}
	size_t n = (size_t)in->desc.shape[0];
	while (n > 0 && ((const char *)in->data)[n - 1] == '\0') /* trailing zeros pad a text in a table whose rows have equal length */
		n--;
	if (n == 0 || n >= MOST_NAME)
		return stk__fail(err, STK_INVALID, "a video's path must have 1 to %d bytes, not %zu", MOST_NAME - 1, n);
	memcpy(name, in->data, n);
	name[n] = '\0';
	if (strlen(name) != n)
		return stk__fail(err, STK_INVALID, "the video's path holds a zero byte, after \"%s\"", name);
	*path = name;
	return STK_OK;
}

static enum stk_status take_frame(const struct stk_call *call, struct stk_frame_request *r, struct stk_error *err)
{
	const struct stk_tensor *in = &call->in[1];
	if (in->desc.dtype == STK_FLOAT || in->desc.dtype == STK_FLOAT64) {
		r->frame = -1;
		r->seconds = in->desc.dtype == STK_FLOAT ? (double)*(const float *)in->data : *(const double *)in->data;
		return isfinite(r->seconds) ? STK_OK : stk__fail(err, STK_INVALID, "%s: the time of the frame is not a number", r->path);
	}
	r->frame = whole_of(in);
	return r->frame >= 0 ? STK_OK
			     : stk__fail(err, STK_INVALID, "%s: frame %lld does not exist: frames are numbered from 0", r->path,
				       (long long)r->frame);
}

static bool is_cancelled(void *cancel)
{
	return stk__cancelled(cancel);
}

/* Decodes the frame to the worker's scratch memory or to GPU memory. The output is a view of it, since the frame's
 * size is not known before the file is read. */
static enum stk_status read_frame(const struct stk_call *call, struct stk_error *err)
{
	struct stk_tools *tools = call->tools;
	char name[MOST_NAME];
	struct stk_image image;
	struct stk_frame_request r = {
		.access = {.storage = tools->storage, .interrupted = is_cancelled, .user = (void *)(uintptr_t)tools->cancel},
		.limits = {.max_pixels = tools->limits.max_pixels, .lenient = tools->lenient},
		.cancel = tools->cancel,
		.gpu = call->gpu,
		.tally = &tools->videos};
	enum stk_status s = take_path(call, name, &r.path, err);
	s = s ? s : take_frame(call, &r, err);
	s = s ? s : stk__video_cache_read((struct stk_video_cache *)(uintptr_t)call->shared, &r, tools->arena, &image, err);
	if (s)
		return s;
	call->out[0].desc.shape[0] = image.height;
	call->out[0].desc.shape[1] = image.width;
	call->out[0].data = image.data;
	return STK_OK;
}

static enum stk_status video_frame_setup(const void *args, void **shared, struct stk_error *err)
{
	struct stk_video_cache *cache;
	enum stk_status s = stk__video_cache_create((int32_t)((const struct video_frame *)args)->decoders, &cache, err);
	*shared = cache;
	return s;
}

static enum stk_status video_frame_infer(const struct stk_call *call, struct stk_error *err)
{
	enum stk_status s = check(call, err);
	call->out[0].desc = (struct stk_desc){STK_UINT8, 3, {-1, -1, 3}, "HWC"};
	return s || stk__building(call) ? s : read_frame(call, err);
}

static enum stk_status video_frame_run(const struct stk_call *call, struct stk_error *err)
{
	(void)call, (void)err;
	return STK_OK;
}

const struct stk_op_def stk__op_video_frame = {
	.name = "io.video.frame",
	.doc = "Decodes one frame of a video that a sample names.\n\n"
	       "Inputs: the path of the video, a tensor of bytes as for io.file.read, with or without zeros at its end, or with "
	       "`filenames` the number of a video; and the frame, as a whole number from 0 on, or as a time\n"
	       "in seconds (FLOAT64, or FLOAT), for the frame that is shown then. A time that is at most a microsecond before a frame counts as that frame's. "
	       "Outputs an image, uint8 of layout HWC, in RGB. The\n"
	       "index of a video is kept after its first frame. With device=\"gpu\" the GPU's video decoder makes the frame, if it has an engine for the "
	       "stream; otherwise the cores do, with the same bytes.",
	.inputs = {2, 2},
	.host_inputs = 3,
	.args = video_frame_args,
	.args_size = sizeof(struct video_frame),
	.flags = STK_OP_NVDEC,
	.setup = video_frame_setup,
	.teardown = stk__video_cache_destroy,
	.infer = video_frame_infer,
	.run_cpu = video_frame_run,
};
