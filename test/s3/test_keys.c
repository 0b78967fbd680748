/* SPDX-License-Identifier: Apache-2.0
 * Temporary keys from STS, single sign-on, programs and local services: the library renews them before they expire, and names the source if it cannot get
 * them. */
#include "test.h"

#include "base/memory.h"
#include "base/sha1.h"
#include "http/http.h"
#include "s3_server.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEY "AKIATESTTESTTEST"
#define SECRET "sEcReT/of+the=tests"
#define BASE_KEY "AKIABASE"
#define BASE_SECRET "bAsE+sEcReT"
#define FAR 4000000000

static struct s3_server *server, *issuing,
	*sts; /* server: the store; issuing: gives keys to every client; sts: gives keys only if BASE_KEY signed the request */
static char home[64];
static const struct stk_http_settings quick = {
	.connect_ms = 2000, .first_byte_ms = 20000, .stall_ms = 10000, .retries = 30, .backoff_ms = 5, .most_backoff_ms = 50};

static void put_file(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/.aws/%s", home, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static char *read_file(const char *name)
{
	char path[256];
	snprintf(path, sizeof path, "%s/.aws/%s", home, name);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	char *text = calloc(1, 4096);
	size_t n = fread(text, 1, 4095, f);
	text[n] = 0;
	fclose(f);
	return text;
}

static const char *token_file(const char *name)
{
	static char path[128];
	char hex[STK_SHA1_HEX];
	stk__sha1_hex(name, strlen(name), hex);
	snprintf(path, sizeof path, "sso/cache/%s.json", hex);
	return path;
}

static void set_url(const char *name, const struct s3_server *s, const char *path)
{
	char url[128];
	snprintf(url, sizeof url, "http://127.0.0.1:%d%s", s3_server_port(s), path);
	setenv(name, url, 1);
}

static const char *time_text(int64_t at, char out[32])
{
	time_t t = (time_t)at;
	struct tm tm;
	strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
	return out;
}

static void put_keys(const char *path, const char *secret, int64_t expires)
{
	char text[512], when[32];
	snprintf(text, sizeof text, "{\"Version\": 1, \"AccessKeyId\": \"%s\", \"SecretAccessKey\": \"%s\", \"Expiration\": \"%s\"}", KEY,
		secret, time_text(expires, when));
	s3_server_put(issuing, path, text, strlen(text));
}

static void put_sts(struct s3_server *s, const char *key, const char *secret)
{
	char text[512];
	snprintf(text, sizeof text,
		"<R><X><Credentials><SessionToken></SessionToken><SecretAccessKey>%s</SecretAccessKey><AccessKeyId>%s</AccessKeyId>"
		"<Expiration>2096-10-02T07:06:40Z</Expiration></Credentials></X></R>",
		secret, key);
	s3_server_put(s, "sts/answer", text, strlen(text));
}

static void put_portal(const char *token)
{
	char text[512];
	snprintf(text, sizeof text,
		"{\"roleCredentials\": {\"accessKeyId\": \"%s\", \"secretAccessKey\": \"%s\", \"sessionToken\": \"\", \"expiration\": %lld}}",
		KEY, SECRET, FAR * 1000ll);
	s3_server_put(issuing, "portal/federation/credentials", text, strlen(text));
	s3_server_put(issuing, "portal/token", token, strlen(token));
	set_url("AWS_ENDPOINT_URL_SSO", issuing, "/portal/");
	set_url("AWS_ENDPOINT_URL_SSO_OIDC", issuing, "/oidc");
}

static int begin(void **state)
{
	static const char *const gone[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
		"AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_SHARED_CREDENTIALS_FILE",
		"AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_NO_SIGN_REQUEST", "http_proxy", "https_proxy", "all_proxy"};
	char command[160], object[1000];
	(void)state;
	for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
		unsetenv(gone[i]);
	strcpy(home, "/tmp/stk-keys-XXXXXX");
	server = s3_server_start(NULL, 0, KEY, SECRET, NULL, NULL);
	issuing = s3_server_start(NULL, 0, NULL, NULL, NULL, NULL);
	sts = s3_server_start(NULL, 0, BASE_KEY, BASE_SECRET, NULL, "eu-west-1");
	if (!server || !issuing || !sts || !mkdtemp(home))
		return -1;
	memset(object, 'x', sizeof object);
	s3_server_put(server, "b/object", object, sizeof object);
	setenv("HOME", home, 1);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	set_url("AWS_ENDPOINT_URL_S3", server, "");
	set_url("AWS_ENDPOINT_URL_STS", sts, "/sts/answer");
	snprintf(command, sizeof command, "mkdir -p %s/.aws/sso/cache", home);
	return system(command);
}

static int end(void **state)
{
	char command[80];
	(void)state;
	s3_server_stop(server);
	s3_server_stop(issuing);
	s3_server_stop(sts);
	snprintf(command, sizeof command, "rm -rf '%s'", home);
	return system(command);
}

static struct stk_io *make_io(void)
{
	struct stk_io *io;
	assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
	assert_int_equal(stk__http_add(io, &quick, NULL), STK_OK);
	struct stk_error err = {0};
	if (stk__io_refresh(io, "s3://b/object", NULL, &err))
		fail_msg("%s", err.message);
	return io;
}

static void request_ended(struct stk_request *r)
{
	sem_post(r->user);
}

static enum stk_status read_object(struct stk_io *io, struct stk_error *err)
{
	sem_t ended;
	sem_init(&ended, 0, 0);
	*err = (struct stk_error){0};
	struct stk_request r = {.uri = "s3://b/object", .length = -1, .done = request_ended, .user = &ended, .error = err};
	stk__io_submit(io, &r);
	while (sem_wait(&ended) && errno == EINTR)
		;
	sem_destroy(&ended);
	if (!r.status)
		assert_int_equal(r.size, 1000);
	stk__buffer_release(r.buffer);
	return r.status;
}

static void check_good(void)
{
	struct stk_error err;
	struct stk_io *io = make_io();
	if (read_object(io, &err))
		fail_msg("%s", err.message);
	stk__io_destroy(io);
}

static void check_failure(const char *message)
{
	struct stk_error err;
	struct stk_io *io = make_io();
	assert_int_not_equal(read_object(io, &err), STK_OK);
	if (!strstr(err.message, message) || strstr(err.message, "sEcReT"))
		fail_msg("%s\nshould be: %s", err.message, message);
	stk__io_destroy(io);
}

/* A program provides keys once, and hangs when asked again. Closing the storage must not hang. */
static void check_storage_ends_without_new_keys(void)
{
	char text[1024], expires[32];
	time_t soon = time(NULL) + 60;
	strftime(expires, sizeof expires, "%Y-%m-%dT%H:%M:%SZ", gmtime(&soon));
	snprintf(text, sizeof text,
		"[default]\ncredential_process = test -e %s/asked && exec sleep 1000; touch %s/asked; echo '{\"Version\": 1, \"AccessKeyId\": "
		"\"%s\", \"SecretAccessKey\": \"%s\", \"Expiration\": \"%s\"}'\n",
		home, home, KEY, SECRET, expires);
	put_file("config", text);
	struct stk_error err;
	struct stk_io *io = make_io();
	assert_int_equal(read_object(io, &err), STK_OK);
	poll(NULL, 0, 300);
	stk__io_destroy(io);
}

/* As with botocore, a program's answer must have version 1, and its time of expiry must have a time zone and be in the future. */
static void test_answers_of_a_program(void **state)
{
	(void)state;
	static const struct {
		const char *version, *expires, *message; /* message: NULL if the keys are used */
	} rows[] = {
		{"1", "null", NULL},
		{"1", "\"2096-10-02T07:06:40Z\"", NULL},
		{"1", "\"2096-10-02T07:06:40.123+02:00\"", NULL},
		{"1", "\"2016-10-02T07:06:40Z\"", "the keys of the profile's credential_process expired at 2016-10-02T07:06:40Z"},
		{"1", "\"2096-10-02T07:06:40\"", "credential_process prints an Expiration that is not a time with a time zone"},
		{"1", "\"tomorrow\"", "credential_process prints an Expiration that is not a time"},
		{"1", "4000000000", "credential_process prints an Expiration that is not a time"},
		{"2", "null", "credential_process prints no \"Version\": 1"},
		{"\"1\"", "null", "credential_process prints no \"Version\": 1"},
		{"null", "null", "credential_process prints no \"Version\": 1"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[512];
		snprintf(text, sizeof text,
			"[default]\ncredential_process = echo '{\"Version\": %s, \"AccessKeyId\": \"%s\", \"SecretAccessKey\": \"%s\", "
			"\"Expiration\": %s}'\n",
			rows[i].version, KEY, SECRET, rows[i].expires);
		put_file("config", text);
		if (rows[i].message)
			check_failure(rows[i].message);
		else
			check_good();
	}
	put_file("config", "[default]\ncredential_process = echo '{\"Version\": 1, \"SecretAccessKey\": \"sEcReT\"}'\n");
	check_failure("credential_process prints no AccessKeyId");
	put_file("config", "[default]\ncredential_process = echo '{\"Version\": 1, \"AccessKeyId\": \"k\"}'\n");
	check_failure("credential_process prints no SecretAccessKey");
	put_file("config", "");
}

/* ---- services that give keys to every client that can reach them ---- */

static void test_services(void **state)
{
	(void)state;
	char text[512];
	snprintf(text, sizeof text,
		"[default]\ncredential_process = echo '{\"Version\": 1, \"AccessKeyId\": \"%s\", \"SecretAccessKey\": \"%s\"}'\n", KEY,
		SECRET);
	put_file("config", text);
	check_good();
	put_file("config", "[default]\ncredential_process = exit 3\n");
	check_failure("credential_process failed with exit status 3");
	put_file("config", "[default]\ncredential_process = kill -9 $$\n");
	check_failure("credential_process was ended by signal 9");
	put_file("config", "[default]\ncredential_process = echo sEcReT\n");
	check_failure("credential_process prints no JSON object");
	snprintf(text, sizeof text,
		"[default]\ncredential_process = printf '{\"AccessKeyId\": \"%s\", \"SecretAccessKey\": \"%s\"}\\0more'\n", KEY, SECRET);
	put_file("config", text);
	check_failure("credential_process prints no JSON object"); /* refused because of the NUL, although the JSON before it is valid */
	check_storage_ends_without_new_keys();
	put_file("config", "");
	put_keys("keys/container", SECRET, 1000000000);
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", issuing, "/keys/container");
	check_failure("the keys of the container's service expired at 2001-09-09T01:46:40Z");
	put_keys("keys/container", SECRET, FAR);
	check_good();
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", issuing, "/keys/none");
	check_failure("the container's service http://127.0.0.1");
	unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	s3_server_put(issuing, "latest/api/token", "tOkEn", 5);
	s3_server_put(issuing, "latest/meta-data/iam/security-credentials/", "the-role\n", 9);
	put_keys("latest/meta-data/iam/security-credentials/the-role", SECRET, FAR);
	unsetenv("AWS_EC2_METADATA_DISABLED");
	set_url("AWS_EC2_METADATA_SERVICE_ENDPOINT", issuing, "");
	check_good();
	struct stk_error err;
	struct stk_io *io = make_io();
	uint64_t asked = s3_server_counts(issuing).requests;
	/* the keys do not expire soon, so this does not request new ones */
	assert_int_equal(stk__io_refresh(io, "s3://b/object", NULL, &err), STK_OK);
	assert_int_equal(read_object(io, &err), STK_OK);
	assert_int_equal(s3_server_counts(issuing).requests, asked);
	stk__io_destroy(io);
}

static void test_web_identity(void **state)
{
	(void)state;
	char path[128], body[4096];
	put_sts(issuing, KEY, SECRET);
	set_url("AWS_ENDPOINT_URL_STS", issuing, "/sts/answer");
	put_file("token", "a.token\n");
	snprintf(path, sizeof path, "%s/.aws/token", home);
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
	setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
	check_good();
	s3_server_posted(issuing, body, sizeof body);
	assert_string_equal(body,
		"Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=stoker"
		"&WebIdentityToken=a.token");
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite("a.to\0ken", 1, 8, f), 8);
	fclose(f);
	check_failure("is no text"); /* refused because of the NUL; the text before it is not sent as a token */
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere", 1);
	check_failure("the token of the web identity, /nowhere, cannot be read");
}

/* ---- roles ---- */

/* Roles whose source_profile has keys or is itself a role, and profiles that have no usable source. STS verifies the signatures. */
static void test_roles_of_profiles(void **state)
{
	(void)state;
	char body[4096];
	const char *const chain =
		"[profile far]\nrole_arn = arn:aws:iam::2:role/far\nsource_profile = near\nexternal_id = a b\n"
		"duration_seconds = 900\nrole_session_name = me\nregion = eu-west-1\n"
		"[profile near]\nrole_arn = arn:aws:iam::1:role/near\nsource_profile = base\n"
		"[profile round]\nrole_arn = r\nsource_profile = about\n[profile about]\nrole_arn = r\nsource_profile = round\n"
		"[profile nobody]\nrole_arn = r\nsource_profile = none\n"
		"[profile empty]\nrole_arn = r\nsource_profile = bare\n[profile bare]\nregion = eu-west-1\n"
		"[profile coded]\nrole_arn = r\nsource_profile = base\nmfa_serial = arn:mfa\n"
		"[profile machine]\nrole_arn = r\ncredential_source = Ec2InstanceMetadata\n"
		"[profile odd]\nrole_arn = r\ncredential_source = Cloud\n"
		"[profile here]\nregion = eu-west-1\nrole_arn = arn:aws:iam::1:role/here\ncredential_source = Environment\n"
		"[profile own]\nregion = eu-west-1\nrole_arn = arn:aws:iam::1:role/own\nsource_profile = own\n";
	put_file("config", chain);
	put_file("credentials", "[base]\naws_access_key_id = " BASE_KEY "\naws_secret_access_key = " BASE_SECRET
				"\n[own]\naws_access_key_id = " BASE_KEY "\naws_secret_access_key = " BASE_SECRET "\n");
	setenv("AWS_REGION", "eu-west-1", 1);
	setenv("AWS_PROFILE", "near", 1);
	put_sts(sts, KEY, SECRET);
	check_good();
	s3_server_posted(sts, body, sizeof body);
	assert_string_equal(
		body, "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fnear&RoleSessionName=stoker");
	setenv("AWS_PROFILE", "own", 1);
	check_good();
	setenv("AWS_PROFILE", "far", 1);
	/* "far" needs the keys of another role, so it asks STS twice. Both answers are BASE_KEY, which the store refuses. */
	put_sts(sts, BASE_KEY, BASE_SECRET);
	uint64_t asked = s3_server_counts(sts).requests;
	check_failure("403 InvalidAccessKeyId");
	assert_int_equal(s3_server_counts(sts).requests, asked + 2);
	s3_server_posted(sts, body, sizeof body);
	assert_non_null(strstr(body, "role%2Ffar&RoleSessionName=me&ExternalId=a%20b&DurationSeconds=900"));
	setenv("AWS_PROFILE", "here", 1);
	check_failure("credential_source = Environment, and there are no keys");
	setenv("AWS_PROFILE", "round", 1);
	check_failure("profiles name each other as source_profile in a circle");
	setenv("AWS_PROFILE", "nobody", 1);
	check_failure("source_profile = none, which is in neither of AWS's files");
	setenv("AWS_PROFILE", "empty", 1);
	check_failure("source_profile = bare, which names no keys");
	setenv("AWS_PROFILE", "coded", 1);
	check_failure("mfa_serial");
	setenv("AWS_PROFILE", "machine", 1);
	setenv("AWS_EC2_METADATA_DISABLED", "false", 1);
	set_url("AWS_EC2_METADATA_SERVICE_ENDPOINT", issuing, "/none");
	check_failure(
		"the profile's role takes the keys of this machine (credential_source = Ec2InstanceMetadata), whose metadata service gives none");
	setenv("AWS_PROFILE", "odd", 1);
	check_failure("credential_source = Cloud; valid are Environment");
	put_file("credentials", "[base]\naws_access_key_id = " BASE_KEY "\naws_secret_access_key = sEcReT-wrong\n");
	setenv("AWS_PROFILE", "near", 1);
	check_failure("gives none for the role arn:aws:iam::1:role/near (status 403, SignatureDoesNotMatch)");
}

/* ---- single sign-on ---- */

static void put_token(const char *name, const char *token, int64_t ends, const char *more)
{
	char text[1024], when[32];
	snprintf(text, sizeof text, "{\"startUrl\": \"https://me.awsapps.com/start\", \"accessToken\": \"%s\", \"expiresAt\": \"%s\"%s}",
		token, time_text(ends, when), more);
	put_file(token_file(name), text);
}

static void test_single_sign_on(void **state)
{
	(void)state;
	put_file("config", "[default]\nsso_session = work\nsso_account_id = 123\nsso_role_name = Reader\n"
			   "[sso-session work]\nsso_region = eu-west-1\nsso_start_url = https://me.awsapps.com/start\n"
			   "[profile old]\nsso_start_url = https://old.awsapps.com/start\nsso_region = eu-west-1\nsso_account_id = 123\n"
			   "sso_role_name = Reader\n[profile half]\nsso_session = work\nsso_role_name = Reader\n"
			   "[profile lost]\nsso_session = none\nsso_account_id = 1\nsso_role_name = Reader\n"
			   "[profile role]\nregion = eu-west-1\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = default\n");
	put_portal("tOkEn-1");
	check_failure("the single sign-on of the profile \"default\" has left no token (~/.aws/sso/cache): run `aws sso login`");
	put_token("work", "tOkEn-1", FAR, "");
	check_good();
	put_token("work", "tOkEn-2", FAR, ""); /* the portal accepts only another token now */
	check_failure("has expired: run `aws sso login`");
	put_token("work", "tOkEn-1", time(NULL) - 1, "");
	check_failure("has expired: run `aws sso login`");
	setenv("AWS_PROFILE", "old", 1);
	put_token("https://old.awsapps.com/start", "tOkEn-1", time(NULL) - 1, "");
	check_failure("has expired: run `aws sso login --profile old`");
	put_token("https://old.awsapps.com/start", "tOkEn-1", FAR, "");
	check_good();
	setenv("AWS_PROFILE", "half", 1);
	check_failure("the profile \"half\" is one of single sign-on without sso_account_id");
	setenv("AWS_PROFILE", "lost", 1);
	check_failure("without an sso_start_url in its section sso-session none");
	/* These keys come from single sign-on; STS does not know them, so it refuses to give the keys of the role. */
	setenv("AWS_PROFILE", "role", 1);
	put_token("work", "tOkEn-1", FAR, "");
	check_failure("gives none for the role arn:aws:iam::1:role/r (status 403, InvalidAccessKeyId)");
}

/* A session lasts for days, but its token only for an hour: the library exchanges the token, and saves the new one for AWS's own tools. */
static void test_a_session_is_renewed(void **state)
{
	(void)state;
	char body[4096];
	const char *const more =
		", \"clientId\": \"the-client\", \"clientSecret\": \"c\", \"registrationExpiresAt\": \"2096-10-02T07:06:40Z\", "
		"\"refreshToken\": \"r1\", \"region\": \"eu-west-1\"";
	const char *const answer = "{\"accessToken\": \"tOkEn-2\", \"expiresIn\": 3600, \"refreshToken\": \"r2\"}";
	put_file("config", "[default]\nsso_session = work\nsso_account_id = 123\nsso_role_name = Reader\n"
			   "[sso-session work]\nsso_region = eu-west-1\nsso_start_url = https://me.awsapps.com/start\n");
	put_portal("tOkEn-2");
	s3_server_put(issuing, "oidc/token", answer, strlen(answer));
	put_token("work", "tOkEn-1", time(NULL) + 60, more);
	check_good();
	s3_server_posted(issuing, body, sizeof body);
	assert_string_equal(
		body, "{\"grantType\":\"refresh_token\",\"clientId\":\"the-client\",\"clientSecret\":\"c\",\"refreshToken\":\"r1\"}");
	char *kept = read_file(token_file("work"));
	assert_non_null(strstr(kept, "\"accessToken\":\"tOkEn-2\""));
	assert_non_null(strstr(kept, "\"refreshToken\":\"r2\""));
	assert_non_null(strstr(kept, "\"region\":\"eu-west-1\""));
	free(kept);
	uint64_t asked = s3_server_counts(issuing).requests;
	check_good();
	assert_int_equal(s3_server_counts(issuing).requests, asked + 1); /* the second read found that the new token is still valid */
}

/* ---- renewal ---- */

/* The library renews keys that are about to expire. The store refuses the old ones. */
static void test_keys_are_renewed(void **state)
{
	(void)state;
	struct stk_error err;
	put_keys("keys/container", "old-" SECRET, time(NULL) + 2);
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", issuing, "/keys/container");
	struct stk_io *io = make_io();
	put_keys("keys/container", SECRET, FAR);
	while (read_object(io, &err))
		;
	stk__io_destroy(io);
}

/* The store stops accepting keys that should be valid for years. The library replaces them while requests wait. */
static void test_a_token_that_expires_early(void **state)
{
	const char *const early = "{\"Version\": 1, \"AccessKeyId\": \"" KEY "\", \"SecretAccessKey\": \"" SECRET
				  "\", \"Token\": \"expired-1\", \"Expiration\": \"2096-10-02T07:06:40Z\"}";
	(void)state;
	struct stk_error err;
	s3_server_put(issuing, "keys/container", early, strlen(early));
	set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", issuing, "/keys/container");
	struct stk_io *io = make_io();
	assert_int_equal(read_object(io, &err), STK_IO);
	assert_non_null(strstr(err.message, "ExpiredToken"));
	put_keys("keys/container", SECRET, FAR);
	sleep(2); /* the library waits before it requests keys again */
	if (read_object(io, &err))
		fail_msg("%s", err.message);
	stk__io_destroy(io);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {TEST(test_answers_of_a_program), TEST(test_services), TEST(test_web_identity),
		TEST(test_roles_of_profiles), TEST(test_single_sign_on), TEST(test_a_session_is_renewed), TEST(test_keys_are_renewed),
		TEST(test_a_token_that_expires_early)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
