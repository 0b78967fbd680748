/* SPDX-License-Identifier: Apache-2.0
 * Lays out the scans of a progressive file for phase decode_scans (kernel/jpeg_gpu/jpeg_gpu.h). */
#ifndef STK_CODEC_JPEG_GPU_SCRIPT_H
#define STK_CODEC_JPEG_GPU_SCRIPT_H

#include "codec/jpeg_gpu/jpeg_gpu_plan.h"

/* The geometry of a progressive file that the GPU may decode. */
bool stk__jpeg_gpu_script_frame(const struct stk_jpeg_header *h, struct stk_jpeg_scan *frame);

struct stk_jpeg_gpu_script {
	const struct stk_jpeg_gpu_file *file;
	const struct stk_jpeg_scan *frame;
	uint32_t mcu_rows; /* that the window needs, from the image's first on */
	/* Room for MAX_SCANS scans, numbered from bitstream 0 of the file; NULL: they are only counted. */
	struct stk_jpeg_gpu_scan *scans;
	/* Called for each bitstream in order, if not NULL, with src and src_size. data: its bytes. False: no room. */
	bool (*add)(void *user, struct stk_jpeg_gpu_bitstream bitstream, const uint8_t *data);
	void *user;
};

/* What the scans take. */
struct stk_jpeg_gpu_script_size {
	uint32_t scans, bitstreams, steps;
};

/* False: the CPU has to decode the file: scans that do not follow each other as the standard says (jpeg_script.h), more than MAX_SCANS or the file's
 * max_scans of them, scans of more than 96 KiB, tables that are missing or impossible, restart markers out of order, or tiny restart intervals. A pure function of the file. */
bool stk__jpeg_gpu_script_plan(const struct stk_jpeg_gpu_script *script, struct stk_jpeg_gpu_script_size *size);

#endif
