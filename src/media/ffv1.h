/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks packets of FFV1. libavcodec reads their checksums, but takes a damaged slice's pixels from an earlier picture without an error. */
#ifndef STK_MEDIA_FFV1_H
#define STK_MEDIA_FFV1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether the stream's packets consist of slices with sizes, which may have checksums: its version is 3 or higher. header: the stream's parameters. */
bool stk__ffv1_has_slices(const uint8_t *header, size_t size);

enum stk_ffv1_state {
	STK_FFV1_UNKNOWN, /* the packet has no checksums */
	STK_FFV1_WHOLE,   /* its checksums are right */
	STK_FFV1_DAMAGED  /* a slice has a wrong checksum, or the sizes of the slices do not add up */
};

/* Checks a packet of a stream with slices. */
enum stk_ffv1_state stk__ffv1_check(const uint8_t *packet, size_t size);

#endif
