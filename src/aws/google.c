/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the settings of Google's object store from the places that Google's own tools use: the environment, the file of application default credentials,
 * and the metadata server. Requests go to its XML API, which answers as an S3 store does; they are signed with an HMAC key, or carry an OAuth token. */
#include "aws/google.h"

#include "aws/aws_profile.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/system.h"
#include "io/read_small.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_FILE = 1 << 20 };

static char *own_copy(const char *value)
{
	return value && *value ? stk__strdup(value) : NULL;
}

/* Returns the endpoint of an emulator, which the environment may give without a scheme; NULL: no emulator, or memory is short. The caller frees it. */
static char *emulator(void)
{
	char *host = stk__aws_env("STORAGE_EMULATOR_HOST"), url[512];
	if (!host || strstr(host, "://"))
		return host;
	snprintf(url, sizeof url, "http://%s", host);
	stk__free(host);
	return stk__strdup(url);
}

static void use_token(struct stk_aws_settings *s, char *token, const char *origin)
{
	s->key = stk__strdup("oauth2");
	s->secret = token;
	s->bearer = true;
	s->origin = origin;
}

static const char *text_of(const json_t *o, const char *name)
{
	const char *value = json_string_value(json_object_get(o, name));
	return value && *value ? value : NULL;
}

/* Returns a copy of the URL that issues tokens, which the caller frees; NULL: memory is short. */
static char *token_uri_of(const json_t *o)
{
	const char *uri = text_of(o, "token_uri");
	return stk__strdup(uri ? uri : "https://oauth2.googleapis.com/token");
}

/* Reads a user's credentials, as `gcloud auth application-default login` writes them, into *i. Returns false if a field is missing or memory is short. */
static bool read_user(const json_t *o, struct stk_aws_issuer *i)
{
	i->kind = STK_GOOGLE_USER;
	i->endpoint = token_uri_of(o);
	i->key = own_copy(text_of(o, "client_id"));
	i->secret = stk__secret_copy(text_of(o, "client_secret"));
	i->token = stk__secret_copy(text_of(o, "refresh_token"));
	return i->endpoint && i->key && i->secret && i->token;
}

static bool read_service(const json_t *o, struct stk_aws_issuer *i)
{
	i->kind = STK_GOOGLE_SERVICE;
	i->endpoint = token_uri_of(o);
	i->role = own_copy(text_of(o, "client_email"));
	i->account = own_copy(text_of(o, "private_key_id"));
	i->secret = stk__secret_copy(text_of(o, "private_key"));
	return i->endpoint && i->role && i->secret;
}

/* Reads a file of Google's credentials into *i: those of a user or of a service account. */
static enum stk_status read_file(const char *path, struct stk_aws_issuer *i, struct stk_error *err)
{
	size_t n = 0;
	char *text = stk__read_small(path, LONGEST_FILE, &n);
	if (!text)
		return stk__fail(err, STK_INVALID, "the file of GOOGLE_APPLICATION_CREDENTIALS (%.200s) cannot be read", path);
	json_t *o = json_loadb(text, n, 0, NULL);
	const char *type = text_of(o, "type");
	enum stk_status status = STK_OK;
	bool ok = type != NULL;
	if (type && strcmp(type, "authorized_user") == 0)
		ok = read_user(o, i);
	else if (type && strcmp(type, "service_account") == 0)
		ok = read_service(o, i);
	else if (type)
		status = stk__fail(err, STK_UNSUPPORTED,
			"the credentials in %.200s are of the type \"%.40s\"; service_account and authorized_user are read. The token that "
			"gcloud auth print-access-token prints can be given in GOOGLE_OAUTH_ACCESS_TOKEN",
			path, type);
	if (!status && !ok)
		status = stk__fail(
			err, STK_INVALID, "%.200s is not a file of Google's credentials: a field is missing, or it is not JSON", path);
	json_decref(o);
	stk__erase(text, n);
	stk__free(text);
	return status;
}

/* Returns the path of the file that gcloud writes for application default credentials, which the caller frees. NULL: it cannot be read, or memory is short. */
static char *well_known_file(void)
{
	char *folder = stk__aws_env("CLOUDSDK_CONFIG"), path[4096];
	const char *home = getenv("HOME");
	int n = folder ? snprintf(path, sizeof path, "%s/application_default_credentials.json", folder)
		       : snprintf(path, sizeof path, "%s/.config/gcloud/application_default_credentials.json", home ? home : "");
	stk__free(folder);
	return n < (int)sizeof path && access(path, R_OK) == 0 ? stk__strdup(path) : NULL;
}

static void use_metadata(struct stk_aws_issuer *i)
{
	char *host = stk__aws_env("GCE_METADATA_HOST"), url[512];
	if (stk__aws_env_says_yes("NO_GCE_CHECK")) {
		stk__free(host);
		return;
	}
	snprintf(url, sizeof url, "http://%s/computeMetadata/v1/instance/service-accounts/default/token",
		host ? host : "metadata.google.internal");
	stk__free(host);
	i->endpoint = stk__strdup(url);
	i->kind = STK_GOOGLE_METADATA;
}

static enum stk_status read_keys(struct stk_aws_settings *s, const struct stk_aws_given *g, struct stk_error *err)
{
	if (g->key) {
		s->key = stk__strdup(g->key);
		s->secret = stk__secret_copy(g->secret);
		s->origin = "the program";
		return STK_OK;
	}
	s->key = stk__aws_env("GCS_KEY");
	s->secret = s->key ? stk__aws_secret_env("GCS_SECRET") : NULL;
	if (s->secret) {
		s->origin = "the environment (an HMAC key)";
		return STK_OK;
	}
	stk__free(s->key);
	s->key = NULL;
	char *token = stk__aws_secret_env("GOOGLE_OAUTH_ACCESS_TOKEN");
	token = token ? token : stk__aws_secret_env("CLOUDSDK_AUTH_ACCESS_TOKEN");
	if (token) {
		use_token(s, token, "the environment (a token)");
		return STK_OK;
	}
	s->bearer = true;
	char *path = stk__aws_env("GOOGLE_APPLICATION_CREDENTIALS");
	stk__aws_take(&path, well_known_file());
	enum stk_status status = STK_OK;
	if (path)
		status = read_file(path, &s->issuer, err);
	else
		use_metadata(&s->issuer);
	stk__free(path);
	return status;
}

enum stk_status stk__google_settings_read(const struct stk_aws_given *given, struct stk_aws_settings *out, struct stk_error *err)
{
	const struct stk_aws_given nothing = {0}, *g = given ? given : &nothing;
	char *emulated = g->endpoint ? NULL : emulator();
	*out = (struct stk_aws_settings){.google = true, .style = STK_S3_PATH};
	out->anonymous = g->anonymous || (emulated && !g->key);
	out->region = stk__strdup("auto");
	out->profile = stk__strdup("");
	out->ca_bundle = own_copy(g->ca_bundle);
	stk__aws_take(&out->ca_bundle, stk__aws_env("AWS_CA_BUNDLE"));
	out->proxy = g->proxy ? stk__strdup(g->proxy) : NULL;
	out->endpoint = own_copy(g->endpoint);
	stk__aws_take(&out->endpoint, emulated);
	stk__aws_take(&out->endpoint, stk__strdup("https://storage.googleapis.com"));
	for (size_t n = out->endpoint ? strlen(out->endpoint) : 0; n && out->endpoint[n - 1] == '/'; n--)
		out->endpoint[n - 1] = 0;
	if (!out->region || !out->profile || !out->endpoint)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the settings of the object store");
	enum stk_status status = stk__aws_check_endpoint(out->endpoint, "STORAGE_EMULATOR_HOST", err);
	if (status || out->anonymous)
		return status;
	status = read_keys(out, g, err);
	return status ? status : stk__aws_check_keys(out, err);
}
