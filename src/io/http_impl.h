/* SPDX-License-Identifier: Apache-2.0
 * The inside of the source. A request waits in the source's queue; a loop takes it and gives it a transfer, which it keeps over resumptions:
 *
 *   queue -> loop takes it (http_loop.c) -> transfer: begin, header lines, body (http_transfer.c) -> verdict (http_verdict.c) -> stk__io_finish
 *                                                       ^                                               |
 *                                                       +-------------- a cut body, the rest ----------+
 */
#ifndef STK_IO_HTTP_IMPL_H
#define STK_IO_HTTP_IMPL_H

#include "io/curl.h"
#include "io/http.h"
#include "io/queue.h"
#include "io/s3.h"

#include <pthread.h>
#include <stdatomic.h>

enum { STK_HTTP_THREADS = 16, STK_HTTP_TEXT = 2048, STK_HTTP_RESUMES = 8, STK_HTTP_SLACK = 64, STK_HTTP_RECEIVE = 128 << 10 };

/* One snapshot of the environment; requests hold the one that they began with. */
struct stk_http_account {
	_Atomic int refs;
	struct stk_aws_settings aws;
	struct stk_error error; /* code not OK: what is wrong with the settings */
};

/* A bucket that lies in another region than the settings say. */
struct stk_http_region {
	struct stk_http_region *next;
	char bucket[256], region[64];
};

/* How soon answers come. */
struct stk_http_answers {
	double first_ns, spread_ns; /* mean time to the first byte, and mean deviation from it */
	int count;                  /* that they are made of */
};

struct stk_http_loop {
	struct stk_http_source *source;
	pthread_t thread;
	CURLM *multi;
	int epoll, event; /* event: written to wake the loop */
	int64_t round_ns; /* when it last had something to do */
	int64_t timer_ns; /* when curl wants to be called; -1: not */
	struct stk_transfer *active, *idle, *fed;
	int count;                       /* of active ones; with the source's lock */
	_Atomic bool look;               /* a request was cancelled */
	struct stk_http_answers answers; /* the source's, as they were when it last looked over its transfers */
	bool sleeping;                   /* with the source's lock: waits, and would take a request */
};

struct stk_http_source {
	struct stk_io *io;
	struct stk_source_ops ops;
	struct stk_http_settings settings;
	struct stk_curl curl;
	pthread_mutex_t lock; /* of all below */
	struct stk_request_queue queue;
	struct stk_http_account *account;
	pthread_t keeper; /* renews keys that expire */
	pthread_cond_t keeper_wake;
	bool keeper_runs;
	struct stk_http_region *regions;
	int64_t skew_s;                /* the servers' clock less ours */
	double limit;                  /* of requests under way */
	bool steady;                   /* the limit has been too high once */
	int64_t slowed_ns, changed_ns; /* when the limit was last halved, or last set */
	struct stk_http_window {
		int count;
		int64_t ns, bytes; /* of the requests that ended well in it */
		int64_t begun_ns;  /* its first end */
		bool limited;      /* others waited meanwhile */
	} window;
	double base_ns, base_size;  /* ns that a request takes if it waits for no other; the mean size then */
	double before, before_rate; /* limit and requests a ns, before the limit was last lowered; 0: it was not */
	unsigned windows;           /* since it is steady */
	struct stk_http_answers answers;
	int under_way, hedges;      /* requests; second transfers for them */
	uint64_t hedged, slowdowns; /* so far */
	_Atomic int64_t clock_s;    /* the servers' clock less ours, by the last answer; INT64_MIN: none has told */
	_Atomic uint64_t place;     /* hash of the current account's endpoint */
	bool cancelled;
	_Atomic bool ending;
	int loop_count; /* started */
	struct stk_http_loop loops[STK_HTTP_THREADS];
};

/* What the header of a response says. */
struct stk_http_response {
	int status;
	int64_t length;            /* of the body; -1: not told */
	int64_t first, last, size; /* Content-Range: of the bytes, and of the whole object; -1: not told */
	char etag[128], region[64];
	int64_t date; /* seconds since 1970; 0: not told */
};

struct stk_transfer {
	struct stk_transfer *next, *before;
	struct stk_transfer *twin; /* for the same request, on another connection; the one whose answer begins first goes on alone */
	struct stk_http_loop *loop;
	CURL *easy;
	struct curl_slist *headers;
	struct stk_http_target target;
	struct stk_http_account *account;
	struct stk_request *r; /* of several (r->follow) the first */
	int64_t first, length; /* the bytes that it asks for; length -1: to the end */
	int64_t begun_ns;
	struct stk_http_response response;
	char text[STK_HTTP_TEXT]; /* the beginning of an error's body */
	size_t text_size;
	char why[CURL_ERROR_SIZE];
	/* The object, over all responses. */
	struct stk_buffer *buffer; /* NULL where the request has room of its own */
	uint8_t *data;
	size_t capacity, used;
	int64_t expected; /* bytes that the request gets; -1: until the body ends */
	int64_t skip;     /* bytes of this body before those */
	char etag[128];   /* of the first response */
	int resumes;
	enum stk_status failed; /* a callback has filled the error, and stopped the transfer */
	bool complete;          /* a callback stopped it because it has all bytes */
	bool begun;             /* a byte of this response has come */
	int fd;                 /* its connection; -1: none yet */
	struct stk_transfer *next_fed;
	bool fed, eager;    /* bytes of the body have just come; the rest is taken piece by piece */
	int awaited;        /* bytes of the body that must be there before curl is called */
	int64_t awaited_ns; /* since when */
	int64_t window_ns;  /* since when `window_bytes` have come: a stall is measured in windows */
	size_t window_bytes;
};

/* http_transfer.c: on the loop's thread. */
struct stk_transfer *stk__transfer_create(struct stk_http_loop *l);
void stk__transfer_destroy(struct stk_transfer *t);
/* Sets t up for the request, or for the rest of its bytes, and adds it to the loop's curl. */
STK_MUST_USE enum stk_status stk__transfer_begin(struct stk_transfer *t);
/* Gives back what the transfer holds for its request; the bytes too, unless they were handed over. */
void stk__transfer_clear(struct stk_transfer *t);
/* Fails with STK_TIMEOUT where nothing has come for too long, else STK_OK. */
STK_MUST_USE enum stk_status stk__transfer_check_pace(struct stk_transfer *t, int64_t now);

/* http_rest.c: the rest of a body in one piece, on the loop's thread. connected: fd is its connection; used: by another transfer before. body_came: some of the
 * body's bytes. await: curl has handed over all that it has. look: what comes slowly is taken as it comes. */
void stk__rest_connected(struct stk_transfer *t, int fd, bool used);
void stk__rest_body_came(struct stk_transfer *t);
void stk__rest_await(struct stk_http_loop *l);
void stk__rest_look(struct stk_transfer *t, int64_t now);

/* http_verdict.c: what the end of a response means. STK_OK with *resume: the rest is to be asked for. */
STK_MUST_USE enum stk_status stk__http_verdict(struct stk_transfer *t, CURLcode code, bool *resume);
/* STK_CORRUPT: the object ends before the bytes that were asked for. */
STK_MUST_USE enum stk_status stk__http_say_short(const struct stk_transfer *t);

/* http_loop.c. */
STK_MUST_USE enum stk_status stk__http_loop_start(struct stk_http_loop *l, struct stk_http_source *s, struct stk_error *err);
void stk__http_loop_wake(struct stk_http_loop *l);
void stk__http_loop_join(struct stk_http_loop *l); /* ending is set */

/* http_hedge.c: second transfers for requests whose answers are late, on the loop's thread. */
void stk__hedge_learn(struct stk_http_source *s, int64_t first_byte_ns);
void stk__hedge_know(struct stk_http_loop *l); /* takes over what all loops have learnt */
/* Whether the answer of t, and of its twin if it has one, is late. */
bool stk__hedge_due(const struct stk_http_loop *l, const struct stk_transfer *t, int64_t now);
/* The other of the two has begun: this one is to be given up. */
bool stk__hedge_lost(const struct stk_transfer *t);

/* http_join.c: requests for bytes of one object that lie close together and are next in turn, as one. */

/* With the source's lock: takes those off the queue that go with r, and hangs them behind it. */
void stk__http_join(struct stk_request_queue *queue, struct stk_request *r);
/* The bytes from the first one's on that hold all of them; -1: to the object's end. */
int64_t stk__http_span(const struct stk_request *r);
bool stk__http_all_cancelled(const struct stk_request *r);
/* Ends each of them, with its part of the bytes. Those that an object's failure may not concern are asked for one by one. */
void stk__http_end_joined(struct stk_http_source *s, struct stk_request *r, const uint8_t *data, enum stk_status status);

/* http_share.c: the source, under its lock. The next request that a loop may begin, with those that go with it, or NULL: then it sleeps, and is woken for the
 * next. */
struct stk_request *stk__http_next(struct stk_http_source *s, struct stk_http_loop *l);
/* Whether one more second transfer may be under way: they are one in twenty, and none while servers ask for less. After true,
 * stk__http_end_hedge is called once. */
bool stk__http_begin_hedge(struct stk_http_source *s, int64_t now);
void stk__http_end_hedge(struct stk_http_source *s);
/* The loop sleeps no more: it asks for the next by itself. */
void stk__http_awake(struct stk_http_source *s, struct stk_http_loop *l);
/* One under way has ended. */
struct stk_http_end {
	bool well, slow; /* slow: the server asked for fewer */
	int64_t begun_ns, now_ns;
	size_t bytes;
};
void stk__http_ended(struct stk_http_source *s, struct stk_http_loop *l, const struct stk_http_end *e);
/* Where the bucket lies, as far as it is known; false: where the settings say. */
bool stk__http_region(struct stk_http_source *s, const char *bucket, char region[64]);
void stk__http_set_region(struct stk_http_source *s, const char *bucket, const char *region);
int64_t stk__http_now(struct stk_http_source *s); /* seconds since 1970 by the servers' clock */
void stk__http_set_now(struct stk_http_source *s, int64_t now);

/* http_keys.c: accounts, and the thread that renews their keys. */
struct stk_http_account *stk__http_read_account(const struct stk_aws_given *given);
struct stk_http_account *stk__http_account(struct stk_http_source *s); /* the caller's reference to the current one */
uint64_t stk__http_place(const struct stk_http_account *a);
void stk__http_account_unref(struct stk_http_account *a);
void stk__http_refresh(void *source, const char *uri);
void stk__http_keeper_join(struct stk_http_source *s); /* ending is set */
/* http_share.c; with the lock: a loop that sleeps, the least busy one; or NULL. */
struct stk_http_loop *stk__http_sleeping(struct stk_http_source *s);

#endif
