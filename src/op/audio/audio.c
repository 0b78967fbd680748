/* SPDX-License-Identifier: Apache-2.0 */
#include "op/audio/audio.h"

enum stk_status stk__audio_floats(const struct stk_call *call, struct stk_error *err)
{
	enum stk_dtype dtype = call->in[0].desc.dtype;
	if (dtype != STK_NO_DTYPE && dtype != STK_FLOAT)
		return stk__fail(
			err, STK_UNSUPPORTED, "%s takes float32, not %s: cast the input first", call->def->name, stk_dtype_name(dtype));
	return STK_OK;
}

enum stk_status stk__audio_axis(int64_t axis, const struct stk_desc *in, int32_t *out, struct stk_error *err)
{
	if (axis < -in->ndim || axis >= in->ndim)
		return stk__fail(err, STK_SHAPE, "axis %lld is out of range for a tensor of %d dimensions", (long long)axis, in->ndim);
	*out = (int32_t)(axis < 0 ? axis + in->ndim : axis);
	return STK_OK;
}

static int64_t product(const struct stk_desc *desc, int32_t from, int32_t to)
{
	int64_t n = 1;
	for (int32_t d = from; d < to; d++)
		n *= desc->shape[d];
	return n;
}

int64_t stk__audio_outer(const struct stk_desc *desc, int32_t axis)
{
	return product(desc, 0, axis);
}

int64_t stk__audio_inner(const struct stk_desc *desc, int32_t axis)
{
	return product(desc, axis + 1, desc->ndim);
}

/* Returns the table for a key, or NULL if the list has none. Sets *count to the number of tables before it, or of all tables if there is none. */
static const struct stk_audio_table *find(struct stk_audio_table *first, int64_t key, int *count)
{
	*count = 0;
	for (struct stk_audio_table *t = first; t; t = t->next, ++*count)
		if (t->key == key)
			return t;
	return NULL;
}

const void *stk__audio_table_take(
	struct stk_audio_tables *tables, int64_t key, const struct stk_audio_maker *maker, struct stk_arena *arena, struct stk_error *err)
{
	int count;
	struct stk_audio_table *first = atomic_load_explicit(&tables->first, memory_order_acquire);
	const struct stk_audio_table *found = find(first, key, &count);
	if (found)
		return found->data;
	bool shared = count < STK_AUDIO_KEPT;
	struct stk_audio_table *table =
		shared ? stk__calloc(1, sizeof *table + maker->size) : stk__arena_take(arena, sizeof *table + maker->size);
	if (!table) {
		enum stk_status failed = stk__fail(err, STK_NO_MEMORY, "out of memory for a table of %zu bytes", maker->size);
		(void)failed;
		return NULL;
	}
	table->key = key;
	if (maker->fill(maker->user, key, table->data, err)) {
		if (shared)
			stk__free(table);
		return NULL;
	}
	if (!shared)
		return table->data;
	do { /* another thread may have made the same table; both stay, and later calls find one of them */
		table->next = first;
	} while (!atomic_compare_exchange_weak_explicit(&tables->first, &first, table, memory_order_acq_rel, memory_order_acquire));
	return table->data;
}

void stk__audio_tables_clear(struct stk_audio_tables *tables)
{
	struct stk_audio_table *next;
	for (struct stk_audio_table *t = atomic_load_explicit(&tables->first, memory_order_acquire); t; t = next) {
		next = t->next;
		stk__free(t);
	}
}
