/* SPDX-License-Identifier: Apache-2.0
 *
 * stoker._core: the C API as Python objects, thin. Everything a user sees (names, defaults, checks of meaning) is Python, in python/stoker.
 *
 * Memory that is freed without the GIL comes from malloc: PyMem_Raw is not in the limited API before 3.13.
 *
 * Rules here: limited API of CPython 3.11, multi-phase initialisation, no static state; only public headers of the library. The GIL is released
 * wherever the library may wait or take a lock that a callback thread may hold. */
#ifndef STOKER_PYTHON_CORE_H
#define STOKER_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <sys/types.h>

#include <stoker/stoker.h>

/* What the module keeps: the types, for objects that make others. */
struct core_state {
	PyTypeObject *context, *graph, *pipeline, *batch, *tensor, *source, *storage, *image_decoder, *nuscenes;
};

/* ---- types, one a file: each returns a new type, or NULL with an exception ---- */
PyTypeObject *core_context_type(PyObject *module);
PyTypeObject *core_graph_type(PyObject *module);
PyTypeObject *core_pipeline_type(PyObject *module);
PyTypeObject *core_batch_type(PyObject *module);
PyTypeObject *core_tensor_type(PyObject *module);
PyTypeObject *core_source_type(PyObject *module);
PyTypeObject *core_storage_type(PyObject *module);
PyTypeObject *core_image_decoder_type(PyObject *module);
PyTypeObject *core_nuscenes_type(PyObject *module);

/* What they wrap; NULL with TypeError when the object is of another type, or with an error when it cannot be used (closed, another process). */
struct stk_context *core_context_get(PyObject *object);
struct stk_graph *core_graph_get(PyObject *object);
struct stk_batch *core_batch_get(PyObject *object);
bool core_is_batch(PyObject *object);
/* NULL for None. */
bool core_storage_get(PyObject *object, struct stk_storage **out);
/* Whether a Batch has and holds this output; else an IndexError is set. */
bool core_batch_has(PyObject *object, long output);
/* Hands warnings that the library logged since the last call to the context's log function. -1 with an exception. */
int core_context_drain(PyObject *context);
/* A Batch that takes over the reference. */
PyObject *core_batch_new(PyTypeObject *type, struct stk_batch *batch);
/* Describes what a buffer holds. false with an exception where the library has no such type, or the layout does not fit. */
bool core_tensor_from(struct stk_tensor *out, const Py_buffer *view, const char *layout);
/* Callbacks over a Source, holding it weakly: who uses the graph keeps the object alive. false with TypeError. */
bool core_source_callbacks(PyObject *source, struct stk_source_callbacks *out);

/* ---- catalogue (catalog.c) ---- */
PyObject *core_catalog(PyObject *module, PyObject *unused);
PyObject *core_machine(PyObject *module, PyObject *unused);
/* wrap(samples, layout): buffers as a Batch with one output (batch.c). */
PyObject *core_wrap(PyObject *module, PyObject *args);
PyObject *core_image_named(PyObject *module, PyObject *name);
PyObject *core_image_header(PyObject *module, PyObject *data);
PyObject *core_explain_missing(PyObject *module, PyObject *name);
PyObject *core_tar_index(PyObject *module, PyObject *args); /* index.c */
PyObject *core_tar_unindexed(PyObject *module, PyObject *args);

/* ---- errors and text (raise.c) ---- */

/* Raises what stoker.errors makes of a status; always returns NULL. */
PyObject *core_raise(enum stk_status status, const struct stk_error *err);
/* Text of the library, which may hold file names of any bytes. */
PyObject *core_text(const char *text);
/* The text of bytes or of a str, as UTF-8, borrowed from it. InvalidArgumentError if it holds a zero byte, at which C would end it; TypeError. */
const char *core_text_of(PyObject *object);
/* false with RuntimeError: the object was made by another process. */
bool core_check_process(pid_t owner, const char *what);
/* Whether the object was made by core with this dealloc: a type check that needs no module state and accepts Python subclasses. */
bool core_is(PyObject *object, destructor dealloc);

/* ---- arguments of operators (values.c) ---- */

/* Python values as struct stk_arg, with what keeps them alive. Zero-initialise; core_args_clear also after a failure. */
struct core_args {
	struct stk_arg *args;
	size_t count;
	void **blocks; /* PyMem memory of lists */
	size_t block_count;
	PyObject *keep; /* list of objects that lend text */
};
/* values: sequence of (name, kind, value), kind as enum stk_value_kind. -1 with an exception. */
int core_args_fill(struct core_args *a, PyObject *values);
void core_args_clear(struct core_args *a);
/* (op, output) -> node; false with an exception. */
bool core_node_from(PyObject *object, struct stk_node *out);

/* ---- shapes (values.c) ---- */

/* The extents as a tuple of ints: of a description, behind a leading one where lead >= 0. NULL with an exception. */
PyObject *core_shape(const struct stk_desc *desc, int64_t lead);

/* ---- DLPack (dlpack.c) ---- */

/* __dlpack__ of one sample of an output, or with index -1 of all: parses the protocol's arguments. */
PyObject *core_dlpack(struct stk_batch *batch, int32_t output, int32_t index, PyObject *args, PyObject *kwargs);

/* How an output is shown: as it lies; (N,C,H,W) over memory that is (N,H,W,C), where its layout says that it is; (N,) where a sample is one number. */
enum core_view { CORE_VIEW_PLAIN, CORE_VIEW_CHANNELS_FIRST, CORE_VIEW_NUMBERS };
/* A capsule, of the old protocol, which every version of every framework takes, over an output as a whole; None where its samples differ in shape, or
 * there are none. The consumer's stream is noted elsewhere. */
PyObject *core_dlpack_output(struct stk_batch *batch, int32_t output, enum core_view wanted);

#endif
