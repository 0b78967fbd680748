/* SPDX-License-Identifier: Apache-2.0
 * Upsampling and colour conversion in plain C. The filters are libjpeg's triangle filters: an upsampled sample is 3/4 of the nearest input sample plus 1/4
 * of the second nearest, along each axis. Roundings alternate: +1 and +2 before dividing by 4, or +8 and +7 before dividing by 16. Colour is converted with
 * JFIF's formulas for YCbCr to RGB and 16 bits of fraction. */
#include "kernel/jpeg/jpeg_kernels.h"

#include <string.h>

void stk__jpeg_upsample_h2v1_c(uint8_t *dst, const uint8_t *src, int n)
{
	for (int i = 0; i < n; i++) {
		dst[2 * i] = (uint8_t)((3 * src[i] + src[i - 1] + 1) >> 2);
		dst[2 * i + 1] = (uint8_t)((3 * src[i] + src[i + 1] + 2) >> 2);
	}
}

void stk__jpeg_upsample_h2v2_c(uint8_t *dst, const uint8_t *near, const uint8_t *far, int n)
{
	int left = 3 * near[-1] + far[-1], here = 3 * near[0] + far[0];
	for (int i = 0; i < n; i++) {
		int right = 3 * near[i + 1] + far[i + 1];
		dst[2 * i] = (uint8_t)((3 * here + left + 8) >> 4);
		dst[2 * i + 1] = (uint8_t)((3 * here + right + 7) >> 4);
		left = here;
		here = right;
	}
}

void stk__jpeg_upsample_h1v2_c(uint8_t *dst, const uint8_t *near, const uint8_t *far, int bias, int n)
{
	for (int i = 0; i < n; i++)
		dst[i] = (uint8_t)((3 * near[i] + far[i] + bias) >> 2);
}

void stk__jpeg_replicate(uint8_t *dst, const uint8_t *src, int factor, int n)
{
	for (int i = 0; i < n; i++, dst += factor)
		memset(dst, src[i], (size_t)factor);
}

static uint8_t clamp(int v)
{
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* The factors 1.402, 1.772, 0.34414 and 0.71414 of the formulas, times 2^16. */
enum { CR_RED = 91881, CB_BLUE = 116130, CB_GREEN = 22554, CR_GREEN = 46802, HALF = 32768 };

void stk__jpeg_ycc_to_rgb_c(uint8_t *dst, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int n, bool bgr)
{
	int red = bgr ? 2 : 0, blue = 2 - red;
	for (int i = 0; i < n; i++, dst += 3) {
		int b = cb[i] - 128, r = cr[i] - 128;
		dst[red] = clamp(y[i] + ((CR_RED * r + HALF) >> 16));
		dst[1] = clamp(y[i] + ((-CB_GREEN * b - CR_GREEN * r + HALF) >> 16));
		dst[blue] = clamp(y[i] + ((CB_BLUE * b + HALF) >> 16));
	}
}

void stk__jpeg_interleave_c(uint8_t *dst, const uint8_t *a, const uint8_t *b, const uint8_t *c, int n)
{
	for (int i = 0; i < n; i++, dst += 3) {
		dst[0] = a[i];
		dst[1] = b[i];
		dst[2] = c[i];
	}
}
