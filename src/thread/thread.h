/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the library's threads, and determines how many of them this process should have. */
#ifndef STK_THREAD_THREAD_H
#define STK_THREAD_THREAD_H

#include "stoker/status.h"

#include <pthread.h>
#include <sched.h>

/* Starts a thread with every signal blocked, so that the program's signal handlers run on the program's own threads. name: what tools show; cut to 15
 * characters. The caller must join or detach the thread. STK_SYSTEM: the system refuses. */
STK_MUST_USE enum stk_status stk__thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg, struct stk_error *err);
void stk__thread_join(pthread_t thread);
/* Initialises a condition variable whose timed waits use CLOCK_MONOTONIC, as stk__clock_ns does. */
void stk__cond_init(pthread_cond_t *cond);

/* The limits of this process, and the number of threads that follows from them. */
struct stk_cpu_budget {
	int online;           /* number of the machine's processors that are online */
	int affinity;         /* number of processors in the affinity mask */
	double quota;         /* number of processors whose time the control groups allow (the least of all levels); 0: no limit */
	int local_world_size; /* number of ranks on this host, LOCAL_WORLD_SIZE; 1 if that is unset or not a number above 0 */
	int64_t nofile;       /* maximum number of open files; -1: no limit */
	int64_t memlock;      /* maximum number of pinned bytes; -1: no limit */
	int cpus;             /* minimum of online, affinity and quota (rounded up), for all ranks on the host together */
	int threads;          /* number of workers to start: cpus divided by the number of ranks, at least 1 */
};

/* Reads the limits, which takes some 100 us. Any thread. */
void stk__cpu_budget(struct stk_cpu_budget *b);
/* Returns the number of processors whose time the control groups allow; 0: no limit, or not known. root: prefix of the paths to read; "" except in tests. */
double stk__cgroup_quota(const char *root);

/* The cores that the kernel reports as local to a PCI device. */
struct stk_device_cores {
	cpu_set_t cpus; /* cores near the device that this process may use */
	int count;      /* number of cores in cpus */
	int n_near;     /* number of cores near the device, including those that this process may not use; 0: the machine does not say */
	char list[96];  /* cpus as "0-15,32-47"; ends in "..." if the text does not fit */
};

/* Finds the cores near a device. pci: "0000:3B:00.0". allowed: the cores that this process may use. root: prefix of the paths to read. If the machine does
 * not report which cores are near, *out is all zero. */
void stk__device_cores(const char *root, const char *pci, const cpu_set_t *allowed, struct stk_device_cores *out);
/* Sets count and list from cpus. */
void stk__device_cores_list(struct stk_device_cores *cores);

#endif
