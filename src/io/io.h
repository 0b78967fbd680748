/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads bytes. A request names an object and a range; requests complete in any order, on any thread, each once. Local files are read in io/file.c; for
 * other schemes a source with the same interface is registered, such as http/http.h.
 *
 * Bytes are stored in pooled buffers. The caller limits the number of its requests and bytes in flight, and returns buffers with stk__buffer_release. */
#ifndef STK_IO_IO_H
#define STK_IO_IO_H

#include "io/histogram.h"
#include "stoker/storage.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct stk_io;
struct stk_buffer;
struct stk_access; /* io/access.h */
struct stk_request;

/* Properties of an object that a source reports along with the bytes. */
struct stk_object {
	int64_t size; /* size of the whole object in bytes; -1: not reported */
	/* a text that differs between versions of the object: its ETag or else the date of its last change; "" if the source reports neither */
	char version[128];
};

enum { STK_IO_BEFORE = 512 };

/* Limits the memory that a caller's requests for objects of unknown size allocate. */
struct stk_admission {
	/* Returns whether the request may hold buffers of `bytes` bytes in total. If false, the source stops reading and asks again when
	 * stk__io_admission_changed is called, and a few times a second. A smaller number than before is always admitted. Any thread. */
	bool (*admit)(struct stk_admission *a, struct stk_request *r, size_t bytes);
	/* The caller cannot continue until its requests whose `turn` is at most this number have ended. After a refusal, the source still asks for these
	 * requests, but for none of the caller's others, so that small requests do not overtake a large one. */
	_Atomic int64_t awaited;
};

/* The version of an object that was read, as its source reports it. */
struct stk_read_version {
	int64_t size; /* the object's size in bytes; 0: unknown or empty */
	uint64_t tag; /* hash of its ETag or version; 0: unknown */
	bool etag;    /* true if `tag` is the hash of an ETag, which may be compared with the ETag of a listing */
};

/* Says how a request treats an object, which may be a local file, whose version differs from the one that the caller expects. */
enum stk_pin {
	STK_PIN_NONE,  /* reads it */
	STK_PIN_INDEX, /* fails: offsets of an index, which other requests use too, are invalid */
	STK_PIN_READ,  /* fails and sets `replaced`: the bytes belong with those of an earlier answer, so the caller may begin again */
};

/* A request for bytes: what the caller asks for, the result, and members that io and the source use while the request is in flight. */
struct stk_request {
	/* the bytes that the caller asks for */
	const char *uri;        /* a path or scheme://...; must be valid until `done` is called */
	int64_t offset, length; /* length -1: to the end; an object that ends before offset + length is an error (STK_CORRUPT) */
	size_t max_bytes;       /* maximum number of bytes to read; a larger object or range fails with STK_LIMIT; 0: no limit */
	int64_t deadline;       /* time at which the bytes are needed (stk__clock_ns); of all callers' requests, the one with the earliest
			   * deadline starts first */
	void (*done)(struct stk_request *r); /* called on any thread, also inside submit; must not block; may free r */
	void *user;
	/* Returns the caller's memory for the bytes: at least `size` bytes and 64 more, or NULL if memory runs out. Called again if the object turns out to be
	 * larger: the bytes read so far are then copied from the previous memory, which must stay valid until the next call or the end of the request. May
	 * be NULL: then the bytes are stored in a pooled buffer. */
	uint8_t *(*allocate)(void *allocate_user, size_t size);
	void *allocate_user;
	struct stk_admission *admission; /* asked before memory is allocated; NULL: no limit */
	int64_t turn;                    /* number by which the caller waits for its requests; see admission->awaited */
	bool exact_size; /* only with `allocate`, for the pieces of io_split.c: the source must write nothing after `size` bytes, because the memory there
			  * belongs to the next piece */
	bool uncached;             /* true if the bytes are neither read from a cache nor stored in one */
	struct stk_object *object; /* filled by remote sources, with the bytes; nullable */
	struct {                   /* the version that the caller expects; a cached entry that differs is stale */
		int64_t size;      /* the object's size in bytes; 0: not known */
		uint64_t tag;      /* hash of its ETag; 0: not known */
		enum stk_pin pin;
	} expected;
	/* check: returns an error if the bytes are wrong; bytes of a source then make the request fail with that error, and bytes of the cache are read from
	 * the source instead. May be NULL. before: for local files, number of bytes before `offset` that are read too, for `check` only: at most
	 * STK_IO_BEFORE, and at most `offset`. Must be 0 for remote objects. */
	size_t before;
	enum stk_status (*check)(const struct stk_request *r, const uint8_t *before, const uint8_t *data, struct stk_error *err);

	/* the result */
	enum stk_status status;
	struct stk_buffer *buffer; /* released by the caller; NULL on failure, or if `allocate` returned the memory */
	const uint8_t *data;       /* `size` bytes, followed by 64 readable bytes */
	size_t size;
	/* Filled on failure, with the uri. If the caller set none and submitted the request, io allocates one, which the caller frees; NULL then means that
	 * the request was cancelled or memory ran out. */
	struct stk_error *error;
	int32_t retries; /* failures of the source so far; the caller sets 0 before stk__io_try or stk__io_submit, but not between them */
	struct stk_read_version got;
	bool no_retry; /* true if a retry would only repeat the error; set by the source */
	/* true if the error seems to concern only this object, since the source serves other requests; set by the source */
	bool object_fails;
	bool replaced; /* only with STK_PIN_READ: true if the object has another version, another size or fewer bytes than in the earlier answer */

	/* The members from here on belong to io, its cache and its sources. */
	_Atomic bool cancelled;
	/* times by stk__clock_ns: of the submission (0 for local files), and at which the source last began the request (0: not yet) */
	int64_t asked_ns, begun_ns;
	struct stk_request *next; /* next request in the list or queue that contains this one */
	void *source_data;        /* belongs to the queue or the source that holds the request */
	struct stk_split *split;  /* the pieces of a large request; used by io_split.c */
	struct {                  /* used by cache.c */
		enum stk_cached { STK_CACHE_UNASKED, STK_CACHE_MISSED, STK_CACHE_CLAIMED, STK_CACHE_LEFT_OUT } state;
		int32_t cache_waits;
		uint64_t store; /* hash of the store that holds the object */
	} cache;
	struct {                      /* used by retry.c */
		int64_t due_ns;       /* time at which the next try starts */
		int64_t pause_ns;     /* minimum time until the next try, which the server has asked for; set by the source */
		size_t refused_bytes; /* size of the buffers that were not admitted */
	} retry;
	struct {                            /* used by the source of http:// and s3:// */
		int64_t starved_ns;         /* time since which no descriptor has been free for the request; 0: it is not waiting */
		struct stk_request *joined; /* next request that the same answer of the server serves */
		bool unjoinable;            /* true if the request must not be joined with others again */
	} http;
};

/* Statistics that remote sources report. */
struct stk_source_facts {
	uint64_t hedges;    /* number of requests that were sent a second time because the answer was late */
	uint64_t slowdowns; /* number of times that a store asked for fewer requests */
	double limit;       /* current maximum number of requests under way */
};

/* A cache in front of the remote sources. */
struct stk_io_cache_ops {
	/* If r is cached and reading cannot block, fills in r and returns true; otherwise returns false and changes nothing. */
	bool (*try_now)(void *cache, struct stk_request *r);
	/* Ends r with stk__io_finish if it is cached; otherwise passes it to its source with stk__io_fetch. */
	void (*submit)(void *cache, struct stk_request *r);
	/* Stops r from waiting in the cache, so that the caller ends r. Returns false if r does not wait there. */
	bool (*cancel)(void *cache, struct stk_request *r);
	/* Called after r has ended and before its owner is notified. Offers the bytes to the cache; after an error, lets another request fetch them. */
	void (*take)(void *cache, struct stk_request *r, enum stk_status status);
	/* Called for a request in the state STK_CACHE_CLAIMED, before it ends: lets other requests fetch the same bytes. Any thread. */
	void (*unclaim)(void *cache, struct stk_request *r);
	void (*end)(void *cache);     /* cancels waiting requests */
	void (*destroy)(void *cache); /* called after the last request has ended */
};

/* A source of bytes. submit starts a request and returns at once. Each request ends with one call of stk__io_finish, also after cancel or
 * cancel_all (STK_CANCELLED). All functions may be called on any thread and concurrently, except destroy. */
struct stk_source_ops {
	const char *scheme; /* "file"; or several: "s3 http https"; or "*": every scheme that no other source reads */
	/* How failures of the source are retried: the number of retries (0: STK_IO_RETRIES; negative: none), and the random delay, which is less than
	 * backoff_ns * 2^n after n retries, and less than most_backoff_ns. backoff_ns 0: without a delay. */
	int32_t retries;
	int64_t backoff_ns, most_backoff_ns;
	bool lists;  /* true if the source answers stk__s3_list_uri requests of its schemes */
	bool remote; /* true if requests take long, so that pipelines have more of them under way */
	/* Reads at once if that cannot block, as from the page cache, fills in the request and returns true; stk__io_finish is then not called. Returns
	 * false if the request must be submitted. NULL if the source always blocks. */
	bool (*try_now)(void *source, struct stk_io *io, struct stk_request *r);
	void (*submit)(void *source, struct stk_io *io, struct stk_request *r);
	/* Returns whether the source is calling a user's function on this thread. NULL: the source calls no such function. */
	bool (*is_calling)(void *source);
	/* Ends this request if reading has not begun. The request may already have ended, or submit may be about to receive it, so submit
	 * checks r->cancelled under the lock that cancel takes. NULL: requests cannot be cancelled. */
	void (*cancel)(void *source, struct stk_request *r);
	/* Ends all waiting requests; reads in progress may still finish. No further request will be submitted. */
	void (*cancel_all)(void *source);
	/* Reads the environment again, before requests for URIs like this one. May block for seconds until keys are issued; `access`, which may be NULL,
	 * reports whether the user has interrupted that. Fails if the environment has no valid keys for the URI any more, and keeps the present ones for
	 * other callers. NULL: the source does not use the environment. */
	enum stk_status (*refresh)(void *source, const char *uri, const struct stk_access *access, struct stk_error *err);
	void (*allocate)(void *source);    /* tries requests again that were not admitted; may be NULL */
	uint64_t (*threads)(void *source); /* returns the number of threads for blocking reads started so far; NULL: no such threads */
	/* Returns a hash of the endpoint, which distinguishes stores in which the same URI names different objects. May be NULL, which stands for 0. */
	uint64_t (*endpoint_hash)(void *source, const char *uri);
	void (*describe)(void *source, const char *uri,
		struct stk_storage_report *out);                   /* fills in the endpoint and region for the URI; may be NULL */
	void (*facts)(void *source, struct stk_source_facts *out); /* adds the source's statistics to *out; may be NULL */
	/* Destroys the source. Called after the last request has finished. */
	void (*destroy)(void *source);
};

/* Returns the error to fill when the request fails. A request without an error gets one, which its owner frees; otherwise io would repeat the request to
 * learn the reason. NULL: out of memory. */
struct stk_error *stk__request_error(struct stk_request *r);
/* Returns STK_CANCELLED. Fills r->error if there is one. */
STK_MUST_USE enum stk_status stk__request_cancelled(struct stk_request *r);

/* Returns whether an answer has another version than the request expects; false if one of the two is not known. */
static inline bool stk__request_other_version(const struct stk_request *r)
{
	return r->expected.tag && r->got.tag && r->expected.tag != r->got.tag;
}

enum { STK_IO_RETRIES = 3 };
/* Returns whether the caller waits for r. If so, r->admission is asked about r even after it refused another request. r->admission must not be NULL. */
static inline bool stk__request_awaited(const struct stk_request *r)
{
	return r->turn <= atomic_load_explicit(&r->admission->awaited, memory_order_relaxed);
}
/* Returns whether a failure is a failure of the source, not of the object. io tries such requests again, and pipelines skip no sample because of it. */
bool stk__io_source_failed(enum stk_status status);

/* Returns STK_IO if got.size differs from expected.size; otherwise STK_OK, also if one of the sizes is not known. If the size is from a listing or an index
 * (no STK_PIN_READ), also returns STK_OK if the ETag differs too: then the object has been replaced and may have any size. */
STK_MUST_USE enum stk_status stk__io_check_size(struct stk_request *r, struct stk_error *err);
/* Runs r->check on the bytes that were read. If it refuses them, fills r->error and releases r->buffer. */
STK_MUST_USE enum stk_status stk__io_check_bytes(struct stk_request *r);

/* Ends a request, for sources: checks the object's size and version and the bytes as the request demands, sets the status, updates the counters and calls
 * r->done. On failure the source has filled r->error and released its buffer. A failure of the source is first retried, as often as its ops allow. Any other
 * failure is retried once if r had no error to fill, to learn the reason. */
void stk__io_finish(struct stk_io *io, struct stk_request *r, enum stk_status status);

/* Creates an io with a source for local files. `threads` bounds its threads for blocking reads, which start on first need. */
STK_MUST_USE enum stk_status stk__io_create(int threads, struct stk_io **out, struct stk_error *err);
/* Creates an io without sources; the first source added reads plain paths. */
STK_MUST_USE enum stk_status stk__io_make(struct stk_io **out, struct stk_error *err);
/* Cancels all requests, waits for them, and frees io. All buffers must have been released, except by second owners (stk__buffer_share). Accepts NULL. */
void stk__io_destroy(struct stk_io *io);

/* Registers a source for URIs that begin with one of its schemes; io owns the source from then on, also on failure. Plain paths and file:// go to the source
 * of local files. Call before the first request. */
STK_MUST_USE enum stk_status stk__io_add_source(struct stk_io *io, const struct stk_source_ops *ops, void *source, struct stk_error *err);

/* Lets the source of this URI read the environment again, for keys and endpoints, before further requests. Requests that have begun are not
 * affected. Fails if the environment has no valid keys for the URI although the source has some from before, which other callers continue to use. If there
 * have never been any, requests fail instead. Call on a thread that may call getenv. access: reports whether the user has interrupted; nullable. */
STK_MUST_USE enum stk_status stk__io_refresh(struct stk_io *io, const char *uri, const struct stk_access *access, struct stk_error *err);

/* Adds to a report what the source of this URI would use: endpoint, region and origin of the keys; and the servers' clock, INT64_MIN if it is not known. */
void stk__io_describe(struct stk_io *io, const char *uri, struct stk_storage_report *out);

/* Returns advice about a scheme that no source reads, for the end of a message; it begins with ": ". */
const char *stk__scheme_hint(const char *uri);
/* Returns advice about a URI of Azure's storage, for the end of a message; "" for other URIs. */
const char *stk__azure_hint(const char *uri);

/* Returns whether the source of a URI lists the objects below it in pages (stk__s3_list_uri). */
bool stk__io_lists(const struct stk_io *io, const char *uri);

bool stk__io_remote(const struct stk_io *io, const char *uri);

/* Tries to read without waiting. Returns true if r is complete, with or without success, and `done` is not called. Otherwise the caller must submit r,
 * because reading could block, the source failed (which r->retries counts), or the bytes in the cache are wrong (then r->uncached is set). */
bool stk__io_try(struct stk_io *io, struct stk_request *r);
/* Starts a request; r->done is called once. Any thread. Requests with the earliest deadline begin first. */
void stk__io_submit(struct stk_io *io, struct stk_request *r);
/* Makes io ask again whether waiting requests are admitted. Call when a caller has released bytes. Any thread, with any of the caller's locks held. */
void stk__io_admission_changed(struct stk_io *io);
/* Returns the mean time in ns between the ends of successful remote requests, of all callers together; 0: not known yet. Requests that the cache has
 * answered do not count. */
int64_t stk__io_pace_ns(struct stk_io *io);
/* Cancels a submitted request. If it has not begun, it ends with STK_CANCELLED within this call. It may already have ended; it must not be
 * submitted again before this returns. Any thread. */
void stk__io_cancel(struct stk_io *io, struct stk_request *r);

/* Returns a buffer of at least `size` bytes and 64 readable ones after them, or NULL if memory is short. Sizes are rounded up for reuse. Idle buffers are
 * freed while all buffers together exceed the peak use of the last few hundred calls plus 8 MiB, so that the memory of an unusually large object returns to
 * the system. Any thread. */
struct stk_buffer *stk__buffer_take(struct stk_io *io, size_t size);
uint8_t *stk__buffer_data(struct stk_buffer *b);
/* Returns memory for `size` bytes of r and 64 more: the caller's (r->allocate; *buffer is then NULL), or that of *buffer, which is taken from the pool,
 * also if r->allocate is set but other requests are joined with r. NULL: memory is short. */
uint8_t *stk__request_memory(struct stk_io *io, const struct stk_request *r, size_t size, struct stk_buffer **buffer);
/* Returns whether r may hold buffers of `bytes` bytes in total. Ranges were admitted before, and the caller's own memory needs no admission. */
bool stk__request_admitted(struct stk_request *r, size_t bytes);
size_t stk__buffer_rounded(size_t size);                 /* returns the capacity of a new buffer for `size` bytes */
size_t stk__buffer_capacity(const struct stk_buffer *b); /* returns the buffer's size in bytes, without the 64 readable bytes after it */
void stk__buffer_release(struct stk_buffer *b);          /* accepts NULL */
/* Adds a second owner, who must call release too, possibly after io was destroyed. Returns false if there are two owners already. Any thread. */
bool stk__buffer_share(struct stk_buffer *b);

/* Installs a cache, which io owns from then on. Call before the first request. */
void stk__io_use_cache(struct stk_io *io, const struct stk_io_cache_ops *ops, void *cache);
/* Passes r to its source. A cache calls this for requests that it cannot answer. */
void stk__io_fetch(struct stk_io *io, struct stk_request *r);
/* Lets other requests, of all processes, fetch the bytes that r is to fetch, if they wait for r. Sources call this for a request that does not continue because
 * its memory is not admitted, which may last until its caller continues: requests that wait for r could be those that its caller needs first. Call while
 * r is under way, on the thread that may end it. */
void stk__io_unclaim(struct stk_io *io, struct stk_request *r);
/* Submits r again at the time due_ns (stk__clock_ns). Returns false if r cannot wait because it is cancelled or io ends. */
bool stk__io_submit_at(struct stk_io *io, struct stk_request *r, int64_t due_ns);

/* For requests whose admission refused `bytes`: submits r again when they are admitted. admission_changes: the result of stk__io_admission_changes before the
 * refusal, so that a change in the meantime is not missed. Returns false like stk__io_submit_at. */
bool stk__io_await_admission(struct stk_io *io, struct stk_request *r, size_t bytes, uint64_t admission_changes);
uint64_t stk__io_admission_changes(struct stk_io *io);

struct stk_io_counters {
	uint64_t requests;  /* number of requests, and of pieces of large requests, that were submitted or completed by stk__io_try */
	uint64_t completed; /* number of requests that succeeded */
	uint64_t failed;    /* number of requests that failed or were cancelled */
	uint64_t bytes;     /* number of bytes that completed requests have read */
	uint64_t tried_now; /* number of requests completed by stk__io_try */
	uint64_t threads;   /* number of threads for blocking reads that were started so far */
	uint64_t buffers_bytes, buffers_peak_bytes; /* total size of the pool's buffers, used or idle: at present, and the maximum */
	/* remote, remote_bytes: numbers of successful requests that remote sources (not the cache) have answered, and of their bytes. retries: number of
	 * repeated requests to remote sources. in_flight: number of submitted requests, also for local files, that have not ended. For remote requests,
	 * latency is the time from the beginning of a request to its end, wait the time from submission to its beginning. */
	uint64_t remote, remote_bytes, retries, in_flight;
	struct stk_source_facts facts;
	struct stk_quantiles latency, wait;
};
void stk__io_counters(const struct stk_io *io, struct stk_io_counters *out);

#endif
