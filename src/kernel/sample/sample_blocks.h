/* SPDX-License-Identifier: Apache-2.0
 * The loops of jobs that sample images and volumes, compiled for the processor that the including file selects. Most images of bytes and floats (see
 * goes_in_blocks) are processed in blocks of a row: first the positions, then the pixels, then the sums, each in a separate loop that compilers can vectorise.
 * The results equal those of stk__sample_float, which computes all other pixels one by one. */
#ifndef STK_KERNEL_SAMPLE_BLOCKS_H
#define STK_KERNEL_SAMPLE_BLOCKS_H

#include "kernel/sample/sample_one.h"
#include "kernel/sample/sample_run.h"

#include <string.h>

/* BLOCK: maximum number of outputs in a block. LINEAR_READ: number of bytes that one load reads, beginning at the left one of two adjacent pixels. */
enum { BLOCK = 256, LINEAR_READ = 8 };

struct block {
	int64_t frame;
	int32_t x, y, n;     /* the block has n outputs, from x on in row y */
	bool outside;        /* true if `offset` is -1 for at least one pixel */
	float across[BLOCK]; /* for WATER: the distance by which each column is shifted vertically */
	float at_x[BLOCK], at_y[BLOCK], qx[BLOCK], qy[BLOCK];
	int32_t ix[BLOCK], iy[BLOCK]; /* position of the upper left one of the pixels that an output is interpolated from */
	/* Offset in bytes of that pixel in the frame. -1: a needed pixel is outside of the image, or so near the frame's end that a load would read past the
	 * end. */
	int32_t offset[BLOCK];
	float neighbours[4][BLOCK], value[BLOCK];
};

/* Parameters for pixels of bytes. */
struct texels {
	const uint8_t *base;
	int32_t channels;
	uint32_t fill; /* the value of pixels outside of the image, if `fills` is set */
	bool fills;    /* false if the fill values of bytes are not all integers from 0 to 255, so that they form no pixel */
};

/* Interpolates a block of pixels of bytes and stores it at `dst`. step: distances in bytes between outputs, and between channels. */
typedef void mix_texels(const struct stk_job_sample *s, struct block *b, const struct texels *t, uint8_t *dst, const int64_t step[2]);

static struct stk_sample_position position_of(const struct stk_job_sample *s, const struct block *b, int32_t k, int32_t width)
{
	return stk__sample_position(s, b->x + k, b->y, 0, b->frame, (uint64_t)b->y * (uint64_t)width + (uint64_t)(b->x + k));
}

static void find_positions(const struct stk_job_sample *s, struct block *b, int32_t width)
{
	const float *m = s->m;
	float fy = (float)b->y + 0.5f, at[3];
	switch (s->map) {
	case STK_SAMPLE_AFFINE:
		for (int32_t k = 0; k < b->n; k++) {
			stk__sample_affine(m, (float)(b->x + k) + 0.5f, fy, 0.5f, at);
			b->at_x[k] = at[0];
			b->at_y[k] = at[1];
		}
		break;
	case STK_SAMPLE_PERSPECTIVE:
		for (int32_t k = 0; k < b->n; k++) {
			stk__sample_perspective(m, (float)(b->x + k) + 0.5f, fy, at);
			b->at_x[k] = at[0];
			b->at_y[k] = at[1];
		}
		break;
	case STK_SAMPLE_SPHERE:
		for (int32_t k = 0; k < b->n; k++) {
			stk__sample_sphere(s, b->x + k, b->y, at);
			b->at_x[k] = at[0];
			b->at_y[k] = at[1];
		}
		break;
	case STK_SAMPLE_WATER:
		stk__sample_water(m, 0, b->y, at); /* at[0] is the horizontal shift of the row, since x is 0 */
		for (int32_t k = 0; k < b->n; k++) {
			b->at_x[k] = (float)(b->x + k) + at[0];
			b->at_y[k] = (float)b->y + b->across[k];
		}
		break;
	default:
		for (int32_t k = 0; k < b->n; k++) {
			struct stk_sample_position p = position_of(s, b, k, width);
			b->at_x[k] = p.at[0];
			b->at_y[k] = p.at[1];
		}
	}
}

/* Sets floors[k] to the floor of at[k] - half, like stk__sample_floor, and rest[k] to the remainder, from 0 to 1. Each loop has only one comparison, since
 * compilers turn several comparisons into branches. */
static void find_floors(const float *at, float half, int32_t n, int32_t *floors, float *rest)
{
	for (int32_t k = 0; k < n; k++) {
		float x = at[k] - half;
		rest[k] = x > -1e9f ? x : -1e9f;
	}
	for (int32_t k = 0; k < n; k++)
		rest[k] = rest[k] < 1e9f ? rest[k] : 1e9f;
	for (int32_t k = 0; k < n; k++) {
		int32_t i = (int32_t)rest[k];
		floors[k] = i - ((float)i > rest[k]);
	}
	for (int32_t k = 0; k < n; k++)
		rest[k] -= (float)floors[k];
}

/* Computes ix, iy, qx, qy, offset and outside from the block's positions. read: number of bytes that the loops read from the address of an output's last pixel
 * on (the lower right one with linear interpolation); they must be inside the frame. */
static void find_pixels(const struct stk_job_sample *s, struct block *b, int32_t read)
{
	bool linear = s->interp != STK_INTERP_NN;
	const float half = linear ? 0.5f : 0;
	const int32_t right = (int32_t)s->stride[0], below = (int32_t)s->stride[1], last_x = s->size[0] - 1 - linear,
		      last_y = s->size[1] - 1 - linear, end = (int32_t)s->frame - read - (linear ? right + below : 0);
	int32_t outside = 0;
	const int32_t n = b->n, *ix = b->ix, *iy = b->iy;
	find_floors(b->at_x, half, n, b->ix, b->qx);
	find_floors(b->at_y, half, n, b->iy, b->qy);
	for (int32_t k = 0; k < n; k++) {
		int32_t inside = -(int32_t)((ix[k] >= 0) & (iy[k] >= 0) & (ix[k] <= last_x) & (iy[k] <= last_y));
		int32_t offset = (iy[k] & inside) * below + (ix[k] & inside) * right;
		inside &= -(int32_t)(offset <= end);
		b->offset[k] = offset | ~inside;
		outside |= ~inside;
	}
	b->outside = outside != 0;
}

/* Loads the four pixels around position k of the block, some of which are outside of the image, as words of up to four channels. */
static inline void load_border(
	const struct stk_job_sample *s, const struct block *b, const struct texels *t, int32_t k, uint32_t neighbours[4])
{
	for (int32_t i = 0; i < 4; i++) {
		int32_t x = stk__border_index(b->ix[k] + (i & 1), s->size[0], s->border),
			y = stk__border_index(b->iy[k] + (i >> 1), s->size[1], s->border);
		const uint8_t *at = t->base + (x < 0 || y < 0 ? 0 : x * s->stride[0] + y * s->stride[1]);
		neighbours[i] = x < 0 || y < 0 ? t->fill : 0;
		for (int32_t c = 0; x >= 0 && y >= 0 && c < t->channels; c++)
			neighbours[i] |= (uint32_t)at[c] << 8 * c;
	}
}

/* Interpolates the channel of floats at `base` to outputs `step` bytes apart. Pixels with offset -1 get a value that is replaced later. */
static void mix_floats(const struct stk_job_sample *s, struct block *b, const uint8_t *base, uint8_t *dst, int64_t step)
{
	int64_t right = s->stride[0], below = s->stride[1];
	for (int32_t k = 0; k < b->n; k++) {
		const uint8_t *at = base + (b->offset[k] < 0 ? 0 : b->offset[k]);
		int64_t to_right = b->offset[k] < 0 ? 0 : right, down = b->offset[k] < 0 ? 0 : below;
		b->neighbours[0][k] = *(const float *)(const void *)at;
		b->neighbours[1][k] = *(const float *)(const void *)(at + to_right);
		b->neighbours[2][k] = *(const float *)(const void *)(at + down);
		b->neighbours[3][k] = *(const float *)(const void *)(at + down + to_right);
	}
	for (int32_t k = 0; k < b->n; k++) {
		float qx = b->qx[k], px = 1 - qx, top = b->neighbours[0][k] * px + b->neighbours[1][k] * qx,
		      bottom = b->neighbours[2][k] * px + b->neighbours[3][k] * qx;
		b->value[k] = top + (bottom - top) * b->qy[k];
	}
	for (int32_t k = 0; k < b->n; k++)
		*(float *)(void *)(dst + k * step) = b->value[k];
}

/* Copies a pixel's channels, of one byte each if `bytes` is set, otherwise of four. dst_step, src_step: distances in bytes between channels. */
static inline void copy_pixel(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, int64_t channels, bool bytes)
{
	for (int64_t c = 0; c < channels; c++)
		memcpy(dst + c * dst_step, src + c * src_step, bytes ? 1 : 4);
}

/* Copies the nearest pixel to each output of the block. If the border is a fill value and there are up to four channels, also stores the fill value for outputs
 * outside of the image, and clears b->outside. */
static void copy_pixels(const struct stk_job *job, struct block *b, const uint8_t *base, uint8_t *dst)
{
	const struct stk_job_dim *d = job->dim;
	bool bytes = job->src_dtype[0] == STK_UINT8, fills = STK_PARAMS(stk_job_sample, job).border == STK_BORDER_FILL && d[4].size <= 4;
	const struct stk_sample_position far = {{-1, -1, 0.5f}};
	float outside[4] = {0};
	uint8_t *filled = (uint8_t *)outside;
	int64_t element = bytes ? 1 : 4, channels = d[4].size;
	for (int32_t c = 0; fills && c < channels; c++)
		stk__job_sample_store(job, filled + c * element, base, &far, c);
	bool rgb = fills && bytes && channels == 3 && STK_PARAMS(stk_job_sample, job).channel == 1 && d[4].dst == 1;
	for (int32_t k = 0; rgb && k < b->n; k++)
		copy_pixel(dst + k * d[3].dst, 1, b->offset[k] < 0 ? filled : base + b->offset[k], 1, 3, true);
	for (int32_t k = 0; !rgb && k < b->n; k++)
		if (b->offset[k] >= 0)
			copy_pixel(dst + k * d[3].dst, d[4].dst, base + b->offset[k], STK_PARAMS(stk_job_sample, job).channel, channels,
				bytes);
		else if (fills)
			copy_pixel(dst + k * d[3].dst, d[4].dst, filled, element, channels, bytes);
	b->outside = b->outside && !fills;
}

/* Returns the parameters of a frame at `base`, including the pixel outside of an image of bytes with up to four channels. For floats only `base` is used. */
static struct texels texels_of(const struct stk_job *job, const uint8_t *base)
{
	const float *fill = job->constants;
	struct texels t = {.base = base, .channels = (int32_t)job->dim[4].size, .fills = true};
	bool fills = job->src_dtype[0] == STK_UINT8 && STK_PARAMS(stk_job_sample, job).border == STK_BORDER_FILL;
	for (int32_t c = 0; fills && c < t.channels; c++) {
		uint8_t byte = fill[c] >= 0 && fill[c] <= 255 ? (uint8_t)fill[c] : 0;
		t.fills = t.fills && (float)byte == fill[c];
		t.fill |= (uint32_t)byte << 8 * c;
	}
	return t;
}

static inline void sample_block(const struct stk_job *job, mix_texels *mix_bytes, struct block *b, const struct texels *t, uint8_t *dst)
{
	const struct stk_job_sample *s = &STK_PARAMS(stk_job_sample, job);
	const struct stk_job_dim *d = job->dim;
	bool bytes = job->src_dtype[0] == STK_UINT8, linear = s->interp != STK_INTERP_NN;
	find_positions(s, b, (int32_t)d[3].size);
	find_pixels(s, b, !linear ? 1 : bytes ? LINEAR_READ - (int32_t)s->stride[0] : 4);
	if (!linear)
		copy_pixels(job, b, t->base, dst);
	else if (bytes)
		mix_bytes(s, b, t, dst, (const int64_t[]){d[3].dst, d[4].dst});
	for (int32_t c = 0; linear && !bytes && c < d[4].size; c++)
		mix_floats(s, b, t->base + c * s->channel, dst + c * d[4].dst, d[3].dst);
	bool rest = b->outside && !(linear && bytes && t->fills);
	for (int32_t k = 0; rest && k < b->n; k++) {
		struct stk_sample_position p = {{b->at_x[k], b->at_y[k], 0.5f}};
		for (int32_t c = 0; b->offset[k] < 0 && c < d[4].size; c++)
			stk__job_sample_store(job, dst + k * d[3].dst + c * d[4].dst, t->base, &p, c);
	}
}

/* Makes all outputs of the job. Processes blocks from top to bottom, so that values that depend only on the column are computed once. */
static inline void sample_blocks(const struct stk_job *job, mix_texels *mix_bytes)
{
	const struct stk_job_dim *d = job->dim;
	struct block b;
	for (b.frame = 0; b.frame < d[0].size; b.frame++) {
		struct texels t = texels_of(job, job->src[0] + b.frame * STK_PARAMS(stk_job_sample, job).frame);
		for (int64_t x = 0; x < d[3].size; x += BLOCK) {
			b.x = (int32_t)x;
			b.n = (int32_t)(d[3].size - x < BLOCK ? d[3].size - x : BLOCK);
			for (int32_t k = 0; STK_PARAMS(stk_job_sample, job).map == STK_SAMPLE_WATER && k < b.n; k++) {
				float at[3];
				stk__sample_water(STK_PARAMS(stk_job_sample, job).m, b.x + k, 0, at);
				b.across[k] = at[1]; /* the vertical shift of the column, since y is 0 */
			}
			for (int64_t y = 0; y < d[2].size; y++) {
				b.y = (int32_t)y;
				sample_block(job, mix_bytes, &b, &t, job->dst + b.frame * d[0].dst + y * d[2].dst + x * d[3].dst);
			}
		}
	}
}

/* Returns true if the job can be processed in blocks: images, not volumes, of floats or of bytes with up to four adjacent channels, of the output's type, with
 * frames of 4 bytes to 1 GiB, and without cubic interpolation. */
static bool goes_in_blocks(const struct stk_job *job)
{
	const struct stk_job_sample *s = &STK_PARAMS(stk_job_sample, job);
	int type = job->src_dtype[0];
	int64_t channels = job->dim[4].size;
	bool together = s->stride[0] <= 4 && channels <= 4 && (s->channel == 1 || channels == 1);
	bool alike = type == job->dst_dtype && (type == STK_FLOAT || (type == STK_UINT8 && together));
	return alike && !s->volume && s->interp != STK_INTERP_CUBIC && job->dim[1].size == 1 && s->frame >= 4 && s->frame < INT32_MAX / 2;
}

static inline void run_sample(const struct stk_job *job, mix_texels *mix_bytes)
{
	const struct stk_job_dim *d = job->dim;
	if (goes_in_blocks(job)) {
		sample_blocks(job, mix_bytes);
		return;
	}
	for (int64_t f = 0; f < d[0].size; f++) {
		const uint8_t *base = job->src[0] + f * STK_PARAMS(stk_job_sample, job).frame;
		uint64_t pixel = 0;
		for (int64_t z = 0; z < d[1].size; z++)
			for (int64_t y = 0; y < d[2].size; y++) {
				uint8_t *row = job->dst + f * d[0].dst + z * d[1].dst + y * d[2].dst;
				for (int64_t x = 0; x < d[3].size; x++, row += d[3].dst, pixel++) {
					struct stk_sample_position p = stk__sample_position(
						&STK_PARAMS(stk_job_sample, job), (int32_t)x, (int32_t)y, (int32_t)z, f, pixel);
					for (int64_t c = 0; c < d[4].size; c++)
						stk__job_sample_store(job, row + c * d[4].dst, base, &p, (int32_t)c);
				}
			}
	}
}

#endif
