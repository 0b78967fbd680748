/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides for each file whether the cores or the GPU decode it, for pipelines on a GPU. Both give the same bytes.
 *
 * A training loop needs its GPU and leaves most cores idle: then the cores should decode as much as they can. If a loop takes batches as fast as possible,
 * or has only two cores, the cores have enough to do with reading: then the GPU should decode. One number, the level, determines the decision:
 *   -200 to 0: the GPU decodes all baseline files. The cores decode progressive files larger than -level hundredths of the mean size of progressive
 *       files. A progressive file takes the GPU milliseconds, so the cores also decode all of them if they are few, until the cores have once been
 *       fully busy.
 *   50 to 100: the cores decode all progressive files and this percentage of the batches; the GPU decodes the other batches. The GPU needs nearly as
 *       long for a few files as for a whole batch, so only batches in which it decodes no file save its time.
 * Time is divided into windows of a tenth of a second or more. The level changes at most once per window, depending on measurements in the last windows.
 *
 * The level rises from 0 to 100, or to its present limit, at once, if the cores have time for all files. To know that, the cores decode a baseline file now
 * and then, although the level leaves these to the GPU. A lone file takes about twice the CPU time of one among many, since the core's caches hold other
 * code and data then; so if the cores might have the time, they decode some whole batches, whose time is what counts.
 *
 * Ranks that share a host wait for each other in each step, so one late batch costs all of them time. With several ranks the level therefore falls to 0 at
 * once if it was too high, and seldom rises again.
 *
 * stk__decode_level_next computes the level, and stk__decode_cost_next chooses what the cores decode to measure its cost; both use no clocks or threads. */
#ifndef STK_EXEC_DECODE_SIDE_H
#define STK_EXEC_DECODE_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_device_batch;
struct stk_pipeline;
struct stk_text;

enum { STK_LEVEL_LEAST = -200, STK_LEVEL_BATCHES = 50, STK_LEVEL_MOST = 100 };

/* The measurements of one window, as fractions of 1. */
struct stk_window_load {
	double busy;      /* fraction of the cores' time that this process's threads used, or the pool's threads if that is more */
	double decoding;  /* fraction of the same time in which the cores decoded files that the GPU could decode */
	double all_files; /* fraction of the same time that the cores would need for all baseline files of the window; -1 if not known */
	double cpu_share; /* CPU time of the decoding that `decoding` counts, divided by its elapsed time. Below 1: other programs or a control group's
	                   * quota took the cores away. 1 if nothing was decoded */
	double waited_share; /* fraction of the window in which the consumer waited for a batch that the cores had not finished */
};

struct stk_decode_level {
	int32_t level;
	bool many_ranks;             /* whether several ranks share the host */
	bool was_full;               /* whether the cores have been fully busy at a level of at most 0, so without baseline files */
	int32_t limit;               /* the maximum to which the level may rise at present */
	int32_t last_good_level;     /* the last level at which the cores kept up for some windows */
	int32_t windows_at_level;    /* number of windows since the level changed */
	int32_t bad_windows;         /* number of windows in a row that showed too much work for the cores */
	int32_t hold_windows;        /* number of coming windows in which the level must not rise */
	int32_t steady_windows;      /* number of windows in a row at level 0 that showed time for all files */
	int32_t idle_windows;        /* number of windows at the limit in which the cores had time left */
	int32_t idle_windows_needed; /* number of windows at the limit, with time left, that must pass before a higher limit is tried */
	int32_t limit_step;          /* amount by which the limit rises at the next try */
};

/* Returns the first level. local_ranks: number of ranks on this host. */
struct stk_decode_level stk__decode_level_start(int local_ranks);
/* Returns the level for the window that follows a window with the load `seen`. */
struct stk_decode_level stk__decode_level_next(struct stk_decode_level now, const struct stk_window_load *seen);

/* The CPU time that the cores take to decode a file. */
struct stk_decode_cost {
	double lone_ns; /* mean CPU time of a file in nanoseconds, measured in windows in which the cores decoded no whole batches; 0: not known */
	double file_ns; /* mean CPU time of a file in nanoseconds, measured in windows in which the cores decoded whole batches; 0: not known */
	int32_t samples;       /* number of lone files that the cores were asked to decode */
	int32_t until_sample;  /* number of windows until the next lone file */
	int32_t until_batches; /* number of windows until the cores may decode batches to measure their files' cost */
};

/* Additional work of the cores in a window, whose cost is measured: none, one file, or some whole batches. */
enum stk_decode_trial { STK_TRY_NOTHING, STK_TRY_FILE, STK_TRY_BATCHES };

/* Adds the measurement of a window at this level, in which the cores decoded `files` files in cpu_ns nanoseconds of CPU time. Later windows count more than
 * earlier ones. Progressive files count too and take longer, so with many of them, the cost is too high, and the cores get baseline files later than they
 * could. */
void stk__decode_cost_add(struct stk_decode_cost *c, int32_t level, int64_t files, double cpu_ns);
/* Returns what the cores decode in the next window to measure its cost. level: the present level. busy: the fraction of the cores' time that was used in
 * the last window. files_per_core_ns: number of baseline files in that window, divided by its length in nanoseconds and by the number of cores. */
enum stk_decode_trial stk__decode_cost_next(struct stk_decode_cost *c, int32_t level, double busy, double files_per_core_ns);

/* The processor that decodes the baseline files of a batch. */
enum stk_batch_side { STK_BATCH_BY_GPU, STK_BATCH_BY_CORES };

/* The running state of a pipeline's decision. Any worker may end a window, one at a time. */
struct stk_decode_side {
	_Atomic int64_t window_ns;   /* stk__clock_ns() at the beginning of the window */
	_Atomic int32_t level;       /* copy of now.level, which any worker may read */
	_Atomic bool was_full;       /* copy of now.was_full, which any worker may read */
	_Atomic bool sample;         /* true if the cores should decode the next baseline file, to measure its cost */
	_Atomic int32_t try_batches; /* number of the next batches that the cores should decode, to measure their files' cost */
	/* grows by the level with each batch; at 100 the cores decode the batch, and 100 is subtracted; guarded by the lock of the pipeline */
	int32_t due_batches;
	_Atomic int64_t files, bytes; /* number of baseline files so far, and their total size */
	double cores;                 /* number of cores that this process may use */
	struct stk_decode_level now;
	struct stk_window_load mean; /* average over the last windows */
	struct stk_decode_cost cost;
	int32_t unseen;          /* number of windows to ignore after a pause of the consumer */
	struct stk_side_totals { /* totals at the window's beginning */
		int64_t cpu_ns, core_ns, core_cpu_ns, late_ns, core_files, files;
	} last;
	_Atomic bool ending_window; /* a worker is ending the window, and owns `now` and `last` meanwhile */
};

void stk__decode_side_init(struct stk_decode_side *s);
/* Decides whether the cores or the GPU decode the files of a batch that is being opened. Call it with the lock held. */
enum stk_batch_side stk__decode_side_of_batch(struct stk_pipeline *p);
/* Returns whether the cores should decode the next file of batch `b`, although the GPU could. size: bytes in the file. Any worker may call it. */
bool stk__decode_side_is_cores(struct stk_pipeline *p, const struct stk_device_batch *b, bool progressive, size_t size);
/* Returns the percentage of baseline files that the cores decode at present. */
int32_t stk__decode_side_share(const struct stk_pipeline *p);
/* Appends a line with the setting `decode` and the share of baseline files that the cores decode at present. */
void stk__decode_side_explain(const struct stk_pipeline *p, struct stk_text *t);

#endif
