/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether the cores or the GPU decode a progressive file of a GPU batch.
 *
 * The GPU takes milliseconds for one, which a training loop needs for other work; a core takes about two. So the cores decode all of them while they
 * have time, and in any case the few that most data sets have. When the cores are busy, the GPU decodes the smaller files, and as few as possible,
 * because a batch waits for its largest file. Both sides produce the same bytes.
 *
 * For tests and measurements, STOKER_PROGRESSIVE=cores gives all of them to the cores, and =gpu only the largest, whatever the load. */
#ifndef STK_EXEC_PROGRESSIVE_H
#define STK_EXEC_PROGRESSIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_pipeline;

struct stk_progressive {
	_Atomic int64_t changed_ns;
	_Atomic int32_t large; /* the cores decode files above this size, in hundredths of the mean size */
	bool forced;
};

void stk__progressive_init(struct stk_progressive *s);
/* Returns whether the cores should decode the pipeline's next progressive file, of `size` bytes. Any worker may call it. */
bool stk__progressive_is_for_cores(struct stk_pipeline *p, size_t size);

#endif
