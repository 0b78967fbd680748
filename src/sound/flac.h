/* SPDX-License-Identifier: Apache-2.0
 * FLAC files (RFC 9639). flac.c reads the header and finds windows; flac_frame.c decodes frames. "Frame" has two meanings here: where RFC 9639 says frame,
 * these files say block; a frame is the samples of all channels at one instant, as in sound.h. */
#ifndef STK_SOUND_FLAC_H
#define STK_SOUND_FLAC_H

#include "kernel/flac/flac.h"
#include "sound/sound.h"

enum { STK_FLAC_HEADER = 16 /* maximum size in bytes of a block's header */ };

/* The header of a block. */
struct stk_flac_block {
	uint64_t number; /* number of the block's first frame; or of the block, if all blocks have the same size */
	int32_t bytes;   /* size in bytes of the header */
	int32_t frames, rate, channels, bits;
	int32_t first_side; /* 1: the first channel stores the side signal, 0: the second one does, -1: there is no side signal */
	bool middle;        /* the channel that is not the side stores the middle signal */
	bool variable;      /* blocks may have different sizes */
};

/* Reads a block's header from n bytes. rate, bits: those of the file, used if the header states no others. Returns false if these bytes are not a header. */
bool stk__flac_block_read(const uint8_t *p, size_t n, int32_t rate, int32_t bits, struct stk_flac_block *block);

/* A decoder of blocks, and the blocks that it holds. */
struct stk_flac_decoder {
	struct stk_flac_bits bits; /* must be the first member, since more() in flac_frame.c casts its address to the decoder's */
	const struct stk_sound_bytes *bytes;
	const struct stk_sound_info *info;
	const struct stk_flac_loops *loops;
	struct stk_flac_block block;
	const uint8_t *piece;    /* the bytes that `bits` reads */
	uint64_t piece_at;       /* offset of `piece` in the file */
	const uint8_t *unsummed; /* the first byte of the piece that is not in the checksum yet */
	uint32_t checksum;       /* checksum of the block's bytes before `unsummed`; 0 at the end of an undamaged block */
	enum stk_status failed;  /* why bytes could not be read; STK_OK: no read has failed */
	struct stk_error *err;
	/* Blocks that were read, and whose residuals stk__flac_finish will turn into samples. */
	struct stk_flac_block_memory {
		struct stk_flac_block block;
		int32_t *plane[STK_FLAC_MAX_CHANNELS];
		struct stk_flac_task tasks[STK_FLAC_MAX_CHANNELS];
		uint32_t wasted[STK_FLAC_MAX_CHANNELS]; /* number of zero bits below each sample, which the file does not store */
	} blocks[STK_FLAC_TOGETHER];
	int32_t block_count;
	int32_t *planes;                /* the memory of all members `plane` */
	int64_t *side;                  /* samples of a side channel with 33 bits */
	size_t capacity, side_capacity; /* number of samples that fit in a plane, and in `side` */
};

/* Prepares *d; allocates nothing. Later calls store their errors in `err`. `bytes`, `info` and `err` must outlive *d. cpu: features of the processor that
 * loops may use. */
void stk__flac_begin(struct stk_flac_decoder *d, const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, unsigned cpu,
	struct stk_error *err);
void stk__flac_end(struct stk_flac_decoder *d);

/* Reads the block at offset `at`: sets d->block to its header, appends it to d->blocks, which must have room, and sets *next to the offset of its end.
 * STK_CORRUPT, without a message: no block begins at `at`, or it is damaged. STK_END, without a message: the file ends inside the block. STK_NO_MEMORY, or
 * the failure of reading, with a message. */
STK_MUST_USE enum stk_status stk__flac_decode(struct stk_flac_decoder *d, uint64_t at, uint64_t *next);
/* Returns how many blocks the decoder can hold. When it holds this number of blocks, call stk__flac_finish. The number is above 1 for few channels, since up to
 * STK_FLAC_TOGETHER channels are predicted faster together than one by one. */
int32_t stk__flac_max_blocks(const struct stk_flac_decoder *d);
/* Makes samples from the residuals of all blocks in d->blocks, and computes left and right from a side channel. The caller then uses the planes and sets
 * block_count to 0. */
void stk__flac_finish(struct stk_flac_decoder *d);

/* Searches for the FLAC signature at the file's start or, if an ID3 tag is there, after the tag. head: the first n bytes of the file. Sets *at to the
 * signature's offset, or to UINT64_MAX if the file is not FLAC. */
STK_MUST_USE enum stk_status stk__flac_find(
	const struct stk_sound_bytes *bytes, const uint8_t *head, size_t n, uint64_t *at, struct stk_error *err);

/* Does what stk__sound_peek does, for a FLAC file whose signature is at `at`. Compares the number of frames in the file's header with the end of the last
 * block, unless bytes->costly is set. Searches for the file's end if the two differ, if they cannot be compared, if the header states no number, or if
 * `lenient` is set. The search decodes some blocks, or all blocks if their headers do not say at which frame they begin. */
STK_MUST_USE enum stk_status stk__flac_peek(
	const struct stk_sound_bytes *bytes, uint64_t at, bool lenient, struct stk_sound_info *info, struct stk_error *err);

/* Does what stk__sound_span does, for FLAC. STK_UNSUPPORTED: the headers of blocks do not say at which frame they begin, or the number of frames is not
 * known. */
STK_MUST_USE enum stk_status stk__flac_span(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, int64_t first,
	int64_t count, uint64_t margin, uint64_t *from, uint64_t *to);
/* Does what stk__sound_read does, for FLAC. */
STK_MUST_USE enum stk_status stk__flac_read(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info,
	const struct stk_sound_window *window, struct stk_error *err);

#endif
