/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads libcurl at run time, so that a process that reads only local files loads neither libcurl nor its two dozen dependencies. A wheel contains its
 * own libcurl next to libstoker, with an OpenSSL inside that nothing else in the process sees; otherwise the system's libcurl is used. */
#ifndef STK_IO_CURL_H
#define STK_IO_CURL_H

#include "base/memory.h"
#include "stoker/status.h"

#define CURL_DISABLE_TYPECHECK /* the macros that this switches off accept only libcurl's functions, not pointers to them */
#include <curl/curl.h>

#include <time.h>

/* The functions of libcurl that are used: name, result, parameters. */
#define STK_CURL_FUNCTIONS(X)                                                                                                              \
	X(curl_global_init, CURLcode, (long flags))                                                                                        \
	X(curl_global_cleanup, void, (void))                                                                                               \
	X(curl_version_info, curl_version_info_data *, (CURLversion age))                                                                  \
	X(curl_easy_init, CURL *, (void))                                                                                                  \
	X(curl_easy_setopt, CURLcode, (CURL * easy, CURLoption option, ...))                                                               \
	X(curl_easy_getinfo, CURLcode, (CURL * easy, CURLINFO info, ...))                                                                  \
	X(curl_easy_perform, CURLcode, (CURL * easy))                                                                                      \
	X(curl_easy_strerror, const char *, (CURLcode code))                                                                               \
	X(curl_easy_cleanup, void, (CURL * easy))                                                                                          \
	X(curl_easy_reset, void, (CURL * easy))                                                                                            \
	X(curl_easy_send, CURLcode, (CURL * easy, const void *bytes, size_t n, size_t *sent))                                              \
	X(curl_easy_recv, CURLcode, (CURL * easy, void *bytes, size_t n, size_t *got))                                                     \
	X(curl_share_init, CURLSH *, (void))                                                                                               \
	X(curl_share_setopt, CURLSHcode, (CURLSH * share, CURLSHoption option, ...))                                                       \
	X(curl_share_cleanup, CURLSHcode, (CURLSH * share))                                                                                \
	X(curl_url, CURLU *, (void))                                                                                                       \
	X(curl_url_cleanup, void, (CURLU * url))                                                                                           \
	X(curl_url_set, CURLUcode, (CURLU * url, CURLUPart what, const char *part, unsigned flags))                                        \
	X(curl_url_get, CURLUcode, (CURLU * url, CURLUPart what, char **part, unsigned flags))                                             \
	X(curl_free, void, (void *p))                                                                                                      \
	X(curl_multi_init, CURLM *, (void))                                                                                                \
	X(curl_multi_setopt, CURLMcode, (CURLM * multi, CURLMoption option, ...))                                                          \
	X(curl_multi_add_handle, CURLMcode, (CURLM * multi, CURL * easy))                                                                  \
	X(curl_multi_remove_handle, CURLMcode, (CURLM * multi, CURL * easy))                                                               \
	X(curl_multi_socket_action, CURLMcode, (CURLM * multi, curl_socket_t socket, int events, int *running))                            \
	X(curl_multi_info_read, CURLMsg *, (CURLM * multi, int *left))                                                                     \
	X(curl_multi_wakeup, CURLMcode, (CURLM * multi))                                                                                   \
	X(curl_multi_cleanup, CURLMcode, (CURLM * multi))                                                                                  \
	X(curl_slist_append, struct curl_slist *, (struct curl_slist * list, const char *text))                                            \
	X(curl_slist_free_all, void, (struct curl_slist * list))

/* Functions of libcurl's TLS library if that is OpenSSL or compatible: name, result, parameters. Their pointers may be NULL. */
#define STK_TLS_FUNCTIONS(X)                                                                                                               \
	X(SSL_get_shutdown, int, (const void *ssl))                                                                                        \
	X(SSL_clear_options, uint64_t, (void *ssl, uint64_t options))

struct stk_curl {
	void *library;
	char *certificates; /* path of a file of trusted certificates: from SSL_CERT_FILE or, with a wheel's libcurl, the system's; NULL:
			     * libcurl's default */
#define STK_CURL_SLOT(name, result, params) result(*name) params;
	STK_CURL_FUNCTIONS(STK_CURL_SLOT)
	STK_TLS_FUNCTIONS(STK_CURL_SLOT)
#undef STK_CURL_SLOT
};

/* Loads libcurl. STK_UNSUPPORTED: it is not installed, too old, or lacks a function; the message says which. */
STK_MUST_USE enum stk_status stk__curl_load(struct stk_curl *c, struct stk_error *err);
void stk__curl_unload(struct stk_curl *c);

/* Calls curl_multi_init, and marks the new handle's two descriptors, through which curl_multi_wakeup works, as close-on-exec. NULL: no memory or no
 * descriptor. */
enum { STK_CURL_MULTI_FDS = 2 };
CURLM *stk__curl_multi(const struct stk_curl *c);
/* Returns the number that the next descriptor will get; -1 if none is free. So at least that many descriptors are open. */
int stk__lowest_free_fd(void);
/* Marks close-on-exec the pair of sockets through which curl's resolver thread wakes the handle. `end` is the socket that curl watches. */
void stk__curl_close_on_exec(const struct stk_curl *c, int end);
/* Opens a socket that is close-on-exec; for CURLOPT_OPENSOCKETFUNCTION. */
curl_socket_t stk__curl_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address);

/* The text of certificate files, shared by connections, as a linked list. Each file is read once, and again if it changes. */
struct stk_certificates {
	struct stk_certificates *next;
	char *name, *text;
	size_t size;
	struct timespec changed;
};

/* Sets the certificates that a request trusts: from `file`; if that is NULL, from c->certificates, or else libcurl's default. loaded: a list of
 * certificates that one thread owns and that outlives the handle. */
CURLcode stk__curl_trust(const struct stk_curl *c, CURL *easy, const char *file, struct stk_certificates **loaded);
void stk__certificates_free(struct stk_certificates *loaded);

/* libcurl reports the end of a TLS connection in the same way whether the server ended TLS (close_notify) or only the TCP connection ended, as when a
 * device between the hosts cuts it. These functions ask the TLS library. Call stk__curl_expect_close before the first read of a connection. After
 * curl_easy_recv has read 0 bytes, stk__curl_tls_ended returns whether the server ended TLS; false also if that is not known. */
void stk__curl_expect_close(const struct stk_curl *c, CURL *easy);
bool stk__curl_tls_ended(const struct stk_curl *c, CURL *easy);

#endif
