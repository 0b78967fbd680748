/* SPDX-License-Identifier: Apache-2.0 */
#include "format/archive_set.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/list.h"
#include "thread/thread.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Of objects many at a time, since each waits; of files a few. */
enum { LOCAL_THREADS = 8, REMOTE_THREADS = 64, PIECES = 128 };
static const int64_t jump_of_all = 32 << 20; /* see stk_archive_pace: shared out among the archives that are read at a time */

struct opening {
	enum stk_archive_kind kind;
	struct stk_archive_index *at;
	bool *given; /* from a file of indexes: its path names the archive */
	int32_t count;
	struct stk_io *io; /* NULL: no object is among them */
	struct stk_archive_pace pace;
	const struct stk_archive_watch *watch; /* tells under the lock */
	struct stk_archive_watch locked;
	pthread_mutex_t lock;
	pthread_cond_t change;
	_Atomic int32_t next;
	_Atomic int64_t members;
	_Atomic bool failed, stop;
	int32_t done, bad; /* bad: the first archive that failed */
	int running;       /* threads */
	struct stk_error error;
};

static void tell_locked(void *user, const char *text)
{
	struct opening *o = user;
	pthread_mutex_lock(&o->lock);
	if (o->watch && o->watch->notice)
		o->watch->notice(o->watch->user, text);
	pthread_mutex_unlock(&o->lock);
}

/* ---- one archive ---- */

static bool is_object(const char *path)
{
	return stk__is_uri(path) && strncmp(path, "file://", 7) != 0;
}

static enum stk_status search(struct opening *o, struct stk_archive_file *f, struct stk_archive_index *x, struct stk_error *err)
{
	struct stk_archive_index found;
	if (!stk__archive_kept_load(o->kind, f, &found, &o->locked)) {
		enum stk_status s = stk__archive_index_scan(o->kind, f, &found, err);
		if (s)
			return s;
		found.path = x->path;
		stk__archive_keep(o->kind, &found, &o->locked);
	} else {
		stk__free(found.path);
		found.path = x->path;
	}
	stk__free(x->bytes.data);
	*x = found;
	return STK_OK;
}

static enum stk_status open_one(struct opening *o, int32_t i, struct stk_error *err)
{
	struct stk_archive_index *x = &o->at[i];
	struct stk_archive_file f;
	enum stk_status s = stk__archive_open(&f, x->path, is_object(x->path) ? o->io : NULL, o->pace, stk__archive_least(o->kind), err);
	if (s)
		return s;
	f.stop = &o->stop;
	f.found = &o->members;
	if (o->given[i] && stk__archive_index_fits(o->kind, x, &f)) {
		stk__archive_close(&f);
		return STK_OK;
	}
	s = search(o, &f, x, err);
	stk__archive_close(&f);
	return s;
}

/* Archives are taken in order, and one that was taken is looked at to its end: so the first that fails does not depend on who was faster. */
static void *run(void *user)
{
	struct opening *o = user;
	for (int32_t i; !atomic_load(&o->failed) && (i = atomic_fetch_add(&o->next, 1)) < o->count;) {
		struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
		enum stk_status s = open_one(o, i, &err);
		pthread_mutex_lock(&o->lock);
		if (s && s != STK_CANCELLED && (!atomic_load(&o->failed) || i < o->bad)) {
			o->bad = i;
			o->error = err;
			o->error.code = s;
			atomic_store(&o->failed, true);
		}
		o->done++;
		pthread_mutex_unlock(&o->lock);
	}
	pthread_mutex_lock(&o->lock);
	o->running--;
	pthread_cond_signal(&o->change);
	pthread_mutex_unlock(&o->lock);
	return NULL;
}

/* Until all threads have ended. */
static void tell_progress(struct opening *o)
{
	pthread_mutex_lock(&o->lock);
	while (o->running) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 100000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&o->change, &o->lock, &until);
		int64_t done = o->done;
		pthread_mutex_unlock(&o->lock);
		bool on = o->watch->progress(o->watch->user, done, o->count, atomic_load(&o->members));
		pthread_mutex_lock(&o->lock);
		if (!on) {
			atomic_store(&o->stop, true);
			atomic_store(&o->failed, true);
			o->bad = -1;
			o->error = (struct stk_error){.code = STK_CANCELLED, .message = "the search of archives was given up"};
		}
	}
	pthread_mutex_unlock(&o->lock);
}

static enum stk_status run_all(struct opening *o, bool objects, struct stk_error *err)
{
	pthread_t threads[REMOTE_THREADS];
	int most = objects ? REMOTE_THREADS : LOCAL_THREADS, n = 0, at_a_time = o->count < most ? o->count : most;
	bool watched = o->watch && o->watch->progress;
	int wanted = watched ? at_a_time : at_a_time - 1;
	o->pace.ahead = PIECES / (at_a_time + 1) > 2 ? PIECES / (at_a_time + 1) : 2;
	o->pace.jump = jump_of_all / (at_a_time + 1);
	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->change, NULL);
	o->running = wanted > 0 ? wanted : 0;
	while (n < wanted && stk__thread_start(&threads[n], "stk-index", run, o, NULL) == STK_OK)
		n++;
	pthread_mutex_lock(&o->lock);
	o->running -= wanted - n;
	pthread_mutex_unlock(&o->lock);
	if (watched && n) {
		tell_progress(o);
	} else {
		o->running++;
		run(o);
	}
	while (n)
		stk__thread_join(threads[--n]);
	pthread_cond_destroy(&o->change);
	pthread_mutex_destroy(&o->lock);
	if (!o->failed)
		return STK_OK;
	if (err)
		*err = o->error;
	return o->error.code;
}

/* ---- which archives ---- */

static bool grow(struct opening *o, int32_t more)
{
	size_t n = (size_t)o->count + (size_t)more + 1;
	struct stk_archive_index *at = stk__realloc(o->at, n * sizeof *at);
	o->at = at ? at : o->at;
	bool *given = at ? stk__realloc(o->given, n * sizeof *given) : NULL;
	o->given = given ? given : o->given;
	return given;
}

static bool is_index_file(const char *path)
{
	char head[8];
	int fd = is_object(path) ? -1 : open(strncmp(path, "file://", 7) == 0 ? path + 7 : path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
	enum stk_status s = stk__read_whole(path, (size_t)1 << 40, &data, &n, err);
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
		o->given[o->count] = true;
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
	o->given[o->count] = false;
	o->at[o->count++] = (struct stk_archive_index){.path = copy, .last = -1};
	return STK_OK;
}

enum stk_status stk__archives_open(enum stk_archive_kind kind, const char *const *paths, int32_t count,
	const struct stk_archive_watch *watch, struct stk_archives *out, struct stk_error *err)
{
	struct opening o = {.kind = kind, .watch = watch};
	const char *object = NULL;
	enum stk_status s = STK_OK;
	o.locked = (struct stk_archive_watch){.notice = tell_locked, .user = &o};
	for (int32_t i = 0; i < count && s == STK_OK; i++)
		s = add_path(&o, paths[i], err);
	for (int32_t i = 0; i < o.count && !object; i++)
		object = is_object(o.at[i].path) ? o.at[i].path : NULL;
	if (!s && object)
		s = stk__list_io(object, &o.io, err);
	if (!s)
		s = run_all(&o, object, err);
	stk__io_destroy(o.io);
	stk__free(o.given);
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
	stk__free(paths);
	return s;
}
