/* SPDX-License-Identifier: Apache-2.0 */
#include "io/served.h"

#include "thread/thread.h"

void stk__served_init(struct stk_served *q, const char *name, void *(*run)(void *user), void *user, int limit, pthread_t *threads)
{
	*q = (struct stk_served){.name = name, .run = run, .user = user, .limit = limit, .threads = threads};
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->wake, NULL);
}

void stk__served_end(struct stk_served *q)
{
	pthread_mutex_lock(&q->lock);
	q->ending = true;
	pthread_cond_broadcast(&q->wake);
	pthread_mutex_unlock(&q->lock);
	for (int i = 0; q->threads && i < q->started; i++)
		stk__thread_join(q->threads[i]);
}

void stk__served_destroy(struct stk_served *q)
{
	pthread_cond_destroy(&q->wake);
	pthread_mutex_destroy(&q->lock);
}

static enum stk_status start_thread(struct stk_served *q, struct stk_error *err)
{
	pthread_t detached;
	enum stk_status status = stk__thread_start(q->threads ? &q->threads[q->started] : &detached, q->name, q->run, q->user, err);
	if (status)
		return q->started ? STK_OK : status;
	if (!q->threads)
		pthread_detach(detached);
	q->started++;
	return STK_OK;
}

enum stk_status stk__served_announce(struct stk_served *q, struct stk_error *err)
{
	enum stk_status status = STK_OK;
	if (q->waiting >= q->idle && q->started < q->limit)
		status = start_thread(q, err);
	if (!status) {
		q->waiting++;
		pthread_cond_signal(&q->wake);
	}
	return status;
}

enum stk_status stk__served_push(struct stk_served *q, struct stk_request *r, struct stk_error *err)
{
	enum stk_status status = stk__served_announce(q, err);
	if (!status)
		stk__queue_push(&q->queue, r);
	return status;
}

bool stk__served_remove(struct stk_served *q, struct stk_request *r)
{
	const bool removed = stk__queue_remove(&q->queue, r);
	q->waiting -= removed;
	return removed;
}

struct stk_request_queue stk__served_take_all(struct stk_served *q)
{
	struct stk_request_queue taken = {0};
	for (struct stk_request *r; (r = stk__queue_pop(&q->queue)); q->waiting--)
		stk__queue_push(&taken, r);
	return taken;
}

void stk__served_wait(struct stk_served *q)
{
	q->idle++;
	pthread_cond_wait(&q->wake, &q->lock);
	q->idle--;
}

struct stk_request *stk__served_next(struct stk_served *q)
{
	struct stk_request *r;
	while (!(r = stk__queue_pop(&q->queue)) && !q->ending)
		stk__served_wait(q);
	q->waiting -= r != NULL;
	return r;
}
