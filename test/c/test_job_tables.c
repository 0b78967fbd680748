/* SPDX-License-Identifier: Apache-2.0
 * The tables of the GPU's jobs: equal constants of several jobs are stored once. Needs no GPU. */
#include "test.h"

#include "kernel/job/job_gpu.h"
#include "kernel/spectrum/spectrum.h"

#include <stdlib.h>

enum { JOBS = 12 };

struct batch {
	struct stk_jobs jobs; /* must be first, because add casts its address to that of the batch */
	struct stk_job_gpu *gpu;
};

static enum stk_status add(struct stk_jobs *jobs, const struct stk_job *job, struct stk_error *err)
{
	(void)err;
	assert_true(stk__job_gpu_add(((struct batch *)(void *)jobs)->gpu, job, NULL));
	return STK_OK;
}

static void test_equal_constants(void **state)
{
	(void)state;
	const struct stk_job_gpu_limits limits = {.jobs = JOBS, .constants = 1 << 20, .work = 1 << 20};
	const struct stk_job_gpu_sizes sizes = stk__job_gpu_sizes(&limits);
	const stk_gpu_ptr device = 1 << 20;
	uint8_t *tables = malloc(sizes.tables);
	struct batch b = {.jobs = {.keep = add}};
	assert_int_equal(stk__job_gpu_create(&limits, tables, device, device + sizes.tables, &b.gpu, NULL), STK_OK);
	for (int distinct = 1; distinct <= 6; distinct++) {
		struct stk_spectrum p = {
			.frames = 4, .length = 100, .step = 10, .src_element = 1, .dst_frame = 33, .dst_bin = 1, .window = 64};
		float signal[100] = {0}, bins[4 * 33], *own = NULL;
		size_t bytes = 0;
		stk__fft_plan(64, &p.fft);
		stk__job_gpu_begin(b.gpu);
		for (int k = 0; k < JOBS; k++) { /* each job's table has its own memory, as in operators without shared tables */
			struct stk_tensor in = {signal, {STK_FLOAT, 1, {100}, ""}}, out = {bins, {STK_FLOAT, 2, {4, 33}, ""}};
			bytes = sizeof(float) * (size_t)(p.fft.floats + p.window);
			own = malloc(bytes);
			assert_int_equal(stk__fft_tables(&p.fft, own, NULL), STK_OK);
			for (int i = 0; i < p.window; i++)
				own[p.fft.floats + i] = (float)(k % distinct);
			assert_int_equal(stk__job_spectrum(&b.jobs, &p, own, 4, &in, &out, NULL), STK_OK);
			free(own);
		}
		const size_t end = stk__job_gpu_end(b.gpu), items = sizes.tables - ((limits.constants + 255) & ~(size_t)255);
		const size_t stored = (end - items) / ((bytes + 15) & ~(size_t)15);
		assert_int_equal(stored, distinct <= 4 ? distinct : JOBS); /* only the last four tables are compared with a new one */
		const struct stk_job_gpu_item *it = (const void *)(tables + 256);
		for (int k = 0; k < JOBS; k++) {
			const float *constants = (const void *)(tables + ((uintptr_t)it[k].job.constants - device));
			assert_float_equal(constants[p.fft.floats], (float)(k % distinct), 0);
			assert_float_equal(constants[p.fft.floats + p.window - 1], (float)(k % distinct), 0);
		}
	}
	stk__job_gpu_destroy(b.gpu);
	free(tables);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal_constants)};
	return cmocka_run_group_tests_name("job tables", tests, NULL, NULL);
}
