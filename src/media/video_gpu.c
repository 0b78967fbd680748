/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates decoders on the GPU; decodes the segments of a call, first on the GPU and then, for the remaining frames, on the cores; copies single frames. */
#include "media/video_gpu_impl.h"

enum stk_status stk__video_gpu_create(struct stk_nvdec *nvdec, struct stk_video_gpu **out, struct stk_error *err)
{
	*out = NULL;
	struct stk_video_gpu *g = stk__calloc(1, sizeof *g);
	if (!g)
		return stk__video_no_memory(err);
	g->nvdec = stk__nvdec_ref(nvdec);
	struct stk_gpu_device *dev = stk__nvdec_device(nvdec);
	enum stk_status s = stk__gpu_enter(dev, err);
	if (!s) {
		s = stk__gpu_stream_create(dev, STK_GPU_LOW, &g->stream, err);
		if (!s)
			s = stk__gpu_event_create(dev, false, &g->before, err);
		stk__gpu_leave(dev);
	}
	for (int i = 0; i < STK_VIDEO_AHEAD; i++)
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

void stk__video_gpu_forget(struct stk_video_gpu *g)
{
	if (g->session && !stk__gpu_enter(stk__nvdec_device(g->nvdec), NULL)) {
		stk__video_gpu_end_run(g);
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
		for (int i = 0; i < STK_VIDEO_AHEAD; i++)
			stk__gpu_retire(dev, g->ahead[i].memory, g->ahead[i].size);
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

const char *stk__video_gpu_reason(const struct stk_video_gpu *g)
{
	return g->reason;
}

/* ---- frames that the cores decode ---- */

/* Copies the frame in `staging`, if there is one, to its destination on the GPU. `staging` may be overwritten afterwards. */
static enum stk_status send_staged(struct stk_video_gpu_call *n, struct stk_error *err)
{
	struct stk_video_gpu *g = n->g;
	if (!n->to.data)
		return STK_OK;
	const size_t size = (size_t)n->to.width * (size_t)n->to.height * 3;
	const stk_gpu_ptr to = (uintptr_t)n->to.data;
	n->to.data = NULL;
	struct stk_gpu_device *dev = stk__nvdec_device(g->nvdec);
	g->counters.on_cores++;
	const enum stk_status s = stk__gpu_upload(dev, g->stream, to, g->staging, size, err);
	return s ? s : stk__gpu_stream_sync(dev, g->stream, err); /* where the GPU reads pageable memory itself, the copy is asynchronous */
}

static struct stk_image staged_destination(void *user, int32_t k, int32_t width, int32_t height, struct stk_error *err)
{
	struct stk_video_gpu_call *n = user;
	struct stk_video_gpu *g = n->g;
	const size_t size = (size_t)width * (size_t)height * 3;
	if ((n->status = send_staged(n, err)) || (n->status = stk__video_gpu_reserve(&g->staging, &g->staging_size, size, err)))
		return (struct stk_image){0};
	struct stk_image to = n->wanted->destination(n->wanted->user, n->unwritten[k], width, height, err);
	n->to = to;
	to.data = to.data ? g->staging : NULL;
	return to;
}

/* Decodes on the cores the frames that the engine has not written, and copies them to the GPU. */
static enum stk_status decode_rest(struct stk_video_gpu_call *n, struct stk_video_decoder *cores, struct stk_error *err)
{
	const struct stk_video_wanted *w = n->wanted;
	int32_t *frames = stk__alloc((size_t)w->count * sizeof *frames), *left = stk__alloc((size_t)w->count * sizeof *left), count = 0;
	enum stk_status s = frames && left ? STK_OK : stk__video_no_memory(err);
	for (int32_t i = 0; i < w->count && !s; i++)
		if (!n->written[i]) {
			frames[count] = w->frames[i];
			left[count++] = i;
		}
	n->unwritten = left;
	const struct stk_video_wanted rest = {
		.frames = frames, .count = count, .next = w->next, .destination = staged_destination, .user = n, .cancel = w->cancel};
	if (!s && count)
		s = stk__video_decode(cores, n->x, n->in, &rest, err);
	if (!s && count)
		s = send_staged(n, err);
	stk__free(frames);
	stk__free(left);
	return s;
}

/* Joins segments whose packets are consecutive or overlap, so that the engine does not have to wait between them. Returns the new number of segments. */
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

/* Makes the decoder's stream wait for the work that has been queued on `after` so far. */
static enum stk_status wait_before(struct stk_video_gpu *g, stk_gpu_stream after, struct stk_error *err)
{
	struct stk_gpu_device *dev = stk__nvdec_device(g->nvdec);
	enum stk_status s = stk__gpu_event_record(dev, g->before, after, err);
	return s ? s : stk__gpu_stream_wait(dev, g->stream, g->before, err);
}

enum stk_status stk__video_gpu_decode(struct stk_video_gpu *g, struct stk_video_decoder *cores, const struct stk_video_index *x,
	const struct stk_media_input *in, const struct stk_video_wanted *wanted, const stk_gpu_stream *after, const char *only_cores,
	struct stk_error *err)
{
	struct stk_gpu_device *dev = stk__nvdec_device(g->nvdec);
	if (wanted->count == 0)
		return STK_OK;
	struct stk_video_gpu_call n = {.g = g, .x = x, .in = in, .wanted = wanted};
	struct stk_segment *segments = stk__alloc((size_t)wanted->count * sizeof *segments);
	n.written = stk__calloc((size_t)wanted->count, sizeof *n.written);
	enum stk_status s = segments && n.written ? stk__gpu_enter(dev, err) : stk__video_no_memory(err);
	if (!s) {
		const int mode = stk__gpu_capture_relax(dev);
		const int32_t count = join_segments(segments, stk__plan(&x->table, wanted->frames, wanted->count, segments));
		s = after ? wait_before(g, *after, err) : STK_OK;
		if (only_cores)
			stk__video_gpu_set_reason(&n, only_cores);
		for (int32_t i = 0; i < count && !s && !only_cores && !(g->refuses && g->refused == x->serial); i++)
			s = stk__video_gpu_try_segment(&n, &segments[i], err);
		g->latest = wanted->frames[wanted->count - 1];
		if (!s)
			s = decode_rest(&n, cores, err);
		enum stk_status ended = stk__gpu_stream_sync(dev, g->stream, s ? NULL : err);
		s = s ? s : ended;
		stk__gpu_capture_strict(dev, mode);
		stk__gpu_leave(dev);
	}
	stk__free(segments);
	stk__free(n.written);
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
	/* A session holds the pictures that a decoder on the cores would hold, and additional surfaces of up to three full planes of 16 bits. */
	const size_t picture = (size_t)x->parameters->width * (size_t)x->parameters->height * 6;
	return stk__video_decode_memory(x) + STK_NVDEC_MORE_SURFACES * picture;
}
