/* SPDX-License-Identifier: Apache-2.0 */
#include "device_runs.h"

#include "test.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- graphs ---- */

static struct stk_graph *the_usual(const char *folder)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image_random_crop", .in = {in.file}, .gpu = true);
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 32)}, .gpu = true);
	struct value normalized =
		ADD(in.g, "crop_mirror_normalize", .in = {resized}, .args = {stk_arg_node("mirror", in.flip.node), NORM}, .gpu = true);
	struct value copied = ADD(in.g, "copy", .in = {in.label}, .gpu = true);
	OUTPUTS(in.g, normalized, copied);
	return in.g;
}

static struct stk_graph *a_value_used_twice(const char *folder)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file}, .gpu = true);
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 32)}, .gpu = true);
	struct value normalized =
		ADD(in.g, "crop_mirror_normalize", .in = {resized}, .args = {stk_arg_node("mirror", in.flip.node), NORM}, .gpu = true);
	struct value flipped = ADD(in.g, "flip", .in = {resized}, .gpu = true);
	struct value copied = ADD(in.g, "copy", .in = {resized}, .gpu = true);
	OUTPUTS(in.g, normalized, flipped, resized, in.label, copied);
	return in.g;
}

static struct stk_graph *several_decoders_of_a_sample(const char *folder)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image_random_crop", .in = {in.file}, .gpu = true);
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 32)}, .gpu = true);
	struct value image_2 = ADD(in.g, "decoders.image", .in = {in.file}, .args = {stk_arg_int("output_type", 1)}, .gpu = true);
	struct value resized_2 = ADD(in.g, "resize", .in = {image_2}, .args = {INTS("size", 24, 32)}, .gpu = true);
	struct value image_3 = ADD(in.g, "decoders.image_random_crop", .name = "Other", .in = {in.file}, .gpu = true);
	OUTPUTS(in.g, resized, resized_2, image_3);
	return in.g;
}

static struct stk_graph *passes_over_tensors(const char *folder)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file});
	struct value copied = ADD(in.g, "copy", .in = {image}, .gpu = true);
	struct value resized =
		ADD(in.g, "resize", .in = {copied}, .args = {INTS("size", 24, 32), stk_arg_int("interp_type", 3)}, .gpu = true);
	struct value twisted = ADD(in.g, "color_twist", .in = {resized}, .args = {stk_arg_float("hue", 20.0)}, .gpu = true);
	struct value normalized =
		ADD(in.g, "crop_mirror_normalize", .in = {twisted}, .args = {stk_arg_node("mirror", in.flip.node), NORM}, .gpu = true);
	OUTPUTS(in.g, normalized, resized);
	return in.g;
}

static struct stk_graph *unknown_shapes(const char *folder)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file}, .gpu = true);
	struct value copied = ADD(in.g, "copy", .in = {in.file}, .gpu = true);
	struct value flipped = ADD(in.g, "flip", .in = {image}, .args = {stk_arg_node("horizontal", in.flip.node)}, .gpu = true);
	OUTPUTS(in.g, image, copied, flipped);
	return in.g;
}

static struct stk_graph *gathered_between_levels(const char *folder)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file}, .gpu = true);
	struct value padded = ADD(in.g, "pad", .in = {image}, .gpu = true);
	struct value classes = ADD(in.g, "one_hot", .in = {in.label}, .args = {stk_arg_int("num_classes", 4)}, .gpu = true);
	OUTPUTS(in.g, padded, classes);
	return in.g;
}

static struct stk_graph *arrays(const char *folder)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file}, .gpu = true);
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 32)}, .gpu = true);
	struct value normalized = ADD(in.g, "normalize", .in = {resized}, .args = {INTS("axes", 0, 1)}, .gpu = true);
	struct value planes = ADD(in.g, "transpose", .in = {normalized}, .args = {INTS("perm", 2, 0, 1)}, .gpu = true);
	struct value whole = ADD(in.g, "cast", .in = {resized}, .args = {stk_arg_int("dtype", 9)}, .gpu = true);
	struct value product = ADD(in.g, "_arithmetic", .in = {whole, normalized}, .args = {stk_arg_string("op", "mul")}, .gpu = true);
	struct value copied = ADD(in.g, "copy", .in = {in.flip}, .gpu = true);
	OUTPUTS(in.g, planes, product, copied);
	return in.g;
}

static struct stk_graph *windows_and_warps(const char *folder)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file}, .gpu = true);
	struct value window = ADD(in.g, "random_crop", .in = {image},
		.args = {INTS("size", 24, 32), INTS("padding", 20, 11, 9, 5), INTS("fill_values", 9, 8, 7)}, .gpu = true);
	struct value warped = ADD(in.g, "warp_affine", .in = {image},
		.args = {FLOATS("matrix", 0.9, 0.2, 3.0, -0.2, 0.9, 5.0), INTS("size", 24, 32), stk_arg_float("fill_value", 7.0)},
		.gpu = true);
	OUTPUTS(in.g, window, warped);
	return in.g;
}

static struct stk_graph *passes_and_labels(const char *folder)
{
	struct begun in = begin_graph(folder);
	struct value image = ADD(in.g, "decoders.image", .in = {in.file}, .gpu = true);
	struct value resized = ADD(in.g, "resize", .in = {image}, .args = {INTS("size", 24, 32)}, .gpu = true);
	struct value normalized =
		ADD(in.g, "crop_mirror_normalize", .in = {resized}, .args = {stk_arg_node("mirror", in.flip.node), NORM}, .gpu = true);
	struct value classes = ADD(in.g, "one_hot", .in = {in.label}, .args = {stk_arg_int("num_classes", 4)}, .gpu = true);
	OUTPUTS(in.g, normalized, classes);
	return in.g;
}

static struct stk_graph *whole_numbers_divided_by_labels(const char *folder)
{
	struct begun in = begin_graph(folder);
	struct value hundred = ADD(
		in.g, "constant", .args = {INTS("idata", 100), stk_arg_list("shape", STK_VALUE_INTS, NULL, 0), stk_arg_int("dtype", 6)});
	struct value copied = ADD(in.g, "copy", .in = {in.label}, .gpu = true);
	struct value product = ADD(in.g, "_arithmetic", .in = {hundred, copied}, .args = {stk_arg_string("op", "div")}, .gpu = true);
	OUTPUTS(in.g, product, in.label);
	return in.g;
}

const struct device_graph device_graphs[] = {
	{"the usual", the_usual, true},
	{"a value used twice", a_value_used_twice, true},
	{"several decoders of a sample", several_decoders_of_a_sample, true},
	{"passes over tensors", passes_over_tensors, false},
	{"unknown shapes", unknown_shapes, true},
	{"gathered between levels", gathered_between_levels, true},
	{"arrays", arrays, true},
	{"windows and warps", windows_and_warps, true},
	{"passes and labels", passes_and_labels, true},
	{"whole numbers divided by labels", whole_numbers_divided_by_labels, false, true},
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

/* Finds the function emulated_calls of the emulated driver; returns NULL if the driver is NVIDIA's or missing. */
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
	struct stk_graph *g = new_graph();
	struct value coin = ADD(g, "random.coin_flip", .gpu = false);
	OUTPUTS(g, ADD(g, "copy", .in = {coin}, .gpu = true));
	struct stk_pipeline *p = try_device_pipeline(ctx, g, &s, &err);
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
	struct stk_context *ctx, struct stk_graph *g, const struct device_settings *s, struct stk_error *err)
{
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
		.decode = s->decode,
		.no_fuse = s->no_fuse,
		.trace = s->trace ? "" : NULL};
	if (stk_pipeline_create(ctx, g, &c, &p, err))
		p = NULL;
	stk_graph_destroy(g);
	return p;
}

struct stk_pipeline *make_device_pipeline(struct stk_context *ctx, struct stk_graph *g, const struct device_settings *s)
{
	struct stk_error err = {0};
	struct stk_pipeline *p = try_device_pipeline(ctx, g, s, &err);
	if (!p)
		fail_msg("%s", err.message);
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

static bool has_several_decoders(const struct stk_graph *g)
{
	char *text = NULL;
	assert_int_equal(stk_graph_serialize(g, &text, NULL), STK_OK);
	const char *first = strstr(text, "\"decoders.");
	bool several = first && strstr(first + 1, "\"decoders.");
	stk_text_free(text);
	return several;
}

/* Sets the hashes of messages to 0. If several decoders read a damaged file, timing decides which one fails first, and so which message is reported. */
static void forget_messages(struct device_run *r)
{
	for (size_t i = 0; i < r->run.count; i++)
		if (r->run.samples[i].id == -2)
			r->run.samples[i].hash = 0;
}

struct device_run run_device(struct stk_graph *g, const struct device_settings *s, int epochs)
{
	bool several = has_several_decoders(g);
	struct device_run r = {0};
	struct stk_context *ctx = make_context(s->threads);
	struct stk_pipeline *p = make_device_pipeline(ctx, g, s);
	while (epochs)
		epochs -= !take_batch(p, &r);
	r.decoded = counter_of(p, "gpu_decodes");
	r.refused = counter_of(p, "gpu_refused");
	r.spare = counter_of(p, "core_decodes");
	close_pipeline(p, ctx);
	if (several)
		forget_messages(&r);
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
