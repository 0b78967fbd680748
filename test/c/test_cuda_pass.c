/* SPDX-License-Identifier: Apache-2.0
 * Compares passes on the GPU with stk__pass_run, byte by byte, for random windows, filters, warps, steps, types and layouts; half of them read interleaved
 * uint8 of few channels. Skipped without a GPU; shorter on the emulated one. */
#include "gpu_setup.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "kernel/convert/convert.h"
#include "kernel/pass/pass_gpu.h"
#include "kernel/pass/pass_kernels.h"
#include "kernel/sample/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 24, BATCHES = 60, MAX_SOURCE = 700 * 500 * 4, MAX_OUT = 320 * 320 * 4 * 4, LIMIT_TAPS = 4 << 20 };

static uint64_t rng = 9;

static uint32_t draw(uint32_t n)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((rng >> 33) % n);
}

static float fraction(void)
{
	return (float)draw(1 << 20) / (float)(1 << 20);
}

/* ---- random passes ---- */

static struct stk_rect draw_window(int w, int h)
{
	int ww = 1 + (int)draw((uint32_t)w), hh = 1 + (int)draw((uint32_t)h);
	return (struct stk_rect){(int)draw((uint32_t)(w - ww + 1)), (int)draw((uint32_t)(h - hh + 1)), ww, hh};
}

static void add_resize(struct stk_pass *p)
{
	static const uint8_t filters[] = {
		STK_INTERP_NN, STK_INTERP_LINEAR, STK_INTERP_CUBIC, STK_INTERP_LANCZOS3, STK_INTERP_TRIANGULAR, STK_INTERP_GAUSSIAN};
	struct stk_resize r = {.out_w = 1 + (int)draw(300), .out_h = 1 + (int)draw(300), .roi_x1 = (float)p->w, .roi_y1 = (float)p->h};
	if (draw(2)) {
		r.roi_x0 = fraction() * (float)p->w, r.roi_x1 = fraction() * (float)p->w;
		r.roi_y0 = fraction() * (float)p->h, r.roi_y1 = fraction() * (float)p->h;
	}
	r.min_filter = draw(2) ? STK_INTERP_TRIANGULAR : filters[draw(6)];
	r.mag_filter = draw(2) ? STK_INTERP_LINEAR : filters[draw(6)];
	r.antialias = (uint8_t)draw(2);
	r.drop = !draw(4);
	r.dtype = draw(4) ? p->dtype : STK_FLOAT;
	stk__pass_resize(p, &r);
}

static void add_warp(struct stk_pass *p)
{
	struct stk_warp w = {.out_w = 1 + (int)draw(300),
		.out_h = 1 + (int)draw(300),
		.interp = draw(2) ? STK_INTERP_LINEAR : STK_INTERP_NN,
		.clamp = (uint8_t)draw(2),
		.dtype = draw(2) ? p->dtype : STK_FLOAT,
		.fill = (float)draw(p->dtype == STK_BOOL ? 2 : 100)};
	for (int i = 0; i < 6; i++)
		w.m[i] = i % 3 == 2 ? fraction() * 100 : fraction() * 4 - 2;
	stk__pass_warp(p, &w);
}

static void add_fill(struct stk_pass *p)
{
	float value[STK_PASS_MAX_CHANNELS];
	for (int c = 0; c < STK_PASS_MAX_CHANNELS; c++)
		value[c] = (float)draw(1024) / 4 - 20;
	stk__pass_window(p, (struct stk_rect){(int)draw(20) - 10, (int)draw(20) - 10, p->w + (int)draw(20), p->h + (int)draw(20)}, value);
}

static const enum stk_dtype types[] = {STK_UINT8, STK_FLOAT, STK_FLOAT16, STK_BFLOAT16, STK_INT8, STK_INT16, STK_UINT16, STK_BOOL};

static void add_step(struct stk_pass *p, int32_t most)
{
	enum stk_dtype dtype = types[draw(8)];
	float a[STK_PASS_MAX_CHANNELS], b[STK_PASS_MAX_CHANNELS];
	for (int c = 0; c < STK_PASS_MAX_CHANNELS; c++) {
		a[c] = fraction() * 3 - 1;
		b[c] = fraction() * 100 - 50;
	}
	switch (draw(5)) {
	case 0:
		stk__pass_cast(p, dtype);
		break;
	case 1:
		if (p->c == 3)
			stk__pass_matrix(p, a, b, dtype);
		break;
	case 2:
		if (p->c == 3)
			stk__pass_gray(p, a, dtype);
		break;
	case 3:
		if (p->c < most) {
			for (int c = 0; c < STK_PASS_MAX_CHANNELS; c++)
				a[c] = (float)draw(3);
			stk__pass_channels(p, p->c + 1, a);
		}
		break;
	default:
		if (!draw(8)) /* products of this value with zero, and sums with such products, are NaN */
			a[draw(3)] = INFINITY;
		stk__pass_affine(p, a, b, dtype);
	}
}

static void add_hole(struct stk_pass *p)
{
	float value[STK_PASS_MAX_CHANNELS];
	for (int c = 0; c < STK_PASS_MAX_CHANNELS; c++)
		value[c] = (float)draw(1024) / 4 - 20;
	stk__pass_hole(p, draw_window(p->w, p->h), value);
}

/* Draws filters that are too wide for the usual kernel's shared memory, and images of one to four rows or columns. */
static void draw_wide(struct stk_pass *p, enum stk_dtype dtype)
{
	int wide = 1 + (int)draw(20000), other = 1 + (int)draw(4);
	bool tall = draw(2);
	stk__pass_begin(p, dtype, tall ? other : wide, tall ? wide : other, 1 + (int)draw(4));
	struct stk_resize r = {.out_w = 1 + (int)draw(4), .out_h = 1 + (int)draw(4), .roi_x1 = (float)p->w, .roi_y1 = (float)p->h};
	r.min_filter = r.mag_filter = draw(2) ? STK_INTERP_TRIANGULAR : STK_INTERP_LANCZOS3;
	r.antialias = 1;
	r.dtype = draw(2) ? p->dtype : STK_FLOAT;
	if (draw(2))
		stk__pass_mirror(p, true, true);
	stk__pass_resize(p, &r);
}

/* Draws a pass that moves pixels of any type without arithmetic: a window, mirroring, and sometimes a resize to the nearest pixel and a fill. */
static void draw_geometry(struct stk_pass *p)
{
	enum stk_dtype dtype = (enum stk_dtype)draw(STK_DTYPE_COUNT);
	stk__pass_begin(p, dtype, 1 + (int)draw(200), 1 + (int)draw(100), 1 + (int)draw(5));
	stk__pass_window(p, draw_window(p->w, p->h), NULL);
	struct stk_resize r = {
		.out_w = 1 + (int)draw(100), .out_h = 1 + (int)draw(100), .roi_x1 = (float)p->w, .roi_y1 = (float)p->h, .dtype = p->dtype};
	if (draw(2))
		stk__pass_resize(p, &r);
	stk__pass_mirror(p, draw(2), draw(2));
	if (draw(2))
		add_fill(p);
}

/* Draws passes over rows of three-byte pixels to bytes or floats, with or without a filled border. */
static void draw_rows(struct stk_pass *p)
{
	static const enum stk_dtype floats[] = {STK_FLOAT, STK_FLOAT16, STK_BFLOAT16};
	float scale[9], bias[3];
	for (int i = 0; i < 9; i++)
		scale[i] = (float)draw(1025) / 256 - 2;
	for (int c = 0; c < 3; c++)
		bias[c] = (float)draw(1025) / 8 - 64; /* includes halves, which are rounded up */
	bool bytes = draw(3);
	int32_t step = bytes && draw(2) ? 1 : 4;
	stk__pass_begin(p, STK_UINT8, step * (1 + (int)draw(250 / (uint32_t)step)), 1 + (int)draw(60), 3);
	int32_t w = step * (1 + (int)draw((uint32_t)(p->w / step)));
	stk__pass_window(p, (struct stk_rect){(int)draw((uint32_t)(p->w - w + 1)), 0, w, 1 + (int)draw((uint32_t)p->h)}, NULL);
	stk__pass_mirror(p, draw(2), draw(2));
	if (bytes && draw(2))
		add_fill(p);
	uint32_t kind = draw(3);
	if (!bytes || kind == 1)
		stk__pass_affine(p, scale, bias, bytes ? STK_UINT8 : floats[draw(3)]);
	else if (kind == 2)
		stk__pass_matrix(p, scale, bias, STK_UINT8);
	if (draw(4) == 0)
		add_hole(p);
}

/* Draws a pass with a warp that is close to the identity, so that much of it reads inside the image. It may begin with a window, mirror before or after the
 * warp, and end with a hole; sizes, and so the alignment of rows, are arbitrary. */
static void draw_warp(struct stk_pass *p)
{
	static const float near[6] = {1, 0, 0, 0, 1, 0};
	int32_t most = draw(3) ? 40 : 250;
	stk__pass_begin(p, draw(4) ? STK_UINT8 : STK_FLOAT, 1 + (int)draw((uint32_t)most), 1 + (int)draw(150), 1 + (int)draw(4));
	if (draw(2))
		stk__pass_window(p, draw_window(p->w, p->h), NULL);
	stk__pass_mirror(p, draw(4) == 0, draw(4) == 0);
	struct stk_warp w = {.out_w = 1 + (int)draw((uint32_t)most),
		.out_h = 1 + (int)draw(150),
		.interp = draw(3) ? STK_INTERP_LINEAR : STK_INTERP_NN,
		.clamp = (uint8_t)draw(2),
		.dtype = p->dtype,
		.fill = draw(2) ? (float)draw(256) : fraction() * 300 - 20};
	for (int i = 0; i < 6; i++)
		w.m[i] = near[i] + (fraction() - 0.5f) * (i % 3 == 2 ? 20 : 0.6f);
	stk__pass_warp(p, &w);
	stk__pass_mirror(p, draw(4) == 0, draw(4) == 0);
	if (draw(4) == 0)
		add_hole(p);
}

static void draw_pass(struct stk_pass *p)
{
	bool usual = draw(2);
	enum stk_dtype dtype = usual ? STK_UINT8 : types[draw(8)];
	int32_t most = usual || draw(3) ? 4 : STK_PASS_MAX_CHANNELS;
	uint32_t kind = draw(11);
	if (kind == 10)
		draw_warp(p);
	if (kind == 0)
		draw_wide(p, dtype);
	if (kind == 1)
		draw_geometry(p);
	if (kind == 2)
		draw_rows(p);
	if (kind <= 2 || kind == 10)
		return;
	int32_t limit = most > 4 || dtype != STK_UINT8 ? 150 : 700;
	stk__pass_begin(p, dtype, 1 + (int)draw((uint32_t)limit), 1 + (int)draw((uint32_t)limit * 5 / 7), 1 + (int)draw((uint32_t)most));
	if (draw(2))
		stk__pass_window(p, draw_window(p->w, p->h), NULL);
	if (draw(2))
		stk__pass_mirror(p, draw(2), draw(2));
	uint32_t sampler = draw(8);
	if (sampler < 5)
		add_resize(p);
	else if (sampler < 7)
		add_warp(p);
	else
		stk__pass_window(p, (struct stk_rect){0, 0, p->w < 300 ? p->w : 300, p->h < 300 ? p->h : 300}, NULL);
	if (draw(2))
		stk__pass_mirror(p, draw(2), draw(2));
	if (draw(3) == 0)
		add_fill(p);
	for (uint32_t n = draw(4); n > 0; n--)
		add_step(p, most);
	if (draw(4) == 0)
		add_hole(p);
}

static void describe(const struct stk_pass *p, char *text, size_t size)
{
	int n = snprintf(text, size, "type %d %dx%dx%d sampler %d -> %dx%dx%d type %d, fill %d, steps", p->in_dtype, p->in_w, p->in_h,
		p->in_c, p->sampler, p->w, p->h, p->c, p->dtype, p->has_fill);
	for (int i = 0; i < p->n_steps && n < (int)size; i++)
		n += snprintf(text + n, size - (size_t)n, " %d:%d", p->steps[i].kind, p->steps[i].dtype);
	if (p->sampler == STK_SAMPLE_RESIZE)
		snprintf(text + n, size - (size_t)n, ", roi %g %g %g %g of %dx%d, filters %d %d antialias %d drop %d type %d",
			(double)p->resize.roi_x0, (double)p->resize.roi_y0, (double)p->resize.roi_x1, (double)p->resize.roi_y1, p->mid_w,
			p->mid_h, p->resize.min_filter, p->resize.mag_filter, p->resize.antialias, p->resize.drop, p->resize.dtype);
}

/* ---- the comparison ---- */

struct job {
	struct stk_pass pass;
	struct stk_rect need;
	ptrdiff_t row;
	size_t offset; /* offset of the job's result in the output, in bytes */
	bool planar_source, planar, taken;
};

struct bench {
	struct stk_pass_gpu_kernels kernels;
	struct stk_pass_gpu *batch;
	void *tables;
	stk_gpu_ptr device_tables, device_work, src, dst;
	uint8_t *source, *got, *want;
};

static void bench_create(struct stk_gpu_device *dev, struct bench *b)
{
	struct stk_pass_gpu_limits limits = {BATCH, LIMIT_TAPS};
	struct stk_pass_gpu_sizes sizes = stk__pass_gpu_sizes(&limits);
	b->tables = stk__alloc(sizes.tables);
	b->source = stk__alloc((size_t)BATCH * MAX_SOURCE + 64);
	b->got = stk__alloc((size_t)BATCH * MAX_OUT);
	b->want = stk__alloc(MAX_OUT);
	ok(stk__gpu_alloc(dev, sizes.tables, &b->device_tables, &err));
	ok(stk__gpu_alloc(dev, sizes.work, &b->device_work, &err));
	ok(stk__gpu_alloc(dev, (size_t)BATCH * MAX_SOURCE, &b->src, &err));
	ok(stk__gpu_alloc(dev, (size_t)BATCH * MAX_OUT, &b->dst, &err));
	ok(stk__pass_gpu_create(&limits, b->tables, &b->batch, &err));
	ok(stk__pass_gpu_kernels_load(dev, &b->kernels, &err));
}

static void bench_destroy(struct stk_gpu_device *dev, struct bench *b)
{
	stk__pass_gpu_destroy(b->batch);
	stk__gpu_free(dev, b->device_tables);
	stk__gpu_free(dev, b->device_work);
	stk__gpu_free(dev, b->src);
	stk__gpu_free(dev, b->dst);
	stk__free(b->tables);
	stk__free(b->source);
	stk__free(b->got);
	stk__free(b->want);
}

/* Describes the part of the source that a job needs, with the address `data` and the layout in which a decoder would write it. */
static struct stk_image source_of(const struct job *j, uint64_t data)
{
	enum stk_dtype dtype = (enum stk_dtype)j->pass.in_dtype;
	struct stk_image im = stk__image_hwc((void *)(uintptr_t)data, dtype, j->need.w, j->need.h, j->pass.in_c);
	if (j->planar_source) {
		im = stk__image_chw((void *)(uintptr_t)data, dtype, j->need.w, j->need.h, j->pass.in_c);
		im.channel = j->row * j->need.h;
	}
	im.row = j->row;
	return im;
}

/* Draws values of the source's type that stay finite in every step. */
static void fill_source(const struct job *j, uint8_t *to)
{
	enum stk_dtype dtype = (enum stk_dtype)j->pass.in_dtype;
	size_t size = stk_dtype_size(dtype), n = (size_t)j->row * (size_t)j->need.h * (size_t)(j->planar_source ? j->pass.in_c : 1) / size;
	for (size_t i = 0; i < n; i++) {
		float value = (float)draw(1 << 16) / 256 - (float)draw(2) * 100;
		stk__convert(to + i * size, dtype, &value, STK_FLOAT, 1);
	}
}

static struct stk_image output_of(const struct job *j, uint64_t data)
{
	enum stk_dtype dtype = (enum stk_dtype)j->pass.dtype;
	return j->planar ? stk__image_chw((void *)(uintptr_t)data, dtype, j->pass.w, j->pass.h, j->pass.c)
			 : stk__image_hwc((void *)(uintptr_t)data, dtype, j->pass.w, j->pass.h, j->pass.c);
}

/* Returns whether byte k belongs to a value that is NaN on both sides. */
static bool both_nan(const struct job *j, const uint8_t *got, const uint8_t *want, size_t k)
{
	size_t size = stk_dtype_size((enum stk_dtype)j->pass.dtype), at = k / size * size;
	double a = 0, b = 0;
	stk__convert(&a, STK_FLOAT64, got + at, (enum stk_dtype)j->pass.dtype, 1);
	stk__convert(&b, STK_FLOAT64, want + at, (enum stk_dtype)j->pass.dtype, 1);
	return a != a && b != b;
}

static void compare(const struct bench *b, const struct job *j, int i)
{
	struct stk_image src = source_of(j, (uintptr_t)b->source + (uint64_t)i * MAX_SOURCE), dst = output_of(j, (uintptr_t)b->want);
	size_t size = (size_t)j->pass.w * (size_t)j->pass.h * (size_t)j->pass.c * stk_dtype_size((enum stk_dtype)j->pass.dtype);
	void *scratch = stk__alloc(stk__pass_scratch(&j->pass) + 64);
	struct stk_pass_kernels kernels = stk__pass_kernels(0);
	stk__pass_run(&j->pass, &kernels, &src, j->need.x, j->need.y, &dst, scratch);
	stk__free(scratch);
	const uint8_t *got = b->got + (size_t)i * MAX_OUT + j->offset;
	for (size_t k = 0; k < size; k++)
		if (got[k] != b->want[k] && !both_nan(j, got, b->want, k)) {
			char text[400];
			describe(&j->pass, text, sizeof text);
			fail_msg("byte %zu of %zu: %d instead of %d; %s", k, size, got[k], b->want[k], text);
		}
}

static int run_batch(struct stk_gpu_device *dev, struct bench *b)
{
	static struct job jobs[BATCH];
	struct stk_pass_gpu_limits need = {0};
	char text[400];
	int taken = 0;
	stk__pass_gpu_begin(b->batch, &(struct stk_pass_gpu_limits){BATCH, LIMIT_TAPS}, b->device_tables, b->device_work);
	for (int i = 0; i < BATCH; i++) {
		struct job *j = &jobs[i];
		draw_pass(&j->pass);
		j->need = stk__pass_source(&j->pass);
		size_t element = stk_dtype_size((enum stk_dtype)j->pass.in_dtype);
		j->planar_source = j->pass.in_c > 1 && draw(4) == 0;
		j->row = (ptrdiff_t)element * j->need.w * (j->planar_source ? 1 : j->pass.in_c);
		if (draw(2))
			j->row = (j->row + 15) & ~(ptrdiff_t)15;
		j->planar = draw(2);
		size_t size = (size_t)j->pass.w * (size_t)j->pass.h * (size_t)j->pass.c * stk_dtype_size((enum stk_dtype)j->pass.dtype);
		j->offset = draw(2) ? draw(16) * stk_dtype_size((enum stk_dtype)j->pass.dtype) : 0;
		assert_true(j->row * j->need.h * (j->planar_source ? j->pass.in_c : 1) <= MAX_SOURCE);
		fill_source(j, b->source + (size_t)i * MAX_SOURCE);
		struct stk_image src = source_of(j, b->src + (uint64_t)i * MAX_SOURCE),
				 dst = output_of(j, b->dst + (uint64_t)i * MAX_OUT + j->offset);
		assert_true(stk__pass_gpu_supports(&j->pass));
		j->taken = size + j->offset <= MAX_OUT;
		taken += j->taken;
		if (!j->taken)
			continue;
		stk__pass_gpu_need(&j->pass, &need);
		if (!stk__pass_gpu_add(b->batch, &j->pass, &src, j->need.x, j->need.y, &dst)) {
			describe(&j->pass, text, sizeof text);
			fail_msg("refused: %s", text);
		}
	}
	assert_true(need.taps <= LIMIT_TAPS);
	size_t bytes = stk__pass_gpu_end(b->batch);
	ok(stk__gpu_upload(dev, NULL, b->src, b->source, (size_t)BATCH * MAX_SOURCE, &err));
	ok(stk__gpu_upload(dev, NULL, b->device_tables, b->tables, bytes, &err));
	ok(stk__gpu_fill(dev, NULL, b->dst, 0xa5, (size_t)BATCH * MAX_OUT, &err));
	ok(stk__pass_gpu_launch(dev, &b->kernels, b->batch, NULL, &err));
	ok(stk__gpu_download(dev, NULL, b->got, b->dst, (size_t)BATCH * MAX_OUT, &err));
	ok(stk__gpu_stream_sync(dev, NULL, &err));
	for (int i = 0; i < BATCH; i++)
		if (jobs[i].taken)
			compare(b, &jobs[i], i);
	return taken;
}

static void passes_equal_the_cpus(void **state)
{
	struct gpu *g = *state;
	struct bench b;
	int taken = 0;
	if (!g->dev)
		skip();
	bench_create(g->dev, &b);
	int batches = is_emulated(g->dev) ? BATCHES / 6 : BATCHES;
	for (int i = 0; i < batches; i++)
		taken += run_batch(g->dev, &b);
	print_message("%d of %d passes ran on the GPU\n", taken, BATCH * batches);
	assert_true(taken > BATCH * batches * 3 / 4);
	bench_destroy(g->dev, &b);
}

/* A batch with exactly the capacity that its passes need accepts these passes and no further one. This test needs no GPU. */
static void batches_are_as_large_as_they_must_be(void **state)
{
	(void)state;
	struct stk_pass passes[BATCH];
	struct stk_pass_gpu_limits limits = {0};
	struct stk_pass_gpu *batch;
	for (int i = 0; i < BATCH; i++) {
		draw_pass(&passes[i]);
		stk__pass_gpu_need(&passes[i], &limits);
	}
	assert_int_equal(limits.images, BATCH);
	void *tables = stk__alloc(stk__pass_gpu_sizes(&limits).tables);
	ok(stk__pass_gpu_create(&limits, tables, &batch, &err));
	stk__pass_gpu_begin(batch, &limits, 1 << 20, 1 << 24);
	struct stk_image none = {0};
	for (int i = 0; i < BATCH; i++)
		assert_true(stk__pass_gpu_add(batch, &passes[i], &none, 0, 0, &none));
	assert_false(stk__pass_gpu_add(batch, &passes[0], &none, 0, 0, &none));
	assert_true(stk__pass_gpu_end(batch) <= stk__pass_gpu_sizes(&limits).tables);
	stk__pass_gpu_destroy(batch);
	stk__free(tables);
}

static void what_the_gpu_has_not_is_refused(void **state)
{
	(void)state;
	struct stk_pass p;
	stk__pass_begin(&p, STK_INT64, 100, 100, 3);
	assert_true(stk__pass_gpu_supports(&p));
	stk__pass_mirror(&p, true, false);
	assert_true(stk__pass_gpu_supports(&p));
	stk__pass_cast(&p, STK_FLOAT);
	assert_false(stk__pass_gpu_supports(&p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_are_as_large_as_they_must_be),
		cmocka_unit_test(what_the_gpu_has_not_is_refused),
		cmocka_unit_test(passes_equal_the_cpus),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
