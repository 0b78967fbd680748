/* SPDX-License-Identifier: Apache-2.0
 *
 * Where bytes come from. A request names an object and a range; it completes in any order, on any thread, once. Local files are read here; other
 * schemes register a source behind the same interface (io/http.h).
 *
 * Bytes land in pooled buffers, bounded in bytes and requests by whoever submits; a buffer goes back with stk__buffer_release. */
#ifndef STK_IO_IO_H
#define STK_IO_IO_H

#include "io/histogram.h"
#include "stoker/storage.h"

#include <stdbool.h>
#include <stddef.h>

struct stk_io;     /* threads, sources by scheme, buffers */
struct stk_buffer; /* pooled */
struct stk_access; /* storage.h */
struct stk_request;

/* What a source reports about an object besides its bytes. */
struct stk_object {
	int64_t size;      /* of the whole object; -1: not told */
	char version[128]; /* differs between versions of the object: its ETag; "" where there is none */
};

enum { STK_IO_BEFORE = 512 };

/* Bounds what a caller's requests allocate for objects whose size nobody knows before their answers begin. */
struct stk_admission {
	/* On any thread: whether the request may hold buffers of `bytes` in all. False: its source takes no more of it, and asks again when stk__io_room was
	 * called, and some times a second. Fewer bytes than before are always admitted. */
	bool (*admit)(struct stk_admission *a, struct stk_request *r, size_t bytes);
};

struct stk_request {
	/* set by the caller */
	const char *uri;        /* path or scheme://...; lives until done */
	int64_t offset, length; /* length -1: to the end; an object that ends before offset + length is an error (STK_CORRUPT) */
	size_t most;            /* STK_LIMIT instead of more bytes than this, which are not read; 0: any number */
	int64_t deadline;       /* when the bytes are needed, by stk__clock_ns: the soonest go first, whoever asks for them */
	void (*done)(struct stk_request *r); /* on any thread, also inside submit; must not block; may free r */
	void *user;
	/* Gives memory of the caller's for the bytes: at least `size` and 64 more. Called again if the object turns out larger: the bytes that have come
	 * are then copied from the memory given last, which must stay valid until the next call or the request's end. Returns NULL: out of memory.
	 * Nullable: the bytes land in a pooled buffer. */
	uint8_t *(*room)(void *room_user, size_t size);
	void *room_user;
	struct stk_admission *admission; /* is asked before memory is taken; NULL: nobody is */
	bool bare;                       /* with room: nothing may be written past `size`, because the caller keeps other bytes there */
	struct stk_object *object;       /* filled by remote sources, with the bytes; nullable */
	/* set on completion */
	enum stk_status status;
	struct stk_buffer *buffer; /* the caller's to release; NULL on failure, and where `room` gave the place */
	const uint8_t *data;       /* readable 64 bytes past size, which are zero */
	size_t size;
	/* Filled on failure, with the uri. If the caller set none and submitted the request, io allocates one, which the caller frees; NULL
	 * then means that there was no memory. */
	struct stk_error *error;
	int32_t retries; /* faults of the source so far; the caller sets it to 0, and leaves it as it is between a try and submit */
	/* For caches, set by the caller: the object's size and the hash of its ETag as far as known, else 0. A cached entry that disagrees
	 * with either is stale. */
	bool uncached; /* not from a cache, and not into one */
	int64_t object_size;
	uint64_t object_tag;
	bool pinned; /* an object of another object_tag is an error, and not newer bytes */
	/* Of a local file: read the `before` bytes before `offset` too, and let `check` see all. If it returns an error, the request fails with it. Nullable. */
	size_t before; /* at most STK_IO_BEFORE, and `offset` */
	enum stk_status (*check)(const struct stk_request *r, const uint8_t *before, const uint8_t *data, struct stk_error *err);
	/* The source: what it has seen of the object. 0: nothing. */
	int64_t got_size;
	uint64_t got_tag;
	bool got_etag;  /* got_tag is of an ETag, which may be compared with that of a listing */
	uint64_t place; /* of its store */
	enum stk_cached { STK_CACHE_UNASKED, STK_CACHE_MISSED, STK_CACHE_CLAIMED, STK_CACHE_LEFT_OUT } cached;
	int32_t cache_waits;
	/* the source's own, and io's */
	int64_t starved_ns;         /* since when there is no descriptor for it; 0: there was */
	int64_t asked_ns, begun_ns; /* when it was submitted; when its source last began with it, by stk__clock_ns. 0: not */
	bool hopeless;              /* set with a source error that a retry would only repeat */
	bool object_fails; /* set with a source error that concerns this object, as far as the source can see: it serves requests, and not this one */
	_Atomic bool cancelled;
	int64_t due_ns; /* when it is tried again */
	struct stk_request *next;
	void *source_data;
	struct stk_split *split;    /* large: its pieces */
	struct stk_request *follow; /* the next of those that one answer of a server serves */
	bool alone;                 /* must not be joined with other requests again */
};

/* What remote sources tell of themselves. */
struct stk_source_facts {
	uint64_t hedges;    /* second requests where an answer was late */
	uint64_t slowdowns; /* how often a store asked for fewer requests */
	double limit;       /* of requests under way, as it is now */
};

/* A cache that stands before the remote sources. */
struct stk_io_cache_ops {
	/* Fills r in if it is there and nothing can block; false: nothing happened. */
	bool (*try_now)(void *cache, struct stk_request *r);
	/* Ends r by stk__io_finish if it is there, else hands it to its source by stk__io_fetch. */
	void (*submit)(void *cache, struct stk_request *r);
	/* False: r does not wait here. The caller ends it. */
	bool (*cancel)(void *cache, struct stk_request *r);
	/* r has ended, before its owner hears of it. */
	void (*take)(void *cache, struct stk_request *r, enum stk_status status);
	void (*end)(void *cache);     /* cancels what waits */
	void (*destroy)(void *cache); /* after the last request has ended */
};

/* A source of bytes. submit starts a request and returns at once; each ends in one call of stk__io_finish, also after cancel or cancel_all
 * (STK_CANCELLED). Every function on any thread, at the same time, except destroy. */
struct stk_source_ops {
	const char *scheme; /* "file"; several with blanks between them: "s3 http https"; "*": all that no other source serves */
	/* Of a fault of the source: how often it is tried again (0: STK_IO_RETRIES), and after how long, a random time up to backoff_ns * 2^tries and at most
	 * most_backoff_ns. 0: at once. */
	int32_t retries;
	int64_t backoff_ns, most_backoff_ns;
	bool splits; /* keeps to `bare`: large ranges come in pieces, several at a time */
	bool lists;  /* answers to stk__s3_list_uri of its schemes */
	bool remote; /* a request takes long, whatever it asks for: pipelines keep more of them under way */
	/* Reads now if that cannot block (page cache); false: submit it. NULL where nothing is ever at hand. On true the request is filled in, and
	 * stk__io_finish is not called. */
	bool (*try_now)(void *source, struct stk_io *io, struct stk_request *r);
	void (*submit)(void *source, struct stk_io *io, struct stk_request *r);
	/* Ends this request if it has not begun to be read. It may have ended, or submit may be about to get it: so submit looks at r->cancelled
	 * under the lock that cancel takes. NULL: requests end by themselves. */
	void (*cancel)(void *source, struct stk_request *r);
	/* Ends what waits; what is being read may still finish. No request comes after it. */
	void (*cancel_all)(void *source);
	/* Takes over what the environment says now, before requests for URIs like this one. May block for seconds until keys are issued.
	 * `access`, nullable, says whether the user has interrupted that. NULL: nothing to take. */
	void (*refresh)(void *source, const char *uri, const struct stk_access *access);
	void (*room)(void *source);        /* requests that were not admitted are asked for again; nullable */
	uint64_t (*threads)(void *source); /* of blocking reads, started so far; nullable: none */
	/* Tells apart what has the same URI in different stores: a hash of the endpoint. Nullable: 0. */
	uint64_t (*place)(void *source, const char *uri);
	void (*describe)(void *source, const char *uri, struct stk_storage_report *out); /* what requests like this one name; nullable */
	void (*facts)(void *source, struct stk_source_facts *out);                       /* adds to them; nullable */
	/* After the last request has finished. */
	void (*destroy)(void *source);
};

enum { STK_IO_RETRIES = 3 };
/* The source is at fault, not the object: worth another try, and never skipped over. */
bool stk__io_source_failed(enum stk_status status);

/* STK_IO: got_size is another than the object_size that a listing or an index told. An object whose ETag is another than theirs
 * has been replaced since, and may have any size. */
STK_MUST_USE enum stk_status stk__io_check_size(struct stk_request *r, struct stk_error *err);

/* For sources: sets the status, counts, and calls r->done. Of a failure the source has filled r->error and released its buffer. A fault of the source is
 * tried again first, as its ops say; and any other failure once more if there was no error to fill, to learn what it was. */
void stk__io_finish(struct stk_io *io, struct stk_request *r, enum stk_status status);

/* threads: of blocking reads for local files, started on first need. */
STK_MUST_USE enum stk_status stk__io_create(int threads, struct stk_io **out, struct stk_error *err);
/* The same without any source; the first one that is added reads plain paths. */
STK_MUST_USE enum stk_status stk__io_make(struct stk_io **out, struct stk_error *err);
/* Cancels what is under way and waits for it. All buffers have been released, but for those whose second holders have them still. Takes NULL. */
void stk__io_destroy(struct stk_io *io);

/* Registers a source for uris that begin with "scheme://"; io owns it from here, also on failure. Plain paths and file:// go to the files' own.
 * Before the first request. */
STK_MUST_USE enum stk_status stk__io_add_source(struct stk_io *io, const struct stk_source_ops *ops, void *source, struct stk_error *err);

/* Before requests for URIs like this one: its source looks at the environment again, for keys and endpoints. Requests that have begun go on as they were. On a
 * thread that may call getenv. access: who may interrupt that; nullable. */
void stk__io_refresh(struct stk_io *io, const char *uri, const struct stk_access *access);

/* Adds to a report what the source of this URI knows. */
void stk__io_describe(struct stk_io *io, const char *uri, struct stk_storage_report *out);

/* What can be done about a scheme that nothing reads, as the end of a message: ": ...". */
const char *stk__scheme_hint(const char *uri);

/* Whether the source of a URI gives pages of listings of what lies below it (stk__s3_list_uri). */
bool stk__io_lists(const struct stk_io *io, const char *uri);

/* Whether the source of a URI is remote. */
bool stk__io_remote(const struct stk_io *io, const char *uri);

/* True when r is complete on return, well or not (`done` is not called then); false: nothing happened, or the source was at fault: submit it. A worker's
 * first try. */
bool stk__io_try(struct stk_io *io, struct stk_request *r);
/* r->done is called once. Any thread. Requests with the smallest deadline start first. */
void stk__io_submit(struct stk_io *io, struct stk_request *r);
/* A caller has given bytes back: requests that were not admitted may be. Any thread, with any lock of the caller's. */
void stk__io_room(struct stk_io *io);
/* The mean time between the ends of remote requests, of all callers, in ns; 0: not known yet. */
int64_t stk__io_pace_ns(struct stk_io *io);
/* Cancels a submitted request. If it has not begun, it ends with STK_CANCELLED within this call. It may have ended already; it must not be
 * submitted again before this returns. Any thread. */
void stk__io_cancel(struct stk_io *io, struct stk_request *r);

/* Buffers of at least `size` bytes + 64 readable; sizes are rounded up so that they are reused. NULL: out of memory. Any thread.
 * What lies idle is bounded by what was in use at once in the last few hundred takes, so that an outlier goes back to the system. */
struct stk_buffer *stk__buffer_take(struct stk_io *io, size_t size);
uint8_t *stk__buffer_data(struct stk_buffer *b);
size_t stk__buffer_rounded(size_t size);                 /* the capacity of a new one of that size */
size_t stk__buffer_capacity(const struct stk_buffer *b); /* without the 64 */
void stk__buffer_release(struct stk_buffer *b);          /* takes NULL */
/* A second holder, who releases it too, and may do so after io has gone. False: it has one already. Any thread. */
bool stk__buffer_share(struct stk_buffer *b);

/* The cache is io's from here. Before the first request. */
void stk__io_use_cache(struct stk_io *io, const struct stk_io_cache_ops *ops, void *cache);
/* For caches: to r's source. */
void stk__io_fetch(struct stk_io *io, struct stk_request *r);
/* Submits r again at that time; false: it does not wait, since it is cancelled or io ends. */
bool stk__io_later(struct stk_io *io, struct stk_request *r, int64_t due_ns);

struct stk_io_counters {
	uint64_t requests;                          /* tried and completed, or submitted */
	uint64_t completed;                         /* well */
	uint64_t failed;                            /* or cancelled */
	uint64_t bytes;                             /* of completed requests */
	uint64_t tried_now;                         /* completed by stk__io_try */
	uint64_t threads;                           /* of blocking reads, started so far */
	uint64_t buffers_bytes, buffers_peak_bytes; /* held by the pool, in use or not */
	/* Of remote sources, in times from the beginning of a request to its end, and from when it was asked for to its beginning. */
	uint64_t remote, remote_bytes, retries, in_flight;
	struct stk_source_facts facts;
	struct stk_quantiles latency, wait;
};
void stk__io_counters(const struct stk_io *io, struct stk_io_counters *out);

#endif
