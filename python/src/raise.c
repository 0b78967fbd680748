/* SPDX-License-Identifier: Apache-2.0
 * Errors of the library as Python exceptions, and texts between the library and Python. */
#include "core.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

PyObject *core_text(const char *text)
{
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

const char *core_text_of(PyObject *object)
{
	Py_ssize_t size = 0;
	char *bytes = NULL;
	const char *text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &size) : NULL;

	if (!text && !PyUnicode_Check(object))
		text = PyBytes_AsStringAndSize(object, &bytes, &size) == 0 ? bytes : NULL;
	if (!text || strlen(text) == (size_t)size)
		return text;
	struct stk_error err = {.code = STK_INVALID, .sample = -1, .epoch = -1, .offset = -1};
	PyOS_snprintf(err.message, sizeof(err.message), "\"%.300s\\x00%.300s\" holds a zero byte, which no name, path or URI may", text,
		text + strlen(text) + 1);
	core_raise(STK_INVALID, &err);
	return NULL;
}

/* The map from statuses to exceptions is in stoker/errors.py, where users can read it. */
PyObject *core_raise(enum stk_status status, const struct stk_error *err)
{
	PyObject *module = NULL, *exception = NULL;
	const char *message = err->message[0] ? err->message : stk_status_text(status);

	module = PyImport_ImportModule("stoker.errors");
	if (!module)
		return NULL;
	exception = PyObject_CallMethod(module, "from_status", "sNNNLLLN", stk_status_name(status), core_text(message), core_text(err->op),
		core_text(err->uri), (long long)err->sample, (long long)err->epoch, (long long)err->offset, PyBool_FromLong(err->missing));
	if (exception)
		PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
	Py_XDECREF(exception);
	Py_DECREF(module);
	return NULL;
}

void core_raise_state(const char *format, ...)
{
	struct stk_error err = {.code = STK_STATE, .sample = -1, .epoch = -1, .offset = -1};
	va_list args;

	va_start(args, format);
	PyOS_vsnprintf(err.message, sizeof(err.message), format, args);
	va_end(args);
	core_raise(STK_STATE, &err);
}

const char **core_paths_of(PyObject *list, Py_ssize_t *n)
{
	*n = PyList_Size(list);
	const char **paths = *n < 0 ? NULL : calloc((size_t)*n + 1, sizeof *paths);
	bool ok = paths != NULL;
	for (Py_ssize_t i = 0; ok && i < *n; i++)
		ok = (paths[i] = core_text_of(PyList_GetItem(list, i))) != NULL;
	if (ok)
		return paths;
	if (!PyErr_Occurred())
		PyErr_NoMemory();
	free(paths);
	return NULL;
}
