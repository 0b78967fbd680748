/* SPDX-License-Identifier: Apache-2.0
 * Manifests of NVIDIA NeMo: text files with one JSON object for each utterance, {"audio_filepath": ..., "offset": ..., "duration": ..., "text": ...}. */
#ifndef STK_FORMAT_NEMO_H
#define STK_FORMAT_NEMO_H

#include "format/names.h"

struct stk_nemo_entry {
	double offset, duration; /* in seconds; below 0: not given */
	uint64_t text;           /* offset of the entry's text in stk_nemo.text */
	uint32_t text_size;
	int64_t index; /* index among the entries of its manifest that are not left out */
};

/* The entries of all manifests, in their order. Does not change after it is filled: any thread may read it. */
struct stk_nemo {
	struct stk_nemo_entry *entries;
	size_t count, capacity;
	struct stk_names paths; /* audio_filepath of each entry; after the last manifest, call stk__names_settle */
	char *text;
	uint64_t text_size, text_capacity;
};

/* Limits of durations in seconds; 0: no limit. Entries outside of them are left out. An entry without duration counts as -1 s, as in DALI. */
struct stk_nemo_limits {
	double min_duration, max_duration;
};

/* Appends the entries of a manifest. path: name of the manifest, for messages. STK_CORRUPT: the message gives the file, the offset and the line. */
STK_MUST_USE enum stk_status stk__nemo_parse(
	struct stk_nemo *n, const struct stk_nemo_limits *limits, const char *text, size_t size, const char *path, struct stk_error *err);
void stk__nemo_free(struct stk_nemo *n);

#endif
