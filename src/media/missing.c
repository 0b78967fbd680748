/* SPDX-License-Identifier: Apache-2.0
 * Replaces the other files of this folder in builds without FFmpeg's headers. Opening any video fails with STK_UNSUPPORTED. */
#include "base/error.h"
#include "media/video_gpu.h"

static enum stk_status refuse(struct stk_error *err)
{
	return stk__fail(err, STK_UNSUPPORTED,
		"this build of Stoker has no video: install FFmpeg's headers (Debian: libavformat-dev libavcodec-dev libavutil-dev) and build it again");
}

const char *stk__ffmpeg_version(void)
{
	return "";
}

enum stk_status stk__video_index_create(
	const struct stk_media_input *in, int32_t stream, struct stk_video_index **out, struct stk_error *err)
{
	(void)in, (void)stream;
	*out = NULL;
	return refuse(err);
}

void stk__video_index_destroy(struct stk_video_index *x)
{
	(void)x;
}

const struct stk_video_facts *stk__video_facts(const struct stk_video_index *x)
{
	(void)x;
	return NULL;
}

size_t stk__video_index_memory(const struct stk_video_index *x)
{
	(void)x;
	return 0;
}

double stk__video_time(const struct stk_video_index *x, int32_t frame)
{
	(void)x, (void)frame;
	return 0;
}

double stk__video_end(const struct stk_video_index *x, int32_t frame)
{
	(void)x, (void)frame;
	return 0;
}

double stk__video_duration(const struct stk_video_index *x, int32_t frame)
{
	(void)x, (void)frame;
	return 0;
}

bool stk__video_key(const struct stk_video_index *x, int32_t frame)
{
	(void)x, (void)frame;
	return false;
}

int32_t stk__video_shown(const struct stk_video_index *x, double seconds)
{
	(void)x, (void)seconds;
	return -1;
}

const struct stk_frame_table *stk__video_table(const struct stk_video_index *x)
{
	(void)x;
	return NULL;
}

size_t stk__video_decode_memory(const struct stk_video_index *x)
{
	(void)x;
	return 0;
}

bool stk__video_range(const struct stk_video_index *x, const struct stk_segment *segment, int64_t *offset, int64_t *length)
{
	(void)x, (void)segment, (void)offset, (void)length;
	return false;
}

bool stk__video_index_is_costly(const struct stk_video_index *x, int64_t file_size)
{
	(void)x, (void)file_size;
	return false;
}

bool stk__video_index_is_copy(const struct stk_video_index *x, int64_t file_size)
{
	(void)x, (void)file_size;
	return false;
}

enum stk_status stk__video_index_pack(const struct stk_video_index *x, uint8_t **out, size_t *size, struct stk_error *err)
{
	(void)x;
	*out = NULL;
	*size = 0;
	return refuse(err);
}

enum stk_status stk__video_index_unpack(const uint8_t *data, size_t size, struct stk_video_index **out, struct stk_error *err)
{
	(void)data, (void)size;
	*out = NULL;
	return refuse(err);
}

enum stk_status stk__video_decoder_create(const struct stk_video_limits *limits, struct stk_video_decoder **out, struct stk_error *err)
{
	(void)limits;
	*out = NULL;
	return refuse(err);
}

void stk__video_decoder_destroy(struct stk_video_decoder *d)
{
	(void)d;
}

enum stk_status stk__video_decode(struct stk_video_decoder *d, const struct stk_video_index *x, const struct stk_media_input *in,
	const struct stk_video_wanted *wanted, struct stk_error *err)
{
	(void)d, (void)x, (void)in, (void)wanted;
	return refuse(err);
}

void stk__video_decoder_forget(struct stk_video_decoder *d)
{
	(void)d;
}

struct stk_video_counters stk__video_decoder_counters(const struct stk_video_decoder *d)
{
	(void)d;
	return (struct stk_video_counters){0};
}

enum stk_status stk__video_gpu_create(struct stk_nvdec *nvdec, struct stk_video_gpu **out, struct stk_error *err)
{
	(void)nvdec;
	*out = NULL;
	return refuse(err);
}

void stk__video_gpu_destroy(struct stk_video_gpu *g)
{
	(void)g;
}

struct stk_gpu_device *stk__video_gpu_device(const struct stk_video_gpu *g)
{
	(void)g;
	return NULL;
}

enum stk_status stk__video_gpu_decode(struct stk_video_gpu *g, struct stk_video_decoder *cores, const struct stk_video_index *x,
	const struct stk_media_input *in, const struct stk_video_wanted *wanted, const stk_gpu_stream *after, const char *only_cores,
	struct stk_error *err)
{
	(void)g, (void)cores, (void)x, (void)in, (void)wanted, (void)after, (void)only_cores;
	return refuse(err);
}

enum stk_status stk__video_gpu_put(struct stk_video_gpu *g, void *to, const void *from, bool from_gpu, size_t size, struct stk_error *err)
{
	(void)g, (void)to, (void)from, (void)from_gpu, (void)size;
	return refuse(err);
}

size_t stk__video_gpu_memory(const struct stk_video_index *x)
{
	(void)x;
	return 0;
}

void stk__video_gpu_forget(struct stk_video_gpu *g)
{
	(void)g;
}

struct stk_video_gpu_counters stk__video_gpu_counters(const struct stk_video_gpu *g)
{
	(void)g;
	return (struct stk_video_gpu_counters){0};
}

const char *stk__video_gpu_reason(const struct stk_video_gpu *g)
{
	(void)g;
	return "";
}
