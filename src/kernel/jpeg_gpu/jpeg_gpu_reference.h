/* SPDX-License-Identifier: Apache-2.0
 * Plain C versions of the phases of jpeg_gpu.h, with which the tests compare the kernels. Each function processes one item, as a thread, a warp or a thread
 * block of the kernel does. Only the tests are linked with these functions. */
#ifndef STK_KERNEL_JPEG_GPU_REFERENCE_H
#define STK_KERNEL_JPEG_GPU_REFERENCE_H

#include "kernel/jpeg_gpu/jpeg_gpu.h"

void stk__jpeg_gpu_count(const struct stk_jpeg_gpu_view *v, uint32_t chunk);
void stk__jpeg_gpu_unstuff(const struct stk_jpeg_gpu_view *v, uint32_t chunk);
void stk__jpeg_gpu_decode_subsequence(const struct stk_jpeg_gpu_view *v, uint32_t subsequence);
void stk__jpeg_gpu_synchronise(const struct stk_jpeg_gpu_view *v, uint32_t subsequence);
void stk__jpeg_gpu_synchronise_straggler(const struct stk_jpeg_gpu_view *v, uint32_t subsequence);
void stk__jpeg_gpu_resolve(const struct stk_jpeg_gpu_view *v, uint32_t bitstream);
void stk__jpeg_gpu_decode_coefficients(const struct stk_jpeg_gpu_view *v, uint32_t piece);
void stk__jpeg_gpu_dc(const struct stk_jpeg_gpu_view *v, uint32_t bitstream);
void stk__jpeg_gpu_decode_scans(const struct stk_jpeg_gpu_view *v, uint32_t file);
void stk__jpeg_gpu_idct(const struct stk_jpeg_gpu_view *v, uint32_t block);
void stk__jpeg_gpu_color(const struct stk_jpeg_gpu_view *v, uint32_t row);

/* Runs phases first .. end - 1 for every item of the batch. */
void stk__jpeg_gpu_run(const struct stk_jpeg_gpu_view *v, enum stk_jpeg_gpu_phase first, enum stk_jpeg_gpu_phase end);

#endif
