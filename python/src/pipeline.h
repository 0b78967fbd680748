/* SPDX-License-Identifier: Apache-2.0
 * The Pipeline object, whose methods are in pipeline.c and pipeline_info.c. */
#ifndef STOKER_PYTHON_PIPELINE_H
#define STOKER_PYTHON_PIPELINE_H

#include "core.h"

struct pipeline_object {
	PyObject ob_base;
	PyObject *context;
	PyObject *held;      /* the Batch that put_back() returns to the pipeline; NULL: none */
	unsigned long taker; /* the thread that took `held` */
	struct {
		int64_t epoch;
		int32_t planned;
		bool is_last, any; /* any: whether the last next() raised the error of a batch, which these fields describe */
	} failed;
	bool ended;             /* whether the last next(hold=True) has reached the end of an epoch, which its caller has not counted yet */
	struct stk_pipeline *p; /* NULL after close */
	pid_t pid;
	bool busy;        /* a call is inside the library without the GIL; guarded by the GIL */
	bool brief;       /* the running call only asks for facts and returns soon, so other threads wait for it; guarded by the GIL */
	bool closing;     /* close() was called; a call that is inside the library then destroys the pipeline when it leaves */
	bool interrupted; /* while true, waiting for a batch ends with STK_CANCELLED; guarded by the GIL */
};

enum { PIPELINE_PATIENCE_MS = 2000 }; /* the most ms that closing a pipeline waits for the user's functions to return */

/* Destroys the pipeline on this thread, because at the interpreter's end no other thread can take the GIL any more. If a user's function does not return
 * in time, a thread of the library waits for it and destroys the pipeline then. */
void pipeline_destroy(struct stk_pipeline *p);

/* Begins a call during which no other thread may use the pipeline; pipeline_leave ends it. Returns NULL with an exception if the pipeline is closed, in
 * use by another thread, or was made in a parent process. */
struct stk_pipeline *pipeline_enter(struct pipeline_object *self);
/* Begins a call that only asks for facts and returns soon. A thread that wants to enter meanwhile waits for it instead of failing: a second thread that asks
 * for the state must not make the training loop fail. pipeline_leave ends it. Returns NULL with an exception as pipeline_enter does. */
struct stk_pipeline *pipeline_enter_briefly(struct pipeline_object *self);
void pipeline_leave(struct pipeline_object *self);
/* Returns the pipeline for a call that other threads may make at the same time. Returns NULL with an exception if it is closed or was made in a parent
 * process. */
struct stk_pipeline *pipeline_peek(struct pipeline_object *self);

/* Methods for metadata, state and counters (pipeline_info.c). */
PyObject *pipeline_reader_meta(PyObject *object, PyObject *name);
PyObject *pipeline_readers(PyObject *object, PyObject *unused);
PyObject *pipeline_lead(PyObject *object, PyObject *name);
PyObject *pipeline_class_name(PyObject *object, PyObject *args);
PyObject *pipeline_skipped(PyObject *object, PyObject *reader);
PyObject *pipeline_output_desc(PyObject *object, PyObject *index);
PyObject *pipeline_explain(PyObject *object, PyObject *json);
PyObject *pipeline_save(PyObject *object, PyObject *unused);
PyObject *pipeline_restore(PyObject *object, PyObject *state);
PyObject *pipeline_counters(PyObject *object, PyObject *unused);
PyObject *pipeline_spans(PyObject *object, PyObject *unused);
PyObject *pipeline_bad_samples(PyObject *object, PyObject *unused);

#endif
