/* SPDX-License-Identifier: Apache-2.0
 * Globs on bytes: fnmatch asks the locale at each character, and a million names are matched against a dozen globs. */
#include "format/format.h"

static unsigned char fold(unsigned char c, bool case_sensitive)
{
	return !case_sensitive && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

/* Matches c against the set that begins behind '['; *end is set behind ']'. Without a ']' it is no set: NULL, and '[' stands for itself. */
static bool in_set(const char *set, unsigned char c, bool case_sensitive, const char **end)
{
	bool negated = *set == '!' || *set == '^', found = false;
	const char *p = set + negated;
	for (bool first = true; *p && (first || *p != ']'); first = false) {
		unsigned char low = fold((unsigned char)*p++, case_sensitive), high = low;
		if (p[0] == '-' && p[1] && p[1] != ']') {
			high = fold((unsigned char)p[1], case_sensitive);
			p += 2;
		}
		found |= low <= c && c <= high;
	}
	*end = *p ? p + 1 : NULL;
	return found != negated;
}

/* One element of the glob against one character; the next element on success, else NULL. */
static const char *match_one(const char *glob, unsigned char c, bool case_sensitive)
{
	const char *end = NULL;
	if (*glob == '?')
		return glob + 1;
	if (*glob == '[') {
		bool in = in_set(glob + 1, c, case_sensitive, &end);
		if (end)
			return in ? end : NULL;
	}
	if (*glob == '\\' && glob[1])
		glob++;
	return *glob && fold((unsigned char)*glob, case_sensitive) == c ? glob + 1 : NULL;
}

/* The last star alone is tried again: an earlier one cannot do better. */
bool stk__glob_match(const char *glob, const char *name, bool case_sensitive)
{
	const char *star = NULL, *retry = NULL;
	while (*name) {
		const char *next;
		if (*glob == '*') {
			star = ++glob;
			retry = name;
		} else if ((next = match_one(glob, fold((unsigned char)*name, case_sensitive), case_sensitive))) {
			glob = next;
			name++;
		} else if (star) {
			glob = star;
			name = ++retry;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return !*glob;
}
