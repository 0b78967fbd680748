/* SPDX-License-Identifier: Apache-2.0
 * Builds a recipe, and launches it. */
#include "kernel/recipe/recipe_hd.h"

#include <string.h>

/* ---- building recipes ---- */

static void full_view(struct stk_pass *p)
{
	for (int a = 0; a < 2; a++)
		p->pre[a] = (struct stk_axis_map){.first = 0, .step = 1, .low = 0, .high = a ? p->h : p->w};
}

void stk__recipe_begin(struct stk_recipe *r, int32_t w, int32_t h, int32_t c)
{
	memset(r, 0, sizeof *r); /* padding is zeroed too, since steps are compared as bytes */
	stk__pass_begin(&r->pass, STK_UINT8, w, h, c);
}

void stk__recipe_next(const struct stk_recipe *r, struct stk_pass *p)
{
	*p = r->pass;
	p->has_fill = 0;
	full_view(p);
}

static bool same_but_for_geometry(const struct stk_pass *a, const struct stk_pass *b)
{
	return a->w == b->w && a->h == b->h && a->c == b->c && a->dtype == b->dtype && a->sampler == b->sampler &&
	       a->refused == b->refused && a->has_fill == b->has_fill && a->n_steps == b->n_steps &&
	       memcmp(a->steps, b->steps, sizeof a->steps) == 0;
}

/* Replaces the recipe's pass by `pass`, which continues it. Keeps has_fill if the recipe's pass had it. */
static void take_over(struct stk_recipe *r, const struct stk_pass *pass)
{
	uint8_t filled = r->pass.has_fill;
	r->pass = *pass;
	r->pass.has_fill |= filled;
}

bool stk__recipe_move(struct stk_recipe *r, const struct stk_recipe_coin *coins, int32_t n_coins, const struct stk_pass *variants)
{
	if (r->n_moves == STK_RECIPE_MOVES || n_coins > STK_RECIPE_COINS || variants[0].sampler ||
		(r->pass.has_fill && variants[0].has_fill))
		return false;
	struct stk_recipe_move *m = &r->moves[r->n_moves++];
	*m = (struct stk_recipe_move){.n_coins = n_coins, .fills = variants[0].has_fill};
	for (int32_t k = 0; k < n_coins; k++)
		m->coin[k] = coins[k];
	for (int32_t v = 0; v < 1 << n_coins; v++) {
		if (!same_but_for_geometry(&variants[v], &variants[0]))
			return false;
		memcpy(m->map[v], variants[v].pre, sizeof m->map[v]);
	}
	take_over(r, &variants[0]);
	return true;
}

bool stk__recipe_window(struct stk_recipe *r, const struct stk_recipe_window *w, const float *fill)
{
	if (r->n_moves == STK_RECIPE_MOVES)
		return false;
	struct stk_pass made;
	stk__recipe_next(r, &made);
	const int32_t extent[2] = {w->w, w->h}, size[2] = {made.w, made.h};
	bool inside = true;
	for (int a = 0; a < 2; a++)
		inside &= w->before[a] == 0 && (int64_t)(w->positions[a] ? w->positions[a] - 1 : 0) + extent[a] <= size[a];
	struct stk_recipe_move *m = &r->moves[r->n_moves];
	*m = (struct stk_recipe_move){.fills = !inside, .key = w->key};
	if (!inside && r->pass.has_fill)
		return false;
	for (int a = 0; a < 2; a++) {
		m->map[0][a] = (struct stk_axis_map){.first = -w->before[a], .step = 1, .low = 0, .high = size[a]};
		m->positions[a] = w->positions[a];
		m->draw[a] = w->draw[a];
	}
	/* Adds a window of the same extents, which is inside of the image only if all random windows are. The recipe only uses its extents and its fill. */
	stk__pass_window(&made, (struct stk_rect){inside ? 0 : size[0], 0, w->w, w->h}, inside ? NULL : fill);
	r->n_moves++;
	take_over(r, &made);
	return true;
}

/* ---- running ---- */

static bool mixes(const struct stk_step *step)
{
	return step->kind == STK_STEP_MATRIX || step->kind == STK_STEP_GRAY;
}

static struct stk_recipe_divisor divisor(uint32_t n)
{
	return (struct stk_recipe_divisor){n, n > 1 ? (uint32_t)((((uint64_t)1 << 32) / n) + 1) : 0};
}

static bool floats(const struct stk_pass *p)
{
	return p->dtype == STK_FLOAT || p->dtype == STK_FLOAT16 || p->dtype == STK_BFLOAT16;
}

bool stk__recipe_supports(const struct stk_recipe *r)
{
	const struct stk_pass *p = &r->pass;
	int64_t elements = (int64_t)p->w * p->h * p->c;
	bool ok = !p->sampler && !p->has_hole && p->in_c <= STK_RECIPE_CHANNELS && p->c <= STK_RECIPE_CHANNELS && p->w > 0 && p->h > 0 &&
		  p->in_w > 0 && p->in_h > 0 && stk__pass_supports(p) && (p->dtype == STK_UINT8 || floats(p));
	for (int32_t i = 0; i < p->n_steps; i++)
		ok &= !mixes(&p->steps[i]);
	/* Division by multiplication with a factor is exact as long as the number times the divisor is below 2^32. */
	int64_t divided = (int64_t)p->w * (p->h > p->c ? p->h : p->c);
	return ok && elements * divided < (int64_t)1 << 32;
}

void stk__recipe_layout(struct stk_recipe_batch *b, const struct stk_recipe *r, bool planar)
{
	const struct stk_pass *p = &r->pass;
	b->image_bytes = (int64_t)p->in_w * p->in_h * p->in_c;
	b->planar = planar;
	b->elements = (uint32_t)(p->w * p->h * p->c);
	b->outer = divisor((uint32_t)(planar ? p->w * p->h : p->w * p->c));
	b->inner = divisor((uint32_t)(planar ? p->w : p->c));
	int32_t affine = p->n_steps - p->has_fill;
	const struct stk_step *first = &p->steps[0];
	b->fill_before = p->n_steps && first->kind == STK_STEP_FILL;
	const struct stk_step *step = b->fill_before ? &p->steps[1] : first;
	b->finish = floats(p) && affine == 1 && step->kind == STK_STEP_AFFINE ? STK_RECIPE_AFFINE : STK_RECIPE_STEPS;
}

void stk__recipe_pass(const struct stk_recipe *r, uint32_t epoch, uint64_t position, struct stk_pass *p)
{
	const struct stk_pass *from = &r->pass; /* steps are most of the struct, so only those in use are copied */
	memcpy(p, from, offsetof(struct stk_pass, steps) + (size_t)from->n_steps * sizeof *from->steps);
	p->dtype = from->dtype;
	p->w = from->w;
	p->h = from->h;
	p->c = from->c;
	stk__recipe_place(r, epoch, position, p->pre);
}

size_t stk__recipe_scratch(const struct stk_recipe *r)
{
	return stk__pass_scratch(&r->pass);
}

/* ---- on a GPU ---- */

enum stk_status stk__recipe_gpu_load(struct stk_gpu_device *dev, stk_gpu_kernel *kernel, struct stk_error *err)
{
	return stk__gpu_kernel(dev, "recipe_gpu", "recipe_run", 0, kernel, err);
}

enum stk_status stk__recipe_gpu_launch(
	struct stk_gpu_device *dev, stk_gpu_kernel kernel, const struct stk_recipe_batch *b, stk_gpu_stream stream, struct stk_error *err)
{
	struct stk_gpu_grid grid = {.blocks = {(unsigned)b->count}, .threads = {STK_RECIPE_THREADS}};
	return stk__gpu_launch(dev, stream, kernel, grid, (void *[]){(void *)(uintptr_t)b}, err);
}
