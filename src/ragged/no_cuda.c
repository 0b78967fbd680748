/* SPDX-License-Identifier: Apache-2.0
 * The CUDA side of a build without nvcc: no handle for a CUDA device can be made, so nothing else is reached. */
#include "ragged/ragged.h"

#include "base/error.h"

#include <assert.h>

enum stk_status stk__cuda_create(struct stk_ragged *r, struct stk_error *err)
{
	return stk__fail(err, STK_UNSUPPORTED, "CUDA device %d: this build has no CUDA kernels (no nvcc when it was made)", r->device);
}

void stk__cuda_destroy(struct stk_ragged_cuda *c)
{
	(void)c;
}

size_t stk__cuda_assign_workspace(const struct stk_assign *a)
{
	(void)a;
	return 0;
}

#define NEVER(name, ...)                                                                                                                   \
	enum stk_status name(__VA_ARGS__, void *stream, struct stk_error *err)                                                             \
	{                                                                                                                                  \
		(void)r, (void)stream;                                                                                                     \
		assert(!"no handle for a CUDA device exists in this build");                                                               \
		return stk__fail(err, STK_UNSUPPORTED, "this build has no CUDA kernels");                                                  \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
NEVER(stk__cuda_gather, struct stk_ragged *r, const struct stk_gather *g)
NEVER(stk__cuda_scatter, struct stk_ragged *r, const struct stk_scatter *s)
NEVER(stk__cuda_scatter_add, struct stk_ragged *r, const struct stk_scatter_add *s)
NEVER(stk__cuda_keep, struct stk_ragged *r, const struct stk_keep *k)
NEVER(stk__cuda_mask_to_index, struct stk_ragged *r, const struct stk_mask *m)
NEVER(stk__cuda_index_to_mask, struct stk_ragged *r, int64_t batch, int64_t items, const struct stk_indices *index, uint8_t *mask, uint64_t *refused)
NEVER(stk__cuda_assign, struct stk_ragged *r, const struct stk_assign *a)
NEVER(stk__cuda_cost, struct stk_ragged *r, const struct stk_cost *c)
NEVER(stk__cuda_heatmap, struct stk_ragged *r, const struct stk_heatmap *h)
