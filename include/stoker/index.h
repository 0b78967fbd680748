/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes indexes, with which later runs can begin without listing or searching the data: indexes of a folder of class folders, local or in a bucket, which
 * readers accept as file_root or file_list; and indexes of the files inside tars. */
#ifndef STOKER_INDEX_H
#define STOKER_INDEX_H

#include "stoker/storage.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first bytes of an index. */
#define STK_INDEX_MAGIC "STKINDEX"

struct stk_index_info {
	size_t size; /* sizeof(struct stk_index_info), set by the caller */
	int64_t files, classes;
	int64_t bytes; /* total size of all files; -1: unknown, since the sizes of files in a local folder are not looked up */
	int64_t index_bytes;
};

struct stk_index_options {
	size_t size;      /* sizeof(struct stk_index_options), set by the caller */
	const char *root; /* a folder, or a URI that can be listed: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX */
	/* Path of the index, which is written completely or not at all. Replaces an index and an empty file; another file is an error. */
	const char *path;
	struct stk_storage *storage; /* NULL: the settings of the environment */
	/* Called ten times per second on the caller's thread, while a bucket is listed, with the number of objects and folders so far. Returns false to stop
	 * with STK_CANCELLED. May be NULL. */
	bool (*progress)(void *user, int64_t entries);
	void *user;
};

/* Writes an index of all files below the root, at any depth; a reader's filters later choose among them. info may be NULL. Reads the
 * environment (AWS_...). */
STK_API STK_MUST_USE enum stk_status stk_index_write(
	const struct stk_index_options *options, struct stk_index_info *info, struct stk_error *err);

/* Indexes of the files inside tars, so that no tar has to be searched again. */
struct stk_tar_index_options {
	size_t size; /* sizeof(struct stk_tar_index_options), set by the caller */
	/* Tars, local or URIs, also patterns such as "shard-{000..127}.tar" and "shard-*.tar", or files that stk_tar_index wrote. */
	const char *const *paths;
	int32_t path_count;
	/* One file for all tars, which readers accept in place of the tars; written as stk_index_options.path is. NULL: one index for each tar:
	 * TAR.stoker next to the tar, or in $XDG_CACHE_HOME/stoker/indexes for URIs and for folders that cannot be written. An existing
	 * index that matches its tar is kept. Readers find these indexes by themselves. */
	const char *output;
	struct stk_storage *storage; /* NULL: the settings of the environment */
	/* All of these may be NULL. progress: called about ten times per second on the caller's thread; returns false to stop with STK_CANCELLED, after the
	 * requests under way have been answered. notice: called by one thread of the library at a time. component: called at the end for each file ending
	 * that occurs in the tars, with the number of its files. */
	bool (*progress)(void *user, int64_t tars_done, int64_t tars, int64_t files_found);
	void (*notice)(void *user, const char *text);
	void (*component)(void *user, const char *ending, int64_t files);
	void *user;
};

struct stk_tar_index_info {
	size_t size; /* sizeof(struct stk_tar_index_info), set by the caller */
	int64_t tars, files;
	int64_t bytes;   /* total size of the tars */
	int64_t unended; /* number of tars without the blocks of zeros that mark the end of a tar: they may have been cut off */
	int64_t unkept;  /* number of tars whose own index had to be made and could not be stored; a notice names each */
};

/* Writes indexes of tars. info may be NULL. Reads the environment (AWS_..., XDG_CACHE_HOME, HOME). */
STK_API STK_MUST_USE enum stk_status stk_tar_index(
	const struct stk_tar_index_options *options, struct stk_tar_index_info *info, struct stk_error *err);

/* Reports whether a Loader would read these tars sequentially in their first epoch: all of them are in stores, and at least one has no
 * index. Then *unindexed is the number of tars, and `component` is called with the endings in the first sample of the first tar, which
 * takes a few requests. Otherwise *unindexed is 0. `output` is not read. */
STK_API STK_MUST_USE enum stk_status stk_tar_unindexed(
	const struct stk_tar_index_options *options, int32_t *unindexed, struct stk_error *err);

/* Returns in *out the folder in which indexes are kept for later runs: $XDG_CACHE_HOME/stoker/indexes, or $HOME/.cache/stoker/indexes. It need not
 * exist. *out is NULL if neither variable holds an absolute path, or if other users than this one and root could write to the folder; then no index is
 * kept. Free the text with stk_text_free (stoker/graph.h). Reads the environment. */
STK_API STK_MUST_USE enum stk_status stk_index_folder(char **out, struct stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
