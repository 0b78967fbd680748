/* SPDX-License-Identifier: Apache-2.0
 * decoders.image: decodes a file's bytes to pixels. */
#include "op/decoders/decode.h"

static const struct stk_arg_def decode_image_args[] = {
	{.name = "", .group = stk__decode_group},
	STK_ARG(struct stk_decode_args, scale_denom, STK_ARG_INT, "1", (1, 8), 0,
		"1, 2, 4 or 8: JPEGs are decoded at this fraction of their size, extents rounded up, with libjpeg-turbo's pixels. This "
		"saves much of the work: use it for thumbnails, and before a resize to a much smaller size."),
	{.name = "", .group = stk__decode_cache_group},
	STK_ARG_END,
};

const struct stk_op_def stk__op_decode_image = {
	.name = "decoders.image",
	.alias = "image_decoder",
	.doc = "Decodes images.\n\n"
	       "The input is the bytes of a file, the output pixels with layout HWC. JPEG (baseline and progressive, gray, CMYK), PNG, "
	       "WebP, TIFF, BMP and PNM are\n"
	       "read; the format is recognised from the bytes. A TIFF may have strips or tiles, PackBits, LZW or deflate, and 1 to 16 "
	       "bits a channel. A palette's\n"
	       "indices are replaced by colours, even in masks: GRAY is their luminance, as in DALI, and not the index. Files of 16 "
	       "bits a channel\n"
	       "are rounded to 8 if dtype is uint8, the default; other types are made from all 16. TIFFs of floats (0..1), of signed integers "
	       "of 16 bits\n"
	       "and of up to 64 bands are read too; values=\"kept\" keeps their numbers. A damaged or truncated file is an "
	       "error of its sample\n"
	       "only, which the pipeline's on_error policy handles. If later operators keep only a part of the image, only that part "
	       "is decoded.",
	.tolerance =
		"Gray values from colour images in BMP, PNM, TIFF and WebP differ by 1 in 0.5% of the pixels. BMPs of 16 bits reach 255 "
		"(DALI: 248), and bit fields may have any order of colours (DALI: one). PNMs with other maxima than 255 and 65535 are "
		"scaled to the whole range, binary ones too. TIFFs of 16 bits in which 0 is white are inverted, and those of gray and "
		"alpha become gray RGB. With ANY_DATA, BMPs of 32 bits are RGB if they name no alpha (DALI fails), and TIFFs of CMYK "
		"keep the four inks. TIFFs of JPEG and fax are refused, and so are JPEG 2000 files, which DALI reads.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = decode_image_args,
	.args_size = sizeof(struct stk_decode_args),
	.state_size = sizeof(struct stk_decode_state),
	.classes = STK_CLASS_WINDOW | STK_CLASS_POINTWISE,
	.classify = stk__decode_classify,
	.infer = stk__decode_infer,
	.lower = stk__decode_lower,
	.extent = stk__decode_extent,
	.encoded = stk__decode_encoded,
	.fetch = stk__decode_fetch,
};
