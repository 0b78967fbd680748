/* SPDX-License-Identifier: Apache-2.0 */
#include "sound/stream_impl.h"

#include "base/error.h"
#include "base/memory.h"
#include "codec/bytes.h"
#include "sound/flac.h"

#include <math.h>
#include <string.h>

/* MP3_PREROLL: number of packets; a frame refers to up to 511 bytes of earlier packets, which have at least 24 bytes. MP3_BLOCK: most samples of a packet */
enum { MP3_PREROLL = 32, MP3_BLOCK = 1152 };

struct stk_sound_library {
	struct stk_ffmpeg f;
};

static enum stk_status read_bytes(void *user, int64_t offset, void *to, size_t n, struct stk_error *err)
{
	const struct stk_sound_bytes *bytes = user;
	for (size_t done = 0, k; done < n; done += k) {
		const uint8_t *p = NULL;
		k = n - done < STK_SOUND_READ ? n - done : STK_SOUND_READ;
		enum stk_status s = bytes->read(bytes->user, (uint64_t)offset + done, k, &p, err);
		if (s)
			return s;
		memcpy((uint8_t *)to + done, p, k);
	}
	return STK_OK;
}

/* ---- opening ---- */

/* Finds the type of samples of a decoder's output format. Returns false if Stoker does not convert that format. */
static bool kind_of(enum AVSampleFormat format, enum stk_pcm *kind, bool *planar)
{
	static const struct {
		enum AVSampleFormat format;
		enum stk_pcm kind;
		bool planar;
	} kinds[] = {{AV_SAMPLE_FMT_U8, STK_PCM_U8, false}, {AV_SAMPLE_FMT_U8P, STK_PCM_U8, true}, {AV_SAMPLE_FMT_S16, STK_PCM_I16, false},
		{AV_SAMPLE_FMT_S16P, STK_PCM_I16, true}, {AV_SAMPLE_FMT_S32, STK_PCM_I32, false}, {AV_SAMPLE_FMT_S32P, STK_PCM_I32, true},
		{AV_SAMPLE_FMT_FLT, STK_PCM_F32, false}, {AV_SAMPLE_FMT_FLTP, STK_PCM_F32, true}, {AV_SAMPLE_FMT_DBL, STK_PCM_F64, false},
		{AV_SAMPLE_FMT_DBLP, STK_PCM_F64, true}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (kinds[i].format == format) {
			*kind = kinds[i].kind;
			*planar = kinds[i].planar;
			return true;
		}
	return false;
}

static void close_file(struct stk_sound_stream *s)
{
	if (s->context)
		s->f->avcodec_free_context(&s->context);
	stk__container_close(s->container);
	s->container = NULL;
	for (int i = 0; i < s->packets.count; i++)
		s->f->av_packet_unref(s->packets.queue[i].packet);
	s->packets.count = s->packets.next = s->packets.ready = 0;
	s->packets.ended = s->packets.linking = false;
	s->packets.due = AV_NOPTS_VALUE;
	s->packets.offset = 0;
	s->pending = s->drained = s->jumped = s->relinked = false;
	s->at = s->gap = s->shift = 0;
	s->due = STK_STREAM_NOT_DUE;
}

static enum stk_status open_file(struct stk_sound_stream *s, struct stk_error *err)
{
	enum stk_status status = stk__container_open(s->f, &s->in, &s->container, err);
	if (status || (status = stk__container_choose(s->container, AVMEDIA_TYPE_AUDIO, -1, &s->stream, err)))
		return status;
	stk__container_read_bytes(s->container);
	const AVCodecParameters *p = s->stream->codecpar;
	const AVCodec *codec = s->f->avcodec_find_decoder(p->codec_id);
	if (!codec)
		return stk__fail(err, STK_UNSUPPORTED, "the FFmpeg here has no decoder for %s", s->f->avcodec_get_name(p->codec_id));
	s->context = s->f->avcodec_alloc_context3(codec);
	if (!s->context || s->f->avcodec_parameters_to_context(s->context, p) < 0)
		return stk__stream_no_memory(err);
	s->context->thread_count = 1;
	s->context->log_level_offset = 1000; /* no messages, even if the process has asked FFmpeg for them */
	s->context->pkt_timebase = s->stream->time_base;
	if (!s->lenient && p->codec_id == AV_CODEC_ID_FLAC)
		s->context->err_recognition = AV_EF_CRCCHECK | AV_EF_EXPLODE;
	int code = s->f->avcodec_open2(s->context, codec, NULL);
	return code < 0 ? stk__ffmpeg_fail(s->f, code, "the decoder does not start", err) : STK_OK;
}

/* ---- packets ---- */

static double seconds(const struct stk_sound_stream *s)
{
	return s->info.rate ? (double)s->at / s->info.rate : 0;
}

/* Returns the number of the sample at `time`. Sample 0 is the first one after the encoder's delay. */
static int64_t sample_number(const struct stk_sound_stream *s, int64_t time)
{
	const double number = round(stk__stream_seconds_at(s, time) * s->info.rate), most = 0x1p52;
	return (int64_t)(number < -most ? -most : number > most ? most : number);
}

/* Returns the number of packets before a window that must be decoded to make its samples exact; -1: all packets. */
static int preroll(const struct stk_sound_stream *s)
{
	const AVRational tb = s->stream->time_base;
	const bool exact =
		tb.num == 1 && s->info.rate > 0 &&
		tb.den % s->info.rate == 0; /* a sample lasts a whole number of time bases, so different samples have different times */
	const enum AVCodecID id = s->stream->codecpar->codec_id;
	return !exact || s->origin == AV_NOPTS_VALUE ? -1 : id == AV_CODEC_ID_FLAC ? 0 : id == AV_CODEC_ID_MP3 ? MP3_PREROLL : -1;
}

/* Returns the duration in seconds that the container states; HUGE_VAL if it states none. */
static double stated_duration(const struct stk_sound_stream *s)
{
	const AVFormatContext *f = stk__container_format(s->container);
	const AVRational tb = s->stream->time_base;
	if (f->duration_estimation_method == AVFMT_DURATION_FROM_BITRATE)
		return HUGE_VAL;
	if (s->stream->duration > 0)
		return (double)s->stream->duration * tb.num / tb.den;
	return f->duration > 0 ? (double)f->duration / AV_TIME_BASE : HUGE_VAL;
}

/* Returns whether a gap of `gap` samples before `time` is so long that the time must be wrong: an hour, or beyond the end that the file states. */
static bool is_wrong(const struct stk_sound_stream *s, int64_t gap, int64_t time)
{
	enum { SLACK = 1 };
	return gap > (int64_t)3600 * s->info.rate || stk__stream_seconds_at(s, time) > stated_duration(s) + SLACK;
}

/* Returns how many samples are missing before n samples whose time is that of sample `number`. The time is compared with the end of the samples before them by
 * their time (step), because the clock of a recorder may be faster or slower than the sound's rate. But nothing is missing unless the count of samples is
 * late too, since single times may be wrong. Short packets that are lost, each with a step of its own length, count when they add up. */
static int64_t gap_before(const struct stk_sound_stream *s, int64_t number, int64_t n)
{
	if (s->due == STK_STREAM_NOT_DUE || s->relinked)
		return 0;
	const int64_t most = stk__stream_inaccuracy(s), step = number - s->due, late = number + s->shift - s->at;
	if (late <= most || (step <= most && 2 * step < n))
		return 0;
	return step <= most || late <= step + most ? late : step; /* `late` keeps roundings of times from adding up over many gaps */
}

/* Moves s->at over a gap of `gap` samples, to the first of n samples whose time is that of sample `number`. */
static void advance(struct stk_sound_stream *s, int64_t number, int64_t gap, int64_t n)
{
	const bool begins = s->due == STK_STREAM_NOT_DUE;
	s->at = begins ? number : s->at + gap;
	if (gap || s->relinked)
		s->shift = s->at - number;
	/* Times that vary are followed at once if they are late, and slowly if they are early, so that one early time makes no gap after it. */
	const bool follows = begins || s->relinked || number > s->due - n / 32;
	s->due = (follows ? number : s->due - n / 32) + n;
	s->relinked = false;
}

/* Returns the number of samples in a packet of MP3 or FLAC, by its header, or by its duration if the header is damaged; 0: unknown, or the packet has no
 * samples, but is a header of a chained stream. */
static int64_t count_samples(const struct stk_sound_stream *s, const AVPacket *p)
{
	struct stk_flac_block block;
	const size_t size = (size_t)p->size;
	if (s->stream->codecpar->codec_id == AV_CODEC_ID_FLAC && stk__flac_block_read(p->data, size, s->info.rate, s->info.bits, &block))
		return block.frames;
	if (s->stream->codecpar->codec_id == AV_CODEC_ID_FLAC &&
		stk__stream_is_ogg(s)) /* pages have checksums, so the packet is not damaged */
		return 0;
	if (s->stream->codecpar->codec_id == AV_CODEC_ID_MP3 && size >= 4 && p->data[0] == 0xff && (p->data[1] & 0xe6) == 0xe2)
		return (p->data[1] & 0x18) == 0x18 ? MP3_BLOCK : MP3_BLOCK / 2;
	if (p->pts < s->start || p->pts > INT64_MAX / 2 || p->duration < 0 || p->duration > INT64_MAX / 2)
		return 0;
	return sample_number(s, p->pts + p->duration) - sample_number(s, p->pts);
}

/* Skips a packet if it ends at least `packets` packets before frame `first`, where a window begins. Counts its samples as if it had been decoded. */
static bool skip_packet(struct stk_sound_stream *s, const AVPacket *p, int64_t first, int packets)
{
	const int64_t n = p->pts == AV_NOPTS_VALUE ? 0 : count_samples(s, p);
	if (!n)
		return false;
	const int64_t number = sample_number(s, p->pts), gap = gap_before(s, number, n);
	const int64_t from = s->due == STK_STREAM_NOT_DUE ? number : s->at + gap;
	if (from + n * (packets + 1) > first || (gap && is_wrong(s, gap, p->pts)))
		return false;
	advance(s, number, gap, n);
	s->at += n;
	return true;
}

static bool is_pcm(const struct stk_sound_stream *s)
{
	const enum AVCodecID id = s->stream->codecpar->codec_id;
	return id >= AV_CODEC_ID_PCM_S16LE && id < AV_CODEC_ID_ADPCM_IMA_QT;
}

/* Fails with STK_CORRUPT, because bytes cannot be decoded, unless the stream is lenient, or the failure says nothing about the window from frame `first` on: after
 * a jump, the first packets of MP3 lack their predecessors, and AIFF files of libsndfile have a byte of padding after the stated number of frames. */
static enum stk_status note_damage(const struct stk_sound_stream *s, int64_t first, struct stk_error *err)
{
	if (s->lenient || (s->jumped && preroll(s) > 0 && s->at + MP3_BLOCK <= first) ||
		(is_pcm(s) && s->stream->nb_frames > 0 && s->at >= s->stream->nb_frames))
		return STK_OK;
	return stk__fail(err, STK_CORRUPT, "the sound is damaged at %.3f s. strict=False decodes the rest", seconds(s));
}

/* Sends the next packet that a window from frame `first` on needs to the decoder. Sets s->jumped if it skips packets. At the file's end, sets s->drained and
 * makes the decoder return its remaining frames. A damaged packet fails only if the stream is not lenient and the damage is not due to a skip. */
static enum stk_status send_packet(struct stk_sound_stream *s, int64_t first, struct stk_error *err)
{
	const int preroll_packets = s->info.rate ? preroll(s) : -1;
	/* libavcodec's decoder of FLAC takes the first two headers of a stream for packets without samples, and all others for damaged blocks. */
	const bool leaves_headers = s->stream->codecpar->codec_id == AV_CODEC_ID_FLAC;
	struct stk_stream_packets *p = &s->packets;
	const struct stk_stream_packet *next;
	for (;; s->f->av_packet_unref(next->packet)) {
		enum stk_status status = stk__stream_read_packets(s, err);
		if (status == STK_END) {
			s->drained = true;
			s->f->avcodec_send_packet(s->context, NULL);
			return STK_OK;
		}
		if (status)
			return status;
		next = &p->queue[p->next++];
		p->ready--;
		s->relinked |= next->begins_link;
		if (next->is_header && leaves_headers)
			continue;
		if (preroll_packets < 0 || !skip_packet(s, next->packet, first, preroll_packets))
			break;
		s->jumped = true;
	}
	/* The decoders of Opus and MP3 do not notice missing bytes. Of PCM, the samples before the cut are whole. */
	const bool cut = stk__container_cuts(s->container, next->packet) && !is_pcm(s);
	int code = s->f->avcodec_send_packet(s->context, next->packet);
	s->f->av_packet_unref(next->packet);
	if (code == AVERROR(ENOMEM))
		return stk__stream_no_memory(err);
	return code < 0 || cut ? note_damage(s, first, err) : STK_OK;
}

/* ---- frames ---- */

static enum stk_status check_frame(struct stk_sound_stream *s, struct stk_error *err)
{
	const AVFrame *f = s->frame;
	enum stk_pcm kind;
	bool planar;
	if (!kind_of(f->format, &kind, &planar) || f->nb_samples < 0 || f->sample_rate < 1 || f->ch_layout.nb_channels < 1)
		return stk__fail(err, STK_UNSUPPORTED, "the decoder gives samples of a kind that is not known (%d)", f->format);
	if (f->ch_layout.nb_channels > STK_SOUND_MAX_CHANNELS)
		return stk__fail(err, STK_LIMIT, "a sound with %d channels; at most %d are decoded", f->ch_layout.nb_channels,
			STK_SOUND_MAX_CHANNELS);
	if (!s->info.rate) {
		s->info.rate = f->sample_rate;
		s->info.channels = f->ch_layout.nb_channels;
		s->info.pcm = kind;
		s->origin = f->pts;
	}
	if (s->info.rate != f->sample_rate || s->info.channels != f->ch_layout.nb_channels || s->info.pcm != kind)
		return stk__fail(err, STK_UNSUPPORTED,
			"the sound changes from %d channels at %d Hz to %d at %d Hz, at %.3f s: cut the file there, or convert it",
			s->info.channels, s->info.rate, f->ch_layout.nb_channels, f->sample_rate, seconds(s));
	return STK_OK;
}

/* Sets s->at to the number of the first sample in s->frame, and s->gap to the number of samples that are missing before it. STK_CORRUPT, unless the stream is
 * lenient: the frame's time is wrong. */
static enum stk_status place_frame(struct stk_sound_stream *s, struct stk_error *err)
{
	const AVFrame *f = s->frame;
	s->gap = 0;
	if (s->origin == AV_NOPTS_VALUE || (f->pts == AV_NOPTS_VALUE && s->due == STK_STREAM_NOT_DUE))
		return STK_OK;
	int64_t number = f->pts == AV_NOPTS_VALUE ? s->due : sample_number(s, f->pts), gap = gap_before(s, number, f->nb_samples);
	if (gap && is_wrong(s, gap, f->pts)) {
		if (!s->lenient)
			return stk__fail(err, STK_CORRUPT,
				"the sound's time jumps from %.3f s to %.3f s: the file is damaged, or parts of several recordings follow each "
				"other in it. Cut it there, or give strict=False, which ignores the jump",
				seconds(s), (double)(s->at + gap) / s->info.rate);
		number = s->due;
		gap = 0;
	}
	advance(s, number, gap, f->nb_samples);
	s->gap = gap;
	return STK_OK;
}

/* Decodes until s->frame holds samples that have not been passed on, and sets s->at and s->gap. first: the window's first frame, for send_packet. STK_END:
 * there are no more samples. */
static enum stk_status next_frame(struct stk_sound_stream *s, int64_t first, struct stk_error *err)
{
	while (!s->pending) {
		int code = s->f->avcodec_receive_frame(s->context, s->frame);
		enum stk_status status = STK_OK;
		if (code == AVERROR(EAGAIN) && !s->drained)
			status = send_packet(s, first, err);
		else if (code == AVERROR_EOF || code == AVERROR(EAGAIN))
			return STK_END;
		else if (code == AVERROR(ENOMEM))
			return stk__stream_no_memory(err);
		else if (code < 0)
			status = note_damage(s, first, err);
		else {
			status = check_frame(s, err);
			s->pending = !status && s->frame->nb_samples > 0;
			if (s->pending)
				status = place_frame(s, err);
		}
		if (status)
			return status;
	}
	return STK_OK;
}

/* Enlarges s->block to at least n bytes. */
static bool reserve_block(struct stk_sound_stream *s, size_t n)
{
	if (n <= s->capacity)
		return true;
	uint8_t *block = stk__realloc(s->block, n);
	if (!block)
		return false;
	s->block = block;
	s->capacity = n;
	return true;
}

/* Returns the interleaved samples of s->frame, in s->block if the frame is planar. Returns NULL if memory runs out. */
static const uint8_t *interleaved(struct stk_sound_stream *s)
{
	const AVFrame *f = s->frame;
	enum stk_pcm kind = STK_PCM_U8;
	bool planar = false;
	kind_of(f->format, &kind, &planar);
	const size_t width = stk__pcm_bytes(kind), channels = (size_t)f->ch_layout.nb_channels, n = (size_t)f->nb_samples;
	if (!planar || channels == 1)
		return f->extended_data[0];
	if (!reserve_block(s, n * channels * width))
		return NULL;
	for (size_t c = 0; c < channels; c++) {
		const uint8_t *from = f->extended_data[c];
		uint8_t *to = s->block + c * width;
		for (size_t i = 0; i < n; i++, to += channels * width, from += width)
			memcpy(to, from, width);
	}
	return s->block;
}

/* Passes n frames of silence to the sink. */
static enum stk_status send_silence(
	struct stk_sound_stream *s, int64_t n, stk_stream_sink sink, void *user, const struct stk_cancel *cancel, struct stk_error *err)
{
	enum { PIECE = 4096 };
	enum stk_status status = STK_OK;
	if (!reserve_block(s, PIECE * (size_t)s->info.frame_bytes))
		return stk__stream_no_memory(err);
	memset(s->block, s->info.pcm == STK_PCM_U8 ? 0x80 : 0, PIECE * (size_t)s->info.frame_bytes);
	for (int64_t k; !status && n; n -= k) {
		if (cancel && stk__cancelled(cancel))
			return stk__fail(err, STK_CANCELLED, "decoding was cancelled");
		k = n < PIECE ? n : PIECE;
		status = sink(user, s->block, k, err);
	}
	return status;
}

/* ---- public functions ---- */

bool stk__sound_library_built(void)
{
	return true;
}

enum stk_status stk__sound_library_create(struct stk_sound_library **out, struct stk_error *err)
{
	struct stk_sound_library *l = stk__calloc(1, sizeof *l);
	*out = NULL;
	if (!l)
		return stk__stream_no_memory(err);
	enum stk_status status = stk__ffmpeg_load(&l->f, err);
	if (status)
		stk__free(l);
	else
		*out = l;
	return status;
}

void stk__sound_library_destroy(struct stk_sound_library *l)
{
	if (!l)
		return;
	stk__ffmpeg_unload(&l->f);
	stk__free(l);
}

void stk__stream_close(struct stk_sound_stream *s)
{
	if (!s)
		return;
	close_file(s);
	if (s->frame)
		s->f->av_frame_free(&s->frame);
	for (int i = 0; i < s->packets.capacity; i++)
		s->f->av_packet_free(&s->packets.queue[i].packet);
	stk__free(s->packets.queue);
	stk__free(s->block);
	stk__free(s);
}

/* Returns the number of frames that FLAC's STREAMINFO states, without gaps; 0 if it states none, or if the sound is not FLAC. */
static int64_t flac_frames(const AVCodecParameters *p)
{
	enum { STREAMINFO = 34 };
	const uint8_t *d = p->extradata;
	if (p->codec_id != AV_CODEC_ID_FLAC || !d || p->extradata_size < STREAMINFO)
		return 0;
	return (int64_t)(d[13] & 15) << 32 | (int64_t)d[14] << 24 | d[15] << 16 | d[16] << 8 | d[17];
}

/* Returns Stoker's name for the container that FFmpeg calls `name`, or "media" if Stoker has no name for it. The result is a constant, so it stays valid
 * after FFmpeg has been unloaded. */
static const char *format_of(const char *name)
{
	static const char *const names[] = {"flac", "ogg", "mp3", "mp4", "matroska", "aac", "wav", "aiff", "au", "caf", "mpegts", "avi"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strstr(name, names[i]))
			return names[i];
	return "media";
}

static const char *coding_of(enum AVCodecID id)
{
	static const struct {
		enum AVCodecID id;
		const char *name;
	} names[] = {{AV_CODEC_ID_FLAC, "flac"}, {AV_CODEC_ID_VORBIS, "vorbis"}, {AV_CODEC_ID_OPUS, "opus"}, {AV_CODEC_ID_MP3, "mp3"},
		{AV_CODEC_ID_MP2, "mp2"}, {AV_CODEC_ID_AAC, "aac"}, {AV_CODEC_ID_ALAC, "alac"}, {AV_CODEC_ID_AC3, "ac3"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].id == id)
			return names[i].name;
	return "other";
}

/* If all samples of an Ogg Vorbis file are in its last page, sets *end to that page's position, which is the file's number of frames: FFmpeg does not cut
 * the last block of such a file. Sets *end to INT64_MAX for all other files, and if the number is unknown. */
static enum stk_status find_vorbis_end(const struct stk_sound_stream *s, int64_t *end, struct stk_error *err)
{
	enum { PAGE = 27 + 255 + 255 * 255, HEADER = 27 }; /* the largest page */
	uint8_t first[HEADER], *tail = NULL;
	const int64_t n = s->in.size < 2 * PAGE ? s->in.size : 2 * PAGE;
	enum stk_status status = STK_OK;
	*end = INT64_MAX;
	if (s->stream->codecpar->codec_id != AV_CODEC_ID_VORBIS || strcmp(s->info.format, "ogg") != 0 ||
		stk__container_format(s->container)->nb_streams != 1 || n < HEADER)
		return STK_OK;
	tail = stk__alloc((size_t)n);
	if (!tail)
		return stk__stream_no_memory(err);
	if ((status = stk__media_read(&s->in, 0, first, HEADER, err)) ||
		(status = stk__media_read(&s->in, s->in.size - n, tail, (size_t)n, err)))
		goto out;
	int64_t last = -1; /* number of frames up to the end of the last page, as that page says; -1: not found yet */
	for (int64_t at = n - HEADER; at >= 0; at--) {
		if (memcmp(tail + at, "OggS", 4) != 0)
			continue;
		const int64_t position = (int64_t)stk__get64(tail + at + 6, true);
		const bool begins_stream = tail[at + 5] & 2;
		if (last < 0) {
			/* The last page counts only if it has the serial number of the first one; otherwise another stream follows in the file
			 * ("chaining"). position -1: no packet ends in the page. */
			if (memcmp(tail + at + 14, first + 14, 4) != 0 || position < 0 || position <= s->start)
				goto out;
			last = position;
		} else if (position > 0 || (begins_stream && at > n - s->in.size)) {
			goto out; /* samples are in an earlier page, of this stream or of another one with the same serial number */
		} else if (begins_stream) {
			break;
		}
	}
	if (last >= 0)
		*end = last - s->start;
out:
	stk__free(tail);
	return status;
}

/* If the Xing or Info tag in the first frame of an MP3 file states more bytes than the file has, sets s->promised to the number of frames of samples that it
 * promises, without the encoder's delay and padding. */
static enum stk_status find_mp3_cut(struct stk_sound_stream *s, struct stk_error *err)
{
	enum { ID3 = 10, HEADER = 4 + 32 + 16, ENCODER = 24, DECODER_DELAY = 529, FRAMES = 1, BYTES = 2, TABLE = 4, QUALITY = 8 };
	uint8_t h[HEADER];
	int64_t at = 0;
	enum stk_status status = STK_OK;
	if (s->stream->codecpar->codec_id != AV_CODEC_ID_MP3 || strcmp(s->info.format, "mp3") != 0)
		return STK_OK;
	for (;; at += ID3 + ((int64_t)(h[6] & 127) << 21 | (h[7] & 127) << 14 | (h[8] & 127) << 7 | (h[9] & 127))) {
		if (at > s->in.size - HEADER)
			return STK_OK;
		if ((status = stk__media_read(&s->in, at, h, HEADER, err)))
			return status;
		if (memcmp(h, "ID3", 3) != 0)
			break;
	}
	/* The encoder's delay and padding, which the tag's number of frames includes and s->at does not; an upper bound if the tag does not state them. */
	int64_t delay = 4096;
	const bool mpeg1 = (h[1] & 0x18) == 0x18, mono = h[3] >> 6 == 3;
	const uint8_t *tag = h + 4 + (mpeg1 ? mono ? 17 : 32 : mono ? 9 : 17);
	if (h[0] != 0xff || (h[1] & 0xe0) != 0xe0 || (memcmp(tag, "Xing", 4) != 0 && memcmp(tag, "Info", 4) != 0) ||
		(tag[7] & (FRAMES | BYTES)) != (FRAMES | BYTES))
		return STK_OK;
	if (at + (int64_t)stk__get32(tag + 12, false) <= s->in.size)
		return STK_OK;
	const int64_t frames = (int64_t)stk__get32(tag + 8, false) * (mpeg1 ? MP3_BLOCK : MP3_BLOCK / 2);
	const int64_t encoder = at + (tag - h) + 16 + (tag[7] & TABLE ? 100 : 0) + (tag[7] & QUALITY ? 4 : 0);
	if (encoder <= s->in.size - ENCODER) {
		if ((status = stk__media_read(&s->in, encoder, h, ENCODER, err)))
			return status;
		if (memcmp(h, "LAME", 4) == 0 || memcmp(h, "Lavf", 4) == 0 || memcmp(h, "Lavc", 4) == 0) {
			/* FFmpeg removes the decoder's delay, too, at the start. The padding includes that delay, unless the padding is shorter. */
			const int32_t padding = (h[22] & 15) << 8 | h[23];
			delay = (h[21] << 4 | h[22] >> 4) + (padding > DECODER_DELAY ? padding : DECODER_DELAY);
		}
	}
	s->promised = frames - delay;
	return STK_OK;
}

static enum stk_status describe(struct stk_sound_stream *s, struct stk_error *err)
{
	const AVCodecParameters *p = s->stream->codecpar;
	s->info.format = format_of(stk__container_format(s->container)->iformat->name);
	s->info.coding = coding_of(p->codec_id);
	s->info.bits = p->bits_per_raw_sample > 0 ? p->bits_per_raw_sample : 8 * (int32_t)stk__pcm_bytes(s->info.pcm);
	s->info.frame_bytes = (uint32_t)s->info.channels * stk__pcm_bytes(s->info.pcm);
	s->info.frames = -1;
	s->promised = flac_frames(p);
	const double expected = (double)s->stream->duration * s->stream->time_base.num / s->stream->time_base.den * s->info.rate;
	s->info.expected = s->stream->duration > 0 && expected < 0x1p50 ? (int64_t)expected : -1;
	if (s->origin != AV_NOPTS_VALUE)
		s->info.origin = (double)s->origin * s->stream->time_base.num / s->stream->time_base.den;
	enum stk_status status = find_mp3_cut(s, err);
	return status ? status : find_vorbis_end(s, &s->limit, err);
}

enum stk_status stk__stream_open(struct stk_sound_library *l, const struct stk_sound_bytes *bytes, bool lenient,
	struct stk_sound_stream **out, struct stk_sound_info *info, struct stk_error *err)
{
	*out = NULL;
	struct stk_sound_stream *s = stk__calloc(1, sizeof *s);
	if (!s)
		return stk__stream_no_memory(err);
	s->f = &l->f;
	s->lenient = lenient;
	s->in = (struct stk_media_input){
		.size = (int64_t)bytes->size, .data = bytes->data, .read = read_bytes, .user = (void *)(uintptr_t)bytes};
	s->frame = s->f->av_frame_alloc();
	s->start = s->origin = AV_NOPTS_VALUE;
	s->packets.due = AV_NOPTS_VALUE;
	enum stk_status status = s->frame ? open_file(s, err) : stk__stream_no_memory(err);
	if (!status && (status = next_frame(s, 0, err)) == STK_END)
		status = stk__fail(err, STK_CORRUPT, "the file (%s) has no samples", s->f->avcodec_get_name(s->stream->codecpar->codec_id));
	if (!status)
		status = describe(s, err);
	if (status) {
		stk__stream_close(s);
		return status;
	}
	*info = s->info;
	*out = s;
	return STK_OK;
}

/* Returns whether s->promised is the number of frames of another file, of which this file is a part that was cut out without encoding: the file has all bytes of
 * its container, and the container states an earlier end than STREAMINFO. */
static bool is_part(const struct stk_sound_stream *s)
{
	const double slack = 0.01; /* containers round durations; the shortest part that programs leave out, a block, is longer */
	return stk__container_extent(s->container) == STK_EXTENT_WHOLE && stated_duration(s) + slack < (double)s->promised / s->info.rate;
}

/* Fails if the file ends, after frame s->at, before the end that its header promises. */
static enum stk_status check_length(const struct stk_sound_stream *s, struct stk_error *err)
{
	if (s->lenient || s->promised <= s->at || is_part(s))
		return STK_OK;
	return stk__fail(err, STK_CORRUPT,
		"a truncated file (%s): it ends after %.3f s; its header promises %.3f s. strict=False decodes what is there",
		s->info.coding, seconds(s), (double)s->promised / s->info.rate);
}

enum stk_status stk__stream_decode(struct stk_sound_stream *s, int64_t first, int64_t count, stk_stream_sink sink, void *user,
	const struct stk_cancel *cancel, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	const int64_t end = count < 0 || count > s->limit - first ? s->limit : first + count;
	if (!s->container || first < s->at - s->gap) {
		close_file(s);
		status = open_file(s, err);
	}
	for (int64_t next = first; !status && next < end;) {
		if (cancel && stk__cancelled(cancel))
			return stk__fail(err, STK_CANCELLED, "decoding was cancelled");
		if ((status = next_frame(s, first, err)))
			break;
		if (next < s->at) {
			const int64_t silence = (s->at < end ? s->at : end) - next;
			status = send_silence(s, silence, sink, user, cancel, err);
			next += silence;
			continue;
		}
		const int64_t n = s->frame->nb_samples, skip = next - s->at, ready = end - s->at < n ? end - s->at : n;
		if (skip < ready) {
			const uint8_t *samples = interleaved(s);
			status = samples ? sink(user, samples + (size_t)skip * s->info.frame_bytes, ready - skip, err)
					 : stk__stream_no_memory(err);
			next = s->at + ready;
		}
		if (ready < n) /* the frame stays pending, since the next window may begin in it */
			return status;
		s->at += n;
		s->gap = 0;
		s->pending = false;
	}
	if (status && status != STK_END) /* a later call must not continue after the damage */
		close_file(s);
	if (status != STK_END)
		return status;
	if (s->lenient)
		return STK_OK;
	if (stk__container_extent(s->container) == STK_EXTENT_CUT)
		return stk__fail(err, STK_CORRUPT,
			"a truncated file (%s): it ends after %.3f s, before the end that its structure promises. strict=False decodes what is there",
			s->info.coding, seconds(s));
	return s->jumped ? STK_OK : check_length(s, err);
}

enum stk_status stk__stream_count(struct stk_sound_stream *s, const struct stk_cancel *cancel, int64_t *frames, struct stk_error *err)
{
	*frames = -1;
	if (preroll(s) != 0)
		return STK_OK;
	/* No packet has to be decoded before a window, so all packets are skipped for a window after the end. */
	enum stk_status status = stk__stream_decode(s, INT64_MAX / 2, -1, NULL, NULL, cancel, err);
	if (status || (status = check_length(s, err)))
		return status;
	*frames = s->at;
	return STK_OK;
}
