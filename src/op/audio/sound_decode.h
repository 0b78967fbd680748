/* SPDX-License-Identifier: Apache-2.0
 * Shared by the operators that decode sound files. */
#ifndef STK_OP_SOUND_DECODE_H
#define STK_OP_SOUND_DECODE_H

#include "op/audio/resampling.h"
#include "sound/stream.h"

/* Kept for all samples of a pipeline; zeroed it is empty. Any thread may use it. */
struct stk_sound_shared {
	struct stk_audio_tables tables;              /* tables for resampling */
	_Atomic(struct stk_sound_library *) library; /* loaded when the first file needs it */
};
void stk__sound_shared_clear(struct stk_sound_shared *shared);

/* Kept in the operator's state from infer to run. */
struct stk_sound_state {
	struct stk_sound_info info;
	int64_t first, count; /* first decoded frame of the file, and number of decoded frames */
	int64_t lead, tail;   /* frames of silence before and after them, where a window lies outside of the sound */
	int64_t frames;       /* number of frames in the output */
	bool resampled;
	const void *decoded; /* the samples, if infer has decoded them already to find their number; else NULL */
};

/* Which part of a file is decoded, and to what. */
struct stk_sound_want {
	float rate; /* rate of the output in Hz; 0 or below: the file's rate */
	float quality;
	bool mono;
	int32_t dtype;
	double start, duration; /* in seconds. start 0 or below: the file's start; duration below 0: to the file's end */
	bool nearest;           /* seconds are rounded to the nearest frame; otherwise down, as DALI does */
	bool pad;               /* the output has the whole duration: zeros follow the file's end */
	/* 0 to 1: where in the file the window lies, from its beginning to its end; used instead of `start`; below 0: `start` is used */
	double position;
	/* begin and end as timestamps of the file, used instead of start and position; if `duration` is given, it determines the end; NULL: not given */
	const double *window;
};

/* Sets the desc of an output of samples: (frames, channels), or (frames) with want->mono. bytes NULL: the graph is being built. Otherwise reads the file's
 * header into *state, and decodes files that are neither WAV nor FLAC. */
STK_MUST_USE enum stk_status stk__sound_infer(const struct stk_call *call, struct stk_sound_shared *shared,
	const struct stk_sound_want *want, const struct stk_sound_bytes *bytes, struct stk_sound_state *state, struct stk_desc *out,
	struct stk_error *err);

/* Writes the samples to the output that stk__sound_infer has described. */
STK_MUST_USE enum stk_status stk__sound_run(const struct stk_call *call, struct stk_sound_shared *shared, const struct stk_sound_want *want,
	const struct stk_sound_bytes *bytes, const struct stk_sound_state *state, const struct stk_tensor *out, struct stk_error *err);

/* Finds which frames of a file to decode, from its header in state->info: sets state->first, count, lead and tail. */
STK_MUST_USE enum stk_status stk__sound_find_frames(
	const struct stk_sound_want *want, struct stk_sound_state *state, struct stk_error *err);

/* Returns the rate of the output in Hz. */
static inline float stk__sound_rate(const struct stk_sound_want *want, const struct stk_sound_state *state)
{
	return want->rate > 0 ? want->rate : (float)state->info.rate;
}

#endif
