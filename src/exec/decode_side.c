/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/decode_side.h"

#include "base/clock.h"
#include "exec/device.h"
#include "thread/duty.h"
#include "thread/pool.h"
#include "thread/thread.h"

/* ---- the policy ---- */

static int32_t at_least(int32_t value, int32_t least)
{
	return value > least ? value : least;
}

static int32_t at_most(int32_t value, int32_t most)
{
	return value < most ? value : most;
}

static const double FULL = 0.93; /* the fraction of the cores' time from which on they have too much work */

/* Returns how much to lower the level if this window showed too much work for the cores: they were almost fully busy, other programs used them while the
 * level was above 0, or the consumer waited for them. Otherwise returns 0. With several ranks, whose level falls to 0 at once, a wait does not count in the
 * first windows after the level rose above 0: in these, more of the pool's threads wake, and the cores' first batches take longer. */
static int32_t lowering_step(const struct stk_decode_level *now, const struct stk_window_load *seen)
{
	const double AIM = 0.85, CONTENDED = 0.85, LATE = 0.1;
	enum { STEP = 25, TAKING_OVER = 4 };
	const int32_t level = now->level;
	const bool taking_over = now->many_ranks && level > 0 && now->windows_at_level < TAKING_OVER;
	bool full = seen->busy >= FULL, contended = level > 0 && seen->cpu_share < CONTENDED,
	     late = seen->waited_share >= LATE && !taking_over;
	if (!full && !contended && !late)
		return 0;
	if (level <= 0)
		return STEP;
	int32_t fall = at_least(level / (late ? 2 : 4), 1);
	if (full && seen->decoding > 0) /* lowers the level so far that the cores are busy for the fraction AIM */
		fall = at_least(fall, (int32_t)(level * (seen->busy - AIM) / seen->decoding) + 1);
	return at_most(fall, level);
}

/* The cores take over all files if this would keep them busy for at most this fraction of their time. The level falls at 0.93. So small a margin is enough,
 * because the cost is measured in trial batches, whose files take up to a sixth longer than those of steady work. */
static const double ALL_FILES = 0.92;

/* Returns how much to raise the level if this window showed that the cores have time; otherwise 0. Below 0 the level rises by up to 10, but not above 0.
 * From 0 it rises to 100 at once, and only if the cores have time for all files. Above 0 it rises by up to 10; this assumes that the next points of the
 * level cost as much per point as the present ones. */
static int32_t raising_step(const struct stk_decode_level *now, const struct stk_window_load *seen)
{
	const double FREE = 0.8, IN_TIME = 0.02;
	enum { STEP = 10 };
	if (seen->busy > FREE || seen->waited_share > IN_TIME)
		return 0;
	if (now->level < 0)
		return at_most(STEP, -now->level);
	if (now->level == 0)
		return seen->all_files >= 0 && seen->busy + seen->all_files <= ALL_FILES ? STK_LEVEL_MOST : 0;
	if (seen->decoding <= 0)
		return 0;
	double fits = now->level * (FREE - seen->busy) / seen->decoding;
	return fits < STEP ? (int32_t)fits : STEP;
}

enum {
	FIRST_PATIENCE = 16, /* first and lowest value of idle_windows_needed */
	MOST_PATIENCE = 128, /* highest value of idle_windows_needed */
	RANKS_PATIENCE = 64, /* factor of FIRST_ and MOST_PATIENCE with several ranks, all of which lose time if the level is too high */
	FIRST_PROBE = 2,     /* amount by which the limit rises when a higher level is tried for the first time */
	STEADY = 4,          /* number of windows in a row that must show time for all files before the cores decode them */
	SETTLED = 8,         /* number of windows after which a level that did not change counts as a good one */
	SURE = 2,            /* number of windows in a row with too much work after which the level falls; one window may be an exception */
	REST = 8,            /* number of windows after a fall in which the level does not rise, since the fall takes effect late */
};

/* Lowers the level by `by`, but not below STK_LEVEL_LEAST. A level that was raised above the last good level falls no further than to the last good level.
 * Levels from 1 to STK_LEVEL_BATCHES - 1 become 0; if several ranks share the host, all positive levels do. Also lowers the limit of a positive level, so that
 * the level does not soon rise again. */
static void lower_level(struct stk_decode_level *now, int32_t by)
{
	int32_t to = now->level - by;
	bool raised = now->level > 0 && now->level > now->last_good_level;
	if (raised && to < now->last_good_level)
		to = now->last_good_level;
	if (to > 0 && (to < STK_LEVEL_BATCHES || now->many_ranks))
		to = 0;
	to = at_least(to, STK_LEVEL_LEAST);
	if (raised || (now->many_ranks && now->level > 0))
		now->idle_windows_needed = at_most(2 * now->idle_windows_needed, MOST_PATIENCE * (now->many_ranks ? RANKS_PATIENCE : 1));
	if (now->level > 0)
		now->limit = now->many_ranks ? 0 : at_least(to, now->level - at_least(now->level / 10, 1));
	if (now->limit < STK_LEVEL_BATCHES)
		now->limit = 0; /* there is no such level; from 0, raise_limit continues with STK_LEVEL_BATCHES */
	now->limit_step = FIRST_PROBE;
	now->hold_windows = now->level > 0 ? REST : 0;
	now->idle_windows = now->windows_at_level = now->steady_windows = 0;
	now->last_good_level = at_most(now->last_good_level, to);
	now->level = to;
}

/* Raises the limit to try a higher level, after the level has been at the limit long enough. Each success makes the next try larger and earlier. With several
 * ranks the limit rises to its maximum at once. */
static void raise_limit(struct stk_decode_level *now)
{
	now->idle_windows = 0;
	if (now->limit_step > FIRST_PROBE)
		now->idle_windows_needed = at_least(now->idle_windows_needed / 2, FIRST_PATIENCE);
	now->limit = now->many_ranks ? STK_LEVEL_MOST : at_most(at_least(now->limit + now->limit_step, STK_LEVEL_BATCHES), STK_LEVEL_MOST);
	now->limit_step *= 2;
}

struct stk_decode_level stk__decode_level_start(int local_ranks)
{
	bool ranks = local_ranks > 1;
	return (struct stk_decode_level){.level = STK_LEVEL_LEAST,
		.many_ranks = ranks,
		.limit = STK_LEVEL_MOST,
		.last_good_level = STK_LEVEL_LEAST,
		.idle_windows_needed = FIRST_PATIENCE * (ranks ? RANKS_PATIENCE : 1),
		.limit_step = FIRST_PROBE};
}

struct stk_decode_level stk__decode_level_next(struct stk_decode_level now, const struct stk_window_load *seen)
{
	int32_t by = lowering_step(&now, seen);
	now.bad_windows = by ? now.bad_windows + 1 : 0;
	if (now.bad_windows >= SURE) {
		now.bad_windows = 0;
		now.was_full |= now.level <= 0 && seen->busy >= FULL;
		lower_level(&now, by);
		return now;
	}
	now.windows_at_level++;
	if (by)
		return now;
	if (now.windows_at_level >= SETTLED)
		now.last_good_level = now.level;
	if (now.hold_windows > 0) {
		now.hold_windows--;
		return now;
	}
	int32_t rise = raising_step(&now, seen);
	if (rise && now.level >= now.limit && now.limit < STK_LEVEL_MOST && ++now.idle_windows >= now.idle_windows_needed)
		raise_limit(&now);
	now.steady_windows = rise && now.level == 0 ? now.steady_windows + 1 : 0;
	if (now.level == 0 && (now.steady_windows < STEADY || now.limit < STK_LEVEL_BATCHES))
		return now;
	int32_t to = at_most(now.level + rise, now.limit);
	if (to > now.level) {
		now.level = to;
		now.windows_at_level = 0;
		now.hold_windows = to > 0 ? 1 : 0; /* the next window shows only a part of the change's effect */
	}
	return now;
}

/* ---- the cost of a file ---- */

/* At level 0 the cores decode batches to measure their files' cost at most once in RARELY windows. The files are decoded in the next window and the TRIAL
 * windows after it. */
enum { RARELY = 256, TRIAL = 3 };

void stk__decode_cost_add(struct stk_decode_cost *c, int32_t level, int64_t files, double cpu_ns)
{
	enum { MANY = 16 };
	if (files <= 0)
		return;
	const double each = cpu_ns / (double)files;
	const bool trial = level <= 0 && c->until_batches >= RARELY - TRIAL;
	const bool first = c->file_ns <= 0;
	/* keeps the lowest cost of a trial, since in some of its windows the cores decode only progressive files */
	if (level <= 0 && !trial)
		c->lone_ns += (each - c->lone_ns) / (c->lone_ns > 0 ? 8 : 1);
	else if (files < MANY && (trial || first))
		return;
	else if (first || (trial && each < c->file_ns))
		c->file_ns = each;
	else if (!trial)
		c->file_ns += (each - c->file_ns) / 2;
}

/* While the level is at most 0, the cores decode one file in each of the first FIRST windows, and later one in SELDOM windows. At level 0 they also decode
 * batches if they would have time for all files, supposing that a file in a batch costs the fraction LEAST_PART of a lone file. */
enum stk_decode_trial stk__decode_cost_next(struct stk_decode_cost *c, int32_t level, double busy, double files_per_core_ns)
{
	enum { FIRST = 32, ENOUGH = 8, SELDOM = 64 };
	const double LEAST_PART = 0.4;
	if (level > 0)
		return STK_TRY_NOTHING;
	c->until_batches -= c->until_batches > 0;
	if (level == 0 && !c->until_batches && c->samples >= ENOUGH && busy + c->lone_ns * LEAST_PART * files_per_core_ns <= ALL_FILES) {
		c->until_batches = RARELY;
		c->file_ns = 0; /* forgets the old cost: the files, or the other work of the cores, may have changed */
		return STK_TRY_BATCHES;
	}
	if (--c->until_sample > 0)
		return STK_TRY_NOTHING;
	c->until_sample = c->samples < FIRST ? 1 : SELDOM;
	c->samples++;
	return STK_TRY_FILE;
}

/* ---- measurements of a window ---- */

static int64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t count_of(_Atomic int64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static struct stk_side_totals totals(struct stk_pipeline *p)
{
	return (struct stk_side_totals){cpu_ns(), count_of(&p->counters.core_decode_ns), count_of(&p->counters.core_decode_cpu_ns),
		count_of(&p->counters.late_ns), count_of(&p->counters.core_decodes), count_of(&p->parts.device->side.files)};
}

static struct stk_window_load seen_since(struct stk_decode_side *s, const struct stk_side_totals *now, int32_t pool_load, int64_t wall_ns)
{
	double wall = (double)wall_ns, all = wall * s->cores, decoding = (double)(now->core_cpu_ns - s->last.core_cpu_ns),
	       took = (double)(now->core_ns - s->last.core_ns), busy = (double)(now->cpu_ns - s->last.cpu_ns) / all,
	       pool = pool_load / 100.0;
	stk__decode_cost_add(&s->cost, s->now.level, now->core_files - s->last.core_files, decoding);
	return (struct stk_window_load){.busy = busy > pool ? busy : pool,
		.decoding = decoding / all,
		.all_files = s->cost.file_ns > 0 ? s->cost.file_ns * (double)(now->files - s->last.files) / all : -1,
		.cpu_share = took > 0 ? decoding / took : 1,
		.waited_share = (double)(now->late_ns - s->last.late_ns) / wall};
}

/* Adds the load of a window to the averages, and returns them: a single window covers only a few whole batches. cpu_share and waited_share are not averaged. */
static const struct stk_window_load *smoothed(struct stk_decode_side *s, const struct stk_window_load *seen)
{
	s->mean.busy += (seen->busy - s->mean.busy) / 2;
	s->mean.decoding += (seen->decoding - s->mean.decoding) / 2;
	s->mean.all_files = s->mean.all_files < 0 || seen->all_files < 0 ? seen->all_files : (s->mean.all_files + seen->all_files) / 2;
	s->mean.cpu_share = seen->cpu_share;
	s->mean.waited_share = seen->waited_share;
	return &s->mean;
}

/* Lets the cores decode a file or some batches if their cost should be measured. files_per_core_ns as in stk__decode_cost_next. */
static void measure_cost(struct stk_decode_side *s, double files_per_core_ns)
{
	enum { BATCHES = 2 };
	const enum stk_decode_trial trial = stk__decode_cost_next(&s->cost, s->now.level, s->mean.busy, files_per_core_ns);
	if (trial == STK_TRY_FILE)
		atomic_store_explicit(&s->sample, true, memory_order_relaxed);
	if (trial == STK_TRY_BATCHES)
		atomic_store_explicit(&s->try_batches, BATCHES, memory_order_relaxed);
	else if (s->now.level > 0)
		atomic_store_explicit(&s->try_batches, 0, memory_order_relaxed);
}

/* Ends the window if its time is over. Ignores a window in which the consumer paused, and the windows right after it: they show the work of making batches
 * ahead, not the load of steady work. */
static void end_window_if_over(struct stk_pipeline *p)
{
	enum { PAUSE_NS = 1000000000, REFILL = 5 };
	struct stk_decode_side *s = &p->parts.device->side;
	int64_t now = stk__clock_ns(), wall = now - count_of(&s->window_ns);
	if (wall < STK_DUTY_WINDOW_NS || atomic_exchange_explicit(&s->ending_window, true, memory_order_acquire))
		return;
	struct stk_side_totals t = totals(p);
	wall = now - count_of(&s->window_ns); /* another worker may have ended the window meanwhile */
	if (wall >= STK_DUTY_WINDOW_NS) {
		struct stk_window_load seen = seen_since(s, &t, stk__pool_load(p->pool), wall);
		if (wall >= PAUSE_NS)
			s->unseen = REFILL;
		else if (s->unseen > 0)
			s->unseen--;
		else
			s->now = stk__decode_level_next(s->now, smoothed(s, &seen));
		measure_cost(s, (double)(t.files - s->last.files) / ((double)wall * s->cores));
		s->last = t;
		atomic_store_explicit(&s->level, s->now.level, memory_order_relaxed);
		atomic_store_explicit(&s->was_full, s->now.was_full, memory_order_relaxed);
		atomic_store_explicit(&s->window_ns, now, memory_order_relaxed);
	}
	atomic_store_explicit(&s->ending_window, false, memory_order_release);
}

/* ---- the decision ---- */

void stk__decode_side_init(struct stk_decode_side *s)
{
	struct stk_cpu_budget budget;
	stk__cpu_budget(&budget);
	s->cores = (double)budget.cpus / budget.local_world_size;
	if (budget.quota > 0 && budget.quota < budget.cpus)
		s->cores = budget.quota / budget.local_world_size;
	s->now = stk__decode_level_start(budget.local_world_size);
	s->mean.all_files = -1;
	atomic_store(&s->level, s->now.level);
	atomic_store(&s->window_ns, stk__clock_ns());
	s->last.cpu_ns = cpu_ns();
}

/* Counts a progressive file of `size` bytes, and returns whether the cores should decode it. From level 0 on the cores decode all such files; below 0, only
 * those above a size, or all of them if they are few and the cores were never fully busy. A batch waits for its largest file, so the cores decode the larger
 * files and the GPU the smaller ones. */
static bool takes_progressive(struct stk_pipeline *p, size_t size, int32_t level)
{
	enum { FEW = 16 }; /* the cores decode all progressive files if these are fewer than one file in FEW */
	int64_t progressive = STK_COUNT(p, progressive, 1) + 1, all = count_of(&p->counters.decodes) + 1;
	int64_t bytes = STK_COUNT(p, progressive_bytes, (int64_t)size) + (int64_t)size;
	const bool few = progressive * FEW < all && !atomic_load_explicit(&p->parts.device->side.was_full, memory_order_relaxed);
	return few || 100.0 * (double)size * (double)progressive > -level * (double)bytes;
}

/* Counts a baseline file of `size` bytes, and returns whether the cores should decode it: because they decode the whole batch, or to measure its cost. The
 * GPU always decodes a file that is much larger than the others, because it does so in many threads; a core would take long. */
static bool takes_baseline(struct stk_decode_side *s, enum stk_batch_side side, size_t size)
{
	enum { LARGE = 8 };
	int64_t files = atomic_fetch_add_explicit(&s->files, 1, memory_order_relaxed) + 1;
	int64_t bytes = atomic_fetch_add_explicit(&s->bytes, (int64_t)size, memory_order_relaxed) + (int64_t)size;
	if ((double)size * (double)files > (double)LARGE * (double)bytes)
		return false;
	return side == STK_BATCH_BY_CORES || (atomic_load_explicit(&s->sample, memory_order_relaxed) &&
						     atomic_exchange_explicit(&s->sample, false, memory_order_relaxed));
}

enum stk_batch_side stk__decode_side_of_batch(struct stk_pipeline *p)
{
	enum { WHOLE = 100 };
	struct stk_decode_side *s = &p->parts.device->side;
	int32_t tries = atomic_load_explicit(&s->try_batches, memory_order_relaxed);
	if (tries > 0 &&
		atomic_compare_exchange_strong_explicit(&s->try_batches, &tries, tries - 1, memory_order_relaxed, memory_order_relaxed))
		return STK_BATCH_BY_CORES;
	s->due_batches += at_least(atomic_load_explicit(&s->level, memory_order_relaxed), 0);
	if (s->due_batches < WHOLE)
		return STK_BATCH_BY_GPU;
	s->due_batches -= WHOLE;
	return STK_BATCH_BY_CORES;
}

bool stk__decode_side_is_cores(struct stk_pipeline *p, const struct stk_device_batch *b, bool progressive, size_t size)
{
	struct stk_decode_side *s = &p->parts.device->side;
	if (p->config.decode != STK_DECODE_AUTO)
		return p->config.decode == STK_DECODE_CORES;
	end_window_if_over(p);
	int32_t level = atomic_load_explicit(&s->level, memory_order_relaxed);
	return progressive ? takes_progressive(p, size, level) : takes_baseline(s, b->current.side, size);
}

int32_t stk__decode_side_share(const struct stk_pipeline *p)
{
	if (p->config.decode != STK_DECODE_AUTO)
		return p->config.decode == STK_DECODE_CORES ? STK_LEVEL_MOST : 0;
	return at_least(atomic_load_explicit(&p->parts.device->side.level, memory_order_relaxed), 0);
}

void stk__decode_side_explain(const struct stk_pipeline *p, struct stk_text *t)
{
	static const char *const words[] = {[STK_DECODE_AUTO] = "auto", [STK_DECODE_GPU] = "gpu", [STK_DECODE_CORES] = "cores"};
	stk__text_add(t, "decode=\"%s\": at present the cores decode %d of 100 baseline JPEG files\n", words[p->config.decode],
		stk__decode_side_share(p));
}
