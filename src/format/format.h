/* SPDX-License-Identifier: Apache-2.0
 *
 * Data sets: a list of files with labels, from a folder tree, a bucket, an index, a text or the caller; and CIFAR's binary files, which stay in memory. */
#ifndef STK_FORMAT_FORMAT_H
#define STK_FORMAT_FORMAT_H

#include "base/url.h"
#include "stoker/status.h"
#include "storage/storage.h"

#include <stdbool.h>
#include <stddef.h>

/* A list of files and labels that takes little memory: names are in one block, and each folder is stored once. Does not change after creation: any thread
 * may read it. */
struct stk_file_list;
struct stk_list_object; /* format/list.h */

/* file_list or files determine the files; both together are an error. Without them, file_root does. */
struct stk_file_list_options {
	const struct stk_access *access; /* may be NULL */
	/* folder or URI of class folders, or an index of them; with file_list or files: the folder to which their paths are relative; NULL: no folder */
	const char *file_root;
	/* path of a text with "path label" on each line, or of an index; NULL: no list. Paths in it are relative to file_root or, if that is NULL, to the
	 * folder of the list */
	const char *file_list;
	const char *const *files; /* paths given by the caller, or NULL */
	const int64_t *labels;    /* [file of `files`]: label, which must fit in an int32 and may be negative; NULL: the file's index */
	size_t file_count;
	const char *const *file_filters; /* glob patterns of files' names: * ? [a-z] [!a-z] \; NULL: DALI's default list of image endings */
	size_t filter_count;
	const char *const *dir_filters; /* glob patterns of class folders; a folder that matches none is left out; NULL: all match */
	size_t dir_filter_count;
	bool case_sensitive; /* true if file_filters and dir_filters distinguish capitals from small letters */
	bool nested; /* class folders are read with all their subfolders, in the order of Python's sorted(os.walk()), and none may be empty */
	bool everything; /* with nested: files of any name, and empty class folders too, for an index */
};

/* Creates a list. Labels follow the lexicographic order (bytes) of the class folders, including empty ones. Files are sorted inside each folder; subfolders
 * are read only with `nested`; files with hidden names count; links are followed (a link to a missing file stays in the list: reading it makes that sample
 * fail). Regular files are not stat'ed. Error messages say what was found instead ("data holds 5 images but no class folders"). */
STK_MUST_USE enum stk_status stk__file_list_create(
	const struct stk_file_list_options *o, struct stk_file_list **out, struct stk_error *err);
void stk__file_list_destroy(struct stk_file_list *list);
int64_t stk__file_list_size(const struct stk_file_list *list);
int32_t stk__file_list_label(const struct stk_file_list *list, int64_t i);
/* Writes the path of file i, NUL-terminated. Returns its length without the NUL; if that is >= capacity, the path was cut. */
size_t stk__file_list_path(const struct stk_file_list *list, int64_t i, char *path, size_t capacity);
/* Returns the size of file i and a hash of its ETag, as far as the list has them. */
struct stk_list_object stk__file_list_object(const struct stk_file_list *list, int64_t i);
/* Returns the number of classes; 0 if the labels come from the caller or from a text. */
int64_t stk__file_list_classes(const struct stk_file_list *list);
/* Returns the name of the class with this label; NULL if there is none. */
const char *stk__file_list_class_name(const struct stk_file_list *list, int64_t label);
/* Returns the number of files and folders of the tree that are not samples. *text describes them, as in "12 files that are no images: .txt (12)". */
int64_t stk__file_list_skipped(const struct stk_file_list *list, const char **text);
/* Returns a 64-bit fingerprint of names and labels, in order, by which a resumed run checks that it reads the same data. In its present form, it depends neither
 * on the root, nor on the folder that starts all names if these are absolute, so that it stays the same when the data are moved. */
uint64_t stk__file_list_fingerprint(const struct stk_file_list *list, enum stk_digest_form form);
/* Returns a fingerprint of `count` files from index `first` on. Parts of two lists with the same fingerprint have, almost surely, the same files and labels. */
uint64_t stk__file_list_digest(const struct stk_file_list *list, int64_t first, int64_t count, enum stk_digest_form form);

/* Returns whether a name matches a glob pattern: * ? [a-z] [!a-z] [^a-z] and \ before a character. Compares bytes; without case_sensitive, capitals of ASCII
 * are equal to small letters. A star also matches slashes. */
bool stk__glob_match(const char *glob, const char *name, bool case_sensitive);

/* CIFAR-10 and CIFAR-100 binary files: all records in memory. Files contain planes, which are converted to pixels (HWC, 32x32x3 uint8). */
struct stk_cifar;
enum stk_cifar_split { STK_CIFAR_TRAIN, STK_CIFAR_TEST };
/* Reads all records of a split. folder: contains data_batch_1.bin etc. or train.bin and test.bin, directly or in the subfolder that the data set's archive
 * unpacks. The caller closes *out. */
STK_MUST_USE enum stk_status stk__cifar_open(const char *folder, enum stk_cifar_split split, struct stk_cifar **out, struct stk_error *err);
void stk__cifar_close(struct stk_cifar *c);
int64_t stk__cifar_size(const struct stk_cifar *c);
/* Returns the 3072 bytes of image i (HWC), which are followed by 64 readable bytes. */
const uint8_t *stk__cifar_pixels(const struct stk_cifar *c, int64_t i);
int32_t stk__cifar_label(const struct stk_cifar *c, int64_t i);        /* returns the label of image i; for CIFAR-100 the fine label */
int32_t stk__cifar_coarse_label(const struct stk_cifar *c, int64_t i); /* returns the coarse label of image i; -1 for CIFAR-10 */
uint64_t stk__cifar_fingerprint(const struct stk_cifar *c);

#endif
