/* SPDX-License-Identifier: Apache-2.0
 * Memory of the GPU and pinned memory: allocated, freed, or retired, which means freed later, because freeing waits for the GPU. */
#include "base/memory.h"
#include "gpu/device.h"

enum { MOST_ON_DEVICE = 64 << 20, MOST_PINNED = 256 << 20 }; /* more retired bytes of a kind are not kept */

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

/* Frees all retired memory of one kind. Returns whether there was any. */
static bool free_kind(struct stk_gpu_device *dev, bool pinned)
{
	pthread_mutex_lock(&dev->lock);
	struct stk_gpu_retired *r = dev->retired[pinned].first;
	dev->retired[pinned] = (struct stk_gpu_retired_list){0};
	pthread_mutex_unlock(&dev->lock);
	const bool any = r != NULL;
	while (r) {
		struct stk_gpu_retired *next = r->next;
		free_one(dev, pinned, r->at);
		stk__free(r);
		r = next;
	}
	return any;
}

static void retire(struct stk_gpu_device *dev, bool pinned, uintptr_t at, size_t size)
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
	const bool many = list->bytes > (pinned ? (size_t)MOST_PINNED : (size_t)MOST_ON_DEVICE);
	pthread_mutex_unlock(&dev->lock);
	if (many)
		free_kind(dev, pinned);
}

void stk__gpu_retire(struct stk_gpu_device *dev, stk_gpu_ptr p, size_t size)
{
	retire(dev, false, p, size);
}

void stk__gpu_host_retire(struct stk_gpu_device *dev, void *p, size_t size)
{
	retire(dev, true, (uintptr_t)p, size);
}

bool stk__gpu_free_retired(struct stk_gpu_device *dev)
{
	const bool device = free_kind(dev, false), pinned = free_kind(dev, true);
	return device || pinned;
}

enum stk_status stk__gpu_alloc(struct stk_gpu_device *dev, size_t size, stk_gpu_ptr *out, struct stk_error *err)
{
	int result;
	do {
		int mode = stk__gpu_relax(dev->cu);
		result = stk__gpu_as_before(dev->cu, mode, dev->cu->cuMemAlloc_v2(out, size ? size : 1));
	} while (result == CUDA_OUT_OF_MEMORY && stk__gpu_free_retired(dev));
	return result ? stk__cuda_fail(dev->cu, result, err, "allocating %zu bytes on %s", size, dev->facts.name) : STK_OK;
}

enum stk_status stk__gpu_host_alloc(struct stk_gpu_device *dev, size_t size, void **out, struct stk_error *err)
{
	int result;
	do {
		int mode = stk__gpu_relax(dev->cu);
		result = stk__gpu_as_before(dev->cu, mode, dev->cu->cuMemHostAlloc(out, size ? size : 1, CUDA_HOST_PORTABLE));
	} while (result == CUDA_OUT_OF_MEMORY && stk__gpu_free_retired(dev));
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
	return result ? stk__cuda_fail(dev->cu, result, err, "cuMemGetInfo") : STK_OK;
}
