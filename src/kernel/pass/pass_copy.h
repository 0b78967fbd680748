/* SPDX-License-Identifier: Apache-2.0
 * Runs passes that move pixels without changing values, for elements of any type. */
#ifndef STK_KERNEL_PASS_COPY_H
#define STK_KERNEL_PASS_COPY_H

#include "kernel/pass/pass_plan.h"

void stk__run_copy(const struct stk_run *run);

#endif
