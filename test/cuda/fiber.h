/* SPDX-License-Identifier: Apache-2.0
 * Stacks to switch between. Without a system call where the machine is known: a kernel switches millions of times. */
#ifndef STK_TEST_CUDA_FIBER_H
#define STK_TEST_CUDA_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct fiber {
	void *stack; /* NULL: the thread's own */
	size_t size;
#if defined(__x86_64__)
	void *at;
#else
	ucontext_t context;
#endif
	void *fake; /* AddressSanitizer's */
};

/* The next switch to `f` calls entry(), which never returns, on the stack. */
void fiber_start(struct fiber *f, void (*entry)(void));

/* Leaves `from` for `to`. `from` goes on when `to` switches back to it. */
void fiber_switch(struct fiber *from, struct fiber *to);

/* First thing on a new fiber: `from` is whoever switched to it. */
void fiber_entered(struct fiber *from);

#endif
