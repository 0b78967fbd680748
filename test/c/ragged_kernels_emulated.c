/* SPDX-License-Identifier: Apache-2.0
 * The ragged layer's CUDA kernels, compiled as C for the emulation. */
#include "cuda_emulate.h"

#include "cuda_emulated_kernels.h"

#include "ragged/ragged_assign.cu"
#undef BLOCK
#undef TILE
#include "ragged/ragged_cost.cu"
#undef BLOCK
#undef TILE
#include "ragged/ragged_heatmap.cu"
#undef BLOCK
#include "ragged/ragged_index.cu"

#define WRAP(name, type)                                                                                                                   \
	static void run_##name(void *argument)                                                                                             \
	{                                                                                                                                  \
		name(*(type *)argument);                                                                                                   \
	}
#define WRAP_UNITS(unit)                                                                                                                   \
	WRAP(ragged_gather_##unit, struct stk_gather_launch)                                                                               \
	WRAP(ragged_keep_##unit, struct stk_keep_launch) WRAP(ragged_scatter_##unit, struct stk_scatter_launch)
#define KERNELS(X)                                                                                                                         \
	X(ragged_scatter_winner, struct stk_scatter_launch)                                                                                \
	X(ragged_scatter_source, struct stk_scatter_launch)                                                                                \
	X(ragged_scatter_add_float, struct stk_sum_launch)                                                                                 \
	X(ragged_scatter_add_short_float, struct stk_sum_launch)                                                                           \
	X(ragged_scatter_add_double, struct stk_sum_launch)                                                                                \
	X(ragged_scatter_add_short_double, struct stk_sum_launch)                                                                          \
	X(ragged_scatter_add_int32, struct stk_sum_launch)                                                                                 \
	X(ragged_scatter_add_short_int32, struct stk_sum_launch)                                                                           \
	X(ragged_scatter_add_int64, struct stk_sum_launch)                                                                                 \
	X(ragged_scatter_add_short_int64, struct stk_sum_launch)                                                                           \
	X(ragged_scatter_add_half, struct stk_sum_launch)                                                                                  \
	X(ragged_scatter_add_short_half, struct stk_sum_launch)                                                                            \
	X(ragged_scatter_add_bfloat, struct stk_sum_launch)                                                                                \
	X(ragged_scatter_add_short_bfloat, struct stk_sum_launch)                                                                          \
	X(ragged_mask_to_index, struct stk_mask)                                                                                           \
	X(ragged_index_to_mask, struct stk_index_mask_launch)                                                                              \
	X(ragged_assign_f32_1, struct stk_assign_launch)                                                                                   \
	X(ragged_assign_f32_2, struct stk_assign_launch)                                                                                   \
	X(ragged_assign_f32_4, struct stk_assign_launch)                                                                                   \
	X(ragged_assign_f32_8, struct stk_assign_launch)                                                                                   \
	X(ragged_assign_any_4, struct stk_assign_launch)                                                                                   \
	X(ragged_assign_any_8, struct stk_assign_launch)                                                                                   \
	X(ragged_assign_any, struct stk_assign_launch)                                                                                     \
	X(ragged_assign_turn_2, struct stk_assign_launch)                                                                                  \
	X(ragged_assign_turn_4, struct stk_assign_launch)                                                                                  \
	X(ragged_assign_turn_8, struct stk_assign_launch)                                                                                  \
	X(ragged_cost, struct stk_cost_launch)                                                                                             \
	X(ragged_heatmap, struct stk_heatmap)

STK_FOR_UNITS(WRAP_UNITS)
KERNELS(WRAP)

#define ROW(name, type) {#name, run_##name},
#define ROW_UNITS(unit) ROW(ragged_gather_##unit, 0) ROW(ragged_keep_##unit, 0) ROW(ragged_scatter_##unit, 0)
const struct emulated_kernel emulated_kernels[] = {STK_FOR_UNITS(ROW_UNITS) KERNELS(ROW){0, 0}};
