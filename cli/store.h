/* SPDX-License-Identifier: Apache-2.0
 *
 * What an object store gave during a measurement, and what kept it from giving more. */
#ifndef STOKER_CLI_STORE_H
#define STOKER_CLI_STORE_H

#include "output.h"

#include "stoker/stoker.h"

/* Counters of a pipeline at one time. */
struct store_look {
	double at; /* seconds */
	double requests, bytes, retries, hedges, slowdowns, limit, latency_ms, latency_p95_ms, wait_ms, busy_ns;
	double hits, misses; /* of a cache */
};

struct store_look store_look(struct stk_pipeline *p);

/* Prints a few lines of what came between two looks; nothing where nothing was asked for. threads: workers of the pipeline. */
void store_print(const struct store_look *begin, const struct store_look *end, int32_t threads);
json_t *store_json(const struct store_look *begin, const struct store_look *end, int32_t threads);

#endif
