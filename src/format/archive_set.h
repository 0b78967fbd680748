/* SPDX-License-Identifier: Apache-2.0
 * Archives and where their members lie: from an index that was made before, or by a search of each, which leaves one. */
#ifndef STK_FORMAT_ARCHIVE_SET_H
#define STK_FORMAT_ARCHIVE_SET_H

#include "format/archive_index.h"
#include "format/samples.h"
#include "io/storage.h"

/* What is told meanwhile; nullable both. */
struct stk_archive_watch {
	/* Ten times a second, on the caller's thread. False: STK_CANCELLED, when the requests under way have been answered. */
	bool (*progress)(void *user, int64_t done, int64_t archives, int64_t members);
	void (*notice)(void *user, const char *text); /* one thread at a time */
	void *user;
};

struct stk_archives {
	struct stk_archive_index *at;
	int32_t count;
};

/* access: nullable. paths: archives, local or not, and files of indexes, which stand for the archives in them. Many archives are looked at at a time. The first failure, in the
 * order of the paths, is told. watch: nullable. */
STK_MUST_USE enum stk_status stk__archives_open(enum stk_archive_kind kind, const struct stk_access *access, const char *const *paths,
	int32_t count, const struct stk_archive_watch *watch, struct stk_archives *out, struct stk_error *err);
void stk__archives_free(struct stk_archives *a);
/* An empty table for the samples of these archives. */
STK_MUST_USE enum stk_status stk__archives_samples(
	const struct stk_archives *a, int32_t parts_each, struct stk_samples *out, struct stk_error *err);

/* archive_kept.c: an archive's own index, ARCHIVE.stoker beside it, or in the folder stoker/indexes of the user's caches.
 * load: false where there is none that fits. */
bool stk__archive_kept_load(
	enum stk_archive_kind kind, struct stk_archive_file *f, struct stk_archive_index *x, const struct stk_archive_watch *watch);
/* Nothing fails where it cannot be kept. */
void stk__archive_keep(enum stk_archive_kind kind, const struct stk_archive_index *x, const struct stk_archive_watch *watch);
/* Whether there seems to be one on this host, current or not: nothing is asked for. */
bool stk__archive_kept_here(const char *archive);
/* Whether it is the name of such an index. */
bool stk__archive_is_kept(const char *path);

#endif
