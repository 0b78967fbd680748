/* SPDX-License-Identifier: Apache-2.0 */
#include "media/convert.h"

#include <math.h>
#include <string.h>

struct stk_yuv_matrix stk__yuv_matrix(double red, double blue, bool full, int bits)
{
	const double green = 1 - red - blue, fixed_one = 65536;
	/* Factors that stretch luma (y) and chroma (c) from their range in the stream to 0..255, times 2^16. */
	const double y = full ? fixed_one : fixed_one * 255 / 219, c = full ? fixed_one : fixed_one * 255 / 224;
	/* Stretches samples of more than 8 bits in full range, whose largest value is 2^bits - 1 instead of 255 times a power of two. */
	const double depth_scale = full ? 255.0 * (1 << (bits - 8)) / ((1 << bits) - 1) : 1;
	return (struct stk_yuv_matrix){
		.luma = (int32_t)lrint(y * depth_scale),
		.red_v = (int32_t)lrint(c * depth_scale * 2 * (1 - red)),
		.green_u = (int32_t)lrint(c * depth_scale * 2 * (1 - blue) * blue / green),
		.green_v = (int32_t)lrint(c * depth_scale * 2 * (1 - red) * red / green),
		.blue_u = (int32_t)lrint(c * depth_scale * 2 * (1 - blue)),
		.luma_zero = full ? 0 : 16 << (bits - 8),
		.chroma_zero = 128 << (bits - 8),
	};
}

struct stk_image stk__image_turned(const struct stk_image *dst, int32_t rotation)
{
	struct stk_image out = *dst;
	uint8_t *data = dst->data;
	const ptrdiff_t right = dst->pixel * (dst->width - 1), bottom = dst->row * (dst->height - 1);
	switch (rotation) {
	case 90:
		out.data = data + right;
		out.pixel = dst->row;
		out.row = -dst->pixel;
		break;
	case 180:
		out.data = data + right + bottom;
		out.pixel = -dst->pixel;
		out.row = -dst->row;
		break;
	case 270:
		out.data = data + bottom;
		out.pixel = -dst->row;
		out.row = dst->pixel;
		break;
	default:
		break;
	}
	if (rotation == 90 || rotation == 270) {
		out.width = dst->height;
		out.height = dst->width;
	}
	return out;
}

static inline uint8_t clip(int32_t v)
{
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* Defines a loop over a row. wide: the type of sums, which needs 32 bits for up to 12 bits per sample, and 64 bits for more. */
#define CONVERT_ROW(name, sample, wide)                                                                                                    \
	static inline void name(const struct stk_yuv_matrix *m, int32_t bits, const sample *y, const sample *u, const sample *v,           \
		int32_t width, int32_t sub, uint8_t *r, uint8_t *g, uint8_t *b, ptrdiff_t pixel)                                           \
	{                                                                                                                                  \
		const int32_t s = 16 + bits - 8;                                                                                           \
		const wide half = (wide)1 << (s - 1);                                                                                      \
		const wide green_u = m->green_u, green_v = m->green_v, red_v = m->red_v, blue_u = m->blue_u, luma = m->luma;               \
		for (int32_t x = 0; x < width; x++) {                                                                                      \
			const wide l = luma * ((int32_t)y[x] - m->luma_zero) + half;                                                       \
			const wide cb = (int32_t)u[x >> sub] - m->chroma_zero, cr = (int32_t)v[x >> sub] - m->chroma_zero;                 \
			const wide red = (l + red_v * cr) >> s, green = (l - green_u * cb - green_v * cr) >> s,                            \
				   blue = (l + blue_u * cb) >> s;                                                                          \
			r[x * pixel] = clip((int32_t)red);                                                                                 \
			g[x * pixel] = clip((int32_t)green);                                                                               \
			b[x * pixel] = clip((int32_t)blue);                                                                                \
		}                                                                                                                          \
	}

CONVERT_ROW(row_u8, uint8_t, int32_t)
CONVERT_ROW(row_u16, uint16_t, int32_t)
CONVERT_ROW(row_u16_wide, uint16_t, int64_t)

void stk__yuv_row(const struct stk_yuv_matrix *m, const uint8_t *y, const uint8_t *u, const uint8_t *v, int32_t width,
	uint8_t *const out[3], ptrdiff_t pixel)
{
	if (pixel == 3) /* separate loops, in which `pixel` is a constant */
		row_u8(m, 8, y, u, v, width, 1, out[0], out[1], out[2], 3);
	else
		row_u8(m, 8, y, u, v, width, 1, out[0], out[1], out[2], 1);
}

/* Converts pictures of 8 bits. Common cases have separate loops, in which strides are constants. */
static void convert_u8(const struct stk_picture *p, stk_yuv_row *row, const uint8_t *y, const uint8_t *u, const uint8_t *v, uint8_t *to[3],
	ptrdiff_t pixel)
{
	const int32_t w = p->width;
	const bool adjacent = pixel == 1 || (pixel == 3 && to[1] == to[0] + 1 && to[2] == to[0] + 2);
	if (adjacent && p->sub_x == 1)
		row(&p->matrix, y, u, v, w, to, pixel);
	else if (pixel == 3 && p->sub_x == 0)
		row_u8(&p->matrix, 8, y, u, v, w, 0, to[0], to[1], to[2], 3);
	else
		row_u8(&p->matrix, 8, y, u, v, w, p->sub_x, to[0], to[1], to[2], pixel);
}

/* Number of pixels whose samples are unpacked at a time; even, so that pixels that share a chroma sample stay together. */
enum { CHUNK = 512 };

/* Unpacks samples x .. x + n - 1 of a row to 16 bits each. */
static void unpack(const struct stk_plane *plane, int32_t row, int32_t x, int32_t n, int32_t bits, uint16_t *out)
{
	const uint8_t *from = plane->data + row * plane->row + (ptrdiff_t)x * plane->step;
	if (bits == 8 && plane->shift == 0) {
		for (int32_t i = 0; i < n; i++)
			out[i] = from[(ptrdiff_t)i * plane->step];
		return;
	}
	const unsigned mask = (1u << bits) - 1;
	for (int32_t i = 0; i < n; i++) {
		uint16_t v;
		memcpy(&v, from + (ptrdiff_t)i * plane->step, sizeof v);
		out[i] = (uint16_t)(v >> plane->shift & mask);
	}
}

/* Scales a value from 0..most to 0..255, and rounds it to nearest. */
static inline uint8_t narrow(uint32_t v, uint32_t most)
{
	return (uint8_t)((v * 255 + most / 2) / most);
}

static void write_channels(uint16_t planes[3][CHUNK], int32_t n, int32_t bits, uint8_t *to[3], ptrdiff_t pixel)
{
	const uint32_t most = (1u << bits) - 1;
	for (int c = 0; c < 3; c++)
		for (int32_t i = 0; i < n; i++)
			to[c][i * pixel] = narrow(planes[c][i], most);
}

/* Writes gray pixels as three equal channels. */
static void write_gray(const struct stk_picture *p, const uint16_t *y, int32_t n, uint8_t *to[3], ptrdiff_t pixel)
{
	const int32_t s = 16 + p->bits - 8;
	const int64_t half = (int64_t)1 << (s - 1);
	for (int32_t i = 0; i < n; i++) {
		const uint8_t v = clip((int32_t)(((int64_t)p->matrix.luma * (y[i] - p->matrix.luma_zero) + half) >> s));
		to[0][i * pixel] = to[1][i * pixel] = to[2][i * pixel] = v;
	}
}

/* Converts pixels x .. x + n - 1 of a row, in any format. */
static void convert_chunk(const struct stk_picture *p, int32_t row, int32_t x, int32_t n, uint8_t *to[3], ptrdiff_t pixel)
{
	uint16_t planes[3][CHUNK];
	const int32_t chroma = ((x + n - 1) >> p->sub_x) - (x >> p->sub_x) + 1;
	unpack(&p->planes[0], row, x, n, p->bits, planes[0]);
	for (int c = 1; c < p->count; c++)
		unpack(&p->planes[c], row >> p->sub_y, x >> p->sub_x, chroma, p->bits, planes[c]);
	if (p->count == 1)
		write_gray(p, planes[0], n, to, pixel);
	else if (p->rgb)
		write_channels(planes, n, p->bits, to, pixel);
	else if (p->bits <= 12)
		row_u16(&p->matrix, p->bits, planes[0], planes[1], planes[2], n, p->sub_x, to[0], to[1], to[2], pixel);
	else
		row_u16_wide(&p->matrix, p->bits, planes[0], planes[1], planes[2], n, p->sub_x, to[0], to[1], to[2], pixel);
}

static bool is_plain(const struct stk_picture *p)
{
	bool plain = p->bits == 8 && p->count == 3 && !p->rgb;
	for (int c = 0; c < p->count; c++)
		plain = plain && p->planes[c].step == 1 && p->planes[c].shift == 0;
	return plain;
}

void stk__picture_to_rgb(const struct stk_picture *p, stk_yuv_row *usual, const struct stk_image *dst)
{
	const bool plain = is_plain(p);
	for (int32_t row = 0; row < p->height; row++) {
		uint8_t *first = (uint8_t *)dst->data + row * dst->row;
		uint8_t *to[3] = {first, first + dst->channel, first + 2 * dst->channel};
		if (plain) {
			const ptrdiff_t chroma = row >> p->sub_y;
			convert_u8(p, usual, p->planes[0].data + row * p->planes[0].row, p->planes[1].data + chroma * p->planes[1].row,
				p->planes[2].data + chroma * p->planes[2].row, to, dst->pixel);
			continue;
		}
		for (int32_t x = 0; x < p->width; x += CHUNK) {
			const int32_t n = p->width - x < CHUNK ? p->width - x : CHUNK;
			uint8_t *chunk[3] = {to[0] + x * dst->pixel, to[1] + x * dst->pixel, to[2] + x * dst->pixel};
			convert_chunk(p, row, x, n, chunk, dst->pixel);
		}
	}
}
