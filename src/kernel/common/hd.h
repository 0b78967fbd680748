/* SPDX-License-Identifier: Apache-2.0
 * STK_HD, for the kernels. */
#ifndef STK_KERNEL_HD_H
#define STK_KERNEL_HD_H

#include "base/hd.h"

#endif
