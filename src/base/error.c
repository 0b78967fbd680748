/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include "base/safe_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *text;
} statuses[] = {
#define STATUS_ROW(name, text) {#name, text},
	STK_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

const char *stk_status_name(enum stk_status status)
{
	return (unsigned)status < sizeof statuses / sizeof *statuses ? statuses[status].name : "UNKNOWN";
}

const char *stk_status_text(enum stk_status status)
{
	return (unsigned)status < sizeof statuses / sizeof *statuses ? statuses[status].text : "unknown status";
}

/* Size in bytes of the buffer in which secrets are removed from a text. This happens before the text is cut to fit struct stk_error, because a password is
 * recognised by the @ after it, which the cut could remove. */
enum { LONGEST = 8192 };

static void set_error(struct stk_error *err, enum stk_status code, bool missing, const char *fmt, va_list ap)
{
	*err = (struct stk_error){.code = code, .missing = missing, .sample = -1, .epoch = -1, .offset = -1};
	char text[LONGEST];
	vsnprintf(text, sizeof text, fmt, ap);
	stk__safe_text(text, sizeof text);
	snprintf(err->message, sizeof err->message, "%.*s", (int)sizeof err->message - 1, text);
}

enum stk_status stk__fail(struct stk_error *err, enum stk_status code, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		set_error(err, code, false, fmt, ap);
		va_end(ap);
	}
	return code;
}

enum stk_status stk__fail_missing(struct stk_error *err, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		set_error(err, STK_NOT_FOUND, true, fmt, ap);
		va_end(ap);
	}
	return STK_NOT_FOUND;
}

enum stk_status stk__fail_again(struct stk_error *err, enum stk_status code, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		set_error(err, code, err->missing, fmt, ap);
		va_end(ap);
	}
	return code;
}

enum stk_status stk__fail_memory_limit(struct stk_error *err, size_t need, size_t limit)
{
	return stk__fail(err, STK_LIMIT,
		"it takes at least %zu bytes of memory, over memory_limit, %zu bytes; raise that, or leave such samples out "
		"(on_error=\"skip\")",
		need, limit);
}

static enum stk_status status_of_errno(int errnum)
{
	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
		return STK_NOT_FOUND;
	case ENOMEM:
		return STK_NO_MEMORY;
	default:
		return STK_IO;
	}
}

enum stk_status stk__need(const char *function, const char *names, const void *const *pointers, size_t n, struct stk_error *err)
{
	for (size_t i = 0; i < n; i++) {
		const size_t length = strcspn(names, ",");
		if (!pointers[i])
			return stk__fail(err, STK_INVALID, "%s: %.*s is NULL", function, (int)length, names);
		names += length + (names[length] == ',');
		names += strspn(names, " ");
	}
	return STK_OK;
}

enum stk_status stk__fail_errno(struct stk_error *err, int errnum, const char *fmt, ...)
{
	enum stk_status code = status_of_errno(errnum);
	if (err) {
		char text[128];
		va_list ap;
		va_start(ap, fmt);
		set_error(err, code, code == STK_NOT_FOUND, fmt, ap);
		va_end(ap);
		size_t n = strlen(err->message);
		snprintf(err->message + n, sizeof err->message - n, ": %s", strerror_r(errnum, text, sizeof text));
	}
	return code;
}

int stk__uri_shown(const char *uri)
{
	size_t scheme = strncmp(uri, "http://", 7) == 0 ? 7 : strncmp(uri, "https://", 8) == 0 ? 8 : 0;
	if (!scheme)
		return (int)strlen(uri);
	bool user = uri[scheme + strcspn(uri + scheme, "/?#@")] == '@';
	return (int)(user ? scheme : strcspn(uri, "?#"));
}

bool stk__names_file(const char *message, const char *name)
{
	const bool word = !strpbrk(name, "./");
	const size_t n = strlen(name);
	for (const char *match = strstr(message, name); match; match = strstr(match + 1, name)) {
		const bool begins = match == message || match[-1] == ' ' || match[-1] == '"';
		if (!word || (begins && (match[n] == ':' || match[n] == '"')))
			return true;
	}
	return false;
}

void stk__error_set_op(struct stk_error *err, const char *op)
{
	if (err && !err->op[0])
		snprintf(err->op, sizeof err->op, "%s", op);
}

void stk__error_set_sample(struct stk_error *err, const char *uri, int64_t epoch, int64_t sample)
{
	if (!err)
		return;
	char shown[LONGEST];
	if (err->uri[0])
		snprintf(shown, sizeof shown, "%s", err->uri);
	else
		snprintf(shown, sizeof shown, "%.*s", stk__uri_shown(uri), uri);
	if (strstr(shown, "://"))
		stk__safe_text(shown, sizeof shown);
	snprintf(err->uri, sizeof err->uri, "%.*s", (int)sizeof err->uri - 1, shown);
	if (err->sample < 0) {
		err->epoch = epoch;
		err->sample = sample;
	}
}
