/* SPDX-License-Identifier: Apache-2.0
 * Devices, contexts, modules and launches. */
#include "emulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct driver driver = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

enum { SHARED = 227 << 10, SHARED_UNASKED = 48 << 10, PROCESSORS = 132, VERSION = 13000, DEPTH = 16, MOST_THREADS = 1024 };

/* A context handle is the address of its device's entry in this array. */
static char contexts[DEVICES];
static _Thread_local struct {
	int device[DEPTH], depth;
} current;

struct function {
	const struct emulated_kernel *kernel;
	int shared; /* largest number of bytes of dynamic shared memory that a launch may use */
};

struct module {
	const char *name; /* "": kernels of all modules are found, because images made by nvcc do not contain the module's name */
	int device;
	struct function *functions;
	size_t count;
};

extern const struct emulated_kernel *const __start_stk_kernels[], *const __stop_stk_kernels[];

/* Taking the address makes the linker report a function that is missing. */
#define STK_HAVE(name, params) (void *)(uintptr_t)name,
__attribute__((used)) static void *const functions[] = {STK_CUDA_FUNCTIONS(STK_HAVE)};
#undef STK_HAVE

void emulated_lock(void)
{
	pthread_mutex_lock(&driver.lock);
}

void emulated_unlock(void)
{
	pthread_mutex_unlock(&driver.lock);
}

/* Returns whether a function has this name, if its suffix is ignored: cuMemAlloc_v2 matches cuMemAlloc. */
static bool is_named(const char *function, const char *name)
{
	size_t n = strlen(name);
	return n && strncmp(function, name, n) == 0 && (!function[n] || strcmp(function + n, "_v2") == 0);
}

long emulated_calls(void)
{
	emulated_lock();
	long calls = driver.calls;
	emulated_unlock();
	return calls;
}

static int context_of_thread(int *device)
{
	if (!current.depth)
		return CUDA_INVALID_CONTEXT;
	*device = current.device[current.depth - 1];
	return CUDA_OK;
}

int emulated_enter(const char *function, bool needs_context, int *device)
{
	int result = CUDA_OK;
	if (driver.pid != getpid()) /* in a forked child the lock may be held for ever, by a thread that exists only in the parent */
		return CUDA_NOT_INITIALIZED;
	emulated_lock();
	if (needs_context)
		result = driver.sticky ? driver.sticky : context_of_thread(device);
	if (!result)
		result = emulated_check_capture(function);
	if (!result && is_named(function, driver.options.fail) && ++driver.calls == driver.options.fail_at)
		result = strstr(function, "Alloc") ? CUDA_OUT_OF_MEMORY : CUDA_UNKNOWN;
	if (result)
		emulated_unlock();
	return result;
}

int emulated_enter_to_free(const char *function, int *device)
{
	if (driver.pid != getpid())
		return CUDA_NOT_INITIALIZED;
	emulated_lock();
	int result = context_of_thread(device);
	if (!result)
		result = emulated_check_capture(function);
	driver.calls += !result && is_named(function, driver.options.fail); /* counts these calls, but lets them free */
	if (result)
		emulated_unlock();
	return result;
}

void emulated_lose(int error, const char *why)
{
	if (why && !driver.sticky)
		fprintf(stderr, "emulated CUDA: %s\n", why);
	driver.sticky = error;
}

/* ---- the driver and its devices ---- */

int cuInit(unsigned flags)
{
	if (flags)
		return CUDA_INVALID_VALUE;
	if (driver.pid && driver.pid != getpid())
		return CUDA_NOT_INITIALIZED;
	emulated_lock();
	driver.pid = getpid();
	emulated_read_options(&driver.options);
	driver.calls = driver.operations = 0;
	driver.sticky = 0;
	emulated_unlock();
	return CUDA_OK;
}

int cuDriverGetVersion(int *version)
{
	*version = VERSION;
	return CUDA_OK;
}

static const struct {
	int code;
	const char *name, *text;
} errors[] = {
	{CUDA_OK, "CUDA_SUCCESS", "no error"},
	{CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device"},
	{CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CUDA_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "not an image"},
	{CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "the thread has no context"},
	{CUDA_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for the device"},
	{CUDA_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
	{CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "not found"},
	{CUDA_NOT_READY, "CUDA_ERROR_NOT_READY", "not ready"},
	{CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{CUDA_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
	{CUDA_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
	{CUDA_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int find_error(int code, const char **name, const char **text)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		if (errors[i].code == code) {
			*name = errors[i].name;
			*text = errors[i].text;
			return CUDA_OK;
		}
	}
	return CUDA_INVALID_VALUE;
}

int cuGetErrorName(int result, const char **name)
{
	const char *text;
	return find_error(result, name, &text);
}

int cuGetErrorString(int result, const char **text)
{
	const char *name;
	return find_error(result, &name, text);
}

int cuDeviceGetCount(int *count)
{
	*count = DEVICES;
	return CUDA_OK;
}

static int check_device(int device)
{
	return device >= 0 && device < DEVICES ? CUDA_OK : CUDA_INVALID_DEVICE;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return check_device(ordinal);
}

int cuDeviceGetName(char *name, int size, int device)
{
	snprintf(name, (size_t)size, "emulated GPU");
	return check_device(device);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	*bytes = driver.options.memory;
	return check_device(device);
}

int cuDeviceGetPCIBusId(char *id, int size, int device)
{
	snprintf(id, (size_t)size, "0000:%02x:00.0", device + 1);
	return check_device(device);
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	static const struct {
		int attribute, value;
	} known[] = {
		{CUDA_ATTR_MAJOR, 9}, {CUDA_ATTR_MINOR, 0}, {CUDA_ATTR_PROCESSORS, PROCESSORS}, {CUDA_ATTR_SHARED_PER_BLOCK_OPTIN, SHARED}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (known[i].attribute == attribute) {
			*value = known[i].value;
			return check_device(device);
		}
	}
	return CUDA_INVALID_VALUE;
}

/* ---- contexts ---- */

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	int result = emulated_enter(__func__, false, NULL);
	if (result)
		return result;
	result = check_device(device);
	if (!result) {
		driver.devices[device].retained++;
		*context = &contexts[device];
	}
	emulated_unlock();
	return result;
}

/* Prints how many bytes and objects are left on a device, and aborts if there are any and `strict` is set: the code under test should have freed them. */
static void report_what_is_left(int device)
{
	size_t bytes = emulated_memory_left(device);
	int objects = driver.devices[device].objects;
	if (!bytes && !objects)
		return;
	fprintf(stderr, "emulated CUDA: the context of device %d goes with %zu bytes and %d streams, events and modules left\n", device,
		bytes, objects);
	if (driver.options.strict)
		abort();
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	if (driver.pid != getpid())
		return CUDA_NOT_INITIALIZED;
	emulated_lock();
	int result = check_device(device);
	if (!result && driver.devices[device].retained <= 0)
		result = CUDA_INVALID_CONTEXT;
	if (!result && --driver.devices[device].retained == 0)
		report_what_is_left(device);
	emulated_unlock();
	return result;
}

int cuCtxPushCurrent_v2(void *context)
{
	int result = emulated_enter(__func__, false, NULL);
	if (result)
		return result;
	long device = (char *)context - contexts;
	if (device < 0 || device >= DEVICES || !driver.devices[device].retained)
		result = CUDA_INVALID_CONTEXT;
	else if (current.depth == DEPTH)
		result = CUDA_OUT_OF_MEMORY;
	else
		current.device[current.depth++] = (int)device;
	emulated_unlock();
	return result;
}

int cuCtxPopCurrent_v2(void **context)
{
	if (!current.depth)
		return CUDA_INVALID_CONTEXT;
	*context = &contexts[current.device[--current.depth]];
	return CUDA_OK;
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return current.depth ? CUDA_OK : CUDA_INVALID_CONTEXT;
}

/* ---- modules and launches ---- */

/* Returns the name, up to the end of the line, in an image "emulated CUDA module NAME", as src/gpu/images makes it. Returns "", which stands for all kernels,
 * if the image is machine code or PTX, and NULL if it is anything else. The caller frees the name. */
static char *name_of_image(const void *image)
{
	static const char mark[] = "emulated CUDA module ";
	if (memcmp(image,
		    "\x7f"
		    "ELF",
		    4) == 0 ||
		memcmp(image, "//\n// G", 7) == 0)
		return strdup("");
	if (strncmp(image, mark, sizeof mark - 1) != 0)
		return NULL;
	const char *name = (const char *)image + sizeof mark - 1;
	return strndup(name, strcspn(name, "\n"));
}

int cuModuleLoadData(void **module, const void *image)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	char *name = name_of_image(image);
	struct module *m = calloc(1, sizeof *m);
	size_t kernels = (size_t)(__stop_stk_kernels - __start_stk_kernels);
	*m = (struct module){name, device, calloc(kernels, sizeof *m->functions), 0};
	for (size_t i = 0; name && i < kernels; i++)
		if (!name[0] || strcmp(name, __start_stk_kernels[i]->module) == 0)
			m->functions[m->count++] = (struct function){__start_stk_kernels[i], SHARED_UNASKED};
	driver.devices[device].objects++;
	*module = m;
	if (!name)
		result = CUDA_INVALID_IMAGE;
	else if (!m->count)
		result = CUDA_NO_BINARY_FOR_GPU;
	emulated_unlock();
	if (result)
		cuModuleUnload(m);
	return result;
}

int cuModuleUnload(void *module)
{
	int device = 0, result = emulated_enter_to_free(__func__, &device);
	if (result)
		return result;
	struct module *m = module;
	emulated_wait_for_device(m->device);
	driver.devices[m->device].objects--;
	free((void *)(uintptr_t)m->name);
	free(m->functions);
	free(m);
	emulated_unlock();
	return CUDA_OK;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	struct module *m = module;
	result = CUDA_NOT_FOUND;
	for (size_t i = 0; i < m->count && result; i++) {
		if (strcmp(m->functions[i].kernel->name, name) == 0) {
			*function = &m->functions[i];
			result = CUDA_OK;
		}
	}
	emulated_unlock();
	return result;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	if (attribute != CUDA_FUNC_MAX_DYNAMIC_SHARED || value < 0 || value > SHARED)
		result = CUDA_INVALID_VALUE;
	else
		((struct function *)function)->shared = value;
	emulated_unlock();
	return result;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
	void *stream, void **params, void **extra)
{
	int device = 0, result = emulated_enter(__func__, true, &device);
	if (result)
		return result;
	const struct function *f = function;
	struct operation *op = NULL;
	uint64_t threads = (uint64_t)bx * by * bz;
	if (extra || !gx || !gy || !gz || gx > INT32_MAX || gy > 65535 || gz > 65535 || !threads || threads > MOST_THREADS || bz > 64 ||
		shared > (unsigned)f->shared)
		result = CUDA_INVALID_VALUE;
	else if (!(op = emulated_operation(OPERATION_KERNEL, f->kernel->arguments)))
		result = CUDA_OUT_OF_MEMORY;
	if (!result) {
		op->kernel = f->kernel;
		op->grid = (struct emulated_dim){gx, gy, gz};
		op->block = (struct emulated_dim){bx, by, bz};
		op->size = shared;
		f->kernel->pack(op->packed, params);
		result = emulated_submit(device, stream, op);
	}
	emulated_unlock();
	return result;
}
