/* SPDX-License-Identifier: Apache-2.0
 * Checks the scans of a progressive file before any of them is decoded. */
#ifndef STK_CODEC_JPEG_SCRIPT_H
#define STK_CODEC_JPEG_SCRIPT_H

#include "codec/jpeg_header.h"

/* Returns true if the scans follow each other as the standard says [G.1.1.1], are at most max_scans affordable ones, and give each coefficient of 1 to 3
 * components to its last bit before EOI. *h must describe the first scan, and describes the last one afterwards. Skips entropy-coded bytes: 10 us for 100
 * KB. */
bool stk__jpeg_script_sound(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans);

/* Returns how many blocks the scans of a file may visit in total, since a few bytes are enough for a scan over a whole large image. Files of encoders visit
 * each block in 3 to 15 scans. The limit is 32 visits of each block, or more or fewer if max_scans is above 256 or below 32; for small images it is all that
 * max_scans allows. */
int64_t stk__jpeg_visits_allowed(const struct stk_jpeg_header *h, int max_scans);

/* Returns false if the scans from *h on are more than max_scans, or visit more blocks than allowed. *h is advanced. */
bool stk__jpeg_script_affordable(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans);

/* Fails with STK_LIMIT and gives the reason. */
enum stk_status stk__jpeg_script_fail(const struct stk_jpeg_header *h, int max_scans, struct stk_error *err);

/* Like stk__jpeg_script_sound, but also calls visit with the header at each scan, before the data after the scan is read. If visit returns false, the walk
 * ends and returns false. */
bool stk__jpeg_script_walk(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans,
	bool (*visit)(void *user, const struct stk_jpeg_header *h), void *user);

#endif
