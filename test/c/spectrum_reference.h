/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TEST_SPECTRUM_REFERENCE_H
#define STK_TEST_SPECTRUM_REFERENCE_H

#include "kernel/spectrum/spectrum.h"

/* Runs a job of spectra with the steps of fft_steps.h, one number at a time. */
void spectrum_reference(const struct stk_job *job);

#endif
