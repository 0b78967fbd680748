/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_gpu/jpeg_gpu_layout.h"

enum { TAIL = 256 };

struct stk_jpeg_gpu_capacity stk__jpeg_gpu_capacity(const struct stk_jpeg_gpu_plan_limits *l)
{
	struct stk_jpeg_gpu_capacity c = {.images = l->images, .bitstreams = l->images + l->bytes / STK_JPEG_GPU_MEAN_INTERVAL};
	c.subsequences = (uint32_t)((uint64_t)l->bytes * 8 / STK_JPEG_GPU_SUBSEQUENCE) + c.bitstreams;
	c.chunks = l->bytes / STK_JPEG_GPU_CHUNK + 2 * c.bitstreams;
	c.sync_work = c.subsequences / STK_JPEG_GPU_SYNC_THREADS + l->images + 1;
	c.coefficient_work = c.subsequences / (STK_JPEG_GPU_COEFFICIENT_THREADS / STK_JPEG_GPU_PIECES) + l->images + 1;
	c.scans = l->scans;
	c.lut = l->tables;
	c.blocks = l->blocks;
	c.dc = STK_JPEG_GPU_BLOCK_DC * (uint64_t)l->blocks;
	c.idct = l->blocks + (uint64_t)STK_JPEG_GPU_IDCT_BLOCKS * l->images;
	c.planes = 64 * (uint64_t)l->blocks + 48 * (uint64_t)l->images;
	c.rgb = STK_JPEG_GPU_BLOCK_BYTES * (uint64_t)l->blocks;
	c.coef = (c.rgb > l->raw ? c.rgb : l->raw) + TAIL;
	return c;
}

/* Allocates pieces of memory from address `base` on, aligned to 256 bytes. */
struct layout {
	uint64_t base, used;
};

static void *allocate(struct layout *l, uint64_t size)
{
	uint64_t at = l->base + l->used;
	l->used += (size + 255) & ~(uint64_t)255;
	return (void *)(uintptr_t)at;
}

uint64_t stk__jpeg_gpu_place_tables(struct stk_jpeg_gpu_view *v, uint64_t base, uint64_t lut)
{
	struct layout l = {base, 0};
	v->flags = allocate(&l, sizeof *v->flags * v->n_images);
	v->n_stragglers = allocate(&l, sizeof *v->n_stragglers);
	v->marker = allocate(&l, sizeof *v->marker * v->n_bitstreams);
	v->images = allocate(&l, sizeof *v->images * v->n_images);
	v->bitstreams = allocate(&l, sizeof *v->bitstreams * v->n_bitstreams);
	v->sets = allocate(&l, sizeof *v->sets * v->n_images);
	v->lut = allocate(&l, sizeof *v->lut * lut);
	v->quant = allocate(&l, sizeof *v->quant * 64 * 3 * v->n_images);
	v->sync_work = allocate(&l, sizeof *v->sync_work * v->n_sync_work);
	v->coefficient_work = allocate(&l, sizeof *v->coefficient_work * v->n_coefficient_work);
	v->progressive = allocate(&l, sizeof *v->progressive * v->n_progressive);
	v->scans = allocate(&l, sizeof *v->scans * v->n_scans);
	return l.used;
}

uint64_t stk__jpeg_gpu_place_work(struct stk_jpeg_gpu_view *v, uint64_t base, const struct stk_jpeg_gpu_capacity *c)
{
	/* Arrays share memory with arrays of later phases: planes overwrite all arrays before the coefficients, pixels overwrite the coefficients, and
	 * coefficients overwrite the files. */
	struct layout l = {base, 0}, planes = l;
	v->kept = allocate(&l, sizeof *v->kept * c->chunks);
	v->bits = allocate(&l, (uint64_t)c->subsequences * (STK_JPEG_GPU_SUBSEQUENCE / 8) + TAIL);
	v->bit_length = allocate(&l, sizeof *v->bit_length * c->bitstreams);
	v->checkpoints = allocate(&l, sizeof *v->checkpoints * STK_JPEG_GPU_ROWS * STK_JPEG_GPU_PER_SUBSEQUENCE * c->subsequences);
	v->match = allocate(&l, sizeof *v->match * c->subsequences);
	v->stragglers = allocate(&l, sizeof *v->stragglers * c->subsequences);
	v->cover = allocate(&l, sizeof *v->cover * c->subsequences);
	v->starts = allocate(&l, sizeof *v->starts * STK_JPEG_GPU_PIECES * c->subsequences);
	v->planes = allocate(&planes, c->planes);
	l.used = l.used > planes.used ? l.used : planes.used;
	v->coef = allocate(&l, c->coef);
	v->rgb = (uint8_t *)v->coef;
	v->dc = allocate(&l, sizeof *v->dc * c->dc);
	return l.used;
}
