/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of JPEG files in pinned memory -> finished outputs of passes in device memory; several batches in flight.
 *
 * Usage (inside stk__gpu_enter):
 *     stk__cuda_jpeg_create(dev, 320 << 20, &decoder, err);              // one for all batches: at most so much device memory
 *     stk__cuda_jpeg_batch_create(decoder, &batch, err);                 // one for each batch in flight
 *     ...
 *     for each file
 *         items[i] = (struct stk_cuda_jpeg_item){data, size, &header, window, STK_RGB, orientation, &pass, dst};
 *         if (!stk__cuda_jpeg_need(&items[i], &items[i].need)) leave it to the cores;
 *     stk__cuda_jpeg_submit(batch, items, n, err);                       // returns at once
 *     ...
 *     stk__cuda_jpeg_wait(batch, err);                                   // or _join(batch, stream, err), for what comes next on a stream
 *     for each i
 *         if (stk__cuda_jpeg_verdict(batch, i)) decode it on the cores;
 *
 * A batch is decoded in parts, as large as a lane's memory (cuda_jpeg_lanes.h) allows; lanes are shared by all batches, so the memory that decoding takes
 * does not depend on how many are in flight.
 *
 * Which files go to the cores depends on each file and its window alone, and on the memory; never on timing or on the other files. What comes out
 * right is bit for bit what the cores would make. Nothing is allocated once batches of the largest size have been seen.
 * Threads: a decoder serves any; a batch has one owner at a time. The pinned bytes must stay until the batch is done. */
#ifndef STK_CODEC_CUDA_JPEG_H
#define STK_CODEC_CUDA_JPEG_H

#include "codec/jpeg_gpu/jpeg_gpu_phases.h"
#include "codec/jpeg_gpu/jpeg_gpu_plan.h"
#include "codec/jpeg_gpu/jpeg_gpu_streams.h"
#include "kernel/pass/pass_gpu.h"

/* What files and their passes take together. */
struct stk_cuda_jpeg_limits {
	struct stk_jpegpar_limits files;
	uint32_t taps; /* as stk__pass_gpu_need counts them */
};

/* Files that follow each other in memory with at most so many bytes between them travel in one copy. A copy must not leave an allocation, so files in two
 * of them lie further apart than that: the caller sees to it, for neither of us can ask where one ends, and the next often begins there. */
enum { STK_CUDA_JPEG_GAP = 4096 };

struct stk_cuda_jpeg_item {
	const uint8_t *data; /* pinned */
	size_t size;
	const struct stk_jpeg_header *header;
	struct stk_rect window;      /* as stored: what the pass reads (stk__orient_rect) */
	enum stk_image_type type;    /* STK_RGB, STK_BGR, STK_GRAY or STK_YCBCR */
	int orientation;             /* EXIF's, by which the pass sees the image turned; 0 or 1: as stored */
	const struct stk_pass *pass; /* of the whole image's pixels, uint8, 3 channels or 1 */
	struct stk_image dst;        /* data in device memory; the pass's output */
	struct stk_cuda_jpeg_limits need;
};

/* Why an item is for the cores. */
enum stk_cuda_jpeg_verdict {
	STK_CUDA_JPEG_OK,
	STK_CUDA_JPEG_REFUSED, /* another process or colour, huge tables, no memory for it, a pass that the GPU has not */
	STK_CUDA_JPEG_FLAGGED, /* damaged, or its bits do not synchronise */
};

struct stk_cuda_jpeg;
struct stk_cuda_jpeg_batch;

/* Adds what an item takes. False: it is for the cores, whatever the memory is: another process or colour, a pass that the GPU has not. (Huge tables,
 * and restart markers that are not where they should be, are found out by submit.) A pure function, any thread. */
bool stk__cuda_jpeg_need(const struct stk_cuda_jpeg_item *item, struct stk_cuda_jpeg_limits *sum);

/* Bytes of device memory that such files take: about 200 a block, or 3 a byte of the files where that is more, and 8 a tap. */
size_t stk__cuda_jpeg_bytes(const struct stk_cuda_jpeg_limits *limits);

/* most: bytes of device memory for all that is in flight. Takes none before files come. */
STK_MUST_USE enum stk_status stk__cuda_jpeg_create(
	struct stk_gpu_device *dev, size_t most, struct stk_cuda_jpeg **out, struct stk_error *err);
void stk__cuda_jpeg_destroy(struct stk_cuda_jpeg *d);  /* after its batches; waits for what is in flight; NULL is fine */
size_t stk__cuda_jpeg_memory(struct stk_cuda_jpeg *d); /* bytes of device memory that it takes, once all lanes were needed */

STK_MUST_USE enum stk_status stk__cuda_jpeg_batch_create(struct stk_cuda_jpeg *d, struct stk_cuda_jpeg_batch **out, struct stk_error *err);
void stk__cuda_jpeg_batch_destroy(struct stk_cuda_jpeg_batch *b); /* not in flight; NULL is fine */

/* The batch is not in flight, and nobody reads its outputs: parts wait for nothing but their lanes. STK_NO_MEMORY where the device has none. After a
 * failure parts may be under way, for which stk__cuda_jpeg_sync waits. */
STK_MUST_USE enum stk_status stk__cuda_jpeg_submit(
	struct stk_cuda_jpeg_batch *b, const struct stk_cuda_jpeg_item *items, int n, struct stk_error *err);
/* What comes on `stream` later waits for the last submission; waits for it on the host. */
STK_MUST_USE enum stk_status stk__cuda_jpeg_join(const struct stk_cuda_jpeg_batch *b, stk_gpu_stream stream, struct stk_error *err);
STK_MUST_USE enum stk_status stk__cuda_jpeg_wait(const struct stk_cuda_jpeg_batch *b, struct stk_error *err);
/* Waits on the host until none of any batch is under way. */
STK_MUST_USE enum stk_status stk__cuda_jpeg_sync(struct stk_cuda_jpeg *d, struct stk_error *err);

/* Of the last submission, once done. REFUSED is known as soon as submit returns. */
enum stk_cuda_jpeg_verdict stk__cuda_jpeg_verdict(const struct stk_cuda_jpeg_batch *b, int item);

/* For benches and traces: what a part of the batch did, and when. Batches measure from the submission on that follows. */
enum { STK_CUDA_JPEG_TIMES = STK_CUDA_JPEG_PHASES + 2 };
const char *stk__cuda_jpeg_time_name(int i); /* "copy", those of the phases, "pass" */
struct stk_cuda_jpeg_times {
	int lane;            /* that it ran on, below STK_CUDA_JPEG_LANES */
	stk_gpu_event begin; /* recorded before the copy; with timing */
	float milliseconds[STK_CUDA_JPEG_TIMES];
};
void stk__cuda_jpeg_measure(struct stk_cuda_jpeg_batch *b, bool on);
int stk__cuda_jpeg_parts(const struct stk_cuda_jpeg_batch *b);
STK_MUST_USE enum stk_status stk__cuda_jpeg_times(
	const struct stk_cuda_jpeg_batch *b, int part, struct stk_cuda_jpeg_times *times, struct stk_error *err);

#endif
