/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_gpu/jpeg_gpu_streams.h"

#include "base/memory.h"

#include <pthread.h>

enum { MOST = STK_CUDA_JPEG_LANES };

struct stk_jpeg_lanes {
	struct stk_gpu_device *dev;
	pthread_mutex_t lock;
	pthread_cond_t given;
	size_t most, part;
	int n_made, n_allowed; /* lanes in use, and what memory allows of them */
	int64_t turns;
	struct stk_jpeg_lane lane[MOST];
};

enum stk_status stk__jpeg_lanes_create(struct stk_gpu_device *dev, size_t most, struct stk_jpeg_lanes **out, struct stk_error *err)
{
	struct stk_jpeg_lanes *l = stk__calloc(1, sizeof *l);
	if (!l)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	l->dev = dev;
	l->most = most;
	l->n_allowed = MOST;
	for (int i = 0; i < MOST; i++)
		l->lane[i].number = i;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->given, NULL);
	enum stk_status s = STK_OK;
	/* One after the other, so that each has a queue of the hardware for itself. */
	for (int i = 0; i < MOST && !s; i++)
		s = stk__gpu_stream_create(dev, STK_GPU_LOW, &l->lane[i].stream, err);
	for (int i = 0; i < MOST && !s; i++)
		s = stk__gpu_event_create(dev, false, &l->lane[i].done, err);
	if (s)
		stk__jpeg_lanes_destroy(l);
	else
		*out = l;
	return s;
}

/* Nothing is under way on the lane when this returns. */
static void empty(struct stk_jpeg_lanes *l, struct stk_jpeg_lane *lane)
{
	if (lane->memory && stk__gpu_stream_sync(l->dev, lane->stream, NULL)) {
		/* What it ran is lost; its memory is given back all the same. */
	}
	stk__gpu_free(l->dev, lane->memory);
	lane->memory = 0;
}

void stk__jpeg_lanes_destroy(struct stk_jpeg_lanes *l)
{
	if (!l)
		return;
	for (int i = 0; i < MOST; i++) {
		empty(l, &l->lane[i]);
		stk__gpu_event_destroy(l->dev, l->lane[i].done);
		stk__gpu_stream_destroy(l->dev, l->lane[i].stream);
	}
	pthread_cond_destroy(&l->given);
	pthread_mutex_destroy(&l->lock);
	stk__free(l);
}

size_t stk__jpeg_lanes_most(const struct stk_jpeg_lanes *l)
{
	return l->most;
}

size_t stk__jpeg_lanes_memory(struct stk_jpeg_lanes *l)
{
	pthread_mutex_lock(&l->lock);
	size_t bytes = l->part * (size_t)l->n_allowed;
	pthread_mutex_unlock(&l->lock);
	return bytes;
}

/* ---- how large parts are ---- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t largest_of(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Bytes of a part for such a batch: an even share of it and a little more, as far as all lanes fit the memory, or one file needs more: many small parts
 * under way hide the serial tail of each one's synchronisation better than few large ones. Small ones are made larger at once: to make lanes anew waits
 * for whatever the GPU does. */
static size_t wanted(const struct stk_jpeg_lanes *l, size_t batch, size_t largest)
{
	enum { FLOOR = 16 << 20 };
	size_t even = l->most / MOST, parts = batch / (even + 1) + 1, share = batch / parts;
	size_t part = least(largest_of(share + share / 16, FLOOR), even);
	return least(largest_of(part, largest), l->most);
}

static bool any_taken(const struct stk_jpeg_lanes *l)
{
	for (int i = 0; i < MOST; i++)
		if (l->lane[i].taken)
			return true;
	return false;
}

enum stk_status stk__jpeg_lanes_fit(struct stk_jpeg_lanes *l, size_t batch, size_t largest, size_t *part, struct stk_error *err)
{
	if (largest > l->most)
		return stk__fail(
			err, STK_LIMIT, "a file takes %zu bytes of the GPU, over the %zu that decoding may take", largest, l->most);
	pthread_mutex_lock(&l->lock);
	/* A batch that is little larger goes in a part more. */
	while (l->part < largest || l->part < least(batch, l->most / MOST) / 2) {
		if (any_taken(l)) {
			pthread_cond_wait(&l->given, &l->lock);
			continue;
		}
		for (int i = 0; i < MOST; i++)
			empty(l, &l->lane[i]);
		l->part = wanted(l, batch, largest);
		l->n_allowed = l->most / l->part < MOST ? (int)(l->most / l->part) : MOST;
		l->n_made = 0;
	}
	*part = l->part;
	pthread_mutex_unlock(&l->lock);
	return STK_OK;
}

/* ---- taking turns ---- */

/* With memory for a part. Decoders read a little beyond what they were given, in whole words, and mask it: once and for all there is something. */
static enum stk_status make(struct stk_jpeg_lanes *l, struct stk_jpeg_lane *lane, size_t size, struct stk_error *err)
{
	enum stk_status s = stk__gpu_alloc(l->dev, size, &lane->memory, err);
	if (!s && (s = stk__gpu_fill(l->dev, lane->stream, lane->memory, 0, size, err)))
		empty(l, lane);
	return s;
}

static bool idle(struct stk_jpeg_lanes *l, const struct stk_jpeg_lane *lane)
{
	bool done = false;
	return !stk__gpu_event_query(l->dev, lane->done, &done, NULL) && done;
}

/* The one of the free lanes that was given back first; NULL: all are taken. With the lock. */
static struct stk_jpeg_lane *oldest(struct stk_jpeg_lanes *l)
{
	struct stk_jpeg_lane *found = NULL;
	for (int i = 0; i < l->n_made; i++)
		if (!l->lane[i].taken && (!found || l->lane[i].turn < found->turn))
			found = &l->lane[i];
	return found;
}

struct stk_jpeg_lane *stk__jpeg_lanes_take(struct stk_jpeg_lanes *l, struct stk_error *err)
{
	struct stk_jpeg_lane *lane;
	pthread_mutex_lock(&l->lock);
	for (;;) {
		lane = oldest(l);
		if (l->n_made < l->n_allowed && (!lane || !idle(l, lane))) {
			if (!make(l, &l->lane[l->n_made], l->part, err)) {
				lane = &l->lane[l->n_made++];
				break;
			}
			if (!l->n_made) {
				lane = NULL;
				break;
			}
			l->n_allowed = l->n_made; /* there is no memory for more: these will do */
		}
		if (lane)
			break;
		pthread_cond_wait(&l->given, &l->lock);
	}
	if (lane)
		lane->taken = true;
	pthread_mutex_unlock(&l->lock);
	return lane;
}

enum stk_status stk__jpeg_lanes_give(struct stk_jpeg_lanes *l, struct stk_jpeg_lane *lane, struct stk_error *err)
{
	enum stk_status s = stk__gpu_event_record(l->dev, lane->done, lane->stream, err);
	pthread_mutex_lock(&l->lock);
	lane->taken = false;
	lane->turn = ++l->turns;
	pthread_cond_broadcast(&l->given);
	pthread_mutex_unlock(&l->lock);
	return s;
}

enum stk_status stk__jpeg_lanes_sync(struct stk_jpeg_lanes *l, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	for (int i = 0; i < MOST && !s; i++)
		s = stk__gpu_stream_sync(l->dev, l->lane[i].stream, err);
	return s;
}
