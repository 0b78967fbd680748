/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_INSTRUCTIONS_H
#define BENCH_INSTRUCTIONS_H

/* Calls fn(user). Instructions are counted inside: callgrind knows this function by name. */
void stk_measure(void (*fn)(void *user), void *user);

/* Measures each operator's case once, in the order of the names that it prints. */
void measure_ops(void);

#endif
