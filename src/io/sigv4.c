/* SPDX-License-Identifier: Apache-2.0
 * As in "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API reference. */
#include "io/sigv4.h"

#include "base/system.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

void stk__sigv4_date(time_t t, char date[STK_SIGV4_DATE])
{
	struct tm utc;
	strftime(date, STK_SIGV4_DATE, "%Y%m%dT%H%M%SZ", gmtime_r(&t, &utc));
}

void stk__uri_encode(struct stk_text *out, const char *s, const char *keep)
{
	static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	while (*s) {
		size_t n = strspn(s, unreserved);
		if (n)
			stk__text_append(out, s, n);
		s += n;
		for (; *s && !strchr(unreserved, *s); s++) {
			const char hex[] = "0123456789ABCDEF", coded[] = {'%', hex[(unsigned char)*s >> 4], hex[*s & 15]};
			const bool stays = strchr(keep, *s);
			stk__text_append(out, stays ? s : coded, stays ? 1 : sizeof coded);
		}
	}
}

static void add(struct stk_sha256 *s, const char *text, const char *end)
{
	stk__sha256_add(s, text, strlen(text));
	stk__sha256_add(s, end, strlen(end));
}

static void hash_request(const struct stk_sigv4_request *q, char hex[STK_SHA256_HEX])
{
	struct stk_sha256 s;
	uint8_t digest[STK_SHA256_SIZE];
	stk__sha256_init(&s);
	add(&s, q->method, "\n");
	add(&s, q->path, "\n");
	add(&s, q->query, "\n");
	for (int i = 0; i < q->header_count; i++) {
		add(&s, q->headers[i].name, ":");
		add(&s, q->headers[i].value, "\n");
	}
	add(&s, "", "\n");
	for (int i = 0; i < q->header_count; i++)
		add(&s, q->headers[i].name, i + 1 < q->header_count ? ";" : "\n");
	add(&s, q->payload, "");
	stk__sha256_end(&s, digest);
	stk__sha256_hex(digest, hex);
}

static void derive_key(const struct stk_sigv4_request *q, const char *secret, uint8_t key[STK_SHA256_SIZE])
{
	struct stk_text first = {0};
	stk__text_add(&first, "AWS4%s", secret);
	stk__hmac_sha256(first.s ? first.s : "", first.length, q->date, 8, key);
	if (first.s)
		stk__erase(first.s, first.length);
	stk__text_free(&first);
	stk__hmac_sha256(key, STK_SHA256_SIZE, q->region, strlen(q->region), key);
	stk__hmac_sha256(key, STK_SHA256_SIZE, q->service, strlen(q->service), key);
	stk__hmac_sha256(key, STK_SHA256_SIZE, "aws4_request", 12, key);
}

static void sign(const struct stk_sigv4_request *q, const char *secret, struct stk_sigv4_key *kept, const char *text, size_t n,
	char hex[STK_SHA256_HEX])
{
	struct stk_sigv4_key own = {0}, *k = kept ? kept : &own;
	uint8_t digest[STK_SHA256_SIZE];
	char scope[sizeof k->scope];
	snprintf(scope, sizeof scope, "%.8s/%s/%s", q->date, q->region, q->service);
	if (strcmp(k->scope, scope) != 0) {
		derive_key(q, secret, k->key);
		memcpy(k->scope, scope, sizeof scope);
	}
	stk__hmac_sha256(k->key, sizeof k->key, text, n, digest);
	stk__sha256_hex(digest, hex);
}

void stk__sigv4_authorization(
	const struct stk_sigv4_request *q, const struct stk_aws_keys *keys, struct stk_sigv4_key *kept, struct stk_text *out)
{
	char hash[STK_SHA256_HEX], signature[STK_SHA256_HEX];
	struct stk_text text = {0};
	hash_request(q, hash);
	stk__text_add(&text, "AWS4-HMAC-SHA256\n%s\n%.8s/%s/%s/aws4_request\n%s", q->date, q->date, q->region, q->service, hash);
	out->failed |= text.failed;
	if (!out->failed)
		sign(q, keys->secret, kept, text.s, text.length, signature);
	stk__text_free(&text);
	if (out->failed)
		return;
	const char *const parts[] = {
		"AWS4-HMAC-SHA256 Credential=", keys->id, "/", NULL, "/", q->region, "/", q->service, "/aws4_request, SignedHeaders="};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		stk__text_append(out, parts[i] ? parts[i] : q->date, parts[i] ? strlen(parts[i]) : 8);
	for (int i = 0; i < q->header_count; i++) {
		stk__text_append(out, ";", i > 0);
		stk__text_append(out, q->headers[i].name, strlen(q->headers[i].name));
	}
	stk__text_append(out, ", Signature=", 12);
	stk__text_append(out, signature, strlen(signature));
}
