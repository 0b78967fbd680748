/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipeline: runs a graph. A wait for a batch is cut into slices, so that signals (Ctrl-C) are handled and warnings are shown during it. */
#include "pipeline.h"

#include <math.h>
#include <unistd.h>

enum { SLICE_MS = 50, MOST_SECONDS = 1 << 30 }; /* ms between checks for signals; a timeout above MOST_SECONDS (34 years) means no limit */

/* Waits until no function that the user gave is running. Returns STK_TIMEOUT if one has not returned in time, or if a signal handler raised an
 * exception, which is then set. */
static enum stk_status wait_for_calls(struct pipeline_object *self)
{
	enum stk_status status = STK_TIMEOUT;

	for (int waited = 0; status == STK_TIMEOUT && waited < PIPELINE_PATIENCE_MS; waited += SLICE_MS) {
		Py_BEGIN_ALLOW_THREADS status = stk_pipeline_end_within(self->p, SLICE_MS, NULL);
		Py_END_ALLOW_THREADS if (PyErr_CheckSignals() < 0) return STK_TIMEOUT;
	}
	return status;
}

/* close(): closes the pipeline. If another thread is inside a call, cancels the call, and that thread destroys the pipeline when it leaves the call. If a
 * user's function does not return in time, or Ctrl-C ends the wait, a thread of the library destroys the pipeline when the function has returned. Returns
 * False if a function did not return in time, otherwise True. Returns NULL with an exception after Ctrl-C or if the log function failed. */
static PyObject *pipeline_close(PyObject *object, PyObject *unused)
{
	struct pipeline_object *self = (struct pipeline_object *)object;
	struct stk_pipeline *p = self->p;
	enum stk_status status;

	(void)unused;
	if (!p || getpid() != self->pid || (self->closing && !self->busy))
		return Py_NewRef(Py_True);
	if (self->busy) {
		self->closing = true;
		stk_pipeline_cancel(p);
	} else {
		self->busy = self->closing = true;
		status = wait_for_calls(self);
		self->busy = false;
		self->p = NULL;
		Py_BEGIN_ALLOW_THREADS status = stk_pipeline_destroy_within(p, status ? 0 : PIPELINE_PATIENCE_MS, NULL);
		Py_END_ALLOW_THREADS if (PyErr_Occurred() || core_context_drain(self->context) <
								     0) /* messages logged while it closed, mostly about the trace */
			return NULL;
		return PyBool_FromLong(status == STK_OK);
	}
	return Py_NewRef(Py_True);
}

static void pipeline_dealloc(PyObject *object)
{
	struct pipeline_object *self = (struct pipeline_object *)object;

	/* A forked child does not free the pipeline: its threads do not exist there, and its locks may be held for ever. */
	if (self->p && getpid() == self->pid)
		pipeline_destroy(self->p);
	Py_XDECREF(self->held);
	Py_XDECREF(self->context);
	core_free(object);
}

/* Runs the handlers of signals that have come, then calls listed(-1) unless `listed` is NULL. Returns whether an exception is set, by these calls or by
 * an earlier one: the creation of the pipeline then ends. Runs on the thread that creates the pipeline, which has released the GIL. */
static bool signal_came(void *listed)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	bool came = PyErr_Occurred() || PyErr_CheckSignals() < 0;

	if (listed && !came) {
		PyObject *result = PyObject_CallFunction(listed, "L", -1LL);
		came = !result;
		Py_XDECREF(result);
	}
	PyGILState_Release(gil);
	return came;
}

/* Calls listed(entries) on the thread that creates the pipeline. An exception of the function ends the creation, because signal_came then finds it set. */
static void tell_listed(void *user, int64_t entries)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	PyObject *result = PyErr_Occurred() ? NULL : PyObject_CallFunction(user, "L", (long long)entries);

	Py_XDECREF(result);
	PyGILState_Release(gil);
}

static PyObject *pipeline_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"context", "graph", "batch_size", "prefetch", "device_id", "seed", "on_error", "max_errors", "memory_limit",
		"read_requests", "read_bytes", "max_batches", "trace", "lenient", "no_fuse", "gpu_memory", "held_limit", "storage",
		"listed", "decode", "first_epoch", "epoch_by_epoch", NULL};
	struct stk_pipeline_config c = {.size = sizeof(c), .device_id = -1};
	Py_ssize_t memory_limit = 0, read_bytes = 0, gpu_memory = 0, held_limit = 0;
	unsigned long long seed = 0;
	long long first_epoch = 0;
	int on_error = STK_ON_ERROR_RAISE, lenient = 0, no_fuse = 0, epoch_by_epoch = 0, decode = STK_DECODE_AUTO;
	PyObject *context, *graph_object, *storage = Py_None, *listed = Py_None;
	struct stk_context *ctx;
	struct stk_graph *graph;
	struct pipeline_object *self;
	struct stk_error err = {0};
	enum stk_status status;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOi|iiKidninizppnnOOiLp:Pipeline", names, &context, &graph_object, &c.batch_size,
		    &c.prefetch, &c.device_id, &seed, &on_error, &c.max_errors, &memory_limit, &c.read_requests, &read_bytes,
		    &c.max_batches, &c.trace, &lenient, &no_fuse, &gpu_memory, &held_limit, &storage, &listed, &decode, &first_epoch,
		    &epoch_by_epoch))
		return NULL;
	ctx = core_context_get(context);
	graph = ctx ? core_graph_get(graph_object) : NULL;
	if (!graph || !core_storage_get(storage, &c.storage))
		return NULL;
	c.interrupted = signal_came;
	if (listed != Py_None) {
		c.listed = tell_listed;
		c.interrupted_user = listed;
	}
	c.seed = seed;
	c.on_error = (enum stk_on_error)on_error;
	c.memory_limit = (size_t)memory_limit;
	c.read_bytes = (size_t)read_bytes;
	c.gpu_memory = (size_t)gpu_memory;
	c.held_limit = (size_t)held_limit;
	c.decode = (enum stk_decoding)decode;
	c.first_epoch = first_epoch;
	c.epoch_by_epoch = epoch_by_epoch;
	c.lenient = lenient;
	c.no_fuse = no_fuse;
	self = core_new(type);
	if (!self)
		return NULL;
	self->context = Py_NewRef(context);
	self->pid = getpid();
	Py_BEGIN_ALLOW_THREADS status = stk_pipeline_create(ctx, graph, &c, &self->p, &err);
	Py_END_ALLOW_THREADS if (status == STK_OK && !PyErr_Occurred()) return (PyObject *)self;
	if (status != STK_OK)
		self->p = NULL;
	Py_DECREF(self);
	return PyErr_Occurred() ? NULL : core_raise(status, &err);
}

static PyObject *pipeline_start(PyObject *object, PyObject *unused)
{
	struct pipeline_object *self = (struct pipeline_object *)object;
	struct stk_pipeline *p = pipeline_enter(self);
	struct stk_error err = {0};
	enum stk_status status;

	(void)unused;
	if (!p)
		return NULL;
	Py_BEGIN_ALLOW_THREADS status = stk_pipeline_start(p, &err);
	Py_END_ALLOW_THREADS pipeline_leave(self);
	return status == STK_OK ? Py_NewRef(Py_None) : core_raise(status, &err);
}

/* Waits for a batch in slices; limit_ms < 0 means no limit. Returns STK_SYSTEM with a Python exception set if a signal handler or the log function raised one,
 * and STK_CANCELLED if another thread has closed the pipeline or called interrupt(True). Takes the batch only after the handlers of signals that came during
 * the wait have run: if one raises, the batch stays in the pipeline for the next call. */
static enum stk_status wait_batch(struct pipeline_object *self, int64_t limit_ms, struct stk_batch **batch, struct stk_error *err)
{
	/* First take a batch that is ready, without releasing the GIL: another thread might take the GIL meanwhile and keep it for milliseconds. This
	 * cannot deadlock, because no thread waits for the GIL while it holds the pipeline's lock. */
	enum stk_status status = stk_pipeline_next_within(self->p, 0, batch, err);

	if (status != STK_TIMEOUT)
		return status;
	for (int64_t waited = 0;; waited += SLICE_MS) {
		const int64_t slice = limit_ms >= 0 && limit_ms - waited < SLICE_MS ? limit_ms - waited : SLICE_MS;

		Py_BEGIN_ALLOW_THREADS status = stk_pipeline_next_within(self->p, slice, NULL, err);
		Py_END_ALLOW_THREADS if (PyErr_CheckSignals() < 0 || core_context_drain(self->context) < 0) return STK_SYSTEM;
		if (status == STK_OK)
			status = stk_pipeline_next_within(self->p, 0, batch, err);
		if (status != STK_TIMEOUT)
			return status;
		if (self->closing || self->interrupted)
			return STK_CANCELLED;
		if (limit_ms >= 0 && waited + slice >= limit_ms)
			return status;
	}
}

static void let_go(struct pipeline_object *self)
{
	PyObject *held = self->held;

	self->held = NULL;
	Py_XDECREF(held);
}

static PyObject *pipeline_next(PyObject *object, PyObject *args)
{
	struct pipeline_object *self = (struct pipeline_object *)object;
	struct core_state *state = PyType_GetModuleState(Py_TYPE(object));
	struct stk_batch *batch = NULL;
	struct stk_error err = {0};
	enum stk_status status;
	double seconds = -1;
	int hold = false;

	if (!PyArg_ParseTuple(args, "|dp:next", &seconds, &hold))
		return NULL;
	if (isnan(seconds)) {
		PyErr_SetString(PyExc_ValueError, "the timeout is nan: it takes seconds, or a negative number for none");
		return NULL;
	}
	self->failed.any = false;
	if (!pipeline_enter(self))
		return NULL;
	let_go(self);
	status = wait_batch(self, seconds < 0 || seconds > MOST_SECONDS ? -1 : (int64_t)(seconds * 1000), &batch, &err);
	self->ended = hold && status == STK_END;
	self->failed.any = stk_pipeline_failed_batch(self->p, &self->failed.epoch, &self->failed.planned, &self->failed.is_last);
	if (PyErr_Occurred() || core_context_drain(self->context) < 0) {
		if (batch)
			(void)!stk_pipeline_put_back(self->p, batch, NULL); /* cannot fail for the batch that was just taken */
		pipeline_leave(self);
		stk_batch_unref(&batch);
		return NULL;
	}
	pipeline_leave(self);
	if (status != STK_OK)
		return status == STK_END ? Py_NewRef(Py_None) : core_raise(status, &err);
	PyObject *made = core_batch_new(state->batch, batch);
	if (made && hold) {
		self->held = Py_NewRef(made);
		self->taker = PyThread_get_thread_ident();
	}
	return made;
}

static PyObject *pipeline_put_back(PyObject *object, PyObject *unused)
{
	struct pipeline_object *self = (struct pipeline_object *)object;
	struct stk_pipeline *p;
	struct stk_error err = {0};

	(void)unused;
	if (!self->held || self->taker != PyThread_get_thread_ident())
		return Py_NewRef(Py_False);
	if (!(p = pipeline_enter(self)))
		return NULL;
	PyObject *held = self->held; /* another thread may have let it go while this one waited to enter */
	const enum stk_status status = held ? stk_pipeline_put_back(p, core_batch_get(held), &err) : STK_OK;
	pipeline_leave(self);
	if (!held)
		return Py_NewRef(Py_False);
	let_go(self);
	return status == STK_OK ? Py_NewRef(Py_True) : core_raise(status, &err);
}

static PyObject *pipeline_held(PyObject *object, void *unused)
{
	const struct pipeline_object *self = (struct pipeline_object *)object;

	(void)unused;
	return Py_NewRef(self->held ? self->held : Py_None);
}

static PyObject *pipeline_failed(PyObject *object, void *unused)
{
	const struct pipeline_object *self = (struct pipeline_object *)object;

	(void)unused;
	if (!self->failed.any)
		return Py_NewRef(Py_None);
	return Py_BuildValue("LiO", (long long)self->failed.epoch, (int)self->failed.planned, self->failed.is_last ? Py_True : Py_False);
}

static int pipeline_set_held(PyObject *object, PyObject *value, void *unused)
{
	(void)unused;
	if (value != Py_None) {
		PyErr_SetString(PyExc_TypeError, "held can only be set to None");
		return -1;
	}
	let_go((struct pipeline_object *)object);
	return 0;
}

static PyObject *pipeline_ended(PyObject *object, void *unused)
{
	(void)unused;
	return Py_NewRef(((struct pipeline_object *)object)->ended ? Py_True : Py_False);
}

static int pipeline_set_ended(PyObject *object, PyObject *value, void *unused)
{
	const int on = value ? PyObject_IsTrue(value) : false;

	(void)unused;
	if (on >= 0)
		((struct pipeline_object *)object)->ended = on;
	return on < 0 ? -1 : 0;
}

static PyObject *pipeline_skip_epoch(PyObject *object, PyObject *unused)
{
	struct pipeline_object *self = (struct pipeline_object *)object;
	struct stk_pipeline *p = pipeline_enter(self);
	struct stk_error err = {0};
	enum stk_status status;

	(void)unused;
	if (!p)
		return NULL;
	Py_BEGIN_ALLOW_THREADS status = stk_pipeline_skip_epoch(p, &err);
	Py_END_ALLOW_THREADS pipeline_leave(self);
	return status == STK_OK ? Py_NewRef(Py_None) : core_raise(status, &err);
}

static PyObject *pipeline_cancel(PyObject *object, PyObject *unused)
{
	struct pipeline_object *self = (struct pipeline_object *)object;

	(void)unused;
	if (self->p && getpid() == self->pid)
		stk_pipeline_cancel(self->p);
	return Py_NewRef(Py_None);
}

static PyObject *pipeline_interrupt(PyObject *object, PyObject *on)
{
	const int truth = PyObject_IsTrue(on);

	if (truth < 0)
		return NULL;
	((struct pipeline_object *)object)->interrupted = truth;
	return Py_NewRef(Py_None);
}

CORE_LOCKED_METHOD(pipeline_start)
CORE_LOCKED_METHOD(pipeline_next)
CORE_LOCKED_METHOD(pipeline_put_back)
CORE_LOCKED_GET(pipeline_held)
CORE_LOCKED_SET(pipeline_set_held)
CORE_LOCKED_GET(pipeline_ended)
CORE_LOCKED_SET(pipeline_set_ended)
CORE_LOCKED_GET(pipeline_failed)
CORE_LOCKED_METHOD(pipeline_skip_epoch)
CORE_LOCKED_METHOD(pipeline_cancel)
CORE_LOCKED_METHOD(pipeline_interrupt)
CORE_LOCKED_METHOD(pipeline_close)
CORE_LOCKED_METHOD(pipeline_reader_meta)
CORE_LOCKED_METHOD(pipeline_readers)
CORE_LOCKED_METHOD(pipeline_lead)
CORE_LOCKED_METHOD(pipeline_class_name)
CORE_LOCKED_METHOD(pipeline_skipped)
CORE_LOCKED_METHOD(pipeline_output_desc)
CORE_LOCKED_METHOD(pipeline_explain)
CORE_LOCKED_METHOD(pipeline_save)
CORE_LOCKED_METHOD(pipeline_restore)
CORE_LOCKED_METHOD(pipeline_counters)
CORE_LOCKED_METHOD(pipeline_spans)
CORE_LOCKED_METHOD(pipeline_bad_samples)

static PyMethodDef pipeline_methods[] = {
	{"start", CORE_LOCKED(pipeline_start), METH_NOARGS, "start()\n--\n\nStarts to prepare batches, and returns at once."},
	{"next", CORE_LOCKED(pipeline_next), METH_VARARGS,
		"next(timeout=-1.0, hold=False)\n--\n\nThe next Batch; None once at the end of an epoch, if the source ends. timeout in seconds; "
		"< 0: no limit. hold: the Batch is also kept in `held`."},
	{"put_back", CORE_LOCKED(pipeline_put_back), METH_NOARGS,
		"put_back()\n--\n\nMakes the Batch in `held` the next one again, if this thread took it. Returns whether it did."},
	{"skip_epoch", CORE_LOCKED(pipeline_skip_epoch), METH_NOARGS, "skip_epoch()\n--\n\nThe next batch is the first of the next epoch."},
	{"cancel", CORE_LOCKED(pipeline_cancel), METH_NOARGS, "cancel()\n--\n\nEnds a wait in another thread, now and from then on."},
	{"interrupt", CORE_LOCKED(pipeline_interrupt), METH_O,
		"interrupt(on)\n--\n\nEnds waits for a batch with CancelledError while on is true. The pipeline keeps working."},
	{"close", CORE_LOCKED(pipeline_close), METH_NOARGS,
		"close()\n--\n\nStops the work; batches stay valid. False: a user's function still runs, and the pipeline ends when it returns."},
	{"reader_meta", CORE_LOCKED(pipeline_reader_meta), METH_O,
		"reader_meta(name)\n--\n\nA reader's metadata; None: the leading reader."},
	{"readers", CORE_LOCKED(pipeline_readers), METH_NOARGS, "readers()\n--\n\nNames of the readers, the leading one first."},
	{"lead", CORE_LOCKED(pipeline_lead), METH_O,
		"lead(reader)\n--\n\nMakes the reader's epochs those of the pipeline. Call before the first batch."},
	{"class_name", CORE_LOCKED(pipeline_class_name), METH_VARARGS, "class_name(reader, label)\n--\n\nName of a class, or None."},
	{"skipped", CORE_LOCKED(pipeline_skipped), METH_O,
		"skipped(reader)\n--\n\nThe number of files that a reader did not take as samples, and a description of them."},
	{"output_desc", CORE_LOCKED(pipeline_output_desc), METH_O,
		"output_desc(i)\n--\n\n(dtype, ndim, shape, layout) of an output as far as they are known."},
	{"explain", CORE_LOCKED(pipeline_explain), METH_O, "explain(json)\n--\n\nThe chains, passes and slots that run, as text or JSON."},
	{"save", CORE_LOCKED(pipeline_save), METH_NOARGS, "save()\n--\n\nThe state as JSON."},
	{"restore", CORE_LOCKED(pipeline_restore), METH_O,
		"restore(state)\n--\n\nContinues from a saved state. Call before the first batch."},
	{"counters", CORE_LOCKED(pipeline_counters), METH_NOARGS, "counters()\n--\n\nCounters since the start, by name."},
	{"spans", CORE_LOCKED(pipeline_spans), METH_NOARGS,
		"spans()\n--\n\nSpans: (name, stage, thread, batch, first, count, begin_ns, end_ns)."},
	{"bad_samples", CORE_LOCKED(pipeline_bad_samples), METH_NOARGS,
		"bad_samples()\n--\n\nErrors of samples that were skipped or replaced, oldest first; at most the last 10000."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef pipeline_getset[] = {
	{"held", CORE_LOCKED(pipeline_held), CORE_LOCKED(pipeline_set_held),
		"The Batch that put_back() returns to the pipeline; None: none.", NULL},
	{"ended", CORE_LOCKED(pipeline_ended), CORE_LOCKED(pipeline_set_ended),
		"Whether the last next() with hold=True returned None. The caller sets it to False after it has counted this end of an epoch.",
		NULL},
	{"failed", CORE_LOCKED(pipeline_failed), NULL,
		"(epoch, planned, is_last) of the batch whose error the last next() raised; None: it did not raise the error of a batch.",
		NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot pipeline_slots[] = {
	{Py_tp_doc, "Pipeline(context, graph, batch_size, ...)\n--\n\nA running graph."},
	{Py_tp_new, pipeline_new},
	{Py_tp_dealloc, pipeline_dealloc},
	{Py_tp_methods, pipeline_methods},
	{Py_tp_getset, pipeline_getset},
	{0, NULL},
};

PyTypeObject *core_pipeline_type(PyObject *module)
{
	return core_type(module, "stoker._core.Pipeline", sizeof(struct pipeline_object), 0, pipeline_slots);
}
