/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts packets of H.264 and HEVC to the form that the GPU's parser reads, "Annex B": a start code precedes each unit, and the parameter sets precede the
 * pictures. MP4 and Matroska store the length of each unit instead, and keep the parameter sets in the file's header. */
#ifndef STK_MEDIA_ANNEX_B_H
#define STK_MEDIA_ANNEX_B_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stk_unit_codec { STK_UNITS_H264, STK_UNITS_HEVC };

struct stk_annex_b {
	uint8_t *head; /* the parameter sets, to send before the first packet */
	size_t head_size;
	int length; /* number of bytes in which a packet stores the length of each unit; 0: packets are Annex B already */
	enum stk_unit_codec codec;
	int layers; /* number of temporal layers of HEVC; 0: not known */
};

/* Reads a file's header for the stream (avcC or hvcC; or Annex B, or nothing, for streams that are Annex B). STK_CORRUPT: it is damaged. */
STK_MUST_USE enum stk_status stk__annex_b_create(
	enum stk_unit_codec codec, const uint8_t *header, size_t size, struct stk_annex_b *out, struct stk_error *err);
void stk__annex_b_free(struct stk_annex_b *a);

/* Returns the most bytes that a packet of `size` bytes can have after its conversion. */
size_t stk__annex_b_room(const struct stk_annex_b *a, size_t size);
/* Writes the packet as Annex B to `to`, and the number of bytes to *written. STK_CORRUPT: a length leads beyond the packet's end, or a unit holds bytes that
 * the codecs exclude, such as blocks of zeros: GPUs do not report these. */
STK_MUST_USE enum stk_status stk__annex_b_convert(
	const struct stk_annex_b *a, const uint8_t *packet, size_t size, uint8_t *to, size_t *written, struct stk_error *err);

/* Returns whether no other picture refers to the picture of a packet, so that it need not be decoded. packet: in Annex B. */
bool stk__annex_b_unneeded(const struct stk_annex_b *a, const uint8_t *packet, size_t size);

#endif
