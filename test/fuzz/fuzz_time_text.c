/* SPDX-License-Identifier: Apache-2.0
 * Dates of HTTP and times of ISO 8601. An accepted date of HTTP gives the same time as the C library's parser. Both kinds give the same time after they are
 * written and read again. */
#include "fuzz.h"

#include "io/time_text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t by_library(const char *text, const char *format, const char *rest)
{
	struct tm tm = {0};
	const char *end = strptime(text, format, &tm);
	if (!end || strcmp(end, rest) != 0)
		abort();
	return (int64_t)timegm(&tm);
}

static void check(const char *text, size_t n)
{
	char again[64];
	struct tm tm;
	int64_t at, same;
	if (stk__http_date(text, n, &at)) {
		const bool fixed = text[3] == ',', longer = !fixed && strchr(text, ',');
		const char *format = fixed ? "%a, %d %b %Y %H:%M:%S GMT" : longer ? "%A, %d-%b-%y %H:%M:%S GMT" : "%a %b %d %H:%M:%S %Y";
		if (by_library(text, format, "") != at)
			abort();
		const time_t t = (time_t)at;
		strftime(again, sizeof again, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&t, &tm));
		if (tm.tm_year >= 1000 - 1900 &&
			(!stk__http_date(again, strlen(again), &same) || same != at)) /* %Y does not pad years of fewer than four digits */
			abort();
	}
	if (stk__iso_time(text, n, &at)) {
		const time_t t = (time_t)at;
		strftime(again, sizeof again, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
		if (at >= by_library("0001-01-01T00:00:00Z", "%Y-%m-%dT%H:%M:%SZ", "") &&
			at < by_library("9999-12-31T00:00:00Z", "%Y-%m-%dT%H:%M:%SZ", "") && tm.tm_year >= 1000 - 1900 &&
			(!stk__iso_time(again, strlen(again), &same) || same != at))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[128];
	const size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
	memcpy(text, data, n);
	text[n] = '\0';
	if (!memchr(text, '\0', n))
		check(text, n);
	else
		check(text, strlen(text));
	return 0;
}

uint8_t *fuzz_seed(int i, size_t *size)
{
	static const char *const texts[] = {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
		"Thu, 29 Feb 2024 23:59:60 GMT", "Tue, 29 Feb 2023 00:00:00 GMT", "Sat, 31 Dec 9999 23:59:59 GMT",
		"Mon, 01 Jan 0001 00:00:00 GMT", "Wed, 06 Feb 0000 00:40:05 GMT", "2026-01-31T12:00:00Z",
		"2026-01-31T12:00:00.123456+01:30", "2024-02-29T12:00:00UTC", "2026-01-31 12:00:00-0800", ""};
	if ((size_t)i >= sizeof texts / sizeof *texts)
		return NULL;
	*size = strlen(texts[i]);
	uint8_t *copy = malloc(*size + 1);
	memcpy(copy, texts[i], *size);
	return copy;
}
