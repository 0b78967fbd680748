/* SPDX-License-Identifier: Apache-2.0
 * Set-up for groups of tests that need a GPU, either this machine's or the emulated one. Skips the tests if there is no GPU. */
#ifndef STK_TEST_GPU_SETUP_H
#define STK_TEST_GPU_SETUP_H

#include "test.h"

#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

struct gpu {
	struct stk_gpu *gpu;
	struct stk_gpu_device *dev; /* NULL if there is no GPU */
};

static struct stk_error err;

static inline void ok(enum stk_status status)
{
	if (status)
		fail_msg("%s: %s", stk_status_name(status), err.message);
}

/* Opens the GPU and sets *state to a struct gpu, whose `dev` is NULL without a GPU. Returns -1 if STOKER_EMULATED_CUDA is set and there is no GPU. */
static inline int setup(void **state)
{
	struct gpu *g = calloc(1, sizeof *g);
	*state = g;
	if (stk__gpu_open(&g->gpu, &err) || !stk__gpu_build().modules || stk__gpu_device_open(g->gpu, 0, &g->dev, &err))
		print_message("no GPU: %s\n", err.message);
	else
		ok(stk__gpu_enter(g->dev, &err));
	return !g->dev && getenv("STOKER_EMULATED_CUDA") ? -1 : 0;
}

static inline int teardown(void **state)
{
	struct gpu *g = *state;
	if (g->dev)
		stk__gpu_leave(g->dev);
	stk__gpu_device_close(g->dev);
	stk__gpu_close(g->gpu);
	free(g);
	return 0;
}

static inline struct stk_gpu_device *need_gpu(void **state)
{
	struct gpu *g = *state;
	if (!g->dev)
		skip();
	return g->dev;
}

static inline bool is_emulated(const struct stk_gpu_device *dev)
{
	return strstr(stk__gpu_device_facts(dev)->name, "emulated") != NULL;
}

#endif
