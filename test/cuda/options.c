/* SPDX-License-Identifier: Apache-2.0 */
#include "emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t bytes(const char *text)
{
	char *unit;
	size_t n = strtoull(text, &unit, 10);
	return n << (*unit == 'K' ? 10 : *unit == 'M' ? 20 : *unit == 'G' ? 30 : 0);
}

/* Parses FUNCTION:N, the value of the word fail=. Without :N, the first call fails. */
static void read_fail(struct options *o, const char *text)
{
	const char *colon = strchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	o->fail_at = colon ? strtol(colon + 1, NULL, 10) : 1;
	snprintf(o->fail, sizeof o->fail, "%.*s", (int)n, text);
}

static void read_word(struct options *o, char *word)
{
	char *value = strchr(word, '=');
	if (value)
		*value++ = 0;
	if (strcmp(word, "async") == 0 && !value)
		o->async = true;
	else if (strcmp(word, "idle") == 0 && !value)
		o->idle = true;
	else if (strcmp(word, "named") == 0 && !value)
		o->named = true;
	else if (strcmp(word, "open") == 0 && !value)
		o->open = true;
	else if (strcmp(word, "strict") == 0 && !value)
		o->strict = true;
	else if (strcmp(word, "adjacent") == 0 && !value)
		o->adjacent = true;
	else if (strcmp(word, "seed") == 0 && value)
		o->seed = strtoull(value, NULL, 10);
	else if (strcmp(word, "delay") == 0 && value)
		o->delay = (unsigned)strtoul(value, NULL, 10);
	else if (strcmp(word, "memory") == 0 && value)
		o->memory = bytes(value);
	else if (strcmp(word, "lost") == 0 && value)
		o->lost = strtol(value, NULL, 10);
	else if (strcmp(word, "fail") == 0 && value)
		read_fail(o, value);
	else { /* refused, because a test with a misspelt word would not check what it claims to */
		fprintf(stderr, "emulated CUDA: STOKER_EMULATED_CUDA has an unknown word: %s\n", word);
		abort();
	}
}

void emulated_read_options(struct options *o)
{
	const char *text = getenv("STOKER_EMULATED_CUDA");
	char *copy = strdup(text ? text : ""), *rest = copy, *word;
	*o = (struct options){.delay = 200, .memory = (size_t)8 << 30};
	while ((word = strtok_r(rest, " ,", &rest)))
		read_word(o, word);
	free(copy);
}
