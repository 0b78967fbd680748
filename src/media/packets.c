/* SPDX-License-Identifier: Apache-2.0 */
#include "media/packets.h"

#include "base/error.h"
#include "base/memory.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MOST_KEPT ((size_t)1 << 30)

/* The state of reading a list of packets. */
struct listing {
	struct stk_container *c;
	const struct stk_ffmpeg *f;
	const struct stk_media_input *in;
	const AVCodecParameters *parameters;
	struct stk_packets *out;
	/* The parser. It marks key packets and, if the file stores no times, finds the order in which pictures are presented. */
	AVCodecParserContext *parser;
	AVCodecContext *context;
	/* [packet]: the number that parse() gives its picture; for MPEG, order_mpeg replaces it by the picture's position in the order of presentation. */
	int32_t *picture;
	int64_t *dts;
	int64_t bytes;    /* total size of the packets so far */
	uint8_t *compare; /* memory for bytes of the file that are compared with the bytes of a packet */
	size_t compare_capacity;
	int structure; /* of the previous packet's picture, as the parser of H.264 found it (enum AVPictureStructure) */
	bool untimed;  /* a packet has no time of presentation */
	bool stated;   /* the file states a time of presentation */
	bool damaged;  /* the demuxer found the previous packet incomplete */
	bool repeats;  /* the file is an MPEG program stream, for which FFmpeg may report the times of a header for two pictures */
	/* Times of presentation that equal those of decoding come from the file: it is an MPEG program or transport stream. Of other files without times of
	 * presentation, such as AVI, FFmpeg reports times of decoding as times of presentation. */
	bool equal_counts;
	int pid; /* number of the stream in an MPEG-TS file; -1 for other containers */
};

static enum stk_status no_memory(struct stk_error *err)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory for the list of a video's packets");
}

/* Number of bytes that the listing takes for each packet, in addition to the packet's copy in `kept`. */
#define ENTRY (sizeof(struct stk_packet) + sizeof(int32_t) + sizeof(int64_t))

/* Raises *capacity, of an array with elements of `each` bytes, to at least `need` elements. Doubles it, so that few calls are needed. If only little of the
 * memory limit is left, takes half of that instead, or as much as `need` takes. STK_LIMIT: the limit has no room for `need` elements. */
static enum stk_status enlarge(const struct listing *l, size_t need, size_t each, size_t *capacity, struct stk_error *err)
{
	enum { FIRST = 256 };
	const size_t used = (size_t)l->out->capacity * ENTRY + l->out->kept_capacity, limit = l->in->memory ? l->in->memory : SIZE_MAX;
	const size_t left = limit > used ? limit - used : 0;
	if (need - *capacity > left / each)
		return stk__fail(err, STK_LIMIT,
			"the list of its packets takes more than the %zu bytes that memory_limit leaves for it; raise that, or leave such samples out "
			"(on_error=\"skip\")",
			limit);
	const size_t doubled = *capacity ? 2 * *capacity : FIRST, half = *capacity + left / 2 / each,
		     more = doubled < half ? doubled : half;
	*capacity = more > need ? more : need;
	return STK_OK;
}

static enum stk_status grow(struct listing *l, struct stk_error *err)
{
	struct stk_packets *p = l->out;
	size_t capacity = (size_t)p->capacity;
	if (p->count < p->capacity)
		return STK_OK;
	enum stk_status s = enlarge(l, capacity + 1, ENTRY, &capacity, err);
	if (s)
		return s;
	struct stk_packet *v = stk__realloc(p->v, capacity * sizeof *v);
	p->v = v ? v : p->v;
	int32_t *picture = stk__realloc(l->picture, capacity * sizeof *picture);
	l->picture = picture ? picture : l->picture;
	int64_t *dts = stk__realloc(l->dts, capacity * sizeof *dts);
	l->dts = dts ? dts : l->dts;
	if (!v || !picture || !dts)
		return no_memory(err);
	p->capacity = (int32_t)capacity;
	return STK_OK;
}

/* Appends the bytes of a scattered packet to p->kept, and sets packet->position to their offset in it. STK_LIMIT: more than MOST_KEPT bytes, or than the memory
 * limit leaves. */
static enum stk_status keep_copy(struct listing *l, struct stk_packet *packet, const uint8_t *data, struct stk_error *err)
{
	struct stk_packets *p = l->out;
	const size_t size = (size_t)packet->size;
	if (size > MOST_KEPT - p->kept_size)
		return stk__fail(err, STK_LIMIT,
			"the packets of this kind of file are divided into pieces, and more than 1 GiB of them would have to be kept in memory: write the file as MP4 "
			"or Matroska (ffmpeg -i FILE -c copy NEW.mp4)");
	if (p->kept_size + size > p->kept_capacity) {
		size_t capacity = p->kept_capacity;
		enum stk_status s = enlarge(l, p->kept_size + size, 1, &capacity, err);
		if (s)
			return s;
		uint8_t *kept = stk__realloc(p->kept, capacity);
		if (!kept)
			return no_memory(err);
		p->kept = kept;
		p->kept_capacity = capacity;
	}
	if (size)
		memcpy(p->kept + p->kept_size, data, size);
	packet->position = (int64_t)p->kept_size;
	packet->flags |= STK_PACKET_KEPT;
	p->kept_size += size;
	return STK_OK;
}

/* Finds the offset of the packet's bytes in the file; the demuxer only reports the offset of the header that precedes them. If they are not contiguous in
 * the file, stores a copy of them. */
static enum stk_status locate(struct listing *l, struct stk_packet *packet, const AVPacket *found, struct stk_error *err)
{
	enum { MOST_HEADER = 64 };
	const size_t size = (size_t)found->size;
	if (found->pos < 0 || found->pos > l->in->size || (int64_t)size > l->in->size - found->pos)
		return keep_copy(l, packet, found->data, err);
	int64_t capacity = l->in->size - found->pos - (int64_t)size;
	capacity = capacity < MOST_HEADER ? capacity : MOST_HEADER;
	const size_t total = size + (size_t)capacity;
	const uint8_t *bytes = l->in->data ? l->in->data + found->pos : NULL;
	if (!bytes) {
		if (total > l->compare_capacity) {
			uint8_t *grown = stk__realloc(l->compare, total);
			if (!grown)
				return no_memory(err);
			l->compare = grown;
			l->compare_capacity = total;
		}
		enum stk_status s = stk__media_read(l->in, found->pos, l->compare, total, err);
		if (s)
			return s;
		bytes = l->compare;
	}
	for (int64_t header = 0; header <= capacity; header++)
		if (memcmp(bytes + header, found->data, size) == 0) {
			packet->position = found->pos + header;
			return STK_OK;
		}
	return keep_copy(l, packet, found->data, err);
}

/* Returns whether the packet contains a frame that is decoded but not shown. Only VP8 packets are examined. */
static bool is_hidden(const struct listing *l, const AVPacket *packet)
{
	return l->parameters->codec_id == AV_CODEC_ID_VP8 && packet->size > 0 && !(packet->data[0] & 0x10);
}

/* Returns whether the codec is MPEG-1, MPEG-2 or MPEG-4. These present a bidirectional picture as soon as it is decoded, and any other picture when the next
 * picture that is not bidirectional is decoded. */
static bool is_mpeg(enum AVCodecID id)
{
	return id == AV_CODEC_ID_MPEG4 || id == AV_CODEC_ID_MPEG1VIDEO || id == AV_CODEC_ID_MPEG2VIDEO;
}

enum stk_status stk__packet_check(enum AVCodecID codec, const uint8_t *data, size_t size, struct stk_error *err)
{
	static const uint8_t picture[] = {0, 0, 1, 0xb6};
	const uint8_t *first = codec == AV_CODEC_ID_MPEG4 && size ? memmem(data, size, picture, sizeof picture) : NULL;
	if (!first || !memmem(first + 1, size - (size_t)(first + 1 - data), picture, sizeof picture))
		return STK_OK;
	return stk__fail(err, STK_UNSUPPORTED,
		"the stream has packed B-frames: some of its packets hold two frames. Unpack them without loss: "
		"`ffmpeg -i IN -c copy -bsf:v mpeg4_unpack_bframes OUT`");
}

/* Returns STK_UNSUPPORTED if this packet and the previous one hold fields of opposite parity of H.264. Packets with both fields of a picture all begin with the
 * same parity. */
static enum stk_status check_fields(struct listing *l, struct stk_error *err)
{
	const int before = l->structure, now = l->parser ? (int)l->parser->picture_structure : AV_PICTURE_STRUCTURE_UNKNOWN;
	const bool pair = (before == AV_PICTURE_STRUCTURE_TOP_FIELD && now == AV_PICTURE_STRUCTURE_BOTTOM_FIELD) ||
			  (before == AV_PICTURE_STRUCTURE_BOTTOM_FIELD && now == AV_PICTURE_STRUCTURE_TOP_FIELD);
	l->structure = now;
	if (!pair || l->parameters->codec_id != AV_CODEC_ID_H264)
		return STK_OK;
	return stk__fail(err, STK_UNSUPPORTED,
		"the stream is interlaced, and stores the two fields of a picture as separate packets (packet %d is a second field); encode it again as whole "
		"frames (`ffmpeg -i IN -c:v libx264 OUT`)",
		l->out->count);
}

/* Sets *picture to the packet's picture order count or, for MPEG, to the type of its picture (1: bidirectional); without a parser, to the packet's index.
 * Also marks the packet as a key packet if the parser says so. */
static void parse(struct listing *l, const AVPacket *packet, struct stk_packet *out, int32_t *picture)
{
	uint8_t *unit;
	int size;
	*picture = l->out->count;
	if (!l->parser)
		return;
	l->parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
	l->f->av_parser_parse2(l->parser, l->context, &unit, &size, packet->data, packet->size, AV_NOPTS_VALUE, AV_NOPTS_VALUE, -1);
	*picture = is_mpeg(l->parameters->codec_id) ? l->parser->pict_type == AV_PICTURE_TYPE_B : l->parser->output_picture_number;
	if (l->parser->key_frame == 1)
		out->flags |= STK_PACKET_KEY;
}

static bool is_encrypted(const AVPacket *packet)
{
	for (int i = 0; i < packet->side_data_elems; i++)
		if (packet->side_data[i].type == AV_PKT_DATA_ENCRYPTION_INFO)
			return true;
	return false;
}

/* Returns whether the demuxer attaches new decoder parameters to the packet that differ from the stream's. */
static bool changes_parameters(const struct listing *l, const AVPacket *packet)
{
	for (int i = 0; i < packet->side_data_elems; i++) {
		const AVPacketSideData *s = &packet->side_data[i];
		if (s->type == AV_PKT_DATA_NEW_EXTRADATA &&
			(s->size != (size_t)l->parameters->extradata_size || memcmp(s->data, l->parameters->extradata, s->size) != 0))
			return true;
	}
	return false;
}

/* Returns whether a time is missing (AV_NOPTS_VALUE), or so small that differences of times cannot overflow. */
static bool is_time(int64_t t)
{
	return t == AV_NOPTS_VALUE || (t >= -STK_MOST_TIME && t <= STK_MOST_TIME);
}

/* Returns the distance in bytes between the transport packets from `at` on: 188, 192 or 204. Returns 0 if no such packets begin at `at`. */
static int64_t transport_stride(const struct stk_media_input *in, int64_t at)
{
	static const int64_t strides[] = {188, 192, 204};
	for (int i = 0; i < 3; i++) {
		uint8_t sync[3] = {0};
		for (int k = 0; k < 3 && at >= 0 && at + k * strides[i] < in->size; k++)
			if (stk__media_read(in, at + k * strides[i], &sync[k], 1, NULL))
				return 0;
		if (sync[0] == 0x47 && sync[1] == 0x47 && sync[2] == 0x47)
			return strides[i];
	}
	return 0;
}

/* Returns whether transport packets are missing from an MPEG-TS stream between the first picture's beginning at `at` and the next one's, by their counters.
 * FFmpeg's parser drops the flag AV_PKT_FLAG_CORRUPT of the first picture. */
static bool first_has_gap(const struct listing *l, int64_t at)
{
	enum { HEAD = 6, STARTS = 0x40, PAYLOAD = 0x10, ADAPTATION = 0x20, RESET = 0x80, MOST = 64 << 20 };
	const int64_t stride = transport_stride(l->in, at), end = l->in->size - at < MOST ? l->in->size : at + MOST;
	uint8_t bytes[16 << 10];
	int64_t from = at, to = at; /* range of the file that is in `bytes` */
	int previous = -1;
	for (int begun = 0; stride && begun < 2 && at + HEAD <= end; at += stride) {
		if (at + HEAD > to) {
			from = at;
			to = end - at < (int64_t)sizeof bytes ? end : at + (int64_t)sizeof bytes;
			if (stk__media_read(l->in, from, bytes, (size_t)(to - from), NULL))
				return false;
		}
		const uint8_t *h = bytes + (at - from);
		if (h[0] != 0x47)
			return false;
		if (((h[1] & 0x1f) << 8 | h[2]) != l->pid || !(h[3] & PAYLOAD))
			continue;
		const int counter = h[3] & 15;
		const bool reset = h[3] & ADAPTATION && h[4] > 0 && h[5] & RESET;
		if (previous >= 0 && !reset && counter != previous && counter != ((previous + 1) & 15))
			return true;
		previous = counter;
		begun += (h[1] & STARTS) != 0;
	}
	return false;
}

/* Removes the previous packet's time of presentation if this packet has the same times. The times in a header of an MPEG program stream apply to one picture. If
 * pictures are small, FFmpeg may report these times for the picture before it, too. */
static void forget_repeated(struct listing *l)
{
	struct stk_packets *p = l->out;
	const int32_t now = p->count, before = now - 1;
	if (!l->repeats || now == 0 || p->v[now].pts == STK_NO_TIME || p->v[now].pts != p->v[before].pts || l->dts[now] != l->dts[before])
		return;
	p->v[before].pts = STK_NO_TIME;
	l->untimed = true;
}

static enum stk_status add(struct listing *l, const AVPacket *found, struct stk_error *err)
{
	struct stk_packets *p = l->out;
	enum stk_status s = grow(l, err);
	if (s)
		return s;
	l->bytes += found->size;
	if (stk__container_blank(l->c) && l->bytes / STK_MEDIA_MOST_TIMES > l->in->size)
		return stk__fail(err, STK_LIMIT, "the header lists packets of more than %d times the file's size: it is damaged",
			STK_MEDIA_MOST_TIMES);
	if (is_encrypted(found))
		return stk__fail(err, STK_UNSUPPORTED, "the stream is encrypted (DRM): it cannot be decoded without its key");
	if (!is_time(found->pts) || !is_time(found->dts))
		return stk__fail(err, STK_CORRUPT, "packet %d has a time that no video reaches: the file is damaged", p->count);
	if (changes_parameters(l, found))
		return stk__fail(err, STK_UNSUPPORTED,
			"the stream changes its codec's parameters at packet %d; encode it again with one set of parameters (ffmpeg -i FILE NEW.mp4)",
			p->count);
	const bool corrupt = found->flags & AV_PKT_FLAG_CORRUPT || (p->count == 0 && l->pid >= 0 && first_has_gap(l, found->pos));
	struct stk_packet *packet = &p->v[p->count];
	*packet = (struct stk_packet){.pts = found->pts == AV_NOPTS_VALUE ? STK_NO_TIME : found->pts,
		.duration = found->duration,
		.position = found->pos,
		.size = found->size};
	packet->flags = (found->flags & AV_PKT_FLAG_KEY ? STK_PACKET_KEY : 0) |
			(found->flags & AV_PKT_FLAG_DISCARD ? STK_PACKET_DROPPED : 0) | (corrupt || l->damaged ? STK_PACKET_DAMAGED : 0);
	/* FFmpeg's parsers end a packet where the next packet begins, and give it the next packet's flags. So bytes may be missing from either of the two. */
	l->damaged = corrupt;
	/* If the header that holds the picture's time was lost, the picture is not counted, so that the other pictures keep their times. */
	if (packet->flags & STK_PACKET_DAMAGED && packet->pts == STK_NO_TIME && p->count > 0 && !l->untimed) {
		packet->pts = p->v[p->count - 1].pts;
		packet->flags |= STK_PACKET_DROPPED;
	}
	l->dts[p->count] = found->dts == AV_NOPTS_VALUE ? STK_NO_TIME : found->dts;
	forget_repeated(l);
	l->untimed |= packet->pts == STK_NO_TIME;
	l->stated |= packet->pts != STK_NO_TIME && (l->equal_counts || packet->pts != l->dts[p->count]);
	l->picture[p->count] = p->count;
	if (!stk__container_blank(l->c)) {
		packet->flags |= is_hidden(l, found) ? STK_PACKET_DROPPED : 0;
		parse(l, found, packet, &l->picture[p->count]);
		s = stk__packet_check(l->parameters->codec_id, found->data, (size_t)found->size, err);
		s = s ? s : check_fields(l, err);
		s = s ? s : locate(l, packet, found, err);
	}
	p->count += !s;
	return s;
}

/* ---- missing times of presentation ---- */

struct picture {
	int32_t order, packet;
};

static int by_order(const void *a, const void *b)
{
	const struct picture *x = a, *y = b;
	return x->order != y->order ? (x->order > y->order) - (x->order < y->order) : (x->packet > y->packet) - (x->packet < y->packet);
}

static int by_time(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* Replaces the type of each picture (1: bidirectional) by its position in the order of presentation. */
static void order_mpeg(int32_t *picture, int32_t count)
{
	for (int32_t i = count - 1, next = count; i >= 0; i--) {
		const bool at_once = picture[i] == 1;
		picture[i] = at_once ? i : next;
		next = at_once ? next : i;
	}
}

/* Lists the pictures in order of presentation: sorts those between two key frames by their picture order counts. */
static void sort_pictures(struct listing *l, struct picture *pictures)
{
	const struct stk_packets *p = l->out;
	if (is_mpeg(l->parameters->codec_id) && l->parser)
		order_mpeg(l->picture, p->count);
	for (int32_t first = 0, end; first < p->count; first = end) {
		for (end = first + 1; end < p->count && !(p->v[end].flags & STK_PACKET_KEY && l->picture[end] == 0); end++)
			;
		for (int32_t i = first; i < end; i++)
			pictures[i] = (struct picture){l->picture[i], i};
		qsort(pictures + first, (size_t)(end - first), sizeof *pictures, by_order);
	}
}

/* Assigns times of presentation to the packets of a file that states none. The pictures get the times at which packets are decoded; if the file does not store
 * these either, the times follow from the stream's frame rate, or from 25 frames a second if that is unknown. */
static void make_times(struct listing *l, const struct picture *pictures, AVRational rate)
{
	struct stk_packets *p = l->out;
	bool timed = true;
	for (int32_t i = 0; i < p->count; i++)
		timed = timed && l->dts[i] != STK_NO_TIME;
	if (timed)
		qsort(l->dts, (size_t)p->count, sizeof *l->dts, by_time);
	else if (rate.num > 0 && rate.den > 0) {
		p->tb_num = rate.den;
		p->tb_den = rate.num;
	} else {
		p->tb_num = 1;
		p->tb_den = 25;
	}
	for (int32_t i = 0; i < p->count; i++) {
		p->v[pictures[i].packet].pts = timed ? l->dts[i] : i;
		if (!timed)
			p->v[pictures[i].packet].duration = 1;
	}
}

/* Returns for how many time bases a packet's picture is presented: at least 1. */
static int64_t length_of(const struct stk_packets *p, int32_t packet, AVRational rate)
{
	const int64_t stated = p->v[packet].duration;
	const double seconds = rate.num > 0 && rate.den > 0 ? (double)rate.den / rate.num : 1.0 / 25,
		     bases = seconds * p->tb_den / p->tb_num;
	if (stated > 0 && stated <= STK_MOST_TIME)
		return stated;
	return bases < 1 ? 1 : bases > INT32_MAX ? INT32_MAX : (int64_t)bases;
}

/* Assigns times to pictures first .. end - 1, which have none, from the times of the pictures next to them in order of presentation. Each begins where the
 * previous one ends, or they divide the time between their neighbours equally if they would not end before the next one. Returns false if that is impossible. */
static bool fill_run(struct stk_packets *p, const struct picture *pictures, int32_t count, int32_t first, int32_t end, AVRational rate)
{
	const int64_t before = first > 0 ? p->v[pictures[first - 1].packet].pts : STK_NO_TIME;
	const int64_t after = end < count ? p->v[pictures[end].packet].pts : STK_NO_TIME;
	const int64_t parts = end - first + 1;
	int64_t t = before;
	if (before == STK_NO_TIME) {
		t = after;
		for (int32_t i = end - 1; i >= first && t >= -STK_MOST_TIME; i--)
			p->v[pictures[i].packet].pts = t -= length_of(p, pictures[i].packet, rate);
		return t >= -STK_MOST_TIME;
	}
	if (after != STK_NO_TIME && after - before < parts)
		return false;
	for (int32_t i = first; i < end && t <= STK_MOST_TIME; i++)
		p->v[pictures[i].packet].pts = t += length_of(p, pictures[i - 1].packet, rate);
	if (after == STK_NO_TIME || t < after)
		return t <= STK_MOST_TIME;
	for (int32_t i = first; i < end; i++)
		p->v[pictures[i].packet].pts =
			before + (after - before) / parts * (i - first + 1) + (after - before) % parts * (i - first + 1) / parts;
	return true;
}

/* Returns whether the file stores pictures in another order than that of presentation. */
static bool goes_back(const struct stk_packets *p)
{
	int64_t latest = STK_NO_TIME;
	for (int32_t i = 0; i < p->count; i++) {
		if (p->v[i].pts != STK_NO_TIME && p->v[i].pts < latest)
			return true;
		latest = p->v[i].pts > latest ? p->v[i].pts : latest;
	}
	return false;
}

/* Assigns times to the pictures that have none, if the file states the times of others. A part of a longer video in Matroska has such pictures, since Matroska
 * cannot store the times before 0 of its leading pictures. In an MPEG program stream, some pictures have no header with a time. */
static enum stk_status fill_times(struct listing *l, struct picture *pictures, AVRational rate, struct stk_error *err)
{
	const int32_t lost = STK_PACKET_DAMAGED | STK_PACKET_DROPPED; /* add() gives these packets the time of another picture */
	struct stk_packets *p = l->out;
	const bool ordered = l->parser || !goes_back(p);
	int32_t count = 0;
	for (int32_t i = 0; i < p->count; i++)
		if (p->v[pictures[i].packet].pts == STK_NO_TIME || (p->v[pictures[i].packet].flags & lost) != lost)
			pictures[count++] = pictures[i];
	for (int32_t i = 0, end; i < count; i = end + 1) {
		for (end = i; end < count && p->v[pictures[end].packet].pts == STK_NO_TIME; end++)
			;
		if (end > i && (!ordered || !fill_run(p, pictures, count, i, end, rate)))
			return stk__fail(err, STK_UNSUPPORTED,
				"packet %d has no time of presentation, and the times of the packets next to it contradict the order of the pictures; encode the file "
				"again (ffmpeg -i FILE NEW.mp4)",
				pictures[i].packet);
	}
	return STK_OK;
}

static enum stk_status complete_times(struct listing *l, AVRational rate, struct stk_error *err)
{
	struct picture *pictures = stk__alloc((size_t)l->out->count * sizeof *pictures);
	enum stk_status s = STK_OK;
	if (!pictures)
		return no_memory(err);
	sort_pictures(l, pictures);
	if (l->stated)
		s = fill_times(l, pictures, rate, err);
	else
		make_times(l, pictures, rate);
	stk__free(pictures);
	return s;
}

/* ---- the list ---- */

/* Creates a parser for codecs that reorder pictures, if the file may not store times of presentation. */
static void prepare_parser(struct listing *l)
{
	const enum AVCodecID id = l->parameters->codec_id;
	if (stk__container_blank(l->c) || (id != AV_CODEC_ID_H264 && id != AV_CODEC_ID_HEVC && !is_mpeg(id)))
		return;
	l->context = l->f->avcodec_alloc_context3(NULL);
	if (l->context && l->f->avcodec_parameters_to_context(l->context, l->parameters) >= 0)
		l->parser = l->f->av_parser_init((int)id);
}

static enum stk_status read_all(struct listing *l, struct stk_error *err)
{
	enum { CHECK = 4096 };
	AVPacket *packet = l->f->av_packet_alloc();
	if (!packet)
		return no_memory(err);
	enum stk_status s;
	while (!(s = stk__container_next(l->c, packet, err))) {
		s = l->out->count % CHECK == 0 ? stk__media_check(l->in, err)
					       : STK_OK; /* reads also check, but a header that was read gives packets without them */
		s = s ? s : add(l, packet, err);
		l->f->av_packet_unref(packet);
		if (s)
			break;
	}
	l->f->av_packet_free(&packet);
	struct stk_packets *p = l->out;
	if (s == STK_END && p->count > 0 && stk__container_extent(l->c) == STK_EXTENT_CUT)
		p->v[p->count - 1].flags |= STK_PACKET_DAMAGED;
	return s == STK_END ? STK_OK : s;
}

/* Sets p->reorder (packets.h) from the times of presentation. */
static void find_reorder(struct stk_packets *p)
{
	enum { MOST = 16 }; /* maximum number of packets that H.264 and HEVC allow a decoder to hold back */
	int64_t late[MOST]; /* the latest times of presentation so far, in descending order */
	int n = 0;
	for (int32_t i = 0; i < p->count; i++) {
		const int64_t t = p->v[i].pts;
		int later = 0;
		while (later < n && late[later] > t)
			later++;
		p->reorder = later > p->reorder ? later : p->reorder;
		if (later >= MOST)
			continue;
		n += n < MOST;
		for (int k = n - 1; k > later; k--)
			late[k] = late[k - 1];
		late[later] = t;
	}
}

/* Frees the list's unused memory, since readers keep the lists of all their files. */
static void shrink(struct stk_packets *p)
{
	struct stk_packet *v = p->count ? stk__realloc(p->v, (size_t)p->count * sizeof *v) : NULL;
	uint8_t *kept = p->kept_size ? stk__realloc(p->kept, p->kept_size) : NULL;
	if (v) {
		p->v = v;
		p->capacity = p->count;
	}
	if (kept) {
		p->kept = kept;
		p->kept_capacity = p->kept_size;
	}
}

enum stk_status stk__packets_read(struct stk_container *c, const struct stk_ffmpeg *f, const struct stk_media_input *in,
	const AVStream *stream, struct stk_packets *out, struct stk_error *err)
{
	struct listing l = {.c = c, .f = f, .in = in, .parameters = stream->codecpar, .out = out};
	const char *container = stk__container_format(c)->iformat->name;
	l.repeats = strcmp(container, "mpeg") == 0;
	l.pid = strcmp(container, "mpegts") == 0 ? stream->id : -1;
	l.equal_counts = l.repeats || strcmp(container, "mpegts") == 0;
	*out = (struct stk_packets){.tb_num = stream->time_base.num, .tb_den = stream->time_base.den};
	if (out->tb_num <= 0 || out->tb_den <= 0)
		return stk__fail(err, STK_CORRUPT, "the stream's time base is %d/%d, which is impossible: the file is damaged", out->tb_num,
			out->tb_den);
	prepare_parser(&l);
	enum stk_status s = read_all(&l, err);
	if (!s && l.untimed)
		s = complete_times(&l, stream->r_frame_rate, err);
	if (!s)
		find_reorder(out);
	if (l.parser)
		f->av_parser_close(l.parser);
	f->avcodec_free_context(&l.context);
	stk__free(l.picture);
	stk__free(l.dts);
	stk__free(l.compare);
	if (s)
		stk__packets_free(out);
	else
		shrink(out);
	return s;
}

void stk__packets_free(struct stk_packets *p)
{
	stk__free(p->v);
	stk__free(p->kept);
	*p = (struct stk_packets){0};
}

enum stk_status stk__packet_read(
	const struct stk_packets *p, const struct stk_media_input *in, int32_t packet, uint8_t *to, struct stk_error *err)
{
	const struct stk_packet *v = &p->v[packet];
	const size_t size = (size_t)v->size;
	memset(to + size, 0, AV_INPUT_BUFFER_PADDING_SIZE);
	if (!(v->flags & STK_PACKET_KEPT))
		return stk__media_read(in, v->position, to, size, err);
	if (size)
		memcpy(to, p->kept + v->position, size);
	return STK_OK;
}
