/* SPDX-License-Identifier: Apache-2.0 */
#include "pipelines.h"

#include "graphs.h"
#include "image_files.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLASSES = 3 };

void file_path(const char *folder, int i, char *path, size_t capacity)
{
	snprintf(path, capacity, "%s/class%d/%05d.jpg", folder, i % CLASSES, i);
}

char *make_folder(int files, uint64_t seed)
{
	char path[512], name[256];
	const char *root = getenv("TMPDIR");
	snprintf(name, sizeof name, "%s/stoker-test-XXXXXX", root && root[0] ? root : "/tmp");
	char *folder = mkdtemp(name) ? strdup(name) : NULL;
	for (int c = 0; folder && c < CLASSES; c++) {
		snprintf(path, sizeof path, "%s/class%d", folder, c);
		mkdir(path, 0700);
	}
	for (int i = 0; folder && i < files; i++) {
		struct test_jpeg j = {.width = test_random_in(&seed, 40, 160),
			.height = test_random_in(&seed, 40, 160),
			.components = 3,
			.quality = 90,
			.noise = 0.2,
			.seed = (uint64_t)i};
		j.h[0] = j.v[0] = i % 4 ? 2 : 1;
		struct test_file f = test_jpeg_make(&j);
		file_path(folder, i, path, sizeof path);
		FILE *out = fopen(path, "wb");
		assert_non_null(out);
		assert_int_equal(fwrite(f.data, 1, f.size, out), f.size);
		fclose(out);
		free(f.data);
	}
	return folder;
}

void remove_folder(char *folder)
{
	char command[600];
	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	if (system(command))
		print_error("%s could not be removed\n", folder);
	free(folder);
}

static struct stk_graph *make_graph(const char *folder, const struct options *o)
{
	struct stk_graph *g = new_graph();
	struct value file = ADD(g, "readers.file",
		.args = {stk_arg_string("file_root", folder), stk_arg_bool("random_shuffle", !o->in_order), stk_arg_string("tail", o->tail),
			stk_arg_int("num_shards", o->ranks ? o->ranks : 1), stk_arg_int("shard_id", o->rank)});
	struct value image = ADD(g, o->whole ? "decoders.image" : "decoders.image_random_crop", .in = {file});
	image = ADD(g, "resize", .in = {image}, .args = {INTS("size", 24, 32)});
	struct value flip = ADD(g, "random.coin_flip", .name = NULL);
	image = ADD(g, "crop_mirror_normalize", .in = {image},
		.args = {stk_arg_node("mirror", flip.node), FLOATS("mean", 120, 110, 100), FLOATS("std", 60, 55, 50)});
	OUTPUTS(g, image, output_of(file, 1));
	return g;
}

struct stk_pipeline *open_pipeline(const char *folder, const struct options *o, struct stk_context **ctx)
{
	struct stk_error err = {0};
	const struct stk_context_config cc = {.size = sizeof cc, .threads = o->threads};
	assert_int_equal(stk_context_create(&cc, ctx, &err), STK_OK);
	struct stk_graph *g = make_graph(folder, o);
	const struct stk_pipeline_config pc = {.size = sizeof pc,
		.batch_size = o->batch,
		.prefetch = o->prefetch,
		.device_id = -1,
		.seed = o->seed,
		.on_error = o->on_error,
		.max_errors = o->max_errors,
		.max_batches = o->max_batches,
		.read_requests = o->read_requests,
		.no_fuse = o->no_fuse,
		.epoch_by_epoch = o->epoch_by_epoch,
		.trace = o->trace ? "" : NULL};
	struct stk_pipeline *p = NULL;
	if (stk_pipeline_create(*ctx, g, &pc, &p, &err))
		fail_msg("pipeline: %s", err.message);
	stk_graph_destroy(g);
	return p;
}

void close_pipeline(struct stk_pipeline *p, struct stk_context *ctx)
{
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
}

static uint64_t hash_bytes(uint64_t h, const uint8_t *p, int64_t n)
{
	for (int64_t k = 0; k < n; k++)
		h = (h ^ p[k]) * 0x100000001b3u;
	return h;
}

static uint64_t hash_on_gpu(uint64_t h, struct stk_batch *b, int32_t o, int32_t i)
{
	struct stk_error err = {0};
	int64_t bytes = stk_desc_bytes(&stk_batch_output(b, o)->samples[i].desc);
	uint8_t *copy = malloc((size_t)bytes + 1);
	assert_non_null(copy);
	if (stk_batch_copy(b, o, i, copy, (size_t)bytes, &err))
		fail_msg("a copy from the GPU: %s", err.message);
	h = hash_bytes(h, copy, bytes);
	free(copy);
	return h;
}

uint64_t hash_sample(struct stk_batch *b, int32_t i)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (int32_t o = 0; o < stk_batch_outputs(b); o++) {
		const struct stk_tensor_list *l = stk_batch_output(b, o);
		const struct stk_tensor *t = &l->samples[i];
		h = hash_bytes(h, (const uint8_t *)t->desc.shape, t->desc.ndim * (int64_t)sizeof *t->desc.shape);
		h = l->device_id < 0 ? hash_bytes(h, t->data, stk_desc_bytes(&t->desc)) : hash_on_gpu(h, b, o, i);
	}
	return h;
}

static void add_batch(struct run *r, struct stk_batch *b)
{
	r->samples = realloc(r->samples, (r->count + (size_t)stk_batch_size(b) + 1) * sizeof *r->samples);
	assert_non_null(r->samples);
	for (int32_t i = 0; i < stk_batch_size(b); i++) {
		const struct stk_sample *s = stk_batch_sample(b, i);
		if (!s->padded)
			r->samples[r->count++] = (struct run_sample){s->epoch, s->position, s->id, hash_sample(b, i)};
	}
}

struct run drain_epochs(struct stk_pipeline *p, int epochs)
{
	struct run r = {0};
	struct stk_error err = {0};
	while (epochs) {
		struct stk_batch *b = NULL;
		enum stk_status s = stk_pipeline_next(p, &b, &err);
		if (s == STK_END)
			epochs--;
		else if (s)
			fail_msg("%s: %s", stk_status_name(s), err.message);
		else
			add_batch(&r, b);
		stk_batch_unref(&b);
	}
	return r;
}

struct run run_epochs(const char *folder, const struct options *o, int epochs)
{
	struct stk_context *ctx;
	struct stk_pipeline *p = open_pipeline(folder, o, &ctx);
	struct run r = drain_epochs(p, epochs);
	close_pipeline(p, ctx);
	return r;
}

struct run resume_epoch(const char *folder, const struct options *o, const char *state)
{
	struct stk_context *ctx;
	struct stk_error err = {0};
	struct stk_pipeline *p = open_pipeline(folder, o, &ctx);
	if (stk_pipeline_restore(p, state, strlen(state), &err))
		fail_msg("restore: %s", err.message);
	struct run r = drain_epochs(p, 1);
	close_pipeline(p, ctx);
	return r;
}

double pipeline_counter(struct stk_pipeline *p, const char *name)
{
	struct stk_counter all[64];
	size_t n = stk_pipeline_counters(p, all, 64);
	for (size_t i = 0; i < n; i++)
		if (strcmp(all[i].name, name) == 0)
			return all[i].value;
	fail_msg("no counter %s", name);
	return 0;
}
