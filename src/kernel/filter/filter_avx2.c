/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/filter/filter_loops.h"

const struct stk_filter_kernels stk__filter_kernels_avx2 = {load_bytes, store_bytes, sum, least, largest, median};
