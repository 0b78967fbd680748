/* SPDX-License-Identifier: Apache-2.0
 * Implements http.h in a build without libcurl: every request fails with a message that says so. */
#include "http/http.h"

#include "base/error.h"

static void submit(void *source, struct stk_io *io, struct stk_request *r)
{
	(void)source;
	stk__io_finish(io, r,
		stk__fail(r->error, STK_UNSUPPORTED,
			"%.*s: this build of Stoker reads no http://, s3:// and gs://, since libcurl's headers (libcurl4-openssl-dev) were missing when it "
			"was made",
			stk__uri_shown(r->uri), r->uri));
}

static void nothing(void *source)
{
	(void)source;
}

enum stk_status stk__http_add(struct stk_io *io, const struct stk_http_settings *settings, struct stk_error *err)
{
	static const struct stk_source_ops ops = {
		.scheme = "s3 s3list http https", .submit = submit, .cancel_all = nothing, .destroy = nothing};
	static const struct stk_source_ops google = {.scheme = "gs gslist", .submit = submit, .cancel_all = nothing, .destroy = nothing};
	return stk__io_add_source(io, settings && settings->google ? &google : &ops, NULL, err);
}

struct stk_http_library stk__http_library(void)
{
	return (struct stk_http_library){0};
}
