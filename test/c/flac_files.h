/* SPDX-License-Identifier: Apache-2.0
 * Writes FLAC files (RFC 9639) for tests. The encoder chooses codings at random instead of the smallest ones, so that rare codings occur. */
#ifndef STK_TEST_FLAC_FILES_H
#define STK_TEST_FLAC_FILES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct test_flac {
	int channels, bits, frames;
	uint32_t rate;
	int block;        /* number of frames in a block; with `variable`, in the largest block */
	int variable;     /* blocks have different sizes */
	int seek_table;   /* number of blocks between seek points; 0: the file has no seek table */
	int id3, padding; /* sizes in bytes of an ID3 tag before the file, and of padding in its header */
	int no_total;     /* the header does not state the number of frames */
	int first_number; /* number in the first block's header */
	int loud;         /* samples are random numbers in the full range */
};

struct test_flac_file {
	uint8_t *data;
	size_t size, begin; /* begin: offset of the first block */
	int32_t *samples;   /* the file's samples, interleaved */
	size_t *blocks;     /* n_blocks + 1 offsets in the file: of each block, and of the end */
	int n_blocks;
};

/* ---- bits ---- */

struct test_bits {
	uint8_t *data;
	size_t size, room;
	uint32_t last;
	int used; /* number of bits in `last` */
};

static inline void test_byte(struct test_bits *b, uint32_t v)
{
	if (b->size == b->room)
		b->data = realloc(b->data, b->room = 2 * b->room + 4096);
	b->data[b->size++] = (uint8_t)v;
}

static inline void test_bits(struct test_bits *b, uint64_t v, int n)
{
	while (n-- > 0) {
		b->last = b->last << 1 | (v >> n & 1);
		if (++b->used == 8) {
			test_byte(b, b->last);
			b->used = 0;
		}
	}
}

static inline uint32_t test_crc(const uint8_t *p, size_t n, int bits, uint32_t polynomial)
{
	uint32_t sum = 0, top = 1u << (bits - 1), mask = 2 * top - 1;
	for (size_t i = 0; i < n; i++) {
		sum ^= (uint32_t)p[i] << (bits - 8);
		for (int k = 0; k < 8; k++)
			sum = (sum & top ? sum << 1 ^ polynomial : sum << 1) & mask;
	}
	return sum;
}

static inline uint32_t test_draw(uint64_t *seed, uint32_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((*seed >> 33) % below);
}

/* ---- subframes ---- */

static inline void test_flac_codes(struct test_bits *b, const int64_t *r, int n, int order, uint64_t *seed)
{
	int partition = (int)test_draw(seed, 9), width = 4, parameter[256], plain[256];
	while (n % (1 << partition) || n >> partition < order)
		partition--;
	for (int k = 0; k < 1 << partition; k++) {
		const int from = k ? k * (n >> partition) : order, to = (k + 1) * (n >> partition);
		uint64_t sum = 0, most = 0;
		for (int i = from; i < to; i++) {
			sum += (uint64_t)llabs(r[i]);
			most |= (uint64_t)(r[i] < 0 ? ~r[i] : r[i]);
		}
		uint64_t mean = to > from ? sum / (uint64_t)(to - from) : 0;
		for (parameter[k] = 0; mean >> parameter[k]; parameter[k]++)
			;
		parameter[k] += (int)test_draw(seed, 3) - 1;
		parameter[k] = parameter[k] < 0 ? 0 : parameter[k] > 30 ? 30 : parameter[k];
		plain[k] = 0;
		while (plain[k] < 40 && most >> plain[k])
			plain[k]++;
		plain[k] = sum || test_draw(seed, 2) ? plain[k] + 1 : 0;
		if (plain[k] > 31 || test_draw(seed, 4))
			plain[k] = -1;
		width = parameter[k] > 14 ? 5 : width;
	}
	width = test_draw(seed, 4) ? width : 5;
	test_bits(b, width == 5, 2);
	test_bits(b, (uint64_t)partition, 4);
	for (int k = 0; k < 1 << partition; k++) {
		const int from = k ? k * (n >> partition) : order, to = (k + 1) * (n >> partition);
		test_bits(b, plain[k] >= 0 ? (1u << width) - 1 : (uint64_t)parameter[k], width);
		if (plain[k] >= 0)
			test_bits(b, (uint64_t)plain[k], 5);
		for (int i = from; i < to; i++) {
			const uint64_t folded = r[i] < 0 ? 2 * (uint64_t)-r[i] - 1 : 2 * (uint64_t)r[i];
			if (plain[k] >= 0) {
				test_bits(b, (uint64_t)r[i], plain[k]);
				continue;
			}
			for (uint64_t q = folded >> parameter[k]; q; q--)
				test_bits(b, 0, 1);
			test_bits(b, 1, 1);
			test_bits(b, folded, parameter[k]);
		}
	}
}

static inline void test_flac_subframe(struct test_bits *b, const int64_t *samples, int n, int bits, uint64_t *seed)
{
	static const int fixed[5][4] = {{0}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}};
	int64_t *x = malloc(sizeof *x * (size_t)n), *r = malloc(sizeof *r * (size_t)n), all = 0;
	int wasted = 0, equal = 1, coefficient[32] = {0}, order = 0, shift = 0, precision = 5 + (int)test_draw(seed, 11), type;
	for (int i = 0; i < n; i++) {
		all |= samples[i];
		equal &= samples[i] == samples[0];
	}
	while (all && !(all >> wasted & 1))
		wasted++;
	wasted = all && test_draw(seed, 8) ? wasted : 0;
	for (int i = 0; i < n; i++)
		x[i] = samples[i] >> wasted;
	bits -= wasted;
	type = equal && test_draw(seed, 4) ? 0 : !test_draw(seed, 12) ? 1 : test_draw(seed, 2) ? 8 : 32;
	if (type == 8) {
		order = (int)test_draw(seed, n < 4 ? (uint32_t)n + 1 : 5);
		memcpy(coefficient, fixed[order], sizeof fixed[order]);
		type += order;
	} else if (type == 32) {
		order = 1 + (int)test_draw(seed, n < 32 ? (uint32_t)n : 32);
		shift = (int)test_draw(seed, 16);
		const int base = (int)test_draw(seed, 5), most = (1 << (precision - 1)) - 1;
		for (int k = 0; k < order;
			/* coefficients close to those of a fixed predictor, if they fit into `precision` bits; otherwise, and once in 100 subframes, random
			 * ones */
			k++) {
			int64_t c = k < 4 ? (int64_t)fixed[base][k] * (1 << shift) : 0;
			c += (int64_t)test_draw(seed, 5) - 2;
			coefficient[k] = (int)(c > most || c < -most - 1 || !test_draw(seed, 100)
						       ? (int64_t)test_draw(seed, 2u * (uint32_t)most + 1) - most
						       : c);
		}
		type += order - 1;
	}
	for (int i = 0; i < n && type >= 8; i++) {
		int64_t sum = 0;
		for (int k = 0; k < order && i >= order; k++)
			sum += coefficient[k] * x[i - 1 - k];
		r[i] = i < order ? 0 : x[i] - (sum >> shift);
		if (r[i] > INT32_MAX || r[i] <= INT32_MIN)
			type = 1;
	}
	test_bits(b, (uint64_t)type << 1 | (wasted > 0), 8);
	if (wasted)
		test_bits(b, 1, wasted);
	for (int i = 0; i < (type == 0 ? 1 : type == 1 ? n : order); i++)
		test_bits(b, (uint64_t)x[i], bits);
	if (type >= 32) {
		test_bits(b, (uint64_t)precision - 1, 4);
		test_bits(b, (uint64_t)shift, 5);
		for (int k = 0; k < order; k++)
			test_bits(b, (uint64_t)coefficient[k], precision);
	}
	if (type >= 8)
		test_flac_codes(b, r, n, order, seed);
	free(x);
	free(r);
}

/* ---- blocks ---- */

static inline void test_flac_number(struct test_bits *b, uint64_t v)
{
	int n = 1;
	if (v < 0x80) {
		test_bits(b, v, 8);
		return;
	}
	while (v >> (n * 5 + 1) && n < 7) /* n bytes have space for 5 n + 1 bits */
		n++;
	test_bits(b, (0xff00u >> n & 0xff) >> (7 - n), n + 1);
	test_bits(b, v >> (6 * (n - 1)), 7 - n > 0 ? 7 - n : 0);
	for (int k = n - 2; k >= 0; k--)
		test_bits(b, 0x80 | (v >> (6 * k) & 0x3f), 8);
}

static inline void test_flac_block(
	struct test_bits *b, const struct test_flac *f, const int32_t *samples, int n, uint64_t number, uint64_t *seed)
{
	static const uint32_t rates[] = {0, 88200, 176400, 192000, 8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000};
	static const int widths[] = {0, 8, 12, -1, 16, 20, 24, 32};
	const size_t start = b->size;
	int size = n <= 256 ? 6 : 7, rate = 0, width = 0, channels = f->channels - 1;
	for (int k = 1; k < 16; k++) {
		const int named = k == 1 ? 192 : k < 6 ? 144 << k : k < 8 ? -1 : 1 << k;
		size = named == n && test_draw(seed, 4) ? k : size;
	}
	for (int k = 1; k < 12; k++)
		rate = rates[k] == f->rate && f->channels % 2
			       ? k
			       : rate; /* all blocks state the rate in the same form, as encoders write them */
	if (!rate && f->bits % 8 == 0)
		rate = f->rate % 1000 == 0 && f->rate < 256000 ? 12 : f->rate < 65536 ? 13 : f->rate % 10 == 0 ? 14 : 0;
	for (int k = 1; k < 8; k++)
		width = widths[k] == f->bits && f->channels != 8 ? k : width;
	if (f->channels == 2 && test_draw(seed, 4))
		channels = 8 + (int)test_draw(seed, 3);
	test_bits(b, 0xfff8 | f->variable, 16);
	test_bits(b, (uint64_t)size << 4 | (uint64_t)rate, 8);
	test_bits(b, (uint64_t)channels << 4 | (uint64_t)width << 1, 8);
	test_flac_number(b, number);
	if (size == 6 || size == 7)
		test_bits(b, (uint64_t)n - 1, size == 6 ? 8 : 16);
	if (rate >= 12)
		test_bits(b, rate == 12 ? f->rate / 1000 : rate == 13 ? f->rate : f->rate / 10, rate == 12 ? 8 : 16);
	test_bits(b, test_crc(b->data + start, b->size - start, 8, 7), 8);
	int64_t *x = malloc(sizeof *x * (size_t)n);
	for (int c = 0; c < f->channels; c++) {
		const int is_side = channels == 9 ? c == 0 : channels >= 8 && c == 1;
		for (int i = 0; i < n; i++) {
			const int32_t *frame = samples + (size_t)i * (size_t)f->channels;
			x[i] = is_side ? (int64_t)frame[0] - frame[1] : channels == 10 ? ((int64_t)frame[0] + frame[1]) >> 1 : frame[c];
		}
		test_flac_subframe(b, x, n, f->bits + is_side, seed);
	}
	free(x);
	if (b->used)
		test_bits(b, 0, 8 - b->used);
	test_bits(b, test_crc(b->data + start, b->size - start, 16, 0x8005), 16);
}

/* ---- files ---- */

static inline int32_t *test_flac_samples(const struct test_flac *f, uint64_t *seed)
{
	const size_t n = (size_t)f->frames * (size_t)f->channels;
	const int64_t most = ((int64_t)1 << (f->bits - 1)) - 1;
	int32_t *samples = malloc(sizeof *samples * (n + 1));
	int64_t at = 0, step = 0, unit = 1, common = 0;
	for (size_t i = 0; i < n; i++) {
		const size_t c = i % (size_t)f->channels;
		if (test_draw(seed, 3000) == 0)
			unit = (int64_t)1 << test_draw(seed, (uint32_t)f->bits);
		step = step * 15 / 16 + ((int64_t)test_draw(seed, 65536) - 32768) * most / (1 << 21);
		at = at * 31 / 32 + step;
		common = c ? common : at;
		int64_t v = c ? common + step / 4 : at;
		v = f->loud ? (int64_t)(((uint64_t)test_draw(seed, 65536) << 16 | test_draw(seed, 65536)) & (uint64_t)(2 * most + 1)) -
				      most - 1
			    : v;
		v = v > most ? most : v < -most - 1 ? -most - 1 : v;
		samples[i] =
			(int32_t)(unit > most
					  ? 0
					  : v / unit *
						    /* samples are multiples of `unit`: a unit above the range gives silence, and a smaller one gives wasted
						     * bits (low bits that are 0) */
						    unit);
	}
	return samples;
}

/* Makes a FLAC file of random samples. The caller frees data, samples and blocks. */
static inline struct test_flac_file test_flac_make(const struct test_flac *f, uint64_t seed)
{
	struct test_bits b = {0};
	struct test_flac_file made = {.samples = test_flac_samples(f, &seed), .blocks = malloc(sizeof(size_t) * ((size_t)f->frames + 2))};
	int *from = malloc(sizeof(int) * ((size_t)f->frames + 2));
	struct test_bits body = {0};
	for (int at = 0, n; at < f->frames; at += n) {
		n = f->variable ? 16 + (int)test_draw(&seed, (uint32_t)f->block - 15) : f->block;
		n = n < f->frames - at ? n : f->frames - at;
		from[made.n_blocks] = at;
		made.blocks[made.n_blocks] = body.size;
		test_flac_block(&body, f, made.samples + (size_t)at * (size_t)f->channels, n,
			(uint64_t)(f->first_number + (f->variable ? at : made.n_blocks)), &seed);
		made.n_blocks++;
	}
	made.blocks[made.n_blocks] = body.size;
	if (f->id3) {
		test_bits(&b, 0x49443304, 32);
		test_bits(&b, 0, 16);
		test_bits(&b, (uint64_t)(f->id3 >> 7) << 8 | (f->id3 & 0x7f), 32);
		for (int i = 0; i < f->id3; i++)
			test_byte(&b, 0xff);
	}
	test_bits(&b, 0x664c6143, 32);
	test_bits(&b, f->padding || f->seek_table ? 0 : 0x80, 8);
	test_bits(&b, 34, 24);
	test_bits(&b, f->variable ? 16 : (uint64_t)f->block, 16);
	test_bits(&b, (uint64_t)f->block, 16);
	test_bits(&b, 0, 48);
	test_bits(&b, f->rate, 20);
	test_bits(&b, (uint64_t)f->channels - 1, 3);
	test_bits(&b, (uint64_t)f->bits - 1, 5);
	test_bits(&b, f->no_total ? 0 : (uint64_t)f->frames, 36);
	for (int i = 0; i < 16; i++)
		test_byte(&b, 0);
	if (f->seek_table) {
		const int points = (made.n_blocks + f->seek_table - 1) / f->seek_table;
		test_bits(&b, f->padding ? 3 : 0x83, 8);
		test_bits(&b, 18 * ((uint64_t)points + 1), 24);
		for (int k = 0; k <= points; k++) {
			const int block = k * f->seek_table;
			test_bits(&b, k < points ? (uint64_t)from[block] : UINT64_MAX, 64);
			test_bits(&b, k < points ? made.blocks[block] : 0, 64);
			test_bits(&b, 16, 16);
		}
	}
	if (f->padding) {
		test_bits(&b, 0x81, 8);
		test_bits(&b, (uint64_t)f->padding, 24);
		for (int i = 0; i < f->padding; i++)
			test_byte(&b, 0);
	}
	made.begin = b.size;
	made.size = b.size + body.size;
	for (int i = 0; i <= made.n_blocks; i++)
		made.blocks[i] += made.begin;
	made.data = malloc(made.size);
	memcpy(made.data, b.data, b.size);
	if (body.size)
		memcpy(made.data + b.size, body.data, body.size);
	free(b.data);
	free(body.data);
	free(from);
	return made;
}

static inline void test_flac_free(struct test_flac_file *f)
{
	free(f->data);
	free(f->samples);
	free(f->blocks);
}

/* The settings of the files that tests make. */
static const struct test_flac test_flacs[] = {
	{1, 16, 20000, 16000, 4096},
	{2, 16, 20000, 44100, 1152, .seek_table = 3, .padding = 300},
	{2, 24, 9000, 96000, 4608, .variable = 1},
	{2, 32, 9000, 48000, 1024, .seek_table = 1},
	{2, 32, 5000, 48000, 576, .variable = 1, .loud = 1},
	{1, 32, 5000, 8000, 4096, .loud = 1},
	{1, 8, 6000, 8000, 192, .id3 = 500},
	{2, 4, 3000, 11025, 256},
	{3, 12, 4000, 32000, 777, .padding = 1},
	{4, 20, 4000, 655350, 2304, .no_total = 1},
	{5, 17, 3000, 22050, 512, .variable = 1, .no_total = 1},
	{6, 16, 3000, 24000, 500, .first_number = 1000},
	{7, 31, 3000, 192000, 333, .variable = 1, .first_number = 2000000},
	{8, 24, 9000, 384000, 1000, .seek_table = 2},
	{1, 16, 1, 16000, 4096},
	{2, 16, 15, 16000, 16},
	{1, 16, 70000, 16000, 65535},
	{1, 24, 300000, 16000, 300, .first_number = 0, .seek_table = 100},
	{2, 16, 300000, 1048575, 100},
	{1, 16, 200000, 44100, 3000, .variable = 1},
	{1, 16, 0, 44100, 4096, .no_total = 1},
};
enum { TEST_FLACS = sizeof test_flacs / sizeof *test_flacs };

#endif
