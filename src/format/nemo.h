/* SPDX-License-Identifier: Apache-2.0
 * Manifests of NVIDIA NeMo: text files with one JSON object for each utterance, {"audio_filepath": ..., "offset": ..., "duration": ..., "text": ...}. */
#ifndef STK_FORMAT_NEMO_H
#define STK_FORMAT_NEMO_H

#include "format/names.h"

struct stk_nemo_entry {
	double offset, duration; /* seconds; below 0: not given */
	uint64_t text;           /* offset of the entry's text in stk_nemo.text */
	uint32_t text_size;
	int64_t index; /* index among the entries of its manifest that are kept */
};

/* The entries of all manifests, in their order. Immutable after it is filled: any thread. */
struct stk_nemo {
	struct stk_nemo_entry *entries;
	size_t count, capacity;
	struct stk_names paths; /* audio_filepath of each entry; call stk__names_settle after the last manifest */
	char *text;
	uint64_t text_size, text_capacity;
};

/* Entries shorter or longer than this are left out, if the limit is above 0. An entry without duration counts as -1 s, as in DALI. */
struct stk_nemo_limits {
	double min_duration, max_duration;
};

/* Appends the entries of a manifest. path: for messages. STK_CORRUPT: the message names the file, the byte and the line. */
STK_MUST_USE enum stk_status stk__nemo_parse(
	struct stk_nemo *n, const struct stk_nemo_limits *limits, const char *text, size_t size, const char *path, struct stk_error *err);
void stk__nemo_free(struct stk_nemo *n);

#endif
