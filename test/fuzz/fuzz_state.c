/* SPDX-License-Identifier: Apache-2.0
 * States of pipelines: an accepted state can be saved again and gives the next batch; a refused state gives a message. */
#include "fuzz.h"

#include "stoker/stoker.h"

#include <stdlib.h>

enum { SAMPLES = 10, BATCH = 4 };

static enum stk_status pull(void *user, const struct stk_feed_request *request, struct stk_feed *feed, struct stk_error *err)
{
	static uint8_t one = 1;
	(void)user, (void)err;
	if (request->position >= SAMPLES)
		return STK_END;
	feed->tensors[0] = (struct stk_tensor){&one, {STK_UINT8, 1, {1}, ""}};
	return STK_OK;
}

static struct stk_pipeline *make(struct stk_context *ctx)
{
	struct stk_graph *g;
	struct stk_node in;
	struct stk_pipeline *p;
	const struct stk_source_callbacks callbacks = {.pull = pull, .per_sample = true};
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = BATCH, .device_id = -1};
	if (stk_graph_create(&g, NULL) || stk_graph_add(g, "external_source", NULL, 0, NULL, 0, NULL, &in, NULL) ||
		stk_graph_set_source(g, in, &callbacks, NULL) || stk_graph_output(g, in, NULL) || stk_pipeline_create(ctx, g, &c, &p, NULL))
		abort();
	stk_graph_destroy(g);
	return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct stk_context *ctx;
	const struct stk_context_config c = {.size = sizeof c, .threads = 1};
	struct stk_error err = {0};
	if (!ctx && stk_context_create(&c, &ctx, NULL))
		abort();
	struct stk_pipeline *p = make(ctx);
	enum stk_status s = stk_pipeline_restore(p, (const char *)data, size, &err);
	if (s && (err.code != s || !err.message[0]))
		abort();
	if (s == STK_OK) {
		char *text;
		struct stk_batch *b = NULL;
		if (stk_pipeline_save(p, &text, NULL) || stk_pipeline_next(p, &b, &err))
			abort();
		stk_batch_unref(&b);
		stk_text_free(text);
	}
	stk_pipeline_destroy(p);
	return 0;
}
