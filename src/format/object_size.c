/* SPDX-License-Identifier: Apache-2.0 */
#include "format/list.h"
#include "format/s3_page.h"
#include "http/s3.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

struct sized {
	const char *key;
	int64_t size;
};

static enum stk_status take_object(void *user, const char *key, struct stk_list_object object, struct stk_error *err)
{
	struct sized *s = user;
	(void)err;
	if (strcmp(key, s->key) == 0)
		s->size = object.size;
	return STK_OK;
}

static enum stk_status take_prefix(void *user, const char *prefix, struct stk_error *err)
{
	(void)user, (void)prefix, (void)err;
	return STK_OK;
}

enum stk_status stk__listed_size(const struct stk_access *access, struct stk_io *io, const char *path, int64_t *size, struct stk_error *err)
{
	char bucket[256];
	struct stk_text uri = {0}, token = {0};
	*size = -1;
	if (!stk__io_lists(io, path) || !stk__s3_bucket(path, bucket))
		return STK_OK;
	const char *key = strstr(path, "://") + 3 + strlen(bucket);
	struct sized sized = {key + (*key == '/'), -1};
	const struct stk_s3_visitor visitor = {&sized, take_object, take_prefix};
	uint8_t *xml = NULL;
	size_t n = 0;
	stk__s3_list_uri(&uri, path, bucket, sized.key, "/", NULL, NULL);
	enum stk_status s = uri.failed ? stk__fail(err, STK_NO_MEMORY, "out of memory to search %.300s", path)
				       : stk__read_object(access, io, uri.s, 0, -1, (size_t)1 << 30, &xml, &n, NULL, err);
	if (!s)
		s = stk__s3_page_parse((const char *)xml, n, path, &visitor, &token, err);
	*size = sized.size;
	stk__free(xml);
	stk__text_free(&uri);
	stk__text_free(&token);
	return s;
}
