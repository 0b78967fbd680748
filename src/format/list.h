/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of stk_file_list, for the code that fills a list. Only one thread may use a list while it is filled. */
#ifndef STK_FORMAT_LIST_H
#define STK_FORMAT_LIST_H

#include "format/format.h"

/* A folder of the list. Its files are those from index `first` up to the `first` of the next folder. */
struct stk_list_folder {
	int64_t first;
	uint64_t name; /* offset of the class folder's name in `names` */
};

struct stk_file_list {
	char *root; /* folder that precedes each path that is neither absolute nor a URI, with a '/' in between; or "" */
	/* names of files and class folders, each NUL-terminated; if `sized`, a struct stk_list_object follows each file's name */
	char *names;
	uint64_t names_size, names_capacity;
	uint64_t *files; /* [file]: offset of the file's name in `names` */
	int64_t size, capacity;
	int32_t *labels;                 /* [file]: label; NULL: the label is the folder's number */
	struct stk_list_folder *folders; /* class folders; none if the caller gives the labels */
	int64_t folder_count, folder_capacity;
	/* for each form of digests: length of the folder with which all names begin, and which digests leave out; 0 if a name is relative */
	size_t root_length[STK_DIGEST_FORMS];
	uint64_t fingerprint; /* in its present form */
	bool sized;           /* true if sizes and ETags of files follow their names */
	int64_t skipped;      /* number of files and folders of the tree that were found but not used */
	char skipped_text[400];
};

STK_MUST_USE enum stk_status stk__list_add_file(struct stk_file_list *l, const char *name, size_t n, struct stk_error *err);
/* Properties of a file from a listing. `tag` is a hash of the file's ETag; 0: the ETag is not known. */
struct stk_list_object {
	int64_t size;
	uint64_t tag;
};
/* Appends a file with its size and ETag. Call it only for a list whose `sized` is set. */
STK_MUST_USE enum stk_status stk__list_add_sized(
	struct stk_file_list *l, const char *name, size_t n, struct stk_list_object object, struct stk_error *err);
struct stk_list_object stk__list_object(const struct stk_file_list *l, int64_t i);
/* Appends a file with its own label. */
STK_MUST_USE enum stk_status stk__list_add_labelled(
	struct stk_file_list *l, const char *name, size_t n, int32_t label, struct stk_error *err);
STK_MUST_USE enum stk_status stk__list_add_folder(struct stk_file_list *l, const char *name, struct stk_error *err);

/* Computes the list's fingerprint. Call it after the last file was added. */
void stk__list_make_fingerprint(struct stk_file_list *l);

/* Fills a list, whose root is set, from a local tree. */
STK_MUST_USE enum stk_status stk__list_read_tree(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err);
/* Fills a list, whose root is SCHEME://BUCKET/PREFIX, from that bucket. */
STK_MUST_USE enum stk_status stk__list_read_bucket(struct stk_file_list *l, const struct stk_file_list_options *o, struct stk_error *err);
/* Parses a list in text form: `size` bytes at `text`, which are not modified. `path` is the list's name in messages. */
STK_MUST_USE enum stk_status stk__list_parse(
	struct stk_file_list *l, const char *text, size_t size, const char *path, struct stk_error *err);

/* Parses an index (stoker/index.h) of n bytes. `path` is its name in messages. The list gets the root that is stored in the index, unless the options give
 * both file_root and file_list. */
STK_MUST_USE enum stk_status stk__index_parse(struct stk_file_list *l, const struct stk_file_list_options *o, const uint8_t *data, size_t n,
	const char *path, struct stk_error *err);
bool stk__is_index(const void *data, size_t n);
bool stk__is_index_file(const char *path);

bool stk__is_uri(const char *path); /* returns whether the path has the form "scheme://..." */
/* Reads bytes of an object by one request and waits for them; 64 bytes after the end are readable. Free *out with stk__free. length -1: to the object's end.
 * limit: maximum number of bytes, above which the result is STK_LIMIT; 0: none. object: filled with the source's data about the object; may be NULL.
 * access: lets the user interrupt the wait on the thread that makes a pipeline; NULL on other threads. */
struct stk_object;
STK_MUST_USE enum stk_status stk__read_object(const struct stk_access *access, struct stk_io *io, const char *uri, int64_t offset,
	int64_t length, size_t limit, uint8_t **out, size_t *size, struct stk_object *object, struct stk_error *err);

/* Looks up the size of an object in a listing, for sources that do not report it with the bytes. *size is -1 if the object cannot be listed. */
STK_MUST_USE enum stk_status stk__listed_size(
	const struct stk_access *access, struct stk_io *io, const char *path, int64_t *size, struct stk_error *err);

/* Reads a whole file, by path or URI. Free *out with stk__free; 64 bytes after the end are readable. STK_LIMIT: the file has more than `limit` bytes. */
STK_MUST_USE enum stk_status stk__read_whole(const char *path, size_t limit, uint8_t **out, size_t *size, struct stk_error *err);
/* Like stk__read_whole, but reads objects with the storage of the pipeline that is being made. With `access` NULL, does the same as stk__read_whole. */
STK_MUST_USE enum stk_status stk__access_read(
	const struct stk_access *access, const char *path, size_t limit, uint8_t **out, size_t *size, struct stk_error *err);
/* Writes a file completely or not at all: writes to another name first, then renames the file to `path`. what: a noun for messages, such as "index". */
STK_MUST_USE enum stk_status stk__write_whole(const char *path, const void *data, size_t n, const char *what, struct stk_error *err);
/* Returns a 64-bit hash of the hash h and n further bytes. Mixes 8 bytes at a time (SplitMix64's finaliser). */
uint64_t stk__hash_bytes(uint64_t h, const void *data, size_t n);
/* Returns a hash of the hash h and the name of an archive, without its folder. */
uint64_t stk__hash_archive_name(uint64_t h, const char *path, enum stk_digest_form form);

#endif
