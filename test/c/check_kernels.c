/* SPDX-License-Identifier: Apache-2.0
 * Compares every SIMD kernel of passes with its plain C version: the results must have the same bits over random shapes, and a kernel must only write what
 * its contract allows. With --bench [NAME] this measures the time of both instead, on one typical shape each. */
#include "base/cpu.h"
#include "kernel/pass/pass.h"
#include "kernel/pass/pass_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IN_BYTES = 1 << 20, OUT_BYTES = 1 << 20, MARGIN = 64, ROUNDS = 300 };

/* The input and output of a case's function. The function draws a shape from `seed`, or uses a large typical one if `bench` is set. It runs one kernel of `k`
 * on `in`, and sets the bytes after the result that the kernel may overwrite to 0. Then the bytes of `out` and of its margins must not depend on `k`. */
struct job {
	const struct stk_pass_kernels *k;
	uint64_t seed;
	bool bench;
	const uint8_t *in;   /* random bytes */
	const float *floats; /* random values, including halves, very large values and NaNs */
	/* Random small values without NaNs, for kernels that may add several NaNs: the sign of such a sum is not defined. */
	const float *numbers;
	uint8_t *out;
};

static uint32_t next(struct job *j)
{
	j->seed = j->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(j->seed >> 33);
}

static int32_t between(struct job *j, int32_t low, int32_t high, int32_t typical)
{
	int32_t x = low + (int32_t)(next(j) % (uint32_t)(high - low + 1));
	return j->bench ? typical : x;
}

static void vertical(struct job *j, enum stk_resample_kind kind, bool from_bytes, int32_t most_taps)
{
	ptrdiff_t element = kind == STK_RESAMPLE_FLOAT && !from_bytes ? 4 : 1;
	struct stk_vertical v = {.n = between(j, 1, most_taps, 3),
		.width = between(j, 1, 70, 300),
		.channels = between(j, 1, 4, 3),
		.shift = 14,
		.bias = (uint16_t)between(j, 0, 9, 1)};
	int layout = between(j, 0, 2, 0); /* the layout of the pixels: interleaved, planar, or other strides */
	v.channel = layout == 1 ? 400 * element : element;
	v.pixel = layout == 1 ? element : element * (v.channels + (layout == 2));
	ptrdiff_t row = 1200 * element;
	v.tap = between(j, 0, 1, 1) ? row : -row;
	v.src = j->in + (v.tap < 0 ? row * v.n : 0);
	if (element == 4)
		v.src = (const uint8_t *)j->numbers + 256 + (v.tap < 0 ? row * v.n : 0);
	for (int r = 0; r < STK_BLOCK_ROWS; r++)
		v.row[r] = row * between(j, 0, 20, r);
	static uint16_t weights[STK_BLOCK_ROWS * 64];
	static float float_weights[STK_BLOCK_ROWS * 64];
	for (int32_t i = 0; i < STK_BLOCK_ROWS * v.n; i++) {
		uint32_t most = kind == STK_NARROW ? 65536u / (uint32_t)v.n : 16384;
		weights[i] = (uint16_t)(next(j) % most - (kind == STK_WIDE ? most / 2 : 0));
		float_weights[i] = (float)(next(j) % 1000) / 1000 - 0.2f;
	}
	v.weights = kind == STK_RESAMPLE_FLOAT ? (const void *)float_weights : weights;
	if (kind == STK_RESAMPLE_FLOAT && from_bytes)
		j->k->resample.vertical_u8_float(&v, j->out);
	else
		j->k->resample.vertical[kind](&v, j->out);
	size_t column = STK_BLOCK_ROWS * (kind == STK_RESAMPLE_FLOAT ? 4 : 2) * (size_t)v.channels;
	memset(j->out + column * (size_t)v.width, 0, column * STK_COLUMN_GROUP);
}

static void vertical_narrow(struct job *j)
{
	vertical(j, STK_NARROW, true, 40);
}

static void vertical_wide(struct job *j)
{
	vertical(j, STK_WIDE, true, 30);
}

static void vertical_float(struct job *j)
{
	vertical(j, STK_RESAMPLE_FLOAT, false, 20);
}

static void vertical_u8_float(struct job *j)
{
	vertical(j, STK_RESAMPLE_FLOAT, true, 20);
}

static void horizontal(struct job *j, enum stk_resample_kind kind, int32_t most_taps)
{
	struct stk_horizontal h = {.n = between(j, 1, most_taps, 3),
		.count = between(j, 1, 70, 112),
		.channels = between(j, 1, 6, 3),
		.shift = 14,
		.origin = between(j, 0, 9, 0),
		.step = between(j, 0, 1, 1) ? 1 : -1,
		.row = 256,
		.plane = 256 * STK_BLOCK_ROWS,
		.dst = j->out,
		.block = j->numbers};
	static int32_t first[256];
	static uint16_t weights[256 * 64];
	static float float_weights[256 * 64];
	int32_t whole = (h.count + 15) / 16 * 16;
	for (int32_t x = 0; x < whole; x++)
		first[x] = h.origin + (h.step < 0 ? h.n - 1 : 0) + between(j, 0, 90, x * 4 / 3);
	for (int32_t i = 0; i < whole * h.n; i++) {
		weights[i] = (uint16_t)(next(j) % ((kind == STK_NARROW ? 65536u : 40000) / (uint32_t)h.n) -
					(kind == STK_WIDE ? 16000 / (uint32_t)h.n : 0));
		float_weights[i] = (float)(next(j) % 1000) / 1000 - 0.2f;
	}
	static int16_t block[200 * 6 * STK_BLOCK_ROWS] __attribute__((aligned(64)));
	if (kind != STK_RESAMPLE_FLOAT) { /* limits intermediate values to those that a vertical kernel can produce */
		for (size_t i = 0; i < sizeof block / sizeof *block; i++)
			block[i] = (int16_t)(kind == STK_NARROW ? j->in[i] * 254 : (j->in[i] - 60) * 100);
		h.block = block;
	}
	h.first = first;
	h.weights = kind == STK_RESAMPLE_FLOAT ? (const void *)float_weights : weights;
	j->k->resample.horizontal[kind](&h);
	size_t element = kind == STK_RESAMPLE_FLOAT ? 4 : 1;
	for (int32_t c = 0; c < h.channels; c++)
		for (int r = 0; r < STK_BLOCK_ROWS; r++)
			memset(j->out + (size_t)(c * h.plane + r * h.row + h.count) * element, 0, (size_t)(whole - h.count) * element);
}

static void horizontal_narrow(struct job *j)
{
	horizontal(j, STK_NARROW, 40);
}

static void horizontal_wide(struct job *j)
{
	horizontal(j, STK_WIDE, 30);
}

static void horizontal_float(struct job *j)
{
	horizontal(j, STK_RESAMPLE_FLOAT, 20);
}

static void load_u8(struct job *j)
{
	struct stk_image src =
		stk__image_hwc((void *)(uintptr_t)j->in, STK_UINT8, between(j, 1, 100, 224), between(j, 1, 16, 16), between(j, 1, 4, 3));
	if (between(j, 0, 2, 2) == 0)
		src = stk__image_chw(src.data, STK_UINT8, src.width, src.height, src.channels);
	else if (between(j, 0, 5, 5) == 0)
		src.pixel += 1, src.row *= 2;
	j->k->rows.load_u8(j->out, 256, 256 * 16, &src, between(j, 0, 1, 1));
}

static void affine_u8(struct job *j, int kernel)
{
	struct stk_affine a;
	for (int i = 0; i < STK_AFFINE_PERIOD; i++) {
		a.scale[i] = (float)(next(j) % 2000) / 500 - 1;
		a.bias[i] = (float)(next(j) % 2000) / 10 - 100;
		if (next(j) % 100 == 0)
			a.bias[i] = j->floats[next(j) % 64];
	}
	int32_t n = between(j, 1, 100, 224), rows = between(j, 1, 5, 16);
	ptrdiff_t pitch = (ptrdiff_t)n * (kernel ? 2 : 4) + 8 * between(j, 0, 3, 0);
	bool stream = between(j, 0, 1, 0);
	if (stream && between(j, 0, 1, 0))
		pitch = (pitch + 31) & -32;
	j->k->rows.affine_u8[kernel](j->out, pitch, j->in, 300, n, rows, &a, stream);
}

static void affine_u8_float(struct job *j)
{
	affine_u8(j, 0);
}

static void affine_u8_half(struct job *j)
{
	affine_u8(j, 1);
}

static void affine_u8_bfloat(struct job *j)
{
	affine_u8(j, 2);
}

static void affine_u8_byte(struct job *j)
{
	affine_u8(j, 3);
}

static void interleave(struct job *j)
{
	j->k->rows.interleave(j->out, j->in, 400, between(j, 1, 100, 224), between(j, 1, 5, 3), (size_t)1 << between(j, 0, 2, 0));
}

static void widen_u8(struct job *j)
{
	j->k->rows.widen_u8((float *)(void *)j->out, j->in, between(j, 1, 100, 224));
}

/* Fills three rows of 256 floats, for a kernel that works in place. */
static float *rows_of_floats(struct job *j)
{
	memcpy(j->out, j->floats + next(j) % 4096, 3 * 256 * sizeof(float));
	return (float *)(void *)j->out;
}

static void affine(struct job *j)
{
	j->k->rows.affine(rows_of_floats(j), between(j, 1, 100, 224), 1.7f, -3.1f);
}

static void matrix(struct job *j)
{
	float *rows = rows_of_floats(j);
	j->k->rows.matrix(rows, rows + 256, rows + 512, between(j, 1, 100, 224), j->floats + 64, j->floats + 80);
}

static void gray(struct job *j)
{
	float *rows = rows_of_floats(j);
	const float w[3] = {0.299f, 0.587f, 0.114f};
	j->k->rows.gray(rows, rows + 256, rows + 512, between(j, 1, 100, 224), w);
}

static const enum stk_dtype types[] = {
	STK_UINT8, STK_INT8, STK_UINT16, STK_INT16, STK_INT32, STK_FLOAT16, STK_BFLOAT16, STK_FLOAT, STK_BOOL};

static void round_and_store(struct job *j)
{
	float *row = rows_of_floats(j);
	int32_t n = between(j, 1, 250, 224);
	enum stk_dtype dtype = types[between(j, 0, 7, 0)];
	j->k->rows.round(row, n, dtype);
	j->k->rows.store(j->out + 8192, row, n, dtype);
}

static void warp_row(struct job *j)
{
	struct stk_warp_row w = {.m = {0.9f, 0.2f, -3, -0.1f, 0.8f, 4},
		.first = between(j, 0, 20, 0),
		.step = between(j, 0, 1, 1) ? 1 : -1,
		.y = between(j, 0, 60, 100),
		.n = between(j, 1, 100, 224),
		.linear = between(j, 0, 1, 1),
		.clamp = between(j, 0, 1, 0),
		.fill = 42,
		.dst = (float *)(void *)j->out,
		.plane = 256};
	w.src = stk__image_hwc(
		(void *)(uintptr_t)(j->in + 1024), STK_UINT8, between(j, 1, 90, 224), between(j, 1, 90, 224), between(j, 1, 5, 3));
	if (!j->bench)
		for (int i = 0; i < 6; i++)
			w.m[i] += (float)(next(j) % 2000) / 1000 - 1;
	if (between(j, 0, 30, 1) == 0)
		w.m[next(j) % 6] = j->floats[next(j) % 64]; /* may be NaN, or lead far outside of the image */
	j->k->warp.row(&w);
}

static const struct {
	const char *name;
	void (*run)(struct job *j);
} cases[] = {
#define CASE(name)                                                                                                                         \
	{                                                                                                                                  \
#name, name                                                                                                                \
	}
	CASE(vertical_narrow),
	CASE(vertical_wide),
	CASE(vertical_float),
	CASE(vertical_u8_float),
	CASE(horizontal_narrow),
	CASE(horizontal_wide),
	CASE(horizontal_float),
	CASE(load_u8),
	CASE(affine_u8_float),
	CASE(affine_u8_half),
	CASE(affine_u8_bfloat),
	CASE(affine_u8_byte),
	CASE(interleave),
	CASE(widen_u8),
	CASE(affine),
	CASE(matrix),
	CASE(gray),
	CASE(round_and_store),
	CASE(warp_row),
#undef CASE
};

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Prints the shortest of 20 measurements of each version, and their ratio. */
static void bench(size_t which, struct job job, const struct stk_pass_kernels *const kernels[2])
{
	double best[2] = {1e9, 1e9};
	job.bench = true;
	for (int slice = 0; slice < 20; slice++)
		for (int t = 0; t < 2; t++) {
			job.k = kernels[t];
			double start = cpu_seconds();
			for (int i = 0; i < 20; i++) {
				job.seed = 1;
				cases[which].run(&job);
			}
			double taken = (cpu_seconds() - start) / 20;
			best[t] = taken < best[t] ? taken : best[t];
		}
	printf("%-20s %9.2f us  %9.2f us  %5.1f times\n", cases[which].name, best[0] * 1e6, best[1] * 1e6, best[0] / best[1]);
}

static bool check(size_t which, struct job job, const struct stk_pass_kernels *const kernels[2], uint8_t *out[2])
{
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		for (int t = 0; t < 2; t++) {
			memset(out[t], 0xa5, OUT_BYTES);
			job.k = kernels[t];
			job.seed = seed;
			job.out = out[t] + MARGIN;
			cases[which].run(&job);
		}
		for (size_t i = 0; i < OUT_BYTES; i++)
			if (out[0][i] != out[1][i]) {
				printf("%s: seed %d: byte %zd is %02x in C, %02x in SIMD\n", cases[which].name, (int)seed,
					(ptrdiff_t)i - MARGIN, out[0][i], out[1][i]);
				return false;
			}
	}
	return true;
}

int main(int argc, char **argv)
{
	struct stk_pass_kernels plain = stk__pass_kernels(0), fast = stk__pass_kernels(stk__cpu_capabilities());
	const struct stk_pass_kernels *const kernels[2] = {&plain, &fast};
	if (!stk__cpu_capabilities()) {
		puts("this processor has no SIMD kernels here: nothing to compare");
		return 77; /* skipped */
	}
	static const float special[] = {0.5f, -0.5f, 1.5f, 2.5f, 254.5f, 255.5f, 1e30f, -1e30f, 0x1p-25f, 65519.0f, 65520.0f, 1e-40f, -0.0f,
		INFINITY, -INFINITY, NAN};
	uint8_t *in = aligned_alloc(64, IN_BYTES), *out[2] = {aligned_alloc(64, OUT_BYTES), aligned_alloc(64, OUT_BYTES)};
	float *floats = aligned_alloc(64, IN_BYTES);
	float *numbers = aligned_alloc(64, IN_BYTES);
	struct job job = {.seed = 42, .in = in, .floats = floats, .numbers = numbers, .out = out[0] + MARGIN};
	for (size_t i = 0; i < IN_BYTES; i++)
		in[i] = (uint8_t)next(&job);
	for (size_t i = 0; i < IN_BYTES / sizeof(float); i++)
		numbers[i] = (float)(next(&job) % 100000) / 200 - 120;
	for (size_t i = 0; i < IN_BYTES / sizeof(float); i++)
		floats[i] = next(&job) % 16 ? (float)(next(&job) % 100000) / 200 - 120
					    : special[next(&job) % (sizeof special / sizeof *special)];
	const char *only = argc > 2 ? argv[2] : NULL;
	int failed = 0;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (only && strcmp(only, cases[i].name) != 0)
			continue;
		if (argc > 1 && strcmp(argv[1], "--bench") == 0)
			bench(i, job, kernels);
		else
			failed += !check(i, job, kernels, out);
	}
	if (!failed && argc == 1)
		printf("%zu kernels agree\n", sizeof cases / sizeof *cases);
	free(in);
	free(floats);
	free(numbers);
	free(out[0]);
	free(out[1]);
	return failed != 0;
}
