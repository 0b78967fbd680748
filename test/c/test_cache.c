/* SPDX-License-Identifier: Apache-2.0
 * The cache's folder: its checksum against published values, keys, claims between processes, the limit, and eviction by age. */
#include "test.h"

#include "base/xxhash.h"
#include "io/cache_disk.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

static char folder[64];

static int begin(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/stk-cache-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
	char command[80];
	(void)state;
	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	return system(command);
}

/* The expected values are those in the tests of xxHash's ports (cespare/xxhash for Go, twox-hash for Rust). */
static void test_published_checksums(void **state)
{
	static const struct {
		const char *text;
		uint64_t seed, hash;
	} known[] = {
		{"", 0, 0xef46db3751d8e999},
		{"a", 0, 0xd24ec4f1a98c6e5b},
		{"as", 0, 0x1c330fb2d66be179},
		{"asd", 0, 0x631c37ce72a97393},
		{"asdf", 0, 0x415872f599cea71e},
		{"Call me Ishmael. Some years ago--never mind how long precisely-", 0, 0x02a2e85470d6fd96},
		{"*", 0, 0x0a9edecebeb03ae4},
		{"", 0xae0543311b702d91, 0x4b6a04fcdf7a4672},
	};
	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		assert_int_equal(stk__xxh64(known[i].text, strlen(known[i].text), known[i].seed), known[i].hash);
	uint8_t bytes[100];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(stk__xxh64(bytes, sizeof bytes, 0), 0x6ac1e58032166597);
	assert_int_equal(stk__xxh64(bytes, sizeof bytes, 0xae0543311b702d91), 0x567e355e0682e1f1);
	assert_int_equal(stk__xxh64("Hello, world!", 14, 0), 0x7b06c531ea43e89f);
}

static void open_disk(struct stk_cache_disk *d, uint64_t limit)
{
	char notice[512];
	struct stk_error err = {0};
	if (stk__cache_disk_open(d, folder, limit, notice, &err))
		fail_msg("%s", err.message);
	assert_string_equal(notice, "");
}

static const char *path_of(const struct stk_cache_disk *d, const char *uri)
{
	static char path[STK_CACHE_PATH];
	char name[STK_CACHE_NAME];
	stk__cache_name(stk__cache_key(uri, 0, -1, 0), name);
	snprintf(path, sizeof path, "%s/%s", d->dir, name);
	return path;
}

/* Stores an object of `size` bytes in the cache. Returns false if the cache has no space for it. */
static bool keep(struct stk_cache_disk *d, const char *uri, size_t size)
{
	static const uint8_t bytes[4096];
	struct stk_cache_key key = stk__cache_key(uri, 0, -1, 0);
	struct stk_cache_head h = {.a = key.a, .b = key.b, .length = -1, .bytes = size};
	if (!stk__cache_reserve(d, stk__cache_entry_bytes(size, uri)))
		return false;
	assert_int_equal(stk__cache_write(d, &h, bytes, uri, NULL), STK_OK);
	assert_int_equal(access(path_of(d, uri), R_OK), 0);
	return true;
}

static bool there(const struct stk_cache_disk *d, const char *uri)
{
	return access(path_of(d, uri), F_OK) == 0;
}

static bool remove_entry(struct stk_cache_disk *d, const char *uri)
{
	char name[STK_CACHE_NAME];
	stk__cache_name(stk__cache_key(uri, 0, -1, 0), name);
	return stk__cache_remove(d, name, NULL);
}

static void age(const struct stk_cache_disk *d, const char *uri, time_t seconds)
{
	time_t then = time(NULL) - seconds;
	assert_int_equal(utime(path_of(d, uri), &(struct utimbuf){then, then}), 0);
}

/* A cached object's key depends on its name, its store, and the range. */
static void test_keys_differ(void **state)
{
	const struct stk_cache_key keys[] = {stk__cache_key("s3://b/k", 0, -1, 0), stk__cache_key("s3://b/k", 0, -1, 1),
		stk__cache_key("s3://b/k", 1, -1, 0), stk__cache_key("s3://b/k", 0, 1, 0), stk__cache_key("s3://b/K", 0, -1, 0)};
	(void)state;
	for (size_t i = 0; i < 5; i++)
		for (size_t j = 0; j < i; j++)
			assert_true(keys[i].a != keys[j].a && keys[i].b != keys[j].b);
}

/* Two processes, simulated by opening the folder twice, cannot claim the same object at a time. */
static void test_claims(void **state)
{
	struct stk_cache_disk one, two;
	const struct stk_cache_key a = stk__cache_key("a", 0, -1, 0), b = stk__cache_key("b", 0, -1, 0);
	(void)state;
	open_disk(&one, 1 << 20);
	open_disk(&two, 1 << 20);
	assert_true(stk__cache_claim(&one, a));
	assert_false(stk__cache_claim(&two, a));
	assert_true(stk__cache_claim(&two, b));
	stk__cache_unclaim(&one, a);
	assert_true(stk__cache_claim(&two, a));
	assert_false(stk__cache_claim(&one, a));
	stk__cache_disk_close(&two); /* simulates that the process dies */
	assert_true(stk__cache_claim(&one, a) && stk__cache_claim(&one, b));
	stk__cache_disk_close(&one);
}

/* A claim ends with the process that holds it, although a child that it forked lives on. Here the folder is closed instead of the process. */
static void test_a_claim_ends_although_a_child_lives(void **state)
{
	(void)state;
	struct stk_cache_disk one, two;
	const struct stk_cache_key key = stk__cache_key("s3://b/a", 0, -1, 0);
	open_disk(&one, 1 << 20);
	open_disk(&two, 1 << 20);
	assert_true(stk__cache_claim(&one, key));
	int ends[2];
	char byte = 0;
	assert_int_equal(pipe(ends), 0);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		while (write(ends[1], &byte, 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ends[0], &byte, 1), 1); /* the child runs */
	close(ends[0]);
	close(ends[1]);
	assert_false(stk__cache_claim(&two, key)); /* the fork does not end it */
	stk__cache_disk_close(&one);
	const bool free = stk__cache_claim(&two, key);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(free);
	stk__cache_disk_close(&two);
}

static void test_what_two_runs_have_not_used_makes_room(void **state)
{
	struct stk_cache_disk d, beside;
	const uint64_t each = stk__cache_entry_bytes(1000, "a");
	(void)state;
	open_disk(&d, 3 * each + 10);
	assert_true(keep(&d, "a", 1000) && keep(&d, "b", 1000) && keep(&d, "c", 1000));
	assert_false(keep(&d, "d", 1000));
	assert_int_equal(stk__cache_used(&d), 3 * each);
	age(&d, "a", 3000);
	age(&d, "b", 2000);
	age(&d, "c", 500);
	open_disk(&beside, 3 * each + 10); /* simulates another process of the same run */
	beside.last_begin_sec = time(NULL) - 1000;
	assert_true(keep(&beside, "d", 1000)); /* evicts a, the oldest */
	assert_true(!there(&d, "a") && there(&d, "b") && there(&d, "c") && there(&d, "d"));
	assert_true(keep(&beside, "e", 1000));  /* evicts b */
	assert_false(keep(&beside, "f", 1000)); /* no space: c was used by the previous run, and all other files by this run */
	assert_true(!there(&d, "b") && there(&d, "c") && there(&d, "d") && there(&d, "e"));
	assert_int_equal(stk__cache_used(&d), 3 * each);
	assert_false(keep(&d, "large", 4000));
	stk__cache_disk_close(&beside);
	stk__cache_disk_close(&d);
	open_disk(&d, each + 10); /* a smaller limit applies at once, and the newest file stays */
	assert_true(!there(&d, "c") && stk__cache_used(&d) == each && there(&d, "d") + there(&d, "e") == 1);
	stk__cache_disk_close(&d);
}

/* A temporary file of a dead process does not count as used space, whether the file `state` with the count is missing, or older than the temporary file. */
static void test_leftovers_that_nobody_counted(void **state)
{
	struct stk_cache_disk d;
	char path[512];
	const uint64_t each = stk__cache_entry_bytes(1000, "a");
	(void)state;
	for (int removed = 0; removed < 2; removed++) {
		open_disk(&d, 1 << 20);
		assert_true(keep(&d, "a", 1000));
		stk__cache_disk_close(&d);
		snprintf(path, sizeof path, "%s/tmp/1-1-1000000", folder);
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		assert_true(fd >= 0);
		close(fd);
		snprintf(path, sizeof path, "%s/state", folder);
		assert_true(!removed || unlink(path) == 0);
		open_disk(&d, 1 << 20);
		assert_int_equal(stk__cache_used(&d), each);
		assert_true(there(&d, "a") && keep(&d, "b", 1000));
		assert_true(remove_entry(&d, "a") && remove_entry(&d, "b"));
		assert_int_equal(stk__cache_used(&d), 0);
		stk__cache_disk_close(&d);
	}
}

/* If `state` is damaged again and again, entries are counted only a few times. After that, the cache is not written any more. */
static void test_recounts_are_limited(void **state)
{
	struct stk_cache_disk d;
	char path[512];
	(void)state;
	open_disk(&d, 1 << 20);
	assert_true(keep(&d, "a", 1000));
	snprintf(path, sizeof path, "%s/state", folder);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(truncate(path, 0), 0);
		stk__cache_set_used(&d, 1000);
		assert_int_equal(stk__cache_used(&d), d.read_only ? 0 : 1000);
	}
	assert_true(d.read_only);
	assert_false(keep(&d, "b", 1000));
	stk__cache_disk_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published_checksums),
		cmocka_unit_test_setup_teardown(test_leftovers_that_nobody_counted, begin, end),
		cmocka_unit_test(test_keys_differ),
		cmocka_unit_test_setup_teardown(test_claims, begin, end),
		cmocka_unit_test_setup_teardown(test_a_claim_ends_although_a_child_lives, begin, end),
		cmocka_unit_test_setup_teardown(test_what_two_runs_have_not_used_makes_room, begin, end),
		cmocka_unit_test_setup_teardown(test_recounts_are_limited, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
