/* SPDX-License-Identifier: Apache-2.0
 * Recognises files that were found instead of an image: formats that Stoker does not decode, and remains of downloads, archives or Git. */
#ifndef STK_CODEC_FOREIGN_H
#define STK_CODEC_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_foreign {
	const char *name;   /* with its article, for example "a GIF" */
	const char *remedy; /* advice for the user, for example "convert it to PNG: magick in.gif out.png" */
	bool picture;       /* whether the file contains a picture or a video */
	bool media;         /* whether the file contains a video or a sound */
};

/* Recognises a file by its first bytes. Returns false if the file is not one of the known kinds. */
bool stk__foreign_find(const uint8_t *data, size_t size, struct stk_foreign *found);

/* Returns whether a file name's ending ("jp2", in any case) belongs to a picture format that Stoker recognises but does not decode. */
bool stk__foreign_ending(const char *ending);

/* Patterns of names of video files in class folders, such as "*.mp4": the endings of the containers that src/media reads. */
enum { STK_VIDEO_GLOBS = 27 };
extern const char *const stk__video_globs[STK_VIDEO_GLOBS];
/* Returns whether a file name's ending ("mp4", in any case) is one of these. */
bool stk__video_ending(const char *ending);

#endif
