/* SPDX-License-Identifier: Apache-2.0
 * Memory of the GPU and pinned memory: allocated, freed, or retired, which means freed later, because freeing waits for the GPU. */
#include "base/memory.h"
#include "gpu/device.h"
#include "thread/thread.h"

/* More retired bytes of a kind are not kept: pinned, or on the device, where a larger GPU allows more. */
enum { MOST_PINNED = 256 << 20, LEAST_ON_DEVICE = 64 << 20, SHARE_OF_DEVICE = 128 };

struct stk_gpu_retired {
	struct stk_gpu_retired *next;
	uintptr_t at;
};

void stk__gpu_free(struct stk_gpu_device *dev, stk_gpu_ptr p)
{
	if (!p)
		return;
	int mode = stk__gpu_relax(dev->cu);
	stk__gpu_as_before(dev->cu, mode, dev->cu->cuMemFree_v2(p));
}

void stk__gpu_host_free(struct stk_gpu_device *dev, void *p)
{
	if (!p)
		return;
	int mode = stk__gpu_relax(dev->cu);
	stk__gpu_as_before(dev->cu, mode, dev->cu->cuMemFreeHost(p));
}

static void free_one(struct stk_gpu_device *dev, bool pinned, uintptr_t at)
{
	if (pinned)
		stk__gpu_host_free(dev, (void *)at);
	else
		stk__gpu_free(dev, at);
}

/* Returns whether more memory of a kind has been retired than should be kept. Call with the lock held. */
static bool is_over_limit(const struct stk_gpu_device *dev, bool pinned)
{
	const size_t share = dev->facts.memory / SHARE_OF_DEVICE, most = share > LEAST_ON_DEVICE ? share : LEAST_ON_DEVICE;
	return dev->retired[pinned].bytes > (pinned ? (size_t)MOST_PINNED : most);
}

/* Takes the memory of one kind out of its list. Call with the lock held. */
static struct stk_gpu_retired *take_list(struct stk_gpu_device *dev, bool pinned)
{
	struct stk_gpu_retired *first = dev->retired[pinned].first;
	dev->retired[pinned] = (struct stk_gpu_retired_list){0};
	return first;
}

static void free_list(struct stk_gpu_device *dev, bool pinned, struct stk_gpu_retired *r)
{
	while (r) {
		struct stk_gpu_retired *next = r->next;
		free_one(dev, pinned, r->at);
		stk__free(r);
		r = next;
	}
}

/* Frees all retired memory, or only the kinds of which there is too much. Call with the lock held; it is released meanwhile. */
static void free_retired(struct stk_gpu_device *dev, bool all)
{
	struct stk_gpu_retired *lists[2] = {NULL, NULL};
	for (int pinned = 0; pinned < 2; pinned++)
		if (all || is_over_limit(dev, pinned))
			lists[pinned] = take_list(dev, pinned);
	if (!lists[0] && !lists[1])
		return;
	dev->freeing++;
	pthread_mutex_unlock(&dev->lock);
	free_list(dev, false, lists[0]);
	free_list(dev, true, lists[1]);
	pthread_mutex_lock(&dev->lock);
	dev->freeing--;
	dev->times_freed++;
	pthread_cond_broadcast(&dev->was_freed);
}

/* Notes that no thread frees surplus memory any more. Call with the lock held, which this releases. The device may be closed from then on. */
static void end_freer(struct stk_gpu_device *dev)
{
	dev->freer_runs = false;
	pthread_cond_broadcast(&dev->was_freed);
	pthread_mutex_unlock(&dev->lock);
}

static void *free_surplus(void *of)
{
	struct stk_gpu_device *dev = of;
	void *ours;
	const bool entered = !dev->cu->cuCtxPushCurrent_v2(dev->context);
	pthread_mutex_lock(&dev->lock);
	while (entered && (dev->frees_all || is_over_limit(dev, false) || is_over_limit(dev, true))) {
		const bool all = dev->frees_all;
		dev->frees_all = false;
		free_retired(dev, all);
	}
	if (entered)
		dev->cu->cuCtxPopCurrent_v2(&ours);
	end_freer(dev);
	return NULL;
}

/* Starts a thread that frees the retired memory of which there is too much, or all of it with dev->frees_all. If the system refuses a thread, the next call
 * tries again. */
static void start_freer(struct stk_gpu_device *dev)
{
	pthread_t thread;
	if (stk__thread_start(&thread, "stoker-free", free_surplus, dev, NULL) == STK_OK) {
		pthread_detach(thread);
		return;
	}
	pthread_mutex_lock(&dev->lock);
	end_freer(dev);
}

/* soon: a thread frees the memory, and all that was retired before, as soon as the GPU allows. */
static void retire(struct stk_gpu_device *dev, bool pinned, uintptr_t at, size_t size, bool soon)
{
	struct stk_gpu_retired *r = at ? stk__alloc(sizeof *r) : NULL;
	if (!r) {
		free_one(dev, pinned, at);
		return;
	}
	pthread_mutex_lock(&dev->lock);
	struct stk_gpu_retired_list *list = &dev->retired[pinned];
	*r = (struct stk_gpu_retired){list->first, at};
	list->first = r;
	list->bytes += size;
	/* This thread must not wait for the GPU: it may hold Python's lock, and the GPU may wait for a host function that needs that lock. Both would then wait for
	 * ever. */
	dev->frees_all |= soon;
	const bool start = !dev->freer_runs && (soon || is_over_limit(dev, pinned));
	dev->freer_runs |= start;
	pthread_mutex_unlock(&dev->lock);
	if (start)
		start_freer(dev);
}

void stk__gpu_retire(struct stk_gpu_device *dev, stk_gpu_ptr p, size_t size)
{
	retire(dev, false, p, size, false);
}

void stk__gpu_free_soon(struct stk_gpu_device *dev, stk_gpu_ptr p, size_t size)
{
	retire(dev, false, p, size, true);
}

void stk__gpu_host_retire(struct stk_gpu_device *dev, void *p, size_t size)
{
	retire(dev, true, (uintptr_t)p, size, false);
}

void stk__gpu_free_retired(struct stk_gpu_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	free_retired(dev, true);
	while (dev->freer_runs)
		pthread_cond_wait(&dev->was_freed, &dev->lock);
	pthread_mutex_unlock(&dev->lock);
}

static uint64_t times_freed(struct stk_gpu_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	const uint64_t times = dev->times_freed;
	pthread_mutex_unlock(&dev->lock);
	return times;
}

/* Frees the retired memory, and waits until other threads have freed what they took. before: times_freed() before the allocation that failed. Returns whether
 * memory was freed since then, so that the allocation may now succeed. */
static bool free_for_allocation(struct stk_gpu_device *dev, uint64_t before)
{
	pthread_mutex_lock(&dev->lock);
	free_retired(dev, true);
	while (dev->freeing && dev->times_freed == before)
		pthread_cond_wait(&dev->was_freed, &dev->lock);
	const bool freed = dev->times_freed != before;
	pthread_mutex_unlock(&dev->lock);
	return freed;
}

/* Calls the driver's function until it succeeds, or fails although nothing more can be freed. */
static int allocate(struct stk_gpu_device *dev, bool pinned, size_t size, stk_gpu_ptr *on_device, void **on_host)
{
	const struct stk_cuda_driver *cu = dev->cu;
	size = size ? size : 1;
	for (;;) {
		const uint64_t before = times_freed(dev);
		const int mode = stk__gpu_relax(cu);
		const int result = pinned ? cu->cuMemHostAlloc(on_host, size, CUDA_HOST_PORTABLE) : cu->cuMemAlloc_v2(on_device, size);
		stk__gpu_as_before(cu, mode, result);
		if (result != CUDA_OUT_OF_MEMORY || !free_for_allocation(dev, before))
			return result;
	}
}

enum stk_status stk__gpu_alloc(struct stk_gpu_device *dev, size_t size, stk_gpu_ptr *out, struct stk_error *err)
{
	const int result = allocate(dev, false, size, out, NULL);
	return result ? stk__cuda_fail(dev->cu, result, err, "allocating %zu bytes on %s", size, dev->facts.name) : STK_OK;
}

enum stk_status stk__gpu_host_alloc(struct stk_gpu_device *dev, size_t size, void **out, struct stk_error *err)
{
	const int result = allocate(dev, true, size, NULL, out);
	return result ? stk__cuda_fail(dev->cu, result, err, "allocating %zu bytes of pinned memory", size) : STK_OK;
}

bool stk__gpu_reaches(struct stk_gpu_device *dev, stk_gpu_ptr at)
{
	enum { NOT_CUDAS = 1 }; /* CUDA_ERROR_INVALID_VALUE, returned for memory that CUDA does not know */
	unsigned type;
	return dev->cu->cuPointerGetAttribute(&type, CUDA_POINTER_MEMORY_TYPE, at) != NOT_CUDAS;
}

bool stk__gpu_is_memory(struct stk_gpu_device *dev, const void *at)
{
	enum { ON_DEVICE = 2 };
	unsigned type = 0;
	return !dev->cu->cuPointerGetAttribute(&type, CUDA_POINTER_MEMORY_TYPE, (uintptr_t)at) && type == ON_DEVICE;
}

enum stk_status stk__gpu_memory_free(struct stk_gpu_device *dev, size_t *available, struct stk_error *err)
{
	size_t total;
	int mode = stk__gpu_relax(dev->cu);
	int result = stk__gpu_as_before(dev->cu, mode, dev->cu->cuMemGetInfo_v2(available, &total));
	pthread_mutex_lock(&dev->lock);
	*available += result ? 0 : dev->retired[false].bytes;
	pthread_mutex_unlock(&dev->lock);
	return result ? stk__cuda_fail(dev->cu, result, err, "cuMemGetInfo") : STK_OK;
}
