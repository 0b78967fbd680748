/* SPDX-License-Identifier: Apache-2.0
 * Opens videos, and stores their indexes for later runs (format/kept.h): indexes that take long to make, and those of objects. An index is used if the file
 * still has the same size, times and inode, or the object the same size and version. */
#ifndef STK_FORMAT_VIDEO_KEPT_H
#define STK_FORMAT_VIDEO_KEPT_H

#include "format/media_source.h"
#include "media/video.h"

/* Opens a video and finds its index. stream: as in stk__video_index_create. access: may be NULL. source: set to a source that the caller closes; NULL if
 * only the index is wanted. stored: set to whether the index was made by an earlier run; may be NULL. Any thread. The errors are those of
 * stk__media_source_open and stk__video_index_create. */
STK_MUST_USE enum stk_status stk__video_open(const char *path, const struct stk_access *access, int32_t stream,
	struct stk_video_index **index, struct stk_media_source **source, bool *stored, struct stk_error *err);

/* Finds the index of an open source of that path: loads the stored index, or, if none is stored for the present version, makes the index and stores it if
 * that is worthwhile. stored: as in stk__video_open. */
STK_MUST_USE enum stk_status stk__video_find_index(const char *path, struct stk_media_source *source, int32_t stream,
	struct stk_video_index **index, bool *stored, struct stk_error *err);

#endif
