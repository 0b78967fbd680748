/* SPDX-License-Identifier: Apache-2.0
 * decoders.audio: samples from the bytes of a sound file. */
#include "op/audio/sound_decode.h"
#include "op/nd.h"

struct decode_audio {
	bool downmix;
	int32_t dtype;
	float sample_rate, quality, position;
	double start, duration;
	bool pad, low_pass;
};

static const struct stk_arg_def decode_audio_args[] = {
	STK_ARG(struct decode_audio, downmix, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Outputs the mean of the channels, a tensor of 1 dim; otherwise samples have the shape (frames, channels)."),
	STK_ARG(struct decode_audio, dtype, STK_ARG_DTYPE, "9", (0, STK_DTYPE_COUNT - 1), 0,
		"Type of the samples: FLOAT (-1 <= x < 1), INT16 or INT32."),
	{.name = "sample_rate",
		.type = STK_ARG_FLOAT,
		.flags = STK_PER_SAMPLE,
		.offset = offsetof(struct decode_audio, sample_rate),
		.fallback = "0.0",
		.min = 0,
		.max = 0x1p31,
		.shapes = true,
		.doc = "Rate of the output in Hz, to which the file is resampled. Default: the file's."},
#define SECONDS(member, dflt, text)                                                                                                        \
	{                                                                                                                                  \
		.name = #member, .type = STK_ARG_FLOAT, .flags = STK_PER_SAMPLE | STK_DOUBLE,                                              \
		.offset = offsetof(struct decode_audio, member), .fallback = dflt, .min = 0, .max = 0x1p31, .shapes = true, .doc = text    \
	}
	SECONDS(start, "0.0", "Start of the window to decode, in seconds from the file's start."),
	SECONDS(duration, NULL, "Length of the window in seconds; it ends with the file at the latest. Default: to the file's end."),
	STK_ARG(struct decode_audio, position, STK_ARG_FLOAT, NULL, (0, 1), STK_PER_SAMPLE,
		"Place of the window in the file, in place of start: 0 is its first possible place and 1 its last."),
	STK_ARG(struct decode_audio, pad, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Adds zeros where the file is shorter than duration, so that all outputs of one rate have equal lengths."),
	STK_ARG(struct decode_audio, quality, STK_ARG_FLOAT, "50.0", (0, 100), 0, "Quality of resampling, 0 to 100."),
	STK_ARG(struct decode_audio, low_pass, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Removes frequencies above half of a lower sample_rate first; otherwise they become aliases, as in DALI."),
	STK_ARG_END,
};

static struct stk_sound_want want_of(const struct stk_call *call)
{
	const struct decode_audio *a = call->args;
	return (struct stk_sound_want){.rate = a->sample_rate,
		.quality = a->quality,
		.low_pass = a->low_pass,
		.mono = a->downmix,
		.dtype = a->dtype,
		.start = a->start,
		.duration = isnan(a->duration) ? -1 : a->duration,
		.position = stk__float_given(a->position) ? (double)a->position : -1,
		.nearest = true,
		.pad = a->pad,
		.window = call->n_in > 1 && !stk__building(call) ? call->in[1].data : NULL};
}

static enum stk_status check(const struct stk_call *call, struct stk_error *err)
{
	const struct decode_audio *a = call->args;
	bool start = a->start > 0 || stk__varies(call, &a->start), duration = !isnan(a->duration) || stk__varies(call, &a->duration);
	bool position = stk__float_given(a->position) || stk__varies(call, &a->position);
	if (call->n_in > 1 && (start || position || a->pad))
		return stk__fail(err, STK_INVALID, "the second input says where the window lies: leave out %s",
			start      ? "start"
			: position ? "position"
				   : "pad, which has no effect");
	if (start && position)
		return stk__fail(err, STK_INVALID, "start and position both say where the window lies: give one of them");
	if ((position || a->pad) && !duration)
		return stk__fail(err, STK_INVALID, "%s needs duration, the length of the window", position ? "position" : "pad");
	return STK_OK;
}

static enum stk_status decode_audio_setup(const void *args, void **shared, struct stk_error *err)
{
	(void)args;
	*shared = stk__calloc(1, sizeof(struct stk_sound_shared));
	return *shared ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory");
}

static void decode_audio_teardown(void *shared)
{
	stk__sound_shared_clear(shared);
	stk__free(shared);
}

static enum stk_status decode_audio_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_tensor *in = &call->in[0];
	const struct stk_sound_want want = want_of(call);
	if ((in->desc.ndim >= 0 && in->desc.ndim != 1) || (in->desc.dtype != STK_NO_DTYPE && in->desc.dtype != STK_UINT8))
		return stk__fail(err, STK_INVALID, "the input must be the bytes of a file, a uint8 tensor of 1 dim");
	if (call->n_in > 1) {
		const struct stk_desc *d = &call->in[1].desc;
		if ((d->ndim >= 0 && d->ndim != 1) || (d->ndim == 1 && d->shape[0] >= 0 && d->shape[0] != 2) ||
			(d->dtype != STK_NO_DTYPE && d->dtype != STK_FLOAT64))
			return stk__fail(err, STK_INVALID,
				"the second input is the begin and the end of a window in seconds: 2 numbers of FLOAT64, as "
				"decoders.video(enable_window=True) makes them");
	}
	enum stk_status s = check(call, err);
	if (s)
		return s;
	call->out[1].desc = (struct stk_desc){STK_FLOAT, 0, {0}, ""};
	const bool building = stk__building(call);
	const struct stk_sound_bytes bytes = stk__sound_memory(in->data, building ? 0 : (size_t)in->desc.shape[0]);
	return stk__sound_infer(
		call, (struct stk_sound_shared *)call->shared, &want, building ? NULL : &bytes, call->state, &call->out[0].desc, err);
}

static enum stk_status decode_audio_run(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_tensor *in = &call->in[0];
	const struct stk_sound_want want = want_of(call);
	*(float *)call->out[1].data = stk__sound_rate(&want, call->state);
	const struct stk_sound_bytes bytes = stk__sound_memory(in->data, (size_t)in->desc.shape[0]);
	return stk__sound_run(call, (struct stk_sound_shared *)call->shared, &want, &bytes, call->state, &call->out[0], err);
}

const struct stk_op_def stk__op_decode_audio = {
	.name = "decoders.audio",
	.alias = "audio_decoder",
	.doc = "Decodes sound files.\n\n"
	       "Outputs the samples of a file, and their rate in Hz, a float without dims. Decodes WAV: PCM of 8 to 32 bits, float32, "
	       "float64, A-law and mu-law. Decodes FLAC. Decodes "
	       "Vorbis, Opus, MP3 and AAC in any container, if FFmpeg's libraries are installed. With start and duration, only that window "
	       "is decoded.\n\n"
	       "The second input may be a window in time: its begin and end in seconds, FLOAT64, on the clock of the file, on which its video "
	       "has times too. The output then has every sample of the window, with zeros where the file has no sound; with duration, the window "
	       "is that long. Times are rounded to the nearest sample of the file.",
	.tolerance =
		"Floats become INT16 or INT32 by scaling, as they do with downmix; DALI only rounds them without downmix, so that nearly "
		"all become 0. A file that ends before its header says is an error, unless the pipeline has strict=False; DALI decodes "
		"what is there.",
	.inputs = {1, 2},
	.outputs = 2,
	.host_inputs = 3,
	.args = decode_audio_args,
	.args_size = sizeof(struct decode_audio),
	.state_size = sizeof(struct stk_sound_state),
	.setup = decode_audio_setup,
	.teardown = decode_audio_teardown,
	.infer = decode_audio_infer,
	.run_cpu = decode_audio_run,
};
