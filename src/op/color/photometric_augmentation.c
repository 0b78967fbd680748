/* SPDX-License-Identifier: Apache-2.0
 * photometric_augmentation: draws the values by which photometric_distortion changes images. */
#include "op/color/photometric.h"
#include "op/objects/objects.h"

struct photometric_augmentation {
	struct stk_floats brightness, contrast, saturation, hue;
	float p_brightness, p_contrast, p_saturation, p_hue, p_channels;
	int64_t seed;
};

#define RANGE(member, fallback, text)                                                                                                      \
	STK_ARG(struct photometric_augmentation, member, STK_ARG_FLOATS, fallback, STK_FREE, 0, "Least and largest " text ".")
#define CHANCE(member, text) STK_ARG(struct photometric_augmentation, member, STK_ARG_FLOAT, "0.5", (0, 1), 0, "Probability that " text ".")

static const struct stk_arg_def photometric_augmentation_args[] = {
	RANGE(brightness, "[0.0, 0.0]", "value that is added to all channels: of 255 for images of uint8, of 1 for others"),
	RANGE(contrast, "[1.0, 1.0]", "factor of all channels"),
	RANGE(saturation, "[1.0, 1.0]", "factor of the saturation"),
	RANGE(hue, "[0.0, 0.0]", "rotation of the hue, in degrees"),
	CHANCE(p_brightness, "brightness changes"),
	CHANCE(p_contrast, "contrast changes"),
	CHANCE(p_saturation, "saturation changes"),
	CHANCE(p_hue, "the hue changes"),
	CHANCE(p_channels, "channels change places, in one of the six orders"),
	STK_OBJECTS_SEED(struct photometric_augmentation),
	STK_ARG_END,
};

static enum stk_status check_range(const char *name, struct stk_floats v, struct stk_error *err)
{
	if (v.count != 2 || !(v.v[0] <= v.v[1]))
		return stk__fail(err, STK_INVALID, "%s takes a least and a largest value, in this order", name);
	return STK_OK;
}

static enum stk_status photometric_augmentation_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct photometric_augmentation *a = call->args;
	enum stk_status s = check_range("brightness", a->brightness, err);
	call->out[0].desc = (struct stk_desc){STK_FLOAT, 1, {STK_PHOTOMETRIC_VALUES}, ""};
	if (s || (s = check_range("contrast", a->contrast, err)) || (s = check_range("saturation", a->saturation, err)))
		return s;
	return check_range("hue", a->hue, err);
}

static float draw(struct stk_random *r, struct stk_floats range)
{
	return (float)stk__draw_between(r, range.v[0], range.v[1]);
}

/* Draws all values, also those of changes that are not applied, so that no value depends on which changes are applied. */
static enum stk_status photometric_augmentation_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	const struct photometric_augmentation *a = call->args;
	struct stk_random r = call->random;
	float *v = call->out[0].data;
	const float chances[] = {a->p_brightness, a->p_contrast, a->p_saturation, a->p_hue, a->p_channels};
	uint32_t applied = 0;
	for (uint32_t k = 0; k < sizeof chances / sizeof *chances; k++)
		applied |= (uint32_t)(stk__random_float(&r) < chances[k]) << k;
	v[STK_PHOTOMETRIC_APPLIED] = (float)applied;
	v[STK_PHOTOMETRIC_CONTRAST_FIRST] = (float)stk__random_below(&r, 2);
	v[STK_PHOTOMETRIC_BRIGHTNESS] = draw(&r, a->brightness);
	v[STK_PHOTOMETRIC_CONTRAST] = draw(&r, a->contrast);
	v[STK_PHOTOMETRIC_SATURATION] = draw(&r, a->saturation);
	v[STK_PHOTOMETRIC_HUE] = draw(&r, a->hue);
	v[STK_PHOTOMETRIC_ORDER] = (float)stk__random_below(&r, 6);
	return STK_OK;
}

const struct stk_op_def stk__op_photometric_augmentation = {
	.name = "photometric_augmentation",
	.doc = "Draws changes of brightness, contrast, saturation, hue and order of channels.\n\n"
	       "The output is a vector of float32 for photometric_distortion, which applies it; all images that take one vector change "
	       "alike. Its values: which of the five changes are made, a bit each; whether contrast comes before the colours (1) or "
	       "after them (0); brightness, contrast, saturation, hue; the number of the channels' order.",
	.args = photometric_augmentation_args,
	.args_size = sizeof(struct photometric_augmentation),
	.flags = STK_OP_RANDOM | STK_OP_CLONED,
	.infer = photometric_augmentation_infer,
	.run_cpu = photometric_augmentation_run,
};
