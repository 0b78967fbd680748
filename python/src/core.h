/* SPDX-License-Identifier: Apache-2.0
 *
 * stoker._core: a thin layer of Python objects over the C API. The code in python/stoker has everything that a user sees: names, defaults, checks.
 *
 * Memory that is freed without the GIL must come from malloc: PyMem_Raw is not in the limited API before 3.13.
 *
 * A free-threaded CPython has no stable ABI, so there the same code is built against the full API. It relies on the GIL for the state of its objects, and
 * so declares no Py_mod_gil: the interpreter enables its GIL when it loads the module, and warns.
 *
 * Rules here: limited API of CPython 3.11, multi-phase initialisation, no static state, and only public headers of the library. Release the GIL
 * around each call in which the library may wait, or may take a lock that a callback thread may hold. */
#ifndef STOKER_PYTHON_CORE_H
#define STOKER_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <stoker/stoker.h>

/* The module's state: its types, for methods that create objects of other types. */
struct core_state {
	PyTypeObject *context, *graph, *pipeline, *batch, *tensor, *source, *storage, *image_decoder, *audio, *nuscenes, *video,
		*video_device;
};

/* ---- types, one in each file: each function returns a new type, or NULL with an exception ---- */
PyTypeObject *core_context_type(PyObject *module);
PyTypeObject *core_graph_type(PyObject *module);
PyTypeObject *core_pipeline_type(PyObject *module);
PyTypeObject *core_batch_type(PyObject *module);
PyTypeObject *core_tensor_type(PyObject *module);
PyTypeObject *core_source_type(PyObject *module);
PyTypeObject *core_storage_type(PyObject *module);
PyTypeObject *core_image_decoder_type(PyObject *module);
PyTypeObject *core_audio_type(PyObject *module);
PyTypeObject *core_nuscenes_type(PyObject *module);
PyTypeObject *core_video_type(PyObject *module);
PyTypeObject *core_video_device_type(PyObject *module);

/* Return the library's object that a Python object wraps, or NULL with TypeError if the object is of another type. core_context_get also returns NULL, with
 * RuntimeError, if the context was made in another process. */
struct stk_context *core_context_get(PyObject *object);
struct stk_graph *core_graph_get(PyObject *object);
struct stk_batch *core_batch_get(PyObject *object);
/* Returns whether an object is a Batch. Sets no exception. */
bool core_is_batch(PyObject *object);
/* Sets *out to the wrapped storage, or to NULL for None. false with an exception. */
bool core_storage_get(PyObject *object, struct stk_storage **out);
struct stk_video_device *core_video_device_get(PyObject *object);
/* Returns whether the Batch holds this output; if not, sets an IndexError. */
bool core_batch_has(PyObject *object, long output);
/* Calls the context's log function with each message that the library has logged since the last call. -1 with an exception. */
int core_context_drain(PyObject *context);
/* Makes a Batch, which takes over the caller's reference to `batch`. */
PyObject *core_batch_new(PyTypeObject *type, struct stk_batch *batch);
/* Describes a buffer as a tensor over the same memory. false with an exception if the library lacks the element type or the layout does not fit. */
bool core_tensor_from(struct stk_tensor *out, const Py_buffer *view, const char *layout);
/* Fills in callbacks that call a Source. They hold no reference to the Source, so the code that made the graph must keep it alive. false with TypeError. */
bool core_source_callbacks(PyObject *source, struct stk_source_callbacks *out);

/* ---- trees of tensors (tree.c) ---- */
/* tree_take_apart(tree, tensor_type, other): returns the tensors as a list, and what tree_put_together needs to build the tree from their copies. */
PyObject *core_tree_take_apart(PyObject *module, PyObject *args);
PyObject *core_tree_put_together(PyObject *module, PyObject *args);
/* tree_groups(leaves, indexes, tensor_type, align): sorts tensors into groups of one dtype whose dimensions after the first are equal. */
PyObject *core_tree_groups(PyObject *module, PyObject *args);
/* tree_assign(made, members, copies): sets made[members[i]] = copies[i], except where members[i] is -1, which marks padding. */
PyObject *core_tree_assign(PyObject *module, PyObject *args);

/* ---- catalogue (catalog.c) ---- */
PyObject *core_catalog(PyObject *module, PyObject *unused);
PyObject *core_machine(PyObject *module, PyObject *unused);
/* wrap(samples, layout): makes a Batch with one output over buffers (batch.c). */
PyObject *core_wrap(PyObject *module, PyObject *args);
PyObject *core_image_named(PyObject *module, PyObject *name);
PyObject *core_image_globs(PyObject *module, PyObject *unused);
PyObject *core_image_header(PyObject *module, PyObject *data);
PyObject *core_audio_named(PyObject *module, PyObject *name); /* audio.c */
PyObject *core_explain_missing(PyObject *module, PyObject *name);
PyObject *core_tar_index(PyObject *module, PyObject *args); /* index.c */
PyObject *core_tar_unindexed(PyObject *module, PyObject *args);
PyObject *core_index_folder(PyObject *module, PyObject *unused);
PyObject *core_footer_fault(PyObject *module, PyObject *footer);

/* ---- errors and text (raise.c) ---- */

/* Raises the exception that stoker.errors makes from a status. Always returns NULL. */
PyObject *core_raise(enum stk_status status, const struct stk_error *err);
/* Converts text of the library to a str. File names in it may hold any bytes; bytes that are not UTF-8 become surrogates. */
PyObject *core_text(const char *text);
/* Returns the text of a bytes object or of a str as UTF-8, borrowed from the object. NULL with InvalidArgumentError if the text holds a zero byte, at
 * which a C string would end, or with TypeError. */
const char *core_text_of(PyObject *object);
/* Returns an array of the texts in a list of bytes or str. The caller frees the array; the list owns the texts. *n: their number. NULL with an exception. */
const char **core_paths_of(PyObject *list, Py_ssize_t *n);

/* ---- parts that all types share (object.c) ---- */

/* Makes a type. flags: Py_TPFLAGS_*, to which Py_TPFLAGS_DEFAULT is added. */
PyTypeObject *core_type(PyObject *module, const char *name, size_t size, unsigned long flags, PyType_Slot *slots);
/* Allocates an object of the type, filled with zeros. NULL with an exception. */
void *core_new(PyTypeObject *type);
/* The last step of a type's dealloc: frees the object and drops its reference to its type. */
void core_free(PyObject *object);
/* Sets *busy before a call that releases the GIL; the caller resets it after the call. Returns false with RuntimeError if another thread is inside such a
 * call. what: the object's name in the message, as "a Video". */
bool core_begin_call(bool *busy, const char *what);
/* Returns true if this process is `owner`; else false with RuntimeError, whose message names the object by `what`. */
bool core_check_process(pid_t owner, const char *what);
/* For the library's `interrupted` callbacks: runs the handlers of signals that have come, and returns whether an exception is set: one of theirs, or one that a
 * callback has left. It stays set. Call without the GIL, on the thread that called the library. On other threads than the process's first one, where Python
 * runs no handlers, it returns false without taking the GIL. */
bool core_signal_came(void *unused);
/* Returns whether the object's type, or a base of it, has this dealloc: a type check that needs no module state and accepts Python subclasses. */
bool core_is(PyObject *object, destructor dealloc);

/* ---- arguments of operators (values.c) ---- */

/* Python values as struct stk_arg, with the objects and memory that keep them alive. Zero-initialise before core_args_fill; call core_args_clear
 * afterwards, also if filling failed. */
struct core_args {
	struct stk_arg *args;
	size_t count;
	void **blocks; /* memory from PyMem for the values of list arguments */
	size_t block_count;
	PyObject *keep; /* list of the objects that own the texts */
};
/* Fills `a` from a sequence of (name, kind, value); kind is an enum stk_value_kind. `values` must outlive `a`, which refers to its texts. -1 with an
 * exception. */
int core_args_fill(struct core_args *a, PyObject *values);
void core_args_clear(struct core_args *a);
/* Reads a node from a tuple (operator, output). false with an exception. */
bool core_node_from(PyObject *object, struct stk_node *out);

/* ---- shapes (values.c) ---- */

/* Returns the extents of a description as a tuple of ints, after `lead` as the first extent if lead >= 0. NULL with an exception. */
PyObject *core_shape(const struct stk_desc *desc, int64_t lead);

/* ---- DLPack (dlpack.c) ---- */

/* Implements __dlpack__ for one sample of an output, or for the whole output if index is -1. Parses the protocol's arguments. */
PyObject *core_dlpack(struct stk_batch *batch, int32_t output, int32_t index, PyObject *args, PyObject *kwargs);

/* The axes with which a capsule describes an output. PLAIN: the axes of the memory. CHANNELS_FIRST: (N,C,H,W) over memory whose layout is (N,H,W,C), and the
 * same for sequences. NUMBERS: (N,), for outputs of which each sample is a tensor with one number. */
enum core_view { CORE_VIEW_PLAIN, CORE_VIEW_CHANNELS_FIRST, CORE_VIEW_NUMBERS };
/* Returns a capsule over a whole output; None if its samples differ in shape or the batch is empty; NULL with an exception. Its axes are PLAIN if the output
 * does not allow the wanted ones. Uses the old protocol, which every version of every framework accepts. Does not note the consumer's stream: call
 * stk_batch_use_stream for that. */
PyObject *core_dlpack_output(struct stk_batch *batch, int32_t output, enum core_view wanted);

#endif
