/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes the wanted frames of a segment with NVIDIA's decoder: begins or continues a run, converts its pictures to RGB, and sends packets of the next
 * frames ahead of time. */
#include "media/video_gpu_impl.h"

#include "media/colour.h"

#include <stdio.h>
#include <string.h>

void stk__video_gpu_end_run(struct stk_video_gpu *g)
{
	for (int i = 0; i < STK_VIDEO_AHEAD; i++)
		g->ahead[i].frame = -1;
	stk__nvdec_give(g->nvdec, g->session);
	g->session = NULL;
	g->latest = -1;
	g->index = NULL;
}

/* ---- pictures ---- */

/* Finds the conversion matrix of the run's stream. Returns false if Stoker does not convert these colours, or if the container and the stream state different
 * ones: NVIDIA's parser does not report whether the stream states any, so its colours may be a default. */
static bool find_matrix(const struct stk_video_gpu_call *n, int bits, struct stk_yuv_matrix *out)
{
	const AVCodecParameters *p = n->x->parameters;
	const struct stk_cuvid_format *f = stk__nvdec_format(n->g->session);
	const bool vpx = p->codec_id == AV_CODEC_ID_VP8 || p->codec_id == AV_CODEC_ID_VP9;
	const int matrix = vpx ? n->g->matrix : f->matrix;
	const bool full = vpx ? n->g->full : f->full_range;
	const bool container_full =
		p->color_range == AVCOL_RANGE_JPEG || p->format == AV_PIX_FMT_YUVJ420P || p->format == AV_PIX_FMT_YUVJ444P;
	if (!vpx && p->color_space != AVCOL_SPC_UNSPECIFIED && (int)p->color_space != matrix)
		return false;
	if (!vpx && container_full && !full)
		return false;
	return matrix != AVCOL_SPC_RGB && stk__colour_matrix(matrix, bits, full, out);
}

static void note_written(struct stk_video_gpu_call *n, int32_t number, const struct stk_image *at)
{
	n->g->layout = *at;
	n->written[number] = true;
	n->n_unwritten--;
	n->g->counters.on_gpu++;
}

/* Returns an image in a->memory for a frame that the next call will probably want. If memory runs out, the image's `data` is NULL. */
static struct stk_image ahead_destination(
	struct stk_video_gpu *g, struct stk_video_ahead *a, int32_t width, int32_t height, struct stk_error *err)
{
	const size_t size = (size_t)width * (size_t)height * 3;
	if (a->size < size) {
		struct stk_gpu_device *dev = stk__nvdec_device(g->nvdec);
		stk__gpu_retire(dev, a->memory, a->size);
		a->memory = 0;
		a->size = 0;
		if (stk__gpu_alloc(dev, size, &a->memory, err))
			return (struct stk_image){0};
		a->size = size;
	}
	a->layout = g->layout.width == width && g->layout.height == height ? g->layout : stk__image_hwc(NULL, STK_UINT8, width, height, 3);
	struct stk_image to = a->layout;
	to.data = (void *)(uintptr_t)a->memory;
	return to;
}

static enum stk_status write_picture(void *user, int32_t number, const struct stk_picture *picture, struct stk_error *err)
{
	struct stk_video_gpu_call *n = user;
	struct stk_picture p = *picture;
	const AVCodecParameters *parameters = n->x->parameters;
	const int32_t rotation = n->x->facts.rotation;
	const bool turned = rotation == 90 || rotation == 270;
	if (p.width != parameters->width || p.height != parameters->height)
		return stk__video_fail_unsupported(err, "the file's header and the stream give different sizes");
	if (!find_matrix(n, p.bits, &p.matrix))
		return stk__video_fail_unsupported(
			err, "the file's header and the stream give different colours, or colours that the GPU does not convert");
	const int32_t width = turned ? p.height : p.width, height = turned ? p.width : p.height;
	struct stk_video_ahead *ahead = number >= STK_VIDEO_AHEAD_NUMBER ? &n->g->ahead[number - STK_VIDEO_AHEAD_NUMBER] : NULL;
	const struct stk_image to = ahead ? ahead_destination(n->g, ahead, width, height, err)
					  : n->wanted->destination(n->wanted->user, number, width, height, err);
	if (!to.data && ahead)
		return err && err->code ? err->code : STK_NO_MEMORY;
	if (!to.data)
		return n->status = err && err->code ? err->code : STK_SHAPE;
	const struct stk_image straight = stk__image_turned(&to, rotation);
	n->status = stk__nvdec_to_rgb(n->g->nvdec, &p, &straight, n->g->stream, err);
	if (n->status)
		return n->status;
	if (ahead)
		ahead->has_picture = true;
	else
		note_written(n, number, &to);
	return STK_OK;
}

/* ---- segments ---- */

static bool codec_of(const struct stk_video_index *x, enum stk_cuvid_codec *out)
{
	static const struct {
		enum AVCodecID id;
		enum stk_cuvid_codec codec;
	} codecs[] = {{AV_CODEC_ID_H264, CUVID_H264}, {AV_CODEC_ID_HEVC, CUVID_HEVC}, {AV_CODEC_ID_VP8, CUVID_VP8},
		{AV_CODEC_ID_VP9, CUVID_VP9}, {AV_CODEC_ID_AV1, CUVID_AV1}};
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
		if (x->parameters->codec_id == codecs[i].id) {
			*out = codecs[i].codec;
			return true;
		}
	return false;
}

static struct stk_video_ahead *find_ahead(struct stk_video_gpu *g, int32_t packet)
{
	for (int32_t i = 0; i < STK_VIDEO_AHEAD; i++)
		if (g->ahead[i].frame >= 0 && g->ahead[i].packet == packet)
			return &g->ahead[i];
	return NULL;
}

static bool same_layout(const struct stk_image *a, const struct stk_image *b)
{
	return a->width == b->width && a->height == b->height && a->pixel == b->pixel && a->row == b->row && a->channel == b->channel;
}

/* Returns whether the run can continue to the wanted frames of the segment. For each of them, the packet must not have been sent yet, or the picture must
 * still be in a surface or in g->ahead. */
static bool can_continue(const struct stk_video_gpu_call *n, const struct stk_segment *segment)
{
	struct stk_video_gpu *g = n->g;
	if (!g->session || g->index != n->x || g->first > segment->first || g->next < segment->first)
		return false;
	for (int32_t i = 0; i < segment->n_wanted; i++) {
		const int32_t packet = n->x->packet_of[n->wanted->frames[segment->wanted + i]];
		const int32_t sent = packet < g->next ? stk__index_of_number(g->sent, g->n_sent, packet) : -1;
		const struct stk_video_ahead *a = find_ahead(g, packet);
		if (packet < g->next && !(a && a->has_picture) && (sent < 0 || !stk__nvdec_holds(g->session, sent)))
			return false;
	}
	return true;
}

static enum stk_status begin(
	struct stk_video_gpu_call *n, const struct stk_segment *segment, const struct stk_nvdec_run *run, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	const AVCodecParameters *p = n->x->parameters;
	enum stk_cuvid_codec codec;
	if (!codec_of(n->x, &codec))
		return stk__video_fail_unsupported(err, "the GPU decodes H.264, HEVC, VP8, VP9 and AV1");
	enum stk_status s = g->session ? STK_OK : stk__nvdec_take(g->nvdec, codec, p->width, p->height, &g->session, err);
	if (!s && g->index != n->x)
		s = stk__video_gpu_read_head(g, n->x, codec, err);
	if (!s)
		s = stk__nvdec_begin(g->session, run, g->units.head, g->units.head_size, err);
	g->index = n->x;
	g->first = g->next = segment->first;
	g->n_sent = 0;
	for (int i = 0; i < STK_VIDEO_AHEAD; i++)
		g->ahead[i].frame = -1;
	g->counters.segments++;
	return s;
}

/* Copies a wanted frame to its destination, if an earlier call has converted it; otherwise does nothing. *on: set to false if it was converted to another
 * layout; the run must then begin again. */
static enum stk_status take_ahead(struct stk_video_gpu_call *n, int32_t number, bool *on, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	struct stk_video_ahead *a = find_ahead(g, n->x->packet_of[n->wanted->frames[number]]);
	if (!a || !a->has_picture)
		return STK_OK;
	const struct stk_image to = n->wanted->destination(n->wanted->user, number, a->layout.width, a->layout.height, err);
	if (!to.data)
		return n->status = err && err->code ? err->code : STK_SHAPE;
	*on = same_layout(&to, &a->layout);
	if (!*on)
		return STK_OK;
	const size_t size = (size_t)to.width * (size_t)to.height * 3;
	n->status = stk__gpu_copy(stk__nvdec_device(g->nvdec), g->stream, (uintptr_t)to.data, a->memory, size, err);
	if (n->status)
		return n->status;
	n->number_of[a->packet - n->base] = STK_NVDEC_UNWANTED;
	a->frame = -1;
	a->has_picture = false;
	note_written(n, number, &to);
	return STK_OK;
}

/* Removes frames from g->ahead that neither the rest of this call nor the next call wants. If `more`, and if the segment ends the call, adds the frames that
 * follow the call's last one and whose packets have not been sent yet. */
static void plan_ahead(struct stk_video_gpu_call *n, const struct stk_segment *segment, bool more)
{
	struct stk_video_gpu *g = n->g;
	const int32_t done = n->wanted->frames[segment->wanted + segment->n_wanted - 1];
	const int32_t last = n->wanted->frames[n->wanted->count - 1],
		      end = last + STK_VIDEO_AHEAD < n->x->facts.frames ? last + STK_VIDEO_AHEAD + 1 : n->x->facts.frames;
	for (int32_t i = 0; i < STK_VIDEO_AHEAD; i++) {
		struct stk_video_ahead *a = &g->ahead[i];
		if (a->frame < 0 || (n->wanted->next && a->frame > done && a->frame < end))
			continue;
		const int32_t sent = stk__index_of_number(g->sent, g->n_sent, a->packet);
		if (sent >= 0 && !a->has_picture && stk__video_gpu_find_number(n, a->packet) == STK_NVDEC_UNWANTED)
			(void)stk__nvdec_renumber(g->session, sent, STK_NVDEC_UNWANTED);
		a->frame = -1;
	}
	for (int32_t f = last + 1; more && done == last && f < end; f++) {
		const int32_t packet = n->x->packet_of[f];
		struct stk_video_ahead *unused = NULL;
		for (int32_t i = 0; i < STK_VIDEO_AHEAD; i++)
			unused = g->ahead[i].frame < 0 ? &g->ahead[i] : unused;
		/* The picture of a packet that has been sent needs no entry: it stays in a surface until the engine needs that surface. */
		if (!unused || packet < g->next || find_ahead(g, packet))
			continue;
		unused->frame = f;
		unused->packet = packet;
		unused->has_picture = false;
	}
}

/* Sends the packets of the frames in g->ahead. A failure sets *ends, and the run ends after the call; the call itself fails only if n->status is set. */
static enum stk_status send_ahead(struct stk_video_gpu_call *n, bool *ends, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	int32_t last = -1;
	for (int32_t i = 0; i < STK_VIDEO_AHEAD; i++)
		if (g->ahead[i].frame >= 0 && g->ahead[i].packet > last)
			last = g->ahead[i].packet;
	struct stk_error own = {0};
	*ends = stk__video_gpu_send_up_to(n, last, &own) != STK_OK;
	if (n->status && err)
		*err = own;
	return n->status;
}

static enum stk_status decode_segment(struct stk_video_gpu_call *n, const struct stk_segment *segment, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	const struct stk_nvdec_run run = {.take = write_picture, .user = n, .stream = g->stream};
	enum stk_status s = STK_OK;
	bool on = can_continue(n, segment), ends = !n->wanted->next;
	for (int32_t i = 0; i < segment->n_wanted && on && !s; i++)
		s = take_ahead(n, segment->wanted + i, &on, err);
	if (s)
		return s;
	/* Packets are sent ahead only for a caller that reads one frame after the other. For other callers decoding them would be wasted work. */
	const bool follows = on && n->wanted->next && n->wanted->frames[0] == g->latest + 1;
	if (g->session && g->index != n->x)
		stk__video_gpu_end_run(g); /* frees the session: the next video may need one for another codec */
	if (on)
		stk__nvdec_continue(g->session, &run);
	else
		s = begin(n, segment, &run, err);
	for (int32_t i = 0; i < segment->n_wanted && !s; i++) {
		const int32_t number = segment->wanted + i, packet = n->x->packet_of[n->wanted->frames[number]];
		const int32_t sent = packet < g->next ? stk__index_of_number(g->sent, g->n_sent, packet) : -1;
		bool found = false;
		if (sent >= 0 && !n->written[number] && !stk__nvdec_renumber(g->session, sent, number))
			s = stk__nvdec_take_if_decoded(g->session, sent, number, &found, err);
	}
	if (!s)
		plan_ahead(n, segment, follows);
	if (!s)
		s = stk__video_gpu_send_up_to(n, segment->last, err);
	if (!s && follows)
		s = send_ahead(n, &ends, err);
	if (g->session) {
		enum stk_status finished = stk__nvdec_take_below(g->session, STK_VIDEO_AHEAD_NUMBER, s ? NULL : err);
		s = s ? s : finished;
	}
	if (s == STK_UNSUPPORTED && !(g->session && stk__nvdec_broken(g->session))) {
		g->refused = n->x->serial;
		g->refuses = true;
	}
	if (s || ends)
		stk__video_gpu_end_run(g);
	return s;
}

void stk__video_gpu_set_reason(struct stk_video_gpu_call *n, const char *why)
{
	const struct stk_video_facts *f = &n->x->facts;
	char with_codec[200];
	snprintf(n->g->reason, sizeof n->g->reason, "%.150s", why);
	snprintf(with_codec, sizeof with_codec, "%.20s, %d x %d: %.150s", f->codec, f->width, f->height, why);
	stk__nvdec_note(n->g->nvdec, with_codec);
}

/* Sets err to STK_CUDA with the number and time of the segment's first unwritten frame, followed by the message of `was`. Returns STK_CUDA. */
static enum stk_status name_frame(
	const struct stk_video_gpu_call *n, const struct stk_segment *segment, const struct stk_error *was, struct stk_error *err)
{
	int32_t i = 0;
	while (i < segment->n_wanted - 1 && n->written[segment->wanted + i])
		i++;
	const int32_t frame = n->wanted->frames[segment->wanted + i];
	return stk__fail(err, STK_CUDA, "frame %d (%.3f s): %.400s", frame, stk__video_time(n->x, frame), was->message);
}

enum stk_status stk__video_gpu_try_segment(struct stk_video_gpu_call *n, const struct stk_segment *segment, struct stk_error *err)
{
	struct stk_error why = {0};
	const int32_t count = segment->last - segment->first + 1;
	n->number_of = stk__alloc((size_t)count * sizeof *n->number_of);
	if (!n->number_of)
		return stk__video_no_memory(err);
	n->base = segment->first;
	n->last = segment->last;
	n->n_unwritten = segment->n_wanted;
	for (int32_t i = 0; i < count; i++)
		n->number_of[i] = STK_NVDEC_UNWANTED;
	for (int32_t i = 0; i < segment->n_wanted; i++)
		n->number_of[n->x->packet_of[n->wanted->frames[segment->wanted + i]] - n->base] = segment->wanted + i;
	enum stk_status s = decode_segment(n, segment, &why);
	stk__free(n->number_of);
	n->number_of = NULL;
	if (s && n->n_unwritten)
		stk__video_gpu_set_reason(n, why.message);
	/* Only a failure of the GPU or one in n->status fails the call. After any other failure the cores decode the remaining frames. */
	if (n->status || s == STK_CUDA) {
		if (err)
			*err = why;
		return n->status == STK_CUDA || s == STK_CUDA ? name_frame(n, segment, &why, err) : n->status;
	}
	return STK_OK;
}
