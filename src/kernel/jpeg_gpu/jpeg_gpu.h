/* SPDX-License-Identifier: Apache-2.0
 *
 * Baseline JPEG decoded by thousands of lanes at once: the data that the phases share, and the plain C twin of every phase.
 *
 * Huffman codes have no marks to start from, but a decoder that starts at a wrong bit soon falls into step with the right one [Klein and Wiseman 2003;
 * Weissenberger and Schmidt 2018]. So each entropy-coded stream (a whole scan, or one restart interval) is cut into segments, and:
 *   1. unstuff: 4 KiB chunks drop the 00 after FF; the first marker ends the stream.
 *   2. own:   a lane per segment decodes it from an arbitrary state (block 0, coefficient 0), and notes its state every 512 bits: row 0 of checkpoints.
 *   3. near:  each lane goes on behind its own segment until its state equals what row 0 has there, for some intervals at most. It notes its states
 *             in row 1 for the first segment behind, row 2 for the second, ...
 *      far:   the few lanes that met no other go on. They give up after STK_JPEGPAR_ROWS - 1 segments. Every lane's path depends on the data alone,
 *             never on who ran first.
 *   4. chain: lane 0 is right; where it met another lane's path, that one is right from there on, and so forth. A prefix sum of finished blocks along
 *             the right rows gives each 1024-bit piece its true start: state and block.
 *   5. write: a lane per piece decodes the blocks that begin in it, and stores their coefficients in zigzag order, the DC ones as differences.
 *   6. dc:    prefix sums of the differences.
 *   7. idct:  libjpeg's islow, for the MCUs of the window, into planes.
 *   8. color: libjpeg's upsampling and colour conversion, for the window's pixels.
 * Whatever is not plainly right (a bad code, a run past coefficient 63, too few bits, no agreement) sets the image's flags: it is decoded on the cores
 * then, which say what is wrong with it, if anything.
 *
 * All structs are plain data in arrays that lie in host memory for the twins and in device memory for the kernels. */
#ifndef STK_KERNEL_JPEGPAR_H
#define STK_KERNEL_JPEGPAR_H

#include "kernel/jpeg/jpeg_plan.h"

#define STK_JPEGPAR_CHUNK 4096   /* stuffed bytes of an unstuffing chunk */
#define STK_JPEGPAR_INTERVAL 512 /* bits between checkpoints; more than the 31 of the longest symbol */
#ifndef STK_JPEGPAR_SEGMENT
#define STK_JPEGPAR_SEGMENT 4096 /* bits of a segment */
#endif
#define STK_JPEGPAR_PIECE 1024 /* bits of a piece of the write phase */
#define STK_JPEGPAR_ROWS 13    /* rows of checkpoints: a lane looks for agreement in this many segments less one */
#define STK_JPEGPAR_NEAR 4     /* intervals of the near phase: most lanes meet another in fewer */
#define STK_JPEGPAR_PER_SEGMENT (STK_JPEGPAR_SEGMENT / STK_JPEGPAR_INTERVAL)
#define STK_JPEGPAR_PIECES (STK_JPEGPAR_SEGMENT / STK_JPEGPAR_PIECE)
#define STK_JPEGPAR_PER_PIECE (STK_JPEGPAR_PIECE / STK_JPEGPAR_INTERVAL)

#define STK_JPEGPAR_SYNC_LANES 256 /* of a thread block: one set of tables each */
#define STK_JPEGPAR_FAR_LANES 64
#define STK_JPEGPAR_WRITE_LANES 128
#define STK_JPEGPAR_IDCT_BLOCKS 32 /* of a warp */
#define STK_JPEGPAR_IDCT_WARPS 4
#define STK_JPEGPAR_COLOR_ROWS 32 /* of a thread block, 8 a warp */

#define STK_JPEGPAR_NONE 0xffffffffu

/* Why an image goes to the cores: bits of its flags. */
enum {
	STK_JPEGPAR_SHORT = 1,     /* the bits end before the blocks that the window needs */
	STK_JPEGPAR_BAD_CODE = 2,  /* no symbol has this code */
	STK_JPEGPAR_OVERRUN = 4,   /* a run past the block's last coefficient */
	STK_JPEGPAR_NO_SYNC = 8,   /* no agreement within the rows */
	STK_JPEGPAR_LEFTOVER = 16, /* bytes between a restart interval's last block and the next marker */
	STK_JPEGPAR_DC_RANGE = 32, /* a DC coefficient outside 16 bits */
};

/* Decoding tables of an image's components, by pair (DC, AC): table 2 * pair is DC's, 2 * pair + 1 AC's, each `size` entries.
 * The 16 bits ahead, v, lead to entry v >> 6 where v < split (codes of at most 10 bits), else (split >> 6) + v - split.
 * An entry: bits of the code and its extra bits 0..4 | extra bits 5..8 | coefficients it moves on 9..15 (64: end of block). */
struct stk_jpegpar_set {
	uint32_t at, size, split, tables;
};
#define STK_JPEGPAR_INVALID (16u | 96u << 9) /* ends a block; bit 14 is set in no other entry */
#define STK_JPEGPAR_MAX_SET 12288 /* entries of a set: what fits a multiprocessor beside the lanes; larger ones are for the cores */

/* An entropy-coded stream. Offsets in bytes where nothing else is said. */
struct stk_jpegpar_stream {
	uint32_t image;
	uint32_t src, src_size;      /* stuffed bytes, in raw */
	uint32_t chunk0, chunks;     /* of unstuffing; chunk i begins at (src & ~15) + i * CHUNK */
	uint32_t segment0, segments; /* upper bound; bits begin at segment0 * SEGMENT / 8 */
	uint32_t mcu0;               /* first MCU, in the image */
	uint32_t blocks;             /* that the window needs */
	uint32_t last;               /* not followed by a restart interval that matters */
};

struct stk_jpegpar_plane {
	uint32_t at; /* in planes, multiple of 16 */
	uint32_t pitch;
	uint32_t width, height; /* true extent of the component, counted from the plane's first sample */
	uint32_t h, v;
	uint32_t quant; /* its table, in quant, of 64 entries in zigzag order */
	uint32_t upsample;
};

struct stk_jpegpar_image {
	uint32_t set;
	uint32_t blocks_mcu; /* blocks of an MCU */
	uint32_t pairs;      /* 2 bits a block: its pair of tables */
	uint32_t places;     /* 2 bits a block: component */
	uint32_t components, color, h_max, v_max;
	uint32_t mcus_x;
	uint32_t mcu_x0, mcu_y0, mcu_x1, mcu_y1; /* the window, in MCUs */
	uint32_t dc0;                            /* in dc: MCU 0's first block */
	uint32_t coef0;       /* in coef, in blocks: MCU (mcu_x0, mcu_y0)'s first block; the window's follow in the order of the scan */
	uint32_t idct0, idct; /* first block and blocks of the window, counted over the batch; idct0 a multiple of IDCT_BLOCKS */
	struct stk_jpegpar_plane plane[3];
	/* the window's pixels: x, y within MCU (mcu_x0, mcu_y0), interleaved output */
	uint32_t x, y, w, h;
	/* first row, counted over the windows of the batch, a multiple of COLOR_ROWS; there is one more than h, as they are taken in pairs */
	uint32_t row0;
	uint64_t rgb;       /* offset of the window's rows in rgb (whatever their type), multiple of 16; they begin with pixel x & ~7 */
	uint32_t rgb_pitch; /* bytes of a row, multiple of 16; whole groups of 8 pixels fit */
	uint32_t type, channels; /* of the output: enum stk_image_type (RGB, BGR, GRAY or YCBCR), 3 or 1 */
};

/* Lanes of one thread block: count segments (pieces) from `first`, which all decode with one set. */
struct stk_jpegpar_work {
	uint32_t set, first, count;
};

/* Where a piece begins: block counted in the stream, and state as in a checkpoint. */
struct stk_jpegpar_start {
	uint32_t block, state;
};

struct stk_jpegpar_view {
	/* made by the host */
	const uint8_t *raw; /* readable 16 bytes before and behind */
	const struct stk_jpegpar_image *images;
	const struct stk_jpegpar_stream *streams;
	const struct stk_jpegpar_set *sets;
	const uint16_t *lut;
	const uint16_t *quant;
	const struct stk_jpegpar_work *sync_work, *write_work;
	uint32_t n_images, n_streams, n_sync_work, n_write_work, n_chunks, n_segments, n_idct, n_rows;
	uint32_t max_set; /* entries of the largest set */
	/* results; flags, n_far and marker are set to 0, 0 and ~0 beforehand. What a phase does not need any more makes room: coef may lie where raw
	 * did, planes where kept .. starts did, rgb where coef did. */
	uint32_t *flags;                  /* per image */
	uint32_t *told;                   /* where jpeg_color leaves them for the host, in its memory; of the kernels */
	uint32_t *n_far;                  /* segments in far; set to 0 beforehand */
	uint32_t *marker;                 /* per stream: offset of the first marker, or more than src_size */
	uint32_t *kept;                   /* per chunk: bytes that remain */
	uint8_t *bits;                    /* unstuffed, as big-endian 32-bit words; readable 256 bytes past the end */
	uint32_t *bit_length;             /* per stream */
	uint32_t *checkpoints;            /* ROWS rows of n_segments * PER_SEGMENT */
	uint32_t *match;                  /* per segment: the interval of the stream where its lane met another, NONE, or STREAM_END */
	uint32_t *far;                    /* the segments of phase far, in any order; of the kernels */
	uint32_t *cover;                  /* per segment: row << 16 | intervals that this row serves from the segment's start */
	struct stk_jpegpar_start *starts; /* per piece; block NONE: nothing to do */
	int16_t *coef;
	int16_t *dc;
	uint8_t *planes;
	uint8_t *rgb;
};
#define STK_JPEGPAR_STREAM_END 0xfffffffeu

/* The twins. Each does one thread block's, lane's or stream's part; call them for every one, phase after phase. */
void stk__jpegpar_count_chunk(const struct stk_jpegpar_view *v, uint32_t chunk);
void stk__jpegpar_unstuff_chunk(const struct stk_jpegpar_view *v, uint32_t chunk);
void stk__jpegpar_own(const struct stk_jpegpar_view *v, uint32_t segment);
void stk__jpegpar_near(const struct stk_jpegpar_view *v, uint32_t segment);
void stk__jpegpar_far(const struct stk_jpegpar_view *v, uint32_t segment);
void stk__jpegpar_chain(const struct stk_jpegpar_view *v, uint32_t stream);
void stk__jpegpar_write(const struct stk_jpegpar_view *v, uint32_t piece);
void stk__jpegpar_dc(const struct stk_jpegpar_view *v, uint32_t stream);
void stk__jpegpar_idct(const struct stk_jpegpar_view *v, uint32_t block);
void stk__jpegpar_color(const struct stk_jpegpar_view *v, uint32_t row);
/* Those of the above, in order: phases first .. end - 1, of STK_JPEGPAR_PHASES (count and unstuff are two, near and far too). */
#define STK_JPEGPAR_PHASES 10
void stk__jpegpar_run(const struct stk_jpegpar_view *v, int first, int end);

#endif
