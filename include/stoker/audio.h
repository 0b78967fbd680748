/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads sound files without a pipeline: the header, and the samples of any window in time.
 *
 * A frame is the samples of all channels at one instant; positions are counted in frames. Stoker itself decodes FLAC and WAV (RIFF, RF64 and
 * BW64): PCM of 8 to 32 bits, float32, float64, A-law and mu-law. Vorbis, Opus, MP3, AAC and others are decoded by FFmpeg's libraries, which are loaded when
 * the first such file is opened. The silence that encoders add at both ends of a sound (delay and padding) is left out. */
#ifndef STOKER_AUDIO_H
#define STOKER_AUDIO_H

#include "stoker/storage.h"
#include "stoker/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The contents of a sound file's header. */
struct stk_audio_info {
	size_t size; /* sizeof(struct stk_audio_info), set by the caller */
	const char *
		format; /* name of the container, a constant: "wav", "flac", "ogg", "mp3", "mp4", "matroska" and others; "media" if it has no name here */
	const char *
		coding; /* name of the coding, a constant: "pcm", "float", "alaw", "mulaw", "flac", "vorbis", "opus", "mp3", "aac" and others, or "other" */
	int32_t rate;     /* frames per second, at least 1 */
	int32_t channels; /* number of channels, 1 to 1024 */
	int32_t bits;     /* size in bits of a stored sample, or of a decoded one if the coding does not store samples of fixed size */
	int64_t frames;   /* number of frames in the file */
	int64_t missing;  /* number of frames that a file lacks because it was cut off; above 0 only if `lenient` is set */
	double origin;    /* time of the first frame in seconds, on the clock that the file's video uses too; 0 for WAV and FLAC */
};

/* A request to open a sound file. Zero-initialise it. `lenient` means the same as stk_pipeline_config.lenient. */
struct stk_audio_request {
	size_t size;      /* sizeof(struct stk_audio_request) */
	const char *path; /* path or URI of the file; NULL: the file's bytes are in `data` */
	const void *data; /* the file's bytes, which must stay valid until stk_audio_close */
	size_t bytes;
	bool lenient; /* true: a file that was cut off is decoded up to the point where it ends, and damaged blocks of FLAC are decoded as
		       * silence; false: both are errors */
	/* Called about twenty times per second, on the same thread, while a call waits for an object of a store or decodes. If it returns true, the call
	 * returns STK_CANCELLED. May be NULL. */
	bool (*interrupted)(void *user);
	void *interrupted_user;
	struct stk_storage *storage; /* settings for URIs; NULL: those of the environment */
};

/* An open sound file. One thread at a time may use it. */
struct stk_audio;

/* Opens a file and reads its header. Of WAV and FLAC files, also of those in a store, only the header and the requested windows are read, so that the memory in
 * use does not depend on the file's size. Objects in other formats, and objects whose size the store does not report, are fetched as a whole. A file in another
 * format is read here, in order to count its frames; other codings than FLAC are decoded for that, and FLAC if the container is not Ogg or MP4. The decoded
 * samples are kept for stk_audio_read if they take at most 128 MiB. STK_NOT_FOUND, STK_IO: the file cannot be read. STK_CORRUPT: the file is damaged, cut off, or not a sound. STK_UNSUPPORTED: Stoker does not
 * decode this kind of sound; the message says how to convert it. STK_INVALID: the request is invalid. STK_CANCELLED: `interrupted` returned true. STK_LIMIT,
 * STK_NO_MEMORY. *out is NULL after an error. */
STK_API STK_MUST_USE enum stk_status stk_audio_open(
	const struct stk_audio_request *request, struct stk_audio **out, struct stk_audio_info *info, struct stk_error *err);

/* Decodes `count` frames from frame `first` on. dtype: STK_FLOAT (integers are divided by 2^(bits - 1)), STK_INT16 or STK_INT32 (the most
 * significant bits; floats are scaled, rounded and saturated). mono: writes the mean of the channels. `to` gets count x channels samples,
 * interleaved, or count samples with `mono`; `bytes` is their size. STK_INVALID: the window is outside of the file, or another argument is
 * wrong. STK_IO, STK_CORRUPT: the file cannot be read, is damaged, or has changed since it was opened. STK_CANCELLED, STK_NO_MEMORY. */
STK_API STK_MUST_USE enum stk_status stk_audio_read(
	struct stk_audio *a, int64_t first, int64_t count, enum stk_dtype dtype, bool mono, void *to, size_t bytes, struct stk_error *err);

/* Closes a sound file and frees its memory. Accepts NULL. */
STK_API void stk_audio_close(struct stk_audio *a);

/* Returns whether a file's name has an ending of a sound format that this build decodes ("a.wav"), in upper or lower case. */
STK_API bool stk_audio_named(const char *name);

#ifdef __cplusplus
}
#endif
#endif
