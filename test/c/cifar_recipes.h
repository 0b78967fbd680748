/* SPDX-License-Identifier: Apache-2.0
 * Graphs over CIFAR. Most of them can run on a data set that is stored on the GPU. */
#ifndef STK_TEST_CIFAR_RECIPES_H
#define STK_TEST_CIFAR_RECIPES_H

#include "graphs.h"

struct cifar {
	struct stk_graph *g;
	struct value image, label, flip, seldom; /* seldom: a coin that is true with probability 0.3 */
};

struct recipe {
	const char *what;
	void (*add)(struct cifar in); /* adds the operators after the reader, and the outputs */
	bool resident, on_cores;      /* whether kernel/recipe can make the batches, on a GPU that stores the data set and on the cores */
};

enum { RECIPES = 12 };
extern const struct recipe recipes[RECIPES];

#endif
