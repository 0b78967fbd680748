/* SPDX-License-Identifier: Apache-2.0
 * Sound files: what an accepted header says fits the file, and any window of it decodes, without a byte read or written outside. */
#include "fuzz.h"

#include "../c/sound_files.h"
#include "base/error.h"
#include "sound/sound.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stk_sound_info info = {0};
	struct stk_error err = {0};
	const struct stk_sound_bytes bytes = stk__sound_memory(data, size);
	if (stk__sound_peek(&bytes, size % 2, &info, &err)) {
		if (!err.message[0])
			abort();
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
	if ((size_t)i >= sizeof kinds / sizeof *kinds)
		return NULL;
	struct test_wav_file f = test_wav_make(&kinds[i], (uint64_t)i);
	*size = f.size;
	return f.data;
}
