/* SPDX-License-Identifier: Apache-2.0
 * Checks the scans of a progressive file before any of them is decoded. */
#ifndef STK_CODEC_JPEG_SCRIPT_H
#define STK_CODEC_JPEG_SCRIPT_H

#include "codec/jpeg_header.h"

/* Returns whether a decoder can rely on the scans: they are in an order that the standard allows [G.1.1.1], are affordable (stk__jpeg_script_affordable),
 * and before EOI have sent all bits of all coefficients. The image must have 1 to 3 components. *h must describe the first scan, and describes the last one
 * afterwards. Takes 10 us per 100 KB. */
bool stk__jpeg_script_sound(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans);

/* Returns how many blocks the scans of a file may visit in total. There must be a limit, since a few bytes are enough for a scan over all of a large image.
 * Encoders write 3 to 15 scans for each block. The limit is 32 visits of each block (max_scans / 8 if that is more, or max_scans if that is less), plus 2^14
 * visits for each of max_scans scans, so that small images never reach it. */
int64_t stk__jpeg_visits_allowed(const struct stk_jpeg_header *h, int max_scans);

/* Returns whether at most max_scans scans follow from *h on, and visit at most stk__jpeg_visits_allowed blocks. Moves *h to a later scan. */
bool stk__jpeg_script_affordable(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans);

/* Sets an error that says which limit was exceeded. Returns STK_LIMIT. */
enum stk_status stk__jpeg_script_fail(const struct stk_jpeg_header *h, int max_scans, struct stk_error *err);

/* Does the same as stk__jpeg_script_sound, and calls visit with the header for each scan, before the data after that scan is read. If visit returns false,
 * ends and returns false. */
bool stk__jpeg_script_walk(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans,
	bool (*visit)(void *user, const struct stk_jpeg_header *h), void *user);

#endif
