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

/* Requests keys from the issuer of the settings, and sets key, secret, token, expires and origin. May block for seconds. Ends within a second if *stop
 * becomes true, or if access->interrupted, which is called on this thread, returns true; access may be NULL. STK_NOT_FOUND: the settings name no issuer, or
 * only the machine's metadata service, which gives no keys; many machines outside of a cloud have none. After other errors the message names the issuer that
 * failed, and never quotes its answer. */
STK_MUST_USE enum stk_status stk__aws_issue(struct stk_aws_settings *s, const struct stk_curl *curl, const _Atomic bool *stop,
	const struct stk_access *access, struct stk_error *err);

#endif
