/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/jpeg_input.h"

#include <string.h>

static void read_more(struct stk_jpeg_input *in, size_t unread, struct stk_jpeg_bits *bits)
{
	struct stk_jpeg_unstuffed u =
		in->kernels->unstuff(in->next, (size_t)(in->end - in->next), in->buffer + unread, STK_JPEG_INPUT_BYTES - unread);
	in->next += u.read;
	in->limit = in->buffer + unread + u.written;
	in->ended = u.ended;
	if (u.ended)
		memset(in->limit, 0, STK_JPEG_MCU_BYTES);
	bits->next = in->buffer;
}

void stk__jpeg_input_begin(
	struct stk_jpeg_input *in, const struct stk_jpeg_kernels *k, const uint8_t *data, size_t size, struct stk_jpeg_bits *bits)
{
	in->kernels = k;
	in->next = data;
	in->end = data + size;
	*bits = (struct stk_jpeg_bits){0, 0, NULL};
	read_more(in, 0, bits);
}

bool stk__jpeg_input_sound(const struct stk_jpeg_input *in, const struct stk_jpeg_bits *bits)
{
	return !in->ended || (bits->next - in->limit) * 8 <= (ptrdiff_t)bits->count;
}

bool stk__jpeg_input_fill(struct stk_jpeg_input *in, struct stk_jpeg_bits *bits)
{
	if (in->ended)
		return stk__jpeg_input_sound(in, bits);
	size_t unread = (size_t)(in->limit - bits->next); /* at least 0, since an MCU never reads more than STK_JPEG_MCU_BYTES */
	memmove(in->buffer, bits->next, unread);
	read_more(in, unread, bits);
	return true;
}

bool stk__jpeg_input_restart(struct stk_jpeg_input *in, struct stk_jpeg_bits *bits, int n)
{
	if (!in->ended && !stk__jpeg_input_fill(in, bits))
		return false;
	bool at_limit = in->ended && bits->next - (bits->count >> 3) == in->limit;
	while (in->end - in->next > 2 && in->next[0] == 0xff && in->next[1] == 0xff) /* fill bytes [T.81 B.1.1.2] */
		in->next++;
	if (!at_limit || in->end - in->next < 2 || in->next[0] != 0xff || in->next[1] != 0xd0 + n)
		return false;
	in->next += 2;
	*bits = (struct stk_jpeg_bits){0, 0, NULL};
	read_more(in, 0, bits);
	return true;
}
