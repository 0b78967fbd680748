/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins workers that feed a GPU to the cores near it, so that pinned memory that they allocate and write is on the GPU's NUMA node. Pins only as many
 * workers as there are near cores for this rank, and leaves the other near cores to other ranks on this host. The remaining workers run on any core. If
 * the machine does not report which cores are near, or if the process may not use any of them, no worker is pinned. */
#include "exec/context.h"

#include "thread/thread.h"

#include <stdlib.h>
#include <string.h>

static bool pinning_disabled(void)
{
	const char *s = getenv("STOKER_AFFINITY");
	return s && strcmp(s, "0") == 0;
}

/* Returns the number of ranks on this host whose GPU has the same near cores. Assumes that each visible GPU has the same number of ranks. */
static int ranks_sharing_cores(const struct stk_context *ctx, const char *root, const struct stk_device_cores *cores)
{
	struct stk_cpu_budget budget;
	int same = 0, count = stk__gpu_count(ctx->gpu);
	for (int i = 0; i < count; i++) {
		struct stk_gpu_facts facts;
		struct stk_device_cores other = {0};
		if (stk__gpu_facts(ctx->gpu, i, &facts, NULL) == STK_OK)
			stk__device_cores(root, facts.pci, &ctx->allowed, &other);
		same += CPU_EQUAL(&cores->cpus, &other.cpus);
	}
	stk__cpu_budget(&budget);
	return same ? (budget.local_world_size * same + count - 1) / count : budget.local_world_size;
}

void stk__context_pin_workers(struct stk_context *ctx, struct stk_pool *pool, const char *root, const struct stk_gpu_device *dev)
{
	struct stk_device_cores cores, pinned;
	if (pinning_disabled())
		return;
	pthread_mutex_lock(&ctx->gpu_lock);
	stk__device_cores(root, stk__gpu_device_facts(dev)->pci, &ctx->allowed, &cores);
	bool restricts = cores.count > 0 && !CPU_EQUAL(&cores.cpus, &ctx->allowed);
	int32_t n = stk__pool_pinned(pool, &pinned);
	if (restricts || (cores.count > 0 && n > 0)) { /* the near cores of a second GPU are added to those of the first */
		int ranks = ranks_sharing_cores(ctx, root, &cores);
		CPU_OR(&pinned.cpus, &pinned.cpus, &cores.cpus);
		stk__device_cores_list(&pinned);
		stk__pool_pin(pool, &pinned, pinned.count / ranks > 0 ? pinned.count / ranks : 1);
	}
	pthread_mutex_unlock(&ctx->gpu_lock);
}
