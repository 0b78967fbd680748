/* SPDX-License-Identifier: Apache-2.0
 * stoker bench: measures the rate of the usual training pipeline and compares it with only decoding the same files with libjpeg-turbo. Slices of both
 * alternate, and the median of their ratios is reported, because a machine's speed drifts over seconds but hardly between neighbouring slices.
 *
 * A slice ends after a time and not after a number of images, so that the command takes as long as --seconds says. The cost of a slice is its CPU time
 * divided by the samples that the workers finished in it. Delivered samples would be the wrong divisor: some of them were made in an earlier slice. */
#include "ceiling.h"
#include "output.h"
#include "progress.h"
#include "session.h"
#include "store.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_ROUNDS = 5, MOST_ROUNDS = 101 };

struct slice {
	int64_t images, page_faults; /* images: number of images that the pipeline delivered, or that the ceiling (ceiling.h) decoded */
	double finished;             /* number of samples that the workers finished; for the ceiling equal to `images` */
	double wall, cpu;
	double waited; /* seconds that runnable threads waited for a core */
};

struct bench {
	struct session session;
	struct ceiling ceiling;
	bool has_ceiling;
	int64_t files;
	struct slice pipeline_slices[MOST_ROUNDS], ceiling_slices[MOST_ROUNDS];
	double shares[MOST_ROUNDS]; /* the pipeline's rate divided by the ceiling's, both per CPU-second */
	int rounds;
	bool interrupted; /* true if the user has interrupted the command; `rounds` rounds were complete */
	double seconds;   /* from the beginning of the warm-up to the end of the last round or to the interruption */
	struct progress progress;
	struct store_snapshot begin, end; /* snapshots from the beginning of the first round and from the end of the last one */
};

static int64_t page_faults(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static double samples_made(struct stk_pipeline *p)
{
	struct stk_counter all[128];
	size_t n = stk_pipeline_counters(p, all, 128);
	return counter_value(all, n < 128 ? n : 128, "samples");
}

/* Returns whether another thread of the process runs, is ready to run or waits for a disk. Sets *waited to the sum of
 * the seconds for which each thread, the caller included, has waited for a core since it started. */
static bool look_at_threads(double *waited)
{
	DIR *d = opendir("/proc/self/task");
	const long self = syscall(SYS_gettid); /* glibc has gettid() only since version 2.30 */
	bool busy = false;
	*waited = 0;
	for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
		char path[64], state = 'S';
		long id = strtol(e->d_name, NULL, 10);
		unsigned long long ran, ready;
		if (id <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", id);
		FILE *f = fopen(path, "r");
		if (f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1)
			busy |= id != self && (state == 'R' || state == 'D');
		if (f)
			fclose(f);
		snprintf(path, sizeof(path), "/proc/self/task/%ld/schedstat", id);
		f = fopen(path, "r");
		if (f && fscanf(f, "%llu %llu", &ran, &ready) == 2)
			*waited += 1e-9 * (double)ready;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return busy;
}

/* Waits until the pipeline has filled its slots and is idle, so that a slice measures only its own work. Returns the time at which it became idle. Idle means
 * that little CPU time is used and that no thread is ready to run. Little CPU time does not suffice: on a busy machine, a thread that is ready may get no
 * CPU time for a while. */
static double wait_idle(void)
{
	const struct timespec nap = {.tv_nsec = 5 * 1000 * 1000};
	double waited, began = wall_seconds();
	for (double before = cpu_seconds();;) {
		nanosleep(&nap, NULL);
		/* Measured before look_at_threads, which itself takes over 1 ms if there are many threads. */
		const double used = cpu_seconds() - before;
		if (!look_at_threads(&waited) && used < 0.001)
			return began;
		began = wall_seconds();
		before = cpu_seconds();
	}
}

/* Takes batches for `seconds`, and at least one with images. *images: set to the number of images. Continues with the next epoch at an epoch's end; returns
 * STK_END only after three ends without a batch between them. */
static enum stk_status take_images(struct bench *b, double seconds, int64_t *images, struct stk_error *err)
{
	const double until = wall_seconds() + seconds;
	int ends = 0;
	for (*images = 0; *images == 0 || wall_seconds() < until;) {
		struct stk_batch *batch = NULL;
		enum stk_status status = next_batch(&b->session, &batch, err);
		if (status == STK_END && ++ends < 3) /* three ends in a row mean that epochs have no batches */
			continue;
		ends = 0;
		if (status != STK_OK)
			return status;
		*images += stk_batch_size(batch);
		stk_batch_unref(&batch);
		progress_update(&b->progress, b->rounds);
	}
	return STK_OK;
}

static enum stk_status run_pipeline(struct bench *b, double seconds, struct slice *slice, struct stk_error *err)
{
	double waited;
	look_at_threads(&slice->waited);
	double wall = wall_seconds(), cpu = cpu_seconds(), finished = samples_made(b->session.pipeline);
	int64_t faults = page_faults();
	enum stk_status status = take_images(b, seconds, &slice->images, err);
	/* Does not wait until the workers are idle if there is a store: it would answer requests during the wait, which is not part of the slice's time. */
	slice->wall = (store_snapshot(b->session.pipeline).requests > 0 ? wall_seconds() : wait_idle()) - wall;
	slice->cpu = cpu_seconds() - cpu;
	slice->finished = samples_made(b->session.pipeline) - finished;
	slice->page_faults = page_faults() - faults;
	look_at_threads(&waited);
	slice->waited = waited > slice->waited ? waited - slice->waited : 0;
	return status;
}

static void run_ceiling(struct bench *b, double seconds, struct slice *slice)
{
	double wall = wall_seconds();
	slice->images = ceiling_run(&b->ceiling, seconds, &slice->cpu);
	slice->finished = (double)slice->images;
	slice->wall = wall_seconds() - wall;
}

static double rate(const struct slice *s)
{
	return s->wall > 0 ? (double)s->images / s->wall : 0;
}

static double cost(const struct slice *s)
{
	return s->finished > 0 ? 1000 * s->cpu / s->finished : NAN;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Returns the quantile `share` (0 to 1) of the finite values; NaN if no value is finite. Leaves the values unchanged. */
static double quantile(const double *values, int n, double share)
{
	double sorted[MOST_ROUNDS] = {0};
	int m = 0;
	for (int i = 0; i < n; i++) {
		if (isfinite(values[i]))
			sorted[m++] = values[i];
	}
	if (m == 0)
		return NAN;
	qsort(sorted, (size_t)m, sizeof(*sorted), by_size);
	const double at = share * (m - 1);
	const int below = (int)at, above = below + 1 < m ? below + 1 : below;
	return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

static double median(const double *values, int n)
{
	return quantile(values, n, 0.5);
}

static double median_of(const struct slice *slices, int n, double (*value)(const struct slice *))
{
	double values[MOST_ROUNDS] = {0};
	for (int i = 0; i < n; i++)
		values[i] = value(&slices[i]);
	return median(values, n);
}

/* Warms up, then alternates slices of the pipeline and, if there is one, of the ceiling for about `seconds`. An interruption is no error: it
 * sets b->interrupted. */
static enum stk_status run_rounds(struct bench *b, double seconds, bool quiet, struct stk_error *err)
{
	struct slice warm;
	const double warm_up = fmin(2, 0.1 * seconds);
	double rounds = fmax(LEAST_ROUNDS, fmin(MOST_ROUNDS, seconds / 0.5));
	const double share = 0.8 * seconds / (rounds * (b->has_ceiling ? 2 : 1));
	progress_begin(&b->progress, "rounds", (int64_t)rounds, quiet);
	progress_update(&b->progress, 0);
	const double warming = wall_seconds();
	enum stk_status status = run_pipeline(b, warm_up, &warm, err);
	if (status == STK_OK) /* a second, short slice, since the first batch has allocated the slots and filled the caches */
		status = run_pipeline(b, 0, &warm, err);
	if (status == STK_OK && b->has_ceiling)
		run_ceiling(b, warm_up, &warm);
	b->begin = store_snapshot(b->session.pipeline);
	const double began = wall_seconds();
	for (b->rounds = 0; status == STK_OK && b->rounds < (int)rounds;) {
		struct slice *pipeline = &b->pipeline_slices[b->rounds], *ceiling = &b->ceiling_slices[b->rounds];
		/* A batch can take longer than a slice should, so the time can be over before all rounds are done. */
		if (b->rounds >= LEAST_ROUNDS && wall_seconds() - began > seconds)
			break;
		status = run_pipeline(b, share, pipeline, err);
		if (status != STK_OK)
			break;
		if (b->has_ceiling)
			run_ceiling(b, share, ceiling);
		b->shares[b->rounds] = b->has_ceiling ? cost(ceiling) / cost(pipeline) : NAN;
		progress_update(&b->progress, ++b->rounds);
	}
	progress_end(&b->progress);
	b->end = store_snapshot(b->session.pipeline);
	b->seconds = wall_seconds() - warming;
	b->interrupted = status == STK_CANCELLED;
	return b->interrupted ? STK_OK : status;
}

/* Returns the time for which the pipeline's threads waited for a core, divided by the time in which they ran or waited. */
static double waited_share(const struct bench *b)
{
	double ran = 0, waited = 0;
	for (int i = 0; i < b->rounds; i++) {
		ran += b->pipeline_slices[i].cpu;
		waited += b->pipeline_slices[i].waited;
	}
	return ran + waited > 0 ? waited / (ran + waited) : 0;
}

static json_t *slices_json(const struct slice *slices, int n)
{
	json_t *o = json_object();
	put_real(o, "images_per_s", median_of(slices, n, rate));
	put_real(o, "cpu_s_per_1000", median_of(slices, n, cost));
	put_int(o, "images_per_slice", n ? slices[n / 2].images : 0);
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
	put_bool(o, "interrupted", b->interrupted);
	json_object_set_new(o, "stoker", slices_json(b->pipeline_slices, b->rounds));
	if (b->has_ceiling) {
		json_t *shares = json_array();
		for (int i = 0; i < b->rounds; i++)
			json_array_append_new(shares, isfinite(b->shares[i]) ? json_real(b->shares[i]) : json_null());
		json_object_set_new(o, "libjpeg_turbo", slices_json(b->ceiling_slices, b->rounds));
		put_real(o, "share_of_ceiling", median(b->shares, b->rounds));
		json_object_set_new(o, "shares", shares);
	}
	for (int i = 0; i < b->rounds; i++) {
		images += b->pipeline_slices[i].images;
		faults += b->pipeline_slices[i].page_faults;
	}
	put_real(o, "page_faults_per_image", images ? (double)faults / (double)images : 0);
	put_real(o, "waited_for_cores", waited_share(b));
	if (b->end.requests + b->end.hits > 0)
		json_object_set_new(o, "store", store_json(&b->begin, &b->end, stk_context_threads(b->session.ctx)));
	for (size_t i = 0; i < n && i < 128; i++)
		put_real(all, counters[i].name, counters[i].value);
	json_object_set_new(o, "counters", all);
	return print_json(o);
}

static int print_as_text(const struct bench *b, const char *folder)
{
	double pipeline_rate = median_of(b->pipeline_slices, b->rounds, rate);
	const int32_t device = b->session.device_id;
	const int32_t threads = stk_context_threads(b->session.ctx);
	if (b->interrupted)
		printf("Interrupted: these are the figures of %d %s.\n", b->rounds, noun(b->rounds, "round", "rounds"));
	printf("%s: %" PRId64 " %s, %d %s; %s", folder, b->files,
		b->session.tars ? noun(b->files, "sample", "samples") : noun(b->files, "file", "files"), threads,
		noun(threads, "thread", "threads"),
		is_pipeline(folder) ? "the operators of the pipeline"
		: b->session.sounds ? "decode, resample to 16 kHz, 80 log-mel bands"
				    : "decode, random crop, resize, flip, normalise");
	if (device >= 0)
		printf(", on GPU %d", device);
	puts("\n");
	printf("  %-30s %9s %24s\n", "", b->session.sounds ? "sounds/s" : "images/s", "CPU-seconds per 1000");
	printf("  %-30s %9.0f %24.3f\n", "stoker", pipeline_rate, median_of(b->pipeline_slices, b->rounds, cost));
	if (b->has_ceiling) {
		printf("  %-30s %9.0f %24.3f\n\n", "libjpeg-turbo, only decoding", median_of(b->ceiling_slices, b->rounds, rate),
			median_of(b->ceiling_slices, b->rounds, cost));
		const double rate_share = median(b->shares, b->rounds);
		if (device >= 0)
			printf("stoker does all of it at %.1f times the rate of only decoding on the cores.\n",
				pipeline_rate / median_of(b->ceiling_slices, b->rounds, rate));
		else if (isfinite(rate_share))
			printf("stoker does all of it at %.0f%% of the rate of only decoding, per CPU-second (the middle half of %d rounds: %.0f to %.0f%%).\n",
				100 * rate_share, b->rounds, 100 * quantile(b->shares, b->rounds, 0.25),
				100 * quantile(b->shares, b->rounds, 0.75));
		if (device < 0 && rate_share > 1)
			puts("Over 100% is possible: Stoker has its own decoders, and decodes a large window at the size that the resize "
			     "needs; the other loop decodes "
			     "the whole window with libjpeg-turbo.");
	}
	if (waited_share(b) > 0.1)
		printf("Threads that could run waited for a core for %.0f%% of the time, because of other processes, a quota of CPU time, or more threads "
		       "than cores. With cores of its own, stoker makes more samples/s at the same CPU-seconds.\n",
			100 * waited_share(b));
	const double epoch = pipeline_rate > 0 ? (double)b->files / pipeline_rate : 0;
	printf("An epoch of %" PRId64 " %s takes %.*f %s %s.\n", b->files,
		b->session.sounds ? noun(b->files, "sound", "sounds") : noun(b->files, "image", "images"),
		epoch >= 100 ? 0
		: epoch >= 1 ? 1
			     : 2,
		epoch >= 1 ? epoch : fmax(1e3 * epoch, 0.01), epoch >= 1 ? "s" : "ms", device < 0 ? "on these cores" : "on this GPU");
	store_print(&b->begin, &b->end, threads);
	return EXIT_FINE;
}

/* Reports an interruption before the end of the first round. The rate of the images made so far would mislead, because the pipeline was warming up. */
static int print_warm_up(const struct bench *b, const char *folder)
{
	const int64_t finished = (int64_t)samples_made(b->session.pipeline);
	printf("Interrupted before the first round was complete.\n%s: the warm-up made %" PRId64 " %s in %.1f s.\n", folder, finished,
		b->session.sounds ? noun(finished, "sound", "sounds") : noun(finished, "image", "images"), b->seconds);
	return EXIT_FINE;
}

static int run_bench(const struct settings *s)
{
	struct bench bench = {.rounds = 0};
	struct stk_reader_meta meta;
	struct stk_error err = {0};
	int code = EXIT_PROBLEM;
	if (holds_videos(s->args[0]))
		return bench_video(s);
	if (open_session(&bench.session, "bench", s->args[0], GRAPH_TRAIN, s)) {
		enum stk_status status = stk_pipeline_reader_meta(bench.session.pipeline, NULL, &meta, &err);
		bench.files = meta.epoch_size;
		bench.has_ceiling =
			!bench.session.sounds && ceiling_open(&bench.ceiling, s->args[0], stk_context_threads(bench.session.ctx));
		if (status == STK_OK)
			status = run_rounds(&bench, s->seconds > 0 ? s->seconds : 10, s->quiet || s->json, &err);
		if (status != STK_OK)
			code = fail_at(&bench.session, s->args[0], &err);
		else
			code = s->json        ? print_as_json(&bench)
			       : bench.rounds ? print_as_text(&bench, s->args[0])
					      : print_warm_up(&bench, s->args[0]);
		if (bench.interrupted && code == EXIT_FINE)
			code = EXIT_INTERRUPTED;
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
	.summary = "the rate of training batches from these files, compared with libjpeg-turbo",
	.usage = "DIR|VIDEO|TAR|INDEX|s3://BUCKET/PREFIX",
	.details = "Runs the usual training pipeline over a folder of JPEGs. In slices between, it runs a loop that only reads the "
		   "files and decodes windows of the same sizes with libjpeg-turbo. A loader that decodes whole windows with "
		   "libjpeg-turbo cannot be faster than this loop; Stoker's own decoder can. With --device a GPU does everything "
		   "but reading. Over tars, a bucket or an index only the pipeline runs, and the command reports the store's rate "
		   "and what limits it. Of videos, it decodes clips of 16 frames with a stride of 4 at random places, on one thread, and "
		   "reports which share of the time goes into opening files, reading packets, decoding, and conversion to RGB. "
		   "Of sounds, in a folder for each class, it makes 80 log-mel bands at 16 kHz.",
	.example = "stoker bench /data/train --threads 4",
	.options = options,
	.arg = "DIR",
	.min_args = 1,
	.max_args = 1,
	.run = run_bench,
};
