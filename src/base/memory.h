/* SPDX-License-Identifier: Apache-2.0
 * Declares the functions through which the library allocates, so that tests can count allocations and make them fail. Also declares the arena, from which each
 * worker takes scratch memory. */
#ifndef STK_BASE_MEMORY_H
#define STK_BASE_MEMORY_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STK_CACHE_LINE 64

/* Return NULL if memory is short. stk__alloc aligns to STK_CACHE_LINE and leaves the contents undefined; stk__calloc zeroes the memory; both accept size 0.
 * Free the memory with stk__free, which accepts NULL. */
void *stk__alloc(size_t size) __attribute__((malloc));
void *stk__calloc(size_t count, size_t size) __attribute__((malloc));
void *stk__realloc(void *p, size_t size);
char *stk__strdup(const char *s);
void stk__free(void *p);

/* Maps zeroed memory for large, long-lived data (slots, bytes read ahead, data sets). stk__unmap returns it to the system at once, which free() would not
 * do. Uses huge pages if one fits and the system has them. Aligned to a page. Returns NULL if memory is short. stk__unmap accepts NULL. */
void *stk__map(size_t size);
void stk__unmap(void *p, size_t size);

/* Returns the number of times that the functions above were asked for memory since the process started. Tests use it to check that a pipeline allocates nothing
 * after its first batches. */
uint64_t stk__alloc_count(void);

/* Deliberate faults, in builds with -Dfaults=true: the Nth call of stk__fault with this kind, counted from 0 since the fault was set, returns true, and the
 * caller then fails. In other builds stk__fault always returns false. */
enum stk_fault { STK_FAULT_ALLOC, STK_FAULT_READ, STK_FAULT_THREAD, STK_FAULT_KINDS };
#ifdef STK_FAULTS
bool stk__fault(enum stk_fault kind);
void stk__fault_set(enum stk_fault kind, int64_t nth);      /* nth is negative: no call fails */
void stk__fault_set_from(enum stk_fault kind, int64_t nth); /* the Nth call and all later ones fail, until the fault is set again */
int64_t stk__fault_passed(enum stk_fault kind);
#else
static inline bool stk__fault(enum stk_fault kind)
{
	(void)kind;
	return false;
}
#endif

/* Scratch memory that grows to the size that the largest sample needed. A sample takes memory any number of times, and a reset makes all of it free for the
 * next sample. One thread at a time may use an arena. A sample that does not fit into the block gets further blocks, and the reset replaces them by one block
 * that is large enough for such a sample. After 64 samples in a row that needed
 * less than a quarter of the block, the block is halved, so that one giant image does not occupy memory forever. If there is a limit, a take that would
 * exceed it fails, and `refused` is set. Takes of less than a page (4096 bytes) do not count towards it.
 * Pages of the block that the sample does not use are returned to the system before they and the sample's own memory together exceed the limit. */
struct stk_arena {
	uint8_t *block;
	size_t capacity, used; /* size of the block in bytes, and number of its bytes in use */
	/* numbers of bytes taken from all blocks: now (in_use), at most since the last reset (need), and at most ever (peak) */
	size_t in_use, need, peak;
	size_t limit, charged,
		refused; /* limit 0: no limit; charged: number of bytes charged to the sample; refused: total that the first refused take
			  * would have needed */
	struct stk_arena_extra *extra;
	unsigned calm; /* number of samples in a row that needed less than a quarter of the block */
};

void stk__arena_init(struct stk_arena *a);
void stk__arena_destroy(struct stk_arena *a);
/* Returns memory that is aligned to STK_CACHE_LINE, with undefined contents. STK_ARENA_SLACK bytes past the end are readable and writable too, so that SIMD
 * loops need no tail. NULL: memory is short, or the limit would be exceeded. */
#define STK_ARENA_SLACK 64
void *stk__arena_take(struct stk_arena *a, size_t size);
/* Like stk__arena_take, but does not count the memory towards the limit. NULL: memory is short. For memory that the same sample needs in one run and not in
 * another. If it counted, the sample would sometimes be within the limit and sometimes over it. */
void *stk__arena_take_uncounted(struct stk_arena *a, size_t size);

/* Returns the maximum number of bytes that an arena uses for a take of `size` bytes. */
static inline size_t stk__scratch_bytes(size_t size)
{
	return size + STK_ARENA_SLACK + STK_CACHE_LINE;
}

/* Returns whether the address is in memory that was taken from the arena, so that readable slack follows. */
bool stk__arena_holds(const struct stk_arena *a, const void *p);

/* Begins the account of a sample: until the next call, at most `limit` bytes may be taken and charged together; 0: no limit. */
void stk__arena_limit(struct stk_arena *a, size_t limit);
/* Returns whether `size` more bytes are within the limit; if not, stores the total in `refused`. */
bool stk__arena_allows(struct stk_arena *a, size_t size);
/* Counts memory that is allocated elsewhere towards the limit. Returns false and counts nothing if that would exceed the limit. */
bool stk__arena_charge(struct stk_arena *a, size_t size);
void stk__arena_discharge(struct stk_arena *a, size_t size);
/* Returns the number of bytes that may still be taken; SIZE_MAX without a limit. */
size_t stk__arena_left(const struct stk_arena *a);

/* For memory outside of arenas: returns true if STK_ARENA_SLACK bytes from `end` on can be read without a fault, because they are on the same page as the
 * last byte before `end`. Always false under sanitizers, which check allocations and not pages. */
bool stk__readable_past(const void *end);
/* Releases all memory that was taken, for the next sample. */
void stk__arena_reset(struct stk_arena *a);

/* A mark of the memory in use, for nested use: stk__arena_release releases all memory taken since the mark, and resets the arena if none was in use then. */
struct stk_arena_mark {
	size_t used, in_use, charged;
	struct stk_arena_extra *extra;
};
struct stk_arena_mark stk__arena_mark(const struct stk_arena *a);
void stk__arena_release(struct stk_arena *a, struct stk_arena_mark mark);

#endif
