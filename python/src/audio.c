/* SPDX-License-Identifier: Apache-2.0
 * AudioFile: an open sound file, whose windows are decoded without the GIL. Only one thread at a time may use it. */
#include "core.h"

struct audio_object {
	PyObject ob_base;
	struct stk_audio *audio;
	struct stk_audio_info info;
	Py_buffer data; /* the file's bytes; data.obj is NULL if the file was opened by its path */
	bool busy;
};

static void audio_dealloc(PyObject *object)
{
	struct audio_object *self = (struct audio_object *)object;

	/* This may wait for the threads of a store. */
	Py_BEGIN_ALLOW_THREADS stk_audio_close(self->audio);
	Py_END_ALLOW_THREADS PyBuffer_Release(&self->data);
	core_free(object);
}

static PyObject *audio_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct stk_audio_request request = {.size = sizeof(request)};
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	struct audio_object *self;
	PyObject *data, *path, *storage;
	enum stk_status status;
	int strict;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "OOpO:AudioFile", &path, &data, &strict, &storage) || !core_storage_get(storage, &request.storage))
		return NULL;
	if (path != Py_None && !(request.path = core_text_of(path)))
		return NULL;
	self = core_new(type);
	if (!self)
		return NULL;
	if (!request.path && PyObject_GetBuffer(data, &self->data, PyBUF_SIMPLE)) {
		Py_DECREF(self);
		return NULL;
	}
	request.data = self->data.buf;
	request.bytes = (size_t)self->data.len;
	request.lenient = !strict;
	request.interrupted = core_signal_came;
	self->info.size = sizeof(self->info);
	Py_BEGIN_ALLOW_THREADS status = stk_audio_open(&request, &self->audio, &self->info, &err);
	Py_END_ALLOW_THREADS if (status == STK_OK && !PyErr_Occurred()) return (PyObject *)self;
	Py_DECREF(self);
	return PyErr_Occurred() ? NULL : core_raise(status, &err);
}

static PyObject *audio_info(PyObject *object, PyObject *unused)
{
	const struct stk_audio_info *info = &((struct audio_object *)object)->info;

	(void)unused;
	return Py_BuildValue("ssiiiLLd", info->format, info->coding, (int)info->rate, (int)info->channels, (int)info->bits,
		(long long)info->frames, (long long)info->missing, info->origin);
}

static PyObject *audio_read(PyObject *object, PyObject *args)
{
	struct audio_object *self = (struct audio_object *)object;
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	long long first, count;
	enum stk_status status;
	int dtype, mono;
	PyObject *out;
	Py_buffer to;

	if (!PyArg_ParseTuple(args, "LLipO:read", &first, &count, &dtype, &mono, &out))
		return NULL;
	if (PyObject_GetBuffer(out, &to, PyBUF_WRITABLE))
		return NULL;
	if (!core_begin_call(&self->busy, "an AudioDecoder")) {
		PyBuffer_Release(&to);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS status =
		stk_audio_read(self->audio, first, count, (enum stk_dtype)dtype, mono, to.buf, (size_t)to.len, &err);
	Py_END_ALLOW_THREADS self->busy = false;
	PyBuffer_Release(&to);
	if (PyErr_Occurred())
		return NULL;
	return status == STK_OK ? Py_NewRef(Py_None) : core_raise(status, &err);
}

PyObject *core_audio_named(PyObject *module, PyObject *name)
{
	const char *text = core_text_of(name);

	(void)module;
	return text ? PyBool_FromLong(stk_audio_named(text)) : NULL;
}

CORE_LOCKED_METHOD(audio_read)

static PyMethodDef audio_methods[] = {
	{"info", audio_info, METH_NOARGS, "info()\n--\n\nReturns (format, coding, rate, channels, bits, frames, missing, origin)."},
	{"read", CORE_LOCKED(audio_read), METH_VARARGS,
		"read(first, count, dtype, mono, out)\n--\n\nWrites `count` frames from frame `first` on into out."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot audio_slots[] = {
	{Py_tp_doc, "AudioFile(path, data, strict, storage)\n--\n\nOpens a sound file, or its bytes if path is None."},
	{Py_tp_new, audio_new},
	{Py_tp_dealloc, audio_dealloc},
	{Py_tp_methods, audio_methods},
	{0, NULL},
};

PyTypeObject *core_audio_type(PyObject *module)
{
	return core_type(module, "stoker._core.AudioFile", sizeof(struct audio_object), 0, audio_slots);
}
