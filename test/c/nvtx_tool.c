/* SPDX-License-Identifier: Apache-2.0
 * A tool for NVTX, to be loaded through NVTX_INJECTION64_PATH: it counts ranges. */
#include "nvtx_tool.h"

#include <pthread.h>
#include <string.h>

#include <nvtx3/nvToolsExt.h>

#define SHOWN __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvtx_tool_counts counts;
static _Thread_local int depth;

static nvtxDomainHandle_t create_domain(const char *name)
{
	pthread_mutex_lock(&lock);
	counts.domains++;
	counts.ours += strcmp(name, "stoker") == 0;
	pthread_mutex_unlock(&lock);
	return (nvtxDomainHandle_t)(void *)&counts;
}

static void destroy_domain(nvtxDomainHandle_t domain)
{
	(void)domain;
	pthread_mutex_lock(&lock);
	counts.domains--;
	pthread_mutex_unlock(&lock);
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
	pthread_mutex_lock(&lock);
	struct nvtx_tool_kind *k = counts.kinds;
	while (k->name[0] && strcmp(k->name, a->message.ascii) != 0)
		k++;
	strncpy(k->name, a->message.ascii, sizeof k->name - 1);
	k->begun++;
	k->batches += a->payload.llValue;
	counts.wrong += domain != (nvtxDomainHandle_t)(void *)&counts || a->payloadType != NVTX_PAYLOAD_TYPE_INT64;
	counts.open++;
	pthread_mutex_unlock(&lock);
	return depth++;
}

static int pop(nvtxDomainHandle_t domain)
{
	(void)domain;
	pthread_mutex_lock(&lock);
	counts.open--;
	counts.wrong += depth < 1;
	pthread_mutex_unlock(&lock);
	return --depth;
}

SHOWN void nvtx_tool_read(struct nvtx_tool_counts *out)
{
	pthread_mutex_lock(&lock);
	*out = counts;
	pthread_mutex_unlock(&lock);
}

SHOWN int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
SHOWN int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
	const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
	NvtxFunctionTable table = NULL;
	unsigned int size = 0;
	if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) || size <= NVTX_CBID_CORE2_DomainDestroy)
		return 0;
	*table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
	*table[NVTX_CBID_CORE2_DomainDestroy] = (NvtxFunctionPointer)destroy_domain;
	*table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
	*table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
	return 1;
}
