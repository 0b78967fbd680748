/* SPDX-License-Identifier: Apache-2.0
 * Decodes JPEGs with libjpeg-turbo: files that Stoker's own decoders do not support, and files that they find damaged, so that libjpeg-turbo decides whether
 * they are damaged. */
#ifndef STK_CODEC_JPEG_TURBO_H
#define STK_CODEC_JPEG_TURBO_H

#include "codec/codec_impl.h"
#include "codec/jpeg_header.h"

struct stk_jpeg_turbo;
STK_MUST_USE enum stk_status stk__jpeg_turbo_create(struct stk_arena *scratch, struct stk_jpeg_turbo **out, struct stk_error *err);
void stk__jpeg_turbo_destroy(struct stk_jpeg_turbo *t);

/* Decodes a window. window and dst are as stored in the file, without orientation; header: that of request->data. Rows below the window are not read. */
STK_MUST_USE enum stk_status stk__jpeg_turbo_decode(struct stk_jpeg_turbo *t, const struct stk_jpeg_header *header,
	const struct stk_codec_limits *limits, const struct stk_decode *request, struct stk_error *err);

#endif
