/* SPDX-License-Identifier: Apache-2.0
 * Batches in flight: their states, and what of a batch is ready to be worked on. enum stk_batch_state has the diagram. */
#include "exec/device.h"

#include <assert.h>

#define FROM(state) (1u << STK_BATCH_##state)

static void enter(struct stk_record *r, enum stk_batch_state to, unsigned from)
{
	assert(1u << r->state & from);
	(void)from;
	r->state = to;
}

bool stk__record_under_way(const struct stk_record *r)
{
	return r->state > STK_BATCH_FREE && r->state < STK_BATCH_ENDING;
}

bool stk__create_records(struct stk_pipeline *p, int64_t up_to)
{
	for (; p->next_create < up_to; p->next_create++) {
		struct stk_record *r = stk__record(p, p->next_create);
		if (r->reading)
			return false;
		enter(r, STK_BATCH_PLANNED, FROM(FREE));
		r->k = p->next_create;
		r->fed = p->program->levels[0].n_callbacks == 0;
		r->at = (struct stk_batch_place){.epoch = p->order.start_epoch,
			.step = stk__steps_before(p, p->order.start_epoch) + r->k,
			.count = p->config.batch_size};
		if (p->program->reader >= 0)
			r->at = stk__order_batch(&p->order, r->k);
		r->count = r->at.count;
		for (int32_t i = 0; i < r->count && !p->resident; i++) {
			struct stk_sample_state *s = &r->samples[i];
			s->place = (struct stk_place){
				.epoch = r->at.epoch, .sample = -1, .position = stk__step_position(p, r->at.epoch, r->at.step) + i};
			if (p->program->reader >= 0)
				s->place = stk__order_place(&p->order, r->k, i);
			s->attempt = 0;
			s->dropped = s->on_cores = false;
			s->read = STK_READ_NONE;
			s->waiting = 0;
			s->staged = NULL;
		}
	}
	return true;
}

/* Samples give back what they hold, but for those that a read is still under way for. */
static void clean_samples(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	for (int32_t i = 0; i < p->config.batch_size; i++) {
		struct stk_sample_state *s = &r->samples[i];
		stk__release_bytes(p, s);
		stk__free(s->error);
		s->error = NULL;
	}
}

void stk__record_open(struct stk_record *r)
{
	stk__reads_opened(r);
	enter(r, STK_BATCH_OPEN, FROM(PLANNED));
}

void stk__record_on_gpu(struct stk_record *r)
{
	enter(r, STK_BATCH_ON_GPU, FROM(OPEN));
}

void stk__record_back_on_cores(struct stk_record *r)
{
	enter(r, STK_BATCH_OPEN, FROM(ON_GPU));
}

void stk__record_deliver(struct stk_record *r)
{
	enter(r, STK_BATCH_DELIVERED, FROM(FINISHED));
}

void stk__record_return(struct stk_record *r)
{
	stk__assert_unlocked(r->pipeline);
	stk__release_fed(r);
	stk_batch_unref(&r->batch); /* the slot is its own */
	if (r->slot)
		stk__slot_return(r->slot);
	r->slot = NULL;
	if (r->device)
		stk__device_batch_clean(r->pipeline, r->device);
}

void stk__record_reset(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	if (stk__record_under_way(r) && !p->resident) /* the run is left; else it was done when the batch ended */
		clean_samples(r);
	if (r->device)
		stk__device_batch_give(p, r->device);
	r->device = NULL;
	r->error.code = STK_OK;
	r->ended = r->fed = r->misfit = false;
	r->ready_count = r->ready_head = 0;
	stk__bad_drop(r);
	r->level = r->todo = 0;
	r->state = STK_BATCH_FREE;
}

int32_t stk__ready_room(const struct stk_pipeline *p)
{
	return p->max_chains * p->config.batch_size + p->program->n_nodes + 1;
}

void stk__ready_push(struct stk_record *r, int32_t item)
{
	r->ready[(r->ready_head + r->ready_count++) % stk__ready_room(r->pipeline)] = item;
}

int32_t stk__gather_item(const struct stk_pipeline *p, int32_t node)
{
	return p->max_chains * p->config.batch_size + node;
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

/* The chain's sample is ready, or will be when its bytes have come. */
static void begin_chain(struct stk_record *r, const struct stk_chain *chain, int32_t index, int32_t sample)
{
	if (chain->reads && stk__read_under_way(&r->samples[sample]))
		r->samples[sample].waiting |= 1ull << index;
	else
		stk__ready_chain(r, index, sample);
}

void stk__sample_begin(struct stk_record *r, int32_t i)
{
	const struct stk_level *level = &r->pipeline->program->levels[r->level];
	r->samples[i].failed_by = -1;
	r->samples[i].chains_left = level->n_chains;
	for (int32_t c = 0; c < level->n_chains; c++)
		begin_chain(r, &level->chains[c], c, i);
}

/* Nothing more happens to the batch's samples. */
static void end_batch(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	enter(r, STK_BATCH_ENDING, FROM(OPEN) | FROM(ON_GPU));
	if (!p->resident)
		clean_samples(r);
	r->next_ending = p->ending;
	p->ending = r;
}

/* What the consumer gets is made here: its own thread has better to do. Samples may be moved together, which is why no lock is held. */
static void make_batch(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	stk__assert_unlocked(p);
	if (r->ended || r->error.code || p->resident) /* the last has its slot until the GPU has written it */
		return;
	r->misfit = stk__batch_check(p, r, &r->error) != STK_OK;
	r->batch = r->misfit ? NULL : stk__batch_make(p, r);
}

void stk__end_records(struct stk_pipeline *p)
{
	for (struct stk_record *r; (r = p->ending);) {
		p->ending = r->next_ending;
		pthread_mutex_unlock(&p->lock);
		make_batch(r);
		pthread_mutex_lock(&p->lock);
		enter(r, STK_BATCH_FINISHED, FROM(ENDING));
		pthread_cond_broadcast(&p->delivered);
	}
}

void stk__record_level(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	if (r->state == STK_BATCH_ON_GPU)
		stk__record_back_on_cores(r);
	for (; r->level < p->program->n_levels; r->level++) {
		const struct stk_level *level = &p->program->levels[r->level];
		bool calls = level->n_callbacks && !r->fed;
		r->todo = level->n_gathers + (calls ? 1 : 0);
		for (int32_t i = 0; i < r->count; i++) {
			r->samples[i].present = !r->samples[i].dropped;
			r->todo += level->n_chains && r->samples[i].present;
		}
		if (r->todo == 0)
			continue;
		for (int32_t i = 0; level->n_chains && i < r->count; i++)
			if (!r->samples[i].dropped)
				stk__sample_begin(r, i);
		for (int32_t k = 0; k < level->n_gathers; k++)
			stk__ready_push(r, stk__gather_item(p, level->gathers[k]));
		if (calls)
			pthread_cond_signal(&p->feed);
		return;
	}
	end_batch(r);
}

void stk__level_over(struct stk_record *r)
{
	r->level++;
	if (r->ended || r->error.code) /* nothing more is made of it */
		r->level = r->pipeline->program->n_levels;
	stk__record_level(r);
}

void stk__level_part_done(struct stk_record *r)
{
	const struct stk_pipeline *p = r->pipeline;
	if (--r->todo > 0)
		return;
	if (p->program->levels[r->level].n_steps && !r->ended) /* also after an error: the GPU may know of one in an earlier sample */
		stk__device_ready(r->pipeline, r);
	else
		stk__level_over(r);
}

void stk__sample_again(struct stk_record *r, int32_t i)
{
	r->samples[i].on_cores = true;
	r->todo++;
	stk__sample_begin(r, i);
}
