/* SPDX-License-Identifier: Apache-2.0
 * CIFAR-10 and CIFAR-100, binary version: records of one or two label bytes and 3072 pixels (https://www.cs.toronto.edu/~kriz/cifar.html). */
#include "format/cifar.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "format/list.h"
#include "kernel/pass.h"
#include "kernel/rows.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILES = 5 };

/* A data set's files: what marks the folder, and how much they hold. */
static const struct layout {
	const char *name, *folder; /* as the archive unpacks */
	int label_bytes, file_count;
	const char *files[MAX_FILES];
	int64_t records; /* a file */
} layouts[2][2] = {
	[STK_CIFAR_TRAIN] = {{"CIFAR-10", "cifar-10-batches-bin", 1, 5,
				     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
				     10000},
		{"CIFAR-100", "cifar-100-binary", 2, 1, {"train.bin"}, 50000}},
	[STK_CIFAR_TEST] = {{"CIFAR-10", "cifar-10-batches-bin", 1, 1, {"test_batch.bin"}, 10000},
		{"CIFAR-100", "cifar-100-binary", 2, 1, {"test.bin"}, 10000}},
};

struct stk_cifar {
	int label_bytes, file_count;
	int64_t records; /* a file */
	uint64_t fingerprint;
	uint8_t *data[MAX_FILES];
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

/* Looks for the data set's first file in the folder, then below it as the archive unpacks. The folder found goes to `dir`. */
static const struct layout *find_layout(const char *folder, enum stk_cifar_split split, char *dir, size_t capacity)
{
	char path[PATH_MAX];
	for (int below = 0; below < 2; below++)
		for (int i = 0; i < 2; i++) {
			const struct layout *l = &layouts[split][i];
			if ((size_t)snprintf(dir, capacity, "%s%s%s", folder, below ? "/" : "", below ? l->folder : "") >= capacity)
				return NULL;
			if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, l->files[0]) < sizeof path && access(path, F_OK) == 0)
				return l;
		}
	return NULL;
}

/* Planes to pixels, once, so that no epoch has to do it again. */
static void make_pixels(uint8_t *planes)
{
	enum { PLANE = STK_CIFAR_PIXELS / 3 };
	uint8_t pixels[STK_CIFAR_PIXELS];
	stk__pass_kernels(stk__cpu_level())->rows->interleave(pixels, planes, PLANE, PLANE, 3, 1);
	memcpy(planes, pixels, sizeof pixels);
}

static enum stk_status read_file(struct stk_cifar *c, int i, const char *path, struct stk_error *err)
{
	size_t size, record = (size_t)c->label_bytes + STK_CIFAR_PIXELS;
	enum stk_status status = stk__read_whole(path, (size_t)1 << 30, &c->data[i], &size, err);
	if (!status)
		status = stk__cifar_check(c->data[i], size, c->label_bytes, c->records, path, err);
	if (status)
		return status;
	c->fingerprint = stk__hash_bytes(c->fingerprint, c->data[i], record * (size_t)c->records);
	for (int64_t k = 0; k < c->records; k++)
		make_pixels(c->data[i] + (size_t)k * record + c->label_bytes);
	return STK_OK;
}

enum stk_status stk__cifar_open(const char *folder, enum stk_cifar_split split, struct stk_cifar **out, struct stk_error *err)
{
	char dir[PATH_MAX], path[PATH_MAX + 32];
	*out = NULL;
	if (access(folder, F_OK))
		return stk__fail(err, STK_NOT_FOUND, "%s: no such folder", folder);
	const struct layout *l = find_layout(folder, split, dir, sizeof dir);
	if (!l)
		return stk__fail(err, STK_NOT_FOUND,
			"%s: neither %s (CIFAR-10) nor %s (CIFAR-100) is in it; the binary version's archives unpack to %s and %s", folder,
			layouts[split][0].files[0], layouts[split][1].files[0], layouts[split][0].folder, layouts[split][1].folder);
	struct stk_cifar *c = stk__calloc(1, sizeof *c);
	if (!c)
		return stk__fail(err, STK_NO_MEMORY, "out of memory for %s", l->name);
	c->label_bytes = l->label_bytes;
	c->file_count = l->file_count;
	c->records = l->records;
	enum stk_status status = STK_OK;
	for (int i = 0; i < l->file_count && !status; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, l->files[i]);
		status = read_file(c, i, path, err);
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
	for (int i = 0; i < c->file_count; i++)
		stk__free(c->data[i]);
	stk__free(c);
}

int64_t stk__cifar_size(const struct stk_cifar *c)
{
	return c->records * c->file_count;
}

static const uint8_t *record_of(const struct stk_cifar *c, int64_t i)
{
	return c->data[i / c->records] + (size_t)(i % c->records) * ((size_t)c->label_bytes + STK_CIFAR_PIXELS);
}

const uint8_t *stk__cifar_pixels(const struct stk_cifar *c, int64_t i)
{
	return record_of(c, i) + c->label_bytes;
}

int32_t stk__cifar_label(const struct stk_cifar *c, int64_t i)
{
	return record_of(c, i)[c->label_bytes - 1];
}

int32_t stk__cifar_coarse_label(const struct stk_cifar *c, int64_t i)
{
	return c->label_bytes == 2 ? record_of(c, i)[0] : -1;
}

uint64_t stk__cifar_fingerprint(const struct stk_cifar *c)
{
	return c->fingerprint;
}
