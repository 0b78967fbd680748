/* SPDX-License-Identifier: Apache-2.0
 * Keeps the bytes of remote tars, which are read from front to back and tar after tar, until the samples in them have been read, so that each byte is fetched
 * once. One thread searches the tars (stk__survey_window_read); other threads borrow bytes that were read. If a file does not fit into the window, the search
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
	struct stk_object object; /* the object's size and version, from when the tar was opened */
	bool may_request;         /* true if bytes of this tar may be requested: it is open, remote, and must be searched */
	struct stk_piece *first;  /* pieces in the order of their offsets, with gaps where bytes were not kept */
	int64_t requested_to;     /* offset of the first byte that was not requested yet */
	int64_t cursor;           /* offset up to which the tar was searched */
	int64_t settled;          /* samples that begin before this offset are in the table of samples */
};

struct stk_window {
	pthread_mutex_t *lock; /* lock of the survey */
	/* The requests for pieces in flight. The searching thread waits for one to end; it is woken if a piece was released, if a caller wants more samples,
	 * or when the window ends. */
	struct stk_requests requests;
	struct stk_stretch *tars;         /* the tars, in the order in which they are read */
	int32_t count, at;                /* number of tars, and index of the tar that is being searched */
	size_t bytes, limit;              /* number of bytes of pieces that have arrived or were requested, and its maximum */
	int32_t under_way, max_under_way; /* number of requests in flight, and its maximum, which grows with the bytes that arrive */
	int64_t deadline;                 /* deadline of the latest request; later pieces get later deadlines */
	bool blocked;                     /* true if no bytes will be released before the search has made progress */
	bool stop;
	uint8_t *joined; /* buffer for a read that spans several pieces */
};

STK_MUST_USE enum stk_status stk__survey_window_init(struct stk_window *w, pthread_mutex_t *lock, int32_t count, struct stk_error *err);
/* If the searching thread waits for bytes, makes it look again at what it may request. */
void stk__survey_window_wake(struct stk_window *w);
/* Ends the window after all reads have ended and all borrowed ranges were returned: cancels requests, waits for them, and releases all pieces. Call it
 * without the lock. */
void stk__survey_window_end(struct stk_window *w);
void stk__survey_window_free(struct stk_window *w);

/* Returns n bytes of tar w->at, like stk__archive_read. An offset may be smaller than the one before by at most the size of a header's attributes. Call it
 * without the lock, from one thread. NULL with STK_CANCELLED: the window ends. */
const uint8_t *stk__survey_window_read(struct stk_window *w, int64_t offset, size_t n, struct stk_error *err);
/* Marks a part of a sample that is now in the table: the window keeps its bytes until they are borrowed. */
void stk__survey_window_expect(struct stk_window *w, int32_t tar, const struct stk_sample_part *part);
/* Releases a tar's pieces that the search has passed and no thread has borrowed, if no sample needs them any more or they end at or before `to`. */
void stk__survey_window_sweep(struct stk_window *w, int32_t tar, int64_t to);

/* Borrows a byte range of a tar, and returns the first of the consecutive pieces that contain it. NULL: the range is not in the window.
 * stk__survey_window_unpin returns the range, and removes the marks of the parts that were read. */
struct stk_piece *stk__survey_window_pin(struct stk_window *w, int32_t tar, int64_t offset, int64_t length);
void stk__survey_window_unpin(
	struct stk_window *w, int32_t tar, struct stk_piece *p, int64_t end, const struct stk_sample_part *parts, int32_t n);
/* Copies a borrowed range. Call it without the lock. */
void stk__survey_window_copy(const struct stk_piece *p, int64_t offset, int64_t length, uint8_t *to);

#endif
