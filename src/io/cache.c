/* SPDX-License-Identifier: Apache-2.0 */
#include "io/cache.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/system.h"
#include "base/xxhash.h"
#include "io/cache_disk.h"
#include "io/served.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	THREADS = 16,
	CLAIMS = 1024, /* number of lists in the hash table of claims */
	SLACK = 64,
	MOST_PENDING = 64 << 20, /* maximum number of bytes that may wait to be written; one larger entry may wait by itself */
	FIRST_WAIT_MS = 5,       /* first wait of a request for an object that another request fetches */
	LONGEST_WAIT_MS = 80,
	/* Maximum number of waits: half a minute in total, or five seconds if the caller waits for the request, which must not take as long as an epoch of
	 * another pipeline. Then the object is fetched without a claim. */
	MOST_WAITS = 400,
	MOST_AWAITED_WAITS = 66
};

/* An entry that waits to be written into the folder. */
struct keep {
	struct keep *next;
	struct stk_cache_head head;
	struct stk_buffer *bytes;
	bool claimed;
	char uri[];
};

/* An object that this process fetches or writes, as an element of a list in the hash table `claims`. */
struct claim {
	struct claim *next;
	struct stk_cache_key key;
};

struct stk_cache {
	struct stk_io *io;
	struct stk_cache_disk disk;
	_Atomic bool disk_full, write_failed; /* true: this process stores no more entries, for want of room or after a failed write */
	_Atomic uint64_t hits, hit_bytes, misses, kept, kept_bytes, left_out, damaged, stale, waits, pending;
	_Atomic int notice_state; /* state of `notice`, one of enum telling */
	char notice[512];
	struct stk_served served;   /* its lock guards all members below */
	struct keep *first, **last; /* entries to write */
	struct claim *claims[CLAIMS];
	bool ended;
	pthread_t threads[THREADS];
};

/* States of `notice`, a warning that the user gets at most once: none, being written, ready, delivered. */
enum telling { QUIET, WRITING, WAITING, TOLD };

static void count(_Atomic uint64_t *n, uint64_t by)
{
	atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

/* ---- lookup ---- */

enum look { HIT, MISS, BLOCKED, REFUSED };

struct entry {
	struct stk_cache_key key;
	struct stk_cache_head head;
	struct stk_buffer *buffer;
	uint8_t *data;
	size_t size, uri_size;
	char uri[STK_CACHE_PATH];
};

static struct stk_cache_key key_of(const struct stk_request *r)
{
	return stk__cache_key(r->uri, r->offset, r->length, r->cache.store);
}

/* Reads header, payload and URI of an entry with one call. Returns HIT if all bytes were read, without checking them; MISS if not, or if memory is short;
 * BLOCKED, only if may_block is false: reading could block. */
static enum look read_entry(struct stk_cache *c, int fd, struct stk_request *r, struct entry *e, bool may_block)
{
	e->data = stk__request_memory(c->io, r, e->size, &e->buffer);
	if (!e->data)
		return MISS;
	struct iovec v[3] = {{&e->head, sizeof e->head}, {e->data, e->size}, {e->uri, e->uri_size}};
	size_t all = sizeof e->head + e->size + e->uri_size, used = 0;
	for (struct iovec *at = v; used < all;) {
		ssize_t n = stk__preadv2(fd, at, (int)(v + 3 - at), (off_t)used, may_block ? 0 : RWF_NOWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && !may_block ? BLOCKED : MISS;
		used += (size_t)n;
		for (; n && (size_t)n >= at->iov_len; at++)
			n -= (ssize_t)at->iov_len;
		if (n) {
			at->iov_base = (uint8_t *)at->iov_base + n;
			at->iov_len -= (size_t)n;
		}
	}
	return HIT;
}

/* Returns whether the cached object is, or may be, another version than the one that the request expects. */
static bool is_stale(const struct stk_request *r, const struct stk_cache_head *h)
{
	if (r->object && (!h->tag || r->expected.tag != h->tag))
		return true; /* the caller joins bytes of several ranges, so their version must be known */
	return (r->expected.size && h->object_size && r->expected.size != h->object_size) ||
	       (r->expected.tag && h->tag && r->expected.tag != h->tag);
}

static bool is_good(const struct stk_request *r, const struct entry *e, uint64_t file_size)
{
	/* Compares the sizes first, because stk__cache_head_good hashes as many bytes of e->uri as the header claims. */
	return e->head.bytes == e->size && e->head.uri == e->uri_size && stk__cache_head_good(&e->head, e->uri, e->key, file_size) &&
	       e->head.offset == r->offset && e->head.length == r->length && memcmp(e->uri, r->uri, e->uri_size) == 0 &&
	       stk__xxh64(e->data, e->size, 0) == e->head.bytes_hash;
}

/* Sets the file's modification time, which records the entry's last use, to the present time. Does so only if the entry was last used before the cache's
 * present run (cache_disk.h) began, since nothing depends on later uses. */
static void mark_used(struct stk_cache *c, int fd, const struct stat *st)
{
	if (c->disk.fd >= 0 && st->st_mtime < c->disk.begin_sec)
		futimens(fd, NULL); /* fails for an entry of another user, which keeps its time of use */
}

static enum look check_entry(struct stk_cache *c, struct stk_request *r, struct entry *e, const char *name, const struct stat *st)
{
	bool ok = is_good(r, e, (uint64_t)st->st_size), stale = ok && is_stale(r, &e->head);
	if (ok && !stale)
		return HIT;
	/* If the cache is writable, only the process that removes a bad entry counts it. `st` identifies the file, so that a newer entry with the same name is
	 * not removed. */
	if (c->disk.read_only || stk__cache_remove(&c->disk, name, st))
		count(ok ? &c->stale : &c->damaged, 1);
	return MISS;
}

/* Removes a file that has the name of an entry but is not a regular file. Counts it as a damaged entry unless another process removed it. Returns MISS. */
static enum look remove_strange(struct stk_cache *c, const char *name, const struct stat *st)
{
	if (c->disk.read_only || stk__cache_remove(&c->disk, name, st))
		count(&c->damaged, 1);
	return MISS;
}

/* Returns whether a file of `size` bytes is small, or its header confirms that size. If not, the caller must not allocate memory for it. around: size in bytes
 * of the header and the URI. */
static bool is_as_large(int fd, uint64_t size, uint64_t around)
{
	enum { LARGE = 16 << 20 };
	struct stk_cache_head h;
	return size < LARGE || (pread(fd, &h, sizeof h, 0) == sizeof h && h.bytes == size - around);
}

/* Returns whether the caller's limit admits a whole object's buffer; sets r->retry.refused_bytes to its size. */
static bool admit(struct stk_request *r, size_t size)
{
	r->retry.refused_bytes = stk__buffer_rounded(size);
	return stk__request_admitted(r, r->retry.refused_bytes);
}

/* Looks for r's bytes in the folder, and fills in r on HIT. BLOCKED, only if may_block is false: reading could block. REFUSED, only if may_block is true: a
 * buffer of r->retry.refused_bytes bytes was not admitted. */
static enum look look_up(struct stk_cache *c, struct stk_request *r, bool may_block)
{
	char name[STK_CACHE_NAME];
	struct stat st;
	struct entry e = {.key = key_of(r), .uri_size = (size_t)stk__uri_shown(r->uri)};
	stk__cache_name(e.key, name);
	int fd = stk__cache_open(&c->disk, name, !may_block);
	if (fd < 0 && errno == EAGAIN && !may_block)
		return BLOCKED;
	if (fd < 0)
		return errno == ELOOP || errno == ENXIO ? remove_strange(c, name, NULL) : MISS;
	const uint64_t around = sizeof e.head + e.uri_size;
	enum look look = MISS;
	if (!fstat(fd, &st) && !S_ISREG(st.st_mode)) {
		look = remove_strange(c, name, &st);
	} else if ((uint64_t)st.st_size >= around && e.uri_size < sizeof e.uri) {
		e.size = (size_t)((uint64_t)st.st_size - around);
		const bool fits = (r->length < 0 || e.size == (size_t)r->length) && !(r->max_bytes && e.size > r->max_bytes) &&
				  is_as_large(fd, (uint64_t)st.st_size, around);
		if (fits && may_block && !admit(r, e.size))
			look = REFUSED;
		else if (fits)
			look = read_entry(c, fd, r, &e, may_block);
		if (look == HIT)
			look = check_entry(c, r, &e, name, &st);
	}
	if (look == HIT) {
		mark_used(c, fd, &st);
		memset(e.data + e.size, 0, SLACK);
		r->buffer = e.buffer;
		r->data = e.data;
		r->size = e.size;
		r->got = (struct stk_read_version){.size = e.head.object_size, .tag = e.head.tag};
		count(&c->hits, 1);
		count(&c->hit_bytes, e.size);
	} else {
		stk__buffer_release(e.buffer);
	}
	close(fd);
	return look;
}

static bool try_now(void *cache, struct stk_request *r)
{
	if (look_up(cache, r, false) != HIT)
		return false;
	r->status = STK_OK;
	return true;
}

/* ---- claims: which request fetches an object ---- */

static struct claim **find_claim(struct stk_cache *c, struct stk_cache_key key)
{
	struct claim **at = &c->claims[key.b % CLAIMS];
	while (*at && ((*at)->key.a != key.a || (*at)->key.b != key.b))
		at = &(*at)->next;
	return at;
}

static void cancel_claim(struct stk_cache *c, struct stk_cache_key key)
{
	stk__cache_unclaim(&c->disk, key);
	pthread_mutex_lock(&c->served.lock);
	struct claim **at = find_claim(c, key), *claim = *at;
	if (claim)
		*at = claim->next;
	pthread_mutex_unlock(&c->served.lock);
	stk__free(claim);
}

/* Claims the fetch of an object for one request. Returns false if another request, of this or another process, has claimed it, or if memory is short.
 * cancel_claim releases the claim. */
static bool take_claim(struct stk_cache *c, struct stk_cache_key key)
{
	struct claim *claim = stk__alloc(sizeof *claim);
	if (!claim)
		return false;
	claim->key = key;
	claim->next = NULL;
	pthread_mutex_lock(&c->served.lock);
	struct claim **at = find_claim(c, key);
	const bool mine = !*at;
	if (mine)
		*at = claim;
	pthread_mutex_unlock(&c->served.lock);
	if (!mine)
		stk__free(claim);
	if (!mine || stk__cache_claim(&c->disk, key))
		return mine;
	cancel_claim(c, key);
	return false;
}

static void unclaim(void *cache, struct stk_request *r)
{
	cancel_claim(cache, key_of(r));
}

/* ---- storing ---- */

static void set_notice(struct stk_cache *c, const char *text)
{
	int quiet = QUIET;
	if (!atomic_compare_exchange_strong(&c->notice_state, &quiet, WRITING))
		return;
	snprintf(c->notice, sizeof c->notice, "%s", text);
	atomic_store(&c->notice_state, WAITING);
}

static bool keeps(const struct stk_cache *c)
{
	return !c->disk.read_only && !atomic_load_explicit(&c->disk_full, memory_order_relaxed) &&
	       !atomic_load_explicit(&c->write_failed, memory_order_relaxed);
}

static void write_entry(struct stk_cache *c, struct keep *k)
{
	char text[512];
	struct stk_error err = {0};
	const uint64_t bytes = k->head.bytes;
	if (!keeps(c)) {
		count(&c->left_out, 1);
	} else if (!stk__cache_reserve(&c->disk, stk__cache_entry_bytes(bytes, k->uri))) {
		atomic_store(&c->disk_full, true);
		count(&c->left_out, 1);
	} else if (stk__cache_write(&c->disk, &k->head, stk__buffer_data(k->bytes), k->uri, &err)) {
		atomic_store(&c->write_failed, true);
		snprintf(text, sizeof text, "%.400s; nothing more is added to it in this run", err.message);
		set_notice(c, text);
		count(&c->left_out, 1);
	} else {
		count(&c->kept, 1);
		count(&c->kept_bytes, bytes);
	}
	if (k->claimed)
		cancel_claim(c, (struct stk_cache_key){k->head.a, k->head.b});
	stk__buffer_release(k->bytes);
	stk__free(k);
	atomic_fetch_sub(&c->pending, bytes);
}

/* Adds an entry's bytes to those that wait to be written. Returns false if they would be too many. */
static bool add_pending(struct stk_cache *c, uint64_t bytes)
{
	uint64_t pending = atomic_load(&c->pending);
	do
		if (pending && pending + bytes > MOST_PENDING)
			return false;
	while (!atomic_compare_exchange_weak(&c->pending, &pending, pending + bytes));
	return true;
}

/* Returns a buffer with the request's bytes: its own buffer if they are many, because nothing changes them, and otherwise a copy. NULL: memory is short. */
static struct stk_buffer *keep_bytes(struct stk_cache *c, const struct stk_request *r)
{
	if (r->size > MOST_PENDING && r->buffer && r->data == stk__buffer_data(r->buffer) && stk__buffer_share(r->buffer))
		return r->buffer;
	struct stk_buffer *b = stk__buffer_take(c->io, r->size);
	if (b)
		memcpy(stk__buffer_data(b), r->data, r->size);
	return b;
}

/* Copies a request's bytes into a new entry for a later write. Returns NULL if the bytes cannot or should not be stored. */
static struct keep *make_keep(struct stk_cache *c, const struct stk_request *r, struct stk_cache_key key)
{
	const size_t n = (size_t)stk__uri_shown(r->uri);
	const bool other = stk__request_other_version(r) || /* the object has changed since it was listed */
			   (r->expected.size && r->got.size && r->expected.size != r->got.size);
	if (!keeps(c) || other || n >= STK_CACHE_PATH || !add_pending(c, r->size))
		return NULL;
	struct keep *k = stk__calloc(1, sizeof *k + n + 1);
	struct stk_buffer *b = k ? keep_bytes(c, r) : NULL;
	if (!b) {
		atomic_fetch_sub(&c->pending, r->size);
		stk__free(k);
		return NULL;
	}
	memcpy(k->uri, r->uri, n);
	k->head = (struct stk_cache_head){.a = key.a,
		.b = key.b,
		.offset = r->offset,
		.length = r->length,
		.bytes = r->size,
		.object_size = r->got.size,
		.tag = r->got.tag};
	k->bytes = b;
	k->claimed = r->cache.state == STK_CACHE_CLAIMED;
	return k;
}

/* Called after the source has ended r: queues a copy of the bytes for a thread, which writes them and then releases the claim. If the bytes are not stored,
 * releases the claim at once. */
static void take(void *cache, struct stk_request *r, enum stk_status status)
{
	struct stk_cache *c = cache;
	if (r->cache.state != STK_CACHE_CLAIMED && r->cache.state != STK_CACHE_MISSED)
		return;
	const struct stk_cache_key key = key_of(r);
	struct keep *k = status ? NULL : make_keep(c, r, key);
	if (!status && !k)
		count(&c->left_out, 1);
	if (!k) {
		if (r->cache.state == STK_CACHE_CLAIMED)
			cancel_claim(c, key);
		return;
	}
	pthread_mutex_lock(&c->served.lock);
	*c->last = k;
	c->last = &k->next;
	enum stk_status started = stk__served_announce(&c->served, NULL);
	(void)started; /* without a thread, destroy() drops the entry */
	pthread_mutex_unlock(&c->served.lock);
}

/* ---- threads ---- */

/* Submits r again after a short wait, since another request is fetching the object. Returns false if r has waited often enough or cannot wait. */
static bool wait_for_it(struct stk_cache *c, struct stk_request *r)
{
	const int32_t most = !r->admission || stk__request_awaited(r) ? MOST_AWAITED_WAITS : MOST_WAITS;
	int shift = r->cache.cache_waits < 4 ? r->cache.cache_waits : 4;
	int64_t ms = (int64_t)FIRST_WAIT_MS << shift;
	count(&c->waits, r->cache.cache_waits == 0);
	if (r->cache.cache_waits >= most)
		return false;
	r->cache.cache_waits++;
	return stk__io_submit_at(c->io, r, stk__clock_ns() + (ms < LONGEST_WAIT_MS ? ms : LONGEST_WAIT_MS) * 1000000);
}

static void serve(struct stk_cache *c, struct stk_request *r)
{
	const struct stk_cache_key key = key_of(r);
	const uint64_t admission_changes = stk__io_admission_changes(c->io);
	enum look look = look_up(c, r, true);
	bool claimed = false;
	if (look == REFUSED) {
		if (!stk__io_await_admission(c->io, r, r->retry.refused_bytes, admission_changes))
			stk__io_finish(c->io, r, stk__request_cancelled(r));
		return;
	}
	if (look != HIT && keeps(c) && !atomic_load(&r->cancelled)) {
		claimed = take_claim(c, key);
		if (!claimed && wait_for_it(c, r))
			return;
		if (claimed && (look = look_up(c, r, true)) != MISS) { /* another request has written the entry between the two look-ups */
			cancel_claim(c, key);
			claimed = false;
		}
		if (look == REFUSED && stk__io_await_admission(c->io, r, r->retry.refused_bytes, admission_changes))
			return;
	}
	if (look == HIT) {
		stk__io_finish(c->io, r, STK_OK);
		return;
	}
	count(&c->misses, 1);
	r->cache.state = claimed ? STK_CACHE_CLAIMED : STK_CACHE_MISSED;
	stk__io_fetch(c->io, r);
}

/* Body of the cache's threads. Serves waiting requests before it writes entries. Ends when `served.ending` is set and neither is left. */
static void *work(void *arg)
{
	struct stk_cache *c = arg;
	pthread_mutex_lock(&c->served.lock);
	for (;;) {
		struct stk_request *r = stk__queue_pop(&c->served.queue);
		struct keep *k = r ? NULL : c->first;
		if (!r && !k && c->served.ending)
			break;
		if (!r && !k) {
			stk__served_wait(&c->served);
			continue;
		}
		c->served.waiting--;
		if (k && !(c->first = k->next))
			c->last = &c->first;
		pthread_mutex_unlock(&c->served.lock);
		if (r)
			serve(c, r);
		else
			write_entry(c, k);
		pthread_mutex_lock(&c->served.lock);
	}
	pthread_mutex_unlock(&c->served.lock);
	return NULL;
}

static void submit(void *cache, struct stk_request *r)
{
	struct stk_cache *c = cache;
	pthread_mutex_lock(&c->served.lock);
	const bool queued = !c->ended && !atomic_load(&r->cancelled) &&
			    !stk__served_push(&c->served, r, NULL); /* without a thread the request goes to its source */
	pthread_mutex_unlock(&c->served.lock);
	if (queued)
		return;
	r->cache.state = STK_CACHE_LEFT_OUT;
	stk__io_fetch(c->io, r);
}

static bool cancel(void *cache, struct stk_request *r)
{
	struct stk_cache *c = cache;
	pthread_mutex_lock(&c->served.lock);
	bool waits = stk__served_remove(&c->served, r);
	pthread_mutex_unlock(&c->served.lock);
	return waits;
}

/* ---- life ---- */

static void end(void *cache)
{
	struct stk_cache *c = cache;
	pthread_mutex_lock(&c->served.lock);
	c->ended = true;
	struct stk_request_queue queue = stk__served_take_all(&c->served);
	pthread_mutex_unlock(&c->served.lock);
	for (struct stk_request *r; (r = stk__queue_pop(&queue));) {
		atomic_store(&r->cancelled, true);
		stk__io_finish(c->io, r, stk__request_cancelled(r));
	}
}

static void destroy(void *cache)
{
	struct stk_cache *c = cache;
	stk__served_end(&c->served);
	for (struct keep *k = c->first, *next; k; k = next) { /* entries are left only if no thread could be started */
		next = k->next;
		stk__buffer_release(k->bytes);
		stk__free(k);
	}
	for (int i = 0; i < CLAIMS; i++) /* claims of entries that were never written */
		for (struct claim *claim = c->claims[i], *next; claim; claim = next) {
			next = claim->next;
			stk__free(claim);
		}
	stk__cache_disk_close(&c->disk);
	stk__served_destroy(&c->served);
	stk__free(c);
}

static const struct stk_io_cache_ops cache_ops = {
	.try_now = try_now, .submit = submit, .cancel = cancel, .take = take, .unclaim = unclaim, .end = end, .destroy = destroy};

enum stk_status stk__cache_add(struct stk_io *io, const char *dir, uint64_t limit, struct stk_cache **out, struct stk_error *err)
{
	struct stk_cache *c = *out = stk__calloc(1, sizeof *c);
	if (!c)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a cache");
	c->io = io;
	enum stk_status status = stk__cache_disk_open(&c->disk, dir, limit, c->notice, err);
	if (status) {
		stk__free(c);
		*out = NULL;
		return status;
	}
	c->last = &c->first;
	atomic_store(&c->notice_state, c->notice[0] ? WAITING : QUIET);
	stk__served_init(&c->served, "stoker-cache", work, c, THREADS, c->threads);
	stk__io_use_cache(io, &cache_ops, c);
	return STK_OK;
}

void stk__cache_counters(struct stk_cache *c, struct stk_cache_counters *out)
{
	*out = (struct stk_cache_counters){
		.hits = atomic_load(&c->hits),
		.hit_bytes = atomic_load(&c->hit_bytes),
		.misses = atomic_load(&c->misses),
		.kept = atomic_load(&c->kept),
		.kept_bytes = atomic_load(&c->kept_bytes),
		.left_out = atomic_load(&c->left_out),
		.damaged = atomic_load(&c->damaged),
		.stale = atomic_load(&c->stale),
		.waits = atomic_load(&c->waits),
		.pending = atomic_load(&c->pending),
		.used = stk__cache_used(&c->disk),
		.limit = c->disk.limit,
	};
}

bool stk__cache_notice(struct stk_cache *c, char text[512])
{
	int waiting = WAITING;
	if (atomic_load_explicit(&c->notice_state, memory_order_relaxed) != WAITING ||
		!atomic_compare_exchange_strong(&c->notice_state, &waiting, TOLD))
		return false;
	memcpy(text, c->notice, sizeof c->notice);
	return true;
}
