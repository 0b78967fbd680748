/* SPDX-License-Identifier: Apache-2.0 */
#include "op/video/reader_video.h"

#include "op/nd.h"

#include <string.h>

static bool has_labels(const struct stk_reader_video *r)
{
	return r->files.names.count <= 0 || r->files.labels.count >= 0;
}

static bool has_numbers(const struct stk_reader_video *r)
{
	return strcmp(r->frame_num, "none") != 0;
}

int32_t stk__reader_video_outputs(const struct stk_reader_video *r)
{
	return 1 + has_labels(r) + has_numbers(r) + r->times;
}

int32_t stk__reader_video_parts(const void *args)
{
	(void)args;
	return STK_VIDEO_PARTS;
}

enum stk_status stk__reader_video_open(const struct stk_reader_video *r, const struct stk_reader_args *args,
	const struct stk_access *access, void **shared, struct stk_error *err)
{
	struct stk_video_set *set;
	*shared = NULL;
	enum stk_status s = stk__clip_check(&r->style, err);
	if (!s)
		s = stk__video_set_open(&r->files, &r->window, access, &set, err);
	if (s)
		return s;
	if ((s = stk__reader_check(args, set->count, err))) {
		stk__video_set_close(set);
		return s;
	}
	*shared = set;
	return STK_OK;
}

static bool is_wanted(const struct stk_call *call, int32_t output)
{
	return !call->wanted || call->wanted[output];
}

enum stk_status stk__reader_video_infer(const struct stk_call *call, const struct stk_reader_video *r, struct stk_error *err)
{
	static const uint8_t unread[1] = {0}; /* memory for outputs that nothing reads */
	const struct stk_video_set *set = call->shared;
	const struct stk_video_index *x = call->bytes ? set->indexes[set->clips[call->place.sample].file] : NULL;
	int32_t k = 0;
	(void)err;
	call->out[k++].desc = stk__clip_desc(x, r->window.length, r->style.dtype);
	if (has_labels(r))
		call->out[k++].desc = (struct stk_desc){STK_INT32, 1, {1}, ""};
	if (has_numbers(r))
		call->out[k++].desc = (struct stk_desc){STK_INT32, 1, {strcmp(r->frame_num, "scalar") == 0 ? 1 : r->window.length}, ""};
	if (r->times)
		call->out[k++].desc = (struct stk_desc){STK_FLOAT64, 1, {r->window.length}, ""};
	if (call->bytes && !is_wanted(call, 0))
		call->out[0].data = (void *)(uintptr_t)unread;
	return STK_OK;
}

enum stk_status stk__reader_video_run(const struct stk_call *call, const struct stk_reader_video *r, struct stk_error *err)
{
	const struct stk_video_set *set = call->shared;
	const struct stk_video_clip *clip = &set->clips[call->place.sample];
	const int32_t length = (int32_t)r->window.length;
	int32_t *frames = stk__arena_take(call->tools->arena, (size_t)length * sizeof *frames), k = 1;
	if (!frames)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a clip");
	stk__video_set_frames(set, call->place.sample, frames);
	if (has_labels(r))
		*(int32_t *)call->out[k++].data = stk__file_list_label(set->files, clip->file);
	if (has_numbers(r)) {
		const bool scalar = strcmp(r->frame_num, "scalar") == 0;
		memcpy(call->out[k++].data, frames, (size_t)(scalar ? 1 : length) * sizeof *frames);
	}
	for (int32_t i = 0; r->times && i < length; i++)
		((double *)call->out[k].data)[i] = frames[i] < 0 ? -1 : stk__video_time(set->indexes[clip->file], frames[i]);
	if (!is_wanted(call, 0))
		return STK_OK;
	return stk__video_set_decode(call, &r->style, frames, &call->out[0], err);
}
