/* SPDX-License-Identifier: Apache-2.0 */
#include "io/curl.h"

#include "base/error.h"

#include "base/memory.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum stk_status find_functions(struct stk_curl *c, struct stk_error *err)
{
	static const char *const names[] = {
#define NAME_ROW(name, result, params) #name,
		STK_CURL_FUNCTIONS(NAME_ROW)
#undef NAME_ROW
	};
	void **const slots[] = {
#define SLOT_ROW(name, result, params) (void **)&c->name,
		STK_CURL_FUNCTIONS(SLOT_ROW)
#undef SLOT_ROW
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		*slots[i] = dlsym(c->library, names[i]);
		if (!*slots[i])
			return stk__fail(err, STK_UNSUPPORTED, "http:// and s3:// need libcurl; the one here lacks %s", names[i]);
	}
	return STK_OK;
}

/* NODELETE: what libcurl brings with it leaves handlers for the end of the process. */
static void *open_library(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* Where distributions keep the authorities that they trust: Debian and its kin, Fedora and its kin, openSUSE, older RHEL, Alpine. A libcurl that was
 * built for all of them knows none of these. */
static const char *find_certificates(void)
{
	static const char *const places[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (access(places[i], R_OK) == 0)
			return places[i];
	return NULL;
}

static enum stk_status choose_certificates(struct stk_curl *c, bool own, struct stk_error *err)
{
	const char *named = getenv("SSL_CERT_FILE"), *file = named && *named ? named : own ? find_certificates() : NULL;
	if (!file)
		return STK_OK;
	c->certificates = stk__alloc(strlen(file) + 1);
	if (!c->certificates)
		return stk__fail(err, STK_NO_MEMORY, "out of memory");
	strcpy(c->certificates, file);
	return STK_OK;
}

CURLcode stk__curl_trust(const struct stk_curl *c, CURL *easy, const char *file)
{
	file = file ? file : c->certificates;
	return file ? c->curl_easy_setopt(easy, CURLOPT_CAINFO, file) : CURLE_OK;
}

enum stk_status stk__curl_load(struct stk_curl *c, struct stk_error *err)
{
	*c = (struct stk_curl){.library = open_library("libcurl-stoker.so")}; /* a wheel's */
	const bool own = c->library != NULL;
	if (!c->library)
		c->library = open_library("libcurl.so.4");
	if (!c->library)
		c->library = open_library("libcurl-gnutls.so.4");
	if (!c->library)
		return stk__fail(err, STK_UNSUPPORTED,
			"http:// and s3:// need libcurl, which is not here (%s): install the system's (Debian's libcurl4, Fedora's libcurl), or use a released wheel of "
			"Stoker, which brings its own",
			dlerror());
	enum stk_status status = find_functions(c, err);
	if (!status)
		status = choose_certificates(c, own, err);
	if (!status && c->curl_version_info(CURLVERSION_NOW)->version_num < 0x074400)
		status = stk__fail(err, STK_UNSUPPORTED, "http:// and s3:// need libcurl 7.68 or newer, not %s",
			c->curl_version_info(CURLVERSION_NOW)->version);
	if (!status && c->curl_global_init(CURL_GLOBAL_DEFAULT))
		status = stk__fail(err, STK_SYSTEM, "libcurl does not start");
	if (status) {
		stk__free(c->certificates);
		dlclose(c->library);
		*c = (struct stk_curl){0};
	}
	return status;
}

void stk__curl_unload(struct stk_curl *c)
{
	if (!c->library)
		return;
	c->curl_global_cleanup();
	stk__free(c->certificates);
	dlclose(c->library);
	*c = (struct stk_curl){0};
}

struct stk_http_library stk__http_library(void)
{
	struct stk_curl c;
	if (stk__curl_load(&c, NULL))
		return (struct stk_http_library){0};
	const curl_version_info_data *v = c.curl_version_info(CURLVERSION_NOW);
	struct stk_http_library library = {v->version, v->ssl_version}; /* in the library, which stays */
	stk__curl_unload(&c);
	return library;
}
