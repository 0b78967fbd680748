/* SPDX-License-Identifier: Apache-2.0
 * Lays out the scans of a progressive file for phase decode_scans (kernel/jpeg_gpu/jpeg_gpu.h). */
#ifndef STK_CODEC_JPEG_GPU_SCRIPT_H
#define STK_CODEC_JPEG_GPU_SCRIPT_H

#include "codec/jpeg_gpu/jpeg_gpu_plan.h"

/* Computes the geometry of a progressive file. Returns false if the GPU cannot decode it. */
bool stk__jpeg_gpu_script_frame(const struct stk_jpeg_header *h, struct stk_jpeg_scan *frame);

struct stk_jpeg_gpu_script {
	const struct stk_jpeg_gpu_file *file;
	const struct stk_jpeg_scan *frame;
	uint32_t mcu_rows; /* number of rows of MCUs, from the top of the image, that the window needs */
	/* Memory for STK_JPEG_GPU_MAX_SCANS scans, to which they are written. They number the file's bitstreams from 0 on. NULL: scans are only counted. */
	struct stk_jpeg_gpu_scan *scans;
	/* Called for each bitstream in order, unless it is NULL. Only src, src_size and last are set in `bitstream`. data: the bitstream's bytes. Returns
	 * false if there is no space for more bitstreams; stk__jpeg_gpu_script_plan then returns false. */
	bool (*add)(void *user, struct stk_jpeg_gpu_bitstream bitstream, const uint8_t *data);
	void *user;
};

/* Numbers of scans and bitstreams of a file, and of steps: rows of MCUs plus the longest delay of a scan. */
struct stk_jpeg_gpu_script_size {
	uint32_t scans, bitstreams, steps;
};

/* Lays out the scans. Returns false if the CPU must decode the file. Reasons: EOI is missing; scans do not follow each other as the standard says
 * (jpeg_script.h); there are more than STK_JPEG_GPU_MAX_SCANS, or than file->max_scans if that is above 0; a scan is larger than 96 KiB; tables are missing
 * or invalid; restart markers are missing or out of order, or restart intervals are tiny. Apart from `add`, the result depends only on the file. */
bool stk__jpeg_gpu_script_plan(const struct stk_jpeg_gpu_script *script, struct stk_jpeg_gpu_script_size *size);

#endif
