/* SPDX-License-Identifier: Apache-2.0
 * Converts an index to bytes, which are stored in files, and back. The bytes are:
 *
 *   struct head
 *   the codec's extra data
 *   five columns with one value per packet: time of presentation, duration, position, size, flags
 *   the bytes of packets that are not contiguous in the file
 *   the XXH64 hash of all bytes above
 *
 * A value of a column is stored as its difference from the column's minimum, in as few bytes as the largest difference needs, lowest byte first. Times are
 * first replaced by their differences from the previous packet's, positions by their differences from the previous packet's end. So an hour of video takes
 * about 1 MB. */
#include "media/index.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/xxhash.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = 6, COLUMNS = 5, HASH = 8, BLOCK = 512, LONG_LIST = 2000, LARGE_FILE = 4 << 20, MOST_WITHOUT_BYTES = 1 << 20 };
enum { PTS, DURATION, POSITION, SIZE, FLAGS };
static const char magic[8] = "STKVIDEO";

struct column {
	int64_t least;
	int32_t width, unused; /* width: size of a value in bytes: 0, 1, 2, 4 or 8 */
};

struct head {
	char magic[8];
	uint32_t version, avformat, avcodec; /* an index of other versions is not used, since they may read the file differently */
	int32_t stream, rotation, listed;
	int32_t count, tb_num, tb_den, reorder;
	int64_t kept_size;
	struct column columns[COLUMNS];
	int64_t bit_rate;
	int32_t codec_id, codec_tag, extradata_size, format, bits_per_coded_sample, bits_per_raw_sample, profile, level, width, height;
	int32_t aspect_num, aspect_den, field_order, color_range, color_primaries, color_trc, color_space, chroma_location, video_delay;
	int32_t unused;
	char container[64];
};

bool stk__video_index_is_costly(const struct stk_video_index *x, int64_t file_size)
{
	return x->packets.count >= LONG_LIST || (!x->listed && file_size >= LARGE_FILE);
}

bool stk__video_index_is_copy(const struct stk_video_index *x, int64_t file_size)
{
	enum { PART = 8 };
	return x->packets.kept_size > (size_t)file_size / PART;
}

/* ---- columns ---- */

/* Subtracts with wrap-around, so that extreme times in damaged files do not cause undefined behaviour. */
static int64_t minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t value_of(const struct stk_packets *p, int column, int32_t i)
{
	const struct stk_packet *v = &p->v[i];
	switch (column) {
	case PTS:
		return i ? minus(v->pts, v[-1].pts) : v->pts;
	case DURATION:
		return v->duration;
	case POSITION:
		return i ? minus(minus(v->position, v[-1].position), v[-1].size) : v->position;
	case SIZE:
		return v->size;
	default:
		return v->flags;
	}
}

static struct column measure(const struct stk_packets *p, int column)
{
	int64_t least = INT64_MAX, most = INT64_MIN;
	for (int32_t i = 0; i < p->count; i++) {
		const int64_t v = value_of(p, column, i);
		least = v < least ? v : least;
		most = v > most ? v : most;
	}
	const uint64_t range = (uint64_t)most - (uint64_t)least;
	return (struct column){least, range == 0 ? 0 : range <= UINT8_MAX ? 1 : range <= UINT16_MAX ? 2 : range <= UINT32_MAX ? 4 : 8, 0};
}

static void put_column(const struct stk_packets *p, int column, const struct column *c, uint8_t *to)
{
	for (int32_t i = 0; i < p->count && c->width; i++) {
		const uint64_t v = (uint64_t)value_of(p, column, i) - (uint64_t)c->least;
		/* Copies the lowest bytes of v: the library is only built for little-endian machines. */
		memcpy(to + (size_t)i * (size_t)c->width, &v, (size_t)c->width);
	}
}

#define TAKE(type)                                                                                                                         \
	for (int32_t i = 0; i < n; i++) {                                                                                                  \
		type v;                                                                                                                    \
		memcpy(&v, from + (size_t)i * sizeof v, sizeof v);                                                                         \
		out[i] = (int64_t)((uint64_t)c->least + v);                                                                                \
	}                                                                                                                                  \
	break

/* Reads values first .. first + n - 1 of a column. */
static void take_values(const struct column *c, const uint8_t *from, int32_t first, int32_t n, int64_t *out)
{
	from += (size_t)first * (size_t)c->width;
	switch (c->width) {
	case 1:
		TAKE(uint8_t);
	case 2:
		TAKE(uint16_t);
	case 4:
		TAKE(uint32_t);
	case 8:
		TAKE(uint64_t);
	default:
		for (int32_t i = 0; i < n; i++)
			out[i] = c->least;
	}
}

/* ---- writing ---- */

static struct head make_head(const struct stk_video_index *x)
{
	const AVCodecParameters *p = x->parameters;
	struct head h = {.version = VERSION,
		.avformat = x->f.avformat_version(),
		.avcodec = x->f.avcodec_version(),
		.stream = x->facts.stream,
		.rotation = x->facts.rotation,
		.listed = x->listed,
		.count = x->packets.count,
		.tb_num = x->packets.tb_num,
		.tb_den = x->packets.tb_den,
		.reorder = x->packets.reorder,
		.kept_size = (int64_t)x->packets.kept_size,
		.bit_rate = p->bit_rate,
		.codec_id = p->codec_id,
		.codec_tag = (int32_t)p->codec_tag,
		.extradata_size = p->extradata_size,
		.format = p->format,
		.bits_per_coded_sample = p->bits_per_coded_sample,
		.bits_per_raw_sample = p->bits_per_raw_sample,
		.profile = p->profile,
		.level = p->level,
		.width = p->width,
		.height = p->height,
		.aspect_num = p->sample_aspect_ratio.num,
		.aspect_den = p->sample_aspect_ratio.den,
		.field_order = p->field_order,
		.color_range = p->color_range,
		.color_primaries = p->color_primaries,
		.color_trc = p->color_trc,
		.color_space = p->color_space,
		.chroma_location = p->chroma_location,
		.video_delay = p->video_delay};
	memcpy(h.magic, magic, sizeof magic);
	memcpy(h.container, x->facts.container, sizeof h.container);
	for (int c = 0; c < COLUMNS; c++)
		h.columns[c] = measure(&x->packets, c);
	return h;
}

static size_t column_bytes(const struct head *h)
{
	size_t n = 0;
	for (int c = 0; c < COLUMNS; c++)
		n += (size_t)h->count * (size_t)h->columns[c].width;
	return n;
}

enum stk_status stk__video_index_pack(const struct stk_video_index *x, uint8_t **out, size_t *size, struct stk_error *err)
{
	const struct head h = make_head(x);
	const size_t n = sizeof h + (size_t)h.extradata_size + column_bytes(&h) + x->packets.kept_size;
	uint8_t *data = stk__alloc(n + HASH), *to = data;
	*out = data;
	*size = n + HASH;
	if (!data)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to keep the index of a video");
	memcpy(to, &h, sizeof h);
	to += sizeof h;
	if (h.extradata_size)
		memcpy(to, x->parameters->extradata, (size_t)h.extradata_size);
	to += h.extradata_size;
	for (int c = 0; c < COLUMNS; c++) {
		put_column(&x->packets, c, &h.columns[c], to);
		to += (size_t)h.count * (size_t)h.columns[c].width;
	}
	if (x->packets.kept_size)
		memcpy(to, x->packets.kept, x->packets.kept_size);
	const uint64_t hash = stk__xxh64(data, n, 0);
	memcpy(data + n, &hash, HASH);
	return STK_OK;
}

/* ---- reading ---- */

static bool is_sound(const struct stk_ffmpeg *f, const struct head *h, size_t size)
{
	bool ok = memcmp(h->magic, magic, sizeof magic) == 0 && h->version == VERSION && h->avformat == f->avformat_version() &&
		  h->avcodec == f->avcodec_version();
	ok = ok && h->count > 0 && h->count <= STK_MEDIA_MOST_PACKETS && h->tb_num > 0 && h->tb_den > 0 && h->reorder >= 0 &&
	     h->reorder <= 64 && h->kept_size >= 0 && h->kept_size <= (int64_t)1 << 31 && h->extradata_size >= 0 &&
	     h->extradata_size <= 1 << 28 && h->video_delay >= 0 && h->video_delay <= 64 && h->rotation >= 0 && h->rotation <= 270 &&
	     h->rotation % 90 == 0 && h->stream >= 0 && h->stream < STK_MEDIA_MOST_STREAMS && h->width >= 0 && h->height >= 0;
	for (int c = 0; c < COLUMNS; c++) {
		const int32_t w = h->columns[c].width;
		ok = ok && (w == 0 || w == 1 || w == 2 || w == 4 || w == 8);
	}
	/* A column whose values are all equal has no bytes, so the size of the data does not limit the number of packets. */
	ok = ok && (h->count <= MOST_WITHOUT_BYTES || column_bytes(h) >= (size_t)h->count);
	return ok && size == sizeof *h + (size_t)h->extradata_size + column_bytes(h) + (size_t)h->kept_size + HASH;
}

static enum stk_status take_parameters(struct stk_video_index *x, const struct head *h, const uint8_t *extradata)
{
	AVCodecParameters *p = x->parameters = x->f.avcodec_parameters_alloc();
	if (!p)
		return STK_NO_MEMORY;
	p->codec_type = AVMEDIA_TYPE_VIDEO;
	p->codec_id = (enum AVCodecID)h->codec_id;
	p->codec_tag = (uint32_t)h->codec_tag;
	p->format = h->format;
	p->bit_rate = h->bit_rate;
	p->bits_per_coded_sample = h->bits_per_coded_sample;
	p->bits_per_raw_sample = h->bits_per_raw_sample;
	p->profile = h->profile;
	p->level = h->level;
	p->width = h->width;
	p->height = h->height;
	p->sample_aspect_ratio = (AVRational){h->aspect_num, h->aspect_den};
	p->field_order = (enum AVFieldOrder)h->field_order;
	p->color_range = (enum AVColorRange)h->color_range;
	p->color_primaries = (enum AVColorPrimaries)h->color_primaries;
	p->color_trc = (enum AVColorTransferCharacteristic)h->color_trc;
	p->color_space = (enum AVColorSpace)h->color_space;
	p->chroma_location = (enum AVChromaLocation)h->chroma_location;
	p->video_delay = h->video_delay;
	if (h->extradata_size == 0)
		return STK_OK;
	p->extradata = x->f.av_malloc((size_t)h->extradata_size + AV_INPUT_BUFFER_PADDING_SIZE);
	if (!p->extradata)
		return STK_NO_MEMORY;
	memcpy(p->extradata, extradata, (size_t)h->extradata_size);
	memset(p->extradata + h->extradata_size, 0, AV_INPUT_BUFFER_PADDING_SIZE);
	p->extradata_size = h->extradata_size;
	return STK_OK;
}

/* Reads the packets. Returns false if a value is out of range. */
static bool take_packets(struct stk_packets *p, const struct head *h, const uint8_t *from)
{
	const uint8_t *columns[COLUMNS];
	int64_t values[COLUMNS][BLOCK], pts = 0, end = 0;
	bool ok = true;
	for (int c = 0; c < COLUMNS; c++) {
		columns[c] = from;
		from += (size_t)h->count * (size_t)h->columns[c].width;
	}
	for (int32_t first = 0; first < h->count && ok; first += BLOCK) {
		const int32_t n = h->count - first < BLOCK ? h->count - first : BLOCK;
		for (int c = 0; c < COLUMNS; c++)
			take_values(&h->columns[c], columns[c], first, n, values[c]);
		for (int32_t i = 0; i < n; i++) {
			const int64_t size = values[SIZE][i], flags = values[FLAGS][i], position = plus(end, values[POSITION][i]);
			pts = plus(pts, values[PTS][i]);
			end = plus(position, size);
			ok &= size >= 0 && size <= INT32_MAX && flags >= 0 && flags < 16 && pts >= -STK_MOST_TIME && pts <= STK_MOST_TIME;
			ok &= !(flags & STK_PACKET_KEPT) || (position >= 0 && position <= h->kept_size && size <= h->kept_size - position);
			p->v[first + i] = (struct stk_packet){pts, values[DURATION][i], position, (int32_t)size, (int32_t)flags};
		}
	}
	return ok;
}

static enum stk_status unpack(struct stk_video_index *x, const struct head *h, const uint8_t *data, struct stk_error *err)
{
	struct stk_packets *p = &x->packets;
	const uint8_t *extradata = data + sizeof *h, *columns = extradata + h->extradata_size, *kept = columns + column_bytes(h);
	enum stk_status s = take_parameters(x, h, extradata);
	p->v = s ? NULL : stk__alloc((size_t)h->count * sizeof *p->v);
	p->kept = s || !h->kept_size ? NULL : stk__alloc((size_t)h->kept_size);
	if (s || !p->v || (h->kept_size && !p->kept))
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the index of a video");
	p->count = p->capacity = h->count;
	p->tb_num = h->tb_num;
	p->tb_den = h->tb_den;
	p->reorder = h->reorder;
	p->kept_size = p->kept_capacity = (size_t)h->kept_size;
	if (h->kept_size)
		memcpy(p->kept, kept, (size_t)h->kept_size);
	x->listed = h->listed;
	x->facts.stream = h->stream;
	x->facts.rotation = h->rotation;
	snprintf(x->facts.container, sizeof x->facts.container, "%.*s", (int)sizeof h->container - 1, h->container);
	if (!take_packets(p, h, columns))
		return stk__fail(err, STK_CORRUPT, "the kept index of a video is damaged");
	return stk__video_index_finish(x, err);
}

enum stk_status stk__video_index_unpack(const uint8_t *data, size_t size, struct stk_video_index **out, struct stk_error *err)
{
	struct head h;
	uint64_t hash = 0;
	*out = NULL;
	struct stk_video_index *x = stk__calloc(1, sizeof *x);
	if (!x)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the index of a video");
	enum stk_status s = stk__ffmpeg_load(&x->f, err);
	if (!s && size >= sizeof h + HASH) {
		memcpy(&h, data, sizeof h);
		memcpy(&hash, data + size - HASH, HASH);
	}
	if (!s && (size < sizeof h + HASH || !is_sound(&x->f, &h, size) || hash != stk__xxh64(data, size - HASH, 0)))
		s = stk__fail(err, STK_CORRUPT, "the kept index of a video is damaged, or another version has written it");
	if (!s)
		s = unpack(x, &h, data, err);
	if (s) {
		stk__video_index_destroy(x);
		return s;
	}
	*out = x;
	return STK_OK;
}
