/* SPDX-License-Identifier: Apache-2.0
 *
 * The streams on which the GPU decodes. Each is a CUDA stream with its own device memory. The parts of batches are distributed over the streams. Work on one
 * stream runs in the order of submission, so parts can share its memory without waiting on the host, and the memory for decoding does not grow with the
 * number of batches in flight.
 *
 *     stk__jpeg_gpu_streams_fit(streams, bytes_of_a_batch, bytes_of_its_largest_file, &part, err);  // usually does nothing after the first batches
 *     stream = stk__jpeg_gpu_streams_take(streams, err);                                            // for one part of up to `part` bytes
 *     ... submit to stream->cuda, using stream->memory ...
 *     stk__jpeg_gpu_streams_give(streams, stream, err);
 *
 * Any thread may call these functions, inside stk__gpu_enter. */
#ifndef STK_CODEC_JPEG_GPU_STREAMS_H
#define STK_CODEC_JPEG_GPU_STREAMS_H

#include "gpu/gpu.h"

/* The hardware has 8 queues, unless CUDA_DEVICE_MAX_CONNECTIONS sets another number, and streams that share a queue wait for each other. One queue is left
 * for the stream that copies the other data of batches. */
enum { STK_JPEG_GPU_STREAMS = 7 };

struct stk_jpeg_gpu_stream {
	int number;
	stk_gpu_stream cuda;
	stk_gpu_ptr memory;
	stk_gpu_event done;    /* recorded after the last kernel of the stream's last part */
	bool in_use;           /* a thread has taken the stream */
	int64_t return_number; /* position of the stream's last return among the returns of all streams */
};

struct stk_jpeg_gpu_streams;

/* Creates the streams. most: the maximum number of bytes of device memory for all streams together. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_streams_create(
	struct stk_gpu_device *dev, size_t most, struct stk_jpeg_gpu_streams **out, struct stk_error *err);
void stk__jpeg_gpu_streams_destroy(struct stk_jpeg_gpu_streams *s); /* waits for work in flight; accepts NULL */

/* Returns the CUDA stream of stream `number` (0 .. STK_JPEG_GPU_STREAMS - 1), even while a thread has taken it. Work submitted to it
 * runs after all parts submitted to it before. */
stk_gpu_stream stk__jpeg_gpu_streams_cuda(const struct stk_jpeg_gpu_streams *s, int number);

/* Return the maximum number of bytes of device memory for all streams together, and the number that they use once all have allocated theirs. */
size_t stk__jpeg_gpu_streams_most(const struct stk_jpeg_gpu_streams *s);
size_t stk__jpeg_gpu_streams_memory(struct stk_jpeg_gpu_streams *s);

/* Chooses the size of parts for a batch of `batch` bytes, whose largest file needs `largest` bytes (STK_LIMIT if that is more than `most`). *part: set to the
 * number of bytes that one part may use. Parts never become smaller. If the streams' memory must be reallocated, waits until no thread has taken a stream and
 * until the work of all streams has ended. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_streams_fit(
	struct stk_jpeg_gpu_streams *s, size_t batch, size_t largest, size_t *part, struct stk_error *err);

/* Takes the free stream that was given back first, since its work will probably end first. If that work has not ended, or no stream is free, takes a stream
 * that was never used, if there is memory for it. Waits while other threads have taken all streams. Returns NULL if there is no memory for any stream. */
struct stk_jpeg_gpu_stream *stk__jpeg_gpu_streams_take(struct stk_jpeg_gpu_streams *s, struct stk_error *err);
/* Records stream->done after the submitted work, and gives the stream back, even if recording fails. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_streams_give(
	struct stk_jpeg_gpu_streams *s, struct stk_jpeg_gpu_stream *stream, struct stk_error *err);
/* Waits on the host until no stream has work in flight. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_streams_sync(struct stk_jpeg_gpu_streams *s, struct stk_error *err);

#endif
