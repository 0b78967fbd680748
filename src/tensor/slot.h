/* SPDX-License-Identifier: Apache-2.0
 *
 * Output slots and their ring. A slot is the memory of one batch: for each kept value a block (block.h) with a region for `batch` samples of the shape
 * that is expected (known beforehand, or that of the last batch when it was uniform), and room after them for samples that turn out otherwise; and a
 * face, which describes the samples and carries what the ring's owner adds. A slot is reused when the last holder of its parts lets go, which may be
 * after the ring's owner has gone; then nothing is allocated.
 *
 * A value lies in host memory or on a GPU. Addresses of the GPU travel in the same pointers.
 *
 * The life of a slot, and who makes the transitions:
 *
 *   (none)  -> FILLING   [stk__ring_take]    made, while there are fewer than `limit`
 *   FREE    -> FILLING   [stk__ring_take]    laid out again
 *   FILLING -> OUT       [stk__slot_deliver]
 *   FILLING -> FREE      [stk__slot_return]  nobody came for the batch
 *   OUT     -> FREE      [stk__face_release, stk__block_drop]  by the last holder of a part
 *   OUT     -> FILLING   [stk__ring_take]    parts that are held are let go of, and the slot gets others
 *   FREE    -> (none)    [stk__ring_take]    there are more than the last batches needed
 *
 *   FREE     No part is held. The consumer's streams may still read the blocks: `uses` knows.
 *   FILLING  The engine holds all parts and writes the batch. The batch may be done and wait for its consumer.
 *   OUT      The consumer holds parts: the batch as a whole (all parts), one output (its block and the face), or a tensor (its block).
 *
 * The life of a part: it belongs to a slot, or it is KEPT: let go of by the ring, it belongs to its holders alone, and has gone when the last of them lets
 * go. (A kept block then becomes a spare one, for the next slot that lacks one, where there are fewer than STK_RING_SPARES.) The ring lets go of parts
 *   - when a slot is wanted, and of a slot that is out only small blocks or the face are held and a larger block is not: so labels never pin images;
 *   - when `limit` slots are out: of the held parts of the slot delivered first. The ring keeps its size, and what is held belongs to its holders.
 * Bytes of kept blocks count against `held_limit`; when they would exceed it, there is no slot until something is dropped.
 *
 * Locks: the ring's guards states, holds that become 0, and lists. No memory is allocated or freed and nothing is waited for while it is held. Recording
 * and querying events is done with it. A slot that is FILLING and not yet delivered is its taker's. */
#ifndef STK_TENSOR_SLOT_H
#define STK_TENSOR_SLOT_H

#include "base/memory.h"
#include "stoker/tensor.h"
#include "tensor/block.h"

/* One kept value. */
struct stk_slot_value {
	struct stk_tensor *samples; /* `batch` of them; the face's */
	struct stk_desc expected;   /* of a sample; ndim -1: none is */
	uint8_t *region;            /* batch * sample_bytes; NULL without an expected shape */
	int64_t sample_bytes;
	size_t room; /* wanted after the region */
	struct stk_block *block;
};

/* What is known of a batch's samples. */
struct stk_face {
	struct stk_ring *ring;
	struct stk_slot *slot;       /* NULL: kept */
	bool held;                   /* guarded by the ring's lock */
	struct stk_tensor **samples; /* by value; one allocation */
	void *owner_data;            /* where the ring's owner keeps what it knows of the batch; freed by on_free */
};

enum stk_slot_state { STK_SLOT_FREE, STK_SLOT_FILLING, STK_SLOT_OUT };

struct stk_slot {
	struct stk_ring *ring;
	struct stk_slot *next, *next_free;
	enum stk_slot_state state;
	int32_t held;      /* how many parts are held */
	int64_t delivered; /* its number among the slots delivered */
	struct stk_slot_value *values;
	struct stk_face *face;
	size_t bytes[STK_SPACES]; /* of its blocks */
	struct stk_uses uses;
	stk_gpu_event written; /* recorded by stk__slot_written after the writer's work; NULL: never */
	bool writing;          /* that work was not yet seen to have ended */
	bool laid;             /* of a fixed ring: all its samples have their places, for good */
};

enum { STK_RING_SPARES = 2 };

/* Why there is no slot. */
enum stk_ring_lack {
	STK_RING_LACKS_NOTHING,
	STK_RING_ALL_OUT,   /* `limit` are out, and it is hard; or all are being filled */
	STK_RING_HELD,      /* what would be held beside them is over held_limit */
	STK_RING_NO_MEMORY, /* for the blocks */
};

struct stk_ring_value {
	struct stk_desc expected; /* what new batches are laid out for */
	struct stk_desc known;    /* what is known beforehand */
	size_t room;              /* for samples of unexpected shape: what the last batches needed */
	bool on_gpu;
	struct stk_block *spare;
	int32_t spares;
	int32_t kept; /* blocks that the ring has let go of and that are still held */
	size_t kept_bytes;
};

struct stk_ring {
	_Atomic int refs; /* the owner's, one for each slot that is out and for each part that is kept */
	pthread_mutex_t lock;
	struct stk_slot *all, *free;
	struct stk_ring_value *values;
	int32_t batch, n_values, limit, made;
	bool hard; /* `limit` is hard: the ring lets go of nothing but small blocks */
	int64_t takes, delivered;
	int32_t peak_out, window_peak, last_peak; /* of `out`: ever, in this window of takes, in the one before */
	_Atomic int32_t out;                      /* slots that are being filled or held */
	_Atomic bool wanted;                      /* a taker went without a slot: on_return is called for what is dropped next */
	_Atomic bool pinned;                      /* the ring has let go of a block that is not small */
	_Atomic size_t bytes;                     /* of all blocks of slots, and spare ones */
	size_t enough;                            /* no slot is made for a lagging consumer beyond so many bytes; 0: no bound */
	struct {
		size_t bytes;  /* of kept blocks */
		size_t limit;  /* for them */
		size_t looked; /* `bytes` when the limit was last worked out from free memory; SIZE_MAX: the limit was given */
	} held[STK_SPACES];
	struct stk_block_source source;
	bool fixed;            /* stk__ring_fix */
	stk_gpu_stream stream; /* for moving samples together */
	int64_t process;       /* pid: in a forked child the lock may be held by a thread that is not there */
	bool disowned;         /* the owner has gone: what comes back is freed */
	void (*on_free)(void *owner_data);
	void (*on_return)(void *owner); /* a slot that is wanted may be had; called under the ring's lock; cleared when the owner goes */
	void *owner;
};

/* values: what is known of each kept value. limit: slots that are made before the ring lets go of those that are out; hard: it never does. held_limit:
 * bytes of either space that may be held beside the ring; 0: half of what is free there, worked out when it matters. */
struct stk_ring *stk__ring_create(
	const struct stk_desc *values, int32_t n_values, int32_t batch, int32_t limit, bool hard, size_t held_limit);
/* Values that lie on a GPU; before the first slot is taken. The ring holds the device from then on. */
STK_MUST_USE enum stk_status stk__ring_on_gpu(struct stk_ring *ring, struct stk_gpu_device *dev, const bool *on_gpu, struct stk_error *err);
/* All samples are of the known shapes, which are whole, and none is ever left out: a slot is laid out once, with all samples in their places. Before the
 * first slot is taken; stk__slot_place and stk__slot_settle have no work then. */
void stk__ring_fix(struct stk_ring *ring);
/* The owner lets go; what is held keeps the ring until it comes back. */
void stk__ring_unref(struct stk_ring *ring);
void stk__ring_disown(struct stk_ring *ring);

/* A slot laid out for the next batch; NULL: *lack says why (and one is wanted). Allocates, frees and may wait for the GPU: to be called without locks. */
struct stk_slot *stk__ring_take(struct stk_ring *ring, enum stk_ring_lack *lack);
/* Why a slot could not be had now, with nothing under way. STK_RING_LACKS_NOTHING: stk__ring_take would try. */
enum stk_ring_lack stk__ring_lacks(struct stk_ring *ring);
/* Whether at most n slots are out; if not, on_return is called when the next one comes back. */
bool stk__ring_at_most(struct stk_ring *ring, int32_t n);
/* What is held of a value: blocks, of slots that are out and kept ones, and their bytes. */
void stk__ring_held(struct stk_ring *ring, int32_t value, int32_t *blocks, size_t *bytes);
/* Bytes of kept blocks in a space, and the limit for them; limit 0: not yet worked out. */
size_t stk__ring_kept(struct stk_ring *ring, enum stk_space space, size_t *limit);

/* ---- what the consumer holds ---- */

/* The consumer has the batch: it holds all parts. */
void stk__slot_deliver(struct stk_slot *slot);
/* Gives up all parts of a slot that was not delivered. */
void stk__slot_return(struct stk_slot *slot);
/* One more tensor over a block that the caller holds. */
void stk__block_hold(struct stk_block *block);
/* In a child of the process that made the ring these do nothing: what is held is the parent's to use. Any thread. */
void stk__block_drop(struct stk_block *block);
/* Drops n blocks, and then, if `whole`, the face. */
void stk__face_release(struct stk_face *face, struct stk_block *const *blocks, int32_t n, bool whole);
/* The consumer reads the block on this stream. */
STK_MUST_USE enum stk_status stk__block_use_stream(struct stk_block *block, stk_gpu_stream stream, struct stk_error *err);
/* Copies from the ring's GPU to host memory, and waits for it. */
STK_MUST_USE enum stk_status stk__ring_download(struct stk_ring *ring, void *to, stk_gpu_ptr from, size_t size, struct stk_error *err);

/* ---- writing ---- */

/* Whether the consumer's streams have come past their last use of the slot. */
bool stk__slot_at_rest(struct stk_slot *slot);
/* Waits on the host until they have. */
STK_MUST_USE enum stk_status stk__slot_rest(struct stk_slot *slot, struct stk_error *err);
/* Makes `stream` wait for them, for a writer with one stream of its own. (Each stream that waits for another keeps a channel of the GPU polling, and
 * with several of those every kernel of the consumer begins a microsecond later.) Inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__slot_wait(struct stk_slot *slot, stk_gpu_stream stream, struct stk_error *err);
/* Notes what `stream` has been given to do as the slot's writing. Inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__slot_written(struct stk_slot *slot, stk_gpu_stream stream, struct stk_error *err);
/* Whether it is done. Looks more than once: it mostly is, or is about to be. */
STK_MUST_USE enum stk_status stk__slot_is_written(struct stk_slot *slot, bool *done, struct stk_error *err);

/* Where sample i of value v goes: sets samples[v][i] and returns false when memory is short. Any thread, different i at once. */
bool stk__slot_place(struct stk_slot *slot, int32_t v, int32_t i, const struct stk_desc *desc);
/* The same for memory that someone else has filled, which becomes the sample's as it is (stk__block_adopt). False: it is to be copied, since samples of this
 * shape have a region in which they lie dense, or the value lies on a GPU, or memory is short. */
bool stk__slot_adopt(
	struct stk_slot *slot, int32_t v, int32_t i, const struct stk_desc *desc, uint8_t *data, void (*release)(void *owner), void *owner);

/* After a batch, for a value that nobody gets: remembers how much room it took. */
void stk__slot_learn(struct stk_slot *slot, int32_t v);

/* After a batch of n samples: true when all samples of v have one shape; then they lie dense, in one allocation (moved
 * there if they must be; false where memory was short). Remembers what to expect. */
bool stk__slot_settle(struct stk_slot *slot, int32_t v, int32_t n, void **dense);

#endif
