/* SPDX-License-Identifier: Apache-2.0
 * The bytes of remote tars, from front to back and tar after tar, in pieces that are held until the samples in them have been read: so each byte is fetched
 * once. One thread searches (read); others are lent what it has found. What does not fit into the window is not held: the search goes on at the next header, and
 * who needs the bytes behind it asks the store.
 *
 * All functions take the survey's lock unless said; the window has none of its own. */
#ifndef STK_FORMAT_SURVEY_WINDOW_H
#define STK_FORMAT_SURVEY_WINDOW_H

#include "format/samples.h"
#include "io/io.h"

#include <pthread.h>

struct stk_piece;

/* Of one tar. */
struct stk_stretch {
	const char *uri;
	struct stk_object object; /* as it was when it was opened */
	bool asks;                /* its bytes may be asked for: it is open, remote, and has to be searched */
	struct stk_piece *first;  /* in its order; gaps are what was not held */
	int64_t asked;            /* where the next piece begins */
	int64_t cursor;           /* where the search is */
	int64_t settled;          /* samples before it are in the table */
};

struct stk_window {
	pthread_mutex_t *lock; /* the survey's */
	pthread_cond_t change; /* a piece has come, or was given back; more is wanted; it ends */
	struct stk_io *io;
	struct stk_stretch *tars; /* in the order in which they are read */
	int32_t count, at;        /* at: the one that is searched */
	size_t held, most;        /* bytes of pieces, asked for or here */
	int32_t under_way, ahead; /* requests; as many as may be: it grows with what has come, so that the first are not late */
	int64_t deadline;         /* of the last piece */
	bool starved;             /* nobody will give anything back before the search has gone on */
	bool stop;
	uint8_t *joined; /* of a read that lies in several pieces */
};

STK_MUST_USE enum stk_status stk__survey_window_init(struct stk_window *w, pthread_mutex_t *lock, int32_t count, struct stk_error *err);
/* When nobody reads or is lent to any more: ends what is under way, waits for it, and gives everything back. Without the lock. */
void stk__survey_window_end(struct stk_window *w);
void stk__survey_window_free(struct stk_window *w);

/* n bytes of tar w->at, as stk__archive_read; offsets never go back by more than a header's attributes. Without the lock; one thread. NULL with
 * STK_CANCELLED: it ends. */
const uint8_t *stk__survey_window_read(struct stk_window *w, int64_t offset, size_t n, struct stk_error *err);
/* A sample's part is in the table: its bytes are held until they are lent. */
void stk__survey_window_expect(struct stk_window *w, int32_t tar, const struct stk_sample_part *part);
/* Gives back what nothing is expected of. whole: of this tar up to `to`, whatever is expected. */
void stk__survey_window_sweep(struct stk_window *w, int32_t tar, int64_t to);

/* A stretch of a tar that is held, for a moment: pieces that hold it follow each other from the result on. NULL: it is not. Given back by unlock, with the parts
 * that were read: nothing more is expected of them. */
struct stk_piece *stk__survey_window_pin(struct stk_window *w, int32_t tar, int64_t offset, int64_t length);
void stk__survey_window_unpin(
	struct stk_window *w, int32_t tar, struct stk_piece *p, int64_t end, const struct stk_sample_part *parts, int32_t n);
/* Copies it. Without the lock. */
void stk__survey_window_copy(const struct stk_piece *p, int64_t offset, int64_t length, uint8_t *to);

#endif
