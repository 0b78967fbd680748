/* SPDX-License-Identifier: Apache-2.0
 * Runs jobs that sample images and volumes on the CPU, in plain C. */
#include "kernel/sample/sample_blocks.h"

static void mix_bytes(const struct stk_job_sample *s, struct block *b, const struct texels *t, uint8_t *dst, const int64_t step[2])
{
	uint32_t neighbours[4][BLOCK];
	for (int32_t k = 0; k < b->n; k++) {
		uint32_t border[4];
		const uint8_t *at = t->base + b->offset[k], *below = at + s->stride[1];
		if (b->offset[k] < 0)
			load_border(s, b, t, k, border);
		memcpy(&neighbours[0][k], b->offset[k] < 0 ? (const uint8_t *)&border[0] : at, 4);
		memcpy(&neighbours[1][k], b->offset[k] < 0 ? (const uint8_t *)&border[1] : at + s->stride[0], 4);
		memcpy(&neighbours[2][k], b->offset[k] < 0 ? (const uint8_t *)&border[2] : below, 4);
		memcpy(&neighbours[3][k], b->offset[k] < 0 ? (const uint8_t *)&border[3] : below + s->stride[0], 4);
	}
	for (int32_t c = 0; c < t->channels; c++) {
		int32_t shift = 8 * c;
		for (int32_t k = 0; k < b->n; k++) {
			float a00 = (float)(int32_t)(neighbours[0][k] >> shift & 255),
			      a01 = (float)(int32_t)(neighbours[1][k] >> shift & 255),
			      a10 = (float)(int32_t)(neighbours[2][k] >> shift & 255),
			      a11 = (float)(int32_t)(neighbours[3][k] >> shift & 255);
			float qx = b->qx[k], px = 1 - qx, top = a00 * px + a01 * qx, bottom = a10 * px + a11 * qx;
			b->value[k] = top + (bottom - top) * b->qy[k];
		}
		for (int32_t k = 0; k < b->n; k++) {
			int32_t whole = (int32_t)b->value[k];
			dst[k * step[0] + c * step[1]] = (uint8_t)(whole + (b->value[k] - (float)whole >= 0.5f));
		}
	}
}

void stk__sample_run(const struct stk_job *job)
{
	run_sample(job, mix_bytes);
}
