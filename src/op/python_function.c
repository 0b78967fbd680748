/* SPDX-License-Identifier: Apache-2.0
 * python_function: calls a user's function with the inputs of a sample or of a batch, and outputs what it returns. The returned tensors are copied at once,
 * so that the user may release their memory after the call. */
#include "op/op.h"

#include <string.h>

struct python_function {
	int64_t num_outputs;
	bool batch_processing;
	struct stk_strings output_layouts;
};

static const struct stk_arg_def python_function_args[] = {
	STK_ARG(struct python_function, num_outputs, STK_ARG_INT, "1", (1, STK_MAX_OUTPUTS), 0,
		"Number of tensors that the function "
		"returns."),
	STK_ARG(struct python_function, batch_processing, STK_ARG_BOOL, "false", STK_FREE, 0,
		"Calls the function once for each batch, with a list of samples for each input; the function returns lists."),
	STK_ARG(struct python_function, output_layouts, STK_ARG_STRINGS, NULL, STK_FREE, STK_SCALAR_OK,
		"Layouts of the outputs, from the first one on; further outputs have none."),
	STK_ARG_END,
};

static int32_t python_function_outputs(const void *args)
{
	const struct python_function *a = args;
	return (int32_t)a->num_outputs;
}

static const char *layout_of(const struct python_function *a, int32_t output)
{
	return output < a->output_layouts.count ? a->output_layouts.v[output] : "";
}

/* Fails unless a result of the user's function is a valid tensor with the number of dims of the declared layout. */
static enum stk_status check_result(const struct python_function *a, int32_t output, const struct stk_tensor *t, struct stk_error *err)
{
	const char *layout = layout_of(a, output);
	if (t->desc.dtype < 0 || t->desc.dtype >= STK_DTYPE_COUNT || t->desc.ndim < 0 || t->desc.ndim > STK_MAX_DIMS)
		return stk__fail(err, STK_USER, "output %d has an unknown type, or %d dims", output, t->desc.ndim);
	if (layout[0] && strlen(layout) != (size_t)t->desc.ndim)
		return stk__fail(err, STK_USER, "output %d has %d dims, and the layout \"%s\"", output, t->desc.ndim, layout);
	if (stk_desc_bytes(&t->desc) < 0 || (stk_desc_bytes(&t->desc) > 0 && !t->data))
		return stk__fail(err, STK_USER, "output %d has an impossible shape, or no data", output);
	return STK_OK;
}

/* Returns the result `t` with the declared layout; the data are not copied. */
static struct stk_tensor result_of(const struct python_function *a, int32_t output, const struct stk_tensor *t)
{
	struct stk_tensor out = *t;
	memset(out.desc.layout, 0, sizeof out.desc.layout);
	memcpy(out.desc.layout, layout_of(a, output), strlen(layout_of(a, output)));
	return out;
}

/* Calls the user's function for n samples. STK_USER: it failed, or returned something that is not valid. STK_IO, STK_NO_MEMORY: it reported that. After
 * success, the caller must call feed->release when it no longer needs the results; if feed->release is NULL, there is nothing to call. */
static enum stk_status call_user(
	const struct stk_call *calls, int32_t n, struct stk_feed *feed, const struct stk_feed_request *request, struct stk_error *err)
{
	const struct python_function *a = calls[0].args;
	feed->count = n;
	enum stk_status s = calls[0].user->pull(calls[0].user->user, request, feed, err);
	if (s) {
		s = s == STK_END ? STK_USER : stk__status_of_pull(s);
		if (err && !err->message[0])
			return stk__fail(err, s, "the function failed without saying why");
		if (err)
			err->code = s;
		return s;
	}
	if (feed->count != n)
		s = stk__fail(err, STK_USER, "the function returned %d samples; the batch has %d", feed->count, n);
	for (int32_t o = 0; o < (int32_t)a->num_outputs && s == STK_OK; o++)
		for (int32_t i = 0; i < n && s == STK_OK; i++)
			s = check_result(a, o, &feed->tensors[o * n + i], err);
	if (s && feed->release)
		feed->release(feed->release_user);
	return s;
}

static enum stk_status run_sample(const struct stk_call *call, struct stk_error *err)
{
	struct stk_tensor *results = stk__arena_take(call->tools->arena, (size_t)call->n_out * sizeof *results);
	if (!results)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %d outputs", call->n_out);
	memset(results, 0, (size_t)call->n_out * sizeof *results);
	struct stk_feed feed = {.tensors = results};
	const struct stk_feed_request request = {.epoch = call->place.epoch,
		.index = call->index,
		.count = 1,
		.position = call->place.position,
		.inputs = call->in,
		.n_inputs = call->n_in};
	enum stk_status s = call_user(call, 1, &feed, &request, err);
	if (s)
		return s;
	for (int32_t o = 0; o < call->n_out && s == STK_OK; o++) {
		size_t bytes = (size_t)stk_desc_bytes(&results[o].desc);
		call->out[o] = result_of(call->args, o, &results[o]);
		call->out[o].data = stk__arena_take(call->tools->arena, bytes ? bytes : 1);
		if (!call->out[o].data)
			s = stk__fail(err, STK_NO_MEMORY, "out of memory for an output of %zu bytes", bytes);
		else if (bytes)
			memcpy(call->out[o].data, results[o].data, bytes);
	}
	if (feed.release)
		feed.release(feed.release_user);
	return s;
}

/* ---- called for a whole batch ---- */

static bool python_function_gathers(const struct stk_call *call)
{
	return ((const struct python_function *)call->args)->batch_processing;
}

static size_t aligned(size_t bytes)
{
	return (bytes + STK_CACHE_LINE - 1) / STK_CACHE_LINE * STK_CACHE_LINE;
}

/* Copies the results to *out: an array of tensors, indexed by sample, then by output, followed by their bytes. */
static enum stk_status keep_results(
	const struct stk_call *calls, int32_t count, const struct stk_tensor *results, struct stk_gathered *out, struct stk_error *err)
{
	const struct python_function *a = calls[0].args;
	int32_t n_out = (int32_t)a->num_outputs;
	size_t head = aligned(((size_t)calls[count - 1].index + 1) * (size_t)n_out * sizeof(struct stk_tensor)), size = head;
	for (int32_t k = 0; k < n_out * count; k++)
		size += aligned((size_t)stk_desc_bytes(&results[k].desc));
	struct stk_tensor *kept = stk__gathered_take(out, size);
	if (!kept)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a batch's outputs of %zu bytes", size);
	uint8_t *at = (uint8_t *)kept + head;
	for (int32_t o = 0; o < n_out; o++)
		for (int32_t i = 0; i < count; i++) {
			const struct stk_tensor *r = &results[o * count + i];
			size_t bytes = (size_t)stk_desc_bytes(&r->desc);
			struct stk_tensor *t = &kept[calls[i].index * n_out + o];
			*t = result_of(a, o, r);
			t->data = at;
			if (bytes)
				memcpy(at, r->data, bytes);
			at += aligned(bytes);
		}
	return STK_OK;
}

static enum stk_status python_function_gather(const struct stk_call *calls, int32_t count, struct stk_gathered *out, struct stk_error *err)
{
	const struct python_function *a = calls[0].args;
	int32_t n_in = calls[0].n_in;
	struct stk_tensor *inputs = stk__arena_take(calls[0].tools->arena, (size_t)(n_in * count) * sizeof *inputs);
	struct stk_tensor *results = stk__arena_take(calls[0].tools->arena, (size_t)(a->num_outputs * count) * sizeof *results);
	if (!inputs || !results)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a batch's scratch");
	for (int32_t k = 0; k < n_in; k++)
		for (int32_t i = 0; i < count; i++)
			inputs[k * count + i] = calls[i].in[k];
	struct stk_feed feed = {.tensors = results};
	const struct stk_feed_request request = {.epoch = calls[0].place.epoch,
		.index = -1,
		.count = count,
		.position = calls[0].place.position,
		.inputs = inputs,
		.n_inputs = n_in};
	enum stk_status s = call_user(calls, count, &feed, &request, err);
	if (s)
		return s;
	s = keep_results(calls, count, results, out, err);
	if (feed.release)
		feed.release(feed.release_user);
	return s;
}

static enum stk_status python_function_infer(const struct stk_call *call, struct stk_error *err)
{
	const struct python_function *a = call->args;
	if (a->output_layouts.count > (int32_t)a->num_outputs)
		return stk__fail(err, STK_INVALID, "output_layouts has %d values for %lld outputs", a->output_layouts.count,
			(long long)a->num_outputs);
	if (a->batch_processing && !call->n_in)
		return stk__fail(err, STK_INVALID, "batch_processing needs an input, whose samples make the batch");
	if (call->tools && !a->batch_processing)
		return run_sample(call, err);
	for (int32_t o = 0; o < call->n_out; o++) {
		if (call->tools) {
			call->out[o] = ((const struct stk_tensor *)call->gathered)[call->index * call->n_out + o];
			continue;
		}
		struct stk_desc *d = &call->out[o].desc;
		const char *layout = layout_of(a, o);
		size_t letters = strlen(layout);
		if (letters > STK_MAX_DIMS)
			return stk__fail(err, STK_INVALID, "the layout \"%s\" names more than %d dims", layout, STK_MAX_DIMS);
		*d = (struct stk_desc){.dtype = STK_NO_DTYPE, .ndim = letters ? (int32_t)letters : -1};
		memcpy(d->layout, layout, letters);
		for (int32_t k = 0; k < d->ndim; k++)
			d->shape[k] = -1;
	}
	return STK_OK;
}

const struct stk_op_def stk__op_python_function = {
	.name = "python_function",
	.doc = "Calls a user's function with each sample, or with a whole batch, on the CPU.\n\n"
	       "In C, stk_graph_set_source sets the function; in Python, the argument `function`. Calls come from several threads, in "
	       "no particular order.",
	.inputs = {0, STK_MAX_INPUTS},
	.output_count = python_function_outputs,
	.args = python_function_args,
	.args_size = sizeof(struct python_function),
	.flags = STK_OP_FUNCTION | STK_OP_GATHERS_DATA,
	.infer = python_function_infer,
	.gather = python_function_gather,
	.gathers = python_function_gathers,
};
