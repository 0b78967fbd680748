/* SPDX-License-Identifier: Apache-2.0
 * Begins and ends calls of the library's pipeline, and destroys the pipeline. Refuses calls in another process and calls after close(). */
#include "pipeline.h"

#include <time.h>

enum { BRIEF_WAIT_NS = 20000 }; /* how long a thread sleeps between two looks at whether a brief call of another thread has returned */

void pipeline_destroy(struct stk_pipeline *p)
{
	enum stk_status status;

	Py_BEGIN_ALLOW_THREADS /* a running callback needs the GIL to finish */
		status = stk_pipeline_end_within(p, PIPELINE_PATIENCE_MS, NULL);
	if (status == STK_TIMEOUT)
		status = stk_pipeline_destroy_within(p, 0, NULL);
	else
		stk_pipeline_destroy(p);
	Py_END_ALLOW_THREADS(void) status;
}

struct stk_pipeline *pipeline_peek(struct pipeline_object *self)
{
	if (!core_check_process(self->pid, "pipeline"))
		return NULL;
	if (!self->p)
		core_raise_state("the pipeline is closed: make a new one");
	return self->p;
}

struct stk_pipeline *pipeline_enter(struct pipeline_object *self)
{
	struct stk_pipeline *p = pipeline_peek(self);

	while (p && self->busy && self->brief) {
		Py_BEGIN_ALLOW_THREADS nanosleep(&(struct timespec){.tv_nsec = BRIEF_WAIT_NS}, NULL);
		Py_END_ALLOW_THREADS p = pipeline_peek(self);
	}
	if (p && self->busy) {
		core_raise_state("the pipeline is in use by another thread: one thread at a time");
		return NULL;
	}
	if (p && self->closing) {
		core_raise_state("the pipeline is closed: make a new one");
		return NULL;
	}
	if (p)
		self->busy = true;
	return p;
}

struct stk_pipeline *pipeline_enter_briefly(struct pipeline_object *self)
{
	struct stk_pipeline *p = pipeline_enter(self);

	self->brief = p != NULL;
	return p;
}

void pipeline_leave(struct pipeline_object *self)
{
	struct stk_pipeline *p = self->p;

	self->busy = self->brief = false;
	if (self->closing && p) {
		self->p = NULL;
		pipeline_destroy(p);
	}
}
