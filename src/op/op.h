/* SPDX-License-Identifier: Apache-2.0
 *
 * The definition of an operator. Each operator has a file in op/ with a const struct stk_op_def, and a line in op_list.h, from which the table stk__ops is
 * made. All other code (bindings, documentation, checks, execution, fusion) works from that table, and treats no operator specially by its name. */
#ifndef STK_OP_OP_H
#define STK_OP_OP_H

#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/url.h"
#include "codec/codec.h"
#include "kernel/job/job.h"
#include "kernel/pass/pass.h"
#include "kernel/recipe/recipe.h"
#include "order/order.h"
#include "stoker/catalog.h"
#include "stoker/graph.h"
#include "storage/storage.h"

#include <math.h>

/* ---- arguments ---- */

/* Lists in an argument struct. count < 0: not given. The elements belong to the graph or, for a per-sample argument, to the sample. */
struct stk_ints {
	int32_t count;
	const int64_t *v;
};
struct stk_floats {
	int32_t count;
	const float *v;
};
struct stk_strings {
	int32_t count;
	const char *const *v;
};

/* Values of an argument that is not given and has no default: INT64_MIN, NAN, NULL, STK_NO_DTYPE (enums: -1), or a list with count -1. */
#define STK_INT_UNSET INT64_MIN
static inline bool stk__int_given(int64_t v)
{
	return v != STK_INT_UNSET;
}
static inline bool stk__float_given(float v)
{
	return !isnan(v);
}

/* One argument of an operator. `type` decides the C type of its field in the argument struct: bool for BOOL, int64_t for INT, float for FLOAT (double with STK_DOUBLE), const char *
 * for STRING, int32_t for DTYPE, IMAGE_TYPE and INTERP, and the structs above for lists. With STK_SHAPED, a struct stk_ints follows the field: it holds the
 * shape of the tensor from which the value came, or the count -1 if the value did not come from a tensor.
 *
 * Numbers must be from min to max, and floats must be finite unless `flags` contains STK_INFINITE or STK_NAN. graph/args.c checks both, for constants and
 * for the values of each sample. fallback is JSON text ("1", "[0.08, 1.0]", "\"error\""), or NULL if there is no default. If `group` is not NULL, this
 * entry stands for all arguments of that table, whose struct lies at `offset`. */
struct stk_arg_def {
	const char *name;
	enum stk_arg_type type;
	uint32_t flags; /* enum stk_arg_flags */
	size_t offset;
	const char *fallback;
	double min, max;
	const char *choices; /* the allowed strings, such as "error|pad|trim_to_shape"; NULL: any */
	bool without_pass;   /* passes cannot handle all its values: if it varies between samples, lower_jobs does the work for all */
	bool shapes;         /* if it varies between samples, the outputs' extents are unknown while a graph is built */
	const struct stk_arg_def *group;
	const char *doc;
};

#define STK_ARG(S, member, kind, dflt, range, fl, text)                                                                                    \
	{                                                                                                                                  \
		.name = #member, .type = kind, .flags = (fl), .offset = offsetof(S, member), .fallback = dflt, STK__RANGE range,           \
		.doc = text                                                                                                                \
	}
#define STK__RANGE(lo, hi) .min = lo, .max = hi
#define STK_FREE (-HUGE_VAL, HUGE_VAL)
#define STK_ARG_GROUP(S, member, table)                                                                                                    \
	{                                                                                                                                  \
		.name = "", .offset = offsetof(S, member), .group = table                                                                  \
	}
#define STK_ARG_END                                                                                                                        \
	{                                                                                                                                  \
		.name = NULL                                                                                                               \
	}

/* ---- a call ---- */

/* A range of bytes. 64 bytes past its end are also readable. */
struct stk_bytes {
	const uint8_t *data;
	size_t size;
	int64_t offset, object; /* for a part of a sample: its offset in its object, and the object's size in bytes; both 0 if not known */
	uint64_t tag;           /* stk__etag_hash of the object's version; 0: not known */
};

/* The result of gather for all samples of a batch. Its memory belongs to the batch in flight, and later batches reuse it. */
struct stk_gathered {
	void *data;
	size_t capacity; /* size in bytes of the memory at `data` */
};
/* Makes g->data at least `size` bytes large and returns it, or returns NULL if memory is short. The earlier contents may be lost. */
void *stk__gathered_take(struct stk_gathered *g, size_t size);

/* Counts of decoded video frames. A worker adds them to the pipeline's counters from time to time, and then sets them to 0. */
struct stk_video_tally {
	/* Numbers of: frames that operators asked for; packets that were decoded for these frames; and those of the frames that the GPU decoded. */
	int64_t frames, packets, on_gpu;
};

/* A worker's memory, decoders and counters, which an operator may use while it processes one sample. */
struct stk_tools {
	struct stk_arena *arena;  /* scratch memory, valid until the sample's chain has ended */
	struct stk_jobs cpu_jobs; /* runs each job as soon as it is made, with scratch memory from the same arena */
	struct stk_decoder *decoder;
	struct stk_video_tool *video; /* the worker's video decoders (op/video/clip.h); NULL before its first video */
	const struct stk_pass_kernels *kernels;
	bool lenient; /* decoders skip damaged data if they can, instead of failing (the user's strict=False) */
	struct stk_codec_limits limits;
	struct stk_video_tally videos;
	int64_t narrowed; /* number of 16-bit images that decoders have rounded to 8 bits; the worker counts them and sets it to 0 */
	const struct stk_cancel *cancel; /* long loops check it; if it is set, their caller returns STK_CANCELLED */
	struct stk_storage *storage;
};

/* What an operator with STK_OP_NVDEC needs to write its output 0 to GPU memory. */
struct stk_nvdec;
struct stk_gpu_call {
	struct stk_nvdec *nvdec;
	struct stk_jobs *jobs; /* takes jobs on GPU memory, which run in any order when all samples of the batch have been described */
	bool now;              /* out[0].data may be written during the call; otherwise only jobs may write there */
	/* Returns the address of `size` bytes of GPU memory, which stay valid until the batch is delivered; NULL if memory is short. */
	void *(*take)(void *user, size_t size, struct stk_error *err);
	void *user;
};

struct stk_call {
	const struct stk_op_def *def;
	const void *args; /* the operator's argument struct, with per-sample values filled in */
	/* While a graph is built: offsets in `args` of the arguments that will get a value for each sample. Until then they hold their defaults. */
	const size_t *varying;
	int32_t n_varying;
	const void *shared;            /* result of `setup`, or of a reader's `open`; NULL without both */
	const struct stk_bytes *bytes; /* readers: the sample's parts, in the order of reader->parts; NULL while a graph is built */
	const void *gathered;          /* result of `gather` for the batch; NULL if gather was not called, and while a graph is built */
	const struct stk_tensor *in;   /* while a graph is built: data is NULL and extents may be -1 */
	struct stk_tensor *out;
	int32_t n_in, n_out;
	/* If the operator runs once for each frame: the desc that every frame's output must have. NULL otherwise, and while that desc is being determined. */
	const struct stk_desc *frame;
	/* wanted[k]: true if an operator or the consumer reads output k. A reader may point an unread output at any memory. NULL: all outputs are read. */
	const bool *wanted;
	void *state;              /* state_size bytes, zeroed, also while a graph is built; kept from infer to run of one sample */
	struct stk_random random; /* the operator's random stream for this sample; each function starts at the beginning of the stream */
	struct stk_place place;   /* epoch, position, sample id */
	/* index: number of the sample in its batch; batch: number of samples in the batch. Both include samples that are skipped. If the operator has a
	 * gather and is in a branch of a condition, both count only the samples that take the branch. */
	int32_t index, batch;
	const char *uri;                         /* with STK_OP_NAMES: the sample's URI, "" if it has none */
	const struct stk_source_callbacks *user; /* the user's function, for operators with STK_OP_FUNCTION; NULL while a graph is built */
	struct stk_tools *tools;                 /* NULL while a graph is built */
	/* The GPU on which an operator with STK_OP_NVDEC runs. Output 0 is then in the memory of that GPU, and the operator writes it itself, in infer (as a
	 * view) or in run_cpu. NULL: all outputs are in host memory. */
	const struct stk_gpu_call *gpu;
};

/* Returns the status that a call of stk_source_callbacks.pull counts as. Users may report the codes that graph.h names. Any other code would claim that
 * something has happened to the pipeline, so it counts as STK_USER. */
static inline enum stk_status stk__status_of_pull(enum stk_status s)
{
	return s == STK_OK || s == STK_END || s == STK_IO || s == STK_NO_MEMORY ? s : STK_USER;
}

/* An image file, and how a decoder's call would decode it. Lets a caller collect many files and decode them together. */
struct stk_encoded {
	const uint8_t *data;
	size_t size;
	const struct stk_image_info *info;
	enum stk_image_type type;
	bool orient;   /* true if the image has to be turned as its EXIF orientation says */
	int32_t denom; /* above 1: the file is decoded at 1/denom of its size */
};

/* Maximum numbers of inputs and outputs of an operator, and of parts of a sample. */
enum { STK_MAX_INPUTS = 999, STK_MAX_OUTPUTS = 999, STK_MAX_PARTS = 64 };

/* ---- readers ---- */

/* A byte range of an object that a sample needs. uri: the object's number, which part_uri turns into its name. length -1: to the object's end; 0: no bytes,
 * for a sample that lacks the part. */
struct stk_part {
	int64_t uri, offset, length;
};

/* Properties of an object from a listing or an index. */
struct stk_known_object {
	int64_t size; /* 0: not known */
	uint64_t tag; /* hash of the object's ETag; 0: not known */
	bool pinned;  /* samples are byte ranges of the object: another version of it would hold other bytes, and is an error */
	bool remote;  /* true if the object is in a store, false if it is a local file */
};

/* The functions of a reader. `shared` is the result of `open`, or of the operator's setup if there is no `open`. The functions may be called by any thread,
 * and by several at the same time. io fetches the parts of each sample, and the operator's run_cpu then makes the outputs for sample call->place from
 * call->bytes. */
struct stk_reader_def {
	/* Opens the data set, which may be remote; replaces the operator's setup. Nullable. */
	enum stk_status (*open)(const void *args, const struct stk_access *access, void **shared, struct stk_error *err);
	/* Returns the number of samples; -1: not known, since samples are counted while they are read. */
	int64_t (*size)(const void *shared);
	/* Returns the search that finds samples while others are already being read, for a data set whose size is not known in advance (stk_order.as_met).
	 * `shared` owns the search. Nullable. */
	struct stk_survey *(*survey)(const void *shared);
	/* Returns a fingerprint of the data set. Earlier versions of stoker saved states with other forms of names. */
	uint64_t (*fingerprint)(const void *shared, enum stk_digest_form form);
	/* Returns a digest of the names and labels of `count` samples from `first` on, to find where two data sets begin to differ. Nullable. */
	uint64_t (*digest)(const void *shared, int64_t first, int64_t count);
	/* Fills the order that the arguments ask for: seed, shards, tail. The pipeline sets the batch size and the start of the run. */
	void (*order)(const void *args, const void *shared, struct stk_order *out);
	/* For a data set that is in host memory, decoded: returns the address of an output's values for sample 0, and sets *stride to the distance between
	 * samples in bytes. The address is valid as long as `shared` exists. Returns NULL if this output is not in memory; it must then be cheap to
	 * compute. Nullable. */
	const uint8_t *(*resident)(const void *shared, int32_t output, size_t *stride);
	void (*prefetch)(const void *shared,
		int64_t id); /* moves sample id to the processor's cache, because it is about to be processed; nullable */
	/* Writes the name of a sample and returns its length. NULL: samples have no names. Without `parts`, the name is the URI of an object that is the
	 * sample's only part. */
	size_t (*uri)(const void *shared, int64_t id, char *uri, size_t capacity);
	/* Fills *out with the known properties of object `uri`, in which samples' parts lie. Nullable. */
	void (*object)(const void *shared, int64_t uri, struct stk_known_object *out);
	/* For samples of several parts, or of parts of objects. part_count returns how many parts each sample has, according to the arguments. parts sets
	 * out[] to the parts of sample id. part_uri writes the name of the object whose number, stk_part.uri, is `object`, and returns the name's length.
	 * Parts that lie close together in one object are fetched in one request. Nullable, all three together. */
	int32_t (*part_count)(const void *args);
	void (*parts)(const void *shared, int64_t id, struct stk_part *out);
	size_t (*part_uri)(const void *shared, int64_t object, char *uri, size_t capacity);
	/* Requests further parts whose positions depend on the bytes of earlier parts: for example, the position of a window of a sound follows from the
	 * file's header. Called when all parts requested so far have been fetched. bytes: one entry for each part, with a size of 0 if the part was not
	 * fetched. out: one entry for each part; the function leaves the length at 0 unless it requests the part. random: the operator's stream for this
	 * sample. Returns false if no further part is needed. The pipeline's lock is held during the call, so the function must neither wait nor take long.
	 * Nullable; only together with parts. */
	bool (*more)(const void *args, const void *shared, int64_t id, struct stk_random random, const struct stk_bytes *bytes,
		struct stk_part *out);
	/* Fails unless the `header` bytes before a part in its object are as expected, in order to notice that the object was replaced after it was
	 * indexed. Remote objects whose ETag is known are not checked, since a request for another version of them fails. `header` is at most
	 * STK_IO_BEFORE. Nullable, both together, and only with `object`. */
	size_t header;
	enum stk_status (*check)(const void *shared, int64_t id, int32_t part, const uint8_t *header, struct stk_error *err);
	/* For messages about one part of a sample. part_name writes the name of a part. output_part returns the number of the part of which an output is a
	 * view, or -1 if it is no view. Nullable, both together. */
	size_t (*part_name)(const void *shared, int64_t id, int32_t part, char *name, size_t capacity);
	int32_t (*output_part)(const void *args, int32_t output);
	/* Returns the path of the file that lists the samples' objects, so that a message about a missing object can say where its name is from. NULL: the
	 * objects were not listed in a file. Nullable. */
	const char *(*listed_in)(const void *args);
	int64_t (*classes)(const void *shared);                       /* returns the number of classes that labels stand for; nullable */
	const char *(*class_name)(const void *shared, int64_t label); /* returns the name of a label's class; nullable */
	/* Returns the number of files that are not samples, and sets *text to a list of them. Nullable. */
	int64_t (*skipped)(const void *shared, const char **text);
};

/* ---- the definition ---- */

enum stk_op_flags {
	STK_OP_RANDOM = 1,       /* the operator draws random numbers from call->random */
	STK_OP_GATHERS_DATA = 2, /* gather reads in[].data, copied if it is on the GPU; without this, only in[].desc */
	STK_OP_HIDDEN = 4,       /* the catalog marks the operator as hidden: only bindings add it to graphs */
	STK_OP_CALLBACK = 8,     /* a user's source: the callback thread calls it and fills its outputs */
	STK_OP_DESCRIBES = 32,   /* reads only in[].desc: runs on the CPU even if its inputs are on the GPU */
	/* in[0] is an image: if it has no layout, it gets the layout for its number of dims (HW, HWC, FHWC, FDHWC), and so do the outputs */
	STK_OP_IMAGES = 64,
	STK_OP_OPTIONAL_OUTPUTS = 4096, /* each input beyond inputs.min adds an output */
	STK_OP_FUNCTION = 128,          /* calls call->user */
	/* with GATHERS_DATA: runs on the CPU even if its inputs are on the GPU, and reads only the copies of their data that `gather` received and kept */
	STK_OP_FETCHES = 8192,
	STK_OP_NAMES = 16384, /* reads call->uri */
	/* its job need not run at once (struct stk_held_job): if the only reader of the output is an operator with STK_OP_ABSORBS, one job can do the work
	 * of both */
	STK_OP_FEEDS = 512,
	/* its job can do the work of the job that makes its first input, if the two fit together (stk__jobs_settle) */
	STK_OP_ABSORBS = 1024,
	/* inputs (predicate, a, b): the output is a view of a or of b, as the predicate decides; the other one may be missing */
	STK_OP_MERGES = 32768,
	STK_OP_MOVES = 65536,  /* only moves or casts elements, so their type may also be an enumeration */
	STK_OP_FIXED = 131072, /* with CLONED: the output is a view of memory that setup has made, the same for every sample */
	STK_OP_VOLUMES = 256,  /* with IMAGES: 4 dims without layout are a volume, DHWC */
	STK_OP_NVDEC = 262144, /* output 0 is frames of videos, which the operator can decode on a GPU: call->gpu */
	/* cheap, and without tensor inputs (readers, constants, draws): each chain that reads its output runs the operator again */
	STK_OP_CLONED = 16,
};

/* classify returns this if the operator cannot join a pass. */
#define STK_CLASS_NEVER (~0u)

struct stk_op_def {
	const char *name, *alias;
	const char *doc; /* documentation: a line of summary, then details */
	struct {
		int16_t min, max;
	} inputs;
	int32_t outputs;                           /* number of outputs; 0 means one */
	int32_t (*output_count)(const void *args); /* returns the number of outputs, if it depends on the arguments; nullable */
	/* bit k: infer reads the data of input k, which stays in host memory; bit 63: also all further inputs */
	uint64_t host_inputs;
	/* bit k: output k stays in host memory if the operator runs on the GPU; only for operators without lower_jobs */
	uint64_t host_outputs;
	/* Bit k: input k may be a sequence (its layout begins with F), and the operator then runs once for each frame; bit 63 stands for all further inputs
	 * too. The operator also runs once for each frame if an argument is given for each frame; then, unless bit 0 is set, input 0 must be a sequence. All
	 * frames share the inputs and arguments that are not given for each frame. */
	uint64_t frame_inputs;
	const char *layouts;   /* allowed for input 0, separated by spaces; NULL: any. If the tensor has no layout, its ndim chooses one */
	const char *tolerance; /* why results may differ more than the general rule allows; shown in the documentation */
	const struct stk_arg_def *args;
	size_t args_size, state_size;
	uint32_t flags;
	unsigned classes; /* with lower: enum stk_step_class, all classes that it may add to a pass */
	int32_t steps;    /* the most pointwise steps that lower adds, if that is more than one */
	/* Returns the classes of the steps that lower would add for this input, or STK_CLASS_NEVER if no pass can do the work. Called when the graph is
	 * built: arguments that vary between samples then hold their defaults, and `in` may be incomplete. Nullable: `classes` then applies. Use
	 * stk__op_classes instead of calling this. */
	unsigned (*classify)(const void *args, const struct stk_desc *in);

	/* Checks what ranges cannot express, reads lists and opens data sets, once for each pipeline. *shared is passed to every call and to teardown.
	 * Nullable. */
	enum stk_status (*setup)(const void *args, void **shared, struct stk_error *err);
	void (*teardown)(void *shared);

	/* Sets types, layouts and shapes of the outputs. Called while a graph is built, and for each sample. While a graph is built, data is NULL and
	 * extents may be -1, for unknown; outputs whose extents depend on unknown ones get -1 too. (If a varying argument is marked `shapes`, the framework
	 * sets all extents of the outputs to -1.) For a sample, everything is known. infer may then store values for the later functions in call->state. It
	 * may also point out[k].data at memory that outlives the sample: such an output, called a view, is complete, and run does not write it. Required. */
	enum stk_status (*infer)(const struct stk_call *call, struct stk_error *err);

	/* The operator's work, in one of these ways:
	 * - lower_jobs: work on tensors of any kind, as jobs (kernel/job/job.h), which run on the CPU and on the GPU. Reads no data of its inputs except
	 *   host_inputs, since addresses may be on the GPU.
	 * - lower: images only (HWC, CHW, HW, with leading frames): appends steps to a pass, which does the work. An operator may have both; lower is used
	 *   for images.
	 * - fetch, with lower: a decoder. Its image is the source of a pass: `extent` returns the extents of the whole image, lower adds the operator's own
	 *   window, and fetch decodes the part that the finished pass reads.
	 * - run_cpu: work that is not done on arrays (readers, draws, a user's function): one sample, on the CPU; out[].data is allocated. */
	enum stk_status (*run_cpu)(const struct stk_call *call, struct stk_error *err);
	void (*lower)(const struct stk_call *call, struct stk_pass *pass);
	enum stk_status (*lower_jobs)(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err);
	void (*extent)(const struct stk_call *call, struct stk_image *whole); /* sets the whole image's extents; its data is not used */
	/* describes the file and how the call would decode it; only with `fetch` */
	void (*encoded)(const struct stk_call *call, struct stk_encoded *out);
	enum stk_status (*fetch)(const struct stk_call *call, struct stk_rect part, const struct stk_image *dst, struct stk_error *err);

	/* For recipes (kernel/recipe/recipe.h), which process data sets that are in memory, and whose samples differ only by their place (struct
	 * stk_place). An operator that draws no random numbers needs neither function, since its lower is used. Both are nullable: work that no recipe can
	 * express is done sample by sample.
	 *
	 * - coin: sets *chance and returns true if the output is 1 for samples whose first draw of the operator's stream is below *chance, and 0 for the
	 *   others. Returns false if the arguments ask for something else.
	 * - recipe: does what lower does, for an operator that draws: adds the window that infer would draw. Returns false if a recipe cannot express it. */
	bool (*coin)(const struct stk_call *call, float *chance);
	bool (*recipe)(const struct stk_call *call, struct stk_recipe *r);

	/* For operators whose result for a sample depends on the other samples of its batch, such as on their largest extent or their common mean. gather
	 * is called once for each batch, when the inputs of all its samples are complete; the calls have arguments and inputs, but no outputs. It writes
	 * its result to `out`. Then infer and the functions that do the work run for each sample as usual, with that result in call->gathered. So only
	 * gather has to wait for the whole batch. If gather fails because of one sample, it sets err->sample to its index in `calls`.
	 *
	 * gathers is called when the graph is built, and returns whether gather is needed for these arguments and inputs. Nullable: it always is. */
	enum stk_status (*gather)(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err);
	bool (*gathers)(const struct stk_call *call);

	const struct stk_reader_def *reader;
};

/* All operators, sorted by name: op_list.h. */
extern const struct stk_op_def *const stk__ops[];
extern const size_t stk__op_total;
const struct stk_op_def *stk__op_find(const char *name); /* finds an operator by name or alias; NULL if there is no such operator */

/* Returns the classes of the steps that an operator may add to a pass over this input, or STK_CLASS_NEVER if it cannot join a pass. in: as far as it is
 * known when the graph is built; NULL for sources. Does not check the layout: the caller must check whether lower takes it. */
unsigned stk__op_classes(const struct stk_op_def *def, const void *args, const struct stk_desc *in);

/* Returns whether infer reads the data of input k. */
static inline bool stk__op_host_input(const struct stk_op_def *def, int32_t k)
{
	return def->host_inputs >> (k < 63 ? k : 63) & 1;
}

/* Returns whether output k stays in host memory if the operator runs on the GPU. */
static inline bool stk__op_host_output(const struct stk_op_def *def, int32_t k)
{
	return k < 64 && def->host_outputs >> k & 1;
}

static inline bool stk__op_frame_input(const struct stk_op_def *def, int32_t k)
{
	return def->frame_inputs >> (k < 63 ? k : 63) & 1;
}

/* Returns whether the operator can do its work without a pass. */
static inline bool stk__op_runs(const struct stk_op_def *def)
{
	return def->run_cpu || def->lower_jobs;
}

/* Does the work of a call on the CPU, after infer; out[].data must be allocated. STK_STATE: the operator has neither lower_jobs nor run_cpu. */
static inline enum stk_status stk__op_run(const struct stk_call *call, struct stk_error *err)
{
	if (call->def->lower_jobs)
		return call->def->lower_jobs(call, &call->tools->cpu_jobs, err);
	if (!call->def->run_cpu) /* without this failure an output that was never written would be delivered */
		return stk__fail(err, STK_STATE, "%s cannot write an output for this input; please report this graph", call->def->name);
	return call->def->run_cpu(call, err);
}

/* Returns true if a graph is being built and an argument will get a value for each sample later. field: address of the argument's field in call->args. */
bool stk__varies(const struct stk_call *call, const void *field);

/* Sets *out to the operator's k-th argument, counting from 0 and including the arguments of groups. out->offset is set to the offset in the operator's
 * whole struct. Returns false if there is no k-th argument. */
bool stk__op_arg_at(const struct stk_op_def *def, int32_t k, struct stk_arg_def *out);

#endif
