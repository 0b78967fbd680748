/* SPDX-License-Identifier: Apache-2.0
 * Opens archives and finds the offsets of their members: from an existing index, or by a search of each archive, whose result is then stored as its index. */
#ifndef STK_FORMAT_ARCHIVE_SET_H
#define STK_FORMAT_ARCHIVE_SET_H

#include "format/archive_index.h"
#include "format/samples.h"
#include "storage/storage.h"

/* Functions that stk__archives_open calls while it works; both may be NULL. */
struct stk_archive_watch {
	/* Called ten times a second, on the caller's thread. done: number of archives whose index is complete, out of `archives`; members: number of members
	 * found so far. If it returns false, stk__archives_open returns STK_CANCELLED after the requests in flight have been answered. */
	bool (*progress)(void *user, int64_t done, int64_t archives, int64_t members);
	void (*notice)(void *user, const char *text); /* receives warnings for the user; called by one thread at a time */
	void *user;
};

struct stk_archives {
	struct stk_archive_index *at;
	int32_t count;
};

/* Opens archives. access: may be NULL. paths: archives, local or remote, and index files; an index file adds all archives that it describes. Many archives
 * are opened at the same time. Returns the first failure in the order of the paths. Free *out with stk__archives_free. watch: if NULL, the functions of
 * `access` are called instead. */
STK_MUST_USE enum stk_status stk__archives_open(enum stk_archive_kind kind, const struct stk_access *access, const char *const *paths,
	int32_t count, const struct stk_archive_watch *watch, struct stk_archives *out, struct stk_error *err);
void stk__archives_free(struct stk_archives *a);
/* Makes an empty table for the samples of these archives. parts_each: number of parts of a sample. */
STK_MUST_USE enum stk_status stk__archives_samples(
	const struct stk_archives *a, int32_t parts_each, struct stk_samples *out, struct stk_error *err);

/* Loads the archive's own index: ARCHIVE.stoker in the archive's folder, or a file in the user's cache folder (archive_kept.c). Returns false if no index
 * was found, or if it does not describe the archive's present contents. */
bool stk__archive_kept_load(
	enum stk_archive_kind kind, struct stk_archive_file *f, struct stk_archive_index *x, const struct stk_archive_watch *watch);
/* Stores the archive's own index. A failure is no error: it is reported by watch->notice, and sets x->unkept. */
void stk__archive_keep(enum stk_archive_kind kind, struct stk_archive_index *x, const struct stk_archive_watch *watch);
/* Returns whether this host seems to have an index of the archive, current or not, without reading it. */
bool stk__archive_kept_here(const char *archive);
/* Returns whether the path ends like the name of an archive's own index. */
bool stk__archive_is_kept(const char *path);

#endif
