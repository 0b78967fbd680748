/* SPDX-License-Identifier: Apache-2.0
 * Sound files: an accepted header must agree with the file. Any window of a WAV must decode, without access outside of its buffers. A window of a FLAC must
 * decode, or be refused with a message; it must give the same samples from pieces of the file, with other SIMD loops, and as a part of a larger window. */
#include "fuzz.h"

#include "../c/flac_files.h"
#include "../c/sound_files.h"
#include "base/cpu.h"
#include "base/error.h"
#include "sound/sound.h"

#include <stdio.h>

enum { MOST_SAMPLES = 1 << 20 };

static void decode(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, int64_t first, int64_t count, size_t way)
{
	static const enum stk_dtype types[] = {STK_FLOAT, STK_INT16, STK_INT32};
	struct stk_sound_window w = {.first = first, .count = count, .dtype = types[way % 3], .mono = way / 3 % 2};
	size_t samples = (size_t)count * (size_t)(w.mono ? 1 : info->channels);
	if (samples > MOST_SAMPLES)
		return;
	w.to = malloc(samples * stk_dtype_size(w.dtype) + !samples);
	struct stk_error err = {0};
	if (!w.to || stk__sound_read(bytes, info, &w, &err))
		abort();
	static volatile uint8_t seen;
	for (size_t i = 0; i < samples * stk_dtype_size(w.dtype); i++)
		seen ^= ((uint8_t *)w.to)[i];
	free(w.to);
}

/* ---- FLAC ---- */

/* Reads a window of the file into memory that the caller frees. Aborts on an error that a FLAC file must not give: any if `lenient`, else any but
 * STK_CORRUPT. */
static int32_t *decode_flac(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, int64_t first, int64_t count,
	unsigned cpu, bool lenient, enum stk_status *status)
{
	const size_t n = (size_t)count * (size_t)info->channels;
	int32_t *to = calloc(n + 1, sizeof *to);
	struct stk_error err = {0};
	const struct stk_sound_window w = {.first = first, .count = count, .dtype = STK_INT32, .to = to, .cpu = cpu, .lenient = lenient};
	if (!to)
		abort();
	*status = stk__sound_read(bytes, info, &w, &err);
	if (*status && (*status != STK_CORRUPT || lenient || !err.message[0])) {
		fprintf(stderr, "status %d: %s\n", (int)*status, err.message);
		abort();
	}
	return to;
}

static void test_flac_file(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, bool lenient)
{
	static unsigned cpu, asked;
	cpu = asked++ ? cpu : stk__cpu_capabilities();
	const int64_t first = info->frames / 3, count = info->frames / 2;
	const size_t channels = (size_t)info->channels;
	enum stk_status all, other, part;
	if (info->frames > MOST_SAMPLES / (int64_t)channels)
		return;
	const struct stk_sound_bytes pieces = {bytes->read, bytes->user, bytes->size, NULL};
	int32_t *whole = decode_flac(bytes, info, 0, info->frames, 0, lenient, &all);
	int32_t *again = decode_flac(&pieces, info, 0, info->frames, cpu, lenient, &other);
	int32_t *some = decode_flac(&pieces, info, first, count, cpu, lenient, &part);
	if (all != other || (!all && memcmp(whole, again, (size_t)info->frames * channels * 4) != 0))
		abort();
	if (!all && !lenient && (part || memcmp(whole + (size_t)first * channels, some, (size_t)count * channels * 4) != 0))
		abort();
	free(whole);
	free(again);
	free(some);
}

/* Checks that the bytes that a window needs lie in the file, even if the header or the seek table is damaged. */
static void test_span(const uint8_t *data, size_t size)
{
	struct stk_sound_bytes bytes = stk__sound_memory(data, size);
	struct stk_sound_info info = {0};
	uint64_t from = 0, to = 0;
	bytes.costly = true;
	if (stk__sound_peek(&bytes, false, &info, NULL) || info.frames < 3)
		return;
	if (!stk__sound_span(&bytes, &info, info.frames / 3, info.frames / 2, 100, &from, &to) && from <= to && to > size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stk_sound_info info = {0};
	struct stk_error err = {0};
	const struct stk_sound_bytes bytes = stk__sound_memory(data, size);
	test_span(data, size);
	if (stk__sound_peek(&bytes, size % 2, &info, &err)) {
		if (!err.message[0])
			abort();
		return 0;
	}
	if (!strcmp(info.format, "flac")) {
		if (info.rate < 1 || info.channels < 1 || info.channels > 8 || info.frames < 0 || info.missing < 0 ||
			(info.missing && size % 2 == 0) || info.begin > size)
			abort();
		test_flac_file(&bytes, &info, size % 2);
		return 0;
	}
	if (info.rate < 1 || info.channels < 1 || info.channels > STK_SOUND_MAX_CHANNELS || info.frames < 0 || info.missing < 0 ||
		(info.missing && size % 2 == 0) || info.begin > size || info.frame_bytes < 1 ||
		(uint64_t)info.frames > (size - info.begin) / info.frame_bytes)
		abort();
	decode(&bytes, &info, 0, info.frames, size);
	decode(&bytes, &info, info.frames / 3, info.frames / 2, size + 1);
	return 0;
}

uint8_t *fuzz_seed(int i, size_t *size)
{
	static const struct test_wav kinds[] = {{TEST_WAV_PCM, 1, 8, 40, 8000}, {TEST_WAV_PCM, 2, 16, 40, 16000, .chunk_after = 1},
		{TEST_WAV_PCM, 3, 24, 40, 44100, .extensible = 1}, {TEST_WAV_PCM, 1, 32, 40, 48000, .wide = 1},
		{TEST_WAV_FLOAT, 2, 32, 40, 48000, .odd_chunk = 1}, {TEST_WAV_FLOAT, 1, 64, 40, 48000, .fmt_last = 1},
		{TEST_WAV_ALAW, 1, 8, 41, 8000}, {TEST_WAV_MULAW, 1, 8, 41, 8000, .promise = UINT32_MAX}};
	const size_t wavs = sizeof kinds / sizeof *kinds;
	if ((size_t)i >= wavs + TEST_FLACS)
		return NULL;
	if ((size_t)i >= wavs) {
		struct test_flac kind = test_flacs[(size_t)i - wavs];
		kind.frames = kind.frames < 1500 ? kind.frames : 1500;
		kind.block = kind.block < 400 ? kind.block : 400;
		struct test_flac_file flac = test_flac_make(&kind, (uint64_t)i);
		uint8_t *data = flac.data;
		*size = flac.size;
		flac.data = NULL;
		test_flac_free(&flac);
		return data;
	}
	struct test_wav_file f = test_wav_make(&kinds[i], (uint64_t)i);
	*size = f.size;
	return f.data;
}

/* Changes bytes of a block of a FLAC file and corrects the block's checksums, so that decoding continues. Blocks are found by their headers.
 * Flips a random bit of an input in which no block is found. */
void fuzz_mutate(uint8_t *data, size_t *size, uint64_t *state)
{
	enum { MOST = 64 };
	size_t at[MOST], header[MOST], n = 0;
	for (size_t i = 42; i + 8 < *size && n < MOST; i++) {
		size_t end = i + 4;
		if (data[i] != 0xff || (data[i + 1] & 0xfe) != 0xf8)
			continue;
		while (end < *size && end < i + 16 && test_crc(data + i, end - i, 8, 7) != data[end])
			end++;
		if (end == *size || end == i + 16)
			continue;
		at[n] = i;
		header[n++] = end;
	}
	if (*size < 42 || memcmp(data, "fLaC", 4) != 0 || n == 0) {
		data[test_draw(state, (uint32_t)*size)] ^= (uint8_t)(1u << test_draw(state, 8));
		return;
	}
	const size_t k = test_draw(state, (uint32_t)n), end = k + 1 < n ? at[k + 1] : *size;
	if (end < header[k] + 4)
		return;
	for (uint32_t changes = 1 + test_draw(state, 3); changes; changes--) {
		const size_t within = test_draw(state, 3) ? test_draw(state, (uint32_t)(end - 2 - at[k] - 2)) : test_draw(state, 12);
		if (at[k] + 2 + within < end - 2)
			data[at[k] + 2 + within] ^= (uint8_t)(1u << test_draw(state, 8));
	}
	data[header[k]] = (uint8_t)test_crc(data + at[k], header[k] - at[k], 8, 7);
	const uint32_t sum = test_crc(data + at[k], end - 2 - at[k], 16, 0x8005);
	data[end - 2] = (uint8_t)(sum >> 8);
	data[end - 1] = (uint8_t)sum;
}
