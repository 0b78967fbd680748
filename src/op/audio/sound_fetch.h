/* SPDX-License-Identifier: Apache-2.0
 * Finds the bytes of an object of a store that a window of its sound needs. A reader names them as parts: at first the head of a WAV, then the start of the
 * file if its header is longer, then the bytes of the window. It names the whole object at once if this is small or a local file, or if no window is wanted. */
#ifndef STK_OP_SOUND_FETCH_H
#define STK_OP_SOUND_FETCH_H

#include "op/audio/sound_decode.h"

/* The parts of a sample: the first bytes, or the whole object; more of its start; the window; the whole object, if the first bytes show that it is needed. */
enum { STK_SOUND_HEAD, STK_SOUND_START, STK_SOUND_SPAN, STK_SOUND_WHOLE, STK_SOUND_PARTS };

/* Facts about the objects of a data set. Zeroed at first. Any thread may use it. */
struct stk_sound_objects {
	bool remote;          /* some are objects of a store; otherwise all are local files */
	_Atomic int64_t mean; /* mean size in bytes of the objects that were read, in which later ones weigh more; 0: none was read */
};

/* Names the parts to fetch at first: the first bytes of an object of a store that is large and of which only a window is wanted, otherwise the whole object.
 * part: the number of the sample's object; path: its path or URI. known: bytes of the object; 0: not known, so the mean of the others is assumed. */
void stk__sound_parts(const struct stk_sound_objects *objects, const struct stk_sound_want *want, int64_t part, const char *path,
	int64_t known, struct stk_part out[STK_SOUND_PARTS]);

/* Names the parts to fetch after `bytes`, as struct stk_reader_def's `more` does. Also updates objects->mean. */
bool stk__sound_more(struct stk_sound_objects *objects, const struct stk_sound_want *want, int64_t part,
	const struct stk_bytes bytes[STK_SOUND_PARTS], struct stk_part out[STK_SOUND_PARTS]);

/* The bytes of a sample. Parts that were not fetched are read when they are needed: rarely, where the window of a FLAC file lies elsewhere than its size and
 * length suggest. */
struct stk_sound_parts {
	const struct stk_bytes *bytes;
	const struct stk_call *call;
	char path[4096];
	struct stk_media_source *source; /* opened for the first part that was not fetched */
	uint8_t *piece;
};

/* Returns the bytes of the call's sample. Reading them uses *p, which stk__sound_parts_end releases. */
struct stk_sound_bytes stk__sound_parts_begin(struct stk_sound_parts *p, const struct stk_call *call);
void stk__sound_parts_end(struct stk_sound_parts *p);

#endif
