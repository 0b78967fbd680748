/* SPDX-License-Identifier: Apache-2.0
 *
 * What a JPEG decoder must know, as plain data without pointers: cores and CUDA cores decode from the same description.
 * Made by codec/jpeg_header.h (tables, components) and codec/jpeg_plan.c (scan, window). Numbers in brackets are clauses of ITU-T T.81. */
#ifndef STK_KERNEL_JPEG_PLAN_H
#define STK_KERNEL_JPEG_PLAN_H

#include "tensor/image.h"

#define STK_JPEG_MAX_COMPONENTS 4
#define STK_JPEG_MAX_BLOCKS 10 /* of an MCU with several components [B.2.3] */
#define STK_JPEG_TABLES 4      /* destinations of each kind */

/* What the samples mean, by libjpeg's rules for JFIF, Adobe and component ids. */
enum stk_jpeg_color { STK_JPEG_GRAY, STK_JPEG_YCBCR, STK_JPEG_RGB, STK_JPEG_CMYK, STK_JPEG_YCCK, STK_JPEG_UNKNOWN };

/* A table as it stands in DHT [B.2.4.2]: codes of each length 1..16, then the symbols in the order of their codes. values past the sum of
 * counts are 0, so that equal tables are equal bytes. Codes are not checked for overflow of their length here. */
struct stk_jpeg_huffman {
	uint8_t counts[16];
	uint8_t values[256];
};

/* The tables in force when the first scan begins. A bit of a mask is set where the destination was defined; what was not is undefined memory. */
struct stk_jpeg_tables {
	struct stk_jpeg_huffman dc[STK_JPEG_TABLES], ac[STK_JPEG_TABLES];
	uint16_t quant[STK_JPEG_TABLES][64]; /* natural (row by row) order */
	uint8_t dc_mask, ac_mask, quant_mask;
	uint8_t quant_wide; /* mask of those stored in 16 bits */
};

struct stk_jpeg_component {
	uint8_t id;
	uint8_t h, v;   /* sampling factors, 1..4; both 1 when the scan has this component alone */
	uint8_t quant;  /* destination of its quantisation table, 0..3 where defined */
	uint8_t dc, ac; /* destinations of its Huffman tables in the first scan */
	int32_t width;  /* samples: ceil(image width * h / h_max), without padding to whole blocks */
	int32_t height;
};

/* How a component is upsampled to the image's size. Fancy: libjpeg's triangle filters; replication where it has none. */
enum stk_jpeg_upsample {
	STK_JPEG_UP_NONE,
	STK_JPEG_UP_H2V1,      /* triangle along x */
	STK_JPEG_UP_H1V2,      /* triangle along y */
	STK_JPEG_UP_H2V2,      /* triangle in both */
	STK_JPEG_UP_REPLICATE, /* integer factors */
};

/* A baseline or extended sequential Huffman scan of 8 bits that holds all components: what the fast decoders take. Decoded at a fraction of its size
 * (stk__jpeg_scan_scale), all that counts pixels or samples does so after scaling. */
struct stk_jpeg_scan {
	int32_t width, height;
	int32_t components;        /* 1 or 3 */
	int32_t h_max, v_max;      /* largest sampling factors */
	int32_t scale;             /* pixels that 8 pixels of the file become along each axis: 8, or 4, 2 or 1 */
	int32_t mcu_w, mcu_h;      /* pixels of an MCU: scale * h_max, scale * v_max */
	int32_t mcus_x, mcus_y;    /* MCUs that cover the image */
	int32_t blocks;            /* of an MCU, 1..10 */
	int32_t restart_interval;  /* in MCUs; 0: none */
	int32_t rows_together;     /* rows of MCUs that libjpeg decodes at a time: a lone component's vertical factor, else 1 */
	enum stk_jpeg_color color; /* GRAY, YCBCR or RGB */
	uint64_t offset, size;     /* of the entropy-coded bytes, stuffed, RST markers included; size is an upper bound (jpeg_header.h) */
	struct stk_jpeg_component component[3];
	uint8_t block_size[3]; /* samples along a side of a component's blocks: 8; scale or more where that is less */
	uint8_t upsample[3];   /* enum stk_jpeg_upsample */
	uint8_t block_component[STK_JPEG_MAX_BLOCKS]; /* blocks in coded order: component, and place in the MCU in blocks */
	uint8_t block_x[STK_JPEG_MAX_BLOCKS], block_y[STK_JPEG_MAX_BLOCKS];
};

/* A window in a scan. The MCUs mcu_x0 .. mcu_x1-1 by mcu_y0 .. mcu_y1-1 hold every sample that the window's pixels depend on, the neighbours that
 * fancy upsampling reads included. Entropy decoding begins at the scan's start and ends after row mcu_y1-1, whole: it thereby meets the same damage
 * as libjpeg-turbo, which decodes row by row. */
struct stk_jpeg_window {
	struct stk_rect pixels; /* as stored, before orientation */
	int32_t mcu_x0, mcu_y0, mcu_x1, mcu_y1;
};

#endif
