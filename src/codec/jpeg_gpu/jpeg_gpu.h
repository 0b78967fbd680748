/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of JPEG files in pinned memory -> finished outputs of passes in device memory; several batches in flight.
 *
 * Usage (inside stk__gpu_enter):
 *     stk__jpeg_gpu_create(dev, 320 << 20, &decoder, err);              // one for all batches: at most so much device memory
 *     stk__jpeg_gpu_batch_create(decoder, &batch, err);                 // one for each batch in flight
 *     ...
 *     for each file
 *         items[i] = (struct stk_jpeg_gpu_item){data, size, &header, window, STK_RGB, orientation, &pass, dst};
 *         if (!stk__jpeg_gpu_need(&items[i], &items[i].need)) leave it to the CPU;
 *     stk__jpeg_gpu_submit(batch, items, n, err);                       // returns at once
 *     ...
 *     stk__jpeg_gpu_wait(batch, err);                                   // or _join(batch, stream, err), for what comes next on a stream
 *     for each i
 *         if (stk__jpeg_gpu_verdict(batch, i)) decode it on the CPU;
 *
 * A batch is decoded in parts, as large as the memory of a decoder stream allows (jpeg_gpu_streams.h). All batches share the streams, so the memory that
 * decoding takes does not depend on how many batches are in flight.
 *
 * Whether the CPU decodes a file depends only on the file, its window and the memory; never on timing or on the other files. The pixels
 * of a file that is not flagged equal the CPU's bit for bit. Nothing is allocated once batches of the largest size have been seen.
 * Threads: a decoder serves any; a batch has one owner at a time. The pinned bytes must stay until the batch is done. */
#ifndef STK_CODEC_JPEG_GPU_H
#define STK_CODEC_JPEG_GPU_H

#include "codec/jpeg_gpu/jpeg_gpu_phases.h"
#include "codec/jpeg_gpu/jpeg_gpu_plan.h"
#include "codec/jpeg_gpu/jpeg_gpu_streams.h"
#include "kernel/pass/pass_gpu.h"

/* Limits of files and their passes together. */
struct stk_jpeg_gpu_limits {
	struct stk_jpeg_gpu_plan_limits files;
	uint32_t taps; /* weights of the passes' samplers, as stk__pass_gpu_need counts them */
};

/* Consecutive files in memory with at most this many bytes between them are copied in one piece. A copy must not leave an allocation, and the decoder cannot
 * see where one ends, so the caller must keep files of two allocations further apart. */
enum { STK_JPEG_GPU_GAP = 4096 };

struct stk_jpeg_gpu_item {
	const uint8_t *data; /* pinned */
	size_t size;
	const struct stk_jpeg_header *header;
	struct stk_rect window;      /* as stored: the pixels that the pass reads (stk__orient_rect) */
	enum stk_image_type type;    /* STK_RGB, STK_BGR, STK_GRAY or STK_YCBCR */
	int32_t max_scans;           /* limit for a progressive file; 0: no limit */
	int orientation;             /* EXIF's, which is applied before the pass; 0 or 1: as stored */
	const struct stk_pass *pass; /* a pass over the whole image's pixels: uint8, 3 channels or 1 */
	struct stk_image dst;        /* where the pass writes; `data` is a device address */
	struct stk_jpeg_gpu_limits need;
};

/* Why the CPU has to decode an item. */
enum stk_jpeg_gpu_verdict {
	STK_JPEG_GPU_OK,
	STK_JPEG_GPU_REFUSED, /* another process or colour, huge tables, not enough memory, a pass that the GPU does not support */
	STK_JPEG_GPU_FLAGGED, /* damaged, or its bits do not synchronise */
};

struct stk_jpeg_gpu;
struct stk_jpeg_gpu_batch;

/* Adds what an item needs. Returns false if the CPU has to decode it, however much memory there is: another process or colour, or a pass that the GPU does
 * not support. (Wrong places of restart markers are found by submit.) A pure function, any thread. */
bool stk__jpeg_gpu_need(const struct stk_jpeg_gpu_item *item, struct stk_jpeg_gpu_limits *sum);

/* Returns the bytes of device memory for such files: about 200 a block, or 3 a byte of the files if that is more, and 8 a tap. */
size_t stk__jpeg_gpu_bytes(const struct stk_jpeg_gpu_limits *limits);

/* Creates a decoder. most: limit of the bytes of device memory for all work in flight. Allocates nothing before the first submission. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_create(
	struct stk_gpu_device *dev, size_t most, struct stk_jpeg_gpu **out, struct stk_error *err);
void stk__jpeg_gpu_destroy(struct stk_jpeg_gpu *d); /* call it after its batches are destroyed; waits for work in flight; accepts NULL */
size_t stk__jpeg_gpu_memory(
	struct stk_jpeg_gpu *d); /* bytes of device memory that the decoder uses once all its streams have been needed */

STK_MUST_USE enum stk_status stk__jpeg_gpu_batch_create(struct stk_jpeg_gpu *d, struct stk_jpeg_gpu_batch **out, struct stk_error *err);
void stk__jpeg_gpu_batch_destroy(struct stk_jpeg_gpu_batch *b); /* must not be in flight; accepts NULL */

/* Submits items. The batch must not be in flight, and its earlier outputs must not be read any more: parts wait only for their streams. STK_NO_MEMORY if the
 * device has none. After a failure parts may be in flight; stk__jpeg_gpu_sync waits for them. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_submit(
	struct stk_jpeg_gpu_batch *b, const struct stk_jpeg_gpu_item *items, int n, struct stk_error *err);
/* Returns the decoder stream of the last part, to which further work may be submitted; `none` if no file was taken. */
stk_gpu_stream stk__jpeg_gpu_last_stream(const struct stk_jpeg_gpu_batch *b, stk_gpu_stream none);
/* Returns a decoder stream for work without files: each turn gets the next one. */
stk_gpu_stream stk__jpeg_gpu_stream_of_turn(const struct stk_jpeg_gpu *d, int64_t turn);
/* join: work that is submitted to `stream` later waits for the last submission. wait: the calling thread waits for it. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_join(const struct stk_jpeg_gpu_batch *b, stk_gpu_stream stream, struct stk_error *err);
STK_MUST_USE enum stk_status stk__jpeg_gpu_wait(const struct stk_jpeg_gpu_batch *b, struct stk_error *err);
/* Makes the calling thread wait until no batch has work in flight. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_sync(struct stk_jpeg_gpu *d, struct stk_error *err);

/* Returns whether an item of the last submission was decoded, refused or flagged. Call it after the submission's work is done; REFUSED is already known when
 * submit returns. */
enum stk_jpeg_gpu_verdict stk__jpeg_gpu_verdict(const struct stk_jpeg_gpu_batch *b, int item);

/* For benches and traces: the times of a part of the batch. Measuring begins with the next submission. */
enum { STK_JPEG_GPU_TIMES = STK_JPEG_GPU_PHASES + 2 };
const char *stk__jpeg_gpu_time_name(int i); /* "copy", the names of the phases, "pass" */
struct stk_jpeg_gpu_times {
	int stream;          /* number of its decoder stream, below STK_JPEG_GPU_STREAMS */
	stk_gpu_event begin; /* an event with timing, recorded before the copy */
	float milliseconds[STK_JPEG_GPU_TIMES];
};
void stk__jpeg_gpu_measure(struct stk_jpeg_gpu_batch *b, bool on);
int stk__jpeg_gpu_parts(const struct stk_jpeg_gpu_batch *b);
STK_MUST_USE enum stk_status stk__jpeg_gpu_times(
	const struct stk_jpeg_gpu_batch *b, int part, struct stk_jpeg_gpu_times *times, struct stk_error *err);

#endif
