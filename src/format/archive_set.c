/* SPDX-License-Identifier: Apache-2.0 */
#include "format/archive_set.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/list.h"
#include "io/version.h"
#include "thread/crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Maximum numbers of threads that open archives: large for objects, since each thread waits for the store; small for files. PIECES: maximum number of
 * requests of 1 MiB that all threads together may have in flight. */
enum { LOCAL_THREADS = 8, REMOTE_THREADS = 64, PIECES = 128 };
/* Sum of the `jump` (struct stk_archive_pace) of all archives that are read at the same time, in bytes. */
static const int64_t jump_of_all = 32 << 20;

struct opening {
	const struct stk_access *access;
	enum stk_archive_kind kind;
	struct stk_archive_index *at;
	bool *index_named; /* [archive]: true if its index comes from an index file that the user has named */
	int32_t count;
	struct stk_io *io; /* reads objects; NULL: all archives are local files */
	struct stk_archive_pace pace;
	const struct stk_archive_watch *watch; /* the caller's functions; may be NULL */
	struct stk_archive_watch locked;       /* receives notices on any thread, and passes them to `watch` */
	pthread_mutex_t lock;                  /* held while watch->notice is called; progress is reported only by the caller's thread */
	_Atomic int64_t members;               /* number of members that the searches have found so far */
	_Atomic bool stop;
};

static void notify_locked(void *user, const char *text)
{
	struct opening *o = user;
	pthread_mutex_lock(&o->lock);
	if (o->watch && o->watch->notice)
		o->watch->notice(o->watch->user, text);
	pthread_mutex_unlock(&o->lock);
}

/* ---- one archive ---- */

static enum stk_status search(struct opening *o, struct stk_archive_file *f, struct stk_archive_index *x, struct stk_error *err)
{
	struct stk_archive_index found;
	if (!stk__archive_kept_load(o->kind, f, &found, &o->locked)) {
		enum stk_status s = stk__archive_index_scan(o->kind, f, NULL, NULL, &found, err);
		if (s)
			return s;
		found.path = x->path;
		stk__archive_keep(o->kind, &found, &o->locked);
	} else {
		stk__free(found.path);
		found.path = x->path;
		/* The archive was copied after its index had been made. The index gets the copy's times and inode, so that the next run accepts it at once. */
		if (!f->io && found.modified_ns && (found.changed_ns != f->changed_ns || found.inode != f->inode)) {
			found.changed_ns = f->changed_ns;
			found.inode = f->inode;
			stk__archive_keep(o->kind, &found, NULL);
			found.unkept = false; /* the old index remains, and is accepted after a comparison of headers */
		}
	}
	stk__free(x->bytes.data);
	*x = found;
	return STK_OK;
}

static bool is_cancelled(void *user)
{
	return atomic_load(&((struct opening *)user)->stop);
}

static enum stk_status open_one(void *user, int32_t i, struct stk_error *err)
{
	struct opening *o = user;
	struct stk_archive_index *x = &o->at[i];
	const struct stk_access access = {.interrupted = is_cancelled, .user = o};
	struct stk_archive_file f;
	enum stk_status s =
		stk__archive_open(&f, x->path, stk__is_object(x->path) ? o->io : NULL, &access, o->pace, stk__archive_least(o->kind), err);
	if (s)
		return s;
	f.stop = &o->stop;
	f.found = &o->members;
	if (!o->index_named[i] || !stk__archive_index_fits(o->kind, x, &f))
		s = search(o, &f, x, err);
	if (f.io) /* the store's version, since an index that was uploaded with its archive has none */
		memcpy(x->version, f.object.version, sizeof x->version);
	stk__archive_close(&f);
	return s;
}

static bool report_progress(void *user, int32_t done)
{
	struct opening *o = user;
	return o->watch->progress(o->watch->user, done, o->count, atomic_load(&o->members));
}

static enum stk_status run_all(struct opening *o, bool objects, struct stk_error *err)
{
	const int most = objects ? REMOTE_THREADS : LOCAL_THREADS, at_a_time = o->count < most ? o->count : most;
	const struct stk_crew crew = {.count = o->count,
		.threads = at_a_time,
		.run = open_one,
		.progress = o->watch && o->watch->progress ? report_progress : NULL,
		.user = o,
		.stop = &o->stop};
	o->pace.max_requests = PIECES / (at_a_time + 1) > 2 ? PIECES / (at_a_time + 1) : 2;
	o->pace.jump = jump_of_all / (at_a_time + 1);
	pthread_mutex_init(&o->lock, NULL);
	enum stk_status s = stk__crew_run(&crew, err);
	pthread_mutex_destroy(&o->lock);
	return s;
}

/* ---- the list of archives ---- */

static bool grow(struct opening *o, int32_t more)
{
	size_t n = (size_t)o->count + (size_t)more + 1;
	struct stk_archive_index *at = stk__realloc(o->at, n * sizeof *at);
	o->at = at ? at : o->at;
	bool *given = at ? stk__realloc(o->index_named, n * sizeof *given) : NULL;
	o->index_named = given ? given : o->index_named;
	return given;
}

static bool is_index_file(const char *path)
{
	char head[8];
	struct stat st;
	int fd = stk__is_object(path) ? -1 : stk__file_open(stk__file_path(path), &st);
	ssize_t n = fd < 0 ? 0 : read(fd, head, sizeof head);
	if (fd >= 0)
		close(fd);
	return n > 0 && stk__archive_index_is(head, (size_t)n);
}

static enum stk_status add_index(struct opening *o, const char *path, struct stk_error *err)
{
	uint8_t *data;
	size_t n;
	struct stk_archive_index *found = NULL;
	int32_t count = 0;
	enum stk_status s = stk__access_read(o->access, path, (size_t)1 << 40, &data, &n, err);
	if (s)
		return s;
	s = stk__archive_index_parse(o->kind, data, n, path, &found, &count, err);
	stk__free(data);
	if (!s && !grow(o, count))
		s = stk__fail(err, STK_NO_MEMORY, "out of memory for the archives of %.300s", path);
	for (int32_t i = 0; i < count; i++) {
		if (s) {
			stk__archive_index_free(&found[i]);
			continue;
		}
		o->index_named[o->count] = true;
		o->at[o->count++] = found[i];
	}
	stk__free(found);
	return s;
}

static enum stk_status add_path(struct opening *o, const char *path, struct stk_error *err)
{
	if (is_index_file(path))
		return add_index(o, path, err);
	char *copy = stk__strdup(path);
	if (!copy || !grow(o, 1)) {
		stk__free(copy);
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the archive %.300s", path);
	}
	o->index_named[o->count] = false;
	o->at[o->count++] = (struct stk_archive_index){.path = copy, .last = -1};
	return STK_OK;
}

static bool ask_access(void *user, int64_t done, int64_t archives, int64_t members)
{
	const struct stk_access *access = user;
	(void)done, (void)archives, (void)members;
	return !access->interrupted || !access->interrupted(access->user);
}

static void notify_access(void *user, const char *text)
{
	const struct stk_access *access = user;
	if (access->notice)
		access->notice(access->notice_user, text);
}

enum stk_status stk__archives_open(enum stk_archive_kind kind, const struct stk_access *access, const char *const *paths, int32_t count,
	const struct stk_archive_watch *watch, struct stk_archives *out, struct stk_error *err)
{
	const struct stk_archive_watch ask = {.progress = ask_access, .notice = notify_access, .user = (void *)(uintptr_t)access};
	struct opening o = {.kind = kind, .access = access, .watch = watch || !access ? watch : &ask};
	struct stk_storage *storage = NULL;
	const char *object = NULL;
	enum stk_status s = STK_OK;
	o.locked = (struct stk_archive_watch){.notice = notify_locked, .user = &o};
	for (int32_t i = 0; i < count && s == STK_OK; i++)
		s = add_path(&o, paths[i], err);
	for (int32_t i = 0; i < o.count && !object; i++)
		object = stk__is_object(o.at[i].path) ? o.at[i].path : NULL;
	if (!s && object)
		s = stk__access_open(access, object, &storage, err);
	o.io = storage ? stk__storage_io(storage) : NULL;
	if (!s)
		s = run_all(&o, object, err);
	stk_storage_unref(&storage);
	stk__free(o.index_named);
	*out = (struct stk_archives){o.at, o.count};
	if (s)
		stk__archives_free(out);
	return s;
}

void stk__archives_free(struct stk_archives *a)
{
	for (int32_t i = 0; i < a->count; i++)
		stk__archive_index_free(&a->at[i]);
	stk__free(a->at);
	*a = (struct stk_archives){0};
}

enum stk_status stk__archives_samples(const struct stk_archives *a, int32_t parts_each, struct stk_samples *out, struct stk_error *err)
{
	const char **paths = stk__calloc((size_t)a->count + 1, sizeof *paths);
	if (!paths)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the names of %d archives", a->count);
	for (int32_t i = 0; i < a->count; i++)
		paths[i] = a->at[i].path;
	enum stk_status s = stk__samples_init(out, paths, a->count, parts_each, err);
	for (int32_t i = 0; i < a->count && !s; i++)
		out->objects[i] = (struct stk_samples_object){.size = stk__is_object(paths[i]) ? a->at[i].size : 0,
			.tag = stk__is_object(paths[i]) ? stk__etag_hash(a->at[i].version) : 0};
	stk__free(paths);
	return s;
}
