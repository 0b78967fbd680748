/* SPDX-License-Identifier: Apache-2.0
 * Connected parts of a tensor of labels: elements of one label that touch along a dim. */
#ifndef STK_OP_GEOMETRY_BLOBS_H
#define STK_OP_GEOMETRY_BLOBS_H

#include "op/op.h"

struct stk_blob {
	int32_t label;
	int64_t lo[STK_MAX_DIMS], hi[STK_MAX_DIMS]; /* bounding box: it contains indices lo[d] to hi[d] - 1 of dim d */
};

/* The blobs in the order of their first elements. The memory belongs to the arena. */
struct stk_blobs {
	int32_t count;
	struct stk_blob *v;
};
/* Finds the blobs of a mask of labels of shape `desc`: of all labels but `background` if `all` is set, otherwise of those in `wanted`. STK_LIMIT: the mask has
 * more than 2^31 - 1 elements. */
enum stk_status stk__blobs_find(const int32_t *labels, const struct stk_desc *desc, int32_t background, bool all, struct stk_ints wanted,
	struct stk_arena *arena, struct stk_blobs *out, struct stk_error *err);

#endif
