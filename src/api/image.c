/* SPDX-License-Identifier: Apache-2.0 */
#include "stoker/image.h"

#include "base/cpu.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/safe_text.h"
#include "codec/codec.h"
#include "format/list.h"
#include "kernel/convert/convert.h"
#include "op/color/intensity.h"
#include "storage/storage.h"

#include <stdio.h>
#include <string.h>

/* Maximum size in bytes of an image's file, and of the memory for decoding it. */
#define MOST_BYTES ((size_t)1 << 31)

struct stk_image_decoder {
	struct stk_arena arena;
	struct stk_codec_limits limits;       /* the limits of the environment */
	struct stk_decoder *lenient, *strict; /* created when first needed */
	struct stk_image_request request;
	struct stk_image_info info;
	enum stk_image_type type; /* type and dtype of the pixels of the open image */
	enum stk_dtype dtype;
	uint8_t *file; /* memory of the bytes that were read from request.path; NULL: the caller gave the bytes */
	const uint8_t *data;
	size_t size;
	bool open;
};

enum stk_status stk_image_decoder_create(struct stk_image_decoder **out, struct stk_error *err)
{
	if (STK_NEED(err, out))
		return STK_INVALID;
	*out = NULL;
	enum stk_status s = stk__environment_check(err);
	if (s)
		return s;
	struct stk_image_decoder *d = stk__calloc(1, sizeof *d);
	if (!d)
		return stk__fail(err, STK_NO_MEMORY, "no memory for an image decoder");
	d->limits = stk__codec_limits(false);
	stk__arena_init(&d->arena);
	*out = d;
	return STK_OK;
}

static void close_image(struct stk_image_decoder *d)
{
	stk__free(d->file);
	d->file = NULL;
	d->data = NULL;
	d->open = false;
	stk__arena_reset(&d->arena);
}

void stk_image_decoder_destroy(struct stk_image_decoder *d)
{
	if (!d)
		return;
	close_image(d);
	stk__decoder_destroy(d->lenient);
	stk__decoder_destroy(d->strict);
	stk__arena_destroy(&d->arena);
	stk__free(d);
}

/* Sets d->data and d->size to the file's bytes. Reads the file, or uses the caller's bytes. Decoders may read STK_ARENA_SLACK bytes more, so the caller's bytes
 * are copied unless the memory after them is readable. */
static enum stk_status take_bytes(struct stk_image_decoder *d, struct stk_error *err)
{
	const struct stk_image_request *q = &d->request;
	if (q->path) {
		const struct stk_access access = {.interrupted = q->interrupted, .user = q->interrupted_user};
		enum stk_status s = stk__access_read(&access, q->path, MOST_BYTES, &d->file, &d->size, err);
		d->data = d->file;
		return s;
	}
	d->data = q->data;
	d->size = q->bytes;
	if (q->bytes > MOST_BYTES)
		return stk__fail(err, STK_LIMIT, "%zu bytes of a file are over the limit of %zu", q->bytes, MOST_BYTES);
	if (q->bytes && stk__readable_past(d->data + d->size))
		return STK_OK;
	uint8_t *copy = stk__arena_take_uncounted(&d->arena, q->bytes);
	if (!copy)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a file of %zu bytes", q->bytes);
	if (q->bytes)
		memcpy(copy, q->data, q->bytes);
	d->data = copy;
	return STK_OK;
}

/* If the message lacks the file's name, inserts it at the beginning, and sets err->uri if that is empty. Returns s. Does nothing if the caller gave bytes
 * instead of a path. */
static enum stk_status name_file(const struct stk_image_decoder *d, enum stk_status s, struct stk_error *err)
{
	if (!err || !d->request.path)
		return s;
	char name[600];
	const struct stk_error was = *err;
	snprintf(name, sizeof name, "%.*s", stk__uri_shown(d->request.path), d->request.path);
	stk__safe_text(name, sizeof name);
	if (stk__names_file(err->message, name))
		return s;
	snprintf(err->message, sizeof err->message, "%s: %.400s", name, was.message);
	stk__error_set_sample(err, d->request.path, -1, -1);
	return s;
}

enum stk_status stk_image_open(
	struct stk_image_decoder *d, const struct stk_image_request *request, int64_t shape[3], struct stk_error *err)
{
	if (STK_NEED(err, d, request, shape))
		return STK_INVALID;
	if (request->size != sizeof *request || (!request->path && !request->data && request->bytes))
		return stk__fail(err, STK_INVALID, "stk_image_open needs a path or data, and a request whose size is set");
	if ((unsigned)request->type > STK_ANY_DATA)
		return stk__fail(
			err, STK_INVALID, "the type of the request is %d; it must be one of enum stk_image_type", (int)request->type);
	if (request->dtype != STK_NO_DTYPE && request->dtype != STK_UINT8 && request->dtype != STK_UINT16 && request->dtype != STK_INT16 &&
		request->dtype != STK_FLOAT)
		return stk__fail(
			err, STK_INVALID, "images are read as uint8, uint16, int16 or float32, not as %s", stk_dtype_name(request->dtype));
	close_image(d);
	stk__arena_limit(&d->arena, MOST_BYTES);
	d->request = *request;
	int32_t width, height;
	enum stk_status s = take_bytes(d, err);
	if (s || (s = stk__image_peek(d->data, d->size, &d->limits, &d->info, err))) {
		close_image(d);
		return name_file(d, s, err);
	}
	stk__image_extent(&d->info, !request->as_stored, &width, &height);
	shape[0] = height;
	shape[1] = width;
	d->type = request->keeps_channels && d->info.measured ? STK_ANY_DATA : request->type;
	bool own = request->dtype == STK_NO_DTYPE || (request->keeps_dtype && d->info.measured);
	d->dtype = own ? d->info.dtype : request->dtype;
	shape[2] = stk__image_channels(&d->info, d->type);
	d->open = true;
	return STK_OK;
}

enum stk_dtype stk_image_dtype(const struct stk_image_decoder *d)
{
	return d && d->open ? d->dtype : STK_NO_DTYPE;
}

/* Converts the elements of an image to another type, and scales them from the range of the one type to that of the other, as decoders.image does. */
static void scale_elements(const struct stk_image *from, void *to, enum stk_dtype dtype)
{
	enum { CHUNK = 512 };
	float values[CHUNK], scale = (float)(stk__intensity_range(dtype) / stk__intensity_range(from->dtype));
	size_t count = (size_t)from->width * (size_t)from->height * (size_t)from->channels;
	size_t read = stk_dtype_size(from->dtype), written = stk_dtype_size(dtype);
	for (size_t at = 0; at < count; at += CHUNK) {
		int64_t n = count - at < CHUNK ? (int64_t)(count - at) : CHUNK;
		stk__convert(values, STK_FLOAT, (const uint8_t *)from->data + at * read, from->dtype, n);
		for (int64_t i = 0; i < n; i++)
			values[i] *= scale;
		stk__convert((uint8_t *)to + at * written, dtype, values, STK_FLOAT, n);
	}
}

/* Fails unless `bytes` is the size of all pixels of the open image. */
static enum stk_status check_size(const struct stk_image_decoder *d, size_t bytes, struct stk_error *err)
{
	int32_t width, height, channels = stk__image_channels(&d->info, d->type);
	stk__image_extent(&d->info, !d->request.as_stored, &width, &height);
	if (bytes == (size_t)width * (size_t)height * (size_t)channels * stk_dtype_size(d->dtype))
		return STK_OK;
	return stk__fail(err, STK_INVALID, "%zu bytes are given for an image of %d x %d pixels of %d channels of %s", bytes, width, height,
		channels, stk_dtype_name(d->dtype));
}

static enum stk_status decode(struct stk_image_decoder *d, void *to, struct stk_error *err)
{
	const struct stk_image_request *q = &d->request;
	struct stk_decoder **decoder = q->lenient ? &d->lenient : &d->strict;
	struct stk_codec_limits limits = d->limits;
	limits.lenient = q->lenient;
	enum stk_status s = STK_OK;
	if (!*decoder && (s = stk__decoder_create(&limits, stk__cpu_capabilities(), &d->arena, decoder, err)))
		return s;
	struct stk_cancel_poll poll = {.interrupted = q->interrupted, .user = q->interrupted_user};
	const struct stk_cancel cancel = {.poll = q->interrupted ? &poll : NULL};
	struct stk_decode request = {
		.data = d->data, .size = d->size, .info = &d->info, .type = d->type, .orient = !q->as_stored, .cancel = &cancel};
	int32_t width, height, channels = stk__image_channels(&d->info, d->type);
	stk__image_extent(&d->info, request.orient, &width, &height);
	size_t elements = (size_t)width * (size_t)height * (size_t)channels;
	request.window = (struct stk_rect){0, 0, width, height};
	bool direct = d->dtype == STK_UINT8 || d->dtype == d->info.dtype;
	enum stk_dtype decoded = direct ? d->dtype : d->info.dtype;
	request.dst = stk__image_hwc(
		direct ? to : stk__arena_take(&d->arena, elements * stk_dtype_size(decoded)), decoded, width, height, channels);
	if (!request.dst.data)
		return stk__fail(
			err, STK_NO_MEMORY, "out of memory for an image of %d x %d pixels of %d channels", width, height, channels);
	s = stk__image_decode(*decoder, &request, err);
	if (!s && !direct)
		scale_elements(&request.dst, to, d->dtype);
	return s;
}

enum stk_status stk_image_read(struct stk_image_decoder *d, void *to, size_t bytes, struct stk_error *err)
{
	if (STK_NEED(err, d, to))
		return STK_INVALID;
	if (!d->open)
		return stk__fail(err, STK_STATE, "no image is open, or it was read already");
	enum stk_status s = check_size(d, bytes, err);
	if (s)
		return name_file(d, s, err);
	s = decode(d, to, err);
	close_image(d);
	return s ? name_file(d, s, err) : STK_OK;
}
