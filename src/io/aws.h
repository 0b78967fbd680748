/* SPDX-License-Identifier: Apache-2.0
 * Settings of the object store, from where AWS's own tools look for them: the environment, then the two profile files. */
#ifndef STK_IO_AWS_H
#define STK_IO_AWS_H

#include "io/sigv4.h"
#include "stoker/status.h"

#include <stdbool.h>

/* auto: the bucket's name goes into the host's, unless an endpoint was given (few self-hosted stores have such names) or TLS could not check it. */
enum stk_s3_style { STK_S3_AUTO, STK_S3_PATH, STK_S3_VIRTUAL };

/* Who gives keys that do not stand in the environment. */
enum stk_aws_issuer_kind {
	STK_AWS_NOBODY,
	STK_AWS_STATIC,       /* the issuer itself holds them: they do not expire */
	STK_AWS_ROLE,         /* STS, for the keys of another issuer: a profile's source_profile or credential_source */
	STK_AWS_WEB_IDENTITY, /* STS, for a token in a file: roles of pods */
	STK_AWS_SSO,          /* the portal of IAM Identity Center, for the token that `aws sso login` left */
	STK_AWS_PROCESS,      /* a program of the profile */
	STK_AWS_CONTAINER,    /* ECS, and EKS's pod identities */
	STK_AWS_INSTANCE,     /* EC2's metadata service, version 2 */
	STK_AWS_ISSUER_KINDS
};

struct stk_aws_issuer {
	enum stk_aws_issuer_kind kind;
	char *where;                 /* URL, or the program's command line */
	char *role, *session;        /* of STS; the portal has roles too */
	char *external_id, *seconds; /* STS's for STK_AWS_ROLE; nullable */
	char *token, *token_file;    /* what proves who asks: itself, or a file that is read each time */
	char *key, *secret;          /* of STK_AWS_STATIC, whose third part is `token` */
	char *account, *renewal;     /* the portal's; the URL at which a token that ends is exchanged for a new one */
	char *profile, *region;      /* for messages, and for signatures */
	struct stk_aws_issuer *base; /* of STK_AWS_ROLE: whose keys ask */
};

/* Immutable once read. Never printed: it holds secrets. */
struct stk_aws_settings {
	char *endpoint; /* "http://host:port", without a slash at its end; NULL: AWS's own */
	char *region;
	char *ca_bundle;            /* file of certificates; NULL: the system's */
	char *proxy;                /* NULL: the environment's */
	char *key, *secret, *token; /* key NULL: there are no keys; token NULL: they do not expire */
	char *profile;
	const char *origin; /* where the keys are from, in words; NULL: there are none */
	struct stk_aws_issuer issuer;
	int64_t expires; /* of keys that were issued, in seconds since 1970; 0: they do not */
	bool anonymous;
	uint64_t number; /* set by who reads them: tells this snapshot from earlier ones */
	enum stk_s3_style style;
};

/* What the program itself says, which counts before the environment and the files. Never printed. NULL, false and auto: nothing. */
struct stk_aws_given {
	char *endpoint, *region, *profile;
	char *key, *secret, *token; /* key and secret, or neither */
	char *ca_bundle, *proxy;
	bool anonymous;
	enum stk_s3_style style;
};

/* STK_INVALID where a setting is not understood, or a profile that was asked for does not exist. The caller's to clear, also on failure. given: nullable. */
STK_MUST_USE enum stk_status stk__aws_settings_read(const struct stk_aws_given *given, struct stk_aws_settings *out, struct stk_error *err);
/* STK_INVALID for what is no endpoint. name: of the setting that it comes from. NULL passes. */
STK_MUST_USE enum stk_status stk__aws_check_endpoint(const char *endpoint, const char *name, struct stk_error *err);
void stk__aws_settings_clear(struct stk_aws_settings *s);

/* False: out of memory; *to is to be cleared in either case. */
bool stk__aws_settings_copy(const struct stk_aws_settings *from, struct stk_aws_settings *to);
bool stk__aws_issuer_equal(const struct stk_aws_issuer *a, const struct stk_aws_issuer *b);
void stk__aws_issuer_clear(struct stk_aws_issuer *i);

/* The value of `key` in a section of an INI file, or of `key` in the indented lines below `parent`; a copy, NULL where it is missing or memory is short.
 * What AWS's files hold: "# comment", "[section]", "key = value", and one level of indentation. */
char *stk__ini_find(const char *text, const char *section, const char *parent, const char *key);
bool stk__ini_has(const char *text, const char *section);

#endif
