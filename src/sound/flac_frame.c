/* SPDX-License-Identifier: Apache-2.0
 * Decodes the blocks of FLAC files: RFC 9639, section 9. */
#include "base/error.h"
#include "base/memory.h"
#include "sound/flac.h"

/* ---- header ---- */

static uint32_t header_checksum(const uint8_t *p, int32_t n)
{
	uint32_t sum = 0;
	for (int32_t i = 0; i < n; i++) {
		sum ^= p[i];
		for (int k = 0; k < 8; k++)
			sum = sum & 0x80 ? (sum << 1 & 0xff) ^ 7 : sum << 1;
	}
	return sum;
}

/* Reads a number of up to 36 bits that is coded like a character in UTF-8. Returns its size in bytes, or 0 if it is invalid. */
static int32_t read_number(const uint8_t *p, uint64_t *number)
{
	if (p[0] < 0x80) {
		*number = p[0];
		return 1;
	}
	const int32_t n = __builtin_clz(~((uint32_t)p[0] << 24 | 0xffffff) | 1 << 23);
	if (n < 2 || n > 7)
		return 0;
	*number = n == 7 ? 0 : p[0] & (0x7fu >> n);
	for (int32_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*number = *number << 6 | (p[i] & 0x3f);
	}
	return n;
}

bool stk__flac_block_read(const uint8_t *p, size_t n, int32_t rate, int32_t bits, struct stk_flac_block *block)
{
	static const int32_t rates[] = {0, 88200, 176400, 192000, 8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000};
	static const int8_t widths[] = {0, 8, 12, -1, 16, 20, 24, 32};
	uint8_t head[STK_FLAC_HEADER] = {0};
	int32_t at = 4;
	if (n < 6 || p[0] != 0xff || (p[1] & 0xfe) != 0xf8)
		return false;
	memcpy(head, p, n < sizeof head ? n : sizeof head);
	const int32_t size = head[2] >> 4, rated = head[2] & 15, channels = head[3] >> 4, width = head[3] >> 1 & 7;
	const int32_t used = read_number(head + at, &block->number);
	if (!used || !size || rated == 15 || channels > 10 || width == 3 || head[3] & 1)
		return false;
	at += used;
	block->variable = head[1] & 1;
	block->channels = channels < 8 ? channels + 1 : 2;
	block->first_side = channels == 9 ? 1 : channels == 8 || channels == 10 ? 0 : -1;
	block->middle = channels == 10;
	block->bits = width ? widths[width] : bits;
	block->frames = size == 1 ? 192 : size < 6 ? 144 << size : 1 << size;
	if (size == 6 || size == 7) {
		block->frames = (size == 6 ? head[at] : head[at] << 8 | head[at + 1]) + 1;
		at += size - 5;
	}
	block->rate = !rated ? rate : rated < 12 ? rates[rated] : rated == 12 ? head[at] * 1000 : head[at] << 8 | head[at + 1];
	block->rate *= rated == 14 ? 10 : 1;
	at += rated < 12 ? 0 : rated == 12 ? 1 : 2;
	block->bytes = at + 1;
	return block->frames <= STK_FLAC_MAX_BLOCK && (size_t)block->bytes <= n && header_checksum(head, at) == head[at];
}

/* ---- bytes ---- */

/* Sets d->piece to the file's bytes from offset `at` on. Stores a failure in d->failed; the piece is then empty. */
static void take_piece(struct stk_flac_decoder *d, uint64_t at)
{
	const uint64_t remaining = d->bytes->size - at;
	size_t n = remaining < STK_SOUND_READ ? (size_t)remaining : STK_SOUND_READ;
	d->piece_at = at;
	if (d->bytes->data) {
		d->piece = d->bytes->data + at;
		n = (size_t)remaining;
	} else if ((d->failed = d->bytes->read(d->bytes->user, at, n, &d->piece, d->err))) {
		n = 0;
		d->piece = (const uint8_t *)"";
	}
	d->unsummed = d->bits.p = d->piece;
	d->bits.end = d->piece + n;
}

/* Returns the file offset of the byte that contains the next bit. */
static uint64_t next_byte_offset(const struct stk_flac_decoder *d)
{
	return d->piece_at + (uint64_t)(d->bits.p - d->piece) - (uint64_t)((d->bits.count - d->bits.zeros + 7) / 8);
}

static void sum_until(struct stk_flac_decoder *d, uint64_t at)
{
	const uint8_t *to = d->piece + (at - d->piece_at);
	d->checksum = d->loops->checksum(d->checksum, d->unsummed, (size_t)(to - d->unsummed));
	d->unsummed = to;
}

static void refill(struct stk_flac_bits *b)
{
	struct stk_flac_decoder *d = (struct stk_flac_decoder *)(void *)b;
	if (d->piece_at + (uint64_t)(b->end - d->piece) < d->bytes->size && !d->failed) {
		const int32_t bit_offset = (8 - b->count % 8) % 8; /* number of bits of the next byte that were consumed already */
		const uint64_t at = next_byte_offset(d);
		sum_until(d, at);
		take_piece(d, at);
		b->cache = 0;
		b->count = 0;
		if (bit_offset && b->p < b->end) {
			b->cache = (uint64_t)*b->p++ << 56 << bit_offset;
			b->count = 8 - bit_offset;
		}
	}
	for (; b->count <= 56; b->count += 8) {
		if (b->p < b->end)
			b->cache |= (uint64_t)*b->p++ << (56 - b->count);
		else
			b->zeros += 8;
	}
}

/* Begins to read bits at offset `at`, in a piece that has at least STK_FLAC_HEADER bytes from `at` on, unless the file ends before that. */
static void go_to(struct stk_flac_decoder *d, uint64_t at)
{
	const uint64_t end = d->piece_at + (uint64_t)(d->bits.end - d->piece);
	d->bits.cache = 0;
	d->bits.count = d->bits.zeros = 0;
	if (at < d->piece_at || at > end || (end - at < STK_FLAC_HEADER && end < d->bytes->size))
		take_piece(d, at);
	d->unsummed = d->bits.p = d->piece + (at - d->piece_at);
	d->checksum = 0;
}

/* ---- subframes ---- */

static enum stk_status read_predictor(struct stk_flac_bits *b, struct stk_flac_predictor *p)
{
	const int32_t precision = (int32_t)stk__flac_get(b, 4) + 1;
	p->shift = (int32_t)stk__flac_get_signed(b, 5);
	if (precision == 16 || p->shift < 0)
		return STK_CORRUPT;
	for (int32_t k = 0; k < p->order; k++)
		p->coefficient[k] = (int32_t)stk__flac_get_signed(b, precision);
	return STK_OK;
}

/* Computes the samples of a channel with 33 bits from the residuals in x. Stores them in d->side, and their lower 32 bits in x. */
static void predict_side(struct stk_flac_decoder *d, const struct stk_flac_predictor *p, int32_t *x, int32_t n)
{
	int64_t *side = d->side;
	for (int32_t i = p->order; i < n; i++) {
		uint64_t sum = 0;
		for (int32_t k = 0; k < p->order; k++)
			sum += (uint64_t)p->coefficient[k] * (uint64_t)side[i - 1 - k];
		side[i] = (int64_t)((uint64_t)x[i] + (uint64_t)((int64_t)sum >> p->shift));
		x[i] = (int32_t)(uint32_t)side[i];
	}
}

static const struct stk_flac_predictor fixed[] = {{0, 0, {0}}, {1, 0, {1}}, {2, 0, {2, -1}}, {3, 0, {3, -3, 1}}, {4, 0, {4, -6, 4, -1}}};

/* Reads one channel with `bits` bits a sample into its plane, as residuals. Stores samples instead if the channel has no predictor, or if `bits` is 33: then
 * they go to d->side, and their lower 32 bits to the plane. */
static enum stk_status read_subframe(struct stk_flac_decoder *d, int32_t bits, struct stk_flac_block_memory *memory, int32_t channel)
{
	struct stk_flac_bits *b = &d->bits;
	struct stk_flac_task *task = &memory->tasks[channel];
	int32_t *x = memory->plane[channel];
	const int32_t n = d->block.frames;
	const uint32_t head = stk__flac_get(b, 8), type = head >> 1 & 0x3f;
	uint32_t wasted = 0;
	int64_t *side = bits > 32 ? d->side : NULL;
	if (head & 0x80 || (head & 1 && !stk__flac_unary(b, 32, &wasted)))
		return STK_CORRUPT;
	wasted += head & 1;
	if ((int32_t)wasted >= bits)
		return STK_CORRUPT;
	bits -= (int32_t)wasted;
	memory->wasted[channel] = wasted;
	task->p.order = 0;
	task->fixed = type < 32;
	task->bits = bits;
	task->n = n;
	task->x = x;
	if (type < 2) {
		int64_t v = 0;
		for (int32_t i = 0; i < n; i++) {
			v = i && type == 0 ? v : stk__flac_get_signed(b, bits);
			x[i] = (int32_t)v;
			if (side)
				side[i] = v;
		}
	} else {
		struct stk_flac_predictor p = {.order = type >= 32 ? (int32_t)type - 31 : (int32_t)type - 8};
		if (p.order < 0 || (type < 32 && p.order > 4) || p.order > n)
			return STK_CORRUPT;
		for (int32_t i = 0; i < p.order; i++) {
			const int64_t v = stk__flac_get_signed(b, bits);
			x[i] = (int32_t)v;
			if (side)
				side[i] = v;
		}
		if ((type >= 32 && read_predictor(b, &p)) || !d->loops->residual(b, x, n, p.order))
			return STK_CORRUPT;
		if (side)
			predict_side(d, type < 32 ? &fixed[p.order] : &p, x, n);
		else
			task->p = type < 32 ? fixed[p.order] : p;
	}
	for (int32_t i = 0; i < n && wasted && side; i++)
		side[i] = (int64_t)((uint64_t)side[i] << wasted);
	return STK_OK;
}

/* ---- blocks ---- */

int32_t stk__flac_max_blocks(const struct stk_flac_decoder *d)
{
	const bool wide = d->info->bits == 32 && d->info->channels == 2; /* d->side has room for one block */
	return wide || d->info->channels > STK_FLAC_TOGETHER / 2 ? 1 : STK_FLAC_TOGETHER / d->info->channels;
}

/* Makes the planes of d->blocks large enough for d->block, and keeps their contents. Also makes d->side large enough, if d->block has a side channel with 33
 * bits. */
static enum stk_status allocate_planes(struct stk_flac_decoder *d)
{
	const size_t n = (size_t)d->block.frames, channels = (size_t)d->info->channels;
	const int32_t most = stk__flac_max_blocks(d);
	const bool wide = d->block.first_side >= 0 && d->block.bits == 32;
	if (n > d->capacity) {
		int32_t *all = stk__alloc(n * channels * (size_t)most * sizeof *all);
		if (!all)
			return stk__fail(d->err, STK_NO_MEMORY, "out of memory to decode a sound");
		for (int32_t h = 0; h < most; h++)
			for (size_t c = 0; c < channels; c++) {
				int32_t *plane = all + ((size_t)h * channels + c) * n;
				if (h < d->block_count)
					memcpy(plane, d->blocks[h].plane[c], sizeof *plane * (size_t)d->blocks[h].block.frames);
				d->blocks[h].plane[c] = d->blocks[h].tasks[c].x = plane;
			}
		stk__free(d->planes);
		d->planes = all;
		d->capacity = n;
	}
	if (wide && n > d->side_capacity) {
		int64_t *side = stk__realloc(d->side, n * sizeof *side);
		if (!side)
			return stk__fail(d->err, STK_NO_MEMORY, "out of memory to decode a sound");
		d->side = side;
		d->side_capacity = n;
	}
	return STK_OK;
}

/* Computes left and right in place. One channel stores the side signal, left - right; the other one stores left, right, or the middle signal, (left + right)
 * >> 1. The bit that this shift drops equals the lowest bit of the side signal. The results fit in 32 bits, so arithmetic modulo 2^32 is enough, except for
 * a side signal of 33 bits. */
static void separate(const struct stk_flac_block_memory *memory, const int64_t *side)
{
	const struct stk_flac_block *block = &memory->block;
	const int32_t n = block->frames;
	int32_t *left = memory->plane[0], *right = memory->plane[1];
	const bool wide = block->bits == 32;
	if (block->middle && wide) {
		for (int32_t i = 0; i < n; i++) {
			left[i] = (int32_t)(uint32_t)((uint64_t)left[i] + (uint64_t)(side[i] >> 1) + (uint64_t)(side[i] & 1));
			right[i] = (int32_t)((uint32_t)left[i] - (uint32_t)side[i]);
		}
	} else if (block->middle) {
		for (int32_t i = 0; i < n; i++) {
			const int32_t s = right[i];
			left[i] = (int32_t)((uint32_t)left[i] + (uint32_t)(s >> 1) + (uint32_t)(s & 1));
			right[i] = (int32_t)((uint32_t)left[i] - (uint32_t)s);
		}
	} else if (block->first_side == 1) {
		for (int32_t i = 0; i < n; i++)
			left[i] = (int32_t)((uint32_t)left[i] + (uint32_t)right[i]);
	} else {
		for (int32_t i = 0; i < n; i++)
			right[i] = (int32_t)((uint32_t)left[i] - (uint32_t)right[i]);
	}
}

void stk__flac_begin(struct stk_flac_decoder *d, const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, unsigned cpu,
	struct stk_error *err)
{
	*d = (struct stk_flac_decoder){.bits = {.more = refill}, .bytes = bytes, .info = info, .loops = stk__flac_loops(cpu), .err = err};
	d->piece = d->bits.p = d->bits.end = (const uint8_t *)"";
	d->piece_at = bytes->size;
}

void stk__flac_end(struct stk_flac_decoder *d)
{
	stk__free(d->planes);
	stk__free(d->side);
}

enum stk_status stk__flac_decode(struct stk_flac_decoder *d, uint64_t at, uint64_t *next)
{
	enum stk_status s;
	go_to(d, at);
	if (d->failed)
		return d->failed;
	const size_t n = (size_t)(d->bits.end - d->bits.p);
	if (!stk__flac_block_read(d->bits.p, n, d->info->rate, d->info->bits, &d->block))
		return n < STK_FLAC_HEADER ? STK_END : STK_CORRUPT;
	if (d->block.channels != d->info->channels || d->block.bits != d->info->bits || d->block.rate != d->info->rate)
		return STK_CORRUPT;
	d->bits.p += d->block.bytes;
	if ((s = allocate_planes(d)))
		return s;
	struct stk_flac_block_memory *memory = &d->blocks[d->block_count];
	for (int32_t c = 0; c < d->block.channels && !s; c++)
		s = read_subframe(d, d->block.bits + (d->block.first_side >= 0 && c == !d->block.first_side), memory, c);
	if (d->failed)
		return d->failed;
	if (stk__flac_ended(&d->bits))
		return STK_END;
	if (s)
		return s;
	stk__flac_skip(&d->bits, d->bits.count % 8);
	stk__flac_get(&d->bits, 16);
	if (d->failed || stk__flac_ended(&d->bits))
		return d->failed ? d->failed : STK_END;
	*next = next_byte_offset(d);
	sum_until(d, *next);
	if (d->checksum)
		return STK_CORRUPT;
	memory->block = d->block;
	d->block_count++;
	return STK_OK;
}

void stk__flac_finish(struct stk_flac_decoder *d)
{
	struct stk_flac_task tasks[STK_FLAC_TOGETHER * STK_FLAC_MAX_CHANNELS];
	int32_t count = 0;
	for (int32_t h = 0; h < d->block_count; h++)
		for (int32_t c = 0; c < d->info->channels; c++)
			tasks[count++] = d->blocks[h].tasks[c];
	d->loops->predict(tasks, count);
	for (int32_t h = 0; h < d->block_count; h++) {
		struct stk_flac_block_memory *memory = &d->blocks[h];
		for (int32_t c = 0; c < d->info->channels; c++)
			for (int32_t i = 0; i < memory->block.frames && memory->wasted[c]; i++)
				memory->plane[c][i] = (int32_t)(uint32_t)((uint64_t)memory->plane[c][i] << memory->wasted[c]);
		if (memory->block.first_side >= 0)
			separate(memory, d->side);
	}
}
