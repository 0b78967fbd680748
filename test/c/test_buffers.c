/* SPDX-License-Identifier: Apache-2.0
 * The pool of read buffers reuses sizes, and gives back the memory of exceptionally large reads. */
#include "test.h"

#include "base/memory.h"
#include "io/io.h"

#include <string.h>

static void test_buffers_are_reused_and_outliers_freed(void **state)
{
	(void)state;
	struct stk_io *io;
	struct stk_io_counters c;
	assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
	for (size_t size = 0; size < 3000000; size = size * 9 / 8 + 1) {
		struct stk_buffer *b = stk__buffer_take(io, size);
		assert_non_null(b);
		assert_true(stk__buffer_capacity(b) >= size && (size < 4096 || stk__buffer_capacity(b) <= size * 9 / 4));
		memset(stk__buffer_data(b), 1, stk__buffer_capacity(b) + 64);
		assert_int_equal((uintptr_t)stk__buffer_data(b) % STK_CACHE_LINE, 0);
		stk__buffer_release(b);
	}
	struct stk_buffer *held[8], *big = stk__buffer_take(io, (size_t)64 << 20);
	stk__buffer_release(big);
	stk__io_counters(io, &c);
	assert_true(c.buffers_bytes >= (size_t)64 << 20);
	uint64_t allocations = 0;
	for (int round = 0; round < 200; round++) {
		for (size_t i = 0; i < 8; i++)
			held[i] = stk__buffer_take(io, 90000 + i * 100);
		for (size_t i = 0; i < 8; i++)
			stk__buffer_release(held[i]);
		if (round == 150)
			allocations = stk__alloc_count();
	}
	assert_int_equal(stk__alloc_count(), allocations);
	stk__io_counters(io, &c);
	assert_true(c.buffers_bytes <= 8 << 20);
	assert_true(c.buffers_peak_bytes >= (size_t)64 << 20);
	assert_null(stk__buffer_take(io, SIZE_MAX / 2));
	stk__buffer_release(NULL);
	stk__io_destroy(io);
}

/* The number of buffers in use is large, and rises and falls, as with responses that arrive out of order. Idle buffers must be kept for the next rise. */
static void test_many_in_use_come_and_go(void **state)
{
	enum { MOST = 600, LEAST = 100, SIZE = 100000 };
	(void)state;
	struct stk_buffer *held[MOST];
	struct stk_io *io;
	struct stk_io_counters c;
	assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
	uint64_t allocations = 0;
	for (int round = 0; round < 4; round++) {
		for (int i = round ? LEAST : 0; i < MOST; i++)
			assert_non_null(held[i] = stk__buffer_take(io, SIZE));
		if (!round)
			allocations = stk__alloc_count();
		for (int i = LEAST; i < MOST; i++)
			stk__buffer_release(held[i]);
		for (int i = 0; i < 1000; i++)
			stk__buffer_release(stk__buffer_take(io, SIZE));
	}
	assert_int_equal(stk__alloc_count(), allocations);
	/* After this many uses, the pool considers the other idle buffers as unused for long, and frees them. */
	for (int i = 0; i < 20000; i++)
		stk__buffer_release(stk__buffer_take(io, SIZE));
	stk__io_counters(io, &c);
	assert_true(c.buffers_bytes < MOST * SIZE / 2);
	for (int i = 0; i < LEAST; i++)
		stk__buffer_release(held[i]);
	stk__io_destroy(io);
}

/* Buffers and io may be released in any order. */
static void test_a_second_holder_outlives_io(void **state)
{
	enum { HELD = 6, SIZE = 50000 };
	(void)state;
	struct stk_buffer *held[HELD];
	struct stk_io *io;
	struct stk_io_counters c;
	assert_int_equal(stk__io_create(1, &io, NULL), STK_OK);
	for (int i = 0; i < HELD; i++) {
		held[i] = stk__buffer_take(io, SIZE);
		assert_true(stk__buffer_share(held[i]));
		assert_false(stk__buffer_share(held[i]));
		memset(stk__buffer_data(held[i]), i, SIZE);
	}
	for (int i = 0; i < HELD; i++)
		stk__buffer_release(held[i]);
	struct stk_buffer *other = stk__buffer_take(io, SIZE);
	for (int i = 0; i < HELD; i++)
		assert_ptr_not_equal(other, held[i]); /* the buffers in held[] are still in use */
	stk__buffer_release(other);
	stk__buffer_release(held[0]);
	assert_ptr_equal(stk__buffer_take(io, SIZE), held[0]);
	stk__buffer_release(held[0]);
	stk__io_counters(io, &c);
	assert_true(c.buffers_bytes >= HELD * SIZE);
	stk__io_destroy(io);
	for (int i = 1; i < HELD; i++) {
		for (int k = 0; k < SIZE; k++)
			assert_int_equal(stk__buffer_data(held[i])[k], i);
		stk__buffer_release(held[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_buffers_are_reused_and_outliers_freed),
		cmocka_unit_test(test_many_in_use_come_and_go), cmocka_unit_test(test_a_second_holder_outlives_io)};
	return cmocka_run_group_tests_name("buffers", tests, NULL, NULL);
}
