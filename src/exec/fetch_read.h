/* SPDX-License-Identifier: Apache-2.0
 *
 * Structures and functions that only fetch.c, fetch_ahead.c and fetch_read.c use. */
#ifndef STK_EXEC_FETCH_READ_H
#define STK_EXEC_FETCH_READ_H

#include "exec/fetch.h"

enum { STK_FETCHES_NOTHING = -1, STK_NO_REQUEST = -1 };

enum stk_read_state {
	STK_READ_NONE,  /* no request has begun */
	STK_READ_TRIED, /* a worker is trying to read it without blocking */
	STK_READ_ASKED, /* requests are under way */
	STK_READ_STALE, /* requests are under way, but the sample was replaced meanwhile: the read restarts when they have ended */
	STK_READ_DONE,
};

struct stk_read_request {
	struct stk_request io;
	struct stk_read *read;
	struct stk_error *error; /* io writes it while the request is under way; NULL until a request has failed */
	char *uri;               /* URI of a submitted request; the memory is kept for the next batch */
	size_t uri_capacity;
	int64_t uri_number;
	bool under_way;   /* true if the request was submitted and has not ended, so that it can be cancelled */
	int64_t asked_ns; /* time of submission, for traces */
	size_t admitted;  /* size in bytes of the buffers that the request uses or will use; 0: under way, and its size is unknown */
};

struct stk_read_part {
	int32_t request; /* index of the request whose bytes contain this part; STK_NO_REQUEST: no request does */
	size_t begin;    /* offset of the part in the request's bytes */
	int64_t length;  /* size of the part in bytes; -1: all bytes of the request */
	/* A copy in pinned memory, or NULL. Several chains may set it concurrently. */
	_Atomic(const uint8_t *) pinned;
	_Atomic bool on_gpu; /* true if a copy of a range of the part was given to the GPU */
};

/* The read of one reader for one sample. */
struct stk_read {
	struct stk_sample_state *sample;
	enum stk_read_state state;
	int32_t reader;
	int64_t id;       /* the sample's id in this reader */
	int32_t left;     /* number of requests under way */
	int32_t restarts; /* number of times that the read began again because the object was replaced between two of its requests */
	/* Latest allowed deadline of the read's requests, so that they come before those of later samples. 0: reading ahead has not reached the sample yet. */
	int64_t deadline;
	int32_t n_requests;
	struct stk_read_request *requests; /* memory for one request per part */
	struct stk_read_part *parts;
};

struct stk_fetch {
	bool may_read_ahead; /* reading ahead is on: requests are submitted in order of need, before workers begin their samples (fetch.h) */
	int64_t read_k;      /* number of the batch in which the search for the next read continues */
	int32_t read_i, read_j;
	int32_t in_flight, in_callbacks, complete; /* numbers of: requests under way; threads in stk__request_done; reads with buffers */
	int32_t complete_early;                    /* number of reads with buffers that belong to batches that are not open yet */
	struct stk_admission admission;
	struct stk_pipeline *pipeline;
	int64_t admitted;                          /* total bytes of all reads' buffers, complete or being filled */
	int32_t unknown;                           /* number of requests under way whose size is unknown */
	bool admission_refused;                    /* whether a request waits for admission */
	const struct stk_sample_state *over_limit; /* the sample whose requests were admitted in excess of the limit; NULL: none */
	int64_t read_bytes, mean_bytes; /* mean_bytes: mean size of recent objects; before the first object a large guess, so that few
	                                 * objects are requested */
	/* mean_count: number of objects that the mean is made of, at most 16; first_requests: number of objects requested before the first has arrived */
	int32_t mean_count, first_requests;
	int32_t cached_in_a_row, missing_in_a_row, misses;
	int64_t last_success_ns;           /* time at which a read last succeeded */
	bool some_read_ready;              /* whether some read has ended without blocking */
	bool some_read_postponed;          /* whether a worker has postponed a read until a request ends */
	int64_t last_delivery_ns, pace_ns; /* time at which the consumer took its last batch; nanoseconds per sample between its batches */
	int64_t deadline;                  /* deadline of the latest request that was submitted ahead */
	struct stk_read *reads;            /* [(index of the record * batch size + sample) * n + k] */
	int32_t n;                         /* number of reads of one sample */
	int32_t *readers;                  /* [k]: index of the reader whose bytes a sample's read k fetches */
	int32_t *index;                    /* [reader]: index k of the reader's read in a sample, or STK_FETCHES_NOTHING */
	size_t n_reads;
};

static inline struct stk_fetch *stk__fetch_of(const struct stk_sample_state *s)
{
	return s->record->pipeline->parts.fetch;
}

static inline bool stk__read_under_way(const struct stk_read *read)
{
	return read->state == STK_READ_ASKED || read->state == STK_READ_STALE;
}

static inline int32_t stk__read_parts(const struct stk_read *read)
{
	return read->sample->record->pipeline->program->readers[read->reader].parts;
}

static inline bool stk__chain_reads(const struct stk_chain *chain, const struct stk_read *read)
{
	return chain->reads >> read->reader & 1;
}

static inline const struct stk_chain *stk__sample_chain(const struct stk_sample_state *s, int32_t chain)
{
	return &s->record->pipeline->program->levels[s->record->level].chains[chain];
}

/* ---- fetch_read.c ---- */

/* Call these three functions with the pipeline's lock held. */
bool stk__read_has_buffers(const struct stk_read *read);                  /* returns whether the read has ended and holds io's buffers */
void stk__read_count(struct stk_pipeline *p, struct stk_read_request *q); /* counts the bytes of a request that has ended */
void stk__read_ended(struct stk_pipeline *p, struct stk_read *read);      /* ends the read, and makes the chains that wait for it ready */

/* Determines the sample's parts and the requests for them, which call `done` and report errors to `err` (nullable); submits nothing. */
void stk__read_plan(struct stk_read *read, void (*done)(struct stk_request *q), struct stk_error *err);
/* Plans the requests of a read again from the start if its object was replaced between two of them, a few times at most; all requests so far must have
 * ended. Returns whether it did. Call with the lock held. */
bool stk__read_plan_again(struct stk_read *read, void (*done)(struct stk_request *q));
/* Plans requests for further parts, whose positions are in the bytes read so far; all requests so far must have ended. Returns whether there are new requests,
 * which begin with number *first. Call with the lock held. */
bool stk__read_plan_more(struct stk_read *read, void (*done)(struct stk_request *q), int32_t *first);

/* ---- fetch_ahead.c ---- */
void stk__request_done(struct stk_request *q); /* called by io, on any thread, when a request has ended */
size_t stk__read_uri(const struct stk_read_request *q, char *uri, size_t capacity);
void stk__read_begin(struct stk_pipeline *p, struct stk_read_request *q);  /* marks the request as under way; call with the lock held */
void stk__read_submit(struct stk_pipeline *p, struct stk_read_request *q); /* call it after stk__read_begin, without the lock */
/* Makes io ask again for the requests that were not admitted; call with the lock held. */
void stk__fetch_ask_again(struct stk_fetch *f);
/* Sets the number of bytes that count as a request's: the size of the buffers that it has or may take. Call with the lock held. */
void stk__read_admit(struct stk_fetch *f, struct stk_read_request *q, size_t bytes);
/* Returns whether a request may now take buffers of `bytes` bytes; otherwise io asks again later. Called by io, without the lock. */
bool stk__fetch_admit(struct stk_admission *a, struct stk_request *io, size_t bytes);
bool stk__fetch_is_full(const struct stk_pipeline *p); /* whether no more requests should be submitted; call with the lock held */

#endif
