/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/slot.h"

#include <string.h>
#include <unistd.h>

struct stk_slot_chunk {
	struct stk_slot_chunk *next;
	uint8_t *data;
	size_t size;
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

/* ---- memory of both spaces ---- */

static uint8_t *gpu_take(struct stk_ring *r, size_t size)
{
	stk_gpu_ptr p = 0;
	if (stk__gpu_enter(r->dev, NULL))
		return NULL;
	bool ok = stk__gpu_alloc(r->dev, size, &p, NULL) == STK_OK;
	stk__gpu_leave(r->dev);
	return ok ? (uint8_t *)(uintptr_t)p : NULL;
}

static void gpu_give(struct stk_ring *r, uint8_t *p)
{
	if (p && !stk__gpu_enter(r->dev, NULL)) {
		stk__gpu_free(r->dev, (stk_gpu_ptr)(uintptr_t)p);
		stk__gpu_leave(r->dev);
	}
}

static uint8_t *block_take(struct stk_ring *r, enum stk_space space, size_t size)
{
	return space == STK_SPACE_HOST ? stk__map(size) : gpu_take(r, size);
}

static void block_give(struct stk_ring *r, enum stk_space space, struct stk_slot_memory *m)
{
	if (space == STK_SPACE_HOST)
		stk__unmap(m->block, m->capacity);
	else
		gpu_give(r, m->block);
	m->block = NULL;
}

static void give_chunks(struct stk_ring *r, struct stk_slot *s, enum stk_space space)
{
	struct stk_slot_memory *m = &s->memory[space];
	while (m->chunks) {
		struct stk_slot_chunk *next = m->chunks->next;
		if (space == STK_SPACE_HOST)
			stk__free(m->chunks->data);
		else
			gpu_give(r, m->chunks->data);
		stk__free(m->chunks);
		m->chunks = next;
	}
}

static enum stk_space space_of(const struct stk_ring *r, int32_t value)
{
	return r->dev && r->on_gpu[value] ? STK_SPACE_GPU : STK_SPACE_HOST;
}

/* ---- ring ---- */

static void destroy_slot(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	if (r->on_free && s->owner_data)
		r->on_free(s->owner_data);
	for (int space = 0; space < STK_SPACES; space++) {
		give_chunks(r, s, (enum stk_space)space);
		block_give(r, (enum stk_space)space, &s->memory[space]);
	}
	if (r->dev && !stk__gpu_enter(r->dev, NULL)) {
		for (int i = 0; i < STK_SLOT_STREAMS; i++)
			stk__gpu_event_destroy(r->dev, s->uses[i].event);
		stk__gpu_event_destroy(r->dev, s->written);
		stk__gpu_leave(r->dev);
	}
	for (int32_t v = 0; s->values && v < r->n_values; v++)
		stk__free(s->values[v].samples);
	stk__free(s->values);
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

enum stk_status stk__ring_on_gpu(struct stk_ring *r, struct stk_gpu_device *dev, const bool *on_gpu, struct stk_error *err)
{
	r->on_gpu = stk__calloc((size_t)r->n_values + 1, sizeof *r->on_gpu);
	if (!r->on_gpu)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the ring of slots");
	memcpy(r->on_gpu, on_gpu, (size_t)r->n_values * sizeof *on_gpu);
	enum stk_status s = stk__gpu_enter(dev, err);
	if (s)
		return s;
	s = stk__gpu_stream_create(dev, STK_GPU_LOW, &r->stream, err);
	stk__gpu_leave(dev);
	r->dev = s ? NULL : stk__gpu_device_ref(dev);
	return s;
}

void stk__ring_fix(struct stk_ring *r)
{
	r->fixed = true;
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
	if (r->dev && !stk__gpu_enter(r->dev, NULL)) {
		stk__gpu_stream_destroy(r->dev, r->stream);
		stk__gpu_leave(r->dev);
	}
	stk__gpu_device_close(r->dev);
	pthread_mutex_destroy(&r->lock);
	stk__free(r->on_gpu);
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

static void place_all(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	for (int32_t v = 0; v < r->n_values; v++)
		for (int32_t i = 0; i < r->batch; i++)
			s->values[v].samples[i] = (struct stk_tensor){
				s->values[v].region + (size_t)i * (size_t)s->values[v].sample_bytes, s->values[v].expected};
}

/* Regions by what is expected now, one allocation a space for all of them and the room. */
static bool lay_out(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	size_t fixed[STK_SPACES] = {0};
	if (s->laid)
		return true;
	for (int32_t v = 0; v < r->n_values; v++) {
		struct stk_slot_value *val = &s->values[v];
		val->expected = r->expected[v];
		val->sample_bytes = stk_desc_bytes(&val->expected);
		fixed[space_of(r, v)] += val->sample_bytes > 0 ? round_up((size_t)val->sample_bytes * (size_t)r->batch) : 0;
	}
	uint8_t *at[STK_SPACES];
	for (int space = 0; space < STK_SPACES; space++) {
		struct stk_slot_memory *m = &s->memory[space];
		give_chunks(r, s, (enum stk_space)space);
		size_t need = fixed[space] + r->room[space];
		if (need > m->capacity || need + (1 << 20) < m->capacity / 2) {
			r->bytes -= m->capacity;
			block_give(r, (enum stk_space)space, m);
			m->block = block_take(r, (enum stk_space)space, need);
			m->capacity = m->block ? need : 0;
			r->bytes += m->capacity;
			if (!m->block)
				return false;
		}
		m->fixed = fixed[space];
		atomic_store(&m->room_used, 0);
		at[space] = m->block;
	}
	for (int32_t v = 0; v < r->n_values; v++) {
		struct stk_slot_value *val = &s->values[v];
		enum stk_space space = space_of(r, v);
		val->region = val->sample_bytes > 0 ? at[space] : NULL;
		if (val->region) /* where nothing is known beforehand there is no block yet */
			at[space] += round_up((size_t)val->sample_bytes * (size_t)r->batch);
		memset(val->samples, 0, (size_t)r->batch * sizeof *val->samples);
	}
	s->laid = r->fixed;
	if (r->fixed)
		place_all(s);
	return true;
}

/* ---- streams of consumers ---- */

enum stk_status stk__slot_use_stream(struct stk_slot *s, stk_gpu_stream stream, struct stk_error *err)
{
	struct stk_ring *r = s->ring;
	enum stk_status status = STK_OK;
	if (!r->dev)
		return STK_OK;
	pthread_mutex_lock(&s->lock);
	int32_t i = 0;
	while (i < s->n_uses && s->uses[i].stream != stream)
		i++;
	if (i == STK_SLOT_STREAMS)
		status = stk__fail(
			err, STK_LIMIT, "a batch is read on more than %d streams; let them wait for one of them", STK_SLOT_STREAMS);
	else if (i == s->n_uses && !s->uses[i].event && !(status = stk__gpu_enter(r->dev, err))) {
		status = stk__gpu_event_create(r->dev, false, &s->uses[i].event, err);
		stk__gpu_leave(r->dev);
	}
	if (!status) {
		s->uses[i].stream = stream;
		s->n_uses += i == s->n_uses;
	}
	pthread_mutex_unlock(&s->lock);
	return status;
}

/* Notes where the consumer's streams are. False: one of them is being captured into a graph, which must not see it; to be tried again. */
static bool note_uses(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	if (!s->n_uses)
		return true;
	if (stk__gpu_enter(r->dev, NULL)) /* a forked child, or a lost device: nothing runs there any more */
		return true;
	bool free = true;
	for (int32_t i = 0; i < s->n_uses; i++)
		free &= !stk__gpu_stream_captures(r->dev, s->uses[i].stream);
	for (int32_t i = 0; free && i < s->n_uses; i++)
		if (stk__gpu_event_record(r->dev, s->uses[i].event, s->uses[i].stream, NULL)) {
			/* A stream that is gone has no work left; a lost device says so when it is used next. */
		}
	stk__gpu_leave(r->dev);
	if (free) {
		s->n_waits = s->n_uses;
		s->n_uses = 0;
	}
	return free;
}

bool stk__slot_at_rest(struct stk_slot *s)
{
	struct stk_gpu_device *dev = s->ring->dev;
	bool done = true;
	if (!s->n_waits || stk__gpu_enter(dev, NULL))
		return true;
	for (int32_t i = 0; i < s->n_waits && done; i++)
		if (stk__gpu_event_query(dev, s->uses[i].event, &done, NULL))
			done = false; /* whoever waits for it is told why */
	stk__gpu_leave(dev);
	if (done)
		s->n_waits = 0;
	return done;
}

enum stk_status stk__slot_rest(struct stk_slot *s, struct stk_error *err)
{
	enum stk_status status = stk__gpu_enter(s->ring->dev, err);
	if (status)
		return status;
	for (int32_t i = 0; i < s->n_waits && !status; i++)
		status = stk__gpu_event_sync(s->ring->dev, s->uses[i].event, err);
	stk__gpu_leave(s->ring->dev);
	if (!status)
		s->n_waits = 0;
	return status;
}

enum stk_status stk__slot_wait(struct stk_slot *s, stk_gpu_stream stream, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	for (int32_t i = 0; i < s->n_waits && !status; i++)
		status = stk__gpu_stream_wait(s->ring->dev, stream, s->uses[i].event, err);
	if (!status && s->writing) /* for a batch that nobody came for */
		status = stk__gpu_stream_wait(s->ring->dev, stream, s->written, err);
	if (!status) /* else whoever takes the slot next still has to wait */
		s->n_waits = 0;
	return status;
}

enum stk_status stk__slot_written(struct stk_slot *s, stk_gpu_stream stream, struct stk_error *err)
{
	enum stk_status status = s->written ? STK_OK : stk__gpu_event_create(s->ring->dev, false, &s->written, err);
	if (!status)
		status = stk__gpu_event_record(s->ring->dev, s->written, stream, err);
	s->writing = !status;
	return status;
}

enum stk_status stk__slot_is_written(struct stk_slot *s, bool *done, struct stk_error *err)
{
	enum { LOOKS = 32 }; /* some ten microseconds: less than a thread takes to sleep and wake up */
	enum stk_status status = stk__gpu_enter(s->ring->dev, err);
	if (status)
		return status;
	*done = false;
	for (int i = 0; i < LOOKS && !*done && !status; i++)
		status = stk__gpu_event_query(s->ring->dev, s->written, done, err);
	s->writing &= !*done;
	stk__gpu_leave(s->ring->dev);
	return status;
}

enum stk_status stk__slot_download(struct stk_slot *s, void *to, stk_gpu_ptr from, size_t size, struct stk_error *err)
{
	struct stk_ring *r = s->ring;
	enum stk_status status = stk__gpu_enter(r->dev, err);
	if (status)
		return status;
	status = stk__gpu_download(r->dev, r->stream, to, from, size, err);
	if (!status)
		status = stk__gpu_stream_sync(r->dev, r->stream, err);
	stk__gpu_leave(r->dev);
	return status;
}

/* ---- taking and returning ---- */

/* With the lock. Whether one more may be made for a consumer that still reads those that came back: a few beyond what was ever out at once. */
static bool may_spare(const struct stk_ring *r)
{
	enum { SPARE = 2 };
	if (r->made >= r->limit || r->made >= r->peak_out + SPARE)
		return false;
	return !r->enough || !r->made || r->bytes + r->bytes / (size_t)r->made <= r->enough;
}

/* With the lock. A free slot that nobody reads any more; else another is made, so that a consumer whose kernels lag behind holds up nobody; else the one
 * that was given back first. NULL: make one. */
static struct stk_slot *take_free(struct stk_ring *r)
{
	struct stk_slot **at, **found = NULL;
	for (at = &r->free; *at; at = &(*at)->next_free) {
		if (!note_uses(*at))
			continue;
		found = at;
		if (stk__slot_at_rest(*at))
			break;
	}
	bool reads = found && !*at;
	if (!found || (reads && may_spare(r)))
		return NULL;
	struct stk_slot *s = *found;
	*found = s->next_free;
	return s;
}

struct stk_slot *stk__ring_take(struct stk_ring *r, bool *no_memory)
{
	*no_memory = false;
	pthread_mutex_lock(&r->lock);
	struct stk_slot *s = take_free(r);
	if (!s && r->made < r->limit) {
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
	} else {
		atomic_store(&r->wanted, true);
	}
	pthread_mutex_unlock(&r->lock);
	return s;
}

bool stk__ring_at_most(struct stk_ring *r, int32_t n)
{
	if (atomic_load(&r->out) <= n)
		return true;
	atomic_store(&r->wanted, true);
	return atomic_load(&r->out) <= n; /* one may have come back before it was wanted */
}

void stk__slot_return(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	if (r->process != getpid())
		return;
	note_uses(s);
	pthread_mutex_lock(&r->lock);
	s->next_free = r->free;
	r->free = s;
	r->out--;
	if (atomic_exchange(&r->wanted, false) && r->on_return) /* under the lock: disowning waits until the call has ended */
		r->on_return(r->owner);
	pthread_mutex_unlock(&r->lock);
	stk__ring_unref(r);
}

/* ---- placing ---- */

static uint8_t *take_room(struct stk_slot *s, enum stk_space space, size_t size)
{
	struct stk_slot_memory *m = &s->memory[space];
	size = round_up(size ? size : 1);
	size_t at = atomic_fetch_add(&m->room_used, size);
	if (m->fixed + at + size <= m->capacity)
		return m->block + m->fixed + at;
	struct stk_slot_chunk *c = stk__alloc(sizeof *c);
	uint8_t *data = !c ? NULL : space == STK_SPACE_HOST ? stk__alloc(size) : gpu_take(s->ring, size);
	if (!data) {
		stk__free(c);
		return NULL;
	}
	pthread_mutex_lock(&s->lock);
	*c = (struct stk_slot_chunk){m->chunks, data, size};
	m->chunks = c;
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
	t->data = bytes < 0 ? NULL : take_room(s, space_of(s->ring, v), (size_t)bytes);
	return t->data != NULL;
}

/* ---- settling ---- */

/* Samples of a region only ever move down, after one was left out. */
static bool move_samples(struct stk_slot *s, enum stk_space space, struct stk_slot_value *val, int32_t n, uint8_t *to, size_t bytes)
{
	struct stk_ring *r = s->ring;
	if (space == STK_SPACE_GPU && stk__gpu_enter(r->dev, NULL))
		return false;
	bool ok = true;
	for (int32_t i = 0; i < n && ok; i++) {
		uint8_t *from = val->samples[i].data, *at = to + (size_t)i * bytes;
		if (space == STK_SPACE_HOST)
			memmove(at, from, bytes);
		else if (at != from)
			ok = !stk__gpu_copy(r->dev, r->stream, (stk_gpu_ptr)(uintptr_t)at, (stk_gpu_ptr)(uintptr_t)from, bytes, NULL);
		if (ok) /* else it is still where it was, and so are those behind it */
			val->samples[i].data = at;
	}
	if (space == STK_SPACE_GPU) {
		ok = !stk__gpu_stream_sync(r->dev, r->stream, NULL) && ok; /* rare: a sample was left out, or a new shape came up */
		stk__gpu_leave(r->dev);
	}
	return ok;
}

static bool lies_within(const uint8_t *at, size_t size, const uint8_t *begin, size_t room)
{
	return begin && at >= begin && at < begin + room && size <= (size_t)(begin + room - at);
}

/* Not so of neighbours: what is one piece for a copy is one allocation. */
static bool is_one_piece(const struct stk_slot_memory *m, const uint8_t *at, size_t size)
{
	bool one = lies_within(at, size, m->block, m->capacity);
	for (const struct stk_slot_chunk *c = m->chunks; c && !one; c = c->next)
		one = lies_within(at, size, c->data, c->size);
	return one;
}

static bool make_dense(struct stk_slot *s, int32_t v, int32_t n, void **dense)
{
	struct stk_slot_value *val = &s->values[v];
	enum stk_space space = space_of(s->ring, v);
	size_t bytes = (size_t)stk_desc_bytes(&val->samples[0].desc);
	bool lies = n == 1 || is_one_piece(&s->memory[space], val->samples[0].data, (size_t)n * bytes);
	for (int32_t i = 1; i < n && lies; i++)
		lies = (uint8_t *)val->samples[i].data == (uint8_t *)val->samples[0].data + (size_t)i * bytes;
	if (!lies) {
		bool fits = val->region && same_shape(&val->samples[0].desc, &val->expected);
		uint8_t *to = fits ? val->region : take_room(s, space, bytes * (size_t)n);
		if (!to || !move_samples(s, space, val, n, to, bytes))
			return false;
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
	bool ok = uniform && make_dense(s, v, n, dense);
	pthread_mutex_lock(&r->lock);
	if (stk_desc_bytes(&r->known[v]) < 0 && n > 0) {
		r->expected[v] = r->known[v];
		if (uniform)
			r->expected[v] = val->samples[0].desc;
	}
	for (int space = 0; space < STK_SPACES; space++) {
		size_t used = atomic_load(&s->memory[space].room_used), wanted = used + used / 8, *room = &r->room[space];
		if (wanted > *room)
			*room = wanted;
		else if (wanted < *room / 4)
			*room -= *room / 64;
	}
	pthread_mutex_unlock(&r->lock);
	return ok;
}
