/* SPDX-License-Identifier: Apache-2.0
 * The folder of a cache: opening it, runs, claims, and the limit. */
#include "io/cache_disk.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/xxhash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define STATE_MAGIC "STKCACHE"
#define TAG "CACHEDIR.TAG"
enum { PAGE = 4096, FIRST_LOCK = 1 << 16 }; /* claims lock bytes behind the page */

static const char tag_text[] =
	"Signature: 8a477f597d28d172789f06886806bc55\n# A cache of Stoker's (stoker cache clear removes what it holds).\n";

/* ---- walking ---- */

static bool is_hex(const char *name, size_t n)
{
	return strspn(name, "0123456789abcdef") == n && strlen(name) == n;
}

static bool walk_part(const char *dir, const char *name, bool (*visit)(void *user, const char *path, const struct stat *st), void *user)
{
	char path[STK_CACHE_PATH + 64];
	struct stat st;
	bool on = true;
	snprintf(path, sizeof path, "%.3900s/%.8s", dir, name);
	DIR *part = opendir(path);
	for (const struct dirent *e; part && on && (e = readdir(part));) {
		if (!is_hex(e->d_name, 30))
			continue;
		snprintf(path, sizeof path, "%.3900s/%.8s/%.32s", dir, name, e->d_name);
		if (!lstat(path, &st) && S_ISREG(st.st_mode))
			on = visit(user, path, &st);
	}
	if (part)
		closedir(part);
	return on;
}

void stk__cache_walk(const char *dir, bool (*visit)(void *user, const char *path, const struct stat *st), void *user)
{
	char name[4];
	bool on = true;
	for (unsigned i = 0; i < 256 && on; i++) {
		snprintf(name, sizeof name, "%02x", i);
		on = walk_part(dir, name, visit, user);
	}
}

/* ---- opening ---- */

static bool is_ours(const char *dir)
{
	char path[STK_CACHE_PATH], text[44] = "";
	snprintf(path, sizeof path, "%.3900s/" TAG, dir);
	FILE *f = fopen(path, "re");
	bool good = f && fread(text, 1, 43, f) == 43 && memcmp(text, tag_text, 43) == 0;
	if (f)
		fclose(f);
	return good;
}

static bool is_empty(const char *dir)
{
	DIR *d = opendir(dir);
	bool empty = d;
	for (const struct dirent *e; empty && (e = readdir(d));)
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strncmp(e->d_name, TAG, strlen(TAG)) == 0;
	if (d)
		closedir(d);
	return empty;
}

/* "memory": a folder that the kernel keeps in memory. Anybody may make folders there, so this one must be the user's, and nobody else's business. */
static enum stk_status own_memory(char out[STK_CACHE_DIR], bool makes, struct stk_error *err)
{
	struct stat st;
	snprintf(out, STK_CACHE_DIR, "/dev/shm/stoker-%u", (unsigned)geteuid());
	if (makes && mkdir(out, 0700) && errno != EEXIST)
		return stk__fail_errno(err, errno, "cache=\"memory\": %s cannot be made", out);
	if (lstat(out, &st))
		return stk__fail(err, STK_INVALID, "cache=\"memory\": there is no %s", out);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return stk__fail(
			err, STK_INVALID, "cache=\"memory\": %s is not this user's own folder: remove it, or name another folder", out);
	if (st.st_mode & 077 && chmod(out, 0700))
		return stk__fail_errno(err, errno, "cache=\"memory\": %s is open to other users", out);
	return STK_OK;
}

static enum stk_status name_folder(struct stk_cache_disk *d, const char *given, bool makes, struct stk_error *err)
{
	if (strcmp(given, "memory") == 0)
		return own_memory(d->dir, makes, err);
	if (strlen(given) >= STK_CACHE_DIR - 1 || !*given)
		return stk__fail(err, STK_INVALID, "cache: \"%.100s\" is no name of a folder", given);
	snprintf(d->dir, sizeof d->dir, "%s", given);
	return STK_OK;
}

/* As mkdir -p. */
static void make_folders(char *path)
{
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		if (mkdir(path, 0777) && errno != EEXIST)
			errno = 0; /* the last one says it */
		*slash = '/';
	}
	if (mkdir(path, 0777) && errno != EEXIST)
		errno = 0;
}

/* Marks a folder as a cache. The tag appears whole: whoever finds the folder in use finds the tag too. A folder that cannot be written to stays unmarked. */
static void write_tag(const char *dir)
{
	char path[STK_CACHE_PATH], temporary[STK_CACHE_PATH];
	snprintf(path, sizeof path, "%.3900s/" TAG, dir);
	snprintf(temporary, sizeof temporary, "%.3900s/" TAG ".XXXXXX", dir);
	int fd = mkostemp(temporary, O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f)
		return;
	bool written = fputs(tag_text, f) >= 0 && !fchmod(fd, 0644);
	if (fclose(f) || !written || rename(temporary, path))
		unlink(temporary);
}

static enum stk_status find_folder(struct stk_cache_disk *d, const char *dir, struct stk_error *err)
{
	struct stat st;
	enum stk_status status = name_folder(d, dir, true, err);
	if (status)
		return status;
	make_folders(d->dir);
	if (stat(d->dir, &st) || !S_ISDIR(st.st_mode))
		return stk__fail(err, STK_INVALID, "cache: %s is no folder, and none could be made", dir);
	if (is_ours(d->dir))
		return STK_OK;
	if (!is_empty(d->dir)) /* another process may have begun to use it just now */
		return is_ours(d->dir) ? STK_OK
				       : stk__fail(err, STK_INVALID,
						 "cache: %s holds other files and is no cache: name a new folder, or an empty one", dir);
	write_tag(d->dir);
	return STK_OK;
}

static bool add_size(void *user, const char *path, const struct stat *st)
{
	(void)path;
	*(uint64_t *)user += (uint64_t)st->st_size;
	return true;
}

/* A page of it is written rather than left a hole: a full disk shows here, and not as a signal when it is first touched. */
static bool map_state(struct stk_cache_disk *d)
{
	static const char zeros[PAGE];
	char path[STK_CACHE_PATH];
	struct stat st;
	snprintf(path, sizeof path, "%.3900s/state", d->dir);
	d->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (d->fd < 0 || fstat(d->fd, &st) || (st.st_size < PAGE && pwrite(d->fd, zeros, PAGE, 0) != PAGE))
		return false;
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
	d->state = page == MAP_FAILED ? NULL : page;
	return d->state;
}

static void give_back(struct stk_cache_disk *d, uint64_t bytes)
{
	uint64_t used = atomic_load(&d->state->used);
	while (!atomic_compare_exchange_weak(&d->state->used, &used, used > bytes ? used - bytes : 0))
		;
}

/* Removes what processes left that died while they wrote. No other process has the cache open. Returns how many bytes were reserved for that. */
static uint64_t remove_unfinished(struct stk_cache_disk *d)
{
	char path[STK_CACHE_PATH + 300];
	uint64_t reserved = 0;
	snprintf(path, sizeof path, "%.3900s/tmp", d->dir);
	DIR *tmp = opendir(path);
	for (const struct dirent *e; tmp && (e = readdir(tmp));) {
		const char *size = strrchr(e->d_name, '-');
		if (!size)
			continue;
		snprintf(path, sizeof path, "%.3900s/tmp/%.255s", d->dir, e->d_name);
		if (!unlink(path))
			reserved += strtoull(size + 1, NULL, 10);
	}
	if (tmp)
		closedir(tmp);
	return reserved;
}

static void begin_run(struct stk_cache_disk *d)
{
	struct stk_cache_state *s = d->state;
	char path[STK_CACHE_PATH];
	snprintf(path, sizeof path, "%.3900s/tmp", d->dir);
	uint64_t reserved = mkdir(path, 0777) ? remove_unfinished(d) : 0;
	/* The page is new, or was removed, or does not count what it should: a machine that lost its power may have kept an older one. */
	if (memcmp(s->magic, STATE_MAGIC, 8) != 0 || reserved > atomic_load(&s->used) || atomic_load(&s->used) > INT64_MAX) {
		uint64_t used = 0;
		stk__cache_walk(d->dir, add_size, &used);
		*s = (struct stk_cache_state){.used = used, .begun = s->begun};
		memcpy(s->magic, STATE_MAGIC, 8);
		reserved = 0;
	}
	give_back(d, reserved);
	atomic_store(&s->begun_last, atomic_load(&s->begun));
	atomic_store(&s->begun, (int64_t)time(NULL));
}

static uint64_t default_limit(const struct stk_cache_disk *d)
{
	struct statvfs v;
	if (statvfs(d->dir, &v))
		return (uint64_t)10 << 30;
	return ((uint64_t)v.f_bavail * v.f_frsize + atomic_load(&d->state->used)) / 5 * 4;
}

static uint64_t remove_old(struct stk_cache_disk *d, int64_t before, uint64_t wanted);

enum stk_status stk__cache_disk_open(struct stk_cache_disk *d, const char *dir, uint64_t limit, char notice[512], struct stk_error *err)
{
	*d = (struct stk_cache_disk){
		.fd = -1, .number = (uint64_t)stk__clock_ns()}; /* containers that share the folder may have equal pids */
	notice[0] = 0;
	enum stk_status status = find_folder(d, dir, err);
	if (status)
		return status;
	if (!map_state(d)) {
		d->read_only = true;
		snprintf(notice, 512, "cache: %.300s cannot be written to (%s): what it holds is used, and nothing is added", d->dir,
			strerror(errno));
		return STK_OK;
	}
	bool alone = !flock(d->fd, LOCK_EX | LOCK_NB);
	if (alone)
		begin_run(d);
	d->limit = limit ? limit : default_limit(d);
	uint64_t used = atomic_load(&d->state->used);
	if (alone && used > d->limit)
		remove_old(d, INT64_MAX, used - d->limit);
	if (flock(d->fd, LOCK_SH | LOCK_NB) && flock(d->fd, LOCK_SH))
		d->read_only = true; /* without a lock somebody may take what is being written for left over */
	return STK_OK;
}

enum stk_status stk__cache_disk_look(struct stk_cache_disk *d, const char *dir, struct stk_error *err)
{
	*d = (struct stk_cache_disk){.fd = -1};
	enum stk_status status = name_folder(d, dir, false, err);
	if (status)
		return status;
	if (!is_ours(d->dir))
		return stk__fail(err, STK_INVALID, "%.200s: it is no cache of Stoker's", d->dir);
	if (!map_state(d))
		d->read_only = true;
	return STK_OK;
}

void stk__cache_disk_close(struct stk_cache_disk *d)
{
	if (d->state)
		munmap(d->state, PAGE);
	if (d->fd >= 0)
		close(d->fd);
	d->state = NULL;
	d->fd = -1;
}

/* ---- keys ---- */

struct stk_cache_key stk__cache_key(const char *uri, int64_t offset, int64_t length, uint64_t place)
{
	const int64_t range[3] = {offset, length, (int64_t)place};
	const uint64_t seed = stk__xxh64(range, sizeof range, 0);
	const size_t n = strlen(uri);
	return (struct stk_cache_key){stk__xxh64(uri, n, seed), stk__xxh64(uri, n, ~seed)};
}

void stk__cache_path(const struct stk_cache_disk *d, struct stk_cache_key key, char path[STK_CACHE_PATH])
{
	char name[33];
	snprintf(name, sizeof name, "%016llx%016llx", (unsigned long long)key.a, (unsigned long long)key.b);
	snprintf(path, STK_CACHE_PATH, "%s/%.2s/%s", d->dir, name, name + 2);
}

/* ---- claims ---- */

static int lock_byte(struct stk_cache_disk *d, struct stk_cache_key key, short type)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = FIRST_LOCK + (off_t)(key.a >> 2), .l_len = 1};
	return fcntl(d->fd, F_OFD_SETLK, &l);
}

bool stk__cache_claim(struct stk_cache_disk *d, struct stk_cache_key key)
{
	return !lock_byte(d, key, F_WRLCK) || (errno != EAGAIN && errno != EACCES);
}

void stk__cache_unclaim(struct stk_cache_disk *d, struct stk_cache_key key)
{
	if (lock_byte(d, key, F_UNLCK))
		errno = 0; /* it goes with the process */
}

/* ---- room ---- */

struct old {
	int64_t used; /* seconds since 1970 */
	uint64_t size;
	char name[34]; /* "3f/9a01.." */
};

struct olds {
	struct old *at;
	size_t count, room;
	int64_t before;
};

static bool take_old(void *user, const char *path, const struct stat *st)
{
	struct olds *o = user;
	if (st->st_mtime >= o->before)
		return true;
	if (o->count == o->room) {
		size_t room = o->room ? 2 * o->room : 1024;
		struct old *more = stk__realloc(o->at, room * sizeof *more);
		if (!more)
			return false;
		o->at = more;
		o->room = room;
	}
	struct old *e = &o->at[o->count++];
	*e = (struct old){.used = st->st_mtime, .size = (uint64_t)st->st_size};
	snprintf(e->name, sizeof e->name, "%s", path + strlen(path) - 33);
	return true;
}

static int by_use(const void *a, const void *b)
{
	const struct old *x = a, *y = b;
	return (x->used > y->used) - (x->used < y->used);
}

/* Removes entries that were last used before then, the oldest first, until so many bytes are free. Returns how many are. */
static uint64_t remove_old(struct stk_cache_disk *d, int64_t before, uint64_t wanted)
{
	struct olds o = {.before = before};
	uint64_t freed = 0;
	char path[STK_CACHE_PATH];
	stk__cache_walk(d->dir, take_old, &o);
	if (o.count)
		qsort(o.at, o.count, sizeof *o.at, by_use);
	for (size_t i = 0; i < o.count && freed < wanted; i++) {
		snprintf(path, sizeof path, "%.3900s/%s", d->dir, o.at[i].name);
		stk__cache_remove(d, path, NULL);
		freed += o.at[i].size;
	}
	stk__free(o.at);
	return freed;
}

static bool take_room(struct stk_cache_disk *d, uint64_t bytes)
{
	if (atomic_fetch_add(&d->state->used, bytes) + bytes <= d->limit)
		return true;
	give_back(d, bytes);
	return false;
}

/* Old entries are looked for once a process and run, and then a twentieth of the limit is made free at a time. */
bool stk__cache_reserve(struct stk_cache_disk *d, uint64_t bytes)
{
	if (d->read_only || bytes > d->limit)
		return false;
	if (take_room(d, bytes))
		return true;
	if (atomic_load(&d->scanned))
		return false;
	uint64_t wanted = bytes > d->limit / 20 ? bytes : d->limit / 20;
	if (remove_old(d, atomic_load(&d->state->begun_last), wanted) < wanted)
		atomic_store(&d->scanned, true);
	return take_room(d, bytes);
}

bool stk__cache_remove(struct stk_cache_disk *d, const char *path, const struct stat *seen)
{
	struct stat st;
	if (lstat(path, &st) || (seen && (st.st_ino != seen->st_ino || st.st_dev != seen->st_dev)) || unlink(path))
		return false;
	if (d->state)
		give_back(d, (uint64_t)st.st_size);
	return true;
}

/* ---- entries ---- */

uint64_t stk__cache_entry_bytes(uint64_t bytes, const char *uri)
{
	return sizeof(struct stk_cache_head) + bytes + strlen(uri);
}

static uint64_t hash_head(const struct stk_cache_head *h, const char *uri)
{
	return stk__xxh64(h, offsetof(struct stk_cache_head, head_hash), stk__xxh64(uri, (size_t)h->uri, 0));
}

void stk__cache_head_seal(struct stk_cache_head *h, const char *uri)
{
	memcpy(h->magic, "STKENTR1", 8);
	h->uri = strlen(uri);
	h->head_hash = hash_head(h, uri);
}

bool stk__cache_head_good(const struct stk_cache_head *h, const char *uri, struct stk_cache_key key, uint64_t file_size)
{
	return memcmp(h->magic, "STKENTR1", 8) == 0 && h->a == key.a && h->b == key.b && h->bytes <= file_size && h->uri <= file_size &&
	       sizeof *h + h->bytes + h->uri == file_size && h->head_hash == hash_head(h, uri);
}

static bool write_all(int fd, const void *data, size_t n)
{
	const uint8_t *p = data;
	while (n) {
		ssize_t k = write(fd, p, n);
		if (k < 0 && errno != EINTR)
			return false;
		p += k > 0 ? k : 0;
		n -= k > 0 ? (size_t)k : 0;
	}
	return true;
}

/* Under its name; the folder is made when it is first needed. */
static bool publish(const char *temporary, const char *path)
{
	if (!rename(temporary, path))
		return true;
	char folder[STK_CACHE_PATH];
	snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
	return (!mkdir(folder, 0777) || errno == EEXIST) && !rename(temporary, path);
}

enum stk_status stk__cache_write(
	struct stk_cache_disk *d, struct stk_cache_head *h, const void *bytes, const char *uri, struct stk_error *err)
{
	char path[STK_CACHE_PATH], temporary[STK_CACHE_PATH + 80];
	const uint64_t size = stk__cache_entry_bytes(h->bytes, uri);
	struct stat before;
	h->bytes_hash = stk__xxh64(bytes, (size_t)h->bytes, 0);
	stk__cache_head_seal(h, uri);
	stk__cache_path(d, (struct stk_cache_key){h->a, h->b}, path);
	snprintf(temporary, sizeof temporary, "%s/tmp/%ld-%llu-%llu", d->dir, (long)getpid(),
		(unsigned long long)atomic_fetch_add(&d->number, 1), (unsigned long long)size);
	int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	bool good = fd >= 0 && write_all(fd, h, sizeof *h) && write_all(fd, bytes, (size_t)h->bytes) && write_all(fd, uri, (size_t)h->uri);
	int e = errno;
	if (fd >= 0 && close(fd) && good) {
		good = false;
		e = errno;
	}
	const bool replaces = good && !lstat(path, &before);
	if (good && publish(temporary, path)) {
		if (replaces)
			give_back(d, (uint64_t)before.st_size);
		return STK_OK;
	}
	e = good ? errno : e;
	if (fd >= 0)
		unlink(temporary);
	give_back(d, size);
	return stk__fail_errno(err, e, "cache: %s: cannot write to it", d->dir);
}
