/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: the Python callable of an external_source or a python_function. The library calls it on the pipeline's callback thread or on workers.
 * Only two other kinds of library threads take the GIL: those that call a Storage's fetch function, and a thread that drops the last reference to a
 * Python object.
 *
 * The library may use its callbacks after the Source object was freed, and it returns buffers on worker threads, which must not touch Python. So the Source
 * and the library share a source_link: returned buffers are put into its list, until a thread that has the GIL releases them. Exceptions of the callable are
 * stored with their tracebacks until the consumer asks for them. */
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

enum { KEPT_EXCEPTIONS = 64, MANY_EXCEPTIONS = 4 };

struct source_link {
	atomic_int refs;
	pthread_mutex_t lock; /* protects done and source */
	struct fed *done;     /* list of buffers that the library has returned, and that are to be released with the GIL */
	PyObject *source;     /* borrowed; NULL after the Source was freed; written with both the GIL and the lock, read with either */
#ifdef Py_GIL_DISABLED
	PyObject *weak; /* a weak reference to the Source, from which link_source makes a strong one; guarded by lock */
#endif
};

/* The buffers that one call of pull returned. The library releases all of them at once. */
struct fed {
	struct fed *next;
	struct source_link *link;
	PyObject *descriptions; /* the Source's tuple of the same name, which owns the samples' texts */
	Py_ssize_t count;
	Py_buffer views[];
};

struct source_object {
	PyObject ob_base;
	struct source_link *link;
	PyObject *pull, *reset; /* callables; reset may be None */
	PyObject *weak_list;    /* weak references to this object */
	bool per_sample;        /* the library asks for one sample at a time */
	int seek;               /* enum stk_seek */
	int shards, shard_id;
	bool short_is_last;     /* a batch of fewer samples than asked for ends the epoch */
	PyObject *layouts;      /* tuple of str, one for each output */
	PyObject *on_gpu;       /* bytes, one for each output: not 0 if the samples that pull returns for this output are on the GPU */
	PyObject *descriptions; /* empty, or for each sample a tuple (uri or None, id or None, failure or None, its exception or None) */
	PyObject *errors;       /* list of exceptions for the consumer: (epoch, batch, position, index in the batch, exception) */
};

/* ---- releasing buffers that the library has returned ---- */

static void link_unref(struct source_link *link)
{
	if (atomic_fetch_sub(&link->refs, 1) > 1)
		return;
	pthread_mutex_destroy(&link->lock);
	free(link);
}

/* Returns a new reference to the Source, or NULL without an exception if it has died. Call with the GIL. */
static PyObject *link_source(struct source_link *link)
{
#ifdef Py_GIL_DISABLED
	/* Another thread may be in the Source's dealloc, when new references are forbidden. A weak reference notices that. */
	PyObject *weak, *source = NULL;

	pthread_mutex_lock(&link->lock);
	weak = Py_XNewRef(link->weak);
	pthread_mutex_unlock(&link->lock);
	if (weak && PyWeakref_GetRef(weak, &source) < 0)
		PyErr_Clear();
	Py_XDECREF(weak);
	return source;
#else
	return Py_XNewRef(link->source);
#endif
}

/* Releases the buffers that the library has returned. Call with the GIL. */
static void link_drain(struct source_link *link)
{
	struct fed *list;

	pthread_mutex_lock(&link->lock);
	list = link->done;
	link->done = NULL;
	pthread_mutex_unlock(&link->lock);
	while (list) {
		struct fed *next = list->next;
		for (Py_ssize_t i = 0; i < list->count; i++)
			PyBuffer_Release(&list->views[i]);
		Py_XDECREF(list->descriptions);
		free(list);
		link_unref(link);
		list = next;
	}
}

/* Adds the buffers of one pull to the link's list, from which a thread that has the GIL releases them. If the Source has died, takes the GIL and
 * releases them here. The library calls this once, on any thread, when it no longer needs the buffers. */
static void fed_release(void *user)
{
	struct fed *fed = user;
	struct source_link *link = fed->link;
	bool orphan;

	atomic_fetch_add(&link->refs, 1);
	pthread_mutex_lock(&link->lock);
	fed->next = link->done;
	link->done = fed;
	orphan = !link->source;
	pthread_mutex_unlock(&link->lock);
	if (orphan && Py_IsInitialized()) {
		PyGILState_STATE gil = PyGILState_Ensure();
		link_drain(link);
		PyGILState_Release(gil);
	}
	link_unref(link);
}

/* ---- one pull ---- */

static enum stk_dtype format_dtype(const Py_buffer *view)
{
	static const enum stk_dtype ints[] = {[1] = STK_INT8, [2] = STK_INT16, [4] = STK_INT32, [8] = STK_INT64};
	static const enum stk_dtype uints[] = {[1] = STK_UINT8, [2] = STK_UINT16, [4] = STK_UINT32, [8] = STK_UINT64};
	const char *f = view->format ? view->format : "B";
	const bool sized = view->itemsize == 1 || view->itemsize == 2 || view->itemsize == 4 || view->itemsize == 8;

	if (strchr("@=<", *f) && *f)
		f++;
	if (!sized || !*f || f[1])
		return STK_NO_DTYPE;
	if (strchr("bhilqn", *f))
		return ints[view->itemsize];
	if (strchr("BHILQNc", *f))
		return uints[view->itemsize];
	return *f == '?' ? STK_BOOL : *f == 'e' ? STK_FLOAT16 : *f == 'f' ? STK_FLOAT : *f == 'd' ? STK_FLOAT64 : STK_NO_DTYPE;
}

bool core_tensor_from(struct stk_tensor *out, const Py_buffer *view, const char *layout)
{
	memset(out, 0, sizeof(*out));
	out->data = view->buf;
	out->desc.dtype = format_dtype(view);
	out->desc.ndim = view->ndim;
	if (out->desc.dtype == STK_NO_DTYPE || view->ndim > STK_MAX_DIMS) {
		PyErr_Format(PyExc_TypeError, "arrays of type '%s' with %d dimensions cannot be used", view->format ? view->format : "B",
			view->ndim);
		return false;
	}
	for (int d = 0; d < view->ndim; d++)
		out->desc.shape[d] = view->shape[d];
	if (*layout && (int)strlen(layout) != view->ndim) {
		struct stk_error err = {.sample = -1, .epoch = -1, .offset = -1};
		PyOS_snprintf(err.message, sizeof(err.message), "layout \"%.100s\" names %d dimensions, the array has %d", layout,
			(int)strlen(layout), view->ndim);
		core_raise(STK_INVALID, &err);
		return false;
	}
	memcpy(out->desc.layout, layout, strlen(layout) + 1);
	return true;
}

/* Acquires the buffer of items[i], appends it to fed->views, and describes it in `out`. On failure, returns false with an exception set. */
static bool take_array(struct fed *fed, PyObject *items, Py_ssize_t i, const char *layout, struct stk_tensor *out)
{
	Py_buffer *view = &fed->views[fed->count];
	PyObject *item = PySequence_GetItem(items, i);
	const bool ok = item && PyObject_GetBuffer(item, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0;

	Py_XDECREF(item);
	if (!ok)
		return false;
	fed->count++;
	return core_tensor_from(out, view, layout);
}

/* Acquires one buffer whose first axis must have `count` samples, and describes each sample in `out`. On failure, returns false with an exception set. */
static bool take_whole(struct fed *fed, PyObject *items, Py_ssize_t count, const char *layout, struct stk_tensor *out)
{
	Py_buffer *view = &fed->views[fed->count];
	Py_buffer sample;
	Py_ssize_t bytes;

	if (PyObject_GetBuffer(items, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0)
		return false;
	fed->count++;
	if (view->ndim < 1 || view->shape[0] != count) {
		PyErr_Format(PyExc_ValueError, "the first axis of the array must have extent %zd, one for each sample", count);
		return false;
	}
	sample = *view;
	sample.ndim--;
	sample.shape++;
	if (!core_tensor_from(&out[0], &sample, layout))
		return false;
	bytes = view->len / count;
	for (Py_ssize_t i = 1; i < count; i++) {
		out[i] = out[0];
		out[i].data = (char *)out[0].data + i * bytes;
	}
	return true;
}

static bool take_arrays(PyObject *layouts, PyObject *outputs, Py_ssize_t count, Py_ssize_t capacity, struct fed *fed, struct stk_feed *feed)
{
	for (Py_ssize_t k = 0; k < PyTuple_Size(layouts); k++) {
		const char *layout = core_text_of(PyTuple_GetItem(layouts, k));
		PyObject *items = layout ? PySequence_GetItem(outputs, k) : NULL;
		bool ok = items && PySequence_Size(items) == count;

		if (items && !ok && !PyErr_Occurred())
			PyErr_Format(PyExc_ValueError, "%zd samples in output %zd, %zd in output 0", PySequence_Size(items), k, count);
		if (ok && count && !PyList_Check(items) && PyObject_CheckBuffer(items))
			ok = take_whole(fed, items, count, layout, &feed->tensors[k * capacity]);
		else
			for (Py_ssize_t i = 0; ok && i < count; i++)
				ok = take_array(fed, items, i, layout, &feed->tensors[k * capacity + i]);
		Py_XDECREF(items); /* the buffers keep their arrays alive */
		if (!ok)
			return false;
	}
	return true;
}

/* Sets feed->on_gpu for outputs whose samples are on the GPU. Returns false with an exception on failure, and if samples are on the GPU but the feed
 * accepts only host memory. */
static bool take_places(struct source_object *self, Py_ssize_t n, struct stk_feed *feed)
{
	char *on_gpu;
	Py_ssize_t size;

	if (PyBytes_AsStringAndSize(self->on_gpu, &on_gpu, &size) < 0)
		return false;
	for (Py_ssize_t k = 0; k < size && k < n; k++) {
		if (on_gpu[k] && !feed->on_gpu) {
			PyErr_SetString(PyExc_ValueError, "the samples lie on a GPU, and this source takes only host memory");
			return false;
		}
		if (on_gpu[k])
			feed->on_gpu[k] = true;
	}
	return true;
}

static void fed_free(struct fed *fed)
{
	for (Py_ssize_t i = 0; i < fed->count; i++)
		PyBuffer_Release(&fed->views[i]);
	Py_XDECREF(fed->descriptions);
	free(fed);
}

/* Chooses an exception to drop when self->errors is full. Returns its index in self->errors; KEPT_EXCEPTIONS stands for the new exception. Usually this is
 * the oldest exception, whose sample was probably skipped. But if a batch has more than MANY_EXCEPTIONS, returns the last exception of the batch that has
 * the most: the consumer raises an early exception of a batch, so the last is the least useful. On failure, returns -1 with an exception set. */
static Py_ssize_t exception_to_drop(PyObject *errors, const struct stk_feed_request *rq, int64_t position)
{
	enum { N = KEPT_EXCEPTIONS };
	int64_t epochs[N + 1], batches[N + 1], positions[N + 1];
	Py_ssize_t most = 0, drop = 0;
	PyObject *entries = PyList_AsTuple(errors); /* the consumer may remove entries of the list at the same time */

	for (Py_ssize_t i = 0; entries && i < N; i++) {
		PyObject *entry = i < PyTuple_Size(entries) ? PyTuple_GetItem(entries, i) : NULL;
		epochs[i] = entry ? PyLong_AsLongLong(PyTuple_GetItem(entry, 0)) : -1;
		batches[i] = entry ? PyLong_AsLongLong(PyTuple_GetItem(entry, 1)) : -1;
		positions[i] = entry ? PyLong_AsLongLong(PyTuple_GetItem(entry, 2)) : -1;
	}
	Py_XDECREF(entries);
	if (PyErr_Occurred())
		return -1;
	epochs[N] = rq->epoch;
	batches[N] = rq->batch;
	positions[N] = position;
	for (Py_ssize_t i = 0; i <= N; i++) {
		Py_ssize_t count = 0, last = i;
		for (Py_ssize_t k = 0; k <= N; k++) {
			const bool same = epochs[k] == epochs[i] && batches[k] == batches[i];
			count += same;
			last = same && positions[k] > positions[last] ? k : last;
		}
		if (count > most) {
			most = count;
			drop = last;
		}
	}
	return most > MANY_EXCEPTIONS ? drop : 0;
}

static bool keep_error(struct source_object *self, const struct stk_feed_request *rq, Py_ssize_t i, PyObject *error)
{
	PyObject *entry;
	bool ok;

	if (PyList_Size(self->errors) >= KEPT_EXCEPTIONS) {
		const Py_ssize_t drop = exception_to_drop(self->errors, rq, rq->position + i);
		if (drop == KEPT_EXCEPTIONS)
			return true;
		if (drop < 0 || PyList_SetSlice(self->errors, drop, drop + 1, NULL) < 0)
			return false;
	}
	entry = Py_BuildValue("LLLiO", (long long)rq->epoch, (long long)rq->batch, (long long)(rq->position + i),
		(int)(rq->index < 0 ? i : rq->index), error);
	ok = entry && PyList_Append(self->errors, entry) == 0;
	Py_XDECREF(entry);
	return ok;
}

/* Returns entry i of a tuple as UTF-8 text, which the entry owns. Returns NULL for None, and NULL with an exception if the entry is not a str. */
static const char *text_at(PyObject *tuple, Py_ssize_t i)
{
	PyObject *item = PyTuple_GetItem(tuple, i);

	return item && item != Py_None ? PyUnicode_AsUTF8AndSize(item, NULL) : NULL;
}

/* Removes the exceptions from self->descriptions, which the feed may own as long as the pipeline exists. A raised exception refers to the pipeline
 * through its traceback, so the pipeline would never be freed. n: the number of descriptions. On failure, returns false with an exception set. */
static bool drop_exceptions(struct source_object *self, Py_ssize_t n)
{
	PyObject *copies = PyTuple_New(n);
	for (Py_ssize_t i = 0; copies && i < n; i++) {
		PyObject *entry = PyTuple_GetItem(self->descriptions, i),
			 *copy = PyTuple_Pack(4, PyTuple_GetItem(entry, 0), PyTuple_GetItem(entry, 1), PyTuple_GetItem(entry, 2), Py_None);
		if (!copy || PyTuple_SetItem(copies, i, copy))
			Py_CLEAR(copies);
	}
	if (!copies)
		return false;
	Py_DECREF(self->descriptions);
	self->descriptions = copies;
	return true;
}

/* Copies the URI, id and failure of each sample from self->descriptions to the feed, if there are descriptions. `fed` then owns their texts. Moves
 * exceptions of failed samples to self->errors. On failure, returns false with an exception set. */
static bool take_descriptions(
	struct source_object *self, const struct stk_feed_request *rq, Py_ssize_t count, struct fed *fed, struct stk_feed *feed)
{
	const Py_ssize_t n = PyTuple_Size(self->descriptions);
	bool failed = false;

	if (n && (n != count || !feed->samples)) {
		PyErr_Format(PyExc_ValueError, "there are descriptions of %zd samples, but the source returned %zd", n, count);
		return false;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *entry = PyTuple_GetItem(self->descriptions, i), *id, *error;
		struct stk_fed_sample *to = &feed->samples[i];
		if (!PyTuple_Check(entry) || PyTuple_Size(entry) != 4) {
			PyErr_SetString(PyExc_TypeError, "descriptions must hold a tuple (uri, id, failure, exception) for each sample");
			return false;
		}
		id = PyTuple_GetItem(entry, 1);
		error = PyTuple_GetItem(entry, 3);
		to->uri = text_at(entry, 0);
		to->failure = text_at(entry, 2);
		to->numbered = id != Py_None;
		to->id = to->numbered ? PyLong_AsLongLong(id) : -1;
		failed |= error != Py_None;
		if (PyErr_Occurred() || (to->failure && error != Py_None && !keep_error(self, rq, i, error)))
			return false;
	}
	if (failed && !drop_exceptions(self, n))
		return false;
	fed->descriptions = Py_NewRef(self->descriptions); /* owns the texts to which feed->samples points */
	return true;
}

/* Fills the feed from the callable's result: for each output a sequence of arrays or one array, with at most `capacity` samples. The feed owns the
 * buffers afterwards. Returns false with an exception on failure; the feed then refers to no buffer. */
static bool fill_feed(
	struct source_object *self, PyObject *outputs, Py_ssize_t capacity, const struct stk_feed_request *rq, struct stk_feed *feed)
{
	const Py_ssize_t n = PyTuple_Size(self->layouts);
	PyObject *first = PySequence_Size(outputs) == n ? PySequence_GetItem(outputs, 0) : NULL;
	const Py_ssize_t count = first ? PySequence_Size(first) : -1;
	PyObject *layouts;
	struct fed *fed;
	bool ok;

	Py_XDECREF(first);
	if (count < 0 || count > capacity) {
		if (!PyErr_Occurred())
			PyErr_Format(PyExc_ValueError, "the source returned %zd samples, but at most %zd were asked for", count, capacity);
		return false;
	}
	fed = calloc(1, sizeof(*fed) + (size_t)(n * count) * sizeof(fed->views[0]));
	if (!fed) {
		PyErr_NoMemory();
		return false;
	}
	layouts = Py_NewRef(self->layouts); /* acquiring a buffer may run Python code, which may replace self->layouts */
	ok = take_arrays(layouts, outputs, count, capacity, fed, feed) && take_places(self, n, feed) &&
	     take_descriptions(self, rq, count, fed, feed);
	Py_DECREF(layouts);
	if (!ok) {
		if (feed->samples) /* clears addresses of texts that may have been freed */
			memset(feed->samples, 0, (size_t)count * sizeof(*feed->samples));
		fed_free(fed);
		return false;
	}
	fed->link = self->link;
	atomic_fetch_add(&self->link->refs, 1);
	feed->count = (int32_t)count;
	feed->last = self->short_is_last && count < capacity;
	feed->release = fed_release;
	feed->release_user = fed;
	return true;
}

/* Moves the current exception to self->errors, from which the consumer takes it, and describes it in `err`. Returns STK_USER. */
static enum stk_status keep_exception(struct source_object *self, const struct stk_feed_request *rq, struct stk_error *err)
{
	PyObject *type, *value, *traceback, *text;
	const char *utf8 = NULL;

	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	if (traceback)
		PyException_SetTraceback(value, traceback);
	(void)keep_error(self, rq, 0, value);
	text = PyObject_Str(value);
	if (text)
		utf8 = PyUnicode_AsUTF8AndSize(text, NULL);
	PyErr_Clear();
	if (err) {
		err->code = STK_USER;
		err->epoch = err->sample = err->offset = -1; /* the pipeline adds the sample's position */
		PyOS_snprintf(err->message, sizeof(err->message), "the user's Python failed: %.900s", utf8 ? utf8 : "?");
	}
	Py_XDECREF(text);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	return STK_USER;
}

/* Copies a function's inputs, because the library reuses their memory. Returns a tuple with a list for each input; the list has a tuple (bytearray,
 * dtype, shape) for each of the n samples. On failure, returns NULL with an exception set. */
static PyObject *copy_inputs(const struct stk_feed_request *rq, Py_ssize_t n)
{
	PyObject *inputs = PyTuple_New(rq->n_inputs);

	for (Py_ssize_t k = 0; inputs && k < rq->n_inputs; k++) {
		PyObject *list = PyList_New(0);
		for (Py_ssize_t i = 0; list && i < n; i++) {
			const struct stk_tensor *t = &rq->inputs[k * n + i];
			PyObject *shape = core_shape(&t->desc, -1);
			PyObject *bytes = PyByteArray_FromStringAndSize(t->data, (Py_ssize_t)stk_desc_bytes(&t->desc));
			PyObject *item = shape && bytes ? Py_BuildValue("OiO", bytes, (int)t->desc.dtype, shape) : NULL;
			if (!item || PyList_Append(list, item) < 0)
				Py_CLEAR(list);
			Py_XDECREF(item);
			Py_XDECREF(bytes);
			Py_XDECREF(shape);
		}
		if (!list || PyTuple_SetItem(inputs, k, list) < 0) /* steals the reference to the list */
			Py_CLEAR(inputs);
	}
	return inputs;
}

static enum stk_status pull_with_gil(
	struct source_object *self, const struct stk_feed_request *rq, struct stk_feed *feed, struct stk_error *err)
{
	const Py_ssize_t capacity = rq->index < 0 ? rq->count : 1;
	enum stk_status status = STK_OK;
	PyObject *items = NULL, *inputs;

	link_drain(self->link);
	inputs = copy_inputs(rq, capacity);
	if (inputs)
		items = PyObject_CallFunction(self->pull, "LLiiLO", (long long)rq->epoch, (long long)rq->batch, (int)rq->index,
			(int)rq->count, (long long)rq->position, inputs);
	Py_XDECREF(inputs);
	if (items == Py_None)
		status = STK_END;
	else {
		CORE_BEGIN_LOCKED(self);
		if (!items || !fill_feed(self, items, capacity, rq, feed))
			status = keep_exception(self, rq, err);
		CORE_END_LOCKED();
	}
	Py_XDECREF(items);
	return status;
}

static enum stk_status source_pull(void *user, const struct stk_feed_request *rq, struct stk_feed *feed, struct stk_error *err)
{
	struct source_link *link = user;
	enum stk_status status = STK_CANCELLED;
	PyGILState_STATE gil;
	PyObject *source;

	if (!Py_IsInitialized())
		return status;
	gil = PyGILState_Ensure();
	source = link_source(link);
	if (source)
		status = pull_with_gil((struct source_object *)source, rq, feed, err);
	Py_XDECREF(source);
	PyGILState_Release(gil);
	return status;
}

static void source_reset(void *user, int64_t epoch)
{
	struct source_object *source;
	PyGILState_STATE gil;

	if (!Py_IsInitialized())
		return;
	gil = PyGILState_Ensure();
	source = (struct source_object *)link_source(user);
	if (source && source->reset != Py_None) {
		PyObject *result = PyObject_CallFunction(source->reset, "L", (long long)epoch);
		if (!result)
			PyErr_WriteUnraisable(source->reset);
		Py_XDECREF(result);
	}
	Py_XDECREF((PyObject *)source);
	PyGILState_Release(gil);
}

static void source_unlink(void *user)
{
	link_unref(user);
}

/* ---- the type ---- */

static int source_traverse(PyObject *object, visitproc visit, void *arg)
{
	struct source_object *self = (struct source_object *)object;

	Py_VISIT(Py_TYPE(object));
	Py_VISIT(self->pull);
	Py_VISIT(self->reset);
	Py_VISIT(self->errors);
	Py_VISIT(self->descriptions);
	return 0;
}

static int source_clear(PyObject *object)
{
	struct source_object *self = (struct source_object *)object;

	Py_CLEAR(self->pull);
	Py_CLEAR(self->reset);
	Py_CLEAR(self->errors);
	Py_CLEAR(self->descriptions);
	return 0;
}

static void source_dealloc(PyObject *object)
{
	struct source_object *self = (struct source_object *)object;

	PyObject_GC_UnTrack(object);
	PyObject_ClearWeakRefs(object);
	if (self->link) {
		pthread_mutex_lock(&self->link->lock);
		self->link->source = NULL;
#ifdef Py_GIL_DISABLED
		PyObject *weak = self->link->weak;
		self->link->weak = NULL;
#endif
		pthread_mutex_unlock(&self->link->lock);
#ifdef Py_GIL_DISABLED
		Py_XDECREF(weak);
#endif
		link_drain(self->link);
		link_unref(self->link);
	}
	source_clear(object);
	Py_XDECREF(self->layouts);
	Py_XDECREF(self->on_gpu);
	core_free(object);
}

static PyObject *source_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"pull", "reset", "layouts", "per_sample", "seek", "shard", "short_is_last", NULL};
	PyObject *pull, *reset, *layouts;
	struct source_object *self;
	int per_sample, seek, shards = 1, shard_id = 0, short_is_last = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!pi|(ii)p:Source", names, &pull, &reset, &PyTuple_Type, &layouts, &per_sample,
		    &seek, &shard_id, &shards, &short_is_last))
		return NULL;
	self = core_new(type);
	if (!self)
		return NULL;
	self->pull = Py_NewRef(pull);
	self->reset = Py_NewRef(reset);
	self->layouts = Py_NewRef(layouts);
	self->per_sample = per_sample;
	self->seek = seek;
	self->shards = shards;
	self->shard_id = shard_id;
	self->short_is_last = short_is_last;
	self->errors = PyList_New(0);
	self->on_gpu = PyBytes_FromStringAndSize(NULL, 0);
	self->descriptions = PyTuple_New(0);
	self->link = calloc(1, sizeof(*self->link));
	if (!self->link || !self->errors || !self->on_gpu || !self->descriptions) {
		Py_DECREF(self);
		return PyErr_NoMemory();
	}
	atomic_init(&self->link->refs, 1);
	pthread_mutex_init(&self->link->lock, NULL);
	self->link->source = (PyObject *)self;
#ifdef Py_GIL_DISABLED
	self->link->weak = PyWeakref_NewRef((PyObject *)self, NULL);
	if (!self->link->weak)
		Py_CLEAR(self);
#endif
	return (PyObject *)self;
}

bool core_source_callbacks(PyObject *object, struct stk_source_callbacks *out)
{
	struct source_object *self = (struct source_object *)object;

	if (!core_is(object, source_dealloc)) {
		PyErr_SetString(PyExc_TypeError, "a stoker._core.Source is needed");
		return false;
	}
	atomic_fetch_add(&self->link->refs, 1);
	*out = (struct stk_source_callbacks){.pull = source_pull,
		.reset = source_reset,
		.destroy = source_unlink,
		.user = self->link,
		.per_sample = self->per_sample,
		.seek = (enum stk_seek)self->seek,
		.shards = self->shards,
		.shard_id = self->shard_id};
	return true;
}

/* drain(): releases the buffers that the library has returned. A consumer calls this between batches. */
static PyObject *source_drain(PyObject *object, PyObject *unused)
{
	(void)unused;
	link_drain(((struct source_object *)object)->link);
	return Py_NewRef(Py_None);
}

static PyObject *source_get_errors(PyObject *object, void *unused)
{
	PyObject *errors = ((struct source_object *)object)->errors;

	(void)unused;
	return errors ? Py_NewRef(errors) : PyList_New(0);
}

static PyObject *source_get_layouts(PyObject *object, void *unused)
{
	PyObject *layouts = ((struct source_object *)object)->layouts;

	(void)unused;
	return layouts ? Py_NewRef(layouts) : PyTuple_New(0);
}

static int source_set_layouts(PyObject *object, PyObject *value, void *unused)
{
	struct source_object *self = (struct source_object *)object;
	PyObject *old = self->layouts;

	(void)unused;
	if (!value || !PyTuple_Check(value) || !old || PyTuple_Size(value) != PyTuple_Size(old)) {
		PyErr_SetString(PyExc_TypeError, "layouts must be a tuple of str, one for each output");
		return -1;
	}
	self->layouts = Py_NewRef(value);
	Py_DECREF(old);
	return 0;
}

static PyObject *source_get_on_gpu(PyObject *object, void *unused)
{
	(void)unused;
	return Py_NewRef(((struct source_object *)object)->on_gpu);
}

static int source_set_on_gpu(PyObject *object, PyObject *value, void *unused)
{
	struct source_object *self = (struct source_object *)object;
	PyObject *old = self->on_gpu;

	(void)unused;
	if (!value || !PyBytes_Check(value)) {
		PyErr_SetString(PyExc_TypeError, "on_gpu must be bytes, one byte for each output");
		return -1;
	}
	self->on_gpu = Py_NewRef(value);
	Py_DECREF(old);
	return 0;
}

static PyObject *source_get_descriptions(PyObject *object, void *unused)
{
	PyObject *descriptions = ((struct source_object *)object)->descriptions;

	(void)unused;
	return descriptions ? Py_NewRef(descriptions) : PyTuple_New(0);
}

static int source_set_descriptions(PyObject *object, PyObject *value, void *unused)
{
	struct source_object *self = (struct source_object *)object;
	PyObject *old = self->descriptions;

	(void)unused;
	if (!value || !PyTuple_Check(value)) {
		PyErr_SetString(PyExc_TypeError, "descriptions must be a tuple with an entry for each sample");
		return -1;
	}
	self->descriptions = Py_NewRef(value);
	Py_XDECREF(old);
	return 0;
}

static PyMethodDef source_methods[] = {
	{"drain", source_drain, METH_NOARGS, "drain()\n--\n\nReleases buffers that the library has returned."},
	{NULL, NULL, 0, NULL},
};

CORE_LOCKED_GET(source_get_errors)
CORE_LOCKED_GET(source_get_layouts)
CORE_LOCKED_SET(source_set_layouts)
CORE_LOCKED_GET(source_get_on_gpu)
CORE_LOCKED_SET(source_set_on_gpu)
CORE_LOCKED_GET(source_get_descriptions)
CORE_LOCKED_SET(source_set_descriptions)
static PyGetSetDef source_getset[] = {
	{"errors", CORE_LOCKED(source_get_errors), NULL,
		"Exceptions not raised yet: (epoch, batch, position, index in the batch, exception).", NULL},
	{"layouts", CORE_LOCKED(source_get_layouts), CORE_LOCKED(source_set_layouts),
		"Layouts of the outputs; pull may set them for the samples that it returns.", NULL},
	{"on_gpu", CORE_LOCKED(source_get_on_gpu), CORE_LOCKED(source_set_on_gpu),
		"bytes, at most one for each output: not 0 if pull returns addresses on the pipeline's GPU for it.", NULL},
	{"descriptions", CORE_LOCKED(source_get_descriptions), CORE_LOCKED(source_set_descriptions),
		"Set by pull for the samples that it returns: (uri or None, id or None, failure or None, its exception or None) for each, or "
		"nothing.",
		NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef source_members[] = {
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct source_object, weak_list), READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot source_slots[] = {
	{Py_tp_doc,
		"Source(pull, reset, layouts, per_sample, seek, shard=(0, 1), short_is_last=False)\n--\n\n"
		"pull(epoch, batch, index, count, position, inputs) returns for each output a sequence of arrays, or one array whose "
		"first axis counts the samples; or None at the end of the epoch; index is -1 if a whole batch is asked for. "
		"inputs: for a python_function, for each input a list of (bytes, dtype, shape). reset(epoch) may be None. seek: what the samples depend on, 0: earlier calls "
		"of the epoch, 1: epoch, batch and index, 2: epoch and position, 3: all earlier calls. shard: (i, n), which batches of the global sequence these are."},
	{Py_tp_new, source_new},
	{Py_tp_dealloc, source_dealloc},
	{Py_tp_traverse, source_traverse},
	{Py_tp_clear, source_clear},
	{Py_tp_methods, source_methods},
	{Py_tp_members, source_members},
	{Py_tp_getset, source_getset},
	{0, NULL},
};

PyTypeObject *core_source_type(PyObject *module)
{
	return core_type(module, "stoker._core.Source", sizeof(struct source_object), Py_TPFLAGS_HAVE_GC, source_slots);
}
