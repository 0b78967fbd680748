/* SPDX-License-Identifier: Apache-2.0 */
#include "sound/pcm.h"

#include "kernel/convert/convert.h"
#include "sound/sound.h"

#include <string.h>

/* Samples are loaded with memcpy, in the machine's byte order, so that the compiler can use vector instructions. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files store samples in the machine's byte order");

enum { BLOCK = 4096 }; /* number of samples that are converted through float at a time */

/* ---- one sample ---- */

/* Decodes a sample of G.711: 4 bits of the magnitude, shifted by an exponent. */
static int16_t from_alaw(uint8_t v)
{
	unsigned a = v ^ 0x55u, exponent = a >> 4 & 7, magnitude = (a & 15) << 4;
	magnitude = exponent ? (magnitude + 0x108) << (exponent - 1) : magnitude + 8;
	return (int16_t)(a & 0x80 ? (int)magnitude : -(int)magnitude);
}

static int16_t from_mulaw(uint8_t v)
{
	unsigned u = ~(unsigned)v, magnitude = (((u & 15) << 3) + 0x84) << (u >> 4 & 7);
	return (int16_t)(u & 0x80 ? 0x84 - (int)magnitude : (int)magnitude - 0x84);
}

static inline int16_t from_i16(const uint8_t *p)
{
	int16_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline int32_t from_i32(const uint8_t *p)
{
	int32_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

/* Reads 24 bits into the upper 24 bits of 32. */
static inline int32_t from_i24(const uint8_t *p)
{
	return (int32_t)((uint32_t)p[0] << 8 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 24);
}

static inline float from_f32(const uint8_t *p)
{
	float v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline double from_f64(const uint8_t *p)
{
	double v;
	memcpy(&v, p, sizeof v);
	return v;
}

/* ---- n samples ---- */

#define EACH(expression)                                                                                                                   \
	for (int64_t i = 0; i < n; i++)                                                                                                    \
		to[i] = expression;                                                                                                        \
	break

static void to_float(enum stk_pcm kind, const uint8_t *p, int64_t n, float *to)
{
	switch (kind) {
	case STK_PCM_U8:
		EACH((float)(p[i] - 128) * 0x1p-7f);
	case STK_PCM_I16:
		EACH((float)from_i16(p + 2 * i) * 0x1p-15f);
	case STK_PCM_I24:
		EACH((float)from_i24(p + 3 * i) * 0x1p-31f);
	case STK_PCM_I32:
		EACH((float)from_i32(p + 4 * i) * 0x1p-31f);
	case STK_PCM_F32:
		memcpy(to, p, (size_t)n * sizeof *to);
		break;
	case STK_PCM_F64:
		EACH((float)from_f64(p + 8 * i));
	case STK_PCM_ALAW:
		EACH((float)from_alaw(p[i]) * 0x1p-15f);
	case STK_PCM_MULAW:
		EACH((float)from_mulaw(p[i]) * 0x1p-15f);
	}
}

/* Converts n samples to int16. They must not be floats, which convert_blocks converts through to_float. */
static void to_int16(enum stk_pcm kind, const uint8_t *p, int64_t n, int16_t *to)
{
	switch (kind) {
	case STK_PCM_U8:
		EACH((int16_t)((p[i] - 128) * 256));
	case STK_PCM_I24:
		EACH(from_i16(p + 3 * i + 1));
	case STK_PCM_I32:
		EACH(from_i16(p + 4 * i + 2));
	case STK_PCM_ALAW:
		EACH(from_alaw(p[i]));
	case STK_PCM_MULAW:
		EACH(from_mulaw(p[i]));
	default:
		memcpy(to, p, (size_t)n * sizeof *to);
		break;
	}
}

static void to_int32(enum stk_pcm kind, const uint8_t *p, int64_t n, int32_t *to)
{
	switch (kind) {
	case STK_PCM_U8:
		EACH((p[i] - 128) * (1 << 24));
	case STK_PCM_I16:
		EACH(from_i16(p + 2 * i) * (1 << 16));
	case STK_PCM_I24:
		EACH(from_i24(p + 3 * i));
	case STK_PCM_ALAW:
		EACH(from_alaw(p[i]) * (1 << 16));
	case STK_PCM_MULAW:
		EACH(from_mulaw(p[i]) * (1 << 16));
	default:
		memcpy(to, p, (size_t)n * sizeof *to);
		break;
	}
}

/* Computes the mean of each frame's channels; `to` may be `from`. Multiplies each channel by 1 / channels before it adds them, as DALI does. */
static void mean(const float *from, int64_t frames, int32_t channels, float *to)
{
	float weight = 1.0f / (float)channels;
	for (int64_t i = 0; i < frames; i++, from += channels) {
		float sum = from[0] * weight;
		for (int32_t c = 1; c < channels; c++)
			sum += from[c] * weight;
		to[i] = sum;
	}
}

static void from_float(float *samples, int64_t n, enum stk_dtype dtype, void *to)
{
	float most = dtype == STK_INT16 ? 32767.0f : 2147483648.0f; /* 2^31 - 1, as float32 rounds it */
	for (int64_t i = 0; i < n; i++)
		samples[i] *= most;
	stk__convert(to, dtype, samples, STK_FLOAT, n);
}

/* Converts through float, BLOCK samples at a time. */
static void convert_blocks(
	enum stk_pcm kind, const uint8_t *p, int64_t frames, int32_t channels, bool mono, enum stk_dtype dtype, uint8_t *to)
{
	float samples[BLOCK];
	int64_t most = BLOCK / channels, out_channels = mono ? 1 : channels;
	_Static_assert(BLOCK >= (int)STK_SOUND_MAX_CHANNELS, "a block holds a frame");
	for (int64_t n; frames > 0; frames -= n) {
		n = frames < most ? frames : most;
		float *block = samples;
		to_float(kind, p, n * channels, samples);
		if (mono) {
			block = dtype == STK_FLOAT ? (float *)(void *)to : samples;
			mean(samples, n, channels, block);
		}
		if (dtype != STK_FLOAT)
			from_float(block, n * out_channels, dtype, to);
		p += n * channels * stk__pcm_bytes(kind);
		to += (size_t)(n * out_channels) * stk_dtype_size(dtype);
	}
}

void stk__pcm_convert(enum stk_pcm kind, const uint8_t *from, int64_t frames, int32_t channels, bool mono, enum stk_dtype dtype, void *to)
{
	bool floats = kind == STK_PCM_F32 || kind == STK_PCM_F64;
	mono &= channels > 1;
	if (mono || (floats && dtype != STK_FLOAT))
		convert_blocks(kind, from, frames, channels, mono, dtype, to);
	else if (dtype == STK_FLOAT)
		to_float(kind, from, frames * channels, to);
	else if (dtype == STK_INT16)
		to_int16(kind, from, frames * channels, to);
	else
		to_int32(kind, from, frames * channels, to);
}
