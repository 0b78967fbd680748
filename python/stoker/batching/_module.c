/* SPDX-License-Identifier: Apache-2.0
 * stoker._batching: the functions of stoker/batching.h for Python, as plain calls with numbers. Pointers and CUstreams are integers; 0 is NULL. Checks,
 * shapes and autograd are in Python, so that these calls cost well under a microsecond more than the work. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "stoker/batching.h"

#include <string.h>

static const char handle_name[] = "stoker._batching.handle";

/* Reads positional arguments one by one; after the first failure all further reads give 0. */
struct reader {
	PyObject *const *args;
	Py_ssize_t count, next;
	int failed;
};

static PyObject *take(struct reader *r)
{
	if (r->failed)
		return NULL;
	if (r->next < r->count)
		return r->args[r->next++];
	PyErr_Format(PyExc_TypeError, "%zd arguments are too few", r->count);
	r->failed = 1;
	return NULL;
}

static int64_t take_int(struct reader *r)
{
	PyObject *o = take(r);
	if (!o)
		return 0;
	int64_t v = PyLong_AsLongLong(o);
	if (v == -1 && PyErr_Occurred())
		r->failed = 1;
	return v;
}

static void *take_pointer(struct reader *r)
{
	return (void *)(uintptr_t)take_int(r);
}

/* Reads the address of a counter of refused indices. All bits set: `own`, a variable of this call, which other threads do not change. */
static uint64_t *take_counter(struct reader *r, uint64_t *own)
{
	intptr_t address = (intptr_t)take_int(r);
	return address == -1 ? own : (void *)address;
}

static double take_double(struct reader *r)
{
	PyObject *o = take(r);
	double v = o ? PyFloat_AsDouble(o) : 0;
	if (v == -1 && PyErr_Occurred())
		r->failed = 1;
	return v;
}

static struct stk_ragged *take_handle(struct reader *r)
{
	PyObject *o = take(r);
	struct stk_ragged *h = o ? PyCapsule_GetPointer(o, handle_name) : NULL;
	r->failed |= !h;
	return h;
}

static PyObject *done(enum stk_status status, const struct stk_error *err)
{
	if (status == STK_OK)
		Py_RETURN_NONE;
	PyErr_SetString(status == STK_NO_MEMORY                        ? PyExc_MemoryError
			: status == STK_INVALID || status == STK_SHAPE ? PyExc_ValueError
								       : PyExc_RuntimeError,
		err->message);
	return NULL;
}

/* Ends a method: makes a call of the library without the GIL, and returns the object `made`, or NULL with an exception if the call failed. If the reader r failed
 * to read the method's arguments, returns NULL without the call. `call` may use the variable err. */
#define CALL_AND_RETURN(r, call, made)                                                                                                     \
	do {                                                                                                                               \
		if ((r).failed)                                                                                                            \
			return NULL;                                                                                                       \
		struct stk_error err = {0};                                                                                                \
		enum stk_status status;                                                                                                    \
		Py_BEGIN_ALLOW_THREADS status = call;                                                                                      \
		Py_END_ALLOW_THREADS return status ? done(status, &err) : (made);                                                          \
	} while (0)

#define CALL(r, call) CALL_AND_RETURN(r, call, Py_NewRef(Py_None))
/* For functions that count refused indices. Returns `own`: their number if take_counter returned its address, else 0. */
#define CALL_COUNTING(r, own, call) CALL_AND_RETURN(r, call, PyLong_FromUnsignedLongLong(own))

/* Codes of two types that enum stk_dtype lacks: functions only move such elements. A filler value becomes an element's real part. */
enum { COMPLEX64 = 100, COMPLEX128 = 101 };

static int32_t element_bytes(int64_t dtype)
{
	return dtype == COMPLEX64 ? 8 : dtype == COMPLEX128 ? 16 : (int32_t)stk_dtype_size((enum stk_dtype)dtype);
}

static uint16_t short_float(double v, int64_t dtype)
{
	float f = (float)v;
	uint32_t u;
	memcpy(&u, &f, 4);
	if (dtype == STK_BFLOAT16)
		return (uint16_t)(f != f ? 0x7fc0 : (u + 0x7fff + ((u >> 16) & 1)) >> 16);
	uint32_t sign = (u >> 16) & 0x8000, magnitude = u & 0x7fffffff;
	if (magnitude > 0x7f800000)
		return (uint16_t)(sign | 0x7e00);
	if (magnitude >= 0x477ff000)
		return (uint16_t)(sign | 0x7c00);
	if (magnitude < 0x38800000) {
		float shifted = (f < 0 ? -f : f) + 0.5f;
		memcpy(&u, &shifted, 4);
		return (uint16_t)(sign | (u - 0x3f000000));
	}
	return (uint16_t)(sign | (magnitude + 0xc8000fff + ((magnitude >> 13) & 1)) >> 13);
}

static void take_filler(struct reader *r, int64_t dtype, uint8_t out[16])
{
	PyObject *o = take(r);
	memset(out, 0, 16);
	if (!o)
		return;
	if (dtype == STK_INT64 || dtype == STK_INT32 || dtype == STK_INT16 || dtype == STK_INT8 || dtype == STK_UINT8 ||
		dtype == STK_BOOL) {
		PyObject *whole = PyNumber_Long(o); /* callers pass 0.0 as the default for integers too */
		int64_t v = whole ? PyLong_AsLongLong(whole) : 0;
		Py_XDECREF(whole);
		r->failed |= PyErr_Occurred() != NULL;
		v = dtype == STK_BOOL ? v != 0 : v;
		memcpy(out, &v, (size_t)element_bytes(dtype)); /* little endian */
		return;
	}
	double d = PyFloat_AsDouble(o);
	float f = (float)d;
	uint16_t h = 0;
	r->failed |= d == -1 && PyErr_Occurred() != NULL;
	if (dtype == STK_FLOAT64 || dtype == COMPLEX128)
		memcpy(out, &d, 8);
	else if (dtype == STK_FLOAT || dtype == COMPLEX64)
		memcpy(out, &f, 4);
	else
		memcpy(out, (h = short_float(d, dtype), &h), 2);
}

static struct stk_indices take_indices(struct reader *r)
{
	struct stk_indices i = {0};
	i.data = take_pointer(r);
	i.sizes = take_pointer(r);
	i.count = take_int(r);
	i.bytes = (int32_t)take_int(r);
	return i;
}

static struct reader begin(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	(void)self;
	return (struct reader){args, count, 0, 0};
}

static void close_handle(PyObject *capsule)
{
	struct stk_ragged *h = PyCapsule_GetPointer(capsule, handle_name);
	Py_BEGIN_ALLOW_THREADS stk_ragged_destroy(h); /* may wait for the GPU, which may wait for a function that needs the GIL */
	Py_END_ALLOW_THREADS
}

static PyObject *py_open(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	int32_t device = (int32_t)take_int(&r), threads = (int32_t)take_int(&r);
	if (r.failed)
		return NULL;
	struct stk_ragged *h;
	struct stk_error err = {0};
	enum stk_status status = stk_ragged_create(device, threads, &h, &err);
	return status ? done(status, &err) : PyCapsule_New(h, handle_name, close_handle);
}

static PyObject *py_gather(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	uint64_t own = 0;
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	struct stk_gather g = {.batch = take_int(&r)};
	g.outer = take_int(&r);
	g.inner = take_int(&r);
	int64_t dtype = take_int(&r);
	g.element = element_bytes(dtype);
	g.exact = (int32_t)take_int(&r);
	g.source = take_pointer(&r);
	g.source_items = take_int(&r);
	g.source_sizes = take_pointer(&r);
	g.index = take_indices(&r);
	g.winner = take_pointer(&r);
	g.base = take_pointer(&r);
	take_filler(&r, dtype, g.filler);
	g.out = take_pointer(&r);
	g.refused = take_counter(&r, &own);
	CALL_COUNTING(r, own, stk_ragged_gather(h, &g, stream, &err));
}

static PyObject *py_scatter(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	uint64_t own = 0;
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	struct stk_scatter s = {.batch = take_int(&r)};
	s.outer = take_int(&r);
	s.inner = take_int(&r);
	int64_t dtype = take_int(&r);
	s.element = element_bytes(dtype);
	s.source = take_pointer(&r);
	s.source_items = take_int(&r);
	s.source_sizes = take_pointer(&r);
	s.target = take_indices(&r);
	s.from = take_indices(&r);
	s.base = take_pointer(&r);
	take_filler(&r, dtype, s.filler);
	s.items = take_int(&r);
	s.sizes = take_pointer(&r);
	s.out = take_pointer(&r);
	s.origin = take_pointer(&r);
	s.refused = take_counter(&r, &own);
	CALL_COUNTING(r, own, stk_ragged_scatter(h, &s, stream, &err));
}

static PyObject *py_scatter_add(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	struct stk_scatter_add s = {.batch = take_int(&r)};
	s.outer = take_int(&r);
	s.inner = take_int(&r);
	s.dtype = (enum stk_dtype)take_int(&r);
	s.exact = (int32_t)take_int(&r);
	s.source = take_pointer(&r);
	s.index = take_indices(&r);
	s.items = take_int(&r);
	s.sizes = take_pointer(&r);
	s.out = take_pointer(&r);
	CALL(r, stk_ragged_scatter_add(h, &s, stream, &err));
}

static PyObject *py_keep(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	struct stk_keep k = {.batch = take_int(&r)};
	k.outer = take_int(&r);
	k.items = take_int(&r);
	k.inner = take_int(&r);
	int64_t dtype = take_int(&r);
	k.element = element_bytes(dtype);
	k.source = take_pointer(&r);
	k.sizes = take_pointer(&r);
	k.origin = take_pointer(&r);
	take_filler(&r, dtype, k.filler);
	k.out = take_pointer(&r);
	CALL(r, stk_ragged_keep(h, &k, stream, &err));
}

static PyObject *py_mask_to_index(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	struct stk_mask m = {.batch = take_int(&r)};
	m.items = take_int(&r);
	m.mask = take_pointer(&r);
	m.sizes = take_pointer(&r);
	m.index = take_pointer(&r);
	m.count = take_pointer(&r);
	m.rank = take_pointer(&r);
	CALL(r, stk_ragged_mask_to_index(h, &m, stream, &err));
}

static PyObject *py_index_to_mask(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	uint64_t own = 0;
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	int64_t batch = take_int(&r), items = take_int(&r);
	struct stk_indices index = take_indices(&r);
	uint8_t *mask = take_pointer(&r);
	uint64_t *refused = take_counter(&r, &own);
	CALL_COUNTING(r, own, stk_ragged_index_to_mask(h, batch, items, &index, mask, refused, stream, &err));
}

/* pack(handle, pointers, sizes, items, inner_bytes, out): calls stk_ragged_pack. pointers, sizes: lists with the address and the size of each sample. */
static PyObject *py_pack(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	struct stk_ragged *h = take_handle(&r);
	PyObject *pointers = take(&r), *sizes = take(&r);
	int64_t items = take_int(&r), inner = take_int(&r);
	void *out = take_pointer(&r);
	if (r.failed)
		return NULL;
	Py_ssize_t n = PyList_Size(pointers);
	if (n < 0 || PyList_Size(sizes) != n)
		return PyErr_Occurred() ? NULL : (PyErr_SetString(PyExc_ValueError, "pack: lists of unequal length"), NULL);
	const void **from = PyMem_Malloc((size_t)(n + 1) * sizeof *from);
	int64_t *size = PyMem_Malloc((size_t)(n + 1) * sizeof *size);
	struct stk_error err = {0};
	PyObject *result = NULL;
	if (!from || !size) {
		PyErr_NoMemory();
		goto out;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		from[i] = (void *)(uintptr_t)PyLong_AsLongLong(PyList_GetItem(pointers, i));
		size[i] = PyLong_AsLongLong(PyList_GetItem(sizes, i));
	}
	if (!PyErr_Occurred())
		result = done(stk_ragged_pack(h, from, size, n, items, inner, out, &err), &err);
out:
	PyMem_Free((void *)from);
	PyMem_Free(size);
	return result;
}

static struct stk_assign take_assign(struct reader *r)
{
	struct stk_assign a = {.dtype = (enum stk_dtype)take_int(r)};
	a.maximize = (int32_t)take_int(r);
	a.cost = take_pointer(r);
	a.problems = take_int(r);
	a.rows = take_int(r);
	a.cols = take_int(r);
	a.problem_stride = take_int(r);
	a.row_stride = take_int(r);
	a.col_stride = take_int(r);
	return a;
}

static PyObject *py_assign_workspace(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	struct stk_ragged *h = take_handle(&r);
	struct stk_assign a = take_assign(&r);
	return r.failed ? NULL : PyLong_FromSize_t(stk_ragged_assign_workspace(h, &a));
}

static PyObject *py_assign(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	struct stk_ragged *h = take_handle(&r);
	struct stk_assign a = take_assign(&r);
	void *stream = take_pointer(&r);
	a.num_rows = take_pointer(&r);
	a.num_cols = take_pointer(&r);
	a.row = take_pointer(&r);
	a.col = take_pointer(&r);
	a.sizes = take_pointer(&r);
	a.status = take_pointer(&r);
	a.workspace = take_pointer(&r);
	a.refused = take_pointer(&r);
	CALL(r, stk_ragged_assign(h, &a, stream, &err));
}

static PyObject *py_cost(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	uint64_t own = 0;
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	struct stk_cost c = {.outer = take_int(&r)};
	c.batch = take_int(&r);
	c.queries = take_int(&r);
	c.targets = take_int(&r);
	c.classes = take_int(&r);
	c.box_values = take_int(&r);
	c.logits = take_pointer(&r);
	c.boxes = take_pointer(&r);
	c.labels = take_pointer(&r);
	c.target_boxes = take_pointer(&r);
	c.sizes = take_pointer(&r);
	c.logits_dtype = (int32_t)take_int(&r);
	c.boxes_dtype = (int32_t)take_int(&r);
	c.target_boxes_dtype = (int32_t)take_int(&r);
	c.label_bytes = (int32_t)take_int(&r);
	c.class_kind = (int32_t)take_int(&r);
	c.box_format = (int32_t)take_int(&r);
	c.alpha = (float)take_double(&r);
	c.gamma = (float)take_double(&r);
	c.class_weight = (float)take_double(&r);
	c.giou_weight = (float)take_double(&r);
	c.nan = (float)take_double(&r);
	c.posinf = (float)take_double(&r);
	c.neginf = (float)take_double(&r);
	c.out = take_pointer(&r);
	c.refused = take_counter(&r, &own);
	for (int i = 0; i < STK_COST_MAX_BOX && r.next < r.count; i++)
		c.l1_weight[i] = (float)take_double(&r);
	CALL_COUNTING(r, own, stk_ragged_cost(h, &c, stream, &err));
}

static struct stk_matches take_matches(struct reader *r)
{
	struct stk_matches m = {.most = take_int(r)};
	m.lists = take_int(r);
	m.targets = take_int(r);
	m.rows = take_pointer(r);
	m.cols = take_pointer(r);
	m.sizes = take_pointer(r);
	m.target_sizes = take_pointer(r);
	m.refused = take_pointer(r);
	return m;
}

static PyObject *py_focal(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	struct stk_focal f = {.samples = take_int(&r)};
	f.queries = take_int(&r);
	f.classes = take_int(&r);
	f.dtype = (int32_t)take_int(&r);
	f.label_bytes = (int32_t)take_int(&r);
	f.logits = take_pointer(&r);
	f.labels = take_pointer(&r);
	f.matches = take_matches(&r);
	f.mean = (int32_t)take_int(&r);
	f.alpha = (float)take_double(&r);
	f.gamma = (float)take_double(&r);
	f.loss = take_pointer(&r);
	f.scale = take_pointer(&r);
	f.scale_stride = take_int(&r);
	f.grad = take_pointer(&r);
	CALL(r, stk_ragged_focal(h, &f, stream, &err));
}

static PyObject *py_l1(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	struct stk_l1 l = {.samples = take_int(&r)};
	l.queries = take_int(&r);
	l.values = take_int(&r);
	l.boxes = take_pointer(&r);
	l.target_boxes = take_pointer(&r);
	l.matches = take_matches(&r);
	l.mean = (int32_t)take_int(&r);
	l.loss = take_pointer(&r);
	l.scale = take_pointer(&r);
	l.scale_stride = take_int(&r);
	l.grad = take_pointer(&r);
	CALL(r, stk_ragged_l1(h, &l, stream, &err));
}

static PyObject *py_heatmap(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	uint64_t own = 0;
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	struct stk_heatmap m = {.map = take_pointer(&r)};
	m.groups = take_int(&r);
	m.classes = take_int(&r);
	m.height = take_int(&r);
	m.width = take_int(&r);
	m.targets = take_int(&r);
	m.sizes = take_pointer(&r);
	m.centers = take_pointer(&r);
	m.radii = take_pointer(&r);
	m.labels = take_pointer(&r);
	m.map_index = take_pointer(&r);
	for (int i = 0; i < 4; i++)
		m.bytes[i] = (int32_t)take_int(&r);
	m.sigma_factor = (float)take_double(&r);
	m.k = (float)take_double(&r);
	m.accumulate = (int32_t)take_int(&r);
	m.refused = take_counter(&r, &own);
	CALL_COUNTING(r, own, stk_ragged_heatmap(h, &m, stream, &err));
}

static PyObject *py_polyline(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	struct reader r = begin(self, args, count);
	struct stk_ragged *h = take_handle(&r);
	void *stream = take_pointer(&r);
	struct stk_polyline p = {.dtype = (enum stk_dtype)take_int(&r)};
	p.relative = (int32_t)take_int(&r);
	p.batch = take_int(&r);
	p.points = take_int(&r);
	p.dims = take_int(&r);
	p.samples = take_int(&r);
	p.point = take_pointer(&r);
	p.sizes = take_pointer(&r);
	p.distance = take_pointer(&r);
	p.sample_sizes = take_pointer(&r);
	p.out = take_pointer(&r);
	p.length = take_pointer(&r);
	p.along = take_pointer(&r);
	CALL(r, stk_ragged_polyline(h, &p, stream, &err));
}

#define METHOD(name)                                                                                                                       \
	{                                                                                                                                  \
#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, NULL                                                         \
	}
static PyMethodDef methods[] = {METHOD(open), METHOD(gather), METHOD(scatter), METHOD(scatter_add), METHOD(keep), METHOD(mask_to_index),
	METHOD(index_to_mask), METHOD(pack), METHOD(assign_workspace), METHOD(assign), METHOD(cost), METHOD(focal), METHOD(l1),
	METHOD(heatmap), METHOD(polyline), {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {
#ifdef Py_GIL_DISABLED
	{Py_mod_gil, Py_MOD_GIL_NOT_USED}, /* without this slot, importing the module enables the GIL; functions here share no state */
#endif
	{0, NULL}};
static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, .m_name = "stoker._batching", .m_size = 0, .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__batching(void);
PyMODINIT_FUNC PyInit__batching(void)
{
	return PyModuleDef_Init(&module);
}
