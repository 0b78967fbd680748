/* SPDX-License-Identifier: Apache-2.0
 * The loops of filters in plain C. */
#include "kernel/filter/filter_loops.h"

const struct stk_filter_kernels stk__filter_kernels_c = {load_bytes, store_bytes, sum, least, largest, median};
