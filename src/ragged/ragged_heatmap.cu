/* SPDX-License-Identifier: Apache-2.0
 * Heatmaps on CUDA. Each thread makes one pixel as the maximum over the targets that reach the rows of its thread block. This takes one pass and no atomics
 * on the map. Thread block (group * classes + class) * tiles + tile makes BLOCK consecutive pixels of a map. */
#include "ragged/index_args.h"
#include "ragged/kernel_c.h"

#include <math.h>

#define BLOCK 256

#define LIMIT ((int64_t)1 << 30) /* pixels and centres with coordinates up to this one have differences that fit into 32 bits */

struct gaussian {
	int32_t x, y, radius;
	float scale; /* 1 / (2 sigma^2) */
};

struct target {
	int64_t x, y, radius;
};

enum reach { NO_PIXEL, SOME_PIXELS, FAR };

/* Reads target t into *out, and returns whether it belongs to the map of this group and class. Returns 0 too if the radius is negative, or if the label or map
 * index is out of range. With `report`, also counts a target whose label or map index is out of range in h->refused, but for only one of the maps that read the
 * target. */
STK_DEVICE int32_t read_target(const struct stk_heatmap *h, int64_t group, int64_t cls, int64_t t, int32_t report, struct target *out)
{
	int64_t at = (h->map_index ? 0 : group * h->targets) + t;
	int64_t index = h->map_index ? stk__load_index(h->map_index, h->bytes[3], t) : group;
	int64_t label = h->labels ? stk__load_index(h->labels, h->bytes[2], at) : 0;
	if (index < 0 || index >= h->groups || label < 0 || label >= h->classes) {
		if (report && cls == 0 && (!h->map_index || group == 0))
			refuse(h->refused);
		return 0;
	}
	out->x = stk__load_index(h->centers, h->bytes[0], 2 * at);
	out->y = stk__load_index(h->centers, h->bytes[0], 2 * at + 1);
	out->radius = stk__load_index(h->radii, h->bytes[1], at);
	return index == group && label == cls && out->radius >= 0;
}

/* Returns whether a target reaches pixels of rows y0..y1; if it does, sets *out. Returns FAR, without setting *out, if the target's numbers exceed LIMIT. */
STK_DEVICE enum reach reach_of(const struct stk_heatmap *h, const struct target *t, int64_t y0, int64_t y1, struct gaussian *out)
{
	if (t->radius > LIMIT || t->x < -LIMIT || t->x > LIMIT || t->y < -LIMIT || t->y > LIMIT)
		return FAR;
	if (t->y + t->radius < y0 || t->y - t->radius > y1 || t->x + t->radius < 0 || t->x - t->radius >= h->width)
		return NO_PIXEL;
	float sigma = (2.0f * (float)t->radius + 1.0f) / h->sigma_factor;
	out->x = (int32_t)t->x;
	out->y = (int32_t)t->y;
	out->radius = (int32_t)t->radius;
	out->scale = 1.0f / (2.0f * sigma * sigma);
	return SOME_PIXELS;
}

STK_DEVICE uint64_t distance(int64_t a, int64_t b)
{
	return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* Returns the maximum of `top` and the values that FAR targets give pixel (x, y). */
STK_DEVICE float far_targets(const struct stk_heatmap *h, int64_t group, int64_t cls, int64_t used, int64_t x, int64_t y, float top)
{
	for (int64_t k = 0; k < used; k++) {
		struct target t;
		struct gaussian g;
		if (!read_target(h, group, cls, k, 0, &t) || reach_of(h, &t, 0, h->height, &g) != FAR)
			continue;
		uint64_t dx = distance(t.x, x), dy = distance(t.y, y);
		if (dx <= (uint64_t)t.radius && dy <= (uint64_t)t.radius) {
			double sigma = (2 * (double)t.radius + 1) / h->sigma_factor,
			       square = (double)dx * (double)dx + (double)dy * (double)dy;
			top = fmaxf(top, (float)(h->k * exp(-square / (2 * sigma * sigma))));
		}
	}
	return top;
}

STK_KERNEL void ragged_heatmap(struct stk_heatmap h)
{
	__shared__ struct gaussian near_by[BLOCK];
	__shared__ int32_t count, far;
	int64_t area = h.height * h.width, tiles = (area + BLOCK - 1) / BLOCK, map = blockIdx.x / tiles, group = map / h.classes;
	int64_t first = (blockIdx.x - map * tiles) * BLOCK, pixel = first + threadIdx.x,
		last = first + BLOCK < area ? first + BLOCK - 1 : area - 1;
	int64_t y0 = first / h.width, y1 = last / h.width, used = h.map_index ? h.targets : stk__size_of(h.sizes, group, h.targets);
	int32_t y = (int32_t)(pixel / h.width), x = (int32_t)(pixel - y * h.width), inside = pixel < area;
	float *at = h.map + map * area + pixel, top = 0;
	if (inside && h.accumulate)
		top = *at;
	if (threadIdx.x == 0)
		far = 0;
	__syncthreads();
	for (int64_t t0 = 0; t0 < used; t0 += BLOCK) {
		struct target t;
		struct gaussian g;
		if (threadIdx.x == 0)
			count = 0;
		__syncthreads();
		if (t0 + threadIdx.x < used && read_target(&h, group, map - group * h.classes, t0 + threadIdx.x, first == 0, &t)) {
			enum reach reach = reach_of(&h, &t, y0, y1, &g);
			if (reach == SOME_PIXELS)
				near_by[atomicAdd(&count, 1)] = g;
			else if (reach == FAR)
				far = 1;
		}
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
	if (far && inside)
		top = far_targets(&h, group, map - group * h.classes, used, x, y, top);
	if (inside)
		*at = top;
}
