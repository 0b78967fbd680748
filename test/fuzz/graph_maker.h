/* SPDX-License-Identifier: Apache-2.0
 * Random graphs, made from the operators' own tables: an operator or an argument that is added to them takes part by itself. */
#ifndef STK_TEST_GRAPH_MAKER_H
#define STK_TEST_GRAPH_MAKER_H

#include "stoker/stoker.h"

enum { MAKER_BATCH = 3 };

/* A graph over sources whose data depends on the seed alone. NULL: the seed gave none that could be built. */
struct stk_graph *make_random_graph(uint64_t seed, bool on_gpu);

#endif
