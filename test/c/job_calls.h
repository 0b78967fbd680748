/* SPDX-License-Identifier: Apache-2.0
 * Random calls of operators that make jobs. Tensors, types and arguments are drawn within the limits of the operators' tables. */
#ifndef JOB_CALLS_H
#define JOB_CALLS_H

#include "test.h"

#include "graph/graph.h"
#include "op/op.h"

enum { SPACE = 32 << 20, MAX_VALUES = 20000, MAX_ARGS = 10, MAX_INTS = 64 };

/* A call of an operator. All its tensors are in `space`, and at the same offsets in device memory. */
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
	enum stk_status status; /* result of the run on the CPU */
	uint8_t *want;
	int32_t first_job, n_jobs; /* index of the call's first job in the GPU's batch, and number of its jobs */
};

extern uint8_t *space; /* SPACE bytes, which the test allocates before it opens calls */
extern size_t used;    /* bytes of `space` that are in use */

/* Draws a call and runs it on the CPU, which sets `status` and `want`. Returns false if the operator's infer function
 * refused the call, or made the output a view of the input, so that nothing has to run. */
bool call_open(struct call *c);
void call_close(struct call *c);

/* ---- drawing calls ---- */

struct call_kind {
	const char *op;
	void (*draw)(struct call *c); /* draws inputs and arguments */
};
extern const struct call_kind image_kinds[];
extern const size_t n_image_kinds;

uint32_t call_draw(uint32_t n); /* returns a random number from 0 to n - 1 */
enum stk_dtype call_dtype(void);
void call_input(struct call *c, enum stk_dtype dtype, int ndim, const int64_t *shape);
void call_any_input(struct call *c);
void call_int(struct call *c, const char *name, int64_t v);
void call_float(struct call *c, const char *name, double v);
int64_t *call_ints(struct call *c, const char *name, int n); /* adds an argument of n integers, for the caller to fill in */
double *call_floats(struct call *c, const char *name, int n);

#endif
