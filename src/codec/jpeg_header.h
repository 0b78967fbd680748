/* SPDX-License-Identifier: Apache-2.0
 *
 * The one parser of JPEG headers (ITU-T T.81 annex B): from SOI to the first SOS, every length checked. It accepts what libjpeg accepts (bytes
 * between segments, fill bytes), since it speaks for all decoders. Plain data comes out. */
#ifndef STK_CODEC_JPEG_HEADER_H
#define STK_CODEC_JPEG_HEADER_H

#include "base/error.h"
#include "kernel/jpeg/jpeg_plan.h"

/* Which SOF began the frame. */
enum stk_jpeg_process { STK_JPEG_BASELINE, STK_JPEG_EXTENDED, STK_JPEG_PROGRESSIVE, STK_JPEG_ARITHMETIC, STK_JPEG_ARITHMETIC_PROGRESSIVE };

struct stk_jpeg_header {
	/* frame */
	int32_t width, height;
	int32_t components; /* 1..4 */
	enum stk_jpeg_process process;
	struct stk_jpeg_component component[STK_JPEG_MAX_COMPONENTS];
	int32_t h_max, v_max;
	enum stk_jpeg_color color;
	/* markers of applications */
	bool jfif, adobe;
	uint8_t adobe_transform;
	uint8_t orientation; /* EXIF's 1..8; 1 when absent or invalid */
	/* the first scan */
	int32_t restart_interval;
	int32_t scan_components;
	uint8_t scan_order[STK_JPEG_MAX_COMPONENTS]; /* indices into component */
	uint8_t spectral_start, spectral_end, approx_high, approx_low;
	size_t scan_offset; /* of its first entropy-coded byte */
	size_t stray;       /* bytes between segments that belong to none */
	struct stk_jpeg_tables tables;
};

/* Reads the header; *h is undefined unless STK_OK. STK_CORRUPT with the offset where damaged or cut off, STK_UNSUPPORTED for processes and
 * precisions that no decoder here knows. Any thread, allocates nothing, 0.2 us for a common file. */
STK_MUST_USE enum stk_status stk__jpeg_header_parse(const uint8_t *data, size_t size, struct stk_jpeg_header *h, struct stk_error *err);

/* Moves on to the next scan: *at goes from a scan's entropy-coded bytes to the next scan's, and *h then describes that scan and the tables in
 * force. */
enum stk_jpeg_next {
	STK_JPEG_NEXT_SCAN,
	STK_JPEG_NEXT_END, /* EOI */
	STK_JPEG_NEXT_OTHER /* damage, the end of the data, or what is rare between scans; *h is undefined then, but for the frame and color */
};
enum stk_jpeg_next stk__jpeg_header_next(const uint8_t *data, size_t size, struct stk_jpeg_header *h, size_t *at);

/* Searches backwards for the last EOI after the scan's start. False: the file is truncated. *end (may be NULL): its offset, or size.
 * Where a file has one scan the entropy-coded bytes end there or before. */
bool stk__jpeg_find_eoi(const uint8_t *data, size_t size, const struct stk_jpeg_header *h, size_t *end);

/* The next marker from `at` on: FF and a byte that is neither 00 nor FF, both before end. NULL: there is none, or fill bytes (FF FF) stand before a 00,
 * where they have no business: decoders differ in what they make of the bytes behind. */
const uint8_t *stk__jpeg_find_marker(const uint8_t *at, const uint8_t *end);

/* Bytes that a decoder takes at most, ours or libjpeg-turbo's: coefficients where the file has several scans, and rows. */
size_t stk__jpeg_memory(const struct stk_jpeg_header *h);

/* Describes the scan for the fast decoders. False: they do not take it (progressive: see jpeg_progressive.h; several scans, CMYK, fractional
 * sampling, tables that are missing or impossible, ...), so libjpeg-turbo does. end: from stk__jpeg_find_eoi. */
bool stk__jpeg_scan_plan(const struct stk_jpeg_header *h, size_t end, struct stk_jpeg_scan *scan);

/* The same for a progressive file, which has several scans: describes the geometry alone. The caller checks tables and scans. */
bool stk__jpeg_frame_plan(const struct stk_jpeg_header *h, struct stk_jpeg_scan *scan);

/* Makes it a scan that is decoded at 1/denom of its size, 1, 2, 4 or 8, by libjpeg's rules: extents are rounded up, blocks of components that would
 * have to be upsampled are transformed to more samples instead where that suffices. */
void stk__jpeg_scan_scale(struct stk_jpeg_scan *scan, int32_t denom);

/* The MCUs that a window (inside the image, not empty, as stored) needs. */
struct stk_jpeg_window stk__jpeg_window_plan(const struct stk_jpeg_scan *scan, struct stk_rect pixels);

/* True when the counts describe a prefix code without a code of all ones [C.2] and, if dc, the values are those that a DC table may have (0..15). */
bool stk__jpeg_huffman_valid(const struct stk_jpeg_huffman *t, bool dc);
/* True when that holds for a DC table, and its sizes fit the decoding tables (kernel/jpeg/jpeg_tables.h). */
bool stk__jpeg_dc_usable(const struct stk_jpeg_huffman *t);

#endif
