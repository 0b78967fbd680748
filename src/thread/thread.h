/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of the library, and how many of them this process should have. */
#ifndef STK_THREAD_THREAD_H
#define STK_THREAD_THREAD_H

#include "stoker/status.h"

#include <pthread.h>
#include <sched.h>

/* Starts a thread with every signal blocked (the program's handlers run on its own threads) and a name of up to 15 characters that tools show.
 * STK_SYSTEM when the system refuses. Whoever starts a thread joins it. */
STK_MUST_USE enum stk_status stk__thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg, struct stk_error *err);
void stk__thread_join(pthread_t thread);

/* What limits this process, each by itself, and what follows. */
struct stk_cpu_budget {
	int online;           /* processors of the machine that are up */
	int affinity;         /* processors in the affinity mask */
	double quota;         /* processors' worth of time that the control groups allow (the least of all levels); 0: no limit */
	int local_world_size; /* ranks on this host, LOCAL_WORLD_SIZE; 1 where unset or not a number above 0 */
	int64_t nofile;       /* open files; -1: no limit */
	int64_t memlock;      /* bytes that may be pinned; -1: no limit */
	int cpus;             /* the least of online, affinity and quota (rounded up): of all ranks on the host together */
	int threads;          /* cpus shared out among the ranks, at least 1: how many workers to start */
};

/* Reads the limits anew at each call (some 100 us). Any thread. */
void stk__cpu_budget(struct stk_cpu_budget *b);
/* The control groups' part, with the files below `root` instead of "/". */
double stk__cgroup_quota(const char *root);

/* Cores on a PCI device's side of the machine. */
struct stk_cpu_near {
	cpu_set_t cpus; /* near, and allowed to this process */
	int count;      /* of them */
	int all;        /* allowed or not; 0: the machine does not say */
	char list[96];  /* cpus as "0-15,32-47"; ends in "..." where there are more */
};

/* pci: "0000:3B:00.0". Files below `root` instead of "/". */
void stk__cpus_near(const char *root, const char *pci, const cpu_set_t *allowed, struct stk_cpu_near *out);
/* Fills count and list from cpus. */
void stk__cpus_describe(struct stk_cpu_near *near);

#endif
