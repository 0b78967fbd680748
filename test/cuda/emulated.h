/* SPDX-License-Identifier: Apache-2.0
 *
 * An emulated CUDA driver: libcuda.so.1 for tests, where two GPUs are this machine's memory and our kernels run as fibers of a host thread (block.h).
 * It has the functions that src/gpu takes, and nothing else.
 *
 * Usage:
 *     LD_LIBRARY_PATH=BUILD/test/cuda PROGRAM
 * with a BUILD of -Dcuda=emulated, which needs no nvcc, or of one with real kernels: an image's name, or only its presence, is all that is read.
 *
 * STOKER_EMULATED_CUDA is a list of words, read by each cuInit:
 *     async               every stream has a thread of its own, which starts each operation after a random delay: what lacks an order shows. Without it
 *                         an operation is done when the call that asks for it returns.
 *     seed=N              of the delays
 *     delay=N             microseconds that they are at most; 200 unless told
 *     memory=N[K|M|G]     of a device; 8G unless told
 *     fail=FUNCTION:N     the Nth call of a function fails, without its suffix: fail=cuMemAlloc:3. Allocations: out of memory; the rest: unknown error
 *     lost=N              behind N operations on streams, everything fails with CUDA_ERROR_LAUNCH_FAILED
 *     open                device memory and the host's are one: each may touch the other's at any time
 *     idle                kernels and copies to the device do nothing, and copies from it give zeros: for measuring the host's part
 *     strict              what is left on a device when its context goes away is an abort, not only a message
 *     adjacent            allocations of whole 512 bytes lie behind each other without a gap, and pinned ones of whole pages, as they often do on a GPU:
 *                         what takes neighbours for one allocation shows, and what runs over an allocation's end does not
 *
 * Like a GPU's:
 *   - device memory is out of the host's reach: touching it outside of kernels and copies is a segmentation fault. So is running over an
 *     allocation's end by more than a few bytes, and by one byte under AddressSanitizer. Addresses are never used twice. It begins as junk.
 *   - what is copied from pageable host memory is read at once, and copying into it waits; pinned memory is read and written when the stream
 *     comes to it.
 *   - a copy that begins in an allocation, of the device or pinned, and leaves it fails, whatever lies behind.
 *   - cuMemFree and cuMemFreeHost wait for the device.
 *   - while a thread captures a graph, other threads' allocations, frees and waits fail and spoil it, by its mode and theirs.
 *   - a thread without a context, memory and handles of nobody's, and a second thing of a process that was forked are errors.
 * Unlike: streams share one processor, the default stream orders nothing but itself, cuStreamDestroy waits, kernels may read host memory
 * (with STOKER_POISON the library asks for the addresses of its work: cuPointerGetAttribute). */
#ifndef STK_TEST_CUDA_EMULATED_H
#define STK_TEST_CUDA_EMULATED_H

#include "block.h"
#include "gpu/driver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The driver's functions, with the very parameters that src/gpu calls them with. */
#define STK_EXPORT(name, params) __attribute__((visibility("default"))) int name params;
STK_CUDA_FUNCTIONS(STK_EXPORT)
#undef STK_EXPORT

/* And for tests, by dlsym: captures of graphs (capture.c). */
__attribute__((visibility("default"))) int cuStreamBeginCapture_v2(void *stream, int mode);
__attribute__((visibility("default"))) int cuStreamEndCapture(void *stream, void **graph);

enum { DEVICES = 2 };

enum {
	CUDA_INVALID_VALUE = 1,
	CUDA_INVALID_DEVICE = 101,
	CUDA_INVALID_IMAGE = 200,
	CUDA_INVALID_CONTEXT = 201,
	CUDA_INVALID_HANDLE = 400,
	CUDA_NOT_FOUND = 500,
	CUDA_CAPTURE_UNSUPPORTED = 900,
	CUDA_CAPTURE_INVALIDATED = 901,
	CUDA_UNKNOWN = 999,
};

struct options {
	bool async, idle, open, strict, adjacent;
	uint64_t seed;
	unsigned delay; /* microseconds */
	size_t memory;
	char fail[48];
	long fail_at, lost; /* 0: never */
};
void emulated_read_options(struct options *o);

struct device {
	int retained;
	size_t used;
	int objects; /* streams, events and modules alive */
};

/* The one global of a driver. */
struct driver {
	pthread_mutex_t lock;   /* of all that follows */
	pthread_cond_t changed; /* a stream moved on */
	_Atomic pid_t pid;      /* 0: cuInit was not called */
	struct options options;
	long calls, operations; /* of the function that is to fail; on streams */
	int sticky;             /* error that everything returns from now on */
	struct device devices[DEVICES];
};
extern struct driver driver;

void emulated_lock(void);
void emulated_unlock(void);

/* Calls so far, since cuInit, of the function that `fail` names; fail=cuMemAlloc:0 only counts. For tests, by dlsym. */
__attribute__((visibility("default"))) long emulated_calls(void);

/* What each function begins with: whether the driver is there, and this call is not one that is to fail. needs_context: no device was lost, and *device is
 * the one whose context is the thread's. Takes the lock where it returns CUDA_OK. */
int emulated_enter(const char *function, bool needs_context, int *device);
/* The same for what frees: neither a lost device nor a failure keeps it from freeing. Returns what to return in the end. */
int emulated_enter_to_free(const char *function, int *device);

/* ---- capture.c, under the lock ---- */

/* CUDA_OK, or what a call that is unsafe returns while somebody captures a graph, which it spoils. */
int emulated_check_capture(const char *function);
/* Whether the stream is being captured. */
bool emulated_captures(const void *stream);

/* The device's error, for good. Under the lock. */
void emulated_lose(int error, const char *why);

/* ---- memory.c, under the lock but for the last two ---- */

/* Whether [at, at + size) lies in one allocation of a device. */
bool emulated_on_device(uint64_t at, size_t size);
/* Whether it lies in one allocation of pinned host memory. */
bool emulated_is_pinned(const void *at, size_t size);
/* Says what is left on a device. */
size_t emulated_memory_left(int device);
/* Around what the device does: its memory is within reach meanwhile. */
void emulated_open_memory(void);
void emulated_close_memory(void);

/* ---- stream.c, under the lock ---- */

enum operation_kind { OPERATION_COPY, OPERATION_FILL, OPERATION_KERNEL, OPERATION_RECORD, OPERATION_WAIT };
struct emulated_event;
struct operation {
	struct operation *next;
	enum operation_kind kind;
	void *to;
	const void *from; /* of a copy: where the data is, perhaps in `packed`; of a kernel: its arguments, there too */
	size_t size;      /* of a kernel: its shared memory */
	int value;
	const struct emulated_kernel *kernel;
	struct emulated_dim grid, block;
	struct emulated_event *event;
	uint64_t number; /* the recording of it that is meant */
	_Alignas(16) unsigned char packed[];
};

/* Makes an operation with room for so many bytes, to be filled and given to emulated_submit. NULL: no memory. */
struct operation *emulated_operation(enum operation_kind kind, size_t packed);
/* Takes the operation. */
int emulated_submit(int device, void *stream, struct operation *op);
/* Waits for all streams of the device. */
void emulated_wait_for_device(int device);
/* Waits for one stream. CUDA_INVALID_HANDLE: there is none. */
int emulated_wait_for_stream(int device, void *stream);

#endif
