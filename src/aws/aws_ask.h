/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends requests to issuers of keys, and reads the keys in their answers. Used only by the files of this folder that obtain keys. */
#ifndef STK_AWS_ASK_H
#define STK_AWS_ASK_H

#include "aws/aws.h"
#include "io/access.h"
#include "io/curl.h"

#include <stdatomic.h>

enum { STK_AWS_HEADERS = 6 };

struct stk_aws_asking {
	const struct stk_curl *curl;
	const _Atomic bool *stop;
	const struct stk_access *access; /* lets the user interrupt the wait; may be NULL */
	const char *ca, *proxy;          /* path of the file of trusted certificates, and URL of the proxy; NULL: the system's */
};

struct stk_aws_question {
	const char *url, *method;
	const char *headers[STK_AWS_HEADERS]; /* lines of the request's header; the list ends at the first NULL */
	const char *body;                     /* body of the request; NULL: no body */
	bool local; /* true if the issuer is a service of this machine, which is asked without a proxy and with a shorter timeout */
};

/* Issued keys, which the caller clears. */
struct stk_aws_fresh {
	char *key, *secret, *token; /* token may be NULL */
	int64_t expires;            /* in seconds since 1970; 0: never, or not known */
};
void stk__aws_fresh_clear(struct stk_aws_fresh *f);

/* Returns whether the wait for keys should end, because the storage ends or the user has interrupted. Call on the thread that waits. */
bool stk__aws_is_over(const struct stk_aws_asking *client);
/* Returns whether a request that got this HTTP status may succeed later: the server is busy (429) or has failed (500 and above). */
static inline bool stk__aws_may_pass(long status)
{
	return status == 429 || status >= 500;
}
/* Sends the request `q` and waits for the answer, which replaces the contents of `out`. After a status for which stk__aws_may_pass is true, pauses and sends it
 * again, up to three times. Returns the HTTP status; 0: no answer, an answer longer than 1 MiB, or stk__aws_is_over has ended the wait. */
long stk__aws_ask(const struct stk_aws_asking *client, const struct stk_aws_question *q, struct stk_text *out);
/* Appends the contents of a token's file, without trailing line ends. Returns false if the file cannot be read, is longer than 64 KiB, is empty or contains a
 * NUL, or if memory is short. */
bool stk__aws_read_token(const char *path, struct stk_text *out);

/* Converts a time such as "2026-01-31T12:00:00Z" to seconds since 1970; returns 0 for NULL or a text that is not a time. */
int64_t stk__aws_time(const char *text);
/* Stores copies of the keys in *out. Returns false if the id or the secret is missing, if `expires` is not a time (such keys would never be renewed), or if
 * memory is short. */
bool stk__aws_take_keys(struct stk_aws_fresh *out, const char *id, const char *secret, const char *token, const char *expires);
/* Reads {"AccessKeyId": .., "SecretAccessKey": .., "Token" or "SessionToken": .., "Expiration": ..}. Returns false like stk__aws_take_keys, and if the
 * answer is not JSON. */
bool stk__aws_take_json(struct stk_aws_fresh *out, const struct stk_text *answer);
/* Read keys from an answer of STS (XML), and from one of the portal of single sign-on (JSON). Return false like stk__aws_take_keys. */
bool stk__aws_take_sts(struct stk_aws_fresh *out, const struct stk_text *answer);
bool stk__aws_take_portal(struct stk_aws_fresh *out, const struct stk_text *answer);

/* Obtains keys from one kind of issuer, and stores them in *out. answer: filled with the issuer's answer, which may contain the keys and which the caller
 * therefore erases. On failure the message names the issuer and never quotes its answer. */
typedef enum stk_status stk_aws_issue_fn(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err);
stk_aws_issue_fn stk__aws_ask_web_identity, stk__aws_ask_sso, stk__aws_ask_process, stk__google_ask_user, stk__google_ask_service,
	stk__google_ask_metadata;
/* Obtains the keys of a role. base: the keys with which the request to assume the role is signed. */
STK_MUST_USE enum stk_status stk__aws_ask_role(const struct stk_aws_issuer *i, const struct stk_aws_fresh *base,
	const struct stk_aws_asking *client, struct stk_text *answer, struct stk_aws_fresh *out, struct stk_error *err);

#endif
