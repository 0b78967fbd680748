/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CODEC_EXIF_H
#define STK_CODEC_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* The orientation (1..8) in the first directory of a TIFF structure, as JPEG's APP1 (after "Exif\0\0") and PNG's eXIf carry it; 0 when there is none
 * or it is invalid. Reads nothing outside the size bytes, whatever offsets they hold. */
int stk__exif_orientation(const uint8_t *tiff, size_t size);

#endif
