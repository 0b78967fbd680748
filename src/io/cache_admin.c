/* SPDX-License-Identifier: Apache-2.0
 *
 * Inspects, verifies and clears a cache that other processes may be using. */
#include "io/cache_disk.h"
#include "stoker/cache.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/xxhash.h"

#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct tour {
	struct stk_cache_disk disk;
	struct stk_cache_facts facts;
	stk_cache_visit visit;
	void *user;
	const char *prefix; /* prefix of the URIs of entries to remove; NULL: all entries */
	bool removes, verifies;
};

struct found {
	struct stk_cache_head head;
	char uri[STK_CACHE_PATH];
	bool ok;
};

static bool read_at(int fd, void *to, size_t n, uint64_t at)
{
	for (size_t used = 0; used < n;) {
		ssize_t k = pread(fd, (uint8_t *)to + used, n - used, (off_t)(at + used));
		if (k <= 0)
			return false;
		used += (size_t)k;
	}
	return true;
}

static bool bytes_good(int fd, const struct stk_cache_head *h)
{
	uint8_t *bytes = stk__alloc((size_t)h->bytes + 1);
	bool ok = bytes && read_at(fd, bytes, (size_t)h->bytes, sizeof *h) && stk__xxh64(bytes, (size_t)h->bytes, 0) == h->bytes_hash;
	stk__free(bytes);
	return ok;
}

/* Returns the key that a file's name contains: "3f/9a01...". */
static struct stk_cache_key key_of(const char *file)
{
	char name[33];
	memcpy(name, file, 2);
	memcpy(name + 2, file + 3, 31);
	struct stk_cache_key key = {.b = strtoull(name + 16, NULL, 16)};
	name[16] = 0;
	key.a = strtoull(name, NULL, 16);
	return key;
}

static void read_file(struct stk_cache_disk *d, struct found *f, const char *name, bool verifies)
{
	struct stat st;
	int fd = stk__cache_open(d, name, false);
	const uint64_t size = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	bool complete = size && read_at(fd, &f->head, sizeof f->head, 0) && f->head.uri < sizeof f->uri && f->head.uri <= size &&
			read_at(fd, f->uri, (size_t)f->head.uri, size - f->head.uri);
	f->uri[complete ? f->head.uri : 0] = 0;
	f->ok = complete && stk__cache_head_good(&f->head, f->uri, key_of(name), size) && (!verifies || bytes_good(fd, &f->head));
	if (fd >= 0)
		close(fd);
}

static bool visit_file(void *user, const char *name, const struct stat *st)
{
	struct tour *t = user;
	struct found f = {.ok = false};
	read_file(&t->disk, &f, name, t->verifies);
	const struct stk_cache_entry e = {.uri = f.uri,
		.offset = f.head.offset,
		.length = f.head.length,
		.bytes = (int64_t)f.head.bytes,
		.used = (int64_t)st->st_mtime,
		.damaged = !f.ok};
	const bool matches = t->removes && (!t->prefix || strncmp(f.uri, t->prefix, strlen(t->prefix)) == 0);
	t->facts.damaged += !f.ok;
	const bool unwanted = matches || (t->verifies && !f.ok);
	const bool removed = unwanted && stk__cache_remove(&t->disk, name, NULL);
	const bool stays =
		unwanted && !removed && stk__cache_exists(&t->disk, name); /* if the entry does not exist, another process has removed it */
	if (matches && removed) {
		t->facts.removed++;
		t->facts.removed_bytes += st->st_size;
	} else if (stays || (f.ok && !unwanted)) {
		t->facts.entries++;
		t->facts.bytes += st->st_size;
	}
	return !t->visit || t->visit(t->user, &e);
}

static enum stk_status walk_folder(struct tour *t, const char *dir, struct stk_cache_facts *facts, struct stk_error *err)
{
	if (facts && facts->size != sizeof *facts)
		return stk__fail(err, STK_INVALID, "stk_cache_facts.size is %zu; this library expects %zu", facts->size, sizeof *facts);
	enum stk_status status = stk__cache_disk_look(&t->disk, dir, err);
	if (status)
		return status;
	t->facts.size = sizeof t->facts;
	stk__cache_walk(&t->disk, visit_file, t);
	/* The recorded size is corrected only if no other process uses the cache, because room that other processes have reserved is not visible in files. */
	if (t->verifies && t->disk.fd >= 0 && !flock(t->disk.fd, LOCK_EX | LOCK_NB))
		stk__cache_set_used(&t->disk, (uint64_t)t->facts.bytes);
	stk__cache_disk_close(&t->disk);
	if (facts)
		*facts = t->facts;
	return STK_OK;
}

enum stk_status stk_cache_list(const char *dir, stk_cache_visit visit, void *user, struct stk_cache_facts *facts, struct stk_error *err)
{
	if (STK_NEED(err, dir))
		return STK_INVALID;
	struct tour t = {.visit = visit, .user = user};
	return walk_folder(&t, dir, facts, err);
}

enum stk_status stk_cache_verify(const char *dir, stk_cache_visit visit, void *user, struct stk_cache_facts *facts, struct stk_error *err)
{
	if (STK_NEED(err, dir))
		return STK_INVALID;
	struct tour t = {.visit = visit, .user = user, .verifies = true};
	return walk_folder(&t, dir, facts, err);
}

enum stk_status stk_cache_clear(const char *dir, const char *prefix, struct stk_cache_facts *facts, struct stk_error *err)
{
	if (STK_NEED(err, dir))
		return STK_INVALID;
	struct tour t = {.prefix = prefix, .removes = true};
	return walk_folder(&t, dir, facts, err);
}
