/* SPDX-License-Identifier: Apache-2.0
 * Passes: compares the resize with a slow reference in double, every chain of operations with separate operations, and the plain kernels with the SIMD
 * kernels, for random shapes, types and layouts. The memory of a source holds only the part that the pass claims to read. */
#include "test.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "draws.h"
#include "kernel/convert/convert.h"
#include "kernel/pass/pass.h"
#include "kernel/pass/pass_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CANARY = 64 };

/* An image in its own memory, with random padding between rows and pixels, and guard bytes (or garbage) around it. */
struct picture {
	uint8_t *memory;
	size_t bytes;
	struct stk_image image;
};

static struct picture picture_make(enum stk_dtype dtype, int32_t w, int32_t h, int32_t c, int layout)
{
	struct picture p;
	ptrdiff_t size = (ptrdiff_t)stk_dtype_size(dtype), gap = between(0, 3) * size;
	p.image = layout == 1 ? stk__image_chw(NULL, dtype, w, h, c) : stk__image_hwc(NULL, dtype, w, h, c);
	if (layout == 1) {
		p.image.row += gap;
		p.image.channel = p.image.row * h;
	} else if (layout == 2) {
		p.image.pixel += size * between(0, 2);
		p.image.row = p.image.pixel * w + gap;
	} else {
		p.image.row += gap;
	}
	p.bytes = (size_t)(layout == 1 ? p.image.channel * c : p.image.row * h) + 2 * CANARY;
	p.memory = malloc(p.bytes);
	memset(p.memory, 0xa5, p.bytes);
	p.image.data = p.memory + CANARY;
	return p;
}

static uint8_t *at(const struct picture *p, int32_t x, int32_t y, int32_t c)
{
	return (uint8_t *)p->image.data + y * p->image.row + x * p->image.pixel + c * p->image.channel;
}

static void picture_randomize(struct picture *p)
{
	size_t size = stk_dtype_size(p->image.dtype);
	for (int32_t y = 0; y < p->image.height; y++)
		for (int32_t x = 0; x < p->image.width; x++)
			for (int32_t c = 0; c < p->image.channels; c++) {
				float value =
					(float)(next() % 256) - (p->image.dtype == STK_INT8 || p->image.dtype == STK_INT16 ? 128.0f : 0.0f);
				if (p->image.dtype == STK_FLOAT)
					value *= 1.3f;
				if (size == 8 || p->image.dtype == STK_UINT32 || p->image.dtype == STK_INT32)
					for (size_t i = 0; i < size; i++)
						at(p, x, y, c)[i] = (uint8_t)next();
				else
					stk__convert(at(p, x, y, c), p->image.dtype, &value, STK_FLOAT, 1);
			}
}

/* Returns whether both images have equal pixels; if not, prints the first difference. */
static bool same(const struct picture *a, const struct picture *b)
{
	size_t size = stk_dtype_size(a->image.dtype);
	for (int32_t y = 0; y < a->image.height; y++)
		for (int32_t x = 0; x < a->image.width; x++)
			for (int32_t c = 0; c < a->image.channels; c++)
				if (memcmp(at(a, x, y, c), at(b, x, y, c), size) != 0) {
					print_message("at x %d y %d c %d: %02x %02x\n", x, y, c, *at(a, x, y, c), *at(b, x, y, c));
					return false;
				}
	return true;
}

static void check_canaries(struct picture *p)
{
	size_t size = stk_dtype_size(p->image.dtype);
	for (int32_t y = 0; y < p->image.height; y++)
		for (int32_t x = 0; x < p->image.width; x++)
			for (int32_t c = 0; c < p->image.channels; c++)
				memset(at(p, x, y, c), 0xa5, size);
	for (size_t i = 0; i < p->bytes; i++)
		if (p->memory[i] != 0xa5)
			fail_msg("seed %llu: byte %zd outside the pixels is written", (unsigned long long)seed, (ptrdiff_t)i - CANARY);
}

/* Runs the pass on a copy of that part of the source which the pass claims to read. Random bytes follow the copy. Checks that nothing after the scratch
 * memory is written. */
static void run(const struct stk_pass *p, unsigned cpu, const struct picture *src, const struct picture *dst)
{
	struct stk_rect need = stk__pass_source(p);
	assert_true(need.w >= 0 && need.h >= 0);
	assert_true(!need.w || !need.h || (need.x >= 0 && need.y >= 0 && need.x + need.w <= p->in_w && need.y + need.h <= p->in_h));
	size_t size = stk_dtype_size(src->image.dtype);
	struct picture part = *src;
	ptrdiff_t row = (src->image.channel == (ptrdiff_t)size || src->image.channels == 1 ? src->image.pixel : (ptrdiff_t)size) * need.w;
	bool planar = src->image.pixel == (ptrdiff_t)size && src->image.channels > 1;
	part.image.row = row;
	part.image.channel = planar ? row * need.h : src->image.channel;
	part.bytes = (size_t)(planar ? part.image.channel * src->image.channels : row * need.h);
	part.memory = malloc(part.bytes + STK_ARENA_SLACK);
	for (size_t i = 0; i < part.bytes + STK_ARENA_SLACK; i++)
		part.memory[i] = (uint8_t)next();
	part.image.data = part.memory;
	part.image.width = need.w;
	part.image.height = need.h;
	for (int32_t y = 0; y < need.h; y++)
		for (int32_t x = 0; x < need.w; x++)
			for (int32_t c = 0; c < src->image.channels; c++)
				memcpy(at(&part, x, y, c), at(src, x + need.x, y + need.y, c), size);
	size_t bytes = stk__pass_scratch(p);
	uint8_t *scratch = aligned_alloc(64, (bytes + 2 * CANARY + 63) & ~(size_t)63);
	memset(scratch, 0xff, bytes + 2 * CANARY); /* uninitialised scratch memory reads as NaN */
	struct stk_pass_kernels kernels = stk__pass_kernels(cpu);
	stk__pass_run(p, &kernels, &part.image, need.x, need.y, &dst->image, scratch);
	for (size_t i = bytes; i < bytes + 2 * CANARY; i++)
		if (scratch[i] != 0xff)
			fail_msg("seed %llu: scratch byte %zu of %zu is written", (unsigned long long)seed, i, bytes);
	free(scratch);
	free(part.memory);
}

/* ---- the resize's reference ---- */
static double curve(int filter, double x)
{
	double a = fabs(x), pi = 3.14159265358979323846;
	switch (filter) {
	case STK_INTERP_GAUSSIAN:
		return exp(-x * x);
	case STK_INTERP_CUBIC:
		return a >= 2 ? 0 : a > 1 ? -0.5 * a * a * a + 2.5 * a * a - 4 * a + 2 : 1.5 * a * a * a - 2.5 * a * a + 1;
	case STK_INTERP_LANCZOS3:
		return a >= 3 ? 0 : a < 1e-9 ? 1 : sin(pi * a) / (pi * a) * sin(pi * a / 3) / (pi * a / 3);
	default:
		return a < 1 ? 1 - a : 0;
	}
}

/* Returns the filter's curve at x. As in the library, it is interpolated between 32 samples per unit (16 for the Gaussian, which ends at 2). After the last
 * sample it falls to 0 within one sample's distance. */
static double sampled_curve(int filter, double x)
{
	double density = filter == STK_INTERP_GAUSSIAN ? 16 : 32, radius = filter == STK_INTERP_LANCZOS3 ? 3 : 2;
	if (filter == STK_INTERP_LINEAR || filter == STK_INTERP_TRIANGULAR)
		return curve(filter, x);
	if (x < -radius || x * density >= radius * density + 1)
		return 0;
	double left = floor(x * density);
	double f0 = curve(filter, left / density), f1 = left + 1 > radius * density ? 0 : curve(filter, (left + 1) / density);
	return f0 + (x * density - left) * (f1 - f0);
}

static void reference_axis(const struct stk_resize *r, bool vertical, int32_t in, int32_t k, double *weights)
{
	double begin = vertical ? r->roi_y0 : r->roi_x0, end = vertical ? r->roi_y1 : r->roi_x1;
	int32_t out = vertical ? r->out_h : r->out_w;
	double scale = (end - begin) / out, extent = fabs(end - begin), centre = begin + (k + 0.5) * scale - 0.5;
	int filter = out < extent ? r->min_filter : r->mag_filter;
	double shrink = r->antialias && extent > out ? extent / out : 1, sum = 0;
	for (int32_t i = 0; i < in; i++)
		weights[i] = 0;
	if (filter == STK_INTERP_NN) {
		int32_t i = (int32_t)floor(centre + 0.5);
		weights[i < 0 ? 0 : i >= in ? in - 1 : i] = 1;
		return;
	}
	double stretch = filter == STK_INTERP_GAUSSIAN ? shrink / 2 : shrink;
	double radius = shrink * (filter == STK_INTERP_LANCZOS3 ? 3 : filter == STK_INTERP_CUBIC ? 2 : 1);
	int32_t first = (int32_t)ceil(centre - radius), taps = (int32_t)ceil(2 * radius);
	for (int32_t i = first; i < first + taps; i++) {
		int32_t inside = i < 0 ? 0 : i >= in ? in - 1 : i;
		if (r->drop && i != inside)
			continue;
		double w = sampled_curve(filter, (i - centre) / stretch);
		weights[inside] += w;
		sum += w;
	}
	for (int32_t i = 0; i < in; i++)
		weights[i] /= sum;
}

static void one_resize(double *equal_share, double *worst)
{
	int32_t w = between(1, 90), h = between(1, 90), c = between(1, 4), ow = between(1, 70), oh = between(1, 70);
	/* The Gaussian is cut off at a value that is not 0. So positions exactly on a pixel's edge are not compared here, but in the parity tests. */
	int filter = between(1, 5), other = next() % 3 ? filter : between(1, 5);
	bool whole = next() % 2;
	struct stk_resize r = {ow, oh, 0, 0, (float)w, (float)h, (uint8_t)filter, (uint8_t)other, next() % 2, next() % 4 == 0,
		next() % 2 ? STK_UINT8 : STK_FLOAT};
	if (!whole || filter == STK_INTERP_GAUSSIAN || other == STK_INTERP_GAUSSIAN) {
		r.roi_x0 = uniform(-2, (float)w), r.roi_x1 = uniform(-2, (float)w + 2) + 0.0137f;
		r.roi_y0 = uniform(-2, (float)h), r.roi_y1 = uniform(-2, (float)h + 2) + 0.0173f;
		r.drop = 0; /* with `drop`, taps outside of the image are ignored, and here they might be all taps */
	}
	struct picture src = picture_make(STK_UINT8, w, h, c, (int)next() % 3);
	picture_randomize(&src);
	struct picture dst = picture_make((enum stk_dtype)r.dtype, ow, oh, c, 0);
	struct stk_pass p;
	stk__pass_begin(&p, STK_UINT8, w, h, c);
	stk__pass_resize(&p, &r);
	run(&p, stk__cpu_capabilities(), &src, &dst);
	double *wx = malloc(sizeof *wx * (size_t)w * (size_t)ow), wy[128], equal = 0, total = (double)ow * oh * c;
	*worst = 0;
	for (int32_t x = 0; x < ow; x++)
		reference_axis(&r, false, w, x, wx + x * w);
	for (int32_t y = 0; y < oh; y++) {
		reference_axis(&r, true, h, y, wy);
		for (int32_t x = 0; x < ow; x++)
			for (int32_t k = 0; k < c; k++) {
				double want = 0;
				for (int32_t i = 0; i < h; i++)
					for (int32_t j = 0; wy[i] != 0 && j < w; j++)
						want += wy[i] * wx[x * w + j] * *at(&src, j, i, k);
				double got = r.dtype == STK_FLOAT ? *(float *)(void *)at(&dst, x, y, k) : *at(&dst, x, y, k);
				if (r.dtype == STK_UINT8)
					want = want < 0 ? 0 : want > 255 ? 255 : nearbyint(want); /* rounds halves to even */
				double off = fabs(want - got);
				equal += off < (r.dtype == STK_UINT8 ? 0.5 : 0.02);
				*worst = off > *worst ? off : *worst;
			}
	}
	*equal_share = equal / total;
	if (*worst > (r.dtype == STK_UINT8 ? 1.0 : 0.1))
		fail_msg("%dx%dx%d to %dx%d filters %d %d roi %g %g %g %g antialias %d drop %d dtype %d: off by %g", w, h, c, ow, oh,
			filter, other, r.roi_x0, r.roi_y0, r.roi_x1, r.roi_y1, r.antialias, r.drop, r.dtype, *worst);
	free(wx);
	check_canaries(&dst);
	free(src.memory);
	free(dst.memory);
}

static void test_resize_equals_reference(void **state)
{
	(void)state;
	double sum = 0;
	enum { ROUNDS = 400 };
	for (int i = 0; i < ROUNDS; i++) {
		double equal, worst;
		seed = (uint64_t)i + 1000;
		one_resize(&equal, &worst);
		sum += equal;
	}
	print_message("equal: %.4f of all values\n", sum / ROUNDS);
	assert_true(sum / ROUNDS >= 0.99);
}

/* At scales whose weights are exact, results are rounded exactly as in the reference, with halves to even. */
static void test_exact_scales_are_exact(void **state)
{
	(void)state;
	static const int sizes[][2] = {{64, 32}, {32, 64}, {48, 48}, {33, 33}, {96, 64}, {45, 15}, {20, 80}};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int antialias = 0; antialias < 2; antialias++)
			for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
				int32_t w = sizes[i][0], h = sizes[k][0], ow = sizes[i][1], oh = sizes[k][1];
				if (antialias && (w % ow || h % oh || w > 2 * ow || h > 2 * oh) && (w > ow || h > oh))
					continue; /* weights such as 1/3 cannot be represented exactly */
				struct stk_resize r = {ow, oh, 0, 0, (float)w, (float)h, STK_INTERP_LINEAR, STK_INTERP_LINEAR,
					(uint8_t)antialias, 0, STK_UINT8};
				seed = i * 100 + k;
				struct picture src = picture_make(STK_UINT8, w, h, 3, 0), dst = picture_make(STK_UINT8, ow, oh, 3, 0);
				picture_randomize(&src);
				struct stk_pass p;
				stk__pass_begin(&p, STK_UINT8, w, h, 3);
				stk__pass_resize(&p, &r);
				run(&p, stk__cpu_capabilities(), &src, &dst);
				double wx[128], wy[128];
				for (int32_t y = 0; y < oh; y++)
					for (int32_t x = 0; x < ow; x++)
						for (int32_t c = 0; c < 3; c++) {
							double want = 0;
							reference_axis(&r, true, h, y, wy);
							reference_axis(&r, false, w, x, wx);
							for (int32_t a = 0; a < h; a++)
								for (int32_t b = 0; wy[a] != 0 && b < w; b++)
									want += wy[a] * wx[b] * *at(&src, b, a, c);
							/* At the edges of an enlarged image the weights add up to 1, which 16 bits cannot represent exactly. */
							bool edge = x < 2 || y < 2 || x >= ow - 2 || y >= oh - 2;
							if (fabs(*at(&dst, x, y, c) - nearbyint(want)) > edge)
								fail_msg("%dx%d to %dx%d antialias %d: %d, not %g", w, h, ow, oh, antialias,
									*at(&dst, x, y, c), want);
						}
				free(src.memory);
				free(dst.memory);
			}
}

/* ---- chains compared with their operations one by one ---- */

struct operation {
	enum { WINDOW, OUTSIDE, MIRROR, RESIZE, WARP, AFFINE, MATRIX, GRAY, CAST, CHANNELS, HOLE, OPERATIONS } kind;
	struct stk_rect window;
	float value[STK_PASS_MAX_CHANNELS], scale[STK_PASS_MAX_CHANNELS], bias[STK_PASS_MAX_CHANNELS];
	bool x, y;
	struct stk_resize resize;
	struct stk_warp warp;
	enum stk_dtype dtype;
	int32_t channels;
};

static const unsigned classes[OPERATIONS] = {STK_CLASS_WINDOW, STK_CLASS_FILL, STK_CLASS_WINDOW, STK_CLASS_SAMPLER, STK_CLASS_SAMPLER,
	STK_CLASS_POINTWISE, STK_CLASS_POINTWISE, STK_CLASS_POINTWISE, STK_CLASS_POINTWISE, STK_CLASS_POINTWISE, STK_CLASS_HOLE};

static void append(struct stk_pass *p, const struct operation *o)
{
	if (o->kind == WINDOW || o->kind == OUTSIDE)
		stk__pass_window(p, o->window, o->kind == OUTSIDE ? o->value : NULL);
	else if (o->kind == MIRROR)
		stk__pass_mirror(p, o->x, o->y);
	else if (o->kind == RESIZE)
		stk__pass_resize(p, &o->resize);
	else if (o->kind == WARP)
		stk__pass_warp(p, &o->warp);
	else if (o->kind == AFFINE)
		stk__pass_affine(p, o->scale, o->bias, o->dtype);
	else if (o->kind == MATRIX)
		stk__pass_matrix(p, o->scale, o->bias, o->dtype);
	else if (o->kind == GRAY)
		stk__pass_gray(p, o->scale, o->dtype);
	else if (o->kind == CAST)
		stk__pass_cast(p, o->dtype);
	else if (o->kind == HOLE)
		stk__pass_hole(p, o->window, o->value);
	else
		stk__pass_channels(p, o->channels, o->value);
}

static enum stk_dtype random_type(void)
{
	static const enum stk_dtype types[] = {STK_UINT8, STK_UINT8, STK_UINT8, STK_INT8, STK_UINT16, STK_INT16, STK_FLOAT16, STK_BFLOAT16,
		STK_FLOAT, STK_FLOAT, STK_BOOL};
	return types[next() % (sizeof types / sizeof *types)];
}

/* Draws a random operation for the image that the pass has made so far. plain_types: the image's type is one of those that all operations take. Returns false
 * if the drawn operation cannot follow. */
static bool draw(struct operation *o, const struct stk_pass *p, bool plain_types)
{
	memset(o, 0, sizeof *o);
	o->kind = next() % OPERATIONS;
	o->dtype = random_type();
	for (int i = 0; i < STK_PASS_MAX_CHANNELS; i++) {
		o->value[i] = (float)between(0, p->dtype == STK_BOOL ? 1 : 100);
		o->scale[i] = uniform(-1.5f, 2);
		o->bias[i] = uniform(-40, 40);
	}
	o->x = next() % 2, o->y = next() % 2;
	o->window.w = between(1, p->w), o->window.h = between(1, p->h);
	o->window.x = between(0, p->w - o->window.w), o->window.y = between(0, p->h - o->window.h);
	o->channels = p->c + between(0, 2);
	enum stk_dtype sampled = next() % 2 ? (enum stk_dtype)p->dtype : STK_FLOAT;
	float w = (float)p->w, h = (float)p->h;
	int filter = between(0, 5);
	o->resize = (struct stk_resize){between(1, 50), between(1, 50), uniform(0, w / 2), uniform(0, h / 2), uniform(w / 2, w) + 0.01f,
		uniform(h / 2, h) + 0.01f, (uint8_t)filter, (uint8_t)(next() % 3 ? filter : between(0, 5)), next() % 2, 0,
		(uint8_t)sampled};
	if (next() % 3 == 0) { /* flips by exchanging the region's borders */
		float left = o->resize.roi_x0;
		o->resize.roi_x0 = o->resize.roi_x1;
		o->resize.roi_x1 = left;
	}
	o->warp = (struct stk_warp){.out_w = between(1, 50),
		.out_h = between(1, 50),
		.interp = next() % 2,
		.clamp = next() % 2,
		.dtype = (uint8_t)sampled,
		.fill = (float)between(0, p->dtype == STK_BOOL ? 1 : 100)};
	for (int i = 0; i < 6; i++)
		o->warp.m[i] = uniform(-1.2f, 1.2f);
	o->warp.m[2] = uniform(-10, w), o->warp.m[5] = uniform(-10, h);
	switch (o->kind) {
	case OUTSIDE:
		o->window = (struct stk_rect){between(-20, p->w + 5), between(-20, p->h + 5), between(1, 60), between(1, 60)};
		return true;
	case RESIZE:
		if (!plain_types)
			o->resize.min_filter = o->resize.mag_filter = STK_INTERP_NN, o->resize.dtype = p->dtype;
		return true;
	case MATRIX:
	case GRAY:
		return plain_types && p->c == 3;
	case CHANNELS:
		return plain_types && o->channels <= STK_PASS_MAX_CHANNELS;
	case WARP:
	case AFFINE:
	case CAST:
	case HOLE:
		return plain_types;
	default:
		return true;
	}
}

static void one_chain(void)
{
	static const enum stk_dtype wide_types[] = {STK_INT64, STK_FLOAT64, STK_UINT32, STK_INT32, STK_UINT64};
	bool plain_types = next() % 6 != 0;
	enum stk_dtype type = plain_types ? random_type() : wide_types[next() % 5];
	int32_t c = (int32_t[]){1, 3, 3, 3, 4, 2}[next() % 6], top = next() % 8 ? 70 : 300;
	struct picture src = picture_make(type, between(1, top), between(1, 70), c, (int)(next() % 3));
	picture_randomize(&src);
	struct stk_pass fused;
	stk__pass_begin(&fused, type, src.image.width, src.image.height, c);
	struct picture image = src;
	unsigned sofar = 0;
	char story[200] = "";
	for (int i = 0, wanted = between(1, 6); i < wanted && fused.n_steps < STK_PASS_MAX_STEPS - 1; i++) {
		struct operation o;
		if (!draw(&o, &fused, plain_types) || !stk__pass_joins(sofar, classes[o.kind]))
			continue;
		sofar |= classes[o.kind];
		append(&fused, &o);
		snprintf(story + strlen(story), sizeof story - strlen(story), " %d", o.kind);
		struct stk_pass alone;
		stk__pass_begin(&alone, image.image.dtype, image.image.width, image.image.height, image.image.channels);
		append(&alone, &o);
		assert_int_equal(alone.dtype, fused.dtype);
		struct picture result = picture_make((enum stk_dtype)alone.dtype, alone.w, alone.h, alone.c, 0);
		run(&alone, 0, &image, &result);
		if (image.memory != src.memory)
			free(image.memory);
		image = result;
	}
	assert_true(stk__pass_supports(&fused));
	const unsigned cpus[2] = {0, stk__cpu_capabilities()};
	for (int i = 0; i < 2; i++) {
		struct picture dst = picture_make((enum stk_dtype)fused.dtype, fused.w, fused.h, fused.c, (int)(next() % 3));
		run(&fused, cpus[i], &src, &dst);
		if (!same(&image, &dst))
			fail_msg("%s %dx%dx%d, operations%s, with kernels in %s", stk_dtype_name(type), src.image.width, src.image.height,
				c, story, stk__cpu_name(cpus[i]));
		check_canaries(&dst);
		free(dst.memory);
	}
	if (image.memory != src.memory)
		free(image.memory);
	free(src.memory);
}

static void test_fusion_changes_no_value(void **state)
{
	(void)state;
	for (int i = 0; i < 4000; i++) {
		uint64_t start = seed = (uint64_t)i + 1;
		if (getenv("STOKER_TEST_SEED"))
			start = seed = strtoull(getenv("STOKER_TEST_SEED"), NULL, 10);
		if (i % 1000 == 0)
			print_message("chain seed %llu\n", (unsigned long long)start);
		one_chain();
	}
}

/* ---- single steps compared with their definitions ---- */

static float rounded(double x, enum stk_dtype dtype)
{
	uint64_t there;
	float f = (float)x, back;
	stk__convert(&there, dtype, &f, STK_FLOAT, 1);
	stk__convert(&back, STK_FLOAT, &there, dtype, 1);
	return back;
}

static void test_steps_equal_their_definitions(void **state)
{
	(void)state;
	for (int round = 0; round < 300; round++) {
		seed = (uint64_t)round + 7;
		enum stk_dtype type = random_type(), out = random_type();
		struct picture src = picture_make(type, between(1, 40), between(1, 20), 3, 0), dst;
		picture_randomize(&src);
		struct operation o;
		struct stk_pass p;
		do {
			stk__pass_begin(&p, type, src.image.width, src.image.height, 3);
			draw(&o, &p, true);
		} while (o.kind < AFFINE || o.kind == CHANNELS);
		o.dtype = out;
		append(&p, &o);
		dst = picture_make((enum stk_dtype)p.dtype, p.w, p.h, p.c, (int)next() % 2);
		run(&p, stk__cpu_capabilities(), &src, &dst);
		for (int32_t y = 0; y < p.h; y++)
			for (int32_t x = 0; x < p.w; x++)
				for (int32_t c = 0; c < p.c; c++) {
					float in[3], got, want;
					for (int i = 0; i < 3; i++)
						stk__convert(&in[i], STK_FLOAT, at(&src, x, y, i), type, 1);
					stk__convert(&got, STK_FLOAT, at(&dst, x, y, c), (enum stk_dtype)p.dtype, 1);
					const float *m = o.scale + (o.kind == MATRIX ? 3 * c : 0);
					volatile float product = in[c] * o.scale[c], p0 = m[0] * in[0], p1 = m[1] * in[1],
						       p2 = m[2] * in[2];
					volatile float sum = p0 + p1;
					sum = sum + p2;
					if (o.kind == AFFINE)
						want = rounded(product + o.bias[c], out);
					else if (o.kind == CAST)
						want = rounded(in[c], out);
					else if (o.kind == HOLE)
						want = x >= o.window.x && y >= o.window.y && x < o.window.x + o.window.w &&
								       y < o.window.y + o.window.h
							       ? rounded(o.value[c], type)
							       : in[c];
					else
						want = rounded(o.kind == MATRIX ? sum + o.bias[c] : sum, out);
					if (got != want)
						fail_msg("seed %d: kind %d, %s to %s: %g, not %g", round + 7, o.kind, stk_dtype_name(type),
							stk_dtype_name(out), (double)got, (double)want);
				}
		check_canaries(&dst);
		free(src.memory);
		free(dst.memory);
	}
}

/* Compares a warp with an interpolation by its definition, in double. */
static void test_warp_equals_reference(void **state)
{
	(void)state;
	for (int round = 0; round < 200; round++) {
		seed = (uint64_t)round + 99;
		int32_t w = between(1, 60), h = between(1, 60), c = between(1, 4);
		struct picture src = picture_make(STK_UINT8, w, h, c, (int)next() % 3);
		picture_randomize(&src);
		struct stk_warp t = {.out_w = between(1, 40),
			.out_h = between(1, 40),
			.interp = STK_INTERP_LINEAR,
			.clamp = next() % 2,
			.dtype = STK_FLOAT,
			.fill = 42};
		for (int i = 0; i < 6; i++)
			t.m[i] = uniform(-1.2f, 1.2f);
		t.m[2] = uniform(-5, (float)w), t.m[5] = uniform(-5, (float)h);
		struct stk_pass p;
		stk__pass_begin(&p, STK_UINT8, w, h, c);
		stk__pass_warp(&p, &t);
		struct picture dst = picture_make(STK_FLOAT, t.out_w, t.out_h, c, (int)next() % 3);
		run(&p, stk__cpu_capabilities(), &src, &dst);
		for (int32_t y = 0; y < t.out_h; y++)
			for (int32_t x = 0; x < t.out_w; x++)
				for (int32_t k = 0; k < c; k++) {
					double sx = t.m[0] * (x + 0.5) + t.m[1] * (y + 0.5) + t.m[2] - 0.5, want = 0;
					double sy = t.m[3] * (x + 0.5) + t.m[4] * (y + 0.5) + t.m[5] - 0.5;
					for (int corner = 0; corner < 4; corner++) {
						int32_t ix = (int32_t)floor(sx) + (corner & 1), iy = (int32_t)floor(sy) + (corner >> 1);
						int32_t jx = ix < 0 ? 0 : ix >= w ? w - 1 : ix, jy = iy < 0 ? 0 : iy >= h ? h - 1 : iy;
						double value = !t.clamp && (ix != jx || iy != jy) ? t.fill : *at(&src, jx, jy, k);
						want += value * (1 - fabs(sx - ix)) * (1 - fabs(sy - iy));
					}
					double got = *(float *)(void *)at(&dst, x, y, k);
					if (fabs(got - want) > 0.02)
						fail_msg("seed %d: x %d y %d: %g, not %g", round + 99, x, y, got, want);
				}
		check_canaries(&dst);
		free(src.memory);
		free(dst.memory);
	}
}

static void test_what_joins(void **state)
{
	(void)state;
	assert_true(stk__pass_joins(STK_CLASS_WINDOW, STK_CLASS_SAMPLER | STK_CLASS_WINDOW));
	assert_false(stk__pass_joins(STK_CLASS_SAMPLER, STK_CLASS_SAMPLER));
	assert_false(stk__pass_joins(STK_CLASS_POINTWISE, STK_CLASS_SAMPLER));
	assert_false(stk__pass_joins(STK_CLASS_FILL, STK_CLASS_SAMPLER));
	assert_true(stk__pass_joins(STK_CLASS_SAMPLER | STK_CLASS_POINTWISE, STK_CLASS_FILL));
	assert_false(stk__pass_joins(STK_CLASS_FILL, STK_CLASS_FILL | STK_CLASS_POINTWISE));
	struct stk_pass p;
	stk__pass_begin(&p, STK_INT64, 5, 5, 1);
	stk__pass_mirror(&p, true, false);
	assert_true(stk__pass_supports(&p));
	stk__pass_cast(&p, STK_FLOAT);
	assert_false(stk__pass_supports(&p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_joins),
		cmocka_unit_test(test_resize_equals_reference),
		cmocka_unit_test(test_exact_scales_are_exact),
		cmocka_unit_test(test_steps_equal_their_definitions),
		cmocka_unit_test(test_warp_equals_reference),
		cmocka_unit_test(test_fusion_changes_no_value),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
