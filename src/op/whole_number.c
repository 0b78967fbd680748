/* SPDX-License-Identifier: Apache-2.0
 * _whole_number: reads a label that a Loader finds as text in a file. */
#include "op/op.h"

#include "base/error.h"
#include "format/number.h"

#include <string.h>

static const struct stk_arg_def whole_number_args[] = {STK_ARG_END};

static enum stk_status whole_number_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct stk_desc *in = &call->in[0].desc;
	if ((in->ndim >= 0 && in->ndim != 1) || (in->dtype != STK_NO_DTYPE && in->dtype != STK_UINT8))
		return stk__fail(err, STK_INVALID, "the input must be a text, a uint8 tensor of 1 dim");
	call->out[0].desc = (struct stk_desc){.dtype = STK_INT64};
	return STK_OK;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static enum stk_status whole_number_run(const struct stk_call *call, struct stk_error *err)
{
	const char *text = call->in[0].data, *at = text, *end = text + call->in[0].desc.shape[0];
	int64_t value = 0;
	while (at < end && is_blank(*at))
		at++;
	bool negative = at < end && *at == '-';
	at += negative;
	bool ok = stk__take_number(&at, end, &value);
	while (at < end && is_blank(*at))
		at++;
	if (!ok || at != end)
		return stk__fail(
			err, STK_CORRUPT, "the label \"%.*s\" is not a whole number", (int)(end - text < 40 ? end - text : 40), text);
	*(int64_t *)call->out[0].data = negative ? -value : value;
	return STK_OK;
}

const struct stk_op_def stk__op_whole_number = {
	.name = "_whole_number",
	.doc = "Reads a whole number from a text, without the blanks around it.",
	.inputs = {1, 1},
	.host_inputs = 1,
	.args = whole_number_args,
	.flags = STK_OP_HIDDEN,
	.infer = whole_number_infer,
	.run_cpu = whole_number_run,
};
