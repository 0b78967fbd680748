/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_gpu/jpeg_gpu_phases.h"

/* Shared memory beside the tables: a ring a lane (32 words and 4; 16 and 4), and for the write phase a block a lane (33 words). */
enum { SYNC_SHARED = STK_JPEGPAR_SYNC_LANES * 36 * 4, WRITE_SHARED = STK_JPEGPAR_WRITE_LANES * (20 + 33) * 4, ENTRY = 2 };

const char *const stk__cuda_jpeg_phase_names[] = {"count", "unstuff", "own", "near", "far", "chain", "write", "dc", "idct", "color"};

enum stk_status stk__cuda_jpeg_kernels_load(struct stk_gpu_device *dev, struct stk_cuda_jpeg_kernels *kernels, struct stk_error *err)
{
	static const struct {
		const char *module, *name;
		size_t shared;
	} rows[STK_CUDA_JPEG_PHASES] = {
		{"jpeg_gpu_unstuff", "jpeg_count", 0},
		{"jpeg_gpu_unstuff", "jpeg_unstuff", 0},
		{"jpeg_gpu_synchronise", "jpeg_own", SYNC_SHARED + STK_JPEGPAR_MAX_SET * ENTRY},
		{"jpeg_gpu_synchronise", "jpeg_near", SYNC_SHARED + STK_JPEGPAR_MAX_SET * ENTRY},
		{"jpeg_gpu_synchronise", "jpeg_far", 0},
		{"jpeg_gpu_synchronise", "jpeg_chain", 0},
		{"jpeg_gpu_coefficients", "jpeg_write", WRITE_SHARED + STK_JPEGPAR_MAX_SET * ENTRY},
		{"jpeg_gpu_coefficients", "jpeg_dc", 0},
		{"jpeg_gpu_pixels", "jpeg_idct", 0},
		{"jpeg_gpu_pixels", "jpeg_color", 0},
	};
	for (int i = 0; i < STK_CUDA_JPEG_PHASES; i++) {
		enum stk_status status = stk__gpu_kernel(dev, rows[i].module, rows[i].name, rows[i].shared, &kernels->kernel[i], err);
		if (status)
			return status;
	}
	return STK_OK;
}

enum stk_status stk__cuda_jpeg_launch(struct stk_gpu_device *dev, const struct stk_cuda_jpeg_kernels *kernels,
	const struct stk_jpegpar_view *view, enum stk_cuda_jpeg_phase phase, stk_gpu_stream stream, struct stk_error *err)
{
	unsigned tables = view->max_set * ENTRY;
	enum { IDCT_BLOCKS = STK_JPEGPAR_IDCT_BLOCKS * STK_JPEGPAR_IDCT_WARPS };
	const struct {
		uint32_t blocks, threads, shared;
	} grids[STK_CUDA_JPEG_PHASES] = {
		{view->n_chunks, 256, 0},
		{view->n_chunks, 256, 0},
		{view->n_sync_work, STK_JPEGPAR_SYNC_LANES, SYNC_SHARED + tables},
		{view->n_sync_work, STK_JPEGPAR_SYNC_LANES, SYNC_SHARED + tables},
		{(view->n_segments + STK_JPEGPAR_FAR_LANES - 1) / STK_JPEGPAR_FAR_LANES, STK_JPEGPAR_FAR_LANES, 0},
		{view->n_streams, 256, 0},
		{view->n_write_work, STK_JPEGPAR_WRITE_LANES, WRITE_SHARED + tables},
		{view->n_streams, 256, 0},
		{(view->n_idct + IDCT_BLOCKS - 1) / IDCT_BLOCKS, 32 * STK_JPEGPAR_IDCT_WARPS, 0},
		{view->n_rows / STK_JPEGPAR_COLOR_ROWS, 4 * STK_JPEGPAR_COLOR_ROWS, 0},
	};
	if (!grids[phase].blocks)
		return STK_OK;
	struct stk_gpu_grid grid = {.blocks = {grids[phase].blocks}, .threads = {grids[phase].threads}, .shared = grids[phase].shared};
	struct stk_jpegpar_view copy = *view;
	return stk__gpu_launch(dev, stream, kernels->kernel[phase], grid, (void *[]){&copy}, err);
}
