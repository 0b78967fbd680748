/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the packets of a video and sends them to a session of NVIDIA's decoder. */
#include "media/video_gpu_impl.h"

#include "media/colour.h"
#include "media/start.h"

#include "base/clock.h"

#include <string.h>

enum stk_status stk__video_gpu_read_head(
	struct stk_video_gpu *g, const struct stk_video_index *x, enum stk_cuvid_codec codec, struct stk_error *err)
{
	enum { AV1C_HEADER = 4 };
	const AVCodecParameters *p = x->parameters;
	size_t size = p->extradata_size > 0 ? (size_t)p->extradata_size : 0;
	const uint8_t *header = p->extradata;
	stk__annex_b_free(&g->units);
	if (codec == CUVID_H264 || codec == CUVID_HEVC)
		return stk__annex_b_create(codec == CUVID_HEVC ? STK_UNITS_HEVC : STK_UNITS_H264, header, size, &g->units, err);
	if (codec != CUVID_AV1 || size <= AV1C_HEADER)
		return STK_OK;
	g->units.head = stk__alloc(size);
	if (!g->units.head)
		return stk__video_no_memory(err);
	g->units.head_size = size - AV1C_HEADER;
	memcpy(g->units.head, header + AV1C_HEADER, g->units.head_size);
	return STK_OK;
}

enum stk_status stk__video_gpu_reserve(uint8_t **bytes, size_t *capacity, size_t need, struct stk_error *err)
{
	if (need <= *capacity)
		return STK_OK;
	uint8_t *more = stk__realloc(*bytes, need);
	if (!more)
		return stk__video_no_memory(err);
	*bytes = more;
	*capacity = need;
	return STK_OK;
}

static enum stk_status note_sent(struct stk_video_gpu *g, int32_t packet, struct stk_error *err)
{
	if (g->n_sent == g->sent_capacity) {
		const int32_t capacity = g->sent_capacity ? 2 * g->sent_capacity : 256;
		int32_t *sent = stk__realloc(g->sent, (size_t)capacity * sizeof *sent);
		if (!sent)
			return stk__video_no_memory(err);
		g->sent = sent;
		g->sent_capacity = capacity;
	}
	g->sent[g->n_sent++] = packet;
	return STK_OK;
}

/* Reads a packet and converts it to the format that NVIDIA's parser reads. Sets *out to the result, in memory that the next call overwrites, and *size to
 * its size in bytes. STK_CORRUPT: the packet is damaged or lies beyond the end of the file. */
static enum stk_status read_packet(struct stk_video_gpu_call *n, int32_t packet, const uint8_t **out, size_t *size, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	const struct stk_packet *p = &n->x->packets.v[packet];
	if (p->flags & STK_PACKET_DAMAGED)
		return stk__fail(err, STK_CORRUPT, "the file is damaged");
	if (!(p->flags & STK_PACKET_KEPT) && (p->position < 0 || p->position > n->in->size || p->size > n->in->size - p->position))
		return stk__fail(err, STK_CORRUPT, "the file is cut short");
	enum stk_status s = stk__video_gpu_reserve(&g->bytes, &g->capacity, (size_t)p->size + AV_INPUT_BUFFER_PADDING_SIZE, err);
	const int64_t began = stk__clock_ns();
	if (!s)
		s = stk__packet_read(&n->x->packets, n->in, packet, g->bytes, err);
	g->counters.read_ns += stk__clock_ns() - began;
	*out = g->bytes;
	*size = (size_t)p->size;
	if (s || !g->units.length)
		return s;
	s = stk__video_gpu_reserve(&g->converted, &g->converted_capacity, stk__annex_b_capacity(&g->units, (size_t)p->size), err);
	*out = g->converted;
	return s ? s : stk__annex_b_convert(&g->units, g->bytes, (size_t)p->size, g->converted, size, err);
}

static enum stk_status read_colours(
	struct stk_video_gpu *g, const struct stk_video_index *x, const uint8_t *data, size_t size, struct stk_error *err)
{
	const enum AVCodecID id = x->parameters->codec_id;
	if (id == AV_CODEC_ID_VP8 && !stk__colour_of_vp8(data, size, &g->matrix, &g->full))
		return stk__video_fail_unsupported(err, "the header of a key frame of VP8 is not understood");
	if (id == AV_CODEC_ID_VP9 && !stk__colour_of_vp9(data, size, &g->matrix, &g->full))
		return stk__video_fail_unsupported(err, "the header of a key frame of VP9 is not understood");
	return STK_OK;
}

int32_t stk__video_gpu_find_number(const struct stk_video_gpu_call *n, int32_t packet)
{
	return packet >= n->base && packet <= n->last ? n->number_of[packet - n->base] : STK_NVDEC_UNWANTED;
}

/* Returns the number that stk__nvdec_send needs for the frame in a packet: its index in the list of wanted frames, STK_VIDEO_AHEAD_NUMBER + i for entry i of
 * g->ahead, or STK_NVDEC_UNWANTED. */
static int32_t number_of(const struct stk_video_gpu_call *n, int32_t packet)
{
	const int32_t number = stk__video_gpu_find_number(n, packet);
	for (int32_t i = 0; i < STK_VIDEO_AHEAD && number == STK_NVDEC_UNWANTED; i++)
		if (n->g->ahead[i].frame >= 0 && n->g->ahead[i].packet == packet)
			return STK_VIDEO_AHEAD_NUMBER + i;
	return number;
}

static enum stk_status send_packet(struct stk_video_gpu_call *n, int32_t packet, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	const uint8_t *data = NULL;
	size_t size = 0;
	enum stk_status s = read_packet(n, packet, &data, &size, err);
	const int flags = n->x->packets.v[packet].flags;
	/* If decoding cannot begin here, the cores look for an earlier key frame. */
	if (!s && packet == g->first &&
		stk__packet_start(n->x, &g->units, g->bytes, (size_t)n->x->packets.v[packet].size) != STK_START_HERE)
		s = stk__fail(err, STK_CORRUPT, "the file marks a packet as a key frame from which not all later frames can be decoded");
	if (!s && flags & STK_PACKET_KEY)
		s = read_colours(g, n->x, data, size, err);
	if (!s)
		s = note_sent(g, packet, err);
	if (s)
		return s;
	const int32_t number = number_of(n, packet);
	const bool units = n->x->parameters->codec_id == AV_CODEC_ID_H264 || n->x->parameters->codec_id == AV_CODEC_ID_HEVC;
	const bool skip = units && !n->wanted->next && stk__annex_b_unneeded(&g->units, g->bytes, (size_t)n->x->packets.v[packet].size);
	g->counters.decoded += !(skip && number == STK_NVDEC_UNWANTED);
	return stk__nvdec_send(g->session, data, size, number, skip, flags & STK_PACKET_DROPPED, err);
}

enum stk_status stk__video_gpu_send_up_to(struct stk_video_gpu_call *n, int32_t last, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	enum stk_status s = STK_OK;
	while (!s && g->next <= last) {
		const int32_t packet = g->next++;
		if (stk__cancelled(n->wanted->cancel))
			return n->status = stk__fail(err, STK_CANCELLED, "cancelled");
		if ((s = stk__media_check(n->in, err)))
			return n->status = s;
		/* A damaged packet is an error also if it would be skipped: the missing bytes may be those of the next packet. */
		if (n->x->times[packet] >= n->x->times[g->first] || n->x->packets.v[packet].flags & STK_PACKET_DAMAGED)
			s = send_packet(n, packet, err);
	}
	return s;
}
