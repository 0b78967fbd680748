/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks: a block is the memory of one value of a batch, in host memory or on a GPU. It has a region and room that are one allocation, and chunks for
 * what did not fit, and for memory that others have filled, which it takes over as it is. Blocks are parts of slots (slot.h says how they live); a block is also what a consumer holds of a batch, so that a
 * tensor keeps the memory of its own output and no more.
 *
 * Small blocks (up to STK_BLOCK_SMALL bytes) take no mapping of their own: the host's come from malloc, a GPU's lie side by side in allocations that they
 * share. So thousands of them can be held.
 *
 * The GPU's side of reuse: what the consumer's streams still do with memory when it comes back has to be waited for before it is written again. struct
 * stk_uses notes the streams, then an event on each. */
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

/* ---- streams of consumers ---- */

struct stk_uses {
	struct {
		stk_gpu_stream stream;
		stk_gpu_event event; /* its work at the time when the memory came back */
	} of[STK_SLOT_STREAMS];
	int32_t n_uses, n_waits; /* streams that read the memory now; events that the next writer waits for */
};

/* False: STK_SLOT_STREAMS other streams are noted already. */
bool stk__uses_add(struct stk_uses *u, stk_gpu_stream stream);
/* Records an event on each stream. False: one of them is being captured into a graph, which must not contain the event; try again later. If no event
 * can be had, waits for the stream. */
bool stk__uses_note(struct stk_gpu_device *dev, struct stk_uses *u);
/* Whether the streams have passed the recorded events. */
bool stk__uses_over(struct stk_gpu_device *dev, struct stk_uses *u);
void stk__uses_free(struct stk_gpu_device *dev, struct stk_uses *u);

/* ---- memory of a GPU that small blocks share ---- */

struct stk_shared;

/* Allocations of some MiB, filled from front to end and freed when the last piece has come back: no piece is used twice, since the GPU may still be at
 * work with it. The lock guards bookkeeping alone. */
struct stk_shared_pool {
	pthread_mutex_t lock;
	struct stk_shared *open; /* the one that is being filled; NULL: none */
};

/* ---- blocks ---- */

struct stk_ring;
struct stk_slot;
struct stk_chunk;

struct stk_block {
	struct stk_ring *ring;
	struct stk_slot *slot;  /* NULL: it belongs to its holders (or is spare, or new) */
	struct stk_block *next; /* of a list of spare ones */
	enum stk_space space;
	int32_t value;
	uint8_t *data;
	size_t capacity, fixed;   /* bytes; `fixed` are the region, the rest is room */
	_Atomic size_t room_used; /* bytes asked for, even beyond the capacity */
	_Atomic(struct stk_chunk *) chunks;
	struct stk_shared *shared; /* the shared allocation in which it lies; NULL: it is an allocation of its own */
	_Atomic int32_t holds; /* tensors over it, and its batch while it is filled or alive as a whole. Becomes 0 under the ring's lock */
	size_t kept_bytes;     /* if it belongs to its holders */
	struct stk_uses uses;  /* if it belongs to no slot; else the slot's `uses` are what counts */
};

/* Allocates memory of both spaces. */
struct stk_block_source {
	struct stk_gpu_device *dev; /* NULL: there is none */
	struct stk_shared_pool shared;
};

/* Gives the block memory for `fixed` bytes and room for more; what it had stays if it fits well. False: memory is short, and the block has none. Frees and
 * allocates, which on a GPU may wait for the device. */
bool stk__block_resize(struct stk_block_source *from, struct stk_block *b, size_t fixed, size_t room);
/* A piece of the block's room, or a chunk beside it; NULL: memory is short. Any thread, several at once. */
uint8_t *stk__block_room(struct stk_block_source *from, struct stk_block *b, size_t size);
/* Memory that someone else has filled becomes a chunk: `release` is called with `owner` when the block is used again or freed, on any thread. False: memory is
 * short, and the owner keeps it. Blocks of the host, any thread, several at once. */
bool stk__block_adopt(struct stk_block *b, uint8_t *data, size_t size, void (*release)(void *owner), void *owner);
/* Whether [at, at + size) lies in one allocation of the block. Neighbours do not count, since one copy must not span two allocations. */
bool stk__block_has_piece(const struct stk_block *b, const uint8_t *at, size_t size);
/* With its chunks. */
size_t stk__block_bytes(const struct stk_block *b);
/* Frees its memory, and itself. Takes NULL. */
void stk__block_free(struct stk_block_source *from, struct stk_block *b);

void stk__block_source_init(struct stk_block_source *from);
void stk__block_source_destroy(struct stk_block_source *from); /* no block is left */

size_t stk__whole_lines(size_t bytes); /* up to the next cache line */

#endif
