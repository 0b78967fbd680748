/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a program can read its images from a data set that stays decoded in memory, and uploads the data set if the program runs on the GPU.
 * Calls each operator's own functions, as for a sample, so this file does not know any operator by name. */
#include "exec/resident.h"

#include "exec/chain.h"
#include "exec/device.h"
#include "kernel/convert/convert.h"

#include <string.h>

/* What is known about the program so far, while it is examined. The arrays are in host memory. */
struct plan {
	struct stk_pipeline *p;
	struct stk_chain_run run; /* run of a sample of the first record on the first worker; neither is in use yet */
	struct stk_resident *d;
	bool *known;  /* [node]: true if its outputs depend only on the sample's id */
	bool *needed; /* [node]: true if tables or images need its outputs */
	bool gpu;
	int32_t images[STK_RESIDENT_VIEWS]; /* values that the views read */
	uint8_t *tables[STK_RECIPE_TABLES]; /* [table]: the values of all samples, indexed by sample id */
	size_t image_bytes;                 /* size in bytes of one sample's image */
	const uint8_t *base;                /* first byte of the images, which is the same for all views */
	int64_t samples;
};

/* ---- values that depend only on the sample's id ---- */

static void find_known(struct plan *plan)
{
	const struct stk_program *g = plan->p->program;
	for (int32_t i = 0; i < g->n_nodes; i++) {
		const struct stk_program_node *n = &g->nodes[i];
		plan->known[i] =
			!(n->def->flags & (STK_OP_RANDOM | STK_OP_CALLBACK)) && n->gathers < 0 && stk__op_runs(n->def) && !n->def->fetch;
		for (int32_t k = 0; k < stk__program_sources(n); k++)
			plan->known[i] &= plan->known[g->values[stk__program_source(n, k)].node];
	}
}

static void need(struct plan *plan, int32_t node)
{
	const struct stk_program *g = plan->p->program;
	plan->needed[node] = true;
	for (int32_t i = node; i >= 0; i--) /* backwards, since operators come after their inputs */
		for (int32_t k = 0; plan->needed[i] && k < stk__program_sources(&g->nodes[i]); k++)
			plan->needed[g->values[stk__program_source(&g->nodes[i], k)].node] = true;
}

static bool same_shape(const struct stk_desc *a, const struct stk_desc *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       memcmp(a->shape, b->shape, (size_t)(a->ndim > 0 ? a->ndim : 0) * sizeof *a->shape) == 0;
}

/* Runs the needed operators for the sample `id`. Returns false if an operator failed; the error is reported when a batch contains the sample. */
static bool evaluate(struct plan *plan, int64_t id)
{
	const struct stk_program *g = plan->p->program;
	struct stk_exec_worker *w = plan->run.worker;
	plan->run.record->samples[0].place = (struct stk_place){.position = id, .sample = id};
	for (int32_t i = 0; i < g->n_nodes; i++) {
		struct stk_call call;
		bool views = true;
		if (!plan->needed[i])
			continue;
		if (stk__call_prepare(&plan->run, i, &call, NULL) || call.def->infer(&call, NULL))
			return false;
		for (int32_t k = 0; k < call.n_out; k++) {
			int64_t bytes = stk_desc_bytes(&call.out[k].desc);
			views &= call.out[k].data != NULL;
			if (!call.out[k].data && bytes >= 0)
				call.out[k].data = stk__arena_take(&w->arena, (size_t)bytes);
			if (!call.out[k].data)
				return false;
		}
		if (!views && stk__op_run(&call, NULL))
			return false;
	}
	return true;
}

/* Fills in the tables for all samples. Returns false if a sample fails, has a value of another shape, or has its image at another address than expected. */
static bool evaluate_all(struct plan *plan)
{
	const struct stk_program *g = plan->p->program;
	struct stk_exec_worker *w = plan->run.worker;
	bool ok = true;
	for (int64_t id = 0; id < plan->samples && ok; id++) {
		ok = evaluate(plan, id);
		for (int32_t v = 0; v < plan->d->n_views && ok; v++)
			ok = w->values[plan->images[v]].data == plan->base + (size_t)id * plan->image_bytes;
		for (int32_t t = 0; t < plan->d->n_tables && ok; t++) {
			int32_t value = plan->d->tables[t];
			size_t bytes = (size_t)stk_desc_bytes(&g->values[value].desc);
			ok = same_shape(&w->values[value].desc, &g->values[value].desc);
			if (ok)
				memcpy(plan->tables[t] + (size_t)id * bytes, w->values[value].data, bytes);
		}
		stk__worker_end_sample(w);
	}
	return ok;
}

/* ---- an operator in a recipe ---- */

/* The coin flips whose results are arguments of one operator, each listed once. */
struct coins {
	int32_t node[STK_RECIPE_COINS];
	struct stk_recipe_coin coin[STK_RECIPE_COINS];
	int32_t n;
};

static bool add_coin(struct plan *plan, int32_t value, struct coins *coins)
{
	const struct stk_program *g = plan->p->program;
	int32_t index = g->values[value].node;
	const struct stk_program_node *n = &g->nodes[index];
	struct stk_call call;
	for (int32_t k = 0; k < coins->n; k++)
		if (coins->node[k] == index)
			return true;
	if (coins->n == STK_RECIPE_COINS || !n->def->coin || stk__program_sources(n))
		return false;
	struct stk_recipe_coin *coin = &coins->coin[coins->n];
	if (stk__call_prepare(&plan->run, index, &call, NULL) || call.def->infer(&call, NULL) || !call.def->coin(&call, &coin->chance))
		return false;
	coin->key = call.random.key;
	coins->node[coins->n++] = index;
	return true;
}

/* Sets the output of coin flip k to bit k of `variant`. An operator that has the coin as an argument then reads this value. Returns false if memory runs
 * out. */
static bool set_coin_results(struct plan *plan, const struct coins *coins, int32_t variant)
{
	for (int32_t k = 0; k < coins->n; k++) {
		struct stk_tensor *t = &plan->run.worker->values[plan->p->program->nodes[coins->node[k]].first_value];
		double side = variant >> k & 1;
		t->data = stk__arena_take(&plan->run.worker->arena, sizeof side);
		if (!t->data)
			return false;
		stk__convert(t->data, t->desc.dtype, &side, STK_FLOAT64, 1);
	}
	return true;
}

static bool add_operator(struct plan *plan, int32_t index, struct stk_recipe *r)
{
	const struct stk_program_node *n = &plan->p->program->nodes[index];
	struct stk_pass variants[STK_RECIPE_VARIANTS];
	struct stk_call call;
	struct coins coins = {.n = 0};
	if (n->node->n_inputs != 1 || n->def->host_inputs || n->def->fetch || n->gathers >= 0)
		return false;
	for (int32_t k = 0; k < n->node->n_varying; k++)
		if (!add_coin(plan, n->varying[k].value, &coins))
			return false;
	bool draws = n->def->flags & STK_OP_RANDOM;
	if (draws && (coins.n || !n->def->recipe))
		return false;
	for (int32_t v = 0; v < 1 << coins.n; v++) {
		if (!set_coin_results(plan, &coins, v) || stk__call_prepare(&plan->run, index, &call, NULL) || call.def->infer(&call, NULL))
			return false;
		if (draws)
			return call.def->recipe(&call, r);
		stk__recipe_next(r, &variants[v]);
		call.def->lower(&call, &variants[v]);
	}
	return stk__recipe_move(r, coins.coin, coins.n, variants);
}

/* ---- a value ---- */

static const struct stk_group *group_of(const struct stk_program *g, int32_t node)
{
	const struct stk_level *l = &g->levels[0];
	for (int32_t c = 0; c < l->n_chains; c++)
		for (int32_t k = 0; k < l->chains[c].n_groups; k++) {
			const struct stk_group *group = &l->chains[c].groups[k];
			if (group->nodes[group->count - 1] == node)
				return group;
		}
	return NULL;
}

static bool add_view(struct plan *plan, int32_t value)
{
	const struct stk_program *g = plan->p->program;
	struct stk_resident *d = plan->d;
	const struct stk_group *group = group_of(g, g->values[value].node);
	if (d->n_views == STK_RESIDENT_VIEWS || !group || !group->pass || (group->step >= 0) != plan->gpu)
		return false;
	const struct stk_program_node *head = &g->nodes[group->nodes[0]];
	int32_t image = head->node->n_inputs == 1 ? head->inputs[0] : -1;
	if (image < 0 || !plan->known[g->values[image].node])
		return false;
	struct stk_tensor *in = &plan->run.worker->values[image];
	*in = (struct stk_tensor){.desc = g->values[image].desc};
	if (in->desc.dtype != STK_UINT8 || in->desc.ndim != 3 || stk_desc_bytes(&in->desc) <= 0)
		return false;
	struct stk_frames from = stk__frames_of(in);
	if (from.count != 1 || stk__is_planar(&from.image))
		return false;
	struct stk_resident_view *view = &d->views[d->n_views];
	stk__recipe_begin(&view->recipe, from.image.width, from.image.height, from.image.channels);
	for (int32_t k = 0; k < group->count; k++)
		if (!add_operator(plan, group->nodes[k], &view->recipe))
			return false;
	const struct stk_tensor *out = &plan->run.worker->values[value];
	const struct stk_pass *pass = &view->recipe.pass;
	struct stk_frames to = stk__frames_of(out);
	if (!same_shape(&out->desc, &g->values[value].desc) || to.count != 1 || to.image.width != pass->w || to.image.height != pass->h ||
		to.image.channels != pass->c || to.image.dtype != pass->dtype || !stk__recipe_supports(&view->recipe))
		return false;
	stk__recipe_layout(&view->batch, &view->recipe, stk__is_planar(&to.image));
	view->value = value;
	plan->images[d->n_views++] = image;
	need(plan, g->values[image].node);
	return true;
}

static bool add_table(struct plan *plan, int32_t value)
{
	struct stk_resident *d = plan->d;
	int64_t bytes = stk_desc_bytes(&plan->p->program->values[value].desc);
	if (d->n_tables == STK_RECIPE_TABLES || bytes <= 0 || bytes > plan->p->config.batch_size * (int64_t)4096)
		return false;
	plan->tables[d->n_tables] = stk__calloc((size_t)plan->samples, (size_t)bytes);
	if (!plan->tables[d->n_tables])
		return false;
	d->tables[d->n_tables++] = value;
	need(plan, plan->p->program->values[value].node);
	return true;
}

/* ---- the program ---- */

/* Returns whether each batch consists of at most STK_RECIPE_RUNS ranges of consecutive positions, so that one launch can make it. */
static bool fits_one_launch(const struct stk_order *o)
{
	int64_t shard = o->size / o->ranks;
	return shard > 0 && (o->batch - 1) / shard + 3 <= STK_RECIPE_RUNS;
}

static bool may_qualify(const struct stk_pipeline *p, bool gpu)
{
	const struct stk_program *g = p->program;
	if (g->branches || g->n_readers != 1 || !g->nodes[g->reader].def->reader->resident || g->reads || !g->fused)
		return false;
	for (int32_t k = 0; k < g->n_slot_values; k++)
		if (g->values[g->slot_values[k]].on_gpu != gpu || !g->values[g->slot_values[k]].is_output)
			return false;
	return g->n_levels == 1 && g->n_slot_values > 0 && !g->levels[0].n_callbacks && !g->levels[0].n_gathers &&
	       (!gpu || fits_one_launch(&p->order));
}

/* Returns whether all views read images of one output of the reader, and sets plan->base and plan->image_bytes to that output's images. */
static bool find_images(struct plan *plan)
{
	const struct stk_program *g = plan->p->program;
	const struct stk_program_node *reader = &g->nodes[g->reader];
	for (int32_t k = 0; k < reader->node->n_outputs; k++) {
		plan->base = reader->def->reader->resident(reader->shared, k, &plan->image_bytes);
		bool ok = plan->base && evaluate(plan, 0);
		for (int32_t v = 0; v < plan->d->n_views && ok; v++)
			ok = plan->run.worker->values[plan->images[v]].data == plan->base &&
			     plan->d->views[v].batch.image_bytes == (int64_t)plan->image_bytes;
		stk__worker_end_sample(plan->run.worker);
		if (ok)
			return true;
	}
	return false;
}

static bool find_all(struct plan *plan)
{
	const struct stk_program *g = plan->p->program;
	const struct stk_program_node *reader = &g->nodes[g->reader];
	bool ok = true;
	plan->samples = reader->def->reader->size(reader->shared);
	find_known(plan);
	for (int32_t k = 0; k < g->n_slot_values && ok; k++) {
		int32_t value = g->slot_values[k];
		ok = plan->known[g->values[value].node] ? add_table(plan, value) : add_view(plan, value);
	}
	stk__worker_end_sample(plan->run.worker);
	return ok && plan->d->n_views && find_images(plan) && evaluate_all(plan);
}

/* ---- uploads ---- */

static enum stk_status upload(struct stk_resident *d, const void *from, size_t bytes, stk_gpu_ptr *to, struct stk_error *err)
{
	enum stk_status s = stk__gpu_alloc(d->dev, bytes, to, err);
	if (s)
		return s;
	d->pieces[d->n_pieces++] = *to;
	d->bytes += bytes;
	return stk__gpu_upload(d->dev, d->streams[0], *to, from, bytes, err);
}

static size_t table_bytes(const struct plan *plan, int32_t t)
{
	return (size_t)stk_desc_bytes(&plan->p->program->values[plan->d->tables[t]].desc);
}

/* Uploads the images, the order's indices, the recipes of all views and the tables, and waits for the copies. Call inside stk__gpu_enter. */
static enum stk_status upload_all(struct plan *plan, struct stk_error *err)
{
	struct stk_resident *d = plan->d;
	const struct stk_order *o = &plan->p->order;
	stk_gpu_ptr images = 0, indices = 0, at = 0;
	enum stk_status s = upload(d, plan->base, plan->image_bytes * (size_t)plan->samples, &images, err);
	if (s == STK_OK && o->indices)
		s = upload(d, o->indices, (size_t)o->size * sizeof *o->indices, &indices, err);
	for (int32_t v = 0; v < d->n_views && s == STK_OK; v++) {
		struct stk_recipe_batch *b = &d->views[v].batch;
		s = upload(d, &d->views[v].recipe, sizeof d->views[v].recipe, &at, err);
		b->recipe = (const struct stk_recipe *)(uintptr_t)at;
		b->images = (const uint8_t *)(uintptr_t)images;
		b->indices = (const int64_t *)(uintptr_t)indices;
	}
	struct stk_recipe_batch *first = &d->views[0].batch;
	for (int32_t t = 0; t < d->n_tables && s == STK_OK; t++) {
		s = upload(d, plan->tables[t], table_bytes(plan, t) * (size_t)plan->samples, &at, err);
		first->tables[t] =
			(struct stk_recipe_table){.from = (const uint8_t *)(uintptr_t)at, .bytes = (uint32_t)table_bytes(plan, t)};
	}
	first->n_tables = d->n_tables;
	return s ? s : stk__gpu_stream_sync(d->dev, d->streams[0], err);
}

static bool fits(const struct plan *plan, size_t available)
{
	size_t limit = stk__device_memory_limit(plan->p, available), bytes = plan->image_bytes;
	for (int32_t t = 0; t < plan->d->n_tables; t++)
		bytes += table_bytes(plan, t);
	return bytes * (size_t)plan->samples <= limit;
}

/* Opens the GPU. Sets *fit to whether the data set fits into the memory limit; if it does, creates the streams, loads the kernel and uploads the data set. */
static enum stk_status open_device(struct plan *plan, bool *fit, struct stk_error *err)
{
	struct stk_resident *d = plan->d;
	size_t available = 0;
	enum stk_status s = stk__context_device(plan->p->ctx, plan->p->config.device_id, &d->dev, err);
	if (s || (s = stk__gpu_enter(d->dev, err)))
		return s;
	s = stk__gpu_memory_free(d->dev, &available, err);
	*fit = s == STK_OK && fits(plan, available);
	if (*fit) {
		for (int i = 0; i < STK_RESIDENT_STREAMS && s == STK_OK; i++)
			s = stk__gpu_stream_create(d->dev, STK_GPU_LOW, &d->streams[i], err);
		if (s == STK_OK && (s = stk__recipe_gpu_load(d->dev, &d->kernel, err)) == STK_OK)
			s = upload_all(plan, err);
	}
	stk__gpu_leave(d->dev);
	return s;
}

/* ---- creation and destruction ---- */

static void free_resident(struct stk_resident *d)
{
	for (int32_t t = 0; t < d->n_tables; t++)
		stk__free(d->host_tables[t]);
	if (d->dev && !stk__gpu_enter(d->dev, NULL)) {
		for (int32_t i = 0; i < d->n_pieces; i++)
			stk__gpu_free(d->dev, d->pieces[i]);
		for (int i = 0; i < STK_RESIDENT_STREAMS; i++)
			stk__gpu_stream_destroy(d->dev, d->streams[i]);
		stk__gpu_leave(d->dev);
	}
	stk__gpu_device_close(d->dev);
	stk__free(d->begin_ns);
	stk__free(d);
}

/* Sets up the data set in host memory, for a pipeline without a GPU: the pipeline takes over the tables; the images stay the reader's. Sets *fit to true. */
static enum stk_status keep_on_host(struct plan *plan, bool *fit)
{
	struct stk_resident *d = plan->d;
	for (int32_t t = 0; t < d->n_tables; t++) {
		d->host_tables[t] = plan->tables[t];
		plan->tables[t] = NULL;
		d->views[0].batch.tables[t].bytes = (uint32_t)table_bytes(plan, t);
	}
	for (int32_t v = 0; v < d->n_views; v++) {
		d->views[v].batch.images = plan->base;
		d->views[v].scratch = stk__recipe_scratch(&d->views[v].recipe);
	}
	*fit = true;
	return STK_OK;
}

static void free_plan(struct plan *plan)
{
	for (int32_t t = 0; t < STK_RECIPE_TABLES; t++)
		stk__free(plan->tables[t]);
	stk__free(plan->known);
	stk__free(plan->needed);
	plan->run.record->samples[0].place = (struct stk_place){0};
}

enum stk_status stk__resident_create(struct stk_pipeline *p, struct stk_error *err)
{
	bool gpu = p->program->n_steps > 0;
	if (!may_qualify(p, gpu))
		return STK_OK;
	size_t nodes = (size_t)p->program->n_nodes;
	struct plan plan = {.p = p,
		.gpu = gpu,
		.run = {p, &p->crew.workers[0], &p->flight.records[0], 0, -1, 0},
		.d = stk__calloc(1, sizeof *plan.d),
		.known = stk__calloc(nodes, sizeof *plan.known),
		.needed = stk__calloc(nodes, sizeof *plan.needed)};
	enum stk_status s = STK_OK;
	bool fit = false;
	if (!plan.d || !plan.known || !plan.needed)
		s = stk__fail(err, STK_NO_MEMORY, "out of memory for a pipeline of %zu operators", nodes);
	else if (find_all(&plan))
		s = gpu ? open_device(&plan, &fit, err) : keep_on_host(&plan, &fit);
	free_plan(&plan);
	if (s == STK_NO_MEMORY &&
		plan.d) { /* less memory was free than the GPU reported: workers make the batches instead, which needs little GPU memory */
		s = STK_OK;
		fit = false;
	}
	if (s || !fit) {
		if (plan.d)
			free_resident(plan.d);
		return s;
	}
	plan.d->samples = plan.samples;
	p->parts.resident = plan.d;
	if (!gpu)
		return STK_OK;
	p->callbacks = &stk__made_resident;
	p->parts.resident->begin_ns = stk__calloc((size_t)p->flight.n, sizeof(int64_t));
	if (!p->parts.resident->begin_ns)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a resident data set");
	p->flight.depth = p->flight.most_depth;
	stk__ring_fix(p->ring);
	p->ring->on_return = NULL; /* no callback: the consumer's thread itself looks for a free slot when it asks for a batch */
	return stk__device_place_values(p, plan.d->dev, err);
}

void stk__resident_destroy(struct stk_pipeline *p)
{
	if (p->parts.resident)
		free_resident(p->parts.resident);
	p->parts.resident = NULL;
}
