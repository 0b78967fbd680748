/* SPDX-License-Identifier: Apache-2.0
 * Finds the local files that a glob matches. Unlike glob(3), which leaves out what it cannot read, fails if a folder cannot be listed: the files in it would be
 * missing from the data set. */
#include "format/names.h"

#include "base/error.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

struct search {
	const char *glob;
	struct stk_names *found;
	struct stk_error *err;
	char path[PATH_MAX]; /* the part of a match's path that is known so far */
};

/* Appends n bytes to the first `used` bytes of s->path. */
static enum stk_status append(struct search *s, size_t used, const char *text, size_t n)
{
	if (n >= sizeof s->path - used)
		return stk__fail(s->err, STK_INVALID, "%.200s...: the path is too long", s->path);
	memcpy(s->path + used, text, n);
	s->path[used + n] = '\0';
	return STK_OK;
}

static bool is_pattern(const char *part)
{
	for (; *part; part++) {
		if (*part == '\\' && part[1])
			part++;
		else if (strchr("*?[", *part))
			return true;
	}
	return false;
}

/* Removes backslashes that quote the next character. */
static void unquote(char *text)
{
	char *to = text;
	for (; *text; text++) {
		text += *text == '\\' && text[1];
		*to++ = *text;
	}
	*to = '\0';
}

/* Returns STK_OK if the last call failed because s->path does not exist, so that nothing in it can match. Otherwise fails. */
static enum stk_status check_absent(const struct search *s)
{
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
		return STK_OK;
	return stk__fail_errno(s->err, errno,
		"%s: cannot be read, and may hold files that %s matches; let the glob leave it out, as in {a,b}/*.tar",
		*s->path ? s->path : ".", s->glob);
}

static enum stk_status match(struct search *s, size_t used, const char *rest);

/* Continues with `rest`, the part of the glob that follows a name. If it is empty, the path is a match. */
static enum stk_status take_name(struct search *s, size_t used, const char *name, const char *rest)
{
	const size_t n = strlen(name);
	enum stk_status status = append(s, used, name, n);
	if (status)
		return status;
	return *rest ? match(s, used + n, rest) : stk__names_add(s->found, s->path, used + n, s->err);
}

static enum stk_status match_entries(struct search *s, size_t used, const char *part, const char *rest)
{
	DIR *dir = opendir(used ? s->path : ".");
	enum stk_status status = STK_OK;
	const struct dirent *e;
	if (!dir)
		return check_absent(s);
	while (!status && (e = stk__next_entry(dir)))
		if (!fnmatch(part, e->d_name, FNM_PERIOD) && !(*rest && (e->d_type == DT_REG || stk__is_system_folder(e->d_name))))
			status = take_name(s, used, e->d_name, rest);
	s->path[used] = '\0';
	if (!status && errno)
		status = check_absent(s);
	closedir(dir);
	return status;
}

/* Finds the files whose paths begin with the first `used` bytes of s->path and continue as `rest`, a part of the glob. */
static enum stk_status match(struct search *s, size_t used, const char *rest)
{
	char part[4 * NAME_MAX];
	struct stat st;
	const size_t slashes = strspn(rest, "/"), n = strcspn(rest + slashes, "/");
	enum stk_status status = append(s, used, rest, slashes);
	if (!status && n >= sizeof part)
		status = stk__fail(s->err, STK_INVALID, "%.200s...: a part of the pattern is too long", s->glob);
	if (status)
		return status;
	used += slashes;
	rest += slashes;
	memcpy(part, rest, n);
	part[n] = '\0';
	if (is_pattern(part))
		return match_entries(s, used, part, rest + n);
	unquote(part);
	status = append(s, used, part, strlen(part));
	if (!status && lstat(s->path, &st))
		return check_absent(s);
	return status ? status : take_name(s, used, part, rest + n);
}

enum stk_status stk__names_glob(const char *glob, struct stk_names *found, struct stk_error *err)
{
	struct search s = {.glob = glob, .found = found, .err = err};
	return match(&s, 0, glob);
}
