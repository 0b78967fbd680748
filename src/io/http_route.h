/* SPDX-License-Identifier: Apache-2.0
 * Where a URL leads: to whom a connection is opened, over which proxy, and what a request says there. */
#ifndef STK_IO_HTTP_ROUTE_H
#define STK_IO_HTTP_ROUTE_H

#include "base/text.h"

#include <stdint.h>

/* The proxy of plain http://, and the hosts that are reached without one. That of https:// is a tunnel, which libcurl finds and builds by itself. */
struct stk_proxies {
	char *plain;  /* URL; NULL: none */
	char *except; /* as no_proxy; NULL: none */
};

/* given: what counts before the environment, "" for none; nullable. False: out of memory. The caller's to clear in either case. On a thread that may call
 * getenv. */
bool stk__proxies_read(struct stk_proxies *p, const char *given);
bool stk__proxies_copy(struct stk_proxies *to, const struct stk_proxies *from);
void stk__proxies_clear(struct stk_proxies *p);

struct stk_route {
	struct stk_text url; /* of the place that a connection is opened to, without a path */
	struct stk_text key; /* connections with the same one serve the same requests */
	const char *proxy;   /* that libcurl is told: NULL: the environment's, "": none */
	const char *trusted; /* file of certificates; nullable */
	bool tls;
	bool absolute;                 /* a proxy answers, and is told the whole URL */
	struct stk_text authorization; /* for it: a line of the request's header, or "" */
	/* of what it was made */
	struct stk_text origin;
	uint64_t settings;
};

/* settings: the number of the snapshot that the rest is from; with the same number and origin the route stays as it is. The strings live as long as the
 * snapshot. False: out of memory. */
bool stk__route_find(struct stk_route *r, const char *url, uint64_t settings, const struct stk_proxies *proxies, const char *https_proxy,
	const char *trusted);
void stk__route_free(struct stk_route *r);

/* Bytes of a URL before its path. */
size_t stk__url_origin(const char *url);

#endif
