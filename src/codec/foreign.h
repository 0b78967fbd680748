/* SPDX-License-Identifier: Apache-2.0
 * Files that are met in place of images: formats that are not decoded, and what a download, an archive or Git leaves behind. */
#ifndef STK_CODEC_FOREIGN_H
#define STK_CODEC_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_foreign {
	const char *name;   /* "a GIF" */
	const char *remedy; /* what to do with it: "convert it to PNG: magick in.gif out.png" */
	bool picture;       /* it holds a picture or a video; else it is something else altogether */
};

/* Recognises a file by its first bytes. Returns false if the file is not one of the known kinds. */
bool stk__foreign_find(const uint8_t *data, size_t size, struct stk_foreign *found);

/* True for the ending of a file's name ("jp2", in any case) of a kind of picture that is not decoded. */
bool stk__foreign_ending(const char *ending);

#endif
