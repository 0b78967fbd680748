/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA GPUs through the driver API, which is looked for at run time: on a machine without one, stk__gpu_open says so and nothing else changes.
 *
 * Usage:
 *     stk__gpu_open(&gpu, err);                            // once a context
 *     stk__gpu_device_open(gpu, 0, &dev, err);             // retains the primary context, the one PyTorch uses
 *     stk__gpu_enter(dev, err);                            // this thread now talks to dev ...
 *     stk__gpu_kernel(dev, "recipe_gpu", "recipe_run", 0, &kernel, err);
 *     stk__gpu_stream_create(dev, STK_GPU_LOW, &stream, err);
 *     stk__gpu_launch(dev, stream, kernel, (struct stk_gpu_grid){.blocks = {n}, .threads = {256}}, (void *[]){&p, &count}, err);
 *     stk__gpu_leave(dev);                                 // ... and no more
 *
 * Threads: every function on a device but open and close wants the calling thread between stk__gpu_enter and stk__gpu_leave, and may then be called
 * from any thread. What is asynchronous reports earlier failures too, as the driver does. Nothing here waits for the GPU unless it says so. */
#ifndef STK_GPU_GPU_H
#define STK_GPU_GPU_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct stk_gpu;
struct stk_gpu_device;
typedef struct stk_gpu_stream_handle
	*stk_gpu_stream;                            /* the driver's CUstream, so that PyTorch's can be passed; NULL is the default stream */
typedef struct stk_gpu_event_handle *stk_gpu_event; /* the driver's CUevent */
typedef struct stk_gpu_kernel_handle *stk_gpu_kernel; /* the driver's CUfunction */
typedef uint64_t stk_gpu_ptr;                         /* device memory */

/* ---- driver and devices ---- */

/* STK_NOT_FOUND: no driver, or one that lacks a function; STK_CUDA: it does not start. Any thread. */
STK_MUST_USE enum stk_status stk__gpu_open(struct stk_gpu **out, struct stk_error *err);
void stk__gpu_close(struct stk_gpu *gpu); /* its devices live on; NULL is fine */

/* What the build has: architectures ("75 80 90"; "" without kernels), the CUDA version of the compiler and the least that a driver must support
 * (13000 is 13.0). Any thread, also without a driver. */
struct stk_gpu_build {
	const char *archs;
	int toolkit, min_driver, modules;
};
struct stk_gpu_build stk__gpu_build(void);

int stk__gpu_driver_version(const struct stk_gpu *gpu);
int stk__gpu_count(const struct stk_gpu *gpu);

struct stk_gpu_facts {
	char name[128];
	char pci[16];     /* "0000:3b:00.0" */
	size_t memory;    /* bytes */
	int major, minor; /* compute capability */
	int processors;   /* multiprocessors */
	int shared;       /* bytes of shared memory that a block may take */
};
/* STK_INVALID: there is no device of that number. */
STK_MUST_USE enum stk_status stk__gpu_facts(const struct stk_gpu *gpu, int ordinal, struct stk_gpu_facts *facts, struct stk_error *err);

/* Retains the primary context. STK_INVALID: no such device; STK_UNSUPPORTED: the build has no kernels, or the driver is too old for them. */
STK_MUST_USE enum stk_status stk__gpu_device_open(struct stk_gpu *gpu, int ordinal, struct stk_gpu_device **out, struct stk_error *err);
/* One more owner. */
struct stk_gpu_device *stk__gpu_device_ref(struct stk_gpu_device *dev);
/* Gives up one owner's reference; with the last, the device is released. The caller has left it on all threads and freed its memory. NULL is fine. */
void stk__gpu_device_close(struct stk_gpu_device *dev);
const struct stk_gpu_facts *stk__gpu_device_facts(const struct stk_gpu_device *dev);

/* Makes dev's context the thread's current one; leave restores what was. They nest. STK_STATE: the process was forked since the driver started. */
STK_MUST_USE enum stk_status stk__gpu_enter(struct stk_gpu_device *dev, struct stk_error *err);
void stk__gpu_leave(struct stk_gpu_device *dev);

/* ---- memory ---- */

STK_MUST_USE enum stk_status stk__gpu_alloc(struct stk_gpu_device *dev, size_t size, stk_gpu_ptr *out, struct stk_error *err);
void stk__gpu_free(struct stk_gpu_device *dev, stk_gpu_ptr p); /* waits for the device; 0 is fine */
/* Pinned host memory; kernels of every device see it at the same address. Takes milliseconds. */
STK_MUST_USE enum stk_status stk__gpu_host_alloc(struct stk_gpu_device *dev, size_t size, void **out, struct stk_error *err);
void stk__gpu_host_free(struct stk_gpu_device *dev, void *p);
/* Whether kernels may use what lies there: memory of a device, or pinned. For finding mistakes; a driver that does not answer says yes. */
bool stk__gpu_reaches(struct stk_gpu_device *dev, stk_gpu_ptr at);
STK_MUST_USE enum stk_status stk__gpu_memory_free(struct stk_gpu_device *dev, size_t *available, struct stk_error *err);

/* Asynchronous where host memory is pinned. */
STK_MUST_USE enum stk_status stk__gpu_upload(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr to, const void *from, size_t size, struct stk_error *err);
STK_MUST_USE enum stk_status stk__gpu_download(
	struct stk_gpu_device *dev, stk_gpu_stream stream, void *to, stk_gpu_ptr from, size_t size, struct stk_error *err);
STK_MUST_USE enum stk_status stk__gpu_copy(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr to, stk_gpu_ptr from, size_t size, struct stk_error *err);
STK_MUST_USE enum stk_status stk__gpu_fill(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr to, int byte, size_t size, struct stk_error *err);

/* ---- streams and events ---- */

enum stk_gpu_priority { STK_GPU_LOW, STK_GPU_HIGH }; /* LOW is what everyone has by default */
STK_MUST_USE enum stk_status stk__gpu_stream_create(
	struct stk_gpu_device *dev, enum stk_gpu_priority priority, stk_gpu_stream *out, struct stk_error *err);
void stk__gpu_stream_destroy(struct stk_gpu_device *dev, stk_gpu_stream stream);
STK_MUST_USE enum stk_status stk__gpu_stream_sync(struct stk_gpu_device *dev, stk_gpu_stream stream, struct stk_error *err); /* waits */
STK_MUST_USE enum stk_status stk__gpu_stream_wait(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_event event, struct stk_error *err);

STK_MUST_USE enum stk_status stk__gpu_event_create(struct stk_gpu_device *dev, bool timing, stk_gpu_event *out, struct stk_error *err);
void stk__gpu_event_destroy(struct stk_gpu_device *dev, stk_gpu_event event);
STK_MUST_USE enum stk_status stk__gpu_event_record(
	struct stk_gpu_device *dev, stk_gpu_event event, stk_gpu_stream stream, struct stk_error *err);
STK_MUST_USE enum stk_status stk__gpu_event_sync(struct stk_gpu_device *dev, stk_gpu_event event, struct stk_error *err); /* waits */
/* True while a CUDA graph is being captured on the stream (for the default stream: on any that it would wait for). Only the graph's own work may be
 * recorded there then. A stream that was destroyed, or whose device is lost, captures nothing. */
bool stk__gpu_stream_captures(struct stk_gpu_device *dev, stk_gpu_stream stream);
/* *done: everything before the event has finished. An event that was never recorded is done. */
STK_MUST_USE enum stk_status stk__gpu_event_query(struct stk_gpu_device *dev, stk_gpu_event event, bool *done, struct stk_error *err);
/* Between two events made with timing. */
STK_MUST_USE enum stk_status stk__gpu_event_elapsed(
	struct stk_gpu_device *dev, stk_gpu_event from, stk_gpu_event to, float *milliseconds, struct stk_error *err);

/* ---- kernels ---- */

/* Looks up extern "C" function `name` in the module made of `module`.cu, which is loaded when first asked for and stays. shared: bytes of dynamic
 * shared memory that launches may ask for, where that is over 48 KiB, else 0. Any thread; locks. */
STK_MUST_USE enum stk_status stk__gpu_kernel(
	struct stk_gpu_device *dev, const char *module, const char *name, size_t shared, stk_gpu_kernel *out, struct stk_error *err);

struct stk_gpu_grid {
	unsigned blocks[3], threads[3]; /* 0 stands for 1 */
	unsigned shared;                /* bytes of dynamic shared memory */
};
/* params: one pointer to each argument of the kernel, read before the call returns. */
STK_MUST_USE enum stk_status stk__gpu_launch(struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_kernel kernel,
	struct stk_gpu_grid grid, void **params, struct stk_error *err);

#endif
