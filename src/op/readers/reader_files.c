/* SPDX-License-Identifier: Apache-2.0 */
#include "op/readers/reader_files.h"

#include "format/list.h"

enum stk_status stk__reader_files_open(
	const struct stk_file_list_options *o, const struct stk_reader_args *reader, void **shared, struct stk_error *err)
{
	struct stk_file_list *list = NULL;
	enum stk_status s = stk__file_list_create(o, &list, err);
	if (!s && (s = stk__reader_check(reader, stk__file_list_size(list), err)))
		stk__file_list_destroy(list);
	*shared = s ? NULL : list;
	return s;
}

void stk__reader_files_close(void *shared)
{
	stk__file_list_destroy(shared);
}

int64_t stk__reader_files_size(const void *shared)
{
	return stk__file_list_size(shared);
}

uint64_t stk__reader_files_fingerprint(const void *shared, enum stk_digest_form form)
{
	return stk__file_list_fingerprint(shared, form);
}

uint64_t stk__reader_files_digest(const void *shared, int64_t first, int64_t count)
{
	return stk__file_list_digest(shared, first, count, STK_DIGEST_NOW);
}

size_t stk__reader_files_uri(const void *shared, int64_t id, char *uri, size_t capacity)
{
	return stk__file_list_path(shared, id, uri, capacity);
}

void stk__reader_files_object(const void *shared, int64_t uri, struct stk_known_object *out)
{
	const struct stk_list_object object = stk__file_list_object(shared, uri);
	out->size = object.size > 0 ? object.size : 0;
	out->tag = object.tag;
}
