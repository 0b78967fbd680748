/* SPDX-License-Identifier: Apache-2.0
 * experimental.readers.video: like readers.video, with more ways to pad clips and to choose their frames. */
#include "op/video/reader_video.h"

#include <string.h>

struct readers_video_experimental {
	const char *file_root, *file_list;
	struct stk_strings filenames;
	struct stk_ints labels, fill_value;
	int64_t sequence_length, step, stride;
	const char *enable_frame_num;
	bool enable_timestamps;
	int32_t image_type;
	const char *file_list_format, *file_list_rounding, *pad_mode;
	bool file_list_include_end, uniform_sample;
	struct stk_reader_args reader;
};

static const struct stk_arg_def readers_video_experimental_args[] = {
	STK_ARG(struct readers_video_experimental, file_root, STK_ARG_STRING, "\"\"", STK_FREE, 0,
		"Folder with one folder of videos for each class, whose sorted order gives the labels (s3://BUCKET/PREFIX too). "
		"Files whose endings are not those of videos are left out; DALI reads all files."),
	STK_ARG(struct readers_video_experimental, file_list, STK_ARG_STRING, "\"\"", STK_FREE, 0,
		"Text file with \"file label [start [end]]\" a line: clips are cut from that range of the video."),
	STK_ARG(struct readers_video_experimental, filenames, STK_ARG_STRINGS, NULL, STK_FREE, STK_SCALAR_OK,
		"Paths, instead of a folder or a list."),
	STK_ARG(struct readers_video_experimental, labels, STK_ARG_INTS, NULL, (-0x1p31, 0x1p31 - 1), STK_SCALAR_OK,
		"Labels of `filenames`; an empty list stands for 0, 1, 2, ... Without it, `filenames` gives no output of labels."),
	STK_ARG(struct readers_video_experimental, sequence_length, STK_ARG_INT, NULL, (1, 0x1p20), STK_REQUIRED,
		"Number of frames of a clip."),
	STK_ARG(struct readers_video_experimental, step, STK_ARG_INT, "-1", (-0x1p31, 0x1p31 - 1), 0,
		"Frames from the beginning of one clip to that of the next. Default, and 0 or less: clips follow each other."),
	STK_ARG(struct readers_video_experimental, stride, STK_ARG_INT, "1", (1, 0x1p20), 0,
		"Distance between consecutive frames of a clip."),
	{.name = "enable_frame_num",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct readers_video_experimental, enable_frame_num),
		.fallback = "\"none\"",
		.choices = "none|scalar|sequence",
		.doc = "Adds an output: the number of the clip's first frame (scalar), or of each frame (sequence), where added frames have -1."},
	STK_ARG(struct readers_video_experimental, enable_timestamps, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Adds an output: the time of each frame in seconds, float64; added frames have -1."),
	{.name = "file_list_format",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct readers_video_experimental, file_list_format),
		.fallback = "\"timestamps\"",
		.choices = "timestamps|frames",
		.doc = "Unit of start and end in file_list: seconds, or numbers of frames, of which negative ones count from the end."},
	{.name = "file_list_rounding",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct readers_video_experimental, file_list_rounding),
		.fallback = "\"start_down_end_up\"",
		.choices = "start_down_end_up|start_up_end_down|all_up|all_down",
		.doc = "How times and numbers between two frames are rounded."},
	STK_ARG(struct readers_video_experimental, file_list_include_end, STK_ARG_BOOL, "true", STK_FREE, 0,
		"Has no effect: the frame at the end never belongs to the range, as in DALI on the CPU."),
	{.name = "pad_mode",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct readers_video_experimental, pad_mode),
		.fallback = "\"none\"",
		.choices = STK_CLIP_PADS,
		.doc = "Clips for which fewer than sequence_length * stride frames of the range are left: left out (none), or the first of them continued with "
		       "fill_value (constant), the last frame (edge, repeat), or the range mirrored with its last frame (reflect_1001, symmetric) or without it "
		       "(reflect_101, reflect)."},
	STK_ARG(struct readers_video_experimental, fill_value, STK_ARG_INTS, "[0]", (0, 255), STK_SCALAR_OK,
		"Value of frames that pad_mode=\"constant\" adds: one, or one for each channel."),
	STK_ARG(struct readers_video_experimental, uniform_sample, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Outputs one clip for each range: frames at equal distances from its first to its last. step, stride and pad_mode then have no effect."),
	STK_ARG(struct readers_video_experimental, image_type, STK_ARG_IMAGE_TYPE, "0", (0, 4), 0,
		"RGB. Use color_space_conversion for other spaces."),
	STK_ARG_GROUP(struct readers_video_experimental, reader, stk__reader_group),
	STK_ARG_END,
};

static struct stk_reader_video video_of(const void *args)
{
	const struct readers_video_experimental *a = args;
	const bool by_number = strcmp(a->file_list_format, "frames") == 0;
	return (struct stk_reader_video){.files = {.root = a->file_root, .list = a->file_list, .names = a->filenames, .labels = a->labels},
		.window =
			{
				.length = a->sequence_length,
				.step = a->step,
				.stride = a->stride,
				.span = a->sequence_length * a->stride,
				.one_padded = true,
				.pad = stk__clip_pad(a->pad_mode),
				.uniform = a->uniform_sample,
				.by_number = by_number,
				.start_up = strcmp(a->file_list_rounding, "start_up_end_down") == 0 ||
					    strcmp(a->file_list_rounding, "all_up") == 0,
				.end_up = strcmp(a->file_list_rounding, "start_down_end_up") == 0 ||
					  strcmp(a->file_list_rounding, "all_up") == 0,
			},
		.style = {.dtype = STK_UINT8, .fill = a->fill_value},
		.frame_num = a->enable_frame_num,
		.times = a->enable_timestamps};
}

static int32_t readers_video_experimental_outputs(const void *args)
{
	const struct stk_reader_video video = video_of(args);
	return stk__reader_video_outputs(&video);
}

static enum stk_status readers_video_experimental_open(
	const void *args, const struct stk_access *access, void **shared, struct stk_error *err)
{
	const struct readers_video_experimental *a = args;
	const struct stk_reader_video video = video_of(args);
	if (a->image_type != STK_RGB)
		return stk__fail(err, STK_UNSUPPORTED, "image_type: frames are RGB; use color_space_conversion for other spaces");
	return stk__reader_video_open(&video, &a->reader, access, shared, err);
}

static enum stk_status readers_video_experimental_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_reader_video video = video_of(call->args);
	return stk__reader_video_infer(call, &video, err);
}

static enum stk_status readers_video_experimental_run(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_reader_video video = video_of(call->args);
	return stk__reader_video_run(call, &video, err);
}

static void readers_video_experimental_order(const void *args, const void *shared, struct stk_order *out)
{
	stk__reader_order(&((const struct readers_video_experimental *)args)->reader, stk__video_set_size(shared), out);
}

static const char *readers_video_experimental_listed_in(const void *args)
{
	const char *list = ((const struct readers_video_experimental *)args)->file_list;
	return *list ? list : NULL;
}

static const struct stk_reader_def readers_video_experimental_reader = {
	.open = readers_video_experimental_open,
	.size = stk__video_set_size,
	.fingerprint = stk__video_set_fingerprint,
	.digest = stk__video_set_digest,
	.order = readers_video_experimental_order,
	.uri = stk__video_set_uri,
	.part_count = stk__reader_video_parts,
	.parts = stk__video_set_parts,
	.part_uri = stk__video_set_part_uri,
	.object = stk__video_set_object,
	.listed_in = readers_video_experimental_listed_in,
	.skipped = stk__video_set_skipped,
};

const struct stk_op_def stk__op_readers_video_experimental = {
	.name = "experimental.readers.video",
	.doc = "Reads clips of videos, with more ways to pad and to sample them than readers.video.\n\n"
	       "Outputs a clip, uint8 of layout FHWC in RGB, then, as the arguments say, its label, the numbers of its frames and their times. All "
	       "files are opened when the\n"
	       "pipeline is made, to count their clips. A sample reads only the bytes from the key frame before its clip on. With "
	       "device=\"gpu\" the GPU's video decoder makes the frames, if it has an engine for the stream; otherwise the cores do, with the same bytes.",
	.tolerance =
		"Chroma is not interpolated. image_type YCbCr is refused. A line of file_list without an end, or with an end after the last frame, means the end of the video; DALI skips it. DALI rounds times to float32 first.",
	.output_count = readers_video_experimental_outputs,
	.args = readers_video_experimental_args,
	.args_size = sizeof(struct readers_video_experimental),
	.flags = STK_OP_CLONED | STK_OP_NVDEC,
	.teardown = stk__video_set_close,
	.infer = readers_video_experimental_infer,
	.run_cpu = readers_video_experimental_run,
	.reader = &readers_video_experimental_reader,
};
