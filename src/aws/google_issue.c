/* SPDX-License-Identifier: Apache-2.0
 *
 * Obtains OAuth tokens from Google's issuers: from the token endpoint, with a user's refresh token or with a statement signed by a service account's key; or
 * from the metadata server of Google's machines. */
#include "aws/aws_ask.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/system.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char scope[] = "https://www.googleapis.com/auth/devstorage.read_only";

/* Parses {"access_token": .., "expires_in": ..}, and stores the token as the secret key. Returns false if the answer has no token or no time of expiry, or
 * if memory is short. */
static bool take_token(struct stk_aws_fresh *out, const struct stk_text *answer)
{
	json_t *o = json_loadb(answer->s ? answer->s : "", answer->length, 0, NULL);
	const char *token = json_string_value(json_object_get(o, "access_token"));
	const json_int_t seconds = json_integer_value(json_object_get(o, "expires_in"));
	bool ok = token && *token && seconds > 0;
	if (ok) {
		out->key = stk__strdup("oauth2");
		out->secret = stk__secret_copy(token);
		out->expires = (int64_t)time(NULL) + seconds;
		ok = out->key && out->secret;
	}
	json_decref(o);
	return ok;
}

enum stk_status stk__google_ask_metadata(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err)
{
	const struct stk_aws_question q = {.url = i->endpoint, .method = "GET", .headers = {"Metadata-Flavor: Google"}, .local = true};
	long code = stk__aws_ask(client, &q, answer);
	if (code == 200 && take_token(out, answer))
		return STK_OK;
	if (stk__aws_may_pass(code))
		return stk__fail(err, STK_IO, "no credentials: this machine's metadata server fails (status %ld): try again later", code);
	return stk__fail(err, STK_NOT_FOUND, "this machine's metadata server gives no token (status %ld)", code);
}

static void add_field(struct stk_text *body, const char *name, const char *value)
{
	stk__text_add(body, "%s%s=", body->length ? "&" : "", name);
	stk__uri_encode(body, value, "");
}

/* Posts a form to the token endpoint. Returns the HTTP status; 0: memory is short, or stk__aws_ask got no answer. */
static long post(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, const struct stk_text *body, struct stk_text *answer)
{
	const struct stk_aws_question q = {
		.url = i->endpoint, .method = "POST", .headers = {"Content-Type: application/x-www-form-urlencoded"}, .body = body->s};
	return body->failed ? 0 : stk__aws_ask(client, &q, answer);
}

/* Returns the error for an answer of the token endpoint that holds no token. owner, advice: the owner of the credentials, and advice for the case that
 * they are refused, as texts of a message. */
static enum stk_status no_token(long code, const char *owner, const char *advice, struct stk_error *err)
{
	static const char start[] = "no credentials: Google's token endpoint";
	if (!code)
		return stk__fail(err, STK_IO, "%s does not answer: check the network, the proxy and the file's token_uri", start);
	if (code == 200)
		return stk__fail(
			err, STK_IO, "%s answers without a token that has an expiry in seconds: check the file's token_uri", start);
	if (stk__aws_may_pass(code))
		return stk__fail(err, STK_IO, "%s fails (status %ld): try again later", start, code);
	return stk__fail(err, STK_IO, "%s refuses %s (status %ld): %s", start, owner, code, advice);
}

enum stk_status stk__google_ask_user(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err)
{
	struct stk_text body = {0};
	add_field(&body, "grant_type", "refresh_token");
	add_field(&body, "client_id", i->key);
	add_field(&body, "client_secret", i->secret);
	add_field(&body, "refresh_token", i->token);
	long code = post(i, client, &body, answer);
	stk__text_erase_free(&body);
	return code == 200 && take_token(out, answer)
		       ? STK_OK
		       : no_token(code, "the user's refresh token", "log in again, by gcloud auth application-default login", err);
}

/* ---- service accounts ---- */

/* The functions of OpenSSL for signatures. They are looked up at run time in libcrypto, which most systems have as a dependency of libcurl. */
#define SIGNING(X)                                                                                                                         \
	X(BIO_new_mem_buf, void *, (const void *bytes, int n))                                                                             \
	X(BIO_free, int, (void *bio))                                                                                                      \
	X(PEM_read_bio_PrivateKey, void *, (void *bio, void **key, void *password, void *user))                                            \
	X(EVP_PKEY_free, void, (void *key))                                                                                                \
	X(EVP_MD_CTX_new, void *, (void))                                                                                                  \
	X(EVP_MD_CTX_free, void, (void *context))                                                                                          \
	X(EVP_sha256, const void *, (void))                                                                                                \
	X(EVP_DigestSignInit, int, (void *context, void **pkey, const void *digest, void *engine, void *key))                              \
	X(EVP_DigestSign, int, (void *context, unsigned char *out, size_t *size, const unsigned char *bytes, size_t n))

struct signing {
	void *library;
#define SLOT(name, result, params) result(*name) params;
	SIGNING(SLOT)
#undef SLOT
};

static bool load_signing(struct signing *s)
{
	static const char *const names[] = {"libcrypto.so.3", "libcrypto.so.1.1"};
	*s = (struct signing){0};
	for (size_t i = 0; i < sizeof names / sizeof *names && !s->library; i++)
		s->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!s->library)
		return false;
	bool ok = true;
#define FIND(name, result, params)                                                                                                         \
	{                                                                                                                                  \
		void *found = dlsym(s->library, #name);                                                                                    \
		memcpy(&s->name, &found, sizeof found);                                                                                    \
		ok &= found != NULL;                                                                                                       \
	}
	SIGNING(FIND)
#undef FIND
	return ok;
}

/* Appends the bytes in base64 with the alphabet of URLs and without padding. */
static void add_base64(struct stk_text *out, const unsigned char *bytes, size_t n)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) | (i + 2 < n ? bytes[i + 2] : 0);
		char four[5] = {letters[v >> 18], letters[v >> 12 & 63], letters[v >> 6 & 63], letters[v & 63], 0};
		four[n - i == 1 ? 2 : n - i == 2 ? 3 : 4] = 0;
		stk__text_add(out, "%s", four);
	}
}

/* Appends "." and the RS256 signature of the text so far. Returns false if the key cannot be read or cannot sign. */
static bool add_signature(const struct signing *s, const char *pem, struct stk_text *jwt)
{
	unsigned char signature[1024]; /* large enough for an RSA key of 8 192 bits */
	size_t size = sizeof signature, n = jwt->length;
	void *bio = s->BIO_new_mem_buf(pem, -1), *key = bio ? s->PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
	void *context = key ? s->EVP_MD_CTX_new() : NULL;
	bool ok = context && s->EVP_DigestSignInit(context, NULL, s->EVP_sha256(), NULL, key) == 1 &&
		  s->EVP_DigestSign(context, signature, &size, (const unsigned char *)jwt->s, n) == 1;
	if (ok) {
		stk__text_add(jwt, ".");
		add_base64(jwt, signature, size);
	}
	if (context)
		s->EVP_MD_CTX_free(context);
	if (key)
		s->EVP_PKEY_free(key);
	if (bio)
		s->BIO_free(bio);
	return ok && !jwt->failed;
}

static void add_part(struct stk_text *jwt, json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	stk__text_add(jwt, "%s", jwt->length ? "." : "");
	add_base64(jwt, (const unsigned char *)(text ? text : ""), text ? strlen(text) : 0);
	jwt->failed |= !text;
	free(text);
	json_decref(o);
}

/* Appends the signed statement (a JWT), which names the service account and the access for which it asks. */
static enum stk_status add_statement(const struct stk_aws_issuer *i, struct stk_text *jwt, struct stk_error *err)
{
	struct signing s;
	const json_int_t now = (json_int_t)time(NULL);
	if (!load_signing(&s)) {
		if (s.library)
			dlclose(s.library);
		return stk__fail(err, STK_UNSUPPORTED,
			"a service account's file needs OpenSSL's libcrypto to sign, which is not here: install it (libssl3), or give a token "
			"(gcloud auth print-access-token) in GOOGLE_OAUTH_ACCESS_TOKEN, or an HMAC key: GCS_KEY and GCS_SECRET");
	}
	json_t *head = json_pack("{s:s, s:s}", "alg", "RS256", "typ", "JWT");
	if (head && i->account)
		json_object_set_new(head, "kid", json_string(i->account));
	add_part(jwt, head);
	add_part(jwt,
		json_pack("{s:s, s:s, s:s, s:I, s:I}", "iss", i->role, "scope", scope, "aud", i->endpoint, "iat", now, "exp", now + 3600));
	const bool ok = !jwt->failed && add_signature(&s, i->secret, jwt);
	dlclose(s.library);
	return ok ? STK_OK
		  : stk__fail(err, STK_INVALID, "the private key in the service account's file cannot be used: is the file whole?");
}

enum stk_status stk__google_ask_service(const struct stk_aws_issuer *i, const struct stk_aws_asking *client, struct stk_text *answer,
	struct stk_aws_fresh *out, struct stk_error *err)
{
	struct stk_text jwt = {0}, body = {0};
	long code = 0;
	enum stk_status status = add_statement(i, &jwt, err);
	if (!status) {
		add_field(&body, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
		add_field(&body, "assertion", jwt.s);
		code = post(i, client, &body, answer);
		if (code != 200 || !take_token(out, answer)) {
			char account[128];
			snprintf(account, sizeof account, "the service account %.100s", i->role);
			status = no_token(code, account, "is the key still valid, and the clock right?", err);
		}
	}
	stk__text_erase_free(&jwt);
	stk__text_erase_free(&body);
	return status;
}
