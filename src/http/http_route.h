/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the route of a URL: the host to connect to, the proxy, and the parts of the request that depend on them. */
#ifndef STK_HTTP_ROUTE_H
#define STK_HTTP_ROUTE_H

#include "base/text.h"

#include <stdint.h>

/* The proxy for plain http://, and the hosts for which it is not used. The proxy for https:// is a tunnel, which libcurl finds and opens by itself. */
struct stk_proxies {
	char *plain;  /* URL of the proxy, which may contain a password; NULL: no proxy. Both strings are allocated with base/secret.h */
	char *except; /* hosts in the form of the variable no_proxy; NULL: none */
};

/* Reads the proxies. given: URL of the proxy, which takes precedence over the environment; "": no proxy; NULL: the environment's. The exceptions always come
 * from the environment. Returns false if memory is short. In either case the caller calls stk__proxies_clear. Call on a thread that may call getenv. */
bool stk__proxies_read(struct stk_proxies *p, const char *given);
bool stk__proxies_copy(struct stk_proxies *to, const struct stk_proxies *from);
void stk__proxies_clear(struct stk_proxies *p);

struct stk_route {
	struct stk_text url; /* the URL to connect to, without a path */
	struct stk_text key; /* name of the route: a connection can be used for every route with the same key */
	const char *proxy;   /* proxy for libcurl; NULL: the environment's, "": none */
	const char *trusted; /* path of the file of trusted certificates; NULL: the default */
	bool tls;
	bool absolute;                 /* true if the server is a proxy, so that the request contains the whole URL */
	struct stk_text authorization; /* line of the request's header with the log-in for the proxy, or "" */
	/* the arguments from which the route was made, to recognise an unchanged route */
	struct stk_text origin;
	uint64_t settings;
};

/* Updates the route for a URL. settings: number of the snapshot that contains the other arguments; with the same number and origin the route stays as it is.
 * The strings must live as long as the snapshot. Returns false if memory is short. */
bool stk__route_find(struct stk_route *r, const char *url, uint64_t settings, const struct stk_proxies *proxies, const char *https_proxy,
	const char *trusted);
void stk__route_free(struct stk_route *r);

/* Returns the number of bytes of a URL before its path: its scheme, host and port. */
size_t stk__url_origin(const char *url);

#endif
