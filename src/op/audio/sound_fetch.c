/* SPDX-License-Identifier: Apache-2.0 */
#include "op/audio/sound_fetch.h"

#include "base/cancel.h"
#include "base/error.h"
#include "format/archive_file.h"
#include "format/media_source.h"
#include "io/version.h"

#include <stdatomic.h>
#include <string.h>

/* Sizes in bytes. HEAD: header of nearly all WAVs. SMALL: largest object that is fetched in one request. START: start of a file, which contains nearly every
 * header. MARGIN: bytes that are fetched before and after the expected position of a window in a FLAC file. PIECE: minimum size of a read of bytes that were
 * not fetched. */
enum { HEAD = 44, SMALL = 1 << 18, START = 1 << 16, MARGIN = 1 << 17, PIECE = 1 << 18 };

static struct stk_part whole_part(int64_t part)
{
	return (struct stk_part){part, 0, -1};
}

void stk__sound_parts(const struct stk_sound_objects *objects, const struct stk_sound_want *want, int64_t part, const char *path,
	int64_t known, struct stk_part out[STK_SOUND_PARTS])
{
	const int64_t size = known ? known : atomic_load_explicit(&objects->mean, memory_order_relaxed);
	const bool window = want->start > 0 || want->duration >= 0;
	for (int32_t k = 0; k < STK_SOUND_PARTS; k++)
		out[k] = (struct stk_part){part, 0, 0};
	out[STK_SOUND_HEAD] = whole_part(part);
	if (window && objects->remote && (!size || size > SMALL) && stk__is_object(path))
		out[STK_SOUND_HEAD].length = HEAD;
}

/* The parts of a sample that were fetched so far. Reading other bytes fails, and does not wait for them. */
struct fetched {
	const struct stk_bytes *bytes;
	bool lacks; /* true if a read has failed because its bytes have not been fetched */
};

/* Returns the n bytes of the object from offset `at` on, if one of the fetched parts has all of them; otherwise NULL. */
static const uint8_t *find_bytes(const struct stk_bytes *bytes, uint64_t at, size_t n)
{
	for (int32_t k = 0; k < STK_SOUND_PARTS; k++) {
		const uint64_t begin = (uint64_t)bytes[k].offset;
		if (at >= begin && at - begin <= bytes[k].size && n <= bytes[k].size - (size_t)(at - begin) && bytes[k].size)
			return bytes[k].data + (at - begin);
	}
	return NULL;
}

static enum stk_status read_fetched(void *user, uint64_t at, size_t n, const uint8_t **out, struct stk_error *err)
{
	struct fetched *f = user;
	(void)err;
	*out = find_bytes(f->bytes, at, n);
	f->lacks |= !*out;
	return *out ? STK_OK : STK_NOT_FOUND;
}

static void note_size(struct stk_sound_objects *objects, int64_t size)
{
	const int64_t mean = atomic_load_explicit(&objects->mean, memory_order_relaxed);
	atomic_store_explicit(&objects->mean, mean ? mean + (size - mean) / 8 : size, memory_order_relaxed);
}

/* Sets out[] to the part that contains the window, or to the whole object if the window is more than half of it or if the window's bytes are not known. Sets no
 * part if the window is empty or not valid. */
static void name_span(const struct stk_sound_want *want, int64_t part, const struct stk_sound_bytes *bytes,
	const struct stk_sound_info *info, struct stk_part out[STK_SOUND_PARTS])
{
	struct stk_sound_state state = {.info = *info};
	uint64_t from = 0, to = 0;
	if (stk__sound_find_frames(want, &state, NULL) || !state.count) /* the operator reports the error */
		return;
	if (stk__sound_span(bytes, info, state.first, state.count, MARGIN, &from, &to) || to - from > bytes->size / 2)
		out[STK_SOUND_WHOLE] = whole_part(part);
	else
		out[STK_SOUND_SPAN] = (struct stk_part){part, (int64_t)from, (int64_t)(to - from)};
}

bool stk__sound_more(struct stk_sound_objects *objects, const struct stk_sound_want *want, int64_t part,
	const struct stk_bytes bytes[STK_SOUND_PARTS], struct stk_part out[STK_SOUND_PARTS])
{
	const int64_t size = bytes[STK_SOUND_HEAD].object;
	struct stk_sound_info info;
	for (int32_t k = 0; k < STK_SOUND_PARTS; k++)
		out[k] = (struct stk_part){part, 0, 0};
	if (bytes[STK_SOUND_HEAD].size != HEAD || size == HEAD || bytes[STK_SOUND_SPAN].size || bytes[STK_SOUND_WHOLE].size)
		return false;
	if (!bytes[STK_SOUND_START].size && size > 0)
		note_size(objects, size);
	struct fetched f = {.bytes = bytes};
	const struct stk_sound_bytes part_bytes = {.read = read_fetched, .user = &f, .size = (uint64_t)size, .costly = true};
	const enum stk_status s = size > SMALL ? stk__sound_peek(&part_bytes, false, &info, NULL) : STK_UNSUPPORTED;
	if (!s)
		name_span(want, part, &part_bytes, &info, out);
	else if (!f.lacks)
		out[STK_SOUND_WHOLE] = whole_part(part);
	else if (!bytes[STK_SOUND_START].size)
		out[STK_SOUND_START] = (struct stk_part){part, 0, START};
	return out[STK_SOUND_START].length || out[STK_SOUND_SPAN].length || out[STK_SOUND_WHOLE].length;
}

/* ---- the bytes of a sample ---- */

static bool is_cancelled(void *cancel)
{
	return stk__cancelled(cancel);
}

/* Opens the object to read bytes that were not fetched. Fails if it is another version by now, whose bytes would not fit those that were fetched. */
static enum stk_status open_source(struct stk_sound_parts *p, struct stk_error *err)
{
	const struct stk_access access = {.storage = p->call->tools->storage,
		.interrupted = is_cancelled,
		.user = (void *)(uintptr_t)p->call->tools->cancel,
		.known = true};
	enum stk_status s = stk__media_source_open(p->path, &access, &p->source, err);
	if (s)
		return s;
	const struct stk_media_version *now = stk__media_source_version(p->source);
	const uint64_t tag = now->known ? stk__etag_hash(now->version) : 0;
	if (now->size != p->all->object || (tag && p->all->tag && tag != p->all->tag)) {
		stk__sound_parts_end(p);
		return stk__fail(err, STK_IO, "%.*s: it changed while it was read", stk__uri_shown(p->path), p->path);
	}
	stk__media_source_read_least(p->source, PIECE);
	return STK_OK;
}

/* Reads n bytes, which were not fetched, from offset `at` of the object, and sets *out to them. They are valid until the next call. */
static enum stk_status read_piece(struct stk_sound_parts *p, uint64_t at, size_t n, const uint8_t **out, struct stk_error *err)
{
	enum stk_status s = STK_OK;
	if (!p->piece && !(p->piece = stk__arena_take(p->call->tools->arena, STK_SOUND_READ + 64)))
		return stk__fail(err, STK_NO_MEMORY, "out of memory for a piece of a sound");
	if (!p->source && (s = open_source(p, err)))
		return s;
	const struct stk_media_input *in = stk__media_source_input(p->source);
	*out = p->piece;
	return stk__media_read(in, (int64_t)at, p->piece, n, err);
}

static enum stk_status read_part(void *user, uint64_t at, size_t n, const uint8_t **out, struct stk_error *err)
{
	struct stk_sound_parts *p = user;
	*out = find_bytes(p->bytes, at, n);
	return *out ? STK_OK : read_piece(p, at, n, out, err);
}

struct stk_sound_bytes stk__sound_parts_begin(struct stk_sound_parts *p, const struct stk_call *call)
{
	const struct stk_bytes *bytes = call->bytes, *all = &bytes[bytes[STK_SOUND_WHOLE].size ? STK_SOUND_WHOLE : STK_SOUND_HEAD];
	*p = (struct stk_sound_parts){.bytes = bytes, .all = all, .call = call};
	if (all->size == (size_t)all->object)
		return stk__sound_memory(all->data, all->size);
	call->def->reader->uri(call->shared, call->place.sample, p->path, sizeof p->path);
	return (struct stk_sound_bytes){.read = read_part, .user = p, .size = (uint64_t)all->object, .costly = true};
}

void stk__sound_parts_end(struct stk_sound_parts *p)
{
	stk__media_source_close(p->source);
	p->source = NULL;
}
