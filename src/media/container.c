/* SPDX-License-Identifier: Apache-2.0 */
#include "media/container.h"

#include "base/error.h"
#include "base/memory.h"
#include "codec/bytes.h"
#include "codec/codec.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { BUFFER = 32 << 10 };

/* The demuxers that may be used. Each reads only the one file: no playlists, picture sequences or devices. */
static const char FORMATS[] =
	"mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,h264,hevc,av1,obu,ivf,mpegvideo,m4v,flv,ogg,wav,w64,mp3,flac,aac,"
	"aiff,au,caf";

struct stk_container {
	const struct stk_ffmpeg *f;
	const struct stk_media_input *in;
	AVIOContext *io;
	AVFormatContext *format;
	int64_t at;
	int64_t budget; /* maximum further cost of reading, in bytes plus CALL for each call, so that no damaged file is read for ever */
	int64_t packets;
	int64_t first_time, last_time; /* times of the stream's first and latest packets */
	int stream;
	bool blank;
	bool listed;            /* the moov box of this MP4 file lists all packets */
	bool overfull;          /* the header lists far more bytes of packets than the file has */
	enum stk_status status; /* status of the last failed read; FFmpeg's error codes cannot express it */
	struct stk_error *err;  /* the caller's error, which the current call sets; may be NULL */
};

static int stop(struct stk_container *c, enum stk_status s)
{
	c->status = s;
	return AVERROR_EXTERNAL;
}

static int read_bytes(void *user, uint8_t *to, int n)
{
	enum { CALL = 256 }; /* cost of a call in addition to its bytes */
	struct stk_container *c = user;
	/* With `blank`, the bytes of packets are not needed, so zeros replace them, also for packets that lie after the end of a truncated file. Such packets
	 * are an error only when one of their frames is wanted. */
	const int64_t left = c->blank ? n : c->in->size - c->at;
	if (c->status)
		return AVERROR_EXTERNAL;
	if (left <= 0)
		return AVERROR_EOF;
	n = n < left ? n : (int)left;
	if ((c->budget -= n + CALL) < 0)
		return stop(c,
			stk__fail(c->err, STK_LIMIT, "reading the file's structure takes far more bytes than the file has: it is damaged"));
	enum stk_status s = stk__media_check(c->in, c->err);
	if (!s && c->blank)
		memset(to, 0, (size_t)n);
	else if (!s)
		s = stk__media_read(c->in, c->at, to, (size_t)n, c->err);
	if (s)
		return stop(c, s);
	c->at += n;
	return n;
}

static int64_t seek_bytes(void *user, int64_t offset, int whence)
{
	enum { CALL = 256 };
	struct stk_container *c = user;
	if (whence & AVSEEK_SIZE)
		return c->in->size;
	whence &= ~AVSEEK_FORCE;
	if (whence == SEEK_CUR ? __builtin_add_overflow(offset, c->at, &offset)
			       : whence == SEEK_END && __builtin_add_overflow(offset, c->in->size, &offset))
		return AVERROR(EINVAL);
	if (offset < 0 || (c->budget -= CALL) < 0)
		return AVERROR(EINVAL);
	return c->at = offset;
}

/* Refuses to open another file: a media file must not make its reader open others. */
static int refuse_open(AVFormatContext *format, AVIOContext **out, const char *url, int flags, AVDictionary **options)
{
	(void)format, (void)out, (void)url, (void)flags, (void)options;
	return AVERROR(EACCES);
}

static uint64_t big_endian(const uint8_t *p, int n)
{
	uint64_t v = 0;
	for (int i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static void expect(const struct stk_container *c, int64_t offset, int64_t n)
{
	if (c->in->expect)
		c->in->expect(c->in->user, offset, n);
}

enum { BOX_HEAD = 8, BOX_LONG_HEAD = 16 };

/* A box of an MP4 file. */
struct box {
	char name[4];
	uint64_t size;      /* with the header; may exceed what the file has; 0: the header states an impossible size */
	int64_t begin, end; /* range of the contents; `end` is limited to the end of the boxes around it */
};

/* Reads the header of the box at `at`, inside of a range that ends at `end`. The box's own `end` is where the next box begins. Returns false if the range has no
 * further box, or if reading fails. */
static bool next_box(const struct stk_media_input *in, int64_t at, int64_t end, struct box *out)
{
	uint8_t head[BOX_LONG_HEAD] = {0};
	const int64_t left = end - at;
	if (left < BOX_HEAD || stk__media_read(in, at, head, (size_t)(left < BOX_LONG_HEAD ? left : BOX_LONG_HEAD), NULL))
		return false;
	const uint64_t stated = big_endian(head, 4);
	const int64_t n = stated == 1 ? BOX_LONG_HEAD : BOX_HEAD;
	const uint64_t size = stated == 1 ? big_endian(head + 8, 8) : stated == 0 ? (uint64_t)left : stated; /* 0: to the end */
	memcpy(out->name, head + 4, 4);
	out->size = size < (uint64_t)n ? 0 : size;
	out->begin = n < left ? at + n : end;
	out->end = out->size && size < (uint64_t)left ? at + (int64_t)size : end;
	return true;
}

static bool is_named(const struct box *box, const char *name)
{
	return memcmp(box->name, name, 4) == 0;
}

/* Returns whether a table of sizes (stsz), whose contents begin at `at`, has one size for all packets and adds up to far more than the file's size. Such a table
 * has a few bytes, but FFmpeg would make a list of all its packets. Other tables have an entry for each packet. */
static bool is_too_long(const struct stk_container *c, int64_t at, int64_t end)
{
	enum { SIZE = 4, COUNT = 8, TABLE = 12 };
	uint8_t table[TABLE] = {0};
	return !stk__media_read(c->in, at, table, (size_t)(end - at < TABLE ? end - at : TABLE), NULL) &&
	       big_endian(table + SIZE, 4) * big_endian(table + COUNT, 4) / STK_MEDIA_MOST_TIMES > (uint64_t)c->in->size;
}

/* Returns whether is_too_long is true of a table of sizes in one of the boxes between `at` and `end`, which are at a depth of `path`. */
static bool lists_too_much(const struct stk_container *c, int64_t at, int64_t end, int depth)
{
	enum { MOST_BOXES = 1000 };
	static const char *const path[] = {"trak", "mdia", "minf", "stbl", "stsz"};
	struct box box;
	for (int i = 0; i < MOST_BOXES && next_box(c->in, at, end, &box); i++, at = box.end)
		if (is_named(&box, path[depth]) &&
			(depth < 4 ? lists_too_much(c, box.begin, box.end, depth + 1) : is_too_long(c, box.begin, end)))
			return true;
	return false;
}

/* Returns whether the file consists of MP4 boxes without fragments (moof), so that its moov box lists all packets; false if in doubt. Also announces to the
 * input that the moov box, and the bytes after each mdat box, where the moov box often is, will be read. */
static bool is_listed(struct stk_container *c)
{
	enum { MOST_BOXES = 1000, LAST = 16 << 20, SLACK = 4096 };
	static const char *const first[] = {"ftyp", "moov", "mdat", "wide", "free", "skip"};
	struct box box;
	int64_t at = 0;
	for (int i = 0; i < MOST_BOXES; i++, at = box.end) {
		if (c->in->size - at < BOX_LONG_HEAD)
			return true;
		if (!next_box(c->in, at, c->in->size, &box) || is_named(&box, "moof") || box.size == 0 || box.size > INT64_MAX / 2)
			return false;
		bool known = at > 0;
		for (size_t k = 0; k < sizeof first / sizeof *first; k++)
			known |= is_named(&box, first[k]);
		if (!known)
			return false;
		if (is_named(&box, "moov")) {
			expect(c, at, (int64_t)box.size + SLACK);
			c->overfull |= lists_too_much(c, box.begin, box.end, 0);
		}
		if (is_named(&box, "mdat")) /* the moov box probably follows */
			expect(c, box.end, LAST);
	}
	return false;
}

/* Reports the failed call of FFmpeg that returned `code`. If FFmpeg lacks memory, a damaged file has probably stated an impossible size. STK_NO_MEMORY would
 * end the pipeline, so the sample fails instead. */
static enum stk_status failed(struct stk_container *c, int code, const char *what, struct stk_error *err)
{
	if (c->status)
		return c->status;
	if (code == AVERROR(ENOMEM))
		return stk__fail(err, STK_LIMIT, "%s: the size of a packet is impossible, or needs more memory than there is", what);
	return stk__ffmpeg_fail(c->f, code, what, err);
}

/* Reports that FFmpeg does not recognise the file. The message names the kind of file that its first bytes show. */
static enum stk_status fail_to_open(struct stk_container *c, int code, struct stk_error *err)
{
	uint8_t head[1024];
	char kind[200];
	const struct stk_media_input *in = c->in;
	const size_t n = in->size < (int64_t)sizeof head ? (size_t)in->size : sizeof head;
	if (code == AVERROR(ENOMEM) || c->status || (!in->data && in->read(in->user, 0, head, n, NULL)) ||
		!stk__describe_no_media(in->data ? in->data : head, n, kind, sizeof kind))
		return failed(c, code, "this is not a file that Stoker reads as video or sound, or its header is damaged", err);
	return stk__fail(err, STK_CORRUPT, "neither a video nor a sound: it is %s", kind);
}

static bool is_format(const struct stk_container *c, const char *name)
{
	return strstr(c->format->iformat->name, name) != NULL;
}

static enum stk_status open_format(struct stk_container *c, struct stk_error *err)
{
	unsigned char *buffer = c->f->av_malloc(BUFFER);
	c->io = buffer ? c->f->avio_alloc_context(buffer, BUFFER, 0, c, read_bytes, NULL, seek_bytes) : NULL;
	c->format = c->io ? c->f->avformat_alloc_context() : NULL;
	if (!c->format) {
		if (!c->io)
			c->f->av_free(buffer);
		return stk__fail(err, STK_NO_MEMORY, "out of memory to open a video");
	}
	c->format->pb = c->io;
	c->format->io_open = refuse_open;
	c->format->max_streams = STK_MEDIA_MOST_STREAMS;
	c->format->flags |= AVFMT_FLAG_CUSTOM_IO;
	size_t n = sizeof FORMATS;
	char *formats = c->f->av_malloc(n); /* FFmpeg frees it */
	if (!formats)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to open a video");
	c->format->format_whitelist = memcpy(formats, FORMATS, n);
	const bool listed = is_listed(c);
	if (c->overfull)
		return stk__fail(err, STK_LIMIT, "the header lists packets of more than %d times the file's size: it is damaged",
			STK_MEDIA_MOST_TIMES);
	int code = c->f->avformat_open_input(&c->format, NULL, NULL, NULL);
	if (code == AVERROR(ENOMEM) && !c->status)
		return stk__fail(err, STK_LIMIT, "the file has more than %d streams, or its header asks for more memory than there is",
			STK_MEDIA_MOST_STREAMS);
	if (code < 0)
		return fail_to_open(c, code, err);
	/* The headers of these formats describe the streams, so FFmpeg does not have to parse packets. */
	if (is_format(c, "mp4") || is_format(c, "matroska"))
		c->format->flags |= AVFMT_FLAG_NOPARSE | AVFMT_FLAG_NOFILLIN;
	else if ((code = c->f->avformat_find_stream_info(c->format, NULL)) < 0)
		return failed(c, code, "the streams of the file cannot be read", err);
	c->listed = c->blank = is_format(c, "mp4") && listed;
	return c->status;
}

enum stk_status stk__container_open(
	const struct stk_ffmpeg *f, const struct stk_media_input *in, struct stk_container **out, struct stk_error *err)
{
	enum { ROUNDS = 16, FREE_BYTES = 64 << 20 };
	*out = NULL;
	if (in->size <= 0)
		return stk__fail(err, STK_CORRUPT, "the file is empty; copy or download it again");
	struct stk_container *c = stk__calloc(1, sizeof *c);
	if (!c)
		return stk__fail(err, STK_NO_MEMORY, "out of memory to open a video");
	c->f = f;
	c->in = in;
	c->stream = -1;
	c->err = err;
	c->budget = in->size < INT64_MAX / ROUNDS / 2 ? in->size * ROUNDS + FREE_BYTES : INT64_MAX / 2;
	enum stk_status s = open_format(c, err);
	c->err = NULL;
	if (s) {
		stk__container_close(c);
		return s;
	}
	*out = c;
	return STK_OK;
}

void stk__container_close(struct stk_container *c)
{
	if (!c)
		return;
	c->err = NULL;
	expect(c, 0, 0);
	if (c->format)
		c->f->avformat_close_input(&c->format);
	if (c->io) {
		c->f->av_free(c->io->buffer);
		c->f->avio_context_free(&c->io);
	}
	stk__free(c);
}

const AVFormatContext *stk__container_format(const struct stk_container *c)
{
	return c->format;
}

bool stk__container_blank(const struct stk_container *c)
{
	return c->blank;
}

void stk__container_read_bytes(struct stk_container *c)
{
	c->blank = false;
}

/* Returns the offset of the contents of the EBML element at `at`, whose identifier must be `id` (4 bytes), and sets *size to their size; INT64_MAX if the
 * writer did not know the size, as in live streams. Returns 0 if no such element is there. */
static int64_t element_at(const struct stk_media_input *in, int64_t at, uint32_t id, int64_t *size)
{
	uint8_t head[12];
	int n = 1;
	if (stk__media_read(in, at, head, sizeof head, NULL) || big_endian(head, 4) != id || head[4] == 0)
		return 0;
	while (!(head[4] & 0x80 >> (n - 1)))
		n++;
	const uint64_t most = ((uint64_t)1 << 7 * n) - 1, value = big_endian(head + 4, n) & most;
	*size = value == most ? INT64_MAX : (int64_t)value;
	return at + 4 + n;
}

static enum stk_extent matroska_extent(const struct stk_container *c)
{
	const uint32_t EBML = 0x1a45dfa3, SEGMENT = 0x18538067;
	int64_t size = 0, at = element_at(c->in, 0, EBML, &size);
	if (!at || size > c->in->size - at)
		return STK_EXTENT_UNKNOWN;
	at = element_at(c->in, at + size, SEGMENT, &size);
	if (!at || size == INT64_MAX)
		return STK_EXTENT_UNKNOWN;
	return size > c->in->size - at ? STK_EXTENT_CUT : STK_EXTENT_WHOLE;
}

enum { PAGE_HEAD = 27, PAGE_FLAGS = 5, PAGE_SERIAL = 14, PAGE_CRC = 22, PAGE_SEGMENTS = 26, PAGE_MOST = PAGE_HEAD + 255 + 255 * 255 };

/* Returns the size of the Ogg page at `p` by its header; 0 if no page begins there; SIZE_MAX if the header does not end within `left` bytes. */
static size_t page_size(const uint8_t *p, size_t left)
{
	if (memcmp(p, "OggS", left < 4 ? left : 4) != 0)
		return 0;
	if (left < PAGE_HEAD || left < PAGE_HEAD + (size_t)p[PAGE_SEGMENTS])
		return SIZE_MAX;
	size_t size = PAGE_HEAD + (size_t)p[PAGE_SEGMENTS];
	for (int i = 0; i < p[PAGE_SEGMENTS]; i++)
		size += p[PAGE_HEAD + i];
	return size;
}

/* Returns whether the checksum of an Ogg page is right. Bytes inside of a page can look like the beginning of another page, but have no right checksum. */
static bool is_page(const uint8_t *p, size_t size)
{
	const uint32_t POLYNOMIAL = 0x04c11db7;
	uint32_t table[256],
		crc = 0; /* The table has the remainder of each byte. Filling it takes less time than it saves for a page of 1 KB. */
	for (uint32_t byte = 0; byte < 256; byte++) {
		table[byte] = byte << 24;
		for (int k = 0; k < 8; k++)
			table[byte] = table[byte] << 1 ^ (table[byte] >> 31 ? POLYNOMIAL : 0);
	}
	for (size_t i = 0; i < size; i++)
		crc = crc << 8 ^ table[crc >> 24 ^ (i >= PAGE_CRC && i < PAGE_CRC + 4 ? 0 : p[i])];
	return crc == stk__get32(p + PAGE_CRC, true);
}

/* Finds the extent of an Ogg file by the pages at its end. The file is cut if the last page is incomplete, or if a stream's last page is damaged or is not marked as its end.
 * Computes checksums, which take most of the time, only of last pages and of pages without another page next to them. */
static enum stk_extent extent_of_pages(const uint8_t *p, size_t size)
{
	enum { END = 4, MOST_STREAMS = 16 };
	uint32_t serials[MOST_STREAMS];
	size_t last[MOST_STREAMS]; /* offset of each stream's last page */
	bool follows = false;      /* a page ends at `at` */
	int n = 0;
	for (size_t at = 0; at < size;) {
		const size_t page = page_size(p + at, size - at);
		if (page > size - at && follows)
			return STK_EXTENT_CUT;
		const size_t left = page <= size - at ? size - at - page : 0;
		follows = page > 0 && page <= size - at && (follows || (left && page_size(p + at + page, left)) || is_page(p + at, page));
		if (!follows) {
			at++;
			continue;
		}
		const uint32_t serial = stk__get32(p + at + PAGE_SERIAL, true);
		int k = 0;
		while (k < n && serials[k] != serial)
			k++;
		if (k < MOST_STREAMS) {
			serials[k] = serial;
			last[k] = at;
			n += k == n;
		}
		at += page;
	}
	bool all = true;
	for (int k = 0; k < n; k++)
		all &= p[last[k] + PAGE_FLAGS] & END && is_page(p + last[k], page_size(p + last[k], size - last[k]));
	return n == 0 ? STK_EXTENT_UNKNOWN : all ? STK_EXTENT_WHOLE : STK_EXTENT_CUT;
}

static enum stk_extent ogg_extent(const struct stk_container *c)
{
	const size_t size = c->in->size < 2 * PAGE_MOST ? (size_t)c->in->size : 2 * PAGE_MOST;
	uint8_t *p = stk__alloc(size);
	const bool read = p && !stk__media_read(c->in, c->in->size - (int64_t)size, p, size, NULL);
	const enum stk_extent extent = read ? extent_of_pages(p, size) : STK_EXTENT_UNKNOWN;
	stk__free(p);
	return extent;
}

/* Returns whether all packets lie in the file, although it ends in the chunk RIFF whose contents begin at `at`: only the index is cut. If the packets of
 * different streams are not interleaved, FFmpeg leaves out those that an incomplete index lacks. So either the index must be missing as a whole, or FFmpeg must
 * have read all packets. The header states their number only for a video. */
static bool lacks_only_index(const struct stk_container *c, int64_t at)
{
	enum { HEAD = 8, LIST = 12, ENTRY = 16, MOST = 1000 };
	const AVStream *stream = c->format->streams[c->stream];
	const bool counted = stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO && stream->nb_frames > 0;
	uint8_t head[LIST];
	for (int i = 0; i < MOST && c->in->size - at >= LIST && !stk__media_read(c->in, at, head, LIST, NULL); i++) {
		const int64_t size = stk__get32(head + 4, true);
		at += HEAD + size + (size & 1);
		if (memcmp(head, "LIST", 4) == 0 && memcmp(head + HEAD, "movi", 4) == 0) {
			const int64_t left = c->in->size - at;
			return size > LIST - HEAD && left >= 0 && (left < HEAD + ENTRY || (counted && c->packets >= stream->nb_frames));
		}
	}
	return false;
}

/* Compares the file's size with those that its chunks RIFF state. Larger AVI files have several of them. */
static enum stk_extent avi_extent(const struct stk_container *c)
{
	/* SLACK: some programs count the chunk's header or its byte of padding. So few bytes can hold only a part of the index. LARGE: no program begins another
	 * chunk after fewer bytes, so a larger chunk may have been followed by one that is missing. */
	enum { HEAD = 8, KIND = 4, MOST = 10000, SLACK = 9, LARGE = 1 << 29 };
	int64_t at = 0, size = LARGE;
	for (int i = 0; i < MOST; i++) {
		uint8_t head[HEAD];
		if (c->in->size - at < HEAD || stk__media_read(c->in, at, head, HEAD, NULL) || memcmp(head, "RIFF", 4) != 0)
			break;
		size = stk__get32(head + 4, true);
		/* Programs that cannot return to the header leave such sizes in it. */
		if (size == 0 || (size & 0x7ffff000) == 0x7ffff000)
			return STK_EXTENT_UNKNOWN;
		if (size - SLACK > c->in->size - at - HEAD && (size >= LARGE || !lacks_only_index(c, at + HEAD + KIND)))
			return STK_EXTENT_CUT;
		at += HEAD + size + (size & 1);
	}
	return size < LARGE ? STK_EXTENT_WHOLE : STK_EXTENT_UNKNOWN;
}

/* Returns whether all packets of the chosen stream that the moov box lists lie in the file. */
static bool has_listed(const struct stk_container *c)
{
	AVStream *stream = c->format->streams[c->stream];
	const int n = c->f->avformat_index_get_entries_count(stream);
	for (int i = 0; i < n; i++) {
		const AVIndexEntry *e = c->f->avformat_index_get_entry(stream, i);
		if (!(e->flags & AVINDEX_DISCARD_FRAME) && e->pos > c->in->size - e->size)
			return false;
	}
	return true;
}

/* Returns whether the file ends with the box that programs write after the last fragment of MP4. */
static bool ends_with_mfro(const struct stk_container *c)
{
	enum { SIZE = 16, NAME = 4 };
	uint8_t box[SIZE];
	return c->in->size >= SIZE && !stk__media_read(c->in, c->in->size - SIZE, box, SIZE, NULL) && memcmp(box + NAME, "mfro", 4) == 0;
}

/* An MP4 file with fragments is cut if it ends in a fragment: in or before its mdat box. Finds the last fragment from the end of the file. If it is complete,
 * others may be missing after it. */
static enum stk_extent mp4_extent(const struct stk_container *c)
{
	if (c->blank) /* only reading a packet shows whether the file has its bytes */
		return STK_EXTENT_UNKNOWN;
	if (c->listed)
		return has_listed(c) ? STK_EXTENT_WHOLE : STK_EXTENT_CUT;
	enum { HEAD = 16, BLOCK = 64 << 10, MOST = 64 << 20 }; /* HEAD: from the header of a moof box to the name of the mfhd box in it */
	uint8_t *p = stk__alloc(BLOCK + HEAD);
	int64_t at = -1;
	for (int64_t from = c->in->size; p && at < 0 && from > 0 && c->in->size - from < MOST;) {
		const int64_t begin = from > BLOCK ? from - BLOCK : 0, left = c->in->size - begin;
		const int64_t n = left < from - begin + HEAD ? left : from - begin + HEAD;
		if (stk__media_read(c->in, begin, p, (size_t)n, NULL))
			break;
		for (int64_t i = n - HEAD; i >= 0 && at < 0; i--)
			if (memcmp(p + i + 4, "moof", 4) == 0 && memcmp(p + i + 12, "mfhd", 4) == 0)
				at = begin + i;
		from = begin;
	}
	bool cut = false, open = false; /* open: the mdat box of the last fragment has not come yet */
	struct box box;
	for (; at >= 0 && !cut && next_box(c->in, at, c->in->size, &box); at = box.size ? box.end : -1) {
		const bool moof = is_named(&box, "moof"), mdat = is_named(&box, "mdat");
		open = moof || (open && !mdat);
		cut = box.size > (uint64_t)(c->in->size - at) && (moof || mdat);
	}
	stk__free(p);
	if (cut || open)
		return STK_EXTENT_CUT;
	return ends_with_mfro(c) ? STK_EXTENT_WHOLE : STK_EXTENT_UNKNOWN;
}

/* An FLV file is cut if its last tag is incomplete. A tag's size follows it, so the end of an intact file shows where its last tag begins. If it is complete,
 * others may be missing after it. */
static enum stk_extent flv_extent(const struct stk_container *c)
{
	enum { HEAD = 11, SIZE = 4, AUDIO = 8, VIDEO = 9, SCRIPT = 18, KIND = 31 };
	uint8_t head[HEAD];
	const struct stk_media_input *in = c->in;
	if (in->size < HEAD + SIZE || stk__media_read(in, in->size - SIZE, head, SIZE, NULL))
		return STK_EXTENT_UNKNOWN;
	const int64_t last = (int64_t)big_endian(head, SIZE);
	if (last >= HEAD && last <= in->size - SIZE && !stk__media_read(in, in->size - SIZE - last, head, HEAD, NULL) &&
		(int64_t)big_endian(head + 1, 3) == last - HEAD)
		return STK_EXTENT_UNKNOWN;
	if (stk__media_read(in, 0, head, 9, NULL))
		return STK_EXTENT_UNKNOWN;
	for (int64_t at = (int64_t)big_endian(head + 5, 4) + SIZE; at < in->size;) {
		const int64_t left = in->size - at;
		if (stk__media_read(in, at, head, (size_t)(left < HEAD ? left : HEAD), NULL))
			return STK_EXTENT_UNKNOWN;
		const int kind = head[0] & KIND;
		if (kind != AUDIO && kind != VIDEO && kind != SCRIPT)
			return STK_EXTENT_UNKNOWN;
		const int64_t size = left < HEAD ? HEAD : HEAD + (int64_t)big_endian(head + 1, 3);
		if (left < HEAD || size > left || (size < left && left - size < SIZE))
			return STK_EXTENT_CUT;
		at += size + SIZE;
	}
	return STK_EXTENT_UNKNOWN;
}

/* An IVF file is cut if it has fewer frames than its header says. Some programs write the duration in time bases instead of the number of frames, so files
 * in which the two differ are not judged; others leave 0, 0xffff or 0xffffffff. */
static enum stk_extent ivf_extent(const struct stk_container *c)
{
	enum { COUNT = 24 };
	uint8_t count[4];
	if (c->packets < 2 || (uint64_t)c->last_time - (uint64_t)c->first_time != (uint64_t)c->packets - 1 ||
		stk__media_read(c->in, COUNT, count, sizeof count, NULL))
		return STK_EXTENT_UNKNOWN;
	const int64_t frames = stk__get32(count, true);
	return frames > c->packets && frames != 0xffff && frames != UINT32_MAX ? STK_EXTENT_CUT : STK_EXTENT_UNKNOWN;
}

/* A WAV, W64, AIFF or CAF file is cut if the chunk with its samples is longer than the rest of the file. */
static enum stk_extent chunk_extent(const struct stk_container *c)
{
	enum { MOST = 4096, HEAD = 24 };
	/* Programs that cannot return to the header leave sizes from this on in it. SoX writes the smallest, in AIFF files. */
	const uint64_t unknown_32 = 0x7ef00000, unknown_64 = (uint64_t)1 << 62;
	const bool wav = is_format(c, "wav"), w64 = is_format(c, "w64"), caf = is_format(c, "caf"), long_sizes = w64 || caf;
	const int64_t head = w64 ? 24 : caf ? 12 : 8, padding = w64 ? 8 : caf ? 1 : 2;
	int64_t at = w64 ? 40 : caf ? 8 : 12;
	for (int i = 0; i < MOST && c->in->size - at >= head; i++) {
		uint8_t h[HEAD];
		if (stk__media_read(c->in, at, h, (size_t)head, NULL))
			return STK_EXTENT_UNKNOWN;
		uint64_t size = w64   ? stk__get64(h + 16, true)
				: caf ? big_endian(h + 4, 8)
				: wav ? stk__get32(h + 4, true)
				      : big_endian(h + 4, 4);
		if (size > (long_sizes ? unknown_64 : unknown_32) || (w64 && size < (uint64_t)head))
			return STK_EXTENT_UNKNOWN;
		size -= w64 ? (uint64_t)head : 0;
		at += head;
		if (memcmp(h, is_format(c, "aiff") ? "SSND" : "data", 4) == 0)
			return size > (uint64_t)(c->in->size - at) ? STK_EXTENT_CUT : STK_EXTENT_WHOLE;
		if (size > (uint64_t)(c->in->size - at))
			return STK_EXTENT_UNKNOWN;
		at += (int64_t)size;
		at += (padding - at % padding) % padding;
	}
	return STK_EXTENT_UNKNOWN;
}

static enum stk_extent au_extent(const struct stk_container *c)
{
	enum { HEAD = 12 };
	uint8_t h[HEAD];
	if (c->in->size < HEAD || stk__media_read(c->in, 0, h, HEAD, NULL))
		return STK_EXTENT_UNKNOWN;
	const int64_t begin = (int64_t)big_endian(h + 4, 4), size = (int64_t)big_endian(h + 8, 4);
	if (size == UINT32_MAX || begin > c->in->size)
		return STK_EXTENT_UNKNOWN;
	return size > c->in->size - begin ? STK_EXTENT_CUT : STK_EXTENT_WHOLE;
}

enum stk_extent stk__container_extent(const struct stk_container *c)
{
	static const struct {
		const char *name;
		enum stk_extent (*extent)(const struct stk_container *c);
	} kinds[] = {{"matroska", matroska_extent}, {"ogg", ogg_extent}, {"avi", avi_extent}, {"mp4", mp4_extent}, {"flv", flv_extent},
		{"ivf", ivf_extent}, {"wav", chunk_extent}, {"w64", chunk_extent}, {"aiff", chunk_extent}, {"caf", chunk_extent},
		{"au", au_extent}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (is_format(c, kinds[i].name))
			return kinds[i].extent(c);
	return STK_EXTENT_UNKNOWN;
}

bool stk__container_cuts(const struct stk_container *c, const AVPacket *packet)
{
	/* Other demuxers do not know the size of a packet before they read it, or set the flag for other reasons. */
	const bool only_then = is_format(c, "mp4") || is_format(c, "avi") || is_format(c, "flv");
	return only_then && packet->flags & AV_PKT_FLAG_CORRUPT;
}

static const char *kind_name(enum AVMediaType kind)
{
	return kind == AVMEDIA_TYPE_VIDEO ? "video" : kind == AVMEDIA_TYPE_AUDIO ? "audio" : "other";
}

enum stk_status stk__container_choose(struct stk_container *c, enum AVMediaType kind, int wanted, AVStream **out, struct stk_error *err)
{
	AVFormatContext *format = c->format;
	*out = NULL;
	if (wanted >= (int)format->nb_streams)
		return stk__fail(err, STK_INVALID, "stream %d does not exist: the file has %u streams", wanted, format->nb_streams);
	for (unsigned i = 0; i < format->nb_streams; i++) {
		AVStream *s = format->streams[i];
		const bool fits = s->codecpar->codec_type == kind && !(s->disposition & AV_DISPOSITION_ATTACHED_PIC);
		if (!*out && (wanted < 0 ? fits : (int)i == wanted))
			*out = s;
	}
	if (!*out)
		return stk__fail(err, STK_UNSUPPORTED, "the file (%s) has no %s stream", format->iformat->long_name, kind_name(kind));
	if ((*out)->codecpar->codec_type != kind)
		return stk__fail(err, STK_INVALID, "stream %d is not a %s stream", wanted, kind_name(kind));
	for (unsigned i = 0; i < format->nb_streams; i++)
		format->streams[i]->discard = format->streams[i] == *out ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
	c->stream = (*out)->index;
	return STK_OK;
}

enum stk_status stk__container_next(struct stk_container *c, AVPacket *packet, struct stk_error *err)
{
	c->err = err;
	enum stk_status s = STK_OK;
	for (;;) {
		const int code = c->f->av_read_frame(c->format, packet);
		if (c->status || code < 0) {
			if (code >= 0)
				c->f->av_packet_unref(packet);
			s = code == AVERROR_EOF && !c->status ? STK_END : failed(c, code, "the packets of the file cannot be read", err);
			break;
		}
		if (packet->stream_index == c->stream)
			break;
		c->f->av_packet_unref(packet);
	}
	if (!s) {
		c->first_time = c->packets ? c->first_time : packet->pts;
		c->last_time = packet->pts;
	}
	if (!s && ++c->packets > STK_MEDIA_MOST_PACKETS) {
		c->f->av_packet_unref(packet);
		s = stk__fail(err, STK_LIMIT, "the stream has more than %d packets", STK_MEDIA_MOST_PACKETS);
	}
	c->err = NULL;
	return s;
}
