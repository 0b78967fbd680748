/* SPDX-License-Identifier: Apache-2.0 */
#include "op/color/intensity.h"

const char stk__intensity_dtype_doc[] = "Type of the output, to which values are rounded. Default: the input's.";

double stk__intensity_range(enum stk_dtype dtype)
{
	switch (dtype) {
	case STK_UINT8:
		return 255;
	case STK_INT8:
		return 127;
	case STK_UINT16:
		return 65535;
	case STK_INT16:
		return 32767;
	case STK_INT32:
		return 2147483647;
	case STK_FLOAT:
	case STK_FLOAT16:
	case STK_BFLOAT16:
		return 1;
	default:
		return 0;
	}
}

double stk__intensity_center(enum stk_dtype dtype)
{
	double range = stk__intensity_range(dtype);
	return range > 1 ? (range + 1) / 2 : range / 2;
}

enum stk_status stk__intensity_infer(const struct stk_call *call, int32_t dtype, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_dims dims;
	enum stk_status s = stk__dims_of(in, &dims, err);
	if (s)
		return s;
	call->out[0].desc = *in;
	call->out[0].desc.dtype = stk__dtype_or(dtype, in->dtype);
	enum stk_dtype types[2] = {in->dtype, call->out[0].desc.dtype};
	for (int i = 0; i < 2; i++)
		if (types[i] != STK_NO_DTYPE && stk__intensity_range(types[i]) == 0)
			return stk__fail(err, STK_UNSUPPORTED, "%s of %s is not supported; cast to float32 first",
				i ? "an output" : "an input", stk_dtype_name(types[i]));
	return STK_OK;
}

void stk__intensity_lower(const struct stk_intensity *i, int32_t dtype, struct stk_pass *pass)
{
	enum stk_dtype in = (enum stk_dtype)pass->dtype, out = stk__dtype_or(dtype, in);
	double center = isnan(i->center) ? stk__intensity_center(in) : i->center;
	double a = (double)i->brightness * i->contrast;
	double b = i->shift * stk__intensity_range(out) + i->brightness * (center - i->contrast * center);
	float scale[STK_PASS_MAX_CHANNELS], bias[STK_PASS_MAX_CHANNELS];
	for (int c = 0; c < STK_PASS_MAX_CHANNELS; c++) {
		scale[c] = (float)a;
		bias[c] = (float)b;
	}
	stk__pass_affine(pass, scale, bias, out);
}
