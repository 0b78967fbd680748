/* SPDX-License-Identifier: Apache-2.0
 * ImageDecoder: decodes one image after another on the calling thread, without the GIL. Only one thread at a time may use a decoder: stoker.imread
 * makes one for each thread. */
#include "core.h"

struct decoder_object {
	PyObject ob_base;
	struct stk_image_decoder *decoder;
	Py_buffer data; /* the open image's bytes; data.obj is NULL if it was opened by its path */
	bool busy;
};

static void decoder_dealloc(PyObject *object)
{
	struct decoder_object *self = (struct decoder_object *)object;

	stk_image_decoder_destroy(self->decoder);
	PyBuffer_Release(&self->data);
	core_free(object);
}

static PyObject *decoder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct decoder_object *self = core_new(type);
	struct stk_error err = {0};
	enum stk_status status;

	(void)args, (void)kwargs;
	if (!self)
		return NULL;
	status = stk_image_decoder_create(&self->decoder, &err);
	if (status == STK_OK)
		return (PyObject *)self;
	Py_DECREF(self);
	return core_raise(status, &err);
}

static PyObject *decoder_open(PyObject *object, PyObject *args)
{
	struct decoder_object *self = (struct decoder_object *)object;
	struct stk_image_request request = {.size = sizeof(request)};
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	int type, dtype, keeps, as_stored, strict;
	int64_t shape[3];
	PyObject *data, *path;
	enum stk_status status;

	if (!PyArg_ParseTuple(args, "OOiiipp:open", &path, &data, &type, &dtype, &keeps, &as_stored, &strict))
		return NULL;
	if (path != Py_None && !(request.path = core_text_of(path)))
		return NULL;
	if (!core_begin_call(&self->busy, "an ImageDecoder"))
		return NULL;
	PyBuffer_Release(&self->data);
	if (!request.path && PyObject_GetBuffer(data, &self->data, PyBUF_SIMPLE)) {
		self->busy = false;
		return NULL;
	}
	request.data = self->data.buf;
	request.bytes = (size_t)self->data.len;
	request.type = (enum stk_image_type)type;
	request.dtype = (enum stk_dtype)dtype;
	request.keeps_channels = keeps & 1;
	request.keeps_dtype = keeps & 2;
	request.as_stored = as_stored;
	request.lenient = !strict;
	request.interrupted = core_signal_came;
	Py_BEGIN_ALLOW_THREADS status = stk_image_open(self->decoder, &request, shape, &err);
	Py_END_ALLOW_THREADS self->busy = false;
	if (PyErr_Occurred())
		return NULL;
	if (status != STK_OK)
		return core_raise(status, &err);
	return Py_BuildValue("LLLi", (long long)shape[0], (long long)shape[1], (long long)shape[2], (int)stk_image_dtype(self->decoder));
}

static PyObject *decoder_read(PyObject *object, PyObject *out)
{
	struct decoder_object *self = (struct decoder_object *)object;
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	enum stk_status status;
	Py_buffer to;

	if (PyObject_GetBuffer(out, &to, PyBUF_WRITABLE))
		return NULL;
	if (!core_begin_call(&self->busy, "an ImageDecoder")) {
		PyBuffer_Release(&to);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS status = stk_image_read(self->decoder, to.buf, (size_t)to.len, &err);
	Py_END_ALLOW_THREADS self->busy = false;
	PyBuffer_Release(&to);
	PyBuffer_Release(&self->data);
	if (PyErr_Occurred())
		return NULL;
	return status == STK_OK ? Py_NewRef(Py_None) : core_raise(status, &err);
}

CORE_LOCKED_METHOD(decoder_open)
CORE_LOCKED_METHOD(decoder_read)

static PyMethodDef decoder_methods[] = {
	{"open", CORE_LOCKED(decoder_open), METH_VARARGS,
		"open(path, data, type, dtype, keeps, as_stored, strict)\n--\n\nReads a file, or takes its bytes if path is None, and returns (height, "
		"width, channels, dtype). dtype -1: the file's. keeps: of files that are no pictures, 1: all channels, 2: their type."},
	{"read", CORE_LOCKED(decoder_read), METH_O, "read(out)\n--\n\nWrites the pixels of the open image into out."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot decoder_slots[] = {
	{Py_tp_doc, "ImageDecoder()\n--\n\nDecodes images, one after another."},
	{Py_tp_new, decoder_new},
	{Py_tp_dealloc, decoder_dealloc},
	{Py_tp_methods, decoder_methods},
	{0, NULL},
};

PyTypeObject *core_image_decoder_type(PyObject *module)
{
	return core_type(module, "stoker._core.ImageDecoder", sizeof(struct decoder_object), 0, decoder_slots);
}
