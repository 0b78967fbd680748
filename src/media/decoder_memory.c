/* SPDX-License-Identifier: Apache-2.0
 * Estimates how much memory libavcodec's decoders need. It cannot be counted, since some decoders, such as libdav1d, allocate their frames without
 * libavcodec's functions. */
#include "media/index.h"

enum { MOST_REFERENCES = 16 };

/* Returns the maximum number of reference frames of an H.264 stream, from the maximum number of macroblocks of its level (table A-1 of the standard). */
static int32_t h264_references(int32_t level, int64_t macroblocks)
{
	static const struct {
		int32_t level, macroblocks;
	} levels[] = {{10, 396}, {11, 900}, {20, 2376}, {21, 4752}, {30, 8100}, {31, 18000}, {32, 20480}, {41, 32768}, {42, 34816},
		{50, 110400}, {52, 184320}, {62, 696320}};
	for (size_t i = 0; i < sizeof levels / sizeof *levels && macroblocks > 0 && level > 0; i++)
		if (level <= levels[i].level) {
			const int64_t n = levels[i].macroblocks / macroblocks;
			return n < 1 ? 1 : n > MOST_REFERENCES ? MOST_REFERENCES : (int32_t)n;
		}
	return MOST_REFERENCES;
}

/* Returns the maximum number of reference frames of an HEVC stream: 6 of the level's largest size, more if frames are smaller (clause A.4.2). */
static int32_t hevc_references(int32_t level, int64_t pixels)
{
	static const struct {
		int32_t level, pixels;
	} levels[] = {{30, 36864}, {60, 122880}, {63, 245760}, {90, 552960}, {93, 983040}, {123, 2228224}, {156, 8912896}, {186, 35651584}};
	for (size_t i = 0; i < sizeof levels / sizeof *levels && level > 0; i++)
		if (level <= levels[i].level)
			return pixels <= levels[i].pixels / 4       ? 16
			       : pixels <= levels[i].pixels / 2     ? 12
			       : pixels <= levels[i].pixels / 4 * 3 ? 8
								    : 6;
	return MOST_REFERENCES;
}

static int32_t references(const AVCodecParameters *p)
{
	const int64_t width = p->width, height = p->height;
	switch (p->codec_id) {
	case AV_CODEC_ID_H264:
		return h264_references(p->level, (width + 15) / 16 * ((height + 15) / 16));
	case AV_CODEC_ID_HEVC:
		return hevc_references(p->level, width * height);
	case AV_CODEC_ID_VP9:
	case AV_CODEC_ID_AV1:
		return 8;
	case AV_CODEC_ID_VP8:
		return 3;
	case AV_CODEC_ID_MJPEG:
	case AV_CODEC_ID_PRORES:
		return 0;
	default:
		return 2;
	}
}

/* Returns the number of bits that a decoded pixel takes in all planes together. */
static int64_t bits_of(const struct stk_video_index *x)
{
	const AVPixFmtDescriptor *d = x->f.av_pix_fmt_desc_get(x->parameters->format);
	int64_t bits = 0;
	for (int c = 0; d && c < d->nb_components; c++) {
		const bool chroma = (c == 1 || c == 2) && !(d->flags & AV_PIX_FMT_FLAG_RGB);
		bits += (d->comp[c].depth > 8 ? 64 : 32) >> (chroma ? d->log2_chroma_w + d->log2_chroma_h : 0);
	}
	return bits > 0 ? bits / 4 : 24; /* the format is unknown if no packets were read */
}

size_t stk__video_decode_memory(const struct stk_video_index *x)
{
	enum { ALIGN = 64, OWN = 1 << 20 };
	const AVCodecParameters *p = x->parameters;
	const size_t width = ((size_t)p->width + ALIGN - 1) / ALIGN * ALIGN, height = ((size_t)p->height + ALIGN - 1) / ALIGN * ALIGN;
	/* 2 more: the frame that is being decoded, and the one that was returned last. */
	const size_t frames = (size_t)references(p) + (size_t)p->video_delay + 2;
	return OWN + width * height * (size_t)bits_of(x) / 8 * frames + (size_t)x->largest;
}
