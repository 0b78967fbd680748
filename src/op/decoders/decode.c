/* SPDX-License-Identifier: Apache-2.0 */
#include "op/decoders/decode.h"

#include "op/color/intensity.h"

#define IGNORED(member, kind, dflt, why) STK_ARG(struct stk_decode_args, member, kind, dflt, STK_FREE, STK_ACCEPTED, why)

static const char about_device[] = "Accepted and ignored: tunes DALI's decoder on GPUs.";

const struct stk_arg_def stk__decode_group[] = {
	STK_ARG(struct stk_decode_args, output_type, STK_ARG_IMAGE_TYPE, "0", (0, 4), 0,
		"RGB, BGR, GRAY, YCbCr (studio range), or ANY_DATA for the channels of the file."),
	STK_ARG(struct stk_decode_args, dtype, STK_ARG_DTYPE, "0", (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the output; values are scaled to its range, unless `values` says otherwise: floats are 0..1, uint16 0..65535."),
	{.name = "values",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct stk_decode_args, values),
		.fallback = "\"scaled\"",
		.choices = "scaled|kept|pictures",
		.doc = "\"scaled\": values are scaled to the range of dtype, as in DALI. \"kept\": the numbers of the file become dtype unchanged; files "
		       "whose numbers it does not hold are refused. \"pictures\": scaled, and files of floats, of signed numbers and of bands that are "
		       "no colours are refused."},
	STK_ARG(struct stk_decode_args, adjust_orientation, STK_ARG_BOOL, "true", STK_FREE, 0, "Applies the image's EXIF orientation."),
	IGNORED(affine, STK_ARG_BOOL, "true", "Accepted and ignored: binds DALI's decoder threads to cores."),
	IGNORED(jpeg_fancy_upsampling, STK_ARG_BOOL, "false",
		"Accepted and ignored: chroma is always upsampled smoothly, as DALI does on "
		"the CPU."),
	IGNORED(use_fast_idct, STK_ARG_BOOL, "false", "Accepted and ignored: the exact transform is the fast one here."),
	IGNORED(hw_decoder_load, STK_ARG_FLOAT, "0.65", about_device),
	IGNORED(hybrid_huffman_threshold, STK_ARG_INT, "1000000", about_device),
	IGNORED(device_memory_padding, STK_ARG_INT, "16777216", about_device),
	IGNORED(device_memory_padding_jpeg2k, STK_ARG_INT, "0", about_device),
	IGNORED(host_memory_padding, STK_ARG_INT, "8388608", about_device),
	IGNORED(host_memory_padding_jpeg2k, STK_ARG_INT, "0", about_device),
	IGNORED(preallocate_width_hint, STK_ARG_INT, "0", about_device),
	IGNORED(preallocate_height_hint, STK_ARG_INT, "0", about_device),
	STK_ARG_END,
};

static const char about_cache[] = "Accepted and ignored: sets up DALI's cache of decoded images on GPUs.";

const struct stk_arg_def stk__decode_cache_group[] = {
	IGNORED(cache_size, STK_ARG_INT, "0", about_cache),
	IGNORED(cache_threshold, STK_ARG_INT, "0", about_cache),
	IGNORED(cache_debug, STK_ARG_BOOL, "false", about_cache),
	IGNORED(cache_batch_copy, STK_ARG_BOOL, "true", about_cache),
	IGNORED(cache_type, STK_ARG_STRING, "\"\"", about_cache),
	STK_ARG_END,
};

/* Returns the type to which the codec decodes: uint8 if the output is uint8, since codecs round to uint8 themselves; otherwise the file's own type,
 * which is converted later. */
static enum stk_dtype decoded_dtype(const struct stk_decode_args *a, const struct stk_image_info *info)
{
	return a->dtype == STK_UINT8 ? STK_UINT8 : info->dtype;
}

enum values { VALUES_SCALED, VALUES_KEPT, VALUES_OF_PICTURES };

static enum values values_of(const struct stk_decode_args *a)
{
	return strcmp(a->values, "kept") == 0 ? VALUES_KEPT : strcmp(a->values, "pictures") == 0 ? VALUES_OF_PICTURES : VALUES_SCALED;
}

/* Returns an error if the file does not fit the argument `values`: if measured values are decoded as a picture, or if the output's type cannot keep the
 * values. */
static enum stk_status check_values(const struct stk_decode_args *a, const struct stk_image_info *info, struct stk_error *err)
{
	enum stk_dtype to = (enum stk_dtype)a->dtype;
	switch (values_of(a)) {
	case VALUES_OF_PICTURES:
		return !info->measured
			       ? STK_OK
			       : stk__fail(err, STK_UNSUPPORTED,
					 "a %s of %d %s of %s is no picture of gray or colours, and its values would be changed here; %s",
					 info->format, info->channels, info->channels == 1 ? "band" : "bands", stk_dtype_name(info->dtype),
					 "keep them: fields={'image': 'FloatMap'} in a Loader, values=\"kept\" in decoders.image");
	case VALUES_KEPT:
		return to == info->dtype || to == STK_FLOAT || (to == STK_UINT16 && info->dtype == STK_UINT8)
			       ? STK_OK
			       : stk__fail(err, STK_UNSUPPORTED, "a file of %s, whose values %s does not hold; keep them as float32 or %s",
					 stk_dtype_name(info->dtype), stk_dtype_name(to), stk_dtype_name(info->dtype));
	default:
		return STK_OK;
	}
}

static enum stk_status check(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_decode_args *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	if (a->scale_denom & (a->scale_denom - 1))
		return stk__fail(err, STK_INVALID, "scale_denom is %lld; images are decoded at 1/1, 1/2, 1/4 or 1/8 of their size",
			(long long)a->scale_denom);
	if (stk__intensity_range((enum stk_dtype)a->dtype) == 0)
		return stk__fail(err, STK_UNSUPPORTED, "images cannot be decoded to %s; decode to uint8 or float32, then cast",
			stk_dtype_name((enum stk_dtype)a->dtype));
	if (in->ndim >= 0 && in->ndim != 1)
		return stk__fail(err, STK_SHAPE, "the input must be the bytes of a file, a tensor of 1 dim; this one has %d", in->ndim);
	if (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8)
		return stk__fail(err, STK_INVALID, "the input must be the bytes of a file, as uint8, not %s", stk_dtype_name(in->dtype));
	return STK_OK;
}

enum stk_status stk__decode_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_decode_args *a = call->args;
	struct stk_decode_state *state = call->state;
	enum stk_status s = check(call, err);
	if (s)
		return s;
	struct stk_desc d = {(enum stk_dtype)a->dtype, 3, {-1, -1, -1}, "HWC"};
	enum stk_image_type type = (enum stk_image_type)a->output_type;
	if (stk__building(call)) {
		d.shape[2] = type == STK_ANY_DATA ? -1 : type == STK_GRAY ? 1 : 3;
	} else {
		s = stk__image_peek_for(call->tools->decoder, call->in[0].data, (size_t)call->in[0].desc.shape[0], &state->info, err);
		if (s || (s = check_values(a, &state->info, err)))
			return s;
		int32_t w, h;
		stk__image_extent(&state->info, a->adjust_orientation, &w, &h);
		d.shape[0] = stk__image_scaled(h, (int32_t)a->scale_denom);
		d.shape[1] = stk__image_scaled(w, (int32_t)a->scale_denom);
		d.shape[2] = stk__image_channels(&state->info, type);
	}
	state->whole = d;
	state->window = stk__window_full(&d);
	call->out[0].desc = d;
	return STK_OK;
}

enum stk_status stk__decode_keep(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_decode_state *state = call->state;
	for (int32_t d = 0; d < 2; d++) {
		if (state->window.extent[d] == 0)
			return stk__fail(err, STK_SHAPE, "the window has no pixels in an image of %lld x %lld",
				(long long)state->whole.shape[1], (long long)state->whole.shape[0]);
		call->out[0].desc.shape[d] = state->window.extent[d];
	}
	return STK_OK;
}

void stk__decode_extent(const struct stk_call *call, struct stk_image *whole)
{
	const struct stk_decode_state *state = call->state;
	*whole = stk__image_hwc(NULL, decoded_dtype(call->args, &state->info), (int32_t)state->whole.shape[1],
		(int32_t)state->whole.shape[0], (int32_t)state->whole.shape[2]);
}

void stk__decode_encoded(const struct stk_call *call, struct stk_encoded *out)
{
	const struct stk_decode_args *a = call->args;
	const struct stk_decode_state *state = call->state;
	*out = (struct stk_encoded){.data = call->in[0].data,
		.size = (size_t)call->in[0].desc.shape[0],
		.info = &state->info,
		.type = (enum stk_image_type)a->output_type,
		.orient = a->adjust_orientation,
		.denom = (int32_t)a->scale_denom};
}

enum stk_status stk__decode_fetch(const struct stk_call *call, struct stk_rect part, const struct stk_image *dst, struct stk_error *err)
{
	const struct stk_decode_args *a = call->args;
	const struct stk_decode_state *state = call->state;
	struct stk_decode request = {
		.data = call->in[0].data,
		.size = (size_t)call->in[0].desc.shape[0],
		.info = &state->info,
		.type = (enum stk_image_type)a->output_type,
		.orient = a->adjust_orientation,
		.denom = (int32_t)a->scale_denom,
		.window = part,
		.dst = *dst,
		.cancel = call->tools->cancel,
	};
	call->tools->narrowed += state->info.dtype != STK_UINT8 && dst->dtype == STK_UINT8;
	return stk__image_decode(call->tools->decoder, &request, err);
}

void stk__decode_lower(const struct stk_call *call, struct stk_pass *pass)
{
	const struct stk_decode_args *a = call->args;
	const struct stk_decode_state *state = call->state;
	stk__window_lower(&state->window, &state->whole, (struct stk_floats){0}, pass);
	enum stk_dtype from = decoded_dtype(a, &state->info), to = (enum stk_dtype)a->dtype;
	if (from == to)
		return;
	if (values_of(a) == VALUES_KEPT) {
		stk__pass_cast(pass, to);
		return;
	}
	float scale[STK_PASS_MAX_CHANNELS], bias[STK_PASS_MAX_CHANNELS] = {0};
	for (int32_t c = 0; c < STK_PASS_MAX_CHANNELS; c++)
		scale[c] = (float)(stk__intensity_range(to) / stk__intensity_range(from));
	stk__pass_affine(pass, scale, bias, to);
}

unsigned stk__decode_classify(const void *args, const struct stk_desc *in)
{
	(void)in;
	const struct stk_decode_args *a = args;
	return a->dtype == STK_UINT8 ? STK_CLASS_WINDOW : STK_CLASS_WINDOW | STK_CLASS_POINTWISE;
}
