/* SPDX-License-Identifier: Apache-2.0
 * Chooses the slot for the next batch, separates held parts from it if necessary, and limits the size of the blocks that are kept for their holders. */
#include "base/machine_memory.h"
#include "tensor/slot_impl.h"

#include <unistd.h>

/* ---- spare blocks; call with the lock held ---- */

/* Takes a spare block of value v that no stream reads any more; NULL: there is no such block. */
static struct stk_block *take_spare_block(struct stk_ring *r, int32_t v)
{
	struct stk_ring_value *val = &r->values[v];
	for (struct stk_block **at = &val->spare_blocks; *at; at = &(*at)->next) {
		struct stk_block *b = *at;
		if (!stk__uses_ended(r->source.dev, &b->uses))
			continue;
		*at = b->next;
		val->n_spare_blocks--;
		return b;
	}
	return NULL;
}

/* ---- limits on held memory ---- */

/* Sets bytes[] to the total size in bytes of the slot's held blocks in each space. */
static void held_bytes(const struct stk_slot *s, size_t bytes[STK_SPACES])
{
	bytes[STK_SPACE_HOST] = bytes[STK_SPACE_GPU] = 0;
	for (int32_t v = 0; v < s->ring->n_values; v++) {
		const struct stk_block *b = s->values[v].block;
		if (atomic_load(&b->holds))
			bytes[b->space] += stk__block_bytes(b);
	}
}

enum verdict { MAY_KEEP, OVER_LIMIT, UNKNOWN };

/* Returns whether the limits allow the slot's held blocks to be kept in addition to the blocks already kept. UNKNOWN: the caller must call update_memory_limits
 * first, because a limit would be exceeded, or because the kept blocks have grown by more than an eighth of it since it was computed. measured: the caller
 * has just done so; the result is then not UNKNOWN. Call with the lock held. */
static enum verdict may_keep_held(const struct stk_ring *r, const struct stk_slot *s, bool measured)
{
	size_t added[STK_SPACES];
	held_bytes(s, added);
	for (int space = 0; space < STK_SPACES; space++) {
		size_t total = r->kept_memory[space].bytes + added[space], limit = r->kept_memory[space].limit,
		       measured_bytes = r->kept_memory[space].measured_bytes;
		if (!added[space])
			continue;
		if (!measured && measured_bytes != SIZE_MAX && (!limit || total > limit || total - measured_bytes > limit / 8))
			return UNKNOWN;
		if (limit && total > limit)
			return OVER_LIMIT;
	}
	return MAY_KEEP;
}

/* Returns the number of free bytes on the GPU; SIZE_MAX if it is not known. Call without the lock. */
static size_t gpu_available(const struct stk_ring *r)
{
	size_t available = SIZE_MAX;
	if (!r->source.dev || stk__gpu_enter(r->source.dev, NULL))
		return SIZE_MAX;
	if (stk__gpu_memory_free(r->source.dev, &available, NULL))
		available = SIZE_MAX;
	stk__gpu_leave(r->source.dev);
	return available;
}

/* For each space without a given limit, sets the limit of kept blocks to half of the sum of the free memory and the memory of the blocks already kept. Call
 * without the lock. */
static void update_memory_limits(struct stk_ring *r)
{
	const size_t available[STK_SPACES] = {stk__memory_available(), gpu_available(r)};
	pthread_mutex_lock(&r->lock);
	for (int space = 0; space < STK_SPACES; space++) {
		if (r->kept_memory[space].measured_bytes == SIZE_MAX)
			continue;
		r->kept_memory[space].measured_bytes = r->kept_memory[space].bytes;
		r->kept_memory[space].limit = r->kept_memory[space].bytes / 2 + available[space] / 2 + 1;
	}
	pthread_mutex_unlock(&r->lock);
}

/* ---- letting go of held parts; call with the lock held ---- */

static void keep_block(struct stk_ring *r, struct stk_slot *s, int32_t v, const struct stk_uses *uses)
{
	struct stk_block *b = s->values[v].block;
	size_t bytes = stk__block_bytes(b);
	for (int32_t i = 0; i < uses->n_uses; i++)
		if (b->slot_uses >> i & 1)
			stk__uses_add(&b->uses, uses->uses[i].stream);
	b->slot = NULL;
	b->kept_bytes = bytes;
	s->values[v].block = NULL;
	r->kept_memory[b->space].bytes += bytes;
	r->values[v].n_kept_blocks++;
	r->values[v].kept_bytes += bytes;
	atomic_fetch_sub(&r->bytes, b->capacity);
	atomic_fetch_add(&r->refs, 1);
	if (bytes > STK_BLOCK_SMALL)
		atomic_store(&r->pinned, true);
}

/* Separates the held parts from the slot, so that the slot can be filled again. Returns false, and does nothing, if a stream that reads the slot is being
 * captured into a CUDA graph. */
static bool release_held_parts(struct stk_ring *r, struct stk_slot *s)
{
	struct stk_uses uses = s->uses; /* a copy of the streams for the kept blocks; events stay with the slot */
	if (!stk__uses_record(r->source.dev, &s->uses))
		return false;
	for (int32_t v = 0; v < r->n_values; v++)
		if (atomic_load(&s->values[v].block->holds))
			keep_block(r, s, v, &uses);
	if (s->face->consumer_holds) {
		s->face->slot = NULL;
		s->face = NULL;
		atomic_fetch_add(&r->refs, 1);
	}
	s->laid_out = false;
	return true;
}

/* Returns true if the slot has a block that is not small, and the consumer holds no such block of the slot. */
static bool large_blocks_free(const struct stk_slot *s)
{
	bool large = false;
	for (int32_t v = 0; v < s->ring->n_values; v++) {
		const struct stk_block *b = s->values[v].block;
		bool is_large = stk__block_bytes(b) > STK_BLOCK_SMALL;
		if (is_large && atomic_load(&b->holds))
			return false;
		large |= is_large;
	}
	return large;
}

/* ---- taking; call with the lock held unless a comment says otherwise ---- */

enum { SPARE = 2, WINDOW = 256 };

/* Returns the largest number of slots that were out at once in this window of takes or the one before, plus SPARE slots for a consumer whose streams still read
 * slots that it has returned. */
static int32_t slots_needed(const struct stk_ring *r)
{
	return (r->window_peak > r->last_peak ? r->window_peak : r->last_peak) + SPARE;
}

/* Returns whether the ring may try to make one more slot. */
static bool below_limit(const struct stk_ring *r)
{
	return r->n_slots < r->limit && r->n_slots < r->short_at;
}

/* Returns whether the ring may let go of the large blocks of a slot that is out. It may not if memory was too short for one more slot: memory is then too short
 * for other blocks as well. */
static bool may_release_large(const struct stk_ring *r)
{
	return !r->limit_is_hard && r->n_slots >= r->limit;
}

/* Returns whether the limits allow one more slot. Call it if the consumer's streams still read all free slots, to avoid a wait for them. */
static bool may_add_slot(const struct stk_ring *r)
{
	if (!below_limit(r) || r->n_slots >= slots_needed(r))
		return false;
	size_t bytes = atomic_load(&r->bytes);
	return !r->lag_limit || !r->n_slots || bytes + bytes / (size_t)r->n_slots <= r->lag_limit;
}

/* Takes a free slot that no stream reads any more. If streams still read all free slots, takes the one that was returned first, unless a new slot may be made:
 * then returns NULL, so that a consumer whose kernels lag does not delay the next batch. Ignores slots whose streams are being captured into a CUDA graph.
 * Also returns NULL if no slot is free. */
static struct stk_slot *take_free(struct stk_ring *r)
{
	struct stk_slot **at, **found = NULL;
	for (at = &r->free_slots; *at; at = &(*at)->next_free) {
		if (!stk__uses_record(r->source.dev, &(*at)->uses))
			continue;
		found = at;
		if (stk__slot_streams_done(*at))
			break;
	}
	bool reads = found && !*at;
	if (!found || (reads && may_add_slot(r)))
		return NULL;
	struct stk_slot *s = *found;
	*found = s->next_free;
	atomic_fetch_add(&r->n_out, 1);
	atomic_fetch_add(&r->refs, 1);
	return s;
}

/* The outcome of one attempt of stk__ring_take. */
struct choice {
	struct stk_slot *slot;
	bool make, must_measure;
	enum stk_ring_lack reason;
	struct stk_slot *to_free; /* this slot and the blocks in `old_blocks` are to be freed */
	struct stk_block *old_blocks;
};

/* Returns the slot that was delivered first among the slots that are out, if the memory limits allow the ring to let go of its held parts; otherwise NULL. If
 * `small` is set, considers only slots for which large_blocks_free returns true. Sets c->must_measure if the limits must be computed before the question can
 * be answered. Unless `small` is set, sets c->reason to the reason why there is no slot. */
static struct stk_slot *oldest_delivered(struct stk_ring *r, bool small, bool measured, struct choice *c)
{
	struct stk_slot *oldest = NULL;
	for (struct stk_slot *s = r->slots; s; s = s->next)
		if (s->state == STK_SLOT_OUT && (!oldest || s->delivered < oldest->delivered) && (!small || large_blocks_free(s)))
			oldest = s;
	enum verdict verdict = oldest ? may_keep_held(r, oldest, measured) : MAY_KEEP;
	c->must_measure |= verdict == UNKNOWN;
	if (!small)
		c->reason = oldest && verdict == OVER_LIMIT ? STK_RING_HELD : STK_RING_ALL_OUT;
	return verdict == MAY_KEEP ? oldest : NULL;
}

static void choose(struct stk_ring *r, bool measured, struct choice *c)
{
	struct stk_slot *out;
	if ((c->slot = take_free(r)))
		return;
	if ((out = oldest_delivered(r, true, measured, c)) && release_held_parts(r, out))
		c->slot = out;
	if (c->slot || c->must_measure)
		return;
	c->make = below_limit(r);
	c->reason = STK_RING_ALL_OUT;
	if (may_release_large(r) && (out = oldest_delivered(r, false, measured, c)) && release_held_parts(r, out))
		c->slot = out;
}

/* Takes a slot out of the list of all slots, so that it can be destroyed. */
static void unlink_slot(struct stk_ring *r, struct stk_slot *s)
{
	struct stk_slot **at = &r->slots;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	r->n_slots--;
	for (int32_t v = 0; v < r->n_values; v++)
		if (s->values[v].block) /* NULL if memory was short when the slot was laid out */
			atomic_fetch_sub(&r->bytes, s->values[v].block->capacity);
}

/* Counts a take and updates the peaks of `n_out`. Once in WINDOW takes, moves all spare blocks to *c for the caller to free. At any take, if there are
 * more slots than slots_needed returns, also moves the free slot that was returned first to *c, unless a stream reads it. */
static void trim(struct stk_ring *r, struct choice *c)
{
	if (r->n_out > r->peak_out)
		r->peak_out = r->n_out;
	if (r->n_out > r->window_peak)
		r->window_peak = r->n_out;
	if (++r->n_takes % WINDOW == 0) {
		r->short_at = INT32_MAX; /* another program may have given memory back */
		r->last_peak = r->window_peak;
		r->window_peak = r->n_out;
		for (int32_t v = 0; v < r->n_values; v++)
			stk__take_spare_blocks(r, v, &c->old_blocks);
	}
	struct stk_slot **last = &r->free_slots;
	while (*last && (*last)->next_free)
		last = &(*last)->next_free;
	if (!*last || r->n_slots <= slots_needed(r) || !stk__slot_streams_done(*last))
		return;
	c->to_free = *last;
	*last = NULL;
	unlink_slot(r, c->to_free);
}

/* Marks the slot as FILLING, copies the expected shapes and extra_bytes to it, and gives it spare blocks for values without a block. The slot then belongs to
 * the caller. */
static void begin_filling(struct stk_ring *r, struct stk_slot *s)
{
	s->state = STK_SLOT_FILLING;
	for (int32_t v = 0; v < r->n_values; v++) {
		struct stk_slot_value *val = &s->values[v];
		val->extra_bytes = r->values[v].extra_bytes;
		if (!s->laid_out)
			val->expected = r->values[v].expected;
		if (!val->block)
			val->block = take_spare_block(r, v);
	}
}

/* Makes a slot that is FILLING. The caller has already added it to `n_slots`, `n_out` and `refs`; if memory is short, subtracts it again and returns NULL. Call
 * without the lock. */
static struct stk_slot *add_slot(struct stk_ring *r)
{
	struct stk_slot *s = stk__slot_make(r);
	pthread_mutex_lock(&r->lock);
	if (s) {
		s->next = r->slots;
		r->slots = s;
		begin_filling(r, s);
	} else {
		r->n_slots--;
		atomic_fetch_sub(&r->n_out, 1);
	}
	pthread_mutex_unlock(&r->lock);
	if (!s)
		stk__ring_unref(r);
	return s;
}

static void carry_out_choice(struct stk_ring *r, struct choice *c)
{
	if (c->make) {
		r->n_slots++;
		atomic_fetch_add(&r->n_out, 1);
		atomic_fetch_add(&r->refs, 1);
	}
	if (c->slot)
		begin_filling(r, c->slot);
	if (c->slot || c->make)
		trim(r, c);
	else
		atomic_store(&r->taker_waits, true);
}

/* Takes a free slot, or makes one. *starving: whether the consumer waits and holds all slots. Returns NULL with the reason in *lack, or with
 * STK_RING_LACKS_NOTHING if memory is short. */
static struct stk_slot *take_or_make(struct stk_ring *r, bool *starving, enum stk_ring_lack *lack)
{
	struct choice c = {0};
	for (bool measured = false;; measured = true) {
		c = (struct choice){0};
		pthread_mutex_lock(&r->lock);
		choose(r, measured, &c);
		if (!c.must_measure || c.slot || c.make) {
			carry_out_choice(r, &c);
			*starving = r->starving;
			r->starving = false;
		}
		pthread_mutex_unlock(&r->lock);
		if (!c.must_measure || c.slot || c.make)
			break;
		update_memory_limits(r);
	}
	if (c.to_free)
		stk__slot_destroy(c.to_free);
	stk__blocks_free(r, c.old_blocks);
	*lack = c.slot || c.make ? STK_RING_LACKS_NOTHING : c.reason;
	return c.make ? add_slot(r) : c.slot;
}

/* Call if there is no memory for slot s, which this destroys: a free slot without memory would fail the next take too. Returns true, and makes no more slots for
 * a while, if the ring has other slots: the batch then waits for one of them. Returns false if the consumer holds all others and waits for this batch. */
static bool do_without(struct stk_ring *r, struct stk_slot *s, bool starving)
{
	pthread_mutex_lock(&r->lock);
	bool others = r->n_slots > 1 && !starving;
	for (const struct stk_slot *other = r->slots; other; other = other->next)
		others |= other != s && other->state != STK_SLOT_OUT;
	unlink_slot(r, s);
	if (others)
		r->short_at = r->n_slots;
	atomic_fetch_sub(&r->n_out, 1);
	pthread_mutex_unlock(&r->lock);
	stk__slot_destroy(s);
	stk__ring_unref(r);
	return others;
}

struct stk_slot *stk__ring_take(struct stk_ring *r, enum stk_ring_lack *lack)
{
	struct stk_slot *s;
	bool starving = false;
	do {
		s = take_or_make(r, &starving, lack);
		if (!s && *lack)
			return NULL;
		pthread_mutex_lock(&r->source.shared.lock);
		r->source.gpu_error.code = STK_OK;
		pthread_mutex_unlock(&r->source.shared.lock);
		if (s && stk__slot_lay_out(s))
			return s;
	} while (s && do_without(r, s, starving));
	*lack = STK_RING_NO_MEMORY;
	const size_t available = gpu_available(r);
	pthread_mutex_lock(&r->source.shared.lock);
	r->source.gpu_available = available;
	pthread_mutex_unlock(&r->source.shared.lock);
	return NULL;
}

enum stk_ring_lack stk__ring_lacks(struct stk_ring *r)
{
	struct choice c = {.reason = STK_RING_ALL_OUT};
	pthread_mutex_lock(&r->lock);
	bool available = r->free_slots || below_limit(r) || oldest_delivered(r, true, true, &c) ||
			 (may_release_large(r) && oldest_delivered(r, false, true, &c));
	if (!available && r->n_slots < r->limit) { /* tries again to make a slot: if that fails too, memory is what lacks */
		r->short_at = INT32_MAX;
		r->starving = available = true;
	}
	pthread_mutex_unlock(&r->lock);
	return available ? STK_RING_LACKS_NOTHING : c.reason;
}

struct stk_desc stk__ring_largest(struct stk_ring *r)
{
	struct stk_desc largest = {.ndim = -1};
	int64_t most = 0;
	pthread_mutex_lock(&r->lock);
	for (int32_t v = 0; v < r->n_values; v++) {
		const int64_t bytes = stk_desc_bytes(&r->values[v].expected);
		if (bytes > most) {
			most = bytes;
			largest = r->values[v].expected;
		}
	}
	pthread_mutex_unlock(&r->lock);
	return largest;
}

bool stk__ring_lacked_gpu(struct stk_ring *r, struct stk_error *why, size_t *available)
{
	pthread_mutex_lock(&r->source.shared.lock);
	*why = r->source.gpu_error;
	*available = r->source.gpu_available;
	pthread_mutex_unlock(&r->source.shared.lock);
	return why->code != STK_OK;
}

bool stk__ring_out_at_most(struct stk_ring *r, int32_t n)
{
	if (atomic_load(&r->n_out) <= n)
		return true;
	atomic_store(&r->taker_waits, true);
	return atomic_load(&r->n_out) <= n; /* a slot may have come back before `taker_waits` was set */
}

void stk__ring_held_blocks(struct stk_ring *r, int32_t v, int32_t *blocks, size_t *bytes)
{
	pthread_mutex_lock(&r->lock);
	*blocks = r->values[v].n_kept_blocks;
	*bytes = r->values[v].kept_bytes;
	for (const struct stk_slot *s = r->slots; s; s = s->next) {
		const struct stk_block *b = s->values[v].block;
		if (s->state == STK_SLOT_OUT && atomic_load(&b->holds)) {
			++*blocks;
			*bytes += stk__block_bytes(b);
		}
	}
	pthread_mutex_unlock(&r->lock);
}

size_t stk__ring_kept_bytes(struct stk_ring *r, enum stk_space space, size_t *limit)
{
	pthread_mutex_lock(&r->lock);
	size_t bytes = r->kept_memory[space].bytes;
	*limit = r->kept_memory[space].limit;
	pthread_mutex_unlock(&r->lock);
	return bytes;
}
