/* SPDX-License-Identifier: Apache-2.0
 *
 * Output slots and their ring. A slot is the memory of one batch. A value is one tensor for each sample, for example the images or the labels. For each value
 * the slot has a block (block.h) with a region for `batch` samples of the expected shape, and room after it for samples of other shapes. The expected shape
 * is known beforehand, or is that of the last batch if all its samples had one shape. A slot also has a face, which describes the samples and carries data
 * that the ring's owner attaches. The blocks and the face are the slot's parts. When no part is held any more, the slot is reused without any allocation.
 * Parts may outlive the ring's owner.
 *
 * A value lies in host memory or on a GPU. GPU addresses are stored in the same pointers.
 *
 * The states of a slot, and the functions that change them:
 *
 *   (none)  -> FILLING   [stk__ring_take]    made, while there are fewer than `limit`
 *   FREE    -> FILLING   [stk__ring_take]    laid out again
 *   FILLING -> OUT       [stk__slot_deliver]
 *   FILLING -> FREE      [stk__slot_return]  the batch was not delivered
 *   OUT     -> FREE      [stk__face_release, stk__block_drop]  by the last holder of a part; FILLING until events are recorded on its readers' streams
 *   OUT     -> FILLING   [stk__ring_take]    the ring lets go of held parts, and the slot gets others
 *   FREE    -> (none)    [stk__ring_take]    there are more slots than the last batches needed
 *
 *   FREE     No part is held. The consumer's streams may still read the blocks; `uses` records which.
 *   FILLING  The thread that took the slot holds all parts, and the batch is being written. The batch may be finished and not yet delivered.
 *   OUT      The consumer holds parts: the batch as a whole (all parts), one output (its block and the face), or a tensor (its block).
 *
 * A part belongs to a slot, or it is KEPT: the ring has let go of it, it belongs only to its holders, and it ends when the last of them drops it. (A kept
 * block then becomes a spare block for the next slot that lacks one, unless the value has STK_RING_SPARES of them already.) The ring lets go of held parts
 *   - of a slot that is out, when a slot is needed and the consumer holds only small blocks or the face, but none of the slot's larger blocks: so held labels
 *     do not keep images alive;
 *   - of the slot delivered first, if `limit` slots are out. The ring keeps its size, and the held parts belong to their holders.
 * Bytes of kept blocks count against `held_limit`. If they would exceed it, stk__ring_take returns no slot until something is dropped.
 *
 * Locks: the ring's lock guards states, the change of `holds` to 0, and lists. No code allocates, frees or waits with it held. Events may be recorded
 * and queried with it held. A slot that is FILLING and not yet delivered belongs to the thread that took it. */
#ifndef STK_TENSOR_SLOT_H
#define STK_TENSOR_SLOT_H

#include "base/memory.h"
#include "stoker/tensor.h"
#include "tensor/block.h"

/* The memory of one value in a slot. */
struct stk_slot_value {
	struct stk_tensor *samples; /* array of `batch` samples, owned by the face */
	struct stk_desc expected;   /* shape of a sample; ndim -1: no shape is expected */
	uint8_t *
		region; /* memory of batch * sample_bytes bytes; NULL if no shape is expected, or if sample_bytes is above the ring's sample_limit */
	int64_t sample_bytes;
	size_t extra_bytes; /* capacity in bytes for samples of other shapes, after the region */
	struct stk_block *block;
};

/* Describes the samples of a batch. */
struct stk_face {
	struct stk_ring *ring;
	struct stk_slot *slot;       /* NULL: the face is kept */
	bool consumer_holds;         /* true while the consumer has the batch; guarded by the ring's lock */
	struct stk_tensor **samples; /* indexed by value, then by sample; one allocation */
	void *owner_data;            /* data that the ring's owner attaches to the batch; freed by on_free */
};

enum stk_slot_state { STK_SLOT_FREE, STK_SLOT_FILLING, STK_SLOT_OUT };

struct stk_slot {
	struct stk_ring *ring;
	struct stk_slot *next, *next_free;
	enum stk_slot_state state;
	int32_t held_parts;
	int64_t delivered; /* number of the delivery, counted from 1 */
	struct stk_slot_value *values;
	struct stk_face *face;
	size_t bytes[STK_SPACES]; /* total size in bytes of the slot's blocks in each space */
	struct stk_uses uses;
	stk_gpu_event written; /* recorded by stk__slot_written after the writer's work; NULL before the first record */
	bool writing;          /* true if the work before `written` may still be running */
	bool laid_out;         /* the samples have their final addresses; only in a ring after stk__ring_fix */
};

enum { STK_RING_SPARES = 2 };

/* The reason why stk__ring_take returns no slot. */
enum stk_ring_lack {
	STK_RING_LACKS_NOTHING,
	STK_RING_ALL_OUT,   /* `limit` slots are out, and the limit is hard; or all are being filled */
	STK_RING_HELD,      /* the kept blocks would exceed held_limit if the ring let go of a slot's held parts */
	STK_RING_NO_MEMORY, /* memory for blocks could not be allocated */
};

struct stk_ring_value {
	struct stk_desc expected; /* shape that new batches are laid out for */
	struct stk_desc known;    /* the shape as far as it is known when the ring is created */
	size_t extra_bytes;       /* capacity in bytes for samples of other shapes, computed from the last batches */
	bool on_gpu;
	struct stk_block *spare_blocks;
	int32_t n_spare_blocks;
	int32_t n_kept_blocks; /* number of blocks that the ring has let go of and that are still held */
	size_t kept_bytes;     /* total size in bytes of these blocks */
};

struct stk_ring {
	_Atomic int refs; /* number of references: of the owner, of each slot that is being filled or out, and of each kept part */
	pthread_mutex_t lock;
	struct stk_slot *slots, *free_slots;
	struct stk_ring_value *values;
	int32_t batch, n_values, limit, n_slots;
	int32_t short_at;   /* number of slots at which there was no memory for one more; INT32_MAX: unknown */
	bool starving;      /* the consumer waits and holds all slots: the next take makes a slot, or fails */
	bool limit_is_hard; /* if `limit` slots are out, the ring lets go only of small blocks and faces */
	int64_t n_takes, delivered;
	int32_t peak_out, window_peak, last_peak; /* maximum of n_out: ever, in the current window of takes, and in the window before it */
	_Atomic int32_t n_out;                    /* number of slots that are being filled or held */
	_Atomic bool taker_waits;                 /* no slot was available for a taker: call on_return at the next drop */
	_Atomic bool pinned;                      /* true once a held block above STK_BLOCK_SMALL was separated from its slot */
	_Atomic size_t bytes;                     /* total size in bytes of the blocks of all slots and of the spare blocks */
	size_t sample_limit;                      /* a sample that is expected to have more bytes gets no region; 0: no limit */
	size_t lag_limit; /* if streams still read all free slots, another is made only while `bytes` stays at most this; 0: no limit */
	struct {
		size_t bytes;          /* total size in bytes of the kept blocks */
		size_t limit;          /* maximum of `bytes` */
		size_t measured_bytes; /* `bytes` when the limit was last computed from free memory; SIZE_MAX: the limit was given */
	} kept_memory[STK_SPACES];
	struct stk_block_source source;
	bool fixed;            /* stk__ring_fix was called */
	stk_gpu_stream stream; /* stream on which samples are moved next to each other, and downloaded */
	int64_t process; /* pid of the process that made the ring; in a forked child the lock may be held by a thread that does not exist there */
	bool disowned; /* stk__ring_release_owner was called: a kept block is freed when its last holder drops it */
	void (*on_free)(void *owner_data);
	/* called under the ring's lock when a wanted slot may be available; NULL after the owner has gone */
	void (*on_return)(void *owner);
	void *owner;
};

/* Creates a ring.
 * values: the known part of each value's shape.
 * limit: number of slots to make before the ring lets go of those that are out; if `hard`, it only lets go of small blocks and faces.
 * held_limit: bytes of kept blocks allowed in each space; 0: half of the sum of the free memory and the kept blocks, computed when needed. */
struct stk_ring *stk__ring_create(
	const struct stk_desc *values, int32_t n_values, int32_t batch, int32_t limit, bool hard, size_t held_limit);
/* Puts the chosen values on a GPU. Call before the first slot is taken. The ring keeps a reference to the device. */
STK_MUST_USE enum stk_status stk__ring_on_gpu(struct stk_ring *ring, struct stk_gpu_device *dev, const bool *on_gpu, struct stk_error *err);
/* Declares that all samples have the known shapes, which must be complete, and that no sample is ever left out. A slot is then laid out once, and the
 * addresses of its samples never change. Call before the first slot is taken; stk__slot_place and stk__slot_make_dense have nothing to do afterwards. */
void stk__ring_fix(struct stk_ring *ring);
/* Drops one reference. The ring is freed when no reference is left; slots that are out and kept parts have references too. */
void stk__ring_unref(struct stk_ring *ring);
/* Lets the ring free memory of the GPU soon from now on, instead of retiring it. Call when the owner's work has ended. */
void stk__ring_close(struct stk_ring *ring);
/* Ends the owner's use of the ring, and closes it: drops its reference, never calls on_return again, and frees the spare blocks. Kept blocks that are dropped
 * later are freed too. */
void stk__ring_release_owner(struct stk_ring *ring);

/* Takes a slot that is laid out for the next batch. NULL: *lack says why, and unless memory is short, on_return is called at the next drop. May allocate,
 * free and wait for the GPU: call without locks. */
struct stk_slot *stk__ring_take(struct stk_ring *ring, enum stk_ring_lack *lack);
/* Reports why stk__ring_take would return no slot in the present state. STK_RING_LACKS_NOTHING: it would try to return one. */
enum stk_ring_lack stk__ring_lacks(struct stk_ring *ring);
/* Returns the expected shape of the value that takes the most memory in a batch, for a message about a lack of memory. ndim is -1 if no shape is known. */
struct stk_desc stk__ring_largest(struct stk_ring *ring);
/* Sets *why to the GPU's error if the last stk__ring_take lacked memory there, and *available to the bytes that were free on the GPU, or to SIZE_MAX if that
 * is not known. Returns false if host memory was short. */
bool stk__ring_lacked_gpu(struct stk_ring *ring, struct stk_error *why, size_t *available);
/* Returns whether at most n slots are being filled or held. If not, on_return is called when the next slot or kept block is dropped. */
bool stk__ring_out_at_most(struct stk_ring *ring, int32_t n);
/* Sets *blocks to the number of a value's blocks that are kept or belong to slots that are out, and *bytes to their total size in bytes. */
void stk__ring_held_blocks(struct stk_ring *ring, int32_t value, int32_t *blocks, size_t *bytes);
/* Returns the total size in bytes of the kept blocks in a space. Sets *limit to its maximum, or to 0 if that is not computed yet. */
size_t stk__ring_kept_bytes(struct stk_ring *ring, enum stk_space space, size_t *limit);

/* ---- holds of the consumer ---- */

/* Hands the slot to the consumer, which then holds all parts. */
void stk__slot_deliver(struct stk_slot *slot);
/* Drops all parts of a slot that was not delivered. */
void stk__slot_return(struct stk_slot *slot);
/* Adds a hold for one more tensor on a block that the caller holds already. */
void stk__block_hold(struct stk_block *block);
/* The next two functions drop holds. In a forked child of the process that made the ring they do nothing, since the parts belong to the parent. Any thread. */
void stk__block_drop(struct stk_block *block);
/* Drops n blocks, and after them the face if `whole`. */
void stk__face_release(struct stk_face *face, struct stk_block *const *blocks, int32_t n, bool whole);
/* Records that the consumer reads the block on this stream. */
STK_MUST_USE enum stk_status stk__block_use_stream(struct stk_block *block, stk_gpu_stream stream, struct stk_error *err);
struct stk_block_copy {
	void *to;
	const void *from; /* an address on the GPU */
	size_t size;
};
/* Copies n pieces of the block from the GPU to host memory, after the work that is queued on the streams that were recorded for this block, which may write it.
 * Waits until the copies are done. STK_INVALID: a target is not in host memory. */
STK_MUST_USE enum stk_status stk__block_download(
	struct stk_block *block, const struct stk_block_copy *copies, int32_t n, struct stk_error *err);

/* ---- writing ---- */

/* Returns whether the consumer's streams have passed their last use of the slot. */
bool stk__slot_streams_done(struct stk_slot *slot);
/* Blocks the calling thread until the consumer's streams have passed their last use of the slot. */
STK_MUST_USE enum stk_status stk__slot_wait_streams(struct stk_slot *slot, struct stk_error *err);
/* Makes `stream` wait until the consumer's streams have passed their last use of the slot, and until the writing of an earlier batch that was not delivered has
 * ended; for a writer with a single stream. (Each stream that waits for another keeps a channel of the GPU polling. If several channels poll, every kernel of
 * the consumer starts a microsecond later.) Call inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__slot_wait(struct stk_slot *slot, stk_gpu_stream stream, struct stk_error *err);
/* Records that the slot is written by the work queued on `stream` so far. Call inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__slot_written(struct stk_slot *slot, stk_gpu_stream stream, struct stk_error *err);
/* Sets *done to true if the work that stk__slot_written recorded has finished. Queries for about ten microseconds, since it usually finishes by then. */
STK_MUST_USE enum stk_status stk__slot_is_written(struct stk_slot *slot, bool *done, struct stk_error *err);

/* Gives sample i of value v memory in the slot, and sets samples[v][i] to it. Returns false if memory is short. Safe from several threads for different i. */
bool stk__slot_place(struct stk_slot *slot, int32_t v, int32_t i, const struct stk_desc *desc);
/* Like stk__slot_place, for memory that other code has filled, which is used without a copy (stk__block_adopt). Returns false if the caller has to copy:
 * samples of this shape have a region in which they lie dense, or the value lies on a GPU, or memory is short. */
bool stk__slot_adopt(
	struct stk_slot *slot, int32_t v, int32_t i, const struct stk_desc *desc, uint8_t *data, void (*release)(void *owner), void *owner);

/* Records how many bytes the samples of value v took outside of the region, for the size of later slots. Call after a batch, for a value that no consumer
 * receives; for the others stk__slot_make_dense does it. */
void stk__slot_learn(struct stk_slot *slot, int32_t v);

/* Call after a batch of n samples. If all samples of v have one shape, makes them lie dense in one allocation, which may move them, sets *dense to their
 * address and returns true. Sets *dense to NULL and returns false if shapes differ, if moving fails, or if n is 0. Also records shape and size for later
 * slots. */
bool stk__slot_make_dense(struct stk_slot *slot, int32_t v, int32_t n, void **dense);

#endif
