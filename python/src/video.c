/* SPDX-License-Identifier: Apache-2.0
 * Video: an open video file, whose frames are decoded without the GIL, on the calling thread or on a GPU. Only one thread at a time may use it. */
#include "core.h"

#include <string.h>

struct video_object {
	PyObject ob_base;
	struct stk_video *video;
	Py_buffer data; /* the file's bytes, if it was opened from memory */
	PyObject *file; /* called with (offset, n), returns n bytes of the file; or NULL */
	bool busy;
};

static void video_dealloc(PyObject *object)
{
	struct video_object *self = (struct video_object *)object;

	/* This may wait for the GPU, which may wait for a function that needs the GIL; or for the threads of a store. */
	Py_BEGIN_ALLOW_THREADS stk_video_close(self->video);
	Py_END_ALLOW_THREADS PyBuffer_Release(&self->data);
	Py_XDECREF(self->file);
	core_free(object);
}

/* Reads from the user's file object. An exception of its function stays set until the call that reads returns NULL to Python. */
static enum stk_status read_file(void *user, int64_t offset, void *to, size_t n, struct stk_error *err)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	PyObject *bytes = PyErr_Occurred() ? NULL : PyObject_CallFunction(user, "Ln", (long long)offset, (Py_ssize_t)n);
	Py_buffer view;
	enum stk_status status = STK_USER;

	(void)err;
	if (bytes && PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE) == 0) {
		if ((size_t)view.len == n) {
			memcpy(to, view.buf, n);
			status = STK_OK;
		} else
			PyErr_Format(PyExc_OSError, "the file gave %zd bytes at %lld instead of %zu", view.len, (long long)offset, n);
		PyBuffer_Release(&view);
	}
	Py_XDECREF(bytes);
	PyGILState_Release(gil);
	return status;
}

static PyObject *fail(enum stk_status status, const struct stk_error *err)
{
	return PyErr_Occurred() ? NULL : core_raise(status, err);
}

static PyObject *video_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct stk_video_request request = {.size = sizeof(request), .interrupted = core_signal_came};
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	PyObject *path, *data, *file, *storage;
	struct video_object *self;
	enum stk_status status;
	long long size;
	int stream, strict;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "OOOLOip:Video", &path, &data, &file, &size, &storage, &stream, &strict) ||
		!core_storage_get(storage, &request.storage))
		return NULL;
	if (path != Py_None && !(request.path = core_text_of(path)))
		return NULL;
	self = core_new(type);
	if (!self)
		return NULL;
	if (data != Py_None) {
		if (PyObject_GetBuffer(data, &self->data, PyBUF_SIMPLE)) {
			Py_DECREF(self);
			return NULL;
		}
		request.data = self->data.buf ? self->data.buf : "";
		request.bytes = self->data.len;
	} else if (file != Py_None) {
		self->file = Py_NewRef(file);
		request.read = read_file;
		request.read_user = file;
		request.bytes = size;
	}
	request.stream = stream;
	request.lenient = !strict;
	Py_BEGIN_ALLOW_THREADS status = stk_video_open(&request, &self->video, &err);
	Py_END_ALLOW_THREADS if (status == STK_OK && !PyErr_Occurred()) return (PyObject *)self;
	Py_DECREF(self);
	return fail(status, &err);
}

static PyObject *video_info(PyObject *object, PyObject *unused)
{
	struct video_object *self = (struct video_object *)object;
	struct stk_video_info i = {.size = sizeof(i)};
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	enum stk_status status = stk_video_describe(self->video, &i, &err);

	(void)unused;
	if (status)
		return core_raise(status, &err);
	return Py_BuildValue("{s:i,s:i,s:i,s:i,s:L,s:L,s:L,s:d,s:d,s:d,s:d,s:d,s:s,s:s}", "stream", i.stream, "width", i.width, "height",
		i.height, "rotation", i.rotation, "frames", (long long)i.frames, "keys", (long long)i.keys, "bytes", (long long)i.bytes,
		"begin", i.begin, "end", i.end, "duration", i.duration, "average_fps", i.average_fps, "bit_rate", i.bit_rate, "codec",
		i.codec, "container", i.container);
}

static PyObject *video_frame(PyObject *object, PyObject *number)
{
	struct video_object *self = (struct video_object *)object;
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	struct stk_video_frame frame;
	long long i = PyLong_AsLongLong(number);
	enum stk_status status;

	if (i == -1 && PyErr_Occurred())
		return NULL;
	status = stk_video_frame(self->video, i, &frame, &err);
	return status ? core_raise(status, &err) : Py_BuildValue("ddO", frame.begin, frame.duration, frame.key ? Py_True : Py_False);
}

static PyObject *video_shown(PyObject *object, PyObject *seconds)
{
	struct video_object *self = (struct video_object *)object;
	double t = PyFloat_AsDouble(seconds);

	if (t == -1 && PyErr_Occurred())
		return NULL;
	return PyLong_FromLongLong(stk_video_shown(self->video, t));
}

static PyObject *video_range(PyObject *object, PyObject *args)
{
	struct video_object *self = (struct video_object *)object;
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	long long first, last;
	int64_t offset, length;

	if (!PyArg_ParseTuple(args, "LL:range", &first, &last))
		return NULL;
	enum stk_status status = stk_video_range(self->video, first, last, &offset, &length, &err);
	return status ? core_raise(status, &err) : Py_BuildValue("LL", (long long)offset, (long long)length);
}

static int64_t *numbers_of(PyObject *list, Py_ssize_t *count)
{
	int64_t *numbers;

	*count = PyList_Size(list);
	if (*count < 0)
		return NULL;
	numbers = PyMem_Malloc((size_t)(*count + 1) * sizeof(*numbers));
	if (!numbers)
		return (int64_t *)PyErr_NoMemory();
	for (Py_ssize_t i = 0; i < *count; i++) {
		numbers[i] = PyLong_AsLongLong(PyList_GetItem(list, i));
		if (numbers[i] == -1 && PyErr_Occurred()) {
			PyMem_Free(numbers);
			return NULL;
		}
	}
	return numbers;
}

static PyObject *video_read(PyObject *object, PyObject *args)
{
	struct video_object *self = (struct video_object *)object;
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	const uint8_t *data = NULL;
	int32_t height = 0, width = 0;
	PyObject *list, *bytes;
	enum stk_status status;
	int64_t *frames;
	Py_ssize_t count;
	int planar;

	if (!PyArg_ParseTuple(args, "Op:read", &list, &planar) || !(frames = numbers_of(list, &count)))
		return NULL;
	if (!core_begin_call(&self->busy, "a VideoDecoder")) {
		PyMem_Free(frames);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS status = stk_video_read(self->video, frames, count, planar, &data, &height, &width, &err);
	Py_END_ALLOW_THREADS PyMem_Free(frames);
	bytes = status || PyErr_Occurred() ? fail(status, &err)
					   : PyByteArray_FromStringAndSize((const char *)data, count * height * width * 3);
	self->busy = false;
	return bytes ? Py_BuildValue("Nii", bytes, height, width) : NULL;
}

static PyObject *video_use_gpu(PyObject *object, PyObject *device)
{
	struct video_object *self = (struct video_object *)object;
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	struct stk_video_device *d = core_video_device_get(device);
	enum stk_status status;

	if (!d)
		return NULL;
	Py_BEGIN_ALLOW_THREADS status = stk_video_use_gpu(self->video, d, &err);
	Py_END_ALLOW_THREADS return status ? core_raise(status, &err) : Py_NewRef(Py_None);
}

static PyObject *video_read_gpu(PyObject *object, PyObject *args)
{
	struct video_object *self = (struct video_object *)object;
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	unsigned long long to, stream;
	enum stk_status status;
	Py_ssize_t count;
	int64_t *frames;
	PyObject *list;
	int planar;

	if (!PyArg_ParseTuple(args, "OpKK:read_gpu", &list, &planar, &to, &stream) || !(frames = numbers_of(list, &count)))
		return NULL;
	if (!core_begin_call(&self->busy, "a VideoDecoder")) {
		PyMem_Free(frames);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS status = stk_video_read_gpu(self->video, frames, count, planar, to, (void *)(uintptr_t)stream, &err);
	Py_END_ALLOW_THREADS PyMem_Free(frames);
	self->busy = false;
	return status || PyErr_Occurred() ? fail(status, &err) : Py_NewRef(Py_None);
}

static PyObject *video_why_on_cores(PyObject *object, PyObject *unused)
{
	(void)unused;
	return PyUnicode_DecodeUTF8(stk_video_why_on_cores(((struct video_object *)object)->video),
		(Py_ssize_t)strlen(stk_video_why_on_cores(((struct video_object *)object)->video)), "replace");
}

static PyObject *video_counters(PyObject *object, PyObject *unused)
{
	struct video_object *self = (struct video_object *)object;
	struct stk_counter counters[16];
	size_t n = stk_video_counters(self->video, counters, 16);
	PyObject *dict = PyDict_New();

	(void)unused;
	for (size_t i = 0; dict && i < n; i++) {
		const size_t length = strlen(counters[i].name), ending = sizeof "_seconds" - 1;
		const bool seconds = length > ending && strcmp(counters[i].name + length - ending, "_seconds") == 0;
		PyObject *value = seconds ? PyFloat_FromDouble(counters[i].value) : PyLong_FromDouble(counters[i].value);

		if (!value || PyDict_SetItemString(dict, counters[i].name, value) < 0)
			Py_CLEAR(dict);
		Py_XDECREF(value);
	}
	return dict;
}

CORE_LOCKED_METHOD(video_info)
CORE_LOCKED_METHOD(video_frame)
CORE_LOCKED_METHOD(video_shown)
CORE_LOCKED_METHOD(video_range)
CORE_LOCKED_METHOD(video_read)
CORE_LOCKED_METHOD(video_use_gpu)
CORE_LOCKED_METHOD(video_read_gpu)
CORE_LOCKED_METHOD(video_why_on_cores)
CORE_LOCKED_METHOD(video_counters)

static PyMethodDef video_methods[] = {
	{"info", CORE_LOCKED(video_info), METH_NOARGS, "info()\n--\n\nFacts about the video, as a dict."},
	{"frame", CORE_LOCKED(video_frame), METH_O, "frame(i)\n--\n\n(begin, duration, key) of a frame."},
	{"shown", CORE_LOCKED(video_shown), METH_O, "shown(seconds)\n--\n\nThe frame that is shown at a time; -1 before the first."},
	{"range", CORE_LOCKED(video_range), METH_VARARGS,
		"range(first, last)\n--\n\n(offset, length) of the bytes that these frames need."},
	{"read", CORE_LOCKED(video_read), METH_VARARGS, "read(frames, planar)\n--\n\n(bytes, height, width) of frames, uint8 in RGB."},
	{"use_gpu", CORE_LOCKED(video_use_gpu), METH_O, "use_gpu(device)\n--\n\nMakes read_gpu decode on a GPU."},
	{"read_gpu", CORE_LOCKED(video_read_gpu), METH_VARARGS,
		"read_gpu(frames, planar, to, stream)\n--\n\nWrites frames to memory of the GPU at an address."},
	{"why_on_cores", CORE_LOCKED(video_why_on_cores), METH_NOARGS,
		"why_on_cores()\n--\n\nWhy the cores decoded frames for the GPU; empty if they did not."},
	{"counters", CORE_LOCKED(video_counters), METH_NOARGS, "counters()\n--\n\nWhat decoding has cost so far, as a dict."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot video_slots[] = {
	{Py_tp_doc, "Video(path, data, file, size, storage, stream, strict)\n--\n\nAn open video."},
	{Py_tp_new, video_new},
	{Py_tp_dealloc, video_dealloc},
	{Py_tp_methods, video_methods},
	{0, NULL},
};

PyTypeObject *core_video_type(PyObject *module)
{
	return core_type(module, "stoker._core.Video", sizeof(struct video_object), 0, video_slots);
}
