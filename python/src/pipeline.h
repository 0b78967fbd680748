/* SPDX-License-Identifier: Apache-2.0
 * The Pipeline object, for the two files that hold its methods. */
#ifndef STOKER_PYTHON_PIPELINE_H
#define STOKER_PYTHON_PIPELINE_H

#include "core.h"

struct pipeline_object {
	PyObject ob_base;
	PyObject *context;
	struct stk_pipeline *p; /* NULL: closed */
	pid_t pid;
	bool busy;        /* a call is inside the library without the GIL; guarded by the GIL */
	bool closing;     /* closed while busy: the call inside destroys it when it leaves */
	bool interrupted; /* a wait returns, and so does each one until this is reset; guarded by the GIL */
};

/* The pipeline for one call; NULL with an exception when it is closed, used by another thread, or a parent process's. */
struct stk_pipeline *pipeline_enter(struct pipeline_object *self);
void pipeline_leave(struct pipeline_object *self);
/* For functions that any thread may call beside another: not closed and of this process, or NULL with an exception. */
struct stk_pipeline *pipeline_peek(struct pipeline_object *self);

/* Metadata, state, counters: pipeline_info.c. */
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
