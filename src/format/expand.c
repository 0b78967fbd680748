/* SPDX-License-Identifier: Apache-2.0
 * Expands braces and globs in paths, as shells do. */
#include "format/names.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/archive_file.h"
#include "format/archive_set.h"
#include "format/list_sweep.h"
#include "format/number.h"
#include "format/s3_page.h"
#include "http/s3.h"
#include "io/io.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 20 }; /* maximum number of names; the matches of the last glob may exceed it */
static const struct stk_list_object unlisted = {.size = -1};

static int by_text(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;
	return strcmp(*x, *y);
}

static enum stk_status add_matches(const char *path, struct stk_names *out, struct stk_error *err)
{
	struct stk_names found = {0};
	enum stk_status s = stk__names_glob(path, &found, err);
	if (!s && !found.count)
		s = stk__fail_missing(err, "%.300s: no file matches%s", path, stk__uri_hint(path));
	stk__names_settle(&found);
	if (!s)
		qsort(found.at, found.count, sizeof *found.at, by_text);
	for (size_t i = 0; i < found.count && s == STK_OK; i++)
		if (!stk__archive_is_kept(found.at[i]) || stk__archive_is_kept(path)) /* "shard*" means archives, not indexes */
			s = stk__names_add_object(out, found.at[i], strlen(found.at[i]), unlisted, err);
	stk__names_free(&found);
	return s;
}

struct matching {
	const char *glob;
	size_t bucket; /* length of "SCHEME://BUCKET/" in `glob` */
	struct stk_names *names;
};

/* Returns whether a key's name begins with a dot that the glob does not write, and which *, ? and [ do not match, as on a disk. */
static bool is_hidden(const char *glob, const char *key)
{
	const char *slash = strrchr(key, '/'), *name = slash ? slash + 1 : key, *pattern = strrchr(glob, '/') + 1;
	pattern += *pattern == '\\';
	return *name == '.' && *pattern != '.';
}

static enum stk_status take_object(void *user, int64_t which, const char *key, struct stk_list_object object, struct stk_error *err)
{
	struct matching *m = user;
	char uri[STK_S3_LONGEST_KEY + 300];
	(void)which;
	if (!stk__glob_match(m->glob + m->bucket, key, true) || is_hidden(m->glob, key) || stk__archive_is_kept(key))
		return STK_OK;
	int n = snprintf(uri, sizeof uri, "%.*s%s", (int)m->bucket, m->glob, key);
	return stk__names_add_object(m->names, uri, (size_t)n, object, err);
}

static enum stk_status take_folder(void *user, int64_t which, const char *prefix, struct stk_error *err)
{
	(void)user, (void)which, (void)prefix, (void)err;
	return STK_OK;
}

/* Lists the objects whose keys begin with `prefix`, up to the next slash, and adds those that match m->glob. So `*` does not match a slash. */
static enum stk_status list_objects(
	struct matching *m, const struct stk_access *reach, const char *bucket, const char *prefix, struct stk_error *err)
{
	struct stk_storage *storage;
	enum stk_status s = stk__access_open(reach, m->glob, &storage, err);
	if (s)
		return s;
	struct stk_sweep sweep = {.io = stk__storage_io(storage),
		.access = reach,
		.root = m->glob,
		.bucket = bucket,
		.delimiter = "/",
		.object = take_object,
		.folder = take_folder,
		.user = m};
	s = stk__sweep(&sweep, &prefix, 1, err);
	stk_storage_unref(&storage);
	return s;
}

/* Copies the part of a glob before its first *, ? or [ to `prefix`, without the backslashes that quote characters. Returns the length of this part in the
 * glob; `size` or more if it does not fit. */
static size_t copy_prefix(const char *glob, char *prefix, size_t size)
{
	size_t used = 0, n = 0;
	for (; glob[n] && !strchr("*?[", glob[n]) && used < size - 1; n++) {
		n += glob[n] == '\\' && glob[n + 1];
		prefix[used++] = glob[n];
	}
	prefix[used] = 0;
	return glob[n] && !strchr("*?[", glob[n]) ? size : n;
}

static enum stk_status add_objects(const struct stk_access *reach, const char *path, struct stk_names *out, struct stk_error *err)
{
	char bucket[256], prefix[STK_S3_LONGEST_KEY + 1] = "";
	struct stk_names found = {0};
	struct matching m = {.glob = path, .names = &found};
	const int scheme = (int)strcspn(path, ":");
	if (!stk__s3_bucket(path, bucket))
		return stk__fail(err, STK_INVALID, "%.300s: it names no bucket (%.*s://BUCKET/KEY)", path, scheme, path);
	m.bucket = (size_t)scheme + strlen("://") + strlen(bucket) + 1;
	size_t n = strlen(path) < m.bucket ? 0 : copy_prefix(path + m.bucket, prefix, sizeof prefix);
	if (n >= sizeof prefix || strchr(path + m.bucket + n, '/'))
		return stk__fail(
			err, STK_UNSUPPORTED, "%.300s: in %.*s:// URIs * ? and [ can only be after the last slash", path, scheme, path);
	enum stk_status s = list_objects(&m, reach, bucket, prefix, err);
	stk__names_settle(&found);
	if (found.count)
		qsort(found.at, found.count, sizeof *found.at, by_text); /* since not all stores return keys in order */
	for (size_t i = 0; i < found.count && !s; i++)
		s = stk__names_add_object(out, found.at[i], strlen(found.at[i]), stk__names_object(found.at[i]), err);
	if (!s && !found.count)
		s = stk__fail_missing(err, "%.300s: no object matches", path);
	stk__names_free(&found);
	return s;
}

static enum stk_status add_path(const struct stk_access *reach, const char *path, struct stk_names *out, struct stk_error *err)
{
	const bool uri = stk__is_object(path);
	const char *local = stk__file_path(path);
	if (out->count >= MOST)
		return stk__fail(err, STK_LIMIT, "the paths stand for more than %d files", MOST);
	if (uri && strpbrk(path, "*?[") && stk__access_lists(reach, path))
		return add_objects(reach, path, out, err);
	if (uri && memchr(path, '*', (size_t)stk__uri_shown(path)))
		return stk__fail(err, STK_UNSUPPORTED,
			"%.*s: * stands for names only in s3:// URIs, and in those that stoker.Storage(fetch=..., list=...) lists: name the files, as "
			"\"shard-{000..127}.tar\"%s",
			stk__uri_shown(path), path, stk__azure_hint(path));
	if (!uri && strpbrk(local, "*?[") && access(local, F_OK))
		return add_matches(local, out, err);
	return stk__names_add_object(out, path, strlen(path), unlisted, err);
}

static enum stk_status expand(const struct stk_access *reach, const char *path, struct stk_names *out, struct stk_error *err);

/* Replaces a pair of braces by the n bytes of `piece`, one of its alternatives, and expands the result: the part of `path` before `open`, the piece, and
 * `tail`, which may have braces of its own. */
static enum stk_status expand_with(const struct stk_access *reach, const char *path, const char *open, const char *piece, size_t n,
	const char *tail, struct stk_names *out, struct stk_error *err)
{
	char expanded[PATH_MAX];
	int length = snprintf(expanded, sizeof expanded, "%.*s%.*s%s", (int)(open - path), path, (int)n, piece, tail);
	if ((size_t)length >= sizeof expanded)
		return stk__fail(err, STK_INVALID, "%.200s...: the path is too long", path);
	return expand(reach, expanded, out, err);
}

/* Parses a range between braces, such as "000..127". *digits: if an end has several digits and begins with a zero, the number of digits of the longer end,
 * to which all numbers are padded; otherwise 1. Returns false if the text is not a range. */
static bool is_range(const char *at, const char *end, int64_t *first, int64_t *last, int *digits)
{
	const char *begin = at, *second;
	if (!stk__take_number(&at, end, first) || end - at < 3 || at[0] != '.' || at[1] != '.')
		return false;
	int n = (int)(at - begin);
	second = at + 2;
	at = second;
	if (!stk__take_number(&at, end, last) || at != end)
		return false;
	int m = (int)(end - second);
	*digits = (*begin == '0' && n > 1) || (*second == '0' && m > 1) ? (n > m ? n : m) : 1;
	return true;
}

static enum stk_status expand_range(const struct stk_access *reach, const char *path, const char *open, const char *tail, int64_t first,
	int64_t last, int digits, struct stk_names *out, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	int64_t step = first <= last ? 1 : -1;
	if ((last - first) * step >= MOST || digits > 20)
		return stk__fail(err, STK_LIMIT, "%.200s: it stands for more than %d files", path, MOST);
	for (int64_t i = first; s == STK_OK; i += step) {
		char number[32];
		int n = snprintf(number, sizeof number, "%0*lld", digits, (long long)i);
		s = expand_with(reach, path, open, number, (size_t)n, tail, out, err);
		if (i == last)
			break;
	}
	return s;
}

/* Returns the first comma or closing brace after `at` that is not inside further braces; NULL if there is neither. */
static const char *end_of_piece(const char *at)
{
	int depth = 0;
	for (; *at; at++) {
		if (depth == 0 && (*at == ',' || *at == '}'))
			return at;
		depth += (*at == '{') - (*at == '}');
	}
	return NULL;
}

static enum stk_status expand(const struct stk_access *reach, const char *path, struct stk_names *out, struct stk_error *err)
{
	const char *open = strchr(path, '{'), *close = open ? end_of_piece(open + 1) : NULL;
	const bool is_list = close && *close == ',';
	while (close && *close == ',')
		close = end_of_piece(close + 1);
	if (!close || (!stk__is_object(path) && access(stk__file_path(path), F_OK) == 0))
		return add_path(reach, path, out, err);
	int64_t first, last;
	int digits;
	if (is_range(open + 1, close, &first, &last, &digits))
		return expand_range(reach, path, open, close + 1, first, last, digits, out, err);
	if (!is_list)
		return stk__fail(err, STK_INVALID, "%.300s: between braces stand a range, {000..127}, or names, {train,val}", path);
	enum stk_status s = STK_OK;
	for (const char *piece = open + 1; s == STK_OK && piece <= close;) {
		const size_t n = (size_t)(end_of_piece(piece) - piece);
		s = expand_with(reach, path, open, piece, n, close + 1, out, err);
		piece += n + 1;
	}
	return s;
}

enum stk_status stk__names_expand(
	const struct stk_access *reach, const char *const *paths, int32_t count, struct stk_names *out, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	*out = (struct stk_names){0};
	for (int32_t i = 0; i < count && s == STK_OK; i++)
		s = expand(reach, paths[i], out, err);
	stk__names_settle(out);
	if (s)
		stk__names_free(out);
	return s;
}
