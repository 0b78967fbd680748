/* SPDX-License-Identifier: Apache-2.0
 *
 * A finished batch: tensors over memory of the pipeline's. It belongs to the consumer, who may write to it and keep it, also after the pipeline is gone;
 * the memory of an output is used again when the last reference to the batch and the last tensor over the output die. What is kept while the
 * pipeline goes on counts against its held_limit. Outputs never alias each other. */
#ifndef STOKER_BATCH_H
#define STOKER_BATCH_H

#include "stoker/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stk_batch;

/* Where a sample of a batch came from. Strings live as long as the batch. */
struct stk_sample {
	int64_t epoch, position; /* in the epoch's global sequence */
	int64_t id;              /* index in the data set; -1 without a reader */
	const char *uri;         /* file or object; "" without */
	bool padded;             /* repeats a sample to fill the batch */
	int32_t replaced;        /* attempts it took to replace a bad sample; 0: the sample itself */
};

/* Samples of one output. dense: all shapes are equal and the samples lie behind each other in `data`: desc is then of a sample. */
struct stk_tensor_list {
	int32_t count;
	const struct stk_tensor *samples;
	bool dense;
	void *data;
	struct stk_desc desc; /* dense: of each sample; else dtype, layout and ndim with extents of -1 where samples differ */
	int32_t device_id;    /* -1: host memory; else data and samples' data are addresses on that GPU, and what made them has finished */
};

STK_API struct stk_batch *stk_batch_ref(struct stk_batch *batch);
/* Gives up one reference and clears *batch; takes NULL. Any thread. */
STK_API void stk_batch_unref(struct stk_batch **batch);
/* A reference that holds the memory of one output, and what is known of the samples: other outputs must not be asked for through it. Given up with the same
 * output. The caller holds the batch or that output. */
STK_API struct stk_batch *stk_batch_ref_output(struct stk_batch *batch, int32_t output);
STK_API void stk_batch_unref_output(struct stk_batch **batch, int32_t output);

STK_API int32_t stk_batch_size(const struct stk_batch *batch); /* samples */
STK_API int32_t stk_batch_outputs(const struct stk_batch *batch);
STK_API const struct stk_tensor_list *stk_batch_output(const struct stk_batch *batch, int32_t output); /* borrowed */
STK_API const struct stk_sample *stk_batch_sample(const struct stk_batch *batch, int32_t i);           /* borrowed */
/* Epoch and step of the batch in it; last: the epoch's last. */
STK_API int64_t stk_batch_epoch(const struct stk_batch *batch);
STK_API int64_t stk_batch_step(const struct stk_batch *batch);
STK_API bool stk_batch_is_last(const struct stk_batch *batch);

/* DLPack (versioned, 1.0): one sample, or with i = -1 the dense list as one tensor of shape (count, ...). The result is a
 * DLManagedTensorVersioned * that holds the output's memory until its deleter is called. STK_SHAPE: not dense; the message names two samples that differ. */
STK_API STK_MUST_USE enum stk_status stk_batch_dlpack(
	struct stk_batch *batch, int32_t output, int32_t i, void **out, struct stk_error *err);

/* Tensors in host memory of the caller's as a batch of its own, with one output: *out, of which the caller owns a reference. release(user) is called, on any
 * thread, when its last reference and the last tensor over it have died; where this fails it is not. The samples have one type and number of dims. */
STK_API STK_MUST_USE enum stk_status stk_batch_wrap(const struct stk_tensor *samples, int32_t count, void (*release)(void *user),
	void *user, struct stk_batch **out, struct stk_error *err);

/* Batches with outputs on a GPU: the consumer's work on this stream (a CUstream; 0 and 1 the legacy default stream, 2 the thread's own, as DLPack
 * numbers them) that was submitted before the batch's last reference dies has ended before the batch's memory is written again. Nothing waits on the
 * host. To be called once for each stream that reads the batch; any thread. Batches in host memory ignore it. */
STK_API STK_MUST_USE enum stk_status stk_batch_use_stream(struct stk_batch *batch, uint64_t stream, struct stk_error *err);
/* The same for one output, which the caller may hold alone. */
STK_API STK_MUST_USE enum stk_status stk_batch_use_stream_output(
	struct stk_batch *batch, int32_t output, uint64_t stream, struct stk_error *err);

/* Copies one sample, or with i = -1 the dense list, to host memory of `size` bytes, and waits for it. Outputs in host memory too. */
STK_API STK_MUST_USE enum stk_status stk_batch_copy(
	struct stk_batch *batch, int32_t output, int32_t i, void *to, size_t size, struct stk_error *err);

/* The same as a batch of its own with this one output: *out, of which the caller owns a reference, knows its samples as the first one does and
 * holds no slot. With i = -1 lists of unequal shapes are copied too. */
STK_API STK_MUST_USE enum stk_status stk_batch_to_host(
	struct stk_batch *batch, int32_t output, int32_t i, struct stk_batch **out, struct stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
