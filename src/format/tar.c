/* SPDX-License-Identifier: Apache-2.0 */
#include "format/tar.h"

#include "base/error.h"
#include "base/memory.h"
#include "codec/foreign.h"
#include "format/number.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512, RECORD = 20 * BLOCK, NAME_ROOM = 64 << 10 };

/* Offsets of a header's fields. */
enum { NAME = 0, SIZE = 124, SUM = 148, TYPE = 156, MAGIC = 257, PREFIX = 345 };

struct scan {
	struct stk_archive_file *file;
	int64_t at;   /* offset of the current entry's header */
	char *name;   /* name of the next member, from entries before it or from its header, in a buffer of NAME_ROOM bytes */
	bool named;   /* `name` comes from an entry before the member's header */
	int64_t size; /* if `sized`: size of the next member, from the attributes before it, which replaces the size in its header */
	bool sized;
	struct stk_error *err;
};

static enum stk_status fail_at(const struct scan *t, enum stk_status code, const char *what)
{
	return stk__archive_bad(t->file, t->at, t->err, code, "%s", what);
}

/* ---- fields ---- */

/* Reads a number from a field: octal digits between blanks and NULs or, if the first bit is set, a number in base 256 (sizes from 8 GiB on). Returns -1 if
 * the field is neither, or if the number is negative. */
static int64_t number_of(const uint8_t *field, size_t n)
{
	int64_t value = 0;
	size_t i = 0;
	if (field[0] & 0x80) {
		if (field[0] != 0x80)
			return -1;
		for (i = 1; i < n; i++)
			if (__builtin_mul_overflow(value, 256, &value) || __builtin_add_overflow(value, field[i], &value))
				return -1;
		return value;
	}
	while (i < n && field[i] == ' ')
		i++;
	for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
		if (__builtin_mul_overflow(value, 8, &value) || __builtin_add_overflow(value, field[i] - '0', &value))
			return -1;
	return i == n || field[i] == ' ' || field[i] == '\0' ? value : -1;
}

/* Returns whether the header's checksum is right. Also accepts the sum of signed bytes, which some old programs wrote. */
static bool sum_is_right(const uint8_t *h)
{
	int64_t expected = number_of(h + SUM, 8), sum = 0, sum_signed = 0;
	for (int i = 0; i < BLOCK; i++) {
		uint8_t c = i >= SUM && i < SUM + 8 ? ' ' : h[i];
		sum += c;
		sum_signed += (int8_t)c;
	}
	return expected == sum || expected == sum_signed;
}

static bool is_zero(const uint8_t *h)
{
	for (int i = 0; i < BLOCK; i++)
		if (h[i])
			return false;
	return true;
}

static void take_header_name(struct scan *t, const uint8_t *h)
{
	bool ustar = memcmp(h + MAGIC, "ustar\0", 6) == 0; /* in GNU's own format, other fields are at the offset of the prefix */
	size_t n = 0;
	if (ustar && h[PREFIX]) {
		n = strnlen((const char *)h + PREFIX, 155);
		memcpy(t->name, h + PREFIX, n);
		t->name[n++] = '/';
	}
	size_t rest = strnlen((const char *)h + NAME, 100);
	memcpy(t->name + n, h + NAME, rest);
	t->name[n + rest] = '\0';
}

/* ---- entries that describe the next one ---- */

static const uint8_t *entry_bytes(struct scan *t, int64_t size, enum stk_status *status)
{
	*status = STK_OK;
	if (size > STK_ARCHIVE_PIECE)
		*status = fail_at(t, STK_CORRUPT, "an entry with the attributes of the next file that is over 1 MiB large");
	else if (size > t->file->size - t->at - BLOCK)
		*status = fail_at(t, STK_CORRUPT, "the archive ends inside the attributes of a file: it is cut short");
	if (*status)
		return NULL;
	if (size == 0)
		return (const uint8_t *)""; /* does not read, since the archive may end here */
	const uint8_t *data = stk__archive_read(t->file, t->at + BLOCK, (size_t)size, t->err);
	if (!data)
		*status = t->err ? t->err->code : STK_IO;
	return data;
}

static enum stk_status take_name(struct scan *t, const char *name, size_t n)
{
	n = strnlen(name, n);
	if (n >= NAME_ROOM || n == 0)
		return fail_at(t, STK_CORRUPT, n ? "the name of a file is longer than 64 KiB" : "a file without a name");
	memcpy(t->name, name, n);
	t->name[n] = '\0';
	t->named = true;
	return STK_OK;
}

static enum stk_status refuse_sparse(const struct scan *t)
{
	return fail_at(t, STK_UNSUPPORTED, "a sparse file, of which the archive holds only parts: pack it again without tar's --sparse");
}

/* Refuses a link, whose bytes belong to another member or are missing. If it were skipped, a sample would be missing without a message. */
static enum stk_status refuse_link(const struct scan *t, char type)
{
	char what[400];
	snprintf(what, sizeof what, "%s link, \"%.250s\", whose bytes are not in the archive: pack it again with tar's --%sdereference",
		type == '1' ? "a hard" : "a symbolic", t->name, type == '1' ? "hard-" : "");
	return fail_at(t, STK_UNSUPPORTED, what);
}

static bool is_key(const char *key, size_t n, const char *name)
{
	return strlen(name) == n && memcmp(key, name, n) == 0;
}

static enum stk_status take_attribute(struct scan *t, const char *key, size_t n, const char *value, const char *end)
{
	if (n >= 10 && memcmp(key, "GNU.sparse", 10) == 0)
		return refuse_sparse(t);
	if (is_key(key, n, "path"))
		return take_name(t, value, (size_t)(end - value));
	if (is_key(key, n, "size")) {
		t->sized = true;
		if (!stk__take_number(&value, end, &t->size) || value != end)
			return fail_at(t, STK_CORRUPT, "the size of a file among its attributes is not a number");
	}
	return STK_OK;
}

/* Reads the records of a pax header: "LENGTH KEY=VALUE\n", where LENGTH is the size of the whole record in bytes. */
static enum stk_status take_attributes(struct scan *t, int64_t size)
{
	enum stk_status s;
	const char *at = (const char *)entry_bytes(t, size, &s), *end = at ? at + size : NULL;
	while (at < end && s == STK_OK) {
		const char *record = at;
		int64_t length;
		if (*at == '\0') /* padding, which some programs write */
			break;
		if (!stk__take_number(&at, end, &length) || at == end || *at != ' ' || length > end - record || length < at - record + 3 ||
			record[length - 1] != '\n')
			return fail_at(t, STK_CORRUPT, "the attributes of a file are damaged");
		const char *key = at + 1, *last = record + length - 1, *equals = memchr(key, '=', (size_t)(last - key));
		if (!equals)
			return fail_at(t, STK_CORRUPT, "the attributes of a file are damaged");
		s = take_attribute(t, key, (size_t)(equals - key), equals + 1, last);
		at = record + length;
	}
	return s;
}

static enum stk_status take_long_name(struct scan *t, int64_t size)
{
	enum stk_status s;
	const char *name = (const char *)entry_bytes(t, size, &s);
	return s ? s : take_name(t, name, (size_t)size);
}

/* ---- the archive ---- */

/* Refuses a compressed file or a zip, as its first bytes show, with a message about its kind. */
static enum stk_status check_kind(const struct scan *t)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *what;
	} kinds[] = {{"\x1f\x8b", 2, "a .gz, in which nothing can be found by its place: unpack it (gunzip), and read the .tar"},
		{"\x28\xb5\x2f\xfd", 4, "a .zst, in which nothing can be found by its place: unpack it (unzstd), and read the .tar"},
		{"BZh", 3, "a .bz2, in which nothing can be found by its place: unpack it (bunzip2), and read the .tar"},
		{"\xfd\x37zXZ", 5, "a .xz, in which nothing can be found by its place: unpack it (unxz), and read the .tar"},
		{"PK\3\4", 4, "a .zip: pack its files as a .tar"}};
	size_t size = t->file->size < BLOCK ? (size_t)t->file->size : BLOCK;
	const uint8_t *h = stk__archive_read(t->file, 0, size, t->err);
	if (!h)
		return t->err ? t->err->code : STK_IO;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (size >= kinds[i].n && memcmp(h, kinds[i].bytes, kinds[i].n) == 0)
			return fail_at(t, STK_UNSUPPORTED, kinds[i].what);
	return STK_OK;
}

/* Returns the error that no header begins at t->at. At the beginning of the archive, the message names the file's kind if its first bytes show it; otherwise
 * the message is `else_what`. */
static enum stk_status no_tar(const struct scan *t, const char *else_what)
{
	struct stk_foreign kind;
	size_t size = t->file->size < BLOCK ? (size_t)t->file->size : BLOCK;
	const uint8_t *h = t->at ? NULL : stk__archive_read(t->file, 0, size, t->err);
	if (!h || !stk__foreign_find(h, size, &kind) || strstr(kind.name, "tar archive"))
		return fail_at(t, STK_CORRUPT, else_what);
	char what[256];
	snprintf(what, sizeof what, "not a tar: it is %s; %s", kind.name, kind.remedy);
	return fail_at(t, STK_CORRUPT, what);
}

static bool is_file(char type)
{
	return type == '0' || type == '\0' || type == '7';
}

/* Sizes from 8 GiB on are not compared with the header's field, which has any value if an earlier entry contains such a size. */
bool stk__tar_header_fits(const uint8_t *header, int64_t size)
{
	return sum_is_right(header) && is_file((char)header[TYPE]) && (size >= (int64_t)1 << 33 || number_of(header + SIZE, 12) == size);
}

/* Returns whether a file of this name could be a component of a sample (webdataset.h). Says no for names without a dot, since links of such names usually
 * lead to folders. */
static bool names_component(const char *name)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *dot = strchr(base, '.');
	return dot && dot > base;
}

static enum stk_status take_entry(struct scan *t, const uint8_t *h, int64_t *size, stk_archive_found *found, void *user)
{
	char type = (char)h[TYPE];
	if (type == 'x')
		return take_attributes(t, *size);
	if (type == 'L')
		return take_long_name(t, *size);
	/* Neither matters here: K holds the target of a link, and g attributes of all files, but no names or sizes. */
	if (type == 'K' || type == 'g')
		return STK_OK;
	if (type == 'S')
		return refuse_sparse(t);
	if (type == 'M')
		return fail_at(t, STK_UNSUPPORTED, "the rest of a file that begins in another volume: join the volumes into one archive");
	if (type >= '1' && type <= '6')
		*size = 0; /* links, devices and folders have no data, even if the header gives a size */
	else if (t->sized)
		*size = t->size;
	if (!t->named)
		take_header_name(t, h);
	t->named = t->sized = false;
	size_t n = strlen(t->name);
	if (type == '1' || (type == '2' && n + 1 >= NAME_ROOM))
		return refuse_link(t, type);
	if (type == '2' && names_component(t->name)) {
		memcpy(t->name + n, "/", 2);
		return found(user, &(struct stk_archive_member){t->name, t->at + BLOCK, 0}, t->err);
	}
	if (!is_file(type) || (n && t->name[n - 1] == '/')) /* a name with a slash at its end is a folder of an old program */
		return STK_OK;
	if (*size > INT64_MAX - t->at - 3 * BLOCK)
		return fail_at(t, STK_CORRUPT, "the size of a file is out of range");
	return found(user, &(struct stk_archive_member){t->name, t->at + BLOCK, *size}, t->err);
}

/* Fails if a header follows the first block of zeros: otherwise members of archives joined with `cat` would be missed. Archives end in a record of 20 blocks,
 * unless they were written with larger records, or for a container of a fixed size. A longer file is therefore read until a byte is not zero, which is rarely
 * necessary. */
static enum stk_status check_end(struct scan *t)
{
	enum { STEP = 64 << 10 };
	const int64_t end = t->file->size;
	int64_t n;
	for (int64_t at = t->at; end - at >= BLOCK; at += n) {
		n = at == t->at ? RECORD + BLOCK : STEP;
		n = (end - at < n ? end - at : n) / BLOCK * BLOCK;
		const uint8_t *h = stk__archive_read(t->file, at, (size_t)n, t->err);
		if (!h)
			return t->err ? t->err->code : STK_IO;
		for (int64_t i = 0; i < n; i += BLOCK) {
			if (is_zero(h + i))
				continue;
			if (sum_is_right(h + i))
				return stk__archive_bad(t->file, at + i, t->err, STK_UNSUPPORTED,
					"another archive begins after its end, as cat joins them: name them one by one, or join them by tar --concatenate");
			if (at > t->at)
				return STK_OK;
		}
	}
	return STK_OK;
}

static enum stk_status scan_entries(struct scan *t, stk_archive_found *found, void *user)
{
	const int64_t end = t->file->size;
	int64_t data_end = 0;
	enum stk_status s = check_kind(t);
	while (s == STK_OK && t->at < end) {
		if (end - t->at < BLOCK)
			return no_tar(t, "the archive ends inside a header: it is cut short, or no tar");
		const uint8_t *h = stk__archive_read(t->file, t->at, BLOCK, t->err);
		if (!h)
			return t->err ? t->err->code : STK_IO;
		if (is_zero(h))
			return check_end(t);
		int64_t size = number_of(h + SIZE, 12), next;
		if (!sum_is_right(h) || size < 0)
			return no_tar(t, t->at ? "the header of a file is damaged" : "no tar: it does not begin with the header of a file");
		if ((s = take_entry(t, h, &size, found, user)))
			return s;
		if (__builtin_add_overflow(size, t->at + 2 * BLOCK - 1, &next))
			return fail_at(t, STK_CORRUPT, "the size of a file is out of range");
		data_end = t->at + BLOCK + size;
		t->at = next / BLOCK * BLOCK;
	}
	/* If the bytes of a member are cut off, only reading that member fails. */
	return s == STK_OK && t->at > end && data_end <= end
		       ? fail_at(t, STK_CORRUPT, "it ends in the padding of its last file: it is cut short")
		       : s;
}

enum stk_status stk__tar_scan(struct stk_archive_file *f, stk_archive_found *found, void *user, struct stk_error *err)
{
	struct scan t = {.file = f, .err = err, .name = stk__alloc(NAME_ROOM)};
	if (!t.name)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to search %s", f->path);
	enum stk_status s = f->size == 0 ? fail_at(&t, STK_CORRUPT, "the archive is empty") : scan_entries(&t, found, user);
	stk__free(t.name);
	return s;
}
