/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API reference. */
#include "aws/sigv4.h"

#include "base/system.h"

#include <stdio.h>
#include <string.h>

static char *put(char *to, int64_t value, int digits)
{
	for (int i = digits; i-- > 0; value /= 10)
		to[i] = (char)('0' + value % 10);
	return to + digits;
}

/* Writes a time such as "20130524T000000Z". Does not use gmtime_r, which takes a lock and reads the time zone. The arithmetic is from H. Hinnant,
 * "chrono-Compatible Low-Level Date Algorithms": a year begins in March, so that a leap day is the last day of its year; TO_1970 is the number of days from
 * 1 March of year 0 to 1970. */
void stk__sigv4_date(time_t t, char date[STK_SIGV4_DATE])
{
	enum { DAY = 86400, TO_1970 = 719468, IN_400_YEARS = 146097 };
	const int64_t days = t / DAY + TO_1970, second = t % DAY, era = days / IN_400_YEARS, day = days % IN_400_YEARS;
	const int64_t year = (day - day / 1460 + day / 36524 - day / (IN_400_YEARS - 1)) / 365;
	const int64_t of_year = day - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
	char *to = put(date, era * 400 + year + (month >= 10), 4);
	to = put(to, month < 10 ? month + 3 : month - 9, 2);
	to = put(to, of_year - (153 * month + 2) / 5 + 1, 2);
	*to++ = 'T';
	to = put(to, second / 3600, 2);
	to = put(to, second / 60 % 60, 2);
	to = put(to, second % 60, 2);
	*to++ = 'Z';
	*to = 0;
}

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

void stk__uri_encode(struct stk_text *out, const char *s, const char *keep)
{
	for (size_t n; *s; s += n) {
		for (n = 0; is_unreserved(s[n]) || (s[n] && strchr(keep, s[n])); n++)
			;
		if (n) {
			stk__text_append(out, s, n);
			continue;
		}
		const char hex[] = "0123456789ABCDEF", coded[] = {'%', hex[(unsigned char)*s >> 4], hex[*s & 15]};
		stk__text_append(out, coded, sizeof coded);
		n = 1;
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

static bool derive_key(const struct stk_sigv4_request *q, const char *secret, struct stk_hmac_sha256 *out)
{
	const char *const parts[] = {q->region, q->service, "aws4_request"};
	struct stk_text first = {0};
	uint8_t key[STK_SHA256_SIZE];
	stk__text_add(&first, "AWS4%s", secret);
	if (first.failed)
		return false;
	stk__hmac_sha256(first.s, first.length, q->date, 8, key);
	for (int i = 0; i < 3; i++)
		stk__hmac_sha256(key, sizeof key, parts[i], strlen(parts[i]), key);
	stk__hmac_sha256_key(out, key, sizeof key);
	stk__erase(first.s, first.length);
	stk__erase(key, sizeof key);
	stk__text_free(&first);
	return true;
}

/* Sets *k to the key for the request's day, region and service, unless *k is that key already. Returns false if memory is short. */
static bool find_key(const struct stk_sigv4_request *q, const char *secret, struct stk_sigv4_key *k)
{
	if (memcmp(k->day, q->date, sizeof k->day) == 0 && strcmp(k->region, q->region) == 0 && strcmp(k->service, q->service) == 0)
		return true;
	*k = (struct stk_sigv4_key){0};
	if (!derive_key(q, secret, &k->hmac))
		return false;
	memcpy(k->day, q->date, sizeof k->day);
	snprintf(k->region, sizeof k->region, "%s", q->region);
	snprintf(k->service, sizeof k->service, "%s", q->service);
	return true;
}

static bool sign(
	const struct stk_sigv4_request *q, const char *secret, struct stk_sigv4_key *cached, const char *hash, char hex[STK_SHA256_HEX])
{
	struct stk_sigv4_key temporary = {0}, *k = cached ? cached : &temporary;
	uint8_t digest[STK_SHA256_SIZE];
	if (!find_key(q, secret, k))
		return false;
	struct stk_sha256 s = k->hmac.inner;
	add(&s, "AWS4-HMAC-SHA256\n", "");
	add(&s, q->date, "\n");
	stk__sha256_add(&s, q->date, 8);
	add(&s, "/", q->region);
	add(&s, "/", q->service);
	add(&s, "/aws4_request\n", hash);
	stk__hmac_sha256_end(&k->hmac, &s, digest);
	stk__sha256_hex(digest, hex);
	return true;
}

void stk__sigv4_authorization(
	const struct stk_sigv4_request *q, const struct stk_aws_keys *keys, struct stk_sigv4_key *cached, struct stk_text *out)
{
	char hash[STK_SHA256_HEX], signature[STK_SHA256_HEX];
	hash_request(q, hash);
	if (!sign(q, keys->secret, cached, hash, signature)) {
		out->failed = true;
		return;
	}
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
