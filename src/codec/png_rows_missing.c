/* SPDX-License-Identifier: Apache-2.0
 * Replaces png_rows.c if libdeflate's header was not found: libspng then decodes all PNG files. */
#include "codec/png_rows.h"

size_t stk__png_rows_memory(size_t size, struct stk_png_shape shape)
{
	(void)size;
	(void)shape;
	return 0;
}

uint8_t *stk__png_rows(
	const uint8_t *data, size_t size, struct stk_png_shape shape, struct stk_arena *scratch, const struct stk_cancel *cancel)
{
	(void)data;
	(void)size;
	(void)shape;
	(void)scratch;
	(void)cancel;
	return NULL;
}
