/* SPDX-License-Identifier: Apache-2.0
 * Our own decoder of progressive JPEG: Huffman, 8 bits, gray or three components. All scans are decoded down to the window's last row, coefficients
 * are kept for the window's MCUs alone, and samples become pixels as in baseline files. Gives the bytes that libjpeg-turbo gives.
 *
 * It takes what an encoder writes: each scan follows those before it as the standard says, and together they tell every coefficient to its last bit
 * (libjpeg-turbo smooths blocks of images of which they do not). Everything else is libjpeg-turbo's, as is damage wherever it is met. */
#ifndef STK_CODEC_JPEG_PROGRESSIVE_H
#define STK_CODEC_JPEG_PROGRESSIVE_H

#include "base/error.h"
#include "base/memory.h"
#include "codec/codec.h"
#include "codec/jpeg_header.h"
#include "kernel/jpeg/jpeg_kernels.h"

/* window and dst as stored. All memory is scratch's, until the caller takes it back. STK_UNSUPPORTED: not for this decoder, more than max_scans scans
 * included, which is known before the image's memory is taken; STK_CORRUPT: damage (dst holds garbage); STK_NO_MEMORY. Fills no error. */
STK_MUST_USE enum stk_status stk__jpeg_progressive_decode(const struct stk_jpeg_kernels *kernels, const struct stk_jpeg_header *h,
	int max_scans, const struct stk_decode *request, struct stk_arena *scratch);

#endif
