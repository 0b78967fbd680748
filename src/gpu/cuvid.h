/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares the part of the API of NVIDIA's video decoder (NVDEC) that Stoker uses. Its functions are looked up at run time in libnvcuvid.so.1, which the
 * driver installs. Building needs nothing from NVIDIA: the few types and numbers below belong to the library's stable ABI. Members that Stoker never reads
 * are named `reserved`.
 *
 * A parser reads packets and calls functions of Stoker with the stream's format and with the parameters of each picture. A decoder makes the picture in GPU
 * memory from its parameters. All functions need a current CUDA context. */
#ifndef STK_GPU_CUVID_H
#define STK_GPU_CUVID_H

#include "stoker/status.h"

#include <stdint.h>

enum stk_cuvid_codec {
	CUVID_MPEG1 = 0,
	CUVID_MPEG2 = 1,
	CUVID_MPEG4 = 2,
	CUVID_H264 = 4,
	CUVID_HEVC = 8,
	CUVID_VP8 = 9,
	CUVID_VP9 = 10,
	CUVID_AV1 = 11,
};
enum { CUVID_MONOCHROME = 0, CUVID_420 = 1, CUVID_422 = 2, CUVID_444 = 3 };
/* Formats of surfaces, the images in GPU memory into which the decoder writes. NV12: a plane of luma, then a plane of pairs of Cb and Cr at half the width and
 * height, 8 bits per sample. P016: like NV12, but with 16 bits per sample and the value in the upper bits. NV16 and P216: like NV12 and P016, but with Cb and
 * Cr at full height. YUV444: three planes of 8 bits; YUV444_16: three planes of 16 bits. */
enum { CUVID_NV12 = 0, CUVID_P016 = 1, CUVID_YUV444 = 2, CUVID_YUV444_16 = 3, CUVID_NV16 = 4, CUVID_P216 = 5 };
enum { CUVID_PREFER_CUVID = 4 };
enum { CUVID_PACKET_END_OF_STREAM = 1, CUVID_PACKET_TIMED = 2, CUVID_PACKET_DISCONTINUITY = 4, CUVID_PACKET_WHOLE_PICTURE = 8 };
enum { CUVID_STATUS_IN_PROGRESS = 1, CUVID_STATUS_SUCCESS = 2, CUVID_STATUS_ERROR = 8, CUVID_STATUS_CONCEALED = 9 };

struct stk_cuvid_caps {
	int32_t codec, chroma;
	uint32_t depth_minus_8, reserved[3];
	uint8_t supported, engines;
	uint16_t formats; /* bit n is set if surface format n is supported */
	uint32_t max_width, max_height, max_blocks;
	uint16_t min_width, min_height;
	uint32_t reserved_histogram, reserved_end[10];
};

struct stk_cuvid_rect {
	int16_t left, top, right, bottom;
};

struct stk_cuvid_create {
	unsigned long width, height, surfaces;
	int32_t codec, chroma;
	unsigned long flags, depth_minus_8, intra_only, max_width, max_height, reserved;
	struct stk_cuvid_rect display;
	int32_t format, deinterlace; /* deinterlace: 0 stores both fields as they are */
	unsigned long target_width, target_height, outputs;
	void *lock;
	struct stk_cuvid_rect target;
	unsigned long histogram, reserved_end[4];
};

struct stk_cuvid_reconfigure {
	uint32_t width, height, target_width, target_height, surfaces, reserved[12];
	struct stk_cuvid_rect display, target;
	uint32_t reserved_end[11];
};

/* The format of a stream, from its header. */
struct stk_cuvid_format {
	int32_t codec;
	uint32_t rate[2];
	uint8_t progressive, luma_minus_8, chroma_minus_8, min_surfaces;
	uint32_t coded_width, coded_height;
	struct {
		int32_t left, top, right, bottom;
	} display;
	int32_t chroma;
	uint32_t bit_rate;
	int32_t aspect[2];
	uint8_t video_format : 3, full_range : 1, reserved : 4;
	uint8_t primaries, transfer, matrix; /* numbers that ITU-T H.273 assigns */
	uint32_t header_size;
};

/* The parameters of a picture, which the parser sets and the decoder reads. Stoker reads only the first members. */
struct stk_cuvid_picture {
	int32_t blocks_wide, blocks_high;
	int32_t surface;
	int32_t is_field, is_bottom, is_second_field;
	uint32_t size;
	const uint8_t *data;
	uint32_t slices;
	const uint32_t *slice_offsets;
	int32_t is_reference, is_intra;
	uint32_t reserved[30], codec[1024];
};

/* A picture that is ready to be shown. The parser reports pictures in order of presentation. */
struct stk_cuvid_shown {
	int32_t surface, progressive, top_field_first, repeat;
	int64_t time;
};

struct stk_cuvid_packet {
	unsigned long flags, size;
	const uint8_t *data;
	int64_t time;
};

struct stk_cuvid_parser {
	int32_t codec;
	uint32_t surfaces, clock_rate, error_threshold, display_delay;
	uint32_t annex_b : 1, memory_optimize : 1, reserved_bits : 30;
	uint32_t reserved[4];
	void *user;
	int (*sequence)(void *user, struct stk_cuvid_format *format); /* returns the number of surfaces, or 0 on failure */
	int (*decode)(void *user, struct stk_cuvid_picture *picture); /* returns 0 on failure */
	int (*show)(void *user, struct stk_cuvid_shown *shown);       /* returns 0 on failure */
	void *operating_point, *message, *reserved_end[5], *more;
};

struct stk_cuvid_map {
	int32_t progressive, second_field, top_field_first, unpaired_field;
	uint32_t reserved[2];
	uint64_t raw_input;
	uint32_t raw_input_pitch, raw_input_format;
	uint64_t raw_output;
	uint32_t raw_output_pitch, reserved_2;
	void *stream;
	uint32_t reserved_3[46];
	void *histogram, *reserved_end;
};

struct stk_cuvid_status {
	int32_t status;
	uint32_t reserved[31];
	void *reserved_end[8];
};

/* X(name in libnvcuvid.so.1, parameters). Functions return results of the CUDA driver; 0 is success. */
#define STK_CUVID_FUNCTIONS(X)                                                                                                             \
	X(cuvidGetDecoderCaps, (struct stk_cuvid_caps * caps))                                                                             \
	X(cuvidCreateDecoder, (void **decoder, struct stk_cuvid_create *create))                                                           \
	X(cuvidDestroyDecoder, (void *decoder))                                                                                            \
	X(cuvidDecodePicture, (void *decoder, struct stk_cuvid_picture *picture))                                                          \
	X(cuvidGetDecodeStatus, (void *decoder, int surface, struct stk_cuvid_status *status))                                             \
	X(cuvidReconfigureDecoder, (void *decoder, struct stk_cuvid_reconfigure *reconfigure))                                             \
	X(cuvidMapVideoFrame64, (void *decoder, int surface, unsigned long long *address, unsigned *pitch, struct stk_cuvid_map *map))     \
	X(cuvidUnmapVideoFrame64, (void *decoder, unsigned long long address))                                                             \
	X(cuvidCreateVideoParser, (void **parser, struct stk_cuvid_parser *parameters))                                                    \
	X(cuvidParseVideoData, (void *parser, struct stk_cuvid_packet *packet))                                                            \
	X(cuvidDestroyVideoParser, (void *parser))

struct stk_cuvid {
	void *library;
#define STK_CUVID_POINTER(name, params) int(*name) params;
	STK_CUVID_FUNCTIONS(STK_CUVID_POINTER)
#undef STK_CUVID_POINTER
};

/* Loads libnvcuvid.so.1 and looks up its functions. STK_NOT_FOUND: the library is not installed, or lacks a function. */
STK_MUST_USE enum stk_status stk__cuvid_load(struct stk_cuvid *c, struct stk_error *err);
void stk__cuvid_unload(struct stk_cuvid *c);

#endif
