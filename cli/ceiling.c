/* SPDX-License-Identifier: Apache-2.0 */
#include "ceiling.h"

#include "files.h"
#include "progress.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h> /* jpeglib.h uses FILE and size_t */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

struct window {
	uint32_t x, y, w, h;
};

/* The work and the results of one thread. */
struct job {
	const struct ceiling *ceiling;
	_Atomic int64_t *next;
	double until, cpu; /* until: time of the monotonic clock at which the thread stops; cpu: the thread's CPU seconds */
	int64_t decoded;
	pthread_t thread;
	bool started;
};

struct decoder {
	struct jpeg_decompress_struct jpeg;
	struct jpeg_error_mgr errors;
	jmp_buf failed;
	uint8_t *bytes, *row;
	size_t bytes_capacity, row_capacity;
};

static bool is_jpeg_name(const char *name)
{
	const char *dot = strrchr(name, '.');
	return dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

static bool add_path(struct ceiling *c, const char *path)
{
	if (c->count == c->capacity) {
		size_t capacity = c->capacity ? c->capacity * 2 : 1024;
		char **grown = realloc(c->paths, capacity * sizeof(*grown));
		if (!grown)
			return false;
		c->paths = grown;
		c->capacity = capacity;
	}
	c->paths[c->count] = strdup(path);
	return c->paths[c->count] && ++c->count;
}

/* Adds the JPEG files in a folder and in the folders below it. Links are followed and may lead in circles, so the depth is limited to DEEPEST.
 * Returns false if memory is short, or if the outermost folder (depth 0) cannot be opened. */
static bool add_folder(struct ceiling *c, const char *folder, int depth)
{
	enum { DEEPEST = 32 };
	DIR *d = depth < DEEPEST ? opendir(folder) : NULL;
	bool ok = depth == 0 ? d != NULL : true;
	for (struct dirent *e; d && ok && (e = readdir(d)) != NULL;) {
		struct stat s;
		char *path;
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (asprintf(&path, "%s/%s", folder, e->d_name) < 0) {
			ok = false;
			break;
		}
		const bool exists = stat(path, &s) == 0;
		if (exists && S_ISDIR(s.st_mode))
			ok = add_folder(c, path, depth + 1);
		else if (exists && S_ISREG(s.st_mode) && is_jpeg_name(e->d_name))
			ok = add_path(c, path);
		free(path);
	}
	if (d)
		closedir(d);
	return ok;
}

bool ceiling_open(struct ceiling *c, const char *folder, int32_t threads)
{
	*c = (struct ceiling){.threads = threads};
	return add_folder(c, folder, 0) && c->count > 0;
}

void ceiling_close(struct ceiling *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->paths[i]);
	free(c->paths);
	*c = (struct ceiling){0};
}

/* Returns a random number from `low` on and below `high` (SplitMix64). */
static double uniform(uint64_t *state, double low, double high)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return low + (high - low) * ((double)((z ^ z >> 31) >> 11) * 0x1p-53);
}

static struct window random_window(uint32_t width, uint32_t height, uint64_t seed)
{
	uint64_t state = seed;
	for (int attempt = 0; attempt < 10; attempt++) {
		double area = uniform(&state, 0.08, 1) * width * height, aspect = exp(uniform(&state, log(0.75), log(4.0 / 3)));
		uint32_t w = (uint32_t)lround(sqrt(area * aspect)), h = (uint32_t)lround(sqrt(area / aspect));
		if (w < 1 || h < 1 || w > width || h > height)
			continue;
		return (struct window){(uint32_t)uniform(&state, 0, width - w + 1.0), (uint32_t)uniform(&state, 0, height - h + 1.0), w, h};
	}
	return (struct window){0, 0, width, height};
}

static bool grow(uint8_t **buffer, size_t *capacity, size_t size)
{
	if (size <= *capacity)
		return true;
	uint8_t *grown = realloc(*buffer, size + size / 4);
	if (!grown)
		return false;
	*buffer = grown;
	*capacity = size + size / 4;
	return true;
}

/* Reads a file to d->bytes. Returns its size in bytes, or -1. */
static int64_t read_file(struct decoder *d, const char *path)
{
	struct stat st;
	int64_t n_read = -1;
	int fd = open_regular(path, &st);
	if (fd < 0)
		return -1;
	if (grow(&d->bytes, &d->bytes_capacity, (size_t)st.st_size + 1))
		n_read = pread(fd, d->bytes, (size_t)st.st_size, 0);
	close(fd);
	return n_read;
}

static void on_error(j_common_ptr jpeg)
{
	struct decoder *d = (struct decoder *)jpeg; /* jpeg is the first member of struct decoder */
	longjmp(d->failed, 1);
}

static void on_message(j_common_ptr jpeg)
{
	(void)jpeg;
}

static bool decode(struct decoder *d, size_t size, uint64_t seed)
{
	struct jpeg_decompress_struct *jpeg = &d->jpeg;
	if (setjmp(d->failed)) {
		jpeg_abort_decompress(jpeg);
		return false;
	}
	jpeg_mem_src(jpeg, d->bytes, size);
	jpeg_read_header(jpeg, TRUE);
	jpeg->out_color_space = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
	jpeg->dct_method = JDCT_ISLOW;
	jpeg->do_fancy_upsampling = TRUE;
	struct window window = random_window(jpeg->image_width, jpeg->image_height, seed);
	jpeg_start_decompress(jpeg);
	JDIMENSION x = window.x, w = window.w;
	if (w < jpeg->output_width)
		jpeg_crop_scanline(jpeg, &x, &w);
	if (!grow(&d->row, &d->row_capacity, (size_t)jpeg->output_width * 4 * window.h))
		longjmp(d->failed, 1);
	jpeg_skip_scanlines(jpeg, window.y);
	for (uint32_t y = 0; y < window.h; y++) {
		JSAMPROW row = d->row + (size_t)y * jpeg->output_width * (size_t)jpeg->output_components;
		jpeg_read_scanlines(jpeg, &row, 1);
	}
	jpeg_abort_decompress(jpeg);
	return true;
}

static void *run_job(void *user)
{
	struct job *job = user;
	const struct ceiling *c = job->ceiling;
	struct decoder d = {.bytes = NULL};
	d.jpeg.err = jpeg_std_error(&d.errors);
	d.errors.error_exit = on_error;
	d.errors.output_message = on_message;
	jpeg_create_decompress(&d.jpeg);
	do {
		int64_t i = atomic_fetch_add(job->next, 1);
		/* The stride is a prime: unless it divides the count, all files are visited, in another order than the folder's. */
		int64_t size = read_file(&d, c->paths[(uint64_t)i * 7919 % c->count]);
		job->decoded += size > 0 && decode(&d, (size_t)size, (uint64_t)i);
	} while (!interrupted() && wall_seconds() < job->until);
	jpeg_destroy_decompress(&d.jpeg);
	free(d.bytes);
	free(d.row);
	job->cpu = thread_seconds();
	return NULL;
}

int64_t ceiling_run(struct ceiling *c, double seconds, double *cpu)
{
	_Atomic int64_t next = c->next;
	int64_t decoded = 0;
	struct job *jobs = calloc((size_t)c->threads, sizeof(*jobs));
	*cpu = 0;
	if (!jobs)
		return 0;
	for (int32_t i = 0; i < c->threads; i++) {
		jobs[i] = (struct job){.ceiling = c, .next = &next, .until = wall_seconds() + seconds};
		jobs[i].started = pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]) == 0;
	}
	for (int32_t i = 0; i < c->threads; i++) {
		if (jobs[i].started)
			pthread_join(jobs[i].thread, NULL);
		decoded += jobs[i].decoded;
		*cpu += jobs[i].cpu;
	}
	c->next = next;
	free(jobs);
	return decoded;
}
