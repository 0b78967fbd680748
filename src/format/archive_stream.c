/* SPDX-License-Identifier: Apache-2.0 */
#include "format/archive_stream.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/version.h"

#include <pthread.h>
#include <string.h>

enum { SMALL = 16 << 10, MOST_DOUBLED = 6, LARGE = 1 << 20, MOST_AHEAD = 16 };

struct piece {
	struct stk_archive_stream *stream;
	struct stk_request request;
	struct stk_object object;
	int64_t size;
	bool ended;
};

struct stk_archive_stream {
	struct stk_io *io;
	const char *uri;
	struct stk_object object;
	struct stk_archive_pace pace;
	const struct stk_access *access;
	struct piece pieces[MOST_AHEAD]; /* a ring of `count` pieces from `first` on, in the archive's order, without gaps */
	int first, count, run;           /* run: number of consecutive pieces */
	int64_t next;                    /* offset after the last of them */
	int64_t last, stride;            /* offset of the last read; average distance of reads. -1: not known */
	uint8_t *joined;                 /* buffer for a read that spans two pieces */
	pthread_mutex_t lock;            /* guards `ended` */
	pthread_cond_t change;
};

enum stk_status stk__archive_stream_create(struct stk_io *io, const char *uri, const struct stk_object *object,
	struct stk_archive_pace pace, const struct stk_access *access, struct stk_archive_stream **out, struct stk_error *err)
{
	struct stk_archive_stream *s = stk__calloc(1, sizeof *s);
	*out = s;
	if (!s)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to search %.*s", stk__uri_shown(uri), uri);
	s->io = io;
	s->uri = uri;
	s->object = *object;
	s->pace = pace;
	s->access = access;
	s->pace.ahead = pace.ahead < MOST_AHEAD ? pace.ahead : MOST_AHEAD;
	s->stride = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->change, NULL);
	return STK_OK;
}

/* ---- pieces ---- */

static void piece_came(struct stk_request *r)
{
	struct piece *p = r->user;
	struct stk_archive_stream *s = p->stream;
	pthread_mutex_lock(&s->lock);
	p->ended = true;
	pthread_cond_signal(&s->change);
	pthread_mutex_unlock(&s->lock);
}

static struct piece *piece_at(struct stk_archive_stream *s, int k)
{
	return &s->pieces[(s->first + k) % MOST_AHEAD];
}

static void ask(struct stk_archive_stream *s, int64_t size)
{
	struct piece *p = piece_at(s, s->count++);
	int64_t left = s->object.size - s->next;
	*p = (struct piece){.stream = s, .size = size < left ? size : left};
	p->request = (struct stk_request){
		.uri = s->uri, .uncached = true, .offset = s->next, .length = p->size, .done = piece_came, .user = p, .object = &p->object};
	s->next += p->size;
	stk__io_submit(s->io, &p->request);
}

/* Returns false if the stream was ended before the piece arrived. */
static bool wait(struct stk_archive_stream *s, struct piece *p)
{
	bool on = true;
	pthread_mutex_lock(&s->lock);
	while (on && !p->ended)
		on = stk__access_wait(s->access, &s->change, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return on;
}

static void wait_ended(struct stk_archive_stream *s, struct piece *p)
{
	pthread_mutex_lock(&s->lock);
	while (!p->ended)
		pthread_cond_wait(&s->change, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

/* Drops the first piece, which is no longer needed. */
static void drop(struct stk_archive_stream *s)
{
	struct piece *p = piece_at(s, 0);
	if (!wait(s, p))
		stk__io_cancel(s->io, &p->request);
	wait_ended(s, p);
	stk__buffer_release(p->request.buffer);
	stk__free(p->request.error);
	s->first = (s->first + 1) % MOST_AHEAD;
	s->count--;
}

static void drop_all(struct stk_archive_stream *s)
{
	for (int k = 0; k < s->count; k++)
		stk__io_cancel(s->io, &piece_at(s, k)->request);
	while (s->count)
		drop(s);
}

void stk__archive_stream_destroy(struct stk_archive_stream *s)
{
	if (!s)
		return;
	drop_all(s);
	pthread_cond_destroy(&s->change);
	pthread_mutex_destroy(&s->lock);
	stk__free(s->joined);
	stk__free(s);
}

static bool has_come(struct stk_archive_stream *s, struct piece *p, struct stk_error *err)
{
	if (!wait(s, p)) {
		enum stk_status ended =
			stk__fail(err, STK_CANCELLED, "%.*s: the search for its members was given up", stk__uri_shown(s->uri), s->uri);
		return ended == STK_OK;
	}
	if (p->request.status) {
		if (err && p->request.error)
			*err = *p->request.error;
		else if (err)
			err->code = p->request.status;
		return false;
	}
	if (strcmp(p->object.version, s->object.version) == 0 &&
		(p->object.size < 0 || s->object.size < 0 || p->object.size == s->object.size))
		return true;
	enum stk_status changed = stk__fail(err, STK_IO, "%.*s: it changed while it was searched: its %s was %s, and is now %s",
		stk__uri_shown(s->uri), s->uri, stk__version_word(s->object.version), s->object.version, p->object.version);
	return changed == STK_OK;
}

/* ---- reads ---- */

/* Requests the bytes that are read next: everything that follows, or only the expected header and its surroundings. Consecutive pieces grow, since small
 * members may be many: thirty thousand would otherwise take two thousand answers, one after the other. */
static void look_ahead(struct stk_archive_stream *s)
{
	bool dense = s->stride >= 0 && s->stride <= s->pace.jump;
	int most = dense ? s->pace.ahead : 1;
	while (s->count < most && s->next < s->object.size) {
		ask(s, dense ? LARGE : (int64_t)SMALL << (s->run < MOST_DOUBLED ? s->run : MOST_DOUBLED));
		s->run++;
	}
}

static void learn(struct stk_archive_stream *s, int64_t offset)
{
	int64_t gap = offset - s->last;
	s->stride = s->last == 0 && s->stride < 0 && gap == 0 ? -1 : s->stride < 0 ? gap : s->stride + (gap - s->stride) / 4;
	s->last = offset;
}

/* Copies a read that spans several pieces. */
static const uint8_t *join(struct stk_archive_stream *s, int64_t offset, size_t n, struct stk_error *err)
{
	s->joined = s->joined ? s->joined : stk__alloc(LARGE);
	if (!s->joined && stk__fail(err, STK_NO_MEMORY, "out of memory to search %.*s", stk__uri_shown(s->uri), s->uri))
		return NULL;
	size_t used = 0;
	for (int k = 0; used < n; k++) {
		if (k == s->count)
			ask(s, LARGE);
		struct piece *p = piece_at(s, k);
		if (!has_come(s, p, err))
			return NULL;
		size_t begin = (size_t)(offset + (int64_t)used - p->request.offset), here = (size_t)p->size - begin;
		here = here < n - used ? here : n - used;
		memcpy(s->joined + used, p->request.data + begin, here);
		used += here;
	}
	return s->joined;
}

const uint8_t *stk__archive_stream_read(struct stk_archive_stream *s, int64_t offset, size_t n, struct stk_error *err)
{
	learn(s, offset);
	while (s->count && piece_at(s, 0)->request.offset + piece_at(s, 0)->size <= offset && offset < s->next)
		drop(s);
	if (!s->count || offset >= s->next || offset < piece_at(s, 0)->request.offset) {
		drop_all(s);
		s->run = offset == s->next ? s->run : 0;
		s->next = offset;
	}
	look_ahead(s);
	struct piece *p = piece_at(s, 0);
	if (offset + (int64_t)n > p->request.offset + p->size)
		return join(s, offset, n, err);
	return has_come(s, p, err) ? p->request.data + (offset - p->request.offset) : NULL;
}
