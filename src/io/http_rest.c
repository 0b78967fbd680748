/* SPDX-License-Identifier: Apache-2.0
 * A body comes in pieces as small as the network's, and each would wake the loop, and cost a call of curl's. What is left of it is only asked for once all of it
 * has come, or as much as curl takes at a time: the socket counts as readable from SO_RCVLOWAT bytes on. The kernel makes room for so many, tells of an end or
 * a reset at once, and a body that takes longer than PATIENCE is taken piece by piece, so that stalls and trickles are seen as ever. */
#include "io/http_impl.h"

#include "base/clock.h"

#include <string.h>
#include <sys/socket.h>

enum {
	PATIENCE_NS = 100000000,
	LEAST = 16 << 10,
	RECORD = 24 << 10
}; /* RECORD: of TLS, which may hold bytes that the socket has given already */

static void await_bytes(struct stk_transfer *t, int bytes)
{
	if (bytes == t->awaited || t->fd < 0 || setsockopt(t->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes))
		return;
	t->awaited = bytes;
	t->awaited_ns = stk__clock_ns();
}

void stk__rest_connected(struct stk_transfer *t, int fd, bool used)
{
	const int one = 1;
	t->fd = fd;
	if (used) /* the end of another response was waited for */
		setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
}

void stk__rest_body_came(struct stk_transfer *t)
{
	if (t->fed)
		return;
	t->fed = true;
	t->next_fed = t->loop->fed;
	t->loop->fed = t;
}

void stk__rest_await(struct stk_http_loop *l)
{
	for (struct stk_transfer *t = l->fed; t; t = t->next_fed) {
		t->fed = false;
		int64_t left = t->expected - (int64_t)t->used - (strncmp(t->target.url.s, "https", 5) == 0 ? RECORD : 0);
		if (t->r && t->expected >= 0 && !t->skip && !t->eager)
			await_bytes(t, left < LEAST ? 1 : left > STK_HTTP_RECEIVE ? STK_HTTP_RECEIVE : (int)left);
	}
	l->fed = NULL;
}

void stk__rest_look(struct stk_transfer *t, int64_t now)
{
	if (t->awaited <= 1 || now - t->awaited_ns < PATIENCE_NS)
		return;
	t->eager = true;
	await_bytes(t, 1);
}
