/* SPDX-License-Identifier: Apache-2.0
 * cmocka with the headers that it needs before itself. */
#ifndef STK_TEST_H
#define STK_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
