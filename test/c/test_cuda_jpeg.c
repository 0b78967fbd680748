/* SPDX-License-Identifier: Apache-2.0
 * The CUDA decoder against its C twins, phase by phase, and through its batch interface. Skipped without a GPU; less of it on the emulated one.
 * STOKER_TEST_JPEGS names a folder of photographs to add to the files that are made here. */
#include "test.h"

#include "base/memory.h"
#include "codec/cuda_jpeg.h"
#include "jpeg_reference.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64, RAW = 24 << 20 };

struct gpu {
	struct stk_gpu *gpu;
	struct stk_gpu_device *dev;
};
static bool emulated;

struct file {
	char name[300];
	uint8_t *data;
	size_t size;
	struct stk_jpeg_header header;
	struct stk_rect window;
};

static struct stk_error err;
static uint64_t rng = 5;

static uint32_t draw(uint32_t n)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((rng >> 33) % n);
}

static void ok(enum stk_status status)
{
	if (status)
		fail_msg("%s: %s", stk_status_name(status), err.message);
}

static int setup(void **state)
{
	struct gpu *g = calloc(1, sizeof *g);
	*state = g;
	if (stk__gpu_open(&g->gpu, &err) || !stk__gpu_build().modules || stk__gpu_device_open(g->gpu, 0, &g->dev, &err))
		print_message("no GPU: %s\n", err.message);
	else
		ok(stk__gpu_enter(g->dev, &err));
	emulated = g->dev && strstr(stk__gpu_device_facts(g->dev)->name, "emulated");
	return !g->dev && getenv("STOKER_EMULATED_CUDA") ? -1 : 0;
}

static int teardown(void **state)
{
	struct gpu *g = *state;
	if (g->dev)
		stk__gpu_leave(g->dev);
	stk__gpu_device_close(g->dev);
	stk__gpu_close(g->gpu);
	free(g);
	return 0;
}

static struct stk_gpu_device *need_gpu(void **state)
{
	struct gpu *g = *state;
	if (!g->dev)
		skip();
	return g->dev;
}

/* ---- files ---- */

static const int samplings[][6] = {{1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}, {2, 2, 1, 1, 1, 1}, {1, 2, 1, 1, 1, 1}, {4, 1, 1, 1, 1, 1},
	{2, 2, 2, 1, 1, 1}, {2, 2, 1, 2, 2, 1}, {4, 2, 1, 1, 1, 1}, {2, 2, 2, 2, 1, 1}};

static struct stk_rect draw_window(int w, int h)
{
	int ww = 1 + (int)draw((uint32_t)w), hh = 1 + (int)draw((uint32_t)h);
	if (draw(4) == 0)
		return (struct stk_rect){0, 0, w, h};
	return (struct stk_rect){(int)draw((uint32_t)(w - ww + 1)), (int)draw((uint32_t)(h - hh + 1)), ww, hh};
}

static void make_file(struct file *f, bool damage)
{
	const int *s = samplings[draw(sizeof samplings / sizeof *samplings)];
	struct jpeg_shape shape = {.width = 1 + (int)draw(700),
		.height = 1 + (int)draw(500),
		.components = draw(6) ? 3 : 1,
		.h = {s[0], s[2], s[4]},
		.v = {s[1], s[3], s[5]},
		.restart = draw(3) ? 0 : 1 + (int)draw(40),
		.quality = 30 + (int)draw(70),
		.optimize = (int)draw(2),
		.texture = (int)draw(5),
		.three_tables = !draw(4)};
	if (shape.components == 1) /* libjpeg-turbo would decode v[0] rows of blocks at a time, and meet damage early */
		shape.h[0] = shape.v[0] = 1;
	snprintf(f->name, sizeof f->name, "seed %llu", (unsigned long long)rng);
	f->data = jpeg_reference_encode(&shape, rng, &f->size);
	ok(stk__jpeg_header_parse(f->data, f->size, &f->header, &err));
	size_t scan = f->header.scan_offset;
	for (uint32_t hits = damage ? 1 + draw(3) : 0; hits > 0; hits--)
		f->data[scan + draw((uint32_t)(f->size - scan - 2))] = (uint8_t)(draw(3) ? draw(256) : 0xff);
	f->window = draw_window(shape.width, shape.height);
}

static bool read_file(struct file *f, const char *folder, const char *name)
{
	char path[1200];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *in = fopen(path, "rb");
	if (!in)
		return false;
	snprintf(f->name, sizeof f->name, "%s", name);
	fseek(in, 0, SEEK_END);
	f->size = (size_t)ftell(in);
	rewind(in);
	f->data = malloc(f->size + 64);
	bool read = fread(f->data, 1, f->size, in) == f->size && !stk__jpeg_header_parse(f->data, f->size, &f->header, &err);
	fclose(in);
	if (read)
		f->window = draw_window(f->header.width, f->header.height);
	else
		free(f->data);
	return read;
}

static int read_folder(struct file *files, int most)
{
	const char *folder = getenv("STOKER_TEST_JPEGS");
	DIR *dir = folder ? opendir(folder) : NULL;
	struct dirent *entry;
	int n = 0;
	while (dir && n < most && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			n += read_file(&files[n], folder, entry->d_name);
	if (dir)
		closedir(dir);
	return n;
}

static void free_files(struct file *files, int n)
{
	while (n > 0)
		free(files[--n].data);
}

/* ---- phase by phase ---- */

struct side {
	uint8_t *raw, *tables, *work;
	struct stk_jpegpar_view view;
};

static void equal(const char *what, const void *a, const void *b, size_t size)
{
	const uint8_t *x = a, *y = b;
	size_t i = 0;
	while (i < size && x[i] == y[i])
		i++;
	if (i < size)
		fail_msg("%s differs from its twin at byte %zu of %zu: %d, %d", what, i, size, x[i], y[i]);
}

#define SAME(field, count)                                                                                                                 \
	equal(#field, cpu->field, (const uint8_t *)gpu + ((const uint8_t *)cpu->field - base), sizeof *cpu->field * (count))

/* Compares what the phases left, where it is defined: work memory of the GPU, downloaded, with the twin's. */
static void compare_work(const struct stk_jpegpar_view *cpu, const uint8_t *base, const uint8_t *gpu)
{
	SAME(kept, cpu->n_chunks);
	SAME(bit_length, cpu->n_streams);
	for (uint32_t i = 0; i < cpu->n_streams; i++) {
		const struct stk_jpegpar_stream *s = &cpu->streams[i];
		uint32_t length = cpu->bit_length[i], segments = (length + STK_JPEGPAR_SEGMENT - 1) / STK_JPEGPAR_SEGMENT;
		size_t at = (size_t)(cpu->bits - base) + (size_t)s->segment0 * (STK_JPEGPAR_SEGMENT / 8);
		for (uint32_t k = 0; k < length / 8; k++)
			if (base[at + (k ^ 3)] != gpu[at + (k ^ 3)])
				fail_msg("bits: stream %u byte %u", i, k);
		at = (size_t)((const uint8_t *)(cpu->checkpoints + (size_t)s->segment0 * STK_JPEGPAR_PER_SEGMENT) - base);
		equal("checkpoints of the lanes themselves", base + at, gpu + at,
			4 * ((length + STK_JPEGPAR_INTERVAL - 1) / STK_JPEGPAR_INTERVAL));
		at = (size_t)((const uint8_t *)(cpu->match + s->segment0) - base);
		equal("matches", base + at, gpu + at, 4 * segments);
		at = (size_t)((const uint8_t *)(cpu->starts + (size_t)s->segment0 * STK_JPEGPAR_PIECES) - base);
		for (uint32_t k = 0; k < s->segments * STK_JPEGPAR_PIECES; k++) {
			struct stk_jpegpar_start a, b;
			memcpy(&a, base + at + k * sizeof a, sizeof a);
			memcpy(&b, gpu + at + k * sizeof b, sizeof b);
			if (a.block != b.block || (a.block != STK_JPEGPAR_NONE && a.state != b.state))
				fail_msg("starts: stream %u piece %u: %u/%x, %u/%x", i, k, a.block, a.state, b.block, b.state);
		}
	}
	for (uint32_t i = 0; i < cpu->n_images; i++) {
		const struct stk_jpegpar_image *im = &cpu->images[i];
		if (cpu->flags[i])
			continue;
		size_t row = (size_t)im->mcus_x * im->blocks_mcu,
		       at = (size_t)((const uint8_t *)(cpu->coef + 64 * (size_t)im->coef0) - base);
		/* Restart intervals that end before the window are not decoded: compare from its first row. */
		equal("coefficients", base + at, gpu + at, 128 * row * (im->mcu_y1 - im->mcu_y0));
		at = (size_t)((const uint8_t *)(cpu->dc + im->dc0 + row * im->mcu_y0) - base);
		equal("DC", base + at, gpu + at, 2 * row * (im->mcu_y1 - im->mcu_y0));
		for (uint32_t c = 0; c < im->components; c++) {
			at = (size_t)(cpu->planes - base) + im->plane[c].at;
			equal("planes", base + at, gpu + at, (size_t)im->plane[c].pitch * 8 * im->plane[c].v * (im->mcu_y1 - im->mcu_y0));
		}
		at = (size_t)(cpu->rgb - base) + im->rgb + 3 * (im->x & 3);
		for (uint32_t y = 0; y < im->h; y++)
			for (uint32_t x = 0; x < im->w; x++) {
				const uint8_t *a = base + at + (size_t)y * im->rgb_pitch + 3 * x,
					      *b = gpu + at + (size_t)y * im->rgb_pitch + 3 * x;
				if (memcmp(a, b, 3) != 0)
					fail_msg("pixel %u, %u of image %u (%ux%u, colour %u, upsampling %u): %d %d %d, twin %d %d %d", x,
						y, i, im->w, im->h, im->color, im->plane[1].upsample, b[0], b[1], b[2], a[0], a[1], a[2]);
			}
	}
}

struct phases {
	struct stk_jpegpar_plan *plan;
	struct stk_jpegpar_sizes sizes;
	uint8_t *raw, *tables, *sent, *work, *back;
	stk_gpu_ptr device_raw, device_tables, device_work;
	struct stk_cuda_jpeg_kernels kernels;
};

static void phases_create(struct stk_gpu_device *dev, struct phases *p)
{
	struct stk_jpegpar_limits limits = {.images = BATCH, .bytes = 16 << 20, .blocks = 700000};
	p->sizes = stk__jpegpar_plan_sizes(&limits);
	p->tables = stk__alloc(p->sizes.tables);
	p->sent = stk__alloc(p->sizes.tables);
	p->work = stk__alloc(p->sizes.work);
	p->back = stk__alloc(p->sizes.work);
	p->raw = stk__calloc(1, RAW);
	memset(p->work, 0xa5, p->sizes.work);
	ok(stk__jpegpar_plan_create(&limits, p->tables, &p->plan, &err));
	ok(stk__gpu_alloc(dev, RAW, &p->device_raw, &err));
	ok(stk__gpu_alloc(dev, p->sizes.tables, &p->device_tables, &err));
	ok(stk__gpu_alloc(dev, p->sizes.work, &p->device_work, &err));
	ok(stk__cuda_jpeg_kernels_load(dev, &p->kernels, &err));
}

static void phases_destroy(struct stk_gpu_device *dev, struct phases *p)
{
	stk__gpu_free(dev, p->device_raw);
	stk__gpu_free(dev, p->device_tables);
	stk__gpu_free(dev, p->device_work);
	stk__jpegpar_plan_destroy(p->plan);
	stk__free(p->tables);
	stk__free(p->sent);
	stk__free(p->work);
	stk__free(p->back);
	stk__free(p->raw);
}

/* Runs the batch on both sides. Returns how many images came out right. */
static int run_phases(struct stk_gpu_device *dev, struct phases *p, const struct file *files, int n)
{
	uint32_t at = 16, index;
	stk__jpegpar_plan_begin(p->plan);
	for (int i = 0; i < n; i++) {
		at += draw(40);
		assert_true(at + files[i].size + 64 < RAW);
		memcpy(p->raw + at, files[i].data, files[i].size);
		struct stk_jpegpar_file f = {files[i].data, files[i].size, &files[i].header, files[i].window, at, draw(2)};
		stk__jpegpar_plan_add(p->plan, &f, &index);
		at += (uint32_t)files[i].size;
	}
	size_t bytes = stk__jpegpar_plan_end(p->plan);
	memcpy(p->sent, p->tables, bytes);
	struct stk_jpegpar_view cpu, gpu;
	stk__jpegpar_plan_view(p->plan, (uintptr_t)p->tables, (uintptr_t)p->work, (uintptr_t)p->raw, &cpu);
	stk__jpegpar_plan_view(p->plan, p->device_tables, p->device_work, p->device_raw, &gpu);
	stk__jpegpar_run(&cpu);
	ok(stk__gpu_fill(dev, NULL, p->device_work, 0x5a, p->sizes.work, &err));
	ok(stk__gpu_upload(dev, NULL, p->device_raw, p->raw, RAW, &err));
	ok(stk__gpu_upload(dev, NULL, p->device_tables, p->sent, bytes, &err));
	for (int phase = 0; phase < STK_CUDA_JPEG_PHASES; phase++) {
		ok(stk__cuda_jpeg_launch(dev, &p->kernels, &gpu, (enum stk_cuda_jpeg_phase)phase, NULL, &err));
		if (stk__gpu_stream_sync(dev, NULL, &err))
			fail_msg("phase %s: %s", stk__cuda_jpeg_phase_names[phase], err.message);
	}
	ok(stk__gpu_download(dev, NULL, p->back, p->device_work, p->sizes.work, &err));
	ok(stk__gpu_download(dev, NULL, p->sent, p->device_tables, bytes, &err));
	ok(stk__gpu_stream_sync(dev, NULL, &err));
	compare_work(&cpu, p->work, p->back);
	int right = 0;
	for (uint32_t i = 0; i < cpu.n_images; i++) {
		uint32_t flags = ((uint32_t *)(void *)p->sent)[i];
		if ((flags != 0) != (cpu.flags[i] != 0))
			fail_msg("flags of image %u: %x, twin %x", i, flags, cpu.flags[i]);
		right += !flags;
	}
	return right;
}

static void phases_equal_their_twins(void **state)
{
	struct stk_gpu_device *dev = need_gpu(state);
	struct phases p;
	int right = 0, total = 0;
	phases_create(dev, &p);
	for (int round = 0; round < (emulated ? 2 : 6); round++) {
		struct file files[BATCH];
		for (int i = 0; i < BATCH; i++)
			make_file(&files[i], round % 2);
		right += run_phases(dev, &p, files, BATCH);
		total += BATCH;
		free_files(files, BATCH);
	}
	print_message("made files: %d of %d right\n", right, total);
	assert_true(right > total / 3);
	phases_destroy(dev, &p);
}

static void photographs_equal_their_twins(void **state)
{
	struct stk_gpu_device *dev = need_gpu(state);
	static struct file files[400];
	struct phases p;
	int n = read_folder(files, 400), right = 0;
	if (!n)
		skip();
	phases_create(dev, &p);
	for (int i = 0; i < n; i += BATCH)
		right += run_phases(dev, &p, files + i, n - i < BATCH ? n - i : BATCH);
	print_message("photographs: %d of %d right\n", right, n);
	assert_true(right > n * 9 / 10);
	phases_destroy(dev, &p);
	free_files(files, n);
}

/* ---- the batch interface ---- */

static void check_window(struct stk_gpu_device *dev, const struct stk_cuda_jpeg *d, int slot, int item, const struct file *f)
{
	int w, h;
	long warnings;
	uint32_t pitch;
	stk_gpu_ptr at = stk__cuda_jpeg_window(d, slot, item, &pitch);
	uint8_t *got = malloc((size_t)pitch * (size_t)f->window.h),
		*want = jpeg_reference_decode(f->data, f->size, f->window.y + f->window.h, &w, &h, &warnings);
	ok(stk__gpu_download(dev, stk__cuda_jpeg_stream(d, slot), got, at, (size_t)pitch * (size_t)f->window.h, &err));
	ok(stk__gpu_stream_sync(dev, stk__cuda_jpeg_stream(d, slot), &err));
	if (!want || warnings)
		fail_msg("%s: taken for right where libjpeg-turbo complains", f->name);
	for (int y = 0; y < f->window.h; y++)
		equal(f->name, want + ((size_t)(f->window.y + y) * (size_t)w + (size_t)f->window.x) * 3, got + (size_t)y * pitch,
			3 * (size_t)f->window.w);
	free(want);
	free(got);
}

static void batches_in_flight_equal_libjpeg_turbo(void **state)
{
	struct stk_gpu_device *dev = need_gpu(state);
	struct stk_cuda_jpeg_limits limits = {.slots = 3, .batch = {.images = 32, .bytes = 8 << 20, .blocks = 300000}};
	struct stk_cuda_jpeg *d;
	struct file files[3][32];
	uint8_t *pinned[3];
	int slots[3], count[4] = {0};
	ok(stk__cuda_jpeg_create(dev, &limits, &d, &err));
	for (int b = 0; b < 3; b++)
		ok(stk__gpu_host_alloc(dev, 8 << 20, (void **)&pinned[b], &err));
	for (int round = 0; round < (emulated ? 1 : 2); round++) {
		uint64_t allocations = 0;
		for (int b = 0; b < 3; b++) {
			struct stk_cuda_jpeg_item items[32];
			uint8_t *at = pinned[b];
			for (int i = 0; i < 32; i++) {
				struct file *f = &files[b][i];
				make_file(f, b == 2);
				memcpy(at, f->data, f->size);
				items[i] =
					(struct stk_cuda_jpeg_item){.data = at, .size = f->size, .header = &f->header, .window = f->window};
				at += f->size + draw(3) * 3000;
			}
			slots[b] = stk__cuda_jpeg_acquire(d);
			assert_true(slots[b] >= 0);
			allocations = stk__alloc_count();
			ok(stk__cuda_jpeg_submit(d, slots[b], items, 32, &err));
			assert_int_equal(allocations, stk__alloc_count());
		}
		assert_int_equal(stk__cuda_jpeg_acquire(d), -1);
		for (int b = 0; b < 3; b++) {
			ok(stk__gpu_event_sync(dev, stk__cuda_jpeg_done(d, slots[b]), &err));
			for (int i = 0; i < 32; i++) {
				enum stk_cuda_jpeg_verdict verdict = stk__cuda_jpeg_verdict(d, slots[b], i);
				count[verdict]++;
				if (verdict == STK_CUDA_JPEG_OK)
					check_window(dev, d, slots[b], i, &files[b][i]);
			}
			stk__cuda_jpeg_release(d, slots[b]);
			free_files(files[b], 32);
		}
	}
	print_message("%d right, %d refused, %d flagged\n", count[0], count[1], count[2]);
	assert_true(count[0] > (emulated ? 35 : 70));
	for (int b = 0; b < 3; b++)
		stk__gpu_host_free(dev, pinned[b]);
	stk__cuda_jpeg_destroy(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phases_equal_their_twins),
		cmocka_unit_test(photographs_equal_their_twins),
		cmocka_unit_test(batches_in_flight_equal_libjpeg_turbo),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
