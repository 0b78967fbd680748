/* SPDX-License-Identifier: Apache-2.0
 *
 * Which side decodes a progressive file of a batch on the GPU. There it takes milliseconds, of a GPU that a training loop has other work for; a core takes about
 * two. So the cores decode all of them while they have time, and the few that most data sets have in any case. Where they have not, the GPU decodes the
 * smaller ones, and as few as it takes: a batch waits for its largest. Bytes are the same on both sides.
 *
 * STOKER_PROGRESSIVE=gpu or cores, for tests and measurements, holds what else follows the load. */
#ifndef STK_EXEC_PROGRESSIVE_H
#define STK_EXEC_PROGRESSIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_pipeline;

struct stk_progressive {
	_Atomic int64_t changed_ns;
	_Atomic int32_t large; /* files above so many hundredths of their mean size are the cores' */
	bool held;
};

void stk__progressive_init(struct stk_progressive *s);
/* Whether the cores decode the pipeline's next progressive file, of so many bytes. Any worker. */
bool stk__progressive_is_for_cores(struct stk_pipeline *p, size_t size);

#endif
