/* SPDX-License-Identifier: Apache-2.0
 * Computes which sample of a data set belongs at a position of an epoch, and its random geometry, in C and CUDA. recipe.h has the structs. */
#ifndef STK_KERNEL_RECIPE_HD_H
#define STK_KERNEL_RECIPE_HD_H

#include "base/hd.h"
#include "kernel/recipe/recipe.h"

STK_HD const struct stk_recipe_run *stk__recipe_find_run(const struct stk_recipe_batch *b, int32_t sample)
{
	int32_t i = 0;
	while (i + 1 < b->n_runs && b->runs[i + 1].first <= sample)
		i++;
	return &b->runs[i];
}

STK_HD int64_t stk__recipe_position(const struct stk_recipe_run *run, int32_t sample)
{
	return run->position + (sample - run->first) * run->step;
}

STK_HD int64_t stk__recipe_id(const struct stk_recipe_batch *b, const struct stk_recipe_run *run, int64_t position)
{
	if (run->padded >= 0)
		return run->padded;
	int64_t entry = run->shuffled ? (int64_t)stk__shuffle_hd(&run->shuffle, (uint64_t)position) : position;
	return b->indices ? b->indices[entry] : entry;
}

STK_HD struct stk_philox_block stk__recipe_draws(uint64_t key, uint32_t epoch, uint64_t position)
{
	return stk__philox_hd(key, (uint32_t)position, (uint32_t)(position >> 32), epoch, 0);
}

/* Adds a window or mirror along one axis to *at, like stk__pass_window and stk__pass_mirror. start: offset of a random window. */
STK_HD void stk__recipe_apply(struct stk_axis_map *at, const struct stk_axis_map *map, int32_t start, int32_t fills)
{
	if (fills) {
		at->low = at->step > 0 ? at->first + map->low : at->first - (map->high - 1);
		at->high = at->low + (map->high - map->low);
	}
	at->first += at->step * (map->first + start);
	at->step *= map->step;
}

STK_HD void stk__recipe_place(const struct stk_recipe *r, uint32_t epoch, uint64_t position, struct stk_axis_map pre[2])
{
	for (int a = 0; a < 2; a++) {
		pre[a].first = pre[a].low = 0;
		pre[a].step = 1;
		pre[a].high = a ? r->pass.in_h : r->pass.in_w;
	}
	for (int32_t i = 0; i < r->n_moves; i++) {
		const struct stk_recipe_move *m = &r->moves[i];
		int32_t variant = 0, start[2] = {0, 0};
		for (int32_t k = 0; k < m->n_coins; k++)
			variant |= (stk__unit_hd(stk__recipe_draws(m->coin[k].key, epoch, position).v[0]) < m->coin[k].chance) << k;
		if (m->positions[0] || m->positions[1]) {
			struct stk_philox_block block = stk__recipe_draws(m->key, epoch, position);
			for (int a = 0; a < 2; a++)
				start[a] = m->positions[a] ? (int32_t)stk__below_hd(block.v[m->draw[a]], m->positions[a]) : 0;
		}
		for (int a = 0; a < 2; a++)
			stk__recipe_apply(&pre[a], &m->map[variant][a], start[a], m->fills);
	}
}

#endif
