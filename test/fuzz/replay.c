/* SPDX-License-Identifier: Apache-2.0
 * Feeds a fuzz target the files of the folders given, and shortened and altered forms of each: what a fuzzer found stays found. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The target gets an exact copy, so that the sanitizers see a read past its end. */
static void feed(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	if (!copy)
		abort();
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static int feed_file(const char *path)
{
	static uint8_t data[1 << 20];
	FILE *f = fopen(path, "rb");
	if (!f)
		return perror(path), 1;
	size_t size = fread(data, 1, sizeof data, f);
	fclose(f);
	feed(data, size);
	size_t step = size / 256 + 1;
	uint32_t random = 12345;
	for (size_t n = 0; n < size; n += step) {
		feed(data, n);
		random = random * 1664525 + 1013904223;
		uint8_t *changed = &data[random % size], before = *changed;
		*changed = (uint8_t)(random >> 24);
		feed(data, size);
		*changed = before;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int files = 0, failed = 0;
	for (int i = 1; i < argc; i++) {
		DIR *dir = opendir(argv[i]);
		if (!dir)
			return perror(argv[i]), 1;
		for (struct dirent *e; (e = readdir(dir));) {
			char path[4096];
			if (e->d_name[0] == '.')
				continue;
			snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
			failed |= feed_file(path);
			files++;
		}
		closedir(dir);
	}
	printf("%d files replayed\n", files);
	return failed || files == 0;
}
