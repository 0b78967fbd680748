/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes JPEG with thousands of threads at once. This header has the data that the phases share.
 *
 * The algorithm and its terms are those of Weissenberger and Schmidt ("Massively Parallel Huffman Decoding on GPUs", 2018; "Accelerating JPEG Decompression
 * on GPUs", 2021). Huffman codes have no marks at which a decoder could start. But a decoder that starts at a wrong bit soon synchronises: after some
 * symbols its state equals that of a decoder that started at the right bit [Klein and Wiseman 2003]. So each bitstream (the entropy-coded data of a whole
 * scan, or of one restart interval) is cut into subsequences of 4096 bits. The state of a decoder is the position of its next bit, the index of its block
 * in the MCU, and the index of its next coefficient in the block. Phases:
 *   count, unstuff: in a file, each FF in a bitstream is followed by a 00, which does not belong to the data. One thread block for each 4 KiB chunk counts the
 *     bytes without these 00s; another copies them, up to the first marker.
 *   decode_subsequences: one thread for each subsequence decodes it from an arbitrary state (block 0, coefficient 0), and writes its state to row 0 of the
 *     checkpoints every 512 bits.
 *   synchronise: each thread continues past its subsequence (the paper's overflow) until its state equals that of row 0 at the same checkpoint, for
 *     SYNC_INTERVALS checkpoints at most. It writes its states to row 1 in the subsequence after its own, to row 2 in the one after that, and so on.
 *   synchronise_stragglers: the few threads that have not synchronised by then would delay their warps, so they are gathered and continue in warps of their
 *     own. They give up after ROWS - 1 subsequences. (The paper distinguishes intra-sequence and inter-sequence synchronisation by whether a thread
 *     overflows past its thread block. Here no phase depends on the thread block of a thread.) The values that a thread writes depend only on the data,
 *     never on which thread ran first.
 *   resolve: the decoder of subsequence 0 started at the right bit, so all its checkpoints are right. The decoder with which it synchronised is right from
 *     that checkpoint on, and so forth up to the end. A prefix sum over the numbers of blocks in the right checkpoints gives the true start of each piece of
 *     1024 bits: its block and its state.
 *   decode_coefficients: one thread for each piece decodes the blocks that begin in it, and stores their coefficients in zigzag order, with the DC
 *     coefficients as differences.
 *   dc: turns the differences into DC coefficients with prefix sums.
 * The scans of a progressive file are bitstreams too, but their decoders cannot synchronise, since the meaning of a refinement's bits depends on the
 * coefficients that earlier scans gave. So one warp decodes each of these scans, and the phases decode_subsequences to dc skip them:
 *   decode_scans: one thread block for each progressive file. In step i, the warp of each scan decodes row i - delay of MCUs. All scans are thus decoded at
 *     once, each at least one row after the earlier scans of the same coefficients: its delay is 1 more than the largest delay of those, or 0 if there are
 *     none. Lane k of a warp looks up the symbol that would begin at bit k of a word of 32 bits. The whole warp then moves from one real symbol to the next.
 *     Each lane holds two of a block's coefficients.
 * For all files:
 *   idct: libjpeg's islow, for the MCUs of the window, into planes.
 *   color: libjpeg's upsampling and colour conversion, for the window's pixels.
 * Any irregularity (a bad code, a run past coefficient 63, too few bits, no synchronisation) sets a flag of the image. The CPU then decodes the image, and
 * reports the error if there is one.
 *
 * Comments omit the prefix STK_JPEG_GPU_ of constants. All structs are plain data in arrays. The arrays lie in device memory for the kernels, and in host
 * memory for the plain C versions, which are built only into the tests (jpeg_gpu_reference.h). */
#ifndef STK_KERNEL_JPEG_GPU_H
#define STK_KERNEL_JPEG_GPU_H

#include "kernel/jpeg/jpeg_plan.h"

/* The phases in the order in which they run. */
enum stk_jpeg_gpu_phase {
	STK_JPEG_GPU_COUNT,
	STK_JPEG_GPU_UNSTUFF,
	STK_JPEG_GPU_DECODE_SUBSEQUENCES,
	STK_JPEG_GPU_SYNCHRONISE,
	STK_JPEG_GPU_SYNCHRONISE_STRAGGLERS,
	STK_JPEG_GPU_RESOLVE,
	STK_JPEG_GPU_DECODE_COEFFICIENTS,
	STK_JPEG_GPU_DC,
	STK_JPEG_GPU_DECODE_SCANS,
	STK_JPEG_GPU_IDCT,
	STK_JPEG_GPU_COLOR,
	STK_JPEG_GPU_PHASES
};

#define STK_JPEG_GPU_CHUNK 4096   /* bytes of the file in a chunk, before unstuffing */
#define STK_JPEG_GPU_INTERVAL 512 /* bits between checkpoints; more than the longest symbol, which has 31 bits */
#ifndef STK_JPEG_GPU_SUBSEQUENCE
#define STK_JPEG_GPU_SUBSEQUENCE 4096 /* bits in a subsequence */
#endif
#define STK_JPEG_GPU_PIECE 1024       /* bits in a piece, which one thread decodes to coefficients */
#define STK_JPEG_GPU_ROWS 13          /* number of rows of checkpoints: a thread overflows into at most ROWS - 1 subsequences */
#define STK_JPEG_GPU_SYNC_INTERVALS 4 /* maximum number of checkpoints that a thread passes in phase synchronise; most threads need fewer */
#define STK_JPEG_GPU_PER_SUBSEQUENCE (STK_JPEG_GPU_SUBSEQUENCE / STK_JPEG_GPU_INTERVAL)
#define STK_JPEG_GPU_PIECES (STK_JPEG_GPU_SUBSEQUENCE / STK_JPEG_GPU_PIECE)
#define STK_JPEG_GPU_PER_PIECE (STK_JPEG_GPU_PIECE / STK_JPEG_GPU_INTERVAL)

/* Threads in a thread block. All threads of a block of SYNC_THREADS or COEFFICIENT_THREADS decode with the same set of tables. */
#define STK_JPEG_GPU_SYNC_THREADS 256
#define STK_JPEG_GPU_STRAGGLER_THREADS 64
#define STK_JPEG_GPU_COEFFICIENT_THREADS 128
#define STK_JPEG_GPU_IDCT_BLOCKS 32 /* blocks that a warp transforms */
#define STK_JPEG_GPU_IDCT_WARPS 4   /* warps in a thread block */
#define STK_JPEG_GPU_COLOR_ROWS 32  /* rows of pixels that a thread block makes; each warp makes 8 */
/* maximum number of scans of a progressive file, each of which is decoded by a warp; the CPU decodes files with more scans */
#define STK_JPEG_GPU_MAX_SCANS 24
#define STK_JPEG_GPU_SCAN_SHARED 2240 /* bytes of shared memory for each scan */

#define STK_JPEG_GPU_NONE 0xffffffffu

/* Bits of an image's flags: reasons why the CPU must decode it. */
enum {
	STK_JPEG_GPU_SHORT = 1,     /* the bitstream ends before the last block that the window needs */
	STK_JPEG_GPU_BAD_CODE = 2,  /* a code belongs to no symbol, or its symbol is not allowed in the scan */
	STK_JPEG_GPU_OVERRUN = 4,   /* a run reaches past the last coefficient of the block, or of the scan's band */
	STK_JPEG_GPU_NO_SYNC = 8,   /* a thread whose result is needed did not synchronise within STK_JPEG_GPU_ROWS - 1 subsequences */
	STK_JPEG_GPU_LEFTOVER = 16, /* there are bytes between a restart interval's last block and the next marker */
	STK_JPEG_GPU_DC_RANGE = 32, /* a DC coefficient exceeds 16 bits, or a progressive scan's prediction is far too large */
};

/* The decoding tables of an image's components, in pairs (DC, AC): table 2 * pair is for DC, 2 * pair + 1 for AC. The `tables` tables follow each other in
 * lut from index `at` on; each has `size` entries. Let v be the next 16 bits of a bitstream. If v < split, its code has at most 10
 * bits, and its entry has index v >> 6 in the table; otherwise the index is (split >> 6) + v - split. Fields of an entry: bits 0..4 number of bits of the
 * code and its extra bits, bits 5..8 number of extra bits, bits 9..15 number of coefficients to advance (64: end of block). */
struct stk_jpeg_gpu_set {
	uint32_t at, size, split, tables;
};
#define STK_JPEG_GPU_INVALID (16u | 96u << 9) /* the entry of bits that begin no code; ends the block. Only this entry has bit 14 set */
/* maximum number of entries of a set, which must fit into shared memory; the CPU decodes files with larger sets */
#define STK_JPEG_GPU_MAX_SET 12288

/* The entropy-coded data of a scan or a restart interval. Offsets are in bytes unless a comment says otherwise. The unstuffed bytes begin at offset
 * subsequence0 * SUBSEQUENCE / 8 of stk_jpeg_gpu_view.bits. */
struct stk_jpeg_gpu_bitstream {
	uint32_t image;
	uint32_t src, src_size;  /* offset in raw, and size, of the data as in the file (with stuffing) */
	uint32_t chunk0, chunks; /* index in the batch of the first chunk; number of chunks. Chunk i begins at (src & ~15) + i * CHUNK */
	uint32_t subsequence0, subsequences; /* index in the batch of the first subsequence; upper bound of the number of subsequences */
	uint32_t mcu0;                       /* index in the image of the bitstream's first MCU */
	uint32_t blocks;                     /* number of the bitstream's blocks that the window needs */
	uint32_t last;                       /* 1 if the window needs no later restart interval */
};

struct stk_jpeg_gpu_plane {
	uint32_t at; /* offset in stk_jpeg_gpu_view.planes of the plane's first sample, a multiple of 16 */
	uint32_t pitch;
	uint32_t width, height; /* extents in samples of the component without padding, counted from the plane's first sample */
	uint32_t h, v;          /* sampling factors */
	uint32_t quant;         /* index of the component's table in stk_jpeg_gpu_view.quant; tables have 64 entries in zigzag order */
	uint32_t upsample;      /* enum stk_jpeg_upsample: how the component is enlarged to the size of the image */
};

struct stk_jpeg_gpu_image {
	uint32_t set;
	uint32_t blocks_mcu;       /* number of blocks in an MCU */
	uint32_t pairs;            /* index of each block's pair of tables, 2 bits for each block of an MCU */
	uint32_t block_components; /* index of each block's component, 2 bits for each block of an MCU */
	uint32_t components, color, h_max, v_max;
	uint32_t mcus_x;
	uint32_t mcu_x0, mcu_y0, mcu_x1, mcu_y1; /* the window, in MCUs */
	uint32_t dc0;                            /* index in stk_jpeg_gpu_view.dc of the first block of the image's MCU 0 */
	/* index in stk_jpeg_gpu_view.coef, in blocks, of the first block of MCU (mcu_x0, mcu_y0); the window's other blocks follow in the order of the scan */
	uint32_t coef0;
	/* index of the window's first block, counted over the batch, and number of its blocks; idct0 is a multiple of IDCT_BLOCKS */
	uint32_t idct0, idct;
	struct stk_jpeg_gpu_plane plane[3];
	/* the window's pixels: x and y are relative to the first pixel of MCU (mcu_x0, mcu_y0); the output is interleaved */
	uint32_t x, y, w, h;
	/* index of the window's first row, counted over the windows of the batch, a multiple of COLOR_ROWS. A window takes up at least h + 1
	 * rows: rows are made in pairs, and the first pair may begin above the window */
	uint32_t row0;
	uint64_t rgb;            /* offset in stk_jpeg_gpu_view.rgb of the window's rows, a multiple of 16; rows begin with pixel x & ~7 */
	uint32_t rgb_pitch;      /* bytes of a row, a multiple of 16; a row has space for whole groups of 8 pixels */
	uint32_t type, channels; /* type of the output: enum stk_image_type (RGB, BGR, GRAY or YCBCR); its channels: 3 or 1 */
};

/* A scan of a progressive file [G.1]. It consists of units: MCUs, or single blocks if the scan has only one component. */
struct stk_jpeg_gpu_scan {
	uint32_t bitstream; /* index of the scan's first bitstream; the bitstreams of later restart intervals follow */
	uint32_t interval;  /* number of units in a restart interval; NONE: no restart intervals */
	uint32_t delay;     /* number of rows of MCUs by which this scan is decoded later than scans with delay 0 */
	uint8_t start, end; /* band of coefficients, in zigzag order */
	/* successive approximation: high is 0 in a first scan, in a refinement the lowest bit that was known before; low is the lowest bit that is known
	 * afterwards */
	uint8_t high, low;
	uint8_t single, component; /* single: 1 if the scan has only one component; component: index of this component */
	uint8_t parts;             /* number of blocks in a unit */
	/* for each block of a unit: its index in the MCU, and the index in `table` of its table */
	uint8_t part[STK_JPEG_MAX_BLOCKS], slot[STK_JPEG_MAX_BLOCKS];
	struct stk_jpeg_huffman table[3];
};

/* A progressive file. Its window begins at the image's first row, and is as wide as the image. It has `scans` scans from index scan0 on in
 * stk_jpeg_gpu_view.scans, and phase decode_scans takes `steps` steps for it. */
struct stk_jpeg_gpu_progressive {
	uint32_t image, scan0, scans, steps;
};

/* The work of one thread block: `count` subsequences (or pieces) from `first` on, which all use the same set of tables. */
struct stk_jpeg_gpu_work {
	uint32_t set, first, count;
};

/* The start of a piece: the block, counted from the start of the bitstream, and the decoder's state, packed as in a checkpoint. */
struct stk_jpeg_gpu_start {
	uint32_t block, state;
};

struct stk_jpeg_gpu_view {
	/* written by the host */
	const uint8_t *raw; /* 16 bytes before and after the data can be read */
	const struct stk_jpeg_gpu_image *images;
	const struct stk_jpeg_gpu_bitstream *bitstreams; /* the bitstreams of baseline files are first */
	const struct stk_jpeg_gpu_progressive *progressive;
	const struct stk_jpeg_gpu_scan *scans;
	const struct stk_jpeg_gpu_set *sets;
	const uint16_t *lut;
	const uint16_t *quant;
	const struct stk_jpeg_gpu_work *sync_work, *coefficient_work;
	uint32_t n_images, n_bitstreams, n_sync_work, n_coefficient_work, n_chunks, n_idct, n_rows, n_progressive, n_scans;
	uint32_t n_baseline, n_subsequences; /* number of bitstreams of baseline files, and of their subsequences */
	uint32_t max_set;                    /* number of entries of the largest set */
	uint32_t max_scans;                  /* maximum number of scans of a progressive file in the batch */
	/* Results. The host first sets flags and n_stragglers to 0 and marker to ~0. Memory is reused after the last phase that reads it: coef may take the
	 * memory of raw, planes the memory of the arrays from kept to starts, and rgb the memory of coef. */
	uint32_t *flags;        /* for each image: the reasons why the CPU must decode it, or 0 */
	uint32_t *host_flags;   /* copy of flags in host memory, from kernel jpeg_gpu_color for the thread that waits for the batch */
	uint32_t *n_stragglers; /* number of entries in stragglers; only used by the kernels */
	uint32_t *marker;       /* for each bitstream: offset from src of the first marker, or more than src_size if it has no marker */
	uint32_t *kept;         /* for each chunk: number of bytes that remain after unstuffing */
	uint8_t *bits;          /* unstuffed, as 32-bit words with the most significant byte first; 256 bytes past the end can be read */
	uint32_t *bit_length;   /* for each bitstream: number of bits after unstuffing */
	uint32_t *checkpoints;  /* packed states (jpeg_gpu_symbols.h): ROWS rows of n_subsequences * PER_SUBSEQUENCE */
	/* for each subsequence: the index in the bitstream of the interval in which its thread synchronised; NONE; or BITSTREAM_END */
	uint32_t *match;
	uint32_t *stragglers; /* the subsequences that phase synchronise_stragglers processes, in any order; only used by the kernels */
	/* for each subsequence: row << 16 | count. The checkpoints of this row are right for the first `count` intervals, those of row 0 for the rest */
	uint32_t *cover;
	struct stk_jpeg_gpu_start *starts; /* for each piece; block is NONE if the piece has nothing to decode */
	int16_t *coef;
	int16_t *dc;
	uint8_t *planes;
	uint8_t *rgb;
};
#define STK_JPEG_GPU_BITSTREAM_END 0xfffffffeu

#endif
