/* SPDX-License-Identifier: Apache-2.0 */
#include "format/nemo.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "format/json.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { STRING = 1 << 16 }; /* maximum size of a string with escapes */

/* The fields of one entry while it is parsed. `path` and `text` point into the manifest or, for strings with escapes, into path_buffer and text_buffer. */
struct reading {
	const char *path, *text;
	size_t path_size, text_size;
	double offset, duration;
	char *path_buffer, *text_buffer;
};

static enum stk_status take_string(struct stk_json *j, char *buffer, const char **out, size_t *size)
{
	if (stk__json_null(j))
		return STK_OK;
	return stk__json_view(j, buffer, STRING, out, size);
}

static enum stk_status take_seconds(struct stk_json *j, double *out)
{
	enum stk_status s = stk__json_null(j) ? STK_OK : stk__json_real(j, out);
	return !s && !(fabs(*out) <= DBL_MAX) ? stk__json_bad(j, "offset and duration must be finite") : s;
}

static enum stk_status take_entry(struct stk_json *j, const char *key, void *user)
{
	struct reading *r = user;
	if (strcmp(key, "audio_filepath") == 0)
		return take_string(j, r->path_buffer, &r->path, &r->path_size);
	if (strcmp(key, "text") == 0)
		return take_string(j, r->text_buffer, &r->text, &r->text_size);
	if (strcmp(key, "offset") == 0)
		return take_seconds(j, &r->offset);
	if (strcmp(key, "duration") == 0)
		return take_seconds(j, &r->duration);
	return stk__json_skip(j);
}

static enum stk_status append(struct stk_nemo *n, const struct reading *r, int64_t index, struct stk_error *err)
{
	if (n->count == n->capacity) {
		size_t capacity = 2 * n->capacity + 64;
		struct stk_nemo_entry *entries = stk__realloc(n->entries, capacity * sizeof *entries);
		if (!entries)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for %zu entries of a manifest", n->count);
		n->entries = entries;
		n->capacity = capacity;
	}
	if (n->text_capacity - n->text_size < r->text_size || !n->text) {
		uint64_t capacity = 2 * n->text_capacity + r->text_size + 4096;
		char *text = stk__realloc(n->text, capacity);
		if (!text)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for the texts of a manifest");
		n->text = text;
		n->text_capacity = capacity;
	}
	enum stk_status s = stk__names_add(&n->paths, r->path, r->path_size, err);
	if (s)
		return s;
	if (r->text_size)
		memcpy(n->text + n->text_size, r->text, r->text_size);
	n->entries[n->count++] = (struct stk_nemo_entry){r->offset, r->duration, n->text_size, (uint32_t)r->text_size, index};
	n->text_size += r->text_size;
	return STK_OK;
}

static enum stk_status read_entries(
	struct stk_nemo *n, const struct stk_nemo_limits *limits, struct stk_json *j, char *path_buffer, char *text_buffer)
{
	int64_t index = 0;
	for (stk__json_blanks(j); j->at < j->end; stk__json_blanks(j)) {
		struct reading r = {.offset = -1, .duration = -1, .path_buffer = path_buffer, .text_buffer = text_buffer};
		if (*j->at != '{')
			return stk__json_bad(
				j, "an entry must begin with {: a manifest is one JSON object a line, without commas or a list");
		const char *from = j->at;
		enum stk_status s = stk__json_each(j, '{', take_entry, &r);
		if (s)
			return s;
		if (!r.path_size) {
			j->at = from;
			return stk__json_bad(j, "an entry without audio_filepath");
		}
		if (r.text_size > UINT32_MAX)
			return stk__json_bad(j, "a text of more than 4 GiB");
		if ((limits->max_duration > 0 && r.duration > limits->max_duration) ||
			(limits->min_duration > 0 && r.duration < limits->min_duration))
			continue;
		if ((s = append(n, &r, index++, j->err)))
			return s;
	}
	return STK_OK;
}

enum stk_status stk__nemo_parse(
	struct stk_nemo *n, const struct stk_nemo_limits *limits, const char *text, size_t size, const char *path, struct stk_error *err)
{
	const char *begin = text + stk__byte_order_mark(text, size);
	struct stk_json j = {.at = begin, .begin = text, .end = text + size, .whole = true, .path = path, .err = err};
	char *buffers = stk__alloc(2 * STRING);
	if (!buffers)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to read %.300s", path);
	enum stk_status s = read_entries(n, limits, &j, buffers, buffers + STRING);
	stk__free(buffers);
	return s;
}

void stk__nemo_free(struct stk_nemo *n)
{
	stk__names_free(&n->paths);
	stk__free(n->entries);
	stk__free(n->text);
	*n = (struct stk_nemo){0};
}
