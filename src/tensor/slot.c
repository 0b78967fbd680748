/* SPDX-License-Identifier: Apache-2.0
 * Makes the parts of a slot, places samples in it, and makes its writers wait for its readers. */
#include "tensor/slot_impl.h"

#include <string.h>

static bool same_shape(const struct stk_desc *a, const struct stk_desc *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       memcmp(a->shape, b->shape, (size_t)(a->ndim > 0 ? a->ndim : 0) * sizeof *a->shape) == 0;
}

/* ---- parts ---- */

struct stk_slot *stk__slot_make(struct stk_ring *r)
{
	struct stk_slot *s = stk__calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->ring = r;
	s->values = stk__calloc((size_t)r->n_values, sizeof *s->values);
	if (!s->values) {
		stk__free(s);
		return NULL;
	}
	return s;
}

static struct stk_face *make_face(struct stk_ring *r)
{
	size_t heads = stk__whole_lines((size_t)r->n_values * sizeof(struct stk_tensor *)),
	       each = (size_t)r->batch * sizeof(struct stk_tensor);
	struct stk_face *f = stk__calloc(1, sizeof *f);
	if (!f)
		return NULL;
	f->samples = stk__calloc(1, heads + (size_t)r->n_values * each);
	if (!f->samples) {
		stk__free(f);
		return NULL;
	}
	for (int32_t v = 0; v < r->n_values; v++)
		f->samples[v] = (struct stk_tensor *)((uint8_t *)f->samples + heads + (size_t)v * each);
	f->ring = r;
	return f;
}

void stk__face_free(struct stk_face *f)
{
	if (!f)
		return;
	if (f->ring->on_free && f->owner_data)
		f->ring->on_free(f->owner_data);
	stk__free((void *)f->samples);
	stk__free(f);
}

void stk__slot_destroy(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	stk__face_free(s->face);
	for (int32_t v = 0; v < r->n_values; v++)
		stk__block_free(&r->source, s->values[v].block);
	stk__uses_free(r->source.dev, &s->uses);
	if (s->written && !stk__gpu_enter(r->source.dev, NULL)) {
		stk__gpu_event_destroy(r->source.dev, s->written);
		stk__gpu_leave(r->source.dev);
	}
	stk__free(s->values);
	stk__free(s);
}

static struct stk_block *make_block(struct stk_ring *r, int32_t v)
{
	struct stk_block *b = stk__calloc(1, sizeof *b);
	if (!b)
		return NULL;
	b->ring = r;
	b->value = v;
	b->space = r->source.dev && r->values[v].on_gpu ? STK_SPACE_GPU : STK_SPACE_HOST;
	return b;
}

/* Makes the face and the blocks that the slot lacks. Returns false if memory is short; the caller holds all parts even then. */
static bool complete(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	if (!s->face)
		s->face = make_face(r);
	bool ok = s->face != NULL;
	for (int32_t v = 0; v < r->n_values; v++) {
		struct stk_slot_value *val = &s->values[v];
		if (!val->block)
			val->block = make_block(r, v);
		if (val->block) {
			val->block->slot = s;
			val->block->slot_uses = 0;
			atomic_store(&val->block->holds, 1);
		}
		ok &= val->block != NULL;
	}
	if (!ok)
		return false;
	s->face->slot = s;
	s->face->consumer_holds = true;
	s->held_parts = r->n_values + 1;
	return true;
}

static void place_all(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	for (int32_t v = 0; v < r->n_values; v++)
		for (int32_t i = 0; i < r->batch; i++)
			s->values[v].samples[i] = (struct stk_tensor){
				s->values[v].region + (size_t)i * (size_t)s->values[v].sample_bytes, s->values[v].expected};
}

/* Gives value v a region for the expected samples, and extra_bytes bytes after it. Returns false if memory is short. */
static bool lay_out_value(struct stk_slot *s, int32_t v)
{
	struct stk_ring *r = s->ring;
	struct stk_slot_value *val = &s->values[v];
	struct stk_block *b = val->block;
	size_t old_capacity = b->capacity;
	val->sample_bytes = stk_desc_bytes(&val->expected);
	const bool reserved = val->sample_bytes > 0 && (r->fixed || !r->sample_limit || (size_t)val->sample_bytes <= r->sample_limit);
	if (reserved && val->sample_bytes > PTRDIFF_MAX / r->batch)
		return false;
	size_t fixed = reserved ? stk__whole_lines((size_t)val->sample_bytes * (size_t)r->batch) : 0;
	/* room for samples of other shapes only saves chunks */
	bool ok = stk__block_resize(&r->source, b, fixed, val->extra_bytes) ||
		  (val->extra_bytes && stk__block_resize(&r->source, b, fixed, 0));
	atomic_fetch_add(&r->bytes, b->capacity - old_capacity); /* modulo 2^64, since the difference may be negative */
	val->region = fixed ? b->data : NULL;                    /* no region if no shape is expected, or if no such sample is allowed */
	val->samples = s->face->samples[v];
	memset(val->samples, 0, (size_t)r->batch * sizeof *val->samples);
	s->bytes[b->space] += b->capacity;
	return ok;
}

bool stk__slot_lay_out(struct stk_slot *s)
{
	if (!complete(s))
		return false;
	if (s->laid_out)
		return true;
	s->bytes[STK_SPACE_HOST] = s->bytes[STK_SPACE_GPU] = 0;
	for (int32_t v = 0; v < s->ring->n_values; v++)
		if (!lay_out_value(s, v))
			return false;
	s->laid_out = s->ring->fixed;
	if (s->ring->fixed)
		place_all(s);
	return true;
}

/* ---- order of writers and readers ---- */

bool stk__slot_streams_done(struct stk_slot *s)
{
	return stk__uses_ended(s->ring->source.dev, &s->uses);
}

/* Waits for all work on the device if a stream that reads the slot could not be noted. Call inside stk__gpu_enter. */
static enum stk_status wait_if_unrecorded(struct stk_slot *s, struct stk_error *err)
{
	const enum stk_status status = s->uses.unrecorded ? stk__gpu_sync(s->ring->source.dev, err) : STK_OK;
	s->uses.unrecorded &= status != STK_OK;
	return status;
}

enum stk_status stk__slot_wait_streams(struct stk_slot *s, struct stk_error *err)
{
	enum stk_status status = stk__gpu_enter(s->ring->source.dev, err);
	if (status)
		return status;
	status = wait_if_unrecorded(s, err);
	for (int32_t i = 0; i < s->uses.n_waits && !status; i++)
		if (s->uses.uses[i].event)
			status = stk__gpu_event_sync(s->ring->source.dev, s->uses.uses[i].event, err);
	stk__gpu_leave(s->ring->source.dev);
	if (!status)
		s->uses.n_waits = 0;
	return status;
}

enum stk_status stk__slot_wait(struct stk_slot *s, stk_gpu_stream stream, struct stk_error *err)
{
	enum stk_status status = wait_if_unrecorded(s, err);
	for (int32_t i = 0; i < s->uses.n_waits && !status; i++)
		if (s->uses.uses[i].event)
			status = stk__gpu_stream_wait(s->ring->source.dev, stream, s->uses.uses[i].event, err);
	if (!status && s->writing) /* kernels may still write the slot for a batch that was never delivered */
		status = stk__gpu_stream_wait(s->ring->source.dev, stream, s->written, err);
	if (!status) /* after a failure the events stay, so that the next thread that takes the slot waits for them */
		s->uses.n_waits = 0;
	return status;
}

enum stk_status stk__slot_written(struct stk_slot *s, stk_gpu_stream stream, struct stk_error *err)
{
	enum stk_status status = s->written ? STK_OK : stk__gpu_event_create(s->ring->source.dev, false, &s->written, err);
	if (!status)
		status = stk__gpu_event_record(s->ring->source.dev, s->written, stream, err);
	s->writing = !status;
	return status;
}

enum stk_status stk__slot_is_written(struct stk_slot *s, bool *done, struct stk_error *err)
{
	enum { LOOKS = 32 }; /* about ten microseconds, which is less than a thread needs to sleep and wake up */
	enum stk_status status = stk__gpu_enter(s->ring->source.dev, err);
	if (status)
		return status;
	*done = false;
	for (int i = 0; i < LOOKS && !*done && !status; i++)
		status = stk__gpu_event_query(s->ring->source.dev, s->written, done, err);
	s->writing &= !*done;
	stk__gpu_leave(s->ring->source.dev);
	return status;
}

/* Waits on this thread for the work that is queued on a stream of the consumer. Does nothing if that stream is being captured into a CUDA graph, since the
 * graph must not contain the event. */
static enum stk_status wait_for_consumer(struct stk_gpu_device *dev, stk_gpu_stream stream, struct stk_error *err)
{
	stk_gpu_event event;
	if (stk__gpu_stream_captures(dev, stream))
		return STK_OK;
	enum stk_status s = stk__gpu_event_create(dev, false, &event, err);
	if (s)
		return s;
	if (!stk__gpu_event_record(dev, event, stream, NULL))
		s = stk__gpu_event_sync(dev, event, err);
	else if (!stk__gpu_stream_captures(
			 dev, stream)) /* no capture has begun meanwhile: the user has destroyed the stream, whose work may still run */
		s = stk__gpu_sync(dev, err);
	stk__gpu_event_destroy(dev, event);
	return s;
}

/* Waits until the recorded streams of the consumer have done what is queued on them now. */
static enum stk_status wait_for_consumers(struct stk_block *b, struct stk_error *err)
{
	struct stk_ring *r = b->ring;
	pthread_mutex_lock(&r->lock);
	const struct stk_uses uses = b->slot ? b->slot->uses : b->uses;
	const uint32_t reading = b->slot ? b->slot_uses : UINT32_MAX;
	pthread_mutex_unlock(&r->lock);
	enum stk_status s = STK_OK;
	for (int32_t i = 0; i < uses.n_uses && !s; i++)
		if (reading >> i & 1)
			s = wait_for_consumer(r->source.dev, uses.uses[i].stream, err);
	return s;
}

enum stk_status stk__block_download(struct stk_block *b, const struct stk_block_copy *copies, int32_t n, struct stk_error *err)
{
	struct stk_ring *r = b->ring;
	enum stk_status s = stk__gpu_enter(r->source.dev, err);
	if (s)
		return s;
	for (int32_t i = 0; i < n && !s; i++)
		if (stk__gpu_is_memory(r->source.dev,
			    copies[i].to)) /* a copy there would have to wait for the user's work on that memory, which is not known */
			s = stk__fail(err, STK_INVALID, "the address lies in the memory of a GPU, and this copies to host memory");
	/* This thread waits, and not the ring's stream, on which the copies of other threads are queued too. */
	if (!s)
		s = wait_for_consumers(b, err);
	for (int32_t i = 0; i < n && !s; i++)
		s = stk__gpu_download(r->source.dev, r->stream, copies[i].to, (stk_gpu_ptr)(uintptr_t)copies[i].from, copies[i].size, err);
	const enum stk_status ended = stk__gpu_stream_sync(r->source.dev, r->stream, s ? NULL : err);
	stk__gpu_leave(r->source.dev);
	return s ? s : ended;
}

/* ---- placing samples ---- */

static bool has_region(const struct stk_slot_value *val, const struct stk_desc *desc)
{
	return val->region && same_shape(desc, &val->expected);
}

bool stk__slot_adopt(
	struct stk_slot *s, int32_t v, int32_t i, const struct stk_desc *desc, uint8_t *data, void (*release)(void *owner), void *owner)
{
	struct stk_slot_value *val = &s->values[v];
	if (val->block->space != STK_SPACE_HOST || has_region(val, desc) ||
		!stk__block_adopt(val->block, data, (size_t)stk_desc_bytes(desc), release, owner))
		return false;
	val->samples[i] = (struct stk_tensor){data, *desc};
	return true;
}

bool stk__slot_place(struct stk_slot *s, int32_t v, int32_t i, const struct stk_desc *desc)
{
	struct stk_slot_value *val = &s->values[v];
	struct stk_tensor *t = &val->samples[i];
	t->desc = *desc;
	if (has_region(val, desc)) {
		t->data = val->region + (size_t)i * (size_t)val->sample_bytes;
		return true;
	}
	int64_t bytes = stk_desc_bytes(desc);
	t->data = bytes < 0 ? NULL : stk__block_take(&s->ring->source, val->block, (size_t)bytes);
	return t->data != NULL;
}

/* ---- settling a batch ---- */

/* Moves n samples of `bytes` bytes each next to each other, from the address `to` on. `to` is either new memory, or the region in which the samples lie with
 * gaps between them. In the region each sample moves to a lower address, so that copying in order overwrites no sample that is still needed. Returns false
 * if the GPU fails. */
static bool move_samples(struct stk_slot *s, struct stk_slot_value *val, int32_t n, uint8_t *to, size_t bytes)
{
	struct stk_ring *r = s->ring;
	enum stk_space space = val->block->space;
	if (space == STK_SPACE_GPU && stk__gpu_enter(r->source.dev, NULL))
		return false;
	bool ok = true;
	for (int32_t i = 0; i < n && ok; i++) {
		uint8_t *from = val->samples[i].data, *at = to + (size_t)i * bytes;
		if (space == STK_SPACE_HOST)
			memmove(at, from, bytes);
		else if (at != from)
			ok = !stk__gpu_copy(
				r->source.dev, r->stream, (stk_gpu_ptr)(uintptr_t)at, (stk_gpu_ptr)(uintptr_t)from, bytes, NULL);
		if (ok) /* after a failed copy, this sample and the later ones keep their addresses */
			val->samples[i].data = at;
	}
	if (space == STK_SPACE_GPU) {
		/* rarely reached: only if a sample was left out, or the batch has a new shape */
		ok = !stk__gpu_stream_sync(r->source.dev, r->stream, NULL) && ok;
		stk__gpu_leave(r->source.dev);
	}
	return ok;
}

static bool make_dense(struct stk_slot *s, int32_t v, int32_t n, void **dense)
{
	struct stk_slot_value *val = &s->values[v];
	size_t bytes = (size_t)stk_desc_bytes(&val->samples[0].desc);
	bool lies = n == 1 || stk__block_has_piece(val->block, val->samples[0].data, (size_t)n * bytes);
	for (int32_t i = 1; i < n && lies; i++)
		lies = (uint8_t *)val->samples[i].data == (uint8_t *)val->samples[0].data + (size_t)i * bytes;
	if (!lies) {
		bool in_region = has_region(val, &val->samples[0].desc);
		uint8_t *to = in_region ? val->region : stk__block_take(&s->ring->source, val->block, bytes * (size_t)n);
		if (!to || !move_samples(s, val, n, to, bytes))
			return false;
	}
	*dense = val->samples[0].data;
	return true;
}

/* Updates extra_bytes for later slots from the bytes that block b needed: grows it at once, and shrinks it slowly. Call with the ring's lock held. */
static void learn_extra_bytes(struct stk_ring_value *of, const struct stk_block *b)
{
	size_t used = atomic_load(&b->extra_used), target = used + used / 8;
	if (target > of->extra_bytes)
		of->extra_bytes = target;
	else if (target < of->extra_bytes / 4)
		of->extra_bytes -= of->extra_bytes / 64;
}

void stk__slot_learn(struct stk_slot *s, int32_t v)
{
	pthread_mutex_lock(&s->ring->lock);
	learn_extra_bytes(&s->ring->values[v], s->values[v].block);
	pthread_mutex_unlock(&s->ring->lock);
}

bool stk__slot_make_dense(struct stk_slot *s, int32_t v, int32_t n, void **dense)
{
	struct stk_slot_value *val = &s->values[v];
	struct stk_ring *r = s->ring;
	bool uniform = n > 0;
	for (int32_t i = 1; i < n && uniform; i++)
		uniform = same_shape(&val->samples[i].desc, &val->samples[0].desc);
	*dense = NULL;
	bool ok = uniform && make_dense(s, v, n, dense);
	pthread_mutex_lock(&r->lock);
	struct stk_ring_value *of = &r->values[v];
	if (stk_desc_bytes(&of->known) < 0 && n > 0)
		of->expected = uniform ? val->samples[0].desc : of->known;
	learn_extra_bytes(of, val->block);
	pthread_mutex_unlock(&r->lock);
	return ok;
}
