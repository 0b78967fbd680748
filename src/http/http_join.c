/* SPDX-License-Identifier: Apache-2.0
 *
 * Joins requests for neighbouring ranges into one request, whose answer serves all of them: a consumer that reads a tar from front to back requests one sample
 * after another. */
#include "http/http_impl.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

/* GAP: maximum number of bytes between two requests, which are received and dropped. MOST: maximum size of one answer in bytes. A connection delivers this
 * much in the time that a store takes to begin an answer; a longer answer would delay the first of the requests. */
enum { GAP = 64 << 10, MOST = 4 << 20 };

static bool may_join(const struct stk_request *r)
{
	return r && r->length > 0 && !r->http.unjoinable && !r->object && (!r->max_bytes || (uint64_t)r->length <= r->max_bytes);
}

void stk__http_join(struct stk_request_queue *queue, struct stk_request *r)
{
	struct stk_request *last = r;
	int64_t end = r->offset + r->length;
	r->http.joined = NULL;
	for (const struct stk_request *n; may_join(r) && may_join(n = queue->root);) {
		bool close_enough = n->offset >= r->offset && n->offset - end <= GAP && n->offset + n->length - r->offset <= MOST;
		if (!close_enough || strcmp(n->uri, r->uri) != 0)
			return;
		last->http.joined = stk__queue_pop(queue);
		last = last->http.joined;
		last->http.joined = NULL;
		end = last->offset + last->length > end ? last->offset + last->length : end;
	}
}

int64_t stk__http_span(const struct stk_request *r)
{
	int64_t end = r->offset + r->length;
	for (const struct stk_request *q = r->http.joined; q; q = q->http.joined)
		end = q->offset + q->length > end ? q->offset + q->length : end;
	return r->length < 0 ? -1 : end - r->offset;
}

bool stk__http_all_cancelled(const struct stk_request *r)
{
	bool all = true;
	for (; r; r = r->http.joined)
		all &= atomic_load(&r->cancelled);
	return all;
}

static enum stk_status give_part(struct stk_http_source *s, struct stk_request *r, const uint8_t *data)
{
	const size_t n = (size_t)r->length;
	uint8_t *to = stk__request_memory(s->io, r, n, &r->buffer);
	if (!to)
		return stk__fail(r->error, STK_NO_MEMORY, "%.*s: no memory for its %zu bytes", stk__uri_shown(r->uri), r->uri, n);
	memcpy(to, data, n);
	memset(to + n, 0, STK_HTTP_SLACK);
	r->data = to;
	r->size = n;
	return STK_OK;
}

/* Puts r back into the queue, to be sent without others. Returns false if r was cancelled or the source is ending. */
static bool requeue(struct stk_http_source *s, struct stk_request *r)
{
	pthread_mutex_lock(&s->lock);
	bool on = !s->cancelled && !atomic_load(&r->cancelled);
	if (on) {
		r->http.unjoinable = true;
		stk__queue_push(&s->queue, r);
	}
	pthread_mutex_unlock(&s->lock);
	return on;
}

void stk__http_end_joined(struct stk_http_source *s, struct stk_request *r, const uint8_t *data, enum stk_status status)
{
	const bool no_retry = r->no_retry, of_one = r->http.joined && status && status != STK_CANCELLED && !stk__io_source_failed(status);
	const int64_t first = r->offset;
	const struct stk_read_version got = r->got;
	const bool object_fails = r->object_fails;
	const int64_t pause_ns = r->retry.pause_ns;
	struct stk_error why = {.code = status};
	if (status && r->error)
		why = *r->error;
	for (struct stk_request *next; r; r = next) {
		next = r->http.joined; /* before r ends, because its owner may reuse r then */
		r->http.joined = NULL;
		r->no_retry = no_retry;
		r->got = got;
		r->object_fails = object_fails;
		r->retry.pause_ns = pause_ns;
		if (of_one && requeue(s, r))
			continue;
		struct stk_error *err = status ? stk__request_error(r) : NULL;
		if (err)
			*err = why;
		stk__io_finish(s->io, r, status ? status : give_part(s, r, data + (r->offset - first)));
	}
}
