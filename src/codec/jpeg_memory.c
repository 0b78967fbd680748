/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_memory.h"

#include <string.h>

#include <jerror.h>

enum { ROW_ALIGN = 64 }; /* rows begin at multiples of this many bytes, since libjpeg-turbo's SIMD code reads and writes whole vectors */

/* libjpeg lets its memory manager define this struct. Here it keeps the whole array in memory, without a backing store. */
struct jvirt_barray_control {
	JBLOCKARRAY rows;
	JDIMENSION row_count, blocks_per_row;
	boolean zeroed;
	jvirt_barray_ptr next;
};

static struct stk_jpeg_memory *memory_of(j_common_ptr cinfo)
{
	return cinfo->client_data;
}

/* Takes memory from the arena. If the arena has no more, does not return, since libjpeg's error handler jumps. */
static void *allocate(j_common_ptr cinfo, size_t size)
{
	void *p = stk__arena_take(memory_of(cinfo)->arena, size);
	if (!p)
		ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
	return p;
}

static void *alloc_small(j_common_ptr cinfo, int pool, size_t size)
{
	(void)pool;
	return allocate(cinfo, size);
}

static void *alloc_large(j_common_ptr cinfo, int pool, size_t size)
{
	return alloc_small(cinfo, pool, size);
}

/* Allocates `count` rows of at least `size` bytes, one after the other, and an array of pointers to them, which it returns. */
static void **alloc_rows(j_common_ptr cinfo, size_t size, JDIMENSION count)
{
	size = (size + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
	void **rows = allocate(cinfo, count * sizeof *rows);
	uint8_t *data = allocate(cinfo, count * size);
	for (JDIMENSION i = 0; i < count; i++)
		rows[i] = data + i * size;
	return rows;
}

static JSAMPARRAY alloc_sarray(j_common_ptr cinfo, int pool, JDIMENSION samples, JDIMENSION rows)
{
	(void)pool;
	return (JSAMPARRAY)alloc_rows(cinfo, samples * sizeof(JSAMPLE), rows);
}

static JBLOCKARRAY alloc_barray(j_common_ptr cinfo, int pool, JDIMENSION blocks, JDIMENSION rows)
{
	(void)pool;
	return (JBLOCKARRAY)alloc_rows(cinfo, blocks * sizeof(JBLOCK), rows);
}

/* Always fails. Only colour quantisation in two passes requests such an array, and no decoder here uses that. */
static jvirt_sarray_ptr request_sarray(j_common_ptr cinfo, int pool, boolean zeroed, JDIMENSION samples, JDIMENSION rows, JDIMENSION access)
{
	(void)pool, (void)zeroed, (void)samples, (void)rows, (void)access;
	ERREXIT(cinfo, JERR_NOT_COMPILED);
	return NULL;
}

static jvirt_barray_ptr request_barray(j_common_ptr cinfo, int pool, boolean zeroed, JDIMENSION blocks, JDIMENSION rows, JDIMENSION access)
{
	(void)pool, (void)access;
	struct stk_jpeg_memory *m = memory_of(cinfo);
	jvirt_barray_ptr a = allocate(cinfo, sizeof *a);
	*a = (struct jvirt_barray_control){.row_count = rows, .blocks_per_row = blocks, .zeroed = zeroed, .next = m->arrays};
	m->arrays = a;
	return a;
}

/* Allocates all coefficients of an image with several scans, which are most of its memory, before libjpeg decodes anything. */
static void realize_arrays(j_common_ptr cinfo)
{
	struct stk_jpeg_memory *m = memory_of(cinfo);
	for (jvirt_barray_ptr a = m->arrays; a; a = a->next) {
		a->rows = alloc_barray(cinfo, JPOOL_IMAGE, a->blocks_per_row, a->row_count);
		if (a->zeroed && a->row_count)
			memset(a->rows[0], 0, (size_t)a->row_count * a->blocks_per_row * sizeof(JBLOCK));
	}
	m->arrays = NULL;
}

static JBLOCKARRAY access_barray(j_common_ptr cinfo, jvirt_barray_ptr a, JDIMENSION start, JDIMENSION count, boolean writable)
{
	(void)writable;
	if (!a->rows || start > a->row_count || count > a->row_count - start)
		ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
	return a->rows + start;
}

static void free_pool(j_common_ptr cinfo, int pool)
{
	(void)pool;
	memory_of(cinfo)->arrays = NULL;
}

void stk__jpeg_memory_install(j_decompress_ptr cinfo, struct stk_jpeg_memory *m, struct stk_arena *arena)
{
	*m = (struct stk_jpeg_memory){.arena = arena};
	cinfo->client_data = m;
	struct jpeg_memory_mgr *mem = cinfo->mem;
	mem->alloc_small = alloc_small;
	mem->alloc_large = alloc_large;
	mem->alloc_sarray = alloc_sarray;
	mem->alloc_barray = alloc_barray;
	mem->request_virt_sarray = request_sarray;
	mem->request_virt_barray = request_barray;
	mem->realize_virt_arrays = realize_arrays;
	mem->access_virt_barray = access_barray;
	mem->free_pool = free_pool;
}

void stk__jpeg_memory_forget_tables(j_decompress_ptr cinfo)
{
	for (int i = 0; i < NUM_QUANT_TBLS; i++)
		cinfo->quant_tbl_ptrs[i] = NULL;
	for (int i = 0; i < NUM_HUFF_TBLS; i++)
		cinfo->dc_huff_tbl_ptrs[i] = cinfo->ac_huff_tbl_ptrs[i] = NULL;
}
