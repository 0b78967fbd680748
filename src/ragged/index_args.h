/* SPDX-License-Identifier: Apache-2.0
 * The arguments that the host passes by value to the kernels of ragged_*.cu. */
#ifndef STK_RAGGED_INDEX_ARGS_H
#define STK_RAGGED_INDEX_ARGS_H

#include "stoker/batching.h"

/* The units in which rows are moved. The host and the kernels must agree on the layout of these structs, so the alignment is written in standard C and C++:
 * some compilers of kernels, for example NVRTC, skip GCC's attributes. */
#ifdef __cplusplus
#define STK_UNIT_ALIGNED alignas(16)
#else
#define STK_UNIT_ALIGNED _Alignas(16)
#endif
struct stk_unit16 {
	STK_UNIT_ALIGNED uint32_t v[4];
};
#define STK_FOR_UNITS(X) X(stk_unit1) X(stk_unit2) X(stk_unit4) X(stk_unit8) X(stk_unit16)
typedef uint8_t stk_unit1;
typedef uint16_t stk_unit2;
typedef uint32_t stk_unit4;
typedef uint64_t stk_unit8;
typedef struct stk_unit16 stk_unit16;

/* The bytes of one element, repeated to 16 bytes, as a value of any unit. */
union stk_filler {
	uint8_t bytes[16];
	stk_unit1 as_stk_unit1;
	stk_unit2 as_stk_unit2;
	stk_unit4 as_stk_unit4;
	stk_unit8 as_stk_unit8;
	stk_unit16 as_stk_unit16;
};

#define STK_SCATTER_TILE 32

struct stk_gather_launch {
	struct stk_gather g;
	int64_t rows, inner; /* number of rows, and of units (stk_unit1 to stk_unit16) in a row */
	int32_t lanes_log2;  /* 2^lanes_log2 threads move a row */
	union stk_filler filler;
};

struct stk_keep_launch {
	struct stk_keep k;
	int64_t rows, inner; /* as in struct stk_gather_launch */
	int32_t lanes_log2;
	union stk_filler filler;
};

struct stk_scatter_launch {
	struct stk_scatter s;
	int64_t tiles, inner; /* number of tiles of STK_SCATTER_TILE targets in a sample; inner: as in struct stk_gather_launch */
	union stk_filler filler;
};

struct stk_sum_launch {
	struct stk_scatter_add s;
};

struct stk_index_mask_launch {
	int64_t batch, items, tiles;
	struct stk_indices index;
	uint8_t *mask;
	uint64_t *refused;
};

struct stk_assign_launch {
	struct stk_assign a;
	const void *transposed; /* costs of tall problems with rows and columns swapped, of shape (problems, cols, rows); or NULL */
	uint8_t *state;         /* for the kernel for large problems: state_bytes bytes for each problem */
	int64_t state_bytes;
	int32_t rows, cols; /* maximum numbers of rows and columns of a problem after the swap: rows <= cols */
	int32_t kept_rows;  /* number of rows of float costs that a thread block keeps in shared memory */
	int32_t pitch;      /* number of floats from one row of `row_costs` to the next, a multiple of 4 */
};

/* Number of threads of a block that computes losses, and number of queries whose classes it keeps in shared memory. */
#define STK_LOSS_THREADS 512
#define STK_LOSS_QUERIES 4096

struct stk_focal_launch {
	struct stk_focal f;
	int32_t part; /* number of queries of which a thread block computes the gradient at a time, at most STK_LOSS_QUERIES */
};

/* Number of threads that sum the segments of one polyline. */
#define STK_POLYLINE_THREADS 128

/* Number of queries of a thread block, and number of targets that a thread block compares with its queries. */
#define STK_COST_TILE 128
#define STK_COST_STRETCH 16

struct stk_cost_launch {
	struct stk_cost c;
	int32_t table; /* 1 if the costs of all classes fit into shared memory, otherwise 0 */
};

#endif
