/* SPDX-License-Identifier: Apache-2.0 */
#include "op/video/video_set.h"

#include "codec/foreign.h"
#include "format/archive_file.h"
#include "format/list.h"
#include "format/video_kept.h"
#include "format/video_list.h"
#include "io/version.h"
#include "thread/crew.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PATH = 4096 };

static enum stk_status no_memory(struct stk_error *err)
{
	return stk__fail(err, STK_NO_MEMORY, "out of memory for a list of videos");
}

/* ---- files and their ranges ---- */

static enum stk_status check_files(const struct stk_video_files *f, struct stk_error *err)
{
	const int given = (f->root && *f->root) + (f->list && *f->list) + (f->names.count > 0);
	if (given != 1)
		return stk__fail(err, STK_INVALID,
			given ? "file_root, file_list and filenames are different ways to name files: give one of them"
			      : "nothing to read: give file_root, file_list or filenames");
	if (f->labels.count >= 0 && f->names.count <= 0)
		return stk__fail(err, STK_INVALID, "labels belong to filenames: give both");
	if (f->labels.count > 0 && f->labels.count != f->names.count)
		return stk__fail(err, STK_INVALID, "there are %d filenames and %d labels", f->names.count, f->labels.count);
	return STK_OK;
}

/* Makes the list of files. If the user gave a text file with the list, fills `ranges` with the ranges in it. */
static enum stk_status list_files(struct stk_video_set *s, const struct stk_video_files *f, const struct stk_access *access,
	struct stk_video_list *ranges, struct stk_error *err)
{
	struct stk_file_list_options o = {.access = access};
	enum stk_status status = check_files(f, err);
	if (!status && f->list && *f->list)
		status = stk__video_list_read(f->list, access, ranges, err);
	if (status)
		return status;
	if (ranges->count) {
		o.files = ranges->names;
		o.labels = ranges->labels;
		o.file_count = (size_t)ranges->count;
	} else if (f->names.count > 0) {
		o.files = f->names.v;
		o.file_count = (size_t)f->names.count;
		o.labels = f->labels.count > 0 ? f->labels.v : NULL;
	} else {
		o.file_root = f->root;
		o.file_filters = stk__video_globs;
		o.filter_count = STK_VIDEO_GLOBS;
	}
	return stk__file_list_create(&o, &s->files, err);
}

/* Returns the number of the frame that begins at a time. If none does, returns the frame before that time or, with `up`, the frame after it. Returns 0 for
 * times before the first frame; with `up`, returns the number of frames for times after the start of the last one. */
static int32_t frame_at(const struct stk_video_index *x, double seconds, bool up)
{
	const double slack = 1e-9 * (1 + fabs(seconds));
	const int32_t shown = stk__video_shown(x, seconds + slack);
	if (shown < 0)
		return 0;
	return up && stk__video_time(x, shown) < seconds - slack ? shown + 1 : shown;
}

/* Rounds a frame number of the list. Negative numbers count from the end of the video. */
static double frame_number(double number, bool up, int32_t frames)
{
	const double rounded = up ? ceil(number) : floor(number);
	return rounded < 0 ? rounded + frames : rounded;
}

/* Sets out->begin and out->end to the range of frames that a line of the list selects, by times or by frame numbers (negative ones count from the end), clipped
 * to the file. Without a range, selects the whole file. */
static void find_range(const struct stk_video_set *s, const struct stk_video_list *ranges, int64_t line, struct stk_video_clip *out)
{
	const struct stk_video_index *x = s->indexes[line];
	const int32_t frames = stk__video_facts(x)->frames;
	const double *start = ranges->count ? &ranges->starts[line] : NULL, *end = ranges->count ? &ranges->ends[line] : NULL;
	double first = 0, last = frames;
	if (start && !isnan(*start))
		first = s->cut.by_number ? frame_number(*start, s->cut.start_up, frames) : frame_at(x, *start, s->cut.start_up);
	if (end && !isnan(*end))
		last = s->cut.by_number ? frame_number(*end, s->cut.end_up, frames) : frame_at(x, *end, s->cut.end_up);
	out->begin = (int32_t)(first < 0 ? 0 : first > frames ? frames : first);
	out->end = (int32_t)(last < 0 ? 0 : last > frames ? frames : last);
}

/* ---- clips ---- */

static enum stk_status add_clip(struct stk_video_set *s, struct stk_video_clip clip, struct stk_error *err)
{
	if (s->count == s->capacity) {
		const int64_t capacity = s->capacity ? 2 * s->capacity : 64;
		struct stk_video_clip *clips = stk__realloc(s->clips, (size_t)capacity * sizeof *clips);
		if (!clips)
			return no_memory(err);
		s->clips = clips;
		s->capacity = capacity;
	}
	s->clips[s->count++] = clip;
	return STK_OK;
}

static enum stk_status cut_file(struct stk_video_set *s, struct stk_video_clip range, struct stk_error *err)
{
	const struct stk_video_cut *c = &s->cut;
	const int64_t step = c->step > 0 ? c->step : c->length * c->stride, before = s->count;
	enum stk_status status = STK_OK;
	for (int64_t first = range.begin; first < range.end && !status; first += step) {
		const bool whole = first + c->span <= range.end;
		range.first = (int32_t)first;
		if (c->uniform || c->pad != STK_CLIP_NONE || whole)
			status = add_clip(s, range, err);
		if (c->uniform || (c->one_padded && !whole))
			break;
	}
	if (s->count == before && !status && s->skipped++ == 0) {
		char path[200];
		stk__file_list_path(s->files, range.file, path, sizeof path);
		snprintf(s->skipped_text, sizeof s->skipped_text, "videos too short for a clip, as %.150s with %d frames in its range",
			path, range.end > range.begin ? range.end - range.begin : 0);
	}
	return status;
}

/* ---- opening ---- */

struct opening {
	struct stk_video_set *set;
	const struct stk_access *access;
	int64_t count;
	_Atomic int64_t opened;
	_Atomic bool stop;
};

static bool is_cancelled(void *user)
{
	return atomic_load(&((struct opening *)user)->stop);
}

static bool ask_access(void *user, int32_t done)
{
	const struct stk_access *access = ((struct opening *)user)->access;
	(void)done;
	return !access || !access->interrupted || !access->interrupted(access->user);
}

/* Puts the file's path before the error message, unless the message names the file, and appends the file's number if there are several files. Returns the
 * status. */
static enum stk_status name_file(const struct opening *o, int32_t i, const char *path, enum stk_status status, struct stk_error *err)
{
	char was[600], shown[MOST_PATH];
	if (!err || status == STK_CANCELLED)
		return status;
	snprintf(was, sizeof was, "%.599s", err->message);
	snprintf(shown, sizeof shown, "%.*s", stk__uri_shown(path), path);
	const bool named = stk__names_file(was, shown);
	if (o->count == 1)
		return named ? status : stk__fail_again(err, status, "%.300s: %s", path, was);
	return stk__fail_again(
		err, status, "%.300s%s%s (video %d of %lld)", named ? "" : path, named ? "" : ": ", was, i + 1, (long long)o->count);
}

static enum stk_status open_file(void *user, int32_t i, struct stk_error *err)
{
	struct opening *o = user;
	char path[MOST_PATH];
	const struct stk_access access = {.storage = o->access ? o->access->storage : NULL, .interrupted = is_cancelled, .user = o};
	stk__file_list_path(o->set->files, i, path, sizeof path);
	struct stk_media_source *source;
	const enum stk_status status = stk__video_open(path, &access, -1, &o->set->indexes[i], &source, NULL, err);
	if (status)
		return name_file(o, i, path, status, err);
	const struct stk_media_version *v = stk__media_source_version(source);
	const bool remote = stk__is_object(path);
	o->set->objects[i] = (struct stk_known_object){.size = remote ? v->size : 0,
		.tag = remote ? stk__etag_hash(v->version) : stk__file_version_hash(v->size, v->modified_ns),
		.pinned = true,
		.remote = remote};
	stk__media_source_close(source);
	atomic_fetch_add(&o->opened, 1);
	return STK_OK;
}

/* Opens all `count` files on several threads. Returns STK_CANCELLED if the user interrupts the call. */
static enum stk_status open_files(struct stk_video_set *s, const struct stk_access *access, int64_t count, struct stk_error *err)
{
	enum { LOCAL_THREADS = 8, REMOTE_THREADS = 64 };
	struct opening o = {.set = s, .access = access, .count = count};
	char path[MOST_PATH] = "";
	if (count > INT32_MAX)
		return stk__fail(err, STK_LIMIT, "there are %lld videos; a reader takes at most 2^31 - 1", (long long)count);
	if (count > 0)
		stk__file_list_path(s->files, 0, path, sizeof path);
	const struct stk_crew crew = {.count = (int32_t)count,
		.threads = stk__is_object(path) ? REMOTE_THREADS : LOCAL_THREADS,
		.run = open_file,
		.progress = ask_access,
		.user = &o,
		.stop = &o.stop};
	const enum stk_status status = stk__crew_run(&crew, err);
	if (status == STK_CANCELLED)
		return stk__fail(err, status, "interrupted when %lld of %lld videos were opened", (long long)atomic_load(&o.opened),
			(long long)count);
	return status;
}

enum stk_status stk__video_set_open(const struct stk_video_files *files, const struct stk_video_cut *cut, const struct stk_access *access,
	struct stk_video_set **out, struct stk_error *err)
{
	struct stk_video_list ranges = {0};
	*out = NULL;
	struct stk_video_set *s = stk__calloc(1, sizeof *s);
	if (!s)
		return no_memory(err);
	s->cut = *cut;
	enum stk_status status = list_files(s, files, access, &ranges, err);
	const int64_t count = status ? 0 : stk__file_list_size(s->files);
	if (!status && (!(s->indexes = stk__calloc((size_t)count + 1, sizeof *s->indexes)) ||
			       !(s->objects = stk__calloc((size_t)count + 1, sizeof *s->objects))))
		status = no_memory(err);
	if (!status)
		status = open_files(s, access, count, err);
	for (int64_t i = 0; i < count && !status; i++) {
		struct stk_video_clip range = {.file = (int32_t)i};
		find_range(s, &ranges, i, &range);
		status = cut_file(s, range, err);
	}
	stk__video_list_free(&ranges);
	if (!status && s->count == 0)
		status = stk__fail(err, STK_INVALID, "there is no clip of %lld frames: %.250s", (long long)cut->length,
			s->skipped ? s->skipped_text : "no videos were found");
	if (status) {
		stk__video_set_close(s);
		return status;
	}
	*out = s;
	return STK_OK;
}

void stk__video_set_close(void *set)
{
	struct stk_video_set *s = set;
	if (!s)
		return;
	for (int64_t i = 0; s->indexes && i < stk__file_list_size(s->files); i++)
		stk__video_index_destroy(s->indexes[i]);
	if (s->files)
		stk__file_list_destroy(s->files);
	stk__free(s->indexes);
	stk__free(s->objects);
	stk__free(s->clips);
	stk__free(s);
}

void stk__video_set_frames(const struct stk_video_set *s, int64_t clip, int32_t *out)
{
	const struct stk_video_clip *v = &s->clips[clip];
	const struct stk_video_cut *c = &s->cut;
	const int64_t frames = v->end - v->begin;
	for (int64_t k = 0; k < c->length; k++) {
		if (c->uniform) {
			out[k] = v->begin +
				 (int32_t)floor(c->length > 1 ? (double)k * (double)(frames - 1) / (double)(c->length - 1) + .5 : 0);
			continue;
		}
		const int64_t i = stk__clip_continue(v->first - v->begin + k * c->stride, frames, c->pad);
		out[k] = i < 0 ? STK_CLIP_FILL : v->begin + (int32_t)i;
	}
}

/* ---- functions of the reader ---- */

int64_t stk__video_set_size(const void *shared)
{
	return ((const struct stk_video_set *)shared)->count;
}

static uint64_t digest_of(const void *shared, int64_t first, int64_t count, enum stk_digest_form form)
{
	const struct stk_video_set *s = shared;
	uint64_t h = 0;
	for (int64_t i = first; i < first + count; i++) {
		const struct stk_video_clip *v = &s->clips[i];
		const uint64_t file = stk__file_list_digest(s->files, v->file, 1, form);
		h = stk__hash_bytes(h, &file, sizeof file);
		h = stk__hash_bytes(h, &v->first, sizeof *v - offsetof(struct stk_video_clip, first));
	}
	return h;
}

uint64_t stk__video_set_digest(const void *shared, int64_t first, int64_t count)
{
	return digest_of(shared, first, count, STK_DIGEST_NOW);
}

uint64_t stk__video_set_fingerprint(const void *shared, enum stk_digest_form form)
{
	const struct stk_video_set *s = shared;
	const int64_t cut[] = {s->cut.length, s->cut.stride, s->cut.pad, s->cut.uniform};
	return stk__hash_bytes(digest_of(shared, 0, s->count, form), cut, sizeof cut);
}

size_t stk__video_set_uri(const void *shared, int64_t id, char *uri, size_t capacity)
{
	const struct stk_video_set *s = shared;
	return stk__file_list_path(s->files, s->clips[id].file, uri, capacity);
}

size_t stk__video_set_part_uri(const void *shared, int64_t file, char *uri, size_t capacity)
{
	return stk__file_list_path(((const struct stk_video_set *)shared)->files, file, uri, capacity);
}

void stk__video_set_object(const void *shared, int64_t file, struct stk_known_object *out)
{
	*out = ((const struct stk_video_set *)shared)->objects[file];
}

int64_t stk__video_set_skipped(const void *shared, const char **text)
{
	const struct stk_video_set *s = shared;
	*text = s->skipped_text;
	return s->skipped;
}

/* ---- bytes ---- */

static int by_number(const void *a, const void *b)
{
	return (*(const int32_t *)a > *(const int32_t *)b) - (*(const int32_t *)a < *(const int32_t *)b);
}

/* Finds the byte ranges of a file that a clip needs, and returns their number. Joins ranges that are at most 64 KiB apart. If there are more than
 * STK_VIDEO_PARTS, the last range includes all remaining ones. If memory is short, the only range is the whole file (length -1). */
static int32_t find_ranges(const struct stk_video_set *s, int64_t id, int64_t offsets[STK_VIDEO_PARTS], int64_t lengths[STK_VIDEO_PARTS])
{
	const int32_t length = (int32_t)s->cut.length;
	const struct stk_video_index *x = s->indexes[s->clips[id].file];
	int32_t *frames = stk__alloc((size_t)length * sizeof *frames), n = 0, unique = 0;
	struct stk_segment *segments = stk__alloc((size_t)length * sizeof *segments);
	if (!frames || !segments) { /* no memory for the plan: requests the whole file */
		offsets[0] = 0;
		lengths[0] = -1;
		n = 1;
	} else {
		stk__video_set_frames(s, id, frames);
		qsort(frames, (size_t)length, sizeof *frames, by_number);
		for (int32_t i = 0; i < length; i++)
			if (frames[i] >= 0 && (unique == 0 || frames[i] != frames[unique - 1]))
				frames[unique++] = frames[i];
		const int32_t count = stk__plan(stk__video_table(x), frames, unique, segments);
		for (int32_t i = 0; i < count; i++) {
			int64_t offset, size;
			if (!stk__video_range(x, &segments[i], &offset, &size))
				continue;
			const bool joins = n > 0 && (n == STK_VIDEO_PARTS || (offset <= offsets[n - 1] + lengths[n - 1] + (64 << 10) &&
										     offset >= offsets[n - 1]));
			if (!joins) {
				offsets[n] = offset;
				lengths[n++] = size;
				continue;
			}
			const int64_t first = offset < offsets[n - 1] ? offset : offsets[n - 1], end = offsets[n - 1] + lengths[n - 1];
			lengths[n - 1] = (offset + size > end ? offset + size : end) - first;
			offsets[n - 1] = first;
		}
	}
	stk__free(frames);
	stk__free(segments);
	return n;
}

void stk__video_set_parts(const void *shared, int64_t id, struct stk_part *out)
{
	const struct stk_video_set *s = shared;
	int64_t offsets[STK_VIDEO_PARTS], lengths[STK_VIDEO_PARTS];
	const int32_t n = find_ranges(s, id, offsets, lengths);
	for (int32_t k = 0; k < STK_VIDEO_PARTS; k++)
		out[k] = (struct stk_part){s->clips[id].file, k < n ? offsets[k] : 0, k < n ? lengths[k] : 0};
}

/* The ranges of a file's bytes that a sample has fetched. */
struct ranges {
	const struct stk_bytes *bytes;
	struct stk_part parts[STK_VIDEO_PARTS];
};

static enum stk_status read_ranges(void *user, int64_t offset, void *to, size_t n, struct stk_error *err)
{
	const struct ranges *r = user;
	for (int32_t k = 0; k < STK_VIDEO_PARTS; k++) {
		const int64_t inside = offset - r->parts[k].offset;
		if (inside >= 0 && (uint64_t)inside <= r->bytes[k].size && n <= r->bytes[k].size - (size_t)inside) {
			memcpy(to, r->bytes[k].data + inside, n);
			return STK_OK;
		}
	}
	return stk__fail(err, STK_CORRUPT,
		"a key frame that decoding needs lies before the one that the file names: the file's list of key frames is wrong");
}

enum stk_status stk__video_set_decode(const struct stk_call *call, const struct stk_clip_style *style, const int32_t *frames,
	const struct stk_tensor *out, struct stk_error *err)
{
	const struct stk_video_set *s = call->shared;
	struct ranges ranges = {.bytes = call->bytes};
	stk__video_set_parts(s, call->place.sample, ranges.parts);
	const struct stk_media_input in = {.size = INT64_MAX, .read = read_ranges, .user = &ranges};
	const struct stk_video_index *x = s->indexes[s->clips[call->place.sample].file];
	return stk__clip_decode(call, x, &in, frames, (int32_t)s->cut.length, style, out, err);
}
