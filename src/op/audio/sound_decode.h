/* SPDX-License-Identifier: Apache-2.0
 * Shared by the operators that decode sound files. */
#ifndef STK_OP_SOUND_DECODE_H
#define STK_OP_SOUND_DECODE_H

#include "op/audio/resampling.h"
#include "sound/stream.h"

/* Data that all samples of a pipeline share. Must be zeroed at first. Any thread may use it. */
struct stk_sound_shared {
	struct stk_audio_tables tables;              /* tables for resampling */
	_Atomic(struct stk_sound_library *) library; /* loaded when the first file needs it */
};
void stk__sound_shared_clear(struct stk_sound_shared *shared);

/* The state that infer passes to run. */
struct stk_sound_state {
	struct stk_sound_info info;
	int64_t first, count; /* first decoded frame of the file, and number of decoded frames */
	int64_t lead, tail;   /* number of frames of silence before and after the decoded frames, for parts of the window without sound */
	int64_t frames;       /* number of frames in the output */
	bool resampled;
	const void *decoded; /* the samples, if infer had to decode them to find their number; otherwise NULL */
};

/* The part of a file that is decoded, and the form of the output. */
struct stk_sound_want {
	float rate; /* rate of the output in Hz; 0 or below: the file's rate */
	float quality;
	bool low_pass; /* as in struct stk_resampling */
	bool mono;
	int32_t dtype;
	double start, duration; /* in seconds. start 0 or below: the file's start; duration below 0: to the file's end */
	bool nearest;           /* true: seconds are rounded to the nearest frame; false: down, as in DALI */
	bool pad;               /* the output has the whole duration: zeros follow the file's end */
	/* position of the window from 0 (at the file's start) to 1 (at its end), used instead of `start`; below 0: `start` is used */
	double position;
	/* start and end of the window as timestamps of the file, used instead of start and position; `duration`, if given, overrides the end; NULL: not
	 * given */
	const double *window;
};

/* Sets *out to the desc of the decoded samples: shape (frames, channels), or (frames) with want->mono. bytes NULL: the graph is being built, and extents are
 * not known. Otherwise reads the file's header into *state, and decodes files that are neither WAV nor FLAC. */
STK_MUST_USE enum stk_status stk__sound_infer(const struct stk_call *call, struct stk_sound_shared *shared,
	const struct stk_sound_want *want, const struct stk_sound_bytes *bytes, struct stk_sound_state *state, struct stk_desc *out,
	struct stk_error *err);

/* Writes the samples to the output that stk__sound_infer has described. */
STK_MUST_USE enum stk_status stk__sound_run(const struct stk_call *call, struct stk_sound_shared *shared, const struct stk_sound_want *want,
	const struct stk_sound_bytes *bytes, const struct stk_sound_state *state, const struct stk_tensor *out, struct stk_error *err);

/* Sets state->first, count, lead and tail to the frames to decode, from the header in state->info. STK_INVALID: the window is not valid, or begins after
 * the end. */
STK_MUST_USE enum stk_status stk__sound_find_frames(
	const struct stk_sound_want *want, struct stk_sound_state *state, struct stk_error *err);

/* Returns the rate of the output in Hz. */
static inline float stk__sound_rate(const struct stk_sound_want *want, const struct stk_sound_state *state)
{
	return want->rate > 0 ? want->rate : (float)state->info.rate;
}

#endif
