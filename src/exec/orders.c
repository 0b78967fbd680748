/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates the orders of a run: one for each reader, or one for the sources if there is no reader. */
#include "exec/exec.h"

#include <string.h>

struct stk_order stk__order_copy(struct stk_pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	struct stk_order order = p->order;
	pthread_mutex_unlock(&p->lock);
	return order;
}

int64_t stk__steps_before(const struct stk_pipeline *p, int64_t epoch)
{
	return epoch == p->order.start_epoch ? p->order.start_position / ((int64_t)p->order.batch * p->order.ranks) : 0;
}

int64_t stk__step_of_epoch(const struct stk_pipeline *p, const struct stk_order_step *at)
{
	return at->step + (p->program->reader >= 0 ? stk__steps_before(p, at->epoch) : 0);
}

bool stk__run_begins_epoch(const struct stk_pipeline *p)
{
	const struct stk_order *o = &p->order;
	/* If epochs follow each other without a gap, the batch before may contain the first samples of an epoch, but not of epoch 0. */
	bool joined = p->program->reader >= 0 && o->tail == STK_TAIL_WRAP && !o->contiguous && o->start_epoch > 0;
	return o->start_position == 0 || (joined && stk__steps_before(p, o->start_epoch) == 0);
}

int64_t stk__step_position(const struct stk_pipeline *p, int64_t epoch, int64_t step)
{
	int64_t together = (int64_t)p->order.batch * p->order.ranks;
	return step * together + (epoch == p->order.start_epoch ? p->order.start_position % together : 0);
}

/* Creates the order without a reader: consecutive batches of the sources' shard. Fails if their shards are impossible or differ, or if on_error is
 * STK_ON_ERROR_REPLACE. */
static enum stk_status order_of_sources(struct stk_pipeline *p, struct stk_error *err)
{
	const struct stk_level *first = &p->program->levels[0];
	p->order.batch = p->config.batch_size;
	p->order.ranks = 1;
	if (first->n_callbacks && p->config.on_error == STK_ON_ERROR_REPLACE)
		return stk__fail(err, STK_UNSUPPORTED,
			"on_error=\"replace\": \"%s\" gives one batch after another, so there is no other sample to take; \"skip\" leaves bad ones out",
			p->program->nodes[first->callbacks[0]].node->name);
	for (int32_t c = 0; c < first->n_callbacks; c++) {
		const struct stk_graph_node *node = p->program->nodes[first->callbacks[c]].node;
		int32_t shards = node->source.shards ? node->source.shards : 1, shard = node->source.shard_id;
		if (shards < 1 || shard < 0 || shard >= shards)
			return stk__fail(err, STK_INVALID, "\"%s\": there is no shard %d of %d: shards are numbered from 0", node->name,
				shard, shards);
		if (c && (shards != p->order.ranks || shard != p->order.rank))
			return stk__fail(err, STK_INVALID, "\"%s\" gives shard %d of %d, another source of the pipeline shard %d of %d",
				node->name, shard, shards, p->order.rank, p->order.ranks);
		p->order.ranks = shards;
		p->order.rank = shard;
	}
	return STK_OK;
}

static enum stk_status set_leading_reader(struct stk_pipeline *p, int32_t reader, struct stk_error *err)
{
	stk__program_lead(p->program, reader);
	p->order = p->orders[reader];
	return stk__order_check(&p->order, err);
}

/* Creates the run's order from the leading reader, and the orders of the other readers, which advance with it but have their own epochs. */
enum stk_status stk__orders_create(struct stk_pipeline *p, struct stk_error *err)
{
	const struct stk_program *g = p->program;
	if (g->reader < 0)
		return order_of_sources(p, err);
	p->orders = stk__calloc((size_t)g->n_readers, sizeof *p->orders);
	if (!p->orders)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d readers", g->n_readers);
	for (int32_t i = 0; i < g->n_readers; i++) {
		const struct stk_program_node *n = &g->nodes[g->readers[i].node];
		n->def->reader->order(n->node->args, n->shared, &p->orders[i]);
		p->orders[i].batch = p->config.batch_size;
	}
	for (int32_t i = 1; i < g->n_readers; i++)
		if (p->orders[i].ranks != p->orders[0].ranks || p->orders[i].rank != p->orders[0].rank)
			return stk__fail(err, STK_INVALID,
				"reader \"%s\" reads shard %d of %d, and \"%s\" shard %d of %d: give all readers of a pipeline the same shard_id "
				"and num_shards",
				g->nodes[g->readers[i].node].node->name, p->orders[i].rank, p->orders[i].ranks,
				g->nodes[g->readers[0].node].node->name, p->orders[0].rank, p->orders[0].ranks);
	return set_leading_reader(p, g->leading_reader, err);
}

enum stk_status stk_pipeline_lead(struct stk_pipeline *p, const char *reader, struct stk_error *err)
{
	if (STK_NEED(err, p, reader))
		return STK_INVALID;
	int32_t lead;
	enum stk_status s = stk__program_reader(p->program, reader, &lead, err);
	if (s || lead == p->program->leading_reader)
		return s;
	if (p->run.started || p->flight.next_deliver || p->run.restored)
		return stk__fail(err, STK_STATE,
			"the epochs of this run are those of reader \"%s\", and it has begun or was restored from a state: choose \"%s\" before the first batch",
			p->program->nodes[p->program->reader].node->name, reader);
	return set_leading_reader(p, lead, err);
}
