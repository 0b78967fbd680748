/* SPDX-License-Identifier: Apache-2.0
 * Responses of an HTTP server. The reader must give the same result for the same bytes, no matter how they are split into pieces, and the fields of its
 * state must be consistent. */
#include "fuzz.h"

#include "http/response.h"

#include <stdlib.h>
#include <string.h>

struct outcome {
	struct stk_response_reader reader;
	size_t content, taken;
	uint64_t hash; /* hash of the content */
};

static void check(const struct stk_response_reader *p)
{
	if (p->message.length < -1 || p->message.first < -1 || p->message.last < p->message.first || p->message.size < -1)
		abort();
	if (p->state == STK_RESPONSE_IN_CONTENT && (p->content_left < -1 || p->content_left == 0))
		abort();
	if (p->state == STK_RESPONSE_BAD ? !p->reason || p->keep_alive : p->reason != NULL)
		abort();
	if (p->state != STK_RESPONSE_IN_HEAD && p->state != STK_RESPONSE_BAD && (p->message.status < 200 || p->message.status > 999))
		abort();
}

/* Reads the response in pieces of about `step` bytes, whose sizes vary with `seed`; step 0 reads it in one piece. */
static void read_all(const uint8_t *data, size_t size, size_t step, uint32_t seed, struct outcome *o)
{
	struct stk_response_reader *p = &o->reader;
	stk__response_begin(p);
	while (o->taken < size && p->state != STK_RESPONSE_ENDED && p->state != STK_RESPONSE_BAD) {
		size_t n = size - o->taken, piece = step ? 1 + (seed = seed * 1664525 + 1013904223) % step : n;
		n = piece < n ? piece : n;
		if (p->state == STK_RESPONSE_IN_CONTENT) {
			n = p->content_left >= 0 && (uint64_t)p->content_left < n ? (size_t)p->content_left : n;
			for (size_t i = 0; i < n; i++)
				o->hash = (o->hash ^ data[o->taken + i]) * 1099511628211u;
			stk__response_took(p, n);
			o->content += n;
		} else {
			n = stk__response_read(p, (const char *)data + o->taken, n);
		}
		o->taken += n;
		check(p);
	}
	stk__response_closed(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct outcome whole, parts;
	const uint32_t seed = size ? data[size - 1] : 0;
	memset(&whole, 0, sizeof whole);
	read_all(data, size, 0, 0, &whole);
	for (size_t step = 1; step < 4096; step *= 7) {
		const struct stk_response *a = &whole.reader.message, *b = &parts.reader.message;
		memset(&parts, 0, sizeof parts);
		read_all(data, size, step, seed, &parts);
		bool same = whole.reader.state == parts.reader.state && whole.content == parts.content && whole.hash == parts.hash &&
			    whole.taken == parts.taken && a->status == b->status && a->length == b->length && a->first == b->first &&
			    a->size == b->size && a->date == b->date && strcmp(a->etag, b->etag) == 0 &&
			    strcmp(a->location, b->location) == 0;
		if (!same)
			abort();
	}
	return 0;
}
