/* SPDX-License-Identifier: Apache-2.0
 * stk_ragged_heatmap on the CPU. A thread draws all maps of a group, so no two threads write to the same map. */
#include "ragged/items.h"
#include "ragged/ragged.h"

#include "base/error.h"
#include "kernel/common/gaussian.h"

struct heatmap_job {
	const struct stk_heatmap *h;
};

static void draw_target(const struct stk_heatmap *h, float *map, int64_t x, int64_t y, int64_t radius)
{
	double sigma = (2 * (double)radius + 1) / h->sigma_factor;
	stk__gaussian_draw(map, h->width, h->height, x, y, radius, 1 / (2 * sigma * sigma), (double)h->k);
}

static void heatmap_group(void *ctx, int64_t group, int32_t worker)
{
	(void)worker;
	const struct stk_heatmap *h = ((struct heatmap_job *)ctx)->h;
	int64_t area = h->height * h->width, list = h->map_index ? 0 : group;
	int64_t used = h->map_index ? h->targets : stk__size_of(h->sizes, group, h->targets);
	float *maps = h->map + group * h->classes * area;
	if (!h->accumulate)
		memset(maps, 0, (size_t)(h->classes * area) * sizeof *maps);
	for (int64_t t = 0; t < used; t++) {
		int64_t at = list * h->targets + t, label = 0, index = group;
		if (h->map_index)
			index = stk__load_index(h->map_index, h->bytes[3], t);
		if (h->labels)
			label = stk__load_index(h->labels, h->bytes[2], at);
		bool ok = index >= 0 && index < h->groups && label >= 0 && label < h->classes;
		stk__count_refused(h->refused, !ok && (!h->map_index || group == 0));
		if (ok && index == group)
			draw_target(h, maps + label * area, stk__load_index(h->centers, h->bytes[0], 2 * at),
				stk__load_index(h->centers, h->bytes[0], 2 * at + 1), stk__load_index(h->radii, h->bytes[1], at));
	}
}

enum stk_status stk__cpu_heatmap(struct stk_ragged *r, const struct stk_heatmap *h, struct stk_error *err)
{
	(void)err;
	struct heatmap_job job = {h};
	int64_t bytes = h->groups * h->classes * h->height * h->width * 4 + h->groups * h->targets * 1024;
	stk__fork(stk__fork_threads(r, h->groups, bytes), h->groups, heatmap_group, &job);
	return STK_OK;
}
