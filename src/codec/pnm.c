/* SPDX-License-Identifier: Apache-2.0
 * Netpbm's PBM, PGM and PPM, as text (P1..P3) and binary (P4..P6), with values up to 65535. Values are scaled to the whole range of 8 bits, or of 16 bits if
 * the maximum is above 255. Scaling to 8 bits truncates, as in DALI; the common maxima need no scaling. If a file has several images, the first one is
 * decoded. */
#include "codec/bytes.h"
#include "codec/codec_impl.h"
#include "codec/convert.h"

#include <string.h>

enum { CHUNK = 64 };

struct pnm {
	int kind; /* the digit of the file's signature: 1..6 for P1..P6 */
	int32_t width, height, channels;
	uint32_t most;
	size_t pixels; /* offset of the first pixel in the file */
};

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool pnm_probe(const uint8_t *data, size_t size)
{
	return size >= 3 && data[0] == 'P' && data[1] >= '1' && data[1] <= '7' && (is_blank(data[2]) || data[2] == '#');
}

struct text {
	const uint8_t *data;
	size_t size, at;
};

static void skip_blanks(struct text *t)
{
	while (t->at < t->size && (is_blank(t->data[t->at]) || t->data[t->at] == '#')) {
		if (t->data[t->at] == '#')
			while (t->at < t->size && t->data[t->at] != '\n' && t->data[t->at] != '\r')
				t->at++;
		else
			t->at++;
	}
}

/* Reads the next number. Returns false if the text has no number here, or if the number exceeds `most`. */
static bool take_number(struct text *t, uint32_t most, uint32_t *number)
{
	uint64_t n = 0;
	skip_blanks(t);
	if (t->at == t->size || t->data[t->at] < '0' || t->data[t->at] > '9')
		return false;
	for (; t->at < t->size && t->data[t->at] >= '0' && t->data[t->at] <= '9'; t->at++) {
		n = n * 10 + (t->data[t->at] - '0');
		if (n > most)
			return false;
	}
	*number = (uint32_t)n;
	return true;
}

static bool is_text(const struct pnm *p)
{
	return p->kind <= 3;
}

static bool is_bits(const struct pnm *p)
{
	return p->kind == 1 || p->kind == 4;
}

static enum stk_status read_header(struct pnm *p, const uint8_t *data, size_t size, struct stk_error *err)
{
	struct text t = {data, size, 2};
	uint32_t width, height;
	p->kind = data[1] - '0';
	if (p->kind == 7)
		return stk__fail(err, STK_UNSUPPORTED, "a PAM (P7); convert it to PNM or PNG");
	p->channels = p->kind == 3 || p->kind == 6 ? 3 : 1;
	p->most = 1;
	if (!take_number(&t, INT32_MAX, &width) || !take_number(&t, INT32_MAX, &height) ||
		(!is_bits(p) && !take_number(&t, 65535, &p->most)))
		return stk__fail(err, STK_CORRUPT, "a PNM with a damaged header, at offset %zu", t.at);
	if (!width || !height || !p->most)
		return stk__fail(err, STK_CORRUPT, "a PNM of %u x %u pixels of values up to %u", width, height, p->most);
	if (t.at == size || !is_blank(data[t.at]))
		return stk__fail(err, STK_CORRUPT, "a PNM with a damaged header, at offset %zu", t.at);
	p->width = (int32_t)width;
	p->height = (int32_t)height;
	p->pixels = t.at + 1;
	return STK_OK;
}

/* Returns the size in bytes of a row of values, each of which has one or two bytes. */
static size_t row_values(const struct pnm *p)
{
	return (size_t)p->width * (size_t)p->channels * (p->most > 255 ? 2 : 1);
}

static enum stk_status pnm_peek(
	struct stk_decoder *decoder, const uint8_t *data, size_t size, struct stk_image_info *info, struct stk_error *err)
{
	(void)decoder;
	struct pnm p = {0};
	enum stk_status s = read_header(&p, data, size, err);
	if (s)
		return s;
	info->width = p.width;
	info->height = p.height;
	info->channels = p.channels;
	info->bits = p.most > 255 ? 16 : 8;
	info->memory = stk__scratch_bytes(row_values(&p));
	return STK_OK;
}

/* Converts row y of the image to its row of the output, if the window contains it. Values have 16 bits if the maximum is above 255. */
static void put_row(const struct pnm *p, const void *row, const struct stk_decode *rq, int y)
{
	const struct stk_rect *w = &rq->window;
	bool wide = p->most > 255;
	size_t pixel = (size_t)p->channels * (wide ? 2 : 1);
	if (y < w->y || y >= w->y + w->h)
		return;
	stk__convert_row(p->channels == 3 ? STK_PIXELS_RGB : STK_PIXELS_GRAY, wide ? STK_UINT16 : STK_UINT8,
		(const uint8_t *)row + (size_t)w->x * pixel, rq->type, rq->dst.dtype, (uint8_t *)rq->dst.data + (y - w->y) * rq->dst.row,
		w->w, STK_GRAY_ROUNDED);
}

/* Scales a value to the whole range of 8 or 16 bits. If the maximum is 256 to 65534 and the output has 8 bits, returns the truncated 8-bit value times 257,
 * which the later conversion from 16 bits to 8 turns into exactly that 8-bit value. */
static uint32_t scale(const struct pnm *p, uint32_t value, bool to_wide)
{
	value = value > p->most ? p->most : value;
	if (p->most == 255 || p->most == 65535)
		return value;
	if (p->most < 255 || !to_wide)
		return value * 255 / p->most * (p->most < 255 ? 1 : 257);
	return (uint32_t)(((uint64_t)value * 65535 + p->most / 2) / p->most);
}

static void put_value(const struct pnm *p, uint8_t *row, size_t i, uint32_t value, bool to_wide)
{
	uint32_t v = scale(p, value, to_wide);
	if (p->most > 255)
		((uint16_t *)row)[i] = (uint16_t)v;
	else
		row[i] = (uint8_t)v;
}

/* Reads the next pixel of P1, whose digits need no blanks. *value: 1 for the digit 0, which is white; 0 for 1. Returns false if no digit follows. */
static bool take_bit(struct text *t, uint32_t *value)
{
	skip_blanks(t);
	if (t->at == t->size || (t->data[t->at] & 0xfe) != '0')
		return false;
	*value = t->data[t->at++] == '0';
	return true;
}

/* Decodes P1 to P3. Reads the whole text, so that damage is found wherever the window is. */
static enum stk_status decode_text(const struct pnm *p, const struct stk_decode *rq, uint8_t *row, struct stk_error *err)
{
	struct text t = {rq->data, rq->size, p->pixels};
	size_t n = (size_t)p->width * (size_t)p->channels;
	for (int32_t y = 0; y < p->height && !stk__cancelled(rq->cancel); y++) {
		for (size_t i = 0; i < n; i++) {
			uint32_t value;
			if (p->kind == 1 ? !take_bit(&t, &value) : !take_number(&t, p->most, &value))
				return stk__fail(
					err, STK_CORRUPT, "a damaged or truncated PNM: no value of 0..%u at offset %zu", p->most, t.at);
			put_value(p, row, i, value, rq->dst.dtype == STK_UINT16);
		}
		put_row(p, row, rq, y);
	}
	return STK_OK;
}

static enum stk_status decode_binary(const struct pnm *p, const struct stk_decode *rq, uint8_t *row, struct stk_error *err)
{
	size_t n = (size_t)p->width * (size_t)p->channels, bytes = p->kind == 4 ? (n + 7) / 8 : row_values(p);
	if ((rq->size - p->pixels) / bytes < (size_t)p->height)
		return stk__fail(
			err, STK_CORRUPT, "a truncated PNM: %d rows of %zu bytes do not lie in its %zu", p->height, bytes, rq->size);
	for (int32_t y = rq->window.y; y < rq->window.y + rq->window.h && !stk__cancelled(rq->cancel); y++) {
		const uint8_t *from = rq->data + p->pixels + (size_t)y * bytes;
		if (p->kind != 4 && p->most == 255) {
			put_row(p, from, rq, y);
			continue;
		}
		for (size_t i = 0; i < n; i++) {
			uint32_t value = p->kind == 4    ? !(from[i / 8] >> (7 - i % 8) & 1)
					 : p->most > 255 ? stk__get16(from + 2 * i, false)
							 : from[i];
			put_value(p, row, i, value, rq->dst.dtype == STK_UINT16);
		}
		put_row(p, row, rq, y);
	}
	return STK_OK;
}

static enum stk_status pnm_decode(struct stk_decoder *d, const struct stk_decode *rq, struct stk_error *err)
{
	struct pnm p = {0};
	enum stk_status s = read_header(&p, rq->data, rq->size, err);
	if (s)
		return s;
	if (p.width != rq->info->width || p.height != rq->info->height || p.channels != rq->info->channels)
		return stk__fail(err, STK_INVALID, "the image's info was read from another image");
	uint8_t *row = stk__arena_take(d->scratch, row_values(&p));
	if (!row)
		return stk__fail(err, STK_NO_MEMORY, "no memory for a PNM of %dx%d", p.width, p.height);
	return is_text(&p) ? decode_text(&p, rq, row, err) : decode_binary(&p, rq, row, err);
}

static const char *const endings[] = {"pnm", "ppm", "pgm", "pbm", NULL};

const struct stk_codec stk__codec_pnm = {"pnm", "PNM", endings, false, pnm_probe, pnm_peek, pnm_decode};
