/* SPDX-License-Identifier: Apache-2.0
 * Checks the footer of a Parquet file. Reads the parts that the checks need and skips the rest. In Thrift's compact protocol, a field of a struct
 * begins with a byte that holds its type and how much its number exceeds the previous field's:
 * https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md */
#include "footer.h"

#include <stdbool.h>
#include <stdlib.h>

enum type { STOP, YES, NO, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID };
enum { DEEPEST = 24, OPTIONAL = 1, REPEATED = 2, BYTE_ARRAY = 6, CODECS = 8 };

/* The part of a footer that has not been read yet, from `at` to `end`. The first error sets `fault` and moves `at` to the end, so all later reads return 0. */
struct reader {
	const uint8_t *at, *end;
	const char *fault;
	bool encrypted; /* the fault is that a column is encrypted */
	int depth;      /* number of nested values that contain the current one */
};

/* A column that holds values, a leaf of the schema: its type as Parquet's number, and the largest repetition and definition levels of its values. */
struct leaf {
	int64_t type, repetition, definition;
};

struct leaves {
	struct leaf *all;
	size_t count, capacity;
};

static void fail(struct reader *r, const char *fault)
{
	if (!r->fault)
		r->fault = fault;
	r->at = r->end;
}

static uint8_t byte(struct reader *r)
{
	if (r->at < r->end)
		return *r->at++;
	fail(r, "the footer ends too early");
	return 0;
}

static uint64_t unsigned_number(struct reader *r)
{
	uint64_t n = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b = byte(r);
		n |= (uint64_t)(b & 127) << shift;
		if (b < 128)
			return n;
	}
	fail(r, "a number in the footer is too long");
	return 0;
}

/* Reads a number with a sign, which is encoded in zigzag order: 0, -1, 1, -2, 2. */
static int64_t number(struct reader *r)
{
	uint64_t n = unsigned_number(r);
	return (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
}

/* Reads the head of a list. Returns the number of items, and sets *type to their type; 0 after a fault. An item takes at least one byte, so a longer
 * list than the rest of the footer is a fault. */
static size_t list_head(struct reader *r, uint8_t *type)
{
	uint8_t head = byte(r);
	uint64_t count = head >> 4 == 15 ? unsigned_number(r) : head >> 4;
	*type = head & 15;
	if (count > (size_t)(r->end - r->at)) {
		fail(r, "a list in the footer is longer than the footer");
		return 0;
	}
	return (size_t)count;
}

/* Reads the head of the next field of a struct. *id: the number of the previous field, which is replaced by this field's. Returns false at the
 * struct's end and after a fault. */
static bool next_field(struct reader *r, int64_t *id, uint8_t *type)
{
	uint8_t head = byte(r);
	*type = head & 15;
	if (r->fault || *type == STOP)
		return false;
	if (head >> 4)
		*id = (int64_t)((uint64_t)*id + (head >> 4));
	else
		*id = number(r);
	return !r->fault;
}

static void skip_bytes(struct reader *r, uint64_t size)
{
	if (size > (size_t)(r->end - r->at))
		fail(r, "the footer ends too early");
	else
		r->at += size;
}

/* Skips a value. type: its type in Thrift's compact protocol. in_list: whether the value is an item of a list or map. There a bool takes one byte; a bool in
 * a struct takes none, because its type, YES or NO, is its value. */
static void skip(struct reader *r, uint8_t type, bool in_list)
{
	if (r->depth == DEEPEST) {
		fail(r, "the footer is nested too deeply");
		return;
	}
	r->depth++;
	if (type == YES || type == NO) {
		if (in_list)
			byte(r);
	} else if (type == BYTE) {
		byte(r);
	} else if (type >= I16 && type <= I64) {
		unsigned_number(r);
	} else if (type == DOUBLE || type == UUID) {
		skip_bytes(r, type == DOUBLE ? 8 : 16);
	} else if (type == BINARY) {
		skip_bytes(r, unsigned_number(r));
	} else if (type == LIST || type == SET) {
		uint8_t item;
		for (size_t n = list_head(r, &item); n > 0 && !r->fault; n--)
			skip(r, item, true);
	} else if (type == MAP) {
		uint64_t n = unsigned_number(r);
		uint8_t types = n ? byte(r) : 0;
		for (; n > 0 && !r->fault; n--) {
			skip(r, types >> 4, true);
			skip(r, types & 15, true);
		}
	} else if (type == STRUCT) {
		int64_t id = 0;
		uint8_t field;
		while (next_field(r, &id, &field))
			skip(r, field, false);
	} else {
		fail(r, "the footer has a value of an unknown type");
	}
	r->depth--;
}

/* Reads a number of 32 bits. Skips a value of another type and returns 0, as Thrift's readers do. */
static int64_t integer(struct reader *r, uint8_t type)
{
	if (type == I32)
		return number(r);
	skip(r, type, false);
	return 0;
}

/* An element of the schema: a column, or a group of the `children` elements after it. */
struct element {
	int64_t type, repetition, children;
};

static struct element read_element(struct reader *r)
{
	struct element e = {0};
	int64_t id = 0;
	uint8_t type;
	while (next_field(r, &id, &type)) {
		if (id == 1)
			e.type = integer(r, type);
		else if (id == 3)
			e.repetition = integer(r, type);
		else if (id == 5)
			e.children = integer(r, type);
		else
			skip(r, type, false);
	}
	return e;
}

static void add_leaf(struct reader *r, struct leaves *l, struct leaf leaf)
{
	if (l->count == l->capacity) {
		size_t capacity = l->capacity ? 2 * l->capacity : 64;
		struct leaf *grown = realloc(l->all, capacity * sizeof *grown);
		if (!grown) {
			fail(r, "there is no memory for the columns of the footer");
			return;
		}
		l->all = grown;
		l->capacity = capacity;
	}
	l->all[l->count++] = leaf;
}

/* Reads an element and its descendants, and appends the columns among them to `l`. *left: number of elements of the schema that are not read yet.
 * parent: the parent's levels. root: whether the element is the schema's first one, which adds no level. */
static void read_tree(struct reader *r, size_t *left, struct leaf parent, bool root, struct leaves *l)
{
	if (!*left || r->depth == DEEPEST) {
		fail(r, *left ? "the footer's schema is nested too deeply" : "the footer's schema has too few elements");
		return;
	}
	--*left;
	struct element e = read_element(r);
	if (!root && (e.repetition == OPTIONAL || e.repetition == REPEATED)) {
		parent.definition++;
		parent.repetition += e.repetition == REPEATED;
	}
	parent.type = e.type;
	if (!e.children && !root)
		add_leaf(r, l, parent);
	r->depth++;
	for (int64_t k = 0; k < e.children && !r->fault; k++)
		read_tree(r, left, parent, false, l);
	r->depth--;
}

static void read_schema(struct reader *r, uint8_t type, struct leaves *l)
{
	uint8_t item = 0;
	size_t count = type == LIST ? list_head(r, &item) : 0;
	if (item != STRUCT) {
		fail(r, "the footer has no schema");
		return;
	}
	read_tree(r, &count, (struct leaf){0}, true, l);
	if (count)
		fail(r, "the footer's schema has elements that belong to no column");
}

/* Reads a histogram of levels. Fails unless it is empty or has an item for each level from 0 to `most`. */
static void check_histogram(struct reader *r, uint8_t type, int64_t most)
{
	uint8_t item;
	if (type != LIST) {
		skip(r, type, false);
		return;
	}
	size_t count = list_head(r, &item);
	if (count && count != (uint64_t)most + 1)
		fail(r, "the footer's counts of levels do not fit the column");
	for (size_t k = 0; k < count && !r->fault; k++)
		number(r);
}

static void check_sizes(struct reader *r, uint8_t type, const struct leaf *leaf)
{
	int64_t id = 0;
	uint8_t field;
	if (type != STRUCT) {
		skip(r, type, false);
		return;
	}
	while (next_field(r, &id, &field)) {
		if (id == 1 && leaf->type != BYTE_ARRAY)
			fail(r, "the footer counts bytes of texts in a column of another type");
		else if (id == 2)
			check_histogram(r, field, leaf->repetition);
		else if (id == 3)
			check_histogram(r, field, leaf->definition);
		else
			skip(r, field, false);
	}
}

static void check_column(struct reader *r, const struct leaf *leaf)
{
	int64_t id = 0;
	uint8_t type;
	while (next_field(r, &id, &type)) {
		if (id == 4) {
			int64_t codec = integer(r, type);
			if (codec < 0 || codec >= CODECS)
				fail(r, "the footer names an unknown compression");
		} else if (id == 16)
			check_sizes(r, type, leaf);
		else
			skip(r, type, false);
	}
}

static void check_chunk(struct reader *r, const struct leaf *leaf)
{
	int64_t id = 0;
	uint8_t type;
	bool described = false;
	while (next_field(r, &id, &type)) {
		if (id == 8) {
			r->encrypted = !r->fault;
			fail(r, "a column is encrypted");
		} else if (id == 3 && type == STRUCT) {
			check_column(r, leaf);
			described = true;
		} else
			skip(r, type, false);
	}
	if (!described)
		fail(r, "the footer does not describe a column of a row group");
}

static void check_chunks(struct reader *r, uint8_t type, const struct leaves *l)
{
	uint8_t item = 0;
	size_t count = type == LIST ? list_head(r, &item) : 0;
	if (count != l->count || (count && item != STRUCT)) {
		fail(r, "a row group has another number of columns than the footer's schema");
		return;
	}
	for (size_t k = 0; k < count && !r->fault; k++)
		check_chunk(r, &l->all[k]);
}

static void check_groups(struct reader *r, uint8_t type, const struct leaves *l)
{
	uint8_t item = 0;
	size_t count = type == LIST ? list_head(r, &item) : 0;
	if (count && item != STRUCT)
		fail(r, "the footer's row groups are of another type");
	for (size_t k = 0; k < count && !r->fault; k++) {
		int64_t id = 0;
		uint8_t field;
		bool described = false;
		while (next_field(r, &id, &field)) {
			if (id == 1) {
				check_chunks(r, field, l);
				described = true;
			} else
				skip(r, field, false);
		}
		if (!described && l->count)
			fail(r, "a row group of the footer has no columns");
	}
}

/* Skips fields of a struct up to the field with the number `wanted`, whose value is then next. *id, *type: as in next_field. Returns false if the struct has
 * no such field from here on, and after a fault. */
static bool find_field(struct reader *r, int64_t wanted, int64_t *id, uint8_t *type)
{
	while (next_field(r, id, type)) {
		if (*id == wanted)
			return true;
		skip(r, *type, false);
	}
	return false;
}

enum footer_kind footer_check(const uint8_t *data, size_t size, const char **fault)
{
	enum { SCHEMA = 2, ROW_GROUPS = 4 };
	struct reader r = {.at = data, .end = data + size}, second = r;
	struct leaves leaves = {0};
	int64_t id = 0;
	uint8_t type;
	int schemas = 0;
	for (; find_field(&r, SCHEMA, &id, &type); schemas++)
		read_schema(&r, type, &leaves);
	if (schemas != 1)
		fail(&r, schemas ? "the footer has two schemas" : "the footer has no schema");
	/* The row groups may come before the schema, so `second` reads the footer a second time. */
	second.fault = r.fault;
	for (id = 0; !second.fault && find_field(&second, ROW_GROUPS, &id, &type);)
		check_groups(&second, type, &leaves);
	free(leaves.all);
	*fault = second.fault;
	return !second.fault ? FOOTER_GOOD : second.encrypted ? FOOTER_ENCRYPTED : FOOTER_DAMAGED;
}
