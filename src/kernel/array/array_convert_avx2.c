/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/array/array_avx2.h"

#include "kernel/convert/convert.c"
