/* SPDX-License-Identifier: Apache-2.0
 *
 * The only parser of JPEG headers (ITU-T T.81 annex B): from SOI to the first SOS, with every length checked. It accepts what libjpeg accepts (bytes between
 * segments, fill bytes), since all decoders use it. The result is plain data. */
#ifndef STK_CODEC_JPEG_HEADER_H
#define STK_CODEC_JPEG_HEADER_H

#include "base/error.h"
#include "kernel/jpeg/jpeg_plan.h"

/* The kind of SOF that began the frame. */
enum stk_jpeg_process { STK_JPEG_BASELINE, STK_JPEG_EXTENDED, STK_JPEG_PROGRESSIVE, STK_JPEG_ARITHMETIC, STK_JPEG_ARITHMETIC_PROGRESSIVE };

struct stk_jpeg_header {
	/* from the frame header (SOF) */
	int32_t width, height;
	int32_t components; /* 1..4 */
	enum stk_jpeg_process process;
	struct stk_jpeg_component component[STK_JPEG_MAX_COMPONENTS];
	int32_t h_max, v_max;
	enum stk_jpeg_color color;
	/* from application segments (APPn) */
	bool jfif, adobe;
	uint8_t adobe_transform;
	uint8_t orientation; /* orientation 1..8 from EXIF; 1 if absent or invalid */
	/* from the header of the first scan (SOS), and the segments before it */
	int32_t restart_interval;
	int32_t scan_components;
	uint8_t scan_order[STK_JPEG_MAX_COMPONENTS]; /* indices into component */
	uint8_t spectral_start, spectral_end, approx_high, approx_low;
	size_t scan_offset; /* offset of the scan's first entropy-coded byte in the file */
	size_t stray;       /* number of bytes between segments that belong to no segment */
	struct stk_jpeg_tables tables;
};

/* Reads the header. *h is undefined unless this returns STK_OK. STK_CORRUPT, with the offset: the header is damaged or truncated; STK_UNSUPPORTED: no
 * decoder here supports the kind of coding, precision, extents or components. Any thread may call this; it allocates nothing. */
STK_MUST_USE enum stk_status stk__jpeg_header_parse(const uint8_t *data, size_t size, struct stk_jpeg_header *h, struct stk_error *err);

struct stk_decoder;
struct stk_image_info;
/* Returns the header that stk__image_peek_for has read into *info and the decoder still keeps, or NULL. Only the decoder's thread may call this. */
const struct stk_jpeg_header *stk__jpeg_peeked(const struct stk_decoder *d, const struct stk_image_info *info);

/* stk__jpeg_header_next moves to the next scan. *at: the offset of the current scan's entropy-coded bytes; set to the offset of the next scan's bytes. *h
 * describes the next scan afterwards, with the tables defined until then. */
enum stk_jpeg_next {
	STK_JPEG_NEXT_SCAN,
	STK_JPEG_NEXT_END, /* EOI follows: there are no more scans */
	STK_JPEG_NEXT_OTHER /* damage, the end of the data, or segments that are rare between scans; *h is undefined then, except for frame and color */
};
enum stk_jpeg_next stk__jpeg_header_next(const uint8_t *data, size_t size, struct stk_jpeg_header *h, size_t *at);

/* Searches backwards for the last EOI after the scan's start. Returns false if it finds no EOI: the file is truncated. *end (may be NULL): set to the EOI's
 * offset, or to `size` without EOI. If a file has only one scan, its entropy-coded bytes end at *end or before it. */
bool stk__jpeg_find_eoi(const uint8_t *data, size_t size, const struct stk_jpeg_header *h, size_t *end);

/* Returns the first marker from `at` on, before `end`: FF and a byte that is neither 00 nor FF. Returns NULL if there is no marker, or if fill bytes (FF FF)
 * precede a 00, which the standard forbids: decoders read the following bytes in different ways. */
const uint8_t *stk__jpeg_find_marker(const uint8_t *at, const uint8_t *end);

/* Returns the maximum number of bytes that any decoder takes for coefficients, if the file has several scans, and for rows. */
size_t stk__jpeg_memory(const struct stk_jpeg_header *h);

/* Describes the scan for the fast decoders. Returns false if they do not support it, so that libjpeg-turbo decodes the file: several scans (for progressive
 * files see jpeg_progressive.h), CMYK, fractional sampling, tables that are missing or invalid, and others. end: from stk__jpeg_find_eoi. */
bool stk__jpeg_scan_plan(const struct stk_jpeg_header *h, size_t end, struct stk_jpeg_scan *scan);

/* Describes only the frame's geometry, of sequential and progressive files, and not the tables and scans, which the caller must check. Returns false if the
 * fast decoders do not support the components or their sampling. */
bool stk__jpeg_frame_plan(const struct stk_jpeg_header *h, struct stk_jpeg_scan *scan);

/* Changes the scan to one that is decoded at 1/denom of its size (1, 2, 4 or 8) by libjpeg's rules. Extents are rounded up. Blocks of components that would
 * need upsampling are instead transformed to more samples, if that is enough. */
void stk__jpeg_scan_scale(struct stk_jpeg_scan *scan, int32_t denom);

/* Returns which MCUs a window needs. The window is inside the image, as stored, and not empty. */
struct stk_jpeg_window stk__jpeg_window_plan(const struct stk_jpeg_scan *scan, struct stk_rect pixels);

/* Returns whether the counts describe a prefix code in which no code consists only of ones [C.2]. If dc, also whether all values are 0..15. */
bool stk__jpeg_huffman_valid(const struct stk_jpeg_huffman *t, bool dc);
/* Returns whether stk__jpeg_huffman_valid accepts a DC table, and the decoding tables support it (kernel/jpeg/jpeg_tables.h). */
bool stk__jpeg_dc_usable(const struct stk_jpeg_huffman *t);

#endif
