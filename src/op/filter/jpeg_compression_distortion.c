/* SPDX-License-Identifier: Apache-2.0
 * jpeg_compression_distortion: gives images the artefacts of JPEG compression. */
#include "kernel/jpeg_distortion/jpeg_distortion.h"
#include "op/dims.h"

struct jpeg_compression_distortion {
	int64_t quality;
};

static const struct stk_arg_def jpeg_compression_distortion_args[] = {
	STK_ARG(struct jpeg_compression_distortion, quality, STK_ARG_INT, "50", (-0x1p31, 0x1p31), STK_PER_SAMPLE,
		"Quality on libjpeg's scale: from 1, the lowest, to 100. Values outside are clamped to that range."),
	STK_ARG_END,
};

static enum stk_status jpeg_compression_distortion_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	call->out[0].desc = *in;
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8)
		return stk__fail(err, STK_UNSUPPORTED, "JPEG compresses images of uint8, not of %s", stk_dtype_name(in->dtype));
	if (in->ndim < 0)
		return STK_OK;
	int32_t channels = stk__layout_find(in, 'C');
	if (in->ndim < 3 || channels != in->ndim - 1 || stk__layout_find(in, 'W') != channels - 1 ||
		stk__layout_find(in, 'H') != channels - 2)
		return stk__fail(err, STK_SHAPE, "the input must be an image of layout HWC, or FHWC, not of %d dims (layout \"%s\")",
			in->ndim, in->layout);
	if (in->shape[channels] >= 0 && in->shape[channels] != 3)
		return stk__fail(err, STK_SHAPE, "the image must have 3 channels, in RGB, not %lld", (long long)in->shape[channels]);
	return STK_OK;
}

static enum stk_status jpeg_compression_distortion_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct jpeg_compression_distortion *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_jpeg_distortion j;
	int64_t frames = 1;
	for (int32_t d = 0; d < in->ndim - 3; d++)
		frames *= in->shape[d];
	stk__jpeg_distortion_init(&j, frames, (int32_t)in->shape[in->ndim - 2], (int32_t)in->shape[in->ndim - 3], a->quality);
	return stk__job_jpeg_distortion(jobs, &j, &call->in[0], &call->out[0], err);
}

const struct stk_op_def stk__op_jpeg_compression_distortion = {
	.name = "jpeg_compression_distortion",
	.doc = "Gives images the artefacts of JPEG.\n\n"
	       "Images are of uint8, in RGB. The output has the pixels that libjpeg-turbo decodes from its own encoding with this "
	       "quality, chroma at half the size (4:2:0) and its default settings, bit by bit; no file is made in between.",
	.inputs = {1, 1},
	.layouts = "HWC FHWC",
	.args = jpeg_compression_distortion_args,
	.args_size = sizeof(struct jpeg_compression_distortion),
	.flags = STK_OP_IMAGES,
	.infer = jpeg_compression_distortion_infer,
	.lower_jobs = jpeg_compression_distortion_lower_jobs,
};
