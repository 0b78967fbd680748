/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/recipe/recipe_reference.h"

#include "kernel/recipe/recipe_hd.h"

#include <string.h>

static void run_image(const struct stk_recipe_batch *b, const struct stk_recipe_run *run, int64_t position, int64_t id, int32_t sample,
	const struct stk_pass_kernels *k, void *scratch)
{
	struct stk_pass p;
	stk__recipe_pass(b->recipe, run->epoch, (uint64_t)position, &p);
	enum stk_dtype dtype = (enum stk_dtype)p.dtype;
	uint8_t *from = (uint8_t *)(uintptr_t)(b->images + id * b->image_bytes);
	uint8_t *to = b->to + (size_t)sample * b->elements * stk_dtype_size(dtype);
	struct stk_image src = stk__image_hwc(from, STK_UINT8, p.in_w, p.in_h, p.in_c);
	struct stk_image dst = b->planar ? stk__image_chw(to, dtype, p.w, p.h, p.c) : stk__image_hwc(to, dtype, p.w, p.h, p.c);
	stk__pass_run(&p, k, &src, 0, 0, &dst, scratch);
}

void stk__recipe_run(const struct stk_recipe_batch *b, const struct stk_pass_kernels *k, void *scratch)
{
	for (int32_t i = 0; i < b->count; i++) {
		const struct stk_recipe_run *run = stk__recipe_find_run(b, i);
		int64_t position = stk__recipe_position(run, i), id = stk__recipe_id(b, run, position);
		for (int32_t t = 0; t < b->n_tables; t++) {
			const struct stk_recipe_table *table = &b->tables[t];
			memcpy(table->to + (size_t)i * table->bytes, table->from + (size_t)id * table->bytes, table->bytes);
		}
		if (b->recipe)
			run_image(b, run, position, id, i, k, scratch);
	}
}
