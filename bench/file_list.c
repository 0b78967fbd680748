/* SPDX-License-Identifier: Apache-2.0
 * Measures how long it takes to list a tree of class folders, and how many bytes per file the list needs.
 *     file_list [--make FILES FOLDERS] [--json] DIR
 * --make fills DIR with empty files first (for example 1000000 in 1000 folders). Listing twice shows the time with a warm cache. */
#include "base/clock.h"
#include "format/format.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int make_tree(const char *dir, long files, long folders)
{
	char path[4096];
	for (long f = 0; f < folders; f++) {
		snprintf(path, sizeof path, "%s/n%08ld", dir, f);
		if (mkdir(path, 0777))
			return perror(path), 1;
		for (long i = f; i < files; i += folders) {
			snprintf(path, sizeof path, "%s/n%08ld/n%08ld_%ld.JPEG", dir, f, f, i);
			int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
			if (fd < 0)
				return perror(path), 1;
			close(fd);
		}
	}
	return 0;
}

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int list_tree(const char *dir, int json)
{
	struct stk_file_list_options options = {.file_root = dir};
	struct stk_file_list *list = NULL;
	struct stk_error err = {0};
	double cpu = cpu_seconds();
	int64_t start = stk__clock_ns();
	if (stk__file_list_create(&options, &list, &err))
		return fprintf(stderr, "%s\n", err.message), 1;
	double wall = (double)(stk__clock_ns() - start) * 1e-9;
	cpu = cpu_seconds() - cpu;
	long long n = stk__file_list_size(list);
	double bytes = (double)stk__file_list_memory(list) / (double)n;
	printf(json ? "{\"files\": %lld, \"folders\": %lld, \"seconds\": %.3f, \"cpu_seconds\": %.3f, \"bytes_per_file\": %.1f}\n"
		    : "%lld files in %lld folders: %.3f s (%.3f s of CPU), %.1f bytes a file\n",
		n, (long long)stk__file_list_classes(list), wall, cpu, bytes);
	stk__file_list_destroy(list);
	return 0;
}

int main(int argc, char **argv)
{
	int json = 0, at = 1;
	long files = 0, folders = 0;
	for (; at < argc - 1; at++) {
		if (strcmp(argv[at], "--json") == 0) {
			json = 1;
		} else if (strcmp(argv[at], "--make") == 0 && at + 2 < argc) {
			files = atol(argv[++at]);
			folders = atol(argv[++at]);
		} else {
			break;
		}
	}
	if (at != argc - 1 || (files > 0 && folders < 1))
		return fprintf(stderr, "usage: file_list [--make FILES FOLDERS] [--json] DIR\n"), 2;
	if (files > 0 && make_tree(argv[at], files, folders))
		return 1;
	return list_tree(argv[at], json) || list_tree(argv[at], json);
}
