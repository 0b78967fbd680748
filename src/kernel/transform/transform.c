/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/transform/transform.h"

#include <math.h>

void stk__transform_matrix(struct stk_transform *t, const double m[6])
{
	double one = ldexp(1, stk__transform_bits(t));
	for (int row = 0; row < 6; row += 3) {
		t->m[row] = (int64_t)floor(m[row] * one + 0.5);
		t->m[row + 1] = (int64_t)floor(m[row + 1] * one + 0.5);
		t->m[row + 2] = (int64_t)floor((m[row + 2] + m[row] * 0.5 + m[row + 1] * 0.5) * one + 0.5);
	}
}
