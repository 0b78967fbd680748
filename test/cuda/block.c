/* SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

#include "fiber.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The stacks' distance is no power of two: otherwise the tops of all stacks would compete for the same cache lines. */
enum { MOST_THREADS = 1024, WARP = 32, STACK = 128 << 10, STRIDE = STACK + 576, JUNK = 0xa5, COPIES = 64 };

struct emulated emulated;

/* The states of a warp's lanes, a bit for each lane. ready: may run; waiting: waits for other lanes of the warp; at_block: waits at a barrier of the block. A
 * lane without a bit has returned. */
struct warp {
	uint32_t ready, waiting, at_block;
	const char *what;
	unsigned turn; /* index, 0 or 1, of the set of values that the lanes write now; some lanes may still read the other set */
	uint32_t votes[2];
	uint64_t values[2][WARP];
};

/* A thread's pending copies: a ring buffer whose oldest entry has the index `first`. */
struct copies {
	struct {
		void *to;
		const void *from;
		unsigned size, group;
	} copy[COPIES];
	unsigned first, count, group;
};

static struct {
	struct copies copies[MOST_THREADS];
	struct fiber scheduler, fibers[MOST_THREADS];
	struct warp warps[MOST_THREADS / WARP];
	uint8_t *stacks;
	unsigned free[MOST_THREADS], frees, fiber_of[MOST_THREADS];
	bool started[MOST_THREADS];
	unsigned threads, current, returned, at_block, launches;
	size_t shared; /* number of bytes of the launch's dynamic shared memory */
	const struct emulated_kernel *kernel;
	const void *packed;
	const char *error;
} run;

static struct fiber *fiber_of(unsigned thread)
{
	return &run.fibers[run.fiber_of[thread]];
}

static void pause_thread(void)
{
	fiber_switch(fiber_of(run.current), &run.scheduler);
}

void emulated_refuse(const char *why)
{
	if (!run.error)
		run.error = why;
}

/* ---- memory ---- */

/* The linker defines these at the ends of the section that holds all __shared__ variables (cuda_cpp.h). */
extern const char __start_stk_shared[] __attribute__((visibility("hidden"))), __stop_stk_shared[] __attribute__((visibility("hidden")));

static bool is_shared(const void *address)
{
	uintptr_t at = (uintptr_t)address;
	return at - (uintptr_t)__start_stk_shared < (uintptr_t)(__stop_stk_shared - __start_stk_shared) ||
	       at - (uintptr_t)emulated.shared < run.shared;
}

void emulated_global(const char *what, const void *address)
{
	static char text[96];
	bool shared = is_shared(address);
	if (run.error || !(shared || (uintptr_t)address - (uintptr_t)run.stacks < (uintptr_t)MOST_THREADS * STRIDE))
		return;
	snprintf(text, sizeof text, "%s of %s memory: it reaches global memory alone", what, shared ? "shared" : "a thread's own");
	emulated_refuse(text);
}

/* ---- barriers ---- */

static void open_block(void)
{
	if (!run.at_block || run.at_block + run.returned < run.threads)
		return;
	for (unsigned w = 0; w * WARP < run.threads; w++) {
		run.warps[w].ready |= run.warps[w].at_block;
		run.warps[w].at_block = 0;
	}
	run.at_block = 0;
}

static void open_warp(struct warp *w)
{
	if (!w->waiting || w->ready || w->at_block)
		return;
	for (unsigned i = 0; i < WARP; i++)
		if (!(w->waiting >> i & 1))
			w->values[w->turn][i] = 0;
	w->turn ^= 1;
	w->votes[w->turn] = 0;
	w->ready = w->waiting;
	w->waiting = 0;
	w->what = NULL;
}

/* Makes the current thread's lane wait for its warp. Returns the index of the set of values that the lanes have written. */
static unsigned wait_for_warp(const char *what)
{
	struct warp *w = &run.warps[run.current / WARP];
	uint32_t me = 1u << run.current % WARP;
	unsigned turn = w->turn;
	if (w->what && w->what != what && strcmp(w->what, what) != 0)
		emulated_refuse("lanes of a warp wait at different instructions");
	w->what = what;
	w->ready &= ~me;
	w->waiting |= me;
	open_warp(w);
	if (!(w->ready & me))
		pause_thread();
	return turn;
}

void emulated_sync_block(void)
{
	struct warp *w = &run.warps[run.current / WARP];
	uint32_t me = 1u << run.current % WARP;
	w->ready &= ~me;
	w->at_block |= me;
	run.at_block++;
	open_block();
	if (!(w->ready & me))
		pause_thread();
}

const uint64_t *emulated_exchange(const char *what, uint64_t mine)
{
	struct warp *w = &run.warps[run.current / WARP];
	w->values[w->turn][run.current % WARP] = mine;
	return w->values[wait_for_warp(what)];
}

unsigned emulated_vote(const char *what, int set)
{
	struct warp *w = &run.warps[run.current / WARP];
	w->votes[w->turn] |= (uint32_t)(set != 0) << run.current % WARP;
	return w->votes[wait_for_warp(what)];
}

/* ---- copies ---- */

static void finish_oldest(struct copies *c)
{
	memcpy(c->copy[c->first].to, c->copy[c->first].from, c->copy[c->first].size);
	c->first = (c->first + 1) % COPIES;
	c->count--;
}

void emulated_copy(void *to, const void *from, unsigned size)
{
	struct copies *c = &run.copies[run.current];
	unsigned at = (c->first + c->count) % COPIES;
	if (((uintptr_t)to | (uintptr_t)from) % size)
		emulated_refuse("an asynchronous copy is not aligned");
	if (!is_shared(to))
		emulated_refuse("an asynchronous copy does not go to shared memory");
	emulated_global("an asynchronous copy", from);
	if (c->count == COPIES)
		finish_oldest(c);
	c->copy[at].to = to;
	c->copy[at].from = from;
	c->copy[at].size = size;
	c->copy[at].group = c->group;
	c->count++;
	if (emulated.block.x % 2 == 0)
		finish_oldest(c);
}

void emulated_copy_commit(void)
{
	run.copies[run.current].group++;
}

void emulated_copy_wait(unsigned groups)
{
	struct copies *c = &run.copies[run.current];
	while (c->count && c->copy[c->first].group + groups < c->group)
		finish_oldest(c);
}

/* ---- threads ---- */

static void run_thread(void)
{
	run.kernel->run(run.packed);
	while (run.copies[run.current].count)
		finish_oldest(&run.copies[run.current]);
	struct warp *w = &run.warps[run.current / WARP];
	w->ready &= ~(1u << run.current % WARP);
	run.returned++;
	open_warp(w);
	open_block();
}

/* Runs one thread after another. The fiber that became free last takes the next thread, because its stack is still in the cache. */
static void fiber_main(void)
{
	fiber_entered(&run.scheduler);
	for (;;) {
		run_thread();
		run.free[run.frees++] = run.fiber_of[run.current];
		pause_thread();
	}
}

static void go_on(unsigned thread)
{
	unsigned x = emulated.block_dim.x, y = emulated.block_dim.y;
	run.current = thread;
	emulated.thread = (struct emulated_dim){thread % x, thread / x % y, thread / x / y};
	if (!run.started[thread]) {
		run.started[thread] = true;
		run.fiber_of[thread] = run.free[--run.frees];
	}
	fiber_switch(&run.scheduler, fiber_of(thread));
}

static void begin_block(void)
{
	for (unsigned t = 0; t < run.threads; t++)
		run.started[t] = false, run.copies[t].count = run.copies[t].group = 0;
	for (unsigned w = 0; w * WARP < run.threads; w++) {
		unsigned lanes = run.threads - w * WARP;
		run.warps[w].ready = lanes < WARP ? (1u << lanes) - 1 : ~0u;
		run.warps[w].waiting = run.warps[w].at_block = 0;
		run.warps[w].votes[run.warps[w].turn] = 0;
		run.warps[w].what = NULL;
	}
	run.returned = run.at_block = 0;
}

/* Runs the warp's lanes until all of them wait for other warps or have returned. Returns whether it ran any lane. */
static bool run_warp(unsigned w, bool backwards)
{
	bool moved = false;
	while (run.warps[w].ready && !run.error) {
		uint32_t lanes = run.warps[w].ready;
		for (moved = true; lanes;) {
			unsigned lane = backwards ? 31 - (unsigned)__builtin_clz(lanes) : (unsigned)__builtin_ctz(lanes);
			lanes &= ~(1u << lane);
			go_on(w * WARP + lane);
		}
	}
	return moved;
}

/* Runs the block's threads from first to last or, with `backwards`, from last to first. If a barrier is missing, one of the two orders mostly gives a
 * wrong result. */
static void run_block(bool backwards)
{
	unsigned warps = (run.threads + WARP - 1) / WARP;
	begin_block();
	while (run.returned < run.threads && !run.error) {
		bool moved = false;
		for (unsigned i = 0; i < warps && !run.error; i++)
			moved |= run_warp(backwards ? warps - 1 - i : i, backwards);
		if (!moved)
			emulated_refuse("threads wait for others that wait elsewhere or have returned");
	}
}

static void make_fibers(void)
{
	run.stacks = malloc((size_t)MOST_THREADS * STRIDE);
	run.frees = 0;
	for (unsigned i = MOST_THREADS; i > 0; i--) {
		struct fiber *f = &run.fibers[i - 1];
		f->stack = run.stacks + (size_t)(i - 1) * STRIDE;
		f->size = STACK;
		fiber_start(f, fiber_main);
		run.free[run.frees++] = i - 1;
	}
}

const char *emulated_launch(
	const struct emulated_kernel *kernel, const void *packed, struct emulated_dim grid, struct emulated_dim block, size_t shared)
{
	if (!run.stacks)
		make_fibers();
	run.threads = block.x * block.y * block.z;
	run.kernel = kernel;
	run.packed = packed;
	run.shared = shared;
	run.error = NULL;
	/* Allocates new memory for each launch, so that AddressSanitizer detects accesses past its end. */
	if (posix_memalign(&emulated.shared, 256, shared ? shared : 1))
		return "no memory for a launch";
	emulated.block_dim = block;
	emulated.grid_dim = grid;
	for (uint64_t i = 0; i < (uint64_t)grid.x * grid.y * grid.z && !run.error; i++) {
		emulated.block =
			(struct emulated_dim){(unsigned)(i % grid.x), (unsigned)(i / grid.x % grid.y), (unsigned)(i / grid.x / grid.y)};
		memset(emulated.shared, JUNK, shared);
		run_block((run.launches + i) % 2);
	}
	run.launches++;
	free(emulated.shared);
	if (run.error) { /* some fibers have not finished, and must not run again */
		free(run.stacks);
		run.stacks = NULL;
	}
	return run.error;
}
