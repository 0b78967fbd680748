/* SPDX-License-Identifier: Apache-2.0
 * Builds passes. Computes whether a pass can run, and which part of the source it reads. */
#include "kernel/pass/pass.h"
#include "kernel/convert/convert.h"
#include "kernel/pass/pass_plan.h"

#include <string.h>

bool stk__pass_joins(unsigned sofar, unsigned next)
{
	if ((next & STK_CLASS_SAMPLER) && (sofar & (STK_CLASS_SAMPLER | STK_CLASS_POINTWISE | STK_CLASS_FILL)))
		return false;
	return !(sofar & STK_CLASS_HOLE) && !((next & STK_CLASS_FILL) && (sofar & STK_CLASS_FILL));
}

static struct stk_axis_map identity(int32_t size)
{
	return (struct stk_axis_map){.first = 0, .step = 1, .low = 0, .high = size};
}

/* Refuses the pass. If it was refused before, the first reason stays. */
static void refuse(struct stk_pass *p, enum stk_pass_refusal why)
{
	if (!p->refused)
		p->refused = (uint8_t)why;
}

static bool extent_fits(int32_t extent)
{
	return extent >= 0 && extent <= STK_PASS_MAX_EXTENT;
}

void stk__pass_begin(struct stk_pass *p, enum stk_dtype dtype, int32_t w, int32_t h, int32_t c)
{
	/* A pass is built for every sample, so the steps, which are most of the struct, are only written when they are added. */
	memset(p, 0, offsetof(struct stk_pass, steps));
	p->in_dtype = p->dtype = (uint8_t)dtype;
	p->in_w = p->w = w;
	p->in_h = p->h = h;
	p->in_c = p->c = c;
	p->pre[0] = identity(w);
	p->pre[1] = identity(h);
	if (!extent_fits(w) || !extent_fits(h) || c <= 0)
		refuse(p, c <= 0 ? STK_PASS_MISUSED : STK_PASS_EXTENT);
}

static struct stk_axis_map *last_map(struct stk_pass *p, int axis)
{
	return p->sampler ? &p->post[axis] : &p->pre[axis];
}

/* Adds a step and returns it. Returns NULL if the pass is refused: if it was refused before, has too many steps or channels, or has a hole already. */
static struct stk_step *add_step(struct stk_pass *p, enum stk_step_kind kind, enum stk_dtype dtype, int32_t channels)
{
	if (p->c > STK_PASS_MAX_CHANNELS || channels > STK_PASS_MAX_CHANNELS)
		refuse(p, STK_PASS_CHANNELS);
	else if (p->n_steps == STK_PASS_MAX_STEPS)
		refuse(p, STK_PASS_STEPS);
	else if (p->has_hole)
		refuse(p, STK_PASS_MISUSED);
	if (p->refused)
		return NULL;
	struct stk_step *step = &p->steps[p->n_steps++];
	step->kind = (uint8_t)kind;
	step->dtype = p->dtype = (uint8_t)dtype;
	step->channels = p->c = channels;
	if (kind != STK_STEP_FILL)
		p->has_pointwise = 1;
	return step;
}

/* Sets m->low and m->high to the positions to which the map takes 0 .. size - 1, so that positions outside get the fill value. */
static void limit_to_extent(struct stk_axis_map *m, int32_t size)
{
	int32_t last = m->first + m->step * (size - 1);
	m->low = m->step > 0 ? m->first : last;
	m->high = (m->step > 0 ? last : m->first) + 1;
}

/* Copies one value for each channel to `to`, rounded to the pass's type if stk__dtype_in_steps accepts it. All
 * implementations use the rounded values, so they agree. */
static void take_values(const struct stk_pass *p, const float *value, float *to)
{
	memcpy(to, value, (size_t)p->c * sizeof *value);
	for (int32_t c = 0; c < p->c && stk__dtype_in_steps((enum stk_dtype)p->dtype); c++) {
		uint32_t rounded;
		stk__convert(&rounded, (enum stk_dtype)p->dtype, &value[c], STK_FLOAT, 1);
		stk__convert(&to[c], STK_FLOAT, &rounded, (enum stk_dtype)p->dtype, 1);
	}
}

static void add_fill(struct stk_pass *p, const float *value)
{
	struct stk_step *step = add_step(p, STK_STEP_FILL, (enum stk_dtype)p->dtype, p->c);
	if (step)
		take_values(p, value, step->value);
}

/* Returns true if the map's first position, after it is moved by `by` positions, is within STK_PASS_MAX_EXTENT. */
static bool reaches(const struct stk_axis_map *m, int32_t by)
{
	int64_t first = m->first + (int64_t)m->step * by;
	return first >= -STK_PASS_MAX_EXTENT && first <= STK_PASS_MAX_EXTENT;
}

void stk__pass_window(struct stk_pass *p, struct stk_rect window, const float *value)
{
	bool inside = window.x >= 0 && window.y >= 0 && window.w <= p->w - window.x && window.h <= p->h - window.y;
	struct stk_axis_map *x = last_map(p, 0), *y = last_map(p, 1);
	if (!extent_fits(window.w) || !extent_fits(window.h) || !reaches(x, window.x) || !reaches(y, window.y))
		refuse(p, STK_PASS_EXTENT);
	if (p->has_hole || (!inside && (!value || p->has_fill)))
		refuse(p, STK_PASS_MISUSED);
	if (p->refused)
		return;
	if (!inside) {
		limit_to_extent(x, p->w);
		limit_to_extent(y, p->h);
		p->has_fill = 1;
		add_fill(p, value);
	}
	x->first += x->step * window.x;
	y->first += y->step * window.y;
	p->w = window.w;
	p->h = window.h;
}

static void mirror(struct stk_axis_map *m, int32_t size)
{
	m->first += m->step * (size - 1);
	m->step = -m->step;
}

void stk__pass_mirror(struct stk_pass *p, bool x, bool y)
{
	if (p->has_hole)
		refuse(p, STK_PASS_MISUSED);
	if (x)
		mirror(last_map(p, 0), p->w);
	if (y)
		mirror(last_map(p, 1), p->h);
}

static void add_sampler(struct stk_pass *p, enum stk_sampler sampler, int32_t w, int32_t h, enum stk_dtype dtype)
{
	bool empty = w == 0 || h == 0;
	if (p->sampler || p->n_steps || p->has_hole || w < 0 || h < 0 || (!empty && (p->w <= 0 || p->h <= 0)))
		refuse(p, STK_PASS_MISUSED);
	else if (!extent_fits(w) || !extent_fits(h))
		refuse(p, STK_PASS_EXTENT);
	if (p->refused)
		return;
	if (empty) { /* an image without pixels: nothing is sampled, only extents and type change */
		p->w = w;
		p->h = h;
		stk__pass_cast(p, dtype);
		return;
	}
	p->sampler = (uint8_t)sampler;
	p->mid_w = p->w;
	p->mid_h = p->h;
	p->w = w;
	p->h = h;
	p->dtype = (uint8_t)dtype;
	p->post[0] = identity(w);
	p->post[1] = identity(h);
}

void stk__pass_resize(struct stk_pass *p, const struct stk_resize *r)
{
	add_sampler(p, STK_SAMPLE_RESIZE, r->out_w, r->out_h, (enum stk_dtype)r->dtype);
	p->resize = *r;
}

void stk__pass_warp(struct stk_pass *p, const struct stk_warp *w)
{
	add_sampler(p, STK_SAMPLE_WARP, w->out_w, w->out_h, (enum stk_dtype)w->dtype);
	p->warp = *w;
}

void stk__pass_affine(struct stk_pass *p, const float *scale, const float *bias, enum stk_dtype dtype)
{
	struct stk_step *step = add_step(p, STK_STEP_AFFINE, dtype, p->c);
	if (!step)
		return;
	memcpy(step->scale, scale, (size_t)p->c * sizeof *scale);
	memcpy(step->bias, bias, (size_t)p->c * sizeof *bias);
}

void stk__pass_matrix(struct stk_pass *p, const float m[9], const float b[3], enum stk_dtype dtype)
{
	struct stk_step *step = p->c == 3 ? add_step(p, STK_STEP_MATRIX, dtype, 3) : NULL;
	if (!step) {
		refuse(p, STK_PASS_MISUSED);
		return;
	}
	memcpy(step->m, m, sizeof step->m);
	memcpy(step->b, b, sizeof step->b);
}

void stk__pass_gray(struct stk_pass *p, const float weights[3], enum stk_dtype dtype)
{
	struct stk_step *step = p->c == 3 ? add_step(p, STK_STEP_GRAY, dtype, 1) : NULL;
	if (step)
		memcpy(step->scale, weights, 3 * sizeof *weights);
	else
		refuse(p, STK_PASS_MISUSED);
}

void stk__pass_cast(struct stk_pass *p, enum stk_dtype dtype)
{
	if (dtype != p->dtype)
		add_step(p, STK_STEP_CAST, dtype, p->c);
}

void stk__pass_clamp(struct stk_pass *p, float lo, float hi)
{
	struct stk_step *step = add_step(p, STK_STEP_CLAMP, (enum stk_dtype)p->dtype, p->c);
	if (!step)
		return;
	step->value[0] = lo;
	step->value[1] = hi;
}

void stk__pass_channels(struct stk_pass *p, int32_t channels, const float *value)
{
	struct stk_step *step = channels >= p->c ? add_step(p, STK_STEP_CHANNELS, (enum stk_dtype)p->dtype, channels) : NULL;
	if (step)
		memcpy(step->value, value, (size_t)channels * sizeof *value);
	else
		refuse(p, STK_PASS_MISUSED);
}

void stk__pass_hole(struct stk_pass *p, struct stk_rect at, const float *value)
{
	bool inside = at.x >= 0 && at.y >= 0 && at.w <= p->w - at.x && at.h <= p->h - at.y;
	if (p->c > STK_PASS_MAX_CHANNELS)
		refuse(p, STK_PASS_CHANNELS);
	else if (p->has_hole || !inside)
		refuse(p, STK_PASS_MISUSED);
	if (p->refused || at.w <= 0 || at.h <= 0)
		return;
	p->has_hole = 1;
	p->hole.at = at;
	take_values(p, value, p->hole.value);
}

/* Returns whether the pass is a resize that copies the nearest pixel along both axes. */
static bool takes_nearest(const struct stk_pass *p)
{
	return p->sampler == STK_SAMPLE_RESIZE && !stk__pass_resize_axis(p, 0).curve && !stk__pass_resize_axis(p, 1).curve;
}

bool stk__pass_pure_geometry(const struct stk_pass *p)
{
	if (p->has_pointwise || p->dtype != p->in_dtype)
		return false;
	return p->sampler == STK_SAMPLE_NONE || takes_nearest(p);
}

bool stk__pass_supports(const struct stk_pass *p)
{
	if (p->refused || (p->has_hole && !stk__dtype_in_steps((enum stk_dtype)p->dtype)))
		return false;
	if (stk__pass_pure_geometry(p))
		return true;
	if (p->c > STK_PASS_MAX_CHANNELS || p->in_c > STK_PASS_MAX_CHANNELS || !stk__dtype_in_steps((enum stk_dtype)p->in_dtype) ||
		!stk__dtype_in_steps((enum stk_dtype)p->dtype))
		return false;
	if (p->in_dtype == STK_INT32 && p->sampler != STK_SAMPLE_NONE)
		return false;
	for (int32_t i = 0; i < p->n_steps; i++)
		if (!stk__dtype_in_steps((enum stk_dtype)p->steps[i].dtype))
			return false;
	return true;
}

struct stk_filter_axis stk__pass_resize_axis(const struct stk_pass *p, int axis)
{
	const struct stk_resize *r = &p->resize;
	float begin = axis ? r->roi_y0 : r->roi_x0, end = axis ? r->roi_y1 : r->roi_x1;
	int32_t in = axis ? p->mid_h : p->mid_w, out = axis ? r->out_h : r->out_w;
	float extent = begin < end ? end - begin : begin - end;
	int filter = (float)out < extent ? r->min_filter : r->mag_filter;
	return stk__filter_axis((enum stk_interp)filter, r->antialias, r->drop, in, out, begin, end);
}

struct stk_span stk__pass_valid(const struct stk_pass *p, int axis)
{
	int32_t size = axis ? p->h : p->w;
	if (!p->has_fill)
		return (struct stk_span){0, size};
	const struct stk_axis_map *m = p->sampler ? &p->post[axis] : &p->pre[axis];
	struct stk_span s = m->step > 0 ? (struct stk_span){m->low - m->first, m->high - m->first}
					: (struct stk_span){m->first - m->high + 1, m->first - m->low + 1};
	s.begin = s.begin < 0 ? 0 : s.begin;
	s.end = s.end > size ? size : s.end;
	return s.begin < s.end ? s : (struct stk_span){0, 0};
}

/* Returns the span of positions of the previous stage from which positions s are made. m: the map from these to the previous stage. */
static struct stk_span map_span(const struct stk_axis_map *m, struct stk_span s)
{
	if (m->step > 0)
		return (struct stk_span){m->first + s.begin, m->first + s.end};
	return (struct stk_span){m->first - s.end + 1, m->first - s.begin + 1};
}

static struct stk_span resize_reads(const struct stk_filter_axis *a, int axis, struct stk_span s)
{
	bool summed = !a->curve && axis == 1;
	int32_t left = summed ? stk__filter_summed(a, s.begin) : stk__filter_first(a, s.begin);
	int32_t right = summed ? stk__filter_summed(a, s.end - 1) : stk__filter_first(a, s.end - 1);
	return left < right ? (struct stk_span){left, right + a->n} : (struct stk_span){right, left + a->n};
}

/* Returns the span of positions of the sampler's input that a warp reads along an axis, for outputs in spans x and y. The positions of the corners bound all
 * others. */
static struct stk_span warp_reads(const struct stk_pass *p, int axis, struct stk_span x, struct stk_span y)
{
	const float *m = p->warp.m + 3 * axis;
	float low = 0, high = 0;
	for (int corner = 0; corner < 4; corner++) {
		float at = m[0] * ((float)(corner & 1 ? x.end : x.begin)) + m[1] * ((float)(corner & 2 ? y.end : y.begin)) + m[2];
		low = corner == 0 || at < low ? at : low;
		high = corner == 0 || at > high ? at : high;
	}
	/* Two pixels on each side allow for the neighbours that linear interpolation reads and for the rounding of positions. If a position is not finite,
	 * the whole extent counts. */
	float size = (float)(axis ? p->mid_h : p->mid_w), margin = 2 + 1e-6f * (high - low);
	low = low - margin, high = high + margin;
	if (!(low > 0))
		low = 0;
	if (low > size - 1)
		low = size - 1;
	if (!(high < size))
		high = size;
	if (high < 1)
		high = 1;
	return (struct stk_span){(int32_t)low, (int32_t)high};
}

struct stk_rect stk__pass_source(const struct stk_pass *p)
{
	struct stk_span s[2] = {stk__pass_valid(p, 0), stk__pass_valid(p, 1)};
	if (s[0].begin == s[0].end || s[1].begin == s[1].end)
		return (struct stk_rect){0, 0, 0, 0};
	if (p->sampler) {
		for (int axis = 0; axis < 2; axis++)
			s[axis] = map_span(&p->post[axis], s[axis]);
		struct stk_span x = s[0], y = s[1];
		for (int axis = 0; axis < 2; axis++) {
			if (p->sampler == STK_SAMPLE_RESIZE) {
				struct stk_filter_axis a = stk__pass_resize_axis(p, axis);
				s[axis] = resize_reads(&a, axis, s[axis]);
			} else {
				s[axis] = warp_reads(p, axis, x, y);
			}
		}
	}
	s[0] = map_span(&p->pre[0], s[0]);
	s[1] = map_span(&p->pre[1], s[1]);
	return (struct stk_rect){s[0].begin, s[1].begin, s[0].end - s[0].begin, s[1].end - s[1].begin};
}
