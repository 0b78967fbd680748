/* SPDX-License-Identifier: Apache-2.0
 * water: warps an image as if seen through waves. */
#include "kernel/sample/sample.h"
#include "op/geometry/displace.h"

struct water {
	float ampl_x, ampl_y, freq_x, freq_y, phase_x, phase_y;
	struct stk_displace_args displace;
};

#define WAVE(member, dflt, text) STK_ARG(struct water, member, STK_ARG_FLOAT, dflt, STK_FREE, 0, text)

static const struct stk_arg_def water_args[] = {
	WAVE(ampl_x, "10.0", "Amplitude of the wave that moves pixels along x, in pixels."),
	WAVE(ampl_y, "10.0", "Amplitude of the wave that moves pixels along y, in pixels."),
	WAVE(freq_x, "0.049087", "Phase difference between rows of the wave along x, in radians."),
	WAVE(freq_y, "0.049087", "Phase difference between columns of the wave along y, in radians."),
	WAVE(phase_x, "0.0", "Phase of the first row, in radians."),
	WAVE(phase_y, "0.0", "Phase of the first column, in radians."),
	STK_ARG_GROUP(struct water, displace, stk__displace_group),
	STK_ARG_END,
};

static enum stk_status water_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct water *a = call->args;
	struct stk_job_sample s = {.map = STK_SAMPLE_WATER, .m = {a->ampl_x, a->freq_x, a->phase_x, a->ampl_y, a->freq_y, a->phase_y}};
	return stk__displace_lower(call, &a->displace, &s, jobs, err);
}

const struct stk_op_def stk__op_water = {
	.name = "water",
	.doc = "Warps images as if they were seen through water.\n\n"
	       "The pixel (x, y) is taken from (x + ampl_x sin(freq_x y + phase_x), y + ampl_y cos(freq_y x + phase_y)), counted from "
	       "the image's top left corner." STK_DISPLACE_DOC,
	.inputs = {1, 1},
	.tolerance = "Waves are float32, and DALI's differ in their last bits: with NN one pixel in a thousand is a neighbour of DALI's.",
	.args = water_args,
	.args_size = sizeof(struct water),
	.flags = STK_OP_IMAGES,
	.infer = stk__displace_infer,
	.lower_jobs = water_lower_jobs,
};
