/* SPDX-License-Identifier: Apache-2.0
 * Loads and launches the kernels of the phases in kernel/jpeg_gpu/jpeg_gpu.h. */
#ifndef STK_CODEC_JPEG_GPU_PHASES_H
#define STK_CODEC_JPEG_GPU_PHASES_H

#include "gpu/gpu.h"
#include "kernel/jpeg_gpu/jpeg_gpu.h"

extern const char *const stk__jpeg_gpu_phase_names[STK_JPEG_GPU_PHASES];

struct stk_jpeg_gpu_kernels {
	stk_gpu_kernel kernel[STK_JPEG_GPU_PHASES];
};

/* Loads the modules. Call it inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_kernels_load(
	struct stk_gpu_device *dev, struct stk_jpeg_gpu_kernels *kernels, struct stk_error *err);

/* Launches one phase and returns at once. view: holds device addresses. Call it inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__jpeg_gpu_launch(struct stk_gpu_device *dev, const struct stk_jpeg_gpu_kernels *kernels,
	const struct stk_jpeg_gpu_view *view, enum stk_jpeg_gpu_phase phase, stk_gpu_stream stream, struct stk_error *err);

#endif
