/* SPDX-License-Identifier: Apache-2.0
 * The CUDA decoder against its C twins, phase by phase, and through its batch interface. Skipped without a GPU; less of it on the emulated one.
 * STOKER_TEST_JPEGS names a folder of photographs to add to the files that are made here. */
#include "test.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "codec/codec.h"
#include "codec/cuda_jpeg.h"
#include "codec/orient.h"
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

/* Each compares what some phases left, where it is defined: work memory of the GPU, downloaded, with the twin's. */
static void compare_synchronised(const struct stk_jpegpar_view *cpu, const uint8_t *base, const uint8_t *gpu)
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
}

static void compare_coefficients(const struct stk_jpegpar_view *cpu, const uint8_t *base, const uint8_t *gpu)
{
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
	}
}

static void compare_planes(const struct stk_jpegpar_view *cpu, const uint8_t *base, const uint8_t *gpu)
{
	for (uint32_t i = 0; i < cpu->n_images; i++) {
		const struct stk_jpegpar_image *im = &cpu->images[i];
		for (uint32_t c = 0; c < im->components && !cpu->flags[i]; c++) {
			size_t at = (size_t)(cpu->planes - base) + im->plane[c].at;
			equal("planes", base + at, gpu + at, (size_t)im->plane[c].pitch * 8 * im->plane[c].v * (im->mcu_y1 - im->mcu_y0));
		}
	}
}

static void compare_pixels(const struct stk_jpegpar_view *cpu, const uint8_t *base, const uint8_t *gpu)
{
	for (uint32_t i = 0; i < cpu->n_images; i++) {
		const struct stk_jpegpar_image *im = &cpu->images[i];
		size_t at = (size_t)(cpu->rgb - base) + im->rgb + im->channels * (im->x & 3);
		for (uint32_t y = 0; y < im->h && !cpu->flags[i]; y++)
			equal("pixels", base + at + (size_t)y * im->rgb_pitch, gpu + at + (size_t)y * im->rgb_pitch, im->channels * im->w);
	}
}

/* Runs phases on both sides, and compares what they leave before others take its place. */
static const struct {
	int end;
	void (*compare)(const struct stk_jpegpar_view *cpu, const uint8_t *base, const uint8_t *gpu);
} stages[] = {{STK_CUDA_JPEG_WRITE, compare_synchronised}, {STK_CUDA_JPEG_IDCT, compare_coefficients},
	{STK_CUDA_JPEG_COLOR, compare_planes}, {STK_CUDA_JPEG_PHASES, compare_pixels}};

struct phases {
	struct stk_jpegpar_limits limits;
	struct stk_jpegpar_plan *plan;
	struct stk_jpegpar_sizes sizes;
	uint8_t *raw, *tables, *sent, *work, *back;
	stk_gpu_ptr device_raw, device_tables, device_work;
	struct stk_cuda_jpeg_kernels kernels;
};

static void phases_create(struct stk_gpu_device *dev, struct phases *p)
{
	p->limits = (struct stk_jpegpar_limits){.images = BATCH, .bytes = 16 << 20, .blocks = 700000};
	p->sizes = stk__jpegpar_plan_sizes(&p->limits);
	p->tables = stk__alloc(p->sizes.tables);
	p->sent = stk__alloc(p->sizes.tables);
	p->work = stk__alloc(p->sizes.work);
	p->back = stk__alloc(p->sizes.work);
	p->raw = stk__calloc(1, RAW);
	memset(p->work, 0xa5, p->sizes.work);
	ok(stk__jpegpar_plan_create(&p->limits, p->tables, &p->plan, &err));
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
	stk__jpegpar_plan_begin(p->plan, &p->limits);
	for (int i = 0; i < n; i++) {
		at += draw(40);
		assert_true(at + files[i].size + 64 < RAW);
		memcpy(p->raw + at, files[i].data, files[i].size);
		struct stk_jpegpar_file f = {
			files[i].data, files[i].size, &files[i].header, files[i].window, at, (enum stk_image_type)draw(STK_YCBCR + 1)};
		stk__jpegpar_plan_add(p->plan, &f, &index);
		at += (uint32_t)files[i].size;
	}
	size_t bytes = stk__jpegpar_plan_end(p->plan);
	memcpy(p->sent, p->tables, bytes);
	struct stk_jpegpar_view cpu, gpu;
	stk__jpegpar_plan_view(p->plan, (uintptr_t)p->tables, (uintptr_t)p->work, (uintptr_t)p->raw, &cpu);
	stk__jpegpar_plan_view(p->plan, p->device_tables, p->device_work, p->device_raw, &gpu);
	ok(stk__gpu_fill(dev, NULL, p->device_work, 0x5a, p->sizes.work, &err));
	ok(stk__gpu_upload(dev, NULL, p->device_raw, p->raw, RAW, &err));
	ok(stk__gpu_upload(dev, NULL, p->device_tables, p->sent, bytes, &err));
	for (size_t stage = 0, phase = 0; stage < sizeof stages / sizeof *stages; stage++) {
		stk__jpegpar_run(&cpu, (int)phase, stages[stage].end);
		for (; phase < (size_t)stages[stage].end; phase++) {
			ok(stk__cuda_jpeg_launch(dev, &p->kernels, &gpu, (enum stk_cuda_jpeg_phase)phase, NULL, &err));
			if (stk__gpu_stream_sync(dev, NULL, &err))
				fail_msg("phase %s: %s", stk__cuda_jpeg_phase_names[phase], err.message);
		}
		ok(stk__gpu_download(dev, NULL, p->back, p->device_work, p->sizes.work, &err));
		ok(stk__gpu_stream_sync(dev, NULL, &err));
		stages[stage].compare(&cpu, p->work, p->back);
	}
	ok(stk__gpu_download(dev, NULL, p->sent, p->device_tables, bytes, &err));
	ok(stk__gpu_stream_sync(dev, NULL, &err));
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

enum { FILES = 32, WINDOW_BYTES = 700 * 500 * 3 };

/* A batch in flight: its pass gives the window as it is. */
struct flight {
	struct stk_cuda_jpeg_batch *batch;
	stk_gpu_stream stream;
	uint8_t *pinned;
	stk_gpu_ptr out;
	struct file files[FILES];
	struct stk_pass passes[FILES];
	struct stk_cuda_jpeg_item items[FILES];
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
		struct stk_cuda_jpeg_item *it = &f->items[i];
		*it = (struct stk_cuda_jpeg_item){.data = at,
			.size = file->size,
			.header = &file->header,
			.window = stk__pass_source(&f->passes[i]),
			.pass = &f->passes[i],
			.dst = stk__image_hwc(
				(void *)(uintptr_t)(f->out + (uint64_t)i * WINDOW_BYTES), STK_UINT8, file->window.w, file->window.h, 3)};
		assert_true(stk__cuda_jpeg_need(it, &it->need) || it->need.files.images == 0);
		at += file->size + draw(3) * 3000;
	}
}

static void check_window(struct stk_gpu_device *dev, const struct file *f, const struct stk_cuda_jpeg_item *it)
{
	int w, h;
	long warnings;
	size_t row = 3 * (size_t)f->window.w, bytes = row * (size_t)f->window.h;
	uint8_t *got = malloc(bytes), *want = jpeg_reference_decode(f->data, f->size, f->window.y + f->window.h, &w, &h, &warnings);
	ok(stk__gpu_download(dev, NULL, got, (stk_gpu_ptr)(uintptr_t)it->dst.data, bytes, &err));
	ok(stk__gpu_stream_sync(dev, NULL, &err));
	if (!want || warnings)
		fail_msg("%s: taken for right where libjpeg-turbo complains", f->name);
	for (int y = 0; y < f->window.h; y++)
		equal(f->name, want + ((size_t)(f->window.y + y) * (size_t)w + (size_t)f->window.x) * 3, got + (size_t)y * row, row);
	free(want);
	free(got);
}

/* Batches that take turns at lanes with memory for a part of them each. */
static void batches_in_flight_equal_libjpeg_turbo(void **state)
{
	enum { BATCHES = 3, MEMORY = 24 << 20 };
	struct stk_gpu_device *dev = need_gpu(state);
	static struct flight flights[BATCHES];
	struct stk_cuda_jpeg *d;
	int count[4] = {0};
	ok(stk__cuda_jpeg_create(dev, MEMORY, &d, &err));
	for (int b = 0; b < BATCHES; b++) {
		ok(stk__cuda_jpeg_batch_create(d, &flights[b].batch, &err));
		ok(stk__gpu_host_alloc(dev, 16 << 20, (void **)&flights[b].pinned, &err));
		ok(stk__gpu_alloc(dev, FILES * WINDOW_BYTES, &flights[b].out, &err));
		ok(stk__gpu_stream_create(dev, STK_GPU_LOW, &flights[b].stream, &err));
	}
	int parts = 0;
	for (int round = 0; round < (emulated ? 1 : 4); round++) {
		for (int b = 0; b < BATCHES; b++) {
			struct flight *f = &flights[b];
			draw_flight(f, b == 2);
			ok(stk__cuda_jpeg_submit(f->batch, f->stream, f->items, FILES, &err));
			parts += stk__cuda_jpeg_parts(f->batch);
			assert_true(stk__cuda_jpeg_memory(d) <= MEMORY);
		}
		for (int b = 0; b < BATCHES; b++) {
			struct flight *f = &flights[b];
			ok(stk__gpu_stream_sync(dev, f->stream, &err));
			for (int i = 0; i < FILES; i++) {
				enum stk_cuda_jpeg_verdict verdict = stk__cuda_jpeg_verdict(f->batch, i);
				count[verdict]++;
				if (verdict == STK_CUDA_JPEG_OK)
					check_window(dev, &f->files[i], &f->items[i]);
			}
			/* the same once more: everything is there */
			uint64_t allocations = stk__alloc_count();
			ok(stk__cuda_jpeg_submit(f->batch, f->stream, f->items, FILES, &err));
			ok(stk__gpu_stream_sync(dev, f->stream, &err));
			assert_int_equal(allocations, stk__alloc_count());
			free_files(f->files, FILES);
		}
	}
	print_message("%d right, %d refused, %d flagged; %d parts\n", count[0], count[1], count[2], parts);
	assert_true(count[0] > (emulated ? 35 : 140));
	assert_true(parts > (emulated ? 1 : 4) * BATCHES);
	for (int b = 0; b < BATCHES; b++) {
		stk__cuda_jpeg_batch_destroy(flights[b].batch);
		stk__gpu_host_free(dev, flights[b].pinned);
		stk__gpu_free(dev, flights[b].out);
		stk__gpu_stream_destroy(dev, flights[b].stream);
	}
	stk__cuda_jpeg_destroy(d);
}

/* What no lane can hold is for the cores, and the others of its batch are not. */
static void files_over_the_memory_are_refused(void **state)
{
	struct stk_gpu_device *dev = need_gpu(state);
	static struct flight f;
	struct stk_cuda_jpeg *d;
	size_t most = 0, least = SIZE_MAX;
	ok(stk__gpu_host_alloc(dev, 16 << 20, (void **)&f.pinned, &err));
	ok(stk__gpu_alloc(dev, FILES * WINDOW_BYTES, &f.out, &err));
	draw_flight(&f, false);
	for (int i = 0; i < FILES; i++) {
		size_t bytes = stk__cuda_jpeg_bytes(&f.items[i].need);
		most = bytes > most ? bytes : most;
		least = bytes < least ? bytes : least;
	}
	size_t limit = (most + least) / 2;
	ok(stk__cuda_jpeg_create(dev, limit, &d, &err));
	ok(stk__cuda_jpeg_batch_create(d, &f.batch, &err));
	ok(stk__cuda_jpeg_submit(f.batch, NULL, f.items, FILES, &err));
	ok(stk__gpu_stream_sync(dev, NULL, &err));
	int right = 0;
	for (int i = 0; i < FILES; i++) {
		if (stk__cuda_jpeg_bytes(&f.items[i].need) > limit)
			assert_int_equal(stk__cuda_jpeg_verdict(f.batch, i), STK_CUDA_JPEG_REFUSED);
		else if (stk__cuda_jpeg_verdict(f.batch, i) == STK_CUDA_JPEG_OK && ++right)
			check_window(dev, &f.files[i], &f.items[i]);
	}
	assert_true(right > 0);
	stk__cuda_jpeg_batch_destroy(f.batch);
	stk__cuda_jpeg_destroy(d);
	stk__gpu_host_free(dev, f.pinned);
	stk__gpu_free(dev, f.out);
	free_files(f.files, FILES);
}

/* ---- types and turned images ---- */

/* What the cores make of an item: its pass over the whole image, decoded as the pass sees it. */
static void decode_on_cores(const struct stk_cuda_jpeg_item *it, struct stk_decoder *decoder, uint8_t *out, size_t bytes)
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
	stk__pass_run(it->pass, stk__pass_kernels(STK_CPU_C), &request.dst, 0, 0, &dst, scratch);
	stk__free(scratch);
	free(pixels);
}

/* A crop of the image as its orientation shows it, resized, to float. */
static void draw_turned_pass(struct stk_cuda_jpeg_item *it, struct stk_pass *pass)
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

/* Types and orientations at random. Returns how many came out right. */
static int run_turned(
	struct stk_gpu_device *dev, struct stk_cuda_jpeg_batch *batch, struct stk_decoder *decoder, uint8_t *pinned, stk_gpu_ptr out)
{
	static struct stk_pass passes[TURNED];
	static uint8_t got[TURNED_BYTES], want[TURNED_BYTES];
	struct stk_cuda_jpeg_item items[TURNED];
	struct file files[TURNED];
	uint8_t *at = pinned;
	int right = 0;
	for (int i = 0; i < TURNED; i++) {
		make_file(&files[i], false);
		memcpy(at, files[i].data, files[i].size);
		items[i] = (struct stk_cuda_jpeg_item){.data = at,
			.size = files[i].size,
			.header = &files[i].header,
			.type = (enum stk_image_type)draw(STK_YCBCR + 1),
			.orientation = 1 + (int)draw(8)};
		draw_turned_pass(&items[i], &passes[i]);
		items[i].dst = stk__image_hwc(
			(void *)(uintptr_t)(out + (uint64_t)i * TURNED_BYTES), STK_FLOAT, passes[i].w, passes[i].h, passes[i].c);
		assert_true(stk__cuda_jpeg_need(&items[i], &items[i].need));
		assert_int_equal(items[i].need.files.images, 1);
		at += files[i].size;
	}
	ok(stk__cuda_jpeg_submit(batch, NULL, items, TURNED, &err));
	ok(stk__gpu_stream_sync(dev, NULL, &err));
	for (int i = 0; i < TURNED; i++) {
		if (stk__cuda_jpeg_verdict(batch, i))
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
	struct stk_cuda_jpeg *d;
	struct stk_cuda_jpeg_batch *batch;
	struct stk_decoder *decoder;
	uint8_t *pinned;
	stk_gpu_ptr out;
	int right = 0, rounds = emulated ? 2 : 10;
	ok(stk__cuda_jpeg_create(dev, 64 << 20, &d, &err));
	ok(stk__cuda_jpeg_batch_create(d, &batch, &err));
	ok(stk__decoder_create(&limits, STK_CPU_C, &decoder, &err));
	ok(stk__gpu_host_alloc(dev, 16 << 20, (void **)&pinned, &err));
	ok(stk__gpu_alloc(dev, TURNED * TURNED_BYTES, &out, &err));
	for (int i = 0; i < rounds; i++)
		right += run_turned(dev, batch, decoder, pinned, out);
	assert_true(right > rounds * TURNED * 3 / 4);
	stk__cuda_jpeg_batch_destroy(batch);
	stk__cuda_jpeg_destroy(d);
	stk__decoder_destroy(decoder);
	stk__gpu_host_free(dev, pinned);
	stk__gpu_free(dev, out);
}

/* Without a GPU: what it has not is told beforehand. */
static void what_the_gpu_has_not_is_refused(void **state)
{
	(void)state;
	struct file f;
	struct stk_pass pass;
	struct stk_cuda_jpeg_limits sum = {0};
	make_file(&f, false);
	stk__pass_begin(&pass, STK_UINT8, f.header.width, f.header.height, 3);
	struct stk_cuda_jpeg_item it = {.data = f.data, .size = f.size, .header = &f.header, .window = f.window, .pass = &pass};
	assert_true(stk__cuda_jpeg_need(&it, &sum));
	assert_int_equal(sum.files.images, 1);
	struct stk_cuda_jpeg_limits before = sum;
	struct stk_cuda_jpeg_item any = it, alone = it;
	any.type = STK_ANY_DATA;
	alone.pass = NULL;
	assert_false(stk__cuda_jpeg_need(&any, &sum) || stk__cuda_jpeg_need(&alone, &sum));
	stk__pass_begin(&pass, STK_UINT8, f.header.width, f.header.height, 1); /* of another number of channels */
	assert_false(stk__cuda_jpeg_need(&it, &sum));
	stk__pass_begin(&pass, STK_UINT8, f.header.width, f.header.height, 3);
	f.header.process = STK_JPEG_PROGRESSIVE;
	assert_false(stk__cuda_jpeg_need(&it, &sum));
	assert_memory_equal(&before, &sum, sizeof sum);
	free_files(&f, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phases_equal_their_twins),
		cmocka_unit_test(photographs_equal_their_twins),
		cmocka_unit_test(batches_in_flight_equal_libjpeg_turbo),
		cmocka_unit_test(files_over_the_memory_are_refused),
		cmocka_unit_test(types_and_orientations_equal_the_cores),
		cmocka_unit_test(what_the_gpu_has_not_is_refused),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
