/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees of tensors, for stoker.to_device: takes nested lists, tuples and dicts apart, sorts their tensors into groups that one call can copy, and puts
 * the copies back together. A tree may have hundreds of small tensors, and in Python each of these steps costs as much as the copy. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

/* ---- taking apart ---- */

/* What tree_take_apart collects from a tree. It builds the tree's copy from lists and dicts without tensors. A container of another type, such as a tuple,
 * is a list in the copy at first: tree_put_together sets the tensors in the list, and then replaces it by what the container's constructor makes of it. */
struct parts {
	PyObject *leaves;            /* list: the tensors, in the order of the tree */
	PyObject *containers, *keys; /* lists: for each leaf, the container in the copy that will hold it, and its key or index there */
	PyObject *ends;              /* list of (container, key, constructor, list of children); children come before their parents */
	PyObject *tensor, *other;    /* the type of tensors; the function that visit_other calls for values of other types */
};

static int visit(struct parts *p, PyObject *node, PyObject *container, PyObject *key);

static int put(PyObject *container, PyObject *key, PyObject *value)
{
	if (PyDict_CheckExact(container))
		return PyDict_SetItem(container, key, value);

	Py_ssize_t at = PyLong_AsSsize_t(key);

	if (at == -1 && PyErr_Occurred())
		return -1;
	return PyList_SetItem(container, at, Py_NewRef(value));
}

static int visit_leaf(struct parts *p, PyObject *leaf, PyObject *container, PyObject *key)
{
	if (PyList_Append(p->leaves, leaf) < 0 || PyList_Append(p->containers, container) < 0)
		return -1;
	return PyList_Append(p->keys, key);
}

/* Visits the items of a tuple or list. Returns a list with their copies, and None where tree_put_together sets a tensor. On failure, returns NULL with
 * an exception set. */
static PyObject *visit_items(struct parts *p, PyObject *items)
{
	Py_ssize_t count = PySequence_Size(items);
	PyObject *copies = count < 0 ? NULL : PyList_New(count);

	for (Py_ssize_t i = 0; copies && i < count; i++)
		PyList_SetItem(copies, i, Py_NewRef(Py_None));
	for (Py_ssize_t i = 0; copies && i < count; i++) {
		PyObject *item = PySequence_GetItem(items, i), *key = PyLong_FromSsize_t(i);

		if (!item || !key || visit(p, item, copies, key) < 0)
			Py_CLEAR(copies);
		Py_XDECREF(item);
		Py_XDECREF(key);
	}
	return copies;
}

static int visit_list(struct parts *p, PyObject *list, PyObject *container, PyObject *key)
{
	PyObject *copy = visit_items(p, list);
	int failed = copy ? put(container, key, copy) : -1;

	Py_XDECREF(copy);
	return failed;
}

static int visit_dict(struct parts *p, PyObject *dict, PyObject *container, PyObject *key)
{
	PyObject *copy = PyDict_New(), *keys = PyDict_Keys(dict);
	Py_ssize_t count = copy && keys ? PyList_Size(keys) : -1;
	int failed = count < 0 ? -1 : 0;

	for (Py_ssize_t i = 0; !failed && i < count; i++) {
		PyObject *name = PyList_GetItem(keys, i), *value = PyObject_GetItem(dict, name);

		/* tree_put_together sets the leaves later. Setting each key now gives the copy the dict's order. */
		if (!value || PyDict_SetItem(copy, name, Py_None) < 0 || visit(p, value, copy, name) < 0)
			failed = -1;
		Py_XDECREF(value);
	}
	if (!failed)
		failed = put(container, key, copy);
	Py_XDECREF(keys);
	Py_XDECREF(copy);
	return failed;
}

/* Visits a container that `constructor` makes from a list of its children. On failure, returns -1 with an exception set. */
static int visit_made(struct parts *p, PyObject *constructor, PyObject *children, PyObject *container, PyObject *key)
{
	PyObject *copies = visit_items(p, children);
	PyObject *end = copies ? PyTuple_Pack(4, container, key, constructor, copies) : NULL;
	int failed = end ? PyList_Append(p->ends, end) : -1;

	Py_XDECREF(copies);
	Py_XDECREF(end);
	return failed;
}

/* Calls p->other(node), which returns None for a value that the copy shares, (None, tensor) for a tensor, or (constructor, list of children) for a
 * container. On failure, returns -1 with an exception set. */
static int visit_other(struct parts *p, PyObject *node, PyObject *container, PyObject *key)
{
	PyObject *answer = PyObject_CallFunctionObjArgs(p->other, node, NULL);
	int failed = -1;

	if (!answer)
		return -1;
	if (answer == Py_None) {
		failed = put(container, key, node);
	} else {
		PyObject *constructor, *value;

		if (PyArg_ParseTuple(answer, "OO", &constructor, &value))
			failed = constructor == Py_None ? visit_leaf(p, value, container, key)
							: visit_made(p, constructor, value, container, key);
	}
	Py_DECREF(answer);
	return failed;
}

static int visit(struct parts *p, PyObject *node, PyObject *container, PyObject *key)
{
	int failed;

	if ((PyObject *)Py_TYPE(node) == p->tensor)
		return visit_leaf(p, node, container, key);
	if (node == Py_None || PyUnicode_CheckExact(node) || PyLong_CheckExact(node) || PyFloat_CheckExact(node) || PyBool_Check(node))
		return put(container, key, node);
	if (Py_EnterRecursiveCall(" in a tree of tensors"))
		return -1;
	if (PyList_CheckExact(node))
		failed = visit_list(p, node, container, key);
	else if (PyDict_CheckExact(node))
		failed = visit_dict(p, node, container, key);
	else if (PyTuple_CheckExact(node))
		failed = visit_made(p, (PyObject *)&PyTuple_Type, node, container, key);
	else
		failed = visit_other(p, node, container, key);
	Py_LeaveRecursiveCall();
	return failed;
}

PyObject *core_tree_take_apart(PyObject *module, PyObject *args)
{
	struct parts p = {0};
	PyObject *tree, *root = NULL, *zero = NULL, *result = NULL;

	(void)module;
	if (!PyArg_ParseTuple(args, "OOO", &tree, &p.tensor, &p.other))
		return NULL;
	p.leaves = PyList_New(0);
	p.containers = PyList_New(0);
	p.keys = PyList_New(0);
	p.ends = PyList_New(0);
	root = PyList_New(1);
	zero = PyLong_FromLong(0);
	if (!p.leaves || !p.containers || !p.keys || !p.ends || !root || !zero)
		goto out;
	PyList_SetItem(root, 0, Py_NewRef(Py_None));
	if (visit(&p, tree, root, zero) == 0)
		result = Py_BuildValue("O(OOOO)", p.leaves, root, p.containers, p.keys, p.ends);
out:
	Py_XDECREF(p.leaves);
	Py_XDECREF(p.containers);
	Py_XDECREF(p.keys);
	Py_XDECREF(p.ends);
	Py_XDECREF(root);
	Py_XDECREF(zero);
	return result;
}

PyObject *core_tree_put_together(PyObject *module, PyObject *args)
{
	PyObject *root, *containers, *keys, *ends, *leaves;

	(void)module;
	if (!PyArg_ParseTuple(args, "(O!O!O!O!)O!", &PyList_Type, &root, &PyList_Type, &containers, &PyList_Type, &keys, &PyList_Type,
		    &ends, &PyList_Type, &leaves))
		return NULL;
	if (PyList_Size(leaves) != PyList_Size(keys) || PyList_Size(containers) != PyList_Size(keys))
		return PyErr_Format(
			PyExc_ValueError, "a tree of %zd tensors needs as many copies, not %zd", PyList_Size(keys), PyList_Size(leaves));
	for (Py_ssize_t i = 0; i < PyList_Size(keys); i++)
		if (put(PyList_GetItem(containers, i), PyList_GetItem(keys, i), PyList_GetItem(leaves, i)) < 0)
			return NULL;
	for (Py_ssize_t i = 0; i < PyList_Size(ends); i++) {
		PyObject *container, *key, *constructor, *children;

		if (!PyArg_ParseTuple(PyList_GetItem(ends, i), "OOOO", &container, &key, &constructor, &children))
			return NULL;

		PyObject *value = PyObject_CallFunctionObjArgs(constructor, children, NULL);
		int failed = value ? put(container, key, value) : -1;

		Py_XDECREF(value);
		if (failed)
			return NULL;
	}
	return Py_NewRef(PyList_GetItem(root, 0));
}

/* ---- groups ---- */

/* The part of DLPack's exchange table that is used here (https://dmlc.github.io/dlpack, version 1.3). Reading dtype and shape from it takes a sixth
 * of the time of reading the tensor's attributes. */
struct dlpack_tensor {
	void *data;
	int32_t device_type, device_id;
	int32_t dims;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};

struct dlpack_exchange {
	uint32_t major, minor;
	struct dlpack_exchange *older;
	void *allocate, *from_object, *to_object;
	int (*describe)(void *object, struct dlpack_tensor *out); /* may be NULL; fills *out, or returns -1 with an exception */
	void *current_stream;
};

enum { MOST_DIMS = 16 };

/* Identifies a tensor's group. The tensors of a group lie on one device, and have one dtype, one number of dimensions and equal extents after the first
 * dimension, so that one torch.cat joins them and one split_with_sizes separates the copies. */
struct group_key {
	int64_t device; /* a number that differs between devices, and one that differs between dtypes; valid within one call of tree_groups */
	int64_t dtype;
	int64_t item; /* size in bytes of an element */
	int64_t dims;
	int64_t step;                   /* each tensor's number of rows is padded to a multiple of this, for alignment */
	int64_t extents[MOST_DIMS - 1]; /* the first dims - 1 are set */
};

struct group {
	struct group_key key;
	uint64_t hash;     /* of the key */
	PyObject *tensors; /* list: the inputs of torch.cat; an int n is replaced by n rows of padding */
	PyObject *rows;    /* list: number of rows of each input */
	PyObject *members; /* list: index of each input among all tensors, -1 for padding */
	PyObject *padding; /* list: indices of the ints in `tensors` */
};

struct groups {
	struct group *v;
	size_t count, capacity;
	size_t *slots; /* [2 * capacity]: a hash table of the groups, with 1 + the index of a group, or 0 */
};

static const struct dlpack_exchange *exchange_of(PyObject *type)
{
	PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
	const struct dlpack_exchange *table = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;

	Py_XDECREF(capsule);
	PyErr_Clear();
	return table && table->major == 1 && table->describe ? table : NULL;
}

/* Sets the extents of a key whose item and dims are set, and *rows to the first extent (1 for a tensor without dimensions). Returns whether a tensor
 * of this shape can be in a group. */
static bool set_extents(struct group_key *key, const int64_t *shape, int64_t *rows)
{
	*rows = key->dims ? shape[0] : 1;
	for (int64_t i = 1; i < key->dims; i++) {
		key->extents[i - 1] = shape[i];
		if (shape[i] <= 0)
			return false;
	}
	return key->item > 0;
}

/* Sets the key and *rows through DLPack's table. Returns whether the tensor can be in a group. Leaves no exception. */
static bool read_by_dlpack(const struct dlpack_exchange *table, PyObject *tensor, struct group_key *key, int64_t *rows)
{
	struct dlpack_tensor d = {0};

	if (table->describe(tensor, &d) != 0) { /* DLPack cannot describe a sparse, quantized or nested tensor */
		PyErr_Clear();
		return false;
	}
	if (d.dims < 0 || d.dims > MOST_DIMS)
		return false;
	key->device = d.device_type | (int64_t)d.device_id << 32;
	key->dtype = d.code | d.bits << 8 | (int64_t)d.lanes << 16;
	key->item = d.bits * d.lanes / 8;
	key->dims = d.dims;
	return set_extents(key, d.shape, rows);
}

static int read_shape(PyObject *shape, int64_t *extents)
{
	for (Py_ssize_t i = 0; i < PyTuple_Size(shape); i++) {
		extents[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
		if (extents[i] == -1 && PyErr_Occurred())
			return -1;
	}
	return 0;
}

/* Sets the key and *rows from the tensor's attributes, for versions of torch without DLPack's table. Returns 1 if the tensor can be in a group, 0 if not,
 * and -1 with an exception on failure. */
static int read_by_attributes(PyObject *tensor, struct group_key *key, int64_t *rows)
{
	PyObject *shape = PyObject_GetAttrString(tensor, "shape"), *dtype = NULL, *item = NULL, *device = NULL;
	int64_t extents[MOST_DIMS];
	int status = -1;

	if (!shape) { /* a nested tensor has no shape */
		PyErr_Clear();
		return 0;
	}
	key->dims = PyTuple_Size(shape);
	if (key->dims < 0 || key->dims > MOST_DIMS) {
		status = key->dims < 0 ? -1 : 0;
		goto out;
	}
	dtype = PyObject_GetAttrString(tensor, "dtype");
	item = dtype ? PyObject_GetAttrString(dtype, "itemsize") : NULL;
	device = item ? PyObject_GetAttrString(tensor, "device") : NULL;
	key->device =
		device ? PyObject_Hash(device) : -1; /* torch makes it from the device's type and index, and no two devices share one */
	key->dtype = (intptr_t)dtype;                /* torch's dtypes live as long as torch */
	key->item = device ? PyLong_AsLongLong(item) : -1;
	if (key->item >= 0 && key->device != -1 && read_shape(shape, extents) == 0)
		status = set_extents(key, extents, rows);
out:
	Py_DECREF(shape);
	Py_XDECREF(dtype);
	Py_XDECREF(item);
	Py_XDECREF(device);
	return status;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t remainder = a % b;

		a = b;
		b = remainder;
	}
	return a;
}

static int append(PyObject *list, int64_t value)
{
	PyObject *number = PyLong_FromLongLong(value);
	int failed = number ? PyList_Append(list, number) : -1;

	Py_XDECREF(number);
	return failed;
}

/* How tensors of a group are aligned: those of at least `least` bytes begin at multiples of `align` bytes, others at multiples of their elements. */
struct alignment {
	int64_t align, least;
};

/* Returns the step of a tensor's group. 1, for no padding, for tensors without dimensions: the caller stacks them at a stride instead. rows: the tensor's
 * first extent. */
static int64_t step_of(const struct group_key *key, int64_t rows, const struct alignment *a)
{
	int64_t row = key->item, size;

	if (!key->dims)
		return 1;
	for (int64_t i = 0; i + 1 < key->dims; i++)
		if (__builtin_mul_overflow(row, key->extents[i], &row))
			return 1; /* a tensor with such large rows does not fit into memory, so its copy fails */
	if (!__builtin_mul_overflow(row, rows, &size) && size < a->least)
		return 1;
	return a->align / common_divisor(a->align, row);
}

static size_t extents_in(const struct group_key *key)
{
	return key->dims > 1 ? (size_t)key->dims - 1 : 0;
}

static uint64_t hash_of(const struct group_key *key)
{
	uint64_t hash = (uint64_t)key->device;

	const int64_t parts[] = {key->dtype, key->item, key->dims, key->step};
	const size_t n = sizeof(parts) / sizeof(parts[0]);

	for (size_t i = 0; i < n + extents_in(key); i++)
		hash = (hash ^ (uint64_t)(i < n ? parts[i] : key->extents[i - n])) * 0x9E3779B97F4A7C15u;
	return hash;
}

static bool same_key(const struct group_key *a, const struct group_key *b)
{
	return a->device == b->device && a->dtype == b->dtype && a->item == b->item && a->dims == b->dims && a->step == b->step &&
	       memcmp(a->extents, b->extents, extents_in(a) * sizeof(a->extents[0])) == 0;
}

/* Returns the slot of a key: the one that holds its group, or the free one in which to put it. */
static size_t *slot_of(const struct groups *groups, const struct group_key *key, uint64_t hash)
{
	const size_t n = 2 * groups->capacity; /* a power of two */

	for (size_t at = hash >> 32;; at++) {
		size_t *slot = &groups->slots[at & (n - 1)];
		const struct group *g = *slot ? &groups->v[*slot - 1] : NULL;

		if (!g || (g->hash == hash && same_key(&g->key, key)))
			return slot;
	}
}

/* Doubles the room for groups. On failure, returns false with an exception set. */
static bool grow(struct groups *groups)
{
	const size_t capacity = groups->capacity ? 2 * groups->capacity : 8;
	size_t *slots = calloc(2 * capacity, sizeof(*slots));
	struct group *v = slots ? realloc(groups->v, capacity * sizeof(*v)) : NULL;

	if (!v) {
		free(slots);
		PyErr_NoMemory();
		return false;
	}
	free(groups->slots);
	groups->v = v;
	groups->capacity = capacity;
	groups->slots = slots;
	for (size_t i = 0; i < groups->count; i++)
		*slot_of(groups, &v[i].key, v[i].hash) = i + 1;
	return true;
}

/* Returns the group of a key, and adds it if it is missing. On failure, returns NULL with an exception set. */
static struct group *group_of(struct groups *groups, const struct group_key *key)
{
	const uint64_t hash = hash_of(key);

	if (groups->count == groups->capacity && !grow(groups))
		return NULL;

	size_t *slot = slot_of(groups, key, hash);

	if (*slot)
		return &groups->v[*slot - 1];

	struct group *g = &groups->v[groups->count++];

	*slot = groups->count;
	*g = (struct group){.key = *key, .hash = hash};
	g->tensors = PyList_New(0);
	g->rows = PyList_New(0);
	g->members = PyList_New(0);
	g->padding = PyList_New(0);
	return g->tensors && g->rows && g->members && g->padding ? g : NULL;
}

static int add_to_group(const struct group *g, PyObject *tensor, Py_ssize_t index, int64_t rows)
{
	if (PyList_Append(g->tensors, tensor) < 0 || append(g->rows, rows) < 0 || append(g->members, index) < 0)
		return -1;

	int64_t pad = rows % g->key.step ? g->key.step - rows % g->key.step : 0;

	if (!pad)
		return 0;
	if (append(g->padding, PyList_Size(g->tensors)) < 0 || append(g->tensors, pad) < 0 || append(g->rows, pad) < 0)
		return -1;
	return append(g->members, -1);
}

/* Returns a list of the groups as tuples (tensors, rows, members, padding, step). */
static PyObject *list_of(const struct groups *groups)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < groups->count; i++) {
		const struct group *g = &groups->v[i];
		PyObject *tuple = Py_BuildValue("OOOOL", g->tensors, g->rows, g->members, g->padding, (long long)g->key.step);

		if (!tuple || PyList_Append(list, tuple) < 0)
			Py_CLEAR(list);
		Py_XDECREF(tuple);
	}
	return list;
}

static void free_groups(struct groups *groups)
{
	for (size_t i = 0; i < groups->count; i++) {
		Py_XDECREF(groups->v[i].tensors);
		Py_XDECREF(groups->v[i].rows);
		Py_XDECREF(groups->v[i].members);
		Py_XDECREF(groups->v[i].padding);
	}
	free(groups->v);
	free(groups->slots);
}

PyObject *core_tree_groups(PyObject *module, PyObject *args)
{
	PyObject *leaves, *type, *result = NULL;
	long long align, least;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!OLL", &PyList_Type, &leaves, &type, &align, &least))
		return NULL;

	const struct dlpack_exchange *table = exchange_of(type);
	const struct alignment alignment = {.align = align, .least = least};
	struct groups groups = {0};
	PyObject *others = PyList_New(0);

	if (!others)
		return NULL;
	for (Py_ssize_t i = 0; i < PyList_Size(leaves); i++) {
		struct group_key key;
		int64_t rows = 0;
		PyObject *leaf = PyList_GetItem(leaves, i);
		int status = 0;

		if ((PyObject *)Py_TYPE(leaf) == type)
			status = table ? read_by_dlpack(table, leaf, &key, &rows) : read_by_attributes(leaf, &key, &rows);
		if (status > 0) {
			key.step = step_of(&key, rows, &alignment);

			struct group *g = group_of(&groups, &key);

			status = g && add_to_group(g, leaf, i, rows) == 0 ? 1 : -1;
		} else if (status == 0 && append(others, i) < 0) {
			status = -1;
		}
		if (status < 0)
			goto out;
	}

	PyObject *list = list_of(&groups);

	result = list ? Py_BuildValue("NO", list, others) : NULL;
out:
	free_groups(&groups);
	Py_DECREF(others);
	return result;
}

PyObject *core_tree_assign(PyObject *module, PyObject *args)
{
	PyObject *leaves, *members, *copies;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &leaves, &PyList_Type, &members, &PyTuple_Type, &copies))
		return NULL;
	if (PyList_Size(members) != PyTuple_Size(copies))
		return PyErr_Format(PyExc_ValueError, "%zd copies for %zd tensors", PyTuple_Size(copies), PyList_Size(members));
	for (Py_ssize_t i = 0; i < PyList_Size(members); i++) {
		Py_ssize_t at = PyLong_AsSsize_t(PyList_GetItem(members, i));

		if (at == -1 && PyErr_Occurred())
			return NULL;
		if (at >= 0 && PyList_SetItem(leaves, at, Py_NewRef(PyTuple_GetItem(copies, i))) < 0)
			return NULL;
	}
	Py_RETURN_NONE;
}
