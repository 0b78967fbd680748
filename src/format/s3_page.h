/* SPDX-License-Identifier: Apache-2.0
 * Parses a page of ListObjectsV2. It is not a parser of XML in general: it accepts only the XML that object stores send. */
#ifndef STK_FORMAT_S3_PAGE_H
#define STK_FORMAT_S3_PAGE_H

#include "base/text.h"
#include "format/list.h"
#include "stoker/status.h"

enum { STK_S3_LONGEST_KEY = 1024 };

struct stk_s3_visitor {
	void *user;
	/* Called for each entry; a status other than STK_OK ends the page and is returned. key, prefix: decoded, NUL-terminated. */
	enum stk_status (*object)(void *user, const char *key, struct stk_list_object object, struct stk_error *err);
	enum stk_status (*prefix)(void *user, const char *prefix, struct stk_error *err);
};

/* Passes the objects of a page of n bytes to the visitor, and then its prefixes. token: set to the token of the next page; empty for the last page. name:
 * the page's name, for messages. STK_CORRUPT: the text is not a listing, or is damaged. */
STK_MUST_USE enum stk_status stk__s3_page_parse(
	const char *xml, size_t n, const char *name, const struct stk_s3_visitor *visitor, struct stk_text *token, struct stk_error *err);

#endif
