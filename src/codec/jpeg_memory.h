/* SPDX-License-Identifier: Apache-2.0
 * Makes libjpeg take its memory from an arena. So a decoder allocates nothing after its first images, and if memory runs out it fails before it decodes.
 * Only what libjpeg allocates while the object is created (a few KB) is not in the arena. Tables live only as long as their image, so no image can be
 * decoded with another image's tables. */
#ifndef STK_CODEC_JPEG_MEMORY_H
#define STK_CODEC_JPEG_MEMORY_H

#include "base/memory.h"

#include <stdio.h> /* jpeglib.h needs it */

#include <jpeglib.h>

struct stk_jpeg_memory {
	struct jpeg_memory_mgr base; /* libjpeg's own functions, which still allocate the permanent pool */
	struct stk_arena *arena;     /* the caller resets the arena between images, after jpeg_abort_decompress */
	jvirt_barray_ptr arrays;     /* arrays that libjpeg has requested and that have no memory yet */
	size_t permanent;            /* number of bytes requested from libjpeg's permanent pool */
};

/* Replaces the memory manager of cinfo by m. Call it right after jpeg_create_decompress. cinfo->client_data must be &m as long as the object exists. */
void stk__jpeg_memory_install(j_decompress_ptr cinfo, struct stk_jpeg_memory *m, struct stk_arena *arena);

/* Clears the pointers to the last image's tables, whose memory is in the arena. Call it before each image. */
void stk__jpeg_memory_forget_tables(j_decompress_ptr cinfo);

#endif
