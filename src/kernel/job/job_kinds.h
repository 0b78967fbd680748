/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of kinds of jobs. Each line has a name and the number of the kind's launches on the GPU. The kind is `stk__job_kind_NAME`. Launches run in this
 * order. A kind may also use launches of kinds that are listed before it. */
#ifndef STK_KERNEL_JOB_KINDS_H
#define STK_KERNEL_JOB_KINDS_H

#define STK_JOB_KIND_LIST(X)                                                                                                               \
	X(copy, 3)                                                                                                                         \
	X(one_hot, 1)                                                                                                                      \
	X(arithmetic, 3)                                                                                                                   \
	X(reduce, 3)                                                                                                                       \
	X(normalize, 3)                                                                                                                    \
	X(points, 1)                                                                                                                       \
	X(preemphasis, 1)                                                                                                                  \
	X(spectrum, 2)                                                                                                                     \
	X(bands, 2)                                                                                                                        \
	X(decibels, 2)                                                                                                                     \
	X(nonsilent, 2)                                                                                                                    \
	X(sinc, 1)                                                                                                                         \
	X(sample, 2)                                                                                                                       \
	X(resize, 3)                                                                                                                       \
	X(filter, 9)                                                                                                                       \
	X(pointwise, 5)                                                                                                                    \
	X(equalize, 2)                                                                                                                     \
	X(debayer, 1)                                                                                                                      \
	X(enhance, 1)                                                                                                                      \
	X(transform, 1)                                                                                                                    \
	X(image, 3)                                                                                                                        \
	X(jpeg_distortion, 2)

/* STK_JOB_copy and so on: the numbers of the kinds. */
enum {
#define STK_JOB_NUMBER(kind, launches) STK_JOB_##kind,
	STK_JOB_KIND_LIST(STK_JOB_NUMBER)
#undef STK_JOB_NUMBER
		STK_JOB_KINDS
};

/* STK_LAUNCH_copy and so on: the number of a kind's first launch among the launches of all kinds. */
enum {
#define STK_JOB_FIRST_LAUNCH(kind, launches) STK_LAUNCH_##kind, STK_LAUNCH_LAST_##kind = STK_LAUNCH_##kind + (launches)-1,
	STK_JOB_KIND_LIST(STK_JOB_FIRST_LAUNCH)
#undef STK_JOB_FIRST_LAUNCH
		STK_JOB_LAUNCHES
};

#endif
