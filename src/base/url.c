/* SPDX-License-Identifier: Apache-2.0 */
#include "base/url.h"

#include "base/error.h"
#include "base/memory.h"

#include <stoker/storage.h>

#include <string.h>
#include <strings.h>

/* Beginnings of parameters of URLs that S3, Google Cloud Storage, Alibaba and Hugging Face sign. */
static const char *const signing[] = {"x-amz-", "x-goog-", "x-oss-", "x-xet-"};

/* The parameters that come with a signature. Without one, such a parameter may mean another thing. */
static const char *const with_signature[] = {"signature", "expires", "policy", "key-pair-id", "hash-algorithm", "awsaccesskeyid",
	"googleaccessid", "ossaccesskeyid", "security-token", NULL}; /* S3 and Google Cloud Storage (version 2), CloudFront */
static const char *const with_sig[] = {"sig", "se", "st", "sp", "sv", "sr", "ss", "srt", "sip", "spr", "sdd", "ses", "si", "skoid", "sktid",
	"skt", "ske", "sks", "skv", "saoid", "suoid", "scid", NULL}; /* Azure */

static bool is_key(const char *key, size_t n, const char *name)
{
	return strlen(name) == n && strncasecmp(key, name, n) == 0;
}

/* Returns whether one of the query's parameters has this name. */
static bool has_key(const char *query, const char *name)
{
	for (const char *at = query;; at++) {
		if (is_key(at, strcspn(at, "=&"), name))
			return true;
		at += strcspn(at, "&");
		if (!*at)
			return false;
	}
}

static bool is_one_of(const char *key, size_t n, const char *const *names)
{
	while (*names)
		if (is_key(key, n, *names++))
			return true;
	return false;
}

static bool begins_signing(const char *key)
{
	for (size_t i = 0; i < sizeof signing / sizeof *signing; i++)
		if (strncasecmp(key, signing[i], strlen(signing[i])) == 0)
			return true;
	return false;
}

bool stk__has_query(const char *name)
{
	return (name[0] == 'h' || name[0] == 'H') && (strncasecmp(name, "http://", 7) == 0 || strncasecmp(name, "https://", 8) == 0) &&
	       strchr(name, '?');
}

struct stk_file_name stk__without_signature(const char *name, char copy[STK_MAX_SIGNED])
{
	struct stk_file_name whole = {name, strlen(name)};
	if (whole.n >= STK_MAX_SIGNED || !stk__has_query(name))
		return whole;
	const char *query = strchr(name, '?') + 1;
	const bool signature = has_key(query, "signature"), sig = has_key(query, "sig");
	size_t n = (size_t)(query - name), kept = 0;
	memcpy(copy, name, n);
	for (const char *at = query;; at++) {
		const size_t size = strcspn(at, "&"), key = strcspn(at, "=&");
		if (!begins_signing(at) && !(signature && is_one_of(at, key, with_signature)) && !(sig && is_one_of(at, key, with_sig))) {
			if (kept++)
				copy[n++] = '&';
			memcpy(copy + n, at, size);
			n += size;
		}
		at += size;
		if (!*at)
			break;
	}
	return (struct stk_file_name){copy, kept ? n : n - 1};
}

enum stk_status stk_storage_unsigned_name(const char *name, char **out, struct stk_error *err)
{
	char copy[STK_MAX_SIGNED];

	if (STK_NEED(err, name, out))
		return STK_INVALID;
	const struct stk_file_name kept = stk__without_signature(name, copy);
	*out = stk__alloc(kept.n + 1);
	if (!*out)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the name of a file");
	memcpy(*out, kept.text, kept.n);
	(*out)[kept.n] = '\0';
	return STK_OK;
}
