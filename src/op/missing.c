/* SPDX-License-Identifier: Apache-2.0
 * Messages for names that no operator has. They say whether DALI has an operator of that name, what another library's operator is called here, or which
 * name is nearest, in case of a typing error. */
#include "op/op.h"

#include "base/text.h"
#include "stoker/catalog.h"

#include <stdio.h>
#include <string.h>

static const char *const dali_names[] = {
#include "op/dali_names.h"
};

static const char *next_name(const void *from, size_t i)
{
	(void)from;
	if (i < stk__op_total)
		return stk__ops[i]->flags & STK_OP_HIDDEN ? "" : stk__ops[i]->name;
	return NULL;
}

/* Advice for operators of DALI that have no equivalent here. */
static const struct {
	const char *names, *advice; /* names: separated by spaces, with a space before the first and after the last */
} dali_advice[] = {
	{" video_reader_resize ", "it is readers.video_resize now"},
	{" readers.sequence sequence_reader ",
		"make a video of the images and read it with readers.video, or stack images in Python and hand them in by external_source"},
	{" optical_flow ", "compute the flow in the training loop, or in Python and hand it in by external_source"},
	{" caffe2_reader caffe_reader experimental.readers.fits mxnet_reader readers.caffe readers.caffe2 readers.mxnet ",
		"write the data set as images in folders and read it with readers.file, or read it in Python and hand it in by external_source"},
	{" ssd_random_crop ", "random_bbox_crop gives a window and its boxes, and slice takes it"},
	{" experimental.numba_function numba_function ",
		"python_function takes a function that numba has compiled; with nogil=True several run at once"},
	{" dump_image ", "save what a batch holds, after Pipeline.run"},
};

static const char *advice_for(const char *name)
{
	char wanted[64];
	snprintf(wanted, sizeof wanted, " %s ", name);
	for (size_t i = 0; i < sizeof dali_advice / sizeof *dali_advice; i++)
		if (strstr(dali_advice[i].names, wanted))
			return dali_advice[i].advice;
	return NULL;
}

/* Names of DALI that only the Python package has, and what each stands for. */
static const char *const python_names[][2] = {
	{"coco_reader", "readers.coco"},
	{"dl_tensor_python_function", "python_function, called with tensors of DLPack"},
	{"experimental.decoders.image", "decoders.image"},
	{"experimental.decoders.image_crop", "decoders.image_crop"},
	{"experimental.decoders.image_random_crop", "decoders.image_random_crop"},
	{"experimental.decoders.image_slice", "decoders.image_slice"},
	{"experimental.inflate", "decoders.inflate"},
	{"experimental.inputs.video", "external_source, then decoders.video"},
	{"experimental.peek_image_shape", "peek_image_shape"},
	{"experimental.resize", "resize"},
	{"experimental.tensor_resize", "tensor_resize"},
	{"fast_resize_crop_mirror", "resize_crop_mirror"},
	{"readers.video_resize", "readers.video, then resize"},
	{"tfrecord_reader", "readers.tfrecord"},
	{"transform_translation", "transforms.translation"},
};

/* Returns what a name that only the Python package has stands for, or NULL if it is no such name. */
static const char *meaning_in_python(const char *name)
{
	for (size_t i = 0; i < sizeof python_names / sizeof *python_names; i++)
		if (strcmp(python_names[i][0], name) == 0)
			return python_names[i][1];
	return NULL;
}

/* Returns what an operator that another library calls `name` is called here, or NULL if no such operator is known. */
static const char *other_name(const char *name)
{
	static const char *const names[][2] = {{"reductions.avg", "reductions.mean"}, {"reductions.average", "reductions.mean"},
		{"reductions.std", "reductions.std_dev"}, {"reductions.stddev", "reductions.std_dev"},
		{"reductions.var", "reductions.variance"}, {"concat", "cat"}, {"concatenate", "cat"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i][0], name) == 0)
			return names[i][1];
	return NULL;
}

/* Returns whether DALI has an operator called `name`. group: returns instead whether the name of an operator begins with `name` and a dot, as "readers.file"
 * begins with "readers.". */
static bool dali_has(const char *name, bool group)
{
	size_t n = strlen(name);
	for (size_t i = 0; i < sizeof dali_names / sizeof *dali_names; i++)
		if (strncmp(dali_names[i], name, n) == 0 && dali_names[i][n] == (group ? '.' : '\0'))
			return true;
	return false;
}

void stk_op_explain_missing(const char *name, char *text, size_t capacity)
{
	if (!text || !capacity)
		return;
	name = name ? name : "";
	const char *alias = other_name(name), *nearest = alias ? alias : stk__nearest(name, next_name, NULL), *advice = advice_for(name);
	const char *meaning = meaning_in_python(name);
	if (meaning)
		snprintf(text, capacity, "%s is %s; only Python has this name, as stoker.fn.%s", name, meaning, name);
	else if (advice)
		snprintf(text, capacity, "%s exists in DALI, not in Stoker: %s", name, advice);
	else if (dali_has(name, false))
		snprintf(text, capacity, "%s exists in DALI, not in Stoker yet%s%s", name, nearest ? "; nearest: " : "",
			nearest ? nearest : "");
	else if (dali_has(name, true))
		snprintf(text, capacity, "%s is a group of operators, not one; `stoker ops` lists what there is", name);
	else if (nearest && *nearest)
		snprintf(text, capacity, "there is no operator \"%s\"; did you mean \"%s\"?", name, nearest);
	else
		snprintf(text, capacity, "there is no operator \"%s\"; `stoker ops` lists them", name);
}
