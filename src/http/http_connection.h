/* SPDX-License-Identifier: Apache-2.0
 * Connections to servers, on a loop's thread. libcurl opens connections: it resolves names, connects, builds tunnels through proxies, and checks certificates.
 * After that a plain connection is a socket that libcurl no longer knows, and a connection with TLS is read and written through libcurl.
 *
 *   opening -> busy      a transfer uses the connection
 *   busy    -> idle      its response has ended, and the connection waits for the next request
 *   idle    -> busy      another transfer uses the connection
 *   any     -> closed    the connection is closed and freed */
#ifndef STK_HTTP_CONNECTION_H
#define STK_HTTP_CONNECTION_H

#include "http/http_impl.h"

#include <sys/types.h>

/* A dialer: a curl handle that opens one connection at a time. It has its own multi handle: with a shared one, libcurl would check its idle connections
 * before each new one and close those with data to read. */
struct stk_dialer {
	struct stk_dialer *next;
	CURLM *multi;
	CURL *curl_handle;
	struct stk_connection *connection;
	struct stk_http_loop *loop;
	int64_t timer_ns;             /* time at which curl wants to be called next; -1: never */
	bool looks_up;                /* true while a thread of curl resolves a name */
	int owned_socket;             /* a socket that a connection has taken, and that close_socket must leave open; -1: none */
	bool starved;                 /* true if no descriptor was free for a socket */
	char reason[CURL_ERROR_SIZE]; /* curl's reason why the connection could not be opened; "" if curl gives none */
};

/* Events of a connection that its transfer handles. */
struct stk_connection_user {
	void (*connected)(struct stk_transfer *t);
	void (*ready)(struct stk_transfer *t, bool writable); /* called if bytes can be read, the input has ended, or (`writable`) bytes can
							       * be written */
	void (*failed)(struct stk_transfer *t, CURLcode code,
		const char *why); /* called if the connection could not be opened; the transfer then has none */
};

struct stk_connection {
	struct stk_connection *next, *previous; /* links the list of opening or of idle connections */
	struct stk_http_loop *loop;
	struct stk_transfer *transfer; /* the transfer that uses the connection; NULL: idle */
	const struct stk_connection_user *user;
	struct stk_dialer *dialer; /* opens the connection; NULL once a plain connection is open; a TLS connection always has one */
	struct stk_text key;
	int fd; /* the socket; -1: not open yet */
	bool tls;
	bool used;       /* true if the connection has served a request: the server may have closed it since */
	bool writes;     /* true if the transfer is notified when bytes can be written */
	bool strict;     /* with TLS: true if the TLS library requires a close_notify at the end */
	int low;         /* number of received bytes from which the connection counts as readable */
	int64_t idle_ns; /* time at which the connection became idle, by stk__clock_ns */
};

/* Gives t a connection for the route: an idle one, or a new one if `fresh` is set or no fitting one is idle. Calls user->connected or user->failed, within this
 * call or later. Returns false if memory is short. */
bool stk__connection_take(struct stk_transfer *t, const struct stk_route *to, bool fresh, const struct stk_connection_user *user);
/* Ends the transfer's use of its connection. keep: another transfer may use it, unless it is still being opened or watched for writes; otherwise closes it. */
void stk__connection_leave(struct stk_connection *c, bool keep);

/* Like send and recv. Return the number of bytes, 0 if the server has ended its output, STK_WOULD_BLOCK, STK_BROKEN after a reset, or STK_CUT if the
 * connection ended although the server may have had more to send (TLS without close_notify). */
enum { STK_WOULD_BLOCK = -1, STK_BROKEN = -2, STK_CUT = -3 };
ssize_t stk__connection_send(struct stk_connection *c, const void *bytes, size_t n);
ssize_t stk__connection_recv(struct stk_connection *c, void *bytes, size_t n);
/* Turns on or off whether the connection's transfer is notified when bytes can be written. */
void stk__connection_watch_writes(struct stk_connection *c, bool on);
/* Turns on or off whether the connection's transfer is notified when bytes can be read. */
void stk__connection_watch_reads(struct stk_connection *c, bool on);
/* Sets the number of received bytes from which the connection counts as readable. At the end of the input and on errors it is readable at once. */
void stk__connection_await(struct stk_connection *c, int bytes);

/* Returns whether a request that begins now finds an idle connection or may open a new one. A new one needs a descriptor for its socket and two for its dialer,
 * which a TLS connection keeps; the loop's first connection may be opened even if these are not free. No connection may be opened while several names are
 * being resolved, or for a moment after no descriptor was free. */
bool stk__connections_have_room(struct stk_http_loop *l, int64_t now);

/* For the loop. stk__connection_event handles an event of a descriptor. stk__connection_timers continues to open connections whose timers have run out.
 * stk__connections_close, called after all transfers have ended, closes the idle connections and frees the unused dialers. */
void stk__connection_event(struct stk_http_loop *l, int fd, uint32_t events);
void stk__connection_timers(struct stk_http_loop *l, int64_t now);
/* Returns the time at which stk__connection_timers must be called next; -1: never. */
int64_t stk__connection_due(const struct stk_http_loop *l);
void stk__connections_close(struct stk_http_loop *l);

#endif
