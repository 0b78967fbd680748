/* SPDX-License-Identifier: Apache-2.0
 * Streams and events. The caller executes each operation itself or, with the option `async`, the stream's thread does. */
#include "emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct emulated_event {
	struct emulated_event *next; /* next in the list of all events */
	int device, users;           /* users: number of references, from the handle and from operations */
	bool timing;
	uint64_t recorded, done; /* number of recordings that were submitted, and number of those that were executed */
	double milliseconds;
};

struct stream {
	struct stream *next; /* next in the list of all streams */
	int device;
	bool threaded, stop;
	int waiters; /* number of threads that wait in drain; the stream is not freed before they have woken */
	pthread_t thread;
	struct operation *first;
	/* number: the stream's number among all streams ever created, so that no two have the same delays; submitted, finished: numbers of operations; draws:
	* state of the random delays */
	uint64_t number, submitted, finished, draws;
};

/* The default stream of each device always exists. */
static struct stream defaults[DEVICES] = {{.device = 0, .number = 0}, {.device = 1, .number = 1, .next = &defaults[0]}};
static struct stream *streams = &defaults[DEVICES - 1];
static struct emulated_event *events;
static uint64_t streams_made = DEVICES;
static pthread_mutex_t processor = PTHREAD_MUTEX_INITIALIZER; /* held while a kernel runs; without async, also during copies and fills */

static struct stream *find_stream(int device, const void *handle)
{
	if ((uintptr_t)handle <= 2) /* NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD */
		return &defaults[device];
	struct stream *s = streams;
	while (s && s != handle)
		s = s->next;
	return s;
}

static struct emulated_event *find_event(const void *handle)
{
	struct emulated_event *e = events;
	while (e && e != handle)
		e = e->next;
	return e;
}

static void drop_event(struct emulated_event *e)
{
	if (e && --e->users == 0)
		free(e);
}

/* ---- operations ---- */

struct operation *emulated_operation(enum operation_kind kind, size_t packed)
{
	struct operation *op = aligned_alloc(_Alignof(struct operation), (sizeof *op + packed + 15) & ~(size_t)15);
	if (op)
		*op = (struct operation){.kind = kind};
	return op;
}

static void run_kernel(const struct operation *op)
{
	const char *error = driver.options.idle ? NULL : emulated_launch(op->kernel, op->packed, op->grid, op->block, op->size);
	if (!error)
		return;
	char text[256];
	snprintf(text, sizeof text, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s", op->kernel->name, emulated.block.x,
		emulated.block.y, emulated.block.z, emulated.thread.x, emulated.thread.y, emulated.thread.z, error);
	emulated_lock();
	emulated_lose(CUDA_LAUNCH_FAILED, text);
	emulated_unlock();
}

static void record(struct emulated_event *e, uint64_t number)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	emulated_lock();
	if (number > e->done)
		e->done = number;
	e->milliseconds = 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
	emulated_unlock();
}

static void wait_for(const struct emulated_event *e, uint64_t number)
{
	emulated_lock();
	while (e->done < number && !driver.sticky)
		pthread_cond_wait(&driver.changed, &driver.lock);
	emulated_unlock();
}

static void touch_memory(const struct operation *op, bool alone)
{
	emulated_open_memory();
	if (alone || op->kind == OPERATION_KERNEL)
		pthread_mutex_lock(&processor);
	if (op->kind == OPERATION_KERNEL)
		run_kernel(op);
	else if (op->kind == OPERATION_COPY)
		memmove(op->to, op->from, op->size);
	else
		memset(op->to, op->value, op->size);
	if (alone || op->kind == OPERATION_KERNEL)
		pthread_mutex_unlock(&processor);
	emulated_close_memory();
}

/* Executes an operation and frees it. If the device is lost, does not execute copies, fills and kernels. Call without the lock. */
static void execute(struct stream *s, struct operation *op)
{
	emulated_lock();
	if (driver.options.lost && ++driver.operations > driver.options.lost)
		emulated_lose(CUDA_LAUNCH_FAILED, NULL);
	bool lost = driver.sticky != 0;
	emulated_unlock();
	if (op->kind == OPERATION_RECORD)
		record(op->event, op->number);
	else if (op->kind == OPERATION_WAIT)
		wait_for(op->event, op->number);
	else if (op->kind == OPERATION_CALL)
		op->function(op->to);
	else if (!lost)
		touch_memory(op, !s->threaded);
	emulated_lock();
	drop_event(op->event);
	s->finished++;
	pthread_cond_broadcast(&driver.changed);
	emulated_unlock();
	free(op);
}

/* Waits in half of the calls, for a random time of at most driver.options.delay microseconds. */
static void dawdle(struct stream *s)
{
	s->draws = s->draws * 6364136223846793005u + 1442695040888963407u;
	if (s->draws >> 63)
		usleep((useconds_t)((s->draws >> 33) % (driver.options.delay + 1)));
}

static void *stream_main(void *argument)
{
	struct stream *s = argument;
	emulated_lock();
	for (;;) {
		while (!s->first && !s->stop)
			pthread_cond_wait(&driver.changed, &driver.lock);
		struct operation *op = s->first;
		if (!op)
			break;
		s->first = op->next;
		emulated_unlock();
		dawdle(s);
		execute(s, op);
		emulated_lock();
	}
	emulated_unlock();
	return NULL;
}

static int start_thread(struct stream *s)
{
	/* Multiplies by a different odd factor than the seed; otherwise the draws of neighbouring streams would differ by a constant. */
	s->draws = (driver.options.seed * 0x9e3779b97f4a7c15u) ^ (s->number * 0xbf58476d1ce4e5b9u);
	s->draws ^= s->draws >> 31;
	s->threaded = pthread_create(&s->thread, NULL, stream_main, s) == 0;
	return s->threaded ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

static void append(struct stream *s, struct operation *op)
{
	struct operation **end = &s->first;
	while (*end)
		end = &(*end)->next;
	*end = op;
	pthread_cond_broadcast(&driver.changed);
}

int emulated_submit(int device, void *stream, struct operation *op)
{
	struct stream *s = find_stream(device, stream);
	int result = !s || s->device != device                        ? CUDA_INVALID_HANDLE
		     : driver.options.named && s == &defaults[device] ? CUDA_UNKNOWN
								      : CUDA_OK;
	bool dropped = !result && emulated_captures(stream);
	if (!result && !dropped && driver.options.async && !s->threaded)
		result = start_thread(s);
	if (result || dropped) {
		drop_event(op->event);
		free(op);
		return result;
	}
	s->submitted++;
	if (s->threaded) {
		append(s, op);
	} else {
		emulated_unlock();
		execute(s, op);
		emulated_lock();
	}
	return CUDA_OK;
}

/* Waits until the operations submitted so far have ended. Call with the lock held; the lock is released during the wait. */
static void drain(struct stream *s)
{
	uint64_t until = s->submitted;
	s->waiters++;
	while (s->finished < until)
		pthread_cond_wait(&driver.changed, &driver.lock);
	if (--s->waiters == 0)
		pthread_cond_broadcast(&driver.changed);
}

void emulated_wait_for_device(int device)
{
	/* The list stays valid while drain releases the lock, because cuStreamDestroy waits for drain before it unlinks a stream. */
	for (struct stream *s = streams; s; s = s->next)
		if (s->device == device)
			drain(s);
}

int emulated_wait_for_stream(int device, void *stream)
{
	struct stream *s = find_stream(device, stream);
	if (!s || s->device != device)
		return CUDA_INVALID_HANDLE;
	drain(s);
	return driver.sticky;
}

/* ---- streams ---- */

int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	struct stream *s = calloc(1, sizeof *s);
	(void)priority; /* any value is valid: CUDA clamps priorities */
	if (!s || flags & ~(unsigned)CUDA_STREAM_NON_BLOCKING) {
		free(s);
		result = s ? CUDA_INVALID_VALUE : CUDA_OUT_OF_MEMORY;
	} else {
		s->device = device;
		s->next = streams;
		streams = s;
		s->number = streams_made++;
		driver.devices[device].objects++;
		*stream = s;
	}
	emulated_unlock();
	return result;
}

int cuStreamDestroy_v2(void *stream)
{
	int device = 0, result = emulated_enter_to_free(__func__, &device);
	if (result)
		return result;
	struct stream *s = find_stream(device, stream);
	if (!s || s == &defaults[device]) {
		emulated_unlock();
		return CUDA_INVALID_HANDLE;
	}
	drain(s);
	while (s->waiters)
		pthread_cond_wait(&driver.changed, &driver.lock);
	s->stop = true;
	pthread_cond_broadcast(&driver.changed);
	struct stream **link = &streams;
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	driver.devices[s->device].objects--;
	emulated_unlock();
	if (s->threaded)
		pthread_join(s->thread, NULL);
	free(s);
	return CUDA_OK;
}

int cuStreamSynchronize(void *stream)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	result = emulated_wait_for_stream(device, stream);
	emulated_unlock();
	return result;
}

int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	struct operation *op = emulated_operation(OPERATION_CALL, 0);
	if (op) {
		op->function = function;
		op->to = data;
	}
	result = op ? emulated_submit(device, stream, op) : CUDA_OUT_OF_MEMORY;
	emulated_unlock();
	return result;
}

int cuCtxSynchronize(void)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	emulated_wait_for_device(device);
	result = driver.sticky;
	emulated_unlock();
	return result;
}

int cuStreamIsCapturing(void *stream, int *status)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	*status = emulated_captures(stream);
	result = find_stream(device, stream) ? CUDA_OK : CUDA_INVALID_HANDLE;
	emulated_unlock();
	return result;
}

/* Submits an operation that records event `e` or waits for its latest recording. */
static int submit_event(int device, void *stream, enum operation_kind kind, struct emulated_event *e)
{
	struct operation *op = emulated_operation(kind, 0);
	if (!op)
		return CUDA_OUT_OF_MEMORY;
	e->users++;
	op->event = e;
	op->number = e->recorded;
	return emulated_submit(device, stream, op);
}

/* Refuses flags other than 0, which only matter while a graph is captured. */
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	struct emulated_event *e = find_event(event);
	result = !e ? CUDA_INVALID_HANDLE : flags ? CUDA_INVALID_VALUE : submit_event(device, stream, OPERATION_WAIT, e);
	emulated_unlock();
	return result;
}

/* ---- events ---- */

int cuEventCreate(void **event, unsigned flags)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	struct emulated_event *e = calloc(1, sizeof *e);
	if (!e) {
		result = CUDA_OUT_OF_MEMORY;
	} else {
		*e = (struct emulated_event){.next = events, .device = device, .users = 1, .timing = !(flags & CUDA_EVENT_DISABLE_TIMING)};
		events = e;
		driver.devices[device].objects++;
		*event = e;
	}
	emulated_unlock();
	return result;
}

int cuEventDestroy_v2(void *event)
{
	int device = 0, result = emulated_enter_to_free(__func__, &device);
	if (result)
		return result;
	struct emulated_event **link = &events;
	while (*link && *link != event)
		link = &(*link)->next;
	struct emulated_event *e = *link;
	if (e) {
		*link = e->next;
		driver.devices[e->device].objects--;
		drop_event(e);
	}
	emulated_unlock();
	return e ? CUDA_OK : CUDA_INVALID_HANDLE;
}

int cuEventRecord(void *event, void *stream)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	struct emulated_event *e = find_event(event);
	if (!e || e->device != device) {
		result = CUDA_INVALID_HANDLE;
	} else {
		e->recorded++;
		result = submit_event(device, stream, OPERATION_RECORD, e);
		if (result)
			e->recorded--;
	}
	emulated_unlock();
	return result;
}

int cuEventQuery(void *event)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	const struct emulated_event *e = find_event(event);
	result = !e ? CUDA_INVALID_HANDLE : e->done < e->recorded ? CUDA_NOT_READY : CUDA_OK;
	emulated_unlock();
	return result;
}

int cuEventSynchronize(void *event)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	struct emulated_event *e = find_event(event);
	if (!e) {
		result = CUDA_INVALID_HANDLE;
	} else {
		uint64_t until = e->recorded;
		e->users++;
		while (e->done < until && !driver.sticky)
			pthread_cond_wait(&driver.changed, &driver.lock);
		drop_event(e);
		result = driver.sticky;
	}
	emulated_unlock();
	return result;
}

int cuEventElapsedTime(float *milliseconds, void *from, void *to)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	const struct emulated_event *a = find_event(from), *b = find_event(to);
	if (!a || !b || !a->timing || !b->timing || !a->recorded || !b->recorded)
		result = CUDA_INVALID_HANDLE;
	else if (a->done < a->recorded || b->done < b->recorded)
		result = CUDA_NOT_READY;
	else
		*milliseconds = (float)(b->milliseconds - a->milliseconds);
	emulated_unlock();
	return result;
}
