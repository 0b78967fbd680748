/* SPDX-License-Identifier: Apache-2.0
 *
 * Packs a folder of class folders into tars in WebDataset's format. Images are copied as they are, not encoded again. */
#ifndef STOKER_PACK_H
#define STOKER_PACK_H

#include "stoker/status.h"
#include "stoker/storage.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stk_pack_options {
	size_t size; /* sizeof(struct stk_pack_options), set by the caller */
	const char
		*source; /* a folder of class folders, local or in a bucket (s3://BUCKET/PREFIX, gs://BUCKET/PREFIX), or an index of one */
	const char *folder;  /* folder for the tars; created if it does not exist */
	int64_t shard_bytes; /* maximum size of a tar, unless a single sample is larger; 0: 256 MB */
	int64_t seed;        /* seed of the random order of the samples; -1: keep the source's order */
	int32_t threads;     /* from 0, which stands for eight, to 64 */
	/* Called about ten times per second on the caller's thread with the number of files packed and their total; while a bucket is listed, with the
	 * number of objects found and a total of 0. Returns false to stop with STK_CANCELLED. May be NULL. */
	bool (*progress)(void *user, int64_t done, int64_t total);
	void *user;
	struct stk_storage *storage; /* NULL: the settings of the environment */
};

struct stk_pack_info {
	size_t size; /* sizeof(struct stk_pack_info), set by the caller */
	int64_t tars, samples, files;
	int64_t bytes;    /* total size of the tars */
	int64_t kept;     /* number of tars that an earlier run had already written */
	int64_t left_out; /* number of files that are not images and do not belong to an image's sample */
};

/* Writes shards-000000.tar and so on, each with its index in the same folder, and classes.txt, the names of the labels. A sample consists
 * of an image, its label as CLASS/NAME.cls, and the files of the same folder whose names begin like the image's up to its last dot ("a.txt" and
 * "a.v2.json" for "a.jpg"), unless they are images or fit an image with a longer name better.
 * An image whose name contains other dots, begins with one, or is not unique without its ending is called CLASS/NAME_ENDING_NUMBER, without
 * dots, because readers of WebDataset would skip it or join it to another sample. The same source gives the same bytes. Complete tars of an
 * earlier run with the same options are kept, so that an interrupted run can be continued, unless a file in them was changed or replaced since.
 * STK_INVALID: the folder has tars of another source or other options. info may be NULL. */
STK_API STK_MUST_USE enum stk_status stk_pack(const struct stk_pack_options *options, struct stk_pack_info *info, struct stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
