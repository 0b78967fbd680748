/* SPDX-License-Identifier: Apache-2.0 */
#include "stoker/audio.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/safe_text.h"
#include "format/archive_file.h"
#include "format/list.h"
#include "format/media_source.h"
#include "sound/stream.h"
#include "storage/storage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Maximum size in bytes of an object that is fetched as a whole. */
#define MOST_BYTES ((size_t)1 << 31)
/* Maximum size in bytes of the samples that are kept when a sound is decoded to find its length. Windows of a longer sound are decoded when they are read. */
#define MOST_KEPT ((size_t)128 << 20)

struct stk_audio {
	char *path;                      /* NULL: the caller gave the file's bytes */
	int fd;                          /* descriptor of a local file; -1: `path` is a URI or NULL */
	struct stk_media_source *source; /* reads ranges of an object; NULL: the sound is not an object, or is fetched as a whole */
	struct stk_storage *storage;     /* owned by the caller; may be NULL */
	uint8_t *fetched;                /* bytes of the whole file, if `path` is a URI and is not read in ranges; otherwise NULL */
	uint8_t *window;                 /* for a local file or an object: the bytes that were read last, at most STK_SOUND_READ; for
						  * a local file their offset is window_at, their number window_size */
	uint64_t window_at;
	size_t window_size;
	struct stk_sound_bytes bytes;
	struct stk_sound_info info;
	unsigned cpu; /* features of the CPU, as flags of base/cpu.h */
	bool lenient;
	/* For files that are neither WAV nor FLAC: FFmpeg's libraries, and the open file. */
	struct stk_sound_library *library;
	struct stk_sound_stream *stream;
	struct stk_cancel_poll poll;
	struct stk_cancel cancel;
	uint8_t *decoded; /* all samples of a file that had to be decoded to count them, up to MOST_KEPT bytes */
	size_t decoded_capacity;
	bool is_long; /* true if the samples had to be decoded to count them, and take, or were estimated to take, more than MOST_KEPT bytes */
};

/* ---- bytes ---- */

/* Sets *out to n bytes of a local file, from offset `at` on. They are in a->window, which is read again if it does not contain all of them. */
static enum stk_status read_window(void *user, uint64_t at, size_t n, const uint8_t **out, struct stk_error *err)
{
	struct stk_audio *a = user;
	if (at < a->window_at || at + n > a->window_at + a->window_size) {
		uint64_t remaining = a->bytes.size - at;
		size_t size = remaining < STK_SOUND_READ ? (size_t)remaining : STK_SOUND_READ;
		a->window_at = at;
		a->window_size = 0;
		while (a->window_size < size) {
			size_t had = a->window_size;
			ssize_t bytes_read = stk__fault(STK_FAULT_READ) ? (errno = EIO, -1)
									: pread(a->fd, a->window + had, size - had, (off_t)(at + had));
			if (bytes_read == 0)
				return stk__fail(err, STK_CORRUPT, "the file became shorter while it was read: it ends before byte %llu",
					(unsigned long long)(at + size));
			if (bytes_read > 0)
				a->window_size += (size_t)bytes_read;
			else if (errno != EINTR)
				return stk__fail_errno(err, errno, "reading at byte %llu", (unsigned long long)(at + had));
		}
	}
	*out = a->window + (at - a->window_at);
	return STK_OK;
}

static enum stk_status open_file(struct stk_audio *a, struct stk_error *err)
{
	struct stat st;
	a->fd = stk__file_open(a->path, &st);
	if (a->fd < 0)
		return stk__file_not_opened(a->path, &st, err);
	a->window = stk__alloc(STK_SOUND_READ);
	if (!a->window)
		return stk__fail(err, STK_NO_MEMORY, "no memory to read a sound");
	a->bytes = (struct stk_sound_bytes){read_window, a, (uint64_t)st.st_size, NULL};
	return STK_OK;
}

/* ---- objects of stores ---- */

enum { LEAST = 1 << 15, LEAST_FLAC = 1 << 18 }; /* minimum sizes of a request in bytes; larger for FLAC, whose blocks must be found */

static bool is_interrupted(void *user)
{
	struct stk_audio *a = user;
	return a->poll.interrupted && a->poll.interrupted(a->poll.user);
}

static enum stk_status read_object(void *user, uint64_t at, size_t n, const uint8_t **out, struct stk_error *err)
{
	struct stk_audio *a = user;
	const struct stk_media_input *in = stk__media_source_input(a->source);
	*out = a->window;
	return in->read(in->user, (int64_t)at, a->window, n, err);
}

static enum stk_status fetch_whole(struct stk_audio *a, struct stk_error *err)
{
	const struct stk_access access = {.storage = a->storage, .interrupted = is_interrupted, .user = a};
	size_t size = 0;
	stk__media_source_close(a->source);
	a->source = NULL;
	enum stk_status s = stk__access_read(&access, a->path, MOST_BYTES, &a->fetched, &size, err);
	a->bytes = stk__sound_memory(a->fetched, size);
	return s;
}

static enum stk_status open_object(struct stk_audio *a, struct stk_error *err)
{
	const struct stk_access access = {.storage = a->storage, .interrupted = is_interrupted, .user = a};
	if (!stk__is_object(a->path))
		return fetch_whole(a, err);
	enum stk_status s = stk__media_source_open(a->path, &access, &a->source, err);
	if (s == STK_UNSUPPORTED) /* the store does not report the object's size */
		return fetch_whole(a, err);
	if (s)
		return s;
	a->window = stk__alloc(STK_SOUND_READ);
	if (!a->window)
		return stk__fail(err, STK_NO_MEMORY, "no memory to read a sound");
	stk__media_source_read_least(a->source, LEAST);
	a->bytes = (struct stk_sound_bytes){read_object, a, (uint64_t)stk__media_source_input(a->source)->size, NULL};
	return STK_OK;
}

/* Announces the bytes of a window of a WAV in a store, so that one request reads them. Does nothing for other sounds. */
static void expect_window(const struct stk_audio *a, int64_t first, int64_t count)
{
	const struct stk_media_input *in = a->source ? stk__media_source_input(a->source) : NULL;
	if (in && in->expect && !strcmp(a->info.format, "wav"))
		in->expect(in->user, (int64_t)a->info.begin + first * a->info.frame_bytes, count * a->info.frame_bytes);
}

static enum stk_status open_bytes(struct stk_audio *a, const struct stk_audio_request *q, struct stk_error *err)
{
	a->bytes = stk__sound_memory(q->data, q->bytes);
	if (!q->path)
		return STK_OK;
	a->path = stk__strdup(q->path);
	if (!a->path)
		return stk__fail(err, STK_NO_MEMORY, "no memory to open a sound");
	return stk__is_uri(q->path) ? open_object(a, err) : open_file(a, err);
}

/* ---- files that are neither WAV nor FLAC ---- */

static enum stk_status keep_samples(void *user, const uint8_t *samples, int64_t frames, struct stk_error *err)
{
	struct stk_audio *a = user;
	const size_t used = (size_t)a->info.frames * a->info.frame_bytes, size = (size_t)frames * a->info.frame_bytes;
	a->info.frames += frames;
	a->is_long |= used + size > MOST_KEPT;
	if (a->is_long) {
		stk__free(a->decoded);
		a->decoded = NULL;
		return STK_OK;
	}
	if (used + size > a->decoded_capacity) {
		const size_t capacity = 2 * a->decoded_capacity > used + size ? 2 * a->decoded_capacity : used + size;
		uint8_t *decoded = stk__realloc(a->decoded, capacity);
		if (!decoded)
			return stk__fail(err, STK_NO_MEMORY, "no memory for the samples of a sound");
		a->decoded = decoded;
		a->decoded_capacity = capacity;
	}
	memcpy(a->decoded + used, samples, size);
	return STK_OK;
}

/* Opens the file as a stream; first fetches all of it if it is an object of a store. Counts the frames. If they can be counted only by decoding them, and all
 * samples take at most MOST_KEPT bytes, they stay in a->decoded, and the stream is closed. */
static enum stk_status open_stream(struct stk_audio *a, bool lenient, struct stk_error *err)
{
	enum stk_status s = a->source ? fetch_whole(a, err) : STK_OK;
	if (s || (s = stk__sound_library_create(&a->library, err)))
		return s;
	if ((s = stk__stream_open(a->library, &a->bytes, lenient, &a->stream, &a->info, err)) ||
		(s = stk__stream_count(a->stream, &a->cancel, &a->info.frames, err)) || a->info.frames >= 0)
		return s;
	a->is_long = a->info.expected > 0 && (uint64_t)a->info.expected * a->info.frame_bytes > MOST_KEPT;
	a->info.frames = 0;
	s = stk__stream_decode(a->stream, 0, -1, keep_samples, a, &a->cancel, err);
	if (s || a->is_long)
		return s;
	stk__stream_close(a->stream);
	a->stream = NULL;
	a->info.begin = 0;
	a->bytes = stk__sound_memory(a->decoded, (size_t)a->info.frames * a->info.frame_bytes);
	return s;
}

/* The destination of decoded samples. */
struct reading {
	const struct stk_audio *a;
	enum stk_dtype dtype;
	bool mono;
	uint8_t *to;
	int64_t left;
};

static enum stk_status convert_samples(void *user, const uint8_t *samples, int64_t frames, struct stk_error *err)
{
	struct reading *r = user;
	const struct stk_sound_info *info = &r->a->info;
	(void)err;
	frames = frames < r->left ? frames : r->left;
	stk__pcm_convert(info->pcm, samples, frames, info->channels, r->mono, r->dtype, r->to);
	r->to += (size_t)frames * (size_t)(r->mono ? 1 : info->channels) * stk_dtype_size(r->dtype);
	r->left -= frames;
	return STK_OK;
}

static enum stk_status read_stream(struct stk_audio *a, int64_t first, int64_t count, struct reading *r, struct stk_error *err)
{
	enum stk_status s = stk__stream_decode(a->stream, first, count, convert_samples, r, &a->cancel, err);
	if (!s && r->left) /* only in a file that was cut off and is read leniently: its end is silence */
		memset(r->to, 0, (size_t)r->left * (size_t)(r->mono ? 1 : a->info.channels) * stk_dtype_size(r->dtype));
	return s;
}

/* ---- the public functions ---- */

/* If the message lacks the file's name, inserts it at the beginning, and sets err->uri if that is empty. Returns s. Does nothing if the caller gave bytes
 * instead of a path. */
static enum stk_status name_file(const struct stk_audio *a, enum stk_status s, struct stk_error *err)
{
	if (!err || !a->path)
		return s;
	char name[600];
	const struct stk_error was = *err;
	snprintf(name, sizeof name, "%.*s", stk__uri_shown(a->path), a->path);
	stk__safe_text(name, sizeof name);
	if (stk__names_file(err->message, name))
		return s;
	snprintf(err->message, sizeof err->message, "%s: %.400s", name, was.message);
	stk__error_set_sample(err, a->path, -1, -1);
	return s;
}

void stk_audio_close(struct stk_audio *a)
{
	if (!a)
		return;
	stk__stream_close(a->stream);
	stk__sound_library_destroy(a->library);
	stk__free(a->decoded);
	if (a->fd >= 0)
		close(a->fd);
	stk__media_source_close(a->source);
	if (a->storage)
		stk_storage_unref(&a->storage);
	stk__free(a->fetched);
	stk__free(a->window);
	stk__free(a->path);
	stk__free(a);
}

enum stk_status stk_audio_open(
	const struct stk_audio_request *request, struct stk_audio **out, struct stk_audio_info *info, struct stk_error *err)
{
	if (STK_NEED(err, request, out, info))
		return STK_INVALID;
	*out = NULL;
	if (request->size != sizeof *request || info->size != sizeof *info || (!request->path && !request->data && request->bytes))
		return stk__fail(err, STK_INVALID, "stk_audio_open needs a path or data, and a request and an info whose size is set");
	struct stk_audio *a = stk__calloc(1, sizeof *a);
	if (!a)
		return stk__fail(err, STK_NO_MEMORY, "no memory to open a sound");
	a->fd = -1;
	a->lenient = request->lenient;
	a->poll = (struct stk_cancel_poll){.interrupted = request->interrupted, .user = request->interrupted_user};
	a->cancel.poll = request->interrupted ? &a->poll : NULL;
	a->storage = request->storage ? stk_storage_ref(request->storage) : NULL;
	enum stk_status s = open_bytes(a, request, err);
	if (!s && (s = stk__sound_peek(&a->bytes, request->lenient, &a->info, err)) == STK_UNSUPPORTED)
		s = open_stream(a, request->lenient, err);
	if (s) {
		s = name_file(a, s, err);
		stk_audio_close(a);
		return s;
	}
	if (!a->stream && !strcmp(a->info.format, "flac")) {
		a->cpu = stk__cpu_capabilities();
		if (a->source)
			stk__media_source_read_least(a->source, LEAST_FLAC);
	}
	*info = (struct stk_audio_info){.size = sizeof *info,
		.format = a->info.format,
		.coding = a->info.coding,
		.rate = a->info.rate,
		.channels = a->info.channels,
		.bits = a->info.bits,
		.frames = a->info.frames,
		.missing = a->info.missing,
		.origin = a->info.origin};
	*out = a;
	return STK_OK;
}

enum stk_status stk_audio_read(
	struct stk_audio *a, int64_t first, int64_t count, enum stk_dtype dtype, bool mono, void *to, size_t bytes, struct stk_error *err)
{
	if (STK_NEED(err, a, to))
		return STK_INVALID;
	if (dtype != STK_FLOAT && dtype != STK_INT16 && dtype != STK_INT32)
		return stk__fail(err, STK_INVALID, "samples are float32, int16 or int32; type %d was asked for", (int)dtype);
	if (first < 0 || count < 0 || first > a->info.frames || count > a->info.frames - first)
		return stk__fail(err, STK_INVALID, "the window begins at frame %lld and has %lld frames; the file has %lld",
			(long long)first, (long long)count, (long long)a->info.frames);
	size_t frame = (size_t)(mono ? 1 : a->info.channels) * stk_dtype_size(dtype);
	if (bytes / frame != (size_t)count || bytes % frame)
		return stk__fail(err, STK_INVALID, "%zu bytes are given for %lld frames of %zu bytes", bytes, (long long)count, frame);
	const struct stk_sound_window window = {.first = first,
		.count = count,
		.dtype = dtype,
		.mono = mono,
		.to = to,
		.cpu = a->cpu,
		.lenient = a->lenient,
		.cancel = &a->cancel};
	struct reading r = {a, dtype, mono, to, count};
	a->poll.next = 0;
	a->poll.has_interrupted = false;
	expect_window(a, first, count);
	enum stk_status s = a->stream ? read_stream(a, first, count, &r, err) : stk__sound_read(&a->bytes, &a->info, &window, err);
	return s ? name_file(a, s, err) : STK_OK;
}

bool stk_audio_named(const char *name)
{
	const char *dot = name ? strrchr(name, '.') : NULL;
	return dot && stk__sound_ending(dot + 1);
}
