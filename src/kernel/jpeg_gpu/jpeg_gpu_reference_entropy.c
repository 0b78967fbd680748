/* SPDX-License-Identifier: Apache-2.0
 * Plain C versions of jpeg_gpu_unstuff.cu, jpeg_gpu_synchronise.cu and jpeg_gpu_coefficients.cu. They produce the same data and the same states. */
#include "kernel/jpeg_gpu/jpeg_gpu_reference.h"
#include "kernel/jpeg_gpu/jpeg_gpu_symbols.h"

#include <string.h>

/* ---- unstuffing ---- */

/* Sets *begin and *end to the range of a chunk's bytes that belong to the bitstream, as offsets in raw. */
static void chunk_range(const struct stk_jpeg_gpu_bitstream *s, uint32_t chunk, uint32_t *begin, uint32_t *end)
{
	uint32_t from = (s->src & ~15u) + (chunk - s->chunk0) * STK_JPEG_GPU_CHUNK, to = from + STK_JPEG_GPU_CHUNK,
		 stop = s->src + s->src_size;
	*begin = from > s->src ? from : s->src;
	*end = to < stop ? to : stop;
}

/* Returns whether byte i is a 00 that follows FF. */
static bool is_stuffing(const struct stk_jpeg_gpu_view *v, const struct stk_jpeg_gpu_bitstream *s, uint32_t i)
{
	return i > s->src && v->raw[i] == 0 && v->raw[i - 1] == 0xff;
}

/* Returns whether byte i - 1 is an FF that no 00 follows: the first byte of a marker, or a fill byte before it. */
static bool is_marker(const struct stk_jpeg_gpu_view *v, const struct stk_jpeg_gpu_bitstream *s, uint32_t i)
{
	return i > s->src && v->raw[i] != 0 && v->raw[i - 1] == 0xff;
}

void stk__jpeg_gpu_count(const struct stk_jpeg_gpu_view *v, uint32_t chunk)
{
	uint32_t at = stk__jpeg_gpu_bitstream_of_chunk(v, chunk), begin, end, kept = 0;
	const struct stk_jpeg_gpu_bitstream *s = &v->bitstreams[at];
	chunk_range(s, chunk, &begin, &end);
	for (uint32_t i = begin; i < end; i++) {
		kept += !is_stuffing(v, s, i);
		if (is_marker(v, s, i) && i - 1 - s->src < v->marker[at])
			v->marker[at] = i - 1 - s->src;
	}
	v->kept[chunk] = kept;
}

void stk__jpeg_gpu_unstuff(const struct stk_jpeg_gpu_view *v, uint32_t chunk)
{
	uint32_t at = stk__jpeg_gpu_bitstream_of_chunk(v, chunk), begin, end, base = 0;
	const struct stk_jpeg_gpu_bitstream *s = &v->bitstreams[at];
	uint32_t stop = s->src + (v->marker[at] < s->src_size ? v->marker[at] : s->src_size);
	uint8_t *out = v->bits + (size_t)s->subsequence0 * (STK_JPEG_GPU_SUBSEQUENCE / 8);
	chunk_range(s, chunk, &begin, &end);
	for (uint32_t c = s->chunk0; c < chunk; c++)
		base += v->kept[c];
	for (uint32_t i = begin; i < end && i < stop; i++)
		if (!is_stuffing(v, s, i))
			out[base++ ^ 3] = v->raw[i];
	/* The chunk in which the bitstream ends writes the bitstream's length in bits. The mix of `>` and `<=` makes sure that exactly one chunk does. */
	bool first = chunk == s->chunk0, last = chunk == s->chunk0 + s->chunks - 1;
	if ((stop > begin || first) && (stop <= end || last))
		v->bit_length[at] = 8 * base;
}

/* ---- synchronisation ---- */

static uint32_t bits_ahead(const uint32_t *words, uint32_t p)
{
	uint64_t two = (uint64_t)words[p >> 5] << 32 | words[(p >> 5) + 1];
	return (uint32_t)(two << (p & 31) >> 32);
}

struct reader {
	const uint32_t *words;
	const uint16_t *lut;
	struct stk_jpeg_gpu_code code;
	uint32_t length; /* in bits */
};

static struct reader reader_of(const struct stk_jpeg_gpu_view *v, uint32_t bitstream)
{
	const struct stk_jpeg_gpu_bitstream *s = &v->bitstreams[bitstream];
	const struct stk_jpeg_gpu_image *image = &v->images[s->image];
	const struct stk_jpeg_gpu_set *set = &v->sets[image->set];
	return (struct reader){stk__jpeg_gpu_words(v, s), v->lut + set->at, stk__jpeg_gpu_code(image, set), v->bit_length[bitstream]};
}

/* Decodes until bit `end`, where the interval ends, or until the bitstream ends. Returns the packed state at that point. */
static uint32_t run_interval(const struct reader *r, struct stk_jpeg_gpu_state *state, uint32_t end)
{
	uint32_t blocks = 0, stop = end < r->length ? end : r->length;
	while (state->p < stop) {
		uint32_t entry = stk__jpeg_gpu_entry(r->lut, &r->code, state, bits_ahead(r->words, state->p));
		bool finished = stk__jpeg_gpu_step(state, &r->code, entry);
		blocks += finished && state->p <= r->length;
	}
	return end >= r->length ? STK_JPEG_GPU_END | blocks << 16 : stk__jpeg_gpu_pack(state, end, blocks);
}

void stk__jpeg_gpu_decode_subsequence(const struct stk_jpeg_gpu_view *v, uint32_t subsequence)
{
	uint32_t bitstream = stk__jpeg_gpu_bitstream_of_subsequence(v, subsequence);
	const struct stk_jpeg_gpu_bitstream *s = &v->bitstreams[bitstream];
	struct reader r = reader_of(v, bitstream);
	uint32_t local = subsequence - s->subsequence0, *row = stk__jpeg_gpu_row(v, s, 0) + local * STK_JPEG_GPU_PER_SUBSEQUENCE;
	struct stk_jpeg_gpu_state state = {local * STK_JPEG_GPU_SUBSEQUENCE, 0, 0};
	uint32_t end = state.p;
	for (int i = 0; i < STK_JPEG_GPU_PER_SUBSEQUENCE && end < r.length; i++) {
		end += STK_JPEG_GPU_INTERVAL;
		row[i] = run_interval(&r, &state, end);
	}
}

/* Continues the decoder of a subsequence into intervals first .. end - 1, counted from the end of the subsequence. Returns the index in the bitstream of
 * the interval in which it synchronised; BITSTREAM_END if the bitstream ends first; or NONE if it did not synchronise. */
static uint32_t overflow(const struct stk_jpeg_gpu_view *v, uint32_t subsequence, uint32_t first, uint32_t end)
{
	uint32_t bitstream = stk__jpeg_gpu_bitstream_of_subsequence(v, subsequence);
	const struct stk_jpeg_gpu_bitstream *s = &v->bitstreams[bitstream];
	struct reader r = reader_of(v, bitstream);
	const uint32_t *row0 = stk__jpeg_gpu_row(v, s, 0);
	uint32_t k = (subsequence - s->subsequence0 + 1) * STK_JPEG_GPU_PER_SUBSEQUENCE + first, bit = k * STK_JPEG_GPU_INTERVAL;
	if (bit >= r.length)
		return STK_JPEG_GPU_BITSTREAM_END;
	struct stk_jpeg_gpu_state state = stk__jpeg_gpu_unpack(
		stk__jpeg_gpu_row(v, s, (first + STK_JPEG_GPU_PER_SUBSEQUENCE - 1) / STK_JPEG_GPU_PER_SUBSEQUENCE)[k - 1], bit);
	for (uint32_t i = first; i < end; i++, k++) {
		bit += STK_JPEG_GPU_INTERVAL;
		uint32_t checkpoint = run_interval(&r, &state, bit);
		stk__jpeg_gpu_row(v, s, 1 + i / STK_JPEG_GPU_PER_SUBSEQUENCE)[k] = checkpoint;
		if (bit >= r.length)
			return STK_JPEG_GPU_BITSTREAM_END;
		if ((checkpoint & STK_JPEG_GPU_STATE) == (row0[k] & STK_JPEG_GPU_STATE))
			return k;
	}
	return STK_JPEG_GPU_NONE;
}

void stk__jpeg_gpu_synchronise(const struct stk_jpeg_gpu_view *v, uint32_t subsequence)
{
	v->match[subsequence] = overflow(v, subsequence, 0, STK_JPEG_GPU_SYNC_INTERVALS);
}

void stk__jpeg_gpu_synchronise_straggler(const struct stk_jpeg_gpu_view *v, uint32_t subsequence)
{
	if (v->match[subsequence] == STK_JPEG_GPU_NONE)
		v->match[subsequence] =
			overflow(v, subsequence, STK_JPEG_GPU_SYNC_INTERVALS, (STK_JPEG_GPU_ROWS - 1) * STK_JPEG_GPU_PER_SUBSEQUENCE);
}

/* ---- resolving ---- */

/* Goes from subsequence 0 to the subsequence with which its thread synchronised, from there to the next one, and so on, and sets v->cover of the
 * subsequences on the way. Returns the number of subsequences, counted from the first, whose right checkpoints are known: less than `subsequences` if a
 * thread did not synchronise. */
static uint32_t walk(const struct stk_jpeg_gpu_view *v, const struct stk_jpeg_gpu_bitstream *s, uint32_t subsequences)
{
	uint32_t from = 0, *cover = v->cover + s->subsequence0;
	cover[0] = 0;
	while (from + 1 < subsequences) {
		uint32_t match = v->match[s->subsequence0 + from];
		if (match == STK_JPEG_GPU_NONE)
			return from + 1;
		uint32_t to = match == STK_JPEG_GPU_BITSTREAM_END ? subsequences - 1 : match / STK_JPEG_GPU_PER_SUBSEQUENCE;
		for (uint32_t j = from + 1; j < to; j++)
			cover[j] = (j - from) << 16 | STK_JPEG_GPU_PER_SUBSEQUENCE;
		uint32_t intervals =
			match == STK_JPEG_GPU_BITSTREAM_END ? STK_JPEG_GPU_PER_SUBSEQUENCE : match % STK_JPEG_GPU_PER_SUBSEQUENCE + 1;
		cover[to] = (to - from) << 16 | intervals;
		from = to;
		if (match == STK_JPEG_GPU_BITSTREAM_END)
			break;
	}
	return subsequences;
}

static uint32_t right_checkpoint(const struct stk_jpeg_gpu_view *v, const struct stk_jpeg_gpu_bitstream *s, uint32_t k)
{
	uint32_t cover = v->cover[s->subsequence0 + k / STK_JPEG_GPU_PER_SUBSEQUENCE];
	uint32_t row = k % STK_JPEG_GPU_PER_SUBSEQUENCE < (cover & 0xffff) ? cover >> 16 : 0;
	return stk__jpeg_gpu_row(v, s, row)[k];
}

void stk__jpeg_gpu_resolve(const struct stk_jpeg_gpu_view *v, uint32_t bitstream)
{
	const struct stk_jpeg_gpu_bitstream *s = &v->bitstreams[bitstream];
	uint32_t length = v->bit_length[bitstream], subsequences = (length + STK_JPEG_GPU_SUBSEQUENCE - 1) / STK_JPEG_GPU_SUBSEQUENCE;
	uint32_t covered = subsequences ? walk(v, s, subsequences) : 0;
	uint32_t intervals = (length + STK_JPEG_GPU_INTERVAL - 1) / STK_JPEG_GPU_INTERVAL;
	uint32_t known = covered * STK_JPEG_GPU_PER_SUBSEQUENCE < intervals ? covered * STK_JPEG_GPU_PER_SUBSEQUENCE : intervals;
	uint32_t block = 0, state = 0;
	for (uint32_t piece = 0; piece < s->subsequences * STK_JPEG_GPU_PIECES; piece++) {
		uint32_t k = piece * STK_JPEG_GPU_PER_PIECE;
		struct stk_jpeg_gpu_start *start = &v->starts[s->subsequence0 * STK_JPEG_GPU_PIECES + piece];
		*start =
			(struct stk_jpeg_gpu_start){k < known && block < s->blocks ? block : STK_JPEG_GPU_NONE, state & STK_JPEG_GPU_STATE};
		for (uint32_t i = 0; i < STK_JPEG_GPU_PER_PIECE && k < known; i++, k++) {
			state = right_checkpoint(v, s, k);
			block += state >> 16;
		}
	}
	if (block < s->blocks)
		v->flags[s->image] |= covered < subsequences ? STK_JPEG_GPU_NO_SYNC : STK_JPEG_GPU_SHORT;
}

/* ---- coefficients ---- */

static void store_block(const struct stk_jpeg_gpu_view *v, const struct stk_jpeg_gpu_bitstream *s, uint32_t block, const int16_t *coef)
{
	const struct stk_jpeg_gpu_image *image = &v->images[s->image];
	uint32_t b = s->mcu0 * image->blocks_mcu + block;
	struct stk_jpeg_gpu_place place = stk__jpeg_gpu_place(image, b);
	v->dc[image->dc0 + b] = coef[0];
	if (stk__jpeg_gpu_inside(image, &place))
		memcpy(v->coef + 64 * (size_t)stk__jpeg_gpu_coef_of(image, &place), coef, 128);
}

void stk__jpeg_gpu_decode_coefficients(const struct stk_jpeg_gpu_view *v, uint32_t piece)
{
	uint32_t bitstream = stk__jpeg_gpu_bitstream_of_subsequence(v, piece / STK_JPEG_GPU_PIECES);
	const struct stk_jpeg_gpu_bitstream *s = &v->bitstreams[bitstream];
	struct stk_jpeg_gpu_start start = v->starts[piece];
	struct reader r = reader_of(v, bitstream);
	if (start.block == STK_JPEG_GPU_NONE)
		return;
	uint32_t begin = (piece - s->subsequence0 * STK_JPEG_GPU_PIECES) * STK_JPEG_GPU_PIECE, end = begin + STK_JPEG_GPU_PIECE;
	uint32_t block = start.block, flags = 0;
	struct stk_jpeg_gpu_state state = stk__jpeg_gpu_unpack(start.state, begin);
	bool skipping = state.z != 0; /* the first block began in an earlier piece */
	int16_t coef[64] = {0};
	end = end < r.length ? end : r.length;
	while (block < s->blocks && (state.p < end || (state.z && !skipping))) {
		uint32_t ahead = bits_ahead(r.words, state.p), entry = stk__jpeg_gpu_entry(r.lut, &r.code, &state, ahead);
		uint32_t z = state.z + stk__jpeg_gpu_entry_moves(entry);
		if (entry >> 5 & 15)
			coef[(z - 1) & 63] = (int16_t)stk__jpeg_gpu_value(entry, ahead);
		bool finished = stk__jpeg_gpu_step(&state, &r.code, entry);
		if (!skipping)
			flags |= (entry & 1 << 14 ? STK_JPEG_GPU_BAD_CODE : 0) |
				 (z > 64 && stk__jpeg_gpu_entry_moves(entry) < 64 ? STK_JPEG_GPU_OVERRUN : 0);
		if (!finished)
			continue;
		if (!skipping)
			store_block(v, s, block, coef);
		memset(coef, 0, sizeof coef);
		skipping = false;
		if (++block == s->blocks && !s->last && r.length >= state.p + 8)
			flags |= STK_JPEG_GPU_LEFTOVER;
	}
	v->flags[s->image] |= flags;
}

void stk__jpeg_gpu_dc(const struct stk_jpeg_gpu_view *v, uint32_t bitstream)
{
	const struct stk_jpeg_gpu_bitstream *s = &v->bitstreams[bitstream];
	const struct stk_jpeg_gpu_image *image = &v->images[s->image];
	int16_t *dc = v->dc + image->dc0 + s->mcu0 * image->blocks_mcu;
	int32_t sum[3] = {0};
	for (uint32_t b = 0; b < s->blocks; b++) {
		int32_t *component = &sum[image->block_components >> 2 * (b % image->blocks_mcu) & 3];
		*component += dc[b];
		if (*component != (int16_t)*component)
			v->flags[s->image] |= STK_JPEG_GPU_DC_RANGE;
		dc[b] = (int16_t)*component;
	}
}
