/* SPDX-License-Identifier: Apache-2.0
 * Flat jobs: those whose outputs lie behind each other, and whose operands do so too or repeat a row of elements, of types that float32 or int32 holds, or of any
 * type where values are only moved or replaced (erase, grid_mask). On a GPU a thread makes the 16 bytes of outputs that lie in one aligned piece of memory, in the
 * few types named below; other jobs take an output a thread. */
#ifndef STK_KERNEL_ARRAY_FLAT_H
#define STK_KERNEL_ARRAY_FLAT_H

#include "kernel/array/array.h"

enum { STK_ARRAY_FLAT_PIECE = 16 }; /* bytes */

/* Output i reads element i / inner % size, `step` bytes from one to the next. */
struct stk_array_repeat {
	uint32_t inner, size;
	int32_t step;
};

struct stk_array_flat {
	struct stk_array_repeat of[STK_ARRAY_SOURCES];
	uint32_t lead;   /* outputs that are missing at the front of the first piece */
	uint32_t pieces; /* 0: the job is not flat */
};

/* Works out what the GPU needs to know of a job whose addresses are the device's. */
struct stk_array_flat stk__array_flat(const struct stk_array_job *job);

#endif
