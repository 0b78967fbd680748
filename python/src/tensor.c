/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor: one sample of a batch, or a whole dense output, for other libraries: through the buffer protocol, DLPack and NumPy's array interface.
 * Its memory is the pipeline's output memory (a slot), or the buffers over which core_wrap made the Batch. The memory is writable, and is not reused as long
 * as the tensor or an object made from it exists. */
#include "core.h"

#include <stddef.h>
#include <string.h>

struct tensor_object {
	PyObject ob_base;
	PyObject *batch;
	int32_t output, index; /* index -1: the whole output */
	enum stk_dtype dtype;
	int32_t ndim;
	void *data;
	Py_ssize_t shape[STK_MAX_DIMS + 1], strides[STK_MAX_DIMS + 1]; /* strides in bytes */
	char layout[STK_MAX_DIMS + 2];
	int32_t device_id;
};

static void tensor_dealloc(PyObject *object)
{

	Py_XDECREF(((struct tensor_object *)object)->batch);
	core_free(object);
}

static void tensor_describe(struct tensor_object *self, const struct stk_desc *desc, int32_t count)
{
	Py_ssize_t stride = (Py_ssize_t)stk_dtype_size(desc->dtype);
	const int lead = count >= 0;

	self->dtype = desc->dtype;
	self->ndim = desc->ndim + lead;
	if (lead)
		self->shape[0] = count;
	for (int32_t d = 0; d < desc->ndim; d++)
		self->shape[d + lead] = (Py_ssize_t)desc->shape[d];
	for (int32_t d = self->ndim; d-- > 0;) {
		self->strides[d] = stride;
		stride *= self->shape[d];
	}
	if (desc->layout[0] || (lead && desc->ndim == 0))
		PyOS_snprintf(self->layout, sizeof(self->layout), "%s%s", lead ? "N" : "", desc->layout);
}

/* Sets an exception for an output whose samples differ in shape. Its message names two samples with their shapes. Returns NULL. */
static PyObject *not_dense(struct stk_batch *batch, int32_t output)
{
	struct stk_error err = {0};
	void *managed = NULL;
	enum stk_status status = stk_batch_dlpack(batch, output, -1, &managed, &err);

	if (status == STK_OK) {
		PyErr_SetString(PyExc_SystemError, "the output is dense after all");
		return NULL;
	}
	return core_raise(status, &err);
}

/* Makes a tensor from arguments whose first one is not a Batch. The class's method _over converts them to the constructor's arguments (batch, output,
 * index). On failure, returns NULL with an exception set. */
static PyObject *tensor_over(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	PyObject *over = PyObject_GetAttrString((PyObject *)type, "_over");
	PyObject *arguments = over ? PyObject_Call(over, args, kwargs) : NULL;
	PyObject *tensor = NULL;

	if (arguments && (!PyTuple_Check(arguments) || !core_batch_get(PyTuple_GetItem(arguments, 0))))
		PyErr_SetString(PyExc_TypeError, "a stoker._core.Batch is needed");
	else if (arguments)
		tensor = PyObject_Call((PyObject *)type, arguments, NULL);
	Py_XDECREF(arguments);
	Py_XDECREF(over);
	return tensor;
}

static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"batch", "output", "index", NULL};
	const struct stk_tensor_list *list;
	struct tensor_object *self;
	struct stk_batch *batch;
	PyObject *object;
	int output, index = -1;

	if (PyTuple_Size(args) < 1 || !core_is_batch(PyTuple_GetItem(args, 0)))
		return tensor_over(type, args, kwargs);
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oi|i:Tensor", names, &object, &output, &index))
		return NULL;
	batch = core_batch_get(object);
	if (!batch)
		return NULL;
	if (!core_batch_has(object, output))
		return NULL;
	list = stk_batch_output(batch, output);
	if (index < -1 || index >= list->count)
		return PyErr_Format(PyExc_IndexError, "there is no sample %d: the list has %d", index, (int)list->count);
	if (index < 0 && !list->dense)
		return not_dense(batch, output);
	self = core_new(type);
	if (!self)
		return NULL;
	self->batch = Py_NewRef(object);
	self->output = output;
	self->index = index;
	self->device_id = list->device_id;
	self->data = index < 0 ? list->data : list->samples[index].data;
	tensor_describe(self, index < 0 ? &list->desc : &list->samples[index].desc, index < 0 ? list->count : -1);
	return (PyObject *)self;
}

/* Returns an element type's format character of Python's module struct; NULL if that module lacks the type. */
static const char *dtype_format(enum stk_dtype dtype)
{
	static const char *const formats[STK_DTYPE_COUNT] = {
		[STK_UINT8] = "B",
		[STK_UINT16] = "H",
		[STK_UINT32] = "I",
		[STK_UINT64] = "Q",
		[STK_INT8] = "b",
		[STK_INT16] = "h",
		[STK_INT32] = "i",
		[STK_INT64] = "q",
		[STK_FLOAT16] = "e",
		[STK_FLOAT] = "f",
		[STK_FLOAT64] = "d",
		[STK_BOOL] = "?",
	};

	return dtype >= 0 && dtype < STK_DTYPE_COUNT ? formats[dtype] : NULL;
}

static int tensor_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
	struct tensor_object *self = (struct tensor_object *)object;
	const char *format = dtype_format(self->dtype);

	view->obj = NULL;
	if ((int)self->dtype > (int)STK_DTYPE_COUNT) {
		PyErr_Format(PyExc_TypeError,
			"values of an enumeration (%s) cannot become an array: convert them to numbers with fn.cast(x, dtype=types.INT32) in the pipeline",
			stk_dtype_name(self->dtype));
		return -1;
	}
	if (self->device_id >= 0 || !format) {
		PyErr_Format(PyExc_BufferError, "%s has no buffer: use DLPack",
			self->device_id >= 0 ? "a tensor on a GPU" : stk_dtype_name(self->dtype));
		return -1;
	}
	view->obj = Py_NewRef(object);
	view->buf = self->data;
	view->itemsize = (Py_ssize_t)stk_dtype_size(self->dtype);
	view->len = view->itemsize;
	for (int32_t d = 0; d < self->ndim; d++)
		view->len *= self->shape[d];
	view->readonly = 0;
	view->format = flags & PyBUF_FORMAT ? (char *)format : NULL;
	view->ndim = self->ndim;
	view->shape = flags & PyBUF_ND ? self->shape : NULL;
	view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
	view->suboffsets = NULL;
	view->internal = NULL;
	return 0;
}

static const struct stk_tensor_list *list_of(const struct tensor_object *self)
{
	return stk_batch_output(core_batch_get(self->batch), self->output);
}

static PyObject *extents(const struct tensor_object *self)
{
	const struct stk_tensor_list *list = list_of(self);

	return self->index < 0 ? core_shape(&list->desc, list->count) : core_shape(&list->samples[self->index].desc, -1);
}

/* Returns a new dict, NumPy's array interface of version 3, or NULL with an exception. Version 3 of CUDA's interface has the same fields. */
static PyObject *interface(const struct tensor_object *self)
{
	const char *format = dtype_format(self->dtype);
	const int size = (int)stk_dtype_size(self->dtype);
	char typestr[8];

	if (!format) {
		PyErr_Format(PyExc_AttributeError, "NumPy has no type %s", stk_dtype_name(self->dtype));
		return NULL;
	}
	PyOS_snprintf(typestr, sizeof(typestr), "%c%c%d", size == 1 ? '|' : '<',
		*format == '?'                     ? 'b'
		: strchr("efd", *format)           ? 'f'
		: *format >= 'A' && *format <= 'Z' ? 'u'
						   : 'i',
		size);
	return Py_BuildValue("{s:N,s:s,s:(NO),s:O,s:i}", "shape", extents(self), "typestr", typestr, "data", PyLong_FromVoidPtr(self->data),
		Py_False, "strides", Py_None, "version", 3);
}

static PyObject *tensor_array_interface(PyObject *object, void *unused)
{
	struct tensor_object *self = (struct tensor_object *)object;

	(void)unused;
	if (self->device_id < 0)
		return interface(self);
	PyErr_SetString(PyExc_AttributeError, "__array_interface__"); /* TensorGPU.__getattr__ then raises an AttributeError with advice */
	return NULL;
}

static PyObject *tensor_cuda_array_interface(PyObject *object, void *unused)
{
	struct tensor_object *self = (struct tensor_object *)object;

	struct stk_error err = {0};
	PyObject *result, *with_stream = NULL;
	enum stk_status status;

	(void)unused;
	if (self->device_id < 0) {
		PyErr_SetString(PyExc_AttributeError, "a tensor in host memory has no __cuda_array_interface__");
		return NULL;
	}
	/* CUDA's array interface does not say which stream will read the data. So note stream 1, the legacy default stream: it waits for the work of all
	 * streams, except those that were made as non-blocking ones. */
	status = stk_batch_use_stream_output(core_batch_get(self->batch), self->output, 1, &err);
	if (status != STK_OK)
		return core_raise(status, &err);
	result = interface(self);
	if (result && PyMapping_SetItemString(result, "stream", Py_None) == 0) /* the data are complete: there is nothing to wait for */
		with_stream = Py_NewRef(result);
	Py_XDECREF(result);
	return with_stream;
}

static PyObject *tensor_dlpack(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct tensor_object *self = (struct tensor_object *)object;
	struct stk_batch *batch = core_batch_get(self->batch);

	return batch ? core_dlpack(batch, self->output, self->index, args, kwargs) : NULL;
}

static PyObject *tensor_dlpack_device(PyObject *object, PyObject *unused)
{
	struct tensor_object *self = (struct tensor_object *)object;

	(void)unused;
	return Py_BuildValue("ii", self->device_id < 0 ? 1 : 2, self->device_id < 0 ? 0 : (int)self->device_id); /* kDLCPU, kDLCUDA */
}

static PyObject *tensor_data_ptr(PyObject *object, PyObject *unused)
{
	(void)unused;
	return PyLong_FromVoidPtr(((struct tensor_object *)object)->data);
}

static PyObject *tensor_shape(PyObject *object, PyObject *unused)
{
	(void)unused;
	return extents((struct tensor_object *)object);
}

static PyObject *tensor_get_dtype(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromLong(((struct tensor_object *)object)->dtype);
}

static PyObject *tensor_get_layout(PyObject *object, void *unused)
{
	(void)unused;
	return PyUnicode_FromString(((struct tensor_object *)object)->layout);
}

static PyObject *tensor_get_batch(PyObject *object, void *unused)
{
	(void)unused;
	return Py_NewRef(((struct tensor_object *)object)->batch);
}

static PyObject *tensor_get_index(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromLong(((struct tensor_object *)object)->index);
}

static PyObject *tensor_get_output(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromLong(((struct tensor_object *)object)->output);
}

/* _become(other): makes this object refer to the other tensor's memory and shape. TypeError if `other` is not a Tensor. */
static PyObject *tensor_become(PyObject *object, PyObject *other)
{
	struct tensor_object *self = (struct tensor_object *)object;
	PyObject *old;

	if (!core_is(other, tensor_dealloc))
		return PyErr_Format(PyExc_TypeError, "a stoker._core.Tensor is needed");
	CORE_BEGIN_LOCKED_PAIR(object, other);
	old = self->batch;
	memcpy(&self->batch, &((struct tensor_object *)other)->batch, sizeof(*self) - offsetof(struct tensor_object, batch));
	Py_XINCREF(self->batch);
	CORE_END_LOCKED_PAIR();
	Py_XDECREF(old);
	return Py_NewRef(Py_None);
}

CORE_LOCKED_KEYWORDS(tensor_dlpack)
CORE_LOCKED_METHOD(tensor_dlpack_device)
CORE_LOCKED_METHOD(tensor_data_ptr)
CORE_LOCKED_METHOD(tensor_shape)
CORE_LOCKED_GET(tensor_array_interface)
CORE_LOCKED_GET(tensor_cuda_array_interface)
CORE_LOCKED_GET(tensor_get_dtype)
CORE_LOCKED_GET(tensor_get_layout)
CORE_LOCKED_GET(tensor_get_batch)
CORE_LOCKED_GET(tensor_get_index)
CORE_LOCKED_GET(tensor_get_output)

static int tensor_getbuffer_locked(PyObject *object, Py_buffer *view, int flags)
{
	int result;

	CORE_BEGIN_LOCKED(object);
	result = tensor_getbuffer(object, view, flags);
	CORE_END_LOCKED();
	return result;
}

static PyMethodDef tensor_methods[] = {
	{"_become", tensor_become, METH_O, "_become(other)\n--\n\nTakes the memory and shape of the other tensor."},
	{"__dlpack__", (PyCFunction)(void (*)(void))CORE_LOCKED(tensor_dlpack), METH_VARARGS | METH_KEYWORDS,
		"__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule over the same memory."},
	{"__dlpack_device__", CORE_LOCKED(tensor_dlpack_device), METH_NOARGS, "__dlpack_device__()\n--\n\n(device type, device id)."},
	{"data_ptr", CORE_LOCKED(tensor_data_ptr), METH_NOARGS, "data_ptr()\n--\n\nAddress of the first element."},
	{"shape", CORE_LOCKED(tensor_shape), METH_NOARGS, "shape()\n--\n\nExtents."},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef tensor_getset[] = {
	{"__array_interface__", CORE_LOCKED(tensor_array_interface), NULL, "NumPy's array interface.", NULL},
	{"__cuda_array_interface__", CORE_LOCKED(tensor_cuda_array_interface), NULL, "The array interface of CUDA libraries.", NULL},
	{"_dtype", CORE_LOCKED(tensor_get_dtype), NULL, "Type of the elements, as a number.", NULL},
	{"_layout", CORE_LOCKED(tensor_get_layout), NULL, "Names of the axes.", NULL},
	{"_batch", CORE_LOCKED(tensor_get_batch), NULL, "The Batch it belongs to.", NULL},
	{"_index", CORE_LOCKED(tensor_get_index), NULL, "Index of the sample in the batch; -1: all samples.", NULL},
	{"_output", CORE_LOCKED(tensor_get_output), NULL, "Number of the output in the batch.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot tensor_slots[] = {
	{Py_tp_doc, "Tensor(batch, output, index=-1)\n--\n\nOne sample of a batch, or a whole dense output, over the pipeline's memory."},
	{Py_tp_new, tensor_new},
	{Py_tp_dealloc, tensor_dealloc},
	{Py_tp_methods, tensor_methods},
	{Py_tp_getset, tensor_getset},
	{Py_bf_getbuffer, tensor_getbuffer_locked},
	{0, NULL},
};

PyTypeObject *core_tensor_type(PyObject *module)
{
	return core_type(module, "stoker._core.Tensor", sizeof(struct tensor_object), Py_TPFLAGS_BASETYPE, tensor_slots);
}
