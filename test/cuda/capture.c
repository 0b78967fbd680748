/* SPDX-License-Identifier: Apache-2.0
 * Captures of CUDA graphs, as far as they affect other threads: the calls that a thread must not make during a capture (CUDA Driver API,
 * cuThreadExchangeStreamCaptureMode). No graph is recorded: operations that are submitted to the stream are dropped. */
#include "emulated.h"

#include <string.h>

enum { GLOBAL, THREAD_LOCAL, RELAXED, CAPTURES = 4 };

static struct capture {
	bool active, broken;
	int mode;
	pthread_t thread; /* the thread that began the capture */
	void *stream;
} captures[CAPTURES];
static _Thread_local int mode_of_thread = GLOBAL;

static struct capture *find_capture(const void *stream)
{
	for (int i = 0; i < CAPTURES; i++)
		if (captures[i].active && captures[i].stream == stream)
			return &captures[i];
	return NULL;
}

bool emulated_captures(const void *stream)
{
	return find_capture(stream) != NULL;
}

/* Returns whether CUDA forbids calls of a function during a capture, unless the thread's mode is RELAXED. */
static bool is_unsafe(const char *function)
{
	static const char *const unsafe[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost", "cuEventQuery",
		"cuEventSynchronize", "cuEventElapsedTime", "cuStreamSynchronize", "cuModuleLoadData", "cuModuleUnload"};
	for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
		if (strcmp(function, unsafe[i]) == 0)
			return true;
	return false;
}

int emulated_check_capture(const char *function)
{
	int result = CUDA_OK;
	if (mode_of_thread == RELAXED || !is_unsafe(function))
		return CUDA_OK;
	for (int i = 0; i < CAPTURES; i++) {
		struct capture *c = &captures[i];
		bool own = c->active && pthread_equal(c->thread, pthread_self());
		if ((own && c->mode != RELAXED) || (c->active && !own && c->mode == GLOBAL && mode_of_thread == GLOBAL)) {
			c->broken = true;
			result = CUDA_CAPTURE_UNSUPPORTED;
		}
	}
	return result;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int before = mode_of_thread;
	if (*mode < GLOBAL || *mode > RELAXED)
		return CUDA_INVALID_VALUE;
	mode_of_thread = *mode;
	*mode = before;
	return CUDA_OK;
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	struct capture *c = captures;
	while (c < captures + CAPTURES && c->active)
		c++;
	if ((uintptr_t)stream <= 2 || find_capture(stream) || c == captures + CAPTURES)
		result = CUDA_INVALID_VALUE;
	else
		*c = (struct capture){.active = true, .mode = mode, .thread = pthread_self(), .stream = stream};
	emulated_unlock();
	return result;
}

int cuStreamEndCapture(void *stream, void **graph)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	struct capture *c = find_capture(stream);
	*graph = NULL;
	result = !c ? CUDA_INVALID_VALUE : c->broken ? CUDA_CAPTURE_INVALIDATED : CUDA_OK;
	if (c)
		c->active = false;
	emulated_unlock();
	return result;
}
