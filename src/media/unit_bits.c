/* SPDX-License-Identifier: Apache-2.0 */
#include "media/unit_bits.h"

static void next_byte(struct stk_unit_bits *b)
{
	if (b->zeros >= 2 && b->at < b->end && *b->at == 3) {
		b->zeros = 0;
		b->at++;
	}
	b->ended |= b->at >= b->end;
	b->byte = b->ended ? 0 : *b->at++;
	b->zeros = b->byte ? 0 : b->zeros + 1;
	b->left = 8;
}

uint32_t stk__take_bits(struct stk_unit_bits *b, int n)
{
	uint32_t v = 0;
	for (int i = 0; i < n; i++) {
		if (!b->left)
			next_byte(b);
		v = v << 1 | (b->byte >> --b->left & 1u);
	}
	return v;
}

uint32_t stk__take_ue(struct stk_unit_bits *b)
{
	int zeros = 0;
	while (!stk__take_bits(b, 1))
		if (++zeros > 31 || b->ended) {
			b->ended = true;
			return 0;
		}
	return (1u << zeros) - 1 + stk__take_bits(b, zeros);
}

int32_t stk__take_se(struct stk_unit_bits *b)
{
	const uint32_t v = stk__take_ue(b);
	return v & 1 ? (int32_t)(v / 2 + 1) : -(int32_t)(v / 2);
}
