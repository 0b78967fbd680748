/* SPDX-License-Identifier: Apache-2.0
 * Reads a table of NuScenes, a JSON list of objects, one row at a time through a window of a few megabytes; and maps tokens to numbers. */
#ifndef STK_FORMAT_NUSCENES_TABLE_H
#define STK_FORMAT_NUSCENES_TABLE_H

#include "format/json.h"

enum stk_column_kind { STK_COLUMN_TEXT, STK_COLUMN_WHOLE, STK_COLUMN_REALS, STK_COLUMN_FLAG };

/* A member that is read from each row; other members are skipped. REALS: exactly `count` numbers, which may be in lists of lists. empty: a list without
 * numbers is accepted too. */
struct stk_column {
	const char *name;
	enum stk_column_kind kind;
	int32_t count;
	bool empty;
};

enum { STK_MOST_COLUMNS = 12, STK_MOST_REALS = 9, STK_LONGEST_TEXT = 512 };

struct stk_cell {
	const char *text; /* not NUL-terminated; valid until the next row */
	size_t n;
	int64_t integer;
	double reals[STK_MOST_REALS];
	int32_t count;
	bool flag, is_present;
};

/* One row, as it is passed to the caller's function, with a cell for each column. By convention, column 0 is the token. */
struct stk_row {
	struct stk_cell cell[STK_MOST_COLUMNS];
	int64_t number;
	const char *path;
	struct stk_error *err;
};
/* Reads the table FOLDER/TABLE.json, and calls `take` for each row in order. Each row must have all `count` columns. Ends at the first failure of `take`, which
 * it returns. STK_CORRUPT: the message names the row or the byte. STK_LIMIT: a row is longer than 1 MiB. */
STK_MUST_USE enum stk_status stk__table_read(const char *folder, const char *table, const struct stk_column *columns, int32_t count,
	enum stk_status (*take)(struct stk_row *row, void *user), void *user, struct stk_error *err);
/* Fails with STK_CORRUPT. The message gives the table, the row with its token, and `what`, the fault. text: a cell whose text is appended; may be NULL. */
STK_MUST_USE enum stk_status stk__row_bad(const struct stk_row *row, const char *what, const struct stk_cell *text);

/* ---- tokens ---- */

/* Numbers tokens from 0 on in the order in which they first appear, in their own row or in a row that refers to them. */
struct stk_tokens {
	char *texts;
	uint64_t used, capacity;
	uint64_t *at; /* [token]: offset of its text */
	int64_t count, at_capacity;
	uint32_t *table; /* hash table with open addressing; an entry is a token's number + 1, or 0 if it is free */
	uint64_t slots;
};
int64_t stk__tokens_find(const struct stk_tokens *t, const char *text, size_t n); /* returns the token's number; -1: unknown token */
/* Sets *out to the number of a token; an unknown token gets the next number. */
STK_MUST_USE enum stk_status stk__tokens_number(struct stk_tokens *t, const char *text, size_t n, int64_t *out, struct stk_error *err);
static inline const char *stk__tokens_text(const struct stk_tokens *t, int64_t i)
{
	return t->texts + t->at[i];
}
void stk__tokens_free(struct stk_tokens *t);

/* Grows an array to `count` elements; new elements are zero. list: address of the pointer to the array; element: size of an element in bytes. */
STK_MUST_USE enum stk_status stk__rows_grow(void *list, int64_t *capacity, int64_t count, size_t element, struct stk_error *err);

#endif
