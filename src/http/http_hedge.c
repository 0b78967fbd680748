/* SPDX-License-Identifier: Apache-2.0
 * Hedges: a request whose answer is late gets a second transfer on another connection, and the first answer counts (Dean and Barroso, The Tail at Scale, 2013).
 * An answer is late if it takes four mean deviations more than the mean, as in TCP's retransmission timer. Of a store's answers, two or three in a hundred are
 * late. If the bytes are already overdue, three deviations are enough, because a whole batch waits for this answer; then one answer in twenty is late. */
#include "http/http_impl.h"

enum { ENOUGH = 64, LEAST_NS = 20000000 };
enum {
	MOST_HEDGES = 6
	/* maximum number of second transfers for one request; each begins after twice the wait of the previous one, so that their number stays low if an
	 * object's answers stall */
};
enum { LATE = 4, LATE_AND_NEEDED = 3 }; /* number of mean deviations above the mean from which on an answer is late */

static double hedge_delay_ns(const struct stk_http_statistics *a, int deviations)
{
	double late = a->first_ns + deviations * a->spread_ns;
	return late > LEAST_NS ? late : LEAST_NS;
}

/* Updates the mean and the deviation with the time to an answer's first byte. A time counts as at most twice the one from which answers are late: otherwise a
 * few very slow answers would make later slow ones count as punctual. */
void stk__hedge_add_time(struct stk_http_source *s, int64_t first_byte_ns)
{
	struct stk_http_statistics *a = &s->statistics;
	pthread_mutex_lock(&s->lock);
	double x = (double)first_byte_ns, most = 2 * hedge_delay_ns(a, LATE),
	       weight = a->count < ENOUGH ? 1.0 / (a->count + 1) : 1.0 / ENOUGH;
	x = a->count >= ENOUGH && x > most ? most : x;
	double distance = x > a->first_ns ? x - a->first_ns : a->first_ns - x;
	a->spread_ns += a->count ? (distance - a->spread_ns) * weight : 0;
	a->first_ns += (x - a->first_ns) * weight;
	a->count += a->count < ENOUGH;
	pthread_mutex_unlock(&s->lock);
}

void stk__hedge_copy_statistics(struct stk_http_loop *l)
{
	pthread_mutex_lock(&l->source->lock);
	l->statistics = l->source->statistics;
	pthread_mutex_unlock(&l->source->lock);
}

bool stk__hedge_due(const struct stk_http_loop *l, const struct stk_transfer *t, int64_t now)
{
	int64_t latest = t->twin && t->twin->window_ns > t->window_ns ? t->twin->window_ns : t->window_ns;
	if (t->response_begun || t->resumes || l->statistics.count != ENOUGH || t->hedges >= MOST_HEDGES)
		return false;
	const double late = hedge_delay_ns(&l->statistics, t->r->deadline < now ? LATE_AND_NEEDED : LATE);
	return (double)(now - latest) > late * (double)(1 << t->hedges);
}
