/* SPDX-License-Identifier: Apache-2.0
 * The inside of the source. A request waits in the source's queue; a loop takes it and gives it a transfer, which it keeps over resumptions:
 *
 *   queue -> loop takes it (http_loop.c) -> transfer: a connection, the request, the response (http_transfer.c) -> verdict (http_verdict.c) -> stk__io_finish
 *                                                       ^                                                            |
 *                                                       +------------ a cut body's rest, a redirect's place ---------+
 *
 * A transfer has a connection to itself until its response has ended. */
#ifndef STK_IO_HTTP_IMPL_H
#define STK_IO_HTTP_IMPL_H

#include "base/memory.h"
#include "io/curl.h"
#include "io/http.h"
#include "io/http_route.h"
#include "io/queue.h"
#include "io/response.h"
#include "io/s3.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { STK_HTTP_TEXT = 2048, STK_HTTP_RESUMES = 8, STK_HTTP_MOVES = 5, STK_HTTP_SLACK = 64, STK_HTTP_SCRATCH = 64 << 10 };

/* One snapshot of the environment; requests hold the one that they began with. */
struct stk_http_account {
	_Atomic int refs;
	struct stk_aws_settings aws;
	struct stk_proxies proxies;
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
	int epoll, event; /* event: written to wake the loop */
	int64_t round_ns; /* when it last had something to do */
	struct stk_transfer *active, *idle, *ended;
	struct stk_certificates *certificates;
	CURLSH *share;                                     /* names, and sessions of TLS */
	struct stk_connection **by_fd;                     /* whose events those of a descriptor are */
	int fd_count;                                      /* of by_fd */
	int connections;                                   /* of all kinds */
	int fds, most_fds;                                 /* descriptors that connections and their dialers hold; as many as they may */
	int looking_up;                                    /* connections for which curl looks up a name */
	int64_t starved_until_ns;                          /* there was no descriptor for a connection: none is opened before then */
	struct stk_connection *opening, *idle_connections; /* the latter by when they were last used */
	struct stk_dialer *dialers;                        /* that nobody uses */
	int dialer_count;
	char *scratch;         /* STK_HTTP_SCRATCH bytes: for what does not go to its place at once */
	int count;             /* of active ones; with the source's lock */
	_Atomic bool look;     /* a request was cancelled */
	_Atomic int held_back; /* transfers that wait until their bytes are admitted */
	_Atomic bool room;     /* some may be */
	struct stk_http_signer signer;
	struct stk_http_answers answers; /* the source's, as they were when it last looked over its transfers */
	bool sleeping;                   /* with the source's lock: waits, and would take a request */
};

struct stk_http_source {
	struct stk_io *io;
	struct stk_source_ops ops;
	struct stk_http_settings settings;
	int most_fds; /* descriptors of one loop's connections */
	int last_fd;  /* connections take no descriptor from this one on */
	struct stk_curl curl;
	pthread_mutex_t lock; /* of all below */
	struct stk_request_queue queue;
	struct stk_http_account *account;
	pthread_t keeper; /* renews keys that expire */
	pthread_cond_t keeper_wake;
	bool keeper_runs;
	bool keys_refused; /* the store says that the account's keys have expired, whatever they say of themselves */
	struct stk_http_region *regions;
	int64_t skew_s;                /* the servers' clock less ours */
	double limit;                  /* of requests under way */
	bool steady;                   /* the limit has been too high once: from then on it is adjusted instead of doubled */
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
	int under_way, hedges;             /* requests; second transfers for them */
	uint64_t asked, hedged, slowdowns; /* so far: requests, second transfers for them, and how often a server asked for fewer */
	_Atomic int64_t clock_s;           /* the servers' clock less ours, by the last answer; INT64_MIN: none has told */
	_Atomic uint64_t place;            /* hash of the current account's endpoint */
	_Atomic bool heard; /* some server has answered: one that does not is out of order, and not a mistake of the user's */
	/* Until then: how often a request is retried that could not be sent or got an invalid answer, and how often one that timed out. */
	int32_t unheard_retries, unheard_waits;
	/* A bit for each bucket or host (by hash) from which an object has been read: a 403 from there concerns the object, not the
	 * credentials. */
	_Atomic uint64_t read_well;
	bool cancelled;
	_Atomic bool ending;
	int loop_count; /* started */
	struct stk_http_loop loops[STK_HTTP_THREADS];
};

struct stk_transfer {
	/* Fields that the loop reads for every transfer; they fill one cache line. */
	struct stk_transfer *next;
	struct stk_transfer *twin; /* for the same request, on another connection; the one whose answer begins first goes on alone */
	struct stk_request *r;     /* of several (r->follow) the first */
	struct stk_connection *connection; /* NULL: none */
	struct stk_http_loop *loop;
	int64_t window_ns;  /* since when `window_bytes` have come: a stall is measured in windows */
	int64_t awaited_ns; /* since when more than a byte of it is awaited */
	uint8_t resumes;
	uint8_t hedges; /* second transfers that its request has had */
	bool begun;     /* a byte of this response has come */
	bool placed;    /* its header was read, and its body has a place */
	bool eager;     /* the rest is taken piece by piece */
	bool complete;  /* all bytes have come, and more would */
	bool held_back; /* nothing is read of its body until its bytes are admitted; what came with the header is in `text` */
	bool starved;   /* there was no descriptor for its connection */
	bool stale;     /* the server may have closed the idle connection before the request reached it: it is sent again on a new one */
	size_t window_bytes;
	struct stk_transfer *before;
	/* The object, over all responses. */
	uint8_t *data;
	size_t capacity, used;
	struct stk_buffer *buffer; /* NULL where the request has room of its own */
	int64_t first, length;     /* the bytes that it asks for; length -1: to the end */
	int64_t expected;          /* bytes that the request gets; -1: until the body ends */
	int64_t until;             /* `used` when this body has ended: all that is expected, or the part that a 206 brings; -1: not known */
	int64_t skip;              /* bytes of this body before those */
	int64_t object_size;       /* as the first response told it; -1: not */
	int64_t begun_ns;
	/* The request and its response. */
	struct stk_text request; /* as it goes out */
	size_t sent;             /* of it */
	struct stk_response_reader response;
	struct stk_http_account *account;
	struct stk_http_target target;
	struct stk_route route;
	struct stk_text moved; /* where a redirect leads; "" where none has come */
	int moves;
	char etag[128]; /* of the first response; where it has none, when the object last changed, which stands for one */
	/* How it ended. */
	struct stk_transfer *next_ended;
	CURLcode code;
	enum stk_status failed;   /* the error is filled, and the response not read any more */
	char text[STK_HTTP_TEXT]; /* the beginning of an error's body, or what came of one that is held back */
	size_t text_size;
	char why[CURL_ERROR_SIZE];
};

/* Where a failure of its request is told. A request that came without an error gets one, which its owner frees: io would ask once more for a failure that
 * nobody can hear of. NULL: no memory. */
static inline struct stk_error *stk__transfer_error(const struct stk_transfer *t)
{
	if (!t->r->error)
		t->r->error = stk__calloc(1, sizeof *t->r->error);
	return t->r->error;
}

/* http_transfer.c: on the loop's thread. */
struct stk_transfer *stk__transfer_create(struct stk_http_loop *l);
void stk__transfer_destroy(struct stk_transfer *t);
/* Asks for the object, or for the rest of its bytes. Then stk__transfer_ended is called once, if not stk__transfer_stop. */
STK_MUST_USE enum stk_status stk__transfer_begin(struct stk_transfer *t);
/* Gives back what the transfer holds for its request; the bytes too, unless they were handed over. */
void stk__transfer_clear(struct stk_transfer *t);
/* Fails with STK_TIMEOUT where nothing has come for too long, else STK_OK. */
STK_MUST_USE enum stk_status stk__transfer_check_pace(struct stk_transfer *t, int64_t now);

/* http_receive.c: responses, on the loop's thread. Takes what has come. */
void stk__transfer_receive(struct stk_transfer *t);
/* The response has ended, or never will. The loop looks at it when it has served all that is ready. */
void stk__transfer_ended(struct stk_transfer *t, CURLcode code, const char *why);
/* Nothing more comes over its connection. how: 0, STK_BROKEN or STK_CUT. */
void stk__transfer_disconnected(struct stk_transfer *t, ssize_t how);
/* Asks again whether the bytes of one that is held back are admitted, and goes on then. False: they are not. */
bool stk__transfer_go_on(struct stk_transfer *t);
/* Gives it up, and with it the connection. */
void stk__transfer_stop(struct stk_transfer *t);

/* http_rest.c takes the rest of a body in few pieces, on the loop's thread. await: after a read, sets the socket's low-water mark. look:
 * removes it for a body that arrives slowly. is_worth_awaiting: pieces that have arrived may wait for more. pause: ns between two looks at
 * what has arrived; 0: none. */
int64_t stk__rest_pause(const struct stk_http_loop *l);
bool stk__rest_is_worth_awaiting(const struct stk_transfer *t);
void stk__rest_await(struct stk_transfer *t);
void stk__rest_look(struct stk_transfer *t, int64_t now);

/* http_verdict.c: what the end of a response means. STK_OK with *resume: the transfer is to begin again. */
STK_MUST_USE enum stk_status stk__http_verdict(struct stk_transfer *t, bool *resume);
/* No answer has begun within its time: the error. */
STK_MUST_USE enum stk_status stk__http_say_silent(struct stk_transfer *t);
/* Of a failure of the source: whether it concerns this object alone, as far as one request can tell: other requests have been answered, this one has been sent,
 * and what came is no refusal of who asks. */
bool stk__http_object_fails(const struct stk_transfer *t);
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
/* Requests for which there was no descriptor wait in the queue again. One that has waited for longer than for an answer ends with an error. */
void stk__http_put_back(struct stk_http_source *s, struct stk_http_loop *l, struct stk_request *r, int64_t now);
/* Whether one more second transfer may begin: they are one in twenty of all requests so far, and none while servers ask for less. After true,
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
void stk__http_refresh(void *source, const char *uri, const struct stk_access *access);
void stk__http_keeper_join(struct stk_http_source *s); /* ending is set */
/* The store says that the account's keys have expired: asks for new ones soon. False: nobody issues them. */
bool stk__http_keys_refused(struct stk_http_source *s, const struct stk_http_account *a);
/* http_share.c; with the lock: a loop that sleeps, the least busy one; or NULL. */
struct stk_http_loop *stk__http_sleeping(struct stk_http_source *s);

#endif
