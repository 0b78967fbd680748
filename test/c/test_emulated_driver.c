/* SPDX-License-Identifier: Apache-2.0
 * The emulated CUDA driver (test/cuda/emulated.h): it does what a GPU does, and detects errors that a GPU might not report. */
#include "test.h"

#include "gpu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 4096, SEEDS = 40 };

static struct stk_error err;

struct gpu {
	struct stk_gpu *gpu;
	struct stk_gpu_device *dev;
	const struct stk_cuda_driver *cu;
};

static void ok(enum stk_status status)
{
	if (status)
		fail_msg("%s: %s", stk_status_name(status), err.message);
}

static struct gpu open_gpu(const char *options, int ordinal)
{
	struct gpu g = {0};
	setenv("STOKER_EMULATED_CUDA", options, 1);
	ok(stk__gpu_open(&g.gpu, &err));
	ok(stk__gpu_device_open(g.gpu, ordinal, &g.dev, &err));
	ok(stk__gpu_enter(g.dev, &err));
	assert_non_null(strstr(stk__gpu_device_facts(g.dev)->name, "emulated"));
	g.cu = g.dev->cu;
	return g;
}

static void close_gpu(struct gpu *g)
{
	stk__gpu_leave(g->dev);
	stk__gpu_device_close(g->dev);
	stk__gpu_close(g->gpu);
}

/* Runs act(act, options) in a child process, without core files and without stderr. Returns the child's exit status, or -1 if a signal ended it. */
static int end_of_child(const char *options, const char *act)
{
	int how = 0;
	pid_t child = fork();
	if (child == 0) { /* a driver does not survive a fork, so the child starts a new one */
		setrlimit(RLIMIT_CORE, &(struct rlimit){0});
		if (freopen("/dev/null", "w", stderr))
			execl("/proc/self/exe", "test_emulated_driver", act, options, NULL);
		_exit(3);
	}
	assert_int_equal(waitpid(child, &how, 0), child);
	return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

/* ---- order ---- */

/* Fills memory on one stream and copies it on another. waits: the second stream waits for the first. Returns whether the copy has the complete fill. */
static bool copy_behind_fill(uint64_t seed, bool waits)
{
	char options[64];
	snprintf(options, sizeof options, "strict async seed=%llu delay=2000", (unsigned long long)seed);
	struct gpu g = open_gpu(options, (int)(seed % 2));
	stk_gpu_stream one, two;
	stk_gpu_event filled;
	stk_gpu_ptr p;
	uint8_t *got;
	ok(stk__gpu_stream_create(g.dev, STK_GPU_LOW, &one, &err));
	ok(stk__gpu_stream_create(g.dev, STK_GPU_HIGH, &two, &err));
	ok(stk__gpu_event_create(g.dev, false, &filled, &err));
	ok(stk__gpu_alloc(g.dev, COUNT, &p, &err));
	ok(stk__gpu_host_alloc(g.dev, COUNT, (void **)&got, &err));
	memset(got, 0, COUNT);
	ok(stk__gpu_fill(g.dev, one, p, 7, COUNT, &err));
	ok(stk__gpu_event_record(g.dev, filled, one, &err));
	if (waits)
		ok(stk__gpu_stream_wait(g.dev, two, filled, &err));
	ok(stk__gpu_download(g.dev, two, got, p, COUNT, &err));
	stk__gpu_event_destroy(g.dev, filled);
	ok(stk__gpu_stream_sync(g.dev, two, &err));
	bool right = true;
	for (int i = 0; i < COUNT; i++)
		right &= got[i] == 7;
	stk__gpu_stream_destroy(g.dev, one);
	stk__gpu_stream_destroy(g.dev, two);
	stk__gpu_host_free(g.dev, got);
	stk__gpu_free(g.dev, p);
	close_gpu(&g);
	return right;
}

static void a_missing_wait_shows(void **state)
{
	(void)state;
	int wrong = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		if (!copy_behind_fill(seed, true))
			fail_msg("seed %llu: a stream went on before the event it waits for", (unsigned long long)seed);
		wrong += !copy_behind_fill(seed, false);
	}
	print_message("%d of %d orders showed it\n", wrong, SEEDS);
	assert_true(wrong > 0);
}

/* Uploads from memory that is overwritten right after the call. Returns whether the original contents arrived. */
static bool upload_and_overwrite(uint64_t seed, bool pinned)
{
	char options[64];
	snprintf(options, sizeof options, "strict async seed=%llu delay=2000", (unsigned long long)seed);
	struct gpu g = open_gpu(options, 0);
	uint8_t plain[64], *from = plain, got[64];
	stk_gpu_ptr p;
	ok(stk__gpu_alloc(g.dev, sizeof plain, &p, &err));
	if (pinned)
		ok(stk__gpu_host_alloc(g.dev, sizeof plain, (void **)&from, &err));
	memset(from, 1, sizeof plain);
	ok(stk__gpu_upload(g.dev, NULL, p, from, sizeof plain, &err));
	memset(from, 2, sizeof plain);
	ok(stk__gpu_download(g.dev, NULL, got, p, sizeof got, &err)); /* pageable memory: the call waits */
	stk__gpu_free(g.dev, p);
	if (pinned)
		stk__gpu_host_free(g.dev, from);
	close_gpu(&g);
	return got[0] == 1 && got[63] == 1;
}

static void pinned_memory_that_is_used_too_soon_shows(void **state)
{
	(void)state;
	int wrong = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		assert_true(upload_and_overwrite(seed, false));
		wrong += !upload_and_overwrite(seed, true);
	}
	assert_true(wrong > 0);
}

/* ---- memory ---- */

/* Runs a kernel that writes 1152 bytes to an allocation of 64 bytes. */
static void overrun(const struct gpu *g, stk_gpu_ptr p)
{
	void *module, *function;
	uint32_t lanes = 32;
	assert_int_equal(g->cu->cuModuleLoadData(&module, "emulated CUDA module checks\n"), CUDA_OK);
	assert_int_equal(g->cu->cuModuleGetFunction(&function, module, "checks_warp"), CUDA_OK);
	ok(stk__gpu_launch(g->dev, NULL, function, (struct stk_gpu_grid){.threads = {32}}, (void *[]){&p, &lanes}, &err));
	g->cu->cuModuleUnload(module);
}

/* Runs in a child process that end_of_child starts: allocates memory on device 0, does what `what` names ("overrun", "touch", or "leak", which does not free
 * the memory), and closes the device. Returns the exit status. */
static int act(const char *what, const char *options)
{
	struct gpu g = open_gpu(options, 0);
	stk_gpu_ptr p;
	ok(stk__gpu_alloc(g.dev, 64, &p, &err));
	if (strcmp(what, "overrun") == 0)
		overrun(&g, p);
	if (strcmp(what, "touch") == 0)
		*(volatile uint8_t *)(uintptr_t)p = 1;
	if (strcmp(what, "leak") != 0)
		stk__gpu_free(g.dev, p);
	close_gpu(&g);
	return 0;
}

static void the_host_cannot_reach_device_memory(void **state)
{
	(void)state;
	assert_int_not_equal(end_of_child("", "touch"), 0);
	assert_int_equal(end_of_child("open", "touch"), 0);
}

static void a_kernel_cannot_leave_an_allocation(void **state)
{
	(void)state;
	assert_int_not_equal(end_of_child("strict", "overrun"), 0);
}

static void what_is_left_behind_is_told(void **state)
{
	(void)state;
	assert_int_not_equal(end_of_child("strict", "leak"), 0);
	assert_int_equal(end_of_child("", "leak"), 0);
	assert_int_equal(end_of_child("strict", "nothing"), 0);
}

static void memory_has_an_end(void **state)
{
	(void)state;
	struct gpu g = open_gpu("strict memory=1M", 1);
	stk_gpu_ptr a, b, c;
	size_t available;
	ok(stk__gpu_alloc(g.dev, 600 << 10, &a, &err));
	assert_int_equal(stk__gpu_alloc(g.dev, 600 << 10, &b, &err), STK_NO_MEMORY);
	ok(stk__gpu_memory_free(g.dev, &available, &err));
	assert_int_equal(available, 424 << 10);
	stk__gpu_free(g.dev, a);
	ok(stk__gpu_alloc(g.dev, 600 << 10, &c, &err));
	assert_true(a != c); /* the driver never reuses addresses */
	stk__gpu_free(g.dev, c);
	close_gpu(&g);
}

static void addresses_and_handles_of_nobody_are_errors(void **state)
{
	(void)state;
	struct gpu g = open_gpu("strict", 0);
	uint8_t host[64] = {0};
	stk_gpu_ptr p;
	ok(stk__gpu_alloc(g.dev, 64, &p, &err));
	assert_int_equal(stk__gpu_upload(g.dev, NULL, p + 1, host, 64, &err), STK_CUDA);
	assert_int_equal(stk__gpu_upload(g.dev, NULL, (uintptr_t)host, host, 32, &err), STK_CUDA);
	assert_int_equal(stk__gpu_download(g.dev, NULL, host, p - 1, 64, &err), STK_CUDA);
	assert_int_equal(stk__gpu_fill(g.dev, NULL, p, 0, 65, &err), STK_CUDA);
	assert_int_equal(stk__gpu_fill(g.dev, (stk_gpu_stream)(void *)host, p, 0, 64, &err), STK_CUDA);
	assert_int_equal(stk__gpu_event_record(g.dev, (stk_gpu_event)(void *)host, NULL, &err), STK_CUDA);
	ok(stk__gpu_fill(g.dev, NULL, p, 0, 64, &err));
	stk__gpu_free(g.dev, p);
	assert_int_equal(stk__gpu_fill(g.dev, NULL, p, 0, 64, &err), STK_CUDA);
	stk__gpu_leave(g.dev);
	assert_int_equal(stk__gpu_alloc(g.dev, 64, &p, &err), STK_CUDA);
	assert_non_null(strstr(err.message, "CUDA_ERROR_INVALID_CONTEXT"));
	ok(stk__gpu_enter(g.dev, &err));
	close_gpu(&g);
}

/* Allocations that follow each other without a gap: copies and frees must treat each one separately. */
static void neighbours_are_two_allocations(void **state)
{
	(void)state;
	enum { SIZE = 1536, PINNED = 8192 }; /* SIZE is not a multiple of a page, so that two allocations share a page */
	struct gpu g = open_gpu("strict adjacent", 0);
	stk_gpu_ptr p[3], odd;
	uint8_t *pinned[2], host[2 * SIZE];
	for (int i = 0; i < 3; i++)
		ok(stk__gpu_alloc(g.dev, SIZE, &p[i], &err));
	ok(stk__gpu_alloc(g.dev, SIZE - 1, &odd, &err));
	for (int i = 0; i < 2; i++)
		ok(stk__gpu_host_alloc(g.dev, PINNED, (void **)&pinned[i], &err));
	assert_true(p[1] == p[0] + SIZE && p[2] == p[1] + SIZE && odd >= p[2] + SIZE + 4096 && pinned[1] == pinned[0] + PINNED);
	for (int i = 0; i < 3; i++)
		ok(stk__gpu_fill(g.dev, NULL, p[i], i + 1, SIZE, &err));
	assert_int_equal(stk__gpu_download(g.dev, NULL, host, p[0], SIZE + 1, &err), STK_CUDA);
	assert_non_null(strstr(err.message, "CUDA_ERROR_INVALID_VALUE"));
	assert_int_equal(stk__gpu_copy(g.dev, NULL, p[2], p[0] + 1, SIZE, &err), STK_CUDA);
	assert_int_equal(stk__gpu_download(g.dev, NULL, pinned[0] + PINNED - 1, p[0], 2, &err), STK_CUDA);
	assert_int_equal(stk__gpu_upload(g.dev, NULL, p[0], pinned[0] + PINNED - 1, 2, &err), STK_CUDA);
	stk__gpu_free(g.dev, p[1]);
	stk__gpu_host_free(g.dev, pinned[0]);
	assert_int_equal(stk__gpu_fill(g.dev, NULL, p[1], 0, 1, &err), STK_CUDA);
	ok(stk__gpu_download(g.dev, NULL, pinned[1], p[0], SIZE, &err));
	ok(stk__gpu_download(g.dev, NULL, host, p[2], SIZE, &err));
	for (int i = 0; i < SIZE; i++)
		assert_true(pinned[1][i] == 1 && host[i] == 3);
	stk__gpu_free(g.dev, p[0]);
	stk__gpu_free(g.dev, p[2]);
	stk__gpu_free(g.dev, odd);
	stk__gpu_host_free(g.dev, pinned[1]);
	close_gpu(&g);
}

/* ---- failures ---- */

static void the_nth_call_fails(void **state)
{
	(void)state;
	struct gpu g = open_gpu("strict fail=cuMemAlloc:2", 0);
	stk_gpu_ptr a, b;
	ok(stk__gpu_alloc(g.dev, 64, &a, &err));
	assert_int_equal(stk__gpu_alloc(g.dev, 64, &b, &err), STK_NO_MEMORY);
	assert_null(strstr(err.message, "start the process again")); /* after this error the process can still use the GPU */
	ok(stk__gpu_alloc(g.dev, 64, &b, &err));
	stk__gpu_free(g.dev, a);
	stk__gpu_free(g.dev, b);
	close_gpu(&g);
}

static void a_device_is_lost(const char *options)
{
	struct gpu g = open_gpu(options, 0);
	stk_gpu_stream s;
	stk_gpu_ptr p;
	enum stk_status status = STK_OK;
	int done = 0;
	ok(stk__gpu_alloc(g.dev, 64, &p, &err));
	ok(stk__gpu_stream_create(g.dev, STK_GPU_LOW, &s, &err));
	while (done < 100 && !status) {
		status = stk__gpu_fill(g.dev, s, p, 0, 64, &err);
		if (!status)
			status = stk__gpu_stream_sync(g.dev, s, &err);
		done += !status;
	}
	assert_int_equal(status, STK_CUDA);
	assert_int_equal(done, 5);
	assert_int_equal(stk__gpu_stream_sync(g.dev, NULL, &err), STK_CUDA);
	if (!strstr(err.message, "start the process again"))
		fail_msg("it does not say what to do: %s", err.message);
	assert_int_equal(stk__gpu_launch(g.dev, NULL, NULL, (struct stk_gpu_grid){.threads = {1}}, NULL, &err), STK_CUDA);
	if (!strstr(err.message, "start the process again"))
		fail_msg("it does not say what to do: %s", err.message);
	stk__gpu_stream_destroy(g.dev, s);
	stk__gpu_free(g.dev, p);
	close_gpu(&g);
}

static void a_lost_device_stays_lost(void **state)
{
	(void)state;
	a_device_is_lost("strict lost=5");
	a_device_is_lost("strict lost=5 async delay=50");
}

/* ---- kernels ---- */

struct checks {
	struct gpu g;
	void *module;
	stk_gpu_ptr out;
	uint32_t got[COUNT];
};

static void checks_open(struct checks *c)
{
	c->g = open_gpu("strict", 0);
	assert_int_equal(c->g.cu->cuModuleLoadData(&c->module, "emulated CUDA module checks\n"), CUDA_OK);
	ok(stk__gpu_alloc(c->g.dev, sizeof c->got, &c->out, &err));
}

static void checks_close(struct checks *c)
{
	stk__gpu_free(c->g.dev, c->out);
	c->g.cu->cuModuleUnload(c->module);
	close_gpu(&c->g);
}

static enum stk_status checks_run(struct checks *c, const char *name, struct stk_gpu_grid grid, void **params)
{
	void *function = NULL;
	assert_int_equal(c->g.cu->cuModuleGetFunction(&function, c->module, name), CUDA_OK);
	enum stk_status status = stk__gpu_launch(c->g.dev, NULL, function, grid, params, &err);
	if (!status)
		status = stk__gpu_download(c->g.dev, NULL, c->got, c->out, sizeof c->got, &err);
	return status;
}

static uint32_t value_of(uint32_t lane)
{
	return 1000 + 7 * lane;
}

static void lanes_exchange(void **state)
{
	(void)state;
	static struct checks c;
	checks_open(&c);
	for (uint32_t lanes = 1; lanes <= 32; lanes++) {
		uint32_t value[32], next[32], thirds = 0;
		ok(checks_run(&c, "checks_warp", (struct stk_gpu_grid){.threads = {32}}, (void *[]){&c.out, &lanes}));
		for (uint32_t i = 0; i < lanes; i++) {
			value[i] = value_of(i);
			thirds |= (uint32_t)(i % 3 == 0) << i;
		}
		for (uint32_t i = 0; i < 50; i++) {
			for (uint32_t l = 0; l < lanes; l++)
				next[l] = value[(l + 1) % lanes] + (l == i % lanes);
			memcpy(value, next, sizeof value);
		}
		for (uint32_t l = 0; l < lanes; l++) {
			const uint32_t *got = c.got + l;
			assert_int_equal(got[0], thirds);
			assert_int_equal(got[32], 0);
			assert_int_equal(got[64], 1);
			assert_int_equal(got[96], lanes > 5 ? value_of(5) : 0);
			assert_int_equal(got[128], value_of(l < 2 ? l : l - 2));
			assert_int_equal(got[160], l == 31 ? value_of(l) : l + 1 < lanes ? value_of(l + 1) : 0);
			assert_int_equal(got[192], (l ^ 1) < lanes ? value_of(l ^ 1) : 0);
			assert_int_equal(got[224], value_of(0));
			assert_int_equal(got[256], value[l]);
		}
	}
	checks_close(&c);
}

static void threads_of_a_block_wait_for_each_other(void **state)
{
	(void)state;
	static struct checks c;
	checks_open(&c);
	for (uint32_t x = 1; x <= 512; x += 73) {
		uint32_t rounds = 3, n = 2 * x, line[1024], next[1024];
		for (uint32_t t = 0; t < n; t++)
			line[t] = t;
		for (uint32_t i = 0; i < rounds; i++) {
			for (uint32_t t = 0; t < n; t++)
				next[t] = line[t] + line[(t + n - 1) % n];
			memcpy(line, next, sizeof line);
		}
		ok(checks_run(&c, "checks_block", (struct stk_gpu_grid){.blocks = {3}, .threads = {x, 2}, .shared = 4 * n},
			(void *[]){&c.out, &rounds}));
		for (uint32_t t = 0; t < 3 * n; t++)
			assert_int_equal(c.got[t], line[t % n] + t / n);
	}
	checks_close(&c);
}

static void copies_that_are_not_waited_for_show(void **state)
{
	(void)state;
	static struct checks c;
	uint32_t from[256];
	stk_gpu_ptr device_from;
	checks_open(&c);
	ok(stk__gpu_alloc(c.g.dev, sizeof from, &device_from, &err));
	for (uint32_t i = 0; i < 256; i++)
		from[i] = i;
	ok(stk__gpu_upload(c.g.dev, NULL, device_from, from, sizeof from, &err));
	for (int patient = 0; patient < 2; patient++) {
		int wrong = 0;
		ok(checks_run(&c, "checks_copy", (struct stk_gpu_grid){.blocks = {2}, .threads = {32}, .shared = 1024},
			(void *[]){&device_from, &c.out, &patient}));
		for (uint32_t t = 0; t < 64; t++)
			wrong += c.got[t] != 4 * t + 3;
		assert_int_equal(wrong, patient ? 0 : 32);
	}
	stk__gpu_free(c.g.dev, device_from);
	checks_close(&c);
}

static void threads_that_lose_each_other_fail_the_launch(void **state)
{
	(void)state;
	static const char *const names[] = {"checks_apart", "checks_stuck"};
	static struct checks c;
	for (int i = 0; i < 2; i++) {
		checks_open(&c);
		assert_int_equal(checks_run(&c, names[i], (struct stk_gpu_grid){.threads = {64}}, (void *[]){&c.out}), STK_CUDA);
		assert_non_null(strstr(err.message, "CUDA_ERROR_LAUNCH_FAILED"));
		checks_close(&c);
	}
}

static void instructions_for_global_memory_reach_no_other(void **state)
{
	(void)state;
	static struct checks c;
#ifdef __SANITIZE_ADDRESS__
	enum { PLACES = 3 }; /* leaves out the thread's variable, which AddressSanitizer may keep outside of the thread's stack */
#else
	enum { PLACES = 4 };
#endif
	for (int where = 0; where < PLACES; where++) {
		checks_open(&c);
		void *params[] = {&c.out, &where};
		assert_int_equal(checks_run(&c, "checks_global", (struct stk_gpu_grid){.threads = {1}, .shared = 16}, params),
			where ? STK_CUDA : STK_OK);
		checks_close(&c);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return act(argv[1], argv[2]);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_missing_wait_shows),
		cmocka_unit_test(pinned_memory_that_is_used_too_soon_shows),
		cmocka_unit_test(the_host_cannot_reach_device_memory),
		cmocka_unit_test(a_kernel_cannot_leave_an_allocation),
		cmocka_unit_test(what_is_left_behind_is_told),
		cmocka_unit_test(memory_has_an_end),
		cmocka_unit_test(addresses_and_handles_of_nobody_are_errors),
		cmocka_unit_test(neighbours_are_two_allocations),
		cmocka_unit_test(the_nth_call_fails),
		cmocka_unit_test(a_lost_device_stays_lost),
		cmocka_unit_test(lanes_exchange),
		cmocka_unit_test(threads_of_a_block_wait_for_each_other),
		cmocka_unit_test(copies_that_are_not_waited_for_show),
		cmocka_unit_test(threads_that_lose_each_other_fail_the_launch),
		cmocka_unit_test(instructions_for_global_memory_reach_no_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
