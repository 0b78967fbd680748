/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of JPEG files in pinned memory -> windows, or finished outputs of passes, in device memory; several batches in flight.
 *
 * Usage (inside stk__gpu_enter):
 *     struct stk_cuda_jpeg_limits limits = {.slots = 8, .batch = {.images = 256, .bytes = 48 << 20, .blocks = 2 << 20}};
 *     stk__cuda_jpeg_create(dev, &limits, &decoder, err);
 *     ...
 *     slot = stk__cuda_jpeg_acquire(decoder);                    // -1: all are in flight
 *     for each file
 *         items[i] = (struct stk_cuda_jpeg_item){data, size, &header, window, STK_RGB, orientation, &pass, dst};
 *         if (!stk__cuda_jpeg_need(&items[i], &needed)) leave it to the cores;
 *     stk__cuda_jpeg_reserve(decoder, slot, &needed, err);       // nothing, once warm
 *     stk__cuda_jpeg_submit(decoder, slot, stream, items, n, err);       // returns at once
 *     stk__gpu_stream_wait(dev, consumer, stk__cuda_jpeg_done(decoder, slot), err);     // or stk__gpu_event_sync, _query
 *     ...                                                        // once done:
 *     for each i
 *         if (stk__cuda_jpeg_verdict(decoder, slot, i)) decode it on the cores;
 *     stk__cuda_jpeg_release(decoder, slot);
 *
 * Which files go to the cores depends on each file and its window alone, and on the limits; never on timing or on the other files, but for a batch
 * that is over its limits. What comes out right is bit for bit what the cores would make. Nothing allocates but create and reserve.
 * Owner: one thread at a time. The pinned bytes must stay until the slot's batch is done. */
#ifndef STK_CODEC_CUDA_JPEG_H
#define STK_CODEC_CUDA_JPEG_H

#include "codec/cuda_jpeg_phases.h"
#include "codec/jpegpar_plan.h"
#include "kernel/pass_gpu.h"

struct stk_cuda_jpeg_limits {
	int slots; /* batches in flight */
	/* of each of them */
	struct stk_jpegpar_limits batch;
	uint32_t taps; /* of their passes, as stk__pass_gpu_need counts them; 0: as many as crops to usual sizes take */
};

struct stk_cuda_jpeg_item {
	const uint8_t *data; /* pinned */
	size_t size;
	const struct stk_jpeg_header *header;
	struct stk_rect window;      /* as stored: what the pass reads (stk__orient_rect), or what is wanted */
	enum stk_image_type type;    /* STK_RGB, STK_BGR, STK_GRAY or STK_YCBCR */
	int orientation;             /* EXIF's, by which the pass sees the image turned; 0 or 1: as stored */
	const struct stk_pass *pass; /* of the whole image's pixels, uint8, 3 channels or 1; NULL: the window itself is the result */
	struct stk_image dst;        /* data in device memory; the pass's output */
};

/* Why an item is for the cores. */
enum stk_cuda_jpeg_verdict {
	STK_CUDA_JPEG_OK,
	STK_CUDA_JPEG_REFUSED, /* another process or colour, huge tables, over the limits, a pass that the GPU has not */
	STK_CUDA_JPEG_FLAGGED, /* damaged, or its bits do not synchronise */
};

struct stk_cuda_jpeg;

/* Adds what an item takes to the limits of its batch. False: it is for the cores, whatever the limits are: another process or colour, a pass that the
 * GPU has not. (Huge tables, and restart markers that are not where they should be, are found out by submit.) A pure function, any thread. */
bool stk__cuda_jpeg_need(const struct stk_cuda_jpeg_item *item, struct stk_cuda_jpeg_limits *sum);

/* Bytes of device memory of a slot with these limits: about 200 a block, 2 a byte and 8 a tap. */
size_t stk__cuda_jpeg_bytes(const struct stk_cuda_jpeg_limits *limits);

/* Memory for all slots. STK_NO_MEMORY where the device has less. */
STK_MUST_USE enum stk_status stk__cuda_jpeg_create(
	struct stk_gpu_device *dev, const struct stk_cuda_jpeg_limits *limits, struct stk_cuda_jpeg **out, struct stk_error *err);
void stk__cuda_jpeg_destroy(struct stk_cuda_jpeg *d); /* waits for what is in flight */

int stk__cuda_jpeg_acquire(struct stk_cuda_jpeg *d);
void stk__cuda_jpeg_release(struct stk_cuda_jpeg *d, int slot);

/* True where a batch of these limits has room in the slot. */
bool stk__cuda_jpeg_holds(const struct stk_cuda_jpeg *d, int slot, const struct stk_cuda_jpeg_limits *limits);

/* Makes room in a slot, acquired and not in flight, for a batch of at least these limits (`slots` is not looked at). Allocates, and waits for the
 * device, where it has less; then its memory is another's. On failure nothing fits the slot until a reserve succeeds. */
STK_MUST_USE enum stk_status stk__cuda_jpeg_reserve(
	struct stk_cuda_jpeg *d, int slot, const struct stk_cuda_jpeg_limits *limits, struct stk_error *err);

/* Everything runs on `stream`. n up to the slot's images. Files that lie behind each other in memory, with little between them, travel in one copy. On
 * failure the slot is still the caller's. */
STK_MUST_USE enum stk_status stk__cuda_jpeg_submit(
	struct stk_cuda_jpeg *d, int slot, stk_gpu_stream stream, const struct stk_cuda_jpeg_item *items, int n, struct stk_error *err);

/* Recorded behind the batch's last kernel. */
stk_gpu_event stk__cuda_jpeg_done(const struct stk_cuda_jpeg *d, int slot);

/* Once done. REFUSED is known as soon as submit returns. */
enum stk_cuda_jpeg_verdict stk__cuda_jpeg_verdict(const struct stk_cuda_jpeg *d, int slot, int item);

/* The pixels of an item's window: device address, bytes a row; until the slot is released. For items that were not refused. */
stk_gpu_ptr stk__cuda_jpeg_window(const struct stk_cuda_jpeg *d, int slot, int item, uint32_t *pitch);

/* Bytes of device memory held. */
size_t stk__cuda_jpeg_memory(const struct stk_cuda_jpeg *d);

/* For benches: the time of each phase in the slot's last batch, in milliseconds; the copy comes first, the pass last. All 0 unless the decoder was
 * told to measure. */
void stk__cuda_jpeg_measure(struct stk_cuda_jpeg *d, bool on);
enum { STK_CUDA_JPEG_TIMES = STK_CUDA_JPEG_PHASES + 2 };
STK_MUST_USE enum stk_status stk__cuda_jpeg_times(
	struct stk_cuda_jpeg *d, int slot, float times[STK_CUDA_JPEG_TIMES], struct stk_error *err);

#endif
