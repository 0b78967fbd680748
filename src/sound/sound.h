/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads sound files: first the header, then the samples of a window in time into the caller's memory.
 *
 * A frame is the samples of all channels at one instant. Windows are counted in frames from the start of the file. */
#ifndef STK_SOUND_SOUND_H
#define STK_SOUND_SOUND_H

#include "base/cancel.h"
#include "sound/pcm.h"
#include "stoker/status.h"

#include <stddef.h>

/* A source of a sound file's bytes. */
struct stk_sound_bytes {
	/* Sets *out to the n bytes from `at` on, which are inside the file and at most STK_SOUND_READ. They stay valid until the next call. */
	enum stk_status (*read)(void *user, uint64_t at, size_t n, const uint8_t **out, struct stk_error *err);
	void *user;
	uint64_t size;       /* size of the file in bytes */
	const uint8_t *data; /* the whole file, if it is in memory; otherwise NULL */
	bool costly; /* reads are requests to a store: stk__sound_peek makes few of them, and does not check that a FLAC file is as long as its header says */
};
enum { STK_SOUND_READ = 1 << 16 };

/* A file in memory; `data` must outlive the result. */
struct stk_sound_bytes stk__sound_memory(const uint8_t *data, size_t size);

/* FLAC only: facts from the metadata blocks and from the first block's header, by which windows are found. */
struct stk_sound_blocks {
	uint64_t seek_table; /* offset of the seek table in the file; undefined if seek_points is 0 */
	uint32_t seek_points;
	int32_t least, most; /* minimum and maximum number of frames of a block, as the header says; the last block may have fewer */
	uint64_t first;      /* number in the first block's header: above 0 in a part cut out of another file; 0 if the header is damaged */
	bool placed;         /* true if the header of a block says at which frame of the file the block begins */
};

/* Facts about a sound file from its header. */
struct stk_sound_info {
	const char *format; /* "wav", "flac"; from stk__stream_open also others, such as "ogg" */
	const char *coding; /* "pcm", "float", "alaw", "mulaw", "flac"; from stk__stream_open also others, such as "vorbis" */
	enum stk_pcm pcm;
	int32_t rate; /* frames per second, at least 1 */
	int32_t channels, bits;
	int64_t frames; /* number of frames in the file; -1: unknown (only from stk__stream_open) */
	/* If `frames` is -1: an estimate from the container's duration, which may be too high or too low; -1 if there is no estimate. */
	int64_t expected;
	int64_t missing;      /* if the file was opened as lenient: number of frames that the header states but that are not in the file */
	uint64_t begin;       /* WAV: offset of the first frame; FLAC: of the first block; others: 0 */
	double origin;        /* time of the first frame in seconds, on the clock that the file's video uses too; 0 for WAV and FLAC */
	uint32_t frame_bytes; /* WAV: bytes of one frame in the file; others: of one decoded frame */
	struct stk_sound_blocks blocks;
};

enum { STK_SOUND_MAX_CHANNELS = 1024 };

/* Reads the header of a WAV or FLAC file into *info. Decodes samples and allocates memory only to find the end of a FLAC file (flac.h says when). If the
 * file is shorter than its header says, returns STK_CORRUPT, or with `lenient` sets info->missing.
 * STK_CORRUPT: also if the file is damaged or is not a sound. STK_UNSUPPORTED: a sound of a kind that is not decoded; the message says how to convert it.
 * STK_LIMIT: more than STK_SOUND_MAX_CHANNELS channels, or more than 4096 sections or chunks before the samples. */
STK_MUST_USE enum stk_status stk__sound_peek(
	const struct stk_sound_bytes *bytes, bool lenient, struct stk_sound_info *info, struct stk_error *err);

struct stk_sound_window {
	int64_t first, count;            /* number of the first frame, and number of frames; the window must be inside the file */
	enum stk_dtype dtype;            /* STK_FLOAT, STK_INT16 or STK_INT32 */
	bool mono;                       /* store the mean of the channels instead of the channels */
	void *to;                        /* memory for `count` frames of all channels, interleaved, or of one channel with `mono` */
	const struct stk_cancel *cancel; /* if it is set, decoding ends with STK_CANCELLED; nullable */
	unsigned cpu;                    /* features of the processor that loops may use (base/cpu.h) */
	bool lenient;                    /* true: damaged blocks of a FLAC file become zeros; false: they fail with STK_CORRUPT */
};

/* Finds which bytes of the file, from *from to *to - 1, are needed to decode `count` frames from frame `first` on, besides the header. They are exact for
 * WAV. For FLAC they follow from the seek table, which this function reads; without a seek table they are estimated from the file's size, with `margin`
 * bytes added on both sides. On failure, *from and *to are not set. */
STK_MUST_USE enum stk_status stk__sound_span(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info, int64_t first,
	int64_t count, uint64_t margin, uint64_t *from, uint64_t *to);

/* Decodes the window into window->to. info: from stk__sound_peek for the same bytes. STK_CORRUPT: a FLAC file is damaged, and the window is not lenient.
 * STK_CANCELLED, STK_NO_MEMORY, or the failure of reading bytes. */
STK_MUST_USE enum stk_status stk__sound_read(const struct stk_sound_bytes *bytes, const struct stk_sound_info *info,
	const struct stk_sound_window *window, struct stk_error *err);

/* Returns whether an ending of file names, like "wav", belongs to a format that this build decodes. Ignores case. */
bool stk__sound_ending(const char *ending);

/* ---- wav.c ---- */
bool stk__wav_probe(const uint8_t *data, size_t size);
STK_MUST_USE enum stk_status stk__wav_peek(
	const struct stk_sound_bytes *bytes, bool lenient, struct stk_sound_info *info, struct stk_error *err);

#endif
