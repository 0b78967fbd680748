/* SPDX-License-Identifier: Apache-2.0
 * Reads the header of FLAC files (RFC 9639, section 8), and windows of their frames, which are found with the seek table and with the headers of blocks. */
#include "sound/flac.h"

#include "base/error.h"
#include "codec/bytes.h"

#include <string.h>

enum { ID3_HEADER = 10, SECTION_HEADER = 4, STREAMINFO = 34, SEEK_POINT = 18, MOST_SECTIONS = 4096 };
enum { MOST_TAIL = 64 << 20 }; /* maximum number of bytes that are searched for a block */
enum { TAIL_TRIES = 64 /* number of blocks near the end that are decoded in search of an undamaged one */ };

/* ---- header ---- */

enum stk_status stk__flac_find(const struct stk_sound_bytes *bytes, const uint8_t *head, size_t n, uint64_t *at, struct stk_error *err)
{
	const uint8_t *p = head;
	uint64_t start = 0;
	*at = UINT64_MAX;
	if (n >= ID3_HEADER && !memcmp(head, "ID3", 3)) {
		start = ID3_HEADER + ((uint64_t)(head[6] & 0x7f) << 21 | (uint64_t)(head[7] & 0x7f) << 14 |
					     (uint64_t)(head[8] & 0x7f) << 7 | (head[9] & 0x7f));
		start += head[5] & 0x10 ? ID3_HEADER : 0; /* a copy of the tag's header follows the tag */
		if (start > bytes->size || bytes->size - start < 4)
			return STK_OK;
		enum stk_status s = bytes->read(bytes->user, start, 4, &p, err);
		if (s)
			return s;
	}
	if (n >= 4 && !memcmp(p, "fLaC", 4))
		*at = start;
	return STK_OK;
}

static enum stk_status read_stream_info(
	const uint8_t *p, uint32_t size, struct stk_sound_info *info, uint64_t *declared, struct stk_error *err)
{
	if (size < STREAMINFO)
		return stk__fail(err, STK_CORRUPT, "a FLAC whose STREAMINFO has %u bytes, of at least %d", size, STREAMINFO);
	info->blocks.least = (int32_t)stk__get16(p, false);
	info->blocks.most = (int32_t)stk__get16(p + 2, false);
	info->rate = (int32_t)(stk__get32(p + 10, false) >> 12);
	info->channels = (p[12] >> 1 & 7) + 1;
	info->bits = ((p[12] & 1) << 4 | p[13] >> 4) + 1;
	*declared = (uint64_t)(p[13] & 15) << 32 | stk__get32(p + 14, false);
	if (info->bits < 4 || info->blocks.most < 1 || info->blocks.least > info->blocks.most)
		return stk__fail(err, STK_CORRUPT, "a FLAC with %d bits a sample and blocks of %d to %d samples", info->bits,
			info->blocks.least, info->blocks.most);
	return STK_OK;
}

static enum stk_status read_sections(
	const struct stk_sound_bytes *bytes, uint64_t at, struct stk_sound_info *info, uint64_t *declared, struct stk_error *err)
{
	const uint8_t *p = NULL;
	bool last = false;
	for (int k = 0; !last; k++) {
		if (k == MOST_SECTIONS)
			return stk__fail(err, STK_LIMIT, "a FLAC with more than %d sections before its samples", MOST_SECTIONS);
		if (bytes->size - at < SECTION_HEADER)
			return stk__fail(err, STK_CORRUPT, "a truncated FLAC: it ends in its header, at %llu bytes",
				(unsigned long long)bytes->size);
		enum stk_status s = bytes->read(bytes->user, at, SECTION_HEADER, &p, err);
		if (s)
			return s;
		const uint32_t head = stk__get32(p, false), type = head >> 24 & 0x7f, size = head & 0xffffff;
		last = head >> 31;
		at += SECTION_HEADER;
		if ((type == 0) != (k == 0) || type == 127)
			return stk__fail(err, STK_CORRUPT, "a FLAC whose header is damaged at byte %llu", (unsigned long long)(at - 4));
		if (size > bytes->size - at)
			return stk__fail(err, STK_CORRUPT, "a truncated FLAC: it ends in its header, at %llu bytes",
				(unsigned long long)bytes->size);
		if (k == 0 && size >= STREAMINFO && (s = bytes->read(bytes->user, at, STREAMINFO, &p, err)))
			return s;
		if (k == 0 && (s = read_stream_info(p, size, info, declared, err)))
			return s;
		if (type == 3) {
			info->blocks.seek_table = at;
			info->blocks.seek_points = size / SEEK_POINT;
		}
		at += size;
	}
	info->begin = at;
	return STK_OK;
}

/* ---- the headers of blocks ---- */

/* Returns the number of a block's first frame, counted from the first block of the file. */
static int64_t frame_of(const struct stk_sound_info *info, const struct stk_flac_block *b)
{
	const uint64_t number = b->number - info->blocks.first;
	return (int64_t)(b->variable ? number : number * (uint64_t)info->blocks.most);
}

/* Returns whether the n bytes at p may begin with the header of one of the file's blocks, and sets *b to it. Other bytes seldom look like a header. */
static bool is_block(const struct stk_sound_info *info, const uint8_t *p, size_t n, struct stk_flac_block *b)
{
	return stk__flac_block_read(p, n, info->rate, info->bits, b) && b->channels == info->channels && b->bits == info->bits &&
	       b->rate == info->rate && b->number >= info->blocks.first && b->frames <= info->blocks.most;
}

/* Finds the first block header at an offset from `from` to `to` - 1 whose block begins at frame `least` or later and before frame `end_frame`. Sets *b to the
 * header and *at to its offset, or *at to UINT64_MAX if it finds no header. */
static enum stk_status find_block(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, uint64_t from, uint64_t to,
	int64_t least, int64_t end_frame, uint64_t *at, struct stk_flac_block *b, struct stk_error *err)
{
	*at = UINT64_MAX;
	for (uint64_t next; from < to; from = next) {
		const uint8_t *p = NULL;
		const size_t n = bytes->size - from < STK_SOUND_READ ? (size_t)(bytes->size - from) : STK_SOUND_READ;
		enum stk_status s = bytes->read(bytes->user, from, n, &p, err);
		if (s)
			return s;
		const bool end = n == bytes->size - from;
		const size_t searched = end ? n : n - STK_FLAC_HEADER;
		for (size_t i = 0; i < searched && from + i < to; i++) {
			const uint8_t *sync = memchr(p + i, 0xff, searched - i);
			if (!sync)
				break;
			i = (size_t)(sync - p);
			if (from + i >= to || !is_block(info, sync, n - i, b) || frame_of(info, b) < least ||
				frame_of(info, b) >= end_frame)
				continue;
			*at = from + i;
			return STK_OK;
		}
		next = end ? to : from + searched;
	}
	return STK_OK;
}

/* ---- the end of the file ---- */

/* Finds the last block header before offset `limit`. Sets *b to the header and *at to its offset, or *at to UINT64_MAX if it finds none. STK_CORRUPT: the
 * MOST_TAIL bytes before `limit` contain no header. (Tags may follow the last block, but they are not that long.) */
static enum stk_status find_last(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, uint64_t limit, uint64_t *at,
	struct stk_flac_block *b, struct stk_error *err)
{
	const uint64_t least = limit > MOST_TAIL ? limit - MOST_TAIL : 0;
	*at = UINT64_MAX;
	while (limit > info->begin && *at == UINT64_MAX) {
		if (limit < least)
			return stk__fail(err, STK_CORRUPT,
				"a FLAC that is damaged, or to which something was appended: %d MiB hold no block", MOST_TAIL >> 20);
		const uint8_t *p = NULL;
		const uint64_t most = STK_SOUND_READ - STK_FLAC_HEADER, from = limit - info->begin < most ? info->begin : limit - most;
		const uint64_t remaining = bytes->size - from;
		const size_t n = remaining < STK_SOUND_READ ? (size_t)remaining : STK_SOUND_READ;
		enum stk_status s = bytes->read(bytes->user, from, n, &p, err);
		if (s)
			return s;
		for (size_t i = (size_t)(limit - from); i > 0 && *at == UINT64_MAX; i--) {
			const uint8_t *sync = memrchr(p, 0xff, i);
			if (!sync)
				break;
			i = (size_t)(sync - p) + 1;
			if (is_block(info, sync, n - i + 1, b))
				*at = from + i - 1;
		}
		limit = from;
	}
	return STK_OK;
}

/* Decodes blocks to the end of the file or the first damaged block. Sets info->frames to their number of frames, and *end to the offset at which they end. */
static enum stk_status count_blocks(struct stk_flac_decoder *d, struct stk_sound_info *info, uint64_t *end)
{
	enum stk_status s = STK_OK;
	*end = info->begin;
	for (info->frames = 0; !s && *end < d->bytes->size; d->block_count = 0) {
		if (!(s = stk__flac_decode(d, *end, end)))
			info->frames += d->block.frames;
	}
	return s == STK_CORRUPT || s == STK_END ? STK_OK : s;
}

/* Sets info->frames to the number of frames up to the end of the last undamaged block, and *end to the offset of that end. Looks from the end of the file if
 * the headers of blocks state the number of their first frame; otherwise calls count_blocks. STK_CORRUPT: the last TAIL_TRIES blocks are damaged, or find_last
 * fails. */
static enum stk_status find_end(struct stk_flac_decoder *d, struct stk_sound_info *info, uint64_t *end, struct stk_error *err)
{
	struct stk_flac_block b;
	uint64_t at = d->bytes->size;
	if (!info->blocks.placed)
		return count_blocks(d, info, end);
	*end = info->begin;
	info->frames = 0;
	for (int k = 0; k < TAIL_TRIES; k++) {
		enum stk_status s = find_last(d->bytes, info, at, &at, &b, err);
		if (s || at == UINT64_MAX)
			return s;
		s = stk__flac_decode(d, at, end);
		d->block_count = 0;
		if (!s)
			info->frames = frame_of(info, &b) + b.frames;
		if (s != STK_CORRUPT && s != STK_END)
			return s;
		*end = info->begin;
	}
	return stk__fail(err, STK_CORRUPT, "a FLAC whose last %d blocks are damaged", TAIL_TRIES);
}

/* Sets info->frames and info->missing by a search for the file's end. declared: the number of frames in the header, or 0 if the header has none.
 * STK_CORRUPT: find_end fails, or the file is cut off and `lenient` is false. */
static enum stk_status count_frames(
	const struct stk_sound_bytes *bytes, bool lenient, int64_t declared, struct stk_sound_info *info, struct stk_error *err)
{
	struct stk_flac_decoder d;
	uint64_t end = 0;
	const uint8_t *p = NULL;
	stk__flac_begin(&d, bytes, info, 0, err);
	enum stk_status s = find_end(&d, info, &end, err);
	stk__flac_end(&d);
	if (s)
		return s;
	if (declared && info->frames > declared)
		info->frames = declared;
	info->missing = declared ? declared - info->frames : 0;
	if (lenient)
		return STK_OK;
	if (info->missing)
		return stk__fail(err, STK_CORRUPT,
			"a truncated FLAC: it ends at byte %llu, after %.3f s; its header promises %.3f s. strict=False decodes what is there",
			(unsigned long long)bytes->size, (double)info->frames / info->rate, (double)declared / info->rate);
	if (declared || bytes->size - end < 2)
		return STK_OK;
	if ((s = bytes->read(bytes->user, end, 2, &p, err)))
		return s;
	if (p[0] == 0xff && (p[1] & 0xfe) == 0xf8)
		return stk__fail(err, STK_CORRUPT,
			"a truncated FLAC: its last block begins at %.3f s and is cut off at byte %llu. strict=False decodes what is there",
			(double)info->frames / info->rate, (unsigned long long)bytes->size);
	return STK_OK;
}

/* Sets info->blocks.placed from the header of the first block, or of the next one if the first is damaged. From an undamaged first header also sets
 * info->blocks.first and, if STREAMINFO has no rate, info->rate. STK_CORRUPT: the rate is not known. */
static enum stk_status read_first(const struct stk_sound_bytes *bytes, struct stk_sound_info *info, struct stk_error *err)
{
	struct stk_flac_block b;
	const uint8_t *p = NULL;
	const uint64_t remaining = bytes->size - info->begin;
	const size_t n = remaining < STK_FLAC_HEADER ? (size_t)remaining : STK_FLAC_HEADER;
	enum stk_status s = n ? bytes->read(bytes->user, info->begin, n, &p, err) : STK_OK;
	bool found = !s && n && stk__flac_block_read(p, n, info->rate, info->bits, &b);
	if (found) {
		info->blocks.first = b.number;
		info->rate = info->rate ? info->rate : b.rate;
	} else if (!s && n) {
		uint64_t at;
		const uint64_t to = remaining < MOST_TAIL ? bytes->size : info->begin + MOST_TAIL;
		s = find_block(bytes, info, info->begin + 1, to, 0, INT64_MAX, &at, &b, err);
		found = !s && at != UINT64_MAX;
	}
	info->blocks.placed = found && (b.variable || info->blocks.least == info->blocks.most);
	if (!s && info->rate < 1)
		return stk__fail(err, STK_CORRUPT, "a FLAC that does not say its rate");
	return s;
}

enum stk_status stk__flac_peek(
	const struct stk_sound_bytes *bytes, uint64_t at, bool lenient, struct stk_sound_info *info, struct stk_error *err)
{
	struct stk_flac_block b;
	uint64_t declared = 0, last = 0;
	*info = (struct stk_sound_info){.format = "flac", .coding = "flac"};
	enum stk_status s = read_sections(bytes, at + 4, info, &declared, err);
	if (s || (s = read_first(bytes, info, err)))
		return s;
	info->pcm = info->bits <= 16 ? STK_PCM_I16 : STK_PCM_I32;
	info->frame_bytes = (uint32_t)info->channels * stk__pcm_bytes(info->pcm);
	info->frames = (int64_t)declared;
	if ((!declared && info->begin == bytes->size) || (declared && bytes->costly))
		return STK_OK;
	/* In a complete file the last block ends at the declared number of frames. */
	if (declared && info->blocks.placed && !lenient) {
		if ((s = find_last(bytes, info, bytes->size, &last, &b, err)))
			return s;
		if (last != UINT64_MAX && frame_of(info, &b) + b.frames == info->frames)
			return STK_OK;
	}
	return count_frames(bytes, lenient, (int64_t)declared, info, err);
}

/* ---- windows ---- */

/* The offset of a block in the file, and the frame at which the block begins. */
struct block_start {
	uint64_t at;
	int64_t frame;
};

/* Narrows the range from *low to *high around frame `first`, with the file's seek table. */
static enum stk_status use_table(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, int64_t first,
	struct block_start *low, struct block_start *high, struct stk_error *err)
{
	uint32_t from = 0, to = info->blocks.seek_points;
	while (from < to) {
		const uint32_t k = from + (to - from) / 2;
		const uint8_t *p = NULL;
		enum stk_status s = bytes->read(bytes->user, info->blocks.seek_table + (uint64_t)k * SEEK_POINT, SEEK_POINT, &p, err);
		if (s)
			return s;
		const uint64_t frame = stk__get64(p, false), offset = stk__get64(p + 8, false);
		const bool at_or_before = frame <= (uint64_t)first; /* unused seek points have the largest number */
		if (offset < bytes->size - info->begin && frame < (uint64_t)info->frames) {
			const struct block_start found = {info->begin + offset, (int64_t)frame};
			if (at_or_before && found.frame > low->frame)
				*low = found;
			else if (!at_or_before && found.frame < high->frame)
				*high = found;
		}
		from = at_or_before ? k + 1 : from;
		to = at_or_before ? to : k;
	}
	return STK_OK;
}

/* Sets *low to a block that begins at frame `first` or shortly before it, or to the first block if headers do not state the number of their first frame.
 * Other bytes may look like a header, so the caller must check by decoding. */
static enum stk_status seek(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, int64_t first, struct block_start *low,
	struct stk_error *err)
{
	struct block_start high = {bytes->size, info->frames};
	struct stk_flac_block b;
	uint64_t at;
	*low = (struct block_start){info->begin, 0};
	if (!info->blocks.placed || first < 2 * (int64_t)info->blocks.most)
		return STK_OK;
	enum stk_status s = use_table(bytes, info, first, low, &high, err);
	for (int k = 0; !s && k < 64 && high.at > low->at + STK_SOUND_READ && high.frame - low->frame > info->blocks.most; k++) {
		const double part = (double)(first - low->frame) / (double)(high.frame - low->frame);
		uint64_t guess = low->at + (uint64_t)(part * (double)(high.at - low->at));
		guess = guess < low->at + STK_SOUND_READ / 2 ? low->at + 1 : guess - STK_SOUND_READ / 4;
		if (k % 4 == 3) /* if blocks vary much in size, bisection converges faster than interpolation */
			guess = low->at + (high.at - low->at) / 2;
		if ((s = find_block(bytes, info, guess, high.at, low->frame + 1, high.frame, &at, &b, err)))
			return s;
		if (at == UINT64_MAX)
			high.at = guess;
		else if (frame_of(info, &b) <= first)
			*low = (struct block_start){at, frame_of(info, &b)};
		else
			high = (struct block_start){guess, frame_of(info, &b)};
	}
	while (!s && low->frame < first) { /* continues block by block to the last one that begins at or before `first` */
		if ((s = find_block(bytes, info, low->at + 1, high.at, low->frame + 1, first + 1, &at, &b, err)) || at == UINT64_MAX)
			break;
		*low = (struct block_start){at, frame_of(info, &b)};
	}
	return s;
}

enum stk_status stk__flac_span(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, int64_t first, int64_t count,
	uint64_t margin, uint64_t *from, uint64_t *to)
{
	struct block_start low = {info->begin, 0}, high = {bytes->size, info->frames}, last = low;
	if (!info->blocks.placed || !info->frames)
		return STK_UNSUPPORTED;
	enum stk_status s = use_table(bytes, info, first, &low, &high, NULL);
	const bool seeks = low.frame > 0 || high.frame < info->frames;
	high = (struct block_start){bytes->size, info->frames};
	if (!s)
		s = use_table(bytes, info, first + count, &last, &high, NULL);
	if (s)
		return s;
	*from = low.at;
	*to = high.at;
	if (!seeks) {
		const double bytes_per_frame = (double)(bytes->size - info->begin) / (double)info->frames;
		const uint64_t begin = (uint64_t)((double)first * bytes_per_frame),
			       end = (uint64_t)((double)(first + count) * bytes_per_frame);
		*from = info->begin + (begin > margin ? begin - margin : 0);
		*to = info->begin + end + margin;
	}
	*to = *to + STK_SOUND_READ < bytes->size ? *to + STK_SOUND_READ : bytes->size; /* blocks are read in pieces of this size */
	return STK_OK;
}

/* Writes `n` frames of a decoded block, from its frame `skip` on, to `to` in the window's type. */
static void store(const struct stk_flac_block_memory *block, const struct stk_sound_window *w, int64_t skip, int64_t n, uint8_t *to)
{
	enum { PART = 512 };
	const int32_t channels = block->block.channels, bits = block->block.bits;
	const bool mono = w->mono && channels > 1;
	const float scale = 1.0f / (float)((uint32_t)1 << (bits - 1));
	int32_t part[PART];
	for (int32_t c = 0; c < channels && !mono; c++) {
		const int32_t *from = block->plane[c] + skip;
		float *f = (float *)(void *)to + c;
		int16_t *h = (int16_t *)(void *)to + c;
		int32_t *i = (int32_t *)(void *)to + c;
		if (w->dtype == STK_FLOAT && channels == 1)
			for (int64_t k = 0; k < n; k++)
				f[k] = (float)from[k] * scale;
		else if (w->dtype == STK_FLOAT)
			for (int64_t k = 0; k < n; k++)
				f[k * channels] = (float)from[k] * scale;
		else if (w->dtype == STK_INT32)
			for (int64_t k = 0; k < n; k++)
				i[k * channels] = (int32_t)((uint32_t)from[k] << (32 - bits));
		else if (bits > 16)
			for (int64_t k = 0; k < n; k++)
				h[k * channels] = (int16_t)(from[k] >> (bits - 16));
		else
			for (int64_t k = 0; k < n; k++)
				h[k * channels] = (int16_t)((uint32_t)from[k] << (16 - bits));
	}
	for (int64_t done = 0, k; mono && done < n; done += k) {
		k = n - done < PART / channels ? n - done : PART / channels;
		for (int32_t c = 0; c < channels; c++)
			for (int64_t j = 0; j < k; j++)
				part[j * channels + c] = (int32_t)((uint32_t)block->plane[c][skip + done + j] << (32 - bits));
		stk__pcm_convert(STK_PCM_I32, (const uint8_t *)part, k, channels, true, w->dtype, to);
		to += (size_t)k * stk_dtype_size(w->dtype);
	}
}

/* The state of reading a window. */
struct reading {
	struct stk_flac_decoder d;
	const struct stk_sound_window *window;
	size_t frame_size; /* size of a frame in bytes in the output */
	int64_t frame;     /* number of the next frame to decode */
	uint64_t at;       /* offset of the next block in the file */
	uint64_t number;   /* the number that the next block's header must have */
	bool numbered;     /* `number` is known */
	bool after_jump;   /* `at` was found by a search for bytes that look like a header, and no block has been decoded since */
	int64_t first_frames[STK_FLAC_TOGETHER]; /* number of the first frame of each block in d.blocks */
};

static enum stk_status refuse_damage(const struct reading *r, enum stk_status s, struct stk_error *err)
{
	const double seconds = (double)r->frame / r->d.info->rate;
	if (s != STK_CORRUPT && s != STK_END)
		return s;
	return stk__fail(err, STK_CORRUPT, "the sound is %s at %.3f s (byte %llu). strict=False makes the lost part silent",
		s == STK_END ? "truncated" : "damaged", seconds, (unsigned long long)r->at);
}

/* Skips a damaged block: moves r->at to the next header from offset `from` on whose block does not begin before r->frame. Sets *frame to the first frame of
 * that block, or to the window's end if that is earlier, if no block follows, or if headers do not state the number of their first frame. */
static enum stk_status skip_damage(struct reading *r, uint64_t from, int64_t *frame, struct stk_error *err)
{
	const struct stk_sound_info *info = r->d.info;
	const int64_t end = r->window->first + r->window->count;
	struct stk_flac_block b;
	*frame = end;
	r->numbered = false;
	if (!info->blocks.placed)
		return STK_OK;
	enum stk_status s = find_block(r->d.bytes, info, from, r->d.bytes->size, r->frame, info->frames, &r->at, &b, err);
	if (!s && r->at != UINT64_MAX && frame_of(info, &b) < end)
		*frame = frame_of(info, &b);
	return s;
}

/* Writes those of the frames from `frame` to `next` - 1 that lie in the window: frames of a decoded block, or zeros if `block` is NULL. */
static void write_frames(const struct reading *r, const struct stk_flac_block_memory *block, int64_t frame, int64_t next)
{
	const struct stk_sound_window *w = r->window;
	const int64_t from = frame > w->first ? frame : w->first, end = w->first + w->count, to = next < end ? next : end;
	uint8_t *out = (uint8_t *)w->to + (size_t)(from - w->first) * r->frame_size;
	if (from < to && !block)
		memset(out, 0, (size_t)(to - from) * r->frame_size);
	else if (from < to)
		store(block, w, from - frame, to - from, out);
}

/* Finishes the blocks in r->d.blocks, writes those of their frames that lie in the window, and removes the blocks. */
static void write_blocks(struct reading *r)
{
	stk__flac_finish(&r->d);
	for (int32_t h = 0; h < r->d.block_count; h++)
		write_frames(r, &r->d.blocks[h], r->first_frames[h], r->first_frames[h] + r->d.blocks[h].block.frames);
	r->d.block_count = 0;
}

static enum stk_status next_block(struct reading *r, struct stk_error *err)
{
	uint64_t next = 0;
	int64_t frame;
	enum stk_status s = stk__flac_decode(&r->d, r->at, &next);
	const struct stk_flac_block *b = &r->d.block;
	const bool misplaced = !s && r->numbered && b->number != r->number; /* blocks are missing or repeated */
	if (misplaced) {
		r->d.block_count--;
		s = STK_CORRUPT;
	} else if (!s) {
		r->number = b->number + (b->variable ? (uint64_t)b->frames : 1);
		r->numbered = true;
		r->after_jump = false;
		r->at = next;
		r->first_frames[r->d.block_count - 1] = r->frame;
		r->frame += b->frames;
		if (r->d.block_count == stk__flac_max_blocks(&r->d))
			write_blocks(r);
		return STK_OK;
	}
	if ((s == STK_CORRUPT || s == STK_END) && r->after_jump) { /* no intact block begins at `at`: decodes from the file's start */
		r->after_jump = r->numbered = false;
		r->at = r->d.info->begin;
		r->frame = 0;
		return STK_OK;
	}
	if (!r->window->lenient || (s != STK_CORRUPT && s != STK_END))
		return refuse_damage(r, s, err);
	if ((s = skip_damage(r, r->at + !misplaced, &frame, err)))
		return s;
	write_frames(r, NULL, r->frame, frame);
	r->frame = frame;
	return STK_OK;
}

enum stk_status stk__flac_read(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info,
	const struct stk_sound_window *window, struct stk_error *err)
{
	struct reading r = {.window = window};
	struct block_start start;
	if (window->count == 0)
		return STK_OK;
	r.frame_size = (size_t)(window->mono ? 1 : info->channels) * stk_dtype_size(window->dtype);
	stk__flac_begin(&r.d, bytes, info, window->cpu, err);
	enum stk_status s = seek(bytes, info, window->first, &start, err);
	r.at = start.at;
	r.frame = start.frame;
	r.after_jump = start.frame > 0;
	while (!s && r.frame < window->first + window->count)
		s = window->cancel && stk__cancelled(window->cancel) ? stk__fail(err, STK_CANCELLED, "decoding was cancelled")
								     : next_block(&r, err);
	if (!s)
		write_blocks(&r);
	stk__flac_end(&r.d);
	return s;
}
