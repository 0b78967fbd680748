/* SPDX-License-Identifier: Apache-2.0
 * Checks the contents of a file of CIFAR-10 or CIFAR-100 that is in memory. */
#ifndef STK_FORMAT_CIFAR_H
#define STK_FORMAT_CIFAR_H

#include "format/format.h"

enum { STK_CIFAR_PIXELS = 3 * 32 * 32 };

/* Checks that `data` consists of `expected` records, each of them label_bytes labels (1: CIFAR-10; 2: CIFAR-100, coarse then fine) followed by
 * STK_CIFAR_PIXELS bytes. Otherwise fails; the message says how many bytes were expected and found, or which record has a label out of range. path: the
 * file's name, for messages. */
STK_MUST_USE enum stk_status stk__cifar_check(
	const uint8_t *data, size_t size, int label_bytes, int64_t expected, const char *path, struct stk_error *err);

#endif
