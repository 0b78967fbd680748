/* SPDX-License-Identifier: Apache-2.0 */
#include "op/geometry/canvas.h"

void stk__canvas(const struct stk_affine *rotation, const int64_t *in, int64_t *out)
{
	const double slack = 1e-2; /* rounding errors of a quarter turn must not add a pixel */
	for (int32_t i = 0; i < rotation->ndim; i++) {
		double extent = 0;
		int32_t most = 0;
		for (int32_t k = 0; k < rotation->ndim; k++) {
			extent += fabs(rotation->m[k][i]) * (double)in[k];
			if (fabs(rotation->m[k][i]) > fabs(rotation->m[most][i]))
				most = k;
		}
		out[i] = (int64_t)ceil(extent - slack);
		out[i] += (out[i] ^ in[most]) & 1;
	}
}
