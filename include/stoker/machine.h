/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes the machine as Stoker sees it, and this build. Nothing is cached: each call reads the system again. Any thread. */
#ifndef STOKER_MACHINE_H
#define STOKER_MACHINE_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What Stoker knows about the machine. Numbers of bytes and counts are -1 if the system does not report them or sets no limit. */
struct stk_machine {
	size_t size;                        /* sizeof(struct stk_machine), set by the caller */
	const char *cpu_level;              /* the kernels that run: "avx2", "neon" or "c" (STOKER_CPU=c requests the last) */
	int32_t cpus_online;                /* CPUs of the machine */
	int32_t cpus_allowed;               /* CPUs that the affinity mask allows */
	double cpu_quota;                   /* number of CPUs whose time the cgroup grants, which may be a fraction; 0: no quota */
	int32_t local_ranks;                /* LOCAL_WORLD_SIZE, or 1 */
	int32_t threads;                    /* number of workers of a context by default */
	int64_t memory;                     /* size of the machine's memory in bytes */
	int64_t memory_limit;               /* the cgroup's limit in bytes */
	int64_t memory_free;                /* bytes available now, including the page cache */
	int64_t open_files, open_files_max; /* the soft and the hard RLIMIT_NOFILE */
	int64_t locked_memory;              /* the soft RLIMIT_MEMLOCK in bytes */
	bool cuda_built;                    /* CUDA kernels are in this build */
	const char *cuda_archs;             /* architectures that this build has kernels for, "75 80 90"; "" if it has none */
	int32_t cuda_needed;                /* CUDA version that the build's kernels need (12000 is 12.0); 0 without kernels */
};

STK_API STK_MUST_USE enum stk_status stk_machine_probe(struct stk_machine *out, struct stk_error *err);

/* Facts about the CUDA driver. stk_cuda_probe starts CUDA in this process, after which a forked child cannot use CUDA. */
struct stk_cuda_info {
	size_t size;       /* sizeof(struct stk_cuda_info), set by the caller */
	int32_t driver;    /* the CUDA version that the driver supports (12000 is 12.0); 0: no driver works */
	int32_t gpus;      /* visible GPUs (CUDA_VISIBLE_DEVICES hides some) */
	char problem[512]; /* the reason why no driver works, or "" */
};
STK_API STK_MUST_USE enum stk_status stk_cuda_probe(struct stk_cuda_info *out, struct stk_error *err);

struct stk_gpu_info {
	size_t size; /* sizeof(struct stk_gpu_info), set by the caller */
	char name[128], pci[16];
	int64_t memory;       /* size of the GPU's memory in bytes */
	int32_t major, minor; /* compute capability */
	int32_t processors;   /* number of multiprocessors */
	int32_t cpus_near;    /* number of CPUs on the GPU's NUMA node, including those that this process may not use; 0: unknown */
	char cpus[96];        /* the near CPUs that this process may use: "0-15,32-47"; "" for none; ends in "..." if cut */
};
/* Describes GPU number i. STK_INVALID: no GPU has that number. STK_NOT_FOUND, STK_STATE, STK_CUDA: no driver can be used. Starts CUDA, see stk_cuda_info. */
STK_API STK_MUST_USE enum stk_status stk_gpu_info(int32_t i, struct stk_gpu_info *out, struct stk_error *err);

/* A library that this build contains or loads: its name, its version and its use. The strings are constant. */
struct stk_library_info {
	const char *name, *version, *use;
};
/* Describes library number i; returns false if i is out of range. Loads libcurl and FFmpeg if they are installed. */
STK_API bool stk_library_info(size_t i, struct stk_library_info *out);

#ifdef __cplusplus
}
#endif
#endif
