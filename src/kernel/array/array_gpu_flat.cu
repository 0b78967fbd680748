/* SPDX-License-Identifier: Apache-2.0
 * Flat jobs (array_flat.h): a thread loads what an aligned piece of outputs is made of, as widely as it lies, and stores the piece at once. */
#include "kernel/array/array_element.h"
#include "kernel/array/array_gpu_find.cuh"

#include <string.h>

#define THREADS STK_ARRAY_GPU_THREADS
#define PIECE STK_ARRAY_FLAT_PIECE

/* N elements of T that lie behind each other; in one load where they are aligned as a whole. */
template <typename T, int N> static __device__ __forceinline__ void load_row(const uint8_t *at, T *v)
{
	enum { BYTES = N * sizeof(T), STEP = BYTES < PIECE ? (int)BYTES : PIECE };
	if ((uintptr_t)at % STEP) {
#pragma unroll
		for (int k = 0; k < N; k++)
			v[k] = ((const T *)at)[k];
		return;
	}
#pragma unroll
	for (int k = 0; k < BYTES; k += STEP) {
		if (STEP == 16) {
			uint4 w = *(const uint4 *)(at + k);
			memcpy((uint8_t *)v + k, &w, 16);
		} else if (STEP == 8) {
			uint2 w = *(const uint2 *)(at + k);
			memcpy((uint8_t *)v + k, &w, 8);
		} else {
			uint32_t w = *(const uint32_t *)(at + k);
			memcpy((uint8_t *)v + k, &w, 4);
		}
	}
}

struct half_bits {
	uint16_t v;
};
struct bfloat_bits {
	uint16_t v;
};
template <typename To, typename T> static __device__ __forceinline__ To value_of(T x)
{
	return (To)x;
}
template <> __device__ __forceinline__ float value_of<float, half_bits>(half_bits x)
{
	return stk__half_to_float(x.v);
}
template <> __device__ __forceinline__ float value_of<float, bfloat_bits>(bfloat_bits x)
{
	return stk__bfloat_to_float(x.v);
}

/* A source of a job: what of it each output reads. */
struct source {
	const uint8_t *data;
	stk_array_repeat repeat;
	bool dense; /* output i reads element i */
};

template <typename T> static __device__ __forceinline__ source source_of(const stk_array_gpu_item &it, int k)
{
	const stk_array_repeat &r = it.flat.of[k];
	source s = {it.job.src[k], r, r.inner == 1 && r.step == (int32_t)sizeof(T) && r.size >= (uint64_t)it.job.n};
	return s;
}

/* What outputs first .. first + N - 1 read; those from `end` on read nothing. */
template <typename To, typename T, int N>
static __device__ __forceinline__ void load_as(const stk_array_gpu_item &it, int k, uint32_t first, uint32_t end, To *v)
{
	source s = source_of<T>(it, k);
	if (s.dense && first + N <= end) {
		T row[N];
		load_row<T, N>(s.data + (int64_t)first * (int64_t)sizeof(T), row);
#pragma unroll
		for (int j = 0; j < N; j++)
			v[j] = value_of<To, T>(row[j]);
		return;
	}
	uint32_t whole = first / s.repeat.inner, rest = first - whole * s.repeat.inner, at = whole % s.repeat.size;
#pragma unroll
	for (int j = 0; j < N; j++) {
		if (first + (uint32_t)j < end)
			v[j] = value_of<To, T>(*(const T *)(s.data + (int64_t)at * s.repeat.step));
		bool next = ++rest == s.repeat.inner;
		rest = next ? 0 : rest;
		at += next;
		at = at == s.repeat.size ? 0 : at;
	}
}

template <typename To, int N>
static __device__ __forceinline__ void load_whole(const stk_array_gpu_item &it, int k, uint32_t first, uint32_t end, To *v)
{
	switch (it.job.src_dtype[k]) {
	case STK_UINT8:
		return load_as<To, uint8_t, N>(it, k, first, end, v);
	case STK_INT8:
		return load_as<To, int8_t, N>(it, k, first, end, v);
	case STK_UINT16:
		return load_as<To, uint16_t, N>(it, k, first, end, v);
	case STK_INT16:
		return load_as<To, int16_t, N>(it, k, first, end, v);
	case STK_UINT32:
		return load_as<To, uint32_t, N>(it, k, first, end, v);
	default:
		return load_as<To, int32_t, N>(it, k, first, end, v);
	}
}

template <int N>
static __device__ __forceinline__ void load_floats(const stk_array_gpu_item &it, int k, uint32_t first, uint32_t end, float *v)
{
	switch (it.job.src_dtype[k]) {
	case STK_FLOAT:
		return load_as<float, float, N>(it, k, first, end, v);
	case STK_FLOAT16:
		return load_as<float, half_bits, N>(it, k, first, end, v);
	case STK_BFLOAT16:
		return load_as<float, bfloat_bits, N>(it, k, first, end, v);
	default:
		return load_whole<float, N>(it, k, first, end, v);
	}
}

/* A piece that is whole is aligned. */
template <typename T, int N>
static __device__ __forceinline__ void store_row(const stk_array_gpu_item &it, uint32_t first, uint32_t end, const T *v)
{
	T *to = (T *)it.job.dst + first;
	if (first + N <= end) {
		uint4 w;
		memcpy(&w, v, PIECE);
		*(uint4 *)to = w;
		return;
	}
#pragma unroll
	for (int j = 0; j < N; j++)
		if (first + (uint32_t)j < end)
			to[j] = v[j];
}

static __device__ __forceinline__ float nearest(float x, float low, float high)
{
	x = x == x ? x : 0;
	x = x > low ? x : low;
	x = x < high ? x : high;
	float whole = (float)(int32_t)x, part = x - whole;
	return part >= 0.5f ? whole + 1 : part <= -0.5f ? whole - 1 : whole;
}

/* Stores floats as the output's type, one of those of T's size. */
template <typename T, int N>
static __device__ __forceinline__ void store_floats(const stk_array_gpu_item &it, uint32_t first, uint32_t end, const float *v)
{
	T to[N];
	int32_t dtype = it.job.dst_dtype;
#pragma unroll
	for (int j = 0; j < N; j++) {
		if (sizeof(T) == sizeof(float))
			memcpy(&to[j], &v[j], sizeof to[j]);
		else if (dtype == STK_FLOAT16)
			to[j] = (T)(v[j] == v[j] ? stk__half_bits(v[j]) : stk__float_to_half(v[j]));
		else if (dtype == STK_BFLOAT16)
			to[j] = (T)stk__float_to_bfloat(v[j]);
		else if (dtype == STK_UINT8)
			to[j] = (T)nearest(v[j], 0, 255);
		else if (dtype == STK_UINT16)
			to[j] = (T)nearest(v[j], 0, 65535);
		else if (dtype == STK_INT8)
			to[j] = (T)(int32_t)nearest(v[j], -128, 127);
		else
			to[j] = (T)(int32_t)nearest(v[j], -32768, 32767);
	}
	store_row<T, N>(it, first, end, to);
}

/* The outputs of a piece of N: the first piece lacks those before the job's first. */
struct span {
	uint32_t first, end;
};

template <int N> static __device__ __forceinline__ span span_of(const stk_array_gpu_item &it, uint32_t piece)
{
	uint32_t n = (uint32_t)it.job.n, lead = it.flat.lead, first = piece ? piece * N - lead : 0, count = piece ? N : N - lead;
	span s = {first, min(n, first + count)};
	return s;
}

template <typename T> static __device__ __forceinline__ void copy_piece(const stk_array_gpu_item &it, uint32_t piece)
{
	enum { N = PIECE / sizeof(T) };
	T v[N];
	span s = span_of<N>(it, piece);
	load_as<T, T, N>(it, 0, s.first, s.end, v);
	store_row<T, N>(it, s.first, s.end, v);
}

template <typename T> static __device__ __forceinline__ void convert_piece(const stk_array_gpu_item &it, uint32_t piece)
{
	enum { N = PIECE / sizeof(T) };
	float v[N];
	span s = span_of<N>(it, piece);
	load_floats<N>(it, 0, s.first, s.end, v);
	store_floats<T, N>(it, s.first, s.end, v);
}

/* stk__array_normalize_one. */
template <typename T> static __device__ __forceinline__ void normalize_piece(const stk_array_gpu_item &it, uint32_t piece)
{
	enum { N = PIECE / sizeof(T) };
	float v[N];
	span s = span_of<N>(it, piece);
	load_floats<N>(it, 0, s.first, s.end, v);
	const stk_array_repeat &r = it.flat.of[1];
	uint32_t whole = s.first / r.inner, rest = s.first - whole * r.inner, at = whole % r.size;
#pragma unroll
	for (int j = 0; j < N; j++) {
		const double *stats = (const double *)(it.job.src[1] + (int64_t)at * r.step);
		v[j] = (float)(((double)v[j] - stats[0]) * stats[1] + it.job.normalize.shift);
		bool next = ++rest == r.inner;
		rest = next ? 0 : rest;
		at += next;
		at = at == r.size ? 0 : at;
	}
	store_floats<T, N>(it, s.first, s.end, v);
}

/* Whole numbers modulo 2^32. */
template <typename T> static __device__ __forceinline__ void whole_piece(const stk_array_gpu_item &it, uint32_t piece)
{
	enum { N = PIECE / sizeof(T) };
	uint32_t a[N], b[N];
	T to[N];
	span s = span_of<N>(it, piece);
	load_whole<uint32_t, N>(it, 0, s.first, s.end, a);
	load_whole<uint32_t, N>(it, 1, s.first, s.end, b);
	int32_t op = it.job.arithmetic.op;
#pragma unroll
	for (int j = 0; j < N; j++)
		to[j] = (T)(op == STK_ARITH_OP_add ? a[j] + b[j] : op == STK_ARITH_OP_sub ? a[j] - b[j] : a[j] * b[j]);
	store_row<T, N>(it, s.first, s.end, to);
}

static __device__ __forceinline__ void real_piece(const stk_array_gpu_item &it, uint32_t piece)
{
	enum { N = PIECE / sizeof(float) };
	float a[N], b[N];
	span s = span_of<N>(it, piece);
	load_floats<N>(it, 0, s.first, s.end, a);
	load_floats<N>(it, 1, s.first, s.end, b);
	int32_t op = it.job.arithmetic.op;
#pragma unroll
	for (int j = 0; j < N; j++)
		a[j] = op == STK_ARITH_OP_add   ? a[j] + b[j]
		       : op == STK_ARITH_OP_sub ? a[j] - b[j]
		       : op == STK_ARITH_OP_mul ? a[j] * b[j]
						: a[j] / b[j];
	store_row<float, N>(it, s.first, s.end, a);
}

/* The kernels below take pieces of STK_ARRAY_GPU_PIECES; each is one kind of job. */
struct pieces {
	uint32_t begin, end;
};

static __device__ __forceinline__ pieces pieces_of(const stk_array_gpu_view &v, const stk_array_gpu_item &it)
{
	uint32_t first = (blockIdx.x - it.block0[v.launch]) * STK_ARRAY_GPU_PIECES;
	pieces p = {first + threadIdx.x, min(first + STK_ARRAY_GPU_PIECES, it.flat.pieces)};
	return p;
}

extern "C" __global__ void __launch_bounds__(THREADS) array_flat_copy(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	pieces p = pieces_of(v, it);
	for (uint32_t i = p.begin; i < p.end; i += THREADS) {
		switch (it.job.copy.element) {
		case 1:
			copy_piece<uint8_t>(it, i);
			break;
		case 2:
			copy_piece<uint16_t>(it, i);
			break;
		case 4:
			copy_piece<uint32_t>(it, i);
			break;
		default:
			copy_piece<uint64_t>(it, i);
		}
	}
}

extern "C" __global__ void __launch_bounds__(THREADS) array_flat_convert(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	pieces p = pieces_of(v, it);
	int32_t size = stk__array_size(it.job.dst_dtype);
	for (uint32_t i = p.begin; i < p.end; i += THREADS) {
		if (size == 4)
			convert_piece<uint32_t>(it, i);
		else if (size == 2)
			convert_piece<uint16_t>(it, i);
		else
			convert_piece<uint8_t>(it, i);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) array_flat_normalize(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	pieces p = pieces_of(v, it);
	int32_t size = stk__array_size(it.job.dst_dtype);
	for (uint32_t i = p.begin; i < p.end; i += THREADS) {
		if (size == 4)
			normalize_piece<uint32_t>(it, i);
		else if (size == 2)
			normalize_piece<uint16_t>(it, i);
		else
			normalize_piece<uint8_t>(it, i);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) array_flat_arithmetic(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	pieces p = pieces_of(v, it);
	int32_t size = stk__array_size(it.job.dst_dtype);
	for (uint32_t i = p.begin; i < p.end; i += THREADS) {
		if (size == 4)
			whole_piece<uint32_t>(it, i);
		else if (size == 2)
			whole_piece<uint16_t>(it, i);
		else
			whole_piece<uint8_t>(it, i);
	}
}

/* Floats of four to a piece take a third of the registers that bytes do. */
extern "C" __global__ void __launch_bounds__(THREADS) array_flat_reals(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = v.items[find_item(v)];
	pieces p = pieces_of(v, it);
	for (uint32_t i = p.begin; i < p.end; i += THREADS)
		real_piece(it, i);
}
