/* SPDX-License-Identifier: Apache-2.0
 * Checks a request's signature, following AWS's description of Signature Version 4, with OpenSSL. It shares no code with the signer in src/aws. */
#include "s3_impl.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

bool s3_header(const char *headers, const char *name, char *out, size_t capacity)
{
	size_t n = strlen(name);
	for (const char *line = headers; line && *line; line = strstr(line, "\r\n") ? strstr(line, "\r\n") + 2 : NULL) {
		if (strncasecmp(line, name, n) != 0 || line[n] != ':')
			continue;
		const char *value = line + n + 1;
		value += strspn(value, " ");
		snprintf(out, capacity, "%.*s", (int)strcspn(value, "\r\n"), value);
		return true;
	}
	*out = 0;
	return false;
}

static void to_hex(const unsigned char *d, char *out)
{
	for (int i = 0; i < 32; i++)
		sprintf(out + 2 * i, "%02x", d[i]);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends the query's parameters to *out, sorted, each with a '='. The parameters are URL-encoded and stay so. */
static void canonical_query(const char *query, struct s3_text *out)
{
	char *copy = strdup(query), *parts[64], *save = NULL;
	size_t n = 0;
	for (char *p = strtok_r(copy, "&", &save); p && n < 64; p = strtok_r(NULL, "&", &save))
		parts[n++] = p;
	qsort(parts, n, sizeof *parts, by_text);
	for (size_t i = 0; i < n; i++)
		s3_text_add(out, "%s%s%s", i ? "&" : "", parts[i], strchr(parts[i], '=') ? "" : "=");
	free(copy);
}

/* Copies a field of "AWS4-HMAC-SHA256 Credential=.., SignedHeaders=.., Signature=.." to `out`. name: with its "=". Returns false if the field is missing. */
static bool field(const char *authorization, const char *name, char *out, size_t capacity)
{
	const char *p = strstr(authorization, name);
	if (!p)
		return false;
	p += strlen(name);
	snprintf(out, capacity, "%.*s", (int)strcspn(p, ", "), p);
	return true;
}

static bool canonical_request(const char *method, const char *path, const char *query, const char *headers, const char *signed_headers,
	const char *body, struct s3_text *out)
{
	char names[1024], value[8192], *save = NULL;
	snprintf(names, sizeof names, "%s", signed_headers);
	s3_text_add(out, "%s\n%s\n", method, path);
	canonical_query(query, out);
	s3_text_add(out, "\n");
	for (char *name = strtok_r(names, ";", &save); name; name = strtok_r(NULL, ";", &save)) {
		if (!s3_header(headers, name, value, sizeof value))
			return false;
		s3_text_add(out, "%s:%s\n", name, value);
	}
	if (!s3_header(headers, "x-amz-content-sha256", value, sizeof value)) {
		unsigned char digest[32];
		unsigned size = 32;
		EVP_Digest(body, strlen(body), digest, &size, EVP_sha256(), NULL);
		to_hex(digest, value);
	}
	s3_text_add(out, "\n%s\n%s", signed_headers, value);
	return true;
}

static void hmac(const void *key, size_t n, const char *text, unsigned char out[32])
{
	unsigned size = 32;
	HMAC(EVP_sha256(), key, (int)n, (const unsigned char *)text, strlen(text), out, &size);
}

static void sign(const char *secret, const char *scope, const char *date, const char *canonical, char out[65])
{
	unsigned char digest[32];
	char hash[65], first[512], parts[256], *save = NULL;
	unsigned size = 32;
	EVP_Digest(canonical, strlen(canonical), digest, &size, EVP_sha256(), NULL);
	to_hex(digest, hash);
	struct s3_text text = {0};
	s3_text_add(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hash);
	snprintf(first, sizeof first, "AWS4%s", secret);
	snprintf(parts, sizeof parts, "%s", scope);
	hmac(first, strlen(first), strtok_r(parts, "/", &save), digest);
	for (char *p; (p = strtok_r(NULL, "/", &save));) {
		unsigned char next[32];
		hmac(digest, 32, p, next);
		memcpy(digest, next, 32);
	}
	unsigned char last[32];
	hmac(digest, 32, text.s, last);
	to_hex(last, out);
	free(text.s);
}

const char *s3_check_signature(
	const struct s3_keys *k, const char *method, const char *path, const char *query, const char *headers, const char *body)
{
	char authorization[4096], credential[512], signed_headers[512], given[128], date[64], token[4096], right[65], id[256];
	struct tm tm = {0};
	if (!s3_header(headers, "authorization", authorization, sizeof authorization))
		return "AccessDenied";
	if (!field(authorization, "Credential=", credential, sizeof credential) ||
		!field(authorization, "SignedHeaders=", signed_headers, sizeof signed_headers) ||
		!field(authorization, "Signature=", given, sizeof given) || !s3_header(headers, "x-amz-date", date, sizeof date))
		return "AuthorizationHeaderMalformed";
	char *scope = strchr(credential, '/');
	snprintf(id, sizeof id, "%.*s", (int)strcspn(credential, "/"), credential);
	if (!scope || strcmp(id, k->id) != 0)
		return "InvalidAccessKeyId";
	char region[128], service[64];
	if (sscanf(scope, "/%*8[0-9]/%127[^/]/%63[^/]/aws4_request", region, service) != 2 ||
		strcmp(service, strcmp(method, "POST") == 0 ? "sts" : "s3") != 0 || strncmp(scope + 1, date, 8) != 0 ||
		(k->region && strcmp(region, k->region) != 0))
		return "AuthorizationHeaderMalformed";
	s3_header(headers, "x-amz-security-token", token, sizeof token);
	if (strcmp(token, k->token ? k->token : "") != 0 || (k->token && !strstr(signed_headers, "x-amz-security-token")))
		return strncmp(token, "expired", 7) == 0 ? "ExpiredToken" : "InvalidToken";
	if (!strstr(signed_headers, "host") || !strstr(signed_headers, "x-amz-date"))
		return "AccessDenied";
	if (!strptime(date, "%Y%m%dT%H%M%SZ", &tm) || llabs((long long)(timegm(&tm) - time(NULL))) > 900)
		return "RequestTimeTooSkewed";
	struct s3_text canonical = {0};
	bool complete = canonical_request(method, path, query, headers, signed_headers, body, &canonical);
	if (complete)
		sign(k->secret, scope + 1, date, canonical.s, right);
	free(canonical.s);
	return complete && strcmp(right, given) == 0 ? NULL : "SignatureDoesNotMatch";
}
