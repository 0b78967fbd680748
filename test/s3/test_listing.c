/* SPDX-License-Identifier: Apache-2.0
 * Listings that are split into parallel parts give the same keys as one page after another: each key once, whatever the keys look like. */
#include "test.h"

#include "base/memory.h"
#include "base/philox.h"
#include "format/list_sweep.h"
#include "http/http.h"
#include "s3_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_KEYS = 4000, LONGEST = 1024 };

static struct s3_server *server;
static const char *bucket; /* the current test's bucket */
static const struct stk_http_settings quick = {
	.connect_ms = 2000, .first_byte_ms = 20000, .stall_ms = 5000, .retries = 30, .backoff_ms = 5, .most_backoff_ms = 50};

static int begin(void **state)
{
	char endpoint[64];
	(void)state;
	server = s3_server_start(NULL, 0, "AKIATEST", "secret", NULL, NULL);
	if (!server)
		return -1;
	snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", s3_server_port(server));
	setenv("AWS_ENDPOINT_URL_S3", endpoint, 1);
	setenv("AWS_ACCESS_KEY_ID", "AKIATEST", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
	setenv("AWS_CONFIG_FILE", "/dev/null", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
	unsetenv("AWS_PROFILE");
	unsetenv("AWS_SESSION_TOKEN");
	return 0;
}

static int end(void **state)
{
	(void)state;
	s3_server_stop(server);
	return 0;
}

/* ---- the actual and the expected listing ---- */

struct names {
	char *at[MOST_KEYS];
	int n;
};

static void add(struct names *out, const char *name, size_t n)
{
	assert_true(out->n < MOST_KEYS);
	out->at[out->n++] = strndup(name, n);
}

static void free_names(struct names *names)
{
	for (int i = 0; i < names->n; i++)
		free(names->at[i]);
	names->n = 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int unique(struct names *names)
{
	int n = 0, doubled = 0;
	qsort(names->at, (size_t)names->n, sizeof *names->at, by_bytes);
	for (int i = 0; i < names->n; i++) {
		if (n && strcmp(names->at[n - 1], names->at[i]) == 0) {
			free(names->at[i]);
			doubled++;
		} else {
			names->at[n++] = names->at[i];
		}
	}
	names->n = n;
	return doubled;
}

struct brought {
	struct names objects, folders;
};

static enum stk_status bring_object(void *user, int64_t which, const char *key, struct stk_list_object object, struct stk_error *err)
{
	(void)which, (void)err;
	assert_int_equal(object.size, (int64_t)(strlen(key) % 7));
	add(&((struct brought *)user)->objects, key, strlen(key));
	return STK_OK;
}

static enum stk_status bring_folder(void *user, int64_t which, const char *prefix, struct stk_error *err)
{
	(void)which, (void)err;
	add(&((struct brought *)user)->folders, prefix, strlen(prefix));
	return STK_OK;
}

static void expect(const struct names *keys, const char *prefix, const char *delimiter, struct brought *out)
{
	for (int i = 0; i < keys->n; i++) {
		const char *key = keys->at[i];
		if (strncmp(key, prefix, strlen(prefix)) != 0)
			continue;
		const char *slash = *delimiter ? strstr(key + strlen(prefix), delimiter) : NULL;
		if (slash)
			add(&out->folders, key, (size_t)(slash - key) + 1);
		else
			add(&out->objects, key, strlen(key));
	}
	unique(&out->folders);
	unique(&out->objects);
}

static void same_names(const struct names *a, const struct names *b, const char *what)
{
	if (a->n != b->n)
		print_message("%s: %d names, and not %d\n", what, a->n, b->n);
	assert_int_equal(a->n, b->n);
	for (int i = 0; i < a->n; i++)
		assert_string_equal(a->at[i], b->at[i]);
}

/* Lists a bucket that holds `keys`, and checks the names found and their number. Returns the number of requests that the listing took. */
static uint64_t check_listing(const struct names *keys, const char *prefix, const char *delimiter, const char *knobs)
{
	static struct brought got, want;
	struct stk_io *io;
	struct stk_error err = {0};
	assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
	assert_int_equal(stk__http_add(io, &quick, NULL), STK_OK);
	assert_true(s3_server_set(server, knobs));
	struct stk_sweep sweep = {.io = io,
		.root = "s3://BUCKET",
		.bucket = bucket,
		.delimiter = delimiter,
		.object = bring_object,
		.folder = bring_folder,
		.user = &got};
	const uint64_t before = s3_server_counts(server).requests;
	const enum stk_status status = stk__sweep(&sweep, &prefix, 1, &err);
	if (status)
		print_message("%s\n", err.message);
	assert_int_equal(status, STK_OK);
	const uint64_t requests = s3_server_counts(server).requests - before;
	expect(keys, prefix, delimiter, &want);
	if (sweep.entries != want.objects.n + want.folders.n)
		print_message("prefix \"%s\", delimiter \"%s\", %s\n", prefix, delimiter, knobs);
	assert_int_equal(sweep.entries, want.objects.n + want.folders.n);
	assert_int_equal(unique(&got.objects) + unique(&got.folders), 0);
	same_names(&got.objects, &want.objects, "objects");
	same_names(&got.folders, &want.folders, "folders");
	free_names(&got.objects);
	free_names(&got.folders);
	free_names(&want.objects);
	free_names(&want.folders);
	stk__io_destroy(io);
	return requests;
}

/* ---- keys ---- */

static uint64_t draw(struct stk_random *r, uint64_t n)
{
	return (uint64_t)(stk__random_double(r) * (double)n);
}

static void put_key(struct names *keys, const char *key)
{
	char path[LONGEST + 32];
	snprintf(path, sizeof path, "%s/%s", bucket, key);
	s3_server_put(server, path, "1234567", strlen(key) % 7);
	add(keys, key, strlen(key));
}

/* Draws a key of pieces that are hard to list: prefixes of other pieces, neighbors in the order of keys, characters just before and after the slash,
 * characters with a meaning in URLs or XML, and bytes at both ends of ASCII. */
static void random_key(struct stk_random *r, char key[LONGEST + 1])
{
	static const char *const pieces[] = {"a", "b", "0", "1", "9", "/", "-", ".", " ", "+", "%", "%2F", "&", "<", "~", "!", "\x01", "A",
		"Z", "é", "ÿ", "日本", "\xf0\x9f\x90\x88", "img_", "0000", "jpg", "=", "?", "#", "\"", "'", "|"};
	const uint64_t parts = 1 + draw(r, 7), kinds = draw(r, 2) ? 8 : sizeof pieces / sizeof *pieces;
	key[0] = 0;
	for (uint64_t i = 0; i < parts; i++)
		strcat(key, pieces[draw(r, kinds)]);
	if (draw(r, 40) == 0)
		for (size_t n = strlen(key); n < LONGEST; n++)
			strcat(key, "z");
	if (key[0] == '/')
		key[0] = 'x';
}

static void test_random_keys(void **state)
{
	static const char *const prefixes[] = {"", "a", "a/", "img_", "é", "none/"};
	static struct names keys;
	char key[LONGEST + 1], knobs[64];
	uint64_t seed = (uint64_t)time(NULL);
	(void)state;
	bucket = "random";
	print_message("seed %llu\n", (unsigned long long)seed);
	struct stk_random r = stk__random(seed, stk__random_stream("listing"), 0, 0);
	for (int i = 0; i < 1500; i++) {
		random_key(&r, key);
		put_key(&keys, key);
	}
	unique(&keys);
	for (int i = 0; i < 30; i++) {
		snprintf(knobs, sizeof knobs, "page=%d&latency_ms=1", 1 + (int)draw(&r, i % 2 ? 8 : 200));
		check_listing(&keys, prefixes[draw(&r, 6)], draw(&r, 2) ? "/" : "", knobs);
	}
	/* Stores that do not sort their keys, or that ignore where a listing should begin, are listed in one part. */
	check_listing(&keys, "", "", "page=50&reverse=1");
	check_listing(&keys, "", "/", "page=50&reverse=1");
	check_listing(&keys, "", "", "page=50&deaf=1&latency_ms=1");
	check_listing(&keys, "a", "/", "page=10&deaf=1&latency_ms=1");
	free_names(&keys);
}

static void test_numbered_keys(void **state)
{
	static struct names keys;
	char key[64];
	(void)state;
	bucket = "numbered";
	for (int i = 0; i < 2000; i++) {
		snprintf(key, sizeof key, "flat/img_%07d.jpg", i);
		put_key(&keys, key);
	}
	/* A sequential listing would take 200 pages, and never have two requests in flight. */
	const uint64_t requests = check_listing(&keys, "flat/", "/", "page=10&latency_ms=5");
	print_message("%llu requests, %llu at a time\n", (unsigned long long)requests,
		(unsigned long long)s3_server_counts(server).most_under_way);
	assert_true(requests >= 200 && requests < 600);
	assert_true(s3_server_counts(server).most_under_way >= 4); /* a low bound: builds with a sanitizer have fewer requests in flight */
	free_names(&keys);
}

static void test_nothing_more_is_asked_for_a_short_one(void **state)
{
	static struct names keys;
	char key[64];
	(void)state;
	bucket = "short";
	for (int i = 0; i < 900; i++) {
		snprintf(key, sizeof key, "short/%03d", i);
		put_key(&keys, key);
	}
	assert_int_equal(check_listing(&keys, "short/", "", ""), 1);
	free_names(&keys);
}

static void test_faults(void **state)
{
	static struct names keys;
	char key[64];
	(void)state;
	bucket = "faults";
	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof key, "faults/%x", i * 7919);
		put_key(&keys, key);
	}
	unique(&keys);
	check_listing(&keys, "faults/", "", "page=20&many=6&latency_ms=1");
	/* Keys in reverse order: the client must remember all names that it has seen, in a set that grows several times. */
	check_listing(&keys, "faults/", "", "page=20&reverse=1");
	free_names(&keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbered_keys),
		cmocka_unit_test(test_nothing_more_is_asked_for_a_short_one),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_random_keys),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
