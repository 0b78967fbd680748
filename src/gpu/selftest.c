/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/gpu.h"

enum { COUNT = 1000, SEED = 77 };

static enum stk_status run(struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr memory, uint32_t *got, struct stk_error *err)
{
	stk_gpu_kernel kernel;
	uint32_t count = COUNT, seed = SEED;
	enum stk_status status = stk__gpu_kernel(dev, "selftest", "selftest_fill", 0, &kernel, err);
	if (!status)
		status = stk__gpu_launch(dev, stream, kernel, (struct stk_gpu_grid){.blocks = {(COUNT + 255) / 256}, .threads = {256}},
			(void *[]){&memory, &count, &seed}, err);
	if (!status)
		status = stk__gpu_download(dev, stream, got, memory, COUNT * sizeof *got, err);
	if (!status)
		status = stk__gpu_stream_sync(dev, stream, err);
	return status;
}

enum stk_status stk__gpu_selftest(struct stk_gpu_device *dev, struct stk_error *err)
{
	uint32_t got[COUNT] = {0};
	stk_gpu_ptr memory = 0;
	stk_gpu_stream stream = NULL;
	enum stk_status status = stk__gpu_enter(dev, err);
	if (status)
		return status;
	status = stk__gpu_alloc(dev, sizeof got, &memory, err);
	if (!status)
		status = stk__gpu_stream_create(dev, STK_GPU_LOW, &stream, err);
	if (!status)
		status = run(dev, stream, memory, got, err);
	for (uint32_t i = 0; !status && i < COUNT; i++)
		if (got[i] != i * 2654435761u + SEED)
			status = stk__fail(err, STK_CUDA, "the self-test's kernel wrote %u at %u", got[i], i);
	stk__gpu_stream_destroy(dev, stream);
	stk__gpu_free(dev, memory);
	stk__gpu_leave(dev);
	return status;
}
