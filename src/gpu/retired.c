/* SPDX-License-Identifier: Apache-2.0
 * Memory of the GPU and pinned memory that nobody uses any more, but that is not freed yet, because freeing waits for the GPU. */
#include "base/memory.h"
#include "gpu/device.h"

/* At most so many bytes wait to be freed, for each kind of memory. */
enum { MOST_ON_DEVICE = 64 << 20, MOST_PINNED = 256 << 20 };

struct stk_gpu_retired {
	struct stk_gpu_retired *next;
	stk_gpu_ptr device; /* 0: `host` is pinned memory instead */
	void *host;
};

static void free_one(struct stk_gpu_device *dev, stk_gpu_ptr device, void *host)
{
	stk__gpu_free(dev, device);
	stk__gpu_host_free(dev, host);
}

static void retire(struct stk_gpu_device *dev, stk_gpu_ptr device, void *host, size_t size)
{
	if (!device && !host)
		return;
	struct stk_gpu_retired *r = stk__alloc(sizeof *r);
	if (!r) {
		free_one(dev, device, host);
		return;
	}
	*r = (struct stk_gpu_retired){NULL, device, host};
	pthread_mutex_lock(&dev->lock);
	size_t *bytes = device ? &dev->retired.device_bytes : &dev->retired.pinned_bytes;
	*bytes += size;
	r->next = dev->retired.first;
	dev->retired.first = r;
	const bool many = *bytes > (device ? (size_t)MOST_ON_DEVICE : (size_t)MOST_PINNED);
	pthread_mutex_unlock(&dev->lock);
	if (many)
		stk__gpu_free_retired(dev);
}

void stk__gpu_retire(struct stk_gpu_device *dev, stk_gpu_ptr p, size_t size)
{
	retire(dev, p, NULL, size);
}

void stk__gpu_host_retire(struct stk_gpu_device *dev, void *p, size_t size)
{
	retire(dev, 0, p, size);
}

void stk__gpu_free_retired(struct stk_gpu_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	struct stk_gpu_retired *r = dev->retired.first;
	dev->retired.first = NULL;
	dev->retired.device_bytes = dev->retired.pinned_bytes = 0;
	pthread_mutex_unlock(&dev->lock);
	while (r) {
		struct stk_gpu_retired *next = r->next;
		free_one(dev, r->device, r->host);
		stk__free(r);
		r = next;
	}
}
