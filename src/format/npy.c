/* SPDX-License-Identifier: Apache-2.0
 * Parses the header of .npy files, a Python dict literal with three known keys. No other expression is accepted. */
#include "format/npy.h"

#include "base/error.h"
#include "codec/foreign.h"

#include <stdlib.h>
#include <string.h>

struct text {
	const char *at, *end;
	const char *begin;
	struct stk_error *err;
};

static enum stk_status bad_header(const struct text *t, const char *what)
{
	enum stk_status s = stk__fail(t->err, STK_CORRUPT, "the header of this .npy file is damaged at its character %lld: %s",
		(long long)(t->at - t->begin), what);
	if (t->err)
		t->err->offset = t->at - t->begin;
	return s;
}

static void skip_blanks(struct text *t)
{
	while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\n' || *t->at == '\r'))
		t->at++;
}

/* Skips blanks. Consumes `c` if it is the next character, and returns whether it was. */
static bool consume(struct text *t, char c)
{
	skip_blanks(t);
	bool found = t->at < t->end && *t->at == c;
	t->at += found;
	return found;
}

static bool take_word(struct text *t, const char *word)
{
	size_t n = strlen(word);
	skip_blanks(t);
	bool found = (size_t)(t->end - t->at) >= n && memcmp(t->at, word, n) == 0;
	t->at += found ? n : 0;
	return found;
}

/* Reads a string in quotes, without escapes, to `out`, and appends a NUL. */
static enum stk_status take_string(struct text *t, char *out, size_t capacity)
{
	char quote = consume(t, '\'') ? '\'' : consume(t, '"') ? '"' : '\0';
	if (!quote)
		return bad_header(t, "a string is expected");
	const char *end = memchr(t->at, quote, (size_t)(t->end - t->at));
	if (!end)
		return bad_header(t, "a string without end");
	size_t n = (size_t)(end - t->at);
	if (n >= capacity || memchr(t->at, '\0', n))
		return bad_header(t, "a string that is not part of such a header");
	memcpy(out, t->at, n);
	out[n] = '\0';
	t->at = end + 1;
	return STK_OK;
}

static enum stk_status take_extent(struct text *t, int64_t *out)
{
	skip_blanks(t);
	const char *first = t->at;
	int64_t value = 0;
	for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
		if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *t->at - '0', &value))
			return bad_header(t, "an extent of more than 63 bits");
	if (t->at == first)
		return bad_header(t, "an extent is expected");
	if (t->at < t->end && *t->at == 'L') /* a suffix from Python 2 */
		t->at++;
	*out = value;
	return STK_OK;
}

static enum stk_status take_shape(struct text *t, struct stk_npy *out)
{
	if (!consume(t, '('))
		return bad_header(t, "the shape is not a tuple");
	while (!consume(t, ')')) {
		if (out->ndim == STK_MAX_DIMS)
			return stk__fail(t->err, STK_UNSUPPORTED, "an array of more than %d dims", STK_MAX_DIMS);
		enum stk_status s = take_extent(t, &out->shape[out->ndim]);
		if (s)
			return s;
		out->ndim++;
		if (consume(t, ','))
			continue;
		if (!consume(t, ')'))
			return bad_header(t, "the shape is a tuple without end");
		break;
	}
	return STK_OK;
}

static const struct {
	const char *name;
	enum stk_dtype dtype;
} types[] = {{"b1", STK_BOOL}, {"u1", STK_UINT8}, {"u2", STK_UINT16}, {"u4", STK_UINT32}, {"u8", STK_UINT64}, {"i1", STK_INT8},
	{"i2", STK_INT16}, {"i4", STK_INT32}, {"i8", STK_INT64}, {"f2", STK_FLOAT16}, {"f4", STK_FLOAT}, {"f8", STK_FLOAT64}};

static enum stk_status take_dtype(struct text *t, struct stk_npy *out)
{
	char name[32];
	if (consume(t, '['))
		return stk__fail(
			t->err, STK_UNSUPPORTED, "an array of records (a structured dtype): save each field as an array of its own");
	enum stk_status s = take_string(t, name, sizeof name);
	if (s)
		return s;
	size_t order = strcspn(name, "<>|=") == 0 && name[0];
	if (strchr(name + order, 'O'))
		return stk__fail(t->err, STK_UNSUPPORTED,
			"an array of Python objects, which only pickle reads, and a pickle can run any code: save numbers, as "
			"np.save(file, a.astype(np.float32))");
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i].name, name + order) == 0)
			out->dtype = types[i].dtype;
	if (out->dtype == STK_NO_DTYPE)
		return stk__fail(t->err, STK_UNSUPPORTED,
			"an array of dtype \"%s\": save bools, whole numbers of up to 64 bits or floats of 16, 32 or 64", name);
	out->swapped = name[0] == '>' && stk_dtype_size(out->dtype) > 1;
	return STK_OK;
}

static enum stk_status take_order(struct text *t, struct stk_npy *out)
{
	out->fortran = take_word(t, "True");
	return out->fortran || take_word(t, "False") ? STK_OK : bad_header(t, "fortran_order is neither True nor False");
}

static enum stk_status take_entry(struct text *t, unsigned *seen, struct stk_npy *out)
{
	static const char *const keys[] = {"descr", "fortran_order", "shape"};
	static enum stk_status (*const values[])(struct text *, struct stk_npy *) = {take_dtype, take_order, take_shape};
	char key[32];
	enum stk_status s = take_string(t, key, sizeof key);
	if (s)
		return s;
	if (!consume(t, ':'))
		return bad_header(t, "a colon is expected");
	for (unsigned k = 0; k < 3; k++)
		if (strcmp(key, keys[k]) == 0 && !(*seen >> k & 1)) {
			*seen |= 1u << k;
			return values[k](t, out);
		}
	return bad_header(t, "a key that does not belong there");
}

static enum stk_status read_dict(struct text *t, struct stk_npy *out)
{
	unsigned seen = 0;
	if (!consume(t, '{'))
		return bad_header(t, "it is not a dict");
	while (!consume(t, '}')) {
		enum stk_status s = take_entry(t, &seen, out);
		if (s)
			return s;
		if (consume(t, ','))
			continue;
		if (!consume(t, '}'))
			return bad_header(t, "a dict without end");
		break;
	}
	skip_blanks(t);
	if (t->at < t->end)
		return bad_header(t, "something follows the dict");
	return seen == 7 ? STK_OK : bad_header(t, "it lacks descr, fortran_order or shape");
}

/* Checks the file's signature and version, and sets *t to the text of the header. */
static enum stk_status find_text(const uint8_t *data, size_t size, struct text *t)
{
	if (size < 10 || memcmp(data, "\x93NUMPY", 6) != 0) {
		bool zip = size >= 4 && memcmp(data, "PK\3\4", 4) == 0;
		struct stk_foreign kind;
		if (!zip && stk__foreign_find(data, size, &kind))
			return stk__fail(t->err, STK_CORRUPT, "not an .npy file: it is %s; %s", kind.name, kind.remedy);
		return stk__fail(t->err, zip ? STK_UNSUPPORTED : STK_CORRUPT,
			zip ? "an .npz archive: save its arrays one by one, with np.save"
			    : "not an .npy file: it does not start with NumPy's signature");
	}
	if (data[6] < 1 || data[6] > 3)
		return stk__fail(t->err, STK_UNSUPPORTED, "version %d.%d of .npy; 1 to 3 are known", data[6], data[7]);
	size_t prefix = data[6] == 1 ? 10 : 12, n = data[8] | (size_t)data[9] << 8;
	if (size < prefix)
		return stk__fail(t->err, STK_CORRUPT, "this .npy file ends inside its header");
	if (data[6] > 1)
		n |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
	if (n > size - prefix)
		return stk__fail(t->err, STK_CORRUPT, "this .npy file of %zu bytes ends inside its header of %zu", size, prefix + n);
	t->begin = (const char *)data;
	t->at = t->begin + prefix;
	t->end = t->at + n;
	return STK_OK;
}

enum stk_status stk__npy_parse(const uint8_t *data, size_t size, struct stk_npy *out, struct stk_error *err)
{
	struct text t = {.err = err};
	*out = (struct stk_npy){.dtype = STK_NO_DTYPE};
	enum stk_status s = find_text(data, size, &t);
	if (s || (s = read_dict(&t, out)))
		return s;
	out->begin = (size_t)((const uint8_t *)t.end - data);
	struct stk_desc desc = {.dtype = out->dtype, .ndim = out->ndim};
	memcpy(desc.shape, out->shape, sizeof desc.shape);
	int64_t bytes = stk_desc_bytes(&desc);
	if (bytes < 0 || (size_t)bytes > size - out->begin)
		return stk__fail(err, STK_CORRUPT, "this .npy file is cut short: %zu bytes follow its header, fewer than its shape needs",
			size - out->begin);
	out->bytes = (size_t)bytes;
	return STK_OK;
}
