/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts samples as files store them to float32, int16 or int32:
 *     integers to float   divided by 2^(bits - 1): -1 <= x < 1. 8 bits are unsigned; 128 is silence
 *     integers to others  the most significant bits stay: wider samples are truncated, narrower ones are followed by zeros
 *     A-law, mu-law       to the 16-bit values of ITU-T G.711, then as above
 *     floats to integers  times 2^15 - 1 or 2^31 - 1, rounded to nearest with halves away from zero, saturating; NaN gives 0
 *     the mean of several channels  computed in float32, then converted like floats
 * Apart from floats to integers, these are libsndfile's values. */
#ifndef STK_SOUND_PCM_H
#define STK_SOUND_PCM_H

#include "stoker/tensor.h"

#include <stdbool.h>

/* Kinds of stored samples, all little-endian. */
enum stk_pcm { STK_PCM_U8, STK_PCM_I16, STK_PCM_I24, STK_PCM_I32, STK_PCM_F32, STK_PCM_F64, STK_PCM_ALAW, STK_PCM_MULAW };

static inline uint32_t stk__pcm_bytes(enum stk_pcm kind)
{
	static const uint8_t bytes[] = {1, 2, 3, 4, 4, 8, 1, 1};
	return bytes[kind];
}

/* Converts `frames` frames. dtype: STK_FLOAT, STK_INT16 or STK_INT32; `to` is aligned to it, `from` need not be aligned. mono: writes the mean of the
 * channels. channels: at most STK_SOUND_MAX_CHANNELS. */
void stk__pcm_convert(enum stk_pcm kind, const uint8_t *from, int64_t frames, int32_t channels, bool mono, enum stk_dtype dtype, void *to);

#endif
