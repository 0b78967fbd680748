/* SPDX-License-Identifier: Apache-2.0
 * A survey: reads samples of tars while the tars are still searched for their members, in one epoch. Samples are numbered in the order in which the search
 * finds them: tar after tar in an order that the caller chooses, and inside a tar in the tar's order. After a search the tar's index is stored; a tar with an
 * index is not searched. Tars in a store are read from front to back, and the threads that read samples use the bytes that were read for the search
 * (survey_window.h). */
#ifndef STK_FORMAT_SURVEY_H
#define STK_FORMAT_SURVEY_H

#include "format/webdataset.h"

struct stk_survey;

/* Creates a survey without opening tars. The memory to which o points, except its paths, must outlive the survey. */
STK_MUST_USE enum stk_status stk__survey_create(const struct stk_webdataset_options *o, struct stk_survey **out, struct stk_error *err);
void stk__survey_destroy(struct stk_survey *s); /* accepts NULL */

int32_t stk__survey_tars(const struct stk_survey *s);
/* Returns a digest of the tars' names, which identifies a data set whose samples are not known yet. */
uint64_t stk__survey_digest(const struct stk_survey *s, enum stk_digest_form form);

struct stk_survey_plan {
	int32_t *order; /* order in which the tars are searched; the survey owns it and frees it with stk__free */
	size_t bytes;   /* maximum number of bytes that the survey keeps */
	int64_t first;  /* number of the first sample that will be read */
	/* called when the samples that stk__survey_known waits for are known, and when the search has ended; on any thread, without locks */
	void (*more)(void *user);
	void *user;
};
/* Starts the search, on threads of its own. Call it at most once. */
STK_MUST_USE enum stk_status stk__survey_begin(struct stk_survey *s, const struct stk_survey_plan *plan, struct stk_error *err);
/* Ends the search within milliseconds, and releases everything except the table. Has no effect if the search has not begun. */
void stk__survey_end(struct stk_survey *s);

/* stk__survey_known returns the number of samples that are known so far. all: the search has ended, so that no more will follow. failed: the search's
 * status; if that is a failure, fills *err (may be NULL). If fewer than `want` samples are known, plan->more is called when enough are. starved: the caller
 * reads no samples until then. */
struct stk_survey_known {
	int64_t samples;
	bool all;
	enum stk_status failed;
};
struct stk_survey_known stk__survey_known(struct stk_survey *s, int64_t want, bool starved, struct stk_error *err);
/* Announces that no samples before this one will be read. */
void stk__survey_passed(struct stk_survey *s, int64_t sample);
/* Writes the oldest notice for the user that was not returned yet. Returns false if there is no new notice. */
bool stk__survey_notice(struct stk_survey *s, char text[400]);

/* ---- samples that the search has found; any thread ---- */

/* Write the name of a sample (stk__samples_name), or the path of a tar. Return the length without the NUL; if that is at least `capacity`, the text was cut. */
size_t stk__survey_uri(struct stk_survey *s, int64_t id, char *uri, size_t capacity);
size_t stk__survey_tar(struct stk_survey *s, int64_t tar, char *uri, size_t capacity);
/* Writes the sample's parts, the hashes of their headers (header_hashes may be NULL), and the tar's number to *tar. Returns the number of parts. */
int32_t stk__survey_parts(struct stk_survey *s, int64_t id, struct stk_sample_part *out, uint32_t *header_hashes, int32_t *tar);
struct stk_samples_object stk__survey_object(struct stk_survey *s, int64_t tar);
/* Fills in r, a request for parts of sample id, from bytes that the survey keeps, like stk__io_try. Returns false if the bytes must be read from the source. */
bool stk__survey_read(struct stk_survey *s, int64_t id, struct stk_request *r);

#endif
