/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads FFmpeg's libraries at run time, so that a process that opens no video does not load them. Only versions whose headers were available to this build
 * are loaded, since their structs change from version to version. A wheel may contain its own libraries next to libstoker, under names that no other part of
 * the process uses; otherwise the system's libraries are used. */
#ifndef STK_MEDIA_FFMPEG_H
#define STK_MEDIA_FFMPEG_H

#include "stoker/status.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/pixdesc.h>

/* The functions of FFmpeg that Stoker calls, by library: name, result, parameters. */
#define STK_AVUTIL_FUNCTIONS(X)                                                                                                            \
	X(av_malloc, void *, (size_t size))                                                                                                \
	X(av_free, void, (void *p))                                                                                                        \
	X(av_strerror, int, (int code, char *text, size_t size))                                                                           \
	X(av_version_info, const char *, (void))                                                                                           \
	X(av_log_get_level, int, (void))                                                                                                   \
	X(av_log_set_level, void, (int level))                                                                                             \
	X(av_frame_alloc, AVFrame *, (void))                                                                                               \
	X(av_frame_free, void, (AVFrame * *frame))                                                                                         \
	X(av_frame_unref, void, (AVFrame * frame))                                                                                         \
	X(av_pix_fmt_desc_get, const AVPixFmtDescriptor *, (enum AVPixelFormat format))

#define STK_AVCODEC_FUNCTIONS(X)                                                                                                           \
	X(avcodec_version, unsigned, (void))                                                                                               \
	X(avcodec_get_name, const char *, (enum AVCodecID id))                                                                             \
	X(avcodec_find_decoder, const AVCodec *, (enum AVCodecID id))                                                                      \
	X(avcodec_alloc_context3, AVCodecContext *, (const AVCodec *codec))                                                                \
	X(avcodec_free_context, void, (AVCodecContext * *context))                                                                         \
	X(avcodec_open2, int, (AVCodecContext * context, const AVCodec *codec, AVDictionary **options))                                    \
	X(avcodec_parameters_alloc, AVCodecParameters *, (void))                                                                           \
	X(avcodec_parameters_copy, int, (AVCodecParameters * to, const AVCodecParameters *from))                                           \
	X(avcodec_parameters_free, void, (AVCodecParameters * *parameters))                                                                \
	X(avcodec_parameters_to_context, int, (AVCodecContext * context, const AVCodecParameters *from))                                   \
	X(avcodec_send_packet, int, (AVCodecContext * context, const AVPacket *packet))                                                    \
	X(avcodec_receive_frame, int, (AVCodecContext * context, AVFrame * frame))                                                         \
	X(avcodec_flush_buffers, void, (AVCodecContext * context))                                                                         \
	X(av_packet_alloc, AVPacket *, (void))                                                                                             \
	X(av_packet_free, void, (AVPacket * *packet))                                                                                      \
	X(av_packet_unref, void, (AVPacket * packet))                                                                                      \
	X(av_parser_init, AVCodecParserContext *, (int id))                                                                                \
	X(av_parser_parse2, int,                                                                                                           \
		(AVCodecParserContext * parser, AVCodecContext * context, uint8_t * *out, int *out_size, const uint8_t *in, int in_size,   \
			int64_t pts, int64_t dts, int64_t position))                                                                       \
	X(av_parser_close, void, (AVCodecParserContext * parser))

/* From FFmpeg 6.1 on, a stream's side data is in its codec parameters, and av_stream_get_side_data finds none if a file has only been opened. */
#if LIBAVCODEC_VERSION_INT >= (60 << 16 | 30 << 8 | 100)
#define STK_SIDE_DATA_IN_PARAMETERS 1
#define STK_OLD_SIDE_DATA(X)
#else
#define STK_SIDE_DATA_IN_PARAMETERS 0
#define STK_OLD_SIDE_DATA(X) X(av_stream_get_side_data, uint8_t *, (const AVStream *stream, enum AVPacketSideDataType type, size_t *size))
#endif

#define STK_AVFORMAT_FUNCTIONS(X)                                                                                                          \
	X(avformat_version, unsigned, (void))                                                                                              \
	X(avformat_alloc_context, AVFormatContext *, (void))                                                                               \
	X(avformat_free_context, void, (AVFormatContext * format))                                                                         \
	X(avformat_open_input, int, (AVFormatContext * *format, const char *url, const AVInputFormat *kind, AVDictionary **options))       \
	X(avformat_close_input, void, (AVFormatContext * *format))                                                                         \
	X(avformat_find_stream_info, int, (AVFormatContext * format, AVDictionary * *options))                                             \
	X(av_read_frame, int, (AVFormatContext * format, AVPacket * packet))                                                               \
	X(avformat_index_get_entries_count, int, (const AVStream *stream))                                                                 \
	X(avformat_index_get_entry, const AVIndexEntry *, (AVStream * stream, int entry))                                                  \
	STK_OLD_SIDE_DATA(X)                                                                                                               \
	X(avio_alloc_context, AVIOContext *,                                                                                               \
		(unsigned char *buffer, int size, int write, void *user, int (*read)(void *user, uint8_t *to, int n),                      \
			int (*write_to)(void *user, uint8_t *from, int n), int64_t (*seek)(void *user, int64_t offset, int whence)))       \
	X(avio_context_free, void, (AVIOContext * *io))

struct stk_ffmpeg {
	void *util, *codec, *format;
#define STK_FFMPEG_SLOT(name, result, params) result(*name) params;
	STK_AVUTIL_FUNCTIONS(STK_FFMPEG_SLOT)
	STK_AVCODEC_FUNCTIONS(STK_FFMPEG_SLOT)
	STK_AVFORMAT_FUNCTIONS(STK_FFMPEG_SLOT)
#undef STK_FFMPEG_SLOT
};

/* Loads the libraries. STK_UNSUPPORTED if they cannot be loaded; the message says what to install. FFmpeg by default prints messages to standard error; the
 * first load turns that off, unless the process has already chosen another level. Any thread. */
STK_MUST_USE enum stk_status stk__ffmpeg_load(struct stk_ffmpeg *f, struct stk_error *err);
void stk__ffmpeg_unload(struct stk_ffmpeg *f);

/* Returns a stream's side data of this type and sets *size to its size in bytes; returns NULL if the stream has none. */
const uint8_t *stk__ffmpeg_side_data(const struct stk_ffmpeg *f, const AVStream *stream, enum AVPacketSideDataType type, size_t *size);

/* Sets an error with the message "`what`: FFmpeg's text for the code", and returns its status. */
STK_MUST_USE enum stk_status stk__ffmpeg_fail(const struct stk_ffmpeg *f, int code, const char *what, struct stk_error *err);

#endif
