/* SPDX-License-Identifier: Apache-2.0
 * tar_index: finds the files inside of tars, and writes an index of them. tar_unindexed: returns how many tars a Loader would read without an index, which it
 * does if all of them are in stores and at least one has no index. index_folder: returns the folder in which the library looks for indexes. footer_fault:
 * checks the footer of a Parquet file. */
#include "core.h"
#include "footer.h"

#include <stdlib.h>
#include <string.h>

struct watch {
	PyObject *progress;   /* a callable, or None */
	PyThreadState *state; /* thread state of the Python caller while the search runs without the GIL */
	PyObject *components; /* dict from the ending of a component to the number of files that have it */
	char *notices;        /* the library's notices, one after another; each ends with a zero byte */
	size_t notices_size;
};

/* Runs Python's signal handlers and calls `progress`, on the thread that started the search. Returns false if either raised an exception, which ends the
 * search; until its threads have ended, the search still calls this function, which then does nothing and returns false. */
static bool on_progress(void *user, int64_t done, int64_t tars, int64_t files)
{
	struct watch *w = user;
	PyObject *r = NULL;

	PyEval_RestoreThread(w->state);
	if (!PyErr_Occurred() && PyErr_CheckSignals() == 0 && w->progress != Py_None) {
		r = PyObject_CallFunction(w->progress, "LLL", (long long)done, (long long)tars, (long long)files);
		Py_XDECREF(r);
	}
	const bool ok = !PyErr_Occurred();
	w->state = PyEval_SaveThread();
	return ok;
}

static void on_notice(void *user, const char *text)
{
	struct watch *w = user;
	const size_t n = strlen(text) + 1;
	char *more = realloc(w->notices, w->notices_size + n);

	if (!more)
		return;
	memcpy(more + w->notices_size, text, n);
	w->notices = more;
	w->notices_size += n;
}

static void on_component(void *user, const char *ending, int64_t files)
{
	struct watch *w = user;
	PyEval_RestoreThread(w->state);
	PyObject *key = core_text(ending), *count = key ? PyLong_FromLongLong(files) : NULL;

	if (count)
		(void)PyDict_SetItem(w->components, key, count);
	Py_XDECREF(key);
	Py_XDECREF(count);
	w->state = PyEval_SaveThread();
}

static PyObject *notices_of(const struct watch *w)
{
	PyObject *list = PyList_New(0);

	for (size_t at = 0; list && at < w->notices_size; at += strlen(w->notices + at) + 1) {
		PyObject *text = core_text(w->notices + at);
		if (!text || PyList_Append(list, text) < 0)
			Py_CLEAR(list);
		Py_XDECREF(text);
	}
	return list;
}

static struct stk_tar_index_options options_of(const char **paths, Py_ssize_t n, struct stk_storage *storage, struct watch *w)
{
	return (struct stk_tar_index_options){.size = sizeof(struct stk_tar_index_options),
		.paths = paths,
		.path_count = (int32_t)n,
		.storage = storage,
		.progress = on_progress,
		.component = on_component,
		.user = w};
}

static PyObject *run(const char **paths, Py_ssize_t n, const char *output, struct stk_storage *storage, struct watch *w)
{
	struct stk_tar_index_options o = options_of(paths, n, storage, w);
	struct stk_tar_index_info info = {.size = sizeof info};
	struct stk_error err = {0};

	o.output = output;
	o.notice = on_notice;
	w->state = PyEval_SaveThread();
	const enum stk_status status = stk_tar_index(&o, &info, &err);
	PyEval_RestoreThread(w->state);
	if (PyErr_Occurred())
		return NULL;
	if (status != STK_OK)
		return core_raise(status, &err);
	return Py_BuildValue("{s:L,s:L,s:L,s:O,s:N}", "tars", (long long)info.tars, "files", (long long)info.files, "bytes",
		(long long)info.bytes, "components", w->components, "notices", notices_of(w));
}

static PyObject *run_unindexed(const char **paths, Py_ssize_t n, struct stk_storage *storage, struct watch *w)
{
	const struct stk_tar_index_options o = options_of(paths, n, storage, w);
	struct stk_error err = {0};
	int32_t unindexed = 0;

	w->state = PyEval_SaveThread();
	const enum stk_status status = stk_tar_unindexed(&o, &unindexed, &err);
	PyEval_RestoreThread(w->state);
	if (PyErr_Occurred())
		return NULL;
	if (status != STK_OK)
		return core_raise(status, &err);
	return Py_BuildValue("(iO)", (int)unindexed, w->components);
}

PyObject *core_tar_unindexed(PyObject *module, PyObject *args)
{
	PyObject *list, *progress, *storage = Py_None;
	struct stk_storage *st;
	struct watch w = {0};
	Py_ssize_t n;

	(void)module;
	if (!PyArg_ParseTuple(args, "OO|O:tar_unindexed", &list, &progress, &storage) || !core_storage_get(storage, &st))
		return NULL;
	const char **paths = core_paths_of(list, &n);
	w.progress = progress;
	w.components = paths ? PyDict_New() : NULL;
	PyObject *result = w.components ? run_unindexed(paths, n, st, &w) : NULL;
	Py_XDECREF(w.components);
	free(paths);
	return result;
}

PyObject *core_tar_index(PyObject *module, PyObject *args)
{
	PyObject *list, *progress, *storage = Py_None;
	struct stk_storage *st;
	PyObject *output;
	struct watch w = {0};
	Py_ssize_t n;

	(void)module;
	if (!PyArg_ParseTuple(args, "OOO|O:tar_index", &list, &output, &progress, &storage) || !core_storage_get(storage, &st))
		return NULL;
	const char **paths = core_paths_of(list, &n);
	const char *file = paths && output != Py_None ? core_text_of(output) : NULL;
	const bool ok = paths && (file || output == Py_None);
	w.progress = progress;
	w.components = ok ? PyDict_New() : NULL;
	PyObject *result = w.components ? run(paths, n, file, st, &w) : NULL;
	Py_XDECREF(w.components);
	free(w.notices);
	free(paths);
	return result;
}

PyObject *core_index_folder(PyObject *module, PyObject *unused)
{
	struct stk_error err = {0};
	char *folder;

	(void)module;
	(void)unused;
	const enum stk_status status = stk_index_folder(&folder, &err);
	if (status != STK_OK)
		return core_raise(status, &err);
	PyObject *result = folder ? core_text(folder) : Py_NewRef(Py_None);
	stk_text_free(folder);
	return result;
}

PyObject *core_unsigned_name(PyObject *module, PyObject *name)
{
	struct stk_error err = {0};
	char *text, *found;

	(void)module;
	if (PyBytes_AsStringAndSize(name, &text, NULL) < 0)
		return NULL;
	const enum stk_status status = stk_storage_unsigned_name(text, &found, &err);
	if (status != STK_OK)
		return core_raise(status, &err);
	PyObject *result = PyBytes_FromString(found);
	stk_text_free(found);
	return result;
}

PyObject *core_footer_fault(PyObject *module, PyObject *footer)
{
	char *data;
	Py_ssize_t size;

	(void)module;
	if (PyBytes_AsStringAndSize(footer, &data, &size) < 0)
		return NULL;
	const char *fault;
	enum footer_kind kind = footer_check((const uint8_t *)data, (size_t)size, &fault);
	return kind == FOOTER_GOOD ? Py_NewRef(Py_None) : Py_BuildValue("(ss)", kind == FOOTER_ENCRYPTED ? "encrypted" : "damaged", fault);
}
