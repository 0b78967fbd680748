/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include "progress.h"

#include <stdio.h>
#include <string.h>

enum bound { BOUND_CORES, BOUND_RATE_LIMIT, BOUND_LATENCY, BOUND_NETWORK };

static const char *const names[] = {"cores", "rate limit", "latency", "network"};
static const char *const advice[] = {"the cores: the store gives as much as they can decode. More cores would help, or a GPU (--device)",
	"the store's rate limit: it answered 503. More prefixes in the bucket, larger objects (tars) or a cache (--cache) would help",
	"the store's latency: as many requests as allowed are under way. More of them (read_requests, read_bytes), larger objects (tars) or a cache (--cache) "
	"would help",
	"the network, or what the store gives one client: answers take longer the more is asked for. A cache (--cache), or smaller images, would help"};

double counter_value(const struct stk_counter *all, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(all[i].name, name))
			return all[i].value;
	}
	return 0;
}

struct store_snapshot store_snapshot(struct stk_pipeline *p)
{
	struct stk_counter all[128];
	size_t n = stk_pipeline_counters(p, all, 128);
	n = n < 128 ? n : 128;
	return (struct store_snapshot){.at = wall_seconds(),
		.requests = counter_value(all, n, "storage_requests"),
		.bytes = counter_value(all, n, "storage_bytes"),
		.retries = counter_value(all, n, "storage_retries"),
		.hedges = counter_value(all, n, "storage_hedges"),
		.slowdowns = counter_value(all, n, "storage_slowdowns"),
		.limit = counter_value(all, n, "storage_limit"),
		.latency_ms = counter_value(all, n, "storage_latency_ms"),
		.latency_p95_ms = counter_value(all, n, "storage_latency_ms_p95"),
		.wait_ms = counter_value(all, n, "storage_wait_ms"),
		.busy_ns = counter_value(all, n, "busy_ns"),
		.hits = counter_value(all, n, "cache_hits"),
		.misses = counter_value(all, n, "cache_misses")};
}

/* Decides what limits the rate: the cores if the workers were busy for over 80% of the time; the store if it has asked the storage to send fewer requests.
 * If requests wait longer than an answer takes, while nearly as many as allowed are under way, the limit is the network: the storage would have raised its
 * own limit if more requests brought more bytes. Otherwise it is the latency of the requests. */
static enum bound bound_of(const struct store_snapshot *a, const struct store_snapshot *b, int32_t threads)
{
	const double seconds = b->at - a->at, requests = b->requests - a->requests;
	/* The mean number of requests under way, by Little's law. */
	const double under_way = seconds > 0 ? requests / seconds * b->latency_ms / 1e3 : 0;
	if (b->busy_ns - a->busy_ns > 0.8e9 * threads * seconds)
		return BOUND_CORES;
	if (b->slowdowns > a->slowdowns)
		return BOUND_RATE_LIMIT;
	return b->wait_ms > b->latency_ms && under_way > 0.8 * b->limit ? BOUND_NETWORK : BOUND_LATENCY;
}

void store_print(const struct store_snapshot *a, const struct store_snapshot *b, int32_t threads)
{
	const double seconds = b->at - a->at, requests = b->requests - a->requests;
	if (b->hits + b->misses > a->hits + a->misses)
		printf("The cache held %.0f%% of the objects.\n", 100 * (b->hits - a->hits) / (b->hits + b->misses - a->hits - a->misses));
	if (requests <= 0 || seconds <= 0)
		return;
	printf("The store gave %.0f objects/s and %.1f MB/s; an answer took %.0f ms, one in twenty over %.0f ms", requests / seconds,
		(b->bytes - a->bytes) / seconds / 1e6, b->latency_ms, b->latency_p95_ms);
	printf("; %.0f tries were repeated, %.0f late ones asked for twice.\n", b->retries - a->retries, b->hedges - a->hedges);
	printf("What bounds it is %s.\n", advice[bound_of(a, b, threads)]);
}

json_t *store_json(const struct store_snapshot *a, const struct store_snapshot *b, int32_t threads)
{
	const double seconds = b->at - a->at;
	json_t *o = json_object();
	put_real(o, "objects_per_s", seconds > 0 ? (b->requests - a->requests) / seconds : 0);
	put_real(o, "bytes_per_s", seconds > 0 ? (b->bytes - a->bytes) / seconds : 0);
	put_real(o, "latency_ms", b->latency_ms);
	put_real(o, "latency_ms_p95", b->latency_p95_ms);
	put_real(o, "retries", b->retries - a->retries);
	put_real(o, "hedges", b->hedges - a->hedges);
	put_real(o, "slowdowns", b->slowdowns - a->slowdowns);
	put_real(o, "cache_hits", b->hits - a->hits);
	put_real(o, "cache_misses", b->misses - a->misses);
	put_text(o, "bound", names[bound_of(a, b, threads)]);
	return o;
}
