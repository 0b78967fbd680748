/* SPDX-License-Identifier: Apache-2.0 */
#include "op/video/video_cache.h"

#include "format/list.h"
#include "format/video_kept.h"
#include "op/video/clip.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST_VIDEOS = 4096, BUCKETS = 1024 };

struct video {
	struct video *next; /* next video of the same bucket */
	struct stk_video_index *index;
	struct stk_media_version version; /* version of the file; each version has its own entry */
	uint64_t hash, used;
	int32_t users; /* number of calls and decoders that use the entry */
	char path[];
};

struct kept_decoder {
	struct stk_video_decoder *decoder;
	struct stk_video_gpu *gpu; /* NULL before the first frame for a GPU */
	struct video *video;       /* the video that the decoder decodes, or decoded last; NULL: none */
	int32_t frame;             /* number of the last frame that it decoded; INT32_MAX after a failure */
	bool busy;
	uint64_t used;
	struct kept_decoder *next;
};

struct stk_video_cache {
	pthread_mutex_t lock;
	struct video *buckets[BUCKETS];
	struct kept_decoder *decoders;
	int32_t videos, most_decoders, decoder_count;
	uint64_t clock;
};

enum stk_status stk__video_cache_create(int32_t decoders, struct stk_video_cache **out, struct stk_error *err)
{
	*out = stk__calloc(1, sizeof **out);
	if (!*out)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for videos");
	pthread_mutex_init(&(*out)->lock, NULL);
	(*out)->most_decoders = decoders;
	return STK_OK;
}

static void free_video(struct video *v)
{
	stk__video_index_destroy(v->index);
	stk__free(v);
}

static void free_decoder(struct kept_decoder *d)
{
	stk__video_gpu_destroy(d->gpu);
	stk__video_decoder_destroy(d->decoder);
	stk__free(d);
}

void stk__video_cache_destroy(void *cache)
{
	struct stk_video_cache *c = cache;
	if (!c)
		return;
	while (c->decoders) {
		struct kept_decoder *d = c->decoders;
		c->decoders = d->next;
		free_decoder(d);
	}
	for (int i = 0; i < BUCKETS; i++)
		while (c->buckets[i]) {
			struct video *v = c->buckets[i];
			c->buckets[i] = v->next;
			free_video(v);
		}
	pthread_mutex_destroy(&c->lock);
	stk__free(c);
}

/* ---- videos ---- */

/* Returns whether two versions are equal. Compares the members, since the padding between them has no defined value. */
static bool is_same(const struct stk_media_version *a, const struct stk_media_version *b)
{
	return a->size == b->size && a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns && a->inode == b->inode &&
	       strcmp(a->version, b->version) == 0;
}

/* Finds a video in the cache and adds a user to it. Returns NULL if the cache does not have the video. Call with the lock held. */
static struct video *find_video(struct stk_video_cache *c, const char *path, uint64_t hash, const struct stk_media_version *version)
{
	struct video *v = c->buckets[hash % BUCKETS];
	while (v && !(v->hash == hash && is_same(&v->version, version) && strcmp(v->path, path) == 0))
		v = v->next;
	if (v) {
		v->users++;
		v->used = ++c->clock;
	}
	return v;
}

/* Removes the least recently used video that has no users. Call with the lock held. */
static void drop_oldest(struct stk_video_cache *c)
{
	struct video **oldest = NULL;
	for (int i = 0; i < BUCKETS; i++)
		for (struct video **v = &c->buckets[i]; *v; v = &(*v)->next)
			if ((*v)->users == 0 && (!oldest || (*v)->used < (*oldest)->used))
				oldest = v;
	if (!oldest)
		return;
	struct video *removed = *oldest;
	*oldest = removed->next;
	free_video(removed);
	c->videos--;
}

static enum stk_status with_path(const char *path, enum stk_status s, struct stk_error *err)
{
	char shown[600];
	snprintf(shown, sizeof shown, "%.*s", stk__uri_shown(path) < 599 ? stk__uri_shown(path) : 599, path);
	if (err && s != STK_CANCELLED && !stk__names_file(err->message, shown)) {
		char was[600];
		snprintf(was, sizeof was, "%.599s", err->message);
		return stk__fail_again(err, s, "%.300s: %s", path, was);
	}
	return s;
}

/* Adds the video `opened`, with one user, and returns it. If another worker has added the same video meanwhile, frees `opened`, adds a user to the other
 * worker's entry and returns that entry. Call with the lock held. */
static struct video *add_video(struct stk_video_cache *c, struct video *opened)
{
	struct video *v = find_video(c, opened->path, opened->hash, &opened->version);
	if (v) {
		free_video(opened);
		return v;
	}
	if (c->videos >= MOST_VIDEOS)
		drop_oldest(c);
	opened->users = 1;
	opened->used = ++c->clock;
	opened->next = c->buckets[opened->hash % BUCKETS];
	c->buckets[opened->hash % BUCKETS] = opened;
	c->videos++;
	return opened;
}

/* Returns true if the cache has the index of any version of the file with this path. Call without the lock. */
static bool was_read(struct stk_video_cache *c, const char *path)
{
	const uint64_t hash = stk__hash_bytes(0, path, strlen(path));
	pthread_mutex_lock(&c->lock);
	const struct video *v = c->buckets[hash % BUCKETS];
	while (v && !(v->hash == hash && strcmp(v->path, path) == 0))
		v = v->next;
	pthread_mutex_unlock(&c->lock);
	return v;
}

/* Sets *out to the video, with one more user, which close_video removes. Reads or makes its index if the cache lacks the video. */
static enum stk_status open_video(
	struct stk_video_cache *c, const char *path, struct stk_media_source *source, struct video **out, struct stk_error *err)
{
	const struct stk_media_version *version = stk__media_source_version(source);
	const size_t n = strlen(path);
	const uint64_t hash = stk__hash_bytes(0, path, n);
	pthread_mutex_lock(&c->lock);
	*out = find_video(c, path, hash, version);
	pthread_mutex_unlock(&c->lock);
	if (*out)
		return STK_OK;
	struct video *opened = stk__calloc(1, sizeof *opened + n + 1);
	if (!opened)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to open a video");
	enum stk_status s = stk__video_find_index(path, source, -1, &opened->index, NULL, err);
	if (s) {
		stk__free(opened);
		return s;
	}
	memcpy(opened->path, path, n + 1);
	opened->hash = hash;
	opened->version = *version;
	pthread_mutex_lock(&c->lock);
	*out = add_video(c, opened);
	pthread_mutex_unlock(&c->lock);
	return STK_OK;
}

static void close_video(struct stk_video_cache *c, struct video *v)
{
	pthread_mutex_lock(&c->lock);
	v->users--;
	pthread_mutex_unlock(&c->lock);
}

/* ---- decoders ---- */

static void forget(struct kept_decoder *d)
{
	stk__video_decoder_forget(d->decoder);
	if (d->gpu)
		stk__video_gpu_forget(d->gpu);
}

/* Returns how well a decoder fits the request for a frame of v: 2 if its last frame is an earlier one of v; 1 if its last frame is this one or a later one of
 * v, or if it has decoded nothing; 0 if it has decoded another video, for which its state may still be useful. */
static int fit_of_decoder(const struct kept_decoder *d, const struct video *v, int32_t frame)
{
	return d->video == v && d->frame < frame ? 2 : !d->video || d->video == v;
}

/* Returns the idle decoder that fits the request best, or NULL if a new one should be made. A decoder of another video is only taken if the cache already
 * has most_decoders. Call with the lock held. */
static struct kept_decoder *choose_decoder(const struct stk_video_cache *c, const struct video *v, int32_t frame)
{
	struct kept_decoder *best = NULL;
	for (struct kept_decoder *d = c->decoders; d; d = d->next) {
		if (d->busy)
			continue;
		const int mine = fit_of_decoder(d, v, frame), theirs = best ? fit_of_decoder(best, v, frame) : -1;
		const bool nearer = mine == 2 ? best && d->frame > best->frame : best && d->used < best->used;
		if (mine > theirs || (mine == theirs && nearer))
			best = d;
	}
	return best && (fit_of_decoder(best, v, frame) > 0 || c->decoder_count >= c->most_decoders) ? best : NULL;
}

static enum stk_status take_decoder(struct stk_video_cache *c, struct video *v, int32_t frame, const struct stk_video_limits *limits,
	struct kept_decoder **out, struct stk_error *err)
{
	pthread_mutex_lock(&c->lock);
	struct kept_decoder *d = choose_decoder(c, v, frame);
	struct video *was = d ? d->video : NULL;
	if (d) {
		d->busy = true;
		d->video = v;
		v->users += was != v;
	}
	pthread_mutex_unlock(&c->lock);
	if (d && was != v) { /* without the lock: a session of the GPU may be destroyed, which takes long */
		forget(d);
		pthread_mutex_lock(&c->lock);
		if (was)
			was->users--;
		pthread_mutex_unlock(&c->lock);
	}
	if ((*out = d))
		return STK_OK;
	d = stk__calloc(1, sizeof *d);
	enum stk_status s =
		d ? stk__video_decoder_create(limits, &d->decoder, err) : stk__fail(err, STK_NO_MEMORY, "out of memory for a decoder");
	if (s) {
		stk__free(d);
		return s;
	}
	d->busy = true;
	d->video = v;
	pthread_mutex_lock(&c->lock);
	v->users++;
	d->next = c->decoders;
	c->decoders = d;
	c->decoder_count++;
	pthread_mutex_unlock(&c->lock);
	*out = d;
	return STK_OK;
}

/* Makes a decoder whose last decoded frame is `frame` available to other calls, or frees it if the cache has more than most_decoders. */
static void give_decoder(struct stk_video_cache *c, struct kept_decoder *d, int32_t frame)
{
	pthread_mutex_lock(&c->lock);
	d->busy = false;
	d->frame = frame;
	d->used = ++c->clock;
	struct kept_decoder **at = &c->decoders;
	while (*at != d)
		at = &(*at)->next;
	const bool surplus = c->decoder_count > c->most_decoders;
	if (surplus) {
		*at = d->next;
		c->decoder_count--;
		d->video->users--;
	}
	pthread_mutex_unlock(&c->lock);
	if (surplus)
		free_decoder(d);
}

/* ---- a frame ---- */

static enum stk_status choose_frame(
	const struct stk_video_index *x, const struct stk_frame_request *r, int32_t *frame, struct stk_error *err)
{
	const int32_t frames = stk__video_facts(x)->frames;
	const double slack = 1e-6, begin = stk__video_time(x, 0), end = stk__video_facts(x)->end;
	if (r->frame >= 0) {
		*frame = (int32_t)r->frame;
		return r->frame < frames ? STK_OK
					 : stk__fail(err, STK_INVALID, "frame %lld does not exist: the video has the frames 0 to %d",
						   (long long)r->frame, frames - 1);
	}
	*frame = stk__video_shown(x, r->seconds + slack);
	return *frame >= 0 && r->seconds < end + slack
		       ? STK_OK
		       : stk__fail(err, STK_INVALID, "no frame is shown at %g seconds: the video lasts from %g to %g seconds", r->seconds,
				 begin, end);
}

/* The memory that a frame is decoded to. */
struct placed {
	struct stk_arena *arena;
	const struct stk_gpu_call *gpu; /* nullable */
	struct stk_image image;
};

static struct stk_image place_frame(void *user, int32_t k, int32_t width, int32_t height, struct stk_error *err)
{
	struct placed *p = user;
	(void)k;
	const size_t size = (size_t)width * (size_t)height * 3;
	uint8_t *bytes = !p->gpu                             ? stk__arena_take(p->arena, size)
			 : stk__arena_charge(p->arena, size) ? p->gpu->take(p->gpu->user, size, err)
							     : NULL;
	if (bytes)
		return p->image = stk__image_hwc(bytes, STK_UINT8, width, height, 3);
	(void)!stk__fail(err, STK_NO_MEMORY, "out of memory for a frame of %d x %d pixels", width, height);
	return (struct stk_image){0};
}

static enum stk_status read_frame(struct stk_video_cache *c, struct video *v, const struct stk_frame_request *r,
	const struct stk_media_input *in, struct placed *placed, struct stk_error *err)
{
	int32_t frame;
	struct kept_decoder *d;
	enum stk_status s = choose_frame(v->index, r, &frame, err);
	if (!s)
		s = take_decoder(c, v, frame, &r->limits, &d, err);
	if (s)
		return s;
	const struct stk_video_wanted wanted = {
		.frames = &frame, .count = 1, .next = true, .destination = place_frame, .user = placed, .cancel = r->cancel};
	if (r->gpu && !d->gpu)
		s = stk__video_gpu_create(r->gpu->nvdec, &d->gpu, err);
	const struct stk_video_done before = stk__video_done(d->decoder, d->gpu);
	if (!s)
		s = r->gpu ? stk__video_gpu_decode(d->gpu, d->decoder, v->index, in, &wanted, NULL, NULL, err)
			   : stk__video_decode(d->decoder, v->index, in, &wanted, err);
	const struct stk_video_done after = stk__video_done(d->decoder, d->gpu);
	if (r->tally)
		stk__video_tally(r->tally, &before, &after);
	if (s)
		forget(d);
	give_decoder(c, d, s ? INT32_MAX : frame);
	return s;
}

enum stk_status stk__video_cache_read(struct stk_video_cache *c, const struct stk_frame_request *request, struct stk_arena *arena,
	struct stk_image *out, struct stk_error *err)
{
	struct stk_media_source *source;
	struct placed placed = {.arena = arena, .gpu = request->gpu};
	struct video *v = NULL;
	struct stk_access access = request->access;
	access.known = was_read(c, request->path);
	enum stk_status s = stk__media_source_open(request->path, &access, &source, err);
	if (s)
		return with_path(request->path, s, err);
	s = open_video(c, request->path, source, &v, err);
	if (!s) {
		s = read_frame(c, v, request, stk__media_source_input(source), &placed, err);
		close_video(c, v);
	}
	stk__media_source_close(source);
	*out = placed.image;
	return s ? with_path(request->path, s, err) : STK_OK;
}
