/* SPDX-License-Identifier: Apache-2.0
 * Checks the scans of a progressive file before any of them is decoded. */
#ifndef STK_CODEC_JPEG_SCRIPT_H
#define STK_CODEC_JPEG_SCRIPT_H

#include "codec/jpeg_header.h"

/* True where the scans follow each other as the standard says [G.1.1.1] and give each coefficient of 1 to 3 components to its last bit before EOI,
 * in at most max_scans. *h stands at the first scan and is moved on to the last. Skips entropy-coded bytes: 10 us for 100 KB. */
bool stk__jpeg_script_sound(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans);

/* The same, and calls visit with the header at each scan, before what comes behind the scan is looked at. False from visit ends the walk, with false. */
bool stk__jpeg_script_walk(const uint8_t *data, size_t size, struct stk_jpeg_header *h, int max_scans,
	bool (*visit)(void *user, const struct stk_jpeg_header *h), void *user);

#endif
