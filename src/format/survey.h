/* SPDX-License-Identifier: Apache-2.0
 * A survey: tars whose samples are read while their members are still searched for, once. Samples have the numbers in which they are met: tar after tar in an
 * order of the caller's, and in a tar as they lie. An index of each tar is kept when it has been searched, and taken where there is one. Tars in a store are
 * read from front to back, and what was brought for the search is lent to who reads the samples (survey_window.h). */
#ifndef STK_FORMAT_SURVEY_H
#define STK_FORMAT_SURVEY_H

#include "format/webdataset.h"

struct stk_survey;

/* Opens nothing yet. What o names beside the paths has to live as long. */
STK_MUST_USE enum stk_status stk__survey_create(const struct stk_webdataset_options *o, struct stk_survey **out, struct stk_error *err);
void stk__survey_destroy(struct stk_survey *s); /* takes NULL */

int32_t stk__survey_tars(const struct stk_survey *s);
/* Of the tars' names, as a data set whose samples are not known yet can be told from another. */
uint64_t stk__survey_digest(const struct stk_survey *s);

struct stk_survey_plan {
	int32_t *order;           /* of the tars; the survey's from here, by stk__free */
	size_t bytes;             /* that it holds at most */
	int64_t first;            /* samples before it will not be read */
	void (*more)(void *user); /* what stk__survey_known was asked for is known; on any thread, without locks */
	void *user;
};
/* Begins to search, on threads of its own. Once. */
STK_MUST_USE enum stk_status stk__survey_begin(struct stk_survey *s, const struct stk_survey_plan *plan, struct stk_error *err);
/* Ends the search, and gives back all that it holds: within milliseconds. The table stays. Without effect where it has not begun. */
void stk__survey_end(struct stk_survey *s);

/* Samples that are known. all: there are no others, or the search has failed: then `failed` says how, and *err, nullable, why. Where fewer than `want` are
 * known, `more` is called when that has changed. starved: nobody reads samples before then. */
struct stk_survey_known {
	int64_t samples;
	bool all;
	enum stk_status failed;
};
struct stk_survey_known stk__survey_known(struct stk_survey *s, int64_t want, bool starved, struct stk_error *err);
/* Nobody reads samples before this one any more. */
void stk__survey_passed(struct stk_survey *s, int64_t sample);
/* Something that users should know; false: nothing new. */
bool stk__survey_notice(struct stk_survey *s, char text[400]);

/* ---- samples that are known; any thread ---- */

size_t stk__survey_uri(struct stk_survey *s, int64_t id, char *uri, size_t capacity);
size_t stk__survey_tar(struct stk_survey *s, int64_t tar, char *uri, size_t capacity);
/* Places of the sample's parts, in *tar. Returns how many there are. */
int32_t stk__survey_parts(struct stk_survey *s, int64_t id, struct stk_sample_part *out, int32_t *tar);
uint64_t stk__survey_tag(struct stk_survey *s, int64_t tar);
/* Fills in r, which is for parts of sample id, from what is held, as stk__io_try does; false: r is for its source. */
bool stk__survey_lend(struct stk_survey *s, int64_t id, struct stk_request *r);

#endif
