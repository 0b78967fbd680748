/* SPDX-License-Identifier: Apache-2.0
 * Random calls of the operators that make jobs: random tensors, types and arguments, by the operators' own tables. */
#ifndef ARRAY_CALLS_H
#define ARRAY_CALLS_H

#include "test.h"

#include "graph/graph.h"
#include "op/op.h"

enum { SPACE = 32 << 20, MAX_VALUES = 20000, MAX_ARGS = 10, MAX_INTS = 64 };

/* Tensors lie in `space`; the same offsets hold in device memory. */
struct call {
	struct stk_graph *g;
	struct stk_arena arena;
	struct stk_tools tools;
	struct stk_tensor in[4], out;
	struct stk_call call;
	struct stk_arg args[MAX_ARGS];
	int64_t ints[MAX_ARGS][MAX_INTS];
	double floats[MAX_ARGS][MAX_INTS];
	int n_args;
	const char *title;
	_Alignas(64) char state[4096];
	enum stk_status status; /* of the cores */
	uint8_t *want;
	int32_t first_job, n_jobs; /* in the GPU's batch */
};

extern uint8_t *space; /* SPACE bytes, by whoever opens calls */
extern size_t used;    /* of it */

/* Draws a call, and runs it on the cores: status and `want`. False: infer refused it. */
bool call_open(struct call *c);
void call_close(struct call *c);

/* ---- drawing calls ---- */

struct call_kind {
	const char *op;
	void (*draw)(struct call *c); /* inputs and arguments */
};
extern const struct call_kind image_kinds[];
extern const size_t n_image_kinds;

uint32_t call_draw(uint32_t n); /* 0 .. n - 1 */
enum stk_dtype call_dtype(void);
void call_input(struct call *c, enum stk_dtype dtype, int ndim, const int64_t *shape);
void call_any_input(struct call *c);
void call_int(struct call *c, const char *name, int64_t v);
void call_float(struct call *c, const char *name, double v);
int64_t *call_ints(struct call *c, const char *name, int n); /* to be filled in */
double *call_floats(struct call *c, const char *name, int n);

#endif
