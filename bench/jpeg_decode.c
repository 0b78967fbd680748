/* SPDX-License-Identifier: Apache-2.0
 * Compares JPEG decoding on one core by Stoker's decoder and by direct calls of libjpeg-turbo, on whole images and on windows of a random resized crop.
 *
 *     jpeg_decode [--json] [--seconds=10] [--check] [--denom=1|2|4|8] FILE...
 *
 * Both sides decode from memory to RGB with the same settings (islow, triangle upsampling) and the same windows. libjpeg-turbo also decodes the margin that
 * it needs for correct pixels at a window's border. --denom: decodes at 1/denom of the size. Before the timing, all results are compared with decodes of the
 * whole image. Times are CPU time of the thread, in short alternating slices. Because the machine's speed drifts, neighbouring slices of the two sides are
 * compared: the figures are the median and the 10th and 90th percentile of their ratios. */
#include "base/cpu.h"
#include "codec/codec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

enum { SLICE = 24, MAX_SLICES = 4096, ROW_SLACK = 64 };

struct file {
	const char *path;
	uint8_t *data;
	size_t size;
	struct stk_image_info info;
};

struct bench {
	struct file *files;
	int count, denom;
	uint8_t *out, *expected;
	struct stk_decoder *ours;
	struct stk_arena scratch;
	struct jpeg_decompress_struct peer;
	struct jpeg_error_mgr errors;
};

static void die(const char *what, const char *which)
{
	fprintf(stderr, "jpeg_decode: %s: %s\n", which, what);
	exit(1);
}

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- inputs ---- */

static bool load(struct file *f, const char *path)
{
	FILE *stream = fopen(path, "rb");
	if (!stream || fseek(stream, 0, SEEK_END))
		die("cannot read", path);
	f->path = path;
	f->size = (size_t)ftell(stream);
	f->data = calloc(1, f->size + 64);
	rewind(stream);
	if (!f->data || fread(f->data, 1, f->size, stream) != f->size)
		die("cannot read", path);
	fclose(stream);
	return stk__image_peek(f->data, f->size, NULL, &f->info, NULL) == STK_OK && strcmp(f->info.format, "jpeg") == 0 &&
	       f->info.channels != 4;
}

static double draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 11) * 0x1p-53;
}

/* Draws the window of torchvision's and DALI's random resized crop: 8% to 100% of the area, aspect 3/4 to 4/3, log-uniform. */
static struct stk_rect random_window(int width, int height, uint64_t *state)
{
	for (int i = 0; i < 10; i++) {
		double area = width * (double)height * (.08 + .92 * draw(state)), aspect = exp(log(.75) + log(16 / 9.) * draw(state));
		int w = (int)lround(sqrt(area * aspect)), h = (int)lround(sqrt(area / aspect));
		if (w > 0 && h > 0 && w <= width && h <= height)
			return (struct stk_rect){(int)(draw(state) * (width - w + 1)), (int)(draw(state) * (height - h + 1)), w, h};
	}
	int side = width < height ? width : height;
	return (struct stk_rect){(width - side) / 2, (height - side) / 2, side, side};
}

static struct stk_rect window_of(const struct bench *b, const struct file *f, bool whole, uint64_t *state)
{
	int width = stk__image_scaled(f->info.width, b->denom), height = stk__image_scaled(f->info.height, b->denom);
	return whole ? (struct stk_rect){0, 0, width, height} : random_window(width, height, state);
}

/* ---- the two sides ---- */

static void decode_ours(struct bench *b, const struct file *f, struct stk_rect w)
{
	struct stk_decode rq = {.data = f->data,
		.size = f->size,
		.info = &f->info,
		.type = STK_RGB,
		.denom = b->denom,
		.window = w,
		.dst = stk__image_hwc(b->out, STK_UINT8, w.w, w.h, 3)};
	struct stk_error err;
	if (stk__image_decode(b->ours, &rq, &err))
		die(err.message, f->path);
}

/* Decodes the window with libjpeg-turbo to b->out. Sets *row to the size of a row in bytes, and *skip to the offset of the window's first pixel. */
static void decode_peer(struct bench *b, const struct file *f, struct stk_rect w, size_t *row, size_t *skip)
{
	j_decompress_ptr c = &b->peer;
	jpeg_mem_src(c, f->data, f->size);
	jpeg_read_header(c, TRUE);
	c->out_color_space = JCS_RGB;
	c->scale_denom = (unsigned)b->denom;
	jpeg_start_decompress(c);
	JDIMENSION x = 0, width = c->output_width;
	if (w.w < (int)width) {
		int left = w.x > 2 ? w.x - 2 : 0, right = w.x + w.w + 2 < (int)width ? w.x + w.w + 2 : (int)width;
		x = (JDIMENSION)left;
		width = (JDIMENSION)(right - left);
		jpeg_crop_scanline(c, &x, &width);
	}
	if (w.y)
		jpeg_skip_scanlines(c, (JDIMENSION)w.y);
	*row = (size_t)width * 3;
	*skip = ((size_t)w.x - x) * 3;
	for (int y = 0; y < w.h; y++) {
		JSAMPROW line = b->out + (size_t)y * *row;
		jpeg_read_scanlines(c, &line, 1);
	}
	jpeg_abort_decompress(c);
}

static void check(struct bench *b, const struct file *f, struct stk_rect w)
{
	size_t row, skip;
	struct stk_rect all = window_of(b, f, true, NULL);
	size_t full = (size_t)all.w * 3;
	decode_peer(b, f, all, &row, &skip);
	memcpy(b->expected, b->out, full * (size_t)all.h);
	for (int side = 0; side < 2; side++) {
		if (side)
			decode_peer(b, f, w, &row, &skip);
		else
			decode_ours(b, f, w), row = (size_t)w.w * 3, skip = 0;
		for (int y = 0; y < w.h; y++)
			if (memcmp(b->out + (size_t)y * row + skip, b->expected + (size_t)(w.y + y) * full + (size_t)w.x * 3,
				    (size_t)w.w * 3))
				die(side ? "libjpeg-turbo's window differs from its full decode" : "our pixels differ", f->path);
	}
}

/* ---- timing ---- */

struct result {
	const char *name;
	double ours[MAX_SLICES], peer[MAX_SLICES],
		ratio[MAX_SLICES]; /* ours, peer: microseconds per image in each slice; ratio: peer / ours */
	int slices;
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double percentile(const double *values, int n, double p)
{
	double sorted[MAX_SLICES];
	memcpy(sorted, values, (size_t)n * sizeof *values);
	qsort(sorted, (size_t)n, sizeof *sorted, compare);
	return sorted[(int)(p * (n - 1) + .5)];
}

static double time_slice(struct bench *b, int slice, bool whole, bool ours)
{
	uint64_t state = (uint64_t)slice * 977 + 1;
	size_t row, skip;
	double begin = cpu_seconds();
	for (int i = 0; i < SLICE; i++) {
		const struct file *f = &b->files[(slice * SLICE + i) % b->count];
		struct stk_rect w = window_of(b, f, whole, &state);
		if (ours)
			decode_ours(b, f, w);
		else
			decode_peer(b, f, w, &row, &skip);
	}
	return (cpu_seconds() - begin) / SLICE * 1e6;
}

static void run(struct bench *b, struct result *r, bool whole, double seconds)
{
	double begin = cpu_seconds();
	for (r->slices = 0; r->slices < MAX_SLICES && (r->slices < 3 || cpu_seconds() - begin < seconds); r->slices++) {
		int n = r->slices;
		bool ours_first = n & 1;
		if (ours_first)
			r->ours[n] = time_slice(b, n, whole, true);
		r->peer[n] = time_slice(b, n, whole, false);
		if (!ours_first)
			r->ours[n] = time_slice(b, n, whole, true);
		r->ratio[n] = r->peer[n] / r->ours[n];
	}
}

static void print_table(const struct bench *b, const struct result *results, double bytes, double pixels)
{
	printf("%d files, %.1f KiB and %.3f Mpx on average; one core, %s; libjpeg-turbo API %d\n", b->count, bytes / 1024, pixels / 1e6,
		stk__cpu_name(stk__cpu_capabilities()), JPEG_LIB_VERSION);
	printf("%-14s %16s %16s %8s %14s %7s\n", "", "libjpeg-turbo us", "ours us", "ratio", "10th..90th", "slices");
	for (int i = 0; i < 2; i++) {
		const struct result *r = &results[i];
		printf("%-14s %16.1f %16.1f %8.2f %6.2f..%-6.2f %7d\n", r->name, percentile(r->peer, r->slices, .5),
			percentile(r->ours, r->slices, .5), percentile(r->ratio, r->slices, .5), percentile(r->ratio, r->slices, .1),
			percentile(r->ratio, r->slices, .9), r->slices);
	}
}

static void print_json(const struct bench *b, const struct result *results, double bytes, double pixels)
{
	printf("{\"bench\": \"jpeg_decode\", \"files\": %d, \"mean_bytes\": %.0f, \"mean_pixels\": %.0f, \"cpu\": \"%s\"", b->count, bytes,
		pixels, stk__cpu_name(stk__cpu_capabilities()));
	for (int i = 0; i < 2; i++) {
		const struct result *r = &results[i];
		printf(", \"%s\": {\"peer_us\": %.1f, \"ours_us\": %.1f, \"ratio\": %.3f, \"ratio_p10\": %.3f, \"ratio_p90\": %.3f, "
		       "\"slices\": %d}",
			r->name, percentile(r->peer, r->slices, .5), percentile(r->ours, r->slices, .5),
			percentile(r->ratio, r->slices, .5), percentile(r->ratio, r->slices, .1), percentile(r->ratio, r->slices, .9),
			r->slices);
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	static struct bench b;
	static struct result results[2] = {{.name = "window"}, {.name = "whole"}};
	double seconds = 10, bytes = 0, pixels = 0;
	size_t largest = 0;
	bool json = false, only_check = false;
	b.denom = 1;
	b.files = calloc((size_t)argc, sizeof *b.files);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0)
			json = true;
		else if (strcmp(argv[i], "--check") == 0)
			only_check = true;
		else if (strncmp(argv[i], "--seconds=", 10) == 0)
			seconds = atof(argv[i] + 10);
		else if (strncmp(argv[i], "--denom=", 8) == 0)
			b.denom = atoi(argv[i] + 8);
		else if (load(&b.files[b.count], argv[i]))
			b.count++;
	}
	if (!b.count)
		die("no JPEG given", "usage: jpeg_decode [--json] [--check] [--seconds=10] FILE...");
	for (int i = 0; i < b.count; i++) {
		size_t n = (size_t)b.files[i].info.width * (size_t)b.files[i].info.height;
		bytes += (double)b.files[i].size / b.count;
		pixels += (double)n / b.count;
		largest = n > largest ? n : largest;
	}
	b.out = malloc(3 * largest + ROW_SLACK);
	b.expected = malloc(3 * largest);
	struct stk_error err;
	if (!b.out || !b.expected || stk__decoder_create(NULL, stk__cpu_capabilities(), &b.scratch, &b.ours, &err))
		die("no memory", "start");
	b.peer.err = jpeg_std_error(&b.errors);
	jpeg_create_decompress(&b.peer);
	uint64_t state = 1;
	for (int i = 0; i < b.count; i++)
		for (int whole = 0; whole < 2; whole++)
			check(&b, &b.files[i], window_of(&b, &b.files[i], whole, &state));
	for (int i = 0; i < 2 && !only_check; i++)
		run(&b, &results[i], i == 1, seconds / 2);
	if (only_check)
		printf("%d files: pixels equal\n", b.count);
	else
		(json ? print_json : print_table)(&b, results, bytes, pixels);
	return 0;
}
