/* SPDX-License-Identifier: Apache-2.0
 * Structures and functions inside the HTTP source. A request waits in the source's queue until a loop takes it and starts a transfer for
 * it. The transfer continues if the request is resumed:
 *
 *   queue -> loop takes it (http_loop.c) -> transfer: a connection, the request, the response (http_transfer.c) -> verdict (http_verdict.c) -> stk__io_finish
 *                                                       ^                                                            |
 *                                                       +------------ rest of a cut body, or a redirect      ---------+
 *
 * A transfer uses its connection exclusively until its response has ended. */
#ifndef STK_HTTP_IMPL_H
#define STK_HTTP_IMPL_H

#include "base/memory.h"
#include "http/http.h"
#include "http/http_route.h"
#include "http/response.h"
#include "http/s3.h"
#include "io/curl.h"
#include "io/queue.h"
#include "io/version.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { STK_HTTP_TEXT = 2048, STK_HTTP_RESUMES = 8, STK_HTTP_MOVES = 5, STK_HTTP_SLACK = 64, STK_HTTP_SCRATCH = 64 << 10 };

/* One snapshot of the environment; each request refers to the snapshot with which it began. */
struct stk_http_account {
	_Atomic int refs;
	struct stk_aws_settings aws;
	struct stk_proxies proxies;
	struct stk_error error; /* error of the settings; code STK_OK if they are valid */
};

/* A bucket whose region differs from the one in the settings. */
struct stk_http_region {
	struct stk_http_region *next;
	char bucket[256], region[64];
};

/* Statistics of the time until answers begin. */
struct stk_http_statistics {
	double first_ns, spread_ns; /* mean time to the first byte, and mean deviation from it */
	int count;                  /* number of answers in these means */
};

struct stk_http_loop {
	struct stk_http_source *source;
	pthread_t thread;
	int epoll, event; /* epoll: descriptor of the epoll instance; event: of an eventfd that wakes the loop */
	int64_t round_ns; /* time at which epoll_wait last returned */
	/* active, idle: transfers that have a request, and those without one; ended: active transfers whose response has ended, before its result is decided */
	struct stk_transfer *active, *idle, *ended;
	struct stk_certificates *certificates;
	CURLSH *curl_share;            /* caches of DNS names and TLS sessions */
	struct stk_connection **by_fd; /* for each descriptor, the connection that receives its events; NULL: none */
	int fd_count;                  /* number of entries of by_fd */
	int connections;               /* number of open connections of all kinds */
	int fds, most_fds;             /* number of descriptors of connections and their dialers, and its maximum */
	int looking_up;                /* number of connections whose name curl is resolving */
	int64_t starved_until_ns;      /* no connections are opened before this time, since no descriptor was free for one */
	struct stk_connection *opening, *idle_connections; /* idle ones are sorted by their last use, the latest first */
	struct stk_dialer *dialers;                        /* dialers that no connection uses */
	int dialer_count;
	char *scratch;                  /* STK_HTTP_SCRATCH bytes, for input that cannot go directly into the object's memory */
	int count;                      /* number of active transfers; guarded by the source's lock */
	_Atomic bool look_at_cancelled; /* true if a request was cancelled since the loop last looked at its transfers */
	_Atomic int waiting_for_memory; /* number of transfers that wait until their bytes are admitted */
	_Atomic bool can_admit;         /* true if some of the transfers that wait for memory may be admitted now */
	struct stk_http_signer signer;
	struct stk_http_statistics statistics; /* the loop's copy of the source's statistics, updated by stk__hedge_copy_statistics */
	bool sleeping;                         /* true if the loop waits and would take a request; guarded by the source's lock */
};

struct stk_http_source {
	struct stk_io *io;
	struct stk_source_ops ops;
	struct stk_http_settings settings;
	int most_fds; /* maximum number of descriptors for the connections of one loop */
	int last_fd;  /* connections get no descriptor with this number or above */
	struct stk_curl curl;
	pthread_mutex_t pieces; /* guards the pieces of large requests (io/io_split.h) */
	pthread_mutex_t lock;   /* guards all members below */
	struct stk_request_queue queue;
	int64_t search_ns; /* while the limit is reached: time of the next search of the queue for a request that its caller waits for */
	struct stk_http_account *account;
	pthread_t keeper; /* the thread that renews keys before they expire */
	pthread_cond_t keeper_wake;
	bool keeper_runs;
	bool keys_refused; /* true if the store says that the account's keys have expired, although their date has not passed */
	struct stk_http_region *regions;
	/* difference in seconds between the servers' clock and this machine's, by which requests are signed; 0 until a server refuses one */
	int64_t skew_s;
	double limit;                  /* maximum number of requests under way */
	bool limit_was_exceeded;       /* true once the limit was too high; from then on it is adjusted and not doubled */
	int64_t slowed_ns, changed_ns; /* times at which the limit was last halved, and last set */
	struct stk_http_window {
		int count;
		int64_t ns, bytes; /* sums over the requests that succeeded in this window: time from begin to end in ns, and bytes */
		int64_t begun_ns;  /* time at which the first of these requests ended */
		bool limited;      /* true if other requests were waiting while the window's requests ran */
	} window;
	double base_ns, base_size; /* mean time in ns of requests that do not wait for each other, and their mean size in bytes */
	/* limit and requests per ns of the last window, if the limit was lowered after it; `last_limit` is 0 otherwise */
	double last_limit, last_limit_rate;
	unsigned windows; /* number of windows since `limit_was_exceeded` was set */
	struct stk_http_statistics statistics;
	int under_way, hedges; /* numbers of requests under way and of their second transfers */
	uint64_t requests, hedged_requests,
		slowdowns;              /* total numbers: requests; second transfers; times that a server asked for fewer requests */
	_Atomic int64_t clock_s;        /* servers' clock minus this machine's in seconds, by the last answer; INT64_MIN: not known */
	_Atomic uint64_t endpoint_hash; /* hash of the current account's endpoint */
	_Atomic bool heard; /* true if a server has answered: if one is silent later, the settings are probably not the reason */
	/* Maximum number of retries as long as no server has answered. unheard_waits: for requests that timed out; unheard_retries: for others. */
	int32_t unheard_retries, unheard_waits;
	/* One bit for each bucket or host, by hash: set if an object of it was read, so that a 403 concerns the object and not the credentials. */
	_Atomic uint64_t read_well;
	bool cancelled;
	_Atomic bool ending;
	int loop_count; /* number of loops that were started */
	struct stk_http_loop loops[STK_HTTP_THREADS];
};

struct stk_transfer {
	/* Fields that the loop reads for every transfer; they are next to each other, so that few cache lines are read. */
	struct stk_transfer *next;
	struct stk_transfer
		*twin; /* a second transfer for the same request, on another connection; when an answer begins, the other transfer stops */
	struct stk_request *r;             /* the request; if several were joined, the first (r->http.joined is the next) */
	struct stk_connection *connection; /* NULL: the transfer has no connection */
	struct stk_http_loop *loop;
	/* beginning of the present time window, at whose end stk__transfer_check_pace looks for a stall, or of the wait for memory */
	int64_t window_ns;
	int64_t awaited_ns;    /* time since which the transfer waits for more than one byte of the body */
	uint8_t resumes;       /* number of times that the rest of a cut body was requested */
	uint8_t hedges;        /* number of second transfers for the request */
	bool response_begun;   /* true if the first byte of this response has been received */
	bool has_body_memory;  /* true if the response's header was read, and memory was requested for its body */
	bool piecewise;        /* true if the rest of the body is read piece by piece (http_rest.c) */
	bool complete;         /* true if no more bytes are needed: all requested ones have come, or an error's body has filled `text` */
	bool waits_for_memory; /* true if the body is not read until its memory is admitted; the first bytes may be in `text` */
	bool starved;          /* true if no descriptor was free for the connection */
	bool stale;            /* true if the server may have closed the idle connection already; the request is then repeated */
	size_t window_bytes;   /* number of bytes received since `window_ns` */
	struct stk_transfer *previous;
	/* the object's bytes from all responses so far */
	uint8_t *data;
	size_t capacity, used;     /* size of the memory at `data`; number of bytes of the object in it */
	struct stk_buffer *buffer; /* NULL if the request's owner provides the memory */
	int64_t first, length;     /* requested range in bytes; length -1: to the end of the object */
	int64_t expected;          /* total number of bytes that the request receives; -1: not known before the body ends */
	/* value that `used` will have at the end of this body: `expected`, or less if a 206 answer contains only a part; -1: unknown */
	int64_t end_used;
	int64_t skip;        /* number of bytes of this body that precede the requested ones */
	int64_t object_size; /* size of the whole object in bytes, as the first response reported it; -1: unknown */
	int64_t begun_ns;    /* time at which a loop took the request, by stk__clock_ns */
	/* The request and its response. */
	struct stk_text request; /* the request as it is sent */
	size_t sent;             /* number of bytes of `request` that were sent */
	struct stk_response_reader response;
	struct stk_http_account *account;
	struct stk_http_target target;
	struct stk_route route;
	struct stk_text redirect_url; /* URL to which a redirect has led; "" if there was no redirect */
	int moves;                    /* number of redirects that were followed */
	char etag[128];               /* the first response's ETag, or without one its Last-Modified */
	/* How the transfer ended. */
	struct stk_transfer *next_ended;
	CURLcode code;            /* CURLE_OK: the response has ended properly */
	enum stk_status failed;   /* the failure, whose error is filled in; the response's rest is not read. STK_OK: none */
	char text[STK_HTTP_TEXT]; /* the beginning of an error's body, or body bytes of a transfer that waits for memory */
	size_t text_size;
	char reason[CURL_ERROR_SIZE];
};

/* http_transfer.c: make, begin, check and free transfers, on the loop's thread. */
struct stk_transfer *stk__transfer_create(struct stk_http_loop *l);
void stk__transfer_destroy(struct stk_transfer *t);
/* Requests the object, or the rest of its bytes. stk__transfer_ended is called once later, unless stk__transfer_stop is called before. */
STK_MUST_USE enum stk_status stk__transfer_begin(struct stk_transfer *t);
/* Detaches the transfer from its request: releases the account, empties the texts, and releases the buffer unless the request has it already. */
void stk__transfer_clear(struct stk_transfer *t);
/* Fills in the error and returns STK_TIMEOUT if the answer has not begun within first_byte_ms, or if fewer than 4 KiB of it have arrived in the last
 * stall_ms. A transfer that waits for memory is never late. */
STK_MUST_USE enum stk_status stk__transfer_check_pace(struct stk_transfer *t, int64_t now);

/* http_receive.c: receives responses, on the loop's thread. stk__transfer_receive reads and processes the bytes that have arrived. */
void stk__transfer_receive(struct stk_transfer *t);
/* Notes that the response has ended or cannot end. The loop handles that after it has served all ready descriptors. */
void stk__transfer_ended(struct stk_transfer *t, CURLcode code, const char *why);
/* Notes that the transfer's connection delivers nothing more. result: 0 (the server has ended its output), STK_BROKEN or STK_CUT. */
void stk__transfer_disconnected(struct stk_transfer *t, ssize_t result);
/* Asks again whether the bytes of a transfer that waits for memory are admitted, and continues if so. Returns false if they are not. */
bool stk__transfer_continue(struct stk_transfer *t);
/* Abandons the transfer and its connection. */
void stk__transfer_stop(struct stk_transfer *t);

/* The next four functions (http_rest.c) make a loop read the rest of a body in few pieces. They are called on the loop's thread.
 * stk__rest_pause returns the time in ns for which the loop waits between two reads so that more bytes arrive; 0: it does not wait.
 * stk__rest_is_worth_waiting returns whether bytes that have arrived may stay unread during such a pause. stk__rest_wait is called after a read: it sets
 * the number of bytes from which the socket counts as readable. stk__rest_check sets that number to 1 again if the body arrives slowly. */
int64_t stk__rest_pause(const struct stk_http_loop *l);
bool stk__rest_is_worth_waiting(const struct stk_transfer *t);
void stk__rest_wait(struct stk_transfer *t);
void stk__rest_check(struct stk_transfer *t, int64_t now);

/* http_verdict.c: decides the result of a transfer that has ended. If the transfer must begin again, sets *resume and returns STK_OK. */
STK_MUST_USE enum stk_status stk__http_verdict(struct stk_transfer *t, bool *resume);
/* Fills in the error of an answer that did not begin in time. */
STK_MUST_USE enum stk_status stk__http_fail_silent(struct stk_transfer *t);
/* Returns whether a failure of the source seems to concern only this object: some server has answered before, this request was sent, and the answer is no
 * redirect and no refusal (300 to 499, except 408 and 429). */
bool stk__http_object_fails(const struct stk_transfer *t);
/* Returns STK_CORRUPT: the object ends before the last requested byte. */
STK_MUST_USE enum stk_status stk__http_fail_short(const struct stk_transfer *t);

/* http_loop.c: start a loop with its thread, wake it, and wait for its end. */
STK_MUST_USE enum stk_status stk__http_loop_start(struct stk_http_loop *l, struct stk_http_source *s, struct stk_error *err);
void stk__http_loop_wake(struct stk_http_loop *l);
void stk__http_loop_join(struct stk_http_loop *l); /* call after `ending` was set */

/* http_hedge.c: second transfers for requests with late answers, on the loop's thread. stk__hedge_add_time adds the time to an answer's first byte to the
 * source's statistics. */
void stk__hedge_add_time(struct stk_http_source *s, int64_t first_byte_ns);
void stk__hedge_copy_statistics(struct stk_http_loop *l); /* copies the statistics that all loops have gathered */
/* Returns whether t's request should get another second transfer: this is t's first response, no byte of it has been received, the answers of t and of its
 * twin are late, enough answers were measured to judge that, and the request has had fewer second transfers than the limit. */
bool stk__hedge_due(const struct stk_http_loop *l, const struct stk_transfer *t, int64_t now);

/* http_join.c: joins requests for neighbouring bytes of one object that are next in the queue. */

/* Removes the requests that can be joined with r from the queue and links them to r. Call with the source's lock held. */
void stk__http_join(struct stk_request_queue *queue, struct stk_request *r);
/* Returns the number of bytes, from the first request's offset on, that contain all joined requests; -1: to the object's end. */
int64_t stk__http_span(const struct stk_request *r);
bool stk__http_all_cancelled(const struct stk_request *r);
/* Ends each joined request with its part of the bytes. After a failure of the object, sends the requests again one by one, since perhaps only some of their
 * ranges fail. */
void stk__http_end_joined(struct stk_http_source *s, struct stk_request *r, const uint8_t *data, enum stk_status status);

/* http_share.c: the source's shared state; functions take its lock unless a comment says otherwise. stk__http_next returns the next request for a loop, with
 * the requests joined to it, or NULL if none may begin now. If the loop has room for a request, it then counts as sleeping, and the next request wakes it. */
struct stk_request *stk__http_next(struct stk_http_source *s, struct stk_http_loop *l);
/* Returns whether a loop that has room would begin r now. Call with the lock held. */
bool stk__http_may_begin(const struct stk_http_source *s, const struct stk_request *r);
/* Puts requests that found no free descriptor back into the queue. One that has waited for a descriptor for longer than first_byte_ms fails. */
void stk__http_requeue(struct stk_http_source *s, struct stk_http_loop *l, struct stk_request *r, int64_t now);
/* Returns whether one more second transfer may begin. If so, counts it; the caller then calls stk__http_end_hedge once. The total number is limited to four
 * plus a twentieth of all requests so far, and the number at a time to two plus a twentieth of the requests under way. None may begin with no_hedging, or
 * within five seconds after a server asked for fewer requests. */
bool stk__http_begin_hedge(struct stk_http_source *s, int64_t now);
void stk__http_end_hedge(struct stk_http_source *s);
/* Notes that the loop is awake and asks for the next request itself. */
void stk__http_awake(struct stk_http_source *s, struct stk_http_loop *l);
struct stk_http_end {
	bool well, slow;          /* well: the request succeeded; slow: the server asked for fewer requests */
	int64_t begun_ns, now_ns; /* times at which a loop took the request, and at which the request ended */
	size_t bytes;             /* number of the object's bytes that were received */
};
/* Records that a request under way has ended: adapts the limit of requests under way, and wakes a sleeping loop if another request may begin. */
void stk__http_ended(struct stk_http_source *s, struct stk_http_loop *l, const struct stk_http_end *e);
/* Copies the bucket's region if an answer has shown that it differs from the one in the settings; otherwise returns false. */
bool stk__http_region(struct stk_http_source *s, const char *bucket, char region[64]);
void stk__http_set_region(struct stk_http_source *s, const char *bucket, const char *region);
int64_t stk__http_now(struct stk_http_source *s); /* returns the time by the servers' clock, in seconds since 1970 */
void stk__http_set_now(struct stk_http_source *s, int64_t now);

/* http_keys.c: accounts, and the thread that renews their keys. */
struct stk_http_account *stk__http_read_account(const struct stk_http_settings *settings);
struct stk_http_account *stk__http_account(struct stk_http_source *s); /* returns a new reference to the current account */
uint64_t stk__http_endpoint_hash(const struct stk_http_account *a);
void stk__http_account_unref(struct stk_http_account *a);
STK_MUST_USE enum stk_status stk__http_refresh(void *source, const char *uri, const struct stk_access *access, struct stk_error *err);
void stk__http_keeper_join(struct stk_http_source *s); /* call after `ending` was set */
/* Handles a store's report that the account's keys have expired: has new keys requested soon. Returns false if the keys do not expire, or no
 * thread renews them. */
bool stk__http_keys_refused(struct stk_http_source *s, const struct stk_http_account *a);
/* http_share.c: returns the sleeping loop with the fewest transfers, or NULL. Call with the lock held. */
struct stk_http_loop *stk__http_sleeping(struct stk_http_source *s);

#endif
