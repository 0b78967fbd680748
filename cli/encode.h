/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes pictures to a video with the ffmpeg program, which runs as a child process and reads pixels from a pipe. */
#ifndef STOKER_CLI_ENCODE_H
#define STOKER_CLI_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct encoder_settings {
	const char *codec; /* one of encoder_codecs */
	int64_t gop;       /* number of frames from one key frame to the next */
	int64_t quality;   /* the codec's constant rate factor; -1: the codec's default, which encoder_quality returns */
	bool lossless;     /* true: decoding gives exactly the encoded pixels; only for h264 and hevc */
	int64_t threads;   /* number of threads; 0: the encoder decides */
	double rate;       /* frames per second */
};

/* Names that --codec takes, separated by blanks. */
extern const char encoder_codecs[];
bool encoder_knows(const char *codec);
int64_t encoder_quality(const struct encoder_settings *s); /* returns s->quality, or the codec's default if that is -1 */

/* Returns whether a program of this name is on the PATH. */
bool program_exists(const char *name);

struct encoder_error {
	char text[800];
};

struct encoder;
/* Starts ffmpeg, which writes an MP4 file to the descriptor `out`; the caller closes `out`. Returns NULL on failure. */
struct encoder *encoder_start(const struct encoder_settings *s, int32_t width, int32_t height, int out, struct encoder_error *err);
/* Adds a picture: width x height pixels of RGB, 3 bytes each. Returns false if ffmpeg has ended, if writing fails, or if the user has interrupted the
 * command. */
bool encoder_add(struct encoder *e, const void *pixels, struct encoder_error *err);
/* Ends the video, waits until ffmpeg has written the file, and frees the encoder. Returns false if ffmpeg failed or the user has interrupted the command. */
bool encoder_finish(struct encoder *e, struct encoder_error *err);
/* Ends ffmpeg at once and frees the encoder. Accepts NULL. */
void encoder_stop(struct encoder *e);

/* Calls catch_interrupts, so that the command can remove a half-written file, and makes a closed pipe an error instead of a signal. */
void encoder_catch_signals(void);

#endif
