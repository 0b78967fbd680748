/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_gpu/jpeg_gpu_phases.h"

/* Shared memory of a thread block in bytes, without the decoding tables, whose entries have ENTRY bytes. Each thread has a ring of 32 words (16 for
 * coefficients) and 4 words of padding; to decode coefficients it also has a block of 33 words. */
enum { SYNC_SHARED = STK_JPEG_GPU_SYNC_THREADS * 36 * 4, COEFFICIENT_SHARED = STK_JPEG_GPU_COEFFICIENT_THREADS * (20 + 33) * 4, ENTRY = 2 };

const char *const stk__jpeg_gpu_phase_names[] = {"count", "unstuff", "decode_subsequences", "synchronise", "synchronise_stragglers",
	"resolve", "decode_coefficients", "dc", "decode_scans", "idct", "color"};

enum stk_status stk__jpeg_gpu_kernels_load(struct stk_gpu_device *dev, struct stk_jpeg_gpu_kernels *kernels, struct stk_error *err)
{
	static const struct {
		const char *module, *name;
		size_t shared;
	} rows[STK_JPEG_GPU_PHASES] = {
		[STK_JPEG_GPU_COUNT] = {"jpeg_gpu_unstuff", "jpeg_gpu_count", 0},
		[STK_JPEG_GPU_UNSTUFF] = {"jpeg_gpu_unstuff", "jpeg_gpu_unstuff", 0},
		[STK_JPEG_GPU_DECODE_SUBSEQUENCES] = {"jpeg_gpu_synchronise", "jpeg_gpu_decode_subsequences",
			SYNC_SHARED + STK_JPEG_GPU_MAX_SET * ENTRY},
		[STK_JPEG_GPU_SYNCHRONISE] = {"jpeg_gpu_synchronise", "jpeg_gpu_synchronise", SYNC_SHARED + STK_JPEG_GPU_MAX_SET * ENTRY},
		[STK_JPEG_GPU_SYNCHRONISE_STRAGGLERS] = {"jpeg_gpu_synchronise", "jpeg_gpu_synchronise_stragglers", 0},
		[STK_JPEG_GPU_RESOLVE] = {"jpeg_gpu_synchronise", "jpeg_gpu_resolve", 0},
		[STK_JPEG_GPU_DECODE_COEFFICIENTS] = {"jpeg_gpu_coefficients", "jpeg_gpu_decode_coefficients",
			COEFFICIENT_SHARED + STK_JPEG_GPU_MAX_SET * ENTRY},
		[STK_JPEG_GPU_DC] = {"jpeg_gpu_coefficients", "jpeg_gpu_dc", 0},
		[STK_JPEG_GPU_DECODE_SCANS] = {"jpeg_gpu_scans", "jpeg_gpu_decode_scans",
			STK_JPEG_GPU_MAX_SCANS * STK_JPEG_GPU_SCAN_SHARED},
		[STK_JPEG_GPU_IDCT] = {"jpeg_gpu_pixels", "jpeg_gpu_idct", 0},
		[STK_JPEG_GPU_COLOR] = {"jpeg_gpu_pixels", "jpeg_gpu_color", 0},
	};
	for (int i = 0; i < STK_JPEG_GPU_PHASES; i++) {
		enum stk_status status = stk__gpu_kernel(dev, rows[i].module, rows[i].name, rows[i].shared, &kernels->kernel[i], err);
		if (status)
			return status;
	}
	return STK_OK;
}

enum stk_status stk__jpeg_gpu_launch(struct stk_gpu_device *dev, const struct stk_jpeg_gpu_kernels *kernels,
	const struct stk_jpeg_gpu_view *view, enum stk_jpeg_gpu_phase phase, stk_gpu_stream stream, struct stk_error *err)
{
	unsigned tables = view->max_set * ENTRY;
	enum { IDCT_BLOCKS = STK_JPEG_GPU_IDCT_BLOCKS * STK_JPEG_GPU_IDCT_WARPS };
	const struct {
		uint32_t blocks, threads, shared;
	} grids[STK_JPEG_GPU_PHASES] = {
		[STK_JPEG_GPU_COUNT] = {view->n_chunks, 256, 0},
		[STK_JPEG_GPU_UNSTUFF] = {view->n_chunks, 256, 0},
		[STK_JPEG_GPU_DECODE_SUBSEQUENCES] = {view->n_sync_work, STK_JPEG_GPU_SYNC_THREADS, SYNC_SHARED + tables},
		[STK_JPEG_GPU_SYNCHRONISE] = {view->n_sync_work, STK_JPEG_GPU_SYNC_THREADS, SYNC_SHARED + tables},
		[STK_JPEG_GPU_SYNCHRONISE_STRAGGLERS] = {(view->n_subsequences + STK_JPEG_GPU_STRAGGLER_THREADS - 1) /
								 STK_JPEG_GPU_STRAGGLER_THREADS,
			STK_JPEG_GPU_STRAGGLER_THREADS, 0},
		[STK_JPEG_GPU_RESOLVE] = {view->n_baseline, 256, 0},
		[STK_JPEG_GPU_DECODE_COEFFICIENTS] = {view->n_coefficient_work, STK_JPEG_GPU_COEFFICIENT_THREADS,
			COEFFICIENT_SHARED + tables},
		[STK_JPEG_GPU_DC] = {view->n_baseline, 256, 0},
		[STK_JPEG_GPU_DECODE_SCANS] = {view->n_progressive, 32 * view->max_scans, view->max_scans * STK_JPEG_GPU_SCAN_SHARED},
		[STK_JPEG_GPU_IDCT] = {(view->n_idct + IDCT_BLOCKS - 1) / IDCT_BLOCKS, 32 * STK_JPEG_GPU_IDCT_WARPS, 0},
		[STK_JPEG_GPU_COLOR] = {view->n_rows / STK_JPEG_GPU_COLOR_ROWS, 4 * STK_JPEG_GPU_COLOR_ROWS, 0},
	};
	if (!grids[phase].blocks)
		return STK_OK;
	struct stk_gpu_grid grid = {.blocks = {grids[phase].blocks}, .threads = {grids[phase].threads}, .shared = grids[phase].shared};
	struct stk_jpeg_gpu_view copy = *view;
	return stk__gpu_launch(dev, stream, kernels->kernel[phase], grid, (void *[]){&copy}, err);
}
