/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage: how objects that are not local files are read. A user's fetch function is called on the library's threads, which take the GIL for the call. */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct storage_object {
	PyObject ob_base;
	struct stk_storage *s;
	pid_t pid;
};

/* ---- the user's fetch function ---- */

/* Returns the status for an exception of this type that a user's fetch function raised. The library repeats the call only after STK_TIMEOUT and
 * STK_IO. */
static enum stk_status status_of(PyObject *type)
{
	PyObject *const mistakes[] = {PyExc_TypeError, PyExc_AttributeError, PyExc_NameError, PyExc_ImportError, PyExc_NotImplementedError,
		PyExc_AssertionError, PyExc_PermissionError};

	if (PyErr_GivenExceptionMatches(type, PyExc_FileNotFoundError))
		return STK_NOT_FOUND;
	if (PyErr_GivenExceptionMatches(type, PyExc_TimeoutError))
		return STK_TIMEOUT;
	if (PyErr_GivenExceptionMatches(type, PyExc_MemoryError))
		return STK_NO_MEMORY;
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		if (PyErr_GivenExceptionMatches(type, mistakes[i]))
			return STK_INVALID;
	return STK_IO;
}

static enum stk_status describe_exception(struct stk_error *err)
{
	PyObject *type, *value, *traceback, *text, *name;
	enum stk_status status;

	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	status = status_of(type);
	text = value ? PyObject_Str(value) : NULL;
	name = PyObject_GetAttrString(type, "__name__");
	PyErr_Clear();
	{
		const char *n = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL, *t = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
		PyErr_Clear();
		PyOS_snprintf(err->message, sizeof(err->message), "fetch raised %s: %.300s", n ? n : "an exception", t ? t : "");
	}
	Py_XDECREF(name);
	Py_XDECREF(text);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	return status;
}

static enum stk_status copy_answer(const struct stk_fetch_call *fetch, PyObject *answer, struct stk_error *err)
{
	Py_buffer view;
	void *memory;

	if (PyObject_GetBuffer(answer, &view, PyBUF_SIMPLE) < 0)
		return describe_exception(err);
	memory = stk_fetch_room(fetch, (size_t)view.len);
	if (memory && view.len)
		memcpy(memory, view.buf, (size_t)view.len);
	PyBuffer_Release(&view);
	return memory ? STK_OK : STK_NO_MEMORY;
}

static enum stk_status call_fetch(void *user, const struct stk_fetch_call *fetch, struct stk_error *err)
{
	PyGILState_STATE gil;
	PyObject *answer, *length, *uri;
	enum stk_status status;

	if (!Py_IsInitialized())
		return STK_CANCELLED;
	gil = PyGILState_Ensure();
	uri = core_text(fetch->uri);
	length = fetch->length < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(fetch->length);
	answer = uri && length ? PyObject_CallFunction(user, "OLO", uri, (long long)fetch->offset, length) : NULL;
	status = answer ? copy_answer(fetch, answer, err) : describe_exception(err);
	Py_XDECREF(answer);
	Py_XDECREF(length);
	Py_XDECREF(uri);
	PyGILState_Release(gil);
	return status;
}

static void drop_fetch(void *user)
{
	PyGILState_STATE gil;

	if (!Py_IsInitialized())
		return;
	gil = PyGILState_Ensure();
	Py_DECREF((PyObject *)user);
	PyGILState_Release(gil);
}

/* ---- the type ---- */

static void storage_dealloc(PyObject *object)
{
	struct storage_object *self = (struct storage_object *)object;

	if (self->s && getpid() == self->pid) {
		Py_BEGIN_ALLOW_THREADS stk_storage_unref(&self->s);
		Py_END_ALLOW_THREADS
	}
	core_free(object);
}

bool core_storage_get(PyObject *object, struct stk_storage **out)
{
	struct storage_object *self = (struct storage_object *)object;

	*out = NULL;
	if (!object || object == Py_None)
		return true;
	if (!core_is(object, storage_dealloc)) {
		PyErr_SetString(PyExc_TypeError, "a stoker._core.Storage is needed");
		return false;
	}
	*out = self->s;
	return core_check_process(self->pid, "storage");
}

static PyObject *storage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"endpoint", "region", "profile", "access_key", "secret_key", "session_token", "anonymous", "addressing",
		"ca_bundle", "proxy", "threads", "requests", "retries", "connect_ms", "first_byte_ms", "stall_ms", "no_hedging", "fetch",
		"fetch_schemes", "fetch_threads", "fetch_name", "fetch_lists", "cache", "cache_limit", NULL};
	struct stk_storage_config c = {.size = sizeof(c)};
	long long connect_ms = 0, first_byte_ms = 0, stall_ms = 0, cache_limit = 0;
	int anonymous = 0, no_hedging = 0, fetch_lists = 0, addressing = STK_ADDRESSING_AUTO;
	PyObject *fetch = Py_None;
	struct storage_object *self;
	struct stk_error err = {0};
	enum stk_status status;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|zzzzzzpizziiiLLLpOzizpzL:Storage", names, &c.endpoint, &c.region, &c.profile,
		    &c.access_key, &c.secret_key, &c.session_token, &anonymous, &addressing, &c.ca_bundle, &c.proxy, &c.threads,
		    &c.requests, &c.retries, &connect_ms, &first_byte_ms, &stall_ms, &no_hedging, &fetch, &c.fetch_schemes,
		    &c.fetch_threads, &c.fetch_name, &fetch_lists, &c.cache, &cache_limit))
		return NULL;
	c.anonymous = anonymous;
	c.addressing = (enum stk_addressing)addressing;
	c.connect_ms = connect_ms;
	c.first_byte_ms = first_byte_ms;
	c.stall_ms = stall_ms;
	c.cache_limit = cache_limit;
	c.no_hedging = no_hedging;
	c.fetch_lists = fetch_lists;
	self = core_new(type);
	if (!self)
		return NULL;
	self->pid = getpid();
	if (fetch != Py_None) {
		c.fetch = call_fetch;
		c.fetch_done = drop_fetch;
		c.fetch_user = Py_NewRef(fetch);
	}
	status = stk_storage_create(&c, &self->s, &err);
	if (status == STK_OK)
		return (PyObject *)self;
	self->s = NULL;
	Py_DECREF(self);
	return core_raise(status, &err);
}

static PyObject *storage_counters(PyObject *object, PyObject *unused)
{
	struct stk_counter counters[64];
	struct stk_storage *s;
	PyObject *out;
	size_t n;

	(void)unused;
	if (!core_storage_get(object, &s))
		return NULL;
	Py_BEGIN_ALLOW_THREADS n = stk_storage_counters(s, counters, 64);
	Py_END_ALLOW_THREADS out = PyDict_New();
	for (size_t i = 0; out && i < n && i < 64; i++) {
		PyObject *value = PyFloat_FromDouble(counters[i].value);
		if (!value || PyDict_SetItemString(out, counters[i].name, value) < 0)
			Py_CLEAR(out);
		Py_XDECREF(value);
	}
	return out;
}

/* read(uri, offset, length, size=-1, version=None): returns (bytes, size, version). size: of the whole object in bytes; -1: unknown. `bytes` has
 * STK_STORAGE_SLACK undefined bytes at its end. The arguments size and version come from an earlier read; with a version, the cache on disk may answer. */
static PyObject *storage_read(PyObject *object, PyObject *args)
{
	struct stk_storage_object info = {.size = sizeof info}, known = {.size = sizeof known};
	struct stk_error err = {0};
	struct stk_storage *s;
	PyObject *uri, *bytes;
	long long offset, size = -1;
	Py_ssize_t length;
	const char *name, *version = NULL;
	enum stk_status status;

	if (!PyArg_ParseTuple(args, "OLn|Lz:read", &uri, &offset, &length, &size, &version) || !core_storage_get(object, &s) ||
		!(name = core_text_of(uri)))
		return NULL;
	bytes = PyBytes_FromStringAndSize(NULL, length + STK_STORAGE_SLACK);
	if (!bytes)
		return NULL;
	char *data = PyBytes_AsString(bytes);
	known.bytes = size;
	if (version)
		PyOS_snprintf(known.version, sizeof known.version, "%s", version);
	Py_BEGIN_ALLOW_THREADS status = version ? stk_storage_read_again(s, name, offset, (size_t)length, data, &known, &info, &err)
						: stk_storage_read(s, name, offset, (size_t)length, data, &info, &err);
	Py_END_ALLOW_THREADS if (status == STK_OK) return Py_BuildValue("(NLs)", bytes, (long long)info.bytes, info.version);
	Py_DECREF(bytes);
	return core_raise(status, &err);
}

/* Appends (path, size in bytes, tag) to the list `user`. Called by stk_storage_find_entries without the GIL. */
static void take_entry(void *user, const struct stk_storage_entry *entry)
{
	PyGILState_STATE gil = PyGILState_Ensure();
	PyObject *tuple =
		PyErr_Occurred() ? NULL : Py_BuildValue("(yLK)", entry->path, (long long)entry->bytes, (unsigned long long)entry->tag);

	if (tuple)
		(void)PyList_Append(user, tuple);
	Py_XDECREF(tuple);
	PyGILState_Release(gil);
}

static PyObject *storage_find(PyObject *object, PyObject *args)
{
	struct stk_error err = {0};
	struct stk_storage *s;
	PyObject *list, *found;
	Py_ssize_t n;
	enum stk_status status;

	if (!PyArg_ParseTuple(args, "O:find", &list) || !core_storage_get(object, &s))
		return NULL;
	const char **paths = core_paths_of(list, &n);
	if (!paths)
		return NULL;
	found = PyList_New(0);
	if (found) {
		Py_BEGIN_ALLOW_THREADS status = stk_storage_find_entries(s, paths, (int32_t)n, take_entry, found, &err);
		Py_END_ALLOW_THREADS if (!PyErr_Occurred() && status != STK_OK)(void) core_raise(status, &err);
		if (PyErr_Occurred())
			Py_CLEAR(found);
	}
	free(paths);
	return found;
}

static PyObject *storage_tag(PyObject *unused, PyObject *version)
{
	const char *text = core_text_of(version);

	(void)unused;
	return text ? PyLong_FromUnsignedLongLong(stk_storage_tag(text)) : NULL;
}

static PyMethodDef storage_methods[] = {
	{"read", storage_read, METH_VARARGS,
		"read(uri, offset, length, size=-1, version=None)\n--\n\n(bytes, size of the whole object or -1, its version). Waits for the bytes, "
		"after which the buffer has STK_STORAGE_SLACK more, which are undefined."},
	{"find", storage_find, METH_VARARGS,
		"find(paths)\n--\n\nThe names that braces and globs stand for, as (bytes, size of the object or -1, tag of its version or 0)."},
	{"tag", storage_tag, METH_O | METH_STATIC, "tag(version)\n--\n\nThe tag that find gives to an object of this version."},
	{"counters", storage_counters, METH_NOARGS,
		"counters()\n--\n\nCounters by name, summed over all pipelines that share the storage."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot storage_slots[] = {
	{Py_tp_doc, "Storage(**settings)\n--\n\nHow objects that are not local files are read: see stoker.Storage."},
	{Py_tp_new, storage_new},
	{Py_tp_dealloc, storage_dealloc},
	{Py_tp_methods, storage_methods},
	{0, NULL},
};

PyTypeObject *core_storage_type(PyObject *module)
{
	return core_type(module, "stoker._core.Storage", sizeof(struct storage_object), 0, storage_slots);
}
