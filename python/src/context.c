/* SPDX-License-Identifier: Apache-2.0
 *
 * Context: the library's worker threads. Any thread may log a message without the GIL: the message is queued here, and core_context_drain passes
 * it to Python. Workers take the GIL only to call users' functions and to release Python objects. */
#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_CAPACITY = 64 }; /* messages kept until core_context_drain; when the queue is full, further messages are dropped */

struct log_queue {
	pthread_mutex_t lock;
	int count;
	struct {
		int level;
		char *text; /* from malloc, because threads without the GIL add messages */
	} entries[LOG_CAPACITY];
};

struct context_object {
	PyObject ob_base;
	struct stk_context *ctx;
	struct log_queue *log;
	PyObject *on_log; /* called with (level, text), or None */
	pid_t pid;
};

static void log_push(void *user, enum stk_log_level level, const char *text)
{
	struct log_queue *q = user;
	const size_t size = strlen(text) + 1;
	char *copy = NULL;

	if (level > STK_LOG_WARNING)
		return;
	copy = malloc(size);
	if (!copy)
		return;
	memcpy(copy, text, size);
	pthread_mutex_lock(&q->lock);
	if (q->count < LOG_CAPACITY) {
		q->entries[q->count].level = (int)level;
		q->entries[q->count++].text = copy;
		copy = NULL;
	}
	pthread_mutex_unlock(&q->lock);
	free(copy);
}

/* Removes and returns the oldest message, which the caller frees, and sets *level. NULL if the queue is empty. */
static char *log_pop(struct log_queue *q, int *level)
{
	char *text = NULL;

	pthread_mutex_lock(&q->lock);
	if (q->count > 0) {
		text = q->entries[0].text;
		*level = q->entries[0].level;
		q->count--;
		memmove(&q->entries[0], &q->entries[1], (size_t)q->count * sizeof(q->entries[0]));
	}
	pthread_mutex_unlock(&q->lock);
	return text;
}

int core_context_drain(PyObject *object)
{
	struct context_object *self = (struct context_object *)object;
	int level = 0, rc = 0;

	for (char *text; rc == 0 && (text = log_pop(self->log, &level));) {
		PyObject *result =
			self->on_log == Py_None ? Py_NewRef(Py_None) : PyObject_CallFunction(self->on_log, "iN", level, core_text(text));
		rc = result ? 0 : -1;
		Py_XDECREF(result);
		free(text);
	}
	return rc;
}

/* Frees the queue. The library calls this when no thread can log any more. That may be after the Context object is freed, because a pipeline that is
 * destroyed inside one of its own callbacks continues until the callback returns. */
static void log_free(void *user)
{
	struct log_queue *q = user;
	int level;

	for (char *text; (text = log_pop(q, &level));)
		free(text);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static void context_dealloc(PyObject *object)
{
	struct context_object *self = (struct context_object *)object;

	/* A forked child must not join the threads: they do not exist there. */
	if (self->ctx && getpid() == self->pid) {
		Py_BEGIN_ALLOW_THREADS stk_context_unref(&self->ctx);
		Py_END_ALLOW_THREADS
	}
	Py_XDECREF(self->on_log);
	core_free(object);
}

struct stk_context *core_context_get(PyObject *object)
{
	struct context_object *self = (struct context_object *)object;

	if (!core_is(object, context_dealloc)) {
		PyErr_SetString(PyExc_TypeError, "a stoker._core.Context is needed");
		return NULL;
	}
	return core_check_process(self->pid, "context") ? self->ctx : NULL;
}

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"threads", "io_threads", "on_log", NULL};
	struct stk_context_config config = {.size = sizeof(config), .log = log_push, .log_done = log_free};
	struct stk_error err = {0};
	enum stk_status status;
	PyObject *on_log = Py_None;
	struct context_object *self;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|iiO:Context", names, &config.threads, &config.io_threads, &on_log))
		return NULL;
	self = core_new(type);
	if (!self)
		return NULL;
	self->pid = getpid();
	self->on_log = Py_NewRef(on_log);
	self->log = calloc(1, sizeof(*self->log));
	if (!self->log) {
		Py_DECREF(self);
		return PyErr_NoMemory();
	}
	pthread_mutex_init(&self->log->lock, NULL);
	config.log_user = self->log;
	status = stk_context_create(&config, &self->ctx, &err);
	if (status != STK_OK) {
		log_free(self->log);
		self->log = NULL;
		self->ctx = NULL;
		Py_DECREF(self);
		return core_raise(status, &err);
	}
	return (PyObject *)self;
}

static PyObject *context_threads(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromLong(stk_context_threads(((struct context_object *)object)->ctx));
}

static PyGetSetDef context_getset[] = {
	{"threads", context_threads, NULL, "Number of worker threads.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot context_slots[] = {
	{Py_tp_doc, "Context(threads=0, io_threads=0, on_log=None)\n--\n\nWorker threads that pipelines share; 0: as many as this process "
		    "may use."},
	{Py_tp_new, context_new},
	{Py_tp_dealloc, context_dealloc},
	{Py_tp_getset, context_getset},
	{0, NULL},
};

PyTypeObject *core_context_type(PyObject *module)
{
	return core_type(module, "stoker._core.Context", sizeof(struct context_object), 0, context_slots);
}
