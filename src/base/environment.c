/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environment.h"

#include "base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The environment variables that Stoker reads. A value must be one of `words`, or a whole number from 0 to `most`; if neither is set, any text is valid. */
static const struct setting {
	const char *name;
	int64_t most;
	const char *words[4];
} settings[] = {
	{"STOKER_AFFINITY", .words = {"0", "1"}}, {"STOKER_CPU", .words = {"c"}}, {"STOKER_DECODE", .words = {"auto", "gpu", "cores"}},
	{"STOKER_FUSE", .words = {"0", "1"}}, {"STOKER_JPEG", .words = {"libjpeg-turbo", "stoker"}},
	{"STOKER_MAX_IMAGE_SIZE", .most = INT64_MAX}, {"STOKER_MAX_JPEG_SCANS", .most = INT32_MAX}, {"STOKER_POISON", .most = UINT8_MAX},
	{"STOKER_QUIET", .words = {"0", "1"}}, /* read by the Python package */
	{"STOKER_TOP", .words = {"0", "1"}},
	{"STOKER_S3_ADDRESSING"}, /* the storage layer checks its values, since a profile can contain them too */
};
enum { KNOWN = sizeof settings / sizeof *settings };

/* Variables of tests and tools, or prefixes of their names. */
static const char *const tools[] = {
	"STOKER_ASSIGNMENT", "STOKER_BUILD", "STOKER_EMULATED", "STOKER_FUZZ", "STOKER_LONG", "STOKER_MOTO", "STOKER_TEST", "STOKER_TIDY"};

static const char *next_known(const void *from, size_t i)
{
	(void)from;
	return i < KNOWN ? settings[i].name : NULL;
}

static bool is_known(const char *entry)
{
	const size_t n = strcspn(entry, "=");
	for (size_t i = 0; i < KNOWN; i++)
		if (strlen(settings[i].name) == n && strncmp(settings[i].name, entry, n) == 0)
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

static enum stk_status check_word(const struct setting *s, const char *value, struct stk_error *err)
{
	struct stk_text valid = {0};
	for (size_t i = 0; s->words[i]; i++) {
		if (strcmp(value, s->words[i]) == 0)
			return STK_OK;
		stk__text_add(&valid, "%s%s", i ? " or " : "", s->words[i]);
	}
	enum stk_status status = stk__fail(
		err, STK_INVALID, "the environment variable %s is \"%.40s\"; it can be %s", s->name, value, valid.s ? valid.s : "");
	stk__text_free(&valid);
	return status;
}

static enum stk_status check_number(const struct setting *s, const char *value, struct stk_error *err)
{
	char *end;
	errno = 0;
	const long long number = strtoll(value, &end, 10);
	const bool digits = value[strspn(value, "0123456789")] == '\0'; /* strtoll would also accept blanks and signs */
	if (digits && errno == 0 && *end == '\0' && number <= s->most)
		return STK_OK;
	return stk__fail(err, STK_INVALID, "the environment variable %s is \"%.40s\"; it is a whole number from 0 to %lld, in digits",
		s->name, value, (long long)s->most);
}

enum stk_status stk__environment_check(struct stk_error *err)
{
	enum stk_status status = STK_OK;
	for (size_t i = 0; i < KNOWN && status == STK_OK; i++) {
		const char *value = getenv(settings[i].name);
		if (value && *value && settings[i].words[0])
			status = check_word(&settings[i], value, err);
		else if (value && *value && settings[i].most)
			status = check_number(&settings[i], value, err);
	}
	return status;
}

int64_t stk__environment_number(const char *name)
{
	const char *value = getenv(name);
	return value ? strtoll(value, NULL, 10) : 0;
}
