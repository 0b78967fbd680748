/* SPDX-License-Identifier: Apache-2.0
 * Opens the folder of a cache, reads and writes its entries, removes old ones, and locks claims. */
#include "io/cache_disk.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/machine_memory.h"
#include "base/memory.h"
#include "base/system.h"
#include "base/xxhash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define STATE_MAGIC "STKCACHE"
#define TAG "CACHEDIR.TAG"
enum {
	PAGE = 4096,          /* size of `state` in bytes */
	FIRST_LOCK = 1 << 16, /* offset of the first byte that a claim may lock; byte 0 is the page's lock */
	LOCK_TRIES = 40,      /* number of tries, half a millisecond apart; after them `used` is changed without the lock */
	OPEN_TRIES = 1000,    /* number of tries, ten milliseconds apart, while another process removes old entries */
	MOST_RECOUNTS = 4     /* maximum number of recounts after other programs have truncated or overwritten `state` */
};

/* The second line distinguishes Stoker's caches from those of other programs, which have the same first line. */
static const char tag_text[] =
	"Signature: 8a477f597d28d172789f06886806bc55\n# A cache of Stoker's (stoker cache clear removes what it holds).\n";

/* The first bytes of the file `state`. used: total size of the entries, finished or reserved, in bytes. begun, begun_last: times at which this run and the
 * previous one began, in seconds since 1970. */
struct page {
	char magic[8];
	uint64_t used;
	int64_t begun, begun_last;
};

/* ---- files of the folder ---- */

static int open_folder(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens a file directly in a folder. Does not wait for a FIFO and does not follow a link. */
static int open_plain(int at, const char *name, int flags)
{
	return openat(at, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
}

/* Opens the folder of an entry: "3f" for "3f/9a01...". Returns -1 on failure. makes: creates the folder if needed. */
static int open_part(const struct stk_cache_disk *d, const char *name, bool makes)
{
	char part[3] = {name[0], name[1], 0};
	int fd = open_folder(d->folder, part);
	return fd < 0 && makes && errno == ENOENT && (!mkdirat(d->folder, part, 0777) || errno == EEXIST) ? open_folder(d->folder, part)
													  : fd;
}

int stk__cache_open(struct stk_cache_disk *d, const char *name, bool cached)
{
	if (!atomic_load_explicit(&d->no_openat2, memory_order_relaxed)) {
		struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
			.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | (cached ? RESOLVE_CACHED : 0)};
		int fd = (int)syscall(SYS_openat2, d->folder, name, &how, sizeof how);
		if (fd >= 0 || (errno != ENOSYS && errno != EINVAL && errno != EPERM))
			return fd;
		/* the kernel is older than 5.12, or a seccomp filter does not know the call */
		atomic_store_explicit(&d->no_openat2, true, memory_order_relaxed);
	}
	int folder = open_part(d, name, false), fd = folder < 0 ? -1 : open_plain(folder, name + 3, O_RDONLY), e = errno;
	if (folder >= 0)
		close(folder);
	errno = e;
	return fd;
}

/* ---- walking ---- */

static bool is_hex(const char *name, size_t n)
{
	return strspn(name, "0123456789abcdef") == n && strlen(name) == n;
}

/* Opens the folder `name` of the folder `parent` for listing; NULL if it cannot be opened. */
static DIR *list(int parent, const char *name)
{
	const int folder = open_folder(parent, name);
	DIR *d = folder < 0 ? NULL : fdopendir(folder);
	if (!d && folder >= 0)
		close(folder);
	return d;
}

static bool walk_part(int root, const char *name, stk_cache_visitor *visit, void *user)
{
	char path[STK_CACHE_NAME];
	struct stat st;
	bool on = true;
	DIR *part = list(root, name);
	for (const struct dirent *e; part && on && (e = readdir(part));) {
		if (!is_hex(e->d_name, 30))
			continue;
		snprintf(path, sizeof path, "%.2s/%.30s", name, e->d_name);
		if (!fstatat(dirfd(part), e->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode))
			on = visit(user, path, &st);
	}
	if (part)
		closedir(part);
	return on;
}

void stk__cache_walk(const struct stk_cache_disk *d, stk_cache_visitor *visit, void *user)
{
	char name[4];
	bool on = true;
	for (unsigned i = 0; i < 256 && on; i++) {
		snprintf(name, sizeof name, "%02x", i);
		on = walk_part(d->folder, name, visit, user);
	}
}

static bool add_size(void *user, const char *name, const struct stat *st)
{
	(void)name;
	*(uint64_t *)user += (uint64_t)st->st_size;
	return true;
}

/* ---- opening ---- */

static bool is_ours(int folder)
{
	char text[sizeof tag_text] = "";
	struct stat st;
	int fd = open_plain(folder, TAG, O_RDONLY);
	bool ok = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && pread(fd, text, sizeof text, 0) == sizeof text - 1 &&
		  memcmp(text, tag_text, sizeof text - 1) == 0;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Returns whether the folder is empty, except for tags that other Stoker processes are about to write. */
static bool is_empty(int folder)
{
	DIR *d = list(folder, ".");
	bool empty = d;
	for (const struct dirent *e; empty && (e = readdir(d));)
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strncmp(e->d_name, TAG ".", sizeof TAG) == 0;
	if (d)
		closedir(d);
	return empty;
}

/* Opens the folder for the setting "memory", in /dev/shm. Any user may create folders in /dev/shm, so this folder must belong to this user and be closed to
 * others. makes: creates it if needed. */
static enum stk_status own_memory(struct stk_cache_disk *d, bool makes, struct stk_error *err)
{
	struct stat st;
	snprintf(d->dir, sizeof d->dir, "/dev/shm/stoker-%u", (unsigned)geteuid());
	if (makes && mkdir(d->dir, 0700) && errno != EEXIST)
		return stk__fail_errno(err, errno, "cache=\"memory\": %s cannot be made", d->dir);
	d->folder = open_folder(AT_FDCWD, d->dir);
	if (d->folder < 0 && errno == ENOENT)
		return stk__fail(err, STK_INVALID, "cache=\"memory\": there is no %s", d->dir);
	if (d->folder < 0 || fstat(d->folder, &st) || st.st_uid != geteuid())
		return stk__fail(
			err, STK_INVALID, "cache=\"memory\": %s is not this user's own folder: remove it, or name another folder", d->dir);
	if (st.st_mode & 077 && fchmod(d->folder, 0700))
		return stk__fail_errno(err, errno, "cache=\"memory\": %s is open to other users", d->dir);
	return STK_OK;
}

/* Creates the folder and its parents, like mkdir -p. Users outside of the group cannot write to new folders. Returns 0, or the errno of the first folder that
 * could not be created. */
static int make_folders(char *path)
{
	int e = 0;
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		if (mkdir(path, 0775) && errno != EEXIST)
			e = e ? e : errno;
		*slash = '/';
	}
	if (mkdir(path, 0775) && errno != EEXIST)
		e = e ? e : errno;
	return e;
}

/* e: the reason, as errno. */
static enum stk_status refuse_folder(const char *given, bool makes, int e, struct stk_error *err)
{
	char why[128];
	if (!makes && (e == ENOENT || e == ENOTDIR))
		return stk__fail(err, STK_INVALID, "%.200s: it is not a Stoker cache", given);
	return stk__fail(err, STK_INVALID, makes ? "cache: %s is not a folder, and none could be made: %s" : "%s: it cannot be opened: %s",
		given, strerror_r(e, why, sizeof why));
}

static enum stk_status open_root(struct stk_cache_disk *d, const char *given, bool makes, struct stk_error *err)
{
	struct stat st;
	if (strcmp(given, "memory") == 0)
		return own_memory(d, makes, err);
	if (strlen(given) >= STK_CACHE_DIR - 1 || !*given)
		return stk__fail(err, STK_INVALID, "cache: \"%.100s\" is not the name of a folder", given);
	snprintf(d->dir, sizeof d->dir, "%s", given);
	const int unmade = makes ? make_folders(d->dir) : 0;
	d->folder = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* follows links, since the user named this folder */
	if (d->folder < 0 || fstat(d->folder, &st))
		return refuse_folder(given, makes, unmade && errno == ENOENT ? unmade : errno, err);
	if (st.st_mode & S_IWOTH && st.st_uid != geteuid() && st.st_uid != 0)
		return stk__fail(err, STK_INVALID,
			"cache: %s belongs to another user (%u), and everybody can write to it: name a folder of your own", given,
			(unsigned)st.st_uid);
	return STK_OK;
}

/* Marks a folder as a cache. The tag appears under its name only when it is complete. A read-only folder stays unmarked. */
static void write_tag(const struct stk_cache_disk *d)
{
	char path[STK_CACHE_DIR + sizeof TAG];
	struct stk_new_file f;
	snprintf(path, sizeof path, "%s/" TAG, d->dir);
	if (stk__new_file_begin(&f, path, 0644))
		stk__new_file_end(&f, stk__new_file_write(&f, tag_text, sizeof tag_text - 1) && !fchmod(f.fd, 0644));
}

static enum stk_status find_folder(struct stk_cache_disk *d, const char *dir, struct stk_error *err)
{
	enum stk_status status = open_root(d, dir, true, err);
	if (status || is_ours(d->folder))
		return status;
	if (!is_empty(d->folder)) /* another process may have just begun to use this folder */
		return is_ours(d->folder)
			       ? STK_OK
			       : stk__fail(err, STK_INVALID,
					 "cache: %s holds other files and is not a Stoker cache: name a new folder, or an empty one", dir);
	write_tag(d);
	return STK_OK;
}

/* ---- forks ---- */

/* The caches whose `state` this process has open. A lock lasts as long as any process has its open file, and a forked child inherits that. So if the parent
 * were killed, its children would keep its claims, and other processes would wait for entries that no process fetches any more. */
static struct {
	pthread_mutex_t lock;
	struct stk_cache_disk *first;
	bool watched; /* true if the functions below are called at forks */
} open_disks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void)
{
	pthread_mutex_lock(&open_disks.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&open_disks.lock);
}

/* Closes `state` of all caches, which a child does not use: it has none of the threads of its parent's storages. */
static void after_fork_in_child(void)
{
	for (struct stk_cache_disk *d = open_disks.first; d; d = d->next_open) {
		close(d->fd);
		d->fd = -1;
		d->read_only = true;
	}
	open_disks.first = NULL;
	pthread_mutex_unlock(&open_disks.lock);
}

static void open_state_file(struct stk_cache_disk *d)
{
	pthread_mutex_lock(&open_disks.lock);
	if (!open_disks.watched) /* if memory is short, claims also last as long as children, and the next cache tries again */
		open_disks.watched = !pthread_atfork(before_fork, after_fork, after_fork_in_child);
	d->fd = open_plain(d->folder, "state", O_RDWR | O_CREAT);
	const int e = errno;
	if (d->fd >= 0) {
		d->next_open = open_disks.first;
		open_disks.first = d;
	}
	pthread_mutex_unlock(&open_disks.lock);
	errno = e;
}

static void close_state_file(struct stk_cache_disk *d)
{
	pthread_mutex_lock(&open_disks.lock);
	struct stk_cache_disk **at = &open_disks.first;
	while (*at && *at != d)
		at = &(*at)->next_open;
	if (*at)
		*at = d->next_open;
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	pthread_mutex_unlock(&open_disks.lock);
}

/* ---- state ---- */

static void lock_page(struct stk_cache_disk *d)
{
	pthread_mutex_lock(&d->lock);
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	for (int i = 0; i < LOCK_TRIES && !d->no_locks; i++) {
		if (!fcntl(d->fd, F_OFD_SETLK, &l))
			return;
		d->no_locks = errno != EAGAIN && errno != EACCES;
		nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
	d->no_locks = true; /* the file system has no locks, or another program does not release this one */
}

static void unlock_page(struct stk_cache_disk *d)
{
	struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_len = 1};
	if (!d->no_locks && fcntl(d->fd, F_OFD_SETLK, &l))
		errno = 0; /* the lock ends when the file is closed */
	pthread_mutex_unlock(&d->lock);
}

static bool read_page(const struct stk_cache_disk *d, struct page *p)
{
	return pread(d->fd, p, sizeof *p, 0) == sizeof *p && memcmp(p->magic, STATE_MAGIC, 8) == 0 && p->used <= INT64_MAX;
}

static bool write_page(const struct stk_cache_disk *d, const struct page *p)
{
	return pwrite(d->fd, p, sizeof *p, 0) == sizeof *p;
}

/* Makes a new page with this run's times. Its `used` is the total size of all entries. */
static void recount(const struct stk_cache_disk *d, struct page *p)
{
	*p = (struct page){.begun = d->begin_sec, .begun_last = d->last_begin_sec};
	memcpy(p->magic, STATE_MAGIC, 8);
	stk__cache_walk(d, add_size, &p->used);
}

/* Reads the page, or makes a new one if it is damaged. After MOST_RECOUNTS new pages returns false, and this process treats the folder as read-only. Call
 * with the lock held. */
static bool current_page(struct stk_cache_disk *d, struct page *p)
{
	if (read_page(d, p))
		return true;
	if (d->recounts == MOST_RECOUNTS) {
		d->read_only = true;
		return false;
	}
	d->recounts++;
	recount(d, p);
	return true;
}

uint64_t stk__cache_used(const struct stk_cache_disk *d)
{
	struct page p;
	return d->fd >= 0 && read_page(d, &p) ? p.used : 0;
}

void stk__cache_set_used(struct stk_cache_disk *d, uint64_t used)
{
	struct page p;
	lock_page(d);
	if (current_page(d, &p)) {
		p.used = used;
		write_page(d, &p);
	}
	unlock_page(d);
}

static void give_back(struct stk_cache_disk *d, uint64_t bytes)
{
	struct page p;
	if (!bytes)
		return;
	lock_page(d);
	if (current_page(d, &p)) {
		p.used = p.used > bytes ? p.used - bytes : 0;
		d->read_only |= !write_page(d, &p);
	}
	unlock_page(d);
}

static bool reserve_bytes(struct stk_cache_disk *d, uint64_t bytes)
{
	struct page p;
	lock_page(d);
	bool reserved = current_page(d, &p) && p.used <= d->limit && bytes <= d->limit - p.used;
	p.used += reserved ? bytes : 0;
	reserved = reserved && write_page(d, &p);
	unlock_page(d);
	return reserved;
}

/* Writes to `why` that the file `name` of the folder is `what` and so cannot be used. Returns false. */
static bool refuse(char why[200], const char *name, const char *what)
{
	snprintf(why, 200, "its \"%s\" is %s, which Stoker did not make: remove it", name, what);
	return false;
}

/* Opens `state`, and extends it with zeros to a whole page if needed; on a full disk this write fails. Returns false, and writes the reason to `why`, if the
 * cache can only be read. */
static bool open_state(struct stk_cache_disk *d, char why[200])
{
	static const char zeros[PAGE];
	struct stat st;
	open_state_file(d);
	if (d->fd < 0 && errno == ELOOP)
		return refuse(why, "state", "a link");
	bool ok = d->fd >= 0 && !fstat(d->fd, &st);
	if (ok && !S_ISREG(st.st_mode))
		return refuse(why, "state", stk__file_kind(st.st_mode));
	if (ok && st.st_nlink > 1)
		return refuse(why, "state", "a file with a second name");
	if (ok && st.st_size < PAGE)
		ok = pwrite(d->fd, zeros + st.st_size, (size_t)(PAGE - st.st_size), st.st_size) == PAGE - st.st_size;
	if (!ok)
		snprintf(why, 200, "%s", strerror(errno));
	return ok;
}

/* Returns whether the name has the form PID-N-SIZE, which stk__cache_write gives to unfinished entries. Sets *size to the last number. */
static bool is_unfinished(const char *name, uint64_t *size)
{
	int dashes = 0;
	for (const char *c = name; *c; c++) {
		if (*c != '-' && !(*c >= '0' && *c <= '9'))
			return false;
		dashes += *c == '-';
	}
	const char *last = strrchr(name, '-');
	*size = last ? strtoull(last + 1, NULL, 10) : 0;
	return dashes == 2;
}

/* Removes unfinished entries of processes that ended; call only while no other process has the cache open. Returns the number of bytes reserved for them. */
static uint64_t remove_unfinished(struct stk_cache_disk *d)
{
	uint64_t reserved = 0, size;
	struct stat st;
	DIR *tmp = list(d->tmp, ".");
	for (const struct dirent *e; tmp && (e = readdir(tmp));)
		if (is_unfinished(e->d_name, &size) && !fstatat(d->tmp, e->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
			!unlinkat(d->tmp, e->d_name, 0))
			reserved += size;
	if (tmp)
		closedir(tmp);
	return reserved;
}

static bool open_tmp(struct stk_cache_disk *d, char why[200])
{
	const int e = mkdirat(d->folder, "tmp", 0777) ? errno : 0;
	d->tmp = open_folder(d->folder, "tmp");
	if (d->tmp < 0 && e == EEXIST)
		return refuse(why, "tmp", "not a folder");
	if (d->tmp < 0)
		snprintf(why, 200, "%s", strerror(e ? e : errno));
	return d->tmp >= 0;
}

static void begin_run(struct stk_cache_disk *d)
{
	struct page p;
	uint64_t reserved = remove_unfinished(d);
	/* after a power failure the page may be older than the entries, and its `used` too small */
	const bool known = read_page(d, &p);
	d->last_begin_sec = known ? p.begun : 0;
	d->begin_sec = (int64_t)time(NULL);
	if (!known || reserved > p.used) {
		recount(d, &p);
		reserved = 0;
	}
	p.used -= reserved;
	p.begun = d->begin_sec;
	p.begun_last = d->last_begin_sec;
	d->read_only |= !write_page(d, &p);
}

/* Copies the times of a run that another process has begun. Lowers times in the future, as after a change of the clock. */
static void join_run(struct stk_cache_disk *d)
{
	struct page p;
	const int64_t now = (int64_t)time(NULL);
	if (!read_page(d, &p))
		return;
	d->begin_sec = p.begun < now ? p.begun : now;
	d->last_begin_sec = p.begun_last < d->begin_sec ? p.begun_last : d->begin_sec;
}

/* Returns the default limit. A folder in memory, whose file system may be as large as all memory, gets at most half of the memory that is available, or what it
 * has already: the rest is for the programs that read the cache. */
static uint64_t default_limit(const struct stk_cache_disk *d)
{
	struct statvfs v;
	struct statfs type;
	if (fstatvfs(d->folder, &v))
		return (uint64_t)10 << 30;
	const uint64_t used = stk__cache_used(d), limit = ((uint64_t)v.f_bavail * v.f_frsize + used) / 5 * 4;
	if (fstatfs(d->folder, &type) || type.f_type != TMPFS_MAGIC)
		return limit;
	const uint64_t available = stk__memory_available(); /* without what the folder has, which only the cache can free */
	uint64_t half = available / 2 + used / 2;
	half = half > used ? half : used;
	return half < limit ? half : limit;
}

static uint64_t remove_old(struct stk_cache_disk *d, int64_t cutoff, uint64_t wanted);

/* Takes the lock that all processes with an open cache share. While another process removes old entries, waits for at most OPEN_TRIES * 10 ms. Returns false
 * if the lock is not free by then or does not work. */
static bool lock_shared(struct stk_cache_disk *d)
{
	for (int i = 0; i < OPEN_TRIES; i++) {
		if (!flock(d->fd, LOCK_SH | LOCK_NB))
			return true;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	return false;
}

/* Makes this process treat the folder as read-only, and closes `state`. */
static void forget_state(struct stk_cache_disk *d)
{
	d->read_only = true;
	close_state_file(d);
}

static void begin(struct stk_cache_disk *d)
{
	*d = (struct stk_cache_disk){.folder = -1, .tmp = -1, .fd = -1, .number = stk__random_name() >> 2};
	pthread_mutex_init(&d->lock, NULL);
}

enum stk_status stk__cache_disk_open(struct stk_cache_disk *d, const char *dir, uint64_t limit, char notice[512], struct stk_error *err)
{
	char why[200];
	begin(d);
	notice[0] = 0;
	enum stk_status status = find_folder(d, dir, err);
	if (status) {
		stk__cache_disk_close(d);
		return status;
	}
	if (!open_state(d, why) || !open_tmp(d, why)) {
		forget_state(d);
		snprintf(notice, 512, "cache: %.200s cannot be written to (%s): its entries are used, and none are added", d->dir, why);
		return STK_OK;
	}
	bool only_user = !flock(d->fd, LOCK_EX | LOCK_NB);
	if (only_user)
		begin_run(d);
	d->limit = limit ? limit : default_limit(d);
	uint64_t used = stk__cache_used(d);
	if (only_user && used > d->limit)
		remove_old(d, INT64_MAX, used - d->limit);
	if (!lock_shared(d)) { /* without the lock another process could remove this process's unfinished entries */
		d->read_only = true;
		snprintf(notice, 512, "cache: %.300s: another process holds its lock: its entries are used, and none are added", d->dir);
	}
	if (!only_user)
		join_run(d);
	return STK_OK;
}

enum stk_status stk__cache_disk_look(struct stk_cache_disk *d, const char *dir, struct stk_error *err)
{
	char why[200];
	begin(d);
	enum stk_status status = open_root(d, dir, false, err);
	if (!status && !is_ours(d->folder))
		status = stk__fail(err, STK_INVALID, "%.200s: it is not a Stoker cache", d->dir);
	if (status)
		stk__cache_disk_close(d);
	else if (!open_state(d, why))
		forget_state(d);
	return status;
}

void stk__cache_disk_close(struct stk_cache_disk *d)
{
	int *all[] = {&d->tmp, &d->folder};
	close_state_file(d);
	for (int i = 0; i < 2; i++) {
		if (*all[i] >= 0)
			close(*all[i]);
		*all[i] = -1;
	}
	pthread_mutex_destroy(&d->lock);
}

/* ---- keys ---- */

struct stk_cache_key stk__cache_key(const char *uri, int64_t offset, int64_t length, uint64_t store_hash)
{
	const int64_t range[3] = {offset, length, (int64_t)store_hash};
	const uint64_t seed = stk__xxh64(range, sizeof range, 0);
	const size_t n = strlen(uri);
	return (struct stk_cache_key){stk__xxh64(uri, n, seed), stk__xxh64(uri, n, ~seed)};
}

void stk__cache_name(struct stk_cache_key key, char name[STK_CACHE_NAME])
{
	char digits[33];
	snprintf(digits, sizeof digits, "%016llx%016llx", (unsigned long long)key.a, (unsigned long long)key.b);
	snprintf(name, STK_CACHE_NAME, "%.2s/%.30s", digits, digits + 2);
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
		errno = 0; /* the lock ends with the process */
}

/* ---- room ---- */

struct old {
	int64_t used; /* time of the last use, in seconds since 1970 */
	uint64_t size;
	char name[STK_CACHE_NAME];
};

struct olds {
	struct old *entries;
	size_t count, capacity;
	int64_t cutoff;
};

static bool take_old(void *user, const char *name, const struct stat *st)
{
	struct olds *o = user;
	if (st->st_mtime >= o->cutoff)
		return true;
	if (o->count == o->capacity) {
		size_t capacity = o->capacity ? 2 * o->capacity : 1024;
		struct old *grown = stk__realloc(o->entries, capacity * sizeof *grown);
		if (!grown)
			return false;
		o->entries = grown;
		o->capacity = capacity;
	}
	struct old *e = &o->entries[o->count++];
	*e = (struct old){.used = st->st_mtime, .size = (uint64_t)st->st_size};
	snprintf(e->name, sizeof e->name, "%s", name);
	return true;
}

static int by_use(const void *a, const void *b)
{
	const struct old *x = a, *y = b;
	return (x->used > y->used) - (x->used < y->used);
}

/* Removes entries whose last use was before `cutoff`, in seconds since 1970. Removes the least recently used ones first, until `wanted` bytes are free. Returns
 * the total size of the removed entries. */
static uint64_t remove_old(struct stk_cache_disk *d, int64_t cutoff, uint64_t wanted)
{
	struct olds o = {.cutoff = cutoff};
	uint64_t freed = 0;
	stk__cache_walk(d, take_old, &o);
	if (o.count)
		qsort(o.entries, o.count, sizeof *o.entries, by_use);
	for (size_t i = 0; i < o.count && freed < wanted; i++) {
		stk__cache_remove(d, o.entries[i].name, NULL);
		freed += o.entries[i].size;
	}
	stk__free(o.entries);
	return freed;
}

/* Reserves `bytes`. If there is too little room, first removes entries that were last used before the previous run. They are removed until they make up a
 * twentieth of the limit, so that the folder need not be searched for each new entry. If there are fewer, the folder is not searched again. */
bool stk__cache_reserve(struct stk_cache_disk *d, uint64_t bytes)
{
	if (d->read_only || bytes > d->limit)
		return false;
	if (reserve_bytes(d, bytes))
		return true;
	if (atomic_load(&d->scanned))
		return false;
	uint64_t wanted = bytes > d->limit / 20 ? bytes : d->limit / 20;
	if (remove_old(d, d->last_begin_sec, wanted) < wanted)
		atomic_store(&d->scanned, true);
	return reserve_bytes(d, bytes);
}

bool stk__cache_remove(struct stk_cache_disk *d, const char *name, const struct stat *seen)
{
	struct stat st;
	int part = open_part(d, name, false);
	bool removed = part >= 0 && !fstatat(part, name + 3, &st, AT_SYMLINK_NOFOLLOW) &&
		       !(seen && (st.st_ino != seen->st_ino || st.st_dev != seen->st_dev)) && !unlinkat(part, name + 3, 0);
	if (removed && d->fd >= 0 && S_ISREG(st.st_mode))
		give_back(d, (uint64_t)st.st_size);
	if (part >= 0)
		close(part);
	return removed;
}

bool stk__cache_exists(const struct stk_cache_disk *d, const char *name)
{
	struct stat st;
	return !fstatat(d->folder, name, &st, AT_SYMLINK_NOFOLLOW);
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

enum stk_status stk__cache_write(
	struct stk_cache_disk *d, struct stk_cache_head *h, const void *bytes, const char *uri, struct stk_error *err)
{
	char name[STK_CACHE_NAME], temporary[80];
	const uint64_t size = stk__cache_entry_bytes(h->bytes, uri);
	struct stat replaced;
	h->bytes_hash = stk__xxh64(bytes, (size_t)h->bytes, 0);
	stk__cache_head_seal(h, uri);
	stk__cache_name((struct stk_cache_key){h->a, h->b}, name);
	snprintf(temporary, sizeof temporary, "%ld-%llu-%llu", (long)getpid(), (unsigned long long)atomic_fetch_add(&d->number, 1),
		(unsigned long long)size);
	int fd = open_plain(d->tmp, temporary, O_WRONLY | O_CREAT | O_EXCL);
	bool ok = fd >= 0 && stk__write_bytes(fd, h, sizeof *h) && stk__write_bytes(fd, bytes, (size_t)h->bytes) &&
		  stk__write_bytes(fd, uri, (size_t)h->uri);
	int e = errno;
	if (fd >= 0 && close(fd) && ok) {
		ok = false;
		e = errno;
	}
	int part = ok ? open_part(d, name, true) : -1;
	const bool replaces = part >= 0 && !fstatat(part, name + 3, &replaced, AT_SYMLINK_NOFOLLOW) && S_ISREG(replaced.st_mode);
	const bool stored = part >= 0 && !renameat(d->tmp, temporary, part, name + 3);
	e = ok && !stored ? errno : e;
	if (part >= 0)
		close(part);
	if (stored) {
		give_back(d, replaces ? (uint64_t)replaced.st_size : 0);
		return STK_OK;
	}
	if (fd >= 0)
		unlinkat(d->tmp, temporary, 0);
	give_back(d, size);
	return stk__fail_errno(err, e, "cache: %s: cannot write to it", d->dir);
}
