/* SPDX-License-Identifier: Apache-2.0
 * VideoDevice: the video decoder of a GPU. */
#include "core.h"

struct device_object {
	PyObject ob_base;
	struct stk_video_device *device;
};

static void device_dealloc(PyObject *object)
{
	struct stk_video_device *device = ((struct device_object *)object)->device;

	Py_BEGIN_ALLOW_THREADS stk_video_device_close(device);
	Py_END_ALLOW_THREADS core_free(object);
}

struct stk_video_device *core_video_device_get(PyObject *object)
{
	if (core_is(object, device_dealloc))
		return ((struct device_object *)object)->device;
	PyErr_SetString(PyExc_TypeError, "a stoker._core.VideoDevice is needed");
	return NULL;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	struct device_object *self;
	enum stk_status status;
	int number;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "i:VideoDevice", &number))
		return NULL;
	self = core_new(type);
	if (!self)
		return NULL;
	Py_BEGIN_ALLOW_THREADS status = stk_video_device_open(number, &self->device, &err);
	Py_END_ALLOW_THREADS if (status == STK_OK) return (PyObject *)self;
	Py_DECREF(self);
	return core_raise(status, &err);
}

static PyType_Slot device_slots[] = {
	{Py_tp_doc, "VideoDevice(number)\n--\n\nThe video decoder of a GPU."},
	{Py_tp_new, device_new},
	{Py_tp_dealloc, device_dealloc},
	{0, NULL},
};

PyTypeObject *core_video_device_type(PyObject *module)
{
	return core_type(module, "stoker._core.VideoDevice", sizeof(struct device_object), 0, device_slots);
}
