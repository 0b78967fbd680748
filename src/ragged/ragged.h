/* SPDX-License-Identifier: Apache-2.0
 * Internals of the ragged layer: the handle, and the implementations for the CPU and for CUDA, which the functions of stoker/batching.h call after checking
 * their arguments. */
#ifndef STK_RAGGED_RAGGED_H
#define STK_RAGGED_RAGGED_H

#include "base/cpu.h"
#include "stoker/batching.h"

struct stk_ragged_cuda; /* cuda.c */

struct stk_ragged {
	int32_t device, threads;
	unsigned cpu;                 /* features of the processor (base/cpu.h) */
	struct stk_ragged_cuda *cuda; /* NULL if the handle is for the CPU */
};

/* Calls fn(ctx, i, worker) for i in 0 .. count-1 on up to `threads` threads, including the caller's, and returns when all calls have returned. Each thread
 * takes one item at a time, so items may differ in cost. worker is in 0 .. threads-1 and different for each thread. Fewer threads are used if `count` is
 * smaller, if `threads` is above 64, or if the system cannot create them. */
void stk__fork(int32_t threads, int64_t count, void (*fn)(void *ctx, int64_t i, int32_t worker), void *ctx);

/* Returns how many threads to pass to stk__fork for `items` items that take as long as reading and writing `bytes` bytes: one, and one more for each 512
 * KiB, but at most r->threads, 64 and `items`. */
int32_t stk__fork_threads(const struct stk_ragged *r, int64_t items, int64_t bytes);

/* Adds n to the counter of refused indices or problems, which other threads may change at the same time. refused: the counter, or NULL. */
static inline void stk__count_refused(uint64_t *refused, uint64_t n)
{
	if (refused && n)
		__atomic_fetch_add(refused, n, __ATOMIC_RELAXED);
}

enum stk_status stk__cpu_gather(struct stk_ragged *r, const struct stk_gather *g, struct stk_error *err);
enum stk_status stk__cpu_scatter(struct stk_ragged *r, const struct stk_scatter *s, struct stk_error *err);
enum stk_status stk__cpu_scatter_add(struct stk_ragged *r, const struct stk_scatter_add *s, struct stk_error *err);
enum stk_status stk__cpu_keep(struct stk_ragged *r, const struct stk_keep *k, struct stk_error *err);
enum stk_status stk__cpu_mask_to_index(struct stk_ragged *r, const struct stk_mask *m, struct stk_error *err);
enum stk_status stk__cpu_index_to_mask(struct stk_ragged *r, int64_t batch, int64_t items, const struct stk_indices *index, uint8_t *mask,
	uint64_t *refused, struct stk_error *err);
enum stk_status stk__cpu_assign(struct stk_ragged *r, const struct stk_assign *a, struct stk_error *err);
enum stk_status stk__cpu_cost(struct stk_ragged *r, const struct stk_cost *c, struct stk_error *err);
enum stk_status stk__cpu_focal(struct stk_ragged *r, const struct stk_focal *f, struct stk_error *err);
enum stk_status stk__cpu_l1(struct stk_ragged *r, const struct stk_l1 *l, struct stk_error *err);
enum stk_status stk__cpu_heatmap(struct stk_ragged *r, const struct stk_heatmap *h, struct stk_error *err);
enum stk_status stk__cpu_polyline(struct stk_ragged *r, const struct stk_polyline *p, struct stk_error *err);

enum stk_status stk__cuda_create(struct stk_ragged *r, struct stk_error *err);
void stk__cuda_destroy(struct stk_ragged_cuda *c);
enum stk_status stk__cuda_gather(struct stk_ragged *r, const struct stk_gather *g, void *stream, struct stk_error *err);
enum stk_status stk__cuda_scatter(struct stk_ragged *r, const struct stk_scatter *s, void *stream, struct stk_error *err);
enum stk_status stk__cuda_scatter_add(struct stk_ragged *r, const struct stk_scatter_add *s, void *stream, struct stk_error *err);
enum stk_status stk__cuda_keep(struct stk_ragged *r, const struct stk_keep *k, void *stream, struct stk_error *err);
enum stk_status stk__cuda_mask_to_index(struct stk_ragged *r, const struct stk_mask *m, void *stream, struct stk_error *err);
enum stk_status stk__cuda_index_to_mask(struct stk_ragged *r, int64_t batch, int64_t items, const struct stk_indices *index, uint8_t *mask,
	uint64_t *refused, void *stream, struct stk_error *err);
enum stk_status stk__cuda_assign(struct stk_ragged *r, const struct stk_assign *a, void *stream, struct stk_error *err);
enum stk_status stk__cuda_cost(struct stk_ragged *r, const struct stk_cost *c, void *stream, struct stk_error *err);
enum stk_status stk__cuda_focal(struct stk_ragged *r, const struct stk_focal *f, void *stream, struct stk_error *err);
enum stk_status stk__cuda_l1(struct stk_ragged *r, const struct stk_l1 *l, void *stream, struct stk_error *err);
enum stk_status stk__cuda_polyline(struct stk_ragged *r, const struct stk_polyline *p, void *stream, struct stk_error *err);
enum stk_status stk__cuda_heatmap(struct stk_ragged *r, const struct stk_heatmap *h, void *stream, struct stk_error *err);
size_t stk__cuda_assign_workspace(const struct stk_assign *a, size_t shared); /* shared: bytes that stk__cuda_shared returns */
size_t stk__cuda_shared(const struct stk_ragged *r);

#endif
