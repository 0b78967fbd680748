/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes the operators and their arguments as data, from which bindings, documentation, completion and checks are made. Everything here is
 * constant and lives as long as the library. Any thread. */
#ifndef STOKER_CATALOG_H
#define STOKER_CATALOG_H

#include "stoker/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum stk_arg_type {
	STK_ARG_BOOL,
	STK_ARG_INT,
	STK_ARG_FLOAT,
	STK_ARG_STRING,
	STK_ARG_DTYPE,      /* enum stk_dtype */
	STK_ARG_IMAGE_TYPE, /* enum stk_image_type */
	STK_ARG_INTERP,     /* enum stk_interp */
	STK_ARG_INTS,
	STK_ARG_FLOATS,
	STK_ARG_STRINGS,
};

enum stk_arg_flags {
	STK_PER_SAMPLE = 1, /* the argument may also be a node, with one value per sample */
	STK_REQUIRED = 2,
	STK_ACCEPTED = 4,   /* the argument is accepted for compatibility with DALI, but has no effect */
	STK_SCALAR_OK = 8,  /* a list argument that may also be a single value */
	STK_SHAPED = 16,    /* a list argument that a node may give as a tensor of several dims, whose shape the operator sees too */
	STK_PER_FRAME = 32, /* with STK_PER_SAMPLE: for sequences also one value per frame, from a node whose layout begins with F */
	STK_INFINITE = 64,  /* a float that may be infinite; without this flag, infinities and values beyond float32's range are refused */
	STK_NAN = 128,      /* a float that may be NaN if the operator's first output is of floats; without this flag, NaN is refused */
	STK_DOUBLE = 256,   /* a float that is kept in double precision, as times in long recordings; others are rounded to float32 */
};

/* Describes one argument of an operator. */
struct stk_arg_info {
	const char *name;
	const char *type; /* "bool", "int", "float", "str", "DType", "ImageType", "Interp", "list[int]", ... */
	enum stk_arg_type kind;
	uint32_t flags;
	const char *default_text; /* the default as JSON; NULL if the argument has no fixed default: doc says what applies then */
	const char *choices;      /* the allowed values as "a|b|c"; NULL: any value */
	double min, max;          /* range of a number; -HUGE_VAL or HUGE_VAL stand for no limit */
	const char *doc;
};

enum stk_op_info_flags {
	STK_OP_IS_READER = 1,
	STK_OP_IS_RANDOM = 2,
	STK_OP_IS_BATCH = 4,     /* may need the whole batch, depending on its arguments */
	STK_OP_IS_HIDDEN = 8,    /* made by the bindings (arithmetic, slicing); users do not name it */
	STK_OP_IS_ON_CORES = 16, /* has no GPU kernel: runs on the CPU wherever it is placed */
	STK_OP_IS_ON_NVDEC = 32, /* if placed on a GPU, NVDEC decodes the videos that it supports, and the CPU all others */
};

struct stk_op_info {
	const char *name;    /* "decoders.image" */
	const char *alias;   /* DALI's legacy name, or NULL */
	const char *doc;     /* description of the operator, whose first line is a summary */
	const char *layouts; /* "HWC CHW" for example, or "" for any layout */
	const char *
		tolerance; /* why its results may differ from those of the reference implementation by more than the usual tolerance; NULL: they do not */
	uint32_t flags;
	int32_t min_inputs, max_inputs;
	int32_t outputs; /* -1: the number depends on arguments */
	int32_t args;
};

STK_API size_t stk_op_count(void);
/* Describes operator i; returns false if i is out of range. Operators are sorted by name. */
STK_API bool stk_op_info(size_t i, struct stk_op_info *out);
/* Finds an operator by name or alias; returns false if it does not exist. */
STK_API bool stk_op_find(const char *name, size_t *i);
/* Describes argument number `arg` of operator number `op`; returns false if one of them is out of range. */
STK_API bool stk_op_arg(size_t op, int32_t arg, struct stk_arg_info *out);
/* Writes one sentence about an unknown operator name, such as "NAME exists in DALI, not in Stoker yet", and cuts it if it does not fit. */
STK_API void stk_op_explain_missing(const char *name, char *text, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
