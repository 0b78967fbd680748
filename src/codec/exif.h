/* SPDX-License-Identifier: Apache-2.0
 * Reads the orientation of an image from its EXIF data. */
#ifndef STK_CODEC_EXIF_H
#define STK_CODEC_EXIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the orientation (1..8) in the first directory of a TIFF structure, as in JPEG's APP1, PNG's eXIf and WebP's EXIF; "Exif\0\0" may precede the
 * structure. Returns 0 if it is absent or invalid. Reads only the `size` bytes, whatever offsets they contain. Where decoders differ, this does the same as
 * Pillow's ImageOps.exif_transpose: any numeric type is accepted (but not bytes, text or undefined data), of several values the first is used, and of
 * several entries the first with a value. OpenCV reads any type as if it were a SHORT. */
int stk__exif_orientation(const uint8_t *tiff, size_t size);

/* Returns the size in bytes of one value of a TIFF type, or 0 if an orientation must not have this type. */
size_t stk__exif_type_size(uint32_t type);
/* Returns the orientation that a value of one of these types gives, or 0 if it is not in 1..8. */
int stk__exif_orientation_value(const uint8_t *value, uint32_t type, bool little);

#endif
