/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the size and kind of an image file from its header. Any thread; allocates nothing. */
#ifndef STOKER_INSPECT_H
#define STOKER_INSPECT_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stk_image_header {
	size_t size;           /* sizeof(struct stk_image_header), set by the caller */
	const char *format;    /* "jpeg", "png", "webp", "tiff", "bmp", "pnm"; constant */
	int32_t width, height; /* size in pixels of the stored image, before `orientation` is applied */
	int32_t channels;      /* as stored: 1 gray, 2 gray and alpha, 3 colours, 4 CMYK or colours and alpha; more: bands */
	int32_t bits;          /* bits per channel */
	int32_t orientation;   /* orientation 1..8 from EXIF; 1 if absent */
	bool progressive;
	bool partial; /* true if bytes after the given ones may change the answer, as `orientation`, which PNG and WebP may hold at the file's end */
};

/* Fills *out from the first bytes of a file. If that fails, only out->partial is set: it is true if the error may come from bytes that are missing, as of a
 * TIFF, whose directory may be at its end. If it is true, call this again with the whole file. STK_CORRUPT: not an image, or a damaged
 * header. STK_UNSUPPORTED: an image that Stoker does not decode. STK_LIMIT: the image is larger than the limits allow. */
STK_API STK_MUST_USE enum stk_status stk_image_inspect(const void *data, size_t bytes, struct stk_image_header *out, struct stk_error *err);

/* Returns whether a file's name has an ending of an image format that this build decodes ("a.jpg", "b.TIF"), in upper or lower case. */
STK_API bool stk_image_named(const char *name);

/* Returns the i-th glob that matches image files in a folder of classes: "*.jpg" and so on, the endings of torchvision's ImageFolder in
 * formats that this build decodes. Returns NULL after the last one. */
STK_API const char *stk_image_glob(size_t i);

/* Returns the i-th glob that matches video files: "*.mp4" and so on. Returns NULL after the last one. */
STK_API const char *stk_video_glob(size_t i);

#ifdef __cplusplus
}
#endif
#endif
