/* SPDX-License-Identifier: Apache-2.0 */
#include "format/s3_page.h"

#include "base/error.h"
#include "io/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct span {
	const char *s;
	size_t n;
};

struct page {
	const char *name;
	bool url; /* true if keys are encoded as in URLs, so that XML can represent any byte */
	struct stk_error *err;
};

static enum stk_status corrupt(const struct page *p, const char *what)
{
	return stk__fail(p->err, STK_CORRUPT, "%s: the store's listing %s", p->name, what);
}

static const char *find(struct span in, const char *text)
{
	return memmem(in.s, in.n, text, strlen(text));
}

/* Finds the first element <name> in `in`. Sets *inside to its text and, if `after` is not NULL, its target to the text after the element. Returns false if
 * `in` has no such element. */
static bool element(struct span in, const char *name, struct span *inside, struct span *after)
{
	char open[40], close[40];
	int n = snprintf(open, sizeof open, "<%s>", name), m = snprintf(close, sizeof close, "</%s>", name);
	const char *begin = find(in, open);
	if (!begin)
		return false;
	struct span remaining = {begin + n, in.n - (size_t)(begin - in.s) - (size_t)n};
	const char *end = find(remaining, close);
	if (!end)
		return false;
	*inside = (struct span){remaining.s, (size_t)(end - remaining.s)};
	if (after)
		*after = (struct span){end + m, remaining.n - inside->n - (size_t)m};
	return true;
}

static size_t put_utf8(unsigned long c, char *out)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
	return n;
}

/* Decodes the entity at the beginning of s, such as "&amp;" or "&#x26;", to *written bytes of UTF-8 at `out`. Returns the entity's length, or 0 if s does
 * not begin with an entity. */
static size_t take_entity(struct span s, char *out, size_t *written)
{
	static const struct {
		const char *name;
		char c;
	} names[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (s.n >= strlen(names[i].name) && memcmp(s.s, names[i].name, strlen(names[i].name)) == 0) {
			*out = names[i].c;
			*written = 1;
			return strlen(names[i].name);
		}
	const char *end = memchr(s.s, ';', s.n < 12 ? s.n : 12);
	char digits[12];
	if (!end || s.n < 4 || s.s[1] != '#')
		return 0;
	bool hex = s.s[2] == 'x';
	snprintf(digits, sizeof digits, "%.*s", (int)(end - s.s) - 2 - hex, s.s + 2 + hex);
	char *stop;
	unsigned long c = strtoul(digits, &stop, hex ? 16 : 10);
	if (!*digits || *stop || c == 0 || c > 0x10ffff)
		return 0;
	*written = put_utf8(c, out);
	return (size_t)(end - s.s) + 1;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static enum stk_status unescape_xml(const struct page *p, struct span s, char *out, size_t capacity)
{
	size_t used = 0;
	while (s.n) {
		size_t n = 1, written = 1;
		if (used + 5 > capacity)
			return corrupt(p, "holds a key that is too long");
		if (*s.s == '&')
			n = take_entity(s, out + used, &written);
		else
			out[used] = *s.s;
		if (!n || *s.s == '<')
			return corrupt(p, "holds a key that is not text");
		used += written;
		s.s += n;
		s.n -= n;
	}
	out[used] = 0;
	return STK_OK;
}

static enum stk_status unescape_url(const struct page *p, char *text)
{
	char *out = text; /* decodes in place, since the output is never longer than the input */
	for (const char *s = text; *s; out++) {
		const bool escape = *s == '%';
		int high = escape ? hex_digit(s[1]) : 0, low = escape && high >= 0 ? hex_digit(s[2]) : 0;
		if (high < 0 || low < 0 || (escape && high + low == 0))
			return corrupt(p, "holds a key that is encoded wrongly");
		*out = escape ? (char)(high * 16 + low) : *s == '+' ? ' ' : *s;
		s += escape ? 3 : 1;
	}
	*out = 0;
	return STK_OK;
}

/* Reads and decodes the element `name` of an entry, which contains the entry's key or prefix. */
static enum stk_status take_key(const struct page *p, struct span in, const char *name, char key[8192])
{
	struct span inside;
	if (!element(in, name, &inside, NULL))
		return corrupt(p, "holds an entry without a name");
	enum stk_status status = unescape_xml(p, inside, key, 8192);
	if (!status && p->url)
		status = unescape_url(p, key);
	if (!status && (!*key || strlen(key) > STK_S3_LONGEST_KEY))
		status = corrupt(p, "holds a key of a length that no store allows");
	return status;
}

/* Returns the hash of an entry's ETag (stk__etag_hash), whose quotes may be entities; 0 if the entry has no valid ETag. */
static uint64_t take_tag(const struct page *p, struct span in)
{
	char etag[128];
	struct span inside;
	const struct page quiet = {.name = p->name};
	return element(in, "ETag", &inside, NULL) && unescape_xml(&quiet, inside, etag, sizeof etag) == STK_OK ? stk__etag_hash(etag) : 0;
}

static enum stk_status take_object(const struct page *p, struct span in, struct stk_list_object *object)
{
	struct span inside;
	int64_t *size = &object->size;
	*object = (struct stk_list_object){.tag = take_tag(p, in)};
	bool ok = element(in, "Size", &inside, NULL) && inside.n > 0 && inside.n <= 18;
	for (size_t i = 0; ok && i < inside.n; i++) {
		ok = inside.s[i] >= '0' && inside.s[i] <= '9';
		*size = *size * 10 + (inside.s[i] - '0');
	}
	return ok ? STK_OK : corrupt(p, "holds an object without a size");
}

static enum stk_status visit_all(const struct page *p, struct span all, const struct stk_s3_visitor *v)
{
	char key[8192];
	struct span inside, rest = all;
	struct stk_list_object object;
	enum stk_status status = STK_OK;
	while (!status && element(rest, "Contents", &inside, &rest)) {
		if (!(status = take_key(p, inside, "Key", key)) && !(status = take_object(p, inside, &object)))
			status = v->object(v->user, key, object, p->err);
	}
	rest = all;
	while (!status && element(rest, "CommonPrefixes", &inside, &rest))
		if (!(status = take_key(p, inside, "Prefix", key)))
			status = v->prefix(v->user, key, p->err);
	return status;
}

enum stk_status stk__s3_page_parse(
	const char *xml, size_t n, const char *name, const struct stk_s3_visitor *visitor, struct stk_text *token, struct stk_error *err)
{
	struct page p = {.name = name, .err = err};
	struct span all = {xml, n}, inside;
	char text[8192];
	token->length = 0;
	if (!find(all, "<ListBucketResult"))
		return corrupt(&p, "is not the XML of a listing: does this endpoint speak S3?");
	if (!find(all, "</ListBucketResult>"))
		return corrupt(&p, "is cut off");
	p.url = element(all, "EncodingType", &inside, NULL) && inside.n == 3 && memcmp(inside.s, "url", 3) == 0;
	enum stk_status status = visit_all(&p, all, visitor);
	bool more = element(all, "IsTruncated", &inside, NULL) && inside.n == 4 && memcmp(inside.s, "true", 4) == 0;
	if (status || !more)
		return status;
	if (!element(all, "NextContinuationToken", &inside, NULL) || !inside.n)
		return corrupt(&p, "says that there is more, but not how to continue");
	status = unescape_xml(&p, inside, text, sizeof text);
	if (!status)
		stk__text_add(token, "%s", text);
	return status ? status : token->failed ? stk__fail(err, STK_NO_MEMORY, "out of memory to list %s", name) : STK_OK;
}
