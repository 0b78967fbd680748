/* SPDX-License-Identifier: Apache-2.0
 * N-dimensional copies and conversions, compared with a computation element by element. */
#include "test.h"

#include "kernel/convert/convert.h"
#include "kernel/convert/half.h"
#include "kernel/copy/copy.h"
#include "kernel/job/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed;

static uint32_t next(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

static int64_t between(int64_t low, int64_t high)
{
	return low + next() % (high - low + 1);
}

static void one_copy(void)
{
	int ndim = (int)between(0, 5), order[STK_MAX_DIMS];
	enum stk_dtype dtype = (enum stk_dtype[]){STK_UINT8, STK_FLOAT16, STK_INT32, STK_FLOAT64}[next() % 4];
	size_t element = stk_dtype_size(dtype);
	int64_t shape[STK_MAX_DIMS], start[STK_MAX_DIMS], step[STK_MAX_DIMS], size[STK_MAX_DIMS], in = 1, out = 1;
	for (int d = 0; d < ndim; d++) {
		shape[d] = between(1, 6);
		order[d] = d;
		in *= shape[d];
	}
	for (int d = ndim - 1; d > 0; d--) {
		int other = (int)between(0, d), kept = order[d];
		order[d] = order[other];
		order[other] = kept;
	}
	bool outside = next() % 2;
	for (int d = 0; d < ndim; d++) {
		int64_t limit = shape[order[d]];
		if (outside) {
			step[d] = between(-2, 2);
			start[d] = between(-3, limit + 2);
			size[d] = between(0, 9) ? between(1, 7) : 0;
		} else { /* dimensions that are taken whole, forwards or backwards, so that the copy can join them */
			step[d] = next() % 3 ? 1 : -1;
			start[d] = step[d] > 0 ? 0 : limit - 1;
			size[d] = limit;
		}
		out *= size[d];
	}
	uint8_t *src = malloc((size_t)in * element + 1), *dst = malloc((size_t)out * element + 64), fill[8];
	for (size_t i = 0; i < (size_t)in * element; i++)
		src[i] = (uint8_t)next();
	for (int i = 0; i < 8; i++)
		fill[i] = (uint8_t)(element == 4 ? 7 : next());
	memset(dst, 0xab, (size_t)out * element + 64);
	struct stk_copy_dim dims[STK_MAX_DIMS];
	struct stk_tensor in_tensor = {src, {.dtype = dtype}}, out_tensor = {dst + 32, {.dtype = dtype}};
	struct stk_jobs cores = {0};
	stk__copy_dims(dims, ndim, shape, order, start, step, size);
	assert_int_equal(stk__job_copy(&cores, &in_tensor, &out_tensor, dims, ndim, outside ? fill : NULL, false, NULL), STK_OK);
	for (int64_t at = 0; at < out; at++) {
		int64_t rest = at, index[STK_MAX_DIMS] = {0}, from = 0;
		bool inside = true;
		for (int d = ndim - 1; d >= 0; d--) {
			int64_t s = start[d] + step[d] * (rest % size[d]);
			rest /= size[d];
			inside = inside && s >= 0 && s < shape[order[d]];
			index[order[d]] = s;
		}
		for (int d = 0; d < ndim; d++)
			from = from * shape[d] + index[d];
		assert_memory_equal(dst + 32 + (size_t)at * element, inside ? src + (size_t)from * element : fill, element);
	}
	for (int i = 0; i < 32; i++) {
		assert_int_equal(dst[i], 0xab);
		assert_int_equal(dst[32 + (size_t)out * element + (size_t)i], 0xab);
	}
	free(src);
	free(dst);
}

static void test_copies_equal_the_definition(void **state)
{
	(void)state;
	for (int i = 0; i < 3000; i++) {
		seed = (uint64_t)i + 1;
		if (i % 500 == 0)
			print_message("copy seed %d\n", i + 1);
		one_copy();
	}
}

/* Tests all bit patterns: conversion to float32 and back is the identity, and rounding is correct near the midpoints between neighbours. */
static void test_half_round_trips(void **state)
{
	(void)state;
	for (uint32_t h = 0; h < 65536; h++) {
		float f = stk__half_to_float((uint16_t)h), b = stk__bfloat_to_float((uint16_t)h);
		uint16_t back_f = stk__float_to_half(f), back_b = stk__float_to_bfloat(b);
		assert_int_equal(back_f, f == f ? h : (h | 0x200));
		assert_int_equal(back_b, b == b ? h : (h | 0x40));
		if ((h & 0x7fff) >= 0x7bff)
			continue;
		/* between h and its neighbour: just below the middle, the middle itself, which rounds to even, and just above it */
		float g = stk__half_to_float((uint16_t)(h + 1)), middle = (f + g) / 2;
		assert_int_equal(stk__float_to_half(nextafterf(middle, f)), h);
		assert_int_equal(stk__float_to_half(nextafterf(middle, g)), h + 1);
		assert_int_equal(stk__float_to_half(middle), h & 1 ? h + 1 : h);
	}
	assert_int_equal(stk__float_to_half(65519.9f), 0x7bff);
	assert_int_equal(stk__float_to_half(65520.0f), 0x7c00);
	assert_int_equal(stk__float_to_bfloat(stk__bits_float(0x3f808000)), 0x3f80);
	assert_int_equal(stk__float_to_bfloat(stk__bits_float(0x3f818000)), 0x3f82);
	assert_int_equal(stk__float_to_bfloat(stk__bits_float(0x7f7fffff)), 0x7f80);
}

struct limits {
	enum stk_dtype dtype;
	long double low, high;
};

static const struct limits integers[] = {{STK_UINT8, 0, UINT8_MAX}, {STK_INT8, INT8_MIN, INT8_MAX}, {STK_UINT16, 0, UINT16_MAX},
	{STK_INT16, INT16_MIN, INT16_MAX}, {STK_UINT32, 0, UINT32_MAX}, {STK_INT32, INT32_MIN, INT32_MAX}, {STK_UINT64, 0, UINT64_MAX},
	{STK_INT64, INT64_MIN, INT64_MAX}};

static long double value_of(const void *p, enum stk_dtype dtype)
{
	switch (dtype) {
	case STK_UINT8:
		return *(const uint8_t *)p;
	case STK_BOOL:
		return *(const uint8_t *)p != 0;
	case STK_INT8:
		return *(const int8_t *)p;
	case STK_UINT16:
		return *(const uint16_t *)p;
	case STK_INT16:
		return *(const int16_t *)p;
	case STK_UINT32:
		return *(const uint32_t *)p;
	case STK_INT32:
		return *(const int32_t *)p;
	case STK_UINT64:
		return *(const uint64_t *)p;
	case STK_INT64:
		return *(const int64_t *)p;
	case STK_FLOAT16:
		return stk__half_to_float(*(const uint16_t *)p);
	case STK_BFLOAT16:
		return stk__bfloat_to_float(*(const uint16_t *)p);
	case STK_FLOAT:
		return *(const float *)p;
	default:
		return *(const double *)p;
	}
}

/* Returns whether the value at p is x converted to dtype. long double represents all values of every type; roundl rounds halves away from zero. */
static bool converted(long double x, const void *p, enum stk_dtype dtype)
{
	for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
		if (integers[i].dtype == dtype) {
			long double want = x != x ? 0 : roundl(x);
			want = want < integers[i].low ? integers[i].low : want > integers[i].high ? integers[i].high : want;
			return value_of(p, dtype) == want;
		}
	long double got = value_of(p, dtype);
	if (dtype == STK_BOOL)
		return *(const uint8_t *)p == (fabsl(x) >= 0.5L);
	if (x != x)
		return got != got;
	if (dtype == STK_FLOAT16)
		return *(const uint16_t *)p == stk__float_to_half((float)x);
	if (dtype == STK_BFLOAT16)
		return *(const uint16_t *)p == stk__float_to_bfloat((float)x);
	return dtype == STK_FLOAT ? got == (float)x : got == (double)x;
}

static void test_all_pairs_convert(void **state)
{
	(void)state;
	static const double special[] = {0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 0.49999997, 0.49999999999999994, 127.5, 128, 254.5,
		255.5, 256, -128.5, 65535.5, 32767.5, 2147483647.5, 4294967295.5, 9223372036854775807.0, 18446744073709551615.0, 1e30,
		-1e30, 9007199254740993.0, INFINITY, -INFINITY, NAN};
	enum { N = 600, SPECIAL = sizeof special / sizeof *special };
	static uint64_t src[N], dst[N + 2];
	for (int from = 0; from < STK_DTYPE_COUNT; from++)
		for (int to = 0; to < STK_DTYPE_COUNT; to++) {
			seed = (uint64_t)(from * 100 + to);
			size_t a = stk_dtype_size((enum stk_dtype)from), b = stk_dtype_size((enum stk_dtype)to);
			for (size_t i = 0; i < N * a; i++)
				((uint8_t *)src)[i] = (uint8_t)next();
			for (int i = 0; i < SPECIAL; i++) {
				if (from == STK_FLOAT64)
					((double *)src)[i] = special[i];
				if (from == STK_FLOAT)
					((float *)src)[i] = (float)special[i];
				if (from == STK_FLOAT16)
					((uint16_t *)src)[i] = stk__float_to_half((float)special[i]);
			}
			memset(dst, 0xcd, sizeof dst);
			stk__convert(dst, (enum stk_dtype)to, src, (enum stk_dtype)from, N);
			for (size_t i = 0; i < N; i++) {
				const uint8_t *in = (const uint8_t *)src + i * a, *out = (const uint8_t *)dst + i * b;
				if (from == to && from != STK_BOOL)
					assert_memory_equal(in, out, a);
				else if (!converted(value_of(in, (enum stk_dtype)from), out, (enum stk_dtype)to))
					fail_msg("%s to %s: %Lg gives %Lg", stk_dtype_name((enum stk_dtype)from),
						stk_dtype_name((enum stk_dtype)to), value_of(in, (enum stk_dtype)from),
						value_of(out, (enum stk_dtype)to));
			}
			assert_int_equal(((uint8_t *)dst)[N * b], 0xcd);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies_equal_the_definition),
		cmocka_unit_test(test_half_round_trips),
		cmocka_unit_test(test_all_pairs_convert),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
