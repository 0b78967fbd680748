/* SPDX-License-Identifier: Apache-2.0
 * Includes cmocka after the headers that it needs. */
#ifndef STK_TEST_H
#define STK_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
