/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes DLPack capsules of the versioned protocol and of the unversioned one before it. The structures follow
 * https://dmlc.github.io/dlpack/latest/. The library returns them as void *, because their names in a public header would clash with DLPack's. */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DL_CPU = 1, DL_CUDA = 2 };
enum { DL_IS_COPIED = 2 }; /* a bit of dl_versioned's flags */

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

struct dl_managed { /* the protocol before DLPack 1.0 */
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

/* The managed tensor that a consumer receives. It wraps `inner`, the library's managed tensor, in order not to call inner's deleter in a forked child: the
 * deleter takes a lock, which a thread of the parent may have held during the fork. */
struct handed_over {
	struct dl_versioned versioned;
	struct dl_managed old;
	struct dl_versioned *inner;
	pid_t pid;
	int64_t shape[STK_MAX_DIMS + 1], strides[STK_MAX_DIMS + 1]; /* used if the capsule's axes are not those of the memory */
};

/* Calls the library's deleter, except in a forked child, and frees `h`. May be called on any thread, with or without the GIL. */
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

/* Releases the tensor of a capsule that was not consumed. A consumer has renamed its capsule, and calls the deleter itself. */
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

/* Changes the axes without moving elements: puts channels before rows and columns, or keeps only the first axis. */
static void apply_view(struct handed_over *h, enum core_view view)
{
	struct dl_tensor *t = &h->versioned.tensor;
	const int32_t last = t->ndim - 1, front = t->ndim - 3;

	if (view == CORE_VIEW_NUMBERS) {
		t->ndim = 1;
		return;
	}
	for (int32_t d = 0; d <= last; d++) {
		const int32_t from = d < front ? d : d == front ? last : d - 1;
		h->shape[d] = t->shape[from];
		h->strides[d] = t->strides[from];
	}
	t->shape = h->shape;
	t->strides = h->strides;
}

/* Makes a capsule that owns `inner`. On failure, releases `inner` and returns NULL with an exception set. */
static PyObject *make_capsule(struct dl_versioned *inner, bool versioned, enum core_view view)
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
	if (view != CORE_VIEW_PLAIN)
		apply_view(h, view);
	h->old = (struct dl_managed){.tensor = h->versioned.tensor, .manager = h, .deleter = old_deleter};
	if (versioned)
		capsule = PyCapsule_New(&h->versioned, "dltensor_versioned", versioned_capsule_free);
	else
		capsule = PyCapsule_New(&h->old, "dltensor", old_capsule_free);
	if (!capsule)
		give_back(h);
	return capsule;
}

/* The parsed arguments of a call of __dlpack__. */
struct wish {
	PyObject *stream, *copy;
	bool versioned;
	bool has_device; /* true if the caller passed dl_device; `device` is its value */
	struct dl_device device;
};

static bool parse_wish(PyObject *args, PyObject *kwargs, struct wish *w)
{
	static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
	PyObject *max_version = Py_None, *device = Py_None;
	int major = 0, minor = 0, type = DL_CPU, id = 0;

	*w = (struct wish){.stream = Py_None, .copy = Py_None};
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &w->stream, &max_version, &device, &w->copy))
		return false;
	if (max_version != Py_None && !PyArg_ParseTuple(max_version, "ii", &major, &minor))
		return false;
	if (device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &id))
		return false;
	w->versioned = major >= 1;
	w->has_device = device != Py_None;
	w->device = (struct dl_device){type, id};
	return true;
}

/* Notes that the consumer's stream reads the batch. DLPack numbers streams as stk_batch_use_stream does; None means the legacy default stream, and -1
 * a consumer that synchronises itself. The data is complete, so the stream has nothing to wait for. Returns false with an exception on failure, and for
 * stream 0, which is ambiguous. */
static bool note_stream(struct stk_batch *batch, int32_t output, PyObject *stream)
{
	struct stk_error err = {0};
	long long number = 1;
	enum stk_status status;

	if (stream != Py_None) {
		number = PyLong_AsLongLong(stream);
		if (number == -1)
			return !PyErr_Occurred();
		if (number == 0) {
			PyErr_SetString(PyExc_ValueError,
				"__dlpack__: stream 0 is ambiguous on CUDA: 1 is the legacy default stream, 2 the thread's own");
			return false;
		}
	}
	status = stk_batch_use_stream_output(batch, output, (uint64_t)number, &err);
	if (status != STK_OK)
		core_raise(status, &err);
	return status == STK_OK;
}

/* Copies an output, or its sample `index` if index >= 0, to host memory. Sets *out to a managed tensor with DL_IS_COPIED, which owns the copy. */
static enum stk_status copied(struct stk_batch *batch, int32_t output, int32_t index, void **out, struct stk_error *err)
{
	struct stk_batch *copy = NULL;
	enum stk_status status;

	Py_BEGIN_ALLOW_THREADS status = stk_batch_to_host(batch, output, index, &copy, err);
	Py_END_ALLOW_THREADS if (status != STK_OK) return status;
	status = stk_batch_dlpack(copy, 0, index < 0 ? -1 : 0, out, err);
	stk_batch_unref(&copy);
	if (status == STK_OK)
		((struct dl_versioned *)*out)->flags |= DL_IS_COPIED;
	return status;
}

static PyObject *cannot(const struct wish *w, bool on_gpu, int32_t device_id)
{
	if (w->has_device && w->device.type != (on_gpu ? DL_CUDA : DL_CPU) && w->device.type != DL_CPU)
		return PyErr_Format(PyExc_BufferError, "the tensor lies on device (%d, %d)", on_gpu ? DL_CUDA : DL_CPU, (int)device_id);
	if (w->copy == Py_False)
		return PyErr_Format(
			PyExc_BufferError, "the tensor lies on a GPU, so host memory can hold only a copy of it; leave out copy=False");
	return PyErr_Format(
		PyExc_BufferError, "stoker gives out memory of the GPU without a copy; leave out copy=True, and copy the result");
}

PyObject *core_dlpack(struct stk_batch *batch, int32_t output, int32_t index, PyObject *args, PyObject *kwargs)
{
	const struct stk_tensor_list *list = stk_batch_output(batch, output);
	const bool on_gpu = list->device_id >= 0;
	struct wish w;
	struct stk_error err = {0};
	enum stk_status status;
	bool to_host, same_device;
	void *managed = NULL;

	if (!parse_wish(args, kwargs, &w))
		return NULL;
	same_device = !w.has_device || (on_gpu ? w.device.type == DL_CUDA && w.device.id == list->device_id : w.device.type == DL_CPU);
	to_host = same_device ? w.copy == Py_True && !on_gpu : w.device.type == DL_CPU && w.copy != Py_False;
	if (!to_host && (!same_device || w.copy == Py_True))
		return cannot(&w, on_gpu, on_gpu ? list->device_id : 0);
	if (on_gpu && !to_host && !note_stream(batch, output, w.stream))
		return NULL;
	status = to_host ? copied(batch, output, index, &managed, &err) : stk_batch_dlpack(batch, output, index, &managed, &err);
	return status == STK_OK ? make_capsule(managed, w.versioned, CORE_VIEW_PLAIN) : core_raise(status, &err);
}

/* Returns `wanted` if the output's layout and shape allow that view, else CORE_VIEW_PLAIN. */
static enum core_view view_of(const struct stk_tensor_list *list, enum core_view wanted)
{
	const struct stk_desc *d = &list->desc;
	int64_t numbers = 1;

	if (wanted == CORE_VIEW_CHANNELS_FIRST)
		return strcmp(d->layout, "HWC") == 0 || strcmp(d->layout, "FHWC") == 0 ? wanted : CORE_VIEW_PLAIN;
	for (int32_t k = 0; k < d->ndim; k++)
		numbers *= d->shape[k];
	return wanted == CORE_VIEW_NUMBERS && numbers == 1 && d->ndim > 0 ? wanted : CORE_VIEW_PLAIN;
}

PyObject *core_dlpack_output(struct stk_batch *batch, int32_t output, enum core_view wanted)
{
	const struct stk_tensor_list *list = stk_batch_output(batch, output);
	struct stk_error err = {0};
	void *managed = NULL;
	enum stk_status status;

	if (!list->dense)
		return Py_NewRef(Py_None);
	status = stk_batch_dlpack(batch, output, -1, &managed, &err);
	return status == STK_OK ? make_capsule(managed, false, view_of(list, wanted)) : core_raise(status, &err);
}
