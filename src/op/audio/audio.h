/* SPDX-License-Identifier: Apache-2.0
 * Helpers for operators on audio signals: checks of their inputs, and tables that depend on an extent of the input. */
#ifndef STK_OP_AUDIO_H
#define STK_OP_AUDIO_H

#include "op/op.h"

#include <stdatomic.h>

/* Fails if the input's type is known and is not float32. */
enum stk_status stk__audio_floats(const struct stk_call *call, struct stk_error *err);

/* Sets *out to the index of the dimension that `axis` names; a negative axis counts from the end. Fails if the tensor has no such dimension. */
enum stk_status stk__audio_axis(int64_t axis, const struct stk_desc *in, int32_t *out, struct stk_error *err);

/* Return the products of the extents before (outer) and after (inner) a dimension. */
int64_t stk__audio_outer(const struct stk_desc *desc, int32_t axis);
int64_t stk__audio_inner(const struct stk_desc *desc, int32_t axis);

/* The tables that an operator has computed, each with its key, such as an extent of the input. Any thread may use them. */
enum { STK_AUDIO_KEPT = 16 }; /* maximum number of tables that are kept; tables for further keys are computed again for each sample */
struct stk_audio_table {
	struct stk_audio_table *next;
	int64_t key;
	_Alignas(16) uint8_t data[];
};
struct stk_audio_tables {
	_Atomic(struct stk_audio_table *) first;
};

/* The function with which stk__audio_table_take makes a table. fill: computes the table of `size` bytes for a key; called with `user`. */
struct stk_audio_maker {
	size_t size;
	enum stk_status (*fill)(const void *user, int64_t key, void *table, struct stk_error *err);
	const void *user;
};

/* Returns the table for a key, which the first call for that key makes; NULL if making it failed. The table is valid until the sample's chain has ended. */
const void *stk__audio_table_take(
	struct stk_audio_tables *tables, int64_t key, const struct stk_audio_maker *maker, struct stk_arena *arena, struct stk_error *err);

void stk__audio_tables_clear(struct stk_audio_tables *tables);

#endif
