/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a profile from AWS's two files, and finds the issuer of its keys. */
#ifndef STK_AWS_PROFILE_H
#define STK_AWS_PROFILE_H

#include "aws/aws.h"

/* A profile, with the text of the two files that describe it, ~/.aws/credentials and ~/.aws/config; "" for a file that does not exist. */
struct stk_aws_profile {
	char *credentials, *config;
	const char *name;
	char section[256]; /* name of the profile's section in `config`; in `credentials` the section is called `name` */
	/* true if a web identity in the environment takes precedence over the files, as it does unless the program has named the profile */
	bool environment;
};

/* Reads both files. environment: stored in *out. Returns false if memory is short; the caller clears *out in either case. Stores the pointer `name`, which
 * must stay valid. */
bool stk__aws_profile_read(const char *name, bool environment, struct stk_aws_profile *out);
/* Switches to another profile of the same files. Stores the pointer `name`, which must stay valid. */
void stk__aws_profile_name(struct stk_aws_profile *p, const char *name);
void stk__aws_profile_clear(struct stk_aws_profile *p);
bool stk__aws_profile_exists(const struct stk_aws_profile *p);

/* Return copies of a variable's value, which the caller frees; NULL if the variable is missing or empty, or memory is short. */
char *stk__aws_env(const char *variable);
char *stk__aws_secret_env(const char *variable);  /* the copy is allocated with base/secret.h */
bool stk__aws_env_says_yes(const char *variable); /* returns whether the variable is 1, or yes or true in any case of letters */
/* Returns a copy of a value of the profile in the config file; with a parent, from the indented lines below the parent's line. NULL: there is no value. */
char *stk__aws_config(const struct stk_aws_profile *p, const char *parent, const char *key);
/* Returns the endpoint of a service: from the service's own variable, AWS_ENDPOINT_URL or the profile, in AWS's order of precedence. The caller frees it.
 * NULL: no endpoint is given, or AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is set. */
char *stk__aws_service_endpoint(const struct stk_aws_profile *p, const char *service, const char *variable);
/* Stores the value in *slot if *slot is NULL and the value is not empty; otherwise frees the value. value: may be NULL. */
void stk__aws_take(char **slot, char *value);

/* Finds the issuer of keys where AWS's tools look for it, and in their order: the profile, the container's service, the instance's metadata service. Call if
 * neither the program nor the environment has keys. STK_INVALID: a profile's settings cannot give keys, for example because they name a missing profile.
 * STK_UNSUPPORTED: a role requires the code of an MFA device. The caller clears *out, also on failure. */
STK_MUST_USE enum stk_status stk__aws_choose_issuer(
	const struct stk_aws_profile *p, const char *region, struct stk_aws_issuer *out, struct stk_error *err);

#endif
