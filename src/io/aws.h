/* SPDX-License-Identifier: Apache-2.0
 * What a program says of its object store, where AWS's own tools look for it: the environment, then the two profile files. */
#ifndef STK_IO_AWS_H
#define STK_IO_AWS_H

#include "io/sigv4.h"
#include "stoker/status.h"

#include <stdbool.h>

/* auto: names of buckets go into the host's name, unless an endpoint was given (few stores of one's own have such names) or TLS could not check it. */
enum stk_s3_style { STK_S3_AUTO, STK_S3_PATH, STK_S3_VIRTUAL };

/* Immutable once read. Never printed: it holds secrets. */
struct stk_aws_settings {
	char *endpoint; /* "http://host:port", without a slash at its end; NULL: AWS's own */
	char *region;
	char *ca_bundle;            /* file of certificates; NULL: the system's */
	char *key, *secret, *token; /* key NULL: there are no keys; token NULL: they do not expire */
	char *profile;
	bool anonymous;
	uint64_t number; /* the reader's: tells this snapshot from those before it */
	enum stk_s3_style style;
};

/* STK_INVALID where a setting is not understood, or a profile that was asked for does not exist. The caller's to clear, also on failure. */
STK_MUST_USE enum stk_status stk__aws_settings_read(struct stk_aws_settings *out, struct stk_error *err);
void stk__aws_settings_clear(struct stk_aws_settings *s);

/* The value of `key` in a section of an INI file, or of `key` in the indented lines below `parent`; a copy, NULL where it is missing or memory is short.
 * What AWS's files hold: "# comment", "[section]", "key = value", and one level of indentation. */
char *stk__ini_find(const char *text, const char *section, const char *parent, const char *key);
bool stk__ini_has(const char *text, const char *section);

#endif
