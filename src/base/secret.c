/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"

#include "base/memory.h"
#include "base/system.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

/* Each secret has its own mapping, which begins with this struct. */
struct head {
	size_t size; /* size of the mapping in bytes */
	char text[];
};

char *stk__secret_copy(const char *text)
{
	const size_t n = text ? strlen(text) + 1 : 0, size = sizeof(struct head) + n;
	if (!text || stk__fault(STK_FAULT_ALLOC))
		return NULL;
	/* cppcheck-suppress invalidFunctionArg ; MAP_ANONYMOUS wants -1 */
	struct head *h = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (h == MAP_FAILED)
		return NULL;
	madvise(h, size, MADV_DONTDUMP);
	h->size = size;
	return memcpy(h->text, text, n);
}

char *stk__secret_take(char *text)
{
	char *copy = stk__secret_copy(text);
	stk__erase_free(text);
	return copy;
}

void stk__secret_free(char *text)
{
	if (!text)
		return;
	struct head *h = (struct head *)(void *)(text - offsetof(struct head, text));
	const size_t size = h->size;
	stk__erase(h, size);
	munmap(h, size);
}

void stk__erase_free(char *text)
{
	if (text)
		stk__erase(text, strlen(text));
	stk__free(text);
}
