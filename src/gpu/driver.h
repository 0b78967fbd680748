/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the CUDA driver API that stoker uses, found at run time in libcuda.so.1. Nothing of CUDA's is needed to build or to load the
 * library: the handful of types and numbers below is the driver's stable ABI (CUDA Driver API reference, "Data types used by CUDA driver").
 *
 * Only src/gpu includes this; others use gpu.h. */
#ifndef STK_GPU_DRIVER_H
#define STK_GPU_DRIVER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	CUDA_OK = 0,
	CUDA_OUT_OF_MEMORY = 2,
	CUDA_NOT_INITIALIZED = 3,
	CUDA_NO_DEVICE = 100,
	CUDA_NO_BINARY_FOR_GPU = 209,
	CUDA_NOT_READY = 600,
	CUDA_CAPTURE_IMPLICIT = 906,
};

/* "This leaves the process in an inconsistent state": all that comes later fails with the same error, whoever's kernel it was. */
enum {
	CUDA_ECC_UNCORRECTABLE = 214,
	CUDA_ILLEGAL_ADDRESS = 700,
	CUDA_LAUNCH_TIMEOUT = 702,
	CUDA_ASSERT = 710,
	CUDA_HARDWARE_STACK_ERROR = 714,
	CUDA_ILLEGAL_INSTRUCTION = 715,
	CUDA_MISALIGNED_ADDRESS = 716,
	CUDA_INVALID_ADDRESS_SPACE = 717,
	CUDA_INVALID_PC = 718,
	CUDA_LAUNCH_FAILED = 719,
};

enum {
	CUDA_EVENT_BLOCKING_SYNC = 1,
	CUDA_EVENT_DISABLE_TIMING = 2,
	CUDA_STREAM_NON_BLOCKING = 1,
	CUDA_FUNC_MAX_DYNAMIC_SHARED = 8,
	CUDA_HOST_PORTABLE = 1,
	CUDA_POINTER_MEMORY_TYPE = 2 /* of cuPointerGetAttribute */
};
enum { CUDA_CAPTURE_RELAXED = 2 };
enum { CUDA_ATTR_SHARED_PER_BLOCK_OPTIN = 97, CUDA_ATTR_PROCESSORS = 16, CUDA_ATTR_MAJOR = 75, CUDA_ATTR_MINOR = 76 };

/* Handles are opaque pointers, device memory is a 64-bit address, results and devices are ints.
 * X(name in libcuda.so.1, parameters); the _v2 entry points are what cuda.h's plain names mean. */
#define STK_CUDA_FUNCTIONS(X)                                                                                                              \
	X(cuInit, (unsigned flags))                                                                                                        \
	X(cuDriverGetVersion, (int *version))                                                                                              \
	X(cuGetErrorName, (int result, const char **name))                                                                                 \
	X(cuGetErrorString, (int result, const char **text))                                                                               \
	X(cuDeviceGetCount, (int *count))                                                                                                  \
	X(cuDeviceGet, (int *device, int ordinal))                                                                                         \
	X(cuDeviceGetName, (char *name, int size, int device))                                                                             \
	X(cuDeviceTotalMem_v2, (size_t * bytes, int device))                                                                               \
	X(cuDeviceGetAttribute, (int *value, int attribute, int device))                                                                   \
	X(cuDeviceGetPCIBusId, (char *id, int size, int device))                                                                           \
	X(cuDevicePrimaryCtxRetain, (void **context, int device))                                                                          \
	X(cuDevicePrimaryCtxRelease_v2, (int device))                                                                                      \
	X(cuCtxPushCurrent_v2, (void *context))                                                                                            \
	X(cuCtxPopCurrent_v2, (void **context))                                                                                            \
	X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                                                        \
	X(cuMemGetInfo_v2, (size_t * available, size_t * total))                                                                           \
	X(cuMemAlloc_v2, (uint64_t * address, size_t size))                                                                                \
	X(cuMemFree_v2, (uint64_t address))                                                                                                \
	X(cuMemHostAlloc, (void **memory, size_t size, unsigned flags))                                                                    \
	X(cuMemFreeHost, (void *memory))                                                                                                   \
	X(cuPointerGetAttribute, (void *value, int attribute, uint64_t address))                                                           \
	X(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t size, void *stream))                                                \
	X(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t size, void *stream))                                                      \
	X(cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t size, void *stream))                                                   \
	X(cuMemsetD8Async, (uint64_t to, unsigned char value, size_t size, void *stream))                                                  \
	X(cuStreamCreateWithPriority, (void **stream, unsigned flags, int priority))                                                       \
	X(cuStreamDestroy_v2, (void *stream))                                                                                              \
	X(cuStreamSynchronize, (void *stream))                                                                                             \
	X(cuStreamIsCapturing, (void *stream, int *status))                                                                                \
	X(cuThreadExchangeStreamCaptureMode, (int *mode))                                                                                  \
	X(cuStreamWaitEvent, (void *stream, void *event, unsigned flags))                                                                  \
	X(cuEventCreate, (void **event, unsigned flags))                                                                                   \
	X(cuEventDestroy_v2, (void *event))                                                                                                \
	X(cuEventRecord, (void *event, void *stream))                                                                                      \
	X(cuEventQuery, (void *event))                                                                                                     \
	X(cuEventSynchronize, (void *event))                                                                                               \
	X(cuEventElapsedTime, (float *milliseconds, void *from, void *to))                                                                 \
	X(cuModuleLoadData, (void **module, const void *image))                                                                            \
	X(cuModuleUnload, (void *module))                                                                                                  \
	X(cuModuleGetFunction, (void **function, void *module, const char *name))                                                          \
	X(cuFuncSetAttribute, (void *function, int attribute, int value))                                                                  \
	X(cuLaunchKernel, (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,  \
				  void *stream, void **params, void **extra))

struct stk_cuda_driver {
	void *library;
	int version; /* CUDA version that the driver supports: 13000 is 13.0 */
#define STK_CUDA_POINTER(name, params) int(*name) params;
	STK_CUDA_FUNCTIONS(STK_CUDA_POINTER)
#undef STK_CUDA_POINTER
};

/* Loads and initialises the driver. STK_NOT_FOUND: there is none, or it lacks a function; STK_CUDA: it does not start. */
STK_MUST_USE enum stk_status stk__cuda_driver_load(struct stk_cuda_driver *d, struct stk_error *err);
void stk__cuda_driver_unload(struct stk_cuda_driver *d);

/* "what: CUDA_ERROR_NAME (the driver's text)". CUDA_OUT_OF_MEMORY becomes STK_NO_MEMORY, CUDA_NO_DEVICE STK_NOT_FOUND, the rest STK_CUDA.
 * Of an error after which the process can use no GPU any more, the text says so, and how the call is found that it comes from. */
STK_MUST_USE enum stk_status stk__cuda_fail(const struct stk_cuda_driver *d, int result, struct stk_error *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* A .cu file compiled for one architecture, as the build embeds it. Each is deflated by itself: a driver gets the one that its GPU runs. Fat binaries
 * would choose as well, but older drivers cannot read those that newer toolkits compress. */
struct stk_cuda_image {
	const char *name; /* the .cu file's name without its suffix */
	int arch;         /* 86: sm_86; 0: any GPU's, as the emulated driver's */
	bool ptx;         /* the driver compiles it; else it is machine code */
	size_t size;      /* once inflated; a zero byte is at its end */
	const unsigned char *data, *end;
};
/* The image of a module that a GPU of a compute capability (86: 8.6) runs best: machine code of its own generation, else PTX. -1: there is none. */
int stk__cuda_find_image(const struct stk_cuda_image *images, int count, const char *name, int capability);

extern const struct stk_cuda_image stk__cuda_images[];
extern const int stk__cuda_image_count; /* 0 in a build without nvcc */
extern const int stk__cuda_toolkit;     /* version of the nvcc that made them, as in stk_cuda_driver.version */
extern const char stk__cuda_archs[];    /* "75 80 90" */

#endif
