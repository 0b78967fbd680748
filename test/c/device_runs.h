/* SPDX-License-Identifier: Apache-2.0
 * The same graph on the cores and on a GPU, for tests of pipelines there. Folders are those of pipelines.h. */
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

/* Graphs over a folder; what they have on a GPU is placed there. */
struct device_graph {
	const char *what;
	struct stk_graph *(*make)(const char *folder);
	bool photographs; /* something in it is decoded on the GPU */
	bool divides;     /* by zero, in some batch of an epoch: an error */
};
extern const struct device_graph device_graphs[];
extern const int n_device_graphs;
const struct device_graph *device_graph(const char *what);

struct device_settings {
	int32_t device, threads, batch, prefetch, max_batches; /* device -1: the cores; the rest 0: 2 threads, batches of 4, the defaults */
	enum stk_on_error on_error;
	size_t gpu_memory;
	bool no_fuse, trace;
};

/* Batches in their order: of samples, or of one entry for an error: {its code, its sample, -2, its message hashed}. */
struct device_run {
	struct run run;
	int batches, errors;
	double decoded, refused; /* by the GPU */
};

/* Of the emulated driver, for contexts that are made from now on, while there are none. */
void emulate(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool is_emulated(void);
/* Of the function that emulate() told to fail, since the last context was made. */
long emulated_calls_seen(void);
/* The GPU can be used. */
bool have_device(void);
/* Skips the test where it cannot. */
void need_device(void);

struct stk_context *make_context(int32_t threads);
/* These end the graph. */
struct stk_pipeline *make_device_pipeline(struct stk_context *ctx, struct stk_graph *g, const struct device_settings *s);
/* NULL, with err. */
struct stk_pipeline *try_device_pipeline(
	struct stk_context *ctx, struct stk_graph *g, const struct device_settings *s, struct stk_error *err);
/* Adds what comes next; false at an epoch's end. */
bool take_batch(struct stk_pipeline *p, struct device_run *r);
/* Six epochs, each left after 0 to 3 batches. */
void leave_epochs(struct stk_pipeline *p, struct device_run *r);
void add_batch_seen(struct device_run *r, struct stk_batch *b);
double counter_of(struct stk_pipeline *p, const char *name);

struct device_run run_device(struct stk_graph *g, const struct device_settings *s, int epochs);
void free_device_run(struct device_run *r);
void assert_same_runs(const struct device_run *cores, const struct device_run *gpu, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
