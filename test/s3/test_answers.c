/* SPDX-License-Identifier: Apache-2.0
 * Responses of all kinds of servers, byte for byte from a script: which ones the client understands, which ones it refuses, and which connections it uses
 * again. */
#include "test.h"

#include "base/memory.h"
#include "format/list.h"
#include "http/http.h"
#include "http/response.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLICE = 7 }; /* the server sends each response in pieces of this many bytes, so that the client must join them */

/* A server that answers the n-th request with the n-th text. It closes the connection after a text that contains "close", or HTTP/1.0 without
 * "Keep-Alive". */
struct script {
	int listener, port;
	pthread_t thread;
	const char *answers[4];
	char requests[4][1024];
	int served, connections;
	bool closes; /* closes the connection after each response, whatever the response says */
	bool resets; /* resets the connection instead of closing it */
};

static bool read_head(int fd, char *out, size_t capacity)
{
	size_t n = 0;
	while (n + 1 < capacity && recv(fd, out + n, 1, 0) == 1) {
		out[++n] = 0;
		if (n >= 4 && strcmp(out + n - 4, "\r\n\r\n") == 0)
			return true;
	}
	return false;
}

static void send_answer(const struct script *s, int fd, const char *answer)
{
	char text[4096];
	const char *port = strstr(answer, "PORT");
	if (port) {
		snprintf(text, sizeof text, "%.*s%d%s", (int)(port - answer), answer, s->port, port + 4);
		answer = text;
	}
	for (size_t at = 0, n = strlen(answer); at < n; at += SLICE)
		if (send(fd, answer + at, n - at < SLICE ? n - at : SLICE, MSG_NOSIGNAL) < 0)
			return;
}

static void *serve(void *arg)
{
	struct script *s = arg;
	for (int fd; (fd = accept(s->listener, NULL, NULL)) >= 0; close(fd)) {
		s->connections++;
		const int one = 1;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		while (s->served < 4 && s->answers[s->served] && read_head(fd, s->requests[s->served], sizeof s->requests[0])) {
			const char *answer = s->answers[s->served++];
			send_answer(s, fd, answer);
			if (s->resets) {
				usleep(100000); /* gives the client time to read: a reset discards data that it has not read */
				setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
				break;
			}
			if (s->closes || strstr(answer, "close") || (strstr(answer, "HTTP/1.0") && !strstr(answer, "Keep-Alive")))
				break;
		}
	}
	return NULL;
}

static void start(struct script *s)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	s->listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(s->listener, 8), 0);
	assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &n), 0);
	s->port = ntohs(a.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(struct script *s)
{
	shutdown(s->listener, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->listener);
}

/* ---- requests ---- */

static const struct stk_http_settings once = {.threads = 1, .first_byte_ms = 5000, .stall_ms = 5000, .retries = -1, .no_hedging = true};

static struct stk_io *make_io(void)
{
	struct stk_io *io;
	assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
	assert_int_equal(stk__http_add(io, &once, NULL), STK_OK);
	return io;
}

static void request_ended(struct stk_request *r)
{
	sem_post(r->user);
}

/* Refuses memory a number of times, as a caller does whose other requests hold all memory that it may use. */
struct refusing {
	struct stk_admission admission;
	_Atomic int refusals;
};

static bool refuse_first(struct stk_admission *a, struct stk_request *r, size_t bytes)
{
	struct refusing *f = (struct refusing *)a;
	(void)r;
	(void)bytes;
	return atomic_fetch_sub(&f->refusals, 1) <= 0;
}

static struct stk_request ask_for(struct stk_io *io, struct stk_request r, struct stk_error *err)
{
	sem_t ended;
	sem_init(&ended, 0, 0);
	*err = (struct stk_error){0};
	r.done = request_ended;
	r.user = &ended;
	r.error = err;
	stk__io_submit(io, &r);
	while (sem_wait(&ended))
		;
	sem_destroy(&ended);
	return r;
}

static struct stk_request ask(struct stk_io *io, const char *uri, struct stk_error *err)
{
	return ask_for(io, (struct stk_request){.uri = uri, .length = -1}, err);
}

enum { PATTERNS = 3 };
static const int refusals[PATTERNS] = {0, 1, 3}; /* numbers of times that memory for a body is refused, which changes no result */

#define BODY "0123456789abcdefghijklmnopqrstuvwxyz"

static const struct {
	const char *name, *answer, *next; /* next: the response to the client's second request, or NULL */
	enum stk_status status;
	const char *said; /* the expected body, or a part of the expected error message */
	int connections;
} cases[] = {
	{"a length", "HTTP/1.1 200 OK\r\nContent-Length: 36\r\n\r\n" BODY, NULL, STK_OK, BODY, 1},
	{"names in capitals, blanks around values", "HTTP/1.1 200 OK\r\nCONTENT-LENGTH:\t 36 \t\r\n\r\n" BODY, NULL, STK_OK, BODY, 1},
	{"no reason", "HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabc", NULL, STK_OK, "abc", 1},
	{"nothing", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", NULL, STK_OK, "", 1},
	{"chunks",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n1F;x=y\r\n56789abcdefghijklmnopqrstuvwxyz\r\n0\r\nA: b\r\n\r\n",
		NULL, STK_OK, BODY, 1},
	{"until it closes", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" BODY, NULL, STK_OK, BODY, 1},
	{"an old server", "HTTP/1.0 200 OK\r\n\r\n" BODY, NULL, STK_OK, BODY, 1},
	{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", NULL, STK_OK, "abc", 1},
	{"announced", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", NULL, STK_OK, "abc", 1},
	{"a redirect on the same host", "HTTP/1.1 302 Found\r\nLocation: ../b?c#d\r\nContent-Length: 4\r\n\r\ngone",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", STK_OK, "abc", 1},
	{"a redirect to a URL", "HTTP/1.1 308 Moved\r\nLocation: http://127.0.0.1:PORT/b?c\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", STK_OK, "abc", 2},
	{"a redirect out of HTTP", "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", NULL, STK_INVALID,
		"redirects to something other than an http:// or https:// URL", 1},
	{"a redirect with a password", "HTTP/1.1 302 Found\r\nLocation: http://u:hidden@127.0.0.1:PORT/\r\nContent-Length: 0\r\n\r\n", NULL,
		STK_INVALID, "redirects to something", 1},
	{"a redirect to nowhere", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", NULL, STK_IO, "without a Location that says where", 1},
	{"encoded", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", NULL, STK_IO, "sends it encoded", 1},
	{"an encoding that changes nothing", "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc", NULL, STK_OK,
		"abc", 1},
	{"a carriage return within a line", "HTTP/1.1 200 OK\r\nA: b\rContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", NULL, STK_IO,
		"holds a carriage return", 1},
	{"a length behind a comma", "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc", NULL, STK_IO, "Content-Length is not a number",
		1},
	{"a length with a sign", "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc", NULL, STK_IO, "Content-Length is not a number", 1},
	{"the size of a chunk and more", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3 3\r\nabc\r\n0\r\n\r\n", NULL, STK_IO,
		"size of a chunk is not a number", 1},
	{"the size of a chunk with a sign", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n", NULL, STK_IO,
		"size of a chunk is not a number", 1},
	{"a chunk that contains the line end after it", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabc\r\n0\r\n\r\n", NULL,
		STK_IO, "longer than its size", 1},
	{"a blank before the name of a chunk's extension",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3 ;a=b\r\nabc\r\n0\r\n\r\n", NULL, STK_OK, "abc", 1},
	{"no content", "HTTP/1.1 204 No Content\r\n\r\n", NULL, STK_IO, "the server answers 204", 1},
	{"not modified", "HTTP/1.1 304 Not Modified\r\n\r\n", NULL, STK_IO, "the server answers 304", 1},
	{"a part that was not requested", "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-2/9\r\nContent-Length: 3\r\n\r\nabc",
		NULL, STK_IO, "asked for all of it, the server sends the bytes from 0 to 2 of 9", 1},
	{"a part of unknown place", "HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\n\r\nabc", NULL, STK_IO,
		"the server sends a part without saying which", 1},
	{"no such range, where none was asked for", "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n", NULL, STK_IO,
		"where no range was asked for", 1},
	{"another protocol", "SSH-2.0-OpenSSH_9.2\r\nclose", NULL, STK_IO, "it does not begin like an HTTP/1.1 response", 1},
	{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", NULL, STK_IO, "it has two lengths", 1},
	{"a length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", NULL,
		STK_IO, "both a length and chunks", 1},
	{"a length that is none", "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc", NULL, STK_IO, "Content-Length is not a number", 1},
	{"compressed", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", NULL, STK_IO, "is not chunked", 1},
	{"a folded line", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 3\r\n\r\nabc", NULL, STK_IO, "has no name", 1},
	{"a blank before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc", NULL, STK_IO, "has no name", 1},
	{"a chunk too long", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", NULL, STK_IO,
		"longer than its size", 1},
	{"a body that is cut", "HTTP/1.1 200 OK\r\nContent-Length: 36\r\nConnection: close\r\n\r\n0123",
		"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-35/36\r\nContent-Length: 32\r\n\r\n456789abcdefghijklmnopqrstuvwxyz",
		STK_OK, BODY, 2},
	{"announced by several",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		NULL, STK_OK, "abc", 1},
	{"another protocol is offered", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nX: close\r\n\r\n", NULL, STK_IO,
		"does not answer a request", 1},
	{"chunks of an old server", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", NULL, STK_IO,
		"is not chunked", 1},
	{"a chunk's size that is too large", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8000000000000000\r\nabc", NULL, STK_IO,
		"size of a chunk is not a number", 1},
	{"chunks that are cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nabc", NULL, STK_IO,
		"closed the connection", 1},
	{"chunks without the last", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n", NULL, STK_IO,
		"closed the connection", 1},
	{"a length of more bytes than there are", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabc",
		"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */3\r\nContent-Length: 0\r\n\r\n", STK_IO, "has no more than 3",
		2},
	{"a header that is cut", "HTTP/1.1 200 OK\r\nContent-Length: 36\r\nX: close", NULL, STK_IO, "closed the connection", 1},
};

static void test_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < PATTERNS * (sizeof cases / sizeof *cases); i++) {
		const size_t k = i / PATTERNS;
		struct refusing f = {{.admit = refuse_first}, refusals[i % PATTERNS]};
		struct script s = {.answers = {cases[k].answer, cases[k].next}};
		struct stk_error err;
		char uri[64];
		start(&s);
		struct stk_io *io = make_io();
		snprintf(uri, sizeof uri, "http://127.0.0.1:%d/a/a?q#fragment", s.port);
		struct stk_request r = ask_for(io, (struct stk_request){.uri = uri, .length = -1, .admission = &f.admission}, &err);
		const bool ok = r.status == cases[k].status &&
				(r.status ? strstr(err.message, cases[k].said) != NULL
					  : r.size == strlen(cases[k].said) && memcmp(r.data, cases[k].said, r.size) == 0);
		if (!ok || strstr(err.message, "hidden"))
			fail_msg("%s: %s, \"%s\"", cases[k].name, stk_status_name(r.status), err.message);
		stk__buffer_release(r.buffer);
		stk__io_destroy(io);
		stop(&s);
		assert_int_equal(s.connections, cases[k].connections);
		assert_memory_equal(s.requests[0], "GET /a/a?q HTTP/1.1\r\n", 21);
	}
}

#define PART "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes "
#define CHUNKED "Transfer-Encoding: chunked\r\n"

/* Requests for a range, and for an object whose size is known from a listing. */
static const struct {
	const char *name;
	int64_t offset, length, listed; /* listed: the size in the listing; 0: unknown */
	const char *answer, *next;
	enum stk_status status;
	const char *said; /* the expected body, or a part of the expected error message */
} parts[] = {
	{"the range", 2, 3, 0, PART "2-4/9\r\nContent-Length: 3\r\n\r\ncde", NULL, STK_OK, "cde"},
	{"a range without the object's size", 2, 3, 0, PART "2-4/*\r\nContent-Length: 3\r\n\r\ncde", NULL, STK_OK, "cde"},
	{"all of it", 2, 3, 0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcdefghi", NULL, STK_OK, "cde"},
	{"nothing after all of it", 9, -1, 0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcdefghi", NULL, STK_OK, ""},
	{"nothing in chunks after all of it", 9, -1, 0, "HTTP/1.1 200 OK\r\n" CHUNKED "\r\n9\r\nabcdefghi\r\n0\r\n\r\n", NULL, STK_OK, ""},
	{"the rest", 2, -1, 0, PART "2-8/9\r\nContent-Length: 7\r\n\r\ncdefghi", NULL, STK_OK, "cdefghi"},
	{"in chunks", 2, 3, 0, PART "2-4/9\r\n" CHUNKED "\r\n1\r\nc\r\n2\r\nde\r\n0\r\n\r\n", NULL, STK_OK, "cde"},
	{"less, and then the rest", 2, 4, 0, PART "2-3/9\r\nContent-Length: 2\r\n\r\ncd", PART "4-5/9\r\nContent-Length: 2\r\n\r\nef",
		STK_OK, "cdef"},
	{"from elsewhere on", 2, 3, 0, PART "0-2/9\r\nContent-Length: 3\r\n\r\nabc", NULL, STK_IO,
		"asked for the bytes from 2 to 4, the server sends the bytes from 0 to 2 of 9"},
	{"more", 2, 3, 0, PART "2-5/9\r\nContent-Length: 4\r\n\r\ncdef", NULL, STK_IO, "the server sends the bytes from 2 to 5 of 9"},
	{"not up to the end", 2, -1, 0, PART "2-4/9\r\nContent-Length: 3\r\n\r\ncde", NULL, STK_IO, "asked for the bytes from 2 on"},
	{"up to an end without the object's size", 2, -1, 0, PART "2-4/*\r\nContent-Length: 3\r\n\r\ncde", NULL, STK_IO,
		"asked for the bytes from 2 on"},
	{"after its own end", 2, 3, 0, PART "2-4/4\r\nContent-Length: 3\r\n\r\ncde", NULL, STK_IO, "a part without saying which"},
	{"two ranges", 2, 3, 0, PART "2-4/9\r\nContent-Range: bytes 0-2/9\r\nContent-Length: 3\r\n\r\ncde", NULL, STK_IO,
		"it has two ranges"},
	{"several parts", 2, 3, 0, PART "2-4/9\r\nContent-Type: multipart/byteranges; boundary=x\r\nContent-Length: 3\r\n\r\ncde", NULL,
		STK_IO, "several parts"},
	{"another length", 2, 3, 0, PART "2-4/9\r\nContent-Length: 4\r\n\r\ncdef", NULL, STK_IO, "sends 4 bytes as those from 2 to 4"},
	{"more chunks", 2, 3, 0, PART "2-4/9\r\n" CHUNKED "\r\n3\r\ncde\r\n1\r\nf\r\n0\r\n\r\n", NULL, STK_IO,
		"sends more than the bytes from 2 to 4"},
	{"fewer chunks", 2, 3, 0, PART "2-4/9\r\n" CHUNKED "\r\n2\r\ncd\r\n0\r\n\r\n", PART "4-4/9\r\nContent-Length: 1\r\n\r\ne", STK_OK,
		"cde"},
	{"a shorter object", 2, 3, 0, PART "2-3/4\r\nContent-Length: 2\r\n\r\ncd", NULL, STK_CORRUPT, "it ends before byte 5"},
	{"the rest of another size", 2, 4, 0, PART "2-3/9\r\nContent-Length: 2\r\n\r\ncd", PART "4-5/8\r\nContent-Length: 2\r\n\r\nef",
		STK_IO, "it changed while it was read"},
	{"no such range of a larger object", 2, 3, 0, "HTTP/1.1 416 No\r\nContent-Range: bytes */9\r\nContent-Length: 0\r\n\r\n", NULL,
		STK_IO, "answers 416"},
	{"no such range", 2, 3, 0, "HTTP/1.1 416 No\r\nContent-Range: bytes */2\r\nContent-Length: 0\r\n\r\n", NULL, STK_CORRUPT,
		"it ends before"},
	{"the listed size", 0, -1, 9, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcdefghi", NULL, STK_OK, "abcdefghi"},
	{"half of the listed size", 0, -1, 9, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd", NULL, STK_IO,
		"its source has 4 bytes of it, and the listing or the index says 9"},
	{"half of the listed size, until it closes", 0, -1, 9, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcd", NULL, STK_IO, "says 9"},
	{"nothing of the listed size", 0, -1, 9, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", NULL, STK_IO, "says 9"},
	{"more than the listed size, in chunks", 0, -1, 4, "HTTP/1.1 200 OK\r\n" CHUNKED "\r\n9\r\nabcdefghi\r\n0\r\n\r\n", NULL, STK_IO,
		"says 4"},
	{"a range of an object of another size", 2, 3, 9, PART "2-4/8\r\nContent-Length: 3\r\n\r\ncde", NULL, STK_IO, "says 9"},
	{"another version of the object", 0, -1, -9, "HTTP/1.1 200 OK\r\nETag: \"b\"\r\nContent-Length: 4\r\n\r\nabcd", NULL, STK_OK,
		"abcd"},
};

static void test_ranges_and_listed_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < PATTERNS * (sizeof parts / sizeof *parts); i++) {
		const size_t k = i / PATTERNS;
		struct refusing f = {{.admit = refuse_first}, refusals[i % PATTERNS]};
		struct script s = {.answers = {parts[k].answer, parts[k].next}, .closes = strstr(parts[k].answer, "close") != NULL};
		struct stk_error err;
		char uri[64];
		start(&s);
		struct stk_io *io = make_io();
		snprintf(uri, sizeof uri, "http://127.0.0.1:%d/", s.port);
		const int64_t listed = parts[k].listed;
		struct stk_request r = ask_for(io,
			(struct stk_request){.uri = uri,
				.offset = parts[k].offset,
				.length = parts[k].length,
				.admission = &f.admission,
				.expected.size = listed < 0 ? -listed : listed,
				.expected.tag =
					listed < 0 ? 1 : 0}, /* negative: the listing also had an ETag, which differs from the response's */
			&err);
		if (r.status != parts[k].status ||
			(r.status ? strstr(err.message, parts[k].said) == NULL
				  : r.size != strlen(parts[k].said) || memcmp(r.data, parts[k].said, r.size) != 0))
			fail_msg("%s: %s, \"%s\"", parts[k].name, stk_status_name(r.status), err.message);
		stk__buffer_release(r.buffer);
		stk__io_destroy(io);
		stop(&s);
	}
}

/* If a body has no length, it ends when the server closes the connection. If the server resets the connection instead, the body may be cut, so the request
 * fails. */
static void test_a_reset_is_no_end(void **state)
{
	(void)state;
	static const char *const answers[] = {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n0123456789", "HTTP/1.0 200 OK\r\n\r\n0123456789",
		"HTTP/1.0 206 OK\r\nContent-Range: bytes 3-12/99\r\n\r\n0123456789"};
	for (int k = 0; k < 6; k++) {
		const bool range = k % 3 == 2;
		struct script s = {.answers = {answers[k % 3]}, .resets = k < 3, .closes = true};
		struct stk_error err;
		char uri[64];
		start(&s);
		struct stk_io *io = make_io();
		snprintf(uri, sizeof uri, "http://127.0.0.1:%d/", s.port);
		struct stk_request r =
			ask_for(io, (struct stk_request){.uri = uri, .offset = range ? 3 : 0, .length = range ? 10 : -1}, &err);
		/* The length of a range is known, so the range was complete before the reset. */
		if (r.status != (k < 3 && !range ? STK_IO : STK_OK))
			fail_msg("%s: %s, \"%s\"", answers[k % 3], stk_status_name(r.status), err.message);
		assert_true(r.status ? strstr(err.message, "reset") != NULL : r.size == 10);
		stk__buffer_release(r.buffer);
		stk__io_destroy(io);
		stop(&s);
	}
}

/* A connection also serves the next request, with two exceptions: the server has closed it in the meantime, or the response did not end where its header says.
 * Then the client opens another connection. connections: the number of connections that three requests take. */
static void test_connections_are_kept(void **state)
{
	static const struct {
		const char *answer;
		bool closes;
		int connections;
	} servers[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, 1},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", true, 3},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n", false, 1},
		{"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 3\r\n\r\nabc", false, 1},
		{"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", true, 3},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxyz", false, 3},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\r\n", false, 3},
	};
	(void)state;
	for (size_t k = 0; k < sizeof servers / sizeof *servers; k++) {
		const char *answer = servers[k].answer;
		struct script s = {.answers = {answer, answer, answer}, .closes = servers[k].closes};
		struct stk_error err;
		char uri[64];
		start(&s);
		struct stk_io *io = make_io();
		snprintf(uri, sizeof uri, "http://127.0.0.1:%d/", s.port);
		for (int i = 0; i < 3; i++) {
			struct stk_request r = ask(io, uri, &err);
			if (r.status)
				fail_msg("%s: %s", answer, err.message);
			assert_int_equal(r.retries, 0);
			assert_int_equal(r.size, 3);
			assert_memory_equal(r.data, "abc", 3);
			stk__buffer_release(r.buffer);
			usleep(20000); /* waits until the server has closed or reset its connection */
		}
		stk__io_destroy(io);
		stop(&s);
		if (s.connections != servers[k].connections)
			fail_msg("%s: %d connections", answer, s.connections);
	}
}

/* The client does not know this body's length in advance, so it must move the body to larger memory several times. */
static void test_a_body_that_grows(void **state)
{
	enum { LENGTH = 300000, CHUNK = 6000 };
	(void)state;
	char *answer = malloc(2 * LENGTH), *body = malloc(LENGTH);
	assert_true(answer && body);
	for (uint32_t i = 0, x = 7; i < LENGTH; i++, x = x * 1664525u + 1013904223u)
		body[i] = (char)('0' + (x >> 24) % 10);
	size_t n = (size_t)sprintf(answer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int at = 0; at < LENGTH; at += CHUNK)
		n += (size_t)sprintf(answer + n, "%x\r\n%.*s\r\n", CHUNK, CHUNK, body + at);
	strcpy(answer + n, "0\r\n\r\n");
	struct script s = {.answers = {answer}};
	struct stk_error err = {0};
	char uri[64];
	uint8_t *got = NULL;
	size_t size = 0;
	start(&s);
	struct stk_io *io = make_io();
	snprintf(uri, sizeof uri, "http://127.0.0.1:%d/", s.port);
	if (stk__read_object(NULL, io, uri, 0, -1, 1 << 20, &got, &size, NULL, &err))
		fail_msg("%s", err.message);
	assert_int_equal(size, LENGTH);
	assert_memory_equal(got, body, LENGTH);
	stk__free(got);
	stk__io_destroy(io);
	stop(&s);
	free(answer);
	free(body);
}

/* The client reads a header with thousands of fields, but ends a request whose header is endless. */
static void test_large_headers(void **state)
{
	enum { FIELD = 40 };
	static char answer[STK_RESPONSE_HEAD + 4096];
	(void)state;
	for (int large = 0; large < 2; large++) {
		const size_t most = large ? STK_RESPONSE_HEAD + 1024 : STK_RESPONSE_HEAD - 1024;
		size_t n = (size_t)sprintf(answer, "HTTP/1.1 200 OK\r\n");
		for (int i = 0; n + FIELD < most; i++)
			n += (size_t)sprintf(answer + n, "X-Field-%06d: 0123456789\r\n", i);
		sprintf(answer + n, "Content-Length: 3\r\nX: close\r\n\r\nabc");
		struct script s = {.answers = {answer}};
		struct stk_error err;
		char uri[64];
		start(&s);
		struct stk_io *io = make_io();
		snprintf(uri, sizeof uri, "http://127.0.0.1:%d/", s.port);
		struct stk_request r = ask(io, uri, &err);
		assert_int_equal(r.status, large ? STK_IO : STK_OK);
		assert_true(large ? strstr(err.message, "its header is too long") != NULL : r.size == 3);
		stk__buffer_release(r.buffer);
		stk__io_destroy(io);
		stop(&s);
	}
}

/* A proxy for plain HTTP gets whole URLs and the proxy's user name and password, which no message shows. */
static void test_plain_proxy(void **state)
{
	(void)state;
	struct script s = {.answers = {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
				   "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"}};
	struct stk_error err;
	char proxy[64];
	start(&s);
	snprintf(proxy, sizeof proxy, "http://user:p%%40ss@127.0.0.1:%d/", s.port);
	setenv("http_proxy", proxy, 1);
	setenv("no_proxy", "else.invalid", 1);
	struct stk_io *io = make_io();
	struct stk_request r = ask(io, "http://somewhere.invalid:81/a?b", &err);
	if (r.status)
		fail_msg("%s", err.message);
	stk__buffer_release(r.buffer);
	r = ask(io, "http://somewhere.invalid:81/a?b", &err);
	assert_int_equal(r.status, STK_IO);
	assert_null(strstr(err.message, "ss@"));
	stk__io_destroy(io);
	unsetenv("http_proxy");
	unsetenv("no_proxy");
	stop(&s);
	assert_int_equal(s.connections, 1);
	assert_memory_equal(s.requests[0], "GET http://somewhere.invalid:81/a?b HTTP/1.1\r\nHost: somewhere.invalid:81\r\n", 74);
	assert_non_null(strstr(s.requests[0], "\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_ranges_and_listed_sizes),
		cmocka_unit_test(test_a_reset_is_no_end),
		cmocka_unit_test(test_connections_are_kept),
		cmocka_unit_test(test_a_body_that_grows),
		cmocka_unit_test(test_large_headers),
		cmocka_unit_test(test_plain_proxy),
	};
	unsetenv("http_proxy");
	unsetenv("all_proxy");
	unsetenv("ALL_PROXY");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
