/* SPDX-License-Identifier: Apache-2.0
 * Graph: a graph of operators, which stoker.fn adds one by one. Only one thread may use it while it is built. */
#include "core.h"

struct graph_object {
	PyObject ob_base;
	struct stk_graph *g;
};

static void graph_dealloc(PyObject *object)
{

	stk_graph_destroy(((struct graph_object *)object)->g);
	core_free(object);
}

struct stk_graph *core_graph_get(PyObject *object)
{
	if (!core_is(object, graph_dealloc)) {
		PyErr_SetString(PyExc_TypeError, "a stoker._core.Graph is needed");
		return NULL;
	}
	return ((struct graph_object *)object)->g;
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"json", NULL};
	struct graph_object *self;
	const char *json = NULL;
	Py_ssize_t size = 0;
	struct stk_error err = {0};
	enum stk_status status;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|z#:Graph", names, &json, &size))
		return NULL;
	self = core_new(type);
	if (!self)
		return NULL;
	status = json ? stk_graph_deserialize(json, (size_t)size, &self->g, &err) : stk_graph_create(&self->g, &err);
	if (status != STK_OK) {
		self->g = NULL;
		Py_DECREF(self);
		return core_raise(status, &err);
	}
	return (PyObject *)self;
}

static struct stk_node *nodes_from(PyObject *sequence, size_t *count)
{
	const Py_ssize_t n = PySequence_Size(sequence);
	struct stk_node *nodes;

	if (n < 0)
		return NULL;
	nodes = PyMem_Calloc((size_t)n + 1, sizeof(*nodes));
	if (!nodes)
		return (struct stk_node *)PyErr_NoMemory();
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PySequence_GetItem(sequence, i);
		const bool ok = item && core_node_from(item, &nodes[i]);
		Py_XDECREF(item);
		if (!ok) {
			PyMem_Free(nodes);
			return NULL;
		}
	}
	*count = (size_t)n;
	return nodes;
}

/* Reads the conditions under which an operator runs from a sequence of (predicate, wanted value). Returns an array, to be freed with PyMem_Free, and
 * sets *count to its length. On failure, returns NULL with an exception set. */
static struct stk_condition *conditions_from(PyObject *sequence, size_t *count)
{
	const Py_ssize_t n = PySequence_Size(sequence);
	struct stk_condition *when;

	if (n < 0)
		return NULL;
	when = PyMem_Calloc((size_t)n + 1, sizeof(*when));
	if (!when)
		return (struct stk_condition *)PyErr_NoMemory();
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PySequence_GetItem(sequence, i), *node;
		int wanted = 0;
		const bool ok = item && PyArg_ParseTuple(item, "Op", &node, &wanted) && core_node_from(node, &when[i].predicate);
		when[i].wanted = wanted;
		Py_XDECREF(item);
		if (!ok) {
			PyMem_Free(when);
			return NULL;
		}
	}
	*count = (size_t)n;
	return when;
}

static PyObject *graph_add(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"op", "inputs", "args", "name", "where", "device", "when", NULL};
	struct graph_object *self = (struct graph_object *)object;
	struct stk_graph_options options = {0};
	struct core_args values = {0};
	struct stk_node *inputs = NULL, out = {0};
	struct stk_error err = {0};
	PyObject *input_seq, *value_seq, *when_seq = NULL, *result = NULL;
	struct stk_condition *when = NULL;
	size_t n_inputs = 0;
	const char *op;
	int device = STK_DEVICE_ANY;
	enum stk_status status;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "sOO|zziO:add", names, &op, &input_seq, &value_seq, &options.name, &options.where, &device, &when_seq))
		return NULL;
	options.device = (enum stk_device)device;
	inputs = nodes_from(input_seq, &n_inputs);
	if (!inputs || core_args_fill(&values, value_seq) < 0)
		goto out;
	if (when_seq && !(options.when = when = conditions_from(when_seq, &options.n_when)))
		goto out;
	Py_BEGIN_ALLOW_THREADS /* a reader may list a million files */
		status = stk_graph_add(self->g, op, inputs, n_inputs, values.args, values.count, &options, &out, &err);
	Py_END_ALLOW_THREADS if (status != STK_OK) core_raise(status, &err);
	else result = Py_BuildValue("ii", out.op, stk_graph_node_outputs(self->g, out));
out:
	core_args_clear(&values);
	PyMem_Free(inputs);
	PyMem_Free(when);
	return result;
}

static PyObject *graph_output(PyObject *object, PyObject *node)
{
	struct stk_error err = {0};
	struct stk_node n;
	enum stk_status status;

	if (!core_node_from(node, &n))
		return NULL;
	status = stk_graph_output(((struct graph_object *)object)->g, n, &err);
	return status == STK_OK ? Py_NewRef(Py_None) : core_raise(status, &err);
}

static PyObject *graph_describe(PyObject *object, PyObject *node)
{
	struct stk_error err = {0};
	struct stk_desc desc = {0};
	struct stk_node n;
	enum stk_status status;
	PyObject *shape;

	if (!core_node_from(node, &n))
		return NULL;
	status = stk_graph_describe(((struct graph_object *)object)->g, n, &desc, &err);
	if (status != STK_OK)
		return core_raise(status, &err);
	shape = core_shape(&desc, -1);
	return shape ? Py_BuildValue("iiNs", (int)desc.dtype, (int)desc.ndim, shape, desc.layout) : NULL;
}

static PyObject *graph_device(PyObject *object, PyObject *node)
{
	struct stk_node n;

	return core_node_from(node, &n) ? PyLong_FromLong(stk_graph_node_device(((struct graph_object *)object)->g, n)) : NULL;
}

static PyObject *graph_set_source(PyObject *object, PyObject *args)
{
	struct stk_error err = {0};
	struct stk_source_callbacks callbacks = {0};
	struct stk_node node = {0};
	PyObject *source;
	enum stk_status status;

	if (!PyArg_ParseTuple(args, "(ii)O:set_source", &node.op, &node.output, &source) || !core_source_callbacks(source, &callbacks))
		return NULL;
	status = stk_graph_set_source(((struct graph_object *)object)->g, node, &callbacks, &err);
	return status == STK_OK ? Py_NewRef(Py_None) : core_raise(status, &err);
}

static PyObject *graph_serialize(PyObject *object, PyObject *unused)
{
	struct stk_error err = {0};
	char *text = NULL;
	enum stk_status status = stk_graph_serialize(((struct graph_object *)object)->g, &text, &err);
	PyObject *result;

	(void)unused;
	if (status != STK_OK)
		return core_raise(status, &err);
	result = core_text(text);
	stk_text_free(text);
	return result;
}

CORE_LOCKED_KEYWORDS(graph_add)
CORE_LOCKED_METHOD(graph_output)
CORE_LOCKED_METHOD(graph_describe)
CORE_LOCKED_METHOD(graph_device)
CORE_LOCKED_METHOD(graph_set_source)
CORE_LOCKED_METHOD(graph_serialize)

static PyMethodDef graph_methods[] = {
	{"add", (PyCFunction)(void (*)(void))CORE_LOCKED(graph_add), METH_VARARGS | METH_KEYWORDS,
		"add(op, inputs, args, name=None, where=None, device=0)\n--\n\nAppends an operator; device: 0 where its inputs are, 1 "
		"cores, 2 GPU. Returns (its ordinal, number of outputs)."},
	{"output", CORE_LOCKED(graph_output), METH_O, "output(node)\n--\n\nAppends an output of the pipeline."},
	{"describe", CORE_LOCKED(graph_describe), METH_O,
		"describe(node)\n--\n\n(dtype, ndim, shape, layout) as far as they are known before the first batch."},
	{"device", CORE_LOCKED(graph_device), METH_O,
		"device(node)\n--\n\nWhere a value lies in a pipeline with a GPU: 1 host memory, 2 GPU."},
	{"set_source", CORE_LOCKED(graph_set_source), METH_VARARGS,
		"set_source(node, source)\n--\n\nGives an external_source its Source, held weakly."},
	{"serialize", CORE_LOCKED(graph_serialize), METH_NOARGS, "serialize()\n--\n\nThe graph as JSON."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot graph_slots[] = {
	{Py_tp_doc, "Graph(json=None)\n--\n\nA graph of operators."},
	{Py_tp_new, graph_new},
	{Py_tp_dealloc, graph_dealloc},
	{Py_tp_methods, graph_methods},
	{0, NULL},
};

PyTypeObject *core_graph_type(PyObject *module)
{
	return core_type(module, "stoker._core.Graph", sizeof(struct graph_object), 0, graph_slots);
}
