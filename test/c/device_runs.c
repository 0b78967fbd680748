/* SPDX-License-Identifier: Apache-2.0 */
#include "device_runs.h"

#include "test.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- graphs ---- */

#define READER "{\"op\": \"readers.file\", \"args\": {\"file_root\": \"%s\", \"random_shuffle\": true, \"tail\": \"keep\"}}"
#define COIN ", {\"op\": \"random.coin_flip\", \"name\": \"Flip\"}"
#define OP(name, args) ", {\"op\": \"" name "\", " args "}"
#define CORES(i, o) "\"inputs\": [[" #i ", " #o "]], \"args\": "
#define GPU "\"device\": \"gpu\", "
#define FROM(i, o) GPU CORES(i, o)
#define SIZE "\"size\": [24, 32]"
#define NORM "\"mean\": [123.5, 116.25, 103.0], \"std\": [58.0, 57.0, 57.5]"
#define MIRROR "\"mirror\": {\"node\": [1, 0]}"
/* Operators 0 and 1 are the reader and a coin. */
#define GRAPH(ops, outputs) "{\"stoker_graph\": 1, \"operators\": [" READER COIN ops "], \"outputs\": [" outputs "]}"

const struct device_graph device_graphs[] = {
	{"the usual",
		GRAPH(OP("decoders.image_random_crop", FROM(0, 0) "{}") OP("resize", FROM(2, 0) "{" SIZE "}")
				OP("crop_mirror_normalize", FROM(3, 0) "{" MIRROR ", " NORM "}") OP("copy", FROM(0, 1) "{}"),
			"[4, 0], [5, 0]"),
		true},
	{"a value used twice",
		GRAPH(OP("decoders.image", FROM(0, 0) "{}") OP("resize", FROM(2, 0) "{" SIZE "}") OP("crop_mirror_normalize",
			      FROM(3, 0) "{" MIRROR ", " NORM "}") OP("flip", FROM(3, 0) "{}") OP("copy", FROM(3, 0) "{}"),
			"[4, 0], [5, 0], [3, 0], [0, 1], [6, 0]"),
		true},
	{"several decoders of a sample",
		GRAPH(OP("decoders.image_random_crop", FROM(0, 0) "{}") OP("resize", FROM(2, 0) "{" SIZE "}")
				OP("decoders.image", FROM(0, 0) "{\"output_type\": 1}") OP("resize", FROM(4, 0) "{" SIZE "}")
					OP("decoders.image_random_crop", "\"name\": \"Other\", " FROM(0, 0) "{}"),
			"[3, 0], [5, 0], [6, 0]"),
		true},
	{"passes over tensors",
		GRAPH(OP("decoders.image", CORES(0, 0) "{}") OP("copy", FROM(2, 0) "{}")
				OP("resize", FROM(3, 0) "{" SIZE ", \"interp_type\": 3}") OP("color_twist", FROM(4, 0) "{\"hue\": 20.0}")
					OP("crop_mirror_normalize", FROM(5, 0) "{" MIRROR ", " NORM "}"),
			"[6, 0], [4, 0]"),
		false},
	{"unknown shapes",
		GRAPH(OP("decoders.image", FROM(0, 0) "{}") OP("copy", FROM(0, 0) "{}")
				OP("flip", FROM(2, 0) "{\"horizontal\": {\"node\": [1, 0]}}"),
			"[2, 0], [3, 0], [4, 0]"),
		true},
	{"gathered between levels",
		GRAPH(OP("decoders.image", FROM(0, 0) "{}") OP("pad", FROM(2, 0) "{}") OP("one_hot", FROM(0, 1) "{\"num_classes\": 4}"),
			"[3, 0], [4, 0]"),
		true},
	{"arrays",
		GRAPH(OP("decoders.image", FROM(0, 0) "{}") OP("resize", FROM(2, 0) "{" SIZE "}")
				OP("normalize", FROM(3, 0) "{\"axes\": [0, 1]}") OP("transpose", FROM(4, 0) "{\"perm\": [2, 0, 1]}")
					OP("cast", FROM(3, 0) "{\"dtype\": 9}") OP("_arithmetic", GPU
						"\"inputs\": [[6, 0], [4, 0]], \"args\": {\"op\": \"mul\"}") OP("copy", FROM(1, 0) "{}"),
			"[5, 0], [7, 0], [8, 0]"),
		true},
	{"windows and warps",
		GRAPH(OP("decoders.image", FROM(0, 0) "{}") OP("random_crop",
			      FROM(2, 0) "{" SIZE ", \"padding\": [20, 11, 9, 5], \"fill_values\": [9, 8, 7]}") OP("warp_affine",
			      FROM(2, 0) "{\"matrix\": [0.9, 0.2, 3.0, -0.2, 0.9, 5.0], " SIZE ", \"fill_value\": 7.0}"),
			"[3, 0], [4, 0]"),
		true},
	{"passes and labels",
		GRAPH(OP("decoders.image", FROM(0, 0) "{}") OP("resize", FROM(2, 0) "{" SIZE "}") OP("crop_mirror_normalize",
			      FROM(3, 0) "{" MIRROR ", " NORM "}") OP("one_hot", FROM(0, 1) "{\"num_classes\": 4}"),
			"[4, 0], [5, 0]"),
		true},
	{"whole numbers divided by labels",
		GRAPH(OP("constant", "\"args\": {\"idata\": [100], \"shape\": [], \"dtype\": 6}") OP("copy", FROM(0, 1) "{}")
				OP("_arithmetic", GPU "\"inputs\": [[2, 0], [3, 0]], \"args\": {\"op\": \"div\"}"),
			"[4, 0], [0, 1]"),
		false, true},
};
const int n_device_graphs = sizeof device_graphs / sizeof *device_graphs;

const struct device_graph *device_graph(const char *what)
{
	for (int i = 0; i < n_device_graphs; i++)
		if (strcmp(device_graphs[i].what, what) == 0)
			return &device_graphs[i];
	fail_msg("no graph: %s", what);
	return NULL;
}

/* ---- the emulated driver ---- */

void emulate(const char *format, ...)
{
	char words[256];
	va_list ap;
	va_start(ap, format);
	vsnprintf(words, sizeof words, format, ap);
	va_end(ap);
	setenv("STOKER_EMULATED_CUDA", words, 1);
}

/* NULL: the driver is NVIDIA's, or there is none. */
static long (*count_of_driver(void))(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	long (*count)(void) = NULL;
	void *symbol = library ? dlsym(library, "emulated_calls") : NULL;
	memcpy(&count, &symbol, sizeof count);
	if (library)
		dlclose(library);
	return count;
}

bool is_emulated(void)
{
	return count_of_driver() != NULL;
}

long emulated_calls_seen(void)
{
	return count_of_driver()();
}

bool have_device(void)
{
	const struct device_settings s = {.device = 0};
	struct stk_error err = {0};
	struct stk_context *ctx = make_context(1);
	static const char json[] =
		"{\"stoker_graph\": 1, \"operators\": [{\"op\": \"random.coin_flip\"}" OP("copy", FROM(0, 0) "{}") "],"
														   "\"outputs\": [[1, 0]]}";
	struct stk_pipeline *p = try_device_pipeline(ctx, "", json, &s, &err);
	if (!p)
		print_message("no GPU: %s\n", err.message);
	close_pipeline(p, ctx);
	return p != NULL;
}

void need_device(void)
{
	static int have = -1;
	have = have < 0 ? have_device() : have;
	if (!have)
		skip();
}

/* ---- runs ---- */

struct stk_context *make_context(int32_t threads)
{
	struct stk_context *ctx = NULL;
	struct stk_error err = {0};
	const struct stk_context_config c = {.size = sizeof c, .threads = threads ? threads : 2};
	if (stk_context_create(&c, &ctx, &err))
		fail_msg("context: %s", err.message);
	return ctx;
}

struct stk_pipeline *try_device_pipeline(
	struct stk_context *ctx, const char *folder, const char *format, const struct device_settings *s, struct stk_error *err)
{
	char json[8192];
	struct stk_graph *g = NULL;
	struct stk_pipeline *p = NULL;
	const struct stk_pipeline_config c = {.size = sizeof c,
		.batch_size = s->batch ? s->batch : 4,
		.prefetch = s->prefetch,
		.device_id = s->device,
		.seed = 3,
		.on_error = s->on_error,
		.max_errors = 1e9,
		.gpu_memory = s->gpu_memory,
		.max_batches = s->max_batches,
		.no_fuse = s->no_fuse,
		.trace = s->trace ? "" : NULL};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(json, sizeof json, format, folder);
#pragma GCC diagnostic pop
	if (stk_graph_deserialize(json, strlen(json), &g, err) == STK_OK && stk_pipeline_create(ctx, g, &c, &p, err))
		p = NULL;
	stk_graph_destroy(g);
	return p;
}

struct stk_pipeline *make_device_pipeline(struct stk_context *ctx, const char *folder, const char *json, const struct device_settings *s)
{
	struct stk_error err = {0};
	struct stk_pipeline *p = try_device_pipeline(ctx, folder, json, s, &err);
	if (!p)
		fail_msg("%s\n%s", err.message, json);
	return p;
}

static void add_sample(struct device_run *r, struct run_sample s)
{
	r->run.samples = realloc(r->run.samples, (r->run.count + 1) * sizeof s);
	assert_non_null(r->run.samples);
	r->run.samples[r->run.count++] = s;
}

void add_batch_seen(struct device_run *r, struct stk_batch *b)
{
	r->batches++;
	for (int32_t i = 0; i < stk_batch_size(b); i++) {
		const struct stk_sample *s = stk_batch_sample(b, i);
		add_sample(r, (struct run_sample){s->epoch, s->position, s->id, hash_sample(b, i)});
	}
}

static uint64_t hash_text(const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3u;
	return h;
}

bool take_batch(struct stk_pipeline *p, struct device_run *r)
{
	struct stk_batch *b = NULL;
	struct stk_error err = {0};
	enum stk_status s = stk_pipeline_next(p, &b, &err);
	if (s == STK_OK) {
		add_batch_seen(r, b);
	} else if (s != STK_END) {
		r->errors++;
		assert_int_equal(err.code, s);
		assert_true(err.message[0]);
		if (getenv("STOKER_TEST_VERBOSE"))
			print_message("%s\n", err.message);
		add_sample(r, (struct run_sample){s, err.sample, -2, hash_text(err.message)});
	}
	stk_batch_unref(&b);
	return s != STK_END;
}

void leave_epochs(struct stk_pipeline *p, struct device_run *r)
{
	for (int epoch = 0; epoch < 6; epoch++) {
		struct stk_error err = {0};
		for (int k = 0; k < epoch % 4; k++)
			take_batch(p, r);
		if (stk_pipeline_skip_epoch(p, &err))
			fail_msg("%s", err.message);
	}
}

double counter_of(struct stk_pipeline *p, const char *name)
{
	struct stk_counter all[64];
	size_t n = stk_pipeline_counters(p, all, 64);
	for (size_t i = 0; i < n; i++)
		if (strcmp(all[i].name, name) == 0)
			return all[i].value;
	fail_msg("no counter %s", name);
	return 0;
}

/* Which of several decoders of a damaged file fails first is a matter of timing, and so is the message then. */
static void forget_messages(struct device_run *r, const char *json)
{
	const char *first = strstr(json, "\"decoders.");
	if (!first || !strstr(first + 1, "\"decoders."))
		return;
	for (size_t i = 0; i < r->run.count; i++)
		if (r->run.samples[i].id == -2)
			r->run.samples[i].hash = 0;
}

struct device_run run_device(const char *folder, const char *json, const struct device_settings *s, int epochs)
{
	struct device_run r = {0};
	struct stk_context *ctx = make_context(s->threads);
	struct stk_pipeline *p = make_device_pipeline(ctx, folder, json, s);
	while (epochs)
		epochs -= !take_batch(p, &r);
	r.decoded = counter_of(p, "gpu_decodes");
	r.refused = counter_of(p, "gpu_refused");
	close_pipeline(p, ctx);
	forget_messages(&r, json);
	return r;
}

void free_device_run(struct device_run *r)
{
	free(r->run.samples);
	*r = (struct device_run){0};
}

void assert_same_runs(const struct device_run *cores, const struct device_run *gpu, const char *format, ...)
{
	char what[256];
	va_list ap;
	va_start(ap, format);
	vsnprintf(what, sizeof what, format, ap);
	va_end(ap);
	if (cores->run.count != gpu->run.count || cores->batches != gpu->batches || cores->errors != gpu->errors)
		fail_msg("%s: %zu samples in %d batches and %d errors on the cores, %zu in %d and %d on the GPU", what, cores->run.count,
			cores->batches, cores->errors, gpu->run.count, gpu->batches, gpu->errors);
	for (size_t i = 0; i < cores->run.count; i++) {
		const struct run_sample *a = &cores->run.samples[i], *b = &gpu->run.samples[i];
		if (memcmp(a, b, sizeof *a))
			fail_msg("%s: sample %zu is %lld at %lld of epoch %lld on the cores, %lld at %lld of %lld on the GPU%s", what, i,
				(long long)a->id, (long long)a->position, (long long)a->epoch, (long long)b->id, (long long)b->position,
				(long long)b->epoch, a->hash == b->hash ? "" : ", and other bytes (or another message)");
	}
}
