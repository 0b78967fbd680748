/* SPDX-License-Identifier: Apache-2.0
 * The kernels of kernel/jpeg_*.cu: how many thread blocks each phase of kernel/jpeg_gpu/jpeg_gpu.h takes, and their launches. */
#ifndef STK_CODEC_CUDA_JPEG_PHASES_H
#define STK_CODEC_CUDA_JPEG_PHASES_H

#include "gpu/gpu.h"
#include "kernel/jpeg_gpu/jpeg_gpu.h"

enum stk_cuda_jpeg_phase {
	STK_CUDA_JPEG_COUNT,
	STK_CUDA_JPEG_UNSTUFF,
	STK_CUDA_JPEG_OWN,
	STK_CUDA_JPEG_NEAR,
	STK_CUDA_JPEG_FAR,
	STK_CUDA_JPEG_CHAIN,
	STK_CUDA_JPEG_WRITE,
	STK_CUDA_JPEG_DC,
	STK_CUDA_JPEG_IDCT,
	STK_CUDA_JPEG_COLOR,
	STK_CUDA_JPEG_PHASES
};
extern const char *const stk__cuda_jpeg_phase_names[STK_CUDA_JPEG_PHASES];

struct stk_cuda_jpeg_kernels {
	stk_gpu_kernel kernel[STK_CUDA_JPEG_PHASES];
};

/* Loads the modules. Inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__cuda_jpeg_kernels_load(
	struct stk_gpu_device *dev, struct stk_cuda_jpeg_kernels *kernels, struct stk_error *err);

/* Launches one phase; view's addresses are the device's. Returns at once. Inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__cuda_jpeg_launch(struct stk_gpu_device *dev, const struct stk_cuda_jpeg_kernels *kernels,
	const struct stk_jpegpar_view *view, enum stk_cuda_jpeg_phase phase, stk_gpu_stream stream, struct stk_error *err);

#endif
