/* SPDX-License-Identifier: Apache-2.0
 * Reads the orientation of an image from its EXIF data. */
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

/* Returns the bytes of one value of a TIFF type, or 0 if an orientation may not have this type. */
size_t stk__exif_type_size(uint32_t type);
/* Returns the orientation in a value of one of these types, or 0 if the value is not in 1..8. */
int stk__exif_orientation_value(const uint8_t *value, uint32_t type, bool little);

#endif
