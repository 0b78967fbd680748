/* SPDX-License-Identifier: Apache-2.0
 * From the URI of an object to the HTTP request that gets it. */
#ifndef STK_IO_S3_H
#define STK_IO_S3_H

#include "io/aws.h"

#include <time.h>

/* What requests of one settings' number have been signed with. */
struct stk_http_signer {
	uint64_t settings;
	struct stk_sigv4_key key;
};

/* One request, for http:// and https:// too, which have neither headers nor a bucket. */
struct stk_http_target {
	struct stk_text url;
	struct stk_text host, path; /* of it; of a bucket's alone */
	struct stk_text headers[5];
	int header_count;
	char bucket[256];               /* "" where the URI is no bucket's */
	struct stk_http_signer *signer; /* of the requests before it, on the same thread; nullable */
};

/* What s3:// and s3list:// URIs ask for. region: of this bucket, where it is known to be another than the settings'; else NULL. */
STK_MUST_USE enum stk_status stk__s3_target(struct stk_http_target *t, const struct stk_aws_settings *s, const char *region,
	const char *uri, time_t now, struct stk_error *err);
/* Makes the texts empty and keeps their memory. */
void stk__http_target_reset(struct stk_http_target *t);
void stk__http_target_free(struct stk_http_target *t);

/* The bucket of an s3:// or s3list:// URI, or what stands in its place in others; false: it has none, or a name that no store allows. */
bool stk__s3_bucket(const char *uri, char bucket[256]);

/* 64 bits of an ETag, without quotes and marks; 0 for none. */
uint64_t stk__etag_hash(const char *etag);

/* What a version of an object is called in messages: "ETag", or "Last-Modified" where the server gives nothing better. */
const char *stk__version_word(const char *version);

/* A page of a listing (ListObjectsV2) as a URI of its own, "SCHEMElist://BUCKET?...": its bytes are XML. root: whose scheme it is; delimiter "": keys at any
 * depth; token: what the page before gave, or NULL; after: the first page has keys behind this one, or NULL. */
void stk__s3_list_uri(struct stk_text *out, const char *root, const char *bucket, const char *prefix, const char *delimiter,
	const char *token, const char *after);

#endif
