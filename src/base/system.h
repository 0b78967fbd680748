/* SPDX-License-Identifier: Apache-2.0
 * What the kernel has long had and the C library has not: glibc 2.17 is the oldest that runs Stoker, and these came with 2.25 to 2.30. */
#ifndef STK_BASE_SYSTEM_H
#define STK_BASE_SYSTEM_H

#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

/* preadv2 and getdents64: -1 with errno on failure. Without flags any system reads, also one that has no preadv2, as emulators of processors. */
static inline ssize_t stk__preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
	return !flags ? preadv(fd, parts, count, offset) : syscall(SYS_preadv2, fd, parts, (long)count, (long)offset, 0L, (long)flags);
}

static inline ssize_t stk__getdents(int folder, void *entries, size_t size)
{
	return syscall(SYS_getdents64, folder, entries, size);
}

/* Zeroes what is secret, also where nothing reads it afterwards. */
static inline void stk__erase(void *p, size_t size)
{
	memset(p, 0, size);
	__asm__ volatile("" ::"r"(p) : "memory");
}

#endif
