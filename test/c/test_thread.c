/* SPDX-License-Identifier: Apache-2.0
 * Threads: signals, names, failed starts; how a pool wakes its threads and lets them rest; limits of control groups; cores near a device. */
#include "test.h"

#include "base/memory.h"
#include "thread/duty.h"
#include "thread/pool.h"
#include "thread/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct seen {
	sigset_t mask;
	pthread_barrier_t named;
	char name[16];
};

static void *look(void *arg)
{
	struct seen *s = arg;
	pthread_barrier_wait(&s->named);
	pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
	pthread_getname_np(pthread_self(), s->name, sizeof s->name);
	return NULL;
}

static void test_threads_block_signals_and_have_names(void **state)
{
	(void)state;
	struct seen s;
	sigset_t before, after;
	pthread_t thread;
	pthread_barrier_init(&s.named, NULL, 2);
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(stk__thread_start(&thread, "stoker-a-long-name-is-cut", look, &s, NULL), STK_OK);
	pthread_barrier_wait(&s.named);
	stk__thread_join(thread);
	pthread_barrier_destroy(&s.named);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	const int signals[] = {SIGINT, SIGTERM, SIGCHLD, SIGPIPE, SIGALRM, SIGUSR1, SIGPROF};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		assert_true(sigismember(&s.mask, signals[i]));
		assert_int_equal(sigismember(&before, signals[i]), sigismember(&after, signals[i]));
	}
	assert_string_equal(s.name, "stoker-a-long-n");
}

#ifdef STK_FAULTS
static void test_a_refused_start_is_an_error(void **state)
{
	(void)state;
	struct stk_error err = {0};
	pthread_t thread;
	stk__fault_set(STK_FAULT_THREAD, 0);
	assert_int_equal(stk__thread_start(&thread, "worker", look, NULL, &err), STK_SYSTEM);
	stk__fault_set(STK_FAULT_THREAD, -1);
	assert_int_equal(err.code, STK_SYSTEM);
	assert_non_null(strstr(err.message, "worker"));
}
#endif

/* ---- the pool ---- */

struct tokens {
	struct stk_pool_client client;
	_Atomic int left, done;
	_Atomic int made; /* take_token_and_make_one stops making units when `done` reaches this number */
};

static bool take_token(struct stk_pool_client *client, int32_t worker)
{
	struct tokens *t = (struct tokens *)client;
	(void)worker;
	for (int left = atomic_load(&t->left); left > 0;)
		if (atomic_compare_exchange_weak(&t->left, &left, left - 1)) {
			atomic_fetch_add(&t->done, 1);
			return true;
		}
	return false;
}

/* Adds one unit of work at a time, each with one wake-up, before and while workers fall asleep. If a wake-up were lost, the unit would never be done. */
static void test_one_wake_is_enough_for_one_unit(void **state)
{
	(void)state;
	enum { UNITS = 3000 };
	struct stk_pool *pool = NULL;
	struct tokens t = {.client = {.work = take_token}};
	assert_int_equal(stk__pool_create(3, &pool, NULL), STK_OK);
	stk__pool_join(pool, &t.client);
	for (int i = 1; i <= UNITS; i++) {
		atomic_fetch_add(&t.left, 1);
		stk__pool_wake_one(pool);
		for (int tries = 0; atomic_load(&t.done) < i && tries < 200000; tries++)
			usleep(tries < 100 ? 0 : 50);
		assert_int_equal(atomic_load(&t.done), i);
		if (i % 16 == 0)
			usleep(100);
	}
	stk__pool_leave(pool, &t.client);
	stk__pool_destroy(pool);
}

/* Does a unit of work, and adds another one without waking a worker. If the worker then rests, it must wake another worker for the unit. */
static bool take_token_and_make_one(struct stk_pool_client *client, int32_t worker)
{
	struct tokens *t = (struct tokens *)client;
	if (!take_token(client, worker))
		return false;
	usleep(20);
	if (atomic_load(&t->done) < atomic_load(&t->made))
		atomic_fetch_add(&t->left, 1);
	return true;
}

static void test_what_resting_workers_leave_is_done_by_the_others(void **state)
{
	(void)state;
	enum { UNITS = 400, CHAINS = 6 };
	struct stk_pool *pool = NULL;
	struct tokens t = {.client = {.work = take_token_and_make_one}};
	assert_int_equal(stk__pool_create(12, &pool, NULL), STK_OK);
	stk__pool_join(pool, &t.client);
	for (int round = 0; round < 6; round++) {
		usleep(round % 2 ? 110000 : 10000); /* during the long pause most workers begin to rest */
		atomic_store(&t.made, atomic_load(&t.done) + UNITS);
		atomic_fetch_add(&t.left, CHAINS);
		stk__pool_wake(pool);
		for (int tries = 0; (atomic_load(&t.done) < atomic_load(&t.made) || atomic_load(&t.left) > 0) && tries < 200000; tries++)
			usleep(50);
		assert_true(atomic_load(&t.done) >= atomic_load(&t.made));
		assert_int_equal(atomic_load(&t.left), 0);
	}
	stk__pool_leave(pool, &t.client);
	stk__pool_destroy(pool);
}

/* ---- how many threads are on duty ---- */

enum { MS = 1000000 };

/* If one of 16 threads is busy half of the time, only a few threads stay on duty. */
static void test_few_threads_are_on_duty_for_little_work(void **state)
{
	(void)state;
	struct stk_duty d;
	int64_t now = 5;
	stk__duty_init(&d, 16, now);
	for (int i = 0; i < 16; i++)
		stk__duty_sleeps(&d, now);
	assert_int_equal(atomic_load(&d.on), 16);
	for (int batch = 0; batch < 12; batch++, now += 10 * MS) {
		stk__duty_wakes(&d, now);
		now += 10 * MS;
		stk__duty_sleeps(&d, now);
	}
	assert_int_equal(atomic_load(&d.on), 4);
}

/* Without pauses, the number of threads on duty doubles until all are on duty. */
static void test_all_threads_are_on_duty_for_who_takes_all(void **state)
{
	(void)state;
	struct stk_duty d;
	int64_t now = 5;
	stk__duty_init(&d, 10, now);
	for (int i = 0; i < 10; i++)
		stk__duty_sleeps(&d, now + 100 * MS * (i == 9));
	now += 100 * MS;
	assert_int_equal(atomic_load(&d.on), 4);
	for (int on = 4; on < 10; on = on * 2 < 10 ? on * 2 : 10) {
		assert_int_equal(atomic_load(&d.on), on);
		while (d.awake < on)
			stk__duty_wakes(&d, now);
		assert_false(stk__duty_busy(&d, now + 4 * MS));
		stk__duty_sleeps(&d, now + 4 * MS); /* one thread's pause is enough to end the window */
		assert_false(stk__duty_busy(&d, now + 20 * MS));
		now += 20 * MS;
		stk__duty_wakes(&d, now);
		now += 6 * MS;
		assert_true(stk__duty_busy(&d, now));
		stk__duty_raise(&d, now);
		stk__duty_raise(&d, now); /* a second call for the same window, as from another thread, must do nothing */
	}
	assert_int_equal(atomic_load(&d.on), 10);
	assert_false(stk__duty_busy(&d, now + 20 * MS));
}

/* Of 10 threads, 4 are awake for one window, and then all of them. No pause ends the window. */
static void test_the_load_is_that_of_the_last_window(void **state)
{
	(void)state;
	struct stk_duty d;
	int64_t now = 0;
	stk__duty_init(&d, 10, now);
	assert_int_equal(stk__duty_load(&d, now), 0);
	for (int i = 0; i < 6; i++)
		stk__duty_sleeps(&d, now);
	stk__duty_sleeps(&d, now += 200 * MS);
	assert_int_equal(stk__duty_load(&d, now), 40);
	for (int i = 0; i < 7; i++)
		stk__duty_wakes(&d, now);
	assert_int_equal(stk__duty_load(&d, now + 50 * MS), 40);
	assert_int_equal(stk__duty_load(&d, now + 150 * MS), 100);
}

/* A thread that finishes a unit although it should rest must not wake others. While it rests, only pauses of the threads on duty count. */
static void test_threads_that_are_to_rest_do_so(void **state)
{
	(void)state;
	struct stk_duty d;
	stk__duty_init(&d, 8, 0);
	for (int i = 0; i < 3; i++)
		stk__duty_sleeps(&d, 100 * MS * (i == 2) + 1); /* all threads were awake, so all stay on duty */
	assert_int_equal(atomic_load(&d.on), 8);
	for (int i = 0; i < 5; i++)
		stk__duty_sleeps(&d, 100 * MS + 1);
	stk__duty_wakes(&d, 300 * MS);
	stk__duty_sleeps(&d, 301 * MS);
	assert_int_equal(atomic_load(&d.on), 4);
	assert_int_equal(atomic_load(&d.since_ns), 0);
}

/* A pool that is too small lets no thread rest. */
static void test_a_small_pool_never_rests(void **state)
{
	(void)state;
	for (int threads = 1; threads <= 4; threads++) {
		struct stk_duty d;
		stk__duty_init(&d, threads, 0);
		for (int i = 0; i < threads; i++)
			stk__duty_sleeps(&d, 500 * MS);
		assert_int_equal(atomic_load(&d.on), threads);
	}
}

/* ---- control groups ---- */

static char root[64];

static void put(const char *path, const char *text)
{
	char full[512];
	snprintf(full, sizeof full, "%s%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(full, 0777);
		*p = '/';
	}
	FILE *f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int make_root(void **state)
{
	(void)state;
	strcpy(root, "/tmp/stk-cgroup-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof command, "rm -r '%s'", root);
	return system(command);
}

static void assert_quota(double want)
{
	assert_true(stk__cgroup_quota(root) == want);
}

static const char v2_mount[] = "24 23 0:21 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

static void test_v2_takes_the_least_of_all_levels(void **state)
{
	(void)state;
	assert_quota(0);
	put("/proc/self/cgroup", "0::/user.slice/job.scope\n");
	put("/proc/self/mountinfo", v2_mount);
	put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
	assert_quota(0);
	put("/sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
	assert_quota(2.5);
	put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "150000 100000\n");
	assert_quota(1.5);
	put("/sys/fs/cgroup/user.slice/job.scope/cpu.max", "nonsense\n");
	assert_quota(2.5);
}

/* Docker with a cgroup namespace for each container: the group's path is "/", and its limit is in the root of the mount. */
static void test_v2_inside_a_container(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "0::/\n");
	put("/proc/self/mountinfo", v2_mount);
	put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
	assert_quota(0.5);
}

/* Docker with cgroup v1: the group's path is that of the host, and the mount's root is that path. */
static void test_v1_with_the_hosts_path(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "11:memory:/docker/abc\n4:cpuacct,cpu:/docker/abc\n3:cpuset:/docker/abc\n0::/system.slice\n");
	put("/proc/self/mountinfo", "30 29 0:26 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
				    "31 29 0:27 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n");
	put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	assert_quota(0);
	put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
	assert_quota(3);
}

static void test_v1_below_the_mount(void **state)
{
	(void)state;
	put("/proc/self/cgroup", "4:cpu,cpuacct:/slurm/job\n");
	put("/proc/self/mountinfo", "31 29 0:27 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
	put("/cg/cpu/slurm/job/cpu.cfs_quota_us", "800000\n");
	put("/cg/cpu/slurm/job/cpu.cfs_period_us", "100000\n");
	put("/cg/cpu/slurm/cpu.cfs_quota_us", "1600000\n");
	put("/cg/cpu/slurm/cpu.cfs_period_us", "100000\n");
	assert_quota(8);
}

/* ---- cores near a device ---- */

static cpu_set_t cores(const char *list)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	for (const char *p = list; *p; p += strcspn(p, " "), p += *p == ' ')
		CPU_SET(atoi(p), &set);
	return set;
}

static void assert_near(const char *pci, const cpu_set_t *allowed, const char *list, int count, int all)
{
	struct stk_device_cores cores;
	stk__device_cores(root, pci, allowed, &cores);
	assert_string_equal(cores.list, list);
	assert_true(cores.count == count && cores.n_near == all && CPU_COUNT(&cores.cpus) == count);
}

static void test_cores_near_a_device(void **state)
{
	(void)state;
	cpu_set_t allowed = cores("2 3 4 5 8 40"), none = cores("");
	put("/sys/bus/pci/devices/0000:3b:00.0/local_cpulist", "0-4,8,32-47\n");
	put("/sys/bus/pci/devices/0000:5c:00.0/local_cpulist", "6-7\n");
	put("/sys/bus/pci/devices/0000:5d:00.0/local_cpulist", "\n");
	put("/sys/bus/pci/devices/0000:5e:00.0/local_cpulist", "3,x\n");
	put("/sys/bus/pci/devices/0000:5f:00.0/local_cpulist", "0-99999999999999999999\n");
	assert_near("0000:3B:00.0", &allowed, "2-4,8,40", 5, 22);
	assert_near("0000:3b:00.0", &none, "", 0, 22);
	assert_near("0000:5C:00.0", &allowed, "", 0, 2);
	assert_near("0000:5D:00.0", &allowed, "", 0, 0);
	assert_near("0000:5E:00.0", &allowed, "3", 1, 1);
	assert_near("0000:5F:00.0", &allowed, "2-5,8,40", 6, CPU_SETSIZE);
	assert_near("0000:FF:00.0", &allowed, "", 0, 0); /* the file does not exist */
	assert_near("", &allowed, "", 0, 0);
	assert_near("../0000:3b:00.0", &allowed, "", 0, 0);
}

static void test_a_long_list_is_cut(void **state)
{
	(void)state;
	for (int first = 0; first < 100; first += 9) { /* each length cuts the list at another digit of a number */
		struct stk_device_cores cores = {0};
		for (int cpu = first; cpu < first + 200; cpu += 2)
			CPU_SET(cpu, &cores.cpus);
		stk__device_cores_list(&cores);
		assert_int_equal(cores.count, 100);
		assert_int_equal(atoi(cores.list), first);
		assert_true(strlen(cores.list) < sizeof cores.list);
		assert_string_equal(cores.list + strlen(cores.list) - 4, ",...");
	}
}

static void test_budget_of_this_process(void **state)
{
	(void)state;
	struct stk_cpu_budget b;
	cpu_set_t set, one;
	unsetenv("LOCAL_WORLD_SIZE");
	assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
	stk__cpu_budget(&b);
	assert_int_equal(b.affinity, CPU_COUNT(&set));
	assert_int_equal(b.online, sysconf(_SC_NPROCESSORS_ONLN));
	assert_true(b.cpus >= 1 && b.cpus <= b.affinity && b.threads == b.cpus && b.local_world_size == 1);
	assert_true(b.nofile == -1 || b.nofile > 3);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &set))
			CPU_SET(i, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	stk__cpu_budget(&b);
	assert_int_equal(sched_setaffinity(0, sizeof set, &set), 0);
	assert_true(b.affinity == 1 && b.cpus == 1);
	setenv("LOCAL_WORLD_SIZE", "1000", 1);
	stk__cpu_budget(&b);
	assert_true(b.local_world_size == 1000 && b.threads == 1);
	setenv("LOCAL_WORLD_SIZE", "8x", 1);
	stk__cpu_budget(&b);
	assert_int_equal(b.local_world_size, 1);
	unsetenv("LOCAL_WORLD_SIZE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_block_signals_and_have_names),
#ifdef STK_FAULTS
		cmocka_unit_test(test_a_refused_start_is_an_error),
#endif
		cmocka_unit_test(test_one_wake_is_enough_for_one_unit),
		cmocka_unit_test(test_what_resting_workers_leave_is_done_by_the_others),
		cmocka_unit_test(test_few_threads_are_on_duty_for_little_work),
		cmocka_unit_test(test_the_load_is_that_of_the_last_window),
		cmocka_unit_test(test_all_threads_are_on_duty_for_who_takes_all),
		cmocka_unit_test(test_threads_that_are_to_rest_do_so),
		cmocka_unit_test(test_a_small_pool_never_rests),
		cmocka_unit_test_setup_teardown(test_v2_takes_the_least_of_all_levels, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_v2_inside_a_container, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_v1_with_the_hosts_path, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_v1_below_the_mount, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_cores_near_a_device, make_root, remove_root),
		cmocka_unit_test(test_a_long_list_is_cut),
		cmocka_unit_test(test_budget_of_this_process),
	};
	return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
