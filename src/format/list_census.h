/* SPDX-License-Identifier: Apache-2.0
 * Shared by local and remote trees of class folders: chooses which files become samples, sorts them, and describes the other files in messages. */
#ifndef STK_FORMAT_LIST_CENSUS_H
#define STK_FORMAT_LIST_CENSUS_H

#include "format/list.h"

#include <limits.h>

enum { STK_CENSUS_ENDINGS = 6, STK_CENSUS_ENDING = 16 };

/* Counts of files and folders that are not samples, for the error that explains an empty list, and for the description of skipped files. */
struct stk_list_census {
	struct {
		char name[STK_CENSUS_ENDING];
		int64_t count;
	} endings[STK_CENSUS_ENDINGS];
	int64_t files, folders, other_endings;
	bool arrays;                           /* whether a file has the name of one of CIFAR's or MNIST's, which hold many images each */
	int64_t loose;                         /* number of files directly in the root that pass the filters of files */
	int64_t special;                       /* number of FIFOs, sockets and devices that are named like samples */
	int64_t empty;                         /* number of class folders without a sample */
	int64_t left_out;                      /* number of class folders that dir_filters exclude */
	char first_nested_class[NAME_MAX + 1]; /* name of the first class folder that contains a folder */
};

/* Return whether a name passes the filters of files, or those of class folders. */
bool stk__list_wants(const struct stk_file_list_options *o, const char *name);
bool stk__list_wants_class(const struct stk_file_list_options *o, const char *name);

/* stk__census_loose counts a file directly in the root; stk__census_other counts a file in a class folder that is not a sample. */
void stk__census_loose(struct stk_list_census *c, const struct stk_file_list_options *o, const char *name);
void stk__census_other(struct stk_list_census *c, const char *name);
/* Counts a folder inside the class folder `class_name`; the inner folder is not read. */
void stk__census_folder(struct stk_list_census *c, const char *class_name);

/* Sorts the files from index `first` on: by name, or by folder and then by name, as Python sorts the results of os.walk. */
void stk__list_sort(struct stk_file_list *l, int64_t first, bool by_folder);
/* Ends the class `name`: sorts its files, which are those from index `first` on. Fails if it has none, o->nested is set and o->everything is not. */
STK_MUST_USE enum stk_status stk__list_end_class(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_list_census *c,
	int64_t first, const char *name, struct stk_error *err);
/* Returns the error for a root without class folders, which describes what the root contains. */
STK_MUST_USE enum stk_status stk__census_no_classes(
	const struct stk_list_census *c, const struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err);
/* Ends the census after all classes have been read. Fails if the classes contain no files; otherwise stores the description of unused files in the list.
 * loose: number of files directly in the root that pass the filters of files. */
STK_MUST_USE enum stk_status stk__census_end(const struct stk_list_census *c, struct stk_file_list *l,
	const struct stk_file_list_options *o, int64_t loose, struct stk_error *err);

#endif
