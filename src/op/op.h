/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator is: one file in op/, one const struct stk_op_def, one line in op_list.h. Everything else (bindings, documentation, checks,
 * execution, fusion) reads this table and never an operator's name. */
#ifndef STK_OP_OP_H
#define STK_OP_OP_H

#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "codec/codec.h"
#include "io/storage.h"
#include "kernel/job/job.h"
#include "kernel/pass/pass.h"
#include "kernel/recipe/recipe.h"
#include "order/order.h"
#include "stoker/catalog.h"
#include "stoker/graph.h"

#include <math.h>

/* ---- arguments ---- */

/* Lists in an argument struct. count < 0: not given. They point into memory of the graph, or of the sample for per-sample arguments. */
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

/* An argument without default that is not given holds: INT64_MIN, NAN, NULL, STK_NO_DTYPE (enums: -1), count -1. */
#define STK_INT_UNSET INT64_MIN
static inline bool stk__int_given(int64_t v)
{
	return v != STK_INT_UNSET;
}
static inline bool stk__float_given(float v)
{
	return !isnan(v);
}

/* One argument. Fields by type: BOOL bool, INT int64_t, FLOAT float, STRING const char *, DTYPE/IMAGE_TYPE/INTERP int32_t, lists as above.
 * Behind the field of a STK_SHAPED one stands a struct stk_ints: the shape of the sample's tensor; count -1 where the argument is no node.
 * Numbers lie from min to max, and floats are finite unless STK_INFINITE or STK_NAN is among the flags: graph/args.c checks both, of constants and samples.
 * fallback is JSON text ("1", "[0.08, 1.0]", "\"error\""), NULL for none. With `group`, the entry stands for another table at this offset. */
struct stk_arg_def {
	const char *name;
	enum stk_arg_type type;
	uint32_t flags; /* enum stk_arg_flags */
	size_t offset;
	const char *fallback;
	double min, max;
	const char *choices; /* of strings: "error|pad|trim_to_shape" */
	bool alone;          /* a per-sample value of it may ask for what no pass can do: the operator then runs by itself, by lower_jobs */
	bool shapes;         /* a per-sample value of it makes the output's shape unknown beforehand */
	const struct stk_arg_def *group;
	const char *doc;
};

#define STK_ANY_NUMBER -HUGE_VAL, HUGE_VAL
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

/* Readable 64 bytes past the end. */
struct stk_bytes {
	const uint8_t *data;
	size_t size;
};

/* What an operator found out about all samples of a batch. Its memory stays with the batch in flight, and later batches use it again. */
struct stk_gathered {
	void *data;
	size_t room;
};
void *stk__gathered_take(struct stk_gathered *g, size_t size); /* data with room for `size` bytes, uninitialised; NULL: out of memory */

/* What a worker lends to an operator for one sample. */
struct stk_tools {
	struct stk_arena *arena;  /* scratch until the sample's chain has ended */
	struct stk_jobs cpu_jobs; /* runs jobs as they are made, with scratch from the same arena */
	struct stk_decoder *decoder;
	const struct stk_pass_kernels *kernels;
	bool lenient;
	struct stk_codec_limits limits;
	int64_t narrowed;                /* images of 16 bits that decoders have rounded to 8; the worker counts them and sets it to 0 */
	const struct stk_cancel *cancel; /* long loops check it; their caller then returns STK_CANCELLED */
};

struct stk_call {
	const struct stk_op_def *def;
	const void *args; /* the operator's argument struct, per-sample values filled in */
	/* While a graph is built: offsets in args of the arguments that will come sample by sample, and hold their defaults until then. */
	const size_t *varying;
	int32_t n_varying;
	const void *shared;            /* what `setup` made; NULL without */
	const struct stk_bytes *bytes; /* readers: the sample's parts, as `parts` names them; NULL while a graph is built */
	const void *gathered;          /* what `gather` left for the batch; NULL where it was not asked for, and while a graph is built */
	const struct stk_tensor *in;   /* while a graph is built: data is NULL and extents may be -1 */
	struct stk_tensor *out;
	int32_t n_in, n_out;
	/* Where the operator runs once for each frame: what every frame's output has to be. NULL elsewhere, and while that is found out. */
	const struct stk_desc *frame;
	/* Of each output, whether anybody reads what this call makes: a reader need make no others, if it leaves them as views of anything. NULL: all. */
	const bool *wanted;
	void *state;              /* state_size bytes, zeroed, also while a graph is built; kept from infer to run of one sample */
	struct stk_random random; /* the operator's stream for this sample, at its start in each function */
	struct stk_place place;   /* epoch, position, sample id */
	int32_t index, batch;     /* which sample it is of how many in its batch, those that were left out included */
	const char *uri;          /* of STK_OP_NAMES: the sample's, "" where it has none */
	const struct stk_source_callbacks *user; /* of an STK_OP_FUNCTION; NULL while a graph is built */
	struct stk_tools *tools;                 /* NULL while a graph is built */
};

/* The file that a decoder was given, for a caller that decodes many files at once. */
struct stk_encoded {
	const uint8_t *data;
	size_t size;
	enum stk_image_type type;
	bool orient;   /* EXIF's orientation applies */
	int32_t denom; /* above 1: decoded at 1/denom of the size */
};

/* How many inputs and outputs an operator may have; and parts a sample of a reader. */
enum { STK_MAX_INPUTS = 999, STK_MAX_OUTPUTS = 999, STK_MAX_PARTS = 64 };

/* ---- readers ---- */

/* A stretch of an object that a sample needs. uri: the object's number, which part_uri turns into its name. length -1: to the object's end; 0:
 * nothing, for a sample that lacks the part. */
struct stk_part {
	int64_t uri, offset, length;
};

/* A reader's side of the table, over what `setup` made. Pure functions for any thread. The reader's run_cpu fills its outputs for call->place;
 * call->bytes are the sample's parts, fetched ahead through io. */
struct stk_reader_def {
	/* In place of the operator's setup: opens a data set, which may lie elsewhere. Nullable. */
	enum stk_status (*open)(const void *args, const struct stk_access *access, void **shared, struct stk_error *err);
	int64_t (*size)(const void *shared); /* -1: not known, since its samples are met while they are read */
	/* Of such samples, whose order is stk_order.as_met. Nullable. */
	struct stk_survey *(*survey)(const void *shared);
	uint64_t (*fingerprint)(const void *shared);
	/* A digest of the names and labels of `count` samples from `first` on, to find where two data sets begin to differ. Nullable. */
	uint64_t (*digest)(const void *shared, int64_t first, int64_t count);
	/* The order that the arguments ask for: seed, shards, tail. The pipeline sets the batch size and where a run starts. */
	void (*order)(const void *args, const void *shared, struct stk_order *out);
	/* Where the decoded values of an output lie in host memory, for all samples: sample id at the result + id * *stride, as long as `shared`
	 * lives. NULL: they are not in memory. Nullable. In a reader that has it, a sample's other outputs cost next to nothing. */
	const uint8_t *(*resident)(const void *shared, int32_t output, size_t *stride);
	void (*soon)(const void *shared, int64_t id); /* a hint that sample id comes next, to prefetch its memory into a cache; nullable */
	/* The name of a sample; the length is returned. Nullable: samples have none. Without `parts`, it is the uri of an object that is the sample's one
	 * part. */
	size_t (*uri)(const void *shared, int64_t id, char *uri, size_t capacity);
	/* What is known of the object that a part is of: its size, and a hash of its ETag; 0: not known. Where samples are places in it, it is `pinned`: another
	 * version of it would be other bytes, and is an error. Nullable. */
	void (*object)(const void *shared, int64_t uri, int64_t *size, uint64_t *tag, bool *pinned);
	/* Samples of several parts, or of parts of objects. part_count: how many each sample has, which the arguments say. Those that lie in one object,
	 * close together, are fetched in one request. Nullable, all three together. */
	int32_t (*part_count)(const void *args);
	void (*parts)(const void *shared, int64_t id, struct stk_part *out);
	size_t (*part_uri)(const void *shared, int64_t part, char *uri, size_t capacity);
	/* Checks the `header` bytes that stand before a part in its object, so that bytes of another object that has taken its place are an error. Only local
	 * files are checked: remote objects have ETags. header: at most STK_IO_BEFORE. Nullable, both together. */
	size_t header;
	enum stk_status (*check)(const void *shared, int64_t id, int32_t part, const uint8_t *header, struct stk_error *err);
	/* For messages about one part of a sample: its name, and which part an output is a view of (-1: none). Nullable, both together. */
	size_t (*part_name)(const void *shared, int64_t id, int32_t part, char *name, size_t capacity);
	int32_t (*output_part)(const void *args, int32_t output);
	/* The file that names the samples' objects, for messages where one is missing; NULL: none does. Nullable. */
	const char *(*listed_in)(const void *args);
	int64_t (*classes)(const void *shared);                       /* nullable */
	const char *(*class_name)(const void *shared, int64_t label); /* nullable */
	int64_t (*skipped)(const void *shared, const char **text);    /* nullable: how many files are no samples; *text: what they are */
};

/* ---- the definition ---- */

enum stk_op_flags {
	STK_OP_RANDOM = 1,       /* draws from call->random */
	STK_OP_GATHERS_DATA = 2, /* gather reads in[].data, of which it gets a copy where that is on the GPU; without it only in[].desc */
	STK_OP_HIDDEN = 4,       /* for bindings alone */
	STK_OP_CALLBACK = 8,     /* a user's source: filled on the callback thread */
	STK_OP_DESCRIBES = 32,   /* reads in[].desc alone: runs on the CPU wherever its inputs are */
	STK_OP_IMAGES =
		64, /* in[0] is an image: one without layout is given that of its dims (HW, HWC, FHWC, FDHWC), which outputs then have too */
	STK_OP_OPTIONAL_OUTPUTS = 4096, /* each input beyond inputs.min adds an output */
	STK_OP_FUNCTION = 128,          /* calls call->user */
	STK_OP_FETCHES =
		8192, /* with GATHERS_DATA: runs on the cores over values on the GPU, of which it sees what gather has left of the copies */
	STK_OP_NAMES = 16384, /* wants call->uri */
	STK_OP_MERGES =
		32768, /* of (predicate, a, b): its output is the memory of the one that the predicate names; the other need not exist */
	STK_OP_MOVES = 65536,  /* moves elements or casts them, and so takes values of enumerations too */
	STK_OP_FIXED = 131072, /* cloned; infer gives every sample the same view of what setup has made */
	STK_OP_VOLUMES = 256,  /* with IMAGES: 4 dims without layout are a volume, DHWC */
	STK_OP_CLONED = 16,    /* no tensor inputs and cheap: each chain that reads it runs its own (readers, constants, draws) */
};

/* An answer of classify: this one is not for a pass. */
#define STK_CLASS_NEVER (~0u)

struct stk_op_def {
	const char *name, *alias;
	const char *doc; /* a summary line, then more */
	struct {
		int16_t min, max;
	} inputs;
	int32_t outputs;                           /* 0: one */
	int32_t (*output_count)(const void *args); /* where the arguments decide; nullable */
	uint64_t host_inputs; /* bit k: infer reads the data of input k, which stays in host memory; bit 63: of all further ones */
	/* Bit k: where input k is a sequence (its layout begins with F), the operator runs once for each frame, as it does where an argument is given for
	 * each frame; bit 63: all further ones. Without bit 0, input 0 must be a sequence too. Inputs and arguments that are none serve all frames. */
	uint64_t frame_inputs;
	const char *
		layouts; /* that input 0 may have, space separated; NULL: any. A tensor without layout is taken as the one with its ndim. */
	const char *tolerance; /* why results may differ more than the rule allows; shown in the documentation */
	const struct stk_arg_def *args;
	size_t args_size, state_size;
	uint32_t flags;
	unsigned classes; /* with lower: enum stk_step_class, all that it may add to a pass */
	int32_t steps;    /* the most pointwise steps that lower adds, where that is more than one */
	/* Nullable: what lower adds with these arguments over this input, as both are known when the graph is built (per-sample arguments hold their
	 * defaults); STK_CLASS_NEVER where no pass may serve. Without it, `classes` holds. Read through stk__op_classes. */
	unsigned (*classify)(const void *args, const struct stk_desc *in);

	/* Checks what ranges cannot, reads lists, opens data sets: once a pipeline. *shared goes to every call and to teardown. Nullable. */
	enum stk_status (*setup)(const void *args, void **shared, struct stk_error *err);
	void (*teardown)(void *shared);

	/* Types, layouts and shapes of the outputs. While a graph is built data is NULL and extents may be -1: unknown in, unknown out (the framework
	 * itself makes extents unknown where a per-sample argument marked `shapes` varies). For a sample all is known, and infer may leave what it
	 * found in call->state, or point out[k].data at memory that outlives the sample (a view: it is complete, and run leaves it alone). Required. */
	enum stk_status (*infer)(const struct stk_call *call, struct stk_error *err);

	/* What it does, in one of these ways:
	 * - lower_jobs: work on tensors of any kind, as jobs (kernel/job/job.h), which run on the CPU and on the GPU alike. Reads no data of
	 *   its inputs but of host_inputs: addresses may be the GPU's.
	 * - lower: images only (HWC, CHW, HW, with leading frames): appends to a pass, which does the work. An operator may have both; lower serves images.
	 * - fetch, with lower: a decoder. Its image is the source of a pass: `extent` tells what it would be whole, lower adds the operator's own window,
	 *   and fetch decodes the part that the finished pass reads.
	 * - run_cpu: what is no array work (readers, draws, a user's function): one sample, on the CPU; out[].data is given. */
	enum stk_status (*run_cpu)(const struct stk_call *call, struct stk_error *err);
	void (*lower)(const struct stk_call *call, struct stk_pass *pass);
	enum stk_status (*lower_jobs)(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err);
	void (*extent)(const struct stk_call *call, struct stk_image *whole);  /* data unused */
	void (*encoded)(const struct stk_call *call, struct stk_encoded *out); /* with fetch */
	enum stk_status (*fetch)(const struct stk_call *call, struct stk_rect part, const struct stk_image *dst, struct stk_error *err);

	/* For recipes (kernel/recipe/recipe.h), by which resident data sets run if all that differs between samples follows from their places. An
	 * operator that draws nothing needs none of these: lower serves. What has no place in a recipe takes the ordinary path, so both are nullable.
	 * - coin: the output is 0 or 1: 1 where the first draw of the operator's stream is below *chance. False with arguments that make it something else.
	 * - recipe: lower, for an operator that draws: appends the window that infer would draw. False: a recipe cannot say it. */
	bool (*coin)(const struct stk_call *call, float *chance);
	bool (*recipe)(const struct stk_call *call, struct stk_recipe *r);

	/* For operators whose result for a sample depends on the others of its batch (their largest extent, their common mean): gather sees the calls of
	 * all samples, with arguments and inputs and without outputs, once all have come, and leaves what it found in `out`. infer and what does the work then
	 * serve each sample as ever, with call->gathered: so only what needs the batch waits for it, and the work is done on all cores and in passes.
	 * Where one sample is to blame for a failure, err->sample is its index in `calls`.
	 * gathers tells, when the graph is built, whether these arguments over these inputs need it; nullable: always. */
	enum stk_status (*gather)(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err);
	bool (*gathers)(const struct stk_call *call);

	const struct stk_reader_def *reader;
};

/* All operators, sorted by name: op_list.h. */
extern const struct stk_op_def *const stk__ops[];
extern const size_t stk__op_total;
const struct stk_op_def *stk__op_find(const char *name); /* by name or alias; NULL */

/* What an operator with these arguments may add to a pass over this input; STK_CLASS_NEVER: it runs by itself. in: what is known when the graph is
 * built, NULL for sources. The caller checks whether lower takes its layout. */
unsigned stk__op_classes(const struct stk_op_def *def, const void *args, const struct stk_desc *in);

/* Whether infer reads the data of input k. */
static inline bool stk__op_host_input(const struct stk_op_def *def, int32_t k)
{
	return def->host_inputs >> (k < 63 ? k : 63) & 1;
}

static inline bool stk__op_frame_input(const struct stk_op_def *def, int32_t k)
{
	return def->frame_inputs >> (k < 63 ? k : 63) & 1;
}

/* True where it serves tensors of any kind, not only images and those that a user fills. */
static inline bool stk__op_runs(const struct stk_op_def *def)
{
	return def->run_cpu || def->lower_jobs;
}

/* Does the call's work on the CPU, after infer; out[].data is given. */
static inline enum stk_status stk__op_run(const struct stk_call *call, struct stk_error *err)
{
	if (call->def->lower_jobs)
		return call->def->lower_jobs(call, &call->tools->cpu_jobs, err);
	if (!call->def->run_cpu) /* what nobody writes must not be delivered */
		return stk__fail(err, STK_STATE, "%s can write nothing for this input; please report this graph", call->def->name);
	return call->def->run_cpu(call, err);
}

/* True while a graph is built for an argument, given by its field in call->args, that will come sample by sample. */
bool stk__varies(const struct stk_call *call, const void *field);

/* A table with its groups laid flat: the k-th argument, with its offset in the whole struct. false past the end. */
bool stk__op_arg_at(const struct stk_op_def *def, int32_t k, struct stk_arg_def *out);

#endif
