/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of stk_file_list, for the files that fill one. While it is filled it has one owner. */
#ifndef STK_FORMAT_LIST_H
#define STK_FORMAT_LIST_H

#include "format/format.h"

/* Files first .. (next folder's first) - 1 lie in it. */
struct stk_list_folder {
	int64_t first;
	uint64_t name; /* offset into names: the class folder's name */
};

struct stk_file_list {
	char *root;  /* put before each path with '/', or "" */
	char *names; /* each with its NUL, and a struct stk_list_object behind a file's if `sized` */
	uint64_t names_size, names_capacity;
	uint64_t *files; /* offsets into names */
	int64_t size, capacity;
	int32_t *labels;                 /* of files; NULL: the folder's number */
	struct stk_list_folder *folders; /* none where labels are the caller's */
	int64_t folder_count, folder_capacity;
	uint64_t fingerprint;
	bool sized;             /* what is known of files stands behind their names */
	int64_t skipped;        /* files and folders of the tree that were met and not taken */
	char skipped_text[400]; /* what they are, in words */
};

STK_MUST_USE enum stk_status stk__list_add_file(struct stk_file_list *l, const char *name, size_t n, struct stk_error *err);
/* What a listing says of a file. tag: a hash of its ETag; 0: there is none. */
struct stk_list_object {
	int64_t size;
	uint64_t tag;
};
/* To a list that is sized. */
STK_MUST_USE enum stk_status stk__list_add_sized(
	struct stk_file_list *l, const char *name, size_t n, struct stk_list_object object, struct stk_error *err);
struct stk_list_object stk__list_object(const struct stk_file_list *l, int64_t i);
/* Appends a file with a label of its own. */
STK_MUST_USE enum stk_status stk__list_add_labelled(
	struct stk_file_list *l, const char *name, size_t n, int32_t label, struct stk_error *err);
STK_MUST_USE enum stk_status stk__list_add_folder(struct stk_file_list *l, const char *name, struct stk_error *err);

/* Of a list that is filled. */
uint64_t stk__list_fingerprint(const struct stk_file_list *l);

/* Fill a list whose root is set. */
STK_MUST_USE enum stk_status stk__list_read_tree(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err);
/* The same of a root that is s3://BUCKET/PREFIX. */
STK_MUST_USE enum stk_status stk__list_read_bucket(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err);
/* text: `size` bytes, not modified; path names it in errors. */
STK_MUST_USE enum stk_status stk__list_parse(
	struct stk_file_list *l, const char *text, size_t size, const char *path, struct stk_error *err);

/* An index (stoker/index.h) of n bytes; path names it in errors. The root is the index's, unless a file_list has one of its own. */
STK_MUST_USE enum stk_status stk__index_parse(struct stk_file_list *l, const struct stk_file_list_options *o, const uint8_t *data, size_t n,
	const char *path, struct stk_error *err);
bool stk__is_index(const void *data, size_t n);
bool stk__is_index_file(const char *path);

bool stk__is_uri(const char *path); /* "scheme://..." */
/* For messages about a path that is not there: how a URI is written, if it may have been meant as one ("S3://b", "s3:/b"); else "". */
const char *stk__uri_hint(const char *path);
/* Bytes of an object by one request, waited for, readable 64 past the end; free with stk__free. length -1: all of it, STK_LIMIT above `limit`. object: what
 * the source says of it, nullable. access: who may end the wait, on the thread that makes a pipeline; else NULL. */
struct stk_object;
STK_MUST_USE enum stk_status stk__read_object(const struct stk_access *access, struct stk_io *io, const char *uri, int64_t offset,
	int64_t length, size_t limit, uint8_t **out, size_t *size, struct stk_object *object, struct stk_error *err);

/* A whole file's bytes, of a path or a URI, readable 64 past the end; free with stk__free. STK_LIMIT above `limit`. */
STK_MUST_USE enum stk_status stk__read_whole(const char *path, size_t limit, uint8_t **out, size_t *size, struct stk_error *err);
/* The same by a pipeline's storage, while that pipeline is made. access: nullable. */
STK_MUST_USE enum stk_status stk__access_read(
	const struct stk_access *access, const char *path, size_t limit, uint8_t **out, size_t *size, struct stk_error *err);
/* Writes a file, whole or not at all: under another name first. what: "index", in messages. */
STK_MUST_USE enum stk_status stk__write_whole(const char *path, const void *data, size_t n, const char *what, struct stk_error *err);
/* 64 bits of n bytes, chained: mixes 8 bytes at a time (SplitMix64's finaliser). */
uint64_t stk__hash_bytes(uint64_t h, const void *data, size_t n);

#endif
