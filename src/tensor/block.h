/* SPDX-License-Identifier: Apache-2.0
 *
 * A block is the memory of one value of a batch, in host memory or on a GPU.
 * A block has one allocation, which holds a region for samples of the expected shape and then room for others. Samples that fit in neither get chunks of
 * their own. A chunk can also be memory that other code has filled and the block takes over. Blocks are parts of slots; slot.h describes their life. A
 * consumer also holds a batch by its blocks, so that a tensor keeps only the memory of its own output alive.
 *
 * Small blocks (up to STK_BLOCK_SMALL bytes) have no mapping of their own: in host memory they come from malloc, and on a GPU several share one allocation.
 * So a consumer can hold thousands of them.
 *
 * The consumer's streams may still read GPU memory that the consumer has returned, and the memory must not be written before these reads are done. struct
 * stk_uses records the streams, and later an event on each. */
#ifndef STK_TENSOR_BLOCK_H
#define STK_TENSOR_BLOCK_H

#include "gpu/gpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stk_space { STK_SPACE_HOST, STK_SPACE_GPU, STK_SPACES };

enum { STK_BLOCK_SMALL = 1 << 20, STK_SLOT_STREAMS = 4 };

/* ---- the consumer's streams ---- */

struct stk_uses {
	struct {
		stk_gpu_stream stream;
		stk_gpu_event event; /* recorded when the consumer returned the memory, after all work queued on the stream by then */
	} uses[STK_SLOT_STREAMS];
	int32_t n_uses, n_waits; /* number of streams that read the memory now; number of events that the next writer waits for */
	bool unrecorded;         /* an event could not be recorded: the next writer waits for all work on the device */
};

/* Adds a stream that reads the memory. Returns its index in u->uses, or -1 if STK_SLOT_STREAMS other streams are recorded already. */
int32_t stk__uses_add(struct stk_uses *u, stk_gpu_stream stream);
/* Records an event on each stream in use, for which the next writer then waits, and marks the streams as no longer in use. Returns false, and does nothing, if
 * one of the streams is being captured into a CUDA graph, since the graph must not contain the event: try again later. If an event cannot be created, waits for
 * its stream instead; if it cannot be recorded, sets u->unrecorded. If the device cannot be used (a forked child, a lost device), does nothing and returns true. */
bool stk__uses_record(struct stk_gpu_device *dev, struct stk_uses *u);
/* Returns true if the streams have passed all recorded events, if there are no events, or if the device cannot be used. If the streams have passed all of
 * them, forgets the events, so that the next writer does not wait for them. Returns false if u->unrecorded is set. */
bool stk__uses_ended(struct stk_gpu_device *dev, struct stk_uses *u);
void stk__uses_free(struct stk_gpu_device *dev, struct stk_uses *u);

/* ---- GPU memory that small blocks share ---- */

struct stk_shared;

/* Hands out pieces of shared allocations of 4 MiB each to small GPU blocks. An allocation is filled from front to end, and freed when its last piece has been
 * returned. A returned piece is not handed out again, because the GPU may still read or write it. The lock guards only the counts and pointers. */
struct stk_shared_pool {
	pthread_mutex_t lock;
	struct stk_shared *open; /* the allocation that is being filled, or NULL */
};

/* ---- blocks ---- */

struct stk_ring;
struct stk_slot;
struct stk_chunk;

struct stk_block {
	struct stk_ring *ring;
	struct stk_slot *slot;  /* NULL: the block belongs to its holders, or is spare or new */
	struct stk_block *next; /* next in a list of spare blocks */
	enum stk_space space;
	int32_t value;
	uint8_t *data;
	size_t capacity, fixed;    /* size of the allocation, and of the region at its start, in bytes; the rest is for other samples */
	_Atomic size_t extra_used; /* number of bytes requested after the region so far; may exceed capacity - fixed */
	_Atomic(struct stk_chunk *) chunks;
	struct stk_shared *shared; /* the shared allocation that contains the block; NULL if the block has an allocation of its own */
	/* number of tensors that use the block, plus one while its batch is being filled or held as a whole. Becomes 0 only under the ring's lock */
	_Atomic int32_t holds;
	size_t kept_bytes;    /* number of bytes counted in the ring's kept_memory; valid if the block belongs to its holders */
	struct stk_uses uses; /* valid if the block belongs to no slot; otherwise `uses` of the slot is valid */
	uint32_t slot_uses;   /* bit i: the stream with index i in the slot's `uses` reads this block; 0 before the slot is delivered */
};

/* The source of the memory of a ring's blocks. */
struct stk_block_source {
	struct stk_gpu_device *dev; /* NULL: only host memory */
	struct stk_shared_pool shared;
	_Atomic bool closed; /* the pipeline was destroyed: GPU memory is freed soon, not only retired */
	/* Both are guarded by the lock of `shared`. */
	struct stk_error gpu_error; /* error of the last allocation on the GPU that failed */
	size_t gpu_available;       /* number of bytes that were free on the GPU then; SIZE_MAX: not known */
};

/* Prepares the block for the next batch: gives it a region of `fixed` bytes and `extra_bytes` bytes after it, and releases its chunks. Does not allocate if the
 * present memory is large enough and not much larger. Returns false if memory is short; the block then has no memory. */
bool stk__block_resize(struct stk_block_source *source, struct stk_block *b, size_t fixed, size_t extra_bytes);
/* Returns `size` bytes of the block's memory after the region, or of a new chunk if too little is left; NULL: memory is short. Safe from several threads. */
uint8_t *stk__block_take(struct stk_block_source *source, struct stk_block *b, size_t size);
/* Adds memory, which other code has filled, to the block as a chunk. Calls `release` with `owner`, on any thread, when the block is used again or freed.
 * Returns false if memory is short; the caller then still owns the data. Only for blocks in host memory. Safe from several threads at once. */
bool stk__block_adopt(struct stk_block *b, uint8_t *data, size_t size, void (*release)(void *owner), void *owner);
/* Returns whether [piece, piece + size) lies in a single allocation of the block. Two adjacent allocations do not count as one, since a copy must not span
 * them. */
bool stk__block_has_piece(const struct stk_block *b, const uint8_t *piece, size_t size);
/* Returns the size in bytes of the block and its chunks. */
size_t stk__block_bytes(const struct stk_block *b);
/* Frees the block and its memory. NULL is allowed. */
void stk__block_free(struct stk_block_source *source, struct stk_block *b);

void stk__block_source_init(struct stk_block_source *source);
void stk__block_source_destroy(struct stk_block_source *source); /* call after all blocks are freed */

size_t stk__whole_lines(size_t bytes); /* rounds up to whole cache lines */

#endif
