/* SPDX-License-Identifier: Apache-2.0 */
#include "base/safe_text.h"

#include <stoker/status.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void cut_out(char *from, const char *to)
{
	memmove(from, to, strlen(to) + 1);
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Returns the number of bytes from `s` to the end of a word in a message. Quotation marks and < > are part of the word if a letter, a digit or one of @%&=+
 * follows, since a password may contain them. */
static size_t word_size(const char *s)
{
	size_t n = 0;
	for (;; n++) {
		n += strcspn(s + n, " \t\r\n\"'<>`");
		const char mark = s[n], next = mark ? s[n + 1] : '\0';
		if (!mark || strchr(" \t\r\n", mark) || !(is_letter(next) || is_digit(next) || (next && strchr("@%&=+", next))))
			return n;
	}
}

/* Returns the size of the word at `s` without the punctuation marks at its end. */
static size_t word_without_marks(const char *s)
{
	size_t n = word_size(s);
	while (n && strchr(",:;.)", s[n - 1]))
		n--;
	return n;
}

/* ---- URLs ---- */

/* Returns whether ? and # may be part of a name in URIs of this scheme. */
static bool has_plain_keys(const char *scheme, size_t n)
{
	static const char *const schemes[] = {"s3", "s3list", "gs", "gslist", "file"};
	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
		if (strlen(schemes[i]) == n && strncasecmp(scheme, schemes[i], n) == 0)
			return true;
	return false;
}

/* Returns the text after the first colon, plain or encoded, among the first `n` bytes; NULL if there is no colon. */
static const char *after_colon(const char *host, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (host[i] == ':')
			return host + i + 1;
		if (strncasecmp(host + i, "%3A", 3) == 0)
			return host + i + 3;
	}
	return NULL;
}

/* Text of more bytes than this before the first slash is not a host or bucket, but credentials whose @ was cut off with the end of a long URL. */
enum { NO_HOST = 180 };

/* Returns the offset at which credentials before a host or bucket end: after the last @ in the first `look` bytes. In the first `authority` bytes an encoded @
 * (%40) counts like a plain one, and after them only if no other @ was found. Without any @ returns 0, or the size of the whole word if `look` is above
 * NO_HOST. */
static size_t find_user_end(const char *host, size_t look, size_t authority)
{
	size_t end = 0, encoded = 0;
	for (size_t i = 0; i < look; i++) {
		if (host[i] == '@')
			end = i + 1;
		else if (strncasecmp(host + i, "%40", 3) == 0) {
			encoded = i + 3;
			end = i < authority ? encoded : end;
		}
	}
	if (!end && !encoded && look > NO_HOST)
		return word_size(host);
	return end ? end : encoded;
}

/* Finds credentials "user:password@" at `host` whose password contains spaces. They are assumed if the first word has a colon that no port follows, has no
 * credentials of its own, and does not end with a punctuation mark, and if the line has an @ after the word, before the next URL. Returns the offset after this
 * @, or 0 if there are no such credentials. is_bucket: digits after the colon are not a port. */
static size_t find_user_with_spaces(const char *host, bool is_bucket)
{
	const size_t n = word_size(host), slash = strcspn(host, "/?#"), authority = slash < n ? slash : n;
	const char *secret = *host == '[' ? NULL : after_colon(host, authority);
	if (!secret || word_without_marks(host) < n || find_user_end(host, n, authority) ||
		(!is_bucket && strspn(secret, "0123456789") >= (size_t)(host + authority - secret)))
		return 0;
	const size_t at = n + strcspn(host + n, "@\n");
	const char *next = strstr(host, "://");
	return host[at] == '@' && !(next && next < host + at) ? at + 1 : 0;
}

/* Removes "user:password@" at `host`, and also "user@" if `any` is set. A password may contain a slash, at which the host then seems to end. If so, the text
 * between colon and slash is not a port, and the @ is searched for in the whole word. */
static void remove_user(char *host, bool any)
{
	static const char advice[] = "NAME:PASSWORD@"; /* begins the advice in Stoker's own message about proxies */
	if (strncmp(host, advice, sizeof advice - 1) == 0)
		return;
	const size_t n = word_size(host);
	size_t authority = strcspn(host, "/?#");
	authority = authority < n ? authority : n;
	const char *port = *host == '[' ? NULL : after_colon(host, authority);
	const bool is_port = port && strspn(port, "0123456789") == (size_t)(host + authority - port);
	const size_t look = port && !is_port && authority < n ? n : authority;
	if (any || port)
		cut_out(host, host + find_user_end(host, look, authority));
}

/* Removes credentials that a user has written before a bucket's name: all up to an @ before the first slash. An @ after the slash belongs to an object's key
 * and stays, unless there is a colon before the slash, which few stores allow in names: then the @ may end a secret that contains slashes. */
static void remove_user_of_bucket(char *bucket)
{
	const size_t n = word_size(bucket), slash = strcspn(bucket, "/"), authority = slash < n ? slash : n;
	const size_t look = after_colon(bucket, authority) ? n : authority;
	cut_out(bucket, bucket + find_user_end(bucket, look, authority));
}

/* Returns the offset of the query or the fragment, or n if the URL has neither. */
static size_t find_query(const char *url, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (url[i] == '?' || url[i] == '#' || strncasecmp(url + i, "%3F", 3) == 0)
			return i;
	return n;
}

static void clean_urls(char *text)
{
	for (char *at = text; (at = strstr(at, "://")); at += 3) {
		const char *scheme = at;
		while (scheme > text && (is_letter(scheme[-1]) || is_digit(scheme[-1]) || strchr("+-.", scheme[-1])))
			scheme--;
		if (scheme == at)
			continue;
		while (scheme < at && !is_letter(*scheme)) /* "--http://h" is an option of a command */
			scheme++;
		char *host = at + 3;
		const bool plain_keys = has_plain_keys(scheme, (size_t)(at - scheme));
		if (plain_keys && strncasecmp(scheme, "file", 4) == 0)
			continue;
		cut_out(host, host + find_user_with_spaces(host, plain_keys));
		if (plain_keys) {
			remove_user_of_bucket(host);
			continue;
		}
		remove_user(host, strncasecmp(scheme, "http", 4) == 0);
		const size_t n = word_without_marks(host);
		cut_out(host + find_query(host, n), host + n);
	}
}

/* ---- parameters ---- */

/* Returns whether the character before the name, plain or encoded, separates parameters of a query or form (? & ;) or words in a parameter's name (- _). */
static bool begins_parameter(const char *text, const char *name)
{
	if (name == text)
		return false;
	if (strchr("?&;-_", name[-1]))
		return true;
	return name - text >= 3 &&
	       (strncasecmp(name - 3, "%26", 3) == 0 || strncasecmp(name - 3, "%3F", 3) == 0 || strncasecmp(name - 3, "%2D", 3) == 0);
}

/* Returns the size of the "=" after a name, which URLs may encode once or twice; 0: another character follows. */
static size_t equals_size(const char *s)
{
	return *s == '=' ? 1 : strncasecmp(s, "%3D", 3) == 0 ? 3 : strncasecmp(s, "%253D", 5) == 0 ? 5 : 0;
}

static void clean_parameters(char *text)
{
	static const char *const names[] = {
		"signature", "security-token", "credential", "token", "password", "passwd", "secret", "sig", "accesskeyid"};
	for (char *at = text; *at; at++) {
		for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
			const size_t n = strlen(names[i]), equals = strncasecmp(at, names[i], n) == 0 ? equals_size(at + n) : 0;
			if (!equals || !begins_parameter(text, at))
				continue;
			char *value = at + n + equals;
			const size_t most = word_without_marks(value);
			size_t size = 0;
			while (size < most && value[size] != '&' && value[size] != ';' && strncasecmp(value + size, "%26", 3) != 0)
				size++;
			cut_out(value, value + size);
		}
	}
}

/* ---- control characters ---- */

/* Returns the size of the character at s if it cannot control a terminal, otherwise 0. Invalid UTF-8 counts as one plain byte, except for bytes that control
 * 8-bit terminals. */
static size_t plain_character(const unsigned char *s)
{
	if (*s < 0x80)
		return *s >= ' ' && *s != 0x7f;
	const size_t n = *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : *s >= 0xc2 ? 2 : 0;
	bool complete = n > 0;
	for (size_t i = 1; i < n && complete; i++)
		complete = (s[i] & 0xc0) == 0x80;
	if (!complete)
		return *s >= 0xa0;
	return *s == 0xc2 && s[1] < 0xa0 ? 0 : n;
}

static bool is_plain(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	for (size_t n; *s; s += n)
		if (!(n = plain_character(s)))
			return false;
	return true;
}

static void escape(char *text, size_t capacity)
{
	enum { LONGEST = 8192 };
	char out[LONGEST] = "";
	const size_t limit = capacity < sizeof out ? capacity : sizeof out;
	size_t used = 0;
	for (const unsigned char *s = (const unsigned char *)text; *s && used + 5 < limit;) {
		const size_t n = plain_character(s);
		if (n)
			memcpy(out + used, s, n);
		used += n ? n : (size_t)snprintf(out + used, 5, *s == '\n' ? "\\n" : "\\x%02x", *s);
		s += n ? n : 1;
	}
	memcpy(text, out, used);
	text[used] = '\0';
}

void stk_text_make_safe(char *text, size_t capacity)
{
	if (text && capacity)
		stk__safe_text(text, capacity);
}

void stk__safe_text(char *text, size_t capacity)
{
	if (strstr(text, "://"))
		clean_urls(text);
	if (strchr(text, '=') || strchr(text, '%'))
		clean_parameters(text);
	if (!is_plain(text))
		escape(text, capacity);
}
