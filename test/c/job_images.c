/* SPDX-License-Identifier: Apache-2.0
 * Random calls of the image operators: filters, pointwise functions, equalizations. */
#include "job_calls.h"

#include <string.h>

/* Draws a small image of any layout and any type except bool. most: maximum extent. wide: allows types of 64 bits. */
static void draw_image(struct call *c, uint32_t most, bool wide)
{
	static const char *const layouts[] = {"HW", "HWC", "CHW", "FHWC", "DHW", "DHWC"};
	const char *layout = layouts[call_draw(sizeof layouts / sizeof *layouts)];
	int64_t shape[STK_MAX_DIMS];
	enum stk_dtype dtype = call_dtype();
	for (size_t d = 0; d < strlen(layout); d++)
		shape[d] = 1 + call_draw(strchr("HWD", layout[d]) ? most : 4);
	if (dtype == STK_BOOL || (!wide && stk_dtype_size(dtype) > 4))
		dtype = call_draw(2) ? STK_UINT8 : STK_FLOAT;
	call_input(c, dtype, (int)strlen(layout), shape);
	strcpy(c->in[0].desc.layout, layout);
	if (call_draw(3) == 0)
		call_int(c, "dtype", STK_FLOAT);
}

static void draw_gaussian_blur(struct call *c)
{
	draw_image(c, 24, true);
	if (call_draw(2))
		call_float(c, "sigma", 0.2 + call_draw(30) / 10.0);
	else
		call_int(c, "window_size", 1 + 2 * call_draw(9));
}

static void draw_laplacian(struct call *c)
{
	draw_image(c, 12, false);
	call_int(c, "window_size", 3 + 2 * call_draw(3));
	if (call_draw(2))
		call_int(c, "smoothing_size", 1 + 2 * call_draw(3));
	if (call_draw(2))
		call_float(c, "scale", call_draw(9) / 16.0);
}

/* Draws RGB bytes, in rows of whole 4-byte words. Most rows are so long that some warps of the GPU process no pixel at a border. */
static void draw_words(struct call *c)
{
	bool frames = call_draw(3) == 0;
	int64_t shape[] = {2, 1 + call_draw(50), 4 * (1 + call_draw(call_draw(4) ? 60 : 3)), 3};
	call_input(c, STK_UINT8, 3 + frames, shape + !frames);
	strcpy(c->in[0].desc.layout, frames ? "FHWC" : "HWC");
}

static void draw_filter(struct call *c)
{
	static const char *const borders[] = {"reflect_101", "reflect_1001", "wrap", "clamp", "constant"};
	if (call_draw(3))
		draw_image(c, call_draw(4) ? 12 : 60, false);
	else
		draw_words(c);
	int n = strchr(c->in[0].desc.layout, 'D') ? 3 : 2;
	bool common = call_draw(2); /* 3 x 3, for which the GPU has special code */
	int64_t shape[3] = {common ? 3 : 1 + call_draw(5), common ? 3 : 1 + call_draw(5), 1 + call_draw(3)};
	call_input(c, STK_FLOAT, n, shape);
	if (call_draw(2))
		call_input(c, c->in[0].desc.dtype, 0, shape);
	c->args[c->n_args++] = stk_arg_string("border", borders[call_draw(5)]);
	c->args[c->n_args++] = stk_arg_string("mode", call_draw(3) ? "same" : "valid");
}

static void draw_window(struct call *c, int64_t width, int64_t height, int64_t iterations)
{
	static const char *const borders[] = {"constant", "replicate", "reflect", "reflect_101", "wrap"};
	const int64_t extents[] = {width, height};
	c->n_args = 0;
	int64_t *size = call_ints(c, "mask_size", 2), *anchor = call_ints(c, "anchor", 2);
	for (int i = 0; i < 2; i++) {
		size[i] = extents[i];
		anchor[i] = call_draw(2) ? -1 : (int64_t)call_draw((uint32_t)size[i]);
	}
	call_int(c, "iterations", iterations);
	c->args[c->n_args++] = stk_arg_string("border_mode", borders[call_draw(5)]);
}

static void draw_morphology(struct call *c)
{
	draw_image(c, 20, false);
	int64_t width = 1 + call_draw(7), height = 1 + call_draw(7);
	draw_window(c, width, height, 1 + call_draw(3));
}

/* Draws morphology with windows for which the GPU has special code. */
static void draw_morphology_of_words(struct call *c)
{
	uint32_t iterations = call_draw(3) ? 1 : 2 + call_draw(2), size = iterations > 1 ? 3 : 3 + 2 * call_draw(3);
	draw_words(c);
	draw_window(c, size, size, iterations);
}

static void draw_median_blur(struct call *c)
{
	draw_image(c, 20, false);
	c->n_args = 0;
	int64_t *size = call_ints(c, "window_size", 2);
	for (int i = 0; i < 2; i++)
		size[i] = 1 + 2 * call_draw(3);
}

static void draw_bytes(struct call *c, const char *layout, int64_t channels)
{
	int64_t shape[STK_MAX_DIMS];
	uint32_t most = call_draw(4) ? 40 : 200; /* sometimes large enough for several thread blocks */
	for (size_t d = 0; d < strlen(layout); d++)
		shape[d] = layout[d] == 'C' ? channels : layout[d] == 'F' ? 2 : 1 + call_draw(most);
	call_input(c, STK_UINT8, (int)strlen(layout), shape);
	strcpy(c->in[0].desc.layout, layout);
}

static void draw_equalize(struct call *c)
{
	static const char *const layouts[] = {"HW", "HWC", "CHW", "FHWC"};
	draw_bytes(c, layouts[call_draw(4)], 1 + call_draw(6));
	c->args[c->n_args++] = stk_arg_string("method", call_draw(2) ? "pillow" : "opencv");
}

static void draw_color_jitter(struct call *c)
{
	static const char *const layouts[] = {"HW", "HWC", "FHWC"};
	draw_bytes(c, layouts[call_draw(3)], call_draw(3) ? 3 : 1);
	call_float(c, "brightness", call_draw(3) ? call_draw(30) / 10.0 : 1);
	call_float(c, "contrast", call_draw(3) ? call_draw(30) / 10.0 : 1);
	call_float(c, "saturation", call_draw(3) ? call_draw(30) / 10.0 : 1);
	call_float(c, "hue", call_draw(101) / 100.0 - 0.5);
	double *order = call_floats(c, "order", 4);
	for (int i = 0; i < 4; i++)
		order[i] = call_draw(5);
}

static void draw_adjust_sharpness(struct call *c)
{
	draw_equalize(c);
	c->n_args = 0;
	call_float(c, "factor", call_draw(50) / 10.0);
}

static void draw_augment(struct call *c)
{
	static const char *const layouts[] = {"HW", "HWC", "FHWC"};
	static const double most[] = {0, 1, 1, 9, 9, 180, 2, 2, 2, 2, 8, 255, 0, 0, 0, 110};
	uint32_t operation = call_draw(16);
	double share = call_draw(101) / 100.0;
	draw_bytes(c, layouts[call_draw(3)], call_draw(3) ? 3 : 1);
	call_int(c, "operation", operation);
	call_float(c, "magnitude", most[operation] * (operation < 6 ? 2 * share - 1 : share));
	call_int(c, "interp_type", call_draw(3));
	call_floats(c, "fill_value", 1)[0] = call_draw(256);
}

static void draw_autocontrast(struct call *c)
{
	draw_equalize(c);
	c->n_args = 0;
}

static void draw_clahe(struct call *c)
{
	draw_bytes(c, "HWC", call_draw(2) ? 3 : 1);
	call_int(c, "tiles_x", 1 + call_draw(6));
	call_int(c, "tiles_y", 1 + call_draw(6));
	call_float(c, "clip_limit", call_draw(5));
	c->args[c->n_args++] = stk_arg_int("luma_only", call_draw(2));
}

static void draw_jpeg_compression_distortion(struct call *c)
{
	draw_bytes(c, call_draw(4) ? "HWC" : "FHWC", 3);
	call_int(c, "quality", 1 + call_draw(100));
}

static void draw_debayer(struct call *c)
{
	static const char *const algorithms[] = {"bilinear_ocv", "edgeaware_ocv", "gray_ocv"};
	int64_t shape[] = {1 + call_draw(3), 2 + 2 * call_draw(15), 2 + 2 * call_draw(15)};
	bool frames = call_draw(3) == 0;
	call_input(c, call_draw(2) ? STK_UINT16 : STK_UINT8, 2 + frames, shape + !frames);
	strcpy(c->in[0].desc.layout, frames ? "FHW" : "HW");
	int64_t *blue = call_ints(c, "blue_position", 2);
	blue[0] = call_draw(2);
	blue[1] = call_draw(2);
	c->args[c->n_args++] = stk_arg_string("algorithm", algorithms[call_draw(3)]);
}

static void draw_regions(struct call *c, bool filled)
{
	call_any_input(c);
	int n = c->in[0].desc.ndim, regions = (int)call_draw(4);
	if (n * regions == 0 || n * regions > MAX_INTS)
		return;
	double *anchor = call_floats(c, "anchor", n * regions), *shape = call_floats(c, "shape", n * regions);
	for (int i = 0; i < n * regions; i++) {
		uint32_t extent = (uint32_t)c->in[0].desc.shape[i % n];
		anchor[i] = call_draw(2 * extent + 2) / 2.0 - 1;
		shape[i] = call_draw(3) ? extent : call_draw(2 * extent + 1) / 2.0;
	}
	int channels = n > 1 ? (int)call_draw((uint32_t)n) : -1, fills = channels >= 0 ? (int)c->in[0].desc.shape[channels] : 1;
	fills = fills > 0 && fills < 20 ? fills : 1;
	memcpy(c->in[0].desc.layout, "XYZUVW", (size_t)n);
	if (channels >= 0)
		c->in[0].desc.layout[channels] = 'C';
	double *fill = filled ? call_floats(c, "fill_value", fills) : NULL;
	for (int i = 0; filled && i < fills; i++)
		fill[i] = call_draw(400) - 100.0;
	int64_t *axes = call_ints(c, "axes", n);
	for (int d = 0; d < n; d++)
		axes[d] = d;
}

static void draw_erase(struct call *c)
{
	draw_regions(c, true);
}

static void draw_erase_noise(struct call *c)
{
	draw_regions(c, false);
	call_float(c, "mean", call_draw(90) / 9.0);
	call_float(c, "stddev", call_draw(90) / 9.0);
}

static void draw_lookup_table(struct call *c)
{
	call_any_input(c);
	int n = (int)call_draw(20);
	int64_t *keys = call_ints(c, "keys", n);
	double *values = call_floats(c, "values", n);
	for (int i = 0; i < n; i++) {
		keys[i] = call_draw(2) ? call_draw(30) : call_draw(400);
		values[i] = call_draw(1000) / 4.0 - 50;
	}
	call_float(c, "default_value", 3.5);
	call_int(c, "dtype", call_dtype());
}

static void draw_grid_mask(struct call *c)
{
	draw_image(c, 30, true);
	c->n_args = 0;
	if (strchr(c->in[0].desc.layout, 'D'))
		c->in[0].desc.layout[0] = 'F';
	call_int(c, "tile", 1 + call_draw(20));
	call_float(c, "ratio", call_draw(11) / 10.0);
	call_float(c, "angle", call_draw(2) ? call_draw(60) / 10.0 : 0);
	call_float(c, "shift_x", call_draw(90) / 9.0 - 5);
}

static void draw_noise_gaussian(struct call *c)
{
	call_any_input(c);
	call_float(c, "mean", call_draw(90) / 9.0);
	call_float(c, "stddev", call_draw(90) / 9.0);
}

static void draw_noise_shot(struct call *c)
{
	call_any_input(c);
	call_float(c, "factor", call_draw(5) ? call_draw(90) / 9.0 : 0);
}

static void draw_noise_salt_and_pepper(struct call *c)
{
	draw_image(c, 30, true);
	c->n_args = 0;
	call_float(c, "prob", call_draw(11) / 10.0);
	call_float(c, "salt_vs_pepper", call_draw(11) / 10.0);
	c->args[c->n_args++] = stk_arg_int("per_channel", call_draw(2));
}

const struct call_kind image_kinds[] = {
	{"gaussian_blur", draw_gaussian_blur},
	{"laplacian", draw_laplacian},
	{"filter", draw_filter},
	{"experimental.dilate", draw_morphology},
	{"experimental.erode", draw_morphology},
	{"experimental.dilate", draw_morphology_of_words},
	{"experimental.erode", draw_morphology_of_words},
	{"experimental.median_blur", draw_median_blur},
	{"equalize", draw_equalize},
	{"augment", draw_augment},
	{"autocontrast", draw_autocontrast},
	{"color_jitter", draw_color_jitter},
	{"adjust_sharpness", draw_adjust_sharpness},
	{"clahe", draw_clahe},
	{"jpeg_compression_distortion", draw_jpeg_compression_distortion},
	{"debayer", draw_debayer},
	{"erase", draw_erase},
	{"erase_noise", draw_erase_noise},
	{"lookup_table", draw_lookup_table},
	{"grid_mask", draw_grid_mask},
	{"noise.gaussian", draw_noise_gaussian},
	{"noise.shot", draw_noise_shot},
	{"noise.salt_and_pepper", draw_noise_salt_and_pepper},
};
const size_t n_image_kinds = sizeof image_kinds / sizeof *image_kinds;
