/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_CODEC_EXIF_H
#define STK_CODEC_EXIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the orientation (1..8) in the first directory of a TIFF structure, which "Exif\0\0" may precede: JPEG's APP1, PNG's eXIf, WebP's EXIF. Returns 0
 * if it is absent or invalid. Reads nothing outside the size bytes, whatever offsets they contain. If decoders differ, this follows Pillow's
 * ImageOps.exif_transpose: any numeric type counts (not bytes, text or undefined data), of several values the first, of several entries the first. OpenCV
 * reads any type as if it were a SHORT. */
int stk__exif_orientation(const uint8_t *tiff, size_t size);

/* Returns the size of one value of a type that an orientation may have; 0: it may not have this type. */
size_t stk__exif_type_size(uint32_t type);
/* Returns the orientation (1..8) in a value of such a type, or 0. */
int stk__exif_orientation_value(const uint8_t *value, uint32_t type, bool little);

#endif
