/* SPDX-License-Identifier: Apache-2.0
 * Registers the types and functions of stoker._core. */
#include "core.h"

static PyObject *core_version(PyObject *module, PyObject *unused)
{
	(void)module, (void)unused;
	return PyUnicode_FromString(stk_version());
}

static PyMethodDef core_functions[] = {
	{"version", core_version, METH_NOARGS, "version()\n--\n\nVersion of the library."},
	{"catalog", core_catalog, METH_NOARGS, "catalog()\n--\n\nAll operators with their arguments, as dicts."},
	{"machine", core_machine, METH_NOARGS, "machine()\n--\n\nThe usable cores and the limits on them, as a dict."},
	{"image_named", core_image_named, METH_O,
		"image_named(name)\n--\n\nWhether the ending of a file's name is that of an image format that this build decodes."},
	{"image_globs", core_image_globs, METH_NOARGS,
		"image_globs()\n--\n\nThe globs that match image files in a folder of classes, for formats that this build decodes."},
	{"video_globs", core_video_globs, METH_NOARGS, "video_globs()\n--\n\nThe globs that match video files in a folder of classes."},
	{"audio_named", core_audio_named, METH_O,
		"audio_named(name)\n--\n\nWhether the ending of a file's name is that of a sound format that this build decodes."},
	{"image_header", core_image_header, METH_O,
		"image_header(data)\n--\n\nFormat, size and channels from the header of an image file's bytes, as a dict. partial: whether bytes after these may change it."},
	{"tar_unindexed", core_tar_unindexed, METH_VARARGS,
		"tar_unindexed(paths, progress, storage=None)\n--\n\n(number of tars, {ending: files} of the first sample), where all are in stores and one has no "
		"index; else (0, {})."},
	{"tar_index", core_tar_index, METH_VARARGS,
		"tar_index(paths, output, progress, storage=None)\n--\n\nFinds where the files of tars lie and writes an index. Returns counts as a dict."},
	{"footer_fault", core_footer_fault, METH_O,
		"footer_fault(footer)\n--\n\nReturns (\"damaged\" or \"encrypted\", a sentence that says what is wrong) for the footer of a "
		"Parquet file, given as bytes; None if its parts fit together."},
	{"index_folder", core_index_folder, METH_NOARGS,
		"index_folder()\n--\n\nThe folder in which indexes are kept for later runs, or None if the environment names no folder."},
	{"unsigned_name", core_unsigned_name, METH_O,
		"unsigned_name(name)\n--\n\nA file's name as bytes, that of an http URL without the parameters of its query that a signature consists of."},
	{"wrap", core_wrap, METH_VARARGS, "wrap(samples, layout)\n--\n\nMakes a Batch with one output over buffers in host memory."},
	{"tree_take_apart", core_tree_take_apart, METH_VARARGS,
		"tree_take_apart(tree, tensor_type, other)\n--\n\n(tensors of a tree as a list, what tree_put_together needs). other(value) is asked about types that "
		"are not known: None, (None, tensor) or (constructor, children)."},
	{"tree_put_together", core_tree_put_together, METH_VARARGS,
		"tree_put_together(parts, made)\n--\n\nThe tree with other tensors: once for each tree_take_apart."},
	{"tree_groups", core_tree_groups, METH_VARARGS,
		"tree_groups(leaves, tensor_type, align, least)\n--\n\n([(tensors, rows, members, padding, step)], indexes of the rest): tensors that one torch.cat "
		"joins, with paddings that align each to `align` bytes if it has at least `least`, as numbers of rows."},
	{"tree_assign", core_tree_assign, METH_VARARGS,
		"tree_assign(made, members, copies)\n--\n\nmade[members[i]] = copies[i], where members[i] is not -1."},
	{"explain_missing", core_explain_missing, METH_O,
		"explain_missing(name)\n--\n\nReturns one sentence about a name that is not an operator."},
	{NULL, NULL, 0, NULL},
};

static int core_exec(PyObject *module)
{
	struct core_state *state = PyModule_GetState(module);
	const struct {
		PyTypeObject **slot;
		PyTypeObject *(*make)(PyObject *module);
	} types[] = {
		{&state->context, core_context_type},
		{&state->graph, core_graph_type},
		{&state->pipeline, core_pipeline_type},
		{&state->batch, core_batch_type},
		{&state->tensor, core_tensor_type},
		{&state->source, core_source_type},
		{&state->storage, core_storage_type},
		{&state->image_decoder, core_image_decoder_type},
		{&state->audio, core_audio_type},
		{&state->nuscenes, core_nuscenes_type},
		{&state->video, core_video_type},
		{&state->video_device, core_video_device_type},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		*types[i].slot = types[i].make(module);
		if (!*types[i].slot || PyModule_AddType(module, *types[i].slot) < 0)
			return -1;
	}
	return PyModule_AddIntConstant(module, "BAD_SAMPLES_KEPT", STK_BAD_SAMPLES_KEPT);
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct core_state *state = PyModule_GetState(module);

	Py_VISIT(state->context);
	Py_VISIT(state->graph);
	Py_VISIT(state->pipeline);
	Py_VISIT(state->batch);
	Py_VISIT(state->tensor);
	Py_VISIT(state->source);
	Py_VISIT(state->storage);
	Py_VISIT(state->image_decoder);
	Py_VISIT(state->audio);
	Py_VISIT(state->nuscenes);
	Py_VISIT(state->video);
	Py_VISIT(state->video_device);
	return 0;
}

static int core_clear(PyObject *module)
{
	struct core_state *state = PyModule_GetState(module);

	Py_CLEAR(state->context);
	Py_CLEAR(state->graph);
	Py_CLEAR(state->pipeline);
	Py_CLEAR(state->batch);
	Py_CLEAR(state->tensor);
	Py_CLEAR(state->source);
	Py_CLEAR(state->storage);
	Py_CLEAR(state->image_decoder);
	Py_CLEAR(state->audio);
	Py_CLEAR(state->nuscenes);
	Py_CLEAR(state->video);
	Py_CLEAR(state->video_device);
	return 0;
}

static PyModuleDef_Slot core_slots[] = {
	{Py_mod_exec, core_exec},
#ifdef Py_GIL_DISABLED
	{Py_mod_gil, Py_MOD_GIL_NOT_USED}, /* without this slot, importing the module enables the GIL */
#endif
	{0, NULL},
};

static struct PyModuleDef core_module = {
	PyModuleDef_HEAD_INIT,
	.m_name = "stoker._core",
	.m_doc = "The C library of stoker. Users want the package stoker instead.",
	.m_size = sizeof(struct core_state),
	.m_methods = core_functions,
	.m_slots = core_slots,
	.m_traverse = core_traverse,
	.m_clear = core_clear,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
	return PyModuleDef_Init(&core_module);
}
