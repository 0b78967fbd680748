/* SPDX-License-Identifier: Apache-2.0
 * Opens the driver, and devices with their primary contexts. */
#include "gpu/device.h"

#include "base/memory.h"
#include "thread/thread.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct stk_gpu_build stk__gpu_build(void)
{
	/* Machine code runs on drivers whose major version of CUDA is at least that of the toolkit. */
	return (struct stk_gpu_build){stk__cuda_archs, stk__cuda_toolkit, stk__cuda_toolkit / 1000 * 1000, stk__cuda_image_count};
}

enum stk_status stk__gpu_open(struct stk_gpu **out, struct stk_error *err)
{
	struct stk_gpu *gpu = stk__calloc(1, sizeof *gpu);
	if (!gpu)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	gpu->refs = 1;
	enum stk_status status = stk__cuda_driver_load(&gpu->cu, err);
	int result = status ? CUDA_OK : gpu->cu.cuDeviceGetCount(&gpu->count);
	if (result)
		status = stk__cuda_fail(&gpu->cu, result, err, "cuDeviceGetCount");
	if (status) {
		stk__gpu_close(gpu);
		return status;
	}
	gpu->pid = getpid();
	*out = gpu;
	return STK_OK;
}

void stk__gpu_close(struct stk_gpu *gpu)
{
	if (!gpu || atomic_fetch_sub(&gpu->refs, 1) > 1)
		return;
	stk__cuda_driver_unload(&gpu->cu);
	stk__free(gpu);
}

int stk__gpu_driver_version(const struct stk_gpu *gpu)
{
	return gpu->cu.version;
}

int stk__gpu_count(const struct stk_gpu *gpu)
{
	return gpu->count;
}

static int read_facts(const struct stk_cuda_driver *cu, int device, struct stk_gpu_facts *f)
{
	const struct {
		int attribute, *value;
	} attributes[] = {{CUDA_ATTR_MAJOR, &f->major}, {CUDA_ATTR_MINOR, &f->minor}, {CUDA_ATTR_PROCESSORS, &f->processors},
		{CUDA_ATTR_SHARED_PER_BLOCK_OPTIN, &f->shared}};
	int result = cu->cuDeviceGetName(f->name, sizeof f->name, device);
	if (!result)
		result = cu->cuDeviceGetPCIBusId(f->pci, sizeof f->pci, device);
	if (!result)
		result = cu->cuDeviceTotalMem_v2(&f->memory, device);
	for (size_t i = 0; !result && i < sizeof attributes / sizeof *attributes; i++)
		result = cu->cuDeviceGetAttribute(attributes[i].value, attributes[i].attribute, device);
	return result;
}

enum stk_status stk__gpu_facts(const struct stk_gpu *gpu, int ordinal, struct stk_gpu_facts *facts, struct stk_error *err)
{
	if (ordinal < 0 || ordinal >= gpu->count)
		return stk__fail(err, STK_INVALID, "there is no GPU %d: this machine has %d", ordinal, gpu->count);
	int device = 0;
	*facts = (struct stk_gpu_facts){0};
	int result = gpu->cu.cuDeviceGet(&device, ordinal);
	if (!result)
		result = read_facts(&gpu->cu, device, facts);
	return result ? stk__cuda_fail(&gpu->cu, result, err, "reading the properties of GPU %d", ordinal) : STK_OK;
}

static enum stk_status check_build(const struct stk_gpu *gpu, struct stk_error *err)
{
	struct stk_gpu_build b = stk__gpu_build();
	if (!b.modules)
		return stk__fail(err, STK_UNSUPPORTED, "this build of stoker has no CUDA kernels: nvcc was not found when it was built");
	if (gpu->cu.version < b.min_driver)
		return stk__fail(err, STK_UNSUPPORTED,
			"the driver supports CUDA %d.%d; this build of stoker needs one for CUDA %d.%d or newer", gpu->cu.version / 1000,
			gpu->cu.version / 10 % 100, b.min_driver / 1000, b.min_driver / 10 % 100);
	return STK_OK;
}

enum stk_status stk__gpu_device_open(struct stk_gpu *gpu, int ordinal, struct stk_gpu_device **out, struct stk_error *err)
{
	struct stk_gpu_facts facts;
	enum stk_status status = stk__gpu_facts(gpu, ordinal, &facts, err);
	if (!status)
		status = check_build(gpu, err);
	if (status)
		return status;
	struct stk_gpu_device *dev = stk__calloc(1, sizeof *dev);
	void **modules = stk__calloc((size_t)stk__cuda_image_count, sizeof *modules);
	if (!dev || !modules) {
		status = stk__fail(err, STK_NO_MEMORY, "out of memory");
		goto fail;
	}
	*dev = (struct stk_gpu_device){.refs = 1, .gpu = gpu, .cu = &gpu->cu, .ordinal = ordinal, .facts = facts, .modules = modules};
	int mode = stk__gpu_relax(dev->cu);
	int result = gpu->cu.cuDeviceGet(&dev->device, ordinal);
	if (!result)
		result = gpu->cu.cuDevicePrimaryCtxRetain(&dev->context, dev->device);
	if (stk__gpu_as_before(dev->cu, mode, result)) {
		status = stk__cuda_fail(&gpu->cu, result, err, "GPU %d (%s) cannot be used", ordinal, facts.name);
		goto fail;
	}
	pthread_mutex_init(&dev->lock, NULL);
	pthread_cond_init(&dev->was_freed, NULL);
	atomic_fetch_add(&gpu->refs, 1);
	*out = dev;
	return STK_OK;
fail:
	stk__free(modules);
	stk__free(dev);
	return status;
}

struct stk_gpu_device *stk__gpu_device_ref(struct stk_gpu_device *dev)
{
	atomic_fetch_add(&dev->refs, 1);
	return dev;
}

void stk__gpu_device_close(struct stk_gpu_device *dev)
{
	if (!dev || atomic_fetch_sub(&dev->refs, 1) > 1)
		return;
	if (!stk__gpu_enter(dev, NULL)) {
		stk__gpu_free_retired(dev);
		int mode = stk__gpu_relax(dev->cu);
		for (int i = 0; i < stk__cuda_image_count; i++)
			if (dev->modules[i])
				dev->cu->cuModuleUnload(dev->modules[i]);
		stk__gpu_leave(dev);
		stk__gpu_as_before(dev->cu, mode, dev->cu->cuDevicePrimaryCtxRelease_v2(dev->device));
	}
	pthread_cond_destroy(&dev->was_freed);
	pthread_mutex_destroy(&dev->lock);
	stk__gpu_close(dev->gpu);
	stk__free(dev->modules);
	stk__free(dev);
}

static void *close_device(void *dev)
{
	stk__gpu_device_close(dev);
	return NULL;
}

void stk__gpu_device_close_soon(struct stk_gpu_device *dev)
{
	pthread_t thread;
	int refs = dev ? atomic_load(&dev->refs) : 0;
	while (refs > 1)
		if (atomic_compare_exchange_weak(&dev->refs, &refs, refs - 1))
			return;
	/* In a forked child, the release of the device does not call the driver, so that it does not wait. */
	if (dev && getpid() == dev->gpu->pid && stk__thread_start(&thread, "stoker-free", close_device, dev, NULL) == STK_OK)
		pthread_detach(thread);
	else
		stk__gpu_device_close(dev);
}

void stk__gpu_device_end_use(struct stk_gpu_device *dev)
{
	if (dev && !stk__gpu_enter(dev, NULL)) {
		stk__gpu_free_retired(dev);
		stk__gpu_leave(dev);
	}
	stk__gpu_device_close(dev);
}

const struct stk_gpu_facts *stk__gpu_device_facts(const struct stk_gpu_device *dev)
{
	return &dev->facts;
}

enum stk_status stk__gpu_enter(struct stk_gpu_device *dev, struct stk_error *err)
{
	if (getpid() != dev->gpu->pid)
		return stk__fail(err, STK_STATE,
			"CUDA was started before this process was forked, and does not work in the child: "
			"make the pipeline after the fork, or use the start method \"spawn\"");
	int result = dev->cu->cuCtxPushCurrent_v2(dev->context);
	return result ? stk__cuda_fail(dev->cu, result, err, "cuCtxPushCurrent") : STK_OK;
}

void stk__gpu_leave(struct stk_gpu_device *dev)
{
	void *ours;
	dev->cu->cuCtxPopCurrent_v2(&ours);
}

int stk__gpu_capture_relax(struct stk_gpu_device *dev)
{
	return stk__gpu_relax(dev->cu);
}

void stk__gpu_capture_strict(struct stk_gpu_device *dev, int mode)
{
	stk__gpu_as_before(dev->cu, mode, CUDA_OK);
}

enum stk_status stk__gpu_kernel(
	struct stk_gpu_device *dev, const char *module, const char *name, size_t shared, stk_gpu_kernel *out, struct stk_error *err)
{
	void *loaded = NULL, *function = NULL;
	int mode = stk__gpu_relax(dev->cu), result = CUDA_OK;
	pthread_mutex_lock(&dev->lock);
	enum stk_status status = stk__gpu_module(dev, module, &loaded, err);
	pthread_mutex_unlock(&dev->lock);
	if (!status)
		result = dev->cu->cuModuleGetFunction(&function, loaded, name);
	if (!status && !result && shared)
		result = dev->cu->cuFuncSetAttribute(function, CUDA_FUNC_MAX_DYNAMIC_SHARED, (int)shared);
	stk__gpu_as_before(dev->cu, mode, result);
	if (status)
		return status;
	if (result)
		return stk__cuda_fail(dev->cu, result, err, "the CUDA kernel %s of %s", name, module);
	*out = function;
	return STK_OK;
}
