/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/equalize/lab.h"

#include "base/math.h"

#include <math.h>

static double power(double x, double y)
{
	return x > 0 ? stk__exp(y * stk__log(x)) : 0;
}

void stk__lab_tables_init(struct stk_lab_tables *t)
{
	for (int i = 0; i < 256; i++) {
		double v = i / 255., l = i * 100 / 255., y = l <= 8 ? l / 903.3 : power((l + 16) / 116, 3);
		t->light[i] = (uint16_t)rint(255 * 8 * (v <= 0.04045 ? v / 12.92 : power((v + 0.055) / 1.055, 2.4)));
		t->y[i] = (int16_t)rint(16384 * y);
		t->fy[i] = (int16_t)rint(16384 * (l <= 8 ? 7.787 * y + 16 / 116. : (l + 16) / 116));
	}
	for (int i = 0; i < STK_LAB_ROOTS; i++) {
		double v = i / (255. * 8);
		t->root[i] = (uint16_t)rint(32768 * (v < 0.008856 ? v * 7.787 + 0.13793103448275862 : power(v, 1 / 3.)));
	}
	for (int i = 0; i < STK_LAB_LIGHTS; i++) {
		double v = i / (double)STK_LAB_LIGHTS;
		t->srgb[i] = (uint8_t)rint(255 * (v <= 0.0031308 ? v * 12.92 : 1.055 * power(v, 1 / 2.4) - 0.055));
	}
}
