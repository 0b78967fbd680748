/* SPDX-License-Identifier: Apache-2.0
 * WebDataset: tars in which files that follow each other and have one name, up to their first dot, are a sample, and what is behind the dot names the
 * component. Indexes are those of DALI's wds2idx: "v1.2 COUNT", then a line a sample with "ENDING OFFSET SIZE NAME" for each component (v1.1: no name). */
#ifndef STK_FORMAT_WEBDATASET_H
#define STK_FORMAT_WEBDATASET_H

#include "format/archive_set.h"
#include "format/samples.h"
#include "io/storage.h"

/* DEFAULT: empty, but a component that no sample has is an error. ERROR: so is a file that a sample has twice. */
enum stk_missing { STK_MISSING_DEFAULT, STK_MISSING_EMPTY, STK_MISSING_SKIP, STK_MISSING_ERROR };

/* Which components samples have, as far as there is room: names are cut to it. Zeroed: none. */
struct stk_components {
	struct stk_component {
		char ending[48];
		int64_t files;
	} at[48];
	int32_t count;
	bool more;            /* there are others */
	int64_t doubles;      /* files that their sample has already, of the same ending: the first counts, as in DALI */
	char double_name[96]; /* of the first of them */
};
/* False: it ends with its last file, and without the blocks of zeros that are the end of a tar. */
bool stk__tar_has_end(const struct stk_archive_index *tar);

/* How much of a file's name is its sample's. */
size_t stk__webdataset_stem(const char *name);
/* Counts the component that a file of a tar is; the file is none if it is hidden. */
void stk__components_count(struct stk_components *c, const char *name);

struct stk_webdataset_options {
	const struct stk_access *access; /* nullable */
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

/* Adds an archive's samples from its index to `t`, which was made for o's archives. `have`: what there is, for messages. */
STK_MUST_USE enum stk_status stk__webdataset_parse_index(const struct stk_webdataset_options *o, int32_t archive, const char *text,
	size_t size, const char *path, struct stk_samples *t, struct stk_components *have, struct stk_error *err);
/* The same from what a search of the archive found. */
STK_MUST_USE enum stk_status stk__webdataset_add(const struct stk_webdataset_options *o, int32_t archive,
	const struct stk_archive_index *index, struct stk_samples *t, struct stk_components *have, struct stk_error *err);

/* The samples of an archive whose files come one by one, in its order. stk__collect_file's `user` is it; last: there are no more files. */
struct stk_collect;
STK_MUST_USE enum stk_status stk__collect_begin(const struct stk_webdataset_options *o, int32_t archive, struct stk_samples *t,
	struct stk_components *have, struct stk_collect **out, struct stk_error *err);
stk_archive_found stk__collect_file;
STK_MUST_USE enum stk_status stk__collect_last(struct stk_collect *c, struct stk_error *err);
int64_t stk__collect_complete(const struct stk_collect *c); /* samples of the table that no further file changes */
int64_t stk__collect_begun(const struct stk_collect *c);    /* where the first file of the last sample begins */
void stk__collect_end(struct stk_collect *c);               /* takes NULL */

/* When all samples are known: with STK_MISSING_DEFAULT, whether there is each component at all. */
STK_MUST_USE enum stk_status stk__webdataset_check(
	const struct stk_webdataset_options *o, const struct stk_components *have, struct stk_error *err);
/* What users are told. doubles: false where there is nothing to tell. unended: of a tar, and `more` such, or "". say_cut: adds to a message that the tar may be
 * cut, which may be why it failed. */
bool stk__webdataset_doubles(const struct stk_components *have, char text[400]);
void stk__webdataset_unended(const char *tar, const char *more, char text[400]);
void stk__webdataset_say_cut(struct stk_error *err);

#endif
