/* SPDX-License-Identifier: Apache-2.0
 * Video files: an accepted index must be consistent, and its frames must decode, or be refused with a message, without a read outside of the file. The file is
 * read through a function, like files in stores. An index that is packed and unpacked must be the same; if a byte is changed and the hash corrected, unpacking
 * must give a consistent index or an error. */
#include "fuzz.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/xxhash.h"
#include "media/video.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct file {
	const uint8_t *data;
	size_t size;
	uint8_t *frame;
	size_t room;
};

static enum stk_status read_file(void *user, int64_t offset, void *to, size_t n, struct stk_error *err)
{
	const struct file *f = user;
	(void)err;
	if (offset < 0 || (uint64_t)offset > f->size || n > f->size - (size_t)offset)
		abort();
	memcpy(to, f->data + offset, n);
	return STK_OK;
}

static struct stk_image place_frame(void *user, int32_t k, int32_t width, int32_t height, struct stk_error *err)
{
	struct file *f = user;
	const size_t need = (size_t)width * (size_t)height * 3;
	(void)k;
	if (need > f->room) {
		uint8_t *frame = realloc(f->frame, need);
		if (!frame) {
			(void)!stk__fail(err, STK_NO_MEMORY, "no memory");
			return (struct stk_image){0};
		}
		f->frame = frame;
		f->room = need;
	}
	return stk__image_hwc(f->frame, STK_UINT8, width, height, 3);
}

static void check_index(const struct stk_video_index *x)
{
	const struct stk_video_facts *facts = stk__video_facts(x);
	const struct stk_frame_table *t = stk__video_table(x);
	if (facts->frames < 1 || facts->frames > facts->packets || t->frames != facts->frames || t->key_count < 1)
		abort();
	/* A damaged index can claim millions of frames in a few bytes. So that no input takes long, only about 10 000 frames are checked. */
	for (int32_t i = 0; i < t->frames; i += 1 + t->frames / 10000) {
		const double time = stk__video_time(x, i);
		if (t->packet_of[i] < 0 || t->packet_of[i] >= facts->packets || !isfinite(time) || !isfinite(stk__video_duration(x, i)) ||
			stk__plan_key(t, i) < 0 || (i > 0 && time < stk__video_time(x, i - 1)) || stk__video_shown(x, time) < i)
			abort();
	}
}

static void compare(const struct stk_video_index *a, const struct stk_video_index *b)
{
	const struct stk_video_facts *f = stk__video_facts(a), *g = stk__video_facts(b);
	const struct stk_frame_table *t = stk__video_table(a), *u = stk__video_table(b);
	if (memcmp(f, g, sizeof *f) != 0 || memcmp(t->packet_of, u->packet_of, (size_t)t->frames * sizeof *t->packet_of) != 0 ||
		memcmp(t->keys, u->keys, (size_t)t->key_count * sizeof *t->keys) != 0 ||
		memcmp(t->times, u->times, (size_t)f->packets * sizeof *t->times) != 0)
		abort();
	for (int32_t i = 0; i < f->frames; i++)
		if (stk__video_duration(a, i) != stk__video_duration(b, i))
			abort();
}

/* Packs the index and unpacks it: first unchanged; then with a changed byte, which `draw` determines and the hash must reveal; then with the hash corrected. */
static void pack(const struct stk_video_index *x, uint64_t draw)
{
	uint8_t *bytes;
	size_t n;
	struct stk_video_index *again;
	struct stk_error err = {0};
	if (stk__video_index_pack(x, &bytes, &n, &err) || stk__video_index_unpack(bytes, n, &again, &err))
		abort();
	compare(x, again);
	stk__video_index_destroy(again);
	bytes[draw % (n - 8)] ^= (uint8_t)(1 + draw / n % 255);
	if (stk__video_index_unpack(bytes, n, &again, &err) != STK_CORRUPT)
		abort();
	const uint64_t hash = stk__xxh64(bytes, n - 8, 0);
	memcpy(bytes + n - 8, &hash, 8);
	if (!stk__video_index_unpack(bytes, n, &again, &err))
		check_index(again);
	stk__video_index_destroy(again);
	stk__free(bytes);
}

static void decode(const struct stk_video_index *x, const struct stk_media_input *in)
{
	const struct stk_video_limits limits = {.max_pixels = 1 << 20};
	const int32_t frames = stk__video_facts(x)->frames;
	const int32_t some[] = {0, frames / 2, frames - 1};
	struct stk_video_decoder *d;
	struct stk_error err = {0};
	if (stk__video_decoder_create(&limits, &d, &err))
		abort();
	for (int i = 0; i < 3; i++) {
		const struct stk_video_wanted wanted = {.frames = &some[i], .count = 1, .destination = place_frame, .user = in->user};
		err = (struct stk_error){0};
		if (stk__video_decode(d, x, in, &wanted, &err) && !strstr(err.message, "frame "))
			abort();
	}
	stk__video_decoder_destroy(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file f = {.data = data, .size = size};
	const struct stk_media_input in = {.size = (int64_t)size, .read = read_file, .user = &f};
	struct stk_video_index *x;
	struct stk_error err = {0};
	const enum stk_status s = stk__video_index_create(&in, -1, &x, &err);
	if (s && !err.message[0])
		abort();
	if (!s) {
		check_index(x);
		pack(x, stk__xxh64(data, size, 1));
		decode(x, &in);
	}
	stk__video_index_destroy(x);
	free(f.frame);
	return 0;
}
