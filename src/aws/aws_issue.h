/* SPDX-License-Identifier: Apache-2.0
 *
 * Obtains keys from the issuer that the settings name: STS, single sign-on, a program, the metadata service of a container or an instance, or Google's token
 * endpoint or metadata server. */
#ifndef STK_AWS_ISSUE_H
#define STK_AWS_ISSUE_H

#include "aws/aws.h"
#include "io/access.h"
#include "io/curl.h"

#include <stdatomic.h>

/* Requests keys from the issuer of the settings and stores them in key, secret, token and expires. Blocks for seconds if the issuer does
 * not answer. *stop ends that within a second, and so does access->interrupted, which is called on this thread; access is nullable.
 * STK_NOT_FOUND: there is no issuer here, as on machines outside EC2; otherwise the message names the issuer that failed, and never quotes
 * its answer. */
STK_MUST_USE enum stk_status stk__aws_issue(struct stk_aws_settings *s, const struct stk_curl *curl, const _Atomic bool *stop,
	const struct stk_access *access, struct stk_error *err);

#endif
