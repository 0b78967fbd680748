/* SPDX-License-Identifier: Apache-2.0
 * Chooses which bytes of a sound file in an object store are fetched for a window of the sound. A reader fetches them as parts: first the head of a WAV,
 * then the start of the file if its header is longer, then the bytes of the window. The whole object is fetched at once if it is small or a local file, or
 * if no window is wanted. */
#ifndef STK_OP_SOUND_FETCH_H
#define STK_OP_SOUND_FETCH_H

#include "op/audio/sound_decode.h"

/* The parts of a sample. HEAD: the first bytes, or the whole object. START: more bytes from the object's start. SPAN: the bytes of the window. WHOLE: the whole
 * object, if the first bytes show that it is needed. */
enum { STK_SOUND_HEAD, STK_SOUND_START, STK_SOUND_SPAN, STK_SOUND_WHOLE, STK_SOUND_PARTS };

/* Facts about the objects of a data set. Must be zeroed at first. Any thread may use it. */
struct stk_sound_objects {
	bool remote;          /* true if at least one object is in a store; false if all are local files */
	_Atomic int64_t mean; /* running mean of the sizes in bytes of the objects that were read; 0: none was read */
};

/* Sets out[] to the parts to fetch first: only the first bytes if the object is in a store, is large, and a window of it is wanted; otherwise the whole object.
 * part: number of the sample's object; path: its path or URI; known: its size in bytes; 0: not known, so the mean or, without one, a large size is assumed. */
void stk__sound_parts(const struct stk_sound_objects *objects, const struct stk_sound_want *want, int64_t part, const char *path,
	int64_t known, struct stk_part out[STK_SOUND_PARTS]);

/* Implements `more` of struct stk_reader_def: sets out[] to the parts to fetch after `bytes`, and returns whether there are any. Also updates
 * objects->mean. */
bool stk__sound_more(struct stk_sound_objects *objects, const struct stk_sound_want *want, int64_t part,
	const struct stk_bytes bytes[STK_SOUND_PARTS], struct stk_part out[STK_SOUND_PARTS]);

/* Access to the bytes of a sample. Bytes that were not fetched are read when they are needed, which is rare: the window of a FLAC file may not be at the offset
 * that its size and length suggest. */
struct stk_sound_parts {
	const struct stk_bytes *bytes, *all; /* all: the part whose object the others belong to */
	const struct stk_call *call;
	char path[4096];
	struct stk_media_source *source; /* opened for the first part that was not fetched */
	uint8_t *piece;
};

/* Returns the bytes of the call's sample. Reading them uses *p, which stk__sound_parts_end releases. */
struct stk_sound_bytes stk__sound_parts_begin(struct stk_sound_parts *p, const struct stk_call *call);
void stk__sound_parts_end(struct stk_sound_parts *p);

#endif
