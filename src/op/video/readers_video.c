/* SPDX-License-Identifier: Apache-2.0
 * readers.video: clips of videos. */
#include "op/video/reader_video.h"

#include <string.h>

struct readers_video {
	const char *file_root, *file_list;
	struct stk_strings filenames;
	struct stk_ints labels, fill_value;
	int64_t sequence_length, step, stride;
	const char *enable_frame_num;
	bool enable_timestamps;
	int32_t image_type, dtype;
	bool file_list_frame_num, file_list_include_preceding_frame, normalized, pad_sequences;
	/* accepted for compatibility with DALI, without effect */
	int64_t additional_decode_surfaces, channels;
	bool skip_vfr_check;
	struct stk_reader_args reader;
};

static const struct stk_arg_def readers_video_args[] = {
	STK_ARG(struct readers_video, file_root, STK_ARG_STRING, "\"\"", STK_FREE, 0,
		"Folder with one folder of videos for each class, whose sorted order gives the labels (s3://BUCKET/PREFIX too). "
		"Files whose endings are not those of videos are left out; DALI reads all files."),
	STK_ARG(struct readers_video, file_list, STK_ARG_STRING, "\"\"", STK_FREE, 0,
		"Text file with \"file label [start [end]]\" a line: clips are cut from that range of the video."),
	STK_ARG(struct readers_video, filenames, STK_ARG_STRINGS, NULL, STK_FREE, STK_SCALAR_OK, "Paths, instead of a folder or a list."),
	STK_ARG(struct readers_video, labels, STK_ARG_INTS, NULL, (-0x1p31, 0x1p31 - 1), STK_SCALAR_OK,
		"Labels of `filenames`; an empty list stands for 0, 1, 2, ... Without it, `filenames` gives no output of labels."),
	STK_ARG(struct readers_video, sequence_length, STK_ARG_INT, NULL, (1, 0x1p20), STK_REQUIRED, "Number of frames of a clip."),
	STK_ARG(struct readers_video, step, STK_ARG_INT, "-1", (-0x1p31, 0x1p31 - 1), 0,
		"Frames from the beginning of one clip to that of the next. Default, and 0 or less: clips follow each other."),
	STK_ARG(struct readers_video, stride, STK_ARG_INT, "1", (1, 0x1p20), 0, "Distance between consecutive frames of a clip."),
	{.name = "enable_frame_num",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct readers_video, enable_frame_num),
		.fallback = "\"none\"",
		.choices = "none|scalar|sequence",
		.doc = "Adds an output: the number of the clip's first frame (scalar), or of each frame (sequence), where added frames have -1."},
	STK_ARG(struct readers_video, enable_timestamps, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Adds an output: the time of each frame in seconds, float64; added frames have -1."),
	STK_ARG(struct readers_video, file_list_frame_num, STK_ARG_BOOL, "false", STK_FREE, 0,
		"start and end in file_list are numbers of frames, not seconds; negative ones count from the end."),
	STK_ARG(struct readers_video, file_list_include_preceding_frame, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Rounds a start between the times of two frames down, and an end up; otherwise, and for numbers of frames, the start is rounded up, and the end down."),
	STK_ARG(struct readers_video, pad_sequences, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Also outputs clips that the end of the video cuts off, with black frames in place of the missing ones."),
	STK_ARG(struct readers_video, dtype, STK_ARG_DTYPE, "0", (0, STK_DTYPE_COUNT - 1), 0, "UINT8 or FLOAT."),
	STK_ARG(struct readers_video, normalized, STK_ARG_BOOL, "false", STK_FREE, 0, "Scales floats from 0..255 to 0..1."),
	STK_ARG(struct readers_video, skip_vfr_check, STK_ARG_BOOL, "false", STK_FREE, STK_ACCEPTED,
		"Accepted and ignored: variable frame rates are read."),
	STK_ARG(struct readers_video, additional_decode_surfaces, STK_ARG_INT, "2", (0, 1000), STK_ACCEPTED,
		"Accepted and ignored: a decoder has as many surfaces as its stream needs, and 8 more."),
	STK_ARG(struct readers_video, channels, STK_ARG_INT, "3", (1, 4), 0, "Number of channels, which must be 3."),
	STK_ARG(struct readers_video, fill_value, STK_ARG_INTS, "[0]", (0, 255), STK_SCALAR_OK, "Value of frames that pad_sequences adds."),
	STK_ARG(struct readers_video, image_type, STK_ARG_IMAGE_TYPE, "0", (0, 4), 0, "RGB. Use color_space_conversion for other spaces."),
	STK_ARG_GROUP(struct readers_video, reader, stk__reader_group),
	STK_ARG_END,
};

static struct stk_reader_video video_of(const void *args)
{
	const struct readers_video *a = args;
	return (struct stk_reader_video){.files = {.root = a->file_root, .list = a->file_list, .names = a->filenames, .labels = a->labels},
		.window =
			{
				.length = a->sequence_length,
				.step = a->step,
				.stride = a->stride,
				.span = (a->sequence_length - 1) * a->stride + 1,
				.pad = a->pad_sequences ? STK_CLIP_CONSTANT : STK_CLIP_NONE,
				.by_number = a->file_list_frame_num,
				.start_up = a->file_list_frame_num || !a->file_list_include_preceding_frame,
				.end_up = !a->file_list_frame_num && a->file_list_include_preceding_frame,
			},
		.style = {.dtype = (enum stk_dtype)a->dtype, .normalized = a->normalized, .fill = a->fill_value},
		.frame_num = a->enable_frame_num,
		.times = a->enable_timestamps};
}

static int32_t readers_video_outputs(const void *args)
{
	const struct stk_reader_video video = video_of(args);
	return stk__reader_video_outputs(&video);
}

static enum stk_status readers_video_open(const void *args, const struct stk_access *access, void **shared, struct stk_error *err)
{
	const struct readers_video *a = args;
	const struct stk_reader_video video = video_of(args);
	if (a->image_type != STK_RGB)
		return stk__fail(err, STK_UNSUPPORTED, "image_type: frames are RGB; use color_space_conversion for other spaces");
	if (a->channels != 3)
		return stk__fail(err, STK_UNSUPPORTED,
			"channels is %lld; frames have 3 channels, and color_space_conversion makes gray of them", (long long)a->channels);
	if (a->normalized && a->dtype != STK_FLOAT)
		return stk__fail(err, STK_INVALID, "normalized frames are floats: give dtype=types.FLOAT too");
	return stk__reader_video_open(&video, &a->reader, access, shared, err);
}

static enum stk_status readers_video_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_reader_video video = video_of(call->args);
	return stk__reader_video_infer(call, &video, err);
}

static enum stk_status readers_video_run(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_reader_video video = video_of(call->args);
	return stk__reader_video_run(call, &video, err);
}

static void readers_video_order(const void *args, const void *shared, struct stk_order *out)
{
	stk__reader_order(&((const struct readers_video *)args)->reader, stk__video_set_size(shared), out);
}

static const char *readers_video_listed_in(const void *args)
{
	const char *list = ((const struct readers_video *)args)->file_list;
	return *list ? list : NULL;
}

static const struct stk_reader_def readers_video_reader = {
	.open = readers_video_open,
	.size = stk__video_set_size,
	.fingerprint = stk__video_set_fingerprint,
	.digest = stk__video_set_digest,
	.order = readers_video_order,
	.uri = stk__video_set_uri,
	.part_count = stk__reader_video_parts,
	.parts = stk__video_set_parts,
	.part_uri = stk__video_set_part_uri,
	.object = stk__video_set_object,
	.listed_in = readers_video_listed_in,
	.skipped = stk__video_set_skipped,
};

const struct stk_op_def stk__op_readers_video = {
	.name = "readers.video",
	.alias = "video_reader",
	.doc = "Reads clips of videos.\n\n"
	       "Outputs a clip, uint8 of layout FHWC in RGB, then, as the arguments say, its label, the numbers of its frames and their times. All "
	       "files are opened when the\n"
	       "pipeline is made, to count their clips. A sample reads only the bytes from the key frame before its clip on. With "
	       "device=\"gpu\" the GPU's video decoder makes the frames, if it has an engine for the stream; otherwise the cores do, with the same bytes.",
	.tolerance =
		"Variable frame rates are read like constant ones; DALI refuses them. Chroma is not interpolated. image_type YCbCr is refused.",
	.output_count = readers_video_outputs,
	.args = readers_video_args,
	.args_size = sizeof(struct readers_video),
	.flags = STK_OP_CLONED | STK_OP_NVDEC,
	.teardown = stk__video_set_close,
	.infer = readers_video_infer,
	.run_cpu = readers_video_run,
	.reader = &readers_video_reader,
};
