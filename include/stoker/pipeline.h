/* SPDX-License-Identifier: Apache-2.0
 *
 * A running pipeline. Work starts with the first stk_pipeline_next (or stk_pipeline_start) and runs ahead of the consumer by `prefetch` batches. Only one
 * thread at a time may call the functions here, except stk_pipeline_cancel and stk_pipeline_counters, which any thread may call. */
#ifndef STOKER_PIPELINE_H
#define STOKER_PIPELINE_H

#include "stoker/batch.h"
#include "stoker/context.h"
#include "stoker/graph.h"
#include "stoker/storage.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stk_pipeline;

/* The policy for a sample that cannot be decoded. Errors of the source (I/O) are retried, and then raised under every policy. */
enum stk_on_error { STK_ON_ERROR_RAISE, STK_ON_ERROR_SKIP, STK_ON_ERROR_REPLACE };

/* The decoder of the JPEG files that operators on a GPU read. All settings give the same bytes. AUTO: the cores decode if they have time for all files,
 * otherwise the GPU. CORES: the cores run the decoder and the operators fused with it, and only the result is copied to the GPU. The cores also decode every
 * file that the GPU cannot decode. */
enum stk_decoding { STK_DECODE_AUTO, STK_DECODE_GPU, STK_DECODE_CORES };

#define STK_MOST_READ_REQUESTS (1 << 20)

/* A value of max_errors. */
#define STK_NO_BAD_SAMPLES (-1.0)

struct stk_pipeline_config {
	size_t size; /* sizeof(struct stk_pipeline_config) */
	int32_t batch_size;
	int32_t prefetch;  /* number of batches that are made before the consumer asks for them; 0: 2 */
	int32_t device_id; /* the GPU, by CUDA's number among the visible GPUs, that runs operators placed on a GPU; -1: all operators
	                    * run on the cores */
	uint64_t seed;     /* seed of augmentation; the order of samples has its own seed (a reader's shuffle_seed) */
	enum stk_on_error on_error;
	double max_errors;  /* below 1: fraction of an epoch; from 1 on: a count; 0: 1% of an epoch; STK_NO_BAD_SAMPLES: no sample may
	                    * be skipped or replaced */
	int64_t timeout_ms; /* the longest wait in stk_pipeline_next; 0: no limit */
	/* Maximum number of bytes that one sample may need while a worker processes it: for its file, the decoder, the values between operators and the
	 * operators' scratch memory. The need is estimated from the header or the file's size before memory is allocated; if it is too large, the sample
	 * fails with STK_LIMIT. Each thread uses at most this much for samples, and the process about 16 MiB more; not counted are batches, bytes that are
	 * read ahead, and the copy that is made of a user's array if it ends at the end of a memory page. An output larger than this is refused too. 0: 2 GiB */
	size_t memory_limit;
	/* Maximum number of bytes of GPU memory for purposes that only make the pipeline faster. Half of them are for files that the GPU decodes (the cores
	 * decode a file that needs more), and half for batches under way in addition to `prefetch`. If the pipeline keeps its data set on the GPU instead,
	 * this limits the size of the set; a larger one is uploaded batch by batch. 0: a 32nd of the free memory but at least 928 MiB, or a quarter of it if
	 * that is less. */
	size_t gpu_memory;
	enum stk_decoding decode; /* STOKER_DECODE of the environment replaces AUTO */
	/* Maximum number of reads in flight, at most STK_MOST_READ_REQUESTS. Reads in flight, and those that have ended but whose batch has not begun, are
	 * together at most twice as many. 0: 256; or 1024 for a remote source, which raises its own number of requests only as long as that brings more
	 * bytes. */
	int32_t read_requests;
	/* Limits the total size of the buffers for data that is read ahead. The size of a read that has not ended is estimated as the mean of recent
	 * objects. If the buffer of a remote object would exceed the limit, the object is read later: when there is space, or when the next batch to deliver
	 * needs it. In the latter case one sample at a time may exceed the limit; on a GPU, or if operators need whole batches, that whole batch may. 0: 32
	 * MiB, or 160 MiB for a remote source */
	size_t read_bytes;
	/* Limits the memory of batches that the consumer keeps. The first ones, about 16, lie in the pipeline's slots and do not count. The limit is in bytes,
	 * and holds separately for the host and the GPU. At the limit stk_pipeline_next returns STK_LIMIT until the consumer releases batches. 0: half of the
	 * sum of the memory that is free there and the memory that kept batches take; this is computed again as they grow. */
	size_t held_limit;
	int32_t max_batches;         /* maximum number of batches that are being made or are kept; more give STK_LIMIT. 0: no limit */
	const char *trace;           /* path of a Chrome trace to write when the pipeline ends; NULL: no trace */
	bool lenient;                /* accepts JPEG data about which libjpeg-turbo only warns (strict=False in Python) */
	bool no_fuse;                /* operators are not fused; the same as STOKER_FUSE=0 */
	struct stk_storage *storage; /* reads objects that are not local files; the pipeline takes its own reference. NULL: the context's */
	/* Called every 50 ms, on the calling thread, while stk_pipeline_create waits for a store's listing. If it returns true, stk_pipeline_create returns
	 * STK_CANCELLED. May be NULL. */
	bool (*interrupted)(void *user);
	void *interrupted_user;
	/* Called ten times per second, on the same thread and with interrupted_user, with the number of objects and folders that a store has listed so far.
	 * May be NULL. */
	void (*listed)(void *user, int64_t entries);
	/* Errors and `stoker top` give this number to the first epoch. A program that makes a pipeline for each epoch sets it to the epoch's number. Draws, batches
	 * and states count epochs from 0 in any case. */
	int64_t first_epoch;
	/* Makes no batch of an epoch before the consumer asks for the epoch's first one, so that functions of the graph see what the program changes between
	 * epochs. Files are still read ahead. No effect without a reader: the program's sources themselves decide when they return a batch. */
	bool epoch_by_epoch;
};

/* Compiles the graph and opens its readers; the graph may be destroyed afterwards. Reads STOKER_FUSE and other variables. STK_INVALID: a
 * setting, a variable of the environment or an argument of an operator has no valid value, the graph has no outputs, or batches cannot be
 * made of the data set. STK_NOT_FOUND, STK_IO, STK_CORRUPT: the data set cannot be read; STK_NOT_FOUND also if there is no CUDA driver.
 * STK_UNSUPPORTED: not possible on this device or in this build. STK_STATE: in a forked child, the context or the GPU belongs to the
 * parent. STK_CANCELLED: `interrupted` returned true. STK_LIMIT, STK_NO_MEMORY, STK_SYSTEM and STK_CUDA have their usual meanings. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_create(struct stk_context *ctx, struct stk_graph *graph,
	const struct stk_pipeline_config *config, struct stk_pipeline **out, struct stk_error *err);

/* Cancels the run, waits for all work, including running sources and functions, and frees the pipeline. Delivered batches stay valid. Accepts NULL. */
STK_API void stk_pipeline_destroy(struct stk_pipeline *p);

/* Selects the leading reader by the name of its operator: its epochs are the pipeline's epochs. The other readers advance with it, sample
 * for sample, through epochs of their own; shorter ones start over. Call it before the first batch. Without this call the graph's first
 * reader leads, or the one that led when the restored state was saved. STK_NOT_FOUND: no reader has this name. STK_STATE: another reader
 * leads, and the run has begun or was restored from a state. STK_INVALID, STK_LIMIT: batches cannot be made of this reader's data set. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_lead(struct stk_pipeline *p, const char *reader, struct stk_error *err);

/* Starts to work ahead without waiting; does nothing if the run has begun. STK_STATE: the pipeline belongs to the parent of a forked
 * process. STK_SYSTEM: a thread cannot be started. STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_start(struct stk_pipeline *p, struct stk_error *err);

/* Returns the next batch, in order; the caller owns a reference. After an epoch's last batch it once returns STK_END, unless the reader's tail is "wrap";
 * the next call begins the next epoch. STK_END is also returned when the source has ended. STK_TIMEOUT: nothing is lost, call again. STK_CANCELLED: see
 * stk_pipeline_cancel. Any other code: the batch failed under the policy (err names the sample), and the next call returns the following batch. A store that
 * does not answer in time causes STK_IO, not STK_TIMEOUT. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_next(struct stk_pipeline *p, struct stk_batch **out, struct stk_error *err);
/* Like stk_pipeline_next, with its own time limit in ms: negative for no limit, 0 to return at once. STK_TIMEOUT: no batch was ready.
 * Bindings wait in short slices so that they can handle signals in between. With `out` NULL the call only waits: STK_OK means that the next call returns
 * at once, with a batch, STK_END or the error of a batch. So a binding handles signals before it takes a batch, and a handler that raises loses none. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_next_within(
	struct stk_pipeline *p, int64_t ms, struct stk_batch **out, struct stk_error *err);

/* Describes the batch that failed in the last call of stk_pipeline_next or stk_pipeline_next_within, and whose place in the epoch that error took: its epoch,
 * the number of samples that it was to have, and whether it was the epoch's last batch. Returns false, and sets nothing, if that call did not take a failed
 * batch: it succeeded, or the next call waits for the same batch, as after STK_TIMEOUT. */
STK_API bool stk_pipeline_failed_batch(const struct stk_pipeline *p, int64_t *epoch, int32_t *planned, bool *is_last);

/* Undoes the last delivery: the position is again the one before `batch`, and the next call delivers it once more. For bindings in which an exception can
 * arise after a batch was taken and before the user has it. The pipeline keeps its own reference to the batch, whose bytes must not have been changed. Bad
 * samples of the batch remain reported. STK_STATE: it is not the batch that was delivered last, or was put back already; or see stk_pipeline_start. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_put_back(struct stk_pipeline *p, struct stk_batch *batch, struct stk_error *err);

/* Abandons the rest of the epoch: batches made ahead are dropped, and the next batch is the first of the next epoch. Does nothing if the next batch already is
 * the first of an epoch, also if it was put back. STK_STATE: called by a source of this pipeline, or in a forked child. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_skip_epoch(struct stk_pipeline *p, struct stk_error *err);

/* Makes a waiting stk_pipeline_next return STK_CANCELLED, as do all later calls. Any thread, also from a signal handler. */
STK_API void stk_pipeline_cancel(struct stk_pipeline *p);
/* Cancels the run and waits, at most `ms` milliseconds (negative for no limit), until no source and no function is being called. For bindings that check for
 * signals before they destroy the pipeline; after this call the pipeline may only be destroyed. STK_TIMEOUT: a call has not returned; try again. Returns
 * STK_OK at once when called from inside such a function. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_end_within(struct stk_pipeline *p, int64_t ms, struct stk_error *err);
/* Destroys the pipeline on another thread and waits for that thread, at most `ms` milliseconds (negative for no limit). STK_TIMEOUT: a source, a user's
 * function or a read has not returned; the thread continues to wait, and frees the pipeline when it can. In either case the caller must not use the pipeline
 * any more. Accepts NULL. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_destroy_within(struct stk_pipeline *p, int64_t ms, struct stk_error *err);

/* ---- description ---- */

/* A reader's metadata, as in DALI's reader_meta. `name` is the operator's name in the graph; NULL: the leading reader. */
struct stk_reader_meta {
	/* Counts of samples and steps are -1 while they are not known: in the first epoch over tars in a store that have no index. */
	int64_t samples; /* in the whole data set, even if `indices` selects only some of them */
	/* Numbers of samples of an epoch, all shards together. epoch_size_padded: the number if each shard is as long as the longest, as with pad_last_batch. */
	int64_t epoch_size, epoch_size_padded;
	int32_t shards, shard_id;
	int64_t steps;                              /* number of batches that this rank gets in the current epoch */
	bool pad_last_batch, stick_to_shard, wraps; /* wraps: STK_END is never returned */
	bool contiguous;                            /* shards are made as in DALI: each rank has one contiguous part of the data set */
	bool keeps;                                 /* tail="keep": an epoch's last batches may be short, or contain one repeated sample */
	int64_t classes;                            /* number of classes; 0: unknown */
	uint64_t fingerprint;                       /* a hash by which a saved state recognises its data set */
};
STK_API STK_MUST_USE enum stk_status stk_pipeline_reader_meta(
	struct stk_pipeline *p, const char *name, struct stk_reader_meta *out, struct stk_error *err);
STK_API int32_t stk_pipeline_readers(const struct stk_pipeline *p); /* returns the number of readers; reader 0 leads */
STK_API const char *stk_pipeline_reader_name(const struct stk_pipeline *p, int32_t i);
/* Returns the name of the class `label` that a reader of folders has found. It is valid as long as the pipeline. NULL: there is no such reader or class. */
STK_API const char *stk_pipeline_class_name(struct stk_pipeline *p, const char *reader, int64_t label);
/* Returns the number of files and folders that a reader did not use as samples. *text lists them and is valid as long as the pipeline. */
STK_API int64_t stk_pipeline_reader_skipped(struct stk_pipeline *p, const char *reader, const char **text);
STK_API int32_t stk_pipeline_outputs(const struct stk_pipeline *p);
/* Describes an output as far as it is known before any data is read, like stk_graph_describe. STK_INVALID: there is no such output. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_output_desc(const struct stk_pipeline *p, int32_t output, struct stk_desc *out);

/* Describes the chains, passes and slots that this pipeline runs, as JSON or text. Free *out with stk_text_free. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_explain(struct stk_pipeline *p, bool json, char **out, struct stk_error *err);

/* ---- state ---- */

/* Writes the state of the run as less than 1 KB of JSON: format and order version, seeds, epoch, consumed positions (delivered, not
 * prefetched), and a fingerprint of the data and of parts of it. Free *out with stk_text_free. After the last batch of an epoch, the state
 * denotes the start of the next epoch. A source that can only be called in order (STK_SEEK_NONE, STK_SEEK_NEVER) reports the end of its
 * epoch when it is asked for one more batch, which the pipeline does ahead of time; this function waits at most a second for the answer. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_save(struct stk_pipeline *p, char **out, struct stk_error *err);
/* Continues from a saved state. Call it before the first batch. The number of ranks may differ. STK_STATE: the state is damaged or of
 * another version, the data set differs (the message says how), or a user's source cannot begin there (enum stk_seek). Nothing is read,
 * decoded or called for earlier samples. */
STK_API STK_MUST_USE enum stk_status stk_pipeline_restore(struct stk_pipeline *p, const char *state, size_t size, struct stk_error *err);

/* ---- bad samples, counters and spans ---- */

enum { STK_BAD_SAMPLES_KEPT = 10000 };
/* stk_pipeline_bad_samples returns the number of bad samples of delivered batches. The errors of the last STK_BAD_SAMPLES_KEPT are kept:
 * stk_pipeline_bad_sample copies the error of number i, in the order of their delivery, and returns false if it is not kept, or if i is out of range. */
STK_API int64_t stk_pipeline_bad_samples(struct stk_pipeline *p);
STK_API bool stk_pipeline_bad_sample(struct stk_pipeline *p, int64_t i, struct stk_error *out);

/* Copies the counters since the start, by name: "reads_started", "decodes", "user_calls", "scratch_bytes", "slots", "held_bytes" (of batches kept outside of
 * the slots), "allocations" and others. Fills at most n entries and returns the number of counters. Names are constant. Times are in ns: "wait_ns" is the
 * time that the consumer waited in stk_pipeline_next, "late_ns" the part of it that began while the cores still worked on the batch, "busy_ns" the work of
 * all workers together, "source_ns" the time in user sources. "core_decodes" is the number of files that the cores decoded because they had time (enum
 * stk_decoding), in "core_decode_ns". The counters of a storage that has received requests follow (stk_storage_counters). */
STK_API size_t stk_pipeline_counters(struct stk_pipeline *p, struct stk_counter *out, size_t n);

/* A span of the trace: some work of one thread. Spans are recorded if config.trace is set ("": without a file). */
struct stk_span {
	const char *
		name; /* "read", "read ahead", "chain", "batch", "callback", "wait", "submit" (to the GPU), "gpu" (from submission to the GPU's end); for work
			     of the GPU itself "upload", "passes", "arrays", "moves", and for the decoding of files "copy", "count" .. "color", "pass" */
	int32_t stage; /* "chain": number of the chain in its level; "batch": number of the operator; otherwise of no meaning */
	int32_t thread;
	int64_t batch;        /* number of the batch since the start of the run */
	int32_t first, count; /* the span's samples: `count` of them, from number `first` of the batch on */
	int64_t begin_ns, end_ns;
};
/* Copies at most n spans to `out`, thread by thread, the oldest of each thread first. A thread keeps a limited number of spans, so the oldest ones may be lost.
 * Returns the number of spans that it copied; if `out` is NULL or n is 0, the number that there are. */
STK_API size_t stk_pipeline_spans(struct stk_pipeline *p, struct stk_span *out, size_t n);

#ifdef __cplusplus
}
#endif
#endif
