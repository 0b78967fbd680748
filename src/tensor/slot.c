/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/slot.h"

#include <string.h>
#include <unistd.h>

struct stk_slot_chunk {
	struct stk_slot_chunk *next;
	_Alignas(STK_CACHE_LINE) uint8_t data[];
};

static size_t round_up(size_t n)
{
	return (n + STK_CACHE_LINE - 1) & ~(size_t)(STK_CACHE_LINE - 1);
}

static bool same_shape(const struct stk_desc *a, const struct stk_desc *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       memcmp(a->shape, b->shape, (size_t)(a->ndim > 0 ? a->ndim : 0) * sizeof *a->shape) == 0;
}

/* ---- ring ---- */

static void destroy_slot(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	if (r->on_free && s->owner_data)
		r->on_free(s->owner_data);
	while (s->chunks) {
		struct stk_slot_chunk *next = s->chunks->next;
		stk__free(s->chunks);
		s->chunks = next;
	}
	for (int32_t v = 0; s->values && v < r->n_values; v++)
		stk__free(s->values[v].samples);
	stk__free(s->values);
	stk__unmap(s->block, s->capacity);
	pthread_mutex_destroy(&s->lock);
	stk__free(s);
}

struct stk_ring *stk__ring_create(const struct stk_desc *values, int32_t n_values, int32_t batch, int32_t limit)
{
	struct stk_ring *r = stk__calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->own = stk__calloc((size_t)n_values + 1, 2 * sizeof *r->own);
	if (!r->own) {
		stk__free(r);
		return NULL;
	}
	r->refs = 1;
	r->process = getpid();
	pthread_mutex_init(&r->lock, NULL);
	r->expected = r->own + n_values;
	memcpy(r->own, values, (size_t)n_values * sizeof *values);
	memcpy(r->expected, values, (size_t)n_values * sizeof *values);
	r->known = r->own;
	r->n_values = n_values;
	r->batch = batch;
	r->limit = limit;
	return r;
}

void stk__ring_unref(struct stk_ring *r)
{
	if (!r || atomic_fetch_sub(&r->refs, 1) > 1)
		return;
	while (r->free) {
		struct stk_slot *next = r->free->next_free;
		destroy_slot(r->free);
		r->free = next;
	}
	pthread_mutex_destroy(&r->lock);
	stk__free(r->own);
	stk__free(r);
}

void stk__ring_disown(struct stk_ring *r)
{
	pthread_mutex_lock(&r->lock);
	r->on_return = NULL;
	pthread_mutex_unlock(&r->lock);
	stk__ring_unref(r);
}

static struct stk_slot *make_slot(struct stk_ring *r)
{
	struct stk_slot *s = stk__calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->ring = r;
	pthread_mutex_init(&s->lock, NULL);
	s->values = stk__calloc((size_t)r->n_values, sizeof *s->values);
	bool ok = s->values != NULL;
	for (int32_t v = 0; ok && v < r->n_values; v++)
		ok = (s->values[v].samples = stk__calloc((size_t)r->batch, sizeof *s->values[v].samples)) != NULL;
	if (!ok) {
		destroy_slot(s);
		return NULL;
	}
	r->made++;
	return s;
}

/* Regions by what is expected now, one allocation for all of them and the room. */
static bool lay_out(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	size_t fixed = 0;
	for (int32_t v = 0; v < r->n_values; v++) {
		struct stk_slot_value *val = &s->values[v];
		val->expected = r->expected[v];
		val->sample_bytes = stk_desc_bytes(&val->expected);
		fixed += val->sample_bytes > 0 ? round_up((size_t)val->sample_bytes * (size_t)r->batch) : 0;
	}
	while (s->chunks) {
		struct stk_slot_chunk *next = s->chunks->next;
		stk__free(s->chunks);
		s->chunks = next;
	}
	size_t need = fixed + r->room;
	if (need > s->capacity || need + (1 << 20) < s->capacity / 2) {
		r->bytes -= s->capacity;
		stk__unmap(s->block, s->capacity);
		s->block = stk__map(need);
		s->capacity = s->block ? need : 0;
		r->bytes += s->capacity;
		if (!s->block)
			return false;
	}
	s->fixed = fixed;
	atomic_store(&s->room_used, 0);
	uint8_t *p = s->block;
	for (int32_t v = 0; v < r->n_values; v++) {
		struct stk_slot_value *val = &s->values[v];
		val->region = val->sample_bytes > 0 ? p : NULL;
		if (val->region) /* where nothing is known beforehand there is no block yet */
			p += round_up((size_t)val->sample_bytes * (size_t)r->batch);
		memset(val->samples, 0, (size_t)r->batch * sizeof *val->samples);
	}
	return true;
}

struct stk_slot *stk__ring_take(struct stk_ring *r, bool *no_memory)
{
	*no_memory = false;
	pthread_mutex_lock(&r->lock);
	struct stk_slot *s = r->free;
	if (s)
		r->free = s->next_free;
	else if (r->made < r->limit) {
		s = make_slot(r);
		*no_memory = !s;
	}
	if (s && !lay_out(s)) {
		s->next_free = r->free;
		r->free = s;
		s = NULL;
		*no_memory = true;
	}
	if (s) {
		atomic_fetch_add(&r->refs, 1);
		if (++r->out > r->peak_out)
			r->peak_out = r->out;
	}
	pthread_mutex_unlock(&r->lock);
	return s;
}

void stk__slot_return(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	if (r->process != getpid())
		return;
	pthread_mutex_lock(&r->lock);
	s->next_free = r->free;
	r->free = s;
	r->out--;
	if (r->on_return) /* under the lock: disowning waits until the call has ended */
		r->on_return(r->owner);
	pthread_mutex_unlock(&r->lock);
	stk__ring_unref(r);
}

/* ---- placing ---- */

static uint8_t *take_room(struct stk_slot *s, size_t size)
{
	size = round_up(size ? size : 1);
	size_t at = atomic_fetch_add(&s->room_used, size);
	if (s->fixed + at + size <= s->capacity)
		return s->block + s->fixed + at;
	struct stk_slot_chunk *c = stk__alloc(sizeof *c + size);
	if (!c)
		return NULL;
	pthread_mutex_lock(&s->lock);
	c->next = s->chunks;
	s->chunks = c;
	pthread_mutex_unlock(&s->lock);
	return c->data;
}

bool stk__slot_place(struct stk_slot *s, int32_t v, int32_t i, const struct stk_desc *desc)
{
	struct stk_slot_value *val = &s->values[v];
	struct stk_tensor *t = &val->samples[i];
	t->desc = *desc;
	if (val->region && same_shape(desc, &val->expected)) {
		t->data = val->region + (size_t)i * (size_t)val->sample_bytes;
		return true;
	}
	int64_t bytes = stk_desc_bytes(desc);
	t->data = bytes < 0 ? NULL : take_room(s, (size_t)bytes);
	return t->data != NULL;
}

/* ---- settling ---- */

static bool make_dense(struct stk_slot *s, struct stk_slot_value *val, int32_t n, void **dense)
{
	size_t bytes = (size_t)stk_desc_bytes(&val->samples[0].desc);
	bool lies = true;
	for (int32_t i = 1; i < n && lies; i++)
		lies = (uint8_t *)val->samples[i].data == (uint8_t *)val->samples[0].data + (size_t)i * bytes;
	if (!lies) {
		uint8_t *to =
			val->region && same_shape(&val->samples[0].desc, &val->expected) ? val->region : take_room(s, bytes * (size_t)n);
		if (!to)
			return false;
		for (int32_t i = 0; i < n; i++) { /* samples of a region only ever move down, after one was left out */
			memmove(to + (size_t)i * bytes, val->samples[i].data, bytes);
			val->samples[i].data = to + (size_t)i * bytes;
		}
	}
	*dense = val->samples[0].data;
	return true;
}

bool stk__slot_settle(struct stk_slot *s, int32_t v, int32_t n, void **dense)
{
	struct stk_slot_value *val = &s->values[v];
	struct stk_ring *r = s->ring;
	bool uniform = n > 0;
	for (int32_t i = 1; i < n && uniform; i++)
		uniform = same_shape(&val->samples[i].desc, &val->samples[0].desc);
	*dense = NULL;
	bool ok = uniform && make_dense(s, val, n, dense);
	pthread_mutex_lock(&r->lock);
	if (stk_desc_bytes(&r->known[v]) < 0 && n > 0) {
		r->expected[v] = r->known[v];
		if (uniform)
			r->expected[v] = val->samples[0].desc;
	}
	size_t used = atomic_load(&s->room_used), wanted = used + used / 8;
	if (wanted > r->room)
		r->room = wanted;
	else if (wanted < r->room / 4)
		r->room -= r->room / 64;
	pthread_mutex_unlock(&r->lock);
	return ok;
}
