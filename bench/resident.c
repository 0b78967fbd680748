/* SPDX-License-Identifier: Apache-2.0
 * Measures the host's work for a batch if the data set is stored on the GPU: batches of CIFAR's training images, cropped, mirrored and normalised.
 *
 *     resident FOLDER [BATCHES [BATCH [DEVICE]]]
 *
 * Prints microseconds of wall clock and of processor time per batch (DEVICE -1: on the CPU). If the CUDA driver is the emulated one, run the program with
 * STOKER_EMULATED_CUDA=idle: kernels then do nothing, so that only the host's work is measured.
 * To count the instructions per batch, compare two runs of different lengths under valgrind --tool=callgrind. */
#include "stoker/stoker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(enum stk_status s, const struct stk_error *err)
{
	if (s) {
		fprintf(stderr, "resident: %s\n", err->message);
		exit(1);
	}
}

static double seconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct stk_pipeline *open_pipeline(struct stk_context *ctx, const char *folder, int32_t batch, int32_t device)
{
	static const char graph[] =
		"{\"stoker_graph\": 1, \"operators\": [{\"op\": \"readers.cifar\", \"args\": {\"root\": \"%s\", \"random_shuffle\": true, "
		"\"tail\": \"drop\"}}, {\"op\": \"random.coin_flip\"}, {\"op\": \"cast\", \"inputs\": [[0, 1]], \"args\": {\"dtype\": 7}}, "
		"{\"op\": \"copy\", \"device\": \"gpu\", \"inputs\": [[2, 0]]}, {\"op\": \"random_crop\", \"device\": \"gpu\", "
		"\"inputs\": [[0, 0]], \"args\": {\"size\": [32, 32], \"padding\": [4, 4, 4, 4]}}, {\"op\": \"flip\", \"device\": \"gpu\", "
		"\"inputs\": [[4, 0]], \"args\": {\"horizontal\": {\"node\": [1, 0]}}}, {\"op\": \"crop_mirror_normalize\", \"device\": "
		"\"gpu\", \"inputs\": [[5, 0]], \"args\": {\"mean\": [125.3, 123.0, 113.9], \"std\": [63.0, 62.1, 66.7], \"dtype\": 8, "
		"\"output_layout\": \"HWC\"}}], \"outputs\": [[6, 0], [3, 0]]}";
	char json[4096];
	struct stk_graph *g = NULL;
	struct stk_pipeline *p = NULL;
	struct stk_error err = {0};
	const struct stk_pipeline_config c = {.size = sizeof c, .batch_size = batch, .device_id = device};
	snprintf(json, sizeof json, graph, folder);
	check(stk_graph_deserialize(json, strlen(json), &g, &err), &err);
	check(stk_pipeline_create(ctx, g, &c, &p, &err), &err);
	stk_graph_destroy(g);
	return p;
}

int main(int argc, char **argv)
{
	enum { WARM = 20 };
	if (argc < 2) {
		fprintf(stderr, "usage: resident FOLDER [BATCHES [BATCH [DEVICE]]]\n");
		return 2;
	}
	int batches = argc > 2 ? atoi(argv[2]) : 2000, batch = argc > 3 ? atoi(argv[3]) : 1000;
	struct stk_error err = {0};
	struct stk_context *ctx = NULL;
	const struct stk_context_config c = {.size = sizeof c, .threads = 2};
	check(stk_context_create(&c, &ctx, &err), &err);
	struct stk_pipeline *p = open_pipeline(ctx, argv[1], batch, argc > 4 ? atoi(argv[4]) : 0);
	double wall = 0, cpu = 0;
	for (int k = 0; k < WARM + batches; k++) {
		struct stk_batch *b = NULL;
		if (k == WARM) {
			wall = seconds(CLOCK_MONOTONIC);
			cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
		}
		enum stk_status s = stk_pipeline_next(p, &b, &err);
		if (s != STK_END)
			check(s, &err);
		if (s == STK_OK)
			check(stk_batch_use_stream(b, 0, &err), &err);
		stk_batch_unref(&b);
	}
	printf("%.2f us a batch, %.2f of processor time\n", 1e6 * (seconds(CLOCK_MONOTONIC) - wall) / batches,
		1e6 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / batches);
	stk_pipeline_destroy(p);
	stk_context_unref(&ctx);
	return 0;
}
