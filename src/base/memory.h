/* SPDX-License-Identifier: Apache-2.0
 * Memory: the library's only doors to the allocator, so that fault loops can close them and counters can watch them; and the arena that
 * gives each worker its scratch. */
#ifndef STK_BASE_MEMORY_H
#define STK_BASE_MEMORY_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STK_CACHE_LINE 64

/* NULL when memory is short. stk__alloc aligns to STK_CACHE_LINE; stk__calloc is zeroed; both take size 0. Free with stk__free. */
void *stk__alloc(size_t size) __attribute__((malloc));
void *stk__calloc(size_t count, size_t size) __attribute__((malloc));
void *stk__realloc(void *p, size_t size);
char *stk__strdup(const char *s);
void stk__free(void *p);

/* Memory for what is large and lives long (slots, bytes read ahead, data sets): zeroed, taken from the system and given back to it at once, unlike
 * what malloc would keep; in huge pages where one fits and the system has them. Aligned to a page. NULL when memory is short. stk__unmap takes NULL. */
void *stk__map(size_t size);
void stk__unmap(void *p, size_t size);

/* Calls of the functions above since the process started; tests show that a warm pipeline adds none. */
uint64_t stk__alloc_count(void);

/* Faults on purpose, in builds with -Dfaults=true: the Nth passage through a point of this kind fails. Elsewhere it is a constant false. */
enum stk_fault { STK_FAULT_ALLOC, STK_FAULT_READ, STK_FAULT_THREAD, STK_FAULT_KINDS };
#ifdef STK_FAULTS
bool stk__fault(enum stk_fault kind);
void stk__fault_set(enum stk_fault kind, int64_t nth);      /* nth < 0: never */
void stk__fault_set_from(enum stk_fault kind, int64_t nth); /* the Nth and all after it fail, until it is set again */
int64_t stk__fault_passed(enum stk_fault kind);
#else
static inline bool stk__fault(enum stk_fault kind)
{
	(void)kind;
	return false;
}
#endif

/* Scratch that grows to what the largest sample needed and is reused for the next: take, take, reset. One owner at a time.
 *
 * A sample that does not fit takes further blocks; on reset they are joined into one block of the same total, and after `calm` samples in a
 * row that needed less than a quarter of it the block shrinks, so that one giant image does not hold memory for ever.
 *
 * With a limit, a take that would pass it fails and is remembered in `refused`. Takes of less than a page are not counted, so that what a sample needs
 * does not depend on what else its chain does. Memory kept from earlier samples counts as well: it is given back to the system before it could exceed
 * the limit together with the sample's own. */
struct stk_arena {
	uint8_t *block;
	size_t capacity, used;          /* of the block */
	size_t in_use, need, peak;      /* bytes: now; most since the last reset; most ever */
	size_t limit, charged, refused; /* limit 0: none; bytes on the sample's account; what the first refused take needed in all */
	struct stk_arena_extra *extra;
	unsigned calm;
};

void stk__arena_init(struct stk_arena *a);
void stk__arena_destroy(struct stk_arena *a);
/* Aligned to STK_CACHE_LINE, contents undefined, readable and writable STK_ARENA_SLACK bytes past the end so that SIMD loads need no tail. */
#define STK_ARENA_SLACK 64
void *stk__arena_take(struct stk_arena *a, size_t size);

/* True if the address lies in memory that was taken from the arena, which has slack behind it. */
bool stk__arena_holds(const struct stk_arena *a, const void *p);

/* Begins a sample's account: from here to the next call at most `limit` bytes are taken and charged; 0: any number. */
void stk__arena_limit(struct stk_arena *a, size_t limit);
/* True where `size` more bytes are within the limit; false is remembered in `refused`. */
bool stk__arena_allows(struct stk_arena *a, size_t size);
/* Counts memory that is taken elsewhere towards the limit. False: it would pass it, and nothing is counted. */
bool stk__arena_charge(struct stk_arena *a, size_t size);
void stk__arena_discharge(struct stk_arena *a, size_t size);
/* Bytes that may still be taken; SIZE_MAX without a limit. */
size_t stk__arena_left(const struct stk_arena *a);

/* For memory that is not of an arena: true if STK_ARENA_SLACK bytes past `end` can be read without a fault, since they lie on the page of the
 * last byte before it. Never under sanitizers, which watch allocations and not pages. */
bool stk__readable_past(const void *end);
void stk__arena_reset(struct stk_arena *a);

/* Gives back what was taken since the mark (nested use). When nothing else is in use, that is a reset. */
struct stk_arena_mark {
	size_t used, in_use, charged;
	struct stk_arena_extra *extra;
};
struct stk_arena_mark stk__arena_mark(const struct stk_arena *a);
void stk__arena_release(struct stk_arena *a, struct stk_arena_mark mark);

#endif
