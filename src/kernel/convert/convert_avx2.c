/* SPDX-License-Identifier: Apache-2.0 */
#define stk__convert stk__convert_avx2
#include "kernel/convert/convert.c"
