/* SPDX-License-Identifier: Apache-2.0 */
#include "stoker/machine.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/machine_memory.h"
#include "gpu/gpu.h"
#include "thread/thread.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Returns the memory limit of the control group in bytes: that of version 2 as a container sees it, otherwise that of version 1, which uses a huge number
 * for "no limit". -1: no limit below `memory`, the machine's memory. */
static int64_t memory_limit(int64_t memory)
{
	int64_t limit = stk__kernel_number("/sys/fs/cgroup/memory.max", "");
	if (limit < 0)
		limit = stk__kernel_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", "");
	return limit < 0 || (memory > 0 && limit >= memory) ? -1 : limit;
}

static void probe_cores(struct stk_machine *m)
{
	struct stk_cpu_budget budget;
	stk__cpu_budget(&budget);
	m->cpu_level = stk__cpu_name(stk__cpu_capabilities());
	m->cpus_online = budget.online;
	m->cpus_allowed = budget.affinity;
	m->cpu_quota = budget.quota;
	m->local_ranks = budget.local_world_size;
	m->threads = budget.threads;
	m->open_files = budget.nofile;
	m->locked_memory = budget.memlock;
}

static void probe_limits(struct stk_machine *m)
{
	struct rlimit files = {0};
	getrlimit(RLIMIT_NOFILE, &files);
	m->open_files_max = files.rlim_max == RLIM_INFINITY ? -1 : (int64_t)files.rlim_max;
	int64_t kib = stk__kernel_number("/proc/meminfo", "MemTotal:"), free_kib = stk__kernel_number("/proc/meminfo", "MemAvailable:");
	m->memory = kib < 0 ? -1 : kib * 1024;
	m->memory_free = free_kib < 0 ? -1 : free_kib * 1024;
	m->memory_limit = memory_limit(m->memory);
}

static void probe_build(struct stk_machine *m)
{
	struct stk_gpu_build build = stk__gpu_build();
	m->cuda_built = build.modules > 0;
	m->cuda_archs = m->cuda_built ? build.archs : "";
	m->cuda_needed = m->cuda_built ? build.min_driver : 0;
}

enum stk_status stk_cuda_probe(struct stk_cuda_info *out, struct stk_error *err)
{
	struct stk_gpu *gpu;
	struct stk_error why = {0};
	if (!out || out->size < sizeof *out)
		return stk__fail(err, STK_INVALID, "stk_cuda_probe needs a struct stk_cuda_info whose size is set");
	*out = (struct stk_cuda_info){.size = out->size};
	enum stk_status s = stk__gpu_open(&gpu, &why);
	if (s == STK_OK) {
		out->driver = stk__gpu_driver_version(gpu);
		out->gpus = stk__gpu_count(gpu);
		stk__gpu_close(gpu);
	}
	snprintf(out->problem, sizeof out->problem, "%.500s", s ? why.message : "");
	return STK_OK;
}

enum stk_status stk_gpu_info(int32_t i, struct stk_gpu_info *out, struct stk_error *err)
{
	struct stk_gpu *gpu;
	struct stk_gpu_facts facts;
	if (!out || out->size < sizeof *out)
		return stk__fail(err, STK_INVALID, "stk_gpu_info needs a struct stk_gpu_info whose size is set");
	enum stk_status s = stk__gpu_open(&gpu, err);
	if (s)
		return s;
	s = stk__gpu_facts(gpu, i, &facts, err);
	stk__gpu_close(gpu);
	if (s)
		return s;
	*out = (struct stk_gpu_info){.size = out->size,
		.memory = (int64_t)facts.memory,
		.major = facts.major,
		.minor = facts.minor,
		.processors = facts.processors};
	memcpy(out->name, facts.name, sizeof out->name);
	memcpy(out->pci, facts.pci, sizeof out->pci);
	cpu_set_t allowed;
	struct stk_device_cores cores = {0};
	if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
		stk__device_cores("", facts.pci, &allowed, &cores);
	out->cpus_near = cores.n_near;
	memcpy(out->cpus, cores.list, sizeof out->cpus);
	return STK_OK;
}

enum stk_status stk_machine_probe(struct stk_machine *out, struct stk_error *err)
{
	if (!out || out->size < sizeof(*out))
		return stk__fail(err, STK_INVALID, "stk_machine_probe needs a struct stk_machine whose size is set");
	*out = (struct stk_machine){.size = out->size};
	probe_cores(out);
	probe_limits(out);
	probe_build(out);
	return STK_OK;
}
