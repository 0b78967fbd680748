/* SPDX-License-Identifier: Apache-2.0
 * Buffers by size class, four to an octave, so that files of similar size share them and at most a fifth is unused. */
#include "io/buffer.h"

#include "base/memory.h"

#include <assert.h>

enum { SLACK = 64, SMALLEST = 4096, WINDOW = 256, IDLE_BYTES = 8 << 20 };

struct stk_buffer {
	struct stk_buffer *next; /* idle */
	size_t capacity;
	int size_class;
	alignas(STK_CACHE_LINE) uint8_t data[];
};

static size_t class_capacity(int size_class)
{
	return ((size_t)SMALLEST + (size_t)SMALLEST / 4 * (size_t)(size_class % 4)) << (size_class / 4);
}

static int class_of(size_t size)
{
	int octave = 0;
	while (octave < STK_BUFFER_CLASSES / 4 - 16 && (size_t)SMALLEST << (octave + 1) <= size)
		octave++;
	int size_class = octave * 4;
	while (class_capacity(size_class) < size)
		size_class++;
	return size_class;
}

void stk__buffer_pool_init(struct stk_buffer_pool *p)
{
	*p = (struct stk_buffer_pool){0};
	pthread_mutex_init(&p->lock, NULL);
}

/* Unlinks idle buffers, the largest first, until the pool holds at most `budget` bytes. Returns them as a list. */
static struct stk_buffer *trim(struct stk_buffer_pool *p, size_t budget)
{
	struct stk_buffer *out = NULL;
	for (int c = STK_BUFFER_CLASSES - 1; c >= 0 && p->held > budget; c--)
		while (p->idle[c] && p->held > budget) {
			struct stk_buffer *b = p->idle[c];
			p->idle[c] = b->next;
			p->held -= b->capacity;
			b->next = out;
			out = b;
		}
	return out;
}

static void free_list(struct stk_buffer *b)
{
	while (b) {
		struct stk_buffer *next = b->next;
		stk__free(b);
		b = next;
	}
}

void stk__buffer_pool_destroy(struct stk_buffer_pool *p)
{
	assert(p->in_use == 0);
	free_list(trim(p, 0));
	pthread_mutex_destroy(&p->lock);
}

/* What was in use at the same time lately, and some idle buffers of each size that files commonly have: with less, sizes that alternate would be
 * allocated and freed for ever. */
static size_t budget(const struct stk_buffer_pool *p)
{
	return (p->window_peak > p->last_peak ? p->window_peak : p->last_peak) + IDLE_BYTES;
}

/* With the lock held. Counts a buffer of `capacity` as taken; what the budget no longer covers is returned to be freed. */
static struct stk_buffer *count_take(struct stk_buffer_pool *p, size_t capacity)
{
	p->in_use += capacity;
	if (p->in_use > p->window_peak)
		p->window_peak = p->in_use;
	if (++p->takes < WINDOW)
		return NULL;
	p->takes = 0;
	p->last_peak = p->window_peak;
	p->window_peak = p->in_use;
	return trim(p, budget(p));
}

struct stk_buffer *stk__buffer_pool_take(struct stk_buffer_pool *p, size_t size)
{
	if (size > SIZE_MAX / 8)
		return NULL;
	int c = class_of(size);
	size_t capacity = class_capacity(c);
	pthread_mutex_lock(&p->lock);
	struct stk_buffer *b = p->idle[c], *surplus;
	if (b)
		p->idle[c] = b->next;
	else
		p->held += capacity;
	surplus = count_take(p, capacity);
	if (p->held > p->peak_held)
		p->peak_held = p->held;
	pthread_mutex_unlock(&p->lock);
	free_list(surplus);
	if (b)
		return b;
	b = stk__alloc(sizeof *b + capacity + SLACK);
	if (b) {
		b->capacity = capacity;
		b->size_class = c;
		return b;
	}
	pthread_mutex_lock(&p->lock);
	p->held -= capacity;
	p->in_use -= capacity;
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

void stk__buffer_pool_give(struct stk_buffer_pool *p, struct stk_buffer *b)
{
	pthread_mutex_lock(&p->lock);
	p->in_use -= b->capacity;
	b->next = p->idle[b->size_class];
	p->idle[b->size_class] = b;
	struct stk_buffer *surplus = trim(p, budget(p));
	pthread_mutex_unlock(&p->lock);
	free_list(surplus);
}

uint8_t *stk__buffer_data(struct stk_buffer *b)
{
	return b->data;
}

size_t stk__buffer_capacity(const struct stk_buffer *b)
{
	return b->capacity;
}
