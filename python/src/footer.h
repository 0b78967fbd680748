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

/* Checks that the footer of a Parquet file is consistent, before pyarrow reads it: pyarrow 26 ends the process by an uncaught C++ exception when it reads
 * a column chunk that fails one of these checks. data: the footer in Thrift's compact protocol, as it is in the file. size: its size in bytes. Sets *fault to
 * a constant sentence that says what is wrong, or to NULL for a good footer. */
enum footer_kind footer_check(const uint8_t *data, size_t size, const char **fault);

#endif
