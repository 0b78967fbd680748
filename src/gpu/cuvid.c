/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuvid.h"

#include "base/error.h"

#include <dlfcn.h>
#include <unistd.h>

#if __SIZEOF_POINTER__ == 8 /* the decoder library exists only for 64-bit systems */
_Static_assert(sizeof(struct stk_cuvid_caps) == 88, "its size in NVIDIA's library");
_Static_assert(sizeof(struct stk_cuvid_create) == 176, "its size in NVIDIA's library");
_Static_assert(sizeof(struct stk_cuvid_reconfigure) == 128, "its size in NVIDIA's library");
_Static_assert(sizeof(struct stk_cuvid_format) == 64, "its size in NVIDIA's library");
_Static_assert(sizeof(struct stk_cuvid_picture) == 4280, "its size in NVIDIA's library");
_Static_assert(sizeof(struct stk_cuvid_shown) == 24, "its size in NVIDIA's library");
_Static_assert(sizeof(struct stk_cuvid_packet) == 32, "its size in NVIDIA's library");
_Static_assert(sizeof(struct stk_cuvid_parser) == 136, "its size in NVIDIA's library");
_Static_assert(sizeof(struct stk_cuvid_map) == 264, "its size in NVIDIA's library");
_Static_assert(sizeof(struct stk_cuvid_status) == 192, "its size in NVIDIA's library");
#endif

enum stk_status stk__cuvid_load(struct stk_cuvid *c, struct stk_error *err)
{
	static const char windows[] =
		"/usr/lib/wsl/lib/libnvcuvid.so.1"; /* the path of the library on Windows Subsystem for Linux (see gpu/driver.c) */
	static const char *const names[] = {
#define NAME_ROW(name, params) #name,
		STK_CUVID_FUNCTIONS(NAME_ROW)
#undef NAME_ROW
	};
	void **const slots[] = {
#define SLOT_ROW(name, params) (void **)&c->name,
		STK_CUVID_FUNCTIONS(SLOT_ROW)
#undef SLOT_ROW
	};
	*c = (struct stk_cuvid){.library = dlopen("libnvcuvid.so.1", RTLD_NOW | RTLD_LOCAL)};
	if (!c->library && access(windows, R_OK) == 0)
		c->library = dlopen(windows, RTLD_NOW | RTLD_LOCAL);
	if (!c->library)
		return stk__fail(err, STK_NOT_FOUND, "NVIDIA's video decoder cannot be loaded: %s", dlerror());
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		*slots[i] = dlsym(c->library, names[i]);
		if (!*slots[i]) {
			stk__cuvid_unload(c);
			return stk__fail(err, STK_NOT_FOUND, "NVIDIA's video decoder is too old: libnvcuvid.so.1 lacks %s", names[i]);
		}
	}
	return STK_OK;
}

void stk__cuvid_unload(struct stk_cuvid *c)
{
	if (c->library)
		dlclose(c->library);
	*c = (struct stk_cuvid){0};
}
