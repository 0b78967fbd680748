/* SPDX-License-Identifier: Apache-2.0
 * A survey: reads samples of tars while the tars are still searched for their members, in one epoch. Samples are numbered in the order in which the search
 * finds them: tar after tar in an order that the caller chooses, and inside a tar in its own order. After a search the tar's index is kept; a tar with an index
 * is not searched. Tars in a store are read from front to back, and the bytes read for the search are lent to the threads that read samples
 * (survey_window.h). */
#ifndef STK_FORMAT_SURVEY_H
#define STK_FORMAT_SURVEY_H

#include "format/webdataset.h"

struct stk_survey;

/* Opens nothing yet. The memory to which o points, except its paths, must outlive the survey. */
STK_MUST_USE enum stk_status stk__survey_create(const struct stk_webdataset_options *o, struct stk_survey **out, struct stk_error *err);
void stk__survey_destroy(struct stk_survey *s); /* accepts NULL */

int32_t stk__survey_tars(const struct stk_survey *s);
/* Returns a digest of the tars' names, which identifies a data set whose samples are not known yet. */
uint64_t stk__survey_digest(const struct stk_survey *s);

struct stk_survey_plan {
	int32_t *order; /* order in which the tars are searched; the survey becomes its owner and frees it with stk__free */
	size_t bytes;   /* limit of the bytes that the survey keeps */
	int64_t first;  /* samples before this one will not be read */
	/* called when the samples that stk__survey_known waits for are known, and when the search has ended; on any thread, without locks */
	void (*more)(void *user);
	void *user;
};
/* Starts the search, on threads of its own. Call it once. */
STK_MUST_USE enum stk_status stk__survey_begin(struct stk_survey *s, const struct stk_survey_plan *plan, struct stk_error *err);
/* Ends the search within milliseconds, and releases everything except the table. Has no effect if the search has not begun. */
void stk__survey_end(struct stk_survey *s);

/* Returns how many samples are known. all: the search has ended, so no more will follow. failed: status of a search that has failed, whose error is then in
 * *err (nullable). If fewer than `want` are known, `more` is called when enough are. starved: the caller reads no samples until then. */
struct stk_survey_known {
	int64_t samples;
	bool all;
	enum stk_status failed;
};
struct stk_survey_known stk__survey_known(struct stk_survey *s, int64_t want, bool starved, struct stk_error *err);
/* Says that no samples before this one will be read. */
void stk__survey_passed(struct stk_survey *s, int64_t sample);
/* Writes the oldest notice for the user that was not returned yet. Returns false if there is no such notice. */
bool stk__survey_notice(struct stk_survey *s, char text[400]);

/* ---- samples that the search has found; any thread ---- */

/* Write the name of a sample (stk__samples_name), or the path of a tar. Return the length without the NUL; if it is at least `capacity`, the text was cut. */
size_t stk__survey_uri(struct stk_survey *s, int64_t id, char *uri, size_t capacity);
size_t stk__survey_tar(struct stk_survey *s, int64_t tar, char *uri, size_t capacity);
/* Writes the places of the sample's parts, the hashes of their headers (nullable), and the tar's number to *tar. Returns the number of parts. */
int32_t stk__survey_parts(struct stk_survey *s, int64_t id, struct stk_sample_part *out, uint32_t *header_hashes, int32_t *tar);
struct stk_samples_object stk__survey_object(struct stk_survey *s, int64_t tar);
/* Fills in r, a request for parts of sample id, from bytes that the survey keeps, like stk__io_try; returns false if they must come from the source. */
bool stk__survey_read(struct stk_survey *s, int64_t id, struct stk_request *r);

#endif
