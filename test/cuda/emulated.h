/* SPDX-License-Identifier: Apache-2.0
 *
 * An emulated CUDA driver: a libcuda.so.1 for tests, in which two GPUs use this machine's memory and our kernels run as fibers of a host thread (block.h). It
 * only has the functions that src/gpu uses.
 *
 * Usage:
 *     LD_LIBRARY_PATH=BUILD/test/cuda PROGRAM
 * where BUILD was configured with -Dcuda=emulated, which does not need nvcc, or with real kernels, whose code does not run: the driver reads only the name of
 * an emulated image, and only checks that a real one exists.
 *
 * STOKER_EMULATED_CUDA is a list of words, which each cuInit reads:
 *     async               every stream has its own thread, which starts each operation after a random delay, so that the library fails if it forgot to put
 *                         two operations in order. Without this word an operation is complete when the call that submits it returns.
 *     seed=N              seed of the delays
 *     delay=N             the longest delay in microseconds; default 200
 *     memory=N[K|M|G]     memory of each device; default 8G
 *     fail=FUNCTION:N     the Nth call of a function fails; its name has no suffix: fail=cuMemAlloc:3. Allocations fail for lack of memory, other
 *                         functions with an unknown error.
 *     lost=N              after N operations on streams, calls in a context fail with CUDA_ERROR_LAUNCH_FAILED, except those that free
 *     named               work on the default stream fails: only the user may use it
 *     open                the host may access device memory at any time
 *     idle                kernels and copies to the device do nothing, and copies from it give zeros: for measurements of the host's part
 *     strict              objects that are left on a device when its context is destroyed abort the program, instead of only printing a message
 *     adjacent            allocations that are multiples of 512 bytes follow each other without a gap, and so do pinned ones of whole pages, as they
 *                         often do on a GPU. This exposes code that mistakes neighbours for one allocation, but hides overruns of an allocation.
 *
 * Like a GPU's driver:
 *   - The host cannot reach device memory: an access outside of kernels and copies is a segmentation fault. So is an overrun of an allocation by more
 *     than a few bytes, or by one byte under AddressSanitizer. Addresses are never reused. New memory contains junk.
 *   - A copy from pageable host memory reads it at once, and a copy to it waits. Pinned memory is read and written when the stream reaches the copy.
 *   - A copy fails if it begins in an allocation of the device or in pinned memory and runs past its end, whatever follows there.
 *   - cuMemFree and cuMemFreeHost wait for the device.
 *   - While a thread captures a graph, allocations, frees and waits of other threads fail and invalidate the capture, depending on both threads' modes.
 *   - A thread without a context, unknown memory or handles, and a second call from a forked process are errors.
 * Unlike a GPU's driver: streams share one processor, the default stream does not synchronise with others, cuStreamDestroy waits, and kernels may read host
 * memory (with STOKER_POISON the library checks its kernels' addresses: cuPointerGetAttribute). */
#ifndef STK_TEST_CUDA_EMULATED_H
#define STK_TEST_CUDA_EMULATED_H

#include "block.h"
#include "gpu/driver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The driver's functions, with the same parameters as in the calls of src/gpu. */
#define STK_EXPORT(name, params) __attribute__((visibility("default"))) int name params;
STK_CUDA_FUNCTIONS(STK_EXPORT)
#undef STK_EXPORT

/* Functions that src/gpu does not call: the user's host functions (stream.c), and captures of graphs (capture.c). Tests find them with dlsym. */
__attribute__((visibility("default"))) int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
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
	bool async, idle, named, open, strict, adjacent;
	uint64_t seed;
	unsigned delay; /* maximum delay in microseconds */
	size_t memory;
	char fail[48];
	long fail_at, lost; /* number of the call that fails, and number of operations after which the device is lost; 0: never */
};
void emulated_read_options(struct options *o);

struct device {
	int retained;
	size_t used;
	int objects; /* number of streams, events and modules that have not been destroyed */
};

/* The part of the driver's state that all of its files use. */
struct driver {
	pthread_mutex_t lock;   /* protects all of the driver's state */
	pthread_cond_t changed; /* signalled when a stream makes progress */
	_Atomic pid_t pid;      /* process that called cuInit; 0: no process did */
	struct options options;
	long calls, operations; /* number of calls of the function that is to fail, and number of operations on streams */
	int sticky;             /* the error that calls return after emulated_lose; CUDA_OK before */
	struct device devices[DEVICES];
};
extern struct driver driver;

void emulated_lock(void);
void emulated_unlock(void);

/* Returns the number of calls since cuInit of the function that `fail` names; fail=cuMemAlloc:0 only counts. Tests find this with dlsym. */
__attribute__((visibility("default"))) long emulated_calls(void);

/* Every driver function calls this first: checks that the driver is initialised, and that neither a capture nor the option `fail` makes this call fail. With
 * needs_context, also checks that no device was lost, and sets *device to the device of the thread's context. Takes the lock if it returns CUDA_OK. */
int emulated_enter(const char *function, bool needs_context, int *device);
/* Like emulated_enter, for functions that free: they free even if the device is lost. Returns CUDA_OK with the lock held; or an error without the lock,
 * which the caller must return without freeing. */
int emulated_enter_to_free(const char *function, int *device);
/* Makes later calls in a context fail with `error`, except those that free. Prints `why`, unless it is NULL or calls fail already. Call with the lock held. */
void emulated_lose(int error, const char *why);

/* ---- capture.c; call with the lock held ---- */

/* Checks a call that is not allowed during a capture. Returns CUDA_OK, or invalidates the running capture and returns the error for the caller to return. */
int emulated_check_capture(const char *function);
bool emulated_captures(const void *stream);

/* ---- memory.c; call with the lock held, except emulated_open_memory and emulated_close_memory ---- */

/* Returns whether [at, at + size) lies in one allocation of a device. */
bool emulated_on_device(uint64_t at, size_t size);
/* Returns whether [at, at + size) lies in one allocation of pinned host memory. */
bool emulated_is_pinned(const void *at, size_t size);
/* Returns the number of bytes that are still allocated on a device. */
size_t emulated_memory_left(int device);
/* Make the memory of all devices accessible to this process, and inaccessible again. Operations on streams call these around their work; at other times,
 * an access by the process is an error, as it is with a GPU. */
void emulated_open_memory(void);
void emulated_close_memory(void);

/* ---- stream.c; call with the lock held ---- */

enum operation_kind { OPERATION_COPY, OPERATION_FILL, OPERATION_KERNEL, OPERATION_RECORD, OPERATION_WAIT, OPERATION_CALL };
struct emulated_event;
struct operation {
	struct operation *next;
	enum operation_kind kind;
	void *to;
	const void *from; /* for a copy: the source, which may be in `packed`; for a kernel: its arguments, in `packed` */
	size_t size;      /* number of bytes to copy or fill; of a kernel: number of bytes of dynamic shared memory */
	int value;
	const struct emulated_kernel *kernel;
	struct emulated_dim grid, block;
	void (*function)(void *); /* for a call: the host function, which gets `to` */
	struct emulated_event *event;
	uint64_t number; /* of recordings and waits: which recording of `event` this operation makes or waits for, counted from 1 */
	_Alignas(16) unsigned char packed[];
};

/* Allocates an operation with `packed` bytes after it. The caller fills it and passes it to emulated_submit. Returns NULL if memory runs out. */
struct operation *emulated_operation(enum operation_kind kind, size_t packed);
/* Submits the operation to the stream, and takes ownership of the operation, also if this fails. Returns a result of the CUDA driver. */
int emulated_submit(int device, void *stream, struct operation *op);
/* Waits for all streams of the device; releases the lock meanwhile. */
void emulated_wait_for_device(int device);
/* Waits for one stream; releases the lock meanwhile. Returns CUDA_INVALID_HANDLE if the stream does not exist; else CUDA_OK, or the error of a lost device. */
int emulated_wait_for_stream(int device, void *stream);

#endif
