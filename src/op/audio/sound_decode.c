/* SPDX-License-Identifier: Apache-2.0 */
#include "op/audio/sound_decode.h"

#include "op/nd.h"

#include <math.h>
#include <string.h>

static double frames_of(double seconds, const struct stk_sound_want *want, const struct stk_sound_info *info)
{
	return want->nearest ? round(seconds * info->rate) : floor(seconds * info->rate);
}

/* Finds the frames to decode; the window ends with the file. */
static enum stk_status find_window(const struct stk_sound_want *want, struct stk_sound_state *state, struct stk_error *err)
{
	const struct stk_sound_info *info = &state->info;
	double all = (double)info->frames, count = want->duration >= 0 ? frames_of(want->duration, want, info) : -1;
	double first = want->start > 0 ? frames_of(want->start, want, info) : 0;
	if (want->position >= 0)
		first = count < all ? floor(want->position * (all - count + 1)) : 0;
	first = want->position >= 0 && first > all - count && count < all ? all - count : first; /* a position of 1 */
	if (first > all)
		return stk__fail(err, STK_INVALID, "the window begins at %g s; the file ends at %g s", want->start, all / info->rate);
	state->first = (int64_t)first;
	state->count = (int64_t)(count >= 0 && count < all - first ? count : all - first);
	if (want->pad && count > 0x1p40)
		return stk__fail(err, STK_LIMIT, "a duration of %g s is too long", want->duration);
	state->frames = want->pad && count >= 0 ? (int64_t)count : state->count;
	return STK_OK;
}

enum stk_status stk__sound_infer(const struct stk_call *call, const struct stk_sound_want *want, const uint8_t *data, size_t size,
	struct stk_sound_state *state, struct stk_desc *out, struct stk_error *err)
{
	if (want->dtype != STK_FLOAT && want->dtype != STK_INT16 && want->dtype != STK_INT32)
		return stk__fail(err, STK_INVALID, "dtype is FLOAT, INT16 or INT32; cast the samples to other types");
	*out = (struct stk_desc){(enum stk_dtype)want->dtype, want->mono ? 1 : 2, {-1, -1}, ""};
	if (!data)
		return STK_OK;
	const struct stk_sound_bytes bytes = stk__sound_memory(data, size);
	enum stk_status s = stk__sound_peek(&bytes, call->tools->lenient, &state->info, err);
	if (s)
		return s;
	if ((s = find_window(want, state, err)))
		return s;
	state->resampled = want->rate > 0 && want->rate != (float)state->info.rate;
	if (state->resampled)
		return stk__fail(err, STK_UNSUPPORTED,
			"the file has %d frames a second and sample_rate=%g; decoding does not resample yet: leave out sample_rate, or "
			"convert the files: ffmpeg -i INPUT -ar %g output.wav",
			state->info.rate, (double)want->rate, (double)want->rate);
	out->shape[0] = state->frames;
	if (!want->mono)
		out->shape[1] = state->info.channels;
	return STK_OK;
}

enum stk_status stk__sound_run(const struct stk_call *call, const struct stk_sound_want *want, const uint8_t *data, size_t size,
	const struct stk_sound_state *state, const struct stk_tensor *out, struct stk_error *err)
{
	const struct stk_sound_bytes bytes = stk__sound_memory(data, size);
	const struct stk_sound_window window = {.first = state->first,
		.count = state->count,
		.dtype = (enum stk_dtype)want->dtype,
		.mono = want->mono,
		.to = out->data,
		.cancel = call->tools->cancel};
	size_t frame = (size_t)(want->mono ? 1 : state->info.channels) * stk_dtype_size(out->desc.dtype);
	memset((uint8_t *)out->data + (size_t)state->count * frame, 0, (size_t)(state->frames - state->count) * frame);
	return stk__sound_read(&bytes, &state->info, &window, err);
}
