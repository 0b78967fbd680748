/* SPDX-License-Identifier: Apache-2.0
 * jitter: moves each pixel at random. */
#include "kernel/sample/sample.h"
#include "op/geometry/displace.h"

struct jitter {
	int64_t nDegree, seed;
	struct stk_displace_args displace;
};

static const struct stk_arg_def jitter_args[] = {
	STK_ARG(struct jitter, nDegree, STK_ARG_INT, "2", (0, 65536), 0,
		"Each pixel is taken from a place up to nDegree / 2 pixels away along x and along y; all whole distances have the same "
		"chance."),
	STK_ARG(struct jitter, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG_GROUP(struct jitter, displace, stk__displace_group),
	STK_ARG_END,
};

static enum stk_status jitter_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct jitter *a = call->args;
	struct stk_random r = call->random;
	uint64_t seed = stk__random_u32(&r);
	struct stk_job_sample s = {.map = STK_SAMPLE_JITTER, .seed = seed << 32 | stk__random_u32(&r), .m = {(float)(a->nDegree / 2)}};
	return stk__displace_lower(call, &a->displace, &s, jobs, err);
}

const struct stk_op_def stk__op_jitter = {
	.name = "jitter",
	.doc = "Moves each pixel of an image at random." STK_DISPLACE_DOC,
	.inputs = {1, 1},
	.args = jitter_args,
	.args_size = sizeof(struct jitter),
	.flags = STK_OP_IMAGES | STK_OP_RANDOM,
	.infer = stk__displace_infer,
	.lower_jobs = jitter_lower_jobs,
};
