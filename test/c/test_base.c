/* SPDX-License-Identifier: Apache-2.0
 * Tests of src/base: errors, the arena, Philox random numbers, and the removal of secrets from texts. */
#include "test.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/safe_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void test_errors_say_what_and_where(void **state)
{
	(void)state;
	struct stk_error err = {0};
	assert_int_equal(stk__fail(&err, STK_CORRUPT, "block %d", 7), STK_CORRUPT);
	assert_string_equal(err.message, "block 7");
	assert_int_equal(err.sample, -1);
	stk__error_set_sample(&err, "a.jpg", 2, 33);
	stk__error_set_sample(&err, "b.jpg", 3, 44);
	assert_string_equal(err.uri, "a.jpg");
	assert_int_equal(err.sample, 33);
	assert_int_equal(stk__fail_errno(&err, ENOENT, "open %s", "x"), STK_NOT_FOUND);
	assert_non_null(strstr(err.message, "open x: "));
	assert_true(err.missing);
	assert_int_equal(stk__fail_again(&err, STK_NOT_FOUND, "file %d", 2), STK_NOT_FOUND);
	assert_true(err.missing && strcmp(err.message, "file 2") == 0);
	assert_int_equal(stk__fail_errno(&err, EIO, "read"), STK_IO);
	assert_false(err.missing);
	assert_int_equal(stk__fail_missing(&err, "no file %s", "x"), STK_NOT_FOUND);
	assert_true(err.missing && err.code == STK_NOT_FOUND && err.sample == -1);
	assert_int_equal(stk__fail(&err, STK_NOT_FOUND, "no operator"), STK_NOT_FOUND);
	assert_false(err.missing);
	assert_int_equal(stk__fail_again(&err, STK_NOT_FOUND, "still none"), STK_NOT_FOUND);
	assert_false(err.missing);
	assert_int_equal(stk__fail_missing(NULL, "nobody listens"), STK_NOT_FOUND);
	assert_int_equal(stk__fail_again(NULL, STK_IO, "nobody listens"), STK_IO);
	assert_int_equal(stk__fail(NULL, STK_IO, "nobody listens"), STK_IO);
	assert_true(stk__names_file("empty: not an image", "empty") && stk__names_file("cannot open a/b, which is a folder", "a/b"));
	assert_true(stk__names_file("opening 7: denied", "7") && stk__names_file("\"7\" is a folder", "7"));
	assert_false(stk__names_file("not an image: it is empty; download it again", "empty") || stk__names_file("block 17: damaged", "7"));
	assert_string_equal(stk_status_name(STK_CORRUPT), "CORRUPT");
	assert_string_equal(stk_status_name((enum stk_status)999), "UNKNOWN");
}

/* Known results, from Random123's kat_vectors for philox4x32-10. */
static void test_philox_known_answers(void **state)
{
	(void)state;
	const uint32_t zero[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u}, pi[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
	const uint32_t want[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
	struct stk_philox_block b = stk__philox(0, zero);
	assert_memory_equal(b.v, want[0], sizeof b.v);
	b = stk__philox(~0ull, ones);
	assert_memory_equal(b.v, want[1], sizeof b.v);
	b = stk__philox(0x299f31d0a4093822ull, pi);
	assert_memory_equal(b.v, want[2], sizeof b.v);
}

static void test_arena_grows_once_and_shrinks_when_calm(void **state)
{
	(void)state;
	struct stk_arena a;
	stk__arena_init(&a);
	for (int round = 0; round < 3; round++) {
		uint8_t *p = stk__arena_take(&a, 100000), *q = stk__arena_take(&a, 300000);
		assert_non_null(p);
		assert_non_null(q);
		memset(p, 1, 100000 + STK_ARENA_SLACK);
		memset(q, 2, 300000 + STK_ARENA_SLACK);
		assert_int_equal(p[99999], 1);
		stk__arena_reset(&a);
	}
	uint64_t before = stk__alloc_count();
	size_t grown = a.capacity;
	assert_non_null(stk__arena_take(&a, 400000));
	stk__arena_reset(&a);
	assert_int_equal(stk__alloc_count(), before);
	for (int i = 0; i < 1000; i++) {
		assert_non_null(stk__arena_take(&a, 10));
		stk__arena_reset(&a);
	}
	assert_true(a.capacity < grown / 4);
	assert_null(stk__arena_take(&a, SIZE_MAX / 2));
	stk__arena_destroy(&a);
}

static void test_an_arena_keeps_to_its_limit(void **state)
{
	(void)state;
	struct stk_arena a;
	stk__arena_init(&a);
	for (int round = 0; round < 3; round++) { /* the first round needs additional blocks, later rounds use a single block */
		stk__arena_limit(&a, 1000000);
		assert_true(stk__arena_charge(&a, 200000));
		uint8_t *first = stk__arena_take(&a, 300000);
		assert_non_null(first);
		assert_true(stk__arena_holds(&a, first) && stk__arena_holds(&a, first + 299999));
		assert_false(stk__arena_holds(&a, first - 1));
		assert_false(stk__arena_holds(&a, &a));
		struct stk_arena_mark mark = stk__arena_mark(&a);
		assert_non_null(stk__arena_take(&a, 400000));
		assert_int_equal(a.refused, 0);
		assert_null(stk__arena_take(&a, 200000));
		assert_int_equal(a.refused, 1100000);
		stk__arena_release(&a, mark);
		assert_non_null(stk__arena_take(&a, 450000));
		assert_false(stk__arena_charge(&a, 100000));
		stk__arena_discharge(&a, 200000);
		assert_true(stk__arena_charge(&a, 100000));
		assert_int_equal(stk__arena_left(&a), 150000);
		stk__arena_reset(&a);
		assert_true(a.capacity <= 1000000);
	}
	stk__arena_limit(&a, 1000000);
	assert_non_null(stk__arena_take_uncounted(&a, 2000000));
	assert_int_equal(stk__arena_left(&a), 1000000);
	stk__arena_limit(&a, 0);
	assert_non_null(stk__arena_take(&a, 2000000));
	stk__arena_destroy(&a);
}

/* If a block that is needed would exceed the limit, the arena first frees the memory that it keeps for the next sample. It does not touch memory in use. */
static void test_an_arena_gives_back_what_is_idle(void **state)
{
	(void)state;
	enum { LIMIT = 7 << 20, LARGE = 6 << 20, SMALL = 4096, LARGEST_PAGE = 64 << 10 };
	struct stk_arena a;
	stk__arena_init(&a);
	stk__arena_limit(&a, LIMIT);
	assert_non_null(stk__arena_take(&a, LARGE));
	stk__arena_reset(&a);
	uint8_t *in_use = stk__arena_take(&a, SMALL), *idle = a.block + a.capacity - 2 * LARGEST_PAGE;
	memset(in_use, 1, SMALL);
	memset(idle, 2, SMALL);
	/* More than is left in the block, so that the arena must give back the idle memory. */
	assert_non_null(stk__arena_take(&a, LIMIT - SMALL));
	for (int i = 0; i < SMALL; i++)
		assert_int_equal(in_use[i], 1);
	assert_int_equal(idle[SMALL / 2], 0);
	stk__arena_destroy(&a);
}

/* The cases are the same as in test_secrets.py: the Python package has its own version of this function, which must give the same results. */
static void test_safe_text(void **state)
{
	static const char *const cases[][2] = {{"http://h/a.jpg?sig=x: the server answers 404", "http://h/a.jpg: the server answers 404"},
		{"(https://h/a#b), then", "(https://h/a), then"}, {"s3://bucket/a?b#c@d: it ends", "s3://bucket/a?b#c@d: it ends"},
		{"s3://id:key@bucket/a, gs://key@c/a@b", "s3://bucket/a, gs://c/a@b"}, {"file://a@b/c", "file://a@b/c"},
		{"s3://ID:ab/cd+S@bucket/k", "s3://bucket/k"}, {"s3://u%3As%40bucket/k", "s3://bucket/k"},
		{"s3://id:a@b/c@bucket/k", "s3://bucket/k"}, {"s3://ID:ab/cd%40bucket/k", "s3://bucket/k"},
		{"gs://ID%3Aab/cd@bucket/k", "gs://bucket/k"}, {"s3://id:key@bucket/a%40b", "s3://bucket/a%40b"},
		{"http://me%3Ap/w@h:80/x", "http://h:80/x"}, {"http://me:p/w%40h:80/x", "http://h:80/x"},
		{"http://h:80/a%40b.jpg", "http://h:80/a%40b.jpg"}, {"http://me:pw@h:80/x", "http://h:80/x"},
		{"http://me:p/w@h:80/x", "http://h:80/x"}, {"http://token@h/x", "http://h/x"},
		{"http://h:80/a@b.jpg", "http://h:80/a@b.jpg"}, {"http://[::1]:80/a@b", "http://[::1]:80/a@b"},
		{"no option --http://token@h/x", "no option --http://h/x"}, {"--s3://b/k?a#b", "--s3://b/k?a#b"},
		{"HTTP://H/x%3FX-Amz-Signature%3Dabc", "HTTP://H/x"},
		{"https%3A%2F%2Fh%2Fx%3FX-Amz-Signature%3Dabc%26b", "https%3A%2F%2Fh%2Fx%3FX-Amz-Signature%3D%26b"},
		{"az://c/x?sig=abc, as", "az://c/x, as"}, {"a&signature=abc&b", "a&signature=&b"},
		{"say http://NAME:PASSWORD@HOST:PORT in https_proxy", "say http://NAME:PASSWORD@HOST:PORT in https_proxy"},
		{"a\x1b"
		 "b\x7f\xc2\x85\xc3\xa9",
			"a\\x1bb\\x7f\\xc2\\x85\xc3\xa9"},
		{"two\nlines", "two\\nlines"}, {"plain, as C:\\x or a:b@c = d", "plain, as C:\\x or a:b@c = d"}, {"", ""}, {"://", "://"},
		{"http://", "http://"}};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int again = 0; again < 2; again++) {
			char text[128];
			strcpy(text, cases[i][again]);
			stk_text_make_safe(text, sizeof text);
			assert_string_equal(text, cases[i][1]);
		}
	/* URLs that were cut off inside a long token, before the @ that follows it */
	static const char *const cut[][2] = {{"http://me:%s", "http://"}, {"http://%s: no", "http:// no"},
		{"http://me:p/%s, or", "http:// or"}, {"s3://ID:%s", "s3://"}, {"gs://ID:a/%s", "gs://"}, {"socks5://me:%s", "socks5://"}};
	for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
		char text[512], word[201] = "";
		memset(word, 't', sizeof word - 1);
		const char *at = strstr(cut[i][0], "%s");
		snprintf(text, sizeof text, "%.*s%s%s", (int)(at - cut[i][0]), cut[i][0], word, at + 2);
		stk_text_make_safe(text, sizeof text);
		assert_string_equal(text, cut[i][1]);
	}
	char small[8] = "\x1b\x1b\x1b";
	stk_text_make_safe(NULL, 1);
	stk_text_make_safe(small, sizeof small);
	assert_true(strlen(small) < sizeof small);
	struct stk_error err;
	/* A token that is longer than a message: the @ after it is still found. */
	char token[2000] = "";
	memset(token, 't', sizeof token - 1);
	assert_int_equal(stk__fail(&err, STK_IO, "s3://ID:%s@bucket/k: no", token), STK_IO);
	assert_string_equal(err.message, "s3://bucket/k: no");
	char uri[2100];
	snprintf(uri, sizeof uri, "s3://ID:%s@bucket/k", token);
	stk__error_set_sample(&err, uri, 0, 0);
	assert_string_equal(err.uri, "s3://bucket/k");
	assert_int_equal(stk__fail(&err, STK_IO, "%s: no", "http://h/\x1b?secret"), STK_IO);
	assert_string_equal(err.message, "http://h/\\x1b: no");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_safe_text),
		cmocka_unit_test(test_errors_say_what_and_where),
		cmocka_unit_test(test_philox_known_answers),
		cmocka_unit_test(test_arena_grows_once_and_shrinks_when_calm),
		cmocka_unit_test(test_an_arena_keeps_to_its_limit),
		cmocka_unit_test(test_an_arena_gives_back_what_is_idle),
	};
	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
