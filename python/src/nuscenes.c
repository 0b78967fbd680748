/* SPDX-License-Identifier: Apache-2.0
 * NuScenes: gives Python access to the tables of a nuScenes data set by the index of a sample. */
#include "core.h"

#include <stdlib.h>

struct nuscenes_object {
	PyObject ob_base;
	struct stk_nuscenes_view *view;
	struct stk_nuscenes_info info;
};

static void nuscenes_dealloc(PyObject *object)
{

	stk_nuscenes_close(((struct nuscenes_object *)object)->view);
	core_free(object);
}

/* Sets *out to an array of the *count texts in a tuple of bytes, or to NULL for None. The caller frees the array; the tuple owns the texts. On failure,
 * returns false with an exception set. */
static bool take_texts(PyObject *from, const char *const **out, size_t *count)
{
	Py_ssize_t n = from == Py_None ? 0 : PyTuple_Size(from);
	const char **texts;

	*out = NULL;
	*count = 0;
	if (from == Py_None)
		return true;
	if (n < 0)
		return false;
	texts = malloc(((size_t)n + 1) * sizeof(*texts));
	for (Py_ssize_t i = 0; texts && i < n; i++)
		if (!(texts[i] = core_text_of(PyTuple_GetItem(from, i)))) {
			free(texts);
			return false;
		}
	if (!texts)
		return PyErr_NoMemory() != NULL;
	*out = texts;
	*count = (size_t)n;
	return true;
}

static PyObject *nuscenes_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct stk_nuscenes_options o = {.size = sizeof(o)};
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	struct nuscenes_object *self;
	PyObject *cameras, *classes, *scenes, *exclude;
	enum stk_status status = STK_OK;
	bool ok;

	(void)kwargs;
	if (!PyArg_ParseTuple(args, "yyzOOOOi:NuScenes", &o.root, &o.version, &o.index, &cameras, &classes, &scenes, &exclude, &o.split))
		return NULL;
	self = core_new(type);
	ok = self && take_texts(cameras, &o.cameras, &o.camera_count) && take_texts(classes, &o.classes, &o.class_count) &&
	     take_texts(scenes, &o.scenes, &o.scene_count) && take_texts(exclude, &o.exclude, &o.exclude_count);
	if (ok) {
		self->info.size = sizeof(self->info);
		Py_BEGIN_ALLOW_THREADS status = stk_nuscenes_open(&o, &self->view, &err);
		if (status == STK_OK)
			status = stk_nuscenes_describe(self->view, &self->info, &err);
		Py_END_ALLOW_THREADS
	}
	free((void *)(uintptr_t)o.cameras);
	free((void *)(uintptr_t)o.classes);
	free((void *)(uintptr_t)o.scenes);
	free((void *)(uintptr_t)o.exclude);
	if (ok && status == STK_OK)
		return (PyObject *)self;
	Py_XDECREF((PyObject *)self);
	return ok ? core_raise(status, &err) : NULL;
}

static PyObject *nuscenes_info(PyObject *object, PyObject *unused)
{
	const struct stk_nuscenes_info *info = &((struct nuscenes_object *)object)->info;

	(void)unused;
	return Py_BuildValue("{s:L,s:L,s:L,s:L,s:i,s:O}", "samples", (long long)info->samples, "sequences", (long long)info->sequences,
		"scenes", (long long)info->scenes, "objects", (long long)info->objects, "cameras", info->cameras, "from_index",
		info->from_index ? Py_True : Py_False);
}

static PyObject *nuscenes_sequences(PyObject *object, PyObject *unused)
{
	struct nuscenes_object *self = (struct nuscenes_object *)object;
	PyObject *list = PyList_New(0);

	(void)unused;
	for (int64_t i = 0; list && i < self->info.sequences; i++) {
		PyObject *n = PyLong_FromLongLong(stk_nuscenes_sequence(self->view, i + 1) - stk_nuscenes_sequence(self->view, i));

		if (!n || PyList_Append(list, n))
			Py_CLEAR(list);
		Py_XDECREF(n);
	}
	return list;
}

static bool check_sample(const struct nuscenes_object *self, long long sample, int camera)
{
	if (sample >= 0 && sample < self->info.samples && camera >= -1 && camera < self->info.cameras)
		return true;
	PyErr_Format(PyExc_IndexError, "sample %lld, camera %d: there are %lld samples and %d cameras", sample, camera,
		(long long)self->info.samples, self->info.cameras);
	return false;
}

static PyObject *nuscenes_scene(PyObject *object, PyObject *args)
{
	struct nuscenes_object *self = (struct nuscenes_object *)object;
	long long sample;

	if (!PyArg_ParseTuple(args, "L:scene", &sample) || !check_sample(self, sample, 0))
		return NULL;
	return core_text(stk_nuscenes_scene(self->view, sample));
}

static PyObject *nuscenes_file(PyObject *object, PyObject *args)
{
	struct nuscenes_object *self = (struct nuscenes_object *)object;
	char path[4096];
	long long sample;
	int camera;

	if (!PyArg_ParseTuple(args, "Li:file", &sample, &camera) || !check_sample(self, sample, camera))
		return NULL;
	if (stk_nuscenes_file(self->view, sample, camera, path, sizeof(path)) >= sizeof(path))
		return PyErr_Format(PyExc_ValueError, "the path of sample %lld is too long", sample);
	return core_text(path);
}

static PyObject *shape_of(const struct stk_desc *desc)
{
	PyObject *shape = PyTuple_New(desc->ndim);

	for (int32_t i = 0; shape && i < desc->ndim; i++) {
		PyObject *extent = PyLong_FromLongLong(desc->shape[i]);

		if (!extent || PyTuple_SetItem(shape, i, extent))
			Py_CLEAR(shape);
	}
	return shape;
}

static PyObject *nuscenes_field(PyObject *object, PyObject *args)
{
	struct nuscenes_object *self = (struct nuscenes_object *)object;
	struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
	struct stk_desc desc;
	PyObject *values, *shape;
	enum stk_status status;
	const char *name;
	long long sample;
	int camera;

	if (!PyArg_ParseTuple(args, "Lis:field", &sample, &camera, &name))
		return NULL;
	status = stk_nuscenes_field(self->view, sample, camera, name, &desc, NULL, 0, &err);
	if (status != STK_OK)
		return core_raise(status, &err);
	values = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)stk_desc_bytes(&desc));
	if (!values)
		return NULL;
	status = stk_nuscenes_field(self->view, sample, camera, name, &desc, PyBytes_AsString(values), (size_t)stk_desc_bytes(&desc), &err);
	shape = status == STK_OK ? shape_of(&desc) : core_raise(status, &err);
	if (shape)
		return Py_BuildValue("NsN", values, stk_dtype_name(desc.dtype), shape);
	Py_DECREF(values);
	return NULL;
}

static PyMethodDef nuscenes_methods[] = {
	{"info", nuscenes_info, METH_NOARGS, "info()\n--\n\nCounts, as a dict."},
	{"sequences", nuscenes_sequences, METH_NOARGS, "sequences()\n--\n\nThe number of samples in each sequence."},
	{"scene", nuscenes_scene, METH_VARARGS, "scene(sample)\n--\n\nName of a sample's scene."},
	{"file", nuscenes_file, METH_VARARGS,
		"file(sample, camera)\n--\n\nPath of a camera's image; camera -1: path of the lidar's points."},
	{"field", nuscenes_field, METH_VARARGS, "field(sample, camera, name)\n--\n\n(bytes, name of the type, shape) of a field."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot nuscenes_slots[] = {
	{Py_tp_doc, "NuScenes(root, version, index, cameras, classes, scenes, exclude, split)\n--\n\nTables of NuScenes."},
	{Py_tp_new, nuscenes_new},
	{Py_tp_dealloc, nuscenes_dealloc},
	{Py_tp_methods, nuscenes_methods},
	{0, NULL},
};

PyTypeObject *core_nuscenes_type(PyObject *module)
{
	return core_type(module, "stoker._core.NuScenes", sizeof(struct nuscenes_object), 0, nuscenes_slots);
}
