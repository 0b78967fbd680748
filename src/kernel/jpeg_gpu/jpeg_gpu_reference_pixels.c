/* SPDX-License-Identifier: Apache-2.0
 * Plain C versions of jpeg_gpu_pixels.cu, and the function that runs the phases in order. */
#include "kernel/jpeg_gpu/jpeg_gpu_pixels.h"

#include "kernel/jpeg_gpu/jpeg_gpu_reference.h"
#include "kernel/jpeg_gpu/jpeg_gpu_symbols.h"

/* The natural position of the k-th coefficient in zigzag order [T.81 figure A.6]. */
static const uint8_t natural_order[64] = {0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
	13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61,
	54, 47, 55, 62, 63};

void stk__jpeg_gpu_idct(const struct stk_jpeg_gpu_view *v, uint32_t b)
{
	const struct stk_jpeg_gpu_image *im = v->images + stk__jpeg_gpu_find(&v->images->idct0, sizeof *v->images, v->n_images, b);
	if (b - im->idct0 >= im->idct)
		return;
	struct stk_jpeg_gpu_block block = stk__jpeg_gpu_block(im, b - im->idct0);
	const struct stk_jpeg_gpu_plane *plane = &im->plane[block.component];
	const int16_t *coef = v->coef + 64 * (size_t)block.coef;
	const uint16_t *quant = v->quant + 64 * plane->quant;
	int32_t x[64], line[8];
	bool flat = true; /* stays true if all coefficients below the first row are 0 */
	for (int k = 1; k < 64; k++)
		flat &= natural_order[k] < 8 || coef[k] == 0;
	for (int k = 0; k < 64; k++)
		x[natural_order[k]] = stk__jpeg_gpu_wrap16((k ? coef[k] : v->dc[block.dc]) * quant[k]);
	for (int column = 0; column < 8; column++) {
		for (int i = 0; i < 8; i++)
			line[i] = x[8 * i + column];
		int32_t first = line[0];
		stk__jpeg_gpu_idct8(line, 11);
		for (int i = 0; i < 8; i++)
			x[8 * i + column] =
				flat && stk__jpeg_gpu_wraps(first) ? stk__jpeg_gpu_wrap16(4 * first) : stk__jpeg_gpu_saturate16(line[i]);
	}
	for (int row = 0; row < 8; row++) {
		stk__jpeg_gpu_idct8(x + 8 * row, 18);
		for (int i = 0; i < 8; i++)
			v->planes[block.sample + (size_t)row * plane->pitch + i] = (uint8_t)stk__jpeg_gpu_clamp8(x[8 * row + i] + 128);
	}
}

void stk__jpeg_gpu_color(const struct stk_jpeg_gpu_view *v, uint32_t row)
{
	const struct stk_jpeg_gpu_image *im = v->images + stk__jpeg_gpu_find(&v->images->row0, sizeof *v->images, v->n_images, row);
	uint32_t y = row - im->row0, rgb[3];
	if (y >= im->h)
		return;
	uint8_t *out = v->rgb + im->rgb + (size_t)y * im->rgb_pitch + im->channels * (im->x & 7);
	for (uint32_t x = 0; x < im->w; x++, out += im->channels) {
		stk__jpeg_gpu_rgb(v->planes, im, im->x + x, im->y + y, rgb);
		uint32_t pixel = stk__jpeg_gpu_pixel(im->type, rgb);
		for (uint32_t c = 0; c < im->channels; c++)
			out[c] = (uint8_t)(pixel >> 8 * c);
	}
}

void stk__jpeg_gpu_run(const struct stk_jpeg_gpu_view *v, enum stk_jpeg_gpu_phase first, enum stk_jpeg_gpu_phase end)
{
	const struct {
		void (*run)(const struct stk_jpeg_gpu_view *, uint32_t);
		uint32_t items;
	} phases[STK_JPEG_GPU_PHASES] = {
		[STK_JPEG_GPU_COUNT] = {stk__jpeg_gpu_count, v->n_chunks},
		[STK_JPEG_GPU_UNSTUFF] = {stk__jpeg_gpu_unstuff, v->n_chunks},
		[STK_JPEG_GPU_DECODE_SUBSEQUENCES] = {stk__jpeg_gpu_decode_subsequence, v->n_subsequences},
		[STK_JPEG_GPU_SYNCHRONISE] = {stk__jpeg_gpu_synchronise, v->n_subsequences},
		[STK_JPEG_GPU_SYNCHRONISE_STRAGGLERS] = {stk__jpeg_gpu_synchronise_straggler, v->n_subsequences},
		[STK_JPEG_GPU_RESOLVE] = {stk__jpeg_gpu_resolve, v->n_baseline},
		[STK_JPEG_GPU_DECODE_COEFFICIENTS] = {stk__jpeg_gpu_decode_coefficients, v->n_subsequences * STK_JPEG_GPU_PIECES},
		[STK_JPEG_GPU_DC] = {stk__jpeg_gpu_dc, v->n_baseline},
		[STK_JPEG_GPU_DECODE_SCANS] = {stk__jpeg_gpu_decode_scans, v->n_progressive},
		[STK_JPEG_GPU_IDCT] = {stk__jpeg_gpu_idct, v->n_idct},
		[STK_JPEG_GPU_COLOR] = {stk__jpeg_gpu_color, v->n_rows},
	};
	for (enum stk_jpeg_gpu_phase phase = first; phase < end; phase++)
		for (uint32_t i = 0; i < phases[phase].items; i++)
			phases[phase].run(v, i);
}
