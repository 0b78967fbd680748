/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares the part of the CUDA driver API that Stoker uses. Its functions are looked up at run time in libcuda.so.1. Building and loading Stoker needs
 * nothing from CUDA: the few types and numbers below belong to the driver's stable ABI (CUDA Driver API reference, "Data types used by CUDA driver").
 *
 * Only src/gpu includes this header; other code uses gpu.h. */
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

/* Errors after which the process cannot use CUDA any more: all later calls fail with the same error, even if another library's work caused it. CUDA's
 * documentation says so of all but CUDA_ECC_UNCORRECTABLE, which is treated like the others. */
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
	CUDA_POINTER_MEMORY_TYPE = 2 /* an attribute for cuPointerGetAttribute */
};
enum { CUDA_CAPTURE_RELAXED = 2 };
enum { CUDA_ATTR_SHARED_PER_BLOCK_OPTIN = 97, CUDA_ATTR_PROCESSORS = 16, CUDA_ATTR_MAJOR = 75, CUDA_ATTR_MINOR = 76 };

/* X(name in libcuda.so.1, parameters). Handles are opaque pointers, an address in device memory is a 64-bit integer, results and devices are ints. A name
 * with _v2 is the one that the macros of cuda.h substitute for the plain name. */
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
	X(cuCtxSynchronize, (void))                                                                                                        \
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
	int version; /* the version of CUDA that the driver supports; 13000 is 13.0 */
#define STK_CUDA_POINTER(name, params) int(*name) params;
	STK_CUDA_FUNCTIONS(STK_CUDA_POINTER)
#undef STK_CUDA_POINTER
};

/* Loads and initialises the driver. STK_NOT_FOUND: no driver is installed, it lacks a function, or it finds no GPU; STK_STATE: the process was forked from one
 * that had used CUDA; STK_CUDA: the driver does not start. */
STK_MUST_USE enum stk_status stk__cuda_driver_load(struct stk_cuda_driver *d, struct stk_error *err);
void stk__cuda_driver_unload(struct stk_cuda_driver *d);

/* Sets `err` to "TEXT: CUDA_ERROR_NAME (the driver's text)", where TEXT is made from `fmt`. Returns STK_NO_MEMORY for CUDA_OUT_OF_MEMORY, STK_NOT_FOUND for
 * CUDA_NO_DEVICE, otherwise STK_CUDA. If the process can use no GPU any more after the error, the message also says so, and how to find its cause. */
STK_MUST_USE enum stk_status stk__cuda_fail(const struct stk_cuda_driver *d, int result, struct stk_error *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* A .cu file that the build has compiled for one architecture and embedded. Each image is compressed separately, and only the one that suits the GPU is
 * passed to the driver. CUDA's fat binaries would also offer a choice, but older drivers cannot read those that newer toolkits compress. */
struct stk_cuda_image {
	const char *name; /* name of the .cu file without its suffix */
	int arch;         /* 86 stands for sm_86; 0: runs on any GPU, as the emulated driver's images do */
	bool ptx;         /* true: PTX, which the driver compiles; false: machine code */
	size_t size;      /* size in bytes after decompression, without the zero byte that follows the data */
	const unsigned char *data, *end;
};
/* Returns the index of the image of a module that is best for a GPU of this compute capability (86 stands for 8.6): machine code for its generation,
 * otherwise PTX. Returns -1 if no image runs on it. */
int stk__cuda_find_image(const struct stk_cuda_image *images, int count, const char *name, int capability);

extern const struct stk_cuda_image stk__cuda_images[];
extern const int stk__cuda_image_count; /* 0 in a build without nvcc */
extern const int stk__cuda_toolkit;     /* version of the nvcc that compiled the images, in the format of stk_cuda_driver.version */
extern const char stk__cuda_archs[];    /* architectures of the images, for example "75 80 90" */

#endif
