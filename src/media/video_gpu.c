/* SPDX-License-Identifier: Apache-2.0 */
#include "media/video_gpu.h"

#include "media/annex_b.h"
#include "media/colour.h"
#include "media/index.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* Frames that the next call will probably want. Their packets are sent during this call, so that the engine decodes them while the caller works. The next call
 * takes most of them from the engine's surfaces. If the engine needs a surface before that, its picture is converted into `memory`, from which the next call
 * copies it. */
enum { AHEAD = 4, AHEAD_NUMBER = INT32_MAX / 2 /* the frame in ahead[i] has the number AHEAD_NUMBER + i in calls of nvdec.h */ };
struct ahead {
	int32_t frame, packet;
	bool there;              /* the picture is in `memory` */
	struct stk_image layout; /* layout of the picture in `memory` */
	stk_gpu_ptr memory;      /* GPU memory, used again for later frames; 0: not allocated yet */
	size_t size;
};

struct stk_video_gpu {
	struct stk_nvdec *nvdec;
	stk_gpu_stream stream;
	stk_gpu_event before;
	struct stk_nvdec_session *session; /* NULL between calls, unless the next frames may continue its run */
	/* The stream of the current run, and the packets that were sent so far. */
	const struct stk_video_index *index; /* NULL: no run */
	struct stk_annex_b units;
	int32_t first, next; /* packet at which the run began, and the next one to send */
	int32_t *sent;       /* the packets that were sent, in order */
	int32_t n_sent, sent_room;
	struct ahead ahead[AHEAD]; /* frame -1: not in use */
	struct stk_image layout;   /* layout of the image that was written last */
	int32_t latest;            /* the last frame of the previous call; -1: none */
	int matrix;                /* colours of VP8 and VP9, as stk__colour_of_vp8 and stk__colour_of_vp9 return them */
	bool full;
	uint8_t *bytes, *converted; /* a packet as the file stores it, and as Annex B */
	size_t room, converted_room;
	uint8_t *staging; /* a frame that the cores decoded */
	size_t staging_size;
	uint64_t refused; /* hash of the parameters of streams that the engine cannot decode, if `refuses` */
	bool refuses;
	char why[160];
	struct stk_video_gpu_counters counters;
};

/* One call of stk__video_gpu_decode. */
struct decoding {
	struct stk_video_gpu *g;
	const struct stk_video_index *x;
	const struct stk_media_input *in;
	const struct stk_video_wanted *wanted;
	bool *came;         /* [wanted frame]: it has been written */
	int32_t *number_of; /* [packet - base]: index of the packet's frame in the list of wanted frames, or STK_NVDEC_UNWANTED */
	int32_t base, last; /* number_of covers the packets base to last */
	int32_t missing;    /* number of wanted frames of the segment that were not written yet */
	enum stk_status
		status; /* a failure that ends the call: `place` refused, a kernel failed, or the user interrupts. Others leave frames to the cores. */
	/* These are for the frames that the cores decode. */
	const int32_t *left; /* [frame that the cores decode]: its index in the list of wanted frames */
	struct stk_image to; /* where the frame in `staging` is to be copied; data NULL: `staging` contains no frame */
};

static enum stk_status no_memory(struct stk_error *err)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory to decode a video");
}

enum stk_status stk__video_gpu_create(struct stk_nvdec *nvdec, struct stk_video_gpu **out, struct stk_error *err)
{
	*out = NULL;
	struct stk_video_gpu *g = stk__calloc(1, sizeof *g);
	if (!g)
		return no_memory(err);
	g->nvdec = stk__nvdec_ref(nvdec);
	struct stk_gpu_device *dev = stk__nvdec_device(nvdec);
	enum stk_status s = stk__gpu_enter(dev, err);
	if (!s) {
		s = stk__gpu_stream_create(dev, STK_GPU_LOW, &g->stream, err);
		if (!s)
			s = stk__gpu_event_create(dev, false, &g->before, err);
		stk__gpu_leave(dev);
	}
	for (int i = 0; i < AHEAD; i++)
		g->ahead[i].frame = -1;
	if (s) {
		stk__video_gpu_destroy(g);
		return s;
	}
	*out = g;
	return STK_OK;
}

struct stk_gpu_device *stk__video_gpu_device(const struct stk_video_gpu *g)
{
	return stk__nvdec_device(g->nvdec);
}

/* Ends the run, and gives its session back. */
static void end_run(struct stk_video_gpu *g)
{
	for (int i = 0; i < AHEAD; i++)
		g->ahead[i].frame = -1;
	stk__nvdec_give(g->nvdec, g->session);
	g->session = NULL;
	g->latest = -1;
	g->index = NULL;
}

void stk__video_gpu_forget(struct stk_video_gpu *g)
{
	if (g->session && !stk__gpu_enter(stk__nvdec_device(g->nvdec), NULL)) {
		end_run(g);
		stk__gpu_leave(stk__nvdec_device(g->nvdec));
	}
	g->index = NULL;
}

void stk__video_gpu_destroy(struct stk_video_gpu *g)
{
	if (!g)
		return;
	struct stk_gpu_device *dev = stk__nvdec_device(g->nvdec);
	stk__video_gpu_forget(g);
	if (!stk__gpu_enter(dev, NULL)) {
		for (int i = 0; i < AHEAD; i++)
			stk__gpu_free(dev, g->ahead[i].memory);
		stk__gpu_event_destroy(dev, g->before);
		stk__gpu_stream_destroy(dev, g->stream);
		stk__gpu_leave(dev);
	}
	stk__annex_b_free(&g->units);
	stk__free(g->sent);
	stk__free(g->bytes);
	stk__free(g->converted);
	stk__free(g->staging);
	stk__nvdec_close(g->nvdec);
	stk__free(g);
}

struct stk_video_gpu_counters stk__video_gpu_counters(const struct stk_video_gpu *g)
{
	return g->counters;
}

const char *stk__video_gpu_why(const struct stk_video_gpu *g)
{
	return g->why;
}

/* ---- pictures ---- */

/* Finds the matrix of the run's stream. Returns false if the container and the stream name different colours: NVIDIA's parser does not report whether the
 * stream names any, so its value may be a default. */
static bool find_matrix(const struct decoding *n, int bits, struct stk_yuv_matrix *out)
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

static enum stk_status fail_unsupported(struct stk_error *err, const char *why)
{
	return stk__fail(err, STK_UNSUPPORTED, "%s", why);
}

static void note_came(struct decoding *n, int32_t number, const struct stk_image *at)
{
	n->g->layout = *at;
	n->came[number] = true;
	n->missing--;
	n->g->counters.on_gpu++;
}

/* Returns an image in a->memory for a frame that the next call will want; its `data` is NULL if memory is short. */
static struct stk_image place_ahead(struct stk_video_gpu *g, struct ahead *a, int32_t width, int32_t height, struct stk_error *err)
{
	const size_t size = (size_t)width * (size_t)height * 3;
	if (a->size < size) {
		struct stk_gpu_device *dev = stk__nvdec_device(g->nvdec);
		stk__gpu_free(dev, a->memory);
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
	struct decoding *n = user;
	struct stk_picture p = *picture;
	const AVCodecParameters *parameters = n->x->parameters;
	const int32_t rotation = n->x->facts.rotation;
	const bool turned = rotation == 90 || rotation == 270;
	if (p.width != parameters->width || p.height != parameters->height)
		return fail_unsupported(err, "the file's header and the stream give different sizes");
	if (!find_matrix(n, p.bits, &p.matrix))
		return fail_unsupported(
			err, "the file's header and the stream give different colours, or colours that the GPU does not convert");
	const int32_t width = turned ? p.height : p.width, height = turned ? p.width : p.height;
	struct ahead *ahead = number >= AHEAD_NUMBER ? &n->g->ahead[number - AHEAD_NUMBER] : NULL;
	const struct stk_image to =
		ahead ? place_ahead(n->g, ahead, width, height, err) : n->wanted->place(n->wanted->user, number, width, height, err);
	if (!to.data && ahead)
		return err && err->code ? err->code : STK_NO_MEMORY;
	if (!to.data)
		return n->status = err && err->code ? err->code : STK_SHAPE;
	const struct stk_image straight = stk__image_turned(&to, rotation);
	n->status = stk__nvdec_to_rgb(n->g->nvdec, &p, &straight, n->g->stream, err);
	if (n->status)
		return n->status;
	if (ahead)
		ahead->there = true;
	else
		note_came(n, number, &to);
	return STK_OK;
}

/* ---- packets ---- */

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

/* Reads the parameter sets of the stream from the file's header. */
static enum stk_status read_head(
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
		return no_memory(err);
	g->units.head_size = size - AV1C_HEADER;
	memcpy(g->units.head, header + AV1C_HEADER, g->units.head_size);
	return STK_OK;
}

static enum stk_status make_room(uint8_t **bytes, size_t *room, size_t need, struct stk_error *err)
{
	if (need <= *room)
		return STK_OK;
	uint8_t *more = stk__realloc(*bytes, need);
	if (!more)
		return no_memory(err);
	*bytes = more;
	*room = need;
	return STK_OK;
}

static enum stk_status note_sent(struct stk_video_gpu *g, int32_t packet, struct stk_error *err)
{
	if (g->n_sent == g->sent_room) {
		const int32_t room = g->sent_room ? 2 * g->sent_room : 256;
		int32_t *sent = stk__realloc(g->sent, (size_t)room * sizeof *sent);
		if (!sent)
			return no_memory(err);
		g->sent = sent;
		g->sent_room = room;
	}
	g->sent[g->n_sent++] = packet;
	return STK_OK;
}

/* Reads a packet and converts it to the form that NVIDIA's parser reads. */
static enum stk_status read_packet(struct decoding *n, int32_t packet, const uint8_t **out, size_t *size, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	const struct stk_packet *p = &n->x->packets.v[packet];
	if (p->flags & STK_PACKET_DAMAGED)
		return stk__fail(err, STK_CORRUPT, "the file is damaged");
	if (!(p->flags & STK_PACKET_KEPT) && (p->position < 0 || p->position > n->in->size || p->size > n->in->size - p->position))
		return stk__fail(err, STK_CORRUPT, "the file is cut short");
	enum stk_status s = make_room(&g->bytes, &g->room, (size_t)p->size + AV_INPUT_BUFFER_PADDING_SIZE, err);
	const int64_t began = stk__clock_ns();
	if (!s)
		s = stk__packet_read(&n->x->packets, n->in, packet, g->bytes, err);
	g->counters.read_ns += stk__clock_ns() - began;
	*out = g->bytes;
	*size = (size_t)p->size;
	if (s || !g->units.length)
		return s;
	s = make_room(&g->converted, &g->converted_room, stk__annex_b_room(&g->units, (size_t)p->size), err);
	*out = g->converted;
	return s ? s : stk__annex_b_convert(&g->units, g->bytes, (size_t)p->size, g->converted, size, err);
}

static enum stk_status read_colours(
	struct stk_video_gpu *g, const struct stk_video_index *x, const uint8_t *data, size_t size, struct stk_error *err)
{
	const enum AVCodecID id = x->parameters->codec_id;
	if (id == AV_CODEC_ID_VP8 && !stk__colour_of_vp8(data, size, &g->matrix, &g->full))
		return fail_unsupported(err, "the header of a key frame of VP8 is not understood");
	if (id == AV_CODEC_ID_VP9 && !stk__colour_of_vp9(data, size, &g->matrix, &g->full))
		return fail_unsupported(err, "the header of a key frame of VP9 is not understood");
	return STK_OK;
}

/* Returns the number of the frame that a packet holds, if this call wants it. */
static int32_t find_number(const struct decoding *n, int32_t packet)
{
	return packet >= n->base && packet <= n->last ? n->number_of[packet - n->base] : STK_NVDEC_UNWANTED;
}

/* Returns the number of the frame that a packet holds, if this call or the next one wants it. */
static int32_t number_of(const struct decoding *n, int32_t packet)
{
	const int32_t number = find_number(n, packet);
	for (int32_t i = 0; i < AHEAD && number == STK_NVDEC_UNWANTED; i++)
		if (n->g->ahead[i].frame >= 0 && n->g->ahead[i].packet == packet)
			return AHEAD_NUMBER + i;
	return number;
}

static enum stk_status send_packet(struct decoding *n, int32_t packet, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	const uint8_t *data = NULL;
	size_t size = 0;
	enum stk_status s = read_packet(n, packet, &data, &size, err);
	const int flags = n->x->packets.v[packet].flags;
	if (!s && flags & STK_PACKET_KEY)
		s = read_colours(g, n->x, data, size, err);
	if (!s)
		s = note_sent(g, packet, err);
	if (s)
		return s;
	const int32_t number = number_of(n, packet);
	const bool units = n->x->parameters->codec_id == AV_CODEC_ID_H264 || n->x->parameters->codec_id == AV_CODEC_ID_HEVC;
	const bool skip = units && !n->wanted->next && stk__annex_b_unneeded(&g->units, data, size);
	g->counters.decoded += !(skip && number == STK_NVDEC_UNWANTED);
	return stk__nvdec_send(g->session, data, size, number, skip, flags & STK_PACKET_DROPPED, err);
}

/* Sends the packets up to `last`. Leaves out packets that follow the run's first packet in the file and precede it in presentation, since they refer to frames
 * before it. */
static enum stk_status send_up_to(struct decoding *n, int32_t last, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	enum stk_status s = STK_OK;
	while (!s && g->next <= last) {
		const int32_t packet = g->next++;
		if (stk__cancelled(n->wanted->cancel))
			return n->status = stk__fail(err, STK_CANCELLED, "cancelled");
		if ((s = stk__media_check(n->in, err)))
			return n->status = s;
		if (n->x->times[packet] >= n->x->times[g->first])
			s = send_packet(n, packet, err);
	}
	return s;
}

/* ---- segments ---- */

static struct ahead *find_ahead(struct stk_video_gpu *g, int32_t packet)
{
	for (int32_t i = 0; i < AHEAD; i++)
		if (g->ahead[i].frame >= 0 && g->ahead[i].packet == packet)
			return &g->ahead[i];
	return NULL;
}

static bool same_layout(const struct stk_image *a, const struct stk_image *b)
{
	return a->width == b->width && a->height == b->height && a->pixel == b->pixel && a->row == b->row && a->channel == b->channel;
}

/* Returns whether the run can continue to the wanted frames of the segment: the packet of each frame was not sent yet, or its picture is still in a surface or
 * in g->ahead. */
static bool can_continue(const struct decoding *n, const struct stk_segment *segment)
{
	struct stk_video_gpu *g = n->g;
	if (!g->session || g->index != n->x || g->first > segment->first || g->next < segment->first)
		return false;
	for (int32_t i = 0; i < segment->n_wanted; i++) {
		const int32_t packet = n->x->packet_of[n->wanted->frames[segment->wanted + i]];
		const int32_t sent = packet < g->next ? stk__place_of(g->sent, g->n_sent, packet) : -1;
		const struct ahead *a = find_ahead(g, packet);
		if (packet < g->next && !(a && a->there) && (sent < 0 || !stk__nvdec_holds(g->session, sent)))
			return false;
	}
	return true;
}

static enum stk_status begin(struct decoding *n, const struct stk_segment *segment, const struct stk_nvdec_run *run, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	const AVCodecParameters *p = n->x->parameters;
	enum stk_cuvid_codec codec;
	if (!codec_of(n->x, &codec))
		return fail_unsupported(err, "the GPU decodes H.264, HEVC, VP8, VP9 and AV1");
	enum stk_status s = g->session ? STK_OK : stk__nvdec_take(g->nvdec, codec, p->width, p->height, &g->session, err);
	if (!s && g->index != n->x)
		s = read_head(g, n->x, codec, err);
	if (!s)
		s = stk__nvdec_begin(g->session, run, g->units.head, g->units.head_size, err);
	g->index = n->x;
	g->first = g->next = segment->first;
	g->n_sent = 0;
	for (int i = 0; i < AHEAD; i++)
		g->ahead[i].frame = -1;
	g->counters.segments++;
	return s;
}

/* Copies a wanted frame that an earlier call converted. Sets *on to false if that call converted it to another layout: then the run must begin again. */
static enum stk_status take_ahead(struct decoding *n, int32_t number, bool *on, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	struct ahead *a = find_ahead(g, n->x->packet_of[n->wanted->frames[number]]);
	if (!a || !a->there)
		return STK_OK;
	const struct stk_image to = n->wanted->place(n->wanted->user, number, a->layout.width, a->layout.height, err);
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
	a->there = false;
	note_came(n, number, &to);
	return STK_OK;
}

/* Removes frames from g->ahead that neither this call nor the next one wants. With `more`, adds those that follow the last frame of the call. */
static void plan_ahead(struct decoding *n, const struct stk_segment *segment, bool more)
{
	struct stk_video_gpu *g = n->g;
	const int32_t done = n->wanted->frames[segment->wanted + segment->n_wanted - 1];
	const int32_t last = n->wanted->frames[n->wanted->count - 1],
		      end = last + AHEAD < n->x->facts.frames ? last + AHEAD + 1 : n->x->facts.frames;
	for (int32_t i = 0; i < AHEAD; i++) {
		struct ahead *a = &g->ahead[i];
		if (a->frame < 0 || (n->wanted->next && a->frame > done && a->frame < end))
			continue;
		const int32_t sent = stk__place_of(g->sent, g->n_sent, a->packet);
		if (sent >= 0 && !a->there && find_number(n, a->packet) == STK_NVDEC_UNWANTED)
			(void)stk__nvdec_renumber(g->session, sent, STK_NVDEC_UNWANTED);
		a->frame = -1;
	}
	for (int32_t f = last + 1; more && done == last && f < end; f++) {
		const int32_t packet = n->x->packet_of[f];
		struct ahead *unused = NULL;
		for (int32_t i = 0; i < AHEAD; i++)
			unused = g->ahead[i].frame < 0 ? &g->ahead[i] : unused;
		if (!unused || packet < g->next ||
			find_ahead(g, packet)) /* its packet was sent before, so its picture is in a surface as long as no other needs it */
			continue;
		unused->frame = f;
		unused->packet = packet;
		unused->there = false;
	}
}

/* Sends the packets of the frames in g->ahead. A failure is no failure of this call, unless n->status is set; it sets *ends, so that the run ends after the
 * call. */
static enum stk_status send_ahead(struct decoding *n, bool *ends, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	int32_t last = -1;
	for (int32_t i = 0; i < AHEAD; i++)
		if (g->ahead[i].frame >= 0 && g->ahead[i].packet > last)
			last = g->ahead[i].packet;
	struct stk_error own = {0};
	*ends = send_up_to(n, last, &own) != STK_OK;
	if (n->status && err)
		*err = own;
	return n->status;
}

static enum stk_status decode_segment(struct decoding *n, const struct stk_segment *segment, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	const struct stk_nvdec_run run = {.take = write_picture, .user = n, .stream = g->stream};
	enum stk_status s = STK_OK;
	bool on = can_continue(n, segment), ends = !n->wanted->next;
	for (int32_t i = 0; i < segment->n_wanted && on && !s; i++)
		s = take_ahead(n, segment->wanted + i, &on, err);
	if (s)
		return s;
	/* Packets are sent ahead only for a caller that reads frame after frame: for any other, decoding them would be wasted work. */
	const bool follows = on && n->wanted->next && n->wanted->frames[0] == g->latest + 1;
	if (g->session && g->index != n->x)
		end_run(g); /* the next video may need a session for another codec */
	if (on)
		stk__nvdec_continue(g->session, &run);
	else
		s = begin(n, segment, &run, err);
	for (int32_t i = 0; i < segment->n_wanted && !s; i++) {
		const int32_t number = segment->wanted + i, packet = n->x->packet_of[n->wanted->frames[number]];
		const int32_t sent = packet < g->next ? stk__place_of(g->sent, g->n_sent, packet) : -1;
		bool held = false;
		if (sent >= 0 && !n->came[number] && !stk__nvdec_renumber(g->session, sent, number))
			s = stk__nvdec_take_held(g->session, sent, number, &held, err);
	}
	if (!s)
		plan_ahead(n, segment, follows);
	if (!s)
		s = send_up_to(n, segment->last, err);
	if (!s && follows)
		s = send_ahead(n, &ends, err);
	if (g->session) {
		enum stk_status finished = stk__nvdec_take_below(g->session, AHEAD_NUMBER, s ? NULL : err);
		s = s ? s : finished;
	}
	if (s == STK_UNSUPPORTED && !(g->session && stk__nvdec_broken(g->session))) {
		g->refused = n->x->serial;
		g->refuses = true;
	}
	if (s || ends)
		end_run(g);
	return s;
}

/* Notes why the cores decode frames. */
static void note_why(struct decoding *n, const char *why)
{
	const struct stk_video_facts *f = &n->x->facts;
	char with_codec[200];
	snprintf(n->g->why, sizeof n->g->why, "%.150s", why);
	snprintf(with_codec, sizeof with_codec, "%.20s, %d x %d: %.150s", f->codec, f->width, f->height, why);
	stk__nvdec_note(n->g->nvdec, with_codec);
}

/* Adds the number and time of the first frame that was not written to the message about a failure of the GPU. */
static enum stk_status name_frame(
	const struct decoding *n, const struct stk_segment *segment, const struct stk_error *was, struct stk_error *err)
{
	int32_t i = 0;
	while (i < segment->n_wanted - 1 && n->came[segment->wanted + i])
		i++;
	const int32_t frame = n->wanted->frames[segment->wanted + i];
	return stk__fail(err, STK_CUDA, "frame %d (%.3f s): %.400s", frame, stk__video_time(n->x, frame), was->message);
}

/* Decodes one segment as far as the engine can. */
static enum stk_status try_segment(struct decoding *n, const struct stk_segment *segment, struct stk_error *err)
{
	struct stk_error why = {0};
	const int32_t span = segment->last - segment->first + 1;
	n->number_of = stk__alloc((size_t)span * sizeof *n->number_of);
	if (!n->number_of)
		return no_memory(err);
	n->base = segment->first;
	n->last = segment->last;
	n->missing = segment->n_wanted;
	for (int32_t i = 0; i < span; i++)
		n->number_of[i] = STK_NVDEC_UNWANTED;
	for (int32_t i = 0; i < segment->n_wanted; i++)
		n->number_of[n->x->packet_of[n->wanted->frames[segment->wanted + i]] - n->base] = segment->wanted + i;
	enum stk_status s = decode_segment(n, segment, &why);
	stk__free(n->number_of);
	n->number_of = NULL;
	if (s && n->missing)
		note_why(n, why.message);
	/* A failure of the GPU itself fails the call. After any other failure the cores decode the remaining frames. */
	if (n->status || s == STK_CUDA) {
		if (err)
			*err = why;
		return n->status == STK_CUDA || s == STK_CUDA ? name_frame(n, segment, &why, err) : n->status;
	}
	return STK_OK;
}

/* ---- frames that the cores decode ---- */

/* Copies the frame in `staging` to the GPU. `staging` may be overwritten when the call returns. */
static enum stk_status send_staged(struct decoding *n, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	if (!n->to.data)
		return STK_OK;
	const size_t size = (size_t)n->to.width * (size_t)n->to.height * 3;
	const stk_gpu_ptr to = (uintptr_t)n->to.data;
	n->to.data = NULL;
	g->counters.on_cores++;
	return stk__gpu_upload(stk__nvdec_device(g->nvdec), g->stream, to, g->staging, size, err);
}

static struct stk_image place_staged(void *user, int32_t k, int32_t width, int32_t height, struct stk_error *err)
{
	struct decoding *n = user;
	struct stk_video_gpu *g = n->g;
	const size_t size = (size_t)width * (size_t)height * 3;
	if ((n->status = send_staged(n, err)) || (n->status = make_room(&g->staging, &g->staging_size, size, err)))
		return (struct stk_image){0};
	struct stk_image to = n->wanted->place(n->wanted->user, n->left[k], width, height, err);
	n->to = to;
	to.data = to.data ? g->staging : NULL;
	return to;
}

/* Decodes the frames that the engine did not write. */
static enum stk_status decode_rest(struct decoding *n, struct stk_video_decoder *cores, struct stk_error *err)
{
	const struct stk_video_wanted *w = n->wanted;
	int32_t *frames = stk__alloc((size_t)w->count * sizeof *frames), *left = stk__alloc((size_t)w->count * sizeof *left), count = 0;
	enum stk_status s = frames && left ? STK_OK : no_memory(err);
	for (int32_t i = 0; i < w->count && !s; i++)
		if (!n->came[i]) {
			frames[count] = w->frames[i];
			left[count++] = i;
		}
	n->left = left;
	const struct stk_video_wanted rest = {
		.frames = frames, .count = count, .next = w->next, .place = place_staged, .user = n, .cancel = w->cancel};
	if (!s && count)
		s = stk__video_decode(cores, n->x, n->in, &rest, err);
	if (!s && count)
		s = send_staged(n, err);
	stk__free(frames);
	stk__free(left);
	return s;
}

/* Joins segments whose packets follow each other, so that the engine does not wait between them. Returns their number. */
static int32_t join_segments(struct stk_segment *segments, int32_t count)
{
	int32_t n = 0;
	for (int32_t i = 0; i < count; i++)
		if (n > 0 && segments[i].first <= segments[n - 1].last + 1) {
			segments[n - 1].last = segments[i].last;
			segments[n - 1].n_wanted += segments[i].n_wanted;
		} else {
			segments[n++] = segments[i];
		}
	return n;
}

/* Makes our stream wait for the work that is queued on the caller's stream so far. */
static enum stk_status wait_before(struct stk_video_gpu *g, stk_gpu_stream after, struct stk_error *err)
{
	struct stk_gpu_device *dev = stk__nvdec_device(g->nvdec);
	enum stk_status s = stk__gpu_event_record(dev, g->before, after, err);
	return s ? s : stk__gpu_stream_wait(dev, g->stream, g->before, err);
}

enum stk_status stk__video_gpu_decode(struct stk_video_gpu *g, struct stk_video_decoder *cores, const struct stk_video_index *x,
	const struct stk_media_input *in, const struct stk_video_wanted *wanted, stk_gpu_stream after, const char *only_cores,
	struct stk_error *err)
{
	struct stk_gpu_device *dev = stk__nvdec_device(g->nvdec);
	if (wanted->count == 0)
		return STK_OK;
	struct decoding n = {.g = g, .x = x, .in = in, .wanted = wanted};
	struct stk_segment *segments = stk__alloc((size_t)wanted->count * sizeof *segments);
	n.came = stk__calloc((size_t)wanted->count, sizeof *n.came);
	enum stk_status s = segments && n.came ? stk__gpu_enter(dev, err) : no_memory(err);
	if (!s) {
		const int mode = stk__gpu_capture_relax(dev);
		const int32_t count = join_segments(segments, stk__plan(&x->table, wanted->frames, wanted->count, segments));
		s = wait_before(g, after, err);
		if (only_cores)
			note_why(&n, only_cores);
		for (int32_t i = 0; i < count && !s && !only_cores && !(g->refuses && g->refused == x->serial); i++)
			s = try_segment(&n, &segments[i], err);
		g->latest = wanted->frames[wanted->count - 1];
		if (!s)
			s = decode_rest(&n, cores, err);
		enum stk_status ended = stk__gpu_stream_sync(dev, g->stream, s ? NULL : err);
		s = s ? s : ended;
		stk__gpu_capture_strict(dev, mode);
		stk__gpu_leave(dev);
	}
	stk__free(segments);
	stk__free(n.came);
	return s;
}

enum stk_status stk__video_gpu_put(struct stk_video_gpu *g, void *to, const void *from, bool from_gpu, size_t size, struct stk_error *err)
{
	struct stk_gpu_device *dev = stk__nvdec_device(g->nvdec);
	const stk_gpu_ptr at = (uintptr_t)to;
	enum stk_status s = stk__gpu_enter(dev, err);
	if (s)
		return s;
	s = from_gpu ? stk__gpu_copy(dev, g->stream, at, (uintptr_t)from, size, err) : stk__gpu_upload(dev, g->stream, at, from, size, err);
	enum stk_status ended = stk__gpu_stream_sync(dev, g->stream, s ? NULL : err);
	stk__gpu_leave(dev);
	return s ? s : ended;
}

size_t stk__video_gpu_memory(const struct stk_video_index *x)
{
	/* The pictures that a decoder on the cores keeps too, and the surfaces that a session has in addition: up to 16 bits, three full planes. */
	const size_t picture = (size_t)x->parameters->width * (size_t)x->parameters->height * 6;
	return stk__video_decode_memory(x) + STK_NVDEC_MORE_SURFACES * picture;
}
