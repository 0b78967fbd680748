/* SPDX-License-Identifier: Apache-2.0
 * SHA-1, SHA-256, HMAC and Signature Version 4 give the results that their publishers state; the settings of object stores are read from where AWS's tools
 * read them. */
#include "test.h"

#include "aws/aws.h"
#include "base/memory.h"
#include "base/sha1.h"
#include "base/sha256.h"
#include "http/s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check_hash(const void *data, size_t n, size_t piece, const char *want)
{
	struct stk_sha256 s;
	uint8_t digest[STK_SHA256_SIZE];
	char hex[STK_SHA256_HEX];
	stk__sha256_init(&s);
	for (size_t at = 0; at < n; at += piece)
		stk__sha256_add(&s, (const char *)data + at, n - at < piece ? n - at : piece);
	stk__sha256_end(&s, digest);
	stk__sha256_hex(digest, hex);
	assert_string_equal(hex, want);
}

/* Compares with the examples of FIPS 180-4, and with sha256sum for lengths around the end of a block. */
static void test_sha256(void **state)
{
	(void)state;
	static char million[1000000];
	memset(million, 'a', sizeof million);
	check_hash("", 0, 1, STK_SIGV4_EMPTY);
	check_hash("abc", 3, 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	check_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, 7,
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	check_hash(million, sizeof million, 999, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	check_hash(million, 55, 64, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
	check_hash(million, 56, 64, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
	check_hash(million, 64, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

/* Compares with the examples of FIPS 180-4, and with sha1sum for lengths around the end of a block. */
static void test_sha1(void **state)
{
	static const struct {
		size_t n;
		const char *want;
	} cases[] = {{0, "da39a3ee5e6b4b0d3255bfef95601890afd80709"}, {55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"},
		{56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"}, {64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"},
		{1000, "291e9a6c66994949b57ba5e650361e98fc36b1ba"}};
	char text[1000], hex[STK_SHA1_HEX];
	(void)state;
	memset(text, 'a', sizeof text);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		stk__sha1_hex(text, cases[i].n, hex);
		assert_string_equal(hex, cases[i].want);
	}
	stk__sha1_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
	assert_string_equal(hex, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
}

/* Compares with cases 1, 2 and 6 of RFC 4231. */
static void test_hmac(void **state)
{
	(void)state;
	uint8_t key[131], digest[STK_SHA256_SIZE];
	char hex[STK_SHA256_HEX];
	memset(key, 0x0b, 20);
	stk__hmac_sha256(key, 20, "Hi There", 8, digest);
	stk__sha256_hex(digest, hex);
	assert_string_equal(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	stk__hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, digest);
	stk__sha256_hex(digest, hex);
	assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof key);
	stk__hmac_sha256(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First", 54, digest);
	stk__sha256_hex(digest, hex);
	assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* Compares with the C library: January to April of each year to 2400, and random times. */
static void test_dates(void **state)
{
	(void)state;
	char date[STK_SIGV4_DATE], want[STK_SIGV4_DATE];
	const uint64_t seed = (uint64_t)time(NULL);
	print_message("seed %llu\n", (unsigned long long)seed);
	uint64_t x = seed;
	for (int i = 0; i < 200000; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		time_t t = i < 240 * 430 ? (time_t)(i / 240) * 31556952 + i % 240 * 43200 : (time_t)(x >> 33) * 6;
		struct tm utc;
		strftime(want, sizeof want, "%Y%m%dT%H%M%SZ", gmtime_r(&t, &utc));
		stk__sigv4_date(t, date);
		assert_string_equal(date, want);
	}
}

static void check_signature(const struct stk_sigv4_request *q, const struct stk_aws_keys *keys, const char *want)
{
	struct stk_sigv4_key kept = {0};
	for (int i = 0; i < 3; i++) { /* without a cache, then with an empty one, then with one that holds the key */
		struct stk_text out = {0};
		stk__sigv4_authorization(q, keys, i ? &kept : NULL, &out);
		assert_false(out.failed);
		const char *found = strstr(out.s, "Signature=");
		assert_non_null(found);
		assert_string_equal(found + 10, want);
		stk__text_free(&out);
	}
}

/* The examples of the Amazon S3 API reference, "Signature Calculations for the Authorization Header", for requests without a body. */
static void test_examples_of_s3(void **state)
{
	(void)state;
	const struct stk_aws_keys keys = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", NULL};
	const struct stk_sigv4_header with_range[] = {{"host", "examplebucket.s3.amazonaws.com"}, {"range", "bytes=0-9"},
		{"x-amz-content-sha256", STK_SIGV4_EMPTY}, {"x-amz-date", "20130524T000000Z"}};
	const struct stk_sigv4_header plain[] = {with_range[0], with_range[2], with_range[3]};
	struct stk_sigv4_request q = {.method = "GET",
		.path = "/test.txt",
		.query = "",
		.headers = with_range,
		.header_count = 4,
		.payload = STK_SIGV4_EMPTY,
		.region = "us-east-1",
		.service = "s3",
		.date = "20130524T000000Z"};
	check_signature(&q, &keys, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
	q.path = "/";
	q.query = "lifecycle=";
	q.headers = plain;
	q.header_count = 3;
	check_signature(&q, &keys, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
	q.query = "max-keys=2&prefix=J";
	check_signature(&q, &keys, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

/* Examples from AWS's Signature Version 4 test suite. */
static void test_suite_of_aws(void **state)
{
	(void)state;
	const struct stk_aws_keys keys = {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", NULL};
	const struct stk_sigv4_header headers[] = {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}};
	struct stk_sigv4_request q = {.method = "GET",
		.path = "/",
		.query = "",
		.headers = headers,
		.header_count = 2,
		.payload = STK_SIGV4_EMPTY,
		.region = "us-east-1",
		.service = "service",
		.date = "20150830T123600Z"};
	check_signature(&q, &keys, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"); /* get-vanilla */
	q.query = "Param1=value1&Param2=value2";
	check_signature(
		&q, &keys, "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"); /* get-vanilla-query-order-key-case */
	struct stk_text path = {0};
	stk__uri_encode(&path, "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "/");
	q.path = path.s;
	q.query = "";
	check_signature(&q, &keys, "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"); /* get-unreserved */
	stk__text_free(&path);
	stk__uri_encode(&path, "/\u1234", "/");
	q.path = path.s;
	check_signature(&q, &keys, "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"); /* get-utf8 */
	stk__text_free(&path);
}

/* ---- settings ---- */

static char home[64];

static void put(const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof path, "%s/.aws/%s", home, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int begin(void **state)
{
	static const char *const names[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
		"AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE",
		"AWS_NO_SIGN_REQUEST", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "STOKER_S3_ADDRESSING",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"};
	char folder[80];
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unsetenv(names[i]);
	strcpy(home, "/tmp/stk-aws-XXXXXX");
	if (!mkdtemp(home))
		return -1;
	setenv("HOME", home, 1);
	snprintf(folder, sizeof folder, "mkdir %s/.aws", home);
	return system(folder);
}

static int end(void **state)
{
	char command[80];
	(void)state;
	snprintf(command, sizeof command, "rm -rf '%s'", home);
	return system(command);
}

static void check_text(const char *found, const char *want)
{
	if (want)
		assert_string_equal(found ? found : "(none)", want);
	else
		assert_null(found);
}

static void check_settings(const char *key, const char *secret, const char *token, const char *region, const char *endpoint)
{
	struct stk_aws_settings s;
	struct stk_error err = {0};
	if (stk__aws_settings_read(NULL, &s, &err))
		fail_msg("%s", err.message);
	check_text(s.key, key);
	check_text(s.secret, secret);
	check_text(s.token, token);
	check_text(s.region, region);
	check_text(s.endpoint, endpoint);
	stk__aws_settings_clear(&s);
}

static void test_settings(void **state)
{
	(void)state;
	check_settings(NULL, NULL, NULL, "us-east-1", NULL);
	put("credentials",
		"[default]\naws_access_key_id = FILE\naws_secret_access_key=s/+=cret\n\n# a comment\n[other]\naws_access_key_id=OTHER\n"
		"aws_secret_access_key =\tother \r\naws_session_token = token\n");
	put("config",
		"[default]\nregion = eu-west-1\n[profile other]\nregion=eu-north-1\nendpoint_url = http://general:1/\nservices = mine\n"
		"s3 =\n  addressing_style = virtual\n[services mine]\ns3 =\n    endpoint_url = http://127.0.0.1:9000//\n");
	check_settings("FILE", "s/+=cret", NULL, "eu-west-1", NULL);
	setenv("AWS_PROFILE", "other", 1);
	check_settings("OTHER", "other", "token", "eu-north-1", "http://127.0.0.1:9000");
	setenv("AWS_ENDPOINT_URL", "http://[::1]:9", 1);
	setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
	check_settings("OTHER", "other", "token", "eu-north-1", "http://[::1]:9"); /* ignores an id without a secret */
	setenv("AWS_SECRET_ACCESS_KEY", "env", 1);
	setenv("AWS_REGION", "us-west-2", 1);
	setenv("AWS_ENDPOINT_URL_S3", "https://store.example", 1);
	check_settings("ENV", "env", NULL, "us-west-2", "https://store.example");
	setenv("AWS_NO_SIGN_REQUEST", "YES", 1);
	check_settings(NULL, NULL, NULL, "us-west-2", "https://store.example");
}

/* Sections and settings in the other forms that AWS's tools read. */
static void test_forms_of_files(void **state)
{
	(void)state;
	put("credentials", "\xef\xbb\xbf[default]\nAWS_ACCESS_KEY_ID = FILE\nAws_Secret_Access_Key = secret\n");
	put("config", "[profile default]\nregion = eu-west-1\n[profile \"my own\"]\nregion = eu-north-1\naws_access_key_id = OWN\n"
		      "aws_secret_access_key = own\nservices = the local\n[profile\t'third']\nregion = eu-south-1\nRole_Arn =\n"
		      "[services \"the local\"]\nS3 =\n  endpoint_url = http://127.0.0.1:9000\n[profile my]\nregion = us-west-1\n");
	check_settings("FILE", "secret", NULL, "eu-west-1", NULL);
	setenv("AWS_PROFILE", "my own", 1);
	check_settings("OWN", "own", NULL, "eu-north-1", "http://127.0.0.1:9000");
	setenv("AWS_PROFILE", "third", 1);
	check_settings(NULL, NULL, NULL, "eu-south-1", NULL);
	setenv("AWS_PROFILE", "my", 1);
	check_settings(NULL, NULL, NULL, "us-west-1", NULL);
}

static void check_refusal(const char *name, const char *value, const char *message)
{
	struct stk_aws_settings s;
	struct stk_error err = {0};
	setenv(name, value, 1);
	assert_int_equal(stk__aws_settings_read(NULL, &s, &err), STK_INVALID);
	if (!strstr(err.message, message))
		fail_msg("%s", err.message);
	stk__aws_settings_clear(&s);
	unsetenv(name);
}

static void test_wrong_settings(void **state)
{
	(void)state;
	check_refusal("AWS_PROFILE", "nobody", "neither of AWS's files");
	check_refusal("AWS_ENDPOINT_URL", "store.example", "http://HOST");
	check_refusal("AWS_ENDPOINT_URL_S3", "http://user:secret@host", "http://HOST");
	check_refusal("AWS_REGION", "us east", "not a region");
	check_refusal("STOKER_S3_ADDRESSING", "host", "auto, path and virtual");
	setenv("AWS_ACCESS_KEY_ID", "ID", 1);
	check_refusal("AWS_SECRET_ACCESS_KEY", "secret\n", "the secret key, from the environment, begins or ends with a blank");
	setenv("AWS_SECRET_ACCESS_KEY", "inner blanks are read", 1);
	check_settings("ID", "inner blanks are read", NULL, "us-east-1", NULL);
	check_refusal("AWS_SESSION_TOKEN", "two\r\nlines", "the session's token, from the environment");
	check_refusal("AWS_ACCESS_KEY_ID", " ID", "the id of the key, from the environment");
}

static void check_url(const struct stk_aws_settings *s, const char *uri, const char *want)
{
	struct stk_http_target t = {0};
	struct stk_error err = {0};
	if (stk__s3_target(&t, s, NULL, uri, 1369353600, &err))
		fail_msg("%s", err.message);
	assert_string_equal(t.url.s, want);
	stk__http_target_free(&t);
}

static void test_addresses(void **state)
{
	(void)state;
	struct stk_aws_settings s = {.region = (char[]){"eu-west-1"}, .profile = (char[]){"default"}, .anonymous = true};
	check_url(&s, "s3://bucket/a b/+%41/../\xc3\xa9?x=1#y",
		"https://bucket.s3.eu-west-1.amazonaws.com/a%20b/%2B%2541/../%C3%A9%3Fx%3D1%23y");
	check_url(&s, "s3://dotted.bucket/k", "https://s3.eu-west-1.amazonaws.com/dotted.bucket/k");
	check_url(&s, "s3list://bucket?list-type=2&prefix=a%2F", "https://bucket.s3.eu-west-1.amazonaws.com/?list-type=2&prefix=a%2F");
	s.endpoint = (char[]){"http://127.0.0.1:9000/s3"};
	check_url(&s, "s3://bucket//k", "http://127.0.0.1:9000/s3/bucket//k");
	check_url(&s, "s3list://bucket?prefix=", "http://127.0.0.1:9000/s3/bucket?prefix=");
	s.style = STK_S3_VIRTUAL;
	s.endpoint = (char[]){"http://store.example"};
	check_url(&s, "s3://bucket/k", "http://bucket.store.example/k");
	struct stk_http_target t = {0};
	struct stk_error err = {0};
	assert_int_equal(stk__s3_target(&t, &s, NULL, "s3://bucket", 0, &err), STK_INVALID);
	assert_int_equal(stk__s3_target(&t, &s, NULL, "s3:///key", 0, &err), STK_INVALID);
	s.anonymous = false;
	assert_int_equal(stk__s3_target(&t, &s, NULL, "s3://bucket/key", 0, &err), STK_IO);
	assert_non_null(strstr(err.message, "AWS_NO_SIGN_REQUEST=yes"));
	stk__http_target_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sha256),
		cmocka_unit_test(test_sha1),
		cmocka_unit_test(test_hmac),
		cmocka_unit_test(test_dates),
		cmocka_unit_test(test_examples_of_s3),
		cmocka_unit_test(test_suite_of_aws),
		cmocka_unit_test_setup_teardown(test_settings, begin, end),
		cmocka_unit_test_setup_teardown(test_forms_of_files, begin, end),
		cmocka_unit_test_setup_teardown(test_wrong_settings, begin, end),
		cmocka_unit_test(test_addresses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
