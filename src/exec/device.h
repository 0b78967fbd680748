/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline's GPU. Workers describe what operators there do to each sample (describe.c), as jobs of the program's steps; when a level's chains are
 * through and nobody reads the slot any more, one of them submits the batch's jobs, step by step (submit.c); a thread waits for
 * the consumer's streams and for the GPU to end the jobs, sends images that it would not decode to the cores, and lets the batch go on (device.c).
 *
 *   job     what one step does to one sample; plain data over addresses of the GPU
 *   batch   the jobs of a record, with the memory that they need; a few are made, and a record has one from when it is opened to the end of its last
 *           step
 *
 * Lists of batches are guarded by the pipeline's lock. The rest of a batch is its record's: jobs of one (step, sample) are written by the worker
 * that has the sample's chain, and read when all chains are through. */
#ifndef STK_EXEC_DEVICE_H
#define STK_EXEC_DEVICE_H

#include "codec/jpeg_gpu/jpeg_gpu.h"
#include "exec/device_memory.h"
#include "exec/exec.h"
#include "exec/progressive.h"
#include "kernel/job/job_gpu.h"

enum stk_device_job_kind {
	STK_DEVICE_JOB_UPLOAD, /* from pinned memory; before everything else */
	STK_DEVICE_JOB_DECODE, /* a file, and a pass over the window that it reads; after the uploads, all steps' together */
	STK_DEVICE_JOB_PASS,   /* over an image there */
	STK_DEVICE_JOB_ARRAY,  /* over tensors there */
};

struct stk_decode_job {
	const uint8_t *file; /* pinned */
	size_t size;
	struct stk_jpeg_header header;
	struct stk_rect window; /* as stored */
	enum stk_image_type type;
	int orientation;
	struct stk_jpeg_gpu_limits need;
};

/* Allocated only as large as its kind needs: members behind those do not exist. */
struct stk_device_job {
	struct stk_device_job *next; /* of the same step and sample */
	struct stk_device_job *last; /* in the first of them alone: images of thousands of planes have as many */
	enum stk_device_job_kind kind;
	int32_t sample;
	union {
		struct { /* UPLOAD */
			stk_gpu_ptr to;
			uintptr_t from;
			size_t bytes;
		};
		struct { /* ARRAY */
			struct stk_job *job;
			uint32_t index;                       /* in its step */
			bool makes;                           /* a pass makes its pixels */
			const struct stk_job_gpu_item *maker; /* then what the pass is told, from the upload on */
		};
	};
	struct stk_device_job *made_by; /* PASS: the job that makes its image on the way; NULL: none */
	struct stk_image src, dst;      /* PASS; DECODE has dst alone */
	struct stk_pass pass;
	struct stk_decode_job decode;
};

/* Tables of what one step runs, grown to what batches need. */
struct stk_device_tables {
	struct stk_pass_gpu *passes;
	struct stk_job_gpu *arrays; /* a step has the one or the other */
	struct stk_pass_gpu_limits pass_limits;
	struct stk_job_gpu_limits array_limits;
	void *host; /* pinned */
	stk_gpu_ptr device;
	uint32_t *flags; /* pinned, one a job of the last submission: it divided by zero */
	uint32_t n_flags;
	uint32_t images, jobs;   /* of the last submission */
	struct stk_error *error; /* of flagged samples; NULL until a flag has been set */
};

/* For traces: events on a batch's stream, and what ended at each. */
struct stk_device_marks {
	struct stk_device_mark {
		stk_gpu_event event;
		const char *name; /* constant; NULL: no span ends here */
		enum stk_span_kind kind;
	} * mark;
	int32_t count, room;
};

/* For traces: an event of the GPU and when it was by the host's clock. */
struct stk_device_clock {
	stk_gpu_stream stream;
	stk_gpu_event event;
	int64_t at_ns;
};

struct stk_gpu_verdict;

/* Files that the level's jobs decode. */
struct stk_device_decodes {
	struct stk_jpeg_gpu_batch *jpeg;
	struct stk_device_job **jobs; /* what was submitted to `jpeg`, by its numbers */
	struct stk_jpeg_gpu_item *items;
	int32_t n;
};

struct stk_device_uploads {
	struct stk_device_job **jobs;
	int32_t n, room;
};

/* What the step in hand needs. */
struct stk_device_need {
	struct stk_pass_gpu_limits pass;
	struct stk_job_gpu_limits array;
};

/* Of the last submission: samples that the GPU would not do, or that failed there; one a sample at most. */
struct stk_device_verdicts {
	struct stk_gpu_verdict *list;
	int32_t n;
};

struct stk_device_batch {
	struct stk_device_batch *next; /* in the list that it stands in */
	struct stk_record *record;
	stk_gpu_stream stream, steps_stream; /* one of the stage's, for its copies; where the submission in hand runs its steps */
	stk_gpu_event done;                  /* behind the last submission; files are waited for apart */
	struct stk_device_memory files, staging, scratch; /* pinned, pinned, the GPU's */
	pthread_mutex_t lock;                             /* of jobs' memory and mirrors */
	struct stk_device_jobs {
		struct stk_arena arena;
		struct stk_device_job **first; /* [step * batch + sample] */
		_Atomic bool *pending;         /* [sample]: described since the last submission */
		bool *submitted;               /* [sample]: jobs of it were in the last submission: flags tell of no others */
		bool steps;                    /* there are jobs that run after the files */
	} jobs;
	struct stk_device_mirrors {
		_Atomic uintptr_t *staged,
			*sent; /* [value]: where all samples of a value of known size lie together, in staging and in scratch */
	} mirrors;
	struct stk_device_tables *tables; /* [step] */
	struct stk_device_decodes decodes;
	struct stk_device_uploads uploads;
	struct stk_device_need need;
	struct stk_device_verdicts verdicts;
	struct stk_device_marks marks;
	bool used;    /* taken, and not cleaned since */
	bool resting; /* its jobs wait until its slot is at rest; written with the pipeline's lock */
	struct stk_device_turn {
		int64_t begin_ns, k; /* of the record */
		int64_t use;         /* counts the records that had it: batch numbers come again after an epoch is left */
	} turn;
};

/* First in, first out. */
struct stk_device_list {
	struct stk_device_batch *first, **end;
};

/* As many as the hardware has queues, which batches share: more would wait for each other unseen. Where files are decoded the decoder streams take all of
 * them but one, which copies; steps follow on decoder streams. */
enum { STK_DEVICE_STREAMS = 8 };

struct stk_device_stage {
	struct stk_gpu_device *dev;
	stk_gpu_stream streams[STK_DEVICE_STREAMS]; /* of batches: one where files are decoded; NULL behind the last */
	struct stk_pass_gpu_kernels pass_kernels;
	struct stk_job_gpu_kernels array_kernels;
	struct stk_device_batch *batches, *free;
	int32_t n_batches;
	struct stk_device_list submitted, resting; /* what the thread waits for, the former first */
	pthread_cond_t work;                       /* there is something to wait for, or the thread shall end */
	pthread_t thread;
	bool runs, ending;
	bool busy;                 /* with a batch that it took from a list */
	struct stk_jpeg_gpu *jpeg; /* of all batches; NULL where the program decodes nothing */
	size_t memory_limit;       /* of decoding and batches under way, which take memory for the sake of speed */
	_Atomic size_t largest;    /* bytes of a batch's slot and scratch, so far */
	bool held_back;            /* the limit forbade one more batch under way while the consumer waited */
	struct stk_progressive progressive;
	struct stk_device_clock clock;
};

/* device.c */
enum stk_status stk__device_create(struct stk_pipeline *p, struct stk_error *err); /* for config.device_id */
void stk__device_destroy(struct stk_pipeline *p);                                  /* drained */
/* Bytes that a pipeline may take for the sake of speed, of those that are free. */
size_t stk__device_memory_limit(const struct stk_pipeline *p, size_t available);
/* Tells the ring which values lie on the GPU. */
STK_MUST_USE enum stk_status stk__device_place_values(struct stk_pipeline *p, struct stk_gpu_device *dev, struct stk_error *err);
/* With the lock: a batch for a record that is opened; NULL: none is free. */
struct stk_device_batch *stk__device_batch_take(struct stk_pipeline *p, struct stk_record *r);
void stk__device_batch_clean(struct stk_pipeline *p, struct stk_device_batch *b); /* without the lock; the GPU has done with it */
void stk__device_batch_give(struct stk_pipeline *p, struct stk_device_batch *b);

/* With the lock: the waiting thread has something to do. */
bool stk__device_works(const struct stk_device_stage *d);
/* With the lock: the consumer waits. If its batch is on the GPU, one more batch may be under way from now on, as far as memory goes. */
void stk__device_deepen(struct stk_pipeline *p);
/* Adds what memory it may take, and what more of it would bring, as far as the run has shown that. */
void stk__device_explain(struct stk_pipeline *p, struct stk_text *t);
/* With the lock: the jobs of the record's level are submitted as soon as nobody reads its slot any more. */
void stk__device_ready(struct stk_pipeline *p, struct stk_record *r);
/* With the lock: from here on the record is the waiting thread's, until its level is over or samples of it run again. */
void stk__device_submitted(struct stk_pipeline *p, struct stk_record *r);

/* describe.c: what a group on the GPU does to a sample becomes jobs. Without the lock. */
enum stk_status stk__device_describe(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err);
/* The sample does not take the group's branch: there are no jobs. */
void stk__device_skip(const struct stk_chain_run *run, const struct stk_group *group);
/* Gives a value of the GPU its place: in the slot, or in the batch's scratch. */
enum stk_status stk__device_place(const struct stk_chain_run *run, int32_t value, struct stk_error *err);

/* A read by a worker lands in pinned memory of the batch: where the worker's last file ended, so that files lie together. Between begin and end the
 * request asks for room; end is told how much was used, and returns where it lies. */
void stk__device_room_begin(struct stk_exec_worker *w, struct stk_device_batch *b, struct stk_request *q);
const uint8_t *stk__device_room_end(struct stk_exec_worker *w, size_t used);

/* device_trace.c, inside stk__gpu_enter. They do nothing without a trace; failures are ignored. */
void stk__device_mark(
	struct stk_pipeline *p, struct stk_device_batch *b, enum stk_span_kind kind, const char *name); /* of what ended here */
void stk__device_trace(struct stk_pipeline *p, struct stk_device_batch *b); /* adds the spans of a batch that is done */
void stk__device_trace_free(struct stk_gpu_device *dev, struct stk_device_marks *marks);
void stk__device_clock_free(struct stk_gpu_device *dev, struct stk_device_clock *clock);

/* submit.c: the jobs of the record's level. Without the lock; one worker for a batch. */
enum stk_status stk__device_submit(struct stk_pipeline *p, struct stk_record *r, struct stk_error *err);
/* Copies what a node's calls read on the GPU to pinned memory of the batch, and waits for it: their inputs lie there then. Without the lock. */
enum stk_status stk__device_fetch(
	struct stk_pipeline *p, struct stk_record *r, int32_t node, struct stk_call *calls, int32_t count, struct stk_error *err);
void stk__device_tables_free(struct stk_gpu_device *dev, struct stk_device_tables *t);

#endif
