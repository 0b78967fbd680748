/* SPDX-License-Identifier: Apache-2.0
 * Parses tf.train.Example. It reads only Protocol Buffers' wire format: fields of a number and a type. Lengths are checked, and unknown fields are skipped. */
#include "format/tfrecord.h"

#include "base/error.h"
#include "format/number.h"

#include <string.h>

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct span {
	const uint8_t *at, *end;
};

struct field {
	uint64_t number;
	enum wire wire;
	uint64_t value;    /* value of a field of type VARINT */
	struct span bytes; /* bytes of a field of any other type */
};

static bool take_varint(struct span *s, uint64_t *out)
{
	*out = 0;
	for (int shift = 0; shift < 64 && s->at < s->end; shift += 7) {
		uint8_t c = *s->at++;
		*out |= (uint64_t)(c & 0x7f) << shift;
		if (!(c & 0x80))
			return true;
	}
	return false;
}

/* Reads the next field of a message. Returns false if the message is damaged, or if the field is a group. Accepts the invalid number 0 in a field of type
 * VARINT. */
static bool take_field(struct span *s, struct field *out)
{
	uint64_t key, size = 0;
	if (!take_varint(s, &key))
		return false;
	*out = (struct field){.number = key >> 3, .wire = (enum wire)(key & 7)};
	switch (out->wire) {
	case WIRE_VARINT:
		return take_varint(s, &out->value);
	case WIRE_64:
		size = 8;
		break;
	case WIRE_32:
		size = 4;
		break;
	case WIRE_BYTES:
		if (!take_varint(s, &size))
			return false;
		break;
	default: /* groups, which are obsolete */
		return false;
	}
	if (out->number == 0 || size > (uint64_t)(s->end - s->at))
		return false;
	out->bytes = (struct span){s->at, s->at + size};
	s->at += size;
	return true;
}

/* Returns the number of the field of tf.train.Feature that contains values of this type: 1 strings, 2 floats, 3 whole numbers. */
static uint64_t kind_of(enum stk_dtype dtype)
{
	return dtype == STK_UINT8 ? 1 : dtype == STK_FLOAT ? 2 : 3;
}

static const char *kind_name(uint64_t kind)
{
	return kind == 1 ? "strings" : kind == 2 ? "floats" : "whole numbers";
}

static enum stk_status damaged(struct stk_error *err)
{
	return stk__fail(err, STK_CORRUPT, "the record holds no tf.train.Example, or a damaged one");
}

/* ---- values ---- */

/* Reads a list of numbers, packed or one field each. kind: the list's field in Feature: 2 for floats, 3 for int64. Writes each number to *out and moves *out
 * to its end; out NULL: only counts them. Adds their number to *count. Returns false if the list is damaged. */
static bool each_number(struct span list, uint64_t kind, int64_t *count, uint8_t **out)
{
	struct field f;
	while (list.at < list.end) {
		if (!take_field(&list, &f))
			return false;
		if (f.number != 1)
			continue;
		enum wire single = kind == 2 ? WIRE_32 : WIRE_VARINT;
		if (f.wire != single && f.wire != WIRE_BYTES)
			return false;
		if (kind == 2) {
			size_t bytes = (size_t)(f.bytes.end - f.bytes.at);
			if (bytes % sizeof(float))
				return false;
			*count += (int64_t)(bytes / sizeof(float));
			if (out && bytes) {
				memcpy(*out, f.bytes.at, bytes);
				*out += bytes;
			}
			continue;
		}
		while (f.wire == WIRE_VARINT || f.bytes.at < f.bytes.end) {
			if (f.wire == WIRE_BYTES && !take_varint(&f.bytes, &f.value))
				return false;
			++*count;
			if (out) {
				memcpy(*out, &f.value, sizeof f.value);
				*out += sizeof f.value;
			}
			if (f.wire == WIRE_VARINT)
				break;
		}
	}
	return true;
}

static bool each_string(struct span list, int64_t *count, struct span *first)
{
	struct field f;
	while (list.at < list.end) {
		if (!take_field(&list, &f))
			return false;
		if (f.number != 1)
			continue;
		if (f.wire != WIRE_BYTES)
			return false;
		if (*count == 0 && first)
			*first = f.bytes;
		++*count;
	}
	return true;
}

/* Counts a feature's values in v->count; values of another kind are an error. */
static enum stk_status count_values(const struct stk_feature *feature, struct stk_feature_values *v, struct stk_error *err)
{
	struct span s = {v->data, v->data + v->size};
	uint64_t kind = kind_of(feature->dtype);
	struct field f;
	v->count = 0;
	while (s.at < s.end) {
		if (!take_field(&s, &f))
			return damaged(err);
		if (f.number < 1 || f.number > 3)
			continue;
		if (f.wire != WIRE_BYTES)
			return damaged(err);
		if (f.number != kind && f.bytes.at < f.bytes.end)
			return stk__fail(err, STK_CORRUPT, "feature \"%.100s\" holds %s in this record, where %s are asked for",
				feature->name, kind_name(f.number), kind_name(kind));
		if (!(kind == 1 ? each_string(f.bytes, &v->count, NULL) : each_number(f.bytes, kind, &v->count, NULL)))
			return damaged(err);
	}
	return STK_OK;
}

void stk__example_numbers(const struct stk_feature *feature, const struct stk_feature_values *v, void *out)
{
	struct span s = {v->data, v->data + v->size};
	uint64_t kind = kind_of(feature->dtype);
	uint8_t *at = out;
	int64_t count = 0;
	for (struct field f; s.at < s.end && take_field(&s, &f);)
		if (f.number == kind)
			each_number(f.bytes, kind, &count, &at);
}

const uint8_t *stk__example_string(const struct stk_feature_values *v, size_t *size)
{
	struct span s = {v->data, v->data + v->size}, first = {NULL, NULL};
	int64_t count = 0;
	for (struct field f; s.at < s.end && count == 0 && take_field(&s, &f);)
		if (f.number == 1)
			each_string(f.bytes, &count, &first);
	*size = (size_t)(first.end - first.at);
	return first.at;
}

/* ---- an Example ---- */

/* Reads an entry of the map: field 1 is the name, field 2 the feature. If `features` has this name, sets its entry of `out`; of several entries with one
 * name, the last one counts. Returns false if the entry is damaged. */
static bool take_entry(struct span entry, const struct stk_feature *features, int32_t n, struct stk_feature_values *out)
{
	struct span name = {NULL, NULL}, value = {entry.end, entry.end};
	struct field f;
	while (entry.at < entry.end) {
		if (!take_field(&entry, &f))
			return false;
		if (f.number > 2)
			continue;
		if (f.wire != WIRE_BYTES)
			return false;
		*(f.number == 1 ? &name : &value) = f.bytes;
	}
	size_t length = (size_t)(name.end - name.at);
	for (int32_t k = 0; k < n; k++)
		if (strlen(features[k].name) == length && (!length || memcmp(features[k].name, name.at, length) == 0))
			out[k] = (struct stk_feature_values){value.at, (size_t)(value.end - value.at), 0};
	return true;
}

enum stk_status stk__example_find(const uint8_t *data, size_t size, const struct stk_feature *features, int32_t n,
	struct stk_feature_values *out, struct stk_error *err)
{
	struct span example = {data, data + size};
	struct field f, entry;
	memset(out, 0, (size_t)n * sizeof *out);
	while (example.at < example.end) {
		if (!take_field(&example, &f) || (f.number == 1 && f.wire != WIRE_BYTES))
			return damaged(err);
		while (f.number == 1 && f.bytes.at < f.bytes.end)
			if (!take_field(&f.bytes, &entry) ||
				(entry.number == 1 && (entry.wire != WIRE_BYTES || !take_entry(entry.bytes, features, n, out))))
				return damaged(err);
	}
	enum stk_status s = STK_OK;
	for (int32_t k = 0; k < n && s == STK_OK; k++)
		if (out[k].data)
			s = count_values(&features[k], &out[k], err);
	return s;
}

/* ---- the shape and type that the user gives a feature ---- */

static enum stk_status bad_spec(const char *name, const char *spec, struct stk_error *err)
{
	return stk__fail(err, STK_INVALID,
		"feature \"%.100s\" is described as \"%.60s\"; a description is a type, int64, float32 or string, its shape, and a default: "
		"\"int64[3,2]=0\", \"string[]\", \"float32[*]\", \"float32[*,4]\"",
		name, spec);
}

static bool take_type(const char **at, enum stk_dtype *out)
{
	static const struct {
		const char *name;
		enum stk_dtype dtype;
	} types[] = {{"int64[", STK_INT64}, {"float32[", STK_FLOAT}, {"string[", STK_UINT8}};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		size_t n = strlen(types[i].name);
		if (strncmp(*at, types[i].name, n) == 0) {
			*at += n;
			*out = types[i].dtype;
			return true;
		}
	}
	return false;
}

static bool take_dims(const char **at, struct stk_feature *out)
{
	const char *end = *at + strlen(*at);
	out->elements = 1;
	out->varies = **at == '*';
	*at += out->varies;
	for (bool more = out->varies ? **at == ',' : **at != ']'; more; more = **at == ',') {
		*at += **at == ',';
		int32_t most = STK_MAX_DIMS - out->varies;
		if (out->ndim == most || !stk__take_number(at, end, &out->shape[out->ndim]) ||
			__builtin_mul_overflow(out->elements, out->shape[out->ndim], &out->elements))
			return false;
		out->ndim++;
	}
	return *(*at)++ == ']' && out->elements <= INT32_MAX;
}

static bool take_whole(const char *at, int64_t *out)
{
	const char *end = at + strlen(at);
	bool minus = *at == '-';
	at += minus;
	if (minus && strcmp(at, "9223372036854775808") == 0) {
		*out = INT64_MIN;
		return true;
	}
	if (!stk__take_number(&at, end, out) || at != end)
		return false;
	*out = minus ? -*out : *out;
	return true;
}

static bool take_default(const char *at, struct stk_feature *out)
{
	double real = 0;
	if (!*at)
		return true;
	if (*at++ != '=')
		return false;
	out->has_default = true;
	out->text = at;
	if (out->dtype == STK_INT64)
		return take_whole(at, &out->integer);
	const char *end = at + strlen(at);
	bool ok = out->dtype == STK_UINT8 || (stk__take_real(&at, end, &real) && at == end);
	out->real = (float)real;
	return ok;
}

enum stk_status stk__feature_parse(const char *name, const char *spec, struct stk_feature *out, struct stk_error *err)
{
	const char *at = spec;
	*out = (struct stk_feature){.name = name};
	if (!take_type(&at, &out->dtype) || !take_dims(&at, out) || !take_default(at, out))
		return bad_spec(name, spec, err);
	if (out->dtype == STK_UINT8 && (out->varies || out->elements != 1))
		return stk__fail(err, STK_UNSUPPORTED,
			"feature \"%.100s\": tensors of strings do not exist, as in DALI; a string of shape () or (1,) is read as its bytes",
			name);
	if (out->varies && out->elements == 0)
		return bad_spec(name, spec, err);
	return STK_OK;
}
