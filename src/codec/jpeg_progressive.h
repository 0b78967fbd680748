/* SPDX-License-Identifier: Apache-2.0
 * Stoker's own decoder of progressive JPEG: Huffman, 8 bits, gray or three components. It decodes all scans down to the window's last row, stores
 * coefficients only for the window's MCUs, and makes pixels as for baseline files. The pixels equal libjpeg-turbo's.
 *
 * It supports files as encoders write them: each scan follows the earlier ones as the standard says, and together they give every coefficient to its last
 * bit (otherwise libjpeg-turbo would smooth blocks). libjpeg-turbo decodes all other files, and handles all damaged ones. */
#ifndef STK_CODEC_JPEG_PROGRESSIVE_H
#define STK_CODEC_JPEG_PROGRESSIVE_H

#include "base/error.h"
#include "base/memory.h"
#include "codec/codec.h"
#include "codec/jpeg_header.h"
#include "kernel/jpeg/jpeg_kernels.h"

/* Decodes a window. window and dst are as stored in the file, without orientation. All memory is taken from scratch, and the caller releases it.
 * STK_UNSUPPORTED: this decoder does not support the file, or the file has more than max_scans scans, which is found before much memory is taken;
 * STK_CORRUPT: the file is damaged or the decode was cancelled, and the pixels in dst are undefined; STK_NO_MEMORY. Does not fill in an error. */
STK_MUST_USE enum stk_status stk__jpeg_progressive_decode(const struct stk_jpeg_kernels *kernels, const struct stk_jpeg_header *h,
	int max_scans, const struct stk_decode *request, struct stk_arena *scratch);

#endif
