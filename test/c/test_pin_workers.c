/* SPDX-License-Identifier: Apache-2.0
 * Workers run on the CPU cores near their GPU, at most one per core; the program's own threads are not moved. Uses the emulated driver's two GPUs, and
 * imitations of the system's files about their location. */
#include "test.h"

#include "exec/context.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WORKERS = 3 };
static char root[64];
static int one, other; /* numbers of two cores that this process may use; other is -1 if it may use only one */

static int set_up(void **state)
{
	(void)state;
	cpu_set_t set;
	one = other = -1;
	if (sched_getaffinity(0, sizeof set, &set))
		return -1;
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
		if (CPU_ISSET(cpu, &set)) {
			other = one;
			one = cpu;
		}
	strcpy(root, "/tmp/stk-near-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof command, "rm -r '%s'", root);
	return system(command);
}

/* Sets the list of cores near an emulated GPU. The ids of the GPUs are 0000:01:00.0 and 0000:02:00.0. */
static void says(int gpu, const char *list)
{
	char path[256];
	snprintf(path, sizeof path, "mkdir -p %s/sys/bus/pci/devices/0000:%02x:00.0", root, gpu + 1);
	assert_int_equal(system(path), 0);
	snprintf(path, sizeof path, "%s/sys/bus/pci/devices/0000:%02x:00.0/local_cpulist", root, gpu + 1);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%s\n", list);
	fclose(f);
}

/* Returns the number of threads named stoker-N that may run on exactly these cores. */
static int workers_on(const cpu_set_t *cpus)
{
	DIR *tasks = opendir("/proc/self/task");
	int found = 0;
	assert_non_null(tasks);
	for (struct dirent *e; (e = readdir(tasks));) {
		char path[320], name[32] = "";
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
		FILE *f = fopen(path, "r");
		if (!f || !fgets(name, sizeof name, f))
			name[0] = 0;
		if (f)
			fclose(f);
		cpu_set_t set;
		if (strncmp(name, "stoker-", 7) == 0 && sched_getaffinity(atoi(e->d_name), sizeof set, &set) == 0)
			found += CPU_EQUAL(&set, cpus);
	}
	closedir(tasks);
	return found;
}

static cpu_set_t only(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return set;
}

/* Uses GPUs 0 to n - 1. Then exactly `staying` workers must be restricted to `cpus`, and the others must be allowed on all cores of the program. list:
 * `cpus` as a text. */
static void check(int n, const cpu_set_t *cpus, int staying, const char *list)
{
	const struct stk_context_config c = {.size = sizeof c, .threads = WORKERS};
	struct stk_context *ctx = NULL;
	struct stk_device_cores cores;
	cpu_set_t before, after;
	assert_int_equal(stk_context_create(&c, &ctx, NULL), STK_OK);
	sched_getaffinity(0, sizeof before, &before);
	assert_int_equal(workers_on(&before), WORKERS);
	for (int i = 0; i < n; i++) {
		struct stk_gpu_device *dev = NULL;
		assert_int_equal(stk__context_device(ctx, i, &dev, NULL), STK_OK);
		stk__context_pin_workers(ctx, ctx->pool, root, dev);
		stk__gpu_device_close(dev);
	}
	sched_getaffinity(0, sizeof after, &after);
	assert_true(CPU_EQUAL(&before, &after));
	assert_int_equal(stk__pool_pinned(ctx->pool, &cores), staying);
	assert_string_equal(cores.list, list);
	if (!CPU_EQUAL(cpus, &before)) {
		assert_int_equal(workers_on(cpus), staying);
		assert_int_equal(workers_on(&before), WORKERS - staying);
	}
	stk_context_unref(&ctx);
}

static void test_workers_stay_near_their_gpu(void **state)
{
	(void)state;
	char first[16], second[16];
	cpu_set_t at_one = only(one);
	unsetenv("LOCAL_WORLD_SIZE");
	check(2, &at_one, 0, ""); /* the machine does not report which cores are near the GPU */
	if (other < 0)
		return; /* with one core, all cores are near */
	snprintf(first, sizeof first, "%d", one);
	snprintf(second, sizeof second, "%d", other);
	says(0, first);
	says(1, second);
	check(1, &at_one, 1, first); /* one core is near the GPU, so one worker is restricted to it */
	setenv("STOKER_AFFINITY", "0", 1);
	check(1, &at_one, 0, "");
	unsetenv("STOKER_AFFINITY");
}

/* Ranks on the same host share the cores near their GPUs: each rank uses its share. Simulates a process that may use sixteen cores. */
static void test_ranks_share_the_cores(void **state)
{
	(void)state;
	const struct {
		const char *ranks;
		bool apart; /* the GPUs are on two sockets with eight cores each */
		int staying;
	} cases[] = {{"1", true, 8}, {"2", true, 8}, {"4", true, 4}, {"8", true, 2}, {"64", true, 1}, {"1", false, 8}, {"2", false, 4},
		{"8", false, 1}};
	char low[32], high[32];
	snprintf(low, sizeof low, "%d-%d", one, one + 7);
	snprintf(high, sizeof high, "%d-%d", one + 8, one + 15);
	says(0, low);
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		const struct stk_context_config c = {.size = sizeof c, .threads = 8};
		struct stk_context *ctx = NULL;
		struct stk_gpu_device *dev = NULL;
		struct stk_device_cores cores;
		says(1, cases[k].apart ? high : low);
		assert_int_equal(stk_context_create(&c, &ctx, NULL), STK_OK);
		for (int cpu = one; cpu < one + 16; cpu++)
			CPU_SET(cpu, &ctx->allowed);
		setenv("LOCAL_WORLD_SIZE", cases[k].ranks, 1);
		assert_int_equal(stk__context_device(ctx, 0, &dev, NULL), STK_OK);
		stk__context_pin_workers(ctx, ctx->pool, root, dev);
		assert_int_equal(stk__pool_pinned(ctx->pool, &cores), cases[k].staying);
		stk__gpu_device_close(dev);
		stk_context_unref(&ctx);
	}
	unsetenv("LOCAL_WORLD_SIZE");
}

/* Nothing changes if the process may use none of the cores near the GPU, or only such cores. */
static void test_nothing_to_gain(void **state)
{
	(void)state;
	cpu_set_t at_one = only(one);
	says(0, "1000-1001");
	check(1, &at_one, 0, "");
	says(0, "0-1023");
	check(1, &at_one, 0, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_workers_stay_near_their_gpu, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ranks_share_the_cores, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_to_gain, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
