/* SPDX-License-Identifier: Apache-2.0
 * What trees of class folders have in common, wherever they lie: which names are taken, in which order, and what is said of the rest. */
#ifndef STK_FORMAT_LIST_CENSUS_H
#define STK_FORMAT_LIST_CENSUS_H

#include "format/list.h"

#include <limits.h>

enum { STK_CENSUS_ENDINGS = 6, STK_CENSUS_ENDING = 16 };

/* What was met and not taken, for the error that says why the list is empty. */
struct stk_list_census {
	struct {
		char name[STK_CENSUS_ENDING];
		int64_t count;
	} endings[STK_CENSUS_ENDINGS];
	int64_t files, folders, other_endings;
	int64_t images;          /* in the root itself */
	int64_t empty;           /* class folders without a sample */
	int64_t left_out;        /* class folders that dir_filters refuse */
	char deep[NAME_MAX + 1]; /* a class folder that holds folders */
};

/* True if a name passes the file filters, or those of class folders. */
bool stk__list_wants(const struct stk_file_list_options *o, const char *name);
bool stk__list_wants_class(const struct stk_file_list_options *o, const char *name);

/* A file in the root, and one in a class folder that is not taken. */
void stk__census_beside(struct stk_list_census *c, const struct stk_file_list_options *o, const char *name);
void stk__census_other(struct stk_list_census *c, const char *name);
/* A folder in a class folder, which is not read. */
void stk__census_folder(struct stk_list_census *c, const char *class_name);

/* Files from `first` on: by name, or by folder and then by name, as Python sorts what os.walk gives. */
void stk__list_sort(struct stk_file_list *l, int64_t first, bool by_folder);
/* The files from `first` on are those of the class `name`, complete. */
STK_MUST_USE enum stk_status stk__list_end_class(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_list_census *c,
	int64_t first, const char *name, struct stk_error *err);
/* There is no class folder: says what there is instead. */
STK_MUST_USE enum stk_status stk__census_no_classes(const struct stk_list_census *c, const struct stk_file_list *l, struct stk_error *err);
/* All classes have been read: fails where they hold nothing, else notes what was left out. beside: images in the root. */
STK_MUST_USE enum stk_status stk__census_end(const struct stk_list_census *c, struct stk_file_list *l,
	const struct stk_file_list_options *o, int64_t beside, struct stk_error *err);

#endif
