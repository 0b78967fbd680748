/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of struct stk_context, for the files that create contexts, pipelines and the watch server. */
#ifndef STK_EXEC_CONTEXT_H
#define STK_EXEC_CONTEXT_H

#include "exec/watch.h"
#include "gpu/gpu.h"
#include "kernel/pass/pass_kernels.h"
#include "stoker/context.h"
#include "storage/storage.h"
#include "thread/pool.h"
#include "thread/thread.h"
#include "trace/nvtx.h"

#include <pthread.h>
#include <stdatomic.h>

struct stk_context {
	_Atomic int refs;
	struct stk_pool *pool;       /* the workers of all pipelines whose graphs call no users' functions */
	struct stk_storage *storage; /* used by pipelines that do not have a storage of their own */
	struct stk_ranges *ranges;   /* NULL: no tool records NVTX ranges */
	unsigned cpu;                /* features of the CPU, as flags of base/cpu.h */
	struct stk_pass_kernels kernels;
	int64_t process; /* process id of the creator: in a forked child the context has no threads */
	stk_log_fn log;
	void *log_user;
	void (*log_done)(void *user);
	pthread_mutex_t log_lock;
	cpu_set_t allowed;        /* cores on which the process could run when the workers started; empty if a cpu_set_t cannot hold them */
	pthread_mutex_t gpu_lock; /* guards the members below */
	struct stk_gpu *gpu;      /* NULL until a pipeline asks for a device */
	struct stk_gpu_device **devices; /* [ordinal]: the device; NULL until a pipeline uses it */
	struct stk_watch watch;
};

/* Passes a message to the context's log function, if it has one. Only one thread at a time calls that function. */
void stk__notify(struct stk_context *ctx, enum stk_log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Returns STK_STATE in a forked child of the process that made the context, otherwise STK_OK. */
STK_MUST_USE enum stk_status stk__context_check(const struct stk_context *ctx, struct stk_error *err);

/* Sets *out to GPU number `ordinal`, which is opened on first use. The caller owns the reference. Fails if the process sees no such GPU. */
STK_MUST_USE enum stk_status stk__context_device(
	struct stk_context *ctx, int32_t ordinal, struct stk_gpu_device **out, struct stk_error *err);

/* Pins workers of `pool`, which is the context's or a pipeline's own, to cores near the device (pin_workers.c), unless STOKER_AFFINITY is 0. root: "", or in
 * tests a folder that stands for the root of the file system. */
void stk__context_pin_workers(struct stk_context *ctx, struct stk_pool *pool, const char *root, const struct stk_gpu_device *dev);

#endif
