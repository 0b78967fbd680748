/* SPDX-License-Identifier: Apache-2.0
 * stoker top: shows what the running pipelines of this user do. */
#include "command.h"
#include "output.h"
#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Facts about the running pipelines of all processes at one time, as stk_watch reports them. */
struct snapshot {
	json_t *processes;
	double at; /* time of the snapshot in seconds (wall_seconds) */
};

/* The work of one pipeline between two snapshots. Rates are per second. */
struct row {
	int64_t pid, context, id, epoch, bad_samples;
	const char *rank; /* environment variable RANK of the process; NULL: it has none */
	double batches, samples, cores, reads, megabytes, retries;
	double waiting;    /* fraction of the time in which the training loop waited for a batch */
	double gpu_share;  /* fraction of the decoded images that the GPU decoded; NaN: nothing was decoded */
	double latency_ms; /* latency of requests to a store; NaN: there were none */
	double memory;     /* memory in bytes */
	double in_flight;  /* number of reads and requests in flight */
	const char *waits_for;
	const json_t *pipeline; /* the pipeline's entry in the later snapshot */
};

static bool take_snapshot(int64_t pid, struct snapshot *l, struct stk_error *err)
{
	char *text = NULL;
	if (stk_watch(pid, &text, err) != STK_OK)
		return false;
	l->at = wall_seconds();
	l->processes = json_loads(text, 0, NULL);
	stk_text_free(text);
	if (!l->processes)
		snprintf(err->message, sizeof(err->message), "the answer of a process is not JSON");
	return l->processes != NULL;
}

static double number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static double counter(const json_t *pipeline, const char *name)
{
	return number(json_object_get(pipeline, "counters"), name);
}

/* Finds a pipeline of a process in the earlier snapshot. Returns its entry there; NULL: it was not running yet. */
static const json_t *find_earlier(const struct snapshot *before, const json_t *process, const json_t *pipeline)
{
	size_t i, k;
	json_t *other, *candidate;
	json_array_foreach (before->processes, i, other) {
		if (number(other, "pid") != number(process, "pid"))
			continue;
		json_array_foreach (json_object_get(other, "pipelines"), k, candidate) {
			if (number(candidate, "began_ns") == number(pipeline, "began_ns") &&
				number(candidate, "id") == number(pipeline, "id"))
				return candidate;
		}
	}
	return NULL;
}

/* Returns the name of the part of the pipeline that the training loop waited for: the first busy one of a Python source, the cores and the reads; otherwise
 * the GPU if there is one, or the cores. "-" if the loop waited for less than 2% of the time. source_share: fraction of the time in which a Python source
 * ran. */
static const char *waits_for(const struct row *r, double source_share)
{
	const double threads = number(r->pipeline, "threads");
	if (r->waiting < 0.02)
		return "-";
	if (source_share >= 0.5)
		return "Python";
	if (r->cores >= 0.8 * threads)
		return "cores";
	if (r->in_flight > 0)
		return "reading";
	return number(r->pipeline, "device") >= 0 ? "GPU" : "cores";
}

/* Fills a row from a pipeline's entries in two snapshots. `earlier` is NULL if the pipeline was not in the first snapshot. */
static void fill_row(struct row *r, const json_t *process, const json_t *earlier, const json_t *pipeline, double seconds)
{
	const double decodes = counter(pipeline, "decodes") - counter(earlier, "decodes");
	const double requests = counter(pipeline, "storage_requests");
	*r = (struct row){.pid = (int64_t)number(process, "pid"),
		.context = (int64_t)number(process, "context"),
		.rank = json_string_value(json_object_get(process, "rank")),
		.id = (int64_t)number(pipeline, "id"),
		.epoch = (int64_t)number(pipeline, "epoch"),
		.bad_samples = (int64_t)number(pipeline, "bad_samples"),
		.pipeline = pipeline};
#define RATE(name) ((counter(pipeline, name) - counter(earlier, name)) / seconds)
	r->batches = RATE("batches_delivered");
	r->samples = r->batches * number(pipeline, "batch_size");
	r->waiting = fmin(RATE("wait_ns") * 1e-9, 1);
	r->cores = RATE("busy_ns") * 1e-9;
	r->reads = RATE("reads_started");
	r->megabytes = RATE("bytes_read") * 1e-6;
	r->retries = RATE("storage_retries");
	r->gpu_share = decodes > 0 ? (counter(pipeline, "gpu_decodes") - counter(earlier, "gpu_decodes")) / decodes : NAN;
	r->latency_ms = requests > 0 ? counter(pipeline, "storage_latency_ms") : NAN;
	r->memory = counter(pipeline, "slot_bytes") + counter(pipeline, "bytes_held") + counter(pipeline, "held_bytes");
	r->in_flight = counter(pipeline, "reads_in_flight") + counter(pipeline, "storage_in_flight");
	r->waits_for = waits_for(r, RATE("source_ns") * 1e-9);
#undef RATE
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;
	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	if (left->context != right->context)
		return left->context < right->context ? -1 : 1;
	return left->id < right->id ? -1 : left->id > right->id;
}

/* Returns the rows of all pipelines, which the caller frees; NULL if no pipeline runs, or if memory is short. */
static struct row *make_rows(const struct snapshot *before, const struct snapshot *after, size_t *count)
{
	size_t i, k, most = 0;
	json_t *process, *pipeline;
	*count = 0;
	json_array_foreach (after->processes, i, process)
		most += json_array_size(json_object_get(process, "pipelines"));
	struct row *rows = most ? calloc(most, sizeof(*rows)) : NULL;
	if (!rows)
		return NULL;
	json_array_foreach (after->processes, i, process) {
		json_array_foreach (json_object_get(process, "pipelines"), k, pipeline) {
			if (!json_is_object(json_object_get(pipeline, "counters")))
				continue; /* another program may have made the socket: this is not an answer about a pipeline */
			/* find_earlier returns NULL for a pipeline that began between the snapshots; fill_row then counts from its beginning. */
			fill_row(&rows[(*count)++], process, find_earlier(before, process, pipeline), pipeline, after->at - before->at);
		}
	}
	qsort(rows, *count, sizeof(*rows), compare_rows);
	return rows;
}

/* ---- text ---- */

static void print_bad(const struct row *r)
{
	const json_t *bad = json_object_get(r->pipeline, "bad");
	const char *last = json_string_value(json_array_get(bad, json_array_size(bad) ? json_array_size(bad) - 1 : 0));
	printf("%" PRId64 ": %" PRId64 " bad %s; the last: ", r->pid, r->bad_samples, noun(r->bad_samples, "sample", "samples"));
	print_wrapped(stdout, last ? last : "not kept", 8, 4);
}

static void print_row(const struct row *r)
{
	char memory[32], gpu[16] = "-", latency[16] = "-";
	if (!isnan(r->gpu_share) && number(r->pipeline, "device") >= 0)
		snprintf(gpu, sizeof(gpu), "%.0f%%", 100 * r->gpu_share);
	if (!isnan(r->latency_ms))
		snprintf(latency, sizeof(latency), "%.0f ms", r->latency_ms);
	printf("%8" PRId64 " %4s %9.1f %10.0f %6.1f%% %-8s %5.1f %8.0f %7.1f %7s %6s %10s %5" PRId64 "\n", r->pid, r->rank ? r->rank : "-",
		r->batches, r->samples, 100 * r->waiting, r->waits_for, r->cores, r->reads, r->megabytes, latency, gpu,
		size_text((int64_t)r->memory, memory), r->bad_samples);
}

static void print_table(const struct row *rows, size_t count)
{
	struct row sum = {.waits_for = "", .gpu_share = NAN, .latency_ms = NAN};
	printf("%8s %4s %9s %10s %7s %-8s %5s %8s %7s %7s %6s %10s %5s\n", "process", "rank", "batches/s", "samples/s", "waits", "for",
		"cores", "reads/s", "MB/s", "latency", "on GPU", "memory", "bad");
	for (size_t i = 0; i < count; i++) {
		print_row(&rows[i]);
		sum.batches += rows[i].batches;
		sum.samples += rows[i].samples;
		sum.cores += rows[i].cores;
		sum.reads += rows[i].reads;
		sum.megabytes += rows[i].megabytes;
	}
	if (count > 1)
		printf("%8s %4s %9.1f %10.0f %7s %-8s %5.1f %8.0f %7.1f\n", "together", "", sum.batches, sum.samples, "", "", sum.cores,
			sum.reads, sum.megabytes);
	for (size_t i = 0; i < count; i++)
		if (rows[i].bad_samples > 0)
			print_bad(&rows[i]);
	if (!count)
		printf("no pipeline of this user runs\n");
	fflush(stdout);
}

/* ---- JSON ---- */

static int print_rows(const struct row *rows, size_t count, double seconds)
{
	json_t *all = json_array(), *o = json_object();
	for (size_t i = 0; i < count; i++) {
		const struct row *r = &rows[i];
		json_t *object = json_object();
		put_int(object, "pid", r->pid);
		put_int(object, "context", r->context);
		put_int(object, "pipeline", r->id);
		json_object_set_new(object, "rank", r->rank ? json_string(r->rank) : json_null());
		put_int(object, "epoch", r->epoch);
		put_real(object, "batches_per_s", r->batches);
		put_real(object, "samples_per_s", r->samples);
		put_real(object, "waiting", r->waiting);
		put_text(object, "waits_for", r->waits_for);
		put_real(object, "cores", r->cores);
		put_real(object, "reads_per_s", r->reads);
		put_real(object, "bytes_read_per_s", 1e6 * r->megabytes);
		put_real(object, "retries_per_s", r->retries);
		put_real(object, "storage_latency_ms", r->latency_ms);
		put_real(object, "gpu_decode_share", r->gpu_share);
		put_real(object, "memory_bytes", r->memory);
		put_int(object, "bad_samples", r->bad_samples);
		json_object_set(object, "bad", json_object_get(r->pipeline, "bad"));
		json_object_set(object, "counters", json_object_get(r->pipeline, "counters"));
		json_array_append_new(all, object);
	}
	put_real(o, "seconds", seconds);
	json_object_set_new(o, "pipelines", all);
	return print_json(o);
}

/* ---- the command ---- */

static void wait_seconds(double seconds)
{
	const struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
	nanosleep(&t, NULL);
}

/* Returns the process id that the user gave; 0: none was given; -1: the text is not a process id. */
static int64_t wanted_process(const struct settings *s)
{
	char *end;
	if (s->arg_count == 0)
		return 0;
	const long long pid = strtoll(s->args[0], &end, 10);
	return pid > 0 && pid <= INT32_MAX && !*end ? (int64_t)pid : -1;
}

static int run_top(const struct settings *s)
{
	const int64_t pid = wanted_process(s);
	const bool terminal = isatty(STDOUT_FILENO) && !s->json;
	const int64_t tables = s->steps ? s->steps : terminal ? INT64_MAX : 1;
	struct snapshot before = {0}, after = {0};
	struct stk_error err = {0};
	int code = EXIT_FINE;
	if (pid < 0)
		return usage_error(&command_top, "\"%s\" is not the id of a process", s->args[0]);
	if (s->json && s->steps > 1)
		return usage_error(&command_top, "--json prints one document; ask again for another");
	if (!take_snapshot(pid, &before, &err))
		return fail("top", &err);
	for (int64_t i = 0; code == EXIT_FINE && i < tables; i++) {
		size_t count;
		wait_seconds(s->seconds > 0 ? s->seconds : 1);
		if (!take_snapshot(pid, &after, &err)) {
			code = fail("top", &err); /* for example, the process that the user named has ended */
			break;
		}
		struct row *rows = make_rows(&before, &after, &count);
		if (terminal)
			fputs("\033[H\033[J", stdout); /* moves the cursor to the top left corner, and clears the screen */
		if (s->json)
			code = print_rows(rows, count, after.at - before.at);
		else
			print_table(rows, count);
		free(rows);
		json_decref(before.processes);
		before = after;
		after.processes = NULL;
	}
	json_decref(before.processes);
	return code;
}

static const struct option options[] = {
	{"seconds", 0, OPTION_FLOAT, offsetof(struct settings, seconds), 0.1, 3600, "S", "Time between two tables (default 1)."},
	OPTION_INT_OF("steps", 'n', steps, 1, 1e9, "Stop after N tables (default: 1, and no end on a terminal)."), OPTION_JSON, {0}};

const struct command command_top = {
	.name = "top",
	.summary = "what the running pipelines of this user do, one line each",
	.usage = "[PID] [--seconds S] [--steps N] [--json]",
	.details =
		"For each pipeline of each process: batches and samples that the loop takes in a second; the share of time in which the loop waits, and what "
		"it waits for (Python: a Dataset or source; cores: decoding and transforms; reading; GPU); cores in use; files or objects and megabytes that "
		"are read in a second; the latency of a store; the share of images that the GPU decodes; the memory of batches; bad samples, with the last "
		"one's message. The process counts these anyway, so that `stoker top` does not slow it down. Only the user who runs a process can see it. A "
		"process with STOKER_TOP=0 does not answer.",
	.example = "stoker top    # Ctrl-C ends it",
	.options = options,
	.max_args = 1,
	.run = run_top,
};
