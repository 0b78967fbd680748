/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the settings of Google's object store into the struct that also holds those of S3. */
#ifndef STK_AWS_GOOGLE_H
#define STK_AWS_GOOGLE_H

#include "aws/aws.h"

/* Reads the settings of gs:// from the environment and the files of Google's tools. STK_INVALID or STK_UNSUPPORTED: a file of credentials is not understood.
 * The caller clears *out, also on failure. given: may be NULL. */
STK_MUST_USE enum stk_status stk__google_settings_read(
	const struct stk_aws_given *given, struct stk_aws_settings *out, struct stk_error *err);

#endif
