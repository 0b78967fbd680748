/* SPDX-License-Identifier: Apache-2.0
 * WebDataset: tars in which files that follow each other and have one name, up to their first dot, are a sample, and what is behind the dot names the
 * component. Indexes are those of DALI's wds2idx: "v1.2 COUNT", then a line a sample with "ENDING OFFSET SIZE NAME" for each component (v1.1: no name). */
#ifndef STK_FORMAT_WEBDATASET_H
#define STK_FORMAT_WEBDATASET_H

#include "format/archive_file.h"
#include "format/samples.h"

enum stk_missing { STK_MISSING_EMPTY, STK_MISSING_SKIP, STK_MISSING_ERROR };

struct stk_webdataset_options {
	const char *const *paths;
	const char *const *index_paths; /* one for each; NULL: the tars are searched */
	int32_t path_count;
	const char *const *endings; /* of each part: "jpg;jpeg;png". The first file of a sample that has one of them is it */
	int32_t part_count;
	bool ignore_case;
	enum stk_missing missing;
	const size_t *elements; /* bytes, of which each part has a whole number */
};

STK_MUST_USE enum stk_status stk__webdataset_open(const struct stk_webdataset_options *o, struct stk_samples *out, struct stk_error *err);

/* Add one archive's samples to `t`, which was made for o's archives: from its index, or by a scan of the archive itself. */
STK_MUST_USE enum stk_status stk__webdataset_parse_index(const struct stk_webdataset_options *o, int32_t archive, const char *text,
	size_t size, const char *path, struct stk_samples *t, struct stk_error *err);
STK_MUST_USE enum stk_status stk__webdataset_scan(
	const struct stk_webdataset_options *o, int32_t archive, struct stk_archive_file *f, struct stk_samples *t, struct stk_error *err);

#endif
