/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU part of a pipeline.
 *
 * Workers turn the operators of each sample that run on the GPU into jobs of the program's steps (describe.c). When all chains of a level have run and no
 * stream reads the slot any more, one worker submits the batch's jobs, step by step (submit.c). A separate thread waits for the consumer's streams and for
 * the GPU to finish the jobs. It lets the cores decode the images that the GPU has refused, and then lets the batch continue (device.c).
 *
 * A job is the work of one step on one sample: plain data that refers to addresses in GPU memory. A batch (struct stk_device_batch) holds the jobs of a
 * record and the memory that they need. There are only a few batches; a record has one from its opening until the last level that uses the GPU has ended.
 *
 * The pipeline's lock guards the lists of batches. Otherwise a batch belongs to its record: the worker that runs a sample's chain writes the jobs of that
 * (step, sample), and they are read after all chains have run. */
#ifndef STK_EXEC_DEVICE_H
#define STK_EXEC_DEVICE_H

#include "codec/jpeg_gpu/jpeg_gpu.h"
#include "exec/decode_side.h"
#include "exec/device_memory.h"
#include "exec/exec.h"
#include "kernel/job/job_gpu.h"
#include "media/nvdec.h"

enum stk_device_job_kind {
	STK_DEVICE_JOB_UPLOAD, /* copies from pinned memory; runs first */
	STK_DEVICE_JOB_DECODE, /* decodes a file and runs a pass over the pixels; the DECODE jobs of all steps run together, after the uploads */
	STK_DEVICE_JOB_PASS,    /* runs a pass over an image on the GPU */
	STK_DEVICE_JOB_TENSORS, /* runs a job over tensors on the GPU */
};

struct stk_decode_job {
	const uint8_t *file; /* address in pinned memory */
	size_t size;
	struct stk_jpeg_header header;
	struct stk_rect window; /* in pixels of the file, before EXIF's orientation is applied */
	enum stk_image_type type;
	int orientation;
	struct stk_jpeg_gpu_limits need;
};

/* A job of a sample. Only the members that the job's kind uses are allocated: do not access later members. */
struct stk_device_job {
	struct stk_device_job *next; /* the next job of the same step and sample */
	struct stk_device_job *last; /* the last job of the list, for appending; only set in the first job */
	enum stk_device_job_kind kind;
	int32_t sample;
	union {
		struct { /* UPLOAD */
			stk_gpu_ptr to;
			uintptr_t from;
			size_t bytes;
		};
		struct { /* TENSORS */
			struct stk_job *job;
			uint32_t index; /* index of this job among the jobs of the step */
			bool makes;     /* true if the kernel of a pass computes this job's pixels */
			const struct stk_job_gpu_item *
				maker; /* this job's description in the form that this pass's kernel reads; set when the tables are uploaded */
		};
	};
	struct stk_device_job *made_by; /* for PASS: the job whose image the pass computes itself; NULL if the pass reads a stored image */
	struct stk_image src, dst;      /* for PASS; DECODE uses only dst */
	struct stk_pass pass;
	struct stk_decode_job decode;
};

/* Tables of the jobs of one step. They grow to the size that the largest batch needs. */
struct stk_device_tables {
	struct stk_pass_gpu *passes;
	struct stk_job_gpu *tensor_jobs; /* a step has either passes or jobs on tensors */
	struct stk_pass_gpu_limits pass_limits;
	struct stk_job_gpu_limits tensor_limits;
	void *host; /* the tables in pinned memory, from which they are copied to `device` */
	stk_gpu_ptr device;
	size_t host_bytes, device_bytes; /* sizes of these two */
	uint32_t *flags; /* pinned memory with a flag for each job of the last submission: whether the job divided by zero */
	uint32_t n_flags;
	uint32_t images, jobs;   /* numbers of passes and of jobs in the last submission */
	struct stk_error *error; /* the error of samples whose flag is set; NULL until the first one */
};

/* For traces: events on a batch's stream. Each is recorded at the end of some work, which begins at the previous event. */
struct stk_device_marks {
	struct stk_device_mark {
		stk_gpu_event event;
		const char *name; /* a constant string; NULL if no span ends here */
		enum stk_span_kind kind;
	} * events;
	int32_t count, capacity;
};

/* For traces: a GPU event whose time on the host's clock is known, from which the times of other events are computed. */
struct stk_device_clock {
	stk_gpu_stream stream;
	stk_gpu_event event;
	int64_t at_ns;
};

struct stk_gpu_verdict;

/* The files that the GPU decodes for jobs of the level. */
struct stk_device_decodes {
	struct stk_jpeg_gpu_batch *jpeg;
	struct stk_device_job **jobs; /* for each file of `jpeg`, the job that decodes it */
	struct stk_jpeg_gpu_item *items;
	int32_t n;
};

struct stk_device_uploads {
	struct stk_device_job **jobs;
	int32_t n, capacity;
};

/* The sizes of the tables that the jobs of the current step need. */
struct stk_device_need {
	struct stk_pass_gpu_limits pass;
	struct stk_job_gpu_limits tensors;
};

/* The samples of the last submission that the GPU refused or whose jobs failed. Each sample occurs at most once. */
struct stk_device_verdicts {
	struct stk_gpu_verdict *list;
	int32_t n;
};

struct stk_device_batch {
	struct stk_device_batch *next;
	struct stk_record *record;
	/* stream: one of the stage's streams, for copies; steps_stream: for the steps of the current submission */
	stk_gpu_stream stream, steps_stream;
	/* recorded after the jobs of the last submission, except for the decoding of files, which has events of its own */
	stk_gpu_event done;
	struct stk_device_memory files, staging, scratch; /* files and staging: pinned host memory; scratch: memory of the GPU */
	pthread_mutex_t lock;                             /* guards the jobs' memory and the mirrors */
	struct stk_device_jobs {
		struct stk_arena arena;
		struct stk_device_job **first; /* [step * batch size + sample]: list of the sample's jobs */
		_Atomic bool *pending;         /* [sample]: whether the sample's jobs were described after the last submission */
		bool *submitted;               /* [sample]: whether the sample had jobs in the last submission, so that it has flags */
		bool steps;                    /* whether there are jobs that run after the decoding of the files */
	} jobs;
	struct stk_device_mirrors {
		_Atomic uintptr_t *staged,
			*sent; /* [value]: address of the first sample in staging (`staged`) and in scratch memory (`sent`), if the value
			        * has a known size; 0 if it has not been placed */
	} mirrors;
	struct stk_device_tables *tables; /* [step] */
	struct stk_device_decodes decodes;
	struct stk_device_uploads uploads;
	struct stk_device_need need;
	struct stk_device_verdicts gpu_verdicts;
	struct stk_device_marks traced_events;
	bool used;               /* true from the moment a record takes the batch until the batch is cleaned */
	bool resting;            /* true while the batch's jobs wait until no stream uses the slot; written with the pipeline's lock held */
	struct stk_device_turn { /* the record that uses the batch at present, or used it last */
		enum stk_batch_side side;
		int64_t begin_ns, k; /* time of the last submission; number of the record's batch */
		/* number of records that have used this batch so far; identifies the present use, unlike k, which occurs again if an epoch is
		 * abandoned */
		int64_t use;
	} current;
};

/* A queue of batches. */
struct stk_device_list {
	struct stk_device_batch *first, **end;
};

/* One stream for each hardware queue, shared by the batches: additional streams would share queues and wait for each other without need. If files are
 * decoded, the decoder streams use all queues except one, which is for copies, and steps run on decoder streams. */
enum { STK_DEVICE_STREAMS = 8 };

struct stk_device_stage {
	struct stk_gpu_device *dev;
	stk_gpu_stream streams[STK_DEVICE_STREAMS]; /* the streams of batches, ending with NULL; only one if files are decoded */
	struct stk_pass_gpu_kernels pass_kernels;
	struct stk_job_gpu_kernels job_kernels;
	struct stk_device_batch *batches, *free_batches;
	int32_t n_batches;
	struct stk_device_list submitted, resting; /* lists for the waiting thread, which processes `submitted` first */
	pthread_cond_t work;                       /* signalled when the thread has work or must end */
	pthread_t thread;
	bool runs, ending;
	bool processing;           /* true while the thread processes a batch that it took from a list */
	struct stk_jpeg_gpu *jpeg; /* shared by all batches; NULL if the program decodes no files */
	struct stk_nvdec *nvdec;   /* NULL if no operator decodes videos on the GPU */
	size_t memory_limit;       /* maximum number of bytes for decoding and batches under way, which are faster with more memory */
	struct stk_device_largest_needs {
		_Atomic size_t files, staging, scratch; /* most bytes that a batch has needed of each kind (device_memory.h) */
	} largest_needs;
	_Atomic size_t largest; /* size in bytes of slot and scratch of the largest batch so far */
	struct stk_device_surplus {
		int32_t window;       /* number of consecutive deliveries without a wait after which fewer batches may be kept under way */
		int32_t deliveries;   /* number of deliveries without a wait in this window so far */
		int32_t min_finished; /* minimum number of finished batches at these deliveries */
		bool lowered;         /* true if the number of batches under way was lowered, and the consumer has not waited since */
	} surplus;
	bool memory_limited; /* true if the consumer had to wait, and the memory limit did not allow another batch under way */
	struct stk_decode_side side;
	struct stk_device_clock clock;
};

/* ---- device.c ---- */
enum stk_status stk__device_create(struct stk_pipeline *p, struct stk_error *err); /* uses the GPU config.device_id */
void stk__device_destroy(struct stk_pipeline *p);                                  /* call it after stk__drain */
/* Returns how many bytes of the GPU's memory a pipeline may use for decoding and batches under way, or for a resident data set. available: number of free
 * bytes of the GPU. */
size_t stk__device_memory_limit(const struct stk_pipeline *p, size_t available);
/* Sets which values the pipeline's ring of slots stores in the memory of device `dev`. */
STK_MUST_USE enum stk_status stk__device_place_values(struct stk_pipeline *p, struct stk_gpu_device *dev, struct stk_error *err);
/* Takes a batch for a record that is being opened, or returns NULL if none is free. Call with the lock held. */
struct stk_device_batch *stk__device_batch_take(struct stk_pipeline *p, struct stk_record *r);
/* Resets the batch for its next record. Call without the lock, after the GPU has finished the batch's work. */
void stk__device_batch_clean(struct stk_pipeline *p, struct stk_device_batch *b);
void stk__device_batch_give(struct stk_pipeline *p, struct stk_device_batch *b); /* makes the batch free again; call with the lock held */
/* Cleans the batch and makes it free again. Call with the lock held, once the batch's record no longer refers to it; the lock is released meanwhile. */
void stk__device_batch_end(struct stk_pipeline *p, struct stk_device_batch *b);

/* Returns whether the waiting thread has work. Call with the lock held. */
bool stk__device_has_work(const struct stk_device_stage *d);
/* Adapts the number of batches under way, when the consumer asks for a batch. If it has to wait for a batch that is on the GPU, allows one more, if memory
 * permits. If more batches than needed have been ready for a while, allows fewer. waits: whether the consumer waits if its batch is not ready. Call with
 * the lock held. */
void stk__device_adapt_batches(struct stk_pipeline *p, bool waits);
/* Appends lines about the stage to `t`: which files the cores decode, how much GPU memory the stage may use, and how much more would have allowed more
 * batches under way, if the limit was reached. */
void stk__device_explain(struct stk_pipeline *p, struct stk_text *t);
/* Queues the record's jobs for submission, which happens as soon as no stream reads its slot any more. Call with the lock held. */
void stk__device_queue(struct stk_pipeline *p, struct stk_record *r);
/* Passes a record whose jobs were submitted to the waiting thread, which then ends the level or runs some samples again. Call with the lock held. */
void stk__device_submitted(struct stk_pipeline *p, struct stk_record *r);

/* describe.c: creates the jobs for a group of operators on the GPU and one sample. Call without the lock. */
enum stk_status stk__device_describe(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err);
/* Records that the sample does not take the group's branch, so that the group has no jobs for it. */
void stk__device_skip(const struct stk_chain_run *run, const struct stk_group *group);
/* Assigns a GPU value its address: in the slot, or in the batch's scratch. */
enum stk_status stk__device_place(const struct stk_chain_run *run, int32_t value, struct stk_error *err);

/* Makes a request read into the batch's pinned memory, directly after the worker's last file, so that files are adjacent. Submit the request between begin
 * and end. stk__file_buffer_end returns the address of the bytes; used: the number of bytes that were read. */
void stk__file_buffer_begin(struct stk_exec_worker *w, struct stk_device_batch *b, struct stk_request *q);
const uint8_t *stk__file_buffer_end(struct stk_exec_worker *w, size_t used);

/* device_trace.c. Call inside stk__gpu_enter. Without a trace these functions do nothing; failures are ignored. */
void stk__device_mark(struct stk_pipeline *p, struct stk_device_batch *b, enum stk_span_kind kind,
	const char *name);                                                  /* name: constant name of the work that precedes the event */
void stk__device_trace(struct stk_pipeline *p, struct stk_device_batch *b); /* adds the spans of a finished batch */
void stk__device_trace_free(struct stk_gpu_device *dev, struct stk_device_marks *marks);
void stk__device_clock_free(struct stk_gpu_device *dev, struct stk_device_clock *clock);

/* submit.c: submits the jobs of the record's level. Call without the lock; only one worker may call it for a batch. */
enum stk_status stk__device_submit(struct stk_pipeline *p, struct stk_record *r, struct stk_error *err);
/* Copies the GPU inputs of a node's calls to the batch's pinned memory, waits, and makes the calls point to the copies. Call without the lock. */
enum stk_status stk__device_fetch(
	struct stk_pipeline *p, struct stk_record *r, int32_t node, struct stk_call *calls, int32_t count, struct stk_error *err);
void stk__device_tables_free(struct stk_gpu_device *dev, struct stk_device_tables *t);

#endif
