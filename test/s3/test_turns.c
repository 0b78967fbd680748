/* SPDX-License-Identifier: Apache-2.0
 * Which request goes out next: the one whose bytes are needed soonest, regardless of which pipeline sent it and when. A request for which its
 * pipeline has no memory must not delay one that a consumer waits for. */
#include "test.h"

#include "base/memory.h"
#include "base/philox.h"
#include "http/http.h"
#include "s3_server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EACH = 60 };

static struct s3_server *server;

static int begin(void **state)
{
	char endpoint[64];
	(void)state;
	server = s3_server_start(NULL, 0, "AKIATEST", "secret", NULL, NULL);
	if (!server)
		return -1;
	snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", s3_server_port(server));
	setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
	setenv("AWS_ACCESS_KEY_ID", "AKIATEST", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
	setenv("AWS_CONFIG_FILE", "/dev/null", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	unsetenv("AWS_PROFILE");
	unsetenv("AWS_SESSION_TOKEN");
	return 0;
}

static int end(void **state)
{
	(void)state;
	s3_server_stop(server);
	return 0;
}

struct log {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	int64_t deadlines[3 * EACH];
	int who[3 * EACH];
	int done;
};

struct asked {
	struct stk_request request;
	char uri[32];
	struct log *log;
	int who; /* 0 and 1: pipelines; 2: the request that keeps the connection busy */
};

static void request_done(struct stk_request *r)
{
	struct asked *a = r->user;
	struct log *l = a->log;
	pthread_mutex_lock(&l->lock);
	l->deadlines[l->done] = r->deadline;
	l->who[l->done++] = a->who;
	pthread_cond_broadcast(&l->wake);
	pthread_mutex_unlock(&l->lock);
}

static void ask(struct stk_io *io, struct asked *a, struct log *log, int who, int64_t deadline)
{
	*a = (struct asked){
		.request = {.uri = a->uri, .length = -1, .deadline = deadline, .done = request_done, .user = a}, .log = log, .who = who};
	snprintf(a->uri, sizeof a->uri, "s3://bucket/%lld", (long long)deadline);
	s3_server_put(server, a->uri + strlen("s3://"), "bytes", 5);
	stk__io_submit(io, &a->request);
}

static void await(struct log *log, int done)
{
	pthread_mutex_lock(&log->lock);
	while (log->done < done)
		pthread_cond_wait(&log->wake, &log->lock);
	pthread_mutex_unlock(&log->lock);
}

/* The deadlines of two pipelines' requests alternate. Each pipeline submits its requests in a random order while the only connection is busy. The
 * responses come in the order of the deadlines: the pipelines take turns. */
static void test_two_pipelines_take_turns(void **state)
{
	static struct asked first, asked[2][EACH];
	static struct log log = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, {0}, 0};
	const struct stk_http_settings one = {.requests = 1, .threads = 1, .no_hedging = true};
	const uint64_t seed = (uint64_t)time(NULL);
	struct stk_random r = stk__random(seed, stk__random_stream("turns"), 0, 0);
	struct stk_io *io;
	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
	assert_int_equal(stk__http_add(io, &one, NULL), STK_OK);
	s3_server_set(server, "latency_ms=300");
	ask(io, &first, &log, 2, 0);
	for (int who = 0; who < 2; who++)
		for (int i = 0, at = (int)(stk__random_double(&r) * EACH); i < EACH; i++, at = (at + 7) % EACH)
			ask(io, &asked[who][i], &log, who, 10 + 2 * at + who);
	s3_server_set(server, "");
	await(&log, 2 * EACH + 1);
	for (int k = 1; k < 2 * EACH + 1; k++) {
		assert_int_equal(log.deadlines[k], 10 + k - 1);
		assert_int_equal(log.who[k], (k - 1) % 2);
	}
	stk__buffer_release(first.request.buffer);
	for (int who = 0; who < 2; who++)
		for (int i = 0; i < EACH; i++) {
			assert_int_equal(asked[who][i].request.status, STK_OK);
			stk__buffer_release(asked[who][i].request.buffer);
			stk__free(asked[who][i].request.error);
		}
	stk__free(first.request.error);
	stk__io_destroy(io);
}

/* ---- a pipeline that is paused ---- */

/* A limit on memory. While `full` is set, it refuses all requests, and counts in `asked` how many different requests it has refused. */
struct window {
	struct stk_admission admission;
	_Atomic bool full;
	_Atomic int asked;
};

static bool admit(struct stk_admission *a, struct stk_request *r, size_t bytes)
{
	struct window *w = (struct window *)(void *)a;
	(void)bytes;
	if (atomic_load(&w->full) && r->user && !((struct asked *)r->user)->who) {
		((struct asked *)r->user)->who = 1; /* marks the request as counted */
		atomic_fetch_add(&w->asked, 1);
	}
	return !atomic_load(&w->full);
}

static void ask_admitted(struct stk_io *io, struct asked *a, struct log *log, struct window *w, int64_t deadline, int64_t turn)
{
	*a = (struct asked){.request = {.uri = a->uri,
				    .length = -1,
				    .deadline = deadline,
				    .done = request_done,
				    .user = a,
				    .admission = &w->admission,
				    .turn = turn},
		.log = log};
	snprintf(a->uri, sizeof a->uri, "s3://bucket/%lld", (long long)deadline);
	s3_server_put(server, a->uri + strlen("s3://"), "bytes", 5);
	stk__io_submit(io, &a->request);
}

/* Training is paused for an epoch of validation, which reads from the same store. Training's memory is full: LIMIT of its requests occupy the client and
 * wait for memory, and more of them are queued before those of validation. Nevertheless each request that validation waits for is answered, even if
 * validation begins to wait for it only after it was queued. */
static void test_a_paused_pipeline_does_not_stop_another(void **state)
{
	enum { LIMIT = 4, TRAINING = 12, VALIDATION = 6 };
	static struct asked training[TRAINING], validation[VALIDATION];
	static struct log log = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, {0}, 0};
	static struct window full = {.admission = {.admit = admit, .awaited = -1}, .full = true},
			     free_one = {.admission = {.admit = admit, .awaited = 0}};
	(void)state;
	for (int threads = 1; threads <= 2; threads++) {
		const struct stk_http_settings few = {.requests = LIMIT, .threads = threads, .no_hedging = true};
		struct stk_io *io;
		log.done = 0;
		atomic_store(&full.full, true);
		atomic_store(&full.asked, 0);
		atomic_store(&free_one.admission.awaited, 0);
		assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
		assert_int_equal(stk__http_add(io, &few, NULL), STK_OK);
		s3_server_set(server, "");
		for (int i = 0; i < TRAINING; i++)
			ask_admitted(io, &training[i], &log, &full, i, 0);
		while (atomic_load(&full.asked) < LIMIT)
			nanosleep(&(struct timespec){0, 1000000}, NULL);
		for (int i = 0; i < VALIDATION; i++)
			ask_admitted(io, &validation[i], &log, &free_one, 1000 + i, i);
		for (int i = 0; i < VALIDATION; i++) {
			atomic_store(&free_one.admission.awaited, i);
			await(&log, i + 1);
			assert_int_equal(log.deadlines[i], 1000 + i);
		}
		atomic_store(&full.full, false);
		stk__io_admission_changed(io);
		await(&log, TRAINING + VALIDATION);
		for (int i = 0; i < TRAINING + VALIDATION; i++) {
			struct stk_request *r = i < TRAINING ? &training[i].request : &validation[i - TRAINING].request;
			assert_int_equal(r->status, STK_OK);
			stk__buffer_release(r->buffer);
			stk__free(r->error);
		}
		stk__io_destroy(io);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_pipelines_take_turns),
		cmocka_unit_test(test_a_paused_pipeline_does_not_stop_another),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
