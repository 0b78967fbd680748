/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_header.h"

#include "codec/exif.h"

#include <string.h>

enum { MOST_PIXELS = 65500 }; /* JPEG_MAX_DIMENSION of libjpeg */

enum marker {
	SOF0 = 0xc0,
	SOF1 = 0xc1,
	SOF2 = 0xc2,
	SOF3 = 0xc3,
	DHT = 0xc4,
	SOF9 = 0xc9,
	SOF10 = 0xca,
	DAC = 0xcc,
	SOF15 = 0xcf,
	SOF55 = 0xf7, /* the SOF of JPEG-LS, ITU-T T.87 */
	RST0 = 0xd0,
	RST7 = 0xd7,
	SOI = 0xd8,
	EOI = 0xd9,
	SOS = 0xda,
	DQT = 0xdb,
	DNL = 0xdc,
	DRI = 0xdd,
	APP0 = 0xe0,
	APP1 = 0xe1,
	APP14 = 0xee,
	APP15 = 0xef,
	COM = 0xfe,
	TEM = 0x01,
};

/* [k]: position in natural order of the k-th coefficient in zigzag order [figure A.6]. */
static const uint8_t natural_order[64] = {0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
	13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61,
	54, 47, 55, 62, 63};

/* The parser's state. A segment's payload is data[at .. end-1]. */
struct parser {
	const uint8_t *data;
	size_t size, at, end;
	struct stk_jpeg_header *h;
	struct stk_error *err;
	bool has_frame, has_exif;
};

static enum stk_status fail_at(struct parser *p, size_t offset, enum stk_status code, const char *what)
{
	enum stk_status status = stk__fail(p->err, code, "JPEG header, offset %zu: %s", offset, what);
	if (p->err)
		p->err->offset = (int64_t)offset;
	return status;
}

static enum stk_status corrupt(struct parser *p, const char *what)
{
	return fail_at(p, p->at, STK_CORRUPT, what);
}

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

/* Moves past the next marker and returns its code, or -1 at the end of the data. Like libjpeg, skips bytes that belong to no segment, which are everything
 * up to an FF and each pair FF 0, and counts them in h->stray. Does not count fill bytes, which are further FFs before the code. */
static int next_marker(struct parser *p)
{
	size_t at = p->at;
	for (;;) {
		while (at < p->size && p->data[at] != 0xff) {
			at++;
			p->h->stray++;
		}
		while (at < p->size && p->data[at] == 0xff)
			at++;
		if (at >= p->size)
			return -1;
		if (p->data[at++] != 0) {
			p->at = at;
			return p->data[at - 1];
		}
		p->h->stray += 2;
	}
}

/* Reads a segment's length, and sets `at` and `end` to its payload. In APPn, COM and DNL, a length below 2 counts as 2, as in libjpeg. */
static enum stk_status open_segment(struct parser *p, int marker)
{
	if (p->size - p->at < 2)
		return corrupt(p, "it ends inside a segment's length");
	size_t length = get16(p->data + p->at);
	bool passed_over = marker >= APP0 || marker == DNL;
	if (length < 2 && !passed_over)
		return corrupt(p, "a segment's length is below 2");
	length = length < 2 ? 2 : length;
	if (length > p->size - p->at)
		return corrupt(p, "it ends inside a segment");
	p->end = p->at + length;
	p->at += 2;
	return STK_OK;
}

static enum stk_status read_quant(struct parser *p)
{
	struct stk_jpeg_tables *t = &p->h->tables;
	while (p->at < p->end) {
		unsigned kind = p->data[p->at++], slot = kind & 15;
		bool wide = kind >> 4;
		size_t bytes = wide ? 128 : 64;
		if (slot >= STK_JPEG_TABLES)
			return corrupt(p, "a quantisation table's number is above 3");
		if (p->end - p->at < bytes)
			return corrupt(p, "a quantisation table is cut off");
		const uint8_t *from = p->data + p->at;
		for (int k = 0; k < 64; k++)
			t->quant[slot][natural_order[k]] = (uint16_t)(wide ? get16(from + 2 * k) : from[k]);
		t->quant_mask |= (uint8_t)(1 << slot);
		t->quant_wide = (uint8_t)((t->quant_wide & ~(1 << slot)) | wide << slot);
		p->at += bytes;
	}
	return STK_OK;
}

static enum stk_status read_huffman(struct parser *p)
{
	struct stk_jpeg_tables *t = &p->h->tables;
	while (p->at < p->end) {
		unsigned kind = p->data[p->at++], slot = kind & 15, sum = 0;
		if (kind >> 4 > 1 || slot >= STK_JPEG_TABLES)
			return corrupt(p, "a Huffman table's number is impossible");
		bool ac = kind >> 4;
		struct stk_jpeg_huffman *table = ac ? &t->ac[slot] : &t->dc[slot];
		if (p->end - p->at < 16)
			return corrupt(p, "a Huffman table is cut off");
		memcpy(table->counts, p->data + p->at, 16);
		p->at += 16;
		for (int i = 0; i < 16; i++)
			sum += table->counts[i];
		if (sum > 256 || sum > p->end - p->at)
			return corrupt(p, "a Huffman table has more symbols than its segment");
		memcpy(table->values, p->data + p->at, sum);
		memset(table->values + sum, 0, 256 - sum);
		p->at += sum;
		*(ac ? &t->ac_mask : &t->dc_mask) |= (uint8_t)(1 << slot);
	}
	return STK_OK;
}

/* Checks the conditioning of arithmetic coding [B.2.4.3]. The values are not needed: only libjpeg-turbo decodes such files, and it parses the header itself. */
static enum stk_status check_conditioning(struct parser *p)
{
	if ((p->end - p->at) % 2)
		return corrupt(p, "DAC has a wrong length");
	for (; p->at < p->end; p->at += 2) {
		unsigned slot = p->data[p->at], value = p->data[p->at + 1];
		if (slot >= 32 || (slot < 16 && (value & 15) > value >> 4))
			return corrupt(p, "DAC has an impossible value");
	}
	return STK_OK;
}

static enum stk_status read_restart(struct parser *p)
{
	if (p->end - p->at != 2)
		return corrupt(p, "DRI has a wrong length");
	p->h->restart_interval = (int32_t)get16(p->data + p->at);
	return STK_OK;
}

/* Reads a JFIF, EXIF or Adobe segment; ignores others. Of several EXIF segments only the first counts, even if it holds no orientation, as in Pillow. */
static void read_app(struct parser *p, int marker)
{
	const uint8_t *d = p->data + p->at;
	size_t n = p->end - p->at;
	struct stk_jpeg_header *h = p->h;
	if (marker == APP0 && n >= 14 && memcmp(d, "JFIF", 5) == 0)
		h->jfif = true;
	if (marker == APP14 && n >= 12 && memcmp(d, "Adobe", 5) == 0) {
		h->adobe = true;
		h->adobe_transform = d[11];
	}
	if (marker == APP1 && n > 6 && memcmp(d, "Exif\0", 6) == 0 && !p->has_exif) {
		p->has_exif = true;
		h->orientation = (uint8_t)stk__exif_orientation(d + 6, n - 6);
	}
}

static enum stk_status read_process(struct parser *p, int marker)
{
	switch (marker) {
	case SOF0:
		p->h->process = STK_JPEG_BASELINE;
		return STK_OK;
	case SOF1:
		p->h->process = STK_JPEG_EXTENDED;
		return STK_OK;
	case SOF2:
		p->h->process = STK_JPEG_PROGRESSIVE;
		return STK_OK;
	case SOF9:
		p->h->process = STK_JPEG_ARITHMETIC;
		return STK_OK;
	case SOF10:
		p->h->process = STK_JPEG_ARITHMETIC_PROGRESSIVE;
		return STK_OK;
	case SOF3:
		return fail_at(p, p->at, STK_UNSUPPORTED, "a lossless JPEG, which takes libjpeg-turbo 3; save it as PNG");
	default:
		return fail_at(p, p->at, STK_UNSUPPORTED, "a hierarchical JPEG, or a lossless one of arithmetic coding; save it as PNG");
	}
}

static enum stk_status read_components(struct parser *p)
{
	struct stk_jpeg_header *h = p->h;
	h->h_max = h->v_max = 1;
	for (int i = 0; i < h->components; i++) {
		const uint8_t *d = p->data + p->at + 6 + 3 * i;
		struct stk_jpeg_component *c = &h->component[i];
		*c = (struct stk_jpeg_component){.id = d[0], .h = d[1] >> 4, .v = d[1] & 15, .quant = d[2]};
		if (c->h < 1 || c->h > 4 || c->v < 1 || c->v > 4)
			return corrupt(p, "a sampling factor is not 1..4");
		h->h_max = c->h > h->h_max ? c->h : h->h_max;
		h->v_max = c->v > h->v_max ? c->v : h->v_max;
	}
	for (int i = 0; i < h->components; i++) {
		struct stk_jpeg_component *c = &h->component[i];
		c->width = (h->width * c->h + h->h_max - 1) / h->h_max;
		c->height = (h->height * c->v + h->v_max - 1) / h->v_max;
	}
	return STK_OK;
}

static enum stk_status read_frame(struct parser *p, int marker)
{
	struct stk_jpeg_header *h = p->h;
	if (p->has_frame)
		return corrupt(p, "two frames");
	p->has_frame = true;
	enum stk_status status = read_process(p, marker);
	if (status)
		return status;
	const uint8_t *d = p->data + p->at;
	if (p->end - p->at < 6 || p->end - p->at != 6 + 3 * (size_t)d[5])
		return corrupt(p, "SOF has a wrong length");
	h->height = (int32_t)get16(d + 1);
	h->width = (int32_t)get16(d + 3);
	h->components = d[5];
	if (!h->width || !h->height || !h->components)
		return corrupt(p, "an empty image");
	if (h->width > MOST_PIXELS || h->height > MOST_PIXELS)
		return fail_at(p, p->at, STK_UNSUPPORTED, "more than 65500 pixels in a direction, which libjpeg refuses too");
	if (d[0] != 8)
		return fail_at(p, p->at, STK_UNSUPPORTED, "samples of other than 8 bits, as of 12; save it with 8, or as PNG");
	if (h->components > STK_JPEG_MAX_COMPONENTS)
		return fail_at(p, p->at, STK_UNSUPPORTED, "more than 4 components; save it as RGB");
	return read_components(p);
}

static enum stk_status read_scan(struct parser *p)
{
	struct stk_jpeg_header *h = p->h;
	const uint8_t *d = p->data + p->at;
	if (!p->has_frame)
		return corrupt(p, "a scan before any frame");
	int n = p->at < p->end ? d[0] : 0;
	if (n < 1 || n > STK_JPEG_MAX_COMPONENTS || p->end - p->at != 4 + 2 * (size_t)n)
		return corrupt(p, "SOS has a wrong length");
	h->scan_components = n;
	unsigned seen = 0;
	for (int i = 0; i < n; i++) {
		int c = 0;
		while (c < h->components && (h->component[c].id != d[1 + 2 * i] || seen & 1u << c))
			c++;
		if (c == h->components)
			return corrupt(p, "a scan of a component that the frame does not have");
		seen |= 1u << c;
		h->scan_order[i] = (uint8_t)c;
		h->component[c].dc = d[2 + 2 * i] >> 4;
		h->component[c].ac = d[2 + 2 * i] & 15;
	}
	d += 1 + 2 * n;
	h->spectral_start = d[0];
	h->spectral_end = d[1];
	h->approx_high = d[2] >> 4;
	h->approx_low = d[2] & 15;
	h->scan_offset = p->end;
	return STK_OK;
}

/* Guesses the colour space as libjpeg does (jdapimin.c). Three components: JFIF means YCbCr; otherwise Adobe's marker decides, otherwise the components' ids.
 * One component is gray. Four are YCCK if Adobe's marker states a transform, otherwise CMYK. */
static enum stk_jpeg_color guess_color(const struct stk_jpeg_header *h)
{
	const struct stk_jpeg_component *c = h->component;
	switch (h->components) {
	case 1:
		return STK_JPEG_GRAY;
	case 3:
		if (h->jfif)
			return STK_JPEG_YCBCR;
		if (h->adobe)
			return h->adobe_transform == 0 ? STK_JPEG_RGB : STK_JPEG_YCBCR;
		return c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B' ? STK_JPEG_RGB : STK_JPEG_YCBCR;
	case 4:
		return h->adobe && h->adobe_transform != 0 ? STK_JPEG_YCCK : STK_JPEG_CMYK;
	default:
		return STK_JPEG_UNKNOWN;
	}
}

static enum stk_status read_segment(struct parser *p, int marker)
{
	switch (marker) {
	case DQT:
		return read_quant(p);
	case DHT:
		return read_huffman(p);
	case DRI:
		return read_restart(p);
	case SOS:
		return read_scan(p);
	case DAC:
		return check_conditioning(p);
	case DNL:
	case COM:
		return STK_OK;
	}
	if (marker >= SOF0 && marker <= SOF15)
		return read_frame(p, marker);
	if (marker >= APP0 && marker <= APP15) {
		read_app(p, marker);
		return STK_OK;
	}
	if (marker == SOF55)
		return fail_at(p, p->at, STK_UNSUPPORTED, "a JPEG-LS; save it as PNG");
	return corrupt(p, "an unknown marker");
}

enum stk_status stk__jpeg_header_parse(const uint8_t *data, size_t size, struct stk_jpeg_header *h, struct stk_error *err)
{
	struct parser p = {.data = data, .size = size, .h = h, .err = err};
	memset(h, 0, offsetof(struct stk_jpeg_header, tables));
	h->tables.dc_mask = h->tables.ac_mask = h->tables.quant_mask = h->tables.quant_wide = 0;
	if (size < 4 || data[0] != 0xff || data[1] != SOI)
		return corrupt(&p, "not a JPEG");
	p.at = 2;
	for (;;) {
		int marker = next_marker(&p);
		if (marker < 0)
			return fail_at(&p, size, STK_CORRUPT, "it ends before the first scan");
		if (marker == SOI || marker == EOI)
			return corrupt(&p, marker == SOI ? "two SOI" : "no scan before EOI");
		if (marker == TEM || (marker >= RST0 && marker <= RST7))
			continue;
		enum stk_status status = open_segment(&p, marker);
		if (!status)
			status = read_segment(&p, marker);
		if (status)
			return status;
		if (marker == SOS)
			break;
		p.at = p.end;
	}
	h->color = guess_color(h);
	if (!h->orientation)
		h->orientation = 1;
	return STK_OK;
}

/* Returns the offset of the marker that ends a scan, or `size` if the scan has no end. If `restarts`, RST markers do not end the scan. */
static size_t find_scan_end(const uint8_t *data, size_t size, size_t at, bool restarts)
{
	while (at < size) {
		const uint8_t *ff = memchr(data + at, 0xff, size - at);
		if (!ff)
			return size;
		at = (size_t)(ff - data);
		if (size - at < 2)
			return size;
		uint8_t code = data[at + 1];
		if (code == 0xff)
			at++;
		else if (code == 0 || (restarts && code >= RST0 && code <= RST7))
			at += 2;
		else
			return at;
	}
	return size;
}

enum stk_jpeg_next stk__jpeg_header_next(const uint8_t *data, size_t size, struct stk_jpeg_header *h, size_t *at)
{
	struct parser p = {.data = data, .size = size, .h = h, .has_frame = true};
	p.at = find_scan_end(data, size, *at, h->restart_interval != 0);
	for (;;) {
		int marker = next_marker(&p);
		if (marker == EOI)
			return STK_JPEG_NEXT_END;
		if (marker != DHT && marker != DRI && marker != SOS && marker != COM)
			return STK_JPEG_NEXT_OTHER;
		if (open_segment(&p, marker) || read_segment(&p, marker))
			return STK_JPEG_NEXT_OTHER;
		p.at = p.end;
		if (marker == SOS)
			break;
	}
	*at = h->scan_offset;
	return STK_JPEG_NEXT_SCAN;
}

bool stk__jpeg_find_eoi(const uint8_t *data, size_t size, const struct stk_jpeg_header *h, size_t *end)
{
	for (size_t i = size; i >= h->scan_offset + 2; i--)
		if (data[i - 1] == EOI && data[i - 2] == 0xff) {
			if (end)
				*end = i - 2;
			return true;
		}
	if (end)
		*end = size;
	return false;
}

const uint8_t *stk__jpeg_find_marker(const uint8_t *at, const uint8_t *end)
{
	while (at + 1 < end && (at = memchr(at, 0xff, (size_t)(end - at - 1)))) {
		const uint8_t *code = at + 1;
		while (code < end && *code == 0xff)
			code++;
		if (code < end && *code)
			return code - 1;
		if (code > at + 1)
			return NULL;
		at++;
	}
	return NULL;
}
