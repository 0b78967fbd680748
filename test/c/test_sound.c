/* SPDX-License-Identifier: Apache-2.0
 * Sound files: values of every kind of sample against formulas in double, forms of the header, windows, damaged files, and the public functions. */
#include "test.h"

#include "sound_files.h"

#include "base/memory.h"
#include "sound/sound.h"
#include "stoker/audio.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const struct test_wav kinds[] = {
	{TEST_WAV_PCM, 1, 8, 700, 8000},
	{TEST_WAV_PCM, 2, 16, 700, 16000},
	{TEST_WAV_PCM, 3, 24, 333, 44100},
	{TEST_WAV_PCM, 1, 32, 1, 384000},
	{TEST_WAV_PCM, 2, 20, 100, 48000, .extensible = 1},
	{TEST_WAV_PCM, 8, 16, 9000, 48000, .wide = 1},
	{TEST_WAV_PCM, 1, 8, 77, 8000, .fmt_last = 1, .odd_chunk = 1},
	{TEST_WAV_PCM, 2, 16, 0, 22050, .chunk_after = 1},
	{TEST_WAV_FLOAT, 1, 32, 800, 16000},
	{TEST_WAV_FLOAT, 2, 64, 800, 16000, .extensible = 1, .odd_chunk = 1},
	{TEST_WAV_ALAW, 1, 8, 256, 8000},
	{TEST_WAV_MULAW, 2, 8, 256, 8000, .chunk_after = 1},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- references ---- */

/* G.711's values, by the text of the recommendation: 13 and 14 bits, here scaled to 16. */
static double law(int tag, unsigned v)
{
	if (tag == TEST_WAV_ALAW) {
		v ^= 0x55;
		double steps = v & 15, exponent = v >> 4 & 7;
		double value = exponent > 0 ? ldexp(2 * (16 + steps) + 1, (int)exponent - 1) : 2 * steps + 1;
		return (v & 0x80 ? value : -value) * 8;
	}
	v ^= 0xff;
	double value = ldexp(2 * (v & 15) + 33, (int)(v >> 4 & 7)) - 33;
	return (v & 0x80 ? -value : value) * 4;
}

/* Returns the sample as -1 <= x < 1, exactly. */
static double reference(const struct test_wav *w, const uint8_t *p)
{
	int width = (w->bits + 7) / 8;
	uint64_t bits = 0;
	for (int i = 0; i < width; i++)
		bits |= (uint64_t)p[i] << 8 * i;
	float single;
	double real;
	if (w->tag == TEST_WAV_ALAW || w->tag == TEST_WAV_MULAW)
		return law(w->tag, (unsigned)bits) / 32768;
	if (w->tag == TEST_WAV_PCM)
		return width == 1 ? ((double)bits - 128) / 128 : ldexp((double)(int64_t)(bits << (64 - 8 * width)), -63);
	memcpy(&single, p, 4);
	memcpy(&real, p, width == 8 ? 8 : 4);
	return width == 8 ? real : single;
}

static double rounded(double x, double most)
{
	x = round(x * most);
	return x < -most - 1 ? -most - 1 : x > most ? most : x;
}

static double sample_of(const void *samples, enum stk_dtype dtype, int64_t i)
{
	if (dtype == STK_FLOAT)
		return ((const float *)samples)[i];
	return dtype == STK_INT16 ? ((const int16_t *)samples)[i] : ((const int32_t *)samples)[i];
}

static double expected(const struct test_wav *w, const uint8_t *p, enum stk_dtype dtype)
{
	double x = reference(w, p), scale = dtype == STK_INT16 ? 32768 : 2147483648.0;
	if (dtype == STK_FLOAT)
		return (float)x;
	return w->tag == TEST_WAV_FLOAT ? rounded(x, scale - 1) : floor(x * scale);
}

/* ---- values and windows ---- */

static void check_window(const struct test_wav *w, struct test_wav_file f, int64_t first, int64_t count, enum stk_dtype dtype, bool mono)
{
	const struct stk_sound_bytes bytes = stk__sound_memory(f.data, f.size);
	struct stk_error err = {0};
	struct stk_sound_info info;
	if (stk__sound_peek(&bytes, false, &info, &err))
		fail_msg("%s", err.message);
	assert_int_equal(info.frames, w->frames);
	assert_int_equal(info.channels, w->channels);
	assert_int_equal(info.rate, w->rate);
	assert_int_equal(info.bits, w->bits);
	size_t made = mono ? 1 : (size_t)w->channels, width = (size_t)(w->bits + 7) / 8;
	void *samples = malloc((size_t)count * made * stk_dtype_size(dtype) + 1); /* AddressSanitizer finds writes past the end */
	const struct stk_sound_window window = {.first = first, .count = count, .dtype = dtype, .mono = mono, .to = samples};
	if (stk__sound_read(&bytes, &info, &window, &err))
		fail_msg("%s", err.message);
	for (int64_t i = 0; i < count * (int64_t)made; i++) {
		double got = sample_of(samples, dtype, i), want = 0, bound = 0;
		const uint8_t *p = f.data + f.samples + ((size_t)first * (size_t)w->channels + (size_t)i) * width;
		if (mono && w->channels > 1) {
			double scale = dtype == STK_FLOAT ? 1 : dtype == STK_INT16 ? 32767 : 2147483647.0;
			p = f.data + f.samples + (size_t)(first + i) * (size_t)w->channels * width;
			for (int c = 0; c < w->channels; c++)
				want += reference(w, p + (size_t)c * width) / w->channels;
			bound = dtype == STK_FLOAT ? 1e-6 : 0.51 + scale * 3e-7;
			want = dtype == STK_FLOAT          ? want
			       : want * scale > scale      ? scale
			       : want * scale < -scale - 1 ? -scale - 1
							   : want * scale;
		} else {
			want = expected(w, p, dtype);
			bound = w->tag == TEST_WAV_FLOAT && dtype == STK_INT32 ? 256 : w->tag == TEST_WAV_FLOAT && dtype == STK_INT16;
		}
		if (!(fabs(got - want) <= bound))
			fail_msg("tag %d, %d bits, %d channels, type %d, mono %d: sample %lld is %.9g instead of %.9g", w->tag, w->bits,
				w->channels, (int)dtype, mono, (long long)i, got, want);
	}
	free(samples);
}

static void test_values(void **state)
{
	(void)state;
	static const enum stk_dtype types[] = {STK_FLOAT, STK_INT16, STK_INT32};
	for (int k = 0; k < KINDS; k++) {
		struct test_wav_file f = test_wav_make(&kinds[k], (uint64_t)k + 1);
		int64_t n = kinds[k].frames;
		for (int t = 0; t < 6; t++) {
			check_window(&kinds[k], f, 0, n, types[t % 3], t >= 3);
			check_window(&kinds[k], f, n / 3, n / 2, types[t % 3], t >= 3);
			check_window(&kinds[k], f, n, 0, types[t % 3], t >= 3);
		}
		free(f.data);
	}
}

/* ---- headers ---- */

static enum stk_status peek(const uint8_t *data, size_t size, bool lenient, struct stk_sound_info *info, struct stk_error *err)
{
	uint8_t *exact = malloc(size ? size : 1); /* AddressSanitizer finds reads past the end */
	memcpy(exact, data, size);
	const struct stk_sound_bytes bytes = stk__sound_memory(exact, size);
	enum stk_status s = stk__sound_peek(&bytes, lenient, info, err);
	free(exact);
	return s;
}

static void test_sizes_in_headers(void **state)
{
	(void)state;
	static const struct {
		uint64_t promise;
		int wide, frames;
		enum stk_status status;
		int64_t missing;
	} cases[] = {
		{UINT32_MAX, 0, 50, STK_OK, 0},             /* ffmpeg, writing to a pipe */
		{0x7ffff000 / 6 * 6, 0, 50, STK_OK, 0},     /* SoX */
		{301, 0, 50, STK_OK, 0},                    /* a part of a frame is left out */
		{600, 0, 50, STK_CORRUPT, 50},              /* cut in half */
		{4000000000, 0, 0, STK_CORRUPT, 666666666}, /* 4 GB over nothing */
		{UINT64_C(1) << 40, 1, 50, STK_CORRUPT, 183251937912},
		{UINT64_C(1) << 63, 1, 50, STK_CORRUPT, -1},
		{UINT64_MAX, 1, 50, STK_CORRUPT, -1},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct test_wav w = {TEST_WAV_PCM, 3, 16, cases[i].frames, 16000, .promise = cases[i].promise, .wide = cases[i].wide};
		struct test_wav_file f = test_wav_make(&w, 1);
		struct stk_sound_info info = {0};
		struct stk_error err = {0};
		uint64_t before = stk__alloc_count();
		if (peek(f.data, f.size, false, &info, &err) != cases[i].status)
			fail_msg("case %zu: %s", i, err.message);
		enum stk_status s = peek(f.data, f.size, true, &info, &err);
		assert_int_equal(s, cases[i].missing < 0 ? STK_CORRUPT : STK_OK);
		if (!s) {
			assert_int_equal(info.frames, cases[i].frames);
			assert_int_equal(info.missing, cases[i].missing);
		}
		assert_int_equal(stk__alloc_count(), before);
		free(f.data);
	}
}

/* A recorder that was not stopped leaves a size of 0. */
static void test_unfinished_recording(void **state)
{
	(void)state;
	const struct test_wav w = {TEST_WAV_PCM, 1, 16, 50, 16000};
	struct test_wav_file f = test_wav_make(&w, 3);
	struct stk_sound_info info;
	struct stk_error err = {0};
	memset(f.data + f.samples - 4, 0, 4);
	assert_int_equal(peek(f.data, f.size, false, &info, &err), STK_CORRUPT);
	assert_non_null(strstr(err.message, "recorder"));
	assert_int_equal(peek(f.data, f.size, true, &info, &err), STK_OK);
	assert_int_equal(info.frames, 50);
	free(f.data);
}

/* Every file that is cut anywhere is an error or, if it was cut in its samples and `lenient` is set, is shorter. */
static void test_truncated(void **state)
{
	(void)state;
	for (int k = 0; k < KINDS; k++) {
		struct test_wav_file f = test_wav_make(&kinds[k], 5);
		size_t end = f.samples + (size_t)kinds[k].frames * (size_t)kinds[k].channels * (size_t)((kinds[k].bits + 7) / 8);
		for (size_t size = 0; size < (end < 300 ? end : 300); size++) {
			struct stk_sound_info info;
			struct stk_error err = {0};
			assert_int_equal(peek(f.data, size, false, &info, &err), STK_CORRUPT);
			assert_true(strlen(err.message) > 10);
			enum stk_status s = peek(f.data, size, true, &info, &err);
			assert_true(size >= f.samples && !kinds[k].fmt_last ? s == STK_OK : s == STK_CORRUPT);
		}
		free(f.data);
	}
}

static void test_refusals(void **state)
{
	(void)state;
	/* changes of a mono WAV of 16 bits: fmt begins at byte 20 */
	static const struct {
		int at, bytes;
		uint32_t value;
		enum stk_status status;
		const char *text;
	} cases[] = {
		{0, 4, 0x43614c66, STK_UNSUPPORTED, "FLAC"},
		{0, 4, 0x5367674f, STK_UNSUPPORTED, "Ogg"},
		{0, 4, 0x58464952, STK_UNSUPPORTED, "RIFX"},
		{0, 4, 0x1203fbff, STK_UNSUPPORTED, "MP3"},
		{0, 4, 0x38464947, STK_CORRUPT, "first bytes are damaged"},
		{8, 4, 0, STK_CORRUPT, "starts with"},
		{20, 2, 2, STK_UNSUPPORTED, "ADPCM"},
		{20, 2, 0x1234, STK_UNSUPPORTED, "coding 4660"},
		{20, 2, 0xfffe, STK_CORRUPT, "extensible"},
		{20, 2, 3, STK_CORRUPT, "16 bits"},
		{22, 2, 0, STK_CORRUPT, "0 channels"},
		{22, 2, 2000, STK_LIMIT, "2000 channels"},
		{24, 4, 0, STK_CORRUPT, "0 Hz"},
		{32, 2, 3, STK_CORRUPT, "frames have 3 bytes"},
		{34, 2, 33, STK_CORRUPT, "33 bits"},
		{34, 2, 0, STK_CORRUPT, "0 bits"},
		{16, 4, 13, STK_CORRUPT, "fmt chunk has 13"},
		{12, 1, 'F', STK_CORRUPT, "no fmt chunk"},
		{36, 1, 'D', STK_CORRUPT, "no data chunk"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct test_wav w = {TEST_WAV_PCM, 1, 16, 50, 16000};
		struct test_wav_file f = test_wav_make(&w, 1);
		struct stk_sound_info info;
		struct stk_error err = {0};
		for (int b = 0; b < cases[i].bytes; b++)
			f.data[cases[i].at + b] = (uint8_t)(cases[i].value >> 8 * b);
		enum stk_status s = peek(f.data, f.size, false, &info, &err);
		if (s != cases[i].status || !strstr(err.message, cases[i].text))
			fail_msg("case %zu: %s: %s", i, stk_status_name(s), err.message);
		free(f.data);
	}
}

/* A hundred thousand empty chunks are refused instead of searched. */
static void test_many_chunks(void **state)
{
	(void)state;
	enum { CHUNKS = 100000 };
	uint8_t *data = calloc(CHUNKS + 2, 8);
	struct stk_sound_info info;
	struct stk_error err = {0};
	memcpy(data, "RIFF\0\0\0\0WAVE", 12);
	assert_int_equal(peek(data, (CHUNKS + 2) * 8, false, &info, &err), STK_LIMIT);
	free(data);
}

/* ---- the public functions ---- */

static void test_public(void **state)
{
	(void)state;
	const struct test_wav w = {TEST_WAV_PCM, 2, 16, 100000, 16000}; /* larger than the window that is read at a time */
	struct test_wav_file f = test_wav_make(&w, 9);
	char path[] = "/tmp/stoker-sound-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, f.data, f.size) == (ssize_t)f.size);
	close(fd);
	float *by_path = malloc(sizeof(float) * 200000), *by_data = malloc(sizeof(float) * 200000);
	struct stk_error err = {0};
	for (int k = 0; k < 2; k++) {
		struct stk_audio *a;
		struct stk_audio_info info = {.size = sizeof info};
		struct stk_audio_request q = {.size = sizeof q, .path = k ? NULL : path, .data = f.data, .bytes = f.size};
		if (stk_audio_open(&q, &a, &info, &err))
			fail_msg("%s", err.message);
		assert_string_equal(info.format, "wav");
		assert_string_equal(info.coding, "pcm");
		assert_int_equal(info.frames, 100000);
		float *to = k ? by_data : by_path;
		assert_int_equal(stk_audio_read(a, 10, 99990, STK_FLOAT, false, to, sizeof(float) * 2 * 99990, &err), STK_OK);
		assert_int_equal(stk_audio_read(a, 0, 10, STK_FLOAT, false, to + 199980, sizeof(float) * 2 * 10, &err), STK_OK);
		assert_int_equal(stk_audio_read(a, 0, 100001, STK_FLOAT, false, to, sizeof(float) * 2 * 100001, &err), STK_INVALID);
		assert_int_equal(stk_audio_read(a, -1, 1, STK_FLOAT, false, to, 8, &err), STK_INVALID);
		assert_int_equal(stk_audio_read(a, 0, 1, STK_UINT8, false, to, 8, &err), STK_INVALID);
		assert_int_equal(stk_audio_read(a, 0, 1, STK_FLOAT, false, to, 9, &err), STK_INVALID);
		stk_audio_close(a);
	}
	assert_memory_equal(by_path, by_data, sizeof(float) * 200000);
	assert_true(truncate(path, 5000) == 0);
	struct stk_audio *a;
	struct stk_audio_info info = {.size = sizeof info};
	struct stk_audio_request q = {.size = sizeof q, .path = path};
	assert_int_equal(stk_audio_open(&q, &a, &info, &err), STK_CORRUPT);
	assert_null(a);
	assert_non_null(strstr(err.message, path));
	q.lenient = true;
	assert_int_equal(stk_audio_open(&q, &a, &info, &err), STK_OK);
	assert_int_equal(info.frames + info.missing, 100000);
	stk_audio_close(a);
	unlink(path);
	assert_int_equal(stk_audio_open(&q, &a, &info, &err), STK_NOT_FOUND);
	stk_audio_close(NULL);
	assert_true(stk_audio_named("a.WAV") && !stk_audio_named("a.png") && !stk_audio_named("wav") && !stk_audio_named(NULL));
	free(by_path);
	free(by_data);
	free(f.data);
}

#ifdef STK_FAULTS
/* The Nth allocation or read fails, for each N: the call returns an error with a message, and nothing leaks. */
static void test_faults(void **state)
{
	(void)state;
	const struct test_wav w = {TEST_WAV_PCM, 2, 16, 50000, 16000};
	struct test_wav_file f = test_wav_make(&w, 9);
	char path[] = "/tmp/stoker-sound-XXXXXX";
	int fd = mkstemp(path), failed[2] = {0};
	assert_true(fd >= 0 && write(fd, f.data, f.size) == (ssize_t)f.size);
	close(fd);
	int16_t *to = malloc(sizeof(int16_t) * 100000);
	for (int kind = 0; kind < 2; kind++) {
		bool met = true;
		for (int64_t nth = 0; met; nth++) {
			struct stk_audio *a = NULL;
			struct stk_error err = {0};
			struct stk_audio_info info = {.size = sizeof info};
			const struct stk_audio_request q = {.size = sizeof q, .path = path};
			stk__fault_set(kind ? STK_FAULT_READ : STK_FAULT_ALLOC, nth);
			enum stk_status s = stk_audio_open(&q, &a, &info, &err);
			if (!s)
				s = stk_audio_read(a, 0, 50000, STK_INT16, false, to, sizeof(int16_t) * 100000, &err);
			met = stk__fault_passed(kind ? STK_FAULT_READ : STK_FAULT_ALLOC) > nth;
			stk__fault_set(kind ? STK_FAULT_READ : STK_FAULT_ALLOC, -1);
			assert_true((s != STK_OK) == met);
			assert_true(!met || err.message[0]);
			failed[kind] += met;
			stk_audio_close(a);
		}
	}
	print_message("%d allocations and %d reads failed\n", failed[0], failed[1]);
	assert_true(failed[0] >= 3 && failed[1] >= 4);
	unlink(path);
	free(to);
	free(f.data);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_sizes_in_headers),
		cmocka_unit_test(test_unfinished_recording),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_many_chunks),
		cmocka_unit_test(test_public),
#ifdef STK_FAULTS
		cmocka_unit_test(test_faults),
#endif
	};
	return cmocka_run_group_tests_name("sound", tests, NULL, NULL);
}
