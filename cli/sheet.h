/* SPDX-License-Identifier: Apache-2.0
 *
 * A contact sheet: samples of a batch as pictures in a grid, RGB, 8 bits. */
#ifndef STOKER_CLI_SHEET_H
#define STOKER_CLI_SHEET_H

#include "stoker/stoker.h"

struct sheet {
	int32_t columns, rows, cell_w, cell_h, gap;
	int32_t picture_w, picture_h; /* largest width and largest height of the pictures, in pixels, at most 256 each */
	int32_t lines;                /* number of lines of text below each picture */
	int32_t width, height;
	uint8_t *pixels; /* width * height pixels of 3 bytes */
};

/* Maps numbers to 0..255 as x * scale[c] + shift[c]. With `stretch`, maps each sample's own range to 0..255 instead. */
struct sheet_scale {
	double scale[3], shift[3];
	bool stretch;
};

/* Returns whether a sample can be drawn: HWC, CHW or HW with 1 or 3 channels, of floats, bool, or integers of at most 32 bits, but not uint32. */
bool sheet_takes(const struct stk_desc *desc);

/* Allocates a sheet with cells for `count` pictures. A cell has room for the largest picture of the list, of which at most 256 x 256 pixels are drawn, and
 * below it for `lines` lines of text of `letters` letters. columns 0 makes about as many rows as columns. Returns false if memory is short. Call
 * sheet_destroy in any case. */
bool sheet_create(struct sheet *sheet, const struct stk_tensor_list *list, int32_t count, int32_t columns, int32_t lines, int32_t letters);
/* Returns the maximum number of bytes that a sheet of `count` pictures of size x size needs while it is written as PNG. */
int64_t sheet_bytes(int64_t count, int64_t size);
/* Writes a line of text below a picture; a line that is too long loses its beginning. */
void sheet_write(struct sheet *sheet, int32_t cell, int32_t line, const char *text);
void sheet_draw(struct sheet *sheet, int32_t cell, const struct stk_tensor *sample, const struct sheet_scale *scale);
void sheet_cross_out(struct sheet *sheet, int32_t cell); /* draws a cross in place of a picture that failed */
void sheet_destroy(struct sheet *sheet);

/* Writes a PNG file of RGB pixels. On an error, returns false and writes the reason to `text`. */
bool write_png(const char *path, const uint8_t *pixels, int32_t width, int32_t height, char *text, size_t capacity);

#endif
