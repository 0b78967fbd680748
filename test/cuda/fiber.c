/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber.h"

#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER
#endif
#endif

#ifdef ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
/* Saves the registers that a call preserves, and loads those of the other stack. */
void emulated_switch(void **from, void *to);
__asm__(".text\n"
	".type emulated_switch, @function\n"
	"emulated_switch:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size emulated_switch, . - emulated_switch\n");

enum { SAVED = 6 };

void fiber_start(struct fiber *f, void (*entry)(void))
{
	/* A function expects the stack pointer 8 bytes below a multiple of 16, as a call instruction leaves it. */
	uintptr_t *top = (uintptr_t *)(((uintptr_t)f->stack + f->size) & ~(uintptr_t)15);
	*--top = 0;
	*--top = (uintptr_t)entry;
	for (int i = 0; i < SAVED; i++)
		*--top = 0;
	f->at = top;
	f->fake = NULL;
}

static void jump(struct fiber *from, struct fiber *to)
{
	emulated_switch(&from->at, to->at);
}
#else
void fiber_start(struct fiber *f, void (*entry)(void))
{
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = f->size;
	f->context.uc_link = NULL;
	makecontext(&f->context, entry, 0);
	f->fake = NULL;
}

static void jump(struct fiber *from, struct fiber *to)
{
	swapcontext(&from->context, &to->context);
}
#endif

#ifdef ADDRESS_SANITIZER
static void arrive(void *fake, struct fiber *from)
{
	const void *stack;
	__sanitizer_finish_switch_fiber(fake, &stack, &from->size);
	from->stack = (void *)(uintptr_t)stack;
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
	__sanitizer_start_switch_fiber(&from->fake, to->stack, to->size);
	jump(from, to);
	arrive(from->fake, to); /* the stack may belong to another thread now */
}

void fiber_entered(struct fiber *from)
{
	arrive(NULL, from);
}
#else
void fiber_switch(struct fiber *from, struct fiber *to)
{
	jump(from, to);
}

void fiber_entered(struct fiber *from)
{
	(void)from;
}
#endif
