/* SPDX-License-Identifier: Apache-2.0
 * Arithmetic on the CPU, block by block of the output: operands become int64, uint64, double or float, a loop of arithmetic_ops.h computes the result,
 * and the result is stored. Functions that call libm (kernel/job/job.h lists them) may differ between machines in the last bit. */
#include "kernel/arithmetic/arithmetic_run.h"

#include "base/error.h"
#include "kernel/arithmetic/arithmetic_one.h"
#include "kernel/convert/convert.h"
#include "kernel/job/job_cpu.h"

/* ---- a loop for each function and each representation of values ---- */

/* Computes n results. r may be the same array as a or b. Functions of one operand do not read b. */
typedef void loop(void *r, const void *a, const void *b, int n);

#define LOOP(symbol, type, second, expression)                                                                                             \
	static void symbol(void *rv, const void *av, const void *bv, int n)                                                                \
	{                                                                                                                                  \
		typedef type T;                                                                                                            \
		T *r = rv;                                                                                                                 \
		const T *as = av, *bs = second ? bv : av;                                                                                  \
		for (int i = 0; i < n; i++) {                                                                                              \
			T a = as[i], b = bs[i];                                                                                            \
			(void)a, (void)b;                                                                                                  \
			r[i] = (T)(expression);                                                                                            \
		}                                                                                                                          \
	}

#define NONE 0 /* makes a loop that never runs, since the operator refuses types for which a function is not defined */
#define BINARY(name, kind, whole, real)                                                                                                    \
	LOOP(name##_i, int64_t, 1, whole)                                                                                                  \
	LOOP(name##_u, uint64_t, 1, whole)                                                                                                 \
	LOOP(name##_f, double, 1, real)                                                                                                    \
	LOOP(name##_s, float, 1, real)
#define UNARY(name, kind, whole, real)                                                                                                     \
	LOOP(name##_i, int64_t, 0, whole)                                                                                                  \
	LOOP(name##_u, uint64_t, 0, whole)                                                                                                 \
	LOOP(name##_f, double, 0, real)                                                                                                    \
	LOOP(name##_s, float, 0, real)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
#include "kernel/arithmetic/arithmetic_ops.h"
#pragma GCC diagnostic pop
#undef NONE

/* There is a loop for each domain, and one more (HELD_FLOAT) for operands that are converted to float32, whose result is the double result rounded to float32.
 * For sums, differences, products and quotients, computing in float32 gives exactly this result, since double has more than twice as many digits. Loops of
 * other functions compute in double. */
enum { HELD_FLOAT = STK_ARITH_DOMAINS, HELD };

static loop *const loops[STK_ARITH_OPS][HELD] = {
#define BINARY(name, kind, whole, real) {name##_i, name##_u, name##_f, name##_s},
#define UNARY BINARY
#include "kernel/arithmetic/arithmetic_ops.h"
};

/* ---- operands and results ---- */

enum { BLOCK = STK_JOB_BLOCK };

union block {
	int64_t i[BLOCK];
	uint64_t u[BLOCK];
	double f[BLOCK];
	float s[BLOCK];
};

struct operand {
	const struct stk_job_source *source;
	enum stk_dtype dtype, as; /* as: type to which the operand is converted */
	const void *values;       /* values of the current block: in `block`, or in the tensor */
	union block block;
};

static void open_operand(struct operand *o, const struct stk_job_source *source, enum stk_dtype dtype, int register_kind)
{
	o->dtype = dtype;
	o->source = source;
	o->as = register_kind == HELD_FLOAT         ? STK_FLOAT
		: register_kind == STK_ARITH_DOUBLE ? STK_FLOAT64
		: o->dtype == STK_UINT64            ? STK_UINT64 /* keeps all bits; the usual conversion would saturate */
						    : STK_INT64;
	o->values = NULL;
}

/* Sets o->values to the values of operand k for n outputs from output `at` on. Repeated operands are the same in all blocks, so they are loaded only once. */
static void load(struct operand *o, const struct stk_job *job, int k, int64_t at, int n)
{
	if (o->values && o->source->pattern == STK_JOB_REPEATED)
		return;
	_Alignas(8) uint8_t gathered[8 * BLOCK];
	const uint8_t *x = stk__job_gather(job, k, o->source, stk__job_size(o->dtype), at, n, gathered);
	if (o->dtype == o->as && x != gathered) {
		o->values = x;
		return;
	}
	stk__convert(&o->block, o->as, x, o->dtype, n);
	o->values = &o->block;
}

/* The loop of store() for integers: stores their lowest bytes, so that they wrap around to the type of the result. */
#define STORE_LOW(type)                                                                                                                    \
	for (int i = 0; i < n; i++)                                                                                                        \
		((type *)y)[i] = (type)r->u[i];                                                                                            \
	break

static void store(const union block *r, int register_kind, void *y, enum stk_dtype to, int n)
{
	if (register_kind == HELD_FLOAT || register_kind == STK_ARITH_DOUBLE || to == STK_BOOL) {
		stk__convert(y, to, r,
			register_kind == HELD_FLOAT         ? STK_FLOAT
			: register_kind == STK_ARITH_DOUBLE ? STK_FLOAT64
							    : STK_UINT64,
			n);
		return;
	}
	switch (stk__job_size(to)) {
	case 1:
		STORE_LOW(uint8_t);
	case 2:
		STORE_LOW(uint16_t);
	case 4:
		STORE_LOW(uint32_t);
	default:
		STORE_LOW(uint64_t);
	}
}

static bool has_zero(const uint64_t *b, int n)
{
	for (int i = 0; i < n; i++)
		if (b[i] == 0)
			return true;
	return false;
}

/* Prepares comparisons of int64 with uint64 numbers, which are by value: a negative number is less than any unsigned one. Copies the values, and replaces a
 * pair that has a negative number by (0, 1), or by (1, 0) if the second is the negative one. */
static void compare_by_value(struct operand *a, struct operand *b, int n)
{
	const int64_t *x = a->values, *y = b->values;
	for (int i = 0; i < n; i++) {
		int64_t p = x[i], q = y[i];
		bool p_below = a->dtype != STK_UINT64 && p < 0, q_below = b->dtype != STK_UINT64 && q < 0;
		a->block.i[i] = p_below || q_below ? !p_below : p;
		b->block.i[i] = p_below || q_below ? !q_below : q;
	}
	a->values = &a->block;
	b->values = &b->block;
}

static int register_kind_of(const struct stk_job_arithmetic *a)
{
	return a->domain == STK_ARITH_DOUBLE && a->meet != STK_FLOAT64 ? HELD_FLOAT : a->domain;
}

enum stk_status stk__arithmetic_run(const struct stk_job *job, struct stk_error *err)
{
	const struct stk_job_arithmetic *op = &STK_PARAMS(stk_job_arithmetic, job);
	struct stk_job_source sources[STK_JOB_SOURCES];
	struct operand o[STK_JOB_SOURCES], *a = &o[0], *b = &o[op->operands - 1];
	union block result;
	int register_kind = register_kind_of(op);
	loop *run = loops[op->op][register_kind];
	for (int k = 0; k < op->operands; k++) {
		sources[k] = stk__job_source(job, k, stk__job_size(job->src_dtype[k]));
		open_operand(&o[k], &sources[k], (enum stk_dtype)job->src_dtype[k], register_kind);
	}
	int block = stk__job_block(sources, op->operands);
	int32_t size = stk__job_size(job->dst_dtype);
	static const int32_t types[HELD] = {STK_INT64, STK_UINT64, STK_FLOAT64, STK_FLOAT};
	bool direct = job->dst_dtype == types[register_kind];
	for (int64_t at = 0; at < job->n; at += block) {
		int n = job->n - at < block ? (int)(job->n - at) : block;
		void *y = job->dst + at * size;
		for (int k = 0; k < op->operands; k++)
			load(&o[k], job, k, at, n);
		if (op->divides && has_zero(b->values, n))
			return stk__fail(err, STK_INVALID, STK_DIVIDED_BY_ZERO);
		if (op->by_value)
			compare_by_value(a, b, n);
		run(direct ? y : &result, a->values, b->values, n);
		if (!direct)
			store(&result, register_kind, y, (enum stk_dtype)job->dst_dtype, n);
		if (op->by_value)
			a->values = b->values = NULL; /* they point into this block's copies */
	}
	return STK_OK;
}
