/* SPDX-License-Identifier: Apache-2.0
 * get_property: outputs a property of a tensor, such as its source or its layout. */
#include "op/op.h"

#include <string.h>

struct get_property {
	const char *key;
};

static const struct stk_arg_def get_property_args[] = {
	{.name = "key",
		.type = STK_ARG_STRING,
		.flags = STK_REQUIRED,
		.offset = offsetof(struct get_property, key),
		.choices = "source_info|layout",
		.doc = "Name of the property: \"source_info\" is the source of the sample, as errors name it (the path of its file), "
		       "\"layout\" the tensor's layout."},
	STK_ARG_END,
};

static const char *property(const struct stk_call *call)
{
	const struct get_property *a = call->args;
	return strcmp(a->key, "layout") == 0 ? call->in[0].desc.layout : call->uri;
}

static enum stk_status get_property_infer(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	int64_t length = call->tools ? (int64_t)strlen(property(call)) : -1;
	call->out[0].desc = (struct stk_desc){STK_UINT8, 1, {length}, ""};
	return STK_OK;
}

static enum stk_status get_property_run(const struct stk_call *call, struct stk_error *err)
{
	(void)err;
	memcpy(call->out[0].data, property(call), (size_t)call->out[0].desc.shape[0]);
	return STK_OK;
}

const struct stk_op_def stk__op_get_property = {
	.name = "get_property",
	.doc = "Outputs a property of tensors as text: the bytes of a string, as uint8.\n\n"
	       "The source of a tensor is the sample of the reader from which it was made, or else the sample of the leading reader; "
	       "without a reader the text is\n"
	       "empty.",
	.inputs = {1, 1},
	.args = get_property_args,
	.args_size = sizeof(struct get_property),
	.flags = STK_OP_DESCRIBES | STK_OP_NAMES,
	.infer = get_property_infer,
	.run_cpu = get_property_run,
};
