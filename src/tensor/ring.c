/* SPDX-License-Identifier: Apache-2.0
 * Creates a ring, and frees it after its owner and the holders of its parts have dropped it. */
#include "tensor/slot_impl.h"

#include <unistd.h>

/* ---- creating and freeing ---- */

struct stk_ring *stk__ring_create(
	const struct stk_desc *values, int32_t n_values, int32_t batch, int32_t limit, bool hard, size_t held_limit)
{
	struct stk_ring *r = stk__calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->values = stk__calloc((size_t)n_values + 1, sizeof *r->values);
	if (!r->values) {
		stk__free(r);
		return NULL;
	}
	r->refs = 1;
	r->process = getpid();
	pthread_mutex_init(&r->lock, NULL);
	stk__block_source_init(&r->source);
	for (int32_t v = 0; v < n_values; v++)
		r->values[v].known = r->values[v].expected = values[v];
	r->n_values = n_values;
	r->batch = batch;
	r->limit = limit;
	r->short_at = INT32_MAX;
	r->limit_is_hard = hard;
	for (int space = 0; space < STK_SPACES; space++) {
		r->kept_memory[space].limit = held_limit;
		r->kept_memory[space].measured_bytes = held_limit ? SIZE_MAX : 0;
	}
	return r;
}

enum stk_status stk__ring_on_gpu(struct stk_ring *r, struct stk_gpu_device *dev, const bool *on_gpu, struct stk_error *err)
{
	for (int32_t v = 0; v < r->n_values; v++)
		r->values[v].on_gpu = on_gpu[v];
	enum stk_status s = stk__gpu_enter(dev, err);
	if (s)
		return s;
	s = stk__gpu_stream_create(dev, STK_GPU_LOW, &r->stream, err);
	stk__gpu_leave(dev);
	r->source.dev = s ? NULL : stk__gpu_device_ref(dev);
	return s;
}

void stk__ring_fix(struct stk_ring *r)
{
	r->fixed = true;
}

void stk__blocks_free(struct stk_ring *r, struct stk_block *list)
{
	while (list) {
		struct stk_block *next = list->next;
		stk__block_free(&r->source, list);
		list = next;
	}
}

void stk__ring_unref(struct stk_ring *r)
{
	if (!r || atomic_fetch_sub(&r->refs, 1) > 1)
		return;
	while (r->slots) {
		struct stk_slot *next = r->slots->next;
		stk__slot_destroy(r->slots);
		r->slots = next;
	}
	for (int32_t v = 0; v < r->n_values; v++)
		stk__blocks_free(r, r->values[v].spare_blocks);
	stk__block_source_destroy(&r->source);
	if (r->source.dev && !stk__gpu_enter(r->source.dev, NULL)) {
		stk__gpu_stream_destroy(r->source.dev, r->stream);
		stk__gpu_leave(r->source.dev);
	}
	stk__gpu_device_close_soon(r->source.dev); /* this thread may have dropped the last tensor, and hold Python's lock */
	pthread_mutex_destroy(&r->lock);
	stk__free(r->values);
	stk__free(r);
}

void stk__ring_close(struct stk_ring *r)
{
	atomic_store(&r->source.closed, true);
}

void stk__ring_release_owner(struct stk_ring *r)
{
	struct stk_block *spare = NULL;
	stk__ring_close(r);
	pthread_mutex_lock(&r->lock);
	r->on_return = NULL;
	r->disowned = true;
	for (int32_t v = 0; v < r->n_values; v++)
		stk__take_spare_blocks(r, v, &spare);
	pthread_mutex_unlock(&r->lock);
	stk__blocks_free(r, spare);
	stk__ring_unref(r);
}

void stk__take_spare_blocks(struct stk_ring *r, int32_t v, struct stk_block **list)
{
	struct stk_ring_value *val = &r->values[v];
	while (val->spare_blocks) {
		struct stk_block *b = val->spare_blocks;
		val->spare_blocks = b->next;
		b->next = *list;
		*list = b;
		atomic_fetch_sub(&r->bytes, b->capacity);
	}
	val->n_spare_blocks = 0;
}
