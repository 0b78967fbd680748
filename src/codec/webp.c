/* SPDX-License-Identifier: Apache-2.0
 * WebP, lossy and lossless, decoded by libwebp. Of an animation, decodes the first frame if that frame covers the whole picture. A window of a lossy image
 * is decoded with a margin, since libwebp upsamples chroma differently at the edges of the area that it decodes. Damage is found in the rows down to the
 * window's last one. libwebp allocates its own memory, which is counted as the sample's. The bytes of large images are passed to libwebp in pieces, and
 * cancellation is checked between these. */
#include "codec/bytes.h"
#include "codec/codec_impl.h"
#include "codec/convert.h"
#include "codec/exif.h"

#include <string.h>

#include <webp/decode.h>

enum { RIFF = 12, CHUNK_HEADER = 8, FRAME_HEADER = 16, MARGIN = 4 };
enum { LARGE = 1 << 22, PIECES = 32 }; /* images of LARGE or more pixels are decoded in PIECES pieces */
enum { FLAG_ANIMATION = 2, FLAG_EXIF = 8, FLAG_ALPHA = 16 };
/* Upper bounds of libwebp's memory in bytes: for tables and tokens; per column of the image, for rows; per lossless pixel; per pixel with alpha. */
enum { LIBRARY = 1 << 20, A_COLUMN = 192, A_LOSSLESS_PIXEL = 6, AN_ALPHA_PIXEL = 7 };

static bool webp_probe(const uint8_t *data, size_t size)
{
	return size >= RIFF && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0;
}

struct webp {
	const uint8_t *image; /* the bytes that libwebp decodes: the file, or one frame of it */
	size_t size;
	int32_t width, height, orientation;
	bool alpha, lossless;
	bool complete; /* the file is as long as its header says */
	bool partial;  /* bytes after the data may change the orientation */
};

struct chunk {
	const uint8_t *type, *data;
	size_t size; /* number of bytes of the chunk's contents that are in the file */
};

/* Reads the header of the chunk at *at, and sets *at to the chunk's end. Returns false if the data end before the chunk's contents. */
static bool next_chunk(const uint8_t *data, size_t size, size_t *at, struct chunk *c)
{
	if (*at > size || size - *at < CHUNK_HEADER)
		return false;
	size_t length = stk__get32(data + *at + 4, true), capacity = size - *at - CHUNK_HEADER;
	*c = (struct chunk){data + *at, data + *at + CHUNK_HEADER, length < capacity ? length : capacity};
	*at += CHUNK_HEADER + length + (length & 1);
	return true;
}

static bool find_chunk(const uint8_t *data, size_t size, const char *type, struct chunk *c)
{
	for (size_t at = RIFF; next_chunk(data, size, &at, c);)
		if (memcmp(c->type, type, 4) == 0)
			return true;
	return false;
}

/* Returns the orientation in the chunk EXIF; 1 if the file has no such chunk or its orientation is not valid. Sets *partial if the data end before the chunk does. */
static int32_t find_orientation(const uint8_t *data, size_t size, bool *partial)
{
	struct chunk c;
	const bool found = find_chunk(data, size, "EXIF", &c);
	*partial = !found || c.size < stk__get32(c.type + 4, true);
	if (!found)
		return 1;
	int orientation = stk__exif_orientation(c.data, c.size);
	return orientation ? orientation : 1;
}

static uint32_t get24(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

/* Sets w->image to the first frame. STK_UNSUPPORTED: it does not cover the canvas. */
static enum stk_status find_frame(struct webp *w, const uint8_t *data, size_t size, struct stk_error *err)
{
	struct chunk c;
	if (!find_chunk(data, size, "ANMF", &c) || c.size < FRAME_HEADER)
		return stk__fail(err, STK_CORRUPT, "an animated WebP without a frame");
	if (get24(c.data) || get24(c.data + 3) || get24(c.data + 6) != get24(data + 24) || get24(c.data + 9) != get24(data + 27))
		return stk__fail(err, STK_UNSUPPORTED, "an animated WebP whose first frame is a part of the picture");
	w->image = c.data + FRAME_HEADER;
	w->size = c.size - FRAME_HEADER;
	return STK_OK;
}

static enum stk_status status_of(VP8StatusCode code, struct stk_error *err)
{
	switch (code) {
	case VP8_STATUS_OK:
		return STK_OK;
	case VP8_STATUS_OUT_OF_MEMORY:
		return stk__fail(err, STK_NO_MEMORY, "no memory for a WebP decoder");
	case VP8_STATUS_UNSUPPORTED_FEATURE:
		return stk__fail(err, STK_UNSUPPORTED, "a WebP of a kind that libwebp does not decode");
	case VP8_STATUS_SUSPENDED:
	case VP8_STATUS_NOT_ENOUGH_DATA:
		return stk__fail(err, STK_CORRUPT, "a truncated WebP: its image does not end before the file does");
	default:
		return stk__fail(err, STK_CORRUPT, "a damaged WebP");
	}
}

static enum stk_status read_webp(struct webp *w, const uint8_t *data, size_t size, struct stk_error *err)
{
	WebPBitstreamFeatures f;
	bool extended = size >= 30 && memcmp(data + RIFF, "VP8X", 4) == 0;
	int flags = extended ? data[20] : 0;
	*w = (struct webp){.image = data, .size = size, .orientation = 1};
	enum stk_status s = flags & FLAG_ANIMATION ? find_frame(w, data, size, err) : STK_OK;
	if (s || (s = status_of(WebPGetFeatures(w->image, w->size, &f), err)))
		return s;
	if ((flags & FLAG_ANIMATION) && ((uint32_t)f.width != get24(data + 24) + 1 || (uint32_t)f.height != get24(data + 27) + 1))
		return stk__fail(err, STK_CORRUPT, "a damaged WebP: its first frame has another size than it says");
	w->width = f.width;
	w->height = f.height;
	w->alpha = flags & FLAG_ANIMATION ? flags & FLAG_ALPHA : f.has_alpha;
	w->lossless = f.format != 1;
	w->complete = stk__get32(data + 4, true) <= size - 8;
	if (flags & FLAG_EXIF)
		w->orientation = find_orientation(data, size, &w->partial);
	return STK_OK;
}

static size_t library_bytes(const struct webp *w)
{
	size_t pixels = (size_t)w->width * (size_t)w->height;
	return LIBRARY + (size_t)w->width * A_COLUMN + pixels * (w->lossless ? A_LOSSLESS_PIXEL : w->alpha ? AN_ALPHA_PIXEL : 0);
}

static enum stk_status webp_peek(
	struct stk_decoder *decoder, const uint8_t *data, size_t size, struct stk_image_info *info, struct stk_error *err)
{
	(void)decoder;
	struct webp w;
	enum stk_status s = read_webp(&w, data, size, err);
	if (s)
		return s;
	info->width = w.width;
	info->height = w.height;
	info->channels = w.alpha ? 4 : 3;
	info->bits = 8;
	info->orientation = w.orientation;
	info->partial = w.partial;
	info->memory = library_bytes(&w) + stk__scratch_bytes((size_t)w.width * (size_t)w.height * (size_t)info->channels);
	return STK_OK;
}

/* Returns the window with the margin that libwebp needs. Its upper left corner has even coordinates, as libwebp requires. */
static struct stk_rect widen(const struct stk_rect *w, int32_t width, int32_t height)
{
	int32_t x = (w->x > MARGIN ? w->x - MARGIN : 0) & ~1, y = (w->y > MARGIN ? w->y - MARGIN : 0) & ~1;
	int32_t right = width - MARGIN - w->w > w->x ? w->x + w->w + MARGIN : width;
	int32_t bottom = height - MARGIN - w->h > w->y ? w->y + w->h + MARGIN : height;
	return (struct stk_rect){x, y, right - x, bottom - y};
}

static VP8StatusCode decode_in_pieces(const struct webp *w, WebPDecoderConfig *c, const struct stk_cancel *cancel)
{
	WebPIDecoder *decoder = WebPIDecode(NULL, 0, c);
	if (!decoder)
		return VP8_STATUS_OUT_OF_MEMORY;
	VP8StatusCode code = VP8_STATUS_SUSPENDED;
	for (size_t i = 1; i <= PIECES && code == VP8_STATUS_SUSPENDED && !stk__cancelled(cancel); i++)
		code = WebPIUpdate(decoder, w->image, w->size / PIECES * i + (i == PIECES ? w->size % PIECES : 0));
	WebPIDelete(decoder);
	return code;
}

static enum stk_status run_libwebp(const struct webp *w, const struct stk_rect *part, WEBP_CSP_MODE mode, uint8_t *to, ptrdiff_t row,
	const struct stk_cancel *cancel, struct stk_error *err)
{
	WebPDecoderConfig c;
	if (!WebPInitDecoderConfig(&c))
		return stk__fail(err, STK_UNSUPPORTED, "libwebp is another version than the one that stoker was built with");
	c.options.use_cropping = part->w != w->width || part->h != w->height;
	c.options.crop_left = part->x;
	c.options.crop_top = part->y;
	c.options.crop_width = part->w;
	c.options.crop_height = part->h;
	c.output.colorspace = mode;
	c.output.is_external_memory = 1;
	c.output.u.RGBA.rgba = to;
	c.output.u.RGBA.stride = (int)row;
	c.output.u.RGBA.size = (size_t)row * (size_t)(part->h - 1) + (size_t)part->w * (mode == MODE_RGBA ? 4 : 3);
	bool large = (int64_t)w->width * w->height >= LARGE;
	VP8StatusCode code = large ? decode_in_pieces(w, &c, cancel) : WebPDecode(w->image, w->size, &c);
	WebPFreeDecBuffer(&c.output);
	return status_of(code, err);
}

static enum stk_status decode_part(const struct webp *w, struct stk_decoder *d, const struct stk_decode *rq, struct stk_error *err)
{
	struct stk_rect part = widen(&rq->window, w->width, w->height);
	bool all = rq->window.w == w->width && rq->window.h == w->height, fits = rq->dst.row > 0 && rq->dst.row <= INT32_MAX;
	bool keeps_alpha = w->alpha && rq->type == STK_ANY_DATA;
	if (all && fits && (rq->type == STK_RGB || rq->type == STK_BGR || rq->type == STK_ANY_DATA))
		return run_libwebp(w, &part,
			keeps_alpha           ? MODE_RGBA
			: rq->type == STK_BGR ? MODE_BGR
					      : MODE_RGB,
			rq->dst.data, rq->dst.row, rq->cancel, err);
	ptrdiff_t pixel = keeps_alpha ? 4 : 3, row = pixel * part.w;
	uint8_t *pixels = stk__arena_take(d->scratch, (size_t)row * (size_t)part.h);
	if (!pixels)
		return stk__fail(err, STK_NO_MEMORY, "no memory for a WebP of %dx%d", w->width, w->height);
	enum stk_status s = run_libwebp(w, &part, keeps_alpha ? MODE_RGBA : MODE_RGB, pixels, row, rq->cancel, err);
	const uint8_t *from = pixels + (rq->window.y - part.y) * row + (rq->window.x - part.x) * pixel;
	for (int32_t y = 0; y < rq->window.h && !s; y++)
		stk__convert_row(keeps_alpha ? STK_PIXELS_RGBA : STK_PIXELS_RGB, STK_UINT8, from + y * row, rq->type, STK_UINT8,
			(uint8_t *)rq->dst.data + y * rq->dst.row, rq->window.w, STK_GRAY_ROUNDED);
	return s;
}

static enum stk_status webp_decode(struct stk_decoder *d, const struct stk_decode *rq, struct stk_error *err)
{
	struct webp w;
	enum stk_status s = read_webp(&w, rq->data, rq->size, err);
	if (s)
		return s;
	if (w.width != rq->info->width || w.height != rq->info->height)
		return stk__fail(err, STK_INVALID, "the image's info was read from another image");
	if (!w.complete && !d->limits.lenient)
		return stk__fail(err, STK_CORRUPT, "a truncated WebP: it says that it has more than its %zu bytes", rq->size);
	size_t library = library_bytes(&w);
	if (!stk__arena_charge(d->scratch, library))
		return stk__fail(err, STK_NO_MEMORY, "no memory for a WebP decoder");
	s = decode_part(&w, d, rq, err);
	stk__arena_discharge(d->scratch, library);
	return s;
}

static const char *const endings[] = {"webp", NULL};

const struct stk_codec stk__codec_webp = {"webp", "WebP", endings, false, webp_probe, webp_peek, webp_decode};
