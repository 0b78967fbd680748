/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports a pipeline's readers and outputs, an explanation of its program, its counters and its spans. */
#include "exec/device.h"
#include "exec/fetch.h"
#include "exec/resident.h"

#include <string.h>

/* ---- readers ---- */

int32_t stk_pipeline_readers(const struct stk_pipeline *p)
{
	if (!p)
		return 0;
	return p->program->n_readers;
}

static const struct stk_program_node *reader_node(const struct stk_program *g, int32_t reader)
{
	return &g->nodes[g->readers[reader].node];
}

const char *stk_pipeline_reader_name(const struct stk_pipeline *p, int32_t i)
{
	if (!p)
		return NULL;
	const struct stk_program *g = p->program;
	return i >= 0 && i < g->n_readers ? reader_node(g, stk__program_reader_at(g, i))->node->name : NULL;
}

enum stk_status stk_pipeline_reader_meta(struct stk_pipeline *p, const char *name, struct stk_reader_meta *out, struct stk_error *err)
{
	if (STK_NEED(err, p, out))
		return STK_INVALID;
	const struct stk_program *g = p->program;
	int32_t i;
	enum stk_status s = stk__program_reader(g, name, &i, err);
	if (s)
		return s;
	const struct stk_program_node *n = reader_node(g, i);
	const struct stk_order leading = stk__order_copy(p), *o = i == g->leading_reader ? &leading : &p->orders[i];
	int64_t epoch = p->at.step < 0 ? o->start_epoch : p->at.epoch + p->at.last;
	int64_t shard = (o->size + o->ranks - 1) / o->ranks;
	bool known = o->size != STK_ORDER_UNKNOWN;
	*out = (struct stk_reader_meta){.samples = n->def->reader->size(n->shared),
		.epoch_size = known ? o->size : -1,
		.epoch_size_padded = !known                     ? -1
				     : o->tail == STK_TAIL_FILL ? shard * o->ranks
								: o->size,
		.shards = o->ranks,
		.shard_id = o->rank,
		.steps = known ? stk__order_steps(o, epoch) : -1,
		.pad_last_batch = o->tail == STK_TAIL_FILL,
		.stick_to_shard = o->stick_to_shard,
		.wraps = o->tail == STK_TAIL_WRAP,
		.contiguous = o->contiguous,
		.keeps = o->tail == STK_TAIL_KEEP,
		.classes = n->def->reader->classes ? n->def->reader->classes(n->shared) : 0,
		.fingerprint = n->def->reader->fingerprint(n->shared, STK_DIGEST_NOW)};
	return STK_OK;
}

static const struct stk_program_node *by_name(const struct stk_pipeline *p, const char *name)
{
	int32_t i;
	return stk__program_reader(p->program, name, &i, NULL) ? NULL : reader_node(p->program, i);
}

const char *stk_pipeline_class_name(struct stk_pipeline *p, const char *name, int64_t label)
{
	if (!p)
		return NULL;
	const struct stk_program_node *n = by_name(p, name);
	return n && n->def->reader->class_name ? n->def->reader->class_name(n->shared, label) : NULL;
}

int64_t stk_pipeline_reader_skipped(struct stk_pipeline *p, const char *name, const char **text)
{
	const char *none;
	text = text ? text : &none;
	*text = "";
	const struct stk_program_node *n = p ? by_name(p, name) : NULL;
	return n && n->def->reader->skipped ? n->def->reader->skipped(n->shared, text) : 0;
}

int32_t stk_pipeline_outputs(const struct stk_pipeline *p)
{
	if (!p)
		return 0;
	return p->program->n_outputs;
}

enum stk_status stk_pipeline_output_desc(const struct stk_pipeline *p, int32_t output, struct stk_desc *out)
{
	if (!p || !out || output < 0 || output >= p->program->n_outputs)
		return STK_INVALID;
	*out = p->program->values[p->program->outputs[output]].desc;
	return STK_OK;
}

enum stk_status stk_pipeline_explain(struct stk_pipeline *p, bool json, char **out, struct stk_error *err)
{
	if (STK_NEED(err, p, out))
		return STK_INVALID;
	struct stk_text t = {0};
	const struct stk_resident *d = p->parts.resident;
	bool on_gpu = d && d->dev;
	stk__program_explain(p->program, json, on_gpu, d && !on_gpu, &t);
	if (!json && on_gpu)
		stk__text_add(&t,
			"the data set lies on the GPU, %lld samples in %zu MiB: a batch is %d launch%s there, which also makes the draws; "
			"no worker takes part\n",
			(long long)d->samples, d->bytes >> 20, d->n_views, d->n_views > 1 ? "es" : "");
	if (!json && d && !on_gpu)
		stk__text_add(&t, "the data set lies in memory: chains make its images by recipes, and prepare no calls\n");
	if (!json)
		stk__text_add(&t, "%d workers, batches of %d, %d ahead, %s %d slots; reads: %d at a time, %zu MiB ahead\n", p->crew.n,
			p->config.batch_size, p->config.prefetch, p->ring->limit_is_hard ? "at most" : "up to", p->ring->limit,
			p->config.read_requests, p->config.read_bytes >> 20);
	struct stk_device_cores cores;
	int32_t bound = p->parts.device ? stk__pool_pinned(p->pool, &cores) : 0;
	if (!json && p->parts.device)
		stk__device_explain(p, &t);
	if (!json && bound)
		stk__text_add(&t, "%d of the workers stay on the cores near the GPU: %s\n", bound, cores.list);
	*out = t.s;
	return t.failed ? stk__fail(err, STK_NO_MEMORY, "out of memory for an explanation") : STK_OK;
}

/* ---- counters and spans ---- */

/* Returns the largest number of bytes of scratch memory that any worker has used at once, for one sample or for a gather. */
static size_t scratch_bytes(const struct stk_pipeline *p)
{
	size_t most = 0;
	for (int32_t i = 0; i < p->crew.n; i++) {
		size_t peak = atomic_load_explicit(&p->crew.workers[i].scratch_peak, memory_order_relaxed);
		most = peak > most ? peak : most;
	}
	return most;
}

size_t stk_pipeline_counters(struct stk_pipeline *p, struct stk_counter *out, size_t n)
{
	if (!p)
		return 0;
	n = out ? n : 0;
	struct stk_io_counters io;
	stk__io_counters(p->io, &io);
	size_t held_bytes = stk__held_batches_bytes(p);
	pthread_mutex_lock(&p->lock);
	struct stk_fetch_counts reads = stk__fetch_counts(p);
	pthread_mutex_lock(&p->ring->lock); /* threads that do not hold the pipeline's lock may also take slots */
	const struct stk_counter all[] = {
#define COUNTER_ROW(name) {#name, (double)atomic_load_explicit(&p->counters.name, memory_order_relaxed)},
		STK_COUNTERS(COUNTER_ROW)
#undef COUNTER_ROW
			{"scratch_bytes", (double)scratch_bytes(p)},
		{"core_share", p->parts.device ? stk__decode_side_share(p) / 100.0 : 0},
		{"slots", p->ring->n_slots},
		{"slots_out", p->ring->n_out},
		{"slots_peak", p->ring->peak_out},
		{"slot_bytes", (double)p->ring->bytes},
		{"held_bytes", (double)held_bytes},
		{"reads_in_flight", reads.in_flight},
		{"bytes_held", (double)reads.read_bytes},
		{"io_threads", (double)io.threads},
		{"io_buffer_bytes", (double)io.buffers_bytes},
		{"allocations", (double)stk__alloc_count()},
	};
	pthread_mutex_unlock(&p->ring->lock);
	pthread_mutex_unlock(&p->lock);
	size_t total = sizeof all / sizeof *all;
	for (size_t i = 0; i < n && i < total; i++)
		out[i] = all[i];
	return total + (io.remote || io.in_flight || stk__storage_has_cache(p->storage)
				       ? stk_storage_counters(p->storage, n > total ? out + total : NULL, n > total ? n - total : 0)
				       : 0);
}

size_t stk_pipeline_spans(struct stk_pipeline *p, struct stk_span *out, size_t n)
{
	if (!p)
		return 0;
	size_t total = stk__trace_count(p->trace);
	struct stk_trace_span *spans = out && n ? stk__alloc(n * sizeof *spans) : NULL;
	if (!spans)
		return total;
	n = stk__trace_read(p->trace, spans, n);
	for (size_t i = 0; i < n; i++)
		out[i] = (struct stk_span){.name = spans[i].name ? spans[i].name : stk__span_name(spans[i].kind),
			.stage = spans[i].stage,
			.thread = spans[i].thread,
			.batch = spans[i].batch,
			.first = spans[i].first,
			.count = spans[i].count,
			.begin_ns = spans[i].begin_ns,
			.end_ns = spans[i].end_ns};
	stk__free(spans);
	return n;
}
