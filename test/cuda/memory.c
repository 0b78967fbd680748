/* SPDX-License-Identifier: Apache-2.0
 * Device memory. It has its own range of addresses, in which each allocation gets new pages or, with `adjacent`, the next bytes. Also pinned host memory, which
 * has its own range with `adjacent`. */
#include "emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISON
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON
#endif
#endif
#ifdef POISON
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

enum { PAGE = 4096, ALIGN = 256, ADJACENT = 512, JUNK = 0xcd, JUNK_MOST = 16 << 20 };
#define RANGE ((size_t)1 << 38)

struct block {
	uint8_t *at;
	size_t size;
	int device;    /* -1 for pinned host memory */
	bool adjacent; /* placed without a gap, so that it may share its first and last page with other allocations */
};

struct range {
	uint8_t *base;
	size_t taken;
};

static struct {
	struct range device, pinned;
	struct block *blocks;
	size_t count, room;
	int users; /* number of calls of emulated_open_memory for which emulated_close_memory was not called yet */
} memory;

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Returns the address of a block's first page. */
static uint8_t *pages_of(const struct block *b)
{
	return (uint8_t *)((uintptr_t)b->at / PAGE * PAGE);
}

static size_t pages_size(const struct block *b)
{
	return round_up((size_t)(b->at - pages_of(b)) + b->size, PAGE);
}

static void protect(const struct block *b, int how)
{
	if (b->device >= 0 && mprotect(pages_of(b), pages_size(b), how)) {
		perror("emulated CUDA: mprotect");
		abort();
	}
}

static void add_block(struct block b)
{
	if (memory.count == memory.room) {
		memory.room = memory.room ? 2 * memory.room : 64;
		memory.blocks = realloc(memory.blocks, memory.room * sizeof *memory.blocks);
	}
	memory.blocks[memory.count++] = b;
}

static struct block *find_block(uint64_t at, size_t size, bool pinned)
{
	for (size_t i = 0; i < memory.count; i++) {
		struct block *b = &memory.blocks[i];
		uint64_t begin = (uintptr_t)b->at;
		if ((b->device < 0) == pinned && at >= begin && at - begin < b->size && size <= b->size - (at - begin))
			return b;
	}
	return NULL;
}

bool emulated_on_device(uint64_t at, size_t size)
{
	return find_block(at, size, false) != NULL;
}

bool emulated_is_pinned(const void *at, size_t size)
{
	return find_block((uintptr_t)at, size, true) != NULL;
}

size_t emulated_memory_left(int device)
{
	return driver.devices[device].used;
}

static int access_now(void)
{
	return memory.users > 0 || driver.options.open ? PROT_READ | PROT_WRITE : PROT_NONE;
}

void emulated_open_memory(void)
{
	emulated_lock();
	if (memory.users++ == 0 && !driver.options.open)
		for (size_t i = 0; i < memory.count; i++)
			protect(&memory.blocks[i], PROT_READ | PROT_WRITE);
	emulated_unlock();
}

void emulated_close_memory(void)
{
	emulated_lock();
	if (--memory.users == 0 && !driver.options.open)
		for (size_t i = 0; i < memory.count; i++)
			protect(&memory.blocks[i], PROT_NONE);
	emulated_unlock();
}

static int take_range(struct range *r, int access)
{
	if (r->base)
		return CUDA_OK;
	void *base = mmap(NULL, RANGE, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	r->base = base == MAP_FAILED ? NULL : base;
	return r->base ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

/* Returns the address of the next allocation: directly after the last one if `adjacent`; else between inaccessible pages, and as close to the end of its
 * last page as alignment allows. */
static uint8_t *next_place(size_t size, bool adjacent)
{
	struct range *r = &memory.device;
	if (!adjacent)
		r->taken = round_up(r->taken, PAGE) + PAGE + round_up(size, PAGE) - round_up(size, ALIGN);
	uint8_t *at = r->base + r->taken;
	r->taken += size;
	if (!adjacent)
		r->taken = round_up(r->taken, PAGE) + PAGE;
	return at;
}

static int place(size_t size, int device, uint64_t *address)
{
	struct driver *d = &driver;
	if (size > d->options.memory || d->devices[device].used > d->options.memory - size ||
		round_up(size, PAGE) + 3 * PAGE > RANGE - memory.device.taken)
		return CUDA_OUT_OF_MEMORY;
	bool adjacent = d->options.adjacent && size % ADJACENT == 0;
	struct block b = {next_place(size, adjacent), size, device, adjacent};
	uint8_t *end = pages_of(&b) + pages_size(&b);
	protect(&b, PROT_READ | PROT_WRITE);
	madvise(pages_of(&b), pages_size(&b), MADV_HUGEPAGE); /* with fewer pages, mprotect is faster */
	if (!adjacent)                                        /* with `adjacent` the bytes before the allocation belong to a neighbour */
		ASAN_POISON_MEMORY_REGION(pages_of(&b), (size_t)(b.at - pages_of(&b)));
	ASAN_POISON_MEMORY_REGION(b.at, (size_t)(end - b.at));
	ASAN_UNPOISON_MEMORY_REGION(b.at, b.size);
	memset(b.at, JUNK, size < JUNK_MOST ? size : JUNK_MOST);
	protect(&b, access_now());
	d->devices[device].used += size;
	add_block(b);
	*address = (uintptr_t)b.at;
	return CUDA_OK;
}

/* Returns the block's pages to the system, except those that other blocks may share. */
static void vacate(const struct block *b)
{
	uintptr_t from = (uintptr_t)b->at / PAGE * PAGE, to = from + pages_size(b);
	ASAN_POISON_MEMORY_REGION(b->at, b->size);
	if (b->adjacent) {
		from = ((uintptr_t)b->at + PAGE - 1) / PAGE * PAGE;
		to = ((uintptr_t)b->at + b->size) / PAGE * PAGE;
	}
	if (from >= to)
		return;
	if (b->device < 0) {
		madvise((void *)from, to - from, MADV_DONTNEED);
		return;
	}
	/* Maps the pages again as if they were never used. The kernel then merges the mapping with its neighbours; a process may only have 65 530 mappings. */
	const int fresh = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
	if (mmap((void *)from, to - from, PROT_NONE, fresh, -1, 0) == MAP_FAILED) {
		perror("emulated CUDA: mmap");
		abort();
	}
}

int cuMemAlloc_v2(uint64_t *address, size_t size)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	result = !size ? CUDA_INVALID_VALUE : take_range(&memory.device, PROT_NONE);
	if (!result)
		result = place(size, device, address);
	emulated_unlock();
	return result;
}

int cuMemFree_v2(uint64_t address)
{
	int device = 0, result = emulated_enter_to_free(__func__, &device);
	if (result)
		return result;
	struct block *b = find_block(address, 0, false);
	if (b && (uintptr_t)b->at == address) {
		emulated_wait_for_device(b->device);
		b = find_block(address, 0, false);
		driver.devices[b->device].used -= b->size;
		vacate(b);
		*b = memory.blocks[--memory.count];
	} else {
		result = CUDA_INVALID_VALUE;
	}
	emulated_unlock();
	return result;
}

int cuMemGetInfo_v2(size_t *available, size_t *total)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	*total = driver.options.memory;
	*available = *total - driver.devices[device].used;
	emulated_unlock();
	return CUDA_OK;
}

static int place_pinned(size_t size, void **address)
{
	struct block b = {.size = size, .device = -1, .adjacent = driver.options.adjacent};
	if (!b.adjacent && posix_memalign((void **)&b.at, PAGE, size))
		return CUDA_OUT_OF_MEMORY;
	if (b.adjacent) {
		size_t pages = round_up(size, PAGE);
		if (take_range(&memory.pinned, PROT_READ | PROT_WRITE) || pages > RANGE - memory.pinned.taken)
			return CUDA_OUT_OF_MEMORY;
		b.at = memory.pinned.base + memory.pinned.taken;
		memory.pinned.taken += pages;
		ASAN_POISON_MEMORY_REGION(b.at + size, pages - size);
	}
	add_block(b);
	*address = b.at;
	return CUDA_OK;
}

int cuMemHostAlloc(void **address, size_t size, unsigned flags)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	if (!size || flags & ~(unsigned)CUDA_HOST_PORTABLE)
		result = CUDA_INVALID_VALUE;
	else
		result = place_pinned(size, address);
	if (!result && driver.options.idle) /* skipped kernels would have written results here: give zeros instead */
		memset(*address, 0, size);
	emulated_unlock();
	return result;
}

int cuMemFreeHost(void *address)
{
	int device = 0, result = emulated_enter_to_free(__func__, &device);
	if (result)
		return result;
	for (int i = 0; i < DEVICES; i++)
		emulated_wait_for_device(i);
	struct block *b = find_block((uintptr_t)address, 0, true);
	if (b && b->at == address) {
		if (b->adjacent)
			vacate(b);
		else
			free(address);
		*b = memory.blocks[--memory.count];
	} else {
		result = CUDA_INVALID_VALUE;
	}
	emulated_unlock();
	return result;
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
	enum { HOST = 1, DEVICE = 2 };
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	bool on_device = emulated_on_device(address, 1);
	if (attribute != CUDA_POINTER_MEMORY_TYPE || (!on_device && !emulated_is_pinned((const void *)address, 1)))
		result = CUDA_INVALID_VALUE;
	else
		*(unsigned *)value = on_device ? DEVICE : HOST;
	emulated_unlock();
	return result;
}

/* ---- copies ---- */

/* Returns whether the range begins in pinned memory and ends outside of it. */
static bool leaves_pinned(const void *at, size_t size)
{
	return emulated_is_pinned(at, 1) && !emulated_is_pinned(at, size);
}

static int copy(const char *function, uint64_t to, uint64_t from, size_t size, void *stream, bool to_device, bool from_device)
{
	int device = 0, result = emulated_enter(function, true, &device);
	if (result)
		return result;
	if (!size) {
		emulated_unlock();
		return CUDA_OK;
	}
	const void *source = (const void *)(uintptr_t)from;
	void *target = (void *)(uintptr_t)to;
	bool staged = !from_device && !emulated_is_pinned(source, size), waits = !to_device && !emulated_is_pinned(target, size);
	struct operation *op = NULL;
	if (to_device != emulated_on_device(to, size) || from_device != emulated_on_device(from, size) || leaves_pinned(source, size) ||
		leaves_pinned(target, size))
		result = CUDA_INVALID_VALUE;
	else if (!(op = emulated_operation(OPERATION_COPY, staged ? size : 0)))
		result = CUDA_OUT_OF_MEMORY;
	if (!result) {
		op->to = target;
		op->from = staged ? memcpy(op->packed, source, size) : source;
		op->size = size;
		if (driver.options.idle) {
			op->kind = OPERATION_FILL;
			op->value = 0;
			op->size = to_device ? 0 : size;
		}
		result = emulated_submit(device, stream, op);
	}
	if (!result && waits)
		result = emulated_wait_for_stream(device, stream);
	emulated_unlock();
	return result;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream)
{
	return copy(__func__, to, (uintptr_t)from, size, stream, true, false);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream)
{
	return copy(__func__, (uintptr_t)to, from, size, stream, false, true);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream)
{
	return copy(__func__, to, from, size, stream, true, true);
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, void *stream)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	struct operation *op = NULL;
	if (!emulated_on_device(to, size) && !driver.options.open)
		result = CUDA_INVALID_VALUE;
	else if (!(op = emulated_operation(OPERATION_FILL, 0)))
		result = CUDA_OUT_OF_MEMORY;
	if (!result) {
		op->to = (void *)(uintptr_t)to;
		op->value = value;
		op->size = size;
		result = emulated_submit(device, stream, op);
	}
	emulated_unlock();
	return result;
}
