/* SPDX-License-Identifier: Apache-2.0
 * Counts the holds on parts of slots, and returns a part to the ring when its last holder drops it. */
#include "tensor/slot_impl.h"

#include <unistd.h>

void stk__slot_deliver(struct stk_slot *s)
{
	pthread_mutex_lock(&s->ring->lock);
	s->state = STK_SLOT_OUT;
	s->delivered = ++s->ring->delivered;
	pthread_mutex_unlock(&s->ring->lock);
}

void stk__block_hold(struct stk_block *b)
{
	atomic_fetch_add(&b->holds, 1);
}

/* Parts that were dropped with the lock held, to be freed or reused after the lock is released. */
struct dropped {
	struct stk_slot *slot;
	struct stk_block *blocks;
	struct stk_face *face;
};

/* Puts a slot into the list of free slots. Call with the lock held. */
static void free_slot(struct stk_ring *r, struct stk_slot *s)
{
	s->state = STK_SLOT_FREE;
	s->next_free = r->free_slots;
	r->free_slots = s;
	atomic_fetch_sub(&r->n_out, 1);
}

/* Calls the ring's on_return callback if a taker waits for a slot. Call with the lock held, so that stk__ring_release_owner cannot return while the callback
 * runs. */
static void call_on_return(struct stk_ring *r)
{
	if (atomic_exchange(&r->taker_waits, false) && r->on_return)
		r->on_return(r->owner);
}

/* Counts one part of the slot as dropped. If it was the last held part, sets d->slot to the slot. Call with the lock held. */
static void release_held_part(struct stk_slot *s, struct dropped *d)
{
	if (--s->held_parts > 0)
		return;
	s->state = STK_SLOT_FILLING; /* keeps other threads from taking it while events are recorded on its readers' streams */
	d->slot = s;
}

/* Drops one hold on a block. If it was the last one, adds the block to *d if it is kept, or else its slot if no other part of that slot is held. Call with the
 * lock held. */
static void drop_block(struct stk_ring *r, struct stk_block *b, struct dropped *d)
{
	if (atomic_fetch_sub(&b->holds, 1) > 1)
		return;
	if (b->slot) {
		release_held_part(b->slot, d);
		return;
	}
	r->kept_memory[b->space].bytes -= b->kept_bytes;
	r->values[b->value].n_kept_blocks--;
	r->values[b->value].kept_bytes -= b->kept_bytes;
	b->next = d->blocks;
	d->blocks = b;
}

/* Turns a kept block, which its last holder has dropped, into a spare block, or frees it if the ring needs no more of them. Call without the lock. */
static void recycle(struct stk_ring *r, struct stk_block *b)
{
	bool noted = stk__uses_record(r->source.dev, &b->uses);
	pthread_mutex_lock(&r->lock);
	struct stk_ring_value *val = &r->values[b->value];
	bool spare = noted && !r->disowned && val->n_spare_blocks < STK_RING_SPARES;
	if (spare) {
		b->next = val->spare_blocks;
		val->spare_blocks = b;
		val->n_spare_blocks++;
		atomic_fetch_add(&r->bytes, b->capacity);
	}
	pthread_mutex_unlock(&r->lock);
	if (!spare)
		stk__block_free(&r->source, b);
}

/* Puts a dropped slot into the list of free slots, and recycles or frees the other dropped parts. Call without the lock, since this may wait or free memory. */
static void return_to_ring(struct stk_ring *r, struct dropped *d)
{
	if (d->slot) {
		stk__uses_record(r->source.dev, &d->slot->uses);
		pthread_mutex_lock(&r->lock);
		free_slot(r, d->slot);
		call_on_return(r);
		pthread_mutex_unlock(&r->lock);
		stk__ring_unref(r);
	}
	while (d->blocks) {
		struct stk_block *b = d->blocks;
		d->blocks = b->next;
		recycle(r, b);
		stk__ring_unref(r);
	}
	if (d->face) {
		stk__face_free(d->face);
		stk__ring_unref(r);
	}
}

/* Unlocks the ring, and handles the dropped parts like return_to_ring. Puts a slot that no stream reads into the list of free slots before the unlock, so that
 * the lock is not taken a second time. */
static void unlock_and_return(struct stk_ring *r, struct dropped *d)
{
	struct stk_slot *back = d->slot && !d->slot->uses.n_uses ? d->slot : NULL;
	if (back) {
		free_slot(r, back);
		d->slot = NULL;
	}
	if (back || d->blocks)
		call_on_return(r);
	pthread_mutex_unlock(&r->lock);
	return_to_ring(r, d);
	if (back)
		stk__ring_unref(r);
}

/* Drops one hold on a block without the ring's lock. Returns false, and drops nothing, if it is the last hold. */
static bool drop_one_of_many(struct stk_block *b)
{
	int32_t n = atomic_load(&b->holds);
	while (n > 1)
		if (atomic_compare_exchange_weak(&b->holds, &n, n - 1))
			return true;
	return false;
}

void stk__block_drop(struct stk_block *b)
{
	struct stk_ring *r = b->ring;
	struct dropped d = {0};
	if (r->process != getpid() || drop_one_of_many(b))
		return;
	pthread_mutex_lock(&r->lock);
	drop_block(r, b, &d);
	unlock_and_return(r, &d);
}

void stk__face_release(struct stk_face *f, struct stk_block *const *blocks, int32_t n, bool whole)
{
	struct stk_ring *r = f->ring;
	struct dropped d = {0};
	if (r->process != getpid())
		return;
	pthread_mutex_lock(&r->lock);
	for (int32_t i = 0; i < n; i++)
		drop_block(r, blocks[i], &d);
	if (whole) {
		f->consumer_holds = false;
		if (f->slot)
			release_held_part(f->slot, &d);
		else
			d.face = f;
	}
	unlock_and_return(r, &d);
}

void stk__slot_return(struct stk_slot *s)
{
	struct stk_ring *r = s->ring;
	struct dropped d = {.slot = s};
	if (r->process != getpid())
		return;
	pthread_mutex_lock(&r->lock);
	for (int32_t v = 0; v < r->n_values; v++)
		if (s->values[v].block)
			atomic_store(&s->values[v].block->holds, 0);
	if (s->face)
		s->face->consumer_holds = false;
	s->held_parts = 0;
	unlock_and_return(r, &d);
}

enum stk_status stk__block_use_stream(struct stk_block *b, stk_gpu_stream stream, struct stk_error *err)
{
	struct stk_ring *r = b->ring;
	if (!r->source.dev)
		return STK_OK;
	pthread_mutex_lock(&r->lock);
	const int32_t at = stk__uses_add(b->slot ? &b->slot->uses : &b->uses, stream);
	if (b->slot && at >= 0)
		b->slot_uses |= UINT32_C(1) << at;
	pthread_mutex_unlock(&r->lock);
	return at >= 0 ? STK_OK
		       : stk__fail(err, STK_LIMIT, "a batch is read on more than %d streams; make the others wait for one of these",
				 STK_SLOT_STREAMS);
}
