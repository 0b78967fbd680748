/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's structures.
 *
 *   record   one batch on its way: its samples, how far each is, its slot. Records stand in a ring by batch number; reading runs ahead of slots.
 *   sample   where it comes from, its bytes, how many chains of the level are left
 *   unit     what a worker takes: a run of samples of one chain of one record, 50 to 200 us by measured cost
 *
 * One lock a pipeline guards records and the queues of ready work; it is held for bookkeeping only, never while reading, decoding or calling.
 *
 *   schedule.c  which unit next; what follows when it is done        chain.c    one sample through one chain
 *   call.c      one operator's call, and where its values go         by_frame.c arguments for each frame
 *   device.h    the GPU's steps                                      frames.c   image tensors as images
 *   resident.h  a data set that lies on the GPU
 *   fetch.h     bytes: at once where cached, ahead where not         pass.c     a group that makes one pass
 *   feed.c      users' sources, on the callback thread               deliver.c  the consumer's side
 *   batch.c     what the consumer gets                               state.c    save and restore
 *   failures.c  errors of bad samples, and the list of them          held.c     messages about what the consumer holds
 *   open.c      how many batches are under way, and their slots      changes.c  how the files differ from a state's
 *   engine.c    the life of a batch: levels, failed samples,         inflight.c its states, and which of its items are ready
 *               events from the other parts */
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

struct stk_fetch;
struct stk_feed_stage;
struct stk_opening;
struct stk_delivery;
struct stk_bad_list;
struct stk_digests;
struct stk_read;

struct stk_sample_state {
	struct stk_place place;  /* of the replacement, where there is one */
	int32_t attempt;         /* 0: the sample itself */
	int32_t chains_left;     /* of the current level */
	int32_t failed_by;       /* first chain that this attempt failed in: its error counts, later chains skip the sample; -1: none */
	bool dropped;            /* for good: not in the batch */
	bool on_cores;           /* the GPU would not decode it */
	bool present;            /* not dropped when the level began; for gathers, since samples may be dropped while they run */
	uint64_t waiting;        /* chains of the level that wait for bytes, a bit each */
	struct stk_read *reads;  /* fetch.h: one a reader that fetches */
	struct stk_error *error; /* of the failure; NULL: none */
	const struct stk_fed_sample *told; /* what a source said of it; NULL: nothing. Valid until the record is returned */
	struct stk_record *record;
};

/* A bad sample of a batch that is not delivered yet. */
struct stk_bad {
	struct stk_bad *next;
	int32_t index; /* in its batch */
	struct stk_error error;
};

struct stk_device_stage;
struct stk_device_batch;
struct stk_resident;

/* States of a batch in flight. stk__record_enter makes each transition, and asserts that it is one of these.
 *
 *   FREE      -> PLANNED    its place in the ring is free, and no read is under way for what stood there
 *   PLANNED   -> OPEN       it has got a slot
 *   OPEN      -> ON_GPU     its level's chains are through
 *   ON_GPU    -> OPEN       samples run again, or the next level begins
 *   OPEN      -> ENDING     behind its last level, or it has failed
 *   ENDING    -> FINISHED   what the consumer gets has been made
 *   FINISHED  -> DELIVERED  its turn has come
 *   DELIVERED -> FREE       it has given back what it held; from any state where the run is left
 *
 * How it came out is no state: `ended`, `misfit` and `error` say that, and hold from ENDING on. */
enum stk_batch_state {
	STK_BATCH_FREE,      /* stands for no batch */
	STK_BATCH_PLANNED,   /* its samples are known, and bytes may be asked for; it has no slot */
	STK_BATCH_OPEN,      /* chains, gathers and users' sources of its level are ready, run, or wait for bytes */
	STK_BATCH_ON_GPU,    /* jobs wait for the slot to be at rest or for a worker, or are submitted; todo is 0 */
	STK_BATCH_ENDING,    /* its samples hold no bytes any more; belongs to the thread that makes what is delivered */
	STK_BATCH_FINISHED,  /* waits for its turn */
	STK_BATCH_DELIVERED, /* belongs to the consumer's thread, which gives back what it holds */
};

/* What is ready in a batch (inflight.c): a ring of items. */
struct stk_ready {
	int32_t *items;
	int32_t head, count;
};

/* The samples that take the branch of a node that gathers; rank[i] is sample i's index among them. NULL for nodes outside of branches. */
struct stk_takers {
	int32_t *rank;
	int32_t count;
};

/* How a batch came out; it holds from ENDING on. */
struct stk_result {
	enum stk_result_kind {
		STK_RESULT_BATCH,
		STK_RESULT_END,    /* the source had no more: an end of epoch instead of a batch */
		STK_RESULT_MISFIT, /* the outputs of its samples do not fit together; an exceeded max_errors is reported first */
		STK_RESULT_ERROR,  /* fatal for the batch, whatever the policy */
	} kind;
	struct stk_error error; /* of the latter two; stored here, since an allocation might fail */
	int64_t rank;           /* of several errors the one with the lowest rank is reported: nodes that gather come before samples */
};

struct stk_record {
	struct stk_pipeline *pipeline;
	int64_t k;
	enum stk_batch_state state;
	struct stk_record *next_ending; /* in stk_flight.ending */
	struct stk_batch_place at;
	int32_t placed;             /* samples that have places: all of them, or none (stk_way.places) */
	int32_t count, level, todo; /* todo: samples, gathers and callbacks that the level waits for */
	struct stk_ready ready;
	struct stk_slot *slot;
	struct stk_batch *batch; /* what will be delivered, over the slot; made when the record is done, on whatever thread ends it */
	struct stk_device_batch *device; /* while it has work for the GPU */
	struct stk_sample_state *samples;
	int32_t reading;               /* requests under way for its samples; the record is not reused before they have ended */
	struct stk_gathered *gathered; /* by node that gathers */
	struct stk_takers *takers;     /* the same */
	struct stk_bad *bads;          /* bad samples, replaced ones too, in the batch's order */
	int32_t n_bad;
	struct stk_result result;
};

enum { STK_MAX_UNIT = 64, STK_MAX_URI = 4096, STK_MAX_ATTEMPTS = 10, STK_STATE_RUNS = 32, STK_STATE_RUN_DIGITS = 8 * STK_STATE_RUNS };

struct stk_unit {
	struct stk_record *record;
	int64_t record_k;
	int32_t level, chain; /* chain -1: `node` gathers; -2: the level's jobs go to the GPU */
	int32_t node, count;
	int32_t samples[STK_MAX_UNIT];
	bool failed[STK_MAX_UNIT]; /* another chain of the sample has failed: nothing to do but count */
};

/* What a worker has for one pipeline. */
struct stk_exec_worker {
	struct stk_arena arena;
	struct stk_tools tools;
	struct stk_tensor *values; /* of the sample in hand, by program value */
	struct stk_call *calls;    /* room for a group's calls */
	struct stk_error error;
	struct stk_device_batch *reading; /* the batch whose pinned memory `room` points into */
	int64_t reading_use;              /* that batch's turn.use then */
	uint8_t *room;                    /* the rest of the piece that this worker took */
	size_t room_left;
	struct {
		const struct stk_device_batch *batch; /* whose jobs' memory `at` points into */
		int64_t use;                          /* its turn.use then */
		uint8_t *at;
		size_t left;
	} jobs;
	_Atomic size_t scratch_peak; /* of the arena; read by stk_pipeline_counters */
};

/* Counters that many threads add to. X-macro: the names that stk_pipeline_counters shows. */
/* clang-format off */
#define STK_COUNTERS(X) \
	X(reads_started) X(reads_inline) X(reads_submitted) X(bytes_read) X(decodes) X(samples) X(units) X(user_calls) \
	X(gpu_decodes) X(gpu_refused) X(progressive) X(progressive_bytes) X(resident_batches) X(batches_opened) X(batches_delivered) X(bad_samples) X(replaced) X(retries) X(wait_ns) X(passes) \
	X(busy_ns) X(source_ns) X(branch_skips) X(narrowed_images) X(on_cores) X(images_in_passes)
/* clang-format on */

/* Rows of a trace, behind the workers'. */
enum stk_trace_row { STK_ROW_SOURCES, STK_ROW_CONSUMER, STK_ROW_GPU, STK_ROW_STORAGE, STK_ROW_STEPS, STK_ROW_DECODER_STREAMS };

struct stk_exec_counters {
#define STK_COUNTER_FIELD(name) _Atomic int64_t name;
	STK_COUNTERS(STK_COUNTER_FIELD)
#undef STK_COUNTER_FIELD
};

/* Batches in flight. */
struct stk_flight {
	struct stk_record *records; /* batch k stands at k % n */
	int32_t n;
	struct stk_record *ending; /* a list */
	int64_t next_create, next_open, next_deliver;
	int32_t depth, most_depth; /* batches opened before they are asked for */
};

struct stk_crew {
	struct stk_exec_worker *workers;
	int32_t n;
	_Atomic int64_t *cost_ns; /* of a sample, by level * program->max_chains + chain */
	int32_t poison;           /* what memory of outputs and values is filled with before an operator writes it; -1: nothing */
};

struct stk_run {
	bool started, stopping;
	bool restored;  /* from a state */
	bool held_told; /* the notice about what the consumer holds was given */
	_Atomic bool cancelled;
	struct stk_cancel halt; /* tells workers to abandon what they do: the pipeline was cancelled, or it drains */
};

/* Where the run stands: its last delivered batch; step -1: none of that epoch. */
struct stk_position {
	int64_t epoch, step;
	bool last;
};

/* Each is private to the file named here, or to the few files that include that header. */
struct stk_parts {
	struct stk_fetch *fetch;         /* fetch.h */
	struct stk_feed_stage *feed;     /* feed.h; NULL: there are no users' sources */
	struct stk_device_stage *device; /* device.h; NULL: all runs on the cores, or over a resident data set */
	struct stk_resident *resident;   /* resident.h; NULL: the program does not qualify */
	struct stk_opening *opening;     /* open.c */
	struct stk_delivery *delivery;   /* deliver.c */
	struct stk_surveyed *surveyed;   /* survey.c; NULL: all samples are known before the run */
	struct stk_bad_list *bad;        /* failures.c; NULL: no sample was bad so far */
	struct stk_digests *digests;     /* changes.c; NULL: no state was saved so far */
};

struct stk_pipeline {
	struct stk_pool_client client; /* first: workers get it */
	struct stk_context *ctx;
	struct stk_storage *storage;
	struct stk_io *io; /* the storage's */
	struct stk_program *program;
	struct stk_pipeline_config config;
	const struct stk_way *way;
	struct stk_order order;   /* of the leading reader */
	struct stk_order *orders; /* of each reader, in the order of the program */
	pthread_mutex_t lock;
	pthread_cond_t delivered; /* a record is done, or the run was cancelled */
	struct stk_flight flight;
	struct stk_ring *ring;
	struct stk_run run;
	struct stk_crew crew;
	struct stk_position at;
	struct stk_parts parts;
	struct stk_trace *trace;
	struct stk_exec_counters counters;
};

/* How batches are made: by workers, chain by chain (engine.h), or by the GPU from a data set that lies there (resident.h). The lock is held unless said. */
struct stk_way {
	bool places;                           /* samples get their places when a batch is planned; else when the consumer asks for them */
	bool crew;                             /* workers take part, and open batches; else the consumer opens them when it wants one */
	void (*begin)(struct stk_record *r);   /* it is open; may give the lock up */
	bool (*arrived)(struct stk_record *r); /* a FINISHED batch can be delivered now */
	void (*wait)(struct stk_pipeline *p, int64_t waited_ns); /* until one may have arrived; gives the lock up for a while */
	const char *(*stage)(
		const struct stk_record *r, const struct stk_sample_state **s); /* what an open batch waits for, and at which sample */
};

#define STK_COUNT(p, name, n) atomic_fetch_add_explicit(&(p)->counters.name, (n), memory_order_relaxed)

static inline void stk__trace_row(const struct stk_pipeline *p, int32_t row, const struct stk_trace_span *span)
{
	stk__trace_add(p->trace, p->crew.n + row, span);
}

/* Debug builds see to it that nothing foreign (a user's callback, memory of outputs, a copy of a batch, a wait for a stream) happens with the lock held:
 * their mutex knows its owner, and refuses to be unlocked by another thread. */
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

/* Where a reader is when the leading one is at a sample's place. */
static inline struct stk_place stk__reader_place(const struct stk_pipeline *p, int32_t reader, const struct stk_place *place)
{
	return reader == p->program->lead ? *place : stk__order_beside(&p->orders[reader], &p->order, place);
}

/* schedule.c */
bool stk__exec_work(struct stk_pool_client *client, int32_t worker); /* without the lock */

/* open.c; with the lock, which it gives up in between. False: there is no room for another batch. */
bool stk__open_next(struct stk_pipeline *p);
STK_MUST_USE enum stk_status stk__open_create(struct stk_pipeline *p, struct stk_error *err);
void stk__open_destroy(struct stk_pipeline *p);
bool stk__open_lacks_slot(const struct stk_pipeline *p); /* the last try found none */
void stk__open_stop(struct stk_pipeline *p);             /* drained: gives back what was laid out */

/* deliver.c */
STK_MUST_USE enum stk_status stk__deliver_create(struct stk_pipeline *p, struct stk_error *err);
/* Whether the batch behind the last delivered one is the end of the epoch. Waits a second at most for the sources to tell; false: they have not. */
bool stk__deliver_ends_next(struct stk_pipeline *p);

/* inflight.c; the lock is held */
bool stk__create_records(struct stk_pipeline *p,
	int64_t up_to); /* false: a read of the batch that stood there before is still under way, or its samples are not known yet */
bool stk__record_under_way(const struct stk_record *r); /* planned, and not at its end */
void stk__record_enter(struct stk_record *r, enum stk_batch_state to);
/* What is ready in a batch: chain * batch + sample, then nodes that gather, then the jobs for the GPU. */
int32_t stk__ready_room(const struct stk_pipeline *p);
int32_t stk__gather_item(const struct stk_pipeline *p, int32_t node);
int32_t stk__device_item(const struct stk_pipeline *p);
void stk__ready_push(struct stk_record *r, int32_t item);
void stk__ready_chain(struct stk_record *r, int32_t chain, int32_t sample);
void stk__ready_submit(struct stk_record *r); /* the jobs that its level has for the GPU */

/* survey.c: for runs whose samples become known while they are read; in other runs these functions have no effect. plans: whether batch k
 * is known, or will never be; whoever opens batches is woken when that changes. has: whether there is such a batch; else r->result says
 * what comes in its place. delivered: nobody reads the batch's samples any more. lend: as stk__io_try, from what the search has brought.
 * delivered, lend, end and notice are called without the lock. */
STK_MUST_USE enum stk_status stk__surveyed_create(struct stk_pipeline *p, struct stk_error *err); /* after the orders */
STK_MUST_USE enum stk_status stk__surveyed_begin(struct stk_pipeline *p, struct stk_error *err);
void stk__surveyed_end(struct stk_pipeline *p);
void stk__surveyed_destroy(struct stk_pipeline *p);
bool stk__surveyed_plans(struct stk_pipeline *p, int64_t k);
bool stk__surveyed_has(const struct stk_pipeline *p, struct stk_record *r);
void stk__surveyed_delivered(struct stk_pipeline *p, const struct stk_record *r);
bool stk__surveyed_lend(struct stk_pipeline *p, int64_t id, struct stk_request *r);
bool stk__surveyed_notice(struct stk_pipeline *p, char text[400]);

/* orders.c */
STK_MUST_USE enum stk_status stk__orders_create(struct stk_pipeline *p, struct stk_error *err);
/* A copy of the run's, whose size may still become known. Without the lock. */
struct stk_order stk__order_now(struct stk_pipeline *p);
/* For pipelines without a reader: the position in the global sequence at which the batches of a step begin, those of all ranks together. Steps
 * count from the epoch's start, also in a run that began in its middle. */
int64_t stk__step_position(const struct stk_pipeline *p, int64_t epoch, int64_t step);
/* Whole steps of an epoch that lie before this run. */
int64_t stk__steps_before(const struct stk_pipeline *p, int64_t epoch);

/* failures.c */
size_t stk__sample_uri(const struct stk_program *g, int64_t id, char *uri, size_t capacity); /* by the leading reader */
/* The URI of the sample that a reader has while the leading one is at this place; "" without readers. */
size_t stk__reader_uri(const struct stk_pipeline *p, int32_t reader, const struct stk_place *place, char *uri, size_t capacity);
/* The reader whose samples a chain is about: the one whose bytes it reads alone, else the leading one. */
int32_t stk__chain_reader(const struct stk_program *g, int32_t level, int32_t chain);
/* Adds the sample to the error: its place, and the name that this reader has for it. No lock. */
void stk__name_sample(const struct stk_pipeline *p, const struct stk_sample_state *s, int32_t reader, struct stk_error *err);
/* Where the reader has names for parts: that of one as what the error is about. stk__name_input: of the part that the node's first input from such a
 * reader is a view of. */
void stk__name_part(const struct stk_sample_state *s, int32_t reader, int32_t part, struct stk_error *err);
void stk__name_input(const struct stk_program *g, const struct stk_sample_state *s, int32_t node, struct stk_error *err);
void stk__set_error(struct stk_error **to, const struct stk_error *from);
const char *stk__bad_last(const struct stk_pipeline *p); /* the message of the last one */
void stk__bad_free(struct stk_pipeline *p);
/* With the lock. add: notes a bad sample of the batch. deliver: the batch's turn has come, and the pipeline keeps its bad samples.
 * drop: forgets them. */
void stk__bad_add(struct stk_record *r, int32_t i, const struct stk_error *err);
void stk__bad_deliver(struct stk_record *r);
/* STK_IO when, of the batches that were delivered, the last STK_BAD_ROW samples could not be read: then no single objects are bad. */
enum { STK_BAD_ROW = 32 };
STK_MUST_USE enum stk_status stk__bad_check_row(const struct stk_pipeline *p, struct stk_error *err);
void stk__bad_drop(struct stk_record *r);

/* chain.c, call.c, pass.c: without the lock */
enum stk_status stk__chain_run(struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_record *r, const struct stk_chain *chain,
	int32_t level, int32_t index, int32_t sample, struct stk_error *err);
/* A node's gather over the record's samples. *blamed: the sample that a failure is due to, or -1. */
enum stk_status stk__gather_run(
	struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_record *r, int32_t node, int32_t *blamed, struct stk_error *err);

struct stk_chain_run {
	struct stk_pipeline *pipeline;
	struct stk_exec_worker *worker;
	struct stk_record *record;
	int32_t level, chain, sample;
	int32_t frame;                 /* by_frame.c: 1 + which frame an operator runs for; else 0 */
	const struct stk_desc *common; /* for call->frame */
};
enum stk_status stk__call_prepare(const struct stk_chain_run *run, int32_t node, struct stk_call *call, struct stk_error *err);
/* The operator's infer, and what can only be said of its arguments once the outputs' types are known. */
enum stk_status stk__call_infer(const struct stk_chain_run *run, int32_t node, struct stk_call *call, struct stk_error *err);
enum stk_status stk__value_place(const struct stk_chain_run *run, int32_t value, struct stk_error *err);
/* Whether the sample takes the branches of these conditions. */
enum stk_status stk__branch_taken(
	const struct stk_chain_run *run, const struct stk_program_condition *when, int32_t n_when, bool *taken, struct stk_error *err);
/* The value in whose place in the slot this one is to be written: the merged value, if the sample takes the side that this value is; else itself. */
int32_t stk__value_destination(const struct stk_chain_run *run, int32_t value);
enum stk_status stk__pass_group_run(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err);
/* by_frame.c: an operator that runs once for each frame of its sequences. infer: what all frames make together, and how many there are. cores: all of
 * them, on the CPU, into `out`, which has memory for that. run: both, on the CPU. */
enum stk_status stk__by_frame_infer(
	const struct stk_chain_run *run, int32_t node, struct stk_desc *out, int64_t *frames, struct stk_error *err);
enum stk_status stk__by_frame_cores(const struct stk_chain_run *run, int32_t node, const struct stk_tensor *out, struct stk_error *err);
enum stk_status stk__by_frame_run(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err);
/* What frame k makes, of all that they make. */
struct stk_tensor stk__by_frame_part(const struct stk_tensor *out, int64_t k);
/* Whether one frame's call makes a pass. */
bool stk__by_frame_passes(const struct stk_call *frame);
/* Whether this node's input suits a pass; else its lower_jobs must serve. Asked for each sample where the graph could not know. */
bool stk__pass_serves(const struct stk_chain_run *run, int32_t index);
/* The error of a group on the GPU whose head it does not serve. */
STK_MUST_USE enum stk_status stk__pass_group_refuse(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err);

/* stk__pass_group_run in parts: `infer` works out what a group does to a sample's image, `cores` does it. */
struct stk_pass_group {
	const struct stk_group *group;
	struct stk_call *calls; /* the worker's, one an operator; inferred */
	struct stk_frames src;  /* of a decoder: the whole image, without data */
	struct stk_pass pass;   /* with `planes`: of the plane that it was lowered for last */
	int32_t value;          /* what comes out */
	bool stream;            /* to memory rather than into caches */
	bool planes;            /* one pass a channel: of planar images, and of more channels than a pass has room for */
};
enum stk_status stk__pass_group_infer(
	const struct stk_chain_run *run, const struct stk_group *group, struct stk_pass_group *g, struct stk_error *err);
enum stk_status stk__pass_group_lower(struct stk_pass_group *g, int32_t plane, struct stk_error *err);
enum stk_status stk__pass_group_cores(
	const struct stk_chain_run *run, struct stk_pass_group *g, const struct stk_tensor *out, struct stk_error *err);

/* held.c */
enum stk_status stk__held_error(struct stk_pipeline *p, enum stk_ring_lack lack, struct stk_error *err);
size_t stk__held_bytes(struct stk_pipeline *p); /* of blocks that the ring has let go of */
void stk__tell_held(struct stk_pipeline *p);    /* one notice, when the ring first lets go of held blocks; without the lock */

/* changes.c */
void stk__changes_free(struct stk_pipeline *p);
/* Adds the size and digests of the list of files to a state: `, "files": N, "runs": "..."`; nothing where the reader has no digest. */
void stk__changes_save(struct stk_pipeline *p, struct stk_text *t);
/* What changed since a state was saved with these entries, as an error; STK_OK: it is not known what did. */
STK_MUST_USE enum stk_status stk__changes_tell(const struct stk_pipeline *p, int64_t files, const char *runs, struct stk_error *err);

/* batch.c */
enum stk_status stk__batch_check(const struct stk_pipeline *p, const struct stk_record *r,
	struct stk_error *err); /* outputs have one type and number of dims in all samples */
struct stk_batch *stk__batch_make(struct stk_pipeline *p, struct stk_record *r); /* NULL: out of memory */
void stk__batch_deliver(struct stk_batch *batch);                                /* the consumer's from here on */
void stk__batch_free_data(void *batch);

/* drain.c: lets what is under way come to its end without beginning anything new, and forgets it; without the lock */
void stk__drain(struct stk_pipeline *p);

#endif
