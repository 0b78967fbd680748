/* SPDX-License-Identifier: Apache-2.0
 * Compares the GPU's JPEG decoder with its plain C version, phase by phase. Skipped without a GPU; shorter on the emulated one. */
#include "base/memory.h"
#include "cuda_files.h"
#include "kernel/jpeg_gpu/jpeg_gpu_reference.h"

enum { BATCH = 64, RAW = 24 << 20 };

/* ---- phase by phase ---- */

struct side {
	uint8_t *raw, *tables, *work;
	struct stk_jpeg_gpu_view view;
};

#define SAME(field, count)                                                                                                                 \
	equal(#field, cpu->field, (const uint8_t *)gpu + ((const uint8_t *)cpu->field - base), sizeof *cpu->field * (count))

/* Each of these functions compares the results of one phase, as far as their values are defined. cpu and base: the view and the work memory of the plain C
 * version; gpu: a copy of the GPU's work memory, with the same layout. */
static void compare_synchronised(const struct stk_jpeg_gpu_view *cpu, const uint8_t *base, const uint8_t *gpu)
{
	SAME(kept, cpu->n_chunks);
	SAME(bit_length, cpu->n_bitstreams);
	for (uint32_t i = 0; i < cpu->n_bitstreams; i++) {
		const struct stk_jpeg_gpu_bitstream *s = &cpu->bitstreams[i];
		uint32_t length = cpu->bit_length[i], subsequences = (length + STK_JPEG_GPU_SUBSEQUENCE - 1) / STK_JPEG_GPU_SUBSEQUENCE;
		size_t at = (size_t)(cpu->bits - base) + (size_t)s->subsequence0 * (STK_JPEG_GPU_SUBSEQUENCE / 8);
		for (uint32_t k = 0; k < length / 8; k++)
			if (base[at + (k ^ 3)] != gpu[at + (k ^ 3)])
				fail_msg("bits: stream %u byte %u", i, k);
		if (i >= cpu->n_baseline)
			continue;
		at = (size_t)((const uint8_t *)(cpu->checkpoints + (size_t)s->subsequence0 * STK_JPEG_GPU_PER_SUBSEQUENCE) - base);
		equal("checkpoints of row 0", base + at, gpu + at, 4 * ((length + STK_JPEG_GPU_INTERVAL - 1) / STK_JPEG_GPU_INTERVAL));
		at = (size_t)((const uint8_t *)(cpu->match + s->subsequence0) - base);
		equal("matches", base + at, gpu + at, 4 * subsequences);
		at = (size_t)((const uint8_t *)(cpu->starts + (size_t)s->subsequence0 * STK_JPEG_GPU_PIECES) - base);
		for (uint32_t k = 0; k < s->subsequences * STK_JPEG_GPU_PIECES; k++) {
			struct stk_jpeg_gpu_start a, b;
			memcpy(&a, base + at + k * sizeof a, sizeof a);
			memcpy(&b, gpu + at + k * sizeof b, sizeof b);
			if (a.block != b.block || (a.block != STK_JPEG_GPU_NONE && a.state != b.state))
				fail_msg("starts: stream %u piece %u: %u/%x, %u/%x", i, k, a.block, a.state, b.block, b.state);
		}
	}
}

static void compare_coefficients(const struct stk_jpeg_gpu_view *cpu, const uint8_t *base, const uint8_t *gpu)
{
	for (uint32_t i = 0; i < cpu->n_images; i++) {
		const struct stk_jpeg_gpu_image *im = &cpu->images[i];
		if (cpu->flags[i])
			continue;
		size_t row = (size_t)im->mcus_x * im->blocks_mcu,
		       at = (size_t)((const uint8_t *)(cpu->coef + 64 * (size_t)im->coef0) - base);
		/* The decoder skips restart intervals that end before the window, so compare from the window's first row. */
		equal("coefficients", base + at, gpu + at, 128 * (size_t)im->idct);
		at = (size_t)((const uint8_t *)(cpu->dc + im->dc0 + row * im->mcu_y0) - base);
		equal("DC", base + at, gpu + at, 2 * row * (im->mcu_y1 - im->mcu_y0));
	}
}

static void compare_planes(const struct stk_jpeg_gpu_view *cpu, const uint8_t *base, const uint8_t *gpu)
{
	for (uint32_t i = 0; i < cpu->n_images; i++) {
		const struct stk_jpeg_gpu_image *im = &cpu->images[i];
		for (uint32_t c = 0; c < im->components && !cpu->flags[i]; c++) {
			size_t at = (size_t)(cpu->planes - base) + im->plane[c].at;
			equal("planes", base + at, gpu + at, (size_t)im->plane[c].pitch * 8 * im->plane[c].v * (im->mcu_y1 - im->mcu_y0));
		}
	}
}

static void compare_pixels(const struct stk_jpeg_gpu_view *cpu, const uint8_t *base, const uint8_t *gpu)
{
	for (uint32_t i = 0; i < cpu->n_images; i++) {
		const struct stk_jpeg_gpu_image *im = &cpu->images[i];
		size_t at = (size_t)(cpu->rgb - base) + im->rgb + im->channels * (im->x & 7);
		for (uint32_t y = 0; y < im->h && !cpu->flags[i]; y++)
			equal("pixels", base + at + (size_t)y * im->rgb_pitch, gpu + at + (size_t)y * im->rgb_pitch, im->channels * im->w);
	}
}

/* Stages of the comparison: both sides run the phases before `end`, then `compare` compares their results, before later phases overwrite them. */
static const struct {
	enum stk_jpeg_gpu_phase end;
	void (*compare)(const struct stk_jpeg_gpu_view *cpu, const uint8_t *base, const uint8_t *gpu);
} stages[] = {{STK_JPEG_GPU_DECODE_COEFFICIENTS, compare_synchronised}, {STK_JPEG_GPU_IDCT, compare_coefficients},
	{STK_JPEG_GPU_COLOR, compare_planes}, {STK_JPEG_GPU_PHASES, compare_pixels}};

struct phases {
	struct stk_jpeg_gpu_plan_limits limits;
	struct stk_jpeg_gpu_plan *plan;
	struct stk_jpeg_gpu_plan_sizes sizes;
	uint8_t *raw, *tables, *sent, *work, *back;
	stk_gpu_ptr device_raw, device_tables, device_work;
	struct stk_jpeg_gpu_kernels kernels;
};

static void phases_create(struct stk_gpu_device *dev, struct phases *p)
{
	p->limits = (struct stk_jpeg_gpu_plan_limits){.images = BATCH,
		.bytes = 16 << 20,
		.blocks = 700000,
		.scans = BATCH * STK_JPEG_GPU_MAX_SCANS,
		.tables = BATCH * STK_JPEG_GPU_MAX_SET};
	p->sizes = stk__jpeg_gpu_plan_sizes(&p->limits);
	p->tables = stk__alloc(p->sizes.tables);
	p->sent = stk__alloc(p->sizes.tables);
	p->work = stk__alloc(p->sizes.work);
	p->back = stk__alloc(p->sizes.work);
	p->raw = stk__calloc(1, RAW);
	memset(p->work, 0xa5, p->sizes.work);
	ok(stk__jpeg_gpu_plan_create(&p->limits, p->tables, &p->plan, &err));
	ok(stk__gpu_alloc(dev, RAW, &p->device_raw, &err));
	ok(stk__gpu_alloc(dev, p->sizes.tables, &p->device_tables, &err));
	ok(stk__gpu_alloc(dev, p->sizes.work, &p->device_work, &err));
	ok(stk__jpeg_gpu_kernels_load(dev, &p->kernels, &err));
}

static void phases_destroy(struct stk_gpu_device *dev, struct phases *p)
{
	stk__gpu_free(dev, p->device_raw);
	stk__gpu_free(dev, p->device_tables);
	stk__gpu_free(dev, p->device_work);
	stk__jpeg_gpu_plan_destroy(p->plan);
	stk__free(p->tables);
	stk__free(p->sent);
	stk__free(p->work);
	stk__free(p->back);
	stk__free(p->raw);
}

/* Runs the batch on both sides. Returns how many images are correct. */
static int run_phases(struct stk_gpu_device *dev, struct phases *p, const struct file *files, int n)
{
	uint32_t at = 16, index;
	stk__jpeg_gpu_plan_begin(p->plan, &p->limits);
	for (int i = 0; i < n; i++) {
		at += draw(40);
		assert_true(at + files[i].size + 64 < RAW);
		memcpy(p->raw + at, files[i].data, files[i].size);
		struct stk_jpeg_gpu_file f = {
			files[i].data, files[i].size, &files[i].header, files[i].window, at, (enum stk_image_type)draw(STK_YCBCR + 1)};
		stk__jpeg_gpu_plan_add(p->plan, &f, &index);
		at += (uint32_t)files[i].size;
	}
	size_t bytes = stk__jpeg_gpu_plan_end(p->plan);
	memcpy(p->sent, p->tables, bytes);
	struct stk_jpeg_gpu_view cpu, gpu;
	stk__jpeg_gpu_plan_view(p->plan, (uintptr_t)p->tables, (uintptr_t)p->work, (uintptr_t)p->raw, &cpu);
	stk__jpeg_gpu_plan_view(p->plan, p->device_tables, p->device_work, p->device_raw, &gpu);
	ok(stk__gpu_fill(dev, NULL, p->device_work, 0x5a, p->sizes.work, &err));
	ok(stk__gpu_upload(dev, NULL, p->device_raw, p->raw, RAW, &err));
	ok(stk__gpu_upload(dev, NULL, p->device_tables, p->sent, bytes, &err));
	enum stk_jpeg_gpu_phase phase = STK_JPEG_GPU_COUNT;
	for (size_t stage = 0; stage < sizeof stages / sizeof *stages; stage++) {
		stk__jpeg_gpu_run(&cpu, phase, stages[stage].end);
		for (; phase < stages[stage].end; phase++) {
			ok(stk__jpeg_gpu_launch(dev, &p->kernels, &gpu, phase, NULL, &err));
			if (stk__gpu_stream_sync(dev, NULL, &err))
				fail_msg("phase %s: %s", stk__jpeg_gpu_phase_names[phase], err.message);
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
			fail_msg("flags of image %u: %x, in plain C %x", i, flags, cpu.flags[i]);
		right += !flags;
	}
	return right;
}

static void phases_equal_plain_c(void **state)
{
	struct stk_gpu_device *dev = need_gpu(state);
	struct phases p;
	int right = 0, total = 0;
	phases_create(dev, &p);
	for (int round = 0; round < (is_emulated(dev) ? 2 : 6); round++) {
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

static void photographs_equal_plain_c(void **state)
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

int main(void)
{
	take_seed();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phases_equal_plain_c),
		cmocka_unit_test(photographs_equal_plain_c),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
