/* SPDX-License-Identifier: Apache-2.0
 * The plain C twins of jpeg_unstuff.cu, jpeg_sync.cu and jpeg_write.cu: same data, same states, one lane after the other. */
#include "kernel/jpeg_gpu/jpeg_gpu_symbols.h"

#include <string.h>

/* ---- unstuffing ---- */

/* The part of a chunk that belongs to its stream, as offsets in raw. */
static void chunk_range(const struct stk_jpegpar_stream *s, uint32_t chunk, uint32_t *begin, uint32_t *end)
{
	uint32_t from = (s->src & ~15u) + (chunk - s->chunk0) * STK_JPEGPAR_CHUNK, to = from + STK_JPEGPAR_CHUNK,
		 stop = s->src + s->src_size;
	*begin = from > s->src ? from : s->src;
	*end = to < stop ? to : stop;
}

/* Byte i is a 00 behind FF. */
static bool is_stuffing(const struct stk_jpegpar_view *v, const struct stk_jpegpar_stream *s, uint32_t i)
{
	return i > s->src && v->raw[i] == 0 && v->raw[i - 1] == 0xff;
}

/* FF before byte i begins a marker: anything but 00 follows it. A second FF is a fill byte of the marker to come. */
static bool is_marker(const struct stk_jpegpar_view *v, const struct stk_jpegpar_stream *s, uint32_t i)
{
	return i > s->src && v->raw[i] != 0 && v->raw[i - 1] == 0xff;
}

void stk__jpegpar_count_chunk(const struct stk_jpegpar_view *v, uint32_t chunk)
{
	uint32_t at = stk__jpegpar_stream_of_chunk(v, chunk), begin, end, kept = 0;
	const struct stk_jpegpar_stream *s = &v->streams[at];
	chunk_range(s, chunk, &begin, &end);
	for (uint32_t i = begin; i < end; i++) {
		kept += !is_stuffing(v, s, i);
		if (is_marker(v, s, i) && i - 1 - s->src < v->marker[at])
			v->marker[at] = i - 1 - s->src;
	}
	v->kept[chunk] = kept;
}

void stk__jpegpar_unstuff_chunk(const struct stk_jpegpar_view *v, uint32_t chunk)
{
	uint32_t at = stk__jpegpar_stream_of_chunk(v, chunk), begin, end, base = 0;
	const struct stk_jpegpar_stream *s = &v->streams[at];
	uint32_t stop = s->src + (v->marker[at] < s->src_size ? v->marker[at] : s->src_size);
	uint8_t *out = v->bits + (size_t)s->segment0 * (STK_JPEGPAR_SEGMENT / 8);
	chunk_range(s, chunk, &begin, &end);
	for (uint32_t c = s->chunk0; c < chunk; c++)
		base += v->kept[c];
	for (uint32_t i = begin; i < end && i < stop; i++)
		if (!is_stuffing(v, s, i))
			out[base++ ^ 3] = v->raw[i];
	/* The chunk in which the stream ends knows its length; `<` and `<=` make it exactly one. */
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
	struct stk_jpegpar_code code;
	uint32_t length; /* bits */
};

static struct reader reader_of(const struct stk_jpegpar_view *v, uint32_t stream)
{
	const struct stk_jpegpar_stream *s = &v->streams[stream];
	const struct stk_jpegpar_image *image = &v->images[s->image];
	const struct stk_jpegpar_set *set = &v->sets[image->set];
	return (struct reader){stk__jpegpar_words(v, s), v->lut + set->at, stk__jpegpar_code(image, set), v->bit_length[stream]};
}

/* Decodes to the end of the interval that ends at bit `end` (or of the stream) and gives its checkpoint. */
static uint32_t run_interval(const struct reader *r, struct stk_jpegpar_lane *lane, uint32_t end)
{
	uint32_t blocks = 0, stop = end < r->length ? end : r->length;
	while (lane->p < stop) {
		uint32_t entry = stk__jpegpar_entry(r->lut, &r->code, lane, bits_ahead(r->words, lane->p));
		bool finished = stk__jpegpar_step(lane, &r->code, entry);
		blocks += finished && lane->p <= r->length;
	}
	return end >= r->length ? STK_JPEGPAR_END | blocks << 16 : stk__jpegpar_pack(lane, end, blocks);
}

void stk__jpegpar_own(const struct stk_jpegpar_view *v, uint32_t segment)
{
	uint32_t stream = stk__jpegpar_stream_of_segment(v, segment);
	const struct stk_jpegpar_stream *s = &v->streams[stream];
	struct reader r = reader_of(v, stream);
	uint32_t local = segment - s->segment0, *row = stk__jpegpar_row(v, s, 0) + local * STK_JPEGPAR_PER_SEGMENT;
	struct stk_jpegpar_lane lane = {local * STK_JPEGPAR_SEGMENT, 0, 0};
	uint32_t end = lane.p;
	for (int i = 0; i < STK_JPEGPAR_PER_SEGMENT && end < r.length; i++) {
		end += STK_JPEGPAR_INTERVAL;
		row[i] = run_interval(&r, &lane, end);
	}
}

/* A segment's lane goes on from interval `first` behind the segment, to before `end`. Gives the interval of the stream where it met another lane,
 * STREAM_END where the stream ends before, or NONE. */
static uint32_t follow(const struct stk_jpegpar_view *v, uint32_t segment, uint32_t first, uint32_t end)
{
	uint32_t stream = stk__jpegpar_stream_of_segment(v, segment);
	const struct stk_jpegpar_stream *s = &v->streams[stream];
	struct reader r = reader_of(v, stream);
	const uint32_t *own = stk__jpegpar_row(v, s, 0);
	uint32_t k = (segment - s->segment0 + 1) * STK_JPEGPAR_PER_SEGMENT + first, bit = k * STK_JPEGPAR_INTERVAL;
	if (bit >= r.length)
		return STK_JPEGPAR_STREAM_END;
	struct stk_jpegpar_lane lane =
		stk__jpegpar_unpack(stk__jpegpar_row(v, s, (first + STK_JPEGPAR_PER_SEGMENT - 1) / STK_JPEGPAR_PER_SEGMENT)[k - 1], bit);
	for (uint32_t i = first; i < end; i++, k++) {
		bit += STK_JPEGPAR_INTERVAL;
		uint32_t checkpoint = run_interval(&r, &lane, bit);
		stk__jpegpar_row(v, s, 1 + i / STK_JPEGPAR_PER_SEGMENT)[k] = checkpoint;
		if (bit >= r.length)
			return STK_JPEGPAR_STREAM_END;
		if ((checkpoint & STK_JPEGPAR_STATE) == (own[k] & STK_JPEGPAR_STATE))
			return k;
	}
	return STK_JPEGPAR_NONE;
}

void stk__jpegpar_near(const struct stk_jpegpar_view *v, uint32_t segment)
{
	v->match[segment] = follow(v, segment, 0, STK_JPEGPAR_NEAR);
}

void stk__jpegpar_far(const struct stk_jpegpar_view *v, uint32_t segment)
{
	if (v->match[segment] == STK_JPEGPAR_NONE)
		v->match[segment] = follow(v, segment, STK_JPEGPAR_NEAR, (STK_JPEGPAR_ROWS - 1) * STK_JPEGPAR_PER_SEGMENT);
}

/* ---- which lane is right where ---- */

/* Walks from lane 0 to the lane that it met, and on. Returns the segments that are covered; fewer than there are when a lane met none. */
static uint32_t walk(const struct stk_jpegpar_view *v, const struct stk_jpegpar_stream *s, uint32_t segments)
{
	uint32_t lane = 0, *cover = v->cover + s->segment0;
	cover[0] = 0;
	while (lane + 1 < segments) {
		uint32_t match = v->match[s->segment0 + lane];
		if (match == STK_JPEGPAR_NONE)
			return lane + 1;
		uint32_t to = match == STK_JPEGPAR_STREAM_END ? segments - 1 : match / STK_JPEGPAR_PER_SEGMENT;
		for (uint32_t j = lane + 1; j < to; j++)
			cover[j] = (j - lane) << 16 | STK_JPEGPAR_PER_SEGMENT;
		uint32_t intervals = match == STK_JPEGPAR_STREAM_END ? STK_JPEGPAR_PER_SEGMENT : match % STK_JPEGPAR_PER_SEGMENT + 1;
		cover[to] = (to - lane) << 16 | intervals;
		lane = to;
		if (match == STK_JPEGPAR_STREAM_END)
			break;
	}
	return segments;
}

static uint32_t right_checkpoint(const struct stk_jpegpar_view *v, const struct stk_jpegpar_stream *s, uint32_t k)
{
	uint32_t cover = v->cover[s->segment0 + k / STK_JPEGPAR_PER_SEGMENT];
	uint32_t row = k % STK_JPEGPAR_PER_SEGMENT < (cover & 0xffff) ? cover >> 16 : 0;
	return stk__jpegpar_row(v, s, row)[k];
}

void stk__jpegpar_chain(const struct stk_jpegpar_view *v, uint32_t stream)
{
	const struct stk_jpegpar_stream *s = &v->streams[stream];
	uint32_t length = v->bit_length[stream], segments = (length + STK_JPEGPAR_SEGMENT - 1) / STK_JPEGPAR_SEGMENT;
	uint32_t covered = segments ? walk(v, s, segments) : 0;
	uint32_t intervals = (length + STK_JPEGPAR_INTERVAL - 1) / STK_JPEGPAR_INTERVAL;
	uint32_t known = covered * STK_JPEGPAR_PER_SEGMENT < intervals ? covered * STK_JPEGPAR_PER_SEGMENT : intervals;
	uint32_t block = 0, state = 0;
	for (uint32_t piece = 0; piece < s->segments * STK_JPEGPAR_PIECES; piece++) {
		uint32_t k = piece * STK_JPEGPAR_PER_PIECE;
		struct stk_jpegpar_start *start = &v->starts[s->segment0 * STK_JPEGPAR_PIECES + piece];
		*start = (struct stk_jpegpar_start){k < known && block < s->blocks ? block : STK_JPEGPAR_NONE, state & STK_JPEGPAR_STATE};
		for (uint32_t i = 0; i < STK_JPEGPAR_PER_PIECE && k < known; i++, k++) {
			state = right_checkpoint(v, s, k);
			block += state >> 16;
		}
	}
	if (block < s->blocks)
		v->flags[s->image] |= covered < segments ? STK_JPEGPAR_NO_SYNC : STK_JPEGPAR_SHORT;
}

/* ---- coefficients ---- */

static void store_block(const struct stk_jpegpar_view *v, const struct stk_jpegpar_stream *s, uint32_t block, const int16_t *coef)
{
	const struct stk_jpegpar_image *image = &v->images[s->image];
	uint32_t b = s->mcu0 * image->blocks_mcu + block;
	struct stk_jpegpar_place place = stk__jpegpar_place(image, b);
	v->dc[image->dc0 + b] = coef[0];
	if (stk__jpegpar_inside(image, &place))
		memcpy(v->coef + 64 * (size_t)stk__jpegpar_coef_of(image, &place), coef, 128);
}

void stk__jpegpar_write(const struct stk_jpegpar_view *v, uint32_t piece)
{
	uint32_t stream = stk__jpegpar_stream_of_segment(v, piece / STK_JPEGPAR_PIECES);
	const struct stk_jpegpar_stream *s = &v->streams[stream];
	struct stk_jpegpar_start start = v->starts[piece];
	struct reader r = reader_of(v, stream);
	if (start.block == STK_JPEGPAR_NONE)
		return;
	uint32_t begin = (piece - s->segment0 * STK_JPEGPAR_PIECES) * STK_JPEGPAR_PIECE, end = begin + STK_JPEGPAR_PIECE;
	uint32_t block = start.block, flags = 0;
	struct stk_jpegpar_lane lane = stk__jpegpar_unpack(start.state, begin);
	bool skipping = lane.z != 0; /* a block that began in an earlier piece */
	int16_t coef[64] = {0};
	end = end < r.length ? end : r.length;
	while (block < s->blocks && (lane.p < end || (lane.z && !skipping))) {
		uint32_t ahead = bits_ahead(r.words, lane.p), entry = stk__jpegpar_entry(r.lut, &r.code, &lane, ahead);
		uint32_t z = lane.z + stk__jpegpar_entry_moves(entry);
		if (entry >> 5 & 15)
			coef[(z - 1) & 63] = (int16_t)stk__jpegpar_value(entry, ahead);
		bool finished = stk__jpegpar_step(&lane, &r.code, entry);
		if (!skipping)
			flags |= (entry & 1 << 14 ? STK_JPEGPAR_BAD_CODE : 0) |
				 (z > 64 && stk__jpegpar_entry_moves(entry) < 64 ? STK_JPEGPAR_OVERRUN : 0);
		if (!finished)
			continue;
		if (!skipping)
			store_block(v, s, block, coef);
		memset(coef, 0, sizeof coef);
		skipping = false;
		if (++block == s->blocks && !s->last && r.length >= lane.p + 8)
			flags |= STK_JPEGPAR_LEFTOVER;
	}
	v->flags[s->image] |= flags;
}

void stk__jpegpar_dc(const struct stk_jpegpar_view *v, uint32_t stream)
{
	const struct stk_jpegpar_stream *s = &v->streams[stream];
	const struct stk_jpegpar_image *image = &v->images[s->image];
	int16_t *dc = v->dc + image->dc0 + s->mcu0 * image->blocks_mcu;
	int32_t sum[3] = {0};
	for (uint32_t b = 0; b < s->blocks; b++) {
		int32_t *component = &sum[image->places >> 2 * (b % image->blocks_mcu) & 3];
		*component += dc[b];
		if (*component != (int16_t)*component)
			v->flags[s->image] |= STK_JPEGPAR_DC_RANGE;
		dc[b] = (int16_t)*component;
	}
}
