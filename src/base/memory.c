/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Atomic uint64_t alloc_count;

#ifdef STK_FAULTS
static _Atomic int64_t fault_at[STK_FAULT_KINDS] = {-1, -1, -1};
static _Atomic bool fault_lasts[STK_FAULT_KINDS];
static _Atomic int64_t fault_seen[STK_FAULT_KINDS];

bool stk__fault(enum stk_fault kind)
{
	int64_t seen = atomic_fetch_add(&fault_seen[kind], 1), at = atomic_load(&fault_at[kind]);
	return seen == at || (at >= 0 && seen > at && atomic_load(&fault_lasts[kind]));
}

static void set_fault(enum stk_fault kind, int64_t nth, bool lasts)
{
	atomic_store(&fault_seen[kind], 0);
	atomic_store(&fault_lasts[kind], lasts);
	atomic_store(&fault_at[kind], nth);
}

void stk__fault_set(enum stk_fault kind, int64_t nth)
{
	set_fault(kind, nth, false);
}

void stk__fault_set_from(enum stk_fault kind, int64_t nth)
{
	set_fault(kind, nth, true);
}

int64_t stk__fault_passed(enum stk_fault kind)
{
	return atomic_load(&fault_seen[kind]);
}
#endif

static size_t round_up(size_t size)
{
	return (size + STK_CACHE_LINE - 1) & ~(size_t)(STK_CACHE_LINE - 1);
}

static bool refuse(void)
{
	atomic_fetch_add_explicit(&alloc_count, 1, memory_order_relaxed);
	return stk__fault(STK_FAULT_ALLOC);
}

void *stk__alloc(size_t size)
{
	if (refuse() || size > SIZE_MAX / 2)
		return NULL;
	return aligned_alloc(STK_CACHE_LINE, round_up(size ? size : 1));
}

void *stk__calloc(size_t count, size_t size)
{
	if (refuse())
		return NULL;
	return calloc(count ? count : 1, size ? size : 1);
}

void *stk__realloc(void *p, size_t size)
{
	if (refuse())
		return NULL;
	return realloc(p, size ? size : 1);
}

char *stk__strdup(const char *s)
{
	size_t n = strlen(s) + 1;
	char *copy = refuse() ? NULL : malloc(n);
	return copy ? memcpy(copy, s, n) : NULL;
}

void stk__free(void *p)
{
	free(p);
}

/* ---- mapped memory ---- */

/* PAGE: the smallest page size of all machines; a smaller take from an arena does not count towards the arena's limit. LARGEST_PAGE: the largest page size,
 * which kernels for aarch64 may have. Ranges that are returned to the kernel begin and end at its multiples, because the kernel would round up any other end.
 * HUGE: the usual size of huge pages. */
enum { PAGE = 4096, LARGEST_PAGE = 64 << 10, HUGE = 2 << 20 };

static size_t mapped_size(size_t size)
{
	return (size + (size == 0) + LARGEST_PAGE - 1) & ~(size_t)(LARGEST_PAGE - 1);
}

void *stk__map(size_t size)
{
	size_t whole = mapped_size(size), spare = whole >= HUGE ? HUGE - PAGE : 0;
	if (refuse() || size > SIZE_MAX / 2)
		return NULL;
	/* cppcheck-suppress invalidFunctionArg */
	uint8_t *p = mmap(NULL, whole + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (!spare)
		return p;
	size_t before = (HUGE - (uintptr_t)p % HUGE) % HUGE; /* number of bytes up to the first boundary of a huge page */
	if (before)
		munmap(p, before);
	if (spare > before)
		munmap(p + before + whole, spare - before);
	madvise(p + before, whole, MADV_HUGEPAGE); /* if the kernel refuses, pages have the usual size */
	/* cppcheck-suppress deallocret */
	return p + before;
}

void stk__unmap(void *p, size_t size)
{
	if (p)
		munmap(p, mapped_size(size));
}

uint64_t stk__alloc_count(void)
{
	return atomic_load_explicit(&alloc_count, memory_order_relaxed);
}

/* ---- arena ---- */

struct stk_arena_extra {
	struct stk_arena_extra *next;
	size_t size;
	alignas(STK_CACHE_LINE) uint8_t data[];
};

enum { ARENA_MIN = 64 << 10, ARENA_CALM = 64 };

void stk__arena_init(struct stk_arena *a)
{
	*a = (struct stk_arena){0};
}

/* Frees extra blocks, the newest first, until `last` is the newest. */
static void free_extra(struct stk_arena *a, const struct stk_arena_extra *last)
{
	while (a->extra != last) {
		struct stk_arena_extra *next = a->extra->next;
		stk__free(a->extra);
		a->extra = next;
	}
}

void stk__arena_destroy(struct stk_arena *a)
{
	free_extra(a, NULL);
	stk__free(a->block);
	*a = (struct stk_arena){0};
}

void stk__arena_limit(struct stk_arena *a, size_t limit)
{
	a->limit = limit;
	a->charged = a->refused = 0;
}

size_t stk__arena_left(const struct stk_arena *a)
{
	return !a->limit ? SIZE_MAX : a->charged < a->limit ? a->limit - a->charged : 0;
}

bool stk__arena_allows(struct stk_arena *a, size_t size)
{
	if (size <= stk__arena_left(a))
		return true;
	if (!a->refused)
		a->refused = size < SIZE_MAX - a->charged ? a->charged + size : SIZE_MAX;
	return false;
}

bool stk__arena_charge(struct stk_arena *a, size_t size)
{
	if (!stk__arena_allows(a, size))
		return false;
	a->charged += size;
	return true;
}

void stk__arena_discharge(struct stk_arena *a, size_t size)
{
	a->charged -= size;
}

/* Returns the unused pages of the block to the system. The block's capacity does not change. */
static void give_back_idle(struct stk_arena *a)
{
	uintptr_t from = ((uintptr_t)a->block + a->used + LARGEST_PAGE - 1) & ~(uintptr_t)(LARGEST_PAGE - 1);
	uintptr_t to = ((uintptr_t)a->block + a->capacity) & ~(uintptr_t)(LARGEST_PAGE - 1);
	if (from < to)
		madvise((void *)from, to - from, MADV_DONTNEED); /* if the kernel refuses, the pages stay for the next sample */
}

static void *take_extra(struct stk_arena *a, size_t size)
{
	if (a->limit && a->in_use + size + (a->capacity - a->used) > a->limit)
		give_back_idle(a);
	struct stk_arena_extra *e = stk__alloc(sizeof *e + size);
	if (!e)
		return NULL;
	e->next = a->extra;
	e->size = size;
	a->extra = e;
	return e->data;
}

void *stk__arena_take_uncounted(struct stk_arena *a, size_t size)
{
	if (size > SIZE_MAX / 4)
		return NULL;
	size = round_up(size + STK_ARENA_SLACK);
	bool fits = size <= a->capacity - a->used;
	void *p = fits ? a->block + a->used : take_extra(a, size);
	if (!p)
		return NULL;
	a->used += fits ? size : 0;
	a->in_use += size;
	a->need = a->in_use > a->need ? a->in_use : a->need;
	return p;
}

void *stk__arena_take(struct stk_arena *a, size_t size)
{
	size_t counted = size < PAGE ? 0 : size;
	if (!stk__arena_allows(a, counted))
		return NULL;
	void *p = stk__arena_take_uncounted(a, size);
	a->charged += p ? counted : 0;
	return p;
}

bool stk__arena_holds(const struct stk_arena *a, const void *p)
{
	uintptr_t at = (uintptr_t)p;
	bool holds = at - (uintptr_t)a->block < a->used;
	for (const struct stk_arena_extra *e = a->extra; e && !holds; e = e->next)
		holds = at - (uintptr_t)e->data < e->size;
	return holds;
}

static void resize_block(struct stk_arena *a, size_t capacity)
{
	stk__free(a->block);
	a->block = stk__alloc(capacity);
	a->capacity = a->block ? capacity : 0; /* without a block, later calls use extra blocks or fail, so no error is hidden */
	a->calm = 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STK__WATCHED true
#elif defined(__has_feature)
#define STK__WATCHED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer))
#else
#define STK__WATCHED false
#endif

bool stk__readable_past(const void *end)
{
	enum { SMALLEST_PAGE = 4096 };
	return !STK__WATCHED && ((uintptr_t)end - 1) % SMALLEST_PAGE + STK_ARENA_SLACK < SMALLEST_PAGE;
}

/* Returns a new capacity for the block. It grows by half until `need` fits, but does not exceed the limit if `need` is within it. */
static size_t grown(const struct stk_arena *a, size_t need)
{
	size_t capacity = ARENA_MIN;
	while (capacity < need)
		capacity += capacity / 2;
	return a->limit && capacity > a->limit ? (need > a->limit ? need : a->limit) : capacity;
}

void stk__arena_reset(struct stk_arena *a)
{
	size_t need = a->need;
	if (need > a->peak)
		a->peak = need;
	free_extra(a, NULL);
	if (need > a->capacity) {
		resize_block(a, round_up(grown(a, need)));
	} else if (a->capacity > ARENA_MIN && need < a->capacity / 4) {
		if (++a->calm >= ARENA_CALM)
			resize_block(a, round_up(a->capacity / 2));
	} else {
		a->calm = 0;
	}
	a->used = a->in_use = a->need = a->charged = 0;
}

struct stk_arena_mark stk__arena_mark(const struct stk_arena *a)
{
	return (struct stk_arena_mark){a->used, a->in_use, a->charged, a->extra};
}

void stk__arena_release(struct stk_arena *a, struct stk_arena_mark mark)
{
	if (mark.in_use == 0) {
		stk__arena_reset(a);
		return;
	}
	free_extra(a, mark.extra);
	a->used = mark.used;
	a->in_use = mark.in_use;
	a->charged = mark.charged;
}
