/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts Python values to arguments of an operator. Python code has already converted them to the kind that the catalogue asks for; this file only
 * changes their representation. A list of integers may be given as a buffer of int64 (for the labels of a million files). */
#include "core.h"

#include <string.h>

static void *args_block(struct core_args *a, size_t bytes)
{
	void **blocks = PyMem_Realloc(a->blocks, (a->block_count + 1) * sizeof(*blocks));

	if (!blocks)
		return PyErr_NoMemory();
	a->blocks = blocks;
	blocks[a->block_count] = PyMem_Malloc(bytes ? bytes : 1);
	if (!blocks[a->block_count])
		return PyErr_NoMemory();
	return blocks[a->block_count++];
}

/* Returns UTF-8 text, or the bytes of a file name as os.fsencode returns them. The text belongs to `object` or to an object in a->keep. On failure,
 * returns NULL with an exception set. */
static const char *args_text(struct core_args *a, PyObject *object)
{
	PyObject *bytes;
	Py_ssize_t size;

	if (PyUnicode_Check(object)) {
		if (PyUnicode_AsUTF8AndSize(object, &size))
			return core_text_of(object);
		PyErr_Clear();
	}
	if (PyBytes_Check(object))
		return core_text_of(object);
	/* The str holds surrogates, which stand for bytes of a file name that are not UTF-8. */
	if (!PyUnicode_FSConverter(object, &bytes))
		return NULL;
	if (!a->keep)
		a->keep = PyList_New(0);
	if (!a->keep || PyList_Append(a->keep, bytes) < 0) {
		Py_DECREF(bytes);
		return NULL;
	}
	Py_DECREF(bytes); /* a->keep holds a reference */
	return PyBytes_AsString(bytes);
}

static int args_int_buffer(struct core_args *a, struct stk_arg *arg, PyObject *value)
{
	Py_buffer view;
	int64_t *data = NULL;

	if (PyObject_GetBuffer(value, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0)
		return -1;
	if (view.itemsize != (Py_ssize_t)sizeof(int64_t) || !view.format || !strchr("qlQL", view.format[strlen(view.format) - 1])) {
		PyErr_Format(PyExc_TypeError, "%s: a buffer of int64 is needed", arg->name);
	} else {
		data = args_block(a, (size_t)view.len);
		if (data)
			memcpy(data, view.buf, (size_t)view.len);
	}
	arg->value.list.data = data;
	arg->value.list.count = (size_t)(view.len / (Py_ssize_t)sizeof(int64_t));
	PyBuffer_Release(&view);
	return data ? 0 : -1;
}

static int args_list(struct core_args *a, struct stk_arg *arg, PyObject *value)
{
	const Py_ssize_t n = PySequence_Size(value);
	union {
		void *any;
		int64_t *i;
		double *f;
		const char **s;
	} data;

	if (n < 0)
		return -1;
	data.any = args_block(a, (size_t)n * sizeof(int64_t));
	if (!data.any)
		return -1;
	for (Py_ssize_t k = 0; k < n; k++) {
		PyObject *item = PySequence_GetItem(value, k); /* `value` is a list or tuple, which keeps the item alive */
		if (!item)
			return -1;
		if (arg->kind == STK_VALUE_INTS)
			data.i[k] = PyLong_AsLongLong(item);
		else if (arg->kind == STK_VALUE_FLOATS)
			data.f[k] = PyFloat_AsDouble(item);
		else
			data.s[k] = args_text(a, item);
		Py_DECREF(item);
		if (PyErr_Occurred())
			return -1;
	}
	arg->value.list.data = data.any;
	arg->value.list.count = (size_t)n;
	return 0;
}

bool core_node_from(PyObject *object, struct stk_node *out)
{
	return PyArg_ParseTuple(object, "ii;a node is (operator, output)", &out->op, &out->output);
}

static int args_one(struct core_args *a, struct stk_arg *arg, PyObject *value)
{
	switch (arg->kind) {
	case STK_VALUE_BOOL:
		arg->value.i = PyObject_IsTrue(value);
		return arg->value.i < 0 ? -1 : 0;
	case STK_VALUE_INT:
		arg->value.i = PyLong_AsLongLong(value);
		return PyErr_Occurred() ? -1 : 0;
	case STK_VALUE_FLOAT:
		arg->value.f = PyFloat_AsDouble(value);
		return PyErr_Occurred() ? -1 : 0;
	case STK_VALUE_STRING:
		arg->value.s = args_text(a, value);
		return arg->value.s ? 0 : -1;
	case STK_VALUE_NODE:
		return core_node_from(value, &arg->value.node) ? 0 : -1;
	case STK_VALUE_INTS:
		if (!PyList_Check(value) && !PyTuple_Check(value))
			return args_int_buffer(a, arg, value);
		return args_list(a, arg, value);
	case STK_VALUE_FLOATS:
	case STK_VALUE_STRINGS:
		return args_list(a, arg, value);
	case STK_VALUE_NONE:
		return 0;
	}
	PyErr_Format(PyExc_ValueError, "%s: unknown kind of value %d", arg->name, (int)arg->kind);
	return -1;
}

int core_args_fill(struct core_args *a, PyObject *values)
{
	const Py_ssize_t n = PySequence_Size(values);

	if (n < 0)
		return -1;
	a->args = PyMem_Calloc((size_t)n + 1, sizeof(*a->args));
	if (!a->args) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		struct stk_arg *arg = &a->args[i];
		PyObject *item = PySequence_GetItem(values, i), *value = NULL;
		int kind = 0, rc;
		if (!item)
			return -1;
		rc = PyArg_ParseTuple(item, "siO;an argument is (name, kind, value)", &arg->name, &kind, &value) ? 0 : -1;
		Py_DECREF(item); /* `values` keeps name and value alive until the call ends */
		arg->kind = (enum stk_value_kind)kind;
		if (rc < 0 || args_one(a, arg, value) < 0)
			return -1;
	}
	a->count = (size_t)n;
	return 0;
}

PyObject *core_shape(const struct stk_desc *desc, int64_t lead)
{
	PyObject *list = PyList_New(0), *result;

	for (int32_t d = lead >= 0 ? -1 : 0; list && d < desc->ndim; d++) {
		PyObject *extent = PyLong_FromLongLong(d < 0 ? lead : desc->shape[d]);
		if (!extent || PyList_Append(list, extent) < 0)
			Py_CLEAR(list);
		Py_XDECREF(extent);
	}
	result = list ? PyList_AsTuple(list) : NULL;
	Py_XDECREF(list);
	return result;
}

void core_args_clear(struct core_args *a)
{
	for (size_t i = 0; i < a->block_count; i++)
		PyMem_Free(a->blocks[i]);
	PyMem_Free(a->blocks);
	PyMem_Free(a->args);
	Py_CLEAR(a->keep);
}
