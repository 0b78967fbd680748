/* SPDX-License-Identifier: Apache-2.0
 * Slots without a pipeline: samples of unpredicted shapes must end up contiguous, in one allocation of host or device memory, however they were placed
 * first. Also tests blocks that the consumer keeps. */
#include "gpu_setup.h"
#include "image_files.h"
#include "tensor/slot.h"

enum { SAMPLES = 6, ROUNDS = 12 };

static uint64_t seed;

/* Draws a shape. The rows of most shapes are multiples of 512 bytes, which a GPU's driver places next to each other; others have any size. */
static struct stk_desc draw_shape(void)
{
	int32_t unit = test_random_in(&seed, 0, 2) ? 512 : 1;
	return (struct stk_desc){
		.dtype = STK_UINT8, .ndim = 2, .shape = {test_random_in(&seed, 1, 40), unit * test_random_in(&seed, 1, 20)}};
}

static void write_sample(struct stk_gpu_device *dev, const struct stk_tensor *t, uint8_t value)
{
	size_t bytes = (size_t)stk_desc_bytes(&t->desc);
	if (dev)
		ok(stk__gpu_fill(dev, NULL, (stk_gpu_ptr)(uintptr_t)t->data, value, bytes, &err));
	else
		memset(t->data, value, bytes);
}

/* Reads all samples with one copy, and checks their bytes. */
static void check_samples(struct stk_gpu_device *dev, struct stk_slot *s, const void *dense, size_t bytes, int32_t n)
{
	uint8_t *got = malloc(bytes * (size_t)n);
	if (dev && stk__block_download(s->values[0].block, &(struct stk_block_copy){got, dense, bytes * (size_t)n}, 1, &err))
		fail_msg("seed %llu: %s", (unsigned long long)test_seed(), err.message);
	if (!dev)
		memcpy(got, dense, bytes * (size_t)n);
	for (size_t i = 0; i < bytes * (size_t)n; i++)
		if (got[i] != 1 + i / bytes)
			fail_msg("seed %llu: byte %zu of samples of %zu is %d", (unsigned long long)test_seed(), i, bytes, got[i]);
	free(got);
}

static void fill_batch(struct stk_gpu_device *dev, struct stk_slot *s, struct stk_desc desc, int32_t n)
{
	size_t bytes = (size_t)stk_desc_bytes(&desc);
	void *dense, *again;
	for (int32_t i = 0; i < n; i++) {
		assert_true(stk__slot_place(s, 0, i, &desc));
		write_sample(dev, &s->values[0].samples[i], (uint8_t)(i + 1));
	}
	if (dev)
		ok(stk__gpu_stream_sync(dev, NULL, &err));
	assert_true(stk__slot_make_dense(s, 0, n, &dense));
	for (int32_t i = 0; i < n; i++)
		assert_ptr_equal(s->values[0].samples[i].data, (uint8_t *)dense + (size_t)i * bytes);
	check_samples(dev, s, dense, bytes, n);
	assert_true(stk__slot_make_dense(s, 0, n, &again)); /* a second call, as for a value that is two outputs, must change nothing */
	assert_ptr_equal(again, dense);
}

/* Fills batches of changing shapes, so that the memory of earlier batches is large enough for only some of them. */
static void fill_batches(struct stk_gpu_device *dev)
{
	const struct stk_desc unknown = {.dtype = STK_UINT8, .ndim = -1};
	const bool on_gpu = true;
	enum stk_ring_lack lack;
	struct stk_ring *r = stk__ring_create(&unknown, 1, SAMPLES, 2, true, 0);
	assert_non_null(r);
	if (dev)
		ok(stk__ring_on_gpu(r, dev, &on_gpu, &err));
	struct stk_desc desc = draw_shape();
	for (int round = 0; round < ROUNDS; round++) {
		struct stk_slot *s = stk__ring_take(r, &lack);
		assert_non_null(s);
		fill_batch(dev, s, desc, test_random_in(&seed, 1, SAMPLES));
		stk__slot_return(s);
		if (round % 3)
			desc = draw_shape();
	}
	stk__ring_unref(r);
}

static void samples_lie_dense_in_host_memory(void **state)
{
	(void)state;
	seed = test_seed();
	for (int i = 0; i < 20; i++)
		fill_batches(NULL);
}

static void samples_lie_dense_on_a_gpu(void **state)
{
	struct stk_gpu_device *dev = need_gpu(state);
	seed = test_seed();
	for (int i = 0; i < 20; i++)
		fill_batches(dev);
}

/* ---- blocks that the consumer keeps ---- */

enum { LARGE = 2 << 20, SMALL = 640 };

/* Makes a ring for batches of two samples with two values each, a large one and a small one. */
static struct stk_ring *two_values(struct stk_gpu_device *dev, int32_t limit, bool hard, size_t held_limit)
{
	const struct stk_desc known[] = {
		{.dtype = STK_UINT8, .ndim = 1, .shape = {LARGE / 2}}, {.dtype = STK_UINT8, .ndim = 1, .shape = {SMALL / 2}}};
	const bool on_gpu[] = {true, true};
	struct stk_ring *r = stk__ring_create(known, 2, 2, limit, hard, held_limit);
	assert_non_null(r);
	if (dev)
		ok(stk__ring_on_gpu(r, dev, on_gpu, &err));
	return r;
}

static size_t kept_bytes(struct stk_ring *r)
{
	size_t limit;
	return stk__ring_kept_bytes(r, STK_SPACE_HOST, &limit) + stk__ring_kept_bytes(r, STK_SPACE_GPU, &limit);
}

/* Delivers and releases a batch, but keeps the blocks of both of its values. Returns false, and the reason in *lack, if the ring has no slot to give. */
static bool deliver(struct stk_ring *r, struct stk_block *held[2], enum stk_ring_lack *lack)
{
	struct stk_slot *s = stk__ring_take(r, lack);
	if (!s)
		return false;
	struct stk_block *blocks[2] = {s->values[0].block, s->values[1].block};
	for (int v = 0; v < 2; v++) {
		assert_int_equal(atomic_load(&blocks[v]->holds), 1);
		stk__block_hold(held[v] = blocks[v]);
	}
	stk__slot_deliver(s);
	stk__face_release(s->face, blocks, 2, true);
	return true;
}

static void labels_pin_nothing(struct stk_gpu_device *dev)
{
	enum { KEPT = 500 };
	struct stk_block *held[KEPT][2];
	enum stk_ring_lack lack;
	struct stk_ring *r = two_values(dev, 3, true, KEPT * 1024);
	for (int k = 0; k < KEPT; k++) {
		assert_true(deliver(r, held[k], &lack));
		stk__block_drop(held[k][0]);
	}
	assert_int_equal(r->n_slots, 1);
	assert_int_equal(kept_bytes(r), (KEPT - 1) * SMALL);
	assert_false(atomic_load(&r->pinned));
	for (int k = 0; k < KEPT; k++)
		for (int j = 0; j < k; j += 97)
			assert_ptr_not_equal(held[k][1]->data, held[j][1]->data);
	stk__ring_release_owner(r); /* the consumer's blocks stay valid, but are freed when they are released */
	for (int k = 0; k < KEPT - 1; k++)
		stk__block_drop(held[k][1]);
	assert_int_equal(kept_bytes(r), 0);
	stk__block_drop(held[KEPT - 1][1]);
}

static void what_is_held_has_a_limit(struct stk_gpu_device *dev)
{
	enum { LIMIT = 4, MORE = 3 };
	struct stk_block *held[LIMIT + MORE][2], *none[2];
	enum stk_ring_lack lack;
	struct stk_ring *r = two_values(dev, LIMIT, false, MORE * (LARGE + SMALL) + LARGE / 2);
	for (int k = 0; k < LIMIT + MORE; k++)
		assert_true(deliver(r, held[k], &lack));
	assert_true(atomic_load(&r->pinned));
	assert_int_equal(kept_bytes(r), MORE * (LARGE + SMALL));
	assert_false(deliver(r, none, &lack));
	assert_int_equal(lack, STK_RING_HELD);
	assert_int_equal(stk__ring_lacks(r), STK_RING_HELD);
	int32_t blocks;
	size_t bytes;
	stk__ring_held_blocks(r, 0, &blocks, &bytes);
	assert_int_equal(blocks, LIMIT + MORE);
	assert_int_equal(bytes, (size_t)(LIMIT + MORE) * LARGE);
	stk__block_drop(held[0][0]); /* the first blocks were released */
	stk__block_drop(held[0][1]);
	assert_int_equal(stk__ring_lacks(r), STK_RING_LACKS_NOTHING);
	assert_true(deliver(r, held[0], &lack));
	for (int k = 0; k < LIMIT + MORE; k++)
		for (int v = 0; v < 2; v++)
			stk__block_drop(held[k][v]);
	assert_int_equal(kept_bytes(r), 0);
	assert_int_equal(r->n_out, 0);
	for (int k = 0; k < 600; k++) { /* during these batches the ring frees the memory that was only needed once */
		assert_true(deliver(r, none, &lack));
		stk__block_drop(none[0]);
		stk__block_drop(none[1]);
	}
	assert_in_range(r->n_slots, 1, 3);
	assert_in_range(atomic_load(&r->bytes), LARGE, 3 * (LARGE + SMALL));
	stk__ring_release_owner(r);
}

/* Threads release blocks while the ring frees others. given: blocks for the threads to release; done: no more blocks will come. */
struct droppers {
	_Atomic(struct stk_block *) given[64];
	_Atomic bool done;
};

static void *drop_what_is_given(void *of)
{
	struct droppers *d = of;
	for (bool last = false; !last;) {
		last = atomic_load(&d->done);
		for (int i = 0; i < 64; i++) {
			struct stk_block *b = atomic_exchange(&d->given[i], NULL);
			if (b)
				stk__block_drop(b);
		}
	}
	return NULL;
}

static void threads_drop(struct stk_gpu_device *dev)
{
	enum { THREADS = 3, BATCHES = 1500 };
	static struct droppers d;
	pthread_t threads[THREADS];
	enum stk_ring_lack lack;
	struct stk_ring *r = two_values(dev, 6, false, (size_t)1 << 30);
	atomic_store(&d.done, false);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, drop_what_is_given, &d), 0);
	for (int k = 0; k < BATCHES; k++) {
		struct stk_block *held[2];
		assert_true(deliver(r, held, &lack));
		if (dev)
			ok(stk__block_use_stream(held[0], NULL, &err));
		for (int v = 0; v < 2; v++) {
			struct stk_block *before = atomic_exchange(&d.given[test_random_in(&seed, 0, 63)], held[v]);
			if (before)
				stk__block_drop(before);
		}
	}
	atomic_store(&d.done, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	drop_what_is_given(&d);
	assert_int_equal(r->n_out, 0);
	assert_int_equal(kept_bytes(r), 0);
	stk__ring_release_owner(r);
}

/* Three numbers mean default streams. An event on that of another thread would not wait for this thread's work. */
static void default_streams_are_one(void)
{
	struct stk_uses u = {0};
	for (uintptr_t number = 0; number < 3; number++)
		assert_int_equal(stk__uses_add(&u, (stk_gpu_stream)number), 0);
	assert_int_equal(u.n_uses, 1);
	assert_null(u.uses[0].stream);
}

/* The emulated driver detects that a stream was destroyed. The stream then cannot report when the slot may be used again, so the next writer waits for the
 * device. */
static void a_stream_goes_before_its_batch(struct stk_gpu_device *dev)
{
	struct stk_block *held[2];
	enum stk_ring_lack lack;
	stk_gpu_stream stream;
	if (!getenv("STOKER_EMULATED_CUDA"))
		return;
	struct stk_ring *r = two_values(dev, 1, true, 0);
	ok(stk__gpu_enter(dev, &err));
	ok(stk__gpu_stream_create(dev, STK_GPU_LOW, &stream, &err));
	for (int k = 0; k < 2; k++) {
		assert_true(deliver(r, held, &lack));
		if (k == 0)
			ok(stk__block_use_stream(held[0], stream, &err));
		stk__gpu_stream_destroy(dev, stream);
		stream = NULL;
		stk__block_drop(held[0]);
		stk__block_drop(held[1]);
		assert_int_equal(r->slots->uses.unrecorded, k == 0);
		ok(stk__slot_wait_streams(r->slots, &err));
		assert_false(r->slots->uses.unrecorded);
	}
	stk__gpu_leave(dev);
	assert_int_equal(r->n_slots, 1);
	stk__ring_release_owner(r);
}

/* Takes all memory of the GPU except for less than 1 MiB. Returns the number of allocations, to be freed with give_memory_back. */
static int take_all_memory(struct stk_gpu_device *dev, stk_gpu_ptr taken[64])
{
	int n = 0;
	for (size_t size = (size_t)1 << 40; size >= 1 << 20;)
		if (n < 64 && !stk__gpu_alloc(dev, size, &taken[n], NULL))
			n++;
		else
			size /= 2;
	return n;
}

static void give_memory_back(struct stk_gpu_device *dev, const stk_gpu_ptr *taken, int n)
{
	while (n)
		stk__gpu_free(dev, taken[--n]);
}

/* A worker that finds too little memory for another slot must not let go of the consumer's batches, since their replacements need as much memory. Memory is
 * reported as short only after the consumer was found to wait. */
static void no_memory_is_no_error_before_the_consumer_waits(struct stk_gpu_device *dev)
{
	struct stk_block *held[2][2], *more[2];
	stk_gpu_ptr taken[64];
	enum stk_ring_lack lack;
	if (!is_emulated(dev)) /* on a real GPU other programs may free memory meanwhile */
		return;
	struct stk_ring *r = two_values(dev, 6, false, (size_t)1 << 30);
	for (int k = 0; k < 2; k++)
		assert_true(deliver(r, held[k], &lack));
	const int n = take_all_memory(dev, taken);
	assert_false(deliver(r, more, &lack));
	assert_int_equal(lack, STK_RING_ALL_OUT);
	assert_int_equal(kept_bytes(r), 0);
	assert_int_equal(stk__ring_lacks(r), STK_RING_LACKS_NOTHING); /* the consumer waits: the next take fails, or finds memory */
	assert_false(deliver(r, more, &lack));
	assert_int_equal(lack, STK_RING_NO_MEMORY);
	give_memory_back(dev, taken, n);
	assert_true(deliver(r, more, &lack));
	for (int v = 0; v < 2; v++) {
		stk__block_drop(more[v]);
		for (int k = 0; k < 2; k++)
			stk__block_drop(held[k][v]);
	}
	stk__ring_release_owner(r);
}

static void blocks_are_held_in_host_memory(void **state)
{
	(void)state;
	seed = test_seed();
	labels_pin_nothing(NULL);
	what_is_held_has_a_limit(NULL);
	threads_drop(NULL);
}

static void blocks_are_held_on_a_gpu(void **state)
{
	struct stk_gpu_device *dev = need_gpu(state);
	seed = test_seed();
	default_streams_are_one();
	labels_pin_nothing(dev);
	what_is_held_has_a_limit(dev);
	a_stream_goes_before_its_batch(dev);
	no_memory_is_no_error_before_the_consumer_waits(dev);
	threads_drop(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_lie_dense_in_host_memory),
		cmocka_unit_test(samples_lie_dense_on_a_gpu),
		cmocka_unit_test(blocks_are_held_in_host_memory),
		cmocka_unit_test(blocks_are_held_on_a_gpu),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
