/* SPDX-License-Identifier: Apache-2.0
 * WebDataset: tars in which consecutive files that share their name up to the first dot form a sample; the rest of the name is the component's name. Indexes
 * are those of DALI's wds2idx: "v1.2 COUNT", then one line for each sample with "ENDING OFFSET SIZE NAME" for each component (v1.1: without NAME). */
#ifndef STK_FORMAT_WEBDATASET_H
#define STK_FORMAT_WEBDATASET_H

#include "format/archive_set.h"
#include "format/samples.h"
#include "storage/storage.h"

/* The treatment of a sample that lacks a component. DEFAULT and EMPTY: the part is empty, but with DEFAULT it is an error if no sample has the component.
 * SKIP: the sample is left out. ERROR: this is an error, and so is a second file of a sample with the same ending. */
enum stk_missing { STK_MISSING_DEFAULT, STK_MISSING_EMPTY, STK_MISSING_SKIP, STK_MISSING_ERROR };

/* The components of samples, with their numbers of files. Keeps the first 48 components, and cuts long names. All zero: empty. */
struct stk_components {
	struct stk_component {
		char ending[48];
		int64_t files;
	} at[48];
	int32_t count;
	bool more;            /* true if further components did not fit */
	int64_t doubles;      /* number of files whose sample already has a file of the same ending: the first one counts, as in DALI */
	char double_name[96]; /* name and archive of the first such file */
};
/* Returns false if the tar ends with its last file, without the blocks of zeros that mark the end of a tar. */
bool stk__tar_has_end(const struct stk_archive_index *tar);

/* Returns the length of the part of a file's name that identifies its sample: of "a/0001" in "a/0001.cls.txt". */
size_t stk__webdataset_stem(const char *name);
/* Returns whether this member of a tar is a symbolic link (stk__tar_scan). A link begins no sample. */
bool stk__webdataset_is_link(const char *name);
/* Counts a file or a symbolic link of a tar in the component of its ending. Ignores hidden files. */
void stk__components_count(struct stk_components *c, const char *name);

struct stk_webdataset_options {
	const struct stk_access *access; /* may be NULL */
	const char *const *paths;
	const char *const *index_paths; /* one for each path; NULL: indexes of earlier runs are used, and tars without one are searched */
	int32_t path_count;
	const char *const *endings; /* [part]: its endings, such as "jpg;jpeg;png"; a sample's first file with one of them is the part */
	int32_t part_count;
	bool ignore_case;
	enum stk_missing missing;
	const size_t *elements; /* [part]: number of bytes of which the part's size must be a multiple */
};

/* Opens the tars, and fills *out with their samples, tar after tar. Passes warnings to access->notice. */
STK_MUST_USE enum stk_status stk__webdataset_open(const struct stk_webdataset_options *o, struct stk_samples *out, struct stk_error *err);

/* Parses the text of an archive's index, whose name in messages is `path`, and adds its samples to `t`, which was created for o->paths. Counts their files
 * in *components, which collects those of all archives. */
STK_MUST_USE enum stk_status stk__webdataset_parse_index(const struct stk_webdataset_options *o, int32_t archive, const char *text,
	size_t size, const char *path, struct stk_samples *t, struct stk_components *components, struct stk_error *err);
/* Adds the samples of an archive as stk__webdataset_parse_index does, but from the members that a search of the archive has found. */
STK_MUST_USE enum stk_status stk__webdataset_add(const struct stk_webdataset_options *o, int32_t archive,
	const struct stk_archive_index *index, struct stk_samples *t, struct stk_components *components, struct stk_error *err);

/* Collects the samples of an archive from its files, one after the other. Pass *out as `user` to stk__collect_file for each file in the archive's order; call
 * stk__collect_last after the last file. */
struct stk_collect;
STK_MUST_USE enum stk_status stk__collect_begin(const struct stk_webdataset_options *o, int32_t archive, struct stk_samples *t,
	struct stk_components *components, struct stk_collect **out, struct stk_error *err);
stk_archive_found stk__collect_file;
STK_MUST_USE enum stk_status stk__collect_last(struct stk_collect *c, struct stk_error *err);
int64_t stk__collect_complete(const struct stk_collect *c); /* returns the number of samples in the table that no further file can change */
int64_t stk__collect_begun(const struct stk_collect *c);    /* returns the offset of the first file of the last sample */
void stk__collect_end(struct stk_collect *c);               /* accepts NULL */

/* With STK_MISSING_DEFAULT, fails if no file of some component exists. Call after all samples are known. */
STK_MUST_USE enum stk_status stk__webdataset_check(
	const struct stk_webdataset_options *o, const struct stk_components *components, struct stk_error *err);
/* stk__webdataset_doubles writes a notice about files that were left out because their sample already has a file with the same ending; returns false if
 * there are none. stk__webdataset_unended writes a notice about a tar without the blocks of zeros at its end; more: " and 3 others" if there are more such
 * tars; otherwise "". stk__webdataset_say_cut adds to the message of a failure that the tar may be cut off, which may be the cause. */
bool stk__webdataset_doubles(const struct stk_components *components, char text[400]);
void stk__webdataset_unended(const char *tar, const char *more, char text[400]);
void stk__webdataset_say_cut(struct stk_error *err);

#endif
