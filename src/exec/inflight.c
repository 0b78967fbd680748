/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans which samples a batch contains, checks the transitions of its state, and queues its items that are ready for workers. */
#include "exec/exec.h"

#include <assert.h>

void stk__record_enter(struct stk_record *r, enum stk_batch_state to)
{
	static const unsigned from[] = {
#define STATE(s) (1u << STK_BATCH_##s)
		[STK_BATCH_FREE] = ~0u,
		[STK_BATCH_PLANNED] = STATE(FREE),
		[STK_BATCH_OPEN] = STATE(PLANNED) | STATE(ON_GPU),
		[STK_BATCH_ON_GPU] = STATE(OPEN),
		[STK_BATCH_ENDING] = STATE(OPEN),
		[STK_BATCH_FINISHED] = STATE(ENDING),
		[STK_BATCH_DELIVERED] = STATE(FINISHED),
#undef STATE
	};
	assert(1u << r->state & from[to]);
	(void)from;
	r->state = to;
}

bool stk__record_under_way(const struct stk_record *r)
{
	return r->state > STK_BATCH_FREE && r->state < STK_BATCH_ENDING;
}

/* ---- places ---- */

static void plan(struct stk_pipeline *p, struct stk_record *r)
{
	r->at = (struct stk_order_step){
		.epoch = p->order.start_epoch, .step = stk__steps_before(p, p->order.start_epoch) + r->k, .count = p->config.batch_size};
	if (p->program->reader >= 0)
		r->at = stk__order_batch(&p->order, r->k);
	r->count = stk__surveyed_has(p, r) ? r->at.count : 0;
	r->placed = p->callbacks->places ? r->count : 0;
	for (int32_t i = 0; i < r->placed; i++) {
		struct stk_sample_state *s = &r->samples[i];
		s->place = (struct stk_place){
			.epoch = r->at.epoch, .sample = -1, .position = stk__step_position(p, r->at.epoch, r->at.step) + i};
		if (p->program->reader >= 0)
			s->place = stk__order_place(&p->order, r->k, i);
		s->attempt = s->chains_left = 0;
		s->fed = NULL;
		s->dropped = s->on_cores = false;
	}
}

bool stk__create_records(struct stk_pipeline *p, int64_t up_to)
{
	for (; p->flight.next_create < up_to; p->flight.next_create++) {
		struct stk_record *r = stk__record(p, p->flight.next_create);
		if (r->reading || !stk__surveyed_plans(p, p->flight.next_create))
			return false;
		stk__record_enter(r, STK_BATCH_PLANNED);
		r->k = p->flight.next_create;
		plan(p, r);
	}
	return true;
}

/* ---- ready items ---- */

int32_t stk__ready_room(const struct stk_pipeline *p)
{
	return p->program->max_chains * p->config.batch_size + p->program->n_nodes + 1;
}

void stk__ready_push(struct stk_record *r, int32_t item)
{
	r->ready.items[(r->ready.head + r->ready.count++) % stk__ready_room(r->pipeline)] = item;
}

int32_t stk__gather_item(const struct stk_pipeline *p, int32_t node)
{
	return p->program->max_chains * p->config.batch_size + node;
}

int32_t stk__device_item(const struct stk_pipeline *p)
{
	return stk__gather_item(p, p->program->n_nodes);
}

void stk__ready_chain(struct stk_record *r, int32_t chain, int32_t sample)
{
	stk__ready_push(r, chain * r->pipeline->config.batch_size + sample);
}

void stk__ready_submit(struct stk_record *r)
{
	stk__ready_push(r, stk__device_item(r->pipeline));
}
