/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "../c/hostile_files.h"
#include "../c/image_files.h"

#include <stdbool.h>
#include <stddef.h>

uint8_t *fuzz_seed(int i, size_t *size)
{
	static const struct test_jpeg jpegs[] = {
		{.width = 40,
			.height = 30,
			.components = 3,
			.h = {2, 1, 1},
			.v = {2, 1, 1},
			.quality = 80,
			.orientation = 6,
			.noise = .2,
			.seed = 1},
		{.width = 33, .height = 41, .components = 3, .quality = 95, .restart = 2, .optimise = true, .noise = .5, .seed = 2},
		{.width = 35, .height = 19, .components = 1, .h = {2}, .v = {2}, .quality = 60, .seed = 3},
		{.width = 30, .height = 30, .components = 3, .h = {2, 1, 1}, .v = {1, 1, 1}, .quality = 70, .progressive = true, .seed = 4},
		{.width = 50,
			.height = 60,
			.components = 3,
			.h = {2, 1, 1},
			.v = {2, 1, 1},
			.quality = 90,
			.script = 7,
			.noise = .3,
			.seed = 8},
		{.width = 31, .height = 17, .components = 1, .quality = 90, .restart = 3, .script = 1, .noise = .3, .seed = 9},
		{.width = 20, .height = 30, .components = 4, .quality = 70, .ycck = true, .seed = 5},
		{.width = 40, .height = 20, .components = 3, .h = {1, 1, 1}, .v = {2, 1, 1}, .quality = 1, .separate = true, .seed = 6},
		{.width = 25, .height = 25, .components = 3, .quality = 75, .arithmetic = true, .seed = 7},
		/* For the GPU's decoder: 19 scans; restart markers in 10 scans; more data than one chunk of the decoder; large MCUs. */
		{.width = 40,
			.height = 50,
			.components = 3,
			.h = {2, 1, 1},
			.v = {2, 1, 1},
			.quality = 85,
			.script = 6,
			.noise = .3,
			.seed = 10},
		{.width = 50,
			.height = 40,
			.components = 3,
			.h = {1, 1, 1},
			.v = {2, 1, 1},
			.quality = 85,
			.progressive = true,
			.restart = 10,
			.noise = .4,
			.seed = 11},
		{.width = 90, .height = 60, .components = 3, .h = {4, 1, 1}, .v = {1, 1, 1}, .quality = 90, .noise = .8, .seed = 12},
		{.width = 64,
			.height = 40,
			.components = 3,
			.h = {2, 2, 2},
			.v = {2, 1, 1},
			.quality = 85,
			.restart = 3,
			.noise = .4,
			.seed = 13},
	};
	static const struct test_png pngs[] = {
		{.width = 20, .height = 15, .color = 2, .bits = 8, .orientation = 5, .seed = 1},
		{.width = 19, .height = 15, .color = 6, .bits = 16, .interlaced = true, .seed = 2},
		{.width = 30, .height = 10, .color = 3, .bits = 4, .transparency = true, .seed = 3},
		{.width = 31, .height = 10, .color = 0, .bits = 1, .seed = 4},
	};
	static const struct {
		uint16_t width, height;
		bool png, interlaced;
	} hostile[] = {{1024, 1024, false, false}, {8, 16384, false, false}, {3000, 3, true, false}, {40, 4000, true, true}};
	enum { HOSTILE = sizeof hostile / sizeof *hostile };
	enum { JPEGS = sizeof jpegs / sizeof *jpegs, PNGS = sizeof pngs / sizeof *pngs };
	if (i >= JPEGS + PNGS + HOSTILE)
		return NULL;
	int k = i - JPEGS - PNGS;
	struct test_file f = i < JPEGS          ? test_jpeg_make(&jpegs[i])
			     : i < JPEGS + PNGS ? test_png_make(&pngs[i - JPEGS])
			     : hostile[k].png   ? hostile_png(hostile[k].width, hostile[k].height, hostile[k].interlaced)
						: hostile_jpeg(hostile[k].width, hostile[k].height);
	*size = f.size;
	return f.data;
}

/* Changes a number in a header of a format other than JPEG and PNG: a length, offset, size or count, in either byte order. */
static void change_number(uint8_t *data, size_t size, uint64_t *state)
{
	static const uint32_t numbers[] = {0, 1, 2, 3, 8, 16, 255, 256, 0x7fff, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff};
	uint32_t v = numbers[test_random(state) % (sizeof numbers / sizeof *numbers)], bytes = test_random(state) & 1 ? 4 : 2;
	size_t at = test_random(state) % (test_random(state) & 1 && size > 64 ? 64 : size);
	bool little = test_random(state) & 1;
	for (uint32_t i = 0; i < bytes && at + i < size; i++)
		data[at + i] = (uint8_t)(v >> 8 * (little ? i : bytes - 1 - i));
}

void fuzz_mutate(uint8_t *data, size_t *size, uint64_t *state)
{
	struct test_file f = {data, *size};
	if (*size && data[0] != 0xff && data[0] != 0x89) {
		change_number(data, *size, state);
		return;
	}
	hostile_mutate(&f, state);
	*size = f.size;
}
