/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts packets of H.264 and HEVC to the format that the GPU's parser reads, "Annex B". In that format each unit is preceded by a start code, and
 * pictures are preceded by the parameter sets. MP4 and Matroska instead store the length of each unit, and the parameter sets in the file's header. */
#ifndef STK_MEDIA_ANNEX_B_H
#define STK_MEDIA_ANNEX_B_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stk_unit_codec { STK_UNITS_H264, STK_UNITS_HEVC };

struct stk_annex_b {
	uint8_t *head; /* the parameter sets, which must be sent before the first packet */
	size_t head_size;
	int length; /* number of bytes of the length that precedes each unit in a packet; 0: packets are in Annex B already */
	enum stk_unit_codec codec;
	int layers; /* maximum number of temporal layers of the parameter sets of HEVC so far; 0: none was seen */
};

/* Reads the header of a stream: avcC or hvcC. For streams in Annex B the header is empty or consists of units in Annex B. The caller frees *out with
 * stk__annex_b_free. STK_CORRUPT: the header is damaged. */
STK_MUST_USE enum stk_status stk__annex_b_create(
	enum stk_unit_codec codec, const uint8_t *header, size_t size, struct stk_annex_b *out, struct stk_error *err);
void stk__annex_b_free(struct stk_annex_b *a);

/* Returns the maximum size in bytes of a packet after its conversion. size: the packet's size before. */
size_t stk__annex_b_capacity(const struct stk_annex_b *a, size_t size);
/* Converts the packet to Annex B in `to`, and sets *written to the resulting size in bytes. STK_CORRUPT: a unit exceeds the packet, or has bytes that the
 * codecs forbid, such as blocks of zeros. GPUs do not report such damage. */
STK_MUST_USE enum stk_status stk__annex_b_convert(
	const struct stk_annex_b *a, const uint8_t *packet, size_t size, uint8_t *to, size_t *written, struct stk_error *err);

/* Calls `on_unit` for each unit of a stream in Annex B, until `on_unit` returns true. Returns the result of the last call, or false without units. */
bool stk__annex_b_each_unit(const uint8_t *at, size_t size, bool (*on_unit)(void *user, const uint8_t *unit, size_t size), void *user);

/* Calls `on_unit` for each unit of a packet, until `on_unit` returns true or a unit exceeds the packet. packet: as the stream stores it. */
void stk__annex_b_each_of_packet(const struct stk_annex_b *a, const uint8_t *packet, size_t size,
	bool (*on_unit)(void *user, const uint8_t *unit, size_t size), void *user);

/* Returns whether no other picture refers to the picture of a packet, so that the packet can be skipped if its picture is not wanted. packet: as the stream
 * stores it. Adds the packet's own parameter sets to a->layers, so call it for every key packet of HEVC. */
bool stk__annex_b_unneeded(struct stk_annex_b *a, const uint8_t *packet, size_t size);
/* Returns whether decoding can begin at a packet of HEVC: its first slice is of a random access picture (IRAP), or it has no slice. packet: as above. */
bool stk__annex_b_begins(const struct stk_annex_b *a, const uint8_t *packet, size_t size);

#endif
