/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports how much an object store delivered during a measurement, and what limited it. */
#ifndef STOKER_CLI_STORE_H
#define STOKER_CLI_STORE_H

#include "output.h"

#include "stoker/stoker.h"

/* The storage counters of a pipeline at one moment. */
struct store_snapshot {
	double at; /* time of the snapshot in seconds (wall_seconds) */
	double requests, bytes, retries, hedges, slowdowns, limit, latency_ms, latency_p95_ms, wait_ms, busy_ns;
	double hits, misses; /* numbers of lookups in the cache that found the object, and that did not */
};

/* Returns the value of the counter called `name` among n counters; 0 if it is not among them. */
double counter_value(const struct stk_counter *all, size_t n, const char *name);

struct store_snapshot store_snapshot(struct stk_pipeline *p);

/* Prints a few lines about the lookups in the cache and the requests between two snapshots; prints nothing if there were none. `threads` is the pipeline's
 * number of workers. store_json returns the same as a new object, with zeros if there were none. */
void store_print(const struct store_snapshot *begin, const struct store_snapshot *end, int32_t threads);
json_t *store_json(const struct store_snapshot *begin, const struct store_snapshot *end, int32_t threads);

#endif
