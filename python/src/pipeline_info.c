/* SPDX-License-Identifier: Apache-2.0
 * Methods of Pipeline for metadata, state and counters. */
#include "pipeline.h"

/* Sets *name to the text of a str or bytes, which `object` owns, or to NULL for None. Returns false with an exception for texts that core_text_of
 * refuses. */
static bool name_from(PyObject *object, const char **name)
{
	*name = NULL;
	if (object == Py_None)
		return true;
	*name = core_text_of(object);
	return *name != NULL;
}

PyObject *pipeline_reader_meta(PyObject *object, PyObject *name)
{
	struct pipeline_object *self = (struct pipeline_object *)object;
	struct stk_reader_meta m = {0};
	struct stk_error err = {0};
	enum stk_status status;
	struct stk_pipeline *p;
	const char *text;

	p = name_from(name, &text) ? pipeline_enter_briefly(self) : NULL;
	if (!p)
		return NULL;
	Py_BEGIN_ALLOW_THREADS status = stk_pipeline_reader_meta(p, text, &m, &err);
	Py_END_ALLOW_THREADS pipeline_leave(self);
	if (status != STK_OK)
		return core_raise(status, &err);
	return Py_BuildValue("{s:L,s:L,s:L,s:i,s:i,s:L,s:O,s:O,s:O,s:O,s:O,s:L,s:K}", "samples", (long long)m.samples, "epoch_size",
		(long long)m.epoch_size, "epoch_size_padded", (long long)m.epoch_size_padded, "number_of_shards", (int)m.shards, "shard_id",
		(int)m.shard_id, "steps", (long long)m.steps, "pad_last_batch", m.pad_last_batch ? Py_True : Py_False, "stick_to_shard",
		m.stick_to_shard ? Py_True : Py_False, "wraps", m.wraps ? Py_True : Py_False, "contiguous",
		m.contiguous ? Py_True : Py_False, "keeps", m.keeps ? Py_True : Py_False, "classes", (long long)m.classes, "fingerprint",
		(unsigned long long)m.fingerprint);
}

PyObject *pipeline_readers(PyObject *object, PyObject *unused)
{
	struct stk_pipeline *p = pipeline_peek((struct pipeline_object *)object);
	PyObject *names = p ? PyList_New(0) : NULL;

	(void)unused;
	for (int32_t i = 0; names && i < stk_pipeline_readers(p); i++) {
		PyObject *name = core_text(stk_pipeline_reader_name(p, i));
		if (!name || PyList_Append(names, name) < 0)
			Py_CLEAR(names);
		Py_XDECREF(name);
	}
	return names;
}

PyObject *pipeline_lead(PyObject *object, PyObject *name)
{
	struct pipeline_object *self = (struct pipeline_object *)object;
	struct stk_error err = {0};
	const char *text;
	struct stk_pipeline *p = name_from(name, &text) ? pipeline_enter(self) : NULL;

	if (!p)
		return NULL;
	enum stk_status status = stk_pipeline_lead(p, text, &err);
	pipeline_leave(self);
	return status == STK_OK ? Py_NewRef(Py_None) : core_raise(status, &err);
}

PyObject *pipeline_class_name(PyObject *object, PyObject *args)
{
	struct stk_pipeline *p = pipeline_peek((struct pipeline_object *)object);
	const char *reader = NULL, *name;
	long long label;

	if (!p || !PyArg_ParseTuple(args, "zL:class_name", &reader, &label))
		return NULL;
	name = stk_pipeline_class_name(p, reader, label);
	return name ? core_text(name) : Py_NewRef(Py_None);
}

PyObject *pipeline_skipped(PyObject *object, PyObject *reader)
{
	struct stk_pipeline *p = pipeline_peek((struct pipeline_object *)object);
	const char *name = NULL, *text;

	if (!p || (reader != Py_None && !(name = core_text_of(reader))))
		return NULL;
	const int64_t count = stk_pipeline_reader_skipped(p, name, &text);
	return Py_BuildValue("(LN)", (long long)count, core_text(text));
}

PyObject *pipeline_output_desc(PyObject *object, PyObject *index)
{
	struct stk_pipeline *p = pipeline_peek((struct pipeline_object *)object);
	const long i = PyLong_AsLong(index);
	struct stk_desc desc = {0};
	PyObject *shape;

	if (!p || (i == -1 && PyErr_Occurred()))
		return NULL;
	if (i < 0 || i >= stk_pipeline_outputs(p) || stk_pipeline_output_desc(p, (int32_t)i, &desc) != STK_OK)
		return PyErr_Format(PyExc_IndexError, "there is no output %ld: the pipeline has %d", i, (int)stk_pipeline_outputs(p));
	shape = PyList_New(0);
	for (int32_t d = 0; shape && d < desc.ndim; d++) {
		PyObject *extent = PyLong_FromLongLong(desc.shape[d]);
		if (!extent || PyList_Append(shape, extent) < 0)
			Py_CLEAR(shape);
		Py_XDECREF(extent);
	}
	return shape ? Py_BuildValue("iiNs", (int)desc.dtype, (int)desc.ndim, shape, desc.layout) : NULL;
}

/* Converts a text that the library allocated to a str, and frees the text. If status is not STK_OK, returns NULL with the exception for `err`. */
static PyObject *take_text(enum stk_status status, char *text, const struct stk_error *err)
{
	PyObject *result;

	if (status != STK_OK)
		return core_raise(status, err);
	result = core_text(text);
	stk_text_free(text);
	return result;
}

PyObject *pipeline_explain(PyObject *object, PyObject *json)
{
	struct pipeline_object *self = (struct pipeline_object *)object;
	const int as_json = PyObject_IsTrue(json);
	struct stk_pipeline *p = as_json < 0 ? NULL : pipeline_enter_briefly(self);
	struct stk_error err = {0};
	enum stk_status status;
	char *text = NULL;

	if (!p)
		return NULL;
	Py_BEGIN_ALLOW_THREADS status = stk_pipeline_explain(p, as_json, &text, &err);
	Py_END_ALLOW_THREADS pipeline_leave(self);
	return take_text(status, text, &err);
}

PyObject *pipeline_save(PyObject *object, PyObject *unused)
{
	struct pipeline_object *self = (struct pipeline_object *)object;
	struct stk_pipeline *p = pipeline_enter_briefly(self);
	struct stk_error err = {0};
	enum stk_status status;
	char *text = NULL;

	(void)unused;
	if (!p)
		return NULL;
	Py_BEGIN_ALLOW_THREADS status = stk_pipeline_save(p, &text, &err);
	Py_END_ALLOW_THREADS pipeline_leave(self);
	return take_text(status, text, &err);
}

PyObject *pipeline_restore(PyObject *object, PyObject *state)
{
	struct pipeline_object *self = (struct pipeline_object *)object;
	struct stk_error err = {0};
	enum stk_status status;
	struct stk_pipeline *p;
	const char *text;
	Py_ssize_t size;

	text = PyUnicode_AsUTF8AndSize(state, &size);
	p = text ? pipeline_enter(self) : NULL;
	if (!p)
		return NULL;
	Py_BEGIN_ALLOW_THREADS status = stk_pipeline_restore(p, text, (size_t)size, &err);
	Py_END_ALLOW_THREADS pipeline_leave(self);
	return status == STK_OK ? Py_NewRef(Py_None) : core_raise(status, &err);
}

PyObject *pipeline_counters(PyObject *object, PyObject *unused)
{
	struct stk_pipeline *p = pipeline_peek((struct pipeline_object *)object);
	struct stk_counter counters[128];
	PyObject *result = p ? PyDict_New() : NULL;
	size_t n;

	(void)unused;
	if (!result)
		return NULL;
	n = stk_pipeline_counters(p, counters, sizeof(counters) / sizeof(counters[0]));
	for (size_t i = 0; result && i < n && i < sizeof(counters) / sizeof(counters[0]); i++) {
		PyObject *value = PyFloat_FromDouble(counters[i].value);
		if (!value || PyDict_SetItemString(result, counters[i].name, value) < 0)
			Py_CLEAR(result);
		Py_XDECREF(value);
	}
	return result;
}

PyObject *pipeline_spans(PyObject *object, PyObject *unused)
{
	struct stk_pipeline *p = pipeline_peek((struct pipeline_object *)object);
	const size_t capacity = p ? stk_pipeline_spans(p, NULL, 0) : 0;
	struct stk_span *spans = p ? PyMem_Calloc(capacity + 1, sizeof(*spans)) : NULL;
	PyObject *result = NULL;
	size_t n;

	(void)unused;
	if (!spans)
		return p ? PyErr_NoMemory() : NULL;
	n = stk_pipeline_spans(p, spans, capacity);
	result = PyList_New(0);
	for (size_t i = 0; result && i < (n < capacity ? n : capacity); i++) {
		const struct stk_span *s = &spans[i];
		PyObject *span = Py_BuildValue("siiLiiLL", s->name, (int)s->stage, (int)s->thread, (long long)s->batch, (int)s->first,
			(int)s->count, (long long)s->begin_ns, (long long)s->end_ns);
		if (!span || PyList_Append(result, span) < 0)
			Py_CLEAR(result);
		Py_XDECREF(span);
	}
	PyMem_Free(spans);
	return result;
}

PyObject *pipeline_bad_samples(PyObject *object, PyObject *unused)
{
	struct stk_pipeline *p = pipeline_peek((struct pipeline_object *)object);
	PyObject *result = p ? PyList_New(0) : NULL;
	struct stk_error err = {0};

	(void)unused;
	const int64_t n = p ? stk_pipeline_bad_samples(p) : 0;
	for (int64_t i = n > STK_BAD_SAMPLES_KEPT ? n - STK_BAD_SAMPLES_KEPT : 0; result && i < n; i++) {
		if (!stk_pipeline_bad_sample(p, i, &err))
			continue; /* another thread has taken a batch meanwhile, whose bad samples replaced this one */
		PyObject *bad =
			Py_BuildValue("sNNNLLLN", stk_status_name(err.code), core_text(err.message), core_text(err.op), core_text(err.uri),
				(long long)err.sample, (long long)err.epoch, (long long)err.offset, PyBool_FromLong(err.missing));
		if (!bad || PyList_Append(result, bad) < 0)
			Py_CLEAR(result);
		Py_XDECREF(bad);
	}
	return result;
}
