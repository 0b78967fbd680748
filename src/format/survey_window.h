/* SPDX-License-Identifier: Apache-2.0
 * Keeps the bytes of remote tars, which are read from front to back and tar after tar, until the samples in them have been read, so that each byte is
 * fetched once. One thread searches the tars (read); other threads borrow bytes that it has read. If a file does not fit into the window, the search
 * continues at the next header, and readers of that file ask the store.
 *
 * All functions must be called with the survey's lock held unless they say otherwise; the window has no lock of its own. */
#ifndef STK_FORMAT_SURVEY_WINDOW_H
#define STK_FORMAT_SURVEY_WINDOW_H

#include "format/samples.h"
#include "io/wait.h"

#include <pthread.h>

struct stk_piece;

/* The state of one tar in the window. */
struct stk_stretch {
	const char *uri;
	struct stk_object object; /* the object's size and version when the tar was opened */
	bool may_request;         /* bytes of this tar may be requested: it is open, remote, and must be searched */
	struct stk_piece *first;  /* pieces in the order of their offsets; the bytes between two pieces were not kept */
	int64_t requested_to;     /* offset up to which bytes were requested */
	int64_t cursor;           /* offset that the search has reached */
	int64_t settled;          /* samples that begin before this offset are in the table */
};

struct stk_window {
	pthread_mutex_t *lock; /* belongs to the survey */
	/* The requests for pieces in flight. The searching thread waits for one to end; it is woken if a piece was released, if a caller wants more samples,
	 * or when the window ends. */
	struct stk_requests requests;
	struct stk_stretch *tars;         /* in the order in which they are read */
	int32_t count, at;                /* number of tars, and index of the one that is being searched */
	size_t bytes, limit;              /* bytes of pieces that have arrived or were requested, and their limit */
	int32_t under_way, max_under_way; /* requests in flight, and their limit, which grows with the bytes that arrive */
	int64_t deadline;                 /* deadline of the latest request; later pieces get later ones */
	bool blocked;                     /* no bytes will be released before the search has made progress */
	bool stop;
	uint8_t *joined; /* buffer for a read that spans several pieces */
};

STK_MUST_USE enum stk_status stk__survey_window_init(struct stk_window *w, pthread_mutex_t *lock, int32_t count, struct stk_error *err);
/* Makes the searching thread look again at what it may request, if it waits for bytes. */
void stk__survey_window_wake(struct stk_window *w);
/* Ends the window after all reads and loans have ended: cancels requests, waits for them, and releases everything. Call it without the lock. */
void stk__survey_window_end(struct stk_window *w);
void stk__survey_window_free(struct stk_window *w);

/* Returns n bytes of tar w->at, like stk__archive_read; offsets never decrease by more than a header's attributes. Call it without the lock, from one
 * thread. NULL with STK_CANCELLED: the window ends. */
const uint8_t *stk__survey_window_read(struct stk_window *w, int64_t offset, size_t n, struct stk_error *err);
/* Marks a sample's part that is now in the table: its bytes are kept until they are borrowed. */
void stk__survey_window_expect(struct stk_window *w, int32_t tar, const struct stk_sample_part *part);
/* Releases the pieces of a tar that the search has passed and that no thread has borrowed, if no sample needs them any more, or if they end at or before
 * `to`. */
void stk__survey_window_sweep(struct stk_window *w, int32_t tar, int64_t to);

/* Borrows a byte range of a tar: the pieces that contain it follow each other from the result on. NULL: the range is not in the window. unpin returns it,
 * and removes the marks of the parts that were read. */
struct stk_piece *stk__survey_window_pin(struct stk_window *w, int32_t tar, int64_t offset, int64_t length);
void stk__survey_window_unpin(
	struct stk_window *w, int32_t tar, struct stk_piece *p, int64_t end, const struct stk_sample_part *parts, int32_t n);
/* Copies a borrowed range. Call it without the lock. */
void stk__survey_window_copy(const struct stk_piece *p, int64_t offset, int64_t length, uint8_t *to);

#endif
