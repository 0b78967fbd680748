/* SPDX-License-Identifier: Apache-2.0
 * Chooses the embedded image that suits a GPU, and loads it. */
#include "gpu/device.h"

#include "base/memory.h"

#include <string.h>
#include <zlib.h>

/* Returns whether an image runs on a GPU of this compute capability. Machine code runs on GPUs of its own generation (same major number, as 8.0 and 8.6) with
 * the same or a higher minor number, PTX on all GPUs of the same or a higher capability, and an image of architecture 0 on every GPU. */
static bool runs_on(const struct stk_cuda_image *image, int capability)
{
	return image->arch <= capability && (image->ptx || !image->arch || image->arch / 10 == capability / 10);
}

int stk__cuda_find_image(const struct stk_cuda_image *images, int count, const char *name, int capability)
{
	int best = -1;
	for (int i = 0; i < count; i++) {
		const struct stk_cuda_image *image = images + i, *current = best < 0 ? NULL : images + best;
		if (strcmp(image->name, name) != 0 || !runs_on(image, capability))
			continue;
		if (!current || image->ptx < current->ptx || (image->ptx == current->ptx && image->arch > current->arch))
			best = i;
	}
	return best;
}

static enum stk_status load(struct stk_gpu_device *dev, const struct stk_cuda_image *image, void **module, struct stk_error *err)
{
	uLongf size = image->size;
	unsigned char *data = stk__alloc(image->size);
	if (!data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the CUDA module %s", image->name);
	enum stk_status status = STK_OK;
	if (uncompress(data, &size, image->data, (uLong)(image->end - image->data)) != Z_OK || size != image->size)
		status = stk__fail(err, STK_CORRUPT, "the CUDA module %s is damaged in this copy of stoker: reinstall it", image->name);
	int result = status ? CUDA_OK : dev->cu->cuModuleLoadData(module, data);
	if (result)
		status = stk__cuda_fail(dev->cu, result, err, "loading the CUDA module %s", image->name);
	stk__free(data);
	return status;
}

static bool is_embedded(const char *name)
{
	for (int i = 0; i < stk__cuda_image_count; i++)
		if (strcmp(stk__cuda_images[i].name, name) == 0)
			return true;
	return false;
}

enum stk_status stk__gpu_module(struct stk_gpu_device *dev, const char *name, void **out, struct stk_error *err)
{
	const struct stk_gpu_facts *f = &dev->facts;
	int i = stk__cuda_find_image(stk__cuda_images, stk__cuda_image_count, name, f->major * 10 + f->minor);
	if (i < 0 && !is_embedded(name))
		return stk__fail(err, STK_NOT_FOUND, "this build has no CUDA module %s", name);
	if (i < 0)
		return stk__fail(err, STK_UNSUPPORTED, "%s has compute capability %d.%d; this build of stoker has kernels (%s) for: %s",
			f->name, f->major, f->minor, name, stk__cuda_archs);
	enum stk_status status = dev->modules[i] ? STK_OK : load(dev, stk__cuda_images + i, &dev->modules[i], err);
	*out = dev->modules[i];
	return status;
}
