/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/debayer/debayer.h"

void stk__debayer_run(const struct stk_debayer *b, const void *src, void *dst, int64_t pixels)
{
	for (int64_t i = 0; i < pixels; i++)
		stk__debayer_one(b, src, dst, (uint32_t)i);
}
