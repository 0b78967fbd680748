/* SPDX-License-Identifier: Apache-2.0
 * A page of ListObjectsV2, as XML: not a parser of XML, but one of what object stores send, which takes nothing else. */
#ifndef STK_FORMAT_S3_PAGE_H
#define STK_FORMAT_S3_PAGE_H

#include "base/text.h"
#include "format/list.h"
#include "stoker/status.h"

enum { STK_S3_LONGEST_KEY = 1024 };

struct stk_s3_visitor {
	void *user;
	/* Stop by returning another status than STK_OK. key: NUL-terminated, decoded. */
	enum stk_status (*object)(void *user, const char *key, struct stk_list_object object, struct stk_error *err);
	enum stk_status (*prefix)(void *user, const char *prefix, struct stk_error *err);
};

/* token: of the next page; empty where this is the last. name: what errors call the page. STK_CORRUPT: it is no listing, or a damaged one. */
STK_MUST_USE enum stk_status stk__s3_page_parse(
	const char *xml, size_t n, const char *name, const struct stk_s3_visitor *visitor, struct stk_text *token, struct stk_error *err);

#endif
