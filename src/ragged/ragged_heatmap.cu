/* SPDX-License-Identifier: Apache-2.0
 * Heatmaps on CUDA. Each thread makes one pixel as the maximum over the targets that reach the rows of its thread block. This takes one pass and no atomics
 * on the map. Grid: tiles of pixels within classes within groups. */
#include "ragged/index_args.h"
#include "ragged/kernel_c.h"

#include <math.h>

#define BLOCK 256

struct gaussian {
	int32_t x, y, radius;
	float scale; /* 1 / (2 sigma^2) */
};

/* Returns whether target t belongs to this map and reaches pixels of rows y0..y1; if so, sets *out to it. The thread block with `report` set counts bad
 * labels and map indices. */
STK_DEVICE int32_t take_target(
	const struct stk_heatmap *h, int64_t group, int64_t cls, int64_t t, int64_t y0, int64_t y1, int32_t report, struct gaussian *out)
{
	int64_t at = (h->map_index ? 0 : group * h->targets) + t;
	int64_t index = h->map_index ? stk__load_index(h->map_index, h->bytes[3], t) : group;
	int64_t label = h->labels ? stk__load_index(h->labels, h->bytes[2], at) : 0;
	if (index < 0 || index >= h->groups || label < 0 || label >= h->classes) {
		if (report && cls == 0 && (!h->map_index || group == 0) && h->refused)
			atomicAdd((unsigned long long *)h->refused, 1ull);
		return 0;
	}
	if (index != group || label != cls)
		return 0;
	int64_t x = stk__load_index(h->centers, h->bytes[0], 2 * at), y = stk__load_index(h->centers, h->bytes[0], 2 * at + 1);
	int64_t radius = stk__load_index(h->radii, h->bytes[1], at), limit = 1 << 30;
	if (radius < 0 || radius > limit || x < -limit || x > limit || y < -limit || y > limit)
		return 0;
	if (y + radius < y0 || y - radius > y1 || x + radius < 0 || x - radius >= h->width)
		return 0;
	float sigma = (2.0f * (float)radius + 1.0f) / h->sigma_factor;
	out->x = (int32_t)x;
	out->y = (int32_t)y;
	out->radius = (int32_t)radius;
	out->scale = 1.0f / (2.0f * sigma * sigma);
	return 1;
}

STK_KERNEL void ragged_heatmap(struct stk_heatmap h)
{
	__shared__ struct gaussian near_by[BLOCK];
	__shared__ int32_t count;
	int64_t area = h.height * h.width, tiles = (area + BLOCK - 1) / BLOCK, map = blockIdx.x / tiles, group = map / h.classes;
	int64_t first = (blockIdx.x - map * tiles) * BLOCK, pixel = first + threadIdx.x,
		last = first + BLOCK < area ? first + BLOCK - 1 : area - 1;
	int64_t y0 = first / h.width, y1 = last / h.width, used = h.map_index ? h.targets : stk__size_of(h.sizes, group, h.targets);
	int32_t y = (int32_t)(pixel / h.width), x = (int32_t)(pixel - y * h.width), inside = pixel < area;
	float *at = h.map + map * area + pixel, top = 0;
	if (inside && h.accumulate)
		top = *at;
	for (int64_t t0 = 0; t0 < used; t0 += BLOCK) {
		struct gaussian g;
		if (threadIdx.x == 0)
			count = 0;
		__syncthreads();
		if (t0 + threadIdx.x < used && take_target(&h, group, map - group * h.classes, t0 + threadIdx.x, y0, y1, first == 0, &g))
			near_by[atomicAdd(&count, 1)] = g;
		__syncthreads();
		for (int32_t k = 0; k < count; k++) {
			int32_t dx = x - near_by[k].x, dy = y - near_by[k].y, r = near_by[k].radius;
			if (dx >= -r && dx <= r && dy >= -r && dy <= r) {
				float square = (float)dx * (float)dx + (float)dy * (float)dy;
				top = fmaxf(top, h.k * expf(-square * near_by[k].scale));
			}
		}
		__syncthreads();
	}
	if (inside)
		*at = top;
}
