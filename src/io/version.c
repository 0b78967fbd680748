/* SPDX-License-Identifier: Apache-2.0 */
#include "io/version.h"

#include "base/xxhash.h"
#include "io/io.h"
#include "io/time_text.h"

#include <string.h>

const char *stk__version_word(const char *version)
{
	int64_t at;
	return stk__http_date(version, strlen(version), &at) ? "Last-Modified" : "ETag";
}

uint64_t stk__etag_hash(const char *etag)
{
	const char *begin = strncmp(etag, "W/", 2) == 0 ? etag + 2 : etag;
	begin += *begin == '"';
	size_t n = strcspn(begin, "\"");
	uint64_t h = n ? stk__xxh64(begin, n, 0) : 0;
	return n && !h ? 1 : h;
}

uint64_t stk__file_version_hash(int64_t size, int64_t modified_ns)
{
	const int64_t marks[] = {size, modified_ns};
	const uint64_t h = stk__xxh64(marks, sizeof marks, 0);
	return h ? h : 1;
}

enum stk_status stk__check_same_object(
	const char *uri, const char *verb, const struct stk_object *was, const struct stk_object *now, struct stk_error *err)
{
	if (strcmp(was->version, now->version) != 0)
		return stk__fail(err, STK_IO, "%.*s: it changed while it was %s: its %s was %s, and is now %s", stk__uri_shown(uri), uri,
			verb, stk__version_word(was->version[0] ? was->version : now->version), was->version[0] ? was->version : "missing",
			now->version[0] ? now->version : "missing");
	if (was->size >= 0 && now->size >= 0 && was->size != now->size)
		return stk__fail(err, STK_IO, "%.*s: it changed while it was %s: it had %lld bytes, and has %lld", stk__uri_shown(uri), uri,
			verb, (long long)was->size, (long long)now->size);
	return STK_OK;
}
