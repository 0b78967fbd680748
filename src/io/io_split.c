/* SPDX-License-Identifier: Apache-2.0 */
#include "io/io_split.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/version.h"

#include <stdatomic.h>
#include <string.h>

enum { SMALLEST = 16 << 20, PIECE = 8 << 20, MOST_PIECES = 64, SLACK = 64 };

struct piece {
	struct stk_split *split;
	struct stk_request request;
	struct stk_object object;
	uint8_t *data; /* address for the piece's bytes, in the memory of the whole request */
};

struct stk_split {
	struct stk_io *io;
	pthread_mutex_t *lock; /* the source's lock for the pieces of all its large requests */
	struct stk_request *whole;
	struct stk_buffer *buffer; /* buffer of the whole request; NULL if the caller provides the memory */
	uint8_t *data;
	int pieces_left,
		refs; /* pieces_left: number of unfinished pieces, plus one until stk__split_begin ends; refs: number of users of the struct. The lock
		       * guards both */
	enum stk_status status;  /* status of the first piece that failed */
	bool object_fails;       /* object_fails of the first piece that failed */
	struct stk_error *error; /* error of the first piece that failed; NULL: no memory for it */
	int count;
	struct piece pieces[];
};

static void split_unref(struct stk_split *s)
{
	pthread_mutex_lock(s->lock);
	bool last = --s->refs == 0;
	pthread_mutex_unlock(s->lock);
	if (last)
		stk__free(s);
}

/* Fails if the pieces are of different versions of the object. */
static enum stk_status check_versions(const struct stk_split *s, struct stk_error *err)
{
	const struct stk_request *r = s->whole;
	const struct stk_object *first = &s->pieces[0].object;
	for (int i = 1; i < s->count; i++) {
		const enum stk_status status = stk__check_same_object(r->uri, "read", first, &s->pieces[i].object, err);
		if (status)
			return status;
	}
	return STK_OK;
}

/* Ends the whole request after all its pieces have ended. */
static void end_split(struct stk_split *s)
{
	struct stk_request *r = s->whole;
	enum stk_status status = s->status ? s->status : check_versions(s, r->error);
	if (s->status && !r->error) {
		r->error = s->error; /* the owner of r frees the error, like one that io has allocated */
		s->error = NULL;
	} else if (s->status && s->error) {
		*r->error = *s->error;
	}
	stk__free(s->error);
	r->object_fails = s->status ? s->object_fails : status != STK_OK;
	r->no_retry |= stk__io_source_failed(s->status); /* true after a failure of the source: each piece was already retried as often
							  * as the source allows */
	pthread_mutex_lock(s->lock);
	r->split = NULL;
	pthread_mutex_unlock(s->lock);
	if (status) {
		stk__buffer_release(s->buffer);
	} else {
		memset(s->data + r->length, 0, SLACK);
		r->buffer = s->buffer;
		r->data = s->data;
		r->size = (size_t)r->length;
		r->got = s->pieces[0].request.got;
		if (r->object)
			*r->object = s->pieces[0].object;
	}
	struct stk_io *io = s->io;
	split_unref(s);
	stk__io_finish(io, r, status); /* may let another thread destroy io */
}

/* Releases `refs` references, and lowers pieces_left by one. The thread that lowers it to 0 ends the whole request. Other threads must not use s or io after
 * the unlock, because io may be destroyed once the request has ended. */
static void end_part(struct stk_split *s, int refs)
{
	pthread_mutex_lock(s->lock);
	s->refs -= refs;
	bool last = --s->pieces_left == 0;
	pthread_mutex_unlock(s->lock);
	if (last)
		end_split(s);
}

static void piece_done(struct stk_request *q)
{
	struct stk_split *s = ((struct piece *)q->user)->split;
	pthread_mutex_lock(s->lock);
	bool first = q->status && !s->status;
	if (first) {
		s->status = q->status;
		s->object_fails = q->object_fails;
		s->error = q->error;
	}
	pthread_mutex_unlock(s->lock);
	if (!first)
		stk__free(q->error);
	end_part(s, 0);
}

static uint8_t *piece_memory(void *user, size_t size)
{
	struct piece *p = user;
	return size <= (size_t)p->request.length ? p->data : NULL;
}

/* Allocates the memory for the whole request, and plans the pieces. Returns NULL if memory is short: the source then reads the request in one piece, and
 * reports the failure if memory is still short. */
static struct stk_split *make_split(struct stk_io *io, pthread_mutex_t *lock, struct stk_request *r)
{
	int64_t size = r->length / MOST_PIECES > PIECE ? r->length / MOST_PIECES + 1 : PIECE;
	int count = (int)((r->length + size - 1) / size);
	struct stk_split *s = stk__calloc(1, sizeof *s + (size_t)count * sizeof *s->pieces);
	if (!s)
		return NULL;
	*s = (struct stk_split){.io = io, .lock = lock, .whole = r, .pieces_left = count + 1, .refs = 2, .count = count};
	s->data = stk__request_memory(io, r, (size_t)r->length, &s->buffer);
	if (!s->data) {
		stk__free(s);
		return NULL;
	}
	for (int i = 0; i < count; i++) {
		struct piece *p = &s->pieces[i];
		int64_t at = i * size, left = r->length - at;
		p->split = s;
		p->data = s->data + at;
		p->request = (struct stk_request){.uri = r->uri,
			.offset = r->offset + at,
			.length = left < size ? left : size,
			.deadline = r->deadline,
			.done = piece_done,
			.user = p,
			.allocate = piece_memory,
			.allocate_user = p,
			.exact_size = true,
			.uncached = true, /* the cache stores whole requests, not pieces */
			.object = &p->object};
	}
	return s;
}

bool stk__split_begin(struct stk_io *io, pthread_mutex_t *lock, struct stk_request *r)
{
	bool large = r->length > SMALLEST && !r->exact_size && (!r->max_bytes || (uint64_t)r->length <= r->max_bytes);
	struct stk_split *s = large ? make_split(io, lock, r) : NULL;
	if (!s)
		return false;
	pthread_mutex_lock(lock);
	r->split = s;
	pthread_mutex_unlock(lock);
	for (int i = 0; i < s->count; i++) {
		if (atomic_load(&r->cancelled))
			atomic_store(&s->pieces[i].request.cancelled, true);
		stk__io_submit(io, &s->pieces[i].request);
	}
	end_part(s, 1);
	return true;
}

void stk__split_cancel(struct stk_io *io, pthread_mutex_t *lock, struct stk_request *r)
{
	pthread_mutex_lock(lock);
	struct stk_split *s = r->split;
	if (s)
		s->refs++;
	pthread_mutex_unlock(lock);
	for (int i = 0; s && i < s->count; i++)
		stk__io_cancel(io, &s->pieces[i].request);
	if (s)
		split_unref(s);
}
