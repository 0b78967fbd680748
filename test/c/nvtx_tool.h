/* SPDX-License-Identifier: Apache-2.0
 * What the tool for NVTX saw. The test finds nvtx_tool_read in the library that NVTX loaded. */
#ifndef STK_TEST_NVTX_TOOL_H
#define STK_TEST_NVTX_TOOL_H

struct nvtx_tool_kind {
	char name[32];
	long begun, batches; /* ranges, and the sum of their payloads */
};

struct nvtx_tool_counts {
	struct nvtx_tool_kind kinds[16];
	long domains, ours; /* there now; made with the name "stoker" */
	long open, wrong;   /* ranges begun and not ended; calls that make no sense */
};

void nvtx_tool_read(struct nvtx_tool_counts *out);

#endif
