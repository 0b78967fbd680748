/* SPDX-License-Identifier: Apache-2.0
 * What is told of a bad sample, and what is remembered. */
#include "exec/exec.h"

#include <stdio.h>
#include <string.h>

void stk__set_error(struct stk_error **to, const struct stk_error *from)
{
	if (!*to)
		*to = stk__calloc(1, sizeof **to);
	if (*to)
		**to = *from;
}

/* "owl/01.jpg: not a JPEG (starts with "hello"); sample 1234 of epoch 2, decoders.image at train.py:31" */
static void compose_message(struct stk_error *e)
{
	struct stk_error from = *e;
	bool named = from.uri[0] && !strstr(from.message, from.uri);
	snprintf(e->message, sizeof e->message, "%s%s%.300s; sample %lld of epoch %lld%s%s", named ? from.uri : "", named ? ": " : "",
		from.message, (long long)e->sample, (long long)e->epoch, from.op[0] ? ", " : "", from.op);
}

void stk__name_sample(const struct stk_pipeline *p, const struct stk_sample_state *s, struct stk_error *err)
{
	char uri[STK_MAX_URI];
	stk__sample_uri(p->program, s->place.sample, uri, sizeof uri);
	stk__error_set_sample(err, uri, s->place.epoch, s->place.position);
	compose_message(err);
}

void stk__remember_bad(struct stk_pipeline *p, const struct stk_error *err)
{
	enum { KEPT = 10000 };
	STK_COUNT(p, bad_samples, 1);
	if (p->n_bad == p->room_bad && p->room_bad < KEPT) {
		int64_t room = p->room_bad ? 2 * p->room_bad : 16;
		void *more = stk__realloc(p->bad, (size_t)room * sizeof *p->bad);
		if (more) {
			p->bad = more;
			p->room_bad = room;
		}
	}
	if (p->n_bad < p->room_bad)
		p->bad[p->n_bad++] = *err;
}

bool stk__is_fatal(const struct stk_pipeline *p, const struct stk_error *err)
{
	enum { MISSING_IN_A_ROW = 32 };
	return err->code == STK_IO || err->code == STK_TIMEOUT || err->code == STK_SYSTEM || err->code == STK_NO_MEMORY ||
	       err->code == STK_CANCELLED || p->missing_in_a_row >= MISSING_IN_A_ROW;
}
