/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/block.h"

#include "base/memory.h"

struct stk_chunk {
	struct stk_chunk *next;
	uint8_t *data;
	size_t size;
	void (*release)(void *owner); /* NULL: the block allocated `data` itself */
	void *owner;
};

size_t stk__whole_lines(size_t bytes)
{
	return (bytes + STK_CACHE_LINE - 1) & ~(size_t)(STK_CACHE_LINE - 1);
}

/* ---- the consumer's streams ---- */

int32_t stk__uses_add(struct stk_uses *u, stk_gpu_stream stream)
{
	/* Handles 0 and 1 mean the default stream; 2 means the default stream of the calling thread, and events are recorded on other threads, for which it would be
	 * another stream. The default stream waits for these streams of all threads. */
	if ((uintptr_t)stream <= 2)
		stream = NULL;
	for (int32_t i = 0; i < u->n_uses; i++)
		if (u->uses[i].stream == stream)
			return i;
	if (u->n_uses == STK_SLOT_STREAMS)
		return -1;
	u->uses[u->n_uses].stream = stream;
	return u->n_uses++;
}

/* Records *event on the stream, and first creates it if it is NULL. If the event cannot be created, waits for the stream instead. Returns false if the event
 * cannot be recorded, as on a stream that the user has destroyed, whose work may still run. */
static bool note_stream(struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_event *event)
{
	if (!*event && stk__gpu_event_create(dev, false, event, NULL))
		*event = NULL;
	return !(*event ? stk__gpu_event_record(dev, *event, stream, NULL) : stk__gpu_stream_sync(dev, stream, NULL));
}

bool stk__uses_record(struct stk_gpu_device *dev, struct stk_uses *u)
{
	if (!u->n_uses)
		return true;
	if (stk__gpu_enter(dev, NULL)) /* a forked child, or a lost device: no work of this process runs on the device */
		return true;
	bool free = true;
	for (int32_t i = 0; i < u->n_uses && free; i++)
		free = !stk__gpu_stream_captures(dev, u->uses[i].stream);
	for (int32_t i = 0; i < u->n_uses && free; i++)
		if (!note_stream(dev, u->uses[i].stream, &u->uses[i].event)) {
			free = !stk__gpu_stream_captures(dev, u->uses[i].stream); /* a capture may have begun meanwhile */
			u->unrecorded |= free;
		}
	stk__gpu_leave(dev);
	if (free) {
		u->n_waits = u->n_uses;
		u->n_uses = 0;
	}
	return free;
}

bool stk__uses_ended(struct stk_gpu_device *dev, struct stk_uses *u)
{
	bool done = !u->unrecorded;
	if (!u->n_waits || stk__gpu_enter(dev, NULL))
		return true;
	for (int32_t i = 0; i < u->n_waits && done; i++)
		if (u->uses[i].event && stk__gpu_event_query(dev, u->uses[i].event, &done, NULL))
			done = false; /* the next writer's wait for the event reports the error */
	stk__gpu_leave(dev);
	if (done)
		u->n_waits = 0;
	return done;
}

void stk__uses_free(struct stk_gpu_device *dev, struct stk_uses *u)
{
	bool any = false;
	for (int i = 0; i < STK_SLOT_STREAMS; i++)
		any |= u->uses[i].event != NULL;
	if (!any || stk__gpu_enter(dev, NULL))
		return;
	for (int i = 0; i < STK_SLOT_STREAMS; i++)
		stk__gpu_event_destroy(dev, u->uses[i].event);
	stk__gpu_leave(dev);
}

/* ---- GPU memory ---- */

/* Call without the lock. */
static uint8_t *gpu_take(struct stk_block_source *source, size_t size)
{
	stk_gpu_ptr p = 0;
	struct stk_error err = {0};
	enum stk_status status = stk__gpu_enter(source->dev, &err);
	if (!status) {
		status = stk__gpu_alloc(source->dev, size, &p, &err);
		stk__gpu_leave(source->dev);
	}
	if (!status)
		return (uint8_t *)(uintptr_t)p;
	pthread_mutex_lock(&source->shared.lock);
	source->gpu_error = err;
	pthread_mutex_unlock(&source->shared.lock);
	return NULL;
}

/* Retires the memory, because freeing it would wait for the user's work on the GPU; or has it freed soon, if no pipeline uses the source any more. */
static void gpu_give(struct stk_block_source *source, uint8_t *p, size_t size)
{
	if (!p || stk__gpu_enter(source->dev, NULL))
		return;
	if (atomic_load(&source->closed))
		stk__gpu_free_soon(source->dev, (stk_gpu_ptr)(uintptr_t)p, size);
	else
		stk__gpu_retire(source->dev, (stk_gpu_ptr)(uintptr_t)p, size);
	stk__gpu_leave(source->dev);
}

enum { SHARED_BYTES = 4 << 20, SHARED_ALIGN = 512 };

struct stk_shared {
	uint8_t *data;
	size_t used;
	int32_t pieces; /* pieces in use, plus one while the allocation is being filled */
};

static struct stk_shared *shared_make(struct stk_block_source *source)
{
	struct stk_shared *s = stk__calloc(1, sizeof *s);
	if (s && !(s->data = gpu_take(source, SHARED_BYTES))) {
		stk__free(s);
		return NULL;
	}
	if (s)
		s->pieces = 1;
	return s;
}

static void shared_free(struct stk_block_source *source, struct stk_shared *s)
{
	if (s)
		gpu_give(source, s->data, SHARED_BYTES);
	stk__free(s);
}

/* Returns a piece of `size` bytes of the open allocation, and sets *of to it. NULL: none is open, or it lacks the space. Call with the lock held. */
static uint8_t *shared_piece(struct stk_shared_pool *pool, size_t size, struct stk_shared **of)
{
	struct stk_shared *s = pool->open;
	if (!s || s->used + size > SHARED_BYTES)
		return NULL;
	uint8_t *at = s->data + s->used;
	s->used += size;
	s->pieces++;
	*of = s;
	return at;
}

/* Counts one piece of allocation s as no longer in use. Returns s if the caller has to free it, else NULL. Call with the lock held. */
static struct stk_shared *shared_unref(struct stk_shared *s)
{
	return s && --s->pieces == 0 ? s : NULL;
}

static uint8_t *shared_take(struct stk_block_source *source, size_t size, struct stk_shared **of)
{
	struct stk_shared_pool *pool = &source->shared;
	size = (size + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
	pthread_mutex_lock(&pool->lock);
	uint8_t *at = shared_piece(pool, size, of);
	pthread_mutex_unlock(&pool->lock);
	if (at)
		return at;
	struct stk_shared *allocation = shared_make(source);
	if (!allocation)
		return NULL;
	pthread_mutex_lock(&pool->lock);
	struct stk_shared *full = shared_unref(pool->open);
	pool->open = allocation;
	at = shared_piece(pool, size, of);
	pthread_mutex_unlock(&pool->lock);
	shared_free(source, full);
	return at;
}

static void shared_give(struct stk_block_source *source, struct stk_shared *s)
{
	pthread_mutex_lock(&source->shared.lock);
	struct stk_shared *empty = shared_unref(s);
	pthread_mutex_unlock(&source->shared.lock);
	shared_free(source, empty);
}

void stk__block_source_init(struct stk_block_source *source)
{
	*source = (struct stk_block_source){0};
	pthread_mutex_init(&source->shared.lock, NULL);
}

void stk__block_source_destroy(struct stk_block_source *source)
{
	shared_free(source, source->shared.open);
	pthread_mutex_destroy(&source->shared.lock);
}

/* ---- blocks ---- */

static void take_data(struct stk_block_source *source, struct stk_block *b, size_t size)
{
	if (b->space == STK_SPACE_HOST)
		b->data = size <= STK_BLOCK_SMALL ? stk__alloc(size) : stk__map(size);
	else
		b->data = size <= STK_BLOCK_SMALL ? shared_take(source, size, &b->shared) : gpu_take(source, size);
	b->capacity = b->data ? size : 0;
}

static void give_data(struct stk_block_source *source, struct stk_block *b)
{
	if (b->space == STK_SPACE_HOST && b->capacity <= STK_BLOCK_SMALL)
		stk__free(b->data);
	else if (b->space == STK_SPACE_HOST)
		stk__unmap(b->data, b->capacity);
	else if (b->shared)
		shared_give(source, b->shared);
	else
		gpu_give(source, b->data, b->capacity);
	b->data = NULL;
	b->shared = NULL;
	b->capacity = 0;
}

static void give_chunks(struct stk_block_source *source, struct stk_block *b)
{
	struct stk_chunk *c = atomic_exchange(&b->chunks, NULL);
	while (c) {
		struct stk_chunk *next = c->next;
		if (c->release)
			c->release(c->owner);
		else if (b->space == STK_SPACE_HOST)
			stk__free(c->data);
		else
			gpu_give(source, c->data, c->size);
		stk__free(c);
		c = next;
	}
}

bool stk__block_resize(struct stk_block_source *source, struct stk_block *b, size_t fixed, size_t extra_bytes)
{
	size_t need = fixed + extra_bytes;
	give_chunks(source, b);
	b->fixed = fixed;
	atomic_store(&b->extra_used, 0);
	if (need <= b->capacity && need + STK_BLOCK_SMALL >= b->capacity / 2)
		return true;
	give_data(source, b);
	take_data(source, b, need);
	return b->data != NULL;
}

static void add_chunk(struct stk_block *b, struct stk_chunk *c)
{
	c->next = atomic_load(&b->chunks);
	while (!atomic_compare_exchange_weak(&b->chunks, &c->next, c)) {
	}
}

bool stk__block_adopt(struct stk_block *b, uint8_t *data, size_t size, void (*release)(void *owner), void *owner)
{
	struct stk_chunk *c = stk__alloc(sizeof *c);
	if (!c)
		return false;
	*c = (struct stk_chunk){.data = data, .size = size, .release = release, .owner = owner};
	add_chunk(b, c);
	return true;
}

uint8_t *stk__block_take(struct stk_block_source *source, struct stk_block *b, size_t size)
{
	size = stk__whole_lines(size ? size : 1);
	size_t at = atomic_fetch_add(&b->extra_used, size);
	if (b->fixed + at + size <= b->capacity)
		return b->data + b->fixed + at;
	struct stk_chunk *c = stk__alloc(sizeof *c);
	uint8_t *data = !c ? NULL : b->space == STK_SPACE_HOST ? stk__alloc(size) : gpu_take(source, size);
	if (!data) {
		stk__free(c);
		return NULL;
	}
	*c = (struct stk_chunk){.data = data, .size = size};
	add_chunk(b, c);
	return data;
}

static bool is_inside(const uint8_t *piece, size_t size, const uint8_t *begin, size_t capacity)
{
	return begin && piece >= begin && piece < begin + capacity && size <= (size_t)(begin + capacity - piece);
}

bool stk__block_has_piece(const struct stk_block *b, const uint8_t *piece, size_t size)
{
	bool found = is_inside(piece, size, b->data, b->capacity);
	for (const struct stk_chunk *c = atomic_load(&b->chunks); c && !found; c = c->next)
		found = is_inside(piece, size, c->data, c->size);
	return found;
}

size_t stk__block_bytes(const struct stk_block *b)
{
	size_t bytes = b->capacity;
	for (const struct stk_chunk *c = atomic_load(&b->chunks); c; c = c->next)
		bytes += c->size;
	return bytes;
}

void stk__block_free(struct stk_block_source *source, struct stk_block *b)
{
	if (!b)
		return;
	give_chunks(source, b);
	give_data(source, b);
	stk__uses_free(source->dev, &b->uses);
	stk__free(b);
}
