/* SPDX-License-Identifier: Apache-2.0
 * stoker bench: what these files and these cores can do, with libjpeg-turbo's ceiling beside it. Slices of both alternate, and the median of
 * their ratios is reported: machines are noisy, ratios within a second are not. */
#include "ceiling.h"
#include "output.h"
#include "progress.h"
#include "session.h"
#include "store.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define ROUNDS 5

/* One slice's work. */
struct slice {
	int64_t images, page_faults;
	double wall, cpu;
};

struct bench {
	struct session session;
	struct ceiling ceiling;
	bool has_ceiling;
	int64_t files;
	struct slice ours[ROUNDS], theirs[ROUNDS];
	double shares[ROUNDS]; /* of the ceiling, per CPU-second */
	int rounds;
	struct store_look begin, end; /* of the rounds */
};

static int64_t page_faults(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* Waits until the pipeline has filled its slots and is idle, so that a slice measures its own work alone. Returns when it became idle. */
static double wait_idle(void)
{
	const struct timespec nap = {.tv_nsec = 5 * 1000 * 1000};
	double began = wall_seconds();
	for (double before = cpu_seconds();;) {
		nanosleep(&nap, NULL);
		double now = cpu_seconds();
		if (now - before < 0.0005)
			return began;
		began = wall_seconds();
		before = now;
	}
}

/* Takes batches until `images` have come. */
static enum stk_status take_images(struct stk_pipeline *p, int64_t images, int64_t *taken, struct stk_error *err)
{
	int ends = 0;
	for (*taken = 0; *taken < images;) {
		struct stk_batch *batch = NULL;
		enum stk_status status = stk_pipeline_next(p, &batch, err);
		if (status == STK_END && ++ends < 3) /* three in a row: epochs have no batches */
			continue;
		ends = 0;
		if (status != STK_OK)
			return status;
		*taken += stk_batch_size(batch);
		stk_batch_unref(&batch);
	}
	return STK_OK;
}

static enum stk_status run_ours(struct bench *b, int64_t images, struct slice *slice, struct stk_error *err)
{
	double wall = wall_seconds(), cpu = cpu_seconds();
	int64_t faults = page_faults();
	enum stk_status status = take_images(b->session.pipeline, images, &slice->images, err);
	/* A store answers while nobody works, so that waiting for idleness would give it time that is not counted. */
	slice->wall = (store_look(b->session.pipeline).requests > 0 ? wall_seconds() : wait_idle()) - wall;
	slice->cpu = cpu_seconds() - cpu;
	slice->page_faults = page_faults() - faults;
	return status;
}

static void run_theirs(struct bench *b, int64_t images, struct slice *slice)
{
	double wall = wall_seconds(), cpu = cpu_seconds();
	slice->images = ceiling_run(&b->ceiling, images);
	slice->wall = wall_seconds() - wall;
	slice->cpu = cpu_seconds() - cpu;
}

static double rate(const struct slice *s)
{
	return s->wall > 0 ? (double)s->images / s->wall : 0;
}

static double cost(const struct slice *s)
{
	return s->images ? 1000 * s->cpu / (double)s->images : NAN;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Median of n values (n <= ROUNDS); they are left as they are. */
static double median(const double *values, int n)
{
	double sorted[ROUNDS] = {0};
	if (n == 0)
		return NAN;
	for (int i = 0; i < n; i++)
		sorted[i] = values[i];
	qsort(sorted, (size_t)n, sizeof(*sorted), by_size);
	return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

static double median_of(const struct slice *slices, int n, double (*value)(const struct slice *))
{
	double values[ROUNDS] = {0};
	for (int i = 0; i < n; i++)
		values[i] = value(&slices[i]);
	return median(values, n);
}

static enum stk_status run_rounds(struct bench *b, double seconds, bool quiet, struct stk_error *err)
{
	struct progress progress;
	struct slice warm;
	enum stk_status status = run_ours(b, 512, &warm, err);
	if (status == STK_OK)
		status = run_ours(b, 256, &warm, err);
	int64_t images = (int64_t)fmax(128, rate(&warm) * seconds / (2 * ROUNDS));
	if (b->has_ceiling)
		ceiling_run(&b->ceiling, 256);
	progress_begin(&progress, "rounds", ROUNDS, quiet);
	b->begin = store_look(b->session.pipeline);
	for (b->rounds = 0; status == STK_OK && b->rounds < ROUNDS;) {
		struct slice *ours = &b->ours[b->rounds], *theirs = &b->theirs[b->rounds];
		status = run_ours(b, images, ours, err);
		if (b->has_ceiling)
			run_theirs(b, images, theirs);
		b->shares[b->rounds] = b->has_ceiling ? cost(theirs) / cost(ours) : NAN;
		progress_update(&progress, ++b->rounds);
	}
	progress_end(&progress);
	b->end = store_look(b->session.pipeline);
	return status;
}

static json_t *slices_json(const struct slice *slices, int n)
{
	json_t *o = json_object();
	put_real(o, "images_per_s", median_of(slices, n, rate));
	put_real(o, "cpu_s_per_1000", median_of(slices, n, cost));
	put_int(o, "images_per_slice", n ? slices[0].images : 0);
	return o;
}

static int print_as_json(const struct bench *b)
{
	struct stk_counter counters[128];
	size_t n = stk_pipeline_counters(b->session.pipeline, counters, 128);
	int64_t images = 0, faults = 0;
	json_t *o = json_object(), *all = json_object();
	put_int(o, "files", b->files);
	put_int(o, "threads", stk_context_threads(b->session.ctx));
	if (b->session.device_id >= 0)
		put_int(o, "device", b->session.device_id);
	put_int(o, "rounds", b->rounds);
	json_object_set_new(o, "stoker", slices_json(b->ours, b->rounds));
	if (b->has_ceiling) {
		json_t *shares = json_array();
		for (int i = 0; i < b->rounds; i++)
			json_array_append_new(shares, json_real(b->shares[i]));
		json_object_set_new(o, "libjpeg_turbo", slices_json(b->theirs, b->rounds));
		put_real(o, "share_of_ceiling", median(b->shares, b->rounds));
		json_object_set_new(o, "shares", shares);
	}
	for (int i = 0; i < b->rounds; i++) {
		images += b->ours[i].images;
		faults += b->ours[i].page_faults;
	}
	put_real(o, "page_faults_per_image", images ? (double)faults / (double)images : 0);
	if (b->end.requests + b->end.hits > 0)
		json_object_set_new(o, "store", store_json(&b->begin, &b->end, stk_context_threads(b->session.ctx)));
	for (size_t i = 0; i < n && i < 128; i++)
		put_real(all, counters[i].name, counters[i].value);
	json_object_set_new(o, "counters", all);
	return print_json(o);
}

static int print_as_text(const struct bench *b, const char *folder)
{
	double ours = median_of(b->ours, b->rounds, rate);
	const int32_t device = b->session.device_id;
	const int32_t threads = stk_context_threads(b->session.ctx);
	printf("%s: %" PRId64 " %s, %d %s; decode, random crop, resize, flip, normalise", folder, b->files,
		b->session.tars ? noun(b->files, "sample", "samples") : noun(b->files, "file", "files"), threads,
		noun(threads, "thread", "threads"));
	if (device >= 0)
		printf(", on GPU %d", device);
	puts("\n");
	printf("  %-30s %9s %24s\n", "", "images/s", "CPU-seconds per 1000");
	printf("  %-30s %9.0f %24.3f\n", "stoker", ours, median_of(b->ours, b->rounds, cost));
	if (b->has_ceiling) {
		double low = b->shares[0], high = b->shares[0];
		for (int i = 1; i < b->rounds; i++) {
			low = fmin(low, b->shares[i]);
			high = fmax(high, b->shares[i]);
		}
		printf("  %-30s %9.0f %24.3f\n\n", "libjpeg-turbo, decoding alone", median_of(b->theirs, b->rounds, rate),
			median_of(b->theirs, b->rounds, cost));
		if (device >= 0)
			printf("stoker does all of it at %.1f times the rate that decoding alone has on the cores.\n",
				ours / median_of(b->theirs, b->rounds, rate));
		else
			printf("stoker does all of it at %.0f%% of the rate that decoding alone has (%.0f to %.0f%%), per CPU-second.\n",
				100 * median(b->shares, b->rounds), 100 * low, 100 * high);
	}
	const double epoch = ours > 0 ? (double)b->files / ours : 0;
	printf("An epoch of %" PRId64 " %s takes %.*f %s %s.\n", b->files, noun(b->files, "image", "images"),
		epoch >= 100 ? 0
		: epoch >= 1 ? 1
			     : 2,
		epoch >= 1 ? epoch : fmax(1e3 * epoch, 0.01), epoch >= 1 ? "s" : "ms", device < 0 ? "on these cores" : "on this GPU");
	store_print(&b->begin, &b->end, threads);
	return EXIT_FINE;
}

static int run_bench(const struct settings *s)
{
	struct bench bench = {.rounds = 0};
	struct stk_reader_meta meta;
	struct stk_error err = {0};
	int code = EXIT_PROBLEM;
	if (open_session(&bench.session, "bench", s->args[0], GRAPH_TRAIN, s)) {
		enum stk_status status = stk_pipeline_reader_meta(bench.session.pipeline, NULL, &meta, &err);
		bench.files = meta.epoch_size;
		bench.has_ceiling = ceiling_open(&bench.ceiling, s->args[0], stk_context_threads(bench.session.ctx));
		if (status == STK_OK)
			status = run_rounds(&bench, s->seconds > 0 ? s->seconds : 10, s->quiet || s->json, &err);
		if (status != STK_OK)
			code = fail_at(&bench.session, s->args[0], &err);
		else
			code = s->json ? print_as_json(&bench) : print_as_text(&bench, s->args[0]);
	}
	ceiling_close(&bench.ceiling);
	close_session(&bench.session);
	return code;
}

static const struct option options[] = {OPTION_BATCH, OPTION_THREADS, OPTION_DEVICE,
	OPTION_INT_OF("size", 's', size, 1, 8192, "Width and height of the crops (default 224)."),
	{"seconds", 0, OPTION_FLOAT, offsetof(struct settings, seconds), 0.1, 3600, "S", "How long to measure (default 10)."}, OPTION_QUIET,
	OPTION_STORAGE, OPTION_JSON, {0}};

const struct command command_bench = {
	.name = "bench",
	.summary = "what these files and these cores, or a GPU, can do, beside libjpeg-turbo alone",
	.usage = "DIR|TAR|INDEX|s3://BUCKET/PREFIX",
	.details =
		"Runs the usual training pipeline over a folder of JPEGs and, in slices between, a loop that only reads and decodes "
		"windows\n"
		"of the same sizes with libjpeg-turbo: what no loader on it can exceed. With --device all but reading happens on a GPU.\n"
		"Over tars, a bucket or an index it runs alone, and says what the store gave and what bounds it.",
	.example = "stoker bench /data/train --threads 4",
	.options = options,
	.arg = "DIR",
	.min_args = 1,
	.max_args = 1,
	.run = run_bench,
};
