/* SPDX-License-Identifier: Apache-2.0
 * Runs the same graph on the CPU and on a GPU, for tests of pipelines on GPUs. pipelines.h makes the folders. */
#ifndef STK_TEST_DEVICE_RUNS_H
#define STK_TEST_DEVICE_RUNS_H

#include "graphs.h"
#include "pipelines.h"
#include "test.h"

#include <stdbool.h>

static inline void ok(enum stk_status s, const struct stk_error *err)
{
	if (s)
		fail_msg("%s: %s", stk_status_name(s), err->message);
}

/* Graphs over a folder; every operator that has a GPU version is placed on the GPU. */
struct device_graph {
	const char *what;
	struct stk_graph *(*make)(const char *folder);
	bool photographs; /* the graph decodes some files on the GPU */
	bool divides;     /* at least one batch of each epoch divides by zero, which is an error */
};
extern const struct device_graph device_graphs[];
extern const int n_device_graphs;
const struct device_graph *device_graph(const char *what);

struct device_settings {
	int32_t device, threads, batch, prefetch,
		max_batches; /* device -1 is the CPU. In other members 0 stands for: 2 threads, batches of 4, and the library's
		              * defaults */
	enum stk_on_error on_error;
	size_t gpu_memory;
	enum stk_decoding decode;
	bool no_fuse, trace;
};

/* The results of a run: an entry for each sample of each batch, in order. A batch that failed has one entry instead: its epoch is the error's code,
 * its position the sample's index, its id -2, and its hash that of the message. */
struct device_run {
	struct run run;
	int batches, errors;
	double decoded, refused,
		spare; /* numbers of images that the GPU decoded, that it refused, and that the cores decoded although the GPU could
		        * have */
};

/* Sets options of the emulated driver, which apply to later contexts. Call it while no context exists. */
void emulate(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool is_emulated(void);
/* Returns the number of calls, since the last context was created, of the function that emulate()'s options name. */
long emulated_calls_seen(void);
/* Returns whether the GPU can be used. */
bool have_device(void);
/* Skips the test if the GPU cannot be used. */
void need_device(void);

struct stk_context *make_context(int32_t threads);
/* Make a pipeline, and free the graph. make_device_pipeline fails the test on an error; try_device_pipeline returns NULL and sets err. */
struct stk_pipeline *make_device_pipeline(struct stk_context *ctx, struct stk_graph *g, const struct device_settings *s);
struct stk_pipeline *try_device_pipeline(
	struct stk_context *ctx, struct stk_graph *g, const struct device_settings *s, struct stk_error *err);
/* Takes the next batch, and appends it or its error to *r. Returns false at the end of an epoch. */
bool take_batch(struct stk_pipeline *p, struct device_run *r);
/* Begins six epochs, takes 0 to 3 batches of each, and skips the rest. Appends the batches to *r. */
void leave_epochs(struct stk_pipeline *p, struct device_run *r);
void add_batch_seen(struct device_run *r, struct stk_batch *b);
double counter_of(struct stk_pipeline *p, const char *name);

struct device_run run_device(struct stk_graph *g, const struct device_settings *s, int epochs);
void free_device_run(struct device_run *r);
void assert_same_runs(const struct device_run *cores, const struct device_run *gpu, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
