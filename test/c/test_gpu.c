/* SPDX-License-Identifier: Apache-2.0
 * The CUDA driver: the error on a machine without a driver, which image of the kernels a GPU gets, facts about GPUs, memory that runs out, and forked
 * children. */
#include "test.h"

#include "gpu/device.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int setup(void **state)
{
	struct stk_error err = {0};
	struct stk_gpu *gpu = NULL;
	enum stk_status status = stk__gpu_open(&gpu, &err);
	if (status)
		print_message("no GPU here: %s\n", err.message);
	*state = gpu;
	return status && getenv("STOKER_EMULATED_CUDA") ? -1 : 0;
}

static int teardown(void **state)
{
	stk__gpu_close(*state);
	return 0;
}

static struct stk_gpu *need_gpu(void **state)
{
	struct stk_gpu *gpu = *state;
	if (!gpu || !stk__gpu_count(gpu) || !stk__gpu_build().modules)
		skip();
	return gpu;
}

static void absence_is_an_error_with_a_text(void **state)
{
	struct stk_error err = {0};
	struct stk_gpu *gpu = NULL;
	if (*state)
		skip();
	assert_true(stk__gpu_open(&gpu, &err) == STK_NOT_FOUND || err.code == STK_CUDA);
	assert_null(gpu);
	assert_non_null(strstr(err.message, "CUDA driver"));
}

static void the_build_is_described(void **state)
{
	(void)state;
	struct stk_gpu_build b = stk__gpu_build();
	assert_int_equal(b.modules > 0, b.toolkit > 0);
	assert_int_equal(b.modules > 0, b.archs[0] != 0);
	assert_true(b.min_driver <= b.toolkit);
}

static void facts_are_read_and_numbers_checked(void **state)
{
	struct stk_gpu *gpu = need_gpu(state);
	struct stk_gpu_facts facts;
	struct stk_error err = {0};
	assert_int_equal(stk__gpu_facts(gpu, 0, &facts, &err), STK_OK);
	print_message("%s, %zu MiB, sm_%d%d, %d processors, driver for CUDA %d\n", facts.name, facts.memory >> 20, facts.major, facts.minor,
		facts.processors, stk__gpu_driver_version(gpu));
	assert_true(facts.name[0] && facts.memory > 1 << 20 && facts.major >= 5 && facts.processors > 0 && facts.shared >= 48 << 10);
	assert_int_equal(stk__gpu_facts(gpu, stk__gpu_count(gpu), &facts, &err), STK_INVALID);
	assert_int_equal(stk__gpu_facts(gpu, -1, &facts, &err), STK_INVALID);
}

static void too_much_memory_is_no_memory(void **state)
{
	struct stk_gpu *gpu = need_gpu(state);
	struct stk_gpu_device *dev = NULL;
	struct stk_error err = {0};
	stk_gpu_ptr p = 0;
	assert_int_equal(stk__gpu_device_open(gpu, 0, &dev, &err), STK_OK);
	assert_int_equal(stk__gpu_enter(dev, &err), STK_OK);
	assert_int_equal(stk__gpu_alloc(dev, (size_t)1 << 46, &p, &err), STK_NO_MEMORY);
	assert_non_null(strstr(err.message, "CUDA_ERROR_OUT_OF_MEMORY"));
	stk_gpu_kernel kernel;
	assert_int_equal(stk__gpu_kernel(dev, "nosuch", "nosuch", 0, &kernel, &err), STK_NOT_FOUND);
	assert_int_equal(stk__gpu_kernel(dev, "recipe_gpu", "nosuch", 0, &kernel, &err), STK_CUDA);
	stk__gpu_leave(dev);
	stk__gpu_device_close(dev);
}

/* An allocation that needs retired memory frees it, so it counts as free. */
static void retired_memory_is_available(void **state)
{
	enum { SIZE = 8 << 20 };
	struct stk_gpu *gpu = need_gpu(state);
	struct stk_gpu_device *dev = NULL;
	struct stk_error err = {0};
	stk_gpu_ptr p = 0;
	size_t before, after;
	if (!getenv("STOKER_EMULATED_CUDA"))
		skip();
	assert_int_equal(stk__gpu_device_open(gpu, 0, &dev, &err), STK_OK);
	assert_int_equal(stk__gpu_enter(dev, &err), STK_OK);
	assert_int_equal(stk__gpu_memory_free(dev, &before, &err), STK_OK);
	assert_int_equal(stk__gpu_alloc(dev, SIZE, &p, &err), STK_OK);
	assert_int_equal(stk__gpu_memory_free(dev, &after, &err), STK_OK);
	assert_int_equal(after, before - SIZE);
	stk__gpu_retire(dev, p, SIZE);
	assert_int_equal(stk__gpu_memory_free(dev, &after, &err), STK_OK);
	assert_int_equal(after, before);
	stk__gpu_leave(dev);
	stk__gpu_device_close(dev);
}

static void a_forked_child_is_told(void **state)
{
	struct stk_gpu *gpu = need_gpu(state);
	struct stk_gpu_device *dev = NULL;
	struct stk_error err = {0};
	int how = 0;
	assert_int_equal(stk__gpu_device_open(gpu, 0, &dev, &err), STK_OK);
	pid_t child = fork();
	if (child == 0)
		_exit(stk__gpu_enter(dev, &err) == STK_STATE ? 0 : 1);
	assert_int_equal(waitpid(child, &how, 0), child);
	assert_int_equal(how, 0);
	stk__gpu_device_close(dev);
}

static void each_gpu_gets_the_image_that_it_runs_best(void **state)
{
	(void)state;
	static const struct stk_cuda_image images[] = {{.name = "other", .arch = 90}, {.name = "k", .arch = 75}, {.name = "k", .arch = 80},
		{.name = "k", .arch = 86}, {.name = "k", .arch = 90, .ptx = true}, {.name = "k", .arch = 90}};
	static const struct {
		int capability, image;
	} cases[] = {{70, -1}, {75, 1}, {80, 2}, {86, 3}, {87, 3}, {89, 3}, {90, 5}, {100, 4}, {121, 4}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(stk__cuda_find_image(images, sizeof images / sizeof *images, "k", cases[i].capability), cases[i].image);
	assert_int_equal(stk__cuda_find_image(images, sizeof images / sizeof *images, "none", 90), -1);
}

/* A driver with 100 bytes of memory. cuMemFree waits until two allocations have failed. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t used, size[8];
	int n, failed;
} small = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int small_alloc(uint64_t *out, size_t size)
{
	pthread_mutex_lock(&small.lock);
	const bool fits = small.used + size <= 100;
	if (fits) {
		small.used += size;
		small.size[small.n] = size;
		*out = (uint64_t)++small.n;
	} else {
		small.failed++;
		pthread_cond_broadcast(&small.changed);
	}
	pthread_mutex_unlock(&small.lock);
	return fits ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

static int small_free(uint64_t p)
{
	pthread_mutex_lock(&small.lock);
	while (small.failed < 2)
		pthread_cond_wait(&small.changed, &small.lock);
	small.used -= small.size[p - 1];
	pthread_mutex_unlock(&small.lock);
	return CUDA_OK;
}

static int small_mode(int *mode)
{
	(void)mode;
	return CUDA_OK;
}

static int small_text(int result, const char **text)
{
	(void)result;
	*text = "out of memory";
	return CUDA_OK;
}

static void *take_40(void *of)
{
	struct stk_error err = {0};
	stk_gpu_ptr p;
	return stk__gpu_alloc(of, 40, &p, &err) ? of : NULL;
}

/* One thread frees the retired memory, while the allocation of the other has failed too and finds no retired memory any more. */
static void two_threads_share_what_was_retired(void **state)
{
	(void)state;
	static struct stk_cuda_driver cu = {.cuMemAlloc_v2 = small_alloc,
		.cuMemFree_v2 = small_free,
		.cuThreadExchangeStreamCaptureMode = small_mode,
		.cuGetErrorName = small_text,
		.cuGetErrorString = small_text};
	static struct stk_gpu_device dev = {.cu = &cu, .lock = PTHREAD_MUTEX_INITIALIZER, .was_freed = PTHREAD_COND_INITIALIZER};
	struct stk_error err = {0};
	stk_gpu_ptr all;
	pthread_t threads[2];
	assert_int_equal(stk__gpu_alloc(&dev, 90, &all, &err), STK_OK);
	stk__gpu_retire(&dev, all, 90);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_40, &dev), 0);
	for (int i = 0; i < 2; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(absence_is_an_error_with_a_text),
		cmocka_unit_test(the_build_is_described),
		cmocka_unit_test(each_gpu_gets_the_image_that_it_runs_best),
		cmocka_unit_test(facts_are_read_and_numbers_checked),
		cmocka_unit_test(too_much_memory_is_no_memory),
		cmocka_unit_test(two_threads_share_what_was_retired),
		cmocka_unit_test(retired_memory_is_available),
		cmocka_unit_test(a_forked_child_is_told),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
