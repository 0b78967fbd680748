/* SPDX-License-Identifier: Apache-2.0
 *
 * A storage holds the settings and connections for objects that are not on a local disk. Settings that its creator leaves out are taken from the environment
 * and from AWS's files. Pipelines that share a storage share its connections. A pipeline without a storage uses the context's, which has only the settings of
 * the environment. */
#ifndef STOKER_STORAGE_H
#define STOKER_STORAGE_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stk_storage;

/* How a request names the bucket. STK_ADDRESSING_AUTO puts it into the host's name if no endpoint was given, otherwise into the path. A bucket whose name
 * cannot be part of a host's name (capitals, or with TLS a dot) is always in the path, also with STK_ADDRESSING_VIRTUAL. */
enum stk_addressing { STK_ADDRESSING_AUTO, STK_ADDRESSING_PATH, STK_ADDRESSING_VIRTUAL };

/* The bytes that a call of stk_fetch_fn must return. length -1: all bytes from `offset` to the end. */
struct stk_fetch_call {
	const char *uri;
	int64_t offset, length;
	struct stk_fetched *out; /* used by stk_fetch_room only */
};

/* Fetches bytes of an object. Called on any of the storage's threads, several calls at a time. The function calls stk_fetch_room once and fills that memory.
 * STK_NOT_FOUND: the object does not exist, and its sample fails. STK_IO, STK_TIMEOUT: the library tries again. Any other code: the library does not try again.
 * On failure the function sets err->message and no other member of err. The function may read other objects through the same storage with stk_storage_read:
 * its thread then makes those calls too, without the cache, and a failed one is not repeated. It must not run a pipeline that reads through the same storage. */
typedef enum stk_status (*stk_fetch_fn)(void *user, const struct stk_fetch_call *fetch, struct stk_error *err);

/* Returns memory for all bytes of the answer, or NULL if memory runs out. */
STK_API void *stk_fetch_room(const struct stk_fetch_call *fetch, size_t size);

/* Settings. NULL and 0 stand for the default in the comment, or otherwise for the setting in the environment. All strings are copied. */
struct stk_storage_config {
	size_t size;          /* sizeof(struct stk_storage_config) */
	const char *endpoint; /* "https://HOST[:PORT]": a store that is not AWS's */
	const char *region;
	const char *profile;                                 /* the profile to use in AWS's files */
	const char *access_key, *secret_key, *session_token; /* both of the first two, or neither */
	bool anonymous;                                      /* requests are not signed */
	enum stk_addressing addressing;
	const char *ca_bundle; /* file of the certificates that are trusted */
	const char *proxy;     /* "http://HOST:PORT"; "": no proxy, whatever the environment says */
	int32_t threads;       /* number of threads that transfer http:// and s3:// objects, at most 16; default 2 */
	int32_t requests;      /* maximum number of requests under way; default 2048, or fewer if the process may not open twice as many
	                   * files, because connections use at most half of them */
	int32_t retries;    /* number of retries of a request that fails in the store or the network; default 10, but fewer until a server
	                  * has answered once; -1: no retries */
	int64_t connect_ms; /* time limit of connecting; default 5 000. This limit and the next two are at most 1e9 */
	int64_t first_byte_ms; /* time limit from the beginning of a request to the first byte of its answer; default 20 000 */
	int64_t stall_ms;      /* a request fails if less than 4 KiB of its body arrive in this time; default 10 000 */
	bool no_hedging;       /* true: a request whose answer takes longer than nearly all others is not sent a second time */
	/* A folder in which objects are cached on this host; it is created if it does not exist. Many processes may use it at the same time. "memory": a folder
	 * in /dev/shm that only this user can read. NULL: no cache. A cache is filled up to cache_limit bytes (0: four fifths of the free space and the bytes
	 * of the cache together, but in memory at most half of the available memory and of these bytes). Once it is open, a failure to read or write it is no
	 * error: the object is read from its store. */
	const char *cache;
	int64_t cache_limit;
	/* The user's function that reads all URIs of the schemes in fetch_schemes ("gs az"; NULL: gs, and all that the library does not read itself). */
	stk_fetch_fn fetch;
	void *fetch_user;
	void (*fetch_done)(void *user); /* called once, after the last call of fetch, even if stk_storage_create fails; may be NULL */
	const char *fetch_schemes;
	int32_t fetch_threads; /* maximum number of simultaneous calls of fetch: at most 512; default 32 */
	/* A name of the store that fetch reads, which must differ from the names of all other stores in which the same URI names another object. Entries of the
	 * cache belong to this name, so fetch and cache together need it. */
	const char *fetch_name;
	/* Whether fetch also answers listings. For SCHEME://ROOT/... it is then asked for the whole of
	 * "SCHEMElist://ROOT?delimiter=%2F&encoding-type=url&list-type=2&prefix=..." and answers in XML, as an S3 store answers
	 * ListObjectsV2. Folders, globs and sizes of such URIs need it. */
	bool fetch_lists;
};

/* Creates a storage. STK_INVALID: the message names the invalid setting. The environment is read when a pipeline is made. If it has no valid keys
 * then, although earlier pipelines with this storage had some, only the new pipeline fails. Any thread. */
STK_API STK_MUST_USE enum stk_status stk_storage_create(
	const struct stk_storage_config *config, struct stk_storage **out, struct stk_error *err);
/* A counter. `name` is a static string. */
struct stk_counter {
	const char *name;
	double value;
};
/* Copies the counters since the start, of all pipelines that share the storage: "storage_requests", "storage_bytes", "storage_retries",
 * "storage_hedges", "storage_in_flight", "storage_limit" (most requests in flight), "storage_slowdowns" (how often the store asked for
 * fewer). "storage_latency_ms" is the time from the beginning of a request to its end, "storage_wait_ms" the time before its beginning;
 * each also with "_p95" and "_p99". With a cache: "cache_hits", "cache_hit_bytes", "cache_misses", "cache_kept", "cache_kept_bytes",
 * "cache_left_out", "cache_damaged", "cache_stale", "cache_waits", "cache_pending_bytes", "cache_bytes", "cache_limit". Fills at most n
 * entries and returns the number of counters. Any thread. */
STK_API size_t stk_storage_counters(struct stk_storage *s, struct stk_counter *out, size_t n);

/* The findings of stk_storage_probe about a store. */
struct stk_storage_report {
	size_t size;                    /* sizeof(struct stk_storage_report), set by the caller */
	char endpoint[256], region[64]; /* the endpoint and the region that the requests use; "" if they use none */
	char keys[64];                  /* where the keys come from, for example "the environment"; "" if no keys are needed */
	/* time of the first request, which includes connecting; median time of five later requests; 0: no answer */
	double first_ms, answer_ms;
	int64_t clock_s; /* the store's clock minus this machine's clock, in seconds; INT64_MIN: unknown */
	bool listed;     /* true if the bucket may be listed */
	bool found;      /* true if there is an object with the URI's name, or one whose name begins with it */
};
/* Sends a few small requests and waits for the answers. Fails if a pipeline's requests would, or if `uri` is local; fills the report as far as it can. */
STK_API STK_MUST_USE enum stk_status stk_storage_probe(
	struct stk_storage *s, const char *uri, struct stk_storage_report *out, struct stk_error *err);

/* Properties of an object, filled by stk_storage_read. */
struct stk_storage_object {
	size_t size;       /* sizeof(struct stk_storage_object), set by the caller */
	int64_t bytes;     /* size of the whole object; -1: neither the answer nor a listing gives it */
	char version[128]; /* a text that differs between versions of the object, such as its ETag; "" if the store sends none */
};
/* Number of bytes that the memory for stk_storage_read must have after the requested ones; their contents are undefined afterwards. */
enum { STK_STORAGE_SLACK = 64 };
/* Reads `length` bytes at `offset` of a remote object and waits for them. `data` must have room for length + STK_STORAGE_SLACK bytes. Large ranges are read
 * as several pieces at the same time. `object` is filled on success and may be NULL. STK_CORRUPT: the object ends before the range does. STK_UNSUPPORTED:
 * the path is local. Does not read the environment itself, but uses the settings that the last stk_storage_find, or the creation of the last pipeline, has
 * read from it. May be called by several threads at the same time. */
STK_API STK_MUST_USE enum stk_status stk_storage_read(struct stk_storage *s, const char *uri, int64_t offset, size_t length, void *data,
	struct stk_storage_object *object, struct stk_error *err);
/* Like stk_storage_read, for an object whose version is known: `known` was filled by an earlier read of this object. The storage's cache on disk may supply
 * bytes of this version without asking the store; stk_storage_read always asks the store if `object` is given. If the store has another version by now, this is
 * no error: the bytes are those of the other version, and *object differs from *known. */
STK_API STK_MUST_USE enum stk_status stk_storage_read_again(struct stk_storage *s, const char *uri, int64_t offset, size_t length,
	void *data, const struct stk_storage_object *known, struct stk_storage_object *object, struct stk_error *err);
/* Expands paths as shells do: "{train,val}-{000..127}.tar", and * ? [a-z] in local paths and, after the last slash, in the URIs of stores that can be
 * listed. Matches that are kept indexes (*.stoker) are left out. Calls `found` once for each name, sorted within each pattern, on the caller's thread. Reads
 * the environment again for the URIs.
 * STK_NOT_FOUND: a pattern matches nothing. */
STK_API STK_MUST_USE enum stk_status stk_storage_find(struct stk_storage *s, const char *const *paths, int32_t count,
	void (*found)(void *user, const char *path), void *user, struct stk_error *err);

/* A name that stk_storage_find_entries has found, and what the listing of its store says about it. */
struct stk_storage_entry {
	size_t size; /* sizeof(struct stk_storage_entry), set by the library */
	const char *path;
	int64_t bytes; /* size of the object; -1: the name comes from no listing */
	uint64_t tag;  /* stk_storage_tag of the object's version; 0: not known */
};
/* Like stk_storage_find. The entry and its path are valid only during the call of `found`. */
STK_API STK_MUST_USE enum stk_status stk_storage_find_entries(struct stk_storage *s, const char *const *paths, int32_t count,
	void (*found)(void *user, const struct stk_storage_entry *entry), void *user, struct stk_error *err);
/* Returns a number that differs between versions of an object (struct stk_storage_object), by which an entry of a listing is compared with what was read;
 * 0 for NULL and "". */
STK_API uint64_t stk_storage_tag(const char *version);
/* Returns in *out a file's name, that of an http URL without the parameters of its query that a signature consists of. Saved states compare such names,
 * because a URL that was signed again names the same object. Free *out with stk_text_free (stoker/graph.h). */
STK_API STK_MUST_USE enum stk_status stk_storage_unsigned_name(const char *name, char **out, struct stk_error *err);

STK_API struct stk_storage *stk_storage_ref(struct stk_storage *s);
/* Releases the caller's reference and sets *s to NULL; pipelines have their own references. The threads end when the last reference is gone. Accepts NULL. */
STK_API void stk_storage_unref(struct stk_storage **s);

#ifdef __cplusplus
}
#endif
#endif
