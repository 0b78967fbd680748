/* SPDX-License-Identifier: Apache-2.0 */
#include "format/nuscenes_table.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "format/list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* LONGEST_ROW: maximum size of a row in bytes, so that a row always fits in the window. */
enum { LONGEST_ROW = 1 << 20, WINDOW = 4 << 20 };

struct table {
	struct stk_json json; /* parser whose text is the window */
	char *window;
	size_t window_size; /* size in bytes; for a small table, one byte more than the table */
	int fd;             /* -1: the window contains the whole table */
	bool ended;
	const struct stk_column *columns;
	/* next: index of the column with which the next key is compared first, since most rows have the same order of keys. */
	int32_t count, next;
	char (*texts)[STK_LONGEST_TEXT];
	struct stk_row row;
};

/* ---- the window ---- */

/* Moves the unread bytes to the window's beginning, and fills the rest from the file, unless the unread bytes must contain a whole row anyway. */
static enum stk_status refill(struct table *t)
{
	struct stk_json *j = &t->json;
	size_t left = (size_t)(j->end - j->at);
	if (t->ended || left >= LONGEST_ROW)
		return STK_OK;
	memmove(t->window, j->at, left);
	j->offset += j->at - j->begin;
	j->at = j->begin = t->window;
	while (left < t->window_size && !t->ended) {
		ssize_t n = stk__fault(STK_FAULT_READ) ? (errno = EIO, -1) : read(t->fd, t->window + left, t->window_size - left);
		if (n < 0 && errno != EINTR)
			return stk__fail_errno(j->err, errno, "%s: reading at byte %lld", j->path, (long long)(j->offset + (int64_t)left));
		t->ended = n == 0;
		left += n > 0 ? (size_t)n : 0;
	}
	j->end = t->window + left;
	return STK_OK;
}

static enum stk_status open_window(struct table *t, const char *path)
{
	struct stk_json *j = &t->json;
	size_t size = 0;
	if (stk__is_uri(path)) {
		uint8_t *content = NULL;
		enum stk_status s = stk__read_whole(path, (size_t)1 << 34, &content, &size, j->err);
		t->window = (char *)content;
		t->ended = true;
		j->begin = j->at = t->window;
		j->end = s ? j->at : j->at + size;
		return s;
	}
	struct stat st;
	t->fd = stk__file_open(path, &st);
	if (t->fd < 0)
		return stk__file_not_opened(path, &st, j->err);
	bool fits = st.st_size < WINDOW;
	t->window_size = fits ? (size_t)st.st_size + 1 : WINDOW; /* one more byte than the file, so that a read reaches its end */
	t->window = stk__alloc(t->window_size);
	j->begin = j->at = j->end = t->window;
	return t->window ? STK_OK : stk__fail(j->err, STK_NO_MEMORY, "out of memory for a window of %s", path);
}

/* ---- a row ---- */

enum stk_status stk__row_bad(const struct stk_row *row, const char *what, const struct stk_cell *text)
{
	const struct stk_cell *token = &row->cell[0];
	int n = token->is_present ? (int)token->n : 0;
	return stk__fail(row->err, STK_CORRUPT, "%.300s, row %lld (token \"%.*s\"): %s%s%.*s", row->path, (long long)row->number + 1,
		n < 64 ? n : 64, n ? token->text : "", what, text ? " " : "", text ? (int)(text->n < 100 ? text->n : 100) : 0,
		text ? text->text : "");
}

static enum stk_status take_reals(struct stk_json *j, const struct stk_column *column, struct stk_cell *cell, int depth)
{
	if (!stk__json_take(j, '['))
		return stk__json_bad(j, "a list of numbers is expected");
	if (stk__json_take(j, ']'))
		return STK_OK;
	do {
		enum stk_status s = STK_OK;
		if (depth == 0 && stk__json_is(j, '['))
			s = take_reals(j, column, cell, 1);
		else if (cell->count == column->count)
			s = stk__json_bad(j, "a list of too many numbers");
		else
			s = stk__json_real(j, &cell->reals[cell->count++]);
		if (s)
			return s;
	} while (stk__json_take(j, ','));
	return stk__json_take(j, ']') ? STK_OK : stk__json_bad(j, "a comma or the end of a list is expected");
}

static enum stk_status take_cell(struct table *t, int32_t k)
{
	struct stk_json *j = &t->json;
	struct stk_cell *cell = &t->row.cell[k];
	const struct stk_column *column = &t->columns[k];
	enum stk_status s = STK_OK;
	if (cell->is_present)
		return stk__row_bad(
			&t->row, "a field is given twice:", &(struct stk_cell){.text = column->name, .n = strlen(column->name)});
	cell->is_present = true;
	cell->count = 0;
	if (column->kind == STK_COLUMN_TEXT) {
		s = stk__json_view(j, t->texts[k], STK_LONGEST_TEXT, &cell->text, &cell->n);
		return s == STK_OK && cell->n >= STK_LONGEST_TEXT ? stk__json_bad(j, "a string that is too long") : s;
	}
	if (column->kind == STK_COLUMN_WHOLE)
		return stk__json_whole(j, &cell->integer);
	if (column->kind == STK_COLUMN_FLAG)
		return stk__json_bool(j, &cell->flag);
	s = take_reals(j, column, cell, 0);
	if (s == STK_OK && cell->count != column->count && !(column->empty && cell->count == 0))
		return stk__json_bad(j, "a list of too few numbers");
	for (int32_t i = 0; i < cell->count && s == STK_OK; i++)
		if (!(cell->reals[i] > -1e30 && cell->reals[i] < 1e30))
			return stk__json_bad(j, "a number that is out of range");
	return s;
}

static int32_t find_column(struct table *t, const char *key, size_t n)
{
	for (int32_t i = 0; i < t->count; i++) {
		int32_t k = t->next + i < t->count ? t->next + i : t->next + i - t->count;
		if (strncmp(t->columns[k].name, key, n) == 0 && t->columns[k].name[n] == '\0')
			return k;
	}
	return -1;
}

static enum stk_status take_row(struct table *t)
{
	struct stk_json *j = &t->json;
	enum stk_status s;
	for (int32_t k = 0; k < t->count; k++)
		t->row.cell[k].is_present = false;
	t->next = 0;
	if (!stk__json_take(j, '{'))
		return stk__json_bad(j, "an object is expected");
	if (stk__json_take(j, '}'))
		return stk__row_bad(&t->row, "it is empty", NULL);
	do {
		char buffer[STK_LONGEST_TEXT];
		const char *key;
		size_t n;
		if ((s = stk__json_view(j, buffer, sizeof buffer, &key, &n)))
			return s;
		if (!stk__json_take(j, ':'))
			return stk__json_bad(j, "a colon is expected");
		int32_t k = find_column(t, key, n);
		if ((s = k < 0 ? stk__json_skip(j) : take_cell(t, k)))
			return s;
		t->next = k < 0 ? t->next : k + 1 < t->count ? k + 1 : 0;
	} while (stk__json_take(j, ','));
	if (!stk__json_take(j, '}'))
		return stk__json_bad(j, "a comma or the end of an object is expected");
	for (int32_t k = 0; k < t->count; k++)
		if (!t->row.cell[k].is_present)
			return stk__row_bad(
				&t->row, "it has no", &(struct stk_cell){.text = t->columns[k].name, .n = strlen(t->columns[k].name)});
	return STK_OK;
}

/* ---- the table ---- */

static enum stk_status take_rows(struct table *t, enum stk_status (*take)(struct stk_row *row, void *user), void *user)
{
	struct stk_json *j = &t->json;
	enum stk_status s = refill(t);
	if (s)
		return s;
	j->at += stk__byte_order_mark(j->at, (size_t)(j->end - j->at));
	if (!stk__json_take(j, '['))
		return stk__json_bad(j, "a list is expected");
	if (!stk__json_take(j, ']')) {
		do {
			if ((s = refill(t)) || (s = take_row(t)))
				return s;
			if ((s = take(&t->row, user)))
				return s;
			t->row.number++;
		} while ((s = refill(t)) == STK_OK && stk__json_take(j, ','));
		if (s || !stk__json_take(j, ']'))
			return s ? s : stk__json_bad(j, "a comma or the end of a list is expected");
	}
	stk__json_blanks(j);
	return j->at < j->end ? stk__json_bad(j, "something follows the table") : STK_OK;
}

enum stk_status stk__table_read(const char *folder, const char *table, const struct stk_column *columns, int32_t count,
	enum stk_status (*take)(struct stk_row *row, void *user), void *user, struct stk_error *err)
{
	char path[4096];
	if (snprintf(path, sizeof path, "%s/%s.json", folder, table) >= (int)sizeof path)
		return stk__fail(err, STK_INVALID, "%.200s: the path is too long", folder);
	struct table *t = stk__calloc(1, sizeof *t);
	char(*texts)[STK_LONGEST_TEXT] = stk__alloc(STK_MOST_COLUMNS * sizeof *texts);
	enum stk_status s = STK_OK;
	if (t && texts) {
		*t = (struct table){.json = {.path = path, .err = err}, .fd = -1, .columns = columns, .count = count, .texts = texts};
		t->row.path = path;
		t->row.err = err;
		s = open_window(t, path);
		s = s ? s : take_rows(t, take, user);
		bool cut = s == STK_CORRUPT && t->json.at == t->json.end;
		if (cut && !t->ended)
			s = stk__fail(err, STK_LIMIT, "%.300s, row %lld: it is longer than %d bytes", path, (long long)t->row.number + 1,
				LONGEST_ROW);
		if (t->fd >= 0)
			close(t->fd);
		stk__free(t->window);
	} else {
		s = stk__fail(err, STK_NO_MEMORY, "out of memory for the table %s", table);
	}
	stk__free(texts);
	stk__free(t);
	return s;
}

/* ---- tokens ---- */

enum stk_status stk__rows_grow(void *list, int64_t *capacity, int64_t count, size_t element, struct stk_error *err)
{
	void **rows = list;
	if (count <= *capacity)
		return STK_OK;
	int64_t new_capacity = count + *capacity / 4 + 64;
	void *grown = stk__realloc(*rows, (size_t)new_capacity * element);
	if (!grown)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld rows of a table", (long long)new_capacity);
	memset((char *)grown + (size_t)*capacity * element, 0, (size_t)(new_capacity - *capacity) * element);
	*rows = grown;
	*capacity = new_capacity;
	return STK_OK;
}

static uint64_t hash_of(const char *text, size_t n)
{
	uint64_t h = 0x9e3779b97f4a7c15u ^ n, word;
	for (; n >= sizeof word; n -= sizeof word, text += sizeof word) {
		memcpy(&word, text, sizeof word);
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	word = 0;
	memcpy(&word, text, n);
	h = (h ^ word) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 29;
}

/* Returns the slot of a token, or the free slot for a new one. */
static uint64_t slot_of(const struct stk_tokens *t, const char *text, size_t n)
{
	uint64_t at = hash_of(text, n) & (t->slots - 1);
	for (; t->table[at]; at = (at + 1) & (t->slots - 1)) {
		const char *token = stk__tokens_text(t, t->table[at] - 1);
		if (memcmp(token, text, n) == 0 && token[n] == '\0')
			break;
	}
	return at;
}

int64_t stk__tokens_find(const struct stk_tokens *t, const char *text, size_t n)
{
	return t->slots && n < STK_LONGEST_TEXT ? (int64_t)t->table[slot_of(t, text, n)] - 1 : -1;
}

static enum stk_status widen(struct stk_tokens *t, struct stk_error *err)
{
	uint64_t slots = t->slots ? 2 * t->slots : 256;
	uint32_t *table = stk__calloc(slots, sizeof *table), *old_table = t->table;
	if (!table)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld tokens", (long long)t->count);
	t->table = table;
	t->slots = slots;
	for (int64_t i = 0; i < t->count; i++) {
		const char *text = stk__tokens_text(t, i);
		table[slot_of(t, text, strlen(text))] = (uint32_t)i + 1;
	}
	stk__free(old_table);
	return STK_OK;
}

enum stk_status stk__tokens_number(struct stk_tokens *t, const char *text, size_t n, int64_t *out, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	if (2 * (uint64_t)t->count >= t->slots && (s = widen(t, err)))
		return s;
	uint64_t slot = slot_of(t, text, n);
	*out = (int64_t)t->table[slot] - 1;
	if (*out >= 0)
		return STK_OK;
	if (t->count >= INT32_MAX)
		return stk__fail(err, STK_LIMIT, "a table has more than %d rows", INT32_MAX);
	if ((s = stk__rows_grow(&t->at, &t->at_capacity, t->count + 1, sizeof *t->at, err)))
		return s;
	/* slot_of compares up to STK_LONGEST_TEXT bytes from the beginning of each text, so as many bytes must follow the last one. */
	if (t->capacity - t->used < n + 1 + STK_LONGEST_TEXT) {
		uint64_t capacity = t->capacity + t->capacity / 4 + 2 * STK_LONGEST_TEXT + n;
		char *texts = stk__realloc(t->texts, capacity);
		if (!texts)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for %lld tokens", (long long)t->count);
		memset(texts + t->used, 0, capacity - t->used);
		t->texts = texts;
		t->capacity = capacity;
	}
	memcpy(t->texts + t->used, text, n);
	t->texts[t->used + n] = '\0';
	t->at[t->count] = t->used;
	t->used += n + 1;
	*out = t->count++;
	t->table[slot] = (uint32_t)*out + 1;
	return STK_OK;
}

void stk__tokens_free(struct stk_tokens *t)
{
	stk__free(t->texts);
	stk__free(t->at);
	stk__free(t->table);
	*t = (struct stk_tokens){0};
}
