/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses NVIDIA GPUs through the driver API. The driver is looked up at run time: on a machine without one, stk__gpu_open fails with a message, and nothing
 * else changes.
 *
 * Usage:
 *     stk__gpu_open(&gpu, err);                            // once per context
 *     stk__gpu_device_open(gpu, 0, &dev, err);             // retains the primary context, the one PyTorch uses
 *     stk__gpu_enter(dev, err);                            // this thread's calls now use dev ...
 *     stk__gpu_kernel(dev, "recipe_gpu", "recipe_run", 0, &kernel, err);
 *     stk__gpu_stream_create(dev, STK_GPU_LOW, &stream, err);
 *     stk__gpu_launch(dev, stream, kernel, (struct stk_gpu_grid){.blocks = {n}, .threads = {256}}, (void *[]){&p, &count}, err);
 *     stk__gpu_leave(dev);                                 // ... until here
 *
 * Threads: any thread may call these functions. Functions that take a device must be called between stk__gpu_enter and stk__gpu_leave, except those that
 * reference, close or describe the device. Asynchronous functions may report errors of earlier calls, as the driver does. No function waits for the GPU unless
 * its comment says so. */
#ifndef STK_GPU_GPU_H
#define STK_GPU_GPU_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct stk_gpu;
struct stk_gpu_device;
typedef struct stk_gpu_stream_handle
	*stk_gpu_stream; /* the driver's CUstream, so that PyTorch's streams can be used; NULL is the default stream */
typedef struct stk_gpu_event_handle *stk_gpu_event;   /* the driver's CUevent */
typedef struct stk_gpu_kernel_handle *stk_gpu_kernel; /* the driver's CUfunction */
typedef uint64_t stk_gpu_ptr;                         /* address of device memory */

/* ---- driver and devices ---- */

/* Loads the driver and counts its GPUs. STK_NOT_FOUND: no driver, one that lacks a function, or no GPU; STK_STATE: the process was forked from one that had
 * used CUDA; STK_CUDA: the driver does not start. Any thread. */
STK_MUST_USE enum stk_status stk__gpu_open(struct stk_gpu **out, struct stk_error *err);
void stk__gpu_close(struct stk_gpu *gpu); /* open devices remain usable; accepts NULL */

/* What stk__gpu_build returns about the kernels of this build: architectures ("75 80 90", or "" without kernels), the CUDA version of the compiler, the lowest
 * CUDA version that a driver must support (13000 is 13.0), and the number of embedded images. Any thread may call the function, which needs no driver. */
struct stk_gpu_build {
	const char *archs;
	int toolkit, min_driver, modules;
};
struct stk_gpu_build stk__gpu_build(void);

int stk__gpu_driver_version(const struct stk_gpu *gpu);
int stk__gpu_count(const struct stk_gpu *gpu);

struct stk_gpu_facts {
	char name[128];
	char pci[16];     /* address on the PCI bus, for example "0000:3b:00.0" */
	size_t memory;    /* size of the device's memory in bytes */
	int major, minor; /* compute capability */
	int processors;   /* number of multiprocessors */
	int shared;       /* number of bytes of shared memory that a thread block may use */
};
/* Fills in the properties of a device. STK_INVALID: there is no device with this number. */
STK_MUST_USE enum stk_status stk__gpu_facts(const struct stk_gpu *gpu, int ordinal, struct stk_gpu_facts *facts, struct stk_error *err);

/* Opens a device and retains its primary context. STK_INVALID: no such device; STK_UNSUPPORTED: the build has no kernels, or the driver is too old for them. */
STK_MUST_USE enum stk_status stk__gpu_device_open(struct stk_gpu *gpu, int ordinal, struct stk_gpu_device **out, struct stk_error *err);
/* Adds a reference, and returns `dev`. */
struct stk_gpu_device *stk__gpu_device_ref(struct stk_gpu_device *dev);
/* Drops a reference; dropping the last one releases the device. No thread may then be inside stk__gpu_enter, and all memory on the device must have been
 * freed or retired. Accepts NULL. */
void stk__gpu_device_close(struct stk_gpu_device *dev);
/* Like stk__gpu_device_close, but does not wait for the GPU: if the reference is the last one, a thread releases the device. For threads that may hold Python's
 * lock. */
void stk__gpu_device_close_soon(struct stk_gpu_device *dev);
/* Frees the memory that was retired, which waits for the GPU, and drops one reference. For owners whose work has ended. dev may be NULL. */
void stk__gpu_device_end_use(struct stk_gpu_device *dev);
const struct stk_gpu_facts *stk__gpu_device_facts(const struct stk_gpu_device *dev);

/* Makes dev's context the calling thread's current one; stk__gpu_leave restores the previous one. Calls can be nested. STK_STATE: the process was forked
 * after the driver was started. */
STK_MUST_USE enum stk_status stk__gpu_enter(struct stk_gpu_device *dev, struct stk_error *err);
void stk__gpu_leave(struct stk_gpu_device *dev);

/* Allows the calling thread to allocate and wait while another thread captures a CUDA graph. Call it before functions of NVIDIA's libraries; the functions of
 * this header do so themselves. Returns a number for stk__gpu_capture_strict, which restores the thread's mode. */
int stk__gpu_capture_relax(struct stk_gpu_device *dev);
void stk__gpu_capture_strict(struct stk_gpu_device *dev, int mode);

/* ---- memory ---- */

STK_MUST_USE enum stk_status stk__gpu_alloc(struct stk_gpu_device *dev, size_t size, stk_gpu_ptr *out, struct stk_error *err);
void stk__gpu_free(struct stk_gpu_device *dev, stk_gpu_ptr p); /* waits for the device; accepts 0 */
/* Allocates pinned host memory, which kernels of every device can access at the same address. Takes milliseconds. */
STK_MUST_USE enum stk_status stk__gpu_host_alloc(struct stk_gpu_device *dev, size_t size, void **out, struct stk_error *err);
void stk__gpu_host_free(struct stk_gpu_device *dev, void *p);
/* The next two functions give up memory that is replaced while a pipeline runs. They do not wait: stk__gpu_free and stk__gpu_host_free wait until the GPU has
 * done everything that it was asked to do, also by the user's training loop, which may be 20 steps ahead; and until then other calls of the driver wait
 * too. The memory is freed by the function below; if an allocation finds no memory; or by a thread that these functions start, once more is retired than
 * should be kept: 256 MiB of pinned memory, or a 128th of the device's, but at least 64 MiB. Call inside stk__gpu_enter. p may be 0 or NULL. */
void stk__gpu_retire(struct stk_gpu_device *dev, stk_gpu_ptr p, size_t size);
void stk__gpu_host_retire(struct stk_gpu_device *dev, void *p, size_t size);
/* Like stk__gpu_retire, but a thread frees the memory as soon as the GPU allows. For threads that must not wait, when no pipeline may run any more. */
void stk__gpu_free_soon(struct stk_gpu_device *dev, stk_gpu_ptr p, size_t size);
/* Frees all retired memory, which waits for the GPU. Call inside stk__gpu_enter. */
void stk__gpu_free_retired(struct stk_gpu_device *dev);
/* Returns false if CUDA does not know the memory at the address, so that kernels cannot access it. Returns true for all other memory, and also if the driver
 * reports another error. Only for checks that detect bugs of Stoker, since the answer is no guarantee. */
bool stk__gpu_reaches(struct stk_gpu_device *dev, stk_gpu_ptr at);
/* Returns whether the driver reports that the address lies in memory of a GPU. Call inside stk__gpu_enter. */
bool stk__gpu_is_memory(struct stk_gpu_device *dev, const void *at);
/* Sets *available to the number of bytes of device memory that an allocation can use: those that are not in use by any process, and those that were retired. */
STK_MUST_USE enum stk_status stk__gpu_memory_free(struct stk_gpu_device *dev, size_t *available, struct stk_error *err);

/* The next functions queue a copy of `size` bytes, or a fill of `size` bytes with `byte`, on the stream. A copy from or to memory of the host is asynchronous
 * only if that memory is pinned. */
STK_MUST_USE enum stk_status stk__gpu_upload(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr to, const void *from, size_t size, struct stk_error *err);
STK_MUST_USE enum stk_status stk__gpu_download(
	struct stk_gpu_device *dev, stk_gpu_stream stream, void *to, stk_gpu_ptr from, size_t size, struct stk_error *err);
STK_MUST_USE enum stk_status stk__gpu_copy(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr to, stk_gpu_ptr from, size_t size, struct stk_error *err);
STK_MUST_USE enum stk_status stk__gpu_fill(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr to, int byte, size_t size, struct stk_error *err);

/* ---- streams and events ---- */

enum stk_gpu_priority { STK_GPU_LOW, STK_GPU_HIGH }; /* LOW is the priority that streams have by default */
STK_MUST_USE enum stk_status stk__gpu_stream_create(
	struct stk_gpu_device *dev, enum stk_gpu_priority priority, stk_gpu_stream *out, struct stk_error *err);
void stk__gpu_stream_destroy(struct stk_gpu_device *dev, stk_gpu_stream stream);
/* Blocks the calling thread until all work queued on the stream has finished. */
STK_MUST_USE enum stk_status stk__gpu_stream_sync(struct stk_gpu_device *dev, stk_gpu_stream stream, struct stk_error *err);
/* Blocks the calling thread until all work of this process on the device has finished. */
STK_MUST_USE enum stk_status stk__gpu_sync(struct stk_gpu_device *dev, struct stk_error *err);
/* Makes work that is queued on the stream from now on wait for the event. The host does not wait. */
STK_MUST_USE enum stk_status stk__gpu_stream_wait(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_event event, struct stk_error *err);

STK_MUST_USE enum stk_status stk__gpu_event_create(struct stk_gpu_device *dev, bool timing, stk_gpu_event *out, struct stk_error *err);
void stk__gpu_event_destroy(struct stk_gpu_device *dev, stk_gpu_event event);
STK_MUST_USE enum stk_status stk__gpu_event_record(
	struct stk_gpu_device *dev, stk_gpu_event event, stk_gpu_stream stream, struct stk_error *err);
/* Blocks the calling thread until the event's work has finished. */
STK_MUST_USE enum stk_status stk__gpu_event_sync(struct stk_gpu_device *dev, stk_gpu_event event, struct stk_error *err);
/* Returns whether a CUDA graph is being captured on the stream. While it is, only the graph's own work may be queued there. The default stream waits for other
 * streams, so the result for the default stream is also true if a stream for which it waits is being captured. Returns false for a stream that was destroyed or
 * whose device is lost. */
bool stk__gpu_stream_captures(struct stk_gpu_device *dev, stk_gpu_stream stream);
/* Sets *done to whether the work that was queued before the event was recorded has finished. An event that was never recorded counts as finished. */
STK_MUST_USE enum stk_status stk__gpu_event_query(struct stk_gpu_device *dev, stk_gpu_event event, bool *done, struct stk_error *err);
/* Measures the time between two events that were created with timing and have finished. */
STK_MUST_USE enum stk_status stk__gpu_event_elapsed(
	struct stk_gpu_device *dev, stk_gpu_event from, stk_gpu_event to, float *milliseconds, struct stk_error *err);

/* ---- kernels ---- */

/* Looks up the extern "C" function `name` in the module compiled from `module`.cu. The first use of a module loads it. shared: number of bytes of dynamic
 * shared memory that launches may use if that is more than 48 KiB, otherwise 0. STK_NOT_FOUND: the build has no such module. STK_UNSUPPORTED: none of its
 * images runs on this GPU. Any thread; takes the device's lock. */
STK_MUST_USE enum stk_status stk__gpu_kernel(
	struct stk_gpu_device *dev, const char *module, const char *name, size_t shared, stk_gpu_kernel *out, struct stk_error *err);

struct stk_gpu_grid {
	unsigned blocks[3], threads[3]; /* along x, y and z; 0 means 1 */
	unsigned shared;                /* number of bytes of dynamic shared memory */
};
/* Queues a kernel. params: a pointer to each argument of the kernel; arguments are read before the call returns. */
STK_MUST_USE enum stk_status stk__gpu_launch(struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_kernel kernel,
	struct stk_gpu_grid grid, void **params, struct stk_error *err);

#endif
