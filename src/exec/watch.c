/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/watch.h"

#include "base/clock.h"
#include "exec/context.h"
#include "exec/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BAD = 3, MOST_COUNTERS = 128, MOST_CONTEXTS = 100 };

/* ---- the folder ---- */

int stk__watch_folder(char path[static 96], bool make)
{
	const char *base = getenv("XDG_RUNTIME_DIR");
	const int n = base && base[0] == '/' ? snprintf(path, 96, "%s/stoker", base)
					     : snprintf(path, 96, "/tmp/stoker-%lld", (long long)geteuid());
	struct stat st;
	if (n >= 96 || (make && mkdir(path, 0700) && errno != EEXIST))
		return -1;
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	/* Refuses a folder that another user owns or can use, since that user could answer requests in this user's name. */
	if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 077))
		return fd;
	close(fd);
	return -1;
}

/* ---- answers ---- */

static json_t *describe_counters(struct stk_pipeline *p)
{
	struct stk_counter counters[MOST_COUNTERS];
	json_t *all = json_object();
	const size_t n = stk_pipeline_counters(p, counters, MOST_COUNTERS);
	for (size_t i = 0; i < n && i < MOST_COUNTERS; i++)
		json_object_set_new(all, counters[i].name, json_real(counters[i].value));
	return all;
}

static json_t *describe_bad(struct stk_pipeline *p, int64_t n)
{
	json_t *all = json_array();
	struct stk_error e;
	for (int64_t i = n > MOST_BAD ? n - MOST_BAD : 0; i < n; i++)
		if (stk_pipeline_bad_sample(p, i, &e))
			json_array_append_new(all, json_string(e.message));
	return all;
}

static json_t *describe(struct stk_pipeline *p)
{
	const int64_t bad = stk_pipeline_bad_samples(p);
	pthread_mutex_lock(&p->lock);
	const int64_t epoch = stk__shown_epoch(p, p->at.epoch);
	pthread_mutex_unlock(&p->lock);
	json_t *o = json_object();
	json_object_set_new(o, "id", json_integer(p->watched.id));
	json_object_set_new(o, "began_ns", json_integer(p->watched.began_ns));
	json_object_set_new(o, "batch_size", json_integer(p->config.batch_size));
	json_object_set_new(o, "device", json_integer(p->config.device_id));
	json_object_set_new(o, "threads", json_integer(p->crew.n));
	json_object_set_new(o, "epoch", json_integer(epoch));
	json_object_set_new(o, "bad_samples", json_integer(bad));
	json_object_set_new(o, "bad", describe_bad(p, bad));
	json_object_set_new(o, "counters", describe_counters(p));
	return o;
}

/* Returns JSON text about all pipelines of the list, which the caller frees; NULL: memory is short. */
static char *describe_all(struct stk_watch *w)
{
	const char *rank = getenv("RANK");
	json_t *o = json_object(), *pipelines = json_array();
	pthread_mutex_lock(&w->lock); /* while the lock is held, no pipeline of the list can end */
	for (struct stk_pipeline *p = w->pipelines; p; p = p->watched.next)
		json_array_insert_new(pipelines, 0, describe(p)); /* oldest first: the list begins with the newest */
	pthread_mutex_unlock(&w->lock);
	json_object_set_new(o, "pid", json_integer(getpid()));
	json_object_set_new(o, "context", json_integer(w->number));
	json_object_set_new(o, "rank", rank ? json_string(rank) : json_null());
	json_object_set_new(o, "pipelines", pipelines);
	char *text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

static void answer(struct stk_watch *w, int fd)
{
	/* A client that does not read, or reads byte by byte, must not make other clients wait for more than a second. */
	const int64_t until = stk__clock_ns() + 1000000000;
	char *text = describe_all(w);
	for (const char *at = text, *end = text ? text + strlen(text) : NULL; at < end;) {
		const int64_t left_us = (until - stk__clock_ns()) / 1000;
		if (left_us <= 0)
			break;
		const struct timeval patience = {.tv_sec = left_us / 1000000, .tv_usec = left_us % 1000000};
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
		const ssize_t n = send(fd, at, (size_t)(end - at), MSG_NOSIGNAL);
		if (n <= 0 && errno != EINTR)
			break;
		at += n > 0 ? n : 0;
	}
	free(text);
}

static void *serve(void *arg)
{
	struct stk_watch *w = arg;
	for (;;) {
		const int fd = accept4(w->listening, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			answer(w, fd);
			close(fd);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			usleep(100000); /* the client waits meanwhile */
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return NULL; /* end_server has shut the socket down, or the socket has failed */
		}
	}
}

/* ---- the server ---- */

/* Binds the socket to the name PID.N in the private folder, where N is the first number below MOST_CONTEXTS whose name is free. Returns false on failure. */
static bool bind_socket(struct stk_watch *w)
{
	char path[96];
	const int folder = stk__watch_folder(path, true);
	bool bound = false;
	for (int i = 0; folder >= 0 && !bound && i < MOST_CONTEXTS; i++) {
		const int n = snprintf(w->address.sun_path, sizeof w->address.sun_path, "%s/%lld.%d", path, (long long)getpid(), i);
		if (n >= (int)sizeof w->address.sun_path)
			break;
		w->number = i;
		bound = !bind(w->listening, (const struct sockaddr *)&w->address, sizeof w->address);
		if (!bound && errno != EADDRINUSE)
			break;
	}
	if (folder >= 0)
		close(folder);
	return bound;
}

static void start_server(struct stk_watch *w)
{
	const char *wanted = getenv("STOKER_TOP");
	if (wanted && !strcmp(wanted, "0"))
		return;
	w->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	w->address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (w->listening < 0)
		return;
	if (bind_socket(w)) {
		if (!listen(w->listening, 8) && stk__thread_start(&w->thread, "stoker-watch", serve, w, NULL) == STK_OK)
			return;
		unlink(w->address.sun_path);
	}
	close(w->listening);
	w->listening = -1;
}

static void end_server(struct stk_watch *w)
{
	shutdown(w->listening, SHUT_RDWR); /* wakes the thread */
	stk__thread_join(w->thread);
	unlink(w->address.sun_path);
	close(w->listening);
	w->listening = -1;
}

void stk__watch_add(struct stk_pipeline *p)
{
	struct stk_watch *w = &p->ctx->watch;
	pthread_mutex_lock(&w->starting);
	pthread_mutex_lock(&w->lock);
	const bool first = !w->pipelines;
	p->watched = (struct stk_watched){.next = w->pipelines, .id = ++w->last_id, .began_ns = stk__clock_ns()};
	w->pipelines = p;
	pthread_mutex_unlock(&w->lock);
	if (first)
		start_server(w);
	pthread_mutex_unlock(&w->starting);
}

void stk__watch_remove(struct stk_pipeline *p)
{
	struct stk_watch *w = &p->ctx->watch;
	if (!p->watched.id)
		return;
	pthread_mutex_lock(&w->starting);
	pthread_mutex_lock(&w->lock);
	struct stk_pipeline **at = &w->pipelines;
	while (*at != p)
		at = &(*at)->watched.next;
	*at = p->watched.next;
	p->watched.id = 0;
	const bool last = !w->pipelines;
	pthread_mutex_unlock(&w->lock);
	if (last && w->listening >= 0)
		end_server(w);
	pthread_mutex_unlock(&w->starting);
}
