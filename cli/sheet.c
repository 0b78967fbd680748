/* SPDX-License-Identifier: Apache-2.0 */
#include "sheet.h"

#include "letters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CELL 256

/* LETTER_STEP, LINE_STEP and GAP are in pixels. LEAST_LETTERS: minimum width of a caption in letters. */
enum { LETTER_STEP = LETTER_WIDTH, LINE_STEP = LETTER_HEIGHT + 1, LEAST_LETTERS = 24, GAP = 4 };

/* A sample as an image: its extents and strides, in elements. */
struct picture {
	const void *data;
	enum stk_dtype dtype;
	int64_t width, height, channels, stride_x, stride_y, stride_c;
};

static bool as_picture(const struct stk_desc *d, const void *data, struct picture *p)
{
	bool planar = d->ndim == 3 && (d->layout[0] == 'C' || (!d->layout[0] && d->shape[0] <= 3 && d->shape[2] > 3));
	if (d->ndim == 2)
		*p = (struct picture){data, d->dtype, d->shape[1], d->shape[0], 1, 1, d->shape[1], 0};
	else if (planar)
		*p = (struct picture){data, d->dtype, d->shape[2], d->shape[1], d->shape[0], 1, d->shape[2], d->shape[1] * d->shape[2]};
	else if (d->ndim == 3)
		*p = (struct picture){data, d->dtype, d->shape[1], d->shape[0], d->shape[2], d->shape[2], d->shape[1] * d->shape[2], 1};
	else
		return false;
	return (p->channels == 1 || p->channels == 3) && p->width >= 1 && p->height >= 1;
}

static double half_value(uint16_t bits)
{
	int exponent = bits >> 10 & 31, mantissa = bits & 1023;
	double value = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
	if (exponent == 31)
		value = mantissa ? NAN : INFINITY;
	return bits >> 15 ? -value : value;
}

static double bfloat_value(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof(value));
	return (double)value;
}

static double value_at(const struct picture *p, int64_t x, int64_t y, int64_t c)
{
	int64_t i = x * p->stride_x + y * p->stride_y + c * p->stride_c;
	switch (p->dtype) {
	case STK_UINT8:
	case STK_BOOL:
		return ((const uint8_t *)p->data)[i];
	case STK_INT8:
		return ((const int8_t *)p->data)[i];
	case STK_UINT16:
		return ((const uint16_t *)p->data)[i];
	case STK_INT16:
		return ((const int16_t *)p->data)[i];
	case STK_INT32:
		return ((const int32_t *)p->data)[i];
	case STK_FLOAT16:
		return half_value(((const uint16_t *)p->data)[i]);
	case STK_BFLOAT16:
		return bfloat_value(((const uint16_t *)p->data)[i]);
	case STK_FLOAT:
		return (double)((const float *)p->data)[i];
	case STK_FLOAT64:
		return ((const double *)p->data)[i];
	default:
		return 0;
	}
}

bool sheet_takes(const struct stk_desc *desc)
{
	struct picture p;
	switch (desc->dtype) {
	case STK_UINT32:
	case STK_UINT64:
	case STK_INT64:
	case STK_NO_DTYPE:
		return false;
	default:
		return as_picture(desc, NULL, &p);
	}
}

bool sheet_create(struct sheet *sheet, const struct stk_tensor_list *list, int32_t count, int32_t columns, int32_t lines, int32_t letters)
{
	/* Cells of small pictures are wide enough for a readable caption. */
	const int32_t least = lines ? (letters > LEAST_LETTERS ? letters : LEAST_LETTERS) * LETTER_STEP : 1;
	*sheet = (struct sheet){.gap = GAP, .columns = columns, .picture_w = 1, .picture_h = 1, .lines = lines};
	for (int32_t i = 0; i < list->count; i++) {
		struct picture p;
		if (!as_picture(&list->samples[i].desc, NULL, &p))
			continue;
		sheet->picture_w = p.width > sheet->picture_w ? (int32_t)(p.width < MAX_CELL ? p.width : MAX_CELL) : sheet->picture_w;
		sheet->picture_h = p.height > sheet->picture_h ? (int32_t)(p.height < MAX_CELL ? p.height : MAX_CELL) : sheet->picture_h;
	}
	sheet->cell_w = sheet->picture_w > least ? sheet->picture_w : least;
	sheet->cell_h = sheet->picture_h;
	if (sheet->columns <= 0)
		sheet->columns = (int32_t)ceil(sqrt((double)count));
	if (sheet->columns > count)
		sheet->columns = count;
	sheet->rows = (count + sheet->columns - 1) / sheet->columns;
	sheet->width = sheet->columns * (sheet->cell_w + sheet->gap) + sheet->gap;
	sheet->height = sheet->rows * (sheet->cell_h + sheet->gap + sheet->lines * LINE_STEP) + sheet->gap;
	size_t bytes = (size_t)sheet->width * (size_t)sheet->height * 3;
	sheet->pixels = malloc(bytes);
	if (sheet->pixels)
		memset(sheet->pixels, 32, bytes);
	return sheet->pixels != NULL;
}

int64_t sheet_bytes(int64_t count, int64_t size)
{
	enum { LETTERS = 48, LINES = 2 };
	const int64_t picture = size < MAX_CELL ? size : MAX_CELL, letters = LETTERS * LETTER_STEP;
	const int64_t width = (picture > letters ? picture : letters) + GAP, height = picture + GAP + LINES * LINE_STEP;
	return 2 * 3 * width * height * count; /* the pixels, and the same number of bytes again for the PNG */
}

static struct sheet_scale stretch_of(const struct picture *p)
{
	double low = INFINITY, high = -INFINITY;
	for (int64_t y = 0; y < p->height; y++) {
		for (int64_t x = 0; x < p->width; x++) {
			for (int64_t c = 0; c < p->channels; c++) {
				double v = value_at(p, x, y, c);
				low = v < low ? v : low;
				high = v > high ? v : high;
			}
		}
	}
	double scale = high > low ? 255 / (high - low) : 0;
	return (struct sheet_scale){{scale, scale, scale}, {-low * scale, -low * scale, -low * scale}, false};
}

/* Returns the mean of the source pixels that fall on one pixel of the sheet: a single one if the picture is not shrunk. */
static double mean_over(const struct picture *p, int64_t x0, int64_t x1, int64_t y0, int64_t y1, int64_t c)
{
	double sum = 0;
	for (int64_t y = y0; y < y1; y++) {
		for (int64_t x = x0; x < x1; x++)
			sum += value_at(p, x, y, c);
	}
	return sum / (double)((x1 - x0) * (y1 - y0));
}

static int32_t cell_top(const struct sheet *sheet, int32_t cell)
{
	return sheet->gap + cell / sheet->columns * (sheet->cell_h + sheet->gap + sheet->lines * LINE_STEP);
}

void sheet_draw(struct sheet *sheet, int32_t cell, const struct stk_tensor *sample, const struct sheet_scale *scale)
{
	struct picture p;
	if (!as_picture(&sample->desc, sample->data, &p))
		return;
	struct sheet_scale own = scale->stretch ? stretch_of(&p) : *scale;
	double shrink = fmax(1, fmax((double)p.width / sheet->cell_w, (double)p.height / sheet->cell_h));
	int32_t w = (int32_t)fmax(1, (double)p.width / shrink), h = (int32_t)fmax(1, (double)p.height / shrink);
	int32_t left = sheet->gap + cell % sheet->columns * (sheet->cell_w + sheet->gap);
	int32_t top = cell_top(sheet, cell);
	for (int32_t y = 0; y < h; y++) {
		uint8_t *row = sheet->pixels + ((size_t)(top + y) * (size_t)sheet->width + (size_t)left) * 3;
		for (int32_t x = 0; x < w; x++) {
			for (int32_t c = 0; c < 3; c++) {
				double v = mean_over(&p, x * p.width / w, (x + 1) * p.width / w, y * p.height / h, (y + 1) * p.height / h,
					p.channels == 1 ? 0 : c);
				v = v * own.scale[c] + own.shift[c];
				row[x * 3 + c] = (uint8_t)(v > 0 ? v < 255 ? v + 0.5 : 255 : 0);
			}
		}
	}
}

void sheet_cross_out(struct sheet *sheet, int32_t cell)
{
	const int32_t w = sheet->picture_w, h = sheet->picture_h, top = cell_top(sheet, cell);
	const int32_t left = sheet->gap + cell % sheet->columns * (sheet->cell_w + sheet->gap);
	for (int32_t y = 0; y < h; y++) {
		uint8_t *row = sheet->pixels + ((size_t)(top + y) * (size_t)sheet->width + (size_t)left) * 3;
		const int32_t x = (int32_t)((int64_t)y * w / h);
		memset(row, 96, (size_t)w * 3);
		memset(row + x * 3, 220, 3);
		memset(row + (w - 1 - x) * 3, 220, 3);
	}
}

static void write_letter(struct sheet *sheet, int32_t left, int32_t top, uint8_t letter)
{
	for (int32_t y = 0; y < LETTER_HEIGHT; y++) {
		uint8_t *row = sheet->pixels + ((size_t)(top + y) * (size_t)sheet->width + (size_t)left) * 3;
		for (int32_t x = 0; x < LETTER_WIDTH; x++) {
			if (letter_dot(letter, x, y))
				memset(row + x * 3, 220, 3);
		}
	}
}

void sheet_write(struct sheet *sheet, int32_t cell, int32_t line, const char *text)
{
	const size_t capacity = (size_t)(sheet->cell_w / LETTER_STEP);
	uint8_t *letters = malloc(10 * strlen(text) + 1);
	const size_t length = letters ? letters_of(text, letters) : 0, first = length > capacity ? length - capacity : 0;
	const int32_t left = sheet->gap + cell % sheet->columns * (sheet->cell_w + sheet->gap);
	const int32_t top = cell_top(sheet, cell) + sheet->cell_h + 1 + line * LINE_STEP;
	for (size_t i = first; i < length; i++)
		write_letter(sheet, left + (int32_t)(i - first) * LETTER_STEP, top, letters[i]);
	free(letters);
}

void sheet_destroy(struct sheet *sheet)
{
	free(sheet->pixels);
	sheet->pixels = NULL;
}
