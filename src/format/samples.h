/* SPDX-License-Identifier: Apache-2.0
 * Samples that are parts of archives: a table of the offset and length of each part. It takes 20 bytes for a part, and 16 bytes plus its name for a sample. */
#ifndef STK_FORMAT_SAMPLES_H
#define STK_FORMAT_SAMPLES_H

#include "base/url.h"
#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

struct stk_sample_part {
	int64_t offset, length; /* length 0: the sample lacks the part */
};

/* The table of samples. Does not change after it is filled: any thread may read it. */
struct stk_samples {
	const char **archives; /* paths or URIs */
	int32_t archive_count, parts_each;
	struct stk_sample_part *parts; /* parts_each entries for each sample */
	uint32_t *header_hashes;       /* [part]: hash of its header (stk__header_hash); 0: not known */
	struct stk_sample_place {
		uint64_t name; /* offset of the sample's name in `names`: a member's name, or "" */
		uint32_t archive;
	} * places;
	int64_t size, capacity;
	char *names;
	uint64_t names_size, names_capacity;
	char *text; /* the texts to which `archives` points */
	/* [archive]: size and version; only those of objects of a store are filled. */
	struct stk_samples_object {
		int64_t size; /* 0: not known, or a local file */
		uint64_t tag; /* hash of the object's ETag, from its index; 0: not known */
	} * objects;
};

STK_MUST_USE enum stk_status stk__samples_init(
	struct stk_samples *t, const char *const *archives, int32_t count, int32_t parts_each, struct stk_error *err);
void stk__samples_free(struct stk_samples *t);

/* Appends a sample with empty parts. The caller fills in the parts at *out before the next call, and sets the hashes of their headers in t->header_hashes.
 * STK_NO_MEMORY: memory is short. */
STK_MUST_USE enum stk_status stk__samples_add(
	struct stk_samples *t, int32_t archive, const char *name, size_t n, struct stk_sample_part **out, struct stk_error *err);
void stk__samples_drop_last(struct stk_samples *t);

/* Returns a hash of `count` samples from index `first` on: of their archives' file names, without folders, and of the offsets and lengths of their parts. */
uint64_t stk__samples_digest(const struct stk_samples *t, int64_t first, int64_t count, enum stk_digest_form form);

/* Writes "ARCHIVE:OFFSET:NAME", which is DALI's name of a sample. The offset is the smallest of the parts that are not empty, and is left out if all are
 * empty. Returns the length without the NUL; if that is at least `capacity`, the name was cut. */
size_t stk__samples_name(const struct stk_samples *t, int64_t id, char *out, size_t capacity);

#endif
