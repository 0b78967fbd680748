/* SPDX-License-Identifier: Apache-2.0
 * Passes on the GPU against stk__pass_run: every byte. Random windows, filters, warps, steps, types and layouts. Skipped without a GPU; less of
 * it on the emulated one. */
#include "test.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "kernel/pass_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 24, BATCHES = 60, MAX_SOURCE = 700 * 500 * 4, MAX_OUT = 320 * 320 * 4 * 4 };

struct gpu {
	struct stk_gpu *gpu;
	struct stk_gpu_device *dev;
};

static struct stk_error err;
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

static void ok(enum stk_status status)
{
	if (status)
		fail_msg("%s: %s", stk_status_name(status), err.message);
}

static int setup(void **state)
{
	struct gpu *g = calloc(1, sizeof *g);
	*state = g;
	if (stk__gpu_open(&g->gpu, &err) || !stk__gpu_build().modules || stk__gpu_device_open(g->gpu, 0, &g->dev, &err))
		print_message("no GPU: %s\n", err.message);
	else
		ok(stk__gpu_enter(g->dev, &err));
	return !g->dev && getenv("STOKER_EMULATED_CUDA") ? -1 : 0;
}

static int teardown(void **state)
{
	struct gpu *g = *state;
	if (g->dev)
		stk__gpu_leave(g->dev);
	stk__gpu_device_close(g->dev);
	stk__gpu_close(g->gpu);
	free(g);
	return 0;
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
	r.dtype = draw(4) ? STK_UINT8 : STK_FLOAT;
	stk__pass_resize(p, &r);
}

static void add_warp(struct stk_pass *p)
{
	struct stk_warp w = {.out_w = 1 + (int)draw(300),
		.out_h = 1 + (int)draw(300),
		.interp = draw(2) ? STK_INTERP_LINEAR : STK_INTERP_NN,
		.clamp = (uint8_t)draw(2),
		.dtype = draw(2) ? STK_UINT8 : STK_FLOAT,
		.fill = (float)draw(256)};
	for (int i = 0; i < 6; i++)
		w.m[i] = i % 3 == 2 ? fraction() * 100 : fraction() * 4 - 2;
	stk__pass_warp(p, &w);
}

static void add_fill(struct stk_pass *p)
{
	float value[STK_PASS_MAX_CHANNELS];
	for (int c = 0; c < STK_PASS_MAX_CHANNELS; c++)
		value[c] = (float)draw(256);
	stk__pass_window(p, (struct stk_rect){(int)draw(20) - 10, (int)draw(20) - 10, p->w + (int)draw(20), p->h + (int)draw(20)}, value);
}

static void add_step(struct stk_pass *p)
{
	static const enum stk_dtype types[] = {STK_UINT8, STK_FLOAT, STK_FLOAT16, STK_BFLOAT16, STK_INT8, STK_INT16, STK_UINT16, STK_BOOL};
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
		if (p->c < 4) {
			for (int c = 0; c < 4; c++)
				a[c] = 0;
			stk__pass_channels(p, p->c + 1, a);
		}
		break;
	default:
		stk__pass_affine(p, a, b, dtype);
	}
}

static void draw_pass(struct stk_pass *p)
{
	stk__pass_begin(p, STK_UINT8, 1 + (int)draw(700), 1 + (int)draw(500), 1 + (int)draw(4));
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
		add_step(p);
}

static void describe(const struct stk_pass *p, char *text, size_t size)
{
	int n = snprintf(text, size, "%dx%dx%d sampler %d -> %dx%dx%d type %d, fill %d, steps", p->in_w, p->in_h, p->in_c, p->sampler, p->w,
		p->h, p->c, p->dtype, p->has_fill);
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
	bool planar, taken;
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
	struct stk_pass_gpu_limits limits = {BATCH, 1 << 20};
	struct stk_pass_gpu_sizes sizes = stk__pass_gpu_sizes(&limits);
	b->tables = stk__alloc(sizes.tables);
	b->source = stk__alloc((size_t)BATCH * MAX_SOURCE + 64);
	b->got = stk__alloc((size_t)BATCH * MAX_OUT);
	b->want = stk__alloc(MAX_OUT);
	for (size_t i = 0; i < (size_t)BATCH * MAX_SOURCE; i++)
		b->source[i] = (uint8_t)draw(256);
	ok(stk__gpu_alloc(dev, sizes.tables, &b->device_tables, &err));
	ok(stk__gpu_alloc(dev, sizes.work, &b->device_work, &err));
	ok(stk__gpu_alloc(dev, (size_t)BATCH * MAX_SOURCE, &b->src, &err));
	ok(stk__gpu_alloc(dev, (size_t)BATCH * MAX_OUT, &b->dst, &err));
	ok(stk__gpu_upload(dev, NULL, b->src, b->source, (size_t)BATCH * MAX_SOURCE, &err));
	ok(stk__pass_gpu_create(&limits, b->tables, b->device_tables, b->device_work, &b->batch, &err));
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

/* The part of the source that a job needs, as a decoder would leave it at `data`. */
static struct stk_image source_of(const struct job *j, uint64_t data)
{
	struct stk_image im = stk__image_hwc((void *)(uintptr_t)data, STK_UINT8, j->need.w, j->need.h, j->pass.in_c);
	im.row = j->row;
	return im;
}

static struct stk_image output_of(const struct job *j, uint64_t data)
{
	enum stk_dtype dtype = (enum stk_dtype)j->pass.dtype;
	return j->planar ? stk__image_chw((void *)(uintptr_t)data, dtype, j->pass.w, j->pass.h, j->pass.c)
			 : stk__image_hwc((void *)(uintptr_t)data, dtype, j->pass.w, j->pass.h, j->pass.c);
}

static void compare(const struct bench *b, const struct job *j, int i)
{
	struct stk_image src = source_of(j, (uintptr_t)b->source + (uint64_t)i * MAX_SOURCE), dst = output_of(j, (uintptr_t)b->want);
	size_t size = (size_t)j->pass.w * (size_t)j->pass.h * (size_t)j->pass.c * stk_dtype_size((enum stk_dtype)j->pass.dtype);
	void *scratch = stk__alloc(stk__pass_scratch(&j->pass) + 64);
	stk__pass_run(&j->pass, stk__pass_kernels(STK_CPU_C), &src, j->need.x, j->need.y, &dst, scratch);
	stk__free(scratch);
	const uint8_t *got = b->got + (size_t)i * MAX_OUT;
	for (size_t k = 0; k < size; k++)
		if (got[k] != b->want[k]) {
			char text[400];
			describe(&j->pass, text, sizeof text);
			fail_msg("byte %zu of %zu: %d instead of %d; %s", k, size, got[k], b->want[k], text);
		}
}

static int run_batch(struct stk_gpu_device *dev, struct bench *b)
{
	struct job jobs[BATCH];
	int taken = 0;
	stk__pass_gpu_begin(b->batch);
	for (int i = 0; i < BATCH; i++) {
		struct job *j = &jobs[i];
		draw_pass(&j->pass);
		j->need = stk__pass_source(&j->pass);
		j->row = (ptrdiff_t)j->need.w * j->pass.in_c;
		if (draw(2))
			j->row = (j->row + 15) & ~(ptrdiff_t)15;
		j->planar = draw(2);
		size_t size = (size_t)j->pass.w * (size_t)j->pass.h * (size_t)j->pass.c * stk_dtype_size((enum stk_dtype)j->pass.dtype);
		assert_true(j->row * j->need.h <= MAX_SOURCE);
		struct stk_image src = source_of(j, b->src + (uint64_t)i * MAX_SOURCE), dst = output_of(j, b->dst + (uint64_t)i * MAX_OUT);
		j->taken = size <= MAX_OUT && j->need.w > 0 && stk__pass_gpu_add(b->batch, &j->pass, &src, j->need.x, j->need.y, &dst);
		taken += j->taken;
	}
	size_t bytes = stk__pass_gpu_end(b->batch);
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
	int batches = strstr(stk__gpu_device_facts(g->dev)->name, "emulated") ? BATCHES / 6 : BATCHES;
	for (int i = 0; i < batches; i++)
		taken += run_batch(g->dev, &b);
	print_message("%d of %d passes ran on the GPU\n", taken, BATCH * batches);
	assert_true(taken > BATCH * batches * 3 / 4);
	bench_destroy(g->dev, &b);
}

/* Without a GPU: the layout of a batch is made, and what the GPU has not is refused. */
static void what_the_gpu_has_not_is_refused(void **state)
{
	(void)state;
	struct stk_pass p;
	stk__pass_begin(&p, STK_UINT8, 100, 100, 3);
	assert_true(stk__pass_gpu_supports(&p));
	stk__pass_begin(&p, STK_FLOAT, 100, 100, 3);
	assert_false(stk__pass_gpu_supports(&p));
	stk__pass_begin(&p, STK_UINT8, 100, 100, 5);
	assert_false(stk__pass_gpu_supports(&p));
	struct stk_resize giant = {
		.out_w = 1, .out_h = 1, .roi_x1 = 60000, .roi_y1 = 100, .min_filter = STK_INTERP_TRIANGULAR, .antialias = 1};
	stk__pass_begin(&p, STK_UINT8, 60000, 100, 3);
	stk__pass_resize(&p, &giant);
	assert_false(stk__pass_gpu_supports(&p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_gpu_has_not_is_refused),
		cmocka_unit_test(passes_equal_the_cpus),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
