/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_INSTRUCTIONS_H
#define BENCH_INSTRUCTIONS_H

/* Calls fn(user). Callgrind counts the instructions inside this function, which it knows by name. */
void stk_measure(void (*fn)(void *user), void *user);

/* Prints the names of the operators' cases, then measures one run of each case in the same order. */
void measure_ops(void);

#endif
