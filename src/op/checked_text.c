/* SPDX-License-Identifier: Apache-2.0
 * _checked_text: checks texts and JSON for a Loader before Python reads them. */
#include "op/op.h"

#include "base/error.h"
#include "format/text_check.h"

#include <string.h>

struct checked_text {
	const char *kind;
};

static const struct stk_arg_def checked_text_args[] = {
	{.name = "kind",
		.type = STK_ARG_STRING,
		.offset = offsetof(struct checked_text, kind),
		.flags = STK_REQUIRED,
		.choices = "text|json",
		.doc = "The format that the bytes must have."},
	STK_ARG_END,
};

/* Fails if the n bytes are not valid UTF-8, or not valid JSON if a->kind is "json". An empty text stands for a missing component and is accepted. */
static enum stk_status check(const struct checked_text *a, const char *text, size_t n, struct stk_error *err)
{
	size_t at = 0;
	bool json = strcmp(a->kind, "json") == 0;
	const char *wrong = n == 0 ? NULL : json ? stk__json_check(text, n, &at) : stk__utf8_check(text, n, &at);
	return wrong ? stk__fail(err, STK_CORRUPT, "the %s cannot be read: %s, at byte %zu of it", json ? "JSON" : "text", wrong, at)
		     : STK_OK;
}

/* Makes the output a view of the input, and fails unless its bytes are valid, so that run has nothing to do. */
static enum stk_status checked_text_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	if ((in->ndim >= 0 && in->ndim != 1) || (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8))
		return stk__fail(err, STK_INVALID, "the input must be a text, a uint8 tensor of 1 dim");
	call->out[0].desc = *in;
	call->out[0].data = call->in[0].data;
	return call->in[0].data ? check(call->args, call->in[0].data, (size_t)in->shape[0], err) : STK_OK;
}

static enum stk_status checked_text_run(const struct stk_call *call, struct stk_error *err)
{
	(void)call, (void)err;
	return STK_OK;
}

const struct stk_op_def stk__op_checked_text = {
	.name = "_checked_text",
	.doc = "Passes on a text unchanged, after checking that it is UTF-8 or JSON.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = checked_text_args,
	.args_size = sizeof(struct checked_text),
	.flags = STK_OP_HIDDEN,
	.infer = checked_text_infer,
	.run_cpu = checked_text_run,
};
