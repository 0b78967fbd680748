/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the library's threads, and determines how many of them this process should have. */
#ifndef STK_THREAD_THREAD_H
#define STK_THREAD_THREAD_H

#include "stoker/status.h"

#include <pthread.h>
#include <sched.h>

/* Starts a thread with every signal blocked (the program's handlers run on the program's own threads) and a name of up to 15 characters that tools show.
 * STK_SYSTEM if the system refuses. The caller must join or detach the thread. */
STK_MUST_USE enum stk_status stk__thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg, struct stk_error *err);
void stk__thread_join(pthread_t thread);
/* Initialises a condition variable whose timed waits count by CLOCK_MONOTONIC, as stk__clock_ns does. */
void stk__cond_init(pthread_cond_t *cond);

/* The limits of this process, each on its own, and the number of threads that follows from them. */
struct stk_cpu_budget {
	int online;           /* processors of the machine that are up */
	int affinity;         /* processors in the affinity mask */
	double quota;         /* number of processors whose time the control groups allow (the least of all levels); 0: no limit */
	int local_world_size; /* ranks on this host, LOCAL_WORLD_SIZE; 1 if that is unset or not a number above 0 */
	int64_t nofile;       /* limit of open files; -1: no limit */
	int64_t memlock;      /* limit of the bytes that may be pinned; -1: no limit */
	int cpus;             /* the least of online, affinity and quota (rounded up), for all ranks on the host together */
	int threads;          /* cpus divided by the ranks, at least 1: how many workers to start */
};

/* Reads the limits; each call reads them again, which takes some 100 us. Any thread. */
void stk__cpu_budget(struct stk_cpu_budget *b);
/* Returns the number of processors whose time the control groups allow; 0: no limit, or not known. Reads files below `root` instead of "/"; "" stands for
 * "/". */
double stk__cgroup_quota(const char *root);

/* The cores that the kernel reports as local to a PCI device. */
struct stk_device_cores {
	cpu_set_t cpus; /* cores near the device that this process may use */
	int count;      /* number of cores in cpus */
	int n_near;     /* number of cores near the device, including those that this process may not use; 0: the machine does not say */
	char list[96];  /* cpus as "0-15,32-47"; ends in "..." if the text does not fit */
};

/* Finds the cores near a device. pci: "0000:3B:00.0". allowed: the cores that this process may use. Reads files below `root` instead of "/". If the machine
 * does not say which cores are near, *out is all zero. */
void stk__device_cores(const char *root, const char *pci, const cpu_set_t *allowed, struct stk_device_cores *out);
/* Fills count and list from cpus. */
void stk__device_cores_list(struct stk_device_cores *cores);

#endif
