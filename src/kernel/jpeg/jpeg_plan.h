/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of a JPEG file for decoders: plain data without pointers, so that the CPU and the GPU decode from the same description. Made by
 * codec/jpeg_header.h (tables, components) and codec/jpeg_plan.c (scan, window). Numbers in brackets are clauses of ITU-T T.81. */
#ifndef STK_KERNEL_JPEG_PLAN_H
#define STK_KERNEL_JPEG_PLAN_H

#include "tensor/image.h"

#define STK_JPEG_MAX_COMPONENTS 4
#define STK_JPEG_MAX_BLOCKS 10 /* maximum number of blocks in an MCU with several components [B.2.3] */
#define STK_JPEG_TABLES 4      /* number of destinations (table ids) for each kind of table */

/* The colour space of the samples, by libjpeg's rules for JFIF, Adobe markers and component ids. */
enum stk_jpeg_color { STK_JPEG_GRAY, STK_JPEG_YCBCR, STK_JPEG_RGB, STK_JPEG_CMYK, STK_JPEG_YCCK, STK_JPEG_UNKNOWN };

/* A table as stored in a DHT segment [B.2.4.2]: the number of codes of each length 1..16, then the symbols in the order of their codes. values past the sum
 * of counts are 0, so that equal tables have equal bytes. The counts may be invalid; stk__jpeg_huffman_valid (codec/jpeg_header.h) checks them. */
struct stk_jpeg_huffman {
	uint8_t counts[16];
	uint8_t values[256];
};

/* The tables that are defined when the first scan begins. A bit of a mask is set if the table with that id was defined; other tables are uninitialised. */
struct stk_jpeg_tables {
	struct stk_jpeg_huffman dc[STK_JPEG_TABLES], ac[STK_JPEG_TABLES];
	uint16_t quant[STK_JPEG_TABLES][64]; /* in natural order (row by row) */
	uint8_t dc_mask, ac_mask, quant_mask;
	uint8_t quant_wide; /* mask of the tables whose values have 16 bits in the file */
};

struct stk_jpeg_component {
	uint8_t id;
	uint8_t h, v;   /* sampling factors, 1..4; both are 1 if the scan has only this component */
	uint8_t quant;  /* id of its quantisation table; a valid id is 0..3 */
	uint8_t dc, ac; /* ids of its Huffman tables in the first scan */
	int32_t width;  /* in samples: ceil(image width * h / h_max), not padded to whole blocks */
	int32_t height;
};

/* How a component is upsampled: with a triangle filter of libjpeg ("fancy upsampling"), or by replication if libjpeg has no filter for the factors. */
enum stk_jpeg_upsample {
	STK_JPEG_UP_NONE,
	STK_JPEG_UP_H2V1,      /* triangle along x */
	STK_JPEG_UP_H1V2,      /* triangle along y */
	STK_JPEG_UP_H2V2,      /* triangle along both axes */
	STK_JPEG_UP_REPLICATE, /* each sample is repeated; all other integer factors */
};

/* A baseline or extended sequential Huffman scan with 8 bits that contains all components; the fast decoders of sequential files accept only such scans.
 * codec/jpeg_progressive.c describes the frame of a progressive file in the same struct. If the image is decoded at a fraction of its size
 * (stk__jpeg_scan_scale), all numbers of pixels and samples are those after scaling. */
struct stk_jpeg_scan {
	int32_t width, height;
	int32_t components;       /* 1 or 3 */
	int32_t h_max, v_max;     /* largest sampling factors */
	int32_t scale;            /* number of pixels that 8 pixels of the file become along each axis: 8, 4, 2 or 1 */
	int32_t mcu_w, mcu_h;     /* extents of an MCU in pixels: scale * h_max and scale * v_max */
	int32_t mcus_x, mcus_y;   /* number of MCUs that cover the image */
	int32_t blocks;           /* blocks in an MCU, 1..10 */
	int32_t restart_interval; /* in MCUs; 0: no restart markers */
	int32_t rows_together; /* number of rows of MCUs that libjpeg decodes at a time: the vertical sampling factor of a single component, otherwise 1 */
	enum stk_jpeg_color color; /* GRAY, YCBCR or RGB */
	uint64_t offset, size;     /* offset in the file and size (upper bound) of the coded bytes, with stuffing and RST markers */
	struct stk_jpeg_component component[3];
	uint8_t block_size[3]; /* samples along a side of a component's blocks: `scale`, or up to 8 for subsampled components */
	uint8_t upsample[3];   /* enum stk_jpeg_upsample */
	uint8_t block_component[STK_JPEG_MAX_BLOCKS];                       /* for each block of an MCU, in coded order: its component */
	uint8_t block_x[STK_JPEG_MAX_BLOCKS], block_y[STK_JPEG_MAX_BLOCKS]; /* position in the MCU of each block, in blocks */
};

/* A window in a scan. MCUs mcu_x0 .. mcu_x1-1 by mcu_y0 .. mcu_y1-1 contain every sample that the window's pixels depend on, including the neighbours that
 * fancy upsampling reads. Entropy decoding begins at the scan's start and ends after the whole of row mcu_y1-1. So it finds the same damage as
 * libjpeg-turbo, which decodes row by row. */
struct stk_jpeg_window {
	struct stk_rect pixels; /* as stored, before orientation is applied */
	int32_t mcu_x0, mcu_y0, mcu_x1, mcu_y1;
};

#endif
