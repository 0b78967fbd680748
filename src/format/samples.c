/* SPDX-License-Identifier: Apache-2.0 */
#include "format/samples.h"

#include "base/error.h"
#include "base/memory.h"
#include "format/list.h"

#include <stdio.h>
#include <string.h>

static enum stk_status no_memory(const struct stk_samples *t, struct stk_error *err)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory for the places of samples in archives, at %lld of them", (long long)t->size);
}

enum stk_status stk__samples_init(
	struct stk_samples *t, const char *const *archives, int32_t count, int32_t parts_each, struct stk_error *err)
{
	size_t bytes = 1;
	*t = (struct stk_samples){.archive_count = count, .parts_each = parts_each};
	for (int32_t i = 0; i < count; i++)
		bytes += strlen(archives[i]) + 1;
	t->text = stk__alloc(bytes);
	t->archives = stk__calloc((size_t)count + 1, sizeof *t->archives);
	t->objects = stk__calloc((size_t)count + 1, sizeof *t->objects);
	if (!t->text || !t->archives || !t->objects) {
		stk__samples_free(t);
		return no_memory(t, err);
	}
	char *at = t->text;
	for (int32_t i = 0; i < count; i++) {
		size_t n = strlen(archives[i]) + 1;
		t->archives[i] = memcpy(at, archives[i], n);
		at += n;
	}
	return STK_OK;
}

void stk__samples_free(struct stk_samples *t)
{
	stk__free(t->archives);
	stk__free(t->text);
	stk__free(t->objects);
	stk__free(t->parts);
	stk__free(t->header_hashes);
	stk__free(t->places);
	stk__free(t->names);
	*t = (struct stk_samples){0};
}

static bool grow(struct stk_samples *t, size_t name)
{
	if (t->size == t->capacity) {
		size_t capacity = (size_t)(t->capacity + t->capacity / 2 + 64);
		struct stk_sample_part *parts = stk__realloc(t->parts, capacity * (size_t)t->parts_each * sizeof *parts);
		t->parts = parts ? parts : t->parts;
		uint32_t *header_hashes =
			parts ? stk__realloc(t->header_hashes, capacity * (size_t)t->parts_each * sizeof *header_hashes) : NULL;
		t->header_hashes = header_hashes ? header_hashes : t->header_hashes;
		struct stk_sample_place *places = header_hashes ? stk__realloc(t->places, capacity * sizeof *places) : NULL;
		t->places = places ? places : t->places;
		if (!places)
			return false;
		t->capacity = (int64_t)capacity;
	}
	if (t->names_capacity - t->names_size <= name) {
		uint64_t capacity = t->names_capacity + t->names_capacity / 2 + name + 4096;
		char *names = stk__realloc(t->names, capacity);
		if (!names)
			return false;
		t->names = names;
		t->names_capacity = capacity;
	}
	return true;
}

enum stk_status stk__samples_add(
	struct stk_samples *t, int32_t archive, const char *name, size_t n, struct stk_sample_part **out, struct stk_error *err)
{
	if (!grow(t, n))
		return no_memory(t, err);
	t->places[t->size] = (struct stk_sample_place){t->names_size, (uint32_t)archive};
	memcpy(t->names + t->names_size, name, n);
	t->names[t->names_size + n] = '\0';
	t->names_size += n + 1;
	*out = &t->parts[t->size * t->parts_each];
	memset(*out, 0, (size_t)t->parts_each * sizeof **out);
	memset(&t->header_hashes[t->size * t->parts_each], 0, (size_t)t->parts_each * sizeof *t->header_hashes);
	t->size++;
	return STK_OK;
}

void stk__samples_drop_last(struct stk_samples *t)
{
	t->size--;
	t->names_size = t->places[t->size].name;
}

uint64_t stk__samples_digest(const struct stk_samples *t, int64_t first, int64_t count, enum stk_digest_form form)
{
	uint64_t h = stk__hash_bytes(0, &count, sizeof count);
	uint32_t archive = UINT32_MAX;
	for (int64_t i = first; i < first + count; i++) {
		if (t->places[i].archive != archive) {
			archive = t->places[i].archive;
			h = stk__hash_archive_name(h, t->archives[archive], form);
		}
		h = stk__hash_bytes(h, &t->parts[i * t->parts_each], (size_t)t->parts_each * sizeof *t->parts);
	}
	return h;
}

size_t stk__samples_name(const struct stk_samples *t, int64_t id, char *out, size_t capacity)
{
	const struct stk_sample_place *p = &t->places[id];
	int64_t offset = -1;
	for (int32_t k = 0; k < t->parts_each; k++) {
		const struct stk_sample_part *part = &t->parts[id * t->parts_each + k];
		if (part->length > 0 && (offset < 0 || part->offset < offset))
			offset = part->offset;
	}
	char number[32] = "";
	if (offset >= 0)
		snprintf(number, sizeof number, "%lld", (long long)offset);
	return (size_t)snprintf(out, capacity, "%s:%s:%s", t->archives[p->archive], number, t->names + p->name);
}
