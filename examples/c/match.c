/* SPDX-License-Identifier: Apache-2.0
 * Matches predictions with ragged targets, as a detector's loss does: computes the class and L1 costs of a batch in one call, solves the assignment in
 * another, and gathers the matched predictions. Build: cc match.c $(pkg-config --cflags --libs stoker) */
#include <stoker/batching.h>

#include <stdio.h>

enum { BATCH = 2, QUERIES = 4, TARGETS = 3, CLASSES = 2, VALUES = 4 };

static const float logits[BATCH][QUERIES][CLASSES] = {{{2, -2}, {-2, 2}, {0, 0}, {-1, -1}}, {{-3, 1}, {3, -1}, {0, 0}, {1, 1}}};
static const float boxes[BATCH][QUERIES][VALUES] = {
	{{0, 0, 1, 1}, {2, 2, 3, 3}, {5, 5, 6, 6}, {8, 8, 9, 9}}, {{1, 1, 2, 2}, {4, 4, 5, 5}, {7, 7, 8, 8}, {0, 0, 1, 1}}};
/* The first sample has three targets, and the second has one; the remaining entries are padding. */
static const int64_t sizes[BATCH] = {3, 1};
static const int64_t labels[BATCH][TARGETS] = {{1, 0, 0}, {0}};
static const float targets[BATCH][TARGETS][VALUES] = {{{2, 2, 3, 3}, {0, 0, 1, 1}, {8, 8, 9, 9}}, {{4, 4, 5, 5}}};

int main(void)
{
	struct stk_error err = {0};
	struct stk_ragged *cpu;
	if (stk_ragged_create(STK_RAGGED_CPU, 0, &cpu, &err))
		goto failed;

	static float cost[BATCH][TARGETS][QUERIES];
	struct stk_cost c = {.outer = 1,
		.batch = BATCH,
		.queries = QUERIES,
		.targets = TARGETS,
		.classes = CLASSES,
		.box_values = VALUES,
		.logits = logits,
		.boxes = boxes,
		.labels = labels,
		.target_boxes = targets,
		.sizes = sizes,
		.logits_dtype = STK_FLOAT,
		.boxes_dtype = STK_FLOAT,
		.target_boxes_dtype = STK_FLOAT,
		.label_bytes = sizeof labels[0][0],
		.class_kind = STK_COST_FOCAL,
		.alpha = 0.25f,
		.gamma = 2,
		.class_weight = 2,
		.l1_weight = {0.25f, 0.25f, 0.25f, 0.25f},
		.nan = 100,
		.posinf = 100,
		.neginf = -100,
		.out = &cost[0][0][0]};
	if (stk_ragged_cost(cpu, &c, NULL, &err))
		goto failed;

	/* Rows are queries and columns are targets. The costs are transposed in memory, so the strides are swapped. */
	int64_t query[BATCH][TARGETS], target[BATCH][TARGETS], pairs[BATCH];
	int8_t status[BATCH];
	struct stk_assign a = {.dtype = STK_FLOAT,
		.cost = cost,
		.problems = BATCH,
		.rows = QUERIES,
		.cols = TARGETS,
		.problem_stride = TARGETS * QUERIES,
		.row_stride = 1,
		.col_stride = QUERIES,
		.num_cols = sizes,
		.row = query[0],
		.col = target[0],
		.sizes = pairs,
		.status = status};
	if (stk_ragged_assign(cpu, &a, NULL, &err))
		goto failed;

	float matched[BATCH][TARGETS][VALUES];
	struct stk_gather g = {.batch = BATCH,
		.outer = 1,
		.inner = VALUES,
		.element = sizeof(float),
		.source = boxes,
		.source_items = QUERIES,
		.index = {.data = query, .sizes = pairs, .count = TARGETS, .bytes = 8},
		.out = matched};
	if (stk_ragged_gather(cpu, &g, NULL, &err))
		goto failed;

	for (int b = 0; b < BATCH; b++) {
		for (int64_t i = 0; i < pairs[b]; i++)
			printf("sample %d: query %lld, at (%g, %g), is target %lld\n", b, (long long)query[b][i], (double)matched[b][i][0],
				(double)matched[b][i][1], (long long)target[b][i]);
	}
	stk_ragged_destroy(cpu);
	return 0;
failed:
	fprintf(stderr, "%s\n", err.message);
	return 1;
}
