/* SPDX-License-Identifier: Apache-2.0
 *
 * Recipes: what is done to images of one size that lie in memory, if all that differs between samples follows from their places.
 * A recipe is a pass (kernel/pass/pass.h) without a sampler whose windows and mirrors may be drawn. A batch then needs no work for each sample on the
 * host: the kernel finds which sample stands at a position of the epoch, makes the draws of the operators' streams (base/philox.h), and writes the
 * finished image, and beside it what else is known of the sample, out of tables.
 *
 * Usage:
 *     stk__recipe_begin(&r, 32, 32, 3);
 *     stk__recipe_window(&r, &(struct stk_recipe_window){.key = key, ...}, fill);          // an operator that draws its own window
 *     stk__recipe_next(&r, &pass[v]); op->lower(call[v], &pass[v]);                        // one whose arguments are coins, or that draws nothing:
 *     stk__recipe_move(&r, coins, n, pass);                                                // once for each outcome
 *     if (stk__recipe_supports(&r)) ...
 *     stk__recipe_run(&batch, ...)                  // on the CPU, for tests (recipe_reference.h)
 *     stk__recipe_gpu_launch(dev, kernel, &batch, stream, err);        // the same bytes
 */
#ifndef STK_KERNEL_RECIPE_H
#define STK_KERNEL_RECIPE_H

#include "base/philox_hd.h"
#include "gpu/gpu.h"
#include "kernel/pass/pass.h"

enum {
	STK_RECIPE_MOVES = 6,
	STK_RECIPE_COINS = 2, /* of an operator */
	STK_RECIPE_VARIANTS = 1 << STK_RECIPE_COINS,
	STK_RECIPE_CHANNELS = 4,
	STK_RECIPE_RUNS = 8,
	STK_RECIPE_TABLES = 3,
	STK_RECIPE_THREADS = 256, /* of a thread block, which makes one sample */
};

/* 1 where the first draw of a stream, in [0, 1), is below `chance`. */
struct stk_recipe_coin {
	uint64_t key; /* struct stk_random's */
	float chance;
};

/* What one operator does to the geometry: where position k of what it makes lies in what it is given, for each outcome of its coins (the first coin
 * is bit 0). A window at a random place begins `below(places)` further on, by draw number `draw` (0 .. 3) of the stream. */
struct stk_recipe_move {
	struct stk_axis_map map[STK_RECIPE_VARIANTS][2]; /* low .. high - 1: what is not fill, with `fills` */
	struct stk_recipe_coin coin[STK_RECIPE_COINS];
	int32_t n_coins;
	int32_t fills;
	uint64_t key;
	uint32_t places[2]; /* 0: not drawn; index 0 is x, 1 is y */
	int32_t draw[2];
};

/* Plain data, which a kernel takes by value. */
struct stk_recipe {
	int32_t n_moves;
	struct stk_recipe_move moves[STK_RECIPE_MOVES];
	struct stk_pass pass; /* of every sample, except `pre`, its geometry */
};

void stk__recipe_begin(struct stk_recipe *r, int32_t w, int32_t h, int32_t c);

struct stk_recipe_window {
	uint64_t key;
	int32_t w, h;
	int32_t before[2]; /* how far it may begin before the image: it begins at below(places) - before */
	uint32_t places[2];
	int32_t draw[2];
};
/* fill: one value a channel, for what lies outside. False: there is no room for it. */
bool stk__recipe_window(struct stk_recipe *r, const struct stk_recipe_window *window, const float *fill);

/* Appends an operator that has been lowered to a pass of its own for each outcome of its coins: variant[i] began as stk__recipe_next gave it. False
 * where variants differ in more than windows and mirrors, or there is no room. */
bool stk__recipe_move(struct stk_recipe *r, const struct stk_recipe_coin *coins, int32_t n_coins, const struct stk_pass *variants);
/* The pass as it is so far, over an image as large as the recipe's output so far. */
void stk__recipe_next(const struct stk_recipe *r, struct stk_pass *p);

/* Images of up to STK_RECIPE_CHANNELS channels, no sampler, steps that mix no channels, and an output of uint8, float16, bfloat16 or float32. */
bool stk__recipe_supports(const struct stk_recipe *r);

/* Samples first .. first + count - 1 of a batch: as struct stk_order_run (order/order.h), with its epoch's shuffle. */
struct stk_recipe_run {
	int32_t first, count;
	uint32_t epoch, shuffled;
	int64_t position, step, padded;
	struct stk_shuffle shuffle;
};

/* A table of what is known of each sample: `bytes` bytes at from + id * bytes. */
struct stk_recipe_table {
	const uint8_t *from;
	uint8_t *to;
	uint32_t bytes, unused;
};

struct stk_recipe_divisor {
	uint32_t n, factor; /* x / n == x * factor >> 32 for the x that occur; factor 0: n is 1 */
};

/* One batch. All pointers are host pointers or all are device pointers, and the struct lies on the same side. */
struct stk_recipe_batch {
	const struct stk_recipe *recipe; /* NULL: tables alone */
	const uint8_t *images;  /* interleaved uint8, image i at i * image_bytes; readable in whole vectors, as stk__pass_run says */
	const int64_t *indices; /* sample of an entry of the order, or NULL: it is the entry */
	uint8_t *to;            /* dense: image after image */
	int64_t image_bytes;
	int32_t count, planar; /* planar: CHW, else HWC */
	int32_t n_runs, n_tables;
	int32_t finish;                         /* enum stk_recipe_finish */
	int32_t fill_before;                    /* of FINISH_AFFINE: fill goes through the arithmetic, else it comes after it */
	uint32_t elements;                      /* of an output image */
	struct stk_recipe_divisor outer, inner; /* an element's place in memory order: CHW: plane, row; HWC: row, pixel */
	struct stk_recipe_run runs[STK_RECIPE_RUNS];
	struct stk_recipe_table tables[STK_RECIPE_TABLES];
};

/* How an element is finished: by the pass's steps one after the other, or by a single affine step, the usual case. */
enum stk_recipe_finish { STK_RECIPE_STEPS, STK_RECIPE_AFFINE };

/* Fills all that is the same for all batches of a recipe, except addresses. r: in host memory. */
void stk__recipe_layout(struct stk_recipe_batch *b, const struct stk_recipe *r, bool planar);

/* The pass of the sample at a place. */
void stk__recipe_pass(const struct stk_recipe *r, uint32_t epoch, uint64_t position, struct stk_pass *p);

/* Bytes of scratch that the pass of any sample needs. */
size_t stk__recipe_scratch(const struct stk_recipe *r);

/* Inside stk__gpu_enter. */
STK_MUST_USE enum stk_status stk__recipe_gpu_load(struct stk_gpu_device *dev, stk_gpu_kernel *kernel, struct stk_error *err);
STK_MUST_USE enum stk_status stk__recipe_gpu_launch(
	struct stk_gpu_device *dev, stk_gpu_kernel kernel, const struct stk_recipe_batch *b, stk_gpu_stream stream, struct stk_error *err);

#endif
