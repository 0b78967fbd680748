/* SPDX-License-Identifier: Apache-2.0
 * Slots alone: samples of shapes that nobody expected lie dense in the end, in one allocation of either space, however chance had placed them. */
#include "gpu_setup.h"
#include "image_files.h"
#include "tensor/slot.h"

enum { SAMPLES = 6, ROUNDS = 12 };

static uint64_t seed;

/* What a GPU's driver lays side by side: whole 512 bytes; or any other. */
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

/* In one copy. */
static void check_samples(struct stk_gpu_device *dev, struct stk_slot *s, const void *dense, size_t bytes, int32_t n)
{
	uint8_t *got = malloc(bytes * (size_t)n);
	if (dev && stk__ring_download(s->ring, got, (stk_gpu_ptr)(uintptr_t)dense, bytes * (size_t)n, &err))
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
	assert_true(stk__slot_settle(s, 0, n, &dense));
	for (int32_t i = 0; i < n; i++)
		assert_ptr_equal(s->values[0].samples[i].data, (uint8_t *)dense + (size_t)i * bytes);
	check_samples(dev, s, dense, bytes, n);
	assert_true(stk__slot_settle(s, 0, n, &again)); /* as for a value that is two outputs */
	assert_ptr_equal(again, dense);
}

/* Shapes change from batch to batch, so that regions and room fit now and then. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_lie_dense_in_host_memory),
		cmocka_unit_test(samples_lie_dense_on_a_gpu),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
