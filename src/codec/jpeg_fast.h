/* SPDX-License-Identifier: Apache-2.0
 * Stoker's own decoder of baseline JPEG: Huffman, 8 bits, gray or three components in one scan. It decodes only the data that the window needs. The pixels
 * equal libjpeg-turbo's. If it finds damage it stops; libjpeg-turbo then decodes or refuses the file. */
#ifndef STK_CODEC_JPEG_FAST_H
#define STK_CODEC_JPEG_FAST_H

#include "base/error.h"
#include "base/memory.h"
#include "codec/codec.h"
#include "codec/jpeg_header.h"
#include "kernel/jpeg/jpeg_kernels.h"

struct stk_jpeg_fast;
/* Creates a decoder; returns NULL if memory runs out. `kernels` must outlive the decoder. */
struct stk_jpeg_fast *stk__jpeg_fast_create(const struct stk_jpeg_kernels *kernels);
void stk__jpeg_fast_destroy(struct stk_jpeg_fast *f);

/* Decodes a window. window and dst are as stored in the file, without orientation. end: from stk__jpeg_find_eoi. STK_UNSUPPORTED: this decoder does not
 * support the file; STK_CORRUPT: damage, or a cancelled decode: the pixels in dst are undefined; STK_NO_MEMORY. Does not fill in an error. */
STK_MUST_USE enum stk_status stk__jpeg_fast_decode(struct stk_jpeg_fast *f, const struct stk_jpeg_header *header, size_t end,
	const struct stk_decode *request, struct stk_arena *scratch);

#endif
