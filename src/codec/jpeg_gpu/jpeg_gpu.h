/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes batches of JPEG files in pinned memory, and runs passes on the pixels, whose outputs are in device memory. Several batches can be in flight.
 *
 * Usage (inside stk__gpu_enter):
 *     stk__jpeg_gpu_create(dev, 320 << 20, &decoder, err);              // one for all batches; the limit of device memory is in bytes
 *     stk__jpeg_gpu_batch_create(decoder, &batch, err);                 // one for each batch in flight
 *     ...
 *     for each file
 *         items[i] = (struct stk_jpeg_gpu_item){data, size, &header, window, STK_RGB, max_scans, orientation, &pass, dst};
 *         if (!stk__jpeg_gpu_need(&items[i], &items[i].need)) leave it to the CPU;
 *     stk__jpeg_gpu_submit(batch, items, n, err);                       // returns at once
 *     ...
 *     stk__jpeg_gpu_wait(batch, err);                                   // or stk__jpeg_gpu_join(batch, stream, err), before further work on a stream
 *     for each i
 *         if (stk__jpeg_gpu_verdict(batch, i)) decode it on the CPU;
 *
 * A batch is decoded in parts, whose size is limited by the memory of a decoder stream (jpeg_gpu_streams.h). All batches share the streams, so the memory
 * for decoding does not depend on the number of batches in flight.
 *
 * Whether the CPU decodes a file depends only on the file, its window and the memory; never on timing or on the other files. Unless a file is flagged, its
 * pixels equal the CPU's bit for bit. Once batches of the largest size have been decoded, nothing is allocated.
 *
 * Threads: several threads may use a decoder at the same time; a batch has one owner at a time. The pinned bytes must stay until the batch is done. */
#ifndef STK_CODEC_JPEG_GPU_H
#define STK_CODEC_JPEG_GPU_H

#include "codec/jpeg_gpu/jpeg_gpu_phases.h"
#include "codec/jpeg_gpu/jpeg_gpu_plan.h"
#include "codec/jpeg_gpu/jpeg_gpu_streams.h"
#include "kernel/pass/pass_gpu.h"

/* The sum of the needs of several files and their passes. */
struct stk_jpeg_gpu_limits {
	struct stk_jpeg_gpu_plan_limits files;
	uint32_t taps; /* number of weights of the passes' samplers, as stk__pass_gpu_need counts them */
};

/* Files that are consecutive in memory, with at most this many bytes between them, are copied in one piece. A copy must not extend over two allocations, and
 * the decoder does not know where an allocation ends. So the caller must keep files of different allocations further apart. */
enum { STK_JPEG_GPU_GAP = 4096 };

struct stk_jpeg_gpu_item {
	const uint8_t *data; /* in pinned memory */
	size_t size;
	const struct stk_jpeg_header *header;
	struct stk_rect window;   /* the pixels that the pass reads, as stored in the file (stk__orient_rect) */
	enum stk_image_type type; /* STK_RGB, STK_BGR, STK_GRAY or STK_YCBCR */
	int32_t max_scans;        /* maximum number of scans of a progressive file; 0: STK_JPEG_GPU_MAX_SCANS */
	int orientation;          /* from EXIF; applied before the pass; 0 or 1: the image stays as stored */
	/* the pass over the image's pixels; its input is the whole image, uint8 with 1 or 3 channels, although only `window` is decoded */
	const struct stk_pass *pass;
	struct stk_image dst; /* the output of the pass; `data` is a device address */
	struct stk_jpeg_gpu_limits need;
};

/* Whether the GPU has decoded an item, or why the CPU must decode it. */
enum stk_jpeg_gpu_verdict {
	STK_JPEG_GPU_OK,
	STK_JPEG_GPU_REFUSED, /* for example another kind of JPEG or colour space, huge tables, too little memory, or a pass that the
	                       * GPU does not support */
	STK_JPEG_GPU_FLAGGED, /* damaged, or its bits do not synchronise */
};

struct stk_jpeg_gpu;
struct stk_jpeg_gpu_batch;

/* Adds what an item needs to *sum. Returns false if the CPU must decode the item, however much memory there is: it is another kind of JPEG, has other
 * colours, or a pass that the GPU does not support. (Restart markers in wrong positions are found by stk__jpeg_gpu_submit.) A pure function; any thread may
 * call it. */
bool stk__jpeg_gpu_need(const struct stk_jpeg_gpu_item *item, struct stk_jpeg_gpu_limits *sum);

/* Returns how many bytes of device memory files with these needs take: about 200 per block, or 3 per byte of the files if that is more, plus 8 per tap. */
size_t stk__jpeg_gpu_bytes(const struct stk_jpeg_gpu_limits *limits);

/* Creates a decoder. most: the maximum number of bytes of device memory for all work in flight. Nothing is allocated before the first submission. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_create(
	struct stk_gpu_device *dev, size_t most, struct stk_jpeg_gpu **out, struct stk_error *err);
void stk__jpeg_gpu_destroy(struct stk_jpeg_gpu *d); /* all its batches must have been destroyed; waits for work in flight; accepts NULL */
/* Returns how many bytes of device memory the decoder uses once all its streams have allocated theirs. */
size_t stk__jpeg_gpu_memory(struct stk_jpeg_gpu *d);

STK_MUST_USE enum stk_status stk__jpeg_gpu_batch_create(struct stk_jpeg_gpu *d, struct stk_jpeg_gpu_batch **out, struct stk_error *err);
void stk__jpeg_gpu_batch_destroy(struct stk_jpeg_gpu_batch *b); /* the batch must not be in flight; accepts NULL */

/* Submits items. The batch must not be in flight, and nothing may still read its earlier outputs, since the parts wait only for their streams. STK_NO_MEMORY
 * if the device has not enough memory. After a failure some parts may be in flight; stk__jpeg_gpu_sync waits for them. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_submit(
	struct stk_jpeg_gpu_batch *b, const struct stk_jpeg_gpu_item *items, int n, struct stk_error *err);
/* Returns the decoder stream of the last part, to which further work may be submitted. Returns `none` if the batch has no part, since it has no file for the
 * GPU. */
stk_gpu_stream stk__jpeg_gpu_last_stream(const struct stk_jpeg_gpu_batch *b, stk_gpu_stream none);
/* Returns a decoder stream for work without files. Consecutive values of `turn` give the streams in rotation. */
stk_gpu_stream stk__jpeg_gpu_stream_of_turn(const struct stk_jpeg_gpu *d, int64_t turn);
/* join: work that is submitted to `stream` afterwards waits for the last submission. wait: the calling thread waits for the last submission. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_join(const struct stk_jpeg_gpu_batch *b, stk_gpu_stream stream, struct stk_error *err);
STK_MUST_USE enum stk_status stk__jpeg_gpu_wait(const struct stk_jpeg_gpu_batch *b, struct stk_error *err);
/* Makes the calling thread wait until no batch has work in flight. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_sync(struct stk_jpeg_gpu *d, struct stk_error *err);

/* Returns whether an item of the last submission was decoded, refused or flagged. Call it after the submission's work is done; REFUSED is already known when
 * stk__jpeg_gpu_submit returns. */
enum stk_jpeg_gpu_verdict stk__jpeg_gpu_verdict(const struct stk_jpeg_gpu_batch *b, int item);

/* The times of a part of the batch, for benchmarks and traces. stk__jpeg_gpu_measure turns measuring on or off from the next submission on;
 * stk__jpeg_gpu_parts returns the number of parts. Call stk__jpeg_gpu_times after the work of a measured submission is done. */
enum { STK_JPEG_GPU_TIMES = STK_JPEG_GPU_PHASES + 2 };
const char *stk__jpeg_gpu_time_name(int i); /* name of time i: "copy", the names of the phases, "pass" */
struct stk_jpeg_gpu_times {
	int stream;          /* number of the part's decoder stream, below STK_JPEG_GPU_STREAMS */
	stk_gpu_event begin; /* event with timing that is recorded before the copy */
	float milliseconds[STK_JPEG_GPU_TIMES];
};
void stk__jpeg_gpu_measure(struct stk_jpeg_gpu_batch *b, bool on);
int stk__jpeg_gpu_parts(const struct stk_jpeg_gpu_batch *b);
STK_MUST_USE enum stk_status stk__jpeg_gpu_times(
	const struct stk_jpeg_gpu_batch *b, int part, struct stk_jpeg_gpu_times *times, struct stk_error *err);

#endif
