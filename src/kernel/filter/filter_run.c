/* SPDX-License-Identifier: Apache-2.0
 * Filters on the CPU, row by row. Each row of the input is converted to float32 once, extended beyond its ends by the border, and filtered along the width
 * unless the window is dense. Rows that a window still needs stay in a ring buffer. The filter along the height or the depth, or over the positions of a dense
 * window, combines values at equal indices of several rows (taps), so one set of loops is enough (filter_loops.h). */
#include "kernel/filter/filter_run.h"

#include "base/memory.h"
#include "kernel/convert/convert.h"
#include "kernel/filter/filter_element.h"

#include <string.h>

struct run {
	const struct stk_filter *f;
	const struct stk_filter_data *d;
	const struct stk_filter_kernels *k;
	int32_t left, right;      /* number of positions that are added at each end of a row */
	bool filters_width_first; /* rows are filtered along the width before they enter the ring */
	int32_t rows_per_input;   /* number of rows that the ring has for each input row: one, or one for each term */
	int64_t width;            /* number of values in a row of the ring */
	int64_t slots; /* number of slots in the ring; slot r % slots contains row r of the volume if row_numbers[r % slots] is r */
	int64_t *row_numbers;
	/* extended: a row of the input with its border; outside: a row of fill values; result: a row of outputs */
	float *ring, *extended, *outside, *result;
	const float **taps, **row_taps; /* addresses of the taps that are combined next, and of the taps along a row */
	float *weights;                 /* weights of the taps of a separable filter's last phase */
	/* if the last phase is along the depth: the results of the phase that precedes it, one volume for each term */
	float *sets;
};

static inline int32_t larger(int32_t a, int32_t b)
{
	return a > b ? a : b;
}

/* ---- scratch ---- */

static void measure(struct run *r)
{
	const struct stk_filter *f = r->f;
	int32_t height = 1;
	bool deep = false;
	for (int t = 0; t < f->n_terms; t++) {
		const struct stk_filter_window *w = f->window[t];
		r->left = larger(r->left, -w[2].first);
		r->right = larger(r->right, f->out[2] - 1 + w[2].first + w[2].size - f->in[2]);
		r->filters_width_first |= !f->dense && w[2].size > 1;
		height = larger(height, w[1].size);
		deep |= f->dense && w[0].size > 1;
	}
	r->rows_per_input = r->filters_width_first ? f->n_terms : 1;
	r->width = (r->filters_width_first ? (int64_t)f->out[2] : (int64_t)r->left + f->in[2] + r->right) * f->channels;
	bool needs_all_rows = f->border == STK_BORDER_WRAP || height > f->in[1];
	r->slots = deep ? (int64_t)f->in[0] * f->in[1] : needs_all_rows ? f->in[1] : height;
}

/* Returns the maximum number of taps of an output: over a dense window, or along the height or the depth of a separable one, where an output combines the
 * windows of all terms. Sets *row to the maximum number of taps along a row, where each term has outputs of its own. */
static int64_t count_taps(const struct stk_filter *f, int64_t *row)
{
	int64_t taps = 0, height = 0, depth = 0;
	*row = 0;
	for (int t = 0; t < f->n_terms; t++) {
		const struct stk_filter_window *w = f->window[t];
		taps += (int64_t)w[0].size * w[1].size * w[2].size;
		height += w[1].size;
		depth += w[0].size;
		*row = *row > w[2].size ? *row : w[2].size;
	}
	return f->dense ? taps : height > depth ? height : depth;
}

static float *allocate(struct stk_arena *arena, int64_t values)
{
	return stk__arena_take(arena, (size_t)values * sizeof(float));
}

static bool take_scratch(struct run *r, struct stk_arena *arena)
{
	const struct stk_filter *f = r->f;
	int64_t row_taps, taps = count_taps(f, &row_taps), extended = ((int64_t)r->left + f->in[2] + r->right) * f->channels;
	bool sets = !f->dense && f->last == 0;
	r->ring = allocate(arena, r->slots * r->rows_per_input * r->width);
	r->extended = allocate(arena, extended);
	r->outside = allocate(arena, extended);
	r->result = allocate(arena, (int64_t)f->out[2] * f->channels);
	r->weights = allocate(arena, taps);
	r->taps = stk__arena_take(arena, (size_t)taps * sizeof *r->taps);
	r->row_taps = stk__arena_take(arena, (size_t)row_taps * sizeof *r->row_taps);
	r->row_numbers = stk__arena_take(arena, (size_t)r->slots * sizeof *r->row_numbers);
	r->sets = sets ? allocate(arena, f->n_terms * stk__filter_volume(f, f->out)) : NULL;
	if (!r->ring || !r->extended || !r->outside || !r->result || !r->weights || !r->taps || !r->row_taps || !r->row_numbers ||
		(sets && !r->sets))
		return false;
	for (int64_t i = 0; f->border == STK_BORDER_FILL && i < extended; i++)
		r->outside[i] = stk__filter_fill(f, r->d->src_dtype);
	return true;
}

/* ---- rows ---- */

static void reduce(const struct run *r, float *out, const float *const *taps, const float *weights, int n_taps, int64_t n)
{
	switch (r->f->reduction) {
	case STK_FILTER_SUM:
		r->k->sum(out, taps, weights, n_taps, (int)n);
		break;
	case STK_FILTER_LEAST:
		r->k->least(out, taps, n_taps, (int)n);
		break;
	case STK_FILTER_LARGEST:
		r->k->largest(out, taps, n_taps, (int)n);
		break;
	default:
		r->k->median(out, taps, n_taps, (int)n);
	}
}

static void extend_at(const struct run *r, float *row, int32_t p)
{
	const struct stk_filter *f = r->f;
	int32_t index = stk__border_index(p, f->in[2], f->border);
	const float *from = index < 0 ? r->outside : row + (int64_t)index * f->channels;
	memcpy(row + (int64_t)p * f->channels, from, (size_t)f->channels * sizeof *from);
}

static void extend(const struct run *r, float *to, const uint8_t *from)
{
	const struct stk_filter *f = r->f;
	int64_t n = (int64_t)f->in[2] * f->channels;
	float *row = to + (int64_t)r->left * f->channels;
	bool bytes = r->d->src_dtype == STK_UINT8;
	if (bytes)
		r->k->load_bytes(row, from, (int)n);
	else
		stk__convert(row, STK_FLOAT, from, (enum stk_dtype)r->d->src_dtype, n);
	for (int64_t i = 0; !bytes && f->reduction == STK_FILTER_MEDIAN && i < n; i++)
		row[i] = stk__filter_one_nan(row[i]);
	for (int32_t p = 1; p <= r->left; p++)
		extend_at(r, row, -p);
	for (int32_t p = 0; p < r->right; p++)
		extend_at(r, row, f->in[2] + p);
}

/* Filters the extended row along the width; `to` gets r->width values for each term. */
static void run_width(const struct run *r, float *to)
{
	const struct stk_filter *f = r->f;
	for (int t = 0; t < f->n_terms; t++, to += r->width) {
		const struct stk_filter_window *w = &f->window[t][2];
		for (int32_t k = 0; k < w->size; k++)
			r->row_taps[k] = r->extended + (int64_t)(r->left + w->first + k) * f->channels;
		reduce(r, to, r->row_taps, r->d->weights ? r->d->weights + w->weights : NULL, w->size, r->width);
	}
}

/* Returns the address of a row in the ring. Loads the row first if it is not there. volume: the first value of the input volume; row: index of the row in
 * the volume; t: the term whose result is returned if rows are filtered along the width. */
static const float *kept_row(const struct run *r, const uint8_t *volume, int64_t row, int t)
{
	const struct stk_filter *f = r->f;
	int64_t slot = row % r->slots;
	float *at = r->ring + slot * r->rows_per_input * r->width;
	if (r->row_numbers[slot] != row) {
		r->row_numbers[slot] = row;
		extend(r, r->filters_width_first ? r->extended : at, volume + row * f->in[2] * f->channels * r->d->src_size);
		if (r->filters_width_first)
			run_width(r, at);
	}
	return r->filters_width_first ? at + t * r->width : at + (int64_t)r->left * f->channels;
}

static void store(const struct run *r, const float *row, int64_t index, int64_t n)
{
	uint8_t *to = r->d->dst + index * r->d->dst_size;
	if (r->d->dst_dtype == STK_UINT8)
		r->k->store_bytes(to, row, (int)n);
	else
		stk__convert(to, (enum stk_dtype)r->d->dst_dtype, row, STK_FLOAT, n);
}

/* ---- phases ---- */

/* Stores in r->taps the addresses of the taps along the height for row y of depth z and terms begin .. end - 1. Returns their number. */
static int gather_height(const struct run *r, const uint8_t *volume, int32_t z, int32_t y, int begin, int end)
{
	const struct stk_filter *f = r->f;
	int n = 0;
	for (int t = begin; t < end; t++)
		for (int32_t k = 0; k < f->window[t][1].size; k++) {
			int32_t index = stk__border_index(y + f->window[t][1].first + k, f->in[1], f->border);
			r->taps[n++] = index < 0 ? r->outside : kept_row(r, volume, (int64_t)z * f->in[1] + index, t);
		}
	return n;
}

static int gather_dense(const struct run *r, const uint8_t *volume, int32_t z, int32_t y)
{
	const struct stk_filter *f = r->f;
	const struct stk_filter_window *w = f->window[0];
	int n = 0;
	for (int32_t kz = 0; kz < w[0].size; kz++)
		for (int32_t ky = 0; ky < w[1].size; ky++) {
			int32_t depth = stk__border_index(z + w[0].first + kz, f->in[0], f->border);
			int32_t height = stk__border_index(y + w[1].first + ky, f->in[1], f->border);
			bool outside = (depth | height) < 0;
			/* all values of a row outside of the image are the same, so any position serves */
			const float *row = outside ? r->outside + (int64_t)r->left * f->channels
						   : kept_row(r, volume, (int64_t)depth * f->in[1] + height, 0);
			for (int32_t kx = 0; kx < w[2].size; kx++)
				r->taps[n++] = row + (int64_t)(w[2].first + kx) * f->channels;
		}
	return n;
}

/* Copies the weights along `axis`, the last axis, to r->weights, term by term. */
static void gather_weights(const struct run *r, int axis)
{
	const struct stk_filter *f = r->f;
	float *to = r->weights;
	for (int t = 0; f->reduction == STK_FILTER_SUM && t < f->n_terms; t++) {
		const struct stk_filter_window *w = &f->window[t][axis];
		memcpy(to, r->d->weights + w->weights, (size_t)w->size * sizeof *to);
		to += w->size;
	}
}

static void run_depth(const struct run *r, int64_t first, int64_t width)
{
	const struct stk_filter *f = r->f;
	int64_t plane = f->out[1] * width, volume = f->out[0] * plane;
	for (int32_t z = 0; z < f->out[0]; z++)
		for (int64_t at = 0; at < plane; at += width) {
			int n = 0;
			for (int t = 0; t < f->n_terms; t++)
				for (int32_t k = 0; k < f->window[t][0].size; k++) {
					int32_t index = stk__border_index(z + f->window[t][0].first + k, f->in[0], f->border);
					r->taps[n++] = index < 0 ? r->outside : r->sets + t * volume + index * plane + at;
				}
			reduce(r, r->result, r->taps, r->weights, n, width);
			store(r, r->result, first + z * plane + at, width);
		}
}

static void run_volume(const struct run *r, const uint8_t *volume, int64_t first)
{
	const struct stk_filter *f = r->f;
	const float *dense = r->d->weights;
	int64_t width = (int64_t)f->out[2] * f->channels;
	for (int64_t i = 0; i < r->slots; i++)
		r->row_numbers[i] = -1;
	for (int32_t z = 0; z < f->out[0]; z++)
		for (int32_t y = 0; y < f->out[1]; y++) {
			int64_t row = ((int64_t)z * f->out[1] + y) * width;
			for (int t = 0; r->sets && t < f->n_terms; t++) {
				int n = gather_height(r, volume, z, y, t, t + 1);
				reduce(r, r->sets + t * f->out[0] * f->out[1] * width + row, r->taps,
					r->d->weights ? r->d->weights + f->window[t][1].weights : NULL, n, width);
			}
			if (r->sets)
				continue;
			int n = f->dense ? gather_dense(r, volume, z, y) : gather_height(r, volume, z, y, 0, f->n_terms);
			reduce(r, r->result, r->taps, f->dense ? dense : r->weights, n, width);
			store(r, r->result, first + row, width);
		}
	if (r->sets)
		run_depth(r, first, width);
}

enum stk_status stk__filter_run(const struct stk_filter *f, const struct stk_filter_data *data, const struct stk_filter_kernels *kernels,
	struct stk_arena *arena, struct stk_error *err)
{
	struct run r = {.f = f, .d = data, .k = kernels};
	struct stk_arena_mark mark = stk__arena_mark(arena);
	measure(&r);
	enum stk_status s = STK_OK;
	if (!take_scratch(&r, arena))
		s = stk__fail(err, STK_NO_MEMORY, "out of memory for the rows of a filter");
	else if (!f->dense)
		gather_weights(&r, f->last);
	for (int64_t o = 0; !s && o < f->outer; o++)
		run_volume(&r, data->src + o * stk__filter_volume(f, f->in) * data->src_size, o * stk__filter_volume(f, f->out));
	stk__arena_release(arena, mark);
	return s;
}
