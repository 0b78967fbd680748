/* SPDX-License-Identifier: Apache-2.0
 * Functions of the module that return plain Python data: the operators with their arguments, the reason why an operator is missing, the machine's cores,
 * the endings of image files and the headers of images. */
#include "core.h"

static PyObject *optional_text(const char *text)
{
	return text ? core_text(text) : Py_NewRef(Py_None);
}

static PyObject *arg_dict(size_t op, int32_t i)
{
	struct stk_arg_info a = {0};

	if (!stk_op_arg(op, i, &a)) {
		PyErr_SetString(PyExc_SystemError, "the catalogue ends early");
		return NULL;
	}
	return Py_BuildValue("{s:s,s:s,s:i,s:I,s:N,s:N,s:d,s:d,s:N}", "name", a.name, "type", a.type, "kind", (int)a.kind, "flags",
		(unsigned)a.flags, "default", optional_text(a.default_text), "choices", optional_text(a.choices), "min", a.min, "max",
		a.max, "doc", optional_text(a.doc));
}

static PyObject *op_dict(size_t i)
{
	struct stk_op_info op = {0};
	PyObject *args = NULL;

	if (!stk_op_info(i, &op)) {
		PyErr_SetString(PyExc_SystemError, "the catalogue ends early");
		return NULL;
	}
	args = PyList_New(0);
	for (int32_t k = 0; args && k < op.args; k++) {
		PyObject *arg = arg_dict(i, k);
		if (!arg || PyList_Append(args, arg) < 0)
			Py_CLEAR(args);
		Py_XDECREF(arg);
	}
	if (!args)
		return NULL;
	return Py_BuildValue("{s:s,s:N,s:N,s:N,s:N,s:I,s:i,s:i,s:i,s:N}", "name", op.name, "alias", optional_text(op.alias), "doc",
		optional_text(op.doc), "layouts", optional_text(op.layouts), "tolerance", optional_text(op.tolerance), "flags",
		(unsigned)op.flags, "min_inputs", (int)op.min_inputs, "max_inputs", (int)op.max_inputs, "outputs", (int)op.outputs, "args",
		args);
}

PyObject *core_machine(PyObject *module, PyObject *unused)
{
	struct stk_machine m = {.size = sizeof m};
	struct stk_error err = {0};
	const enum stk_status s = stk_machine_probe(&m, &err);

	(void)module, (void)unused;
	if (s != STK_OK)
		return core_raise(s, &err);
	return Py_BuildValue("{s:i,s:i,s:d,s:i,s:i}", "cpus_online", (int)m.cpus_online, "cpus_allowed", (int)m.cpus_allowed, "cpu_quota",
		m.cpu_quota, "local_ranks", (int)m.local_ranks, "threads", (int)m.threads);
}

PyObject *core_catalog(PyObject *module, PyObject *unused)
{
	PyObject *ops = PyList_New(0);
	const size_t n = stk_op_count();

	(void)module, (void)unused;
	for (size_t i = 0; ops && i < n; i++) {
		PyObject *op = op_dict(i);
		if (!op || PyList_Append(ops, op) < 0)
			Py_CLEAR(ops);
		Py_XDECREF(op);
	}
	return ops;
}

PyObject *core_explain_missing(PyObject *module, PyObject *name)
{
	const char *text = core_text_of(name);
	char message[1024] = "";

	(void)module;
	if (!text)
		return NULL;
	stk_op_explain_missing(text, message, sizeof(message));
	return core_text(message);
}

PyObject *core_image_named(PyObject *module, PyObject *name)
{
	const char *text = core_text_of(name);

	(void)module;
	return text ? PyBool_FromLong(stk_image_named(text)) : NULL;
}

static PyObject *list_globs(const char *(*glob_of)(size_t))
{
	PyObject *globs = PyList_New(0);
	const char *glob;

	for (size_t i = 0; globs && (glob = glob_of(i)); i++) {
		PyObject *text = PyUnicode_FromString(glob);
		if (!text || PyList_Append(globs, text))
			Py_CLEAR(globs);
		Py_XDECREF(text);
	}
	return globs;
}

PyObject *core_image_globs(PyObject *module, PyObject *unused)
{
	(void)module, (void)unused;
	return list_globs(stk_image_glob);
}

PyObject *core_video_globs(PyObject *module, PyObject *unused)
{
	(void)module, (void)unused;
	return list_globs(stk_video_glob);
}

PyObject *core_image_header(PyObject *module, PyObject *data)
{
	struct stk_image_header h = {.size = sizeof h};
	struct stk_error err = {0};
	Py_buffer bytes;

	(void)module;
	if (PyObject_GetBuffer(data, &bytes, PyBUF_SIMPLE) < 0)
		return NULL;
	const enum stk_status s = stk_image_inspect(bytes.buf, (size_t)bytes.len, &h, &err);
	PyBuffer_Release(&bytes);
	if (s != STK_OK)
		return core_raise(s, &err);
	return Py_BuildValue("{s:s,s:i,s:i,s:i,s:i,s:i,s:O}", "format", h.format, "width", (int)h.width, "height", (int)h.height,
		"channels", (int)h.channels, "bits", (int)h.bits, "orientation", (int)h.orientation, "partial",
		h.partial ? Py_True : Py_False);
}
