/* SPDX-License-Identifier: Apache-2.0
 * Sets the fields of an operator's argument struct: from values that the user gives, from a default's JSON text, or from a sample's tensor. */
#include "graph/graph.h"

#include "kernel/convert/convert.h"
#include "op/dims.h"

#include <jansson.h>
#include <string.h>

static const char *const type_names[] = {
	"a bool", "an int", "a float", "a string", "a dtype", "an image type", "an interpolation", "ints", "floats", "strings"};

/* Returns the name of an argument's type without its article. Do not call this for lists, whose names have no article. */
static const char *bare_name(const struct stk_arg_def *def)
{
	return strchr(type_names[def->type], ' ') + 1;
}

static enum stk_status wrong_type(const struct stk_arg_def *def, struct stk_error *err)
{
	return stk__fail(err, STK_INVALID, "argument \"%s\" takes %s (%s)", def->name, type_names[def->type], def->doc);
}

static enum stk_status refuse_number(const struct stk_arg_def *def, double v, int64_t index, struct stk_error *err)
{
	bool floats = def->type == STK_ARG_FLOAT || def->type == STK_ARG_FLOATS;
	char index_text[32] = "", range[80];
	snprintf(range, sizeof range, def->flags & STK_INFINITE ? "a number" : floats ? "a finite float32" : "a finite number");
	if (index >= 0)
		snprintf(index_text, sizeof index_text, " at index %lld", (long long)index);
	if (def->min > -HUGE_VAL && def->max < HUGE_VAL)
		snprintf(range, sizeof range, "from %g to %g", def->min, def->max);
	else if (def->min > -HUGE_VAL)
		snprintf(range, sizeof range, "finite and at least %g", def->min);
	return stk__fail(err, STK_INVALID, "argument \"%s\" is %g%s; it must be %s (%s)", def->name, v, index_text, range, def->doc);
}

/* Fails if a number is outside of the argument's range, is NaN without STK_NAN, or is infinite as float32 without STK_INFINITE. Every number for an argument
 * must be checked with this function, whether it is a constant or the value for a sample. index: index in a list of several numbers, else -1. */
static enum stk_status check_number(const struct stk_arg_def *def, double v, int64_t index, struct stk_error *err)
{
	bool outside = v < def->min || v > def->max;
	bool refused = isnan(v) ? !(def->flags & STK_NAN) : isinf((float)v) && !(def->flags & STK_INFINITE);
	return outside || refused ? refuse_number(def, v, index, err) : STK_OK;
}

/* ---- enums by name ---- */

static const struct enum_name {
	const char *name;
	int32_t value;
} image_types[] = {{"RGB", STK_RGB}, {"BGR", STK_BGR}, {"GRAY", STK_GRAY}, {"YCbCr", STK_YCBCR}, {"ANY_DATA", STK_ANY_DATA}, {NULL, 0}},
  interps[] = {{"NN", STK_INTERP_NN}, {"LINEAR", STK_INTERP_LINEAR}, {"CUBIC", STK_INTERP_CUBIC}, {"LANCZOS3", STK_INTERP_LANCZOS3},
	  {"TRIANGULAR", STK_INTERP_TRIANGULAR}, {"GAUSSIAN", STK_INTERP_GAUSSIAN}, {NULL, 0}};

static bool enum_by_name(const struct stk_arg_def *def, const char *s, int32_t *out)
{
	if (def->type == STK_ARG_DTYPE) {
		for (int32_t t = 0; t < STK_DTYPE_COUNT; t++)
			if (strcmp(stk_dtype_name(t), s) == 0) {
				*out = t;
				return true;
			}
		return false;
	}
	for (const struct enum_name *e = def->type == STK_ARG_INTERP ? interps : image_types; e->name; e++)
		if (strcmp(e->name, s) == 0) {
			*out = e->value;
			return true;
		}
	return false;
}

static int32_t enum_count(const struct stk_arg_def *def)
{
	return def->type == STK_ARG_DTYPE    ? (int32_t)def->max + 1
	       : def->type == STK_ARG_INTERP ? STK_INTERP_GAUSSIAN + 1
					     : STK_ANY_DATA + 1;
}

/* Returns true if the value -1 (NO_TYPE) stands for an argument that is not given: the argument is optional and has no default. */
static bool may_be_none(const struct stk_arg_def *def)
{
	return !def->fallback && !(def->flags & STK_REQUIRED);
}

static enum stk_status set_enum(const struct stk_arg_def *def, const struct stk_arg *v, int32_t *field, struct stk_error *err)
{
	if (v->kind == STK_VALUE_STRING) {
		if (!enum_by_name(def, v->value.s, field))
			return stk__fail(err, STK_INVALID, "argument \"%s\": \"%s\" is no name of %s", def->name, v->value.s,
				type_names[def->type] + 3);
		return check_number(def, *field, -1, err);
	}
	if (v->kind != STK_VALUE_INT)
		return wrong_type(def, err);
	bool none = v->value.i == -1 && may_be_none(def);
	if (!none && (v->value.i < 0 || v->value.i >= enum_count(def) ||
			     (def->type == STK_ARG_DTYPE && !stk_dtype_size((enum stk_dtype)v->value.i))))
		return stk__fail(
			err, STK_INVALID, "argument \"%s\": %lld is not a valid %s", def->name, (long long)v->value.i, bare_name(def));
	*field = (int32_t)v->value.i;
	return none ? STK_OK : check_number(def, *field, -1, err);
}

/* ---- scalars ---- */

static bool as_number(const struct stk_arg *v, double *out)
{
	if (v->kind == STK_VALUE_FLOAT)
		*out = v->value.f;
	else if (v->kind == STK_VALUE_INT || v->kind == STK_VALUE_BOOL)
		*out = (double)v->value.i;
	else
		return false;
	return true;
}

double stk__arg_float(const struct stk_arg_def *def, const void *field)
{
	return def->flags & STK_DOUBLE ? *(const double *)field : (double)*(const float *)field;
}

static void set_float(const struct stk_arg_def *def, void *field, double v)
{
	if (def->flags & STK_DOUBLE)
		*(double *)field = v;
	else
		*(float *)field = (float)v;
}

static enum stk_status set_int(const struct stk_arg_def *def, const struct stk_arg *v, int64_t *field, struct stk_error *err)
{
	if (v->kind == STK_VALUE_INT || v->kind == STK_VALUE_BOOL)
		*field = v->value.i;
	else if (v->kind == STK_VALUE_FLOAT && fabs(v->value.f) < 0x1p63 && v->value.f == floor(v->value.f))
		*field = (int64_t)v->value.f;
	else
		return wrong_type(def, err);
	return check_number(def, (double)*field, -1, err);
}

static bool choice_listed(const char *choices, const char *s)
{
	size_t length = strlen(s);
	for (const char *p = choices; *p;) {
		size_t n = strcspn(p, "|");
		if (n == length && memcmp(p, s, n) == 0)
			return true;
		p += n + (p[n] == '|');
	}
	return false;
}

static enum stk_status set_string(
	struct stk_graph *g, const struct stk_arg_def *def, const struct stk_arg *v, const char **field, struct stk_error *err)
{
	if (v->kind != STK_VALUE_STRING)
		return wrong_type(def, err);
	if (def->choices && !choice_listed(def->choices, v->value.s))
		return stk__fail(err, STK_INVALID, "argument \"%s\" is \"%s\"; it must be one of %s", def->name, v->value.s, def->choices);
	*field = stk__graph_strdup(g, v->value.s);
	return *field ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory for argument \"%s\"", def->name);
}

/* ---- lists ---- */

/* Sets *out to element i of a list of numbers or, if the user gave a single number, to that. Returns false if the value is of another kind. */
static bool list_number(const struct stk_arg *v, size_t i, double *out)
{
	if (v->kind == STK_VALUE_INTS)
		*out = (double)((const int64_t *)v->value.list.data)[i];
	else if (v->kind == STK_VALUE_FLOATS)
		*out = ((const double *)v->value.list.data)[i];
	else
		return as_number(v, out);
	return true;
}

static size_t list_count(const struct stk_arg *v)
{
	return v->kind == STK_VALUE_INTS || v->kind == STK_VALUE_FLOATS || v->kind == STK_VALUE_STRINGS ? v->value.list.count : 1;
}

static enum stk_status set_numbers(
	struct stk_graph *g, const struct stk_arg_def *def, const struct stk_arg *v, void *field, struct stk_error *err)
{
	size_t n = list_count(v);
	bool ints = def->type == STK_ARG_INTS;
	void *data = n > INT32_MAX ? NULL : stk__graph_alloc(g, (n + 1) * (ints ? sizeof(int64_t) : sizeof(float)));
	if (!data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the %zu values of argument \"%s\"", n, def->name);
	for (size_t i = 0; i < n; i++) {
		double x;
		if (!list_number(v, i, &x) || (ints && (v->kind != STK_VALUE_INTS && !(fabs(x) < 0x1p63 && x == floor(x)))))
			return wrong_type(def, err);
		enum stk_status s = check_number(def, x, n > 1 ? (int64_t)i : -1, err);
		if (s)
			return s;
		if (ints)
			((int64_t *)data)[i] = v->kind == STK_VALUE_INTS ? ((const int64_t *)v->value.list.data)[i] : (int64_t)x;
		else
			((float *)data)[i] = (float)x;
	}
	if (ints)
		*(struct stk_ints *)field = (struct stk_ints){(int32_t)n, data};
	else
		*(struct stk_floats *)field = (struct stk_floats){(int32_t)n, data};
	return STK_OK;
}

/* Sets *field to copies of one string or of a list of strings, all in one block, since there may be millions of paths. */
static enum stk_status set_strings(
	struct stk_graph *g, const struct stk_arg_def *def, const struct stk_arg *v, struct stk_strings *field, struct stk_error *err)
{
	if (v->kind != STK_VALUE_STRING && v->kind != STK_VALUE_STRINGS)
		return wrong_type(def, err);
	const char *const one[] = {v->value.s};
	const char *const *from = v->kind == STK_VALUE_STRING ? one : v->value.list.data;
	size_t n = list_count(v), bytes = 0;
	for (size_t i = 0; i < n; i++)
		bytes += strlen(from[i]) + 1;
	const char **pointers = n > INT32_MAX ? NULL : stk__graph_alloc(g, n * sizeof *pointers + bytes + 1);
	if (!pointers)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the %zu strings of argument \"%s\"", n, def->name);
	char *p = (char *)(pointers + n);
	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(from[i]) + 1;
		pointers[i] = memcpy(p, from[i], length);
		p += length;
	}
	*field = (struct stk_strings){(int32_t)n, pointers};
	return STK_OK;
}

enum stk_status stk__arg_set(struct stk_graph *g, const struct stk_arg_def *def, const struct stk_arg *v, void *args, struct stk_error *err)
{
	void *field = (char *)args + def->offset;
	double x;
	switch (def->type) {
	case STK_ARG_BOOL:
		if (v->kind != STK_VALUE_BOOL && !(v->kind == STK_VALUE_INT && (v->value.i == 0 || v->value.i == 1)))
			return wrong_type(def, err);
		*(bool *)field = v->value.i != 0;
		return STK_OK;
	case STK_ARG_INT:
		return set_int(def, v, field, err);
	case STK_ARG_FLOAT:
		if (!as_number(v, &x))
			return wrong_type(def, err);
		set_float(def, field, x);
		return check_number(def, x, -1, err);
	case STK_ARG_STRING:
		return set_string(g, def, v, field, err);
	case STK_ARG_DTYPE:
	case STK_ARG_IMAGE_TYPE:
	case STK_ARG_INTERP:
		return set_enum(def, v, field, err);
	case STK_ARG_INTS:
	case STK_ARG_FLOATS:
		return set_numbers(g, def, v, field, err);
	default:
		return set_strings(g, def, v, field, err);
	}
}

/* ---- defaults ---- */

static void set_absent(const struct stk_arg_def *def, void *args)
{
	void *field = (char *)args + def->offset;
	switch (def->type) {
	case STK_ARG_BOOL:
		*(bool *)field = false;
		break;
	case STK_ARG_INT:
		*(int64_t *)field = STK_INT_UNSET;
		break;
	case STK_ARG_FLOAT:
		set_float(def, field, NAN);
		break;
	case STK_ARG_STRING:
		*(const char **)field = NULL;
		break;
	case STK_ARG_DTYPE:
	case STK_ARG_IMAGE_TYPE:
	case STK_ARG_INTERP:
		*(int32_t *)field = -1;
		break;
	case STK_ARG_INTS:
		*(struct stk_ints *)field = (struct stk_ints){-1, NULL};
		break;
	case STK_ARG_FLOATS:
		*(struct stk_floats *)field = (struct stk_floats){-1, NULL};
		break;
	case STK_ARG_STRINGS:
		*(struct stk_strings *)field = (struct stk_strings){-1, NULL};
		break;
	}
}

enum { MAX_DEFAULT_LIST = 32 };

/* Converts a default's JSON to a value; a list's elements are written to `numbers` and `strings`, which have room for MAX_DEFAULT_LIST. Returns false for null,
 * objects and longer lists. */
static bool value_of_json(const json_t *j, struct stk_arg *v, double *numbers, const char **strings)
{
	if (json_is_boolean(j))
		*v = stk_arg_bool(v->name, json_is_true(j));
	else if (json_is_integer(j))
		*v = stk_arg_int(v->name, json_integer_value(j));
	else if (json_is_real(j))
		*v = stk_arg_float(v->name, json_real_value(j));
	else if (json_is_string(j))
		*v = stk_arg_string(v->name, json_string_value(j));
	else if (json_is_array(j) && json_array_size(j) <= MAX_DEFAULT_LIST) {
		size_t n = json_array_size(j);
		bool text = n > 0 && json_is_string(json_array_get(j, 0));
		for (size_t i = 0; i < n; i++) {
			numbers[i] = json_number_value(json_array_get(j, i));
			strings[i] = json_string_value(json_array_get(j, i));
		}
		*v = stk_arg_list(v->name, text ? STK_VALUE_STRINGS : STK_VALUE_FLOATS, text ? (const void *)strings : numbers, n);
	} else
		return false;
	return true;
}

static struct stk_ints *shape_field(const struct stk_arg_def *def, void *args)
{
	return (struct stk_ints *)(void *)((char *)args + def->offset + sizeof(struct stk_floats));
}

enum stk_status stk__arg_set_default(struct stk_graph *g, const struct stk_arg_def *def, void *args, struct stk_error *err)
{
	set_absent(def, args);
	if (def->flags & STK_SHAPED)
		*shape_field(def, args) = (struct stk_ints){.count = -1};
	if (!def->fallback)
		return STK_OK;
	double numbers[MAX_DEFAULT_LIST];
	const char *strings[MAX_DEFAULT_LIST];
	struct stk_arg v = {.name = def->name};
	json_t *j = json_loads(def->fallback, JSON_DECODE_ANY, NULL);
	enum stk_status s = j && value_of_json(j, &v, numbers, strings)
				    ? stk__arg_set(g, def, &v, args, err)
				    : stk__fail(err, STK_STATE, "the default of \"%s\" can't be read: %s", def->name, def->fallback);
	json_decref(j);
	return s;
}

/* ---- one sample's value ---- */

enum stk_status stk__arg_takes(const struct stk_arg_def *def, enum stk_dtype dtype, struct stk_error *err)
{
	static const enum stk_arg_type kinds[] = {
		[STK_IMAGE_TYPE] = STK_ARG_IMAGE_TYPE, [STK_DATA_TYPE] = STK_ARG_DTYPE, [STK_INTERP_TYPE] = STK_ARG_INTERP};
	if (!stk__dtype_enumeration(dtype) || def->type == kinds[dtype])
		return STK_OK;
	return stk__fail(err, STK_INVALID, "argument \"%s\" takes %s, and this value is of type %s", def->name, type_names[def->type],
		stk_dtype_name(dtype));
}

/* Fails if one of the n elements of t is not a whole number. Whole floats are allowed; other floats, NaN and infinities would be changed silently. */
static enum stk_status check_whole(const struct stk_arg_def *def, const struct stk_tensor *t, int64_t n, struct stk_error *err)
{
	for (int64_t i = 0; i < n && !stk__dtype_whole(t->desc.dtype); i++) {
		float v;
		stk__convert(&v, STK_FLOAT, (const char *)t->data + (size_t)i * stk_dtype_size(t->desc.dtype), t->desc.dtype, 1);
		if (!isfinite(v))
			return refuse_number(def, (double)v, n > 1 ? i : -1, err);
		if (v != truncf(v))
			return stk__fail(err, STK_INVALID, "argument \"%s\" takes whole numbers, not %g; cast(x, dtype=INT32) rounds it",
				def->name, (double)v);
	}
	return STK_OK;
}

static enum stk_status sample_list(
	const struct stk_arg_def *def, const struct stk_tensor *t, int64_t n, void *field, struct stk_arena *memory, struct stk_error *err)
{
	bool ints = def->type == STK_ARG_INTS;
	enum stk_status s = ints ? check_whole(def, t, n, err) : STK_OK;
	if (s)
		return s;
	void *data = stk__arena_take(memory, (size_t)n * 8 + 8);
	if (!data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for argument \"%s\"", def->name);
	stk__convert(data, ints ? STK_INT64 : STK_FLOAT, t->data, t->desc.dtype, n);
	for (int64_t i = 0; i < n; i++) {
		s = check_number(def, ints ? (double)((int64_t *)data)[i] : (double)((float *)data)[i], n > 1 ? i : -1, err);
		if (s)
			return s;
	}
	if (ints)
		*(struct stk_ints *)field = (struct stk_ints){(int32_t)n, data};
	else
		*(struct stk_floats *)field = (struct stk_floats){(int32_t)n, data};
	return STK_OK;
}

enum stk_status stk__arg_set_sample(
	const struct stk_arg_def *def, const struct stk_tensor *t, void *args, struct stk_arena *memory, struct stk_error *err)
{
	void *field = (char *)args + def->offset;
	int64_t n = stk_desc_elements(&t->desc), i;
	if (stk__is_sequence(&t->desc))
		return stk__fail(err, STK_UNSUPPORTED,
			"argument \"%s\" is given for each frame (the layout is \"%s\"), which the graph does not know: mark it with per_frame, or name "
			"layout and ndim of the external_source that it comes from",
			def->name, t->desc.layout);
	enum stk_status s = stk__arg_takes(def, t->desc.dtype, err); /* if the value comes from branches, the graph may not know its type */
	if (s)
		return s;
	if (def->flags & STK_SHAPED) {
		int64_t *shape = stk__arena_take(memory, sizeof t->desc.shape);
		if (!shape)
			return stk__fail(err, STK_NO_MEMORY, "out of memory for argument \"%s\"", def->name);
		memcpy(shape, t->desc.shape, sizeof t->desc.shape);
		*shape_field(def, args) = (struct stk_ints){t->desc.ndim, shape};
	}
	if (def->type == STK_ARG_INTS || def->type == STK_ARG_FLOATS)
		return sample_list(def, t, n, field, memory, err);
	if (n != 1)
		return stk__fail(err, STK_SHAPE, "argument \"%s\" takes one value a sample, and got %lld", def->name, (long long)n);
	s = def->type == STK_ARG_FLOAT ? STK_OK : check_whole(def, t, 1, err);
	if (s)
		return s;
	switch (def->type) {
	case STK_ARG_FLOAT:
		stk__convert(field, def->flags & STK_DOUBLE ? STK_FLOAT64 : STK_FLOAT, t->data, t->desc.dtype, 1);
		return check_number(def, stk__arg_float(def, field), -1, err);
	case STK_ARG_INT:
		stk__convert(field, STK_INT64, t->data, t->desc.dtype, 1);
		return check_number(def, (double)*(int64_t *)field, -1, err);
	case STK_ARG_BOOL:
		stk__convert(field, STK_BOOL, t->data, t->desc.dtype, 1);
		return STK_OK;
	case STK_ARG_DTYPE:
	case STK_ARG_IMAGE_TYPE:
	case STK_ARG_INTERP:
		stk__convert(&i, STK_INT64, t->data, stk__dtype_stored(t->desc.dtype), 1);
		if (i < 0 || i >= enum_count(def))
			return stk__fail(
				err, STK_INVALID, "argument \"%s\": %lld is not a valid %s", def->name, (long long)i, bare_name(def));
		*(int32_t *)field = (int32_t)i;
		return check_number(def, (double)i, -1, err);
	default:
		return stk__fail(err, STK_UNSUPPORTED, "argument \"%s\" takes no value for each sample", def->name);
	}
}

/* ---- NaN, which only floats hold ---- */

static bool holds_nan(const struct stk_arg_def *def, const void *args)
{
	const void *field = (const char *)args + def->offset;
	if (!(def->flags & STK_NAN))
		return false;
	if (def->type == STK_ARG_FLOAT)
		return isnan(stk__arg_float(def, field));
	const struct stk_floats *list = field;
	for (int32_t i = 0; i < list->count; i++)
		if (isnan(list->v[i]))
			return true;
	return false;
}

bool stk__args_may_hold_nan(const struct stk_graph_node *node)
{
	struct stk_arg_def def;
	bool found = false;
	for (int32_t k = 0; stk__op_arg_at(node->def, k, &def); k++)
		found |= holds_nan(&def, node->args);
	for (int32_t k = 0; k < node->n_varying; k++)
		found |= (node->varying[k].def.flags & STK_NAN) != 0;
	return found;
}

enum stk_status stk__args_suit(const struct stk_op_def *op, const void *args, enum stk_dtype out, struct stk_error *err)
{
	struct stk_arg_def def;
	for (int32_t k = 0; out != STK_NO_DTYPE && stk__dtype_whole(out) && stk__op_arg_at(op, k, &def); k++)
		if (holds_nan(&def, args))
			return stk__fail(err, STK_INVALID, "argument \"%s\" is nan, which an output of %s can't hold (%s)", def.name,
				stk_dtype_name(out), def.doc);
	return STK_OK;
}
