/* SPDX-License-Identifier: Apache-2.0
 * A profile of AWS's two files, and who gives keys for it. */
#ifndef STK_IO_AWS_PROFILE_H
#define STK_IO_AWS_PROFILE_H

#include "io/aws.h"

/* Holds the text of both files, "" where there is none. */
struct stk_aws_profile {
	char *credentials, *config;
	const char *name;
	char section[256]; /* in config; in credentials it is the name */
	bool environment;  /* what the environment says of keys counts before the files */
};

/* False: out of memory; to be cleared in either case. Keeps the address of name. */
bool stk__aws_profile_read(const char *name, bool environment, struct stk_aws_profile *out);
/* Another profile of the same files. Keeps the address of name. */
void stk__aws_profile_name(struct stk_aws_profile *p, const char *name);
void stk__aws_profile_clear(struct stk_aws_profile *p);
bool stk__aws_profile_exists(const struct stk_aws_profile *p);

/* Copies, NULL where there is none or memory is short. An empty variable is none. */
char *stk__aws_env(const char *variable);
bool stk__aws_env_says_yes(const char *variable);
/* Of the profile in the config file; with a parent, from the lines below that one. */
char *stk__aws_config(const struct stk_aws_profile *p, const char *parent, const char *key);
/* The endpoint of a service: by its variable, AWS_ENDPOINT_URL, and the profile's lines, in AWS's order. NULL: none is given. */
char *stk__aws_service_endpoint(const struct stk_aws_profile *p, const char *service, const char *variable);
/* Puts the value into an empty slot, or frees it. */
void stk__aws_take(char **slot, char *value);

/* Who gives keys where the environment has none, in the order in which AWS's tools look. STK_INVALID where a profile names what is not there. *out is the
 * caller's to clear, also on failure. */
STK_MUST_USE enum stk_status stk__aws_choose_issuer(
	const struct stk_aws_profile *p, const char *region, struct stk_aws_issuer *out, struct stk_error *err);

#endif
