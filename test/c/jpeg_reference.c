/* SPDX-License-Identifier: Apache-2.0 */
#include "jpeg_reference.h"

#include "jpeg_scripts.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

struct manager {
	struct jpeg_error_mgr base;
	jmp_buf jump;
};

static void leave(j_common_ptr info)
{
	longjmp(((struct manager *)info->err)->jump, 1);
}

static void silent(j_common_ptr info)
{
	(void)info;
}

/* Counts warnings, except those about bytes between segments, which do not affect pixels. */
static void count_warning(j_common_ptr info, int level)
{
	info->err->num_warnings += level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA;
}

static void set_up(struct manager *m)
{
	jpeg_std_error(&m->base);
	m->base.error_exit = leave;
	m->base.output_message = silent;
	m->base.emit_message = count_warning;
}

uint8_t *jpeg_reference_decode(const uint8_t *data, size_t size, int rows, int *width, int *height, long *warnings)
{
	struct jpeg_decompress_struct info;
	struct manager manager;
	uint8_t *volatile pixels = NULL;
	set_up(&manager);
	info.err = &manager.base;
	jpeg_create_decompress(&info);
	if (setjmp(manager.jump)) {
		free(pixels);
		jpeg_destroy_decompress(&info);
		return NULL;
	}
	jpeg_mem_src(&info, data, size);
	jpeg_read_header(&info, TRUE);
	info.out_color_space = JCS_RGB;
	jpeg_start_decompress(&info);
	*width = (int)info.output_width;
	*height = (int)info.output_height;
	pixels = malloc((size_t)*width * (size_t)*height * 3);
	while ((int)info.output_scanline < rows && info.output_scanline < info.output_height) {
		JSAMPROW row = pixels + (size_t)info.output_scanline * info.output_width * 3;
		jpeg_read_scanlines(&info, &row, 1);
	}
	*warnings = info.err->num_warnings;
	jpeg_abort_decompress(&info);
	jpeg_destroy_decompress(&info);
	return pixels;
}

static uint32_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
	x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
	return (uint32_t)(x >> 32);
}

static int texture_at(int texture, uint64_t seed, int x, int y, int c)
{
	uint32_t noise = mix(seed + (uint64_t)x * 7919 + (uint64_t)y * 104729 + (uint64_t)c);
	switch (texture) {
	case 0:
		return (x * (1 + c) + y * (3 - c) + (int)(noise & 7)) & 255;
	case 1:
		return (int)(noise & 255);
	case 2:
		return (x / 8 % 4 * 60 + (x & 7) * 8 + (y & 7) * 3) & 255;
	case 3:
		return x / 64 % 2 ? (int)(noise & 255) : (x + y + c * 40) & 255;
	default:
		return 100 + 20 * c;
	}
}

static void give_cr_its_own_tables(struct jpeg_compress_struct *info)
{
	for (int ac = 0; ac < 2; ac++) {
		JHUFF_TBL **tables = ac ? info->ac_huff_tbl_ptrs : info->dc_huff_tbl_ptrs;
		tables[2] = jpeg_alloc_huff_table((j_common_ptr)info);
		/* copies luma's tables for Cr, so that they differ from Cb's */
		memcpy(tables[2], tables[0], sizeof *tables[2]);
	}
	info->comp_info[2].dc_tbl_no = info->comp_info[2].ac_tbl_no = 2;
}

static void make_progressive(struct jpeg_compress_struct *info, int most, uint64_t seed)
{
	if (most > 1)
		do
			test_jpeg_script(info, seed++, false);
		while (info->num_scans > most);
	else
		jpeg_simple_progression(info);
}

uint8_t *jpeg_reference_encode(const struct jpeg_shape *shape, uint64_t seed, size_t *size)
{
	struct jpeg_compress_struct info;
	struct manager manager;
	unsigned char *out = NULL;
	unsigned long length = 0;
	set_up(&manager);
	info.err = &manager.base;
	jpeg_create_compress(&info);
	uint8_t *row = malloc((size_t)shape->width * 3);
	if (setjmp(manager.jump)) {
		info.err->format_message((j_common_ptr)&info, (char[JMSG_LENGTH_MAX]){0}),
			fprintf(stderr, "libjpeg cannot encode this: %d\n", info.err->msg_code);
		abort();
	}
	jpeg_mem_dest(&info, &out, &length);
	info.image_width = (JDIMENSION)shape->width;
	info.image_height = (JDIMENSION)shape->height;
	info.input_components = shape->components;
	info.in_color_space = shape->components == 1 ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_set_defaults(&info);
	jpeg_set_quality(&info, shape->quality, TRUE);
	info.optimize_coding = shape->optimize;
	info.restart_interval = (unsigned)shape->restart;
	for (int c = 0; c < shape->components; c++) {
		info.comp_info[c].h_samp_factor = shape->h[c];
		info.comp_info[c].v_samp_factor = shape->v[c];
	}
	if (shape->three_tables && shape->components == 3)
		give_cr_its_own_tables(&info);
	if (shape->scans)
		make_progressive(&info, shape->scans, seed);
	jpeg_start_compress(&info, TRUE);
	for (int y = 0; y < shape->height; y++) {
		for (int x = 0; x < shape->width; x++)
			for (int c = 0; c < shape->components; c++)
				row[x * shape->components + c] = (uint8_t)texture_at(shape->texture, seed, x, y, c);
		JSAMPROW rows = row;
		jpeg_write_scanlines(&info, &rows, 1);
	}
	jpeg_finish_compress(&info);
	jpeg_destroy_compress(&info);
	free(row);
	*size = length;
	return out;
}
