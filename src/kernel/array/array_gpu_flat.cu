/* SPDX-License-Identifier: Apache-2.0
 * Flat jobs (array_flat.h): a thread loads what an aligned piece of outputs is made of, as widely as it lies, and stores the piece at once. */
#include "kernel/array/array_element.h"
#include "kernel/array/array_gpu_find.cuh"

#include <string.h>

#define THREADS STK_ARRAY_GPU_THREADS
#define PIECE STK_ARRAY_FLAT_PIECE

struct half_bits {
	uint16_t v;
};
struct bfloat_bits {
	uint16_t v;
};

/* N elements of T that lie behind each other, aligned as a whole, in as few loads as there can be. */
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

/* A load that no compiler for a host joins with its neighbours, as if they were aligned. */
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

/* The same, aligned or not. */
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

/* Pieces of N that a thread makes together, THREADS pieces apart, so that it waits once for what all of them read: 16 outputs, or all of the thread's pieces. */
template <int N> struct together {
	enum { MOST = STK_ARRAY_GPU_PIECES / THREADS, ROWS = 16 / N < MOST ? 16 / N : (int)MOST, OUTPUTS = ROWS * N };
	enum { APART = THREADS * N, LAST = (ROWS - 1) * APART + N - 1 };
};

/* Which element output i reads. */
static __device__ __forceinline__ uint32_t element_of(const stk_array_repeat &r, uint32_t i)
{
	return r.size == 1 ? 0 : i / r.inner % r.size; /* divisions are many instructions */
}

/* Whether the outputs that are made together from `first` on read one element of source k. */
template <int N> static __device__ __forceinline__ bool read_one(const stk_array_gpu_item &it, int k, uint32_t first)
{
	const stk_array_repeat &r = it.flat.of[k];
	return r.size == 1 || first % r.inner + together<N>::LAST < r.inner;
}

/* Whether they read it as load_together does: one element, or rows that are aligned. */
template <int N> static __device__ __forceinline__ bool read_together(const stk_array_gpu_item &it, int k, uint32_t first)
{
	const stk_array_repeat &r = it.flat.of[k];
	uint32_t size = stk__array_size(it.job.src_dtype[k]), step = min(N * size, (uint32_t)PIECE);
	bool dense = r.inner == 1 && r.step == (int32_t)size && r.size >= (uint64_t)it.job.n;
	return dense ? ((uintptr_t)it.job.src[k] + (uint64_t)first * size) % step == 0 : read_one<N>(it, k, first);
}

/* What outputs that are made together read, from `first` on: all of them exist. */
template <typename To, typename T, int N>
static __device__ __forceinline__ void load_together(const stk_array_gpu_item &it, int k, uint32_t first, To *v)
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

/* Which outputs are loaded: those of one piece that exist, or those of several whole ones. */
template <int N> struct one_piece {
	enum { OUTPUTS = N };
	uint32_t first, end;
	template <typename To, typename T>
	static __device__ __forceinline__ void load(const stk_array_gpu_item &it, int k, const one_piece &s, To *v)
	{
		load_as<To, T, N>(it, k, s.first, s.end, v);
	}
	template <typename T> static __device__ __forceinline__ void store(const stk_array_gpu_item &it, const one_piece &s, const T *v)
	{
		store_row<T, N>(it, s.first, s.end, v);
	}
};

template <int N> struct many_pieces {
	enum { OUTPUTS = together<N>::OUTPUTS };
	uint32_t first;
	template <typename To, typename T>
	static __device__ __forceinline__ void load(const stk_array_gpu_item &it, int k, const many_pieces &s, To *v)
	{
		load_together<To, T, N>(it, k, s.first, v);
	}
	template <typename T> static __device__ __forceinline__ void store(const stk_array_gpu_item &it, const many_pieces &s, const T *v)
	{
#pragma unroll
		for (int u = 0; u < together<N>::ROWS; u++)
			store_row<T, N>(it, s.first + u * THREADS * N, s.first + u * THREADS * N + N, v + u * N);
	}
};

template <typename To, typename S> static __device__ __forceinline__ void load_whole(const stk_array_gpu_item &it, int k, const S &s, To *v)
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

/* As float or double. */
template <typename To, typename S> static __device__ __forceinline__ void load_reals(const stk_array_gpu_item &it, int k, const S &s, To *v)
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

/* Stores floats as the output's type, one of those of T's size. */
template <typename T, typename S>
static __device__ __forceinline__ void store_floats(const stk_array_gpu_item &it, const S &s, const float *v)
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

/* The outputs of a piece of N: the first piece lacks those before the job's first. */
template <int N> static __device__ __forceinline__ one_piece<N> outputs_of_piece(const stk_array_gpu_item &it, uint32_t piece)
{
	uint32_t n = (uint32_t)it.job.n, lead = it.flat.lead, first = piece ? piece * N - lead : 0, count = piece ? N : N - lead;
	one_piece<N> s = {first, min(n, first + count)};
	return s;
}

/* ---- what is done to them ---- */

template <typename T> struct copying {
	static __device__ __forceinline__ bool serves(const stk_array_gpu_item &it, uint32_t first)
	{
		return ((uintptr_t)it.job.src[0] + (uint64_t)first * sizeof(T)) % PIECE == 0;
	}
	template <typename S> static __device__ __forceinline__ void run(const stk_array_gpu_item &it, const S &s)
	{
		T v[S::OUTPUTS];
		S::template load<T, T>(it, 0, s, v);
		S::template store<T>(it, s, v);
	}
};

template <typename T> struct converting {
	static __device__ __forceinline__ bool serves(const stk_array_gpu_item &it, uint32_t first)
	{
		return read_together<PIECE / sizeof(T)>(it, 0, first);
	}
	template <typename S> static __device__ __forceinline__ void run(const stk_array_gpu_item &it, const S &s)
	{
		float v[S::OUTPUTS];
		load_reals<float>(it, 0, s, v);
		store_floats<T>(it, s, v);
	}
};

/* The mean and the factor of an output's group. */
struct stats {
	double mean, factor;
};

static __device__ __forceinline__ stats stats_of(const stk_array_gpu_item &it, uint32_t group)
{
	const double *at = (const double *)(it.job.src[1] + (int64_t)group * it.flat.of[1].step);
	stats s = {at[0], at[1]};
	return s;
}

/* stk__array_normalize_one. */
static __device__ __forceinline__ float normalized(double x, const stats &s, double shift)
{
	return (float)((x - s.mean) * s.factor + shift);
}

template <typename T> struct normalizing {
	enum { N = PIECE / sizeof(T) };
	/* One group for all, or one for each of three channels. */
	static __device__ __forceinline__ bool serves(const stk_array_gpu_item &it, uint32_t first)
	{
		const stk_array_repeat &r = it.flat.of[1];
		return read_together<N>(it, 0, first) && (read_one<N>(it, 1, first) || (r.inner == 1 && r.size == 3));
	}
	static __device__ __forceinline__ void run(const stk_array_gpu_item &it, const one_piece<N> &s)
	{
		float v[N];
		load_reals<float>(it, 0, s, v);
		const stk_array_repeat &r = it.flat.of[1];
		uint32_t whole = s.first / r.inner, rest = s.first - whole * r.inner, at = whole % r.size;
#pragma unroll
		for (int j = 0; j < N; j++) {
			v[j] = normalized((double)v[j], stats_of(it, at), it.job.normalize.shift);
			bool next = ++rest == r.inner;
			rest = next ? 0 : rest;
			at += next;
			at = at == r.size ? 0 : at;
		}
		store_floats<T>(it, s, v);
	}
	/* Pieces that lie THREADS pieces apart begin at the three channels in turn: 3 does not divide their distance. */
	static __device__ __forceinline__ void run(const stk_array_gpu_item &it, const many_pieces<N> &s)
	{
		double x[together<N>::OUTPUTS], shift = it.job.normalize.shift;
		float v[together<N>::OUTPUTS];
		stats of[3];
		uint32_t group = element_of(it.flat.of[1], s.first), next = read_one<N>(it, 1, s.first) ? 0 : 1;
#pragma unroll
		for (int k = 0; k < 3; k++) {
			of[k] = stats_of(it, group);
			group = group + next == it.flat.of[1].size && next ? 0 : group + next;
		}
		load_reals<double>(it, 0, s, x);
#pragma unroll
		for (int j = 0; j < together<N>::OUTPUTS; j++)
			v[j] = normalized(x[j], of[(j / N * together<N>::APART + j % N) % 3], shift);
		store_floats<T>(it, s, v);
	}
};

/* Whole numbers modulo 2^32. */
template <typename T> struct adding_whole {
	static __device__ __forceinline__ bool serves(const stk_array_gpu_item &it, uint32_t first)
	{
		return read_together<PIECE / sizeof(T)>(it, 0, first) && read_together<PIECE / sizeof(T)>(it, 1, first);
	}
	template <typename S> static __device__ __forceinline__ void run(const stk_array_gpu_item &it, const S &s)
	{
		uint32_t a[S::OUTPUTS], b[S::OUTPUTS];
		T to[S::OUTPUTS];
		load_whole<uint32_t>(it, 0, s, a);
		load_whole<uint32_t>(it, 1, s, b);
		int32_t op = it.job.arithmetic.op;
#pragma unroll
		for (int j = 0; j < S::OUTPUTS; j++)
			to[j] = (T)(op == STK_ARITH_OP_add ? a[j] + b[j] : op == STK_ARITH_OP_sub ? a[j] - b[j] : a[j] * b[j]);
		S::template store<T>(it, s, to);
	}
};

struct adding_reals {
	static __device__ __forceinline__ bool serves(const stk_array_gpu_item &it, uint32_t first)
	{
		return read_together<PIECE / sizeof(float)>(it, 0, first) && read_together<PIECE / sizeof(float)>(it, 1, first);
	}
	template <typename S> static __device__ __forceinline__ void run(const stk_array_gpu_item &it, const S &s)
	{
		float a[S::OUTPUTS], b[S::OUTPUTS];
		load_reals<float>(it, 0, s, a);
		load_reals<float>(it, 1, s, b);
		int32_t op = it.job.arithmetic.op;
#pragma unroll
		for (int j = 0; j < S::OUTPUTS; j++)
			a[j] = op == STK_ARITH_OP_add   ? a[j] + b[j]
			       : op == STK_ARITH_OP_sub ? a[j] - b[j]
			       : op == STK_ARITH_OP_mul ? a[j] * b[j]
							: a[j] / b[j];
		S::template store<float>(it, s, a);
	}
};

/* Does WORK, of outputs of T, to the pieces of the thread block. Those of most blocks are whole. */
template <typename T, typename WORK>
static __device__ __forceinline__ void work_on(const stk_array_gpu_view &v, const stk_array_gpu_item &it)
{
	enum { N = PIECE / sizeof(T), STEP = THREADS * together<N>::ROWS };
	uint32_t begin = (blockIdx.x - it.block0[v.launch]) * STK_ARRAY_GPU_PIECES, lead = it.flat.lead;
	uint32_t end = min(begin + STK_ARRAY_GPU_PIECES, it.flat.pieces);
	bool whole = (begin > 0 || lead == 0) && (int64_t)(begin + STK_ARRAY_GPU_PIECES) * N - lead <= it.job.n;
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

extern "C" __global__ void __launch_bounds__(THREADS) array_flat_copy(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = share_item(v);
	switch (it.job.copy.element) {
	case 1:
		return work_on<uint8_t, copying<uint8_t>>(v, it);
	case 2:
		return work_on<uint16_t, copying<uint16_t>>(v, it);
	case 4:
		return work_on<uint32_t, copying<uint32_t>>(v, it);
	default:
		return work_on<uint64_t, copying<uint64_t>>(v, it);
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) array_flat_convert(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = share_item(v);
	int32_t size = stk__array_size(it.job.dst_dtype);
	if (size == 4)
		work_on<uint32_t, converting<uint32_t>>(v, it);
	else if (size == 2)
		work_on<uint16_t, converting<uint16_t>>(v, it);
	else
		work_on<uint8_t, converting<uint8_t>>(v, it);
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) array_flat_normalize(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = share_item(v);
	int32_t size = stk__array_size(it.job.dst_dtype);
	if (size == 4)
		work_on<uint32_t, normalizing<uint32_t>>(v, it);
	else if (size == 2)
		work_on<uint16_t, normalizing<uint16_t>>(v, it);
	else
		work_on<uint8_t, normalizing<uint8_t>>(v, it);
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) array_flat_arithmetic(const __grid_constant__ stk_array_gpu_view v)
{
	const stk_array_gpu_item &it = share_item(v);
	int32_t size = stk__array_size(it.job.dst_dtype);
	if (size == 4)
		work_on<uint32_t, adding_whole<uint32_t>>(v, it);
	else if (size == 2)
		work_on<uint16_t, adding_whole<uint16_t>>(v, it);
	else
		work_on<uint8_t, adding_whole<uint8_t>>(v, it);
}

extern "C" __global__ void __launch_bounds__(THREADS) array_flat_reals(const __grid_constant__ stk_array_gpu_view v)
{
	work_on<float, adding_reals>(v, share_item(v));
}
