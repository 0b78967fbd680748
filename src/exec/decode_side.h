/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides for each file whether the cores or the GPU decode it, for pipelines on a GPU. Both give the same bytes.
 *
 * A training loop needs its GPU and leaves most cores idle: then the cores should decode as much as they can. If a loop takes batches as fast as possible,
 * or has only two cores, the cores have enough to do with reading: then the GPU should decode. One number, the level, determines the decision:
 *
 *   -200 to 0: the GPU decodes all baseline files. The cores decode progressive files above a size, which is -level hundredths of their
 *              mean size. A progressive file takes the GPU milliseconds, so the cores also decode all of them if they are few.
 *   0 to 100:  the cores decode all progressive files and this percentage of the baseline files. From 50 on, the cores decode whole
 *              batches: if only a few files of a batch are left to the GPU, it takes nearly as long as for all of them, so only batches
 *              in which the GPU decodes no file save its time. The level does not stay between 0 and 50: it rises if the cores have time
 *              to decode all files, and otherwise returns to 0.
 *
 * Ranks that share a host wait for each other in each step, so one late batch (for example, because a level is being tried) costs all of them time. With
 * several ranks the level therefore stays at most 0.
 *
 * The level changes once per window of some tenths of a second, depending on measurements in that window. stk__decode_level_next is this policy, without
 * clocks or threads. */
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
	double decoding;  /* fraction of the same time in which the cores decoded baseline files for the GPU */
	double cpu_share; /* CPU time divided by elapsed time of that decoding. Below 1, other programs or the control group's quota took the
	             * cores away. 1 if nothing was decoded */
	double waited_share; /* fraction of the window in which the consumer waited for a batch that the cores had not finished */
};

struct stk_decode_level {
	int32_t level;
	int32_t limit;               /* the maximum to which the level may rise at present */
	int32_t max_limit;           /* highest limit */
	int32_t last_good_level;     /* the last level that worked for some windows */
	int32_t windows_at_level;    /* number of windows since the level changed */
	int32_t bad_windows;         /* number of windows in a row that showed too much work for the cores */
	int32_t hold_windows;        /* number of windows in which the level must not rise */
	int32_t idle_windows;        /* number of windows at the limit in which the cores had time left */
	int32_t idle_windows_needed; /* number of such windows before a higher limit is tried */
	int32_t limit_step;          /* how far the limit rises at the next try */
};

/* Returns the first level. local_ranks: number of ranks on this host. */
struct stk_decode_level stk__decode_level_start(int local_ranks);
/* Returns the level that follows a window. */
struct stk_decode_level stk__decode_level_next(struct stk_decode_level now, const struct stk_window_load *seen);

/* Who decodes the baseline files of a batch: decided for each file, or all by the GPU, or all by the cores. */
enum stk_batch_side { STK_BATCH_BY_FILE, STK_BATCH_BY_GPU, STK_BATCH_BY_CORES };

/* The running state of a pipeline's decision. Any worker may end a window, one at a time. */
struct stk_decode_side {
	_Atomic int64_t window_ns; /* time at which the window began */
	_Atomic int32_t level;     /* copy of now.level, which any worker may read */
	_Atomic int32_t files_due; /* number of files that the cores should decode next, in hundredths of a file */
	int32_t due_batches;       /* number of batches that the cores should decode next, in hundredths of a batch; guarded by the
	                      * pipeline's lock */
	_Atomic int64_t files, bytes;
	double cores; /* number of cores that this process may use */
	struct stk_decode_level now;
	struct stk_window_load mean; /* average over the last windows */
	int32_t unseen;              /* number of windows to ignore after a pause of the consumer */
	struct stk_side_totals {     /* totals at the window's beginning */
		int64_t cpu_ns, core_ns, core_cpu_ns, late_ns;
	} last;
	_Atomic bool ending_window; /* a worker is ending the window; until it is done it owns `now` and `last` */
};

void stk__decode_side_init(struct stk_decode_side *s);
/* Decides who decodes the files of a batch that is being opened. Call it with the lock held. */
enum stk_batch_side stk__decode_side_of_batch(struct stk_pipeline *p);
/* Returns whether the cores should decode the batch's next file; called for files that the GPU could decode too. Any worker may call it. */
bool stk__decode_side_is_cores(struct stk_pipeline *p, const struct stk_device_batch *b, bool progressive, size_t size);
/* Returns the percentage of baseline files that the cores decode at present. */
int32_t stk__decode_side_share(const struct stk_pipeline *p);
/* Appends a line that says which side decodes. */
void stk__decode_side_explain(const struct stk_pipeline *p, struct stk_text *t);

#endif
