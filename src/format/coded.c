/* SPDX-License-Identifier: Apache-2.0 */
#include "format/coded.h"

#include "base/memory.h"
#include "format/list.h"

#include <string.h>

void stk__put(struct stk_coded_out *o, const void *bytes, size_t n)
{
	if (!o->failed && o->n + n > o->capacity) {
		size_t capacity = 2 * (o->n + n) + 4096;
		uint8_t *data = stk__realloc(o->data, capacity);
		o->failed = !data;
		o->data = data ? data : o->data;
		o->capacity = data ? capacity : o->capacity;
	}
	if (o->failed || !n)
		return;
	memcpy(o->data + o->n, bytes, n);
	o->n += n;
}

void stk__put_number(struct stk_coded_out *o, uint64_t v)
{
	uint8_t bytes[10];
	size_t n = 0;
	for (; v >= 128; v >>= 7)
		bytes[n++] = (uint8_t)(v | 128);
	bytes[n++] = (uint8_t)v;
	stk__put(o, bytes, n);
}

void stk__put_text(struct stk_coded_out *o, const char *s, size_t n)
{
	stk__put_number(o, n);
	stk__put(o, s, n);
}

void stk__put_name(struct stk_coded_out *o, const char *name, const char *previous)
{
	size_t shared = 0;
	while (name[shared] && name[shared] == previous[shared])
		shared++;
	stk__put_number(o, shared);
	stk__put_text(o, name + shared, strlen(name + shared));
}

void stk__put_hash(struct stk_coded_out *o)
{
	uint64_t hash = o->failed ? 0 : stk__hash_bytes(0, o->data, o->n);
	uint8_t bytes[STK_CODED_HASH];
	for (int i = 0; i < STK_CODED_HASH; i++)
		bytes[i] = (uint8_t)(hash >> 8 * i);
	stk__put(o, bytes, sizeof bytes);
}

uint64_t stk__take_coded(struct stk_coded_in *in)
{
	uint64_t v = 0;
	for (int shift = 0; shift < 63; shift += 7) {
		if (in->at == in->end)
			break;
		uint8_t byte = *in->at++;
		v |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return v;
	}
	in->failed = true;
	return 0;
}

void stk__take_text(struct stk_coded_in *in, char *name, size_t used, size_t capacity)
{
	uint64_t n = stk__take_coded(in);
	if (in->failed || n > (uint64_t)(in->end - in->at) || used + n >= capacity || memchr(in->at, 0, n)) {
		in->failed = true;
		return;
	}
	memcpy(name + used, in->at, n);
	name[used + n] = 0;
	in->at += n;
}

void stk__take_name(struct stk_coded_in *in, char *name, size_t capacity)
{
	uint64_t shared = stk__take_coded(in);
	in->failed |= shared > strlen(name);
	if (!in->failed)
		stk__take_text(in, name, shared, capacity);
}

bool stk__coded_is_whole(const uint8_t *data, size_t n)
{
	uint64_t hash = 0;
	for (int i = 0; i < STK_CODED_HASH && n > STK_CODED_HASH; i++)
		hash |= (uint64_t)data[n - STK_CODED_HASH + (size_t)i] << 8 * i;
	return n > STK_CODED_HASH && hash == stk__hash_bytes(0, data, n - STK_CODED_HASH);
}
