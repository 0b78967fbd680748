/* SPDX-License-Identifier: Apache-2.0
 *
 * Which side decodes a progressive file of a batch on the GPU. There it takes milliseconds, of a GPU that a training loop has other work for; a core takes about
 * two. So the cores decode all of them while they have time, and the few that most data sets have in any case. When the cores are busy, the GPU decodes the
 * smaller ones, and only as many as it must: a batch waits for its largest. Bytes are the same on both sides.
 *
 * For tests and measurements STOKER_PROGRESSIVE=cores leaves all of them to the cores, and =gpu the largest alone, whatever the load. */
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
