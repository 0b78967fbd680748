/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass computes an output image from source pixels in one traversal. It consists of
 *     windows and mirrors -> at most one sampler (resize or warp) -> pointwise steps (colour, normalise, cast, fill) -> store in any layout -> at most one
 *       hole, which overwrites part of the output.
 *
 * Operators describe themselves by appending to a pass (op->lower). A chain of operators that fit together becomes one pass; a single operator is a pass of its
 * own. In both cases each step rounds and saturates to its declared type, so fusion changes no value. Windows and mirrors commute exactly with pointwise steps,
 * so they become part of the geometry wherever they are in the chain.
 *
 * On the CPU, rows are made in blocks that stay in the first-level cache: the sampler writes a block of rows, each step changes it in place, and the store
 * writes it to the output. The struct is plain data, so that it can be copied as bytes, also to a GPU.
 *
 * Usage:
 *     stk__pass_begin(&p, STK_UINT8, w, h, 3);
 *     stk__pass_window(&p, crop, NULL);  stk__pass_resize(&p, &to_224);  stk__pass_mirror(&p, true, false);
 *     stk__pass_affine(&p, scale, bias, STK_FLOAT);
 *     need = stk__pass_source(&p);                         // decode only this
 *     stk__pass_run(&p, kernels, &src, need.x, need.y, &dst, scratch); */
#ifndef STK_KERNEL_PASS_H
#define STK_KERNEL_PASS_H

#include "tensor/image.h"

#define STK_PASS_MAX_STEPS 12
#define STK_PASS_MAX_CHANNELS 16
/* The largest extent of an image or window, and the largest distance of a window from the image. With these limits, sums of positions fit into int32. */
#define STK_PASS_MAX_EXTENT (1 << 28)

/* Resizes a region of interest (ROI) to out_w x out_h. The ROI is in source pixels and may be fractional; start > end flips that axis. Each axis uses
 * min_filter if the output is smaller than the ROI's extent, otherwise mag_filter. */
struct stk_resize {
	int32_t out_w, out_h;
	float roi_x0, roi_y0, roi_x1, roi_y1;
	uint8_t min_filter, mag_filter; /* enum stk_interp */
	uint8_t antialias;              /* true: filters are widened where the image is made smaller */
	/* how filters treat pixels outside of the image: true leaves them out and normalises the other weights (Pillow), false repeats the edge (DALI) */
	uint8_t drop;
	uint8_t dtype; /* type of the output: the source's type or STK_FLOAT */
};

/* A warp: output pixel (x, y) is the input at position m * (x + .5, y + .5). Positions are relative to the upper left corner of the upper left pixel; m maps
 * output positions to source positions. */
struct stk_warp {
	int32_t out_w, out_h;
	float m[6];
	uint8_t interp; /* NN or LINEAR */
	uint8_t clamp;  /* border: true repeats the edge, false reads `fill` */
	uint8_t dtype;
	float fill;
};

enum stk_step_kind {
	STK_STEP_AFFINE,   /* y[c] = x[c] * scale[c] + bias[c] */
	STK_STEP_MATRIX,   /* 3 channels: y = M x + b */
	STK_STEP_GRAY,     /* 3 channels to 1: weights in scale[0..2] */
	STK_STEP_CAST,     /* only converts to dtype */
	STK_STEP_FILL,     /* adds the positions outside of the image, with value[c]; earlier steps process only positions inside */
	STK_STEP_CHANNELS, /* appends channels, whose values are value[c] */
	STK_STEP_CLAMP,    /* clamps to value[0] .. value[1]; NaN becomes value[0] */
};

struct stk_step {
	uint8_t kind, dtype; /* dtype: the type to which the result is rounded and saturated */
	int32_t channels;    /* number of channels after this step */
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

/* A rectangle of the output that is set to these values, which are rounded to the output's type. */
struct stk_hole {
	struct stk_rect at;
	float value[STK_PASS_MAX_CHANNELS];
};

/* The reason why a pass cannot be built. After an addition was refused, all further additions are ignored. */
enum stk_pass_refusal {
	STK_PASS_FITS,
	STK_PASS_CHANNELS, /* a step or a hole on more than STK_PASS_MAX_CHANNELS channels; run the pass plane by plane instead */
	STK_PASS_STEPS,    /* more than STK_PASS_MAX_STEPS steps */
	STK_PASS_EXTENT,   /* an extent, or the distance of a window from the image, exceeds STK_PASS_MAX_EXTENT */
	STK_PASS_MISUSED,  /* additions that cannot be combined, or an image without channels: a mistake in stoker */
};

enum stk_sampler { STK_SAMPLE_NONE, STK_SAMPLE_RESIZE, STK_SAMPLE_WARP };

/* Maps position k along an axis to position first + step * k (step is 1 or -1) of the previous stage. If the pass has a fill, positions outside of low ..
 * high - 1 get the fill value. */
struct stk_axis_map {
	int32_t first, step, low, high;
};

struct stk_cancel; /* base/cancel.h */

struct stk_pass {
	/* type, extents and number of channels of the source */
	uint8_t in_dtype;
	int32_t in_w, in_h, in_c;
	/* if an image is processed plane by plane (in_c is 1): the channel that this pass processes; otherwise 0. Set after stk__pass_begin */
	int32_t plane;
	/* index of the source frame that becomes frame 0 of the output; not 0 if a window cuts frames off, such as a window in the depth of a volume */
	int32_t first_frame;
	/* The geometry, in the order of the data: source, pre, sampler, post, output. Both maps lead back: `post` from positions in the output to those in the
	 * sampler's output, `pre` from positions in the sampler's input to those in the source. Index 0 is x, 1 is y. Without a sampler, all geometry is in
	 * `pre`. */
	struct stk_axis_map pre[2], post[2];
	int32_t mid_w, mid_h; /* extents of the sampler's input */
	uint8_t sampler;
	uint8_t has_fill, has_pointwise;
	uint8_t has_hole;
	uint8_t refused;                 /* enum stk_pass_refusal */
	const struct stk_cancel *cancel; /* set by the caller: no rows are written after this is cancelled; may be NULL */
	/* set by the caller: the output will not be read soon, so stores bypass the cache. Call stk__stores_fence before you read the output */
	uint8_t stream;
	union {
		struct stk_resize resize;
		struct stk_warp warp;
	};
	/* the pointwise steps, in the order in which they run */
	int32_t n_steps;
	struct stk_step steps[STK_PASS_MAX_STEPS];
	/* type and extents of the output, after the steps added so far */
	uint8_t dtype;
	int32_t w, h, c;
	struct stk_hole hole; /* valid if has_hole */
};

/* The kinds of additions that an operator makes to a pass, as a set of bits. graph/fuse.c decides from these bits whether the operator fits into a pass. */
enum stk_step_class {
	STK_CLASS_WINDOW = 1, /* windows and mirrors inside the image */
	STK_CLASS_FILL = 2,   /* windows that may reach outside of the image */
	STK_CLASS_SAMPLER = 4,
	STK_CLASS_POINTWISE = 8,
	STK_CLASS_MIXES = 16, /* reads several channels of a pixel, so it cannot be in a pass over one plane */
	STK_CLASS_HOLE = 32,  /* must be the last of its pass */
};

/* The rule of fusion: returns whether an operator of classes `next` may be added to a pass that has operators of the classes `sofar`. A pass has at most one
 * sampler, which precedes all pointwise steps and the fill, and at most one fill; nothing may follow a hole. */
bool stk__pass_joins(unsigned sofar, unsigned next);

/* Begins a pass over images of w x h pixels with c channels of type dtype. Images may have width or height 0: then nothing is read, and the positions that
 * windows add get the fill value. A sampler needs a source with pixels. This function and each addition set p->refused if they refuse their arguments; check
 * p->refused before you use the pass. */
void stk__pass_begin(struct stk_pass *p, enum stk_dtype dtype, int32_t w, int32_t h, int32_t c);

/* In the functions below, arrays have a value for each channel of the pass. In a pass over one plane, the first value is that of channel p->plane. */

/* Crops to a window, which may reach outside of the image. value: value of the positions outside of the image, for each channel, in the pass's current type;
 * NULL if the window is inside. */
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
/* Adds a hole. Nothing may be added afterwards. at: a part of the image; if it is empty, nothing changes. value: for each channel; rounded to the pass's
 * type. */
void stk__pass_hole(struct stk_pass *p, struct stk_rect at, const float *value);

/* Returns true if the pass was not refused and can run on its types and numbers of channels. Passes run on up to STK_PASS_MAX_CHANNELS channels and on types
 * that float32 holds exactly (uint8 int8 uint16 int16 float16 bfloat16 float32, bool). They also run on int32, except as the input of a sampler; steps
 * round its values to float32. Pure geometry (no sampler or nearest neighbour, no steps except fill, no hole) runs on every type and any number of channels. */
bool stk__pass_supports(const struct stk_pass *p);

/* Returns the part of the source that is read: the window and the pixels around it that filters need, clipped to the image. If nothing is read, w or h is 0. */
struct stk_rect stk__pass_source(const struct stk_pass *p);

/* Returns the size in bytes of the scratch memory for a run. The source's height affects it only through the number of taps of a vertical filter. */
size_t stk__pass_scratch(const struct stk_pass *p);

struct stk_pass_kernels; /* kernel/pass/pass_kernels.h */

/* Runs the pass. src contains at least stk__pass_source(p); its first pixel is pixel (x0, y0) of the whole source. 64 bytes after the end of each row of src
 * must be readable (STK_ARENA_SLACK). dst: an image of p->w x p->h pixels with p->c channels of type p->dtype, with any strides. scratch:
 * stk__pass_scratch(p) bytes, aligned to 64. */
void stk__pass_run(const struct stk_pass *p, const struct stk_pass_kernels *k, const struct stk_image *src, int32_t x0, int32_t y0,
	const struct stk_image *dst, void *scratch);

#endif
