/* SPDX-License-Identifier: Apache-2.0
 *
 * Indexes: what a folder of class folders holds, on disk or in a bucket, written to a file once, so that later runs begin without listing it. Readers take
 * the file as file_root or file_list. */
#ifndef STOKER_INDEX_H
#define STOKER_INDEX_H

#include "stoker/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first bytes of an index. */
#define STK_INDEX_MAGIC "STKINDEX"

struct stk_index_info {
	size_t size; /* sizeof(struct stk_index_info), set by the caller */
	int64_t files, classes;
	int64_t bytes; /* of all files; -1: not known, as for a local folder, where sizes are not asked for */
	int64_t index_bytes;
};

/* Lists `root` (a folder or s3://BUCKET/PREFIX) and writes `path`, whole or not at all. All files are listed, at any depth: a reader's filters choose among
 * them. info may be NULL. Reads the environment (AWS_...). */
STK_API STK_MUST_USE enum stk_status stk_index_write(
	const char *root, const char *path, struct stk_index_info *info, struct stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
