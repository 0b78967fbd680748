/* SPDX-License-Identifier: Apache-2.0
 * Checks the footer of a Parquet file: https://parquet.apache.org/docs/file-format/metadata/ */
#ifndef STK_PYTHON_FOOTER_H
#define STK_PYTHON_FOOTER_H

#include <stddef.h>
#include <stdint.h>

enum footer_kind {
	FOOTER_GOOD,
	FOOTER_DAMAGED,
	FOOTER_ENCRYPTED, /* a column is encrypted */
};

/* Checks whether the parts of a footer fit together. pyarrow ends the process by a C++ exception when it looks at a column chunk that fails one of these
 * checks (seen in version 26). data: the footer in Thrift's compact protocol, as a file holds it. size: its size in bytes. *fault: set to a constant
 * sentence that says what is wrong, or to NULL for a good footer. */
enum footer_kind footer_check(const uint8_t *data, size_t size, const char **fault);

#endif
