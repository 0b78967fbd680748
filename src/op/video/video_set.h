/* SPDX-License-Identifier: Apache-2.0
 * The data set of the readers of videos: files with their indexes, and the clips that they are cut into. */
#ifndef STK_OP_VIDEO_SET_H
#define STK_OP_VIDEO_SET_H

#include "op/readers/reader_files.h"
#include "op/video/clip.h"

/* The files of the data set. Exactly one of root, list and names must be given; "", or no names, counts as not given. */
struct stk_video_files {
	const char *root, *list;
	struct stk_strings names;
	struct stk_ints labels; /* labels of `names`. count -1: there are no labels; 0: a file's index is its label */
};

/* How the ranges of frames in the user's list are understood, and how they are cut into clips. */
struct stk_video_cut {
	/* length: number of frames in a clip; step: distance between the first frames of consecutive clips (0 or less: length * stride); stride: distance
	 * between consecutive frames of a clip */
	int64_t length, step, stride;
	int64_t span;          /* number of frames of the range that a whole clip needs */
	enum stk_clip_pad pad; /* STK_CLIP_NONE: only whole clips */
	bool one_padded;       /* only the first of the clips that are not whole is padded; the others are left out */
	bool uniform;          /* each range gives one clip: `length` frames, spread evenly over it; step, stride and pad are not used */
	bool by_number;        /* ranges are frame numbers, not seconds; negative ones count from the end */
	bool start_up, end_up; /* a start (end) between two frames is rounded up to the later frame */
};

struct stk_video_clip {
	int32_t file, first; /* index of the file; number that the clip's first frame has in the file */
	int32_t begin, end;  /* the clip is cut from the frames begin to end - 1 */
};

struct stk_video_set {
	struct stk_file_list *files;
	struct stk_video_index **indexes;
	struct stk_known_object *objects; /* [file]: size and version of the file when its index was read */
	struct stk_video_clip *clips;
	int64_t count, capacity;
	struct stk_video_cut cut;
	int64_t skipped; /* number of files without a clip */
	char skipped_text[300];
};

/* Opens all files, several at a time, and lists their clips. STK_INVALID: there are no clips, or the arguments do not fit together. */
STK_MUST_USE enum stk_status stk__video_set_open(const struct stk_video_files *files, const struct stk_video_cut *cut,
	const struct stk_access *access, struct stk_video_set **out, struct stk_error *err);
void stk__video_set_close(void *set); /* accepts NULL */

/* Sets out[0 .. s->cut.length - 1] to the numbers that a clip's frames have in the file, or to STK_CLIP_FILL. */
void stk__video_set_frames(const struct stk_video_set *s, int64_t clip, int32_t *out);

/* For struct stk_reader_def; `shared` is the set. A clip's parts are the byte ranges of its segments. */
int64_t stk__video_set_size(const void *shared);
uint64_t stk__video_set_fingerprint(const void *shared, enum stk_digest_form form);
uint64_t stk__video_set_digest(const void *shared, int64_t first, int64_t count);
size_t stk__video_set_uri(const void *shared, int64_t id, char *uri, size_t capacity);
int64_t stk__video_set_skipped(const void *shared, const char **text);
void stk__video_set_object(const void *shared, int64_t file, struct stk_known_object *out);
enum { STK_VIDEO_PARTS = 16 };
void stk__video_set_parts(const void *shared, int64_t id, struct stk_part *out);
size_t stk__video_set_part_uri(const void *shared, int64_t file, char *uri, size_t capacity);

/* Decodes the call's clip from the bytes of its parts. frames: numbers of its frames in the file; out: the tensor to which it is written. */
STK_MUST_USE enum stk_status stk__video_set_decode(const struct stk_call *call, const struct stk_clip_style *style, const int32_t *frames,
	const struct stk_tensor *out, struct stk_error *err);

#endif
