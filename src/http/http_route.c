/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_route.h"

#include "base/memory.h"
#include "base/secret.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- proxies in the environment ---- */

static const char *first_set(const char *const names[], int n)
{
	for (int i = 0; i < n; i++) {
		const char *value = getenv(names[i]);
		if (value && *value)
			return value;
	}
	return NULL;
}

static bool copy(char **to, const char *from)
{
	*to = from && *from ? stk__secret_copy(from) : NULL;
	return *to || !from || !*from;
}

/* Ignores HTTP_PROXY, as other programs do: a web server sets this variable for CGI programs to the value of the client's header Proxy. */
bool stk__proxies_read(struct stk_proxies *p, const char *given)
{
	static const char *const plain[] = {"http_proxy", "all_proxy", "ALL_PROXY"}, *const except[] = {"no_proxy", "NO_PROXY"};
	*p = (struct stk_proxies){0};
	return copy(&p->plain, given ? given : first_set(plain, 3)) & copy(&p->except, first_set(except, 2));
}

bool stk__proxies_copy(struct stk_proxies *to, const struct stk_proxies *from)
{
	*to = (struct stk_proxies){0};
	return copy(&to->plain, from->plain) & copy(&to->except, from->except);
}

void stk__proxies_clear(struct stk_proxies *p)
{
	stk__secret_free(p->plain);
	stk__secret_free(p->except);
	*p = (struct stk_proxies){0};
}

/* ---- hosts without a proxy ---- */

/* Returns whether an address, in binary form, is in the network that a pattern such as "10.0.0.0/8" describes, or equals a pattern without a slash. family:
 * AF_INET or AF_INET6. */
static bool in_network(int family, const uint8_t address[16], const char *pattern, size_t n)
{
	char text[64];
	uint8_t network[16];
	if (n >= sizeof text)
		return false;
	memcpy(text, pattern, n);
	text[n] = 0;
	char *slash = strchr(text, '/');
	if (slash)
		*slash = 0;
	if (inet_pton(family, text, network) != 1)
		return false;
	int most = family == AF_INET ? 32 : 128, bits = slash ? atoi(slash + 1) : most;
	if (bits < 0 || bits > most)
		return false;
	int part = bits % 8;
	return memcmp(address, network, (size_t)bits / 8) == 0 && (!part || !((address[bits / 8] ^ network[bits / 8]) >> (8 - part)));
}

/* Returns whether a host matches a name: it is the name itself, or ends with a dot and the name. */
static bool in_domain(const char *host, size_t n, const char *pattern, size_t size)
{
	if (size && *pattern == '.') {
		pattern++;
		size--;
	}
	return size && n >= size && strncasecmp(host + n - size, pattern, size) == 0 && (n == size || host[n - size - 1] == '.');
}

static void strip_brackets(const char **text, size_t *n)
{
	if (*n > 1 && **text == '[' && (*text)[*n - 1] == ']') {
		++*text;
		*n -= 2;
	}
}

/* Takes the port off an entry such as "host:8080" or "[::1]:8080": shortens *n, and sets *port to its digits. An entry without a port stays as it is, and
 * *port becomes NULL. An address of version 6 without brackets has no port. */
static void split_port(const char *entry, size_t *n, const char **port, size_t *digits)
{
	const char *colon = memrchr(entry, ':', *n);
	*port = NULL;
	if (!colon || !(colon == memchr(entry, ':', *n) || (*entry == '[' && colon[-1] == ']')))
		return;
	*port = colon + 1;
	*digits = *n - (size_t)(*port - entry);
	*n = (size_t)(colon - entry);
}

/* Returns whether the host at the start of `host`, "name:port" or "[address]:port", is reached without a proxy. An entry with a port applies only to this port,
 * as in Python's urllib. tls: true if a host without a port has port 443; otherwise it has port 80. */
static bool excepted(const char *list, const char *host, size_t n, bool tls)
{
	char text[64] = "";
	uint8_t address[16];
	if (list && strcmp(list, "*") == 0)
		return true;
	const char *host_port, *port;
	size_t host_digits, digits;
	split_port(host, &n, &host_port, &host_digits);
	if (!host_port || !host_digits) {
		host_port = tls ? "443" : "80";
		host_digits = strlen(host_port);
	}
	strip_brackets(&host, &n);
	if (n < sizeof text)
		memcpy(text, host, n);
	int family = inet_pton(AF_INET, text, address) == 1 ? AF_INET : inet_pton(AF_INET6, text, address) == 1 ? AF_INET6 : 0;
	for (size_t size; list && *list; list += size) {
		list += strspn(list, ", \t");
		size = strcspn(list, ", \t");
		const char *entry = list;
		size_t length = size;
		split_port(entry, &length, &port, &digits);
		if (port && (digits != host_digits || memcmp(port, host_port, digits) != 0))
			continue;
		strip_brackets(&entry, &length);
		if (family ? in_network(family, address, entry, length) : in_domain(host, n, entry, length))
			return true;
	}
	return false;
}

/* ---- routes ---- */

size_t stk__url_origin(const char *url)
{
	const char *host = strstr(url, "://");
	host = host ? host + 3 : url;
	return (size_t)(host - url) + strcspn(host, "/?#");
}

static void add_base64(struct stk_text *out, const uint8_t *bytes, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < n; i += 3) {
		uint32_t three = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) | (i + 2 < n ? bytes[i + 2] : 0u);
		stk__text_add(out, "%c%c%c%c", digits[three >> 18], digits[three >> 12 & 63], i + 1 < n ? digits[three >> 6 & 63] : '=',
			i + 2 < n ? digits[three & 63] : '=');
	}
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Appends the line of the request's header that logs in to the proxy. user: n bytes from the proxy's URL, such as "user:pass%77ord". */
static void authorize(struct stk_text *out, const char *user, size_t n)
{
	uint8_t decoded[512];
	size_t size = 0;
	for (size_t i = 0; i < n && size < sizeof decoded; i++) {
		const bool coded = user[i] == '%' && i + 2 < n && hex(user[i + 1]) >= 0 && hex(user[i + 2]) >= 0;
		decoded[size++] = coded ? (uint8_t)(hex(user[i + 1]) * 16 + hex(user[i + 2])) : (uint8_t)user[i];
		i += coded ? 2 : 0;
	}
	stk__text_add(out, "Proxy-Authorization: Basic ");
	add_base64(out, decoded, size);
	stk__text_add(out, "\r\n");
}

/* Directs the route to an HTTP proxy. libcurl connects to it like to a server and does not know that it is a proxy; the requests contain whole URLs instead. */
static void use_http_proxy(struct stk_route *r, const char *proxy)
{
	const char *scheme = strstr(proxy, "://"), *authority = scheme ? scheme + 3 : proxy;
	size_t n = strcspn(authority, "/");
	const char *at = memrchr(authority, '@', n), *host = at ? at + 1 : authority;
	r->tls = scheme && strncasecmp(proxy, "https:", 6) == 0;
	size_t size = n - (size_t)(host - authority);
	const char *bracket = memrchr(host, ']', size);
	const bool port = memchr(bracket ? bracket : host, ':', size - (bracket ? (size_t)(bracket - host) : 0));
	stk__text_add(&r->url, "%s://%.*s%s", r->tls ? "https" : "http", (int)size, host, port ? "" : r->tls ? ":443" : ":1080");
	r->absolute = true;
	r->proxy = "";
	if (at)
		authorize(&r->authorization, authority, (size_t)(at - authority));
}

static void find_plain(struct stk_route *r, const struct stk_proxies *p, bool direct)
{
	const bool used = p->plain && !direct;
	const bool socks = used && strncasecmp(p->plain, "socks", 5) == 0;
	if (used && !socks) {
		use_http_proxy(r, p->plain);
		return;
	}
	r->proxy = socks ? p->plain : "";
	stk__text_add(&r->url, "%s", r->origin.s);
}

static void empty(struct stk_text *t)
{
	t->length = 0;
	t->failed = false;
	if (t->s)
		t->s[0] = 0;
}

bool stk__route_find(struct stk_route *r, const char *url, uint64_t settings, const struct stk_proxies *proxies, const char *https_proxy,
	const char *trusted)
{
	size_t n = stk__url_origin(url);
	if (r->key.length && r->settings == settings && r->origin.length == n && memcmp(r->origin.s, url, n) == 0)
		return true;
	struct stk_text *const texts[] = {&r->url, &r->key, &r->authorization, &r->origin};
	for (int i = 0; i < 4; i++)
		empty(texts[i]);
	r->settings = settings;
	r->absolute = false;
	r->trusted = trusted;
	r->tls = strncasecmp(url, "https:", 6) == 0;
	stk__text_add(&r->origin, "%.*s", (int)n, url);
	const char *slashes = r->origin.s ? strstr(r->origin.s, "://") : NULL;
	const bool direct = slashes && excepted(proxies->except, slashes + 3, strlen(slashes + 3), r->tls);
	r->proxy = direct ? "" : https_proxy; /* libcurl reads no_proxy too, but does not understand ports in it */
	if (!r->tls && slashes)
		find_plain(r, proxies, direct);
	else
		stk__text_add(&r->url, "%s", r->origin.s ? r->origin.s : "");
	stk__text_add(&r->key, "%s\n%s\n%s", r->url.s ? r->url.s : "", r->proxy ? r->proxy : "*", r->trusted ? r->trusted : "");
	bool failed = false;
	for (int i = 0; i < 4; i++)
		failed |= texts[i]->failed;
	if (failed)
		empty(&r->key);
	return !failed;
}

void stk__route_free(struct stk_route *r)
{
	stk__text_free(&r->url);
	stk__text_free(&r->key);
	stk__text_erase_free(&r->authorization);
	stk__text_free(&r->origin);
}
