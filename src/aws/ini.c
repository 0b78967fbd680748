/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads AWS's profile files. They are a few lines long and rarely read, so each query parses the text again. */
#include "aws/aws.h"

#include "base/memory.h"

#include <string.h>
#include <strings.h>

struct span {
	const char *s;
	size_t n;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct span trim(struct span a)
{
	while (a.n && is_blank(a.s[0])) {
		a.s++;
		a.n--;
	}
	while (a.n && is_blank(a.s[a.n - 1]))
		a.n--;
	return a;
}

static bool is(struct span a, const char *text)
{
	return a.n == strlen(text) && memcmp(a.s, text, a.n) == 0;
}

/* Returns whether `a` is the name of this setting, in capitals or small letters, as AWS's tools read it. */
static bool is_setting(struct span a, const char *name)
{
	return a.n == strlen(name) && strncasecmp(a.s, name, a.n) == 0;
}

static struct span unquote(struct span a)
{
	const bool quoted = a.n > 1 && (a.s[0] == '"' || a.s[0] == '\'') && a.s[a.n - 1] == a.s[0];
	return quoted ? (struct span){a.s + 1, a.n - 2} : a;
}

/* Returns the text after the byte order mark with which some editors begin a file. */
static const char *skip_mark(const char *text)
{
	return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}

/* Sets *line to the next line of the text, without its end, and moves *text to the line after it. Returns false at the end of the text. */
static bool next_line(const char **text, struct span *line)
{
	if (!**text)
		return false;
	size_t n = strcspn(*text, "\n");
	*line = (struct span){*text, n};
	*text += n + ((*text)[n] == '\n');
	return true;
}

/* Returns whether a line begins the section. The name after the section's kind may be in quotes, as in [profile "my name"]. [profile default] is the section
 * "default". */
static bool is_section(struct span line, const char *section)
{
	struct span a = trim(line);
	const char *end = a.n > 1 && a.s[0] == '[' ? memchr(a.s, ']', a.n) : NULL;
	if (!end)
		return false;
	a = trim((struct span){a.s + 1, (size_t)(end - a.s) - 1});
	if (is(a, section))
		return true;
	if (strcmp(section, "default") == 0)
		section = "profile default";
	const size_t kind = strcspn(section, " ");
	if (!section[kind] || a.n <= kind || memcmp(a.s, section, kind) != 0 || !is_blank(a.s[kind]))
		return false;
	return is(unquote(trim((struct span){a.s + kind, a.n - kind})), section + kind + 1);
}

bool stk__ini_has(const char *text, const char *section)
{
	text = skip_mark(text);
	for (struct span line; next_line(&text, &line);)
		if (is_section(line, section))
			return true;
	return false;
}

static char *copy(struct span a)
{
	char *s = stk__alloc(a.n + 1);
	if (s) {
		memcpy(s, a.s, a.n);
		s[a.n] = 0;
	}
	return s;
}

char *stk__ini_find(const char *text, const char *section, const char *parent, const char *key)
{
	bool inside = false, in_subsection = false;
	text = skip_mark(text);
	for (struct span line; next_line(&text, &line);) {
		struct span a = trim(line);
		if (!a.n || a.s[0] == '#' || a.s[0] == ';')
			continue;
		if (a.s[0] == '[') {
			inside = is_section(a, section);
			in_subsection = false;
			continue;
		}
		const char *equals = memchr(a.s, '=', a.n);
		if (!inside || !equals)
			continue;
		struct span name = trim((struct span){a.s, (size_t)(equals - a.s)});
		struct span value = trim((struct span){equals + 1, a.n - (size_t)(equals - a.s) - 1});
		bool indented = is_blank(line.s[0]);
		if (!indented)
			in_subsection = parent && is_setting(name, parent) && !value.n;
		if (indented == (parent != NULL) && (!parent || in_subsection) && is_setting(name, key))
			return copy(value);
	}
	return NULL;
}
