/* SPDX-License-Identifier: Apache-2.0
 * Runs a recipe's batch in plain C, so that tests can compare the kernel with it. Not part of the library. */
#ifndef STK_KERNEL_RECIPE_REFERENCE_H
#define STK_KERNEL_RECIPE_REFERENCE_H

#include "kernel/recipe/recipe.h"

/* Makes all samples of the batch on the calling thread. scratch: memory of stk__recipe_scratch(recipe) bytes, aligned to 64. */
void stk__recipe_run(const struct stk_recipe_batch *b, const struct stk_pass_kernels *k, void *scratch);

#endif
