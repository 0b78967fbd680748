/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environment.h"

#include "base/text.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Those for users come first; the rest belong to tests and tools, or are prefixes of such. */
static const char *const known[] = {"STOKER_AFFINITY", "STOKER_CPU", "STOKER_FUSE", "STOKER_JPEG", "STOKER_MAX_IMAGE_SIZE",
	"STOKER_MAX_JPEG_SCANS", "STOKER_POISON", "STOKER_PROGRESSIVE", "STOKER_S3_ADDRESSING", NULL};
static const char *const tools[] = {"STOKER_ASSIGNMENT", "STOKER_BENCH", "STOKER_BUILD", "STOKER_EMULATED", "STOKER_FUZZ", "STOKER_LONG",
	"STOKER_MOTO", "STOKER_PYTHON", "STOKER_TEST", "STOKER_TIDY"};

static const char *next_known(const void *from, size_t i)
{
	(void)from;
	return known[i];
}

static bool is_known(const char *entry)
{
	const size_t n = strcspn(entry, "=");
	for (size_t i = 0; known[i]; i++)
		if (strlen(known[i]) == n && strncmp(known[i], entry, n) == 0)
			return true;
	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
		if (strncmp(tools[i], entry, strlen(tools[i])) == 0)
			return true;
	return false;
}

const char *stk__environment_unknown(size_t i, const char **meant)
{
	for (char **e = environ; e && *e; e++) {
		if (strncmp(*e, "STOKER_", 7) || is_known(*e) || i-- > 0)
			continue;
		char name[64] = "";
		const size_t n = strcspn(*e, "=");
		memcpy(name, *e, n < sizeof name ? n : sizeof name - 1);
		*meant = stk__nearest(name, next_known, NULL);
		return *e;
	}
	return NULL;
}
