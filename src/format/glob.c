/* SPDX-License-Identifier: Apache-2.0
 * Matches glob patterns on bytes, without fnmatch, which uses the locale for each character: a million names are matched against a dozen patterns. */
#include "format/format.h"

static unsigned char fold(unsigned char c, bool case_sensitive)
{
	return !case_sensitive && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

/* Returns whether c is in the set that begins after '[', and sets *end to the character after ']'. If there is no ']', sets *end to NULL: then '[' is an
 * ordinary character. */
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

/* Matches one element of the pattern against one character. Returns the next element, or NULL if the two do not match. */
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

/* Compares the name from left to right. After a mismatch, the last star takes one more character; an earlier star cannot lead to another result. */
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
