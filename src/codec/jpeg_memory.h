/* SPDX-License-Identifier: Apache-2.0
 * libjpeg's memory, taken from an arena: a warm decoder allocates nothing, and one that runs out of memory fails before it decodes. Only the memory that
 * libjpeg takes while the object is made (a few KB) is its own. Tables live as long as their image, so no image is decoded with those of another. */
#ifndef STK_CODEC_JPEG_MEMORY_H
#define STK_CODEC_JPEG_MEMORY_H

#include "base/memory.h"

#include <stdio.h> /* jpeglib.h needs it */

#include <jpeglib.h>

struct stk_jpeg_memory {
	struct jpeg_memory_mgr base; /* libjpeg's own functions, for the permanent pool */
	struct stk_arena *arena;     /* the arena's owner resets it between images, after jpeg_abort or jpeg_finish */
	jvirt_barray_ptr arrays;     /* arrays that libjpeg has requested and that have no memory yet */
	size_t permanent;            /* bytes requested from libjpeg's permanent pool */
};

/* Puts the functions of m into cinfo->mem. Call it right after jpeg_create_decompress. cinfo->client_data must be &m for the object's life. */
void stk__jpeg_memory_install(j_decompress_ptr cinfo, struct stk_jpeg_memory *m, struct stk_arena *arena);

/* Forgets the tables of the last image, which were in the arena. Call it before each image. */
void stk__jpeg_memory_forget_tables(j_decompress_ptr cinfo);

#endif
