/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack capsules, versioned and of the old protocol. Structures as https://dmlc.github.io/dlpack/latest/ specifies them. */
#include "core.h"

#include <stdlib.h>
#include <unistd.h>

struct dl_device {
	int32_t type, id;
};

struct dl_tensor {
	void *data;
	struct dl_device device;
	int32_t ndim;
	struct {
		uint8_t code, bits;
		uint16_t lanes;
	} dtype;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};

struct dl_managed { /* before 1.0 */
	struct dl_tensor tensor;
	void *manager;
	void (*deleter)(struct dl_managed *self);
};

struct dl_versioned {
	struct {
		uint32_t major, minor;
	} version;
	void *manager;
	void (*deleter)(struct dl_versioned *self);
	uint64_t flags;
	struct dl_tensor tensor;
};

/* What a consumer gets, around the library's: a forked child must not give a slot back, whose lock may be held by a thread that it lacks. */
struct handed_over {
	struct dl_versioned versioned;
	struct dl_managed old;
	struct dl_versioned *inner;
	pid_t pid;
};

/* Any thread, without the GIL. */
static void give_back(struct handed_over *h)
{
	if (h->inner->deleter && getpid() == h->pid)
		h->inner->deleter(h->inner);
	free(h);
}

static void versioned_deleter(struct dl_versioned *managed)
{
	give_back(managed->manager);
}

static void old_deleter(struct dl_managed *managed)
{
	give_back(managed->manager);
}

/* A consumer renames the capsule and calls the deleter itself. */
static void versioned_capsule_free(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
		versioned_deleter(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static void old_capsule_free(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, "dltensor"))
		old_deleter(PyCapsule_GetPointer(capsule, "dltensor"));
}

/* Takes over the library's managed tensor. */
static PyObject *make_capsule(struct dl_versioned *inner, bool versioned)
{
	struct handed_over *h = calloc(1, sizeof(*h));
	PyObject *capsule;

	if (!h) {
		inner->deleter(inner);
		return PyErr_NoMemory();
	}
	h->inner = inner;
	h->pid = getpid();
	h->versioned = *inner;
	h->versioned.manager = h;
	h->versioned.deleter = versioned_deleter;
	h->old = (struct dl_managed){.tensor = inner->tensor, .manager = h, .deleter = old_deleter};
	if (versioned)
		capsule = PyCapsule_New(&h->versioned, "dltensor_versioned", versioned_capsule_free);
	else
		capsule = PyCapsule_New(&h->old, "dltensor", old_capsule_free);
	if (!capsule)
		give_back(h);
	return capsule;
}

PyObject *core_dlpack(struct stk_batch *batch, int32_t output, int32_t index, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
	PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
	int major = 0, minor = 0, type = 1, id = 0;
	struct dl_versioned *managed;
	void *raw = NULL;
	struct stk_error err = {0};
	enum stk_status status;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &max_version, &device, &copy))
		return NULL;
	if (max_version != Py_None && !PyArg_ParseTuple(max_version, "ii", &major, &minor))
		return NULL;
	if (device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &id))
		return NULL;
	if (copy == Py_True) {
		PyErr_SetString(PyExc_BufferError, "stoker hands over its memory without a copy; copy the result");
		return NULL;
	}
	status = stk_batch_dlpack(batch, output, index, &raw, &err);
	if (status != STK_OK)
		return core_raise(status, &err);
	managed = raw;
	if (device != Py_None && (type != managed->tensor.device.type || id != managed->tensor.device.id)) {
		managed->deleter(managed);
		return PyErr_Format(PyExc_BufferError, "the tensor lies on device (%d, %d)", (int)managed->tensor.device.type,
			(int)managed->tensor.device.id);
	}
	return make_capsule(managed, major >= 1);
}
