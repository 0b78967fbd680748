/* SPDX-License-Identifier: Apache-2.0
 * Tests the policy that shares decoding between cores and GPU against a model of a machine and a training loop. */
#include "exec/decode_side.h"
#include "test.h"

#include <math.h>

/* A model of a machine and of a training loop. Costs are in seconds of one core per image. */
struct machine {
	double cores, others; /* number of cores, and how many of them other programs use */
	double rate;          /* images per second that the loop takes; INFINITY: as fast as they are made */
	double loop;          /* cores that the loop itself uses */
	double gpu_rate;      /* images per second that the GPU can decode */
};

static const double READ = 0.00006, DECODE = 0.0006;

/* Returns the load that would be measured in a time window at this level. *rate: set to the images per second in the window. */
static struct stk_window_load window(const struct machine *m, int32_t level, double *rate)
{
	double share = level > 0 ? level / 100.0 : 0, cost = READ + share * DECODE, free = m->cores - m->others - m->loop;
	double by_cores = free / cost, by_gpu = share < 1 ? m->gpu_rate / (1 - share) : INFINITY, most = fmin(by_cores, by_gpu);
	*rate = fmin(m->rate, most);
	double used = m->loop + *rate * cost;
	bool core_bound = by_cores < m->rate && by_cores <= by_gpu;
	double got =
		core_bound ? (m->cores - m->others) / m->cores : 1; /* our threads get only the cores' time that other programs leave */
	return (struct stk_window_load){.busy = used / m->cores,
		.decoding = *rate * share * DECODE / m->cores,
		.all_files = *rate * DECODE / m->cores,
		.cpu_share = got,
		.waited_share = core_bound ? 0.5 : 0};
}

struct course {
	int32_t least, most;           /* lowest and highest level in the last windows */
	double busiest, rate;          /* largest load and lowest rate in the last windows */
	struct stk_decode_level level; /* level at the end */
};

/* Simulates `windows` windows, and describes the last `last` of them. */
static struct course follow(const struct machine *m, struct stk_decode_level from, int windows, int last)
{
	struct course c = {.least = STK_LEVEL_MOST, .most = STK_LEVEL_LEAST, .level = from};
	for (int k = 0; k < windows; k++) {
		double rate;
		const struct stk_window_load seen = window(m, c.level.level, &rate);
		if (k >= windows - last) {
			c.least = c.level.level < c.least ? c.level.level : c.least;
			c.most = c.level.level > c.most ? c.level.level : c.most;
			c.busiest = fmax(c.busiest, seen.busy);
			c.rate = k == windows - last ? rate : fmin(c.rate, rate);
		}
		c.level = stk__decode_level_next(c.level, &seen);
		assert_in_range(c.level.level - STK_LEVEL_LEAST, 0, STK_LEVEL_MOST - STK_LEVEL_LEAST);
	}
	return c;
}

#define START stk__decode_level_start(1)

static struct stk_decode_level level_of(int32_t level)
{
	struct stk_decode_level l = START;
	l.level = l.last_good_level = level;
	return l;
}

static void test_idle_cores_decode_everything(void **state)
{
	(void)state;
	const struct machine m = {.cores = 16, .rate = 10000, .loop = 1.5, .gpu_rate = 150000};
	struct course c = follow(&m, START, 100, 50);
	assert_int_equal(c.least, STK_LEVEL_MOST);
	assert_true(c.busiest < 0.8);
	assert_true(c.rate >= m.rate);
}

/* Whether a few progressive files go to the cores depends on whether the cores ever had too much work without baseline files. */
static void test_full_cores_are_noticed(void **state)
{
	(void)state;
	const struct machine idle = {.cores = 16, .rate = 10000, .loop = 1.5, .gpu_rate = 150000},
			     full = {.cores = 2, .rate = INFINITY, .loop = 0.5, .gpu_rate = 150000};
	assert_false(START.was_full);
	assert_false(follow(&idle, START, 100, 1).level.was_full);
	assert_true(follow(&full, START, 10, 1).level.was_full);
	/* more work than expected at a level above 0 is the work on baseline files, which the GPU then decodes again */
	struct stk_decode_level l = level_of(STK_LEVEL_MOST);
	for (int k = 0; k < 2; k++)
		l = stk__decode_level_next(l, &(struct stk_window_load){.busy = 0.95, .decoding = 0.5, .all_files = 0.5, .cpu_share = 1});
	assert_true(l.level < STK_LEVEL_MOST);
	assert_false(l.was_full);
}

/* The GPU decodes if the cores are too few for all images, since decoding a few files of each batch on the cores would save the GPU nothing. The cores
 * seldom try again. */
static void test_the_gpu_decodes_where_the_cores_do_not_suffice(void **state)
{
	(void)state;
	static const double cores[] = {3, 4, 6, 8};
	for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
		const struct machine m = {.cores = cores[i], .rate = 12000, .loop = 1, .gpu_rate = 150000};
		struct course c = follow(&m, START, 400, 300);
		assert_in_range(c.most, 0, 4);
		assert_true(c.rate >= m.rate);
		int tries = 0;
		for (int k = 0; k < 1000; k++) {
			double rate;
			const struct stk_window_load seen = window(&m, c.level.level, &rate);
			tries += c.level.level > 0;
			c.level = stk__decode_level_next(c.level, &seen);
		}
		assert_true(tries <= 40);
	}
}

static void test_two_cores_are_left_to_the_loop(void **state)
{
	(void)state;
	const struct machine m = {.cores = 2, .rate = 12000, .loop = 1, .gpu_rate = 150000};
	struct course c = follow(&m, START, 400, 300);
	assert_true(c.most <= 2);
	assert_true(c.rate >= m.rate);
}

/* If a loop takes all batches and the cores' reading limits its speed, the GPU decodes. */
static void test_the_gpu_decodes_if_the_cores_are_the_bound(void **state)
{
	(void)state;
	const struct machine m = {.cores = 8, .rate = INFINITY, .loop = 1, .gpu_rate = 150000};
	struct course c = follow(&m, level_of(100), 3000, 2000);
	assert_true(c.most <= 2);
	assert_true(follow(&m, START, 10, 10).most <= 0);
}

static void test_a_slow_consumer_does_not_matter(void **state)
{
	(void)state;
	const struct machine m = {.cores = 4, .rate = 100, .loop = 0.2, .gpu_rate = 150000};
	struct course c = follow(&m, START, 150, 20);
	assert_int_equal(c.least, STK_LEVEL_MOST);
	assert_true(c.busiest < 0.2);
}

static void test_cores_that_are_taken_away(void **state)
{
	(void)state;
	struct machine m = {.cores = 16, .rate = 14000, .loop = 1, .gpu_rate = 150000};
	struct course c = follow(&m, START, 200, 50);
	assert_true(c.least > 80);
	m.others = 9;
	c = follow(&m, c.level, 30, 1); /* three seconds: windows of 0.1 s */
	assert_true(c.rate >= m.rate);
	c = follow(&m, c.level, 3000, 2900);
	assert_true(c.most <= 70);
	int late = 0;
	for (int k = 0; k < 1000; k++) {
		double rate;
		const struct stk_window_load seen = window(&m, c.level.level, &rate);
		late += seen.waited_share > 0;
		c.level = stk__decode_level_next(c.level, &seen);
	}
	assert_true(late <= 25); /* the policy seldom tries again */
	m.others = 0;
	c = follow(&m, c.level, 1200, 50);
	assert_true(c.least > 80);
}

/* Ranks that share a host leave baseline files to the GPU if the cores would have little time left, and progressive files too if there are only two cores. */
static void test_ranks_with_few_cores_leave_baseline_files_to_the_gpu(void **state)
{
	(void)state;
	static const double cores[] = {2, 4, 8, 9};
	for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
		const struct machine m = {.cores = cores[i], .rate = 12000, .loop = 1, .gpu_rate = 50000};
		const struct course c = follow(&m, stk__decode_level_start(4), 5000, 4900);
		assert_int_equal(
			c.least, cores[i] > 2 ? 0 : STK_LEVEL_LEAST); /* progressive files: with two cores the GPU decodes them too */
		assert_int_equal(c.most, cores[i] > 2 ? 0 : STK_LEVEL_LEAST);
	}
}

/* If the cores of each rank have time for all files, the level goes to STK_LEVEL_MOST without intermediate levels, at which the two sides would share a batch.
 * If other programs take the cores, the GPU decodes all files again. Even when these programs have ended, the cores try again only after more than 1000
 * windows. */
static void test_ranks_with_many_cores_decode_on_them(void **state)
{
	(void)state;
	struct machine m = {.cores = 16, .rate = 12000, .loop = 1, .gpu_rate = 50000};
	struct stk_decode_level l = stk__decode_level_start(2);
	for (int k = 0; k < 200; k++) {
		double rate;
		const struct stk_window_load seen = window(&m, l.level, &rate);
		l = stk__decode_level_next(l, &seen);
		assert_true(l.level <= 0 || l.level == STK_LEVEL_MOST);
	}
	assert_int_equal(l.level, STK_LEVEL_MOST);
	m.others = 9;
	assert_int_equal(follow(&m, l, 5, 1).level.level, 0);
	l = follow(&m, l, 5, 1).level;
	m.others = 0;
	assert_int_equal(follow(&m, l, 1000, 1000).most, 0);
	assert_int_equal(follow(&m, l, 10000, 1).level.level, STK_LEVEL_MOST);
}

/* If the consumer waits while the cores take over the decoding, they keep it; if the consumer waits later, the GPU gets it back. */
static void test_ranks_wait_while_the_cores_take_over(void **state)
{
	(void)state;
	const struct machine m = {.cores = 16, .rate = 12000, .loop = 1, .gpu_rate = 50000};
	struct stk_decode_level l = stk__decode_level_start(2);
	int at_most = 0;
	for (int k = 0; k < 200; k++) {
		double rate;
		struct stk_window_load seen = window(&m, l.level, &rate);
		at_most = l.level == STK_LEVEL_MOST ? at_most + 1 : 0;
		seen.waited_share = at_most > 0 && at_most <= 4 ? 0.5 : 0;
		l = stk__decode_level_next(l, &seen);
	}
	assert_int_equal(l.level, STK_LEVEL_MOST);
	assert_true(at_most > 100);
	const struct stk_window_load late = {.busy = 0.5, .decoding = 0.4, .all_files = 0.4, .cpu_share = 1, .waited_share = 0.5};
	l = stk__decode_level_next(stk__decode_level_next(l, &late), &late);
	assert_int_equal(l.level, 0);
}

/* After two short stalls, which lower the level to 0, the level rises again. */
static void test_stalls_are_forgotten(void **state)
{
	(void)state;
	const struct machine m = {.cores = 16, .rate = 10000, .loop = 1.5, .gpu_rate = 150000};
	const struct stk_window_load stalled = {.busy = 0.3, .decoding = 0.2, .all_files = 0.2, .cpu_share = 1, .waited_share = 0.5};
	for (int ranks = 1; ranks <= 2; ranks++) {
		struct stk_decode_level l = follow(&m, stk__decode_level_start(ranks), 100, 1).level;
		assert_int_equal(l.level, STK_LEVEL_MOST);
		for (int k = 0; k < 20 && l.level > 0; k++)
			l = stk__decode_level_next(l, &stalled);
		assert_int_equal(l.level, 0);
		assert_true(follow(&m, l, ranks > 1 ? 10000 : 200, 1).level.level >= STK_LEVEL_BATCHES);
	}
}

/* If the cores are fully busy in windows before the first try, this does not count as a failed try. */
static void test_full_cores_before_the_first_try(void **state)
{
	(void)state;
	const struct machine m = {.cores = 16, .rate = 10000, .loop = 1.5, .gpu_rate = 150000};
	const struct stk_window_load full = {.busy = 0.99, .all_files = 0.5, .cpu_share = 1};
	struct stk_decode_level l = stk__decode_level_start(2);
	const int32_t patience = l.idle_windows_needed;
	for (int k = 0; k < 20; k++)
		l = stk__decode_level_next(l, &full);
	assert_int_equal(l.idle_windows_needed, patience);
	assert_true(l.last_good_level >= STK_LEVEL_LEAST);
	assert_int_equal(follow(&m, l, 100, 1).level.level, STK_LEVEL_MOST);
}

/* While the time to decode a file is unknown, the cores decode no file. */
static void test_unknown_cost(void **state)
{
	(void)state;
	const struct stk_window_load seen = {.busy = 0.1, .all_files = -1, .cpu_share = 1};
	struct stk_decode_level l = stk__decode_level_start(1);
	for (int k = 0; k < 100; k++)
		l = stk__decode_level_next(l, &seen);
	assert_int_equal(l.level, 0);
}

/* A single late or disturbed window changes nothing. */
static void test_single_disturbances_change_nothing(void **state)
{
	(void)state;
	const struct stk_window_load idle = {.busy = 0.3, .decoding = 0.2, .cpu_share = 1},
				     late = {.busy = 0.3, .decoding = 0.2, .cpu_share = 0.2, .waited_share = 0.9};
	struct stk_decode_level l = level_of(60);
	for (int k = 0; k < 60; k++)
		l = stk__decode_level_next(l, k % 5 ? &idle : &late);
	assert_int_equal(l.level, STK_LEVEL_MOST);
}

/* The level must not change in windows whose load is between the thresholds. */
static void test_between_the_thresholds_nothing_moves(void **state)
{
	(void)state;
	struct stk_decode_level l = level_of(60);
	const struct stk_window_load seen = {.busy = 0.85, .decoding = 0.3, .cpu_share = 0.95, .waited_share = 0.05};
	for (int k = 0; k < 100; k++)
		l = stk__decode_level_next(l, &seen);
	assert_int_equal(l.level, 60);
}

/* ---- the cost of a file ---- */

enum { WINDOW_NS = 100000000, BATCH = 256, TRIED_BATCHES = 2 };
static const double LONE_FACTOR = 2.2; /* the time of a lone file divided by that of one among many */

/* The result of a simulation in which the cost of a file is measured: by lone files, which take longer, and by batches. */
struct measured {
	struct stk_decode_level level; /* level at the end */
	int files, batches;            /* number of lone files, and of batches, that were decoded to measure their cost */
};

/* Simulates `windows` windows. trial_factor: the time of a file in batches that are tried, divided by that in steady work. progressive: number of progressive
 * files in a window, which the cores decode at every level, in three times the time. */
static struct measured follow_measured(const struct machine *m, int windows, double trial_factor, int progressive)
{
	struct measured c = {.level = START};
	struct stk_decode_cost cost = {0};
	enum stk_decode_trial trial = STK_TRY_NOTHING;
	for (int k = 0; k < windows; k++) {
		double rate;
		struct stk_window_load seen = window(m, c.level.level, &rate);
		const double files = rate * WINDOW_NS / 1e9, ns = DECODE * 1e9, decoded = floor(files * c.level.level / 100);
		double count = progressive, took = 3 * ns * progressive;
		if (c.level.level > 0) {
			count += decoded;
			took += ns * decoded;
		} else if (trial == STK_TRY_BATCHES) {
			count += TRIED_BATCHES * BATCH;
			took += ns * trial_factor * TRIED_BATCHES * BATCH;
		} else if (trial == STK_TRY_FILE) {
			count += 1;
			took += ns * LONE_FACTOR;
		}
		stk__decode_cost_add(&cost, c.level.level, (int64_t)count, took);
		seen.all_files = cost.file_ns > 0 ? rate * cost.file_ns / 1e9 / m->cores : -1;
		c.level = stk__decode_level_next(c.level, &seen);
		trial = stk__decode_cost_next(&cost, c.level.level, seen.busy, files / WINDOW_NS / m->cores);
		c.files += trial == STK_TRY_FILE;
		c.batches += trial == STK_TRY_BATCHES ? TRIED_BATCHES : 0;
	}
	return c;
}

/* After 4 seconds, cores that have enough time decode all files, although the time of a lone file suggests that they lack it. */
static void test_a_lone_file_costs_more(void **state)
{
	(void)state;
	const struct machine m = {.cores = 16, .rate = 17000, .loop = 1.5, .gpu_rate = 150000};
	assert_true(m.rate * DECODE * LONE_FACTOR > m.cores);
	struct measured c = follow_measured(&m, 40, 1, 0);
	assert_int_equal(c.level.level, STK_LEVEL_MOST);
	assert_int_equal(c.batches, TRIED_BATCHES);
}

/* Cores that have enough time decode all files, although a file takes longer in batches that are tried, and although they also decode progressive files. */
static void test_the_cost_of_steady_work_counts(void **state)
{
	(void)state;
	const struct machine m = {.cores = 16, .rate = 17000, .loop = 1.5, .gpu_rate = 150000};
	assert_int_equal(follow_measured(&m, 60, 7 / 6.0, 0).level.level, STK_LEVEL_MOST);
	assert_int_equal(follow_measured(&m, 60, 1, 20).level.level, STK_LEVEL_MOST);
}

/* Cores that are clearly too few never try a batch; they only decode lone files. If the time of lone files leaves a chance, batches are tried once in 256
 * windows. */
static void test_batches_are_tried_seldom(void **state)
{
	(void)state;
	const struct machine few = {.cores = 2, .rate = 12000, .loop = 1, .gpu_rate = 150000};
	struct measured c = follow_measured(&few, 3000, 1, 0);
	assert_int_equal(c.batches, 0);
	assert_in_range(c.files, 32, 33 + 3000 / 64);
	const struct machine nearly = {.cores = 8, .rate = 10500, .loop = 0.5, .gpu_rate = 150000};
	c = follow_measured(&nearly, 3000, 1, 0);
	assert_in_range(c.batches, TRIED_BATCHES, TRIED_BATCHES * (3000 / 256 + 1));
	assert_true(c.level.level <= 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_idle_cores_decode_everything),
		cmocka_unit_test(test_full_cores_are_noticed),
		cmocka_unit_test(test_the_gpu_decodes_where_the_cores_do_not_suffice),
		cmocka_unit_test(test_two_cores_are_left_to_the_loop),
		cmocka_unit_test(test_the_gpu_decodes_if_the_cores_are_the_bound),
		cmocka_unit_test(test_a_slow_consumer_does_not_matter),
		cmocka_unit_test(test_cores_that_are_taken_away),
		cmocka_unit_test(test_ranks_with_few_cores_leave_baseline_files_to_the_gpu),
		cmocka_unit_test(test_ranks_with_many_cores_decode_on_them),
		cmocka_unit_test(test_ranks_wait_while_the_cores_take_over),
		cmocka_unit_test(test_stalls_are_forgotten),
		cmocka_unit_test(test_full_cores_before_the_first_try),
		cmocka_unit_test(test_unknown_cost),
		cmocka_unit_test(test_single_disturbances_change_nothing),
		cmocka_unit_test(test_between_the_thresholds_nothing_moves),
		cmocka_unit_test(test_a_lone_file_costs_more),
		cmocka_unit_test(test_the_cost_of_steady_work_counts),
		cmocka_unit_test(test_batches_are_tried_seldom),
	};
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests_name("decode_side", tests, NULL, NULL);
}
