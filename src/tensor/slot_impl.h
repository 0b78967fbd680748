/* SPDX-License-Identifier: Apache-2.0
 * What the files of the ring share. Called without its lock unless a comment says otherwise. */
#ifndef STK_TENSOR_SLOT_IMPL_H
#define STK_TENSOR_SLOT_IMPL_H

#include "tensor/slot.h"

/* slot.c */
struct stk_slot *stk__slot_make(struct stk_ring *ring); /* without parts; NULL: memory is short */
void stk__slot_destroy(struct stk_slot *slot);
/* Gives the slot the parts that it lacks, and memory by what is expected; all parts are held by the caller, also where memory is short (false). */
bool stk__slot_lay_out(struct stk_slot *slot);
void stk__face_free(struct stk_face *face);

/* ring.c */
void stk__blocks_free(struct stk_ring *r, struct stk_block *list); /* a list of spare ones */
/* With the lock: moves the spare blocks of a value to a list. */
void stk__take_spares(struct stk_ring *ring, int32_t value, struct stk_block **list);

#endif
