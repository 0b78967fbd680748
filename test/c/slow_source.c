/* SPDX-License-Identifier: Apache-2.0 */
#include "slow_source.h"

#include "test.h"

#include "base/clock.h"
#include "base/error.h"
#include "exec/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int id_of(const struct stk_request *r)
{
	return atoi(r->uri + strlen("slow://"));
}

static int traits_of(const struct slow_source *s, const struct stk_request *r)
{
	const int id = id_of(r);
	return id < SLOW_TRAITS ? s->traits[id] : 0;
}

static size_t size_of(const struct slow_source *s, const struct stk_request *r)
{
	return s->file.size * (size_t)(1 + traits_of(s, r) / SLOW_LARGER);
}

static bool is_due(const struct slow_source *s, const struct stk_request *r, int64_t now)
{
	if (s->all_stalled || (s->stalled && strcmp(r->uri, s->stalled) == 0) || traits_of(s, r) & SLOW_STALLS)
		return s->release || s->stop;
	return s->stop || (int64_t)(intptr_t)r->source_data <= now;
}

static void fill(struct slow_source *s, struct stk_request *r)
{
	const size_t size = size_of(s, r), head = traits_of(s, r) & SLOW_DAMAGED ? 0 : s->file.size;
	r->buffer = stk__buffer_take(s->io, size);
	memcpy(stk__buffer_data(r->buffer), s->file.data, head);
	memset(stk__buffer_data(r->buffer) + head, 0, size - head + 64);
	r->data = stk__buffer_data(r->buffer);
	r->size = size;
}

static void complete(struct slow_source *s, struct stk_request *r)
{
	int id = id_of(r);
	bool counted = id < (int)(sizeof s->asked / sizeof *s->asked);
	int before = counted ? s->asked[id]++ : 0;
	if (s->fail_every && id % s->fail_every == 0 && before < s->failures) {
		stk__io_finish(s->io, r, stk__fail(r->error, s->status, "the store coughed over %s, time %d", r->uri, before + 1));
		return;
	}
	const uint64_t changes = stk__io_admission_changes(s->io);
	const size_t bytes = stk__buffer_rounded(size_of(s, r));
	if (s->admits && r->admission && !r->admission->admit(r->admission, r, bytes) && stk__io_await_admission(s->io, r, bytes, changes))
		return;
	fill(s, r);
	stk__io_finish(s->io, r, STK_OK);
}

static bool slow_try_now(void *source, struct stk_io *io, struct stk_request *r)
{
	struct slow_source *s = source;
	(void)io;
	if (id_of(r) >= s->at_hand && !(traits_of(s, r) & SLOW_AT_HAND))
		return false;
	fill(s, r);
	r->status = STK_OK;
	return true;
}

/* Finds the request to serve next. Returns the address of the pointer to it in the list, or NULL if no request is due. */
static struct stk_request **next_due(struct slow_source *s)
{
	struct stk_request **first = NULL;
	int64_t now = stk__clock_ns();
	for (struct stk_request **p = &s->waiting; *p; p = &(*p)->next) {
		if (s->narrow ? first && (*p)->deadline >= (*first)->deadline : !is_due(s, *p, now))
			continue;
		first = p;
		if (!s->narrow)
			break;
	}
	return first;
}

static void *serve(void *arg)
{
	struct slow_source *s = arg;
	pthread_mutex_lock(&s->lock);
	while (!s->stop || s->waiting) {
		struct stk_request **p = next_due(s), *r = p ? *p : NULL;
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
		s->in_flight--;
		s->completed++;
		int64_t takes_ns = s->narrow ? s->latency_ns : 0;
		pthread_mutex_unlock(&s->lock);
		if (takes_ns)
			nanosleep(&(struct timespec){.tv_nsec = takes_ns}, NULL);
		complete(s, r);
		pthread_mutex_lock(&s->lock);
		if (s->completes)
			s->completes(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void slow_submit(void *source, struct stk_io *io, struct stk_request *r)
{
	struct slow_source *s = source;
	pthread_mutex_lock(&s->lock);
	if (atomic_load(&r->cancelled)) {
		pthread_mutex_unlock(&s->lock);
		stk__io_finish(io, r, STK_CANCELLED);
		return;
	}
	size_t id = (size_t)id_of(r);
	if (id < sizeof s->deadline / sizeof *s->deadline && !s->deadline[id])
		s->deadline[id] = r->deadline;
	s->jitter = s->jitter * 1664525 + 1013904223 * (s->jitter != 0);
	r->source_data = (void *)(intptr_t)(stk__clock_ns() + (s->jitter ? s->latency_ns / 256 * (s->jitter >> 24) : s->latency_ns));
	r->next = s->waiting;
	s->waiting = r;
	if (++s->in_flight > s->most_in_flight)
		s->most_in_flight = s->in_flight;
	pthread_mutex_unlock(&s->lock);
}

static void slow_cancel(void *source, struct stk_request *r)
{
	struct slow_source *s = source;
	pthread_mutex_lock(&s->lock);
	struct stk_request **p = &s->waiting;
	while (*p && *p != r)
		p = &(*p)->next;
	bool waits = *p == r;
	if (waits) {
		*p = r->next;
		s->in_flight--;
		s->cancelled++;
	}
	pthread_mutex_unlock(&s->lock);
	if (waits)
		stk__io_finish(s->io, r, STK_CANCELLED);
}

static void slow_cancel_all(void *source)
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
	slow_cancel_all(s);
	pthread_join(s->thread, NULL);
	free(s->file.data);
	free(s);
}

static const struct stk_source_ops slow_ops = {.scheme = "slow",
	.try_now = slow_try_now,
	.submit = slow_submit,
	.cancel = slow_cancel,
	.cancel_all = slow_cancel_all,
	.destroy = slow_destroy};

void slow_source_release(struct slow_source *s)
{
	pthread_mutex_lock(&s->lock);
	s->release = true;
	pthread_mutex_unlock(&s->lock);
}

int64_t slow_source_asked(struct slow_source *s)
{
	pthread_mutex_lock(&s->lock);
	int64_t n = s->completed + s->in_flight;
	pthread_mutex_unlock(&s->lock);
	return n;
}

int slow_source_in_flight(struct slow_source *s)
{
	pthread_mutex_lock(&s->lock);
	int n = s->in_flight;
	pthread_mutex_unlock(&s->lock);
	return n;
}

struct slow_source *add_slow_source(struct stk_context *ctx, int64_t latency_ns)
{
	struct slow_source *s = calloc(1, sizeof *s);
	const struct test_jpeg j = {.width = 48, .height = 40, .components = 3, .quality = 80, .seed = 3};
	s->io = stk__storage_io(ctx->storage);
	s->file = test_jpeg_make(&j);
	s->latency_ns = latency_ns;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
	assert_int_equal(stk__io_add_source(stk__storage_io(ctx->storage), &slow_ops, s, NULL), STK_OK);
	return s;
}

struct stk_pipeline *slow_pipeline_with(struct stk_context *ctx, int files, bool shuffle, const struct stk_pipeline_config *more)
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

struct stk_pipeline *slow_pipeline(struct stk_context *ctx, int files, int32_t batch, bool shuffle)
{
	return slow_pipeline_with(ctx, files, shuffle, &(struct stk_pipeline_config){.batch_size = batch});
}

struct stk_context *two_workers(void)
{
	struct stk_context *ctx;
	const struct stk_context_config c = {.size = sizeof c, .threads = 2};
	assert_int_equal(stk_context_create(&c, &ctx, NULL), STK_OK);
	return ctx;
}
