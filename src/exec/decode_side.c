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

/* Returns how much to lower the level if this window showed too much work for the cores; otherwise returns 0. */
static int32_t lowering_step(int32_t level, const struct stk_window_load *seen)
{
	const double FULL = 0.93, AIM = 0.85, CONTENDED = 0.85, LATE = 0.1;
	enum { STEP = 25 };
	bool full = seen->busy >= FULL, contended = level > 0 && seen->cpu_share < CONTENDED, late = seen->waited_share >= LATE;
	if (!full && !contended && !late)
		return 0;
	if (level <= 0)
		return STEP;
	int32_t fall = at_least(level / (late ? 2 : 4), 1);
	if (full && seen->decoding > 0) /* lowers the level until the rest of the work takes the fraction AIM of the cores */
		fall = at_least(fall, (int32_t)(level * (seen->busy - AIM) / seen->decoding) + 1);
	return at_most(fall, level);
}

/* Returns by how much the level rises, if this window showed that the cores have time; otherwise 0. Assumes that each further point of the level costs as
 * much as the average of the present ones, and rises only as far as the cores have time. */
static int32_t raising_step(int32_t level, const struct stk_window_load *seen)
{
	const double FREE = 0.8, IN_TIME = 0.02;
	enum { STEP = 10, FIRST = 2 };
	if (seen->busy > FREE || seen->waited_share > IN_TIME)
		return 0;
	if (level < 0)
		return at_most(STEP, -level);
	if (level == 0 || seen->decoding <= 0)
		return FIRST;
	double fits = level * (FREE - seen->busy) / seen->decoding;
	return fits < STEP ? (int32_t)fits : STEP;
}

/* Returns whether this window shows that the cores could not decode all files. If the cores decode only a few files of each batch, the GPU takes nearly as
 * long as for all files, and the training loop waits for both: this costs the loop more time than it saves. So the cores decode a few files only while the
 * level rises to whole batches. */
static bool is_too_much(int32_t level, const struct stk_window_load *seen)
{
	const double FITS = 0.9;
	return level > 0 && level < STK_LEVEL_BATCHES && seen->decoding > 0 &&
	       seen->busy - seen->decoding + seen->decoding * STK_LEVEL_MOST / level > FITS;
}

enum {
	FIRST_PATIENCE = 16,
	MOST_PATIENCE = 128,
	FIRST_PROBE = 2, /* how far the limit rises when a higher level is tried for the first time */
	SETTLED = 8,     /* a level that was kept for this number of windows counts as one that works */
	SURE = 2,        /* number of windows in a row that must show too much work before the level falls: a single one may be an
	                  * accident */
	REST = 8,        /* number of windows after a fall in which the level does not rise, since the effect of the fall shows late */
};

/* Lowers a level that was too high. If it had been raised from a level that worked, lowers it to that one, otherwise by a large amount. Lowers the limit
 * too, so that the level does not soon rise again. */
static void lower_level(struct stk_decode_level *now, int32_t by)
{
	int32_t to = now->level - by;
	bool raised = now->level > 0 && now->level > now->last_good_level;
	if (raised && to < now->last_good_level)
		to = now->last_good_level;
	if (raised)
		now->idle_windows_needed = at_most(2 * now->idle_windows_needed, MOST_PATIENCE);
	if (now->level > 0)
		now->limit = at_least(to, now->level - at_least(now->level / 10, 1));
	now->limit_step = FIRST_PROBE;
	now->hold_windows = now->level > 0 ? REST : 0;
	now->idle_windows = now->windows_at_level = 0;
	now->last_good_level = at_most(now->last_good_level, to);
	now->level = at_least(to, STK_LEVEL_LEAST);
}

/* Raises the limit to try a higher level, after the level has been at the limit long enough. Each success makes the next try larger and earlier. */
static void raise_limit(struct stk_decode_level *now)
{
	now->idle_windows = 0;
	if (now->limit_step > FIRST_PROBE)
		now->idle_windows_needed = at_least(now->idle_windows_needed / 2, FIRST_PATIENCE);
	now->limit = at_most(now->limit + now->limit_step, now->max_limit);
	now->limit_step *= 2;
}

struct stk_decode_level stk__decode_level_start(int local_ranks)
{
	const int32_t most = local_ranks > 1 ? 0 : STK_LEVEL_MOST;
	return (struct stk_decode_level){.level = STK_LEVEL_LEAST,
		.limit = most,
		.max_limit = most,
		.last_good_level = STK_LEVEL_LEAST,
		.idle_windows_needed = FIRST_PATIENCE,
		.limit_step = FIRST_PROBE};
}

struct stk_decode_level stk__decode_level_next(struct stk_decode_level now, const struct stk_window_load *seen)
{
	int32_t by = lowering_step(now.level, seen);
	now.bad_windows = by ? now.bad_windows + 1 : 0;
	if (now.bad_windows >= SURE) {
		now.bad_windows = 0;
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
	if (is_too_much(now.level, seen)) {
		lower_level(&now, now.level);
		now.limit = 0;
		return now;
	}
	int32_t rise = raising_step(now.level, seen);
	if (rise && now.level >= now.limit && now.limit < now.max_limit && ++now.idle_windows >= now.idle_windows_needed)
		raise_limit(&now);
	int32_t to = at_most(now.level + rise, now.limit);
	if (to > now.level) {
		now.level = to;
		now.windows_at_level = 0;
		now.hold_windows = to > 0 ? 1 : 0; /* the next window shows only a part of the effect */
	}
	return now;
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
	return (struct stk_side_totals){
		cpu_ns(), count_of(&p->counters.core_decode_ns), count_of(&p->counters.core_decode_cpu_ns), count_of(&p->counters.late_ns)};
}

static struct stk_window_load seen_since(
	const struct stk_decode_side *s, const struct stk_side_totals *now, int32_t pool_load, int64_t wall_ns)
{
	double wall = (double)wall_ns, all = wall * s->cores, decoding = (double)(now->core_cpu_ns - s->last.core_cpu_ns),
	       took = (double)(now->core_ns - s->last.core_ns), busy = (double)(now->cpu_ns - s->last.cpu_ns) / all,
	       pool = pool_load / 100.0;
	return (struct stk_window_load){.busy = busy > pool ? busy : pool,
		.decoding = decoding / all,
		.cpu_share = took > 0 ? decoding / took : 1,
		.waited_share = (double)(now->late_ns - s->last.late_ns) / wall};
}

/* Averages the load over some windows, since a single window covers only a few whole batches. */
static const struct stk_window_load *smoothed(struct stk_decode_side *s, const struct stk_window_load *seen)
{
	s->mean.busy += (seen->busy - s->mean.busy) / 2;
	s->mean.decoding += (seen->decoding - s->mean.decoding) / 2;
	s->mean.cpu_share = seen->cpu_share;
	s->mean.waited_share = seen->waited_share;
	return &s->mean;
}

/* Ends the window if its time is over. Windows in which the consumer paused are ignored, and so are those after a pause, in which batches are made ahead,
 * since they do not show the load of steady work. */
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
		struct stk_window_load seen = seen_since(s, &t, stk__pool_load(p->ctx->pool), wall);
		if (wall >= PAUSE_NS)
			s->unseen = REFILL;
		else if (s->unseen > 0)
			s->unseen--;
		else
			s->now = stk__decode_level_next(s->now, smoothed(s, &seen));
		s->last = t;
		atomic_store_explicit(&s->level, s->now.level, memory_order_relaxed);
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
	atomic_store(&s->level, s->now.level);
	atomic_store(&s->window_ns, stk__clock_ns());
	s->last.cpu_ns = cpu_ns();
}

/* Returns whether the cores should decode this progressive file, at a level below 0. A batch waits for its largest file, so the cores decode the larger
 * files and the GPU the smaller ones. */
static bool takes_progressive(struct stk_pipeline *p, size_t size, int32_t level)
{
	enum { FEW = 16 }; /* the cores decode all progressive files if these are at most one file in FEW */
	int64_t progressive = STK_COUNT(p, progressive, 1) + 1, all = count_of(&p->counters.decodes) + 1;
	int64_t bytes = STK_COUNT(p, progressive_bytes, (int64_t)size) + (int64_t)size;
	return progressive * FEW < all || 100.0 * (double)size * (double)progressive > -level * (double)bytes;
}

/* Returns whether the cores should decode this baseline file, at a level above 0. A file that is much larger than the others is left to the GPU, where many
 * threads decode it; a core would take long. */
static bool takes_baseline(struct stk_decode_side *s, enum stk_batch_side side, size_t size, int32_t level)
{
	enum { LARGE = 8, WHOLE = 100 };
	int64_t files = atomic_fetch_add_explicit(&s->files, 1, memory_order_relaxed) + 1;
	int64_t bytes = atomic_fetch_add_explicit(&s->bytes, (int64_t)size, memory_order_relaxed) + (int64_t)size;
	if (level <= 0 || (double)size * (double)files > (double)LARGE * (double)bytes)
		return false;
	if (side != STK_BATCH_BY_FILE)
		return side == STK_BATCH_BY_CORES;
	int32_t due = atomic_fetch_add_explicit(&s->files_due, level, memory_order_relaxed) + level;
	if (due < WHOLE)
		return false;
	atomic_fetch_sub_explicit(&s->files_due, WHOLE, memory_order_relaxed);
	return true;
}

enum stk_batch_side stk__decode_side_of_batch(struct stk_pipeline *p)
{
	enum { WHOLE = 100 };
	struct stk_decode_side *s = &p->parts.device->side;
	int32_t level = atomic_load_explicit(&s->level, memory_order_relaxed);
	if (level < STK_LEVEL_BATCHES)
		return STK_BATCH_BY_FILE;
	s->due_batches += level;
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
	return progressive ? takes_progressive(p, size, level) : takes_baseline(s, b->turn.side, size, level);
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
