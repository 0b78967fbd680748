/* SPDX-License-Identifier: Apache-2.0
 * Reads the packets of a stream. Finds lost pages of Ogg files, which FFmpeg leaves out without an error, by the times of packets. */
#include "sound/stream_impl.h"

#include "base/error.h"
#include "base/memory.h"
#include "codec/bytes.h"

#include <math.h>
#include <string.h>

double stk__stream_seconds_at(const struct stk_sound_stream *s, int64_t time)
{
	const AVRational tb = s->stream->time_base;
	return ((double)time - (double)(s->origin == AV_NOPTS_VALUE ? s->start : s->origin)) * tb.num / tb.den;
}

int64_t stk__stream_inaccuracy(const struct stk_sound_stream *s)
{
	/* FFmpeg's time of a short block of Vorbis after a long one is late by up to a quarter of the difference of their sizes. */
	enum { VORBIS = 2048 };
	const AVRational tb = s->stream->time_base;
	const int32_t rate = s->info.rate ? s->info.rate : s->stream->codecpar->sample_rate;
	const int64_t least = s->stream->codecpar->codec_id == AV_CODEC_ID_VORBIS ? VORBIS : rate / 100;
	const int64_t ticks = (int64_t)ceil(2.0 * tb.num * rate / tb.den);
	return least > ticks ? least : ticks;
}

bool stk__stream_is_ogg(const struct stk_sound_stream *s)
{
	return strcmp(stk__container_format(s->container)->iformat->name, "ogg") == 0;
}

static enum stk_status refuse_gap(double from, double to, struct stk_error *err)
{
	return stk__fail(err, STK_CORRUPT,
		"the sound is damaged: samples are missing from %.3f s to %.3f s. strict=False puts silence in their place", from, to);
}

/* Returns a slot of the queue for another packet, after the packets that are in it. Returns NULL if memory runs out. */
static struct stk_stream_packet *add_slot(struct stk_stream_packets *p, const struct stk_ffmpeg *f)
{
	if (p->count == p->capacity) {
		const int capacity = 2 * p->capacity + 1;
		struct stk_stream_packet *queue = stk__realloc(p->queue, (size_t)capacity * sizeof *queue);
		if (!queue)
			return NULL;
		p->queue = queue;
		for (; p->capacity < capacity; p->capacity++) {
			queue[p->capacity] = (struct stk_stream_packet){.packet = f->av_packet_alloc()};
			if (!queue[p->capacity].packet)
				return NULL;
		}
	}
	return &p->queue[p->count];
}

/* Offsets in the header of an Ogg page. */
enum { PAGE_POSITION = 6, PAGE_SERIAL = 14, PAGE_NUMBER = 18, PAGE_SEGMENTS = 26, PAGE_HEAD = 27 };

/* Reads the header of the Ogg page at `at`. Returns false if no page is there. */
static bool read_page(const struct stk_sound_stream *s, int64_t at, uint8_t head[PAGE_HEAD])
{
	return at >= 0 && at <= s->in.size - PAGE_HEAD && !stk__media_read(&s->in, at, head, PAGE_HEAD, NULL) &&
	       memcmp(head, "OggS", 4) == 0;
}

/* Returns whether the packet begins another stream than the packet before it: its page has another serial number, or pages are numbered from the start again. */
static bool is_chained(const struct stk_sound_stream *s, const AVPacket *before, const AVPacket *packet)
{
	uint8_t a[PAGE_HEAD], b[PAGE_HEAD];
	return before->pos != packet->pos && read_page(s, before->pos, a) && read_page(s, packet->pos, b) &&
	       (memcmp(a + PAGE_SERIAL, b + PAGE_SERIAL, 4) != 0 || stk__get32(b + PAGE_NUMBER, true) <= stk__get32(a + PAGE_NUMBER, true));
}

/* Returns whether the packet is in a page without samples, at the beginning of a stream. In such a page the position is 0, or -1 if a large header of FLAC does
 * not end in it. The first block of samples may be as large, but it begins with 0xff, and a header does not. */
static bool is_header(const struct stk_sound_stream *s, const AVPacket *packet)
{
	const uint64_t none = UINT64_MAX;
	uint8_t head[PAGE_HEAD];
	if (!read_page(s, packet->pos, head))
		return false;
	const uint64_t position = stk__get64(head + PAGE_POSITION, true);
	if (s->stream->codecpar->codec_id == AV_CODEC_ID_FLAC)
		return (position == 0 || position == none) && packet->size > 0 && packet->data[0] != 0xff;
	return position == 0;
}

/* Returns whether a page with samples of the same stream lies before the file's first packet, so that FFmpeg has dropped it. */
static bool lacks_begin(const struct stk_sound_stream *s, const AVPacket *packet)
{
	uint8_t head[PAGE_HEAD], own[PAGE_HEAD], sizes[255];
	if (!read_page(s, packet->pos, own))
		return false;
	for (int64_t at = 0; at < packet->pos;) {
		if (!read_page(s, at, head))
			return true;
		if (memcmp(head + PAGE_SERIAL, own + PAGE_SERIAL, 4) == 0 && (int64_t)stk__get64(head + PAGE_POSITION, true) > 0)
			return true;
		const size_t n = head[PAGE_SEGMENTS];
		if (at > s->in.size - PAGE_HEAD - (int64_t)n || stk__media_read(&s->in, at + PAGE_HEAD, sizes, n, NULL))
			return true;
		at += PAGE_HEAD + (int64_t)n;
		for (size_t i = 0; i < n; i++)
			at += sizes[i];
	}
	return false;
}

/* Compares the time of the packet that was added last with the end of the packet before it. If another stream begins, makes the times continue. If packets
 * are missing, moves the packets between the hole and this one, whose times FFmpeg has counted from the packet before the hole. Fails if packets are missing,
 * unless the stream is lenient. */
static enum stk_status check_time(struct stk_sound_stream *s, struct stk_error *err)
{
	const int64_t most = (int64_t)1 << 48;
	struct stk_stream_packets *p = &s->packets;
	AVPacket *packet = p->queue[p->count - 1].packet, *before = p->count > 1 ? p->queue[p->count - 2].packet : NULL;
	const bool timed = packet->pts >= -most && packet->pts <= most && packet->duration > 0 && packet->duration <= most &&
			   p->offset >= -most && p->offset <= most;
	packet->pts += timed ? p->offset : 0;
	if (!before)
		p->first_page = packet->pos;
	if (!before && timed && !s->lenient && packet->pts > stk__stream_inaccuracy(s) && lacks_begin(s, packet))
		return refuse_gap(0, (double)packet->pts * s->stream->time_base.num / s->stream->time_base.den, err);
	const int64_t missing = before && timed && p->due != AV_NOPTS_VALUE ? packet->pts - p->due : 0;
	p->linking |= before && (missing || !timed) && is_chained(s, before, packet);
	if (p->linking && is_header(s, packet)) {
		p->queue[p->count - 1].is_header = true;
		return STK_OK;
	}
	if (!timed) {
		p->due = AV_NOPTS_VALUE;
		return STK_OK;
	}
	bool moves = p->linking; /* the time says nothing about a gap, so it is made to continue */
	if (p->linking) {
		p->linking = false;
		p->queue[p->count - 1].begins_link = true;
		p->first_page = packet->pos;
	} else if (missing > stk__stream_inaccuracy(s) ||
		   (missing > packet->duration / 2 && s->stream->codecpar->codec_id != AV_CODEC_ID_VORBIS)) {
		/* FFmpeg may count the packets of a stream's first page from 0, and take the times of later ones from the file. */
		moves = before->pos == p->first_page && !(!s->lenient && p->offset == 0 && lacks_begin(s, before));
		int first = p->count - 1;
		while (first > p->next && p->queue[first - 1].packet->pos == before->pos)
			first--;
		const int64_t from = first < p->count - 1 ? p->queue[first].packet->pts : p->due;
		if (!moves && !s->lenient)
			return refuse_gap(stk__stream_seconds_at(s, from), stk__stream_seconds_at(s, from + missing), err);
		for (int i = first; !moves && i < p->count - 1; i++)
			p->queue[i].packet->pts += missing;
	}
	if (moves) {
		p->offset -= missing;
		packet->pts -= missing;
	}
	if (p->due == AV_NOPTS_VALUE || p->due < packet->pts + packet->duration)
		p->due = packet->pts + packet->duration;
	return STK_OK;
}

enum stk_status stk__stream_read_packets(struct stk_sound_stream *s, struct stk_error *err)
{
	enum { MOST = 1024 }; /* more packets than an Ogg page can hold */
	struct stk_stream_packets *p = &s->packets;
	const bool ogg = stk__stream_is_ogg(s);
	while (p->ready == 0) {
		if (p->next > 0) { /* at most one packet is left, which is the first one of a page */
			const struct stk_stream_packet sent = p->queue[0];
			if (p->next < p->count) {
				p->queue[0] = p->queue[p->next];
				p->queue[p->next] = sent;
			}
			p->count -= p->next;
			p->next = 0;
		}
		if (p->ended)
			return STK_END;
		struct stk_stream_packet *slot = add_slot(p, s->f);
		if (!slot)
			return stk__stream_no_memory(err);
		slot->begins_link = slot->is_header = false;
		enum stk_status status = stk__container_next(s->container, slot->packet, err);
		if (status == STK_END) {
			p->ended = true;
			p->ready = p->count;
			continue;
		}
		if (status)
			return status;
		p->count++;
		if (s->start == AV_NOPTS_VALUE)
			s->start = slot->packet->pts == AV_NOPTS_VALUE ? 0 : slot->packet->pts;
		if (ogg && (status = check_time(s, err)))
			return status;
		if (!ogg)
			p->ready = 1;
		else if (p->count > 1 && (slot->packet->pos != p->queue[p->count - 2].packet->pos || p->count == MOST))
			p->ready = p->count - 1;
	}
	return STK_OK;
}
