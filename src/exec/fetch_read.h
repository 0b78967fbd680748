/* SPDX-License-Identifier: Apache-2.0
 *
 * What fetch.c, fetch_ahead.c and fetch_read.c share, and no other file sees. */
#ifndef STK_EXEC_FETCH_READ_H
#define STK_EXEC_FETCH_READ_H

#include "exec/fetch.h"

enum { STK_FETCHES_NOTHING = -1, STK_NO_REQUEST = -1 };

enum stk_read_state {
	STK_READ_NONE,  /* not begun */
	STK_READ_TRIED, /* a worker tries what cannot block */
	STK_READ_ASKED, /* requests are under way */
	STK_READ_STALE, /* under way for nobody: the sample was replaced meanwhile, and is read anew when they have ended */
	STK_READ_DONE,
};

struct stk_read_request {
	struct stk_request io;
	struct stk_read *read;
	struct stk_error *error; /* io writes to it while the request is under way; NULL until one has failed */
	char *uri;               /* of a submitted request; kept for the next batch */
	size_t uri_room;
	int64_t uri_number;
	bool under_way;   /* submitted, and not ended: what can be cancelled */
	int64_t asked_ns; /* when it was submitted; in traces */
	size_t admitted;  /* bytes of buffers that it holds or may hold; 0 while it is under way: its size is not known yet */
};

struct stk_read_part {
	int32_t request; /* whose bytes hold it; STK_NO_REQUEST: it has none */
	size_t begin;    /* of the part, in the request's bytes */
	int64_t length;  /* -1: all of them */
	/* A copy in pinned memory, or NULL. Several chains may write it at once. */
	_Atomic(const uint8_t *) pinned;
	_Atomic bool lent; /* a stretch of it was given to the GPU, in a copy */
};

/* What one reader fetches for one sample. */
struct stk_read {
	struct stk_sample_state *sample;
	enum stk_read_state state;
	int32_t reader;
	int64_t id;   /* of the sample among the reader's */
	int32_t left; /* requests under way */
	int32_t n_requests;
	struct stk_read_request *requests; /* room for a request a part */
	struct stk_read_part *parts;
};

struct stk_fetch {
	bool ahead;     /* a read would have blocked: requests go out before workers come to them */
	int64_t read_k; /* the next to ask for */
	int32_t read_i, read_j;
	int32_t in_flight, in_callbacks, held; /* requests; threads inside request_done; reads whose bytes are held */
	int32_t early;                         /* of these, of batches that are not open yet */
	struct stk_admission admission;
	struct stk_pipeline *pipeline;
	int64_t admitted;                    /* bytes of all reads' buffers, here or on their way */
	int32_t unknown;                     /* requests under way whose size is not known */
	bool refused;                        /* some request waits to be admitted */
	const struct stk_sample_state *over; /* the sample that was admitted though there was no room; NULL: none */
	int64_t bytes_held, mean_bytes;      /* mean: of recent objects; large before the first, so that few are asked for */
	int32_t sized, expected;             /* objects that the mean is of, at most 16; before the first, that are asked for */
	int32_t cached_in_a_row, missing_in_a_row, misses;
	int64_t read_well_ns;      /* when a read last brought its bytes */
	bool seen_at_hand;         /* some read has been */
	bool put_off;              /* a worker has left a read for when a request has ended */
	int64_t taken_ns, pace_ns; /* when the consumer took its last batch; time for a sample from one batch to the next */
	int64_t deadline;          /* of what was last asked for ahead */
	struct stk_read *reads;    /* [(place of the batch * batch + sample) * n + k] */
	int32_t n;                 /* reads of a sample */
	int32_t *readers;          /* [k]: the reader */
	int32_t *index;            /* [reader]: k; or STK_FETCHES_NOTHING */
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

/* fetch_read.c; with the lock. count: adds up what a request brought. ended: a read has ended, and chains that waited for it become ready. */
bool stk__read_is_held(const struct stk_read *read);
void stk__read_count(struct stk_pipeline *p, struct stk_read_request *q);
void stk__read_ended(struct stk_pipeline *p, struct stk_read *read);

/* Which parts the sample has, and the requests for them; nothing is asked for yet. */
void stk__read_plan(struct stk_read *read, void (*done)(struct stk_request *q), struct stk_error *err);

/* fetch_ahead.c */
void stk__request_done(struct stk_request *q); /* one that io took has ended; on any thread */
size_t stk__read_uri(const struct stk_read_request *q, char *uri, size_t capacity);
void stk__read_begin(struct stk_pipeline *p, struct stk_read_request *q);            /* with the lock: it is under way */
void stk__read_submit(struct stk_pipeline *p, struct stk_read_request *q);           /* then, without it */
void stk__read_admit(struct stk_fetch *f, struct stk_read_request *q, size_t bytes); /* with the lock: so many bytes are its buffers' */
bool stk__fetch_admit(struct stk_admission *a, struct stk_request *io, size_t bytes);
bool stk__fetch_is_full(const struct stk_pipeline *p); /* with the lock: no more should be asked for */

#endif
