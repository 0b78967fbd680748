/* SPDX-License-Identifier: Apache-2.0
 *
 * Receives responses: reads the header to learn how much memory the body needs and which part of the object it is, and reads the body into its memory. */
#include "http/http_connection.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_SIZE = 64 << 10 };

#define SHOWN(t) stk__uri_shown((t)->r->uri), (t)->r->uri

/* ---- the end ---- */

void stk__transfer_ended(struct stk_transfer *t, CURLcode code, const char *why)
{
	struct stk_http_loop *l = t->loop;
	t->code = code;
	t->reason[0] = 0;
	if (*why)
		snprintf(t->reason, sizeof t->reason, "%s", why);
	if (t->connection)
		stk__connection_leave(t->connection, !code && t->response.state == STK_RESPONSE_ENDED && t->response.keep_alive);
	t->next_ended = l->ended;
	l->ended = t;
}

/* Handles the end of the connection. A body without a length is complete only if the server itself closed the connection: after a reset or a cut TLS
 * connection, bytes may be missing. Sets t->stale if a reused connection ended before any byte of the answer: the request is then sent again. */
void stk__transfer_disconnected(struct stk_transfer *t, ssize_t result)
{
	if (!result && stk__response_closed(&t->response)) {
		stk__transfer_ended(t, CURLE_OK, "");
		return;
	}
	t->stale = t->connection->used && !t->response_begun;
	if (result == STK_BROKEN)
		stk__transfer_ended(t, CURLE_RECV_ERROR, "the server reset the connection");
	else if (result == STK_CUT && t->has_body_memory)
		stk__transfer_ended(
			t, CURLE_PARTIAL_FILE, "the connection ended without the end of TLS (close_notify): the answer may be cut");
	else
		stk__transfer_ended(t, t->has_body_memory ? CURLE_PARTIAL_FILE : CURLE_GOT_NOTHING,
			t->has_body_memory ? "the server closed the connection" : "the server closed the connection without an answer");
}

void stk__transfer_stop(struct stk_transfer *t)
{
	struct stk_transfer **e = &t->loop->ended;
	if (t->connection)
		stk__connection_leave(t->connection, false);
	while (*e && *e != t)
		e = &(*e)->next_ended;
	if (*e)
		*e = t->next_ended;
}

/* ---- memory for the body ---- */

static enum stk_status check_size(const struct stk_transfer *t, uint64_t size)
{
	const struct stk_request *r = t->r;
	return !r->http.joined && r->max_bytes && size > r->max_bytes ? stk__fail_memory_limit(stk__request_error(t->r), size, r->max_bytes)
								      : STK_OK;
}

/* Asks whether buffers of `bytes` bytes in total are admitted. If not, makes the transfer wait for memory, stops reading, and returns false. */
static bool admit(struct stk_transfer *t, size_t bytes)
{
	if (stk__request_admitted(t->r, bytes))
		return true;
	if (!t->waits_for_memory) {
		t->waits_for_memory = true;
		t->window_ns = stk__clock_ns();
		atomic_fetch_add(&t->loop->waiting_for_memory, 1);
		stk__connection_watch_reads(
			t->connection, false); /* has no effect if reads are not watched, which is so if the transfer has waited before */
	}
	return false;
}

/* Grows the memory to `size` bytes, and copies the bytes received so far. If the growth is not admitted, changes nothing and returns STK_OK; the transfer
 * then waits for memory (admit). */
static enum stk_status reserve(struct stk_transfer *t, size_t size)
{
	struct stk_request *r = t->r;
	struct stk_io *io = t->loop->source->io;
	const bool grows = t->capacity > 0;
	if (!admit(t, t->capacity + stk__buffer_rounded(size)))
		return STK_OK;
	struct stk_buffer *b;
	uint8_t *data = stk__request_memory(io, r, size, &b);
	if (!data)
		return stk__fail(stk__request_error(t->r), STK_NO_MEMORY, "%.*s: no memory for its %zu bytes", SHOWN(t), size);
	if (t->used)
		memmove(data, t->data, t->used);
	stk__buffer_release(t->buffer);
	t->buffer = b;
	t->data = data;
	t->capacity = b ? stk__buffer_capacity(b) : size;
	if (grows)
		stk__request_admitted(r, t->capacity); /* reports the new total, since the smaller buffer was freed */
	return STK_OK;
}

/* ---- the header of a response ---- */

/* Returns the size of the whole object according to the header; -1: the header does not say. */
static int64_t size_given(const struct stk_response *p)
{
	return p->status == 200 ? p->length : p->size;
}

/* Returns the ETag, or the date of the last change, which servers without ETags usually send. */
static const char *version_of(const struct stk_response *p)
{
	return p->etag[0] ? p->etag : p->modified;
}

static enum stk_status fail_changed(const struct stk_transfer *t)
{
	const struct stk_response *p = &t->response.message;
	if (strcmp(t->etag, version_of(p)) == 0)
		return stk__fail(stk__request_error(t->r), STK_IO,
			"%.*s: it changed while it was read: it had %lld bytes, and after %zu of them has %lld", SHOWN(t),
			(long long)t->object_size, t->used, (long long)size_given(p));
	return stk__fail(stk__request_error(t->r), STK_IO,
		"%.*s: it changed while it was read: its %s was %s after %zu bytes, and is now %s", SHOWN(t), stk__version_word(t->etag),
		t->etag, t->used, *version_of(p) ? version_of(p) : "another");
}

/* Writes the requested bytes in words to `text`, and returns it: "all of it", "the bytes from 5 on", "the bytes from 5 to 9". */
static const char *asked_for(const struct stk_transfer *t, char text[64])
{
	const int64_t next = t->first + (int64_t)t->used;
	if (t->length > 0)
		snprintf(text, 64, "the bytes from %lld to %lld", (long long)next, (long long)(t->first + t->length - 1));
	else if (next > 0)
		snprintf(text, 64, "the bytes from %lld on", (long long)next);
	else
		snprintf(text, 64, "all of it");
	return text;
}

static enum stk_status fail_other_part(const struct stk_transfer *t)
{
	const struct stk_response *p = &t->response.message;
	char requested[64], sent[96] = "a part without saying which";
	char size[32] = "*";
	if (p->size >= 0)
		snprintf(size, sizeof size, "%lld", (long long)p->size);
	if (p->multipart)
		snprintf(sent, sizeof sent, "several parts (multipart/byteranges)");
	else if (p->first >= 0)
		snprintf(sent, sizeof sent, "the bytes from %lld to %lld of %s", (long long)p->first, (long long)p->last, size);
	return stk__fail(stk__request_error(t->r), STK_IO, "%.*s: asked for %s, the server sends %s (answer 206)", SHOWN(t),
		asked_for(t, requested), sent);
}

/* Returns whether a 206 answer begins at the next requested byte and contains no byte after the last requested one. If the request is for all bytes to the
 * object's end, the answer must have them all. */
static bool is_part_asked(const struct stk_transfer *t)
{
	const struct stk_response *p = &t->response.message;
	const int64_t end = t->length > 0 ? t->first + t->length : p->size; /* offset of the first byte after the requested ones */
	const int64_t next = t->first + (int64_t)t->used;
	if ((t->length <= 0 && !next) || p->multipart || p->first != next || end < 0 ||
		p->last >= end) /* a server must send the whole object if no range was requested */
		return false;
	return t->length > 0 || p->last == end - 1;
}

static enum stk_status check_part(const struct stk_transfer *t)
{
	const struct stk_response *p = &t->response.message;
	if (!is_part_asked(t))
		return fail_other_part(t);
	if (p->length >= 0 && p->length != p->last - p->first + 1) {
		return stk__fail(stk__request_error(t->r), STK_IO, "%.*s: the server sends %lld bytes as those from %lld to %lld", SHOWN(t),
			(long long)p->length, (long long)p->first, (long long)p->last);
	}
	if (!t->resumes && t->length > 0 && p->size >= 0 && p->size < t->first + t->length)
		return stk__http_fail_short(t);
	return STK_OK;
}

/* Prepares to continue a body that was cut: fails if the object has changed since, and sets t->skip, the number of bytes of the answer to skip, because a
 * server without ranges sends the whole body again. */
static enum stk_status continue_body(struct stk_transfer *t)
{
	const struct stk_response *p = &t->response.message;
	const bool resized = t->object_size >= 0 && size_given(p) >= 0 && size_given(p) != t->object_size;
	if (resized || (t->etag[0] && strcmp(t->etag, version_of(p)) != 0))
		return fail_changed(t);
	t->skip = p->status == 200 ? t->first + (int64_t)t->used : 0;
	return STK_OK;
}

static enum stk_status fail_encoded(const struct stk_transfer *t)
{
	t->r->no_retry |= t->r->retries >= 2;
	return stk__fail(stk__request_error(t->r), STK_IO,
		"%.*s: the server sends it encoded (Content-Encoding), and Stoker reads objects as they are: store it without that encoding",
		SHOWN(t));
}

/* Begins the first body of an object: records the object's properties, checks its size, and allocates memory for its bytes. */
static enum stk_status begin_object(struct stk_transfer *t)
{
	const struct stk_response *p = &t->response.message;
	const struct stk_request *r = t->r;
	memcpy(t->etag, version_of(p), strlen(version_of(p)) + 1); /* t->etag is as large as the fields of the response */
	t->object_size = size_given(p);
	if (r->object) {
		r->object->size = t->object_size;
		memcpy(r->object->version, t->etag, sizeof r->object->version);
	}
	t->r->got.size = t->object_size;
	t->r->got.tag = stk__etag_hash(t->etag);
	t->r->got.etag = *p->etag;
	/* requests that share this answer may expect different versions, which stk__io_finish checks for each of them */
	const bool checks = !r->http.joined || r->expected.pin != STK_PIN_READ;
	enum stk_status status = checks ? stk__io_check_size(t->r, stk__request_error(t->r)) : STK_OK;
	if (status)
		return status;
	int64_t body_size = p->status == 206 ? p->last - p->first + 1 : p->length < 0 ? -1 : p->length > t->skip ? p->length - t->skip : 0;
	if (p->status == 200 && t->length >= 0 && body_size >= 0 && body_size < t->length)
		return stk__http_fail_short(t);
	t->expected = t->length >= 0 ? t->length : body_size;
	status = check_size(t, t->expected > 0 ? (uint64_t)t->expected : 0);
	return status ? status : reserve(t, t->expected >= 0 ? (size_t)t->expected : FIRST_SIZE);
}

/* Checks the header of a 200 or 206, and prepares the transfer and its memory for the body. */
static enum stk_status begin_body(struct stk_transfer *t)
{
	const struct stk_response *p = &t->response.message;
	enum stk_status status = p->encoded ? fail_encoded(t) : p->status == 206 ? check_part(t) : STK_OK;
	if (status)
		return status;
	if (t->resumes)
		status = continue_body(t);
	else {
		t->skip = p->status == 200 ? t->first : 0;
		status = begin_object(t);
	}
	t->end_used = p->status == 206 ? (int64_t)t->used + p->last - p->first + 1 : t->expected;
	return status;
}

/* ---- the body ---- */

/* Returns whether the body's bytes are bytes of the object, and not, for example, the text of an error. */
static bool is_object_data(const struct stk_transfer *t)
{
	return t->response.message.status == 200 || t->response.message.status == 206;
}

/* Grows the buffer of a body of unknown length by half, but at most to r->max_bytes and one PIECE more. Does nothing if at least PIECE bytes are free. */
static enum stk_status grow_text(struct stk_transfer *t)
{
	enum { PIECE = 16 << 10 };
	size_t size = t->capacity + t->capacity / 2;
	if (t->expected >= 0 || !t->data || t->capacity - t->used >= PIECE)
		return STK_OK;
	if (t->r->max_bytes && !t->r->http.joined && size > t->r->max_bytes + PIECE)
		size = t->r->max_bytes + PIECE;
	return size > t->capacity ? reserve(t, size) : STK_OK;
}

/* Returns the error for a part whose body is longer than its Content-Range. */
static enum stk_status fail_too_long(const struct stk_transfer *t)
{
	const struct stk_response *p = &t->response.message;
	return stk__fail(stk__request_error(t->r), STK_IO, "%.*s: the server sends more than the bytes from %lld to %lld that it announced",
		SHOWN(t), (long long)p->first, (long long)p->last);
}

/* Fails if `more` further bytes of a body of unknown length exceed the request's limit or the object's known size. */
static enum stk_status check_growth(struct stk_transfer *t, size_t more)
{
	enum stk_status status = check_size(t, t->used + more);
	if (!status && t->r->expected.size && !t->r->http.joined && t->first + (int64_t)(t->used + more) > t->r->expected.size) {
		t->r->got.size = t->first + (int64_t)(t->used + more); /* this is a lower bound of the object's size */
		status = stk__io_check_size(t->r, stk__request_error(t->r));
	}
	return status;
}

/* Stores n bytes of the body: in the object's memory, or in t->text if they are an error's body. Returns false if the transfer needs no more bytes or has
 * failed (t->failed). */
static bool take_content(struct stk_transfer *t, const char *bytes, size_t n)
{
	size_t take = n, capacity = sizeof t->text - 1 - t->text_size;
	if (!is_object_data(t)) {
		take = n < capacity ? n : capacity;
		memcpy(t->text + t->text_size, bytes, take);
		t->text_size += take;
		t->complete = n > capacity;
		return !t->complete;
	}
	size_t skip = (size_t)(t->skip < (int64_t)n ? t->skip : (int64_t)n);
	t->skip -= (int64_t)skip;
	take -= skip;
	const bool surplus = t->end_used >= 0 && take > (size_t)t->end_used - t->used;
	if (surplus && t->response.message.status == 206) {
		t->failed = fail_too_long(t);
		return false;
	}
	if (surplus)
		take = (size_t)t->end_used - t->used;
	else if (t->expected < 0 && (t->failed = check_growth(t, take)))
		return false;
	memcpy(t->data + t->used, bytes + skip, take);
	t->used += take;
	return true;
}

/* Returns whether all requested bytes have been received while the server would send more, for which the transfer does not wait. */
static bool has_enough(const struct stk_transfer *t)
{
	/* if a part of the object is sent in chunks, the last chunk must still be read, to check that the body ends where the part ends */
	const bool bounded = t->response.message.status == 200 || t->response.content_left < 0;
	return is_object_data(t) && bounded && t->has_body_memory && t->expected >= 0 && t->used == (size_t)t->expected &&
	       t->response.state == STK_RESPONSE_IN_CONTENT;
}

/* Handles bytes in the scratch buffer, or bytes that waited in t->text. Returns false if an error's body is longer than t->text can hold, the transfer has
 * failed (t->failed), or the response is invalid. */
static bool take_bytes(struct stk_transfer *t, const char *bytes, size_t n)
{
	struct stk_response_reader *p = &t->response;
	for (size_t take; n; bytes += take, n -= take) {
		if (p->state == STK_RESPONSE_IN_CONTENT) {
			take = p->content_left < 0 || (uint64_t)p->content_left > n ? n : (size_t)p->content_left;
			stk__response_took(p, take);
			if (!take_content(t, bytes, take))
				return false;
			continue;
		}
		if (p->state == STK_RESPONSE_ENDED) { /* bytes after the end of the response: the connection cannot be used again */
			p->keep_alive = false;
			return true;
		}
		take = stk__response_read(p, bytes, n);
		if (p->state == STK_RESPONSE_BAD)
			return false;
		if (p->state != STK_RESPONSE_IN_HEAD && !t->has_body_memory) {
			t->has_body_memory = true;
			if (is_object_data(t) && (t->failed = begin_body(t)))
				return false;
			if (t->waits_for_memory) {
				t->text_size = n - take;
				memcpy(t->text, bytes + take, t->text_size);
				return true;
			}
		}
	}
	return true;
}

/* Called at the first byte of a response: records how long the answer took, and stops the twin. */
static void first_byte(struct stk_transfer *t)
{
	stk__hedge_add_time(t->loop->source, stk__clock_ns() - t->window_ns);
	if (t->twin && t->twin->connection) /* a twin without a connection has already ended */
		stk__transfer_ended(t->twin, CURLE_ABORTED_BY_CALLBACK, "the other answer was first");
	t->response_begun = true;
}

/* Returns the address to which the next bytes are read, and sets *capacity to their maximum number. *direct: set to true if this is the object's memory, and
 * not the scratch buffer. */
static void *find_destination(const struct stk_transfer *t, bool *direct, size_t *capacity)
{
	enum { HEAD = 2048, SMALL = 16 << 10 };
	const struct stk_response_reader *p = &t->response;
	*direct = p->state == STK_RESPONSE_IN_CONTENT && is_object_data(t) && t->end_used > (int64_t)t->used && !t->skip;
	if (*direct) {
		size_t space = (size_t)t->end_used - t->used;
		*capacity = p->content_left >= 0 && (uint64_t)p->content_left < space ? (size_t)p->content_left : space;
		return t->data + t->used;
	}
	/* a large body: reads little with the header, so that most of the body goes directly into its memory */
	const bool large = t->length < 0 || t->length > SMALL;
	*capacity = p->state == STK_RESPONSE_IN_HEAD && large ? HEAD : STK_HTTP_SCRATCH;
	if (is_object_data(t) && t->data && t->expected < 0 && t->capacity - t->used < *capacity)
		*capacity = t->capacity - t->used;
	return t->loop->scratch;
}

/* Handles the n bytes of one read. direct: they are already in the object's memory. Returns false if the transfer has ended. */
static bool take_piece(struct stk_transfer *t, const void *bytes, size_t n, bool direct)
{
	struct stk_response_reader *p = &t->response;
	bool on = true;
	if (!t->window_bytes && p->state == STK_RESPONSE_IN_HEAD && n > 1 && memcmp(bytes, "\x15\x03", 2) == 0) { /* an alert of TLS */
		stk__transfer_ended(t, CURLE_USE_SSL_FAILED, "the server answers in TLS");
		return false;
	}
	t->window_bytes += n;
	if (direct) {
		t->used += n;
		stk__response_took(p, n);
	} else {
		on = take_bytes(t, bytes, n);
	}
	if (t->waits_for_memory) /* stk__transfer_continue ends the transfer, even if no bytes follow */
		return false;
	if (p->state == STK_RESPONSE_BAD) {
		char why[CURL_ERROR_SIZE];
		snprintf(why, sizeof why, "the server's answer is not understood: %s", p->reason);
		stk__transfer_ended(t, CURLE_WEIRD_SERVER_REPLY, why);
		return false;
	}
	if (on && p->state == STK_RESPONSE_ENDED) {
		stk__transfer_ended(t, CURLE_OK, "");
		return false;
	}
	t->complete |= on && has_enough(t);
	if (!on || t->complete)
		stk__transfer_ended(t, CURLE_WRITE_ERROR, "");
	return on && !t->complete;
}

/* Returns whether the transfer has memory to continue reading. If memory is short, ends the transfer. */
static bool has_room(struct stk_transfer *t)
{
	t->failed = grow_text(t);
	if (t->failed)
		stk__transfer_ended(t, CURLE_WRITE_ERROR, "");
	return !t->failed && !t->waits_for_memory;
}

/* Reads once. Returns true if more bytes may be available at once. */
static bool read_piece(struct stk_transfer *t)
{
	bool direct;
	size_t capacity;
	if (t->waits_for_memory || (t->has_body_memory && is_object_data(t) && !has_room(t)))
		return false;
	void *to = find_destination(t, &direct, &capacity);
	ssize_t n = stk__connection_recv(t->connection, to, capacity);
	if (n == STK_WOULD_BLOCK)
		return false;
	if (n <= 0) {
		stk__transfer_disconnected(t, n);
		return false;
	}
	if (!t->response_begun)
		first_byte(t);
	if (!take_piece(t, to, (size_t)n, direct))
		return false;
	return t->connection->tls || ((size_t)n == capacity && (direct || !stk__rest_is_worth_waiting(t)));
}

void stk__transfer_receive(struct stk_transfer *t)
{
	enum { TURN = 1 << 20 };
	const size_t before = t->window_bytes;
	while (read_piece(t))
		if (t->window_bytes - before > TURN && !t->connection->tls)
			break; /* gives other transfers a turn; the loop reports the socket as readable again */
	if (t->connection && !t->waits_for_memory)
		stk__rest_wait(t);
}

/* Allocates the memory that was not admitted earlier, if it is admitted now. */
static enum stk_status allocate_body(struct stk_transfer *t)
{
	return t->data ? grow_text(t) : reserve(t, t->expected >= 0 ? (size_t)t->expected : FIRST_SIZE);
}

bool stk__transfer_continue(struct stk_transfer *t)
{
	char came[STK_HTTP_TEXT];
	const size_t n = t->text_size;
	const int64_t since_ns = t->window_ns;
	t->waits_for_memory = false;
	atomic_fetch_sub(&t->loop->waiting_for_memory, 1);
	t->failed = allocate_body(t);
	if (t->waits_for_memory) {
		t->window_ns = since_ns; /* the same wait continues */
		return false;
	}
	if (t->failed) {
		stk__transfer_ended(t, CURLE_WRITE_ERROR, "");
		return true;
	}
	memcpy(came, t->text, n);
	t->text_size = 0;
	t->window_ns = stk__clock_ns();
	stk__connection_watch_reads(t->connection, true);
	if (take_piece(t, came, n, false)) /* ends the transfer if nothing more is expected; n may be 0 */
		stk__transfer_receive(t);
	return true;
}
