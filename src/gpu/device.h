/* SPDX-License-Identifier: Apache-2.0
 * Declares what the files of src/gpu share. */
#ifndef STK_GPU_DEVICE_H
#define STK_GPU_DEVICE_H

#include "gpu/driver.h"
#include "gpu/gpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct stk_gpu {
	_Atomic int refs; /* number of references: one for each stk__gpu_open, and one for each open device */
	struct stk_cuda_driver cu;
	int count;
	pid_t pid; /* process that started the driver */
};

struct stk_gpu_device {
	_Atomic int refs;
	struct stk_gpu *gpu;
	const struct stk_cuda_driver *cu;
	int ordinal; /* index of the device among those that are visible to the process */
	int device;  /* the driver's handle of the device */
	void *context;
	struct stk_gpu_facts facts;
	pthread_mutex_t lock; /* guards the members below */
	void **modules;       /* the loaded modules, indexed like stk__cuda_images; NULL for modules that have not been used yet */
	struct stk_gpu_retired_list {
		struct stk_gpu_retired *first;
		size_t bytes;
	} retired[2];             /* memory that is freed later: on the device, and pinned (memory.c) */
	int freeing;              /* number of threads that free retired memory now */
	uint64_t times_freed;     /* how often retired memory was freed */
	bool freer_runs;          /* a thread that frees surplus memory was started, or is about to be, and has not ended */
	bool frees_all;           /* that thread is to free all retired memory, not only surplus */
	pthread_cond_t was_freed; /* times_freed or freer_runs has changed */
};

/* Sets *out to the module of that name; loads it first if necessary. Call inside stk__gpu_enter, with the device's lock held. STK_NOT_FOUND: the build has no
 * such module; STK_UNSUPPORTED: none of its images runs on this GPU. */
STK_MUST_USE enum stk_status stk__gpu_module(struct stk_gpu_device *dev, const char *name, void **out, struct stk_error *err);

/* While a thread captures a CUDA graph in the default (global) mode, calls of other threads that allocate, free, load or wait fail and invalidate the
 * capture, unless the calling thread's mode is relaxed. Stoker's calls do not touch anything that a user's graph refers to, so relaxed mode is safe. Call
 * stk__gpu_relax before each such call and stk__gpu_as_before after it. The mode is changed for one call only, since the thread may be the user's.
 * stk__gpu_relax returns the previous mode; stk__gpu_as_before restores it and returns `result`. */
static inline int stk__gpu_relax(const struct stk_cuda_driver *cu)
{
	int mode = CUDA_CAPTURE_RELAXED;
	cu->cuThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

static inline int stk__gpu_as_before(const struct stk_cuda_driver *cu, int mode, int result)
{
	cu->cuThreadExchangeStreamCaptureMode(&mode);
	return result;
}

#endif
