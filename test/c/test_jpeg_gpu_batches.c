/* SPDX-License-Identifier: Apache-2.0
 * Compares batches of the CUDA decoder with libjpeg-turbo and the CPU. Skipped without a GPU; shorter on the emulated one. */
#include "base/cpu.h"
#include "base/memory.h"
#include "codec/codec.h"
#include "codec/orient.h"
#include "cuda_files.h"
#include "exec/device_memory.h"
#include "kernel/pass/pass_kernels.h"

/* ---- the batch interface ---- */

enum { FILES = 32, WINDOW_BYTES = 700 * 500 * 3 };

/* A batch that the GPU decodes. The pass of each file copies a window of the decoded image unchanged. */
struct flight {
	struct stk_jpeg_gpu_batch *batch;
	stk_gpu_stream stream;
	uint8_t *pinned;
	stk_gpu_ptr out;
	struct file files[FILES];
	struct stk_pass passes[FILES];
	struct stk_jpeg_gpu_item items[FILES];
};

static void draw_flight(struct flight *f, bool damage)
{
	uint8_t *at = f->pinned;
	for (int i = 0; i < FILES; i++) {
		struct file *file = &f->files[i];
		make_file(file, damage);
		memcpy(at, file->data, file->size);
		stk__pass_begin(&f->passes[i], STK_UINT8, file->header.width, file->header.height, 3);
		stk__pass_window(&f->passes[i], file->window, NULL);
		struct stk_jpeg_gpu_item *it = &f->items[i];
		*it = (struct stk_jpeg_gpu_item){.data = at,
			.size = file->size,
			.header = &file->header,
			.window = stk__pass_source(&f->passes[i]),
			.pass = &f->passes[i],
			.dst = stk__image_hwc(
				(void *)(uintptr_t)(f->out + (uint64_t)i * WINDOW_BYTES), STK_UINT8, file->window.w, file->window.h, 3)};
		assert_true(stk__jpeg_gpu_need(it, &it->need) || it->need.files.images == 0);
		at += file->size + draw(3) * 3000;
	}
}

static void check_window(struct stk_gpu_device *dev, const struct file *f, const struct stk_jpeg_gpu_item *it)
{
	int w, h;
	long warnings;
	size_t row = 3 * (size_t)f->window.w, bytes = row * (size_t)f->window.h;
	uint8_t *got = malloc(bytes), *want = jpeg_reference_decode(f->data, f->size, f->window.y + f->window.h, &w, &h, &warnings);
	ok(stk__gpu_download(dev, NULL, got, (stk_gpu_ptr)(uintptr_t)it->dst.data, bytes, &err));
	ok(stk__gpu_stream_sync(dev, NULL, &err));
	/* libjpeg-turbo decodes all rows of a progressive file, whichever are requested, so it may warn of damage below the window. */
	bool unseen = f->header.process == STK_JPEG_PROGRESSIVE && f->window.y + f->window.h < h;
	if (!want || (warnings && !unseen))
		fail_msg("%s: taken for right where libjpeg-turbo complains", f->name);
	for (int y = 0; y < f->window.h && !warnings; y++)
		equal(f->name, want + ((size_t)(f->window.y + y) * (size_t)w + (size_t)f->window.x) * 3, got + (size_t)y * row, row);
	free(want);
	free(got);
}

/* Three batches in flight take turns on the same streams. The memory of a stream holds only a part of a batch, so each batch is decoded in several parts. */
static void batches_in_flight_equal_libjpeg_turbo(void **state)
{
	enum { BATCHES = 3, MEMORY = 12 << 20 };
	struct stk_gpu_device *dev = need_gpu(state);
	static struct flight flights[BATCHES];
	struct stk_jpeg_gpu *d;
	int count[4] = {0};
	ok(stk__jpeg_gpu_create(dev, MEMORY, &d, &err));
	for (int b = 0; b < BATCHES; b++) {
		ok(stk__jpeg_gpu_batch_create(d, &flights[b].batch, &err));
		ok(stk__gpu_host_alloc(dev, 16 << 20, (void **)&flights[b].pinned, &err));
		ok(stk__gpu_alloc(dev, FILES * WINDOW_BYTES, &flights[b].out, &err));
		ok(stk__gpu_stream_create(dev, STK_GPU_LOW, &flights[b].stream, &err));
	}
	int parts = 0;
	for (int round = 0; round < (is_emulated(dev) ? 1 : 4); round++) {
		for (int b = 0; b < BATCHES; b++) {
			struct flight *f = &flights[b];
			draw_flight(f, b == 2);
			ok(stk__jpeg_gpu_submit(f->batch, f->items, FILES, &err));
			parts += stk__jpeg_gpu_parts(f->batch);
			assert_true(stk__jpeg_gpu_memory(d) <= MEMORY);
		}
		for (int b = 0; b < BATCHES; b++) {
			struct flight *f = &flights[b];
			ok(stk__jpeg_gpu_wait(f->batch, &err));
			for (int i = 0; i < FILES; i++) {
				enum stk_jpeg_gpu_verdict verdict = stk__jpeg_gpu_verdict(f->batch, i);
				count[verdict]++;
				if (verdict == STK_JPEG_GPU_OK)
					check_window(dev, &f->files[i], &f->items[i]);
			}
			/* Decodes twice more. The second time must not allocate, since memory that was too small has been enlarged by then. */
			uint64_t allocations = 0;
			for (int again = 0; again < 2; again++) {
				allocations = stk__alloc_count();
				ok(stk__jpeg_gpu_submit(f->batch, f->items, FILES, &err));
				ok(stk__jpeg_gpu_join(f->batch, f->stream, &err));
				ok(stk__gpu_stream_sync(dev, f->stream, &err));
			}
			assert_int_equal(allocations, stk__alloc_count());
			free_files(f->files, FILES);
		}
	}
	print_message("%d right, %d refused, %d flagged; %d parts\n", count[0], count[1], count[2], parts);
	assert_true(count[0] > (is_emulated(dev) ? 35 : 140));
	assert_true(parts > (is_emulated(dev) ? 1 : 4) * BATCHES);
	for (int b = 0; b < BATCHES; b++) {
		stk__jpeg_gpu_batch_destroy(flights[b].batch);
		stk__gpu_host_free(dev, flights[b].pinned);
		stk__gpu_free(dev, flights[b].out);
		stk__gpu_stream_destroy(dev, flights[b].stream);
	}
	stk__jpeg_gpu_destroy(d);
}

/* If a file is too large for any stream, the CPU decodes it; the other files of its batch are decoded on the GPU. */
static void files_over_the_memory_are_refused(void **state)
{
	struct stk_gpu_device *dev = need_gpu(state);
	static struct flight f;
	struct stk_jpeg_gpu *d;
	size_t most = 0, least = SIZE_MAX;
	ok(stk__gpu_host_alloc(dev, 16 << 20, (void **)&f.pinned, &err));
	ok(stk__gpu_alloc(dev, FILES * WINDOW_BYTES, &f.out, &err));
	draw_flight(&f, false);
	for (int i = 0; i < FILES; i++) {
		size_t bytes = stk__jpeg_gpu_bytes(&f.items[i].need);
		most = bytes > most ? bytes : most;
		least = bytes < least ? bytes : least;
	}
	size_t limit = (most + least) / 2;
	ok(stk__jpeg_gpu_create(dev, limit, &d, &err));
	ok(stk__jpeg_gpu_batch_create(d, &f.batch, &err));
	ok(stk__jpeg_gpu_submit(f.batch, f.items, FILES, &err));
	ok(stk__jpeg_gpu_wait(f.batch, &err));
	int right = 0;
	for (int i = 0; i < FILES; i++) {
		if (stk__jpeg_gpu_bytes(&f.items[i].need) > limit)
			assert_int_equal(stk__jpeg_gpu_verdict(f.batch, i), STK_JPEG_GPU_REFUSED);
		else if (stk__jpeg_gpu_verdict(f.batch, i) == STK_JPEG_GPU_OK && ++right)
			check_window(dev, &f.files[i], &f.items[i]);
	}
	assert_true(right > 0);
	stk__jpeg_gpu_batch_destroy(f.batch);
	stk__jpeg_gpu_destroy(d);
	stk__gpu_host_free(dev, f.pinned);
	stk__gpu_free(dev, f.out);
	free_files(f.files, FILES);
}

/* ---- types and turned images ---- */

/* Computes an item's result on the CPU: decodes the whole image and applies the item's pass to it. */
static void decode_on_cores(const struct stk_jpeg_gpu_item *it, struct stk_decoder *decoder, uint8_t *out, size_t bytes)
{
	struct stk_image_info info;
	struct stk_codec_limits limits = {0};
	int32_t w, h;
	ok(stk__image_peek(it->data, it->size, &limits, &info, &err));
	info.orientation = it->orientation;
	stk__image_extent(&info, true, &w, &h);
	int32_t channels = it->type == STK_GRAY ? 1 : 3;
	uint8_t *pixels = malloc((size_t)w * (size_t)h * (size_t)channels + 64);
	struct stk_decode request = {.data = it->data,
		.size = it->size,
		.info = &info,
		.type = it->type,
		.orient = true,
		.window = {0, 0, w, h},
		.dst = stk__image_hwc(pixels, STK_UINT8, w, h, channels)};
	ok(stk__image_decode(decoder, &request, &err));
	void *scratch = stk__alloc(stk__pass_scratch(it->pass) + 64);
	struct stk_image dst = stk__image_hwc(out, STK_FLOAT, it->pass->w, it->pass->h, channels);
	assert_int_equal(bytes, (size_t)it->pass->w * (size_t)it->pass->h * (size_t)channels * 4);
	struct stk_pass_kernels kernels = stk__pass_kernels(0);
	stk__pass_run(it->pass, &kernels, &request.dst, 0, 0, &dst, scratch);
	stk__free(scratch);
	free(pixels);
}

/* Draws a pass that crops and resizes the upright image, and converts it to floats. */
static void draw_turned_pass(struct stk_jpeg_gpu_item *it, struct stk_pass *pass)
{
	int32_t w = it->header->width, h = it->header->height;
	bool swaps = stk__orient_swaps(it->orientation);
	struct stk_resize r = {.out_w = 1 + (int)draw(60), .out_h = 1 + (int)draw(60), .antialias = 1};
	r.min_filter = r.mag_filter = draw(2) ? STK_INTERP_TRIANGULAR : STK_INTERP_LANCZOS3;
	stk__pass_begin(pass, STK_UINT8, swaps ? h : w, swaps ? w : h, it->type == STK_GRAY ? 1 : 3);
	stk__pass_window(pass, draw_window(pass->w, pass->h), NULL);
	r.roi_x1 = (float)pass->w;
	r.roi_y1 = (float)pass->h;
	stk__pass_resize(pass, &r);
	stk__pass_mirror(pass, draw(2), false);
	stk__pass_cast(pass, STK_FLOAT);
	it->pass = pass;
	it->window = stk__orient_rect(it->orientation, w, h, stk__pass_source(pass));
}

enum { TURNED = 24, TURNED_BYTES = 60 * 60 * 3 * 4 };

/* Decodes files with random types and orientations, and compares them with the CPU's results. Returns how many images were decoded. */
static int run_turned(
	struct stk_gpu_device *dev, struct stk_jpeg_gpu_batch *batch, struct stk_decoder *decoder, uint8_t *pinned, stk_gpu_ptr out)
{
	static struct stk_pass passes[TURNED];
	static uint8_t got[TURNED_BYTES], want[TURNED_BYTES];
	struct stk_jpeg_gpu_item items[TURNED];
	struct file files[TURNED];
	uint8_t *at = pinned;
	int right = 0;
	for (int i = 0; i < TURNED; i++) {
		make_file(&files[i], false);
		memcpy(at, files[i].data, files[i].size);
		items[i] = (struct stk_jpeg_gpu_item){.data = at,
			.size = files[i].size,
			.header = &files[i].header,
			.type = (enum stk_image_type)draw(STK_YCBCR + 1),
			.orientation = 1 + (int)draw(8)};
		draw_turned_pass(&items[i], &passes[i]);
		items[i].dst = stk__image_hwc(
			(void *)(uintptr_t)(out + (uint64_t)i * TURNED_BYTES), STK_FLOAT, passes[i].w, passes[i].h, passes[i].c);
		assert_true(stk__jpeg_gpu_need(&items[i], &items[i].need));
		assert_int_equal(items[i].need.files.images, 1);
		at += files[i].size;
	}
	ok(stk__jpeg_gpu_submit(batch, items, TURNED, &err));
	ok(stk__jpeg_gpu_wait(batch, &err));
	for (int i = 0; i < TURNED; i++) {
		if (stk__jpeg_gpu_verdict(batch, i))
			continue;
		size_t bytes = (size_t)passes[i].w * (size_t)passes[i].h * (size_t)passes[i].c * 4;
		ok(stk__gpu_download(dev, NULL, got, out + (uint64_t)i * TURNED_BYTES, bytes, &err));
		ok(stk__gpu_stream_sync(dev, NULL, &err));
		decode_on_cores(&items[i], decoder, want, bytes);
		char what[sizeof files[i].name + 60];
		snprintf(what, sizeof what, "%.299s, type %d, orientation %d", files[i].name, items[i].type, items[i].orientation);
		equal(what, want, got, bytes);
		right++;
	}
	free_files(files, TURNED);
	return right;
}

static void types_and_orientations_equal_the_cores(void **state)
{
	struct stk_gpu_device *dev = need_gpu(state);
	struct stk_codec_limits limits = {0};
	struct stk_jpeg_gpu *d;
	struct stk_jpeg_gpu_batch *batch;
	struct stk_decoder *decoder;
	struct stk_arena scratch = {0};
	uint8_t *pinned;
	stk_gpu_ptr out;
	int right = 0, rounds = is_emulated(dev) ? 2 : 10;
	ok(stk__jpeg_gpu_create(dev, 64 << 20, &d, &err));
	ok(stk__jpeg_gpu_batch_create(d, &batch, &err));
	ok(stk__decoder_create(&limits, 0, &scratch, &decoder, &err));
	ok(stk__gpu_host_alloc(dev, 16 << 20, (void **)&pinned, &err));
	ok(stk__gpu_alloc(dev, TURNED * TURNED_BYTES, &out, &err));
	for (int i = 0; i < rounds; i++)
		right += run_turned(dev, batch, decoder, pinned, out);
	assert_true(right > rounds * TURNED * 3 / 4);
	stk__jpeg_gpu_batch_destroy(batch);
	stk__jpeg_gpu_destroy(d);
	stk__decoder_destroy(decoder);
	stk__arena_destroy(&scratch);
	stk__gpu_host_free(dev, pinned);
	stk__gpu_free(dev, out);
}

/* Needs no GPU: items that the GPU does not support must be refused in advance. */
static void what_the_gpu_has_not_is_refused(void **state)
{
	(void)state;
	struct file f;
	struct stk_pass pass;
	struct stk_jpeg_gpu_limits sum = {0};
	make_file(&f, false);
	stk__pass_begin(&pass, STK_UINT8, f.header.width, f.header.height, 3);
	struct stk_jpeg_gpu_item it = {.data = f.data, .size = f.size, .header = &f.header, .window = f.window, .pass = &pass};
	assert_true(stk__jpeg_gpu_need(&it, &sum));
	assert_int_equal(sum.files.images, 1);
	struct stk_jpeg_gpu_limits before = sum;
	struct stk_jpeg_gpu_item any = it, alone = it;
	any.type = STK_ANY_DATA;
	alone.pass = NULL;
	assert_false(stk__jpeg_gpu_need(&any, &sum) || stk__jpeg_gpu_need(&alone, &sum));
	stk__pass_begin(&pass, STK_UINT8, f.header.width, f.header.height, 1); /* the pass takes one channel, the file gives three */
	assert_false(stk__jpeg_gpu_need(&it, &sum));
	stk__pass_begin(&pass, STK_UINT8, f.header.width, f.header.height, 3);
	f.header.process = STK_JPEG_ARITHMETIC_PROGRESSIVE;
	assert_false(stk__jpeg_gpu_need(&it, &sum));
	assert_memory_equal(&before, &sum, sizeof sum);
	free_files(&f, 1);
}

/* The decoder copies several files at once if they are close together in memory. So if files are that close, they must be in one allocation, which one
 * copy may read. */
static void what_lies_close_together_may_be_copied_at_once(void **state)
{
	struct stk_gpu_device *dev = need_gpu(state);
	enum { PIECES = 40, BLOCK = 1 << 20, SLACK = 64, ROOM = 8 << 20 };
	struct stk_device_memory m;
	uintptr_t at[PIECES];
	size_t size[PIECES];
	stk_gpu_ptr to;
	int joined = 0;
	ok(stk__gpu_alloc(dev, ROOM, &to, &err));
	_Atomic size_t usual = 0;
	stk__device_memory_init(&m, dev, true, &usual);
	stk__gpu_leave(dev); /* because stk__device_memory_take enters the context itself */
	for (int i = 0; i < PIECES; i++) {
		size[i] = i < 2 || draw(2) ? BLOCK - SLACK : 1 + draw(BLOCK / 2);
		at[i] = stk__device_memory_take(&m, size[i], &err);
		assert_true(at[i]);
	}
	ok(stk__gpu_enter(dev, &err));
	for (int i = 0; i < PIECES; i++)
		for (int k = 0; k < PIECES; k++)
			if (k != i && at[k] >= at[i] + size[i] && at[k] - (at[i] + size[i]) <= STK_JPEG_GPU_GAP) {
				ok(stk__gpu_upload(dev, NULL, to, (void *)at[i], at[k] + size[k] - at[i], &err));
				joined++;
			}
	ok(stk__gpu_stream_sync(dev, NULL, &err));
	assert_true(joined > 0);
	stk__device_memory_destroy(&m);
	stk__gpu_free(dev, to);
}

int main(void)
{
	take_seed();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_in_flight_equal_libjpeg_turbo),
		cmocka_unit_test(files_over_the_memory_are_refused),
		cmocka_unit_test(types_and_orientations_equal_the_cores),
		cmocka_unit_test(what_the_gpu_has_not_is_refused),
		cmocka_unit_test(what_lies_close_together_may_be_copied_at_once),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
