/* SPDX-License-Identifier: Apache-2.0
 *
 * stoker._core: a thin layer of Python objects over the C API. The code in python/stoker has everything that a user sees: names, defaults, checks.
 *
 * Memory that is freed without the GIL must come from malloc: PyMem_Raw is not in the limited API before 3.13.
 *
 * A free-threaded CPython has no stable ABI, so for it the module is built against the full API. In that build, the object's own lock (CORE_LOCKED) protects
 * what the GIL protects in other builds. The interpreter releases that lock where other builds release the GIL, so comments about the GIL hold for both.
 *
 * Rules for all files of this module: limited API of CPython 3.11, multi-phase initialisation, no static state, and only public headers of the
 * library. Release the GIL around each call in which the library may wait, or may take a lock that a callback thread may hold. */
#ifndef STOKER_PYTHON_CORE_H
#define STOKER_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <stoker/stoker.h>

/* Locks for builds without a GIL. In builds with a GIL they do nothing, and CORE_LOCKED(f) is f itself.
 * CORE_LOCKED(f) names a wrapper that calls the method f while it holds the object's lock. A macro after f defines the wrapper: CORE_LOCKED_METHOD(f) for
 * a method, CORE_LOCKED_KEYWORDS(f) for a method with keywords, CORE_LOCKED_GET(f) and CORE_LOCKED_SET(f) for an attribute. CORE_BEGIN_LOCKED and
 * CORE_BEGIN_LOCKED_PAIR begin a block in which the lock of one object or of two is held. */
#ifdef Py_GIL_DISABLED
#define CORE_BEGIN_LOCKED(object) Py_BEGIN_CRITICAL_SECTION(object)
#define CORE_END_LOCKED() Py_END_CRITICAL_SECTION()
#define CORE_BEGIN_LOCKED_PAIR(object, other) Py_BEGIN_CRITICAL_SECTION2(object, other)
#define CORE_END_LOCKED_PAIR() Py_END_CRITICAL_SECTION2()
#define CORE_LOCKED(f) f##_locked
#define CORE_LOCKED_AS(f, type, parameters, arguments)                                                                                     \
	static type f##_locked parameters                                                                                                  \
	{                                                                                                                                  \
		type result;                                                                                                               \
		Py_BEGIN_CRITICAL_SECTION(object);                                                                                         \
		result = f arguments;                                                                                                      \
		Py_END_CRITICAL_SECTION();                                                                                                 \
		return result;                                                                                                             \
	}
#define CORE_LOCKED_METHOD(f) CORE_LOCKED_AS(f, PyObject *, (PyObject * object, PyObject * args), (object, args))
#define CORE_LOCKED_KEYWORDS(f)                                                                                                            \
	CORE_LOCKED_AS(f, PyObject *, (PyObject * object, PyObject * args, PyObject * kwargs), (object, args, kwargs))
#define CORE_LOCKED_GET(f) CORE_LOCKED_AS(f, PyObject *, (PyObject * object, void *unused), (object, unused))
#define CORE_LOCKED_SET(f) CORE_LOCKED_AS(f, int, (PyObject * object, PyObject * value, void *unused), (object, value, unused))
#else
#define CORE_BEGIN_LOCKED(object) {
#define CORE_END_LOCKED() }
#define CORE_BEGIN_LOCKED_PAIR(object, other) {
#define CORE_END_LOCKED_PAIR() }
#define CORE_LOCKED(f) f
#define CORE_LOCKED_METHOD(f)
#define CORE_LOCKED_KEYWORDS(f)
#define CORE_LOCKED_GET(f)
#define CORE_LOCKED_SET(f)
#endif

/* The module's state: its types, so that a method of one type can create objects of another. */
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
 * StateError, if the context was made in another process. */
struct stk_context *core_context_get(PyObject *object);
struct stk_graph *core_graph_get(PyObject *object);
struct stk_batch *core_batch_get(PyObject *object);
/* Returns whether an object is a Batch. Sets no exception. */
bool core_is_batch(PyObject *object);
/* Sets *out to the borrowed storage that a Storage wraps, or to NULL for None. Returns false with TypeError for other objects, or with
 * StateError if the Storage was made in another process. */
bool core_storage_get(PyObject *object, struct stk_storage **out);
struct stk_video_device *core_video_device_get(PyObject *object);
/* Returns whether the Batch has an output with this index; if not, sets an IndexError. */
bool core_batch_has(PyObject *object, long output);
/* Calls the context's on_log for each message that the library has logged since the last call of this function. On failure, returns -1 with an
 * exception set. */
int core_context_drain(PyObject *context);
/* Makes a Batch. Takes over the caller's reference to `batch`, also on failure. On failure, returns NULL with an exception set. */
PyObject *core_batch_new(PyTypeObject *type, struct stk_batch *batch);
/* Describes a buffer as a tensor over the same memory. layout: one letter for each axis, or "". Returns false with TypeError if the library has no
 * dtype for the buffer's format or if there are too many axes, and with InvalidArgumentError if the layout's length is not the number of axes. */
bool core_tensor_from(struct stk_tensor *out, const Py_buffer *view, const char *layout);
/* Sets *out to callbacks that call a Source. They hold no reference to the Source: the caller must keep it alive as long as the graph. Returns false
 * with TypeError if `source` is not a Source. */
bool core_source_callbacks(PyObject *source, struct stk_source_callbacks *out);

/* ---- trees of tensors (tree.c) ---- */
/* tree_take_apart(tree, tensor_type, other): returns a list of the tensors, and a description of the tree from which tree_put_together builds it
 * again. */
PyObject *core_tree_take_apart(PyObject *module, PyObject *args);
PyObject *core_tree_put_together(PyObject *module, PyObject *args);
/* tree_groups(leaves, tensor_type, align, least): sorts tensors into groups. The tensors of a group have one dtype and equal extents
 * after their first dimension. */
PyObject *core_tree_groups(PyObject *module, PyObject *args);
/* tree_assign(made, members, copies): sets made[members[i]] = copies[i] for each i whose members[i] is not -1, the mark of padding. */
PyObject *core_tree_assign(PyObject *module, PyObject *args);

/* ---- catalogue (catalog.c) ---- */
PyObject *core_catalog(PyObject *module, PyObject *unused);
PyObject *core_machine(PyObject *module, PyObject *unused);
/* wrap(samples, layout): makes a Batch with one output over buffers (batch.c). */
PyObject *core_wrap(PyObject *module, PyObject *args);
PyObject *core_image_named(PyObject *module, PyObject *name);
PyObject *core_image_globs(PyObject *module, PyObject *unused);
PyObject *core_video_globs(PyObject *module, PyObject *unused);
PyObject *core_image_header(PyObject *module, PyObject *data);
PyObject *core_audio_named(PyObject *module, PyObject *name); /* defined in audio.c */
PyObject *core_explain_missing(PyObject *module, PyObject *name);
PyObject *core_tar_index(PyObject *module, PyObject *args); /* defined in index.c, like the next three functions */
PyObject *core_tar_unindexed(PyObject *module, PyObject *args);
PyObject *core_index_folder(PyObject *module, PyObject *unused);
PyObject *core_unsigned_name(PyObject *module, PyObject *name);
PyObject *core_footer_fault(PyObject *module, PyObject *footer);

/* ---- errors and text (raise.c) ---- */

/* Sets the exception of stoker.errors for a status and an error. Always returns NULL. */
PyObject *core_raise(enum stk_status status, const struct stk_error *err);
/* Sets StateError with a text that is formatted as by printf. */
void core_raise_state(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Converts a text of the library to a str. Bytes that are not UTF-8, as in file names, become surrogates. On failure, returns NULL with an exception
 * set. */
PyObject *core_text(const char *text);
/* Returns the text of a bytes object or of a str as UTF-8, borrowed from the object. Returns NULL with InvalidArgumentError if the text holds a zero
 * byte, at which a C string would end; with UnicodeEncodeError for a lone surrogate; with TypeError for other objects. */
const char *core_text_of(PyObject *object);
/* Returns an array of the texts in a list of bytes or str. The caller frees the array; the list owns the texts. *n: their number. On failure, returns
 * NULL with an exception set. */
const char **core_paths_of(PyObject *list, Py_ssize_t *n);

/* ---- parts that all types share (object.c) ---- */

/* Returns a new type, or NULL with an exception. name: includes the module, as "stoker._core.Batch". size: the size of an object in bytes. flags: Py_TPFLAGS_*
 * in addition to Py_TPFLAGS_DEFAULT. */
PyTypeObject *core_type(PyObject *module, const char *name, size_t size, unsigned long flags, PyType_Slot *slots);
/* Allocates an object of the type, filled with zeros. On failure, returns NULL with an exception set. */
void *core_new(PyTypeObject *type);
/* Frees the object and drops its reference to its type. The last step of a type's dealloc. */
void core_free(PyObject *object);
/* Sets *busy and returns true. Call this before a call that releases the GIL, and reset *busy after that call. Returns false with StateError if *busy is set,
 * because then another thread is inside a call. what: the object's name in the message, as "a Video". */
bool core_begin_call(bool *busy, const char *what);
/* Returns whether this process is `owner`, which made the object; if not, sets a StateError. what: the object's name in the message. */
bool core_check_process(pid_t owner, const char *what);
/* For the library's `interrupted` callbacks: runs Python's signal handlers, and returns whether an exception is set, by a handler or by an earlier
 * callback. The exception stays set. Call without the GIL, on the thread that called the library. Only Python's main thread runs handlers; on others
 * this returns false without taking the GIL. */
bool core_signal_came(void *unused);
/* Returns whether the object's type, or a base of it, is the type that has this dealloc. Needs no module state, unlike a comparison of types. */
bool core_is(PyObject *object, destructor dealloc);

/* ---- arguments of operators (values.c) ---- */

/* Python values as struct stk_arg, with the objects and memory to which these point. Zero-initialise before core_args_fill; call core_args_clear
 * afterwards, also if filling failed. */
struct core_args {
	struct stk_arg *args;
	size_t count;
	void **blocks; /* PyMem blocks that hold the values of list arguments */
	size_t block_count;
	PyObject *keep; /* list of the objects that own the texts in `args` */
};
/* Fills `a` from a sequence of (name, kind, value); kind is an enum stk_value_kind. `a` refers to texts of `values`, which must outlive it. On failure,
 * returns -1 with an exception set. */
int core_args_fill(struct core_args *a, PyObject *values);
void core_args_clear(struct core_args *a);
/* Fills *out from a tuple (index of the operator, index of its output). Returns false with an exception. */
bool core_node_from(PyObject *object, struct stk_node *out);

/* ---- shapes (values.c) ---- */

/* Returns the extents of a description as a tuple of ints. If lead >= 0, puts `lead` before them. On failure, returns NULL with an exception set. */
PyObject *core_shape(const struct stk_desc *desc, int64_t lead);

/* ---- DLPack (dlpack.c) ---- */

/* Implements __dlpack__(*args, **kwargs) for one sample of an output, or for the whole output if index is -1. Returns a new capsule, or NULL with an
 * exception. */
PyObject *core_dlpack(struct stk_batch *batch, int32_t output, int32_t index, PyObject *args, PyObject *kwargs);

/* The order of an output's axes in a capsule. PLAIN: the order in memory. CHANNELS_FIRST: (N,C,H,W) for memory in the order (N,H,W,C), or (N,F,C,H,W)
 * for (N,F,H,W,C). NUMBERS: only (N,), for samples that are tensors with one number. */
enum core_view { CORE_VIEW_PLAIN, CORE_VIEW_CHANNELS_FIRST, CORE_VIEW_NUMBERS };
/* Returns a capsule over a whole output, None if its samples differ in shape or the batch is empty, or NULL with an exception. If the output's layout or
 * shape does not allow the order `wanted`, the order is PLAIN. Uses the unversioned protocol, which every framework accepts. Does not note the consumer's
 * stream: call stk_batch_use_stream for that. */
PyObject *core_dlpack_output(struct stk_batch *batch, int32_t output, enum core_view wanted);

#endif
