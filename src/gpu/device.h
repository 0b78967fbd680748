/* SPDX-License-Identifier: Apache-2.0
 * What the files of src/gpu share. */
#ifndef STK_GPU_DEVICE_H
#define STK_GPU_DEVICE_H

#include "gpu/driver.h"
#include "gpu/gpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct stk_gpu {
	_Atomic int refs; /* whoever opened it, and each device */
	struct stk_cuda_driver cu;
	int count;
	pid_t pid; /* of the process that started the driver */
};

struct stk_gpu_device {
	_Atomic int refs;
	struct stk_gpu *gpu;
	const struct stk_cuda_driver *cu;
	int ordinal; /* among the visible devices */
	int device;  /* the driver's */
	void *context;
	struct stk_gpu_facts facts;
	pthread_mutex_t lock; /* guards modules */
	void **modules;       /* by index into stk__cuda_images; NULL until asked for */
};

/* The module of that name, which is loaded when it is first asked for. Under the device's lock, in its context. */
STK_MUST_USE enum stk_status stk__gpu_module(struct stk_gpu_device *dev, const char *name, void **out, struct stk_error *err);

/* While any thread captures a CUDA graph in the default, global mode, calls of other threads that allocate, free, load or wait fail and invalidate
 * the capture, unless the calling thread's mode is relaxed. Ours touch nothing that a user's graph refers to, so relaxed is safe: each such call
 * stands between these two. The mode is changed for one call only, since the thread may be the user's. The first returns the previous mode; the
 * second restores it and passes the call's result on. */
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
