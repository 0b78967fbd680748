/* SPDX-License-Identifier: Apache-2.0
 * Connections. Each one cycles through the states READ a request, WAIT for its latency, and SEND the response. */
#include "s3_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const char *const knob_names[S3_KNOBS] = {"p503", "p500", "p403", "reset", "truncate", "stall", "change", "length", "trickle",
	"silent", "latency_ms", "jitter_ms", "page", "many", "deaf", "reverse", "untagged", "seed"};

enum state { READ, WAIT, SEND, HUNG };
enum { DROP_NS = 20000000, DROP_SIZE = 64 };

struct connection {
	struct connection *next;
	int fd;
	enum state state;
	char in[16384];
	size_t in_size;
	struct s3_text head;  /* status line, header lines, and bodies that are not objects */
	uint8_t *body;        /* a copy of the requested part of the object */
	size_t body_size, at; /* body_size: number of bytes to send of `body`; at: number of bytes sent of `head` and `body` together */
	int64_t due_ns;       /* time at which the state WAIT ends, including the pause before the next drop of a slow body */
	bool close, reset, hang, drops;
};

struct s3_server {
	pthread_mutex_t lock; /* protects the store, the settings and the counts */
	struct s3_store store;
	double knobs[S3_KNOBS];
	struct s3_counts counts;
	struct s3_keys keys;
	char *strings[4];
	char posted[4096]; /* body of the last request that had a body */
	uint64_t under_way;
	int listener, epoll, port, stop[2];
	struct connection *connections;
	pthread_t thread;
};

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
	x += 0x9E3779B97F4A7C15u;
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
	return x ^ (x >> 31);
}

/* Returns a random number from 0 to 1 for the object's current request, which does not depend on requests for other objects. what: a number for each
 * purpose, so that one request can have several draws. */
static double draw(const struct s3_server *s, const struct s3_object *o, int what)
{
	uint64_t h = (uint64_t)s->knobs[S3_SEED] + (uint64_t)what * 1000003;
	for (const char *p = o->path; *p; p++)
		h = mix(h ^ (uint8_t)*p);
	return (double)(mix(h ^ o->asked) >> 11) / 9007199254740992.0;
}

/* ---- responses ---- */

static void answer(struct connection *c, const char *status, const char *more, const char *type, const char *body)
{
	s3_text_add(&c->head, "HTTP/1.1 %s\r\nServer: test\r\n%sContent-Type: %s\r\nContent-Length: %zu\r\n\r\n%s", status, more, type,
		strlen(body), body);
}

static void answer_error(struct connection *c, const char *status, const char *more, const char *code, const char *message)
{
	char xml[1024];
	snprintf(xml, sizeof xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>%s</Message></Error>", code,
		message);
	answer(c, status, more, "application/xml", xml);
}

static void read_object(const struct s3_object *o, size_t first, uint8_t *out, size_t n)
{
	if (o->data) {
		memcpy(out, o->data + first, n);
		return;
	}
	int fd = open(o->file, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? pread(fd, out, n, (off_t)first) : -1;
	if (got != (ssize_t)n)
		memset(out, 0, n);
	if (fd >= 0)
		close(fd);
}

/* Parses "bytes=a-b" and "bytes=a-" to the positions of the first and last byte, at most the object's end. Returns false if the range begins after the end. */
static bool parse_range(const char *text, size_t size, size_t *first, size_t *last)
{
	unsigned long long a = 0, b = size ? size - 1 : 0;
	int n = sscanf(text, "bytes=%llu-%llu", &a, &b);
	*first = a;
	*last = n == 2 && b < size ? b : size - 1;
	return n >= 1 && a < size;
}

static void plant(struct s3_server *s, struct connection *c, struct s3_object *o)
{
	double p = draw(s, o, 1);
	int fault = 0;
	while (fault < S3_FAULTS && (p -= s->knobs[fault]) >= 0)
		fault++;
	s->counts.faults += fault < S3_FAULTS;
	const bool half = fault >= S3_RESET && fault <= S3_CHANGE;
	c->body_size = half ? c->body_size / 2 : c->body_size;
	c->close = fault == S3_TRUNCATE || fault == S3_CHANGE || fault == S3_LENGTH;
	c->reset = fault == S3_RESET;
	c->hang = fault == S3_STALL || fault == S3_SILENT;
	c->drops = fault == S3_TRICKLE;
	o->version += fault == S3_CHANGE;
	o->size -= fault == S3_CHANGE && s->knobs[S3_UNTAGGED] == 2;
	if (fault > S3_P403 && fault != S3_LENGTH && fault != S3_SILENT)
		return;
	if (fault == S3_LENGTH) { /* makes the header announce a longer body: inserts a 9 before the first digit of Content-Length */
		const size_t n = c->head.n;
		s3_text_add(&c->head, "\n"); /* makes room for one more character */
		char *length = strstr(c->head.s, "Content-Length: ") + 16;
		memmove(length + 1, length, n - (size_t)(length - c->head.s));
		*length = '9';
		return;
	}
	c->head.n = 0;
	c->body_size = 0;
	if (fault == S3_P503)
		answer_error(c, "503 Slow Down", "", "SlowDown", "Please reduce your request rate.");
	else if (fault == S3_P500)
		answer_error(c, "500 Internal Server Error", "", "InternalError", "We encountered an internal error. Please try again.");
	else if (fault == S3_P403)
		answer_error(c, "403 Forbidden", "", "AccessDenied", "Access Denied");
}

static void answer_object(struct s3_server *s, struct connection *c, struct s3_object *o, const char *headers, bool with_body)
{
	char range[128], etag[64], bare[32], match[128];
	size_t first = 0, last = o->size ? o->size - 1 : 0;
	bool part = s3_header(headers, "range", range, sizeof range);
	o->asked++;
	s3_etag(o, bare);
	snprintf(etag, sizeof etag, "\"%s\"", bare);
	if (s3_header(headers, "if-match", match, sizeof match) && strcmp(match, etag) != 0) {
		answer_error(c, "412 Precondition Failed", "", "PreconditionFailed",
			"At least one of the pre-conditions you specified did not hold");
		return;
	}
	if (part && !parse_range(range, o->size, &first, &last)) {
		char more[64];
		snprintf(more, sizeof more, "Content-Range: bytes */%zu\r\n", o->size);
		answer_error(c, "416 Range Not Satisfiable", more, "InvalidRange", "The requested range is not satisfiable");
		return;
	}
	size_t n = o->size ? last - first + 1 : 0;
	s3_text_add(&c->head, "HTTP/1.1 %s\r\nServer: test\r\nContent-Length: %zu\r\n", part ? "206 Partial Content" : "200 OK", n);
	if (s->knobs[S3_UNTAGGED] == 0)
		s3_text_add(&c->head, "ETag: %s\r\n", etag);
	else if (s->knobs[S3_UNTAGGED] == 1)
		s3_text_add(&c->head, "Last-Modified: Sun, 06 Nov 1994 08:%02u:37 GMT\r\n", o->version % 60);
	if (part)
		s3_text_add(&c->head, "Content-Range: bytes %zu-%zu/%zu\r\n", first, last, o->size);
	s3_text_add(&c->head, "\r\n");
	c->body_size = with_body ? n : 0;
	c->body = malloc(n + 1);
	read_object(o, first, c->body, c->body_size);
	c->due_ns = now_ns() + (int64_t)((s->knobs[S3_LATENCY_MS] + s->knobs[S3_JITTER_MS] * draw(s, o, 2)) * 1e6);
	if (with_body)
		plant(s, c, o);
}

/* ---- requests ---- */

static bool refuse(struct s3_server *s, struct connection *c, const char *method, const char *path, const char *query, const char *headers,
	const char *body)
{
	const char *code = s->keys.id ? s3_check_signature(&s->keys, method, path, query, headers, body) : NULL;
	char more[256];
	time_t now = time(NULL);
	struct tm tm;
	if (!code)
		return false;
	s->counts.refused++;
	size_t n = strftime(more, sizeof more, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", gmtime_r(&now, &tm));
	if (s->keys.region)
		snprintf(more + n, sizeof more - n, "x-amz-bucket-region: %s\r\n", s->keys.region);
	answer_error(c, strcmp(code, "AuthorizationHeaderMalformed") == 0 ? "400 Bad Request" : "403 Forbidden", more, code,
		"The request was refused");
	return true;
}

static bool set_knobs(struct s3_server *s, const char *settings)
{
	double knobs[S3_KNOBS] = {[S3_PAGE] = 1000, [S3_MANY] = 1e9};
	for (const char *p = settings; *p;) {
		size_t n = strcspn(p, "="), k = 0;
		while (k < S3_KNOBS && (strlen(knob_names[k]) != n || strncmp(knob_names[k], p, n) != 0))
			k++;
		if (k == S3_KNOBS || !p[n])
			return false;
		knobs[k] = atof(p + n + 1);
		p += strcspn(p, "&");
		p += *p == '&';
	}
	memcpy(s->knobs, knobs, sizeof knobs);
	return true;
}

static void answer_counts(struct s3_server *s, struct connection *c)
{
	char json[512];
	snprintf(json, sizeof json,
		"{\"requests\": %llu, \"faults\": %llu, \"refused\": %llu, \"connections\": %llu, \"most_under_way\": %llu}",
		(unsigned long long)s->counts.requests, (unsigned long long)s->counts.faults, (unsigned long long)s->counts.refused,
		(unsigned long long)s->counts.connections, (unsigned long long)s->counts.most_under_way);
	answer(c, "200 OK", "", "application/json", json);
}

/* Handles the paths that control the server: /_set?..., /_counts, /_to/PATH (a redirect). Returns false for other paths. */
static bool answer_own(struct s3_server *s, struct connection *c, const char *path, const char *query)
{
	char more[4096];
	if (strcmp(path, "/_set") == 0) {
		answer(c, set_knobs(s, query) ? "200 OK" : "400 Bad Request", "", "text/plain", "");
	} else if (strcmp(path, "/_counts") == 0) {
		answer_counts(s, c);
	} else if (strncmp(path, "/_to/", 5) == 0) {
		snprintf(more, sizeof more, "Location: %.3000s\r\n", path + 4);
		answer(c, "302 Found", more, "text/plain", "elsewhere");
	} else {
		return false;
	}
	return true;
}

/* Acts as the portal of single sign-on, which gives keys to clients that send the current token. Returns whether it has refused the request. */
static bool refuse_portal(struct s3_server *s, struct connection *c, const char *name, const char *headers)
{
	const struct s3_object *token = s3_store_find(&s->store, "portal/token");
	char shown[128];
	s3_header(headers, "x-amz-sso_bearer_token", shown, sizeof shown);
	if (strncmp(name, "portal/federation/", 18) != 0 || !token ||
		(strlen(shown) == token->size && memcmp(shown, token->data, token->size) == 0))
		return false;
	answer(c, "401 Unauthorized", "", "application/json", "{\"message\": \"Session token not found or invalid\"}");
	return true;
}

/* Acts as the metadata service of an EC2 instance, version 2 (IMDSv2), for names under latest/: a PUT returns a token, and other requests must send that
 * token. Returns whether it refused the request. */
static bool refuse_metadata(struct s3_server *s, struct connection *c, const char *method, const char *name, const char *headers)
{
	const struct s3_object *token = s3_store_find(&s->store, "latest/api/token");
	char shown[128];
	bool asks = strcmp(name, "latest/api/token") == 0;
	s3_header(headers, "x-aws-ec2-metadata-token", shown, sizeof shown);
	if (strncmp(name, "latest/", 7) != 0 || !token ||
		(asks ? strcmp(method, "PUT") == 0 : strlen(shown) == token->size && memcmp(shown, token->data, token->size) == 0))
		return false;
	answer(c, "401 Unauthorized", "", "text/plain", "");
	return true;
}

static void answer_request(
	struct s3_server *s, struct connection *c, const char *method, char *path, const char *query, const char *headers, const char *body)
{
	char name[8192], bucket[256];
	s3_decode(name, path + 1, strlen(path) - 1, false);
	snprintf(bucket, sizeof bucket, "%.*s", (int)strcspn(name, "/"), name);
	const char *key = name[strlen(bucket)] ? name + strlen(bucket) + 1 : "";
	struct s3_object *o = *key ? s3_store_find(&s->store, name) : NULL;
	if (answer_own(s, c, path, query) || refuse(s, c, method, path, query, headers, body) || refuse_portal(s, c, name, headers) ||
		refuse_metadata(s, c, method, name, headers))
		return;
	if (s->under_way > s->knobs[S3_MANY]) {
		s->counts.faults++;
		answer_error(c, "503 Slow Down", "", "SlowDown", "Please reduce your request rate.");
	} else if (!s3_store_has_bucket(&s->store, bucket)) {
		answer_error(c, "404 Not Found", "", "NoSuchBucket", "The specified bucket does not exist");
	} else if (!*key) {
		struct s3_text xml = {0};
		s3_store_list(&s->store, bucket, query, s->knobs, &xml);
		answer(c, "200 OK", "", "application/xml", xml.s);
		c->due_ns = now_ns() + (int64_t)(s->knobs[S3_LATENCY_MS] * 1e6);
		free(xml.s);
	} else if (!o) {
		answer_error(c, "404 Not Found", "", "NoSuchKey", "The specified key does not exist.");
	} else {
		answer_object(s, c, o, headers, strcmp(method, "HEAD") != 0);
	}
}

static void drop(struct s3_server *s, struct connection *c)
{
	struct connection **at = &s->connections;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (c->reset) {
		struct linger now = {1, 0};
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	}
	if (c->state != READ) {
		pthread_mutex_lock(&s->lock);
		s->under_way--;
		pthread_mutex_unlock(&s->lock);
	}
	/* A child between fork and exec may still hold a copy of the descriptor, so close may not remove it from the set. */
	epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	close(c->fd);
	free(c->head.s);
	free(c->body);
	free(c);
}

static void watch(struct s3_server *s, struct connection *c, uint32_t events)
{
	struct epoll_event e = {.events = events | EPOLLRDHUP, .data.ptr = c};
	epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &e);
}

/* Handles a complete request. Returns false if it is malformed. */
static bool take_request(struct s3_server *s, struct connection *c, char *end, size_t length)
{
	char method[16], target[12000], body[4096];
	snprintf(body, sizeof body, "%.*s", (int)length, end + 4);
	*end = 0;
	if (sscanf(c->in, "%15s %11999s HTTP/1.1", method, target) != 2)
		return false;
	char *headers = strstr(c->in, "\r\n"), *query = strchr(target, '?');
	if (query)
		*query++ = 0;
	c->head.n = c->at = c->body_size = 0;
	c->due_ns = 0;
	c->close = c->reset = c->hang = c->drops = false;
	free(c->body);
	c->body = NULL;
	pthread_mutex_lock(&s->lock);
	s->counts.requests++;
	s->under_way++;
	if (s->under_way > s->counts.most_under_way)
		s->counts.most_under_way = s->under_way;
	answer_request(s, c, method, target, query ? query : "", headers ? headers + 2 : "", body);
	if (length)
		snprintf(s->posted, sizeof s->posted, "%s", body);
	pthread_mutex_unlock(&s->lock);
	c->state = WAIT;
	size_t used = (size_t)(end - c->in) + 4 + length;
	memmove(c->in, c->in + used, c->in_size - used);
	c->in_size -= used;
	return true;
}

/* Ends a response that was sent completely. Returns whether it closed the connection. */
static bool response_ended(struct s3_server *s, struct connection *c)
{
	if (c->close || c->reset) {
		drop(s, c);
		return true;
	}
	if (c->hang) {
		c->state = HUNG;
		watch(s, c, 0);
		return false;
	}
	pthread_mutex_lock(&s->lock);
	s->under_way--;
	pthread_mutex_unlock(&s->lock);
	c->state = READ;
	watch(s, c, EPOLLIN);
	return false;
}

static void send_some(struct s3_server *s, struct connection *c)
{
	c->state = SEND;
	while (c->at < c->head.n + c->body_size) {
		bool head = c->at < c->head.n;
		const void *from = head ? (const void *)(c->head.s + c->at) : c->body + (c->at - c->head.n);
		size_t n = head ? c->head.n - c->at : c->head.n + c->body_size - c->at;
		n = c->drops && !head && n > DROP_SIZE ? DROP_SIZE : n;
		ssize_t sent = send(c->fd, from, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EAGAIN) {
			watch(s, c, EPOLLOUT);
			return;
		}
		if (sent < 0) {
			drop(s, c);
			return;
		}
		c->at += (size_t)sent;
		if (c->drops && !head) {
			c->due_ns = now_ns() + DROP_NS;
			c->state = WAIT;
			watch(s, c, 0);
			return;
		}
	}
	response_ended(s, c);
}

static void receive(struct s3_server *s, struct connection *c)
{
	ssize_t n = recv(c->fd, c->in + c->in_size, sizeof c->in - 1 - c->in_size, MSG_DONTWAIT);
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			drop(s, c);
		return;
	}
	c->in_size += (size_t)n;
	c->in[c->in_size] = 0;
	char *end = strstr(c->in, "\r\n\r\n"), text[32] = "";
	if (!end)
		return;
	s3_header(strstr(c->in, "\r\n") + 2, "content-length", text, sizeof text);
	size_t length = strtoul(text, NULL, 10);
	if (length > sizeof s->posted - 1) {
		drop(s, c);
		return;
	}
	if (c->in_size < (size_t)(end - c->in) + 4 + length)
		return;
	if (!take_request(s, c, end, length)) {
		drop(s, c);
		return;
	}
	watch(s, c, 0);
	if (c->due_ns <= now_ns())
		send_some(s, c);
}

static void accept_all(struct s3_server *s)
{
	for (int fd; (fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
		struct connection *c = calloc(1, sizeof *c);
		int one = 1;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		c->fd = fd;
		c->next = s->connections;
		s->connections = c;
		struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
		epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e);
		pthread_mutex_lock(&s->lock);
		s->counts.connections++;
		pthread_mutex_unlock(&s->lock);
	}
}

/* Starts the responses that are due. Returns the time in ms until the next one is due. */
static int serve_due(struct s3_server *s)
{
	int64_t now = now_ns(), next_ns = INT64_MAX;
	for (struct connection *c = s->connections, *next; c; c = next) {
		next = c->next;
		if (c->state != WAIT)
			continue;
		if (c->due_ns <= now)
			send_some(s, c);
		else if (c->due_ns < next_ns)
			next_ns = c->due_ns;
	}
	return next_ns == INT64_MAX ? 1000 : (int)((next_ns - now) / 1000000) + 1;
}

static void *run(void *arg)
{
	struct s3_server *s = arg;
	struct epoll_event events[1]; /* one at a time: handling an event may close a connection that another event refers to */
	for (int wait = 1000;;) {
		int n = epoll_wait(s->epoll, events, 1, wait);
		if (n > 0 && events[0].data.ptr == s->stop)
			return NULL;
		struct connection *c = n > 0 ? events[0].data.ptr : NULL;
		if (n > 0 && !c)
			accept_all(s);
		else if (c && c->state == READ)
			receive(s, c);
		else if (c && events[0].events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP))
			drop(s, c);
		else if (c && c->state == SEND)
			send_some(s, c);
		wait = serve_due(s);
	}
}

/* ---- start and stop ---- */

static bool open_port(struct s3_server *s, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof a;
	int one = 1;
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(s->listener, (struct sockaddr *)&a, sizeof a) || listen(s->listener, 1024) ||
		getsockname(s->listener, (struct sockaddr *)&a, &size))
		return false;
	s->port = ntohs(a.sin_port);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL}, end = {.events = EPOLLIN, .data.ptr = s->stop};
	return !pipe2(s->stop, O_CLOEXEC) && !epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &e) &&
	       !epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->stop[0], &end);
}

struct s3_server *s3_server_start(const char *root, int port, const char *key, const char *secret, const char *token, const char *region)
{
	struct s3_server *s = calloc(1, sizeof *s);
	const char *given[4] = {key, secret, token, region};
	pthread_mutex_init(&s->lock, NULL);
	for (int i = 0; i < 4; i++)
		s->strings[i] = given[i] && *given[i] ? strdup(given[i]) : NULL;
	s->keys = (struct s3_keys){s->strings[0], s->strings[1], s->strings[2], s->strings[3]};
	set_knobs(s, "");
	if (root)
		s3_store_load(&s->store, root);
	if (!open_port(s, port) || pthread_create(&s->thread, NULL, run, s))
		return NULL;
	return s;
}

void s3_server_stop(struct s3_server *s)
{
	if (write(s->stop[1], "", 1) == 1)
		pthread_join(s->thread, NULL);
	while (s->connections)
		drop(s, s->connections);
	close(s->listener);
	close(s->epoll);
	close(s->stop[0]);
	close(s->stop[1]);
	s3_store_free(&s->store);
	for (int i = 0; i < 4; i++)
		free(s->strings[i]);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int s3_server_port(const struct s3_server *s)
{
	return s->port;
}

void s3_server_put(struct s3_server *s, const char *path, const void *data, size_t size)
{
	pthread_mutex_lock(&s->lock);
	s3_store_put(&s->store, path, NULL, data, size);
	pthread_mutex_unlock(&s->lock);
}

void s3_server_posted(struct s3_server *s, char *out, size_t capacity)
{
	pthread_mutex_lock(&s->lock);
	snprintf(out, capacity, "%s", s->posted);
	pthread_mutex_unlock(&s->lock);
}

bool s3_server_set(struct s3_server *s, const char *settings)
{
	pthread_mutex_lock(&s->lock);
	bool ok = set_knobs(s, settings);
	pthread_mutex_unlock(&s->lock);
	return ok;
}

struct s3_counts s3_server_counts(struct s3_server *s)
{
	pthread_mutex_lock(&s->lock);
	struct s3_counts counts = s->counts;
	pthread_mutex_unlock(&s->lock);
	return counts;
}
