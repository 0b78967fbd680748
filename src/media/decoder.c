/* SPDX-License-Identifier: Apache-2.0
 * Decodes wanted frames on the calling thread with libavcodec. The time of each packet is replaced by the number of its frame. libavcodec copies that
 * number to the decoded frame, which is thus identified even if the times in the file are wrong. */
#include "media/annex_b.h"
#include "media/colour.h"
#include "media/ffv1.h"
#include "media/headers.h"
#include "media/index.h"
#include "media/mjpeg.h"
#include "media/start.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* The context keeps this state of earlier packets even if it is flushed. open_context resets it. */
struct past {
	bool used;  /* the context has decoded a packet */
	bool dirty; /* damage, of which the decoder of H.264 keeps parts, or different or unknown headers: the context is not used again */
	uint64_t headers; /* hash of the headers of its packets (stk__packet_headers), which are all the same; 0 if they have none */
	enum stk_mjpeg_kind mjpeg; /* kind of the last packet of Motion JPEG */
};

/* The packets that were sent in order since decoding began at one. begin_at resets it. The next call may continue it. */
struct run {
	const struct stk_video_index *index; /* NULL: the next call cannot continue */
	int32_t first, next;                 /* packet at which decoding began, and packet to send next */
	int64_t latest;                      /* the largest frame number that libavcodec has returned */
	bool whole;    /* all pictures from packet `first` on are whole, so that errors in last_packet.begun are damage */
	bool left_out; /* packets of HEVC that no wanted frame needs were not sent */
};

/* Pictures that libavcodec has begun for the last packet. send_packet resets them. */
struct last_packet {
	/* H.264: the last frames, or NULL. Several belong to one packet if references are missing, and a picture with film grain has a second frame. They belong
	 * to libavcodec's decoder, which keeps them as long as the context. Only read before the next packet is sent. */
	const AVFrame *begun[4];
	uint32_t begun_count;
	int pictures; /* HEVC: number of pictures; also one for each missing reference */
};

struct stk_video_decoder {
	struct stk_ffmpeg f;
	struct stk_video_limits limits;
	stk_yuv_row *yuv_row;
	AVCodecContext *context;
	uint64_t serial;          /* hash of the context's parameters, as in stk_video_index.serial */
	struct stk_annex_b units; /* of H.264 and HEVC: the format of packets, and the number of temporal layers of HEVC */
	bool reads_units;         /* whether `units` is known */
	bool has_slices;          /* the video is FFV1 whose packets may have checksums */
	int (*get_buffer)(AVCodecContext *context, AVFrame *frame, int flags); /* libavcodec's own */
	AVFrame *frame;
	AVPacket *packet;
	uint8_t *bytes; /* memory for the bytes of a packet */
	size_t capacity;
	struct past past;
	struct run run;
	struct last_packet last;
	/* Damage that decoding from a key packet has found. It is kept so that later frames which depend on it are refused without decoding. */
	struct {
		const struct stk_video_index *index; /* NULL: none */
		int32_t first, packet;               /* the key packet, and the damaged one after it */
		int code;                            /* libavcodec's error code */
	} damage;
	struct stk_video_counters counters;
};

/* How the segment is decoded. try_segment resets it. If wanted frames are missing after an attempt, the next one decodes the segment in another way. */
struct attempt {
	/* Chosen by decode_segment. */
	bool ahead;    /* packets after those that the frames need may be sent, too, so that the next call can continue */
	bool complete; /* packets that no wanted frame needs are sent, too */
	/* Set during the attempt, which may begin at several packets. */
	bool intra; /* the only wanted frame is an intra picture, which needs no other one: decoding may begin at any packet up to its own */
	bool intra_failed; /* that was tried, and libavcodec did not return the picture: decoding begins where it does for other pictures */
	/* libavcodec has not returned a wanted frame, so all packets of the segment are decoded, and a few after it are sent, too */
	bool further;
	bool anywhere;  /* decoding begins at any packet, also at one without a key frame */
	bool continued; /* the segment, or a part of it, was decoded from where the last call stopped */
};

/* Damage that the attempt has found since decoding began at a packet. decode_from resets it. */
struct findings {
	int32_t damaged; /* index of the first packet that libavcodec refused or the demuxer found incomplete, or -1 */
	int code;        /* libavcodec's error code for that packet; 0: it refers to a picture that is missing */
	bool doubtful;   /* the damage is a missing reference, which may be a packet that was not sent */
	bool misled;     /* decoding could not begin at the packet that the file names */
};

/* The state of one call of stk__video_decode. */
struct decoding {
	struct stk_video_decoder *d;
	const struct stk_video_index *x;
	const struct stk_media_input *in;
	const struct stk_video_wanted *wanted;
	int32_t done;          /* number of wanted frames of the segment that have been written */
	const int32_t *frames; /* wanted frames of the segment */
	int32_t count, number; /* number of frames in `frames`; index of the first one in wanted->frames */
	bool *written;
	struct attempt attempt;
	struct findings found;
	struct stk_error *err;
};

static enum stk_status no_memory(struct stk_error *err)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory to decode a video");
}

enum stk_status stk__video_decoder_create(const struct stk_video_limits *limits, struct stk_video_decoder **out, struct stk_error *err)
{
	*out = NULL;
	struct stk_video_decoder *d = stk__calloc(1, sizeof *d);
	if (!d)
		return no_memory(err);
	enum stk_status s = stk__ffmpeg_load(&d->f, err);
	if (!s) {
		d->limits = *limits;
		d->yuv_row = stk__yuv_row_for(stk__cpu_capabilities());
		d->frame = d->f.av_frame_alloc();
		d->packet = d->f.av_packet_alloc();
		if (!d->frame || !d->packet)
			s = no_memory(err);
	}
	if (s) {
		stk__video_decoder_destroy(d);
		return s;
	}
	*out = d;
	return STK_OK;
}

void stk__video_decoder_destroy(struct stk_video_decoder *d)
{
	if (!d)
		return;
	if (d->context)
		d->f.avcodec_free_context(&d->context);
	if (d->frame)
		d->f.av_frame_free(&d->frame);
	if (d->packet)
		d->f.av_packet_free(&d->packet);
	stk__annex_b_free(&d->units);
	stk__free(d->bytes);
	stk__ffmpeg_unload(&d->f);
	stk__free(d);
}

void stk__video_decoder_forget(struct stk_video_decoder *d)
{
	d->run.index = d->damage.index = NULL;
}

struct stk_video_counters stk__video_decoder_counters(const struct stk_video_decoder *d)
{
	return d->counters;
}

/* ---- colours of H.264 and MPEG-2 ---- */

/* libavcodec's decoders of these codecs set the context's colours from the stream's headers, but only those that a header states. The others remain as earlier
 * frames left them, and are copied to the frame when it is returned, after later packets have been read. So a frame's colours would depend on which frames were
 * decoded before. Stoker therefore resets the context before a packet with a header, and stores in AVFrame.opaque what the frame's own header states. For the
 * rest, the container's colours hold. */

enum {
	UNSTATED = 1 << 16, /* a value of color_primaries that no stream states; headers state these together with the matrix */
	/* Bits of AVFrame.opaque. */
	HAS_RANGE = 1,
	IS_FULL = 2,
	HAS_MATRIX = 4,
	MATRIX_SHIFT = 3
};

/* Returns whether libavcodec's decoder needs note_colours and forget_colours. */
static bool keeps_colours(const AVCodecParameters *p)
{
	return p->codec_id == AV_CODEC_ID_H264 || p->codec_id == AV_CODEC_ID_MPEG2VIDEO;
}

/* Called for each frame when libavcodec begins to decode it. Also counts the frames of a packet of HEVC (note_missing_reference). Not tried yet: libavcodec 62
 * can decode the alpha of HEVC as a second frame of each packet, which would count as a missing reference. A get_format that chooses a format without alpha
 * would leave that frame out. */
static int note_colours(AVCodecContext *context, AVFrame *frame, int flags)
{
	struct stk_video_decoder *d = context->opaque;
	d->last.pictures += (flags & AV_GET_BUFFER_FLAG_REF) != 0; /* HEVC: not the picture with film grain, which is another frame */
	const bool range = context->color_range != AVCOL_RANGE_UNSPECIFIED, matrix = (int)context->color_primaries != UNSTATED;
	frame->opaque = (void *)(intptr_t)((range ? HAS_RANGE : 0) | (context->color_range == AVCOL_RANGE_JPEG ? IS_FULL : 0) |
					   (matrix ? HAS_MATRIX | (int)context->colorspace << MATRIX_SHIFT : 0));
	/* Up to this version, the frame is known to be the decoder's own, which exists as long as the decoder. */
	if (LIBAVCODEC_VERSION_MAJOR <= 62 && context->codec_id == AV_CODEC_ID_H264)
		d->last.begun[d->last.begun_count++ % (sizeof d->last.begun / sizeof *d->last.begun)] = frame;
	return d->get_buffer(context, frame, flags);
}

/* Resets the context's colours if a packet states those of its pictures again: in H.264, the decoder reads them again for each picture; in MPEG-2, from the
 * sequence header and what follows it. Its range is always limited. */
static void forget_colours(const AVCodecParameters *p, AVCodecContext *context, const uint8_t *packet, int32_t size)
{
	static const uint8_t sequence[] = {0, 0, 1, 0xb3};
	if (p->codec_id == AV_CODEC_ID_H264)
		context->color_range = AVCOL_RANGE_UNSPECIFIED;
	else if (size < (int32_t)sizeof sequence || memcmp(packet, sequence, sizeof sequence) != 0)
		return;
	context->color_primaries = (enum AVColorPrimaries)UNSTATED;
}

/* ---- units of H.264 and HEVC ---- */

static bool has_units(const AVCodecParameters *p)
{
	return p->codec_id == AV_CODEC_ID_H264 || p->codec_id == AV_CODEC_ID_HEVC;
}

static enum stk_status read_units(struct stk_video_decoder *d, const AVCodecParameters *p, struct stk_error *err)
{
	const size_t size = p->extradata_size > 0 ? (size_t)p->extradata_size : 0;
	stk__annex_b_free(&d->units);
	d->reads_units = false;
	if (!has_units(p))
		return STK_OK;
	const enum stk_unit_codec codec = p->codec_id == AV_CODEC_ID_HEVC ? STK_UNITS_HEVC : STK_UNITS_H264;
	const enum stk_status s = stk__annex_b_create(codec, p->extradata, size, &d->units, err);
	d->reads_units = !s;
	return s == STK_CORRUPT ? STK_OK : s; /* libavcodec may understand the packets all the same; then all are sent */
}

/* ---- pictures that no wanted frame needs ---- */

/* HEVC marks pictures to which no picture of their temporal layer refers. Pictures of higher layers may refer to them. libavcodec's skip_frame ignores the layers,
 * so Stoker itself leaves out the packets of such pictures, if they are in the highest layer. */

/* Returns whether the packet is not sent. May set the context's skip_frame, so that libavcodec leaves out the picture. wanted: the packet's frame is wanted. */
static bool leave_out(struct stk_video_decoder *d, const AVCodecParameters *p, const struct stk_packet *packet, bool wanted)
{
	if (p->codec_id != AV_CODEC_ID_HEVC) {
		d->context->skip_frame = wanted ? AVDISCARD_DEFAULT : AVDISCARD_NONREF;
		return false;
	}
	if (!d->reads_units || (wanted && !(packet->flags & STK_PACKET_KEY)))
		return false;
	return stk__annex_b_unneeded(&d->units, d->bytes, (size_t)packet->size) && !wanted;
}

/* ---- the context ---- */

static enum stk_status open_context(struct stk_video_decoder *d, const struct stk_video_index *x, struct stk_error *err)
{
	const AVCodecParameters *p = x->parameters;
	const AVCodec *codec = d->f.avcodec_find_decoder(p->codec_id);
	if (!codec)
		return stk__fail(err, STK_UNSUPPORTED, "the FFmpeg here has no decoder for %s", x->facts.codec);
	d->f.avcodec_free_context(&d->context);
	enum stk_status s = read_units(d, p, err);
	if (s)
		return s;
	d->context = d->f.avcodec_alloc_context3(codec);
	if (!d->context || d->f.avcodec_parameters_to_context(d->context, p) < 0)
		return no_memory(err);
	d->context->thread_count = 1;
	d->context->log_level_offset = 1000; /* suppresses FFmpeg's messages, even if the process has turned them on */
	d->context->max_pixels = d->limits.max_pixels > 0 ? d->limits.max_pixels : (int64_t)1 << 28;
	d->context->flags |= d->limits.lenient ? AV_CODEC_FLAG_OUTPUT_CORRUPT : 0;
	/* AV_EF_EXPLODE makes libavcodec refuse damaged pictures. H.264 does not need it, since its decoder marks pictures that it has repaired. There it
	 * would also refuse intact pictures if references that they do not use are missing, as after the key frame of an open group. */
	d->context->err_recognition = d->limits.lenient || p->codec_id == AV_CODEC_ID_H264 ? 0 : AV_EF_EXPLODE;
	if (keeps_colours(p) || p->codec_id == AV_CODEC_ID_HEVC) {
		d->get_buffer = d->context->get_buffer2;
		d->context->get_buffer2 = note_colours;
		d->context->opaque = d;
	}
	const int code = d->f.avcodec_open2(d->context, codec, NULL);
	d->serial = x->serial;
	d->past = (struct past){.mjpeg = STK_MJPEG_NONE};
	d->has_slices =
		p->codec_id == AV_CODEC_ID_FFV1 && p->extradata_size > 0 && stk__ffv1_has_slices(p->extradata, (size_t)p->extradata_size);
	return code < 0 ? stk__ffmpeg_fail(&d->f, code, "the decoder does not start", err) : STK_OK;
}

/* Replaces the context by a new one. */
static enum stk_status renew_context(struct stk_video_decoder *d, const struct stk_video_index *x, struct stk_error *err)
{
	const enum stk_status s = open_context(d, x, err);
	if (s)
		d->f.avcodec_free_context(&d->context);
	return s;
}

/* Prepares the context for decoding from a key packet on. */
static enum stk_status begin_at(struct stk_video_decoder *d, const struct stk_video_index *x, int32_t packet, struct stk_error *err)
{
	d->run.index = NULL;
	if (!d->context || d->serial != x->serial || d->past.dirty) {
		const enum stk_status s = renew_context(d, x, err);
		if (s)
			return s;
	} else
		d->f.avcodec_flush_buffers(d->context);
	d->run = (struct run){.index = x, .first = packet, .next = packet, .latest = -1};
	d->counters.segments++;
	return STK_OK;
}

/* ---- frames ---- */

static enum stk_status refuse_frame(const struct decoding *n, int32_t frame, enum stk_status s, const char *why)
{
	return stk__fail(n->err, s, "frame %d (%.3f s): %s", frame, stk__video_time(n->x, frame), why);
}

/* Finds the conversion matrix of a frame, as its number in H.273, and whether its values use the full range. A gray frame does if neither stream nor container
 * states a range, as in FFmpeg; a colour frame does not. */
static void find_colours(const AVCodecParameters *p, const AVFrame *frame, bool gray, int *matrix, bool *full)
{
	const int f = frame->format, stated = (int)(intptr_t)frame->opaque;
	enum AVColorRange range = frame->color_range;
	*matrix = frame->colorspace;
	if (keeps_colours(p)) {
		*matrix = stated & HAS_MATRIX ? stated >> MATRIX_SHIFT : (int)p->color_space;
		range = !(stated & HAS_RANGE) ? p->color_range : stated & IS_FULL ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
	} else if (f == AV_PIX_FMT_YUVJ420P || f == AV_PIX_FMT_YUVJ422P || f == AV_PIX_FMT_YUVJ444P || f == AV_PIX_FMT_YUVJ440P ||
		   f == AV_PIX_FMT_YUVJ411P)
		range = AVCOL_RANGE_JPEG;
	*full = range == AVCOL_RANGE_JPEG || (gray && range == AVCOL_RANGE_UNSPECIFIED);
}

/* Describes a frame's planes. Returns NULL, or the reason why the frame cannot be converted. */
static const char *describe(const struct decoding *n, const AVFrame *frame, struct stk_picture *out)
{
	int matrix;
	bool full;
	const AVPixFmtDescriptor *p = n->d->f.av_pix_fmt_desc_get(frame->format);
	const uint64_t unsupported = AV_PIX_FMT_FLAG_BE | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL |
				     AV_PIX_FMT_FLAG_BAYER | AV_PIX_FMT_FLAG_FLOAT;
	if (!p || p->flags & unsupported || p->comp[0].depth < 8 || p->comp[0].depth > 16)
		return "its pixel format is not one that Stoker converts";
	*out = (struct stk_picture){.width = frame->width,
		.height = frame->height,
		.count = p->nb_components < 3 ? 1 : 3,
		.bits = p->comp[0].depth,
		.rgb = p->flags & AV_PIX_FMT_FLAG_RGB,
		.sub_x = p->log2_chroma_w,
		.sub_y = p->log2_chroma_h};
	for (int c = 0; c < out->count; c++) {
		const AVComponentDescriptor *k = &p->comp[c];
		if (k->depth != out->bits || !frame->data[k->plane])
			return "its channels have unequal numbers of bits";
		out->planes[c] = (struct stk_plane){frame->data[k->plane] + k->offset, frame->linesize[k->plane], k->step, k->shift};
	}
	find_colours(n->x->parameters, frame, out->count == 1, &matrix, &full);
	if (!out->rgb && !stk__colour_matrix(matrix, out->bits, full, &out->matrix))
		return "its colours are of a kind (YCgCo, ICtCp, constant luminance, ...) that Stoker does not convert";
	return NULL;
}

static enum stk_status deliver(struct decoding *n, int32_t k, const AVFrame *frame)
{
	struct stk_picture picture;
	const int32_t rotation = n->x->facts.rotation, number = n->frames[k];
	const bool turned = rotation == 90 || rotation == 270;
	const char *why = describe(n, frame, &picture);
	if (why)
		return refuse_frame(n, number, STK_UNSUPPORTED, why);
	const struct stk_image to = n->wanted->destination(
		n->wanted->user, n->number + k, turned ? frame->height : frame->width, turned ? frame->width : frame->height, n->err);
	if (!to.data)
		return n->err && n->err->code ? n->err->code : STK_SHAPE;
	const struct stk_image straight = stk__image_turned(&to, rotation);
	const int64_t began = stk__clock_ns();
	stk__picture_to_rgb(&picture, n->d->yuv_row, &straight);
	n->d->counters.convert_ns += stk__clock_ns() - began;
	n->written[k] = true;
	n->done++;
	return STK_OK;
}

/* Notes that a packet is damaged, unless another one was noted before. */
static void set_damaged(struct decoding *n, int32_t packet, int code)
{
	if (n->found.damaged >= 0)
		return;
	n->found.damaged = packet;
	n->found.code = code;
}

/* Notes damage if libavcodec's decoder of HEVC has made up a picture to which the last packet's picture refers: that is not an error to it. Random access pictures
 * need no other pictures, but may list those that were lost. */
static void note_missing_reference(struct decoding *n)
{
	struct stk_video_decoder *d = n->d;
	const int32_t packet = d->run.next - 1;
	const bool missing = n->x->parameters->codec_id == AV_CODEC_ID_HEVC && d->last.pictures > 1;
	d->last.pictures = 0;
	if (!missing || n->found.damaged >= 0 || d->limits.lenient || packet == d->run.first ||
		n->x->packets.v[packet].flags & STK_PACKET_KEY || !d->reads_units ||
		stk__annex_b_begins(&d->units, d->bytes, (size_t)n->x->packets.v[packet].size))
		return;
	n->found.damaged = packet;
	n->found.code = 0;
	n->found.doubtful = d->run.left_out;
}

/* Receives frames from libavcodec and writes the wanted ones. Unless `lenient`, ignores frames after a damaged packet: they may refer to its picture. */
static enum stk_status take_frames(struct decoding *n)
{
	struct stk_video_decoder *d = n->d;
	for (;;) {
		const int64_t began = stk__clock_ns();
		const int code = d->f.avcodec_receive_frame(d->context, d->frame);
		d->counters.decode_ns += stk__clock_ns() - began;
		note_missing_reference(n);
		if (code == AVERROR(EAGAIN) || code == AVERROR_EOF)
			return STK_OK;
		if (code < 0) {
			if (code == AVERROR(ENOMEM))
				return no_memory(n->err);
			n->found.code = code;
			n->found.damaged = n->found.damaged < 0 ? d->run.next - 1 : n->found.damaged;
			return STK_OK;
		}
		d->run.latest = d->frame->pts > d->run.latest ? d->frame->pts : d->run.latest;
		const int32_t k = stk__index_of_number(n->frames, n->count, d->frame->pts);
		if (d->frame->decode_error_flags & ~FF_DECODE_ERROR_MISSING_REFERENCE) {
			const int64_t frame = d->frame->pts;
			set_damaged(n, frame >= 0 && frame < n->x->table.frames ? n->x->packet_of[frame] : d->run.next - 1,
				AVERROR_INVALIDDATA);
		}
		const bool broken = d->frame->flags & AV_FRAME_FLAG_CORRUPT || d->frame->decode_error_flags || n->found.damaged >= 0;
		enum stk_status s = STK_OK;
		if (k >= 0 && !n->written[k] && (d->limits.lenient || !broken))
			s = deliver(n, k, d->frame);
		d->f.av_frame_unref(d->frame);
		if (s)
			return s;
	}
}

/* ---- packets ---- */

static bool is_cut_off(const struct decoding *n, int32_t packet)
{
	const struct stk_packet *p = &n->x->packets.v[packet];
	return !(p->flags & STK_PACKET_KEPT) && (p->position < 0 || p->position > n->in->size || p->size > n->in->size - p->position);
}

/* Returns the first wanted frame that is not decoded before the packet. */
static int32_t first_after(const struct decoding *n, int32_t packet)
{
	int32_t k = 0;
	while (k < n->count - 1 && (n->written[k] || n->x->packet_of[n->frames[k]] < packet))
		k++;
	return n->frames[k];
}

/* Sets n->found.misled, n->attempt.intra and d->run.whole by the packet at which decoding begins. */
static void note_start(struct decoding *n, int32_t packet, int64_t frame)
{
	struct stk_video_decoder *d = n->d;
	if (n->attempt.anywhere || n->attempt.intra || (has_units(n->x->parameters) && !d->reads_units))
		return;
	const enum stk_start start = stk__packet_start(n->x, &d->units, d->bytes, (size_t)n->x->packets.v[packet].size);
	n->attempt.intra = start == STK_START_PICTURE && !n->attempt.intra_failed && n->count == 1 && n->frames[0] == frame;
	d->run.whole = start == STK_START_HERE;
	n->found.misled = !n->attempt.intra && (start == STK_START_NONE || start == STK_START_PICTURE);
}

/* Replaces the context if it would decode the packet of Motion JPEG in d->bytes with tables of earlier packets. STK_UNSUPPORTED: the packet lacks tables that only
 * earlier packets can have. */
static enum stk_status suit_mjpeg(struct decoding *n, size_t size)
{
	struct stk_video_decoder *d = n->d;
	const struct stk_mjpeg m = stk__mjpeg_read(d->bytes, size, n->x->parameters->height);
	if (m.lacks_quantisation && !d->limits.lenient)
		return stk__fail(n->err, STK_UNSUPPORTED,
			"its packet lacks quantisation tables: it relies on those of an earlier frame, or is damaged. If the file plays, encode it again "
			"(ffmpeg -i FILE -c:v mjpeg -q:v 2 NEW.mov)");
	enum stk_status s = STK_OK;
	if (m.kind < d->past.mjpeg || (m.kind == STK_MJPEG_OTHER && d->past.mjpeg != STK_MJPEG_NONE))
		s = renew_context(d, n->x, n->err);
	d->past.mjpeg = m.kind;
	return s;
}

/* Makes the context decode the packet in d->bytes as a new context would. Replaces it if it has decoded other headers and decoding begins at the packet. */
static enum stk_status suit_context(struct decoding *n, int32_t packet)
{
	struct stk_video_decoder *d = n->d;
	const size_t size = (size_t)n->x->packets.v[packet].size;
	const enum AVCodecID codec = n->x->parameters->codec_id;
	uint64_t headers;
	enum stk_status s = STK_OK;
	if (codec == AV_CODEC_ID_MJPEG)
		return suit_mjpeg(n, size);
	if (d->has_slices) { /* then all headers are in the file's header */
		const enum stk_ffv1_state state = stk__ffv1_check(d->bytes, size);
		d->past.dirty |= state != STK_FFV1_WHOLE;
		if (state == STK_FFV1_DAMAGED)
			set_damaged(n, packet, AVERROR_INVALIDDATA);
		return STK_OK;
	}
	const bool known = stk__packet_headers(codec, d->reads_units ? &d->units : NULL, d->bytes, size, &headers);
	const bool first = packet == d->run.first, differ = headers != d->past.headers;
	if (first && d->past.used && differ)
		s = renew_context(d, n->x, n->err);
	d->past.dirty |= !known || (!first && differ && headers);
	d->past.headers = first || headers ? headers : d->past.headers;
	d->past.used = true;
	return s;
}

static enum stk_status send_packet(struct decoding *n, int32_t packet, int64_t frame, bool wanted)
{
	struct stk_video_decoder *d = n->d;
	const struct stk_packet *p = &n->x->packets.v[packet];
	const size_t capacity = (size_t)p->size + AV_INPUT_BUFFER_PADDING_SIZE;
	d->last = (struct last_packet){0};
	if (is_cut_off(n, packet))
		return refuse_frame(
			n, first_after(n, packet), STK_CORRUPT, "its bytes lie beyond the end of the file, which is cut short or damaged");
	if (capacity > d->capacity) {
		uint8_t *bytes = stk__realloc(d->bytes, capacity);
		if (!bytes)
			return no_memory(n->err);
		d->bytes = bytes;
		d->capacity = capacity;
	}
	const int64_t began = stk__clock_ns();
	enum stk_status s = stk__packet_read(&n->x->packets, n->in, packet, d->bytes, n->err);
	const int64_t have = stk__clock_ns();
	d->counters.read_ns += have - began;
	if (!s && n->x->listed) /* otherwise the packets were checked when they were listed */
		s = stk__packet_check(n->x->parameters->codec_id, d->bytes, (size_t)p->size, n->err);
	if (s)
		return s;
	/* libavcodec often conceals missing bytes without an error. Then only the demuxer knows that the picture is not that of the encoder. */
	if (p->flags & STK_PACKET_DAMAGED)
		set_damaged(n, packet, AVERROR_INVALIDDATA);
	if (packet == d->run.first)
		note_start(n, packet, frame);
	if (n->found.misled || (s = suit_context(n, packet)))
		return s;
	if (leave_out(d, n->x->parameters, p, wanted)) {
		d->run.left_out = true;
		return STK_OK;
	}
	d->packet->data = d->bytes;
	d->packet->size = p->size;
	d->packet->pts = d->packet->dts = frame;
	d->packet->flags = p->flags & STK_PACKET_KEY ? AV_PKT_FLAG_KEY : 0;
	if (keeps_colours(n->x->parameters))
		forget_colours(n->x->parameters, d->context, d->bytes, p->size);
	const int code = d->f.avcodec_send_packet(d->context, d->packet);
	d->counters.decode_ns += stk__clock_ns() - have;
	d->packet->data = NULL;
	d->packet->size = 0;
	d->counters.decoded++;
	if (code == AVERROR(ENOMEM))
		return no_memory(n->err);
	if (code < 0)
		set_damaged(n, packet, code);
	return STK_OK;
}

/* Returns the number of the frame that a packet contains, or -1 if the packet's picture is not presented. */
static int64_t frame_of(const struct stk_video_index *x, int32_t packet)
{
	const int64_t t = x->times[packet];
	int32_t low = 0, high = x->table.frames;
	if (x->packets.v[packet].flags & STK_PACKET_DROPPED)
		return -1;
	while (low < high) {
		const int32_t middle = low + (high - low) / 2, p = x->packet_of[middle];
		if (x->times[p] < t || (x->times[p] == t && p < packet))
			low = middle + 1;
		else
			high = middle;
	}
	return low < x->table.frames && x->packet_of[low] == packet ? low : -1;
}

/* Notes damage that libavcodec has found in a packet of H.264. libavcodec returns the picture, which states the damage, only when it is presented. By then it
 * has returned pictures that refer to it but are presented before it. */
static void note_damage(struct decoding *n, int32_t packet)
{
	struct stk_video_decoder *d = n->d;
	bool damaged = false;
	for (size_t i = 0; i < sizeof d->last.begun / sizeof *d->last.begun; i++)
		damaged |= d->last.begun[i] && d->last.begun[i]->decode_error_flags & ~FF_DECODE_ERROR_MISSING_REFERENCE;
	d->past.dirty |= damaged;
	if (damaged && d->run.whole)
		set_damaged(n, packet, AVERROR_INVALIDDATA);
}

/* Sends the packets up to `last`, and receives the decoded frames. Skips packets that follow packet d->run.first, at which decoding began, but are presented
 * before it, since their pictures refer to earlier frames. */
static enum stk_status send_up_to(struct decoding *n, int32_t last)
{
	struct stk_video_decoder *d = n->d;
	const struct stk_video_index *x = n->x;
	const bool all = n->attempt.ahead || n->attempt.further || n->attempt.complete;
	while (d->run.next <= last && n->done < n->count && !n->found.misled) {
		const int32_t packet = d->run.next++;
		if (stk__cancelled(n->wanted->cancel))
			return stk__fail(n->err, STK_CANCELLED, "cancelled");
		enum stk_status s = stk__media_check(n->in, n->err);
		if (s)
			return s;
		if (x->times[packet] < x->times[d->run.first]) {
			/* The packet is skipped, but its damage counts: the missing bytes may be those of the next packet. */
			if (x->packets.v[packet].flags & STK_PACKET_DAMAGED)
				set_damaged(n, packet, AVERROR_INVALIDDATA);
			continue;
		}
		const int64_t frame = frame_of(x, packet);
		const bool wanted = all || stk__index_of_number(n->frames, n->count, frame) >= 0;
		if ((s = send_packet(n, packet, frame, wanted)) || (s = take_frames(n)))
			return s;
		note_damage(n, packet);
	}
	return STK_OK;
}

static enum stk_status drain(struct decoding *n)
{
	n->d->run.index = NULL; /* a decoder that has been drained accepts no further packets */
	n->d->f.avcodec_send_packet(n->d->context, NULL);
	return take_frames(n);
}

/* Returns whether decoding can continue from where the last call stopped, which is cheaper than a new start: packet `first` has been sent, and libavcodec has not
 * returned a wanted frame yet. A new context that begins at packet `first` must give the same frames, so it must not depend on different headers. */
static bool can_continue(const struct decoding *n, int32_t first)
{
	const struct stk_video_decoder *d = n->d;
	return d->run.index == n->x && (d->run.first == first || !d->past.dirty) && d->run.first <= first && d->run.next > first &&
	       d->run.latest < n->frames[0];
}

/* Keeps the damage that decoding from key packet `first` has found, unless the damaged packet was only sent because its own frame is wanted. Otherwise, each
 * later frame would find the same damage. */
static void keep_damage(struct decoding *n, int32_t first)
{
	struct stk_video_decoder *d = n->d;
	if (n->found.damaged <= first || d->limits.lenient || n->attempt.ahead || n->attempt.further || n->found.misled ||
		n->found.doubtful || n->done == n->count ||
		stk__index_of_number(n->frames, n->count, frame_of(n->x, n->found.damaged)) >= 0)
		return;
	for (int32_t k = 0; k < n->count; k++)
		if (!n->written[k] && n->x->packet_of[n->frames[k]] <= n->found.damaged)
			return;
	d->damage.index = n->x;
	d->damage.first = first;
	d->damage.packet = n->found.damaged;
	d->damage.code = n->found.code;
}

/* Returns whether all wanted frames depend on the damage that an earlier call found. Then n->found.damaged and n->found.code are those of that call. */
static bool is_known_damage(struct decoding *n, int32_t first)
{
	const struct stk_video_decoder *d = n->d;
	if (d->damage.index != n->x || d->damage.first != first || n->frames[0] <= frame_of(n->x, d->damage.packet))
		return false;
	for (int32_t k = 0; k < n->count; k++)
		if (n->x->packet_of[n->frames[k]] <= d->damage.packet)
			return false;
	n->found.damaged = d->damage.packet;
	n->found.code = d->damage.code;
	return true;
}

/* Decodes the segment's wanted frames from packet `first`, which is a key packet, to packet `last`. */
static enum stk_status decode_from(struct decoding *n, int32_t first, int32_t last)
{
	struct stk_video_decoder *d = n->d;
	const struct stk_video_index *x = n->x;
	n->found = (struct findings){.damaged = -1};
	const bool on = can_continue(n, first);
	enum stk_status s = on ? STK_OK : begin_at(d, x, first, n->err);
	n->attempt.continued |= on;
	if (!s)
		s = send_up_to(n, last);
	if (!s && !n->found.misled && (n->attempt.ahead || (n->attempt.further && n->done < n->count))) {
		const int32_t wish = stk__packets_delay(&x->packets);
		const int32_t more = x->packets.count - 1 - last < wish ? x->packets.count - 1 : last + wish;
		int32_t last_complete =
			last; /* the wanted frames do not need the packets after `last`, so these may be missing from the file */
		while (last_complete < more && !is_cut_off(n, last_complete + 1))
			last_complete++;
		s = send_up_to(n, last_complete);
	}
	if (!s && n->done < n->count && !n->found.misled)
		s = drain(n);
	if (!s && !on)
		keep_damage(n, first);
	d->past.dirty |= s || n->found.damaged >= 0 || (n->done < n->count && !n->found.misled);
	/* After damage, the next call begins at a key packet: it would not know that its frames may depend on the damaged packet. */
	if (s || !n->attempt.ahead || n->found.misled || n->attempt.intra || (n->found.damaged >= 0 && !d->limits.lenient))
		d->run.index = NULL;
	return s;
}

/* Writes where a packet is: its offset in the file, or its index if its bytes are not contiguous in the file. */
static void name_packet(const struct decoding *n, int32_t packet, char *to, size_t size)
{
	const struct stk_packet *p = &n->x->packets.v[packet];
	if (p->flags & STK_PACKET_KEPT)
		snprintf(to, size, "packet %d of the stream", packet);
	else
		snprintf(to, size, "the packet at byte %lld", (long long)p->position);
}

static enum stk_status refuse_missing(const struct decoding *n)
{
	int32_t k = 0;
	char why[512], code[128] = "", name[64];
	while (k < n->count && n->written[k])
		k++;
	name_packet(n, n->found.damaged >= 0 ? n->found.damaged : n->x->packet_of[n->frames[k]], name, sizeof name);
	if (n->found.damaged >= 0 && n->x->packets.v[n->found.damaged].flags & STK_PACKET_DAMAGED)
		snprintf(why, sizeof why, "%s is damaged: bytes in it, or next to it, are missing from the file", name);
	else if (n->found.damaged >= 0 && n->found.code == 0)
		snprintf(why, sizeof why, "%s refers to a frame that is missing from the file", name);
	else if (n->found.damaged >= 0) {
		n->d->f.av_strerror(n->found.code, code, sizeof code);
		snprintf(why, sizeof why, "%s is damaged (%s)", name, code);
	} else if (n->found.misled)
		snprintf(why, sizeof why,
			"the file marks packets as key frames that are not, and has no key frame in the packets before %s", name);
	else
		snprintf(why, sizeof why, "%s gives no whole picture: it is damaged, or refers to frames that are missing", name);
	return refuse_frame(n, n->frames[k], STK_CORRUPT, why);
}

/* Decodes the segment from key packet *key of the table, or from the one before it if that packet does not hold a key frame, and so on. If there is
 * none among MOST_KEYS, a lenient decoder begins at the last one tried. */
static enum stk_status decode_from_key(struct decoding *n, int32_t *key, int32_t last)
{
	enum { MOST_KEYS = 1000 };
	const int32_t *keys = n->x->table.keys;
	enum stk_status s = decode_from(n, *key < 0 ? 0 : keys[*key], last);
	for (int32_t i = 0; !s && n->found.misled && *key > 0 && i < MOST_KEYS; i++)
		s = decode_from(n, keys[--*key], last);
	if (!s && n->found.misled && n->d->limits.lenient) {
		n->attempt.anywhere = true;
		s = decode_from(n, *key < 0 ? 0 : keys[*key], last);
		n->attempt.anywhere = false;
	}
	return s;
}

/* Returns whether the only fault so far is that libavcodec refused the packet at which decoding began. */
static bool refused_start(const struct decoding *n)
{
	return n->found.damaged == n->d->run.first && !(n->x->packets.v[n->found.damaged].flags & STK_PACKET_DAMAGED);
}

/* Decodes the segment. If no packet is damaged but libavcodec refuses the first packet or does not return a wanted frame, decodes again with further
 * packets, and then from 1, 3, 7 and 15 key packets earlier: some streams mark packets as key packets from which not all later frames can be decoded. */
static enum stk_status try_keys(struct decoding *n, const struct stk_segment *segment)
{
	enum { MOST_BACK = 8 };
	int32_t key = stk__plan_key(&n->x->table, n->frames[0]);
	enum stk_status s = decode_from_key(n, &key, segment->last);
	if (!s && n->done < n->count && n->found.damaged < 0 && !n->found.misled && !n->attempt.ahead && stk__video_further(n->x) > 0) {
		n->attempt.further = true;
		s = decode_from_key(n, &key, segment->last);
		n->attempt.further = false;
		n->found.damaged = n->found.damaged > segment->last ? -1 : n->found.damaged; /* the frames do not depend on that packet */
	}
	for (int32_t back = 1;
		!s && n->done < n->count && (n->found.damaged < 0 || refused_start(n)) && !n->found.misled && key > 0 && back <= MOST_BACK;
		back *= 2) {
		key = key > back ? key - back : 0;
		s = decode_from_key(n, &key, segment->last);
	}
	return s;
}

/* Decodes the segment. libavcodec does not return every intra picture at which, or shortly before which, decoding begins. It returns all pictures if decoding
 * begins at an IDR picture or a recovery point, which may be far before. */
static enum stk_status try_segment(struct decoding *n, const struct stk_segment *segment, struct attempt attempt)
{
	n->attempt = attempt;
	enum stk_status s = try_keys(n, segment);
	if (!s && n->attempt.intra && n->done < n->count) {
		n->attempt.intra = false;
		n->attempt.intra_failed = true;
		s = try_keys(n, segment);
	}
	return s;
}

/* Decodes the segment. If frames are missing, repeats it from a key packet and with only the packets that the frames need. So whether a frame of a damaged file
 * is an error depends neither on the frames that were read before nor on packets that were sent ahead. */
static enum stk_status decode_segment(struct decoding *n, const struct stk_segment *segment)
{
	if (!can_continue(n, segment->first) && is_known_damage(n, segment->first))
		return refuse_missing(n);
	enum stk_status s = try_segment(n, segment, (struct attempt){.ahead = n->wanted->next});
	if (!s && n->done < n->count && !n->found.misled && (n->attempt.ahead || n->attempt.continued)) {
		n->d->run.index = NULL;
		s = try_segment(n, segment, (struct attempt){0});
	}
	if (!s && n->done < n->count && n->found.doubtful) {
		n->d->run.index = NULL;
		s = try_segment(n, segment, (struct attempt){.complete = true});
	}
	return s || n->done == n->count ? s : refuse_missing(n);
}

/* Adds the number and time of the segment's first wanted frame to an error that does not name a frame yet. Returns the status. */
static enum stk_status name_frame(const struct decoding *n, enum stk_status s)
{
	if (!n->err || s == STK_CANCELLED || strncmp(n->err->message, "frame ", 6) == 0)
		return s;
	char was[700];
	snprintf(was, sizeof was, "%.690s", n->err->message);
	return refuse_frame(n, n->frames[0], s, was);
}

enum stk_status stk__video_decode(struct stk_video_decoder *d, const struct stk_video_index *x, const struct stk_media_input *in,
	const struct stk_video_wanted *wanted, struct stk_error *err)
{
	if (wanted->count == 0)
		return STK_OK;
	struct stk_segment *segments = stk__alloc((size_t)wanted->count * sizeof *segments);
	bool *written = stk__calloc((size_t)wanted->count, sizeof *written);
	enum stk_status s = segments && written ? STK_OK : no_memory(err);
	const int32_t count = s ? 0 : stk__plan(&x->table, wanted->frames, wanted->count, segments);
	for (int32_t i = 0; i < count && !s; i++) {
		const struct stk_segment *g = &segments[i];
		struct decoding n = {.d = d, .x = x, .in = in, .wanted = wanted, .err = err};
		n.frames = wanted->frames + g->wanted;
		n.count = g->n_wanted;
		n.number = g->wanted;
		n.written = written + g->wanted;
		s = decode_segment(&n, g);
		s = s ? name_frame(&n, s) : STK_OK;
	}
	d->counters.wanted += wanted->count;
	if (s)
		d->run.index = NULL;
	stk__free(segments);
	stk__free(written);
	return s;
}
