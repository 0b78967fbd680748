/* SPDX-License-Identifier: Apache-2.0
 * Reads an index (index_format.h). */
#include "stoker/index.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/coded.h"
#include "format/index_format.h"
#include "format/list_census.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* State while an index is read like a tree of folders: its files are visited in the order in which a walk of the tree would find them. */
struct reading {
	struct stk_coded_in in;
	struct stk_file_list *list;
	const struct stk_file_list_options *options;
	struct stk_list_census census;
	bool tagged; /* true if the index has the hashes of the files' ETags */
};

static enum stk_status take_file(
	struct reading *r, const char *class_name, const char *name, struct stk_list_object object, struct stk_error *err)
{
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
	if (slash && !r->options->nested) {
		stk__census_folder(&r->census, class_name);
		return STK_OK;
	}
	if (!stk__list_wants(r->options, last)) {
		stk__census_other(&r->census, last);
		return STK_OK;
	}
	return r->list->sized ? stk__list_add_sized(r->list, name, strlen(name), object, err)
			      : stk__list_add_file(r->list, name, strlen(name), err);
}

static void take_tag(struct reading *r, struct stk_list_object *object)
{
	if (!r->tagged)
		return;
	r->in.failed |= (size_t)(r->in.end - r->in.at) < sizeof object->tag;
	if (r->in.failed)
		return;
	memcpy(&object->tag, r->in.at, sizeof object->tag);
	r->in.at += sizeof object->tag;
}

static enum stk_status take_class(struct reading *r, struct stk_error *err)
{
	char class_name[STK_CODED_LONGEST], name[STK_CODED_LONGEST] = "";
	struct stk_coded_in *in = &r->in;
	int64_t first = r->list->size;
	stk__take_text(in, class_name, 0, sizeof class_name);
	uint64_t count = stk__take_coded(in);
	bool wanted = !in->failed && stk__list_wants_class(r->options, class_name);
	r->census.left_out += !wanted;
	enum stk_status status = wanted ? stk__list_add_folder(r->list, class_name, err) : STK_OK;
	for (uint64_t i = 0; i < count && !in->failed && !status; i++) {
		stk__take_name(in, name, sizeof name);
		struct stk_list_object object = {.size = r->list->sized ? (int64_t)stk__take_coded(in) : 0};
		take_tag(r, &object);
		if (!in->failed && wanted)
			status = take_file(r, class_name, name, object, err);
	}
	if (status || in->failed || !wanted)
		return status;
	return stk__list_end_class(r->list, r->options, &r->census, first, class_name, err);
}

bool stk__is_index(const void *data, size_t n)
{
	return n >= STK_INDEX_MAGIC_BYTES && memcmp(data, STK_INDEX_MAGIC, STK_INDEX_MAGIC_BYTES) == 0;
}

bool stk__is_index_file(const char *path)
{
	struct stat st;
	char magic[STK_INDEX_MAGIC_BYTES];
	int fd = stk__file_open(stk__file_path(path), &st);
	ssize_t n = fd >= 0 ? read(fd, magic, sizeof magic) : -1;
	if (fd >= 0)
		close(fd);
	return n > 0 && stk__is_index(magic, (size_t)n);
}

static enum stk_status check_hash(const uint8_t *data, size_t n, const char *path, struct stk_error *err)
{
	if (n > STK_INDEX_MAGIC_BYTES && data[STK_INDEX_MAGIC_BYTES] != STK_INDEX_VERSION)
		return stk__fail(err, STK_UNSUPPORTED,
			"%s: an index of version %d; this library knows version %d: make it again (stoker index)", path,
			data[STK_INDEX_MAGIC_BYTES], STK_INDEX_VERSION);
	if (n < STK_INDEX_MAGIC_BYTES + 2 + STK_CODED_HASH || !stk__coded_is_whole(data, n))
		return stk__fail(err, STK_CORRUPT, "%s: the index is damaged or cut off: make it again (stoker index)", path);
	return STK_OK;
}

/* Sets the list's root to the one that the index states, unless the user gave a folder along with the index: the files may have moved to that folder. */
static enum stk_status take_root(struct reading *r, struct stk_error *err)
{
	char root[STK_CODED_LONGEST];
	stk__take_text(&r->in, root, 0, sizeof root);
	if (r->in.failed || (r->options->file_root && r->options->file_list))
		return STK_OK;
	char *copy = stk__strdup(root);
	if (!copy)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for the index of %s", root);
	stk__free(r->list->root);
	r->list->root = copy;
	return STK_OK;
}

enum stk_status stk__index_parse(struct stk_file_list *l, const struct stk_file_list_options *o, const uint8_t *data, size_t n,
	const char *path, struct stk_error *err)
{
	enum stk_status status = check_hash(data, n, path, err);
	if (status)
		return status;
	struct reading r = {.in = {data + STK_INDEX_MAGIC_BYTES + 2, data + n - STK_CODED_HASH, false}, .list = l, .options = o};
	l->sized = data[STK_INDEX_MAGIC_BYTES + 1] & STK_INDEX_SIZED;
	r.tagged = data[STK_INDEX_MAGIC_BYTES + 1] & STK_INDEX_TAGGED;
	status = take_root(&r, err);
	uint64_t classes = stk__take_coded(&r.in);
	for (uint64_t c = 0; c < classes && !r.in.failed && !status; c++)
		status = take_class(&r, err);
	if (status)
		return status;
	if (r.in.failed || r.in.at != r.in.end || classes > INT32_MAX)
		return stk__fail(err, STK_CORRUPT, "%s: the index contradicts itself: make it again (stoker index)", path);
	if (l->folder_count == 0)
		return stk__census_no_classes(&r.census, l, o, err);
	return stk__census_end(&r.census, l, o, 0, err);
}
