/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads image files: first the header, then the pixels of a window into the caller's memory.
 *
 * Codecs are tables of functions, which are tried in order of priority. The first one whose probe accepts the file's first bytes is asked to read it; if it
 * does not support this file (STK_UNSUPPORTED), the next one is. Decoding a window gives the same bits as decoding everything and cropping.
 *
 * JPEG: every decoder outputs libjpeg-turbo's pixels (islow, triangle upsampling); the environment variable STOKER_JPEG (libjpeg-turbo or stoker) chooses
 * one. A file without EOI counts as truncated for every window. Other damage is found in all rows down to the window's last one (in each scan of a
 * progressive file; if libjpeg-turbo decodes a progressive file, all damage is found). Conversions of other formats: codec/convert.h. */
#ifndef STK_CODEC_CODEC_H
#define STK_CODEC_CODEC_H

#include "base/cancel.h"
#include "base/memory.h"
#include "tensor/image.h"

struct stk_codec;

/* The contents of the header, which are read before anything is allocated. */
struct stk_image_info {
	const struct stk_codec *codec; /* the codec that accepted the file */
	const char *format;            /* "jpeg", "png", "bmp", "pnm", "tiff", "webp" */
	int32_t width, height;         /* extents in pixels as stored, before `orientation` is applied */
	int32_t channels;     /* as stored: 1 gray, 2 gray + alpha, 3 colours, 4 CMYK or colours + alpha; more: bands, of which the first
	                   * three are red, green, blue */
	int32_t bits;         /* number of bits of a channel: 8 or 16, or 32 for floats */
	enum stk_dtype dtype; /* type in which pixels are decoded without loss: UINT8, UINT16, INT16 or FLOAT */
	bool measured;        /* the values are measurements rather than a picture: floats, signed integers, or bands without colours */
	int32_t orientation;  /* orientation 1..8 from EXIF; 1 if absent or invalid */
	bool progressive;
	bool partial;          /* true if bytes after the given ones may change `orientation` */
	size_t memory;         /* maximum number of bytes that the codec needs to decode the file; see stk__image_memory */
	struct stk_jpeg_seen { /* where a decoder keeps the header, for the decode that follows; see stk__image_peek_for */
		const struct stk_jpeg_header *header; /* NULL: nowhere */
		uint64_t parse; /* number of the parse; that memory holds another header after the decoder's next parse */
	} jpeg;
	size_t optional_memory; /* number of additional bytes with which the codec decodes the file faster; used if the scratch arena's limit allows them */
};

/* Limits for a file, so that a small one cannot take much memory or time: max_pixels is checked when the header is read, max_scans when the file is
 * decoded. `lenient` says whether damage is tolerated. */
struct stk_codec_limits {
	int64_t max_pixels; /* STOKER_MAX_IMAGE_SIZE; 0: the default, 2^28 */
	int32_t max_scans;  /* STOKER_MAX_JPEG_SCANS; 0: the default, 256. It also limits how many blocks all scans visit
	                     * (stk__jpeg_visits_allowed) */
	/* strict=False: tolerates libjpeg's warnings about lost data, a JPEG without EOI, damage after the pixels of a PNG, and a WebP that is cut off */
	bool lenient;
};

/* Returns the limits that the environment variables set. Call stk__environment_check first. lenient: value of the member `lenient` of the result. */
struct stk_codec_limits stk__codec_limits(bool lenient);

/* Reads the header. STK_CORRUPT: not an image, or damaged; the message names what the file is instead, or shows its first bytes. STK_UNSUPPORTED: an image
 * or a video of a format that is not decoded; the message says what to convert it to. STK_LIMIT: too large. Any thread may call this; it allocates nothing. */
STK_MUST_USE enum stk_status stk__image_peek(
	const uint8_t *data, size_t size, const struct stk_codec_limits *limits, struct stk_image_info *info, struct stk_error *err);

struct stk_decoder;
/* Does the same with the decoder's limits, for a decode of the same bytes by this decoder: if it is the next one, a JPEG's header is not parsed again. The bytes
 * must not change until then. Only the decoder's thread may call this. */
STK_MUST_USE enum stk_status stk__image_peek_for(
	struct stk_decoder *d, const uint8_t *data, size_t size, struct stk_image_info *info, struct stk_error *err);

/* Describes a file that was given instead of a video or a sound, for example as "a PNG picture, which decoders.image and stoker.imread read". Returns false
 * if the file is of no known kind, or is a video or a sound itself. */
bool stk__describe_no_media(const uint8_t *data, size_t size, char *text, size_t text_size);

/* Returns whether a file name's ending ("jpg", without the dot) belongs to a format that this build decodes. */
bool stk__image_ending(const char *ending, bool case_sensitive);

enum { STK_IMAGE_GLOBS = 9 };
/* Patterns of names of image files in class folders, such as "*.jpg": the names that torchvision's ImageFolder accepts. This build may lack some of the
 * formats. */
extern const char *const stk__image_globs[STK_IMAGE_GLOBS];

/* Returns the extents that users see. If `orient`, width and height are exchanged for orientations 5..8. */
void stk__image_extent(const struct stk_image_info *info, bool orient, int32_t *width, int32_t *height);

/* Returns the extent of an image that is decoded at 1/denom of its size: pixels / denom, rounded up as by libjpeg. denom 0 and 1 stand for the full size. */
static inline int32_t stk__image_scaled(int32_t pixels, int32_t denom)
{
	return denom > 1 ? pixels / denom + (pixels % denom != 0) : pixels;
}

/* Returns the number of channels of the image when it is decoded to `type`: 3, or 1 for GRAY, or that of the file for ANY_DATA. */
int32_t stk__image_channels(const struct stk_image_info *info, enum stk_image_type type);

struct stk_decode {
	const uint8_t *data; /* the file's bytes, after which 64 more bytes must be readable */
	size_t size;
	const struct stk_image_info *info;
	enum stk_image_type type;
	bool orient;                     /* apply EXIF's orientation; window is then in oriented pixels */
	int32_t denom;                   /* 2, 4 or 8: decodes the image at 1/denom of its size (only JPEG); 0 or 1: at full size */
	struct stk_rect window;          /* inside the image, in pixels of the decoded size */
	struct stk_image dst;            /* window.w x window.h pixels of info->dtype or UINT8, interleaved; no other memory is written */
	const struct stk_cancel *cancel; /* decoders check this between rows, and stop if it is set; may be NULL */
};

/* Returns the maximum number of bytes that this decode allocates, with any decoder, without the file, dst, optional_memory, and a PNG's text and profiles. */
size_t stk__image_memory(const struct stk_decode *request);

/* A decoder for one thread. It keeps libjpeg objects, and Huffman tables for later files with the same tables. Decodes take memory from the arena `scratch`,
 * within its limit; the arena must outlive the decoder. */
STK_MUST_USE enum stk_status stk__decoder_create(
	const struct stk_codec_limits *limits, unsigned cpu, struct stk_arena *scratch, struct stk_decoder **out, struct stk_error *err);
void stk__decoder_destroy(struct stk_decoder *d);

/* Decodes the request's window to request->dst. STK_CORRUPT: damaged or truncated data; the message has the offset if it is known. STK_NO_MEMORY: also if
 * the limit of the scratch arena is reached. STK_CANCELLED: request->cancel was set. STK_INVALID: the window or dst does not fit. STK_UNSUPPORTED: the format
 * is not decoded, or not at 1/denom of the size. STK_LIMIT: the image is too large. After a failure the pixels in dst are undefined. */
STK_MUST_USE enum stk_status stk__image_decode(struct stk_decoder *d, const struct stk_decode *request, struct stk_error *err);

#endif
