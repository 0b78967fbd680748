/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/array/array_avx2.h"

#include "kernel/array/array_sample_run.c"
