/* SPDX-License-Identifier: Apache-2.0
 * segmentation.random_object_bbox: the box of a random object of a mask of labels. */
#include "kernel/convert/convert.h"
#include "op/dims.h"
#include "op/geometry/blobs.h"

#include <string.h>

struct object_bbox {
	struct stk_ints classes, threshold;
	struct stk_floats class_weights;
	int64_t background, k_largest, seed;
	float foreground_prob;
	bool ignore_class, output_class, cache_objects;
	const char *format;
};

static const struct stk_arg_def object_bbox_args[] = {
	STK_ARG(struct object_bbox, classes, STK_ARG_INTS, NULL, (-0x1p31, 0x1p31 - 1), STK_PER_SAMPLE | STK_SCALAR_OK,
		"Labels that count as objects. Default: all but the background, or 1, 2, ... with class_weights."),
	STK_ARG(struct object_bbox, class_weights, STK_ARG_FLOATS, NULL, (0, HUGE_VAL), STK_PER_SAMPLE | STK_SCALAR_OK,
		"Weight of each class; the chance is the weight's part of the sum. Default: equal weights."),
	STK_ARG(struct object_bbox, background, STK_ARG_INT, NULL, (-0x1p31, 0x1p31 - 1), STK_PER_SAMPLE,
		"Label of the background. Default: 0, or the first of -1, -2, ... that is not in classes."),
	STK_ARG(struct object_bbox, foreground_prob, STK_ARG_FLOAT, "1.0", (0, 1), STK_PER_SAMPLE,
		"The chance to draw an object; otherwise the box is the whole mask."),
	STK_ARG(struct object_bbox, threshold, STK_ARG_INTS, NULL, (0, 0x1p31), STK_PER_SAMPLE | STK_SCALAR_OK,
		"The least extent of a box, one value a dim, or one for all. Default: any extent."),
	STK_ARG(struct object_bbox, k_largest, STK_ARG_INT, NULL, (1, 0x1p31), 0,
		"Draws only from this many of the largest boxes of the class, or of all boxes with ignore_class. Default: from all."),
	STK_ARG(struct object_bbox, ignore_class, STK_ARG_BOOL, "false", STK_FREE, 0,
		"All objects have the same chance; false: first a class is drawn, then one of its objects."),
	STK_ARG(struct object_bbox, output_class, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Outputs the object's label too, int32; the background's label if the box is the whole mask."),
	{.name = "format",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct object_bbox, format),
		.fallback = "\"anchor_shape\"",
		.choices = "anchor_shape|start_end|box",
		.doc = "Outputs: the box's start and its shape, or its start and its end, or one output with the start followed by the end."},
	STK_ARG(struct object_bbox, cache_objects, STK_ARG_BOOL, "false", STK_FREE, STK_ACCEPTED,
		"Accepted and ignored: objects are searched for each time."),
	STK_ARG(struct object_bbox, seed, STK_ARG_INT, "-1", STK_FREE, 0,
		"Operators with the same seed draw the same numbers; -1: a stream of the operator's own, from the pipeline's seed."),
	STK_ARG_END,
};

static int32_t object_bbox_outputs(const void *args)
{
	const struct object_bbox *a = args;
	return (a->format[0] == 'b' ? 1 : 2) + a->output_class;
}

static enum stk_status check_classes(const struct stk_call *call, struct stk_error *err)
{
	const struct object_bbox *a = call->args;
	bool classes = a->classes.count >= 0 || stk__varies(call, &a->classes),
	     weights = a->class_weights.count >= 0 || stk__varies(call, &a->class_weights);
	if (a->ignore_class && (classes || weights || a->output_class))
		return stk__fail(err, STK_INVALID, "ignore_class excludes classes, class_weights and output_class: leave them out");
	if (a->classes.count >= 0 && a->class_weights.count >= 0 && a->classes.count != a->class_weights.count)
		return stk__fail(
			err, STK_INVALID, "%d class_weights for %d classes: give one a class", a->class_weights.count, a->classes.count);
	for (int32_t k = 0; k < a->classes.count && stk__int_given(a->background); k++)
		if (a->classes.v[k] == a->background)
			return stk__fail(err, STK_INVALID, "%lld is both the background and one of the classes", (long long)a->background);
	return STK_OK;
}

static enum stk_status object_bbox_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct object_bbox *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	int32_t boxes = a->format[0] == 'b' ? 1 : 2;
	for (int32_t k = 0; k < call->n_out; k++)
		call->out[k].desc = (struct stk_desc){STK_INT32, k < boxes, {in->ndim < 0 ? -1 : in->ndim * (boxes == 1 ? 2 : 1)}, ""};
	if (in->dtype == STK_FLOAT || in->dtype == STK_FLOAT16 || in->dtype == STK_BFLOAT16 || in->dtype == STK_FLOAT64 ||
		in->dtype == STK_INT64 || in->dtype == STK_UINT64)
		return stk__fail(err, STK_UNSUPPORTED, "labels must be whole numbers of up to 32 bits, not %s; cast them",
			stk_dtype_name(in->dtype));
	if (in->ndim == 0)
		return stk__fail(err, STK_SHAPE, "a mask must have at least 1 dim");
	if (in->ndim > 0 && a->threshold.count >= 0 && a->threshold.count != 1 && a->threshold.count != in->ndim)
		return stk__fail(err, STK_INVALID, "threshold has %d values for a mask of %d dims: give one, or one a dim",
			a->threshold.count, in->ndim);
	return check_classes(call, err);
}

/* The classes among which a call draws: the user's classes, or all labels in the mask. weights NULL: all classes are equally likely. */
struct classes {
	int32_t count;
	const float *weights;
	int64_t *v;
};

static bool holds(const int64_t *v, int32_t n, int64_t label)
{
	for (int32_t k = 0; k < n; k++)
		if (v[k] == label)
			return true;
	return false;
}

static int32_t background_of(const struct object_bbox *a, const struct classes *c)
{
	if (stk__int_given(a->background))
		return (int32_t)a->background;
	int32_t label = 0;
	for (; c->v && holds(c->v, c->count, label); label--)
		continue;
	return label;
}

static enum stk_status given_classes(const struct stk_call *call, struct classes *c, struct stk_error *err)
{
	const struct object_bbox *a = call->args;
	*c = (struct classes){.count = a->classes.count >= 0 ? a->classes.count : a->class_weights.count,
		.weights = a->class_weights.count >= 0 ? a->class_weights.v : NULL};
	if (c->count < 0)
		return STK_OK;
	c->v = stk__arena_take(call->tools->arena, (size_t)c->count * sizeof *c->v + 1);
	if (!c->v)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d classes", c->count);
	for (int32_t k = 0; k < c->count; k++)
		c->v[k] = a->classes.count >= 0 ? a->classes.v[k] : k + 1;
	return STK_OK;
}

/* Sets *c to the distinct labels of the blobs, for a call without given classes. */
static enum stk_status found_classes(const struct stk_call *call, const struct stk_blobs *blobs, struct classes *c, struct stk_error *err)
{
	c->count = 0;
	c->v = stk__arena_take(call->tools->arena, (size_t)blobs->count * sizeof *c->v + 1);
	if (!c->v)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d blobs", blobs->count);
	for (int32_t i = 0; i < blobs->count; i++)
		if (!holds(c->v, c->count, blobs->v[i].label))
			c->v[c->count++] = blobs->v[i].label;
	return STK_OK;
}

static double volume_of(const struct stk_blob *b, int32_t ndim)
{
	double volume = 1;
	for (int32_t k = 0; k < ndim; k++)
		volume *= (double)(b->hi[k] - b->lo[k]);
	return volume;
}

static bool large_enough(const struct stk_blob *b, struct stk_ints threshold, int32_t ndim)
{
	for (int32_t k = 0; k < ndim && threshold.count > 0; k++)
		if (b->hi[k] - b->lo[k] < threshold.v[threshold.count == 1 ? 0 : k])
			return false;
	return true;
}

/* Draws a blob with this label (label NULL: with any label) that is large enough and among the k_largest such blobs. Returns NULL if there is no such blob. of:
 * scratch memory for as many pointers as there are blobs. */
static const struct stk_blob *draw_blob(const struct object_bbox *a, const struct stk_blobs *blobs, const int64_t *label, int32_t ndim,
	const struct stk_blob **of, struct stk_random *r)
{
	int32_t n = 0;
	for (int32_t i = 0; i < blobs->count; i++) {
		const struct stk_blob *b = &blobs->v[i];
		if ((label && b->label != *label) || !large_enough(b, a->threshold, ndim))
			continue;
		int32_t at = n++;
		for (; stk__int_given(a->k_largest) && at > 0 && volume_of(of[at - 1], ndim) < volume_of(b, ndim); at--)
			of[at] = of[at - 1]; /* largest first; blobs of equal size keep their order */
		of[at] = b;
		n = stk__int_given(a->k_largest) && n > a->k_largest ? (int32_t)a->k_largest : n;
	}
	uint32_t drawn = stk__random_below(r, n ? (uint32_t)n : 1);
	return n ? of[drawn] : NULL;
}

/* Draws one of the classes that are not `drawn`, with chances in proportion to their weights. Returns its index, or -1 if all of them have weight 0. */
static int32_t draw_class(const struct classes *c, const bool *drawn, struct stk_random *r)
{
	double total = 0, share = stk__random_double(r);
	int32_t last = -1;
	for (int32_t k = 0; k < c->count; k++)
		total += drawn[k] ? 0 : c->weights ? (double)c->weights[k] : 1;
	share *= total;
	for (int32_t k = 0; k < c->count; k++) {
		double chance = drawn[k] ? 0 : c->weights ? (double)c->weights[k] : 1;
		if (chance <= 0)
			continue;
		last = k;
		if (share < chance)
			break;
		share -= chance;
	}
	return last;
}

/* Draws a class, then one of its boxes. A class without a suitable box is not drawn again. Sets *out to NULL if no class has a suitable box. With ignore_class,
 * draws among the boxes of all classes together. */
static enum stk_status draw_object(const struct stk_call *call, const struct stk_blobs *blobs, const struct classes *c,
	struct stk_random *r, const struct stk_blob **out, struct stk_error *err)
{
	const struct object_bbox *a = call->args;
	int32_t ndim = call->in[0].desc.ndim;
	const struct stk_blob **candidates = stk__arena_take(call->tools->arena, (size_t)blobs->count * sizeof(void *) + sizeof(void *));
	bool *drawn = stk__arena_take(call->tools->arena, (size_t)c->count + 1);
	*out = NULL;
	if (!candidates || !drawn)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d blobs", blobs->count);
	memset(drawn, 0, (size_t)c->count);
	if (a->ignore_class) {
		*out = draw_blob(a, blobs, NULL, ndim, candidates, r);
		return STK_OK;
	}
	for (int32_t k; !*out && (k = draw_class(c, drawn, r)) >= 0; drawn[k] = true)
		*out = draw_blob(a, blobs, &c->v[k], ndim, candidates, r);
	return STK_OK;
}

static void write_box(const struct stk_call *call, const struct stk_blob *b, int32_t background)
{
	const struct object_bbox *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	bool one = a->format[0] == 'b', shape = a->format[0] == 'a';
	int32_t *first = call->out[0].data, *second = one ? first + in->ndim : call->out[1].data;
	for (int32_t k = 0; k < in->ndim; k++) {
		int64_t lo = b ? b->lo[k] : 0, hi = b ? b->hi[k] : in->shape[k];
		first[k] = (int32_t)lo;
		second[k] = (int32_t)(shape ? hi - lo : hi);
	}
	if (a->output_class)
		*(int32_t *)call->out[one ? 1 : 2].data = b ? b->label : background;
}

static enum stk_status object_bbox_run(const struct stk_call *call, struct stk_error *err)
{
	const struct object_bbox *a = call->args;
	const struct stk_desc *in = &call->in[0].desc;
	struct stk_random r = call->random;
	struct stk_blobs blobs = {0};
	struct classes c;
	const struct stk_blob *drawn = NULL;
	int64_t n = stk_desc_elements(in);
	bool foreground = stk__random_float(&r) < a->foreground_prob;
	int32_t *labels = stk__arena_take(call->tools->arena, (size_t)n * sizeof *labels + 1);
	enum stk_status s = given_classes(call, &c, err);
	if (s || !labels)
		return s ? s : stk__fail(err, STK_NO_MEMORY, "out of memory for a mask of %lld values", (long long)n);
	int32_t background = background_of(a, &c);
	if (foreground) {
		stk__convert(labels, STK_INT32, call->in[0].data, in->dtype, n);
		s = stk__blobs_find(labels, in, background, !c.v, (struct stk_ints){c.count, c.v}, call->tools->arena, &blobs, err);
		if (!s && !c.v)
			s = found_classes(call, &blobs, &c, err);
		if (s || (s = draw_object(call, &blobs, &c, &r, &drawn, err)))
			return s;
	}
	write_box(call, drawn, background);
	return STK_OK;
}

const struct stk_op_def stk__op_random_object_bbox = {
	.name = "segmentation.random_object_bbox",
	.doc = "Draws an object of a mask and outputs its box.\n\n"
	       "The mask is a tensor of labels, whole numbers of up to 32 bits, of any number of dims. An object is a set of elements "
	       "with one label that are connected, from neighbour to neighbour along dims. If there is no object that is large enough, "
	       "the box is the whole mask. Outputs are int32, one value a dim.",
	.inputs = {1, 1},
	.output_count = object_bbox_outputs,
	.host_inputs = 1,
	.args = object_bbox_args,
	.args_size = sizeof(struct object_bbox),
	.flags = STK_OP_RANDOM,
	.infer = object_bbox_infer,
	.run_cpu = object_bbox_run,
};
