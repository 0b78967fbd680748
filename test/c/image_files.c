/* SPDX-License-Identifier: Apache-2.0 */
#include "image_files.h"

#include "jpeg_scripts.h"

#include <assert.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include <spng.h>

uint32_t test_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	uint64_t x = *state;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return (uint32_t)(x >> 32);
}

int test_random_in(uint64_t *state, int low, int high)
{
	return low + (int)(test_random(state) % (uint32_t)(high - low + 1));
}

uint64_t test_seed(void)
{
	const char *s = getenv("STOKER_TEST_SEED");
	return s ? strtoull(s, NULL, 0) : 20240607;
}

static struct test_file padded(const uint8_t *data, size_t size)
{
	struct test_file f = {calloc(1, size + 64), size};
	assert(f.data);
	memcpy(f.data, data, size);
	return f;
}

/* Draws waves, edges and noise, so that coefficients of all sizes occur. noise: the share of noise in each value, 0 to 1. */
static void fill_pixels(uint8_t *p, int width, int height, int channels, double noise, uint64_t seed)
{
	uint64_t r = seed;
	double fx[4], fy[4], phase[4];
	for (int k = 0; k < 4; k++) {
		fx[k] = test_random_in(&r, 1, 60) / 100.0;
		fy[k] = test_random_in(&r, 1, 60) / 100.0;
		phase[k] = test_random_in(&r, 0, 628) / 100.0;
	}
	for (int y = 0; y < height; y++)
		for (int x = 0; x < width; x++)
			for (int k = 0; k < channels; k++) {
				double wave = 128 + 90 * sin(fx[k] * x + fy[k] * y + phase[k]) + ((x / 13 + y / 7) % 3 == k ? 60 : 0);
				double v = wave * (1 - noise) + noise * (test_random(&r) & 255);
				*p++ = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
			}
}

/* ---- JPEG ---- */

static void set_scans(struct jpeg_compress_struct *c)
{
	static jpeg_scan_info scans[4];
	for (int i = 0; i < c->num_components; i++)
		scans[i] = (jpeg_scan_info){.comps_in_scan = 1, .component_index = {i}, .Se = 63};
	c->scan_info = scans;
	c->num_scans = c->num_components;
}

static void write_orientation(struct jpeg_compress_struct *c, int orientation)
{
	uint8_t exif[] = {'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, (uint8_t)orientation,
		0, 0, 0, 0, 0, 0};
	jpeg_write_marker(c, JPEG_APP0 + 1, exif, sizeof exif);
}

static void configure(struct jpeg_compress_struct *c, const struct test_jpeg *j)
{
	c->image_width = (JDIMENSION)j->width;
	c->image_height = (JDIMENSION)j->height;
	c->input_components = j->components;
	c->in_color_space = j->components == 1 ? JCS_GRAYSCALE : j->components == 3 ? JCS_RGB : JCS_CMYK;
	jpeg_set_defaults(c);
	if (j->rgb)
		jpeg_set_colorspace(c, JCS_RGB);
	if (j->ycck)
		jpeg_set_colorspace(c, JCS_YCCK);
	jpeg_set_quality(c, j->quality, FALSE);
	for (int i = 0; i < j->components; i++) {
		c->comp_info[i].h_samp_factor = j->h[i] ? j->h[i] : 1;
		c->comp_info[i].v_samp_factor = j->v[i] ? j->v[i] : 1;
	}
	c->restart_interval = (unsigned)j->restart;
	c->optimize_coding = j->optimise && !j->arithmetic;
	c->arith_code = j->arithmetic;
	if (j->no_adobe)
		c->write_Adobe_marker = FALSE;
	if (j->rgb)
		c->write_Adobe_marker = TRUE, c->write_JFIF_header = FALSE;
	if (j->separate)
		set_scans(c);
	if (j->progressive)
		jpeg_simple_progression(c);
	if (j->script)
		test_jpeg_script(c, j->script, j->unfinished);
}

static void say_nothing(j_common_ptr cinfo, int level)
{
	(void)cinfo;
	(void)level;
}

struct test_file test_jpeg_make(const struct test_jpeg *j)
{
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	unsigned char *out = NULL;
	unsigned long size = 0;
	c.err = jpeg_std_error(&errors);
	errors.emit_message = say_nothing;
	jpeg_create_compress(&c);
	jpeg_mem_dest(&c, &out, &size);
	configure(&c, j);
	uint8_t *pixels = malloc((size_t)j->width * (size_t)j->height * (size_t)j->components);
	assert(pixels);
	fill_pixels(pixels, j->width, j->height, j->components, j->noise, j->seed);
	jpeg_start_compress(&c, TRUE);
	if (j->orientation)
		write_orientation(&c, j->orientation);
	while (c.next_scanline < c.image_height) {
		JSAMPROW row = pixels + (size_t)c.next_scanline * (size_t)j->width * (size_t)j->components;
		jpeg_write_scanlines(&c, &row, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	struct test_file f = padded(out, size);
	free(out);
	free(pixels);
	return f;
}

struct catcher {
	struct jpeg_error_mgr base;
	jmp_buf escape;
	bool lossy;
};

static void catch_error(j_common_ptr cinfo)
{
	longjmp(((struct catcher *)cinfo->err)->escape, 1);
}

static void catch_message(j_common_ptr cinfo, int level)
{
	int code = cinfo->err->msg_code;
	if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE ||
				 code == JWRN_MUST_RESYNC || code == JWRN_JPEG_EOF))
		((struct catcher *)cinfo->err)->lossy = true;
}

uint8_t *test_jpeg_reference(struct test_file f, int space, int *width, int *height, bool *lossy)
{
	return test_jpeg_reference_scaled(f, space, 1, width, height, lossy);
}

uint8_t *test_jpeg_reference_scaled(struct test_file f, int space, int denom, int *width, int *height, bool *lossy)
{
	struct jpeg_decompress_struct c;
	struct catcher catcher = {0};
	uint8_t *volatile out = NULL;
	c.err = jpeg_std_error(&catcher.base);
	catcher.base.error_exit = catch_error;
	catcher.base.emit_message = catch_message;
	jpeg_create_decompress(&c);
	if (setjmp(catcher.escape)) {
		jpeg_destroy_decompress(&c);
		free(out);
		return NULL;
	}
	jpeg_mem_src(&c, f.data, f.size);
	jpeg_read_header(&c, TRUE);
	c.out_color_space = (J_COLOR_SPACE)space;
	c.scale_denom = (unsigned)denom;
	jpeg_start_decompress(&c);
	size_t row = (size_t)c.output_width * (size_t)c.output_components;
	out = malloc(row * c.output_height);
	assert(out);
	while (c.output_scanline < c.output_height) {
		JSAMPROW p = out + c.output_scanline * row;
		jpeg_read_scanlines(&c, &p, 1);
	}
	*width = (int)c.output_width;
	*height = (int)c.output_height;
	jpeg_abort_decompress(&c);
	jpeg_destroy_decompress(&c);
	*lossy = catcher.lossy;
	return out;
}

/* ---- PNG ---- */

static size_t png_channels(int color)
{
	static const uint8_t n[] = {1, 0, 3, 1, 2, 0, 4};
	return n[color];
}

static size_t png_row(const struct test_png *p)
{
	return ((size_t)p->width * png_channels(p->color) * (size_t)p->bits + 7) / 8;
}

static void set_palette(spng_ctx *ctx, const struct test_png *p, uint64_t *r)
{
	struct spng_plte plte = {.n_entries = 1u << p->bits};
	struct spng_trns trns = {.n_type3_entries = 2, .type3_alpha = {7, 100}};
	for (unsigned i = 0; i < plte.n_entries; i++)
		plte.entries[i] = (struct spng_plte_entry){(uint8_t)test_random(r), (uint8_t)test_random(r), (uint8_t)test_random(r), 255};
	spng_set_plte(ctx, &plte);
	if (p->transparency)
		spng_set_trns(ctx, &trns);
}

struct test_file test_png_make(const struct test_png *p)
{
	uint64_t r = p->seed;
	spng_ctx *ctx = spng_ctx_new(SPNG_CTX_ENCODER);
	struct spng_ihdr ihdr = {.width = (uint32_t)p->width,
		.height = (uint32_t)p->height,
		.bit_depth = (uint8_t)p->bits,
		.color_type = (uint8_t)p->color,
		.interlace_method = p->interlaced};
	size_t size = png_row(p) * (size_t)p->height, length = 0;
	uint8_t *pixels = malloc(size);
	assert(ctx && pixels);
	for (size_t i = 0; i < size; i++)
		pixels[i] = (uint8_t)test_random(&r);
	spng_set_option(ctx, SPNG_ENCODE_TO_BUFFER, 1);
	spng_set_ihdr(ctx, &ihdr);
	if (p->color == 3)
		set_palette(ctx, p, &r);
	char exif_data[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, (char)p->orientation, 0, 0, 0, 0, 0, 0, 0};
	struct spng_exif exif = {.length = sizeof exif_data, .data = exif_data};
	if (p->orientation)
		spng_set_exif(ctx, &exif);
	int code = spng_encode_image(ctx, pixels, size, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
	assert(!code);
	uint8_t *out = spng_get_png_buffer(ctx, &length, &code);
	assert(out);
	struct test_file f = padded(out, length);
	free(out);
	free(pixels);
	spng_ctx_free(ctx);
	return f;
}

/* Decodes to 16-bit RGBA with libspng, and converts that. So the reference does not use any format in which the code under test decodes. */
uint8_t *test_png_reference(struct test_file f, const struct test_png *p)
{
	spng_ctx *ctx = spng_ctx_new(0);
	size_t size = 0, pixels = (size_t)p->width * (size_t)p->height, channels = p->color == 3 ? 3 : png_channels(p->color);
	spng_set_png_buffer(ctx, f.data, f.size);
	spng_decoded_image_size(ctx, SPNG_FMT_RGBA16, &size);
	uint16_t *rgba = malloc(size);
	uint8_t *out = malloc(pixels * channels * 2);
	assert(ctx && rgba && out);
	int code = spng_decode_image(ctx, rgba, size, SPNG_FMT_RGBA16, 0);
	assert(!code);
	for (size_t i = 0; i < pixels; i++)
		for (size_t k = 0; k < channels; k++) {
			uint16_t v = rgba[4 * i + (channels == 2 && k == 1 ? 3 : k)];
			if (p->bits == 16)
				((uint16_t *)out)[i * channels + k] = v;
			else
				out[i * channels + k] = (uint8_t)(v >> 8);
		}
	free(rgba);
	spng_ctx_free(ctx);
	return out;
}
