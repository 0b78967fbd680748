/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_INSTRUCTIONS_H
#define BENCH_INSTRUCTIONS_H

/* Calls fn(user). Instructions are counted inside: callgrind knows this function by name. */
void stk_measure(void (*fn)(void *user), void *user);

/* Prints the names of the operators' cases, and then measures one run of each case, in the same order. */
void measure_ops(void);

#endif
