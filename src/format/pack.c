/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pack.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "format/archive_file.h"
#include "stoker/index.h"
#include "storage/storage.h"
#include "thread/crew.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READERS = 8, THREADS = 8, MOST_SHARDS = 1000000 };

struct packing {
	const struct stk_pack_options *options;
	struct stk_pack_plan plan;
	struct stk_io *io;
	bool *is_current; /* [tar]: true if an earlier run has written the tar, and its files are still those of that run */
	int sources;      /* descriptor of the file of sources; -1: not open */
	_Atomic int64_t packed, kept;
	_Atomic bool stop;
};

/* ---- the folder ---- */

static bool shard_path(const struct packing *k, int64_t i, char out[PATH_MAX])
{
	return snprintf(out, PATH_MAX, "%s/shards-%06lld.tar", k->options->folder, (long long)i) < PATH_MAX;
}

/* Returns whether a name is that of a file that an interrupted run has left incomplete: "shards-000000.tar.0123456789abcdef.part". */
static bool is_part(const char *name)
{
	static const char *const begins[] = {"shards-", STK_PACK_PLAN ".", STK_PACK_SOURCES ".", STK_PACK_CLASSES "."};
	const size_t n = strlen(name);
	bool own = false;
	for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
		own |= strncmp(name, begins[i], strlen(begins[i])) == 0;
	return own && n > 5 && strcmp(name + n - 5, ".part") == 0;
}

/* Fails if the folder holds other files than incomplete ones of stk_pack. Without a plan these are not its own, and it would replace some of them. */
static enum stk_status check_empty(const char *folder, struct stk_error *err)
{
	DIR *dir = opendir(folder);
	const struct dirent *e;
	if (!dir)
		return stk__fail_errno(err, errno, "%s: cannot open the folder", folder);
	do
		e = stk__next_entry(dir);
	while (e && (is_part(e->d_name) || stk__is_system_folder(e->d_name)));
	enum stk_status s = STK_OK;
	if (e)
		s = stk__fail(err, STK_INVALID, "%s: it holds other files, such as %s: name an empty folder", folder, e->d_name);
	else if (errno)
		s = stk__fail_errno(err, errno, "%s: cannot list the folder", folder);
	closedir(dir);
	return s;
}

/* Returns whether a folder, which need not exist yet, is the local folder `source` or is inside it. */
static bool is_inside(const char *folder, const char *source)
{
	char outer[PATH_MAX], inner[PATH_MAX], path[PATH_MAX];
	if (!realpath(source, outer) || snprintf(path, sizeof path, "%s", folder) >= PATH_MAX)
		return false;
	while (!realpath(path, inner)) {
		char *slash = strrchr(path, '/');
		if (errno != ENOENT)
			return false;
		if (!slash || slash == path)
			strcpy(path, slash ? "/" : ".");
		else
			*slash = '\0';
	}
	const size_t n = strlen(outer);
	return strncmp(inner, outer, n) == 0 && (inner[n] == '\0' || inner[n] == '/' || outer[n - 1] == '/');
}

/* Fails if the tars would lie inside the folder of their images, where later runs would take their folder for a class. source: a folder, an index or a URI. */
static enum stk_status check_outside(const char *folder, const char *source, struct stk_error *err)
{
	if (stk__is_object(source) || !is_inside(folder, stk__file_path(source)))
		return STK_OK;
	return stk__fail(err, STK_INVALID, "%s: the tars would lie inside %s, whose folders are classes: name a folder outside of it",
		folder, source);
}

/* Makes the folder, and writes a description of the plan into it. If the folder has a description already, it must be of the same plan, because tars that an
 * earlier run has finished are not written again. A folder without a description must be empty. */
static enum stk_status claim_folder(const struct packing *k, struct stk_error *err)
{
	const char *folder = k->options->folder;
	char path[PATH_MAX], description[128];
	uint8_t *existing = NULL;
	size_t size = 0;
	const bool exists = mkdir(folder, 0777) == 0 || errno == EEXIST;
	if (!exists && errno == ENOENT)
		return stk__fail_missing(err,
			"%s: cannot make the folder: the folder around it does not exist: make that first (mkdir -p), or give another name",
			folder);
	if (!exists)
		return stk__fail_errno(err, errno, "%s: cannot make the folder", folder);
	if (snprintf(path, sizeof path, "%s/%s", folder, STK_PACK_PLAN) >= PATH_MAX)
		return stk__fail(err, STK_INVALID, "%.200s...: the path is too long", folder);
	int n = snprintf(description, sizeof description, "stoker pack 1\n%lld samples in %lld tars\n%016llx\n", (long long)k->plan.samples,
		(long long)k->plan.shard_count, (unsigned long long)k->plan.digest);
	enum stk_status s = stk__read_whole(path, 1 << 16, &existing, &size, NULL);
	bool same = s == STK_OK && size == (size_t)n && memcmp(existing, description, size) == 0;
	stk__free(existing);
	if (same)
		return STK_OK;
	if (s == STK_OK)
		return stk__fail(
			err, STK_INVALID, "%s: it holds tars of another source, or of other options: name an empty folder", folder);
	s = check_empty(folder, err);
	return s ? s : stk__write_whole(path, description, (size_t)n, "plan", err);
}

/* Removes partial tars of runs that were killed. Partial tars that another process is still writing are locked, and stay. */
static void remove_parts(const char *folder)
{
	struct stat st;
	DIR *dir = opendir(folder);
	for (const struct dirent *e; dir && (e = readdir(dir));) {
		const bool of_tar = is_part(e->d_name) && strstr(e->d_name, ".tar.");
		int fd = of_tar ? openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
		if (fd < 0)
			continue;
		if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB))
			unlinkat(dirfd(dir), e->d_name, 0); /* a failure is ignored, since the file only takes space */
		close(fd);
	}
	if (dir)
		closedir(dir);
}

/* Fails for a class whose name would be several lines of classes.txt, so that the classes after it would get other names. */
static enum stk_status check_class_names(const struct packing *k, struct stk_error *err)
{
	for (int64_t i = 0; i < stk__file_list_classes(k->plan.list); i++) {
		const char *name = stk__file_list_class_name(k->plan.list, i);
		if (strpbrk(name, "\n\r"))
			return stk__fail(err, STK_INVALID,
				"%s: the class folder \"%s\" has a line break in its name, and " STK_PACK_CLASSES
				" has a line for each class: rename the folder",
				k->options->source, name);
	}
	return STK_OK;
}

static enum stk_status write_classes(const struct packing *k, struct stk_error *err)
{
	struct stk_text t = {0};
	char path[PATH_MAX];
	enum stk_status s = STK_OK;
	for (int64_t i = 0; i < stk__file_list_classes(k->plan.list); i++)
		stk__text_add(&t, "%s\n", stk__file_list_class_name(k->plan.list, i));
	snprintf(path, sizeof path, "%s/" STK_PACK_CLASSES, k->options->folder);
	if (t.failed)
		s = stk__fail(err, STK_NO_MEMORY, "out of memory for the names of classes");
	else if (t.length)
		s = stk__write_whole(path, t.s, t.length, "names of classes", err);
	stk__text_free(&t);
	return s;
}

/* ---- tars ---- */

enum { LINE = 17 }; /* length of a line of the file of sources */

static void write_line(char line[LINE + 1], uint64_t sources)
{
	snprintf(line, LINE + 1, "%016llx\n", (unsigned long long)sources);
}

/* Sets k->is_current from the sources of the tars of earlier runs. Then writes the file of sources with zeros for the other tars, and keeps it open: a line is
 * set only after its tar is complete. */
static enum stk_status open_sources(struct packing *k, struct stk_error *err)
{
	char path[PATH_MAX], line[LINE + 1];
	uint8_t *text = NULL;
	size_t size = 0;
	struct stk_new_file f;
	snprintf(path, sizeof path, "%s/" STK_PACK_SOURCES, k->options->folder);
	k->is_current = stk__calloc((size_t)k->plan.shard_count + 1, sizeof *k->is_current);
	if (!k->is_current)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the list of tars");
	bool ok = stk__read_whole(path, (size_t)MOST_SHARDS * LINE, &text, &size, NULL) == STK_OK;
	for (int64_t i = 0; ok && i < k->plan.shard_count && (size_t)(i + 1) * LINE <= size; i++) {
		write_line(line, k->plan.shards[i].sources);
		k->is_current[i] = memcmp(text + i * LINE, line, LINE) == 0;
	}
	stk__free(text);
	ok = stk__new_file_begin(&f, path, 0666);
	k->sources = ok ? fcntl(f.fd, F_DUPFD_CLOEXEC, 0) : -1;
	for (int64_t i = 0; i < k->plan.shard_count && ok; i++) {
		write_line(line, k->is_current[i] ? k->plan.shards[i].sources : 0);
		ok = stk__new_file_write(&f, line, LINE);
	}
	if (f.fd >= 0)
		ok = stk__new_file_end(&f, ok && k->sources >= 0);
	return ok ? STK_OK : stk__file_not_written(path, "list of tars", err);
}

static enum stk_status write_tar(struct packing *k, int32_t i, const char *path, struct stk_error *err)
{
	char line[LINE + 1];
	enum stk_status s = stk__pack_write(&k->plan, i, k->io, path, &k->packed, &k->stop, err);
	write_line(line, k->plan.shards[i].sources);
	if (!s && pwrite(k->sources, line, LINE, (off_t)i * LINE) != LINE)
		s = stk__file_not_written(path, "list of tars next to it", err);
	return s;
}

static enum stk_status pack_one(void *user, int32_t i, struct stk_error *err)
{
	struct packing *k = user;
	const struct stk_pack_shard *shard = &k->plan.shards[i];
	char path[PATH_MAX];
	struct stat st;
	if (!shard_path(k, i, path))
		return stk__fail(err, STK_INVALID, "%.200s...: the path is too long", k->options->folder);
	if (stat(path, &st) || st.st_size != shard->bytes || !k->is_current[i])
		return write_tar(k, i, path, err);
	for (int64_t m = shard->first; m < shard->first + shard->count; m++)
		atomic_fetch_add(&k->packed, k->plan.members[m].file >= 0);
	atomic_fetch_add(&k->kept, 1);
	return STK_OK;
}

static bool report_progress(void *user, int32_t done)
{
	struct packing *k = user;
	(void)done;
	return k->options->progress(k->options->user, atomic_load(&k->packed), k->plan.files);
}

static enum stk_status index_tars(const struct packing *k, struct stk_error *err)
{
	char path[PATH_MAX];
	const char *paths[] = {path};
	snprintf(path, sizeof path, "%s/shards-{000000..%06lld}.tar", k->options->folder, (long long)k->plan.shard_count - 1);
	const struct stk_tar_index_options o = {.size = sizeof o, .paths = paths, .path_count = 1};
	return stk_tar_index(&o, NULL, err);
}

static enum stk_status pack_all(struct packing *k, struct stk_error *err)
{
	const char *root = k->plan.list->root;
	const struct stk_crew crew = {.count = (int32_t)k->plan.shard_count,
		.threads = k->options->threads ? k->options->threads : THREADS,
		.run = pack_one,
		.progress = k->options->progress ? report_progress : NULL,
		.user = k,
		.stop = &k->stop};
	struct stk_storage *storage = NULL;
	enum stk_status s = claim_folder(k, err);
	if (!s)
		s = open_sources(k, err);
	if (!s)
		remove_parts(k->options->folder);
	if (!s)
		s = k->options->storage ? (storage = stk_storage_ref(k->options->storage), STK_OK)
					: stk__storage_create(&(struct stk_storage_config){0}, READERS, &storage, err);
	if (!s) {
		k->io = stk__storage_io(storage);
		s = stk__io_refresh(k->io, root, NULL, err);
	}
	if (!s)
		s = stk__crew_run(&crew, err);
	stk_storage_unref(&storage);
	if (!s)
		s = write_classes(k, err);
	return s ? s : index_tars(k, err);
}

enum stk_status stk_pack(const struct stk_pack_options *o, struct stk_pack_info *info, struct stk_error *err)
{
	if (STK_NEED(err, o) || STK_NEED(err, o->source, o->folder))
		return STK_INVALID;
	struct packing k = {.options = o, .sources = -1};
	if (o->size != sizeof *o || (info && info->size != sizeof *info))
		return stk__fail(err, STK_INVALID, "stk_pack_options.size is %zu; this library expects %zu", o->size, sizeof *o);
	if (o->shard_bytes < 0 || o->threads < 0 || o->threads > STK_MOST_CREW || o->seed < -1)
		return stk__fail(err, STK_INVALID,
			"shard_bytes is at least 0, seed at least -1, and threads is from 0 to %d; they are %lld, %lld and %d",
			STK_MOST_CREW, (long long)o->shard_bytes, (long long)o->seed, o->threads);
	if (stk__is_uri(o->folder))
		return stk__fail(err, STK_INVALID, "%s: tars are written to a local folder", o->folder);
	if (strpbrk(o->folder, "{}*?["))
		return stk__fail(err, STK_INVALID, "%s: the folder's name has one of {}*?[, which stand for several names in paths of tars",
			o->folder);
	enum stk_status s = check_outside(o->folder, o->source, err);
	if (!s)
		s = stk__pack_plan(o, &k.plan, err);
	if (s)
		return s;
	s = check_outside(o->folder, k.plan.list->root, err); /* of an index, the root is the folder whose files it lists */
	if (!s)
		s = check_class_names(&k, err);
	if (!s && k.plan.shard_count > MOST_SHARDS)
		s = stk__fail(err, STK_LIMIT, "%lld tars: let them be larger", (long long)k.plan.shard_count);
	if (!s)
		s = pack_all(&k, err);
	if (!s && info) {
		*info = (struct stk_pack_info){.size = sizeof *info,
			.tars = k.plan.shard_count,
			.samples = k.plan.samples,
			.files = k.plan.files,
			.kept = k.kept,
			.left_out = k.plan.left_out};
		for (int64_t i = 0; i < k.plan.shard_count; i++)
			info->bytes += k.plan.shards[i].bytes;
	}
	if (k.sources >= 0)
		close(k.sources);
	stk__free(k.is_current);
	stk__pack_plan_free(&k.plan);
	return s;
}
