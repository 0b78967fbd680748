/* SPDX-License-Identifier: Apache-2.0
 * The kernels that run in the emulation: each by name, taking a pointer to its argument. */
#ifndef STK_TEST_CUDA_EMULATED_KERNELS_H
#define STK_TEST_CUDA_EMULATED_KERNELS_H

struct emulated_kernel {
	const char *name;
	void (*run)(void *argument);
};
extern const struct emulated_kernel emulated_kernels[]; /* ends with a NULL name */

#endif
