/* SPDX-License-Identifier: Apache-2.0
 *
 * A contact sheet: samples of a batch as pictures in a grid, RGB, 8 bits. */
#ifndef STOKER_CLI_SHEET_H
#define STOKER_CLI_SHEET_H

#include "stoker/stoker.h"

struct sheet {
	int32_t columns, rows, cell_w, cell_h, gap;
	int32_t picture_w, picture_h; /* of the largest picture; cells are wider where captions need it */
	int32_t lines;                /* of text below each picture */
	int32_t width, height;
	uint8_t *pixels; /* width * height * 3 */
};

/* How numbers become 0..255: x * scale[c] + shift[c]. stretch: ignore these and take each sample's own range instead. */
struct sheet_scale {
	double scale[3], shift[3];
	bool stretch;
};

/* True for HWC, CHW or HW with 1 or 3 channels of a numeric type. */
bool sheet_takes(const struct stk_desc *desc);

/* Room for `count` pictures, as large as the largest of the list (at most 256 pixels: larger ones are shrunk), and lines of text below each, of which
 * `letters` have to fit. columns 0: about square. Destroyed with sheet_destroy, also after a failure. */
bool sheet_create(struct sheet *sheet, const struct stk_tensor_list *list, int32_t count, int32_t columns, int32_t lines, int32_t letters);
/* The most bytes that a sheet of `count` pictures of this size takes while it is written as PNG. */
int64_t sheet_bytes(int64_t count, int64_t size);
/* Writes a line of text below a picture; a line that is too long loses its beginning. */
void sheet_write(struct sheet *sheet, int32_t cell, int32_t line, const char *text);
void sheet_draw(struct sheet *sheet, int32_t cell, const struct stk_tensor *sample, const struct sheet_scale *scale);
void sheet_cross_out(struct sheet *sheet, int32_t cell); /* in place of a picture that there is none of */
void sheet_destroy(struct sheet *sheet);

/* Writes a PNG. False: text says why. */
bool write_png(const char *path, const uint8_t *pixels, int32_t width, int32_t height, char *text, size_t capacity);

#endif
