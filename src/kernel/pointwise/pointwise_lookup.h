/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_KERNEL_POINTWISE_LOOKUP_H
#define STK_KERNEL_POINTWISE_LOOKUP_H

#define STK_LOOKUP_KEYS 8192 /* number of bytes that a thread block looks up */

#endif
