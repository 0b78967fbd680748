/* SPDX-License-Identifier: Apache-2.0
 * Batch: a reference to a finished batch or to one of its outputs, and access to metadata of its samples. */
#include "core.h"

#include <stdlib.h>
#include <unistd.h>

struct batch_object {
	PyObject ob_base;
	struct stk_batch *batch;
	int32_t output; /* index of the only output to which this object holds a reference; -1: all outputs */
	pid_t pid;
};

static void batch_dealloc(PyObject *object)
{
	struct batch_object *self = (struct batch_object *)object;

	/* A forked child must not release the batch: this would wait for a lock that a thread of the parent may have held during the fork. */
	if (getpid() == self->pid && self->output < 0)
		stk_batch_unref(&self->batch);
	else if (getpid() == self->pid)
		stk_batch_unref_output(&self->batch, self->output);
	core_free(object);
}

bool core_is_batch(PyObject *object)
{
	return core_is(object, batch_dealloc);
}

struct stk_batch *core_batch_get(PyObject *object)
{
	if (!core_is_batch(object)) {
		PyErr_SetString(PyExc_TypeError, "a stoker._core.Batch is needed");
		return NULL;
	}
	return ((struct batch_object *)object)->batch;
}

bool core_batch_has(PyObject *object, long output)
{
	const struct batch_object *self = (struct batch_object *)object;

	if (output < 0 || output >= stk_batch_outputs(self->batch))
		PyErr_Format(PyExc_IndexError, "there is no output %ld: the batch has %d", output, (int)stk_batch_outputs(self->batch));
	else if (self->output >= 0 && self->output != output)
		PyErr_Format(PyExc_IndexError, "there is no output %ld: this Batch holds only output %d", output, (int)self->output);
	else
		return true;
	return false;
}

PyObject *core_batch_new(PyTypeObject *type, struct stk_batch *batch)
{
	struct batch_object *self = core_new(type);

	if (!self) {
		stk_batch_unref(&batch);
		return NULL;
	}
	self->batch = batch;
	self->output = -1;
	self->pid = getpid();
	return (PyObject *)self;
}

/* The Python buffers over which core_wrap made a Batch. wrapped_free releases them when the Batch no longer needs their memory. */
struct wrapped {
	Py_ssize_t count;
	Py_buffer views[];
};

static void wrapped_free(void *user)
{
	struct wrapped *w = user;
	PyGILState_STATE gil;

	if (!Py_IsInitialized())
		return;
	gil = PyGILState_Ensure(); /* a framework may drop the last tensor on any thread */
	for (Py_ssize_t i = 0; i < w->count; i++)
		PyBuffer_Release(&w->views[i]);
	free(w);
	PyGILState_Release(gil);
}

static bool wrap_sample(struct wrapped *w, PyObject *samples, Py_ssize_t i, const char *layout, struct stk_tensor *out)
{
	PyObject *item = PySequence_GetItem(samples, i);
	const bool ok = item && PyObject_GetBuffer(item, &w->views[i], PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0;

	Py_XDECREF(item);
	if (!ok)
		return false;
	w->count = i + 1;
	return core_tensor_from(out, &w->views[i], layout);
}

PyObject *core_wrap(PyObject *module, PyObject *args)
{
	struct core_state *state = PyModule_GetState(module);
	struct stk_batch *batch = NULL;
	struct stk_tensor *tensors;
	struct stk_error err = {0};
	struct wrapped *w;
	const char *layout;
	PyObject *samples;
	Py_ssize_t n;
	bool ok = true;
	enum stk_status status = STK_OK;

	if (!PyArg_ParseTuple(args, "Os:wrap", &samples, &layout) || (n = PySequence_Size(samples)) < 0)
		return NULL;
	w = calloc(1, sizeof(*w) + (size_t)n * sizeof(w->views[0]));
	tensors = calloc((size_t)n + 1, sizeof(*tensors));
	if (!w || !tensors)
		ok = PyErr_NoMemory() != NULL;
	for (Py_ssize_t i = 0; ok && i < n; i++)
		ok = wrap_sample(w, samples, i, layout, &tensors[i]);
	if (ok)
		status = stk_batch_wrap(tensors, (int32_t)n, wrapped_free, w, &batch, &err);
	free(tensors);
	if (batch)
		return core_batch_new(state->batch, batch);
	if (ok)
		core_raise(status, &err);
	if (w)
		wrapped_free(w);
	return NULL;
}

static struct stk_batch *batch_of(PyObject *object)
{
	return ((struct batch_object *)object)->batch;
}

static Py_ssize_t batch_length(PyObject *object)
{
	return stk_batch_size(batch_of(object));
}

static const struct stk_tensor_list *output_at(PyObject *object, PyObject *index)
{
	const long i = PyLong_AsLong(index);

	if (i == -1 && PyErr_Occurred())
		return NULL;
	return core_batch_has(object, i) ? stk_batch_output(batch_of(object), (int32_t)i) : NULL;
}

static PyObject *batch_only(PyObject *object, PyObject *index)
{
	const long i = PyLong_AsLong(index);
	PyTypeObject *type = Py_TYPE(object);
	struct batch_object *self;

	if ((i == -1 && PyErr_Occurred()) || !core_batch_has(object, i))
		return NULL;
	self = core_new(type);
	if (!self)
		return NULL;
	self->batch = stk_batch_ref_output(batch_of(object), (int32_t)i);
	self->output = (int32_t)i;
	self->pid = getpid();
	return (PyObject *)self;
}

static PyObject *batch_describe(PyObject *object, PyObject *index)
{
	const struct stk_tensor_list *list = output_at(object, index);

	if (!list)
		return NULL;
	return Py_BuildValue("iOiNsi", (int)list->count, list->dense ? Py_True : Py_False, (int)list->desc.dtype,
		core_shape(&list->desc, -1), list->desc.layout, (int)list->device_id);
}

static PyObject *batch_shapes(PyObject *object, PyObject *index)
{
	const struct stk_tensor_list *list = output_at(object, index);
	PyObject *shapes = list ? PyList_New(0) : NULL;

	for (int32_t i = 0; shapes && i < list->count; i++) {
		PyObject *shape = core_shape(&list->samples[i].desc, -1);
		if (!shape || PyList_Append(shapes, shape) < 0)
			Py_CLEAR(shapes);
		Py_XDECREF(shape);
	}
	return shapes;
}

static PyObject *batch_sample(PyObject *object, PyObject *index)
{
	const long i = PyLong_AsLong(index);
	const struct stk_sample *s;

	if (i == -1 && PyErr_Occurred())
		return NULL;
	if (i < 0 || i >= stk_batch_size(batch_of(object)))
		return PyErr_Format(PyExc_IndexError, "there is no sample %ld: the batch has %d", i, (int)stk_batch_size(batch_of(object)));
	s = stk_batch_sample(batch_of(object), (int32_t)i);
	return Py_BuildValue("LLLNOi", (long long)s->epoch, (long long)s->position, (long long)s->id, core_text(s->uri ? s->uri : ""),
		s->padded ? Py_True : Py_False, (int)s->replaced);
}

static PyObject *batch_to_host(PyObject *object, PyObject *args)
{
	struct core_state *state = PyType_GetModuleState(Py_TYPE(object));
	struct stk_batch *copy = NULL;
	struct stk_error err = {0};
	enum stk_status status;
	int output, index = -1;

	if (!PyArg_ParseTuple(args, "i|i:to_host", &output, &index))
		return NULL;
	if (output >= 0 && output < stk_batch_outputs(batch_of(object)) && !core_batch_has(object, output))
		return NULL;
	Py_BEGIN_ALLOW_THREADS status = stk_batch_to_host(batch_of(object), output, index, &copy, &err);
	Py_END_ALLOW_THREADS return status == STK_OK ? core_batch_new(state->batch, copy) : core_raise(status, &err);
}

static PyObject *batch_copy(PyObject *object, PyObject *args)
{
	struct stk_error err = {0};
	enum stk_status status;
	unsigned long long address;
	int output, index;

	if (!PyArg_ParseTuple(args, "iiK:copy", &output, &index, &address) || !core_batch_has(object, output))
		return NULL;
	Py_BEGIN_ALLOW_THREADS status =
		stk_batch_copy(batch_of(object), output, index, (void *)(uintptr_t)address, SIZE_MAX, &err); /* the caller knows the size */
	Py_END_ALLOW_THREADS return status == STK_OK ? Py_NewRef(Py_None) : core_raise(status, &err);
}

static PyObject *batch_use_stream(PyObject *object, PyObject *stream)
{
	const struct batch_object *self = (struct batch_object *)object;
	const unsigned long long handle = PyLong_AsUnsignedLongLong(stream);
	struct stk_error err = {0};
	enum stk_status status;

	if (PyErr_Occurred())
		return NULL;
	status = self->output < 0 ? stk_batch_use_stream(self->batch, handle, &err)
				  : stk_batch_use_stream_output(self->batch, self->output, handle, &err);
	return status == STK_OK ? Py_NewRef(Py_None) : core_raise(status, &err);
}

/* capsules(views, stream): returns a tuple with the result of core_dlpack_output, a capsule or None, for each of the first len(views) outputs.
 * views: bytes, an enum core_view for each output. stream: the consumer's CUDA stream, or 0. */
static PyObject *batch_capsules(PyObject *object, PyObject *args)
{
	struct stk_batch *batch = batch_of(object);
	const int32_t outputs = stk_batch_outputs(batch);
	unsigned long long stream;
	const char *views;
	Py_ssize_t n;
	struct stk_error err = {0};
	PyObject *result;

	if (!PyArg_ParseTuple(args, "y#K:capsules", &views, &n, &stream))
		return NULL;
	if (n > outputs)
		return PyErr_Format(PyExc_IndexError, "%zd views of %d outputs", n, (int)outputs);
	if (((struct batch_object *)object)->output >= 0 && (n != 1 || !core_batch_has(object, 0)))
		return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "%zd views of a Batch that holds one output", n);
	if (stream) {
		enum stk_status status = stk_batch_use_stream(batch, stream, &err);
		if (status != STK_OK)
			return core_raise(status, &err);
	}
	result = PyTuple_New(n);
	for (Py_ssize_t i = 0; result && i < n; i++) {
		PyObject *capsule = core_dlpack_output(batch, (int32_t)i, (enum core_view)views[i]);
		if (!capsule || PyTuple_SetItem(result, i, capsule) < 0)
			Py_CLEAR(result);
	}
	return result;
}

static PyObject *batch_outputs(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromLong(stk_batch_outputs(batch_of(object)));
}

static PyObject *batch_epoch(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromLongLong(stk_batch_epoch(batch_of(object)));
}

static PyObject *batch_step(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromLongLong(stk_batch_step(batch_of(object)));
}

static PyObject *batch_planned(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromLong(stk_batch_planned(batch_of(object)));
}

static PyObject *batch_is_last(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(stk_batch_is_last(batch_of(object)));
}

static PyObject *batch_reduce(PyObject *object, PyObject *unused)
{
	(void)object, (void)unused;
	PyErr_SetString(PyExc_TypeError,
		"outputs of a pipeline cannot be pickled: they lie in its memory. np.array(tensor), or as_array() of a list, is "
		"a copy that can; take as_cpu() of outputs on a GPU first");
	return NULL;
}

static PyMethodDef batch_methods[] = {
	{"describe", batch_describe, METH_O,
		"describe(output)\n--\n\n(count, dense, dtype, shape, layout, device_id); an extent that differs between samples is -1."},
	{"shapes", batch_shapes, METH_O, "shapes(output)\n--\n\nShapes of the samples."},
	{"to_host", batch_to_host, METH_VARARGS,
		"to_host(output, index=-1)\n--\n\nA Batch of this one output, or of one sample of it, copied to host memory."},
	{"copy", batch_copy, METH_VARARGS,
		"copy(output, index, address)\n--\n\nCopies a sample of an output, or with -1 the dense output, to an address in host memory."},
	{"use_stream", batch_use_stream, METH_O,
		"use_stream(stream)\n--\n\nA stream reads the batch: its memory is not written again before the stream's work so far has "
		"ended."},
	{"only", batch_only, METH_O, "only(output)\n--\n\nA Batch that holds only this output's memory, with the same samples."},
	{"capsules", batch_capsules, METH_VARARGS,
		"capsules(views, stream)\n--\n\nDLPack capsules of the first len(views) outputs, for a stream that reads them (as DLPack "
		"numbers them; 0: none). A byte a view: 0 as it lies, 1 channels first, 2 numbers as a vector. None for samples that "
		"differ in shape."},
	{"__reduce__", batch_reduce, METH_NOARGS, "Raises TypeError: the memory is the pipeline's."},
	{"sample", batch_sample, METH_O, "sample(i)\n--\n\n(epoch, position, id, uri, padded, replaced)."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef batch_getset[] = {
	{"outputs", batch_outputs, NULL, "Number of outputs.", NULL},
	{"epoch", batch_epoch, NULL, "Epoch of the batch.", NULL},
	{"step", batch_step, NULL, "Step in the epoch.", NULL},
	{"planned", batch_planned, NULL, "Number of samples that the batch would have if none were bad.", NULL},
	{"is_last", batch_is_last, NULL, "Whether this is the last batch of its epoch.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot batch_slots[] = {
	{Py_tp_doc, "A finished batch. The memory of an output is reused when this object and all tensors over the output are gone."},
	{Py_tp_dealloc, batch_dealloc},
	{Py_tp_methods, batch_methods},
	{Py_tp_getset, batch_getset},
	{Py_sq_length, batch_length},
	{0, NULL},
};

PyTypeObject *core_batch_type(PyObject *module)
{
	return core_type(module, "stoker._core.Batch", sizeof(struct batch_object), Py_TPFLAGS_DISALLOW_INSTANTIATION, batch_slots);
}
