/* SPDX-License-Identifier: Apache-2.0
 * Runs the tensor operators whose instructions are counted (instructions.h): each on an image of 224 x 224 pixels, and on a few numbers, where the
 * fixed cost of a call dominates. */
#include "instructions.h"

#include "base/cpu.h"
#include "graph/graph.h"
#include "kernel/convert/convert.h"
#include "op/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IN = 2, SIDE = 224 };

struct input {
	enum stk_dtype dtype;
	const char *layout;
	int ndim;
	int64_t shape[3];
};

/* A call of an operator. args: for example "axis=2 shape=1,2 op=add"; numbers are integers. */
struct ops_case {
	const char *name, *op, *args;
	struct input in[MAX_IN];
};

#define IMAGE(type)                                                                                                                        \
	{                                                                                                                                  \
		STK_##type, "HWC", 3,                                                                                                      \
		{                                                                                                                          \
			SIDE, SIDE, 3                                                                                                      \
		}                                                                                                                          \
	}
#define VECTOR(type, n)                                                                                                                    \
	{                                                                                                                                  \
		STK_##type, "", 1,                                                                                                         \
		{                                                                                                                          \
			n                                                                                                                  \
		}                                                                                                                          \
	}
#define MATRIX(type, h, w)                                                                                                                 \
	{                                                                                                                                  \
		STK_##type, "", 2,                                                                                                         \
		{                                                                                                                          \
			h, w                                                                                                               \
		}                                                                                                                          \
	}
#define SCALAR(type)                                                                                                                       \
	{                                                                                                                                  \
		STK_##type, "", 0,                                                                                                         \
		{                                                                                                                          \
			0                                                                                                                  \
		}                                                                                                                          \
	}

static const struct ops_case cases[] = {
	{"cast-uint8-float", "cast", "dtype=9", {IMAGE(UINT8)}},
	{"cast-float-uint8", "cast", "dtype=0", {IMAGE(FLOAT)}},
	{"cast-int64-int32-few", "cast", "dtype=6", {VECTOR(INT64, 10)}},
	{"cast-float-float64-few", "cast", "dtype=10", {VECTOR(FLOAT, 100)}},
	{"arithmetic-float-float", "_arithmetic", "op=add", {IMAGE(FLOAT), IMAGE(FLOAT)}},
	{"arithmetic-uint8-float", "_arithmetic", "op=mul", {IMAGE(UINT8), SCALAR(FLOAT)}},
	{"arithmetic-uint8-uint8", "_arithmetic", "op=max", {IMAGE(UINT8), IMAGE(UINT8)}},
	{"arithmetic-channels", "_arithmetic", "op=sub", {IMAGE(FLOAT), VECTOR(FLOAT, 3)}},
	{"arithmetic-columns", "_arithmetic", "op=mul", {MATRIX(FLOAT, SIDE, SIDE), MATRIX(FLOAT, SIDE, 1)}},
	{"arithmetic-sqrt", "_arithmetic", "op=sqrt", {IMAGE(FLOAT)}},
	{"arithmetic-float-few", "_arithmetic", "op=add", {VECTOR(FLOAT, 10), SCALAR(FLOAT)}},
	{"arithmetic-int64-few", "_arithmetic", "op=mul", {VECTOR(INT64, 10), VECTOR(INT64, 10)}},
	{"arithmetic-matrix-few", "_arithmetic", "op=sub", {MATRIX(FLOAT, 25, 4), VECTOR(FLOAT, 4)}},
	{"normalize-all", "normalize", "", {IMAGE(FLOAT)}},
	{"normalize-channels", "normalize", "axes=0,1", {IMAGE(UINT8)}},
	{"normalize-given", "normalize", "mean=128 stddev=50 dtype=9", {IMAGE(FLOAT)}},
	{"normalize-few", "normalize", "", {VECTOR(FLOAT, 10)}},
	{"normalize-columns-few", "normalize", "axes=0", {MATRIX(FLOAT, 25, 4)}},
	{"slice-inside", "slice", "start=12,12 shape=200,200", {IMAGE(UINT8)}},
	{"slice-outside", "slice", "start=-8,-8 shape=240,240 out_of_bounds_policy=pad", {IMAGE(FLOAT)}},
	{"slice-convert", "slice", "start=12,12 shape=200,200 dtype=10", {IMAGE(UINT8)}},
	{"slice-few", "slice", "axes=0 start=2 shape=6", {VECTOR(FLOAT, 10)}},
	{"subscript-every-other", "_subscript", "kinds=1,1 lo=0,0 hi=224,224 step=2,2", {IMAGE(UINT8)}},
	{"subscript-few", "_subscript", "kinds=2,0 lo=0,1 hi=0,0 step=1,1", {MATRIX(FLOAT, 25, 4)}},
	{"pad-image", "pad", "shape=256,256,3", {IMAGE(UINT8)}},
	{"pad-few", "pad", "shape=32", {VECTOR(INT64, 10)}},
	{"stack-images", "stack", "axis=0", {IMAGE(UINT8), IMAGE(UINT8)}},
	{"stack-channels", "stack", "axis=2", {MATRIX(FLOAT, SIDE, SIDE), MATRIX(FLOAT, SIDE, SIDE)}},
	{"stack-few", "stack", "axis=0", {VECTOR(FLOAT, 10), VECTOR(FLOAT, 10)}},
	{"stack-columns-few", "stack", "axis=1", {VECTOR(FLOAT, 10), VECTOR(FLOAT, 10)}},
	{"transpose-uint8", "transpose", "perm=2,0,1", {IMAGE(UINT8)}},
	{"transpose-float", "transpose", "perm=1,0,2", {IMAGE(FLOAT)}},
	{"transpose-few", "transpose", "perm=1,0", {MATRIX(FLOAT, 25, 4)}},
	{"flip-image", "flip", "horizontal=1", {IMAGE(FLOAT)}},
	{"one_hot-image", "one_hot", "num_classes=21 axis=2", {MATRIX(INT32, SIDE, SIDE)}},
	{"one_hot-few", "one_hot", "num_classes=10", {SCALAR(INT64)}},
};

struct ops_work {
	const struct ops_case *c;
	struct stk_graph *g;
	struct stk_arena arena;
	struct stk_tools tools;
	struct stk_tensor in[MAX_IN], out;
	struct stk_call call;
	_Alignas(64) char state[4096];
};

static void die(const struct ops_case *c, const struct stk_error *err)
{
	fprintf(stderr, "instructions: %s: %s\n", c->name, err->message);
	exit(1);
}

/* Fills a tensor with integers from 0 to 19, which fit into every type and are valid class numbers. */
static void *make_values(const struct stk_desc *d)
{
	int64_t n = stk_desc_elements(d);
	char *to = calloc((size_t)n + 64, 8);
	for (int64_t i = 0; to && i < n; i++) {
		float v = (float)((i * 7 + i / 32 * 3) % 20);
		stk__convert(to + (size_t)i * stk_dtype_size(d->dtype), d->dtype, &v, STK_FLOAT, 1);
	}
	return to;
}

/* Parses an argument's value, such as "1,2" or "word", at the start of `text`, up to the first blank. Stores it in the operator's struct `values`, at the
 * offset that `a` states. */
static void set_arg(struct ops_work *w, const struct stk_arg_def *a, const char *text, void *values)
{
	int64_t ints[STK_MAX_DIMS];
	double floats[STK_MAX_DIMS];
	size_t count = 0;
	char word[32];
	struct stk_error err = {0};
	snprintf(word, sizeof word, "%.*s", (int)strcspn(text, " "), text);
	for (char *p = word; count < STK_MAX_DIMS; p++) {
		ints[count] = strtoll(p, &p, 10);
		floats[count] = (double)ints[count];
		count++;
		if (*p != ',')
			break;
	}
	struct stk_arg arg = a->type == STK_ARG_STRING   ? stk_arg_string(a->name, word)
			     : a->type == STK_ARG_INTS   ? stk_arg_list(a->name, STK_VALUE_INTS, ints, count)
			     : a->type == STK_ARG_FLOATS ? stk_arg_list(a->name, STK_VALUE_FLOATS, floats, count)
							 : stk_arg_int(a->name, ints[0]);
	if (stk__arg_set(w->g, a, &arg, values, &err))
		die(w->c, &err);
}

static void set_args(struct ops_work *w, const struct stk_op_def *def, void *values)
{
	struct stk_arg_def a;
	struct stk_error err = {0};
	for (int32_t k = 0; stk__op_arg_at(def, k, &a); k++) {
		size_t length = strlen(a.name);
		if (stk__arg_set_default(w->g, &a, values, &err))
			die(w->c, &err);
		for (const char *text = w->c->args; *text; text += strcspn(text, " "), text += *text == ' ')
			if (strncmp(text, a.name, length) == 0 && text[length] == '=')
				set_arg(w, &a, text + length + 1, values);
	}
}

static void begin(struct ops_work *w, const struct ops_case *c)
{
	*w = (struct ops_work){.c = c};
	struct stk_error err = {0};
	const struct stk_op_def *def = stk__op_find(c->op);
	int32_t n = 0;
	for (; n < MAX_IN && c->in[n].layout; n++) {
		struct stk_desc *d = &w->in[n].desc;
		*d = (struct stk_desc){.dtype = c->in[n].dtype, .ndim = c->in[n].ndim};
		memcpy(d->shape, c->in[n].shape, sizeof c->in[n].shape);
		strcpy(d->layout, c->in[n].layout);
		w->in[n].data = make_values(d);
	}
	if (stk_graph_create(&w->g, &err))
		die(c, &err);
	void *values = stk__graph_alloc(w->g, def->args_size + 1);
	set_args(w, def, values);
	stk__arena_init(&w->arena);
	w->tools.arena = w->tools.cpu_jobs.arena = &w->arena;
	w->tools.cpu_jobs.cpu = stk__cpu_capabilities();
	w->call = (struct stk_call){
		.def = def, .args = values, .in = w->in, .out = &w->out, .n_in = n, .n_out = 1, .state = w->state, .tools = &w->tools};
}

/* Runs the operator on one sample, as a pipeline's worker does. The measured instructions do not include the preparation of the call. */
static void run(void *user)
{
	struct ops_work *w = user;
	struct stk_error err = {0};
	w->out = (struct stk_tensor){0};
	if (w->call.def->infer(&w->call, &err))
		die(w->c, &err);
	if (!w->out.data)
		w->out.data = stk__arena_take(&w->arena, (size_t)stk_desc_bytes(&w->out.desc));
	if (stk__op_run(&w->call, &err))
		die(w->c, &err);
	stk__arena_reset(&w->arena);
}

void measure_ops(void)
{
	static struct ops_work w;
	printf("names = [");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		printf("%s\"%s\"", i ? ", " : "", cases[i].name);
	printf("]\n");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		begin(&w, &cases[i]);
		run(&w);
		run(&w);
		stk_measure(run, &w);
		stk__arena_destroy(&w.arena);
		stk_graph_destroy(w.g);
		for (int32_t k = 0; k < w.call.n_in; k++)
			free(w.in[k].data);
	}
}
