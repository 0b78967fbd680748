/* SPDX-License-Identifier: Apache-2.0
 * Declarations that the codecs share with codec.c, which chooses one of them for a file. */
#ifndef STK_CODEC_CODEC_IMPL_H
#define STK_CODEC_CODEC_IMPL_H

#include "base/error.h"
#include "base/memory.h"
#include "codec/codec.h"

/* A codec.
 *
 * decode is NULL if this build recognises the format but cannot decode it; peek's error then says so. peek fills in all of info except `codec` and `format`,
 * and `dtype` only if it does not follow from `bits`; it does not check limits. Its d is the decoder that will decode the file, or NULL. decode gets a window and a dst as stored in the file (the caller handles
 * orientation); the window is inside the image and not empty. decode may take memory from d->scratch without releasing it, since the caller does that.
 * Within some milliseconds after request->cancel is set, decode returns, with any status. */
struct stk_codec {
	const char *format, *title; /* format: short name, such as "jpeg"; title: name in sentences, such as "JPEG" */
	const char *const *endings; /* endings of file names, in lower case; ends with NULL */
	bool scales;                /* can decode at 1/2, 1/4 and 1/8 of the size */
	bool (*probe)(const uint8_t *data, size_t size);
	enum stk_status (*peek)(
		struct stk_decoder *d, const uint8_t *data, size_t size, struct stk_image_info *info, struct stk_error *err);
	enum stk_status (*decode)(struct stk_decoder *d, const struct stk_decode *request, struct stk_error *err);
};

extern const struct stk_codec stk__codec_jpeg, stk__codec_png, stk__codec_bmp, stk__codec_pnm, stk__codec_tiff, stk__codec_webp;

struct stk_jpeg_decoder;

struct stk_decoder {
	struct stk_codec_limits limits;
	unsigned cpu;
	struct stk_arena *scratch;
	struct stk_jpeg_decoder *jpeg; /* state of the JPEG codec, defined in jpeg.c */
};

/* jpeg.c: create and destroy the JPEG codec's state in a decoder. */
STK_MUST_USE enum stk_status stk__jpeg_decoder_create(struct stk_decoder *d, struct stk_error *err);
void stk__jpeg_decoder_destroy(struct stk_jpeg_decoder *j);

#endif
