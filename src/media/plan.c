/* SPDX-License-Identifier: Apache-2.0 */
#include "media/plan.h"

int32_t stk__index_of_number(const int32_t *numbers, int32_t count, int64_t number)
{
	int32_t low = 0, high = count;
	while (low < high) {
		const int32_t middle = low + (high - low) / 2;
		if (numbers[middle] < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && numbers[low] == number ? low : -1;
}

int32_t stk__plan_key(const struct stk_frame_table *t, int32_t frame)
{
	const int32_t packet = t->packet_of[frame];
	int32_t low = 0, high = t->key_count; /* invariant: keys[low - 1] <= packet < keys[high] */
	while (low < high) {
		const int32_t middle = low + (high - low) / 2;
		if (t->keys[middle] <= packet)
			low = middle + 1;
		else
			high = middle;
	}
	for (int32_t k = low - 1; k >= 0; k--)
		if (t->times[t->keys[k]] <= t->times[packet])
			return k;
	return -1;
}

int32_t stk__plan(const struct stk_frame_table *t, const int32_t *wanted, int32_t count, struct stk_segment *out)
{
	int32_t n = 0;
	for (int32_t i = 0; i < count; i++) {
		const int32_t key = stk__plan_key(t, wanted[i]), packet = t->packet_of[wanted[i]];
		const int32_t first = key < 0 ? 0 : t->keys[key];
		/* If the previous segment begins at the same key packet or decodes it already, that segment is extended. The packet may precede the segment's last one, if a
		 * later part of the file has earlier times. */
		if (n > 0 && first >= out[n - 1].first && first <= out[n - 1].last) {
			out[n - 1].last = packet > out[n - 1].last ? packet : out[n - 1].last;
			out[n - 1].n_wanted++;
			continue;
		}
		out[n++] = (struct stk_segment){first, packet, i, 1};
	}
	return n;
}
