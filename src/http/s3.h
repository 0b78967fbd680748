/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the URI of an object into the HTTP request for it. */
#ifndef STK_HTTP_S3_H
#define STK_HTTP_S3_H

#include "aws/aws.h"

#include <time.h>

/* The key that signs requests with one version of the settings. */
struct stk_http_signer {
	uint64_t settings; /* number of this version */
	struct stk_sigv4_key key;
};

/* The target of one request. For http:// and https:// URIs it has neither headers nor a bucket. */
struct stk_http_target {
	struct stk_text url;
	struct stk_text host, path; /* host and path of the URL, in addition to `url`; set only if the URI names a bucket */
	struct stk_text headers[5];
	int header_count;
	char bucket[256];               /* name of the bucket; "" if the URI does not name one */
	struct stk_http_signer *signer; /* signer of earlier requests on the same thread; may be NULL */
};

/* Fills in the request for a URI of a store (stk__s3_is_store), and signs it unless the settings are anonymous; call stk__http_target_reset before. now:
 * seconds since 1970 by the servers' clock. region: the bucket's region if it is known to differ from the settings; otherwise NULL. STK_IO: no keys. */
STK_MUST_USE enum stk_status stk__s3_target(struct stk_http_target *t, const struct stk_aws_settings *s, const char *region,
	const char *uri, time_t now, struct stk_error *err);
/* Makes the texts empty, without freeing their memory. */
void stk__http_target_reset(struct stk_http_target *t);
void stk__http_target_free(struct stk_http_target *t);

/* stk__s3_is_store returns whether a URI is of a store with buckets (s3://, gs:// and their listings), stk__s3_is_listing whether it is a page of a listing
 * (SCHEMElist://). */
bool stk__s3_is_store(const char *uri);
bool stk__s3_is_listing(const char *uri);

/* Copies the part of a URI between "://" and the next / or ?, which is the bucket's name if the URI is of a store. Returns false if this part is missing, or if
 * no store allows a bucket of this name. */
bool stk__s3_bucket(const char *uri, char bucket[256]);

/* Writes the URI of one page of a listing (ListObjectsV2), "SCHEMElist://BUCKET?...", whose content is XML. root: a URI with that scheme. delimiter "": keys
 * at any depth. token: continuation token of the previous page; NULL for the first page. after: the listing begins after this key; NULL: at the first key. */
void stk__s3_list_uri(struct stk_text *out, const char *root, const char *bucket, const char *prefix, const char *delimiter,
	const char *token, const char *after);

#endif
