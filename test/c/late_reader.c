/* SPDX-License-Identifier: Apache-2.0 */
#include "late_reader.h"

#include "device_runs.h"

#include <stdlib.h>
#include <string.h>

enum {
	BUSY = 1 << 20,
	FILLS = 60 /* number of fills that are queued before a batch is read; they take longer than making the next batches */
};

void late_open(struct late_reader *l, int64_t sample, int32_t batch)
{
	struct stk_error err = {0};
	*l = (struct late_reader){.sample = sample};
	ok(stk__gpu_open(&l->gpu, &err), &err);
	ok(stk__gpu_device_open(l->gpu, 0, &l->dev, &err), &err);
	ok(stk__gpu_enter(l->dev, &err), &err);
	for (int i = 0; i < STK_SLOT_STREAMS; i++)
		ok(stk__gpu_stream_create(l->dev, STK_GPU_LOW, &l->streams[i], &err), &err);
	ok(stk__gpu_alloc(l->dev, 2 * BUSY, &l->dummy, &err), &err);
	for (int k = 0; k < LATE_BATCHES; k++)
		ok(stk__gpu_host_alloc(l->dev, (size_t)(sample * batch), (void **)&l->copies[k], &err), &err);
}

void late_close(struct late_reader *l)
{
	for (int k = 0; k < LATE_BATCHES; k++)
		stk__gpu_host_free(l->dev, l->copies[k]);
	stk__gpu_free(l->dev, l->dummy);
	for (int i = 0; i < STK_SLOT_STREAMS; i++)
		stk__gpu_stream_destroy(l->dev, l->streams[i]);
	stk__gpu_leave(l->dev);
	stk__gpu_device_close(l->dev);
	stk__gpu_close(l->gpu);
}

static size_t dense_bytes(const struct late_reader *l, const struct stk_tensor_list *t)
{
	assert_true(t->dense && stk_desc_bytes(&t->desc) == l->sample);
	return (size_t)(t->count * l->sample);
}

/* Keeps stream k % 2 busy, then queues a copy of the batch on it, so that the batch is read late. */
static void read_late(struct late_reader *l, struct stk_batch *b, int k)
{
	struct stk_error err = {0};
	stk_gpu_stream stream = l->streams[k % 2];
	const struct stk_tensor_list *t = stk_batch_output(b, 0);
	ok(stk_batch_use_stream(b, (uint64_t)(uintptr_t)stream, &err), &err);
	for (int i = 0; i < FILLS; i++)
		ok(stk__gpu_fill(l->dev, stream, l->dummy + (uint64_t)(k % 2) * BUSY, i, BUSY, &err), &err);
	ok(stk__gpu_download(l->dev, stream, l->copies[k], (stk_gpu_ptr)(uintptr_t)t->data, dense_bytes(l, t), &err), &err);
}

void late_check(struct late_reader *l, struct stk_pipeline *gpu, struct stk_pipeline *cores)
{
	struct stk_error err = {0};
	struct stk_batch *b = NULL, *want[LATE_BATCHES];
	for (int k = 0; k < LATE_BATCHES;) {
		enum stk_status s = stk_pipeline_next(gpu, &b, &err);
		assert_int_equal(s, stk_pipeline_next(cores, &want[k], &err));
		if (s == STK_END)
			continue;
		ok(s, &err);
		read_late(l, b, k++);
		stk_batch_unref(&b);
	}
	for (int i = 0; i < 2; i++)
		ok(stk__gpu_stream_sync(l->dev, l->streams[i], &err), &err);
	for (int k = 0; k < LATE_BATCHES; k++) {
		const struct stk_tensor_list *t = stk_batch_output(want[k], 0);
		if (memcmp(l->copies[k], t->data, dense_bytes(l, t)))
			fail_msg("batch %d changed under its reader, %s", k, getenv("STOKER_EMULATED_CUDA"));
		stk_batch_unref(&want[k]);
	}
}
