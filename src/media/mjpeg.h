/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads from a packet of Motion JPEG which tables its picture takes from elsewhere. Files may leave out the standard Huffman tables (AVI files of cameras do). */
#ifndef STK_MEDIA_MJPEG_H
#define STK_MEDIA_MJPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In this order, a decoder's context that decoded packets of one kind decodes packets of the same kind and of later ones like a new context, except for
 * STK_MJPEG_OTHER. */
enum stk_mjpeg_kind {
	STK_MJPEG_NONE,     /* the context has not decoded a packet */
	STK_MJPEG_STANDARD, /* the packet defines no Huffman tables, so that the standard ones hold, which a new context has */
	STK_MJPEG_OWN,      /* the packet defines all tables that its picture uses */
	STK_MJPEG_OTHER     /* anything else, such as fields, and packets whose comments change how libavcodec decodes */
};

struct stk_mjpeg {
	enum stk_mjpeg_kind kind;
	bool lacks_quantisation; /* the picture uses a quantisation table that the packet does not define; there are no standard ones */
};

/* height: that of the video's frames; pictures of another height may be fields. */
struct stk_mjpeg stk__mjpeg_read(const uint8_t *data, size_t size, int height);

#endif
