/* SPDX-License-Identifier: Apache-2.0
 * Parameter sets and packets of H.264 and HEVC, and headers of key frames of VP8 and VP9, as files contain them. The first byte chooses the codec and where the
 * header ends. The converted packet must fit into the room that was computed for it, and a start code must precede each of its units. */
#include "fuzz.h"

#include "media/annex_b.h"
#include "media/colour.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stk_annex_b a;
	size_t written = 0;
	int matrix;
	bool full;
	if (size < 1)
		return 0;
	const uint8_t choice = *data++;
	const size_t header = (choice >> 1) < --size ? choice >> 1 : size, rest = size - header;
	if (stk__colour_of_vp9(data, size, &matrix, &full) && (matrix < 1 || matrix > 9))
		abort();
	if (stk__colour_of_vp8(data, size, &matrix, &full) && matrix != 5)
		abort();
	if (stk__annex_b_create(choice & 1 ? STK_UNITS_HEVC : STK_UNITS_H264, data, header, &a, NULL))
		return 0;
	uint8_t *to = malloc(stk__annex_b_capacity(&a, rest) + 1);
	if (!stk__annex_b_convert(&a, data + header, rest, to, &written, NULL)) {
		if (written > stk__annex_b_capacity(&a, rest))
			abort();
		if (a.length && written && memcmp(to, (uint8_t[]){0, 0, 0, 1}, 4) != 0)
			abort();
	}
	stk__annex_b_unneeded(&a, data + header, rest);
	free(to);
	stk__annex_b_free(&a);
	return 0;
}

uint8_t *fuzz_seed(int i, size_t *size)
{
	static const uint8_t avc[] = {24, 1, 100, 0, 13, 0xff, 0xe1, 0, 2, 0x67, 9, 1, 0, 1, 0x68, 0, 0, 0, 3, 0x41, 1, 2};
	static const uint8_t hevc[] = {75, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 2, 0xa0, 0, 1, 0, 2, 0x40,
		1, 0xa1, 0, 1, 0, 3, 0x42, 1, 1, 0, 0, 0, 4, 0x26, 1, 2, 3};
	static const uint8_t annex_b[] = {8, 0, 0, 0, 1, 0, 0, 1, 0x65, 9};
	static const uint8_t vp8[] = {0, 0x10, 2, 0, 0x9d, 1, 0x2a, 16, 0, 16, 0, 0, 1, 2};
	static const uint8_t vp9[] = {0, 0x82, 0x49, 0x83, 0x42, 0x40, 1, 2, 3};
	static const struct {
		const uint8_t *data;
		size_t size;
	} seeds[] = {{avc, sizeof avc}, {hevc, sizeof hevc}, {annex_b, sizeof annex_b}, {vp8, sizeof vp8}, {vp9, sizeof vp9}};
	if ((size_t)i >= sizeof seeds / sizeof *seeds)
		return NULL;
	*size = seeds[i].size;
	return memcpy(malloc(*size), seeds[i].data, *size);
}
