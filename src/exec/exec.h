/* SPDX-License-Identifier: Apache-2.0
 *
 * The structures of a running pipeline.
 *
 *   record   a batch in flight: its samples, their progress and its slot. Records form a ring, by batch number; reads may begin before a record has a slot.
 *   sample   its origin, its bytes, and the number of unfinished chains of the level
 *   unit     the work that a worker takes at once: samples of one chain of one record, about 100 us by measured cost; or one
 *            node's gather; or the submission of a level's jobs to the GPU
 *
 * Each pipeline has one lock, which guards records and the queues of ready work. It is held only for bookkeeping, never during reads, decoding, or calls of
 * operators and of users' functions.
 *
 *   pipeline.c  creates and destroys pipelines                      open.c      opens batches: limits their number, and takes slots
 *   schedule.c  picks the next unit, and finishes it                inflight.c  changes states of batches, and queues their ready items
 *   chain.h     runs one sample through one chain                   engine.c    begins and ends levels, handles failed samples and events
 *   device.h    runs steps on the GPU                               frames.c    describes image tensors as images
 *   fetch.h     reads bytes, at once or ahead of need               feed.c      calls users' sources, on the callback thread
 *   orders.c    makes the readers' orders                           survey.c    handles samples that become known while they are read
 *   deliver.c   hands batches to the consumer                       batch.c     implements the consumer's batch
 *   failures.c  composes errors of bad samples, and lists them      held_batches.c  reports batches that the consumer keeps
 *   state.c     saves and restores the position                     changes.c   finds changes of the files since a state was saved
 *   report.c    reports counters, spans and the explanation         resident.h  serves a data set that lies decoded in memory */
#ifndef STK_EXEC_EXEC_H
#define STK_EXEC_EXEC_H

#include "base/cancel.h"
#include "base/text.h"
#include "exec/context.h"
#include "exec/frames.h"
#include "graph/program.h"
#include "stoker/pipeline.h"
#include "tensor/slot.h"
#include "trace/trace.h"

#include <assert.h>
#include <errno.h>

struct stk_chain_run;
struct stk_fetch;
struct stk_feed_stage;
struct stk_opening;
struct stk_delivery;
struct stk_bad_list;
struct stk_digests;
struct stk_read;

struct stk_sample_state {
	struct stk_place place; /* the sample's epoch, position and id, or those of its replacement */
	int32_t attempt;        /* number of the replacement; 0: the sample itself */
	int32_t chains_left;    /* unfinished chains of the current level */
	int32_t failed_by; /* index of the first chain that failed, whose error counts; later chains skip the sample; -1: none failed */
	bool dropped;      /* the sample is not in the batch that is delivered */
	bool on_cores;     /* true if the GPU refused to decode the sample, so that the cores decode it */
	bool present;      /* true if the sample was not dropped before the level began; for gathers, during which samples may be dropped */
	uint64_t waiting;  /* bit mask of the level's chains that wait for bytes */
	struct stk_read *reads;           /* one for each reader that fetches bytes (fetch.h) */
	struct stk_error *error;          /* why the sample failed; NULL: it has not failed */
	const struct stk_fed_sample *fed; /* URI or failure that the user's source reported, valid until stk__record_return; or NULL */
	struct stk_record *record;
};

/* A bad sample of a batch that has not been delivered yet. */
struct stk_bad {
	struct stk_bad *next;
	int32_t index;
	struct stk_error error;
};

struct stk_device_stage;
struct stk_device_batch;
struct stk_resident;

/* States of a batch in flight. stk__record_enter makes each transition, and asserts that the table has it.
 *
 *   FREE      -> PLANNED    no read of the record's previous batch is under way, and it is known whether the batch exists
 *   PLANNED   -> OPEN       it has a slot, or there is no memory for one, so that it ends with an error
 *   OPEN      -> ON_GPU     all chains of its level have run
 *   ON_GPU    -> OPEN       samples run again, or the next level begins
 *   OPEN      -> ENDING     its last level has ended, or it has failed
 *   ENDING    -> FINISHED   the consumer's object has been made, or the batch has failed
 *   FINISHED  -> DELIVERED  the consumer takes it, as the next batch in order
 *   DELIVERED -> FREE       its resources were released; any state may go to FREE when the run is abandoned
 *
 * The outcome is not a state: `result` holds it, from ENDING on. */
enum stk_batch_state {
	STK_BATCH_FREE,      /* the record is not in use */
	STK_BATCH_PLANNED,   /* the batch's samples are known, and their bytes may be requested; the batch has no slot */
	STK_BATCH_OPEN,      /* chains, gathers and users' sources of the current level are ready, run, or wait for bytes */
	STK_BATCH_ON_GPU,    /* jobs wait until the slot is unused or a worker is free, or are submitted; `unfinished` is 0 */
	STK_BATCH_ENDING,    /* the samples' bytes were released; the batch belongs to the thread that makes the consumer's object */
	STK_BATCH_FINISHED,  /* the batch waits to be delivered */
	STK_BATCH_DELIVERED, /* belongs to the consumer's thread, which releases its resources */
};

/* Ring buffer of the numbers of a batch's ready items (stk__ready_room). */
struct stk_ready {
	int32_t *items;
	int32_t head, count;
};

/* The samples that take the branch of a node that gathers. rank[i]: index of sample i among them. rank is NULL for nodes outside of branches. */
struct stk_gather_readers {
	int32_t *rank;
	int32_t count;
};

/* The outcome of a batch; valid from ENDING on. */
struct stk_result {
	enum stk_result_kind {
		STK_RESULT_BATCH,
		STK_RESULT_END,    /* there is no batch, since the sources have no more samples in this epoch */
		STK_RESULT_MISFIT, /* the outputs of the batch's samples do not fit together; reported only if max_errors is not exceeded */
		STK_RESULT_ERROR,  /* the batch fails, even if on_error allows bad samples */
	} kind;
	struct stk_error error; /* set for MISFIT and ERROR; stored here since allocating it could fail */
	int64_t rank;           /* of several errors the one with the lowest rank is reported. In ascending order: sources and the GPU,
	                         * nodes that gather, samples, the submission to the GPU */
};

struct stk_record {
	struct stk_pipeline *pipeline;
	int64_t k;
	enum stk_batch_state state;
	struct stk_record *next_ending; /* links the list stk_flight.ending */
	struct stk_order_step at;
	int32_t placed; /* number of samples whose places were computed, which is all or none (stk_batch_maker.places) */
	int32_t count, level,
		unfinished; /* count: number of samples; level: the current level; unfinished: number of samples and gathers that have
			     * not finished the level, plus 1 until all users' sources have returned */
	struct stk_ready ready;
	struct stk_slot *slot;
	struct stk_batch *batch;         /* the batch to deliver, whose data is in the slot; made by the thread that ends the record */
	struct stk_device_batch *device; /* set as long as the record has work for the GPU */
	struct stk_sample_state *samples;
	int32_t reading;               /* number of requests under way for the samples; while it is above 0 the record is not reused */
	struct stk_gathered *gathered; /* one for each node that gathers, indexed by stk_program_node.gathers */
	struct stk_gather_readers *gather_readers; /* indexed like `gathered` */
	struct stk_bad *bads;                      /* the bad samples in the order of the batch, including samples that were replaced */
	int32_t n_bad;
	struct stk_result result;
};

enum { STK_MAX_UNIT = 64, STK_MAX_URI = 4096, STK_MAX_ATTEMPTS = 10, STK_STATE_RUNS = 32, STK_STATE_RUN_DIGITS = 8 * STK_STATE_RUNS };

struct stk_unit {
	struct stk_record *record;
	int64_t record_k;
	int32_t level, chain; /* chain -1: `node` gathers; -2: submits the level's jobs to the GPU */
	int32_t node, count;
	int32_t samples[STK_MAX_UNIT];
	bool failed[STK_MAX_UNIT]; /* [i]: another chain of samples[i] has failed, so this unit skips the sample */
};

/* A worker's memory and tools for one pipeline. */
struct stk_exec_worker {
	struct stk_arena arena;
	struct stk_tools tools;
	struct stk_tensor *values; /* tensors of the current sample, indexed by program value */
	struct stk_call *calls;    /* memory for the calls of one group */
	struct stk_error error;
	struct stk_device_batch *reading; /* the batch to whose pinned memory `file_buffer` points */
	int64_t reading_use;  /* current.use of that batch when `file_buffer` was taken; if it has changed, `file_buffer` is not valid */
	uint8_t *file_buffer; /* address in the worker's piece of pinned memory to which the next file is read */
	size_t file_buffer_left;
	struct stk_error file_buffer_error; /* why there is no pinned memory for the present file */
	struct {
		const struct stk_device_batch *batch; /* `at` points into this batch's memory for jobs */
		int64_t use; /* current.use of that batch when `at` was taken; if it has changed, `at` is not valid */
		uint8_t *at;
		size_t left;
	} jobs;
	_Atomic size_t scratch_peak; /* largest number of bytes of `arena` in use so far; other threads read it for reports */
};

/* Names of the pipeline's counters. Many threads add to each counter, and stk_pipeline_counters reports it under this name. */
/* clang-format off */
#define STK_COUNTERS(X) \
	X(reads_started) X(reads_inline) X(reads_submitted) X(bytes_read) X(decodes) X(samples) X(units) X(user_calls) \
	X(gpu_decodes) X(gpu_refused) X(core_decodes) X(core_decode_ns) X(core_decode_cpu_ns) X(progressive) X(progressive_bytes) \
	X(resident_batches) X(batches_opened) X(batches_delivered) X(bad_samples) X(replaced) X(retries) X(wait_ns) X(late_ns) X(passes) \
	X(busy_ns) X(source_ns) X(branch_skips) X(narrowed_images) X(on_cores) X(images_in_passes) \
	X(video_frames) X(video_packets) X(video_frames_on_gpu)
/* clang-format on */

/* Rows of a trace, which follow the rows of the workers. */
enum stk_trace_row { STK_ROW_SOURCES, STK_ROW_CONSUMER, STK_ROW_GPU, STK_ROW_STORAGE, STK_ROW_STEPS, STK_ROW_DECODER_STREAMS };

struct stk_exec_counters {
#define STK_COUNTER_FIELD(name) _Atomic int64_t name;
	STK_COUNTERS(STK_COUNTER_FIELD)
#undef STK_COUNTER_FIELD
};

/* Batches in flight. */
struct stk_flight {
	struct stk_record *records; /* batch k uses records[k % n] */
	int32_t n;
	struct stk_record *ending; /* first of the batches in state ENDING that no thread has taken yet, which are linked by next_ending */
	int64_t next_create, next_open, next_deliver;
	int64_t begun;             /* epoch of the batch that was opened last; -1: none since the run began or was abandoned */
	bool asked;                /* whether the consumer waits for batch next_deliver; only with config.epoch_by_epoch */
	int32_t depth, most_depth; /* number of batches that are opened ahead of the consumer, and its maximum */
};

struct stk_crew {
	struct stk_exec_worker *workers;
	int32_t n;
	_Atomic int64_t *cost_ns; /* [level * program->max_chains + chain]: measured time of a chain for one sample */
	int32_t poison;           /* byte that fills memory before an operator writes it, to find bytes left unwritten; -1: no fill */
};

struct stk_run {
	bool started, stopping;
	bool restored;            /* the run continues from a saved state */
	bool kept_batches_warned; /* the warning about batches that the consumer keeps has been logged */
	_Atomic bool cancelled;
	struct stk_cancel halt; /* set to make workers abandon their work, because the pipeline is cancelled or drained */
};

/* The position of the run: its last delivered batch. step: -1 if no batch was delivered yet; last: whether the epoch ends after that batch. */
struct stk_position {
	int64_t epoch, step;
	bool last;
};

/* The parts of a pipeline. Each is private to the source file named here, or to the files that include the header named here. */
struct stk_parts {
	struct stk_fetch *fetch;         /* fetch.h */
	struct stk_feed_stage *feed;     /* feed.h; NULL: there are no user sources */
	struct stk_device_stage *device; /* device.h; NULL: no work on the GPU, or a resident data set */
	struct stk_resident *resident;   /* resident.h; NULL: the program does not qualify */
	struct stk_opening *opening;     /* open.c */
	struct stk_delivery *delivery;   /* deliver.c */
	struct stk_surveyed *surveyed;   /* survey.c; NULL: all samples are known before the run */
	struct stk_bad_list *bad;        /* failures.c; NULL: no bad sample so far */
	struct stk_digests *digests;     /* changes.c; NULL: no state was saved so far */
};

struct stk_pipeline {
	struct stk_pool_client client; /* must be the first member: workers receive its address */
	struct stk_context *ctx;
	struct stk_pool *pool; /* the context's, or the pipeline's own if its graph calls users' functions */
	struct stk_storage *storage;
	struct stk_io *io; /* belongs to `storage` */
	struct stk_program *program;
	struct stk_pipeline_config config;
	const struct stk_batch_maker *callbacks;
	struct stk_order order;   /* the leading reader's order */
	struct stk_order *orders; /* each reader's order, indexed like program->readers */
	pthread_mutex_t lock;
	pthread_cond_t
		delivered; /* signalled when a batch is FINISHED; while the run stops, also when a source's callback, a callback of io
	                           * or the thread that waits for the GPU has ended some work. stk_pipeline_cancel does not signal it */
	struct stk_flight flight;
	struct stk_ring *ring;
	struct stk_run run;
	struct stk_crew crew;
	struct stk_position at;
	struct stk_parts parts;
	struct stk_trace *trace;
	struct stk_exec_counters counters;
	struct stk_watched watched;
};

/* The functions that make batches. There are two sets: workers run chains (engine.h), or the GPU processes a data set in its memory (resident.h). The
 * functions are called with the lock held unless the comment says otherwise. */
struct stk_batch_maker {
	bool places; /* whether places of samples are computed when a batch is planned, and not when the consumer asks for them */
	bool crew;   /* whether workers open and process batches, and not the consumer's thread */
	void (*begin)(struct stk_record *r);                     /* called when r is open; may release the lock */
	bool (*arrived)(struct stk_record *r);                   /* returns whether the FINISHED batch r can be delivered now */
	void (*wait)(struct stk_pipeline *p, int64_t waited_ns); /* waits until a batch may have arrived; releases the lock meanwhile */
	const char *(*stage)(const struct stk_record *r,
		const struct stk_sample_state **s); /* returns the name of the work that an open batch waits for; sets *s to its sample */
};

#define STK_COUNT(p, name, n) atomic_fetch_add_explicit(&(p)->counters.name, (n), memory_order_relaxed)

static inline void stk__trace_row(const struct stk_pipeline *p, int32_t row, const struct stk_trace_span *span)
{
	stk__trace_add(p->trace, p->crew.n + row, span);
}

/* In debug builds, checks that the caller does not hold the lock. Call it before a user's callback, a write of outputs, a copy of a batch, or a wait for a
 * stream. The debug mutex knows its owner and refuses to be unlocked by another thread. */
static inline void stk__assert_unlocked(struct stk_pipeline *p)
{
#if defined(STK_DEBUG) && !defined(__SANITIZE_THREAD__)
	int s = pthread_mutex_unlock(&p->lock);
	assert(s == EPERM);
#endif
	(void)p;
}

static inline struct stk_record *stk__record(struct stk_pipeline *p, int64_t k)
{
	return &p->flight.records[k % p->flight.n];
}

/* Returns the place in `reader`'s order of the sample that is processed together with the leading reader's sample at `place`. */
static inline struct stk_place stk__reader_place(const struct stk_pipeline *p, int32_t reader, const struct stk_place *place)
{
	return reader == p->program->leading_reader ? *place : stk__order_follow(&p->orders[reader], &p->order, place);
}

/* ---- schedule.c ---- */
bool stk__exec_work(struct stk_pool_client *client, int32_t worker); /* does one unit of work, if there is any; call without the lock */

/* open.c: opens the next batch. Returns false if that is not possible yet, for example because no slot is free or enough batches are under way. Call with the
 * lock held; it is released in between. */
bool stk__open_next(struct stk_pipeline *p);
STK_MUST_USE enum stk_status stk__open_create(struct stk_pipeline *p, struct stk_error *err);
void stk__open_destroy(struct stk_pipeline *p);
bool stk__open_waits_for_slot(const struct stk_pipeline *p); /* whether the last call of stk__open_next found no free slot */
void stk__open_stop(struct stk_pipeline *p);                 /* frees the prepared slot; called by stk__drain with the lock held */

/* ---- deliver.c ---- */
STK_MUST_USE enum stk_status stk__deliver_create(struct stk_pipeline *p, struct stk_error *err);
void stk__deliver_destroy(struct stk_delivery *d);
/* Returns whether the epoch ends after the last delivered batch. Waits at most a second for the sources to report that; returns false if they have not. */
bool stk__deliver_ends_next(struct stk_pipeline *p);

/* ---- inflight.c: call with the lock held ---- */
bool stk__create_records(struct stk_pipeline *p,
	int64_t up_to); /* plans batches up to number up_to - 1; returns false if a read of a record's previous batch is still under
	                 * way, or if the samples are not known yet */
bool stk__record_under_way(const struct stk_record *r); /* whether the batch is planned and has not ended */
void stk__record_enter(struct stk_record *r, enum stk_batch_state to);
/* Items of a batch that become ready have numbers: chain * batch_size + sample, then one for each node, for its gather, then one for the jobs on the
 * GPU. stk__ready_room returns how many numbers there are. */
int32_t stk__ready_room(const struct stk_pipeline *p);
int32_t stk__gather_item(const struct stk_pipeline *p, int32_t node);
int32_t stk__device_item(const struct stk_pipeline *p);
void stk__ready_push(struct stk_record *r, int32_t item);
void stk__ready_chain(struct stk_record *r, int32_t chain, int32_t sample);
void stk__ready_submit(struct stk_record *r); /* queues the GPU jobs of the record's level */

/* survey.c: runs whose samples become known only while they are read; in other runs these functions have no effect. */
STK_MUST_USE enum stk_status stk__surveyed_create(struct stk_pipeline *p, struct stk_error *err); /* call after stk__orders_create */
/* Start and end the search for samples. Call without the lock. */
STK_MUST_USE enum stk_status stk__surveyed_begin(struct stk_pipeline *p, struct stk_error *err);
void stk__surveyed_end(struct stk_pipeline *p);
void stk__surveyed_destroy(struct stk_pipeline *p);
/* Returns whether it is known if batch k exists. Threads that open batches are woken when this becomes known. */
bool stk__surveyed_plans(struct stk_pipeline *p, int64_t k);
/* Returns whether the batch exists. If not, r->result holds the result to deliver instead. */
bool stk__surveyed_has(const struct stk_pipeline *p, struct stk_record *r);
/* Frees the batch's samples, which no thread reads any more. Call without the lock. */
void stk__surveyed_delivered(struct stk_pipeline *p, const struct stk_record *r);
/* If the search has already read the sample's bytes, completes the request with them and returns true. Call without the lock. */
bool stk__surveyed_read(struct stk_pipeline *p, int64_t id, struct stk_request *r);
/* Copies the next warning of the search to `text`; returns false if no warning is left. Call without the lock. */
bool stk__surveyed_notice(struct stk_pipeline *p, char text[400]);

/* ---- orders.c ---- */
STK_MUST_USE enum stk_status stk__orders_create(struct stk_pipeline *p, struct stk_error *err);
/* Returns a copy of the run's order, whose size may not be known yet. Call without the lock. */
struct stk_order stk__order_copy(struct stk_pipeline *p);
/* Returns the position in the global sequence at which a step begins, where a step is one batch of each rank. For pipelines without a reader. Steps are
 * counted from the epoch's start, even if the run began in the middle of the epoch. */
int64_t stk__step_position(const struct stk_pipeline *p, int64_t epoch, int64_t step);
/* Returns the number of whole steps of an epoch that precede this run. */
int64_t stk__steps_before(const struct stk_pipeline *p, int64_t epoch);
/* Returns the number of a batch's step in its epoch. Always counts from the epoch's start, whereas at->step of a reader's order counts from the first batch of
 * the run, which may have begun in the middle of the epoch. */
int64_t stk__step_of_epoch(const struct stk_pipeline *p, const struct stk_order_step *at);
/* Returns whether the run's first batch is the first of an epoch. It is not if the run was restored in mid-epoch. */
bool stk__run_begins_epoch(const struct stk_pipeline *p);

/* ---- failures.c ---- */
/* Writes the URI that the leading reader has for sample `id`, or "" if there is none. Returns the URI's length: `capacity` or more means that it was cut. */
size_t stk__sample_uri(const struct stk_program *g, int64_t id, char *uri, size_t capacity);
/* Writes the URI that `reader` has for the sample that belongs to the leading reader's `place`, or "". Returns the URI's length, as stk__sample_uri does. */
size_t stk__reader_uri(const struct stk_pipeline *p, int32_t reader, const struct stk_place *place, char *uri, size_t capacity);
/* Returns the reader to name in a chain's errors: the one whose bytes the chain reads if there is only one, otherwise the leading one. */
int32_t stk__chain_reader(const struct stk_program *g, int32_t level, int32_t chain);
/* Returns the number that messages give the pipeline's epoch `epoch`. */
static inline int64_t stk__shown_epoch(const struct stk_pipeline *p, int64_t epoch)
{
	return p->config.first_epoch + epoch;
}
/* Adds the sample's position to the error, and the URI that `reader` has for the sample. Needs no lock. */
void stk__name_sample(const struct stk_pipeline *p, const struct stk_sample_state *s, int32_t reader, struct stk_error *err);
/* Adds the name of a part to the error, if the reader has names for parts. stk__name_input does so for the first input of `node` that is a part
 * of a reader's sample. */
void stk__name_part(const struct stk_sample_state *s, int32_t reader, int32_t part, struct stk_error *err);
void stk__name_input(const struct stk_program *g, const struct stk_sample_state *s, int32_t node, struct stk_error *err);
/* Inserts the URI of the data that `node` works on before the message, if a reader other than `named` has read these data and the message does not name them
 * yet. The error itself has the URI of reader `named`. */
void stk__name_origin(const struct stk_pipeline *p, const struct stk_sample_state *s, int32_t node, int32_t named, struct stk_error *err);
void stk__set_error(struct stk_error **to, const struct stk_error *from);
const char *stk__bad_last(const struct stk_pipeline *p); /* returns the message of the last bad sample; valid until the next one */
void stk__bad_free(struct stk_pipeline *p);
/* Records sample i of the batch as bad. Call with the lock held. */
void stk__bad_add(struct stk_record *r, int32_t i, const struct stk_error *err);
/* Moves the bad samples of a delivered batch to the pipeline's list. Call with the lock held. */
void stk__bad_deliver(struct stk_record *r);
/* Returns STK_IO if none of the last STK_BAD_ROW samples of delivered batches could be read. Then the store is at fault, not single objects. */
enum { STK_BAD_ROW = 32 };
STK_MUST_USE enum stk_status stk__bad_check_row(const struct stk_pipeline *p, struct stk_error *err);
void stk__bad_drop(struct stk_record *r); /* discards the batch's bad samples; call with the lock held */

/* held_batches.c: returns the error for a ring that has no free slot; lack: the reason. The message names the outputs that the consumer keeps. */
enum stk_status stk__held_batches_error(struct stk_pipeline *p, enum stk_ring_lack lack, struct stk_error *err);
size_t stk__held_batches_bytes(struct stk_pipeline *p); /* returns the total size in bytes of the blocks that the ring no longer manages */
/* Logs a notice when the ring first releases blocks because the consumer keeps them; call without the lock. */
void stk__warn_of_held_batches(struct stk_pipeline *p);

/* ---- changes.c ---- */
/* The end of messages about a state that was saved with other data; says what the user can do. */
#define STK_STATE_WAY_OUT ": give the data of the run that was saved, or begin a new epoch of these without the state"
void stk__changes_free(struct stk_pipeline *p);
/* Appends the size of the list of files and its digests to a state: `, "files": N, "runs": "..."`. Appends nothing if the reader has no digest. */
void stk__changes_save(struct stk_pipeline *p, struct stk_text *t);
/* Returns an error that describes how the list has changed since a state with these entries (`files` and `runs`) was saved. Returns STK_OK if no change is
 * found, or if the state or the reader has no digests. */
STK_MUST_USE enum stk_status stk__changes_describe(const struct stk_pipeline *p, int64_t files, const char *runs, struct stk_error *err);

/* ---- batch.c ---- */
enum stk_status stk__batch_check(const struct stk_pipeline *p, const struct stk_record *r,
	struct stk_error *err); /* checks that each output has the same type and number of dims in all samples */
/* Makes the record's batch, which takes over its slot; returns NULL if memory runs out. */
struct stk_batch *stk__batch_make(struct stk_pipeline *p, struct stk_record *r);
void stk__batch_deliver(struct stk_batch *batch); /* makes the consumer the owner */
void stk__batch_free_data(void *batch);

/* drain.c: waits for the work under way without starting more, then discards it. Call without the lock. */
void stk__drain(struct stk_pipeline *p);

#endif
