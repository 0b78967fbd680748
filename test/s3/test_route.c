/* SPDX-License-Identifier: Apache-2.0
 * Routes of requests: which hosts are reached through a proxy, and for which of them the request itself goes to the proxy, as with plain HTTP. */
#include "test.h"

#include "http/http_route.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void test_exceptions(void **state)
{
	(void)state;
	static const struct {
		const char *except, *host;
		bool proxied;
	} cases[] = {
		{"", "a.b", true},
		{"*", "a.b", false},
		{"a.b", "a.b", false},
		{"A.B", "a.b:80", false},
		{"b", "a.b", false},
		{".b", "a.b", false},
		{".a.b", "a.b", false},
		{"b", "ab", true},
		{"c, a.b d", "x.a.b", false},
		{"a.b.c", "a.b", true},
		{"127.0.0.1", "127.0.0.1:9000", false},
		{"127.0.0.1", "127.0.0.2", true},
		{"0.0.1", "127.0.0.1", true},
		{"10.0.0.0/8", "10.200.3.4", false},
		{"10.0.0.0/9", "10.200.3.4", true},
		{"10.0.0.0/33", "10.0.0.0", true},
		{"::1", "[::1]:80", false},
		{"[fe80::]/16,fe80::/10", "[fe81::2]", false},
		{"::2", "[::1]", true},
		{"a.b:9000", "a.b:9000", false},
		{"x:1,a.b:9000", "c.a.b:9000", false},
		{"a.b:9000", "a.b:900", true},
		{"a.b:9000", "a.b", true},
		{"a.b:80", "a.b", false},
		{"a.b:443", "a.b", true},
		{"a.b:", "a.b:80", true},
		{"127.0.0.1:9000", "127.0.0.1:9000", false},
		{"127.0.0.1:9000", "127.0.0.1:9001", true},
		{"[::1]:80", "[::1]", false},
		{"[::1]:81", "[::1]", true},
		{"::1:80", "[::1]", true},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stk_route r = {0};
		char proxy[] = "http://proxy:3128", url[128] = "http://";
		struct stk_proxies p = {proxy, (char *)cases[i].except};
		strcat(strcat(url, cases[i].host), "/path");
		assert_true(stk__route_find(&r, url, 1, &p, NULL, NULL));
		if (r.absolute != cases[i].proxied)
			fail_msg("no_proxy \"%s\", %s", cases[i].except, url);
		stk__route_free(&r);
	}
}

static void test_proxies(void **state)
{
	(void)state;
	static const struct {
		const char *proxy, *url, *leads, *told;
		bool absolute;
	} cases[] = {
		{NULL, "http://h:81/a", "http://h:81", "", false},
		{"proxy", "http://h/a", "http://proxy:1080", "", true},
		{"http://u:p@proxy:3128/", "http://h?a", "http://proxy:3128", "", true},
		{"https://proxy", "http://h", "https://proxy:443", "", true},
		{"http://[::1]:8080", "http://h/a:b@c", "http://[::1]:8080", "", true},
		{"http://[::1]", "http://h/", "http://[::1]:1080", "", true},
		{"socks5h://proxy:1080", "http://h/", "http://h", "socks5h://proxy:1080", false},
		{"http://proxy:3128", "https://h/", "https://h", NULL, false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stk_route r = {0};
		struct stk_proxies p = {(char *)cases[i].proxy, NULL};
		assert_true(stk__route_find(&r, cases[i].url, 1, &p, NULL, NULL));
		assert_string_equal(r.url.s, cases[i].leads);
		assert_int_equal(r.absolute, cases[i].absolute);
		assert_true(cases[i].told ? r.proxy && strcmp(r.proxy, cases[i].told) == 0 : !r.proxy);
		assert_int_equal(r.tls, strncmp(r.url.s, "https", 5) == 0);
		stk__route_free(&r);
	}
}

/* A tunnel's exceptions may have ports, which libcurl does not understand. */
static void test_exceptions_from_a_tunnel(void **state)
{
	(void)state;
	static const struct {
		const char *except, *url, *leads;
	} cases[] = {
		{"h:443", "https://h/a", ""},
		{"h:9000", "https://h:9000/a", ""},
		{"h:9000", "https://h/a", "http://proxy"},
		{"h:80", "https://h", "http://proxy"},
		{"other", "https://h", "http://proxy"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stk_route r = {0};
		struct stk_proxies p = {NULL, (char *)cases[i].except};
		assert_true(stk__route_find(&r, cases[i].url, 1, &p, "http://proxy", NULL));
		assert_string_equal(r.proxy, cases[i].leads);
		stk__route_free(&r);
	}
}

/* HTTP_PROXY is ignored, because CGI sets it from a request's Proxy header. */
static void test_environment(void **state)
{
	(void)state;
	struct stk_proxies p, q;
	setenv("HTTP_PROXY", "http://evil", 1);
	assert_true(stk__proxies_read(&p, NULL));
	assert_null(p.plain);
	setenv("http_proxy", "http://one", 1);
	setenv("NO_PROXY", "a", 1);
	assert_true(stk__proxies_read(&p, NULL));
	assert_true(stk__proxies_copy(&q, &p));
	assert_string_equal(q.plain, "http://one");
	assert_string_equal(q.except, "a");
	stk__proxies_clear(&p);
	stk__proxies_clear(&q);
	assert_true(stk__proxies_read(&p, ""));
	assert_null(p.plain);
	stk__proxies_clear(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_exceptions), cmocka_unit_test(test_exceptions_from_a_tunnel),
		cmocka_unit_test(test_proxies), cmocka_unit_test(test_environment)};
	const char *const names[] = {"http_proxy", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"};
	for (int i = 0; i < 5; i++)
		unsetenv(names[i]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
