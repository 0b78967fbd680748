/* SPDX-License-Identifier: Apache-2.0
 * Random graphs with ordinary and extreme arguments. Each runs in several ways that must not change the result: with AVX2 or plain C, fused or not, with one
 * thread or seven, with memory poisoned by different bytes. All runs must give equal values or all must fail, unless memory is
 * short; none may crash.
 *
 *     random_graphs [--graphs N] [--seconds T] [--seed S] [--gpu]         T: starts no graph after this time
 *
 * Graph i depends only on the seed S + i. A failure prints that seed and the graph as JSON, and so does a run of one graph. */
#include "graph_maker.h"

#include "base/clock.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCHES = 2, MOST_OUTPUTS = 24, WAYS = 3, SECONDS_A_GRAPH = 60, MEMORY = 2 << 20 };

/* ---- printing a graph that crashes or takes too long ---- */

static char heading[256];
static char *graph_text;

static void tell_graph(void)
{
	for (const char *const *t = (const char *const[]){heading, graph_text, "\n", NULL}; *t; t++)
		if (write(STDERR_FILENO, *t, strlen(*t)) < 0)
			return;
}

static void on_signal(int number)
{
	static const char late[] = "the graph takes too long\n";
	if (number == SIGALRM && write(STDERR_FILENO, late, sizeof late - 1) < 0)
		_exit(1);
	tell_graph();
	_exit(1);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void tell_of_crashes(void)
{
	signal(SIGALRM, on_signal);
	signal(SIGABRT, on_signal);
	if (__sanitizer_set_death_callback) {
		__sanitizer_set_death_callback(tell_graph);
		return;
	}
	signal(SIGSEGV, on_signal);
	signal(SIGFPE, on_signal);
	signal(SIGBUS, on_signal);
}

/* ---- ways to run ---- */

struct way {
	bool plain, fused, many, gpu;
	int poison;
};

static struct stk_context *contexts[2][2];

static struct stk_context *context_of(const struct way *w)
{
	struct stk_context **c = &contexts[w->plain][w->many];
	if (*c)
		return *c;
	const struct stk_context_config config = {.size = sizeof config, .threads = w->many ? 7 : 1};
	if (w->plain)
		setenv("STOKER_CPU", "c", 1);
	else
		unsetenv("STOKER_CPU");
	if (stk_context_create(&config, c, NULL))
		abort();
	return *c;
}

struct result {
	enum stk_status status[BATCHES];
	char message[BATCHES][sizeof(((struct stk_error *)0)->message)];
	int32_t outputs;
	struct stk_tensor samples[BATCHES][MOST_OUTPUTS][MAKER_BATCH];
};

static void keep_sample(struct stk_batch *host, int32_t i, struct stk_tensor *to)
{
	const struct stk_tensor *t = &stk_batch_output(host, 0)->samples[i];
	size_t bytes = (size_t)stk_desc_bytes(&t->desc);
	*to = (struct stk_tensor){malloc(bytes + 1), t->desc};
	if (!to->data)
		abort();
	memcpy(to->data, t->data, bytes);
}

static void keep_batch(struct result *r, int b, struct stk_batch *batch)
{
	r->outputs = stk_batch_outputs(batch) < MOST_OUTPUTS ? stk_batch_outputs(batch) : MOST_OUTPUTS;
	for (int32_t o = 0; o < r->outputs; o++) {
		struct stk_batch *host = NULL;
		if (stk_batch_to_host(batch, o, -1, &host, NULL))
			abort();
		for (int32_t i = 0; i < stk_batch_size(batch); i++)
			keep_sample(host, i, &r->samples[b][o][i]);
		stk_batch_unref(&host);
	}
}

static void run(struct stk_graph *g, const struct way *w, struct result *r)
{
	char poison[8];
	snprintf(poison, sizeof poison, "%d", w->poison);
	setenv("STOKER_POISON", poison, 1);
	*r = (struct result){.outputs = 0};
	const struct stk_pipeline_config c = {.size = sizeof c,
		.batch_size = MAKER_BATCH,
		.prefetch = 1,
		.device_id = w->gpu ? 0 : -1,
		.seed = 7,
		.memory_limit = MEMORY,
		.no_fuse = !w->fused};
	struct stk_pipeline *p = NULL;
	struct stk_error err = {0};
	enum stk_status s = stk_pipeline_create(context_of(w), g, &c, &p, &err);
	for (int b = 0; b < BATCHES; b++) {
		struct stk_batch *batch = NULL;
		if (p)
			s = stk_pipeline_next(p, &batch, &err);
		r->status[b] = s;
		snprintf(r->message[b], sizeof r->message[b], "%s", s ? err.message : "");
		if (s && (err.code != s || !err.message[0]))
			snprintf(r->message[b], sizeof r->message[b], "an error without a message, or of another code");
		if (batch)
			keep_batch(r, b, batch);
		stk_batch_unref(&batch);
	}
	stk_pipeline_destroy(p);
}

static void free_result(struct result *r)
{
	for (int b = 0; b < BATCHES; b++)
		for (int32_t o = 0; o < MOST_OUTPUTS; o++)
			for (int i = 0; i < MAKER_BATCH; i++)
				free(r->samples[b][o][i].data);
}

/* ---- the comparison ---- */

/* Returns whether an element is NaN, because the comparison treats all NaNs as equal. */
static bool is_nan(const uint8_t *p, enum stk_dtype dtype)
{
	uint16_t half;
	float f;
	double d;
	switch (dtype) {
	case STK_FLOAT16:
	case STK_BFLOAT16:
		memcpy(&half, p, sizeof half);
		return (half & 0x7fff) > (dtype == STK_FLOAT16 ? 0x7c00 : 0x7f80);
	case STK_FLOAT:
		memcpy(&f, p, sizeof f);
		return isnan(f);
	case STK_FLOAT64:
		memcpy(&d, p, sizeof d);
		return isnan(d);
	default:
		return false;
	}
}

/* Returns the index of the first element in which the tensors differ; -1 if they are equal. */
static int64_t difference(const struct stk_tensor *a, const struct stk_tensor *b)
{
	size_t size = stk_dtype_size(a->desc.dtype), bytes = (size_t)stk_desc_bytes(&a->desc);
	const uint8_t *p = a->data, *q = b->data;
	for (size_t at = 0; memcmp(p, q, bytes) && at < bytes; at += size)
		if (memcmp(p + at, q + at, size) && !(is_nan(p + at, a->desc.dtype) && is_nan(q + at, a->desc.dtype)))
			return (int64_t)(at / size);
	return -1;
}

/* Returns an element's bytes as a number. */
static unsigned long long bits_at(const struct stk_tensor *t, int64_t at)
{
	unsigned long long bits = 0;
	size_t size = stk_dtype_size(t->desc.dtype);
	memcpy(&bits, (const uint8_t *)t->data + (size_t)at * size, size);
	return bits;
}

static bool same_desc(const struct stk_desc *a, const struct stk_desc *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim && strcmp(a->layout, b->layout) == 0 &&
	       memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

/* Returns whether this error is allowed although another way of running succeeds: one way may need more memory than another, and some operators have no GPU
 * version. */
static bool excused(enum stk_status s, bool gpu)
{
	return s == STK_LIMIT || s == STK_NO_MEMORY || (gpu && s == STK_UNSUPPORTED);
}

static bool same(const struct result *a, const struct result *b, bool gpu, char *text, size_t room)
{
	for (int k = 0; k < BATCHES; k++) {
		if (excused(a->status[k], gpu) || excused(b->status[k], gpu))
			return true;
		if (!a->status[k] != !b->status[k])
			return snprintf(text, room, "batch %d: status %d (%s) and %d (%s)", k, a->status[k], a->message[k], b->status[k],
				       b->message[k]),
			       false;
		for (int32_t o = 0; o < a->outputs && !a->status[k]; o++)
			for (int i = 0; i < MAKER_BATCH; i++) {
				const struct stk_tensor *x = &a->samples[k][o][i], *y = &b->samples[k][o][i];
				bool alike = same_desc(&x->desc, &y->desc);
				int64_t at = alike ? difference(x, y) : 0;
				if (!alike)
					return snprintf(text, room, "batch %d, output %d, sample %d: another shape, type or layout", k, o,
						       i),
					       false;
				if (at >= 0)
					return snprintf(text, room, "batch %d, output %d, sample %d: %s, element %lld is %llx and %llx", k,
						       o, i, stk_dtype_name(x->desc.dtype), (long long)at, bits_at(x, at), bits_at(y, at)),
					       false;
			}
	}
	return true;
}

/* ---- running the graphs ---- */

struct tally {
	int graphs, whole, failed;
	double slowest;
	uint64_t slowest_seed;
};

static void compare_ways(uint64_t seed, struct stk_graph *g, bool gpu, struct tally *tally)
{
	/* Runs the graph in the usual way, with every setting changed, and in one random way. */
	struct way ways[WAYS] = {{.fused = true, .poison = 0x11}, {.plain = true, .many = true, .poison = 0xee},
		{.plain = seed & 1, .fused = seed & 2, .many = seed & 4, .gpu = gpu, .poison = 0x77}};
	struct result results[WAYS];
	char text[4096];
	for (int k = 0; k < WAYS; k++)
		run(g, &ways[k], &results[k]);
	tally->graphs++;
	tally->whole += results[0].status[0] == STK_OK;
	for (int k = 1; k < WAYS; k++)
		if (!same(&results[0], &results[k], ways[k].gpu, text, sizeof text)) {
			fprintf(stderr, "%s%s, %s, %s%s: %s\n", heading, ways[k].plain ? "plain C" : "AVX2",
				ways[k].fused ? "fused" : "not fused", ways[k].many ? "7 threads" : "1 thread", ways[k].gpu ? ", GPU" : "",
				text);
			fprintf(stderr, "%s\n", graph_text);
			tally->failed++;
			break;
		}
	for (int k = 0; k < WAYS; k++)
		free_result(&results[k]);
}

static void try_graph(uint64_t seed, bool gpu, bool show, struct tally *tally)
{
	struct stk_graph *g = make_random_graph(seed, gpu);
	if (!g)
		return;
	double begin = (double)stk__clock_ns();
	alarm(SECONDS_A_GRAPH);
	snprintf(heading, sizeof heading, "graph of seed %llu (random_graphs --graphs 1 --seed %llu%s): ", (unsigned long long)seed,
		(unsigned long long)seed, gpu ? " --gpu" : "");
	if (stk_graph_serialize(g, &graph_text, NULL))
		graph_text = NULL;
	if (show)
		fprintf(stderr, "%s\n", graph_text ? graph_text : "a graph without JSON");
	compare_ways(seed, g, gpu, tally);
	alarm(0);
	stk_text_free(graph_text);
	graph_text = NULL;
	stk_graph_destroy(g);
	double took = ((double)stk__clock_ns() - begin) / 1e9;
	if (took > tally->slowest) {
		tally->slowest = took;
		tally->slowest_seed = seed;
	}
}

int main(int argc, char **argv)
{
	uint64_t graphs = 500, seed = 1;
	double seconds = INFINITY;
	bool gpu = false;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--gpu") == 0)
			gpu = true;
		else if (i + 1 < argc && strcmp(argv[i], "--graphs") == 0)
			graphs = strtoull(argv[++i], NULL, 10);
		else if (i + 1 < argc && strcmp(argv[i], "--seconds") == 0)
			seconds = strtod(argv[++i], NULL);
		else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
			seed = strtoull(argv[++i], NULL, 10);
		else
			return fprintf(stderr, "usage: random_graphs [--graphs N] [--seconds T] [--seed S] [--gpu]\n"), 2;
	}
	unsetenv("STOKER_FUSE");
	tell_of_crashes();
	struct tally tally = {.graphs = 0};
	double begin = (double)stk__clock_ns();
	for (uint64_t i = 0; i < graphs && (double)stk__clock_ns() - begin < seconds * 1e9; i++)
		try_graph(seed + i, gpu, graphs == 1, &tally);
	double took = ((double)stk__clock_ns() - begin) / 1e9;
	printf("%d graphs from seed %llu, of which %d gave batches, in %.1f s; the slowest, of seed %llu, took %.2f s; %d failed\n",
		tally.graphs, (unsigned long long)seed, tally.whole, took, (unsigned long long)tally.slowest_seed, tally.slowest,
		tally.failed);
	for (int k = 0; k < 4; k++)
		stk_context_unref(&contexts[k / 2][k % 2]);
	return tally.failed || !tally.whole;
}
