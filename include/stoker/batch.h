/* SPDX-License-Identifier: Apache-2.0
 *
 * A finished batch, whose tensors lie in memory of the pipeline. It belongs to the consumer, who may write to it and keep it, also after the pipeline is
 * destroyed. The memory of an output is reused when the last reference to the batch and the last tensor made of the output are gone. Batches that are
 * kept while the pipeline runs count against its held_limit. No two outputs share memory. */
#ifndef STOKER_BATCH_H
#define STOKER_BATCH_H

#include "stoker/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stk_batch;

/* The origin of a sample. Strings live as long as the batch. */
struct stk_sample {
	int64_t epoch, position; /* number of the epoch, and position in the epoch's global sequence */
	int64_t id;              /* index in the data set; -1 without a reader */
	const char *uri;         /* path or URI of the sample's file or object; "" if the sample has none */
	bool padded;             /* true if the sample repeats another one to fill up the batch */
	int32_t replaced;        /* number of bad samples that were drawn for this position before this one */
};

/* The samples of one output. dense: all samples have the same shape and are contiguous in `data`; desc then describes each of them. */
struct stk_tensor_list {
	int32_t count;
	const struct stk_tensor *samples;
	bool dense;
	void *data;
	struct stk_desc desc; /* describes each sample; if not dense, extents in which samples differ are -1 */
	int32_t device_id;    /* -1: host memory; otherwise the data lie on that GPU, and all writes to them have finished */
};

STK_API struct stk_batch *stk_batch_ref(struct stk_batch *batch);
/* Releases one reference and sets *batch to NULL; accepts NULL. Any thread. */
STK_API void stk_batch_unref(struct stk_batch **batch);
/* Takes a reference that keeps only the memory of one output and the samples' metadata. Only this output may be accessed through it. Release it with
 * stk_batch_unref_output and the same output. The caller must have a reference to the batch or to that output. `output` must be from 0 to stk_batch_outputs
 * - 1, which is not checked. */
STK_API struct stk_batch *stk_batch_ref_output(struct stk_batch *batch, int32_t output);
STK_API void stk_batch_unref_output(struct stk_batch **batch, int32_t output);

STK_API int32_t stk_batch_size(const struct stk_batch *batch); /* returns the number of samples */
/* Returns the number of samples that were planned. It is larger than stk_batch_size if STK_ON_ERROR_SKIP has dropped bad samples, which may be all. */
STK_API int32_t stk_batch_planned(const struct stk_batch *batch);
STK_API int32_t stk_batch_outputs(const struct stk_batch *batch);
/* Returns an output or a sample, valid as long as the batch; NULL: the index is out of range. */
STK_API const struct stk_tensor_list *stk_batch_output(const struct stk_batch *batch, int32_t output);
STK_API const struct stk_sample *stk_batch_sample(const struct stk_batch *batch, int32_t i);
/* Return the batch's epoch, its step in that epoch, and whether it is the last batch of the epoch. Steps are counted from the epoch's start, also after a
 * restore in mid-epoch. If the batch size or the number of ranks changed at the restore, the samples before it count as steps of the new size, rounded down. */
STK_API int64_t stk_batch_epoch(const struct stk_batch *batch);
STK_API int64_t stk_batch_step(const struct stk_batch *batch);
STK_API bool stk_batch_is_last(const struct stk_batch *batch);

/* Exports one sample, or with i = -1 the dense list as one tensor of shape (count, ...), as DLPack 1.0 (versioned). *out is a
 * DLManagedTensorVersioned * that holds the output's memory until its deleter is called. STK_INVALID: no such output or sample. STK_SHAPE:
 * the list is not dense; the message names two samples that differ. STK_UNSUPPORTED: the values are of an enumeration. STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_batch_dlpack(
	struct stk_batch *batch, int32_t output, int32_t i, void **out, struct stk_error *err);

/* Makes a batch with one output over tensors in the caller's host memory. The caller owns a reference to *out. release(user) is called, on any thread, when
 * the last reference to the batch and the last tensor over it are gone; if this function fails, it is not called. STK_INVALID: the samples differ in type,
 * number of dims or layout, or one has an unknown type, an impossible shape or no data. STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_batch_wrap(const struct stk_tensor *samples, int32_t count, void (*release)(void *user),
	void *user, struct stk_batch **out, struct stk_error *err);

/* Protects the consumer's work on a stream, for outputs on a GPU: work that was submitted before the batch's last reference is released
 * will end before the batch's memory is written again. The stream is a CUstream; as in DLPack, 0 and 1 are the legacy default stream and 2
 * is the thread's own. The host does not wait. Call it once for each stream that reads the batch; any thread. It has no effect on batches
 * in host memory. The stream must belong to the primary context of the batch's GPU, and must not be destroyed before the batch's last
 * reference is released. STK_LIMIT: more than 4 streams read the batch; make the others wait for one of these. */
STK_API STK_MUST_USE enum stk_status stk_batch_use_stream(struct stk_batch *batch, uint64_t stream, struct stk_error *err);
/* Like stk_batch_use_stream, for one output: for callers that have a reference only to that output. STK_INVALID: no such output. */
STK_API STK_MUST_USE enum stk_status stk_batch_use_stream_output(
	struct stk_batch *batch, int32_t output, uint64_t stream, struct stk_error *err);

/* Copies one sample, or if i is -1 the dense list, to host memory, and waits for the copy. Outputs in host memory can be copied too. size: number of bytes
 * at `to`, which may be more than are copied. STK_INVALID: no such output or sample, `size` is too small, or `to` lies in the memory of a GPU.
 * STK_SHAPE: i is -1 and the list is not dense. STK_CUDA. */
STK_API STK_MUST_USE enum stk_status stk_batch_copy(
	struct stk_batch *batch, int32_t output, int32_t i, void *to, size_t size, struct stk_error *err);

/* Copies one sample of an output, or if i is -1 all of its samples, whose shapes may differ, to a new batch in host memory that has only this output. The
 * caller owns a reference to *out, which keeps the samples' metadata but uses no slot. STK_INVALID: no such output or sample. STK_NO_MEMORY, STK_CUDA. */
STK_API STK_MUST_USE enum stk_status stk_batch_to_host(
	struct stk_batch *batch, int32_t output, int32_t i, struct stk_batch **out, struct stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
