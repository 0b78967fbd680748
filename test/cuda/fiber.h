/* SPDX-License-Identifier: Apache-2.0
 * Fibers: stacks that a thread switches between. A kernel switches millions of times, so on x86-64 a switch makes no system call. Other processors use
 * ucontext, whose switch makes one. */
#ifndef STK_TEST_CUDA_FIBER_H
#define STK_TEST_CUDA_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct fiber {
	void *stack; /* the fiber's stack of `size` bytes; NULL if the fiber is the thread itself */
	size_t size;
#if defined(__x86_64__)
	void *at;
#else
	ucontext_t context;
#endif
	void *fake; /* AddressSanitizer's fake stack */
};

/* Prepares `f`: the next switch to it calls entry() on its stack. entry() must not return. */
void fiber_start(struct fiber *f, void (*entry)(void));

/* Switches from `from` to `to`. The call returns when another fiber switches back to `from`. */
void fiber_switch(struct fiber *from, struct fiber *to);

/* Every new fiber calls this first; `from` is the fiber that switched to it. */
void fiber_entered(struct fiber *from);

#endif
