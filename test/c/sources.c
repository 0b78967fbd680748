/* SPDX-License-Identifier: Apache-2.0 */
#include "sources.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The tensors of one pull, which its release frees. */
struct pulled {
	struct source *source;
	uint8_t bytes[BATCH][2][BYTES];
};

/* Reads the pipeline's counters inside a callback, as the user's program or its garbage collector might. Aborts if there are none, or if there is a bad
 * sample. */
static void ask(const struct source *s)
{
	struct stk_counter counters[64];
	if (s->asks && (stk_pipeline_counters(s->asks, counters, 64) == 0 || stk_pipeline_bad_samples(s->asks)))
		abort();
}

static void release(void *user)
{
	struct pulled *p = user;
	ask(p->source);
	p->source->released++;
	memset(p->bytes, 0xdd, sizeof p->bytes);
	free(p);
}

static void give(struct pulled *p, struct stk_feed *feed, int32_t asked, int32_t i, int64_t epoch, int64_t position)
{
	for (int o = 0; o < 2; o++) {
		memset(p->bytes[i][o], (int)(epoch * 100 + position + o * 50), BYTES);
		feed->tensors[o * asked + i] = (struct stk_tensor){p->bytes[i][o], {STK_UINT8, 3, {HEIGHT, WIDTH, 1}, ""}};
	}
}

static enum stk_status spoil(const struct source *s, struct stk_feed *feed, struct stk_error *err)
{
	switch (s->fault) {
	case FAILS:
		*err = (struct stk_error){.code = STK_USER, .sample = -1, .epoch = -1, .offset = -1, .message = "the shop is closed"};
		return s->status ? s->status : STK_USER;
	case FAILS_SILENTLY:
		return STK_USER;
	case WRONG_DTYPE:
		feed->tensors[0].desc.dtype = STK_FLOAT;
		break;
	case WRONG_NDIM:
		feed->tensors[0].desc.ndim = 2;
		break;
	case NEGATIVE_SHAPE:
		feed->tensors[0].desc.shape[1] = -7;
		break;
	case TOO_MANY:
		feed->count = BATCH + 1;
		break;
	case TOO_FEW:
		feed->count = 0;
		break;
	default:
		break;
	}
	return STK_OK;
}

/* Returns the position that the request should have in the sequence of all shards. */
static int64_t place_of(const struct source *s, const struct stk_feed_request *q)
{
	int32_t shards = s->shards ? s->shards : 1;
	return (q->batch * shards + s->shard) * BATCH + (q->index < 0 ? 0 : q->index);
}

static enum stk_status pull(void *user, const struct stk_feed_request *q, struct stk_feed *feed, struct stk_error *err)
{
	struct source *s = user;
	if (!s->pulls++) {
		s->thread = pthread_self();
		s->one_thread = true;
	}
	ask(s);
	s->one_thread &= pthread_equal(s->thread, pthread_self()) != 0;
	usleep((useconds_t)s->delay_us);
	int32_t asked = feed->count, want = q->index < 0 ? q->count : 1;
	if (asked != want || (q->index >= 0) != s->per_sample || q->position != place_of(s, q))
		abort();
	int64_t left = s->samples - q->position;
	if (left <= 0) {
		s->pulls--; /* a failed pull has no tensors to release */
		return STK_END;
	}
	struct pulled *p = calloc(1, sizeof *p);
	p->source = s;
	int32_t n = asked < left ? asked : (int32_t)left;
	for (int32_t i = 0; i < n; i++)
		give(p, feed, asked, i, q->epoch, q->position + i);
	feed->count = n;
	feed->release = release;
	feed->release_user = p;
	enum stk_status status = STK_OK;
	if (s->fault && s->fault_at >= q->position && s->fault_at < q->position + n)
		status = spoil(s, feed, err);
	if (status) {
		s->pulls--;
		free(p);
	}
	return status;
}

static void reset(void *user, int64_t epoch)
{
	struct source *s = user;
	s->resets++;
	ask(s);
	s->last_reset = epoch;
}

static void destroy(void *user)
{
	((struct source *)user)->destroyed++;
}

/* ---- pipelines ---- */

struct stk_source_callbacks source_callbacks(struct source *s)
{
	return (struct stk_source_callbacks){.pull = pull,
		.reset = reset,
		.destroy = destroy,
		.user = s,
		.per_sample = s->per_sample,
		.seek = s->seek,
		.shards = s->shards,
		.shard_id = s->shard};
}

struct stk_pipeline *source_open(struct stk_context *ctx, struct source *s, const char *folder)
{
	struct stk_graph *g;
	struct stk_node in, flipped, file;
	struct stk_error err = {0};
	struct stk_pipeline *p = NULL;
	const struct stk_source_callbacks callbacks = source_callbacks(s);
	const struct stk_arg args[] = {stk_arg_int("num_outputs", 2), stk_arg_string("layout", "HWC"), stk_arg_int("dtype", STK_UINT8)};
	const struct stk_arg root[] = {stk_arg_string("file_root", folder), stk_arg_string("tail", "keep")};
	const struct stk_graph_options named = {.name = "shop"};
	assert_int_equal(stk_graph_create(&g, NULL), STK_OK);
	if (stk_graph_add(g, "external_source", NULL, 0, args, 3, &named, &in, &err) || stk_graph_set_source(g, in, &callbacks, &err) ||
		stk_graph_add(g, "flip", &in, 1, NULL, 0, NULL, &flipped, &err) || stk_graph_output(g, flipped, &err) ||
		stk_graph_output(g, (struct stk_node){in.op, 1}, &err))
		fail_msg("%s", err.message);
	if (folder && (stk_graph_add(g, "readers.file", NULL, 0, root, 2, NULL, &file, &err) ||
			      stk_graph_output(g, (struct stk_node){file.op, 1}, &err)))
		fail_msg("%s", err.message);
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = BATCH, .device_id = -1};
	if (stk_pipeline_create(ctx, g, &c, &p, &err))
		fail_msg("%s", err.message);
	stk_graph_destroy(g);
	return p;
}

struct stk_context *source_context(void)
{
	struct stk_context *ctx;
	const struct stk_context_config c = {.size = sizeof c, .threads = 2};
	assert_int_equal(stk_context_create(&c, &ctx, NULL), STK_OK);
	return ctx;
}

void source_assert_balanced(const struct source *s)
{
	assert_int_equal(s->destroyed, 1);
	assert_int_equal(s->released, s->pulls);
	assert_true(s->pulls == 0 || s->one_thread);
}

void source_assert_batch(struct stk_batch *b, int64_t epoch, int64_t position, int32_t count)
{
	assert_int_equal(stk_batch_size(b), count);
	assert_int_equal(stk_batch_epoch(b), epoch);
	for (int32_t i = 0; i < count; i++) {
		assert_int_equal(stk_batch_sample(b, i)->position, position + i);
		for (int o = 0; o < 2; o++) {
			const struct stk_tensor *t = &stk_batch_output(b, o)->samples[i];
			assert_int_equal(stk_desc_bytes(&t->desc), BYTES);
			for (int k = 0; k < BYTES; k++)
				assert_int_equal(((uint8_t *)t->data)[k], (uint8_t)(epoch * 100 + position + i + o * 50));
		}
	}
}
