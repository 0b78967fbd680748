/* SPDX-License-Identifier: Apache-2.0
 * Code that the kernels of flat jobs (job_flat.h) share. A thread loads the operands of a piece of outputs with loads as wide as their alignment allows, and
 * stores a complete piece at once. A kernel calls work_on with a struct that loads, computes and stores. */
#ifndef STK_KERNEL_JOB_FLAT_CUH
#define STK_KERNEL_JOB_FLAT_CUH

#include "kernel/job/job_find.cuh"
#include "kernel/job/job_place.h"

#include <string.h>

#define THREADS STK_JOB_THREADS
#define PIECE STK_JOB_FLAT_PIECE

struct half_bits {
	uint16_t v;
};
struct bfloat_bits {
	uint16_t v;
};

/* Loads N consecutive elements from `at` to v with as few loads as possible. The address must be aligned to the size of the loads: 16 bytes, or the size
 * of all N elements if this is less. */
template <typename T, int N> static __device__ __forceinline__ void load_aligned(const T *at, T *v)
{
	enum { BYTES = N * sizeof(T), STEP = BYTES < PIECE ? (int)BYTES : PIECE };
#pragma unroll
	for (int k = 0; k < BYTES; k += STEP) {
		const uint8_t *from = (const uint8_t *)at + k;
		if (STEP == 16) {
			uint4 w = *(const uint4 *)from;
			memcpy((uint8_t *)v + k, &w, 16);
		} else if (STEP == 8) {
			uint2 w = *(const uint2 *)from;
			memcpy((uint8_t *)v + k, &w, 8);
		} else {
			uint32_t w = *(const uint32_t *)from;
			memcpy((uint8_t *)v + k, &w, 4);
		}
	}
}

/* Returns the element at `at`. Being a function, it keeps compilers for the host from merging loads of adjacent elements into one load that must be aligned. */
template <typename T> __device__ __forceinline__ T load_one(const T *at)
{
	return __ldg(at);
}

template <> __device__ __forceinline__ half_bits load_one(const half_bits *at)
{
	half_bits x = {__ldg(&at->v)};
	return x;
}
template <> __device__ __forceinline__ bfloat_bits load_one(const bfloat_bits *at)
{
	bfloat_bits x = {__ldg(&at->v)};
	return x;
}

/* Loads N consecutive elements, aligned or not, from `at` to v. */
template <typename T, int N> static __device__ __forceinline__ void load_row(const uint8_t *at, T *v)
{
	enum { BYTES = N * sizeof(T), STEP = BYTES < PIECE ? (int)BYTES : PIECE };
	if ((uintptr_t)at % STEP == 0)
		return load_aligned<T, N>((const T *)at, v);
#pragma unroll
	for (int k = 0; k < N; k++)
		v[k] = load_one((const T *)at + k);
}

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

template <> __device__ __forceinline__ double value_of<double, half_bits>(half_bits x)
{
	return (double)stk__half_to_float(x.v);
}
template <> __device__ __forceinline__ double value_of<double, bfloat_bits>(bfloat_bits x)
{
	return (double)stk__bfloat_to_float(x.v);
}

/* A source of a job, and how outputs map to its elements. */
struct source {
	const uint8_t *data;
	stk_job_repeat repeat;
	bool dense; /* output i reads element i */
};

template <typename T> static __device__ __forceinline__ source source_of(const stk_job_gpu_item &it, int k)
{
	const stk_job_repeat &r = it.flat.of[k];
	source s = {it.job.src[k], r, r.inner == 1 && r.step == (int32_t)sizeof(T) && r.size >= (uint64_t)it.job.n};
	return s;
}

/* Sets v to the elements of source k that outputs first .. first + N - 1 read. Loads nothing for outputs from `end` on. */
template <typename To, typename T, int N>
static __device__ __forceinline__ void load_as(const stk_job_gpu_item &it, int k, uint32_t first, uint32_t end, To *v)
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

/* Stores a piece v of N outputs from output `first` on, or only those before `end`. A complete piece must be aligned to 16 bytes. */
template <typename T, int N>
static __device__ __forceinline__ void store_row(const stk_job_gpu_item &it, uint32_t first, uint32_t end, const T *v)
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

/* Pieces of N outputs that a thread makes together so that it waits only once for their operands: 16 outputs, or all pieces of the thread if these are fewer.
 * APART: distance in outputs from one of these pieces to the next. LAST: distance in outputs from the first output to the last. */
template <int N> struct together {
	enum { MOST = STK_JOB_PIECES / THREADS, ROWS = 16 / N < MOST ? 16 / N : (int)MOST, OUTPUTS = ROWS * N };
	enum { APART = THREADS * N, LAST = (ROWS - 1) * APART + N - 1 };
};

/* Returns the index of the element that output i reads. */
static __device__ __forceinline__ uint32_t element_of(const stk_job_repeat &r, uint32_t i)
{
	return r.size == 1 ? 0 : i / r.inner % r.size; /* the first case saves the divisions, which take many instructions */
}

/* Returns whether the outputs that are made together, from `first` on, all read the same element of source k. */
template <int N> static __device__ __forceinline__ bool read_one(const stk_job_gpu_item &it, int k, uint32_t first)
{
	const stk_job_repeat &r = it.flat.of[k];
	return r.size == 1 || first % r.inner + together<N>::LAST < r.inner;
}

/* Returns whether load_together supports source k for the outputs from `first` on: they all read one element, or read consecutive,
 * aligned elements. */
template <int N> static __device__ __forceinline__ bool read_together(const stk_job_gpu_item &it, int k, uint32_t first)
{
	const stk_job_repeat &r = it.flat.of[k];
	uint32_t size = stk__job_size(it.job.src_dtype[k]), step = min(N * size, (uint32_t)PIECE);
	bool dense = r.inner == 1 && r.step == (int32_t)size && r.size >= (uint64_t)it.job.n;
	return dense ? ((uintptr_t)it.job.src[k] + (uint64_t)first * size) % step == 0 : read_one<N>(it, k, first);
}

/* Loads the elements of source k for the outputs made together from `first` on. All these outputs must exist, and read_together must be true for them. */
template <typename To, typename T, int N>
static __device__ __forceinline__ void load_together(const stk_job_gpu_item &it, int k, uint32_t first, To *v)
{
	source s = source_of<T>(it, k);
	if (s.dense) {
		T row[together<N>::OUTPUTS];
#pragma unroll
		for (int u = 0; u < together<N>::ROWS; u++)
			load_aligned<T, N>((const T *)s.data + first + u * together<N>::APART, row + u * N);
#pragma unroll
		for (int j = 0; j < together<N>::OUTPUTS; j++)
			v[j] = value_of<To, T>(row[j]);
		return;
	}
	To one = value_of<To, T>(*(const T *)(s.data + (int64_t)element_of(s.repeat, first) * s.repeat.step));
#pragma unroll
	for (int j = 0; j < together<N>::OUTPUTS; j++)
		v[j] = one;
}

/* The outputs that a thread loads at a time: one piece, which may be incomplete, or several whole pieces (struct many_pieces). */
template <int N> struct one_piece {
	enum { OUTPUTS = N };
	uint32_t first, end;
	template <typename To, typename T>
	static __device__ __forceinline__ void load(const stk_job_gpu_item &it, int k, const one_piece &s, To *v)
	{
		load_as<To, T, N>(it, k, s.first, s.end, v);
	}
	template <typename T> static __device__ __forceinline__ void store(const stk_job_gpu_item &it, const one_piece &s, const T *v)
	{
		store_row<T, N>(it, s.first, s.end, v);
	}
};

template <int N> struct many_pieces {
	enum { OUTPUTS = together<N>::OUTPUTS };
	uint32_t first;
	template <typename To, typename T>
	static __device__ __forceinline__ void load(const stk_job_gpu_item &it, int k, const many_pieces &s, To *v)
	{
		load_together<To, T, N>(it, k, s.first, v);
	}
	template <typename T> static __device__ __forceinline__ void store(const stk_job_gpu_item &it, const many_pieces &s, const T *v)
	{
#pragma unroll
		for (int u = 0; u < together<N>::ROWS; u++)
			store_row<T, N>(it, s.first + u * THREADS * N, s.first + u * THREADS * N + N, v + u * N);
	}
};

template <typename To, typename S> static __device__ __forceinline__ void load_whole(const stk_job_gpu_item &it, int k, const S &s, To *v)
{
	switch (it.job.src_dtype[k]) {
	case STK_UINT8:
		return S::template load<To, uint8_t>(it, k, s, v);
	case STK_INT8:
		return S::template load<To, int8_t>(it, k, s, v);
	case STK_UINT16:
		return S::template load<To, uint16_t>(it, k, s, v);
	case STK_INT16:
		return S::template load<To, int16_t>(it, k, s, v);
	case STK_UINT32:
		return S::template load<To, uint32_t>(it, k, s, v);
	default:
		return S::template load<To, int32_t>(it, k, s, v);
	}
}

/* Sets v to values of source k, of any type that flat jobs support (job_flat.h), as float or double. */
template <typename To, typename S> static __device__ __forceinline__ void load_reals(const stk_job_gpu_item &it, int k, const S &s, To *v)
{
	switch (it.job.src_dtype[k]) {
	case STK_FLOAT:
		return S::template load<To, float>(it, k, s, v);
	case STK_FLOAT16:
		return S::template load<To, half_bits>(it, k, s, v);
	case STK_BFLOAT16:
		return S::template load<To, bfloat_bits>(it, k, s, v);
	default:
		return load_whole<To>(it, k, s, v);
	}
}

static __device__ __forceinline__ float nearest(float x, float low, float high)
{
	x = x == x ? x : 0;
	x = x > low ? x : low;
	x = x < high ? x : high;
	float whole = (float)(int32_t)x, part = x - whole;
	return part >= 0.5f ? whole + 1 : part <= -0.5f ? whole - 1 : whole;
}

/* Stores the floats v as the output's type, which has the size of T. */
template <typename T, typename S>
static __device__ __forceinline__ void store_floats(const stk_job_gpu_item &it, const S &s, const float *v)
{
	enum { N = S::OUTPUTS };
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
	S::template store<T>(it, s, to);
}

/* Returns the outputs of piece number `piece`, which has N elements. The first `lead` elements of piece 0 are before the job's output, so that all pieces are
 * aligned. */
template <int N> static __device__ __forceinline__ one_piece<N> outputs_of_piece(const stk_job_gpu_item &it, uint32_t piece)
{
	uint32_t n = (uint32_t)it.job.n, lead = it.flat.lead, first = piece ? piece * N - lead : 0, count = piece ? N : N - lead;
	one_piece<N> s = {first, min(n, first + count)};
	return s;
}

/* Makes the thread's pieces of outputs of type T with WORK::run: several at once if all pieces of the block are complete and WORK::serves is true. */
template <typename T, typename WORK> static __device__ __forceinline__ void work_on(const stk_job_gpu_view &v, const stk_job_gpu_item &it)
{
	enum { N = PIECE / sizeof(T), STEP = THREADS * together<N>::ROWS };
	uint32_t begin = (blockIdx.x - it.block0[v.launch]) * STK_JOB_PIECES, lead = it.flat.lead;
	uint32_t end = min(begin + STK_JOB_PIECES, it.flat.pieces);
	bool whole = (begin > 0 || lead == 0) && (int64_t)(begin + STK_JOB_PIECES) * N - lead <= it.job.n;
#pragma unroll 1
	for (uint32_t i = begin + threadIdx.x; i < end; i += STEP) {
		many_pieces<N> s = {i * N - lead};
		if (whole && WORK::serves(it, s.first)) {
			WORK::run(it, s);
			continue;
		}
#pragma unroll 1
		for (uint32_t k = i; k < end && k < i + STEP; k += THREADS)
			WORK::run(it, outputs_of_piece<N>(it, k));
	}
}

#endif
