/* SPDX-License-Identifier: Apache-2.0 */
#include "media/index.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/xxhash.h"
#include "media/coded_size.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum stk_status no_memory(struct stk_error *err)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory for the index of a video");
}

struct shown {
	int64_t pts;
	int32_t packet;
};

static int by_time(const void *a, const void *b)
{
	const struct shown *x = a, *y = b;
	return x->pts != y->pts ? (x->pts > y->pts) - (x->pts < y->pts) : (x->packet > y->packet) - (x->packet < y->packet);
}

/* Allocates x->times, x->keys and x->packet_of, and fills the first two: the times of all packets, and the indices of the key packets. */
static enum stk_status list_keys(struct stk_video_index *x, struct stk_error *err)
{
	const struct stk_packets *p = &x->packets;
	x->times = stk__alloc((size_t)p->count * sizeof *x->times);
	x->keys = stk__alloc((size_t)p->count * sizeof *x->keys);
	x->packet_of = stk__alloc((size_t)p->count * sizeof *x->packet_of);
	if (!x->times || !x->keys || !x->packet_of)
		return no_memory(err);
	x->table = (struct stk_frame_table){.packet_of = x->packet_of, .times = x->times, .keys = x->keys};
	for (int32_t i = 0; i < p->count; i++) {
		x->times[i] = p->v[i].pts;
		if (p->v[i].flags & STK_PACKET_KEY)
			x->keys[x->table.key_count++] = i;
	}
	int32_t *keys = stk__realloc(x->keys, (size_t)(x->table.key_count + 1) * sizeof *keys);
	if (keys)
		x->table.keys = x->keys = keys;
	return STK_OK;
}

/* Sorts the frames' packets by time of presentation. Packets of equal time stay in the order of the file. */
static enum stk_status sort_frames(struct stk_video_index *x, int32_t n, struct stk_error *err)
{
	struct shown *shown = stk__alloc((size_t)n * sizeof *shown);
	if (!shown)
		return no_memory(err);
	for (int32_t i = 0; i < n; i++)
		shown[i] = (struct shown){x->times[x->packet_of[i]], x->packet_of[i]};
	qsort(shown, (size_t)n, sizeof *shown, by_time);
	for (int32_t i = 0; i < n; i++)
		x->packet_of[i] = shown[i].packet;
	stk__free(shown);
	return STK_OK;
}

/* A key packet and the packets after it, up to the next key packet. */
struct group {
	int32_t key;     /* index of the key packet */
	int32_t omitted; /* number of packets that are left out, because they are presented before all key packets so far */
	bool goes_on;    /* a packet is presented after the key packet */
};

/* Returns STK_CORRUPT if the time of a group's key packet is so late that it must be wrong. The frames that need the packet would be left out. next: the key
 * packet after the group; -1: none.
 * If a video was cut out of another one, its first key packet can precede leading pictures, which refer to pictures before the cut. They are left out, too.
 * But the key packet after such a group is presented after it. VP8, VP9 and AV1 have no leading pictures. */
static enum stk_status check_group(const struct stk_video_index *x, const struct group *g, int32_t next, struct stk_error *err)
{
	enum { MOST_LEADING = 32 };
	if (g->omitted == 0) /* also before the first key packet */
		return STK_OK;

	const enum AVCodecID id = x->parameters->codec_id;
	const bool ordered = id == AV_CODEC_ID_VP8 || id == AV_CODEC_ID_VP9 || id == AV_CODEC_ID_AV1;
	const bool early = next >= 0 && x->times[next] < x->times[g->key];
	if (!ordered && (g->goes_on || (!early && g->omitted <= MOST_LEADING)))
		return STK_OK;
	return stk__fail(err, STK_CORRUPT,
		"packet %d, a key frame, has a time after those of %d frames that follow it in the file and need it: the file is damaged",
		g->key, g->omitted);
}

/* Lists the frames in order of presentation. Most packets are close to that order, so inserting each into the list costs less than sorting. */
static enum stk_status list_frames(struct stk_video_index *x, struct stk_error *err)
{
	enum { MOST_MOVES = 32 }; /* if inserting takes more moves per frame on average, the frames are sorted instead */
	const struct stk_packets *p = &x->packets;
	int32_t *frames = x->packet_of, n = 0;
	int64_t earliest = INT64_MAX, moves = 0; /* earliest: minimum time of the key packets so far */
	bool sorts = false;
	struct group group = {.key = -1};
	enum stk_status s = STK_OK;
	for (int32_t i = 0; i < p->count && !s; i++) {
		const int64_t t = x->times[i];
		if (p->v[i].flags & STK_PACKET_KEY) {
			s = check_group(x, &group, i, err);
			earliest = t < earliest ? t : earliest;
			group = (struct group){.key = i};
		}
		/* A frame can only be decoded from a key packet that is before it both in the file and in presentation (stk__plan_key). */
		const bool shown = !(p->v[i].flags & STK_PACKET_DROPPED) && group.key >= 0;
		group.omitted += shown && t < earliest;
		group.goes_on |= shown && t > x->times[group.key];
		if (!shown || t < earliest)
			continue;
		int32_t k = n++;
		for (; k > 0 && !sorts && x->times[frames[k - 1]] > t; k--, moves++)
			frames[k] = frames[k - 1];
		frames[k] = i;
		sorts |= moves > (int64_t)MOST_MOVES * n;
	}
	x->table.frames = n;
	s = s ? s : check_group(x, &group, -1, err);
	return s ? s : sorts ? sort_frames(x, n, err) : STK_OK;
}

/* ---- facts about the video ---- */

/* Returns the length of a vector. Used instead of hypot, with which the library would need glibc 2.35. */
static double length(double x, double y)
{
	return sqrt(x * x + y * y);
}

/* Sets x->facts.rotation to the clockwise angle by which the file asks to rotate its frames. STK_UNSUPPORTED: the angle is not a multiple of 90 degrees, or
 * the file asks for a mirror image. */
static enum stk_status find_rotation(struct stk_video_index *x, const AVStream *stream, struct stk_error *err)
{
	size_t size = 0;
	const uint8_t *data = stk__ffmpeg_side_data(&x->f, stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
	int32_t m[9];
	if (!data || size < sizeof m)
		return STK_OK;
	memcpy(m, data, sizeof m);
	const double scale_x = length(m[0], m[3]), scale_y = length(m[1], m[4]);
	if (scale_x == 0 || scale_y == 0)
		return STK_OK;
	const double degrees = atan2(m[1] / scale_y, m[0] / scale_x) * 180 / 3.14159265358979323846;
	const double quarter = round(degrees / 90);
	const bool flipped = (double)m[0] * m[4] - (double)m[1] * m[3] < 0;
	if (fabs(degrees - 90 * quarter) > 1 || flipped)
		return stk__fail(err, STK_UNSUPPORTED,
			"the file asks to turn its frames by %.1f degrees%s; Stoker turns frames by 90, 180 and 270 degrees", degrees,
			flipped ? " and to mirror them" : "");
	x->facts.rotation = ((int)quarter * 90 + 360) % 360;
	return STK_OK;
}

/* Times are added and subtracted in time bases, and converted to seconds last: a sum of rounded seconds can miss the next frame's beginning. */
static double seconds_of(const struct stk_video_index *x, int64_t t)
{
	return (double)t * x->packets.tb_num / x->packets.tb_den;
}

/* Returns the duration of a frame in time bases. */
static int64_t duration_of(const struct stk_video_index *x, int32_t frame)
{
	const int64_t time = x->times[x->packet_of[frame]], duration = x->packets.v[x->packet_of[frame]].duration;
	if (frame + 1 < x->table.frames)
		return x->times[x->packet_of[frame + 1]] - time;
	if (duration > 0 || frame == 0)
		return duration < -STK_MOST_TIME ? -STK_MOST_TIME : duration > STK_MOST_TIME ? STK_MOST_TIME : duration;
	return time - x->times[x->packet_of[frame - 1]];
}

double stk__video_time(const struct stk_video_index *x, int32_t frame)
{
	return seconds_of(x, x->times[x->packet_of[frame]]);
}

double stk__video_duration(const struct stk_video_index *x, int32_t frame)
{
	return seconds_of(x, duration_of(x, frame));
}

double stk__video_end(const struct stk_video_index *x, int32_t frame)
{
	return seconds_of(x, x->times[x->packet_of[frame]] + duration_of(x, frame));
}

bool stk__video_key(const struct stk_video_index *x, int32_t frame)
{
	return x->packets.v[x->packet_of[frame]].flags & STK_PACKET_KEY;
}

int32_t stk__video_shown(const struct stk_video_index *x, double seconds)
{
	int32_t low = 0, high = x->table.frames;
	while (low < high) {
		const int32_t middle = low + (high - low) / 2;
		if (stk__video_time(x, middle) <= seconds)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

/* Sets the members of x->facts that follow from the packets and from the codec's parameters. */
static void gather_facts(struct stk_video_index *x)
{
	struct stk_video_facts *f = &x->facts;
	const bool turned = f->rotation == 90 || f->rotation == 270;
	f->width = turned ? x->parameters->height : x->parameters->width;
	f->height = turned ? x->parameters->width : x->parameters->height;
	f->frames = x->table.frames;
	f->keys = x->table.key_count;
	f->packets = x->packets.count;
	for (int32_t i = 0; i < x->packets.count; i++) {
		f->bytes += x->packets.v[i].size;
		x->largest = x->packets.v[i].size > x->largest ? x->packets.v[i].size : x->largest;
	}
	const int32_t last = f->frames - 1;
	const int64_t length = x->times[x->packet_of[last]] + duration_of(x, last) - x->times[x->packet_of[0]];
	f->begin = stk__video_time(x, 0);
	f->end = stk__video_end(x, last);
	f->duration = seconds_of(x, length);
	f->average_fps = length > 0 ? (double)f->frames * x->packets.tb_den / ((double)length * x->packets.tb_num) : 0;
	f->bit_rate = length > 0 ? (double)f->bytes * 8 / f->duration : 0;
	snprintf(f->codec, sizeof f->codec, "%s", x->f.avcodec_get_name(x->parameters->codec_id));
}

static enum stk_status copy_parameters(struct stk_video_index *x, const AVStream *stream, struct stk_error *err)
{
	x->parameters = x->f.avcodec_parameters_alloc();
	if (!x->parameters || x->f.avcodec_parameters_copy(x->parameters, stream->codecpar) < 0)
		return no_memory(err);
	x->parameters->video_delay = x->packets.reorder > x->parameters->video_delay ? x->packets.reorder : x->parameters->video_delay;
	return STK_OK;
}

/* ---- making an index ---- */

enum stk_status stk__video_index_finish(struct stk_video_index *x, struct stk_error *err)
{
	const AVCodecParameters *p = x->parameters;
	const int32_t key[] = {p->codec_id, (int32_t)p->codec_tag, p->width, p->height, p->video_delay, p->format, p->extradata_size,
		p->color_range, p->color_primaries, p->color_trc, p->color_space};
	x->serial = stk__xxh64(key, sizeof key, 0);
	if (p->extradata_size > 0)
		x->serial = stk__xxh64(p->extradata, (size_t)p->extradata_size, x->serial);
	if (x->packets.count == 0)
		return stk__fail(err, STK_CORRUPT, "the video stream has no packets");
	if (p->width < 0 || p->height < 0 || (int64_t)p->width * p->height > INT32_MAX)
		return stk__fail(
			err, STK_CORRUPT, "the file's header says that frames have %d x %d pixels: it is damaged", p->width, p->height);
	if (p->width == 0 || p->height == 0)
		return stk__fail(err, STK_CORRUPT,
			"neither the file's header nor its first key frame states the size of the frames: they are damaged");
	enum stk_status s = list_keys(x, err);
	if (!s)
		s = list_frames(x, err);
	if (s)
		return s;
	if (x->table.frames == 0)
		return stk__fail(err, STK_CORRUPT, "none of the %d frames can be decoded: the stream has no key frame", x->packets.count);
	gather_facts(x);
	return STK_OK;
}

/* Decodes the first key packet, so that the decoder finds the size of the frames in it. */
static enum stk_status decode_key(
	const struct stk_video_index *x, const struct stk_media_input *in, AVCodecContext *context, struct stk_error *err)
{
	const struct stk_packets *p = &x->packets;
	int32_t key = 0;
	while (key < p->count - 1 && !(p->v[key].flags & STK_PACKET_KEY))
		key++;
	AVPacket *packet = x->f.av_packet_alloc();
	AVFrame *frame = x->f.av_frame_alloc();
	uint8_t *bytes = p->count ? stk__calloc(1, (size_t)p->v[key].size + AV_INPUT_BUFFER_PADDING_SIZE) : NULL;
	enum stk_status s = packet && frame && bytes ? stk__packet_read(p, in, key, bytes, err) : p->count ? no_memory(err) : STK_OK;
	if (!s && bytes) {
		packet->data = bytes;
		packet->size = p->v[key].size;
		packet->flags = AV_PKT_FLAG_KEY;
		if (x->f.avcodec_send_packet(context, packet) >= 0 && x->f.avcodec_send_packet(context, NULL) >= 0)
			x->f.avcodec_receive_frame(context, frame);
		packet->data = NULL;
		packet->size = 0;
	}
	if (packet)
		x->f.av_packet_free(&packet);
	if (frame)
		x->f.av_frame_free(&frame);
	stk__free(bytes);
	return s;
}

/* Replaces the size that the container states by that of the coded stream, which decoders use, if the two differ. Keeps an impossible size, which is refused
 * later. */
static void correct_size(struct stk_video_index *x)
{
	AVCodecParameters *p = x->parameters;
	if (p->extradata_size > 0 && p->width >= 0 && p->height >= 0 &&
		(p->codec_id == AV_CODEC_ID_H264 || p->codec_id == AV_CODEC_ID_HEVC))
		stk__coded_size(p->codec_id == AV_CODEC_ID_HEVC ? STK_UNITS_HEVC : STK_UNITS_H264, p->extradata, (size_t)p->extradata_size,
			&p->width, &p->height);
}

/* Reads the size of the frames from the stream if the container does not state it. FFmpeg ignores the size in MP4 and 3GP files for MPEG-4, H.263 and H.261,
 * since for these only the codec's own headers are reliable. */
static enum stk_status find_size(struct stk_video_index *x, const struct stk_media_input *in, struct stk_error *err)
{
	AVCodecParameters *p = x->parameters;
	const bool left_out = p->width >= 0 && p->height >= 0 && (p->width == 0 || p->height == 0);
	const AVCodec *codec = left_out ? x->f.avcodec_find_decoder(p->codec_id) : NULL;
	if (!codec)
		return STK_OK;
	enum stk_status s = STK_OK;
	AVCodecContext *context = x->f.avcodec_alloc_context3(codec);
	if (!context || x->f.avcodec_parameters_to_context(context, p) < 0)
		s = no_memory(err);
	if (!s) {
		context->thread_count = 1;
		context->log_level_offset = 1000;
		context->max_pixels = (int64_t)1 << 28;
		if (x->f.avcodec_open2(context, codec, NULL) >= 0 && (context->width <= 0 || context->height <= 0))
			s = decode_key(x, in, context, err);
		p->width = context->width;
		p->height = context->height;
	}
	if (context)
		x->f.avcodec_free_context(&context);
	return s;
}

static enum stk_status read_stream(
	struct stk_video_index *x, struct stk_container *c, const struct stk_media_input *in, int32_t wanted, struct stk_error *err)
{
	AVStream *stream;
	enum stk_status s = stk__container_choose(c, AVMEDIA_TYPE_VIDEO, wanted, &stream, err);
	if (!s)
		s = find_rotation(x, stream, err);
	if (!s)
		s = stk__packets_read(c, &x->f, in, stream, &x->packets, err);
	if (!s)
		s = copy_parameters(x, stream, err);
	if (s)
		return s;
	correct_size(x);
	if ((s = find_size(x, in, err)))
		return s;
	x->facts.stream = stream->index;
	x->listed = stk__container_blank(c);
	snprintf(x->facts.container, sizeof x->facts.container, "%s", stk__container_format(c)->iformat->long_name);
	return stk__video_index_finish(x, err);
}

enum stk_status stk__video_index_create(
	const struct stk_media_input *in, int32_t stream, struct stk_video_index **out, struct stk_error *err)
{
	struct stk_container *c = NULL;
	*out = NULL;
	struct stk_video_index *x = stk__calloc(1, sizeof *x);
	if (!x)
		return no_memory(err);
	enum stk_status s = stk__ffmpeg_load(&x->f, err);
	if (!s)
		s = stk__container_open(&x->f, in, &c, err);
	if (!s)
		s = read_stream(x, c, in, stream, err);
	stk__container_close(c);
	if (s) {
		stk__video_index_destroy(x);
		return s;
	}
	*out = x;
	return STK_OK;
}

void stk__video_index_destroy(struct stk_video_index *x)
{
	if (!x)
		return;
	stk__packets_free(&x->packets);
	if (x->parameters)
		x->f.avcodec_parameters_free(&x->parameters);
	stk__free(x->packet_of);
	stk__free(x->keys);
	stk__free(x->times);
	stk__ffmpeg_unload(&x->f);
	stk__free(x);
}

const struct stk_video_facts *stk__video_facts(const struct stk_video_index *x)
{
	return &x->facts;
}

const struct stk_frame_table *stk__video_table(const struct stk_video_index *x)
{
	return &x->table;
}

size_t stk__video_index_memory(const struct stk_video_index *x)
{
	const size_t frame_bytes = sizeof *x->packet_of + sizeof *x->times, keys = (size_t)x->table.key_count * sizeof *x->keys;
	return sizeof *x + (size_t)x->packets.capacity * sizeof *x->packets.v + (size_t)x->packets.count * frame_bytes + keys +
	       x->packets.kept_capacity;
}

int32_t stk__video_further(const struct stk_video_index *x)
{
	return x->parameters->codec_id == AV_CODEC_ID_H264 && x->packets.reorder > 0 ? stk__packets_delay(&x->packets) : 0;
}

bool stk__video_range(const struct stk_video_index *x, const struct stk_segment *segment, int64_t *offset, int64_t *length)
{
	const int32_t further = stk__video_further(x), left = x->packets.count - 1 - segment->last;
	int64_t first = INT64_MAX, end = 0;
	const int32_t k = stk__index_of_number(x->keys, x->table.key_count, segment->first);
	/* Near the end of the stream, decoding begins one key packet earlier instead. */
	const int32_t begin = left < further && k > 0 ? x->keys[k - 1] : segment->first;
	for (int32_t i = begin; i <= segment->last + (further < left ? further : left); i++) {
		const struct stk_packet *p = &x->packets.v[i];
		if (p->flags & STK_PACKET_KEPT)
			continue;
		first = p->position < first ? p->position : first;
		end = p->position + p->size > end ? p->position + p->size : end;
	}
	*offset = first;
	*length = end - first;
	return end > first;
}
