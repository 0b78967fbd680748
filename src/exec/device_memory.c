/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/device_memory.h"

#include "base/memory.h"
#include "codec/jpeg_gpu/jpeg_gpu.h"

#include <stdatomic.h>

/* GUARD: unused bytes at the end of a block. Without them, a piece at the beginning of the next allocation could seem adjacent to the last piece of this
 * block, and both would be merged into one copy. */
enum { ALIGN = 256, SLACK = 64, LEAST = 1 << 20, GUARD = 8192 };
_Static_assert((int)GUARD > (int)STK_JPEG_GPU_GAP, "files in two blocks would travel in one copy");

struct stk_device_block {
	struct stk_device_block *next;
	uintptr_t at;
	size_t size;
};

void stk__device_memory_init(struct stk_device_memory *m, struct stk_gpu_device *dev, bool pinned, _Atomic size_t *largest_batch)
{
	*m = (struct stk_device_memory){.dev = dev, .pinned = pinned, .largest_batch = largest_batch};
	pthread_mutex_init(&m->lock, NULL);
}

static void free_blocks(struct stk_device_memory *m)
{
	bool entered = m->blocks && !stk__gpu_enter(m->dev, NULL);
	while (m->blocks) {
		struct stk_device_block *b = m->blocks;
		m->blocks = b->next;
		if (entered && m->pinned)
			stk__gpu_host_retire(m->dev, (void *)b->at, b->size);
		else if (entered)
			stk__gpu_retire(m->dev, b->at, b->size);
		stk__free(b);
	}
	if (entered)
		stk__gpu_leave(m->dev);
	m->total_bytes = 0;
}

void stk__device_memory_destroy(struct stk_device_memory *m)
{
	if (!m->dev)
		return;
	free_blocks(m);
	pthread_mutex_destroy(&m->lock);
}

static enum stk_status add_block(struct stk_device_memory *m, size_t size, struct stk_error *err)
{
	struct stk_device_block *b = stk__alloc(sizeof *b);
	if (!b)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	enum stk_status s = stk__gpu_enter(m->dev, err);
	if (s) {
		stk__free(b);
		return s;
	}
	void *host = NULL;
	stk_gpu_ptr device = 0;
	s = m->pinned ? stk__gpu_host_alloc(m->dev, size + GUARD, &host, err) : stk__gpu_alloc(m->dev, size + GUARD, &device, err);
	stk__gpu_leave(m->dev);
	if (s) {
		stk__free(b);
		return s;
	}
	*b = (struct stk_device_block){m->blocks, m->pinned ? (uintptr_t)host : (uintptr_t)device, size};
	m->blocks = b;
	m->used = 0;
	m->total_bytes += size;
	return STK_OK;
}

uintptr_t stk__device_memory_take(struct stk_device_memory *m, size_t size, struct stk_error *err)
{
	uintptr_t at = 0;
	size = (size + SLACK + ALIGN - 1) / ALIGN * ALIGN;
	pthread_mutex_lock(&m->lock);
	m->taken_bytes += size;
	size_t larger = m->total_bytes > LEAST ? m->total_bytes : LEAST; /* doubles the memory, so that it grows in few steps */
	if (!m->blocks && larger < *m->largest_batch)
		larger = *m->largest_batch;
	enum stk_status s = STK_OK;
	if (!m->blocks || m->used + size > m->blocks->size)
		s = add_block(m, size > larger ? size : larger, err);
	if (s == STK_NO_MEMORY && size < larger) { /* takes what this sample needs */
		*err = (struct stk_error){0};
		s = add_block(m, size, err);
	}
	if (s == STK_OK) {
		at = m->blocks->at + m->used;
		m->used += size;
	}
	pthread_mutex_unlock(&m->lock);
	return at;
}

/* Raises *largest_batch to what this batch has taken plus a quarter, if that is more. Returns the new value. */
static size_t update_largest_batch(struct stk_device_memory *m)
{
	size_t wanted = m->taken_bytes + m->taken_bytes / 4, largest = atomic_load(m->largest_batch);
	while (wanted > largest && !atomic_compare_exchange_weak(m->largest_batch, &largest, wanted)) {
	}
	return wanted > largest ? wanted : largest;
}

void stk__device_memory_reset(struct stk_device_memory *m)
{
	size_t wanted = update_largest_batch(m);
	if (m->blocks && m->blocks->next && m->blocks->size < m->taken_bytes) { /* older blocks stay if the newest is large enough */
		free_blocks(m);
		if (add_block(m, wanted, NULL)) {
			/* the next stk__device_memory_take tries again and reports the error */
		}
	}
	m->used = m->taken_bytes = 0;
}
