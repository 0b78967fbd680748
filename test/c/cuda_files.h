/* SPDX-License-Identifier: Apache-2.0
 * Helpers for tests of the GPU's JPEG decoder: open a GPU, and generate or read JPEG files. STOKER_TEST_JPEGS is the path of a folder of photographs. */
#ifndef STK_TEST_CUDA_FILES_H
#define STK_TEST_CUDA_FILES_H

#include "codec/jpeg_gpu/jpeg_gpu.h"
#include "gpu_setup.h"
#include "jpeg_reference.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct file {
	char name[300];
	uint8_t *data;
	size_t size;
	struct stk_jpeg_header header;
	struct stk_rect window;
};

static uint64_t rng = 5; /* state of the random numbers of draw(); take_seed() sets it from STOKER_TEST_SEED */

static inline uint32_t draw(uint32_t n)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((rng >> 33) % n);
}

/* ---- files ---- */

static const int samplings[][6] = {{1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}, {2, 2, 1, 1, 1, 1}, {1, 2, 1, 1, 1, 1}, {4, 1, 1, 1, 1, 1},
	{2, 2, 2, 1, 1, 1}, {2, 2, 1, 2, 2, 1}, {4, 2, 1, 1, 1, 1}, {2, 2, 2, 2, 1, 1}};

static inline struct stk_rect draw_window(int w, int h)
{
	int ww = 1 + (int)draw((uint32_t)w), hh = 1 + (int)draw((uint32_t)h);
	switch (draw(8)) {
	case 0:
	case 1:
		return (struct stk_rect){0, 0, w, h};
	case 2: /* the window is in the bottom right corner */
		return (struct stk_rect){w - ww, h - hh, ww, hh};
	case 3: /* the window has few columns */
		ww = 1 + (ww - 1) % 20;
		break;
	case 4: /* the window has few rows */
		hh = 1 + (hh - 1) % 10;
	}
	return (struct stk_rect){(int)draw((uint32_t)(w - ww + 1)), (int)draw((uint32_t)(h - hh + 1)), ww, hh};
}

static inline void take_seed(void)
{
	const char *text = getenv("STOKER_TEST_SEED");
	rng = text ? strtoull(text, NULL, 10) : rng;
}

static inline void make_file(struct file *f, bool damage)
{
	const int *s = samplings[draw(sizeof samplings / sizeof *samplings)];
	struct jpeg_shape shape = {.width = 1 + (int)draw(700),
		.height = 1 + (int)draw(500),
		.components = draw(6) ? 3 : 1,
		.h = {s[0], s[2], s[4]},
		.v = {s[1], s[3], s[5]},
		.restart = draw(3) ? 0 : 1 + (int)draw(40),
		.quality = 30 + (int)draw(70),
		.optimize = (int)draw(2),
		.texture = (int)draw(5),
		.three_tables = !draw(4)};
	if (!draw(4))
		shape.scans = draw(2) ? 1 : 10 + (int)draw(STK_JPEG_GPU_MAX_SCANS - 9);
	/* With other factors, libjpeg-turbo decodes v[0] rows of blocks at a time, and may report damage below the requested rows. */
	if (shape.components == 1)
		shape.h[0] = shape.v[0] = 1;
	snprintf(f->name, sizeof f->name, "seed %llu", (unsigned long long)rng);
	f->data = jpeg_reference_encode(&shape, rng, &f->size);
	ok(stk__jpeg_header_parse(f->data, f->size, &f->header, &err));
	size_t scan = f->header.scan_offset;
	for (uint32_t hits = damage ? 1 + draw(3) : 0; hits > 0; hits--)
		f->data[scan + draw((uint32_t)(f->size - scan - 2))] = (uint8_t)(draw(3) ? draw(256) : 0xff);
	f->window = draw_window(shape.width, shape.height);
}

static inline bool read_file(struct file *f, const char *folder, const char *name)
{
	char path[1200];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *in = fopen(path, "rb");
	if (!in)
		return false;
	snprintf(f->name, sizeof f->name, "%s", name);
	fseek(in, 0, SEEK_END);
	f->size = (size_t)ftell(in);
	rewind(in);
	f->data = malloc(f->size + 64);
	bool read = fread(f->data, 1, f->size, in) == f->size && !stk__jpeg_header_parse(f->data, f->size, &f->header, &err);
	fclose(in);
	if (read)
		f->window = draw_window(f->header.width, f->header.height);
	else
		free(f->data);
	return read;
}

static inline int read_folder(struct file *files, int most)
{
	const char *folder = getenv("STOKER_TEST_JPEGS");
	DIR *dir = folder ? opendir(folder) : NULL;
	struct dirent *entry;
	int n = 0;
	while (dir && n < most && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			n += read_file(&files[n], folder, entry->d_name);
	if (dir)
		closedir(dir);
	return n;
}

static inline void free_files(struct file *files, int n)
{
	while (n > 0)
		free(files[--n].data);
}

static inline void equal(const char *what, const void *a, const void *b, size_t size)
{
	const uint8_t *x = a, *y = b;
	size_t i = 0;
	while (i < size && x[i] == y[i])
		i++;
	if (i < size)
		fail_msg("%s differs between the sides at byte %zu of %zu: %d, %d", what, i, size, x[i], y[i]);
}

#endif
