/* SPDX-License-Identifier: Apache-2.0
 * Graphs over CIFAR, of which most qualify for a data set that lies on the GPU. */
#ifndef STK_TEST_CIFAR_RECIPES_H
#define STK_TEST_CIFAR_RECIPES_H

#include "graphs.h"

struct cifar {
	struct stk_graph *g;
	struct value image, label, flip, seldom; /* seldom: a coin of 0.3 */
};

struct recipe {
	const char *what;
	void (*add)(struct cifar in); /* operators and outputs behind the reader */
	bool resident, on_cores;
};

enum { RECIPES = 12 };
extern const struct recipe recipes[RECIPES];

#endif
