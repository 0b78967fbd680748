/* SPDX-License-Identifier: Apache-2.0
 * The GPU layer of the emulation: devices are the host, a launch runs block after block. Linked before the library, whose own is then not taken. */
#include "cuda_emulate.h"

#include "cuda_emulated_kernels.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <ucontext.h>

#define MOST_THREADS 1024
#define STACK (64 << 10)

struct emulated emulated;

struct fiber {
	ucontext_t context;
	int done;
};

static struct fiber fibers[MOST_THREADS];
static uint8_t *stacks;
static ucontext_t scheduler;
static unsigned threads, current;
static void (*kernel_now)(void *argument);
static void *argument_now;

/* A barrier: those who have arrived, those it is for, and how often it has opened. */
static struct barrier {
	unsigned arrived, members, generation;
} block_barrier, warp_barrier[MOST_THREADS / 32];
static uint64_t exchanged[MOST_THREADS];

static void yield(void)
{
	swapcontext(&fibers[current].context, &scheduler);
}

static void open_if_full(struct barrier *b)
{
	if (b->arrived == b->members) {
		b->arrived = 0;
		b->generation++;
	}
}

static void wait_at(struct barrier *b)
{
	unsigned generation = b->generation;
	b->arrived++;
	open_if_full(b);
	while (b->generation == generation)
		yield();
}

void emulate_syncthreads(void)
{
	wait_at(&block_barrier);
}

void emulate_exchange(uint64_t mine, uint64_t out[32])
{
	struct barrier *b = &warp_barrier[current / 32];
	exchanged[current] = mine;
	wait_at(b);
	memcpy(out, exchanged + current / 32 * 32, 32 * sizeof *out);
	wait_at(b);
}

static void fiber_main(void)
{
	kernel_now(argument_now);
	exchanged[current] = 0;
	fibers[current].done = 1;
	block_barrier.members--;
	warp_barrier[current / 32].members--;
	open_if_full(&block_barrier);
	open_if_full(&warp_barrier[current / 32]);
	swapcontext(&fibers[current].context, &scheduler);
}

static void run_block(void)
{
	memset(exchanged, 0, sizeof exchanged);
	block_barrier = (struct barrier){.members = threads};
	for (unsigned w = 0; w * 32 < threads; w++)
		warp_barrier[w] = (struct barrier){.members = threads - w * 32 < 32 ? threads - w * 32 : 32};
	for (unsigned t = 0; t < threads; t++) {
		getcontext(&fibers[t].context);
		fibers[t].done = 0;
		fibers[t].context.uc_stack.ss_sp = stacks + (size_t)t * STACK;
		fibers[t].context.uc_stack.ss_size = STACK;
		fibers[t].context.uc_link = NULL;
		makecontext(&fibers[t].context, fiber_main, 0);
	}
	for (unsigned left = threads; left > 0;) {
		for (current = 0; current < threads; current++) {
			if (fibers[current].done)
				continue;
			emulated.thread = (struct emulated_dim){current, 0, 0};
			swapcontext(&scheduler, &fibers[current].context);
			left -= (unsigned)fibers[current].done;
		}
	}
}

static unsigned at_least_one(unsigned n)
{
	return n ? n : 1;
}

enum stk_status stk__gpu_launch(struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_kernel kernel, struct stk_gpu_grid grid,
	void **params, struct stk_error *err)
{
	(void)dev, (void)stream, (void)err;
	if (!stacks)
		stacks = malloc((size_t)MOST_THREADS * STACK);
	threads = grid.threads[0];
	kernel_now = (void (*)(void *))(uintptr_t)kernel;
	argument_now = params[0];
	emulated.dynamic = aligned_alloc(64, ((size_t)grid.shared + 127) / 64 * 64);
	emulated.block_dim = (struct emulated_dim){threads, 1, 1};
	emulated.grid_dim = (struct emulated_dim){grid.blocks[0], at_least_one(grid.blocks[1]), at_least_one(grid.blocks[2])};
	struct emulated_dim n = emulated.grid_dim;
	for (uint64_t i = 0; i < (uint64_t)n.x * n.y * n.z; i++) {
		emulated.block = (struct emulated_dim){(unsigned)(i % n.x), (unsigned)(i / n.x % n.y), (unsigned)(i / n.x / n.y)};
		memset(emulated.dynamic, 0xa5, grid.shared);
		run_block();
	}
	free(emulated.dynamic);
	return STK_OK;
}

enum stk_status stk__gpu_kernel(
	struct stk_gpu_device *dev, const char *module, const char *name, size_t shared, stk_gpu_kernel *out, struct stk_error *err)
{
	(void)dev, (void)module, (void)shared;
	for (int i = 0; emulated_kernels[i].name; i++) {
		if (strcmp(emulated_kernels[i].name, name) == 0) {
			*out = (stk_gpu_kernel)(uintptr_t)emulated_kernels[i].run;
			return STK_OK;
		}
	}
	return stk__fail(err, STK_NOT_FOUND, "no emulated kernel %s", name);
}

enum stk_status stk__gpu_open(struct stk_gpu **out, struct stk_error *err)
{
	(void)err;
	*out = NULL;
	return STK_OK;
}

void stk__gpu_close(struct stk_gpu *gpu)
{
	(void)gpu;
}

enum stk_status stk__gpu_device_open(struct stk_gpu *gpu, int ordinal, struct stk_gpu_device **out, struct stk_error *err)
{
	(void)gpu, (void)ordinal, (void)err;
	*out = NULL;
	return STK_OK;
}

void stk__gpu_device_close(struct stk_gpu_device *dev)
{
	(void)dev;
}

const struct stk_gpu_facts *stk__gpu_device_facts(const struct stk_gpu_device *dev)
{
	static const struct stk_gpu_facts facts = {.name = "emulated", .shared = 65536, .processors = 1};
	(void)dev;
	return &facts;
}

enum stk_status stk__gpu_enter(struct stk_gpu_device *dev, struct stk_error *err)
{
	(void)dev, (void)err;
	return STK_OK;
}

void stk__gpu_leave(struct stk_gpu_device *dev)
{
	(void)dev;
}

enum stk_status stk__gpu_fill(
	struct stk_gpu_device *dev, stk_gpu_stream stream, stk_gpu_ptr to, int byte, size_t size, struct stk_error *err)
{
	(void)dev, (void)stream, (void)err;
	memset((void *)(uintptr_t)to, byte, size);
	return STK_OK;
}
