/* SPDX-License-Identifier: Apache-2.0 */
#include "job_calls.h"

#include "base/cpu.h"
#include "kernel/arithmetic/arithmetic.h"
#include "kernel/convert/convert.h"
#include "kernel/filter/filter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct stk_error err;
static uint64_t rng = 3;
uint8_t *space;
size_t used;

static void ok(enum stk_status s)
{
	if (s)
		fail_msg("%s", err.message);
}

uint32_t call_draw(uint32_t n)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((rng >> 33) % n);
}

/* Returns an address for a tensor. The address is aligned for the elements' type, but often for no larger type, as in a batch of images of odd sizes. */
static uint8_t *take(const struct stk_desc *d)
{
	size_t size = stk_dtype_size(d->dtype), aside = call_draw(2) ? size * call_draw(64 / (uint32_t)size) : 0;
	uint8_t *at = space + used + aside;
	used += ((size_t)stk_desc_bytes(d) + aside + 64 + 63) & ~(size_t)63;
	assert_true(used <= SPACE);
	return at;
}

void call_int(struct call *c, const char *name, int64_t v)
{
	c->args[c->n_args++] = stk_arg_int(name, v);
}

void call_float(struct call *c, const char *name, double v)
{
	c->args[c->n_args++] = stk_arg_float(name, v);
}

int64_t *call_ints(struct call *c, const char *name, int n)
{
	c->args[c->n_args] = stk_arg_list(name, STK_VALUE_INTS, c->ints[c->n_args], (size_t)n);
	return c->ints[c->n_args++];
}

double *call_floats(struct call *c, const char *name, int n)
{
	c->args[c->n_args] = stk_arg_list(name, STK_VALUE_FLOATS, c->floats[c->n_args], (size_t)n);
	return c->floats[c->n_args++];
}

static void fill_values(uint8_t *to, enum stk_dtype dtype, int64_t n)
{
	static const double special[] = {
		0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, 255.5, 70000, -70000, 1e10, -1e10, 1e300, INFINITY, -INFINITY, NAN};
	bool whole = dtype != STK_FLOAT && dtype != STK_FLOAT64 && dtype != STK_FLOAT16 && dtype != STK_BFLOAT16;
	size_t size = stk_dtype_size(dtype);
	uint32_t tame = call_draw(3),
		 bits = whole ||
			call_draw(2); /* bits: draws random bits, so that floats include subnormals and values that round or overflow */
	for (int64_t i = 0; i < n; i++) {
		double v = tame ? (double)call_draw(2000) / 64 - (whole ? 0 : 12) : special[call_draw(sizeof special / sizeof *special)];
		if (bits && !tame)
			for (size_t k = 0; k < size; k++)
				to[(size_t)i * size + k] = (uint8_t)(dtype == STK_BOOL ? call_draw(2) : call_draw(256));
		else
			stk__convert(to + (size_t)i * size, dtype, &v, STK_FLOAT64, 1);
	}
}

enum stk_dtype call_dtype(void)
{
	return (enum stk_dtype)call_draw(STK_DTYPE_COUNT);
}

void call_input(struct call *c, enum stk_dtype dtype, int ndim, const int64_t *shape)
{
	struct stk_tensor *t = &c->in[c->call.n_in++];
	*t = (struct stk_tensor){NULL, {.dtype = dtype, .ndim = ndim}};
	memcpy(t->desc.shape, shape, (size_t)ndim * sizeof *shape);
	t->data = take(&t->desc);
	fill_values(t->data, dtype, stk_desc_elements(&t->desc));
}

/* Returns `extent`, or `small` if the tensor would become too large. Multiplies *n, the number of elements, by the result. */
static int64_t within(int64_t *n, int64_t extent, int64_t small)
{
	int64_t taken = *n * extent > 4 * MAX_VALUES ? small : extent;
	*n *= taken;
	return taken;
}

/* Draws a shape with some dimensions of 1 and a few long ones; sometimes of an empty tensor. */
static int draw_shape(int64_t *shape, int most)
{
	int ndim = (int)call_draw((uint32_t)most + 1);
	int64_t n = 1;
	for (int d = 0; d < ndim; d++) {
		uint32_t kind = call_draw(20);
		shape[d] = kind == 0 ? 0 : kind < 4 ? 1 : kind < 6 ? 1 + (int64_t)call_draw(3000) : 1 + (int64_t)call_draw(12);
		if (n * shape[d] > MAX_VALUES)
			shape[d] = 2 * n > MAX_VALUES ? 1 : 1 + (int64_t)call_draw(2);
		n *= shape[d] ? shape[d] : 1; /* counts an empty dimension as 1, since an operand that is broadcast may not have it */
	}
	return ndim;
}

void call_any_input(struct call *c)
{
	int64_t shape[STK_MAX_DIMS];
	int ndim = draw_shape(shape, 6);
	call_input(c, call_dtype(), ndim, shape);
}

/* ---- calls of casts and preemphasis ---- */

static void draw_cast(struct call *c)
{
	call_any_input(c);
	call_int(c, "dtype", call_dtype());
}

static void draw_preemphasis(struct call *c)
{
	static const char *const borders[] = {"zero", "clamp", "reflect"};
	enum stk_dtype to = (enum stk_dtype)call_dtype();
	call_any_input(c);
	c->in[0].desc.dtype = c->in[0].desc.dtype == STK_BOOL ? STK_UINT8 : c->in[0].desc.dtype;
	call_int(c, "dtype", to == STK_BOOL ? STK_FLOAT : to);
	call_float(c, "preemph_coeff", call_draw(200) / 100.0);
	c->args[c->n_args++] = stk_arg_string("border", borders[call_draw(3)]);
}

/* ---- signals ---- */

static void call_floats_of(struct call *c, int ndim)
{
	int64_t shape[4], n = 1;
	for (int d = 0; d < ndim; d++) {
		shape[d] = 1 + call_draw(call_draw(3) ? 12 : 70);
		shape[d] = n * shape[d] > MAX_VALUES ? 1 : shape[d];
		n *= shape[d];
	}
	call_input(c, STK_FLOAT, ndim, shape);
}

static void draw_spectrogram(struct call *c)
{
	int64_t n = 1 + call_draw(call_draw(3) ? 300 : 3000), window = 1 + call_draw(call_draw(2) ? 40 : 500);
	call_input(c, STK_FLOAT, 1, &n);
	call_int(c, "window_length", window);
	call_int(c, "window_step", 1 + call_draw(60));
	if (window <= 512 && call_draw(3) == 0)
		call_int(c, "nfft", 512); /* for 512 the GPU has a special kernel */
	else if (call_draw(2))
		call_int(c, "nfft", window + call_draw(call_draw(10) ? 40 : 4000));
	call_int(c, "power", 1 + call_draw(2));
	c->args[c->n_args++] = stk_arg_bool("center_windows", call_draw(2));
	c->args[c->n_args++] = stk_arg_bool("reflect_padding", call_draw(2));
	c->args[c->n_args++] = stk_arg_string("layout", call_draw(2) ? "ft" : "tf");
}

static void draw_power_spectrum(struct call *c)
{
	int ndim = 1 + (int)call_draw(3);
	call_floats_of(c, ndim);
	call_int(c, "axis", call_draw((uint32_t)ndim));
	if (call_draw(2))
		call_int(c, "nfft", call_draw(3) ? 1 + call_draw(100) : 512);
	call_int(c, "power", 1 + call_draw(2));
}

static void draw_mel(struct call *c)
{
	/* The more bins a spectrogram has, the fewer of its frames fit into a tile of the GPU. */
	const int64_t spectrogram[] = {1 + call_draw(1500), 6 + call_draw(40)};
	if (call_draw(4))
		call_floats_of(c, 1 + (int)call_draw(4));
	else
		call_input(c, STK_FLOAT, 2, spectrogram);
	call_int(c, "nfilter", 1 + call_draw(50));
	call_float(c, "sample_rate", 1 + call_draw(48000));
	c->args[c->n_args++] = stk_arg_string("mel_formula", call_draw(2) ? "slaney" : "htk");
}

static void draw_mfcc(struct call *c)
{
	int ndim = 1 + (int)call_draw(3);
	call_floats_of(c, ndim);
	call_int(c, "axis", call_draw((uint32_t)ndim));
	call_int(c, "n_mfcc", 1 + call_draw(30));
	call_int(c, "dct_type", 2 + call_draw(3));
	call_float(c, "lifter", call_draw(30));
}

static void draw_decibels(struct call *c)
{
	call_floats_of(c, (int)call_draw(4));
	call_float(c, "multiplier", 1 + call_draw(20));
	call_float(c, "reference", call_draw(2) ? 0 : call_draw(100) / 10.0);
	call_float(c, "cutoff_db", -(double)call_draw(500));
}

static void draw_resample(struct call *c)
{
	static const enum stk_dtype types[] = {STK_FLOAT, STK_INT8, STK_UINT8, STK_INT16, STK_UINT16, STK_INT32, STK_UINT32};
	int64_t shape[] = {1 + call_draw(1000), 1 + call_draw(3)};
	call_input(c, types[call_draw(7)], 1 + (int)call_draw(2), shape);
	call_int(c, "dtype", types[call_draw(7)]);
	call_float(c, "quality", call_draw(101));
	if (call_draw(2))
		call_int(c, "out_length", call_draw(2000));
	else if (call_draw(2))
		call_float(c, "scale", call_draw(300) / 100.0);
	else {
		call_float(c, "in_rate", 1 + call_draw(200));
		call_float(c, "out_rate", 1 + call_draw(200));
	}
}

static void draw_plain(struct call *c)
{
	call_any_input(c);
}

static void draw_transpose(struct call *c)
{
	call_any_input(c);
	int n = c->in[0].desc.ndim;
	int64_t *perm = call_ints(c, "perm", n);
	for (int d = 0; d < n; d++) {
		int at = (int)call_draw((uint32_t)d + 1);
		perm[d] = perm[at];
		perm[at] = d;
	}
}

static void draw_slice(struct call *c)
{
	call_any_input(c);
	int n = c->in[0].desc.ndim;
	int64_t *axes = call_ints(c, "axes", n), *start = call_ints(c, "start", n), *shape = call_ints(c, "shape", n), values = 1;
	for (int d = 0; d < n; d++) {
		axes[d] = d;
		start[d] = (int64_t)call_draw((uint32_t)c->in[0].desc.shape[d] + 4) - 2;
		shape[d] = within(&values, (int64_t)call_draw((uint32_t)c->in[0].desc.shape[d] + 4), 1);
	}
	c->args[c->n_args++] = stk_arg_string("out_of_bounds_policy", call_draw(3) ? "pad" : "trim_to_shape");
	call_floats(c, "fill_values", 1)[0] = call_draw(300);
	if (call_draw(2))
		call_int(c, "dtype", call_dtype());
}

static void draw_channel_fills(struct call *c)
{
	int64_t shape[3] = {1 + call_draw(9), 1 + call_draw(9), 1 + call_draw(5)};
	call_input(c, call_dtype(), 3, shape);
	strcpy(c->in[0].desc.layout, "HWC");
	int64_t *start = call_ints(c, "start", 2), *extent = call_ints(c, "shape", 2);
	double *fill = call_floats(c, "fill_values", (int)shape[2]);
	for (int i = 0; i < 2; i++) {
		start[i] = (int64_t)call_draw(6) - 3;
		extent[i] = 1 + call_draw(12);
	}
	for (int i = 0; i < shape[2]; i++)
		fill[i] = call_draw(100);
	c->args[c->n_args++] = stk_arg_string("out_of_bounds_policy", "pad");
}

static void draw_subscript(struct call *c)
{
	call_any_input(c);
	int n = (int)call_draw((uint32_t)c->in[0].desc.ndim + 1);
	int64_t *kinds = call_ints(c, "kinds", n), *lo = call_ints(c, "lo", n), *hi = call_ints(c, "hi", n),
		*step = call_ints(c, "step", n);
	for (int d = 0; d < n; d++) {
		uint32_t extent = (uint32_t)c->in[0].desc.shape[d];
		kinds[d] = extent ? call_draw(3) : 2;
		lo[d] = kinds[d] == 0 ? call_draw(extent) : call_draw(3) ? (int64_t)call_draw(2 * extent + 1) - extent : STK_INT_UNSET;
		hi[d] = call_draw(3) ? (int64_t)call_draw(2 * extent + 1) - extent : STK_INT_UNSET;
		step[d] = (int64_t)call_draw(9) - 4;
		step[d] = step[d] ? step[d] : 1;
	}
}

static void draw_pad(struct call *c)
{
	call_any_input(c);
	int n = c->in[0].desc.ndim;
	int64_t *shape = call_ints(c, "shape", n), values = 1;
	for (int d = 0; d < n; d++)
		shape[d] = within(&values, c->in[0].desc.shape[d] ? c->in[0].desc.shape[d] + call_draw(3) : 0, c->in[0].desc.shape[d]);
	call_float(c, "fill_value", (double)call_draw(300) - 20);
}

static void draw_stack(struct call *c)
{
	call_any_input(c);
	struct stk_desc first = c->in[0].desc;
	for (uint32_t n = call_draw(4); n > 0; n--)
		call_input(c, first.dtype, first.ndim, first.shape);
	call_int(c, "axis", call_draw((uint32_t)first.ndim + 1));
}

static void draw_flip(struct call *c)
{
	int64_t shape[4] = {1 + call_draw(5), 1 + call_draw(9), 1 + call_draw(9), 1 + call_draw(4)};
	call_input(c, call_dtype(), 4, shape);
	strcpy(c->in[0].desc.layout, "DHWC");
	call_int(c, "depthwise", call_draw(2));
	call_int(c, "vertical", call_draw(2));
	call_int(c, "horizontal", call_draw(2));
}

static void draw_one_hot(struct call *c)
{
	int64_t shape[STK_MAX_DIMS];
	int ndim = draw_shape(shape, 3);
	while (ndim > 0 && shape[0] * (ndim > 1 ? shape[1] : 1) * (ndim > 2 ? shape[2] : 1) > 400)
		ndim--;
	call_input(c, call_dtype(), ndim, shape);
	call_int(c, "num_classes", 1 + call_draw(20));
	if (call_draw(2))
		call_int(c, "axis", call_draw((uint32_t)ndim + 1));
	call_float(c, "on_value", (double)call_draw(100) / 8);
	call_float(c, "off_value", -(double)call_draw(100) / 8);
	call_int(c, "dtype", call_dtype());
}

static void draw_normalize(struct call *c)
{
	call_any_input(c);
	const struct stk_desc *in = &c->in[0].desc;
	int64_t axes[STK_MAX_DIMS], groups = 1;
	int n = 0;
	for (int d = 0; d < in->ndim; d++)
		if (call_draw(2))
			axes[n++] = d;
		else
			groups *= in->shape[d];
	memcpy(call_ints(c, "axes", n), axes, sizeof axes);
	if (call_draw(3) == 0)
		for (int i = 0, m = groups <= MAX_INTS && call_draw(2) ? (int)groups : 1; i < m; i++)
			(i ? c->floats[c->n_args - 1] : call_floats(c, "mean", m))[i] = (double)call_draw(100) - 20;
	if (call_draw(3) == 0)
		for (int i = 0, m = groups <= MAX_INTS && call_draw(2) ? (int)groups : 1; i < m; i++)
			(i ? c->floats[c->n_args - 1] : call_floats(c, "stddev", m))[i] = (double)call_draw(100) / 8;
	call_int(c, "ddof", call_draw(3));
	call_float(c, "epsilon", call_draw(2) ? 0 : 0.25);
	call_float(c, "scale", (double)call_draw(100) / 8);
	call_float(c, "shift", (double)call_draw(100) - 50);
	call_int(c, "dtype", call_dtype());
}

/* Draws the axes to reduce; returns the number of groups. */
static int64_t draw_reduced(struct call *c)
{
	const struct stk_desc *in = &c->in[0].desc;
	int64_t axes[STK_MAX_DIMS], groups = 1;
	int n = 0;
	for (int d = 0; d < in->ndim; d++)
		if (call_draw(2))
			axes[n++] = d;
		else
			groups *= in->shape[d];
	memcpy(call_ints(c, "axes", n), axes, sizeof axes);
	c->args[c->n_args++] = stk_arg_bool("keep_dims", call_draw(2));
	return groups;
}

static void draw_reduction(struct call *c)
{
	call_any_input(c);
	draw_reduced(c);
	enum stk_dtype in = c->in[0].desc.dtype;
	bool extreme = strcmp(c->title, "reductions.min") == 0 || strcmp(c->title, "reductions.max") == 0;
	if (!extreme && call_draw(2))
		call_int(c, "dtype", call_draw(2) ? (int)in : call_draw(2) ? STK_FLOAT : call_draw(2) ? STK_INT64 : STK_UINT64);
}

/* Fills a tensor with numbers whose sum depends on the order of additions. */
static void draw_long_sum(struct call *c)
{
	call_input(c, STK_FLOAT64, 2, (const int64_t[]){1000 + call_draw(2000), 1 + call_draw(4)});
	for (int64_t i = 0, n = stk_desc_elements(&c->in[0].desc); i < n; i++)
		((double *)c->in[0].data)[i] = (double)call_draw(1 << 30) / 3 - 1e8;
	call_ints(c, "axes", 1)[0] = call_draw(2);
}

static void draw_deviation(struct call *c)
{
	call_any_input(c);
	int64_t groups = draw_reduced(c);
	call_input(c, STK_FLOAT, 1, &(int64_t){call_draw(2) ? groups : 1});
	call_int(c, "ddof", call_draw(4));
}

static void draw_points(struct call *c)
{
	static const enum stk_dtype types[] = {STK_UINT8, STK_UINT16, STK_INT16, STK_INT32, STK_FLOAT};
	enum stk_dtype dtype = types[call_draw(5)];
	int n = 1 + (int)call_draw(6), m = 1 + (int)call_draw(6);
	call_input(c, dtype, 3, (int64_t[3]){call_draw(4), call_draw(200), n});
	double *matrix = call_floats(c, "MT", m * (n + 1));
	for (int i = 0; i < m * (n + 1); i++)
		matrix[i] = (double)call_draw(400) / 64 - 3;
	call_int(c, "dtype", call_draw(2) ? dtype : STK_FLOAT);
}

/* Draws a map of points, or of boxes with two points each. */
static void draw_affine_points(struct call *c)
{
	int64_t n = 1 + call_draw(6), boxes = call_draw(3) != 0;
	call_input(c, STK_FLOAT, 3, (int64_t[3]){call_draw(4), call_draw(200), n * (boxes ? 2 : 1) * (1 + call_draw(2))});
	call_input(c, STK_FLOAT, 2, (int64_t[2]){n, n + 1});
	call_int(c, "boxes", boxes);
	call_int(c, "linear", call_draw(4) == 0);
}

/* Draws a warp of a volume, or of an image whose type passes do not support. */
static void draw_warp(struct call *c)
{
	int volume = (int)call_draw(2), n = volume ? 3 : 2;
	int64_t shape[5] = {1 + call_draw(2), 1 + call_draw(6), 1 + call_draw(9), 1 + call_draw(9), 1 + call_draw(4)};
	enum stk_dtype dtype = call_dtype();
	if (!volume)
		memmove(shape + 1, shape + 2, 3 * sizeof *shape);
	call_input(c, dtype, n + 2, shape);
	strcpy(c->in[0].desc.layout, volume ? "FDHWC" : "FHWC");
	double *matrix = call_floats(c, "matrix", n * (n + 1)), *size = call_floats(c, "size", n);
	for (int i = 0; i < n * (n + 1); i++)
		matrix[i] = (double)call_draw(200) / 64 - 1.5;
	for (int i = 0; i < n; i++)
		size[i] = 1 + call_draw(9);
	call_int(c, "interp_type", call_draw(2));
	if (call_draw(2))
		call_float(c, "fill_value", (double)call_draw(300) - 20);
	call_int(c, "dtype", dtype == STK_FLOAT ? call_dtype() : call_draw(2) ? dtype : STK_FLOAT);
}

static void draw_displaced(struct call *c)
{
	int64_t shape[3] = {1 + call_draw(12), 1 + call_draw(12), 1 + call_draw(4)};
	call_input(c, call_draw(2) ? STK_UINT8 : STK_FLOAT, 3, shape);
	strcpy(c->in[0].desc.layout, "HWC");
	call_int(c, "interp_type", call_draw(2));
	call_float(c, "fill_value", call_draw(300));
}

static void draw_perspective(struct call *c)
{
	static const enum stk_dtype types[] = {STK_UINT8, STK_UINT16, STK_INT16, STK_FLOAT};
	static const char *const borders[] = {"constant", "replicate", "reflect", "reflect_101", "wrap"}, *const layouts[] = {
														  "FHWC", "FCHW"};
	bool seen = call_draw(2); /* whether the warp reads most of an image that is larger than its output */
	uint32_t most = seen ? 40 : 9;
	call_input(c, types[call_draw(4)], 4,
		(int64_t[4]){1 + call_draw(2), 1 + call_draw(most), 1 + call_draw(most), 1 + call_draw(seen ? 4 : 9)});
	strcpy(c->in[0].desc.layout, layouts[!seen && call_draw(2)]);
	double *matrix = call_floats(c, "matrix", 9), *size = call_floats(c, "size", 2);
	for (int i = 0; i < 9; i++)
		matrix[i] = seen ? (i % 4 == 0) + (double)call_draw(64) / 4096 : (double)call_draw(200) / 64 - 1.5;
	size[0] = call_draw(most), size[1] = 1 + call_draw(most);
	if (call_draw(2))
		call_float(c, "fill_value", (double)call_draw(300) - 20 + call_draw(2) / 4.0);
	call_int(c, "interp_type", call_draw(3));
	c->args[c->n_args++] = stk_arg_string("border_mode", borders[call_draw(5)]);
	c->args[c->n_args++] = stk_arg_string("pixel_origin", call_draw(2) ? "center" : "corner");
}

static void draw_tensor_resize(struct call *c)
{
	static const enum stk_dtype types[] = {STK_UINT8, STK_UINT16, STK_INT16, STK_FLOAT16, STK_FLOAT};
	int64_t shape[4];
	for (int d = 0; d < 4; d++)
		shape[d] = 1 + call_draw(call_draw(4) ? 10 : 40);
	call_input(c, types[call_draw(5)], 4, shape);
	int n = 1 + (int)call_draw(3), first = (int)call_draw(4);
	int64_t *axes = call_ints(c, "axes", n);
	double *sizes = call_floats(c, "sizes", n);
	for (int i = 0; i < n; i++) {
		axes[i] = (first + i) % 4;
		sizes[i] = (call_draw(2) ? 1 : -1) * (double)(1 + call_draw(20)) - (double)call_draw(4) / 8;
	}
	call_int(c, "interp_type", call_draw(6));
	if (call_draw(2))
		call_int(c, "dtype", STK_FLOAT);
}

static void draw_maps(struct call *c)
{
	call_input(c, call_draw(2) ? STK_UINT8 : STK_FLOAT, 3, (int64_t[3]){1 + call_draw(12), 1 + call_draw(12), 1 + call_draw(4)});
	strcpy(c->in[0].desc.layout, "HWC");
	int64_t shape[2] = {call_draw(9), 1 + call_draw(9)};
	call_input(c, STK_FLOAT, 2, shape);
	call_input(c, STK_FLOAT, 2, shape);
	call_int(c, "interp", call_draw(3));
}

static const char *const functions[] = {
#define BINARY(name, kind, whole, real) #name,
#define UNARY(name, kind, whole, real) #name,
#include "kernel/arithmetic/arithmetic_ops.h"
};

static bool binary(const char *name)
{
#define BINARY(function, kind, whole, real)                                                                                                \
	if (strcmp(name, #function) == 0)                                                                                                  \
		return true;
#include "kernel/arithmetic/arithmetic_ops.h"
	return false;
}

static void draw_arithmetic(struct call *c)
{
	c->title = functions[call_draw(STK_ARITH_OPS)];
	c->args[c->n_args++] = stk_arg_string("op", c->title);
	call_any_input(c);
	if (!binary(c->title))
		return;
	/* The second operand has the same shape, or one that broadcasts, or a single value. */
	struct stk_desc other = c->in[0].desc;
	int cut = (int)call_draw((uint32_t)other.ndim + 1);
	for (int d = cut; d < other.ndim; d++)
		other.shape[d - cut] = call_draw(3) ? other.shape[d] : 1;
	call_input(c, call_dtype(), other.ndim - cut, other.shape);
	if (call_draw(2)) {
		struct stk_tensor t = c->in[0];
		c->in[0] = c->in[1];
		c->in[1] = t;
	}
}

static const struct call_kind kinds[] = {
	{"cast", draw_cast},
	{"preemphasis_filter", draw_preemphasis},
	{"spectrogram", draw_spectrogram},
	{"power_spectrum", draw_power_spectrum},
	{"mel_filter_bank", draw_mel},
	{"mfcc", draw_mfcc},
	{"to_decibels", draw_decibels},
	{"audio_resample", draw_resample},
	{"copy", draw_plain},
	{"reshape", draw_plain},
	{"transpose", draw_transpose},
	{"slice", draw_slice},
	{"slice", draw_channel_fills},
	{"_subscript", draw_subscript},
	{"pad", draw_pad},
	{"stack", draw_stack},
	{"flip", draw_flip},
	{"one_hot", draw_one_hot},
	{"normalize", draw_normalize},
	{"normalize", draw_normalize},
	{"reductions.sum", draw_reduction},
	{"reductions.mean", draw_reduction},
	{"reductions.mean_square", draw_reduction},
	{"reductions.rms", draw_reduction},
	{"reductions.min", draw_reduction},
	{"reductions.max", draw_reduction},
	{"reductions.sum", draw_long_sum},
	{"reductions.variance", draw_deviation},
	{"reductions.std_dev", draw_deviation},
	{"coord_transform", draw_points},
	{"affine_points", draw_affine_points},
	{"warp_affine", draw_warp},
	{"experimental.warp_perspective", draw_perspective},
	{"experimental.remap", draw_maps},
	{"tensor_resize", draw_tensor_resize},
	{"sphere", draw_displaced},
	{"water", draw_displaced},
	{"jitter", draw_displaced},
	{"_arithmetic", draw_arithmetic},
	{"_arithmetic", draw_arithmetic},
	{"_arithmetic", draw_arithmetic},
	{"_arithmetic", draw_arithmetic},
};

/* ---- running a call ---- */

bool call_open(struct call *c)
{
	*c = (struct call){0};
	bool image = call_draw(3) == 0;
	const struct call_kind *kind =
		image ? &image_kinds[call_draw((uint32_t)n_image_kinds)] : &kinds[call_draw(sizeof kinds / sizeof *kinds)];
	const struct stk_op_def *def = stk__op_find(kind->op);
	assert_non_null(def);
	c->title = kind->op;
	kind->draw(c);
	ok(stk_graph_create(&c->g, &err));
	void *values = stk__graph_alloc(c->g, def->args_size + 1);
	struct stk_arg_def a;
	for (int32_t k = 0; stk__op_arg_at(def, k, &a); k++) {
		ok(stk__arg_set_default(c->g, &a, values, &err));
		for (int i = 0; i < c->n_args; i++)
			if (strcmp(c->args[i].name, a.name) == 0)
				ok(stk__arg_set(c->g, &a, &c->args[i], values, &err));
	}
	stk__arena_init(&c->arena);
	c->tools.arena = c->tools.cpu_jobs.arena = &c->arena;
	c->out = (struct stk_tensor){0};
	c->tools.cpu_jobs.cpu = call_draw(2) ? stk__cpu_capabilities() : 0;
	int32_t n_in = c->call.n_in;
	c->call = (struct stk_call){
		.def = def, .args = values, .in = c->in, .out = &c->out, .n_in = n_in, .n_out = 1, .state = c->state, .tools = &c->tools};
	c->call.random = stk__random(call_draw(1000), call_draw(1000), call_draw(9), call_draw(100000));
	void *shared = NULL;
	if (def->setup)
		ok(def->setup(values, &shared, &err));
	c->call.shared = shared;
	if (def->infer(&c->call, &err) || c->out.data) /* the call was refused, or the output is a view of the input, so that nothing
	                                                * has to run */
		return false;
	size_t bytes = (size_t)stk_desc_bytes(&c->out.desc);
	c->out.data = take(&c->out.desc);
	memset(c->out.data, 0xa5, bytes + 64);
	c->want = malloc(bytes + 64);
	memset(c->want, 0xa5, bytes + 64);
	void *place = c->out.data;
	c->out.data = c->want;
	c->status = stk__op_run(&c->call, &err);
	c->out.data = place;
	return true;
}

void call_close(struct call *c)
{
	stk__arena_destroy(&c->arena);
	if (c->call.def->teardown)
		c->call.def->teardown((void *)c->call.shared);
	stk_graph_destroy(c->g);
	free(c->want);
}
