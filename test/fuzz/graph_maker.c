/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_maker.h"

#include "image_files.h"
#include "libm_functions.h"
#include "op/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 24, MOST_ARGS = 24, MOST_LIST = 18, MOST_NESTED = 3, TRIES = 10 };

/* ---- numbers ---- */

static bool chance(uint64_t *rng, int percent)
{
	return test_random_in(rng, 1, 100) <= percent;
}

static int64_t extreme_int(uint64_t *rng, const struct stk_arg_def *def)
{
	const int64_t ints[] = {0, 1, -1, 255, 65536, 1 << 24, (1 << 24) + 1, (int64_t)1 << 28, INT32_MAX, INT32_MIN,
		(int64_t)INT32_MAX + 1, (int64_t)1 << 32, ((int64_t)1 << 32) + 5, (int64_t)1 << 40, -((int64_t)1 << 40), INT64_MAX,
		INT64_MIN, INT64_MIN + 1, 17, 33};
	if (fabs(def->min) < 0x1p62 && chance(rng, 15))
		return (int64_t)def->min - test_random_in(rng, 0, 1);
	if (fabs(def->max) < 0x1p62 && chance(rng, 15))
		return (int64_t)def->max + test_random_in(rng, 0, 1);
	return ints[test_random(rng) % (sizeof ints / sizeof *ints)];
}

static double extreme_float(uint64_t *rng, const struct stk_arg_def *def)
{
	const double floats[] = {0, -0.0, 1e-10, -1e-10, 1e-40, .5, -1, 256, 0x1p24, 0x1p24 + 2, 0x1p28, 1e9, -1e9, 0x1p31, 0x1p32, 0x1p40,
		0x1p63, -0x1p63, 1e30, 3e38, -3e38, 1e39, 1e308, -1e308, HUGE_VAL, -HUGE_VAL, NAN};
	if (chance(rng, 25))
		return (double)extreme_int(rng, def);
	return floats[test_random(rng) % (sizeof floats / sizeof *floats)];
}

static int64_t random_int(uint64_t *rng, int hostile, const struct stk_arg_def *def)
{
	if (chance(rng, hostile))
		return extreme_int(rng, def);
	int64_t low = def->min > -5 ? (int64_t)def->min : -3, high = def->max < 20 ? (int64_t)def->max : 20;
	return test_random_in(rng, (int)low, (int)high);
}

static double random_float(uint64_t *rng, int hostile, const struct stk_arg_def *def)
{
	if (chance(rng, hostile))
		return extreme_float(rng, def);
	double low = def->min > -5 ? def->min : -2, high = def->max < 30 ? def->max : 30;
	if (chance(rng, 40))
		return test_random_in(rng, (int)ceil(low), (int)high);
	return low + (high - low) * test_random_in(rng, 0, 64) / 64;
}

/* ---- data ---- */

enum data_kind { DATA_TENSORS, DATA_NUMBERS, DATA_FILES };

/* A source that generates the samples of each batch from the seed. */
struct data {
	uint64_t seed;
	enum data_kind kind;
	enum stk_dtype dtype;
	int32_t ndim;
	int64_t shape[STK_MAX_DIMS];
	bool ragged, wild;
	int hostile;
	struct test_file files[MAKER_BATCH];
};

static void fill(uint64_t *rng, const struct data *d, void *to, int64_t n)
{
	size_t size = stk_dtype_size(d->dtype);
	static const struct stk_arg_def any = {.min = -HUGE_VAL, .max = HUGE_VAL};
	for (int64_t i = 0; i < n; i++) {
		uint64_t bits = test_random(rng) | (uint64_t)test_random(rng) << 32;
		float f = d->kind == DATA_NUMBERS  ? (float)random_float(rng, d->hostile, &any)
			  : d->wild && i % 11 == 3 ? (float)extreme_float(rng, &any)
						   : (float)(bits % 4096) / 8 - 100;
		double wide = (double)f;
		if (d->dtype == STK_FLOAT)
			memcpy(&bits, &f, sizeof f);
		else if (d->dtype == STK_FLOAT64)
			memcpy(&bits, &wide, sizeof wide);
		else if (d->dtype == STK_BOOL)
			bits &= 1;
		else if (d->kind == DATA_NUMBERS && size >= 4)
			bits = (uint64_t)random_int(rng, d->hostile, &any);
		memcpy((char *)to + (size_t)i * size, &bits, size);
	}
}

static void make_tensor(const struct data *d, int64_t batch, int32_t i, struct stk_tensor *t)
{
	uint64_t rng = d->seed * 1000003 + (uint64_t)batch * 64 + (uint64_t)i;
	*t = (struct stk_tensor){.desc = {.dtype = d->dtype, .ndim = d->ndim}};
	memcpy(t->desc.shape, d->shape, sizeof t->desc.shape);
	for (int32_t k = 0; d->ragged && k < d->ndim && k < 3; k++)
		if (t->desc.shape[k] > 4)
			t->desc.shape[k] -= test_random_in(&rng, 0, 3);
	const struct test_file *file = &d->files[i % MAKER_BATCH];
	if (d->kind == DATA_FILES)
		t->desc.shape[0] = (int64_t)file->size;
	int64_t n = stk_desc_elements(&t->desc);
	t->data = malloc((size_t)stk_desc_bytes(&t->desc) + 64);
	if (!t->data)
		abort();
	if (d->kind == DATA_FILES)
		memcpy(t->data, file->data, file->size);
	else
		fill(&rng, d, t->data, n);
}

struct pulled {
	int32_t n;
	void *data[MAKER_BATCH];
};

static void release(void *user)
{
	struct pulled *p = user;
	for (int32_t i = 0; i < p->n; i++)
		free(p->data[i]);
	free(p);
}

static enum stk_status pull(void *user, const struct stk_feed_request *q, struct stk_feed *feed, struct stk_error *err)
{
	(void)err;
	struct pulled *p = calloc(1, sizeof *p);
	if (!p || q->count > MAKER_BATCH)
		abort();
	for (p->n = 0; p->n < q->count; p->n++) {
		make_tensor(user, q->batch, p->n, &feed->tensors[p->n]);
		p->data[p->n] = feed->tensors[p->n].data;
	}
	feed->count = q->count;
	feed->release = release;
	feed->release_user = p;
	return STK_OK;
}

static void destroy_data(void *user)
{
	struct data *d = user;
	for (int i = 0; i < MAKER_BATCH; i++)
		free(d->files[i].data);
	free(d);
}

/* ---- sources ---- */

struct maker {
	uint64_t rng;
	struct stk_graph *graph;
	bool on_gpu;
	/* Adds only images as sources, and mostly operators that can be fused; in the other graphs, such operators seldom follow each other. */
	bool passes;
	int hostile; /* percentage of numeric arguments that get an extreme value */
	struct stk_node values[MOST_VALUES];
	int32_t n_values;
	struct stk_condition when[MOST_NESTED + 1]; /* conditions of the nested branches to which operators are currently added */
	size_t n_when;
};

static void keep(struct maker *m, struct stk_node first)
{
	for (int32_t k = 0; k < stk_graph_node_outputs(m->graph, first) && m->n_values < MOST_VALUES; k++)
		m->values[m->n_values++] = (struct stk_node){first.op, first.output + k};
}

static bool add_source(struct maker *m, struct data *d, const char *layout, bool declare, struct stk_node *out)
{
	struct stk_arg args[3];
	size_t n = 0;
	const int64_t dtype = d->dtype, ndim = d->ndim;
	if (layout)
		args[n++] = stk_arg_string("layout", layout);
	if (declare)
		args[n++] = stk_arg_list("dtype", STK_VALUE_INTS, &dtype, 1);
	if (declare && !layout)
		args[n++] = stk_arg_list("ndim", STK_VALUE_INTS, &ndim, 1);
	const struct stk_source_callbacks callbacks = {.pull = pull, .destroy = destroy_data, .user = d, .seek = STK_SEEK_BATCH};
	if (stk_graph_add(m->graph, "external_source", NULL, 0, args, n, NULL, out, NULL)) {
		destroy_data(d);
		return false;
	}
	return stk_graph_set_source(m->graph, *out, &callbacks, NULL) == STK_OK;
}

static struct data *new_data(struct maker *m, enum data_kind kind)
{
	struct data *d = calloc(1, sizeof *d);
	if (!d)
		abort();
	d->seed = test_random(&m->rng);
	d->kind = kind;
	d->hostile = m->hostile;
	return d;
}

/* Adds a source of tensors of up to five dimensions, or of images; with `passes` only of images, mostly of bytes. Seldom, tensors are empty or images have
 * many channels. */
static void add_tensors(struct maker *m)
{
	static const char *const layouts[] = {"HWC", "CHW", "HW", "FHWC", "FCHW", "DHWC", "C", "F", "NCDHW", "ABC"};
	struct data *d = new_data(m, DATA_TENSORS);
	const char *layout = m->passes             ? "HWC"
			     : chance(&m->rng, 60) ? layouts[test_random(&m->rng) % (chance(&m->rng, 80) ? 4 : 10)]
						   : NULL;
	d->ndim = layout ? (int32_t)strlen(layout) : chance(&m->rng, 60) ? 3 : test_random_in(&m->rng, 0, 5);
	d->dtype = chance(&m->rng, m->passes ? 80 : 50) ? STK_UINT8 : (enum stk_dtype)(test_random(&m->rng) % STK_DTYPE_COUNT);
	for (int32_t k = 0; k < d->ndim; k++) {
		bool channels = layout ? layout[k] == 'C' : k == d->ndim - 1 && d->ndim > 2;
		d->shape[k] = channels ? test_random_in(&m->rng, 1, 4) : test_random_in(&m->rng, 1, d->ndim > 3 ? 9 : 40);
		if (channels && chance(&m->rng, m->passes ? 90 : 50))
			d->shape[k] = 3;
		if (chance(&m->rng, 3))
			d->shape[k] = channels ? test_random_in(&m->rng, 15, 40) : 0;
	}
	d->ragged = chance(&m->rng, 40);
	d->wild = chance(&m->rng, 20);
	struct stk_node out;
	if (add_source(m, d, layout, chance(&m->rng, 50), &out))
		keep(m, out);
}

static void add_files(struct maker *m)
{
	struct data *d = new_data(m, DATA_FILES);
	d->ndim = 1;
	d->dtype = STK_UINT8;
	for (int i = 0; i < MAKER_BATCH; i++) {
		int w = test_random_in(&m->rng, 1, 40), h = test_random_in(&m->rng, 1, 40);
		const struct test_jpeg jpeg = {
			.width = w, .height = h, .components = chance(&m->rng, 20) ? 1 : 3, .quality = 80, .seed = d->seed};
		const struct test_png png = {.width = w, .height = h, .color = 2, .bits = chance(&m->rng, 30) ? 16 : 8, .seed = d->seed};
		d->files[i] = chance(&m->rng, 50) ? test_jpeg_make(&jpeg) : test_png_make(&png);
	}
	struct stk_node file, image;
	if (!add_source(m, d, NULL, chance(&m->rng, 50), &file))
		return;
	keep(m, file);
	if (stk_graph_add(m->graph, "decoders.image", &file, 1, NULL, 0, NULL, &image, NULL) == STK_OK)
		keep(m, image);
}

/* ---- arguments ---- */

struct lists {
	int64_t ints[MOST_ARGS][MOST_LIST];
	double floats[MOST_ARGS][MOST_LIST];
};

static size_t list_length(uint64_t *rng)
{
	static const uint8_t usual[] = {1, 1, 2, 2, 2, 3, 3, 4, 6};
	return chance(rng, 5) ? (size_t)test_random_in(rng, 0, MOST_LIST) : usual[test_random(rng) % sizeof usual];
}

static const char *random_text(uint64_t *rng, const struct stk_arg_def *def, char text[64])
{
	static const char *const texts[] = {"HWC", "HW", "WH", "CHW", "C", "", "FHWC", "XYZ", "H", "W"};
	if (!def->choices || chance(rng, 3))
		return texts[test_random(rng) % (sizeof texts / sizeof *texts)];
	int n = 1;
	for (const char *p = def->choices; *p; p++)
		n += *p == '|';
	const char *p = def->choices;
	for (int skip = test_random_in(rng, 0, n - 1); skip; skip--)
		p = strchr(p, '|') + 1;
	snprintf(text, 64, "%.*s", (int)strcspn(p, "|"), p);
	return text;
}

/* Returns an argument whose value is a node: for each sample a number or, for list arguments, a list. The node is a new source or, less often, an existing
 * value. */
static struct stk_arg per_sample(struct maker *m, const struct stk_arg_def *def)
{
	struct stk_node node = m->values[test_random(&m->rng) % (uint32_t)m->n_values];
	bool list = def->type == STK_ARG_INTS || def->type == STK_ARG_FLOATS;
	if (chance(&m->rng, 80)) {
		struct data *d = new_data(m, DATA_NUMBERS);
		d->dtype = def->type == STK_ARG_FLOAT || def->type == STK_ARG_FLOATS ? STK_FLOAT
			   : chance(&m->rng, 50)                                     ? STK_INT32
										     : STK_INT64;
		d->ndim = list;
		d->shape[0] = (int64_t)list_length(&m->rng);
		if (!add_source(m, d, NULL, true, &node))
			node = m->values[0];
	}
	return stk_arg_node(def->name, node);
}

/* Returns n, or 64 if a larger n would give so many tiles, or so large a mask, that an emulated GPU takes minutes. */
static int64_t bounded(const struct maker *m, const struct stk_arg_def *def, int64_t n)
{
	bool costly = strncmp(def->name, "tiles", 5) == 0 || strcmp(def->name, "mask_size") == 0;
	return m->on_gpu && costly && n > 64 ? 64 : n;
}

static struct stk_arg random_arg(struct maker *m, const struct stk_arg_def *def, size_t at, struct lists *lists, char text[64])
{
	uint64_t *rng = &m->rng;
	if ((def->flags & STK_PER_SAMPLE) && chance(rng, 10))
		return per_sample(m, def);
	size_t n = list_length(rng);
	switch (def->type) {
	case STK_ARG_BOOL:
		return stk_arg_bool(def->name, chance(rng, 50));
	case STK_ARG_INT:
		return stk_arg_int(def->name, bounded(m, def, random_int(rng, m->hostile, def)));
	case STK_ARG_FLOAT:
		return stk_arg_float(def->name, random_float(rng, m->hostile, def));
	case STK_ARG_STRING:
	case STK_ARG_STRINGS:
		return stk_arg_string(def->name, random_text(rng, def, text));
	case STK_ARG_INTS:
		for (size_t i = 0; i < n; i++)
			lists->ints[at][i] = bounded(m, def, random_int(rng, m->hostile, def));
		return stk_arg_list(def->name, STK_VALUE_INTS, lists->ints[at], n);
	case STK_ARG_FLOATS:
		for (size_t i = 0; i < n; i++)
			lists->floats[at][i] = random_float(rng, m->hostile, def);
		return stk_arg_list(def->name, STK_VALUE_FLOATS, lists->floats[at], n);
	default:
		return stk_arg_int(
			def->name, chance(rng, 4) ? extreme_int(rng, def) : test_random_in(rng, -(int)chance(rng, 5), (int)def->max));
	}
}

static size_t random_args(struct maker *m, const struct stk_op_def *def, struct stk_arg *args, struct lists *lists, char (*texts)[64])
{
	struct stk_arg_def arg;
	size_t n = 0;
	int given = test_random_in(&m->rng, 5, 45);
	for (int32_t k = 0; n < MOST_ARGS && stk__op_arg_at(def, k, &arg); k++) {
		bool wanted = arg.flags & STK_ACCEPTED   ? chance(&m->rng, 2)
			      : arg.flags & STK_REQUIRED ? chance(&m->rng, 99)
							 : chance(&m->rng, given);
		if (wanted) {
			args[n] = random_arg(m, &arg, n, lists, texts[n]);
			n++;
		}
	}
	return n;
}

/* ---- operators ---- */

static const struct stk_op_def *random_op(struct maker *m)
{
	static const unsigned classes[] = {STK_CLASS_WINDOW | STK_CLASS_FILL, STK_CLASS_SAMPLER, STK_CLASS_POINTWISE};
	unsigned wanted = m->passes && chance(&m->rng, 90) ? classes[test_random(&m->rng) % 3] : 0;
	for (;;) {
		const struct stk_op_def *def = stk__ops[test_random(&m->rng) % stk__op_total];
		if (wanted && (!(def->classes & wanted) || def->fetch))
			continue;
		if (!def->reader && !(def->flags & (STK_OP_CALLBACK | STK_OP_FUNCTION)) && (def->inputs.max > 0 || chance(&m->rng, 20)))
			return def;
	}
}

/* Returns whether a GPU may give other bytes: it has its own math functions, and its NaNs have other bits, which `reinterpret` shows. */
static bool may_differ(const struct stk_op_def *def, const struct stk_arg *args, size_t n)
{
	if (strcmp(def->name, "_arithmetic") != 0)
		return strcmp(def->name, "reinterpret") == 0;
	for (size_t k = 0; k < n; k++)
		if (strcmp(args[k].name, "op") == 0 && args[k].kind == STK_VALUE_STRING && calls_libm(args[k].value.s))
			return true;
	return false;
}

static void add_operator(struct maker *m)
{
	struct lists lists;
	struct stk_arg args[MOST_ARGS];
	struct stk_node inputs[STK_MAX_INPUTS], out;
	char texts[MOST_ARGS][64];
	for (int tries = 0; tries < TRIES; tries++) {
		const struct stk_op_def *def = random_op(m);
		int32_t n_in = test_random_in(
			&m->rng, def->inputs.min, def->inputs.max < def->inputs.min + 2 ? def->inputs.max : def->inputs.min + 2);
		for (int32_t k = 0; k < n_in; k++)
			inputs[k] = m->values[chance(&m->rng, m->passes ? 95 : 70) ? (uint32_t)m->n_values - 1
										   : test_random(&m->rng) % (uint32_t)m->n_values];
		size_t n = random_args(m, def, args, &lists, texts);
		if (m->on_gpu && may_differ(def, args, n))
			continue;
		const struct stk_graph_options o = {
			.device = m->on_gpu && chance(&m->rng, 70) ? STK_DEVICE_GPU : STK_DEVICE_ANY, .when = m->when, .n_when = m->n_when};
		if (stk_graph_add(m->graph, def->name, inputs, (size_t)n_in, args, n, &o, &out, NULL) == STK_OK) {
			keep(m, out);
			return;
		}
	}
}

/* Adds two branches whose condition is a coin, each with up to two operators and perhaps nested branches, and merges their results. If the results' types
 * differ, merges the newest value from before the branches with the second result; if these differ too, merges that value with itself. */
static void add_branches(struct maker *m)
{
	struct stk_node in[3], sides[2];
	const struct stk_graph_options around = {.when = m->when, .n_when = m->n_when};
	int32_t before = m->n_values;
	if (stk_graph_add(m->graph, "random.coin_flip", NULL, 0, NULL, 0, &around, &in[0], NULL) ||
		stk_graph_add(m->graph, "_truth", in, 1, NULL, 0, &around, &in[0], NULL))
		return;
	for (int side = 0; side < 2; side++) {
		m->when[m->n_when++] = (struct stk_condition){in[0], side == 0};
		for (int n = test_random_in(&m->rng, 0, 2); n; n--)
			add_operator(m);
		if (m->n_when < MOST_NESTED && chance(&m->rng, 25))
			add_branches(m);
		m->n_when--;
		sides[side] = m->values[m->n_values - 1];
		m->n_values = before; /* values from inside a branch are only used there */
	}
	in[1] = sides[0];
	in[2] = sides[1];
	for (int tries = 0; tries < 3; tries++) {
		const struct stk_graph_options o = {.when = around.when, .n_when = m->n_when};
		if (stk_graph_add(m->graph, "_merge", in, 3, NULL, 0, &o, &in[0], NULL) == STK_OK) {
			keep(m, in[0]);
			return;
		}
		in[1 + tries % 2] = m->values[before - 1];
	}
}

struct stk_graph *make_random_graph(uint64_t seed, bool on_gpu)
{
	struct maker m = {.rng = seed * 0x9e3779b97f4a7c15u + 1, .on_gpu = on_gpu};
	static const uint8_t hostilities[] = {0, 2, 6, 30};
	for (int i = 0; i < 4; i++)
		test_random(&m.rng);
	m.passes = seed % 5 == 4; /* a fifth of the graphs; seed % 5, because the lower bits of the seed choose how the graph runs */
	m.hostile = hostilities[test_random(&m.rng) % (m.passes ? 2 : sizeof hostilities)];
	if (stk_graph_create(&m.graph, NULL))
		return NULL;
	for (int n = test_random_in(&m.rng, 1, 2); n || !m.n_values; n--)
		chance(&m.rng, 15) ? add_files(&m) : add_tensors(&m);
	int32_t sources = m.n_values;
	for (int n = test_random_in(&m.rng, 1, 7); n; n--)
		add_operator(&m);
	for (int n = seed % 3 ? 0 : 2; n; n--) {
		add_branches(&m);
		add_operator(&m);
	}
	bool any = false;
	for (int32_t v = m.n_values - 1; v >= sources; v--)
		if (!any || chance(&m.rng, 15))
			any |= stk_graph_output(m.graph, m.values[v], NULL) == STK_OK;
	if (!any) {
		stk_graph_destroy(m.graph);
		return NULL;
	}
	return m.graph;
}
