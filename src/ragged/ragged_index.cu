/* SPDX-License-Identifier: Apache-2.0
 * Indexing and padding on CUDA. Rows of data are moved in units of 1 to 16 bytes. A row is moved by `lanes` threads (a power of two, at most 32). `inner` is
 * counted in these units here; the host converts it. */
#include "ragged/index_args.h"
#include "ragged/kernel_c.h"

#define BLOCK 256

/* The row of a (batch, outer, items) array that this thread works on, and its lane among the threads of that row. */
struct row_position {
	uint64_t row; /* ((b * outer) + p) * items + n */
	int64_t b, p, n;
	int lane;
	int32_t inside;
};

STK_DEVICE struct row_position find_row(int64_t rows, int64_t outer, int64_t items, int lanes_log2)
{
	struct row_position at;
	at.lane = (int)threadIdx.x & ((1 << lanes_log2) - 1);
	at.row = (uint64_t)blockIdx.x * (BLOCK >> lanes_log2) + (threadIdx.x >> lanes_log2);
	at.inside = at.row < (uint64_t)rows;
	if (rows <= 0xffffffff) { /* 64-bit divisions are slow */
		uint32_t row = (uint32_t)at.row, sample = row / (uint32_t)items;
		at.n = row - sample * (uint32_t)items;
		at.b = sample / (uint32_t)outer;
		at.p = sample - (uint32_t)at.b * (uint32_t)outer;
	} else {
		uint64_t sample = at.row / (uint64_t)items;
		at.n = (int64_t)(at.row - sample * (uint64_t)items);
		at.b = (int64_t)(sample / (uint64_t)outer);
		at.p = (int64_t)(sample - (uint64_t)at.b * (uint64_t)outer);
	}
	return at;
}

STK_DEVICE int64_t gather_item(const struct stk_gather *g, const struct row_position *at)
{
	int64_t used = stk__size_of(g->index.sizes, at->b, g->index.count), size = stk__size_of(g->source_sizes, at->b, g->source_items);
	if (at->n >= used)
		return -1;
	int64_t v = stk__load_index(g->index.data, g->index.bytes, at->b * g->index.count + at->n);
	if (g->exact)
		return v >= 0 && v < size ? v : -1;
	v = stk__resolve(v, size);
	if (v < 0) {
		if (at->p == 0 && at->lane == 0)
			refuse(g->refused);
	} else if (g->winner && g->winner[at->b * g->source_items + v] != (int32_t)at->n) {
		v = -1;
	}
	return v;
}

#define GATHER(unit)                                                                                                                       \
	STK_KERNEL void ragged_gather_##unit(struct stk_gather_launch a)                                                                   \
	{                                                                                                                                  \
		struct row_position at = find_row(a.rows, a.g.outer, a.g.index.count, a.lanes_log2);                                       \
		if (!at.inside)                                                                                                            \
			return;                                                                                                            \
		int64_t item = gather_item(&a.g, &at), inner = a.inner, step = 1 << a.lanes_log2;                                          \
		unit *out = (unit *)a.g.out + at.row * inner;                                                                              \
		if (item < 0 && !a.g.base) {                                                                                               \
			unit filler = a.filler.as_##unit;                                                                                  \
			for (int64_t i = at.lane; i < inner; i += step)                                                                    \
				out[i] = filler;                                                                                           \
			return;                                                                                                            \
		}                                                                                                                          \
		const unit *in = item < 0 ? (const unit *)a.g.base + at.row * inner                                                        \
					  : (const unit *)a.g.source + ((at.b * a.g.outer + at.p) * a.g.source_items + item) * inner;      \
		for (int64_t i = at.lane; i < inner; i += step)                                                                            \
			out[i] = in[i];                                                                                                    \
	}
STK_FOR_UNITS(GATHER)

#define KEEP(unit)                                                                                                                         \
	STK_KERNEL void ragged_keep_##unit(struct stk_keep_launch a)                                                                       \
	{                                                                                                                                  \
		struct row_position at = find_row(a.rows, a.k.outer, a.k.items, a.lanes_log2);                                             \
		if (!at.inside)                                                                                                            \
			return;                                                                                                            \
		int64_t inner = a.inner, step = 1 << a.lanes_log2;                                                                         \
		int32_t kept =                                                                                                             \
			at.n < stk__size_of(a.k.sizes, at.b, a.k.items) && (!a.k.origin || a.k.origin[at.b * a.k.items + at.n] < 0);       \
		const unit *in = (const unit *)a.k.source + at.row * inner;                                                                \
		unit *out = (unit *)a.k.out + at.row * inner, filler = a.filler.as_##unit;                                                 \
		if (kept && in == out)                                                                                                     \
			return;                                                                                                            \
		for (int64_t i = at.lane; i < inner; i += step)                                                                            \
			out[i] = kept ? in[i] : filler;                                                                                    \
	}
STK_FOR_UNITS(KEEP)

/* Returns the target item of write j of sample b, or -1 if its target or source index is out of range. Sets *from to the source item, or to -1. */
STK_DEVICE int64_t scatter_target(const struct stk_scatter *s, int64_t b, int64_t j, int64_t size, int64_t source_size, int64_t *from)
{
	int64_t at = b * s->target.count + j, t = stk__resolve(stk__load_index(s->target.data, s->target.bytes, at), size);
	*from = s->from.data ? stk__resolve(stk__load_index(s->from.data, s->from.bytes, at), source_size) : j;
	return *from < 0 ? -1 : t;
}

STK_DEVICE void scatter_tile(const struct stk_scatter *s, int64_t b, int64_t t0, int64_t n, int32_t *origin)
{
	int64_t used = stk__size_of(s->target.sizes, b, s->target.count), size = stk__size_of(s->sizes, b, s->items);
	int64_t source_size = stk__size_of(s->source_sizes, b, s->source_items), from;
	if (threadIdx.x < STK_SCATTER_TILE)
		origin[threadIdx.x] = -1;
	__syncthreads();
	for (int64_t j = threadIdx.x; j < used; j += BLOCK) {
		int64_t t = scatter_target(s, b, j, size, source_size, &from);
		if (t >= t0 && t < t0 + n)
			atomicMax(&origin[t - t0], (int32_t)j);
		else if (t < 0 && t0 == 0 && blockIdx.y == 0)
			refuse(s->refused);
	}
	__syncthreads();
	if ((int64_t)threadIdx.x < n) {
		int32_t j = origin[threadIdx.x];
		if (j >= 0 && s->from.data) {
			scatter_target(s, b, j, size, source_size, &from);
			origin[threadIdx.x] = j = (int32_t)from;
		}
		if (s->origin && blockIdx.y == 0)
			s->origin[b * s->items + t0 + threadIdx.x] = j;
	}
	__syncthreads();
}
/* Scatters few indices per sample: each thread block computes the origins of its own tile of targets from all indices, then moves the tile's rows. */
#define SCATTER(unit)                                                                                                                      \
	STK_KERNEL void ragged_scatter_##unit(struct stk_scatter_launch a)                                                                 \
	{                                                                                                                                  \
		__shared__ int32_t origin[STK_SCATTER_TILE];                                                                               \
		int64_t b = blockIdx.x / a.tiles, tile = blockIdx.x - b * a.tiles, t0 = tile * STK_SCATTER_TILE;                           \
		int64_t n = a.s.items - t0 < STK_SCATTER_TILE ? a.s.items - t0 : STK_SCATTER_TILE;                                         \
		scatter_tile(&a.s, b, t0, n, origin);                                                                                      \
		if (!a.s.out)                                                                                                              \
			return;                                                                                                            \
		int64_t inner = a.inner, count = a.s.outer * n * inner;                                                                    \
		unit filler = a.filler.as_##unit;                                                                                          \
		for (int64_t i = (int64_t)blockIdx.y * BLOCK + threadIdx.x; i < count; i += (int64_t)gridDim.y * BLOCK) {                  \
			int64_t row, k, p, t;                                                                                              \
			if (count <= 0xffffffff) {                                                                                         \
				row = (uint32_t)i / (uint32_t)inner;                                                                       \
				p = (uint32_t)row / (uint32_t)n;                                                                           \
			} else {                                                                                                           \
				row = i / inner;                                                                                           \
				p = row / n;                                                                                               \
			}                                                                                                                  \
			k = i - row * inner;                                                                                               \
			t = row - p * n;                                                                                                   \
			int64_t sample = b * a.s.outer + p, to = (sample * a.s.items + t0 + t) * inner + k;                                \
			unit v = filler;                                                                                                   \
			if (origin[t] >= 0)                                                                                                \
				v = ((const unit *)a.s.source)[(sample * a.s.source_items + origin[t]) * inner + k];                       \
			else if (a.s.base)                                                                                                 \
				v = ((const unit *)a.s.base)[to];                                                                          \
			((unit *)a.s.out)[to] = v;                                                                                         \
		}                                                                                                                          \
	}

STK_FOR_UNITS(SCATTER)

/* Finds the last write to each target, and stores its number j in origin, which the host has filled with -1. Counts in `refused` the writes of which an
 * index is out of range. Used if a sample has many indices. If the writes have source indices, ragged_scatter_source then replaces each j by the source
 * item. A gather moves the rows afterwards. */
STK_KERNEL void ragged_scatter_winner(struct stk_scatter_launch a)
{
	int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, b = i / a.s.target.count, j = i - b * a.s.target.count, from;
	if (b >= a.s.batch || j >= stk__size_of(a.s.target.sizes, b, a.s.target.count))
		return;
	int64_t t = scatter_target(
		&a.s, b, j, stk__size_of(a.s.sizes, b, a.s.items), stk__size_of(a.s.source_sizes, b, a.s.source_items), &from);
	if (t < 0)
		refuse(a.s.refused);
	else
		atomicMax(&a.s.origin[b * a.s.items + t], (int32_t)j);
}

STK_KERNEL void ragged_scatter_source(struct stk_scatter_launch a)
{
	int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x, b = i / a.s.items, from;
	if (b >= a.s.batch || a.s.origin[i] < 0)
		return;
	scatter_target(
		&a.s, b, a.s.origin[i], stk__size_of(a.s.sizes, b, a.s.items), stk__size_of(a.s.source_sizes, b, a.s.source_items), &from);
	a.s.origin[i] = (int32_t)from;
}

/* A warp computes ROWS rows of sums. It reads 32 indices at a time, and for each of its rows adds the source rows with that index, in order. Short rows are
 * processed four at a time, so that fewer warps read the indices. A lane holds CHUNK values of each row. */
#define SCATTER_ADD(name, type, sum_type, LOAD, STORE, ROWS, CHUNK)                                                                        \
	STK_KERNEL void ragged_scatter_add_##name(struct stk_sum_launch a)                                                                 \
	{                                                                                                                                  \
		int64_t groups = (a.s.items + ROWS - 1) / ROWS;                                                                            \
		struct row_position at = find_row(a.s.batch * a.s.outer * groups, a.s.outer, groups, 5);                                   \
		if (!at.inside)                                                                                                            \
			return;                                                                                                            \
		int64_t used = stk__size_of(a.s.index.sizes, at.b, a.s.index.count), size = stk__size_of(a.s.sizes, at.b, a.s.items);      \
		int64_t inner = a.s.inner, first = at.n * ROWS, sample = at.b * a.s.outer + at.p;                                          \
		const type *source = (const type *)a.s.source + sample * a.s.index.count * inner;                                          \
		type *out = (type *)a.s.out + (sample * a.s.items + first) * inner;                                                        \
		for (int64_t i0 = 0; i0 < inner; i0 += 32 * CHUNK) {                                                                       \
			sum_type sum[ROWS][CHUNK] = {{0}};                                                                                 \
			for (int64_t j0 = 0; j0 < used; j0 += 32) {                                                                        \
				int64_t v = -1;                                                                                            \
				if (j0 + at.lane < used) {                                                                                 \
					v = stk__load_index(a.s.index.data, a.s.index.bytes, at.b * a.s.index.count + j0 + at.lane);       \
					v = a.s.exact ? (v < size ? v : -1) : stk__resolve(v, size);                                       \
				}                                                                                                          \
				for (int r = 0; r < ROWS; r++) {                                                                           \
					unsigned hits = __ballot_sync(STK_FULL, v == first + r);                                           \
					for (; hits; hits &= hits - 1) {                                                                   \
						const type *in = source + (j0 + __ffs((int)hits) - 1) * inner + i0;                        \
						for (int k = 0; k < CHUNK; k++) {                                                          \
							if (i0 + k * 32 + at.lane < inner)                                                 \
								sum[r][k] += LOAD(in[k * 32 + at.lane]);                                   \
						}                                                                                          \
					}                                                                                                  \
				}                                                                                                          \
			}                                                                                                                  \
			for (int r = 0; r < ROWS; r++) {                                                                                   \
				for (int k = 0; k < CHUNK; k++) {                                                                          \
					if (first + r < a.s.items && i0 + k * 32 + at.lane < inner)                                        \
						out[r * inner + i0 + k * 32 + at.lane] = STORE(sum[r][k]);                                 \
				}                                                                                                          \
			}                                                                                                                  \
		}                                                                                                                          \
	}
#define SCATTER_ADDS(name, type, sum_type, LOAD, STORE)                                                                                    \
	SCATTER_ADD(name, type, sum_type, LOAD, STORE, 1, 8)                                                                               \
	SCATTER_ADD(short_##name, type, sum_type, LOAD, STORE, 4, 1)
#define SAME(x) (x)
SCATTER_ADDS(float, float, float, SAME, SAME)
SCATTER_ADDS(double, double, double, SAME, SAME)
SCATTER_ADDS(int32, uint32_t, uint32_t, SAME, SAME)
SCATTER_ADDS(int64, uint64_t, uint64_t, SAME, SAME)
SCATTER_ADDS(half, uint16_t, float, stk__half_to_float, stk__float_to_half)
SCATTER_ADDS(bfloat, uint16_t, float, stk__bfloat_to_float, stk__float_to_bfloat)

/* Lists the items whose mask is set: stores their indices in m.index, followed by zeros; their number in m.count; and in m.rank, for each item, its position in
 * this list, or -1. A thread block processes one sample, BLOCK items at a time. */
STK_KERNEL void ragged_mask_to_index(struct stk_mask m)
{
	__shared__ int32_t counts[2][BLOCK / 32]; /* used alternately, so that one barrier per step is enough */
	int64_t b = blockIdx.x, size = stk__size_of(m.sizes, b, m.items), at = b * m.items, n = 0;
	int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, flip = 0;
	for (int64_t t0 = 0; t0 < m.items; t0 += BLOCK, flip ^= 1) {
		int64_t t = t0 + threadIdx.x;
		int32_t set = t < size && m.mask[at + t];
		unsigned all = __ballot_sync(STK_FULL, set);
		if (lane == 0)
			counts[flip][warp] = __popc(all);
		__syncthreads();
		int64_t rank = n + __popc(all & ((1u << lane) - 1));
		for (int w = 0; w < BLOCK / 32; w++) {
			rank += w < warp ? counts[flip][w] : 0;
			n += counts[flip][w];
		}
		if (m.rank && t < m.items)
			m.rank[at + t] = set ? (int32_t)rank : -1;
		if (m.index && set)
			m.index[at + rank] = t;
	}
	if (m.count && threadIdx.x == 0)
		m.count[b] = n;
	for (int64_t t = n + threadIdx.x; m.index && t < m.items; t += BLOCK)
		m.index[at + t] = 0;
}

STK_KERNEL void ragged_index_to_mask(struct stk_index_mask_launch a)
{
	__shared__ int32_t set[BLOCK];
	int64_t b = blockIdx.x / a.tiles, t0 = (blockIdx.x - b * a.tiles) * BLOCK, used = stk__size_of(a.index.sizes, b, a.index.count);
	set[threadIdx.x] = 0;
	__syncthreads();
	for (int64_t j = threadIdx.x; j < used; j += BLOCK) {
		int64_t t = stk__resolve(stk__load_index(a.index.data, a.index.bytes, b * a.index.count + j), a.items);
		if (t >= t0 && t < t0 + BLOCK)
			set[t - t0] = 1;
		else if (t < 0 && t0 == 0)
			refuse(a.refused);
	}
	__syncthreads();
	if (t0 + threadIdx.x < a.items)
		a.mask[b * a.items + t0 + threadIdx.x] = (uint8_t)set[threadIdx.x];
}
