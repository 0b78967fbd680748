/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of bad samples: their messages, and the list of them in a pipeline. */
#include "exec/exec.h"

#include "base/safe_text.h"

#include <stdio.h>
#include <string.h>

/* The bad samples of delivered batches. */
struct stk_bad_list {
	struct stk_error *errors; /* errors[i % capacity] is the error of bad sample i; only the last `capacity` errors are kept */
	int64_t capacity;         /* at most STK_BAD_SAMPLES_KEPT; less if memory was short */
	int64_t n;                /* number of all bad samples */
	int32_t in_a_row; /* number of samples in a row, up to the last delivered batch, that could not be read; at most STK_BAD_ROW */
};

static size_t uri_by(const struct stk_program *g, int32_t node, int64_t id, char *uri, size_t capacity)
{
	const struct stk_program_node *n = node < 0 ? NULL : &g->nodes[node];
	uri[0] = '\0';
	return n && n->def->reader->uri && id >= 0 ? n->def->reader->uri(n->shared, id, uri, capacity) : 0;
}

size_t stk__sample_uri(const struct stk_program *g, int64_t id, char *uri, size_t capacity)
{
	return uri_by(g, g->reader, id, uri, capacity);
}

size_t stk__reader_uri(const struct stk_pipeline *p, int32_t reader, const struct stk_place *place, char *uri, size_t capacity)
{
	const struct stk_program *g = p->program;
	uri[0] = '\0';
	return g->n_readers ? uri_by(g, g->readers[reader].node, stk__reader_place(p, reader, place).sample, uri, capacity) : 0;
}

int32_t stk__chain_reader(const struct stk_program *g, int32_t level, int32_t chain)
{
	uint64_t reads = g->levels[level].chains[chain].reads;
	return reads && (reads & (reads - 1)) == 0 ? __builtin_ctzll(reads) : g->leading_reader;
}

void stk__set_error(struct stk_error **to, const struct stk_error *from)
{
	if (!*to)
		*to = stk__calloc(1, sizeof **to);
	if (*to)
		**to = *from;
}

/* Rewrites the message to, for example, "owl/01.jpg: not a JPEG (starts with "hello"); sample 1234 of epoch 2, decoders.image at train.py:31". If it is too
 * long, cuts the part before the last semicolon. */
static void compose_message(struct stk_error *e, const struct stk_fed_sample *fed)
{
	enum { OP = 140 };
	char suffix[OP + 120], number[40] = "";
	struct stk_error from = *e;
	stk__safe_text(from.uri, sizeof from.uri); /* only the copy for the message is made printable; e->uri keeps the original name */
	bool named = from.uri[0] && !stk__names_file(from.message, from.uri);
	if (fed && fed->numbered)
		snprintf(number, sizeof number, "dataset[%lld], ", (long long)fed->id);
	snprintf(suffix, sizeof suffix, "; %ssample %lld of epoch %lld%s%.*s", number, (long long)e->sample, (long long)e->epoch,
		from.op[0] ? ", " : "", OP, from.op);
	size_t capacity = sizeof e->message - strlen(suffix);
	int length = snprintf(e->message, capacity, "%s%s%s", named ? from.uri : "", named ? ": " : "", from.message);
	bool truncated = length >= (int)capacity;
	size_t end = truncated ? capacity - sizeof "..." : (size_t)length;
	snprintf(e->message + end, sizeof e->message - end, "%s%s", truncated ? "..." : "", suffix);
}

void stk__name_sample(const struct stk_pipeline *p, const struct stk_sample_state *s, int32_t reader, struct stk_error *err)
{
	char uri[STK_MAX_URI];
	stk__reader_uri(p, reader, &s->place, uri, sizeof uri);
	stk__error_set_sample(
		err, !uri[0] && s->fed && s->fed->uri ? s->fed->uri : uri, stk__shown_epoch(p, s->place.epoch), s->place.position);
	compose_message(err, s->fed);
}

void stk__name_input(const struct stk_program *g, const struct stk_sample_state *s, int32_t node, struct stk_error *err)
{
	const struct stk_program_node *n = &g->nodes[node];
	for (int32_t k = 0; k < n->node->n_inputs; k++) {
		const struct stk_program_node *from = &g->nodes[g->values[n->inputs[k]].node];
		if (from->reader < 0 || !from->def->reader->output_part)
			continue;
		stk__name_part(s, from->reader, from->def->reader->output_part(from->node->args, n->inputs[k] - from->first_value), err);
		return;
	}
}

void stk__name_origin(const struct stk_pipeline *p, const struct stk_sample_state *s, int32_t node, int32_t named, struct stk_error *err)
{
	const int32_t origin = p->program->nodes[node].origin;
	char uri[STK_MAX_URI], was[sizeof err->message];
	if (origin < 0 || origin == named || !stk__reader_uri(p, origin, &s->place, uri, sizeof uri))
		return;
	stk__safe_text(uri, sizeof uri);
	if (stk__names_file(err->message, uri))
		return;
	memcpy(was, err->message, sizeof was);
	const int length = (int)sizeof was / 2; /* cuts a long URI to half of the buffer, so that room remains for the old message */
	snprintf(err->message, sizeof err->message, "%.*s: %.*s", length, uri, length - (int)sizeof ": ", was);
}

/* Records a bad sample of the batch. Ignores a repeated sample that fills up the batch, since it is recorded at its own position. */
void stk__bad_add(struct stk_record *r, int32_t i, const struct stk_error *err)
{
	if (r->samples[i].place.padded)
		return;
	r->n_bad++;
	struct stk_bad *b = stk__alloc(sizeof *b), **at = &r->bads;
	if (!b)
		return;
	while (*at && (*at)->index <= i)
		at = &(*at)->next;
	*b = (struct stk_bad){*at, i, *err};
	*at = b;
}

void stk__bad_drop(struct stk_record *r)
{
	while (r->bads) {
		struct stk_bad *next = r->bads->next;
		stk__free(r->bads);
		r->bads = next;
	}
	r->n_bad = 0;
}

/* Updates in_a_row with the samples of a batch, in the order of the batch, so that the result does not depend on timing. */
static void count_row(struct stk_bad_list *l, const struct stk_record *r)
{
	const struct stk_bad *b = r->bads;
	for (int32_t i = 0; i < r->count && l->in_a_row < STK_BAD_ROW; i++) {
		bool failed = false;
		for (; b && b->index <= i; b = b->next)
			failed |= b->index == i && (b->error.code == STK_IO || b->error.code == STK_TIMEOUT);
		l->in_a_row = failed ? l->in_a_row + 1 : r->samples[i].place.padded ? l->in_a_row : 0;
	}
}

/* Makes room for the next error, up to STK_BAD_SAMPLES_KEPT. If memory is short, further errors replace the oldest ones; the capacity is then final, because
 * indices depend on it. */
static void make_room(struct stk_bad_list *l)
{
	if (l->n != l->capacity || l->capacity == STK_BAD_SAMPLES_KEPT)
		return;
	int64_t capacity = l->capacity ? 4 * l->capacity : 10;
	capacity = capacity < STK_BAD_SAMPLES_KEPT ? capacity : STK_BAD_SAMPLES_KEPT;
	void *more = stk__realloc(l->errors, (size_t)capacity * sizeof *l->errors);
	l->errors = more ? more : l->errors;
	l->capacity = more ? capacity : l->capacity;
}

void stk__bad_deliver(struct stk_record *r)
{
	struct stk_pipeline *p = r->pipeline;
	STK_COUNT(p, bad_samples, r->n_bad);
	if (r->bads && !p->parts.bad)
		p->parts.bad = stk__calloc(1, sizeof *p->parts.bad);
	struct stk_bad_list *l = p->parts.bad;
	for (const struct stk_bad *b = l ? r->bads : NULL; b; b = b->next, l->n++) {
		make_room(l);
		if (l->capacity)
			l->errors[l->n % l->capacity] = b->error;
	}
	if (l)
		count_row(l, r);
}

enum stk_status stk__bad_check_row(const struct stk_pipeline *p, struct stk_error *err)
{
	const struct stk_bad_list *l = p->parts.bad;
	if (!l || l->in_a_row < STK_BAD_ROW)
		return STK_OK;
	return stk__fail(err, STK_IO, "%d samples in a row could not be read, so that their source is taken to be down; the last: %.700s",
		STK_BAD_ROW, stk__bad_last(p));
}

const char *stk__bad_last(const struct stk_pipeline *p)
{
	const struct stk_bad_list *l = p->parts.bad;
	return l && l->capacity && l->n ? l->errors[(l->n - 1) % l->capacity].message : "out of memory";
}

void stk__bad_free(struct stk_pipeline *p)
{
	if (p->parts.bad)
		stk__free(p->parts.bad->errors);
	stk__free(p->parts.bad);
	p->parts.bad = NULL;
}

int64_t stk_pipeline_bad_samples(struct stk_pipeline *p)
{
	if (!p)
		return 0;
	pthread_mutex_lock(&p->lock);
	int64_t n = p->parts.bad ? p->parts.bad->n : 0;
	pthread_mutex_unlock(&p->lock);
	return n;
}

bool stk_pipeline_bad_sample(struct stk_pipeline *p, int64_t i, struct stk_error *out)
{
	if (!p || !out)
		return false;
	pthread_mutex_lock(&p->lock);
	const struct stk_bad_list *l = p->parts.bad;
	const bool is_kept = l && i >= 0 && i < l->n && i >= l->n - l->capacity;
	if (is_kept)
		*out = l->errors[i % l->capacity];
	pthread_mutex_unlock(&p->lock);
	return is_kept;
}
