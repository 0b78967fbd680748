/* SPDX-License-Identifier: Apache-2.0 */
#include "io/curl.h"

#include "base/error.h"

#include <dlfcn.h>

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

enum stk_status stk__curl_load(struct stk_curl *c, struct stk_error *err)
{
	/* NODELETE: what libcurl brings with it leaves handlers for the end of the process. */
	*c = (struct stk_curl){.library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
	if (!c->library)
		c->library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!c->library)
		return stk__fail(err, STK_UNSUPPORTED, "http:// and s3:// need libcurl, which is not here (%s): install Debian's libcurl4",
			dlerror());
	enum stk_status status = find_functions(c, err);
	if (!status && c->curl_version_info(CURLVERSION_NOW)->version_num < 0x074400)
		status = stk__fail(err, STK_UNSUPPORTED, "http:// and s3:// need libcurl 7.68 or newer, not %s",
			c->curl_version_info(CURLVERSION_NOW)->version);
	if (!status && c->curl_global_init(CURL_GLOBAL_DEFAULT))
		status = stk__fail(err, STK_SYSTEM, "libcurl does not start");
	if (status) {
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
	dlclose(c->library);
	*c = (struct stk_curl){0};
}
