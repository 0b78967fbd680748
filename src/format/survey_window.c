/* SPDX-License-Identifier: Apache-2.0 */
#include "format/survey_window.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/version.h"

#include <stddef.h>
#include <string.h>

enum { PIECE = 1 << 20, FIRST_AHEAD = 8, MOST_AHEAD = 256 };

struct stk_piece {
	struct stk_piece *next;
	struct stk_request request;
	struct stk_object object;
	int64_t begin, end;
	bool ended;
	int32_t expected; /* number of samples' parts in this piece that no thread has read yet */
	int32_t pins;
};

enum stk_status stk__survey_window_init(struct stk_window *w, pthread_mutex_t *lock, int32_t count, struct stk_error *err)
{
	*w = (struct stk_window){
		.lock = lock, .count = count, .max_under_way = FIRST_AHEAD, .tars = stk__calloc((size_t)count, sizeof *w->tars)};
	stk__requests_init(&w->requests, NULL);
	return w->tars ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for %d tars", count);
}

void stk__survey_window_free(struct stk_window *w)
{
	stk__requests_destroy(&w->requests);
	stk__free(w->joined);
	stk__free(w->tars);
	w->tars = NULL;
}

void stk__survey_window_wake(struct stk_window *w)
{
	stk__requests_wake(&w->requests);
}

/* ---- requests and releases of pieces ---- */

/* Records that the request of a piece has ended, and raises the maximum number of requests in flight. */
static void note_ended(struct stk_window *w, struct stk_request *r)
{
	struct stk_piece *p = (struct stk_piece *)((char *)r - offsetof(struct stk_piece, request));
	p->ended = true;
	w->under_way--;
	w->max_under_way += w->max_under_way < MOST_AHEAD ? 2 : 0;
}

/* Records all requests that have ended since the last call. Threads that read samples call this too; the search may be waiting for a request that they have
 * recorded, so this wakes the search. */
static void note_all_ended(struct stk_window *w)
{
	bool any = false;
	for (struct stk_request *r; (r = stk__requests_ended(&w->requests)); any = true)
		note_ended(w, r);
	if (any)
		stk__survey_window_wake(w);
}

/* Waits until a request has ended or stk__survey_window_wake was called. Call with the lock held; it is released meanwhile. */
static void wait_change(struct stk_window *w)
{
	pthread_mutex_unlock(w->lock);
	struct stk_request *r = stk__requests_any(&w->requests, NULL);
	pthread_mutex_lock(w->lock);
	if (r)
		note_ended(w, r);
}

/* Requests the next piece of a tar. Call with the lock held; it is released meanwhile, since a source may take long to accept a request. Returns false if
 * memory is short. */
static bool request_piece(struct stk_window *w, struct stk_stretch *t)
{
	struct stk_piece *p = stk__calloc(1, sizeof *p), **at = &t->first;
	int64_t left = t->object.size - t->requested_to, now = stk__clock_ns();
	if (!p)
		return false;
	p->begin = t->requested_to;
	p->end = t->requested_to + (left < PIECE ? left : PIECE);
	/* Time at which the search will reach this piece, if the store keeps its present rate. */
	const int64_t needed = now + stk__io_pace_ns(w->requests.io) * (int64_t)(w->bytes / PIECE);
	w->deadline = needed > w->deadline ? needed : w->deadline + 1;
	p->request = (struct stk_request){.uri = t->uri,
		.uncached = true,
		.offset = p->begin,
		.length = p->end - p->begin,
		.deadline = w->deadline,
		.object = &p->object};
	while (*at)
		at = &(*at)->next;
	*at = p;
	t->requested_to = p->end;
	w->bytes += (size_t)(p->end - p->begin);
	w->under_way++;
	pthread_mutex_unlock(w->lock);
	stk__requests_submit(&w->requests, &p->request);
	pthread_mutex_lock(w->lock);
	return true;
}

/* Removes *at from its list, and frees it with its bytes. */
static void release(struct stk_window *w, struct stk_piece **at)
{
	struct stk_piece *p = *at;
	*at = p->next;
	w->bytes -= (size_t)(p->end - p->begin);
	stk__buffer_release(p->request.buffer);
	stk__free(p->request.error);
	stk__free(p);
}

void stk__survey_window_end(struct stk_window *w)
{
	pthread_mutex_lock(w->lock);
	for (int32_t i = 0; w->tars && i < w->count; i++)
		for (struct stk_piece *p = w->tars[i].first; p; p = p->next) {
			bool ended = p->ended;
			pthread_mutex_unlock(w->lock);
			if (!ended)
				stk__io_cancel(w->requests.io, &p->request);
			pthread_mutex_lock(w->lock);
		}
	while (w->under_way)
		wait_change(w);
	for (int32_t i = 0; w->tars && i < w->count; i++)
		while (w->tars[i].first)
			release(w, &w->tars[i].first);
	pthread_mutex_unlock(w->lock);
}

static bool is_passed(const struct stk_stretch *t, const struct stk_piece *p)
{
	return p->ended && !p->pins && p->end <= t->cursor;
}

void stk__survey_window_sweep(struct stk_window *w, int32_t tar, int64_t to)
{
	struct stk_stretch *t = &w->tars[tar];
	bool freed = false;
	note_all_ended(w);
	for (struct stk_piece **at = &t->first; *at;) {
		struct stk_piece *p = *at;
		if (is_passed(t, p) && (p->end <= to || (p->end <= t->settled && !p->expected))) {
			release(w, at);
			freed = true;
		} else {
			at = &p->next;
		}
	}
	if (freed)
		stk__survey_window_wake(w);
}

/* Drops the newest of the pieces that the search has passed, since readers need it last. */
static void drop_newest(struct stk_window *w)
{
	for (int32_t i = w->at; i >= 0; i--) {
		struct stk_piece **newest = NULL;
		for (struct stk_piece **at = &w->tars[i].first; *at; at = &(*at)->next)
			newest = is_passed(&w->tars[i], *at) ? at : newest;
		if (newest) {
			release(w, newest);
			return;
		}
	}
}

static bool has_capacity(const struct stk_window *w)
{
	return w->bytes + PIECE <= w->limit;
}

/* Requests pieces in the order of need: the rest of the tar that is being searched, then the following tars. Returns false if memory is short. */
static bool look_ahead(struct stk_window *w)
{
	for (int32_t i = w->at; i < w->count; i++) {
		struct stk_stretch *t = &w->tars[i];
		while (t->may_request && t->requested_to < t->object.size) {
			if (w->stop || w->under_way >= w->max_under_way || !has_capacity(w))
				return true;
			if (!request_piece(w, t))
				return false;
		}
	}
	return true;
}

/* ---- the search ---- */

static bool is_good(const struct stk_stretch *t, const struct stk_piece *p, struct stk_error *err)
{
	enum stk_status s = p->request.status;
	if (s) {
		if (err && p->request.error)
			*err = *p->request.error;
		else if (err)
			s = stk__fail(err, s, "%.*s: reading at byte %lld", stk__uri_shown(t->uri), t->uri, (long long)p->begin);
		return false;
	}
	return stk__check_same_object(t->uri, "searched", &t->object, &p->object, err) == STK_OK;
}

static struct stk_piece *find(const struct stk_stretch *t, int64_t offset)
{
	struct stk_piece *p = t->first;
	while (p && p->end <= offset)
		p = p->next;
	return p && p->begin <= offset ? p : NULL;
}

/* Makes room when the window is full and no reader will release bytes: drops the newest piece that the search has passed, and requests the piece at
 * `offset`, leaving out earlier bytes that were not requested yet. Returns false if memory is short. */
static bool pass_over(struct stk_window *w, struct stk_stretch *t, int64_t offset)
{
	t->requested_to = offset > t->requested_to ? offset : t->requested_to;
	drop_newest(w);
	return request_piece(w, t);
}

/* Waits until the piece at `offset` has arrived, and returns it. Requests further pieces meanwhile. NULL: *err is filled. Call with the lock held; it is
 * released while this waits. */
static struct stk_piece *wait_for(struct stk_window *w, struct stk_stretch *t, int64_t offset, struct stk_error *err)
{
	bool memory = true;
	while (!w->stop && memory) {
		note_all_ended(w);
		memory = look_ahead(w);
		struct stk_piece *p = find(t, offset);
		if (p && p->ended)
			return is_good(t, p, err) ? p : NULL;
		if (!p && memory && !w->stop && !has_capacity(w) && (w->blocked || w->bytes == 0))
			memory = pass_over(w, t, offset);
		else if (memory)
			wait_change(w);
	}
	enum stk_status s = stk__fail(err, memory ? STK_CANCELLED : STK_NO_MEMORY, "%.*s: %s", stk__uri_shown(t->uri), t->uri,
		memory ? "the search for its members was cancelled" : "out of memory to search it");
	(void)s;
	return NULL;
}

/* Returns a copy of n bytes that span several pieces, valid until the next call; NULL with *err filled. Call with the lock held; it is released meanwhile. */
static const uint8_t *join(struct stk_window *w, struct stk_stretch *t, int64_t offset, size_t n, struct stk_error *err)
{
	w->joined = w->joined ? w->joined : stk__alloc(PIECE);
	if (!w->joined && stk__fail(err, STK_NO_MEMORY, "out of memory to search %.*s", stk__uri_shown(t->uri), t->uri))
		return NULL;
	for (size_t used = 0; used < n;) {
		int64_t at = offset + (int64_t)used;
		const struct stk_piece *p = wait_for(w, t, at, err);
		if (!p)
			return NULL;
		size_t n_copied = (size_t)(p->end - at) < n - used ? (size_t)(p->end - at) : n - used;
		memcpy(w->joined + used, p->request.data + (at - p->begin), n_copied);
		used += n_copied;
	}
	return w->joined;
}

const uint8_t *stk__survey_window_read(struct stk_window *w, int64_t offset, size_t n, struct stk_error *err)
{
	struct stk_stretch *t = &w->tars[w->at];
	pthread_mutex_lock(w->lock);
	t->cursor = offset;
	stk__survey_window_sweep(w, w->at, 0);
	const struct stk_piece *p = wait_for(w, t, offset, err);
	const uint8_t *data = !p ? NULL : offset + (int64_t)n > p->end ? join(w, t, offset, n, err) : p->request.data + (offset - p->begin);
	pthread_mutex_unlock(w->lock);
	return data;
}

/* ---- for threads that read samples ---- */

static void count_parts(struct stk_stretch *t, const struct stk_sample_part *part, int32_t step)
{
	for (struct stk_piece *p = t->first; p && p->begin < part->offset + part->length; p = p->next)
		if (p->end > part->offset && (step > 0 || p->expected > 0))
			p->expected += step;
}

void stk__survey_window_expect(struct stk_window *w, int32_t tar, const struct stk_sample_part *part)
{
	if (part->length > 0)
		count_parts(&w->tars[tar], part, 1);
}

struct stk_piece *stk__survey_window_pin(struct stk_window *w, int32_t tar, int64_t offset, int64_t length)
{
	struct stk_stretch *t = &w->tars[tar];
	note_all_ended(w);
	struct stk_piece *first = w->stop ? NULL : find(t, offset), *p = first;
	int64_t available_to = offset;
	for (; p && available_to < offset + length && p->begin <= available_to && p->ended && is_good(t, p, NULL); p = p->next)
		available_to = p->end;
	if (!first || available_to < offset + length)
		return NULL;
	for (p = first; p && p->begin < offset + length; p = p->next)
		p->pins++;
	return first;
}

void stk__survey_window_copy(const struct stk_piece *p, int64_t offset, int64_t length, uint8_t *to)
{
	for (int64_t at = offset; at < offset + length; p = p->next) {
		int64_t n_copied = p->end < offset + length ? p->end - at : offset + length - at;
		memcpy(to, p->request.data + (at - p->begin), (size_t)n_copied);
		to += n_copied;
		at += n_copied;
	}
}

void stk__survey_window_unpin(
	struct stk_window *w, int32_t tar, struct stk_piece *p, int64_t end, const struct stk_sample_part *parts, int32_t n)
{
	for (; p && p->begin < end; p = p->next)
		p->pins--;
	for (int32_t k = 0; k < n; k++)
		if (parts[k].length > 0)
			count_parts(&w->tars[tar], &parts[k], -1);
	stk__survey_window_sweep(w, tar, 0);
}
