/* SPDX-License-Identifier: Apache-2.0
 * stoker run: runs a pipeline from its JSON, without Python. */
#include "output.h"
#include "progress.h"
#include "session.h"

#include <inttypes.h>
#include <stdio.h>

struct totals {
	int64_t batches, samples, bytes, epochs;
	uint64_t checksum;
	double wall, cpu;
};

/* Continues an FNV-1a hash over `size` bytes, and returns it. The hash of all samples shows whether two runs gave the same numbers. */
static uint64_t hash_bytes(uint64_t hash, const void *data, int64_t size)
{
	const uint8_t *bytes = data;
	for (int64_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
	return hash;
}

static enum stk_status hash_output(struct stk_batch *batch, int32_t output, uint64_t *hash, struct stk_error *err)
{
	const struct stk_tensor_list *list = stk_batch_output(batch, output);
	struct stk_batch *host = NULL;
	enum stk_status status = STK_OK;
	if (list->device_id >= 0)
		status = stk_batch_to_host(batch, output, -1, &host, err);
	list = host ? stk_batch_output(host, 0) : list;
	for (int32_t i = 0; status == STK_OK && i < list->count; i++)
		*hash = hash_bytes(*hash, list->samples[i].data, stk_desc_bytes(&list->samples[i].desc));
	stk_batch_unref(&host);
	return status;
}

static enum stk_status count_batch(struct stk_batch *batch, bool checksum, struct totals *totals, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	totals->batches++;
	totals->samples += stk_batch_size(batch);
	for (int32_t output = 0; status == STK_OK && output < stk_batch_outputs(batch); output++) {
		const struct stk_tensor_list *list = stk_batch_output(batch, output);
		for (int32_t i = 0; i < list->count; i++)
			totals->bytes += stk_desc_bytes(&list->samples[i].desc);
		if (checksum)
			status = hash_output(batch, output, &totals->checksum, err);
	}
	return status;
}

/* Runs until s->epochs epochs (1 if not given) or s->steps batches are complete, whichever comes first. */
static enum stk_status run_batches(struct session *session, const struct settings *s, struct totals *totals, struct stk_error *err)
{
	int64_t epochs = s->epochs ? s->epochs : 1;
	struct stk_reader_meta meta;
	struct progress progress;
	enum stk_status status = STK_OK;
	int64_t total = s->steps;
	bool wraps = false; /* true if the reader starts the next epoch by itself, without STK_END */
	if (stk_pipeline_readers(session->pipeline) > 0 && stk_pipeline_reader_meta(session->pipeline, NULL, &meta, err) == STK_OK) {
		total = total ? total : meta.steps * epochs;
		wraps = meta.wraps;
	}
	progress_begin(&progress, "batches", total, s->quiet || s->json);
	while (totals->epochs < epochs && (!s->steps || totals->batches < s->steps)) {
		struct stk_batch *batch = NULL;
		status = next_batch(session, &batch, err);
		if (status == STK_END) {
			totals->epochs++;
			status = STK_OK;
			continue;
		}
		if (status != STK_OK)
			break;
		status = count_batch(batch, s->checksum, totals, err);
		totals->epochs += wraps && stk_batch_is_last(batch);
		stk_batch_unref(&batch);
		if (status != STK_OK)
			break;
		progress_update(&progress, totals->batches);
	}
	progress_end(&progress);
	return status;
}

static int report(const struct settings *s, const struct totals *t)
{
	double rate = t->wall > 0 ? (double)t->samples / t->wall : 0, cost = t->samples ? 1000 * t->cpu / (double)t->samples : 0;
	if (!s->json) {
		printf("%" PRId64 " %s in %" PRId64 " %s, %.2f s: %.0f samples/s, %.3f CPU-seconds per 1000 samples\n", t->samples,
			noun(t->samples, "sample", "samples"), t->batches, noun(t->batches, "batch", "batches"), t->wall, rate, cost);
		if (s->checksum)
			printf("checksum %016" PRIx64 "\n", t->checksum);
		return EXIT_FINE;
	}
	json_t *o = json_object();
	put_int(o, "epochs", t->epochs);
	put_int(o, "batches", t->batches);
	put_int(o, "samples", t->samples);
	put_int(o, "bytes", t->bytes);
	put_real(o, "seconds", t->wall);
	put_real(o, "samples_per_s", rate);
	put_real(o, "cpu_s_per_1000", cost);
	if (s->checksum) {
		char text[17];
		snprintf(text, sizeof(text), "%016" PRIx64, t->checksum);
		put_text(o, "checksum", text);
	}
	return print_json(o);
}

static int run_run(const struct settings *s)
{
	struct session session;
	struct totals totals = {.checksum = UINT64_C(14695981039346656037)};
	struct stk_error err = {0};
	int code = EXIT_PROBLEM;
	double wall = wall_seconds(), cpu = cpu_seconds();
	if (!makes_pipeline("run", s->args[0]))
		return EXIT_PROBLEM;
	if (open_session(&session, "run", s->args[0], GRAPH_TRAIN, s)) {
		enum stk_status status = run_batches(&session, s, &totals, &err);
		totals.wall = wall_seconds() - wall;
		totals.cpu = cpu_seconds() - cpu;
		if (status == STK_CANCELLED)
			fprintf(stderr, "stoker run: interrupted; this is what came so far\n");
		code = status == STK_OK || status == STK_CANCELLED ? report(s, &totals) : fail_at(&session, s->args[0], &err);
		if (status == STK_CANCELLED && code == EXIT_FINE)
			code = EXIT_INTERRUPTED;
	}
	close_session(&session);
	return code;
}

static const struct option options[] = {OPTION_BATCH, OPTION_THREADS, OPTION_DEVICE,
	OPTION_INT_OF("epochs", 'e', epochs, 1, 1e9, "Epochs to run (default 1)."),
	OPTION_INT_OF("steps", 'n', steps, 1, 1e12, "Stop after N batches."),
	OPTION_INT_OF("seed", 0, seed, 0, 9e15, "Seed of the augmentation."),
	OPTION_FLAG_OF("checksum", 0, checksum, "Print a checksum of all outputs."), OPTION_QUIET, OPTION_JSON, {0}};

const struct command command_run = {
	.name = "run",
	.summary = "runs a pipeline from its JSON, and counts its batches and samples",
	.usage = "PIPELINE.json|DIR|TAR|INDEX|s3://BUCKET/PREFIX",
	.details =
		"Runs a pipeline that Pipeline.serialize or stk_graph_serialize wrote, or, for a DIR, TAR, INDEX or prefix, the usual "
		"training pipeline over its images; its last batch is filled up with further images. The checksum does not depend on the "
		"number of threads, fusion, the device (cores or GPU) or the machine.",
	.example = "stoker run pipeline.json --batch 256 --checksum",
	.options = options,
	.arg = "PIPELINE.json or DIR",
	.min_args = 1,
	.max_args = 1,
	.run = run_run,
};
