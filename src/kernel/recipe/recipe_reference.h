/* SPDX-License-Identifier: Apache-2.0
 * A recipe's batch in plain C. The tests compare the kernel with it; the library does not hold it. */
#ifndef STK_KERNEL_RECIPE_REFERENCE_H
#define STK_KERNEL_RECIPE_REFERENCE_H

#include "kernel/recipe/recipe.h"

/* Runs the passes of the samples one after the other. scratch: stk__recipe_scratch(recipe) bytes, aligned to 64. */
void stk__recipe_run(const struct stk_recipe_batch *b, const struct stk_pass_kernels *k, void *scratch);

#endif
