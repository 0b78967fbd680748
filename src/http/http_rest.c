/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the rest of a body in few pieces.
 *
 * A body arrives in pieces as small as the network's packets, and each would wake the loop. So the socket is made readable only from SO_RCVLOWAT
 * bytes on, when all or much of the rest has arrived. The kernel provides room for that many bytes, and reports an end or a reset at once. A body
 * that takes longer than PATIENCE_NS is read piece by piece, so that stalls and slow bodies are still detected. */
#include "http/http_connection.h"

#include "base/clock.h"

enum { PATIENCE_NS = 100000000, LEAST = 16 << 10, MOST = 256 << 10 };
enum { RECORD = 24 << 10 }; /* size in bytes, larger than a TLS record: this many bytes of the body may already be in the TLS library */

/* Returns the time in ns for which the loop pauses so that more pieces arrive, since waking up for each piece takes more time than handling it. If a store
 * takes long to answer, a pause of a twentieth of that time measurably affects neither the first batch nor the rate. */
int64_t stk__rest_pause(const struct stk_http_loop *l)
{
	const int64_t longest_ns = 8000000, shortest_ns = 100000, part = (int64_t)(l->statistics.first_ns / 20);
	return part < shortest_ns ? 0 : part < longest_ns ? part : longest_ns;
}

bool stk__rest_is_worth_waiting(const struct stk_transfer *t)
{
	return t->response.state == STK_RESPONSE_IN_CONTENT && t->response.content_left >= LEAST && !t->piecewise && !t->connection->tls &&
	       stk__rest_pause(t->loop);
}

void stk__rest_wait(struct stk_transfer *t)
{
	struct stk_connection *c = t->connection;
	int64_t left = t->response.content_left - (c->tls ? RECORD : 0);
	if (t->response.state != STK_RESPONSE_IN_CONTENT || t->piecewise || t->response.content_left < 0)
		return;
	stk__connection_await(c, left < LEAST ? 1 : left > MOST ? MOST : (int)left);
	t->awaited_ns = stk__clock_ns();
}

void stk__rest_check(struct stk_transfer *t, int64_t now)
{
	if (!t->has_body_memory || now - t->awaited_ns < PATIENCE_NS || !t->connection || t->connection->low <= 1)
		return;
	t->piecewise = true;
	stk__connection_await(t->connection, 1);
}
