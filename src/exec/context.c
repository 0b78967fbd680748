/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/context.h"

#include "base/cpu.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/memory.h"
#include "thread/thread.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void destroy(struct stk_context *ctx)
{
	if (ctx->process == getpid()) { /* a forked child has no threads to end, and leaves the pool and the storage as they are */
		stk__pool_destroy(ctx->pool);
		stk_storage_unref(&ctx->storage);
	}
	for (int i = 0; ctx->devices && i < stk__gpu_count(ctx->gpu); i++)
		stk__gpu_device_close(ctx->devices[i]);
	stk__free(ctx->devices);
	stk__gpu_close(ctx->gpu);
	stk__ranges_close(ctx->ranges);
	stk__watch_end(&ctx->watch);
	pthread_mutex_destroy(&ctx->gpu_lock);
	pthread_mutex_destroy(&ctx->log_lock);
	if (ctx->log_done)
		ctx->log_done(ctx->log_user);
	stk__free(ctx);
}

/* Warns of up to 16 environment variables that begin with STOKER_ and that nothing reads, such as misspelt ones. */
static void warn_unknown_settings(struct stk_context *ctx)
{
	const char *entry, *meant;
	for (size_t i = 0; i < 16 && (entry = stk__environment_unknown(i, &meant)); i++)
		stk__notify(ctx, STK_LOG_WARNING, "the environment variable %.*s is set, and nothing reads it%s%s%s",
			(int)strcspn(entry, "="), entry, meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

enum stk_status stk_context_create(const struct stk_context_config *config, struct stk_context **out, struct stk_error *err)
{
	if (STK_NEED(err, out))
		return STK_INVALID;
	struct stk_context_config c = {.size = sizeof c};
	*out = NULL;
	if (config && config->size != sizeof c)
		return stk__fail(err, STK_INVALID, "stk_context_config.size is %zu; this library expects %zu", config->size, sizeof c);
	if (config)
		c = *config;
	if (c.threads < 0 || c.threads > 4096 || c.io_threads < 0 || c.io_threads > 4096)
		return stk__fail(err, STK_INVALID, "threads must be from 0 (choose) to 4096, not %d and %d", c.threads, c.io_threads);
	struct stk_context *ctx = stk__calloc(1, sizeof *ctx);
	if (!ctx)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a context");
	ctx->refs = 1;
	ctx->process = getpid();
	ctx->cpu = stk__cpu_capabilities();
	ctx->kernels = stk__pass_kernels(ctx->cpu);
	ctx->ranges = stk__ranges_open();
	if (sched_getaffinity(0, sizeof ctx->allowed, &ctx->allowed))
		CPU_ZERO(&ctx->allowed);
	ctx->log = c.log;
	ctx->log_user = c.log_user;
	pthread_mutex_init(&ctx->log_lock, NULL);
	pthread_mutex_init(&ctx->gpu_lock, NULL);
	stk__watch_init(&ctx->watch);
	struct stk_cpu_budget budget;
	stk__cpu_budget(&budget);
	enum stk_status s = stk__storage_create(&(struct stk_storage_config){0}, c.io_threads ? c.io_threads : 16, &ctx->storage, err);
	if (s == STK_OK)
		s = stk__pool_create(c.threads ? c.threads : budget.threads, &ctx->pool, err);
	if (s) {
		destroy(ctx);
		return s;
	}
	warn_unknown_settings(ctx);
	ctx->log_done = c.log_done;
	*out = ctx;
	return STK_OK;
}

struct stk_context *stk_context_ref(struct stk_context *ctx)
{
	if (!ctx)
		return NULL;
	atomic_fetch_add(&ctx->refs, 1);
	return ctx;
}

void stk_context_unref(struct stk_context **ctx)
{
	if (!ctx)
		return;
	if (*ctx && atomic_fetch_sub(&(*ctx)->refs, 1) == 1)
		destroy(*ctx);
	*ctx = NULL;
}

int32_t stk_context_threads(const struct stk_context *ctx)
{
	if (!ctx)
		return 0;
	return stk__pool_threads(ctx->pool);
}

enum stk_status stk__context_check(const struct stk_context *ctx, struct stk_error *err)
{
	if (ctx->process != getpid())
		return stk__fail(err, STK_STATE, "this pipeline belongs to the parent process %lld; after a fork make a new one",
			(long long)ctx->process);
	return STK_OK;
}

void stk__notify(struct stk_context *ctx, enum stk_log_level level, const char *fmt, ...)
{
	if (!ctx->log)
		return;
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&ctx->log_lock);
	ctx->log(ctx->log_user, level, text);
	pthread_mutex_unlock(&ctx->log_lock);
}

/* Opens the GPU number `ordinal`, if it is not open yet, and stores it in ctx->devices. Call with gpu_lock held. */
static enum stk_status open_device(struct stk_context *ctx, int32_t ordinal, struct stk_error *err)
{
	enum stk_status s = ctx->gpu ? STK_OK : stk__gpu_open(&ctx->gpu, err);
	if (s)
		return s;
	if (ordinal >= stk__gpu_count(ctx->gpu))
		return stk__fail(err, STK_INVALID, "there is no GPU %d: this process sees %d", ordinal, stk__gpu_count(ctx->gpu));
	if (!ctx->devices)
		ctx->devices = stk__calloc((size_t)stk__gpu_count(ctx->gpu), sizeof(struct stk_gpu_device *));
	if (!ctx->devices)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a device");
	return ctx->devices[ordinal] ? STK_OK : stk__gpu_device_open(ctx->gpu, ordinal, &ctx->devices[ordinal], err);
}

enum stk_status stk__context_device(struct stk_context *ctx, int32_t ordinal, struct stk_gpu_device **out, struct stk_error *err)
{
	pthread_mutex_lock(&ctx->gpu_lock);
	enum stk_status s = open_device(ctx, ordinal, err);
	if (s == STK_OK)
		*out = stk__gpu_device_ref(ctx->devices[ordinal]);
	pthread_mutex_unlock(&ctx->gpu_lock);
	return s;
}
