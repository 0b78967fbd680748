/* SPDX-License-Identifier: Apache-2.0
 * Checks the scans of a progressive file before any of them is decoded. */
#ifndef STK_CODEC_JPEG_SCRIPT_H
#define STK_CODEC_JPEG_SCRIPT_H

#include "codec/jpeg_header.h"

/* True where the scans follow each other as the standard says [G.1.1.1] and give each coefficient of 1 to 3 components to its last bit before EOI,
 * in at most max_scans that are affordable. *h stands at the first scan and is moved on to the last. Skips entropy-coded bytes: 10 us for 100 KB. */
bool stk__jpeg_script_sound(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans);

/* How many blocks the scans of a file may go over, all together: a few bytes are enough for a scan that goes over a whole large image. Encoders' files
 * have each block in 3 to 15 scans. Allowed are 32 times all blocks, or more or fewer as max_scans is above 256 or below 32, and of small images all
 * that max_scans allows. */
int64_t stk__jpeg_visits_allowed(const struct stk_jpeg_header *h, int max_scans);

/* False: the scans from *h on are more than max_scans, or go over more blocks than is allowed. *h is moved on. */
bool stk__jpeg_script_affordable(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans);

/* Fails with STK_LIMIT and says why. */
enum stk_status stk__jpeg_script_fail(const struct stk_jpeg_header *h, int max_scans, struct stk_error *err);

/* The same as script_sound, and calls visit with the header at each scan, before what comes behind the scan is looked at. False from visit ends the walk, with false. */
bool stk__jpeg_script_walk(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans,
	bool (*visit)(void *user, const struct stk_jpeg_header *h), void *user);

#endif
