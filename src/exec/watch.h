/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers requests of other processes about this context's pipelines (stoker/watch.h). A thread waits for requests as long as the context has a pipeline.
 * The answers contain only what the pipelines record anyway: settings, counters and messages of bad samples. */
#ifndef STK_EXEC_WATCH_H
#define STK_EXEC_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

struct stk_pipeline;

/* The part of a context that answers requests about its pipelines. */
struct stk_watch {
	pthread_mutex_t starting;       /* guards the server; taken before `lock`, and held while the server starts or ends */
	pthread_mutex_t lock;           /* guards the list */
	struct stk_pipeline *pipelines; /* the context's pipelines, linked by watched.next */
	int64_t last_id;
	pthread_t thread; /* the server's thread */
	int listening;    /* the server's socket; -1: no server */
	struct sockaddr_un address;
	int number; /* number of this context among the contexts of the process */
};

/* A pipeline's entry in the list of struct stk_watch, guarded by the `lock` there. */
struct stk_watched {
	struct stk_pipeline *next;
	int64_t id;       /* number by which other processes name the pipeline; 0: not in the list */
	int64_t began_ns; /* time (CLOCK_MONOTONIC) at which the pipeline was added to the list */
};

static inline void stk__watch_init(struct stk_watch *w)
{
	*w = (struct stk_watch){.listening = -1};
	pthread_mutex_init(&w->starting, NULL);
	pthread_mutex_init(&w->lock, NULL);
}

static inline void stk__watch_end(struct stk_watch *w)
{
	pthread_mutex_destroy(&w->starting);
	pthread_mutex_destroy(&w->lock);
}

/* Adds a pipeline to its context's list, and starts the server with the first one. The pipeline runs whether or not the server starts. */
void stk__watch_add(struct stk_pipeline *p);
/* Removes a pipeline from its context's list, if it is there, and ends the server with the last one. */
void stk__watch_remove(struct stk_pipeline *p);

/* Opens the folder of the sockets, and writes its path. Returns a descriptor, which the caller closes, or -1 if the folder does not exist or is not
 * private. make: create the folder if it does not exist. */
int stk__watch_folder(char path[static 96], bool make);

#endif
