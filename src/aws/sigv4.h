/* SPDX-License-Identifier: Apache-2.0
 *
 * Signs requests by AWS Signature Version 4. The parts of a request must already be in canonical form. */
#ifndef STK_AWS_SIGV4_H
#define STK_AWS_SIGV4_H

#include "base/sha256.h"
#include "base/text.h"

#include <time.h>

struct stk_aws_keys {
	const char *id, *secret, *token; /* token: token of the session, or NULL */
};

struct stk_sigv4_header {
	const char *name, *value; /* name in lower case, and value without surrounding blanks */
};

struct stk_sigv4_request {
	const char *method, *path, *query;      /* path: encoded, begins with '/'; query: encoded and sorted by name, "" if there is none */
	const struct stk_sigv4_header *headers; /* headers to sign, sorted by name; they include host and x-amz-date */
	int header_count;
	const char *payload; /* SHA-256 of the body in hex, or "UNSIGNED-PAYLOAD" */
	const char *region, *service;
	const char *date; /* "20130524T000000Z", the value of x-amz-date */
};

#define STK_SIGV4_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" /* SHA-256 of no bytes */

enum { STK_SIGV4_DATE = 17 };
void stk__sigv4_date(time_t t, char date[STK_SIGV4_DATE]);

/* The signing key for one day, region and service. Deriving it from the secret is most of a signature's work, so it is stored for further requests. All
 * zero: not derived yet. */
struct stk_sigv4_key {
	char day[8], region[64], service[16];
	struct stk_hmac_sha256 hmac;
};

/* Appends the value of the Authorization header. cached: the signing key of earlier requests with the same secret, which is replaced if it is for another day,
 * region or service; may be NULL. */
void stk__sigv4_authorization(
	const struct stk_sigv4_request *q, const struct stk_aws_keys *keys, struct stk_sigv4_key *cached, struct stk_text *out);

/* Appends s with all bytes except letters, digits and -._~ written as %XX; `keep` names further bytes that stay as they are ("/" for paths). */
void stk__uri_encode(struct stk_text *out, const char *s, const char *keep);

#endif
