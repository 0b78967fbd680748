/* SPDX-License-Identifier: Apache-2.0
 *
 * A context owns worker threads, I/O and devices. Pipelines are made from it and share its workers. A pipeline whose graph has a python_function gets as many
 * workers of its own, because the user's function may wait for another pipeline. There is no static state, so contexts do not affect each other. */
#ifndef STOKER_CONTEXT_H
#define STOKER_CONTEXT_H

#include "stoker/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stk_context;

enum stk_log_level { STK_LOG_ERROR, STK_LOG_WARNING, STK_LOG_INFO, STK_LOG_DEBUG };

/* Called on any thread, one call at a time; text has no newline. The library itself never prints. */
typedef void (*stk_log_fn)(void *user, enum stk_log_level level, const char *text);

struct stk_context_config {
	size_t size;        /* sizeof(struct stk_context_config) */
	int32_t threads;    /* number of workers, and of those that a pipeline has of its own; 0: as many as the affinity mask and
	                     * the cgroup's quota allow, divided by LOCAL_WORLD_SIZE */
	int32_t io_threads; /* threads for reads that block; 0: 16. They are started when first needed and mostly sleep. */
	stk_log_fn log;
	void *log_user;
	/* Called once, after the last message, on the thread that releases the context's last reference: pipelines and batches have references, and may
	 * outlive the caller's. Not called if the context could not be created. May be NULL. */
	void (*log_done)(void *user);
};

/* Creates a context. config may be NULL for defaults. Reads STOKER_CPU. Any thread. */
STK_API STK_MUST_USE enum stk_status stk_context_create(
	const struct stk_context_config *config, struct stk_context **out, struct stk_error *err);

/* Releases the caller's reference and sets *ctx to NULL; pipelines and batches have their own references. The threads end when the last reference is gone.
 * Accepts NULL. */
STK_API void stk_context_unref(struct stk_context **ctx);
STK_API struct stk_context *stk_context_ref(struct stk_context *ctx);

STK_API int32_t stk_context_threads(const struct stk_context *ctx);

/* Returns the library's version, such as "0.1.0". */
STK_API const char *stk_version(void);

#ifdef __cplusplus
}
#endif
#endif
