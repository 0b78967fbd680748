/* SPDX-License-Identifier: Apache-2.0
 * Reads a folder of photographs, with a subfolder for each class, and prints a checksum of each batch of one epoch.
 *
 *     batches DIR [BATCH_SIZE] */
#include <stoker/stoker.h>

#include <stdio.h>
#include <stdlib.h>

static enum stk_status build(struct stk_graph *g, const char *dir, struct stk_error *err)
{
	const int64_t size[] = {224, 224};
	const double mean[] = {123.675, 116.28, 103.53}, std[] = {58.395, 57.12, 57.375};
	const struct stk_arg reader[] = {
		stk_arg_string("file_root", dir), stk_arg_bool("random_shuffle", true), stk_arg_string("tail", "keep")};
	const struct stk_arg resize[] = {stk_arg_list("size", STK_VALUE_INTS, size, 2)};
	struct stk_node file, image, flip;
	enum stk_status s;
	if ((s = stk_graph_add(g, "readers.file", NULL, 0, reader, 3, NULL, &file, err)) ||
		(s = stk_graph_add(g, "decoders.image_random_crop", &file, 1, NULL, 0, NULL, &image, err)) ||
		(s = stk_graph_add(g, "resize", &image, 1, resize, 1, NULL, &image, err)) ||
		(s = stk_graph_add(g, "random.coin_flip", NULL, 0, NULL, 0, NULL, &flip, err)))
		return s;
	const struct stk_arg normalize[] = {stk_arg_node("mirror", flip), stk_arg_list("mean", STK_VALUE_FLOATS, mean, 3),
		stk_arg_list("std", STK_VALUE_FLOATS, std, 3)};
	if ((s = stk_graph_add(g, "crop_mirror_normalize", &image, 1, normalize, 3, NULL, &image, err)) ||
		(s = stk_graph_output(g, image, err)))
		return s;
	return stk_graph_output(g, (struct stk_node){file.op, 1}, err);
}

static void print_batch(const struct stk_batch *batch)
{
	const struct stk_tensor_list *images = stk_batch_output(batch, 0), *labels = stk_batch_output(batch, 1);
	double sum = 0;
	for (int32_t i = 0; i < images->count; i++)
		for (int64_t k = 0; k < stk_desc_elements(&images->samples[i].desc); k++)
			sum += ((const float *)images->samples[i].data)[k];
	int64_t label_sum = 0;
	for (int32_t i = 0; i < labels->count; i++)
		label_sum += *(const int32_t *)labels->samples[i].data;
	printf("batch %lld: %d images, sum %.6e, labels %lld, first %s\n", (long long)stk_batch_step(batch), images->count, sum,
		(long long)label_sum, stk_batch_sample(batch, 0)->uri);
}

int main(int argc, char **argv)
{
	struct stk_error err = {0};
	struct stk_context *ctx = NULL;
	struct stk_graph *g = NULL;
	struct stk_pipeline *p = NULL;
	struct stk_batch *batch;
	enum stk_status s;
	if (argc < 2) {
		fprintf(stderr, "usage: %s DIR [BATCH_SIZE]\n", argv[0]);
		return 2;
	}
	const struct stk_pipeline_config config = {.size = sizeof config, .batch_size = argc > 2 ? atoi(argv[2]) : 32, .device_id = -1};
	if ((s = stk_context_create(NULL, &ctx, &err)) || (s = stk_graph_create(&g, &err)) || (s = build(g, argv[1], &err)) ||
		(s = stk_pipeline_create(ctx, g, &config, &p, &err)))
		goto out;
	while ((s = stk_pipeline_next(p, &batch, &err)) == STK_OK) {
		print_batch(batch);
		stk_batch_unref(&batch);
	}
out:
	if (s != STK_END)
		fprintf(stderr, "%s\n", err.message);
	stk_pipeline_destroy(p);
	stk_graph_destroy(g);
	stk_context_unref(&ctx);
	return s != STK_END;
}
