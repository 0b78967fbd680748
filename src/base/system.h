/* SPDX-License-Identifier: Apache-2.0
 * Defines functions that the oldest supported C library lacks: Stoker runs with glibc 2.17, and glibc added its own versions of these in 2.25 to 2.30. */
#ifndef STK_BASE_SYSTEM_H
#define STK_BASE_SYSTEM_H

#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

/* The next two functions return -1 and set errno on failure. Without flags stk__preadv2 calls preadv, so that it also works on systems without preadv2, such as
 * emulators of processors. */
static inline ssize_t stk__preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
	return !flags ? preadv(fd, parts, count, offset) : syscall(SYS_preadv2, fd, parts, (long)count, (long)offset, 0L, (long)flags);
}

static inline ssize_t stk__getdents(int folder, void *entries, size_t size)
{
	return syscall(SYS_getdents64, folder, entries, size);
}

/* Overwrites a secret with zeros, with stores that the compiler does not remove although nothing reads the memory afterwards. */
static inline void stk__erase(void *p, size_t size)
{
	memset(p, 0, size);
	__asm__ volatile("" ::"r"(p) : "memory");
}

#endif
