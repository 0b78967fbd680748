/* SPDX-License-Identifier: Apache-2.0
 * Memory of the GPU and pinned memory that is not used, but is freed later, because freeing waits for the GPU. */
#include "base/memory.h"
#include "gpu/device.h"

enum { MOST_ON_DEVICE = 64 << 20, MOST_PINNED = 256 << 20 }; /* more bytes of a kind are not kept */

struct stk_gpu_retired {
	struct stk_gpu_retired *next;
	uintptr_t at;
};

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
