/* SPDX-License-Identifier: Apache-2.0
 * Requests that need several responses, or share one: large ranges are split into pieces, and neighboring ranges are joined. */
#include "test.h"

#include "http/http_impl.h"
#include "s3_server.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct s3_server *server;
static const struct stk_http_settings quick = {
	.connect_ms = 2000, .first_byte_ms = 20000, .stall_ms = 10000, .retries = 30, .backoff_ms = 5, .most_backoff_ms = 50};

static void request_ended(struct stk_request *r)
{
	sem_post(r->user);
}

static void wait_for(sem_t *ended)
{
	while (sem_wait(ended) && errno == EINTR)
		;
}

static struct stk_request read_range(struct stk_io *io, int64_t offset, int64_t length, size_t most, struct stk_error *err)
{
	sem_t ended;
	sem_init(&ended, 0, 0);
	*err = (struct stk_error){0};
	struct stk_request r = {.uri = "s3://b/large",
		.offset = offset,
		.length = length,
		.max_bytes = most,
		.done = request_ended,
		.user = &ended,
		.error = err};
	stk__io_submit(io, &r);
	wait_for(&ended);
	sem_destroy(&ended);
	return r;
}

static void check_range(struct stk_io *io, const uint8_t *object, int64_t offset, int64_t length)
{
	static const uint8_t zeros[64];
	struct stk_error err;
	struct stk_request r = read_range(io, offset, length, 0, &err);
	if (r.status)
		fail_msg("%s", err.message);
	assert_int_equal(r.size, length);
	assert_true(memcmp(r.data, object + offset, r.size) == 0);
	assert_memory_equal(r.data + r.size, zeros, sizeof zeros);
	stk__buffer_release(r.buffer);
}

/* A large range is split into pieces, which arrive in one buffer even if some of them fail; cancelling ends all of them. */
static void test_large_ranges_are_split(void **state)
{
	enum { SIZE = 41 << 20, LENGTH = 40 << 20 };
	struct stk_io *io;
	struct stk_error err;
	(void)state;
	uint8_t *object = malloc(SIZE);
	assert_non_null(object);
	for (size_t i = 0; i < SIZE; i++)
		object[i] = (uint8_t)(i * 2654435761u >> 13);
	s3_server_put(server, "b/large", object, SIZE);
	assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
	assert_int_equal(stk__http_add(io, &quick, NULL), STK_OK);
	uint64_t before = s3_server_counts(server).requests;
	check_range(io, object, 3, LENGTH);
	assert_int_equal(s3_server_counts(server).requests - before, 5);
	check_range(io, object, 7, 16 << 20);
	assert_int_equal(s3_server_counts(server).requests - before, 6);
	s3_server_set(server, "p503=0.2&reset=0.2&truncate=0.2&seed=4");
	check_range(io, object, 3, LENGTH);
	s3_server_set(server, "");
	struct stk_request r = read_range(io, 3, SIZE, 0, &err);
	assert_int_equal(r.status, STK_CORRUPT);
	assert_non_null(strstr(err.message, "s3://b/large: it ends before byte"));
	assert_null(r.buffer);
	r = read_range(io, 3, LENGTH, LENGTH - 1, &err);
	assert_int_equal(r.status, STK_LIMIT);
	s3_server_set(server, "silent=1");
	sem_t ended;
	sem_init(&ended, 0, 0);
	for (int cancelled = 1; cancelled >= 0; cancelled--) {
		r = (struct stk_request){.uri = "s3://b/large", .length = LENGTH, .done = request_ended, .user = &ended, .error = &err};
		stk__io_submit(io, &r);
		if (cancelled)
			stk__io_cancel(io, &r);
		else
			stk__io_destroy(io);
		wait_for(&ended);
		assert_int_equal(r.status, STK_CANCELLED);
	}
	sem_destroy(&ended);
	s3_server_set(server, "");
	free(object);
}

/* Requests share one response if they ask for ranges of one object, are next to each other in the queue, the ranges are in ascending order, and at most
 * 64 KB lie between two of them. The response is limited to the bytes that a connection transfers during the store's latency. */
static void test_neighbours_are_joined(void **state)
{
	enum { N = 12, KB = 1 << 10 };
	static const struct {
		const char *uri;
		int64_t offset, length;
		size_t most;
		bool alone;
		int leads; /* index of the first request of the group that this request must be in */
	} cases[N] = {{"s3://b/a", 512, 100, 0, false, 0}, {"s3://b/a", 1024, 1000, 0, false, 0},
		{"s3://b/a", 1024, 10, 0, false, 0}, /* a part of the previous range */
		/* The second of these ranges begins more than 64 KB after the first one ends. */
		{"s3://b/a", 2024 + 64 * KB, 100, 0, false, 0}, {"s3://b/a", 2124 + 128 * KB + 1, 100, 0, false, 4},
		{"s3://b/b", 150 * KB, 100, 0, false, 5}, {"s3://b/b", 149 * KB, 100, 0, false, 6}, /* before the previous range */
		{"s3://b/b", 150 * KB, 4096 * KB, 0, false, 7},                                     /* the response would be too large */
		{"s3://b/b", 4246 * KB, 100, 99, false, 8},                                         /* larger than its own max_bytes */
		{"s3://b/b", 4247 * KB, 100, 0, true, 9},                                           /* must have its own request */
		{"s3://b/b", 4248 * KB, -1, 0, false, 10},                                          /* up to the object's end */
		{"s3://b/b", 4249 * KB, 100, 0, false, 11}};
	struct stk_request_queue queue = {0};
	struct stk_request r[N] = {0};
	(void)state;
	for (int k = 0; k < N; k++) {
		int i = (7 * k) % N; /* adds the requests in another order than that of their deadlines */
		r[i] = (struct stk_request){.uri = cases[i].uri,
			.offset = cases[i].offset,
			.length = cases[i].length,
			.max_bytes = cases[i].most,
			.http.unjoinable = cases[i].alone,
			.deadline = i};
		stk__queue_push(&queue, &r[i]);
	}
	for (int i = 0; i < N;) {
		struct stk_request *q = stk__queue_pop(&queue);
		assert_ptr_equal(q, &r[i]);
		stk__http_join(&queue, q);
		int64_t span = stk__http_span(q);
		assert_int_equal(span, i ? cases[i].length : 2124 + 64 * KB - 512);
		assert_false(stk__http_all_cancelled(q));
		for (const struct stk_request *f = q; f; f = f->http.joined, i++) {
			assert_ptr_equal(f, &r[i]);
			assert_ptr_equal(q, &r[cases[i].leads]);
		}
	}
	assert_null(stk__queue_pop(&queue));
}

int main(void)
{
	const char *const settings[][2] = {{"AWS_ACCESS_KEY_ID", "AKIATESTTESTTEST"}, {"AWS_SECRET_ACCESS_KEY", "sEcReT"},
		{"AWS_CONFIG_FILE", "/dev/null"}, {"AWS_SHARED_CREDENTIALS_FILE", "/dev/null"}, {"AWS_EC2_METADATA_DISABLED", "true"},
		{"NO_PROXY", "127.0.0.1"}};
	char url[64];
	server = s3_server_start(NULL, 0, settings[0][1], settings[1][1], NULL, NULL);
	if (!server)
		return 1;
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
		setenv(settings[i][0], settings[i][1], 1);
	snprintf(url, sizeof url, "http://127.0.0.1:%d", s3_server_port(server));
	setenv("AWS_ENDPOINT_URL_S3", url, 1);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_large_ranges_are_split), cmocka_unit_test(test_neighbours_are_joined)};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	s3_server_stop(server);
	return failed;
}
