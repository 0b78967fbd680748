/* SPDX-License-Identifier: Apache-2.0
 *
 * A recipe describes how to process images of one size that are in memory, if samples differ only in ways that follow from their positions in the epoch. A
 * recipe is a pass (kernel/pass/pass.h) without a sampler, whose windows and mirrors may be random. Then the host does no work per sample: the kernel finds
 * the sample at a position of the epoch, draws the random numbers of the operators' streams (base/philox.h), and writes the finished image. It also copies
 * other data of the sample, such as labels, from tables.
 *
 * Usage:
 *     stk__recipe_begin(&r, 32, 32, 3);
 *     stk__recipe_window(&r, &(struct stk_recipe_window){.key = key, ...}, fill);          // an operator that draws its own window
 *     stk__recipe_next(&r, &pass[v]); op->lower(call[v], &pass[v]);                        // an operator whose arguments are coins, or that draws nothing:
 *     stk__recipe_move(&r, coins, n, pass);                                                // once for each outcome
 *     if (stk__recipe_supports(&r)) ...
 *     stk__recipe_run(&batch, ...)                  // on the CPU, for tests (recipe_reference.h)
 *     stk__recipe_gpu_launch(dev, kernel, &batch, stream, err);        // the same bytes */
#ifndef STK_KERNEL_RECIPE_H
#define STK_KERNEL_RECIPE_H

#include "base/philox_hd.h"
#include "gpu/gpu.h"
#include "kernel/pass/pass.h"

enum {
	STK_RECIPE_MOVES = 6,
	STK_RECIPE_COINS = 2, /* maximum number of coins of an operator */
	STK_RECIPE_VARIANTS = 1 << STK_RECIPE_COINS,
	STK_RECIPE_CHANNELS = 4,
	STK_RECIPE_RUNS = 8,
	STK_RECIPE_TABLES = 3,
	STK_RECIPE_THREADS = 256, /* threads in a thread block, which makes one sample */
};

/* A random bit: 1 if the first draw of a stream, in [0, 1), is below `chance`, otherwise 0. */
struct stk_recipe_coin {
	uint64_t key; /* as in struct stk_random */
	float chance;
};

/* The geometry of one operator. `map` has an entry for each outcome of the operator's coins (bit k of its index is coin k), which maps positions of the output
 * to positions of the input, along x and y. The start of a random window is increased by a random number from 0 to positions - 1, which is computed from draw
 * number `draw` (0 .. 3) of the stream with this key. */
struct stk_recipe_move {
	struct stk_axis_map map[STK_RECIPE_VARIANTS][2]; /* if `fills` is set, positions outside of low .. high - 1 get the fill value */
	struct stk_recipe_coin coin[STK_RECIPE_COINS];
	int32_t n_coins;
	int32_t fills;
	uint64_t key;
	uint32_t positions[2]; /* number of possible starts along x and y; 0: not random */
	int32_t draw[2];
};

/* A recipe. It is plain data, so that it can be copied to device memory as it is. */
struct stk_recipe {
	int32_t n_moves;
	struct stk_recipe_move moves[STK_RECIPE_MOVES];
	struct stk_pass pass; /* the pass of every sample, except for its geometry `pre` */
};

void stk__recipe_begin(struct stk_recipe *r, int32_t w, int32_t h, int32_t c);

struct stk_recipe_window {
	uint64_t key;
	int32_t w, h;
	int32_t before[2]; /* the window begins at (a random number from 0 to positions - 1) - before */
	uint32_t positions[2];
	int32_t draw[2];
};
/* Adds a random window. fill: one value per channel, for positions outside of the image. Returns false if the recipe has STK_RECIPE_MOVES moves already, or
 * would need two fills. */
bool stk__recipe_window(struct stk_recipe *r, const struct stk_recipe_window *window, const float *fill);

/* Appends an operator. variants: for each outcome of its coins, a pass to which the operator was lowered, begun by stk__recipe_next. Returns false if
 * variants differ in more than windows and mirrors or have a sampler, if there are too many moves or coins, or if the recipe would need two fills. The
 * recipe can then not be used. */
bool stk__recipe_move(struct stk_recipe *r, const struct stk_recipe_coin *coins, int32_t n_coins, const struct stk_pass *variants);
/* Begins the pass of the next operator, *p. It contains the steps that the recipe has so far, but no geometry, and its source has the size that the recipe's
 * output has so far. */
void stk__recipe_next(const struct stk_recipe *r, struct stk_pass *p);

/* Returns whether the recipe can run: images of up to STK_RECIPE_CHANNELS channels, neither empty nor too large for the kernel's divisions, no sampler, no
 * hole, steps that mix no channels, and an output of uint8, float16, bfloat16 or float32. */
bool stk__recipe_supports(const struct stk_recipe *r);

/* Samples first .. first + count - 1 of a batch, as in struct stk_order_run (order/order.h), with the shuffle of its epoch. */
struct stk_recipe_run {
	int32_t first, count;
	uint32_t epoch, shuffled;
	int64_t position, step, padded;
	struct stk_shuffle shuffle;
};

/* A table with data of each sample: `bytes` bytes at from + id * bytes. For the batch's i-th sample, they are copied to the address to + i * bytes. */
struct stk_recipe_table {
	const uint8_t *from;
	uint8_t *to;
	uint32_t bytes, unused;
};

struct stk_recipe_divisor {
	uint32_t n, factor; /* x / n equals x * factor >> 32 for all x that occur; factor 0 stands for n = 1 */
};

/* A batch. Pointers are host pointers for stk__recipe_run, and device pointers for stk__recipe_gpu_launch, which passes the struct itself by value. */
struct stk_recipe_batch {
	const struct stk_recipe *recipe; /* NULL: the batch has no images, only values from tables */
	const uint8_t *images;           /* interleaved uint8, image_bytes each; bytes past the end must be readable as for stk__pass_run */
	const int64_t *indices;          /* id of the sample for each entry of the order; NULL: entry i is sample i */
	uint8_t *to;                     /* dense: image after image */
	int64_t image_bytes;
	int32_t count, planar; /* number of samples; 1 if outputs are CHW, 0 if they are HWC */
	int32_t n_runs, n_tables;
	int32_t finish; /* enum stk_recipe_finish */
	/* for STK_RECIPE_AFFINE: whether the affine step also applies to the fill; otherwise the fill is stored unchanged */
	int32_t fill_before;
	uint32_t elements; /* number of elements in an output image */
	/* Divisors of an element's index: the number of elements in a plane, then in a row (CHW); or in a row, then in a pixel (HWC). */
	struct stk_recipe_divisor outer, inner;
	struct stk_recipe_run runs[STK_RECIPE_RUNS];
	struct stk_recipe_table tables[STK_RECIPE_TABLES];
};

/* How an element is finished: by the pass's steps one after the other or, in the usual case, by a single affine step. */
enum stk_recipe_finish { STK_RECIPE_STEPS, STK_RECIPE_AFFINE };

/* Sets all fields that are the same for all batches of a recipe, except addresses. r: must be in host memory. */
void stk__recipe_layout(struct stk_recipe_batch *b, const struct stk_recipe *r, bool planar);

/* Makes the pass of the sample at a position of an epoch. */
void stk__recipe_pass(const struct stk_recipe *r, uint32_t epoch, uint64_t position, struct stk_pass *p);

/* Returns the size in bytes of the scratch memory that suffices for the pass of any sample. */
size_t stk__recipe_scratch(const struct stk_recipe *r);

/* Load the kernel, and launch it for a batch. Call these inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__recipe_gpu_load(struct stk_gpu_device *dev, stk_gpu_kernel *kernel, struct stk_error *err);
STK_MUST_USE enum stk_status stk__recipe_gpu_launch(
	struct stk_gpu_device *dev, stk_gpu_kernel kernel, const struct stk_recipe_batch *b, stk_gpu_stream stream, struct stk_error *err);

#endif
