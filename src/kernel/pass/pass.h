/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass: one trip over an image, from source pixels to finished output, made of
 *     windows and mirrors -> at most one sampler (resize or warp) -> pointwise steps (colour, normalise, cast, fill) -> store in any
 *     layout -> at most one hole, which is written over what was stored.
 *
 * Operators describe themselves by appending to a pass (op->lower); a chain of operators that fit becomes one pass, and an operator alone
 * is a pass of one step. Since each step rounds and saturates to its declared type in both cases, fusion changes no value.
 * Windows and mirrors commute with pointwise steps exactly, so they are folded into the geometry wherever they stand.
 *
 * Rows are made one block at a time and stay in the first-level cache: the sampler gives a block of rows, each step runs over it in
 * place, the store writes it. The struct is plain data, without pointers: a GPU kernel takes an array of them as it is.
 *
 * Usage:
 *     stk__pass_begin(&p, STK_UINT8, w, h, 3);
 *     stk__pass_window(&p, crop, NULL);  stk__pass_resize(&p, &to_224);  stk__pass_mirror(&p, true, false);
 *     stk__pass_affine(&p, scale, bias, STK_FLOAT);
 *     need = stk__pass_source(&p);                         // decode only this
 *     stk__pass_run(&p, kernels, &src, need.x, need.y, &dst, scratch);
 */
#ifndef STK_KERNEL_PASS_H
#define STK_KERNEL_PASS_H

#include "tensor/image.h"

#define STK_PASS_MAX_STEPS 12
#define STK_PASS_MAX_CHANNELS 16
/* The largest extent of an image or window, and how far a window may lie outside: what is added to it stays an int32. */
#define STK_PASS_MAX_EXTENT (1 << 28)

/* Resize of a region of interest to out_w x out_h. roi in source pixels, fractional; start > end flips that axis.
 * Per axis the minifying filter serves where the output is smaller than the ROI's extent, else the magnifying one. */
struct stk_resize {
	int32_t out_w, out_h;
	float roi_x0, roi_y0, roi_x1, roi_y1;
	uint8_t min_filter, mag_filter; /* enum stk_interp */
	uint8_t antialias;
	uint8_t drop; /* what a filter reads outside the image is left out and the rest normalised (Pillow); else the edge repeats (DALI) */
	uint8_t dtype; /* output: the source's type or STK_FLOAT */
};

/* out(x, y) = in(m * (x + .5, y + .5)) with the origin at a pixel's corner; m maps output to source. */
struct stk_warp {
	int32_t out_w, out_h;
	float m[6];
	uint8_t interp; /* NN or LINEAR */
	uint8_t clamp;  /* border: clamp to the edge, else `fill` */
	uint8_t dtype;
	float fill;
};

enum stk_step_kind {
	STK_STEP_AFFINE,   /* y[c] = x[c] * scale[c] + bias[c] */
	STK_STEP_MATRIX,   /* 3 channels: y = M x + b */
	STK_STEP_GRAY,     /* 3 channels to 1: weights in scale[0..2] */
	STK_STEP_CAST,     /* to dtype, nothing else */
	STK_STEP_FILL,     /* from here on the rows also have what lies outside the window: value[c] */
	STK_STEP_CHANNELS, /* appends channels of value[c] */
	STK_STEP_CLAMP,    /* to value[0] .. value[1]; NaN becomes value[0] */
};

struct stk_step {
	uint8_t kind, dtype; /* dtype: what the result rounds and saturates to */
	int32_t channels;    /* after this step */
	union {
		struct {
			float scale[STK_PASS_MAX_CHANNELS], bias[STK_PASS_MAX_CHANNELS];
		};
		struct {
			float m[9], b[3];
		};
		float value[STK_PASS_MAX_CHANNELS];
	};
};

/* A rectangle of the output that gets these values, of the output's type. */
struct stk_hole {
	struct stk_rect at;
	float value[STK_PASS_MAX_CHANNELS];
};

/* Why a pass cannot be built. What is added after that is ignored. */
enum stk_pass_refusal {
	STK_PASS_FITS,
	STK_PASS_CHANNELS, /* a step over more than STK_PASS_MAX_CHANNELS: take the image plane by plane */
	STK_PASS_STEPS,    /* more than STK_PASS_MAX_STEPS */
	STK_PASS_EXTENT,   /* a window, or an image, beyond STK_PASS_MAX_EXTENT */
	STK_PASS_MISUSED,  /* steps that do not go together: our own mistake */
};

enum stk_sampler { STK_SAMPLE_NONE, STK_SAMPLE_RESIZE, STK_SAMPLE_WARP };

/* Position k on an axis comes from position first + step * k (step is 1 or -1) of what precedes. Where the pass has a fill, positions
 * outside low .. high - 1 are that. */
struct stk_axis_map {
	int32_t first, step, low, high;
};

struct stk_cancel; /* base/cancel.h */

struct stk_pass {
	/* the source */
	uint8_t in_dtype;
	int32_t in_w, in_h, in_c;
	int32_t plane; /* where an image is taken plane by plane, in_c being 1: which channel this pass is of; else 0. Set after stk__pass_begin */
	int32_t first_frame; /* of the source, where the output shows fewer frames, as a window in the depth of a volume does */
	/* geometry: source -> pre -> sampler -> post -> output; index 0 is x, 1 is y. Without a sampler all of it is pre. */
	struct stk_axis_map pre[2], post[2];
	int32_t mid_w, mid_h; /* what the sampler sees */
	uint8_t sampler;
	uint8_t has_fill, has_pointwise;
	uint8_t has_hole;
	uint8_t refused;                 /* enum stk_pass_refusal */
	const struct stk_cancel *cancel; /* set by the caller: once cancelled, rows are left unwritten; NULL: never */
	uint8_t stream; /* set by the caller: the output is not read soon and need not stay in a cache; call stk__stores_fence before it is read */
	union {
		struct stk_resize resize;
		struct stk_warp warp;
	};
	/* pointwise */
	int32_t n_steps;
	struct stk_step steps[STK_PASS_MAX_STEPS];
	/* the output so far */
	uint8_t dtype;
	int32_t w, h, c;
	struct stk_hole hole; /* with has_hole */
};

/* What an operator may add, so that the compiler of graphs knows beforehand whether it fits after what is there. */
enum stk_step_class {
	STK_CLASS_WINDOW = 1, /* windows and mirrors inside the image */
	STK_CLASS_FILL = 2,   /* windows that may reach outside it */
	STK_CLASS_SAMPLER = 4,
	STK_CLASS_POINTWISE = 8,
	STK_CLASS_MIXES = 16, /* reads several channels of a pixel: not for passes over one plane */
	STK_CLASS_HOLE = 32,  /* the last of its pass */
};

/* The rule of fusion: true when an operator of classes `next` may join a pass that has those of `sofar`: one sampler, before any
 * pointwise step or fill, and one fill; behind a hole nothing. */
bool stk__pass_joins(unsigned sofar, unsigned next);

/* Images may be empty in width or height: nothing is read, and what windows add is fill. Samplers need something to sample.
 * What does not fit sets p->refused, which is to be looked at before anything else is asked of the pass. */
void stk__pass_begin(struct stk_pass *p, enum stk_dtype dtype, int32_t w, int32_t h, int32_t c);

/* Values by channel are those of the pass's own channels, from p->plane on. */

/* Keeps the window. value: per channel, in the type that the pass has now, for what lies outside; NULL when the window lies inside. */
void stk__pass_window(struct stk_pass *p, struct stk_rect window, const float *value);
void stk__pass_mirror(struct stk_pass *p, bool x, bool y);
void stk__pass_resize(struct stk_pass *p, const struct stk_resize *r);
void stk__pass_warp(struct stk_pass *p, const struct stk_warp *w);
void stk__pass_affine(struct stk_pass *p, const float *scale, const float *bias, enum stk_dtype dtype);
void stk__pass_matrix(struct stk_pass *p, const float m[9], const float b[3], enum stk_dtype dtype);
void stk__pass_gray(struct stk_pass *p, const float weights[3], enum stk_dtype dtype);
void stk__pass_cast(struct stk_pass *p, enum stk_dtype dtype);
void stk__pass_clamp(struct stk_pass *p, float lo, float hi);
void stk__pass_channels(struct stk_pass *p, int32_t channels, const float *value);
/* at: a part of the image; an empty one changes nothing. Nothing may be added after this. value: by channel; it is rounded to the type that the pass has. */
void stk__pass_hole(struct stk_pass *p, struct stk_rect at, const float *value);

/* True where the pass was built and can run on this type at all: types that float32 holds exactly (uint8 int8 uint16 int16 float16 bfloat16 float32, bool),
 * and, without a sampler, int32, of which steps see the nearest float32.
 * Pure geometry (no sampler but none or NN, no steps but fill) runs on every type. */
bool stk__pass_supports(const struct stk_pass *p);

/* The part of the source that is read: window and filter support, clipped to the image; empty (w or h 0) when nothing is. */
struct stk_rect stk__pass_source(const struct stk_pass *p);

/* Bytes of scratch that a run takes; independent of the source's height but for the number of taps. */
size_t stk__pass_scratch(const struct stk_pass *p);

struct stk_pass_kernels; /* kernel/pass/pass_kernels.h */

/* src holds at least stk__pass_source(p), its first pixel being (x0, y0) of the whole source; src rows are readable 64 bytes past their end
 * (STK_ARENA_SLACK). dst: p->w x p->h x p->c of p->dtype, any strides. scratch: stk__pass_scratch(p) bytes, aligned to 64. */
void stk__pass_run(const struct stk_pass *p, const struct stk_pass_kernels *k, const struct stk_image *src, int32_t x0, int32_t y0,
	const struct stk_image *dst, void *scratch);

#endif
