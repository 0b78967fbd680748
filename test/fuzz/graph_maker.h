/* SPDX-License-Identifier: Apache-2.0
 * Random graphs, generated from the operators' tables: a new operator or argument takes part automatically. */
#ifndef STK_TEST_GRAPH_MAKER_H
#define STK_TEST_GRAPH_MAKER_H

#include "stoker/stoker.h"

enum { MAKER_BATCH = 3 };

/* Makes a graph over sources whose data only depends on the seed. on_gpu: runs most operators on the GPU, and leaves out those that may give other bytes there.
 * Returns NULL if the seed gives a graph that cannot be built. */
struct stk_graph *make_random_graph(uint64_t seed, bool on_gpu);

#endif
