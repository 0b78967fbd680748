/* SPDX-License-Identifier: Apache-2.0
 * The counters of nvtx_tool.c, which counts NVTX ranges and wrong calls. Tests look up nvtx_tool_read in the library that NVTX has loaded. */
#ifndef STK_TEST_NVTX_TOOL_H
#define STK_TEST_NVTX_TOOL_H

struct nvtx_tool_kind {
	char name[32];
	long begun, batches; /* begun: number of ranges; batches: sum of their payloads */
};

struct nvtx_tool_counts {
	struct nvtx_tool_kind kinds[16];
	long domains, ours; /* domains: number of domains that exist now; ours: number of domains created with the name "stoker" */
	long open, wrong;   /* open: number of ranges that have begun but not ended; wrong: number of invalid calls */
};

void nvtx_tool_read(struct nvtx_tool_counts *out);

#endif
