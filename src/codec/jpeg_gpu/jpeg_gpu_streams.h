/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the decoder on the GPU works: lanes, each a stream and a piece of device memory. Parts of batches take a lane one after the other; what is
 * submitted to a lane runs in the order of submission, so they share its memory and nobody waits for it on the host. The memory that decoding takes
 * does not grow with the batches in flight.
 *
 *     stk__jpeg_lanes_fit(lanes, bytes_of_a_batch, bytes_of_its_largest_file, &part, err);  // once warm: nothing to do
 *     lane = stk__jpeg_lanes_take(lanes, err);                                       // for one part, of up to `part` bytes
 *     ... submit to lane->stream, over lane->memory ...
 *     stk__jpeg_lanes_give(lanes, lane, err);
 *
 * Threads: any, inside stk__gpu_enter. */
#ifndef STK_CODEC_CUDA_JPEG_LANES_H
#define STK_CODEC_CUDA_JPEG_LANES_H

#include "gpu/gpu.h"

enum { STK_CUDA_JPEG_LANES = 8 }; /* as many as the hardware has queues, if CUDA_DEVICE_MAX_CONNECTIONS does not say otherwise */

struct stk_jpeg_lane {
	int number;
	stk_gpu_stream stream;
	stk_gpu_ptr memory;
	stk_gpu_event done; /* behind the last part's last kernel */
	bool taken;         /* somebody submits to it */
	int64_t turn;       /* when it was given back last */
};

struct stk_jpeg_lanes;

/* most: bytes of device memory for all lanes together. */
STK_MUST_USE enum stk_status stk__jpeg_lanes_create(
	struct stk_gpu_device *dev, size_t most, struct stk_jpeg_lanes **out, struct stk_error *err);
void stk__jpeg_lanes_destroy(struct stk_jpeg_lanes *lanes); /* waits for what is in flight; NULL is fine */

/* Bytes that all lanes may take, and those that they do, or will once all of them were needed. */
size_t stk__jpeg_lanes_most(const struct stk_jpeg_lanes *lanes);
size_t stk__jpeg_lanes_memory(struct stk_jpeg_lanes *lanes);

/* Makes parts as large as suits a batch of so many bytes, whose largest file alone takes `largest`, at most `most`; *part: the bytes that one may take.
 * Parts never become smaller. Waits for the device where lanes have to be made anew. */
STK_MUST_USE enum stk_status stk__jpeg_lanes_fit(
	struct stk_jpeg_lanes *lanes, size_t batch, size_t largest, size_t *part, struct stk_error *err);

/* The lane that is free, or the one whose work ends first. Waits where others are submitting to all of them. NULL: no memory. */
struct stk_jpeg_lane *stk__jpeg_lanes_take(struct stk_jpeg_lanes *lanes, struct stk_error *err);
/* Whatever this returns, the lane is given back. */
STK_MUST_USE enum stk_status stk__jpeg_lanes_give(struct stk_jpeg_lanes *lanes, struct stk_jpeg_lane *lane, struct stk_error *err);
/* Waits on the host until nothing is under way on any lane. */
STK_MUST_USE enum stk_status stk__jpeg_lanes_sync(struct stk_jpeg_lanes *lanes, struct stk_error *err);

#endif
