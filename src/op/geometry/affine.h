/* SPDX-License-Identifier: Apache-2.0
 * Affine maps of points, x -> M x + T, which the operators transforms.* make and combine. A map is the matrix [M T]: ndim rows of ndim + 1 values,
 * row by row. */
#ifndef STK_OP_GEOMETRY_AFFINE_H
#define STK_OP_GEOMETRY_AFFINE_H

#include "op/dims.h"

enum { STK_AFFINE_DIMS = 6 };

struct stk_affine {
	int32_t ndim;
	double m[STK_AFFINE_DIMS][STK_AFFINE_DIMS + 1];
};

void stk__affine_identity(struct stk_affine *a, int32_t ndim);

/* Changes the map, whose T must be 0, to M * (x - center) + center. center: ndim values, one for all dims, or none, which stands for 0. Fails with another
 * number of values; the message names the argument as `name`. */
enum stk_status stk__affine_about(struct stk_affine *a, const char *name, struct stk_floats center, struct stk_error *err);

/* Set the map to a rotation about the origin by an angle in radians: in 2 dims, from the x to the y axis; in 3 dims, about `axis`, which must not be 0. */
void stk__affine_rotate_2d(struct stk_affine *a, double angle);
void stk__affine_rotate_3d(struct stk_affine *a, const double axis[3], double angle);

/* Returns value k of an argument that has one value for each dim, or one for all. */
static inline double stk__affine_value(struct stk_floats v, int32_t k)
{
	return (double)v.v[v.count == 1 ? 0 : k];
}

static inline double stk__radians(double degrees)
{
	return degrees * (3.14159265358979323846 / 180);
}

/* ---- operators that make one map ---- */

/* Returns ndim of the map that is the operator's input: 0 if there is no input, -1 if ndim is not known yet. */
int32_t stk__affine_input_dims(const struct stk_call *call);

/* Makes the operator's own map from its arguments. */
typedef enum stk_status (*stk__affine_make)(const struct stk_call *call, struct stk_affine *out, struct stk_error *err);

/* Implement infer and run_cpu: the operator's own map is applied after the input's, or before it if `reverse`. call->state is a struct stk_affine. */
enum stk_status stk__affine_infer(const struct stk_call *call, stk__affine_make make, struct stk_error *err);
void stk__affine_run(const struct stk_call *call, bool reverse);

/* Fails if a tensor with this desc cannot be an affine map. */
enum stk_status stk__affine_check(const struct stk_desc *desc, struct stk_error *err);
void stk__affine_read(const struct stk_tensor *t, struct stk_affine *out);
void stk__affine_write(const struct stk_affine *a, const struct stk_tensor *out);

/* Sets *out to the map that applies `first`, then `second`. */
void stk__affine_then(const struct stk_affine *first, const struct stk_affine *second, struct stk_affine *out);

/* Returns the desc of a map of ndim dims (-1: not known yet). */
struct stk_desc stk__affine_desc(int32_t ndim);

#define STK_AFFINE_REVERSE_ORDER(S)                                                                                                        \
	STK_ARG(S, reverse_order, STK_ARG_BOOL, "false", STK_FREE, 0,                                                                      \
		"The operator's own transform is applied to points first, and the input's after it; false: the other way round.")
#define STK_AFFINE_DOC                                                                                                                        \
	"\n\nThe transform is a float32 matrix of n rows and n + 1 columns, [M T], for points (x, y, ...) of n = 1 to 6 components. It maps " \
	"p to M p + T; coord_transform and warp_affine take such matrices. With an input, which is such a matrix, the result is "             \
	"both transforms one after the other."

#endif
