/* SPDX-License-Identifier: Apache-2.0
 * Runs the work whose instructions are counted and compared with recorded numbers: bench/instructions.py runs it under callgrind, once per SIMD level.
 *
 * The program makes its photographs with integer arithmetic only, so that every machine decodes the same files. They have details of many sizes, edges, and the
 * noise of a sensor, so their JPEGs have as many coefficients as real ones. stk_measure is called once, after the decoder has filled its tables, for all
 * images, so the count divided by their number is the cost of one more image. With `ops`, stk_measure is called once for each case of instructions_ops.c.
 *
 *     instructions window|whole|pass|ops    prints, as TOML, the kind of build, the SIMD level and the number of images */
#include "instructions.h"

#include "base/cpu.h"
#include "codec/codec.h"
#include "kernel/pass/pass.h"
#include "kernel/pass/pass_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { IMAGES = 6, WIDEST = 500, TALLEST = 500, CROP = 224, OCTAVES = 6 };

struct photo {
	uint8_t *data;
	size_t size;
	struct stk_image_info info;
	struct stk_rect window; /* window of a random resized crop, in pixels of the image */
	bool mirror;
};

struct work;
typedef void work_fn(struct work *w, const struct photo *p);

struct work {
	work_fn *fn;
	struct photo photos[IMAGES];
	struct stk_arena decoding;
	struct stk_decoder *decoder;
	struct stk_pass_kernels kernels;
	uint8_t *pixels;
	float *out; /* the result: CHW, with CROP x CROP pixels */
	void *scratch;
	size_t scratch_size;
};

static void die(const char *what)
{
	fprintf(stderr, "instructions: %s\n", what);
	exit(1);
}

/* ---- photographs ---- */

static uint32_t hash(uint32_t seed, uint32_t x, uint32_t y)
{
	uint32_t h = seed * 0x9e3779b9u ^ x * 0x85ebca6bu ^ y * 0xc2b2ae35u;
	h = (h ^ h >> 15) * 0x2c1b3c6du;
	h = (h ^ h >> 12) * 0x297a2d39u;
	return h ^ h >> 15;
}

/* Returns the value at (x, y), 0 to 255, of noise that is interpolated between random values on a grid of 2^log pixels. */
static int lattice(uint32_t seed, int x, int y, int log)
{
	uint32_t gx = (uint32_t)x >> log, gy = (uint32_t)y >> log;
	int side = 1 << log, fx = x & (side - 1), fy = y & (side - 1), v[2];
	for (uint32_t k = 0; k < 2; k++)
		v[k] = (int)(hash(seed, gx, gy + k) & 255) * (side - fx) + (int)(hash(seed, gx + 1, gy + k) & 255) * fx;
	return (v[0] * (side - fy) + v[1] * fy) >> 2 * log;
}

static int brightness(uint32_t seed, int x, int y)
{
	int sum = 0;
	for (int o = 0; o < OCTAVES; o++) /* details of half the size have half the strength */
		sum += (lattice(seed + (uint32_t)o, x, y, OCTAVES - o) - 128) * 64 >> o;
	int shape = lattice(seed + 90, x, y, 7) > 140 ? 40 : 0; /* some areas are brighter and have sharp edges */
	uint32_t r = hash(seed + 91, (uint32_t)x, (uint32_t)y);
	int grain = (int)((r & 7) + (r >> 8 & 7) + (r >> 16 & 7)) * 3 / 2 - 15;
	return 128 + (sum >> 6) + shape + grain;
}

static void photo_row(uint8_t *row, uint32_t seed, int y, int width)
{
	for (int x = 0; x < width; x++) {
		int light = brightness(seed, x, y), warm = (lattice(seed + 92, x, y, 6) - 128) / 3;
		int rgb[3] = {light + warm, light, light - warm};
		for (int c = 0; c < 3; c++)
			*row++ = (uint8_t)(rgb[c] < 0 ? 0 : rgb[c] > 255 ? 255 : rgb[c]);
	}
}

static void encode(struct photo *p, uint32_t seed, int width, int height, int quality, bool subsample)
{
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	unsigned char *bytes = NULL;
	unsigned long size = 0;
	uint8_t row[3 * WIDEST];
	c.err = jpeg_std_error(&errors);
	jpeg_create_compress(&c);
	jpeg_mem_dest(&c, &bytes, &size);
	c.image_width = (JDIMENSION)width;
	c.image_height = (JDIMENSION)height;
	c.input_components = 3;
	c.in_color_space = JCS_RGB;
	jpeg_set_defaults(&c);
	jpeg_set_quality(&c, quality, TRUE);
	c.comp_info[0].h_samp_factor = c.comp_info[0].v_samp_factor = subsample ? 2 : 1;
	jpeg_start_compress(&c, TRUE);
	for (int y = 0; y < height; y++) {
		photo_row(row, seed, y, width);
		jpeg_write_scanlines(&c, &(JSAMPROW){row}, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	p->size = size;
	p->data = calloc(1, p->size + 64);
	if (!p->data)
		die("no memory");
	memcpy(p->data, bytes, p->size);
	free(bytes);
}

static void make_photo(struct photo *p, int i)
{
	static const uint16_t extents[IMAGES][2] = {{500, 375}, {375, 500}, {480, 320}, {333, 250}, {441, 331}, {499, 301}};
	int width = extents[i][0], height = extents[i][1];
	uint32_t seed = (uint32_t)i * 1000 + 7;
	encode(p, seed, width, height, 92 + i, i != IMAGES - 1);
	if (stk__image_peek(p->data, p->size, NULL, &p->info, NULL))
		die("a file that was just made is not readable");
	struct stk_rect *w = &p->window;
	w->w = width * (40 + (int)(hash(seed, 1, 1) % 55)) / 100;
	w->h = height * (40 + (int)(hash(seed, 2, 2) % 55)) / 100;
	w->x = (int)(hash(seed, 3, 3) % (uint32_t)(width - w->w));
	w->y = (int)(hash(seed, 4, 4) % (uint32_t)(height - w->h));
	p->mirror = i & 1;
}

/* ---- the measured work ---- */

static void decode(struct work *w, const struct photo *p, struct stk_rect window)
{
	struct stk_decode rq = {.data = p->data,
		.size = p->size,
		.info = &p->info,
		.type = STK_RGB,
		.window = window,
		.dst = stk__image_hwc(w->pixels, STK_UINT8, window.w, window.h, 3)};
	if (stk__image_decode(w->decoder, &rq, NULL))
		die("a file that was just made does not decode");
}

static void run_window(struct work *w, const struct photo *p)
{
	decode(w, p, p->window);
}

static void run_whole(struct work *w, const struct photo *p)
{
	decode(w, p, (struct stk_rect){0, 0, p->info.width, p->info.height});
}

/* Decodes the pixels that a random crop of 224 x 224 needs, then resizes, mirrors and normalises them in a pass. */
static void run_pass(struct work *w, const struct photo *p)
{
	static const float scale[3] = {0.01712475f, 0.017507f, 0.01742919f}, bias[3] = {-2.117904f, -2.0357144f, -1.8044444f};
	struct stk_resize resize = {.out_w = CROP,
		.out_h = CROP,
		.roi_x1 = (float)p->window.w,
		.roi_y1 = (float)p->window.h,
		.min_filter = STK_INTERP_LINEAR,
		.mag_filter = STK_INTERP_LINEAR,
		.antialias = 1,
		.dtype = STK_UINT8};
	struct stk_pass pass;
	stk__pass_begin(&pass, STK_UINT8, p->info.width, p->info.height, 3);
	stk__pass_window(&pass, p->window, NULL);
	stk__pass_resize(&pass, &resize);
	stk__pass_mirror(&pass, p->mirror, false);
	stk__pass_affine(&pass, scale, bias, STK_FLOAT);
	struct stk_rect need = stk__pass_source(&pass);
	if (stk__pass_scratch(&pass) > w->scratch_size)
		die("the pass takes more scratch than expected");
	decode(w, p, need);
	struct stk_image src = stk__image_hwc(w->pixels, STK_UINT8, need.w, need.h, 3);
	struct stk_image dst = {.data = w->out,
		.dtype = STK_FLOAT,
		.width = CROP,
		.height = CROP,
		.channels = 3,
		.row = CROP * sizeof(float),
		.pixel = sizeof(float),
		.channel = CROP * CROP * sizeof(float)};
	stk__pass_run(&pass, &w->kernels, &src, need.x, need.y, &dst, w->scratch);
}

static const struct {
	const char *name;
	work_fn *fn;
} kinds[] = {{"window", run_window}, {"whole", run_whole}, {"pass", run_pass}};
enum { KINDS = sizeof kinds / sizeof *kinds };

__attribute__((noinline)) void stk_measure(void (*fn)(void *user), void *user)
{
	fn(user);
}

static void all_images(void *user)
{
	struct work *w = user;
	for (int i = 0; i < IMAGES; i++)
		w->fn(w, &w->photos[i]);
}

/* ---- the command line ---- */

static work_fn *choose(const char *name)
{
	for (int k = 0; k < KINDS; k++)
		if (strcmp(kinds[k].name, name) == 0)
			return kinds[k].fn;
	return NULL;
}

static void prepare(struct work *w, unsigned cpu)
{
	w->scratch_size = (size_t)8 << 20;
	w->pixels = calloc(WIDEST * TALLEST, 3);
	w->out = calloc(CROP * CROP * 3, sizeof(float));
	w->scratch = aligned_alloc(64, w->scratch_size);
	w->kernels = stk__pass_kernels(cpu);
	if (!w->pixels || !w->out || !w->scratch || stk__decoder_create(NULL, cpu, &w->decoding, &w->decoder, NULL))
		die("no memory");
	for (int i = 0; i < IMAGES; i++)
		make_photo(&w->photos[i], i);
	run_pass(w, &w->photos[0]);
}

static void clean_up(struct work *w)
{
	stk__decoder_destroy(w->decoder);
	for (int i = 0; i < IMAGES; i++)
		free(w->photos[i].data);
	free(w->pixels);
	free(w->out);
	free(w->scratch);
}

int main(int argc, char **argv)
{
	static struct work w;
	unsigned cpu = stk__cpu_capabilities();
	w.fn = argc == 2 ? choose(argv[1]) : NULL;
	printf("build = \"%s\"\nlevel = \"%s\"\nimages = %d\n", STK_BUILD_KIND, stk__cpu_name(cpu), IMAGES);
	if (argc == 2 && strcmp(argv[1], "ops") == 0) {
		measure_ops();
		return 0;
	}
	if (!w.fn)
		return argc == 1 ? 0 : 2;
	prepare(&w, cpu);
	stk_measure(all_images, &w);
	clean_up(&w);
	return 0;
}
