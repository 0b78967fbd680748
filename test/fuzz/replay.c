/* SPDX-License-Identifier: Apache-2.0
 * Runs a fuzz target without libFuzzer. Each input runs unchanged, then mutated STOKER_TEST_ROUNDS times (by default 300), with the seed STOKER_TEST_SEED.
 *
 *     fuzz_NAME                  the seeds that the target generates
 *     fuzz_NAME PATH...          files, or all files of folders: corpora, and inputs that failed before
 *     fuzz_NAME --write FOLDER   writes the seeds, to start a corpus
 *
 * STOKER_FUZZ_LAST names a file that always holds the current input, so that it can be found after a crash. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint32_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

static void mutate_bytes(uint8_t *data, size_t size, uint64_t *state)
{
	static const uint8_t interesting[] = {0, 1, 0x7f, 0x80, 0xc0, 0xc4, 0xd0, 0xd9, 0xda, 0xdb, 0xff};
	for (uint32_t n = 1 + draw(state) % 4; n; n--) {
		size_t at = draw(state) % size;
		if (draw(state) & 1)
			data[at] ^= (uint8_t)(1u << draw(state) % 8);
		else
			data[at] = interesting[draw(state) % sizeof interesting];
	}
}

static void mutate(uint8_t *data, size_t *size, uint64_t *state)
{
	if (!fuzz_mutate || draw(state) % 4 == 0)
		mutate_bytes(data, *size, state);
	for (uint32_t n = fuzz_mutate ? draw(state) % 6 : 0, room = FUZZ_ROOM; n; n--) {
		size_t before = *size;
		if (room < 64)
			break;
		fuzz_mutate(data, size, state);
		room -= (uint32_t)(*size - before);
	}
}

static int inputs;

static void keep(const uint8_t *data, size_t size)
{
	const char *path = getenv("STOKER_FUZZ_LAST");
	FILE *f = path ? fopen(path, "wb") : NULL;
	if (f) {
		fwrite(data, 1, size, f);
		fclose(f);
	}
}

/* Gives the target a copy of exactly the input's size, so that sanitizers detect a read past its end. */
static void feed(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	if (!copy)
		abort();
	memcpy(copy, data, size);
	keep(data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	inputs++;
}

static void replay(const uint8_t *data, size_t size)
{
	const char *rounds_text = getenv("STOKER_TEST_ROUNDS"), *seed_text = getenv("STOKER_TEST_SEED");
	int rounds = rounds_text ? atoi(rounds_text) : 300;
	uint64_t state = seed_text ? strtoull(seed_text, NULL, 0) : 1;
	uint8_t *changed = malloc(size + FUZZ_ROOM);
	if (!changed)
		abort();
	feed(data, size);
	for (int n = 0; size && n < rounds; n++) {
		size_t length = size;
		memcpy(changed, data, size);
		mutate(changed, &length, &state);
		feed(changed, draw(&state) % 8 ? length : draw(&state) % length);
	}
	free(changed);
}

static int replay_seeds(void)
{
	size_t size;
	uint8_t *seed;
	if (!fuzz_seed) {
		fprintf(stderr, "this target makes no seeds: name files or folders\n");
		return 2;
	}
	for (int i = 0; (seed = fuzz_seed(i, &size)); i++) {
		replay(seed, size);
		free(seed);
	}
	return 0;
}

static int replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END)) {
		perror(path);
		return 1;
	}
	size_t size = (size_t)ftell(f);
	uint8_t *data = malloc(size + 1);
	rewind(f);
	if (!data || fread(data, 1, size, f) != size) {
		perror(path);
		return 1;
	}
	fclose(f);
	replay(data, size);
	free(data);
	return 0;
}

static int replay_path(const char *path)
{
	struct stat s;
	if (stat(path, &s)) {
		perror(path);
		return 1;
	}
	if (!S_ISDIR(s.st_mode))
		return replay_file(path);
	DIR *dir = opendir(path);
	int failed = !dir;
	for (struct dirent *e; dir && (e = readdir(dir));) {
		char name[4096];
		if (e->d_name[0] != '.' && snprintf(name, sizeof name, "%s/%s", path, e->d_name) < (int)sizeof name)
			failed |= replay_path(name);
	}
	if (dir)
		closedir(dir);
	return failed;
}

static int write_seeds(const char *folder)
{
	size_t size;
	uint8_t *seed;
	for (int i = 0; fuzz_seed && (seed = fuzz_seed(i, &size)); i++) {
		char name[4096];
		snprintf(name, sizeof name, "%s/seed%02d", folder, i);
		FILE *f = fopen(name, "wb");
		if (!f || fwrite(seed, 1, size, f) != size) {
			perror(name);
			return 1;
		}
		fclose(f);
		free(seed);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;
	if (argc == 3 && strcmp(argv[1], "--write") == 0)
		return write_seeds(argv[2]);
	if (argc < 2)
		failed = replay_seeds();
	for (int i = 1; i < argc; i++)
		failed |= replay_path(argv[i]);
	printf("%d inputs\n", inputs);
	return failed || inputs == 0;
}
