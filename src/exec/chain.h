/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the operators of a chain for one sample, on one worker. Call all functions without the pipeline's lock.
 *
 *   chain.c     runs all operators of one chain for one sample
 *   call.c      prepares the call of one operator, and places its outputs in memory
 *   by_frame.c  runs an operator once for each frame of a sequence
 *   pass.c      runs a group of operators that make one pass over an image */
#ifndef STK_EXEC_CHAIN_H
#define STK_EXEC_CHAIN_H

#include "exec/exec.h"

enum stk_status stk__chain_run(struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_record *r, const struct stk_chain *chain,
	int32_t level, int32_t index, int32_t sample, struct stk_error *err);
/* Ends a sample's use of the worker: frees its scratch memory, and drops the index of its video. */
void stk__worker_end_sample(struct stk_exec_worker *w);
/* Runs the gather of `node`: the part of an operator that needs all samples of the batch at once. *blamed: set to the index of the sample that caused a
 * failure, or -1. */
enum stk_status stk__gather_run(
	struct stk_pipeline *p, struct stk_exec_worker *w, struct stk_record *r, int32_t node, int32_t *blamed, struct stk_error *err);

struct stk_chain_run {
	struct stk_pipeline *pipeline;
	struct stk_exec_worker *worker;
	struct stk_record *record;
	int32_t level, chain, sample;
	int32_t frame; /* used by by_frame.c: 1 + index of the frame for which an operator runs; otherwise 0 */
	const struct stk_desc *
		common; /* the description that each frame's output should have, which operators get as call->frame; NULL: not known, or `frame` is 0 */
};
enum stk_status stk__call_prepare(const struct stk_chain_run *run, int32_t node, struct stk_call *call, struct stk_error *err);
/* Runs the operator's infer, then those checks of its arguments that need the types of the outputs. */
enum stk_status stk__call_infer(const struct stk_chain_run *run, int32_t node, struct stk_call *call, struct stk_error *err);
enum stk_status stk__value_place(const struct stk_chain_run *run, int32_t value, struct stk_error *err);
/* Sets *taken to whether the sample takes the branches of these conditions. */
enum stk_status stk__branch_taken(
	const struct stk_chain_run *run, const struct stk_program_condition *when, int32_t n_when, bool *taken, struct stk_error *err);
/* Returns the value to whose memory in the slot this value is written: the merged value if the sample takes this value's branch, otherwise the value itself. */
int32_t stk__value_destination(const struct stk_chain_run *run, int32_t value);
enum stk_status stk__pass_group_run(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err);
/* by_frame.c: functions for operators that run once for each frame of a sequence. stk__by_frame_infer describes the output of all frames together and
 * counts the frames. stk__by_frame_cores runs all frames on the CPU and stores the results in `out`, which has memory for them. stk__by_frame_run does
 * both. */
enum stk_status stk__by_frame_infer(
	const struct stk_chain_run *run, int32_t node, struct stk_desc *out, int64_t *frames, struct stk_error *err);
enum stk_status stk__by_frame_cores(const struct stk_chain_run *run, int32_t node, const struct stk_tensor *out, struct stk_error *err);
enum stk_status stk__by_frame_run(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err);
/* Returns a view of frame k of `out`, which holds the output of all frames. */
struct stk_tensor stk__by_frame_part(const struct stk_tensor *out, int64_t k);
/* Returns whether the operator runs as a pass over the frame of this call. */
bool stk__by_frame_passes(const struct stk_call *frame);
/* Returns whether a pass can process this node's input; otherwise the node runs as a single operator. Looks at the sample's input only if the graph does not
 * know the input's type and dims. */
bool stk__pass_serves(const struct stk_chain_run *run, int32_t index);
/* Returns the error for a group on the GPU whose first operator cannot process this input in a pass. */
STK_MUST_USE enum stk_status stk__pass_group_refuse(const struct stk_chain_run *run, const struct stk_group *group, struct stk_error *err);

/* A group's pass for one sample's image. stk__pass_group_infer infers the operators and computes the pass. stk__pass_group_lower computes the pass of
 * another plane. stk__pass_group_cores runs the pass on the CPU. */
struct stk_pass_group {
	const struct stk_group *group;
	struct stk_call *calls; /* one call for each operator, already inferred; memory of the worker */
	struct stk_frames src;  /* the input image; for a decoder, the whole image of the file, without data */
	struct stk_pass pass;   /* if `planes`: the pass of the plane that was lowered last */
	int32_t value;          /* program value that is the group's output */
	bool stream;            /* true if stores bypass the caches */
	bool planes;            /* true if each channel has its own pass: for planar images, and for more channels than a pass supports */
};
enum stk_status stk__pass_group_infer(
	const struct stk_chain_run *run, const struct stk_group *group, struct stk_pass_group *g, struct stk_error *err);
enum stk_status stk__pass_group_lower(struct stk_pass_group *g, int32_t plane, struct stk_error *err);
enum stk_status stk__pass_group_cores(
	const struct stk_chain_run *run, struct stk_pass_group *g, const struct stk_tensor *out, struct stk_error *err);

#endif
