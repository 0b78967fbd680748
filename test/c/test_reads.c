/* SPDX-License-Identifier: Apache-2.0
 * Slow reads: a source with latency that completes in reverse order, and a source with a read that stalls. Shows that many requests are in flight together,
 * up to a limit and without a thread each; that a slow request delays no other; and that failed reads are retried. */
#include "test.h"

#include "pipelines.h"
#include "slow_source.h"

#include "base/clock.h"
#include "exec/fetch_read.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int threads_now(void)
{
	char line[256];
	int n = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "Threads: %d", &n);
	fclose(f);
	return n;
}

/* Counts how many requests were in flight when a request ended. The source calls look_at_window after the pipeline has submitted the next request, so the
 * counts do not depend on timing: read_requests are in flight, except when as many samples have been read ahead. least: the smallest number that counts as
 * a full window. ends: requests that ended; full: those after which the window was full; early: those after which it was not, because enough samples had
 * been read ahead. */
struct window {
	struct stk_pipeline *pipeline;
	int least;
	int64_t ends, full, early;
};

static void look_at_window(struct slow_source *s)
{
	struct window *w = s->user;
	if (!w->pipeline || s->most_in_flight < w->least)
		return;
	pthread_mutex_lock(&w->pipeline->lock);
	bool early = stk__fetch_counts(w->pipeline).early >= w->pipeline->config.read_requests;
	pthread_mutex_unlock(&w->pipeline->lock);
	w->ends++;
	w->full += s->in_flight >= w->least;
	w->early += s->in_flight < w->least && early;
}

static void test_latency_is_hidden_by_requests_in_flight(void **state)
{
	(void)state;
	enum { N = 3000, LATENCY_MS = 115, WINDOW = 256 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, LATENCY_MS * 1000000ll);
	struct stk_pipeline *p = slow_pipeline(ctx, N, 64, true);
	struct window w = {.pipeline = p, .least = WINDOW * 9 / 10};
	int threads = threads_now();
	struct stk_batch *b;
	int64_t count = 0;
	pthread_mutex_lock(&s->lock);
	s->user = &w;
	s->completes = look_at_window;
	pthread_mutex_unlock(&s->lock);
	while (stk_pipeline_next(p, &b, NULL) == STK_OK) {
		count += stk_batch_size(b);
		assert_int_equal(threads_now(), threads);
		stk_batch_unref(&b);
	}
	pthread_mutex_lock(&s->lock);
	w.pipeline = NULL; /* the pipeline is about to be destroyed, so look_at_window must not use it */
	pthread_mutex_unlock(&s->lock);
	assert_int_equal(count, N);
	assert_true(s->most_in_flight <= WINDOW + 2); /* each worker may send one more request, if its own read would block */
	print_message("of %lld requests that ended, %lld left %d or more in flight, %lld fewer since as many lay read\n", (long long)w.ends,
		(long long)w.full, w.least, (long long)w.early);
	assert_true(w.ends >= N / 2);
	assert_true(w.full + w.early >= w.ends * 9 / 10);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

static size_t count_spans(struct stk_pipeline *p, const char *name)
{
	static struct stk_span spans[4096];
	size_t n = stk_pipeline_spans(p, spans, 4096), count = 0;
	for (size_t i = 0; i < n; i++)
		count += strcmp(spans[i].name, name) == 0;
	return count;
}

static void test_a_straggler_holds_nobody_up(void **state)
{
	(void)state;
	enum { BATCH = 8 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 0);
	s->stalled = "slow://3"; /* this object belongs to batch 0, because the order is not shuffled */
	struct stk_pipeline *p = slow_pipeline(ctx, 200, BATCH, false);
	assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
	/* Batches 1 and 2 must be made while batch 0 waits for its object. The spans show when all of their chains have run. */
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	int done = 0;
	for (int tries = 0; tries < 30000 && done < 2 * BATCH; tries++) {
		struct stk_span spans[512];
		size_t n = stk_pipeline_spans(p, spans, 512);
		done = 0;
		for (size_t i = 0; i < n; i++)
			if (strcmp(spans[i].name, "chain") == 0 && (spans[i].batch == 1 || spans[i].batch == 2))
				done += spans[i].count;
		usleep(2000);
	}
	assert_true(done >= 2 * BATCH);
	/* A call with timeout 0 does not count as a wait, neither in spans nor in counters. */
	double waited = pipeline_counter(p, "wait_ns");
	size_t spans_before = count_spans(p, "wait");
	assert_int_equal(stk_pipeline_next_within(p, 0, &b, &err), STK_TIMEOUT);
	assert_null(b);
	assert_true(pipeline_counter(p, "wait_ns") == waited && count_spans(p, "wait") == spans_before);
	assert_int_equal(stk_pipeline_next_within(p, 10, &b, &err), STK_TIMEOUT);
	assert_non_null(strstr(err.message, "slow://3"));
	assert_true(pipeline_counter(p, "wait_ns") >= waited + 9e6 && count_spans(p, "wait") == spans_before + 1);
	slow_source_release(s);
	/* A call without `out` waits, and leaves the batch to the next call. */
	for (int k = 0; k < 2; k++)
		assert_int_equal(stk_pipeline_next_within(p, 60000, NULL, &err), STK_OK);
	assert_int_equal(stk_pipeline_next_within(p, 0, &b, NULL), STK_OK);
	assert_int_equal(stk_batch_sample(b, 3)->id, 3);
	stk_batch_unref(&b);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

/* TRIES: number of requests for a read that fails, the first one and its retries. */
enum { TRIES = 1 + STK_IO_RETRIES, FILES = 200 };

/* Makes a pipeline that reads so little ahead that two epochs never request a file at the same time. */
static struct stk_pipeline *failing_pipeline(struct stk_context *ctx, enum stk_on_error policy)
{
	return slow_pipeline_with(
		ctx, FILES, false, &(struct stk_pipeline_config){.batch_size = 16, .on_error = policy, .read_requests = 8});
}

/* Every fifth read fails `failures` times in a row and then succeeds. The consumer must not notice. */
static void check_retries(int failures, enum stk_status status)
{
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 100000);
	s->fail_every = 5;
	s->failures = failures;
	s->status = status;
	struct stk_pipeline *p = failing_pipeline(ctx, STK_ON_ERROR_RAISE);
	struct run r = drain_epochs(p, 1);
	assert_int_equal(r.count, FILES);
	assert_int_equal(stk_pipeline_bad_samples(p), 0);
	assert_true(pipeline_counter(p, "retries") == FILES / 5 * failures);
	free(r.samples);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

static void test_faults_of_the_source_are_retried(void **state)
{
	(void)state;
	for (int failures = 1; failures < TRIES; failures++) {
		check_retries(failures, STK_IO);
		check_retries(failures, STK_TIMEOUT);
	}
}

/* One read fails permanently. Under every policy, its error is returned with the last message after all allowed tries, and all other batches are delivered. */
static void check_failure(enum stk_on_error policy, enum stk_status status)
{
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 100000);
	s->fail_every = FILES;
	s->failures = 1000;
	s->status = status;
	struct stk_pipeline *p = failing_pipeline(ctx, policy);
	for (int k = 0; k < 4; k++) {
		struct stk_batch *b = NULL;
		struct stk_error err = {0};
		enum stk_status got = stk_pipeline_next(p, &b, &err);
		if (k > 0) {
			assert_int_equal(got, STK_OK);
			assert_int_equal(stk_batch_size(b), 16);
			stk_batch_unref(&b);
			continue;
		}
		assert_int_equal(got, STK_IO); /* STK_TIMEOUT would mean that only the wait ended, and that the batch can still be taken */
		assert_int_equal(err.code, STK_IO);
		assert_null(b);
		assert_string_equal(err.uri, "slow://0");
		char last[40];
		snprintf(last, sizeof last, "coughed over slow://0, time %d", TRIES);
		if (!strstr(err.message, last))
			fail_msg("policy %d: \"%s\" does not say \"%s\"", policy, err.message, last);
	}
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

static void test_a_source_that_keeps_failing_is_raised_whatever_the_policy(void **state)
{
	(void)state;
	const enum stk_on_error policies[] = {STK_ON_ERROR_RAISE, STK_ON_ERROR_SKIP, STK_ON_ERROR_REPLACE};
	for (int i = 0; i < 3; i++) {
		check_failure(policies[i], STK_IO);
		check_failure(policies[i], STK_TIMEOUT);
	}
}

/* If the consumer takes no batch, the pipeline reads the samples of the open batches, then at most read_bytes ahead, however fast the source is. */
static void test_bytes_ahead_are_bounded(void **state)
{
	(void)state;
	enum { BATCH = 4, OPEN = 3 * BATCH, WORKERS = 2, WINDOW = 20, CALM = 50 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 100000);
	struct stk_pipeline *p =
		slow_pipeline_with(ctx, 500, true, &(struct stk_pipeline_config){.batch_size = BATCH, .read_bytes = WINDOW * s->file.size});
	assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
	int64_t before = -1, now = 0;
	for (int calm = 0; calm < CALM; calm = now == before && now >= OPEN ? calm + 1 : 0) {
		usleep(2000);
		before = now;
		now = slow_source_asked(s);
	}
	if (now > OPEN + WINDOW + WORKERS)
		fail_msg("%lld objects were read, where %d and a window of %d would do", (long long)now, OPEN, WINDOW);
	struct run r = drain_epochs(p, 1);
	assert_int_equal(r.count, 500);
	free(r.samples);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

/* The consumer is so slow that bytes of batches that are not open yet fill the window, and further requests must wait for memory. An earlier read did not
 * block, so reading ahead has left the first sample of an open batch to the worker. The worker must read that sample although the window is full. */
static void test_a_full_window_does_not_stop_the_next_batch(void **state)
{
	(void)state;
	enum { BATCH = 4, SAMPLES = 200, WINDOW = 10 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 100000);
	const size_t bytes = stk__buffer_rounded(s->file.size);
	s->at_hand = 1;
	s->admits = true;
	struct stk_pipeline *p = slow_pipeline_with(
		ctx, SAMPLES, false, &(struct stk_pipeline_config){.batch_size = BATCH, .read_bytes = WINDOW * bytes + bytes / 2});
	struct stk_batch *b;
	struct stk_error err = {0};
	enum stk_status status = STK_OK;
	int64_t count = 0;
	while (!status) {
		usleep(5000);
		status = stk_pipeline_next_within(p, 60000, &b, &err);
		if (!status) {
			count += stk_batch_size(b);
			stk_batch_unref(&b);
		}
	}
	if (status != STK_END)
		fail_msg("after %lld samples: %s", (long long)count, err.message);
	assert_int_equal(count, SAMPLES);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

/* Takes batches to the end of the run or an error. Returns the number of their samples. */
static int64_t take_all(struct stk_pipeline *p, enum stk_status *status, struct stk_error *err)
{
	struct stk_batch *b;
	int64_t count = 0;
	while (!(*status = stk_pipeline_next_within(p, 60000, &b, err))) {
		count += stk_batch_size(b);
		stk_batch_unref(&b);
	}
	return count;
}

/* Returns the latest deadline of the requests so far, and sets *requests to their number. */
static int64_t latest_deadline(struct slow_source *s, int *requests)
{
	int64_t latest = 0;
	*requests = 0;
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < sizeof s->deadline / sizeof *s->deadline; i++) {
		*requests += s->deadline[i] != 0;
		latest = s->deadline[i] > latest ? s->deadline[i] : latest;
	}
	pthread_mutex_unlock(&s->lock);
	return latest;
}

/* The consumer waits for a batch whose first samples are damaged and arrive late. Meanwhile bytes of later batches fill the window, and further requests
 * wait for memory. Samples that replace the damaged ones are requested last, after the deadlines of the waiting requests. They must be read nevertheless,
 * one at a time. */
static void test_a_full_window_does_not_stop_replacements(void **state)
{
	(void)state;
	enum { BATCH = 4, SAMPLES = 200, WINDOW = 10, DAMAGED = 3 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 100000);
	const size_t bytes = stk__buffer_rounded(s->file.size);
	s->admits = true;
	for (int i = 0; i < DAMAGED; i++)
		s->traits[i] = SLOW_STALLS | SLOW_DAMAGED;
	struct stk_pipeline *p = slow_pipeline_with(ctx, SAMPLES, false,
		&(struct stk_pipeline_config){.batch_size = BATCH,
			.read_bytes = WINDOW * bytes + bytes / 2,
			.on_error = STK_ON_ERROR_REPLACE,
			.max_errors = SAMPLES});
	struct stk_batch *b;
	struct stk_error err = {0};
	enum stk_status status;
	int requests = 0;
	while (latest_deadline(s, &requests) >= stk__clock_ns() || requests <= WINDOW)
		assert_int_equal(stk_pipeline_next_within(p, 10, &b, NULL), STK_TIMEOUT);
	slow_source_release(s);
	const int64_t count = take_all(p, &status, &err);
	if (status != STK_END)
		fail_msg("after %lld samples: %s", (long long)count, err.message);
	assert_int_equal(count, SAMPLES);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

/* ---- random windows ---- */

enum { RUNS = 60, MOST_BATCH = 6, MOST_WINDOW = 8, OBJECTS = 120, PIPELINES = 3, READERS = 2 };

static int below(unsigned *seed, int n)
{
	return rand_r(seed) % n;
}

/* Makes a pipeline with up to READERS readers, of which each reads all objects, and with random limits. */
static struct stk_pipeline *random_pipeline(struct stk_context *ctx, size_t bytes, unsigned *seed)
{
	char names[OBJECTS][24];
	const char *list[OBJECTS];
	struct stk_graph *g;
	struct stk_node file, image;
	struct stk_error err = {0};
	const int readers = 1 + below(seed, READERS);
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	for (int k = 0; k < readers; k++) {
		for (int i = 0; i < OBJECTS; i++) {
			snprintf(names[i], sizeof *names, "slow://%d", (i + k * 7) % OBJECTS);
			list[i] = names[i];
		}
		const struct stk_arg reader[] = {stk_arg_list("files", STK_VALUE_STRINGS, list, OBJECTS),
			stk_arg_bool("random_shuffle", true), stk_arg_string("tail", "keep")};
		if (stk_graph_add(g, "readers.file", NULL, 0, reader, 3, NULL, &file, &err) ||
			stk_graph_add(g, "decoders.image", &file, 1, NULL, 0, NULL, &image, &err) || stk_graph_output(g, image, &err))
			fail_msg("%s", err.message);
	}
	const bool skips = below(seed, 2);
	const struct stk_pipeline_config c = {.size = sizeof c,
		.device_id = -1,
		.trace = "",
		.batch_size = 1 + below(seed, MOST_BATCH),
		.prefetch = 1 + below(seed, 3),
		.seed = (uint64_t)below(seed, 1 << 20),
		.read_requests = 1 + below(seed, 40),
		.read_bytes = bytes * (size_t)(1 + below(seed, MOST_WINDOW)) + bytes / 2,
		.on_error = skips ? STK_ON_ERROR_SKIP : STK_ON_ERROR_REPLACE,
		.max_errors = 2 * OBJECTS};
	struct stk_pipeline *p;
	if (stk_pipeline_create(ctx, g, &c, &p, &err))
		fail_msg("%s", err.message);
	stk_graph_destroy(g);
	return p;
}

/* The pipelines whose buffers look_at_bytes measures. most_over: the largest number of bytes by which a pipeline's buffers have exceeded its window. */
struct held {
	struct stk_pipeline *pipelines[PIPELINES];
	int n;
	int64_t most_over;
};

static void look_at_bytes(struct slow_source *s)
{
	struct held *h = s->user;
	for (int k = 0; k < h->n; k++) {
		struct stk_pipeline *p = h->pipelines[k];
		pthread_mutex_lock(&p->lock);
		const int64_t over = p->parts.fetch->admitted - (int64_t)p->config.read_bytes;
		pthread_mutex_unlock(&p->lock);
		h->most_over = over > h->most_over ? over : h->most_over;
	}
}

/* Takes all batches of an epoch, some of them late. A batch may fail, if too many replacements are damaged too. Fails the test if no batch comes for a
 * minute. */
static void take_epoch(struct stk_pipeline *p, unsigned first, unsigned *seed)
{
	const int64_t batches = (OBJECTS + p->config.batch_size - 1) / p->config.batch_size;
	struct stk_batch *b;
	struct stk_error err = {0};
	enum stk_status status;
	int64_t k = 0;
	while ((status = stk_pipeline_next_within(p, 60000, &b, &err)) != STK_END) {
		if (status == STK_TIMEOUT)
			fail_msg("seed %u, batch %lld: %s", first, (long long)k, err.message);
		k++;
		stk_batch_unref(&b);
		if (!below(seed, 4))
			usleep((unsigned)below(seed, 5000));
	}
	assert_int_equal(k, batches);
}

/* Several pipelines with small windows read from one source, and the consumer takes batches of only one at a time. Some objects are damaged, some are
 * available at once, some come late, and some reads fail and are retried. Whatever later batches and other pipelines hold, the next batch must come. Only
 * one sample at a time may exceed a window. */
static void test_no_window_stops_the_next_batch(void **state)
{
	(void)state;
	const char *given = getenv("STOKER_TEST_SEED");
	const unsigned begin = given ? (unsigned)atoi(given) : 100;
	int64_t most_over = 0;
	print_message("STOKER_TEST_SEED=%u\n", begin);
	for (unsigned first = begin; first < begin + RUNS; first++) {
		unsigned seed = first;
		struct stk_context *ctx = two_workers();
		struct slow_source *s = add_slow_source(ctx, below(&seed, 3) * 400000);
		const int damaged = below(&seed, 30), at_hand = below(&seed, 2) * below(&seed, 100);
		const size_t bytes = stk__buffer_rounded(s->file.size);
		s->admits = true;
		s->jitter = 1 + (uint32_t)below(&seed, 1000);
		s->fail_every = below(&seed, 2) * 11;
		s->failures = 1 + below(&seed, STK_IO_RETRIES);
		s->status = STK_IO;
		for (int i = 0; i < OBJECTS; i++)
			s->traits[i] = (uint8_t)((below(&seed, 100) < damaged ? SLOW_DAMAGED : 0) |
						 (below(&seed, 100) < at_hand ? SLOW_AT_HAND : 0) | below(&seed, SLOW_SIZES) * SLOW_LARGER);
		struct held held = {.n = 1 + below(&seed, PIPELINES)};
		for (int k = 0; k < held.n; k++)
			held.pipelines[k] = random_pipeline(ctx, bytes, &seed);
		s->user = &held;
		s->completes = look_at_bytes;
		for (int k = 0; k < held.n; k++)
			assert_int_equal(stk_pipeline_start(held.pipelines[k], NULL), STK_OK);
		for (int k = 0; k < held.n; k++)
			take_epoch(held.pipelines[k], first, &seed);
		pthread_mutex_lock(&s->lock);
		s->completes = NULL;
		pthread_mutex_unlock(&s->lock);
		for (int k = 0; k < held.n; k++)
			stk_pipeline_destroy(held.pipelines[k]);
		/* Reads of objects that are available at once need no admission, so they may exceed the window. */
		if (!at_hand && held.most_over > (int64_t)(READERS * SLOW_SIZES * bytes))
			fail_msg("seed %u: the buffers took %lld bytes more than the window", first, (long long)held.most_over);
		most_over = !at_hand && held.most_over > most_over ? held.most_over : most_over;
		stk_context_unref(&ctx);
	}
	print_message("buffers exceeded a window by %lld bytes at most\n", (long long)most_over);
}

/* If the consumer takes no batch, the pipeline reads the samples of the open batches and then WINDOW samples ahead. Requests that were in flight when
 * these had been read still complete, at most WINDOW more. The source's data is never available at once, as on a file system without non-blocking reads. */
static void test_samples_ahead_are_bounded(void **state)
{
	(void)state;
	enum { BATCH = 4, OPEN = 3 * BATCH, WORKERS = 2, WINDOW = 32, CALM = 50 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 100000);
	struct stk_pipeline *p =
		slow_pipeline_with(ctx, 500, true, &(struct stk_pipeline_config){.batch_size = BATCH, .read_requests = WINDOW});
	assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
	int64_t before = -1, now = 0;
	for (int calm = 0; calm < CALM; calm = now == before && now >= OPEN + WINDOW / 2 ? calm + 1 : 0) {
		usleep(2000);
		before = now;
		now = slow_source_asked(s);
	}
	print_message("%lld objects were read with a window of %d\n", (long long)now, WINDOW);
	assert_true(now <= OPEN + 2 * WINDOW + WORKERS);
	struct run r = drain_epochs(p, 1);
	assert_int_equal(r.count, 500);
	free(r.samples);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

static void test_ending_with_reads_under_way(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		struct stk_context *ctx = two_workers();
		add_slow_source(ctx, 3000000);
		struct stk_pipeline *p = slow_pipeline(ctx, 500, 16, true);
		struct stk_batch *b = NULL;
		for (int k = 0; k < i % 4; k++) {
			assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
			stk_batch_unref(&b);
		}
		if (i % 4 == 0)
			assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
		stk_pipeline_destroy(p);
		stk_context_unref(&ctx);
	}
}

/* If requests stop completing, the pipeline can still be ended, and cancels every request. */
static void test_ending_waits_for_no_request_that_has_not_begun(void **state)
{
	(void)state;
	enum { WINDOW = 500 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 0);
	struct stk_pipeline *p = slow_pipeline_with(
		ctx, 5000, true, &(struct stk_pipeline_config){.batch_size = 64, .read_requests = WINDOW, .read_bytes = (size_t)1 << 30});
	struct stk_batch *b = NULL;
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
	stk_batch_unref(&b);
	pthread_mutex_lock(&s->lock);
	s->all_stalled = true;
	pthread_mutex_unlock(&s->lock);
	while (slow_source_in_flight(s) < WINDOW) {
		if (stk_pipeline_next_within(p, 1, &b, NULL) == STK_OK)
			stk_batch_unref(&b);
	}
	alarm(200);
	int64_t begin = stk__clock_ns();
	stk_pipeline_destroy(p);
	print_message("ended with %d requests in flight in %.1f ms\n", WINDOW, (double)(stk__clock_ns() - begin) / 1e6);
	alarm(0);
	assert_int_equal(slow_source_in_flight(s), 0);
	assert_true(s->cancelled >= WINDOW);
	stk_context_unref(&ctx);
}

enum { VALIDATION = 60 };

static void *validate(void *arg)
{
	struct stk_batch *b;
	for (int k = 0; k < VALIDATION; k++) {
		if (stk_pipeline_next(arg, &b, NULL))
			abort();
		stk_batch_unref(&b);
	}
	return NULL;
}

/* A pipeline in the middle of its epoch and one that starts both get their share of a source that serves one object at a time. */
static void test_pipelines_share_a_source(void **state)
{
	(void)state;
	enum { LONG = 400 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 0);
	const struct stk_pipeline_config c = {.batch_size = 4, .read_requests = 8};
	struct stk_pipeline *training = slow_pipeline_with(ctx, 20000, true, &c), *validation = slow_pipeline_with(ctx, 20000, true, &c);
	struct stk_batch *b;
	pthread_t thread;
	for (int k = 0; k < LONG; k++) {
		assert_int_equal(stk_pipeline_next(training, &b, NULL), STK_OK);
		stk_batch_unref(&b);
	}
	pthread_mutex_lock(&s->lock);
	s->narrow = true;
	s->latency_ns = 500000;
	pthread_mutex_unlock(&s->lock);
	assert_int_equal(pthread_create(&thread, NULL, validate, validation), 0);
	int taken = 0;
	while (pipeline_counter(validation, "batches_delivered") < VALIDATION) {
		if (stk_pipeline_next_within(training, 1, &b, NULL))
			continue;
		stk_batch_unref(&b);
		taken++;
	}
	pthread_join(thread, NULL);
	print_message("%d batches of training beside %d of a loader that started then\n", taken, VALIDATION);
	assert_true(taken >= VALIDATION / 6); /* equal shares would be VALIDATION; busy machines have given a third of that */
	stk_pipeline_destroy(training);
	stk_pipeline_destroy(validation);
	stk_context_unref(&ctx);
}

/* Sources serve the earliest deadline first (test_turns), so deadlines must follow the order of delivery, at any speed of the consumer. Workers request the
 * first samples when they reach them, in parallel; the others are requested ahead. */
static void test_deadlines_follow_the_order_of_need(void **state)
{
	(void)state;
	enum { N = 600, BATCH = 8, FIRST = 64, SLOW = 10 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, 2000000);
	const struct stk_pipeline_config c = {.batch_size = BATCH, .read_requests = 48};
	struct stk_pipeline *p = slow_pipeline_with(ctx, N, true, &c);
	struct stk_batch *b;
	int64_t before = 0, shuffled = 0, last = -1;
	for (int at = 0; at < N; at += BATCH) {
		assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
		pthread_mutex_lock(&s->lock);
		for (int i = 0; i < BATCH; i++) {
			int64_t id = stk_batch_sample(b, i)->id, deadline = s->deadline[id];
			if (at + i >= FIRST && deadline <= before)
				fail_msg("sample %d, of slow://%d, is needed after the one before it, and its deadline is %.3f ms earlier",
					at + i, (int)id, (double)(before - deadline) / 1e6);
			before = deadline;
			shuffled += id < last;
			last = id;
		}
		pthread_mutex_unlock(&s->lock);
		stk_batch_unref(&b);
		if (at % (4 * BATCH) == 0)
			usleep((unsigned)(at % SLOW) * 1000);
	}
	assert_true(shuffled > N / 4); /* the order of need differs from that of the files, so deadlines do not follow it by chance */
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_latency_is_hidden_by_requests_in_flight),
		cmocka_unit_test(test_a_straggler_holds_nobody_up),
		cmocka_unit_test(test_faults_of_the_source_are_retried),
		cmocka_unit_test(test_a_source_that_keeps_failing_is_raised_whatever_the_policy),
		cmocka_unit_test(test_bytes_ahead_are_bounded),
		cmocka_unit_test(test_a_full_window_does_not_stop_the_next_batch),
		cmocka_unit_test(test_a_full_window_does_not_stop_replacements),
		cmocka_unit_test(test_no_window_stops_the_next_batch),
		cmocka_unit_test(test_samples_ahead_are_bounded),
		cmocka_unit_test(test_ending_with_reads_under_way),
		cmocka_unit_test(test_ending_waits_for_no_request_that_has_not_begun),
		cmocka_unit_test(test_pipelines_share_a_source),
		cmocka_unit_test(test_deadlines_follow_the_order_of_need),
	};
	return cmocka_run_group_tests_name("reads", tests, NULL, NULL);
}
