/* SPDX-License-Identifier: Apache-2.0
 *
 * The consumer's batch (struct stk_batch), whose data is in the blocks of a slot. The struct is stored with the slot's face (tensor/slot.h) and reused for
 * later batches. A copy (stk_batch_to_host), or a list of the caller's tensors (stk_batch_wrap), is a batch without a slot.
 *
 * There are two kinds of references to a batch; `refs` counts both. A whole reference keeps the face and all blocks in use; `whole_batch_refs` counts
 * only whole references. The other kind keeps the face and the block of one output in use. A DLPack tensor refers only to its block. */
#include "exec/exec.h"

#include "exec/dlpack.h"

#include <stdio.h>
#include <string.h>

struct stk_batch {
	_Atomic int refs, whole_batch_refs;
	struct stk_face *face;     /* NULL: the batch has no slot */
	struct stk_block **blocks; /* [value of the slot]: the block with its data; valid as long as the block is referenced */
	int32_t *values;           /* [output]: index in `blocks` of the output's block */
	int32_t n_values;
	struct stk_program *program; /* owned reference; used to compute the names of samples on request */
	struct stk_order_step at;
	int32_t count, n_outputs;
	struct stk_tensor_list *lists;
	struct stk_sample *samples;
	bool places_later; /* true if epoch, position and id of the samples are computed on request; sample i is then number `first` + i of batch k of
	                    * `order` */
	struct stk_order order;
	int64_t k;
	int32_t first;
	pthread_mutex_t lock; /* guards the names, and places that are computed on request */
	int32_t capacity;
	char **names; /* URI of each sample; the memory is kept with the face for later batches */
	size_t *name_capacity;
	bool *has_name;
	void *copy; /* for a batch without a slot: descriptions of its samples, then the samples' bytes unless the caller owns them */
	void (*release)(void *user); /* called with `user` when the batch no longer needs the caller's memory; may be NULL */
	void *user;
};

void stk__batch_free_data(void *data)
{
	struct stk_batch *b = data;
	if (b->release)
		b->release(b->user);
	for (int32_t i = 0; b->names && i < b->capacity; i++)
		stk__free(b->names[i]);
	stk__free(b->names);
	stk__free(b->name_capacity);
	stk__free(b->has_name);
	stk__free((void *)b->blocks);
	stk__free(b->values);
	stk__free(b->lists);
	stk__free(b->samples);
	stk__free(b->copy);
	pthread_mutex_destroy(&b->lock);
	stk__free(b);
}

static struct stk_batch *create(int32_t capacity, int32_t n_outputs, int32_t n_values)
{
	struct stk_batch *b = stk__calloc(1, sizeof *b);
	if (!b)
		return NULL;
	size_t n = (size_t)capacity;
	b->capacity = capacity;
	b->n_values = n_values;
	pthread_mutex_init(&b->lock, NULL);
	b->blocks = stk__calloc((size_t)n_values, sizeof(struct stk_block *));
	b->values = stk__calloc((size_t)n_outputs, sizeof *b->values);
	b->lists = stk__calloc((size_t)n_outputs, sizeof *b->lists);
	b->samples = stk__calloc(n, sizeof *b->samples);
	b->names = stk__calloc(n, sizeof *b->names);
	b->name_capacity = stk__calloc(n, sizeof *b->name_capacity);
	b->has_name = stk__calloc(n, sizeof *b->has_name);
	if (!b->blocks || !b->values || !b->lists || !b->samples || !b->names || !b->name_capacity || !b->has_name) {
		stk__batch_free_data(b);
		return NULL;
	}
	return b;
}

static struct stk_batch *batch_of(const struct stk_pipeline *p, struct stk_slot *slot)
{
	const struct stk_program *g = p->program;
	struct stk_batch *b = slot->face->owner_data;
	if (!b)
		slot->face->owner_data = b = create(slot->ring->batch, g->n_outputs, g->n_slot_values);
	if (!b)
		return NULL;
	b->face = slot->face;
	for (int32_t v = 0; v < g->n_slot_values; v++)
		b->blocks[v] = slot->values[v].block;
	for (int32_t o = 0; o < g->n_outputs; o++)
		b->values[o] = g->values[g->outputs[o]].slot;
	return b;
}

static struct stk_sample sample_of(const struct stk_place *place, int32_t attempt)
{
	return (struct stk_sample){.epoch = place->epoch,
		.position = place->position,
		.id = place->sample,
		.uri = "",
		.padded = place->padded,
		.replaced = attempt};
}

/* Lists in the batch the samples that were not dropped, in order, and moves their entries in the slot forward over the gaps. */
static void close_gaps(struct stk_pipeline *p, struct stk_record *r, struct stk_batch *b)
{
	int32_t n = 0;
	for (int32_t i = 0; i < r->count; i++) {
		const struct stk_sample_state *s = &r->samples[i];
		if (s->dropped)
			continue;
		for (int32_t v = 0; v < p->program->n_slot_values; v++)
			r->slot->values[v].samples[n] = r->slot->values[v].samples[i];
		b->samples[n] = sample_of(&s->place, s->attempt);
		b->has_name[n++] = false;
	}
	b->count = n;
}

/* Stores the order and the batch's number, from which places are computed on request. The order's list of indices belongs to the graph, to which the program
 * has a reference. */
static void places_later(struct stk_pipeline *p, const struct stk_record *r, struct stk_batch *b)
{
	b->places_later = true;
	b->order = p->order;
	b->k = r->k;
	b->count = r->count;
	memset(b->has_name, 0, (size_t)r->count * sizeof *b->has_name);
}

/* Appends to the error's message the names of the operators whose outputs the node `merge` merges. */
static void name_sides(const struct stk_program *p, const struct stk_program_node *merge, struct stk_error *err)
{
	char titles[2][96];
	for (int32_t k = 0; k < 2; k++)
		stk__node_title(p->nodes[p->values[merge->inputs[1 + k]].node].node, titles[k], sizeof titles[k]);
	size_t n = strlen(err->message);
	snprintf(err->message + n, sizeof err->message - n, "; the branches, %s and %s, must agree", titles[0], titles[1]);
}

static struct stk_tensor_list list_of(const struct stk_pipeline *p, struct stk_slot *slot, int32_t v, int32_t n)
{
	const struct stk_value *value = &p->program->values[p->program->slot_values[v]];
	struct stk_tensor_list l = {.count = n, .samples = slot->values[v].samples, .desc = value->desc, .device_id = -1};
	if (value->on_gpu)
		l.device_id = p->config.device_id;
	l.dense = stk__slot_make_dense(slot, v, n, &l.data);
	if (n > 0) {
		struct stk_desc first = l.samples[0].desc;
		for (int32_t i = 1; i < n && !l.dense; i++)
			for (int32_t d = 0; d < first.ndim; d++)
				if (l.samples[i].desc.ndim != first.ndim || l.samples[i].desc.shape[d] != first.shape[d])
					first.shape[d] = -1;
		l.desc = first;
	}
	return l;
}

/* Returns the list of the first n samples of slot value v, for a resident data set: no sample is dropped, all shapes are known, and all addresses are fixed
 * (stk__ring_fix). */
static struct stk_tensor_list fixed_list(const struct stk_pipeline *p, struct stk_slot *slot, int32_t v, int32_t n)
{
	return (struct stk_tensor_list){.count = n,
		.samples = slot->values[v].samples,
		.dense = n > 0,
		.data = n > 0 ? slot->values[v].region : NULL,
		.desc = p->program->values[p->program->slot_values[v]].desc,
		.device_id = p->config.device_id};
}

enum stk_status stk__batch_check(const struct stk_pipeline *p, const struct stk_record *r, struct stk_error *err)
{
	for (int32_t o = 0; o < p->program->n_outputs; o++) {
		const struct stk_value *v = &p->program->values[p->program->outputs[o]];
		const struct stk_desc *first = NULL;
		for (int32_t i = 0; i < r->count; i++) {
			const struct stk_desc *d = &r->slot->values[v->slot].samples[i].desc;
			if (r->samples[i].dropped)
				continue;
			first = first ? first : d;
			if (d->ndim == first->ndim && d->dtype == first->dtype)
				continue;
			enum stk_status s =
				stk__fail(err, STK_SHAPE, "output %d is %s with %d dims, and %s with %d in the first sample of its batch",
					o, stk_dtype_name(d->dtype), d->ndim, stk_dtype_name(first->dtype), first->ndim);
			char title[STK_MAX_TITLE];
			stk__node_title(p->program->nodes[v->node].node, title, sizeof title);
			stk__error_set_op(err, title);
			if (err && (p->program->nodes[v->node].def->flags & STK_OP_MERGES))
				name_sides(p->program, &p->program->nodes[v->node], err);
			if (err)
				stk__name_sample(p, &r->samples[i], p->program->leading_reader, err);
			return s;
		}
	}
	return STK_OK;
}

struct stk_batch *stk__batch_make(struct stk_pipeline *p, struct stk_record *r)
{
	struct stk_batch *b = batch_of(p, r->slot);
	if (!b)
		return NULL;
	b->refs = b->whole_batch_refs = 1;
	b->program = stk__program_ref(p->program);
	b->at = r->at;
	b->at.count = r->count;
	b->at.step = stk__step_of_epoch(p, &r->at);
	b->n_outputs = p->program->n_outputs;
	if (r->placed < r->count)
		places_later(p, r, b);
	else
		close_gaps(p, r, b);
	for (int32_t o = 0; o < b->n_outputs; o++) {
		int32_t v = b->values[o];
		b->lists[o] = r->slot->laid_out ? fixed_list(p, r->slot, v, b->count) : list_of(p, r->slot, v, b->count);
	}
	r->slot = NULL; /* the batch owns the slot now */
	return b;
}

void stk__batch_deliver(struct stk_batch *b)
{
	stk__slot_deliver(b->face->slot);
}

struct stk_batch *stk_batch_ref(struct stk_batch *b)
{
	if (!b)
		return NULL;
	atomic_fetch_add(&b->refs, 1);
	atomic_fetch_add(&b->whole_batch_refs, 1);
	return b;
}

struct stk_batch *stk_batch_ref_output(struct stk_batch *b, int32_t output)
{
	if (!b || output < 0 || output >= b->n_outputs)
		return NULL;
	atomic_fetch_add(&b->refs, 1);
	if (b->face)
		stk__block_hold(b->blocks[b->values[output]]);
	return b;
}

/* Releases a reference to a batch, together with the references to n blocks that it includes. */
static void release_reference(struct stk_batch *b, struct stk_block *const *blocks, int32_t n)
{
	/* If this is the only reference, no other thread can add one: new references are made from existing ones. */
	bool last = atomic_load(&b->refs) == 1;
	if (n && !last && b->face)
		stk__face_release(b->face, blocks, n, false);
	if (atomic_fetch_sub(&b->refs, 1) > 1)
		return;
	stk__program_unref(b->program);
	b->program = NULL;
	if (b->face)
		stk__face_release(b->face, blocks, last ? n : 0, true);
	else
		stk__batch_free_data(b);
}

void stk_batch_unref(struct stk_batch **batch)
{
	if (!batch)
		return;
	struct stk_batch *b = *batch;
	*batch = NULL;
	if (b)
		release_reference(b, b->blocks, atomic_fetch_sub(&b->whole_batch_refs, 1) == 1 ? b->n_values : 0);
}

void stk_batch_unref_output(struct stk_batch **batch, int32_t output)
{
	struct stk_batch *b = batch ? *batch : NULL;
	if (!b || output < 0 || output >= b->n_outputs) /* no reference to such an output can exist */
		return;
	*batch = NULL;
	release_reference(b, b->face ? &b->blocks[b->values[output]] : NULL, b->face ? 1 : 0);
}

int32_t stk_batch_size(const struct stk_batch *b)
{
	if (!b)
		return 0;
	return b->count;
}

int32_t stk_batch_planned(const struct stk_batch *b)
{
	return !b ? 0 : b->at.count > b->count ? b->at.count : b->count; /* at.count is 0 if the caller's tensors were wrapped */
}

int32_t stk_batch_outputs(const struct stk_batch *b)
{
	if (!b)
		return 0;
	return b->n_outputs;
}

const struct stk_tensor_list *stk_batch_output(const struct stk_batch *b, int32_t output)
{
	return b && output >= 0 && output < b->n_outputs ? &b->lists[output] : NULL;
}

static void name_sample(struct stk_batch *b, int32_t i)
{
	char uri[STK_MAX_URI];
	if (b->places_later) {
		struct stk_place place = stk__order_place(&b->order, b->k, b->first + i);
		b->samples[i] = sample_of(&place, 0);
	}
	size_t n = b->program ? stk__sample_uri(b->program, b->samples[i].id, uri, sizeof uri) : 0;
	n = n < sizeof uri ? n : sizeof uri - 1;
	uri[n] = '\0';
	if (n >= b->name_capacity[i]) {
		char *more = stk__realloc(b->names[i], n + 64);
		if (!more)
			return; /* without memory the sample has no name; the next request tries again */
		b->names[i] = more;
		b->name_capacity[i] = n + 64;
	}
	memcpy(b->names[i], uri, n + 1);
	b->samples[i].uri = b->names[i];
	b->has_name[i] = true;
}

const struct stk_sample *stk_batch_sample(const struct stk_batch *batch, int32_t i)
{
	struct stk_batch *b = (struct stk_batch *)
		batch; /* the cast is safe: the function writes only names and places that were not computed yet, under the lock */
	if (!b || i < 0 || i >= b->count)
		return NULL;
	pthread_mutex_lock(&b->lock);
	if (!b->has_name[i])
		name_sample(b, i);
	pthread_mutex_unlock(&b->lock);
	return &b->samples[i];
}

int64_t stk_batch_epoch(const struct stk_batch *b)
{
	if (!b)
		return -1;
	return b->at.epoch;
}

int64_t stk_batch_step(const struct stk_batch *b)
{
	if (!b)
		return -1;
	return b->at.step;
}

bool stk_batch_is_last(const struct stk_batch *b)
{
	if (!b)
		return false;
	return b->at.last;
}

/* Writes "sample 3 (cat/1.jpg)", or "sample 3" if the sample has no name, to `text`, and returns it. */
static const char *named_sample(struct stk_batch *b, int32_t i, char *text, size_t capacity)
{
	const char *uri = stk_batch_sample(b, i)->uri;
	snprintf(text, capacity, uri[0] ? "sample %d (%s)" : "sample %d", i, uri);
	return text;
}

static enum stk_status not_dense(const struct stk_tensor_list *l, struct stk_batch *b, struct stk_error *err)
{
	char first[STK_MAX_URI + 32], other[STK_MAX_URI + 32];
	for (int32_t i = 1; i < l->count; i++)
		for (int32_t d = 0; d < l->samples[0].desc.ndim; d++)
			if (l->samples[i].desc.ndim != l->samples[0].desc.ndim ||
				l->samples[i].desc.shape[d] != l->samples[0].desc.shape[d])
				return stk__fail(err, STK_SHAPE,
					"samples of one batch differ in shape: %s and %s have %lld and %lld along dim %d; resize or pad "
					"them, or take them one by one",
					named_sample(b, 0, first, sizeof first), named_sample(b, i, other, sizeof other),
					(long long)l->samples[0].desc.shape[d], (long long)l->samples[i].desc.shape[d], d);
	return l->count ? stk__fail(err, STK_NO_MEMORY, "there was no memory to copy the samples of the batch into one block")
			: stk__fail(err, STK_SHAPE, "the batch is empty");
}

enum stk_status stk_batch_use_stream(struct stk_batch *b, uint64_t stream, struct stk_error *err)
{
	if (STK_NEED(err, b))
		return STK_INVALID;
	enum stk_status s = STK_OK;
	for (int32_t o = 0; o < b->n_outputs && s == STK_OK; o++)
		s = stk_batch_use_stream_output(b, o, stream, err);
	return s;
}

enum stk_status stk_batch_use_stream_output(struct stk_batch *b, int32_t output, uint64_t stream, struct stk_error *err)
{
	if (STK_NEED(err, b))
		return STK_INVALID;
	if (output < 0 || output >= b->n_outputs)
		return stk__fail(err, STK_INVALID, "the batch has no output %d", output);
	if (b->lists[output].device_id < 0)
		return STK_OK;
	return stk__block_use_stream(b->blocks[b->values[output]], (stk_gpu_stream)(uintptr_t)stream, err);
}

/* Sets *list to an output's list. Fails unless the output exists, and `i` is the number of one of its samples, or -1 for all of them. */
static enum stk_status find_samples(
	const struct stk_batch *b, int32_t output, int32_t i, const struct stk_tensor_list **list, struct stk_error *err)
{
	*list = stk_batch_output(b, output);
	if (*list && i >= -1 && i < (*list)->count)
		return STK_OK;
	return stk__fail(err, STK_INVALID, "the batch has no sample %d of output %d", i, output);
}

enum stk_status stk_batch_copy(struct stk_batch *b, int32_t output, int32_t i, void *to, size_t size, struct stk_error *err)
{
	if (STK_NEED(err, b, to))
		return STK_INVALID;
	const struct stk_tensor_list *l;
	enum stk_status s = find_samples(b, output, i, &l, err);
	if (s)
		return s;
	if (i < 0 && !l->dense)
		return not_dense(l, b, err);
	size_t bytes = i < 0 ? (size_t)stk_desc_bytes(&l->desc) * (size_t)l->count : (size_t)stk_desc_bytes(&l->samples[i].desc);
	if (size < bytes)
		return stk__fail(err, STK_INVALID, "%zu bytes are given for a copy of %zu", size, bytes);
	const void *from = i < 0 ? l->data : l->samples[i].data;
	if (l->device_id >= 0)
		return stk__block_download(b->blocks[b->values[output]], &(struct stk_block_copy){to, from, bytes}, 1, err);
	memcpy(to, from, bytes);
	return STK_OK;
}

static size_t whole_lines(size_t bytes)
{
	return (bytes + STK_CACHE_LINE - 1) / STK_CACHE_LINE * STK_CACHE_LINE;
}

/* Allocates to->copy for `count` samples of a list, from sample `first` on: first their descriptions, then their bytes. Each sample begins at a cache line,
 * except in a dense list, whose samples are adjacent. Returns the descriptions, or NULL if memory is short. */
static struct stk_tensor *allocate_copy(const struct stk_tensor_list *l, int32_t first, int32_t count, struct stk_batch *to)
{
	size_t head = whole_lines((size_t)count * sizeof(struct stk_tensor)), bytes = head;
	for (int32_t i = 0; i < count; i++) {
		size_t size = (size_t)stk_desc_bytes(&l->samples[first + i].desc);
		bytes += l->dense ? size : whole_lines(size);
	}
	to->copy = stk__alloc(bytes);
	struct stk_tensor *samples = to->copy;
	uint8_t *at = samples ? (uint8_t *)to->copy + head : NULL;
	for (int32_t i = 0; samples && i < count; i++) {
		size_t size = (size_t)stk_desc_bytes(&l->samples[first + i].desc);
		samples[i] = (struct stk_tensor){.desc = l->samples[first + i].desc, .data = at};
		at += l->dense ? size : whole_lines(size);
	}
	return samples;
}

/* Copies samples from the GPU, for whose readers this thread waits only once. */
static enum stk_status download_samples(
	struct stk_batch *b, int32_t output, int32_t first, const struct stk_tensor_list *to, struct stk_error *err)
{
	const struct stk_tensor *from = stk_batch_output(b, output)->samples + first;
	struct stk_block_copy *copies = stk__alloc((size_t)to->count * sizeof *copies);
	if (!copies)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a copy of output %d", output);
	for (int32_t i = 0; i < to->count; i++)
		copies[i] = (struct stk_block_copy){to->samples[i].data, from[i].data, (size_t)stk_desc_bytes(&from[i].desc)};
	const enum stk_status s = stk__block_download(b->blocks[b->values[output]], copies, to->count, err);
	stk__free(copies);
	return s;
}

static enum stk_status copy_samples(
	struct stk_batch *b, int32_t output, int32_t first, bool whole, const struct stk_tensor_list *to, struct stk_error *err)
{
	const struct stk_tensor_list *l = stk_batch_output(b, output);
	if (whole && l->dense)
		return stk_batch_copy(b, output, -1, to->data, (size_t)stk_desc_bytes(&l->desc) * (size_t)l->count, err);
	if (l->device_id >= 0 && to->count > 0)
		return download_samples(b, output, first, to, err);
	for (int32_t i = 0; i < to->count; i++)
		memcpy(to->samples[i].data, l->samples[first + i].data, (size_t)stk_desc_bytes(&to->samples[i].desc));
	return STK_OK;
}

enum stk_status stk_batch_to_host(struct stk_batch *b, int32_t output, int32_t i, struct stk_batch **out, struct stk_error *err)
{
	if (STK_NEED(err, b, out))
		return STK_INVALID;
	const struct stk_tensor_list *l;
	*out = NULL;
	enum stk_status s = find_samples(b, output, i, &l, err);
	if (s)
		return s;
	int32_t first = i < 0 ? 0 : i, count = i < 0 ? l->count : 1;
	struct stk_batch *copy = create(count > 0 ? count : 1, 1, 0);
	struct stk_tensor *samples = copy ? allocate_copy(l, first, count, copy) : NULL;
	if (!samples) {
		if (copy)
			stk__batch_free_data(copy);
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a copy of output %d", output);
	}
	copy->refs = copy->whole_batch_refs = 1;
	copy->program = b->program ? stk__program_ref(b->program) : NULL;
	copy->at = b->at;
	copy->count = count;
	copy->n_outputs = 1;
	copy->places_later = b->places_later;
	copy->order = b->order;
	copy->k = b->k;
	copy->first = b->first + first;
	for (int32_t k = 0; k < count && !b->places_later; k++) {
		copy->samples[k] = b->samples[first + k];
		copy->samples[k].uri = "";
	}
	copy->lists[0] = (struct stk_tensor_list){.count = count,
		.samples = samples,
		.dense = i >= 0 || l->dense,
		.data = count > 0 ? samples[0].data : NULL,
		.desc = i < 0 ? l->desc : samples[0].desc,
		.device_id = -1};
	s = copy_samples(b, output, first, i < 0, &copy->lists[0], err);
	if (s == STK_OK)
		*out = copy;
	else
		stk_batch_unref(&copy);
	return s;
}

/* ---- memory that the caller owns ---- */

/* Returns a list that refers to `count` samples of the caller. In its `desc`, extents in which the samples differ are -1. The list is dense if the samples
 * have the same shape and are adjacent in memory. */
static struct stk_tensor_list list_over(const struct stk_tensor *samples, int32_t count)
{
	struct stk_tensor_list l = {
		.count = count, .samples = samples, .desc = {.dtype = STK_NO_DTYPE}, .device_id = -1, .dense = count > 0};
	if (!count)
		return l;
	l.desc = samples[0].desc;
	int64_t bytes = stk_desc_bytes(&l.desc);
	for (int32_t i = 1; i < count; i++) {
		l.dense &= (const uint8_t *)samples[i].data == (const uint8_t *)samples[0].data + i * bytes;
		for (int32_t d = 0; d < l.desc.ndim; d++)
			if (samples[i].desc.shape[d] != samples[0].desc.shape[d]) {
				l.desc.shape[d] = -1;
				l.dense = false;
			}
	}
	l.data = l.dense ? samples[0].data : NULL;
	return l;
}

enum stk_status stk_batch_wrap(const struct stk_tensor *samples, int32_t count, void (*release)(void *user), void *user,
	struct stk_batch **out, struct stk_error *err)
{
	if (STK_NEED(err, out))
		return STK_INVALID;
	*out = NULL;
	if (count < 0)
		return stk__fail(err, STK_INVALID, "count is %d; it must be at least 0", count);
	if (count && STK_NEED(err, samples))
		return STK_INVALID;
	for (int32_t i = 0; i < count; i++) {
		const struct stk_desc *d = &samples[i].desc, *first = &samples[0].desc;
		if (stk_desc_bytes(d) < 0 || !stk_dtype_size(d->dtype) || !memchr(d->layout, '\0', sizeof d->layout))
			return stk__fail(err, STK_INVALID, "sample %d is of no known type, or of an impossible shape", i);
		if (stk_desc_bytes(d) > 0 && !samples[i].data)
			return stk__fail(err, STK_INVALID, "the data of sample %d are NULL", i);
		if (d->dtype != first->dtype || d->ndim != first->ndim || strcmp(d->layout, first->layout) != 0)
			return stk__fail(err, STK_INVALID, "sample %d is %s with %d dims, where the first is %s with %d", i,
				stk_dtype_name(d->dtype), d->ndim, stk_dtype_name(first->dtype), first->ndim);
	}
	struct stk_batch *b = create(count > 0 ? count : 1, 1, 0);
	struct stk_tensor *own = b ? stk__alloc((size_t)b->capacity * sizeof *own) : NULL;
	if (!own) {
		if (b)
			stk__batch_free_data(b);
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a list of tensors");
	}
	for (int32_t i = 0; i < count; i++) {
		own[i] = samples[i];
		b->samples[i] = (struct stk_sample){.epoch = -1, .position = -1, .id = -1, .uri = ""};
	}
	b->copy = own;
	b->refs = b->whole_batch_refs = 1;
	b->count = count;
	b->n_outputs = 1;
	b->lists[0] = list_over(own, count);
	b->release = release;
	b->user = user;
	*out = b;
	return STK_OK;
}

/* ---- DLPack ---- */

struct exported {
	DLManagedTensorVersioned tensor;
	struct stk_batch *batch; /* owner of the memory; NULL if `block` owns it */
	struct stk_block *block;
	int64_t shape[STK_MAX_DIMS + 1], strides[STK_MAX_DIMS + 1];
};

static void release_exported(DLManagedTensorVersioned *t)
{
	struct exported *e = t->manager_ctx;
	if (e->block)
		stk__block_drop(e->block);
	stk_batch_unref(&e->batch);
	stk__free(e);
}

static DLDataType dl_type(enum stk_dtype t)
{
	static const uint8_t codes[STK_DTYPE_COUNT] = {[STK_UINT8] = kDLUInt,
		[STK_UINT16] = kDLUInt,
		[STK_UINT32] = kDLUInt,
		[STK_UINT64] = kDLUInt,
		[STK_FLOAT16] = kDLFloat,
		[STK_FLOAT] = kDLFloat,
		[STK_FLOAT64] = kDLFloat,
		[STK_BOOL] = kDLBool,
		[STK_BFLOAT16] = kDLBfloat};
	return (DLDataType){codes[t], (uint8_t)(8 * stk_dtype_size(t)), 1}; /* types that are not in the table have code kDLInt (0) */
}

enum stk_status stk_batch_dlpack(struct stk_batch *b, int32_t output, int32_t i, void **out, struct stk_error *err)
{
	if (STK_NEED(err, b, out))
		return STK_INVALID;
	const struct stk_tensor_list *l;
	*out = NULL;
	enum stk_status s = find_samples(b, output, i, &l, err);
	if (s)
		return s;
	if (i < 0 && !l->dense)
		return not_dense(l, b, err);
	if (stk__dtype_enumeration(l->desc.dtype))
		return stk__fail(err, STK_UNSUPPORTED, "DLPack has no type for values of an enumeration: cast makes int32 of them");
	struct exported *e = stk__calloc(1, sizeof *e);
	if (!e)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a tensor");
	const struct stk_desc *d = i < 0 ? &l->desc : &l->samples[i].desc;
	int32_t ndim = 0;
	if (i < 0)
		e->shape[ndim++] = l->count;
	for (int32_t k = 0; k < d->ndim; k++)
		e->shape[ndim++] = d->shape[k];
	int64_t stride = 1;
	for (int32_t k = ndim - 1; k >= 0; k--) {
		e->strides[k] = stride;
		stride *= e->shape[k];
	}
	if (b->face)
		stk__block_hold(e->block = b->blocks[b->values[output]]);
	else
		e->batch = stk_batch_ref(b);
	e->tensor = (DLManagedTensorVersioned){.version = {1, 0},
		.manager_ctx = e,
		.deleter = release_exported,
		.dl_tensor = {.data = i < 0 ? l->data : l->samples[i].data,
			.device = {l->device_id < 0 ? kDLCPU : kDLCUDA, l->device_id < 0 ? 0 : l->device_id},
			.ndim = ndim,
			.dtype = dl_type(d->dtype),
			.shape = e->shape,
			.strides = e->strides}};
	*out = &e->tensor;
	return STK_OK;
}
