/* SPDX-License-Identifier: Apache-2.0
 * Reads that take their time: a source with latency that completes in reverse order, and one whose read stalls. Shows that requests are in flight
 * together, bounded, without a thread each; that a straggler holds nobody up; and that faults of a source are retried. */
#include "test.h"

#include "image_files.h"
#include "pipelines.h"

#include "base/clock.h"
#include "base/error.h"
#include "exec/exec.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A source of copies of one JPEG. Requests wait in a list; a thread completes those that are due, the latest asked first. */
struct slow_source {
	struct stk_io *io;
	struct test_file file;
	int64_t latency_ns;
	const char *stalled; /* a uri that waits for release */
	int fail_every;      /* the first `failures` requests of every n-th uri fail with `status`; 0: none */
	int failures;
	enum stk_status status;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	struct stk_request *waiting; /* newest first */
	bool stop, release;
	int in_flight, most_in_flight;
	int64_t completed, begun_ns, counted_ns;
	double area;    /* requests in flight, integrated over time, in requests * ns */
	int asked[256]; /* requests that came to an end, by uri */
};

/* With the lock, before in_flight changes. */
static void count_in_flight(struct slow_source *s)
{
	int64_t now = stk__clock_ns();
	if (!s->begun_ns)
		s->begun_ns = s->counted_ns = now;
	s->area += (double)s->in_flight * (double)(now - s->counted_ns);
	s->counted_ns = now;
}

static bool is_due(const struct slow_source *s, const struct stk_request *r, int64_t now)
{
	if (s->stalled && strcmp(r->uri, s->stalled) == 0)
		return s->release || s->stop;
	return s->stop || (int64_t)(intptr_t)r->source_data <= now;
}

static void complete(struct slow_source *s, struct stk_request *r)
{
	int id = atoi(r->uri + strlen("slow://"));
	bool counted = id < (int)(sizeof s->asked / sizeof *s->asked);
	int before = counted ? s->asked[id]++ : 0;
	if (s->fail_every && id % s->fail_every == 0 && before < s->failures) {
		stk__io_finish(s->io, r, stk__fail(r->error, s->status, "the store coughed over %s, time %d", r->uri, before + 1));
		return;
	}
	r->buffer = stk__buffer_take(s->io, s->file.size);
	memcpy(stk__buffer_data(r->buffer), s->file.data, s->file.size);
	memset(stk__buffer_data(r->buffer) + s->file.size, 0, 64);
	r->data = stk__buffer_data(r->buffer);
	r->size = s->file.size;
	stk__io_finish(s->io, r, STK_OK);
}

static void *serve(void *arg)
{
	struct slow_source *s = arg;
	pthread_mutex_lock(&s->lock);
	while (!s->stop || s->waiting) {
		struct stk_request **p = &s->waiting;
		int64_t now = stk__clock_ns();
		while (*p && !is_due(s, *p, now))
			p = &(*p)->next;
		struct stk_request *r = *p;
		if (!r) {
			struct timespec t;
			clock_gettime(CLOCK_REALTIME, &t);
			t.tv_nsec += 500000;
			t.tv_sec += t.tv_nsec / 1000000000;
			t.tv_nsec %= 1000000000;
			pthread_cond_timedwait(&s->wake, &s->lock, &t);
			continue;
		}
		*p = r->next;
		count_in_flight(s);
		s->in_flight--;
		s->completed++;
		pthread_mutex_unlock(&s->lock);
		complete(s, r);
		pthread_mutex_lock(&s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void slow_submit(void *source, struct stk_io *io, struct stk_request *r)
{
	struct slow_source *s = source;
	(void)io;
	pthread_mutex_lock(&s->lock);
	count_in_flight(s);
	r->source_data = (void *)(intptr_t)(stk__clock_ns() + s->latency_ns);
	r->next = s->waiting;
	s->waiting = r;
	if (++s->in_flight > s->most_in_flight)
		s->most_in_flight = s->in_flight;
	pthread_mutex_unlock(&s->lock);
}

static void slow_cancel(void *source)
{
	struct slow_source *s = source;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

static void slow_destroy(void *source)
{
	struct slow_source *s = source;
	slow_cancel(s);
	pthread_join(s->thread, NULL);
	free(s->file.data);
	free(s);
}

static const struct stk_source_ops slow_ops = {"slow", NULL, slow_submit, slow_cancel, slow_destroy};

static struct slow_source *add_slow_source(struct stk_context *ctx, int64_t latency_ns)
{
	struct slow_source *s = calloc(1, sizeof *s);
	const struct test_jpeg j = {.width = 48, .height = 40, .components = 3, .quality = 80, .seed = 3};
	s->io = ctx->io;
	s->file = test_jpeg_make(&j);
	s->latency_ns = latency_ns;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
	assert_int_equal(stk__io_add_source(ctx->io, &slow_ops, s, NULL), STK_OK);
	return s;
}

/* more: what the configuration has besides. */
static struct stk_pipeline *slow_pipeline_with(struct stk_context *ctx, int files, bool shuffle, const struct stk_pipeline_config *more)
{
	char(*names)[24] = calloc((size_t)files, sizeof *names);
	const char **list = calloc((size_t)files, sizeof *list);
	for (int i = 0; i < files; i++) {
		snprintf(names[i], sizeof *names, "slow://%d", i);
		list[i] = names[i];
	}
	struct stk_graph *g;
	struct stk_node file, image;
	struct stk_error err = {0};
	const struct stk_arg reader[] = {stk_arg_list("files", STK_VALUE_STRINGS, list, (size_t)files),
		stk_arg_bool("random_shuffle", shuffle), stk_arg_string("tail", "keep")};
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	if (stk_graph_add(g, "readers.file", NULL, 0, reader, 3, NULL, &file, &err) ||
		stk_graph_add(g, "decoders.image", &file, 1, NULL, 0, NULL, &image, &err) || stk_graph_output(g, image, &err) ||
		stk_graph_output(g, (struct stk_node){file.op, 1}, &err))
		fail_msg("%s", err.message);
	struct stk_pipeline_config c = *more;
	c.size = sizeof c;
	c.device_id = -1;
	c.trace = "";
	struct stk_pipeline *p;
	if (stk_pipeline_create(ctx, g, &c, &p, &err))
		fail_msg("%s", err.message);
	stk_graph_destroy(g);
	free(list);
	free(names);
	return p;
}

static struct stk_pipeline *slow_pipeline(struct stk_context *ctx, int files, int32_t batch, bool shuffle)
{
	return slow_pipeline_with(ctx, files, shuffle, &(struct stk_pipeline_config){.batch_size = batch});
}

static struct stk_context *two_workers(void)
{
	struct stk_context *ctx;
	const struct stk_context_config c = {.size = sizeof c, .threads = 2};
	assert_int_equal(stk_context_create(&c, &ctx, NULL), STK_OK);
	return ctx;
}

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

static void test_latency_is_hidden_by_requests_in_flight(void **state)
{
	(void)state;
	enum { N = 3000, LATENCY_MS = 115, WINDOW = 256 };
	struct stk_context *ctx = two_workers();
	struct slow_source *s = add_slow_source(ctx, LATENCY_MS * 1000000ll);
	struct stk_pipeline *p = slow_pipeline(ctx, N, 64, true);
	int threads = threads_now();
	struct stk_batch *b;
	int64_t count = 0;
	while (stk_pipeline_next(p, &b, NULL) == STK_OK) {
		count += stk_batch_size(b);
		assert_int_equal(threads_now(), threads);
		stk_batch_unref(&b);
	}
	int64_t end = stk__clock_ns();
	assert_int_equal(count, N);
	assert_true(s->most_in_flight <= WINDOW + 2); /* a worker whose own read misses asks all the same */
	/* By Little's law the rate is the mean number in flight over the latency, so the number shows what the rate would on an idle machine. */
	pthread_mutex_lock(&s->lock);
	count_in_flight(s);
	double mean = s->area / (double)(s->counted_ns - s->begun_ns);
	double rate = (double)s->completed / ((double)(end - s->begun_ns) / 1e9), ideal = WINDOW / (LATENCY_MS / 1e3);
	pthread_mutex_unlock(&s->lock);
	print_message("%.0f of %d requests in flight on average; %.0f requests/s, %.1f%% of %.0f\n", mean, WINDOW, rate, 100 * rate / ideal,
		ideal);
#ifndef __SANITIZE_THREAD__ /* there the workers themselves are too slow to keep the window full */
	assert_true(mean >= 0.9 * WINDOW);
#endif
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
	s->stalled = "slow://3"; /* in order: of batch 0 */
	struct stk_pipeline *p = slow_pipeline(ctx, 200, BATCH, false);
	assert_int_equal(stk_pipeline_start(p, NULL), STK_OK);
	/* batches 1 and 2 are made while batch 0 waits: all their chains have run */
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	int done = 0;
	for (int tries = 0; tries < 1000 && done < 2 * BATCH; tries++) {
		struct stk_span spans[512];
		size_t n = stk_pipeline_spans(p, spans, 512);
		done = 0;
		for (size_t i = 0; i < n; i++)
			if (strcmp(spans[i].name, "chain") == 0 && (spans[i].batch == 1 || spans[i].batch == 2))
				done += spans[i].count;
		usleep(2000);
	}
	assert_true(done >= 2 * BATCH);
	/* A look is no wait: it is in no span and no counter. */
	double waited = pipeline_counter(p, "wait_ns");
	size_t spans_before = count_spans(p, "wait");
	assert_int_equal(stk_pipeline_next_within(p, 0, &b, &err), STK_TIMEOUT);
	assert_null(b);
	assert_true(pipeline_counter(p, "wait_ns") == waited && count_spans(p, "wait") == spans_before);
	assert_int_equal(stk_pipeline_next_within(p, 10, &b, &err), STK_TIMEOUT);
	assert_non_null(strstr(err.message, "slow://3"));
	assert_true(pipeline_counter(p, "wait_ns") >= waited + 9e6 && count_spans(p, "wait") == spans_before + 1);
	pthread_mutex_lock(&s->lock);
	s->release = true;
	pthread_mutex_unlock(&s->lock);
	assert_int_equal(stk_pipeline_next(p, &b, NULL), STK_OK);
	assert_int_equal(stk_batch_sample(b, 3)->id, 3);
	stk_batch_unref(&b);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

/* What a failed read costs: the request, one more to hear what it was (the first has no room for a message), and the retries. */
enum { TRIES = 2 + STK_MAX_RETRIES, FILES = 200 };

/* So few reads ahead that no file is asked for by two epochs at a time. */
static struct stk_pipeline *failing_pipeline(struct stk_context *ctx, enum stk_on_error policy)
{
	return slow_pipeline_with(
		ctx, FILES, false, &(struct stk_pipeline_config){.batch_size = 16, .on_error = policy, .read_requests = 8});
}

/* Every fifth read fails `failures` times in a row; then it succeeds, and nobody notices. */
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
	assert_true(pipeline_counter(p, "retries") == FILES / 5 * (failures - 1)); /* to hear what it was is not counted */
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

/* One read fails for good: raised whatever the policy, with its last words, after as many tries as allowed; all other batches come. */
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
		assert_int_equal(got, status);
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

/* Nobody takes a batch: what the open ones need is read, and then what read_bytes allows, however fast the source is. */
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
		pthread_mutex_lock(&s->lock);
		now = s->completed + s->in_flight;
		pthread_mutex_unlock(&s->lock);
	}
	if (now > OPEN + WINDOW + WORKERS)
		fail_msg("%lld objects were read, where %d and a window of %d would do", (long long)now, OPEN, WINDOW);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_latency_is_hidden_by_requests_in_flight),
		cmocka_unit_test(test_a_straggler_holds_nobody_up),
		cmocka_unit_test(test_faults_of_the_source_are_retried),
		cmocka_unit_test(test_a_source_that_keeps_failing_is_raised_whatever_the_policy),
		cmocka_unit_test(test_bytes_ahead_are_bounded),
		cmocka_unit_test(test_ending_with_reads_under_way),
	};
	return cmocka_run_group_tests_name("reads", tests, NULL, NULL);
}
