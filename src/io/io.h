/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads bytes. A request names an object and a range; requests complete in any order, on any thread, each once. Local files are read here; other
 * schemes register a source with the same interface (http/http.h).
 *
 * Bytes are stored in pooled buffers. The submitter bounds the bytes and requests in flight, and returns buffers with stk__buffer_release. */
#ifndef STK_IO_IO_H
#define STK_IO_IO_H

#include "io/histogram.h"
#include "stoker/storage.h"

#include <stdbool.h>
#include <stddef.h>

struct stk_io;     /* threads, sources by scheme, buffers */
struct stk_buffer; /* pooled */
struct stk_access; /* io/access.h */
struct stk_request;

/* Properties of an object that a source reports along with the bytes. */
struct stk_object {
	int64_t size; /* bytes of the whole object; -1: not reported */
	/* a text that differs between versions of the object: its ETag or else the date of its last change; "" if the source reports neither */
	char version[128];
};

enum { STK_IO_BEFORE = 512 };

/* Limits the memory that a caller's requests for objects of unknown size allocate. */
struct stk_admission {
	/* Returns whether the request may hold buffers of `bytes` in total. If false, the source stops reading and asks again when
	 * stk__io_admission_changed is called, and a few times a second. A decrease is always admitted. Any thread. */
	bool (*admit)(struct stk_admission *a, struct stk_request *r, size_t bytes);
};

/* A request for bytes: what the caller asks for, the result, and members that io and the source use while the request is in flight. */
struct stk_request {
	/* the bytes that the caller asks for */
	const char *uri;        /* path or scheme://...; must live until done */
	int64_t offset, length; /* length -1: to the end; an object that ends before offset + length is an error (STK_CORRUPT) */
	size_t max_bytes; /* most bytes that may be read: if the object or the range has more, the request ends with STK_LIMIT; 0: no limit */
	int64_t deadline; /* when the bytes are needed, by stk__clock_ns: the earliest of all callers' requests starts first */
	void (*done)(struct stk_request *r); /* called on any thread, also inside submit; must not block; may free r */
	void *user;
	/* Returns the caller's memory for the bytes: at least `size` bytes and 64 more, or NULL if memory runs out. Called again if the object turns out to be
	 * larger: the bytes read so far are then copied from the previous memory, which must stay valid until the next call or the end of the request. May
	 * be NULL: then the bytes are stored in a pooled buffer. */
	uint8_t *(*allocate)(void *allocate_user, size_t size);
	void *allocate_user;
	struct stk_admission *admission; /* asked before memory is taken; NULL: memory is taken without asking */
	bool exact_size; /* only with `allocate`: the source must not write past `size`, since the memory there is in use; for the pieces of
	            * io_split.c */
	bool uncached;   /* neither read from a cache nor stored in one */
	struct stk_object *object; /* filled by remote sources, with the bytes; nullable */
	/* The version that the caller expects: the object's size and the hash of its ETag if known, else 0. A cached entry that differs from either is
	 * stale. */
	int64_t object_size;
	uint64_t object_tag;
	bool pinned; /* an object with another object_tag is an error, not a newer version; also for local files that have a tag */
	/* check: checks the bytes; if it returns an error for bytes of the source, the request fails with that error; for bytes of the cache, they are read
	 * from the source instead. Nullable. before: for local files, how many bytes before `offset` are read too, for `check` only: at most STK_IO_BEFORE, and
	 * at most `offset`. For remote objects it must be 0. */
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
	int32_t retries; /* failures of the source so far; the caller sets it to 0, and does not change it between a try and submit */
	/* Set by the source: the object's size in bytes, and the hash of its ETag or version, at the time of the read. 0: unknown, or, for the size, an
	 * empty object. */
	int64_t got_size;
	uint64_t got_tag;
	bool got_etag; /* got_tag is the hash of an ETag, which may be compared with the ETag of a listing */
	bool no_retry; /* set by the source along with an error that a retry would only repeat */
	/* set by the source along with an error that seems to concern only this object, since it serves other requests */
	bool object_fails;

	/* The fields from here on belong to io and its parts. */
	_Atomic bool cancelled;
	/* time of submission (0 for local files), and when its source last began it (0: not yet), by stk__clock_ns */
	int64_t asked_ns, begun_ns;
	struct stk_request *next; /* next request in the list or queue that holds this one */
	void *source_data;        /* belongs to the queue or the source that holds the request */
	struct stk_split *split;  /* the pieces of a large request; used by io_split.c */
	struct {                  /* used by cache.c */
		enum stk_cached { STK_CACHE_UNASKED, STK_CACHE_MISSED, STK_CACHE_CLAIMED, STK_CACHE_LEFT_OUT } state;
		int32_t cache_waits;
		uint64_t store; /* hash of the store that holds the object */
	} cache;
	struct {                      /* used by retry.c */
		int64_t due_ns;       /* when the next try starts */
		size_t refused_bytes; /* bytes that were not admitted */
	} retry;
	struct {                            /* used by the source of http:// and s3:// */
		int64_t starved_ns;         /* since when no descriptor has been free for it; 0: not waiting for one */
		struct stk_request *joined; /* the next of the requests that one answer of the server serves */
		bool unjoinable;            /* must not be joined with other requests again */
	} http;
};

/* Statistics that remote sources report. */
struct stk_source_facts {
	uint64_t hedges;    /* how often a request was sent a second time because its answer was late */
	uint64_t slowdowns; /* how often a store asked for fewer requests */
	double limit;       /* current limit of requests under way */
};

/* A cache in front of the remote sources. */
struct stk_io_cache_ops {
	/* Fills r in if it is cached and reading cannot block; otherwise returns false and changes nothing. */
	bool (*try_now)(void *cache, struct stk_request *r);
	/* Ends r with stk__io_finish if it is cached, else passes it to its source with stk__io_fetch. */
	void (*submit)(void *cache, struct stk_request *r);
	/* Returns false if r does not wait in the cache; otherwise the caller ends r. */
	bool (*cancel)(void *cache, struct stk_request *r);
	/* Called after r has ended and before its owner is notified. Offers the bytes to the cache; if `status` is an error, lets another request fetch
	 * them. */
	void (*take)(void *cache, struct stk_request *r, enum stk_status status);
	void (*end)(void *cache);     /* cancels waiting requests */
	void (*destroy)(void *cache); /* after the last request has ended */
};

/* A source of bytes. submit starts a request and returns at once. Each request ends with one call of stk__io_finish, also after cancel or
 * cancel_all (STK_CANCELLED). All functions may be called on any thread and concurrently, except destroy. */
struct stk_source_ops {
	const char *scheme; /* "file"; several schemes are separated by blanks: "s3 http https"; "*": every scheme that no other source
	                     * reads */
	/* How failures of the source are retried: the number of retries (0: STK_IO_RETRIES; negative: none), and the random delay, which is less than
	 * backoff_ns * 2^n after n retries, and less than most_backoff_ns. backoff_ns 0: without a delay. */
	int32_t retries;
	int64_t backoff_ns, most_backoff_ns;
	bool lists;  /* answers stk__s3_list_uri requests of its schemes */
	bool remote; /* every request takes long: pipelines keep more of them under way */
	/* Reads now if that cannot block (page cache); returns false if the request must be submitted. If it returns true, the request is filled in and
	 * stk__io_finish is not called. NULL if the source can never do so. */
	bool (*try_now)(void *source, struct stk_io *io, struct stk_request *r);
	void (*submit)(void *source, struct stk_io *io, struct stk_request *r);
	/* Ends this request if reading has not begun. The request may already have ended, or submit may be about to receive it, so submit
	 * checks r->cancelled under the lock that cancel takes. NULL: requests cannot be cancelled. */
	void (*cancel)(void *source, struct stk_request *r);
	/* Ends all waiting requests; reads in progress may still finish. No further request will be submitted. */
	void (*cancel_all)(void *source);
	/* Reads the environment again, before requests for URIs like this one. May block for seconds until keys are issued; `access`,
	 * nullable, reports whether the user has interrupted that. NULL: the source does not use the environment. */
	void (*refresh)(void *source, const char *uri, const struct stk_access *access);
	void (*allocate)(void *source);    /* retries requests that were not admitted; nullable */
	uint64_t (*threads)(void *source); /* returns how many threads for blocking reads were started so far; NULL: the source has none */
	/* Returns a hash of the endpoint, which distinguishes stores in which the same URI names different objects. May be NULL, which stands for 0. */
	uint64_t (*endpoint_hash)(void *source, const char *uri);
	void (*describe)(void *source, const char *uri,
		struct stk_storage_report *out); /* fills in the endpoint and region that requests like this one use; nullable */
	void (*facts)(void *source, struct stk_source_facts *out); /* adds its statistics to *out; may be NULL */
	/* Destroys the source. Called after the last request has finished. */
	void (*destroy)(void *source);
};

/* Returns the error to fill when the request fails. A request without an error gets one, which its owner frees; otherwise io would repeat the request to
 * learn the reason. NULL: out of memory. */
struct stk_error *stk__request_error(struct stk_request *r);
/* Returns STK_CANCELLED. Fills r->error if there is one. */
STK_MUST_USE enum stk_status stk__request_cancelled(struct stk_request *r);

enum { STK_IO_RETRIES = 3 };
/* Returns whether a failure is one of the source and not of the object. Such a request is tried again, and its sample is never skipped. */
bool stk__io_source_failed(enum stk_status status);

/* Returns STK_IO if got_size differs from object_size, the size from a listing or an index. Returns STK_OK if object_size is not known, or if the ETag also
 * differs: then the object has been replaced and may have any size. */
STK_MUST_USE enum stk_status stk__io_check_size(struct stk_request *r, struct stk_error *err);
/* Runs r->check on the bytes that were read. If it refuses them, fills r->error and releases r->buffer. */
STK_MUST_USE enum stk_status stk__io_check_bytes(struct stk_request *r);

/* Ends a request, for sources: checks the object's size and version and the bytes as the request demands, sets the status, updates the counters and calls
 * r->done. On failure the source has filled r->error and released its buffer. A failure of the source is retried first, as its ops specify. Any other failure
 * is retried once if r had no error to fill, to learn the reason. */
void stk__io_finish(struct stk_io *io, struct stk_request *r, enum stk_status status);

/* Creates an io with a source for local files. `threads` bounds its threads for blocking reads, which start on first need. */
STK_MUST_USE enum stk_status stk__io_create(int threads, struct stk_io **out, struct stk_error *err);
/* Creates an io without sources; the first source added reads plain paths. */
STK_MUST_USE enum stk_status stk__io_make(struct stk_io **out, struct stk_error *err);
/* Cancels all requests and waits for them. All buffers must have been released, except by second holders (stk__buffer_share). Takes NULL. */
void stk__io_destroy(struct stk_io *io);

/* Registers a source for URIs that begin with "scheme://"; io owns it from here, also on failure. Plain paths and file:// go to the source
 * of local files. Call before the first request. */
STK_MUST_USE enum stk_status stk__io_add_source(struct stk_io *io, const struct stk_source_ops *ops, void *source, struct stk_error *err);

/* Lets the source of this URI read the environment again, for keys and endpoints, before further requests. Requests that have begun are not
 * affected. Call on a thread that may call getenv. access: reports whether the user has interrupted; nullable. */
void stk__io_refresh(struct stk_io *io, const char *uri, const struct stk_access *access);

/* Adds to a report what the source of this URI would use: endpoint, region and origin of the keys; and the servers' clock, INT64_MIN if it is not known. */
void stk__io_describe(struct stk_io *io, const char *uri, struct stk_storage_report *out);

/* Returns advice about a scheme that no source reads, as the end of a message: ": ...". */
const char *stk__scheme_hint(const char *uri);
/* Returns the end of a message that says what to use instead of a URI of Azure's storage; "" for other URIs. */
const char *stk__azure_hint(const char *uri);

/* Returns whether the source of a URI lists the objects below it in pages (stk__s3_list_uri). */
bool stk__io_lists(const struct stk_io *io, const char *uri);

/* Returns whether the source of a URI is remote. */
bool stk__io_remote(const struct stk_io *io, const char *uri);

/* Tries to read without waiting; a worker's first attempt. True: r is complete, with or without success, and `done` is not called. False: the caller must
 * submit r, because reading could block, the source failed (which r->retries counts), or the bytes in the cache are wrong (then r->uncached is set). */
bool stk__io_try(struct stk_io *io, struct stk_request *r);
/* Starts a request; r->done is called once. Any thread. Requests with the earliest deadline start first. */
void stk__io_submit(struct stk_io *io, struct stk_request *r);
/* Asks again whether waiting requests are admitted. Call when a caller has released bytes. Any thread, with any of the caller's locks held. */
void stk__io_admission_changed(struct stk_io *io);
/* Returns the mean time between the ends of successful remote requests, of all callers, in ns; 0: not known yet. Requests that the cache has answered do not
 * count. */
int64_t stk__io_pace_ns(struct stk_io *io);
/* Cancels a submitted request. If it has not begun, it ends with STK_CANCELLED within this call. It may already have ended; it must not be
 * submitted again before this returns. Any thread. */
void stk__io_cancel(struct stk_io *io, struct stk_request *r);

/* Takes a buffer of at least `size` bytes and 64 readable ones after them, or returns NULL if memory is short. Sizes are rounded up for reuse. Idle buffers
 * are freed while all buffers together exceed the peak use during the last few hundred takes and 8 MiB, so that the memory of an outlier returns to the
 * system. Any thread. */
struct stk_buffer *stk__buffer_take(struct stk_io *io, size_t size);
uint8_t *stk__buffer_data(struct stk_buffer *b);
/* Returns memory for `size` bytes of r and 64 more: the caller's (r->allocate), or else that of *buffer, which is taken from the pool. NULL: memory is short.
 * *buffer is NULL if the caller gives the memory. */
uint8_t *stk__request_memory(struct stk_io *io, const struct stk_request *r, size_t size, struct stk_buffer **buffer);
size_t stk__buffer_rounded(size_t size);                 /* capacity of a new buffer of that size */
size_t stk__buffer_capacity(const struct stk_buffer *b); /* without the 64 readable bytes after it */
void stk__buffer_release(struct stk_buffer *b);          /* takes NULL */
/* Adds a second owner, who must call release too, possibly after io was destroyed. Returns false if there are two owners already. Any thread. */
bool stk__buffer_share(struct stk_buffer *b);

/* Installs a cache, which io owns from here. Call before the first request. */
void stk__io_use_cache(struct stk_io *io, const struct stk_io_cache_ops *ops, void *cache);
/* Passes r to its source; for caches. */
void stk__io_fetch(struct stk_io *io, struct stk_request *r);
/* Submits r again at that time. Returns false if r cannot wait because it is cancelled or io ends. */
bool stk__io_submit_at(struct stk_io *io, struct stk_request *r, int64_t due_ns);

/* For requests whose admission refused `bytes`: submits r again when they are admitted. admission_changes: the result of stk__io_admission_changes before the
 * refusal, so that a change in the meantime is not missed. Returns false like stk__io_submit_at. */
bool stk__io_await_admission(struct stk_io *io, struct stk_request *r, size_t bytes, uint64_t admission_changes);
uint64_t stk__io_admission_changes(struct stk_io *io);

struct stk_io_counters {
	uint64_t requests;  /* requests, and pieces of large ones, that were submitted or completed by stk__io_try */
	uint64_t completed; /* requests that succeeded */
	uint64_t failed;    /* requests that failed or were cancelled */
	uint64_t bytes;     /* bytes that completed requests have read */
	uint64_t tried_now; /* requests completed by stk__io_try */
	uint64_t threads;   /* threads for blocking reads, started so far */
	uint64_t buffers_bytes, buffers_peak_bytes; /* bytes of the pool's buffers, in use or idle: now, and at most so far */
	/* remote, remote_bytes: successful requests that remote sources have answered, not the cache, and their bytes. retries: how often a request to a
	 * remote source was tried again. in_flight: submitted requests, also for local files, that have not ended. For remote requests, latency is the time
	 * from the beginning of a request to its end, wait the time from submission to its beginning. */
	uint64_t remote, remote_bytes, retries, in_flight;
	struct stk_source_facts facts;
	struct stk_quantiles latency, wait;
};
void stk__io_counters(const struct stk_io *io, struct stk_io_counters *out);

#endif
