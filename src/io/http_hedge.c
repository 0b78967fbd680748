/* SPDX-License-Identifier: Apache-2.0
 * Hedges: a request whose answer is late gets a second transfer on another connection, and the first answer counts (Dean and Barroso, The Tail at Scale, 2013).
 * Late is what lies four mean deviations above the mean, as for TCP's retransmission timer: two or three in a hundred answers of a store. Three are enough
 * where the bytes should be there already, since a whole batch then waits for this one answer: one in twenty. */
#include "io/http_impl.h"

enum { ENOUGH = 64, LEAST_NS = 20000000 };
enum { LATE = 4, LATE_AND_NEEDED = 3 }; /* mean deviations */

static double late_ns(const struct stk_http_loop *l, int deviations)
{
	double late = l->first_ns + deviations * l->spread_ns;
	return late > LEAST_NS ? late : LEAST_NS;
}

/* An answer counts as at most twice the time that is late, so that a slow few do not make slowness the rule. */
void stk__hedge_learn(struct stk_http_loop *l, int64_t first_byte_ns)
{
	double x = (double)first_byte_ns, most = 2 * late_ns(l, LATE), weight = l->firsts < ENOUGH ? 1.0 / (l->firsts + 1) : 1.0 / ENOUGH;
	x = l->firsts >= ENOUGH && x > most ? most : x;
	double distance = x > l->first_ns ? x - l->first_ns : l->first_ns - x;
	l->spread_ns += l->firsts ? (distance - l->spread_ns) * weight : 0;
	l->first_ns += (x - l->first_ns) * weight;
	l->firsts += l->firsts < ENOUGH;
}

bool stk__hedge_due(const struct stk_http_loop *l, const struct stk_transfer *t, int64_t now)
{
	int64_t latest = t->twin && t->twin->window_ns > t->window_ns ? t->twin->window_ns : t->window_ns;
	return !t->begun && !t->resumes && l->firsts == ENOUGH &&
	       (double)(now - latest) > late_ns(l, t->r->deadline < now ? LATE_AND_NEEDED : LATE);
}

bool stk__hedge_lost(const struct stk_transfer *t)
{
	return t->twin && t->twin->begun && !t->begun;
}
