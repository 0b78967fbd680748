/* SPDX-License-Identifier: Apache-2.0
 * The registry of codecs, and the code that all of them share: limits, orientation, scratch memory. */
#include "base/environment.h"
#include "codec/codec_impl.h"
#include "codec/foreign.h"
#include "codec/orient.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { DEFAULT_MAX_SCANS = 256, SHOWN_BYTES = 16 };
#define DEFAULT_MAX_PIXELS (INT64_C(1) << 28)

/* The codecs in order of priority. To add a codec, add its file and its name here. */
static const struct stk_codec *const codecs[] = {
	&stk__codec_jpeg, &stk__codec_png, &stk__codec_webp, &stk__codec_tiff, &stk__codec_bmp, &stk__codec_pnm};
enum { CODECS = sizeof codecs / sizeof *codecs };

/* Writes the titles of the formats that this build decodes, for example "JPEG, PNG or BMP". */
static void list_titles(char *text, size_t size)
{
	size_t n = 0;
	for (int i = 0; i < CODECS && n < size; i++) {
		const char *separator = i == 0 ? "" : i == CODECS - 1 ? " or " : ", ";
		if (codecs[i]->decode)
			n += (size_t)snprintf(text + n, size - n, "%s%s", separator, codecs[i]->title);
	}
}

bool stk__image_ending(const char *ending, bool case_sensitive)
{
	for (int i = 0; i < CODECS; i++)
		for (const char *const *e = codecs[i]->endings; codecs[i]->decode && *e; e++)
			if ((case_sensitive ? strcmp : strcasecmp)(ending, *e) == 0)
				return true;
	return false;
}

const char *const stk__image_globs[STK_IMAGE_GLOBS] = {"*.jpg", "*.jpeg", "*.png", "*.ppm", "*.bmp", "*.pgm", "*.tif", "*.tiff", "*.webp"};

static enum stk_status fail_unknown(const uint8_t *data, size_t size, struct stk_error *err)
{
	char titles[128], shown[4 * SHOWN_BYTES + 1] = "";
	struct stk_foreign kind;
	list_titles(titles, sizeof titles);
	if (stk__foreign_find(data, size, &kind))
		return stk__fail(
			err, kind.picture ? STK_UNSUPPORTED : STK_CORRUPT, "not a %s: it is %s; %s", titles, kind.name, kind.remedy);
	size_t n = 0;
	for (size_t i = 0; i < size && i < SHOWN_BYTES; i++) {
		bool printable = data[i] >= ' ' && data[i] < 0x7f && data[i] != '"' && data[i] != '\\';
		n += (size_t)snprintf(shown + n, sizeof shown - n, printable ? "%c" : "\\x%02x", data[i]);
	}
	return stk__fail(err, STK_CORRUPT, "not a %s (starts with \"%s\")", titles, shown);
}

bool stk__describe_no_media(const uint8_t *data, size_t size, char *text, size_t text_size)
{
	struct stk_foreign kind;
	if (stk__foreign_find(data, size, &kind)) {
		const bool remedy = !kind.picture; /* none for a picture: it would only lead to another picture */
		snprintf(text, text_size, "%s%s%s", kind.name, remedy ? "; " : "", remedy ? kind.remedy : "");
		return !kind.media;
	}
	for (int i = 0; i < CODECS; i++)
		if (codecs[i]->probe(data, size)) {
			snprintf(text, text_size, "a %s picture%s", codecs[i]->title,
				codecs[i]->decode ? ", which decoders.image and stoker.imread read" : "");
			return true;
		}
	return false;
}

struct stk_codec_limits stk__codec_limits(bool lenient)
{
	return (struct stk_codec_limits){.max_pixels = stk__environment_number("STOKER_MAX_IMAGE_SIZE"),
		.max_scans = (int32_t)stk__environment_number("STOKER_MAX_JPEG_SCANS"),
		.lenient = lenient};
}

static enum stk_status check_limits(const struct stk_codec_limits *limits, const struct stk_image_info *info, struct stk_error *err)
{
	int64_t max = limits && limits->max_pixels > 0 ? limits->max_pixels : DEFAULT_MAX_PIXELS;
	/* A pixel counts once for every 8 bytes of its channels, rounded up, so images with many bands may have fewer pixels. */
	int64_t weight = ((int64_t)info->channels * (int64_t)stk_dtype_size(info->dtype) + 7) / 8;
	if ((int64_t)info->width * info->height <= max / weight)
		return STK_OK;
	char bands[48] = "";
	if (weight > 1)
		snprintf(bands, sizeof bands, " of %d bands of %d bits", info->channels, info->bits);
	return stk__fail(err, STK_LIMIT, "%dx%d pixels%s are over the limit of %lld (STOKER_MAX_IMAGE_SIZE)", info->width, info->height,
		bands, (long long)(max / weight));
}

static enum stk_status peek(struct stk_decoder *d, const struct stk_codec_limits *limits, const uint8_t *data, size_t size,
	struct stk_image_info *info, struct stk_error *err)
{
	enum stk_status status = STK_UNSUPPORTED;
	bool recognised = false;
	for (int i = 0; i < CODECS && status == STK_UNSUPPORTED; i++) {
		if (!codecs[i]->probe(data, size))
			continue;
		recognised = true;
		*info = (struct stk_image_info){.codec = codecs[i], .format = codecs[i]->format, .orientation = 1, .dtype = STK_NO_DTYPE};
		status = codecs[i]->peek(d, data, size, info, err);
		if (info->dtype == STK_NO_DTYPE)
			info->dtype = info->bits > 8 ? STK_UINT16 : STK_UINT8;
	}
	if (!recognised)
		return fail_unknown(data, size, err);
	return status ? status : check_limits(limits, info, err);
}

enum stk_status stk__image_peek(
	const uint8_t *data, size_t size, const struct stk_codec_limits *limits, struct stk_image_info *info, struct stk_error *err)
{
	return peek(NULL, limits, data, size, info, err);
}

enum stk_status stk__image_peek_for(
	struct stk_decoder *d, const uint8_t *data, size_t size, struct stk_image_info *info, struct stk_error *err)
{
	return peek(d, &d->limits, data, size, info, err);
}

void stk__image_extent(const struct stk_image_info *info, bool orient, int32_t *width, int32_t *height)
{
	bool swap = orient && stk__orient_swaps(info->orientation);
	*width = swap ? info->height : info->width;
	*height = swap ? info->width : info->height;
}

int32_t stk__image_channels(const struct stk_image_info *info, enum stk_image_type type)
{
	return type == STK_GRAY ? 1 : type == STK_ANY_DATA ? info->channels : 3;
}

enum stk_status stk__decoder_create(
	const struct stk_codec_limits *limits, unsigned cpu, struct stk_arena *scratch, struct stk_decoder **out, struct stk_error *err)
{
	struct stk_decoder *d = stk__calloc(1, sizeof *d);
	*out = NULL;
	if (!d)
		return stk__fail(err, STK_NO_MEMORY, "no memory for an image decoder");
	if (limits)
		d->limits = *limits;
	if (d->limits.max_scans <= 0)
		d->limits.max_scans = DEFAULT_MAX_SCANS;
	d->cpu = cpu;
	d->scratch = scratch;
	enum stk_status status = stk__jpeg_decoder_create(d, err);
	if (status)
		stk__decoder_destroy(d);
	else
		*out = d;
	return status;
}

void stk__decoder_destroy(struct stk_decoder *d)
{
	if (!d)
		return;
	stk__jpeg_decoder_destroy(d->jpeg);
	stk__free(d);
}

/* Decodes the window as stored to scratch memory, then copies it to dst in the image's orientation. */
static enum stk_status decode_turned(struct stk_decoder *d, const struct stk_decode *rq, struct stk_error *err)
{
	const struct stk_image_info *info = rq->info;
	struct stk_decode stored = *rq;
	int32_t width = stk__image_scaled(info->width, rq->denom), height = stk__image_scaled(info->height, rq->denom);
	stored.window = stk__orient_rect(info->orientation, width, height, rq->window);
	struct stk_image *image = &stored.dst;
	*image = stk__image_hwc(NULL, rq->dst.dtype, stored.window.w, stored.window.h, rq->dst.channels);
	image->data = stk__arena_take(d->scratch, (size_t)image->row * (size_t)image->height);
	if (!image->data)
		return stk__fail(err, STK_NO_MEMORY, "no memory to turn an image of %dx%d", image->width, image->height);
	enum stk_status status = info->codec->decode(d, &stored, err);
	if (!status)
		stk__orient_copy(info->orientation, image, &rq->dst);
	return status;
}

static bool must_turn(const struct stk_decode *rq)
{
	return rq->orient && rq->info->orientation > 1;
}

size_t stk__image_memory(const struct stk_decode *rq)
{
	size_t row = (size_t)rq->window.w * (size_t)rq->dst.channels * stk_dtype_size(rq->dst.dtype);
	return rq->info->memory + (must_turn(rq) ? stk__scratch_bytes(row * (size_t)rq->window.h) : 0);
}

static bool request_valid(const struct stk_decode *rq)
{
	int32_t width, height;
	const struct stk_rect *w = &rq->window;
	stk__image_extent(rq->info, rq->orient, &width, &height);
	width = stk__image_scaled(width, rq->denom);
	height = stk__image_scaled(height, rq->denom);
	return w->x >= 0 && w->y >= 0 && w->w > 0 && w->h > 0 && w->w <= width - w->x && w->h <= height - w->y && rq->dst.width == w->w &&
	       rq->dst.height == w->h && rq->dst.channels == stk__image_channels(rq->info, rq->type) &&
	       rq->dst.channel == (ptrdiff_t)stk_dtype_size(rq->dst.dtype) && rq->dst.pixel == rq->dst.channel * rq->dst.channels &&
	       (rq->dst.dtype == rq->info->dtype || rq->dst.dtype == STK_UINT8);
}

enum stk_status stk__image_decode(struct stk_decoder *d, const struct stk_decode *rq, struct stk_error *err)
{
	if (!request_valid(rq))
		return stk__fail(err, STK_INVALID, "a decode of %dx%d pixels at (%d, %d) does not fit the image or its destination",
			rq->window.w, rq->window.h, rq->window.x, rq->window.y);
	if (rq->denom > 1 && !rq->info->codec->scales)
		return stk__fail(
			err, STK_UNSUPPORTED, "a %s is not decoded at 1/%d of its size; a JPEG is", rq->info->codec->title, rq->denom);
	enum stk_status status = check_limits(&d->limits, rq->info, err);
	if (status)
		return status;
	/* The need for memory is computed from the header, so that every decoder refuses the same files. */
	if (!stk__arena_allows(d->scratch, stk__image_memory(rq)))
		return stk__fail(err, STK_NO_MEMORY, "no memory to decode an image of %dx%d", rq->info->width, rq->info->height);
	struct stk_arena_mark mark = stk__arena_mark(d->scratch);
	status = must_turn(rq) ? decode_turned(d, rq, err) : rq->info->codec->decode(d, rq, err);
	stk__arena_release(d->scratch, mark);
	/* A codec that was cancelled leaves rows undecoded and may return any status. */
	return stk__cancelled(rq->cancel) ? stk__fail(err, STK_CANCELLED, "the decode was cancelled") : status;
}
