/* SPDX-License-Identifier: Apache-2.0
 *
 * The structures of DLPack 1.0 (https://dmlc.github.io/dlpack/latest/c_api.html). They fix an ABI, so their names and layout are DLPack's. */
#ifndef STK_EXEC_DLPACK_H
#define STK_EXEC_DLPACK_H

#include <stdint.h>

enum { kDLCPU = 1, kDLCUDA = 2 };
enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 };

typedef struct {
	int32_t device_type, device_id;
} DLDevice;

typedef struct {
	uint8_t code, bits;
	uint16_t lanes;
} DLDataType;

typedef struct {
	void *data;
	DLDevice device;
	int32_t ndim;
	DLDataType dtype;
	int64_t *shape, *strides;
	uint64_t byte_offset;
} DLTensor;

typedef struct {
	uint32_t major, minor;
} DLPackVersion;

typedef struct DLManagedTensorVersioned {
	DLPackVersion version;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensorVersioned *self);
	uint64_t flags;
	DLTensor dl_tensor;
} DLManagedTensorVersioned;

#endif
