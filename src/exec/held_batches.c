/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages about batches that the consumer keeps: which outputs, their size, and what the user can do. */
#include "exec/exec.h"

#include <stdio.h>

static void add_size(struct stk_text *t, size_t bytes)
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
	double size = (double)bytes;
	int u = 0;
	for (; size >= 1024 && u < 3; u++)
		size /= 1024;
	stk__text_add(t, u && size < 10 ? "%.1f %s" : "%.0f %s", size, units[u]);
}

/* Appends a text such as "output 0 (resize at train.py:31) of 19 batches, 147 MiB each" for each output of which the consumer keeps blocks. */
static void add_outputs(struct stk_pipeline *p, struct stk_text *t)
{
	const struct stk_program *g = p->program;
	const char *between = "";
	for (int32_t o = 0; o < g->n_outputs; o++) {
		const struct stk_value *v = &g->values[g->outputs[o]];
		char title[96];
		int32_t blocks;
		size_t bytes;
		stk__ring_held_blocks(p->ring, v->slot, &blocks, &bytes);
		if (!blocks)
			continue;
		stk__node_title(g->nodes[v->node].node, title, sizeof title);
		stk__text_add(t, "%soutput %d (%s) of %d batch%s, ", between, o, title, blocks, blocks > 1 ? "es" : "");
		add_size(t, bytes / (size_t)blocks);
		stk__text_add(t, " each%s", v->on_gpu ? " on the GPU" : "");
		between = "; ";
	}
}

static const char *advice(void)
{
	return "keep a .clone() of the part that is needed, .detach() or .item() of a loss, or .cpu() of what lies on a GPU";
}

size_t stk__held_batches_bytes(struct stk_pipeline *p)
{
	size_t limit;
	return stk__ring_kept_bytes(p->ring, STK_SPACE_HOST, &limit) + stk__ring_kept_bytes(p->ring, STK_SPACE_GPU, &limit);
}

enum stk_status stk__held_batches_error(struct stk_pipeline *p, enum stk_ring_lack lack, struct stk_error *err)
{
	struct stk_text held = {0}, limit = {0};
	add_outputs(p, &held);
	for (int space = 0; space < STK_SPACES; space++) {
		size_t most;
		if (!stk__ring_kept_bytes(p->ring, (enum stk_space)space, &most) && (space == STK_SPACE_HOST) == (p->program->n_steps > 0))
			continue;
		stk__text_add(&limit, "%s", limit.s ? ", " : "");
		add_size(&limit, most);
		stk__text_add(&limit, space ? " of the GPU's memory" : " of host memory");
	}
	enum stk_status s;
	if (lack == STK_RING_HELD)
		s = stk__fail(err, STK_LIMIT,
			"tensors of delivered batches hold as much memory as they may (held_limit: %s): %s; drop them, %s, or "
			"raise held_limit",
			limit.s ? limit.s : "", held.s ? held.s : "", advice());
	else
		s = stk__fail(err, STK_LIMIT, "all %d batches that max_batches allows are held: %s; drop them, %s, or raise max_batches",
			p->ring->limit, held.s ? held.s : "", advice());
	stk__text_free(&held);
	stk__text_free(&limit);
	return s;
}

void stk__warn_of_held_batches(struct stk_pipeline *p)
{
	if (p->run.kept_batches_warned || !atomic_load_explicit(&p->ring->pinned, memory_order_relaxed))
		return;
	struct stk_text held = {0};
	p->run.kept_batches_warned = true;
	add_outputs(p, &held);
	stk__notify(p->ctx, STK_LOG_WARNING,
		"tensors of many delivered batches are held, and each has memory of its own: %s; if that is not meant, %s (held_limit "
		"bounds it)",
		held.s ? held.s : "", advice());
	stk__text_free(&held);
}
