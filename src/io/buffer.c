/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools buffers by size class, four classes to an octave, so that files of similar size share buffers. From SMALLEST bytes on, a new buffer is at most a
 * quarter larger than requested. */
#include "io/buffer.h"

#include "base/memory.h"

#include <stdatomic.h>

enum {
	SLACK = 64,
	SMALLEST = 4096,
	WINDOW = 256, /* minimum number of takes in a window, over which the peak use is measured */
	TURNS = 8,    /* a window also has at least TURNS takes for each buffer that was in use at its peak */
	LARGER = 4,   /* number of classes by which an idle buffer may be too large for a request that gets it; four are a factor of two */
	SPARE = 8 << 20 /* number of bytes of idle buffers that may be kept in addition to the peak use */
};

struct stk_buffer {
	struct stk_buffer_pool *pool;
	struct stk_buffer *newer, *older; /* links idle buffers of the class */
	uint64_t release_number;          /* number of the buffer's last release, counted over the pool */
	size_t capacity;
	int size_class;
	_Atomic bool shared; /* true if the buffer has two owners, until one of them releases it */
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

struct stk_buffer_pool *stk__buffer_pool_create(void)
{
	struct stk_buffer_pool *p = stk__calloc(1, sizeof *p);
	if (p)
		pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void unlink_idle(struct stk_buffer_pool *p, struct stk_buffer *b)
{
	*(b->newer ? &b->newer->older : &p->newest[b->size_class]) = b->older;
	*(b->older ? &b->older->newer : &p->oldest[b->size_class]) = b->newer;
}

static void link_idle(struct stk_buffer_pool *p, struct stk_buffer *b)
{
	b->release_number = p->releases++;
	b->newer = NULL;
	b->older = p->newest[b->size_class];
	*(b->older ? &b->older->newer : &p->oldest[b->size_class]) = b;
	p->newest[b->size_class] = b;
}

/* Unlinks idle buffers, in the order of their release, until the pool holds at most `budget` bytes. Returns them as a list linked by `older`. */
static struct stk_buffer *trim(struct stk_buffer_pool *p, size_t budget)
{
	struct stk_buffer *out = NULL;
	while (p->held > budget) {
		struct stk_buffer *b = NULL;
		for (int c = 0; c < STK_BUFFER_CLASSES; c++)
			if (p->oldest[c] && (!b || p->oldest[c]->release_number < b->release_number))
				b = p->oldest[c];
		if (!b)
			break;
		unlink_idle(p, b);
		p->held -= b->capacity;
		b->older = out;
		out = b;
	}
	return out;
}

static size_t mapped_bytes(size_t capacity)
{
	return sizeof(struct stk_buffer) + capacity + SLACK;
}

/* Frees the buffers of a list linked by `older`. Each buffer is a mapping of its own, so its memory goes back to the system at once. malloc would keep some of
 * it for each thread, which adds up over the many threads that read. */
static void free_list(struct stk_buffer *b)
{
	while (b) {
		struct stk_buffer *next = b->older;
		stk__unmap(b, mapped_bytes(b->capacity));
		b = next;
	}
}

static void destroy(struct stk_buffer_pool *p)
{
	pthread_mutex_destroy(&p->lock);
	stk__free(p);
}

void stk__buffer_pool_close(struct stk_buffer_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->closed = true;
	struct stk_buffer *idle = trim(p, 0);
	bool last = !p->count;
	pthread_mutex_unlock(&p->lock);
	free_list(idle);
	if (last)
		destroy(p);
}

/* Returns the budget in bytes for all buffers, in use or idle. Sizes vary, so an idle buffer does not always fit; with SPARE bytes more than the peak use,
 * nearly all takes find one. */
static size_t budget(const struct stk_buffer_pool *p)
{
	size_t peak = p->window_peak > p->last_peak ? p->window_peak : p->last_peak;
	return peak + SPARE;
}

static struct stk_buffer *find_idle(struct stk_buffer_pool *p, int size_class)
{
	for (int c = size_class; c <= size_class + LARGER && c < STK_BUFFER_CLASSES; c++)
		if (p->newest[c])
			return p->newest[c];
	return NULL;
}

/* Counts a buffer of `capacity` bytes as in use. If this ends a window of takes, begins the next window, and returns the idle buffers beyond the budget,
 * which the caller frees. Call with the lock held. */
static struct stk_buffer *count_take(struct stk_buffer_pool *p, size_t capacity)
{
	p->in_use += capacity;
	if (p->in_use > p->window_peak)
		p->window_peak = p->in_use;
	if (++p->count > p->window_count)
		p->window_count = p->count;
	if (++p->takes < WINDOW || p->takes < TURNS * p->window_count)
		return NULL;
	p->takes = 0;
	p->last_peak = p->window_peak;
	p->window_peak = p->in_use;
	p->window_count = p->count;
	return trim(p, budget(p));
}

struct stk_buffer *stk__buffer_pool_take(struct stk_buffer_pool *p, size_t size)
{
	if (size > SIZE_MAX / 8)
		return NULL;
	int c = class_of(size);
	size_t capacity = class_capacity(c);
	pthread_mutex_lock(&p->lock);
	struct stk_buffer *b = find_idle(p, c);
	if (b)
		unlink_idle(p, b);
	else
		p->held += capacity;
	struct stk_buffer *surplus = count_take(p, b ? b->capacity : capacity);
	if (!b && !surplus)
		surplus = trim(p, budget(p));
	if (p->held > p->peak_held)
		p->peak_held = p->held;
	pthread_mutex_unlock(&p->lock);
	free_list(surplus);
	if (b)
		return b;
	b = stk__map(mapped_bytes(capacity));
	if (b) {
		b->pool = p;
		b->shared = false;
		b->capacity = capacity;
		b->size_class = c;
		return b;
	}
	pthread_mutex_lock(&p->lock);
	p->held -= capacity;
	p->in_use -= capacity;
	p->count--;
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void return_to_pool(struct stk_buffer_pool *p, struct stk_buffer *b)
{
	pthread_mutex_lock(&p->lock);
	p->in_use -= b->capacity;
	p->count--;
	link_idle(p, b);
	struct stk_buffer *surplus = trim(p, p->closed ? 0 : budget(p));
	bool last = p->closed && !p->count;
	pthread_mutex_unlock(&p->lock);
	free_list(surplus);
	if (last)
		destroy(p);
}

bool stk__buffer_share(struct stk_buffer *b)
{
	return !atomic_exchange(&b->shared, true);
}

void stk__buffer_release(struct stk_buffer *b)
{
	if (b && !atomic_exchange(&b->shared, false))
		return_to_pool(b->pool, b);
}

uint8_t *stk__buffer_data(struct stk_buffer *b)
{
	return b->data;
}

size_t stk__buffer_rounded(size_t size)
{
	return size > SIZE_MAX / 8 ? size : class_capacity(class_of(size));
}

size_t stk__buffer_capacity(const struct stk_buffer *b)
{
	return b->capacity;
}
