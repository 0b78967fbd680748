/* SPDX-License-Identifier: Apache-2.0
 * Shared by readers.video and experimental.readers.video, whose outputs are: the video, and if the user requests them, label, frame number and times. */
#ifndef STK_OP_READER_VIDEO_H
#define STK_OP_READER_VIDEO_H

#include "op/video/video_set.h"

/* The arguments that both readers of videos have, besides those of all readers. */
struct stk_reader_video {
	struct stk_video_files files;
	struct stk_video_cut window;
	struct stk_clip_style style;
	const char *frame_num; /* "none", "scalar" or "sequence" */
	bool times;
};

int32_t stk__reader_video_outputs(const struct stk_reader_video *r);
STK_MUST_USE enum stk_status stk__reader_video_open(const struct stk_reader_video *r, const struct stk_reader_args *args,
	const struct stk_access *access, void **shared, struct stk_error *err);
STK_MUST_USE enum stk_status stk__reader_video_infer(const struct stk_call *call, const struct stk_reader_video *r, struct stk_error *err);
STK_MUST_USE enum stk_status stk__reader_video_run(const struct stk_call *call, const struct stk_reader_video *r, struct stk_error *err);
int32_t stk__reader_video_parts(const void *args);

#endif
