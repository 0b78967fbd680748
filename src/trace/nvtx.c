/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/nvtx.h"

#ifdef STK_NVTX

/* Switches off static injection, for which this library would have to export a symbol. */
#define NVTX_SUPPORT_STATIC_INJECTION_LIBRARY 0
#include <nvtx3/nvToolsExt.h>

/* Converts a handle back to NVTX's type. A struct stk_ranges never exists: the pointer itself is the handle of the NVTX domain, NULL if no tool listens. */
static nvtxDomainHandle_t domain_of(struct stk_ranges *r)
{
	return (nvtxDomainHandle_t)(void *)r;
}

struct stk_ranges *stk__ranges_open(void)
{
	return (struct stk_ranges *)(void *)nvtxDomainCreateA("stoker");
}

void stk__ranges_close(struct stk_ranges *r)
{
	if (r)
		nvtxDomainDestroy(domain_of(r));
}

void stk__range_begin(struct stk_ranges *r, enum stk_span_kind kind, int64_t batch)
{
	if (!r)
		return;
	const nvtxEventAttributes_t a = {.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.payloadType = NVTX_PAYLOAD_TYPE_INT64,
		.payload = {.llValue = batch},
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
		.message = {.ascii = stk__span_name(kind)}};
	nvtxDomainRangePushEx(domain_of(r), &a);
}

void stk__range_end(struct stk_ranges *r)
{
	if (r)
		nvtxDomainRangePop(domain_of(r));
}

#else

struct stk_ranges *stk__ranges_open(void)
{
	return NULL;
}

void stk__ranges_close(struct stk_ranges *r)
{
	(void)r;
}

void stk__range_begin(struct stk_ranges *r, enum stk_span_kind kind, int64_t batch)
{
	(void)r, (void)kind, (void)batch;
}

void stk__range_end(struct stk_ranges *r)
{
	(void)r;
}

#endif
