/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types, layouts, tensors and lists of tensors. Views here own nothing; a batch (batch.h) owns their memory. */
#ifndef STOKER_TENSOR_H
#define STOKER_TENSOR_H

#include "stoker/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One line for each element type: name, number, bytes of an element, and the name that users write. The numbers are DALI's, so that serialised graphs agree;
 * only BFLOAT16 has another number. */
#define STK_DTYPE_LIST(X)                                                                                                                  \
	X(UINT8, 0, 1, "uint8")                                                                                                            \
	X(UINT16, 1, 2, "uint16")                                                                                                          \
	X(UINT32, 2, 4, "uint32")                                                                                                          \
	X(UINT64, 3, 8, "uint64")                                                                                                          \
	X(INT8, 4, 1, "int8")                                                                                                              \
	X(INT16, 5, 2, "int16")                                                                                                            \
	X(INT32, 6, 4, "int32")                                                                                                            \
	X(INT64, 7, 8, "int64")                                                                                                            \
	X(FLOAT16, 8, 2, "float16")                                                                                                        \
	X(FLOAT, 9, 4, "float32")                                                                                                          \
	X(FLOAT64, 10, 8, "float64")                                                                                                       \
	X(BOOL, 11, 1, "bool")                                                                                                             \
	X(BFLOAT16, 12, 2, "bfloat16")

/* Element types of the constants of an enumeration, which the operators random.choice and constant can return, and which other operators take as arguments of
 * that enumeration. They are stored as 32-bit numbers. Operators that compute refuse such tensors; the operator cast converts them to int32. */
#define STK_ENUMERATION_LIST(X)                                                                                                            \
	X(IMAGE_TYPE, 20, 4, "image type")                                                                                                 \
	X(DATA_TYPE, 21, 4, "data type")                                                                                                   \
	X(INTERP_TYPE, 22, 4, "interpolation type")

enum stk_dtype {
	STK_NO_DTYPE = -1,
#define STK_DTYPE_ENUM(name, value, bytes, text) STK_##name = value,
	STK_DTYPE_LIST(STK_DTYPE_ENUM) STK_DTYPE_COUNT, /* number of the types above; enumerations are not counted */
	STK_ENUMERATION_LIST(STK_DTYPE_ENUM)
#undef STK_DTYPE_ENUM
};

/* Colour formats of images, with DALI's values. YCbCr is in studio range (ITU-R BT.601: Y 16..235). ANY_DATA keeps the file's format. */
enum stk_image_type { STK_RGB, STK_BGR, STK_GRAY, STK_YCBCR, STK_ANY_DATA };

/* Interpolation, with DALI's values. */
enum stk_interp { STK_INTERP_NN, STK_INTERP_LINEAR, STK_INTERP_CUBIC, STK_INTERP_LANCZOS3, STK_INTERP_TRIANGULAR, STK_INTERP_GAUSSIAN };

#define STK_MAX_DIMS 8

/* Type, shape and layout of a tensor. An extent or an ndim of -1 is not known yet. layout names each dim ("HWC") or is "". */
struct stk_desc {
	enum stk_dtype dtype;
	int32_t ndim;
	int64_t shape[STK_MAX_DIMS];
	char layout[STK_MAX_DIMS + 1];
};

/* A dense row-major tensor. */
struct stk_tensor {
	void *data;
	struct stk_desc desc;
};

/* Return the size in bytes of an element and the type's name ("float32"); 0 and "?" for STK_NO_DTYPE and unknown types. Any thread. */
STK_API size_t stk_dtype_size(enum stk_dtype dtype);
STK_API const char *stk_dtype_name(enum stk_dtype dtype);

/* Return the number of elements of a tensor, and their total size in bytes; a tensor without dims has one element. -1: an extent is unknown, or the result is
 * above 2^63 - 1. */
STK_API int64_t stk_desc_elements(const struct stk_desc *desc);
STK_API int64_t stk_desc_bytes(const struct stk_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
