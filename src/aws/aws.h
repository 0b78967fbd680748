/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the settings of the object store: from the program, then from the places that AWS's own tools use (the environment, then the two profile files). */
#ifndef STK_AWS_H
#define STK_AWS_H

#include "aws/sigv4.h"
#include "stoker/status.h"

#include <stdbool.h>

/* How requests name the bucket. STK_S3_PATH: in the path. STK_S3_VIRTUAL: in the host's name, if that is possible (fits_host in http/s3.c), otherwise in the
 * path. STK_S3_AUTO: like STK_S3_PATH if an endpoint was given, since few self-hosted stores have such host names; otherwise like STK_S3_VIRTUAL. */
enum stk_s3_style { STK_S3_AUTO, STK_S3_PATH, STK_S3_VIRTUAL };

/* Issuers of keys, for settings without keys from the program or the environment. */
enum stk_aws_issuer_kind {
	STK_AWS_NOBODY,
	STK_AWS_STATIC,       /* the issuer's settings contain the keys, which do not expire */
	STK_AWS_ROLE,         /* STS, asked with the keys of another issuer: a profile's source_profile or credential_source */
	STK_AWS_WEB_IDENTITY, /* STS, asked with a token from a file, as for the roles of Kubernetes pods */
	STK_AWS_SSO,          /* the portal of IAM Identity Center, asked with the token that `aws sso login` stored */
	STK_AWS_PROCESS,      /* a program that the profile names, whose output contains the keys */
	STK_AWS_CONTAINER,    /* the local service of ECS, and of EKS's pod identities */
	STK_AWS_INSTANCE,     /* EC2's metadata service, version 2 */
	STK_GOOGLE_USER, /* Google's token endpoint, asked with a user's refresh token (in `token`; the client's id and secret are in `key` and `secret`) */
	/* Google's token endpoint, asked with a service account's private key (in `secret`), e-mail address (in `role`) and key id (in `account`) */
	STK_GOOGLE_SERVICE,
	STK_GOOGLE_METADATA, /* the metadata server of Google's machines */
	STK_AWS_ISSUER_KINDS
};

struct stk_aws_issuer {
	enum stk_aws_issuer_kind kind;
	char *endpoint;              /* URL of the issuer, or the command line of the program */
	char *role, *session;        /* the role, for STS and the portal; the session's name, for STS */
	char *external_id, *seconds; /* external id, and duration of the session in seconds, for STK_AWS_ROLE; may be NULL */
	char *token,
		*token_file; /* token: proof of identity (allocated with base/secret.h); token_file: path of a file with the token, which
			      * is read for each request */
	char *key, *secret;  /* keys of STK_AWS_STATIC, with `token` as the third part; secret: allocated with base/secret.h */
	/* account: id of the account whose role the portal is asked for; renewal: URL that exchanges a token that expires soon for a new one */
	char *account, *renewal;
	char *profile, *region;      /* profile: name of the profile, for messages; region: for signatures */
	struct stk_aws_issuer *base; /* for STK_AWS_ROLE: the issuer of the keys that sign the request to STS */
};

/* The settings of an object store. They do not change after they were read. Never print them: they contain secrets. */
struct stk_aws_settings {
	char *endpoint; /* "http://host:port", without a slash at its end; NULL: AWS's own */
	char *region;
	char *ca_bundle; /* path of the file of trusted certificates; NULL: the system's */
	char *proxy;     /* URL of the proxy; NULL: the proxy of the environment */
	/* key, secret: NULL if there are no keys; token: token of the session, or NULL. secret and token are allocated with base/secret.h. */
	char *key, *secret, *token;
	char *profile;
	const char *origin; /* origin of the keys in words, for reports; NULL without keys */
	struct stk_aws_issuer issuer;
	int64_t expires; /* time at which the issued keys expire, in seconds since 1970; 0: never, or not known */
	bool anonymous;
	bool google;     /* true if the settings are for gs:// */
	bool bearer;     /* true if the secret is an OAuth token, which requests contain unchanged */
	uint64_t number; /* number of this snapshot of the settings, by which connections recognise changed settings */
	enum stk_s3_style style;
};

/* Settings from the program, which take precedence over the environment and the files. Never print them. NULL, false and STK_S3_AUTO mean not set. */
struct stk_aws_given {
	char *endpoint, *region, *profile;
	char *key, *secret, *token; /* key and secret are both set or both NULL; secret and token are allocated with base/secret.h */
	char *ca_bundle, *proxy;
	bool anonymous;
	enum stk_s3_style style;
};

/* Reads the settings. STK_INVALID: a setting is not understood, or a profile that was asked for does not exist. The caller clears *out, also on failure.
 * given: may be NULL. */
STK_MUST_USE enum stk_status stk__aws_settings_read(const struct stk_aws_given *given, struct stk_aws_settings *out, struct stk_error *err);
/* Returns STK_INVALID if a part of the keys begins or ends with a blank or a line break, as after copying it from a file, or has a line break in it. */
STK_MUST_USE enum stk_status stk__aws_check_keys(const struct stk_aws_settings *s, struct stk_error *err);
/* Returns STK_INVALID if the text is not an endpoint. name: the setting in which the text was found. endpoint: may be NULL. */
STK_MUST_USE enum stk_status stk__aws_check_endpoint(const char *endpoint, const char *name, struct stk_error *err);
void stk__aws_settings_clear(struct stk_aws_settings *s);

/* Copies settings. Returns false if memory is short; the caller clears *to in either case. */
bool stk__aws_settings_copy(const struct stk_aws_settings *from, struct stk_aws_settings *to);
bool stk__aws_issuer_equal(const struct stk_aws_issuer *a, const struct stk_aws_issuer *b);
void stk__aws_issuer_clear(struct stk_aws_issuer *i);

/* Finds `key` in a section of an INI file's text or, if `parent` is not NULL, in the indented lines below the section's line `parent`. Returns a copy of
 * the value, which the caller frees; NULL if the value is missing or memory is short. AWS's files contain "# comment", "[section]", "key = value", and one
 * level of indentation. */
char *stk__ini_find(const char *text, const char *section, const char *parent, const char *key);
bool stk__ini_has(const char *text, const char *section);

#endif
