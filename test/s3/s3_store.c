/* SPDX-License-Identifier: Apache-2.0
 * Stores objects by name, and lists them. */
#include "s3_impl.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void s3_text_add(struct s3_text *t, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	char *s = NULL;
	int n = vasprintf(&s, format, ap);
	va_end(ap);
	if (n < 0)
		abort();
	if (t->n + (size_t)n + 1 > t->capacity) {
		t->capacity = 2 * (t->n + (size_t)n + 1);
		t->s = realloc(t->s, t->capacity);
	}
	memcpy(t->s + t->n, s, (size_t)n + 1);
	t->n += (size_t)n;
	free(s);
}

void s3_decode(char *out, const char *s, size_t n, bool plus)
{
	for (size_t i = 0; i < n; i++) {
		unsigned v;
		char hex[3] = {0};
		if (s[i] == '%' && i + 2 < n + 0 && memcpy(hex, s + i + 1, 2) && sscanf(hex, "%2x", &v) == 1) {
			*out++ = (char)v;
			i += 2;
		} else {
			*out++ = plus && s[i] == '+' ? ' ' : s[i];
		}
	}
	*out = 0;
}

bool s3_query(const char *query, const char *name, char *out, size_t capacity)
{
	size_t n = strlen(name);
	*out = 0;
	for (const char *q = query; q && *q;) {
		size_t part = strcspn(q, "&");
		if (part >= n && strncmp(q, name, n) == 0 && (part == n || q[n] == '=')) {
			size_t value = part > n ? part - n - 1 : 0;
			if (value >= capacity)
				abort();
			s3_decode(out, q + n + 1, value, true);
			return true;
		}
		q += part + (q[part] == '&');
	}
	return false;
}

/* Returns the index of the first object whose path is not less than `path`. */
static size_t lower(const struct s3_store *s, const char *path)
{
	size_t low = 0, high = s->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (strcmp(s->objects[middle]->path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct s3_object *s3_store_find(const struct s3_store *s, const char *path)
{
	size_t i = lower(s, path);
	return i < s->count && strcmp(s->objects[i]->path, path) == 0 ? s->objects[i] : NULL;
}

void s3_store_put(struct s3_store *s, const char *path, const char *file, const void *data, size_t size)
{
	struct s3_object *o = s3_store_find(s, path);
	if (!o) {
		if (s->count == s->capacity) {
			s->capacity = s->capacity ? 2 * s->capacity : 256;
			s->objects = realloc(s->objects, s->capacity * sizeof *s->objects);
		}
		size_t i = lower(s, path);
		memmove(s->objects + i + 1, s->objects + i, (s->count - i) * sizeof *s->objects);
		s->count++;
		o = s->objects[i] = calloc(1, sizeof *o);
		o->path = strdup(path);
	}
	free(o->data);
	o->data = NULL;
	o->file = file ? strdup(file) : NULL;
	if (!file) {
		o->data = malloc(size + 1);
		memcpy(o->data, data, size);
	}
	o->size = size;
	o->version++;
}

bool s3_store_has_bucket(const struct s3_store *s, const char *bucket)
{
	size_t n = strlen(bucket), i = lower(s, bucket);
	return i < s->count && strncmp(s->objects[i]->path, bucket, n) == 0 && s->objects[i]->path[n] == '/';
}

void s3_store_free(struct s3_store *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->objects[i]->path);
		free(s->objects[i]->file);
		free(s->objects[i]->data);
		free(s->objects[i]);
	}
	free(s->objects);
}

static struct s3_store *loading; /* global, because nftw passes no argument to its callback */
static size_t root_length;

static int visit(const char *file, const struct stat *st, int kind, struct FTW *where)
{
	(void)where;
	if (kind == FTW_F)
		s3_store_put(loading, file + root_length + 1, file, NULL, (size_t)st->st_size);
	return 0;
}

void s3_store_load(struct s3_store *s, const char *root)
{
	char *real = realpath(root, NULL);
	if (!real)
		return;
	loading = s;
	root_length = strlen(real);
	nftw(real, visit, 64, 0);
	free(real);
}

static void put_char(struct s3_text *t, char c)
{
	if (t->n + 2 > t->capacity) {
		t->capacity = 2 * (t->n + 64);
		t->s = realloc(t->s, t->capacity);
	}
	t->s[t->n++] = c;
	t->s[t->n] = 0;
}

/* Writes a key as XML text, or URL-encoded if the request asks for that. */
static void add_key(struct s3_text *out, const char *key, bool url)
{
	for (const unsigned char *k = (const unsigned char *)key; *k; k++)
		if (url && *k == ' ')
			s3_text_add(out, "+");
		else if (url && (*k < 33 || *k > 126 || strchr("%+&<>\"'?=#:;,@$!()[]{}|\\^`", *k)))
			s3_text_add(out, "%%%02X", *k);
		else if (*k == '&')
			s3_text_add(out, "&amp;");
		else if (*k == '<')
			s3_text_add(out, "&lt;");
		else
			put_char(out, (char)*k);
}

void s3_etag(const struct s3_object *o, char out[32])
{
	snprintf(out, 32, "%016llx-%u", (unsigned long long)o->size * 0x9E3779B97F4A7C15u, o->version);
}

/* Adds an entry at the page's end or, with `reverse`, before its other entries. */
static void add_entry(struct s3_text *page, const char *key, const struct s3_object *o, bool url, bool reverse)
{
	char etag[32];
	struct s3_text entry = {0}, before = *page;
	s3_text_add(&entry, o ? "<Contents><Key>" : "<CommonPrefixes><Prefix>");
	add_key(&entry, key, url);
	if (o)
		s3_etag(o, etag);
	if (o)
		s3_text_add(&entry,
			"</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;%s&quot;</ETag><Size>%zu</Size></Contents>",
			etag, o->size);
	else
		s3_text_add(&entry, "</Prefix></CommonPrefixes>");
	if (reverse) {
		*page = (struct s3_text){0};
		s3_text_add(page, "%s%s", entry.s, before.s ? before.s : "");
		free(before.s);
	} else {
		s3_text_add(page, "%s", entry.s);
	}
	free(entry.s);
}

void s3_store_list(const struct s3_store *s, const char *bucket, const char *query, const double *knobs, struct s3_text *out)
{
	const int page = (int)knobs[S3_PAGE];
	char prefix[4096], delimiter[16], token[4096], number[32], encoding[16], begin[8192], last_common[4096] = "";
	struct s3_text entries = {0};
	s3_query(query, "prefix", prefix, sizeof prefix);
	s3_query(query, "delimiter", delimiter, sizeof delimiter);
	bool url = s3_query(query, "encoding-type", encoding, sizeof encoding);
	int most = s3_query(query, "max-keys", number, sizeof number) ? atoi(number) : 1000;
	most = most > page ? page : most;
	if (!s3_query(query, "continuation-token", token, sizeof token) && knobs[S3_DEAF] == 0)
		s3_query(query, "start-after", token, sizeof token);
	size_t skip = strlen(bucket) + 1;
	snprintf(begin, sizeof begin, "%s/%s", bucket, strcmp(token, prefix) > 0 ? token : prefix);
	size_t i = lower(s, begin), n = 0;
	const char *last = "";
	for (; i < s->count && strncmp(s->objects[i]->path, bucket, skip - 1) == 0 && s->objects[i]->path[skip - 1] == '/'; i++) {
		const char *key = s->objects[i]->path + skip;
		if (strncmp(key, prefix, strlen(prefix)) != 0)
			break;
		const char *end = *delimiter ? strstr(key + strlen(prefix), delimiter) : NULL;
		size_t common = end ? (size_t)(end - key) + strlen(delimiter) : 0;
		if (strcmp(key, token) <= 0 || (common && strncmp(key, token, common) == 0) ||
			(common && strlen(last_common) == common && strncmp(key, last_common, common) == 0))
			continue;
		if ((int)n == most)
			break;
		n++;
		last = key;
		if (end) {
			snprintf(last_common, sizeof last_common, "%.*s", (int)common, key);
			last = last_common;
		}
		add_entry(&entries, last, end ? NULL : s->objects[i], url, knobs[S3_REVERSE] > 0);
	}
	bool more = (int)n == most && i < s->count && strncmp(s->objects[i]->path + skip, prefix, strlen(prefix)) == 0;
	s3_text_add(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">%s",
		entries.s ? entries.s : "");
	free(entries.s);
	if (more) {
		s3_text_add(out, "<NextContinuationToken>");
		add_key(out, last, false);
		s3_text_add(out, "</NextContinuationToken>");
	}
	s3_text_add(out, "%s<KeyCount>%zu</KeyCount><IsTruncated>%s</IsTruncated></ListBucketResult>",
		url ? "<EncodingType>url</EncodingType>" : "", n, more ? "true" : "false");
}
