/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_gpu/jpeg_gpu_streams.h"

#include "base/memory.h"

#include <pthread.h>

enum { MOST = STK_JPEG_GPU_STREAMS };

struct stk_jpeg_gpu_streams {
	struct stk_gpu_device *dev;
	pthread_mutex_t lock;
	pthread_cond_t returned_cond;
	size_t most, part;
	int n_made, n_allowed; /* number of streams that have memory, and of streams that may get memory */
	int64_t returns;
	struct stk_jpeg_gpu_stream stream[MOST];
};

enum stk_status stk__jpeg_gpu_streams_create(
	struct stk_gpu_device *dev, size_t most, struct stk_jpeg_gpu_streams **out, struct stk_error *err)
{
	struct stk_jpeg_gpu_streams *all = stk__calloc(1, sizeof *all);
	if (!all)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	all->dev = dev;
	all->most = most;
	all->n_allowed = MOST;
	for (int i = 0; i < MOST; i++)
		all->stream[i].number = i;
	pthread_mutex_init(&all->lock, NULL);
	pthread_cond_init(&all->returned_cond, NULL);
	enum stk_status s = STK_OK;
	/* Creates all streams before the events, since streams that are created one after the other get different hardware queues. */
	for (int i = 0; i < MOST && !s; i++)
		s = stk__gpu_stream_create(dev, STK_GPU_LOW, &all->stream[i].cuda, err);
	for (int i = 0; i < MOST && !s; i++)
		s = stk__gpu_event_create(dev, false, &all->stream[i].done, err);
	if (s)
		stk__jpeg_gpu_streams_destroy(all);
	else
		*out = all;
	return s;
}

/* Waits until the stream has no work in flight, and frees its memory. */
static void free_memory(struct stk_jpeg_gpu_streams *all, struct stk_jpeg_gpu_stream *stream)
{
	if (stream->memory && stk__gpu_stream_sync(all->dev, stream->cuda, NULL)) {
		/* If this fails, the stream's work has failed too, but the memory is still released. */
	}
	stk__gpu_free(all->dev, stream->memory);
	stream->memory = 0;
}

stk_gpu_stream stk__jpeg_gpu_streams_cuda(const struct stk_jpeg_gpu_streams *all, int number)
{
	return all->stream[number].cuda;
}

void stk__jpeg_gpu_streams_destroy(struct stk_jpeg_gpu_streams *all)
{
	if (!all)
		return;
	for (int i = 0; i < MOST; i++) {
		free_memory(all, &all->stream[i]);
		stk__gpu_event_destroy(all->dev, all->stream[i].done);
		stk__gpu_stream_destroy(all->dev, all->stream[i].cuda);
	}
	pthread_cond_destroy(&all->returned_cond);
	pthread_mutex_destroy(&all->lock);
	stk__free(all);
}

size_t stk__jpeg_gpu_streams_most(const struct stk_jpeg_gpu_streams *all)
{
	return all->most;
}

size_t stk__jpeg_gpu_streams_memory(struct stk_jpeg_gpu_streams *all)
{
	pthread_mutex_lock(&all->lock);
	size_t bytes = all->part * (size_t)all->n_allowed;
	pthread_mutex_unlock(&all->lock);
	return bytes;
}

/* ---- the size of parts in bytes ---- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t largest_of(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Returns the size in bytes of the parts of a batch: an even share of the batch and a little more, unless the streams' memory is too small or a file needs
 * more. Many small parts in flight are better than few large ones, since the end of each part's synchronisation is serial, and other parts can run
 * meanwhile. But a part has at least FLOOR bytes, since a change of their size allocates the streams' memory again. */
static size_t part_size(const struct stk_jpeg_gpu_streams *all, size_t batch, size_t largest)
{
	enum { FLOOR = 16 << 20 };
	size_t even_share = all->most / MOST, parts = batch / (even_share + 1) + 1, share = batch / parts;
	size_t part = least(largest_of(share + share / 16, FLOOR), even_share);
	return least(largest_of(part, largest), all->most);
}

static bool any_in_use(const struct stk_jpeg_gpu_streams *all)
{
	for (int i = 0; i < MOST; i++)
		if (all->stream[i].in_use)
			return true;
	return false;
}

enum stk_status stk__jpeg_gpu_streams_fit(
	struct stk_jpeg_gpu_streams *all, size_t batch, size_t largest, size_t *part, struct stk_error *err)
{
	if (largest > all->most)
		return stk__fail(
			err, STK_LIMIT, "a file takes %zu bytes of the GPU, over the %zu that decoding may take", largest, all->most);
	pthread_mutex_lock(&all->lock);
	/* Parts grow if the largest file does not fit in one. They also grow for a batch of more than twice their size, unless they already have half of an
	 * even share of the streams' memory. */
	while (all->part < largest || all->part < least(batch, all->most / MOST) / 2) {
		if (any_in_use(all)) {
			pthread_cond_wait(&all->returned_cond, &all->lock);
			continue;
		}
		for (int i = 0; i < MOST; i++) {
			stk__gpu_retire(all->dev, all->stream[i].memory, all->part);
			all->stream[i].memory = 0;
		}
		all->part = part_size(all, batch, largest);
		all->n_allowed = all->most / all->part < MOST ? (int)(all->most / all->part) : MOST;
		all->n_made = 0;
	}
	*part = all->part;
	pthread_mutex_unlock(&all->lock);
	return STK_OK;
}

/* ---- taking and giving back streams ---- */

/* Allocates the stream's memory for a part. Fills all of it with zeros, since kernels read whole words, including a few ignored bytes after their input. */
static enum stk_status create_stream(
	struct stk_jpeg_gpu_streams *all, struct stk_jpeg_gpu_stream *stream, size_t size, struct stk_error *err)
{
	enum stk_status s = stk__gpu_alloc(all->dev, size, &stream->memory, err);
	if (!s && (s = stk__gpu_fill(all->dev, stream->cuda, stream->memory, 0, size, err)))
		free_memory(all, stream);
	return s;
}

static bool is_idle(struct stk_jpeg_gpu_streams *all, const struct stk_jpeg_gpu_stream *stream)
{
	bool done = false;
	return !stk__gpu_event_query(all->dev, stream->done, &done, NULL) && done;
}

/* Returns the free stream that was given back first, or NULL if all streams are in use. Call it with the lock held. */
static struct stk_jpeg_gpu_stream *oldest(struct stk_jpeg_gpu_streams *all)
{
	struct stk_jpeg_gpu_stream *found = NULL;
	for (int i = 0; i < all->n_made; i++)
		if (!all->stream[i].in_use && (!found || all->stream[i].return_number < found->return_number))
			found = &all->stream[i];
	return found;
}

struct stk_jpeg_gpu_stream *stk__jpeg_gpu_streams_take(struct stk_jpeg_gpu_streams *all, struct stk_error *err)
{
	struct stk_jpeg_gpu_stream *stream;
	pthread_mutex_lock(&all->lock);
	for (;;) {
		stream = oldest(all);
		if (all->n_made < all->n_allowed && (!stream || !is_idle(all, stream))) {
			if (!create_stream(all, &all->stream[all->n_made], all->part, err)) {
				stream = &all->stream[all->n_made++];
				break;
			}
			if (!all->n_made) {
				stream = NULL;
				break;
			}
			all->n_allowed = all->n_made; /* there is no memory for more streams */
		}
		if (stream)
			break;
		pthread_cond_wait(&all->returned_cond, &all->lock);
	}
	if (stream)
		stream->in_use = true;
	pthread_mutex_unlock(&all->lock);
	return stream;
}

enum stk_status stk__jpeg_gpu_streams_give(struct stk_jpeg_gpu_streams *all, struct stk_jpeg_gpu_stream *stream, struct stk_error *err)
{
	enum stk_status s = stk__gpu_event_record(all->dev, stream->done, stream->cuda, err);
	pthread_mutex_lock(&all->lock);
	stream->in_use = false;
	stream->return_number = ++all->returns;
	pthread_cond_broadcast(&all->returned_cond);
	pthread_mutex_unlock(&all->lock);
	return s;
}

enum stk_status stk__jpeg_gpu_streams_sync(struct stk_jpeg_gpu_streams *all, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	for (int i = 0; i < MOST && !s; i++)
		s = stk__gpu_stream_sync(all->dev, all->stream[i].cuda, err);
	return s;
}
