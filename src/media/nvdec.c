/* SPDX-License-Identifier: Apache-2.0 */
#include "media/nvdec.h"

#include "base/memory.h"
#include "kernel/yuv/yuv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	OUTPUTS = 4, /* maximum number of pictures that are mapped at the same time */
	EXTRA = 6,   /* number of surfaces in addition to those for the stream's references */
	MOST_SURFACES = 64,
	MOST_PENDING = 5, /* maximum number of wanted pictures that stay in surfaces while the engine processes the next packets */
	LEAST_KEPT = 8,   /* number of idle sessions that may be kept; more if more were in use at once */
	SIZE_STEP = 256   /* sizes of sessions are rounded up to multiples of this, so that videos of similar sizes can share them */
};

struct surface {
	int32_t packet; /* number of the packet from which the picture was decoded, counted from the run's start; -1: no picture */
	int32_t number; /* the caller's number for the picture until it is taken; STK_NVDEC_UNWANTED: taken or not wanted */
	bool unchecked; /* true if the engine's errors in the picture have not been queried yet */
};

struct stk_nvdec_session {
	struct stk_nvdec_session *next;
	struct stk_nvdec *nvdec;
	enum stk_cuvid_codec codec;
	void *parser, *decoder;
	struct stk_cuvid_create created; /* the parameters with which the decoder was created */
	struct stk_cuvid_format format;
	struct stk_nvdec_run run;
	struct surface surfaces[MOST_SURFACES];
	struct {
		unsigned long long address;
		stk_gpu_event done;
	} mapped[OUTPUTS];
	uint64_t maps, unmaps;
	/* Indices of the surfaces with wanted pictures that have not been taken yet, in the order of decoding. */
	int32_t pending[MOST_SURFACES];
	int32_t n_pending, packets;
	/* For the packet that is being parsed: index of the surface of its last picture, and of the picture that it shows; -1: none. */
	int32_t decoded_surface, shown_surface;
	/* skip: the packet's picture is not decoded; unflushed: packets have been sent since the last end of stream */
	bool skip, unflushed;
	bool broken;            /* a call of the decoder has failed */
	enum stk_status status; /* failure of a callback of the parser, which cannot return it */
	struct stk_error *err;
};

struct stk_nvdec {
	_Atomic int refs;
	struct stk_gpu_device *dev;
	struct stk_cuvid cuvid;
	struct stk_error load_error; /* the reason why NVIDIA's decoder library could not be loaded */
	stk_gpu_kernel to_rgb;
	pthread_mutex_t lock;           /* guards all members below */
	struct stk_nvdec_session *idle; /* list of idle sessions; the one that was used last is first */
	int n_idle, in_use, most_in_use;
	char reason[200];
};

/* ---- the decoder of a GPU ---- */

static void destroy(struct stk_nvdec_session *s);
static struct stk_nvdec_session *remove_idle(struct stk_nvdec *n, int codec, int32_t width, int32_t height);

static enum stk_status open_nvdec(struct stk_nvdec *n, struct stk_error *err)
{
	enum stk_status s = stk__gpu_enter(n->dev, err);
	if (!s) {
		s = stk__gpu_kernel(n->dev, "yuv_gpu", "yuv_to_rgb", 0, &n->to_rgb, err);
		stk__gpu_leave(n->dev);
	}
	if (!s && stk__cuvid_load(&n->cuvid, &n->load_error))
		n->cuvid.library = NULL;
	return s;
}

enum stk_status stk__nvdec_open(struct stk_gpu_device *dev, struct stk_nvdec **out, struct stk_error *err)
{
	*out = NULL;
	struct stk_nvdec *n = stk__calloc(1, sizeof *n);
	if (!n)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a video decoder");
	n->refs = 1;
	n->dev = stk__gpu_device_ref(dev);
	pthread_mutex_init(&n->lock, NULL);
	enum stk_status s = open_nvdec(n, err);
	if (s)
		stk__nvdec_close(n);
	else
		*out = n;
	return s;
}

struct stk_nvdec *stk__nvdec_ref(struct stk_nvdec *n)
{
	atomic_fetch_add(&n->refs, 1);
	return n;
}

void stk__nvdec_close(struct stk_nvdec *n)
{
	if (!n || atomic_fetch_sub(&n->refs, 1) > 1)
		return;
	if (n->idle && !stk__gpu_enter(n->dev, NULL)) { /* fails in a forked child, which must leave the sessions to its parent */
		while (n->idle)
			destroy(remove_idle(n, -1, 0, 0));
		stk__gpu_leave(n->dev);
	}
	stk__gpu_device_close(n->dev);
	stk__cuvid_unload(&n->cuvid);
	pthread_mutex_destroy(&n->lock);
	stk__free(n);
}

struct stk_gpu_device *stk__nvdec_device(const struct stk_nvdec *n)
{
	return n->dev;
}

void stk__nvdec_note(struct stk_nvdec *n, const char *why)
{
	pthread_mutex_lock(&n->lock);
	snprintf(n->reason, sizeof n->reason, "%s", why);
	pthread_mutex_unlock(&n->lock);
}

void stk__nvdec_core_reason(struct stk_nvdec *n, char *out, size_t size)
{
	pthread_mutex_lock(&n->lock);
	snprintf(out, size, "%s", n->reason);
	pthread_mutex_unlock(&n->lock);
}

enum stk_status stk__nvdec_to_rgb(
	struct stk_nvdec *n, const struct stk_picture *p, const struct stk_image *to, stk_gpu_stream stream, struct stk_error *err)
{
	struct stk_yuv_gpu k = {.bits = p->bits,
		.shift = p->planes[0].shift,
		.width = p->width,
		.height = p->height,
		.sub_x = p->sub_x,
		.sub_y = p->sub_y,
		.luma = p->matrix.luma,
		.red_v = p->matrix.red_v,
		.green_u = p->matrix.green_u,
		.green_v = p->matrix.green_v,
		.blue_u = p->matrix.blue_u,
		.luma_zero = p->matrix.luma_zero,
		.chroma_zero = p->matrix.chroma_zero,
		.to = (uintptr_t)to->data,
		.to_row = to->row,
		.to_pixel = to->pixel,
		.to_channel = to->channel};
	for (int c = 0; c < 3; c++) {
		k.planes[c] = (uintptr_t)p->planes[c].data;
		k.row[c] = (int32_t)p->planes[c].row;
		k.step[c] = p->planes[c].step;
	}
	const unsigned pixels = STK_YUV_PIXELS * STK_YUV_THREADS;
	const struct stk_gpu_grid grid = {
		.blocks = {((unsigned)p->width + pixels - 1) / pixels, (unsigned)p->height}, .threads = {STK_YUV_THREADS}};
	return stk__gpu_launch(n->dev, stream, n->to_rgb, grid, (void *[]){&k}, err);
}

/* ---- pictures ---- */

/* Marks the session as broken after a call of the decoder has failed. Returns STK_UNSUPPORTED, so that the cores decode the stream. */
static enum stk_status failed(struct stk_nvdec_session *s, const char *what, int result, struct stk_error *err)
{
	s->broken = true;
	return stk__fail(err, STK_UNSUPPORTED, "NVIDIA's video decoder failed: %s returned %d", what, result);
}

static enum stk_status check_surface(struct stk_nvdec_session *s, int32_t surface, struct stk_error *err)
{
	enum { NAP = 50 }; /* microseconds */
	struct stk_cuvid_status status = {0};
	s->surfaces[surface].unchecked = false;
	/* The engine reports errors only for H.264 and HEVC. For other codecs the call fails, which ends the loop. */
	while (s->nvdec->cuvid.cuvidGetDecodeStatus(s->decoder, surface, &status) == 0 && status.status == CUVID_STATUS_IN_PROGRESS)
		usleep(NAP);
	if (status.status == CUVID_STATUS_ERROR || status.status == CUVID_STATUS_CONCEALED)
		return stk__fail(err, STK_CORRUPT, "the picture is damaged");
	return STK_OK;
}

/* Checks whether the engine found errors in the pictures of the packets up to number `packet`. */
static enum stk_status check_up_to(struct stk_nvdec_session *s, int32_t packet, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	for (int32_t i = 0; i < MOST_SURFACES && !status; i++)
		if (s->surfaces[i].unchecked && s->surfaces[i].packet <= packet)
			status = check_surface(s, i, err);
	return status;
}

/* Waits until the work on the picture that was mapped first is done, and unmaps it. */
static enum stk_status unmap(struct stk_nvdec_session *s, struct stk_error *err)
{
	const int i = (int)(s->unmaps++ % OUTPUTS);
	enum stk_status status = stk__gpu_event_sync(s->nvdec->dev, s->mapped[i].done, err);
	const int result = s->nvdec->cuvid.cuvidUnmapVideoFrame64(s->decoder, s->mapped[i].address);
	return status ? status : result ? failed(s, "cuvidUnmapVideoFrame", result, err) : STK_OK;
}

static void describe(const struct stk_nvdec_session *s, uint64_t address, unsigned pitch, struct stk_picture *out)
{
	const struct stk_cuvid_format *f = &s->format;
	const bool wide = f->luma_minus_8 > 0, planar = f->chroma == CUVID_444;
	const int32_t sample = wide ? 2 : 1, bits = f->luma_minus_8 + 8;
	const uint64_t plane = (uint64_t)pitch * s->created.target_height;
	*out = (struct stk_picture){.width = f->display.right - f->display.left,
		.height = f->display.bottom - f->display.top,
		.count = 3,
		.bits = bits,
		.sub_x = !planar,
		.sub_y = !planar};
	for (int c = 0; c < 3; c++) {
		const int32_t x = f->display.left >> (c ? out->sub_x : 0), y = f->display.top >> (c ? out->sub_y : 0);
		const int32_t step = c && !planar ? 2 * sample : sample;
		uint64_t at = address + (planar ? plane * (uint64_t)c : c ? plane : 0);
		at += (uint64_t)y * pitch + (uint64_t)(x * step) + (uint64_t)(c == 2 && !planar ? sample : 0);
		out->planes[c] = (struct stk_plane){(const uint8_t *)(uintptr_t)at, (ptrdiff_t)pitch, step, wide ? 16 - bits : 0};
	}
}

/* Maps the picture of a surface and passes it to run->take. */
static enum stk_status take_surface(struct stk_nvdec_session *s, int32_t surface, int32_t number, struct stk_error *err)
{
	struct stk_nvdec *n = s->nvdec;
	enum stk_status status = s->maps - s->unmaps == OUTPUTS ? unmap(s, err) : STK_OK;
	if (status)
		return status;
	const int i = (int)(s->maps % OUTPUTS);
	struct stk_cuvid_map map = {.progressive = s->format.progressive, .stream = s->run.stream};
	unsigned pitch = 0;
	const int result = n->cuvid.cuvidMapVideoFrame64(s->decoder, surface, &s->mapped[i].address, &pitch, &map);
	if (result)
		return failed(s, "cuvidMapVideoFrame", result, err);
	s->maps++;
	struct stk_picture picture;
	describe(s, s->mapped[i].address, pitch, &picture);
	status = check_up_to(s, s->surfaces[surface].packet, err);
	if (!status)
		status = s->run.take(s->run.user, number, &picture, err);
	enum stk_status recorded = stk__gpu_event_record(n->dev, s->mapped[i].done, s->run.stream, status ? NULL : err);
	return status ? status : recorded;
}

/* Removes entry i of `pending`, and returns its surface. */
static int32_t remove_pending(struct stk_nvdec_session *s, int32_t i)
{
	const int32_t surface = s->pending[i];
	memmove(s->pending + i, s->pending + i + 1, (size_t)(--s->n_pending - i) * sizeof *s->pending);
	s->surfaces[surface].number = STK_NVDEC_UNWANTED;
	return surface;
}

static enum stk_status take_pending(struct stk_nvdec_session *s, int32_t i, struct stk_error *err)
{
	const int32_t number = s->surfaces[s->pending[i]].number;
	return take_surface(s, remove_pending(s, i), number, err);
}

static enum stk_status take_oldest(struct stk_nvdec_session *s, struct stk_error *err)
{
	return take_pending(s, 0, err);
}

/* ---- the parser's callbacks ---- */

static void forget_surfaces(struct stk_nvdec_session *s)
{
	for (int32_t i = 0; i < MOST_SURFACES; i++)
		s->surfaces[i] = (struct surface){-1, STK_NVDEC_UNWANTED, false};
	s->n_pending = 0;
}

static enum stk_status check_caps(struct stk_nvdec_session *s, const struct stk_cuvid_format *f, int surface_format, struct stk_error *err)
{
	struct stk_cuvid_caps caps = {.codec = f->codec, .chroma = f->chroma, .depth_minus_8 = f->luma_minus_8};
	const int result = s->nvdec->cuvid.cuvidGetDecoderCaps(&caps);
	if (result)
		return failed(s, "cuvidGetDecoderCaps", result, err);
	if (!caps.supported || !(caps.formats >> surface_format & 1) || f->chroma_minus_8 != f->luma_minus_8)
		return stk__fail(err, STK_UNSUPPORTED, "the GPU has no engine for this codec, chroma format and number of bits");
	const uint64_t blocks = (uint64_t)f->coded_width * f->coded_height / 256;
	if (f->coded_width < caps.min_width || f->coded_height < caps.min_height || f->coded_width > caps.max_width ||
		f->coded_height > caps.max_height || blocks > caps.max_blocks)
		return stk__fail(err, STK_UNSUPPORTED, "the GPU's engine does not decode pictures of %u x %u pixels", f->coded_width,
			f->coded_height);
	return STK_OK;
}

static unsigned long round_up(unsigned long n, unsigned long to)
{
	return (n + to - 1) / to * to;
}

/* Chooses the decoder's parameters. The whole coded picture is mapped without scaling; the conversion to RGB crops it. */
static struct stk_cuvid_create plan_decoder(const struct stk_cuvid_format *f, int surface_format)
{
	const unsigned long width = round_up(f->coded_width, 2), height = round_up(f->coded_height, 2);
	return (struct stk_cuvid_create){.width = width,
		.height = height,
		.surfaces = f->min_surfaces + EXTRA,
		.codec = f->codec,
		.chroma = f->chroma,
		.flags = CUVID_PREFER_CUVID,
		.depth_minus_8 = f->luma_minus_8,
		.max_width = round_up(width, SIZE_STEP),
		.max_height = round_up(height, SIZE_STEP),
		.display = {0, 0, (int16_t)width, (int16_t)height},
		.format = surface_format,
		.target_width = width,
		.target_height = height,
		.outputs = OUTPUTS};
}

static enum stk_status reconfigure(struct stk_nvdec_session *s, const struct stk_cuvid_create *c, struct stk_error *err)
{
	struct stk_cuvid_reconfigure r = {.width = (uint32_t)c->width,
		.height = (uint32_t)c->height,
		.target_width = (uint32_t)c->width,
		.target_height = (uint32_t)c->height,
		.surfaces = (uint32_t)s->created.surfaces,
		.display = c->display};
	const int result = s->nvdec->cuvid.cuvidReconfigureDecoder(s->decoder, &r);
	if (result)
		return failed(s, "cuvidReconfigureDecoder", result, err);
	s->created.width = s->created.target_width = c->width;
	s->created.height = s->created.target_height = c->height;
	return STK_OK;
}

/* Creates the session's decoder for the format, or reconfigures it. STK_UNSUPPORTED: the engine cannot decode the format, for example gray pictures. */
static enum stk_status prepare(struct stk_nvdec_session *s, const struct stk_cuvid_format *f, struct stk_error *err)
{
	const bool wide = f->luma_minus_8 > 0, planar = f->chroma == CUVID_444;
	const int surface_format = planar ? (wide ? CUVID_YUV444_16 : CUVID_YUV444) : wide ? CUVID_P016 : CUVID_NV12;
	if (f->chroma != CUVID_420 && !planar)
		return stk__fail(err, STK_UNSUPPORTED, "pictures that are gray or 4:2:2 are decoded on the cores");
	if (f->min_surfaces + EXTRA > MOST_SURFACES)
		return stk__fail(err, STK_UNSUPPORTED, "the stream needs %d surfaces; at most %d are supported", f->min_surfaces,
			MOST_SURFACES - EXTRA);
	const struct stk_cuvid_create c = plan_decoder(f, surface_format), *created = &s->created;
	const bool reusable = s->decoder && created->chroma == c.chroma && created->depth_minus_8 == c.depth_minus_8 &&
			      created->surfaces >= c.surfaces && created->max_width >= c.width && created->max_height >= c.height;
	if (reusable && created->width == c.width && created->height == c.height)
		return STK_OK;
	enum stk_status status = check_caps(s, f, surface_format, err);
	if (status)
		return status;
	if (reusable)
		return reconfigure(s, &c, err);
	if (s->decoder)
		s->nvdec->cuvid.cuvidDestroyDecoder(s->decoder);
	s->decoder = NULL;
	s->created = c;
	const int result = s->nvdec->cuvid.cuvidCreateDecoder(&s->decoder, &s->created);
	return result ? failed(s, "cuvidCreateDecoder", result, err) : STK_OK;
}

static int on_sequence(void *user, struct stk_cuvid_format *format)
{
	struct stk_nvdec_session *s = user;
	/* Pictures in the old format must be taken before the decoder changes. */
	while (s->n_pending && !s->status)
		s->status = take_oldest(s, s->err);
	while (s->unmaps < s->maps && !s->status)
		s->status = unmap(s, s->err);
	if (s->status)
		return 0;
	forget_surfaces(s);
	s->status = prepare(s, format, s->err);
	s->format = *format;
	return s->status ? 0 : (int)s->created.surfaces;
}

static int on_decode(void *user, struct stk_cuvid_picture *picture)
{
	struct stk_nvdec_session *s = user;
	if (s->status)
		return 0;
	if (!s->decoder || picture->surface < 0 || picture->surface >= MOST_SURFACES || picture->is_field) {
		s->status = stk__fail(s->err, STK_UNSUPPORTED, "pictures that are coded as two fields are decoded on the cores");
		return 0;
	}
	struct surface *f = &s->surfaces[picture->surface];
	while (f->number != STK_NVDEC_UNWANTED && !s->status)
		s->status = take_oldest(s, s->err);
	if (!s->status && f->unchecked)
		s->status = check_surface(s, picture->surface, s->err);
	if (s->status)
		return 0;
	*f = (struct surface){s->skip ? -1 : s->packets, STK_NVDEC_UNWANTED, !s->skip};
	s->decoded_surface = picture->surface;
	if (s->skip)
		return 1;
	const int result = s->nvdec->cuvid.cuvidDecodePicture(s->decoder, picture);
	if (result)
		s->status = failed(s, "cuvidDecodePicture", result, s->err);
	return !s->status;
}

/* Called for each picture to show. In codecs without reordering, each packet shows one picture, which may have been decoded from an earlier packet. */
static int on_show(void *user, struct stk_cuvid_shown *shown)
{
	struct stk_nvdec_session *s = user;
	if (shown && (s->codec == CUVID_VP8 || s->codec == CUVID_VP9 || s->codec == CUVID_AV1) && shown->time == s->packets &&
		shown->surface >= 0 && shown->surface < MOST_SURFACES)
		s->shown_surface = shown->surface;
	return 1;
}

/* ---- sessions ---- */

/* Destroys the session with its parser, decoder and events, each of which may be missing. */
static void destroy(struct stk_nvdec_session *s)
{
	struct stk_nvdec *n = s->nvdec;
	if (s->parser)
		n->cuvid.cuvidDestroyVideoParser(s->parser);
	if (s->decoder)
		n->cuvid.cuvidDestroyDecoder(s->decoder);
	for (int i = 0; i < OUTPUTS; i++)
		stk__gpu_event_destroy(n->dev, s->mapped[i].done);
	stk__free(s);
}

static enum stk_status create_session(
	struct stk_nvdec *n, enum stk_cuvid_codec codec, struct stk_nvdec_session **out, struct stk_error *err)
{
	struct stk_nvdec_session *s = stk__calloc(1, sizeof *s);
	if (!s)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a video decoder");
	s->nvdec = n;
	s->codec = codec;
	struct stk_cuvid_parser p = {
		.codec = (int32_t)codec, .surfaces = 1, .user = s, .sequence = on_sequence, .decode = on_decode, .show = on_show};
	enum stk_status status = STK_OK;
	for (int i = 0; i < OUTPUTS && !status; i++)
		status = stk__gpu_event_create(n->dev, false, &s->mapped[i].done, err);
	const int result = status ? 0 : n->cuvid.cuvidCreateVideoParser(&s->parser, &p);
	if (result)
		status = failed(s, "cuvidCreateVideoParser", result, err);
	if (status)
		destroy(s);
	else
		*out = s;
	return status;
}

/* Removes an idle session from the list and returns it: one for this codec, if possible of this size; if codec is -1, the one that has been idle longest.
 * Returns NULL if the list has no such session. */
static struct stk_nvdec_session *remove_idle(struct stk_nvdec *n, int codec, int32_t width, int32_t height)
{
	struct stk_nvdec_session **best = NULL, **p;
	bool best_size = false;
	for (p = &n->idle; *p; p = &(*p)->next) {
		const struct stk_cuvid_format *f = &(*p)->format;
		const bool size = f->display.right - f->display.left == width && f->display.bottom - f->display.top == height;
		if (codec < 0 ? !(*p)->next : (int)(*p)->codec == codec && (!best || (size && !best_size))) {
			best = p;
			best_size = size;
		}
	}
	struct stk_nvdec_session *s = best ? *best : NULL;
	if (s) {
		*best = s->next;
		n->n_idle--;
	}
	return s;
}

enum stk_status stk__nvdec_take(struct stk_nvdec *n, enum stk_cuvid_codec codec, int32_t width, int32_t height,
	struct stk_nvdec_session **out, struct stk_error *err)
{
	*out = NULL;
	if (!n->cuvid.library)
		return stk__fail(err, STK_UNSUPPORTED, "%.200s", n->load_error.message);
	struct stk_nvdec_session *surplus = NULL;
	pthread_mutex_lock(&n->lock);
	const bool full = n->in_use >= STK_NVDEC_SESSIONS;
	if (!full) {
		*out = remove_idle(n, (int)codec, width, height);
		n->most_in_use = ++n->in_use > n->most_in_use ? n->in_use : n->most_in_use;
		if (!*out && n->in_use + n->n_idle > STK_NVDEC_SESSIONS)
			surplus = remove_idle(n, -1, 0, 0);
	}
	pthread_mutex_unlock(&n->lock);
	if (surplus)
		destroy(surplus);
	if (full)
		return stk__fail(
			err, STK_LIMIT, "%d sessions of the GPU's video decoder are in use, which is the limit", STK_NVDEC_SESSIONS);
	if (*out)
		return STK_OK;
	enum stk_status status = create_session(n, codec, out, err);
	if (status) {
		pthread_mutex_lock(&n->lock);
		n->in_use--;
		pthread_mutex_unlock(&n->lock);
	}
	return status;
}

void stk__nvdec_give(struct stk_nvdec *n, struct stk_nvdec_session *s)
{
	if (!s)
		return;
	struct stk_nvdec_session *surplus = s;
	pthread_mutex_lock(&n->lock);
	n->in_use--;
	if (!s->broken) {
		const int limit = n->most_in_use > LEAST_KEPT ? n->most_in_use : LEAST_KEPT;
		s->next = n->idle;
		n->idle = s;
		surplus = ++n->n_idle > limit ? remove_idle(n, -1, 0, 0) : NULL;
	}
	pthread_mutex_unlock(&n->lock);
	if (surplus)
		destroy(surplus);
}

/* ---- runs ---- */

static enum stk_status parse(struct stk_nvdec_session *s, const struct stk_cuvid_packet *packet, struct stk_error *err)
{
	struct stk_cuvid_packet p = *packet;
	struct stk_error own = {0};
	s->status = STK_OK;
	s->err = &own;
	s->decoded_surface = s->shown_surface = -1;
	const int result = s->nvdec->cuvid.cuvidParseVideoData(s->parser, &p);
	s->err = NULL;
	if (s->status && err)
		*err = own;
	return s->status ? s->status : result ? failed(s, "cuvidParseVideoData", result, err) : STK_OK;
}

enum stk_status stk__nvdec_begin(
	struct stk_nvdec_session *s, const struct stk_nvdec_run *run, const uint8_t *head, size_t size, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	s->run = *run;
	forget_surfaces(s); /* pictures of the previous run are no longer wanted */
	if (s->unflushed)
		status = parse(s, &(struct stk_cuvid_packet){.flags = CUVID_PACKET_END_OF_STREAM}, err);
	forget_surfaces(s);
	s->packets = 0;
	s->unflushed = true;
	if (!status && size)
		status = parse(s, &(struct stk_cuvid_packet){.size = size, .data = head}, err);
	return status;
}

void stk__nvdec_continue(struct stk_nvdec_session *s, const struct stk_nvdec_run *run)
{
	s->run = *run;
}

enum stk_status stk__nvdec_send(
	struct stk_nvdec_session *s, const uint8_t *data, size_t size, int32_t number, bool skip, bool hidden, struct stk_error *err)
{
	s->skip = skip && number == STK_NVDEC_UNWANTED;
	const unsigned long flags = CUVID_PACKET_TIMED | CUVID_PACKET_WHOLE_PICTURE;
	enum stk_status status = parse(s, &(struct stk_cuvid_packet){.flags = flags, .size = size, .data = data, .time = s->packets}, err);
	const int32_t surface = s->shown_surface >= 0 ? s->shown_surface : s->decoded_surface;
	const int32_t packet = s->packets++;
	if (status)
		return status;
	if (surface < 0)
		return hidden ? STK_OK : stk__fail(err, STK_CORRUPT, "the packet gave no picture");
	if (!s->skip)
		s->surfaces[surface].packet = packet;
	if (number == STK_NVDEC_UNWANTED)
		return STK_OK;
	if (s->surfaces[surface].number != STK_NVDEC_UNWANTED) /* a wanted picture that was not taken yet is shown again */
		return take_surface(s, surface, number, err);
	s->surfaces[surface].number = number;
	s->pending[s->n_pending++] = surface;
	return s->n_pending > MOST_PENDING ? take_oldest(s, err) : STK_OK;
}

static int32_t find_surface(const struct stk_nvdec_session *s, int32_t packet)
{
	for (int32_t i = 0; i < MOST_SURFACES; i++)
		if (s->surfaces[i].packet == packet)
			return i;
	return -1;
}

bool stk__nvdec_holds(const struct stk_nvdec_session *s, int32_t packet)
{
	return find_surface(s, packet) >= 0;
}

enum stk_status stk__nvdec_take_if_decoded(struct stk_nvdec_session *s, int32_t packet, int32_t number, bool *found, struct stk_error *err)
{
	const int32_t surface = find_surface(s, packet);
	*found = surface >= 0;
	return *found ? take_surface(s, surface, number, err) : STK_OK;
}

bool stk__nvdec_renumber(struct stk_nvdec_session *s, int32_t packet, int32_t number)
{
	for (int32_t i = 0; i < s->n_pending; i++)
		if (s->surfaces[s->pending[i]].packet == packet) {
			if (number == STK_NVDEC_UNWANTED)
				remove_pending(s, i);
			else
				s->surfaces[s->pending[i]].number = number;
			return true;
		}
	return false;
}

enum stk_status stk__nvdec_take_below(struct stk_nvdec_session *s, int32_t limit, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	for (int32_t i = 0; i < s->n_pending && !status;)
		if (s->surfaces[s->pending[i]].number < limit)
			status = take_pending(s, i, err);
		else
			i++;
	while (s->unmaps < s->maps) {
		enum stk_status done = unmap(s, status ? NULL : err);
		status = status ? status : done;
	}
	return status;
}

const struct stk_cuvid_format *stk__nvdec_format(const struct stk_nvdec_session *s)
{
	return &s->format;
}

bool stk__nvdec_broken(const struct stk_nvdec_session *s)
{
	return s->broken;
}
