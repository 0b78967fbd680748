/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_connection.h"

#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* LOOK_UPS: maximum number of a loop's connections whose names curl resolves at the same time, because each look-up takes a thread and up to four
 * descriptors; later connections find the address in a cache. KEPT_DIALERS: maximum number of unused dialers; each has two descriptors. FEW: a loop opens
 * this many connections even if the process has nearly no descriptor left. OF_SOCKET: number of descriptors of a connection's socket. */
enum { LOOK_UPS = 4, KEPT_DIALERS = 64, FEW = 2, OF_SOCKET = 1 };

#define STARVED_NS INT64_C(50000000)         /* time for which no connection is opened after no descriptor was free for one */
#define LONGEST_IDLE_NS INT64_C(60000000000) /* idle connections are closed after this time, since NATs and proxies may have dropped them */

/* ---- lists ---- */

static void link_in(struct stk_connection **list, struct stk_connection *c)
{
	c->previous = NULL;
	c->next = *list;
	if (c->next)
		c->next->previous = c;
	*list = c;
}

static void unlink_from(struct stk_connection **list, struct stk_connection *c)
{
	*(c->previous ? &c->previous->next : list) = c->next;
	if (c->next)
		c->next->previous = c->previous;
	c->next = c->previous = NULL;
}

/* ---- descriptors ---- */

/* Makes c the connection that receives the events of a descriptor. Returns false if memory is short. */
static bool own_fd(struct stk_http_loop *l, int fd, struct stk_connection *c)
{
	if (fd >= l->fd_count) {
		int count = fd + 64 + fd / 2;
		struct stk_connection **grown = stk__realloc(l->by_fd, (size_t)count * sizeof(*grown));
		if (!grown)
			return false;
		memset(grown + l->fd_count, 0, (size_t)(count - l->fd_count) * sizeof(*grown));
		l->by_fd = grown;
		l->fd_count = count;
	}
	l->by_fd[fd] = c;
	return true;
}

static bool watch(struct stk_http_loop *l, int fd, uint32_t events, struct stk_connection *c)
{
	struct epoll_event e = {.events = events, .data.fd = fd};
	if (!own_fd(l, fd, c))
		return false;
	return !epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) || (errno == EEXIST && !epoll_ctl(l->epoll, EPOLL_CTL_MOD, fd, &e));
}

static void unwatch(struct stk_http_loop *l, int fd)
{
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, NULL);
	if (fd < l->fd_count)
		l->by_fd[fd] = NULL;
}

/* ---- opening ---- */

/* Called by curl while it opens a connection: begins to watch the socket for the given events, or stops watching it. */
static int on_socket(CURL *easy, curl_socket_t fd, int events, void *user, void *known)
{
	struct stk_dialer *d = user;
	struct stk_connection *c = d->connection;
	(void)easy, (void)known;
	if (!c || (c->fd >= 0 && c->fd == fd))
		return 0;
	if (d->looks_up && events != CURL_POLL_REMOVE)
		stk__curl_close_on_exec(&c->loop->source->curl, fd);
	if (events == CURL_POLL_REMOVE) {
		unwatch(c->loop, fd);
		return 0;
	}
	return watch(c->loop, fd, (events & CURL_POLL_IN ? EPOLLIN : 0u) | (events & CURL_POLL_OUT ? EPOLLOUT : 0u), c) ? 0 : -1;
}

static int on_timer(CURLM *multi, long ms, void *user)
{
	struct stk_dialer *d = user;
	(void)multi;
	d->timer_ns = ms < 0 ? -1 : stk__clock_ns() + ms * 1000000;
	return 0;
}

/* Records that no thread of curl resolves the dialer's name any more. */
static void end_lookup(struct stk_dialer *d)
{
	d->loop->looking_up -= d->looks_up;
	d->looks_up = false;
}

/* Opens a socket for curl. Fails if its descriptor is one of the last numbers, which are for the rest of the process (share_descriptors in http.c), unless
 * the loop has at most FEW connections. Updates the number of the loop's descriptors. */
static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct stk_dialer *d = user;
	struct stk_http_loop *l = d->loop;
	end_lookup(d);
	curl_socket_t fd = stk__curl_open_socket(NULL, purpose, address);
	const int open_errno = errno;
	if (fd >= l->source->last_fd && l->connections > FEW) {
		close(fd);
		fd = CURL_SOCKET_BAD;
		d->starved = true;
		return fd;
	}
	d->starved |= fd < 0 && (open_errno == EMFILE || open_errno == ENFILE);
	l->fds += fd >= 0;
	return fd;
}

static int close_socket(void *user, curl_socket_t fd)
{
	struct stk_dialer *d = user;
	if (fd == d->owned_socket) {
		d->owned_socket = -1;
		return 0;
	}
	d->loop->fds--;
	return close(fd);
}

static void free_dialer(const struct stk_curl *curl, struct stk_dialer *d)
{
	if (d->curl_handle)
		curl->curl_easy_cleanup(d->curl_handle);
	if (d->multi) {
		curl->curl_multi_cleanup(d->multi);
		d->loop->fds -= STK_CURL_MULTI_FDS;
	}
	stk__free(d);
}

static void drop_dialer(struct stk_http_loop *l)
{
	struct stk_dialer *d = l->dialers;
	l->dialers = d->next;
	l->dialer_count--;
	free_dialer(&l->source->curl, d);
}

static struct stk_dialer *take_dialer(struct stk_http_loop *l)
{
	const struct stk_curl *curl = &l->source->curl;
	struct stk_dialer *d = l->dialers;
	if (d) {
		l->dialers = d->next;
		l->dialer_count--;
		return d;
	}
	d = stk__calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->loop = l;
	d->owned_socket = -1;
	d->curl_handle = curl->curl_easy_init();
	d->multi = stk__curl_multi(curl);
	l->fds += d->multi ? STK_CURL_MULTI_FDS : 0;
	if (!d->curl_handle || !d->multi) {
		free_dialer(curl, d);
		return NULL;
	}
	curl->curl_multi_setopt(d->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl->curl_multi_setopt(d->multi, CURLMOPT_SOCKETDATA, d);
	curl->curl_multi_setopt(d->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl->curl_multi_setopt(d->multi, CURLMOPT_TIMERDATA, d);
	curl->curl_multi_setopt(d->multi, CURLMOPT_MAXCONNECTS, 1L);
	return d;
}

/* Ends the dialer's work on its connection, whose socket curl closes unless take_socket has taken it. Makes the dialer available for another connection, and
 * frees a dialer if more than KEPT_DIALERS are unused then. */
static void close_dialer(struct stk_http_loop *l, struct stk_dialer *d)
{
	l->source->curl.curl_multi_remove_handle(d->multi, d->curl_handle);
	end_lookup(d);
	d->connection = NULL;
	d->next = l->dialers;
	l->dialers = d;
	if (++l->dialer_count > KEPT_DIALERS)
		drop_dialer(l);
}

static bool set_up(struct stk_connection *c, const struct stk_route *to)
{
	const struct stk_http_source *s = c->loop->source;
	const struct stk_curl *curl = &s->curl;
	CURL *e = c->dialer->curl_handle;
	curl->curl_easy_reset(e);
	CURLcode code = curl->curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
	code |= curl->curl_easy_setopt(e, CURLOPT_URL, to->url.s);
	code |= curl->curl_easy_setopt(e, CURLOPT_PROXY, to->proxy);
	code |= to->tls ? stk__curl_trust(curl, e, to->trusted, &c->loop->certificates) : CURLE_OK;
	code |= curl->curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	code |= curl->curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	code |= curl->curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, c->dialer);
	code |= curl->curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
	code |= curl->curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, c->dialer);
	code |= curl->curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	code |= curl->curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->dialer->reason);
	code |= curl->curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)s->settings.connect_ms);
	code |= curl->curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	code |= curl->curl_easy_setopt(e, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
	code |= curl->curl_easy_setopt(
		e, CURLOPT_USERAGENT, "stoker/" STK_VERSION); /* libcurl sends it to a proxy when it asks for a tunnel */
	code |= curl->curl_easy_setopt(e, CURLOPT_SHARE, c->loop->curl_share);
#if LIBCURL_VERSION_NUM >= 0x075500
	curl->curl_easy_setopt(
		e, CURLOPT_PROTOCOLS_STR, "http,https"); /* without this option, libcurl has its own list of allowed protocols */
#endif
	c->dialer->reason[0] = 0;
	c->dialer->connection = c;
	return code == CURLE_OK;
}

static void close_connection(struct stk_connection *c)
{
	struct stk_http_loop *l = c->loop;
	if (c->fd >= 0)
		unwatch(l, c->fd);
	if (c->fd >= 0 && !c->tls) {
		close(c->fd);
		l->fds--;
	}
	if (c->dialer)
		close_dialer(l, c->dialer);
	l->connections--;
	stk__text_free(&c->key);
	stk__free(c);
}

/* Gets the socket of a connection that curl has opened, and watches it. The socket of a plain connection is taken from curl: closes the dialer, and curl's call
 * of close_socket, which an older curl makes only when it opens the next connection, then leaves this socket open. A duplicate of the descriptor would work
 * too, but its number would be higher and leave a gap, and other code concludes from the lowest free number how many files are open. */
static CURLcode take_socket(struct stk_connection *c)
{
	struct stk_http_loop *l = c->loop;
	struct stk_dialer *d = c->dialer;
	curl_socket_t fd = -1;
	CURLcode code = l->source->curl.curl_easy_getinfo(d->curl_handle, CURLINFO_ACTIVESOCKET, &fd);
	if (code || fd < 0)
		return CURLE_COULDNT_CONNECT;
	if (!c->tls) {
		d->owned_socket = fd;
		close_dialer(l, d);
		c->dialer = NULL;
	}
	c->fd = fd;
	return watch(l, fd, EPOLLIN, c) ? CURLE_OK : CURLE_OUT_OF_MEMORY;
}

static void opened(struct stk_connection *c, CURLcode code)
{
	struct stk_transfer *t = c->transfer;
	struct stk_http_loop *l = c->loop;
	unlink_from(&l->opening, c);
	if (!code)
		code = take_socket(c);
	if (!code) {
		l->most_fds += l->most_fds < l->source->most_fds;
		c->user->connected(t);
		return;
	}
	t->starved = c->dialer && c->dialer->starved;
	if (t->starved) {
		l->most_fds = l->fds - OF_SOCKET;
		l->starved_until_ns = stk__clock_ns() + STARVED_NS;
	}
	const char *why = c->dialer && c->dialer->reason[0] ? c->dialer->reason : c->loop->source->curl.curl_easy_strerror(code);
	t->connection = NULL;
	c->user->failed(t, code, why);
	close_connection(c);
}

/* Calls curl to continue opening the connection. fd, events: the socket and its events for curl_multi_socket_action. */
static void continue_opening(struct stk_connection *c, int fd, int events)
{
	const struct stk_curl *curl = &c->loop->source->curl;
	struct stk_dialer *d = c->dialer;
	int running, left;
	curl->curl_multi_socket_action(d->multi, fd, events, &running);
	const CURLMsg *m = curl->curl_multi_info_read(d->multi, &left);
	if (m && m->msg == CURLMSG_DONE)
		opened(c, m->data.result);
}

static bool open_connection(struct stk_transfer *t, const struct stk_route *to, const struct stk_connection_user *user)
{
	struct stk_http_loop *l = t->loop;
	struct stk_connection *c = stk__calloc(1, sizeof *c);
	if (!c)
		return false;
	*c = (struct stk_connection){.loop = l, .transfer = t, .user = user, .fd = -1, .tls = to->tls, .low = 1};
	l->connections++;
	stk__text_add(&c->key, "%s", to->key.s);
	c->dialer = take_dialer(l);
	if (c->dialer) {
		c->dialer->timer_ns = -1;
		c->dialer->starved = false;
		c->dialer->looks_up = true;
		l->looking_up++;
	}
	if (c->key.failed || !c->dialer || !set_up(c, to) ||
		l->source->curl.curl_multi_add_handle(c->dialer->multi, c->dialer->curl_handle)) {
		close_connection(c);
		return false;
	}
	t->connection = c;
	link_in(&l->opening, c);
	continue_opening(c, CURL_SOCKET_TIMEOUT, 0);
	return true;
}

/* ---- idle connections ---- */

static void close_idle(struct stk_connection *c)
{
	unlink_from(&c->loop->idle_connections, c);
	close_connection(c);
}

/* Returns whether the server has neither closed the connection nor sent bytes after the last answer. Such bytes would be read as the next answer. */
static bool is_silent(struct stk_connection *c)
{
	char byte;
	if (c->tls)
		return stk__connection_recv(c, &byte, 1) == STK_WOULD_BLOCK;
	return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static struct stk_connection *find_idle(struct stk_http_loop *l, const struct stk_text *key, int64_t now)
{
	for (struct stk_connection *c = l->idle_connections, *next; c; c = next) {
		next = c->next;
		const bool same_key = c->key.length == key->length && memcmp(c->key.s, key->s, key->length) == 0;
		if (now - c->idle_ns > LONGEST_IDLE_NS || (same_key && !is_silent(c)))
			close_idle(c);
		else if (same_key)
			return c;
	}
	return NULL;
}

static bool has_descriptors(struct stk_http_loop *l)
{
	while (l->fds + OF_SOCKET > l->most_fds && l->dialer_count > 1)
		drop_dialer(l);
	return l->fds + OF_SOCKET + (l->dialers ? 0 : STK_CURL_MULTI_FDS) <= l->most_fds;
}

/* Closes the connections that have been idle the longest until one more may be opened, or none is idle. */
static void close_surplus(struct stk_http_loop *l)
{
	while (l->idle_connections && (l->connections >= l->source->settings.requests || !has_descriptors(l))) {
		struct stk_connection *last = l->idle_connections;
		while (last->next)
			last = last->next;
		close_idle(last);
	}
}

bool stk__connections_have_room(struct stk_http_loop *l, int64_t now)
{
	if (l->idle_connections)
		return true;
	if (l->looking_up >= LOOK_UPS || now < l->starved_until_ns)
		return false;
	if (l->connections <= FEW)
		return !l->connections || has_descriptors(l);
	const int next = stk__lowest_free_fd();
	return has_descriptors(l) && next >= 0 && next < l->source->last_fd;
}

bool stk__connection_take(struct stk_transfer *t, const struct stk_route *to, bool fresh, const struct stk_connection_user *user)
{
	struct stk_http_loop *l = t->loop;
	struct stk_connection *c = fresh ? NULL : find_idle(l, &to->key, stk__clock_ns());
	if (!c) {
		close_surplus(l);
		return open_connection(t, to, user);
	}
	unlink_from(&l->idle_connections, c);
	c->transfer = t;
	c->user = user;
	t->connection = c;
	stk__connection_await(c, 1);
	user->connected(t);
	return true;
}

void stk__connection_leave(struct stk_connection *c, bool keep)
{
	const bool opening = c->fd < 0;
	c->transfer->connection = NULL;
	c->transfer = NULL;
	c->used = true;
	if (opening)
		unlink_from(&c->loop->opening, c);
	if (opening || !keep || c->writes) {
		close_connection(c);
		return;
	}
	c->idle_ns = stk__clock_ns();
	link_in(&c->loop->idle_connections, c);
}

void stk__connections_close(struct stk_http_loop *l)
{
	while (l->idle_connections)
		close_idle(l->idle_connections);
	while (l->dialers)
		drop_dialer(l);
	stk__free(l->by_fd);
	l->by_fd = NULL;
	l->fd_count = 0;
}

/* ---- use by a transfer ---- */

static ssize_t bytes_or_failure(CURLcode code, size_t n)
{
	return code == CURLE_OK ? (ssize_t)n : code == CURLE_AGAIN ? STK_WOULD_BLOCK : STK_BROKEN;
}

ssize_t stk__connection_send(struct stk_connection *c, const void *bytes, size_t n)
{
	size_t sent = 0;
	if (c->tls) {
		CURLcode code = c->loop->source->curl.curl_easy_send(c->dialer->curl_handle, bytes, n, &sent);
		return bytes_or_failure(code, sent);
	}
	ssize_t done = send(c->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	return done >= 0 ? done : errno == EAGAIN || errno == EINTR ? STK_WOULD_BLOCK : STK_BROKEN;
}

ssize_t stk__connection_recv(struct stk_connection *c, void *bytes, size_t n)
{
	size_t received = 0;
	if (c->tls) {
		const struct stk_curl *curl = &c->loop->source->curl;
		if (!c->strict)
			/* called only now, because libcurl does not know the connection before the first bytes were sent */
			stk__curl_expect_close(curl, c->dialer->curl_handle);
		c->strict = true;
		CURLcode code = curl->curl_easy_recv(c->dialer->curl_handle, bytes, n, &received);
		return code == CURLE_OK && !received && n && !stk__curl_tls_ended(curl, c->dialer->curl_handle)
			       ? STK_CUT
			       : bytes_or_failure(code, received);
	}
	ssize_t done = recv(c->fd, bytes, n, MSG_DONTWAIT);
	return done >= 0 ? done : errno == EAGAIN || errno == EINTR ? STK_WOULD_BLOCK : STK_BROKEN;
}

void stk__connection_watch_writes(struct stk_connection *c, bool on)
{
	struct epoll_event e = {.events = EPOLLIN | (on ? EPOLLOUT : 0u), .data.fd = c->fd};
	if (on != c->writes)
		epoll_ctl(c->loop->epoll, EPOLL_CTL_MOD, c->fd, &e);
	c->writes = on;
}

void stk__connection_watch_reads(struct stk_connection *c, bool on)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = c->fd};
	epoll_ctl(c->loop->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, c->fd, &e);
}

void stk__connection_await(struct stk_connection *c, int bytes)
{
	if (bytes != c->low && !setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes))
		c->low = bytes;
}

/* ---- for the loop ---- */

void stk__connection_event(struct stk_http_loop *l, int fd, uint32_t events)
{
	struct stk_connection *c = fd < l->fd_count ? l->by_fd[fd] : NULL;
	if (!c)
		return;
	if (c->fd < 0)
		continue_opening(c, fd,
			(events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) | (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
				(events & EPOLLERR ? CURL_CSELECT_ERR : 0));
	else if (c->transfer)
		c->user->ready(c->transfer, events & EPOLLOUT);
	else
		close_idle(c); /* the server has closed the connection, or has sent unexpected bytes */
}

void stk__connection_timers(struct stk_http_loop *l, int64_t now)
{
	for (struct stk_connection *c = l->opening, *next; c; c = next) {
		next = c->next;
		if (c->dialer->timer_ns < 0 || now < c->dialer->timer_ns)
			continue;
		c->dialer->timer_ns = -1;
		continue_opening(c, CURL_SOCKET_TIMEOUT, 0);
	}
}

int64_t stk__connection_due(const struct stk_http_loop *l)
{
	int64_t next_ns = -1;
	for (const struct stk_connection *c = l->opening; c; c = c->next)
		if (c->dialer->timer_ns >= 0 && (next_ns < 0 || c->dialer->timer_ns < next_ns))
			next_ns = c->dialer->timer_ns;
	return next_ns;
}
