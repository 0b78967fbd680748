/* SPDX-License-Identifier: Apache-2.0
 *
 * Images in files: header first, then decode a window into what the caller gives.
 *
 * Codecs are tables of functions, asked in order of priority; the first whose probe accepts the leading bytes takes the file, and one that cannot
 * take this file (STK_UNSUPPORTED) passes it to the next. A window decode equals full decode, then crop, bit for bit.
 *
 * JPEG: every decoder gives libjpeg-turbo's pixels (islow, triangle upsampling); the environment variable STOKER_JPEG (libjpeg-turbo or stoker)
 * chooses one. A file without EOI counts as truncated whatever the window; other damage is found in the rows down to the window's last (of each scan
 * of a progressive file; where libjpeg-turbo decodes one, it finds all damage). Other conversions: codec/convert.h. */
#ifndef STK_CODEC_CODEC_H
#define STK_CODEC_CODEC_H

#include "base/cancel.h"
#include "base/memory.h"
#include "tensor/image.h"

struct stk_codec;

/* From the header alone, before anything is allocated. */
struct stk_image_info {
	const struct stk_codec *codec; /* the codec that takes the file */
	const char *format;            /* "jpeg", "png", "bmp", "pnm", "tiff", "webp" */
	int32_t width, height;         /* as stored */
	int32_t channels;              /* as stored: 1 gray, 2 gray + alpha, 3, 4 (CMYK or alpha) */
	int32_t bits;                  /* 8 or 16 a channel */
	int32_t orientation;           /* EXIF's 1..8; 1 when absent or invalid */
	bool progressive;
	size_t memory; /* for stk__image_memory */
};

/* Checked against the header before a decode takes memory. */
struct stk_codec_limits {
	int64_t max_pixels; /* STOKER_MAX_IMAGE_SIZE; 0: the default, 2^28 */
	int32_t max_scans;  /* STOKER_MAX_JPEG_SCANS; 0: the default, 256. It also bounds the work of scans: stk__jpeg_visits_allowed */
	bool lenient;       /* strict=False: libjpeg's data-losing warnings are not errors */
};

/* Those that the environment sets (stk__environment_check has been called). */
struct stk_codec_limits stk__codec_limits(bool lenient);

/* Reads the header. STK_CORRUPT: not an image, or damaged; the message names what the file is instead, or shows how its bytes begin.
 * STK_UNSUPPORTED: an image or a video of a kind that is not decoded; the message says what to convert it to.
 * STK_LIMIT: too large. Any thread; allocates nothing. */
STK_MUST_USE enum stk_status stk__image_peek(
	const uint8_t *data, size_t size, const struct stk_codec_limits *limits, struct stk_image_info *info, struct stk_error *err);

/* True for the ending of a file's name ("jpg") of a format that this build decodes. */
bool stk__image_ending(const char *ending, bool case_sensitive);

/* Extent as users see it: width and height swap for orientations 5..8 when `orient`. */
void stk__image_extent(const struct stk_image_info *info, bool orient, int32_t *width, int32_t *height);

/* Extent along an axis at 1/denom of the size, 0 and 1 being all of it: rounded up, as libjpeg does. */
static inline int32_t stk__image_scaled(int32_t pixels, int32_t denom)
{
	return denom > 1 ? pixels / denom + (pixels % denom != 0) : pixels;
}

/* Channels of the decoded image: 3, 1 for GRAY, the file's own for ANY_DATA. */
int32_t stk__image_channels(const struct stk_image_info *info, enum stk_image_type type);

struct stk_decode {
	const uint8_t *data; /* readable 64 bytes past size */
	size_t size;
	const struct stk_image_info *info;
	enum stk_image_type type;
	bool orient;            /* apply EXIF's orientation; window is in oriented pixels then */
	int32_t denom;          /* 2, 4, 8: the image is decoded at 1/denom of its size (JPEG alone); 0 or 1: as it is */
	struct stk_rect window; /* inside the image, in pixels of the size that it is decoded at */
	struct stk_image dst;   /* window.w x window.h, interleaved, UINT8 (or UINT16 for files of 16 bits); nothing outside is written */
	const struct stk_cancel *cancel; /* decoders check it between rows, and then give up; NULL: never */
};

/* Bytes that this decode takes at most, whichever decoder does it, beside the file, dst, and the text and profiles of a PNG. */
size_t stk__image_memory(const struct stk_decode *request);

/* Each worker has one decoder: libjpeg objects, and Huffman tables by content. Only the owner uses it. Decodes take their memory from the owner's
 * `scratch`, within its limit; the arena must outlive the decoder. */
struct stk_decoder;
STK_MUST_USE enum stk_status stk__decoder_create(
	const struct stk_codec_limits *limits, unsigned cpu, struct stk_arena *scratch, struct stk_decoder **out, struct stk_error *err);
void stk__decoder_destroy(struct stk_decoder *d);

/* STK_CORRUPT for damaged or truncated data, with the offset where known; STK_NO_MEMORY also when the limit of the scratch is reached. After a
 * failure dst holds garbage. STK_CANCELLED once request->cancel was set. */
STK_MUST_USE enum stk_status stk__image_decode(struct stk_decoder *d, const struct stk_decode *request, struct stk_error *err);

#endif
