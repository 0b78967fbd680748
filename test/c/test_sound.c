/* SPDX-License-Identifier: Apache-2.0
 * Sound files: compares samples of all types with formulas in double; tests headers, windows, damaged files, and the public functions. */
#include "test.h"

#include "flac_files.h"
#include "sound_files.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "sound/flac.h"
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

/* Returns the value of a byte of A-law or mu-law as the text of G.711 defines it, scaled from 13 or 14 bits to 16. */
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

/* Returns the exact value of the sample at p: -1 <= x < 1, except that a file of floats may have any value. */
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
		{UINT32_MAX, 0, 50, STK_OK, 0},             /* as ffmpeg writes it to a pipe */
		{0x7ffff000 / 6 * 6, 0, 50, STK_OK, 0},     /* as SoX writes it */
		{301, 0, 50, STK_OK, 0},                    /* the size ends within a frame, and the incomplete frame is ignored */
		{600, 0, 50, STK_CORRUPT, 50},              /* cut in half */
		{4000000000, 0, 0, STK_CORRUPT, 666666666}, /* promises 4 GB and has no samples */
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

/* Reads a file whose header states a size of 0, as after a recorder lost power. */
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

/* A file that is cut off at any byte is refused. With `lenient` it is shorter instead, if the cut is in its samples. */
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
	/* Changes of the bytes of a mono WAV of 16 bits, whose chunk fmt begins at byte 20. */
	static const struct {
		int at, bytes;
		uint32_t value;
		enum stk_status status;
		const char *text;
	} cases[] = {
		{0, 4, 0x43614c66, STK_CORRUPT, "FLAC whose header is damaged"},
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

/* Refuses a file of a hundred thousand empty chunks, instead of visiting all of them. */
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

/* ---- FLAC ---- */

/* A source that returns a file's bytes piece by piece, as reads of a file do. */
struct pieces {
	const uint8_t *data;
	uint8_t *last; /* the last piece, in its own memory, so that AddressSanitizer finds reads outside of it; freed by the next read */
	int64_t read;
};

static enum stk_status read_piece(void *user, uint64_t at, size_t n, const uint8_t **out, struct stk_error *err)
{
	struct pieces *p = user;
	(void)err;
	assert_true(n <= STK_SOUND_READ);
	free(p->last);
	p->last = malloc(n ? n : 1);
	memcpy(p->last, p->data + at, n);
	p->read += (int64_t)n;
	*out = p->last;
	return STK_OK;
}

/* Decodes a window to int32 samples and compares them. */
static void check_flac_window(const struct test_flac *f, const struct test_flac_file *made, const struct stk_sound_bytes *bytes,
	const struct stk_sound_info *info, int64_t first, int64_t count, unsigned cpu)
{
	struct stk_error err = {0};
	const size_t n = (size_t)count * (size_t)f->channels;
	int32_t *to = malloc(n * 4 + 1);
	const struct stk_sound_window w = {.first = first, .count = count, .dtype = STK_INT32, .to = to, .cpu = cpu};
	if (stk__sound_read(bytes, info, &w, &err))
		fail_msg("%d bits, %d channels, frames %lld to %lld: %s", f->bits, f->channels, (long long)first,
			(long long)(first + count), err.message);
	for (size_t i = 0; i < n; i++) {
		const int32_t want = (int32_t)((uint32_t)made->samples[(size_t)first * (size_t)f->channels + i] << (32 - f->bits));
		if (to[i] != want)
			fail_msg("%d bits, %d channels: sample %zu after frame %lld is %d instead of %d", f->bits, f->channels, i,
				(long long)first, to[i], want);
	}
	free(to);
}

static void test_flac_values(void **state)
{
	(void)state;
	const unsigned cpus[] = {0, stk__cpu_capabilities()};
	for (int k = 0; k < TEST_FLACS; k++) {
		const struct test_flac *f = &test_flacs[k];
		uint64_t seed = (uint64_t)k + 1;
		struct test_flac_file made = test_flac_make(f, seed);
		struct pieces pieces = {.data = made.data};
		const struct stk_sound_bytes all[] = {
			stk__sound_memory(made.data, made.size), {.read = read_piece, .user = &pieces, .size = made.size}};
		for (int way = 0; way < 4; way++) {
			const struct stk_sound_bytes *bytes = &all[way / 2];
			struct stk_sound_info info;
			struct stk_error err = {0};
			if (stk__sound_peek(bytes, false, &info, &err))
				fail_msg("file %d: %s", k, err.message);
			assert_string_equal(info.format, "flac");
			assert_int_equal(info.frames, f->frames);
			assert_int_equal(info.missing, 0);
			assert_int_equal(info.channels, f->channels);
			assert_int_equal(info.rate, f->rate);
			assert_int_equal(info.bits, f->bits);
			check_flac_window(f, &made, bytes, &info, 0, f->frames, cpus[way % 2]);
			for (int i = 0; i < 12; i++) {
				const int64_t first = test_draw(&seed, (uint32_t)f->frames + 1);
				const int64_t count = test_draw(&seed, i % 3 ? 100 : (uint32_t)f->frames + 1);
				check_flac_window(f, &made, bytes, &info, first, count < f->frames - first ? count : f->frames - first,
					cpus[way % 2]);
			}
		}
		free(pieces.last);
		test_flac_free(&made);
	}
}

static int32_t drawn(uint64_t *seed, int32_t bits)
{
	const uint32_t all = test_draw(seed, 1 << 16) << 16 | test_draw(seed, 1 << 16);
	return bits ? (int32_t)all >> (32 - bits) : 0;
}

/* Returns a random subframe. Residuals may be so large that samples wrap around, as in malicious files. */
static struct stk_flac_task draw_task(uint64_t *seed, int32_t n, int32_t *x)
{
	static const int32_t fixed[5][4] = {{0}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}};
	struct stk_flac_task t = {.fixed = test_draw(seed, 4) == 0, .bits = 4 + (int32_t)test_draw(seed, 29), .n = n, .x = x};
	const int32_t width = (int32_t)test_draw(seed, 16), size = test_draw(seed, 4) ? (int32_t)test_draw(seed, 20) : 32;
	t.p.order = (int32_t)test_draw(seed, t.fixed ? 5 : test_draw(seed, 4) ? 13 : STK_FLAC_MAX_ORDER + 1);
	t.p.shift = t.fixed ? 0 : (int32_t)test_draw(seed, 16);
	for (int32_t k = 0; k < t.p.order; k++)
		t.p.coefficient[k] = t.fixed ? fixed[t.p.order][k] : drawn(seed, width);
	for (int32_t i = 0; i < n; i++)
		x[i] = drawn(seed, size);
	return t;
}

/* The loops for all processors must give the same samples, and checksums that equal a computation bit by bit. */
static void test_flac_loops(void **state)
{
	enum { MOST = 9, LONGEST = 700 };
	(void)state;
	const unsigned cpus[] = {0, stk__cpu_capabilities() & STK_CPU_AVX2, stk__cpu_capabilities()};
	uint64_t seed = 11;
	for (int round = 0; round < 600; round++) {
		static int32_t x[3][MOST][LONGEST];
		struct stk_flac_task tasks[MOST];
		const int32_t count = 1 + (int32_t)test_draw(&seed, MOST),
			      all = STK_FLAC_MAX_ORDER + (int32_t)test_draw(&seed, LONGEST - STK_FLAC_MAX_ORDER);
		for (int32_t k = 0; k < count; k++)
			tasks[k] = draw_task(&seed, test_draw(&seed, 8) ? all : all - (int32_t)test_draw(&seed, 2), x[0][k]);
		memcpy(x[1], x[0], sizeof x[0]);
		memcpy(x[2], x[0], sizeof x[0]);
		for (int c = 0; c < 3; c++) {
			for (int32_t k = 0; k < count; k++)
				tasks[k].x = x[c][k];
			stk__flac_loops(cpus[c])->predict(tasks, count);
			for (int32_t k = 0; k < count; k++)
				if (memcmp(x[c][k], x[0][k], sizeof(int32_t) * (size_t)tasks[k].n))
					fail_msg("round %d: loops for 0x%x differ in subframe %d of %d, order %d", round, cpus[c], k, count,
						tasks[k].p.order);
		}
		const uint8_t *bytes = (const uint8_t *)x[0] + test_draw(&seed, 64);
		const size_t n = test_draw(&seed, 1500);
		uint32_t sum = test_draw(&seed, 1 << 16), want = sum;
		for (size_t i = 0; i < 8 * n; i++) {
			const uint32_t bit = (want >> 15 ^ bytes[i / 8] >> (7 - i % 8)) & 1;
			want = (want << 1 & 0xffff) ^ (bit ? 0x8005 : 0);
		}
		for (int c = 0; c < 3; c++)
			assert_int_equal(stk__flac_loops(cpus[c])->checksum(sum, bytes, n), want);
	}
}

static void no_more(struct stk_flac_bits *b)
{
	for (; b->count <= 56; b->count += 8) {
		if (b->p < b->end)
			b->cache |= (uint64_t)*b->p++ << (56 - b->count);
		else
			b->zeros += 8;
	}
}

/* Reads random residuals with every parameter of Rice's code. The codes begin with up to `most` zeros, so that the reader's cache of bits holds several
 * codes, one, or only a part of one. Each loop must give the residuals, and must refuse the same codes without their last byte. */
static void test_flac_rice(void **state)
{
	enum { N = 301 };
	static const uint32_t mosts[] = {1, 4, 20, 70};
	(void)state;
	const unsigned cpus[] = {0, stk__cpu_capabilities() & STK_CPU_AVX2, stk__cpu_capabilities()};
	uint64_t seed = 5;
	for (int parameter = 0; parameter < 31; parameter++)
		for (int m = 0; m < 4; m++) {
			int32_t want[N], made[N];
			struct test_bits b = {0};
			test_bits(&b, 1, 2); /* parameters of 5 bits */
			test_bits(&b, 0, 4); /* one partition */
			test_bits(&b, (uint64_t)parameter, 5);
			for (int i = 0; i < N; i++) {
				const uint32_t most = mosts[m] < UINT32_MAX >> parameter ? mosts[m] : UINT32_MAX >> parameter;
				const uint32_t high = test_draw(&seed, test_draw(&seed, 3) ? 2 : most + 1),
					       low = test_draw(&seed, 1u << parameter);
				const uint32_t folded = high << parameter | low;
				want[i] = folded & 1 ? (int32_t)(-(int64_t)(folded >> 1) - 1) : (int32_t)(folded >> 1);
				for (uint32_t k = 0; k < high; k++)
					test_bits(&b, 0, 1);
				test_bits(&b, 1, 1);
				test_bits(&b, low, parameter);
			}
			test_bits(&b, 0, b.used ? 8 - b.used : 0);
			for (int c = 0; c < 3; c++)
				for (size_t missing = 0; missing < 2; missing++) {
					struct stk_flac_bits from = {.p = b.data, .end = b.data + b.size - missing, .more = no_more};
					const bool whole = stk__flac_loops(cpus[c])->residual(&from, made, N, 0);
					if (whole == missing || (whole && memcmp(made, want, sizeof want)))
						fail_msg("parameter %d, up to %u zeros, loops for 0x%x", parameter, mosts[m], cpus[c]);
				}
			free(b.data);
		}
}

/* Compares all types of samples, and means of channels, with the results of stk__pcm_convert for the same samples. */
static void test_flac_types(void **state)
{
	(void)state;
	static const enum stk_dtype types[] = {STK_FLOAT, STK_INT16, STK_INT32};
	for (int k = 0; k < TEST_FLACS; k++) {
		const struct test_flac *f = &test_flacs[k];
		struct test_flac_file made = test_flac_make(f, 7);
		const struct stk_sound_bytes bytes = stk__sound_memory(made.data, made.size);
		const size_t n = (size_t)f->frames * (size_t)f->channels;
		struct stk_sound_info info;
		assert_int_equal(stk__sound_peek(&bytes, false, &info, NULL), STK_OK);
		for (size_t i = 0; i < n; i++)
			made.samples[i] = (int32_t)((uint32_t)made.samples[i] << (32 - f->bits));
		for (int t = 0; t < 6; t++) {
			const enum stk_dtype dtype = types[t % 3];
			uint8_t *to = malloc(4 * n + 1), *want = malloc(4 * n + 1);
			const struct stk_sound_window w = {.count = f->frames, .dtype = dtype, .mono = t >= 3, .to = to};
			assert_int_equal(stk__sound_read(&bytes, &info, &w, NULL), STK_OK);
			stk__pcm_convert(STK_PCM_I32, (const uint8_t *)made.samples, f->frames, f->channels, t >= 3, dtype, want);
			assert_memory_equal(to, want, (t >= 3 ? (size_t)f->frames : n) * stk_dtype_size(dtype));
			free(to);
			free(want);
		}
		test_flac_free(&made);
	}
}

/* Decoding a window of a long file must read little more than the window's own blocks. */
static void test_flac_windows_read_little(void **state)
{
	(void)state;
	for (int table = 0; table < 2; table++) {
		const struct test_flac f = {1, 16, 2000000, 44100, 4096, .seek_table = table, .loud = 1};
		struct test_flac_file made = test_flac_make(&f, 5);
		struct pieces pieces = {.data = made.data};
		const struct stk_sound_bytes bytes = {.read = read_piece, .user = &pieces, .size = made.size};
		struct stk_sound_info info;
		assert_true(made.size > 40 * STK_SOUND_READ);
		assert_int_equal(stk__sound_peek(&bytes, false, &info, NULL), STK_OK);
		assert_true(pieces.read < 2 * STK_SOUND_READ);
		pieces.read = 0;
		check_flac_window(&f, &made, &bytes, &info, 1500000, 100, 0);
		assert_true(pieces.read < (table ? 4 : 12) * STK_SOUND_READ);
		free(pieces.last);
		test_flac_free(&made);
	}
}

/* A file that is cut off is refused, unless it states no length and ends with a complete block. With `lenient` it has the samples of the complete blocks. */
static void test_flac_cut(void **state)
{
	(void)state;
	static const struct test_flac files[] = {{2, 16, 2000, 44100, 256}, {1, 24, 2000, 44100, 300, .variable = 1},
		{2, 16, 2000, 44100, 256, .no_total = 1, .seek_table = 2}};
	for (int k = 0; k < 3; k++) {
		struct test_flac_file made = test_flac_make(&files[k], 3);
		for (size_t size = 0, step; size < made.size; size += step) {
			struct stk_sound_info info;
			struct stk_error err = {0};
			int64_t whole = 0;
			step = size < made.begin + 40 || size + 40 > made.size ? 1 : 17;
			for (int i = 0; i < made.n_blocks && made.blocks[i + 1] <= size; i++)
				whole = i + 1;
			uint8_t *cut = malloc(size + 1);
			memcpy(cut, made.data, size);
			const struct stk_sound_bytes bytes = stk__sound_memory(cut, size);
			int32_t *to = malloc(4 * 4000);
			struct stk_sound_window w = {.dtype = STK_INT32, .to = to};
			enum stk_status s = stk__sound_peek(&bytes, false, &info, &err);
			if (!s) { /* the header does not show the cut, but reading the samples may */
				w.count = info.frames;
				s = stk__sound_read(&bytes, &info, &w, &err);
			}
			if (files[k].no_total && (size == made.blocks[whole] || size == made.blocks[whole] + 1) && size >= made.begin)
				assert_int_equal(s, STK_OK); /* the header gives no length, so the cut cannot be noticed */
			else
				assert_int_equal(s, STK_CORRUPT);
			assert_true(!s || strlen(err.message) > 10);
			s = stk__sound_peek(&bytes, true, &info, &err);
			assert_int_equal(s, size < made.begin ? STK_CORRUPT : STK_OK);
			if (!s) {
				int64_t frames = 0;
				for (int64_t i = 0, at = 0; i < whole; i++, at = frames) {
					struct stk_flac_block b;
					assert_true(stk__flac_block_read(
						made.data + made.blocks[i], made.size - made.blocks[i], 44100, files[k].bits, &b));
					frames = at + b.frames;
				}
				assert_int_equal(info.frames, frames);
				assert_int_equal(info.missing, files[k].no_total ? 0 : files[k].frames - frames);
				check_flac_window(&files[k], &made, &bytes, &info, 0, frames, 0);
			}
			free(to);
			free(cut);
		}
		test_flac_free(&made);
	}
}

/* Changes a bit after the header. Reading the file fails or, with `lenient`, only the block with that bit becomes silent, or is missing if it is the last. */
static void test_flac_damage(void **state)
{
	(void)state;
	const struct test_flac f = {2, 16, 3000, 44100, 300};
	struct test_flac_file made = test_flac_make(&f, 11);
	const struct stk_sound_bytes bytes = stk__sound_memory(made.data, made.size);
	int32_t *to = malloc(sizeof *to * 6000);
	for (size_t at = made.begin; at < made.size; at += 7) {
		struct stk_sound_info info;
		struct stk_error err = {0};
		struct stk_sound_window w = {.count = 3000, .dtype = STK_INT32, .to = to};
		int hit = 0;
		while (made.blocks[hit + 1] <= at)
			hit++;
		made.data[at] ^= 0x10;
		enum stk_status s = stk__sound_peek(&bytes, false, &info, &err);
		if (!s) {
			assert_int_equal(stk__sound_read(&bytes, &info, &w, &err), STK_CORRUPT);
			assert_non_null(strstr(err.message, " s (byte "));
		} else {
			assert_int_equal(s, STK_CORRUPT);
		}
		assert_int_equal(stk__sound_peek(&bytes, true, &info, &err), STK_OK);
		assert_int_equal(info.frames, hit == 9 ? 2700 : 3000);
		w.count = info.frames;
		w.lenient = true;
		if (stk__sound_read(&bytes, &info, &w, &err))
			fail_msg("byte %zu: %s", at, err.message);
		for (int i = 0; i < 2 * (int)info.frames; i++)
			assert_int_equal(to[i], i / 600 == hit ? 0 : made.samples[i] * 65536);
		made.data[at] ^= 0x10;
	}
	free(to);
	test_flac_free(&made);
}

/* The numbers in the headers of blocks show that a block is missing or repeated. */
static void test_flac_missing_block(void **state)
{
	(void)state;
	const struct test_flac f = {1, 16, 3000, 44100, 300};
	struct test_flac_file made = test_flac_make(&f, 12);
	struct stk_sound_info info;
	struct stk_error err = {0};
	int32_t to[3000];
	struct stk_sound_window w = {.count = 3000, .dtype = STK_INT32, .to = to};
	memmove(made.data + made.blocks[4], made.data + made.blocks[5], made.size - made.blocks[5]);
	const struct stk_sound_bytes bytes = stk__sound_memory(made.data, made.size - (made.blocks[5] - made.blocks[4]));
	assert_int_equal(stk__sound_peek(&bytes, false, &info, &err), STK_OK);
	assert_int_equal(stk__sound_read(&bytes, &info, &w, &err), STK_CORRUPT);
	assert_non_null(strstr(err.message, "at 0.027 s"));
	w.lenient = true;
	assert_int_equal(stk__sound_read(&bytes, &info, &w, &err), STK_OK);
	for (int i = 0; i < 3000; i++)
		assert_int_equal(to[i], i / 300 == 4 ? 0 : made.samples[i] * 65536);
	test_flac_free(&made);
}

/* Refuses files whose headers state too many frames, or a wrong size of STREAMINFO. */
static void test_flac_hostile(void **state)
{
	(void)state;
	const struct test_flac f = {8, 16, 100, 44100, 4096};
	struct test_flac_file made = test_flac_make(&f, 12);
	const struct stk_sound_bytes bytes = stk__sound_memory(made.data, made.size);
	struct stk_sound_info info;
	struct stk_error err = {0};
	memset(made.data + 22, 0xff, 4); /* a number of frames of 2^32 - 1 */
	assert_int_equal(stk__sound_peek(&bytes, false, &info, &err), STK_CORRUPT);
	assert_non_null(strstr(err.message, "truncated FLAC"));
	assert_int_equal(stk__sound_peek(&bytes, true, &info, &err), STK_OK);
	assert_int_equal(info.frames, 100);
	assert_int_equal(info.missing, UINT32_MAX - 100);
	made.data[7] = 33; /* makes the size of STREAMINFO wrong */
	assert_int_equal(stk__sound_peek(&bytes, false, &info, &err), STK_CORRUPT);
	assert_non_null(strstr(err.message, "STREAMINFO"));
	made.data[5] = 0xff;
	assert_int_equal(stk__sound_peek(&bytes, false, &info, &err), STK_CORRUPT);
	test_flac_free(&made);
}

static void test_flac_cancelled(void **state)
{
	(void)state;
	const struct test_flac f = {1, 16, 3000, 44100, 300};
	struct test_flac_file made = test_flac_make(&f, 12);
	const struct stk_sound_bytes bytes = stk__sound_memory(made.data, made.size);
	struct stk_sound_info info;
	struct stk_cancel cancel = {true};
	float to[3000];
	const struct stk_sound_window w = {.count = 3000, .dtype = STK_FLOAT, .to = to, .cancel = &cancel};
	assert_int_equal(stk__sound_peek(&bytes, false, &info, NULL), STK_OK);
	assert_int_equal(stk__sound_read(&bytes, &info, &w, NULL), STK_CANCELLED);
	test_flac_free(&made);
}

/* ---- the public functions ---- */

static void test_public(void **state)
{
	(void)state;
	const struct test_wav w = {TEST_WAV_PCM, 2, 16, 100000, 16000}; /* larger than one read of a file */
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
/* Opens and reads a sound while allocation or read number N fails, for each N: a call returns an error with a message, and nothing leaks. allocations: the
 * least number of allocations that must have failed. */
static void check_faults(const uint8_t *data, size_t size, int allocations)
{
	char path[] = "/tmp/stoker-sound-XXXXXX";
	int fd = mkstemp(path), failed[2] = {0};
	assert_true(fd >= 0 && write(fd, data, size) == (ssize_t)size);
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
	assert_true(failed[0] >= allocations && failed[1] >= 4);
	unlink(path);
	free(to);
}

static void test_faults(void **state)
{
	(void)state;
	const struct test_wav w = {TEST_WAV_PCM, 2, 16, 50000, 16000};
	const struct test_flac kind = {2, 16, 50000, 16000, 4096, .loud = 1};
	struct test_wav_file wav = test_wav_make(&w, 9);
	struct test_flac_file flac = test_flac_make(&kind, 9);
	check_faults(wav.data, wav.size, 3);
	check_faults(flac.data, flac.size, 4);
	free(wav.data);
	test_flac_free(&flac);
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
		cmocka_unit_test(test_flac_values),
		cmocka_unit_test(test_flac_loops),
		cmocka_unit_test(test_flac_rice),
		cmocka_unit_test(test_flac_types),
		cmocka_unit_test(test_flac_windows_read_little),
		cmocka_unit_test(test_flac_cut),
		cmocka_unit_test(test_flac_damage),
		cmocka_unit_test(test_flac_missing_block),
		cmocka_unit_test(test_flac_hostile),
		cmocka_unit_test(test_flac_cancelled),
		cmocka_unit_test(test_public),
#ifdef STK_FAULTS
		cmocka_unit_test(test_faults),
#endif
	};
	return cmocka_run_group_tests_name("sound", tests, NULL, NULL);
}
