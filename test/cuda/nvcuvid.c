/* SPDX-License-Identifier: Apache-2.0
 *
 * An emulated libnvcuvid.so.1 for tests, next to the emulated CUDA driver: libavcodec makes the pictures. It has engines for H.264 and VP8 with 8 bits, and for
 * HEVC, VP9 and AV1 with 8 and 10 bits, all of them in 4:2:0; for HEVC also in 4:4:4.
 *
 * STOKER_EMULATED_NVDEC is a list of words:
 *     none                there is no engine for any codec
 *     no=NAME             there is no engine for h264, hevc, vp8, vp9 or av1
 *     fail=FUNCTION:N     the Nth call of a function, and each after it, fails: fail=cuvidCreateDecoder:1
 *     once=FUNCTION:N     only the Nth call fails. Calls are counted from the first call after STOKER_EMULATED_NVDEC was set to this text
 *
 * Like NVIDIA's library:
 *   - A packet that is marked as a whole picture is decoded during the call that passes it to the parser.
 *   - Surfaces are reused, so that a picture that was not mapped in time is lost.
 *   - Later pictures cannot refer to a picture that the user did not decode.
 *   - The rows of a mapped picture have gaps, and samples outside of the visible part are junk.
 *   - cuvidGetDecodeStatus works only for H.264 and HEVC, and reports success for pictures that follow a damaged one.
 *   - The colours of VP8 and VP9 are not reported.
 * Unlike NVIDIA's library, the parser uses the surfaces in rotation, even if later pictures refer to them, and it reports only the format of
 * the first picture of a run, which is all packets up to an end of the stream. */
#include "gpu/cuvid.h"
#include "gpu/driver.h"

#include <libavcodec/avcodec.h>
#include <libavutil/pixdesc.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name, params) __attribute__((visibility("default"))) int name params;
STK_CUVID_FUNCTIONS(EXPORT)
#undef EXPORT
/* Declares the functions of the emulated CUDA driver. */
#define DECLARE(name, params) int name params;
STK_CUDA_FUNCTIONS(DECLARE)
#undef DECLARE

enum { INVALID = 1, NO_MEMORY = 2, UNSUPPORTED = 801, FAILED = 999, SURFACES = 64, OUTPUTS = 32, JUNK = 0xee };

static const struct {
	int codec;
	enum AVCodecID id;
	const char *name;
	int most_bits;
} codecs[] = {{CUVID_H264, AV_CODEC_ID_H264, "h264", 8}, {CUVID_HEVC, AV_CODEC_ID_HEVC, "hevc", 10}, {CUVID_VP8, AV_CODEC_ID_VP8, "vp8", 8},
	{CUVID_VP9, AV_CODEC_ID_VP9, "vp9", 10}, {CUVID_AV1, AV_CODEC_ID_AV1, "av1", 10}};

/* One packet of a run. A run is all packets up to an end of the stream. */
struct packet {
	uint8_t *data;
	int size;
	bool decoded; /* the user has called cuvidDecodePicture for this packet */
	bool damaged;
	AVFrame *frame;
};
struct run {
	int refs, codec;
	uint8_t *head;
	size_t head_size;
	struct packet *v;
	int count, room;
};

struct parser {
	struct stk_cuvid_parser p;
	struct run *run;
	int surfaces, next;
	bool started;
};

struct decoder {
	struct stk_cuvid_create c;
	struct {
		struct run *run;
		int packet;
		int place; /* position of the surface's picture among all pictures that the user has sent to be decoded, from 1 */
	} surfaces[SURFACES];
	int sent, done; /* sent: pictures sent to be decoded; done: largest `place` of a mapped surface; all up to it are decoded */
	uint64_t outputs[OUTPUTS];
};

/* ---- options ---- */

static bool has_word(const char *word)
{
	const char *all = getenv("STOKER_EMULATED_NVDEC"), *at = all ? strstr(all, word) : NULL;
	const size_t n = strlen(word);
	return at && (at == all || at[-1] == ' ') && (!at[n] || at[n] == ' ');
}

static int fails(const char *function)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char words[64];
	static int calls;
	const char *all = getenv("STOKER_EMULATED_NVDEC"), *at = all ? strstr(all, "fail=") : NULL,
		   *once = all ? strstr(all, "once=") : NULL;
	const size_t n = strlen(function);
	at = at ? at : once;
	if (!at || strncmp(at + 5, function, n) != 0 || at[5 + n] != ':')
		return 0;
	pthread_mutex_lock(&lock);
	calls = strncmp(words, at, sizeof words - 1) == 0 ? calls + 1 : 1;
	snprintf(words, sizeof words, "%.63s", at);
	const int call = calls, chosen = atoi(at + 6 + n);
	pthread_mutex_unlock(&lock);
	return call == chosen || (call > chosen && at != once) ? FAILED : 0;
}

static int find_codec(int codec)
{
	for (int i = 0; i < (int)(sizeof codecs / sizeof *codecs); i++) {
		char word[32];
		snprintf(word, sizeof word, "no=%s", codecs[i].name);
		if (codecs[i].codec == codec && !has_word(word) && !has_word("none"))
			return i;
	}
	return -1;
}

/* ---- runs ---- */

static struct run *ref(struct run *r)
{
	__atomic_add_fetch(&r->refs, 1, __ATOMIC_SEQ_CST);
	return r;
}

static void unref(struct run *r)
{
	if (!r || __atomic_sub_fetch(&r->refs, 1, __ATOMIC_SEQ_CST))
		return;
	for (int i = 0; i < r->count; i++) {
		free(r->v[i].data);
		av_frame_free(&r->v[i].frame);
	}
	free(r->v);
	free(r->head);
	free(r);
}

static struct run *new_run(int codec)
{
	struct run *r = calloc(1, sizeof *r);
	r->refs = 1;
	r->codec = codec;
	return r;
}

static void take_frames(struct run *r, AVCodecContext *context, int packet)
{
	AVFrame *frame = av_frame_alloc();
	int code;
	while ((code = avcodec_receive_frame(context, frame)) >= 0) {
		const int64_t i = frame->pts;
		if (i >= 0 && i < r->count) {
			r->v[i].damaged |= frame->decode_error_flags || frame->flags & AV_FRAME_FLAG_CORRUPT;
			av_frame_free(&r->v[i].frame);
			r->v[i].frame = av_frame_clone(frame);
		}
		av_frame_unref(frame);
	}
	if (code != AVERROR(EAGAIN) && code != AVERROR_EOF && packet >= 0)
		r->v[packet].damaged = true;
	av_frame_free(&frame);
}

/* Decodes those of the packets 0 .. last for which the user has called cuvidDecodePicture. Starts at the first packet each time, since a libavcodec decoder
 * that was drained accepts no more packets. */
static void decode(struct run *r, int last)
{
	enum AVCodecID id = AV_CODEC_ID_NONE;
	for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
		id = codecs[i].codec == r->codec ? codecs[i].id : id;
	const AVCodec *codec = avcodec_find_decoder(id);
	AVCodecContext *context = avcodec_alloc_context3(codec);
	AVPacket *packet = av_packet_alloc();
	bool first = true;
	context->thread_count = 1;
	context->log_level_offset = 1000;
	context->flags |= AV_CODEC_FLAG_OUTPUT_CORRUPT;
	context->err_recognition = r->codec == CUVID_HEVC ? AV_EF_EXPLODE : 0;
	avcodec_open2(context, codec, NULL);
	for (int i = 0; i <= last; i++) {
		struct packet *p = &r->v[i];
		if (!p->decoded)
			continue;
		const size_t head = first ? r->head_size : 0;
		av_new_packet(packet, (int)head + p->size);
		if (head)
			memcpy(packet->data, r->head, head);
		memcpy(packet->data + head, p->data, (size_t)p->size);
		packet->pts = packet->dts = i;
		first = false;
		if (avcodec_send_packet(context, packet) < 0)
			p->damaged = true;
		av_packet_unref(packet);
		take_frames(r, context, i);
	}
	avcodec_send_packet(context, NULL);
	take_frames(r, context, -1);
	av_packet_free(&packet);
	avcodec_free_context(&context);
}

/* ---- the parser ---- */

int cuvidCreateVideoParser(void **parser, struct stk_cuvid_parser *parameters)
{
	struct parser *p = calloc(1, sizeof *p);
	p->p = *parameters;
	p->run = new_run(parameters->codec);
	*parser = p;
	return fails(__func__);
}

int cuvidDestroyVideoParser(void *parser)
{
	struct parser *p = parser;
	unref(p->run);
	free(p);
	return 0;
}

/* Calls the user's sequence callback with the format of the run's first picture, if that can be decoded. Returns FAILED if the callback refuses the format,
 * otherwise 0. */
static int start(struct parser *p)
{
	struct packet *first = &p->run->v[0];
	first->decoded = true;
	decode(p->run, 0);
	first->decoded = false;
	const AVFrame *f = first->frame;
	if (!f)
		return 0;
	const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
	const bool vpx = p->p.codec == CUVID_VP8 || p->p.codec == CUVID_VP9, exact = p->p.codec == CUVID_VP9 || p->p.codec == CUVID_AV1;
	struct stk_cuvid_format format = {.codec = p->p.codec,
		.progressive = 1,
		.luma_minus_8 = (uint8_t)(d->comp[0].depth - 8),
		.chroma_minus_8 = (uint8_t)(d->comp[0].depth - 8),
		.min_surfaces = 5,
		.coded_width = (uint32_t)(exact ? f->width : (f->width + 15) / 16 * 16),
		.coded_height = (uint32_t)(exact ? f->height : (f->height + 15) / 16 * 16),
		.display = {0, 0, f->width, f->height},
		.chroma = d->nb_components < 3 ? CUVID_MONOCHROME
			  : d->log2_chroma_h   ? CUVID_420
			  : d->log2_chroma_w   ? CUVID_422
					       : CUVID_444,
		.primaries = 2,
		.transfer = 2,
		.matrix = vpx ? 0 : (uint8_t)f->colorspace,
		.video_format = 5,
		.full_range = !vpx && f->color_range == AVCOL_RANGE_JPEG};
	p->surfaces = p->p.sequence(p->p.user, &format);
	p->started = p->surfaces > 0 && p->surfaces <= SURFACES;
	p->next = 0;
	return p->started ? 0 : FAILED;
}

static int parse(struct parser *p, const struct stk_cuvid_packet *packet)
{
	struct run *r = p->run;
	if (r->count == r->room) {
		r->room = r->room ? 2 * r->room : 32;
		r->v = realloc(r->v, (size_t)r->room * sizeof *r->v);
	}
	uint8_t *data = memcpy(malloc(packet->size + 1), packet->data, packet->size);
	const int number = r->count++;
	r->v[number] = (struct packet){.data = data, .size = (int)packet->size};
	if (!p->started) {
		const int result = start(p);
		if (result || !p->started) {
			unref(r);
			p->run = new_run(p->p.codec);
			return result;
		}
	}
	struct stk_cuvid_picture picture = {
		.surface = p->next++ % p->surfaces, .size = (uint32_t)packet->size, .data = data, .is_reference = 1};
	memcpy(picture.codec, &(struct run *){r}, sizeof r);
	memcpy(picture.codec + 4, &number, sizeof number);
	if (!p->p.decode(p->p.user, &picture))
		return FAILED;
	const bool hidden = p->p.codec == CUVID_VP8 && packet->size && !(data[0] & 0x10);
	if ((p->p.codec == CUVID_VP8 && !hidden) || p->p.codec == CUVID_VP9 || p->p.codec == CUVID_AV1) {
		struct stk_cuvid_shown shown = {.surface = picture.surface, .progressive = 1, .time = packet->time};
		return p->p.show(p->p.user, &shown) ? 0 : FAILED;
	}
	return 0;
}

int cuvidParseVideoData(void *parser, struct stk_cuvid_packet *packet)
{
	struct parser *p = parser;
	const int result = fails(__func__);
	if (result)
		return result;
	if (packet->flags & CUVID_PACKET_END_OF_STREAM) {
		unref(p->run);
		p->run = new_run(p->p.codec);
		p->started = false;
		return 0;
	}
	if (packet->flags & CUVID_PACKET_TIMED)
		return parse(p, packet);
	p->run->head = realloc(p->run->head, p->run->head_size + packet->size);
	memcpy(p->run->head + p->run->head_size, packet->data, packet->size);
	p->run->head_size += packet->size;
	return 0;
}

/* ---- the decoder ---- */

int cuvidGetDecoderCaps(struct stk_cuvid_caps *caps)
{
	const int i = find_codec(caps->codec), bits = 8 + (int)caps->depth_minus_8;
	const bool wide = caps->codec == CUVID_HEVC && caps->chroma == CUVID_444;
	caps->supported = i >= 0 && bits <= codecs[i].most_bits && (caps->chroma == CUVID_420 || wide);
	if (caps->supported) {
		caps->engines = 7;
		caps->formats = (uint16_t)(wide ? 1 << (bits > 8 ? CUVID_YUV444_16 : CUVID_YUV444) : bits > 8 ? 3 : 1);
		caps->min_width = 48;
		caps->min_height = 16;
		caps->max_width = caps->max_height = 4096;
		caps->max_blocks = 65536;
	}
	return fails(__func__);
}

int cuvidCreateDecoder(void **decoder, struct stk_cuvid_create *create)
{
	const int result = fails(__func__);
	if (result)
		return result;
	if (find_codec(create->codec) < 0 || create->surfaces > SURFACES || create->outputs > OUTPUTS ||
		create->width > create->max_width || create->height > create->max_height)
		return UNSUPPORTED;
	struct decoder *d = calloc(1, sizeof *d);
	d->c = *create;
	*decoder = d;
	return 0;
}

int cuvidReconfigureDecoder(void *decoder, struct stk_cuvid_reconfigure *r)
{
	struct decoder *d = decoder;
	if (r->width > d->c.max_width || r->height > d->c.max_height || r->surfaces > d->c.surfaces)
		return INVALID;
	d->c.width = r->width;
	d->c.height = r->height;
	d->c.target_width = r->target_width;
	d->c.target_height = r->target_height;
	return fails(__func__);
}

int cuvidDestroyDecoder(void *decoder)
{
	struct decoder *d = decoder;
	for (int i = 0; i < SURFACES; i++)
		unref(d->surfaces[i].run);
	for (int i = 0; i < OUTPUTS; i++)
		if (d->outputs[i]) {
			fprintf(stderr, "emulated NVDEC: a decoder was destroyed with a mapped picture\n");
			abort();
		}
	free(d);
	return 0;
}

int cuvidDecodePicture(void *decoder, struct stk_cuvid_picture *picture)
{
	struct decoder *d = decoder;
	struct run *r;
	int number;
	memcpy(&r, picture->codec, sizeof r);
	memcpy(&number, picture->codec + 4, sizeof number);
	if (picture->surface < 0 || picture->surface >= (int)d->c.surfaces)
		return INVALID;
	unref(d->surfaces[picture->surface].run);
	d->surfaces[picture->surface].run = ref(r);
	d->surfaces[picture->surface].packet = number;
	d->surfaces[picture->surface].place = ++d->sent;
	r->v[number].decoded = true;
	return fails(__func__);
}

/* Decodes the picture of a surface if necessary. Returns the picture's packet, or NULL if the surface has no picture. */
static struct packet *packet_of(struct decoder *d, int surface)
{
	struct run *r = surface >= 0 && surface < SURFACES ? d->surfaces[surface].run : NULL;
	if (!r)
		return NULL;
	const int number = d->surfaces[surface].packet;
	if (!r->v[number].frame && !r->v[number].damaged)
		decode(r, number);
	return &r->v[number];
}

int cuvidGetDecodeStatus(void *decoder, int surface, struct stk_cuvid_status *status)
{
	struct decoder *d = decoder;
	if (d->c.codec != CUVID_H264 && d->c.codec != CUVID_HEVC)
		return UNSUPPORTED;
	const struct packet *p = packet_of(d, surface);
	status->status = !p ? 0 : p->damaged || !p->frame ? CUVID_STATUS_CONCEALED : CUVID_STATUS_SUCCESS;
	return 0;
}

static void copy_sample(const AVFrame *f, const AVPixFmtDescriptor *d, int plane, int x, int y, uint8_t *to)
{
	const uint8_t *row = f->data[plane] + (ptrdiff_t)y * f->linesize[plane];
	if (d->comp[0].depth == 8) {
		*to = row[x];
		return;
	}
	uint16_t v;
	memcpy(&v, row + 2 * x, sizeof v);
	v = (uint16_t)(v << (16 - d->comp[0].depth));
	memcpy(to, &v, sizeof v);
}

/* Writes the picture in the layout of the GPU's engine: luma, then interleaved chroma pairs; for 4:4:4 three planes. pitch: distance between rows in bytes. */
static void write_picture(const struct decoder *d, const AVFrame *f, size_t pitch, uint8_t *to)
{
	const AVPixFmtDescriptor *p = av_pix_fmt_desc_get(f->format);
	const int bytes = p->comp[0].depth > 8 ? 2 : 1, sub = p->log2_chroma_h;
	for (int plane = 0; plane < 3; plane++) {
		const int w = plane ? -(-f->width >> sub) : f->width, h = plane ? -(-f->height >> sub) : f->height;
		const int step = plane && sub ? 2 * bytes : bytes, first = plane == 2 && sub ? bytes : 0;
		uint8_t *base = to + pitch * d->c.target_height * (size_t)(sub ? plane > 0 : plane);
		for (int y = 0; y < h; y++)
			for (int x = 0; x < w; x++)
				copy_sample(f, p, plane, x, y, base + pitch * (size_t)y + (size_t)(x * step + first));
	}
}

static int maps, maps_idle;
__attribute__((visibility("default"))) int emulated_nvdec_maps(int *idle);

/* Returns the number of pictures mapped since the last call. *idle: set to the number of those that were mapped when the engine had no other picture to
 * decode. */
int emulated_nvdec_maps(int *idle)
{
	*idle = __atomic_exchange_n(&maps_idle, 0, __ATOMIC_SEQ_CST);
	return __atomic_exchange_n(&maps, 0, __ATOMIC_SEQ_CST);
}

static void count_map(struct decoder *d, int surface)
{
	if (surface >= 0 && surface < SURFACES && d->surfaces[surface].place > d->done)
		d->done = d->surfaces[surface].place;
	__atomic_add_fetch(&maps, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&maps_idle, d->done == d->sent, __ATOMIC_SEQ_CST);
}

int cuvidMapVideoFrame64(void *decoder, int surface, unsigned long long *address, unsigned *pitch, struct stk_cuvid_map *map)
{
	struct decoder *d = decoder;
	int result = fails(__func__), output = 0;
	count_map(d, surface);
	while (output < (int)d->c.outputs && d->outputs[output])
		output++;
	const struct packet *p = packet_of(d, surface);
	if (result || !p || output == (int)d->c.outputs)
		return result ? result : INVALID;
	*pitch = (unsigned)(d->c.target_width * (d->c.depth_minus_8 ? 2 : 1) + 511) / 512 * 512;
	const size_t size = (size_t)*pitch * d->c.target_height * (d->c.chroma == CUVID_444 ? 6 : 3) / 2;
	uint64_t at;
	if (cuMemAlloc_v2(&at, size))
		return NO_MEMORY;
	uint8_t *picture = memset(malloc(size), JUNK, size);
	if (p->frame)
		write_picture(d, p->frame, *pitch, picture);
	result = cuMemcpyHtoDAsync_v2(at, picture, size, map->stream);
	free(picture);
	if (result)
		cuMemFree_v2(at);
	else
		*address = d->outputs[output] = at;
	return result;
}

int cuvidUnmapVideoFrame64(void *decoder, unsigned long long address)
{
	struct decoder *d = decoder;
	for (int i = 0; i < OUTPUTS; i++)
		if (address && d->outputs[i] == address) {
			const int result = fails(__func__);
			d->outputs[i] = 0;
			return result ? (void)cuMemFree_v2(address), result : cuMemFree_v2(address);
		}
	return INVALID;
}
