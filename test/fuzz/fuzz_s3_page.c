/* SPDX-License-Identifier: Apache-2.0
 * A page of an object store's listing. Accepted pages must be consistent: keys that a store allows, sizes that are not negative. */
#include "fuzz.h"

#include "format/s3_page.h"

#include <stdlib.h>
#include <string.h>

static enum stk_status take_object(void *user, const char *key, struct stk_list_object object, struct stk_error *err)
{
	(void)user;
	(void)err;
	if (!*key || strlen(key) > STK_S3_LONGEST_KEY || object.size < 0)
		abort();
	return STK_OK;
}

static enum stk_status take_prefix(void *user, const char *prefix, struct stk_error *err)
{
	return take_object(user, prefix, (struct stk_list_object){0}, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct stk_s3_visitor visitor = {NULL, take_object, take_prefix};
	struct stk_text token = {0};
	struct stk_error err = {0};
	if (stk__s3_page_parse((const char *)data, size, "fuzz", &visitor, &token, &err) != STK_OK &&
		!strstr(err.message, "fuzz: the store's listing"))
		abort();
	stk__text_free(&token);
	return 0;
}
