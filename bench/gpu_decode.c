/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures decoding of JPEG files in pinned memory to random resized crops of 224 x 224 on the GPU, with several batches in flight.
 *     gpu_decode FOLDER [batch=256] [in flight=8] [rounds=40] [MiB of device memory=2048]
 * Prints images/s with the copy included, host time per image, and the time of each phase for a batch that runs by itself. Before timing, the program
 * compares every image of a round with the result of the CPU path, unless UNVERIFIED is set. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "codec/codec.h"
#include "codec/jpeg_gpu/jpeg_gpu.h"
#include "kernel/pass/pass_kernels.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT = 224, MAX_FILES = 4096 };

struct photo {
	uint8_t *data; /* the file's bytes, in pinned memory */
	size_t size;
	struct stk_jpeg_header header;
};

struct setup {
	struct stk_gpu *gpu;
	struct stk_gpu_device *dev;
	struct stk_jpeg_gpu *decoder;
	struct photo *photos;
	int n_photos, batch, flights, rounds, memory;
	uint8_t *pinned;
	size_t bytes;
	stk_gpu_ptr out; /* memory for the crops of all batches in flight: flights * batch crops */
	struct stk_jpeg_gpu_batch **flight;
	struct stk_jpeg_gpu_item *items;
	struct stk_pass *passes;
	uint64_t rng;
};

static struct stk_error err;

static void ok(enum stk_status status)
{
	if (!status)
		return;
	fprintf(stderr, "%s: %s\n", stk_status_name(status), err.message);
	exit(1);
}

static double uniform(struct setup *s)
{
	s->rng = s->rng * 6364136223846793005u + 1442695040888963407u;
	return ((double)(s->rng >> 33) + 0.5) / 2147483648.0;
}

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- input ---- */

static size_t file_size(const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return 0;
	fseek(f, 0, SEEK_END);
	long size = ftell(f);
	fclose(f);
	return size > 0 ? (size_t)size : 0;
}

static void load(struct setup *s, const char *folder)
{
	static char paths[MAX_FILES][512];
	static size_t sizes[MAX_FILES];
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int n = 0;
	size_t total = 0;
	while (dir && n < MAX_FILES && (entry = readdir(dir))) {
		snprintf(paths[n], sizeof paths[n], "%s/%s", folder, entry->d_name);
		if (entry->d_name[0] == '.' || !(sizes[n] = file_size(paths[n])))
			continue;
		total += sizes[n++] + 64;
	}
	if (dir)
		closedir(dir);
	ok(stk__gpu_host_alloc(s->dev, total, (void **)&s->pinned, &err));
	s->photos = calloc((size_t)n, sizeof *s->photos);
	uint8_t *at = s->pinned;
	for (int i = 0; i < n; i++) {
		struct photo *p = &s->photos[s->n_photos];
		FILE *f = fopen(paths[i], "rb");
		p->data = at;
		p->size = f ? fread(at, 1, sizes[i], f) : 0;
		if (f)
			fclose(f);
		if (p->size != sizes[i] || stk__jpeg_header_parse(p->data, p->size, &p->header, NULL))
			continue;
		at += p->size;
		s->bytes += p->size;
		s->n_photos++;
	}
	if (!s->n_photos) {
		fprintf(stderr, "no JPEG files in %s\n", folder);
		exit(1);
	}
}

/* Draws a window as torchvision's RandomResizedCrop does: 8% to 100% of the area, aspect ratio 3/4 to 4/3. */
static struct stk_rect draw_crop(struct setup *s, int w, int h)
{
	for (;;) {
		double area = w * (double)h * (0.08 + 0.92 * uniform(s)), ratio = exp(log(0.75) + uniform(s) * log(16.0 / 9));
		int cw = (int)(sqrt(area * ratio) + 0.5), ch = (int)(sqrt(area / ratio) + 0.5);
		if (cw >= 1 && ch >= 1 && cw <= w && ch <= h)
			return (struct stk_rect){(int)(uniform(s) * (w - cw + 1)), (int)(uniform(s) * (h - ch + 1)), cw, ch};
	}
}

static struct stk_image crop_image(stk_gpu_ptr at)
{
	return stk__image_hwc((void *)(uintptr_t)at, STK_FLOAT16, OUT, OUT, 3);
}

static void draw_pass(struct setup *s, const struct photo *p, struct stk_pass *pass)
{
	static const float scale[3] = {1 / 58.4f, 1 / 57.1f, 1 / 57.4f}, bias[3] = {-2.12f, -2.04f, -1.80f};
	struct stk_rect crop = draw_crop(s, p->header.width, p->header.height);
	struct stk_resize resize = {.out_w = OUT,
		.out_h = OUT,
		.roi_x1 = (float)crop.w,
		.roi_y1 = (float)crop.h,
		.min_filter = STK_INTERP_TRIANGULAR,
		.mag_filter = STK_INTERP_LINEAR,
		.antialias = 1,
		.dtype = STK_UINT8};
	stk__pass_begin(pass, STK_UINT8, p->header.width, p->header.height, 3);
	stk__pass_window(pass, crop, NULL);
	stk__pass_resize(pass, &resize);
	stk__pass_mirror(pass, uniform(s) < 0.5, false);
	stk__pass_affine(pass, scale, bias, STK_FLOAT16);
}

/* Draws the items of a batch: consecutive files from a random one on, with random crops. */
static void draw_batch(struct setup *s, int flight)
{
	/* The files are consecutive in memory, so that one copy transfers them all, as it does for files that a pipeline has read ahead. */
	int first = (int)(uniform(s) * s->n_photos);
	for (int i = 0; i < s->batch; i++) {
		struct photo *p = &s->photos[(first + i) % s->n_photos];
		size_t at = (size_t)flight * (size_t)s->batch + (size_t)i;
		struct stk_pass *pass = &s->passes[at];
		draw_pass(s, p, pass);
		s->items[at] = (struct stk_jpeg_gpu_item){.data = p->data,
			.size = p->size,
			.header = &p->header,
			.window = stk__pass_source(pass),
			.pass = pass,
			.dst = crop_image(s->out + at * OUT * OUT * 6)};
		if (!stk__jpeg_gpu_need(&s->items[at], &s->items[at].need))
			/* Makes the GPU's decoder refuse the file, because no batch has this much memory. */
			s->items[at].need.files.bytes = UINT32_MAX;
	}
}

/* ---- verification ---- */

static void verify_batch(struct setup *s, int flight, int counts[3])
{
	struct stk_arena decoding = {0};
	struct stk_decoder *decoder;
	struct stk_codec_limits limits = {0};
	const size_t size = (size_t)OUT * OUT * 6;
	uint8_t *got = malloc(size), *want = malloc(size);
	ok(stk__decoder_create(&limits, 0, &decoding, &decoder, &err));
	for (int i = 0; i < s->batch; i++) {
		const struct stk_jpeg_gpu_item *it = &s->items[flight * s->batch + i];
		enum stk_jpeg_gpu_verdict verdict = stk__jpeg_gpu_verdict(s->flight[flight], i);
		counts[verdict]++;
		if (verdict)
			continue;
		struct stk_image_info info;
		ok(stk__image_peek(it->data, it->size, &limits, &info, &err));
		uint8_t *pixels = malloc((size_t)it->window.w * (size_t)it->window.h * 3 + 4096);
		struct stk_decode request = {.data = it->data,
			.size = it->size,
			.info = &info,
			.type = STK_RGB,
			.window = it->window,
			.dst = stk__image_hwc(pixels, STK_UINT8, it->window.w, it->window.h, 3)};
		ok(stk__image_decode(decoder, &request, &err));
		void *scratch = stk__alloc(stk__pass_scratch(it->pass));
		struct stk_image out = crop_image((stk_gpu_ptr)(uintptr_t)want);
		struct stk_pass_kernels kernels = stk__pass_kernels(0);
		stk__pass_run(it->pass, &kernels, &request.dst, it->window.x, it->window.y, &out, scratch);
		ok(stk__gpu_download(s->dev, NULL, got, (stk_gpu_ptr)(uintptr_t)it->dst.data, size, &err));
		ok(stk__gpu_stream_sync(s->dev, NULL, &err));
		if (memcmp(got, want, size) != 0) {
			fprintf(stderr, "image %d of batch %d differs from the CPU's\n", i, flight);
			exit(1);
		}
		stk__free(scratch);
		free(pixels);
	}
	stk__decoder_destroy(decoder);
	stk__arena_destroy(&decoding);
	free(got);
	free(want);
}

static void submit(struct setup *s, int flight)
{
	ok(stk__jpeg_gpu_submit(s->flight[flight], s->items + flight * s->batch, s->batch, &err));
}

static void finish(struct setup *s, int flight)
{
	ok(stk__jpeg_gpu_wait(s->flight[flight], &err));
}

static void verify(struct setup *s)
{
	int counts[3] = {0};
	for (int i = 0; i < s->flights; i++)
		submit(s, i);
	for (int i = 0; i < s->flights; i++) {
		finish(s, i);
		verify_batch(s, i, counts);
	}
	printf("verified: %d equal to the CPU's, %d refused, %d flagged\n", counts[0], counts[1], counts[2]);
}

/* ---- timing ---- */

static void throughput(struct setup *s)
{
	int64_t bytes = 0;
	double host = 0;
	for (int i = 0; i < s->flights; i++) {
		for (int k = 0; k < s->batch; k++)
			bytes += (int64_t)s->items[i * s->batch + k].size;
		submit(s, i);
	}
	int64_t start = stk__clock_ns();
	for (int round = 0; round < s->rounds; round++)
		for (int i = 0; i < s->flights; i++) {
			finish(s, i);
			double before = cpu_seconds();
			submit(s, i);
			host += cpu_seconds() - before;
		}
	double seconds = 1e-9 * (double)(stk__clock_ns() - start);
	for (int i = 0; i < s->flights; i++)
		finish(s, i);
	double images = (double)s->rounds * s->flights * s->batch;
	printf("batch %d in %d parts, %d in flight, %.0f MB of device memory: %.0f images/s, %.2f GB/s, host %.2f us an image\n", s->batch,
		stk__jpeg_gpu_parts(s->flight[0]), s->flights, (double)stk__jpeg_gpu_memory(s->decoder) * 1e-6, images / seconds,
		(double)bytes * s->rounds / seconds * 1e-9, host / images * 1e6);
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return x < y ? -1 : x > y;
}

static void phases(struct setup *s)
{
	enum { RUNS = 9 };
	float times[STK_JPEG_GPU_TIMES][RUNS] = {{0}}, sum = 0;
	struct stk_jpeg_gpu_times one;
	struct stk_jpeg_gpu_batch *batch = s->flight[0];
	stk__jpeg_gpu_measure(batch, true);
	for (int run = -1; run < RUNS; run++) {
		submit(s, 0);
		finish(s, 0);
		for (int part = 0; run >= 0 && part < stk__jpeg_gpu_parts(batch); part++) {
			ok(stk__jpeg_gpu_times(batch, part, &one, &err));
			for (int i = 0; i < STK_JPEG_GPU_TIMES; i++)
				times[i][run] += one.milliseconds[i];
		}
	}
	stk__jpeg_gpu_measure(batch, false);
	printf("batch %d alone, us:", s->batch);
	for (int i = 0; i < STK_JPEG_GPU_TIMES; i++) {
		qsort(times[i], RUNS, sizeof *times[i], by_value);
		sum += times[i][RUNS / 2];
		printf(" %s %.0f", stk__jpeg_gpu_time_name(i), times[i][RUNS / 2] * 1000);
	}
	printf(", sum %.0f\n", sum * 1000);
}

static void make_flights(struct setup *s)
{
	size_t count = (size_t)s->batch * (size_t)s->flights;
	ok(stk__jpeg_gpu_create(s->dev, (size_t)s->memory << 20, &s->decoder, &err));
	s->flight = calloc((size_t)s->flights, sizeof *s->flight);
	for (int i = 0; i < s->flights; i++)
		ok(stk__jpeg_gpu_batch_create(s->decoder, &s->flight[i], &err));
	ok(stk__gpu_alloc(s->dev, count * OUT * OUT * 6, &s->out, &err));
	s->items = calloc(count, sizeof *s->items);
	s->passes = stk__alloc(count * sizeof *s->passes);
	for (int i = 0; i < s->flights; i++)
		draw_batch(s, i);
}

static void free_flights(struct setup *s)
{
	for (int i = 0; i < s->flights; i++)
		stk__jpeg_gpu_batch_destroy(s->flight[i]);
	stk__jpeg_gpu_destroy(s->decoder);
	stk__gpu_free(s->dev, s->out);
	free(s->flight);
	free(s->items);
	stk__free(s->passes);
}

int main(int argc, char **argv)
{
	struct setup s = {.batch = argc > 2 ? atoi(argv[2]) : 256,
		.flights = argc > 3 ? atoi(argv[3]) : 8,
		.rounds = argc > 4 ? atoi(argv[4]) : 40,
		.memory = argc > 5 ? atoi(argv[5]) : 2048,
		.rng = 1};
	if (argc < 2 || s.batch < 1 || s.flights < 1 || s.rounds < 1 || s.memory < 1) {
		fprintf(stderr, "usage: gpu_decode FOLDER [batch] [in flight] [rounds] [MiB of device memory]\n");
		return 2;
	}
	ok(stk__gpu_open(&s.gpu, &err));
	ok(stk__gpu_device_open(s.gpu, 0, &s.dev, &err));
	ok(stk__gpu_enter(s.dev, &err));
	load(&s, argv[1]);
	make_flights(&s);
	printf("%d files, mean %.0f bytes\n", s.n_photos, (double)s.bytes / s.n_photos);
	if (!getenv("UNVERIFIED"))
		verify(&s);
	phases(&s);
	throughput(&s);
	free_flights(&s);
	stk__gpu_host_free(s.dev, s.pinned);
	stk__gpu_leave(s.dev);
	stk__gpu_device_close(s.dev);
	stk__gpu_close(s.gpu);
	free(s.photos);
	return 0;
}
