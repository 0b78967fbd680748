/* SPDX-License-Identifier: Apache-2.0
 *
 * Output slots and their ring. A slot is the memory of one batch: for each kept value a region for `batch` samples of the shape that is expected
 * (known beforehand, or that of the last batch when it was uniform), and room behind them for samples that turn out otherwise. Everything in a
 * slot is one allocation once warm; a slot is reused when its last reader lets go, which may be after the ring's owner has gone.
 *
 * A value lies in host memory or on a GPU: a slot has a block of each. Addresses of the GPU travel in the same pointers. What the consumer's streams
 * still do with a slot when it comes back has to be waited for before it is written again: see stk__slot_at_rest. */
#ifndef STK_TENSOR_SLOT_H
#define STK_TENSOR_SLOT_H

#include "base/memory.h"
#include "gpu/gpu.h"
#include "stoker/tensor.h"

#include <pthread.h>
#include <stdatomic.h>

/* One kept value. */
struct stk_slot_value {
	struct stk_tensor *samples; /* `batch` of them */
	struct stk_desc expected;   /* of a sample; ndim -1: none is */
	uint8_t *region;            /* batch * sample_bytes; NULL without an expected shape */
	int64_t sample_bytes;
};

enum stk_space { STK_SPACE_HOST, STK_SPACE_GPU, STK_SPACES };

struct stk_slot_chunk;

/* A slot's memory in one space. */
struct stk_slot_memory {
	uint8_t *block;
	size_t capacity, fixed;   /* bytes; `fixed` are regions, the rest is room */
	_Atomic size_t room_used; /* asked for, also beyond the block */
	struct stk_slot_chunk *chunks;
};

enum { STK_SLOT_STREAMS = 4 };

struct stk_slot {
	struct stk_ring *ring;
	struct stk_slot *next_free;
	struct stk_slot_value *values;
	struct stk_slot_memory memory[STK_SPACES];
	pthread_mutex_t lock; /* of chunks and streams */
	struct {
		stk_gpu_stream stream; /* of the consumer */
		stk_gpu_event event;   /* its work when the slot came back */
	} uses[STK_SLOT_STREAMS];
	stk_gpu_event written;   /* its writer's work, where stk__slot_written was called; NULL: never */
	bool writing;            /* and nobody has seen the end of it */
	bool laid;               /* of a fixed ring: all its samples have their places, for good */
	int32_t n_uses, n_waits; /* streams that read it now; events that the next writer waits for */
	void *owner_data;        /* the ring's owner keeps its per-batch record here; freed by on_free */
};

struct stk_ring {
	_Atomic int refs; /* the owner's and one for each slot that is out */
	pthread_mutex_t lock;
	struct stk_slot *free;
	int32_t batch, n_values, limit, made, peak_out;
	_Atomic int32_t out;          /* slots that are being filled or read */
	_Atomic bool wanted;          /* somebody went without a slot: on_return is called for the next one that comes back */
	struct stk_desc *expected;    /* per value: what new batches are laid out for */
	const struct stk_desc *known; /* per value: what is known beforehand */
	struct stk_desc *own;
	size_t room[STK_SPACES];    /* for samples of unexpected shape: what the last batches needed */
	size_t bytes;               /* of all slots */
	size_t enough;              /* no spare slot is made beyond so many bytes; 0: no bound */
	struct stk_gpu_device *dev; /* NULL: no value lies on a GPU */
	bool *on_gpu;               /* per value */
	bool fixed;                 /* stk__ring_fix */
	stk_gpu_stream stream;      /* for moving samples together */
	int64_t process;            /* pid: in a forked child the lock may be held by a thread that is not there */
	void (*on_free)(void *owner_data);
	void (*on_return)(void *owner); /* a slot that is wanted came back; called under the ring's lock; cleared when the owner goes */
	void *owner;
};

/* values: what is known of each kept value. */
struct stk_ring *stk__ring_create(const struct stk_desc *values, int32_t n_values, int32_t batch, int32_t limit);
/* Values that lie on a GPU; before the first slot is taken. The ring holds the device from then on. */
STK_MUST_USE enum stk_status stk__ring_on_gpu(struct stk_ring *ring, struct stk_gpu_device *dev, const bool *on_gpu, struct stk_error *err);
/* All samples are of the known shapes, which are whole, and none is ever left out: a slot is laid out once, with all samples in their places. Before the
 * first slot is taken; stk__slot_place and stk__slot_settle have no work then. */
void stk__ring_fix(struct stk_ring *ring);
/* The owner lets go; slots that are out keep the ring until they come back. */
void stk__ring_unref(struct stk_ring *ring);
void stk__ring_disown(struct stk_ring *ring);

/* A slot laid out for the next batch; NULL: all `limit` are out (and one is wanted), or memory is short (*no_memory). */
struct stk_slot *stk__ring_take(struct stk_ring *ring, bool *no_memory);
/* Whether at most n slots are out; if not, on_return is called when the next one comes back. */
bool stk__ring_at_most(struct stk_ring *ring, int32_t n);
/* The consumer reads the slot on this stream. */
STK_MUST_USE enum stk_status stk__slot_use_stream(struct stk_slot *slot, stk_gpu_stream stream, struct stk_error *err);
/* Whether the consumer's streams have come past their last use of the slot. */
bool stk__slot_at_rest(struct stk_slot *slot);
/* Waits on the host until they have. */
STK_MUST_USE enum stk_status stk__slot_rest(struct stk_slot *slot, struct stk_error *err);
/* Orders `stream` behind them, for a writer with one stream of its own. (Each stream that waits for another keeps a channel of the GPU polling, and with
 * several of those every kernel of the consumer begins a microsecond later.) Inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__slot_wait(struct stk_slot *slot, stk_gpu_stream stream, struct stk_error *err);
/* Notes what `stream` has been given to do as the slot's writing. Inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__slot_written(struct stk_slot *slot, stk_gpu_stream stream, struct stk_error *err);
/* Whether it is done. Looks more than once: it mostly is, or is about to be. */
STK_MUST_USE enum stk_status stk__slot_is_written(struct stk_slot *slot, bool *done, struct stk_error *err);
/* Copies from the slot's part on the GPU to host memory, and waits for it. */
STK_MUST_USE enum stk_status stk__slot_download(struct stk_slot *slot, void *to, stk_gpu_ptr from, size_t size, struct stk_error *err);
/* In a child of the process that made the ring this does nothing: the slot is the parent's to use. */
void stk__slot_return(struct stk_slot *slot);

/* Where sample i of value v goes: sets samples[v][i] and returns false when memory is short. Any thread, different i at once. */
bool stk__slot_place(struct stk_slot *slot, int32_t v, int32_t i, const struct stk_desc *desc);

/* After a batch of n samples: true when all samples of v have one shape; then they lie dense, in one allocation (moved
 * there if they must be; false where memory was short). Remembers what to expect. */
bool stk__slot_settle(struct stk_slot *slot, int32_t v, int32_t n, void **dense);

#endif
