/* SPDX-License-Identifier: Apache-2.0
 *
 * Batched work over samples of unequal size, for losses: indexing, padding, exact linear assignment, matching costs, losses and heatmaps, on CPU and CUDA.
 *
 * Arrays are dense row-major memory of the caller, unless a struct has strides. Data is (batch, outer, items, inner): `items` is the ragged dim, padded on the
 * right to its largest size; `sizes` says how many items of each sample are real (NULL: all). Nothing is allocated for the results.
 *
 * A struct stk_ragged belongs to one device: the CPU (device -1) or a CUDA device. On CUDA all pointers are device memory, `stream` is a CUstream of the
 * context that is current, work is enqueued there and nothing waits for it, so that calls can be captured into a CUDA graph. On the CPU `stream` is ignored and
 * the work is done on return. Any thread may call, also several at a time with one handle.
 *
 * A bad index never causes an access outside of an array: a read gives the filler, and a write is dropped. Each bad index adds one to *refused, a counter in
 * the device's memory; if `refused` is NULL, bad indices are not counted. Where a function differs, its comment says so.
 *
 * All functions can return these errors. STK_INVALID: an extent is negative or too large (items and indices are below 2^31), or the size in bytes of an element
 * or index is not one of those listed. STK_NO_MEMORY: on the CPU, scratch memory. STK_LIMIT: on CUDA, more blocks than a launch can have. STK_CUDA: a call of
 * the driver failed. The comment of a function names its other errors. */
#ifndef STOKER_BATCHING_H
#define STOKER_BATCHING_H

#include "stoker/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STK_RAGGED_CPU (-1)

struct stk_ragged;

/* Creates a handle for one device. threads: maximum number of threads on the CPU (0: as many as the affinity mask has); ignored on CUDA. CUDA needs a
 * current context of that device. STK_INVALID: there is no such device. STK_NOT_FOUND: there is no CUDA driver, or it is too old. STK_UNSUPPORTED: the
 * library was built without CUDA, or not for this driver or device. STK_STATE: this is a forked child of a process that has used CUDA. Destroy accepts NULL. */
STK_API STK_MUST_USE enum stk_status stk_ragged_create(int32_t device, int32_t threads, struct stk_ragged **out, struct stk_error *err);
STK_API void stk_ragged_destroy(struct stk_ragged *r);

/* An array (batch, count) of signed integers of 4 or 8 bytes. An index selects an item of its own sample. It is from -size to size - 1; negative ones count
 * from the end. */
struct stk_indices {
	const void *data;
	const int64_t *sizes; /* (batch): number of used entries of each sample; NULL: count */
	int64_t count;
	int32_t bytes;
};

/* out[b, p, j, :] = source[b, p, index[b, j], :]. If there is no such item (padding of the index, or a bad index), the result is base[b, p, j, :], or the
 * filler if base is NULL. */
struct stk_gather {
	int64_t batch, outer, inner; /* extents of `source`; inner: number of elements of one item */
	int32_t element;             /* size in bytes of an element: 1, 2, 4, 8 or 16 */
	int32_t exact;               /* 1: a negative or too large index means "no item", and does not count as refused */
	const void *source;
	int64_t source_items;
	const int64_t *source_sizes; /* (batch) or NULL */
	struct stk_indices index;
	/* For the gradient of a scatter: the array `origin` that stk_ragged_scatter wrote, (batch, source_items), or NULL. With it, entry j reads the source
	 * only if winner[b, index[b, j]] == j, that is if item j was not overwritten by a later one; otherwise it gets base or the filler. */
	const int32_t *winner;
	const void *base;
	uint8_t filler[16]; /* the bytes of one element */
	void *out;          /* (batch, outer, index.count, inner) */
	uint64_t *refused;
};
STK_API STK_MUST_USE enum stk_status stk_ragged_gather(
	struct stk_ragged *r, const struct stk_gather *g, void *stream, struct stk_error *err);

/* out = base (or the filler). Then out[b, p, target[b, j], :] = source[b, p, i, :] for each j, where i is from[b, j], or j if there is no `from`; of several
 * j with the same target the last one wins. origin[b, t], if not NULL: the item of the source that went to t, or -1. */
struct stk_scatter {
	int64_t batch, outer, inner;
	int32_t element;
	const void *source;
	int64_t source_items;
	const int64_t *source_sizes; /* (batch) or NULL */
	struct stk_indices target;
	struct stk_indices from; /* data NULL: item j itself; otherwise it has the same count and sizes as target */
	const void *base;        /* (batch, outer, items, inner) or NULL */
	uint8_t filler[16];
	int64_t items;        /* number of items of the target */
	const int64_t *sizes; /* (batch) or NULL: number of real items of the target */
	void *out;            /* (batch, outer, items, inner); NULL if only origin is wanted */
	int32_t *origin;      /* (batch, items); may be NULL on the CPU and for target.count <= STK_SCATTER_SMALL on CUDA */
	uint64_t *refused;
};
#define STK_SCATTER_SMALL 8192
/* Copies the items of `source` to their targets. STK_INVALID: also if `origin` is needed but NULL. */
STK_API STK_MUST_USE enum stk_status stk_ragged_scatter(
	struct stk_ragged *r, const struct stk_scatter *s, void *stream, struct stk_error *err);

/* out[b, p, t, :] = sum of source[b, p, j, :] over all j with index[b, j] == t, added in the order of j, so that the bits are the same in every run. 16-bit
 * floats are added up in float32. Bad indices are ignored and not counted: this is the gradient of a gather, which has counted them. */
struct stk_scatter_add {
	int64_t batch, outer, inner;
	enum stk_dtype dtype; /* any type of floats, or INT32 or INT64 */
	int32_t exact;        /* as in stk_gather */
	const void *source;   /* (batch, outer, index.count, inner) */
	struct stk_indices index;
	int64_t items;
	const int64_t *sizes;
	void *out; /* (batch, outer, items, inner) */
};
/* Adds the items of `source` to their targets. STK_UNSUPPORTED: dtype is another type than those named above. */
STK_API STK_MUST_USE enum stk_status stk_ragged_scatter_add(
	struct stk_ragged *r, const struct stk_scatter_add *s, void *stream, struct stk_error *err);

/* out[b, p, n, :] = source[b, p, n, :] if n < sizes[b] (or sizes is NULL) and origin[b, n] < 0 (or origin is NULL), otherwise the filler. out may be the
 * same as source. */
struct stk_keep {
	int64_t batch, outer, items, inner;
	int32_t element;
	const void *source;
	const int64_t *sizes;
	const int32_t *origin;
	uint8_t filler[16];
	void *out;
};
STK_API STK_MUST_USE enum stk_status stk_ragged_keep(struct stk_ragged *r, const struct stk_keep *k, void *stream, struct stk_error *err);

/* Converts a mask (batch, items) of bytes to indices. index (batch, items) lists the items whose byte is not 0, in order, padded with 0;
 * count (batch) is their number; rank (batch, items) is the number of set items before an item, or -1 if its own byte is 0. Each output may
 * be NULL. */
struct stk_mask {
	int64_t batch, items;
	const uint8_t *mask;
	const int64_t *sizes;
	int64_t *index, *count;
	int32_t *rank;
};
STK_API STK_MUST_USE enum stk_status stk_ragged_mask_to_index(
	struct stk_ragged *r, const struct stk_mask *m, void *stream, struct stk_error *err);

/* Makes a mask (batch, items) of bytes: 1 for items to which an index points, otherwise 0. */
STK_API STK_MUST_USE enum stk_status stk_ragged_index_to_mask(struct stk_ragged *r, int64_t batch, int64_t items,
	const struct stk_indices *index, uint8_t *mask, uint64_t *refused, void *stream, struct stk_error *err);

/* Copies samples of unequal size into one padded block, on the CPU: out[s, 0 .. sizes[s]-1, :] = samples[s], followed by zeros. inner: bytes of one item.
 * STK_SHAPE: a size is negative or larger than `items`. STK_INVALID: count, items or inner is negative, the block has 2^63 bytes or more, or a pointer is
 * NULL although count is above 0. */
STK_API STK_MUST_USE enum stk_status stk_ragged_pack(struct stk_ragged *r, const void *const *samples, const int64_t *sizes, int64_t count,
	int64_t items, int64_t inner, void *out, struct stk_error *err);

/* Linear assignment: for each rows x cols matrix, finds min(rows, cols) pairs of one row and one column with the least total cost. Each row
 * and each column is used at most once.
 *
 * The method is shortest augmenting paths (Crouse, "On implementing 2D rectangular assignment algorithms", IEEE TAES 2016) with duals in
 * float64. The order of visits and ties is that of SciPy 1.4 to 1.17, so that the indices equal those of
 * scipy.optimize.linear_sum_assignment. The worst case takes O(min^2 max) time. */
enum stk_assign_status { STK_ASSIGN_SOLVED, STK_ASSIGN_INFEASIBLE, STK_ASSIGN_INVALID };

struct stk_assign {
	enum stk_dtype dtype; /* FLOAT16, BFLOAT16, FLOAT or FLOAT64 */
	int32_t maximize;
	const void *cost;
	int64_t problems, rows, cols;                   /* extents of `cost` */
	int64_t problem_stride, row_stride, col_stride; /* distances in elements */
	const int64_t *num_rows, *num_cols;             /* (problems): used rows and columns of each problem; NULL: rows, cols */
	/* (problems, min(rows, cols)): matched pairs by ascending row, then zeros */
	int64_t *row, *col;
	int64_t *sizes; /* (problems): number of pairs; 0 if the problem was not solved */
	int8_t *status; /* (problems): enum stk_assign_status. A cost of +inf (-inf when maximising) forbids its pair; INVALID: a cost is NaN or the other infinity */
	uint64_t *refused;
	void *workspace; /* CUDA: stk_ragged_assign_workspace bytes, aligned to 256; the CPU allocates its own */
};
/* Returns the size of the workspace in bytes. It depends on the strides: a cost that is dense along the longer dim needs no workspace for usual sizes. */
STK_API size_t stk_ragged_assign_workspace(const struct stk_ragged *r, const struct stk_assign *a);
/* Solves all problems. STK_UNSUPPORTED: dtype is not supported. STK_INVALID: also if a workspace is needed but NULL. Invalid costs are no error of the call:
 * they are reported in a->status of their problem. */
STK_API STK_MUST_USE enum stk_status stk_ragged_assign(
	struct stk_ragged *r, const struct stk_assign *a, void *stream, struct stk_error *err);

/* Matching costs of every prediction with every target of its sample, in one pass:
 * out[o, b, g, q] = class_weight * class cost + sum_d l1_weight[d] |box - target| - giou_weight * GIoU.
 * A cost that is NaN, +inf or -inf is replaced by the member nan, posinf or neginf. The queries are the innermost dim of `out`, because the assignment is
 * fastest if a cost is dense along its longer dim. `out` is 0 for the padding after the sizes[b] targets. */
enum stk_cost_class { STK_COST_FOCAL, STK_COST_SOFTMAX, STK_COST_PROBABILITY };
enum stk_box_format { STK_BOX_XYXY, STK_BOX_CXCYWH, STK_BOX_XYZWLH };
#define STK_COST_MAX_BOX 32

struct stk_cost {
	int64_t outer, batch, queries, targets;
	int64_t classes, box_values;
	const void *logits;                                    /* (outer, batch, queries, classes) or NULL */
	const void *boxes;                                     /* (outer, batch, queries, box_values) or NULL */
	const void *labels;                                    /* (batch, targets): signed integers of label_bytes bytes */
	const void *target_boxes;                              /* (batch, targets, box_values) */
	const int64_t *sizes;                                  /* (batch) or NULL */
	int32_t logits_dtype, boxes_dtype, target_boxes_dtype; /* enum stk_dtype; must be floats */
	int32_t label_bytes;
	int32_t class_kind, box_format;
	float alpha, gamma, class_weight, giou_weight;
	float l1_weight[STK_COST_MAX_BOX]; /* weights of the values of a box; all 0: no L1 cost */
	float nan, posinf, neginf;
	float *out;        /* (outer, batch, targets, queries) */
	uint64_t *refused; /* counts labels that are out of range; their class cost is NaN */
};
/* Computes the costs. STK_LIMIT: also if box_values is above STK_COST_MAX_BOX. STK_SHAPE: box_values is too small for GIoU. */
STK_API STK_MUST_USE enum stk_status stk_ragged_cost(struct stk_ragged *r, const struct stk_cost *c, void *stream, struct stk_error *err);

/* Losses of matched predictions: one number for each sample, `loss`, and its gradient, `grad`. Each of the two may be NULL. `grad` is the gradient of
 * sum_s scale[s * scale_stride] loss[s]. Sums are added in a fixed order, so that the bits are the same in every run on the same device. */

/* The matched pairs of each sample, as stk_ragged_assign returns them: pair j of sample s, for j < sizes[s], is query rows[s * most + j] and target
 * cols[s * most + j]. Sample s has the targets of list s % lists, so that several decoder layers can share their lists. Negative indices count from the end. A
 * pair with an index that is out of range is left out; when `loss` is computed, it is counted in *refused. */
struct stk_matches {
	int64_t most, lists, targets;
	const int64_t *rows, *cols;  /* (samples, most) */
	const int64_t *sizes;        /* (samples) */
	const int64_t *target_sizes; /* (lists); NULL: each list has `targets` targets */
	uint64_t *refused;           /* NULL: not counted */
};

/* The focal loss of sigmoids (Lin et al., "Focal loss", ICCV 2017), summed over queries and classes. With p = sigmoid(logit) and weight alpha for the class
 * of the query, and p = sigmoid(-logit) and weight 1 - alpha for other classes:
 * loss[s] = sum of weight (1 - p)^gamma (-log p). With `mean` it is divided by max(1, sizes[s]). The class of a query is the label of its target; of several
 * pairs of one query, the last one counts. */
struct stk_focal {
	int64_t samples, queries, classes;
	int32_t dtype, label_bytes; /* dtype: enum stk_dtype of logits and grad, a float type. label_bytes: 4 or 8 */
	const void *logits;         /* (samples, queries, classes) */
	const void *labels;         /* (lists, targets): the class of each target; another number than 0 .. classes - 1: no class */
	struct stk_matches matches;
	int32_t mean;
	float alpha, gamma;
	float *loss; /* (samples) */
	const float *scale;
	int64_t scale_stride;
	void *grad; /* (samples, queries, classes) */
};
/* Computes the losses and their gradient. STK_UNSUPPORTED: dtype is not a float type. STK_INVALID: also if a sample has 2^31 values or more. STK_NO_MEMORY: the
 * memory for the classes of queries is missing; only on the CPU. */
STK_API STK_MUST_USE enum stk_status stk_ragged_focal(struct stk_ragged *r, const struct stk_focal *f, void *stream, struct stk_error *err);

/* loss[s] = sum over the pairs, and over their values, of |box of the query - box of the target|. With `mean` it is divided by max(1, sizes[s]). `grad` is the
 * gradient with respect to `boxes`. */
struct stk_l1 {
	int64_t samples, queries, values;
	const float *boxes;        /* (samples, queries, values) */
	const float *target_boxes; /* (lists, targets, values) */
	struct stk_matches matches;
	int32_t mean;
	float *loss; /* (samples) */
	const float *scale;
	int64_t scale_stride;
	float *grad; /* (samples, queries, values) */
};
/* Computes the losses and their gradient. STK_INVALID: also if a sample has 2^31 values or more. */
STK_API STK_MUST_USE enum stk_status stk_ragged_l1(struct stk_ragged *r, const struct stk_l1 *l, void *stream, struct stk_error *err);

/* Gaussian heatmaps: map[y, x] = max(map[y, x], k exp(-(dx^2 + dy^2) / (2 sigma^2))), where (dx, dy) is the distance from a centre and
 * sigma = (2 radius + 1) / sigma_factor. Each centre changes only the square of half-width `radius` around it, as far as this is inside the map; a negative
 * radius draws nothing.
 *
 * The maps form groups of `classes` maps each. If map_index is NULL, there is a list of targets for each group, and a target's label chooses the map in its
 * group (without labels: map 0). Otherwise there is one list for all groups, and map_index chooses the group of each target. */
struct stk_heatmap {
	float *map; /* (groups, classes, height, width) */
	int64_t groups, classes, height, width;
	int64_t targets;
	const int64_t *sizes;  /* (groups) or NULL */
	const void *centers;   /* (lists, targets, 2) as x, y */
	const void *radii;     /* (lists, targets) */
	const void *labels;    /* (lists, targets) or NULL */
	const void *map_index; /* (targets): number of the target's group; or NULL */
	int32_t bytes[4];      /* size in bytes, 4 or 8, of an integer in centers, radii, labels, map_index */
	float sigma_factor, k;
	int32_t accumulate; /* 1: takes the maximum with the maps' old values; 0: clears the maps first */
	uint64_t *refused;  /* counts labels and map indices that are out of range */
};
STK_API STK_MUST_USE enum stk_status stk_ragged_heatmap(
	struct stk_ragged *r, const struct stk_heatmap *h, void *stream, struct stk_error *err);

/* Lengths of polylines, and points on them at given distances from their first point, measured along the line. A distance below 0 or above the length gives
 * the first or last point. Distances need not be sorted. Lengths are summed in float64. `out` is 0 for the padding after sample_sizes, and NaN for a NaN
 * distance and for a polyline without points. */
struct stk_polyline {
	enum stk_dtype dtype; /* type of all data: FLOAT16, BFLOAT16, FLOAT or FLOAT64 */
	int32_t relative;     /* 1: distances are fractions of each polyline's length */
	int64_t batch, points, dims, samples;
	const void *point;           /* (batch, points, dims) */
	const int64_t *sizes;        /* (batch): number of real points; NULL: all are real */
	const void *distance;        /* (batch, samples) */
	const int64_t *sample_sizes; /* (batch): number of real distances; NULL: all are real */
	void *out;                   /* (batch, samples, dims), or NULL if only lengths are wanted */
	void *length;                /* (batch) or NULL */
	double *along;               /* CUDA: (batch, points), scratch memory; the CPU allocates its own */
};
/* Computes the lengths and the points. STK_UNSUPPORTED: dtype is not supported. STK_INVALID: also if `along` is needed but NULL. */
STK_API STK_MUST_USE enum stk_status stk_ragged_polyline(
	struct stk_ragged *r, const struct stk_polyline *p, void *stream, struct stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
