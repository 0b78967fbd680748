/* SPDX-License-Identifier: Apache-2.0
 * kernel/jpeg: compares plain C with the machine's fastest kernels, bit for bit, and both with simple decoders in this file that follow the standard. */
#include "test.h"

#include "base/cpu.h"
#include "codec/jpeg_header.h"
#include "image_files.h"
#include "kernel/jpeg/jpeg_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 2 };

/* The plain C kernels, and the fastest kernels of this machine. */
static struct stk_jpeg_kernels kernels[LEVELS];

static const struct stk_jpeg_kernels *kernels_of(int level)
{
	return &kernels[level];
}

/* Convert both blocks of a pair from natural order to the order of the level's kernels, and back. */
static void lay_out(int level, int16_t natural[2][64], int16_t *pair)
{
	for (int i = 0; i < 128; i++)
		pair[kernels[level].position_of[i % 64] + 8 * (i / 64)] = natural[i / 64][i % 64];
}

static void take_out(int level, const int16_t *pair, int16_t natural[2][64])
{
	for (int i = 0; i < 128; i++)
		natural[i / 64][i % 64] = pair[kernels[level].position_of[i % 64] + 8 * (i / 64)];
}

/* ---- unstuffing ---- */

/* Removes stuffed bytes one at a time, as B.1.1.5 says. */
static struct stk_jpeg_unstuffed unstuff_slowly(const uint8_t *src, size_t size, uint8_t *dst, size_t capacity)
{
	struct stk_jpeg_unstuffed u = {0, 0, false};
	while (u.read < size && u.written < capacity) {
		if (src[u.read] == 0xff) {
			if (u.read + 1 == size || src[u.read + 1] != 0) {
				u.ended = true;
				return u;
			}
			u.read++;
			dst[u.written++] = 0xff;
		} else {
			dst[u.written++] = src[u.read];
		}
		u.read++;
	}
	u.ended = u.read == size;
	return u;
}

static void test_unstuffing(void **state)
{
	(void)state;
	enum { MOST = 700, SLACK = 64 };
	uint64_t r = test_seed();
	static uint8_t src[MOST + SLACK], want[MOST + SLACK], got[MOST + SLACK];
	for (int n = 0; n < 20000; n++) {
		size_t size = (size_t)test_random_in(&r, 0, MOST), capacity = (size_t)test_random_in(&r, 1, MOST);
		int ff = test_random_in(&r, 1, 80), marker = test_random_in(&r, 0, 3);
		for (size_t i = 0; i < MOST + SLACK; i++) {
			src[i] = (uint8_t)test_random_in(&r, 0, 254);
			if (i > 0 && src[i - 1] == 0xff)
				src[i] = marker == 0 && test_random_in(&r, 0, 9) == 0 ? 0xd9 : 0;
			else if (test_random_in(&r, 0, ff) == 0)
				src[i] = 0xff;
		}
		for (int level = 0; level < LEVELS; level++) {
			struct stk_jpeg_unstuffed u = kernels_of(level)->unstuff(src, size, got, capacity);
			/* The kernel may write past `capacity`. Only the bytes that it reports as written are compared. */
			struct stk_jpeg_unstuffed w = unstuff_slowly(src, size, want, u.written > capacity ? u.written : capacity);
			assert_int_equal(u.written, w.written);
			assert_int_equal(u.read, w.read);
			assert_true(u.written <= capacity + 32);
			assert_memory_equal(got, want, u.written);
			if (u.written < capacity)
				assert_int_equal(u.ended, w.ended);
		}
	}
}

/* ---- entropy decoding ---- */

/* Shuffles `symbols` and returns a random prefix code for them. Draws the length of the shortest code, and the number of codes of each length up to 16 bits. */
static struct stk_jpeg_huffman random_code(uint64_t *r, uint8_t *symbols, int count)
{
	struct stk_jpeg_huffman h;
	for (int i = count - 1; i > 0; i--) {
		int j = test_random_in(r, 0, i);
		uint8_t t = symbols[i];
		symbols[i] = symbols[j];
		symbols[j] = t;
	}
	for (;;) {
		memset(&h, 0, sizeof h);
		int shortest = test_random_in(r, 1, 8);
		double left = 1; /* 1 minus Kraft's sum of the codes so far; the code that consists only of ones stays unused */
		int placed = 0;
		for (int n = shortest; n <= 16 && placed < count; n++) {
			int capacity = (int)(left * (1 << n)) - 1, most = capacity < count - placed ? capacity : count - placed;
			int here = n == 16 ? most : most > 0 ? test_random_in(r, 0, most) : 0;
			/* Leaves enough codes of 16 bits for the remaining symbols. */
			while (here > 0 && (left - here / (double)(1 << n)) * 65536 - 1 < count - placed - here)
				here--;
			if (here < 0)
				here = 0;
			h.counts[n - 1] = (uint8_t)here;
			placed += here;
			left -= here / (double)(1 << n);
		}
		if (placed == count)
			break;
	}
	memcpy(h.values, symbols, (size_t)count);
	return h;
}

struct writer {
	uint8_t *bytes;
	size_t bits;
};

static void put_bits(struct writer *w, uint32_t value, int count)
{
	for (int i = count - 1; i >= 0; i--, w->bits++)
		if (value >> i & 1)
			w->bytes[w->bits / 8] |= (uint8_t)(0x80 >> w->bits % 8);
}

static void put_symbol(struct writer *w, const struct stk_jpeg_huffman *h, uint8_t symbol)
{
	uint32_t code = 0;
	int at = 0;
	for (int n = 1; n <= 16; n++) {
		for (int i = 0; i < h->counts[n - 1]; i++, code++, at++)
			if (h->values[at] == symbol) {
				put_bits(w, code, n);
				return;
			}
		code <<= 1;
	}
	fail_msg("symbol %02x has no code", symbol);
}

static int size_of(int v)
{
	int size = 0;
	for (v = abs(v); v; v >>= 1)
		size++;
	return size;
}

static void put_value(struct writer *w, int v, int size)
{
	put_bits(w, (uint32_t)(v < 0 ? v + (1 << size) - 1 : v), size);
}

static const uint8_t zigzag[64] = {0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
	14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55,
	62, 63};

static int random_value(uint64_t *r, int most)
{
	int size = test_random_in(r, 1, most), v = test_random_in(r, 1 << (size - 1), (1 << size) - 1);
	return test_random(r) & 1 ? v : -v;
}

/* Draws a block and writes its codes. block: set to the coefficients in natural order; block[0] is the DC difference. */
static void put_random_block(struct writer *w, uint64_t *r, const struct stk_jpeg_huffman *dc, const struct stk_jpeg_huffman *ac,
	int density, int most, int16_t block[64])
{
	memset(block, 0, 64 * sizeof *block);
	block[0] = (int16_t)(test_random_in(r, 0, 3) ? random_value(r, STK_JPEG_MAX_DC_SIZE) : 0);
	put_symbol(w, dc, (uint8_t)size_of(block[0]));
	put_value(w, block[0], size_of(block[0]));
	int run = 0;
	for (int k = 1; k < 64; k++) {
		if (test_random_in(r, 0, 99) >= density) {
			run++;
			continue;
		}
		for (; run > 15; run -= 16)
			put_symbol(w, ac, 0xf0);
		int v = random_value(r, most);
		put_symbol(w, ac, (uint8_t)(run << 4 | size_of(v)));
		put_value(w, v, size_of(v));
		block[zigzag[k]] = (int16_t)v;
		run = 0;
	}
	if (run)
		put_symbol(w, ac, 0);
}

static int all_ac_symbols(uint8_t *symbols, int most)
{
	int n = 0;
	symbols[n++] = 0;
	symbols[n++] = 0xf0;
	for (int run = 0; run < 16; run++)
		for (int size = 1; size <= most; size++)
			symbols[n++] = (uint8_t)(run << 4 | size);
	return n;
}

static size_t bits_read(const struct stk_jpeg_bits *b, const uint8_t *bytes)
{
	return (size_t)(b->next - bytes) * 8 - b->count;
}

static void test_entropy_decoding(void **state)
{
	(void)state;
	enum { BLOCKS = 9, BYTES = 4 * STK_JPEG_MCU_BYTES };
	uint64_t r = test_seed();
	static struct stk_jpeg_ac_table ac;
	static struct stk_jpeg_dc_table dc;
	static uint8_t bytes[BYTES];
	static _Alignas(64) int16_t coefficients[(BLOCKS + 1) / 2 * STK_JPEG_PAIR];
	for (int n = 0; n < 1500; n++) {
		int most = test_random_in(&r, 1, 15), density = test_random_in(&r, 0, 100);
		uint8_t ac_symbols[256], dc_symbols[STK_JPEG_MAX_DC_SIZE + 1];
		for (int i = 0; i <= STK_JPEG_MAX_DC_SIZE; i++)
			dc_symbols[i] = (uint8_t)i;
		struct stk_jpeg_huffman dc_code = random_code(&r, dc_symbols, STK_JPEG_MAX_DC_SIZE + 1);
		struct stk_jpeg_huffman ac_code = random_code(&r, ac_symbols, all_ac_symbols(ac_symbols, most));
		assert_true(stk__jpeg_huffman_valid(&dc_code, true));
		assert_true(stk__jpeg_huffman_valid(&ac_code, false));
		stk__jpeg_ac_table_build(&ac, &ac_code);
		stk__jpeg_ac_table_build_skip(&ac, &ac_code);
		stk__jpeg_dc_table_build(&dc, &dc_code);
		memset(bytes, 0, sizeof bytes);
		struct writer w = {bytes, 0};
		int16_t want[BLOCKS][64];
		int32_t prediction[2], expected = 0;
		struct stk_jpeg_block blocks[BLOCKS];
		for (int b = 0; b < BLOCKS; b++) {
			put_random_block(&w, &r, &dc_code, &ac_code, b == 3 ? 0 : density, most, want[b]);
			expected += want[b][0];
			want[b][0] = (int16_t)expected;
			blocks[b] = (struct stk_jpeg_block){&dc, &ac, &prediction[0], (uint32_t)(b / 2 * STK_JPEG_PAIR + 8 * (b & 1))};
		}
		for (int level = 0; level < LEVELS; level++) {
			struct stk_jpeg_bits bits = {0, 0, bytes};
			prediction[0] = 0;
			memset(coefficients, 0, sizeof coefficients);
			int mask = kernels_of(level)->decode(&bits, blocks, BLOCKS, coefficients);
			assert_int_equal(bits_read(&bits, bytes), w.bits);
			for (int b = 0; b < BLOCKS; b++) {
				bool has_ac = false;
				for (int i = 0; i < 64; i++) {
					assert_int_equal(coefficients[blocks[b].at + kernels_of(level)->position_of[i]], want[b][i]);
					has_ac |= i && want[b][i];
				}
				if (has_ac && !(mask >> b & 1))
					fail_msg("block %d has coefficients that the mask denies", b);
			}
			bits = (struct stk_jpeg_bits){0, 0, bytes};
			prediction[0] = 0;
			assert_int_equal((kernels_of(level)->skip)(&bits, blocks, BLOCKS), 0);
			assert_int_equal(bits_read(&bits, bytes), w.bits);
			assert_int_equal(prediction[0], expected);
		}
	}
}

/* All versions must refuse invalid codes, and runs past a block's end. On random bits all versions must return the same results. */
static void test_entropy_decoding_of_noise(void **state)
{
	(void)state;
	enum { BLOCKS = 2, BYTES = 4 * STK_JPEG_MCU_BYTES };
	uint64_t r = test_seed() + 1;
	static struct stk_jpeg_ac_table ac;
	static struct stk_jpeg_dc_table dc;
	static uint8_t bytes[BYTES];
	static _Alignas(64) int16_t coefficients[LEVELS][BLOCKS / 2 * STK_JPEG_PAIR];
	int16_t natural[LEVELS][2][64];
	int refused = 0, taken = 0;
	for (int n = 0; n < 3000; n++) {
		uint8_t ac_symbols[256], dc_symbols[12];
		for (int i = 0; i < 12; i++)
			dc_symbols[i] = (uint8_t)i;
		struct stk_jpeg_huffman dc_code = random_code(&r, dc_symbols, 12),
					ac_code = random_code(&r, ac_symbols, all_ac_symbols(ac_symbols, 8));
		uint8_t *end = memchr(ac_code.values, 0, 256), first = ac_code.values[0]; /* gives the end-of-block symbol a short code */
		ac_code.values[0] = 0;
		*end = first;
		stk__jpeg_ac_table_build(&ac, &ac_code);
		stk__jpeg_ac_table_build_skip(&ac, &ac_code);
		stk__jpeg_dc_table_build(&dc, &dc_code);
		for (int i = 0; i < BYTES; i++)
			bytes[i] = (uint8_t)test_random(&r);
		int result[LEVELS];
		for (int level = 0; level < LEVELS; level++) {
			int32_t prediction = 0;
			struct stk_jpeg_block blocks[BLOCKS];
			for (int b = 0; b < BLOCKS; b++)
				blocks[b] = (struct stk_jpeg_block){&dc, &ac, &prediction, (uint32_t)(b / 2 * STK_JPEG_PAIR + 8 * (b & 1))};
			memset(coefficients[level], 0, sizeof coefficients[level]);
			struct stk_jpeg_bits bits = {0, 0, bytes}, passed = bits;
			result[level] = kernels_of(level)->decode(&bits, blocks, BLOCKS, coefficients[level]);
			prediction = 0;
			int skipped = (kernels_of(level)->skip)(&passed, blocks, BLOCKS);
			assert_int_equal(skipped < 0, result[level] < 0);
			if (!skipped)
				assert_int_equal(bits_read(&bits, bytes), bits_read(&passed, bytes));
		}
		assert_int_equal(result[0], result[1]);
		for (int level = 0; level < LEVELS; level++)
			take_out(level, coefficients[level], natural[level]);
		assert_memory_equal(natural[0], natural[1], sizeof natural[0]);
		refused += result[0] < 0;
		taken += result[0] >= 0;
	}
	assert_true(refused > 100 && taken > 100);
}

/* ---- inverse DCT ---- */

/* Returns sample (x, y) of the inverse DCT by the formula of A.3.3. */
static double idct_at(const double *c, int x, int y)
{
	double sum = 0;
	for (int v = 0; v < 8; v++)
		for (int u = 0; u < 8; u++)
			sum += (u ? 1 : M_SQRT1_2) * (v ? 1 : M_SQRT1_2) * c[8 * v + u] * cos((2 * x + 1) * u * M_PI / 16) *
			       cos((2 * y + 1) * v * M_PI / 16);
	return sum / 4 + 128;
}

/* Draws the coefficients and quantisation steps of two blocks, in natural order. */
static void random_pair(uint64_t *r, int16_t pair[2][64], int16_t quant[2][64])
{
	int kind = test_random_in(r, 0, 5), most = kind == 5 ? 32767 : kind == 4 ? 2047 : 60, density = test_random_in(r, 0, 100);
	int rows = test_random_in(r, 1, 8); /* rows from this one on are zero */
	for (int i = 0; i < 128; i++) {
		pair[i / 64][i % 64] = 0;
		quant[i / 64][i % 64] = (int16_t)(uint16_t)test_random_in(r, 1, kind == 5 ? 65535 : 6);
	}
	for (int b = 0; b < 2; b++)
		for (int i = 0; i < 8 * (b ? 8 : rows); i++)
			if (test_random_in(r, 0, 99) < density)
				pair[b][i] = (int16_t)test_random_in(r, -most, most);
}

static void test_idct(void **state)
{
	(void)state;
	uint64_t r = test_seed();
	static _Alignas(64) int16_t pair[STK_JPEG_PAIR], quant[128];
	int16_t natural[2][64], steps[2][64];
	double worst = 0;
	for (int n = 0; n < 20000; n++) {
		uint8_t samples[LEVELS][2][64];
		const ptrdiff_t stride[2] = {8, 8};
		random_pair(&r, natural, steps);
		for (int level = 0; level < LEVELS; level++) {
			uint8_t *const out[2] = {samples[level][0], samples[level][1]};
			lay_out(level, natural, pair);
			lay_out(level, steps, quant);
			kernels_of(level)->idct(pair, (const uint16_t *)quant, out, stride);
		}
		assert_memory_equal(samples[0], samples[1], sizeof samples[0]);
		if (n % 20)
			continue;
		double c[64];
		bool moderate = true;
		for (int i = 0; i < 64; i++) {
			c[i] = natural[1][i] * (double)(uint16_t)steps[1][i];
			moderate &= fabs(c[i]) < 400;
		}
		for (int i = 0; i < 64 && moderate; i++) {
			double want = idct_at(c, i % 8, i / 8), off = fabs(samples[0][1][i] - (want < 0 ? 0 : want > 255 ? 255 : want));
			worst = off > worst ? off : worst;
		}
	}
	assert_true(worst > 0 && worst < 1.1); /* differs from the formula by more than a half, because both passes of the kernel round */
}

/* Returns the mean of the inverse DCT over square (x, y) of side x side samples, before clamping. */
static double mean_at(const double *c, int x, int y, int side)
{
	double sum = 0;
	for (int i = 0; i < side * side; i++)
		sum += idct_at(c, x * side + i % side, y * side + i / side);
	return sum / (side * side);
}

static void test_small_idct_gives_means(void **state)
{
	(void)state;
	uint64_t r = test_seed();
	static _Alignas(64) int16_t pair[STK_JPEG_PAIR], quant[128];
	int16_t natural[2][64], steps[2][64];
	double worst = 0;
	for (int n = 0; n < 20000; n++) {
		uint8_t samples[LEVELS][2][16] = {0};
		int log = n % 3, size = 1 << log;
		const ptrdiff_t stride[2] = {4, 4};
		double c[64];
		bool moderate = n % 20 < 3;
		random_pair(&r, natural, steps);
		for (int i = 8; i < 64 && n % 7 == 0; i++) /* keeps only rows 0 and 4; a 4x4 inverse DCT does not use row 4 */
			if (i / 8 != 4)
				natural[0][i] = 0;
		for (int level = 0; level < LEVELS; level++) {
			uint8_t *const out[2] = {samples[level][0], samples[level][1]};
			lay_out(level, natural, pair);
			lay_out(level, steps, quant);
			kernels_of(level)->idct_small[log](pair, (const uint16_t *)quant, out, stride);
		}
		assert_memory_equal(samples[0], samples[1], sizeof samples[0]);
		for (int i = 0; i < 64; i++) {
			c[i] = natural[1][i] * (double)(uint16_t)steps[1][i];
			moderate &= fabs(c[i]) < 400;
		}
		for (int i = 0; i < size * size && moderate; i++) {
			double want = mean_at(c, i % size, i / size, 8 / size);
			double off = fabs(samples[0][1][i / size * 4 + i % size] - (want < 0 ? 0 : want > 255 ? 255 : want));
			worst = off > worst ? off : worst;
		}
	}
	assert_true(worst > 0 && worst < 1.1);
}

static void test_flat_idct_is_idct(void **state)
{
	(void)state;
	static _Alignas(64) int16_t pair[STK_JPEG_PAIR];
	static _Alignas(64) uint16_t quant[128];
	uint64_t r = test_seed();
	for (int n = 0; n < 3000; n++) {
		uint8_t samples[2][2][64];
		const ptrdiff_t stride[2] = {8, 8};
		for (int i = 0; i < 2; i++) {
			pair[8 * i] = (int16_t)test_random_in(&r, -3000, 3000);
			quant[8 * i] = (uint16_t)test_random_in(&r, 1, n % 2 ? 9 : 65535);
		}
		for (int i = 0; i < 2; i++) {
			uint8_t *const out[2] = {samples[i][0], samples[i][1]};
			(i ? kernels_of(n & 1)->idct_flat : kernels_of(n & 1)->idct)(pair, quant, out, stride);
		}
		assert_memory_equal(samples[0], samples[1], sizeof samples[0]);
	}
}

/* ---- upsampling and colour ---- */

enum { WIDTH = 300 };

static void random_row(uint64_t *r, uint8_t *row)
{
	for (int i = 0; i < WIDTH + 2 * STK_JPEG_ROW_PAD; i++)
		row[i] = (uint8_t)(test_random_in(r, 0, 4) ? test_random(r) : test_random(r) & 1 ? 255 : 0);
}

static void test_upsampling(void **state)
{
	(void)state;
	uint64_t r = test_seed();
	static uint8_t a[WIDTH + 2 * STK_JPEG_ROW_PAD], b[WIDTH + 2 * STK_JPEG_ROW_PAD], out[LEVELS][3][2 * WIDTH + STK_JPEG_ROW_PAD];
	for (int n = 1; n <= WIDTH; n++) {
		random_row(&r, a);
		random_row(&r, b);
		const uint8_t *near = a + STK_JPEG_ROW_PAD, *far = b + STK_JPEG_ROW_PAD;
		int bias = 1 + (n & 1);
		for (int level = 0; level < LEVELS; level++) {
			kernels_of(level)->upsample_h2v1(out[level][0], near, n);
			kernels_of(level)->upsample_h2v2(out[level][1], near, far, n);
			kernels_of(level)->upsample_h1v2(out[level][2], near, far, bias, n);
		}
		assert_memory_equal(out[0][0], out[1][0], 2 * (size_t)n);
		assert_memory_equal(out[0][1], out[1][1], 2 * (size_t)n);
		assert_memory_equal(out[0][2], out[1][2], (size_t)n);
		for (int i = 0; i < 2 * n; i++) {
			int s = i / 2, t = i & 1 ? s + 1 : s - 1;
			double across = .75 * near[s] + .25 * near[t], other = .75 * far[s] + .25 * far[t];
			assert_true(fabs(out[0][0][i] - across) <= .75);
			assert_true(fabs(out[0][1][i] - (.75 * across + .25 * other)) <= .5625);
		}
	}
}

static void test_colour_of_all_chroma(void **state)
{
	(void)state;
	static uint8_t y[256 + 64], cb[256 + 64], cr[256 + 64], out[LEVELS][3 * 256];
	static const int lumas[] = {0, 1, 77, 128, 200, 255};
	for (int l = 0; l < 6; l++)
		for (int blue = 0; blue < 256; blue++) {
			for (int red = 0; red < 256; red++) {
				y[red] = (uint8_t)lumas[l];
				cb[red] = (uint8_t)blue;
				cr[red] = (uint8_t)red;
			}
			for (int level = 0; level < LEVELS; level++)
				kernels_of(level)->ycc_to_rgb(out[level], y, cb, cr, 256, false);
			assert_memory_equal(out[0], out[1], sizeof out[0]);
			for (int red = 0; red < 256; red++) {
				double b = blue - 128, r = red - 128,
				       want[3] = {lumas[l] + 1.402 * r, lumas[l] - .34414 * b - .71414 * r, lumas[l] + 1.772 * b};
				for (int k = 0; k < 3; k++) {
					double v = want[k] < 0 ? 0 : want[k] > 255 ? 255 : want[k];
					assert_true(fabs(out[0][3 * red + k] - v) <= .51);
				}
			}
		}
}

/* The kernels for a row of n pixels must not write past the row. */
static void test_rows_end_where_they_should(void **state)
{
	(void)state;
	uint64_t r = test_seed();
	static uint8_t plane[3][WIDTH + 2 * STK_JPEG_ROW_PAD], out[3 * WIDTH + 128], want[3 * WIDTH];
	for (int n = 1; n <= WIDTH; n++) {
		for (int i = 0; i < 3; i++)
			random_row(&r, plane[i]);
		for (int level = 0; level < LEVELS; level++)
			for (int kind = 0; kind < 3; kind++) {
				memset(out, 0x5a, sizeof out);
				if (kind < 2) {
					kernels_of(0)->ycc_to_rgb(want, plane[0], plane[1], plane[2], n, kind);
					kernels_of(level)->ycc_to_rgb(out, plane[0], plane[1], plane[2], n, kind);
				} else {
					kernels_of(level)->interleave(out, plane[0], plane[1], plane[2], n);
					for (int i = 0; i < 3 * n; i++)
						want[i] = plane[i % 3][i / 3];
				}
				assert_memory_equal(out, want, 3 * (size_t)n);
				for (int i = 0; i < 100; i++)
					assert_int_equal(out[3 * n + i], 0x5a);
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unstuffing),
		cmocka_unit_test(test_entropy_decoding),
		cmocka_unit_test(test_entropy_decoding_of_noise),
		cmocka_unit_test(test_idct),
		cmocka_unit_test(test_small_idct_gives_means),
		cmocka_unit_test(test_flat_idct_is_idct),
		cmocka_unit_test(test_upsampling),
		cmocka_unit_test(test_colour_of_all_chroma),
		cmocka_unit_test(test_rows_end_where_they_should),
	};
	stk__jpeg_kernels_init(&kernels[0], 0);
	stk__jpeg_kernels_init(&kernels[1], stk__cpu_capabilities());
	return cmocka_run_group_tests_name("jpeg_kernels", tests, NULL, NULL);
}
