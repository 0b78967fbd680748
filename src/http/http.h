/* SPDX-License-Identifier: Apache-2.0
 * Reads objects of http://, https://, s3:// and gs:// with a few threads, each of which has hundreds of requests under way. libcurl opens the
 * connections, with TLS where the scheme asks for it.
 *
 * A request for a whole object is one GET, any other a GET of a range. If a body ends early, a request for the remaining range follows, if the ETag shows that
 * the object is unchanged. 404 (unless the bucket is missing), 410, a range that ends after the object, and a 403 for one object of a bucket from which others
 * were read are failures of the object. Nearly all other errors of servers and networks are failures of the source: io repeats such requests,
 * as the settings of retries below say. */
#ifndef STK_HTTP_H
#define STK_HTTP_H

#include "aws/aws.h"
#include "io/io.h"

enum { STK_HTTP_THREADS = 16 }; /* maximum number of threads of a source */

/* Settings of the source. A number that is 0 stands for its default. */
struct stk_http_settings {
	const struct stk_aws_given
		*given; /* settings that take precedence over the environment; must live as long as the source. NULL: none */
	int threads;    /* number of threads; default 2 */
	/* Maximum number of requests under way; default 2048. It is lowered if half of the process's descriptors (ulimit -n) do not suffice for as many. */
	int requests;
	int64_t connect_ms;      /* time limit of opening a connection; default 5 000 */
	int64_t first_byte_ms;   /* time limit from the beginning of a request to the first byte of its answer; default 20 000 */
	int64_t stall_ms;        /* time in which at least 4 KiB of a body must arrive; default 10 000 */
	int32_t retries;         /* number of retries; default 10; -1: none */
	int64_t backoff_ms;      /* upper bound of the first wait before a retry; default 100 */
	int64_t most_backoff_ms; /* upper bound of later waits; default 5 000 */
	bool no_hedging;
	bool google; /* true: serves gs:// with the settings of Google's tools; false: serves s3:// and http:// */
};

/* Adds the source to io, and reads the settings of object stores from the environment; mistakes in them become errors of requests for s3:// and gs:// URIs.
 * `settings` may be NULL. In a build without libcurl, the source fails each request with a message that says so. */
STK_MUST_USE enum stk_status stk__http_add(struct stk_io *io, const struct stk_http_settings *settings, struct stk_error *err);

/* The versions of libcurl and its TLS library, such as "8.22.0" and "OpenSSL/3.5.7", in texts that live as long as the process; NULL without libcurl.
 * stk__http_library loads libcurl. */
struct stk_http_library {
	const char *curl, *tls;
};
struct stk_http_library stk__http_library(void);

#endif
