/* SPDX-License-Identifier: Apache-2.0 */
#include "stoker/video.h"

#include "base/environment.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/safe_text.h"
#include "codec/codec.h"
#include "format/video_kept.h"
#include "media/video.h"
#include "media/video_gpu.h"
#include "storage/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stk_video {
	struct stk_video_request request;
	char *path;
	struct stk_storage *storage;
	struct stk_media_source *source; /* reads the file of a path; NULL: the caller gave bytes or a function */
	struct stk_media_input input;
	struct stk_video_index *index;
	struct stk_video_decoder *decoder;
	struct stk_video_gpu *gpu; /* NULL until stk_video_use_gpu is called */
	uint8_t *frames;
	size_t capacity;
	bool kept; /* true if an earlier run has stored the index */
	struct stk_cancel_poll poll;
	int64_t latest; /* last frame of the previous call; -1: no previous call, or a failed one */
	int64_t steps;  /* number of consecutive calls that began soon after the last frame of the call before */
};

/* If the message lacks the file's name, inserts it at the beginning; sets err->uri if that is empty. Returns s. Does nothing without a path, or if s is
 * STK_CANCELLED. */
static enum stk_status name_file(const struct stk_video *v, enum stk_status s, struct stk_error *err)
{
	char name[512], was[sizeof err->message];
	if (!err || !v->path || s == STK_CANCELLED)
		return s;
	snprintf(name, sizeof name, "%.*s", stk__uri_shown(v->path) < 500 ? stk__uri_shown(v->path) : 500, v->path);
	stk__safe_text(name, sizeof name);
	if (!stk__names_file(err->message, name)) {
		memcpy(was, err->message, sizeof was);
		snprintf(err->message, sizeof err->message, "%s: %.500s", name, was);
	}
	stk__error_set_sample(err, v->path, -1, -1);
	return s;
}

static bool is_interrupted(void *user)
{
	struct stk_video *v = user;
	return stk__cancel_polled(&v->poll);
}

static enum stk_status read_user(void *user, int64_t offset, void *to, size_t n, struct stk_error *err)
{
	const struct stk_video *v = user;
	return v->request.read(v->request.read_user, offset, to, n, err);
}

/* Opens the file or object of v->path. Sets v->kept if an earlier run has stored the index. */
static enum stk_status open_path(struct stk_video *v, struct stk_error *err)
{
	const struct stk_access access = {.storage = v->storage, .interrupted = is_interrupted, .user = v};
	enum stk_status s = stk__video_open(v->path, &access, v->request.stream, &v->index, &v->source, &v->kept, err);
	if (!s)
		v->input = *stk__media_source_input(v->source);
	return s;
}

static enum stk_status open_bytes(struct stk_video *v, struct stk_error *err)
{
	const struct stk_video_request *q = &v->request;
	v->input = (struct stk_media_input){
		.size = q->bytes, .data = q->data, .user = v, .interrupted = is_interrupted, .interrupted_user = v};
	v->input.read = q->data ? NULL : read_user;
	return stk__video_index_create(&v->input, q->stream, &v->index, err);
}

static enum stk_status open_video(struct stk_video *v, struct stk_error *err)
{
	const struct stk_codec_limits limits = stk__codec_limits(false);
	const struct stk_video_limits video = {.max_pixels = limits.max_pixels, .lenient = v->request.lenient};
	enum stk_status s = v->path ? open_path(v, err) : open_bytes(v, err);
	return s ? s : stk__video_decoder_create(&video, &v->decoder, err);
}

enum stk_status stk_video_open(const struct stk_video_request *request, struct stk_video **out, struct stk_error *err)
{
	if (STK_NEED(err, request, out))
		return STK_INVALID;
	*out = NULL;
	if (request->size != sizeof *request || !!request->path + !!request->data + !!request->read != 1 || request->bytes < 0 ||
		request->stream < -1)
		return stk__fail(err, STK_INVALID,
			"stk_video_open needs one of path, data and read, a number of bytes and of the stream, and a request whose size is set");
	enum stk_status s = stk__environment_check(err);
	if (s)
		return s;
	struct stk_video *v = stk__calloc(1, sizeof *v);
	if (!v)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to open a video");
	v->request = *request;
	v->poll = (struct stk_cancel_poll){.interrupted = request->interrupted, .user = request->interrupted_user};
	v->latest = -1;
	if (request->path && !(v->path = stk__strdup(request->path)))
		s = stk__fail(err, STK_NO_MEMORY, "out of memory to open a video");
	v->storage = request->storage ? stk_storage_ref(request->storage) : NULL;
	if (!s && (s = open_video(v, err)))
		s = name_file(v, s, err);
	if (s) {
		stk_video_close(v);
		return s;
	}
	*out = v;
	return STK_OK;
}

/* Destroys the GPU's decoder of the video, and frees its memory at once: no pipeline may run that would do it. */
static void end_gpu(struct stk_video *v)
{
	if (!v->gpu)
		return;
	struct stk_gpu_device *dev = stk__gpu_device_ref(stk__video_gpu_device(v->gpu));
	stk__video_gpu_destroy(v->gpu);
	v->gpu = NULL;
	stk__gpu_device_end_use(dev);
}

void stk_video_close(struct stk_video *v)
{
	if (!v)
		return;
	end_gpu(v);
	stk__video_decoder_destroy(v->decoder);
	stk__video_index_destroy(v->index);
	stk__media_source_close(v->source);
	if (v->storage)
		stk_storage_unref(&v->storage);
	stk__unmap(v->frames, v->capacity);
	stk__free(v->path);
	stk__free(v);
}

enum stk_status stk_video_describe(const struct stk_video *v, struct stk_video_info *out, struct stk_error *err)
{
	if (STK_NEED(err, v, out))
		return STK_INVALID;
	if (out->size != sizeof *out)
		return stk__fail(err, STK_INVALID, "stk_video_info.size is %zu; this library expects %zu", out->size, sizeof *out);
	const struct stk_video_facts *f = stk__video_facts(v->index);
	*out = (struct stk_video_info){.size = sizeof *out,
		.stream = f->stream,
		.width = f->width,
		.height = f->height,
		.rotation = f->rotation,
		.frames = f->frames,
		.keys = f->keys,
		.bytes = f->bytes,
		.begin = f->begin,
		.end = f->end,
		.duration = f->duration,
		.average_fps = f->average_fps,
		.bit_rate = f->bit_rate,
		.codec = f->codec,
		.container = f->container};
	return STK_OK;
}

static enum stk_status check_frame(const struct stk_video *v, int64_t frame, struct stk_error *err)
{
	const int32_t frames = stk__video_facts(v->index)->frames;
	if (frame >= 0 && frame < frames)
		return STK_OK;
	return name_file(
		v, stk__fail(err, STK_INVALID, "frame %lld does not exist: the video has %d frames", (long long)frame, frames), err);
}

enum stk_status stk_video_frame(const struct stk_video *v, int64_t frame, struct stk_video_frame *out, struct stk_error *err)
{
	if (STK_NEED(err, v, out))
		return STK_INVALID;
	enum stk_status s = check_frame(v, frame, err);
	if (s)
		return s;
	*out = (struct stk_video_frame){stk__video_time(v->index, (int32_t)frame), stk__video_duration(v->index, (int32_t)frame),
		stk__video_key(v->index, (int32_t)frame)};
	return STK_OK;
}

int64_t stk_video_shown(const struct stk_video *v, double seconds)
{
	return v && !isnan(seconds) ? stk__video_shown(v->index, seconds) : -1;
}

enum stk_status stk_video_range(
	const struct stk_video *v, int64_t first, int64_t last, int64_t *offset, int64_t *length, struct stk_error *err)
{
	if (STK_NEED(err, v, offset, length))
		return STK_INVALID;
	enum stk_status s = check_frame(v, first, err);
	s = s ? s : check_frame(v, last, err);
	if (!s && last < first)
		s = stk__fail(err, STK_INVALID, "frame %lld is before frame %lld", (long long)last, (long long)first);
	if (s)
		return s;
	const int32_t count = (int32_t)(last - first + 1);
	int32_t *frames = stk__alloc((size_t)count * sizeof *frames);
	struct stk_segment *segments = stk__alloc((size_t)count * sizeof *segments);
	int64_t begin = INT64_MAX, end = 0, at, n;
	if (!frames || !segments)
		s = stk__fail(err, STK_NO_MEMORY, "out of memory to plan %d frames", count);
	for (int32_t i = 0; i < count && !s; i++)
		frames[i] = (int32_t)first + i;
	const int32_t trips = s ? 0 : stk__plan(stk__video_table(v->index), frames, count, segments);
	for (int32_t i = 0; i < trips; i++)
		if (stk__video_range(v->index, &segments[i], &at, &n)) {
			begin = at < begin ? at : begin;
			end = at + n > end ? at + n : end;
		}
	stk__free(frames);
	stk__free(segments);
	*offset = end ? begin : 0;
	*length = end ? end - begin : 0;
	return s;
}

/* ---- frames ---- */

struct reading {
	struct stk_video *v;
	int32_t *frames;         /* numbers of the frames to decode, in ascending order, each once */
	int64_t *output_indices; /* for each frame in `frames`: index of its first copy in the output */
	int32_t count;
	int64_t total; /* number of frames in the output, which may contain a frame several times */
	int32_t width, height;
	bool planar;
	/* set only if the output is on the GPU */
	bool on_gpu;
	uint64_t to;
	stk_gpu_stream stream;
};

struct asked {
	int64_t frame, output_index;
};

static int by_frame(const void *a, const void *b)
{
	const struct asked *x = a, *y = b;
	return x->frame != y->frame ? (x->frame > y->frame) - (x->frame < y->frame)
				    : (x->output_index > y->output_index) - (x->output_index < y->output_index);
}

static size_t frame_bytes(const struct reading *r)
{
	return (size_t)r->width * (size_t)r->height * 3;
}

/* Sets the reading's width and height, which all of its frames must have, and makes v->frames large enough for these frames. STK_LIMIT: they need more than 32
 * GiB. */
static enum stk_status take_memory(struct reading *r, int32_t width, int32_t height, struct stk_error *err)
{
	const size_t most = (size_t)1 << 35;
	struct stk_video *v = r->v;
	r->width = width;
	r->height = height;
	if (frame_bytes(r) > most / (size_t)r->total)
		return stk__fail(err, STK_LIMIT, "%lld frames of %d x %d pixels need more than 32 GiB: ask for fewer at a time",
			(long long)r->total, width, height);
	const size_t need = frame_bytes(r) * (size_t)r->total;
	if (need <= v->capacity)
		return STK_OK;
	stk__unmap(v->frames, v->capacity);
	v->capacity = 0;
	v->frames = stk__map(need);
	if (!v->frames)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %zu bytes of frames", need);
	v->capacity = need;
	return STK_OK;
}

static struct stk_image place_frame(void *user, int32_t k, int32_t width, int32_t height, struct stk_error *err)
{
	struct reading *r = user;
	enum stk_status s = r->width ? STK_OK : take_memory(r, width, height, err);
	if (!s && (width != r->width || height != r->height))
		s = stk__fail(err, STK_SHAPE, "frame %d has %d x %d pixels, and frames before it %d x %d: read them one at a time",
			r->frames[k], width, height, r->width, r->height);
	if (s)
		return (struct stk_image){0};
	uint8_t *all = r->on_gpu ? (uint8_t *)(uintptr_t)r->to : r->v->frames, *to = all + frame_bytes(r) * (size_t)r->output_indices[k];
	return r->planar ? stk__image_chw(to, STK_UINT8, width, height, 3) : stk__image_hwc(to, STK_UINT8, width, height, 3);
}

/* Copies each frame that was asked for several times from its first position in the output to its other positions. `requests` is sorted by frame. */
static enum stk_status copy_frames(const struct reading *r, const struct asked *requests, struct stk_error *err)
{
	const size_t size = frame_bytes(r);
	struct stk_gpu_device *dev = r->on_gpu ? stk__video_gpu_device(r->v->gpu) : NULL;
	enum stk_status s = dev ? stk__gpu_enter(dev, err) : STK_OK;
	if (s)
		return s;
	for (int64_t i = 1, first = 0; i < r->total && !s; i++) {
		const size_t from = size * (size_t)requests[first].output_index, to = size * (size_t)requests[i].output_index;
		if (requests[i].frame != requests[i - 1].frame)
			first = i;
		else if (dev)
			s = stk__gpu_copy(dev, r->stream, r->to + to, r->to + from, size, err);
		else
			memcpy(r->v->frames + to, r->v->frames + from, size);
	}
	if (dev)
		stk__gpu_leave(dev);
	return s;
}

/* Returns whether the next call will probably want frames soon after those of this one, so that the decoder should continue from them. The decoder then decodes
 * all packets, even of pictures to which no other refers, since the next call may want them. If the caller leaves out most of the frames from one key frame to
 * the next, or on the cores any frame between the first and the last of this call, it costs less to begin at a key frame again, and the result is false. Also
 * updates v->steps. */
static bool reads_on(struct reading *r, const struct asked *requests)
{
	enum { PART = 3 }; /* a step may be as long as one PART-th of the mean distance of key frames */
	struct stk_video *v = r->v;
	const struct stk_video_facts *f = stk__video_facts(v->index);
	const int64_t first = requests[0].frame, step = first - v->latest;
	const bool dense = requests[r->total - 1].frame - first == r->count - 1;
	const bool nearby = v->latest >= 0 && step > 0 && (step == 1 || step * PART <= f->packets / f->keys);
	v->steps = nearby ? v->steps + 1 : 0;
	return (r->on_gpu || dense) && nearby && (step == 1 || v->steps > 1);
}

static enum stk_status decode(struct reading *r, const struct asked *requests, struct stk_error *err)
{
	struct stk_video *v = r->v;
	for (int64_t i = 0; i < r->total; i++)
		if (i == 0 || requests[i].frame != requests[i - 1].frame) {
			r->frames[r->count] = (int32_t)requests[i].frame;
			r->output_indices[r->count++] = requests[i].output_index;
		}
	const struct stk_video_wanted wanted = {
		.frames = r->frames, .count = r->count, .next = reads_on(r, requests), .destination = place_frame, .user = r};
	enum stk_status s = r->on_gpu ? stk__video_gpu_decode(v->gpu, v->decoder, v->index, &v->input, &wanted, &r->stream, NULL, err)
				      : stk__video_decode(v->decoder, v->index, &v->input, &wanted, err);
	if (!s)
		s = copy_frames(r, requests, err);
	v->latest = s ? -1 : requests[r->total - 1].frame;
	return s;
}

/* Reads the frames with these numbers, and stores them as `r` specifies. */
static enum stk_status read_frames(struct reading *r, const int64_t *frames, struct stk_error *err)
{
	struct stk_video *v = r->v;
	v->poll.next = 0;
	v->poll.has_interrupted = false;
	if (r->total < 1 || r->total > INT32_MAX)
		return stk__fail(err, STK_INVALID, "%lld frames are asked for; a call reads 1 to 2^31 - 1", (long long)r->total);
	struct asked *requests = stk__alloc((size_t)r->total * sizeof *requests);
	r->frames = stk__alloc((size_t)r->total * sizeof *r->frames);
	r->output_indices = stk__alloc((size_t)r->total * sizeof *r->output_indices);
	enum stk_status s =
		requests && r->frames && r->output_indices ? STK_OK : stk__fail(err, STK_NO_MEMORY, "out of memory to read frames");
	for (int64_t i = 0; i < r->total && !s; i++) {
		s = check_frame(v, frames[i], err);
		requests[i] = (struct asked){frames[i], i};
	}
	if (!s) {
		struct stk_error failure = {0};
		qsort(requests, (size_t)r->total, sizeof *requests, by_frame);
		s = decode(r, requests, &failure);
		if (s && err)
			*err = failure;
		s = s ? name_file(v, s, err) : STK_OK;
	}
	stk__free(requests);
	stk__free(r->frames);
	stk__free(r->output_indices);
	return s;
}

enum stk_status stk_video_read(struct stk_video *v, const int64_t *frames, int64_t count, bool planar, const uint8_t **out, int32_t *height,
	int32_t *width, struct stk_error *err)
{
	if (STK_NEED(err, v, frames, out, height, width))
		return STK_INVALID;
	struct reading r = {.v = v, .total = count, .planar = planar};
	enum stk_status s = read_frames(&r, frames, err);
	*out = v->frames;
	*height = r.height;
	*width = r.width;
	return s;
}

struct stk_video_device {
	struct stk_nvdec *nvdec;
};

/* Opens the decoder of GPU number `device`. */
static enum stk_status open_decoder(int32_t device, struct stk_nvdec **out, struct stk_error *err)
{
	struct stk_gpu *gpu;
	struct stk_gpu_device *dev;
	enum stk_status s = stk__gpu_open(&gpu, err);
	if (s)
		return s;
	s = stk__gpu_device_open(gpu, device, &dev, err);
	if (!s) {
		s = stk__nvdec_open(dev, out, err);
		stk__gpu_device_close(dev);
	}
	stk__gpu_close(gpu);
	return s;
}

enum stk_status stk_video_device_open(int32_t device, struct stk_video_device **out, struct stk_error *err)
{
	if (STK_NEED(err, out))
		return STK_INVALID;
	*out = NULL;
	struct stk_video_device *d = stk__calloc(1, sizeof *d);
	if (!d)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a video decoder");
	enum stk_status s = open_decoder(device, &d->nvdec, err);
	if (s)
		stk__free(d);
	else
		*out = d;
	return s;
}

void stk_video_device_close(struct stk_video_device *d)
{
	if (d)
		stk__nvdec_close(d->nvdec);
	stk__free(d);
}

enum stk_status stk_video_use_gpu(struct stk_video *v, struct stk_video_device *d, struct stk_error *err)
{
	if (STK_NEED(err, v, d))
		return STK_INVALID;
	end_gpu(v);
	v->latest = -1;
	return stk__video_gpu_create(d->nvdec, &v->gpu, err);
}

enum stk_status stk_video_read_gpu(
	struct stk_video *v, const int64_t *frames, int64_t count, bool planar, uint64_t to, void *stream, struct stk_error *err)
{
	if (STK_NEED(err, v, frames))
		return STK_INVALID;
	if (!v->gpu)
		return stk__fail(err, STK_STATE, "stk_video_read_gpu needs stk_video_use_gpu before");
	const struct stk_video_facts *f = stk__video_facts(v->index);
	struct reading r = {.v = v,
		.total = count,
		.planar = planar,
		.on_gpu = true,
		.to = to,
		.stream = stream,
		.width = f->width,
		.height = f->height};
	return read_frames(&r, frames, err);
}

size_t stk_video_counters(const struct stk_video *v, struct stk_counter *out, size_t n)
{
	if (!v)
		return 0;
	const struct stk_video_counters c = stk__video_decoder_counters(v->decoder);
	const struct stk_video_gpu_counters g = v->gpu ? stk__video_gpu_counters(v->gpu) : (struct stk_video_gpu_counters){0};
	const struct stk_counter all[] = {{"frames_wanted", (double)(c.wanted + g.on_gpu)},
		{"packets_decoded", (double)(c.decoded + g.decoded)}, {"segments", (double)(c.segments + g.segments)},
		{"requests", v->source ? (double)stk__media_source_requests(v->source) : 0}, {"frames_on_gpu", (double)g.on_gpu},
		{"index_kept", v->kept}, {"read_seconds", 1e-9 * (double)(c.read_ns + g.read_ns)},
		{"decode_seconds", 1e-9 * (double)c.decode_ns}, {"convert_seconds", 1e-9 * (double)c.convert_ns}};
	for (size_t i = 0; i < sizeof all / sizeof *all && out && i < n; i++)
		out[i] = all[i];
	return sizeof all / sizeof *all;
}

const char *stk_video_why_on_cores(const struct stk_video *v)
{
	return v && v->gpu ? stk__video_gpu_reason(v->gpu) : "";
}
