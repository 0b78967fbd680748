/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/job/job_avx2.h"

#include "kernel/job/job_cpu.c"
