/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the issuer of a profile's keys: the profile itself, a role that another profile's keys assume, a web identity, single sign-on, a program, or
 * a service of the machine. */
#include "aws/aws_profile.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/sha1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 8 }; /* maximum length of a chain of profiles that refer to each other */

static void take_config(char **slot, const struct stk_aws_profile *p, const char *key)
{
	stk__aws_take(slot, stk__aws_config(p, NULL, key));
}

/* Returns a copy of the profile's value of `key` from one of AWS's two files; NULL if neither has one. */
static char *copy_line(const struct stk_aws_profile *p, const char *key)
{
	char *value = stk__aws_config(p, NULL, key);
	stk__aws_take(&value, stk__ini_find(p->credentials, p->name, NULL, key));
	return value;
}

static char *address(const struct stk_aws_profile *p, const char *service, const char *variable, const char *host, const char *region)
{
	char *found = stk__aws_service_endpoint(p, service, variable);
	char built[256];
	for (size_t n = found ? strlen(found) : 0; n && found[n - 1] == '/'; n--)
		found[n - 1] = 0;
	snprintf(built, sizeof built, "https://%s.%.64s.amazonaws.com%s", host, region, strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
	stk__aws_take(&found, stk__strdup(built));
	return found;
}

static char *sts_address(const struct stk_aws_profile *p, const char *region)
{
	return address(p, "sts", "AWS_ENDPOINT_URL_STS", "sts", region);
}

/* ---- keys in a file ---- */

static bool read_static(const char *text, const char *section, struct stk_aws_issuer *i)
{
	i->key = stk__ini_find(text, section, NULL, "aws_access_key_id");
	i->secret = stk__secret_take(stk__ini_find(text, section, NULL, "aws_secret_access_key"));
	i->token = stk__secret_take(stk__ini_find(text, section, NULL, "aws_session_token"));
	if (i->key && i->secret) {
		i->kind = STK_AWS_STATIC;
		return true;
	}
	stk__aws_issuer_clear(i);
	return false;
}

/* ---- services of the machine ---- */

static bool use_container(struct stk_aws_issuer *i)
{
	const char *relative = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	char url[1024];
	snprintf(url, sizeof url, "http://169.254.170.2%s", relative ? relative : "");
	i->endpoint = relative && *relative ? stk__strdup(url) : stk__aws_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	if (!i->endpoint)
		return false;
	i->token_file = stk__aws_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	i->token = stk__aws_secret_env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	i->kind = STK_AWS_CONTAINER;
	return true;
}

static bool use_instance(struct stk_aws_issuer *i)
{
	if (stk__aws_env_says_yes("AWS_EC2_METADATA_DISABLED"))
		return false;
	i->endpoint = stk__aws_env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	stk__aws_take(&i->endpoint, stk__strdup("http://169.254.169.254"));
	i->kind = STK_AWS_INSTANCE;
	return true;
}

static bool use_environment(struct stk_aws_issuer *i)
{
	i->key = stk__aws_env("AWS_ACCESS_KEY_ID");
	i->secret = stk__aws_secret_env("AWS_SECRET_ACCESS_KEY");
	i->token = stk__aws_secret_env("AWS_SESSION_TOKEN");
	i->kind = STK_AWS_STATIC;
	return i->key && i->secret;
}

/* ---- a web identity ---- */

static bool use_web_identity(const struct stk_aws_profile *p, const char *region, struct stk_aws_issuer *i)
{
	if (p->environment) {
		i->token_file = stk__aws_env("AWS_WEB_IDENTITY_TOKEN_FILE");
		i->role = stk__aws_env("AWS_ROLE_ARN");
		i->session = stk__aws_env("AWS_ROLE_SESSION_NAME");
	}
	take_config(&i->token_file, p, "web_identity_token_file");
	take_config(&i->role, p, "role_arn");
	take_config(&i->session, p, "role_session_name");
	stk__aws_take(&i->session, stk__strdup("stoker"));
	if (!i->token_file || !i->role) {
		stk__aws_issuer_clear(i);
		return false;
	}
	i->endpoint = sts_address(p, region);
	i->kind = STK_AWS_WEB_IDENTITY;
	return true;
}

/* ---- single sign-on ---- */

/* Returns the path of the file in which `aws sso login` stores the token; NULL if it is too long or memory is short. name: the session's name, or the start URL
 * of a profile without a session. */
static char *token_path(const char *name)
{
	const char *home = getenv("HOME");
	char path[4096], hex[STK_SHA1_HEX];
	stk__sha1_hex(name, strlen(name), hex);
	int n = snprintf(path, sizeof path, "%s/.aws/sso/cache/%s.json", home ? home : "", hex);
	return n < (int)sizeof path ? stk__strdup(path) : NULL;
}

static enum stk_status read_sso(const struct stk_aws_profile *p, struct stk_aws_issuer *i, struct stk_error *err)
{
	char section[256], *session = stk__aws_config(p, NULL, "sso_session");
	snprintf(section, sizeof section, "sso-session %.200s", session ? session : "");
	char *start = session ? stk__ini_find(p->config, section, NULL, "sso_start_url") : stk__aws_config(p, NULL, "sso_start_url");
	i->region = session ? stk__ini_find(p->config, section, NULL, "sso_region") : stk__aws_config(p, NULL, "sso_region");
	enum stk_status s = STK_OK;
	if (!i->account || !i->role || !start || !i->region || i->region[strspn(i->region, "abcdefghijklmnopqrstuvwxyz0123456789-")])
		s = stk__fail(err, STK_INVALID,
			"the profile \"%.64s\" is one of single sign-on without %s%s%s (~/.aws/config): `aws configure sso` writes what it needs",
			p->name,
			!i->account ? "sso_account_id"
			: !i->role  ? "sso_role_name"
			: !start    ? "an sso_start_url"
				    : "a valid sso_region",
			session && i->account && i->role ? " in its section sso-session " : "",
			session && i->account && i->role ? session : "");
	else
		i->token_file = token_path(session ? session : start);
	stk__free(start);
	stk__free(session);
	return s;
}

static enum stk_status use_sso(const struct stk_aws_profile *p, struct stk_aws_issuer *i, struct stk_error *err)
{
	i->account = stk__aws_config(p, NULL, "sso_account_id");
	i->role = stk__aws_config(p, NULL, "sso_role_name");
	if (!i->account && !i->role)
		return STK_OK;
	enum stk_status s = read_sso(p, i, err);
	if (s)
		return s;
	i->endpoint = address(p, "sso", "AWS_ENDPOINT_URL_SSO", "portal.sso", i->region);
	i->renewal = address(p, "sso_oidc", "AWS_ENDPOINT_URL_SSO_OIDC", "oidc", i->region);
	i->profile = stk__strdup(p->name);
	i->kind = STK_AWS_SSO;
	return STK_OK;
}

/* ---- roles ---- */

/* Sets *i to the issuer that the profile names for its keys; i->kind stays STK_AWS_NOBODY if it names none. left: how many more times a profile may refer to
 * another one, so that circles end. */
static enum stk_status use_profile(
	const struct stk_aws_profile *p, const char *region, int left, struct stk_aws_issuer *i, struct stk_error *err);

static enum stk_status use_source(const struct stk_aws_profile *p, const char *source, const char *region, int left,
	struct stk_aws_issuer *base, struct stk_error *err)
{
	struct stk_aws_profile source_profile = {.credentials = p->credentials, .config = p->config};
	stk__aws_profile_name(&source_profile, source);
	if (!stk__aws_profile_exists(&source_profile))
		return stk__fail(err, STK_INVALID,
			"the profile \"%.64s\" has source_profile = %.64s, which is in neither of AWS's files (~/.aws/config, ~/.aws/credentials)",
			p->name, source);
	if (strcmp(source, p->name) == 0) /* the role is assumed with keys of the profile itself */
		return read_static(p->credentials, p->name, base) || read_static(p->config, p->section, base)
			       ? STK_OK
			       : stk__fail(err, STK_INVALID, "the profile \"%.64s\" is its own source_profile and holds no keys", source);
	if (left == 0)
		return stk__fail(
			err, STK_INVALID, "the profile \"%.64s\": profiles name each other as source_profile in a circle", p->name);
	enum stk_status s = use_profile(&source_profile, region, left - 1, base, err);
	if (!s && !base->kind)
		s = stk__fail(err, STK_INVALID, "the profile \"%.64s\" has source_profile = %.64s, which names no keys", p->name, source);
	return s;
}

static enum stk_status use_machine(const struct stk_aws_profile *p, const char *source, struct stk_aws_issuer *base, struct stk_error *err)
{
	bool environment = strcmp(source, "Environment") == 0, container = strcmp(source, "EcsContainer") == 0;
	if (!environment && !container && strcmp(source, "Ec2InstanceMetadata") != 0)
		return stk__fail(err, STK_INVALID,
			"the profile \"%.64s\" has credential_source = %.64s; valid are Environment, Ec2InstanceMetadata and EcsContainer",
			p->name, source);
	if (environment ? use_environment(base) : container ? use_container(base) : use_instance(base))
		return STK_OK;
	return stk__fail(err, STK_INVALID, "the profile \"%.64s\" has credential_source = %.64s, and there are no keys", p->name, source);
}

static enum stk_status find_base(const struct stk_aws_profile *p, const char *source, const char *machine, const char *region, int left,
	struct stk_aws_issuer *base, struct stk_error *err)
{
	char *device = copy_line(p, "mfa_serial");
	stk__free(device);
	if (device)
		return stk__fail(err, STK_UNSUPPORTED,
			"the profile \"%.64s\" needs the code of a device (mfa_serial), which Stoker cannot ask for: set the keys with eval "
			"\"$(aws configure export-credentials --format env)\"",
			p->name);
	if (!source)
		return use_machine(p, machine, base, err);
	if (machine)
		return stk__fail(err, STK_INVALID,
			"the profile \"%.64s\" has both source_profile and credential_source: they exclude each other", p->name);
	return use_source(p, source, region, left, base, err);
}

static enum stk_status use_role(
	const struct stk_aws_profile *p, const char *region, int left, struct stk_aws_issuer *i, struct stk_error *err)
{
	char *source = copy_line(p, "source_profile"), *machine = copy_line(p, "credential_source");
	enum stk_status s = STK_OK;
	i->role = copy_line(p, "role_arn");
	if (i->role && (source || machine)) {
		i->base = stk__calloc(1, sizeof *i->base);
		i->session = copy_line(p, "role_session_name");
		stk__aws_take(&i->session, stk__strdup("stoker"));
		i->external_id = copy_line(p, "external_id");
		i->seconds = copy_line(p, "duration_seconds");
		i->region = stk__strdup(region);
		i->endpoint = sts_address(p, region);
		i->kind = STK_AWS_ROLE;
		if (i->seconds && i->seconds[strspn(i->seconds, "0123456789")])
			s = stk__fail(err, STK_INVALID, "the profile \"%.64s\": duration_seconds is not a number", p->name);
		else
			s = i->base ? find_base(p, source, machine, region, left, i->base, err)
				    : stk__fail(err, STK_NO_MEMORY, "out of memory for AWS's profile files");
	} else {
		stk__aws_issuer_clear(i);
	}
	stk__free(source);
	stk__free(machine);
	return s;
}

/* ---- choice of the issuer ---- */

static bool use_process(const struct stk_aws_profile *p, struct stk_aws_issuer *i)
{
	i->endpoint = copy_line(p, "credential_process");
	i->kind = i->endpoint ? STK_AWS_PROCESS : STK_AWS_NOBODY;
	return i->endpoint;
}

static enum stk_status use_profile(
	const struct stk_aws_profile *p, const char *region, int left, struct stk_aws_issuer *i, struct stk_error *err)
{
	enum stk_status s = use_role(p, region, left, i, err);
	if (s || i->kind || use_web_identity(p, region, i))
		return s;
	s = use_sso(p, i, err);
	if (s || i->kind)
		return s;
	if (!read_static(p->credentials, p->name, i) && !use_process(p, i))
		read_static(p->config, p->section, i);
	return STK_OK;
}

enum stk_status stk__aws_choose_issuer(
	const struct stk_aws_profile *p, const char *region, struct stk_aws_issuer *out, struct stk_error *err)
{
	*out = (struct stk_aws_issuer){0};
	enum stk_status s = use_profile(p, region, DEEPEST, out, err);
	if (!s && !out->kind && !use_container(out))
		use_instance(out);
	return s;
}
