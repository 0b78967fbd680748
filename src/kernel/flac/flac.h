/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of a FLAC decoder (RFC 9639): residuals from a bitstream, prediction, and the checksum of frames. All functions accept any input. */
#ifndef STK_KERNEL_FLAC_H
#define STK_KERNEL_FLAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { STK_FLAC_MAX_ORDER = 32, STK_FLAC_MAX_CHANNELS = 8, STK_FLAC_MAX_BLOCK = 65535 };

/* Reads bits from bytes that arrive in pieces. After the last byte, all bits are 0. */
struct stk_flac_bits {
	uint64_t cache;         /* the next bits, from the most significant on */
	int32_t count;          /* number of bits of the cache that may be consumed */
	int32_t zeros;          /* number of 0 bits that were appended after the last byte */
	const uint8_t *p, *end; /* start and end of the piece's bytes that are not in the cache */
	/* Called if fewer than 8 bytes of the piece are left. Adds these bytes, those of the next piece, and 0 bits after the last byte, until at least 57
	 * bits are in the cache. */
	void (*more)(struct stk_flac_bits *b);
};

/* Returns whether bits after the last byte were consumed. */
static inline bool stk__flac_ended(const struct stk_flac_bits *b)
{
	return b->count < b->zeros;
}

static inline uint64_t stk__flac_load(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return __builtin_bswap64(v);
}

/* Makes at least 56 bits available. The cache may contain more bits than `count`; these are loaded again, and an OR of equal bits does not change them. */
static inline void stk__flac_refill(struct stk_flac_bits *b)
{
	if (b->end - b->p < 8) {
		b->more(b);
		return;
	}
	b->cache |= stk__flac_load(b->p) >> b->count;
	b->p += (63 - b->count) >> 3;
	b->count |= 56;
}

static inline void stk__flac_skip(struct stk_flac_bits *b, int32_t n)
{
	b->cache <<= n;
	b->count -= n;
}

/* Returns the next n bits, n <= 32. */
static inline uint32_t stk__flac_get(struct stk_flac_bits *b, int32_t n)
{
	if (b->count < n)
		stk__flac_refill(b);
	uint32_t v = (uint32_t)(b->cache >> 1 >> (63 - n));
	stk__flac_skip(b, n);
	return v;
}

/* Returns the next n bits as a number with a sign, 1 <= n <= 33. */
static inline int64_t stk__flac_get_signed(struct stk_flac_bits *b, int32_t n)
{
	if (b->count < n)
		stk__flac_refill(b);
	int64_t v = (int64_t)b->cache >> (64 - n);
	stk__flac_skip(b, n);
	return v;
}

/* Consumes zero bits and the one bit after them; sets *zeros to the number of zeros. Returns false if there are more than `most` zeros or the bytes end. */
bool stk__flac_unary(struct stk_flac_bits *b, uint32_t most, uint32_t *zeros);

/* A predictor: sample i is its residual plus (the sum of coefficient[k] * sample[i - 1 - k] over all k) shifted right by `shift`. */
struct stk_flac_predictor {
	int32_t order, shift;
	int32_t coefficient[STK_FLAC_MAX_ORDER];
};

/* A subframe whose residuals x[p.order .. n - 1] have to be replaced by samples. */
struct stk_flac_task {
	struct stk_flac_predictor p; /* order 0: x contains samples, not residuals */
	bool fixed;                  /* p is one of the fixed predictors of the format */
	int32_t bits;                /* bits per sample, at most 32 */
	int32_t n;
	int32_t *x;
};
enum { STK_FLAC_TOGETHER = 4 /* number of subframes of equal length that are best predicted together */ };

struct stk_flac_loops {
	/* Reads the coded residuals of a subframe, and stores them in to[order .. block - 1]. Returns false if they are invalid, or if the bytes end. */
	bool (*residual)(struct stk_flac_bits *b, int32_t *to, int32_t block, int32_t order);
	/* Replaces the residuals of `count` subframes by samples. Samples that exceed 32 bits wrap around. */
	void (*predict)(const struct stk_flac_task *tasks, int32_t count);
	/* Returns the checksum of a frame (CRC-16 with polynomial 0x8005) after n more bytes. checksum: the result for the frame's earlier bytes, 0 if there
	 * are none. For a whole frame, including its stored checksum, the result is 0. */
	uint32_t (*checksum)(uint32_t checksum, const uint8_t *p, size_t n);
};

/* Returns the loops for a processor with the features `cpu` (base/cpu.h). */
const struct stk_flac_loops *stk__flac_loops(unsigned cpu);

extern const struct stk_flac_loops stk__flac_plain, stk__flac_avx2, stk__flac_clmul;

#endif
