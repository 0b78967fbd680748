/* SPDX-License-Identifier: Apache-2.0
 * Connections to servers, on a loop's thread. libcurl opens them: names, addresses, tunnels through proxies, TLS and whom it trusts are its own. From then on a
 * plain connection is a socket, which libcurl has forgotten, and one with TLS is read and written through it.
 *
 *   opening -> busy      a transfer has it
 *   busy    -> idle      its response has ended, and it serves the next
 *   idle    -> busy
 *   any     -> closed    which frees it
 */
#ifndef STK_IO_HTTP_CONNECTION_H
#define STK_IO_HTTP_CONNECTION_H

#include "io/http_impl.h"

#include <sys/types.h>

/* What opens one connection at a time. A multi handle of its own: in one that opened others too, libcurl would look through its idle connections then, and
 * close those that have something to be read. */
struct stk_dialer {
	struct stk_dialer *next;
	CURLM *multi;
	CURL *easy;
	struct stk_connection *connection;
	struct stk_http_loop *loop;
	int64_t timer_ns; /* when curl wants to be called; -1: not */
	bool looks_up;    /* the address of a name, on a thread of curl's */
	int taken;        /* a socket that has become a connection's: curl's close of it closes nothing; -1: none */
	bool starved;     /* there was no descriptor for a socket */
	char why[CURL_ERROR_SIZE];
};

/* What a transfer hears of its connection. */
struct stk_connection_user {
	void (*connected)(struct stk_transfer *t);
	void (*ready)(struct stk_transfer *t, bool writable); /* something has come, or it ended; or bytes can be written */
	void (*failed)(
		struct stk_transfer *t, CURLcode code, const char *why); /* it could not be opened, and is no longer the transfer's */
};

struct stk_connection {
	struct stk_connection *next, *before; /* of those that are being opened, or idle */
	struct stk_http_loop *loop;
	struct stk_transfer *transfer; /* NULL: idle */
	const struct stk_connection_user *user;
	struct stk_dialer *dialer; /* until it is open; with TLS, as long as it lives */
	struct stk_text key;
	int fd; /* -1: not open yet */
	bool tls;
	bool used; /* has served a request: its server may have closed it meanwhile */
	bool writes;
	bool strict;     /* TLS: its library has been told that an end needs a close_notify */
	int low;         /* bytes that must be there before it counts as readable */
	int64_t idle_ns; /* since when */
};

/* A connection that leads there for t: an idle one, unless fresh, or one that is then opened. From within this call or later t hears that it is connected, or
 * that this has failed. False: out of memory. */
bool stk__connection_take(struct stk_transfer *t, const struct stk_route *to, bool fresh, const struct stk_connection_user *user);
/* The transfer has done with its connection. keep: another may use it. */
void stk__connection_leave(struct stk_connection *c, bool keep);

/* As send and recv: the bytes moved, 0 where the server has ended what it sends, STK_WOULD_BLOCK, STK_BROKEN after a reset, or STK_CUT where the connection
 * has ended and the server may have had more to send: in TLS without its close_notify. */
enum { STK_WOULD_BLOCK = -1, STK_BROKEN = -2, STK_CUT = -3 };
ssize_t stk__connection_send(struct stk_connection *c, const void *bytes, size_t n);
ssize_t stk__connection_recv(struct stk_connection *c, void *bytes, size_t n);
/* Whether its transfer hears when it can be written. */
void stk__connection_watch_writes(struct stk_connection *c, bool on);
/* Whether its transfer hears that it can be read. */
void stk__connection_watch_reads(struct stk_connection *c, bool on);
/* It counts as readable from so many bytes on; at its end and on errors at once. */
void stk__connection_await(struct stk_connection *c, int bytes);

/* Whether a request that begins now finds a connection or may open one. Descriptors are counted as they are held: a socket, and two more for the handle of
 * curl's that opens it, which a connection with TLS keeps. The loop's first connection may always be opened. */
bool stk__connections_have_room(struct stk_http_loop *l, int64_t now);

/* For the loop: something has happened on a descriptor; what has waited for its time may go on; all is closed. */
void stk__connection_event(struct stk_http_loop *l, int fd, uint32_t events);
void stk__connection_timers(struct stk_http_loop *l, int64_t now);
/* When that is due; -1: never. */
int64_t stk__connection_due(const struct stk_http_loop *l);
void stk__connections_close(struct stk_http_loop *l);

#endif
