/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs an operator once for each frame of its sequences, because an argument, or an input of def->frame_inputs, is given for each frame. The frames' outputs
 * must agree in type and shape, since they are stored one after the other. */
#include "exec/chain.h"

#include "op/dims.h"

#include <string.h>

static enum stk_status count_frames(
	const struct stk_chain_run *run, const struct stk_program_node *n, int64_t *count, struct stk_error *err)
{
	const struct stk_tensor *values = run->worker->values;
	enum stk_status s = STK_OK;
	*count = -1;
	for (int32_t k = 0; k < n->node->n_inputs && s == STK_OK; k++) {
		struct stk_desc d = values[n->inputs[k]].desc;
		if (k == 0) {
			stk__layout_name(n->def, &d);
			s = stk__check_sequence(n->def, &d, err);
		}
		s = s ? s : stk__count_frames(&d, "an input", count, err);
	}
	for (int32_t k = 0; k < n->node->n_varying && s == STK_OK; k++)
		s = stk__count_frames(&values[n->varying[k].value].desc, n->varying[k].def.name, count, err);
	if (s == STK_OK && *count < 1)
		return stk__fail(err, STK_SHAPE, "the sequence has no frames, but arguments are given for each frame");
	return s;
}

/* Raises each extent of `most` to the extent of `d` if that is larger. Returns whether the two differ in type, dims or extents. */
static bool differs(struct stk_desc *most, const struct stk_desc *d)
{
	bool other = d->dtype != most->dtype || d->ndim != most->ndim;
	for (int32_t i = 0; i < d->ndim && i < most->ndim; i++) {
		other |= d->shape[i] != most->shape[i];
		most->shape[i] = d->shape[i] > most->shape[i] ? d->shape[i] : most->shape[i];
	}
	return other;
}

static enum stk_status prepare(const struct stk_chain_run *frame, int32_t node, struct stk_call *call, struct stk_error *err)
{
	enum stk_status s = stk__call_prepare(frame, node, call, err);
	return s ? s : stk__call_infer(frame, node, call, err);
}

/* Infers the operator for every frame. common: the description that each frame's output should have; NULL if it is not known yet. *most: set to type and
 * dims of the first frame's output, with the largest extents of all frames. *differ: set to whether the outputs of two frames differ in type, dims or
 * extents. */
static enum stk_status infer_all(const struct stk_chain_run *run, const struct stk_desc *common, int32_t node, int64_t frames,
	struct stk_desc *most, bool *differ, struct stk_error *err)
{
	struct stk_chain_run frame = *run;
	struct stk_call call;
	frame.common = common;
	*differ = false;
	for (int64_t k = 0; k < frames; k++) {
		frame.frame = (int32_t)k + 1;
		enum stk_status s = prepare(&frame, node, &call, err);
		if (s)
			return s;
		*most = k ? *most : call.out[0].desc;
		*differ |= differs(most, &call.out[0].desc);
	}
	return STK_OK;
}

enum stk_status stk__by_frame_infer(
	const struct stk_chain_run *run, int32_t node, struct stk_desc *out, int64_t *frames, struct stk_error *err)
{
	bool differ;
	enum stk_status s = count_frames(run, &run->pipeline->program->nodes[node], frames, err);
	if (s || (s = infer_all(run, NULL, node, *frames, out, &differ, err)))
		return s;
	if (differ) {
		const struct stk_desc common = *out;
		s = infer_all(run, &common, node, *frames, out, &differ, err);
	}
	if (s == STK_OK && differ)
		return stk__fail(err, STK_SHAPE,
			"the arguments give the frames outputs of different shapes; all frames of a sequence must have the same shape");
	return s ? s : stk__sequence_of_frames(out, *frames, err);
}

struct stk_tensor stk__by_frame_part(const struct stk_tensor *out, int64_t k)
{
	struct stk_tensor t = *out;
	stk__frame_of_sequence(&t, k);
	return t;
}

bool stk__by_frame_passes(const struct stk_call *frame)
{
	const struct stk_op_def *def = frame->def;
	return def->lower && stk__lowers(def, &frame->in[0].desc) &&
	       stk__op_classes(def, frame->args, &frame->in[0].desc) != STK_CLASS_NEVER;
}

static enum stk_status run_one(const struct stk_chain_run *frame, int32_t node, struct stk_tensor *out, struct stk_error *err)
{
	struct stk_call call;
	struct stk_pass_group g;
	const struct stk_group group = {.nodes = &node, .count = 1, .pass = true, .step = -1, .image_step = -1};
	enum stk_status s = prepare(frame, node, &call, err);
	if (s)
		return s;
	if (!stk__by_frame_passes(&call)) {
		call.out = out;
		return stk__op_run(&call, err);
	}
	s = stk__pass_group_infer(frame, &group, &g, err);
	return s ? s : stk__pass_group_cores(frame, &g, out, err);
}

enum stk_status stk__by_frame_cores(const struct stk_chain_run *run, int32_t node, const struct stk_tensor *out, struct stk_error *err)
{
	struct stk_chain_run frame = *run;
	enum stk_status s = STK_OK;
	for (int64_t k = 0; k < out->desc.shape[0] && s == STK_OK; k++) {
		struct stk_tensor part = stk__by_frame_part(out, k);
		const struct stk_desc common = part.desc;
		frame.frame = (int32_t)k + 1;
		frame.common = &common;
		s = run_one(&frame, node, &part, err);
	}
	return s;
}

enum stk_status stk__by_frame_run(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err)
{
	int32_t node = group->nodes[0], value = run->pipeline->program->nodes[node].first_value;
	struct stk_tensor out = {0};
	int64_t frames;
	enum stk_status s = stk__by_frame_infer(run, node, &out.desc, &frames, err);
	if (s)
		return s;
	run->worker->values[value] = out;
	if ((s = stk__value_place(run, value, err)))
		return s;
	out = run->worker->values[value];
	s = stk__by_frame_cores(run, node, &out, err);
	run->worker->values[value] = out; /* restores the entry, which the calls for single frames have overwritten */
	return s;
}
