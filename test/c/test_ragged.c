/* SPDX-License-Identifier: Apache-2.0
 * The ragged layer through its public functions: compares the CPU with plain loops, AVX2 with plain C, and the CUDA kernels (emulated) with the CPU. */
#include "test.h"

#include "base/memory.h"
#include "base/philox.h"
#include "ragged/ragged.h"
#include "stoker/batching.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct stk_ragged *cpu, *plain, *cuda;
static struct stk_random random_stream;

static int64_t below(int64_t n)
{
	return (int64_t)stk__random_below(&random_stream, (uint32_t)n);
}

static void seed(uint64_t s)
{
	random_stream = stk__random(s, 0, 0, 0);
}

static int open_devices(void **state)
{
	(void)state;
	struct stk_error err;
	int device =
		getenv("STOKER_EMULATED_CUDA") ? 0 : STK_RAGGED_CPU; /* a real GPU could not read memory that is allocated on the host */
	print_message("%s\n", device ? "no emulated GPU: the CUDA kernels are not tested" : "on the emulated GPU");
	if (stk_ragged_create(STK_RAGGED_CPU, 2, &cpu, &err) || stk_ragged_create(STK_RAGGED_CPU, 1, &plain, &err) ||
		stk_ragged_create(device, device ? 3 : 0, &cuda, &err))
		return -1;
	plain->cpu = 0;
	return 0;
}

static int close_devices(void **state)
{
	(void)state;
	stk_ragged_destroy(cpu), stk_ragged_destroy(plain), stk_ragged_destroy(cuda);
	return 0;
}

static void *random_bytes(int64_t n)
{
	uint8_t *p = malloc((size_t)n + 1);
	for (int64_t i = 0; i < n; i++)
		p[i] = (uint8_t)stk__random_u32(&random_stream);
	return p;
}

static float *random_floats(int64_t n)
{
	float *p = malloc(((size_t)n + 1) * sizeof *p);
	for (int64_t i = 0; i < n; i++)
		p[i] = stk__random_float(&random_stream) * 4 - 2;
	return p;
}

static int64_t *random_sizes(int64_t n, int64_t most)
{
	int64_t *p = malloc(((size_t)n + 1) * sizeof *p);
	for (int64_t i = 0; i < n; i++)
		p[i] = below(most + 1);
	return p;
}

/* Draws 8-byte indices from -1 to `most`, of which some are invalid. */
static int64_t *random_indices(int64_t n, int64_t most)
{
	int64_t *p = malloc(((size_t)n + 1) * sizeof *p);
	for (int64_t i = 0; i < n; i++)
		p[i] = below(most + 2) - 1;
	return p;
}

static void gather_and_back(int64_t elements)
{
	int64_t b = 1 + below(3), p = 1 + below(3), items = 1 + below(40), count = below(70), inner = 1 + below(elements);
	int32_t element = (int32_t[]){1, 2, 4, 8, 16}[below(5)];
	struct stk_gather g = {.batch = b,
		.outer = p,
		.inner = inner,
		.element = element,
		.source = random_bytes(b * p * items * inner * element),
		.source_items = items,
		.source_sizes = random_sizes(b, items),
		.filler = {1, 2, 3, 4},
		.index = {.data = random_indices(b * count, items), .sizes = random_sizes(b, count), .count = count, .bytes = 8}};
	size_t bytes = (size_t)(b * p * count * inner * element);
	uint8_t *want = malloc(bytes + 1), *got = malloc(bytes + 1);
	uint64_t refused[2] = {0};
	g.out = want, g.refused = &refused[0];
	assert_int_equal(stk_ragged_gather(cpu, &g, NULL, NULL), STK_OK);
	g.out = got, g.refused = &refused[1];
	assert_int_equal(stk_ragged_gather(cuda, &g, NULL, NULL), STK_OK);
	assert_memory_equal(want, got, bytes);
	assert_int_equal(refused[0], refused[1]);
	for (int64_t i = 0; i < b * count; i++) { /* compares with the definition too, for the first outer index and the first element */
		int64_t s = i / count, j = i % count, v = ((const int64_t *)g.index.data)[i], size = g.source_sizes[s];
		v = v < 0 ? v + size : v;
		bool ok = j < g.index.sizes[s] && v >= 0 && v < size;
		const uint8_t *from = (const uint8_t *)g.source + (s * p * items + v) * inner * element;
		assert_memory_equal(want + (s * p * count + j) * inner * element, ok ? from : g.filler, (size_t)element);
	}
	free((void *)g.source), free((void *)g.source_sizes), free((void *)g.index.data), free((void *)g.index.sizes), free(want),
		free(got);
}

static void test_gather(void **state)
{
	(void)state;
	for (uint64_t s = 0; s < 60; s++) {
		seed(s);
		gather_and_back(s % 2 ? 7 : 90);
	}
}

static void scatter_case(int64_t count)
{
	int64_t b = 1 + below(3), p = 1 + below(2), items = 1 + below(90), source_items = 1 + below(60), inner = 1 + below(9);
	bool mapped = below(2), based = below(2);
	if (!mapped)
		source_items = count;
	int32_t element = (int32_t[]){1, 2, 4, 8, 16}[below(5)];
	struct stk_scatter s = {.batch = b,
		.outer = p,
		.inner = inner,
		.element = element,
		.source_items = source_items,
		.items = items,
		.source = random_bytes(b * p * source_items * inner * element),
		.source_sizes = random_sizes(b, source_items),
		.sizes = random_sizes(b, items),
		.base = based ? random_bytes(b * p * items * inner * element) : NULL,
		.filler = {9, 8},
		.target = {.data = random_indices(b * count, items), .sizes = random_sizes(b, count), .count = count, .bytes = 8}};
	if (mapped)
		s.from = (struct stk_indices){.data = random_indices(b * count, source_items), .count = count, .bytes = 8};
	size_t bytes = (size_t)(b * p * items * inner * element), origins = (size_t)(b * items) * 4;
	uint8_t *out[2] = {malloc(bytes), malloc(bytes)};
	int32_t *origin[2] = {malloc(origins), malloc(origins)};
	uint64_t refused[2] = {0};
	for (int i = 0; i < 2; i++) {
		s.out = out[i], s.origin = origin[i], s.refused = &refused[i];
		assert_int_equal(stk_ragged_scatter(i ? cuda : cpu, &s, NULL, NULL), STK_OK);
	}
	assert_memory_equal(origin[0], origin[1], origins);
	assert_memory_equal(out[0], out[1], bytes);
	assert_int_equal(refused[0], refused[1]);

	struct stk_keep k = {.batch = b,
		.outer = p,
		.items = items,
		.inner = inner,
		.element = element,
		.source = out[0],
		.sizes = s.sizes,
		.origin = origin[0],
		.filler = {5}};
	uint8_t *kept[2] = {malloc(bytes), malloc(bytes)};
	for (int i = 0; i < 2; i++) {
		k.out = kept[i];
		assert_int_equal(stk_ragged_keep(i ? cuda : cpu, &k, NULL, NULL), STK_OK);
	}
	assert_memory_equal(kept[0], kept[1], bytes);
	for (int i = 0; i < 2; i++)
		free(out[i]), free(origin[i]), free(kept[i]);
	free((void *)s.source), free((void *)s.source_sizes), free((void *)s.sizes), free((void *)s.base), free((void *)s.target.data);
	free((void *)s.target.sizes), free((void *)s.from.data);
}

static void test_scatter(void **state)
{
	(void)state;
	for (uint64_t s = 0; s < 80; s++) {
		seed(s);
		scatter_case(s % 20 == 19 ? STK_SCATTER_SMALL + 1 + below(500) : below(300));
	}
}

static void test_scatter_add(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 48; n++) {
		seed(n);
		enum stk_dtype dtype = (enum stk_dtype[]){STK_FLOAT, STK_FLOAT64, STK_FLOAT16, STK_BFLOAT16, STK_INT32, STK_INT64}[n % 6];
		int64_t b = 1 + below(3), p = 1 + below(2), items = 1 + below(9), count = below(80),
			inner = 1 + below(n % 5 == 0 ? 600 : 9);
		size_t element = stk_dtype_size(dtype), bytes = (size_t)(b * p * items * inner) * element;
		int64_t values = b * p * count * inner;
		uint8_t *source = random_bytes(values * (int64_t)element);
		for (int64_t i = 0; i < values; i++) { /* small integers in each type, so that sums are exact */
			int v = (int)below(9) - 4;
			if (dtype == STK_FLOAT)
				((float *)source)[i] = (float)v;
			else if (dtype == STK_FLOAT64)
				((double *)source)[i] = v;
			else if (dtype == STK_FLOAT16)
				((uint16_t *)source)[i] = (uint16_t)(v < 0 ? 0xbc00 : v > 0 ? 0x3c00 : 0);
			else if (dtype == STK_BFLOAT16)
				((uint16_t *)source)[i] = (uint16_t)(v < 0 ? 0xbf80 : v > 0 ? 0x3f80 : 0);
		}
		struct stk_scatter_add s = {.batch = b,
			.outer = p,
			.inner = inner,
			.dtype = dtype,
			.exact = (int32_t)below(2),
			.source = source,
			.items = items,
			.sizes = random_sizes(b, items),
			.index = {.data = random_indices(b * count, items), .sizes = random_sizes(b, count), .count = count, .bytes = 8}};
		uint8_t *out[2] = {malloc(bytes), malloc(bytes)};
		for (int i = 0; i < 2; i++) {
			s.out = out[i];
			assert_int_equal(stk_ragged_scatter_add(i ? cuda : cpu, &s, NULL, NULL), STK_OK);
		}
		assert_memory_equal(out[0], out[1], bytes);
		free(out[0]), free(out[1]), free(source), free((void *)s.sizes), free((void *)s.index.data), free((void *)s.index.sizes);
	}
}

static void test_masks(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 30; n++) {
		seed(n);
		int64_t b = 1 + below(12), items = below(300);
		uint8_t *flags = random_bytes(b * items);
		for (int64_t i = 0; i < b * items; i++)
			flags[i] &= 1;
		struct stk_mask m = {.batch = b, .items = items, .mask = flags, .sizes = random_sizes(b, items)};
		int64_t *index[2], *count[2];
		int32_t *rank[2];
		uint8_t *mask[2];
		uint64_t refused[2] = {0};
		for (int i = 0; i < 2; i++) {
			struct stk_ragged *r = i ? cuda : cpu;
			m.index = index[i] = malloc((size_t)(b * items + 1) * 8);
			m.count = count[i] = malloc((size_t)b * 8);
			m.rank = rank[i] = malloc((size_t)(b * items + 1) * 4);
			mask[i] = malloc((size_t)(b * items + 1));
			assert_int_equal(stk_ragged_mask_to_index(r, &m, NULL, NULL), STK_OK);
			struct stk_indices found = {.data = index[0], .sizes = count[0], .count = items, .bytes = 8};
			assert_int_equal(
				stk_ragged_index_to_mask(r, b, items - (n % 2 && items), &found, mask[i], &refused[i], NULL, NULL), STK_OK);
		}
		assert_memory_equal(index[0], index[1], (size_t)(b * items) * 8);
		assert_memory_equal(count[0], count[1], (size_t)b * 8);
		assert_memory_equal(rank[0], rank[1], (size_t)(b * items) * 4);
		assert_memory_equal(mask[0], mask[1], (size_t)(b * (items - (n % 2 && items))));
		assert_int_equal(refused[0], refused[1]);
		for (int64_t i = 0; n % 2 == 0 && i < b * items; i++)
			assert_int_equal(mask[0][i], flags[i] && i % items < m.sizes[i / items]);
		for (int i = 0; i < 2; i++)
			free(index[i]), free(count[i]), free(rank[i]), free(mask[i]);
		free(flags), free((void *)m.sizes);
	}
}

/* Returns the smallest cost over all ways to match the rows (at most 6) to columns, as a reference. */
static double brute_force(const float *cost, int64_t rows, int64_t cols, int64_t row, unsigned taken)
{
	if (row == rows)
		return 0;
	double best = INFINITY;
	for (int64_t c = 0; c < cols; c++) {
		if (!(taken >> c & 1))
			best = fmin(best, (double)cost[row * cols + c] + brute_force(cost, rows, cols, row + 1, taken | 1u << c));
	}
	return best;
}

static void test_assignment_is_optimal(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 300; n++) {
		seed(n);
		int64_t rows = below(6), cols = rows + below(3);
		float *cost = random_floats(rows * cols);
		for (int64_t i = 0; i < rows * cols && n % 2; i++)
			cost[i] = n % 4 == 1 && below(4) == 0 ? INFINITY : (float)below(3);
		int64_t row[8], col[8], size;
		int8_t status;
		struct stk_assign a = {.dtype = STK_FLOAT,
			.cost = cost,
			.problems = 1,
			.rows = rows,
			.cols = cols,
			.row_stride = cols,
			.col_stride = 1,
			.row = row,
			.col = col,
			.sizes = &size,
			.status = &status};
		assert_int_equal(stk_ragged_assign(cpu, &a, NULL, NULL), STK_OK);
		double least = brute_force(cost, rows, cols, 0, 0), total = 0;
		assert_int_equal(status, least == INFINITY ? STK_ASSIGN_INFEASIBLE : STK_ASSIGN_SOLVED);
		unsigned taken = 0;
		for (int64_t i = 0; i < size; i++) {
			total += (double)cost[row[i] * cols + col[i]];
			assert_false(taken >> col[i] & 1);
			taken |= 1u << col[i];
		}
		if (status == STK_ASSIGN_SOLVED) {
			assert_int_equal(size, rows);
			assert_true(fabs(total - least) < 1e-5);
		}
		free(cost);
	}
}

struct assign_result {
	int64_t *row, *col, *sizes;
	int8_t *status;
	uint64_t refused;
};

static struct assign_result assign_on(struct stk_ragged *r, struct stk_assign a)
{
	int64_t pairs = a.rows < a.cols ? a.rows : a.cols;
	struct assign_result out = {.row = malloc((size_t)(a.problems * pairs + 1) * 8),
		.col = malloc((size_t)(a.problems * pairs + 1) * 8),
		.sizes = malloc((size_t)a.problems * 8),
		.status = malloc((size_t)a.problems)};
	a.row = out.row, a.col = out.col, a.sizes = out.sizes, a.status = out.status, a.refused = &out.refused;
	a.workspace = aligned_alloc(256, (stk_ragged_assign_workspace(r, &a) + 511) / 256 * 256);
	assert_int_equal(stk_ragged_assign(r, &a, NULL, NULL), STK_OK);
	free(a.workspace);
	return out;
}

static void free_result(struct assign_result r)
{
	free(r.row), free(r.col), free(r.sizes), free(r.status);
}

static void compare_assignment(struct stk_assign a)
{
	int64_t pairs = a.rows < a.cols ? a.rows : a.cols;
	struct assign_result want = assign_on(cpu, a);
	struct stk_ragged *others[] = {plain, cuda};
	for (int i = 0; i < 2; i++) {
		struct assign_result got = assign_on(others[i], a);
		assert_memory_equal(want.status, got.status, (size_t)a.problems);
		assert_memory_equal(want.sizes, got.sizes, (size_t)a.problems * 8);
		assert_memory_equal(want.row, got.row, (size_t)(a.problems * pairs) * 8);
		assert_memory_equal(want.col, got.col, (size_t)(a.problems * pairs) * 8);
		assert_int_equal(want.refused, got.refused);
		free_result(got);
	}
	free_result(want);
}

/* Assigns with costs of many kinds and of every type, contiguous along either dimension, ragged or not. */
static void assignment_case(uint64_t n, int64_t most)
{
	seed(n);
	int64_t problems = 1 + below(3), rows = below(most), cols = below(most), kind = below(6);
	enum stk_dtype dtype = (enum stk_dtype[]){STK_FLOAT, STK_FLOAT64, STK_FLOAT16, STK_BFLOAT16, STK_FLOAT}[below(5)];
	int64_t count = problems * rows * cols;
	float *values = random_floats(count);
	for (int64_t i = 0; i < count; i++) {
		if (kind == 1 || kind == 2)
			values[i] = (float)below(3);
		if ((kind == 2 || kind == 3) && below(5) == 0)
			values[i] = INFINITY;
		if (kind == 4)
			values[i] = values[i % (cols ? cols : 1)];
		if (kind == 5 && below(200) == 0)
			values[i] = below(2) ? NAN : -INFINITY;
	}
	void *cost = malloc((size_t)count * 8 + 8);
	for (int64_t i = 0; i < count; i++) {
		if (dtype == STK_FLOAT)
			((float *)cost)[i] = values[i];
		else if (dtype == STK_FLOAT64)
			((double *)cost)[i] = (double)values[i] * 1.000000001;
		else
			((uint16_t *)cost)[i] =
				(uint16_t)(0x3c00 + (int)(values[i] == values[i] && fabsf(values[i]) < 9 ? values[i] * 40 : 0));
	}
	bool turned = below(2);
	struct stk_assign a = {.dtype = dtype,
		.maximize = below(4) == 0,
		.cost = cost,
		.problems = problems,
		.rows = rows,
		.cols = cols,
		.problem_stride = rows * cols,
		.row_stride = turned ? 1 : cols,
		.col_stride = turned ? rows : 1,
		.num_rows = below(3) ? NULL : random_sizes(problems, rows),
		.num_cols = below(3) ? NULL : random_sizes(problems, cols)};
	compare_assignment(a);
	free((void *)a.num_rows), free((void *)a.num_cols), free(cost), free(values);
}

static void test_assignment_in_plain_c_and_simd(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 150; n++)
		assignment_case(n, 40);
	for (uint64_t n = 1000; n < 1004; n++)
		assignment_case(n, 400);
}

/* Tests each kernel by its number of columns, including the kernel that keeps its state in global memory (for more columns than fit in shared memory). */
static void test_assignment_sizes(void **state)
{
	(void)state;
	for (int tall = 0; tall < 2; tall++) {
		int64_t cols[] = {32, 100, 200, 300, 4500, 9000};
		for (size_t i = 0; i < sizeof cols / sizeof *cols; i++) {
			seed(i);
			int64_t rows = cols[i] > 2000 ? 2 : 8;
			float *cost = random_floats(rows * cols[i]);
			for (int64_t k = 0; k < rows * cols[i]; k++)
				cost[k] = (float)(int)(cost[k] * 20);
			struct stk_assign a = {.dtype = STK_FLOAT,
				.cost = cost,
				.problems = 1,
				.rows = tall ? cols[i] : rows,
				.cols = tall ? rows : cols[i],
				.col_stride = 1};
			a.row_stride = a.cols;
			compare_assignment(a);
			free(cost);
		}
	}
}

static void test_cost(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 40; n++) {
		seed(n);
		int64_t outer = 1 + below(2), b = 1 + below(3), q = 1 + below(200), g = below(40), k = n % 8 == 7 ? 150 : 1 + below(12),
			d = n % 3 ? 10 : 4;
		struct stk_cost c = {.outer = outer,
			.batch = b,
			.queries = q,
			.targets = g,
			.classes = k,
			.box_values = d,
			.sizes = random_sizes(b, g),
			.logits_dtype = STK_FLOAT,
			.boxes_dtype = STK_FLOAT,
			.target_boxes_dtype = STK_FLOAT,
			.label_bytes = 8,
			.class_kind = (int32_t)below(3),
			.box_format = (int32_t)below(d == 10 ? 3 : 2),
			.alpha = 0.25f,
			.gamma = n % 5 ? 2.0f : 1.5f,
			.class_weight = 2,
			.giou_weight = (float)below(2),
			.nan = 100,
			.posinf = 100,
			.neginf = -100};
		for (int i = 0; i < d; i++)
			c.l1_weight[i] = (float)i * 0.1f;
		float *logits = random_floats(outer * b * q * k), *boxes = random_floats(outer * b * q * d),
		      *targets = random_floats(b * g * d);
		if (n % 4 != 3)
			c.logits = logits, c.labels = random_indices(b * g, k);
		if (n % 4 != 2)
			c.boxes = boxes, c.target_boxes = targets;
		float *out[2];
		uint64_t refused[2] = {0};
		for (int i = 0; i < 2; i++) {
			out[i] = c.out = malloc((size_t)(outer * b * q * g + 1) * sizeof *c.out);
			c.refused = &refused[i];
			assert_int_equal(stk_ragged_cost(i ? cuda : cpu, &c, NULL, NULL), STK_OK);
		}
		for (int64_t i = 0; i < outer * b * q * g; i++)
			assert_true(fabsf(out[0][i] - out[1][i]) <= 1e-5f * fmaxf(1, fabsf(out[0][i])));
		assert_int_equal(refused[0], refused[1]);
		free(out[0]), free(out[1]), free(logits), free(boxes), free(targets), free((void *)c.labels), free((void *)c.sizes);
	}
}

/* Makes random matches of `queries` queries and lists of `targets` targets. Some indices are out of range, and a query may have several pairs. */
static struct stk_matches random_matches(int64_t samples, int64_t queries, int64_t lists, int64_t targets)
{
	struct stk_matches m = {.most = below(9), .lists = lists, .targets = targets};
	m.rows = random_indices(samples * m.most, queries + 1), m.cols = random_indices(samples * m.most, targets + 1);
	m.sizes = random_sizes(samples, m.most), m.target_sizes = random_sizes(lists, targets);
	return m;
}

static void free_matches(const struct stk_matches *m)
{
	free((void *)m->rows), free((void *)m->cols), free((void *)m->sizes), free((void *)m->target_sizes);
}

/* Returns the index that `index` means among `count` items, or -1. */
static int64_t resolved(int64_t index, int64_t count)
{
	index += index < 0 ? count : 0;
	return index >= 0 && index < count ? index : -1;
}

/* Sets *query and *target to those of pair j of sample s. Returns whether both exist. */
static bool find_pair(const struct stk_matches *m, int64_t queries, int64_t s, int64_t j, int64_t *query, int64_t *target)
{
	*query = resolved(m->rows[s * m->most + j], queries);
	*target = resolved(m->cols[s * m->most + j], m->target_sizes ? m->target_sizes[s % m->lists] : m->targets);
	return *query >= 0 && *target >= 0;
}

/* Compares the focal loss and its gradient with the formula in float64, on the CPU and with CUDA. */
static void test_focal(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 30; n++) {
		seed(n);
		int64_t samples = 1 + below(4), q = n == 29 ? 9000 : below(70), k = 1 + below(20), count = samples * q * k;
		int64_t lists = 1 + below(3), targets = below(8);
		struct stk_focal f = {.samples = samples,
			.queries = q,
			.classes = k,
			.dtype = STK_FLOAT,
			.label_bytes = 8,
			.matches = random_matches(samples, q, lists, targets),
			.mean = n % 3 > 0,
			.alpha = 0.25f,
			.gamma = n % 4 ? 2.0f : 1.25f,
			.scale_stride = (int64_t)(n % 2)};
		const struct stk_matches *m = &f.matches;
		float *logits = random_floats(count), *scale = random_floats(samples), *loss[2], *grad[2];
		int64_t *labels = random_indices(lists * targets, k), *class_of = malloc((size_t)(q + 1) * sizeof *class_of);
		uint64_t refused[2] = {0}, out_of_range = 0;
		f.logits = logits, f.labels = labels, f.scale = scale;
		for (int i = 0; i < 2; i++) {
			loss[i] = f.loss = malloc((size_t)samples * sizeof *f.loss);
			f.grad = grad[i] = malloc((size_t)(count + 1) * sizeof *grad[i]);
			f.matches.refused = &refused[i];
			assert_int_equal(stk_ragged_focal(i ? cuda : cpu, &f, NULL, NULL), STK_OK);
		}
		for (int64_t s = 0; s < samples; s++) {
			double sum = 0, divisor = f.mean && m->sizes[s] > 1 ? (double)m->sizes[s] : 1;
			for (int64_t i = 0; i < q; i++)
				class_of[i] = -1;
			for (int64_t j = 0; j < m->sizes[s]; j++) {
				int64_t query, target;
				if (find_pair(m, q, s, j, &query, &target))
					class_of[query] = labels[s % lists * targets + target];
				else
					out_of_range++;
			}
			for (int64_t i = s * q * k; i < (s + 1) * q * k; i++) {
				bool hot = class_of[i / k - s * q] == i % k;
				double x = hot ? logits[i] : -logits[i], weight = hot ? 0.25 : 0.75, p = 1 / (1 + exp(-x)), g = f.gamma;
				sum -= weight * pow(1 - p, g) * log(p);
				double slope = (hot ? weight : -weight) * pow(1 - p, g) * (g * p * log(p) - (1 - p)),
				       want = slope * scale[s * f.scale_stride] / divisor;
				for (int d = 0; d < 2; d++)
					assert_true(fabs(grad[d][i] - want) <= 1e-5 * fmax(1, fabs(want)));
			}
			for (int d = 0; d < 2; d++)
				assert_true(fabs(loss[d][s] - sum / divisor) <= 1e-5 * fmax(1, sum / divisor));
		}
		for (int i = 0; i < 2; i++) {
			assert_int_equal(refused[i], out_of_range);
			free(loss[i]), free(grad[i]);
		}
		free(logits), free(scale), free(labels), free(class_of), free_matches(m);
	}
}

static void test_l1(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 30; n++) {
		seed(n);
		int64_t samples = 1 + below(4), queries = n == 29 ? 5000 : below(60), values = 1 + below(14), count = queries * values;
		int64_t lists = 1 + below(3), targets = below(8);
		float *boxes = random_floats(samples * count), *theirs = random_floats(lists * targets * values),
		      *scale = random_floats(samples);
		float *loss[2], *grad[2];
		double *want = malloc((size_t)(count + 1) * sizeof *want);
		uint64_t refused[2] = {0}, out_of_range = 0;
		struct stk_l1 l = {.samples = samples,
			.queries = queries,
			.values = values,
			.boxes = boxes,
			.target_boxes = theirs,
			.matches = random_matches(samples, queries, lists, targets),
			.mean = (int32_t)(n % 2),
			.scale = scale,
			.scale_stride = 1};
		const struct stk_matches *m = &l.matches;
		for (int i = 0; i < 2; i++) {
			loss[i] = l.loss = malloc((size_t)samples * sizeof *l.loss);
			grad[i] = l.grad = malloc((size_t)(samples * count + 1) * sizeof *l.grad);
			l.matches.refused = &refused[i];
			assert_int_equal(stk_ragged_l1(i ? cuda : cpu, &l, NULL, NULL), STK_OK);
		}
		for (int64_t s = 0; s < samples; s++) {
			double sum = 0, divisor = l.mean && m->sizes[s] > 1 ? (double)m->sizes[s] : 1;
			memset(want, 0, (size_t)count * sizeof *want);
			for (int64_t j = 0; j < m->sizes[s]; j++) {
				int64_t query, target;
				if (!find_pair(m, queries, s, j, &query, &target)) {
					out_of_range++;
					continue;
				}
				for (int64_t v = 0; v < values; v++) {
					double d = (double)boxes[s * count + query * values + v] -
						   theirs[(s % lists * targets + target) * values + v];
					sum += fabs(d);
					want[query * values + v] += scale[s] / divisor * ((d > 0) - (d < 0));
				}
			}
			for (int side = 0; side < 2; side++) {
				for (int64_t i = 0; i < count; i++)
					assert_true(fabs(grad[side][s * count + i] - want[i]) <= 1e-5 * fmax(1, fabs(want[i])));
				assert_true(fabs(loss[side][s] - sum / divisor) <= 1e-5 * fmax(1, sum / divisor));
			}
		}
		for (int i = 0; i < 2; i++) {
			assert_int_equal(refused[i], out_of_range);
			free(loss[i]), free(grad[i]);
		}
		free(boxes), free(theirs), free(scale), free(want), free_matches(m);
	}
}

static void test_heatmap(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 30; n++) {
		seed(n);
		int64_t groups = 1 + below(3), classes = n % 2 ? 1 + below(4) : 1, h = 1 + below(30), w = 1 + below(50),
			t = below(n % 7 == 6 ? 400 : 20);
		bool flat = n % 3 == 0;
		int64_t lists = flat ? 1 : groups, count = groups * classes * h * w;
		struct stk_heatmap m = {.groups = groups,
			.classes = classes,
			.height = h,
			.width = w,
			.targets = t,
			.bytes = {8, 8, 8, 8},
			.sigma_factor = 6,
			.k = 0.5f + (float)below(2),
			.accumulate = (int32_t)below(2),
			.centers = random_indices(lists * t * 2, 60),
			.radii = random_indices(lists * t, 12),
			.labels = n % 2 ? random_indices(lists * t, classes - 1) : NULL,
			.sizes = flat ? NULL : random_sizes(groups, t),
			.map_index = flat ? random_indices(t, groups - 1) : NULL};
		float *map[2];
		uint64_t refused[2] = {0};
		for (int i = 0; i < 2; i++) {
			seed(n + 100);
			map[i] = m.map = random_floats(count);
			m.refused = &refused[i];
			assert_int_equal(stk_ragged_heatmap(i ? cuda : cpu, &m, NULL, NULL), STK_OK);
		}
		for (int64_t i = 0; i < count; i++)
			assert_true(fabsf(map[0][i] - map[1][i]) <= 1e-6f);
		assert_int_equal(refused[0], refused[1]);
		free(map[0]), free(map[1]), free((void *)m.centers), free((void *)m.radii), free((void *)m.labels), free((void *)m.sizes),
			free((void *)m.map_index);
	}
}

/* Centres and radii at the limits of 64 bits: each pixel must follow the formula, wherever the centre is. */
static void test_heatmap_far(void **state)
{
	(void)state;
	enum { W = 7, H = 5 };
	const int64_t far[] = {INT64_MIN, INT64_MIN + 1, INT64_MIN + 2, INT64_MIN + 8, -((int64_t)1 << 62), INT32_MIN, -200, -1, 0, 3, 200,
		INT32_MAX, (int64_t)1 << 62, INT64_MAX - 8, INT64_MAX - 1, INT64_MAX};
	enum { N = sizeof far / sizeof *far };
	for (int k = 0; k < N * N * 2 * (cuda ? 2 : 1); k++) {
		int64_t x = k % 2 ? 3 : far[k / 2 % N], y = k % 2 ? far[k / 2 % N] : 3, radius = far[k / 2 / N % N], centers[] = {x, y};
		float map[H * W];
		struct stk_heatmap m = {.map = map,
			.groups = 1,
			.classes = 1,
			.height = H,
			.width = W,
			.targets = 1,
			.bytes = {8, 8, 8, 8},
			.sigma_factor = 6,
			.k = 1,
			.centers = centers,
			.radii = &radius};
		assert_int_equal(stk_ragged_heatmap(k < N * N * 2 ? cpu : cuda, &m, NULL, NULL), STK_OK);
		for (int64_t v = 0; v < H; v++)
			for (int64_t u = 0; u < W; u++) {
				long double dx = (long double)u - x, dy = (long double)v - y, sigma = (2 * (long double)radius + 1) / 6;
				bool in = radius >= 0 && fabsl(dx) <= radius && fabsl(dy) <= radius;
				double want = in ? exp((double)(-(dx * dx + dy * dy) / (2 * sigma * sigma))) : 0;
				if (fabs((double)map[v * W + u] - want) > 1e-6)
					fail_msg("centre %lld, %lld, radius %lld, pixel %lld, %lld: %g, not %g", (long long)x, (long long)y,
						(long long)radius, (long long)u, (long long)v, (double)map[v * W + u], want);
			}
	}
}

/* Both devices give the same points and lengths, apart from float32's rounding. The CPU's results equal the results of a walk along each polyline. */
static void test_polyline(void **state)
{
	(void)state;
	for (uint64_t n = 0; n < 40; n++) {
		seed(n);
		int64_t batch = 1 + below(4), points = 1 + below(n % 5 == 4 ? 700 : 12), dims = 1 + below(4), samples = below(30);
		struct stk_polyline p = {.dtype = STK_FLOAT,
			.relative = n % 2,
			.batch = batch,
			.points = points,
			.dims = dims,
			.samples = samples,
			.point = random_floats(batch * points * dims),
			.sizes = n % 3 ? random_sizes(batch, points) : NULL,
			.distance = random_floats(batch * samples),
			.sample_sizes = n % 4 ? random_sizes(batch, samples) : NULL,
			.along = malloc((size_t)(batch * points) * sizeof(double))};
		float *out[2], *length[2];
		for (int i = 0; i < 2; i++) {
			p.out = out[i] = random_floats(batch * samples * dims);
			p.length = length[i] = random_floats(batch);
			assert_int_equal(stk_ragged_polyline(i ? cuda : cpu, &p, NULL, NULL), STK_OK);
		}
		for (int64_t i = 0; i < batch * samples * dims; i++)
			assert_true(fabsf(out[0][i] - out[1][i]) <= 1e-5f || (isnan(out[0][i]) && isnan(out[1][i])));
		for (int64_t b = 0; b < batch; b++) {
			const float *point = (const float *)p.point + b * points * dims,
				    *distance = (const float *)p.distance + b * samples;
			int64_t count = p.sizes ? p.sizes[b] : points, real = p.sample_sizes ? p.sample_sizes[b] : samples;
			double total = 0;
			for (int64_t i = 0; i + 1 < count; i++) {
				double square = 0;
				for (int64_t d = 0; d < dims; d++)
					square += pow((double)point[(i + 1) * dims + d] - (double)point[i * dims + d], 2);
				total += sqrt(square);
			}
			assert_true(
				fabs(total - (double)length[0][b]) <= 1e-6 * (1 + total) && fabsf(length[0][b] - length[1][b]) <= 1e-4f);
			for (int64_t j = 0; j < samples; j++) {
				double left = fmax(0, (double)distance[j] * (p.relative ? total : 1));
				const float *got = out[0] + (b * samples + j) * dims;
				if (j >= real || count == 0) {
					assert_true(j >= real ? got[0] == 0 : isnan(got[0]));
					continue;
				}
				int64_t i = 0;
				double share = 0;
				for (; i + 1 < count; i++) {
					double square = 0;
					for (int64_t d = 0; d < dims; d++)
						square += pow((double)point[(i + 1) * dims + d] - (double)point[i * dims + d], 2);
					share = square > 0 ? left / sqrt(square) : 0;
					if (share < 1)
						break;
					left -= sqrt(square);
					share = 0;
				}
				for (int64_t d = 0; d < dims; d++) {
					double a = (double)point[i * dims + d],
					       next = i + 1 < count ? (double)point[(i + 1) * dims + d] : a;
					assert_true(fabs(a + share * (next - a) - (double)got[d]) <= 1e-4);
				}
			}
		}
		free((void *)p.point), free((void *)p.sizes), free((void *)p.distance), free((void *)p.sample_sizes), free(p.along);
		for (int i = 0; i < 2; i++)
			free(out[i]), free(length[i]);
	}
}

static void refused(enum stk_status s, struct stk_error *err)
{
	assert_int_equal(s, STK_INVALID);
	assert_true(err->message[0]);
	*err = (struct stk_error){0};
}

/* Checks that sizes whose products overflow 64 bits, null pointers, and invalid enumerators are refused. Arrays of size 0 may be null pointers. */
static void test_extremes(void **state)
{
	(void)state;
	const int64_t large = (int64_t)1 << 40, most = INT32_MAX;
	int64_t numbers[8] = {0}, index[8] = {0}, sizes[2] = {0};
	uint8_t bytes[64] = {0};
	int8_t status[2];
	float floats[16] = {0};
	struct stk_error err = {0};
	const struct stk_indices some = {.data = index, .count = 2, .bytes = 8};
	const struct stk_gather gather = {
		.batch = 1, .outer = 1, .inner = 1, .element = 4, .source = bytes, .source_items = 2, .index = some, .out = bytes};
	struct stk_gather g = gather;
	assert_int_equal(stk_ragged_gather(cpu, &g, NULL, &err), STK_OK);
	g.batch = g.outer = large, refused(stk_ragged_gather(cpu, &g, NULL, &err), &err), g = gather;
	g.outer = INT64_MAX, refused(stk_ragged_gather(cpu, &g, NULL, &err), &err), g = gather;
	g.inner = 0, g.batch = INT64_MAX, refused(stk_ragged_gather(cpu, &g, NULL, &err), &err), g = gather;
	g.source_items = most, g.batch = g.inner = large, refused(stk_ragged_gather(cpu, &g, NULL, &err), &err), g = gather;
	g.out = NULL, refused(stk_ragged_gather(cpu, &g, NULL, &err), &err), g = gather;
	g.source = NULL, refused(stk_ragged_gather(cpu, &g, NULL, &err), &err), g = gather;
	g.index.data = NULL, refused(stk_ragged_gather(cpu, &g, NULL, &err), &err), g = gather;
	g.inner = 0, g.out = NULL, g.source = NULL, assert_int_equal(stk_ragged_gather(cpu, &g, NULL, &err), STK_OK);
	const struct stk_scatter scatter = {.batch = 1,
		.outer = 1,
		.inner = 1,
		.element = 4,
		.source = bytes,
		.source_items = 2,
		.target = some,
		.items = 2,
		.out = bytes};
	struct stk_scatter s = scatter;
	assert_int_equal(stk_ragged_scatter(cpu, &s, NULL, &err), STK_OK);
	s.batch = INT64_MAX, refused(stk_ragged_scatter(cpu, &s, NULL, &err), &err), s = scatter;
	s.outer = s.inner = large, refused(stk_ragged_scatter(cpu, &s, NULL, &err), &err), s = scatter;
	s.source = NULL, refused(stk_ragged_scatter(cpu, &s, NULL, &err), &err), s = scatter;
	s.inner = 0, s.source = NULL, assert_int_equal(stk_ragged_scatter(cpu, &s, NULL, &err), STK_OK);
	const struct stk_scatter_add add = {
		.batch = 1, .outer = 1, .inner = 1, .dtype = STK_FLOAT, .source = floats, .index = some, .items = 2, .out = floats};
	struct stk_scatter_add a = add;
	assert_int_equal(stk_ragged_scatter_add(cpu, &a, NULL, &err), STK_OK);
	a.batch = a.inner = large, refused(stk_ragged_scatter_add(cpu, &a, NULL, &err), &err), a = add;
	a.out = NULL, refused(stk_ragged_scatter_add(cpu, &a, NULL, &err), &err), a = add;
	a.dtype = (enum stk_dtype)77, assert_int_equal(stk_ragged_scatter_add(cpu, &a, NULL, &err), STK_UNSUPPORTED);
	const struct stk_keep keep = {.batch = 1, .outer = 1, .items = 2, .inner = 1, .element = 4, .source = bytes, .out = bytes};
	struct stk_keep k = keep;
	assert_int_equal(stk_ragged_keep(cpu, &k, NULL, &err), STK_OK);
	k.batch = k.outer = large, refused(stk_ragged_keep(cpu, &k, NULL, &err), &err), k = keep;
	k.source = NULL, refused(stk_ragged_keep(cpu, &k, NULL, &err), &err), k = keep;
	k.element = 3, refused(stk_ragged_keep(cpu, &k, NULL, &err), &err);
	struct stk_mask m = {.batch = INT64_MAX, .items = 2, .mask = bytes, .index = index};
	refused(stk_ragged_mask_to_index(cpu, &m, NULL, &err), &err);
	m.batch = 1, m.mask = NULL, refused(stk_ragged_mask_to_index(cpu, &m, NULL, &err), &err);
	m.items = 0, m.index = NULL, assert_int_equal(stk_ragged_mask_to_index(cpu, &m, NULL, &err), STK_OK);
	refused(stk_ragged_index_to_mask(cpu, INT64_MAX, 2, &some, bytes, NULL, NULL, &err), &err);
	refused(stk_ragged_index_to_mask(cpu, 1, 2, &some, NULL, NULL, NULL, &err), &err);
	refused(stk_ragged_index_to_mask(cpu, 1, 2, NULL, bytes, NULL, NULL, &err), &err);
	assert_int_equal(stk_ragged_index_to_mask(cpu, 1, 0, &some, NULL, NULL, NULL, &err), STK_OK);
	const void *samples[] = {NULL, bytes};
	refused(stk_ragged_pack(cpu, samples, sizes, 2, large, large, bytes, &err), &err);
	refused(stk_ragged_pack(cpu, samples, sizes, -1, 1, 1, bytes, &err), &err);
	refused(stk_ragged_pack(cpu, NULL, sizes, 2, 1, 1, bytes, &err), &err);
	sizes[0] = 1, refused(stk_ragged_pack(cpu, samples, sizes, 2, 1, 1, bytes, &err), &err);
	assert_int_equal(stk_ragged_pack(cpu, samples, sizes, 2, 1, 0, NULL, &err), STK_OK);
	const struct stk_assign assign = {.dtype = STK_FLOAT,
		.cost = floats,
		.problems = 1,
		.rows = 2,
		.cols = 2,
		.problem_stride = 4,
		.row_stride = 2,
		.col_stride = 1,
		.row = numbers,
		.col = index,
		.sizes = sizes,
		.status = status};
	struct stk_assign c = assign;
	assert_int_equal(stk_ragged_assign(cpu, &c, NULL, &err), STK_OK);
	c.rows = c.cols = most, refused(stk_ragged_assign(cpu, &c, NULL, &err), &err), c = assign;
	c.problems = INT64_MAX, refused(stk_ragged_assign(cpu, &c, NULL, &err), &err), c = assign;
	c.row_stride = INT64_MIN, refused(stk_ragged_assign(cpu, &c, NULL, &err), &err), c = assign;
	c.cost = NULL, refused(stk_ragged_assign(cpu, &c, NULL, &err), &err), c = assign;
	c.status = NULL, refused(stk_ragged_assign(cpu, &c, NULL, &err), &err), c = assign;
	c.cols = 0, c.cost = NULL, c.row = c.col = NULL, assert_int_equal(stk_ragged_assign(cpu, &c, NULL, &err), STK_OK);
	const struct stk_cost cost = {.outer = 1,
		.batch = 1,
		.queries = 2,
		.targets = 2,
		.classes = 2,
		.logits = floats,
		.labels = index,
		.logits_dtype = STK_FLOAT,
		.label_bytes = 8,
		.out = floats + 8};
	struct stk_cost q = cost;
	assert_int_equal(stk_ragged_cost(cpu, &q, NULL, &err), STK_OK);
	q.outer = q.batch = large, refused(stk_ragged_cost(cpu, &q, NULL, &err), &err), q = cost;
	q.classes = most, q.batch = large, refused(stk_ragged_cost(cpu, &q, NULL, &err), &err), q = cost;
	q.class_kind = 77, refused(stk_ragged_cost(cpu, &q, NULL, &err), &err), q = cost;
	q.box_format = -1, refused(stk_ragged_cost(cpu, &q, NULL, &err), &err), q = cost;
	q.logits_dtype = STK_INT32, refused(stk_ragged_cost(cpu, &q, NULL, &err), &err), q = cost;
	q.label_bytes = 3, refused(stk_ragged_cost(cpu, &q, NULL, &err), &err), q = cost;
	q.labels = NULL, refused(stk_ragged_cost(cpu, &q, NULL, &err), &err), q = cost;
	const struct stk_heatmap heat = {.map = floats,
		.groups = 1,
		.classes = 1,
		.height = 2,
		.width = 2,
		.targets = 1,
		.bytes = {8, 8, 8, 8},
		.sigma_factor = 6,
		.k = 1,
		.centers = index,
		.radii = index};
	struct stk_heatmap h = heat;
	assert_int_equal(stk_ragged_heatmap(cpu, &h, NULL, &err), STK_OK);
	h.groups = h.classes = large, refused(stk_ragged_heatmap(cpu, &h, NULL, &err), &err), h = heat;
	h.targets = most, h.groups = large, refused(stk_ragged_heatmap(cpu, &h, NULL, &err), &err), h = heat;
	h.sigma_factor = 0, refused(stk_ragged_heatmap(cpu, &h, NULL, &err), &err), h = heat;
	h.sigma_factor = NAN, refused(stk_ragged_heatmap(cpu, &h, NULL, &err), &err), h = heat;
	h.k = INFINITY, refused(stk_ragged_heatmap(cpu, &h, NULL, &err), &err), h = heat;
	h.bytes[1] = 0, refused(stk_ragged_heatmap(cpu, &h, NULL, &err), &err), h = heat;
	h.radii = NULL, refused(stk_ragged_heatmap(cpu, &h, NULL, &err), &err);
	const struct stk_polyline line = {.dtype = STK_FLOAT,
		.batch = 1,
		.points = 2,
		.dims = 2,
		.samples = 1,
		.point = floats,
		.distance = floats,
		.out = floats + 8};
	struct stk_polyline l = line;
	assert_int_equal(stk_ragged_polyline(cpu, &l, NULL, &err), STK_OK);
	l.batch = l.samples = large, refused(stk_ragged_polyline(cpu, &l, NULL, &err), &err), l = line;
	l.batch = l.points = most, l.dims = most, refused(stk_ragged_polyline(cpu, &l, NULL, &err), &err), l = line;
	l.points = -1, refused(stk_ragged_polyline(cpu, &l, NULL, &err), &err), l = line;
	l.point = NULL, refused(stk_ragged_polyline(cpu, &l, NULL, &err), &err), l = line;
	l.distance = NULL, refused(stk_ragged_polyline(cpu, &l, NULL, &err), &err), l = line;
	l.dtype = STK_INT32, assert_int_equal(stk_ragged_polyline(cpu, &l, NULL, &err), STK_UNSUPPORTED);
	struct stk_ragged *r;
	refused(stk_ragged_create(STK_RAGGED_CPU, -1, &r, &err), &err);
	assert_int_equal(stk_ragged_create(STK_RAGGED_CPU, INT32_MAX, &r, &err), STK_OK); /* allowed: fewer threads are started */
	assert_int_equal(stk_ragged_assign(r, &assign, NULL, &err), STK_OK);
	stk_ragged_destroy(r);
}

static void test_bad_arguments(void **state)
{
	(void)state;
	struct stk_error err = {0};
	struct stk_ragged *r;
	assert_int_equal(stk_ragged_create(-7, 0, &r, &err), STK_INVALID);
	assert_non_null(strstr(err.message, "device -7"));
	assert_int_equal(stk_ragged_gather(cpu, &(struct stk_gather){.element = 3, .index.bytes = 8}, NULL, &err), STK_INVALID);
	assert_int_equal(
		stk_ragged_scatter_add(cpu, &(struct stk_scatter_add){.dtype = STK_BOOL, .index.bytes = 8}, NULL, &err), STK_UNSUPPORTED);
	assert_int_equal(stk_ragged_assign(cpu, &(struct stk_assign){.dtype = STK_INT32}, NULL, &err), STK_UNSUPPORTED);
	assert_int_equal(stk_ragged_cost(cpu, &(struct stk_cost){.box_values = 33}, NULL, &err), STK_LIMIT);
	assert_int_equal(stk_ragged_focal(cpu, &(struct stk_focal){.dtype = STK_INT32}, NULL, &err), STK_UNSUPPORTED);
	assert_int_equal(stk_ragged_focal(cpu, &(struct stk_focal){.dtype = STK_FLOAT, .label_bytes = 2}, NULL, &err), STK_INVALID);
	assert_int_equal(
		stk_ragged_focal(
			cpu, &(struct stk_focal){.queries = 1 << 20, .classes = 1 << 11, .dtype = STK_FLOAT, .label_bytes = 4}, NULL, &err),
		STK_INVALID);
	float one = 1;
	assert_int_equal(stk_ragged_l1(cpu, &(struct stk_l1){.samples = 1, .matches.lists = 1, .grad = &one}, NULL, &err), STK_INVALID);
	assert_non_null(strstr(err.message, "scale"));
	assert_int_equal(stk_ragged_l1(cpu, &(struct stk_l1){.queries = -1}, NULL, &err), STK_INVALID);
	assert_int_equal(stk_ragged_l1(cpu, &(struct stk_l1){.samples = 1, .loss = &one}, NULL, &err), STK_INVALID);
	assert_int_equal(
		stk_ragged_focal(
			cpu, &(struct stk_focal){.samples = 1, .dtype = STK_FLOAT, .label_bytes = 4, .matches = {.lists = -1}}, NULL, &err),
		STK_INVALID);
	int64_t sizes[] = {2, 5};
	const void *samples[] = {sizes, sizes};
	uint8_t out[8];
	assert_int_equal(stk_ragged_pack(cpu, samples, sizes, 2, 4, 1, out, &err), STK_SHAPE);
}

/* Makes each allocation and each start of a thread fail in turn. The call returns an error, or fewer threads do the work. */
static void test_faults(void **state)
{
	(void)state;
#ifdef STK_FAULTS
	float cost[64 * 64];
	int64_t row[64], col[64], size;
	int8_t status;
	for (int i = 0; i < 64 * 64; i++)
		cost[i] = (float)(i * 37 % 101);
	struct stk_assign a = {.dtype = STK_FLOAT,
		.cost = cost,
		.problems = 1,
		.rows = 64,
		.cols = 64,
		.row_stride = 64,
		.col_stride = 1,
		.row = row,
		.col = col,
		.sizes = &size,
		.status = &status};
	for (enum stk_fault kind = STK_FAULT_ALLOC; kind <= STK_FAULT_THREAD; kind++) {
		bool finished = false;
		for (int64_t nth = 0; !finished; nth++) {
			struct stk_ragged *r = NULL;
			struct stk_error err = {0};
			stk__fault_set(kind, nth);
			enum stk_status result = stk_ragged_create(STK_RAGGED_CPU, 2, &r, &err);
			if (!result)
				result = stk_ragged_assign(r, &a, NULL, &err);
			finished = stk__fault_passed(kind) <= nth;
			stk__fault_set(kind, -1);
			assert_true(result == STK_OK || (kind == STK_FAULT_ALLOC && result == STK_NO_MEMORY && err.message[0]));
			assert_true(!finished || result == STK_OK);
			stk_ragged_destroy(r);
		}
	}
#else
	skip(); /* needs a build with -Dfaults=true */
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gather),
		cmocka_unit_test(test_scatter),
		cmocka_unit_test(test_scatter_add),
		cmocka_unit_test(test_masks),
		cmocka_unit_test(test_assignment_is_optimal),
		cmocka_unit_test(test_assignment_in_plain_c_and_simd),
		cmocka_unit_test(test_assignment_sizes),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_focal),
		cmocka_unit_test(test_l1),
		cmocka_unit_test(test_heatmap),
		cmocka_unit_test(test_heatmap_far),
		cmocka_unit_test(test_polyline),
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_bad_arguments),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, open_devices, close_devices);
}
