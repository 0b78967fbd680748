/* SPDX-License-Identifier: Apache-2.0
 * Packs files into tars in two steps: a plan assigns files to tars (pack_plan.c), then each tar is written (pack_write.c). */
#ifndef STK_FORMAT_PACK_H
#define STK_FORMAT_PACK_H

#include "format/list.h"
#include "stoker/pack.h"

#define STK_PACK_PLAN "packing.txt"    /* file that describes the data set and the options of the tars, for later runs */
#define STK_PACK_CLASSES "classes.txt" /* file of the class names, which is written after the last tar */
/* File with a line for each tar: the `sources` of its struct stk_pack_shard in 16 hexadecimal digits, or zeros if the tar is not complete. */
#define STK_PACK_SOURCES "packing.sources"

/* A file in a tar. */
struct stk_pack_member {
	int64_t file; /* index of the file in the list; -1: the member is the sample's label, which comes from no file */
	int64_t size;
	uint64_t source; /* hash of what identifies the state of the file; 0 for a label */
	int32_t label;
	uint64_t name; /* offset of the member's name in the plan's names */
};

struct stk_pack_shard {
	int64_t first, count; /* index of the tar's first member, and number of its members */
	int64_t bytes;        /* size of the tar in bytes */
	uint64_t sources;     /* hash of what identifies the state of its files: times and size; for objects, the hash of the ETag */
};

struct stk_pack_plan {
	struct stk_file_list *list;
	struct stk_pack_member *members;
	int64_t count, capacity;
	struct stk_pack_shard *shards;
	int64_t shard_count, shard_capacity;
	char *names;
	uint64_t names_size, names_capacity;
	/* samples: number of samples; files: number of the list's files that are members, where a file that belongs to several samples counts once;
	 * left_out: number of the other files of the list */
	int64_t samples, files, left_out;
	uint64_t digest; /* hash of the names, sizes and labels of the members, and of their division into tars */
};

/* Makes the plan. Reads the size of each local file. The caller frees *out with stk__pack_plan_free. */
STK_MUST_USE enum stk_status stk__pack_plan(const struct stk_pack_options *o, struct stk_pack_plan *out, struct stk_error *err);
void stk__pack_plan_free(struct stk_pack_plan *p);

/* Returns whether stk_pack has begun but not finished in the folder of this tar, so that tars may be missing there. If so, writes a notice about it to
 * `text`. */
bool stk__pack_is_unfinished(const char *tar, char text[400]);

/* Returns the size of the pax record for a name that is too long for a header; 0 if the name fits. */
enum { STK_PACK_SHORT = 100 };
int64_t stk__pack_record_bytes(const char *name);
/* Returns the number of bytes of a tar that a member takes, including its headers and padding. size: size of its file. */
int64_t stk__pack_member_bytes(const char *name, int64_t size);

/* Writes one tar, under another name until it is complete. Adds 1 to *packed for each file that was written. Ends with STK_CANCELLED after another thread
 * has set *stop. io: reads files that are objects. */
struct stk_io;
STK_MUST_USE enum stk_status stk__pack_write(const struct stk_pack_plan *p, int64_t shard, struct stk_io *io, const char *path,
	_Atomic int64_t *packed, const _Atomic bool *stop, struct stk_error *err);

#endif
