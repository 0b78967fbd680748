/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins workers that feed a GPU to the cores near it, so that the pinned memory that they take and write to belongs to the GPU's
 * NUMA node. Only as many workers are pinned as there are cores for them after other ranks have theirs. The other workers run on
 * any core, and so do all of them if the machine does not report which cores are near, or if none of those is allowed. */
#include "exec/context.h"

#include "thread/thread.h"

#include <stdlib.h>
#include <string.h>

static bool switched_off(void)
{
	const char *s = getenv("STOKER_AFFINITY");
	return s && strcmp(s, "0") == 0;
}

/* Returns the number of ranks on this host whose GPU has the same cores near it, if each visible GPU has equally many ranks. */
static int ranks_sharing_cores(const struct stk_context *ctx, const char *root, const struct stk_cpu_near *near)
{
	struct stk_cpu_budget budget;
	int same = 0, count = stk__gpu_count(ctx->gpu);
	for (int i = 0; i < count; i++) {
		struct stk_gpu_facts facts;
		struct stk_cpu_near other = {0};
		if (stk__gpu_facts(ctx->gpu, i, &facts, NULL) == STK_OK)
			stk__cpus_near(root, facts.pci, &ctx->allowed, &other);
		same += CPU_EQUAL(&near->cpus, &other.cpus);
	}
	stk__cpu_budget(&budget);
	return same ? (budget.local_world_size * same + count - 1) / count : budget.local_world_size;
}

void stk__context_stay_near(struct stk_context *ctx, const char *root, const struct stk_gpu_device *dev)
{
	struct stk_cpu_near near;
	if (switched_off())
		return;
	pthread_mutex_lock(&ctx->gpu_lock);
	stk__cpus_near(root, stk__gpu_device_facts(dev)->pci, &ctx->allowed, &near);
	bool restricts = near.count > 0 && !CPU_EQUAL(&near.cpus, &ctx->allowed);
	if (restricts || (near.count > 0 && ctx->bound > 0)) { /* a second GPU's cores are added to those of the first */
		int ranks = ranks_sharing_cores(ctx, root, &near);
		CPU_OR(&ctx->near.cpus, &ctx->near.cpus, &near.cpus);
		stk__cpus_describe(&ctx->near);
		ctx->bound = stk__pool_bind(ctx->pool, &ctx->near.cpus, ctx->near.count / ranks > 0 ? ctx->near.count / ranks : 1);
	}
	pthread_mutex_unlock(&ctx->gpu_lock);
}

int32_t stk__context_near(struct stk_context *ctx, struct stk_cpu_near *near)
{
	pthread_mutex_lock(&ctx->gpu_lock);
	*near = ctx->near;
	int32_t bound = ctx->bound;
	pthread_mutex_unlock(&ctx->gpu_lock);
	return bound;
}
