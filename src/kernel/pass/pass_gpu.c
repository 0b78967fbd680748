/* SPDX-License-Identifier: Apache-2.0
 * Describes passes for pass_gpu.cu. Geometry, filters and the kind of arithmetic come from the CPU's plan, so that CPU and GPU agree. */
#include "kernel/pass/pass_gpu.h"

#include "base/memory.h"
#include "kernel/common/texels.h"
#include "kernel/pass/pass_plan.h"

#include <math.h>
#include <string.h>

/* The samples of the filters' curves, which are stored one after the other at the start of the tables. */
static const struct {
	const float *curve;
	size_t count;
} curves[] = {{stk__filter_triangle, 3}, {stk__filter_gaussian, 65}, {stk__filter_cubic, 129}, {stk__filter_lanczos3, 193}};
enum { CURVE_BYTES = 2048 /* 390 floats, rounded up */ };

/* Number of weights that may be read past the last weight, because rows are made four at a time even if the output has fewer. */
#define WEIGHTS_SLACK 3

struct stk_pass_gpu {
	struct stk_pass_gpu_limits limits; /* limits of the current batch */
	uint8_t *tables;
	stk_gpu_ptr device_tables, device_work;
	struct stk_pass_gpu_item *items; /* inside `tables` */
	struct stk_step *steps;          /* allocated separately; stk__pass_gpu_end copies them into `tables` */
	uint32_t n_items, n_steps, n_first, n_weights, n_blocks[STK_PASS_GPU_LAUNCHES];
	uint32_t shared[STK_PASS_GPU_LAUNCHES]; /* bytes of dynamic shared memory that a block of a launch needs */
	uint32_t each[STK_PASS_GPU_LAUNCHES];   /* number of thread blocks of an item, if all items so far have the same; otherwise 0 */
	struct stk_pass_gpu_view view;
};

static size_t aligned(size_t n)
{
	return (n + 255) & ~(size_t)255;
}

struct stk_pass_gpu_sizes stk__pass_gpu_sizes(const struct stk_pass_gpu_limits *l)
{
	size_t items = aligned(sizeof(struct stk_pass_gpu_item) * l->images),
	       steps = aligned(sizeof(struct stk_step) * STK_PASS_MAX_STEPS * l->images);
	size_t first = aligned(sizeof(int32_t) * l->taps), weights = aligned(sizeof(float) * ((size_t)l->taps + WEIGHTS_SLACK));
	return (struct stk_pass_gpu_sizes){CURVE_BYTES + items + steps, first + weights};
}

enum stk_status stk__pass_gpu_kernels_load(struct stk_gpu_device *dev, struct stk_pass_gpu_kernels *k, struct stk_error *err)
{
	static const struct {
		const char *module, *kernel;
	} runs[STK_PASS_GPU_LAUNCHES] = {
		[STK_PASS_GPU_RESIZE_LAUNCH] = {"pass_gpu", "pass_run"},
		[STK_PASS_GPU_FLOATS_LAUNCH] = {"pass_gpu", "pass_run_floats"},
		[STK_PASS_GPU_PIXEL_LAUNCH] = {"pass_gpu_pixels", "pass_run_pixels"},
		[STK_PASS_GPU_WARP_LAUNCH] = {"pass_gpu_pixels", "pass_run_warps"},
		[STK_PASS_GPU_TEXEL_LAUNCH] = {"pass_gpu_warps", "pass_warps"},
		[STK_PASS_GPU_ROWS_LAUNCH] = {"pass_gpu_rows", "pass_rows"},
		[STK_PASS_GPU_MADE_LAUNCH] = {"pass_gpu_made", "pass_made"},
		[STK_PASS_GPU_ANY_LAUNCH] = {"pass_gpu_any", "pass_run_any"},
		[STK_PASS_GPU_HOLES_LAUNCH] = {"pass_gpu_any", "pass_holes"},
	};
	enum stk_status status = stk__gpu_kernel(dev, "pass_gpu", "pass_taps", 0, &k->taps, err);
	for (int i = 0; !status && i < STK_PASS_GPU_LAUNCHES; i++)
		status = stk__gpu_kernel(dev, runs[i].module, runs[i].kernel, 0, &k->run[i], err);
	return status;
}

enum stk_status stk__pass_gpu_create(
	const struct stk_pass_gpu_limits *limits, void *tables, struct stk_pass_gpu **out, struct stk_error *err)
{
	struct stk_pass_gpu *b = stk__calloc(1, sizeof *b);
	struct stk_step *steps = stk__alloc(sizeof *steps * STK_PASS_MAX_STEPS * limits->images);
	if (!b || !steps) {
		stk__free(b);
		stk__free(steps);
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	}
	*b = (struct stk_pass_gpu){.limits = *limits, .tables = tables, .steps = steps};
	b->items = (struct stk_pass_gpu_item *)(void *)(b->tables + CURVE_BYTES);
	float *to = tables;
	for (size_t i = 0; i < sizeof curves / sizeof *curves; to += curves[i++].count)
		memcpy(to, curves[i].curve, curves[i].count * sizeof(float));
	*out = b;
	return STK_OK;
}

void stk__pass_gpu_destroy(struct stk_pass_gpu *b)
{
	if (!b)
		return;
	stk__free(b->steps);
	stk__free(b);
}

void stk__pass_gpu_begin(
	struct stk_pass_gpu *b, const struct stk_pass_gpu_limits *limits, stk_gpu_ptr device_tables, stk_gpu_ptr device_work)
{
	b->limits = *limits;
	b->device_tables = device_tables;
	b->device_work = device_work;
	b->n_items = b->n_steps = b->n_first = b->n_weights = 0;
	memset(b->shared, 0, sizeof b->shared);
	memset(b->each, 0, sizeof b->each);
	memset(b->n_blocks, 0, sizeof b->n_blocks);
}

/* Returns the device address of a curve's samples; NULL if the filter has no curve. */
static const float *device_curve(const struct stk_pass_gpu *b, const float *curve)
{
	stk_gpu_ptr at = b->device_tables;
	for (size_t i = 0; i < sizeof curves / sizeof *curves; at += sizeof(float) * curves[i++].count)
		if (curves[i].curve == curve)
			return (const float *)(uintptr_t)at;
	return NULL;
}

/* Returns how many bytes of shared memory the intermediate values for `columns` outputs in each row of a thread block need. Rows are read four values at a
 * time, which adds fewer than 8 values to a row. */
static float shared_for(const struct stk_plan *plan, const struct stk_pass *p, int32_t columns)
{
	const struct stk_filter_axis *a = &plan->axis[0];
	float element = plan->kind == STK_RESAMPLE_FLOAT ? 4 : 2, scale = a->scale < 0 ? -a->scale : a->scale;
	float input_span = scale * (float)(columns - 1) + 3 + (float)a->n,
	      most = input_span < (float)a->in_size ? input_span : (float)a->in_size;
	return (most * (float)p->in_c + 8) * element * STK_PASS_GPU_ROWS;
}

/* Returns the number of columns that a thread block makes at a time: the largest power of 2, up to STK_PASS_GPU_COLUMNS, whose intermediate values fit into
 * shared memory, or 0 if even one column needs too much. */
static int32_t choose_columns(const struct stk_plan *plan, const struct stk_pass *p)
{
	int32_t columns = STK_PASS_GPU_COLUMNS;
	while (columns > 0 && shared_for(plan, p, columns) > STK_PASS_GPU_SHARED)
		columns /= 2;
	return columns;
}

static bool resizes(const struct stk_pass *p, const struct stk_plan *plan)
{
	return p->sampler == STK_SAMPLE_RESIZE && !plan->nearest;
}

bool stk__pass_gpu_supports(const struct stk_pass *p)
{
	return stk__pass_supports(p);
}

static enum stk_pass_gpu_launch choose_launch(const struct stk_pass *p, const struct stk_plan *plan, const struct stk_image *src)
{
	int32_t element = p->in_dtype == STK_UINT8 ? 1 : 4;
	bool type = p->in_dtype == STK_UINT8 || p->in_dtype == STK_FLOAT;
	if (!type || plan->max_channels > STK_PASS_GPU_CHANNELS || src->channel != element || src->pixel != p->in_c * element)
		return STK_PASS_GPU_ANY_LAUNCH;
	if (!resizes(p, plan))
		return p->sampler == STK_SAMPLE_WARP ? STK_PASS_GPU_WARP_LAUNCH : STK_PASS_GPU_PIXEL_LAUNCH;
	if (src->row != (int32_t)src->row || choose_columns(plan, p) == 0)
		return STK_PASS_GPU_ANY_LAUNCH;
	return p->in_dtype == STK_FLOAT ? STK_PASS_GPU_FLOATS_LAUNCH : STK_PASS_GPU_RESIZE_LAUNCH;
}

/* Computes how many entries an axis needs in the table of first taps, and in the table of weights. */
static void taps_of(const struct stk_pass *p, const struct stk_plan *plan, int axis, uint64_t *first, uint64_t *weights)
{
	/* If one axis has a filter with weights and the other one reads the nearest pixel, each output has one tap along that other axis. */
	uint64_t size = (uint64_t)(axis ? p->h : p->w);
	bool taps = resizes(p, plan);
	*first = taps || plan->nearest ? size : 0;
	*weights = taps ? size * (uint64_t)plan->axis[axis].n : 0;
}

void stk__pass_gpu_need(const struct stk_pass *p, struct stk_pass_gpu_limits *sum)
{
	struct stk_plan plan;
	stk__plan_make(&plan, p);
	uint64_t taps = sum->taps;
	for (int axis = 0; axis < 2; axis++) {
		uint64_t first, weights;
		taps_of(p, &plan, axis, &first, &weights);
		taps += first > weights ? first : weights;
	}
	sum->images++;
	sum->taps = taps < UINT32_MAX ? (uint32_t)taps : UINT32_MAX;
}

/* Adds the steps of a pass to the tables and returns the index of the first. Consecutive passes of a batch mostly have the same steps; these are stored
 * once. */
static uint32_t add_steps(struct stk_pass_gpu *b, const struct stk_pass *p)
{
	uint32_t n = (uint32_t)p->n_steps;
	if (b->n_items && b->items[b->n_items - 1].n_steps == n) {
		uint32_t at = b->items[b->n_items - 1].step0;
		if (memcmp(b->steps + at, p->steps, n * sizeof *p->steps) == 0)
			return at;
	}
	memcpy(b->steps + b->n_steps, p->steps, n * sizeof *p->steps);
	b->n_steps += n;
	return b->n_steps - n;
}

static bool make_axis(struct stk_pass_gpu *b, const struct stk_pass *p, const struct stk_plan *plan, int axis, struct stk_pass_gpu_axis *to)
{
	struct stk_span valid = axis ? plan->y : plan->x;
	*to = (struct stk_pass_gpu_axis){.filter = plan->axis[axis],
		.pre = p->pre[axis],
		.post = p->sampler ? p->post[axis] : (struct stk_axis_map){.step = 1},
		.begin = valid.begin,
		.end = valid.end,
		.size = axis ? p->h : p->w,
		.bias = plan->bias[axis]};
	uint64_t first, weights;
	taps_of(p, plan, axis, &first, &weights);
	if (b->n_first + first > b->limits.taps || b->n_weights + weights > b->limits.taps)
		return false;
	to->filter.curve = device_curve(b, plan->axis[axis].curve);
	to->first = b->n_first;
	to->weights = b->n_weights;
	b->n_first += (uint32_t)first;
	b->n_weights += (uint32_t)weights;
	return true;
}

/* Returns whether the single affine step makes no NaN from finite values, that is, whether its parameters and the fill of a warp are finite. (The GPU's
 * conversions would change the bits of a NaN.) */
static bool makes_no_nan(const struct stk_pass *p)
{
	const struct stk_step *step = &p->steps[0];
	bool all = p->sampler != STK_SAMPLE_WARP || isfinite(p->warp.fill);
	for (int32_t c = 0; c < step->channels; c++)
		all = all && isfinite(step->scale[c]) && isfinite(step->bias[c]);
	return all;
}

static enum stk_pass_gpu_finish choose_finish(const struct stk_pass *p, int sampled)
{
	bool floats = p->dtype == STK_FLOAT || p->dtype == STK_FLOAT16 || p->dtype == STK_BFLOAT16;
	if (p->n_steps == 0 && sampled == STK_UINT8 && p->dtype == STK_UINT8)
		return STK_PASS_GPU_BYTES;
	if (p->n_steps == 0 && sampled == STK_FLOAT && p->dtype == STK_FLOAT)
		return STK_PASS_GPU_FLOATS;
	floats = floats && (p->in_dtype == STK_UINT8 || p->dtype == STK_FLOAT);
	return p->n_steps == 1 && p->steps[0].kind == STK_STEP_AFFINE && floats && makes_no_nan(p) ? STK_PASS_GPU_AFFINE
												   : STK_PASS_GPU_STEPS;
}

/* Returns how a launch without filter taps finishes pixels. sampled: type of the sampler's results; fills: true if the first step is a fill. */
static enum stk_pass_gpu_form choose_form(const struct stk_pass *p, int sampled, bool fills)
{
	const struct stk_step *step = &p->steps[fills];
	bool halves = p->dtype == STK_FLOAT16 || p->dtype == STK_BFLOAT16, plain = p->dtype == STK_UINT8 || p->dtype == STK_FLOAT;
	if (p->n_steps == fills)
		return plain && sampled == p->dtype ? STK_PASS_GPU_FORM_NONE : STK_PASS_GPU_FORM_STEPS;
	if (p->n_steps != fills + 1 || !(plain || (halves && !fills && p->in_dtype == STK_UINT8 && makes_no_nan(p))))
		return STK_PASS_GPU_FORM_STEPS;
	switch (step->kind) {
	case STK_STEP_AFFINE:
		return STK_PASS_GPU_FORM_AFFINE;
	case STK_STEP_MATRIX:
		return plain ? STK_PASS_GPU_FORM_MATRIX : STK_PASS_GPU_FORM_STEPS;
	case STK_STEP_GRAY:
		return plain ? STK_PASS_GPU_FORM_GRAY : STK_PASS_GPU_FORM_STEPS;
	default:
		return STK_PASS_GPU_FORM_STEPS;
	}
}

static enum stk_pass_gpu_mode choose_mode(const struct stk_pass *p, const struct stk_plan *plan)
{
	return plan->rows == STK_ROWS_COPY     ? STK_PASS_GPU_COPY
	       : p->sampler == STK_SAMPLE_WARP ? STK_PASS_GPU_WARP
	       : resizes(p, plan)              ? STK_PASS_GPU_RESIZE
					       : STK_PASS_GPU_PLAIN;
}

/* Returns whether four adjacent pixels of three channels (a quad) can be stored together: as words if values are bytes, otherwise as vectors of four values.
 * The output may be interleaved or in planes. */
static bool stores_quads(const struct stk_pass *p, const struct stk_image *dst)
{
	int64_t size = (int64_t)stk_dtype_size((enum stk_dtype)p->dtype);
	bool interleaved = dst->channel == size && dst->pixel == 3 * size;
	if (!interleaved && dst->pixel != size)
		return false;
	uint64_t planes = interleaved ? 0 : (uint64_t)dst->channel;
	if (p->dtype == STK_UINT8)
		return planes % 4 == 0;
	return p->w % 4 == 0 && ((uintptr_t)dst->data | (uint64_t)dst->row | planes) % (uint64_t)(4 * size) == 0;
}

/* Returns whether STK_PASS_GPU_ROWS_LAUNCH, which stores each row in quads, can run the item. The item is complete except for its thread blocks. Quads of
 * bytes are aligned to 4 bytes in the output, so a row's first quad may begin left of the row; quads of other types are counted from the start of the row. */
static bool takes_rows(
	const struct stk_pass *p, const struct stk_plan *plan, const struct stk_image *dst, const struct stk_pass_gpu_item *it)
{
	bool planned = it->form == STK_PASS_GPU_FORM_NONE || it->form == STK_PASS_GPU_FORM_AFFINE || it->form == STK_PASS_GPU_FORM_MATRIX;
	if (p->in_dtype != STK_UINT8 || p->in_c != 3 || it->src_channel != 1 || it->src_pixel != 3 || it->mode != STK_PASS_GPU_PLAIN ||
		plan->nearest || !planned)
		return false;
	return stores_quads(p, dst);
}

bool stk__pass_gpu_takes_made(const struct stk_pass *p, const struct stk_image *src, const struct stk_image *dst)
{
	bool whole = !p->sampler && p->w == p->in_w && p->h == p->in_h;
	for (int axis = 0; axis < 2; axis++)
		whole = whole && p->pre[axis].first == 0 && p->pre[axis].step == 1;
	return whole && p->in_dtype == STK_UINT8 && p->in_c == 3 && src->channel == 1 && src->pixel == 3 &&
	       src->row == 3 * (int64_t)p->in_w && choose_finish(p, STK_UINT8) == STK_PASS_GPU_AFFINE && stores_quads(p, dst);
}

/* Returns the number of quads in a row. It is one more if a row may begin inside a word. */
static uint32_t row_quads(const struct stk_pass *p, const struct stk_pass_gpu_item *it)
{
	bool aligned = p->dtype != STK_UINT8 || (it->dst | (uint64_t)it->dst_row) % 4 == 0;
	return ((uint32_t)p->w + (aligned ? 3 : 6)) / 4;
}

/* Returns whether the launch for warps without steps can run the item. The item is complete except for its thread blocks. */
static bool takes_texels(const struct stk_pass *p, const struct stk_pass_gpu_item *it)
{
	const struct stk_pass_gpu_axis *x = &it->axis[0], *y = &it->axis[1];
	int64_t element = (int64_t)stk_dtype_size((enum stk_dtype)p->dtype);
	bool whole = x->begin == 0 && y->begin == 0 && x->end == x->size && y->end == y->size;
	bool plain = it->form == STK_PASS_GPU_FORM_NONE && !it->fills && p->dtype == p->in_dtype &&
		     (p->in_c <= 1 || p->in_c == 3 || p->in_c == 4);
	return whole && plain && x->pre.step == 1 && it->dst_pixel == p->in_c * element && (it->dst_channel == element || p->in_c == 1) &&
	       stk__texel_fits(p->mid_w, p->mid_h, y->pre.step * it->src_row) && stk__texel_fits(p->w, p->h, it->dst_row);
}

/* Returns the number of outputs per row that a thread block makes. For resizes in STK_PASS_GPU_ANY_LAUNCH each thread makes one value of a row. */
static int32_t block_columns(
	const struct stk_pass *p, const struct stk_plan *plan, enum stk_pass_gpu_mode mode, enum stk_pass_gpu_launch launch)
{
	if (mode != STK_PASS_GPU_RESIZE)
		return launch != STK_PASS_GPU_ANY_LAUNCH ? STK_PASS_GPU_PIXEL_COLUMNS : STK_PASS_GPU_COLUMNS;
	return launch != STK_PASS_GPU_ANY_LAUNCH ? choose_columns(plan, p) : STK_PASS_GPU_THREADS / p->in_c;
}

static void add_blocks(struct stk_pass_gpu *b, const struct stk_pass *p, enum stk_pass_gpu_launch launch, struct stk_pass_gpu_item *it)
{
	bool pixels = launch == STK_PASS_GPU_PIXEL_LAUNCH || launch == STK_PASS_GPU_WARP_LAUNCH;
	int32_t rows = launch == STK_PASS_GPU_TEXEL_LAUNCH ? STK_TEXEL_ROWS : pixels ? STK_PASS_GPU_PIXEL_ROWS : STK_PASS_GPU_ROWS;
	bool quads = launch == STK_PASS_GPU_ROWS_LAUNCH || launch == STK_PASS_GPU_MADE_LAUNCH;
	memcpy(it->block0, b->n_blocks, sizeof it->block0);
	if (quads)
		b->n_blocks[launch] += (uint32_t)(((int64_t)it->across * p->h + STK_PASS_GPU_QUADS - 1) / STK_PASS_GPU_QUADS);
	else
		b->n_blocks[launch] += (uint32_t)((p->h + rows - 1) / rows) * it->across;
	if (p->has_hole && !(quads && p->dtype != STK_UINT8))
		b->n_blocks[STK_PASS_GPU_HOLES_LAUNCH] +=
			(uint32_t)(((int64_t)p->hole.at.w * p->hole.at.h + STK_PASS_GPU_HOLE - 1) / STK_PASS_GPU_HOLE);
}

/* Fills in all fields of an item except its thread blocks and those that fill_ends sets. Returns false if the batch has no space left for the taps. */
static bool fill_item(struct stk_pass_gpu *b, const struct stk_pass *p, const struct stk_plan *plan, enum stk_pass_gpu_launch launch,
	struct stk_pass_gpu_item *it)
{
	if (!make_axis(b, p, plan, 0, &it->axis[0]) || !make_axis(b, p, plan, 1, &it->axis[1]))
		return false;
	enum stk_pass_gpu_mode mode = choose_mode(p, plan);
	it->in_c = p->in_c;
	it->in_dtype = p->in_dtype;
	it->dtype = p->dtype;
	it->kind = plan->kind;
	it->mode = mode;
	it->sampled = mode == STK_PASS_GPU_WARP ? p->warp.dtype : mode == STK_PASS_GPU_RESIZE ? p->resize.dtype : p->in_dtype;
	it->columns = block_columns(p, plan, mode, launch);
	it->across = (uint32_t)((p->w + it->columns - 1) / it->columns);
	it->finish = choose_finish(p, it->sampled);
	it->fills = p->n_steps > 0 && p->steps[0].kind == STK_STEP_FILL;
	it->form = choose_form(p, it->sampled, it->fills);
	if (mode == STK_PASS_GPU_RESIZE && launch != STK_PASS_GPU_ANY_LAUNCH) {
		uint32_t shared = (uint32_t)shared_for(plan, p, it->columns < p->w ? it->columns : p->w) + 48;
		b->shared[launch] = b->shared[launch] > shared ? b->shared[launch] : shared;
	}
	if (mode == STK_PASS_GPU_WARP)
		it->warp = p->warp;
	it->mid_w = p->mid_w;
	it->mid_h = p->mid_h;
	it->step0 = add_steps(b, p);
	it->n_steps = (uint32_t)p->n_steps;
	it->out_c = p->c;
	if (p->has_hole)
		it->hole = p->hole;
	return true;
}

/* The source and destination of an item. The first pixel of src is pixel (x0, y0) of the whole source. maker: as in struct stk_pass_gpu_item. */
struct ends {
	const struct stk_image *src, *dst;
	int32_t x0, y0;
	const struct stk_job_gpu_item *maker;
};

static void fill_ends(struct stk_pass_gpu_item *it, const struct ends *e)
{
	it->src = (uintptr_t)e->src->data;
	it->src_row = e->src->row;
	it->src_pixel = e->src->pixel;
	it->src_channel = e->src->channel;
	it->x0 = e->x0;
	it->y0 = e->y0;
	it->src_w = e->src->width;
	it->maker = e->maker;
	it->dst = (uintptr_t)e->dst->data;
	it->dst_row = e->dst->row;
	it->dst_pixel = e->dst->pixel;
	it->dst_channel = e->dst->channel;
}

static bool add(struct stk_pass_gpu *b, const struct stk_pass *p, const struct ends *e)
{
	struct stk_plan plan;
	stk__plan_make(&plan, p);
	if (b->n_items == b->limits.images || !stk__pass_supports(p))
		return false;
	struct stk_pass_gpu_item *it = &b->items[b->n_items];
	enum stk_pass_gpu_launch launch = choose_launch(p, &plan, e->src);
	uint32_t first = b->n_first, weights = b->n_weights;
	memset(it, 0, sizeof *it);
	fill_ends(it, e);
	if (!fill_item(b, p, &plan, launch, it)) {
		b->n_first = first;
		b->n_weights = weights;
		return false;
	}
	if (e->maker || (launch == STK_PASS_GPU_PIXEL_LAUNCH && takes_rows(p, &plan, e->dst, it))) {
		launch = e->maker ? STK_PASS_GPU_MADE_LAUNCH : STK_PASS_GPU_ROWS_LAUNCH;
		it->across = row_quads(p, it);
	}
	if (launch == STK_PASS_GPU_WARP_LAUNCH && takes_texels(p, it)) {
		launch = STK_PASS_GPU_TEXEL_LAUNCH;
		it->across = stk__texel_across(((it->dst | (uint64_t)it->dst_row) & 3) == 0, p->w);
	}
	add_blocks(b, p, launch, it);
	for (int k = 0; k < STK_PASS_GPU_LAUNCHES; k++) {
		uint32_t added = b->n_blocks[k] - it->block0[k];
		b->each[k] = b->n_items == 0 || b->each[k] == added ? added : 0;
	}
	b->n_items++;
	return true;
}

bool stk__pass_gpu_add(
	struct stk_pass_gpu *b, const struct stk_pass *p, const struct stk_image *src, int32_t x0, int32_t y0, const struct stk_image *dst)
{
	return add(b, p, &(struct ends){.src = src, .dst = dst, .x0 = x0, .y0 = y0});
}

bool stk__pass_gpu_add_made(struct stk_pass_gpu *b, const struct stk_pass *p, const struct stk_image *src,
	const struct stk_job_gpu_item *maker, const struct stk_image *dst)
{
	return add(b, p, &(struct ends){.src = src, .dst = dst, .maker = maker});
}

size_t stk__pass_gpu_end(struct stk_pass_gpu *b)
{
	size_t items = aligned(sizeof *b->items * b->n_items), steps = sizeof *b->steps * b->n_steps;
	memcpy(b->tables + CURVE_BYTES + items, b->steps, steps);
	stk_gpu_ptr at = b->device_tables + CURVE_BYTES;
	b->view = (struct stk_pass_gpu_view){.items = (const struct stk_pass_gpu_item *)(uintptr_t)at,
		.steps = (const struct stk_step *)(uintptr_t)(at + items),
		.first = (int32_t *)(uintptr_t)b->device_work,
		.weights = (float *)(uintptr_t)(b->device_work + aligned(sizeof(int32_t) * b->limits.taps)),
		.n_items = b->n_items};
	return CURVE_BYTES + items + steps;
}

enum stk_status stk__pass_gpu_launch(struct stk_gpu_device *dev, const struct stk_pass_gpu_kernels *kernels, const struct stk_pass_gpu *b,
	stk_gpu_stream stream, struct stk_error *err)
{
	if (!b->n_items)
		return STK_OK;
	struct stk_pass_gpu_view view = b->view;
	struct stk_gpu_grid taps = {.blocks = {2 * b->n_items}, .threads = {STK_PASS_GPU_THREADS}};
	enum stk_status status = b->n_first ? stk__gpu_launch(dev, stream, kernels->taps, taps, (void *[]){&view}, err) : STK_OK;
	for (int i = 0; !status && i < STK_PASS_GPU_LAUNCHES; i++) {
		struct stk_gpu_grid run = {.blocks = {b->n_blocks[i]}, .threads = {STK_PASS_GPU_THREADS}, .shared = b->shared[i]};
		view.launch = i;
		view.each = b->each[i];
		if (run.blocks[0])
			status = stk__gpu_launch(dev, stream, kernels->run[i], run, (void *[]){&view}, err);
	}
	return status;
}
