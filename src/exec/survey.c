/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles runs whose samples become known only while they are read (format/survey.h): decides which batches can be planned, and when such a run ends. */
#include "exec/exec.h"

#include "format/survey.h"

#include <string.h>

struct stk_surveyed {
	struct stk_survey *survey; /* the reader's search for samples; not owned */
	bool begun;
	enum stk_status failed;
	int64_t known; /* number of samples that are known */
	struct stk_error error;
};

enum stk_status stk__surveyed_create(struct stk_pipeline *p, struct stk_error *err)
{
	const struct stk_program *g = p->program;
	if (g->reader < 0 || !p->order.as_met)
		return STK_OK;
	const struct stk_program_node *n = &g->nodes[g->reader];
	if (g->n_readers > 1 || p->order.ranks > 1 || p->order.tail == STK_TAIL_WRAP || p->order.indices)
		return stk__fail(err, STK_UNSUPPORTED,
			"%s reads tars without an index only if it is the only reader, on one rank, without indices, and with a tail other than wrap; make an "
			"index first (stoker index)",
			n->node->name);
	p->parts.surveyed = stk__calloc(1, sizeof *p->parts.surveyed);
	if (!p->parts.surveyed)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a pipeline");
	p->parts.surveyed->survey = n->def->reader->survey(n->shared);
	return STK_OK;
}

void stk__surveyed_destroy(struct stk_pipeline *p)
{
	stk__surveyed_end(p);
	stk__free(p->parts.surveyed);
	p->parts.surveyed = NULL;
}

static void more_is_known(void *pool)
{
	stk__pool_wake(pool);
}

/* Returns the order in which to read the `count` tars, shuffled if the run shuffles; NULL: memory is short. The caller frees the array. */
static int32_t *order_of_tars(const struct stk_pipeline *p, int32_t count)
{
	int32_t *order = stk__calloc((size_t)count, sizeof *order);
	const struct stk_order tars = {.size = count, .seed = p->order.seed};
	const struct stk_shuffle shuffle = stk__order_shuffle(&tars, p->order.start_epoch);
	for (int32_t i = 0; order && i < count; i++)
		order[i] = p->order.shuffle ? (int32_t)stk__shuffle_hd(&shuffle, (uint64_t)i) : i;
	return order;
}

enum stk_status stk__surveyed_begin(struct stk_pipeline *p, struct stk_error *err)
{
	struct stk_surveyed *v = p->parts.surveyed;
	if (!v || v->begun)
		return STK_OK;
	const struct stk_survey_plan plan = {.order = order_of_tars(p, stk__survey_tars(v->survey)),
		.bytes = p->config.read_bytes,
		.first = p->order.start_position,
		.more = more_is_known,
		.user = p->pool};
	if (!plan.order)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the order of tars");
	v->begun = true;
	return stk__survey_begin(v->survey, &plan, err);
}

void stk__surveyed_end(struct stk_pipeline *p)
{
	if (p->parts.surveyed)
		stk__survey_end(p->parts.surveyed->survey);
}

/* ---- batches ---- */

static int64_t position_of(const struct stk_pipeline *p, int64_t k)
{
	return p->order.start_position + k * p->order.batch;
}

/* Returns whether batch k can be planned. It can if the search has ended or failed. Before that, at least STK_ORDER_FIRST samples must be known, and all
 * samples of batch k + 1, since otherwise batch k could turn out to be the epoch's last. */
bool stk__surveyed_plans(struct stk_pipeline *p, int64_t k)
{
	struct stk_surveyed *v = p->parts.surveyed;
	if (!v || v->failed || p->order.size != STK_ORDER_UNKNOWN)
		return true;
	int64_t want = position_of(p, k + 2);
	want = want > STK_ORDER_FIRST ? want : STK_ORDER_FIRST;
	const struct stk_survey_known known = stk__survey_known(v->survey, want, p->flight.next_open == p->flight.next_deliver, &v->error);
	v->failed = known.all ? known.failed : STK_OK;
	v->known = known.samples;
	if (known.all && !v->failed) {
		struct stk_order whole = p->order;
		whole.size = known.samples;
		v->failed = stk__order_check(&whole, &v->error);
		v->known = v->failed ? 0 : known.samples;
		p->order.size = v->failed ? STK_ORDER_UNKNOWN : known.samples;
	}
	return known.all || known.samples >= want;
}

bool stk__surveyed_has(const struct stk_pipeline *p, struct stk_record *r)
{
	const struct stk_surveyed *v = p->parts.surveyed;
	if (!v || (v->failed ? position_of(p, r->k + 1) <= v->known : r->at.epoch == p->order.start_epoch))
		return true;
	const char *name = p->program->nodes[p->program->reader].def->name;
	if (v->failed) {
		r->result = (struct stk_result){.kind = STK_RESULT_ERROR, .error = v->error};
		stk__error_set_op(&r->result.error, name);
	} else if (r->k == 0) { /* less than one step of the epoch was left in the restored state */
		r->result.kind = STK_RESULT_END;
	} else {
		r->result.kind = STK_RESULT_ERROR;
		enum stk_status s = stk__fail(&r->result.error, STK_STATE,
			"%s reads one epoch of tars without an index: make a new pipeline, which finds the index that this one made", name);
		(void)s;
	}
	r->at.epoch = p->order.start_epoch;
	return false;
}

void stk__surveyed_delivered(struct stk_pipeline *p, const struct stk_record *r)
{
	if (p->parts.surveyed)
		stk__survey_passed(p->parts.surveyed->survey, position_of(p, r->k + 1));
}

bool stk__surveyed_read(struct stk_pipeline *p, int64_t id, struct stk_request *r)
{
	return p->parts.surveyed && stk__survey_read(p->parts.surveyed->survey, id, r);
}

bool stk__surveyed_notice(struct stk_pipeline *p, char text[400])
{
	return p->parts.surveyed && stk__survey_notice(p->parts.surveyed->survey, text);
}
