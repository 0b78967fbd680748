/* SPDX-License-Identifier: Apache-2.0
 * Keys that expire, from who issues them: STS, a program, a container's or an instance's metadata service. */
#ifndef STK_IO_AWS_ISSUE_H
#define STK_IO_AWS_ISSUE_H

#include "io/aws.h"
#include "io/curl.h"

#include <stdatomic.h>

/* Asks the issuer of the settings and puts what it gives into key, secret, token and expires. Blocks for seconds where nobody answers; *stop ends that within
 * a second, and so does the user by access->interrupted, which is called on this thread; access is nullable. STK_NOT_FOUND: there is no issuer here, as away from EC2; else the message says who failed, and never quotes the answer. */
STK_MUST_USE enum stk_status stk__aws_issue(struct stk_aws_settings *s, const struct stk_curl *curl, const _Atomic bool *stop,
	const struct stk_access *access, struct stk_error *err);

#endif
