/* SPDX-License-Identifier: Apache-2.0 */
#include "format/archive_stream.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/version.h"
#include "io/wait.h"

#include <string.h>

enum { SMALL = 16 << 10, MOST_DOUBLED = 6, LARGE = 1 << 20, MOST_AHEAD = 16 };

struct stk_archive_stream {
	const char *uri;
	struct stk_object object;
	struct stk_archive_pace pace;
	struct stk_read_ahead pieces; /* requests for consecutive ranges of the archive */
	int run;                      /* number of pieces so far that follow each other without a gap */
	int64_t next;                 /* offset of the next piece */
	int64_t last, stride;         /* last: offset of the last read; stride: average distance of reads; -1: not known */
	uint8_t *joined;              /* buffer for a read that spans several pieces */
};

enum stk_status stk__archive_stream_create(struct stk_io *io, const char *uri, const struct stk_object *object,
	struct stk_archive_pace pace, const struct stk_access *access, struct stk_archive_stream **out, struct stk_error *err)
{
	struct stk_archive_stream *s = *out = stk__calloc(1, sizeof *s);
	if (!s || !stk__ahead_init(&s->pieces, io, access, MOST_AHEAD)) {
		stk__archive_stream_destroy(s);
		*out = NULL;
		return stk__fail(err, STK_NO_MEMORY, "out of memory to search %.*s", stk__uri_shown(uri), uri);
	}
	s->uri = uri;
	s->object = *object;
	s->pace = pace;
	s->pace.max_requests = pace.max_requests < MOST_AHEAD ? pace.max_requests : MOST_AHEAD;
	s->stride = -1;
	return STK_OK;
}

/* ---- pieces ---- */

static void request_piece(struct stk_archive_stream *s, int64_t size)
{
	const int64_t left = s->object.size - s->next;
	const struct stk_request request = {.uri = s->uri, .uncached = true, .offset = s->next, .length = size < left ? size : left};
	s->next += request.length;
	stk__ahead_submit(&s->pieces, &request);
}

void stk__archive_stream_destroy(struct stk_archive_stream *s)
{
	if (!s)
		return;
	stk__ahead_destroy(&s->pieces);
	stk__free(s->joined);
	stk__free(s);
}

static bool has_come(struct stk_archive_stream *s, struct stk_ahead *p, struct stk_error *err)
{
	if (!stk__ahead_wait(&s->pieces, p)) {
		enum stk_status ended =
			stk__fail(err, STK_CANCELLED, "%.*s: the search for its members was cancelled", stk__uri_shown(s->uri), s->uri);
		return ended == STK_OK;
	}
	if (p->request.status) {
		if (err && p->request.error)
			*err = *p->request.error;
		else if (err)
			err->code = p->request.status;
		return false;
	}
	return stk__check_same_object(s->uri, "searched", &s->object, &p->object, err) == STK_OK;
}

/* ---- reads ---- */

/* Requests the bytes that will be read next: if headers are close to each other, the next pieces of 1 MiB, as many as may be in flight; otherwise only the
 * range in which the next header is expected. Such ranges grow while they follow each other without a gap: an archive of thirty thousand small members would
 * otherwise take two thousand requests, one after the other. */
static void look_ahead(struct stk_archive_stream *s)
{
	bool dense = s->stride >= 0 && s->stride <= s->pace.jump;
	int most = dense ? s->pace.max_requests : 1;
	while (s->pieces.count < most && s->next < s->object.size) {
		request_piece(s, dense ? LARGE : (int64_t)SMALL << (s->run < MOST_DOUBLED ? s->run : MOST_DOUBLED));
		s->run++;
	}
}

static void update_stride(struct stk_archive_stream *s, int64_t offset)
{
	int64_t gap = offset - s->last;
	s->stride = s->last == 0 && s->stride < 0 && gap == 0 ? -1 : s->stride < 0 ? gap : s->stride + (gap - s->stride) / 4;
	s->last = offset;
}

/* Returns a copy of n bytes that span several pieces, valid until the next call; NULL with *err filled. Waits for the pieces. */
static const uint8_t *join(struct stk_archive_stream *s, int64_t offset, size_t n, struct stk_error *err)
{
	s->joined = s->joined ? s->joined : stk__alloc(LARGE);
	if (!s->joined && stk__fail(err, STK_NO_MEMORY, "out of memory to search %.*s", stk__uri_shown(s->uri), s->uri))
		return NULL;
	size_t used = 0;
	for (int k = 0; used < n; k++) {
		if (k == s->pieces.count)
			request_piece(s, LARGE);
		struct stk_ahead *p = stk__ahead_at(&s->pieces, k);
		if (!has_come(s, p, err))
			return NULL;
		size_t begin = (size_t)(offset + (int64_t)used - p->request.offset), available = (size_t)p->request.length - begin;
		available = available < n - used ? available : n - used;
		memcpy(s->joined + used, p->request.data + begin, available);
		used += available;
	}
	return s->joined;
}

static int64_t end_of(const struct stk_ahead *p)
{
	return p->request.offset + p->request.length;
}

const uint8_t *stk__archive_stream_read(struct stk_archive_stream *s, int64_t offset, size_t n, struct stk_error *err)
{
	update_stride(s, offset);
	while (s->pieces.count && end_of(stk__ahead_at(&s->pieces, 0)) <= offset && offset < s->next)
		stk__ahead_drop(&s->pieces);
	if (!s->pieces.count || offset >= s->next || offset < stk__ahead_at(&s->pieces, 0)->request.offset) {
		stk__ahead_drop_all(&s->pieces);
		s->run = offset == s->next ? s->run : 0;
		s->next = offset;
	}
	look_ahead(s);
	struct stk_ahead *p = stk__ahead_at(&s->pieces, 0);
	if (offset + (int64_t)n > end_of(p))
		return join(s, offset, n, err);
	return has_come(s, p, err) ? p->request.data + (offset - p->request.offset) : NULL;
}
