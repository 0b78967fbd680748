/* SPDX-License-Identifier: Apache-2.0
 * CIFAR-10 and CIFAR-100, binary version: records of one or two label bytes and 3072 pixels (https://www.cs.toronto.edu/~kriz/cifar.html). */
#include "format/cifar.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "format/list.h"
#include "kernel/rows/rows.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = 5 };

/* The binary form of a data set: its folder, its files and their records. */
static const struct layout {
	const char *name, *folder; /* folder: name of the folder in the data set's archive */
	int label_bytes, file_count;
	const char *files[MAX_FILES];
	int64_t records; /* number of records in each file */
} layouts[2][2] = {
	[STK_CIFAR_TRAIN] = {{"CIFAR-10", "cifar-10-batches-bin", 1, 5,
				     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
				     10000},
		{"CIFAR-100", "cifar-100-binary", 2, 1, {"train.bin"}, 50000}},
	[STK_CIFAR_TEST] = {{"CIFAR-10", "cifar-10-batches-bin", 1, 1, {"test_batch.bin"}, 10000},
		{"CIFAR-100", "cifar-100-binary", 2, 1, {"test.bin"}, 10000}},
};

enum { SLACK = 64, LABEL_BYTES = 2 };

struct stk_cifar {
	int64_t size, filled;
	uint64_t fingerprint;
	bool coarse;
	uint8_t *pixels; /* one image after the other, as in stk__cifar_pixels; allocated with stk__map */
	uint8_t *labels; /* two for each image: the fine and the coarse label, which are equal for CIFAR-10 */
};

enum stk_status stk__cifar_check(
	const uint8_t *data, size_t size, int label_bytes, int64_t expected, const char *path, struct stk_error *err)
{
	const size_t record = (size_t)label_bytes + STK_CIFAR_PIXELS;
	if (size != record * (size_t)expected)
		return stk__fail(err, STK_CORRUPT, "%s: %lld records of %zu bytes make %zu bytes, and it has %zu: %s", path,
			(long long)expected, record, record * (size_t)expected, size,
			size < record * (size_t)expected ? "it is cut short" : "not CIFAR's binary file");
	for (int64_t i = 0; i < expected; i++) {
		const uint8_t *labels = data + (size_t)i * record;
		int coarse = label_bytes == 2 ? labels[0] : 0, label = labels[label_bytes - 1];
		if (label < (label_bytes == 2 ? 100 : 10) && coarse < 20)
			continue;
		enum stk_status status = stk__fail(err, STK_CORRUPT, "%s: record %lld has the label %d, which CIFAR-%d does not have", path,
			(long long)i, coarse < 20 ? label : coarse, label_bytes == 2 ? 100 : 10);
		if (err)
			err->offset = i * (int64_t)record;
		return status;
	}
	return STK_OK;
}

/* Searches for the data set's first file in the folder, then in the subfolder that its archive contains. Writes the path of the folder with that file to
 * `dir`, and sets *out to the data set's layout; NULL: the file was not found. Fails if both data sets are there. */
static enum stk_status find_layout(
	const char *folder, enum stk_cifar_split split, char *dir, size_t capacity, const struct layout **out, struct stk_error *err)
{
	char path[PATH_MAX], candidate[PATH_MAX];
	*out = NULL;
	for (int in_subfolder = 0; in_subfolder < 2 && !*out; in_subfolder++)
		for (int i = 0; i < 2; i++) {
			const struct layout *l = &layouts[split][i];
			size_t n = (size_t)snprintf(
				candidate, sizeof candidate, "%s%s%s", folder, in_subfolder ? "/" : "", in_subfolder ? l->folder : "");
			if (n >= sizeof candidate || n >= capacity)
				return STK_OK;
			if ((size_t)snprintf(path, sizeof path, "%s/%s", candidate, l->files[0]) >= sizeof path || access(path, F_OK))
				continue;
			if (*out)
				return stk__fail(
					err, STK_INVALID, "%s holds both CIFAR-10 and CIFAR-100: give the folder of one of them", folder);
			memcpy(dir, candidate, n + 1);
			*out = l;
		}
	return STK_OK;
}

/* Appends records: their labels, and their planes converted to pixels, so that no epoch has to convert them. */
static void add_records(struct stk_cifar *c, const uint8_t *data, int64_t records, int label_bytes)
{
	enum { PLANE = STK_CIFAR_PIXELS / 3 };
	struct stk_row_kernels rows;
	stk__row_kernels_init(&rows, stk__cpu_capabilities());
	for (int64_t i = 0; i < records; i++, c->filled++, data += label_bytes + STK_CIFAR_PIXELS) {
		c->labels[LABEL_BYTES * c->filled] = data[label_bytes - 1];
		c->labels[LABEL_BYTES * c->filled + 1] = data[0];
		rows.interleave(c->pixels + c->filled * STK_CIFAR_PIXELS, data + label_bytes, PLANE, PLANE, 3, 1);
	}
}

static enum stk_status read_file(struct stk_cifar *c, const struct layout *l, const char *path, struct stk_error *err)
{
	uint8_t *data;
	size_t size;
	enum stk_status status = stk__read_whole(path, (size_t)1 << 30, &data, &size, err);
	if (!status)
		status = stk__cifar_check(data, size, l->label_bytes, l->records, path, err);
	if (!status) {
		c->fingerprint = stk__hash_bytes(c->fingerprint, data, size);
		add_records(c, data, l->records, l->label_bytes);
	}
	stk__free(data);
	return status;
}

static size_t pixel_bytes(const struct stk_cifar *c)
{
	return (size_t)c->size * STK_CIFAR_PIXELS + SLACK;
}

enum stk_status stk__cifar_open(const char *folder, enum stk_cifar_split split, struct stk_cifar **out, struct stk_error *err)
{
	char dir[PATH_MAX], path[PATH_MAX + 32];
	*out = NULL;
	if (access(folder, F_OK))
		return stk__fail_missing(err, "%s: no such folder", folder);
	const struct layout *l;
	enum stk_status status = find_layout(folder, split, dir, sizeof dir, &l, err);
	if (status)
		return status;
	if (!l)
		return stk__fail_missing(err,
			"%s: neither %s (CIFAR-10) nor %s (CIFAR-100) is in it; the binary version's archives unpack to %s and %s", folder,
			layouts[split][0].files[0], layouts[split][1].files[0], layouts[split][0].folder, layouts[split][1].folder);
	struct stk_cifar *c = stk__calloc(1, sizeof *c);
	if (!c)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %s", l->name);
	c->coarse = l->label_bytes == LABEL_BYTES;
	c->size = l->records * l->file_count;
	c->pixels = stk__map(pixel_bytes(c));
	c->labels = stk__alloc(LABEL_BYTES * (size_t)c->size);
	if (!c->pixels || !c->labels)
		status = stk__fail(err, STK_NO_MEMORY, "out of memory for the %lld images of %s", (long long)c->size, l->name);
	for (int i = 0; i < l->file_count && !status; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, l->files[i]);
		status = read_file(c, l, path, err);
	}
	if (status) {
		stk__cifar_close(c);
		return status;
	}
	*out = c;
	return STK_OK;
}

void stk__cifar_close(struct stk_cifar *c)
{
	if (!c)
		return;
	stk__unmap(c->pixels, pixel_bytes(c));
	stk__free(c->labels);
	stk__free(c);
}

int64_t stk__cifar_size(const struct stk_cifar *c)
{
	return c->size;
}

const uint8_t *stk__cifar_pixels(const struct stk_cifar *c, int64_t i)
{
	return c->pixels + i * STK_CIFAR_PIXELS;
}

int32_t stk__cifar_label(const struct stk_cifar *c, int64_t i)
{
	return c->labels[LABEL_BYTES * i];
}

int32_t stk__cifar_coarse_label(const struct stk_cifar *c, int64_t i)
{
	return c->coarse ? c->labels[LABEL_BYTES * i + 1] : -1;
}

uint64_t stk__cifar_fingerprint(const struct stk_cifar *c)
{
	return c->fingerprint;
}
