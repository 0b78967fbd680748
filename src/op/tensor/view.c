/* SPDX-License-Identifier: Apache-2.0 */
#include "op/tensor/view.h"

#include "kernel/copy/copy.h"

enum stk_status stk__view_lower_jobs(const struct stk_call *call, struct stk_jobs *jobs, struct stk_error *err)
{
	const struct stk_tensor bytes = {call->in[0].data, {STK_UINT8, 1, {stk_desc_bytes(&call->in[0].desc)}, ""}};
	const struct stk_tensor to = {call->out[0].data, bytes.desc};
	return stk__job_copy_all(jobs, &bytes, &to, false, err);
}
