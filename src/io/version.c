/* SPDX-License-Identifier: Apache-2.0 */
#include "io/version.h"

#include "base/xxhash.h"
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
