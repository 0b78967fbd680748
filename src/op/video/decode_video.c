/* SPDX-License-Identifier: Apache-2.0
 * decoders.video: frames of a video whose bytes are a value of the pipeline. */
#include "op/nd.h"
#include "op/video/clip.h"

#include <math.h>
#include <string.h>

struct decode_video {
	struct stk_ints frames, fill_value;
	int64_t start_frame, end_frame, sequence_length, stride, clips;
	float fps;
	bool enable_window;
	const char *pad_mode, *position;
	int64_t seed;
	/* accepted for compatibility with DALI, without effect */
	bool affine, build_index;
};

#define MOST_FRAMES 0x1p24
#define NUMBER(member, low, text)                                                                                                          \
	{                                                                                                                                  \
		.name = #member, .type = STK_ARG_INT, .flags = STK_PER_SAMPLE, .offset = offsetof(struct decode_video, member),            \
		.min = low, .max = MOST_FRAMES, .shapes = true, .doc = text                                                                \
	}

static const struct stk_arg_def decode_video_args[] = {
	{.name = "frames",
		.type = STK_ARG_INTS,
		.flags = STK_PER_SAMPLE | STK_SCALAR_OK,
		.offset = offsetof(struct decode_video, frames),
		.min = -MOST_FRAMES,
		.max = MOST_FRAMES,
		.shapes = true,
		.doc = "Numbers of the frames, in any order, also several times the same. Default: all frames, or those that the next arguments name."},
	NUMBER(start_frame, -MOST_FRAMES, "Number of the first frame. Default: 0."),
	NUMBER(end_frame, -MOST_FRAMES, "Number after the last frame. Default: the number of frames."),
	NUMBER(sequence_length, 0, "Number of frames, instead of end_frame."),
	NUMBER(stride, 1, "Distance between consecutive frames. Default: 1."),
	{.name = "pad_mode",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct decode_video, pad_mode),
		.fallback = "\"constant\"",
		.choices = STK_CLIP_PADS,
		.doc = "Frames that the video does not have: left out (none), of fill_value (constant), the nearest frame (edge, repeat), or the video "
		       "mirrored with its last frame (reflect_1001, symmetric) or without it (reflect_101, reflect)."},
	STK_ARG(struct decode_video, fill_value, STK_ARG_INTS, "[0]", (0, 255), STK_SCALAR_OK,
		"Value of frames that pad_mode=\"constant\" adds: one, or one for each channel."),
	{.name = "position",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct decode_video, position),
		.fallback = "\"first\"",
		.choices = "first|center|random",
		.doc = "Where a clip of sequence_length frames begins: at start_frame (first), so that it lies in the middle of the video (center), or at a drawn "
		       "place at which it fits into the video (random)."},
	STK_ARG(struct decode_video, clips, STK_ARG_INT, "1", (1, 0x1p16), 0,
		"Number of clips of sequence_length frames, which follow each other in the output. With position=\"center\" they begin at equal distances: the "
		"first one where the video begins, and the last one so that it ends where the video ends. With \"random\" each begins at a drawn place."),
	STK_ARG(struct decode_video, fps, STK_ARG_FLOAT, "0.0", (0, 1e6), 0,
		"Frames a second that the video is taken to have: all other arguments then count frames of that rate. Frame k of them is the frame whose time is "
		"nearest to k/fps seconds after the first one's; the earlier one, if two are as near. 0: the video's own frames."),
	STK_ARG(struct decode_video, enable_window, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Adds an output for the second input of decoders.audio, which gives the sound of the clip: the time at which its first frame begins, and that at "
		"which its last frame ends, in seconds on the clock of the file, FLOAT64. With fps, each frame lasts 1/fps. The output lies in "
		"host memory, also with device=\"mixed\"."),
	STK_ARG(struct decode_video, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG(struct decode_video, affine, STK_ARG_BOOL, "true", STK_FREE, STK_ACCEPTED,
		"Accepted and ignored: workers are not bound to cores."),
	STK_ARG(struct decode_video, build_index, STK_ARG_BOOL, "true", STK_FREE, STK_ACCEPTED,
		"Accepted and ignored: frames are always exact."),
	STK_ARG_END,
};

/* The frames of a sample. */
struct state {
	const struct stk_video_index *index;
	int32_t *frames;
	int32_t count;
	double window[2]; /* start and end of the clip in seconds */
};

static bool is_placed(const struct decode_video *a)
{
	return *a->position != 'f';
}

static bool given(const struct stk_call *call, const int64_t *field)
{
	return stk__int_given(*field) || stk__varies(call, field);
}

static enum stk_status check(const struct stk_call *call, struct stk_error *err)
{
	const struct decode_video *a = call->args;
	const struct stk_clip_style style = {.dtype = STK_UINT8, .fill = a->fill_value};
	const bool range =
		given(call, &a->start_frame) || given(call, &a->end_frame) || given(call, &a->sequence_length) || given(call, &a->stride);
	if ((a->frames.count >= 0 || stk__varies(call, &a->frames)) && (range || is_placed(a)))
		return stk__fail(err, STK_INVALID,
			"frames names all frames: leave out start_frame, end_frame, sequence_length, stride and position");
	if (given(call, &a->end_frame) && given(call, &a->sequence_length))
		return stk__fail(err, STK_INVALID, "end_frame and sequence_length are both given: choose one");
	if (a->clips > 1 && !is_placed(a))
		return stk__fail(err, STK_INVALID, "clips is %lld: give position=\"center\" or \"random\", which place each clip",
			(long long)a->clips);
	if (a->clips > 1 && a->enable_window)
		return stk__fail(err, STK_INVALID, "enable_window is of one clip: leave out clips");
	if (is_placed(a) && (given(call, &a->start_frame) || !given(call, &a->sequence_length)))
		return stk__fail(err, STK_INVALID,
			"position=\"%s\" chooses the first frame: give sequence_length, and leave out start_frame", a->position);
	return stk__clip_check(&style, err);
}

/* Returns the number of frames that the video has at the rate `fps` of the arguments, at most MOST_FRAMES; without fps, its number of frames. */
static int64_t count_frames(const struct decode_video *a, const struct stk_video_index *x)
{
	const struct stk_video_facts *f = stk__video_facts(x);
	const double slack = 1e-6, count = ceil(f->duration * (double)a->fps - slack);
	return !(a->fps > 0) ? f->frames : count < 1 ? 1 : count > MOST_FRAMES ? (int64_t)MOST_FRAMES : (int64_t)count;
}

/* Computes the clip's beginning and end in seconds. Call it before find_nearest, while state->frames still counts frames of the rate fps. */
static void find_window(const struct decode_video *a, struct state *state)
{
	const struct stk_video_index *x = state->index;
	int32_t first = INT32_MAX, last = -1;
	for (int32_t k = 0; k < state->count; k++)
		if (state->frames[k] != STK_CLIP_FILL) {
			first = state->frames[k] < first ? state->frames[k] : first;
			last = state->frames[k] > last ? state->frames[k] : last;
		}
	const double begin = stk__video_time(x, 0), fps = (double)a->fps;
	state->window[0] = last < 0 ? begin : a->fps > 0 ? begin + first / fps : stk__video_time(x, first);
	state->window[1] = last < 0 ? begin : a->fps > 0 ? begin + (last + 1) / fps : stk__video_end(x, last);
}

/* If the argument fps is given, replaces frame numbers, which count at that rate, by the numbers of the video's frames that begin nearest to the same times. */
static void find_nearest(const struct decode_video *a, struct state *state)
{
	const struct stk_video_index *x = state->index;
	const int32_t frames = stk__video_facts(x)->frames;
	const double slack = 1e-6, begin = stk__video_time(x, 0);
	for (int32_t k = 0; k < state->count && a->fps > 0; k++) {
		const double time = begin + state->frames[k] / (double)a->fps;
		if (state->frames[k] == STK_CLIP_FILL)
			continue;
		int32_t nearest = stk__video_shown(x, time);
		nearest = nearest < 0 ? 0 : nearest;
		if (nearest + 1 < frames && stk__video_time(x, nearest + 1) - time < time - stk__video_time(x, nearest) - slack)
			nearest++;
		state->frames[k] = nearest;
	}
}

/* Takes memory for the frame numbers of all clips, which have `count` frames each. STK_LIMIT: more than MOST_FRAMES in total. */
static enum stk_status take_list(const struct stk_call *call, int64_t count, struct state *state, struct stk_error *err)
{
	const int64_t clips = ((const struct decode_video *)call->args)->clips;
	if (count > (int64_t)MOST_FRAMES / clips)
		return stk__fail(
			err, STK_LIMIT, "%lld clips of %lld frames are over the limit of 2^24 frames", (long long)clips, (long long)count);
	state->frames = stk__arena_take(call->tools->arena, (size_t)(count * clips + 1) * sizeof *state->frames);
	return state->frames ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for a clip");
}

/* Adds the `count` frames first, first + stride, ... of a video of `frames` frames, padded at both ends as the argument pad_mode says. Without padding, stops
 * at the video's end, and fails for a frame before its start. */
static enum stk_status list_range(const struct stk_call *call, int64_t first, int64_t count, int64_t stride, int64_t frames,
	struct state *state, struct stk_error *err)
{
	const struct decode_video *a = call->args;
	const enum stk_clip_pad pad = stk__clip_pad(a->pad_mode);
	for (int64_t k = 0; k < count; k++) {
		const int64_t i = first + k * stride, frame = stk__clip_continue(i, frames, pad);
		if (frame == STK_CLIP_FILL && pad == STK_CLIP_NONE) {
			if (i < 0)
				return stk__fail(
					err, STK_INVALID, "frame %lld does not exist, and pad_mode=\"none\" adds none", (long long)i);
			break;
		}
		state->frames[state->count++] = (int32_t)frame;
	}
	return STK_OK;
}

static enum stk_status list_named(const struct stk_call *call, int64_t frames, struct state *state, struct stk_error *err)
{
	const struct decode_video *a = call->args;
	const enum stk_clip_pad pad = stk__clip_pad(a->pad_mode);
	enum stk_status s = take_list(call, a->frames.count, state, err);
	if (s)
		return s;
	for (int32_t k = 0; k < a->frames.count; k++) {
		const int64_t frame = stk__clip_continue(a->frames.v[k], frames, pad);
		if (frame == STK_CLIP_FILL && pad == STK_CLIP_NONE)
			return stk__fail(err, STK_INVALID,
				"frame %lld does not exist: the video has %lld frames; another pad_mode than \"none\" adds frames",
				(long long)a->frames.v[k], (long long)frames);
		state->frames[state->count++] = (int32_t)frame;
	}
	return STK_OK;
}

/* Lists the frames of all clips, which have sequence_length frames each and begin where the argument `position` says. */
static enum stk_status list_clips(const struct stk_call *call, int64_t stride, int64_t frames, struct state *state, struct stk_error *err)
{
	const struct decode_video *a = call->args;
	struct stk_random random = call->random;
	const int64_t window_positions = frames - (a->sequence_length - 1) * stride,
		      n_positions = window_positions < 1 ? 1 : window_positions;
	enum stk_status s = take_list(call, a->sequence_length, state, err);
	for (int64_t k = 0; k < a->clips && !s; k++) {
		const int64_t regular =
			a->clips == 1 ? (n_positions - 1) / 2 : (k * (n_positions - 1) + (a->clips - 1) / 2) / (a->clips - 1);
		const int64_t first = *a->position == 'c' || n_positions == 1 ? regular : stk__random_below(&random, (uint32_t)n_positions);
		s = list_range(call, first, a->sequence_length, stride, frames, state, err);
	}
	return s;
}

static enum stk_status list_frames(const struct stk_call *call, struct state *state, struct stk_error *err)
{
	const struct decode_video *a = call->args;
	const int64_t frames = count_frames(a, state->index), stride = stk__int_given(a->stride) ? a->stride : 1;
	const int64_t first = stk__int_given(a->start_frame) ? a->start_frame : 0,
		      end = stk__int_given(a->end_frame) ? a->end_frame : frames;
	if (a->frames.count >= 0)
		return list_named(call, frames, state, err);
	if (is_placed(a))
		return list_clips(call, stride, frames, state, err);
	if (first >= frames)
		return stk__fail(err, STK_INVALID, "start_frame is %lld; the video has %lld frames", (long long)first, (long long)frames);
	const int64_t count = stk__int_given(a->sequence_length) ? a->sequence_length
			      : end > first                      ? (end - first + stride - 1) / stride
								 : 0;
	enum stk_status s = take_list(call, count, state, err);
	return s ? s : list_range(call, first, count, stride, frames, state, err);
}

static enum stk_status decode_video_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct decode_video *a = call->args;
	const struct stk_tensor *in = &call->in[0];
	struct state *state = call->state;
	if ((in->desc.ndim >= 0 && in->desc.ndim != 1) || (in->desc.dtype != STK_NO_DTYPE && in->desc.dtype != STK_UINT8))
		return stk__fail(err, STK_INVALID, "the input must be the bytes of a file, a uint8 tensor of 1 dim");
	enum stk_status s = check(call, err);
	if (s)
		return s;
	const bool fixed = stk__clip_pad(a->pad_mode) != STK_CLIP_NONE && stk__int_given(a->sequence_length);
	call->out[0].desc = stk__clip_desc(NULL,
		a->frames.count >= 0 ? a->frames.count
		: fixed              ? a->sequence_length * a->clips
				     : -1,
		STK_UINT8);
	if (a->enable_window)
		call->out[1].desc = (struct stk_desc){STK_FLOAT64, 1, {2}, ""};
	if (stk__building(call))
		return STK_OK;
	s = stk__clip_index(call, in->data, (size_t)in->desc.shape[0], &state->index, err);
	if (!s)
		s = list_frames(call, state, err);
	if (!s) {
		find_window(a, state);
		find_nearest(a, state);
		call->out[0].desc = stk__clip_desc(state->index, state->count, STK_UINT8);
	}
	return s;
}

static enum stk_status decode_video_run(const struct stk_call *call, struct stk_error *err)
{
	const struct decode_video *a = call->args;
	const struct state *state = call->state;
	const struct stk_tensor *in = &call->in[0];
	const struct stk_media_input input = {.size = in->desc.shape[0], .data = in->data};
	const struct stk_clip_style style = {.dtype = STK_UINT8, .fill = a->fill_value};
	if (a->enable_window)
		memcpy(call->out[1].data, state->window, sizeof state->window);
	return stk__clip_decode(call, state->index, &input, state->frames, state->count, &style, &call->out[0], err);
}

static int32_t decode_video_outputs(const void *args)
{
	return 1 + ((const struct decode_video *)args)->enable_window;
}

const struct stk_op_def stk__op_decode_video = {
	.name = "decoders.video",
	.alias = "experimental.decoders.video",
	.doc = "Decodes frames of videos.\n\n"
	       "Outputs the frames of a video that the arguments name, uint8 of layout FHWC, in RGB. Without arguments these are all. Decodes "
	       "what FFmpeg decodes: H.264, HEVC, VP8, VP9, AV1, MPEG-2, MPEG-4, ProRes, Motion JPEG and more. With device=\"mixed\" the GPU's video decoder "
	       "makes the frames, if it has an engine for the stream; otherwise the cores do, with the same bytes.",
	.tolerance = "Chroma is taken from the sample that covers a pixel; DALI interpolates it, so that colours differ at edges.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.host_outputs = 1 << 1, /* decoders.audio reads the window on the cores */
	.output_count = decode_video_outputs,
	.args = decode_video_args,
	.args_size = sizeof(struct decode_video),
	.state_size = sizeof(struct state),
	.flags = STK_OP_RANDOM | STK_OP_NVDEC,
	.infer = decode_video_infer,
	.run_cpu = decode_video_run,
};
