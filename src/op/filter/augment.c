/* SPDX-License-Identifier: Apache-2.0
 * augment: one of the operations of automatic augmentation, which a number chooses for each sample.
 *
 * The alternative, an `if` for each operation, would add many operators and conditions to the graph. Instead, a sample makes one job of an existing kind. The
 * lists of a policy are arguments, from which the argument `row` chooses an entry for the sample. */
#include "kernel/enhance/enhance.h"
#include "kernel/equalize/equalize.h"
#include "kernel/pointwise/pointwise.h"
#include "kernel/transform/transform.h"
#include "op/dims.h"

#include <string.h>

enum operation {
	IDENTITY,
	SHEAR_X,
	SHEAR_Y,
	TRANSLATE_X,
	TRANSLATE_Y,
	ROTATE,
	BRIGHTNESS,
	COLOR,
	CONTRAST,
	SHARPNESS,
	POSTERIZE,
	SOLARIZE,
	AUTO_CONTRAST,
	EQUALIZE,
	INVERT,
	SOLARIZE_ADD,
	OPERATIONS
};

enum { ENTRIES = 256 };

struct augment {
	struct stk_ints operation;
	struct stk_floats magnitude;
	int64_t row;
	int32_t interp_type;
	struct stk_floats fill_value;
};

#define MOST 0x1p14 /* limit of a magnitude, so that positions stay in range */
static const struct stk_arg_def augment_args[] = {
	STK_ARG(struct augment, operation, STK_ARG_INTS, NULL, (0, OPERATIONS - 1), STK_PER_SAMPLE | STK_SCALAR_OK | STK_REQUIRED,
		"One operation, or a list from which row chooses: 0 identity, 1 shear_x, 2 shear_y, 3 translate_x, 4 translate_y, 5 rotate, "
		"6 brightness, 7 color, 8 contrast, 9 sharpness, 10 posterize, 11 solarize, 12 auto_contrast, 13 equalize, 14 invert, "
		"15 solarize_add."),
	STK_ARG(struct augment, magnitude, STK_ARG_FLOATS, "[0.0]", (-MOST, MOST), STK_PER_SAMPLE | STK_SCALAR_OK,
		"One magnitude, or one for each operation of the list. For shears, the factor; for translations, pixels to the right or "
		"down; for rotations, degrees counter-clockwise; for brightness, color, contrast and sharpness, the factor, where 1 "
		"keeps the image; for posterize, how many bits stay; for solarize, the value from which on others are inverted; for "
		"solarize_add, the number added to values below 128. Other operations ignore it."),
	STK_ARG(struct augment, row, STK_ARG_INT, "0", (0, 65535), STK_PER_SAMPLE, "Index into the lists of operations and magnitudes."),
	STK_ARG(struct augment, interp_type, STK_ARG_INTERP, "0", (STK_INTERP_NN, STK_INTERP_CUBIC), STK_PER_SAMPLE,
		"Interpolation of shears, translations and rotations: INTERP_NN, INTERP_LINEAR or INTERP_CUBIC."),
	STK_ARG(struct augment, fill_value, STK_ARG_FLOATS, "[0.0]", (0, 255), STK_SCALAR_OK,
		"Values outside the image: one, or one for each channel."),
	STK_ARG_END,
};

/* One operation of the policy, from one entry of each list. */
struct step {
	int64_t operation;
	float magnitude;
};

static int32_t rows_of(const struct augment *a)
{
	return a->operation.count > a->magnitude.count ? a->operation.count : a->magnitude.count;
}

static struct step step_at(const struct augment *a, int64_t row)
{
	return (struct step){a->operation.v[a->operation.count == 1 ? 0 : row], a->magnitude.v[a->magnitude.count == 1 ? 0 : row]};
}

static enum stk_status check_lists(const struct augment *a, struct stk_error *err)
{
	int32_t operations = a->operation.count, magnitudes = a->magnitude.count, rows = rows_of(a);
	if (operations < 1 || magnitudes < 1 || (operations != rows && operations != 1) || (magnitudes != rows && magnitudes != 1))
		return stk__fail(err, STK_INVALID, "there are %d operations and %d magnitudes: give one, or as many of both", operations,
			magnitudes);
	return STK_OK;
}

static enum stk_status check_step(struct step step, struct stk_error *err)
{
	double magnitude = (double)step.magnitude;
	if (step.operation >= BRIGHTNESS && step.operation <= SHARPNESS && !(magnitude >= 0))
		return stk__fail(err, STK_INVALID, "magnitude is %g: a factor is at least 0", magnitude);
	if (step.operation == POSTERIZE && !(magnitude >= 0 && magnitude < 9))
		return stk__fail(err, STK_INVALID, "magnitude is %g: posterize keeps 0 to 8 bits", magnitude);
	if (step.operation == SOLARIZE_ADD && !(magnitude >= 0 && magnitude <= 255))
		return stk__fail(err, STK_INVALID, "magnitude is %g: solarize_add adds 0 to 255", magnitude);
	return STK_OK;
}

/* Returns whether the operation is known to change nothing, so that the output can be a view of the input. */
static bool keeps_image(struct step step)
{
	return step.operation == IDENTITY || (step.operation >= BRIGHTNESS && step.operation <= SHARPNESS && step.magnitude == 1);
}

/* Checks the operation that `row` chooses and, if it changes nothing, makes the output a view of the input. Arguments that vary from sample to sample have
 * no values while the graph is built: if only `row` varies, checks all operations of the lists instead; if one of the lists varies, checks nothing. */
static enum stk_status infer_step(const struct stk_call *call, struct stk_error *err)
{
	const struct augment *a = call->args;
	if (stk__varies(call, &a->operation) || stk__varies(call, &a->magnitude))
		return STK_OK;
	enum stk_status s = check_lists(a, err);
	bool drawn = !stk__varies(call, &a->row);
	if (s == STK_OK && drawn && a->row >= rows_of(a))
		return stk__fail(err, STK_INVALID, "row is %lld, but there are %d operations", (long long)a->row, rows_of(a));
	for (int64_t row = drawn ? a->row : 0, end = drawn ? a->row + 1 : rows_of(a); row < end && s == STK_OK; row++)
		s = check_step(step_at(a, row), err);
	if (s == STK_OK && drawn && keeps_image(step_at(a, a->row)))
		call->out[0].data = call->in[0].data; /* the output is a view, so nothing is copied */
	return s;
}

static enum stk_status augment_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct augment *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_dims dims;
	call->out[0].desc = *in;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8)
		return stk__fail(err, STK_UNSUPPORTED, "only images of uint8 can be augmented, not of %s", stk_dtype_name(in->dtype));
	int64_t channels;
	enum stk_status s = stk__dims_of_pixels(in, &dims, &channels, err);
	if (s)
		return s;
	if (channels >= 0 && (s = stk__check_per_channel("fill_value", a->fill_value, channels, err)))
		return s;
	return infer_step(call, err);
}

/* Returns x rounded to 15 decimals, as Pillow does, so that multiples of 90 degrees are exact. */
static double decimals(double x)
{
	return round(x * 1e15) / 1e15;
}

/* Sets m to the map from positions in the output to the input, for a rotation by `degrees` about the image's centre. */
static void turning(double degrees, const struct stk_transform *t, double m[6])
{
	double angle = -degrees * (3.14159265358979323846 / 180), x = t->width / 2.0, y = t->height / 2.0;
	double c = decimals(cos(angle)), s = decimals(sin(angle));
	m[0] = m[4] = c;
	m[1] = s;
	m[3] = -s;
	m[2] = x - c * x - s * y;
	m[5] = y + s * x - c * y;
}

static void moving(struct step step, const struct stk_transform *t, double m[6])
{
	double magnitude = (double)step.magnitude;
	const double identity[6] = {1, 0, 0, 0, 1, 0};
	memcpy(m, identity, sizeof identity);
	switch (step.operation) {
	case SHEAR_X:
		m[1] = magnitude;
		return;
	case SHEAR_Y:
		m[3] = magnitude;
		return;
	case TRANSLATE_X:
		m[2] = -magnitude;
		return;
	case TRANSLATE_Y:
		m[5] = -magnitude;
		return;
	default:
		turning(magnitude, t, m);
	}
}

static enum stk_status move(const struct stk_call *call, struct stk_transform *t, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct augment *a = call->args;
	double m[6];
	t->interp = (int32_t)a->interp_type;
	t->n_fills = a->fill_value.count;
	for (int32_t k = 0; k < t->n_fills; k++)
		t->fill[k] = (uint8_t)lrintf(a->fill_value.v[k]);
	moving(step_at(a, a->row), t, m);
	stk__transform_matrix(t, m);
	return stk__job_transform(jobs, t, &call->in[0], &call->out[0], err);
}

/* Sets table[v] to the result of the operation for value v. */
static void fill_table(struct step step, uint8_t table[ENTRIES])
{
	int magnitude = (int)step.magnitude, mask = step.operation == POSTERIZE ? 0xff << (8 - magnitude) : 0;
	switch (step.operation) {
	case POSTERIZE:
		for (int value = 0; value < ENTRIES; value++)
			table[value] = (uint8_t)(value & mask);
		return;
	case SOLARIZE:
		for (int value = 0; value < ENTRIES; value++)
			table[value] = (uint8_t)((float)value < step.magnitude ? value : 255 - value);
		return;
	case SOLARIZE_ADD:
		for (int value = 0; value < ENTRIES; value++)
			table[value] = (uint8_t)(value >= 128 ? value : value + magnitude < 255 ? value + magnitude : 255);
		return;
	default:
		for (int value = 0; value < ENTRIES; value++)
			table[value] = (uint8_t)(255 - value);
	}
}

static enum stk_status look_up(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct augment *a = call->args;
	struct stk_pointwise p = {.op = STK_POINTWISE_LOOKUP, .lookup = {.entries = ENTRIES}};
	uint8_t *table = call->state; /* stored in the state, since a job's constants must outlive this call */
	fill_table(step_at(a, a->row), table);
	return stk__job_pointwise(jobs, &p, table, ENTRIES, &call->in[0], &call->out[0], err);
}

static enum stk_status enhance(const struct stk_call *call, const struct stk_transform *t, struct stk_jobs *jobs, struct stk_error *err)
{
	static const enum stk_enhance_kind kinds[] = {
		STK_ENHANCE_BRIGHTNESS, STK_ENHANCE_SATURATION, STK_ENHANCE_CONTRAST, STK_ENHANCE_SHARPNESS};
	const struct augment *a = call->args;
	struct step step = step_at(a, a->row);
	struct stk_enhance e = {.frames = t->frames, .width = t->width, .height = t->height, .channels = t->channels, .n = 1};
	e.step[0] = (struct stk_enhance_step){.kind = kinds[step.operation - BRIGHTNESS], .factor = step.magnitude};
	return stk__job_enhance(jobs, &e, &call->in[0], &call->out[0], err);
}

static enum stk_status augment_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct augment *a = call->args;
	int64_t operation = step_at(a, a->row).operation;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_dims dims;
	enum stk_status s = stk__dims_of(in, &dims, err);
	if (s)
		return s;
	struct stk_rows rows = stk__rows_of(&dims, in);
	struct stk_transform t = {.frames = rows.frames, .height = rows.height, .width = rows.width, .channels = (int32_t)rows.channels};
	if (operation <= ROTATE)
		return move(call, &t, jobs, err);
	if (operation <= SHARPNESS)
		return enhance(call, &t, jobs, err);
	if (operation != AUTO_CONTRAST && operation != EQUALIZE)
		return look_up(call, jobs, err);
	struct stk_equalize e = {.outer = t.frames,
		.width = t.width,
		.height = t.height,
		.channels = t.channels,
		.table = operation == EQUALIZE ? STK_EQUALIZE_PILLOW : STK_EQUALIZE_STRETCH};
	return stk__job_equalize(jobs, &e, NULL, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_augment = {
	.name = "augment",
	.doc = "Applies one of the operations of automatic augmentation to each image, which a number of the sample chooses.\n\n"
	       "A policy gives its operations and magnitudes as lists, from which each sample draws a row.\n\n"
	       "Images are of uint8, with 1 or 3 channels (RGB), and keep their extents. Results equal those of Pillow, on which "
	       "torchvision's and timm's policies run, except that LINEAR and CUBIC may differ by 1. Shears are about the upper left "
	       "corner, rotations about the centre.",
	.inputs = {1, 1},
	.layouts = "HW HWC FHW FHWC",
	.args = augment_args,
	.args_size = sizeof(struct augment),
	.state_size = ENTRIES,
	.flags = STK_OP_IMAGES,
	.infer = augment_infer,
	.lower_jobs = augment_lower_jobs,
};
