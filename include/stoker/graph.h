/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds a graph of operators. Only one thread at a time may use a graph while it is built. It may be destroyed once a pipeline has been made from it.
 *
 *     struct stk_node file = {0}, image = {0};
 *     const struct stk_arg root[] = {stk_arg_string("file_root", dir), stk_arg_bool("random_shuffle", true)};
 *     stk_graph_add(g, "readers.file", NULL, 0, root, 2, NULL, &file, &err);
 *     stk_graph_add(g, "decoders.image", &file, 1, NULL, 0, NULL, &image, &err);
 *     stk_graph_output(g, image, &err); */
#ifndef STOKER_GRAPH_H
#define STOKER_GRAPH_H

#include "stoker/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stk_graph;

/* One output of one operator in a graph. The struct has only numbers, so it may be copied. */
struct stk_node {
	int32_t op;     /* number of the operator in the graph */
	int32_t output; /* number of the output among the operator's outputs */
};

enum stk_value_kind {
	STK_VALUE_NONE,
	STK_VALUE_BOOL,
	STK_VALUE_INT,
	STK_VALUE_FLOAT,
	STK_VALUE_STRING,
	STK_VALUE_INTS,
	STK_VALUE_FLOATS,
	STK_VALUE_STRINGS,
	STK_VALUE_NODE
};

/* An argument. Its pointers must be valid during the call. Enums (dtype, interp_type and others) are given as STK_VALUE_INT, or as a string with their name. */
struct stk_arg {
	const char *name;
	enum stk_value_kind kind;
	union {
		int64_t i; /* BOOL, INT */
		double f;
		const char *s;
		struct stk_node node;
		struct {
			const void *data;
			size_t count;
		} list; /* `count` values of type int64_t, double or const char *, by `kind` */
	} value;
};

static inline struct stk_arg stk_arg_bool(const char *name, bool v)
{
	struct stk_arg a = {name, STK_VALUE_BOOL, {0}};
	a.value.i = v;
	return a;
}
static inline struct stk_arg stk_arg_int(const char *name, int64_t v)
{
	struct stk_arg a = {name, STK_VALUE_INT, {0}};
	a.value.i = v;
	return a;
}
static inline struct stk_arg stk_arg_float(const char *name, double v)
{
	struct stk_arg a = {name, STK_VALUE_FLOAT, {0}};
	a.value.f = v;
	return a;
}
static inline struct stk_arg stk_arg_string(const char *name, const char *v)
{
	struct stk_arg a = {name, STK_VALUE_STRING, {0}};
	a.value.s = v;
	return a;
}
static inline struct stk_arg stk_arg_node(const char *name, struct stk_node v)
{
	struct stk_arg a = {name, STK_VALUE_NODE, {0}};
	a.value.node = v;
	return a;
}
static inline struct stk_arg stk_arg_list(const char *name, enum stk_value_kind kind, const void *data, size_t count)
{
	struct stk_arg a = {name, kind, {0}};
	a.value.list.data = data;
	a.value.list.count = count;
	return a;
}

/* Create an empty graph, or fail with STK_NO_MEMORY; destroy a graph, or do nothing for NULL. */
STK_API STK_MUST_USE enum stk_status stk_graph_create(struct stk_graph **out, struct stk_error *err);
STK_API void stk_graph_destroy(struct stk_graph *g);

/* The device on which an operator runs, in a pipeline that has a GPU (stk_pipeline_config.device_id); otherwise all operators run on the cores. ANY: on the
 * GPU if one of its inputs is there, otherwise on the cores. A value in host memory is copied to the GPU if an operator on the GPU reads it. */
enum stk_device { STK_DEVICE_ANY, STK_DEVICE_CPU, STK_DEVICE_GPU };

/* Limits an operator to the samples whose predicate, a scalar bool in host memory, equals `wanted`. */
struct stk_condition {
	struct stk_node predicate;
	bool wanted;
};

struct stk_graph_options {
	const char *name;       /* the operator's name in the graph ("Reader"); NULL: a name is made from its number. The name selects the
	                    * operator's random stream, so an operator with another name draws other random numbers */
	const char *where;      /* the user's line ("train.py:31"), for messages; or NULL */
	enum stk_device device; /* where the operator runs; on a GPU, decoders still read files on the cores, like DALI's "mixed" */
	/* The branches that contain the operator, the outermost first. Its outputs may be read only in the innermost of them, and after it by the operator
	 * "_merge", which takes a predicate and the values of both branches and makes one value that all samples have. Readers and external_source run for
	 * all samples. */
	const struct stk_condition *when;
	size_t n_when;
};

/* Appends an operator and checks names, types and ranges of its arguments. *out is its first output; the others are {out->op, 1} and so on. Errors:
 * STK_NOT_FOUND (there is no such operator; the message names a similar one, or says that DALI has it), STK_INVALID. options may be NULL. */
STK_API STK_MUST_USE enum stk_status stk_graph_add(struct stk_graph *g, const char *op, const struct stk_node *inputs, size_t n_inputs,
	const struct stk_arg *args, size_t n_args, const struct stk_graph_options *options, struct stk_node *out, struct stk_error *err);

/* Returns the device that will hold a value in a pipeline with a GPU: STK_DEVICE_CPU or STK_DEVICE_GPU. */
STK_API enum stk_device stk_graph_node_device(const struct stk_graph *g, struct stk_node node);

/* Returns the number of outputs of an operator in the graph (1 for most). */
STK_API int32_t stk_graph_node_outputs(const struct stk_graph *g, struct stk_node node);

/* Describes a value as far as it is known before any data is read: dtype, ndim, layout and extents; unknown extents are -1. */
STK_API STK_MUST_USE enum stk_status stk_graph_describe(
	struct stk_graph *g, struct stk_node node, struct stk_desc *out, struct stk_error *err);

/* Appends an output of the pipeline. STK_INVALID: not a value of this graph, or a value that only the samples in a branch have. STK_STATE: a pipeline was
 * made from the graph. STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_graph_output(struct stk_graph *g, struct stk_node node, struct stk_error *err);

/* The arguments of one call of a user's callback. The callback of an external_source returns samples; it runs on the pipeline's own callback thread, one
 * call at a time; pipelines that share the callback may call it at the same time. The callback of a python_function computes outputs from inputs; it runs on
 * the pipeline's own workers, several calls at a time and in no particular order, so it may wait for other pipelines. */
struct stk_feed_request {
	int64_t epoch, batch; /* batch: number in the epoch, also after a restore; 0 for a function */
	int32_t index;        /* number of the requested sample in the batch; -1: the whole batch is requested */
	int32_t count;        /* number of samples in the batch */
	int64_t position;     /* position in the epoch of sample `index`, or of the batch's first sample if index is -1 */
	/* For a function: tensor [input * n + i] is the input of sample i of the n requested ones; valid during the call only. */
	const struct stk_tensor *inputs;
	int32_t n_inputs;
};
/* A struct in which a source may describe a sample in addition to its tensors. An empty struct, {0}, says nothing. */
struct stk_fed_sample {
	const char *uri; /* the sample's name in messages, for example the path of its file; NULL: it has no name */
	/* The reason why the source could not make this sample; NULL: the source made it. The pipeline's on_error policy then treats the sample like one that
	 * could not be decoded. The source must still give tensors for it, of the same type and number of dimensions as the others; their values are not read.
	 * In a pipeline that also has a reader, and under STK_ON_ERROR_REPLACE, the batch fails instead. */
	const char *failure;
	int64_t id; /* the sample's number in the source's data; used only if `numbered` is true */
	bool numbered;
};
/* Filled by the callee: for each output, `count` tensors (1 in sample mode). Tensors stay alive until release(release_user) is called. */
struct stk_feed {
	struct stk_tensor *tensors; /* [output * n + i] for the n requested samples; the caller provides the array */
	/* [output], allocated by the caller, all false. True: the data pointers are addresses on the pipeline's GPU, and all writes to them
	 * have finished. Only copies that are placed on the GPU may read such an output. NULL if only host memory is allowed: in sample
	 * mode, and for a function. */
	bool *on_gpu;
	/* [i], allocated by the caller, all empty; NULL for a function. Texts must stay alive until release(release_user) is called. */
	struct stk_fed_sample *samples;
	int32_t count; /* number of samples; set by the caller to the number requested. A source may lower it for a shorter batch; all
	                * sources of a pipeline must set the same number */
	bool last;     /* in a pipeline without a reader: this is the epoch's last batch. If no batch sets it, the epoch ends when pull
	            * returns STK_END */
	void (*release)(void *user);
	void *release_user;
};
/* Says on what the result of a source's pull depends. This determines the positions of an epoch from which a saved state can be restored; states with other
 * positions are refused. */
enum stk_seek {
	/* pull depends on earlier calls of the epoch, like a restarting iterator: restored only at the start of an epoch */
	STK_SEEK_NONE,
	STK_SEEK_BATCH, /* pull depends on request.epoch, batch and index: restored after any whole batch */
	/* pull depends on request.epoch and position: restored anywhere, also with another batch size or number of shards */
	STK_SEEK_POSITION,
	/* pull depends on all earlier calls, like an iterator that never restarts: restored only at the start of a run */
	STK_SEEK_NEVER,
};
struct stk_source_callbacks {
	/* Returns STK_OK; STK_END: this epoch has no more data, and in sample mode the batch ends with the samples given so far; or STK_USER, STK_IO or
	 * STK_NO_MEMORY with *err filled. Any other status counts as STK_USER. All batches of an output have the type and number of dimensions of its first
	 * batch. A function gives every requested sample, and never returns STK_END. */
	enum stk_status (*pull)(void *user, const struct stk_feed_request *request, struct stk_feed *feed, struct stk_error *err);
	void (*reset)(void *user, int64_t epoch); /* called when a new epoch begins; may be NULL */
	void (*destroy)(void *user);              /* called when the callbacks are no longer needed; may be NULL */
	void *user;
	bool per_sample; /* each call of pull requests one sample (request.index >= 0); otherwise a whole batch (index -1) */
	enum stk_seek seek;
	/* Only in a pipeline without a reader, for training with several ranks: the rank's source gives only its share (shard) of the epoch's batches, which are those
	 * with the numbers shard_id, shard_id + shards, shard_id + 2 shards and so on. Positions in the epoch count the samples of all ranks. shards 0 stands for
	 * 1. */
	int32_t shards, shard_id;
};
/* Sets the callbacks of an external_source or a python_function. The graph owns them from then on, even if the call fails. STK_INVALID: the node is of
 * another operator, or has callbacks already; the new ones are then destroyed before this returns. */
STK_API STK_MUST_USE enum stk_status stk_graph_set_source(
	struct stk_graph *g, struct stk_node node, const struct stk_source_callbacks *callbacks, struct stk_error *err);

/* Writes the graph as JSON, which `stoker run` accepts, without callbacks. Free *out with stk_text_free. STK_NO_MEMORY: also if a text is not UTF-8. */
STK_API STK_MUST_USE enum stk_status stk_graph_serialize(const struct stk_graph *g, char **out, struct stk_error *err);
/* Builds a graph from `size` bytes of JSON, which need not end with NUL. STK_INVALID: it is not JSON, or does not describe a graph. STK_LIMIT: an operator
 * has too many inputs or arguments. Other errors are those of stk_graph_add and stk_graph_output, which this calls. */
STK_API STK_MUST_USE enum stk_status stk_graph_deserialize(const char *json, size_t size, struct stk_graph **out, struct stk_error *err);
STK_API void stk_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
