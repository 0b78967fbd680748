/* SPDX-License-Identifier: Apache-2.0
 * Wraps the driver's functions for streams, copies, events and launches, with Stoker's types and errors. */
#include "gpu/device.h"

static enum stk_status check(struct stk_gpu_device *dev, int result, struct stk_error *err, const char *what)
{
	return result ? stk__cuda_fail(dev->cu, result, err, "%s", what) : STK_OK;
}

enum stk_status stk__gpu_upload(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr to, const void *from, size_t size, struct stk_error *err)
{
	return check(dev, dev->cu->cuMemcpyHtoDAsync_v2(to, from, size, stream), err, "copying to the GPU");
}

enum stk_status stk__gpu_download(
	struct stk_gpu_device *dev, stk_gpu_stream stream, void *to, stk_gpu_ptr from, size_t size, struct stk_error *err)
{
	return check(dev, dev->cu->cuMemcpyDtoHAsync_v2(to, from, size, stream), err, "copying from the GPU");
}

enum stk_status stk__gpu_copy(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr to, stk_gpu_ptr from, size_t size, struct stk_error *err)
{
	return check(dev, dev->cu->cuMemcpyDtoDAsync_v2(to, from, size, stream), err, "copying on the GPU");
}

enum stk_status stk__gpu_fill(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr to, int byte, size_t size, struct stk_error *err)
{
	return check(dev, dev->cu->cuMemsetD8Async(to, (unsigned char)byte, size, stream), err, "filling memory of the GPU");
}

enum stk_status stk__gpu_stream_create(
	struct stk_gpu_device *dev, enum stk_gpu_priority priority, stk_gpu_stream *out, struct stk_error *err)
{
	int least = 0, greatest = 0;
	void *stream = NULL;
	int mode = stk__gpu_relax(dev->cu);
	int result = dev->cu->cuCtxGetStreamPriorityRange(&least, &greatest);
	if (!result)
		result = dev->cu->cuStreamCreateWithPriority(&stream, CUDA_STREAM_NON_BLOCKING, priority == STK_GPU_LOW ? least : greatest);
	stk__gpu_as_before(dev->cu, mode, result);
	*out = stream;
	return check(dev, result, err, "creating a stream");
}

void stk__gpu_stream_destroy(struct stk_gpu_device *dev, stk_gpu_stream stream)
{
	if (!stream)
		return;
	int mode = stk__gpu_relax(dev->cu);
	stk__gpu_as_before(dev->cu, mode, dev->cu->cuStreamDestroy_v2(stream));
}

enum stk_status stk__gpu_stream_sync(struct stk_gpu_device *dev, stk_gpu_stream stream, struct stk_error *err)
{
	int mode = stk__gpu_relax(dev->cu);
	return check(dev, stk__gpu_as_before(dev->cu, mode, dev->cu->cuStreamSynchronize(stream)), err, "waiting for a stream");
}

enum stk_status stk__gpu_sync(struct stk_gpu_device *dev, struct stk_error *err)
{
	int mode = stk__gpu_relax(dev->cu);
	return check(dev, stk__gpu_as_before(dev->cu, mode, dev->cu->cuCtxSynchronize()), err, "waiting for the GPU");
}

enum stk_status stk__gpu_stream_wait(struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_event event, struct stk_error *err)
{
	return check(dev, dev->cu->cuStreamWaitEvent(stream, event, 0), err, "making a stream wait for an event");
}

bool stk__gpu_stream_captures(struct stk_gpu_device *dev, stk_gpu_stream stream)
{
	int status = 0, result = dev->cu->cuStreamIsCapturing(stream, &status);
	return result == CUDA_CAPTURE_IMPLICIT || status != 0;
}

enum stk_status stk__gpu_event_create(struct stk_gpu_device *dev, bool timing, stk_gpu_event *out, struct stk_error *err)
{
	void *event = NULL;
	int mode = stk__gpu_relax(dev->cu);
	int result = dev->cu->cuEventCreate(&event, timing ? 0 : CUDA_EVENT_DISABLE_TIMING | CUDA_EVENT_BLOCKING_SYNC);
	stk__gpu_as_before(dev->cu, mode, result);
	*out = event;
	return check(dev, result, err, "creating an event");
}

void stk__gpu_event_destroy(struct stk_gpu_device *dev, stk_gpu_event event)
{
	if (!event)
		return;
	int mode = stk__gpu_relax(dev->cu);
	stk__gpu_as_before(dev->cu, mode, dev->cu->cuEventDestroy_v2(event));
}

enum stk_status stk__gpu_event_record(struct stk_gpu_device *dev, stk_gpu_event event, stk_gpu_stream stream, struct stk_error *err)
{
	return check(dev, dev->cu->cuEventRecord(event, stream), err, "recording an event");
}

enum stk_status stk__gpu_event_sync(struct stk_gpu_device *dev, stk_gpu_event event, struct stk_error *err)
{
	int mode = stk__gpu_relax(dev->cu);
	return check(dev, stk__gpu_as_before(dev->cu, mode, dev->cu->cuEventSynchronize(event)), err, "waiting for the GPU");
}

enum stk_status stk__gpu_event_query(struct stk_gpu_device *dev, stk_gpu_event event, bool *done, struct stk_error *err)
{
	int mode = stk__gpu_relax(dev->cu);
	int result = stk__gpu_as_before(dev->cu, mode, dev->cu->cuEventQuery(event));
	*done = result == CUDA_OK;
	return result == CUDA_NOT_READY ? STK_OK : check(dev, result, err, "asking for the GPU's progress");
}

enum stk_status stk__gpu_event_elapsed(
	struct stk_gpu_device *dev, stk_gpu_event from, stk_gpu_event to, float *milliseconds, struct stk_error *err)
{
	int mode = stk__gpu_relax(dev->cu);
	return check(dev, stk__gpu_as_before(dev->cu, mode, dev->cu->cuEventElapsedTime(milliseconds, from, to)), err,
		"reading the time between events");
}

static unsigned at_least_one(unsigned n)
{
	return n ? n : 1;
}

enum stk_status stk__gpu_launch(struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_kernel kernel, struct stk_gpu_grid grid,
	void **params, struct stk_error *err)
{
	const unsigned *b = grid.blocks, *t = grid.threads;
	int result = dev->cu->cuLaunchKernel(kernel, at_least_one(b[0]), at_least_one(b[1]), at_least_one(b[2]), at_least_one(t[0]),
		at_least_one(t[1]), at_least_one(t[2]), grid.shared, stream, params, NULL);
	return check(dev, result, err, "launching a kernel");
}
