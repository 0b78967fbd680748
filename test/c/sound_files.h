/* SPDX-License-Identifier: Apache-2.0
 * Writes WAV files for tests. */
#ifndef STK_TEST_SOUND_FILES_H
#define STK_TEST_SOUND_FILES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_WAV_PCM = 1, TEST_WAV_FLOAT = 3, TEST_WAV_ALAW = 6, TEST_WAV_MULAW = 7 };

struct test_wav {
	int tag, channels, bits, frames;
	uint32_t rate;
	int extensible, wide, fmt_last, odd_chunk, chunk_after;
	uint64_t promise; /* size of the samples in bytes that the header states; 0: the true size */
};

struct test_wav_file {
	uint8_t *data;
	size_t size, samples; /* samples: offset of the first sample */
};

static inline void test_put(struct test_wav_file *f, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		f->data[f->size++] = (uint8_t)(value >> 8 * i);
}

static inline void test_put_text(struct test_wav_file *f, const char *text)
{
	memcpy(f->data + f->size, text, strlen(text));
	f->size += strlen(text);
}

static inline void test_put_fmt(struct test_wav_file *f, const struct test_wav *w)
{
	static const uint8_t guid[] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};
	int frame = w->channels * ((w->bits + 7) / 8);
	test_put_text(f, "fmt ");
	test_put(f, w->extensible ? 40 : w->tag == TEST_WAV_PCM ? 16 : 18, 4);
	test_put(f, (uint64_t)(w->extensible ? 0xfffe : w->tag), 2);
	test_put(f, (uint64_t)w->channels, 2);
	test_put(f, w->rate, 4);
	test_put(f, (uint64_t)w->rate * (unsigned)frame, 4);
	test_put(f, (uint64_t)frame, 2);
	test_put(f, (uint64_t)w->bits, 2);
	if (w->extensible) {
		test_put(f, 22, 2);
		test_put(f, (uint64_t)w->bits, 2);
		test_put(f, 0, 4);
		test_put(f, (uint64_t)w->tag, 2);
		memcpy(f->data + f->size, guid, sizeof guid);
		f->size += sizeof guid;
	} else if (w->tag != TEST_WAV_PCM) {
		test_put(f, 0, 2);
	}
}

/* Makes a WAV file. Its samples are pseudorandom bytes; floats are in -2 <= x < 2. The caller frees data. */
static inline struct test_wav_file test_wav_make(const struct test_wav *w, uint64_t seed)
{
	size_t samples = (size_t)w->frames * (size_t)w->channels, width = (size_t)(w->bits + 7) / 8;
	struct test_wav_file f = {.data = malloc(samples * width + 256)};
	uint64_t size = w->promise ? w->promise : samples * width;
	test_put_text(&f, w->wide ? "RF64" : "RIFF");
	test_put(&f, w->wide ? UINT32_MAX : 36 + size, 4);
	test_put_text(&f, "WAVE");
	if (w->wide) {
		test_put_text(&f, "ds64");
		test_put(&f, 28, 4);
		test_put(&f, 64 + size, 8);
		test_put(&f, size, 8);
		test_put(&f, (uint64_t)w->frames, 8);
		test_put(&f, 0, 4);
	}
	if (w->odd_chunk) {
		test_put_text(&f, "LIST");
		test_put(&f, 5, 4);
		test_put_text(&f, "INFO!");
		test_put(&f, 0, 1);
	}
	if (!w->fmt_last)
		test_put_fmt(&f, w);
	test_put_text(&f, "data");
	test_put(&f, w->wide ? UINT32_MAX : size, 4);
	f.samples = f.size;
	for (size_t i = 0; i < samples; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		double real = (double)(seed >> 11) * 0x1p-51 - 2;
		float single = (float)real;
		uint64_t bits = seed >> 20;
		if (w->tag == TEST_WAV_FLOAT)
			memcpy(&bits, w->bits == 32 ? (void *)&single : (void *)&real, width);
		test_put(&f, bits, (int)width);
	}
	if (samples * width % 2)
		test_put(&f, 0, 1);
	if (w->fmt_last)
		test_put_fmt(&f, w);
	if (w->chunk_after) {
		test_put_text(&f, "LIST");
		test_put(&f, 4, 4);
		test_put_text(&f, "INFO");
	}
	return f;
}

#endif
