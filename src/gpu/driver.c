/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static enum stk_status find_functions(struct stk_cuda_driver *d, struct stk_error *err)
{
	static const char *const names[] = {
#define NAME_ROW(name, params) #name,
		STK_CUDA_FUNCTIONS(NAME_ROW)
#undef NAME_ROW
	};
	void **const slots[] = {
#define SLOT_ROW(name, params) (void **)&d->name,
		STK_CUDA_FUNCTIONS(SLOT_ROW)
#undef SLOT_ROW
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		*slots[i] = dlsym(d->library, names[i]);
		if (!*slots[i])
			return stk__fail(err, STK_NOT_FOUND,
				"the CUDA driver is too old: libcuda.so.1 lacks %s; install NVIDIA's driver 525 or newer", names[i]);
	}
	return STK_OK;
}

enum stk_status stk__cuda_driver_load(struct stk_cuda_driver *d, struct stk_error *err)
{
	/* path of the library on Windows Subsystem for Linux; on some distributions the dynamic linker does not search this folder */
	static const char windows[] = "/usr/lib/wsl/lib/libcuda.so.1";
	*d = (struct stk_cuda_driver){.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
	if (!d->library && access(windows, R_OK) == 0)
		d->library = dlopen(windows, RTLD_NOW | RTLD_LOCAL);
	if (!d->library)
		return stk__fail(err, STK_NOT_FOUND,
			"no CUDA driver: %s; leave the device out (device_id, device=\"cuda\" or --device) to run on the CPU, or install NVIDIA's driver",
			dlerror());
	enum stk_status status = find_functions(d, err);
	int result = status ? CUDA_OK : d->cuInit(0);
	if (result == CUDA_NOT_INITIALIZED)
		status = stk__fail(err, STK_STATE,
			"the CUDA driver does not start again in a forked child of a process that has used it: fork before, or use the "
			"start method \"spawn\"");
	else if (result)
		status = stk__cuda_fail(d, result, err, "the CUDA driver does not start: cuInit");
	if (!status && (result = d->cuDriverGetVersion(&d->version)))
		status = stk__cuda_fail(d, result, err, "cuDriverGetVersion");
	if (status)
		stk__cuda_driver_unload(d);
	return status;
}

void stk__cuda_driver_unload(struct stk_cuda_driver *d)
{
	if (d->library)
		dlclose(d->library);
	*d = (struct stk_cuda_driver){0};
}

/* Returns advice for the end of an error message if all later calls will fail with the same error, otherwise "". */
static const char *advice(int result)
{
	switch (result) {
	case CUDA_ECC_UNCORRECTABLE:
	case CUDA_ILLEGAL_ADDRESS:
	case CUDA_LAUNCH_TIMEOUT:
	case CUDA_ASSERT:
	case CUDA_HARDWARE_STACK_ERROR:
	case CUDA_ILLEGAL_INSTRUCTION:
	case CUDA_MISALIGNED_ADDRESS:
	case CUDA_INVALID_ADDRESS_SPACE:
	case CUDA_INVALID_PC:
	case CUDA_LAUNCH_FAILED:
		return "; it may come from an earlier kernel, of stoker or of another library in this process, and this process cannot use the GPU any more: start "
		       "the process again; with CUDA_LAUNCH_BLOCKING=1 set, the call that fails is the one at fault";
	default:
		return "";
	}
}

enum stk_status stk__cuda_fail(const struct stk_cuda_driver *d, int result, struct stk_error *err, const char *fmt, ...)
{
	const char *name = NULL, *text = NULL;
	char what[256];
	va_list ap;
	if (d->cuGetErrorName(result, &name) || !name)
		name = "an unknown error";
	if (d->cuGetErrorString(result, &text) || !text)
		text = "no text";
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	enum stk_status code = result == CUDA_OUT_OF_MEMORY ? STK_NO_MEMORY : result == CUDA_NO_DEVICE ? STK_NOT_FOUND : STK_CUDA;
	return stk__fail(err, code, "%s: %s (%d, %s)%s", what, name, result, text, advice(result));
}
